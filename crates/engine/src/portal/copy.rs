//! Copies between volumes that hosts ask for (EXTENDED COPY): which volumes an initiator may mean, and one step after
//! another, each an operation like that of any other command.
//!
//! The node that was asked says what is to be done, and sees nothing of what is copied: the primary of each slice that is
//! written reads what it writes, in its order, under the fence of the volume that is written, and under that of the volume that
//! is read (`parts::copying`).
//!
//! A copy may last longer than a write may live. So each step's writes live from a later moment than its command's arrival: one
//! at which the initiator still had its session, for it is asked while it waits, and at which no other node had been asked to end
//! the commands of a unit without this one knowing that (`copies`). Who has had a unit reset elsewhere, and was told that it is,
//! finds no copy going on after that; who is switched off, and has told nobody, leaves one that goes on for as long as any of its
//! writes may: 3 s.
//!
//! Invariants:
//! - a step is begun only while both its volumes are there for the initiator, and while access permits it;
//! - what a step writes is numbered within a write's life after such a moment, which is never behind a gap of more than that;
//! - copies under way are bounded, at the node and for each session, and each has one step under way;
//! - a copy that is stopped for the sake of a volume that it writes or reads is answered: its command is of another one.

use alloc::vec::Vec;

use holdfast_iscsi::target::{SessionId, TaskId};
use holdfast_model::VolumeId;
use holdfast_replica::timing::LIFETIME;
use holdfast_scsi::limits::{COPIES_MAX, COPIES_PER_NEXUS_MAX};
use holdfast_scsi::reservation::Need;
use holdfast_scsi::{CopyList, CopyOutcome, CopyReport, Reachable, Response};
use holdfast_stdx::{Duration, Instant};

use super::{Portal, Task, Work};
use crate::operation::Operation;
use crate::volume::Volumes;

/// An initiator, and every other node, is asked again when nothing newer than this is known of it: well within what a write may
/// live, so that most of that is left for each step.
pub(crate) const ASKED_AFTER: Duration = Duration::from_millis(500);

impl Portal {
    /// A list was read, and is well formed.
    pub(super) fn begin_copy(
        &mut self,
        now: Instant,
        volumes: &Volumes,
        id: TaskId,
        task: Task,
        list: CopyList,
    ) {
        let port = &self.sessions[&task.session].access;
        let outcome = list.begin(port, |naa| {
            let (target, unit, volume) = volumes.identified(naa)?;
            let may = self.target.may_use(task.session, target, unit);
            may.then(|| Reachable {
                volume: volume.id,
                geometry: volume.unit.geometry(),
                access: volumes.access(volume.id),
            })
        });
        let outcome = match outcome {
            CopyOutcome::Step(_, copy) if !self.has_room_for_copy(task.session) => copy.busy(),
            outcome => outcome,
        };
        let since = task.arrived;
        self.copy_on(now, volumes, id, task, (outcome, since));
    }

    fn has_room_for_copy(&self, session: SessionId) -> bool {
        let tasks = self.copies.iter().filter_map(|id| self.tasks.get(id));
        let of_session = tasks.filter(|task| task.session == session);
        self.copies.len() < COPIES_MAX && of_session.count() < COPIES_PER_NEXUS_MAX
    }

    /// A step of a copy is over.
    pub(super) fn copy_step_over(
        &mut self,
        now: Instant,
        volumes: &Volumes,
        id: TaskId,
        mut task: Task,
    ) {
        let work = core::mem::replace(&mut task.work, Work::Access);
        let Work::Copy {
            copy,
            operation,
            since,
        } = work
        else {
            unreachable!("it is a copy")
        };
        if task.aborted {
            self.copy_ended(id, &task, copy.report(), None);
            self.task_over(now, id, &task);
            return;
        }
        let outcome = match operation.result() {
            // It waited for what is not there any more.
            Err(_) if !self.are_reachable(volumes, task.session, copy.volumes()) => {
                copy.unreachable()
            }
            result => copy.complete(result.map(|_| ())),
        };
        let since = self.renewed(now, &task, since);
        self.copy_on(now, volumes, id, task, (outcome, since));
    }

