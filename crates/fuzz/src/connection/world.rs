//! Everything around the machine: sockets, time, and the layer above.
//!
//! Invariants (of what the driver sees):
//! - nothing is sent on, and nothing is closed of, a connection that was closed;
//! - a connection that lives has a deadline, and one that has come is acted on;
//! - what is held is bounded.

use std::collections::{BTreeMap, VecDeque};

use holdfast_iscsi::chap::ChapSeed;
use holdfast_iscsi::pdu::{InitiatorTaskTag, NopOut, Request, TargetTransferTag};
use holdfast_iscsi::target::{
    Command, ConnectionId, Limits, SessionId, Target, TargetCommand, TargetConfig, TargetEvent,
    TargetOutput, TaskManagementOutcome,
};
use holdfast_scsi::{AdditionalSense, Response, Sense, SenseKey, Status};
use holdfast_stdx::{Bytes, Duration, Instant};

use super::above::Above;
use super::command;
use super::directory::{self, CLOSED, GROUP, OPEN, name};
use super::peer::{Life, Peer};
use crate::Input;

/// Connections at a time; more than the machine takes.
const CONNECTIONS_MAX: usize = 7;
/// What an initiator sends although it is not read: a socket's buffer.
const BACKLOG_MAX: usize = 128 << 10;
/// The most that the machine holds: commands' data, that which came unasked, input (which is noted
/// after a piece has come), output of each connection with the PDU that exceeds it, and texts.
const HELD_MAX: usize = (64 << 10) + (2 << 20) + (64 << 10) + 5 * ((64 << 10) * 3 + (32 << 10));

/// How those around the machine behave, one bit each.
pub(super) mod manners {
    /// Sockets take at once what they are given.
    pub(in crate::connection) const TAKE: u8 = 0x01;
    /// Commands are answered at once.
    pub(in crate::connection) const ANSWER: u8 = 0x02;
    /// Ends of sessions are confirmed at once.
    pub(in crate::connection) const CONFIRM: u8 = 0x04;
    /// Task management is done at once.
    pub(in crate::connection) const MANAGE: u8 = 0x08;
    /// R2Ts are answered at once, and rightly.
    pub(in crate::connection) const SEND: u8 = 0x10;
    /// Everything that is wanted arrives before the machine looks at any of it.
    pub(in crate::connection) const CROWD: u8 = 0x20;
    /// In how large pieces bytes arrive.
    pub(in crate::connection) const PIECES: u8 = 0xC0;
}

pub(super) struct World {
    now: Instant,
    target: Target,
    limits: Limits,
    peers: BTreeMap<ConnectionId, Peer>,
    above: Above,
    pub(super) manners: u8,
    /// Nobody has ended commands.
    pub(super) is_calm: bool,
    events: VecDeque<TargetEvent>,
    commands: VecDeque<TargetCommand>,
    is_settling: bool,
    last_connection: u64,
    /// There is no such connection: what is asked of it goes nowhere.
    nobody: Peer,
}

impl World {
    pub(super) fn new(manners: u8) -> Self {
        let limits = directory::limits();
        let config = TargetConfig {
            group: GROUP,
            limits,
            seed: ChapSeed([7; 32]),
        };
        let mut nobody = Peer::new();
        nobody.life = Life::Gone;
        Self {
            now: Instant::from_nanos(1_000_000_000),
            target: Target::new(config, directory::directory(0)),
            limits,
            peers: BTreeMap::new(),
            above: Above::default(),
            manners,
            is_calm: true,
            events: VecDeque::new(),
            commands: VecDeque::new(),
            is_settling: false,
            last_connection: 0,
            nobody,
        }
    }

    const fn does(&self, manner: u8) -> bool {
        self.manners & manner != 0
    }

    /// A connection that the input means, if there is any.
    pub(super) fn choose(&self, input: &mut Input<'_>) -> Option<ConnectionId> {
        let choice = usize::from(input.u8());
        let there = self
            .peers
            .iter()
            .filter(|(_, peer)| peer.life != Life::Gone);
        let there: Vec<ConnectionId> = there.map(|(id, _)| *id).collect();
        let last = there.len().checked_sub(1)?;
        // Zero is the newest.
        Some(there[last - choice % there.len()])
    }

