//! Initiators and a target back to back: an in-memory network that cuts its streams anywhere, and a
//! RAM disk above that answers in any order.
#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    reason = "a harness for several test files"
)]

use std::collections::{BTreeMap, VecDeque};

use holdfast_iscsi::chap::ChapSeed;
use holdfast_iscsi::initiator::{
    CommandRequest, CommandTag, Completion, EndReason, Initiator, InitiatorCommand,
    InitiatorConfig, InitiatorEvent, InitiatorOutput, SessionKind,
};
use holdfast_iscsi::pdu::{
    CommandFlags, Framing, Header, InitiatorTaskTag, LoginRequest, LoginStage, LoginStatus,
    PduReader, Reply, Request, ScsiCommand, frame,
};
use holdfast_iscsi::target::{
    CloseReason, Command, ConnectionId, Limits, Portal, PortalAddress, SessionId, Target,
    TargetCommand, TargetConfig, TargetDirectory, TargetEntry, TargetEvent, TargetOutput,
    TaskManagement, TaskManagementOutcome, UnitAccess,
};
use holdfast_iscsi::{
    ConnectionIdentifier, IscsiName, Isid, Nexus, PortalGroupTag, SerialNumber, Tsih,
};
use holdfast_scsi::{AdditionalSense, Lun, Response, Sense, TaskAttribute};
use holdfast_stdx::{Bytes, Duration, Instant, Prng};

pub const BLOCK: usize = 512;
pub const BLOCKS: usize = 65_536;
pub const TARGET: &str = "iqn.2026-11.example.holdfast:demo";

pub fn name(text: &str) -> IscsiName {
    IscsiName::parse(text).unwrap()
}

pub fn lun() -> Lun {
    Lun::from_number(0)
}

pub fn directory() -> TargetDirectory {
    let portal = |text: &str, group| Portal {
        address: PortalAddress::parse(text).unwrap(),
        group: PortalGroupTag(group),
    };
    let entry = |alias: &str| TargetEntry {
        alias: Some(alias.into()),
        units: BTreeMap::from([(0, UnitAccess::Everybody)]),
        portals: vec![portal("127.0.0.1:3260", 1), portal("[::1]:3261", 2)],
    };
    TargetDirectory {
        targets: BTreeMap::from([
            (name(TARGET), entry("demo")),
            (name("iqn.2026-11.example.holdfast:other"), entry("other")),
        ]),
        ..TargetDirectory::default()
    }
}

/// One host and its connection.
pub struct Host {
    pub initiator: Initiator,
    pub connection: ConnectionId,
    /// Bytes on their way.
    pub to_target: VecDeque<Bytes>,
    pub to_host: VecDeque<Bytes>,
    pub is_open: bool,
    /// What the host was told.
    pub completions: BTreeMap<CommandTag, Completion>,
    pub events: Vec<InitiatorEvent>,
    pub ended: Option<EndReason>,
}

/// How the RAM disk behaves.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Answers {
    /// At once.
    AtOnce,
    /// Some time, in any order.
    Shuffled,
    /// Not before it is told to.
    Held,
}

pub struct World {
    pub now: Instant,
    pub target: Target,
    pub hosts: Vec<Host>,
    pub prng: Prng,
    pub disk: Vec<u8>,
    pub answers: Answers,
    pub held: Vec<Command>,
    pub management: Vec<TaskManagement>,
    pub closings: Vec<(SessionId, CloseReason)>,
    /// Ends of sessions that the disk has confirmed by itself.
    pub confirms_closings: bool,
    pub sessions: BTreeMap<SessionId, Nexus>,
    pub closed: Vec<(ConnectionId, CloseReason)>,
    /// Raw connections of hostile peers: what the target has sent.
    pub raw: BTreeMap<ConnectionId, Vec<u8>>,
    pub delivered: u64,
    pub held_max: usize,
    /// How often hosts were asked whether they are there.
    pub questions: u64,
    /// Whether sockets take what they are given.
    pub sockets_take: bool,
    /// Whether connections get their turns as soon as nothing else is to be done.
    pub takes_turns: bool,
    events: VecDeque<TargetEvent>,
    commands: VecDeque<TargetCommand>,
    is_draining: bool,
    next_connection: u64,
    next_tag: u64,
}

