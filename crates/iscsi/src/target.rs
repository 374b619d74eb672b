//! The target's side: all portals of one node as one machine.
//!
//! Its driver tells it of connections, bytes and time; it says what to send and what to close, and
//! tells the layer above of sessions, commands and task management.
//!
//! It refuses to carry commands out, to know what is in a CDB, and to talk of a target that its
//! [`TargetDirectory`] does not list.
//!
//! Invariants:
//! - at most one session lives on an I_T nexus, and none begins there before the layer above has
//!   confirmed the end of the one before;
//! - every command that was given up is answered at most once, and never after its session ended or
//!   it was aborted;
//! - what connections make the machine hold is bounded by [`Limits`], connection by connection and
//!   in sum;
//! - what has come of a connection is looked at in its order, when it is the connection's turn.

mod answer;
mod arrivals;
mod authentication;
mod budget;
mod command;
mod connection;
mod data_out;
mod directory;
mod event;
mod life;
mod limits;
mod load;
mod login;
mod logout;
mod management;
mod nexus;
mod opening;
mod session;
mod task;
mod text;
mod timer;
mod turns;

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;

use holdfast_scsi::Response;
use holdfast_stdx::{Bytes, Instant};

pub use self::directory::{
    InitiatorEntry, Portal, PortalAddress, PortalAddressError, TargetDirectory, TargetEntry,
    UnitAccess,
};
pub use self::event::{
    CloseReason, Command, ConnectionId, EndedTasks, SessionId, TargetCommand, TargetEvent,
    TargetOutput, TaskId, TaskManagement, TaskManagementFunction, TaskManagementId,
    TaskManagementOutcome,
};
pub use self::life::KNOWN_FOR;
pub use self::limits::{Limits, NARROW_SEGMENT_MAX, NARROW_WINDOW_MAX, OUTPUT_MIN, WINDOW_MIN};

use self::connection::{Connection, Phase};
use self::directory::Admission;
use self::nexus::Shared;
use self::turns::Turns;

use crate::chap::ChapSeed;
use crate::negotiation::Parameters;
use crate::{IscsiName, Nexus, PortalGroupTag, Tsih};

/// What a target is told once.
#[derive(Clone, Debug)]
pub struct TargetConfig {
    /// The portal group that this node's portals form.
    pub group: PortalGroupTag,
    /// What initiators may make it hold.
    pub limits: Limits,
    /// What CHAP's challenges are made of.
    pub seed: ChapSeed,
}

/// A session, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionInfo {
    /// Which.
    pub session: SessionId,
    /// Its connection.
    pub connection: ConnectionId,
    /// Whose.
    pub nexus: Nexus,
    /// Its commands that have not been answered.
    pub tasks: usize,
    /// The target's part of its identifier.
    pub tsih: Tsih,
    /// Its initiator has proved who it is.
    pub is_proved: bool,
    /// What was agreed on.
    pub parameters: Parameters,
    /// From where its connection comes, for people; empty if that was not told.
    pub origin: String,
}

/// The machine.
#[derive(Debug)]
pub struct Target {
    connections: BTreeMap<ConnectionId, Connection>,
    shared: Shared,
    turns: Turns,
}

impl Target {
    /// A target without connections.
    #[must_use]
    pub fn new(config: TargetConfig, directory: TargetDirectory) -> Self {
        config.limits.validate();
        Self {
            connections: BTreeMap::new(),
            shared: Shared::new(config, directory),
            turns: Turns::default(),
        }
    }

    /// A connection was accepted. Numbers must rise.
    pub fn handle_connected(
        &mut self,
        now: Instant,
        connection: ConnectionId,
        out: &mut TargetOutput,
    ) {
        let limits = *self.shared.limits();
        let reason = CloseReason::TooManyConnections;
        if self.shared.logins >= limits.logins_max {
            // The oldest gives way: a login that is meant takes milliseconds, so that strangers who
            // say nothing do not keep hosts out.
            let mut logins = self.connections.values().filter(|it| it.is_in_login());
            let oldest = logins.next().map(|it| it.wire.id);
            if let Some(oldest) = oldest {
                self.close(oldest, reason, out);
            }
        }
        if self.connections.len() >= limits.connections_max
            || self.shared.logins >= limits.logins_max
        {
            out.commands
                .push_back(TargetCommand::Close { connection, reason });
            return;
        }
        let deadline = now + limits.login_timeout;
        let previous = self
            .connections
            .insert(connection, Connection::new(connection, now));
        assert!(
            previous.is_none(),
            "the numbers of connections are not used again"
        );
        self.shared.logins += 1;
        self.set_deadline(connection, Some(deadline));
    }