    pub(super) fn peer(&mut self, id: ConnectionId) -> &mut Peer {
        self.peers.get_mut(&id).unwrap_or(&mut self.nobody)
    }

    pub(super) fn connect(&mut self) {
        let there = self.peers.values().filter(|it| it.life != Life::Gone);
        if there.count() < CONNECTIONS_MAX {
            self.accept();
        }
    }

    pub(super) fn accept(&mut self) -> ConnectionId {
        self.last_connection += 1;
        let id = ConnectionId(self.last_connection);
        self.peers.insert(id, Peer::new());
        self.with(|target, now, out| target.handle_connected(now, id, out));
        id
    }

    /// Calls the machine, and carries out what it wants.
    pub(super) fn with(&mut self, call: impl FnOnce(&mut Target, Instant, &mut TargetOutput)) {
        let mut out = TargetOutput::default();
        call(&mut self.target, self.now, &mut out);
        self.events.extend(out.events);
        self.commands.extend(out.commands);
        assert!(
            self.target.held_bytes() <= HELD_MAX,
            "what is held is bounded"
        );
        if !self.is_settling {
            self.is_settling = true;
            while self.settle() {}
            self.is_settling = false;
        }
    }

    /// One thing that is to be done; false if there is none.
    fn settle(&mut self) -> bool {
        if let Some(event) = self.events.pop_front() {
            self.take_event(event);
            return true;
        }
        self.above.overtaken.clear();
        if let Some(command) = self.commands.pop_front() {
            self.take_command(command);
            return true;
        }
        if !self.does(manners::CROWD) && self.take_turn() {
            return true;
        }
        let ids: Vec<ConnectionId> = self.peers.keys().copied().collect();
        for id in ids {
            if self.target.wants_input(id)
                && let Some(bytes) = self.next_piece(id)
            {
                self.with(|target, now, out| target.handle_received(now, id, (now, bytes), out));
                return true;
            }
            if self.does(manners::SEND)
                && let Some(wanted) = self.peer(id).wanted.pop_front()
                && wanted.sent == 0
            {
                command::answer_exactly(self, id, &wanted);
                return true;
            }
            if self.does(manners::SEND)
                && let Some(question) = self.peer(id).question.take()
            {
                self.answer_question(id, question);
                return true;
            }
        }
        self.take_turn()
    }

    /// The machine looks at some of what has come; false if there is nothing.
    fn take_turn(&mut self) -> bool {
        let has_turn = self.target.has_turn();
        if has_turn {
            self.with(Target::handle_turn);
        }
        has_turn
    }

    /// Says that the initiator is there, as it was asked.
    fn answer_question(&mut self, id: ConnectionId, question: TargetTransferTag) {
        let peer = self.peer(id);
        let answer = Request::NopOut(NopOut {
            immediate: true,
            lun: super::lun(0),
            task_tag: InitiatorTaskTag::RESERVED,
            transfer_tag: question,
            command_number: peer.next_number(),
            expected_status: peer.expected_status(),
        });
        self.send_pdu(id, &answer, &[]);
    }

    fn next_piece(&mut self, id: ConnectionId) -> Option<Bytes> {
        let length = match self.manners & manners::PIECES {
            0 => usize::MAX,
            0x40 => 1500,
            0x80 => 40,
            _ => 13,
        };
        let peer = self.peer(id);
        let mut bytes = peer.backlog.pop_front()?;
        // Long ones would take for ever.
        let length = if bytes.len() > 2000 {
            length.max(1500)
        } else {
            length
        };
        if bytes.len() > length {
            let rest = bytes.split_off(length);
            peer.backlog.push_front(rest);
        }
        peer.backlog_bytes -= bytes.len();
        Some(bytes)
    }

