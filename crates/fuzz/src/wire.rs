//! What another node can send: frames, hellos, messages.
//!
//! The checksums are put right, or nothing behind them would ever be reached.
//!
//! Invariants:
//! - a message that was read is written, and read again, as the same.

use holdfast_model::{ClusterId, Incarnation, NodeId, StoreId};
use holdfast_stdx::{Bytes, crc32c};
use holdfast_wire::{
    FRAME_HEADER_BYTES, FrameHeader, Hello, Lane, Message, WIRE_VERSION, decode, encode,
    hello_from_frame, hello_to_frame,
};

use crate::Input;

pub(crate) fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let flags = input.u8();
    if flags & 1 != 0 {
        // As it comes.
        let header = FrameHeader::parse(&input.array());
        if let Ok(header) = header {
            read(&header, &Bytes::copy_from_slice(input.take_all()));
        }
        return;
    }
    let version = match flags & 2 {
        0 => WIRE_VERSION,
        _ => u16::from(input.u8()),
    };
    let opcode = u16::from(input.u8());
    let payload_length = usize::from(input.u16());
    let rest = input.take_all();
    let (body, seen) = rest.split_at(rest.len() - rest.len().min(payload_length).min(64));
    // What is not there in full is repeated: blocks are long.
    let payload: Vec<u8> = match seen {
        [] => vec![0; payload_length],
        seen => seen.iter().copied().cycle().take(payload_length).collect(),
    };
    let has_checksum = flags & 4 != 0;
    let header = header(version, opcode, body, &payload, has_checksum);
    if let Ok(header) = FrameHeader::parse(&header) {
        assert_eq!(header.rest_length(), body.len() + payload.len());
        let rest = [body, &payload].concat();
        read(&header, &Bytes::from(rest));
    }
}

fn header(
    version: u16,
    opcode: u16,
    body: &[u8],
    payload: &[u8],
    has_checksum: bool,
) -> [u8; FRAME_HEADER_BYTES] {
    let mut header = [0; FRAME_HEADER_BYTES];
    header[..4].copy_from_slice(b"HFWR");
    header[4..6].copy_from_slice(&version.to_le_bytes());
    header[6..8].copy_from_slice(&opcode.to_le_bytes());
    header[8..12].copy_from_slice(&(body.len() as u32).to_le_bytes());
    header[12..16].copy_from_slice(&(payload.len() as u32).to_le_bytes());
    header[16..20].copy_from_slice(&crc32c(body).to_le_bytes());
    let checksum = if has_checksum { crc32c(payload) } else { 0 };
    header[20..24].copy_from_slice(&checksum.to_le_bytes());
    let checksum = crc32c(&header[..60]);
    header[60..].copy_from_slice(&checksum.to_le_bytes());
    header
}

fn read(header: &FrameHeader, rest: &Bytes) {
    if rest.len() != header.rest_length() {
        return;
    }
    if let Ok(hello) = hello_from_frame(header, rest) {
        let (header, rest) = parsed(&hello_to_frame(&hello));
        assert_eq!(hello_from_frame(&header, &rest), Ok(hello));
    }
    if let Ok(message) = decode(header, rest) {
        let (header, rest) = parsed(&encode(&message));
        let again = decode(&header, &rest).expect("what is written can be read");
        assert_eq!(again, message);
    }
}

fn parsed(parts: &[Bytes]) -> (FrameHeader, Bytes) {
    let whole = parts.concat();
    let (header, rest) = whole
        .split_first_chunk::<FRAME_HEADER_BYTES>()
        .expect("a frame begins with its header");
    let header = FrameHeader::parse(header).expect("a header of ours is one");
    (header, Bytes::copy_from_slice(rest))
}

/// A hello, and for each code that a message may have, bodies that are long enough for most.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let hello = Hello {
        cluster: ClusterId(1),
        node: NodeId(1),
        store: StoreId(5),
        incarnation: Incarnation(9),
        to: NodeId(2),
        link: 77,
        lane: Lane::Data,
        version: WIRE_VERSION,
    };
    let mut raw = vec![1];
    raw.extend(hello_to_frame(&hello).concat());
    let mut seeds = vec![raw];
    for opcode in 0..=OPCODE_MAX {
        for length in [12, 29, 45, 46, 60, 62, 70, 90] {
            for fill in [0, 1] {
                let mut seed = vec![4, opcode, 0, 0];
                seed.extend(std::iter::repeat_n(fill, length));
                if let Some(body) = seed.get(4..)
                    && is_understood(opcode, body)
                {
                    seeds.push(seed);
                }
            }
        }
    }
    seeds
}

/// Seeds are looked for with codes up to this: some more than there are.
const OPCODE_MAX: u8 = 40;

fn is_understood(opcode: u8, body: &[u8]) -> bool {
    let header = header(WIRE_VERSION, opcode.into(), body, &[], true);
    let header = FrameHeader::parse(&header).expect("it was just made");
    let message: Option<Message> = decode(&header, &Bytes::copy_from_slice(body)).ok();
    message.is_some()
}
