//! Which replicas were given up for dead: so that one that comes back before it is replaced is taken back.
//!
//! A wish does not say why it was made. In a move that the operator or the balance wants, the one that is
//! to go is in sync all along; after a repair has begun it was away for longer than the repair delay. Who
//! steers remembers that. If another one steers meanwhile it is forgotten, and the repair goes on as if
//! nobody had come back: that costs time, and nothing else.
//!
//! Invariants:
//! - what is remembered is bounded by the replicas that records name.

use alloc::collections::BTreeSet;

use holdfast_model::record::{Membership, NodeStanding};
use holdfast_model::{NodeId, SliceId};
use holdfast_stdx::Duration;

use crate::Inventory;
use crate::members::{Part, Sight};

/// Takes note of the replicas that are away, on nodes that have been silent for longer than the repair
/// delay, and forgets those that are gone, or back where nothing else is wished.
pub fn note_given_up(
    inventory: &Inventory,
    sight: &Sight,
    given_up: &mut BTreeSet<(SliceId, NodeId)>,
) {
    given_up.retain(|(slice, node)| {
        let record = inventory.slices.get(slice);
        let replica = record.and_then(|record| record.replica(*node));
        let wish = inventory.wishes.get(slice);
        let is_to_go = wish.is_some_and(|wish| !wish.record.nodes.contains(node));
        replica.is_some_and(|replica| is_to_go || replica.membership != Membership::InSync)
    });
    let delay = Duration::from_secs(inventory.settings.record.repair_delay_seconds);
    for record in inventory.slices.values() {
        for replica in &record.replicas {
            let node = replica.node;
            let is_dead = replica.membership != Membership::InSync
                && inventory.part_of(node) == Part::Of(NodeStanding::Active)
                && sight.silent(node) >= delay;
            if is_dead {
                given_up.insert((record.slice, node));
            }
        }
    }
}
