//! Parts of copies at the primary of the slice that is written: it reads what they write, and then writes that as it would
//! anything. So what is copied between slices of the same nodes is seen by no other, whoever was asked for the copy.
//!
//! What is read is a part of this node's own: it is read here, if that may be, or by the primary of the slice that is read, and
//! goes wherever that is. Whether the portal here or another node has asked for the copy makes no difference.
//!
//! It refuses to number anything: a command has its number, as a write, once it is known what it writes.
//!
//! Invariants:
//! - a command that is read for has no number here, and gets none once somebody was told that it is over, or asked what became
//!   of it;
//! - nothing is read by an access to the volume that is read that is known to be over, nor by one that is not known here yet;
//! - what is being read at a time is bounded, for all portals together, and for each volume that is read, so that one which nobody serves
//!   does not hold the others up: a command beyond it is to come again;
//! - nothing is read for a command for longer than that may be numbered, nor for one of an epoch that is over.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use holdfast_model::{
    BLOCK_SIZE, BlockIndex, BlockRange, CommandId, Epoch, Fence, NodeId, SliceId, VolumeId,
};
use holdfast_replica::timing::LIFETIME;
use holdfast_replica::{Operation, Prospect, Terms, WriteKind};
use holdfast_scsi::MediumError;
use holdfast_stdx::{Bytes, is_zero};
use holdfast_store::ReadSource;
use holdfast_wire::{Contents, CopySource, OutcomeCode, Unread};

use crate::engine::Engine;
use crate::operation::{Window, first_bad, push_bytes};
use crate::part::{self, Owner, Part, PartKind};
use crate::parts::budget::COPIED_BYTES_MAX;

/// Commands that are read for, at most.
const COPIES_MAX: usize = 1024;
/// Bytes that are read of one volume for them, at most.
const READ_OF_ONE_MAX: u64 = COPIED_BYTES_MAX / 2;

/// A command that waits for what it is to write.
#[derive(Debug)]
struct Copying {
    slice: SliceId,
    terms: Terms,
    offset: u64,
    source: CopySource,
    /// The part that reads.
    read: CommandId,
    /// The epoch in which the slice was led here.
    epoch: Option<Epoch>,
}

/// Commands that wait for what they are to write.
#[derive(Debug, Default)]
pub(super) struct Copyings {
    commands: BTreeMap<CommandId, Copying>,
}

impl Copyings {
    /// Whether one more may be read for, that reads this.
    fn has_room(&self, source: &CopySource) -> bool {
        let mut all = u64::from(source.length);
        let mut of_volume = all;
        for Copying { source: other, .. } in self.commands.values() {
            let bytes = u64::from(other.length);
            all += bytes;
            if other.slice.volume == source.slice.volume {
                of_volume += bytes;
            }
        }
        self.commands.len() < COPIES_MAX && all <= COPIED_BYTES_MAX && of_volume <= READ_OF_ONE_MAX
    }

    fn insert(&mut self, copying: Copying) {
        let before = self.commands.insert(copying.terms.command, copying);
        assert!(before.is_none(), "a command is read for once at a time");
    }

    fn which(&self, keep: impl Fn(&Copying) -> bool) -> Vec<CommandId> {
        let commands = self.commands.iter().filter(|(_, copying)| keep(copying));
        commands.map(|(command, _)| *command).collect()
    }

    /// By which access what a command writes may be read.
    pub(super) fn fence(&self, command: CommandId) -> Option<Fence> {
        let copying = self.commands.get(&command)?;
        Some(copying.source.fence)
    }
}

impl super::Parts {
    /// Nothing is read for a command any more: it has no number, and gets none.
    pub(super) fn forget_copy(&mut self, command: CommandId) {
        if let Some(copying) = self.copyings.commands.remove(&command) {
            self.remove(copying.read);
        }
    }

    /// Nor for those of a node, or of any other than this one.
    pub(super) fn forget_copies(&mut self, of: Option<NodeId>) {
        let own = self.node;
        let is_theirs = |copying: &Copying| {
            let node = copying.terms.command.node;
            of.map_or(node != own, |of| node == of.0)
        };
        for command in self.copyings.which(is_theirs) {
            self.forget_copy(command);
        }
    }
}

