//! Task management (RFC 7143 11.5, 11.6, and 4.2.3 on what happens to tasks).
//!
//! Invariants:
//! - a task that was ended is never answered; the function is answered when the layer above says
//!   that the tasks it had are over;
//! - tasks whose answer is in line already were over before the function: they are answered first.

use alloc::vec::Vec;

use holdfast_scsi::Lun;
use holdfast_stdx::Instant;

use crate::pdu::{
    InitiatorTaskTag, NopOut, Payload, RejectReason, Request, TargetTransferTag,
    TaskManagementCode, TaskManagementRequest, TaskManagementResponseCode as Code,
};
use crate::target::command::unit_of;
use crate::target::connection::Phase;
use crate::target::nexus::{DeliveredTasks, PendingRequest, Shared};
use crate::target::session::{Aborted, Held, Outgoing, Session};
use crate::target::task::{Task, TaskState};
use crate::target::{
    CloseReason, ConnectionId, SessionId, Target, TargetEvent, TargetOutput, TaskManagement,
    TaskManagementFunction as Function, TaskManagementId, TaskManagementOutcome,
};
use crate::{IscsiName, Nexus};

impl Target {
    pub(super) fn manage(
        &mut self,
        id: ConnectionId,
        request: &TaskManagementRequest,
        out: &mut TargetOutput,
    ) {
        let management_max = self.shared.limits().management_max;
        let pending = self
            .shared
            .requests
            .values()
            .filter(|it| it.connection == id)
            .count();
        if pending >= management_max {
            let connection = self
                .connections
                .get_mut(&id)
                .expect("it has just been handled");
            let header = Request::TaskManagement(*request).encode();
            connection.reject(
                &header,
                RejectReason::TooManyImmediate,
                &mut self.shared,
                out,
            );
            return;
        }
        match self.begin_management(id, request) {
            Ok((function, aborted)) => {
                self.hand_up(id, request.task_tag, function, aborted, out);
            }
            Err(code) => self.answer_management(id, request.task_tag, code, out),
        }
        // Commands that waited behind those that were ended may go now.
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.pump(&mut self.shared, out);
        }
    }

    /// Ends the tasks that the machine can end; what is left is the layer above's. The error is the
    /// code to answer at once.
    fn begin_management(
        &mut self,
        id: ConnectionId,
        request: &TaskManagementRequest,
    ) -> Result<(Function, Aborted), Code> {
        let code = TaskManagementCode::from_code(request.function).ok_or(Code::NotSupported)?;
        let lun = request.lun;
        let connection = self
            .connections
            .get_mut(&id)
            .expect("it has just been handled");
        let Phase::Full(session) = &mut connection.phase else {
            unreachable!("requests are handled in the full feature phase");
        };
        let identity = session
            .identity
            .as_ref()
            .expect("discovery has no task management");
        let nexus = identity.nexus.clone();
        let target = &nexus.target;
        let mut aborted = Aborted::default();
        let function = match code {
            TaskManagementCode::AbortTask => {
                match session.abort_one(request, &mut self.shared.tasks, &mut aborted) {
                    Ok(()) => {}
                    Err(Code::TaskDoesNotExist) => {
                        return Ok((Function::AbortUnknownTask, aborted));
                    }
                    Err(code) => return Err(code),
                }
                let Some(task) = aborted.tasks.first() else {
                    // The layer above never saw it.
                    self.shared.budget.release(aborted.reserved);
                    return Err(Code::Complete);
                };
                Function::AbortTask(*task)
            }
            TaskManagementCode::ClearAca => return Err(Code::NotSupported),
            TaskManagementCode::TaskReassign => return Err(Code::ReassignmentNotSupported),
            TaskManagementCode::AbortTaskSet => {
                self.shared.check_unit(&nexus, lun)?;
                let tasks = &mut self.shared.tasks;
                session.abort(tasks, |task| task.is_for(lun), &mut aborted);
                Function::AbortTaskSet(lun)
            }
            TaskManagementCode::ClearTaskSet | TaskManagementCode::LogicalUnitReset => {
                self.shared.check_unit(&nexus, lun)?;
                aborted = self.abort_on_target(target, unit_of(lun));
                if code == TaskManagementCode::ClearTaskSet {
                    Function::ClearTaskSet(lun)
                } else {
                    Function::LogicalUnitReset(lun)
                }
            }
            TaskManagementCode::TargetWarmReset => {
                self.shared.check_all_units(&nexus)?;
                aborted = self.abort_on_target(target, None);
                Function::TargetWarmReset
            }
            TaskManagementCode::TargetColdReset => {
                self.shared.check_all_units(&nexus)?;
                aborted = self.abort_on_target(target, None);
                Function::TargetColdReset
            }
        };
        Ok((function, aborted))
    }

    /// Ends tasks of all sessions on a target, or on one of its units. What they had reserved is
    /// the caller's to release.
    pub(super) fn abort_on_target(&mut self, target: &IscsiName, unit: Option<u16>) -> Aborted {
        let mut aborted = Aborted::default();
        for connection in self.connections.values_mut() {
            if connection.target() != Some(target) {
                continue;
            }
            let Phase::Full(session) = &mut connection.phase else {
                unreachable!("a connection with a target has its session");
            };
            let matches = |task: &Task| unit.is_none() || unit_of(task.lun) == unit;
            session.abort(&mut self.shared.tasks, matches, &mut aborted);
        }
        aborted
    }

    /// Ends the commands of a session for a unit that were not given up yet: those that are still to come in whole, that wait for their
    /// turn, or for word of their initiator. They are never answered.
    pub fn abort_waiting(
        &mut self,
        now: Instant,
        session: SessionId,
        unit: u16,
        out: &mut TargetOutput,
    ) {
        let mut aborted = Aborted::default();
        let connection = self.shared.connection_of(session);
        let connection = connection.and_then(|it| self.connections.get_mut(&it));
        if let Some(Phase::Full(session)) = connection.map(|it| &mut it.phase) {
            let waits = |task: &Task| {
                unit_of(task.lun) == Some(unit) && !matches!(task.state, TaskState::Delivered(_))
            };
            session.abort(&mut self.shared.tasks, waits, &mut aborted);
        }
        self.shared.budget.release(aborted.reserved);
        self.settle(now, out);
    }

    fn hand_up(
        &mut self,
        id: ConnectionId,
        tag: InitiatorTaskTag,
        function: Function,
        aborted: Aborted,
        out: &mut TargetOutput,
    ) {
        let connection = &self.connections[&id];
        let Phase::Full(session) = &connection.phase else {
            unreachable!("requests are handled in the full feature phase");
        };
        let identity = session
            .identity
            .as_ref()
            .expect("discovery has no task management");
        let request = self.shared.next_request();
        let pending = PendingRequest {
            connection: id,
            tag,
            function,
            reserved: aborted.reserved,
        };
        self.shared.requests.insert(request, pending);
        out.events
            .push_back(TargetEvent::TaskManagement(TaskManagement {
                request,
                session: identity.session,
                function,
                tasks: aborted.tasks,
                sessions: aborted.sessions,
            }));
    }

    pub(super) fn finish_management(
        &mut self,
        request: TaskManagementId,
        outcome: TaskManagementOutcome,
        out: &mut TargetOutput,
    ) {
        let Some(pending) = self.shared.requests.remove(&request) else {
            return;
        };
        self.shared.budget.release(pending.reserved);
        let code = match outcome {
            TaskManagementOutcome::Complete if pending.function == Function::AbortUnknownTask => {
                Code::TaskDoesNotExist
            }
            TaskManagementOutcome::Complete => Code::Complete,
            TaskManagementOutcome::LunDoesNotExist => Code::LunDoesNotExist,
            TaskManagementOutcome::Rejected => Code::Rejected,
        };
        self.answer_management(pending.connection, pending.tag, code, out);
        if pending.function == Function::TargetColdReset && code == Code::Complete {
            self.close_sessions_beside(pending.connection, out);
        }
    }

    /// TARGET COLD RESET ends all sessions of the target (RFC 7143 11.5.1).
    fn close_sessions_beside(&mut self, id: ConnectionId, out: &mut TargetOutput) {
        let Some(target) = self
            .connections
            .get(&id)
            .and_then(|it| it.target())
            .cloned()
        else {
            return;
        };
        let all: Vec<ConnectionId> = self
            .connections
            .values()
            .filter(|it| it.target() == Some(&target))
            .map(|it| it.wire.id)
            .collect();
        for connection in all {
            self.close(connection, CloseReason::ColdReset, out);
        }
    }

    fn answer_management(
        &mut self,
        id: ConnectionId,
        tag: InitiatorTaskTag,
        code: Code,
        out: &mut TargetOutput,
    ) {
        let connection = self.connections.get_mut(&id);
        let connection = connection.expect("a pending request has its connection");
        if let Phase::Full(session) = &mut connection.phase {
            session
                .answers
                .push_back(Outgoing::Management(tag, code.code()));
            connection.pump_answers(&mut self.shared, out);
        }
    }
}

