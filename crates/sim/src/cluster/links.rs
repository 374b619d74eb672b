//! Links between nodes as the daemon's driver has them: two connections each, dialled by the lower
//! number, made of bytes.
//!
//! Invariants:
//! - what was sent before an end closed still arrives, as kernels do it; after it nothing does;
//! - an end that has given a link up hears nothing of it any more.

use std::collections::BTreeMap;

use holdfast_engine::{Event, LinkId, PeerEvent};
use holdfast_model::NodeId;
use holdfast_stdx::{Bytes, BytesMut, Duration};
use holdfast_wire::{FRAME_HEADER_BYTES, FrameHeader, Lane, Message, WIRE_VERSION, decode, encode};

use super::node::ProcessId;
use super::{Cluster, Happening};
use crate::failure::Failure;
use crate::network::Place;
use crate::pipe::Pipe;

/// Between two attempts to connect.
const REDIAL: Duration = Duration::from_millis(40);
/// How long the second lane may take to end after the first.
const LAST_WORDS: Duration = Duration::from_millis(100);
/// How long what was sent may stay unacknowledged, about.
const UNANSWERED_MIN: u64 = 2_500_000_000;
const UNANSWERED_MAX: u64 = 5_000_000_000;

/// What travels on a lane.
#[derive(Debug)]
enum Item {
    Frame(Bytes),
    /// The other end has closed.
    End,
}

/// A link.
#[derive(Debug)]
struct Link {
    /// The side that dialled, then the other.
    ends: [ProcessId; 2],
    /// Who knows that it is up, and has not given it up.
    open: [bool; 2],
    /// By sender, then by lane.
    lanes: [[Pipe<Item>; 2]; 2],
    ending: [bool; 2],
}

/// All links.
#[derive(Debug, Default)]
pub(super) struct Links {
    links: BTreeMap<LinkId, Link>,
    drawn: u64,
    /// Bytes that have been sent, by the node that did and the one that they are for.
    sent: BTreeMap<(NodeId, NodeId), u64>,
}

const LANES: [Lane; 2] = [Lane::Control, Lane::Data];

impl Cluster {
    /// A process tries to connect to a peer, if it is for it to do so and there is no link.
    pub(super) fn dial(&mut self, from: ProcessId, to: NodeId) -> Result<(), Failure> {
        if to < from.node {
            return Ok(());
        }
        let Some(running) = self.running(from) else {
            return Ok(());
        };
        if running.links.contains_key(&to) || !running.peers.contains(&to) {
            return Ok(());
        }
        let ready = !running.freeze.is_frozen() && running.identity.is_some();
        let there = self.answers(from.node, to);
        let passes = self
            .network
            .passes_both_ways(Place::Node(from.node), Place::Node(to));
        match there {
            Some(there) if ready && passes => {
                let delay = self.network.delay() + self.network.delay() + self.network.delay();
                self.schedule(delay, Happening::Meet(from, there));
            }
            _ => self.schedule(REDIAL, Happening::Dial(from, to)),
        }
        Ok(())
    }

    /// The process of `node`, if it would answer `caller` now.
    fn answers(&mut self, caller: NodeId, node: NodeId) -> Option<ProcessId> {
        let process = self.nodes.get(&node)?.process.as_ref()?;
        let hears = !process.freeze.is_frozen()
            && process.identity.is_some()
            && process.peers.contains(&caller);
        hears.then_some(process.id)
    }

    /// Both lanes of a new link are greeted, as the side that was dialled sees it.
    pub(super) fn meet(&mut self, from: ProcessId, to: ProcessId) -> Result<(), Failure> {
        let dialling = self
            .running(from)
            .is_some_and(|it| !it.links.contains_key(&to.node));
        let answering = self.answers(from.node, to.node) == Some(to);
        let passes = self
            .network
            .passes_both_ways(Place::Node(from.node), Place::Node(to.node));
        if !(dialling && answering && passes) {
            self.schedule(REDIAL, Happening::Dial(from, to.node));
            return Ok(());
        }
        self.drop_link(to, from.node);
        self.links.drawn += 1;
        let link = LinkId(self.links.drawn);
        let state = Link {
            ends: [from, to],
            open: [false, false],
            lanes: Default::default(),
            ending: [false, false],
        };
        self.links.links.insert(link, state);
        if let Some(running) = self.running(from) {
            // From now on it dials no more; it is told when the greeting is back.
            running.links.insert(to.node, link);
        }
        let delay = self.network.delay();
        self.schedule(delay, Happening::LinkUp(link));
        self.open_end(link, 1)
    }

    pub(super) fn link_up(&mut self, link: LinkId) -> Result<(), Failure> {
        let Some(state) = self.links.links.get(&link) else {
            return Ok(());
        };
        let from = state.ends[0];
        let peer = state.ends[1].node;
        let current = self
            .running(from)
            .and_then(|it| it.links.get(&peer).copied());
        if current != Some(link) {
            return Ok(());
        }
        for lane in LANES {
            self.schedule(Duration::ZERO, Happening::Lane(link, 1, lane));
        }
        self.open_end(link, 0)
    }

