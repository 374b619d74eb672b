//! Access to volumes, as sessions meet it: commands about reservations become orders, and what is under way is held against a
//! new state as soon as that is known.
//!
//! Invariants:
//! - from then on nothing is begun, or sent on, that the new state does not permit;
//! - a command that may not go on ends with RESERVATION CONFLICT when everything of it is over, and with what it has done
//!   if all of it was done;
//! - what a nexus is to be told is known to its session before the command that is the reason is answered.

use alloc::vec::Vec;

use holdfast_iscsi::target::{SessionId, TaskId};
use holdfast_model::VolumeId;
use holdfast_model::record::{AccessNexus, AccessRecord, Isid};
use holdfast_scsi::reservation::{self, Need, OutAction};
use holdfast_scsi::{Response, Status, UnitAttention};
use holdfast_stdx::Instant;

use super::{Portal, Session, Task, Work};
use crate::access::Cause;
use crate::volume::Volumes;

/// PREEMPT AND ABORT, among the actions that change the access.
const PREEMPT_AND_ABORT: u8 = OutAction::PreemptAndAbort(None).code();

/// The answer to a command that a reservation forbids.
pub(super) fn conflict() -> Response {
    Response::bare(Status::ReservationConflict)
}

impl Portal {
    pub(crate) fn take_orders(&mut self) -> Vec<(VolumeId, Cause)> {
        core::mem::take(&mut self.orders)
    }

    /// The name of a session's nexus, as reservations know it.
    pub(super) fn access_nexus(&self, nexus: &holdfast_iscsi::Nexus) -> AccessNexus {
        AccessNexus {
            initiator: nexus.initiator.as_str().into(),
            isid: Isid(nexus.isid.0),
            port: self.node,
        }
    }

    /// Whether there is a session of a nexus with a volume's target.
    pub(crate) fn has_nexus(
        &self,
        volumes: &Volumes,
        volume: VolumeId,
        nexus: &AccessNexus,
    ) -> bool {
        let target = volumes.place_of(volume).map(|(target, _)| target);
        let mut sessions = self.sessions.values().filter(|session| !session.closed);
        sessions.any(|it| it.access == *nexus && Some(&it.nexus.target) == target)
    }

    /// An order of a command is over; `settled`: and it is known whether it was carried out.
    pub(crate) fn answer(
        &mut self,
        now: Instant,
        volumes: &Volumes,
        id: TaskId,
        (response, settled): (Response, bool),
    ) {
        let Some(mut task) = self.tasks.remove(&id) else {
            return;
        };
        assert!(matches!(task.work, Work::Access), "it was an order");
        task.settled &= settled;
        if task.aborted {
            self.task_over(now, id, &task);
        } else {
            self.target.respond(now, id, response, &mut self.out);
        }
        self.settle(now, volumes);
    }

    /// The commands of a nexus at a unit are aborted, but for the one that wants it so, which preempts its own sender.
    pub(crate) fn abort_fellows(&mut self, now: Instant, id: TaskId) {
        let Some(Task {
            session, volume, ..
        }) = self.tasks.get(&id)
        else {
            return;
        };
        let (session, volume) = (*session, *volume);
        let fellows = self.tasks.iter().filter(|(other, task)| {
            **other != id && task.session == session && task.volume == volume
        });
        let fellows: Vec<TaskId> = fellows.map(|(other, _)| *other).collect();
        for fellow in fellows {
            self.abort(now, fellow);
        }
    }

    /// What a session had by RESERVE ends with it (SPC-2 5.5.1).
    pub(super) fn release_reserved(&mut self, volumes: &Volumes, id: SessionId) {
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        for volume in volumes.of(&session.nexus.target, None) {
            if volumes.access(volume).reserved.as_ref() == Some(&session.access) {
                let nexus = session.access.clone();
                let closing = Some(id);
                session.releases += 1;
                self.orders
                    .push((volume, Cause::NexusLost { nexus, closing }));
            }
        }
    }

    /// An order of a command is over, which may have been a RESERVE of a session that has been closed meanwhile.
    pub(crate) fn release_late(&mut self, volumes: &Volumes, task: TaskId) {
        let session = self.tasks.get(&task).map(|task| task.session);
        let closed = session.filter(|session| self.is_closed(*session));
        if let Some(session) = closed {
            self.release_reserved(volumes, session);
        }
    }

    /// What a session that is being closed had by RESERVE of one volume has ended, or cannot be ended in time.
    pub(crate) fn released(&mut self, now: Instant, volumes: &Volumes, id: SessionId) {
        let session = self.sessions.get_mut(&id);
        session.expect("it waits for that").releases -= 1;
        self.finish_session(now, id);
        self.settle(now, volumes);
    }

    /// All sessions with a volume are told something.
    pub(crate) fn raise(&mut self, volumes: &Volumes, volume: VolumeId, attention: UnitAttention) {
        let Some((target, unit)) = volumes.place_of(volume) else {
            return;
        };
        let sessions = self.sessions.values_mut();
        for session in sessions.filter(|session| session.nexus.target == *target) {
            if let Some(nexus) = session.units.get_mut(&unit) {
                nexus.raise(attention);
            }
        }
    }

    /// The access to a volume is another than before.
    pub(crate) fn access_changed(
        &mut self,
        now: Instant,
        volumes: &Volumes,
        volume: VolumeId,
        before: &AccessRecord,
    ) {
        let Some((target, unit)) = volumes.place_of(volume) else {
            return;
        };
        let after = volumes.access(volume);
        let is_of = |session: &Session| session.nexus.target == *target && !session.closed;
        let sessions = self.sessions.iter_mut();
        for (id, session) in sessions.filter(|(_, session)| is_of(session)) {
            if is_preempted(before, after, &session.access) {
                // What was not even begun is aborted as well.
                self.target.abort_waiting(now, *id, unit, &mut self.out);
            }
            let attention = reservation::attentions(before, after, &session.access);
            if let (Some(attention), Some(nexus)) = (attention, session.units.get_mut(&unit)) {
                nexus.raise(attention);
            }
        }
        let tasks = self.tasks.iter();
        let tasks = tasks.filter(|(_, task)| task.need_of(volume) != Need::Nothing);
        let tasks: Vec<TaskId> = tasks.map(|(id, _)| *id).collect();
        for id in tasks {
            let task = &self.tasks[&id];
            let nexus = self.sessions.get(&task.session).map(|it| &it.access);
            let is_hit = nexus.is_some_and(|nexus| is_preempted(before, after, nexus));
            // A copy that another unit was asked for has to be answered there.
            if is_hit && task.volume == volume {
                self.abort(now, id);
                continue;
            }
            let need = task.need_of(volume);
            let may = nexus.is_some_and(|nexus| reservation::permits(after, nexus, need));
            if (!may || is_hit) && !task.aborted && !task.forbidden {
                self.dropped.push(id);
                let task = self.tasks.get_mut(&id).expect("it was just there");
                task.forbidden = true;
            }
        }
        self.settle(now, volumes);
    }
}

/// Whether PREEMPT AND ABORT has taken a nexus' registration: its commands are aborted, and not answered (SPC-4 5.12.11.2.6).
fn is_preempted(before: &AccessRecord, after: &AccessRecord, nexus: &AccessNexus) -> bool {
    let last = after.last.as_ref();
    last.is_some_and(|last| last.action == Some(PREEMPT_AND_ABORT) && last.nexus != *nexus)
        && before.registration(nexus).is_some()
        && after.registration(nexus).is_none()
}
