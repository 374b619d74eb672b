//! What has come of hosts is looked at part by part, as long as the engine is told the time that it asks for.

use holdfast_engine::{Command, ConnectionId, Event, Output, PortalCommand, PortalEvent};
use holdfast_iscsi::Isid;
use holdfast_iscsi::initiator::{
    CommandRequest, CommandTag, Initiator, InitiatorCommand, InitiatorConfig, InitiatorEvent,
    InitiatorOutput, SessionKind,
};
use holdfast_model::VolumeId;
use holdfast_model::record::{Record, SliceRecord};
use holdfast_stdx::Bytes;

use crate::bench;
use crate::bench::host::{Host, UNIT, initiator, name, target, volume_document};
use crate::bench::{Bench, first_record};

const VOLUME: VolumeId = VolumeId(1);
const COMMANDS: u64 = 100;
/// What a turn carries out of small commands.
const TURN: usize = 16;

/// What an initiator sends, in one piece.
fn sent(out: &mut InitiatorOutput) -> Bytes {
    let mut bytes = Vec::new();
    for command in std::mem::take(&mut out.commands) {
        if let InitiatorCommand::Send(parts) = command {
            bytes.extend(parts.concat());
        }
    }
    bytes.into()
}

/// A node that serves the volume, and a host with a session there.
fn new() -> (Bench, Host) {
    let mut bench = Bench::new(&[
        volume_document(VOLUME),
        (SliceRecord::key(bench::SLICE), first_record().encode()),
    ]);
    bench.pass(200);
    let host = Host::log_in(&mut bench, 1, VOLUME);
    (bench, host)
}

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
    let (mut bench, mut host) = new();
    for number in 0..COMMANDS {
        let tag = CommandTag(1000 + number);
        let ready = CommandRequest::new(UNIT, &[0; 6]);
        let taken = host.initiator.submit(tag, ready, &mut host.out);
        taken.expect("the window is large enough");
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
        bytes: sent(&mut host.out),
        received: bench.now,
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
    let (last, whole) = turns.split_last().expect("there were commands");
    assert_eq!(*whole, [TURN; COMMANDS as usize / TURN]);
    assert_eq!(*last, COMMANDS as usize % TURN);
}

/// A host comes again in the place of its own session, which has a command in the same turn: that is served, and closed.
#[test]
fn nothing_is_wanted_of_a_connection_that_was_closed_in_the_turn_that_served_it() {
    let (mut bench, mut host) = new();
    let config = InitiatorConfig::new(
        name(&initiator(1)),
        Isid([0x80, 0, 0, 0, 0, 1]),
        SessionKind::Normal(name(&target(VOLUME))),
    );
    let mut sends = InitiatorOutput::default();
    let mut again = Initiator::connect(bench.now, config, &mut sends);
    let (old, new) = (host.connection, ConnectionId(1000));
    let connected = PortalEvent::Connected {
        connection: new,
        from: "a test".into(),
    };
    bench.at_portal(connected);
    let mut out = Output::default();
    let mut told = Vec::new();
    for number in 0..10 {
        let tag = CommandTag(1000 + number);
        let ready = CommandRequest::new(UNIT, &[0; 6]);
        let taken = host.initiator.submit(tag, ready, &mut host.out);
        taken.expect("its session goes on");
        for (connection, bytes) in [(old, sent(&mut host.out)), (new, sent(&mut sends))] {
            let received = PortalEvent::Received {
                connection,
                bytes,
                received: bench.now,
            };
            bench
                .engine
                .handle(bench.now, Event::Portal(received), &mut out);
        }
        bench.engine.handle_timeout(bench.now, &mut out);
        for command in out.drain() {
            match command {
                Command::Portal(PortalCommand::Send { connection, parts }) if connection == new => {
                    let bytes = Bytes::from(parts.concat());
                    again.handle_received(bench.now, bytes, &mut sends);
                }
                Command::Portal(
                    PortalCommand::Close { connection }
                    | PortalCommand::Pause { connection }
                    | PortalCommand::Resume { connection },
                ) if connection == old => told.push(command),
                _ => {}
            }
        }
        if again.is_logged_in() {
            break;
        }
    }
    assert!(again.is_logged_in());
    let close = told.last();
    assert!(
        matches!(close, Some(Command::Portal(PortalCommand::Close { .. }))),
        "{told:?}"
    );
}
