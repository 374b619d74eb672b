//! Logins, right and wrong, request by request: every stage against every request, and every status
//! that a refusal has.

use crate::common;
use crate::common::{WHO, World, login};
use holdfast_iscsi::pdu::LoginStage::{FullFeature, OperationalNegotiation, SecurityNegotiation};
use holdfast_iscsi::pdu::{
    InitiatorTaskTag, LoginRequest, LoginResponse, LoginStage, LoginStatus, NopOut, Reply, Request,
    TargetTransferTag, TextRequest,
};
use holdfast_iscsi::target::{CloseReason, ConnectionId, Limits};
use holdfast_iscsi::{ConnectionIdentifier, Isid, SerialNumber, Tsih};
use holdfast_scsi::Lun;
use holdfast_stdx::{Bytes, Duration};

fn answer(world: &mut World, connection: ConnectionId) -> (LoginResponse, String) {
    let (reply, text) = world.reply(connection);
    let Reply::Login(response) = reply else {
        panic!("a login is answered by a login response, not {reply:?}");
    };
    (response, String::from_utf8(text).unwrap())
}

fn ask(
    world: &mut World,
    connection: ConnectionId,
    request: LoginRequest,
    text: &str,
) -> (LoginResponse, String) {
    world.send(connection, &Request::Login(request), text.as_bytes());
    answer(world, connection)
}

/// A first request that is refused: the status, and that the connection is closed after it.
fn refused(request: LoginRequest, text: &str) -> LoginStatus {
    let mut world = World::new(1);
    let connection = world.connect_raw();
    let (response, _) = ask(&mut world, connection, request, text);
    if response.status != LoginStatus::Success {
        assert!(!response.transit);
        assert_eq!(
            world.close_reason(connection),
            Some(CloseReason::LoginRefused)
        );
        assert_eq!(world.target.next_timeout(), None);
    }
    response.status
}

#[test]
fn a_login_in_two_stages() {
    let mut world = World::new(1);
    let connection = world.connect_raw();
    let first = login(SecurityNegotiation, Some(OperationalNegotiation));
    let text = format!("{WHO}AuthMethod=CHAP,None\0InitiatorAlias=a\0");
    let (response, text) = ask(&mut world, connection, first, &text);
    assert_eq!(response.status, LoginStatus::Success);
    assert_eq!(
        (response.current, response.next),
        (SecurityNegotiation, Some(OperationalNegotiation))
    );
    assert_eq!(response.tsih, Tsih(0), "not before the last response");
    assert_eq!(
        text,
        "TargetAlias=demo\0TargetPortalGroupTag=1\0AuthMethod=None\0"
    );

    let second = login(OperationalNegotiation, Some(FullFeature));
    let offers = "HeaderDigest=None\0MaxBurstLength=262144\0IFMarker=No\0X-mine=1\0\
        MaxRecvDataSegmentLength=65536\0DataPDUInOrder=Yes\0";
    let (response, text) = ask(&mut world, connection, second, offers);
    assert_eq!(response.status, LoginStatus::Success);
    assert_eq!((response.transit, response.next), (true, Some(FullFeature)));
    assert_ne!(response.tsih, Tsih(0));
    assert_eq!(
        text,
        "HeaderDigest=None\0MaxBurstLength=262144\0IFMarker=No\0X-mine=NotUnderstood\0\
         DataPDUInOrder=Yes\0MaxRecvDataSegmentLength=262144\0"
    );
    // The first command has the number that the login had; the window is open from there.
    assert_eq!(response.sequence.expected_command, SerialNumber(100));
    assert_eq!(response.sequence.command_max, SerialNumber(100 + 127));
    assert_eq!(world.sessions.len(), 1);
}

