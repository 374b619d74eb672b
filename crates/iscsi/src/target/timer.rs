//! Deadlines of connections: logins that take too long, initiators that fell silent, goodbyes.
//!
//! Invariants:
//! - a connection has one deadline in the list; that of a session is moved only when it comes, for
//!   the time of the last word changes with every PDU.

use holdfast_stdx::Instant;

use crate::target::connection::{Connection, Phase};
use crate::target::{CloseReason, ConnectionId, Limits, Target, TargetOutput};

impl Connection {
    /// The deadline of a session.
    pub(super) fn next_deadline(&self, limits: &Limits) -> Option<Instant> {
        let Phase::Full(session) = &self.phase else {
            return self.deadline;
        };
        let silence = match self.pinged {
            Some(asked) => asked + limits.ping_timeout,
            None => self.last_heard + limits.ping_after,
        };
        let others = [session.logout_deadline, self.doubts_until()];
        others.into_iter().flatten().chain([silence]).min()
    }
}

impl Target {
    /// The deadline of `id` has come.
    pub(super) fn handle_deadline(
        &mut self,
        now: Instant,
        id: ConnectionId,
        out: &mut TargetOutput,
    ) {
        let limits = *self.shared.limits();
        let connection = self.connections.get_mut(&id);
        let connection = connection.expect("a deadline has its connection");
        let Phase::Full(session) = &connection.phase else {
            let reason = match connection.phase {
                Phase::LoggingOut(_) => CloseReason::Logout,
                _ => CloseReason::LoginTimeout,
            };
            self.close(id, reason, out);
            return;
        };
        if session
            .logout_deadline
            .is_some_and(|deadline| deadline <= now)
        {
            self.close(id, CloseReason::LogoutTimeout, out);
            return;
        }
        match connection.pinged {
            Some(asked) if asked + limits.ping_timeout <= now => {
                self.close(id, CloseReason::PingTimeout, out);
                return;
            }
            Some(_) => {}
            None if connection.last_heard + limits.ping_after <= now => {
                connection.ping(now, &mut self.shared, out);
            }
            None => {}
        }
        connection.put_off_doubted(now, &mut self.shared, out);
        let deadline = connection.next_deadline(&limits);
        self.set_deadline(id, deadline);
    }
}
