//! Another node's portal asks the primary here to copy to its slice, and what came of it.

use holdfast_model::record::{
    AccessRecord, CLUSTER_KEY, ClusterRecord, Membership, Record, SliceRecord,
};
use holdfast_model::{
    BLOCK_SIZE, BlockIndex, BlockRange, Change, CommandId, Epoch, Fence, Incarnation, SliceId,
    VolumeId,
};
use holdfast_stdx::{Bytes, smallvec};
use holdfast_wire::{
    BlockContent, Content, Contents, CopySource, Forward, ForwardKind, Forwarded, Message,
    OutcomeCode, Settle, Unread, WIRE_VERSION,
};

use crate::bench::{Bench, CLUSTER, PEER, SLICE, first_record, record_of_peer, replica, store_of};

/// What is copied from. What is written is [`SLICE`].
const SOURCE: SliceId = SliceId {
    volume: VolumeId(2),
    index: 0,
};
const MIB: u32 = 1 << 20;
/// Bytes that are read of one volume at a time.
const READ_OF_ONE_MAX: u32 = 16 << 20;

/// Both slices are led here, or the peer leads what is copied from.
fn leader(source_is_here: bool) -> Bench {
    let cluster = ClusterRecord {
        schema: 1,
        cluster: CLUSTER,
        next_volume: VolumeId(3),
        recoveries: 0,
        incarnation_floor: Incarnation::ZERO,
    };
    let source = match source_is_here {
        true => SliceRecord {
            slice: SOURCE,
            ..first_record()
        },
        false => SliceRecord {
            epoch: Epoch(2),
            slice: SOURCE,
            primary: PEER,
            preferred: PEER,
            replicas: vec![replica(PEER, Membership::InSync)],
            ..first_record()
        },
    };
    let mut bench = Bench::new(&[
        (CLUSTER_KEY.to_owned(), cluster.encode()),
        (SliceRecord::key(SLICE), first_record().encode()),
        (SliceRecord::key(SOURCE), source.encode()),
        record_of_peer(store_of(PEER), 1),
    ]);
    bench.connect_as(WIRE_VERSION);
    bench.pass(200);
    bench.sent.clear();
    bench
}

fn command(number: u64) -> CommandId {
    CommandId {
        node: PEER.0,
        incarnation: Incarnation(1),
        number,
    }
}

fn ask(bench: &mut Bench, slice: SliceId, number: u64, repeated: bool, kind: ForwardKind) {
    let forward = Forward {
        slice,
        command: command(number),
        heartbeat: bench.heard(),
        repeated,
        fence: Fence::ZERO,
        kind,
    };
    bench.receive(forward.into());
}

fn copy(offset: u64, from: u64, length: u32, fence: u64) -> ForwardKind {
    let source = CopySource {
        slice: SOURCE,
        offset: from,
        length,
        fence: Fence(fence),
    };
    ForwardKind::Copy { offset, source }
}

/// How a command ended, told once.
fn outcome(bench: &mut Bench, number: u64) -> Option<OutcomeCode> {
    let mut answers = bench.sent.iter().filter_map(|message| match message {
        Message::Forwarded(it) if it.command == command(number) => Some(it.outcome),
        _ => None,
    });
    let outcome = answers.next();
    assert_eq!(answers.next(), None, "it is told once");
    outcome
}

/// What the peer has been asked to read.
fn reads(bench: &Bench) -> Vec<Forward> {
    let forwards = bench.sent.iter().filter_map(|message| match message {
        Message::Forward(forward) => Some(forward.clone()),
        _ => None,
    });
    forwards.collect()
}

/// The peer answers what it was asked to read.
fn answer(bench: &mut Bench, forward: &Forward, outcome: OutcomeCode, contents: Contents) {
    let forwarded = Forwarded {
        slice: forward.slice,
        command: forward.command,
        outcome,
        contents,
    };
    bench.receive(forwarded.into());
}

