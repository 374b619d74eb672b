//! What a secondary has forwarded is not sent back to it: an entry comes without the data, which is there.

use holdfast_iscsi::initiator::{CommandRequest, CommandTag};
use holdfast_model::record::{Record, SliceRecord};
use holdfast_model::{
    BLOCK_SIZE, BlockIndex, BlockRange, CommandId, Epoch, Fence, Incarnation, Sequence, VolumeId,
};
use holdfast_stdx::{Bytes, crc32c};
use holdfast_wire::{
    Begin, BlockContent, Commit, Fetch, Forward, ForwardKind, Forwarded, Message, OutcomeCode,
    PrepareHeld, Refusal, Role, WIRE_VERSION,
};

use crate::bench::host::{Host, UNIT, volume_document};
use crate::bench::{Bench, ME, PEER, SLICE, mirrored_record, record_of_peer, store_of};

const VOLUME: VolumeId = VolumeId(1);
const BLOCK: u64 = BLOCK_SIZE as u64;

fn data(fill: u8, blocks: usize) -> Bytes {
    Bytes::from(vec![fill; blocks * BLOCK_SIZE])
}

/// A link to the peer, until it is no stranger any more.
fn connect(bench: &mut Bench, version: u16) {
    bench.connect_as(version);
    bench.pass(1000);
}

/// A node that leads, with the peer in sync.
fn leader(version: u16) -> Bench {
    let documents = [
        (SliceRecord::key(SLICE), mirrored_record().encode()),
        record_of_peer(store_of(PEER), 1),
    ];
    let mut bench = Bench::new(&documents);
    connect(&mut bench, version);
    bench.lead(|bench| {
        for message in std::mem::take(&mut bench.sent) {
            if let Message::Begin(begin) = message {
                bench.peer_has(begin.epoch, begin.committed);
            }
        }
    });
    bench
}

fn command(number: u64) -> CommandId {
    CommandId {
        node: PEER.0,
        incarnation: Incarnation(1),
        number,
    }
}

/// The peer forwards a write, and has room for it. Returns what comes of it.
fn forward(bench: &mut Bench, number: u64, offset: u64, data: Bytes) -> Vec<Message> {
    bench.sent.clear();
    let forward = Forward {
        slice: SLICE,
        command: command(number),
        heartbeat: bench.heard(),
        repeated: false,
        fence: Fence::ZERO,
        kind: ForwardKind::Write { offset, data },
    };
    bench.receive(forward.into());
    bench.pass(5);
    let asked = bench.sent.iter().find_map(|message| match message {
        Message::Reserve(asked) => Some((asked.epoch, asked.number)),
        _ => None,
    });
    if let Some(asked) = asked {
        bench.peer_has_room(asked);
        bench.pass(5);
    }
    std::mem::take(&mut bench.sent)
}

fn held(sent: &[Message]) -> Option<&PrepareHeld> {
    sent.iter().find_map(|message| match message {
        Message::PrepareHeld(held) => Some(held),
        _ => None,
    })
}

fn whole(sent: &[Message]) -> bool {
    let mut sent = sent.iter();
    sent.any(|message| matches!(message, Message::Prepare(_)))
}

#[test]
fn whole_blocks_are_not_sent_back() {
    let mut bench = leader(WIRE_VERSION);
    let sent = forward(&mut bench, 1, 3 * BLOCK, data(7, 2));
    let found = held(&sent).expect("it goes without the data");
    assert_eq!(found.command, command(1));
    assert_eq!(found.start, BlockIndex(3));
    assert_eq!(found.checksums[..], [crc32c(&data(7, 1)); 2]);
    assert!(!whole(&sent));
    bench.peer_has(found.epoch, found.sequence);
    bench.pass(5);
    let is_done = bench.sent.iter().any(|message| {
        matches!(message, Message::Forwarded(it)
            if it.command == command(1) && it.outcome == OutcomeCode::Done)
    });
    assert!(is_done, "{:?}", bench.sent);
}

/// An entry has whole blocks, and the peer a part of them.
#[test]
fn less_than_a_block_is_sent_back_as_blocks() {
    let mut bench = leader(WIRE_VERSION);
    let part = Bytes::from(vec![7; 512]);
    let sent = forward(&mut bench, 1, 3 * BLOCK + 512, part);
    assert!(whole(&sent) && held(&sent).is_none());
}

#[test]
fn who_does_not_know_of_it_is_sent_everything() {
    let mut bench = leader(8);
    let sent = forward(&mut bench, 1, 0, data(7, 1));
    assert!(whole(&sent) && held(&sent).is_none());
}

/// Over another link nobody knows what the peer still has.
#[test]
fn another_link_begins_with_everything() {
    let mut bench = leader(WIRE_VERSION);
    let sent = forward(&mut bench, 1, 0, data(7, 1));
    assert!(held(&sent).is_some());
    bench.disconnect();
    bench.sent.clear();
    connect(&mut bench, WIRE_VERSION);
    assert!(whole(&bench.sent) && held(&bench.sent).is_none());
}

/// A node with a copy, and a host at its portal; the peer leads.
struct Follower {
    bench: Bench,
    host: Host,
    epoch: Epoch,
    sequence: Sequence,
}

