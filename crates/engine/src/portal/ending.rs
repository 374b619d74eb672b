//! How commands end before their time: task management, sessions that close, and what other nodes
//! were asked to end.
//!
//! Invariants:
//! - an ending is confirmed when every command concerned is over, on every node, those included that
//!   an earlier ending, or the end of a session, has left;
//! - the end of a session is confirmed when what it had by RESERVE is released as well;
//! - if one of them was let go without anybody knowing what became of it, the ending is rejected.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use holdfast_iscsi::IscsiName;
use holdfast_iscsi::target::{
    SessionId, TaskId, TaskManagement, TaskManagementFunction as Function, TaskManagementId,
    TaskManagementOutcome,
};
use holdfast_model::{NodeId, VolumeId};
use holdfast_scsi::UnitAttention;
use holdfast_scsi::reservation::Need;
use holdfast_stdx::Instant;

use super::{Portal, Session, Task, Work};
use crate::event::LinkId;
use crate::stall::Left;
use crate::volume::Volumes;

/// Endings that another node may have under way here; beyond it, it waits them out.
const ENDINGS_PER_PEER_MAX: usize = 256;

/// For whom commands are ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum For {
    Initiator(TaskManagementId),
    Peer(EndedFor),
}

/// The node that wanted commands ended, and over which link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EndedFor {
    pub(crate) node: NodeId,
    pub(crate) link: LinkId,
    /// What it called its question.
    pub(crate) number: u64,
}

/// Commands of a unit are to end on all other nodes too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wide {
    pub(crate) request: TaskManagementId,
    pub(crate) target: IscsiName,
    /// All units, if none is named.
    pub(crate) unit: Option<u16>,
    pub(crate) reset: bool,
}

#[derive(Debug)]
struct Ending {
    wanted_by: For,
    waiting: BTreeSet<TaskId>,
    /// Other places where commands are not over yet.
    elsewhere: usize,
    settled: bool,
}

/// Endings under way.
#[derive(Debug, Default)]
pub(super) struct Endings {
    endings: Vec<Ending>,
    /// To be done on other nodes.
    wide: Vec<Wide>,
    /// Other nodes' endings that are over, and whether everything is settled.
    over_for_peers: Vec<(EndedFor, bool)>,
}

impl Session {
    /// Raises on a unit, or on all.
    fn raise(&mut self, unit: Option<u16>, attention: UnitAttention) {
        for (number, nexus) in &mut self.units {
            if unit.is_none_or(|unit| unit == *number) {
                nexus.raise(attention);
            }
        }
    }
}

impl Portal {
    pub(crate) fn take_wide(&mut self) -> Vec<Wide> {
        core::mem::take(&mut self.endings.wide)
    }

    pub(crate) fn take_over_for_peers(&mut self) -> Vec<(EndedFor, bool)> {
        core::mem::take(&mut self.endings.over_for_peers)
    }

    pub(super) fn manage(&mut self, now: Instant, volumes: &Volumes, request: &TaskManagement) {
        let Some(session) = self.sessions.get(&request.session) else {
            return;
        };
        let target = session.nexus.target.clone();
        let (unit, wide) = match request.function {
            Function::AbortTask(_) | Function::AbortUnknownTask => (None, None),
            Function::AbortTaskSet(lun) => (Some(lun), None),
            Function::ClearTaskSet(lun) => (Some(lun), Some(false)),
            Function::LogicalUnitReset(lun) => (Some(lun), Some(true)),
            Function::TargetWarmReset | Function::TargetColdReset => (None, Some(true)),
        };
        if let Some(lun) = unit
            && volumes.unit(&target, lun).is_none()
        {
            let outcome = TaskManagementOutcome::LunDoesNotExist;
            self.target
                .finish_task_management(now, request.request, outcome, &mut self.out);
            return;
        }
        if let Some(reset) = wide {
            let unit = unit.and_then(holdfast_scsi::Lun::number);
            if reset {
                self.raise_reset(&target, unit);
            } else {
                let mut sessions = request.sessions.clone();
                sessions.retain(|session| *session != request.session);
                self.raise_cleared(&sessions, unit);
            }
            self.endings.wide.push(Wide {
                request: request.request,
                target: target.clone(),
                unit,
                reset,
            });
        }
        let mut tasks = request.tasks.clone();
        let ended = volumes.of(&target, unit.and_then(holdfast_scsi::Lun::number));
        if !matches!(request.function, Function::AbortTask(_)) {
            let of = wide.is_none().then_some(request.session);
            tasks.extend(self.left(&ended, of));
        }
        // One elsewhere: until it is known how many there are.
        let (ended, elsewhere) = match wide {
            Some(_) => (ended, 1),
            None => (Vec::new(), 0),
        };
        let wanted_by = For::Initiator(request.request);
        self.end_tasks(now, wanted_by, tasks, &ended, elsewhere);
    }

