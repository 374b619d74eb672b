//! The portal: where initiators connect.
//!
//! It refuses to look into what they say, to keep more of it than one turn's worth, and to wait for
//! an initiator that does not read.
//!
//! Invariants:
//! - a connection that the engine has closed or aborted brings nothing more but its end;
//! - every connection ends, whatever its initiator does, once the engine has closed it; until then it takes nobody's place.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::task::{Context, Poll};

use holdfast_engine::{ConnectionId, PortalCommand, PortalEvent};
use holdfast_stdx::{BufMut, Bytes, BytesMut, Instant};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::time::timeout;

use crate::accept::{Place, Places, accept};
use crate::complaints::{About, Complaints};
use crate::inbox::Inbox;
use crate::limits::{
    CLOSE_TIME_MAX, CLOSING_MAX, PORTAL_HELD_BYTES_MAX, PORTAL_KEEP_BYTES_MIN, PORTAL_PROBE,
    PORTAL_QUEUE_BYTES_MAX, PORTAL_READ_BYTES, PORTAL_READ_BYTES_MIN, PORTAL_READ_BYTES_SUM,
    PORTAL_TURN_BYTES_MAX, PORTAL_UNANSWERED_MAX,
};
use crate::stream::{Patience, Stream};
use crate::task::Task;

/// What the tasks of the connections tell.
enum Item {
    /// An initiator connected.
    Accepted {
        socket: TcpStream,
        from: SocketAddr,
        place: Place,
    },
    /// One that had to be turned away connected.
    Refused { from: SocketAddr },
    /// Bytes came.
    Received {
        connection: ConnectionId,
        bytes: Bytes,
        received: Instant,
    },
    /// Bytes went.
    Sent {
        connection: ConnectionId,
        count: usize,
    },
    /// The connection ended.
    Ended {
        connection: ConnectionId,
        end: Option<io::Error>,
    },
}

/// What the tasks share with the connections' owner.
struct Shared {
    inbox: Inbox<Item>,
    /// Where all connections read into, one at a time.
    buffer: RefCell<BytesMut>,
    /// How much each reads at once.
    read_bytes: Cell<usize>,
    clock: fn() -> Instant,
}

/// All connections of initiators.
pub(crate) struct Portal {
    shared: Rc<Shared>,
    places: Places,
    acceptors: Vec<Task>,
    connections: HashMap<ConnectionId, Connection>,
    /// Counts what has an order.
    turns: u64,
    /// Bytes that `held` of all connections have.
    held_bytes: usize,
    drawn: u64,
    /// What the engine is to be told.
    events: VecDeque<PortalEvent>,
    /// Connections to which there is something to write.
    dirty: VecDeque<ConnectionId>,
    /// Room for what the tasks tell, which is used again.
    taken: VecDeque<Item>,
    complaints: Complaints,
}

struct Connection {
    stream: Rc<Stream>,
    task: Task,
    gate: Rc<Gate>,
    /// What was read before the engine wanted nothing more.
    held: Option<Held>,
    /// The engine has closed it, in this turn.
    closing: Option<u64>,
}

/// What is held of a connection, and since which turn.
struct Held {
    bytes: Bytes,
    received: Instant,
    since: u64,
}

/// Whether a connection is read from.
#[derive(Default)]
struct Gate {
    paused: Cell<bool>,
    opened: Notify,
}

impl Gate {
    async fn passed(&self) {
        while self.paused.get() {
            self.opened.notified().await;
        }
    }
}

impl Portal {
    pub(crate) fn new(connections_max: usize, clock: fn() -> Instant) -> Self {
        Self {
            shared: Rc::new(Shared {
                inbox: Inbox::new(PORTAL_TURN_BYTES_MAX),
                buffer: RefCell::default(),
                read_bytes: Cell::new(PORTAL_READ_BYTES),
                clock,
            }),
            places: Places::new(connections_max),
            acceptors: Vec::new(),
            connections: HashMap::new(),
            turns: 0,
            held_bytes: 0,
            drawn: 0,
            events: VecDeque::new(),
            dirty: VecDeque::new(),
            taken: VecDeque::new(),
            complaints: Complaints::default(),
        }
    }

    /// Lets initiators in.
    pub(crate) fn open(&mut self, listener: TcpListener) {
        let (shared, places) = (Rc::clone(&self.shared), self.places.clone());
        let take = move |socket, from| {
            let item = match places.take() {
                Some(place) => Item::Accepted {
                    socket,
                    from,
                    place,
                },
                None => Item::Refused { from },
            };
            shared.inbox.push(item, 0);
        };
        let accepting = accept(listener, take);
        self.acceptors.push(Task::start(accepting));
    }

