//! A few replicas of one slice in one place: stores in memory, messages that arrive at once, one
//! record, one clock. Just enough to let replicas speak to each other; what disks, networks and
//! clocks do to them is the simulator's business.

pub(crate) mod node;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use holdfast_model::record::{Membership, Record, ReplicaRecord, SliceRecord, WishRecord};
use holdfast_model::{
    BLOCK_SIZE, CommandId, Epoch, Fence, Incarnation, NodeId, SliceId, StoreId, VolumeId,
};
use holdfast_replica::timing::{HEARTBEAT, TELL_COMMITTED};
use holdfast_replica::{Me, Operation, Proposed, Replica, Status, Terms, WriteKind};
use holdfast_stdx::{Bytes, Duration, Instant};
use holdfast_wire::{Message, OutcomeCode};

use node::{Kept, Node, Outbox};

pub(crate) const SLICE: SliceId = SliceId {
    volume: VolumeId(1),
    index: 0,
};
/// How finely time passes.
const STEP: Duration = Duration::from_millis(5);

/// The replicas and what is between them.
pub(crate) struct Lab {
    pub(crate) now: Instant,
    pub(crate) nodes: BTreeMap<NodeId, Node>,
    pub(crate) record: SliceRecord,
    /// Where the slice is to be.
    wish: Option<WishRecord>,
    /// Ways on which nothing arrives.
    pub(crate) cut: BTreeSet<(NodeId, NodeId)>,
    /// Messages that are lost on their way.
    pub(crate) lost: fn(&Message) -> bool,
    /// How many copies still reach a node; all, if no number is named.
    copies_left: BTreeMap<NodeId, u32>,
    /// Copies that arrived, by who sent them.
    pub(crate) copies_from: BTreeMap<NodeId, u32>,
    /// How often a node was asked to copy to another one.
    pub(crate) asked_to_copy: BTreeMap<NodeId, u32>,
    /// Copies that wait for that to change.
    copies_held: Vec<(NodeId, NodeId, Message)>,
    /// The node that hears nothing from the metadata, though it is heard there.
    pub(crate) deaf: Option<NodeId>,
    /// By which access to the volume commands are permitted.
    pub(crate) fence: Fence,
    messages: VecDeque<(NodeId, NodeId, Message)>,
    next_command: u64,
}

pub(crate) fn node(number: u16) -> NodeId {
    NodeId(number)
}

pub(crate) fn store(number: u16) -> StoreId {
    StoreId(u128::from(number))
}

impl Lab {
    /// A slice with a replica on each of `nodes` nodes, the first one its primary, serving.
    pub(crate) fn new(nodes: u16, copies_min: u8) -> Self {
        let mut lab = Self::losing(nodes, copies_min, |_| false);
        lab.pass(Duration::from_secs(3));
        assert!(lab.leads(1), "the first node leads");
        lab
    }

    /// The same, with pages of a block each that the last node lacks: it is off.
    pub(crate) fn apart(nodes: u16, pages: u32) -> Self {
        let mut lab = Self::new(nodes, 1);
        lab.kill(nodes);
        lab.pass(Duration::from_secs(1));
        for page in 0..pages {
            lab.write(1, page * 64, 1, 1 + (page % 200) as u8);
        }
        lab
    }

    /// All copies reach a node until it is in sync; then all have the same.
    pub(crate) fn join_fully(&mut self, number: u16) {
        self.let_copies(number, None);
        let what = format!("node {number} is in sync");
        // A replica that is slow as it joins rests before it is taken again.
        self.pass_until(Duration::from_secs(40), &what, |lab| lab.is_in_sync(number));
        for other in self.nodes.keys() {
            assert_eq!(self.contents(other.0), self.contents(number), "{other}");
        }
    }

    /// A slice that nobody has led yet, on nodes between which some messages are lost.
    pub(crate) fn losing(nodes: u16, copies_min: u8, lost: fn(&Message) -> bool) -> Self {
        let replicas = (1..=nodes).map(|number| ReplicaRecord {
            node: node(number),
            store: store(number),
            membership: Membership::InSync,
        });
        let record = SliceRecord {
            schema: 1,
            slice: SLICE,
            epoch: Epoch(1),
            primary: node(1),
            preferred: node(1),
            replicas: replicas.collect(),
            copies_min,
            bytes_moved: 0,
            proposer: (NodeId(0), Incarnation::ZERO),
            nonce: 0,
            recovery: None,
        };
        let mut lab = Self {
            now: Instant::ZERO + Duration::from_secs(100),
            nodes: BTreeMap::new(),
            record,
            wish: None,
            cut: BTreeSet::new(),
            lost,
            copies_left: BTreeMap::new(),
            copies_from: BTreeMap::new(),
            asked_to_copy: BTreeMap::new(),
            copies_held: Vec::new(),
            deaf: None,
            fence: Fence::ZERO,
            messages: VecDeque::new(),
            next_command: 0,
        };
        for number in 1..=nodes {
            lab.nodes.insert(node(number), Node::new(node(number)));
            lab.start(number);
        }
        lab
    }

