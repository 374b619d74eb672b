//! Invariant 4, for whoever reads: after a right to read has been taken away, and every node that can be reached goes by that, nothing
//! is copied that is asked for under it.
//!
//! Only what nodes ask of each other is seen, and only where a story says that a right is over. What was asked for before may be
//! done.

use std::collections::{BTreeMap, BTreeSet};

use holdfast_model::{CommandId, Fence, NodeId, VolumeId};
use holdfast_wire::{ForwardKind, Message, OutcomeCode, Unread};

use crate::failure::Failure;

/// What was copied, and under which rights.
#[derive(Debug, Default)]
pub(crate) struct Copies {
    /// By older accesses to these volumes nobody reads any more.
    over: BTreeMap<VolumeId, Fence>,
    /// Parts of copies that a node was asked to do, and has not answered.
    asked: BTreeSet<(NodeId, CommandId)>,
    /// Those that somebody was asked to do while that was permitted: they may have their numbers since.
    permitted: BTreeSet<CommandId>,
    /// How often a part was refused because it was not permitted.
    refused: u64,
}

impl Copies {
    /// By older accesses than this one nobody reads any more.
    pub(crate) fn rights_are_over(&mut self, volume: VolumeId, fence: Fence) {
        self.over.insert(volume, fence);
    }

    pub(super) fn process_ended(&mut self, node: NodeId) {
        self.asked.retain(|(of, _)| *of != node);
    }

    pub(crate) fn under_way(&self, node: NodeId) -> usize {
        self.asked.iter().filter(|(of, _)| *of == node).count()
    }

    pub(crate) const fn refused(&self) -> u64 {
        self.refused
    }

    /// A node hears something.
    pub(crate) fn heard(&mut self, node: NodeId, message: &Message) {
        if let Message::Forward(forward) = message
            && let ForwardKind::Copy { source, .. } = &forward.kind
        {
            let over = self.over.get(&source.slice.volume);
            if over.is_none_or(|over| *over <= source.fence) {
                self.permitted.insert(forward.command);
            }
            self.asked.insert((node, forward.command));
        }
    }

    /// A node says something.
    pub(crate) fn said(&mut self, node: NodeId, message: &Message) -> Result<(), Failure> {
        let Message::Forwarded(forwarded) = message else {
            return Ok(());
        };
        let command = forwarded.command;
        let was_asked = self.asked.remove(&(node, command));
        if !was_asked || self.permitted.contains(&command) {
            return Ok(());
        }
        self.refused += u64::from(forwarded.outcome == OutcomeCode::Unread(Unread::Fenced));
        if forwarded.outcome == OutcomeCode::Done {
            return Err(Failure::Invariant {
                name: "copies",
                what: format!("{node} has copied by a right that is over: {command:?}"),
            });
        }
        Ok(())
    }
}
