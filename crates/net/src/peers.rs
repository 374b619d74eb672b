//! Links to the other nodes: two connections each, so that heartbeats never queue behind data.
//!
//! Of two nodes the one with the lower number dials, again and again, as long as there is no link.
//! It refuses to judge from silence whether a peer is alive: heartbeats are the engine's.
//!
//! Invariants:
//! - at most one link a peer is up, and it is of the newest hello that both ends exchanged;
//! - a link is up when both its lanes are greeted, and down when one of them is;
//! - a link with TLS that this node ends is told of as ended, so that the other one can tell it from one that was cut;
//! - nodes that the engine has not named are not spoken to.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use holdfast_engine::{LinkId, PeerCommand, PeerEvent};
use holdfast_model::NodeId;
use holdfast_tls::PeerTls;
use holdfast_wire::{Hello, Lane, Message, encode};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::sleep;

use crate::accept::accept;
use crate::complaints::{About, Complaints};
use crate::inbox::Inbox;
use crate::limits::{
    CONTROL_QUEUE_BYTES_MAX, DATA_QUEUE_BYTES_MAX, LAST_WORDS_TIME_MAX, TURN_BYTES_MAX,
};
use crate::stream::Stream;
use crate::task::Task;

mod dialler;
mod door;
mod finder;
mod greeting;
mod half;
mod handshakes;
mod lane;
mod parting;

use dialler::Dialler;
use door::Door;
pub(crate) use greeting::Identity;
use greeting::{Greeted, GreetingError};
use half::Half;
use handshakes::Handshakes;
use lane::{LaneEnd, LaneName};
use parting::{Partings, Word};

/// What the tasks of the links tell.
pub(crate) enum Item {
    /// Both lanes that this node dialled are greeted.
    Dialled { peer: NodeId, greeted: Greeted },
    /// A lane that a peer dialled is greeted.
    Answered {
        hello: Hello,
        stream: Rc<Stream>,
        from: IpAddr,
    },
    /// The other lane did not come in time.
    HalfExpired(Hello),
    /// Greeting a peer failed, at its address.
    Failed {
        peer: NodeId,
        place: String,
        error: GreetingError,
    },
    /// Somebody who has connected was not greeted.
    Refused { from: IpAddr, error: GreetingError },
    /// A message.
    Received {
        peer: NodeId,
        link: LinkId,
        message: Message,
    },
    /// A lane ended.
    Ended { name: LaneName, end: LaneEnd },
}

/// What the tasks share with the links' owner.
pub(crate) struct Shared {
    inbox: Inbox<Item>,
    /// By what the others are known.
    tls: Option<PeerTls>,
    handshakes: Handshakes,
    /// Who may connect: the peers with lower numbers.
    admitted: RefCell<BTreeSet<NodeId>>,
    /// Who has connected, and may be anybody.
    door: Door,
    /// The last link that was drawn.
    link_nonce: Cell<u64>,
}

/// The links to all peers.
pub(crate) struct Peers {
    node: NodeId,
    /// Who this node is, once its devices are open.
    identity: Option<Identity>,
    shared: Rc<Shared>,
    peers: BTreeMap<NodeId, Peer>,
    links: u64,
    /// What the engine is to be told.
    events: VecDeque<PeerEvent>,
    /// Peers to whom there is something to write, by lane: control goes first.
    dirty: [VecDeque<NodeId>; 2],
    /// Room for what the tasks tell, which is used again.
    taken: VecDeque<Item>,
    complaints: Complaints,
    /// Lanes that end in good order.
    partings: Partings,
    /// Links with TLS that ended without a word, since the start.
    cut_off: Arc<AtomicU64>,
    acceptor: Option<Task>,
}

struct Peer {
    address: String,
    dialler: Option<Dialler>,
    /// Looks its name up, for the door.
    finder: Option<Task>,
    half: Option<Half>,
    link: Option<Link>,
}

struct Link {
    id: LinkId,
    hello: Hello,
    control: RunningLane,
    data: RunningLane,
    /// One lane has ended in good order: this ends the link if the other one does not follow.
    ending: Option<Task>,
}

struct RunningLane {
    stream: Rc<Stream>,
    task: Task,
}

impl Link {
    fn lane(&self, lane: Lane) -> &RunningLane {
        match lane {
            Lane::Control => &self.control,
            Lane::Data => &self.data,
        }
    }
}

/// Whether `hello` was said after `before`. Incarnations count on from one store of a node to the next.
fn is_newer(hello: &Hello, before: &Hello) -> bool {
    (hello.incarnation, hello.link) > (before.incarnation, before.link)
}

