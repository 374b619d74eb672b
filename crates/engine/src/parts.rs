//! The parts of commands under way at this node: those of its own portal, and those that other
//! nodes have forwarded to replicas here.
//!
//! Invariants:
//! - a part is at one place at a time; an answer from anywhere else is ignored;
//! - a write that nobody took within its lifetime is given up, and never sent again;
//! - whoever forwarded a command hears of its end over the link over which it last asked.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use holdfast_iscsi::target::TaskId;
use holdfast_model::{BlockRange, CommandId, Incarnation, NodeId, SliceId};
use holdfast_replica::Operation;
use holdfast_replica::timing::{FORWARD_AGE, LIFETIME};
use holdfast_scsi::MediumError;
use holdfast_stdx::{Duration, Instant};
use holdfast_store::View;
use holdfast_wire::{Content, Forward, ForwardKind, Forwarded, OutcomeCode};

use crate::engine::Engine;
use crate::event::LinkId;
use crate::operation::first_bad;
use crate::part::{Part, PartKind, Whereabouts};
use crate::portal::NewPart;
use crate::storage::{Read, Reader};

/// Until a part that nobody could take is tried again, if nothing happens before.
const RETRY: Duration = Duration::from_millis(20);
/// Commands of other nodes under way here at most: beyond it they are told to come again.
const FORWARDS_MAX: usize = 16 << 10;

/// Parts and forwards under way.
#[derive(Debug, Default)]
pub(crate) struct Parts {
    node: u16,
    incarnation: Incarnation,
    next_number: u64,
    parts: BTreeMap<CommandId, Part>,
    waiting: BTreeSet<(Instant, CommandId)>,
    /// Commands of other nodes, and who asked last.
    forwards: BTreeMap<CommandId, (NodeId, LinkId)>,
}

impl Parts {
    /// Says in whose name commands are numbered.
    pub(crate) fn name(&mut self, node: NodeId, incarnation: Incarnation) {
        self.node = node.0;
        self.incarnation = incarnation;
    }

    pub(crate) fn next_retry(&self) -> Option<Instant> {
        self.waiting.first().map(|(retry, _)| *retry)
    }

    /// What other nodes had asked is not to be done any more, and their links are gone.
    pub(crate) fn stood_still(&mut self) {
        self.forwards.clear();
    }

    /// Parts that were with a node come back, to be sent again.
    pub(crate) fn link_lost(&mut self, now: Instant, node: NodeId) {
        self.forwards.retain(|_, (from, _)| *from != node);
        let lost: Vec<CommandId> = self
            .parts
            .values()
            .filter(|part| matches!(part.whereabouts, Whereabouts::There { node: at, .. } if at == node))
            .map(|part| part.command)
            .collect();
        for command in lost {
            self.place(command, Whereabouts::Waiting { retry: now });
        }
    }

    fn place(&mut self, command: CommandId, whereabouts: Whereabouts) {
        let Some(part) = self.parts.get_mut(&command) else {
            return;
        };
        if let Whereabouts::Waiting { retry } = part.whereabouts {
            self.waiting.remove(&(retry, command));
        }
        part.whereabouts = whereabouts;
        if let Whereabouts::Waiting { retry } = whereabouts {
            self.waiting.insert((retry, command));
        }
    }

    fn remove(&mut self, command: CommandId) -> Option<Part> {
        let part = self.parts.remove(&command)?;
        if let Whereabouts::Waiting { retry } = part.whereabouts {
            self.waiting.remove(&(retry, command));
        }
        Some(part)
    }

    fn is_own(&self, command: CommandId) -> bool {
        command.node == self.node && command.incarnation == self.incarnation
    }
}

impl Engine {
    pub(crate) fn begin_part(&mut self, new: NewPart) {
        self.parts.next_number += 1;
        let command = CommandId {
            node: self.parts.node,
            incarnation: self.parts.incarnation,
            number: self.parts.next_number,
        };
        let NewPart {
            task,
            place,
            slice,
            kind,
            arrived,
        } = new;
        let whereabouts = Whereabouts::Waiting {
            retry: self.world.now,
        };
        let part = Part {
            command,
            task,
            place,
            slice,
            kind,
            arrived,
            whereabouts,
        };
        self.parts.parts.insert(command, part);
        self.parts.place(command, whereabouts);
        self.drive(command);
    }

    /// Tries again the parts that have waited long enough.
    pub(crate) fn retry_parts(&mut self) {
        let now = self.world.now;
        let due: Vec<CommandId> = self
            .parts
            .waiting
            .iter()
            .take_while(|(retry, _)| *retry <= now)
            .map(|(_, command)| *command)
            .collect();
        for command in due {
            self.drive(command);
        }
    }

    /// Tries again every part that waits.
    pub(crate) fn retry_all_parts(&mut self) {
        let waiting: Vec<CommandId> = self
            .parts
            .waiting
            .iter()
            .map(|(_, command)| *command)
            .collect();
        for command in waiting {
            self.drive(command);
        }
    }

