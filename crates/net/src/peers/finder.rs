//! Where a node is that is known by name, for the door: it comes from there, as a rule.
//!
//! It refuses to say anything of a node that is known by its address, or is dialled: who dials looks names up by itself.
//!
//! Invariants:
//! - a name is looked up once at a time, and no more often than each [`FIND_WAIT`];
//! - what was found last counts until something else is.

use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use holdfast_model::NodeId;
use tokio::net::lookup_host;
use tokio::time::sleep;

use super::Shared;
use crate::task::Task;

/// Between two times that a name is looked up: a machine that is given another address is known there a minute later.
const FIND_WAIT: Duration = Duration::from_secs(60);

/// Looks a peer's name up, if it is for the peer to dial, and has one; as long as this is kept.
pub(crate) fn find(peer: NodeId, address: &str, shared: &Rc<Shared>) -> Option<Task> {
    if !shared.admitted.borrow().contains(&peer) || address.parse::<SocketAddr>().is_ok() {
        return None;
    }
    let (address, shared) = (address.to_owned(), Rc::clone(shared));
    Some(Task::start(async move {
        loop {
            // A name that is not found now is where it was.
            if let Ok(found) = lookup_host(&address).await {
                shared.door.note_found(peer, found.map(|it| it.ip()));
            }
            sleep(FIND_WAIT).await;
        }
    }))
}
