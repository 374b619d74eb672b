//! Connections between hosts and portals, with the kernels' buffers on both sides.
//!
//! Invariants:
//! - what a portal's process does not read stays in its kernel's buffer, and can be read for as long
//!   as the process lives, even if the host has long given the connection up;
//! - what a host had not brought onto the way when it gave the connection up is never sent, unless it lingers
//!   ([`HostPlan::lingers`](crate::HostPlan::lingers)): then it comes when it can, and that the connection is over comes after that.

use std::collections::{BTreeMap, VecDeque};

use holdfast_engine::{ConnectionId, Event, PortalCommand, PortalEvent};
use holdfast_model::NodeId;
use holdfast_stdx::{Bytes, BytesMut, Duration};

use super::node::ProcessId;
use super::{Cluster, Happening};
use crate::failure::Failure;
use crate::network::Place;
use crate::pipe::Pipe;

/// Bytes that a kernel holds for a connection, each way.
const KERNEL_BYTES: usize = 256 << 10;
/// What a process reads at once, at most.
const READ_BYTES: usize = 64 << 10;

/// How long the end of a connection whose way is cut may take to come after what was sent before it.
const END_LATE_NANOS: u64 = 3_000_000_000;

/// Which way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Toward {
    Portal,
    Host,
}

#[derive(Debug)]
enum Item {
    Bytes(Bytes),
    End,
}

#[derive(Debug)]
struct Connection {
    host: usize,
    path: usize,
    process: ProcessId,
    accepted: bool,
    /// On the way to the portal.
    requests: Pipe<Item>,
    /// In the portal's kernel, unread.
    received: VecDeque<Item>,
    /// The portal does not want to read now.
    paused: bool,
    /// In the portal's process, not taken by its kernel.
    outgoing: VecDeque<Bytes>,
    /// On the way to the host.
    responses: Pipe<Item>,
    response_bytes: usize,
    /// The engine has closed it: what is outgoing is still sent.
    closing: bool,
    /// The portal's process knows nothing of it any more.
    portal_done: bool,
    host_done: bool,
}

/// All connections.
#[derive(Debug, Default)]
pub(super) struct Connections {
    connections: BTreeMap<ConnectionId, Connection>,
    drawn: u64,
}

impl Cluster {
    /// A host connects to a node's portal. `None`: it is refused, or nobody answers.
    pub(super) fn connect(
        &mut self,
        host: usize,
        path: usize,
        node: NodeId,
    ) -> Option<ConnectionId> {
        let place = Place::Host(host as u16);
        if !self.network.passes_both_ways(place, Place::Node(node)) || !self.is_told_of(node) {
            return None;
        }
        let process = self.nodes.get(&node)?.process.as_ref()?;
        let process = process.identity.map(|_| process.id)?;
        self.connections.drawn += 1;
        let connection = ConnectionId(self.connections.drawn);
        let state = Connection {
            host,
            path,
            process,
            accepted: false,
            requests: Pipe::default(),
            received: VecDeque::new(),
            paused: false,
            outgoing: VecDeque::new(),
            responses: Pipe::default(),
            response_bytes: 0,
            closing: false,
            portal_done: false,
            host_done: false,
        };
        self.connections.connections.insert(connection, state);
        let delay = self.network.delay();
        self.schedule(delay, Happening::Accept(connection));
        Some(connection)
    }

    pub(super) fn accept(&mut self, connection: ConnectionId) -> Result<(), Failure> {
        let Some(state) = self.connections.connections.get_mut(&connection) else {
            return Ok(());
        };
        state.accepted = true;
        let (process, host) = (state.process, state.host);
        let from = format!("10.0.0.{host}:1");
        let event = PortalEvent::Connected { connection, from };
        self.tell(process, Event::Portal(event))?;
        self.stream(connection, Toward::Portal)
    }

    /// A host sends bytes.
    pub(super) fn host_sends(&mut self, connection: ConnectionId, parts: Vec<Bytes>) {
        let mut whole = BytesMut::new();
        for part in parts {
            whole.extend_from_slice(&part);
        }
        let mut whole = whole.freeze();
        while !whole.is_empty() {
            // The network cuts a stream where it likes.
            let piece = self.prng.between(1, READ_BYTES as u64) as usize;
            let piece = whole.split_to(piece.min(whole.len()));
            self.push_request(connection, Item::Bytes(piece));
        }
    }

    fn push_request(&mut self, connection: ConnectionId, item: Item) {
        let arrival = self.now + self.network.delay();
        let Some(state) = self.connections.connections.get_mut(&connection) else {
            return;
        };
        let arrival = state.requests.push(arrival, item);
        self.schedule
            .at(arrival, Happening::Stream(connection, Toward::Portal));
    }

