//! What other nodes ask of replicas here, and what they answer.

use holdfast_model::{CommandId, NodeId, SliceId};
use holdfast_replica::timing::FORWARD_AGE;
use holdfast_replica::{Operation, Terms, WriteKind};
use holdfast_store::ReadSource;
use holdfast_wire::{Contents, Forward, ForwardKind, Forwarded, OutcomeCode, Settle};

use crate::engine::Engine;
use crate::event::LinkId;
use crate::part::Whereabouts;
use crate::parts::budget::Load;

impl Engine {
    /// Another node forwards a command.
    pub(crate) fn handle_forward(&mut self, peer: NodeId, link: LinkId, forward: Forward) {
        let Forward {
            slice,
            command,
            heartbeat,
            repeated,
            fence,
            kind,
        } = forward;
        let load = match &kind {
            ForwardKind::Read(range) => Load::of(range.bytes()),
            ForwardKind::Write { data, .. } => Load::of(data.len() as u64),
            // And what is read for it.
            ForwardKind::CompareAndWrite { data, .. } | ForwardKind::Or { data, .. } => {
                Load::of(2 * data.len() as u64)
            }
            ForwardKind::Copy { source, .. } => Load::of_copy(source.length.into()),
            ForwardKind::Clear(_) => Load::of(0),
        };
        if !self.parts.forwards.take(command, (peer, link), load) {
            self.answer(peer, slice, command, OutcomeCode::Busy, Contents::new());
            return;
        }
        let now = self.world.now;
        let expires = heartbeat + FORWARD_AGE;
        if heartbeat > now || now > expires {
            self.command_finished(slice, command, OutcomeCode::Expired, Contents::new());
            return;
        }
        let terms = Terms {
            command,
            expires,
            repeated,
            fence,
        };
        let kind = match kind {
            ForwardKind::Read(range) => {
                if fence < self.volumes.fence(slice.volume) {
                    self.command_finished(slice, command, OutcomeCode::Fenced, Contents::new());
                } else if self.leads(slice) && self.may_read_here(slice, range) {
                    // Nobody has told whether the host wants to know what is on the media.
                    self.read_part(command, slice, range, ReadSource::Media);
                } else {
                    self.command_finished(slice, command, OutcomeCode::NotPrimary, Contents::new());
                }
                return;
            }
            ForwardKind::Write { offset, data } => {
                self.note_held(peer, command, offset, data.len());
                WriteKind::Write { offset, data }
            }
            ForwardKind::Clear(range) => WriteKind::Clear(range),
            ForwardKind::CompareAndWrite {
                offset,
                expected,
                data,
            } => WriteKind::CompareAndWrite {
                offset,
                expected,
                data,
            },
            ForwardKind::Or { offset, data } => WriteKind::Or { offset, data },
            ForwardKind::Copy { offset, source } => {
                self.begin_copy(slice, terms, offset, source);
                return;
            }
        };
        self.submit(slice, Operation { terms, kind });
    }

    /// Another node asks what became of a command that it has given up.
    pub(crate) fn handle_settle(&mut self, peer: NodeId, link: LinkId, settle: Settle) {
        let Settle { slice, command } = settle;
        self.parts.forget_copy(command);
        if !self.parts.forwards.take(command, (peer, link), Load::of(0)) {
            self.answer(
                peer,
                slice,
                command,
                OutcomeCode::NotPrimary,
                Contents::new(),
            );
            return;
        }
        let asked = self.with_replica(slice, |replica, context| replica.settle(context, command));
        if asked.is_none() {
            self.command_finished(slice, command, OutcomeCode::NotPrimary, Contents::new());
        }
    }

    fn answer(
        &mut self,
        peer: NodeId,
        slice: SliceId,
        command: CommandId,
        outcome: OutcomeCode,
        contents: Contents,
    ) {
        let outcome = match outcome {
            OutcomeCode::Fenced if !self.knows_fences(peer) => OutcomeCode::NotReady,
            outcome => outcome,
        };
        let forwarded = Forwarded {
            slice,
            command,
            outcome,
            contents,
        };
        self.world.peers.send(peer, forwarded.into());
    }

    /// A forwarded part has ended at the node that was asked.
    pub(crate) fn handle_forwarded(&mut self, peer: NodeId, link: LinkId, forwarded: Forwarded) {
        let Forwarded {
            slice,
            command,
            outcome,
            contents,
        } = forwarded;
        if self.has_heard(peer, command) {
            return;
        }
        if self.parts.whereabouts(command) == Some(Whereabouts::There { node: peer, link }) {
            self.part_outcome(slice, command, outcome, contents);
        }
    }

    /// A command has ended at the replica, or the store, here.
    pub(crate) fn command_finished(
        &mut self,
        slice: SliceId,
        command: CommandId,
        outcome: OutcomeCode,
        contents: Contents,
    ) {
        // Where it was sent once more, and is being read for again.
        self.parts.forget_copy(command);
        if self.parts.is_own(command) {
            if self.parts.whereabouts(command) == Some(Whereabouts::Here) {
                self.part_outcome(slice, command, outcome, contents);
            }
        } else if let Some((peer, link)) = self.parts.forwards.end(command)
            && self.world.peers.current(peer, link).is_some()
        {
            self.answer(peer, slice, command, outcome, contents);
        }
    }
}
