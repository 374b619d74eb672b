//! What a node reads for others at a time, however much they ask, is bounded.

use holdfast_model::record::{Record, SliceRecord};
use holdfast_model::{BlockRange, CommandId, Epoch, Incarnation};
use holdfast_stdx::Bytes;
use holdfast_wire::{Fetch, Forward, ForwardKind, Message, OutcomeCode};

use crate::bench::{Bench, PEER, SLICE, first_record};

/// Blocks of a question: as many as there can be in one.
const BLOCKS: u32 = 256;
/// Questions whose answers make up the 64 MiB that may be read at a time.
const AT_A_TIME: usize = 64;
/// Questions of one node that wait.
const WAITING: usize = 1024;

/// A node that leads a slice of which a page has a block, on the device and not in memory.
fn leader() -> Bench {
    let mut bench = Bench::new(&[(SliceRecord::key(SLICE), first_record().encode())]);
    assert_eq!(bench.record().epoch, Epoch(2));
    bench.connect();
    let forward = Forward {
        slice: SLICE,
        command: CommandId {
            node: PEER.0,
            incarnation: Incarnation(1),
            number: 1,
        },
        heartbeat: bench.heard(),
        repeated: false,
        fence: holdfast_model::Fence::ZERO,
        kind: ForwardKind::Write {
            offset: 0,
            data: Bytes::from(vec![7; 4096]),
        },
    };
    bench.receive(forward.into());
    bench.pass(5000);
    let is_done = |message: &Message| matches!(message, Message::Forwarded(it) if it.outcome == OutcomeCode::Done);
    assert!(bench.sent.iter().any(is_done), "{:?}", bench.sent);
    bench.sent.clear();
    bench
}

fn ask(bench: &mut Bench, numbers: std::ops::Range<u64>) {
    for number in numbers {
        let fetch = Fetch {
            slice: SLICE,
            epoch: Epoch(2),
            number,
            range: BlockRange::new(0, BLOCKS),
        };
        bench.receive(fetch.into());
    }
}

/// The questions that have been answered: with blocks, and without any, by which whoever asked asks again.
fn answered(bench: &mut Bench) -> (Vec<u64>, Vec<u64>) {
    let mut told: Vec<u64> = Vec::new();
    let mut not_told: Vec<u64> = Vec::new();
    for message in bench.sent.drain(..) {
        let Message::Fetched(fetched) = message else {
            continue;
        };
        let blocks: u32 = fetched.contents.iter().map(|it| it.range.count()).sum();
        match blocks {
            0 => not_told.push(fetched.number),
            _ => {
                assert_eq!(blocks, BLOCKS);
                told.push(fetched.number);
            }
        }
    }
    (told, not_told)
}

#[test]
fn a_node_that_asks_faster_than_disks_read_does_not_make_another_grow() {
    let mut bench = leader();
    bench.held = Some(Vec::new());
    ask(&mut bench, 0..10_000);
    assert_eq!(bench.held.as_ref().map(Vec::len), Some(AT_A_TIME));
    let first: Vec<u64> = (0..10_000).take(AT_A_TIME + WAITING).collect();
    let rest: Vec<u64> = (0..10_000).skip(first.len()).collect();
    let (told, not_told) = answered(&mut bench);
    assert_eq!((told, not_told), (vec![], rest));

    // Those that wait are answered as soon as there is room, and then others are.
    bench.release();
    let (told, not_told) = answered(&mut bench);
    assert_eq!((told, not_told), (first, vec![]));
    ask(&mut bench, 20_000..20_001);
    assert_eq!(answered(&mut bench), (vec![20_000], vec![]));
}

/// Nobody is told what waited when the link went down: it is asked anew over the next one.
#[test]
fn questions_that_wait_end_with_their_link() {
    let mut bench = leader();
    bench.held = Some(Vec::new());
    ask(&mut bench, 0..1000);
    bench.disconnect();
    bench.connect();
    bench.sent.clear();
    ask(&mut bench, 1000..1001);
    bench.release();
    let (told, not_told) = answered(&mut bench);
    assert!(not_told.is_empty(), "{not_told:?}");
    assert_eq!(told.len(), AT_A_TIME + 1, "{told:?}");
    assert_eq!(told.last(), Some(&1000));
}
