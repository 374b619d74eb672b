//! Whole sessions as hosts have them: logins with what they negotiate, reads and writes with every
//! way of sending data, task management, logouts, and nodes that go.

use super::step;
use super::world::manners;

/// Those around the machine do their part at once.
const PROMPT: u8 =
    manners::TAKE | manners::ANSWER | manners::CONFIRM | manners::MANAGE | manners::SEND;

const CONNECT: [u8; 2] = [step::CONNECT, 0];

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for flags in [0x00, 0x08, 0x1A, 0x0E, 0x4C, 0x01, 0x07, 0x20] {
        for manners in [
            PROMPT,
            PROMPT | 0x40,
            PROMPT | 0xC0,
            PROMPT | manners::CROWD,
            manners::TAKE,
        ] {
            seeds.push(session(flags, manners));
        }
    }
    seeds.extend((0..9).map(management));
    // Everybody has to go, or goes.
    for last in [
        &[step::MAINTENANCE, 0, 2, step::PASS, 0, 3][..],
        &[step::DIRECTORY, 0, 3, step::PASS, 0, 1],
        &[step::REQUEST_LOGOUT, 0, 3, step::LOG_OUT, 0, 1],
        &[step::ABORT, 0, 0, 1, step::DROP, 0],
        &[step::PASS, 0, 5, step::PASS, 0, 5],
    ] {
        seeds.push(again(last));
    }
    // Proofs: the right one, each wrong one, one for both sides.
    for twist in 0..8 {
        let mut seed = vec![PROMPT];
        seed.extend(CONNECT);
        seed.extend([step::LOG_IN, 0, 0x01, 0, twist, step::COMMAND, 0, 1, 0, 0]);
        seeds.push(seed);
    }
    seeds.push(single_requests());
    seeds
}

/// A session that negotiates so, with every way of moving data.
fn session(flags: u8, manners: u8) -> Vec<u8> {
    let mut seed = vec![manners];
    seed.extend(CONNECT);
    seed.extend([step::LOG_IN, 0, flags, 0, 0]);
    for kind in 0..6 {
        for length in [0, 5, 7] {
            seed.extend([step::COMMAND, 0, kind, 0, length]);
        }
    }
    seed.extend([step::ANSWER_R2T, 0, 0, 0, step::ANSWER_R2T, 0, 0, 0x32]);
    seed.extend([step::RESPOND, 0, 0, 1, 0x10, 0]);
    seed.extend([step::RESPOND, 0, 1, 0, 0, 0]);
    seed.extend([step::NOP, 0, 1, 2, step::TEXT, 0, 8, 0]);
    seed.extend([step::LOG_OUT, 0, 1, step::FINISH_SESSION, 0, 0]);
    seed
}

/// A task management function, with commands of two sessions under way.
fn management(function: u8) -> Vec<u8> {
    let mut seed = vec![manners::TAKE | manners::SEND];
    for isid in [0, 1] {
        seed.extend(CONNECT);
        seed.extend([step::LOG_IN, 0, 0x08, isid, 0]);
        seed.extend([step::COMMAND, 0, 1, 0, 3, step::COMMAND, 0, 2, 0, 3]);
        seed.extend([step::COMMAND, 0, 5, 0, 3]);
    }
    seed.extend([step::MANAGE, 0, function, 0, 0]);
    seed.extend([step::RESPOND, 0, 0, 1, 2, 0, step::STALE, 0, 0]);
    seed.extend([step::FINISH_MANAGEMENT, 0, 0, 0]);
    seed.extend([step::RESPOND, 0, 0, 0, 0, 0]);
    seed
}

/// The same host again and again, while its commands are under way, and then that.
fn again(last: &[u8]) -> Vec<u8> {
    let mut seed = vec![manners::TAKE];
    for _ in 0..3 {
        seed.extend(CONNECT);
        seed.extend([step::LOG_IN, 0, 0x08, 0, 0]);
        seed.extend([step::COMMAND, 0, 1, 0, 3, step::COMMAND, 0, 2, 0, 5]);
    }
    seed.extend([step::FINISH_SESSION, 0, 0, step::SOCKET, 0, 2]);
    seed.extend(last);
    seed
}

/// Logins, headers and bytes that are put together by hand.
fn single_requests() -> Vec<u8> {
    let mut seed = vec![PROMPT, step::CONNECT, 0];
    seed.extend([step::LOGIN_REQUEST, 0, 2, 0x10, 0, 2, 0, 4, 0]);
    seed.extend([
        step::LOGIN_REQUEST,
        0,
        0,
        0x20,
        0,
        2,
        8,
        9,
        4,
        b'a',
        b'=',
        b'b',
        0,
    ]);
    let mut nop = [0; 48];
    nop[0] = 0x40;
    nop[1] = 0x80;
    nop[19] = 77;
    nop[20..24].fill(0xFF);
    seed.extend([step::HEADER, 0]);
    seed.extend(nop);
    seed.extend([
        step::DATA_OUT,
        0,
        1,
        0,
        0,
        step::SNACK,
        0,
        1,
        0,
        step::SPOIL,
        0,
        7,
    ]);
    seed.extend([step::BYTES, 0, 48]);
    seed.extend(nop);
    seed.extend([step::MANNERS, 0, 0, step::CLOSE, 0]);
    seed
}
