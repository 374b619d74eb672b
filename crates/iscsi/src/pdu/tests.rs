//! Headers byte for byte as RFC 7143 11 lays them out, and streams cut anywhere.

use alloc::vec;
use alloc::vec::Vec;

use holdfast_scsi::{Lun, TaskAttribute};
use holdfast_stdx::{Bytes, Prng, crc32c};

use super::*;
use crate::{ConnectionIdentifier, Isid, SerialNumber, Tsih};

const ISID: Isid = Isid([0x80, 0x12, 0x34, 0x56, 0x78, 0x9A]);
const SEQUENCE: Sequence = Sequence {
    status: SerialNumber(0x1111_1111),
    expected_command: SerialNumber(0x2222_2222),
    command_max: SerialNumber(0x3333_3333),
};

fn lun() -> Lun {
    Lun::from_number(5)
}

/// 48 bytes from their hexadecimal digits, whitespace between them ignored.
fn hex(text: &str) -> [u8; 48] {
    let digits: Vec<u8> = text
        .chars()
        .filter_map(|it| it.to_digit(16))
        .map(|digit| digit as u8)
        .collect();
    let bytes: Vec<u8> = digits
        .chunks(2)
        .map(|pair| pair[0] << 4 | pair[1])
        .collect();
    bytes.try_into().expect("a header has 48 bytes")
}

fn check_request(request: &Request, text: &str) {
    assert_eq!(request.encode().0, hex(text), "{request:?}");
    assert_eq!(Request::parse(&Header(hex(text))), Ok(*request));
}

fn check_reply(reply: &Reply, text: &str) {
    assert_eq!(reply.encode().0, hex(text), "{reply:?}");
    assert_eq!(Reply::parse(&Header(hex(text))), Ok(*reply));
}

#[test]
fn requests_of_commands() {
    let command = ScsiCommand {
        immediate: false,
        flags: CommandFlags {
            is_final: true,
            read: false,
            write: true,
        },
        attribute: TaskAttribute::Simple,
        lun: lun(),
        task_tag: InitiatorTaskTag(0x0102_0304),
        expected_length: 0x1000,
        command_number: SerialNumber(7),
        expected_status: SerialNumber(9),
        cdb: [0x2A, 0, 0, 0, 0, 0x10, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0],
    };
    check_request(
        &Request::Command(command),
        "01a10000 00000000 0005000000000000 01020304 00001000 00000007 00000009
         2a000000001000000800000000000000",
    );
    let ordered = ScsiCommand {
        immediate: true,
        flags: CommandFlags {
            is_final: true,
            read: true,
            write: false,
        },
        attribute: TaskAttribute::Ordered,
        ..command
    };
    check_request(
        &Request::Command(ordered),
        "41c20000 00000000 0005000000000000 01020304 00001000 00000007 00000009
         2a000000001000000800000000000000",
    );
    check_request(
        &Request::DataOut(DataOut {
            is_final: true,
            lun: lun(),
            task_tag: InitiatorTaskTag(1),
            transfer_tag: TargetTransferTag(2),
            expected_status: SerialNumber(3),
            data_number: SerialNumber(4),
            offset: 0x2000,
        }),
        "05800000 00000000 0005000000000000 00000001 00000002 00000000 00000003
         00000000 00000004 00002000 00000000",
    );
    check_request(
        &Request::TaskManagement(TaskManagementRequest {
            immediate: true,
            function: TaskManagementCode::AbortTask.code(),
            lun: lun(),
            task_tag: InitiatorTaskTag(1),
            referenced_tag: InitiatorTaskTag(2),
            command_number: SerialNumber(3),
            expected_status: SerialNumber(4),
            referenced_number: SerialNumber(5),
        }),
        "42810000 00000000 0005000000000000 00000001 00000002 00000003 00000004
         00000005 00000000 00000000 00000000",
    );
    check_request(
        &Request::Snack(Snack {
            kind: 1,
            lun: lun(),
            task_tag: InitiatorTaskTag(1),
            transfer_tag: TargetTransferTag(2),
            expected_status: SerialNumber(3),
            first: SerialNumber(4),
            count: 5,
        }),
        "10810000 00000000 0005000000000000 00000001 00000002 00000000 00000003
         00000000 00000000 00000004 00000005",
    );
}

