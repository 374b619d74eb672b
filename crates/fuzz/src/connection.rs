//! The target's whole machine: several connections from their logins to their ends, with whatever
//! initiators may send on them, a layer above that answers in any order, and sockets that take what
//! they are given when they please.
//!
//! An input is a list of steps (`step`). Most put PDUs together that mean something where the
//! session stands, or nearly; others are headers and bytes as they come. What initiators see is
//! checked in `peer`, what the layer above sees in `world`.
//!
//! Invariants:
//! - no step panics, and what the machine holds is bounded;
//! - when all connections are gone and all sessions confirmed nothing is held, nothing is waited for,
//!   and a host that comes then is served as by a machine that has just started;
//! - who has done its part, and whose commands nobody has ended, is answered when everybody else does
//!   theirs.

use holdfast_iscsi::pdu::{
    HEADER_LENGTH, InitiatorTaskTag, LogoutReason, LogoutRequest, NopOut, Request, Snack,
    TargetTransferTag, TaskManagementRequest, TextRequest,
};
use holdfast_iscsi::target::ConnectionId;
use holdfast_iscsi::{ConnectionIdentifier, SerialNumber};
use holdfast_scsi::Lun;
use holdfast_stdx::Duration;

use crate::Input;

mod above;
mod command;
mod directory;
mod login;
mod peer;
mod probe;
mod seeds;
mod world;

pub(crate) use seeds::seeds;

use peer::Peer;
use world::World;

/// Steps of one input.
const STEPS_MAX: usize = 160;

/// What an input does next, by its number.
pub(super) mod step {
    pub(in crate::connection) const CONNECT: u8 = 0;
    pub(in crate::connection) const LOG_IN: u8 = 1;
    pub(in crate::connection) const LOGIN_REQUEST: u8 = 2;
    pub(in crate::connection) const COMMAND: u8 = 3;
    pub(in crate::connection) const ANSWER_R2T: u8 = 4;
    pub(in crate::connection) const DATA_OUT: u8 = 5;
    pub(in crate::connection) const MANAGE: u8 = 6;
    pub(in crate::connection) const NOP: u8 = 7;
    pub(in crate::connection) const TEXT: u8 = 8;
    pub(in crate::connection) const LOG_OUT: u8 = 9;
    pub(in crate::connection) const SNACK: u8 = 10;
    pub(in crate::connection) const HEADER: u8 = 11;
    pub(in crate::connection) const BYTES: u8 = 12;
    pub(in crate::connection) const RESPOND: u8 = 13;
    pub(in crate::connection) const FINISH_MANAGEMENT: u8 = 14;
    pub(in crate::connection) const FINISH_SESSION: u8 = 15;
    pub(in crate::connection) const STALE: u8 = 16;
    pub(in crate::connection) const PASS: u8 = 17;
    pub(in crate::connection) const SOCKET: u8 = 18;
    pub(in crate::connection) const CLOSE: u8 = 19;
    pub(in crate::connection) const REQUEST_LOGOUT: u8 = 20;
    pub(in crate::connection) const ABORT: u8 = 21;
    pub(in crate::connection) const DIRECTORY: u8 = 22;
    pub(in crate::connection) const MAINTENANCE: u8 = 23;
    pub(in crate::connection) const DROP: u8 = 24;
    pub(in crate::connection) const MANNERS: u8 = 25;
    pub(in crate::connection) const SPOIL: u8 = 26;
    pub(in crate::connection) const COUNT: usize = 27;
}

pub(crate) fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let mut world = World::new(input.u8());
    for _ in 0..STEPS_MAX {
        if input.is_empty() {
            break;
        }
        let step = input.below(step::COUNT) as u8;
        // Which connection it is about; many steps are about none.
        let Some(id) = world.choose(&mut input) else {
            // Nothing can be done before somebody is there.
            world.connect();
            continue;
        };
        take_step(&mut world, step, id, &mut input);
        world.check();
    }
    world.end(input.u8());
}

