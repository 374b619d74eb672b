//! A session against tgt: what it asks is answered, and what ends it is told.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use holdfast_iscsi::initiator::{SessionKind, SubmitError};
use holdfast_iscsi::negotiation::{Digest, Preferences};
use holdfast_iscsi::pdu::LoginStatus;
use holdfast_lab::session::{ConnectError, SessionError};
use holdfast_lab::{
    CommandTag, EndReason, IscsiName, Isid, Session, SessionConfig, TaskManagementCode, command,
};
use holdfast_stdx::Bytes;

use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

use crate::support::{Medium, TARGET, enable_digests, free_address, initiator, lun, target};

const ISID: Isid = Isid([0x80, 0, 0, 1, 0, 0]);
const VOLUME_BYTES: u64 = 64 << 20;

fn config(portal: SocketAddr) -> SessionConfig {
    let kind = SessionKind::Normal(target());
    let mut config = SessionConfig::new(portal, initiator(), ISID, kind);
    // tgt leaves ExpDataSN zero.
    config.login.counts_data = false;
    config
}

/// Takes the unit attentions of a new session.
async fn ready(session: &Session) {
    for _ in 0..8 {
        let ready = session.execute(command::test_unit_ready(lun())).await;
        if ready.unwrap().status == 0 {
            return;
        }
    }
    panic!("the unit is never ready");
}

#[tokio::test]
async fn targets_are_discovered() {
    let medium = Medium::new(VOLUME_BYTES);
    let tgt = medium.serve();
    let discovery = SessionConfig::new(tgt.portal(), initiator(), ISID, SessionKind::Discovery);
    let session = Session::connect(discovery).await.unwrap();
    let targets = session.discover("All").await.unwrap();
    assert_eq!(targets.len(), 1);
    assert_eq!(targets[0].name, TARGET);
    assert_eq!(targets[0].addresses[0].0, tgt.portal().to_string());
    assert_eq!(session.log_out().await, EndReason::LoggedOut);
    let after = session.discover("All").await;
    assert_eq!(after, Err(SessionError::Ended(EndReason::LoggedOut)));
}

#[tokio::test]
async fn data_comes_back_however_it_was_sent() {
    let medium = Medium::new(VOLUME_BYTES);
    let tgt = medium.serve();
    enable_digests(&tgt);
    for (immediate_data, initial_r2t, digests) in [
        (true, false, Preferences::DIGESTS),
        (true, true, Preferences::DIGESTS),
        (false, false, &[Digest::Crc32c]),
        (false, true, &[Digest::Crc32c]),
    ] {
        let mut config = config(tgt.portal());
        config.login.preferences.immediate_data = immediate_data;
        config.login.preferences.initial_r2t = initial_r2t;
        config.login.preferences.header_digests = digests;
        config.login.preferences.data_digests = digests;
        let session = Session::connect(config).await.unwrap();
        ready(&session).await;
        for blocks in [1_u32, 16, 129, 2048] {
            let data: Vec<u8> = (0..blocks * 512)
                .map(|at| (at / 7) as u8 ^ blocks as u8)
                .collect();
            // In parts that end where no block does.
            let parts = data.chunks(1000).map(Bytes::copy_from_slice).collect();
            let write = command::write(lun(), 7, blocks, parts, false);
            assert_eq!(session.execute(write).await.unwrap().status, 0);
            let read = command::read(lun(), 7, blocks, 512);
            let read = session.execute(read).await.unwrap();
            assert_eq!(read.data_in.concat(), data, "{blocks} blocks");
        }
        session.log_out().await;
    }
}

