//! Whose requests are looked at when more has come than is looked at at once.

use std::collections::BTreeMap;

use crate::common;
use crate::common::{World, read_10};
use holdfast_iscsi::SerialNumber;
use holdfast_iscsi::pdu::{
    CommandFlags, InitiatorTaskTag, NopOut, Reply, Request, ScsiCommand, TargetTransferTag,
    TaskManagementRequest,
};
use holdfast_iscsi::target::{ConnectionId, Limits, Target, TargetOutput};
use holdfast_scsi::TaskAttribute;
use holdfast_stdx::Bytes;

/// What small commands a turn carries out.
const TURN: usize = 16;
/// From so much on what waits for its turn is not added to.
const BACKLOG: usize = 256 << 10;

/// TEST UNIT READY, or a READ (10) of so many bytes, the `index`th of its session.
fn command(index: u32, bytes: u32) -> Bytes {
    let mut cdb = [0; 16];
    if bytes > 0 {
        cdb[0] = 0x28;
    }
    let request = ScsiCommand {
        immediate: false,
        flags: CommandFlags {
            is_final: true,
            read: bytes > 0,
            write: false,
        },
        attribute: TaskAttribute::Simple,
        lun: common::lun(),
        task_tag: InitiatorTaskTag(index),
        expected_length: bytes,
        command_number: SerialNumber(100 + index),
        expected_status: SerialNumber(0),
        cdb: {
            cdb[15] = u8::try_from(index).expect("commands are few");
            cdb
        },
    };
    common::framed(&Request::Command(request), &[])
}

/// A question with data, which comes back with the answer.
fn question(index: u32, data: &[u8]) -> Bytes {
    let nop = Request::NopOut(NopOut {
        immediate: true,
        lun: common::lun(),
        task_tag: InitiatorTaskTag(index),
        transfer_tag: TargetTransferTag::RESERVED,
        command_number: SerialNumber(100),
        expected_status: SerialNumber(0),
    });
    common::framed(&nop, data)
}

/// ABORT TASK for the `index`th command of its session, which is not there.
fn abort(index: u32) -> Bytes {
    let request = Request::TaskManagement(TaskManagementRequest {
        immediate: true,
        function: 1,
        lun: common::lun(),
        task_tag: InitiatorTaskTag(1000 + index),
        referenced_tag: InitiatorTaskTag(index),
        command_number: SerialNumber(100),
        expected_status: SerialNumber(0),
        referenced_number: SerialNumber(100 + index),
    });
    common::framed(&request, &[])
}

/// The commands that came up since the last call: whose, and which.
fn came_up(world: &mut World) -> Vec<(ConnectionId, u8)> {
    let connections: BTreeMap<_, _> = world
        .target
        .sessions()
        .map(|it| (it.session, it.connection))
        .collect();
    let held = std::mem::take(&mut world.held);
    let come = held.iter().map(|it| (connections[&it.session], it.cdb[15]));
    come.collect()
}

/// A world whose commands are not answered, in which turns come when the test wants.
fn world(limits: Limits) -> World {
    let mut world = World::with_limits(1, limits);
    world.answers = common::Answers::Held;
    world
}

#[test]
fn one_command_does_not_wait_for_those_that_another_connection_has_sent() {
    let mut world = world(Limits::default());
    let (many, one) = (world.raw_session_of(1, ""), world.raw_session_of(2, ""));
    world.takes_turns = false;
    let commands: Vec<u8> = (0..32).flat_map(|index| command(index, 0)).collect();
    world.send_raw(many, commands.into());
    world.with_target(Target::handle_turn);
    let mut come = came_up(&mut world);
    assert_eq!(come.len(), TURN, "a turn is bounded");
    world.send_raw(one, command(0, 0));
    world.with_target(Target::handle_turn);
    let second = came_up(&mut world);
    assert_eq!(second.len(), TURN);
    assert_eq!(second[0], (one, 0), "it is the first");
    come.extend(second);
    assert!(world.target.has_turn());
    world.with_target(Target::handle_turn);
    come.extend(came_up(&mut world));
    assert!(!world.target.has_turn(), "nothing is left");
    let of_many = come.iter().filter(|(connection, _)| *connection == many);
    assert!(of_many.map(|(_, index)| *index).eq(0..32), "in their order");
}