    /// From where a connection comes, for people. Of one that is closed already it is forgotten.
    pub fn note_origin(&mut self, connection: ConnectionId, origin: String) {
        if let Some(connection) = self.connections.get_mut(&connection) {
            connection.origin = origin;
        }
    }

    /// Bytes arrived. Those of a connection that the machine has closed are ignored; others are looked at when it is the
    /// connection's turn, see [`handle_turn`](Self::handle_turn). They were taken from the socket at `received`, which is not later
    /// than now: [`Command::received`] is such a time.
    pub fn handle_received(
        &mut self,
        now: Instant,
        connection: ConnectionId,
        (received, bytes): (Instant, Bytes),
        out: &mut TargetOutput,
    ) {
        let Some(place) = self.connections.get_mut(&connection) else {
            return;
        };
        place.note_heard(now);
        if !place.reader.can_advance() {
            place.arrivals.forget();
        }
        place.arrivals.push(received.min(now), bytes.len());
        place.reader.push(bytes);
        self.list(connection);
        self.note_input(now, connection, out);
        self.settle(now, out);
    }

    /// Whether a connection has something that can be looked at.
    #[must_use]
    pub fn has_turn(&self) -> bool {
        !self.turns.is_empty()
    }

    /// Looks at what has come of connections, so much at a time that the driver may see to its sockets in between, and in such
    /// an order that none has to wait until those are done that have sent more. To be called while there
    /// [is something](Self::has_turn).
    pub fn handle_turn(&mut self, now: Instant, out: &mut TargetOutput) {
        self.take_turn(now, out);
        self.settle(now, out);
    }

    /// Whether the driver should read from the connection's socket: not while its output is stuck, its
    /// login waits, or much of it waits for its turn. It may change with what the connection receives and with what
    /// its socket takes, with an answer that goes to it, when it [was served](TargetOutput::served), and when another
    /// session's end is confirmed.
    #[must_use]
    pub fn wants_input(&self, connection: ConnectionId) -> bool {
        self.connections
            .get(&connection)
            .is_some_and(|it| it.wants_input(&self.shared))
    }

    /// The socket has taken `bytes` more of what was to be sent.
    pub fn handle_sent(
        &mut self,
        now: Instant,
        connection: ConnectionId,
        bytes: usize,
        out: &mut TargetOutput,
    ) {
        let Some(place) = self.connections.get_mut(&connection) else {
            self.shared.load.note_lingering(connection, Some(bytes));
            return;
        };
        // Output that moves is a sign of life while input is not read; else it is not, for sockets
        // take a while to notice that nobody is there.
        if !place.wants_input(&self.shared) {
            place.note_heard(now);
        }
        if place.is_full(&self.shared) {
            place.life.note_awaited(now);
        }
        place.wire.handle_sent(bytes);
        self.shared.load.note_taken(bytes);
        place.pump_answers(&mut self.shared, out);
        self.list(connection);
        self.settle(now, out);
    }

    /// The peer closed the connection, or it broke.
    pub fn handle_closed(
        &mut self,
        now: Instant,
        connection: ConnectionId,
        out: &mut TargetOutput,
    ) {
        self.remove(connection, CloseReason::PeerClosed, out);
        self.shared.load.note_lingering(connection, None);
        self.settle(now, out);
    }

    /// The time that [`next_timeout`](Self::next_timeout) named has come, or any other.
    pub fn handle_timeout(&mut self, now: Instant, out: &mut TargetOutput) {
        while let Some(connection) = self.shared.take_due(now) {
            self.handle_deadline(now, connection, out);
        }
        self.settle(now, out);
    }

