//! Peers that send anything at all: nothing panics, nothing grows without bound, and others are
//! served as before.

use crate::common;
use crate::common::{Answers, World, framed, login, read_10, test_unit_ready, write_10};
use holdfast_iscsi::SerialNumber;
use holdfast_iscsi::initiator::{Initiator, InitiatorOutput};
use holdfast_iscsi::pdu::{
    DataOut, InitiatorTaskTag, LoginStage, NopOut, Request, TargetTransferTag,
};
use holdfast_iscsi::target::{ConnectionId, Limits};
use holdfast_stdx::{Bytes, Duration, Prng};

/// Limits under which every figure is reached soon.
fn tight() -> Limits {
    Limits {
        data_segment_max: 8192,
        burst_max: 16_384,
        first_burst_max: 4096,
        window: 16,
        data_out_max: 64 << 10,
        data_in_max: 64 << 10,
        connection_bytes_max: 128 << 10,
        total_bytes_max: 256 << 10,
        output_bytes_max: 64 << 10,
        text_bytes_max: 8192,
        ..Limits::default()
    }
}

/// The most that one connection holds under [`tight`] limits: input of a PDU and the chunk behind
/// it, unsolicited data of the window and of immediate commands, room for data, output and the PDU
/// that exceeds it, requests that wait for their turn, a text and its answer.
const HELD_MAX: usize = (8192 + (1 << 20))
    + (16 + 8) * 8192
    + (128 << 10)
    + (64 << 10)
    + (64 << 10)
    + (1 << 20)
    + 8192
    + (16 << 10);

fn feed(world: &mut World, connection: ConnectionId, stream: &[u8], prng: &mut Prng) {
    let mut rest = Bytes::copy_from_slice(stream);
    while !rest.is_empty() {
        let length = 1 + prng.below(4000) as usize;
        let chunk = rest.split_to(length.min(rest.len()));
        // A driver reads only when it is asked to; what a closed connection sends goes nowhere.
        if !world.target.wants_input(connection) {
            return;
        }
        world.send_raw(connection, chunk);
        assert!(
            world.held_max <= 2 * HELD_MAX,
            "{} bytes are held",
            world.held_max
        );
    }
}

#[test]
fn random_bytes() {
    for seed in 0..300 {
        let mut prng = Prng::from_seed(seed);
        let mut world = World::with_limits(seed, tight());
        let connection = world.connect_raw();
        let mut bytes = vec![0; 20_000];
        prng.fill(&mut bytes);
        feed(&mut world, connection, &bytes, &mut prng);
        // Something is said, or waited for; the login's deadline ends it.
        world.pass(Duration::from_secs(60));
        assert!(world.close_reason(connection).is_some());
        assert_eq!(world.target.held_bytes(), 0);
    }
}

/// Headers with valid operation codes and everything else drawn at random, small fields more often.
fn random_pdu(prng: &mut Prng, next: &mut u32) -> Vec<u8> {
    let mut header = [0; 48];
    if prng.chance(1, 2) {
        prng.fill(&mut header);
    }
    let codes = [
        0x00, 0x01, 0x01, 0x01, 0x02, 0x04, 0x05, 0x05, 0x06, 0x10, 0x40, 0x41, 0x42, 0x44,
    ];
    header[0] = *prng.choose(&codes);
    // A logout ends it all: seldom.
    if header[0] == 0x06 && prng.chance(19, 20) {
        header[0] = 0x01;
    }
    header[1] = prng.next_u64() as u8;
    if header[0] & 0x3F == 0x01 && prng.chance(2, 3) {
        header[1] = *prng.choose(&[0x81, 0xC1, 0xC2, 0xA1, 0x21]);
    }
    header[4] = if prng.chance(1, 20) {
        prng.next_u64() as u8
    } else {
        0
    };
    let mut length = *prng.choose(&[0, 0, 1, 4, 511, 512, 2000, 4096, 8192]);
    if header[0] & 0x3F == 0x01 && prng.chance(2, 3) {
        length = 0;
        header[32..48].fill(0);
        header[32] = *prng.choose(&[0x00, 0x28, 0x2A]);
        header[40] = prng.below(120) as u8;
    }
    header[5..8].copy_from_slice(&(length as u32).to_be_bytes()[1..]);
    header[8..16].fill(0);
    let small = |prng: &mut Prng| (prng.below(6) as u32).to_be_bytes();
    let tags = *prng.choose(&[6, 60]);
    let tag = prng.below(tags) as u32;
    header[16..20].copy_from_slice(&tag.to_be_bytes());
    let transfer = if prng.chance(1, 2) {
        [0xFF; 4]
    } else {
        small(prng)
    };
    header[20..24].copy_from_slice(&transfer);
    if header[0] & 0x3F == 0x01 {
        let expected = *prng.choose(&[0_u32, 512, 4096, 60_000, 65_536, 100_000, u32::MAX]);
        header[20..24].copy_from_slice(&expected.to_be_bytes());
    }
    // Mostly the number whose turn it is, if the target has taken all before.
    let number = if prng.chance(9, 10) {
        *next
    } else {
        100 + prng.below(40) as u32
    };
    let is_numbered = header[0] & 0x40 == 0 && !matches!(header[0], 0x05 | 0x10);
    if is_numbered && number == *next {
        *next += 1;
    }
    header[24..28].copy_from_slice(&number.to_be_bytes());
    header[36..40].copy_from_slice(&small(prng));
    if prng.chance(1, 2) {
        header[40..44].fill(0);
    }
    let mut bytes = header.to_vec();
    bytes.resize(bytes.len() + usize::from(header[4]) * 4, 0);
    bytes.resize(bytes.len() + (length as usize).next_multiple_of(4), b'x');
    bytes
}