#[test]
fn data_that_is_asked_for_makes_a_turn_shorter() {
    let mut world = world(Limits::default());
    let connection = world.raw_session_of(1, "");
    world.takes_turns = false;
    let commands: Vec<u8> = (0..32).flat_map(|it| command(it, 64 << 10)).collect();
    world.send_raw(connection, commands.into());
    world.with_target(Target::handle_turn);
    // Five each.
    assert_eq!(came_up(&mut world).len(), TURN.div_ceil(5));
}

/// A host that gives up a hundred commands at once is told of each: those that came in one segment do not count as pending together
/// before the layer above has seen the first.
#[test]
fn each_task_management_function_has_a_turn_of_its_own() {
    let mut world = world(Limits::default());
    let connection = world.raw_session_of(1, "");
    world.takes_turns = false;
    let aborts: Vec<u8> = (0..100).flat_map(abort).collect();
    world.send_raw(connection, aborts.into());
    while world.target.has_turn() {
        world.with_target(Target::handle_turn);
        for request in std::mem::take(&mut world.management) {
            world.finish_management(&request);
        }
    }
    let replies = world.replies(connection);
    assert_eq!(replies.len(), 100);
    for (reply, _) in replies {
        assert!(matches!(reply, Reply::TaskManagement(_)), "{reply:?}");
    }
}

#[test]
fn a_request_in_two_parts_is_looked_at_when_it_is_whole() {
    let mut world = world(Limits::default());
    let connection = world.raw_session_of(1, "");
    world.takes_turns = false;
    let mut first = command(0, 0);
    let rest = first.split_off(20);
    world.send_raw(connection, first);
    assert!(!world.target.has_turn());
    world.send_raw(connection, rest);
    assert!(world.target.has_turn());
    world.with_target(Target::handle_turn);
    assert_eq!(came_up(&mut world), [(connection, 0)]);
    assert!(!world.target.has_turn());
}

#[test]
fn who_has_much_waiting_is_not_read_until_it_was_served_and_nothing_is_lost() {
    let mut world = world(Limits::default());
    let connection = world.raw_session_of(1, "MaxRecvDataSegmentLength=65536\0");
    world.takes_turns = false;
    let (mut sent, mut answered, mut pauses) = (0, 0, 0);
    while answered < 500 {
        while sent < 500 && world.target.wants_input(connection) {
            world.send_raw(connection, question(sent, &[sent as u8; 8000]));
            sent += 1;
        }
        if sent < 500 {
            assert!(world.target.held_bytes() >= BACKLOG);
            assert!(world.target.held_bytes() < BACKLOG + 8192);
            pauses += 1;
        }
        let mut out = TargetOutput::default();
        world.target.handle_turn(world.now, &mut out);
        assert!(out.served.contains(&connection));
        world.with_target(|_, _, given| *given = out);
        for (reply, data) in world.replies(connection) {
            let Reply::NopIn(nop) = reply else {
                panic!("questions are answered: {reply:?}");
            };
            assert_eq!(nop.task_tag, InitiatorTaskTag(answered), "in their order");
            assert_eq!(data, [answered as u8; 8000]);
            answered += 1;
        }
    }
    assert!(pauses > 5, "{pauses}");
    assert!(world.target.wants_input(connection));
    assert!(!world.target.has_turn());
    assert_eq!(world.close_reason(connection), None);
}

#[test]
fn turns_do_not_make_memory_short() {
    let limits = Limits {
        connections_max: 4,
        logins_max: 4,
        sessions_max: 4,
        input_total_max: 64 << 10,
        ..Limits::default()
    };
    let mut world = world(limits);
    let connection = world.raw_session_of(1, "MaxRecvDataSegmentLength=65536\0");
    world.takes_turns = false;
    for index in 0..20 {
        world.send_raw(connection, question(index, &[7; 8000]));
        assert!(world.target.held_bytes() <= 64 << 10);
    }
    assert_eq!(world.close_reason(connection), None);
    let early = world.replies(connection).len();
    assert!(early >= 12, "{early} were answered before their turn");
    while world.target.has_turn() {
        world.with_target(Target::handle_turn);
    }
    assert_eq!(world.replies(connection).len() + early, 20);
}

