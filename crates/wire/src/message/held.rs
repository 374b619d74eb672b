//! Entries whose data the receiver has: it forwarded the command itself, and waits for its end.

use holdfast_model::{
    BLOCK_SIZE, BlockIndex, Change, Checksums, CommandId, Entry, Epoch, Fence, Sequence, SliceId,
};
use holdfast_stdx::{Bytes, crc32c};

use super::Prepare;

/// An entry to be appended: a [`Prepare`] without its data, which is that of the command. Since version 9.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrepareHeld {
    /// The slice.
    pub slice: SliceId,
    /// The epoch in which it is sent.
    pub epoch: Epoch,
    /// The epoch in which the entry was numbered.
    pub numbered_in: Epoch,
    /// The entry's place in the slice's order.
    pub sequence: Sequence,
    /// The access rights under which it was admitted.
    pub fence: Fence,
    /// The command that the receiver has forwarded.
    pub command: CommandId,
    /// The first block that it writes.
    pub start: BlockIndex,
    /// CRC-32C of each block.
    pub checksums: Checksums,
    /// The primary's committed point.
    pub committed: Sequence,
    /// The lowest stable point among the in-sync replicas.
    pub stable: Sequence,
}

impl PrepareHeld {
    /// What is left of a message without the data; nothing if its entry has none.
    #[must_use]
    pub fn of(prepare: &Prepare) -> Option<Self> {
        let Prepare { entry, .. } = prepare;
        let Change::Write {
            start, checksums, ..
        } = &entry.change
        else {
            return None;
        };
        Some(Self {
            slice: prepare.slice,
            epoch: prepare.epoch,
            numbered_in: entry.epoch,
            sequence: entry.sequence,
            fence: entry.fence,
            command: entry.command,
            start: *start,
            checksums: checksums.clone(),
            committed: prepare.committed,
            stable: prepare.stable,
        })
    }

    /// The whole message, with the data from where the receiver has it. Nothing if that is other data: of
    /// another length, or with other checksums.
    #[must_use]
    pub fn with(self, data: Bytes) -> Option<Prepare> {
        let own = data.chunks(BLOCK_SIZE).map(crc32c);
        let is_it = data.len() == self.checksums.len() * BLOCK_SIZE
            && own.eq(self.checksums.iter().copied());
        is_it.then(|| Prepare {
            slice: self.slice,
            epoch: self.epoch,
            entry: Entry {
                epoch: self.numbered_in,
                sequence: self.sequence,
                fence: self.fence,
                command: self.command,
                change: Change::Write {
                    start: self.start,
                    data,
                    checksums: self.checksums,
                },
            },
            committed: self.committed,
            stable: self.stable,
        })
    }
}