    pub(crate) fn command(&mut self, command: PortalCommand) {
        match command {
            PortalCommand::Send { connection, parts } => self.send(connection, parts),
            PortalCommand::Pause { connection } => {
                if let Some(state) = self.connections.get(&connection) {
                    state.gate.paused.set(true);
                }
            }
            PortalCommand::Resume { connection } => self.resume(connection),
            PortalCommand::Close { connection } => self.shut(connection),
            PortalCommand::Abort { connection } => self.abort(connection),
        }
    }

    /// Writes what the commands since the last call have queued.
    pub(crate) fn flush(&mut self) {
        while let Some(connection) = self.dirty.pop_front() {
            let Some(state) = self.connections.get(&connection) else {
                continue;
            };
            match state.stream.write() {
                Ok(0) => {}
                Ok(count) => self
                    .events
                    .push_back(PortalEvent::Sent { connection, count }),
                Err(error) => self.ended(connection, Some(&error)),
            }
        }
    }

    /// Takes note of what happened, which [`take_events`](Self::take_events) then tells. `Pending` if nothing did.
    pub(crate) fn poll(&mut self, context: &Context<'_>) -> Poll<()> {
        let mut items = std::mem::take(&mut self.taken);
        while self.shared.inbox.poll_take(context, &mut items).is_ready() {
            for item in items.drain(..) {
                self.handle(item);
            }
        }
        self.taken = items;
        if self.events.is_empty() {
            return Poll::Pending;
        }
        Poll::Ready(())
    }

    pub(crate) fn take_events(&mut self) -> impl Iterator<Item = PortalEvent> {
        self.events.drain(..)
    }

    /// Ends everything in good order: what is queued is sent first.
    pub(crate) async fn close(&mut self) {
        self.acceptors.clear();
        let connections: Vec<Connection> = self.connections.drain().map(|(_, c)| c).collect();
        for connection in &connections {
            connection.stream.close();
        }
        for connection in connections {
            connection.task.ended().await;
        }
    }

    fn handle(&mut self, item: Item) {
        match item {
            Item::Accepted {
                socket,
                from,
                place,
            } => self.accepted(socket, from, place),
            Item::Refused { from } => {
                let cause = format!("closed a connection from {}: too many are open", from.ip());
                let about = About::address(from.ip(), false);
                if let Some(news) = self.complaints.is_news(about, &cause) {
                    tracing::warn!("{cause}{news}");
                }
            }
            Item::Received {
                connection,
                bytes,
                received,
            } => self.received(connection, bytes, received),
            Item::Sent { connection, count } => {
                if self.connections.contains_key(&connection) {
                    self.events
                        .push_back(PortalEvent::Sent { connection, count });
                }
            }
            Item::Ended { connection, end } => self.ended(connection, end.as_ref()),
        }
    }

    fn accepted(&mut self, socket: TcpStream, from: SocketAddr, place: Place) {
        let patience = Patience {
            unanswered: PORTAL_UNANSWERED_MAX,
            probe: PORTAL_PROBE,
        };
        // One that is gone already was never there.
        let Ok(stream) = Stream::new(socket, patience) else {
            return;
        };
        self.drawn += 1;
        let connection = ConnectionId(self.drawn);
        let stream = Rc::new(stream);
        let gate = Rc::new(Gate::default());
        let reader = Reader {
            connection,
            stream: Rc::clone(&stream),
            gate: Rc::clone(&gate),
            shared: Rc::clone(&self.shared),
        };
        let state = Connection {
            stream,
            task: Task::start(run(reader, place)),
            gate,
            held: None,
            closing: None,
        };
        self.connections.insert(connection, state);
        self.share_reading();
        self.events.push_back(PortalEvent::Connected {
            connection,
            from: from.to_string(),
        });
    }

    /// Lets a connection drain. If too many do, the one that has had the longest time for it is not waited for.
    fn shut(&mut self, connection: ConnectionId) {
        self.turns += 1;
        let Some(state) = self.connections.get_mut(&connection) else {
            return;
        };
        state.closing.get_or_insert(self.turns);
        state.stream.close();
        let drain = self.connections.iter();
        let drain = drain.filter_map(|(id, state)| Some((state.closing?, *id)));
        let (count, first) = drain.fold((0, None), |(count, first), it| {
            (count + 1, Some(first.map_or(it, |first| it.min(first))))
        });
        if let Some((_, first)) = first
            && count > CLOSING_MAX
        {
            self.abort(first);
        }
    }

    /// How much is read at once depends on how many there are.
    fn share_reading(&self) {
        let share = PORTAL_READ_BYTES_SUM / self.connections.len().max(1);
        let share = share.clamp(PORTAL_READ_BYTES_MIN, PORTAL_READ_BYTES);
        self.shared.read_bytes.set(share);
    }