/// Else the system goes on sending when the way is passable again, and what was repeated elsewhere lands late.
#[tokio::test]
async fn what_is_given_up_is_not_sent_any_more() {
    let medium = Medium::new(VOLUME_BYTES);
    let tgt = medium.serve();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (portal, behind) = (listener.local_addr().unwrap(), tgt.portal());
    let stop = Arc::new(Notify::new());
    let stopped = Arc::clone(&stop);
    let relay = tokio::spawn(async move {
        let (mut host, _) = listener.accept().await.unwrap();
        let mut target = TcpStream::connect(behind).await.unwrap();
        tokio::select! {
            ended = tokio::io::copy_bidirectional(&mut host, &mut target) => {
                panic!("nobody has ended it: {ended:?}")
            }
            () = stopped.notified() => host,
        }
    });
    let session = Session::connect(config(portal)).await.unwrap();
    ready(&session).await;
    stop.notify_one();
    let mut host = relay.await.unwrap();
    let data = vec![Bytes::from(vec![7; 64 << 10])];
    let write = command::write(lun(), 0, 128, data, false);
    let _pending = session.submit(write).await.unwrap();
    session.close();
    assert_eq!(session.ended().await, EndReason::Closed);
    let mut received = [0; 4096];
    let error = loop {
        match host.read(&mut received).await {
            Ok(0) => panic!("the connection was closed in order, after all that was to be sent"),
            Ok(_) => {}
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
}

#[tokio::test]
async fn more_commands_than_the_window_takes_are_all_answered() {
    let medium = Medium::new(VOLUME_BYTES);
    let tgt = medium.serve();
    let mut config = config(tgt.portal());
    config.login.commands_max = 300;
    let session = Session::connect(config).await.unwrap();
    ready(&session).await;
    let mut commands = tokio::task::JoinSet::new();
    for first in 0..1000_u64 {
        let session = session.clone();
        commands.spawn(async move {
            let data = Bytes::from(first.to_be_bytes().repeat(64));
            let write = command::write(lun(), first, 1, vec![data.clone()], false);
            assert_eq!(session.execute(write).await.unwrap().status, 0);
            let read = command::read(lun(), first, 1, 512);
            let read = session.execute(read).await.unwrap();
            assert_eq!(read.data_in.concat(), data);
        });
    }
    while let Some(command) = commands.join_next().await {
        command.unwrap();
    }
}

#[tokio::test]
async fn tasks_are_managed() {
    let medium = Medium::new(VOLUME_BYTES);
    let tgt = medium.serve();
    let session = Session::connect(config(tgt.portal())).await.unwrap();
    ready(&session).await;
    let unknown = session.abort(CommandTag(u64::MAX)).await;
    assert_eq!(
        unknown,
        Err(SessionError::Refused(SubmitError::NoSuchCommand))
    );
    let reset = TaskManagementCode::LogicalUnitReset;
    assert_eq!(session.manage(reset, lun()).await, Ok(0));
    ready(&session).await;
}

#[tokio::test]
async fn a_login_that_fails_says_why() {
    let medium = Medium::new(VOLUME_BYTES);
    let tgt = medium.serve();
    let mut unknown = config(tgt.portal());
    let name = IscsiName::parse("iqn.2026-11.example.holdfast:none").unwrap();
    unknown.login.kind = SessionKind::Normal(name);
    match Session::connect(unknown).await {
        Err(ConnectError::Login {
            reason: EndReason::LoginRefused(status),
            ..
        }) => assert_eq!(status, LoginStatus::NotFound),
        other => panic!("{other:?}"),
    }
    let nowhere = Session::connect(config(free_address())).await;
    assert!(matches!(nowhere, Err(ConnectError::Connection { .. })));
}

#[tokio::test]
async fn a_target_that_does_not_answer_is_given_up() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut config = config(listener.local_addr().unwrap());
    config.login.login_timeout = Duration::from_millis(100);
    let result = Session::connect(config).await;
    assert!(matches!(
        result,
        Err(ConnectError::Login {
            reason: EndReason::Timeout,
            ..
        })
    ));
}

#[tokio::test]
async fn the_end_of_a_session_answers_everything() {
    let medium = Medium::new(VOLUME_BYTES);
    let mut tgt = medium.serve();
    let session = Session::connect(config(tgt.portal())).await.unwrap();
    ready(&session).await;
    tgt.freeze().unwrap();
    let mut pending = Vec::new();
    for first in 0..10 {
        let read = command::read(lun(), first, 1, 512);
        pending.push(session.submit(read).await.unwrap());
    }
    assert_eq!(session.end_reason(), None);
    tgt.kill();
    let ended = SessionError::Ended(EndReason::Closed);
    for mut command in pending {
        assert_eq!(command.finish().await, Err(ended));
    }
    let after = session.execute(command::test_unit_ready(lun())).await;
    assert_eq!(after, Err(ended));
}

#[tokio::test]
async fn a_session_that_is_closed_ends_at_once() {
    let medium = Medium::new(VOLUME_BYTES);
    let tgt = medium.serve();
    let session = Session::connect(config(tgt.portal())).await.unwrap();
    tgt.freeze().unwrap();
    let read = command::read(lun(), 0, 1, 512);
    let mut pending = session.submit(read).await.unwrap();
    session.close();
    assert_eq!(session.ended().await, EndReason::Closed);
    assert!(pending.finish().await.is_err());
}