#[test]
fn requests_of_sessions() {
    check_request(
        &Request::Login(LoginRequest {
            transit: true,
            more: false,
            current: LoginStage::OperationalNegotiation,
            next: Some(LoginStage::FullFeature),
            version_max: 0,
            version_min: 0,
            isid: ISID,
            tsih: Tsih(0xBEEF),
            task_tag: InitiatorTaskTag(1),
            connection: ConnectionIdentifier(2),
            command_number: SerialNumber(3),
            expected_status: SerialNumber(4),
        }),
        "43870000 00000000 80123456789a beef 00000001 0002 0000 00000003 00000004
         00000000000000000000000000000000",
    );
    check_request(
        &Request::Text(TextRequest {
            immediate: false,
            is_final: true,
            more: false,
            lun: lun(),
            task_tag: InitiatorTaskTag(1),
            transfer_tag: TargetTransferTag::RESERVED,
            command_number: SerialNumber(3),
            expected_status: SerialNumber(4),
        }),
        "04800000 00000000 0005000000000000 00000001 ffffffff 00000003 00000004
         00000000000000000000000000000000",
    );
    check_request(
        &Request::Logout(LogoutRequest {
            immediate: true,
            reason: LogoutReason::CloseConnection,
            task_tag: InitiatorTaskTag(1),
            connection: ConnectionIdentifier(2),
            command_number: SerialNumber(3),
            expected_status: SerialNumber(4),
        }),
        "46810000 00000000 0000000000000000 00000001 0002 0000 00000003 00000004
         00000000000000000000000000000000",
    );
    check_request(
        &Request::NopOut(NopOut {
            immediate: true,
            lun: lun(),
            task_tag: InitiatorTaskTag::RESERVED,
            transfer_tag: TargetTransferTag(2),
            command_number: SerialNumber(3),
            expected_status: SerialNumber(4),
        }),
        "40800000 00000000 0005000000000000 ffffffff 00000002 00000003 00000004
         00000000000000000000000000000000",
    );
}

#[test]
fn replies_to_commands() {
    check_reply(
        &Reply::Response(ScsiResponse {
            response: 0,
            status: 2,
            task_tag: InitiatorTaskTag(1),
            sequence: SEQUENCE,
            data_number: SerialNumber(2),
            residual: Residual::Underflow(0x200),
        }),
        "21820002 00000000 0000000000000000 00000001 00000000 11111111 22222222 33333333
         00000002 00000000 00000200",
    );
    check_reply(
        &Reply::DataIn(DataIn {
            is_final: true,
            acknowledge: false,
            status: Some(0),
            residual: Residual::Overflow(0x200),
            lun: Lun::from_bytes([0; 8]),
            task_tag: InitiatorTaskTag(1),
            transfer_tag: TargetTransferTag::RESERVED,
            sequence: SEQUENCE,
            data_number: SerialNumber(3),
            offset: 0x4000,
        }),
        "25850000 00000000 0000000000000000 00000001 ffffffff 11111111 22222222 33333333
         00000003 00004000 00000200",
    );
    check_reply(
        &Reply::ReadyToTransfer(ReadyToTransfer {
            lun: lun(),
            task_tag: InitiatorTaskTag(1),
            transfer_tag: TargetTransferTag(2),
            sequence: SEQUENCE,
            number: SerialNumber(3),
            offset: 0x4000,
            length: 0x2000,
        }),
        "31800000 00000000 0005000000000000 00000001 00000002 11111111 22222222 33333333
         00000003 00004000 00002000",
    );
    check_reply(
        &Reply::TaskManagement(TaskManagementResponse {
            response: TaskManagementResponseCode::Rejected.code(),
            task_tag: InitiatorTaskTag(1),
            sequence: SEQUENCE,
        }),
        "2280ff00 00000000 0000000000000000 00000001 00000000 11111111 22222222 33333333
         00000000 00000000 00000000",
    );
    check_reply(
        &Reply::Reject(Reject {
            reason: RejectReason::ProtocolError.code(),
            sequence: SEQUENCE,
        }),
        "3f800400 00000000 0000000000000000 ffffffff 00000000 11111111 22222222 33333333
         00000000 00000000 00000000",
    );
}

