//! The portal: sessions of initiators, and their commands from the CDB to the answer.
//!
//! It refuses to know where a slice is: it cuts an operation into parts, and `parts` sees to them.
//!
//! Invariants:
//! - a command is answered when all parts of its operation have ended, and never after it was
//!   aborted;
//! - an abort, and the end of a session, is confirmed when every command concerned is over; the latter when what it had by RESERVE
//!   is free, too, as far as that can be had in time.

mod access;
mod copy;
mod ending;
mod task;

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;

use holdfast_iscsi::chap::ChapSeed;
use holdfast_iscsi::target::{
    self, Command as TargetRequest, SessionId, Target, TargetCommand, TargetConfig,
    TargetDirectory, TargetEvent, TargetOutput, TaskId,
};
use holdfast_iscsi::{IscsiName, Nexus as IscsiNexus, PortalGroupTag};
use holdfast_model::record::AccessNexus;
use holdfast_model::{NodeId, SliceId, VolumeId};
use holdfast_replica::timing::LIFETIME;
use holdfast_scsi::reservation::Need;
use holdfast_scsi::{
    Cdb, Continuation, Lun, MediumError, MediumOperation, Nexus, Outcome, Request, Surroundings,
    UnitAttention, respond_absent,
};
use holdfast_stdx::Instant;

use crate::access::Cause;
use crate::event::{ConnectionId, PortalCommand, PortalEvent};
use crate::operation::{Operation, Piece, Pieces};
use crate::part::PartKind;
use crate::stall::{Left, Stalls};
use crate::status::SessionStatus;
use crate::usage::{Counted, Usage};
use crate::volume::Volumes;
pub(crate) use copy::ASKED_AFTER;
use ending::Endings;
pub(crate) use ending::{EndedFor, Wide};
use task::{Task, Work, left};

/// A session and what its initiator has to be told.
#[derive(Debug)]
struct Session {
    nexus: IscsiNexus,
    /// The same, as reservations know it.
    access: AccessNexus,
    opened: Instant,
    /// Units that its initiator sees.
    seen: BTreeSet<u16>,
    units: BTreeMap<u16, Nexus>,
    closed: bool,
    /// Volumes that it had by RESERVE, and that are not released yet.
    releases: usize,
}

impl Session {
    /// What its initiator does not see does not exist for it.
    fn shows(&self, lun: Lun) -> bool {
        lun.number()
            .is_some_and(|number| self.seen.contains(&number))
    }

    /// Its initiator sees these units from now on. Of others it forgets everything: should it see one
    /// again, that is new to it.
    fn sees(&mut self, seen: BTreeSet<u16>) {
        if self.seen != seen {
            self.units.retain(|number, _| seen.contains(number));
            for nexus in self.units.values_mut() {
                nexus.raise(UnitAttention::ReportedLunsChanged);
            }
            self.seen = seen;
        }
    }
}

/// How long hosts have to go elsewhere when their node's maintenance begins; after that they are shown
/// the door. Hosts that take the hint do so at once; what they have under way is over in that time.
const LOGOUT_SECONDS: u16 = 30;

/// What the portal wants done by slices.
#[derive(Debug)]
pub(crate) struct NewPart {
    pub(crate) task: TaskId,
    pub(crate) place: usize,
    pub(crate) slice: SliceId,
    pub(crate) kind: PartKind,
    pub(crate) arrived: Instant,
}

/// All sessions of this node.
#[derive(Debug)]
pub(crate) struct Portal {
    node: NodeId,
    target: Target,
    out: TargetOutput,
    sessions: BTreeMap<SessionId, Session>,
    tasks: BTreeMap<TaskId, Task>,
    /// Those that are copies, and have begun.
    copies: BTreeSet<TaskId>,
    /// Up to then no node was asked to end commands without this one knowing that.
    heard_through: Instant,
    endings: Endings,
    paused: BTreeSet<ConnectionId>,
    new_parts: VecDeque<NewPart>,
    dropped: Vec<TaskId>,
    orders: Vec<(VolumeId, Cause)>,
    commands: VecDeque<PortalCommand>,
    pub(crate) stalls: Stalls,
    pub(crate) usage: Usage,
}

