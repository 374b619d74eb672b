//! The end of a session at its initiator's wish (RFC 7143 11.14, 11.15), and at ours (11.9).
//!
//! Invariants:
//! - a logout that closes the session is answered when the layer above has confirmed that the
//!   session's commands are over;
//! - a session that ends at our wish is told of that before its connection is closed.

use alloc::vec::Vec;

use holdfast_stdx::{Duration, Instant};

use crate::pdu::{
    AsyncEvent, AsyncMessage, InitiatorTaskTag, LogoutReason, LogoutRequest, LogoutResponse,
    LogoutResponseCode, Reply, Sequence,
};
use crate::target::connection::{Connection, Phase};
use crate::target::nexus::Shared;
use crate::target::session::Identity;
use crate::target::{CloseReason, ConnectionId, SessionId, Target, TargetOutput};

/// A session that has ended and owes its initiator a goodbye.
#[derive(Debug)]
pub(super) struct LoggingOut {
    tag: InitiatorTaskTag,
    sequence: Sequence,
}

impl Target {
    pub(super) fn log_out(
        &mut self,
        now: Instant,
        id: ConnectionId,
        request: &LogoutRequest,
        out: &mut TargetOutput,
    ) {
        let connection = self
            .connections
            .get_mut(&id)
            .expect("it has just been handled");
        let Phase::Full(session) = &mut connection.phase else {
            unreachable!("requests are handled in the full feature phase");
        };
        let refusal = match request.reason {
            LogoutReason::CloseSession => None,
            LogoutReason::CloseConnection if request.connection == session.cid => None,
            LogoutReason::CloseConnection => Some(LogoutResponseCode::CidNotFound),
            // ErrorRecoveryLevel 2 only (RFC 7143 11.14.1).
            LogoutReason::RemoveForRecovery => Some(LogoutResponseCode::RecoveryNotSupported),
        };
        let sequence = session.sequence(&mut connection.wire, &mut self.shared, true);
        let logging_out = LoggingOut {
            tag: request.task_tag,
            sequence,
        };
        if let Some(code) = refusal {
            connection
                .wire
                .send(&logging_out.response(code), Vec::new(), out);
            return;
        }
        let nexus = session.identity.as_ref().map(|it| it.nexus.clone());
        let phase = Phase::LoggingOut(logging_out.into());
        let Phase::Full(session) = core::mem::replace(&mut connection.phase, phase) else {
            unreachable!("it was in the full feature phase");
        };
        self.shared.end_session(*session, CloseReason::Logout, out);
        match nexus {
            Some(nexus) => {
                self.shared.wait_for_logout(&nexus, id);
                let deadline = now + self.shared.limits().drain_timeout;
                self.set_deadline(id, Some(deadline));
            }
            None => self.say_goodbye(id, out),
        }
    }

    /// Asks every initiator to log out that is to be elsewhere, and was not asked before.
    pub(super) fn ask_away(&mut self, now: Instant, out: &mut TargetOutput) {
        let Some(seconds) = self.shared.maintenance else {
            return;
        };
        let mut asked = Vec::new();
        for connection in self.connections.values_mut() {
            let Phase::Full(session) = &mut connection.phase else {
                continue;
            };
            let Some(Identity { nexus, .. }) = &session.identity else {
                continue;
            };
            let who = (&nexus.initiator, nexus.isid);
            let has_place = self.shared.elsewhere(&nexus.target, who).is_some();
            if has_place && session.logout_deadline.is_none() {
                session.is_asked_away = true;
                connection.request_logout(now, seconds, &mut self.shared, out);
                let deadline = connection.next_deadline(self.shared.limits());
                asked.push((connection.wire.id, deadline));
            }
        }
        for (id, deadline) in asked {
            self.set_deadline(id, deadline);
        }
    }

    /// Those who were asked to be elsewhere, and have not gone, may stay.
    pub(super) fn let_stay(&mut self) {
        let mut staying = Vec::new();
        for connection in self.connections.values_mut() {
            if let Phase::Full(session) = &mut connection.phase
                && core::mem::take(&mut session.is_asked_away)
            {
                session.logout_deadline = None;
                let deadline = connection.next_deadline(self.shared.limits());
                staying.push((connection.wire.id, deadline));
            }
        }
        for (id, deadline) in staying {
            self.set_deadline(id, deadline);
        }
    }

    /// The layer above is done with a session: who waited for that goes on.
    pub(super) fn end_drain(&mut self, now: Instant, session: SessionId, out: &mut TargetOutput) {
        let Some(end) = self.shared.end_drain(session) else {
            return;
        };
        if let Some(id) = end.logging_out {
            self.say_goodbye(id, out);
        }
        if let Some(id) = end.waiting {
            self.resume_opening(now, id, out);
        }
    }

    fn say_goodbye(&mut self, id: ConnectionId, out: &mut TargetOutput) {
        // Its connection may be gone meanwhile.
        let Some(connection) = self.connections.get_mut(&id) else {
            return;
        };
        let Phase::LoggingOut(logging_out) = &connection.phase else {
            unreachable!("only a logout waits for its goodbye");
        };
        let response = logging_out.response(LogoutResponseCode::Success);
        connection.wire.send(&response, Vec::new(), out);
        self.close(id, CloseReason::Logout, out);
    }
}

impl LoggingOut {
    fn response(&self, code: LogoutResponseCode) -> Reply {
        Reply::Logout(LogoutResponse {
            response: code.code(),
            task_tag: self.tag,
            sequence: self.sequence,
            // Come back at once; nothing is kept.
            time_to_wait: 0,
            time_to_retain: 0,
        })
    }
}

impl Connection {
    /// Asks the initiator to log out (RFC 7143 11.9.1: event 1, parameter 3 is the time).
    pub(super) fn request_logout(
        &mut self,
        now: Instant,
        seconds: u16,
        shared: &mut Shared,
        out: &mut TargetOutput,
    ) {
        let Phase::Full(session) = &mut self.phase else {
            return;
        };
        session.logout_deadline = Some(now + Duration::from_secs(seconds.into()));
        let reply = Reply::Async(AsyncMessage {
            event: AsyncEvent::LogoutRequested.code(),
            sequence: session.sequence(&mut self.wire, shared, true),
            parameters: [0, 0, seconds],
        });
        self.wire.send(&reply, Vec::new(), out);
    }
    /// Says that the session ends (RFC 7143 11.9.1: event 3, parameters 2 and 3 are Time2Wait and
    /// Time2Retain). Nothing of it is kept.
    pub(super) fn announce_end(&mut self, shared: &mut Shared, out: &mut TargetOutput) {
        let Phase::Full(session) = &mut self.phase else {
            return;
        };
        let time_to_wait = u16::try_from(session.parameters.time_to_wait);
        let time_to_wait = time_to_wait.expect("Time2Wait is an hour at most");
        let reply = Reply::Async(AsyncMessage {
            event: AsyncEvent::SessionDropped.code(),
            sequence: session.sequence(&mut self.wire, shared, true),
            parameters: [0, time_to_wait, 0],
        });
        self.wire.send(&reply, Vec::new(), out);
    }
}
