//! What a node holds is bounded whatever its initiators do, and however many they are.

use crate::common;
use crate::common::{Answers, World, framed, login, lun};
use holdfast_iscsi::pdu::{
    CommandFlags, DataOut, InitiatorTaskTag, LoginStage, LoginStatus, NopOut, Reply, Request,
    ScsiCommand, TargetTransferTag,
};
use holdfast_iscsi::target::{ConnectionId, Limits};
use holdfast_iscsi::{Isid, SerialNumber};
use holdfast_scsi::TaskAttribute;
use holdfast_stdx::Bytes;

const MIB: usize = 1 << 20;
/// What hosts negotiate that want to send as much as they may.
const EAGER: &str = "InitialR2T=No\0ImmediateData=Yes\0FirstBurstLength=65536\0\
    MaxBurstLength=1048576\0MaxRecvDataSegmentLength=262144\0";
/// A write that expects to send so much.
const EXPECTED: u32 = 129 * 512;

struct Session {
    connection: ConnectionId,
    command_max: SerialNumber,
    text: String,
}

/// Logs in as the initiator port `port`.
fn log_in(world: &mut World, port: u16, keys: &str) -> Result<Session, LoginStatus> {
    let connection = world.connect_raw();
    let [high, low] = port.to_be_bytes();
    let mut request = login(
        LoginStage::OperationalNegotiation,
        Some(LoginStage::FullFeature),
    );
    request.isid = Isid([0x80, 0, 0, 0, high, low]);
    let text = format!("{}{keys}", common::WHO);
    world.send(connection, &Request::Login(request), text.as_bytes());
    let (Reply::Login(response), text) = world.reply(connection) else {
        panic!("a login is answered");
    };
    match response.status {
        LoginStatus::Success => Ok(Session {
            connection,
            command_max: response.sequence.command_max,
            text: String::from_utf8(text).unwrap(),
        }),
        status => Err(status),
    }
}

fn command(tag: u32, number: u32, read: bool, code: u8, expected: u32) -> ScsiCommand {
    let mut cdb = [0; 16];
    cdb[..10].copy_from_slice(&common::cdb_10(code, 0, (expected / 512) as u16));
    ScsiCommand {
        immediate: false,
        flags: CommandFlags {
            is_final: read,
            read,
            write: !read,
        },
        attribute: TaskAttribute::Simple,
        lun: lun(),
        task_tag: InitiatorTaskTag(tag),
        expected_length: expected,
        command_number: SerialNumber(number),
        expected_status: SerialNumber(0),
        cdb,
    }
}

fn nop(tag: u32, transfer: bool) -> Request {
    Request::NopOut(NopOut {
        immediate: true,
        lun: lun(),
        task_tag: if transfer {
            InitiatorTaskTag(tag)
        } else {
            InitiatorTaskTag::RESERVED
        },
        transfer_tag: TargetTransferTag::RESERVED,
        command_number: SerialNumber(100),
        expected_status: SerialNumber(0),
    })
}

/// Fills a session's window with writes that begin and never end.
fn fill_window(world: &mut World, session: &Session, data: &[u8]) -> u32 {
    let commands = session.command_max.0 - 99;
    for number in 0..commands {
        let command = command(number, 100 + number, false, 0x2A, EXPECTED);
        world.send(session.connection, &Request::Command(command), data);
    }
    commands
}

#[test]
fn windows_of_all_sessions_stay_within_their_room() {
    let mut world = World::new(1);
    let limits = Limits::default();
    let wide = vec![7; 65_024];
    let narrow = vec![7; 8192];
    let mut least = u32::MAX;
    for port in 0..400 {
        let session = log_in(&mut world, port, EAGER).unwrap();
        let is_wide = session.text.contains("ImmediateData=Yes");
        assert_eq!(is_wide, usize::from(port) < limits.wide_sessions_max);
        assert_eq!(is_wide, session.text.contains("InitialR2T=No"));
        let data = if is_wide { &wide } else { &narrow };
        least = least.min(fill_window(&mut world, &session, data));
        assert!(world.close_reason(session.connection).is_none());
    }
    assert!(least >= 8, "{least}: every session has a window");
    let held = world.held_max as u64;
    assert!(held <= limits.window_bytes_max + (1 << 20), "{held}");
    assert!(held >= limits.window_bytes_max / 4, "{held}: they are used");
}

