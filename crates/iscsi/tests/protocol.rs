//! Sessions of initiators that break the protocol, PDU by PDU: what they are told, and what is left
//! undone.

use crate::common::{Answers, World, lun, write_command as write};
use holdfast_iscsi::SerialNumber;
use holdfast_iscsi::pdu::{
    CommandFlags, DataOut, Framing, InitiatorTaskTag, LogoutReason, LogoutRequest, NopOut,
    ReadyToTransfer, Reply, Request, ScsiCommand, Snack, TargetTransferTag, TaskManagementRequest,
    TextRequest, frame,
};
use holdfast_iscsi::target::{CloseReason, ConnectionId, Limits};
use holdfast_scsi::{Lun, TaskAttribute};
use holdfast_stdx::Bytes;

const UNSOLICITED: &str = "InitialR2T=No\0ImmediateData=Yes\0FirstBurstLength=2048\0\
    MaxBurstLength=2048\0MaxOutstandingR2T=2\0";

fn test_unit_ready(tag: u32, number: u32) -> ScsiCommand {
    let flags = CommandFlags {
        is_final: true,
        read: false,
        write: false,
    };
    ScsiCommand {
        flags,
        expected_length: 0,
        cdb: [0; 16],
        ..write(tag, number, 0)
    }
}

fn data(
    tag: u32,
    transfer: TargetTransferTag,
    number: u32,
    offset: u32,
    is_final: bool,
) -> Request {
    Request::DataOut(DataOut {
        is_final,
        lun: lun(),
        task_tag: InitiatorTaskTag(tag),
        transfer_tag: transfer,
        expected_status: SerialNumber(0),
        data_number: SerialNumber(number),
        offset,
    })
}

const UNASKED: TargetTransferTag = TargetTransferTag::RESERVED;

impl World {
    fn command(&mut self, connection: ConnectionId, command: ScsiCommand, data: &[u8]) {
        self.send(connection, &Request::Command(command), data);
    }

    fn ready(&mut self, connection: ConnectionId) -> ReadyToTransfer {
        let (reply, _) = self.reply(connection);
        let Reply::ReadyToTransfer(ready) = reply else {
            panic!("data is asked for, not {reply:?}");
        };
        ready
    }

    /// Status, and the additional sense code where there is one.
    fn status(&mut self, connection: ConnectionId) -> (u8, Option<[u8; 2]>) {
        let (reply, data) = self.reply(connection);
        let Reply::Response(response) = reply else {
            panic!("the command is answered, not {reply:?}");
        };
        let sense = data.get(14..16).map(|code| [code[0], code[1]]);
        (response.status, sense)
    }

    fn refusal(&mut self, connection: ConnectionId) -> u8 {
        let (reply, _) = self.reply(connection);
        let Reply::Reject(reject) = reply else {
            panic!("it is refused, not {reply:?}");
        };
        reject.reason
    }

    /// That the session is well.
    fn assert_alive(&mut self, connection: ConnectionId, number: u32) {
        self.command(connection, test_unit_ready(0x7777, number), &[]);
        assert_eq!(self.status(connection), (0, None));
    }
}

#[test]
fn data_in_all_its_ways() {
    let mut world = World::new(1);
    let connection = world.raw_session(UNSOLICITED);
    // 512 bytes with the command, 1536 after it unasked, the rest in two bursts of 2048 and 1024.
    let mut command = write(1, 100, 10);
    command.flags.is_final = false;
    command.expected_length = 5120;
    world.command(connection, command, &[1; 512]);
    assert!(
        world.replies(connection).is_empty(),
        "not while unsolicited data comes"
    );
    world.send(connection, &data(1, UNASKED, 0, 512, false), &[2; 1024]);
    world.send(connection, &data(1, UNASKED, 1, 1536, true), &[3; 512]);
    let replies = world.replies(connection);
    let [
        (Reply::ReadyToTransfer(first), _),
        (Reply::ReadyToTransfer(second), _),
    ] = replies[..]
    else {
        panic!("two R2Ts, not {replies:?}");
    };
    assert_eq!(
        (first.number, first.offset, first.length),
        (SerialNumber(0), 2048, 2048)
    );
    assert_eq!(
        (second.number, second.offset, second.length),
        (SerialNumber(1), 4096, 1024)
    );
    assert_ne!(first.transfer_tag, second.transfer_tag);
    world.send(
        connection,
        &data(1, first.transfer_tag, 0, 2048, true),
        &[4; 2048],
    );
    world.send(
        connection,
        &data(1, second.transfer_tag, 0, 4096, true),
        &[5; 1024],
    );
    let (Reply::Response(response), _) = world.reply(connection) else {
        panic!("answered");
    };
    assert_eq!(
        (response.status, response.data_number),
        (0, SerialNumber(2))
    );
    for (offset, value) in [
        (0, 1),
        (512, 2),
        (1536, 3),
        (2048, 4),
        (4096, 5),
        (5119, 5),
        (5120, 0),
    ] {
        assert_eq!(world.disk[offset], value, "at {offset}");
    }
}

