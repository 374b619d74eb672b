//! Who may do what with volumes, as the metadata has it: read when it has to be known, and replaced if it is still what was read.
//!
//! Invariants:
//! - the view never goes back to an older record of a volume's access;
//! - an outcome that is not known is told as that;
//! - what cannot be read permits nothing: no order goes by what was known before, and where nothing was, the volume is
//!   closed.

use alloc::collections::BTreeMap;
use alloc::vec;

use holdfast_model::VolumeId;
use holdfast_model::metadata::{
    Compare, MetadataAnswer, MetadataRequest, Operation, OperationResult, Revision, Selector,
    Transaction, TransactionOutcome,
};
use holdfast_model::record::{AccessRecord, CLUSTER_KEY, ExportRecord, Record, RecordError};
use holdfast_stdx::Bytes;

use super::lacking::pairs;
use super::{Change, Cluster, Purpose};

/// For no order: those are counted from 1.
const NOBODY: u64 = 0;

/// What became of a replacement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Swapped {
    /// It is the record, as of this revision.
    Done(Revision),
    /// There was another one, which is known now.
    Rejected,
    /// Nobody can tell.
    Unknown,
}

impl Cluster {
    /// The record of a volume's access, and since when it is so; none if nobody has ever registered.
    pub(crate) fn access(&self, volume: VolumeId) -> Option<&(AccessRecord, Revision)> {
        self.access.get(&volume)
    }

    /// Everything that was changed up to then is known here.
    pub(crate) fn is_known_through(&self, revision: Revision) -> bool {
        self.watch.is_some() && !self.is_astray() && self.notes.through() >= revision
    }

    /// Reads how it is now.
    pub(crate) fn read_access(&mut self, volume: VolumeId, number: u64) {
        if self.is_astray() {
            let change = Change::AccessRead(number, false);
            self.changes.push_back(change);
            return;
        }
        let ranges = [AccessRecord::key(volume), CLUSTER_KEY.into()];
        let ranges = ranges.map(|key| Operation::Range(Selector::Key(key)));
        self.transact(Purpose::ReadAccess(volume, number), vec![], ranges.into());
    }

    /// Reads how it is now, for nobody in particular.
    pub(crate) fn refresh_access(&mut self, volume: VolumeId) {
        let is_it = |(purpose, _): &(Purpose, _)| matches!(purpose, Purpose::ReadAccess(of, NOBODY) if *of == volume);
        if !self.requests.values().any(is_it) {
            self.read_access(volume, NOBODY);
        }
    }

    /// Replaces the record that is known here, if there is no newer one.
    pub(crate) fn swap_access(&mut self, record: &AccessRecord, number: u64) {
        if !self.may_change() {
            let change = Change::AccessSwapped(number, Swapped::Unknown);
            self.changes.push_back(change);
            return;
        }
        let volume = record.volume;
        let known = self.access.get(&volume);
        let key = AccessRecord::key(volume);
        let compare = Compare::ModRevision {
            key: key.clone(),
            equals: known.map_or(Revision(0), |(_, revision)| *revision),
        };
        let value = record.encode();
        let transaction = Transaction {
            compare: vec![compare],
            success: vec![Operation::put(key.clone(), value.clone())],
            failure: vec![Operation::Range(Selector::Key(key))],
        };
        let purpose = Purpose::SwapAccess(volume, number, value);
        self.ask(purpose, MetadataRequest::Transact(transaction));
    }

    /// It was asked for, and answered or not.
    pub(super) fn access_read(&mut self, volume: VolumeId, number: u64, answer: &MetadataAnswer) {
        let is_read = match answer {
            MetadataAnswer::Transacted(outcome) if !self.is_to_be_recognised() => {
                self.found_access(volume, outcome);
                !self.unreadable.contains(&AccessRecord::key(volume))
            }
            _ => false,
        };
        self.changes.push_back(Change::AccessRead(number, is_read));
    }

