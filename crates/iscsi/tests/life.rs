//! What an initiator sent it may have given up by the time it comes: what leaves something behind is carried out only if the
//! initiator is known to wait for it.

use crate::common::{Answers, World, lun, read_10, test_unit_ready, write_10, write_command};
use holdfast_iscsi::SerialNumber;
use holdfast_iscsi::initiator::CommandRequest;
use holdfast_iscsi::pdu::{
    CommandFlags, InitiatorTaskTag, NopOut, Reply, Request, ScsiCommand, TargetTransferTag,
    TaskManagementRequest,
};
use holdfast_iscsi::target::{CloseReason, ConnectionId, KNOWN_FOR, SessionId};
use holdfast_scsi::{Status, TaskAttribute};
use holdfast_stdx::{Bytes, Duration};

const IDLE: Duration = Duration::from_millis(700);
/// The status that the login of a raw session was answered with.
const LOGIN_STATUS: u32 = 1;

/// A write of a block, with its data, of an initiator that expects status `expected` next.
fn write(tag: u32, expected: u32) -> ScsiCommand {
    ScsiCommand {
        expected_status: SerialNumber(expected),
        ..write_command(tag, 99 + tag, 1)
    }
}

fn send(world: &mut World, connection: ConnectionId, command: ScsiCommand) {
    world.send(connection, &Request::Command(command), &[7; 512]);
}

fn answer_question(transfer_tag: TargetTransferTag) -> Request {
    Request::NopOut(NopOut {
        immediate: true,
        lun: lun(),
        task_tag: InitiatorTaskTag::RESERVED,
        transfer_tag,
        command_number: SerialNumber(101),
        expected_status: SerialNumber(LOGIN_STATUS + 1),
    })
}

/// The one reply, which is a question.
fn question(world: &mut World, connection: ConnectionId) -> TargetTransferTag {
    let (Reply::NopIn(question), _) = world.reply(connection) else {
        panic!("it is asked");
    };
    assert!(question.task_tag.is_reserved());
    question.transfer_tag
}

/// A raw session that has been idle, and a disk that holds what it is given.
fn idle() -> (World, ConnectionId) {
    let mut world = World::new(7);
    world.answers = Answers::Held;
    let connection = world.raw_session("");
    world.now += IDLE;
    (world, connection)
}

fn session(world: &World) -> SessionId {
    *world.sessions.keys().next().unwrap()
}

#[test]
fn who_was_idle_is_asked_before_what_it_writes_is_carried_out() {
    let (mut world, connection) = idle();
    send(&mut world, connection, write(1, LOGIN_STATUS + 1));
    let arrived = world.now;
    assert!(world.held.is_empty(), "it may have been given up");
    let tag = question(&mut world, connection);
    world.now += Duration::from_millis(1);
    world.send(connection, &answer_question(tag), &[]);
    assert_eq!(world.held.len(), 1);
    assert_eq!(world.held[0].since, arrived);
    assert_eq!(world.target.alive_at(session(&world)), Some(arrived));
}

/// The host has closed its socket, or is no more: the question reaches nobody.
#[test]
fn what_comes_of_a_closed_socket_is_never_carried_out() {
    let (mut world, connection) = idle();
    send(&mut world, connection, write(1, LOGIN_STATUS + 1));
    question(&mut world, connection);
    world.with_target(|target, now, out| target.handle_closed(now, connection, out));
    assert_eq!(world.delivered, 0);
    assert_eq!(world.closings.len(), 1);
    assert_eq!(world.closings[0].1, CloseReason::PeerClosed);
    assert_eq!(world.target.held_bytes(), 0);
}

/// All of it was sent long ago, by one who did hear answers while it sent.
#[test]
fn a_late_stream_does_not_vouch_for_itself() {
    let mut world = World::new(7);
    world.answers = Answers::Held;
    let connection = world.raw_session("");
    // It was answered twice before its cable came loose.
    for tag in [1, 2] {
        send(&mut world, connection, write(tag, LOGIN_STATUS + tag));
        let command = world.held.pop().unwrap();
        world.answer(&command);
    }
    world.replies(connection);
    world.now += Duration::from_secs(4);
    send(&mut world, connection, write(3, LOGIN_STATUS + 2));
    send(&mut world, connection, write(4, LOGIN_STATUS + 3));
    assert!(world.held.is_empty());
    question(&mut world, connection);
}