    fn received(&mut self, connection: ConnectionId, bytes: Bytes, received: Instant) {
        let Some(state) = self.connections.get_mut(&connection) else {
            return;
        };
        if state.gate.paused.get() {
            assert!(state.held.is_none(), "a paused connection is not read from");
            self.turns += 1;
            self.held_bytes += bytes.len();
            let since = self.turns;
            state.held = Some(Held {
                bytes,
                received,
                since,
            });
            self.bound_held();
        } else if state.closing.is_none() {
            let event = PortalEvent::Received {
                connection,
                bytes,
                received,
            };
            self.events.push_back(event);
        }
    }

    /// If too much is held of all connections, those go of which something is held for longest: who is paused for a moment
    /// only is none of those that never go on.
    fn bound_held(&mut self) {
        while self.held_bytes > PORTAL_HELD_BYTES_MAX {
            let held = self.connections.iter();
            let held = held.filter_map(|(id, state)| Some((state.held.as_ref()?.since, *id)));
            let (_, longest) = held.min().expect("what is held is of some connection");
            tracing::warn!("aborted a connection: too many are not read from");
            self.abort(longest);
        }
    }

    fn resume(&mut self, connection: ConnectionId) {
        let Some(state) = self.connections.get_mut(&connection) else {
            return;
        };
        state.gate.paused.set(false);
        state.gate.opened.notify_one();
        if let Some(held) = state.held.take() {
            self.held_bytes -= held.bytes.len();
            self.received(connection, held.bytes, held.received);
        }
    }

    fn send(&mut self, connection: ConnectionId, parts: Vec<Bytes>) {
        let Some(state) = self.connections.get(&connection) else {
            return;
        };
        if state.closing.is_some() {
            return;
        }
        let was_empty = state.stream.queued() == 0;
        state.stream.queue(parts);
        if state.stream.queued() > PORTAL_QUEUE_BYTES_MAX {
            tracing::warn!("aborted a connection whose initiator does not read");
            self.abort(connection);
        } else if was_empty {
            self.dirty.push_back(connection);
        }
    }

    fn abort(&mut self, connection: ConnectionId) {
        if let Some(state) = self.connections.get(&connection) {
            state.stream.abort_on_close();
        }
        self.ended(connection, None);
    }

    fn ended(&mut self, connection: ConnectionId, error: Option<&io::Error>) {
        if let Some(state) = self.connections.remove(&connection) {
            self.held_bytes -= state.held.map_or(0, |held| held.bytes.len());
            self.share_reading();
            if let Some(error) = error {
                tracing::debug!("connection of an initiator: {error}");
            }
            self.events.push_back(PortalEvent::Closed { connection });
        }
    }
}

impl Shared {
    /// Reads once, as far as there is something. `None`: nothing now; empty: the end.
    fn read(&self, stream: &Stream) -> io::Result<Option<Bytes>> {
        let mut buffer = self.buffer.borrow_mut();
        assert!(buffer.is_empty(), "what was read has been taken");
        buffer.reserve(PORTAL_READ_BYTES);
        let mut room = (&mut *buffer).limit(self.read_bytes.get());
        let Some(count) = stream.read(&mut room)? else {
            return Ok(None);
        };
        if count >= PORTAL_KEEP_BYTES_MIN {
            return Ok(Some(std::mem::take(&mut *buffer).freeze()));
        }
        let bytes = Bytes::copy_from_slice(&buffer);
        buffer.clear();
        Ok(Some(bytes))
    }
}

/// What reads from a connection.
struct Reader {
    connection: ConnectionId,
    stream: Rc<Stream>,
    gate: Rc<Gate>,
    shared: Rc<Shared>,
}

impl Reader {
    /// Hands on what comes, one piece a turn, until the end.
    async fn receive(&self) -> io::Result<()> {
        let Shared { inbox, clock, .. } = &*self.shared;
        loop {
            self.stream.readable().await?;
            self.gate.passed().await;
            if !inbox.has_room() {
                inbox.turn().await;
                continue;
            }
            let Some(bytes) = self.shared.read(&self.stream)? else {
                continue;
            };
            if bytes.is_empty() {
                return Ok(());
            }
            let (connection, length) = (self.connection, bytes.len());
            let item = Item::Received {
                connection,
                bytes,
                received: clock(),
            };
            inbox.push(item, length);
            inbox.turn().await;
        }
    }
}

/// Runs a connection until it ends; it has its `place` until then, or until the engine closes it.
async fn run(reader: Reader, place: Place) {
    let Reader {
        connection,
        ref stream,
        ref shared,
        ..
    } = reader;
    let sent = |count| shared.inbox.push(Item::Sent { connection, count }, 0);
    let end = tokio::select! {
        biased;
        () = stream.closing() => {
            drop(place);
            if timeout(CLOSE_TIME_MAX, stream.finish(sent)).await.is_err() {
                stream.abort_on_close();
            }
            None
        }
        end = reader.receive() => end.err(),
        error = stream.send(sent) => Some(error),
    };
    shared.inbox.push(Item::Ended { connection, end }, 0);
}