fn take_step(world: &mut World, step: u8, id: ConnectionId, input: &mut Input<'_>) {
    match step {
        step::CONNECT => world.connect(),
        step::LOG_IN => login::log_in(world, id, input),
        step::LOGIN_REQUEST => login::send_request(world, id, input),
        step::COMMAND => command::send(world, id, input),
        step::ANSWER_R2T => command::answer_r2t(world, id, input),
        step::DATA_OUT => command::send_data(world, id, input),
        step::MANAGE => manage(world, id, input),
        step::NOP => nop(world, id, input),
        step::TEXT => text(world, id, input),
        step::LOG_OUT => log_out(world, id, input),
        step::SNACK => snack(world, id, input),
        step::HEADER => header(world, id, input),
        step::BYTES => {
            let count = usize::from(input.u8());
            world.peer(id).lose_track();
            world.send(id, input.take(count));
        }
        step::RESPOND => world.respond(input),
        step::FINISH_MANAGEMENT => world.finish_management(input),
        step::FINISH_SESSION => world.finish_session(input),
        step::STALE => world.answer_stale(input),
        step::PASS => {
            let millis = input.pick(&[1, 500, 5_000, 11_000, 16_000, 40_000]);
            world.pass(Duration::from_millis(millis));
        }
        step::SOCKET => {
            let bytes = input.pick(&[1, 48, 1000, 9000, 70_000, usize::MAX]);
            world.take_output_of(id, bytes);
        }
        step::CLOSE => world.close(id),
        step::REQUEST_LOGOUT => world.request_logout(id, input.u8().into()),
        step::ABORT => world.abort(input),
        step::DIRECTORY => world.set_directory(input.u8()),
        step::MAINTENANCE => {
            let seconds = input.pick(&[None, Some(0), Some(5), Some(30)]);
            world.with(|target, now, out| target.set_maintenance(now, seconds, out));
        }
        step::DROP => world.with(holdfast_iscsi::target::Target::drop_all_sessions),
        step::MANNERS => world.manners = input.u8(),
        step::SPOIL => world.peer(id).spoils = Some(input.u8()),
        _ => unreachable!("there are so many steps"),
    }
}

/// A unit's address: mostly one that is there.
pub(super) fn lun(choice: u8) -> Lun {
    match choice & 7 {
        0..=3 => Lun::from_number(0),
        4 => Lun::from_number(1),
        5 => Lun::from_number(300),
        6 => Lun::from_bytes([0x40, 0, 0, 0, 0, 0, 0, 0]),
        _ => Lun::from_bytes([0x80, 1, 2, 3, 4, 5, 6, 7]),
    }
}

fn manage(world: &mut World, id: ConnectionId, input: &mut Input<'_>) {
    let (function, flags) = (input.u8(), input.u8());
    world.is_calm = false;
    let peer = world.peer(id);
    let immediate = flags & 1 == 0;
    let (referenced, number) = peer.some_tag(input.u8());
    let request = Request::TaskManagement(TaskManagementRequest {
        immediate,
        function: 1 + function % 10,
        lun: lun(flags >> 1),
        task_tag: peer.new_tag(),
        referenced_tag: InitiatorTaskTag(referenced),
        command_number: peer.take_number(immediate),
        expected_status: peer.expected_status(),
        referenced_number: match flags & 0x80 {
            0 => number,
            _ => peer.next_number().plus(u32::from(flags & 0x70) >> 4),
        },
    });
    world.send_pdu(id, &request, &[]);
}