    /// When [`handle_timeout`](Self::handle_timeout) is next needed.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Instant> {
        self.shared.next_deadline()
    }

    /// The layer above has carried out `task`. Without effect if the task was aborted or its
    /// session ended meanwhile.
    pub fn respond(
        &mut self,
        now: Instant,
        task: TaskId,
        response: Response,
        out: &mut TargetOutput,
    ) {
        let Some((connection, tag)) = self.shared.tasks.remove(&task) else {
            return;
        };
        let place = self.connections.get_mut(&connection);
        let place = place.expect("a task in the index has its connection");
        place.answer(tag, response, &mut self.shared, out);
        self.settle(now, out);
    }

    /// The layer above has done what `request` asked for. Without effect if its session ended
    /// meanwhile.
    pub fn finish_task_management(
        &mut self,
        now: Instant,
        request: TaskManagementId,
        outcome: TaskManagementOutcome,
        out: &mut TargetOutput,
    ) {
        self.finish_management(request, outcome, out);
        self.settle(now, out);
    }

    /// Every command of `session`, of which [`TargetEvent::SessionClosed`] told, is done or refused
    /// for good.
    pub fn finish_session(&mut self, now: Instant, session: SessionId, out: &mut TargetOutput) {
        self.end_drain(now, session, out);
        self.settle(now, out);
    }

    /// Asks the initiator of `session` to log out within `seconds` (RFC 7143 11.9.1, event 1); if
    /// it does not, the connection is closed.
    pub fn request_logout(
        &mut self,
        now: Instant,
        session: SessionId,
        seconds: u16,
        out: &mut TargetOutput,
    ) {
        let Some(connection) = self.shared.connection_of(session) else {
            return;
        };
        let place = self.connections.get_mut(&connection);
        let place = place.expect("a live session has its connection");
        place.request_logout(now, seconds, &mut self.shared, out);
        let deadline = place.next_deadline(self.shared.limits());
        self.set_deadline(connection, deadline);
        self.settle(now, out);
    }

    /// Ends all commands of all sessions on `target`, or on one of its units, that another node was
    /// told to end.
    pub fn abort_tasks(
        &mut self,
        now: Instant,
        target: &IscsiName,
        unit: Option<u16>,
        out: &mut TargetOutput,
    ) -> EndedTasks {
        let aborted = self.abort_on_target(target, unit);
        self.shared.budget.release(aborted.reserved);
        self.settle(now, out);
        EndedTasks {
            tasks: aborted.tasks,
            sessions: aborted.sessions,
        }
    }

    /// What there is to offer is now `directory`. Sessions of targets that are not in it end, and
    /// those of initiators that see no unit of their target any more, and of those that have to prove
    /// who they are and have not. Whether a secret is still the right one is asked at the next login.
    pub fn set_directory(
        &mut self,
        now: Instant,
        directory: TargetDirectory,
        out: &mut TargetOutput,
    ) {
        self.shared.directory = directory;
        let directory = &self.shared.directory;
        let gone = self.connections.values().filter_map(|connection| {
            let nexus = connection.nexus()?;
            let reason = match directory.admission(&nexus.target, &nexus.initiator) {
                Admission::NoTarget => CloseReason::TargetRemoved,
                Admission::Refused => CloseReason::AccessWithdrawn,
                // It may be anybody's in that name.
                Admission::Admitted { proved: true } if !connection.is_proved() => {
                    CloseReason::AccessWithdrawn
                }
                Admission::Admitted { .. } => return None,
            };
            Some((connection.wire.id, reason))
        });
        let gone: Vec<(ConnectionId, CloseReason)> = gone.collect();
        for (connection, reason) in gone {
            self.close(connection, reason, out);
        }
        self.ask_away(now, out);
        self.settle(now, out);
    }

    /// The node is in maintenance, and sessions have so many seconds to go elsewhere; or it is not
    /// any more. While it is, initiators are asked to log out (RFC 7143 11.9.1, event 1), those who
    /// have not when their time is over are told that their session ends (event 3), and logins are
    /// sent to portals of other nodes. Who could go nowhere else stays.
    pub fn set_maintenance(&mut self, now: Instant, seconds: Option<u16>, out: &mut TargetOutput) {
        if self.shared.maintenance != seconds {
            self.shared.maintenance = seconds;
            if seconds.is_none() {
                self.let_stay();
            }
            self.ask_away(now, out);
        }
        self.settle(now, out);
    }

    /// The units of its target that the initiator of `session` sees; none once it has ended. To be
    /// asked for again after each [`set_directory`](Self::set_directory).
    #[must_use]
    pub fn units_of(&self, session: SessionId) -> BTreeSet<u16> {
        self.shared.units_of(session)
    }

    /// Whether the initiator of `session` could use a unit of any target, as the one that it is here: it sees it, and has
    /// proved who it is if it has to for that.
    #[must_use]
    pub fn may_use(&self, session: SessionId, target: &IscsiName, unit: u16) -> bool {
        let connection = self.connection_of(session);
        let Some((connection, nexus)) = connection.and_then(|it| Some((it, it.nexus()?))) else {
            return false;
        };
        let directory = &self.shared.directory;
        let entry = directory.targets.get(target);
        entry.is_some_and(|entry| entry.shows(unit, &nexus.initiator))
            && match directory.admission(target, &nexus.initiator) {
                Admission::Admitted { proved } => !proved || connection.is_proved(),
                Admission::NoTarget | Admission::Refused => false,
            }
    }

    /// The last moment at which the initiator of `session` is known to have had that session, and to have known of no end of
    /// it. None if it has said nothing since it was let in, or the session has ended.
    #[must_use]
    pub fn alive_at(&self, session: SessionId) -> Option<Instant> {
        self.connection_of(session)?.life.known_at()
    }

    /// Asks the initiator of `session` whether it is there, unless it has yet to answer that, or is known not to answer.
    pub fn ask_for_life(&mut self, now: Instant, session: SessionId, out: &mut TargetOutput) {
        if let Some(connection) = self.shared.connection_of(session) {
            self.ask(now, connection, out);
        }
        self.settle(now, out);
    }

    fn connection_of(&self, session: SessionId) -> Option<&Connection> {
        self.connections.get(&self.shared.connection_of(session)?)
    }

    /// Closes every connection, whatever its state: for a node that finds it has stood still, before
    /// it processes a byte.
    pub fn drop_all_sessions(&mut self, now: Instant, out: &mut TargetOutput) {
        let all: Vec<ConnectionId> = self.connections.keys().copied().collect();
        for connection in all {
            self.close(connection, CloseReason::Dropped, out);
        }
        self.settle(now, out);
    }

    /// The sessions that live.
    pub fn sessions(&self) -> impl Iterator<Item = SessionInfo> {
        self.connections.values().filter_map(Connection::info)
    }

    /// Bytes that all connections make the machine hold: input that waits to become PDUs, data of
    /// commands, output that no socket has taken.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.connections.values().map(Connection::held_bytes).sum()
    }

    fn note_output(&mut self, out: &mut TargetOutput) {
        let sent = core::mem::take(&mut out.sent_bytes);
        self.shared.load.note_output(sent);
    }

    /// Closes from our side: the driver is told.
    fn close(&mut self, id: ConnectionId, reason: CloseReason, out: &mut TargetOutput) {
        if let Some(connection) = self.connections.get_mut(&id)
            && reason.is_told()
        {
            connection.announce_end(&mut self.shared, out);
        }
        if self.remove(id, reason, out) {
            out.commands.push_back(TargetCommand::Close {
                connection: id,
                reason,
            });
        }
    }

    /// Forgets a connection and ends its session.
    fn remove(&mut self, id: ConnectionId, reason: CloseReason, out: &mut TargetOutput) -> bool {
        let Some(mut connection) = self.connections.remove(&id) else {
            return false;
        };
        self.shared
            .move_deadline(id, connection.deadline.take(), None);
        self.turns.forget(id, &connection.standing);
        let unsent = connection.wire.unsent();
        self.shared.load.linger(id, unsent);
        self.shared.load.note_input(connection.noted_input, 0);
        match connection.phase {
            Phase::Login(login) => {
                self.shared.logins -= 1;
                self.shared.load.give_back(login.allowance);
            }
            Phase::Opening(opening) => {
                self.shared.logins -= 1;
                self.shared.load.give_back(opening.allowance);
                self.shared.stop_waiting(id, &opening);
            }
            Phase::Full(session) => self.shared.end_session(*session, reason, out),
            // Its session was ended when its logout came.
            Phase::LoggingOut(_) => {}
        }
        true
    }

    /// Closes a connection whose input has become too much, for itself or for all of them. What can be looked at is, before:
    /// there is room for it as commands' data, and what their turns are worth is less than a connection.
    fn note_input(&mut self, now: Instant, id: ConnectionId, out: &mut TargetOutput) {
        let mut has_room = self.has_room_for_input(id)
            || self.serve_early(now, id, out) && self.has_room_for_input(id);
        // The memory may be taken by others who wait for their turn.
        while !has_room && let Some(other) = self.serve_next_early(now, out) {
            self.has_room_for_input(other);
            has_room = self.has_room_for_input(id);
        }
        if !has_room {
            self.close(id, CloseReason::InputOverflow, out);
        }
    }

    fn has_room_for_input(&mut self, id: ConnectionId) -> bool {
        let limit = self.shared.input_bytes_max();
        let Some(connection) = self.connections.get_mut(&id) else {
            return true;
        };
        let after = connection.input_bytes();
        let before = core::mem::replace(&mut connection.noted_input, after);
        self.shared.load.note_input(before, after) && connection.reader.buffered() <= limit
    }

    fn set_deadline(&mut self, id: ConnectionId, deadline: Option<Instant>) {
        if let Some(connection) = self.connections.get_mut(&id) {
            let before = core::mem::replace(&mut connection.deadline, deadline);
            self.shared.move_deadline(id, before, deadline);
        }
    }

    /// Runs after every event: room that became free goes to those who wait for it, and initiators of whom too little is
    /// known are asked.
    fn settle(&mut self, now: Instant, out: &mut TargetOutput) {
        self.note_output(out);
        while let Some(id) = self.shared.budget.next_waiter() {
            if let Some(connection) = self.connections.get_mut(&id) {
                connection.pump(&mut self.shared, out);
            }
        }
        while let Some(id) = self.shared.next_doubted() {
            self.ask(now, id, out);
        }
        self.note_output(out);
        self.shared.assert_consistent(now, self.connections.len());
    }
}