impl Peers {
    pub(crate) fn new(node: NodeId, tls: Option<PeerTls>) -> Self {
        Self {
            node,
            identity: None,
            shared: Rc::new(Shared {
                inbox: Inbox::new(TURN_BYTES_MAX),
                tls,
                handshakes: Handshakes::new(),
                admitted: RefCell::default(),
                door: Door::default(),
                link_nonce: Cell::new(0),
            }),
            peers: BTreeMap::new(),
            links: 0,
            events: VecDeque::new(),
            dirty: [VecDeque::new(), VecDeque::new()],
            taken: VecDeque::new(),
            complaints: Complaints::default(),
            partings: Partings::default(),
            cut_off: Arc::default(),
            acceptor: None,
        }
    }

    /// Begins to speak: dials the peers that are known, and hears those who dial.
    pub(crate) fn open(&mut self, identity: Identity, listener: TcpListener) {
        assert!(self.identity.is_none(), "a node opens once a start");
        self.identity = Some(identity);
        self.acceptor = Some(Task::start(hear(
            listener,
            identity,
            Rc::clone(&self.shared),
        )));
        for (peer, state) in &mut self.peers {
            state.dialler = Dialler::start(identity, *peer, &state.address, &self.shared);
            state.finder = finder::find(*peer, &state.address, &self.shared);
        }
    }

    pub(crate) fn command(&mut self, command: PeerCommand) {
        match command {
            PeerCommand::Connect { peer, address } => self.connect(peer, address),
            PeerCommand::Forget { peer } => {
                self.take_down(peer, Word::Said);
                self.shared.admitted.borrow_mut().remove(&peer);
                self.shared.door.forget(peer);
                self.peers.remove(&peer);
            }
            PeerCommand::Send {
                peer,
                link,
                message,
            } => self.send(peer, link, &message),
            PeerCommand::Reset { peer, link } => {
                if self.link(peer, link).is_some() {
                    self.take_down(peer, Word::Said);
                }
            }
        }
    }