impl Follower {
    fn new() -> Self {
        let record = SliceRecord {
            epoch: Epoch(2),
            primary: PEER,
            preferred: PEER,
            ..mirrored_record()
        };
        let documents = [
            volume_document(VOLUME),
            (SliceRecord::key(SLICE), record.encode()),
            record_of_peer(store_of(PEER), 1),
        ];
        let mut bench = Bench::new(&documents);
        connect(&mut bench, WIRE_VERSION);
        let (epoch, none) = (record.epoch, Sequence::ZERO);
        let begin = Begin {
            slice: SLICE,
            epoch,
            role: Role::InSync,
            committed: none,
            tail: Vec::new(),
            stable: none,
            sync: Epoch::ZERO,
            record: record.encode(),
            fence: Fence::ZERO,
        };
        bench.receive(begin.into());
        bench.pass(100);
        let host = Host::log_in(&mut bench, 1, VOLUME);
        Self {
            bench,
            host,
            epoch,
            sequence: none,
        }
    }

    /// The host writes a block, which is forwarded.
    fn write(&mut self, block: u8, fill: u8) -> (CommandTag, CommandId) {
        let Self { bench, host, .. } = self;
        bench.sent.clear();
        let cdb = [0x2a, 0, 0, 0, 0, block * 8, 0, 0, 8, 0];
        let request = CommandRequest::new(UNIT, &cdb).writing(vec![data(fill, 1)]);
        let tag = host.submit(bench, request);
        let forwarded = bench.sent.iter().find_map(|message| match message {
            Message::Forward(forward) => Some(forward.command),
            _ => None,
        });
        bench.sent.clear();
        (tag, forwarded.expect("the peer leads"))
    }

    /// The peer has numbered it, and knows this node to have what it said.
    fn prepare(&mut self, epoch: Epoch, command: CommandId, block: u32, fill: u8) {
        self.sequence = self.sequence.next();
        let held = PrepareHeld {
            slice: SLICE,
            epoch,
            numbered_in: epoch,
            sequence: self.sequence,
            fence: Fence::ZERO,
            command,
            start: BlockIndex(block),
            checksums: [crc32c(&data(fill, 1))].into_iter().collect(),
            committed: Sequence::ZERO,
            stable: Sequence::ZERO,
        };
        self.bench.sent.clear();
        self.bench.receive(held.into());
        self.bench.pass(5);
    }

    /// Up to where this node has said that it has everything.
    fn acknowledged(&self) -> Option<Sequence> {
        let sent = self.bench.sent.iter().rev();
        sent.filter_map(|message| match message {
            Message::Prepared(prepared) => Some(prepared.through),
            _ => None,
        })
        .next()
    }
}

#[test]
fn what_was_forwarded_is_appended_from_here() {
    let mut node = Follower::new();
    let (tag, command) = node.write(1, 7);
    let epoch = node.epoch;
    node.prepare(epoch, command, 1, 7);
    assert_eq!(node.acknowledged(), Some(Sequence(1)));
    assert_eq!(node.bench.resets, 0);
    let done = Forwarded {
        slice: SLICE,
        command,
        outcome: OutcomeCode::Done,
        contents: holdfast_wire::Contents::new(),
    };
    node.bench.receive(done.into());
    node.host.run(&mut node.bench);
    assert_eq!(node.host.done[&tag].status, 0);

    let (bench, sequence) = (&mut node.bench, node.sequence);
    let commit = Commit {
        slice: SLICE,
        epoch,
        committed: sequence,
        stable: Sequence::ZERO,
    };
    bench.receive(commit.into());
    let fetch = Fetch {
        slice: SLICE,
        epoch,
        number: 1,
        range: BlockRange::new(1, 1),
    };
    bench.receive(fetch.into());
    bench.pass(5);
    let fetched = bench.sent.iter().find_map(|message| match message {
        Message::Fetched(fetched) => Some(fetched.contents[0].content.clone()),
        _ => None,
    });
    let Some(BlockContent::Data { data: found, .. }) = fetched else {
        panic!("it is here: {fetched:?}");
    };
    assert_eq!(found, data(7, 1));
}

#[test]
fn other_data_than_the_entry_has_is_not_taken_for_it() {
    let mut node = Follower::new();
    let (_, command) = node.write(1, 7);
    let epoch = node.epoch;
    node.prepare(epoch, command, 1, 8);
    assert_eq!(node.acknowledged(), None);
    assert_eq!(node.bench.resets, 1, "the next link begins with all of it");
}

#[test]
fn what_is_not_here_any_more_is_asked_for_by_another_link() {
    let mut node = Follower::new();
    let unknown = CommandId {
        node: ME.0,
        incarnation: Incarnation(1),
        number: 77,
    };
    let epoch = node.epoch;
    node.prepare(epoch, unknown, 1, 7);
    assert_eq!(node.acknowledged(), None);
    assert_eq!(node.bench.resets, 1);
}

/// Whoever does not lead any more is told so, whatever it leaves out.
#[test]
fn an_epoch_that_is_over_is_refused_first() {
    let mut node = Follower::new();
    let unknown = CommandId {
        node: ME.0,
        incarnation: Incarnation(1),
        number: 77,
    };
    node.prepare(Epoch(1), unknown, 1, 7);
    assert_eq!(node.bench.resets, 0);
    let refused = node.bench.sent.iter().any(
        |message| matches!(message, Message::Refused(it) if it.refusal == Refusal::StaleEpoch),
    );
    assert!(refused, "{:?}", node.bench.sent);
}