/// Blocks that are full of a byte.
fn full(range: BlockRange, byte: u8) -> Contents {
    let data = Bytes::from(vec![byte; range.bytes() as usize]);
    let Change::Write {
        data, checksums, ..
    } = Change::write(BlockIndex(range.start()), data)
    else {
        unreachable!("it was just made")
    };
    let content = BlockContent::Data { data, checksums };
    smallvec![Content { range, content }]
}

/// What comes of a read that nobody waits for any more is not written.
fn brings_nothing(bench: &mut Bench, forward: &Forward) {
    let range = BlockRange::new(0, 1);
    answer(bench, forward, OutcomeCode::Done, full(range, 9));
    bench.pass(100);
    let found = contents(bench, SLICE, 2, 1);
    assert!(bytes(found).iter().all(|byte| *byte == 0));
}

/// What is in the first blocks of a slice.
fn contents(bench: &mut Bench, slice: SliceId, number: u64, count: u32) -> Contents {
    let kind = ForwardKind::Read(BlockRange::new(0, count));
    ask(bench, slice, number, false, kind);
    bench.pass(100);
    let mut found = bench.sent.iter().filter_map(|message| match message {
        Message::Forwarded(it) if it.command == command(number) => Some(it.contents.clone()),
        _ => None,
    });
    found.next().expect("it is answered")
}

fn bytes(contents: Contents) -> Vec<u8> {
    let bytes = contents.into_iter().map(|it| match it.content {
        BlockContent::Data { data, .. } => data.to_vec(),
        BlockContent::Zero => vec![0; it.range.bytes() as usize],
        BlockContent::Bad => panic!("nothing is bad"),
    });
    bytes.collect::<Vec<_>>().concat()
}

/// The access to what is copied from is another.
fn set_fence(bench: &mut Bench, fence: u64) {
    let mut record = AccessRecord::open(SOURCE.volume);
    (record.fence, record.changes) = (Fence(fence), fence);
    bench.put(&AccessRecord::key(SOURCE.volume), record.encode());
}

#[test]
fn what_is_here_is_copied_here() {
    let mut bench = leader(true);
    let data: Vec<u8> = (0..3 * BLOCK_SIZE).map(|at| (at / 7) as u8).collect();
    let write = ForwardKind::Write {
        offset: 0,
        data: Bytes::from(data.clone()),
    };
    ask(&mut bench, SOURCE, 1, false, write);
    bench.pass(100);
    ask(&mut bench, SLICE, 2, false, copy(1024, 512, 8192, 0));
    bench.pass(100);
    assert_eq!(outcome(&mut bench, 2), Some(OutcomeCode::Done));
    assert_eq!(reads(&bench), [], "nobody was asked");
    let found = contents(&mut bench, SLICE, 3, 3);
    let found = bytes(found);
    assert!(found[..1024].iter().all(|byte| *byte == 0));
    assert!(found[1024..1024 + 8192] == data[512..512 + 8192]);
    assert!(found[1024 + 8192..].iter().all(|byte| *byte == 0));
}

/// Whole blocks, and parts of them.
#[test]
fn what_takes_no_space_takes_none_where_it_is_copied_to() {
    let mut bench = leader(true);
    let write = ForwardKind::Write {
        offset: 0,
        data: Bytes::from(vec![7; 4 * BLOCK_SIZE]),
    };
    ask(&mut bench, SLICE, 1, false, write);
    bench.pass(100);
    for (number, kind) in [(2, copy(0, 0, 8192, 0)), (3, copy(9000, 0, 7000, 0))] {
        ask(&mut bench, SLICE, number, false, kind);
        bench.pass(100);
        assert_eq!(outcome(&mut bench, number), Some(OutcomeCode::Done));
    }
    let found = contents(&mut bench, SLICE, 4, 4);
    let zero = BlockContent::Zero;
    assert_eq!(found[0].range, BlockRange::new(0, 2));
    assert_eq!(found[0].content, zero);
    let bytes = bytes(found);
    assert!(bytes[8192..9000].iter().all(|byte| *byte == 7));
    assert!(bytes[9000..16_000].iter().all(|byte| *byte == 0));
    assert!(bytes[16_000..].iter().all(|byte| *byte == 7));
}