impl World {
    pub fn new(seed: u64) -> Self {
        Self::with_limits(seed, Limits::default())
    }

    pub fn with_limits(seed: u64, limits: Limits) -> Self {
        let config = TargetConfig {
            group: PortalGroupTag(1),
            limits,
            seed: ChapSeed([7; 32]),
        };
        Self {
            now: Instant::from_nanos(1_000_000_000),
            target: Target::new(config, directory()),
            hosts: Vec::new(),
            prng: Prng::from_seed(seed),
            disk: vec![0; BLOCK * BLOCKS],
            answers: Answers::AtOnce,
            held: Vec::new(),
            management: Vec::new(),
            closings: Vec::new(),
            confirms_closings: true,
            sessions: BTreeMap::new(),
            closed: Vec::new(),
            raw: BTreeMap::new(),
            delivered: 0,
            held_max: 0,
            questions: 0,
            sockets_take: true,
            takes_turns: true,
            events: VecDeque::new(),
            commands: VecDeque::new(),
            is_draining: false,
            next_connection: 0,
            next_tag: 0,
        }
    }

    pub fn config(&self, host: u8) -> InitiatorConfig {
        InitiatorConfig::new(
            name("iqn.2026-11.example.host:a"),
            Isid([0x80, 0, 0, 0, 0, host]),
            SessionKind::Normal(name(TARGET)),
        )
    }

    pub fn set_directory(&mut self, directory: TargetDirectory) {
        self.with_target(|target, now, out| target.set_directory(now, directory, out));
    }

    /// A connection without an initiator's machine: its bytes are the test's.
    pub fn connect_raw(&mut self) -> ConnectionId {
        self.next_connection += 1;
        let connection = ConnectionId(self.next_connection);
        self.raw.insert(connection, Vec::new());
        self.with_target(|target, now, out| target.handle_connected(now, connection, out));
        connection
    }

    pub fn send_raw(&mut self, connection: ConnectionId, bytes: Bytes) {
        self.with_target(|target, now, out| {
            target.handle_received(now, connection, (now, bytes), out);
        });
    }

    pub fn connect(&mut self, config: InitiatorConfig) -> usize {
        self.next_connection += 1;
        let connection = ConnectionId(self.next_connection);
        let mut out = InitiatorOutput::default();
        let initiator = Initiator::connect(self.now, config, &mut out);
        self.hosts.push(Host {
            initiator,
            connection,
            to_target: VecDeque::new(),
            to_host: VecDeque::new(),
            is_open: true,
            completions: BTreeMap::new(),
            events: Vec::new(),
            ended: None,
        });
        let host = self.hosts.len() - 1;
        self.with_target(|target, now, out| target.handle_connected(now, connection, out));
        self.absorb(host, out);
        host
    }

    /// A host that is logged in.
    pub fn log_in(&mut self, config: InitiatorConfig) -> usize {
        let host = self.connect(config);
        self.run();
        assert!(
            self.hosts[host].initiator.is_logged_in(),
            "{:?}",
            self.hosts[host].ended
        );
        host
    }

    pub fn with_target<R>(
        &mut self,
        call: impl FnOnce(&mut Target, Instant, &mut TargetOutput) -> R,
    ) -> R {
        let mut out = TargetOutput::default();
        let result = call(&mut self.target, self.now, &mut out);
        self.take_output(out);
        result
    }