#[test]
fn a_login_that_takes_its_time() {
    // Without T the target answers and waits; then the stage changes.
    let mut world = World::new(1);
    let connection = world.connect_raw();
    let (response, _) = ask(
        &mut world,
        connection,
        login(SecurityNegotiation, None),
        WHO,
    );
    assert_eq!(
        (response.transit, response.status),
        (false, LoginStatus::Success)
    );
    let request = login(SecurityNegotiation, Some(OperationalNegotiation));
    let (response, text) = ask(&mut world, connection, request, "AuthMethod=None\0");
    assert_eq!(text, "AuthMethod=None\0");
    assert_eq!(response.next, Some(OperationalNegotiation));
    let request = login(OperationalNegotiation, None);
    let (response, text) = ask(&mut world, connection, request, "InitialR2T=No\0");
    assert!(!response.transit);
    assert_eq!(text, "InitialR2T=No\0MaxRecvDataSegmentLength=262144\0");
    let request = login(OperationalNegotiation, Some(FullFeature));
    let (response, text) = ask(&mut world, connection, request, "");
    assert!(response.transit);
    assert_eq!(text, "", "what was declared is not declared again");
}

#[test]
fn text_that_goes_on_in_the_next_request() {
    let mut world = World::new(1);
    let connection = world.connect_raw();
    let request = login(OperationalNegotiation, Some(FullFeature));
    let part = LoginRequest {
        transit: false,
        next: None,
        more: true,
        ..request
    };
    let whole = format!("{WHO}MaxBurstLength=4096\0");
    let (head, tail) = whole.split_at(whole.len() - 7);
    let (response, text) = ask(&mut world, connection, part, head);
    assert_eq!(
        (response.transit, response.status),
        (false, LoginStatus::Success)
    );
    assert_eq!(text, "", "not before the text is complete");
    let (response, text) = ask(&mut world, connection, request, tail);
    assert!(response.transit);
    assert!(text.contains("MaxBurstLength=4096\0"));
}

#[test]
fn straight_from_security_to_full_feature() {
    let mut world = World::new(1);
    let connection = world.connect_raw();
    let request = login(SecurityNegotiation, Some(FullFeature));
    let (response, text) = ask(&mut world, connection, request, WHO);
    assert_eq!(response.next, Some(FullFeature));
    assert!(!text.contains("MaxRecvDataSegmentLength"));
    // Nothing was declared, so the default holds: 8192 bytes and not one more.
    let header = nop(SerialNumber(100));
    world.send(connection, &header, &[0; 8192]);
    assert!(matches!(world.reply(connection).0, Reply::NopIn(_)));
    world.send_raw(
        connection,
        common::framed(&nop(SerialNumber(101)), &[0; 8193]),
    );
    assert_eq!(
        world.close_reason(connection),
        Some(CloseReason::ProtocolError)
    );
}

fn nop(number: SerialNumber) -> Request {
    Request::NopOut(NopOut {
        immediate: false,
        lun: Lun::from_number(0),
        task_tag: InitiatorTaskTag(9),
        transfer_tag: TargetTransferTag::RESERVED,
        command_number: number,
        expected_status: SerialNumber(0),
    })
}

#[test]
fn every_stage_against_every_next_stage() {
    let stages = [SecurityNegotiation, OperationalNegotiation, FullFeature];
    let next_stages = [
        None,
        Some(SecurityNegotiation),
        Some(OperationalNegotiation),
        Some(FullFeature),
    ];
    for current in stages {
        for next in next_stages {
            let is_right =
                current != FullFeature && next.is_none_or(|next| next.code() > current.code());
            let status = refused(login(current, next), WHO);
            let expected = if is_right {
                LoginStatus::Success
            } else {
                LoginStatus::InitiatorError
            };
            assert_eq!(status, expected, "{current:?} -> {next:?}");
        }
    }
}