#[test]
fn the_first_session_has_a_whole_window_and_leaves_room_for_others() {
    let mut world = World::new(1);
    let first = log_in(&mut world, 0, EAGER).unwrap();
    assert_eq!(first.command_max.0 - 99, 128);
    let second = log_in(&mut world, 1, EAGER).unwrap();
    assert!(second.command_max.0 - 99 >= 64);
    // Its room comes back with it.
    world.with_target(|target, now, out| target.handle_closed(now, first.connection, out));
    world.with_target(|target, now, out| target.handle_closed(now, second.connection, out));
    let third = log_in(&mut world, 2, EAGER).unwrap();
    assert_eq!(third.command_max.0 - 99, 128);
}

#[test]
fn a_session_that_ended_keeps_its_room_until_its_commands_are_over() {
    let mut world = World::new(1);
    world.answers = Answers::Held;
    world.confirms_closings = false;
    let limits = Limits::default();
    for port in 0..limits.wide_sessions_max as u16 {
        let session = log_in(&mut world, port, EAGER).unwrap();
        world.with_target(|target, now, out| target.handle_closed(now, session.connection, out));
    }
    let narrow = log_in(&mut world, 100, EAGER).unwrap();
    assert!(narrow.text.contains("ImmediateData=No"), "{}", narrow.text);
    let (ended, _) = world.closings[0];
    world.finish_session(ended);
    let wide = log_in(&mut world, 101, EAGER).unwrap();
    assert!(wide.text.contains("ImmediateData=Yes"), "{}", wide.text);
}

#[test]
fn beyond_the_room_for_them_who_negotiates_nothing_is_refused() {
    let mut world = World::new(1);
    for port in 0..Limits::default().wide_sessions_max as u16 {
        log_in(&mut world, port, "").unwrap();
    }
    let refused = log_in(&mut world, 100, "").err();
    assert_eq!(refused, Some(LoginStatus::OutOfResources));
    log_in(&mut world, 101, EAGER).unwrap();
}

#[test]
fn narrow_sessions_write_what_they_are_asked_for() {
    let mut world = World::new(1);
    for port in 0..Limits::default().wide_sessions_max as u16 {
        log_in(&mut world, port, EAGER).unwrap();
    }
    let session = log_in(&mut world, 100, EAGER).unwrap();
    let mut write = command(1, 100, false, 0x2A, 8192);
    write.flags.is_final = true;
    world.send(session.connection, &Request::Command(write), &[]);
    let (Reply::ReadyToTransfer(ready), _) = world.reply(session.connection) else {
        panic!("data is asked for");
    };
    let data = Request::DataOut(DataOut {
        is_final: true,
        lun: lun(),
        task_tag: InitiatorTaskTag(1),
        transfer_tag: ready.transfer_tag,
        expected_status: SerialNumber(0),
        data_number: SerialNumber(0),
        offset: 0,
    });
    world.send(session.connection, &data, &[9; 8192]);
    let (Reply::Response(response), _) = world.reply(session.connection) else {
        panic!("a write is answered");
    };
    assert_eq!(response.status, 0);
    assert_eq!(world.disk[..8192], [9; 8192]);
}