#[test]
fn a_host_at_work_is_never_asked() {
    let mut world = World::new(7);
    let config = world.config(0);
    let host = world.log_in(config);
    for block in 0..100 {
        let data = vec![Bytes::from(vec![7; 512])];
        let done = world.complete(host, write_10(block, 1, data));
        assert_eq!(done.status, 0);
        world.now += KNOWN_FOR - Duration::from_millis(1);
    }
    assert_eq!(world.questions, 0);
    world.now += Duration::from_millis(2);
    let data = vec![Bytes::from(vec![7; 512])];
    assert_eq!(world.complete(host, write_10(0, 1, data)).status, 0);
    assert_eq!(world.questions, 1);
}

/// Its life is counted from the moment at which its initiator is known to have been there.
#[test]
fn what_is_known_to_be_young_may_be_a_little_older() {
    let mut world = World::new(7);
    world.answers = Answers::Held;
    let connection = world.raw_session("");
    let known = world.now;
    world.now += KNOWN_FOR;
    send(&mut world, connection, write(1, LOGIN_STATUS + 1));
    assert_eq!(world.held[0].since, known);
}

#[test]
fn a_number_that_was_never_sent_proves_nothing() {
    for expected in [LOGIN_STATUS, LOGIN_STATUS + 2, 0, 1 << 31, u32::MAX] {
        let mut world = World::new(7);
        world.answers = Answers::Held;
        let connection = world.raw_session("");
        send(&mut world, connection, write(1, expected));
        assert!(world.held.is_empty(), "{expected}");
        question(&mut world, connection);
        assert_eq!(world.target.alive_at(session(&world)), None);
    }
}

/// An R2T is a question too.
#[test]
fn data_that_was_asked_for_says_that_its_host_is_there() {
    let mut world = World::new(7);
    let mut config = world.config(0);
    config.preferences.immediate_data = false;
    config.preferences.initial_r2t = true;
    let host = world.log_in(config);
    world.now += IDLE;
    let data = vec![Bytes::from(vec![7; 512])];
    assert_eq!(world.complete(host, write_10(0, 1, data)).status, 0);
    assert_eq!(world.questions, 0);
    assert_eq!(world.target.alive_at(session(&world)), Some(world.now));
}

#[test]
fn what_leaves_nothing_behind_waits_for_nobody() {
    let mut world = World::new(7);
    let config = world.config(0);
    let host = world.log_in(config);
    for request in [test_unit_ready(), read_10(0, 1)] {
        world.now += IDLE;
        assert_eq!(world.complete(host, request).status, 0);
    }
    assert_eq!(world.questions, 0);
    // A reservation has no data, and is one all the same (SPC-2 RESERVE).
    world.now += IDLE;
    world.complete(host, CommandRequest::new(lun(), &[0x16, 0, 0, 0, 0, 0]));
    assert_eq!(world.questions, 1);
}

/// The one reply, which puts a command off.
fn busy(world: &mut World, connection: ConnectionId) {
    let (Reply::Response(busy), _) = world.reply(connection) else {
        panic!("it is answered");
    };
    assert_eq!(busy.status, Status::Busy.code());
}

/// It is there, and cannot say so.
#[test]
fn who_cannot_be_asked_is_told_to_come_again() {
    let (mut world, connection) = idle();
    send(&mut world, connection, write(1, LOGIN_STATUS + 1));
    let asked = question(&mut world, connection);
    world.pass(Duration::from_millis(2999));
    assert!(world.replies(connection).is_empty());
    world.pass(Duration::from_millis(1));
    busy(&mut world, connection);
    // The question had named that status, so that it may be what it acknowledges. It is not asked in vain again.
    world.now += Duration::from_millis(20);
    send(&mut world, connection, write(2, LOGIN_STATUS + 2));
    busy(&mut world, connection);
    world.now += Duration::from_millis(20);
    send(&mut world, connection, write(3, LOGIN_STATUS + 3));
    assert_eq!(world.held.len(), 1);
    // A late answer says that it can be asked after all.
    let known = world.target.alive_at(session(&world));
    world.send(connection, &answer_question(asked), &[]);
    assert_eq!(world.target.alive_at(session(&world)), known);
    world.now += IDLE;
    send(&mut world, connection, write(4, LOGIN_STATUS + 3));
    question(&mut world, connection);
}