#[test]
fn every_state_against_every_stage_that_is_asked_for() {
    // States: what the login has come to after requests that were right.
    type History = &'static [(LoginStage, Option<LoginStage>)];
    let histories: [(History, LoginStage); 4] = [
        (&[(SecurityNegotiation, None)], SecurityNegotiation),
        (
            &[(SecurityNegotiation, Some(OperationalNegotiation))],
            OperationalNegotiation,
        ),
        (&[(OperationalNegotiation, None)], OperationalNegotiation),
        (
            &[
                (SecurityNegotiation, Some(OperationalNegotiation)),
                (OperationalNegotiation, None),
            ],
            OperationalNegotiation,
        ),
    ];
    for (history, stage) in histories {
        for asked in [SecurityNegotiation, OperationalNegotiation, FullFeature] {
            let mut world = World::new(1);
            let connection = world.connect_raw();
            for (index, (current, next)) in history.iter().enumerate() {
                let text = if index == 0 { WHO } else { "" };
                let (response, _) = ask(&mut world, connection, login(*current, *next), text);
                assert_eq!(response.status, LoginStatus::Success);
            }
            let (response, _) = ask(&mut world, connection, login(asked, None), "");
            let expected = if asked == stage {
                LoginStatus::Success
            } else {
                LoginStatus::InitiatorError
            };
            assert_eq!(response.status, expected, "{history:?}, then {asked:?}");
            // In none of these states has another PDU a place.
            if asked == stage {
                world.send(connection, &nop(SerialNumber(100)), &[]);
                let (response, _) = answer(&mut world, connection);
                assert_eq!(response.status, LoginStatus::InvalidDuringLogin);
                assert_eq!(
                    world.close_reason(connection),
                    Some(CloseReason::LoginRefused)
                );
            }
        }
    }
}

#[test]
fn what_all_requests_of_a_login_repeat() {
    let right = login(SecurityNegotiation, None);
    for wrong in [
        LoginRequest {
            isid: Isid([1; 6]),
            ..right
        },
        LoginRequest {
            tsih: Tsih(1),
            ..right
        },
        LoginRequest {
            task_tag: InitiatorTaskTag(8),
            ..right
        },
        LoginRequest {
            command_number: SerialNumber(101),
            ..right
        },
    ] {
        let mut world = World::new(1);
        let connection = world.connect_raw();
        ask(&mut world, connection, right, WHO);
        let (response, _) = ask(&mut world, connection, wrong, "");
        assert_eq!(response.status, LoginStatus::InitiatorError);
    }
}

#[test]
fn refusals_and_their_status() {
    let request = login(OperationalNegotiation, Some(FullFeature));
    let name = "InitiatorName=iqn.2026-11.example.host:a\0";
    for (text, status) in [
        ("", LoginStatus::MissingParameter),
        (
            "TargetName=iqn.2026-11.example.holdfast:demo\0",
            LoginStatus::MissingParameter,
        ),
        (name, LoginStatus::MissingParameter),
        (
            "InitiatorName=nobody\0SessionType=Discovery\0",
            LoginStatus::InitiatorError,
        ),
        ("no pair", LoginStatus::InitiatorError),
    ] {
        assert_eq!(refused(request, text), status, "{text:?}");
    }
    for (rest, status) in [
        (
            "TargetName=iqn.2026-11.example:none\0",
            LoginStatus::NotFound,
        ),
        ("TargetName=what?\0", LoginStatus::NotFound),
        (
            "SessionType=Strange\0",
            LoginStatus::SessionTypeNotSupported,
        ),
        ("SessionType=Discovery\0", LoginStatus::Success),
        (
            "TargetName=IQN.2026-11.example.holdfast:DEMO\0",
            LoginStatus::Success,
        ),
        // A key twice, in one text.
        (
            "SessionType=Discovery\0MaxBurstLength=512\0MaxBurstLength=512\0",
            LoginStatus::InitiatorError,
        ),
    ] {
        assert_eq!(
            refused(request, &format!("{name}{rest}")),
            status,
            "{rest:?}"
        );
    }
    let old = LoginRequest {
        version_min: 1,
        version_max: 1,
        ..request
    };
    assert_eq!(refused(old, WHO), LoginStatus::UnsupportedVersion);
    let unknown = LoginRequest {
        tsih: Tsih(77),
        ..request
    };
    assert_eq!(refused(unknown, WHO), LoginStatus::SessionDoesNotExist);
    let security = login(SecurityNegotiation, Some(FullFeature));
    let chap = format!("{WHO}AuthMethod=CHAP\0");
    assert_eq!(refused(security, &chap), LoginStatus::AuthenticationFailure);
}