#[test]
fn output_that_nobody_reads_is_bounded_in_sum() {
    let mut world = World::new(1);
    let limits = Limits::default();
    let sessions: Vec<Session> = (0..300)
        .map(|port| log_in(&mut world, port, EAGER).unwrap())
        .collect();
    world.sockets_take = false;
    for session in &sessions {
        let read = command(1, 100, true, 0x28, 1 << 20);
        world.send(session.connection, &Request::Command(read), &[]);
    }
    // What was reserved for the reads, what the bound is, and a piece for each.
    let bound = limits.total_bytes_max as usize + limits.output_total_max + 300 * 2 * 8500 + MIB;
    assert!(world.held_max <= bound, "{} > {bound}", world.held_max);
    // They ask whether it is there, too.
    for session in &sessions {
        let mut sent = 0;
        while world.target.wants_input(session.connection) {
            world.send(session.connection, &nop(9, true), &[0; 8000]);
            sent += 1;
            assert!(sent < 10, "a connection of many has little output");
        }
    }
    assert!(world.held_max <= bound, "{} > {bound}", world.held_max);
}

#[test]
fn a_closed_connection_s_output_counts_while_its_socket_has_it() {
    let mut world = World::new(1);
    let limits = Limits::default();
    world.sockets_take = false;
    let mut opened: u16 = 0;
    let mut closed = Vec::new();
    // Each leaves as much as it may, and is closed.
    loop {
        let session = log_in(&mut world, opened, EAGER).unwrap();
        opened += 1;
        let mut sent = 0;
        while world.target.wants_input(session.connection) {
            world.send(session.connection, &nop(9, true), &[0; 8000]);
            sent += 1;
        }
        if sent <= 2 {
            break;
        }
        world.with_target(|target, now, out| target.drop_all_sessions(now, out));
        closed.push(session.connection);
        assert!(usize::from(opened) < 2 * limits.output_total_max / limits.output_bytes_max);
    }
    // When their sockets are gone, there is room again.
    for connection in closed {
        world.with_target(|target, now, out| target.handle_closed(now, connection, out));
    }
    let session = log_in(&mut world, 1000, EAGER).unwrap();
    for _ in 0..10 {
        assert!(world.target.wants_input(session.connection));
        world.send(session.connection, &nop(9, true), &[0; 8000]);
    }
}

#[test]
fn input_that_waits_is_bounded_in_sum() {
    let mut world = World::new(1);
    let limits = Limits::default();
    // PDUs that never end, each as long as its connection may send.
    for port in 0..700 {
        let session = log_in(&mut world, port, EAGER).unwrap();
        let is_wide = session.text.contains("ImmediateData=Yes");
        let length = if is_wide { 262_144 } else { 8192 };
        let pdu = framed(&nop(0, false), &vec![0; length]);
        world.send_raw(session.connection, pdu.slice(..pdu.len() - 4));
        assert!(world.close_reason(session.connection).is_none());
    }
    assert!(world.held_max <= limits.input_total_max + MIB);
}

#[test]
fn input_that_a_driver_read_too_early_is_bounded_in_sum() {
    let mut world = World::new(1);
    let limits = Limits::default();
    let mut held = 0;
    let mut lost = 0;
    for port in 0..200 {
        let session = log_in(&mut world, port, EAGER).unwrap();
        world.sockets_take = false;
        while world.target.wants_input(session.connection) {
            world.send(session.connection, &nop(9, true), &[0; 8000]);
        }
        let before = world.target.held_bytes();
        world.send_raw(session.connection, Bytes::from(vec![0; 256 << 10]));
        held += world.target.held_bytes().saturating_sub(before);
        lost += u32::from(world.close_reason(session.connection).is_some());
        world.sockets_take = true;
    }
    assert!(held <= limits.input_total_max, "{held}");
    assert!(lost > 0, "who brings too much is closed");
}

#[test]
fn a_connection_whose_output_is_full_is_not_read() {
    let limits = Limits {
        output_bytes_max: 64 << 10,
        ..Limits::default()
    };
    let mut world = World::with_limits(1, limits);
    let connection = world.raw_session("");
    world.sockets_take = false;
    // Each answer has 48 bytes and 8,144 of data: eight of them are just what it may be.
    for count in 0..8 {
        assert!(world.target.wants_input(connection), "{count}");
        world.send(connection, &nop(9, true), &[0; 8144]);
    }
    assert_eq!(world.target.held_bytes(), 64 << 10);
    // No answer would be sent from here on, so that none is to be asked for.
    assert!(!world.target.wants_input(connection));
}