    pub fn with_host<R>(
        &mut self,
        host: usize,
        call: impl FnOnce(&mut Initiator, Instant, &mut InitiatorOutput) -> R,
    ) -> R {
        let mut out = InitiatorOutput::default();
        let result = call(&mut self.hosts[host].initiator, self.now, &mut out);
        self.absorb(host, out);
        result
    }

    pub fn submit(&mut self, host: usize, request: CommandRequest) -> CommandTag {
        self.next_tag += 1;
        let tag = CommandTag(self.next_tag);
        self.with_host(host, |initiator, _, out| {
            initiator.submit(tag, request, out)
        })
        .unwrap();
        tag
    }

    /// Submits, runs, and hands out how it went.
    pub fn complete(&mut self, host: usize, request: CommandRequest) -> Completion {
        let tag = self.submit(host, request);
        self.run();
        self.hosts[host]
            .completions
            .remove(&tag)
            .expect("the command completes")
    }

    /// Events go up and bytes go out in the order in which they were made, also those that the
    /// handling of others makes.
    fn take_output(&mut self, out: TargetOutput) {
        self.held_max = self.held_max.max(self.target.held_bytes());
        self.events.extend(out.events);
        self.commands.extend(out.commands);
        if self.is_draining {
            return;
        }
        self.is_draining = true;
        loop {
            if let Some(event) = self.events.pop_front() {
                self.take_event(event);
            } else if let Some(command) = self.commands.pop_front() {
                self.take_command(command);
            } else if self.takes_turns && self.target.has_turn() {
                self.with_target(Target::handle_turn);
            } else {
                break;
            }
        }
        self.is_draining = false;
    }

    fn take_command(&mut self, command: TargetCommand) {
        match command {
            TargetCommand::Send { connection, parts } => {
                assert!(
                    parts.iter().all(|part| !part.is_empty()),
                    "no part is empty"
                );
                self.questions += parts.iter().filter(|part| is_question(part)).count() as u64;
                if let Some(host) = self.host_of(connection) {
                    self.hosts[host].to_host.extend(parts);
                } else if let Some(raw) = self.raw.get_mut(&connection) {
                    let bytes = parts.concat();
                    raw.extend_from_slice(&bytes);
                    if self.sockets_take {
                        self.with_target(|target, now, out| {
                            target.handle_sent(now, connection, bytes.len(), out);
                        });
                    }
                }
            }
            TargetCommand::Close { connection, reason } => {
                self.closed.push((connection, reason));
                if let Some(host) = self.host_of(connection) {
                    self.hosts[host].is_open = false;
                }
                self.raw.entry(connection).or_default();
            }
        }
    }

    fn take_event(&mut self, event: TargetEvent) {
        match event {
            TargetEvent::SessionOpened { session, nexus } => {
                assert!(
                    self.sessions.values().all(|other| *other != nexus),
                    "at most one session on a nexus"
                );
                self.sessions.insert(session, nexus);
            }
            TargetEvent::SessionClosed { session, reason } => {
                self.closings.push((session, reason));
                self.held.retain(|command| command.session != session);
                if self.confirms_closings {
                    self.finish_session(session);
                }
            }
            TargetEvent::Command(command) => {
                self.delivered += 1;
                assert!(self.sessions.contains_key(&command.session));
                match self.answers {
                    Answers::AtOnce => self.answer(&command),
                    _ => self.held.push(command),
                }
            }
            TargetEvent::TaskManagement(request) => {
                self.held
                    .retain(|command| !request.tasks.contains(&command.task));
                if self.answers == Answers::Held {
                    self.management.push(request);
                } else {
                    self.finish_management(&request);
                }
            }
        }
    }

    pub fn finish_session(&mut self, session: SessionId) {
        self.sessions.remove(&session).expect("a session ends once");
        self.with_target(|target, now, out| target.finish_session(now, session, out));
    }

    pub fn finish_management(&mut self, request: &TaskManagement) {
        self.with_target(|target, now, out| {
            let outcome = TaskManagementOutcome::Complete;
            target.finish_task_management(now, request.request, outcome, out);
        });
    }

