//! Commands and their data: as hosts send them, and with something wrong.

use holdfast_iscsi::SerialNumber;
use holdfast_iscsi::pdu::{
    CommandFlags, DataOut, InitiatorTaskTag, Request, ScsiCommand, TargetTransferTag,
};
use holdfast_iscsi::target::ConnectionId;
use holdfast_scsi::TaskAttribute;

use super::lun;
use super::peer::{Peer, Wanted};
use super::world::World;
use crate::Input;

/// Whether a command has data, and how it is sent.
mod kind {
    pub(super) const READ: u8 = 1;
    pub(super) const WRITE: u8 = 2;
    /// With its first data in the command's own PDU.
    pub(super) const IMMEDIATE: u8 = 3;
    /// With its first data in PDUs that follow.
    pub(super) const UNSOLICITED: u8 = 4;
    /// The same, but those PDUs do not follow.
    pub(super) const PROMISED: u8 = 5;
    pub(super) const BOTH_WAYS: u8 = 6;
    pub(super) const COUNT: usize = 7;
}

/// Unsolicited data of one command, as the logins here agree on it.
const FIRST_BURST: u32 = 4096;

pub(super) fn send(world: &mut World, id: ConnectionId, input: &mut Input<'_>) {
    const LENGTHS: [u32; 10] = [
        512,
        0,
        1,
        4096,
        8192,
        16_384,
        60_001,
        65_536,
        65_537,
        u32::MAX,
    ];
    const ATTRIBUTES: [TaskAttribute; 4] = [
        TaskAttribute::Simple,
        TaskAttribute::Ordered,
        TaskAttribute::HeadOfQueue,
        TaskAttribute::Aca,
    ];
    let kind = input.below(kind::COUNT) as u8;
    let flags = input.u8();
    let expected_length = input.pick(&LENGTHS);
    let peer = world.peer(id);
    let immediate = flags & 1 != 0;
    let tag = match flags >> 1 & 7 {
        // A tag that may be in use, and the one that names no task.
        7 => InitiatorTaskTag(peer.some_tag(0).0),
        6 if flags & 0x80 != 0 => InitiatorTaskTag::RESERVED,
        _ => peer.new_tag(),
    };
    let data_length = match kind {
        kind::IMMEDIATE => expected_length.min(FIRST_BURST),
        _ => 0,
    };
    let follows = matches!(kind, kind::UNSOLICITED | kind::PROMISED);
    let mut cdb = [0; 16];
    cdb[0] = if kind == kind::READ { 0x28 } else { 0x2A };
    let command = ScsiCommand {
        immediate,
        flags: CommandFlags {
            is_final: !follows,
            read: matches!(kind, kind::READ | kind::BOTH_WAYS),
            write: kind >= kind::WRITE,
        },
        attribute: ATTRIBUTES[usize::from(flags >> 4 & 3)],
        lun: lun(flags >> 5),
        task_tag: tag,
        expected_length,
        command_number: peer.take_number(immediate),
        expected_status: peer.expected_status(),
        cdb,
    };
    peer.is_orderly &= kind != kind::PROMISED;
    let data = vec![b'i'; data_length as usize];
    world.send_pdu(id, &Request::Command(command), &data);
    if kind == kind::UNSOLICITED {
        let end = expected_length.min(FIRST_BURST);
        send_burst(world, id, (tag, TargetTransferTag::RESERVED), 0..end);
    }
}

/// Data from one place to another, in PDUs as long as may be.
fn send_burst(
    world: &mut World,
    id: ConnectionId,
    (task_tag, transfer_tag): (InitiatorTaskTag, TargetTransferTag),
    range: std::ops::Range<u32>,
) {
    let mut number = SerialNumber::ZERO;
    let mut offset = range.start;
    while offset < range.end {
        let length = (range.end - offset).min(world.peer(id).segment_max);
        let pdu = DataOut {
            is_final: offset + length == range.end,
            lun: lun(0),
            task_tag,
            transfer_tag,
            expected_status: world.peer(id).expected_status(),
            data_number: number,
            offset,
        };
        let data = vec![number.0 as u8; length as usize];
        world.send_pdu(id, &Request::DataOut(pdu), &data);
        (number, offset) = (number.next(), offset + length);
    }
}