#[test]
fn replies_of_sessions() {
    check_reply(
        &Reply::Login(LoginResponse {
            transit: true,
            more: false,
            current: LoginStage::SecurityNegotiation,
            next: Some(LoginStage::OperationalNegotiation),
            version_max: 0,
            version_active: 0,
            isid: ISID,
            tsih: Tsih(0),
            task_tag: InitiatorTaskTag(1),
            sequence: SEQUENCE,
            status: LoginStatus::NotFound,
        }),
        "23810000 00000000 80123456789a 0000 00000001 00000000 11111111 22222222 33333333
         0203 0000 00000000 00000000",
    );
    check_reply(
        &Reply::Text(TextResponse {
            is_final: false,
            more: true,
            lun: lun(),
            task_tag: InitiatorTaskTag(1),
            transfer_tag: TargetTransferTag(2),
            sequence: SEQUENCE,
        }),
        "24400000 00000000 0005000000000000 00000001 00000002 11111111 22222222 33333333
         00000000 00000000 00000000",
    );
    check_reply(
        &Reply::Logout(LogoutResponse {
            response: LogoutResponseCode::RecoveryNotSupported.code(),
            task_tag: InitiatorTaskTag(1),
            sequence: SEQUENCE,
            time_to_wait: 2,
            time_to_retain: 20,
        }),
        "26800200 00000000 0000000000000000 00000001 00000000 11111111 22222222 33333333
         00000000 0002 0014 00000000",
    );
    check_reply(
        &Reply::NopIn(NopIn {
            lun: lun(),
            task_tag: InitiatorTaskTag::RESERVED,
            transfer_tag: TargetTransferTag(2),
            sequence: SEQUENCE,
        }),
        "20800000 00000000 0005000000000000 ffffffff 00000002 11111111 22222222 33333333
         00000000 00000000 00000000",
    );
    check_reply(
        &Reply::Async(AsyncMessage {
            event: AsyncEvent::LogoutRequested.code(),
            sequence: SEQUENCE,
            parameters: [0, 0, 5],
        }),
        "32800000 00000000 0000000000000000 ffffffff 00000000 11111111 22222222 33333333
         01000000 0000 0005 00000000",
    );
}

#[test]
fn headers_that_are_none() {
    let with = |opcode: u8, flags: u8| {
        let mut bytes = [0; 48];
        bytes[0] = opcode;
        bytes[1] = flags;
        Header(bytes)
    };
    for opcode in 0..=0x3F {
        let takes = matches!(opcode, 0..=6 | 0x10);
        let gives = matches!(opcode, 0x20..=0x26 | 0x31 | 0x32 | 0x3F);
        let header = with(opcode, 0);
        assert_eq!(
            Request::parse(&header) == Err(HeaderError::Opcode(opcode)),
            !takes
        );
        assert_eq!(
            Reply::parse(&header) == Err(HeaderError::Opcode(opcode)),
            !gives
        );
    }
    // Login: stage 2 is reserved, as the present one and as the next; T and C exclude each other.
    for flags in [0x08, 0x82, 0xC1] {
        assert_eq!(
            Request::parse(&with(0x43, flags)),
            Err(HeaderError::Field(1))
        );
    }
    // Logout: three reasons.
    assert_eq!(
        Request::parse(&with(0x06, 0x83)),
        Err(HeaderError::Field(1))
    );
    // Overflow and underflow exclude each other.
    assert_eq!(Reply::parse(&with(0x21, 0x86)), Err(HeaderError::Field(1)));
}

#[test]
fn residuals() {
    assert_eq!(Residual::between(512, 512), Residual::None);
    assert_eq!(Residual::between(0, 512), Residual::Overflow(512));
    assert_eq!(Residual::between(10_000, 512), Residual::Underflow(9488));
    assert_eq!(Residual::between(0, u64::MAX), Residual::Overflow(u32::MAX));
}