impl Portal {
    pub(crate) fn new(node: NodeId, limits: target::Limits, seed: ChapSeed) -> Self {
        let config = TargetConfig {
            group: PortalGroupTag(node.0),
            limits,
            seed,
        };
        Self {
            node,
            target: Target::new(config, TargetDirectory::default()),
            out: TargetOutput::default(),
            sessions: BTreeMap::new(),
            tasks: BTreeMap::new(),
            copies: BTreeSet::new(),
            heard_through: Instant::ZERO,
            endings: Endings::default(),
            paused: BTreeSet::new(),
            new_parts: VecDeque::new(),
            dropped: Vec::new(),
            orders: Vec::new(),
            commands: VecDeque::new(),
            stalls: Stalls::default(),
            usage: Usage::default(),
        }
    }

    pub(crate) fn new_part_count(&self) -> usize {
        self.new_parts.len()
    }

    /// One at a time: the room for them is used again.
    pub(crate) fn take_new_part(&mut self) -> Option<NewPart> {
        self.new_parts.pop_front()
    }

    /// Tasks that were aborted: what of them was not begun is not to be.
    pub(crate) fn take_dropped(&mut self) -> Vec<TaskId> {
        core::mem::take(&mut self.dropped)
    }

    /// Whether somebody waits for a command: this session, if one is named.
    pub(crate) fn is_awaited(&self, task: TaskId, by: Option<SessionId>) -> bool {
        let task = self.tasks.get(&task).filter(|task| !task.aborted);
        task.is_some_and(|task| by.is_none_or(|session| session == task.session))
    }

    pub(crate) fn is_aborted(&self, task: TaskId) -> bool {
        let task = self.tasks.get(&task);
        task.is_some_and(|task| task.aborted || task.forbidden)
    }

    pub(crate) fn take_commands(&mut self) -> impl Iterator<Item = PortalCommand> {
        self.commands.drain(..)
    }