    /// An end learns that the link is up.
    fn open_end(&mut self, link: LinkId, end: usize) -> Result<(), Failure> {
        let Some(state) = self.links.links.get_mut(&link) else {
            return Ok(());
        };
        state.open[end] = true;
        let (here, there) = (state.ends[end], state.ends[1 - end]);
        let peer = self
            .nodes
            .get(&there.node)
            .and_then(|node| node.process.as_ref());
        let identity = peer
            .filter(|peer| peer.id == there)
            .and_then(|peer| peer.identity);
        let Some((store, incarnation)) = identity else {
            return self.close_end(link, end);
        };
        if let Some(running) = self.running(here) {
            running.links.insert(there.node, link);
        }
        let up = PeerEvent::Up {
            peer: there.node,
            link,
            store,
            incarnation,
            version: WIRE_VERSION,
        };
        self.tell(here, Event::Peer(up))
    }

    /// Sends a message, if the link is up at this end.
    pub(super) fn send_to_peer(
        &mut self,
        process: ProcessId,
        peer: NodeId,
        link: LinkId,
        message: &Message,
    ) -> Result<(), Failure> {
        let current = self
            .running(process)
            .and_then(|it| it.links.get(&peer).copied());
        if current != Some(link) {
            return Ok(());
        }
        self.invariants.copies.said(process.node, message)?;
        let end = self.end_of(link, process);
        let mut frame = BytesMut::new();
        for part in encode(message) {
            frame.extend_from_slice(&part);
        }
        let sent = self.links.sent.entry((process.node, peer)).or_default();
        *sent += frame.len() as u64;
        self.push(link, end, message.lane(), Item::Frame(frame.freeze()));
        Ok(())
    }

    /// Bytes that have been sent between a node and all others, both ways.
    #[must_use]
    pub fn bytes_to_and_from(&self, node: NodeId) -> u64 {
        let ways = self.links.sent.iter();
        let ways = ways.filter(|((from, to), _)| *from == node || *to == node);
        ways.map(|(_, bytes)| bytes).sum()
    }

    fn end_of(&self, link: LinkId, process: ProcessId) -> usize {
        let state = &self.links.links[&link];
        usize::from(state.ends[1] == process)
    }

    fn push(&mut self, link: LinkId, end: usize, lane: Lane, item: Item) {
        let arrival = self.now + self.network.delay();
        let Some(state) = self.links.links.get_mut(&link) else {
            return;
        };
        let arrival = state.lanes[end][lane as usize].push(arrival, item);
        self.schedule.at(arrival, Happening::Lane(link, end, lane));
    }

    /// Something may have arrived from one end.
    pub(super) fn lane(&mut self, link: LinkId, from: usize, lane: Lane) -> Result<(), Failure> {
        loop {
            let now = self.now;
            let Some(state) = self.links.links.get_mut(&link) else {
                return Ok(());
            };
            let (source, target) = (state.ends[from], state.ends[1 - from]);
            let passes = self
                .network
                .passes(Place::Node(source.node), Place::Node(target.node));
            if !passes || !state.open[1 - from] {
                return Ok(());
            }
            let Some(item) = state.lanes[from][lane as usize].take(now) else {
                return Ok(());
            };
            match item {
                Item::Frame(frame) => {
                    let message = parsed(&frame)?;
                    self.watch.message(&message);
                    self.invariants.copies.heard(target.node, &message);
                    self.check_refusal(source, &message)?;
                    let peer = source.node;
                    let event = PeerEvent::Received {
                        peer,
                        link,
                        message,
                    };
                    self.tell(target, Event::Peer(event))?;
                }
                Item::End => self.lane_ended(link, 1 - from)?,
            }
        }
    }

    /// A lane has ended at `end`: the link follows when the other lane has, or soon.
    fn lane_ended(&mut self, link: LinkId, end: usize) -> Result<(), Failure> {
        let Some(state) = self.links.links.get_mut(&link) else {
            return Ok(());
        };
        if state.ending[end] {
            return self.close_end(link, end);
        }
        state.ending[end] = true;
        self.schedule(LAST_WORDS, Happening::LastWords(link, end));
        Ok(())
    }

    /// An end gives the link up, and hears so.
    pub(super) fn close_end(&mut self, link: LinkId, end: usize) -> Result<(), Failure> {
        let Some(state) = self.links.links.get_mut(&link) else {
            return Ok(());
        };
        let told = std::mem::take(&mut state.open[end]);
        let (here, peer) = (state.ends[end], state.ends[1 - end].node);
        for lane in LANES {
            state.lanes[1 - end][lane as usize].clear();
        }
        let over = state.open == [false, false];
        for lane in LANES {
            self.push(link, end, lane, Item::End);
        }
        if over
            && self.links.links[&link].lanes[end]
                .iter()
                .all(Pipe::is_empty)
        {
            self.links.links.remove(&link);
        }
        let Some(running) = self.running(here) else {
            return Ok(());
        };
        if running.links.get(&peer) == Some(&link) {
            running.links.remove(&peer);
            self.schedule(REDIAL, Happening::Dial(here, peer));
        }
        if told {
            self.tell(here, Event::Peer(PeerEvent::Down { peer, link }))?;
        }
        Ok(())
    }