fn framing(header_digest: bool, data_digest: bool) -> Framing {
    Framing {
        header_digest,
        data_digest,
        data_length_max: 10_000,
    }
}

fn nop(prng: &mut Prng) -> (Header, Bytes) {
    let mut data = vec![0; *prng.choose(&[0, 1, 2, 3, 4, 511, 4096, 10_000])];
    prng.fill(&mut data);
    let request = Request::NopOut(NopOut {
        immediate: true,
        lun: lun(),
        task_tag: InitiatorTaskTag(prng.next_u64() as u32),
        transfer_tag: TargetTransferTag::RESERVED,
        command_number: SerialNumber(1),
        expected_status: SerialNumber(1),
    });
    (request.encode(), Bytes::from(data))
}

#[test]
fn a_stream_cut_anywhere_gives_its_pdus() {
    for seed in 0..200 {
        let mut prng = Prng::from_seed(seed);
        let framing = framing(prng.chance(1, 2), prng.chance(1, 2));
        let mut parts = Vec::new();
        let mut sent = Vec::new();
        let mut total = 0;
        for _ in 0..10 {
            let (header, data) = nop(&mut prng);
            let middle = prng.below(data.len() as u64 + 1) as usize;
            let pieces = vec![data.slice(..middle), data.slice(middle..)];
            total += frame(header, pieces, framing, &mut parts);
            sent.push((header, data));
        }
        let mut stream = Bytes::from(parts.concat());
        assert_eq!(stream.len(), total);
        let mut reader = PduReader::new(framing);
        let mut seen = 0;
        while !stream.is_empty() {
            let length = 1 + prng.below(3000) as usize;
            let chunk = stream.split_to(length.min(stream.len()));
            reader.push(chunk);
            while let Some(pdu) = reader.next_pdu().unwrap() {
                let (mut header, data) = sent[seen].clone();
                header.set_data_length(data.len());
                assert_eq!(pdu.header, header);
                assert_eq!(pdu.data.into_bytes(), data);
                seen += 1;
            }
            assert!(reader.buffered() < 48 + 4 + 10_000 + 4);
        }
        assert_eq!((seen, reader.buffered()), (10, 0));
    }
}

#[test]
fn additional_headers_are_skipped_and_covered_by_the_digest() {
    let (mut header, _) = nop(&mut Prng::from_seed(1));
    header.0[4] = 255;
    let mut bytes = header.0.to_vec();
    bytes.extend([7; 1020]);
    let digest = crc32c(&bytes).to_le_bytes();
    bytes.extend(digest);
    let mut reader = PduReader::new(framing(true, false));
    reader.push(Bytes::from(bytes.clone()));
    assert_eq!(reader.next_pdu().unwrap().unwrap().header, header);
    assert_eq!(reader.buffered(), 0);
    bytes[700] ^= 1;
    let mut reader = PduReader::new(framing(true, false));
    reader.push(Bytes::from(bytes));
    assert_eq!(reader.next_pdu().unwrap_err(), FrameError::HeaderDigest);
}

#[test]
fn a_flipped_bit_is_seen_by_its_digest() {
    let (header, _) = nop(&mut Prng::from_seed(1));
    let mut parts = Vec::new();
    frame(
        header,
        vec![Bytes::from_static(b"hello")],
        framing(true, true),
        &mut parts,
    );
    let clean = parts.concat();
    assert_eq!(clean.len(), 48 + 4 + 8 + 4);
    for bit in 0..clean.len() * 8 {
        let mut bytes = clean.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        let mut reader = PduReader::new(framing(true, true));
        reader.push(Bytes::from(bytes));
        match reader.next_pdu() {
            Err(FrameError::HeaderDigest) => assert!(bit < 52 * 8),
            Err(FrameError::DataDigest(_)) => assert!(bit >= 52 * 8),
            // More additional headers than there are bytes: waits, and would find out then.
            Ok(None) => assert!((4 * 8..5 * 8).contains(&bit)),
            other => panic!("bit {bit}: {other:?}"),
        }
    }
}