    /// A node starts, with what its store has kept.
    pub(crate) fn start(&mut self, number: u16) {
        let (now, record) = (self.now, self.record.clone());
        let state = self.nodes.get_mut(&node(number)).expect("it exists");
        state.incarnation = state.incarnation.next();
        let me = Me {
            node: node(number),
            store: state.store,
            incarnation: state.incarnation,
        };
        let found = state.world.recover();
        let mut context = state.world.context(now);
        let mut replica = Replica::new(me, SLICE, &found, &mut context);
        replica.handle_record(&mut context, Some(record), true);
        replica.handle_wish(&mut context, self.wish.clone());
        state.replica = Some(replica);
        let others: Vec<NodeId> = self.running().filter(|other| *other != me.node).collect();
        for other in others {
            self.connect(me.node, other);
        }
        self.settle();
    }

    /// One more node, which the record does not name.
    pub(crate) fn add_node(&mut self, number: u16) {
        self.nodes.insert(node(number), Node::new(node(number)));
        self.start(number);
    }

    /// The control plane wants the slice to be somewhere, or has nothing to wish.
    pub(crate) fn wish(&mut self, wish: Option<(&[u16], u16)>) {
        self.wish_keeping(wish, &[]);
    }

    /// The same, with replicas that are not to go yet.
    pub(crate) fn wish_keeping(&mut self, wish: Option<(&[u16], u16)>, kept: &[u16]) {
        let all = |numbers: &[u16]| numbers.iter().map(|number| node(*number)).collect();
        self.wish = wish.map(|(nodes, preferred)| WishRecord {
            schema: 1,
            slice: SLICE,
            nodes: all(nodes),
            kept: all(kept),
            preferred: node(preferred),
        });
        let nodes: Vec<NodeId> = self.running().collect();
        for node in nodes {
            let wish = self.wish.clone();
            self.act(node, |replica, context| replica.handle_wish(context, wish));
        }
        self.settle();
    }

    /// Whether the record says what is wished.
    pub(crate) fn is_as_wished(&self) -> bool {
        let wish = self.wish.as_ref();
        wish.is_some_and(|wish| wish.is_met_by(&self.record))
    }

    /// A node is not to lead, or may again.
    pub(crate) fn spare(&mut self, number: u16, spared: bool) {
        for state in self.nodes.values_mut() {
            if spared {
                state.world.spared.insert(node(number));
            } else {
                state.world.spared.remove(&node(number));
            }
        }
        let nodes: Vec<NodeId> = self.running().collect();
        for node in nodes {
            self.act(node, |replica, context| replica.look_again(context));
        }
        self.settle();
    }

    /// Whether the record names a node's replica.
    pub(crate) fn names(&self, number: u16) -> bool {
        self.record.replica(node(number)).is_some()
    }

    /// A node's process is gone.
    pub(crate) fn kill(&mut self, number: u16) {
        let gone = node(number);
        let state = self.nodes.get_mut(&gone).expect("it exists");
        state.replica = None;
        state.world.crash();
        let others: Vec<NodeId> = self.running().collect();
        for other in others {
            self.disconnect(gone, other);
        }
        self.settle();
    }

    /// Every node stops as it is told to.
    pub(crate) fn stop_all(&mut self) {
        let nodes: Vec<NodeId> = self.running().collect();
        for node in &nodes {
            self.act(*node, |replica, context| replica.stop(context));
        }
        self.settle();
        for node in nodes {
            self.kill(node.0);
        }
    }

    /// A node's disk ends nothing, or goes on.
    pub(crate) fn stick_disk(&mut self, number: u16, stuck: bool) {
        let state = self.nodes.get_mut(&node(number)).expect("it exists");
        state.world.stuck = stuck;
    }

