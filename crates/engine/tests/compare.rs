//! Another node's portal asks the primary here to compare, to set bits, and what came of it.

use holdfast_model::record::{Record, SliceRecord};
use holdfast_model::{BLOCK_SIZE, BlockRange, CommandId, Incarnation};
use holdfast_stdx::Bytes;
use holdfast_wire::{BlockContent, Forward, ForwardKind, Message, OutcomeCode, WIRE_VERSION};

use crate::bench::{Bench, PEER, SLICE, first_record};

/// Sectors 7 to 14: of two blocks, half and half and one.
const OFFSET: u64 = 7 * 512;

fn leader() -> Bench {
    let mut bench = Bench::new(&[(SliceRecord::key(SLICE), first_record().encode())]);
    bench.connect_as(WIRE_VERSION);
    bench.pass(200);
    bench
}

fn command(number: u64) -> CommandId {
    CommandId {
        node: PEER.0,
        incarnation: Incarnation(1),
        number,
    }
}

fn ask(bench: &mut Bench, number: u64, repeated: bool, kind: ForwardKind) {
    let forward = Forward {
        slice: SLICE,
        command: command(number),
        heartbeat: bench.heard(),
        repeated,
        fence: holdfast_model::Fence::ZERO,
        kind,
    };
    bench.receive(forward.into());
}

fn swap(old: u8, new: u8) -> ForwardKind {
    ForwardKind::CompareAndWrite {
        offset: OFFSET,
        expected: Bytes::from(vec![old; BLOCK_SIZE]),
        data: Bytes::from(vec![new; BLOCK_SIZE]),
    }
}

/// How a command ended, told once.
fn outcome(bench: &mut Bench, number: u64) -> Option<OutcomeCode> {
    let mut answers = bench.sent.iter().filter_map(|message| match message {
        Message::Forwarded(it) if it.command == command(number) => Some(it.outcome),
        _ => None,
    });
    let outcome = answers.next();
    assert_eq!(answers.next(), None, "it is told once");
    bench.sent.clear();
    outcome
}

/// The first two blocks.
fn contents(bench: &mut Bench, number: u64) -> Vec<u8> {
    ask(
        bench,
        number,
        false,
        ForwardKind::Read(BlockRange::new(0, 2)),
    );
    bench.pass(100);
    let mut found = bench.sent.iter().filter_map(|message| match message {
        Message::Forwarded(it) if it.command == command(number) => Some(it.contents.clone()),
        _ => None,
    });
    let contents = found.next().expect("it is answered");
    let bytes = contents.into_iter().map(|it| match it.content {
        BlockContent::Data { data, .. } => data.to_vec(),
        BlockContent::Zero => vec![0; it.range.bytes() as usize],
        BlockContent::Bad => panic!("nothing is bad"),
    });
    bytes.collect::<Vec<_>>().concat()
}

#[test]
fn a_comparison_over_two_blocks_is_one_step() {
    let mut bench = leader();
    ask(&mut bench, 1, false, swap(0, 7));
    bench.pass(100);
    assert_eq!(outcome(&mut bench, 1), Some(OutcomeCode::Done));
    let found = contents(&mut bench, 2);
    let (from, to) = (OFFSET as usize, OFFSET as usize + BLOCK_SIZE);
    assert!(found[..from].iter().all(|byte| *byte == 0));
    assert!(found[from..to].iter().all(|byte| *byte == 7));
    assert!(found[to..].iter().all(|byte| *byte == 0));

    // Two at once: the first of them replaces what the second expects.
    bench.sent.clear();
    ask(&mut bench, 3, false, swap(7, 8));
    ask(&mut bench, 4, false, swap(7, 9));
    bench.pass(100);
    let sent = bench.sent.clone();
    assert_eq!(outcome(&mut bench, 3), Some(OutcomeCode::Done));
    bench.sent = sent;
    let miscompare = OutcomeCode::Miscompare { position: 0 };
    assert_eq!(outcome(&mut bench, 4), Some(miscompare));

    // Asked once more, whoever won has won.
    ask(&mut bench, 3, true, swap(7, 8));
    bench.pass(100);
    assert_eq!(outcome(&mut bench, 3), Some(OutcomeCode::Done));
}

#[test]
fn where_the_first_difference_is_is_told() {
    let mut bench = leader();
    let write = ForwardKind::Write {
        offset: OFFSET + 1024,
        data: Bytes::from(vec![1; 512]),
    };
    ask(&mut bench, 1, false, write);
    bench.pass(100);
    assert_eq!(outcome(&mut bench, 1), Some(OutcomeCode::Done));
    ask(&mut bench, 2, false, swap(0, 7));
    bench.pass(100);
    let miscompare = OutcomeCode::Miscompare { position: 1024 };
    assert_eq!(outcome(&mut bench, 2), Some(miscompare));
}

#[test]
fn bits_are_set() {
    let mut bench = leader();
    for (number, bits) in [(1, 0x01), (2, 0x80)] {
        let data = Bytes::from(vec![bits; 512]);
        let offset = OFFSET;
        ask(&mut bench, number, false, ForwardKind::Or { offset, data });
    }
    bench.pass(100);
    let found = contents(&mut bench, 3);
    let from = OFFSET as usize;
    assert!(found[..from].iter().all(|byte| *byte == 0));
    assert!(found[from..from + 512].iter().all(|byte| *byte == 0x81));
    assert!(found[from + 512..].iter().all(|byte| *byte == 0));
}
