//! The tables of RFC 7143 13: who offers what, and what comes of it.

use alloc::format;
use alloc::string::String;

use super::*;

const OURS: Preferences = Preferences {
    header_digests: Preferences::DIGESTS,
    data_digests: Preferences::DIGESTS,
    initial_r2t: false,
    immediate_data: true,
    receive_segment_max: 262_144,
    burst_max: 1_048_576,
    first_burst_max: 65_536,
    ready_to_transfer_max: 4,
};

fn value(text: &str) -> Answer {
    Answer::Value(text.into())
}

#[test]
fn answers() {
    use Answer::{NotUnderstood, Nothing, Reject};
    for (key, offer, answer) in [
        (Key::HeaderDigest, "None", value("None")),
        (Key::HeaderDigest, "CRC32C", value("CRC32C")),
        (Key::HeaderDigest, "CRC32C,None", value("CRC32C")),
        (Key::HeaderDigest, "None,CRC32C", value("None")),
        (Key::DataDigest, "X-mine,CRC32C", value("CRC32C")),
        (Key::DataDigest, "X-mine", Reject),
        (Key::DataDigest, "", Reject),
        (Key::MaxConnections, "1", value("1")),
        (Key::MaxConnections, "65535", value("1")),
        (Key::MaxConnections, "0", Reject),
        (Key::MaxConnections, "65536", Reject),
        (Key::InitialR2T, "No", value("No")),
        (Key::InitialR2T, "Yes", value("Yes")),
        (Key::InitialR2T, "yes", Reject),
        (Key::ImmediateData, "Yes", value("Yes")),
        (Key::ImmediateData, "No", value("No")),
        (Key::MaxRecvDataSegmentLength, "512", Nothing),
        (Key::MaxRecvDataSegmentLength, "16777215", Nothing),
        (Key::MaxRecvDataSegmentLength, "511", Reject),
        (Key::MaxRecvDataSegmentLength, "16777216", Reject),
        (Key::MaxBurstLength, "262144", value("262144")),
        (Key::MaxBurstLength, "16777215", value("1048576")),
        (Key::MaxBurstLength, "0x40000", value("262144")),
        (Key::MaxBurstLength, "0X200", value("512")),
        (Key::MaxBurstLength, "-1", Reject),
        (Key::MaxBurstLength, "+512", Reject),
        (Key::MaxBurstLength, "", Reject),
        (Key::MaxBurstLength, "99999999999999999999", Reject),
        (Key::MaxBurstLength, "512 ", Reject),
        (Key::FirstBurstLength, "262144", value("65536")),
        (Key::FirstBurstLength, "1024", value("1024")),
        (Key::DefaultTime2Wait, "0", value("0")),
        (Key::DefaultTime2Wait, "3600", value("3600")),
        (Key::DefaultTime2Wait, "3601", Reject),
        (Key::DefaultTime2Retain, "20", value("0")),
        (Key::MaxOutstandingR2T, "1", value("1")),
        (Key::MaxOutstandingR2T, "16", value("4")),
        (Key::DataPduInOrder, "No", value("Yes")),
        (Key::DataPduInOrder, "Yes", value("Yes")),
        (Key::DataSequenceInOrder, "No", value("Yes")),
        (Key::ErrorRecoveryLevel, "2", value("0")),
        (Key::ErrorRecoveryLevel, "3", Reject),
        (Key::TaskReporting, "FastAbort,RFC3720", value("RFC3720")),
        (Key::TaskReporting, "FastAbort", Reject),
        (Key::IscsiProtocolLevel, "2", value("1")),
        (Key::IscsiProtocolLevel, "0", value("0")),
        (Key::IfMarker, "Yes", value("No")),
        (Key::OfMarker, "No", value("No")),
        (Key::OfMarkInt, "2048~8192", Reject),
        (Key::TargetName, "iqn.a", NotUnderstood),
    ] {
        let mut parameters = Parameters::default();
        assert_eq!(
            parameters.answer(key, offer, &OURS),
            answer,
            "{}={offer}",
            key.name()
        );
    }
}

#[test]
fn a_refused_value_leaves_what_held_before() {
    let mut parameters = Parameters::default();
    for key in Key::ALL {
        parameters.answer(*key, "nonsense", &OURS);
        parameters.answer(*key, "4294967296", &OURS);
    }
    assert_eq!(parameters, Parameters::default());
}