    fn take_event(&mut self, event: TargetEvent) {
        if let TargetEvent::SessionOpened { session, nexus } = &event
            && nexus.target == name(CLOSED)
        {
            // Unless it has ended in the meantime.
            let opened = self.target.sessions().find(|it| it.session == *session);
            if let Some(id) = opened.map(|it| it.connection) {
                assert!(self.peer(id).is_proved, "it has proved who it is");
            }
        }
        // Who sends it, by whatever bytes, may end commands of others.
        if let TargetEvent::TaskManagement(request) = &event {
            self.is_calm &= request.tasks.is_empty();
        }
        let ended = match &event {
            TargetEvent::SessionClosed { session, .. } => Some(*session),
            _ => None,
        };
        self.above.take(event, &self.limits);
        if let Some(session) = ended {
            assert!(
                self.target.units_of(session).is_empty()
                    || self.above.draining.contains_key(&session)
            );
            if self.does(manners::CONFIRM) {
                self.confirm(session);
            }
        }
        if self.does(manners::ANSWER)
            && let Some(command) = self.above.commands.pop()
        {
            self.above.overtaken.insert(command.task);
            self.answer(&command);
        }
        if self.does(manners::MANAGE)
            && let Some(request) = self.above.management.pop()
        {
            let outcome = TaskManagementOutcome::Complete;
            self.with(|target, now, out| {
                target.finish_task_management(now, request.request, outcome, out);
            });
        }
    }

    fn take_command(&mut self, command: TargetCommand) {
        let takes = self.does(manners::TAKE);
        match command {
            TargetCommand::Send { connection, parts } => {
                let peer = self.peers.get_mut(&connection);
                let peer = peer.expect("something is sent to somebody");
                assert!(!parts.is_empty(), "something is sent");
                match peer.life {
                    Life::Open => peer.receive(parts),
                    // Its socket went before it was sent.
                    Life::Gone => return,
                    Life::Closed => panic!("nothing is sent after the end"),
                }
                if takes {
                    self.take_output_of(connection, usize::MAX);
                }
            }
            TargetCommand::Close { connection, .. } => {
                let peer = self.peers.get_mut(&connection);
                let peer = peer.expect("a connection that is closed was there");
                match peer.life {
                    Life::Open => peer.life = Life::Closed,
                    Life::Gone => {}
                    Life::Closed => panic!("a connection is closed once"),
                }
                assert!(!self.target.wants_input(connection), "it is forgotten");
            }
        }
    }

    /// A connection's socket takes at most so many bytes; once it is closed and has taken all, it is
    /// gone.
    pub(super) fn take_output_of(&mut self, id: ConnectionId, bytes: usize) {
        let peer = self.peer(id);
        let taken = peer.unsent.min(bytes);
        if peer.life == Life::Gone {
            return;
        }
        peer.unsent -= taken;
        if taken > 0 {
            self.with(|target, now, out| target.handle_sent(now, id, taken, out));
        }
        let peer = self.peer(id);
        if peer.life == Life::Closed && peer.unsent == 0 {
            self.close(id);
        }
    }

    /// The socket is gone.
    pub(super) fn close(&mut self, id: ConnectionId) {
        let peer = self.peer(id);
        if peer.life == Life::Gone {
            return;
        }
        peer.life = Life::Gone;
        peer.backlog.clear();
        peer.unsent = 0;
        self.with(|target, now, out| target.handle_closed(now, id, out));
    }

    pub(super) fn send_pdu(&mut self, id: ConnectionId, request: &Request, data: &[u8]) {
        let stream = self.peer(id).framed(request, data);
        self.send(id, &stream);
    }

    /// An initiator sends these bytes; they arrive when the machine wants them.
    pub(super) fn send(&mut self, id: ConnectionId, bytes: &[u8]) {
        let peer = self.peer(id);
        if bytes.is_empty() || peer.life != Life::Open {
            return;
        }
        if peer.backlog_bytes + bytes.len() > BACKLOG_MAX {
            // A part of a stream is no stream: it ends.
            self.close(id);
            return;
        }
        peer.backlog_bytes += bytes.len();
        peer.backlog.push_back(Bytes::copy_from_slice(bytes));
        self.with(|_, _, _| ());
    }

    /// GOOD, with all that the initiator takes.
    fn answer(&mut self, command: &Command) {
        let response = match command.expected_in {
            0 => Response::good_out(command.expected_out.into()),
            length => Response::good_in(vec![Bytes::from(vec![b'a'; length as usize])]),
        };
        self.with(|target, now, out| target.respond(now, command.task, response, out));
    }

