//! What must hold after every step, one file each.

mod commits_agree;
mod late_writes;
mod one_primary;
mod records;
mod settled;

use holdfast_engine::Engine;
use holdfast_metadata::Machine;
use holdfast_model::{CommandId, NodeId};
use holdfast_stdx::Instant;

use self::commits_agree::CommitsAgree;
use self::one_primary::OnePrimary;
use self::records::Records;
use crate::content::Value;
use crate::failure::Failure;

/// All of them, and what they remember.
#[derive(Debug, Default)]
pub(crate) struct Invariants {
    one_primary: OnePrimary,
    commits_agree: CommitsAgree,
    records: Records,
}

impl Invariants {
    /// An engine has done something. `now` is what its clock shows.
    pub(crate) fn after_step(
        &mut self,
        node: NodeId,
        start: u64,
        engine: &Engine,
        now: Instant,
    ) -> Result<(), Failure> {
        for view in engine.views(now) {
            self.one_primary.check(node, start, &view)?;
            self.commits_agree.check(node, engine, &view)?;
        }
        Ok(())
    }

    /// A host was told that its write is done.
    pub(crate) fn write_done(&mut self, write: Value) {
        self.commits_agree.late_writes.done(write);
    }

    /// A host resets a unit while these writes are under way.
    pub(crate) fn reset_sent(&mut self, host: usize, writes: Vec<CommandId>) {
        self.commits_agree.settled.reset_sent(host, writes);
    }

    /// Its reset was answered.
    pub(crate) fn reset_done(&mut self, host: usize) {
        self.commits_agree.settled.reset_done(host);
    }

    /// A process has ended.
    pub(crate) fn process_ended(&mut self, node: NodeId) {
        self.commits_agree.process_ended(node);
    }

    /// The metadata has changed.
    pub(crate) fn agreed(&mut self, machine: &Machine) -> Result<(), Failure> {
        machine.assert_invariants();
        self.records.check(machine)
    }

    /// Entries that were seen committed.
    pub(crate) fn commit_count(&self) -> usize {
        self.commits_agree.count()
    }
}
