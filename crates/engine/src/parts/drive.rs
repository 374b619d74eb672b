//! Brings parts to whoever can do them, and finds out what became of those that are given up.

use alloc::vec::Vec;

use holdfast_iscsi::target::TaskId;
use holdfast_model::{BlockRange, CommandId, Fence, NodeId, SliceId, VolumeId};
use holdfast_replica::timing::LIFETIME;
use holdfast_replica::{Operation, Terms};
use holdfast_scsi::MediumError;
use holdfast_stdx::Instant;
use holdfast_store::{ReadSource, View};
use holdfast_wire::{Forward, OutcomeCode, Settle};

use crate::clearing::ENDING_MAX;
use crate::engine::Engine;
use crate::event::LinkId;
use crate::part::{Owner, Part, PartKind, Whereabouts};
use crate::portal::NewPart;
use crate::storage::{Read, Reader};

impl Engine {
    pub(crate) fn begin_part(&mut self, new: NewPart) {
        let NewPart {
            task,
            place,
            slice,
            kind,
            arrived,
        } = new;
        if self.portal.is_aborted(task) {
            // It came together with its end, and has not been begun.
            let (now, never) = (self.world.now, Err(MediumError::Aborted));
            self.portal
                .part_ended(now, &self.volumes, task, place, never, true);
            return;
        }
        let command = self.parts.new_command();
        let owner = Owner::Task { task, place };
        let hold = self.config.hold;
        self.parts
            .insert(Part::new(command, owner, slice, kind, arrived, hold));
        self.drive(command);
    }

    /// Waits until all that anybody has sent the primary of a slice is over.
    pub(crate) fn begin_barrier(&mut self, number: u64, slice: SliceId, arrived: Instant) {
        let command = self.parts.new_command();
        let owner = Owner::Clearing(number);
        let hold = self.config.hold.min(ENDING_MAX);
        let part = Part::new(command, owner, slice, PartKind::Barrier, arrived, hold);
        self.parts.insert(part);
        self.drive(command);
    }

    /// Looks at the parts whose time has come.
    pub(crate) fn look_at_parts(&mut self) {
        let now = self.world.now;
        let due = self.parts.appointments.iter();
        let due: Vec<CommandId> = due
            .take_while(|(when, _)| *when <= now)
            .map(|(_, command)| *command)
            .collect();
        for command in due {
            self.drive(command);
        }
    }

    /// Tries again every part that waits.
    pub(crate) fn retry_all_parts(&mut self) {
        let is_waiting = |part: &Part| matches!(part.whereabouts, Whereabouts::Waiting { .. });
        for command in self.parts.which(is_waiting) {
            self.drive(command);
        }
    }

    /// A slice's record has changed: parts that wait, or that are with a node that does not lead
    /// it any more, go to whoever does.
    pub(crate) fn retry_parts_of(&mut self, slice: SliceId) {
        let now = self.world.now;
        let primary = self.primary_of(slice);
        let stray = self.parts.which(|part| {
            part.slice == slice
                && match (part.whereabouts, &part.kind) {
                    (Whereabouts::Waiting { .. }, _) => true,
                    (Whereabouts::There { node, .. }, _) => Some(node) != primary,
                    // The disk here may be the reason why others lead.
                    (Whereabouts::Here, PartKind::Read(range, _)) => {
                        !self.may_read_here(slice, *range)
                    }
                    (Whereabouts::Here, _) => false,
                }
        });
        self.refuse_stray_copies(slice);
        for command in stray {
            if let Some(part) = self.parts.parts.get_mut(&command) {
                part.lose_sight(now);
            }
            self.parts
                .place(command, Whereabouts::Waiting { retry: now });
            self.drive(command);
        }
    }

    /// The access to a volume is known anew: parts that were refused because of that are permitted, or are dropped by now.
    pub(crate) fn retry_fenced_parts(&mut self, volume: VolumeId) {
        let is_waiting = |part: &Part| {
            let is_concerned = part.slice.volume == volume
                || part.kind.copies_from().is_some_and(|it| it == volume);
            is_concerned && matches!(part.whereabouts, Whereabouts::Waiting { .. })
        };
        for command in self.parts.which(is_waiting) {
            self.drive(command);
        }
    }

