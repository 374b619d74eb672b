//! How long a command takes: from when the last byte of it, or of its data, came from the socket, and its host was not waited for
//! any more, until its answer is with the socket.

use holdfast_engine::{Command, Event, Output, PortalCommand, PortalEvent, Use};
use holdfast_iscsi::initiator::{CommandRequest, CommandTag, InitiatorCommand};
use holdfast_model::record::{Record, SliceRecord};
use holdfast_model::{BLOCK_SIZE, VolumeId};
use holdfast_stdx::{Bytes, Duration, Instant};

use crate::bench::host::{Host, UNIT, volume_document};
use crate::bench::{Bench, SLICE, first_record};

const VOLUME: VolumeId = VolumeId(1);
const BLOCK: u32 = BLOCK_SIZE as u32;
/// What a turn carries out of small commands.
const TURN: u64 = 16;

fn us(microseconds: u64) -> Duration {
    Duration::from_micros(microseconds)
}

/// A node that serves the volume, and a host with a session there.
fn new() -> (Bench, Host) {
    let mut bench = Bench::new(&[
        volume_document(VOLUME),
        (SliceRecord::key(SLICE), first_record().encode()),
    ]);
    bench.pass(200);
    let host = Host::log_in(&mut bench, 1, VOLUME);
    bench.engine.take_uses();
    (bench, host)
}

/// READ(10) of the first block.
fn read() -> CommandRequest {
    CommandRequest::new(UNIT, &[0x28, 0, 0, 0, 0, 0, 0, 0, 8, 0]).reading(BLOCK)
}

/// What the host sends for these commands, in one piece.
fn sent(host: &mut Host, requests: impl IntoIterator<Item = CommandRequest>) -> Bytes {
    for (number, request) in (1000..).zip(requests) {
        let taken = host
            .initiator
            .submit(CommandTag(number), request, &mut host.out);
        taken.expect("the window is large enough");
    }
    let mut bytes = Vec::new();
    for command in std::mem::take(&mut host.out.commands) {
        if let InitiatorCommand::Send(parts) = command {
            bytes.extend(parts.concat());
        }
    }
    bytes.into()
}

/// Bytes that were taken from the socket come to the engine 5 us later.
fn receive(bench: &mut Bench, host: &Host, received: Instant, bytes: Bytes) {
    let event = PortalEvent::Received {
        connection: host.connection,
        bytes,
        received,
    };
    let mut out = Output::default();
    bench
        .engine
        .handle(received + us(5), Event::Portal(event), &mut out);
    assert_eq!(answers(&mut out), 0, "it is looked at in a turn");
}

/// How many times something is sent to the host.
fn answers(out: &mut Output) -> usize {
    out.drain()
        .filter(|it| matches!(it, Command::Portal(PortalCommand::Send { .. })))
        .count()
}

/// What was done with the volume, whoever did it, since it was last asked.
fn of_all(bench: &mut Bench) -> Option<Use> {
    let mut uses = bench.engine.take_uses().into_iter();
    uses.find(|it| it.initiator.is_none())
}

#[test]
fn what_is_answered_in_the_turn_in_which_it_came_took_until_that_turn_was_over() {
    let (mut bench, mut host) = new();
    let bytes = sent(&mut host, std::iter::repeat_n(read(), TURN as usize + 4));
    let (begun, mut out) = (bench.now, Output::default());
    receive(&mut bench, &host, begun, bytes);
    bench.engine.handle_timeout(begun + us(5), &mut out);
    assert_eq!(answers(&mut out), TURN as usize);
    assert_eq!(of_all(&mut bench), None, "they have not left yet");
    assert!(bench.engine.has_answered());
    bench.engine.handle_flushed(begun + us(22));
    assert!(!bench.engine.has_answered());
    let done = of_all(&mut bench).expect("there were reads").reads;
    assert_eq!(
        (done.latencies.count(), done.latencies.total()),
        (TURN, 22 * TURN)
    );
    assert_eq!(done.latencies.steps().collect::<Vec<_>>(), [(23, TURN)]);

    // The others have waited for it.
    bench.engine.handle_timeout(begun + us(25), &mut out);
    assert_eq!(answers(&mut out), 4);
    bench.engine.handle_flushed(begun + us(40));
    let done = of_all(&mut bench).expect("there were reads").reads;
    assert_eq!(
        (done.latencies.count(), done.latencies.total()),
        (4, 40 * 4)
    );
}

#[test]
fn a_write_begins_with_the_last_of_its_data() {
    let (mut bench, mut host) = new();
    let data = Bytes::from(vec![1; BLOCK_SIZE]);
    let cdb = [0x2a, 0, 0, 0, 0, 0, 0, 0, 8, 0];
    let write = CommandRequest::new(UNIT, &cdb).writing(vec![data]);
    let mut first = sent(&mut host, [write]);
    let last = first.split_off(first.len() - 1);
    let begun = bench.now;
    receive(&mut bench, &host, begun, first);
    receive(&mut bench, &host, begun + us(1000), last);
    bench.now = begun + us(1010);
    bench.pass(0);
    let done = of_all(&mut bench).expect("it was written").writes;
    let took = done.latencies.total();
    assert_eq!(done.latencies.count(), 1);
    assert!((10..1000).contains(&took), "{took} us");
}

/// Its machine stood still, or is far away: that is nothing that the volume has to answer for.
#[test]
fn a_write_of_a_host_that_is_waited_for_takes_and_stalls_nothing_meanwhile() {
    let (mut bench, mut host) = new();
    bench.pass(700);
    let data = Bytes::from(vec![1; BLOCK_SIZE]);
    let cdb = [0x2a, 0, 0, 0, 0, 0, 0, 0, 8, 0];
    let write = CommandRequest::new(UNIT, &cdb).writing(vec![data]);
    let bytes = sent(&mut host, [write]);
    let (connection, received) = (host.connection, bench.now);
    bench.at_portal(PortalEvent::Received {
        connection,
        bytes,
        received,
    });
    bench.pass(2000);
    assert_eq!(of_all(&mut bench), None, "it is asked whether it is there");
    host.run(&mut bench);
    bench.pass(10);
    let done = of_all(&mut bench).expect("it was written").writes;
    let took = done.latencies.total();
    assert_eq!(done.latencies.count(), 1);
    assert!(took < 1000, "{took} us");
    assert_eq!(bench.stalls, []);
}

/// Nothing is counted for nobody, and nothing twice.
#[test]
fn what_a_session_did_last_is_its_own_though_it_ends_in_the_same_turn() {
    let (mut bench, mut host) = new();
    let bytes = sent(&mut host, [read()]);
    let (begun, mut out) = (bench.now, Output::default());
    receive(&mut bench, &host, begun, bytes);
    bench.engine.handle_timeout(begun + us(5), &mut out);
    let connection = host.connection;
    let closed = Event::Portal(PortalEvent::Closed { connection });
    bench.engine.handle(begun + us(8), closed, &mut out);
    bench.engine.handle_flushed(begun + us(20));
    let uses = bench.engine.take_uses();
    let told: Vec<_> = uses
        .iter()
        .map(|it| (it.initiator.is_some(), it.reads.latencies.total()))
        .collect();
    assert_eq!(told.len(), 2);
    assert!(
        told.contains(&(false, 8)) && told.contains(&(true, 8)),
        "{told:?}"
    );
}