    pub(super) fn respond(&mut self, input: &mut Input<'_>) {
        let (choice, kind, length) = (input.u8(), input.u8(), input.u16());
        if self.above.commands.is_empty() {
            return;
        }
        let index = usize::from(choice) % self.above.commands.len();
        let command = self.above.commands.remove(index);
        let length = usize::from(length).min(command.expected_in as usize + 100);
        let data = Bytes::from(vec![b'x'; length]);
        let response = match kind % 5 {
            0 => Response::good_out(command.expected_out.into()),
            1 => Response::good_in(vec![data.slice(..length / 3), data.slice(length / 3..)]),
            2 => Response::check_condition(Sense::new(
                SenseKey::MediumError,
                AdditionalSense::UNRECOVERED_READ_ERROR,
            )),
            3 => Response::bare(Status::Busy),
            _ => Response::good_in(vec![data]).moved(u64::from(kind) * 1000),
        };
        self.with(|target, now, out| target.respond(now, command.task, response, out));
    }

    pub(super) fn finish_management(&mut self, input: &mut Input<'_>) {
        const OUTCOMES: [TaskManagementOutcome; 3] = [
            TaskManagementOutcome::Complete,
            TaskManagementOutcome::LunDoesNotExist,
            TaskManagementOutcome::Rejected,
        ];
        let choice = usize::from(input.u8());
        let outcome = input.pick(&OUTCOMES);
        if self.above.management.is_empty() {
            return;
        }
        let index = choice % self.above.management.len();
        let request = self.above.management.remove(index).request;
        self.with(|target, now, out| target.finish_task_management(now, request, outcome, out));
    }

    pub(super) fn finish_session(&mut self, input: &mut Input<'_>) {
        let choice = usize::from(input.u8());
        let draining = &self.above.draining;
        if let Some(session) = draining.keys().nth(choice % draining.len().max(1)) {
            self.confirm(*session);
        }
    }

    fn confirm(&mut self, session: SessionId) {
        self.above.draining.remove(&session);
        self.with(|target, now, out| target.finish_session(now, session, out));
    }

    /// What was ended is answered nevertheless: nothing comes of it.
    pub(super) fn answer_stale(&mut self, input: &mut Input<'_>) {
        let choice = usize::from(input.u8());
        let tasks = &self.above.stale_tasks;
        let requests = &self.above.stale_requests;
        let mut out = TargetOutput::default();
        if let Some(task) = tasks.get(choice % tasks.len().max(1)) {
            let data = vec![Bytes::from_static(b"late")];
            self.target
                .respond(self.now, *task, Response::good_in(data), &mut out);
        }
        if let Some(request) = requests.get(choice % requests.len().max(1)) {
            let outcome = TaskManagementOutcome::Complete;
            self.target
                .finish_task_management(self.now, *request, outcome, &mut out);
        }
        assert!(out.commands.is_empty(), "it is not answered");
        assert!(out.events.is_empty());
    }

    pub(super) fn request_logout(&mut self, id: ConnectionId, seconds: u16) {
        let session = self.target.sessions().find(|it| it.connection == id);
        if let Some(session) = session.map(|it| it.session) {
            self.with(|target, now, out| target.request_logout(now, session, seconds, out));
        }
    }

    pub(super) fn abort(&mut self, input: &mut Input<'_>) {
        let target = name(input.pick(&[OPEN, CLOSED]));
        let unit = input.pick(&[None, Some(0), Some(1)]);
        self.is_calm = false;
        let mut out = TargetOutput::default();
        let ended = self.target.abort_tasks(self.now, &target, unit, &mut out);
        // What it answers comes before what there is room for now.
        self.above.end_tasks(&ended.tasks);
        self.events.extend(out.events);
        self.commands.extend(out.commands);
        self.with(|_, _, _| ());
    }

    pub(super) fn set_directory(&mut self, kind: u8) {
        let directory = directory::directory(kind);
        self.with(|target, now, out| target.set_directory(now, directory, out));
    }