    /// A node's reads hang, though its disk does all else; or they go on.
    pub(crate) fn hang_reads(&mut self, number: u16, hang: bool) {
        let state = self.nodes.get_mut(&node(number)).expect("it exists");
        state.world.reads_hang = hang;
    }

    /// Background work waits at a node, or goes on.
    pub(crate) fn hold_background(&mut self, number: u16, is_held: bool) {
        let state = self.nodes.get_mut(&node(number)).expect("it exists");
        state.world.is_held = is_held;
        self.look_again(number);
    }

    /// A node does not reach the metadata, or does again.
    pub(crate) fn metadata_away(&mut self, number: u16, away: bool) {
        let state = self.nodes.get_mut(&node(number)).expect("it exists");
        state.world.metadata_away = away;
    }

    /// A node that is off loses a part of its journal.
    pub(crate) fn spoil(&mut self, number: u16) {
        let state = self.nodes.get_mut(&node(number)).expect("it exists");
        assert!(state.replica.is_none(), "it is off");
        state.world.spoil();
    }

    /// The last group of the journal of a node that is off is bad.
    pub(crate) fn spoil_end(&mut self, number: u16) {
        let state = self.nodes.get_mut(&node(number)).expect("it exists");
        assert!(state.replica.is_none(), "it is off");
        state.world.spoil_end();
    }

    /// A device of a node that is off is away, or there again as it was.
    pub(crate) fn device_away(&mut self, number: u16, away: bool) {
        let state = self.nodes.get_mut(&node(number)).expect("it exists");
        assert!(state.replica.is_none(), "it is off");
        if away {
            state.world.take_device();
        } else {
            state.world.give_device_back();
        }
    }

    /// A node that is off loses what it knew of its own part, and not its blocks.
    pub(crate) fn lose_state(&mut self, number: u16) {
        let state = self.nodes.get_mut(&node(number)).expect("it exists");
        assert!(state.replica.is_none(), "it is off");
        state.world.lose_state();
    }

    /// Somebody copies what a node's disk holds.
    pub(crate) fn copy_disk(&self, number: u16) -> Kept {
        self.nodes[&node(number)].world.copy()
    }

    /// A node that is off gets a copy of its disk back.
    pub(crate) fn roll_back_disk(&mut self, number: u16, copy: Kept) {
        let state = self.nodes.get_mut(&node(number)).expect("it exists");
        assert!(state.replica.is_none(), "it is off");
        state.world.roll_back(copy);
    }

    /// A node that is off gets new, empty devices.
    pub(crate) fn replace_disks(&mut self, number: u16) {
        let state = self.nodes.get_mut(&node(number)).expect("it exists");
        assert!(state.replica.is_none(), "it is off");
        state.world.wipe();
        state.store = StoreId(state.store.0 + 100);
    }

    /// A node may reset its links from now on.
    pub(crate) fn expect_resets(&mut self, number: u16) {
        let state = self.nodes.get_mut(&node(number)).expect("it exists");
        state.world.expects_resets = true;
    }

    /// Asks for whole blocks to become zeros.
    pub(crate) fn terms(&self, command: CommandId) -> Terms {
        Terms {
            command,
            expires: self.now + Duration::from_secs(1),
            repeated: false,
            fence: self.fence,
        }
    }

    pub(crate) fn clear(&mut self, number: u16, block: u32, count: u32) -> CommandId {
        self.next_command += 1;
        let command = CommandId {
            node: 99,
            incarnation: Incarnation(1),
            number: self.next_command,
        };
        let operation = Operation {
            terms: self.terms(command),
            kind: WriteKind::Clear(holdfast_model::BlockRange::new(block, count)),
        };
        self.act(node(number), |replica, context| {
            replica.submit(context, operation);
        });
        self.settle();
        command
    }

    /// The node that leads, if one does.
    pub(crate) fn leader(&self) -> Option<u16> {
        self.nodes
            .keys()
            .map(|node| node.0)
            .find(|number| self.leads(*number))
    }

    /// Bytes that all nodes have copied to joining replicas since they last started.
    pub(crate) fn copied_bytes(&self) -> u64 {
        self.nodes.values().map(|it| it.world.copied_bytes).sum()
    }

    /// The link between two nodes breaks and is made again.
    pub(crate) fn reconnect(&mut self, one: u16, other: u16) {
        self.disconnect(node(one), node(other));
        self.settle();
        self.connect(node(one), node(other));
        self.settle();
    }

