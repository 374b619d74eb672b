//! Text: keys and values of logins and text exchanges, and what two sides agree on.
//!
//! Invariants:
//! - text is within its bounds or refused, and written again it is read as the same;
//! - whatever a peer offers, what comes out is within the ranges of RFC 7143 13;
//! - what one side offers and the other answers, both understand alike;
//! - names, addresses and numbers that were read are written as they are read.

use holdfast_iscsi::IscsiName;
use holdfast_iscsi::chap::ChapAlgorithm;
use holdfast_iscsi::negotiation::{
    Answer, Digest, KEY_LENGTH_MAX, KEYS_MAX, Key, Parameters, Preferences, VALUE_LENGTH_MAX,
    parse_boolean, parse_number, parse_text, put_pair,
};
use holdfast_iscsi::target::PortalAddress;

use crate::Input;

pub(crate) fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let ours = preferences(&mut input);
    let theirs = preferences(&mut input);
    agree(&ours, &theirs);
    let text = input.take_all();
    check_text(text);
    let Ok(pairs) = parse_text(text) else {
        return;
    };
    let mut parameters = Parameters::default();
    for pair in pairs {
        check_value(pair.value);
        if let Some(key) = Key::from_name(pair.key) {
            assert_eq!(key.name(), pair.key);
            // As a target that was offered this, and as an initiator that was answered it.
            let before = parameters;
            let answer = parameters.answer(key, pair.value, &ours);
            if matches!(answer, Answer::Reject | Answer::NotUnderstood) {
                assert_eq!(parameters, before, "what held before holds on");
            }
            assert_in_range(&parameters);
            let mut answered = parameters;
            if answered.accept(key, pair.value, &theirs).is_ok() {
                assert_in_range(&answered);
            }
        }
    }
}

fn check_text(text: &[u8]) {
    let Ok(pairs) = parse_text(text) else {
        return;
    };
    assert!(pairs.len() <= KEYS_MAX);
    let mut written = String::new();
    for pair in &pairs {
        assert!((1..=KEY_LENGTH_MAX).contains(&pair.key.len()));
        assert!(pair.value.len() <= VALUE_LENGTH_MAX);
        put_pair(&mut written, pair.key, pair.value);
    }
    let again = parse_text(written.as_bytes()).expect("what is written can be read");
    assert_eq!(again, pairs);
}

fn check_value(value: &str) {
    if let Some(number) = parse_number(value) {
        assert_eq!(parse_number(&number.to_string()), Some(number));
        assert_eq!(parse_number(&format!("0x{number:X}")), Some(number));
    }
    if let Some(boolean) = parse_boolean(value) {
        assert_eq!(value, if boolean { "Yes" } else { "No" });
    }
    if let Some(digest) = Digest::from_name(value) {
        assert_eq!(digest.name(), value);
    }
    if let Ok(name) = IscsiName::parse(value) {
        assert_eq!(name.as_str(), value.to_ascii_lowercase());
        assert_eq!(IscsiName::parse(name.as_str()).as_ref(), Ok(&name));
    }
    if let Ok(address) = PortalAddress::parse(value) {
        assert_eq!(address.to_string(), value);
    }
    if let Some(algorithm) = ChapAlgorithm::choose(value) {
        let code = algorithm.code();
        assert!(
            value
                .split(',')
                .any(|item| parse_number(item) == Some(code))
        );
    }
}

/// What a side wants; any that a side may want.
fn preferences(input: &mut Input<'_>) -> Preferences {
    const DIGESTS: [&[Digest]; 4] = [
        &[Digest::None],
        &[Digest::Crc32c],
        &[Digest::None, Digest::Crc32c],
        &[Digest::Crc32c, Digest::None],
    ];
    let length = |input: &mut Input<'_>| {
        let length = 512 + u32::from(input.u16()) * 255;
        length.min((1 << 24) - 1)
    };
    Preferences {
        header_digests: input.pick(&DIGESTS),
        data_digests: input.pick(&DIGESTS),
        initial_r2t: input.pick(&[false, true]),
        immediate_data: input.pick(&[false, true]),
        receive_segment_max: length(input),
        burst_max: length(input),
        first_burst_max: length(input),
        ready_to_transfer_max: u32::from(input.u8().max(1)),
    }
}

fn digests(list: &[Digest]) -> String {
    let names: Vec<&str> = list.iter().map(|digest| digest.name()).collect();
    names.join(",")
}