    /// A host gives a connection up: it is reset.
    pub(super) fn host_closes(&mut self, connection: ConnectionId) {
        let Some(state) = self.connections.connections.get_mut(&connection) else {
            return;
        };
        state.host_done = true;
        state.responses.clear();
        let (host, node) = (
            Place::Host(state.host as u16),
            Place::Node(state.process.node),
        );
        let is_cut = !self.network.passes(host, node);
        if self.plan.hosts[state.host].lingers {
            // Its end may have to be sent several times.
            let later = self.prng.below(if is_cut { END_LATE_NANOS } else { 1 });
            self.schedule(Duration::from_nanos(later), Happening::HostEnds(connection));
            return;
        }
        if is_cut && let Some(state) = self.connections.connections.get_mut(&connection) {
            state.requests.clear();
        }
        self.host_ends(connection);
    }

    /// That a host has given a connection up is on its way.
    pub(super) fn host_ends(&mut self, connection: ConnectionId) {
        self.push_request(connection, Item::End);
        self.forget_if_over(connection);
    }

    /// Something may have arrived over a connection.
    pub(super) fn stream(
        &mut self,
        connection: ConnectionId,
        toward: Toward,
    ) -> Result<(), Failure> {
        let Some(state) = self.connections.connections.get(&connection) else {
            return Ok(());
        };
        let (host, node) = (
            Place::Host(state.host as u16),
            Place::Node(state.process.node),
        );
        match toward {
            Toward::Portal => {
                if self.network.passes(host, node) {
                    self.fill_kernel(connection);
                }
                self.read_portal(connection)
            }
            Toward::Host if self.network.passes(node, host) => self.read_host(connection),
            Toward::Host => Ok(()),
        }
    }

    fn fill_kernel(&mut self, connection: ConnectionId) {
        let now = self.now;
        let Some(state) = self.connections.connections.get_mut(&connection) else {
            return;
        };
        let mut held: usize = state.received.iter().map(Item::bytes).sum();
        while held < KERNEL_BYTES
            && let Some(item) = state.requests.take(now)
        {
            held += item.bytes();
            state.received.push_back(item);
        }
    }

    /// The portal's process reads what its kernel has, unless it is paused or stands still.
    fn read_portal(&mut self, connection: ConnectionId) -> Result<(), Failure> {
        loop {
            let Some(state) = self.connections.connections.get_mut(&connection) else {
                return Ok(());
            };
            let process = state.process;
            let awake = self.nodes[&process.node]
                .process
                .as_ref()
                .is_some_and(|running| running.id == process && !running.freeze.is_frozen());
            if !state.accepted || state.paused || state.portal_done || !awake {
                return Ok(());
            }
            let Some(item) = state.received.pop_front() else {
                return Ok(());
            };
            match item {
                Item::Bytes(_) if state.closing => {}
                Item::Bytes(bytes) => {
                    let received = self.shown(process.node);
                    let event = PortalEvent::Received {
                        connection,
                        bytes,
                        received,
                    };
                    self.tell(process, Event::Portal(event))?;
                }
                Item::End => {
                    state.portal_done = true;
                    self.forget_if_over(connection);
                    let event = PortalEvent::Closed { connection };
                    return self.tell(process, Event::Portal(event));
                }
            }
            self.fill_kernel_if_passable(connection);
        }
    }

    fn fill_kernel_if_passable(&mut self, connection: ConnectionId) {
        let Some(state) = self.connections.connections.get(&connection) else {
            return;
        };
        let (host, node) = (
            Place::Host(state.host as u16),
            Place::Node(state.process.node),
        );
        if self.network.passes(host, node) {
            self.fill_kernel(connection);
        }
    }

    /// The host reads everything that has arrived.
    fn read_host(&mut self, connection: ConnectionId) -> Result<(), Failure> {
        loop {
            let now = self.now;
            let Some(state) = self.connections.connections.get_mut(&connection) else {
                return Ok(());
            };
            if state.host_done {
                return Ok(());
            }
            let (host, path) = (state.host, state.path);
            let Some(item) = state.responses.take(now) else {
                return Ok(());
            };
            match item {
                Item::Bytes(bytes) => {
                    state.response_bytes -= bytes.len();
                    self.pump(connection);
                    self.host_receives(host, path, connection, bytes)?;
                }
                Item::End => {
                    state.host_done = true;
                    self.forget_if_over(connection);
                    self.host_loses(host, path, connection)?;
                }
            }
        }
    }

    /// Gives the portal's kernel as much as it takes.
    fn pump(&mut self, connection: ConnectionId) {
        let mut count = 0;
        loop {
            let arrival = self.now + self.network.delay();
            let Some(state) = self.connections.connections.get_mut(&connection) else {
                return;
            };
            if state.response_bytes >= KERNEL_BYTES || state.portal_done {
                break;
            }
            let Some(bytes) = state.outgoing.pop_front() else {
                break;
            };
            count += bytes.len();
            state.response_bytes += bytes.len();
            let arrival = state.responses.push(arrival, Item::Bytes(bytes));
            self.schedule
                .at(arrival, Happening::Stream(connection, Toward::Host));
        }
        let Some(state) = self.connections.connections.get_mut(&connection) else {
            return;
        };
        let process = state.process;
        if count > 0 && !state.portal_done {
            let event = Event::Portal(PortalEvent::Sent { connection, count });
            self.schedule(Duration::ZERO, Happening::Tell(process, Box::new(event)));
        }
        self.finish_closing(connection);
    }