    pub(crate) fn disconnect(&mut self, one: NodeId, other: NodeId) {
        let stays = |(from, to, _): &(NodeId, NodeId, Message)| {
            (*from, *to) != (one, other) && (*from, *to) != (other, one)
        };
        self.messages.retain(stays);
        self.copies_held.retain(stays);
        for (this, that) in [(one, other), (other, one)] {
            let state = self.nodes.get_mut(&this).expect("it exists");
            if state.world.peers.remove(&that).is_some() {
                self.act(this, |replica, context| {
                    replica.handle_peer_down(context, that);
                });
            }
        }
    }

    pub(crate) fn connect(&mut self, one: NodeId, other: NodeId) {
        for (this, that) in [(one, other), (other, one)] {
            let peer = self.nodes[&that].peer();
            let state = self.nodes.get_mut(&this).expect("it exists");
            state.world.peers.insert(that, peer);
        }
        for (this, that) in [(one, other), (other, one)] {
            self.act(this, |replica, context| {
                replica.handle_peer_up(context, that);
            });
        }
    }

    /// Makes a link between two nodes that run, if there is none.
    pub(crate) fn connect_if_apart(&mut self, one: u16, other: u16) {
        let run = [one, other].map(|number| self.nodes[&node(number)].replica.is_some());
        let linked = self.nodes[&node(one)]
            .world
            .peers
            .contains_key(&node(other));
        if run == [true, true] && !linked {
            self.connect(node(one), node(other));
            self.settle();
        }
    }

    /// So many copies still reach a node; all, if no number is named.
    pub(crate) fn let_copies(&mut self, number: u16, left: Option<u32>) {
        match left {
            Some(left) => self.copies_left.insert(node(number), left),
            None => self.copies_left.remove(&node(number)),
        };
        self.messages.extend(self.copies_held.drain(..));
    }

    /// Takes the copies that have not reached anybody, to be delivered at another time.
    pub(crate) fn take_held_copies(&mut self) -> Vec<(NodeId, NodeId, Message)> {
        core::mem::take(&mut self.copies_held)
    }

    /// Whether no other node that runs is in sync.
    pub(crate) fn is_last(&self, number: u16) -> bool {
        let mut others = self.running().filter(|other| other.0 != number);
        !others.any(|other| self.is_in_sync(other.0))
    }

    fn running(&self) -> impl Iterator<Item = NodeId> {
        let nodes = self.nodes.iter();
        nodes
            .filter(|(_, state)| state.replica.is_some())
            .map(|(node, _)| *node)
    }