    /// Does what a copy wants done next, if that may be; what it writes lives from `since` on.
    fn copy_on(
        &mut self,
        now: Instant,
        volumes: &Volumes,
        id: TaskId,
        mut task: Task,
        (outcome, since): (CopyOutcome, Instant),
    ) {
        let outcome = match outcome {
            CopyOutcome::Step(_, copy) if task.forbidden => copy.refused(),
            CopyOutcome::Step(_, copy)
                if !self.are_reachable(volumes, task.session, copy.volumes()) =>
            {
                copy.unreachable()
            }
            outcome => outcome,
        };
        match outcome {
            CopyOutcome::Step(step, copy) => {
                if let Some(nexus) = self.nexus_of(&task) {
                    nexus.note_copy(copy.report());
                }
                let (operation, pieces) = Operation::cut_copy(step);
                self.hand_out(id, since, pieces);
                assert!(!operation.is_over(), "there is something to be done");
                task.work = Work::Copy {
                    copy,
                    operation,
                    since,
                };
                self.tasks.insert(id, task);
                self.copies.insert(id);
            }
            CopyOutcome::Done(report, response) => {
                self.copy_ended(id, &task, report, Some(&response));
                self.target.respond(now, id, response, &mut self.out);
                // Somebody may wait for it to be over, though it was not aborted.
                self.task_over(now, id, &task);
            }
        }
    }

    fn copy_ended(
        &mut self,
        id: TaskId,
        task: &Task,
        report: CopyReport,
        response: Option<&Response>,
    ) {
        self.copies.remove(&id);
        if let Some(nexus) = self.nexus_of(task) {
            nexus.end_copy(report, response);
        }
    }

    /// What the unit that was asked knows of who asked; nothing any more once it is none of his.
    fn nexus_of(&mut self, task: &Task) -> Option<&mut holdfast_scsi::Nexus> {
        let session = self.sessions.get_mut(&task.session)?;
        session.units.get_mut(&task.unit)
    }

    fn are_reachable(
        &self,
        volumes: &Volumes,
        session: SessionId,
        concerned: [VolumeId; 2],
    ) -> bool {
        concerned.into_iter().all(|volume| {
            let place = volumes.place_of(volume);
            place.is_some_and(|(target, unit)| self.target.may_use(session, target, unit))
        })
    }

    /// From when on what a copy writes next lives, if it was `since` before. Asks the initiator whether it is there, if that was
    /// some time ago.
    fn renewed(&mut self, now: Instant, task: &Task, since: Instant) -> Instant {
        if now.since(since) > LIFETIME {
            // Whatever is known since then: meanwhile its writes were all given up as over.
            return since;
        }
        let alive_at = self.target.alive_at(task.session).unwrap_or(since);
        let renewed = alive_at.min(self.heard_through).max(since);
        if now.since(alive_at) >= ASKED_AFTER {
            self.target.ask_for_life(now, task.session, &mut self.out);
        }
        renewed
    }

    /// Whether copies are under way.
    pub(crate) fn is_copying(&self) -> bool {
        !self.copies.is_empty()
    }

    /// Up to then no node was asked to end commands without this one knowing that.
    pub(crate) fn hear_through(&mut self, heard_through: Instant) {
        self.heard_through = heard_through;
    }

    /// Copies that read or write volumes whose commands are to end go on with nothing. They are answered, and are over then.
    pub(super) fn stop_copies(&mut self, volumes: &[VolumeId]) -> Vec<TaskId> {
        let mut stopped = Vec::new();
        for id in &self.copies {
            let task = self.tasks.get_mut(id);
            let task = task.expect("a copy under way is a task");
            let is_concerned = |volume: &VolumeId| task.need_of(*volume) != Need::Nothing;
            if task.aborted || !volumes.iter().any(is_concerned) {
                continue;
            }
            stopped.push(*id);
            if !core::mem::replace(&mut task.forbidden, true) {
                self.dropped.push(*id);
            }
        }
        stopped
    }
}