#[test]
fn data_out_of_order_fails_its_command_after_its_burst() {
    // As libiscsi's iSCSIdatasn: two with number 0, one with 27, one with -1, and 1 before 0.
    for numbers in [&[0, 0][..], &[27], &[u32::MAX], &[1, 0]] {
        let mut world = World::new(1);
        let connection = world.raw_session("InitialR2T=Yes\0ImmediateData=No\0");
        let blocks = numbers.len() as u16;
        world.command(connection, write(1, 100, blocks), &[]);
        let ready = world.ready(connection);
        for (index, number) in numbers.iter().enumerate() {
            assert!(
                world.replies(connection).is_empty(),
                "not before the burst is over"
            );
            let is_final = index + 1 == numbers.len();
            let pdu = data(1, ready.transfer_tag, *number, index as u32 * 512, is_final);
            world.send(connection, &pdu, &[9; 512]);
        }
        assert_eq!(
            world.status(connection),
            (2, Some([0x47, 0x05])),
            "{numbers:?}"
        );
        assert!(world.disk.iter().all(|byte| *byte == 0));
        world.assert_alive(connection, 101);
    }
}

#[test]
fn data_that_nobody_asked_for() {
    // Immediate data where there is none, or more of it than FirstBurstLength, or for a command
    // that writes nothing.
    let mut world = World::new(1);
    let connection = world.raw_session("ImmediateData=No\0InitialR2T=Yes\0");
    world.command(connection, write(1, 100, 1), &[1; 512]);
    assert_eq!(world.status(connection), (2, Some([0x0C, 0x0C])));
    world.command(connection, test_unit_ready(2, 101), &[1; 4]);
    assert_eq!(world.status(connection), (2, Some([0x0C, 0x0C])));
    // F=0 although InitialR2T is Yes: answered when the data that follows has come.
    let mut command = write(3, 102, 1);
    command.flags.is_final = false;
    world.command(connection, command, &[]);
    assert!(world.replies(connection).is_empty());
    world.send(connection, &data(3, UNASKED, 0, 0, true), &[1; 512]);
    assert_eq!(world.status(connection), (2, Some([0x0C, 0x0C])));
    // Unsolicited data while an R2T is open.
    world.command(connection, write(4, 103, 1), &[]);
    let ready = world.ready(connection);
    world.send(connection, &data(4, UNASKED, 0, 0, true), &[1; 512]);
    world.send(
        connection,
        &data(4, ready.transfer_tag, 0, 0, true),
        &[1; 512],
    );
    assert_eq!(world.status(connection), (2, Some([0x0C, 0x0C])));
    world.assert_alive(connection, 104);

    let mut world = World::new(1);
    let connection = world.raw_session(UNSOLICITED);
    world.command(connection, write(1, 100, 8), &[1; 2049]);
    assert_eq!(world.status(connection), (2, Some([0x0C, 0x0C])));
    let mut command = write(2, 101, 8);
    command.flags.is_final = false;
    world.command(connection, command, &[1; 1024]);
    world.send(connection, &data(2, UNASKED, 0, 1024, true), &[1; 1025]);
    assert_eq!(world.status(connection), (2, Some([0x0C, 0x0C])));
    assert!(world.disk.iter().all(|byte| *byte == 0));
    world.assert_alive(connection, 102);
}