    /// The engine has closed the connection, and everything is sent.
    fn finish_closing(&mut self, connection: ConnectionId) {
        let Some(state) = self.connections.connections.get_mut(&connection) else {
            return;
        };
        if state.closing && !state.portal_done && state.outgoing.is_empty() {
            self.portal_ends(connection);
        }
    }

    /// The portal's process is done with a connection, and hears so.
    fn portal_ends(&mut self, connection: ConnectionId) {
        let arrival = self.now + self.network.delay();
        let Some(state) = self.connections.connections.get_mut(&connection) else {
            return;
        };
        state.portal_done = true;
        state.received.clear();
        state.requests.clear();
        let process = state.process;
        let arrival = state.responses.push(arrival, Item::End);
        self.schedule
            .at(arrival, Happening::Stream(connection, Toward::Host));
        let event = Event::Portal(PortalEvent::Closed { connection });
        self.schedule(Duration::ZERO, Happening::Tell(process, Box::new(event)));
        self.forget_if_over(connection);
    }

    fn forget_if_over(&mut self, connection: ConnectionId) {
        let state = self.connections.connections.get(&connection);
        if state.is_some_and(|state| state.host_done && state.portal_done) {
            self.connections.connections.remove(&connection);
        }
    }

    /// What an engine wants of a connection.
    pub(super) fn portal_command(&mut self, process: ProcessId, command: PortalCommand) {
        let (PortalCommand::Send { connection, .. }
        | PortalCommand::Pause { connection }
        | PortalCommand::Resume { connection }
        | PortalCommand::Close { connection }
        | PortalCommand::Abort { connection }) = command;
        let Some(state) = self.connections.connections.get_mut(&connection) else {
            return;
        };
        if state.process != process || state.portal_done {
            return;
        }
        match command {
            PortalCommand::Send { parts, .. } => {
                if !state.closing {
                    state
                        .outgoing
                        .extend(parts.into_iter().filter(|part| !part.is_empty()));
                    self.pump(connection);
                }
            }
            PortalCommand::Pause { .. } => state.paused = true,
            PortalCommand::Resume { .. } => {
                state.paused = false;
                self.schedule(
                    Duration::ZERO,
                    Happening::Stream(connection, Toward::Portal),
                );
            }
            PortalCommand::Close { .. } => {
                state.closing = true;
                self.finish_closing(connection);
            }
            PortalCommand::Abort { .. } => {
                state.outgoing.clear();
                state.responses.clear();
                self.portal_ends(connection);
            }
        }
    }

    /// A process is gone. Its kernel, if that lives, resets its connections.
    pub(super) fn connections_of_dead(&mut self, process: ProcessId, kernel_lives: bool) {
        let connections: Vec<ConnectionId> = self
            .connections
            .connections
            .iter()
            .filter(|(_, state)| state.process == process)
            .map(|(connection, _)| *connection)
            .collect();
        for connection in connections {
            if kernel_lives {
                self.portal_ends(connection);
            } else if let Some(state) = self.connections.connections.get_mut(&connection) {
                state.portal_done = true;
                state.requests.clear();
                state.responses.clear();
                self.forget_if_over(connection);
            }
        }
    }

    /// A process goes on: it reads what has come meanwhile.
    pub(super) fn connections_of_thawed(&mut self, process: ProcessId) -> Result<(), Failure> {
        let connections: Vec<ConnectionId> = self
            .connections
            .connections
            .iter()
            .filter(|(_, state)| state.process == process)
            .map(|(connection, _)| *connection)
            .collect();
        for connection in connections {
            self.stream(connection, Toward::Portal)?;
        }
        Ok(())
    }

    /// Bytes that hosts have sent to a node over connections that they have given up since, and that
    /// its process has not read.
    #[must_use]
    pub fn abandoned_bytes(&self, node: NodeId) -> usize {
        let connections = self.connections.connections.values();
        connections
            .filter(|state| state.host_done && state.process.node == node)
            .flat_map(|state| &state.received)
            .map(Item::bytes)
            .sum()
    }

    /// A way between a host and a node is passable again.
    pub(super) fn host_way_mended(&mut self, host: usize, node: NodeId) {
        let connections: Vec<ConnectionId> = self
            .connections
            .connections
            .iter()
            .filter(|(_, state)| state.host == host && state.process.node == node)
            .map(|(connection, _)| *connection)
            .collect();
        for connection in connections {
            for toward in [Toward::Portal, Toward::Host] {
                let delay = self.network.delay();
                self.schedule(delay, Happening::Stream(connection, toward));
            }
        }
    }
}

impl Item {
    fn bytes(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::End => 0,
        }
    }
}
