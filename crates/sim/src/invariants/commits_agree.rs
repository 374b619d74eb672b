//! What one replica takes for committed, every other one that gets there takes for committed too,
//! at the same place (PacificA, Commit Invariant; `architecture.md`, invariant 3).

use std::collections::BTreeMap;

use holdfast_engine::{Engine, ReplicaView};
use holdfast_model::{Change, CommandId, Entry, Epoch, NodeId, Sequence, SliceId};
use holdfast_stdx::crc32c;

use super::late_writes::LateWrites;
use super::settled::Settled;
use crate::failure::Failure;

/// What tells entries apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Print {
    epoch: Epoch,
    command: CommandId,
    change: u32,
}

/// What was committed.
#[derive(Debug, Default)]
pub(super) struct CommitsAgree {
    committed: BTreeMap<(SliceId, Sequence), (Print, NodeId)>,
    /// Commands that may not be committed any more.
    pub(super) settled: Settled,
    /// Writes that may not change anything any more.
    pub(super) late_writes: LateWrites,
    /// How far each node's replicas were looked at.
    seen: BTreeMap<(NodeId, SliceId), Sequence>,
}

impl CommitsAgree {
    pub(super) fn check(
        &mut self,
        node: NodeId,
        engine: &Engine,
        view: &ReplicaView,
    ) -> Result<(), Failure> {
        let slice = view.slice;
        let seen = self.seen.entry((node, slice)).or_insert(view.committed);
        if *seen == view.committed {
            return Ok(());
        }
        let from = std::mem::replace(seen, view.committed);
        for entry in engine.entries_above(slice, from) {
            if entry.sequence > view.committed {
                break;
            }
            let print = Print::of(entry);
            let place = (slice, entry.sequence);
            if !self.committed.contains_key(&place) {
                self.settled.check(node, entry)?;
                self.late_writes.check(node, slice, entry)?;
            }
            let known = self.committed.entry(place).or_insert((print, node));
            if known.0 != print {
                let (other, by) = *known;
                let sequence = entry.sequence;
                return Err(Failure::Invariant {
                    name: "commits agree",
                    what: format!(
                        "{slice} {sequence} is {print:?} at {node}, and was {other:?} at {by}"
                    ),
                });
            }
        }
        Ok(())
    }

    pub(super) fn process_ended(&mut self, node: NodeId) {
        self.seen.retain(|(of, _), _| *of != node);
    }

    pub(super) fn count(&self) -> usize {
        self.committed.len()
    }
}

impl Print {
    fn of(entry: &Entry) -> Self {
        let change = match &entry.change {
            Change::Write {
                start, checksums, ..
            } => {
                let sums: Vec<u8> = checksums.iter().flat_map(|sum| sum.to_le_bytes()).collect();
                crc32c(&sums) ^ start.0
            }
            Change::Clear(range) => !range.start() ^ range.count().rotate_left(16),
            Change::Nothing => 0,
        };
        Self {
            epoch: entry.epoch,
            command: entry.command,
            change,
        }
    }
}