    /// Gives up the parts of an aborted task: reads, and what nobody can have numbered, end now.
    pub(crate) fn drop_task(&mut self, task: TaskId) {
        for command in self.parts.of_task(task) {
            let Some(part) = self.parts.parts.get_mut(&command) else {
                continue;
            };
            if part.kind.is_write() {
                part.given_up = Some(MediumError::Aborted);
                self.parts.hold_until(command, self.world.now + ENDING_MAX);
                self.settle_part(command, MediumError::Aborted);
            } else {
                self.end_part(command, Err(MediumError::Aborted), true);
            }
        }
    }

    pub(crate) fn primary_of(&self, slice: SliceId) -> Option<NodeId> {
        let record = self.world.cluster.slices.get(&slice);
        record.map(|(record, _)| record.primary)
    }

    /// Brings a part to whoever can do it now.
    pub(super) fn drive(&mut self, command: CommandId) {
        let now = self.world.now;
        let Some(part) = self.parts.parts.get_mut(&command) else {
            return;
        };
        let age = now.since(part.arrived);
        // What its command may not do any more is sent to nobody, whatever comes first.
        if let Owner::Task { task, .. } = part.owner
            && part.given_up.is_none()
            && self.portal.is_aborted(task)
        {
            part.given_up = Some(MediumError::Aborted);
        }
        if now >= part.held_until {
            let settled = part.is_settled();
            self.end_part(command, Err(MediumError::NotReady), settled);
            return;
        }
        if !matches!(part.whereabouts, Whereabouts::Waiting { .. }) {
            return;
        }
        if part.kind.is_write() && part.given_up.is_none() && age > LIFETIME {
            part.given_up = Some(part.late);
        }
        if let Some(error) = part.given_up {
            self.settle_part(command, error);
            return;
        }
        let (slice, kind, arrived) = (part.slice, part.kind.clone(), part.arrived);
        let (repeated, owner) = (part.in_doubt, part.owner);
        let fence = self.volumes.fence(slice.volume);
        if let Owner::Copying(copy) = owner
            && self.parts.copyings.fence(copy) != Some(fence)
        {
            // Whoever asked for the copy knows of a newer access than is known here.
            self.part_fenced(command);
            return;
        }
        let terms = Terms {
            command,
            expires: arrived + LIFETIME,
            repeated,
            fence,
        };
        if !self.try_here(slice, &kind, terms) {
            self.ask_primary(slice, &kind, terms);
        }
    }

    /// Asks the primary of a slice, which is elsewhere, to do a part.
    fn ask_primary(&mut self, slice: SliceId, kind: &PartKind, terms: Terms) {
        let Terms {
            command,
            repeated,
            fence,
            ..
        } = terms;
        let kind = kind.forward(self.source_fence(kind));
        let asked = self.link_to_primary(slice).zip(kind);
        let asked = asked.map(|((node, link, heartbeat), kind)| {
            let forward = Forward {
                slice,
                command,
                heartbeat,
                repeated,
                fence,
                kind,
            };
            (node, link, forward)
        });
        // A primary of an older version cannot be asked everything: what it cannot do waits, and is given
        // up as busy. It is made newer, or another leads, before long.
        let asked = asked.filter(|(node, _, forward)| {
            let link = self.world.peers.link(*node);
            link.is_some_and(|link| link.peer.version >= forward.version())
        });
        match asked {
            Some((node, link, forward)) => {
                self.parts.place(command, Whereabouts::There { node, link });
                self.world.peers.send(node, forward.into());
            }
            None => self.nobody_takes(command),
        }
    }

    /// By which access to it the volume is read that a copy reads.
    fn source_fence(&self, kind: &PartKind) -> Fence {
        let volume = kind.copies_from();
        volume.map_or(Fence::ZERO, |volume| self.volumes.fence(volume))
    }

    /// The primary of a slice, if it is another node and can be asked, with the newest heartbeat
    /// that came from it.
    fn link_to_primary(&self, slice: SliceId) -> Option<(NodeId, LinkId, Instant)> {
        let primary = self.primary_of(slice)?;
        if primary == self.config.node {
            return None;
        }
        let link = self.world.peers.link(primary)?;
        (link.heard > Instant::ZERO).then_some((primary, link.id, link.heard))
    }

    /// Nobody can do a part now. It waits, unless its slice has been stopped for so long that
    /// waiting is no use.
    pub(super) fn nobody_takes(&mut self, command: CommandId) {
        let now = self.world.now;
        let Some(part) = self.parts.parts.get_mut(&command) else {
            return;
        };
        let retry = now + part.next_delay();
        part.late = MediumError::Busy;
        self.parts.place(command, Whereabouts::Waiting { retry });
        let Some(part) = self.parts.parts.get(&command) else {
            return;
        };
        let (slice, settled) = (part.slice, part.is_settled());
        let replica = self.replicas.get(&slice);
        if replica.is_some_and(|replica| replica.fence() > self.volumes.fence(slice.volume)) {
            self.world.cluster.refresh_access(slice.volume);
        }
        let stopped_for = self.parts.note_stopped(now, slice);
        if stopped_for >= self.config.hold && settled {
            self.end_part(command, Err(MediumError::NotReady), settled);
        }
    }

