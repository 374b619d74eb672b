//! Wishes for volumes that bear a key: each is answered once, and its repetitions as it was.
//!
//! What came of a wish is put on record in the transaction with which its volume is there, so that whoever dies in between
//! has done both or neither, and of two nodes that are asked the same at the same time one makes it.
//!
//! Invariants:
//! - so many are kept at most, and for so long; a new one makes room for itself.

use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use holdfast_model::metadata::{Compare, Operation, Selector, Transaction};
use holdfast_model::record::{CreationRecord, VolumeRecord};

use crate::writing::{as_found, put, still_at};
use crate::{Inventory, Plan};

/// Wishes that are kept at most: the oldest gives way. All are read with everything else.
pub const CREATIONS_MAX: usize = 256;
/// For how long one is kept, if there is room: longer than anybody repeats a request.
pub const CREATION_KEPT_SECONDS: u64 = 24 * 60 * 60;
/// Old ones that go with a new one at most: a transaction has its bounds.
const CLEARED_MAX: usize = 16;

/// A wish that bears a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wish {
    /// The key.
    pub key: String,
    /// What is wished for, word by word.
    pub words: String,
    /// When it is: seconds since 1970 (UTC).
    pub now_seconds: u64,
}

/// The key was another wish's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("another request bore this key")]
pub struct KeyReused;

impl Wish {
    /// What came of it before, if it was wished before.
    ///
    /// # Errors
    /// [`KeyReused`] if something else was.
    pub fn answered<'a>(
        &self,
        inventory: &'a Inventory,
    ) -> Result<Option<&'a CreationRecord>, KeyReused> {
        let found = inventory.creations.get(&CreationRecord::key(&self.key));
        match found.map(|found| &found.record) {
            Some(record) if self.is_over(record) => Ok(None),
            Some(record) if record.wish != self.words => Err(KeyReused),
            found => Ok(found),
        }
    }

    /// A plan for it, with the record of what came of it.
    #[must_use]
    pub fn keep(&self, inventory: &Inventory, plan: Plan) -> Vec<Transaction> {
        let Plan {
            mut transactions,
            volume,
        } = plan;
        // The last one makes the volume; where none does there is one already, as long as that is so.
        let (mut last, made) = match transactions.pop() {
            Some(last) => (last, true),
            None => {
                let there = inventory.volumes.get(&volume.volume);
                let there = there.expect("what is not to be made is there");
                let compare = still_at(VolumeRecord::key(volume.volume), there.revision);
                let transaction = Transaction {
                    compare: vec![compare],
                    ..Transaction::default()
                };
                (transaction, false)
            }
        };
        let record = CreationRecord {
            schema: 1,
            volume: volume.volume,
            made,
            wish: self.words.clone(),
            at_seconds: self.now_seconds,
        };
        let (compare, operations) = self.note(inventory, &record);
        last.compare.push(compare);
        last.success.extend(operations);
        transactions.push(last);
        transactions
    }

    fn note(&self, inventory: &Inventory, record: &CreationRecord) -> (Compare, Vec<Operation>) {
        let key = CreationRecord::key(&self.key);
        let mut others: Vec<_> = inventory.creations.iter().collect();
        others.retain(|(place, _)| **place != key);
        others.sort_by_key(|(_, found)| (found.record.at_seconds, found.revision));
        let too_many = (others.len() + 1).saturating_sub(CREATIONS_MAX);
        let go = others
            .iter()
            .enumerate()
            .filter(|(place, (_, found))| *place < too_many || self.is_over(&found.record))
            .take(CLEARED_MAX)
            .map(|(_, (place, _))| Operation::Delete(Selector::Key((*place).clone())));
        let mut operations: Vec<_> = go.collect();
        operations.push(put(key.clone(), record));
        let found = inventory.creations.get(&key);
        (as_found(key, found), operations)
    }

    /// Whether it was so long ago that it counts no more.
    fn is_over(&self, record: &CreationRecord) -> bool {
        self.now_seconds.saturating_sub(record.at_seconds) > CREATION_KEPT_SECONDS
    }
}