    /// Tasks of volumes, of one session or of all, that were ended before and are not over yet: copies that another unit was asked
    /// for, and that read or write one of these, among them.
    fn left(&self, volumes: &[VolumeId], of: Option<SessionId>) -> Vec<TaskId> {
        let concerns =
            |task: &Task, volume| task.volume == volume || task.need_of(volume) != Need::Nothing;
        let tasks = self.tasks.iter().filter(|(_, task)| {
            task.aborted
                && volumes.iter().any(|volume| concerns(task, *volume))
                && of.is_none_or(|session| session == task.session)
        });
        tasks.map(|(id, _)| *id).collect()
    }

    /// Another node wants all commands of a unit ended.
    pub(crate) fn end_unit(
        &mut self,
        now: Instant,
        volumes: &Volumes,
        (target, unit): (&IscsiName, u16),
        reset: bool,
        wanted_by: EndedFor,
    ) {
        let of_peer = |ending: &&Ending| matches!(ending.wanted_by, For::Peer(it) if it.node == wanted_by.node);
        let are_many = self.endings.endings.iter().filter(of_peer).count() >= ENDINGS_PER_PEER_MAX;
        let ended = self
            .target
            .abort_tasks(now, target, Some(unit), &mut self.out);
        if reset {
            self.raise_reset(target, Some(unit));
        } else {
            self.raise_cleared(&ended.sessions, Some(unit));
        }
        let mut tasks = ended.tasks;
        let ended = volumes.of(target, Some(unit));
        tasks.extend(self.left(&ended, None));
        if are_many {
            // Who waits for the answer has to wait until all has lived its life: what lives longer has to stop all the same.
            self.stop_tasks(now, tasks, &ended);
        } else {
            self.end_tasks(now, For::Peer(wanted_by), tasks, &ended, 0);
        }
        self.settle(now, volumes);
    }

    /// The commands of a unit are being ended at so many places; they count as one so far.
    pub(crate) fn ends_elsewhere(
        &mut self,
        now: Instant,
        volumes: &Volumes,
        request: TaskManagementId,
        count: usize,
    ) {
        if let Some(ending) = self.ending(request) {
            ending.elsewhere = ending.elsewhere + count - 1;
        }
        self.finish_endings(now);
        self.settle(now, volumes);
    }

    /// The commands of a unit are over at one of those places.
    pub(crate) fn ended_elsewhere(
        &mut self,
        now: Instant,
        volumes: &Volumes,
        request: TaskManagementId,
        settled: bool,
    ) {
        if let Some(ending) = self.ending(request) {
            ending.elsewhere -= 1;
            ending.settled &= settled;
        }
        self.finish_endings(now);
        self.settle(now, volumes);
    }

    fn ending(&mut self, request: TaskManagementId) -> Option<&mut Ending> {
        let wanted_by = For::Initiator(request);
        let mut endings = self.endings.endings.iter_mut();
        endings.find(|ending| ending.wanted_by == wanted_by)
    }

    /// Ends tasks, and those of others as far as they read or write volumes of which all commands end.
    fn end_tasks(
        &mut self,
        now: Instant,
        wanted_by: For,
        tasks: Vec<TaskId>,
        volumes: &[VolumeId],
        elsewhere: usize,
    ) {
        let waiting = self.stop_tasks(now, tasks, volumes);
        self.endings.endings.push(Ending {
            wanted_by,
            waiting,
            elsewhere,
            settled: true,
        });
        self.finish_endings(now);
    }