#[test]
fn what_one_side_answers_the_other_accepts() {
    let offers = [
        (Key::HeaderDigest, "None,CRC32C"),
        (Key::MaxBurstLength, "1048576"),
        (Key::FirstBurstLength, "65536"),
        (Key::InitialR2T, "No"),
        (Key::ImmediateData, "Yes"),
        (Key::MaxOutstandingR2T, "4"),
        (Key::DefaultTime2Wait, "0"),
        (Key::DefaultTime2Retain, "0"),
        (Key::ErrorRecoveryLevel, "0"),
        (Key::MaxConnections, "1"),
    ];
    let target = Preferences {
        burst_max: 4096,
        initial_r2t: true,
        ..OURS
    };
    let (mut here, mut there) = (Parameters::default(), Parameters::default());
    for (key, offer) in offers {
        let Answer::Value(answer) = there.answer(key, offer, &target) else {
            panic!("{} is answered", key.name());
        };
        here.accept(key, &answer, &OURS).unwrap();
    }
    assert_eq!(here, there);
    assert_eq!((here.burst_max, here.initial_r2t), (4096, true));
    // FirstBurstLength came out above MaxBurstLength: the lower holds.
    assert_eq!(here.unsolicited_max(), 4096);
}

#[test]
fn answers_that_do_not_follow_from_the_offer() {
    for (key, answer) in [
        (Key::HeaderDigest, "SHA1"),
        (Key::HeaderDigest, "Reject"),
        (Key::MaxBurstLength, "16777215"),
        (Key::MaxBurstLength, "1"),
        (Key::MaxOutstandingR2T, "5"),
        (Key::MaxRecvDataSegmentLength, "1"),
        (Key::ErrorRecoveryLevel, "1"),
        (Key::DataPduInOrder, "No"),
    ] {
        let mut parameters = Parameters::default();
        assert!(
            parameters.accept(key, answer, &OURS).is_err(),
            "{}={answer}",
            key.name()
        );
        assert_eq!(parameters, Parameters::default());
    }
    let no_immediate = Preferences {
        immediate_data: false,
        ..OURS
    };
    let result = Parameters::default().accept(Key::ImmediateData, "Yes", &no_immediate);
    assert_eq!(result, Err(NegotiationError::Value(Key::ImmediateData)));
    // A parameter that was refused keeps its default.
    assert_eq!(
        Parameters::default().accept(Key::MaxBurstLength, "Reject", &OURS),
        Ok(())
    );
}

#[test]
fn keys_have_their_names() {
    for key in Key::ALL {
        assert_eq!(Key::from_name(key.name()), Some(*key));
        assert!(key.name().len() <= KEY_LENGTH_MAX);
    }
    assert_eq!(
        Key::from_name("headerdigest"),
        None,
        "names are case-sensitive"
    );
}

#[test]
fn texts() {
    let pairs = parse_text(b"A=1\0B=\0C=x=y\0").unwrap();
    let pairs: alloc::vec::Vec<_> = pairs.iter().map(|pair| (pair.key, pair.value)).collect();
    assert_eq!(pairs, [("A", "1"), ("B", ""), ("C", "x=y")]);
    assert_eq!(parse_text(b"").unwrap(), []);
    // A last zero byte that is missing, and padding that was counted.
    assert_eq!(parse_text(b"A=1").unwrap().len(), 1);
    assert_eq!(parse_text(b"A=1\0\0\0\0").unwrap().len(), 1);
    assert_eq!(parse_text(b"A"), Err(TextError::NoPair));
    assert_eq!(parse_text(b"=1\0"), Err(TextError::NoPair));
    assert_eq!(parse_text(b"A=\xFF\0"), Err(TextError::Encoding));
    let long_key = format!("{}=1\0", "K".repeat(KEY_LENGTH_MAX + 1));
    assert_eq!(parse_text(long_key.as_bytes()), Err(TextError::TooLong));
    let long_value = format!("K={}\0", "v".repeat(VALUE_LENGTH_MAX + 1));
    assert_eq!(parse_text(long_value.as_bytes()), Err(TextError::TooLong));
    let many = "K=1\0".repeat(KEYS_MAX + 1);
    assert_eq!(parse_text(many.as_bytes()), Err(TextError::TooMany));
    let mut text = String::new();
    put_pair(&mut text, "A", "1");
    assert_eq!(text, "A=1\0");
}
