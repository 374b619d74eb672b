//! Dials a peer until there is a link, and again when it has ended.
//!
//! Invariant: one attempt at a time, and a wait before each that grows while links do not last.

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

#[derive(Default)]
struct Orders {
    redial: Notify,
    rest: std::cell::Cell<bool>,
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

    /// There is a link already: the first attempt is for when it has ended. To be called before
    /// the task has run.
    pub(crate) fn rest(&self) {
        self.orders.rest.set(true);
    }

    /// The link has ended.
    pub(crate) fn redial(&self) {
        self.orders.redial.notify_one();
    }
}

async fn run(
    identity: Identity,
    peer: NodeId,
    address: String,
    orders: Rc<Orders>,
    shared: Rc<Shared>,
) {
    if orders.rest.get() {
        orders.redial.notified().await;
    }
    let mut wait = Duration::ZERO;
    loop {
        sleep(wait).await;
        wait = (wait * 2).clamp(REDIAL_WAIT_MIN, REDIAL_WAIT_MAX);
        let link = shared.link_nonce.get() + 1;
        shared.link_nonce.set(link);
        match dial(identity, shared.tls.as_ref(), peer, &address, link).await {
            Ok(greeted) => {
                let up = Instant::now();
                shared.inbox.push(Item::Dialled { peer, greeted }, 0);
                orders.redial.notified().await;
                if up.elapsed() >= LINK_GOOD_AFTER {
                    wait = REDIAL_WAIT_MIN;
                }
            }
            Err(error) => {
                let item = Item::Failed {
                    peer: Some(peer),
                    place: address.clone(),
                    error,
                };
                shared.inbox.push(item, 0);
            }
        }
    }
}