#[test]
fn bursts_of_the_wrong_length_or_tag() {
    for (tag_off, offset, length, is_final, sense) in [
        (0, 0, 512, true, [0x0C, 0x0D]),
        (0, 0, 1025, true, [0x0C, 0x0D]),
        (0, 0, 1024, false, [0x0C, 0x0D]),
        (0, 512, 512, true, [0x47, 0x05]),
    ] {
        let mut world = World::new(1);
        let connection = world.raw_session("InitialR2T=Yes\0ImmediateData=No\0");
        world.command(connection, write(1, 100, 2), &[]);
        let ready = world.ready(connection);
        let transfer = TargetTransferTag(ready.transfer_tag.0 + tag_off);
        world.send(
            connection,
            &data(1, transfer, 0, offset, is_final),
            &vec![1; length],
        );
        assert_eq!(
            world.status(connection),
            (2, Some(sense)),
            "{offset} {length} {is_final}"
        );
        assert_eq!(world.disk[0], 0);
        world.assert_alive(connection, 101);
    }
    // A tag that was never given: the command fails when its own burst is over.
    let mut world = World::new(1);
    let connection = world.raw_session("InitialR2T=Yes\0ImmediateData=No\0");
    world.command(connection, write(1, 100, 1), &[]);
    let ready = world.ready(connection);
    let transfer = TargetTransferTag(ready.transfer_tag.0 + 1);
    world.send(connection, &data(1, transfer, 0, 0, true), &[1; 512]);
    assert!(world.replies(connection).is_empty());
    world.send(
        connection,
        &data(1, ready.transfer_tag, 0, 0, true),
        &[1; 512],
    );
    assert_eq!(world.status(connection), (2, Some([0x47, 0x05])));
    // Data of a command that is over goes nowhere.
    world.send(
        connection,
        &data(1, ready.transfer_tag, 0, 0, true),
        &[1; 512],
    );
    assert!(world.replies(connection).is_empty());
    world.assert_alive(connection, 101);
}

#[test]
fn numbers_outside_of_the_window_are_ignored() {
    let mut world = World::with_limits(
        1,
        Limits {
            window: 8,
            ..Limits::default()
        },
    );
    let connection = world.raw_session("");
    for number in [99, 108, 0, 100_u32.wrapping_add(1 << 31)] {
        world.command(connection, test_unit_ready(1, number), &[]);
        assert!(world.replies(connection).is_empty(), "{number}");
    }
    world.assert_alive(connection, 100);
    // The one that was answered comes again: ignored too.
    world.command(connection, test_unit_ready(1, 100), &[]);
    assert!(world.replies(connection).is_empty());
    world.assert_alive(connection, 101);
}

#[test]
fn numbers_that_come_early_wait_for_their_turn() {
    let mut world = World::new(1);
    world.answers = Answers::Held;
    let connection = world.raw_session("");
    for (tag, number) in [(3, 102), (2, 101), (4, 103)] {
        let mut command = test_unit_ready(tag, number);
        command.cdb[15] = tag as u8;
        world.command(connection, command, &[]);
        assert!(world.held.is_empty());
    }
    world.command(connection, test_unit_ready(1, 100), &[]);
    let order: Vec<u8> = world.held.iter().map(|command| command.cdb[15]).collect();
    assert_eq!(order, [0, 2, 3, 4]);
}

#[test]
fn what_waits_for_its_turn_is_bounded() {
    let mut world = World::new(1);
    let connection = world.raw_session("MaxRecvDataSegmentLength=262144\0");
    let nop = |number: u32| {
        Request::NopOut(NopOut {
            immediate: false,
            lun: lun(),
            task_tag: InitiatorTaskTag(number),
            transfer_tag: TargetTransferTag::RESERVED,
            command_number: SerialNumber(number),
            expected_status: SerialNumber(0),
        })
    };
    for number in 101..110 {
        world.send(connection, &nop(number), &vec![0; 200_000]);
    }
    assert_eq!(
        world.close_reason(connection),
        Some(CloseReason::ProtocolError)
    );
    assert!(world.held_max < 3 << 20);
}

#[test]
fn tags_that_name_two_tasks_or_none() {
    let mut world = World::new(1);
    world.answers = Answers::Held;
    let connection = world.raw_session("");
    world.command(connection, test_unit_ready(1, 100), &[]);
    world.command(connection, test_unit_ready(1, 101), &[]);
    assert_eq!(world.refusal(connection), 0x07, "task in progress");
    world.command(connection, test_unit_ready(u32::MAX, 102), &[]);
    assert_eq!(world.refusal(connection), 0x09, "invalid field");
    assert_eq!(world.held.len(), 1);
}

#[test]
fn immediate_commands_are_bounded() {
    let mut world = World::new(1);
    world.answers = Answers::Held;
    let connection = world.raw_session("");
    for tag in 0..2 {
        let command = ScsiCommand {
            immediate: true,
            ..test_unit_ready(tag, 100)
        };
        world.command(connection, command, &[]);
    }
    assert_eq!(world.held.len(), 2);
    let command = ScsiCommand {
        immediate: true,
        ..test_unit_ready(8, 100)
    };
    world.command(connection, command, &[]);
    assert_eq!(world.refusal(connection), 0x06);
    // They take no numbers.
    world.answers = Answers::AtOnce;
    world.assert_alive(connection, 100);
}

