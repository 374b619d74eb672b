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
/// How long a command waits for word of its initiator before it is answered BUSY: who cannot answer NOP-In, and is there, sends it
/// again, and acknowledges that answer with it. As long as a command may live.
const SAID_WITHIN: Duration = Duration::from_secs(3);

/// What is known of one connection's initiator.
#[derive(Debug, Default)]
pub(super) struct Life {
    /// It had this connection then, and knew of no end of it.
    known_at: Option<Instant>,
    /// A number that no PDU had named at that time: whoever acknowledges it has heard something since.
    mark: Option<(SerialNumber, Instant)>,
    /// What it was last asked whether it is there with, and when, as long as it has not answered that.
    asked: Option<(TargetTransferTag, Instant)>,
    /// It did not answer the last question in time: it is asked nothing more for the sake of commands.
    is_mute: bool,
    /// A command waits until more is known of it.
    pub(super) is_doubted: bool,
    /// Up to then it was waited for: for word of it, or for it to take what it is sent.
    awaited_until: Instant,
}

impl Life {
    /// See [`Target::alive_at`](crate::target::Target::alive_at).
    pub(super) const fn known_at(&self) -> Option<Instant> {
        self.known_at
    }

    /// Since when a command lives that came at `arrived`; `None` if its initiator may have gone since it sent it.
    pub(super) fn since(&self, arrived: Instant) -> Option<Instant> {
        let known_at = self.known_at.filter(|at| *at + KNOWN_FOR >= arrived)?;
        Some(known_at.min(arrived))
    }

    /// It was waited for until then.
    pub(super) fn note_awaited(&mut self, until: Instant) {
        self.awaited_until = self.awaited_until.max(until);
    }

    /// From when on this side had in hand what was received then: what waits for its initiator does not take the time of that.
    pub(super) fn in_hand(&self, received: Instant) -> Instant {
        received.max(self.awaited_until)
    }

    /// It has heard something that was sent at `when`, or later; word of that was received then. Whether that is news.
    pub(super) fn note(&mut self, when: Instant, received: Instant) -> bool {
        let before = self.known_at;
        self.known_at = before.max(Some(when));
        let is_news = self.known_at != before;
        if is_news && self.is_doubted {
            self.note_awaited(received);
        }
        is_news
    }

    /// No PDU has named status `unnamed` yet, nor any later one. R2T and NOP-In name the next one without taking it (RFC 7143
    /// 11.8.2, 11.19.3), and some initiators (libiscsi, FreeBSD) count that as received.
    pub(super) const fn mark(&mut self, now: Instant, unnamed: SerialNumber) {
        self.mark = Some((unnamed, now));
    }

    /// A PDU is looked at that was received before, and expects status `expected`, when `unnamed` is the first that no PDU has
    /// named. Whether that is news.
    pub(super) fn acknowledge(
        &mut self,
        (now, received): (Instant, Instant),
        expected: SerialNumber,
        unnamed: SerialNumber,
    ) -> bool {
        match self.mark {
            Some((mark, when)) if expected.is_within(mark.next(), unnamed) => {
                self.mark(now, unnamed);
                self.note(when, received)
            }
            Some(_) => false,
            None => {
                self.mark(now, unnamed);
                false
            }
        }
    }

    /// Asks it with `tag`.
    pub(super) const fn ask(&mut self, now: Instant, tag: TargetTransferTag) {
        self.asked = Some((tag, now));
    }

    /// It has answered a question, as was received then. Whether that is news.
    pub(super) fn answered(&mut self, tag: TargetTransferTag, received: Instant) -> bool {
        let Some((_, when)) = self.asked.take_if(|(asked, _)| *asked == tag) else {
            return false;
        };
        self.is_mute = false;
        self.note(when, received)
    }
}

impl Session {
    /// Commands that wait until their initiator is known to wait for them, and since when.
    fn doubted(&self, life: &Life) -> impl Iterator<Item = (InitiatorTaskTag, Instant)> {
        let waiting = self.undelivered.iter().map(|tag| &self.tasks[tag]);
        let doubted = waiting
            .filter(|task| matches!(task.state, TaskState::Ready(_)) && task.since(life).is_none());
        doubted.map(|task| (task.tag, task.arrived))
    }
}

impl Connection {
    /// When the first command that waits for word of its initiator is put off.
    pub(super) fn doubts_until(&self) -> Option<Instant> {
        let Phase::Full(session) = &self.phase else {
            return None;
        };
        let arrived = session.doubted(&self.life).map(|(_, arrived)| arrived);
        arrived.min().map(|first| first + SAID_WITHIN)
    }

    /// Puts off what has waited for word of its initiator for long enough, and all of it if that never answers: so that it comes
    /// again from who is there.
    pub(super) fn put_off_doubted(
        &mut self,
        now: Instant,
        shared: &mut Shared,
        out: &mut TargetOutput,
    ) {
        let Phase::Full(session) = &mut self.phase else {
            return;
        };
        let life = &mut self.life;
        let is_over = |when: Instant| when + SAID_WITHIN <= now;
        life.is_mute |= life.asked.is_some_and(|(_, when)| is_over(when));
        let doubted = session.doubted(life);
        let late: Vec<InitiatorTaskTag> = doubted
            .filter(|(_, arrived)| life.is_mute || is_over(*arrived))
            .map(|(tag, _)| tag)
            .collect();
        if late.is_empty() {
            return;
        }
        // Who acknowledges what it is told now has heard it.
        life.mark(now, self.wire.first_unnamed());
        for tag in late {
            session.end_undelivered(tag, Response::bare(Status::Busy));
        }
        self.pump_answers(shared, out);
        // Those behind them may go now.
        self.pump(shared, out);
    }
}

impl Target {
    /// Asks the initiator at a connection whether it is there, unless it has yet to answer that, or is known not to.
    pub(super) fn ask(&mut self, now: Instant, id: ConnectionId, out: &mut TargetOutput) {
        let Some(connection) = self.connections.get_mut(&id) else {
            return;
        };
        connection.put_off_doubted(now, &mut self.shared, out);
        if connection.life.asked.is_none() && !connection.life.is_mute {
            connection.ping(now, &mut self.shared, out);
        }
        let deadline = connection.next_deadline(self.shared.limits());
        self.set_deadline(id, deadline);
    }
}
