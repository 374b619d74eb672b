//! Whether an initiator still waits for what it has sent.
//!
//! TCP may deliver late: what was sent into a dead cable comes when that works again, also from a socket that was closed
//! meanwhile, and then its command was repeated elsewhere long ago. So a command that leaves something behind is given up only when
//! its initiator is known to have heard from this side not long before it came, or at any time after that: it acknowledges a
//! status by its number (ExpStatSN, RFC 7143 4.2.2.2), sends data that it was asked for (R2T), or answers a question (NOP-In). Hosts
//! that are busy say so with every PDU; one that has been idle is asked.
//!
//! Invariants:
//! - a moment at which an initiator is known to have been there is one at which this side sent something, or before that: what it
//!   has heard since, it may have lost patience with;
//! - no number that was not sent acknowledges anything.

use alloc::vec::Vec;

use holdfast_scsi::{Response, Status};
use holdfast_stdx::{Duration, Instant};

use crate::pdu::{InitiatorTaskTag, TargetTransferTag};
use crate::serial::SerialNumber;
use crate::target::connection::{Connection, Phase};
use crate::target::nexus::Shared;
use crate::target::session::Session;
use crate::target::task::TaskState;
use crate::target::{ConnectionId, Target, TargetOutput};

/// How long before a command's arrival its initiator may last have been known to be there. What a command may live is counted
/// from then, so this is little of that; but often enough that hosts which are at work are never asked.
pub const KNOWN_FOR: Duration = Duration::from_millis(500);
/// How long an initiator may take to say that it is there before what waits for that is answered BUSY: who cannot answer NOP-In,
/// and is there, sends it again, and acknowledges that answer with it. As long as a command may live.
pub(super) const SAID_WITHIN: Duration = Duration::from_secs(3);

/// What is known of one connection's initiator.
#[derive(Debug, Default)]
pub(super) struct Life {
    /// It had this connection then, and knew of no end of it.
    known_at: Option<Instant>,
    /// A number that no status had yet at that time: whoever acknowledges it has heard something since.
    mark: Option<(SerialNumber, Instant)>,
    /// What it was last asked whether it is there with, and when, as long as it has not answered that.
    asked: Option<(TargetTransferTag, Instant)>,
}

impl Life {
    /// See [`Target::alive_at`](crate::target::Target::alive_at).
    pub(super) const fn known_at(&self) -> Option<Instant> {
        self.known_at
    }

    /// Until when it may answer what it was asked.
    pub(super) fn answers_until(&self) -> Option<Instant> {
        self.asked.map(|(_, when)| when + SAID_WITHIN)
    }

    /// Since when a command lives that came at `arrived`; `None` if its initiator may have gone since it sent it.
    pub(super) fn since(&self, arrived: Instant) -> Option<Instant> {
        let known_at = self.known_at.filter(|at| *at + KNOWN_FOR >= arrived)?;
        Some(known_at.min(arrived))
    }

    /// It has heard something that was sent at `when`, or later.
    pub(super) fn note(&mut self, when: Instant) {
        self.known_at = self.known_at.max(Some(when));
    }

    /// The next status will be number `next`, and is yet to be sent.
    pub(super) const fn mark(&mut self, now: Instant, next: SerialNumber) {
        self.mark = Some((next, now));
    }

    /// A PDU came that expects status `expected`, when the next one that is sent will be `next`.
    pub(super) fn acknowledge(&mut self, now: Instant, expected: SerialNumber, next: SerialNumber) {
        match self.mark {
            Some((mark, when)) if expected.is_within(mark.next(), next) => {
                self.note(when);
                self.mark(now, next);
            }
            Some(_) => {}
            None => self.mark(now, next),
        }
    }

    /// It has not answered in time. It is told so by the status of number `next`, and may acknowledge that.
    pub(super) const fn give_up(&mut self, now: Instant, next: SerialNumber) {
        self.asked = None;
        self.mark(now, next);
    }

    pub(super) const fn ask(&mut self, now: Instant, tag: TargetTransferTag) {
        self.asked = Some((tag, now));
    }

    /// It has answered a question.
    pub(super) fn answered(&mut self, tag: TargetTransferTag) {
        if let Some((_, when)) = self.asked.take_if(|(asked, _)| *asked == tag) {
            self.note(when);
        }
    }
}

impl Session {
    /// Commands that wait until their initiator is known to wait for them.
    fn doubted(&self, life: &Life) -> Vec<InitiatorTaskTag> {
        let waiting = self.undelivered.iter().map(|tag| &self.tasks[tag]);
        let doubted = waiting
            .filter(|task| matches!(task.state, TaskState::Ready(_)) && task.since(life).is_none());
        doubted.map(|task| task.tag).collect()
    }
}

impl Connection {
    /// When an initiator that was asked whether it is there is given up on by the commands that wait for that.
    pub(super) fn doubts_until(&self) -> Option<Instant> {
        let Phase::Full(session) = &self.phase else {
            return None;
        };
        let until = self.life.answers_until()?;
        (!session.doubted(&self.life).is_empty()).then_some(until)
    }

    /// The initiator does not say whether it is there: what waits for that is put off, so that it comes again from who is.
    fn put_off(&mut self, now: Instant, shared: &mut Shared, out: &mut TargetOutput) {
        let Phase::Full(session) = &mut self.phase else {
            return;
        };
        self.life.give_up(now, self.wire.next_status());
        for tag in session.doubted(&self.life) {
            session.end_undelivered(tag, Response::bare(Status::Busy));
        }
        self.pump_answers(shared, out);
        self.pump(shared, out);
    }
}

impl Target {
    /// Asks the initiator at a connection whether it is there, unless it has been, and may still answer.
    pub(super) fn ask(&mut self, now: Instant, id: ConnectionId, out: &mut TargetOutput) {
        let Some(connection) = self.connections.get_mut(&id) else {
            return;
        };
        if connection
            .life
            .answers_until()
            .is_none_or(|until| until <= now)
        {
            connection.ping(now, &mut self.shared, out);
        }
        let deadline = connection.next_deadline(self.shared.limits());
        self.set_deadline(id, deadline);
    }

    /// Puts off what has waited for word from the initiator at a connection for long enough.
    pub(super) fn put_off_doubted(
        &mut self,
        now: Instant,
        id: ConnectionId,
        out: &mut TargetOutput,
    ) {
        if let Some(connection) = self.connections.get_mut(&id)
            && connection.doubts_until().is_some_and(|until| until <= now)
        {
            connection.put_off(now, &mut self.shared, out);
        }
    }
}