    pub fn answer(&mut self, command: &Command) {
        let response = carry_out(&mut self.disk, command);
        self.with_target(|target, now, out| target.respond(now, command.task, response, out));
    }

    fn host_of(&self, connection: ConnectionId) -> Option<usize> {
        self.hosts
            .iter()
            .position(|host| host.connection == connection)
    }

    fn absorb(&mut self, host: usize, out: InitiatorOutput) {
        let place = &mut self.hosts[host];
        for command in out.commands {
            match command {
                InitiatorCommand::Send(parts) => place.to_target.extend(parts),
                InitiatorCommand::Close => place.is_open = false,
            }
        }
        for event in out.events {
            match event {
                InitiatorEvent::Completed { tag, completion } => {
                    let previous = place.completions.insert(tag, completion);
                    assert!(previous.is_none(), "a command completes once");
                }
                InitiatorEvent::Ended { reason } => {
                    assert!(place.ended.is_none(), "a session ends once");
                    place.ended = Some(reason);
                }
                other => place.events.push(other),
            }
        }
    }

    /// Moves bytes until nothing moves any more. Time stands still.
    pub fn run(&mut self) {
        while self.step() {}
    }

    /// Moves some bytes of some host; false if there is nothing to move.
    pub fn step(&mut self) -> bool {
        let mut moved = false;
        for host in 0..self.hosts.len() {
            moved |= self.move_to_target(host);
            moved |= self.move_to_host(host);
        }
        if self.answers == Answers::Shuffled && !self.held.is_empty() {
            let index = self.prng.below(self.held.len() as u64) as usize;
            let command = self.held.swap_remove(index);
            self.answer(&command);
            moved = true;
        }
        moved
    }

    fn cut(&mut self, from: fn(&mut Host) -> &mut VecDeque<Bytes>, host: usize) -> Option<Bytes> {
        let mut chunk = from(&mut self.hosts[host]).pop_front()?;
        let length = match self.prng.below(4) {
            0 => 1 + self.prng.below(8),
            1 => 1 + self.prng.below(100),
            _ => u64::MAX,
        };
        if length < chunk.len() as u64 {
            let rest = chunk.split_off(length as usize);
            from(&mut self.hosts[host]).push_front(rest);
        }
        Some(chunk)
    }

    fn move_to_target(&mut self, host: usize) -> bool {
        let connection = self.hosts[host].connection;
        if !self.target.wants_input(connection) {
            // What a closed connection is sent goes nowhere.
            if !self.hosts[host].is_open {
                self.hosts[host].to_target.clear();
            }
            return false;
        }
        let Some(chunk) = self.cut(|host| &mut host.to_target, host) else {
            return false;
        };
        self.with_target(|target, now, out| {
            target.handle_received(now, connection, (now, chunk), out);
        });
        true
    }

    fn move_to_host(&mut self, host: usize) -> bool {
        let Some(chunk) = self.cut(|host| &mut host.to_host, host) else {
            // The end of the stream comes after its last byte.
            if !self.hosts[host].is_open && self.hosts[host].ended.is_none() {
                self.with_host(host, Initiator::handle_closed);
                return true;
            }
            return false;
        };
        let (connection, length) = (self.hosts[host].connection, chunk.len());
        self.with_target(|target, now, out| target.handle_sent(now, connection, length, out));
        self.with_host(host, |initiator, now, out| {
            initiator.handle_received(now, chunk, out);
        });
        true
    }

    /// Time passes; both sides keep their deadlines. Answers move as they are made.
    pub fn pass(&mut self, duration: Duration) {
        let end = self.now + duration;
        loop {
            let hosts = self
                .hosts
                .iter()
                .filter_map(|host| host.initiator.next_timeout());
            let next = hosts.chain(self.target.next_timeout()).min();
            self.now = next.map_or(end, |next| next.max(self.now)).min(end);
            self.with_target(Target::handle_timeout);
            for host in 0..self.hosts.len() {
                self.with_host(host, Initiator::handle_timeout);
            }
            self.run();
            if self.now == end {
                return;
            }
        }
    }
}