    /// Writes what the commands since the last call have queued.
    pub(crate) fn flush(&mut self) {
        for lane in [Lane::Control, Lane::Data] {
            while let Some(peer) = self.dirty[lane as usize].pop_front() {
                let Some(link) = self.peers.get(&peer).and_then(|peer| peer.link.as_ref()) else {
                    continue;
                };
                if let Err(error) = link.lane(lane).stream.write() {
                    self.lane_ended(peer, &error.into());
                }
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

    pub(crate) fn take_events(&mut self) -> impl Iterator<Item = PeerEvent> {
        self.events.drain(..)
    }

    /// Ends everything in good order: what is queued is sent first.
    pub(crate) async fn close(&mut self) {
        self.acceptor = None;
        let mut tasks = Vec::new();
        for (_, mut peer) in std::mem::take(&mut self.peers) {
            peer.dialler = None;
            drop(peer.finder.take());
            if let Some(link) = peer.link {
                for lane in [link.control, link.data] {
                    lane.stream.close();
                    tasks.push(lane.task);
                }
            }
        }
        for task in tasks {
            task.ended().await;
        }
        self.partings.ended().await;
    }

    fn handle(&mut self, item: Item) {
        match item {
            Item::Dialled { peer, greeted } => {
                let Greeted {
                    hello,
                    control,
                    data,
                } = greeted;
                self.establish(peer, hello, control, data);
            }
            Item::Answered {
                hello,
                stream,
                from,
            } => {
                self.shared.door.note_shown(hello.node, from);
                self.answered(hello, stream);
            }
            Item::HalfExpired(hello) => {
                if let Some(state) = self.peers.get_mut(&hello.node)
                    && state.half.take_if(|half| half.hello == hello).is_some()
                {
                    let about = About::Peer(hello.node);
                    self.complain(
                        about,
                        &format!("greet ({})", hello.node),
                        &GreetingError::Time,
                    );
                }
            }
            Item::Failed { peer, place, error } => {
                let action = format!("greet {place} ({peer})");
                self.complain(About::Peer(peer), &action, &error);
            }
            Item::Refused { from, error } => {
                let about = About::address(from, self.shared.door.is_known(from));
                self.complain(about, &format!("greet {from}"), &error);
            }
            Item::Received {
                peer,
                link,
                message,
            } => {
                if self.link(peer, link).is_some() {
                    self.events.push_back(PeerEvent::Received {
                        peer,
                        link,
                        message,
                    });
                }
            }
            Item::Ended { name, end } => self.ended(name, &end),
        }
    }

    /// The peer's link, if it is still this one.
    fn link(&self, peer: NodeId, link: LinkId) -> Option<&Link> {
        let current = self.peers.get(&peer)?.link.as_ref()?;
        (current.id == link).then_some(current)
    }

    fn connect(&mut self, peer: NodeId, address: String) {
        assert!(peer != self.node, "a node has no link to itself");
        if peer < self.node {
            self.shared.admitted.borrow_mut().insert(peer);
        }
        let state = self.peers.entry(peer).or_insert_with(|| Peer {
            address: String::new(),
            dialler: None,
            finder: None,
            half: None,
            link: None,
        });
        if state.address == address {
            return;
        }
        state.address = address;
        self.shared.door.note_said(peer, &state.address);
        if let Some(identity) = self.identity {
            // A link that is up stays: if the peer has moved, it will end by itself.
            let dialler = Dialler::start(identity, peer, &state.address, &self.shared);
            if let Some(dialler) = &dialler
                && let Some(link) = &state.link
            {
                dialler.rest(link.hello.link);
            }
            state.dialler = dialler;
            state.finder = finder::find(peer, &state.address, &self.shared);
        }
    }

    fn send(&mut self, peer: NodeId, link: LinkId, message: &Message) {
        let lane = message.lane();
        let Some(current) = self.link(peer, link) else {
            return;
        };
        let stream = &current.lane(lane).stream;
        let was_empty = stream.queued() == 0;
        stream.queue(encode(message));
        let bound = match lane {
            Lane::Control => CONTROL_QUEUE_BYTES_MAX,
            Lane::Data => DATA_QUEUE_BYTES_MAX,
        };
        if stream.queued() > bound {
            self.lane_ended(peer, &LaneEnd::Full);
        } else if was_empty {
            self.dirty[lane as usize].push_back(peer);
        }
    }

    /// A lane that a peer dialled: with the other one of the same link it makes a link.
    fn answered(&mut self, hello: Hello, stream: Rc<Stream>) {
        let peer = hello.node;
        let Some(state) = self.peers.get_mut(&peer) else {
            return;
        };
        if let Some(link) = &state.link
            && !is_newer(&hello, &link.hello)
        {
            self.partings.part(stream);
            return;
        }
        match state.half.take() {
            Some(half) if half.is_other_lane_of(&hello) => {
                let (control, data) = match hello.lane {
                    Lane::Control => (stream, half.stream),
                    Lane::Data => (half.stream, stream),
                };
                self.establish(peer, hello, control, data);
            }
            Some(half) if !is_newer(&hello, &half.hello) => state.half = Some(half),
            _ => state.half = Some(Half::new(hello, stream, &self.shared)),
        }
    }

    fn establish(&mut self, peer: NodeId, hello: Hello, control: Rc<Stream>, data: Rc<Stream>) {
        self.drop_link(peer, Word::Said);
        let Some(state) = self.peers.get_mut(&peer) else {
            return;
        };
        self.links += 1;
        let id = LinkId(self.links);
        let start = |lane, stream: Rc<Stream>| {
            let name = LaneName {
                peer,
                link: id,
                lane,
            };
            let run = lane::run(name, Rc::clone(&stream), Rc::clone(&self.shared));
            let task = Task::start(run);
            RunningLane { stream, task }
        };
        state.link = Some(Link {
            id,
            hello,
            control: start(Lane::Control, control),
            data: start(Lane::Data, data),
            ending: None,
        });
        self.events.push_back(PeerEvent::Up {
            peer,
            link: id,
            store: hello.store,
            incarnation: hello.incarnation,
            version: hello.version,
        });
    }

    /// A lane has ended by itself. A peer that stops closes both when it has sent its last words:
    /// what is still to be read of the other lane is read.
    fn ended(&mut self, name: LaneName, end: &LaneEnd) {
        let LaneName { peer, link, .. } = name;
        if self.link(peer, link).is_none() {
            return;
        }
        let state = self.peers.get_mut(&peer).expect("a link has its peer");
        let current = state.link.as_mut().expect("the link was just seen");
        if matches!(end, LaneEnd::Closed | LaneEnd::CutOff) && current.ending.is_none() {
            let is_cut_off = matches!(end, LaneEnd::CutOff);
            let shared = Rc::clone(&self.shared);
            current.ending = Some(Task::start(async move {
                sleep(LAST_WORDS_TIME_MAX).await;
                let end = if is_cut_off {
                    LaneEnd::CutOff
                } else {
                    LaneEnd::Closed
                };
                shared.inbox.push(Item::Ended { name, end }, 0);
            }));
        } else {
            self.lane_ended(peer, end);
        }
    }

    fn lane_ended(&mut self, peer: NodeId, end: &LaneEnd) {
        if self.is_cut(end) {
            self.cut_off.fetch_add(1, Ordering::Relaxed);
        }
        if let Some(news) = self.complaints.is_news(About::Peer(peer), end) {
            match end {
                LaneEnd::Closed | LaneEnd::Socket(_) => {
                    tracing::info!("link to {peer}: {end}{news}");
                }
                LaneEnd::CutOff => {
                    let count = self.cut_off.load(Ordering::Relaxed);
                    tracing::info!("link to {peer}: {end} ({count} of all links so far){news}");
                }
                LaneEnd::Sealed(_) => tracing::warn!(
                    "link to {peer}: {end}. Nothing of it was taken, and the link is made anew. If that comes again, something \
                     between the nodes changes what they say, or a machine or its network card is damaged: docs/security.md{news}"
                ),
                LaneEnd::Wire(_) | LaneEnd::Full => {
                    tracing::warn!("link to {peer}: {end}{news}");
                }
            }
        }
        self.take_down(peer, Word::of(end));
    }

    /// Whether anybody on the way can have made this end.
    fn is_cut(&self, end: &LaneEnd) -> bool {
        match end {
            LaneEnd::CutOff => true,
            LaneEnd::Socket(error) => {
                self.shared.tls.is_some() && error.kind() == io::ErrorKind::ConnectionReset
            }
            LaneEnd::Closed | LaneEnd::Sealed(_) | LaneEnd::Wire(_) | LaneEnd::Full => false,
        }
    }

    /// Links with TLS that the other end, or whoever is in between, has ended without a word, counted while they end.
    pub(crate) fn cut_off(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.cut_off)
    }

    /// Closes the peer's link, if there is one, and has it dialled again.
    fn take_down(&mut self, peer: NodeId, word: Word) {
        if let Some(link) = self.drop_link(peer, word)
            && let Some(dialler) = &self.peers[&peer].dialler
        {
            dialler.redial(link);
        }
    }

    /// Closes the peer's link, if there is one, and says which it was for who dialled it.
    fn drop_link(&mut self, peer: NodeId, word: Word) -> Option<u64> {
        let link = self
            .peers
            .get_mut(&peer)
            .and_then(|state| state.link.take())?;
        let Link {
            id,
            hello,
            control,
            data,
            ..
        } = link;
        self.events.push_back(PeerEvent::Down { peer, link: id });
        for RunningLane { stream, task } in [control, data] {
            drop(task);
            if word == Word::Said {
                self.partings.part(stream);
            }
        }
        Some(hello.link)
    }

    fn complain(&mut self, about: About, action: &str, error: &GreetingError) {
        let Some(news) = self.complaints.is_news(about, error) else {
            return;
        };
        if error.is_lasting() {
            tracing::warn!("{action}: {error}{news}");
        } else {
            tracing::info!("{action}: {error}{news}");
        }
    }
}

/// Accepts connections of peers, and greets those who dial.
async fn hear(listener: TcpListener, identity: Identity, shared: Rc<Shared>) {
    let take = |socket: TcpStream, from: SocketAddr| {
        let from = from.ip();
        let (place, ended) = shared.door.enter(from);
        if let Some(ended) = ended {
            let error = match &place {
                Some(_) => GreetingError::Crowd,
                None => GreetingError::Full,
            };
            shared.inbox.push(Item::Refused { from: ended, error }, 0);
        }
        let Some(place) = place else {
            return;
        };
        let number = place.number();
        let its = Rc::clone(&shared);
        let task = tokio::task::spawn_local(async move {
            let shared = its;
            let admit = |node| shared.admitted.borrow().contains(&node);
            let tls = shared.tls.as_ref();
            let tls = tls.map(|tls| (tls, &shared.handshakes.answered));
            let answered = greeting::answer(identity, tls, socket, admit).await;
            drop(place);
            let item = match answered {
                Ok((hello, stream)) => Item::Answered {
                    hello,
                    stream,
                    from,
                },
                Err(error) => Item::Refused { from, error },
            };
            shared.inbox.push(item, 0);
        });
        shared.door.serve(number, task.abort_handle());
    };
    accept(listener, take).await;
}
