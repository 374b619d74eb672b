//! How parts end.

use holdfast_model::{BLOCK_SIZE, CommandId, SLICE_SIZE, SliceId};
use holdfast_scsi::MediumError;
use holdfast_wire::{Contents, OutcomeCode, Unread};

use crate::engine::Engine;
use crate::operation::offset_in_volume;
use crate::part::{Owner, Part, PartKind, Whereabouts, covering};

impl Engine {
    /// Whoever has a part says how it ended there.
    pub(super) fn part_outcome(
        &mut self,
        slice: SliceId,
        command: CommandId,
        outcome: OutcomeCode,
        contents: Contents,
    ) {
        let Some(part) = self.parts.parts.get_mut(&command) else {
            return;
        };
        let error = match outcome {
            OutcomeCode::Done => {
                self.parts.note_served(slice);
                self.end_part(command, self.checked(command, contents), true);
                return;
            }
            OutcomeCode::Expired => {
                if part.given_up.is_some() {
                    // Only who holds the lease can tell.
                    self.parts.note_served(slice);
                }
                self.part_expired(command);
                return;
            }
            OutcomeCode::NotPrimary | OutcomeCode::NotReady => {
                self.nobody_takes(command);
                return;
            }
            OutcomeCode::Deposed => {
                part.in_doubt = true;
                let retry = self.world.now;
                self.parts.place(command, Whereabouts::Waiting { retry });
                if self.primary_of(slice) != Some(self.config.node) {
                    self.drive(command);
                }
                return;
            }
            OutcomeCode::Fenced => {
                self.part_fenced(command);
                return;
            }
            OutcomeCode::NoSpace => MediumError::NoSpace,
            OutcomeCode::Busy if part.kind.copies_from().is_some() => {
                self.come_again(command, MediumError::Busy);
                return;
            }
            OutcomeCode::Busy => MediumError::Busy,
            OutcomeCode::Unread(why) => {
                self.part_unread(command, why);
                return;
            }
            // A peer could say anything.
            OutcomeCode::Miscompare { position } => match &part.kind {
                PartKind::CompareAndWrite { expected, .. }
                    if (position as usize) < expected.len() =>
                {
                    MediumError::Miscompare {
                        position: u64::from(position),
                    }
                }
                _ => MediumError::Internal,
            },
            OutcomeCode::MediumError => MediumError::Lost {
                offset: offset_of(part),
            },
        };
        self.parts.note_served(slice);
        self.refuse_part(command, error);
    }

    /// Who has the part knows of a newer access to the volume. It waits until that is known here: then it is permitted,
    /// or its command ends.
    pub(super) fn part_fenced(&mut self, command: CommandId) {
        let now = self.world.now;
        let Some(part) = self.parts.parts.get_mut(&command) else {
            return;
        };
        let (volume, retry) = (part.slice.volume, now + part.next_delay());
        self.parts.place(command, Whereabouts::Waiting { retry });
        self.world.cluster.refresh_access(volume);
    }

    /// What a part is to copy could not be read. A peer could say anything.
    fn part_unread(&mut self, command: CommandId, why: Unread) {
        let Some(part) = self.parts.parts.get(&command) else {
            return;
        };
        let (slice, kind) = (part.slice, part.kind.clone());
        self.parts.note_served(slice);
        let PartKind::Copy { from, .. } = kind else {
            self.refuse_part(command, MediumError::Internal);
            return;
        };
        match why {
            Unread::NotReady => self.come_again(command, MediumError::NotReady),
            Unread::Fenced => {
                self.world.cluster.refresh_access(from.slice.volume);
                self.come_again(command, MediumError::Busy);
            }
            Unread::Lost { block } => {
                let (blocks, _) = covering(from.offset, from.length as usize);
                let is_of_it = (blocks.start()..blocks.end()).contains(&block.0);
                let offset = offset_in_volume(from.slice, block);
                let error = match is_of_it {
                    true => MediumError::Lost { offset },
                    false => MediumError::Internal,
                };
                self.refuse_part(command, error);
            }
        }
    }

    /// A part was not done, and may be the next time: if it is not in time, it ends with that error.
    fn come_again(&mut self, command: CommandId, late: MediumError) {
        let now = self.world.now;
        let Some(part) = self.parts.parts.get_mut(&command) else {
            return;
        };
        part.late = late;
        let retry = now + part.next_delay();
        self.parts.place(command, Whereabouts::Waiting { retry });
    }

    /// Whoever had the part has not numbered it, and will not.
    fn part_expired(&mut self, command: CommandId) {
        let now = self.world.now;
        let Some(part) = self.parts.parts.get_mut(&command) else {
            return;
        };
        let retry = match part.given_up {
            // It has not been asked whether somebody before it has.
            None => now + part.next_delay(),
            Some(error) if now >= part.exposed_until => {
                part.in_doubt = false;
                self.end_part(command, Err(error), true);
                return;
            }
            Some(_) => part.exposed_until,
        };
        self.parts.place(command, Whereabouts::Waiting { retry });
    }

    /// The primary refuses a part. If somebody may have numbered it before, that is found out first.
    fn refuse_part(&mut self, command: CommandId, error: MediumError) {
        let now = self.world.now;
        let Some(part) = self.parts.parts.get_mut(&command) else {
            return;
        };
        if !part.kind.is_write() || !part.in_doubt {
            self.end_part(command, Err(error), true);
            return;
        }
        part.given_up = part.given_up.or(Some(error));
        self.parts
            .place(command, Whereabouts::Waiting { retry: now });
        self.drive(command);
    }

    /// The contents, if they are all that the part asked for: a peer could say anything.
    fn checked(&self, command: CommandId, contents: Contents) -> Result<Contents, MediumError> {
        let part = self.parts.parts.get(&command).expect("it has just ended");
        let PartKind::Read(range, _) = &part.kind else {
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

    /// A part is over; `settled` says whether it is known to be committed or refused for good.
    pub(super) fn end_part(
        &mut self,
        command: CommandId,
        result: Result<Contents, MediumError>,
        settled: bool,
    ) {
        let Some(part) = self.parts.remove(command) else {
            return;
        };
        let now = self.world.now;
        match part.owner {
            Owner::Task { task, place } => {
                self.portal
                    .part_ended(now, &self.volumes, task, place, result, settled);
            }
            Owner::Copying(command) => self.copy_read(command, result),
            Owner::Clearing(number) => self.clearings.barrier_over(number, settled),
        }
    }
}

/// Where in the volume a part begins, in bytes.
fn offset_of(part: &Part) -> u64 {
    let within = match &part.kind {
        PartKind::Write { offset, .. }
        | PartKind::CompareAndWrite { offset, .. }
        | PartKind::Or { offset, .. }
        | PartKind::Copy { offset, .. } => *offset,
        PartKind::Clear(range) | PartKind::Read(range, _) => {
            u64::from(range.start()) * BLOCK_SIZE as u64
        }
        PartKind::Barrier => 0,
    };
    u64::from(part.slice.index) * SLICE_SIZE + within
}