pub fn read_10(block: u32, count: u16) -> CommandRequest {
    CommandRequest::new(lun(), &cdb_10(0x28, block, count)).reading(u32::from(count) * 512)
}

pub fn write_10(block: u32, count: u16, data: Vec<Bytes>) -> CommandRequest {
    CommandRequest::new(lun(), &cdb_10(0x2A, block, count)).writing(data)
}

pub fn test_unit_ready() -> CommandRequest {
    CommandRequest::new(lun(), &[0; 6])
}

pub fn cdb_10(code: u8, block: u32, count: u16) -> [u8; 10] {
    let [a, b, c, d] = block.to_be_bytes();
    let [high, low] = count.to_be_bytes();
    [code, 0, a, b, c, d, 0, high, low, 0]
}

/// WRITE (10) of the first blocks as a raw session sends it, F set; it acknowledges no status.
pub fn write_command(tag: u32, number: u32, blocks: u16) -> ScsiCommand {
    let mut cdb = [0; 16];
    cdb[..10].copy_from_slice(&cdb_10(0x2A, 0, blocks));
    ScsiCommand {
        immediate: false,
        flags: CommandFlags {
            is_final: true,
            read: false,
            write: true,
        },
        attribute: TaskAttribute::Simple,
        lun: lun(),
        task_tag: InitiatorTaskTag(tag),
        expected_length: u32::from(blocks) * 512,
        command_number: SerialNumber(number),
        expected_status: SerialNumber(0),
        cdb,
    }
}

/// A disk that knows TEST UNIT READY, READ (10) and WRITE (10), and how much of them was moved.
fn carry_out(disk: &mut [u8], command: &Command) -> Response {
    let cdb = command.cdb;
    let from = u32::from_be_bytes([cdb[2], cdb[3], cdb[4], cdb[5]]) as usize * BLOCK;
    let length = usize::from(u16::from_be_bytes([cdb[7], cdb[8]])) * BLOCK;
    let range = from..from + length;
    if matches!(cdb[0], 0x28 | 0x2A) && range.end > disk.len() {
        let sense = AdditionalSense::LOGICAL_BLOCK_ADDRESS_OUT_OF_RANGE;
        return Response::check_condition(Sense::illegal_request(sense));
    }
    match cdb[0] {
        0x00 => Response::good(),
        0x28 => {
            let data = Bytes::copy_from_slice(&disk[range]);
            // In uneven parts.
            let middle = data.len() / 3;
            Response::good_in(vec![data.slice(..middle), data.slice(middle..)])
        }
        0x2A => {
            let here: Vec<u8> = command.data_out.concat();
            assert_eq!(here.len(), command.expected_out as usize);
            // Whole blocks of what there is, and no more than the CDB says.
            let length = here.len().min(length) / BLOCK * BLOCK;
            disk[from..from + length].copy_from_slice(&here[..length]);
            Response::good_out((range.end - from) as u64)
        }
        _ => {
            let sense = AdditionalSense::INVALID_COMMAND_OPERATION_CODE;
            Response::check_condition(Sense::illegal_request(sense))
        }
    }
}

/// Whether a part of what is sent is the header of a NOP-In that wants an answer.
fn is_question(part: &Bytes) -> bool {
    let header = <[u8; 48]>::try_from(&part[..]).ok();
    let reply = header.and_then(|bytes| Reply::parse(&Header(bytes)).ok());
    matches!(reply, Some(Reply::NopIn(nop)) if !nop.transfer_tag.is_reserved())
}