#[test]
fn what_error_recovery_level_0_does_not_have() {
    let mut world = World::new(1);
    let connection = world.raw_session("");
    let snack = Request::Snack(Snack {
        kind: 0,
        lun: lun(),
        task_tag: InitiatorTaskTag(1),
        transfer_tag: TargetTransferTag::RESERVED,
        expected_status: SerialNumber(0),
        first: SerialNumber(0),
        count: 0,
    });
    world.send(connection, &snack, &[]);
    assert_eq!(world.refusal(connection), 0x03);
    let logout = |reason, cid| {
        Request::Logout(LogoutRequest {
            immediate: true,
            reason,
            task_tag: InitiatorTaskTag(1),
            connection: holdfast_iscsi::ConnectionIdentifier(cid),
            command_number: SerialNumber(100),
            expected_status: SerialNumber(0),
        })
    };
    for (request, code) in [
        (logout(LogoutReason::RemoveForRecovery, 1), 2),
        (logout(LogoutReason::CloseConnection, 2), 1),
    ] {
        world.send(connection, &request, &[]);
        let (Reply::Logout(response), _) = world.reply(connection) else {
            panic!("a logout is answered");
        };
        assert_eq!(response.response, code);
    }
    world.assert_alive(connection, 100);
    world.send(connection, &logout(LogoutReason::CloseConnection, 1), &[]);
    assert!(matches!(world.reply(connection).0, Reply::Logout(it) if it.response == 0));
    assert_eq!(world.close_reason(connection), Some(CloseReason::Logout));
}

#[test]
fn operation_codes_that_targets_do_not_take() {
    let mut world = World::new(1);
    let connection = world.raw_session("");
    for opcode in [0x07, 0x1C, 0x21, 0x3F] {
        let mut bytes = [0; 48];
        bytes[0] = opcode;
        world.send_raw(connection, Bytes::copy_from_slice(&bytes));
        assert_eq!(world.refusal(connection), 0x05);
    }
    world.assert_alive(connection, 100);
}

#[test]
fn a_number_is_taken_although_its_request_is_refused() {
    let mut world = World::new(1);
    let connection = world.raw_session("");
    let mut logout = [0; 48];
    logout[0] = 0x06;
    logout[1] = 0x83;
    logout[24..28].copy_from_slice(&100_u32.to_be_bytes());
    world.send_raw(connection, Bytes::copy_from_slice(&logout));
    assert_eq!(world.refusal(connection), 0x09);
    world.assert_alive(connection, 101);
}

#[test]
fn both_directions_at_once_are_refused() {
    let mut world = World::new(1);
    let connection = world.raw_session("");
    let mut command = write(1, 100, 1);
    command.flags.read = true;
    world.command(connection, command, &[]);
    assert_eq!(world.status(connection), (2, Some([0x0E, 0x03])));
    world.assert_alive(connection, 101);
}

#[test]
fn an_abort_of_a_command_that_is_still_on_its_way() {
    let mut world = World::new(1);
    let connection = world.raw_session("");
    // Command 100 got lost; its abort has the number that comes after it (RFC 7143 11.6.1, case b).
    let abort = |referenced: u32, number: u32| {
        Request::TaskManagement(TaskManagementRequest {
            immediate: true,
            function: 1,
            lun: lun(),
            task_tag: InitiatorTaskTag(9),
            referenced_tag: InitiatorTaskTag(1),
            command_number: SerialNumber(number),
            expected_status: SerialNumber(0),
            referenced_number: SerialNumber(referenced),
        })
    };
    let code = |world: &mut World| {
        let (Reply::TaskManagement(response), _) = world.reply(connection) else {
            panic!("task management is answered");
        };
        response.response
    };
    world.send(connection, &abort(100, 101), &[]);
    assert_eq!(code(&mut world), 0);
    // Its number is taken: when it comes after all, it is ignored.
    world.command(connection, test_unit_ready(1, 100), &[]);
    assert!(world.replies(connection).is_empty());
    world.assert_alive(connection, 101);
    // One further ahead: taken when its turn comes.
    world.send(connection, &abort(103, 104), &[]);
    assert_eq!(code(&mut world), 0);
    world.assert_alive(connection, 102);
    world.assert_alive(connection, 104);
    // One that was answered long ago.
    world.send(connection, &abort(102, 105), &[]);
    assert_eq!(code(&mut world), 1);
}

