//! The end of a session at its initiator's wish (RFC 7143 11.14, 11.15), and at ours (11.9).
//!
//! Invariants:
//! - a logout that closes the session is answered when the layer above has confirmed that the
//!   session's commands are over.

use alloc::vec::Vec;

use holdfast_stdx::{Duration, Instant};

use crate::pdu::{
    AsyncEvent, AsyncMessage, InitiatorTaskTag, LogoutReason, LogoutRequest, LogoutResponse,
    LogoutResponseCode, Reply, Sequence,
};
use crate::target::connection::{Connection, Phase};
use crate::target::nexus::Shared;
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
}