#[test]
fn random_pdus_in_a_session() {
    let mut delivered = 0;
    for seed in 0..400 {
        let mut prng = Prng::from_seed(seed);
        let mut world = World::with_limits(seed, tight());
        world.answers = *prng.choose(&[Answers::AtOnce, Answers::Held, Answers::Shuffled]);
        world.sockets_take = prng.chance(3, 4);
        world.confirms_closings = prng.chance(3, 4);
        let config = world.config(1);
        let good = world.log_in(config);
        world.sockets_take = prng.chance(3, 4);
        let keys = *prng.choose(&["", "InitialR2T=No\0", "ImmediateData=No\0InitialR2T=Yes\0"]);
        let connection = world.raw_session(keys);
        let mut next = 100;
        for _ in 0..100 {
            let bytes = random_pdu(&mut prng, &mut next);
            feed(&mut world, connection, &bytes, &mut prng);
            if prng.chance(1, 10) {
                world.step();
            }
        }
        delivered += world.delivered;
        // Whatever that was, the other host is served.
        world.answers = Answers::AtOnce;
        world.confirms_closings = true;
        for (session, _) in std::mem::take(&mut world.closings) {
            if world.sessions.contains_key(&session) {
                world.finish_session(session);
            }
        }
        for request in std::mem::take(&mut world.management) {
            world.finish_management(&request);
        }
        for command in std::mem::take(&mut world.held) {
            world.answer(&command);
        }
        world.pass(Duration::from_secs(100));
        if world.hosts[good].ended.is_none() {
            assert_eq!(world.complete(good, test_unit_ready()).status, 0);
            assert_eq!(world.complete(good, read_10(0, 8)).status, 0);
        } else {
            // A stranger may reset the target: its sessions are closed, and opened again.
            let config = world.config(1);
            world.log_in(config);
        }
    }
    assert!(delivered > 1000, "{delivered}: the way up was trodden");
}

#[test]
fn a_valid_stream_with_flipped_bits() {
    for seed in 0..300 {
        let mut prng = Prng::from_seed(seed);
        let mut world = World::with_limits(seed, tight());
        let request = login(
            LoginStage::OperationalNegotiation,
            Some(LoginStage::FullFeature),
        );
        let text = format!("{}InitialR2T=No\0MaxBurstLength=8192\0", common::WHO);
        let mut stream = framed(&Request::Login(request), text.as_bytes()).to_vec();
        for number in 100..110 {
            let nop = Request::NopOut(NopOut {
                immediate: false,
                lun: common::lun(),
                task_tag: InitiatorTaskTag(number),
                transfer_tag: TargetTransferTag::RESERVED,
                command_number: SerialNumber(number),
                expected_status: SerialNumber(0),
            });
            stream.extend_from_slice(&framed(&nop, &[1; 100]));
        }
        for _ in 0..=prng.below(8) {
            let bit = prng.below(stream.len() as u64 * 8) as usize;
            stream[bit / 8] ^= 1 << (bit % 8);
        }
        let connection = world.connect_raw();
        feed(&mut world, connection, &stream, &mut prng);
        world.pass(Duration::from_secs(100));
        assert!(
            world.close_reason(connection).is_some(),
            "silent initiators are closed"
        );
        assert_eq!(world.target.held_bytes(), 0);
    }
}

#[test]
fn lengths_that_are_absurd() {
    for in_session in [false, true] {
        let mut world = World::new(1);
        let connection = if in_session {
            world.raw_session("")
        } else {
            world.connect_raw()
        };
        let mut header = [0_u8; 48];
        header[0] = 0x43;
        header[4] = 0xFF;
        header[5..8].fill(0xFF);
        world.send_raw(connection, Bytes::copy_from_slice(&header));
        world.send_raw(connection, Bytes::from(vec![0; 1020]));
        assert!(world.close_reason(connection).is_some());
        assert_eq!(world.target.held_bytes(), 0);
    }
}

