//! From when on the time counts that a command takes: when the last byte of it, or of its data, came, and its initiator was not waited
//! for any more.

use crate::common::{Answers, World, framed, lun, write_command};
use holdfast_iscsi::SerialNumber;
use holdfast_iscsi::pdu::{
    CommandFlags, DataOut, InitiatorTaskTag, NopOut, Reply, Request, ScsiCommand,
};
use holdfast_iscsi::target::{ConnectionId, Limits, Target};
use holdfast_scsi::TaskAttribute;
use holdfast_stdx::{Bytes, Duration, Instant};

/// What the first status of a raw session after its login is numbered.
const STATUS: SerialNumber = SerialNumber(2);
/// A block may be sent unasked.
const SHORT: &str = "InitialR2T=No\0ImmediateData=Yes\0FirstBurstLength=512\0";

fn us(microseconds: u64) -> Duration {
    Duration::from_micros(microseconds)
}

/// A raw session that has just begun, and a disk that holds what it is given.
fn session(keys: &str) -> (World, ConnectionId) {
    let mut world = World::new(7);
    world.answers = Answers::Held;
    let connection = world.raw_session(keys);
    (world, connection)
}

/// A write of the first blocks, of one who has heard that it is logged in.
fn write(tag: u32, blocks: u16) -> ScsiCommand {
    let mut command = write_command(tag, 99 + tag, blocks);
    command.expected_status = STATUS;
    command.cdb[15] = tag as u8;
    command
}

/// The commands that came up since the last call: which, and when they were received.
fn came_up(world: &mut World) -> Vec<(u8, Instant)> {
    let held = std::mem::take(&mut world.held);
    let come = held.iter().map(|it| (it.cdb[15], it.received));
    come.collect()
}

/// A node that is awake reads what a network card brings: of a long PDU as many pieces as it has segments. One of the last is sent
/// again, because it was lost.
#[test]
fn a_request_came_with_its_last_piece_however_many_there_were() {
    let (mut world, connection) = session("");
    let bytes = framed(&Request::Command(write(1, 128)), &[7; 64 << 10]);
    let pieces: Vec<&[u8]> = bytes.chunks(bytes.len().div_ceil(200)).collect();
    assert_eq!(pieces.len(), 200);
    for (number, piece) in pieces.into_iter().enumerate() {
        world.now += us(if number == 199 { 200_000 } else { 10 });
        world.send_raw(connection, Bytes::copy_from_slice(piece));
    }
    let now = world.now;
    assert_eq!(came_up(&mut world), [(1, now)]);
}

#[test]
fn a_write_whose_data_is_asked_for_came_with_the_last_byte_of_that() {
    let (mut world, connection) = session(SHORT);
    world.send(connection, &Request::Command(write(1, 4)), &[7; 512]);
    let (Reply::ReadyToTransfer(ready), _) = world.reply(connection) else {
        panic!("it is asked for the rest");
    };
    assert_eq!((ready.offset, ready.length), (512, 1536));
    let data = |number: u32| {
        let length = if number == 0 { 1024 } else { 512 };
        let pdu = Request::DataOut(DataOut {
            is_final: number == 1,
            lun: lun(),
            task_tag: InitiatorTaskTag(1),
            transfer_tag: ready.transfer_tag,
            expected_status: STATUS,
            data_number: SerialNumber(number),
            offset: 512 + 1024 * number,
        });
        framed(&pdu, &vec![7; length])
    };
    world.now += us(300);
    world.send_raw(connection, data(0));
    let mut last = data(1);
    let end = last.split_off(last.len() - 1);
    world.now += us(5000);
    world.send_raw(connection, last);
    assert_eq!(came_up(&mut world), []);
    world.now += us(70);
    world.send_raw(connection, end);
    let now = world.now;
    assert_eq!(came_up(&mut world), [(1, now)]);
}

/// READ (10) of the first blocks.
fn read(tag: u32, blocks: u16) -> ScsiCommand {
    let mut command = write(tag, blocks);
    command.cdb[0] = 0x28;
    command.flags = CommandFlags {
        is_final: true,
        read: true,
        write: false,
    };
    command
}

/// The host's machine stood still, or is far away: as long as its answer takes, the node has nothing to do.
#[test]
fn a_write_does_not_take_the_time_in_which_its_host_is_asked_whether_it_is_there() {
    let (mut world, connection) = session("");
    world.now += Duration::from_millis(700);
    world.send(connection, &Request::Command(write(1, 1)), &[7; 512]);
    let (Reply::NopIn(question), _) = world.reply(connection) else {
        panic!("it is asked");
    };
    let behind = ScsiCommand {
        attribute: TaskAttribute::Ordered,
        ..write(2, 2)
    };
    world.now += us(20);
    world.send(connection, &Request::Command(behind), &[7; 1024]);
    assert_eq!(came_up(&mut world), []);
    world.now += Duration::from_secs(2);
    world.takes_turns = false;
    let answer = Request::NopOut(NopOut {
        immediate: true,
        lun: lun(),
        task_tag: InitiatorTaskTag::RESERVED,
        transfer_tag: question.transfer_tag,
        command_number: SerialNumber(102),
        expected_status: STATUS,
    });
    let answered = world.now;
    world.send(connection, &answer, &[]);
    // The node has it in hand while the answer waits for its turn.
    world.now += us(30);
    world.with_target(Target::handle_turn);
    assert_eq!(came_up(&mut world), [(1, answered), (2, answered)]);
    // What comes after that waited for nobody.
    world.now += us(10);
    world.send(connection, &Request::Command(read(3, 1)), &[]);
    world.now += us(10);
    world.with_target(Target::handle_turn);
    assert_eq!(came_up(&mut world), [(3, answered + us(40))]);
}

/// Reads of a host that takes its answers when it likes: what it has sent meanwhile was read from the connection and waits, as do
/// those for which there is no room before it has taken some.
#[test]
fn nothing_takes_the_time_in_which_its_host_does_not_read() {
    let mut world = World::with_limits(
        7,
        Limits {
            output_bytes_max: 64 << 10,
            data_in_max: 128 << 10,
            data_out_max: 128 << 10,
            connection_bytes_max: 128 << 10,
            ..Limits::default()
        },
    );
    world.answers = Answers::Held;
    let connection = world.raw_session("");
    world.sockets_take = false;
    for tag in [1, 2] {
        world.send(connection, &Request::Command(read(tag, 256)), &[]);
    }
    let first = world.held.pop().expect("there is room for one");
    world.now += us(100);
    world.answer(&first);
    assert!(!world.target.wants_input(connection));
    world.send(connection, &Request::Command(read(3, 0)), &[]);
    assert_eq!(came_up(&mut world), []);
    world.now += Duration::from_secs(2);
    let taken = world.raw[&connection].len();
    world.takes_turns = false;
    world.with_target(|target, now, out| target.handle_sent(now, connection, taken, out));
    let freed = world.now;
    assert_eq!(came_up(&mut world), [(2, freed)], "there is room");
    // There is output again, and none that is stuck.
    let taken = world.raw[&connection].len() - taken;
    world.with_target(|target, now, out| target.handle_sent(now, connection, taken, out));
    world.now += us(30);
    world.with_target(Target::handle_turn);
    assert_eq!(
        came_up(&mut world),
        [(3, freed)],
        "it has waited for a turn"
    );
}
