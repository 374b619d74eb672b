//! Dials a peer until there is a link, and again when it has ended.
//!
//! Invariants:
//! - one attempt at a time, and a wait before each that grows while links do not last;
//! - what is dialled anew is what this dialler has dialled last: the end of a link before that is no reason.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use holdfast_model::NodeId;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

use super::greeting::{Identity, dial};
use super::{Item, Shared};
use crate::limits::{LINK_GOOD_AFTER, REDIAL_WAIT_MAX, REDIAL_WAIT_MIN};
use crate::task::Task;

/// Dials one peer.
pub(crate) struct Dialler {
    orders: Rc<Orders>,
    _task: Task,
}

/// Which of the links has ended, by the number that was drawn for it.
#[derive(Default)]
struct Orders {
    /// The last one that has.
    ended: Cell<u64>,
    has_ended: Notify,
    /// The one that is up already.
    up: Cell<Option<u64>>,
}

impl Orders {
    fn end(&self, link: u64) {
        self.ended.set(self.ended.get().max(link));
        self.has_ended.notify_one();
    }

    /// Waits until this link has ended, or a later one.
    async fn until_ended(&self, link: u64) {
        while self.ended.get() < link {
            self.has_ended.notified().await;
        }
    }
}

impl Dialler {
    /// Begins to dial, if it is for this node to do so: the lower number dials the higher.
    pub(crate) fn start(
        identity: Identity,
        peer: NodeId,
        address: &str,
        shared: &Rc<Shared>,
    ) -> Option<Self> {
        assert!(peer != identity.node, "a node has no link to itself");
        if peer < identity.node {
            return None;
        }
        let orders = Rc::new(Orders::default());
        let task = Task::start(run(
            identity,
            peer,
            address.to_owned(),
            Rc::clone(&orders),
            Rc::clone(shared),
        ));
        Some(Self {
            orders,
            _task: task,
        })
    }

    /// This link is up already: the first attempt is for when it has ended. To be called before
    /// the task has run.
    pub(crate) fn rest(&self, link: u64) {
        self.orders.up.set(Some(link));
    }

    /// This link has ended.
    pub(crate) fn redial(&self, link: u64) {
        self.orders.end(link);
    }
}

async fn run(
    identity: Identity,
    peer: NodeId,
    address: String,
    orders: Rc<Orders>,
    shared: Rc<Shared>,
) {
    if let Some(link) = orders.up.get() {
        orders.until_ended(link).await;
    }
    let mut wait = Duration::ZERO;
    loop {
        sleep(wait).await;
        wait = (wait * 2).clamp(REDIAL_WAIT_MIN, REDIAL_WAIT_MAX);
        let link = shared.link_nonce.get() + 1;
        shared.link_nonce.set(link);
        let tls = shared
            .tls
            .as_ref()
            .map(|tls| (tls, &shared.handshakes.dialled));
        match dial(identity, tls, peer, &address, link).await {
            Ok(greeted) => {
                let up = Instant::now();
                shared.inbox.push(Item::Dialled { peer, greeted }, 0);
                orders.until_ended(link).await;
                if up.elapsed() >= LINK_GOOD_AFTER {
                    wait = REDIAL_WAIT_MIN;
                }
            }
            Err(error) => {
                let item = Item::Failed {
                    peer,
                    place: address.clone(),
                    error,
                };
                shared.inbox.push(item, 0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::runtime::Builder;
    use tokio::time::timeout;

    use super::*;

    /// A link may end while the next one is being dialled already, at another address.
    #[test]
    fn the_end_of_a_former_link_is_no_reason_to_dial_again() {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let orders = Orders::default();
            let soon = Duration::from_millis(10);
            orders.end(1);
            assert!(timeout(soon, orders.until_ended(2)).await.is_err());
            let ends = async {
                sleep(soon).await;
                orders.end(1);
                sleep(soon).await;
                orders.end(2);
            };
            let started = Instant::now();
            tokio::join!(orders.until_ended(2), ends);
            assert!(started.elapsed() >= 2 * soon);
            // And one that has ended before it was waited for has.
            orders.end(3);
            orders.until_ended(3).await;
        });
    }
}
