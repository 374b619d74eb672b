//! From when on the time counts that a command takes: when the last byte of it, or of its data, came.

use crate::common::{Answers, World, framed, lun, write_command};
use holdfast_iscsi::SerialNumber;
use holdfast_iscsi::pdu::{DataOut, InitiatorTaskTag, Reply, Request, ScsiCommand};
use holdfast_iscsi::target::ConnectionId;
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
    ScsiCommand {
        expected_status: STATUS,
        ..write_command(tag, 99 + tag, blocks)
    }
}

/// The commands that came up since the last call: which, and when they were received.
fn came_up(world: &mut World) -> Vec<(u32, Instant)> {
    let held = std::mem::take(&mut world.held);
    let come = held.iter().map(|it| (it.expected_out / 512, it.received));
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
    assert_eq!(came_up(&mut world), [(128, now)]);
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
    assert_eq!(came_up(&mut world), [(4, now)]);
}
