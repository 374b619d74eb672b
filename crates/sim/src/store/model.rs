//! What a slice must hold, by the simplest means: every version of every block, and every call that
//! recovery may or must have seen.
//!
//! Calls of one slice become durable in their order, so what recovery finds is what some number of
//! them leave behind: at least those that were reported durable.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use holdfast_model::{
    BLOCKS_PER_PAGE, BlockRange, Change, CommandId, Entry, Epoch, PageIndex, Sequence,
};
use holdfast_stdx::{Bytes, Instant};

use super::content::{Tag, tag_of};

/// A call that changes what recovery finds.
#[derive(Clone, Debug)]
pub(crate) enum Call {
    Append(Entry),
    BeginEpoch(Sequence),
    Restart((Epoch, Sequence)),
    State(Bytes),
    Drop,
    /// An install, or something else that leaves the log as it is.
    Other,
}

/// The log that a number of calls leave behind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Log {
    pub(crate) entries: BTreeMap<Sequence, Entry>,
    pub(crate) prepared: (Epoch, Sequence),
    /// Where the log begins.
    begin: (Epoch, Sequence),
    pub(crate) state: Option<Bytes>,
}

impl Log {
    fn apply(&mut self, call: &Call) {
        match call {
            Call::Append(entry) => {
                self.entries.insert(entry.sequence, entry.clone());
                self.prepared = (entry.epoch, entry.sequence);
            }
            Call::BeginEpoch(after) => self.void_above(*after),
            Call::Restart(at) => {
                self.entries.clear();
                self.prepared = *at;
                self.begin = *at;
            }
            Call::State(state) => self.state = Some(state.clone()),
            Call::Drop => *self = Self::default(),
            Call::Other => {}
        }
    }

    pub(crate) fn void_above(&mut self, after: Sequence) {
        self.entries.split_off(&after.next());
        if self.prepared.1 > after {
            let epoch = self.entries.get(&after).map(|entry| entry.epoch);
            assert!(
                epoch.is_some() || self.begin.1 == after,
                "the log has what it ends with"
            );
            self.prepared = (epoch.unwrap_or(self.begin.0), after);
        }
    }
}

/// One slice.
#[derive(Clone, Debug, Default)]
pub(crate) struct ModelSlice {
    /// Versions of each block, by the sequence that wrote it. Void ones are removed.
    versions: BTreeMap<u32, BTreeMap<Sequence, Tag>>,
    /// What is certain to be found, and the calls that are under way.
    pub(crate) durable: Log,
    pub(crate) calls: VecDeque<(u64, Call)>,
    /// What all calls leave behind.
    pub(crate) log: Log,
    pub(crate) epoch: Epoch,
    /// Known to be committed.
    pub(crate) committed: Sequence,
    /// While a replica is being filled: the blocks that it has; `None` if it has all.
    pub(crate) filled: Option<BTreeSet<u32>>,
    /// It is being dropped; whether it then is filled again rather than begun anew.
    pub(crate) dropping: Option<bool>,
    /// When each command's entry was appended.
    pub(crate) commands: BTreeMap<CommandId, (Sequence, Instant)>,
}

impl ModelSlice {
    /// Notes a call and what it does.
    pub(crate) fn call(&mut self, token: u64, call: Call) {
        match &call {
            Call::Append(entry) => self.write_versions(entry),
            Call::BeginEpoch(after) => self.forget_versions_above(*after),
            _ => {}
        }
        self.log.apply(&call);
        self.calls.push_back((token, call));
    }

    /// The oldest call is durable.
    pub(crate) fn durable(&mut self, token: u64) -> Result<(), String> {
        let (expected, call) = self.calls.pop_front().ok_or("nothing was under way")?;
        if expected != token {
            return Err(format!("{token} is durable before {expected}"));
        }
        self.durable.apply(&call);
        Ok(())
    }

    /// The highest sequence that may be committed: it is durable, and no call under way voids it.
    pub(crate) fn committable(&self) -> Sequence {
        let kept = self.calls.iter().filter_map(|(_, call)| match call {
            Call::BeginEpoch(after) => Some(*after),
            Call::Restart((_, at)) => Some(*at),
            Call::Drop => Some(Sequence::ZERO),
            _ => None,
        });
        kept.fold(self.durable.prepared.1, Sequence::min)
    }