    /// Turns a connection away.
    pub(crate) fn refuse(&mut self, command: PortalCommand) {
        self.commands.push_back(command);
    }

    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        self.target.next_timeout()
    }

    /// Sessions with each target, by its name.
    pub(crate) fn sessions_by_target(&self) -> BTreeMap<&str, u32> {
        let mut counts = BTreeMap::new();
        for session in self.sessions.values().filter(|session| !session.closed) {
            *counts.entry(session.nexus.target.as_str()).or_default() += 1;
        }
        counts
    }

    /// The sessions that are open, for people.
    pub(crate) fn session_statuses(&self, now: Instant) -> Vec<SessionStatus> {
        let living = self.target.sessions();
        let statuses = living.filter_map(|info| {
            let session = self.sessions.get(&info.session)?;
            Some(SessionStatus {
                initiator: info.nexus.initiator,
                isid: info.nexus.isid,
                tsih: info.tsih,
                target: info.nexus.target,
                from: info.origin,
                age: now.since(session.opened),
                commands: info.tasks,
                is_proved: info.is_proved,
                parameters: info.parameters,
            })
        });
        statuses.collect()
    }

    pub(crate) fn set_directory(
        &mut self,
        now: Instant,
        volumes: &Volumes,
        directory: TargetDirectory,
    ) {
        self.target.set_directory(now, directory, &mut self.out);
        for (id, session) in self.sessions.iter_mut().filter(|(_, it)| !it.closed) {
            session.sees(self.target.units_of(*id));
        }
        self.settle(now, volumes);
    }

    /// This node is in maintenance, or not any more: hosts are to be elsewhere meanwhile.
    pub(crate) fn set_maintenance(&mut self, now: Instant, volumes: &Volumes, is_so: bool) {
        let seconds = is_so.then_some(LOGOUT_SECONDS);
        self.target.set_maintenance(now, seconds, &mut self.out);
        self.settle(now, volumes);
    }

    /// Tells every initiator of units that have grown.
    pub(crate) fn raise_grown(&mut self, grown: &BTreeSet<(IscsiName, u16)>) {
        for session in self.sessions.values_mut() {
            for (lun, nexus) in &mut session.units {
                if grown.contains(&(session.nexus.target.clone(), *lun)) {
                    nexus.raise(UnitAttention::CapacityChanged);
                }
            }
        }
    }

    pub(crate) fn handle_timeout(&mut self, now: Instant, volumes: &Volumes) {
        self.target.handle_timeout(now, &mut self.out);
        self.settle(now, volumes);
    }

    /// Whether something has come of initiators that was not looked at.
    pub(crate) fn has_turn(&self) -> bool {
        self.target.has_turn()
    }

    /// Looks at some of what has come of initiators.
    pub(crate) fn handle_turn(&mut self, now: Instant, volumes: &Volumes) {
        self.target.handle_turn(now, &mut self.out);
        self.settle(now, volumes);
    }

    pub(crate) fn handle_event(&mut self, now: Instant, volumes: &Volumes, event: PortalEvent) {
        let out = &mut self.out;
        let connection = match event {
            PortalEvent::Connected { connection, from } => {
                let id = target::ConnectionId(connection.0);
                self.target.handle_connected(now, id, out);
                self.target.note_origin(id, from);
                connection
            }
            PortalEvent::Received {
                connection,
                bytes,
                received,
            } => {
                let id = target::ConnectionId(connection.0);
                self.target.handle_received(now, id, (received, bytes), out);
                connection
            }
            PortalEvent::Sent { connection, count } => {
                self.target
                    .handle_sent(now, target::ConnectionId(connection.0), count, out);
                connection
            }
            PortalEvent::Closed { connection } => {
                self.target
                    .handle_closed(now, target::ConnectionId(connection.0), out);
                self.paused.remove(&connection);
                self.settle(now, volumes);
                return;
            }
        };
        self.settle(now, volumes);
        self.adjust_input(connection);
    }

    /// This node stood still: nothing that the connections hold is to be processed any more.
    pub(crate) fn drop_all(&mut self, now: Instant, volumes: &Volumes) {
        self.target.drop_all_sessions(now, &mut self.out);
        let closes: Vec<_> = self.out.commands.drain(..).collect();
        for command in closes {
            if let TargetCommand::Close { connection, .. } = command {
                let connection = ConnectionId(connection.0);
                self.paused.remove(&connection);
                self.commands.push_back(PortalCommand::Abort { connection });
            }
        }
        self.settle(now, volumes);
    }

    /// A part of a task has ended.
    pub(crate) fn part_ended(
        &mut self,
        now: Instant,
        volumes: &Volumes,
        task: TaskId,
        place: usize,
        result: Result<holdfast_wire::Contents, MediumError>,
        settled: bool,
    ) {
        let Some(found) = self.tasks.get_mut(&task) else {
            return;
        };
        found.settled &= settled;
        let (Work::Medium { operation, .. } | Work::Copy { operation, .. }) = &mut found.work
        else {
            return;
        };
        operation.end_piece(place, result);
        if operation.is_over() {
            self.operation_over(now, volumes, task);
            self.settle(now, volumes);
        }
    }

    fn operation_over(&mut self, now: Instant, volumes: &Volumes, id: TaskId) {
        let mut task = self.tasks.remove(&id).expect("an operation is a task's");
        if matches!(task.work, Work::Copy { .. }) {
            self.copy_step_over(now, volumes, id, task);
            return;
        }
        if task.aborted {
            self.task_over(now, id, &task);
            return;
        }
        let Work::Medium {
            continuation,
            operation,
        } = core::mem::replace(&mut task.work, Work::Access)
        else {
            unreachable!("it has an operation")
        };
        let result = operation.result();
        let left = left(&result);
        let was_refused = task.forbidden && result.is_err();
        let (response, left) = match continuation.complete(result) {
            _ if was_refused => (access::conflict(), Left::Refused),
            Outcome::Done(response) => (response, left),
            Outcome::Medium(..) if task.forbidden => (access::conflict(), Left::Refused),
            Outcome::Medium(operation, continuation) => {
                self.begin(now, volumes, id, task, (operation, continuation));
                return;
            }
            Outcome::Copy(_) => unreachable!("a copy is begun before it needs the medium"),
            Outcome::Access(_) => unreachable!("what needs the medium is not about access"),
            Outcome::PortGroups(_) => unreachable!("the medium is not asked for groups"),
        };
        self.stalls.end(now, task.volume, task.session, left);
        if left == Left::Served
            && let Some(counted) = task.counted
        {
            if !self.usage.has_room() {
                self.handle_flushed(now);
            }
            let whose = (task.volume, task.session);
            self.usage.answered(whose, counted);
        }
        self.target.respond(now, id, response, &mut self.out);
    }

    /// What was answered is with the sockets: so long did it take.
    pub(crate) fn handle_flushed(&mut self, now: Instant) {
        let sessions = &self.sessions;
        self.usage.flushed(now, |id| {
            let session = sessions.get(&id)?;
            Some(session.nexus.initiator.clone())
        });
    }

    /// Cuts an operation into parts.
    fn begin(
        &mut self,
        now: Instant,
        volumes: &Volumes,
        id: TaskId,
        mut task: Task,
        (operation, continuation): (MediumOperation, Continuation),
    ) {
        let (operation, pieces) = Operation::cut(task.volume, task.volume_bytes, operation);
        self.hand_out(id, task.arrived, pieces);
        let over = operation.is_over();
        task.work = Work::Medium {
            continuation,
            operation,
        };
        self.tasks.insert(id, task);
        if over {
            self.operation_over(now, volumes, id);
        }
    }

    /// Hands out the pieces of a task's operation, whose lives began with `arrived`.
    fn hand_out(&mut self, task: TaskId, arrived: Instant, pieces: Pieces) {
        for (place, Piece { slice, kind }) in pieces.into_iter().enumerate() {
            self.new_parts.push_back(NewPart {
                task,
                place,
                slice,
                kind,
                arrived,
            });
        }
    }

    /// Takes what the target's machine says, until it says nothing more.
    fn settle(&mut self, now: Instant, volumes: &Volumes) {
        while let Some(event) = self.out.events.pop_front() {
            match event {
                TargetEvent::SessionOpened { session, nexus } => {
                    let opened = Session {
                        access: self.access_nexus(&nexus),
                        opened: now,
                        nexus,
                        seen: self.target.units_of(session),
                        units: BTreeMap::new(),
                        closed: false,
                        releases: 0,
                    };
                    self.sessions.insert(session, opened);
                }
                TargetEvent::SessionClosed { session, .. } => {
                    self.release_reserved(volumes, session);
                    self.close_session(now, session);
                }
                TargetEvent::Command(command) => self.handle_command(now, volumes, command),
                TargetEvent::TaskManagement(request) => self.manage(now, volumes, &request),
            }
        }
        // Before the commands: one that was served may have been closed since.
        while let Some(connection) = self.out.served.pop() {
            self.adjust_input(ConnectionId(connection.0));
        }
        while let Some(command) = self.out.commands.pop_front() {
            match command {
                TargetCommand::Send { connection, parts } => {
                    let connection = ConnectionId(connection.0);
                    self.commands
                        .push_back(PortalCommand::Send { connection, parts });
                    self.adjust_input(connection);
                }
                TargetCommand::Close { connection, .. } => {
                    let connection = ConnectionId(connection.0);
                    self.paused.remove(&connection);
                    self.commands.push_back(PortalCommand::Close { connection });
                }
            }
        }
        // Room may have come free for any of them.
        let paused: Vec<ConnectionId> = self.paused.iter().copied().collect();
        for connection in paused {
            self.adjust_input(connection);
        }
    }

    /// Stops or resumes reading, as the target's machine wants it.
    fn adjust_input(&mut self, connection: ConnectionId) {
        let wants = self.target.wants_input(target::ConnectionId(connection.0));
        if !wants && self.paused.insert(connection) {
            self.commands.push_back(PortalCommand::Pause { connection });
        } else if wants && self.paused.remove(&connection) {
            self.commands
                .push_back(PortalCommand::Resume { connection });
        }
    }

    fn handle_command(&mut self, now: Instant, volumes: &Volumes, request: TargetRequest) {
        let session = self.sessions.get_mut(&request.session);
        let session = session.expect("a command is of a session that was opened");
        let volume = volumes.unit(&session.nexus.target, request.lun);
        let Some(volume) = volume.filter(|_| session.shows(request.lun)) else {
            let luns = luns_shown(volumes, session);
            let response = respond_absent(&request.cdb, &luns);
            self.target
                .respond(now, request.task, response, &mut self.out);
            return;
        };
        let number = request
            .lun
            .number()
            .expect("a unit that exists has a number");
        let node = self.node;
        let cdb = Cdb::parse(&request.cdb, volume.unit.geometry());
        // Nothing else asks for all of them.
        let luns = match cdb.lists_units() {
            true => luns_shown(volumes, session),
            false => Vec::new(),
        };
        let nexus = session
            .units
            .entry(number)
            .or_insert_with(|| Nexus::new(node.0));
        let need = Need::of(&cdb);
        let asked = Request {
            cdb,
            data_out: request.data_out,
            data_out_expected: u64::from(request.expected_out),
            data_in_expected: u64::from(request.expected_in),
            luns: &luns,
            access: volumes.access(volume.id),
            port: &session.access,
            surroundings: Surroundings {
                target: session.nexus.target.as_str(),
                groups: volumes.groups(volume.id),
                provisioning: volumes.provisioning(volume.id),
            },
        };
        let outcome = volume.unit.begin(nexus, asked);
        let task = Task {
            session: request.session,
            volume: volume.id,
            unit: number,
            volume_bytes: volume.unit.geometry().bytes(),
            arrived: request.since,
            received: request.received,
            need,
            work: Work::Access,
            counted: None,
            aborted: false,
            forbidden: false,
            settled: true,
        };
        self.go_on(now, volumes, request.task, task, outcome);
    }

    /// A command has been begun.
    fn go_on(
        &mut self,
        now: Instant,
        volumes: &Volumes,
        id: TaskId,
        mut task: Task,
        outcome: Outcome,
    ) {
        let session = &self.sessions[&task.session];
        match outcome {
            Outcome::Done(response) => self.target.respond(now, id, response, &mut self.out),
            // Who is the short way follows from where the replicas are.
            Outcome::PortGroups(wanted) => {
                self.target.respond(now, id, wanted.failed(), &mut self.out);
            }
            Outcome::Medium(operation, continuation) => {
                let initiator = &session.nexus.initiator;
                let times = (now, task.received);
                self.stalls
                    .begin(times, task.volume, task.session, initiator);
                task.counted = Some(Counted::new(task.received, &operation));
                self.begin(now, volumes, id, task, (operation, continuation));
            }
            Outcome::Copy(list) => self.begin_copy(now, volumes, id, task, list),
            Outcome::Access(request) => {
                let cause = Cause::Command {
                    task: id,
                    nexus: session.access.clone(),
                    request,
                    since: session.opened,
                    decided_by: task.arrived + LIFETIME,
                };
                self.orders.push((task.volume, cause));
                self.tasks.insert(id, task);
            }
        }
    }
}

/// The units that a session's initiator sees.
fn luns_shown(volumes: &Volumes, session: &Session) -> Vec<Lun> {
    let mut luns = volumes.luns(&session.nexus.target);
    luns.retain(|lun| session.shows(*lun));
    luns
}
