//! Data that both ends of a link have: of a write that the node at one end has forwarded, and the one at the other end, which leads,
//! sends back as an entry. The entry goes without it.
//!
//! Invariants:
//! - data is left out only of what goes over the link over which it last came, while its command is under way there;
//! - what is put in its place has the checksums that the entry has, or the link is reset: the next one begins with whole entries.

use holdfast_model::{BLOCK_SIZE, BlockRange, CommandId, NodeId};
use holdfast_stdx::Bytes;
use holdfast_wire::{Message, PrepareHeld};

use super::Parts;
use crate::engine::Engine;
use crate::event::PeerCommand;
use crate::part::PartKind;

/// The first version that knows of it.
const SINCE: u16 = 9;

impl Parts {
    /// Leaves the data of an entry out of what is to be sent if the receiver has it.
    pub(crate) fn leave_out_held(&self, command: &mut PeerCommand) {
        let PeerCommand::Send {
            peer,
            link,
            message,
        } = command
        else {
            return;
        };
        if let Message::Prepare(prepare) = message
            && let Some(blocks) = self.forwards.held(prepare.entry.command, (*peer, *link))
            && prepare.entry.change.range() == Some(blocks)
            && let Some(held) = PrepareHeld::of(prepare)
        {
            *message = held.into();
        }
    }

    /// What a command writes, which is under way from here.
    fn data(&self, command: CommandId) -> Option<&Bytes> {
        match &self.parts.get(&command)?.kind {
            PartKind::Write { data, .. } => Some(data),
            _ => None,
        }
    }
}

impl Engine {
    /// A node forwards a write. If it can be sent entries without data, and the write is of whole blocks, it has all that the entry
    /// will hold.
    pub(super) fn note_held(&mut self, by: NodeId, command: CommandId, offset: u64, length: usize) {
        let link = self.world.peers.link(by);
        let knows_of_it = link.is_some_and(|link| link.peer.version >= SINCE);
        if let Some(blocks) = whole_blocks(offset, length).filter(|_| knows_of_it) {
            self.parts.forwards.note_writes(command, blocks);
        }
    }

    /// A primary sends an entry without the data, which is here.
    pub(crate) fn handle_prepare_held(&mut self, peer: NodeId, held: PrepareHeld) {
        let (slice, epoch) = (held.slice, held.epoch);
        let data = self.parts.data(held.command).cloned();
        let prepare = data.and_then(|data| held.with(data));
        self.with_replica(slice, |replica, context| match prepare {
            Some(prepare) => replica.handle_message(context, peer, &prepare.into()),
            None => replica.handle_entry_without_data(context, peer, epoch),
        });
    }
}

/// The blocks that so many bytes from `offset` on are, if these are whole ones.
fn whole_blocks(offset: u64, length: usize) -> Option<BlockRange> {
    let block = BLOCK_SIZE as u64;
    let is_whole = offset.is_multiple_of(block) && length.is_multiple_of(BLOCK_SIZE);
    let first = u32::try_from(offset / block).ok()?;
    let count = u32::try_from(length / BLOCK_SIZE).ok()?;
    BlockRange::checked(first, count).filter(|_| is_whole)
}
