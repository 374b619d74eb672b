//! PDUs of either side: cut out of a stream, with and without digests, read, and written again.
//!
//! Invariants:
//! - however a stream comes in pieces, the same PDUs and the same error are cut out of it;
//! - what is buffered is less than one PDU and the piece that came last;
//! - a header that was read and is written again is read as the same, and framed and cut out of a
//!   stream again it is the same.

use holdfast_iscsi::SerialNumber;
use holdfast_iscsi::pdu::{
    FrameError, Framing, HEADER_LENGTH, Header, PduReader, Reply, Request, frame, opcode,
};
use holdfast_stdx::{Bytes, crc32c};

use crate::Input;

/// PDUs of one input.
const PDUS_MAX: usize = 64;
/// The most that is put behind a header, padding and digests aside.
const DATA_MAX: usize = 20_000;
/// Bytes beyond the data that belong to one PDU: header, additional headers, padding, digests.
const OVERHEAD_MAX: usize = HEADER_LENGTH + 255 * 4 + 3 + 2 * 4;

/// What was cut out of a stream.
#[derive(Debug, PartialEq)]
struct Cut {
    pdus: Vec<(Header, Vec<u8>)>,
    /// Errors, with how many PDUs came before each.
    errors: Vec<(usize, FrameError)>,
}

pub(crate) fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let flags = input.u8();
    let framing = Framing {
        header_digest: flags & 1 != 0,
        data_digest: flags & 2 != 0,
        data_length_max: [0, 512, 8192, 16_384][usize::from(flags >> 2 & 3)],
    };
    let piece = 1 + usize::from(input.u8());
    let stream = match flags & 0x10 {
        0 => input.take_all().to_vec(),
        _ => laid_out(&mut input, framing, flags & 0x20 != 0),
    };
    let whole = cut(&stream, framing, stream.len().max(1));
    assert_eq!(whole, cut(&stream, framing, piece), "pieces do not matter");
    for (header, data) in &whole.pdus {
        assert!(data.len() <= framing.data_length_max, "it was not agreed");
        assert_eq!(header.data_length(), data.len());
        check_request(header, data, framing);
        check_reply(header, data, framing);
    }
}

/// A stream of PDUs whose lengths and digests are right, but for those of which the input says
/// otherwise.
fn laid_out(input: &mut Input<'_>, framing: Framing, spoils: bool) -> Vec<u8> {
    let mut stream = Vec::new();
    for _ in 0..PDUS_MAX {
        if input.is_empty() {
            break;
        }
        let mut header: [u8; HEADER_LENGTH] = input.array();
        let length = u32::from_be_bytes([0, header[5], header[6], header[7]]) as usize;
        let length = length.min(DATA_MAX);
        header[5..8].copy_from_slice(&(length as u32).to_be_bytes()[1..]);
        let spoiled = if spoils { input.u8() } else { 0 };
        let mut head = header.to_vec();
        head.resize(HEADER_LENGTH + Header(header).additional_length(), 0x5A);
        let digest = crc32c(&head) ^ u32::from(spoiled == 1);
        stream.extend(&head);
        if framing.header_digest {
            stream.extend(digest.to_le_bytes());
        }
        let mut data = input.take(length.min(64)).to_vec();
        data.resize(length.next_multiple_of(4), 0xA5);
        stream.extend(&data);
        if framing.data_digest && length > 0 {
            let digest = crc32c(&data) ^ u32::from(spoiled == 2);
            stream.extend(digest.to_le_bytes());
        }
    }
    stream
}

fn cut(stream: &[u8], framing: Framing, piece: usize) -> Cut {
    let mut reader = PduReader::new(framing);
    let mut cut = Cut {
        pdus: Vec::new(),
        errors: Vec::new(),
    };
    for chunk in stream.chunks(piece) {
        reader.push(Bytes::copy_from_slice(chunk));
        loop {
            match reader.next_pdu() {
                Ok(Some(pdu)) => cut.pdus.push((pdu.header, pdu.data.into_bytes().to_vec())),
                Ok(None) => break,
                Err(error) => {
                    cut.errors.push((cut.pdus.len(), error));
                    if !matches!(error, FrameError::DataDigest(_)) {
                        let again = reader.next_pdu().expect_err("it stays so");
                        assert_eq!(again, error);
                        assert_eq!(reader.buffered(), 0, "nothing is kept of it");
                        return cut;
                    }
                }
            }
        }
        assert!(
            reader.buffered() < framing.data_length_max + OVERHEAD_MAX,
            "less than one PDU is kept"
        );
    }
    cut
}