impl Engine {
    /// A slice is to be written, with what is somewhere else.
    pub(super) fn begin_copy(
        &mut self,
        slice: SliceId,
        terms: Terms,
        offset: u64,
        source: CopySource,
    ) {
        let command = terms.command;
        // Whoever asks once more has seen nothing come of it, and may go by a newer access.
        self.parts.forget_copy(command);
        let length = source.length as usize;
        let prospect = self.with_replica(slice, |it, context| it.prospect(context, &terms, length));
        let refused = match prospect {
            Some(Prospect::UnderWay) => return,
            Some(Prospect::Over(outcome)) => Some(outcome),
            None => Some(OutcomeCode::NotPrimary),
            Some(Prospect::Open) if source.fence < self.volumes.fence(source.slice.volume) => {
                Some(OutcomeCode::Unread(Unread::Fenced))
            }
            Some(Prospect::Open) => {
                let has_room = self.parts.copyings.has_room(&source);
                (!has_room).then_some(OutcomeCode::Busy)
            }
        };
        if let Some(outcome) = refused {
            self.command_finished(slice, command, outcome, Contents::new());
            return;
        }
        let read = self.parts.new_command();
        self.parts.copyings.insert(Copying {
            slice,
            terms,
            offset,
            source,
            read,
            epoch: self.epoch_led(slice),
        });
        let (range, _) = part::covering(source.offset, length);
        let (owner, kind) = (
            Owner::Copying(command),
            PartKind::Read(range, ReadSource::Media),
        );
        let now = self.world.now;
        let hold = terms.expires.since(now).min(LIFETIME);
        let part = Part::new(read, owner, source.slice, kind, now, hold);
        self.parts.insert(part);
        self.drive(read);
    }

    /// What a command writes was read, or could not be.
    pub(super) fn copy_read(&mut self, command: CommandId, result: Result<Contents, MediumError>) {
        let Some(copying) = self.parts.copyings.commands.remove(&command) else {
            return;
        };
        let Copying {
            slice,
            terms,
            offset,
            source,
            epoch,
            ..
        } = copying;
        let outcome = match result.map(|contents| found(&source, contents)) {
            // What was known of the command was known to another epoch.
            Ok(Ok(_)) if self.epoch_led(slice) != epoch => OutcomeCode::NotPrimary,
            Ok(Ok(bytes)) => {
                let kind = write_of(offset, bytes);
                self.submit(slice, Operation { terms, kind });
                return;
            }
            Ok(Err(block)) => OutcomeCode::Unread(Unread::Lost { block }),
            Err(MediumError::Busy) => OutcomeCode::Busy,
            Err(_) => OutcomeCode::Unread(Unread::NotReady),
        };
        self.command_finished(slice, command, outcome, Contents::new());
    }

    /// The access to a volume is another: what may not be read any more is not written either.
    pub(crate) fn refuse_fenced_copies(&mut self, volume: VolumeId) {
        let fence = self.volumes.fence(volume);
        let is_fenced = |it: &Copying| it.source.slice.volume == volume && it.source.fence < fence;
        for command in self.parts.copyings.which(is_fenced) {
            self.refuse_copy(command, OutcomeCode::Unread(Unread::Fenced));
        }
    }

    /// A slice's record is another: if it is led here no more, whoever leads it is to be asked.
    pub(super) fn refuse_stray_copies(&mut self, slice: SliceId) {
        if self.leads(slice) {
            return;
        }
        for command in self.parts.copyings.which(|it| it.slice == slice) {
            self.refuse_copy(command, OutcomeCode::NotPrimary);
        }
    }

    fn epoch_led(&self, slice: SliceId) -> Option<Epoch> {
        self.replicas.get(&slice)?.leads()
    }

    fn refuse_copy(&mut self, command: CommandId, outcome: OutcomeCode) {
        let copying = self.parts.copyings.commands.get(&command);
        let slice = copying.expect("it was just found").slice;
        self.parts.forget_copy(command);
        self.command_finished(slice, command, outcome, Contents::new());
    }
}

/// The bytes of a source among the contents of its blocks, or the first block of which there are none.
fn found(source: &CopySource, contents: Contents) -> Result<Vec<Bytes>, BlockIndex> {
    if let Some(block) = first_bad(&contents) {
        return Err(block);
    }
    let length = source.length as usize;
    let (_, skip) = part::covering(source.offset, length);
    let mut bytes = Vec::new();
    push_bytes(&mut bytes, Window { skip, length }, contents);
    Ok(bytes)
}

/// What makes these the bytes at an offset. What is nothing takes no space: blocks of zeros have none, and whole ones need not even
/// be written.
fn write_of(offset: u64, mut bytes: Vec<Bytes>) -> WriteKind {
    let length: u64 = bytes.iter().map(|part| part.len() as u64).sum();
    let block = BLOCK_SIZE as u64;
    if offset.is_multiple_of(block) && length.is_multiple_of(block) && is_zero(&bytes) {
        let (start, count) = ((offset / block) as u32, (length / block) as u32);
        return WriteKind::Clear(BlockRange::new(start, count));
    }
    let data = match bytes.len() {
        1 => bytes.remove(0),
        _ => Bytes::from(bytes.concat()),
    };
    WriteKind::Write { offset, data }
}