#[test]
fn what_is_elsewhere_is_read_there() {
    let mut bench = leader(false);
    ask(&mut bench, SLICE, 1, false, copy(0, 512, 8192, 0));
    let asked = reads(&bench);
    let [forward] = &asked[..] else {
        panic!("{asked:?}")
    };
    let range = BlockRange::new(0, 3);
    assert_eq!(
        (forward.slice, &forward.kind),
        (SOURCE, &ForwardKind::Read(range))
    );
    assert_eq!(outcome(&mut bench, 1), None);
    answer(&mut bench, forward, OutcomeCode::Done, full(range, 9));
    bench.pass(100);
    assert_eq!(outcome(&mut bench, 1), Some(OutcomeCode::Done));
    let found = contents(&mut bench, SLICE, 2, 2);
    assert!(bytes(found).iter().all(|byte| *byte == 9));
    // What is done is done, and nothing is read for it.
    bench.sent.clear();
    ask(&mut bench, SLICE, 1, true, copy(0, 512, 8192, 0));
    assert_eq!(outcome(&mut bench, 1), Some(OutcomeCode::Done));
    assert_eq!(reads(&bench), []);
}

#[test]
fn what_cannot_be_read_is_told() {
    let mut bench = leader(false);
    // A block of it is lost.
    ask(&mut bench, SLICE, 1, false, copy(0, 4096, 8192, 0));
    let forward = reads(&bench).remove(0);
    let mut bad = full(BlockRange::new(1, 1), 9);
    bad.push(Content {
        range: BlockRange::new(2, 1),
        content: BlockContent::Bad,
    });
    answer(&mut bench, &forward, OutcomeCode::Done, bad);
    let block = BlockIndex(2);
    let lost = OutcomeCode::Unread(Unread::Lost { block });
    assert_eq!(outcome(&mut bench, 1), Some(lost));
    // Nobody serves it.
    bench.sent.clear();
    ask(&mut bench, SLICE, 2, false, copy(0, 4096, 8192, 0));
    for _ in 0..600 {
        bench.pass(5);
        for forward in reads(&bench) {
            answer(
                &mut bench,
                &forward,
                OutcomeCode::NotPrimary,
                Contents::new(),
            );
        }
    }
    let unread = OutcomeCode::Unread(Unread::NotReady);
    assert_eq!(outcome(&mut bench, 2), Some(unread));
    let found = contents(&mut bench, SLICE, 3, 2);
    assert!(
        bytes(found).iter().all(|byte| *byte == 0),
        "nothing was written"
    );
}

/// Of whoever has asked by an older access than is known here it is not known whether he may read.
#[test]
fn nothing_is_read_by_an_access_that_is_over() {
    let mut bench = leader(true);
    set_fence(&mut bench, 2);
    ask(&mut bench, SLICE, 1, false, copy(0, 0, 4096, 1));
    bench.pass(100);
    let fenced = OutcomeCode::Unread(Unread::Fenced);
    assert_eq!(outcome(&mut bench, 1), Some(fenced));
    ask(&mut bench, SLICE, 1, false, copy(0, 0, 4096, 2));
    bench.pass(100);
    bench
        .sent
        .retain(|it| !matches!(it, Message::Forwarded(it) if it.outcome == fenced));
    assert_eq!(outcome(&mut bench, 1), Some(OutcomeCode::Done));
}

#[test]
fn what_was_read_is_not_written_if_it_may_not_be_read_any_more() {
    let mut bench = leader(false);
    set_fence(&mut bench, 1);
    ask(&mut bench, SLICE, 1, false, copy(0, 0, 4096, 1));
    let forward = reads(&bench).remove(0);
    assert_eq!(forward.fence, Fence(1));
    set_fence(&mut bench, 2);
    let fenced = OutcomeCode::Unread(Unread::Fenced);
    assert_eq!(outcome(&mut bench, 1), Some(fenced));
    brings_nothing(&mut bench, &forward);
}