/// Whatever else comes in the moment in which its time is over.
#[test]
fn a_command_is_put_off_in_time() {
    let (mut world, connection) = idle();
    send(&mut world, connection, write(1, LOGIN_STATUS + 1));
    question(&mut world, connection);
    world.now += Duration::from_secs(3);
    send(&mut world, connection, write(2, LOGIN_STATUS + 1));
    let replies = world.replies(connection);
    assert_eq!(replies.len(), 2, "{replies:?}");
    for (reply, _) in replies {
        assert!(matches!(reply, Reply::Response(it) if it.status == Status::Busy.code()));
    }
}

/// A question that was asked before a command came does not shorten that one's time.
#[test]
fn a_command_has_its_own_time() {
    let (mut world, connection) = idle();
    let session = session(&world);
    world.with_target(|target, now, out| target.ask_for_life(now, session, out));
    question(&mut world, connection);
    world.pass(Duration::from_millis(2900));
    send(&mut world, connection, write(1, LOGIN_STATUS + 1));
    world.pass(Duration::from_millis(2999));
    assert!(world.replies(connection).is_empty());
    world.pass(Duration::from_millis(1));
    busy(&mut world, connection);
}

fn ping(tag: u32, expected: u32) -> Request {
    Request::NopOut(NopOut {
        immediate: true,
        lun: lun(),
        task_tag: InitiatorTaskTag(tag),
        transfer_tag: TargetTransferTag::RESERVED,
        command_number: SerialNumber(101),
        expected_status: SerialNumber(expected),
    })
}

/// R2T names the next status without taking it (RFC 7143 11.8.2), and libiscsi counts that as received.
#[test]
fn a_number_that_was_named_before_it_was_sent_proves_nothing() {
    let mut world = World::new(7);
    let connection = world.raw_session("");
    send(&mut world, connection, write(1, LOGIN_STATUS + 1));
    let long = ScsiCommand {
        expected_length: 128 << 10,
        ..write(2, LOGIN_STATUS + 1)
    };
    send(&mut world, connection, long);
    let replies = world.replies(connection);
    let Some((Reply::ReadyToTransfer(ready), _)) = replies.last() else {
        panic!("it is asked for data: {replies:?}");
    };
    let named = ready.sequence.status;
    world.now += Duration::from_secs(5);
    world.answers = Answers::Held;
    // Both were sent when the first write had been answered: one before the R2T was heard, one after that.
    world.send(connection, &ping(9, LOGIN_STATUS + 2), &[]);
    send(&mut world, connection, write(3, named.next().0));
    assert!(world.held.is_empty(), "nothing was heard for five seconds");
}

/// The same where the status that it had been named is that a command was put off.
#[test]
fn to_be_put_off_is_not_heard_before_it_is_said() {
    let mut world = World::new(7);
    let connection = world.raw_session("");
    let long = ScsiCommand {
        expected_length: 128 << 10,
        ..write(1, LOGIN_STATUS + 1)
    };
    send(&mut world, connection, long);
    world.replies(connection);
    world.now += Duration::from_secs(5);
    world.answers = Answers::Held;
    send(&mut world, connection, write(2, LOGIN_STATUS + 2));
    world.pass(Duration::from_secs(3));
    world.now += Duration::from_millis(300);
    send(&mut world, connection, write(3, LOGIN_STATUS + 2));
    assert!(world.held.is_empty());
}

/// Even if the request itself is refused for want of room.
#[test]
fn any_request_brings_word() {
    let (mut world, connection) = idle();
    let abort = |tag: u32, expected| {
        Request::TaskManagement(TaskManagementRequest {
            immediate: true,
            function: 1,
            lun: lun(),
            task_tag: InitiatorTaskTag(tag),
            referenced_tag: InitiatorTaskTag(77),
            command_number: SerialNumber(100),
            expected_status: SerialNumber(expected),
            referenced_number: SerialNumber(200),
        })
    };
    for tag in 50..58 {
        world.send(connection, &abort(tag, 0), &[]);
    }
    assert_eq!(world.management.len(), 8);
    // What it acknowledges is too old, until it is the answer to what came after the write.
    world.send(connection, &ping(80, LOGIN_STATUS + 1), &[]);
    world.now += IDLE;
    send(&mut world, connection, write(1, LOGIN_STATUS + 1));
    for tag in [1, 2] {
        world.send(connection, &ping(80 + tag, LOGIN_STATUS + 1 + tag), &[]);
        assert!(world.held.is_empty());
    }
    world.send(connection, &abort(60, LOGIN_STATUS + 4), &[]);
    assert_eq!(world.held.len(), 1);
}