/// The rest of a request is on its way, and the memory is taken by others who wait for their turn.
#[test]
fn nobody_is_closed_for_what_others_have_waiting() {
    let limits = Limits {
        connections_max: 4,
        logins_max: 4,
        sessions_max: 4,
        input_total_max: 64 << 10,
        ..Limits::default()
    };
    let mut world = world(limits);
    let others = [1, 2].map(|isid| world.raw_session_of(isid, ""));
    let connection = world.raw_session_of(3, "MaxRecvDataSegmentLength=65536\0");
    world.takes_turns = false;
    for index in 0..3 {
        for other in others {
            world.send_raw(other, question(index, &[7; 8000]));
        }
    }
    let mut request = question(0, &[7; 30_000]);
    let rest = request.split_off(20_000);
    world.send_raw(connection, request);
    world.send_raw(connection, rest);
    while world.target.has_turn() {
        world.with_target(Target::handle_turn);
    }
    for of in [connection, others[0], others[1]] {
        assert_eq!(world.close_reason(of), None);
    }
    assert_eq!(world.replies(connection).len(), 1);
    assert_eq!(world.replies(others[0]).len(), 3);
}

#[test]
fn a_connection_that_was_closed_has_no_turn() {
    let mut world = world(Limits::default());
    let (gone, other) = (world.raw_session_of(1, ""), world.raw_session_of(2, ""));
    world.takes_turns = false;
    world.send_raw(gone, command(0, 0));
    world.send_raw(other, command(0, 0));
    world.with_target(|target, now, out| target.handle_closed(now, gone, out));
    world.with_target(Target::handle_turn);
    assert_eq!(came_up(&mut world), [(other, 0)]);
    world.send_raw(other, command(1, 0));
    world.with_target(Target::drop_all_sessions);
    assert!(!world.target.has_turn());
}

/// Its output is stuck, so that it is not looked at; and it is, once its socket takes some.
#[test]
fn what_waited_for_output_has_its_turn_when_that_moves() {
    let mut world = world(Limits::default());
    let connection = world.raw_session_of(1, "MaxRecvDataSegmentLength=65536\0");
    world.sockets_take = false;
    let mut sent = 0;
    while world.target.wants_input(connection) {
        world.send_raw(connection, question(sent, &[7; 8000]));
        sent += 1;
    }
    let stuck: usize = world.raw[&connection].len();
    world.send_raw(connection, question(sent, &[7; 8000]));
    assert!(!world.target.has_turn());
    assert_eq!(world.raw[&connection].len(), stuck);
    world.takes_turns = false;
    world.with_target(|target, now, out| target.handle_sent(now, connection, stuck, out));
    assert!(world.target.has_turn());
    assert_eq!(world.raw[&connection].len(), stuck, "in its turn");
    world.with_target(Target::handle_turn);
    assert!(world.raw[&connection].len() > stuck + 8000);
}

#[test]
fn hosts_at_work_are_served_whenever_turns_come() {
    let mut world = World::new(7);
    let hosts: Vec<usize> = (1..5)
        .map(|host| world.log_in(world.config(host)))
        .collect();
    world.takes_turns = false;
    let mut tags = Vec::new();
    for round in 0..20 {
        for host in &hosts {
            tags.push((*host, world.submit(*host, read_10(round, 8))));
        }
        for _ in 0..round {
            world.step();
        }
    }
    while world.step() || world.target.has_turn() {
        world.with_target(Target::handle_turn);
    }
    for (host, tag) in tags {
        let completion = world.hosts[host].completions.remove(&tag);
        assert!(completion.is_some(), "it is answered");
    }
}