fn check_request(header: &Header, data: &[u8], framing: Framing) {
    let Ok(request) = Request::parse(header) else {
        return;
    };
    let written = request.encode();
    let again = Request::parse(&written).expect("what is written can be read");
    // That a login is immediate its code says, whatever the bit does (RFC 7143 11.12).
    assert_eq!(again, request, "a request is read as it was written");
    assert_eq!(again.encode(), written);
    check_framed(written, data, framing);
}

fn check_reply(header: &Header, data: &[u8], framing: Framing) {
    let Ok(reply) = Reply::parse(header) else {
        return;
    };
    let written = reply.encode();
    let again = Reply::parse(&written).expect("what is written can be read");
    assert_eq!(again, reply, "a reply is read as it was written");
    assert_eq!(again.encode(), written);
    check_framed(written, data, framing);
}

fn check_framed(header: Header, data: &[u8], framing: Framing) {
    let mut parts = Vec::new();
    let middle = data.len() / 3;
    let data_parts = [&data[..middle], &data[middle..]].map(Bytes::copy_from_slice);
    let length = frame(header, data_parts.to_vec(), framing, &mut parts);
    let stream = parts.concat();
    assert_eq!(stream.len(), length);
    assert!(parts.iter().all(|part| !part.is_empty()));
    let cut = cut(&stream, framing, stream.len());
    assert_eq!(cut.errors, []);
    let [(found, found_data)] = cut.pdus.as_slice() else {
        panic!("one PDU is one PDU");
    };
    assert_eq!(found.0[8..], header.0[8..]);
    assert_eq!(found_data, data);
}

/// One of each kind that either side sends.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let codes = [
        opcode::NOP_OUT,
        opcode::SCSI_COMMAND,
        opcode::TASK_MANAGEMENT_REQUEST,
        opcode::LOGIN_REQUEST,
        opcode::TEXT_REQUEST,
        opcode::DATA_OUT,
        opcode::LOGOUT_REQUEST,
        opcode::SNACK,
        opcode::NOP_IN,
        opcode::SCSI_RESPONSE,
        opcode::TASK_MANAGEMENT_RESPONSE,
        opcode::LOGIN_RESPONSE,
        opcode::TEXT_RESPONSE,
        opcode::DATA_IN,
        opcode::LOGOUT_RESPONSE,
        opcode::READY_TO_TRANSFER,
        opcode::ASYNC_MESSAGE,
        opcode::REJECT,
    ];
    let mut seeds = Vec::new();
    for (index, code) in codes.into_iter().enumerate() {
        let mut header = [0; HEADER_LENGTH];
        header[0] = code;
        header[1] = 0x80;
        // T, from one stage to the next: only logins say that.
        if matches!(code, opcode::LOGIN_REQUEST | opcode::LOGIN_RESPONSE) {
            header[1] = 0x87;
        }
        header[7] = 16;
        header[16..20].copy_from_slice(&7_u32.to_be_bytes());
        header[24..28].copy_from_slice(&SerialNumber(100).0.to_be_bytes());
        // With all four ways of having digests, in the order of the kinds.
        let mut seed = vec![0x18 | (index as u8 % 4), 16];
        seed.extend(header);
        seed.extend(*b"sixteen byte all");
        seeds.push(seed);
    }
    let mut parts = Vec::new();
    let header = Header({
        let mut header = [0; HEADER_LENGTH];
        header[0] = 0x43;
        header[1] = 0x87;
        header
    });
    frame(
        header,
        vec![Bytes::from_static(b"a=b\0")],
        Framing::LOGIN,
        &mut parts,
    );
    let mut raw = vec![0x08, 0];
    raw.extend(parts.concat());
    seeds.push(raw);
    seeds
}