    /// Time passes; deadlines are kept.
    pub(super) fn pass(&mut self, duration: Duration) {
        let end = self.now + duration;
        loop {
            let next = self.target.next_timeout();
            self.now = next.map_or(end, |next| next.max(self.now)).min(end);
            self.with(Target::handle_timeout);
            let next = self.target.next_timeout();
            assert!(next.is_none_or(|next| next > self.now), "it is acted on");
            if self.now == end {
                return;
            }
        }
    }

    /// What holds between any two steps.
    pub(super) fn check(&self) {
        let is_open = |peer: &&Peer| peer.life == Life::Open;
        let open = self.peers.values().filter(is_open).count();
        assert!(open <= self.limits.connections_max);
        assert_eq!(self.target.next_timeout().is_some(), open > 0, "deadlines");
        assert!(!self.target.has_turn(), "what has come was looked at");
        let told = self.above.sessions.keys().copied();
        let mut live: Vec<SessionId> = self.target.sessions().map(|it| it.session).collect();
        live.sort_unstable();
        assert!(
            told.eq(live),
            "those that live are those that it was told of"
        );
        for (id, peer) in &self.peers {
            assert!(peer.life == Life::Open || !self.target.wants_input(*id));
        }
    }

    /// Everybody does what others wait for, until nobody waits.
    fn serve(&mut self) {
        self.manners |=
            manners::TAKE | manners::ANSWER | manners::CONFIRM | manners::MANAGE | manners::SEND;
        // Who does not do its part keeps the room that others wait for, until it goes.
        let ids: Vec<ConnectionId> = self.peers.keys().copied().collect();
        for id in ids {
            self.peer(id).spoils = None;
            if !self.peer(id).does_its_part() {
                self.close(id);
            }
        }
        // What was put off before.
        self.with(|_, _, _| ());
        loop {
            let stuck: Vec<ConnectionId> = self
                .peers
                .iter()
                .filter(|(_, peer)| peer.life != Life::Gone && peer.unsent > 0)
                .map(|(id, _)| *id)
                .collect();
            for id in &stuck {
                self.take_output_of(*id, usize::MAX);
            }
            if let Some(command) = self.above.commands.pop() {
                self.answer(&command);
            } else if let Some(request) = self.above.management.pop() {
                let outcome = TaskManagementOutcome::Complete;
                self.with(|target, now, out| {
                    target.finish_task_management(now, request.request, outcome, out);
                });
            } else if let Some(session) = self.above.draining.keys().next() {
                self.confirm(*session);
            } else if stuck.is_empty() {
                break;
            }
        }
        self.check();
        let peers = self.peers.values().filter(|_| self.is_calm);
        peers.for_each(Peer::check_served);
    }

    /// Everybody goes, one way or another; nothing is left.
    pub(super) fn end(&mut self, how: u8) {
        // Or they go as they stand.
        if how & 4 == 0 {
            self.serve();
        }
        // Nobody says anything more.
        self.manners = manners::TAKE | manners::CONFIRM | manners::MANAGE;
        let ids: Vec<ConnectionId> = self.peers.keys().copied().collect();
        match how & 3 {
            0 => ids.iter().for_each(|id| self.close(*id)),
            1 => self.with(Target::drop_all_sessions),
            _ => self.pass(Duration::from_secs(200)),
        }
        let draining: Vec<SessionId> = self.above.draining.keys().copied().collect();
        draining.iter().for_each(|session| self.confirm(*session));
        if how & 3 >= 2 {
            // Sessions that opened when others had been confirmed.
            self.pass(Duration::from_secs(200));
        }
        self.check();
        assert_eq!(self.target.sessions().count(), 0);
        assert_eq!(self.target.held_bytes(), 0, "nothing is held");
        assert_eq!(self.target.next_timeout(), None, "nothing is waited for");
        assert!(self.above.draining.is_empty());
        ids.iter().for_each(|id| self.close(*id));
        self.manners |= manners::SEND;
        self.with(|target, now, out| target.set_maintenance(now, None, out));
        self.set_directory(0);
        self.probe();
    }

    pub(super) const fn above(&mut self) -> &mut Above {
        &mut self.above
    }

    pub(super) const fn limits(&self) -> &Limits {
        &self.limits
    }

    pub(super) fn target_held(&self) -> usize {
        self.target.held_bytes()
    }
}