/// Whoever asks has heard of an access of which this node has not: it has to find out first who may read.
#[test]
fn nothing_is_read_by_an_access_that_is_not_known_yet() {
    let mut bench = leader(true);
    let write = ForwardKind::Write {
        offset: 0,
        data: Bytes::from(vec![7; BLOCK_SIZE]),
    };
    ask(&mut bench, SOURCE, 1, false, write);
    bench.pass(100);
    ask(&mut bench, SLICE, 2, false, copy(0, 0, 4096, 1));
    bench.pass(500);
    assert_eq!(outcome(&mut bench, 2), None);
    set_fence(&mut bench, 1);
    bench.pass(100);
    assert_eq!(outcome(&mut bench, 2), Some(OutcomeCode::Done));
    let found = contents(&mut bench, SLICE, 3, 1);
    assert!(bytes(found).iter().all(|byte| *byte == 7));
}

/// Whoever has given a command up, and is told that it has no number, finds nothing of it afterwards.
#[test]
fn what_is_given_up_while_it_is_read_is_not_written() {
    let mut bench = leader(false);
    ask(&mut bench, SLICE, 1, false, copy(0, 0, 4096, 0));
    let forward = reads(&bench).remove(0);
    let settle = Settle {
        slice: SLICE,
        command: command(1),
    };
    bench.receive(settle.into());
    assert_eq!(outcome(&mut bench, 1), Some(OutcomeCode::Expired));
    brings_nothing(&mut bench, &forward);
}

/// What took too long to read is not numbered: whoever asked may have gone to another primary.
#[test]
fn what_is_read_too_late_is_not_written() {
    let mut bench = leader(false);
    ask(&mut bench, SLICE, 1, false, copy(0, 0, 4096, 0));
    let forward = reads(&bench).remove(0);
    bench.pass(800);
    assert_eq!(outcome(&mut bench, 1), None);
    bench.pass(300);
    let not_ready = OutcomeCode::Unread(Unread::NotReady);
    assert_eq!(outcome(&mut bench, 1), Some(not_ready));
    brings_nothing(&mut bench, &forward);
    assert_eq!(outcome(&mut bench, 1), Some(not_ready));
}

#[test]
fn who_asks_twice_has_it_done_once() {
    let mut bench = leader(false);
    for repeated in [false, true] {
        ask(&mut bench, SLICE, 1, repeated, copy(0, 0, 4096, 0));
    }
    let range = BlockRange::new(0, 1);
    for (forward, byte) in reads(&bench).into_iter().zip([8, 9]) {
        answer(&mut bench, &forward, OutcomeCode::Done, full(range, byte));
    }
    bench.pass(100);
    assert_eq!(outcome(&mut bench, 1), Some(OutcomeCode::Done));
    let found = contents(&mut bench, SLICE, 2, 1);
    assert!(bytes(found).iter().all(|byte| *byte == 9));
}

#[test]
fn what_is_read_at_a_time_is_bounded() {
    let mut bench = leader(false);
    let count = u64::from(READ_OF_ONE_MAX / MIB);
    for number in 0..=count {
        let at = number * u64::from(MIB);
        ask(&mut bench, SLICE, number, false, copy(at, at, MIB, 0));
    }
    assert_eq!(reads(&bench).len() as u64, count);
    assert_eq!(outcome(&mut bench, count), Some(OutcomeCode::Busy));
    // One of them is over.
    let settle = Settle {
        slice: SLICE,
        command: command(0),
    };
    bench.receive(settle.into());
    bench.sent.clear();
    ask(&mut bench, SLICE, count, false, copy(0, 0, MIB, 0));
    assert_eq!(reads(&bench).len(), 1);
    // Nobody waits for them any more.
    bench.disconnect();
    bench.connect_as(WIRE_VERSION);
    bench.pass(200);
    bench.sent.clear();
    for number in 0..count {
        let at = number * u64::from(MIB);
        ask(&mut bench, SLICE, number, true, copy(at, at, MIB, 0));
    }
    assert_eq!(reads(&bench).len() as u64, count);
}