    pub(super) fn access_swapped(
        &mut self,
        volume: VolumeId,
        number: u64,
        value: Bytes,
        answer: &MetadataAnswer,
    ) {
        let swapped = match answer {
            MetadataAnswer::Transacted(outcome) if outcome.succeeded => {
                self.has_put(AccessRecord::key(volume), value, outcome.revision);
                Swapped::Done(outcome.revision)
            }
            MetadataAnswer::Transacted(outcome) => {
                self.found_access(volume, outcome);
                Swapped::Rejected
            }
            _ => Swapped::Unknown,
        };
        let change = Change::AccessSwapped(number, swapped);
        self.changes.push_back(change);
    }

    /// What was found where the record of a volume's access is.
    pub(super) fn found_access(&mut self, volume: VolumeId, outcome: &TransactionOutcome) {
        let key = AccessRecord::key(volume);
        match pairs(outcome).find(|pair| pair.key == key) {
            Some(pair) => drop(self.put(pair, true)),
            // One that nobody has deleted is lost: what was known stays until that is mended.
            None if self.is_deleted(volume)
                && self.access_is_older_than(volume, outcome.revision) =>
            {
                self.forget_access(volume);
            }
            None => {}
        }
    }

    fn access_is_older_than(&self, volume: VolumeId, revision: Revision) -> bool {
        let known = self.access.get(&volume);
        known.is_some_and(|(_, known)| *known <= revision)
    }

    /// The metadata says how it is. What cannot be read may have taken somebody's right: what was known before is gone by until
    /// that is mended, and where nothing was, the volume is for nobody.
    pub(super) fn take_access(
        &mut self,
        volume: VolumeId,
        value: &[u8],
        revision: Revision,
    ) -> Result<(), RecordError> {
        let read = self.put_access(volume, value, revision);
        let closes = read.is_err() && !self.access.contains_key(&volume);
        if closes && self.closed.insert(volume, revision).is_none() {
            self.changes.push_back(Change::Exports);
        }
        read
    }

    /// Another node says how it is: what it has read is as good as what is read here.
    pub(crate) fn hear_of_access(&mut self, volume: VolumeId, record: &[u8], revision: Revision) {
        // Who cannot read it hears of it as of any other document.
        let _ = self.put_access(volume, record, revision);
    }

    fn put_access(
        &mut self,
        volume: VolumeId,
        value: &[u8],
        revision: Revision,
    ) -> Result<(), RecordError> {
        let record = AccessRecord::decode(value)?;
        if !record.is_sound() || record.volume != volume {
            return Err(RecordError::Malformed);
        }
        if self
            .closed
            .get(&volume)
            .is_some_and(|closed| *closed > revision)
        {
            // What came after it cannot be read.
            return Ok(());
        }
        self.reopen(volume);
        if self.access_is_older_than(volume, revision) || !self.access.contains_key(&volume) {
            let before = self.access.insert(volume, (record, revision));
            if before.is_none_or(|(_, before)| before != revision) {
                self.changes.push_back(Change::Access(volume));
            }
        }
        Ok(())
    }

    /// It is known who may do what with a volume: those may use it whom it is for.
    fn reopen(&mut self, volume: VolumeId) {
        if self.closed.remove(&volume).is_some() {
            self.changes.push_back(Change::Exports);
        }
    }

    /// The volumes that are not for everybody, and whom they are for as things are.
    pub(crate) fn exports_now(&self) -> BTreeMap<VolumeId, ExportRecord> {
        let mut exports = self.exports.clone();
        let closed = self.closed.keys();
        exports.extend(closed.map(|volume| (*volume, ExportRecord::nobody(*volume))));
        exports
    }

    pub(super) fn forget_access(&mut self, volume: VolumeId) {
        self.reopen(volume);
        if self.access.remove(&volume).is_some() {
            self.changes.push_back(Change::Access(volume));
        }
    }

    /// Reads the record of a volume's access in the transaction that makes somebody the primary of a slice of it.
    pub(super) fn range_of_access(volume: VolumeId) -> Operation {
        Operation::Range(Selector::Key(AccessRecord::key(volume)))
    }

    /// It was read there.
    pub(super) fn proposed_with_access(&mut self, volume: VolumeId, outcome: &TransactionOutcome) {
        if matches!(outcome.results.last(), Some(OperationResult::Range(_))) {
            self.found_access(volume, outcome);
        }
    }
}