/// A request as it stands in the stream, without digests.
pub fn framed(request: &Request, data: &[u8]) -> Bytes {
    let mut parts = Vec::new();
    let data = vec![Bytes::copy_from_slice(data)];
    frame(request.encode(), data, Framing::LOGIN, &mut parts);
    Bytes::from(parts.concat())
}

/// A login request of the host `a` with port 0; stages by their codes.
pub fn login(current: LoginStage, next: Option<LoginStage>) -> LoginRequest {
    LoginRequest {
        transit: next.is_some(),
        more: false,
        current,
        next,
        version_max: 0,
        version_min: 0,
        isid: Isid([0x80, 0, 0, 0, 0, 0]),
        tsih: Tsih::NEW,
        task_tag: InitiatorTaskTag(7),
        connection: ConnectionIdentifier(1),
        command_number: SerialNumber(100),
        expected_status: SerialNumber(0),
    }
}

/// What the first request of a normal session has to say.
pub const WHO: &str = "InitiatorName=iqn.2026-11.example.host:a\0\
    TargetName=iqn.2026-11.example.holdfast:demo\0SessionType=Normal\0";

impl World {
    /// Sends a request on a raw connection.
    pub fn send(&mut self, connection: ConnectionId, request: &Request, data: &[u8]) {
        self.send_raw(connection, framed(request, data));
    }

    /// What came back on a raw connection since the last call.
    pub fn replies(&mut self, connection: ConnectionId) -> Vec<(Reply, Vec<u8>)> {
        let framing = Framing {
            data_length_max: 1 << 20,
            ..Framing::LOGIN
        };
        self.replies_in(connection, framing)
    }

    /// The same, of a session with digests.
    pub fn replies_in(
        &mut self,
        connection: ConnectionId,
        framing: Framing,
    ) -> Vec<(Reply, Vec<u8>)> {
        let bytes = std::mem::take(self.raw.get_mut(&connection).unwrap());
        let mut reader = PduReader::new(framing);
        reader.push(Bytes::from(bytes));
        let mut replies = Vec::new();
        while let Some(pdu) = reader.next_pdu().unwrap() {
            let reply = Reply::parse(&pdu.header).unwrap();
            replies.push((reply, pdu.data.into_bytes().to_vec()));
        }
        assert_eq!(reader.buffered(), 0, "whole PDUs only");
        replies
    }

    /// The one reply since the last call.
    pub fn reply(&mut self, connection: ConnectionId) -> (Reply, Vec<u8>) {
        let mut replies = self.replies(connection);
        assert_eq!(replies.len(), 1, "{replies:?}");
        replies.remove(0)
    }

    /// A raw connection in the full feature phase of a normal session, `keys` negotiated.
    pub fn raw_session(&mut self, keys: &str) -> ConnectionId {
        self.raw_session_of(0, keys)
    }

    /// The same, from a port of the host's.
    pub fn raw_session_of(&mut self, port: u8, keys: &str) -> ConnectionId {
        let connection = self.connect_raw();
        let mut request = login(
            LoginStage::OperationalNegotiation,
            Some(LoginStage::FullFeature),
        );
        request.isid = Isid([0x80, 0, 0, 0, 0, port]);
        // Turns of its own, whatever else a test wants of them.
        let takes_turns = std::mem::replace(&mut self.takes_turns, true);
        let text = format!("{WHO}{keys}");
        self.send(connection, &Request::Login(request), text.as_bytes());
        self.takes_turns = takes_turns;
        let (Reply::Login(response), _) = self.reply(connection) else {
            panic!("a login is answered");
        };
        assert_eq!(response.status, LoginStatus::Success);
        assert_eq!(response.next, Some(LoginStage::FullFeature));
        connection
    }

    /// Why a connection was closed, if it was.
    pub fn close_reason(&self, connection: ConnectionId) -> Option<CloseReason> {
        self.closed
            .iter()
            .find(|(id, _)| *id == connection)
            .map(|(_, reason)| *reason)
    }
}