#[test]
fn a_length_beyond_what_was_agreed_is_refused_before_its_data() {
    let (mut header, _) = nop(&mut Prng::from_seed(1));
    header.set_data_length(10_001);
    let mut reader = PduReader::new(framing(false, false));
    reader.push(Bytes::copy_from_slice(&header.0));
    for _ in 0..2 {
        assert_eq!(
            reader.next_pdu().unwrap_err(),
            FrameError::DataTooLong(header)
        );
    }
    reader.push(Bytes::from_static(&[0; 100]));
    assert_eq!(reader.buffered(), 0, "nothing is kept after an error");
}

#[test]
fn large_payloads_are_not_copied() {
    let data = Bytes::from(vec![1; 8192]);
    let (header, _) = nop(&mut Prng::from_seed(1));
    let mut parts = Vec::new();
    frame(
        header,
        vec![data.clone()],
        framing(false, false),
        &mut parts,
    );
    assert_eq!(parts[1].as_ptr(), data.as_ptr(), "sent as it is");
    let mut reader = PduReader::new(framing(false, false));
    for part in parts {
        reader.push(part);
    }
    let received = reader.next_pdu().unwrap().unwrap().data.into_parts();
    assert_eq!(received[0].as_ptr(), data.as_ptr(), "taken as it is");
}

const LARGE: Framing = Framing {
    data_length_max: 1 << 18,
    ..Framing::LOGIN
};

/// A chunk as a driver reads it: `payload` bytes of data in a PDU, and a PDU of what is left.
fn chunk_with(payload: usize, length: usize) -> Bytes {
    let (header, _) = nop(&mut Prng::from_seed(1));
    let mut parts = Vec::new();
    for data in [payload, length - payload - 96] {
        let data = vec![Bytes::from(vec![1; data])];
        frame(header, data, LARGE, &mut parts);
    }
    Bytes::from(parts.concat())
}

#[test]
fn a_payload_keeps_no_buffer_alive_that_is_much_larger() {
    for payload in [4, 2048, 2560, 65_536, 200_000] {
        let chunk = chunk_with(payload, 256 << 10);
        let mut reader = PduReader::new(LARGE);
        reader.push(chunk.clone());
        let kept = reader.next_pdu().unwrap().unwrap().data;
        reader.next_pdu().unwrap().unwrap();
        assert!(reader.next_pdu().unwrap().is_none());
        assert_eq!(kept.len(), payload);
        assert!(chunk.is_unique(), "{payload} bytes keep 256 KiB alive");
        let parts = kept.into_parts();
        assert_eq!(parts.concat(), vec![1; payload]);
    }
}

#[test]
fn what_waits_keeps_no_buffer_alive_that_is_much_larger() {
    let chunk = chunk_with(1000, 256 << 10);
    let mut reader = PduReader::new(LARGE);
    reader.push(chunk.clone());
    let (header, _) = nop(&mut Prng::from_seed(1));
    reader.push(Bytes::from([&header.0[..], &vec![0; 2000]].concat()));
    while reader.next_pdu().unwrap().is_some() {}
    assert!(chunk.is_unique());
    assert!(reader.held_bytes() <= 2 * reader.buffered() + 2048);
}

#[test]
fn single_bytes_that_wait_are_gathered() {
    let (mut header, _) = nop(&mut Prng::from_seed(1));
    header.0[5..8].copy_from_slice(&[0, 0x20, 0]);
    let mut reader = PduReader::new(framing(false, false));
    for byte in header.0.iter().copied().chain([5; 8191]) {
        reader.push(Bytes::from(vec![byte]));
        assert!(reader.next_pdu().unwrap().is_none());
        assert!(
            reader.held_bytes() <= 2 * reader.buffered() + 128,
            "{} are held for {}",
            reader.held_bytes(),
            reader.buffered()
        );
    }
    reader.push(Bytes::from_static(&[5]));
    let data = reader.next_pdu().unwrap().unwrap().data.into_parts();
    assert_eq!(data.concat(), vec![5; 8192]);
    assert_eq!(data.len(), 1);
}