impl Shared {
    /// A unit that the initiator does not see does not exist.
    fn check_unit(&self, nexus: &Nexus, lun: Lun) -> Result<(), Code> {
        let unit = unit_of(lun).ok_or(Code::LunDoesNotExist)?;
        let entry = self.directory.targets.get(&nexus.target);
        if entry.is_some_and(|it| it.shows(unit, &nexus.initiator)) {
            Ok(())
        } else {
            Err(Code::LunDoesNotExist)
        }
    }

    /// What concerns all units of a target is for those who see all of them (RFC 7143 11.5.1: resets
    /// "may be subject to SCSI access controls").
    fn check_all_units(&self, nexus: &Nexus) -> Result<(), Code> {
        let entry = self.directory.targets.get(&nexus.target);
        let mut units = entry.into_iter().flat_map(|it| it.units.values());
        if units.all(|access| access.permits(&nexus.initiator)) {
            Ok(())
        } else {
            Err(Code::AuthorizationFailed)
        }
    }
}

impl Session {
    /// ABORT TASK, by the table of RFC 7143 11.6.1.
    fn abort_one(
        &mut self,
        request: &TaskManagementRequest,
        delivered: &mut DeliveredTasks,
        aborted: &mut Aborted,
    ) -> Result<(), Code> {
        let tag = request.referenced_tag;
        let task = self.tasks.get(&tag);
        match task.map(|task| matches!(task.state, TaskState::Answering(_))) {
            // Its answer is in line: it was over before it could be ended.
            Some(true) => Err(Code::TaskDoesNotExist),
            Some(false) => {
                self.abort(delivered, |task| task.tag == tag, aborted);
                Ok(())
            }
            // "If the Referenced Task Tag does not identify an existing task but the CmdSN
            // indicated by the RefCmdSN field is within the valid CmdSN window and less than the
            // CmdSN of the request itself, targets must consider the CmdSN received and return
            // the Function Complete response."
            None if request.referenced_number.precedes(request.command_number)
                && self.skip(request) =>
            {
                Err(Code::Complete)
            }
            None => Err(Code::TaskDoesNotExist),
        }
    }

    fn skip(&mut self, request: &TaskManagementRequest) -> bool {
        let nothing = Request::NopOut(NopOut {
            immediate: false,
            lun: request.lun,
            task_tag: InitiatorTaskTag::RESERVED,
            transfer_tag: TargetTransferTag::RESERVED,
            command_number: request.referenced_number,
            expected_status: request.expected_status,
        });
        let held = Held {
            request: nothing,
            data: Payload::new(),
            // It has not come, and nobody waits for it.
            received: Instant::ZERO,
        };
        self.window.skip(request.referenced_number, held)
    }
}