#[test]
fn texts_that_contradict_themselves() {
    let mut world = World::new(1);
    let connection = world.raw_session("");
    let text = |is_final, more, transfer_tag| {
        Request::Text(TextRequest {
            immediate: true,
            is_final,
            more,
            lun: Lun::from_number(0),
            task_tag: InitiatorTaskTag(3),
            transfer_tag,
            command_number: SerialNumber(100),
            expected_status: SerialNumber(0),
        })
    };
    world.send(connection, &text(true, true, UNASKED), b"A=1\0");
    assert_eq!(world.refusal(connection), 0x04);
    world.send(
        connection,
        &text(true, false, TargetTransferTag(77)),
        b"A=1\0",
    );
    assert_eq!(world.refusal(connection), 0x09);
    world.send(connection, &text(true, false, UNASKED), b"no pair");
    assert_eq!(world.refusal(connection), 0x04);
    // A text in two requests.
    world.send(connection, &text(false, true, UNASKED), b"X-a=");
    let (Reply::Text(response), _) = world.reply(connection) else {
        panic!("text is answered");
    };
    assert!(!response.is_final && !response.more);
    world.send(
        connection,
        &text(true, false, response.transfer_tag),
        b"1\0",
    );
    let (Reply::Text(response), answer) = world.reply(connection) else {
        panic!("text is answered");
    };
    assert!(response.is_final && response.transfer_tag.is_reserved());
    assert_eq!(answer, b"X-a=NotUnderstood\0");
    // A text without end.
    world.send(connection, &text(false, true, UNASKED), &[b'x'; 8000]);
    for _ in 0..100 {
        match world.reply(connection).0 {
            Reply::Text(response) => {
                let request = text(false, true, response.transfer_tag);
                world.send(connection, &request, &[b'x'; 8000]);
            }
            Reply::Reject(reject) => {
                assert_eq!(reject.reason, 0x0A);
                world.assert_alive(connection, 100);
                return;
            }
            other => panic!("{other:?}"),
        }
    }
    panic!("it is refused in the end");
}

/// With data digests: a PDU, its data's digest damaged if `damaged`.
fn digested(request: &Request, data: &[u8], damaged: bool) -> Bytes {
    let framing = Framing {
        data_digest: true,
        ..Framing::LOGIN
    };
    let mut parts = Vec::new();
    frame(
        request.encode(),
        vec![Bytes::copy_from_slice(data)],
        framing,
        &mut parts,
    );
    let mut bytes = parts.concat();
    if damaged {
        *bytes.last_mut().unwrap() ^= 1;
    }
    Bytes::from(bytes)
}

const DIGESTED: Framing = Framing {
    data_digest: true,
    data_length_max: 1 << 20,
    ..Framing::LOGIN
};

/// RFC 7143 7.8: the PDU is rejected, and the command fails when the rest of its data has come.
#[test]
fn data_out_that_comes_damaged_costs_its_command_only() {
    let mut world = World::new(1);
    let connection = world.raw_session("DataDigest=CRC32C\0ImmediateData=No\0InitialR2T=Yes\0");
    for damaged in [0, 1] {
        let number = 100 + damaged * 2;
        let tag = 5 + damaged;
        let command = Request::Command(write(tag, number, 2));
        world.send_raw(connection, digested(&command, &[], false));
        let ready = world.ready(connection);
        let before = world.delivered;
        for part in 0..2 {
            let pdu = data(tag, ready.transfer_tag, part, part * 512, part == 1);
            world.send_raw(connection, digested(&pdu, &[7; 512], part == damaged));
        }
        let replies = world.replies_in(connection, DIGESTED);
        let [
            (Reply::Reject(reject), header),
            (Reply::Response(response), sense),
        ] = &replies[..]
        else {
            panic!("a refusal, and then the command's answer: {replies:?}");
        };
        assert_eq!((reject.reason, header.len()), (0x02, 48));
        assert_eq!(response.status, 0x02);
        assert_eq!(sense[14..16], [0x47, 0x05], "protocol service CRC error");
        assert_eq!(world.delivered, before, "nobody else saw it");
        world.assert_alive(connection, number + 1);
    }
    assert!(world.disk.iter().all(|byte| *byte == 0));
}