    /// A slice's record has changed: parts that wait, or that are with a node that does not lead
    /// it any more, go to whoever does.
    pub(crate) fn retry_parts_of(&mut self, slice: SliceId) {
        let primary = self
            .world
            .cluster
            .slices
            .get(&slice)
            .map(|(record, _)| record.primary);
        let stray: Vec<CommandId> = self
            .parts
            .parts
            .values()
            .filter(|part| part.slice == slice)
            .filter(|part| match part.whereabouts {
                Whereabouts::Waiting { .. } => true,
                Whereabouts::There { node, .. } => Some(node) != primary,
                Whereabouts::Here => false,
            })
            .map(|part| part.command)
            .collect();
        for command in stray {
            self.drive(command);
        }
    }

    /// Gives up the parts of an aborted task that nobody has.
    pub(crate) fn drop_task(&mut self, task: TaskId) {
        let waiting: Vec<CommandId> = self
            .parts
            .parts
            .values()
            .filter(|part| part.task == task)
            .filter(|part| matches!(part.whereabouts, Whereabouts::Waiting { .. }))
            .map(|part| part.command)
            .collect();
        for command in waiting {
            self.end_part(command, Err(MediumError::Aborted));
        }
    }

    /// Brings a part to whoever can do it now.
    fn drive(&mut self, command: CommandId) {
        let now = self.world.now;
        let Some(part) = self.parts.parts.get(&command) else {
            return;
        };
        let age = now.since(part.arrived);
        if age > self.config.hold {
            self.end_part(command, Err(MediumError::NotReady));
            return;
        }
        if part.kind.is_write() && age > LIFETIME {
            self.end_part(command, Err(MediumError::Busy));
            return;
        }
        let (slice, kind, arrived) = (part.slice, part.kind.clone(), part.arrived);
        if self.try_here(command, slice, &kind, arrived) {
            return;
        }
        let primary = self
            .world
            .cluster
            .slices
            .get(&slice)
            .map(|(record, _)| record.primary);
        let link = primary
            .filter(|primary| *primary != self.config.node)
            .and_then(|primary| Some((primary, self.world.peers.link(primary)?)))
            .filter(|(_, link)| link.heard > Instant::ZERO)
            .map(|(primary, link)| (primary, link.id, link.heard));
        match link {
            Some((node, link, heartbeat)) => {
                self.parts.place(command, Whereabouts::There { node, link });
                let forward = Forward {
                    slice,
                    command,
                    heartbeat,
                    kind: kind.forward(),
                };
                self.world.peers.send(node, forward.into());
            }
            None => self
                .parts
                .place(command, Whereabouts::Waiting { retry: now + RETRY }),
        }
    }

    /// Does a part here, if that may be.
    fn try_here(
        &mut self,
        command: CommandId,
        slice: SliceId,
        kind: &PartKind,
        arrived: Instant,
    ) -> bool {
        match kind {
            PartKind::Read(range) => {
                let may = self.may_read_here(slice, *range);
                if may {
                    self.parts.place(command, Whereabouts::Here);
                    self.read_part(command, slice, *range);
                }
                may
            }
            PartKind::Write { .. } | PartKind::Clear(_) => {
                if self
                    .replicas
                    .get(&slice)
                    .and_then(holdfast_replica::Replica::leads)
                    .is_none()
                {
                    return false;
                }
                self.parts.place(command, Whereabouts::Here);
                let kind = kind.write().expect("a write is written");
                let expires = arrived + LIFETIME;
                self.submit(
                    slice,
                    Operation {
                        command,
                        expires,
                        kind,
                    },
                );
                true
            }
        }
    }

    fn submit(&mut self, slice: SliceId, operation: Operation) {
        let command = operation.command;
        let taken = self.with_replica(slice, |replica, context| replica.submit(context, operation));
        if taken.is_none() {
            self.world
                .finished
                .push((slice, command, OutcomeCode::NotPrimary));
        }
    }

    /// Whether the committed contents of blocks may be read here and now.
    fn may_read_here(&self, slice: SliceId, range: BlockRange) -> bool {
        let Some(replica) = self.replicas.get(&slice) else {
            return false;
        };
        self.is_alive()
            && replica.may_read(self.world.now)
            && (replica.leads().is_some() || !self.world.storage.store().is_dirty(slice, range))
    }

    fn read_part(&mut self, command: CommandId, slice: SliceId, range: BlockRange) {
        let view = View::Committed;
        let read = Read {
            slice,
            range,
            view,
            reader: Reader::Part(command),
            attempts: 0,
        };
        self.world.storage.read(self.world.now, read);
    }

