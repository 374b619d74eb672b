//! When a reset of a unit is answered, every write that was with any node before is committed, or
//! never will be (`replication.md`, Aborts and resets).

use std::collections::{BTreeMap, BTreeSet};

use holdfast_model::{CommandId, Entry, NodeId};

use crate::failure::Failure;

/// Writes that hosts were told are over.
#[derive(Debug, Default)]
pub(super) struct Settled {
    /// What was under way when a host last sent a reset.
    asked: BTreeMap<usize, Vec<CommandId>>,
    settled: BTreeSet<CommandId>,
}

impl Settled {
    pub(super) fn reset_sent(&mut self, host: usize, writes: Vec<CommandId>) {
        self.asked.insert(host, writes);
    }

    pub(super) fn reset_done(&mut self, host: usize) {
        self.settled
            .extend(self.asked.remove(&host).into_iter().flatten());
    }

    /// An entry is seen committed for the first time.
    pub(super) fn check(&self, node: NodeId, entry: &Entry) -> Result<(), Failure> {
        if !self.settled.contains(&entry.command) {
            return Ok(());
        }
        Err(Failure::Invariant {
            name: "settled",
            what: format!(
                "{node} commits {} of {:?} after a reset said that it was over",
                entry.sequence, entry.command
            ),
        })
    }
}