#[test]
fn half_a_pdu_and_then_nothing() {
    let mut world = World::new(1);
    let connection = world.raw_session("");
    let pdu = framed(
        &Request::DataOut(DataOut {
            is_final: true,
            lun: common::lun(),
            task_tag: InitiatorTaskTag(1),
            transfer_tag: TargetTransferTag::RESERVED,
            expected_status: SerialNumber(0),
            data_number: SerialNumber(0),
            offset: 0,
        }),
        &[0; 8000],
    );
    world.send_raw(connection, pdu.slice(..4000));
    assert_eq!(world.target.held_bytes(), 4000 - 48);
    world.pass(Duration::from_secs(31));
    assert!(world.close_reason(connection).is_some());
    assert_eq!(world.target.held_bytes(), 0);
}

#[test]
fn a_peer_that_asks_and_never_listens() {
    let mut world = World::with_limits(1, tight());
    let connection = world.raw_session("MaxRecvDataSegmentLength=65536\0");
    world.sockets_take = false;
    let nop = Request::NopOut(NopOut {
        immediate: true,
        lun: common::lun(),
        task_tag: InitiatorTaskTag(1),
        transfer_tag: TargetTransferTag::RESERVED,
        command_number: SerialNumber(100),
        expected_status: SerialNumber(0),
    });
    let mut sent = 0;
    while world.target.wants_input(connection) {
        world.send(connection, &nop, &[0; 8000]);
        sent += 1;
        assert!(sent < 100, "its input is not wanted any more at some time");
    }
    assert!(world.held_max <= (64 << 10) + 8192 + 8192);
    // A driver that feeds it nevertheless loses it before it has eaten everything.
    while world.close_reason(connection).is_none() {
        world.send(connection, &nop, &[0; 8000]);
        sent += 1;
        assert!(sent < 1000);
    }
    assert_eq!(world.target.held_bytes(), 0);
}

#[test]
fn unsolicited_data_in_single_bytes_does_not_multiply() {
    let mut world = World::with_limits(1, tight());
    world.answers = Answers::Held;
    let connection = world.raw_session("InitialR2T=No\0");
    let mut command = [0_u8; 48];
    command[0] = 0x01;
    command[1] = 0x21;
    command[20..24].copy_from_slice(&4096_u32.to_be_bytes());
    command[24..28].copy_from_slice(&100_u32.to_be_bytes());
    command[28..32].copy_from_slice(&2_u32.to_be_bytes());
    command[32] = 0x2A;
    command[40] = 8;
    world.send_raw(connection, Bytes::copy_from_slice(&command));
    for offset in 0..4096 {
        let pdu = Request::DataOut(DataOut {
            is_final: offset == 4095,
            lun: common::lun(),
            task_tag: InitiatorTaskTag(0),
            transfer_tag: TargetTransferTag::RESERVED,
            expected_status: SerialNumber(0),
            data_number: SerialNumber(offset),
            offset,
        });
        world.send(connection, &pdu, &[7]);
    }
    assert_eq!(world.held[0].data_out.len(), 1, "one part, not 4096");
    assert_eq!(world.held[0].data_out[0].len(), 4096);
}

#[test]
fn connections_and_logins_are_bounded() {
    let limits = Limits {
        connections_max: 20,
        logins_max: 10,
        ..Limits::default()
    };
    let mut world = World::with_limits(1, limits);
    for _ in 0..100 {
        world.connect_raw();
    }
    assert_eq!(world.closed.len(), 90);
    world.pass(Duration::from_secs(16));
    assert_eq!(world.closed.len(), 100);
    assert_eq!(world.target.next_timeout(), None);
}

/// A text of keys that belong into some login, and values that belong to some key.
fn random_text(prng: &mut Prng, is_first: bool) -> String {
    let mut text = if prng.chance(if is_first { 9 } else { 1 }, 10) {
        String::from(common::WHO)
    } else {
        String::new()
    };
    let giant = format!("0x{}", "a5".repeat(1100));
    for _ in 0..prng.below(3) {
        // What has a place, most of the time.
        if prng.chance(3, 4) {
            let pairs = [
                "AuthMethod=CHAP\0",
                "CHAP_A=7,5\0",
                "CHAP_N=host\0CHAP_R=0x00\0",
                "CHAP_I=1\0CHAP_C=0x00\0",
            ];
            text.push_str(prng.choose::<&str>(&pairs));
            continue;
        }
        let keys = [
            "AuthMethod",
            "AuthMethod",
            "CHAP_A",
            "CHAP_A",
            "CHAP_I",
            "CHAP_C",
            "CHAP_N",
            "CHAP_R",
            "TargetName",
            "SessionType",
            "MaxBurstLength",
            "X-other",
            "",
        ];
        let values = [
            "CHAP",
            "CHAP",
            "None,CHAP",
            "None",
            "5",
            "7",
            "5,7",
            "0x00",
            "0bAAEC",
            "host",
            "",
            "256",
            "-1",
            "0x",
            "0b=",
            "Discovery",
            "Normal",
            "Reject",
            &giant,
        ];
        let separator = *prng.choose(&["=", "=", "=", "=", "==", ""]);
        let end = *prng.choose(&["\0", "\0", "\0", "\0\0", ""]);
        text.push_str(prng.choose::<&str>(&keys));
        text.push_str(separator);
        text.push_str(prng.choose::<&str>(&values));
        text.push_str(end);
    }
    text
}