#[test]
fn a_key_twice_in_one_login() {
    let mut world = World::new(1);
    let connection = world.connect_raw();
    let request = login(OperationalNegotiation, None);
    let text = format!("{WHO}ImmediateData=No\0");
    ask(&mut world, connection, request, &text);
    let (response, _) = ask(&mut world, connection, request, "ImmediateData=Yes\0");
    assert_eq!(response.status, LoginStatus::InitiatorError);
}

#[test]
fn keys_that_are_not_the_initiators() {
    let mut world = World::new(1);
    let connection = world.connect_raw();
    let request = login(OperationalNegotiation, Some(FullFeature));
    let text = format!(
        "{WHO}SendTargets=All\0TargetAddress=a:1,1\0CHAP_A=5\0AuthMethod=None\0\
         X#NodeArchitecture=other\0"
    );
    let (response, text) = ask(&mut world, connection, request, &text);
    assert_eq!(response.status, LoginStatus::Success);
    for refused in ["SendTargets", "TargetAddress", "CHAP_A", "AuthMethod"] {
        assert!(text.contains(&format!("{refused}=Reject\0")), "{text:?}");
    }
    assert!(
        !text.contains("NodeArchitecture"),
        "a declaration: {text:?}"
    );
}

#[test]
fn a_second_connection_for_a_session() {
    let mut world = World::new(1);
    let request = login(OperationalNegotiation, Some(FullFeature));
    let connection = world.connect_raw();
    let (response, _) = ask(&mut world, connection, request, WHO);
    let again = LoginRequest {
        tsih: response.tsih,
        connection: ConnectionIdentifier(2),
        ..request
    };
    let other = world.connect_raw();
    let (response, _) = ask(&mut world, other, again, WHO);
    assert_eq!(response.status, LoginStatus::TooManyConnections);
    assert_eq!(world.close_reason(connection), None, "the session goes on");
}

/// RFC 7143 6.3.4: the old connection ends with its commands, and the session goes on under its
/// number.
#[test]
fn the_connection_of_a_session_is_reinstated() {
    let mut world = World::new(1);
    world.confirms_closings = false;
    let request = login(OperationalNegotiation, Some(FullFeature));
    let connection = world.connect_raw();
    let (response, _) = ask(&mut world, connection, request, WHO);
    let tsih = response.tsih;
    let again = LoginRequest {
        tsih,
        command_number: SerialNumber(130),
        ..request
    };
    // Whoever else knows the number gets nothing for it: another port, another target, discovery.
    let elsewhere = WHO.replace("holdfast:demo", "holdfast:other");
    let discovery = WHO.replace("Normal", "Discovery");
    let port = LoginRequest {
        isid: Isid([1; 6]),
        ..again
    };
    for (request, text) in [(port, WHO), (again, &elsewhere), (again, &discovery)] {
        let other = world.connect_raw();
        let (response, _) = ask(&mut world, other, request, text);
        assert_eq!(response.status, LoginStatus::SessionDoesNotExist, "{text}");
        assert_eq!(world.close_reason(connection), None);
    }
    let other = world.connect_raw();
    world.send(other, &Request::Login(again), WHO.as_bytes());
    assert_eq!(
        world.close_reason(connection),
        Some(CloseReason::Reinstated)
    );
    assert!(
        world.replies(other).is_empty(),
        "not before the end of its commands"
    );
    let (session, _) = world.closings[0];
    world.finish_session(session);
    let (response, _) = answer(&mut world, other);
    assert_eq!(response.status, LoginStatus::Success);
    assert_eq!(response.tsih, tsih);
    assert_eq!(response.sequence.expected_command, SerialNumber(130));
    world.send(other, &nop(SerialNumber(130)), b"ping");
    assert_eq!(world.reply(other).1, b"ping");
}