fn nop(world: &mut World, id: ConnectionId, input: &mut Input<'_>) {
    let flags = input.u8();
    let length = input.pick(&[0, 1, 100, 4000, 8192, 8193, 20_000]);
    let peer = world.peer(id);
    let immediate = flags & 1 != 0;
    let answers = flags & 2 != 0;
    let request = Request::NopOut(NopOut {
        immediate,
        lun: lun(0),
        task_tag: match answers {
            true => InitiatorTaskTag::RESERVED,
            false => peer.new_tag(),
        },
        transfer_tag: match answers {
            true => peer.question.take().unwrap_or(TargetTransferTag(1)),
            false => TargetTransferTag::RESERVED,
        },
        command_number: peer.take_number(immediate),
        expected_status: peer.expected_status(),
    });
    world.send_pdu(id, &request, &vec![b'n'; length]);
}

fn text(world: &mut World, id: ConnectionId, input: &mut Input<'_>) {
    const TEXTS: [&[u8]; 6] = [
        b"SendTargets=All\0",
        b"SendTargets=\0",
        b"SendTargets=iqn.2026-11.example.holdfast:demo\0",
        b"",
        b"MaxRecvDataSegmentLength=512\0X-other=1\0",
        b"SendTar",
    ];
    let flags = input.u8();
    let text: Vec<u8> = match input.u8() {
        choice @ 0..240 => TEXTS[usize::from(choice) % TEXTS.len()].to_vec(),
        count => input.take(usize::from(count) - 239).repeat(20),
    };
    let peer = world.peer(id);
    if flags & 4 != 0 || text.starts_with(b"Max") {
        peer.is_measured = false;
    }
    let immediate = flags & 1 != 0;
    let request = Request::Text(TextRequest {
        immediate,
        is_final: flags & 2 == 0,
        more: flags & 4 != 0,
        lun: lun(0),
        task_tag: peer.text_tag(flags & 8 != 0),
        transfer_tag: match flags & 0x10 {
            0 => TargetTransferTag::RESERVED,
            _ => peer.text_transfer,
        },
        command_number: peer.take_number(immediate),
        expected_status: peer.expected_status(),
    });
    world.send_pdu(id, &request, &text);
}

fn log_out(world: &mut World, id: ConnectionId, input: &mut Input<'_>) {
    let flags = input.u8();
    let peer = world.peer(id);
    let immediate = flags & 1 != 0;
    let request = Request::Logout(LogoutRequest {
        immediate,
        reason: match flags >> 1 & 3 {
            0 | 1 => LogoutReason::CloseSession,
            2 => LogoutReason::CloseConnection,
            _ => LogoutReason::RemoveForRecovery,
        },
        task_tag: peer.new_tag(),
        connection: ConnectionIdentifier(u16::from(flags >> 3 & 1) + 1),
        command_number: peer.take_number(immediate),
        expected_status: peer.expected_status(),
    });
    world.send_pdu(id, &request, &[]);
}

fn snack(world: &mut World, id: ConnectionId, input: &mut Input<'_>) {
    let peer = world.peer(id);
    let request = Request::Snack(Snack {
        kind: input.u8(),
        lun: lun(0),
        task_tag: InitiatorTaskTag(peer.some_tag(input.u8()).0),
        transfer_tag: TargetTransferTag::RESERVED,
        expected_status: peer.expected_status(),
        first: SerialNumber(0),
        count: 1,
    });
    world.send_pdu(id, &request, &[]);
}

/// Any header, at its place in the stream and of the length that it says.
fn header(world: &mut World, id: ConnectionId, input: &mut Input<'_>) {
    let mut header: [u8; HEADER_LENGTH] = input.array();
    let length = u32::from_be_bytes([0, header[5], header[6], header[7]]) as usize;
    let length = length.min(Peer::DATA_MAX);
    header[5..8].copy_from_slice(&(length as u32).to_be_bytes()[1..]);
    let peer = world.peer(id);
    peer.lose_track();
    // Mostly the number whose turn it is.
    if header[24] < 0xF0 {
        let number = peer.take_number(header[0] & 0x40 != 0);
        header[24..28].copy_from_slice(&number.0.to_be_bytes());
    }
    let stream = peer.laid_out(&header, &vec![b'h'; length]);
    world.send(id, &stream);
}