/// Whoever says whatever in a login, in whatever order and stage: without the proof no session opens.
#[test]
fn random_logins_at_a_target_that_wants_a_proof() {
    use holdfast_iscsi::chap::{ChapAccount, ChapSecret};
    use holdfast_iscsi::pdu::{LoginStatus, Reply};
    use holdfast_iscsi::target::{InitiatorEntry, UnitAccess};
    let host = common::name("iqn.2026-11.example.host:a");
    let mut directory = common::directory();
    for entry in directory.targets.values_mut() {
        entry.units = [(0, UnitAccess::Listed([host.clone()].into()))].into();
    }
    let secret = ChapSecret::new(b"what nobody guesses").unwrap();
    let account = Some(ChapAccount {
        name: "host".into(),
        secret,
    });
    let known = InitiatorEntry {
        mutual: account.clone(),
        account,
    };
    directory.initiators.insert(host, known);
    let (mut challenged, mut failed) = (0, 0);
    for seed in 0..3000 {
        let mut prng = Prng::from_seed(seed);
        let mut world = World::with_limits(seed, tight());
        world.set_directory(directory.clone());
        let connection = world.connect_raw();
        for turn in 0..1 + prng.below(8) {
            let stages = [
                LoginStage::SecurityNegotiation,
                LoginStage::SecurityNegotiation,
                LoginStage::SecurityNegotiation,
                LoginStage::OperationalNegotiation,
                LoginStage::FullFeature,
            ];
            let current = if prng.chance(3, 4) {
                LoginStage::SecurityNegotiation
            } else {
                *prng.choose(&stages)
            };
            let next = prng.chance(1, 4).then(|| *prng.choose(&stages));
            let mut request = login(current, next);
            request.more = next.is_none() && prng.chance(1, 10);
            let text = random_text(&mut prng, turn == 0);
            world.send(connection, &Request::Login(request), text.as_bytes());
            for (reply, text) in world.replies(connection) {
                let Reply::Login(response) = reply else {
                    panic!("a login is answered by a login response, not {reply:?}");
                };
                let text = String::from_utf8(text).unwrap();
                challenged += u32::from(text.contains("CHAP_C=0x"));
                failed += u32::from(response.status == LoginStatus::AuthenticationFailure);
                assert!(
                    !text.contains("CHAP_R=0x"),
                    "nothing is proved to a stranger"
                );
            }
            assert!(world.sessions.is_empty(), "seed {seed}");
            assert!(world.held_max <= HELD_MAX);
        }
    }
    assert!(challenged > 40 && failed > 100, "{challenged} {failed}");
}

#[test]
fn a_target_that_sends_anything_does_not_harm_an_initiator() {
    for seed in 0..300 {
        let mut prng = Prng::from_seed(seed);
        let mut world = World::new(seed);
        let config = world.config(0);
        let host = world.log_in(config);
        for index in 0..4 {
            world.submit(host, read_10(index, 4));
            world.submit(
                host,
                write_10(index, 200, vec![Bytes::from(vec![1; 200 * 512])]),
            );
        }
        // Its answers, with flipped bits, or none of its answers at all.
        let mut out = InitiatorOutput::default();
        let initiator: &mut Initiator = &mut world.hosts[host].initiator;
        for _ in 0..20 {
            let mut header = [0; 48];
            if prng.chance(1, 2) {
                prng.fill(&mut header);
            }
            header[0] = *prng.choose(&[0x20, 0x21, 0x22, 0x24, 0x25, 0x26, 0x31, 0x32, 0x3F]);
            header[4..16].fill(0);
            let length = *prng.choose(&[0_u32, 1, 20, 512, 5000]);
            header[4..8].copy_from_slice(&length.to_be_bytes());
            header[16..20].copy_from_slice(&(prng.below(12) as u32).to_be_bytes());
            header[24..28].copy_from_slice(&(2 + prng.below(4) as u32).to_be_bytes());
            if prng.chance(2, 3) {
                header[28..48].fill(0);
            }
            let mut bytes = header.to_vec();
            bytes.resize(48 + (length as usize).next_multiple_of(4), 0);
            initiator.handle_received(world.now, Bytes::from(bytes), &mut out);
        }
    }
}