/// Answers an R2T: all of it, as it should be.
pub(super) fn answer_exactly(world: &mut World, id: ConnectionId, wanted: &Wanted) {
    let ready = &wanted.ready;
    let tags = (ready.task_tag, ready.transfer_tag);
    let end = ready.offset + ready.length;
    send_burst(world, id, tags, ready.offset..end);
}

/// Answers an R2T, rightly or not.
pub(super) fn answer_r2t(world: &mut World, id: ConnectionId, input: &mut Input<'_>) {
    let (choice, twist) = (input.u8(), input.u8());
    let peer = world.peer(id);
    if peer.wanted.is_empty() {
        return;
    }
    let index = usize::from(choice) % peer.wanted.len();
    // Answers in another order than they were asked for are wrong, too.
    let tag = peer.wanted[index].ready.task_tag;
    let is_first = peer.wanted.iter().position(|it| it.ready.task_tag == tag) == Some(index);
    peer.is_orderly &= is_first && twist == 0;
    if twist == 0 && peer.wanted[index].sent == 0 {
        let wanted = peer.wanted.remove(index).expect("it was just there");
        answer_exactly(world, id, &wanted);
        return;
    }
    let (pdu, length) = part(peer, index, twist);
    world.send_pdu(id, &Request::DataOut(pdu), &vec![b'r'; length as usize]);
}

/// The next PDU that answers an R2T, with something wrong where `twist` says so.
fn part(peer: &mut Peer, index: usize, twist: u8) -> (DataOut, u32) {
    let expected_status = peer.expected_status();
    let segment_max = peer.segment_max;
    let wanted = &mut peer.wanted[index];
    let ready = wanted.ready;
    let left = ready.length - wanted.sent;
    let mut length = left.min(segment_max).min(match twist >> 4 {
        0 => u32::MAX,
        count => u32::from(count) * 100,
    });
    let mut pdu = DataOut {
        is_final: length == left,
        lun: ready.lun,
        task_tag: ready.task_tag,
        transfer_tag: ready.transfer_tag,
        expected_status,
        data_number: SerialNumber(wanted.pdus),
        offset: ready.offset + wanted.sent,
    };
    match twist & 0x0F {
        2 => pdu.is_final = !pdu.is_final,
        3 => pdu.offset = pdu.offset.wrapping_add(4),
        4 => pdu.data_number = pdu.data_number.next(),
        5 => pdu.transfer_tag = TargetTransferTag(pdu.transfer_tag.0 ^ 1),
        6 => pdu.task_tag = InitiatorTaskTag(pdu.task_tag.0 ^ 1),
        7 => length += 4,
        8 => length = 0,
        9 => pdu.transfer_tag = TargetTransferTag::RESERVED,
        _ => {}
    }
    wanted.sent += length.min(left);
    wanted.pdus += 1;
    if wanted.sent == ready.length {
        peer.wanted.remove(index);
    }
    (pdu, length)
}

/// Data that nobody asked for.
pub(super) fn send_data(world: &mut World, id: ConnectionId, input: &mut Input<'_>) {
    let flags = input.u8();
    let offset = input.pick(&[0, 512, 4000, 4096, u32::MAX]);
    let length = input.pick(&[512, 0, 1, 96, 4096, 8192]);
    let peer = world.peer(id);
    peer.is_orderly = false;
    let pdu = DataOut {
        is_final: flags & 1 != 0,
        lun: lun(0),
        task_tag: InitiatorTaskTag(peer.some_tag(flags >> 4).0),
        transfer_tag: match flags & 2 {
            0 => TargetTransferTag::RESERVED,
            _ => TargetTransferTag(u32::from(flags >> 4)),
        },
        expected_status: peer.expected_status(),
        data_number: SerialNumber(u32::from(flags >> 2 & 3)),
        offset,
    };
    world.send_pdu(id, &Request::DataOut(pdu), &vec![b'd'; length]);
}