    /// Finds out what became of a part that is given up; it ends with `error` unless it was done.
    pub(super) fn settle_part(&mut self, command: CommandId, error: MediumError) {
        let Some(part) = self.parts.parts.get(&command) else {
            return;
        };
        let (slice, exposed_until) = (part.slice, part.exposed_until);
        match part.whereabouts {
            _ if part.is_settled() => self.end_part(command, Err(error), true),
            // Right behind the forward.
            Whereabouts::There { node, .. } => self.ask_there(command, slice, node),
            Whereabouts::Here => self.ask_here(command, slice),
            Whereabouts::Waiting { .. } if self.world.now < exposed_until => {
                let retry = exposed_until;
                self.parts.place(command, Whereabouts::Waiting { retry });
            }
            Whereabouts::Waiting { .. } if self.leads(slice) => {
                self.parts.place(command, Whereabouts::Here);
                self.ask_here(command, slice);
            }
            Whereabouts::Waiting { .. } => match self.link_to_primary(slice) {
                Some((node, link, _)) => {
                    self.parts.place(command, Whereabouts::There { node, link });
                    self.ask_there(command, slice, node);
                }
                None => self.nobody_takes(command),
            },
        }
    }

    fn ask_here(&mut self, command: CommandId, slice: SliceId) {
        self.parts.forget_copy(command);
        self.with_replica(slice, |replica, context| replica.settle(context, command));
    }

    fn ask_there(&mut self, command: CommandId, slice: SliceId, node: NodeId) {
        let settle = Settle { slice, command };
        self.world.peers.send(node, settle.into());
    }

    /// Does a part here, if that may be.
    fn try_here(&mut self, slice: SliceId, kind: &PartKind, terms: Terms) -> bool {
        let command = terms.command;
        if let PartKind::Read(range, source) = kind {
            let may = self.may_read_here(slice, *range);
            if may {
                self.parts.place(command, Whereabouts::Here);
                self.read_part(command, slice, *range, *source);
            }
            return may;
        }
        if !self.takes_writes(slice) {
            return false;
        }
        if let PartKind::Copy { offset, from } = kind {
            self.parts.place(command, Whereabouts::Here);
            let source = from.under(self.source_fence(kind));
            self.begin_copy(slice, terms, *offset, source);
            return true;
        }
        let Some(kind) = kind.write() else {
            return false;
        };
        self.parts.place(command, Whereabouts::Here);
        self.submit(slice, Operation { terms, kind });
        true
    }

    pub(super) fn submit(&mut self, slice: SliceId, operation: Operation) {
        let command = operation.terms.command;
        let taken = self.with_replica(slice, |replica, context| replica.submit(context, operation));
        if taken.is_none() {
            self.world
                .finished
                .push_back((slice, command, OutcomeCode::NotPrimary));
        }
    }

    pub(super) fn leads(&self, slice: SliceId) -> bool {
        self.is_alive()
            && self
                .replicas
                .get(&slice)
                .is_some_and(|replica| replica.leads().is_some())
    }

    fn takes_writes(&self, slice: SliceId) -> bool {
        let replica = self.replicas.get(&slice);
        self.is_alive() && replica.is_some_and(holdfast_replica::Replica::takes_writes)
    }

    /// Whether the committed contents of blocks may be read here and now.
    pub(super) fn may_read_here(&self, slice: SliceId, range: BlockRange) -> bool {
        let Some(replica) = self.replicas.get(&slice) else {
            return false;
        };
        self.is_alive()
            && replica.may_read(self.world.now)
            // Else it has yet to be heard here who may read.
            && replica.fence() <= self.volumes.fence(slice.volume)
            && (replica.leads().is_some() || !self.world.storage.store().is_dirty(slice, range))
    }

    pub(super) fn read_part(
        &mut self,
        command: CommandId,
        slice: SliceId,
        range: BlockRange,
        source: ReadSource,
    ) {
        let (now, reader) = (self.world.now, Reader::Part(command));
        let read = Read {
            source,
            ..Read::new(now, slice, range, View::Committed, reader)
        };
        self.world.storage.read(now, read);
    }
}