    /// Lets tasks begin nothing any more, and copies that read or write the volumes; says which of all are not over yet.
    fn stop_tasks(
        &mut self,
        now: Instant,
        tasks: Vec<TaskId>,
        volumes: &[VolumeId],
    ) -> BTreeSet<TaskId> {
        let tasks = tasks.into_iter();
        let mut waiting: BTreeSet<TaskId> = tasks.filter(|task| self.abort(now, *task)).collect();
        waiting.extend(self.stop_copies(volumes));
        waiting
    }

    /// Tells every initiator that a unit was reset, or all of a target's (SAM-5 7.7).
    fn raise_reset(&mut self, target: &IscsiName, unit: Option<u16>) {
        let sessions = self.sessions.values_mut();
        for session in sessions.filter(|session| session.nexus.target == *target) {
            session.raise(unit, UnitAttention::Reset);
        }
    }

    /// Tells initiators that another cleared commands of theirs: those that had any (SAM-5 5.14.3,
    /// 7.3), for who had none has lost nothing.
    fn raise_cleared(&mut self, sessions: &[SessionId], unit: Option<u16>) {
        for id in sessions {
            if let Some(session) = self.sessions.get_mut(id) {
                session.raise(unit, UnitAttention::CommandsCleared);
            }
        }
    }

    /// Aborts a task; false if there is none any more.
    pub(super) fn abort(&mut self, now: Instant, id: TaskId) -> bool {
        let Some(task) = self.tasks.get_mut(&id) else {
            return false;
        };
        if !core::mem::replace(&mut task.aborted, true) {
            self.dropped.push(id);
            // Of orders no time is kept.
            if matches!(task.work, Work::Medium { .. }) {
                self.stalls
                    .end(now, task.volume, task.session, Left::Refused);
            }
        }
        true
    }

    pub(super) fn close_session(&mut self, now: Instant, id: SessionId) {
        let tasks = self.tasks.iter().filter(|(_, task)| task.session == id);
        let tasks: Vec<TaskId> = tasks.map(|(task, _)| *task).collect();
        for task in tasks {
            self.abort(now, task);
        }
        self.stalls.forget(now, id);
        // While it is known whose it was.
        self.handle_flushed(now);
        self.usage.forget(id);
        let session = self.sessions.get_mut(&id);
        session.expect("what closes was open").closed = true;
        self.finish_session(now, id);
    }

    /// A task that was aborted, or stopped, is over.
    pub(super) fn task_over(&mut self, now: Instant, id: TaskId, task: &Task) {
        for ending in &mut self.endings.endings {
            if ending.waiting.remove(&id) {
                ending.settled &= task.settled;
            }
        }
        self.finish_endings(now);
        self.finish_session(now, task.session);
    }

    fn finish_endings(&mut self, now: Instant) {
        let is_over = |ending: &mut Ending| ending.waiting.is_empty() && ending.elsewhere == 0;
        let over: Vec<Ending> = self.endings.endings.extract_if(.., is_over).collect();
        for Ending {
            wanted_by, settled, ..
        } in over
        {
            match wanted_by {
                For::Initiator(request) => {
                    let outcome = if settled {
                        TaskManagementOutcome::Complete
                    } else {
                        TaskManagementOutcome::Rejected
                    };
                    self.target
                        .finish_task_management(now, request, outcome, &mut self.out);
                }
                For::Peer(peer) => self.endings.over_for_peers.push((peer, settled)),
            }
        }
    }

    pub(super) fn is_closed(&self, id: SessionId) -> bool {
        self.sessions.get(&id).is_some_and(|session| session.closed)
    }

    /// Confirms the end of a session, if nothing of it is under way.
    pub(super) fn finish_session(&mut self, now: Instant, id: SessionId) {
        let session = self.sessions.get(&id);
        let may_end = session.is_some_and(|session| session.closed && session.releases == 0);
        if may_end && !self.tasks.values().any(|task| task.session == id) {
            self.sessions.remove(&id);
            self.target.finish_session(now, id, &mut self.out);
        }
    }
}