#[test]
fn more_text_and_more_requests_than_any_login_has() {
    let mut world = World::with_limits(
        1,
        Limits {
            text_bytes_max: 8192,
            ..Limits::default()
        },
    );
    let connection = world.connect_raw();
    let request = LoginRequest {
        more: true,
        ..login(SecurityNegotiation, None)
    };
    let (response, _) = ask(&mut world, connection, request, &"x".repeat(5000));
    assert_eq!(response.status, LoginStatus::Success);
    let (response, _) = ask(&mut world, connection, request, &"x".repeat(5000));
    assert_eq!(response.status, LoginStatus::InitiatorError);

    let connection = world.connect_raw();
    let request = login(SecurityNegotiation, None);
    let (mut response, _) = ask(&mut world, connection, request, WHO);
    let mut requests = 1;
    while response.status == LoginStatus::Success {
        (response, _) = ask(&mut world, connection, request, "");
        requests += 1;
    }
    assert_eq!(
        (response.status, requests),
        (LoginStatus::InitiatorError, 33)
    );
}

#[test]
fn an_answer_that_would_not_fit() {
    let mut text = String::from(WHO);
    for index in 0..120 {
        let key = format!("X-{index:0>61}");
        text.push_str(&format!("{key}=1\0"));
    }
    assert!(text.len() > 7000 && text.len() < 8192);
    let request = login(OperationalNegotiation, Some(FullFeature));
    assert_eq!(refused(request, &text), LoginStatus::InitiatorError);
}

#[test]
fn logins_that_do_not_come_to_an_end() {
    let limits = Limits {
        logins_max: 2,
        ..Limits::default()
    };
    let mut world = World::with_limits(1, limits);
    let silent = world.connect_raw();
    let slow = world.connect_raw();
    ask(&mut world, slow, login(SecurityNegotiation, None), WHO);
    // The oldest makes room for a third, which is served.
    let third = world.raw_session("");
    let reason = world.close_reason(silent);
    assert_eq!(reason, Some(CloseReason::TooManyConnections));
    world.pass(Duration::from_secs(14));
    assert_eq!(world.closed.len(), 1);
    world.pass(Duration::from_secs(1));
    assert_eq!(world.close_reason(slow), Some(CloseReason::LoginTimeout));
    assert_eq!(world.close_reason(third), None);
}

#[test]
fn a_login_within_a_session_is_refused() {
    let mut world = World::new(1);
    let connection = world.raw_session("");
    let request = login(OperationalNegotiation, Some(FullFeature));
    world.send(connection, &Request::Login(request), WHO.as_bytes());
    let (Reply::Reject(reject), header) = world.reply(connection) else {
        panic!("it is refused");
    };
    assert_eq!(reject.reason, 4);
    assert_eq!(header.len(), 48);
    assert_eq!(world.close_reason(connection), None);
}

#[test]
fn text_in_a_session_renegotiates_what_may_change() {
    let mut world = World::new(1);
    let connection = world.raw_session("");
    let request = Request::Text(TextRequest {
        immediate: true,
        is_final: true,
        more: false,
        lun: Lun::from_number(0),
        task_tag: InitiatorTaskTag(3),
        transfer_tag: TargetTransferTag::RESERVED,
        command_number: SerialNumber(100),
        expected_status: SerialNumber(0),
    });
    let text = "MaxRecvDataSegmentLength=512\0MaxBurstLength=512\0X-what=1\0";
    world.send(connection, &request, text.as_bytes());
    let (Reply::Text(response), text) = world.reply(connection) else {
        panic!("text is answered");
    };
    assert!(response.is_final);
    assert_eq!(text, b"MaxBurstLength=Reject\0X-what=NotUnderstood\0");
    // From now on no data segment is longer than that.
    world.send(connection, &nop(SerialNumber(100)), &[1; 4096]);
    let (_, echo) = world.reply(connection);
    assert_eq!(echo.len(), 512);
}

#[test]
fn bytes_that_come_with_the_login_are_not_lost() {
    let mut world = World::new(1);
    let connection = world.connect_raw();
    let request = login(OperationalNegotiation, Some(FullFeature));
    let mut bytes = common::framed(&Request::Login(request), WHO.as_bytes()).to_vec();
    bytes.extend_from_slice(&common::framed(&nop(SerialNumber(100)), b"ping"));
    world.send_raw(connection, Bytes::from(bytes));
    let replies = world.replies(connection);
    assert!(matches!(
        replies[..],
        [(Reply::Login(_), _), (Reply::NopIn(_), _)]
    ));
    assert_eq!(replies[1].1, b"ping");
}