    /// What recovery may find: what is durable, and one more call after the other.
    pub(crate) fn candidates(&self) -> Vec<Log> {
        let mut log = self.durable.clone();
        let mut candidates = vec![log.clone()];
        for (_, call) in &self.calls {
            log.apply(call);
            candidates.push(log.clone());
        }
        candidates
    }

    /// Takes what recovery has found for the truth.
    pub(crate) fn recovered_as(&mut self, log: Log) {
        self.calls.clear();
        self.forget_versions_above(self.committed);
        let above: Vec<Entry> = log
            .entries
            .range(self.committed.next()..)
            .map(|(_, entry)| entry.clone())
            .collect();
        for entry in above {
            self.write_versions(&entry);
        }
        self.durable = log.clone();
        self.log = log;
    }

    fn write_versions(&mut self, entry: &Entry) {
        let sequence = entry.sequence;
        match &entry.change {
            Change::Write { start, data, .. } => {
                for (block, bytes) in (start.0..).zip(data.chunks(4096)) {
                    let tag = tag_of(bytes).expect("the simulation writes contents of its own");
                    let versions = self.versions.entry(block).or_default();
                    versions.insert(sequence, tag);
                }
            }
            Change::Clear(range) => {
                // Only blocks that ever were something are kept.
                for (_, versions) in self.versions.range_mut(range.start()..range.end()) {
                    versions.insert(sequence, 0);
                }
            }
            Change::Nothing => {}
        }
    }

    pub(crate) fn forget_versions_above(&mut self, after: Sequence) {
        for versions in self.versions.values_mut() {
            versions.split_off(&after.next());
        }
        self.commands.retain(|_, (sequence, _)| *sequence <= after);
    }

    /// What a block is as of a sequence.
    pub(crate) fn at(&self, block: u32, sequence: Sequence) -> Tag {
        self.versions
            .get(&block)
            .and_then(|versions| versions.range(..=sequence).next_back())
            .map_or(0, |(_, tag)| *tag)
    }

    /// The blocks that ever were something.
    pub(crate) fn blocks(&self) -> impl Iterator<Item = u32> {
        self.versions.keys().copied()
    }

    /// Whether a block was written or cleared above a sequence, and not above another.
    pub(crate) fn changed(&self, block: u32, above: Sequence, through: Sequence) -> bool {
        let versions = self.versions.get(&block);
        let last = versions.and_then(|versions| versions.range(..=through).next_back());
        last.is_some_and(|(sequence, _)| *sequence > above)
    }

    /// Whether a block may be `tag` for a reader that began at one point and ended at another.
    pub(crate) fn allows(&self, block: u32, from: Sequence, to: Sequence, tag: Tag) -> bool {
        self.at(block, from) == tag
            || self.versions.get(&block).is_some_and(|versions| {
                from < to
                    && versions
                        .range(from.next()..=to)
                        .any(|(_, other)| *other == tag)
            })
    }

    /// Whether a replica that is being filled has the block.
    pub(crate) fn has(&self, block: u32) -> bool {
        self.filled
            .as_ref()
            .is_none_or(|filled| filled.contains(&block))
    }

    /// The pages with blocks that are not zero as of a sequence.
    pub(crate) fn allocated(&self, at: Sequence) -> BTreeMap<PageIndex, u64> {
        let mut pages: BTreeMap<PageIndex, u64> = BTreeMap::new();
        for block in self.versions.keys() {
            if self.at(*block, at) != 0 {
                let page = PageIndex(block / BLOCKS_PER_PAGE);
                *pages.entry(page).or_default() |= 1 << (block % BLOCKS_PER_PAGE);
            }
        }
        pages
    }

    /// Whether an entry above `committed` touches the range.
    pub(crate) fn is_dirty(&self, range: BlockRange, committed: Sequence) -> bool {
        self.log
            .entries
            .range(committed.next()..)
            .filter_map(|(_, entry)| entry.change.range())
            .any(|other| other.overlaps(range))
    }
}