/// An answer that is itself late says nothing of what came after the question.
#[test]
fn a_late_answer_is_asked_again() {
    let (mut world, connection) = idle();
    let session = session(&world);
    world.with_target(|target, now, out| target.ask_for_life(now, session, out));
    let early = question(&mut world, connection);
    world.now += IDLE;
    send(&mut world, connection, write(1, LOGIN_STATUS + 1));
    assert!(world.replies(connection).is_empty(), "it was asked already");
    world.send(connection, &answer_question(early), &[]);
    assert!(world.held.is_empty());
    let tag = question(&mut world, connection);
    world.send(connection, &answer_question(tag), &[]);
    assert_eq!(world.held.len(), 1);
}

#[test]
fn what_waits_for_word_of_its_host_can_be_aborted() {
    let (mut world, connection) = idle();
    send(&mut world, connection, write(1, LOGIN_STATUS + 1));
    let tag = question(&mut world, connection);
    world.answers = Answers::AtOnce;
    let abort = TaskManagementRequest {
        immediate: true,
        function: 1,
        lun: lun(),
        task_tag: InitiatorTaskTag(2),
        referenced_tag: InitiatorTaskTag(1),
        command_number: SerialNumber(101),
        expected_status: SerialNumber(LOGIN_STATUS + 1),
        referenced_number: SerialNumber(100),
    };
    world.send(connection, &Request::TaskManagement(abort), &[]);
    let (Reply::TaskManagement(done), _) = world.reply(connection) else {
        panic!("an abort is answered");
    };
    assert_eq!(done.response, 0);
    world.send(connection, &answer_question(tag), &[]);
    assert_eq!(world.delivered, 0);
}

/// Who has lost its registration to PREEMPT AND ABORT has lost these, too.
#[test]
fn what_waits_can_be_ended_for_a_session() {
    let (mut world, connection) = idle();
    let session = session(&world);
    send(&mut world, connection, write(1, LOGIN_STATUS + 1));
    let tag = question(&mut world, connection);
    world.with_target(|target, now, out| target.abort_waiting(now, session, 1, out));
    assert!(world.target.held_bytes() > 0, "it is for another unit");
    world.with_target(|target, now, out| target.abort_waiting(now, session, 0, out));
    world.send(connection, &answer_question(tag), &[]);
    assert_eq!(world.delivered, 0);
    assert!(world.replies(connection).is_empty());
    assert_eq!(world.target.held_bytes(), 0);
    send(&mut world, connection, write(2, LOGIN_STATUS + 1));
    assert_eq!(world.held.len(), 1, "others go on");
    world.with_target(|target, now, out| target.abort_waiting(now, session, 0, out));
    let command = world.held.pop().unwrap();
    world.answer(&command);
    assert_eq!(world.replies(connection).len(), 1, "it had begun");
}

/// Who waits does not let those behind it by that must not pass it.
#[test]
fn order_is_kept_while_the_host_is_asked() {
    let (mut world, connection) = idle();
    let ordered = ScsiCommand {
        attribute: TaskAttribute::Ordered,
        ..write(1, LOGIN_STATUS + 1)
    };
    send(&mut world, connection, ordered);
    let tag = question(&mut world, connection);
    let mut read = write(2, LOGIN_STATUS + 1);
    read.cdb[0] = 0x28;
    read.flags = CommandFlags {
        is_final: true,
        read: true,
        write: false,
    };
    world.send(connection, &Request::Command(read), &[]);
    assert!(world.held.is_empty());
    world.send(connection, &answer_question(tag), &[]);
    let codes: Vec<u8> = world.held.iter().map(|command| command.cdb[0]).collect();
    assert_eq!(codes, [0x2A, 0x28]);
}