/// One side offers what it wants, the other answers: both come to the same.
fn agree(offers: &Preferences, answers: &Preferences) {
    let boolean = |value| String::from(if value { "Yes" } else { "No" });
    let offered = [
        (Key::HeaderDigest, digests(offers.header_digests)),
        (Key::DataDigest, digests(offers.data_digests)),
        (Key::InitialR2T, boolean(offers.initial_r2t)),
        (Key::ImmediateData, boolean(offers.immediate_data)),
        (Key::MaxBurstLength, offers.burst_max.to_string()),
        (Key::FirstBurstLength, offers.first_burst_max.to_string()),
        (
            Key::MaxOutstandingR2T,
            offers.ready_to_transfer_max.to_string(),
        ),
        (Key::ErrorRecoveryLevel, "0".into()),
        (Key::MaxConnections, "1".into()),
        (Key::DefaultTime2Wait, "0".into()),
        (Key::DefaultTime2Retain, "0".into()),
        (Key::DataPduInOrder, "Yes".into()),
        (Key::DataSequenceInOrder, "Yes".into()),
    ];
    let (mut one, mut other) = (Parameters::default(), Parameters::default());
    for (key, value) in offered {
        match other.answer(key, &value, answers) {
            Answer::Value(value) => {
                let accepted = one.accept(key, &value, offers);
                assert_eq!(accepted, Ok(()), "{key:?}: {value}");
            }
            // Where the two have no digest in common.
            Answer::Reject if matches!(key, Key::HeaderDigest | Key::DataDigest) => {
                assert!(one.accept(key, "Reject", offers).is_err());
            }
            answer => panic!("{key:?}={value} is answered {answer:?}"),
        }
    }
    assert_eq!(one, other, "both understand it alike");
    assert_in_range(&one);
}

/// The ranges of RFC 7143 13.
fn assert_in_range(parameters: &Parameters) {
    const LENGTHS: std::ops::RangeInclusive<u32> = 512..=(1 << 24) - 1;
    assert_eq!(parameters.connections_max, 1);
    assert!(LENGTHS.contains(&parameters.send_segment_max));
    assert!(LENGTHS.contains(&parameters.burst_max));
    assert!(LENGTHS.contains(&parameters.first_burst_max));
    assert!(parameters.time_to_wait <= 3600);
    assert!(parameters.time_to_retain <= 3600);
    assert!((1..=65_535).contains(&parameters.ready_to_transfer_max));
    assert_eq!(parameters.error_recovery_level, 0);
    assert!(parameters.pdu_in_order);
    assert!(parameters.sequence_in_order);
    assert!(parameters.unsolicited_max() <= parameters.burst_max);
}

/// What hosts say in their logins, with a value for every key that there is.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let texts: [&[u8]; 6] = [
        b"InitiatorName=iqn.1993-08.org.debian:01:2d4f1a\0InitiatorAlias=host\0SessionType=Normal\0\
          TargetName=iqn.2026-11.example.holdfast:demo\0AuthMethod=CHAP,None\0",
        b"HeaderDigest=CRC32C,None\0DataDigest=None\0MaxRecvDataSegmentLength=262144\0\
          InitialR2T=No\0ImmediateData=Yes\0MaxBurstLength=16776192\0FirstBurstLength=262144\0\
          MaxOutstandingR2T=1\0MaxConnections=1\0DefaultTime2Wait=2\0DefaultTime2Retain=0\0\
          DataPDUInOrder=Yes\0DataSequenceInOrder=Yes\0ErrorRecoveryLevel=0\0",
        b"CHAP_A=5,7\0CHAP_I=77\0CHAP_C=0x0123456789abcdef\0CHAP_N=host\0CHAP_R=0bAAECAwQ=\0",
        b"IFMarker=No\0OFMarker=No\0IFMarkInt=2048~2048\0OFMarkInt=1\0TaskReporting=RFC3720\0\
          iSCSIProtocolLevel=1\0X-com.example.key=1\0X#NodeArchitecture=any\0",
        b"SendTargets=All\0",
        b"TargetAddress=[fe80::1%eth0]:3260,1\0TargetPortalGroupTag=0x1\0TargetAlias=demo\0\
          TargetName=eui.02004567A425678D\0InitiatorName=naa.52004567BA64678D\0\
          TargetAddress=portal.example:3260\0MaxBurstLength=0xffff\0",
    ];
    let wants: [[u8; 11]; 2] = [
        [2, 2, 0, 1, 4, 0, 16, 0, 1, 0, 4],
        [3, 1, 1, 0, 0, 30, 255, 255, 1, 0, 1],
    ];
    let mut seeds = Vec::new();
    for text in texts {
        for (ours, theirs) in [(0, 1), (1, 0)] {
            let mut seed = wants[ours].to_vec();
            seed.extend(wants[theirs]);
            seed.extend(text);
            seeds.push(seed);
        }
    }
    seeds
}