    /// A node's kernel tells it that its connections to a peer are gone.
    pub(super) fn reset_link(&mut self, node: NodeId, peer: NodeId) -> Result<(), Failure> {
        let process = self.node(node).process.as_ref();
        let known = process.and_then(|process| Some((process.id, *process.links.get(&peer)?)));
        match known {
            Some((process, link)) => self.close_end(link, self.end_of(link, process)),
            None => Ok(()),
        }
    }

    /// A process gives its link to a peer up. Its engine knows: it is told all the same, after what
    /// it is doing now.
    pub(super) fn drop_link(&mut self, process: ProcessId, peer: NodeId) {
        let Some(running) = self.running(process) else {
            return;
        };
        let Some(link) = running.links.remove(&peer) else {
            return;
        };
        self.schedule(REDIAL, Happening::Dial(process, peer));
        let end = self.end_of(link, process);
        self.abandon(link, end);
        let down = Event::Peer(PeerEvent::Down { peer, link });
        self.schedule(Duration::ZERO, Happening::Tell(process, Box::new(down)));
    }

    fn abandon(&mut self, link: LinkId, end: usize) {
        let Some(state) = self.links.links.get_mut(&link) else {
            return;
        };
        state.open[end] = false;
        for lane in LANES {
            state.lanes[1 - end][lane as usize].clear();
        }
        for lane in LANES {
            self.push(link, end, lane, Item::End);
        }
    }

    /// A process is gone. Its kernel closes its links, unless that is gone too: then the other ends
    /// wait for answers for a while.
    pub(super) fn links_of_dead(&mut self, process: ProcessId, kernel_lives: bool) {
        let links: Vec<(LinkId, usize)> = self
            .links
            .links
            .iter()
            .filter_map(|(link, state)| {
                let end = state.ends.iter().position(|end| *end == process)?;
                Some((*link, end))
            })
            .collect();
        for (link, end) in links {
            if kernel_lives {
                self.abandon(link, end);
            } else {
                let state = self.links.links.get_mut(&link).expect("it was just found");
                state.open[end] = false;
                for lane in LANES {
                    state.lanes[0][lane as usize].clear();
                    state.lanes[1][lane as usize].clear();
                }
                self.doubt(link, 1 - end);
            }
        }
    }

    /// An end of a link waits for answers that do not come.
    fn doubt(&mut self, link: LinkId, end: usize) {
        let patience = self.prng.between(UNANSWERED_MIN, UNANSWERED_MAX);
        self.schedule(
            Duration::from_nanos(patience),
            Happening::LinkDoubt(link, end),
        );
    }

    /// A way between nodes was cut: both ends of what runs over it will notice if it stays so.
    pub(super) fn way_cut(&mut self, one: NodeId, other: NodeId) {
        for link in self.links_between(one, other) {
            for end in 0..2 {
                let patience = self.prng.between(UNANSWERED_MIN, UNANSWERED_MAX);
                let patience = Duration::from_nanos(patience);
                self.schedule(patience, Happening::Unanswered(link, end));
            }
        }
    }

    /// An end of a link has waited for long enough, if its way is still cut.
    pub(super) fn unanswered(&mut self, link: LinkId, end: usize) -> Result<(), Failure> {
        let Some(state) = self.links.links.get(&link) else {
            return Ok(());
        };
        let [one, other] = state.ends.map(|end| Place::Node(end.node));
        let long_ago = |since: Option<holdfast_stdx::Instant>| {
            since.is_some_and(|since| self.now.since(since).as_nanos() >= UNANSWERED_MIN.into())
        };
        let cut = long_ago(self.network.cut_since(one, other))
            || long_ago(self.network.cut_since(other, one));
        if cut {
            self.close_end(link, end)
        } else {
            Ok(())
        }
    }

    /// A way between nodes is passable again.
    pub(super) fn way_mended(&mut self, one: NodeId, other: NodeId) {
        for link in self.links_between(one, other) {
            for (end, lane) in [(0, LANES[0]), (0, LANES[1]), (1, LANES[0]), (1, LANES[1])] {
                let delay = self.network.delay();
                self.schedule(delay, Happening::Lane(link, end, lane));
            }
        }
    }

    fn links_between(&self, one: NodeId, other: NodeId) -> Vec<LinkId> {
        let between = |ends: &[ProcessId; 2]| {
            let [a, b] = ends.map(|end| end.node);
            (a, b) == (one, other) || (a, b) == (other, one)
        };
        let links = self.links.links.iter();
        links
            .filter(|(_, state)| between(&state.ends))
            .map(|(link, _)| *link)
            .collect()
    }
}

/// A frame's message, as a lane's reader finds it.
fn parsed(frame: &Bytes) -> Result<Message, Failure> {
    let header = frame[..FRAME_HEADER_BYTES]
        .try_into()
        .expect("a frame has a header");
    let header = FrameHeader::parse(header).map_err(Failure::Wire)?;
    let rest = frame.slice(FRAME_HEADER_BYTES..);
    decode(&header, &rest).map_err(Failure::Wire)
}