/// A request whose number is not taken would leave a gap that nothing fills.
#[test]
fn a_command_whose_data_comes_damaged_ends_the_session() {
    let mut world = World::new(1);
    let connection = world.raw_session("DataDigest=CRC32C\0");
    let command = Request::Command(write(5, 100, 1));
    world.send_raw(connection, digested(&command, &[7; 512], true));
    let replies = world.replies_in(connection, DIGESTED);
    assert!(matches!(&replies[..], [(Reply::Reject(it), _)] if it.reason == 0x02));
    let reason = world.close_reason(connection);
    assert_eq!(reason, Some(CloseReason::DigestError));
}

#[test]
fn a_header_that_comes_damaged_ends_the_session() {
    let mut world = World::new(1);
    let connection = world.raw_session("HeaderDigest=CRC32C\0");
    let framing = Framing {
        header_digest: true,
        ..Framing::LOGIN
    };
    let mut parts = Vec::new();
    let request = Request::Command(test_unit_ready(5, 100));
    frame(request.encode(), Vec::new(), framing, &mut parts);
    let mut bytes = parts.concat();
    bytes[20] ^= 1;
    world.send_raw(connection, Bytes::from(bytes));
    assert_eq!(world.delivered, 0);
    let reason = world.close_reason(connection);
    assert_eq!(reason, Some(CloseReason::DigestError));
}

/// What comes behind an ORDERED command does not take the room that this one has to have first: they
/// would wait for each other.
#[test]
fn room_is_given_in_the_order_of_commands() {
    let limits = Limits {
        data_in_max: 64 << 10,
        data_out_max: 64 << 10,
        connection_bytes_max: 64 << 10,
        ..Limits::default()
    };
    let mut world = World::with_limits(1, limits);
    let connection = world.raw_session("InitialR2T=Yes\0ImmediateData=No\0");
    world.command(connection, write(1, 100, 1), &[]);
    let first = world.ready(connection);
    let ordered = ScsiCommand {
        flags: CommandFlags {
            is_final: true,
            read: true,
            write: false,
        },
        attribute: TaskAttribute::Ordered,
        expected_length: 64 << 10,
        ..write(2, 101, 128)
    };
    world.command(connection, ordered, &[]);
    world.command(connection, write(3, 102, 1), &[]);
    let block = [7; 512];
    let sent = data(1, first.transfer_tag, 0, 0, true);
    world.send(connection, &sent, &block);
    // The first is answered, then the ordered one, and then data is asked for.
    let replies = world.replies(connection);
    let answered = |tag: u32| {
        let mut answers = replies.iter().map(|(reply, _)| reply);
        answers.any(|reply| match reply {
            Reply::Response(response) => response.task_tag == InitiatorTaskTag(tag),
            _ => false,
        })
    };
    assert!(answered(1) && answered(2), "{replies:?}");
    let Some((Reply::ReadyToTransfer(last), _)) = replies.last() else {
        panic!("data is asked for: {replies:?}");
    };
    world.send(connection, &data(3, last.transfer_tag, 0, 0, true), &block);
    assert_eq!(world.status(connection), (0, None));
}

#[test]
fn room_is_kept_for_those_ahead_whose_unsolicited_data_is_on_its_way() {
    let limits = Limits {
        data_in_max: 4096,
        data_out_max: 8192,
        connection_bytes_max: 8192,
        ..Limits::default()
    };
    let mut world = World::with_limits(1, limits);
    let connection = world.raw_session(UNSOLICITED);
    let mut ordered = write(1, 100, 16);
    ordered.flags.is_final = false;
    ordered.attribute = TaskAttribute::Ordered;
    world.command(connection, ordered, &[]);
    world.command(connection, write(2, 101, 16), &[]);
    assert!(world.replies(connection).is_empty(), "its turn comes later");
    world.send(connection, &data(1, UNASKED, 0, 0, true), &[7; 2048]);
    let (mut asked, mut answered) = (Vec::new(), Vec::new());
    loop {
        let replies = world.replies(connection);
        if replies.is_empty() {
            break;
        }
        for (reply, _) in replies {
            match reply {
                Reply::ReadyToTransfer(ready) => {
                    asked.push(ready.task_tag.0);
                    let tag = ready.task_tag.0;
                    let burst = data(tag, ready.transfer_tag, 0, ready.offset, true);
                    world.send(connection, &burst, &vec![7; ready.length as usize]);
                }
                Reply::Response(response) => answered.push(response.task_tag.0),
                other => panic!("{other:?}"),
            }
        }
    }
    assert_eq!(asked, [1, 1, 1, 2, 2, 2, 2]);
    assert_eq!(answered, [1, 2]);
}