    /// Lets a replica do something, if its node runs.
    pub(crate) fn act<R>(
        &mut self,
        node: NodeId,
        act: impl FnOnce(&mut Replica, &mut node::FakeContext<'_>) -> R,
    ) -> Option<R> {
        let now = self.now;
        let state = self.nodes.get_mut(&node).expect("it exists");
        let mut context = state.world.context(now);
        let result = act(state.replica.as_mut()?, &mut context);
        self.collect(node);
        Some(result)
    }

    /// Takes what a node wants done.
    fn collect(&mut self, from: NodeId) {
        let state = self.nodes.get_mut(&from).expect("it exists");
        let Outbox { messages, hurried } = std::mem::take(&mut state.world.outbox);
        for (to, message) in messages {
            self.messages.push_back((from, to, message));
        }
        for to in hurried {
            let state = self.nodes.get_mut(&from).expect("it exists");
            state.world.beats.insert(to, Instant::ZERO);
        }
    }

    /// Lets everything happen that needs no time.
    pub(crate) fn settle(&mut self) {
        for _ in 0..100_000 {
            if !(self.deliver() || self.complete() || self.decide()) {
                return;
            }
        }
        panic!("the replicas never come to rest");
    }

    fn deliver(&mut self) -> bool {
        let Some((from, to, message)) = self.messages.pop_front() else {
            return false;
        };
        if let (Message::Copy(_), Some(left)) = (&message, self.copies_left.get_mut(&to)) {
            if *left == 0 {
                self.copies_held.push((from, to, message));
                return true;
            }
            *left -= 1;
        }
        if matches!(message, Message::Copy(_)) {
            *self.copies_from.entry(from).or_default() += 1;
        }
        if matches!(message, Message::Supply(_)) {
            *self.asked_to_copy.entry(to).or_default() += 1;
        }
        let cut = self.cut.contains(&(from, to)) || (self.lost)(&message);
        if !cut && self.nodes[&to].world.peers.contains_key(&from) {
            self.act(to, |replica, context| match &message {
                Message::Settle(it) => replica.settle(context, it.command),
                other => replica.handle_message(context, from, other),
            });
        }
        true
    }

    /// Disks do what they were asked for.
    fn complete(&mut self) -> bool {
        let nodes: Vec<NodeId> = self.running().collect();
        let mut busy = false;
        for node in nodes {
            let world = &mut self.nodes.get_mut(&node).expect("it exists").world;
            if world.stuck {
                continue;
            }
            if let Some(token) = world.complete() {
                busy = true;
                self.act(node, |replica, context| {
                    replica.handle_durable(context, token);
                });
            }
            let world = &mut self.nodes.get_mut(&node).expect("it exists").world;
            if world.reads_hang {
                continue;
            }
            if let Some((token, contents)) = world.reads.pop_front() {
                busy = true;
                self.act(node, |replica, context| {
                    replica.handle_read(context, token, contents);
                });
            }
        }
        busy
    }

    /// The metadata answers, and everybody hears what has changed.
    fn decide(&mut self) -> bool {
        let nodes: Vec<NodeId> = self.running().collect();
        let mut busy = false;
        for from in nodes {
            if self.nodes[&from].world.metadata_away {
                continue;
            }
            let world = &mut self.nodes.get_mut(&from).expect("it exists").world;
            let (proposals, refresh) = (
                std::mem::take(&mut world.proposals),
                std::mem::take(&mut world.refresh),
            );
            for proposal in proposals {
                busy = true;
                let record = SliceRecord::decode(&proposal).expect("it is one of ours");
                let accepted = record.epoch == self.record.epoch.next();
                let outcome = if accepted {
                    self.record = record;
                    Proposed::Accepted
                } else {
                    Proposed::Rejected
                };
                if self.deaf != Some(from) {
                    self.act(from, |replica, context| {
                        replica.handle_proposed(context, outcome);
                    });
                }
                if accepted {
                    self.publish(from);
                }
            }
            if refresh && self.deaf != Some(from) {
                busy = true;
                let record = self.record.clone();
                self.act(from, |replica, context| {
                    replica.handle_record(context, Some(record), true);
                });
            }
        }
        busy
    }

    /// A node's replica is told that what it waits for may have become possible.
    pub(crate) fn look_again(&mut self, number: u16) {
        self.act(node(number), |replica, context| replica.look_again(context));
        self.settle();
    }

    /// A node reads the record.
    pub(crate) fn tell_record(&mut self, number: u16) {
        let record = self.record.clone();
        self.act(node(number), |replica, context| {
            replica.handle_record(context, Some(record), true);
        });
        self.settle();
    }

    fn publish(&mut self, proposer: NodeId) {
        let hears =
            |other: &NodeId| !self.nodes[other].world.metadata_away && self.deaf != Some(*other);
        let others = self.running().filter(|other| *other != proposer);
        let others: Vec<NodeId> = others.filter(hears).collect();
        for other in others {
            let record = self.record.clone();
            self.act(other, |replica, context| {
                replica.handle_record(context, Some(record), false);
            });
        }
    }

    /// Time passes: heartbeats, timeouts, and all that follows from them.
    pub(crate) fn pass(&mut self, span: Duration) {
        let end = self.now + span;
        self.settle();
        while self.now < end {
            self.now += STEP;
            self.beat();
            let nodes: Vec<NodeId> = self.running().collect();
            for node in nodes {
                let now = self.now;
                self.act(node, |replica, context| {
                    if replica.next_timeout().is_some_and(|due| due <= now) {
                        replica.handle_timeout(context);
                    }
                });
            }
            self.settle();
        }
    }

    /// Lets time pass until something holds. Panics if it does not within `most`.
    pub(crate) fn pass_until(&mut self, most: Duration, what: &str, holds: impl Fn(&Self) -> bool) {
        let end = self.now + most;
        while !holds(self) {
            assert!(self.now < end, "not in time: {what}; {:?}", self.record);
            self.pass(STEP);
        }
    }

    /// Heartbeats that are due, answered from what came before.
    fn beat(&mut self) {
        let now = self.now;
        let nodes: Vec<NodeId> = self.running().collect();
        for from in nodes {
            let state = self.nodes.get_mut(&from).expect("it exists");
            let due: Vec<NodeId> = state.world.due_beats(now);
            for to in due {
                self.heartbeat(from, to);
            }
        }
    }

    fn heartbeat(&mut self, from: NodeId, to: NodeId) {
        let now = self.now;
        let state = self.nodes.get_mut(&from).expect("it exists");
        state.world.beats.insert(to, now + HEARTBEAT);
        let echo = state.world.heard.get(&to).copied();
        let replica = state.replica.as_mut().expect("it runs");
        let (claim, grant) = (replica.claim(now, to), replica.grant(now, to));
        let append_age = state.world.append_age(now);
        if self.cut.contains(&(from, to)) || !self.nodes[&to].world.peers.contains_key(&from) {
            return;
        }
        let other = self.nodes.get_mut(&to).expect("it exists");
        other.world.heard.insert(from, now);
        if let Some(peer) = other.world.peers.get_mut(&from) {
            peer.append_age = append_age;
        }
        let Some(echo) = echo else { return };
        self.act(to, |replica, context| {
            if let Some(claim) = claim {
                replica.handle_claim(from, &claim, echo);
            }
            if let Some(grant) = grant {
                replica.handle_grant(context, from, &grant, echo);
            }
        });
    }

    /// Asks a node to write `value` to whole blocks. Returns the command's id.
    pub(crate) fn write(&mut self, number: u16, block: u32, count: u32, value: u8) -> CommandId {
        let command = self.begin_write(number, block, count, value);
        self.settle();
        command
    }

    /// How a write of one block ends, if it does.
    pub(crate) fn outcome_of_write(
        &mut self,
        number: u16,
        block: u32,
        value: u8,
    ) -> Option<OutcomeCode> {
        let command = self.write(number, block, 1, value);
        self.outcome(number, command)
    }

    /// How often a node's log has a command.
    pub(crate) fn count_of(&self, number: u16, command: CommandId) -> usize {
        self.nodes[&node(number)].world.count_of(command)
    }

    /// The same, without letting anything follow from it.
    pub(crate) fn begin_write(
        &mut self,
        number: u16,
        block: u32,
        count: u32,
        value: u8,
    ) -> CommandId {
        self.next_command += 1;
        let command = CommandId {
            node: 99,
            incarnation: Incarnation(1),
            number: self.next_command,
        };
        self.submit(number, command, block, count, value);
        command
    }

    pub(crate) fn submit(
        &mut self,
        number: u16,
        command: CommandId,
        block: u32,
        count: u32,
        value: u8,
    ) {
        let operation = Operation {
            terms: self.terms(command),
            kind: WriteKind::Write {
                offset: u64::from(block) * BLOCK_SIZE as u64,
                data: Bytes::from(vec![value; count as usize * BLOCK_SIZE]),
            },
        };
        self.act(node(number), |replica, context| {
            replica.submit(context, operation);
        });
    }

    /// How a command ended, if it has; told once.
    pub(crate) fn outcome(&mut self, number: u16, command: CommandId) -> Option<OutcomeCode> {
        let finished = &mut self
            .nodes
            .get_mut(&node(number))
            .expect("it exists")
            .world
            .finished;
        let place = finished.iter().position(|(of, _)| *of == command)?;
        Some(finished.remove(place).1)
    }

    pub(crate) fn leads(&self, number: u16) -> bool {
        let replica = self.nodes[&node(number)].replica.as_ref();
        replica.is_some_and(|replica| replica.leads().is_some())
    }

    pub(crate) fn status(&self, number: u16) -> Status {
        let replica = self.nodes[&node(number)].replica.as_ref();
        replica.expect("it is up").status(self.now)
    }

    /// Whether a node may answer a read.
    pub(crate) fn reads(&self, number: u16) -> bool {
        let replica = self.nodes[&node(number)].replica.as_ref();
        replica.is_some_and(|replica| replica.may_read(self.now))
    }

    pub(crate) fn membership(&self, number: u16) -> Membership {
        self.record
            .replica(node(number))
            .expect("it is named")
            .membership
    }

    pub(crate) fn is_in_sync(&self, number: u16) -> bool {
        self.names(number) && self.membership(number) == Membership::InSync
    }

    /// A message comes from a node that did not send it now.
    pub(crate) fn deliver_late(&mut self, from: u16, to: u16, message: Message) {
        self.messages.push_front((node(from), node(to), message));
    }

    /// Lets replicas be told of what is committed that no prepare has told them.
    pub(crate) fn tell_committed(&mut self) {
        self.pass(TELL_COMMITTED);
    }

    /// What a node holds, committed, in every block that is not zeros.
    pub(crate) fn contents(&self, number: u16) -> BTreeMap<u32, u8> {
        self.nodes[&node(number)].world.contents()
    }
}
