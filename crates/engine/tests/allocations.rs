//! How often a node asks for memory for a command of a host, in the engine and below: reads of 4 KiB from memory, and writes of 4 KiB with
//! another copy elsewhere, one after the other.
//!
//! What is allowed is what was last reached, so that whoever makes it more has to say so here. docs/performance.md says where it is.

mod bench;

use std::cell::Cell;

use holdfast_iscsi::initiator::CommandRequest;
use holdfast_model::record::{Record, SliceRecord};
use holdfast_model::{BLOCK_SIZE, VolumeId};
use holdfast_stdx::Bytes;
use holdfast_wire::{Message, WIRE_VERSION};

use bench::host::{Host, UNIT, volume_document};
use bench::{Bench, PEER, SLICE, first_record, mirrored_record, record_of_peer, store_of};

const VOLUME: VolumeId = VolumeId(1);
/// Blocks that commands are about, each with a command in a turn.
const BLOCKS: u32 = 128;
/// Commands that are counted. Of what grows now and then, such as the tree of tasks, each has a small part.
const COMMANDS: u32 = 640;

/// Allocations for a hundred reads, and for a hundred writes, at most.
const READ_MAX: u64 = 410;
const WRITE_MAX: u64 = 1690;

thread_local! {
    static COUNTED: Cell<u64> = const { Cell::new(0) };
}

fn count(act: &mut dyn FnMut()) {
    let info = allocation_counter::measure(act);
    COUNTED.set(COUNTED.get() + info.count_total);
}

/// Allocations for a hundred commands, each of which is carried out by `one`.
fn counted(bench: &mut Bench, mut one: impl FnMut(&mut Bench, u32)) -> u64 {
    // What is kept from one command to the next is there after these.
    for number in 0..2 * BLOCKS {
        one(bench, number % BLOCKS);
    }
    COUNTED.set(0);
    bench.watch_over = count;
    for number in 0..COMMANDS {
        one(bench, number % BLOCKS);
    }
    bench.watch_over = |act| act();
    COUNTED.get() * 100 / u64::from(COMMANDS)
}

fn cdb(operation: u8, block: u32) -> [u8; 10] {
    let sectors = (BLOCK_SIZE / 512) as u32;
    let mut cdb = [0; 10];
    cdb[0] = operation;
    cdb[2..6].copy_from_slice(&(block * sectors).to_be_bytes());
    cdb[7..9].copy_from_slice(&(sectors as u16).to_be_bytes());
    cdb
}

fn read(host: &mut Host, bench: &mut Bench, block: u32) {
    let request = CommandRequest::new(UNIT, &cdb(0x28, block)).reading(BLOCK_SIZE as u32);
    let tag = host.submit(bench, request);
    let done = host.done.remove(&tag).expect("it needs no device");
    assert_eq!(done.status, 0);
    assert_eq!(done.data_in.concat(), [block as u8; BLOCK_SIZE]);
}

fn write(host: &mut Host, bench: &mut Bench, block: u32) {
    let data = Bytes::from(vec![block as u8; BLOCK_SIZE]);
    let request = CommandRequest::new(UNIT, &cdb(0x2a, block)).writing(vec![data]);
    let tag = host.submit(bench, request);
    answer_as_peer(bench);
    host.run(bench);
    let done = host.done.remove(&tag).expect("both have it");
    assert_eq!(done.status, 0);
}

/// The peer, which is in sync, does what it is asked.
fn answer_as_peer(bench: &mut Bench) {
    while !bench.sent.is_empty() {
        for message in std::mem::take(&mut bench.sent) {
            let (epoch, through) = match message {
                Message::Begin(begin) => (begin.epoch, begin.committed),
                Message::Prepare(prepare) => (prepare.epoch, prepare.entry.sequence),
                Message::Reserve(asked) => {
                    bench.peer_has_room((asked.epoch, asked.number));
                    continue;
                }
                _ => continue,
            };
            bench.peer_has(epoch, through);
        }
    }
}

#[test]
fn a_read_from_memory() {
    let documents = [
        volume_document(VOLUME),
        (SliceRecord::key(SLICE), first_record().encode()),
    ];
    let mut bench = Bench::new(&documents);
    bench.pass(200);
    let mut host = Host::log_in(&mut bench, 1, VOLUME);
    for block in 0..BLOCKS {
        write(&mut host, &mut bench, block);
    }
    // All of it goes to the device, and is read from there once.
    for _ in 0..30 {
        bench.pass(1000);
        host.run(&mut bench);
    }
    for block in 0..BLOCKS {
        read(&mut host, &mut bench, block);
    }
    let allocations = counted(&mut bench, |bench, block| read(&mut host, bench, block));
    assert!(allocations <= READ_MAX, "{allocations} for a hundred reads");
}

#[test]
fn a_write() {
    let documents = [
        volume_document(VOLUME),
        (SliceRecord::key(SLICE), mirrored_record().encode()),
        record_of_peer(store_of(PEER), 1),
    ];
    let mut bench = Bench::new(&documents);
    bench.connect_as(WIRE_VERSION);
    bench.lead(answer_as_peer);
    let mut host = Host::log_in(&mut bench, 1, VOLUME);
    let allocations = counted(&mut bench, |bench, block| write(&mut host, bench, block));
    assert!(
        allocations <= WRITE_MAX,
        "{allocations} for a hundred writes"
    );
}