    /// Another node forwards a command.
    pub(crate) fn handle_forward(&mut self, peer: NodeId, link: LinkId, forward: Forward) {
        let Forward {
            slice,
            command,
            heartbeat,
            kind,
        } = forward;
        if self.parts.forwards.len() >= FORWARDS_MAX {
            self.answer(peer, slice, command, OutcomeCode::Busy, Vec::new());
            return;
        }
        self.parts.forwards.insert(command, (peer, link));
        let now = self.world.now;
        let expires = heartbeat + FORWARD_AGE;
        let outcome = match kind {
            _ if heartbeat > now || now > expires => Some(OutcomeCode::Expired),
            ForwardKind::Read(range) => {
                if self.leads(slice) && self.may_read_here(slice, range) {
                    self.read_part(command, slice, range);
                    None
                } else {
                    Some(OutcomeCode::NotPrimary)
                }
            }
            ForwardKind::Write { offset, data } => {
                let kind = holdfast_replica::WriteKind::Write { offset, data };
                self.submit(
                    slice,
                    Operation {
                        command,
                        expires,
                        kind,
                    },
                );
                None
            }
            ForwardKind::Clear(range) => {
                let kind = holdfast_replica::WriteKind::Clear(range);
                self.submit(
                    slice,
                    Operation {
                        command,
                        expires,
                        kind,
                    },
                );
                None
            }
        };
        if let Some(outcome) = outcome {
            self.command_finished(slice, command, outcome, Vec::new());
        }
    }

    fn leads(&self, slice: SliceId) -> bool {
        self.replicas
            .get(&slice)
            .is_some_and(|replica| replica.leads().is_some())
    }

    fn answer(
        &mut self,
        peer: NodeId,
        slice: SliceId,
        command: CommandId,
        outcome: OutcomeCode,
        contents: Vec<Content>,
    ) {
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
        let at = self.parts.parts.get(&command).map(|part| part.whereabouts);
        if at == Some(Whereabouts::There { node: peer, link }) {
            self.part_outcome(slice, command, outcome, contents);
        }
    }

    /// A command has ended at the replica, or the store, here.
    pub(crate) fn command_finished(
        &mut self,
        slice: SliceId,
        command: CommandId,
        outcome: OutcomeCode,
        contents: Vec<Content>,
    ) {
        if self.parts.is_own(command) {
            let at = self.parts.parts.get(&command).map(|part| part.whereabouts);
            if at == Some(Whereabouts::Here) {
                self.part_outcome(slice, command, outcome, contents);
            }
        } else if let Some((peer, link)) = self.parts.forwards.remove(&command)
            && self.world.peers.current(peer, link).is_some()
        {
            self.answer(peer, slice, command, outcome, contents);
        }
    }

    fn part_outcome(
        &mut self,
        slice: SliceId,
        command: CommandId,
        outcome: OutcomeCode,
        contents: Vec<Content>,
    ) {
        let Some(part) = self.parts.parts.get(&command) else {
            return;
        };
        let error = match outcome {
            OutcomeCode::Done => match first_bad(slice, &contents) {
                Some(offset) => MediumError::Lost { offset },
                None => {
                    self.end_part(command, self.checked(command, contents));
                    return;
                }
            },
            OutcomeCode::NotPrimary | OutcomeCode::Expired | OutcomeCode::NotReady => {
                let retry = self.world.now + RETRY;
                self.parts.place(command, Whereabouts::Waiting { retry });
                return;
            }
            OutcomeCode::NoSpace => MediumError::NoSpace,
            OutcomeCode::Busy => MediumError::Busy,
            OutcomeCode::MediumError => MediumError::Lost {
                offset: offset_of(part),
            },
        };
        self.end_part(command, Err(error));
    }

    /// The contents, if they are all that the part asked for: a peer could say anything.
    fn checked(
        &self,
        command: CommandId,
        contents: Vec<Content>,
    ) -> Result<Vec<Content>, MediumError> {
        let part = self.parts.parts.get(&command).expect("it has just ended");
        let PartKind::Read(range) = &part.kind else {
            return Ok(contents);
        };
        let mut next = range.start();
        for content in &contents {
            if content.range.start() != next {
                return Err(MediumError::Internal);
            }
            next = content.range.end();
        }
        if next == range.end() {
            Ok(contents)
        } else {
            Err(MediumError::Internal)
        }
    }

    fn end_part(&mut self, command: CommandId, result: Result<Vec<Content>, MediumError>) {
        let Some(part) = self.parts.remove(command) else {
            return;
        };
        let now = self.world.now;
        self.portal
            .part_ended(now, &self.volumes, part.task, part.place, result);
    }
}

/// Where in the volume a part begins, in bytes.
fn offset_of(part: &Part) -> u64 {
    let within = match &part.kind {
        PartKind::Write { offset, .. } => *offset,
        PartKind::Clear(range) | PartKind::Read(range) => {
            u64::from(range.start()) * holdfast_model::BLOCK_SIZE as u64
        }
    };
    u64::from(part.slice.index) * holdfast_model::SLICE_SIZE + within
}
