//! What has come of hosts is looked at part by part, as long as the engine is told the time that it asks for.

mod bench;

use holdfast_engine::{Command, Event, Output, PortalCommand, PortalEvent};
use holdfast_iscsi::initiator::{CommandRequest, CommandTag, InitiatorCommand, InitiatorEvent};
use holdfast_model::VolumeId;
use holdfast_model::record::{Record, SliceRecord};
use holdfast_stdx::Bytes;

use bench::host::{Host, UNIT, volume_document};
use bench::{Bench, first_record};

const VOLUME: VolumeId = VolumeId(1);
const COMMANDS: u64 = 100;
/// What a turn carries out of small commands.
const TURN: usize = 32;

/// Takes what the engine sends to the host: how many commands are answered by it.
fn answered(bench: &Bench, host: &mut Host, out: &mut Output) -> usize {
    for command in out.drain() {
        if let Command::Portal(PortalCommand::Send { connection, parts }) = command {
            assert_eq!(connection, host.connection);
            let bytes = Bytes::from(parts.concat());
            host.initiator
                .handle_received(bench.now, bytes, &mut host.out);
        }
    }
    let events = host.out.events.drain(..);
    events
        .filter(|event| matches!(event, InitiatorEvent::Completed { .. }))
        .count()
}

#[test]
fn turns_are_asked_for_until_all_is_answered() {
    let mut bench = Bench::new(&[
        volume_document(VOLUME),
        (SliceRecord::key(bench::SLICE), first_record().encode()),
    ]);
    bench.pass(200);
    let mut host = Host::log_in(&mut bench, 1, VOLUME);
    for number in 0..COMMANDS {
        let tag = CommandTag(1000 + number);
        let ready = CommandRequest::new(UNIT, &[0; 6]);
        let taken = host.initiator.submit(tag, ready, &mut host.out);
        taken.expect("the window is large enough");
    }
    let mut bytes = Vec::new();
    for command in std::mem::take(&mut host.out.commands) {
        if let InitiatorCommand::Send(parts) = command {
            bytes.extend(parts.concat());
        }
    }
    let asks = |bench: &Bench| {
        bench
            .engine
            .next_timeout()
            .is_some_and(|due| due <= bench.now)
    };
    assert!(!asks(&bench), "nothing is to be done");

    let mut out = Output::default();
    let received = PortalEvent::Received {
        connection: host.connection,
        bytes: bytes.into(),
    };
    bench
        .engine
        .handle(bench.now, Event::Portal(received), &mut out);
    assert_eq!(answered(&bench, &mut host, &mut out), 0, "not yet");
    let mut turns = Vec::new();
    while asks(&bench) {
        // Though the time does not pass.
        bench.engine.handle_timeout(bench.now, &mut out);
        turns.push(answered(&bench, &mut host, &mut out));
        assert!(turns.len() < 10, "it comes to an end: {turns:?}");
    }
    assert_eq!(turns, [TURN, TURN, TURN, COMMANDS as usize % TURN]);
}
