//! The portal, over real sockets of this machine.

use std::io;
use std::time::Duration;

use crate::support::{CLOCK, TestNode, TestOptions, run, within};
use holdfast_engine::{ConnectionId, PortalCommand, PortalEvent};
use holdfast_stdx::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const QUIET: Duration = Duration::from_millis(200);

async fn connected(node: &mut TestNode) -> (TcpStream, ConnectionId) {
    let initiator = TcpStream::connect(node.portal).await.unwrap();
    match node.next_portal().await {
        PortalEvent::Connected { connection, from } => {
            assert_eq!(from, initiator.local_addr().unwrap().to_string());
            (initiator, connection)
        }
        other => panic!("{other:?} where an initiator connects"),
    }
}

/// Everything that comes until `count` bytes are there, and the largest piece.
async fn received(node: &mut TestNode, from: ConnectionId, count: usize) -> (Vec<u8>, usize) {
    let (mut all, mut largest) = (Vec::new(), 0);
    while all.len() < count {
        match node.next_portal().await {
            PortalEvent::Received {
                connection,
                bytes,
                received,
            } => {
                assert_eq!((connection, received), (from, CLOCK));
                assert!(!bytes.is_empty());
                largest = largest.max(bytes.len());
                all.extend_from_slice(&bytes);
            }
            other => panic!("{other:?} where bytes should come"),
        }
    }
    (all, largest)
}

async fn closed(node: &mut TestNode, expected: ConnectionId) {
    match node.next_portal().await {
        PortalEvent::Closed { connection } => assert_eq!(connection, expected),
        other => panic!("{other:?} where the connection should end"),
    }
}

fn send(node: &mut TestNode, connection: ConnectionId, parts: Vec<Bytes>) {
    node.network
        .portal_command(PortalCommand::Send { connection, parts });
}

fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at / 7) as u8).collect()
}

#[test]
fn nobody_is_let_in_before_it_is_open() {
    run(async {
        let mut node = TestNode::closed(1, &TestOptions::default());
        let refused = TcpStream::connect(node.portal).await.unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
        node.network
            .open(holdfast_model::StoreId(1), holdfast_model::Incarnation(1))
            .unwrap();
        connected(&mut node).await;
    });
}

#[test]
fn a_port_that_is_taken_is_named() {
    run(async {
        let node = TestNode::open(1);
        let error = holdfast_net::Listener::bind(node.portal).unwrap_err();
        assert!(error.is_taken());
        assert_eq!(error.address, node.portal);
        assert!(error.to_string().contains(&node.portal.to_string()));
    });
}

#[test]
fn bytes_come_in_order_and_in_bounded_pieces() {
    run(async {
        let mut node = TestNode::open(1);
        let (mut initiator, connection) = connected(&mut node).await;
        let bytes = pattern(5_000_000);
        let sent = bytes.clone();
        let writer = async move {
            initiator.write_all(&sent).await.unwrap();
            initiator
        };
        let ((all, largest), initiator) =
            tokio::join!(received(&mut node, connection, bytes.len()), writer);
        assert!(all == bytes);
        assert!(largest <= 256 << 10, "{largest} bytes in one piece");
        drop(initiator);
        closed(&mut node, connection).await;
    });
}

#[test]
fn the_engine_gets_one_piece_a_turn() {
    run(async {
        let mut node = TestNode::open(1);
        let (mut initiator, connection) = connected(&mut node).await;
        let bytes = pattern(64 << 20);
        let writing = tokio::task::spawn_local(async move {
            drop(initiator.write_all(&bytes).await);
        });
        let (_, first) = received(&mut node, connection, 1).await;
        // The loop is busy with that piece: nothing piles up meanwhile.
        tokio::time::sleep(QUIET).await;
        assert!(!writing.is_finished(), "the kernel alone holds all of it");
        let mut events = Vec::new();
        node.network.next_events(&mut events).await;
        assert_eq!(events.len(), 1);
        assert!(first <= 256 << 10);
        writing.abort();
    });
}

#[test]
fn a_paused_connection_is_not_read() {
    run(async {
        let mut node = TestNode::open(1);
        let (mut initiator, connection) = connected(&mut node).await;
        initiator.write_all(b"before").await.unwrap();
        // It is in the inbox when the pause comes.
        tokio::time::sleep(QUIET).await;
        node.network
            .portal_command(PortalCommand::Pause { connection });
        let bytes = pattern(64 << 20);
        let expected = bytes.clone();
        let writing = tokio::task::spawn_local(async move {
            initiator.write_all(&bytes).await.unwrap();
            initiator
        });
        node.silent(QUIET).await;
        assert!(!writing.is_finished(), "somebody read all of it");
        // What is sent goes all the same, and others are read.
        send(&mut node, connection, vec![Bytes::from_static(b"here")]);
        assert!(matches!(
            node.next_portal().await,
            PortalEvent::Sent { count: 4, .. }
        ));
        let (mut other, second) = connected(&mut node).await;
        other.write_all(b"other").await.unwrap();
        assert_eq!(received(&mut node, second, 5).await.0, b"other");
        node.network
            .portal_command(PortalCommand::Resume { connection });
        assert_eq!(received(&mut node, connection, 6).await.0, b"before");
        let (all, _) = received(&mut node, connection, expected.len()).await;
        assert!(all == expected);
        writing.await.unwrap();
    });
}

#[test]
fn what_is_sent_arrives_and_is_counted() {
    run(async {
        let mut node = TestNode::open(1);
        let (mut initiator, connection) = connected(&mut node).await;
        let bytes = pattern(3_000_000);
        let parts: Vec<Bytes> = bytes.chunks(4096).map(Bytes::copy_from_slice).collect();
        send(&mut node, connection, vec![Bytes::new()]);
        send(&mut node, connection, parts);
        send(&mut node, connection, vec![Bytes::from_static(b"end")]);
        let mut all = vec![0; bytes.len() + 3];
        let reader = async {
            initiator.read_exact(&mut all).await.unwrap();
            initiator
        };
        let counter = async {
            let mut counted = 0;
            while counted < bytes.len() + 3 {
                match node.next_portal().await {
                    PortalEvent::Sent { count, .. } => counted += count,
                    other => panic!("{other:?} where bytes should go"),
                }
            }
            counted
        };
        let (_initiator, counted) = tokio::join!(reader, counter);
        assert_eq!(counted, bytes.len() + 3);
        assert!(all[..bytes.len()] == bytes && &all[bytes.len()..] == b"end");
        node.silent(QUIET).await;
    });
}

#[test]
fn an_initiator_that_does_not_read_takes_no_more_than_the_kernel_holds() {
    run(async {
        let mut node = TestNode::open(1);
        let (_initiator, connection) = connected(&mut node).await;
        let part = Bytes::from(pattern(1 << 20));
        send(&mut node, connection, vec![part.clone(); 64]);
        let mut counted = 0;
        while let Ok(event) = tokio::time::timeout(QUIET, node.next_portal()).await {
            match event {
                PortalEvent::Sent { count, .. } => counted += count,
                other => panic!("{other:?} where bytes should go"),
            }
        }
        assert!(counted < 32 << 20, "{counted} bytes went nowhere");
        // Others are served meanwhile, and who fills the queue is cut off.
        let (mut other, second) = connected(&mut node).await;
        send(&mut node, second, vec![Bytes::from_static(b"here")]);
        let mut here = [0; 4];
        node.network.flush();
        within(other.read_exact(&mut here)).await.unwrap();
        assert!(matches!(node.next_portal().await, PortalEvent::Sent { .. }));
        send(&mut node, connection, vec![part; 128]);
        closed(&mut node, connection).await;
    });
}

#[test]
fn a_close_sends_what_was_given_first() {
    run(async {
        let mut node = TestNode::open(1);
        let (mut initiator, connection) = connected(&mut node).await;
        let bytes = pattern(2_000_000);
        // Unread bytes at the closing end must not take back what it has sent.
        initiator.write_all(&pattern(1000)).await.unwrap();
        received(&mut node, connection, 1000).await;
        initiator.write_all(&pattern(1000)).await.unwrap();
        send(&mut node, connection, vec![Bytes::from(bytes.clone())]);
        node.network
            .portal_command(PortalCommand::Close { connection });
        let reader = async {
            tokio::time::sleep(QUIET).await;
            let mut all = Vec::new();
            initiator.read_to_end(&mut all).await.unwrap();
            drop(initiator);
            all
        };
        let ended = async {
            loop {
                match node.next_portal().await {
                    PortalEvent::Closed { .. } => return,
                    PortalEvent::Sent { .. } => {}
                    other => panic!("{other:?} after the close"),
                }
            }
        };
        let (all, ()) = tokio::join!(reader, ended);
        assert!(all == bytes);
    });
}

#[test]
fn a_close_ends_although_the_initiator_does_not() {
    run(async {
        let mut node = TestNode::open(1);
        let (_initiator, connection) = connected(&mut node).await;
        send(&mut node, connection, vec![Bytes::from(pattern(32 << 20))]);
        node.network
            .portal_command(PortalCommand::Close { connection });
        let begun = std::time::Instant::now();
        while !matches!(node.next_portal().await, PortalEvent::Closed { .. }) {}
        assert!(begun.elapsed() < Duration::from_secs(10));
    });
}

#[test]
fn an_abort_resets_at_once_and_drops_what_is_unread() {
    run(async {
        let mut node = TestNode::open(1);
        let (mut initiator, connection) = connected(&mut node).await;
        initiator.write_all(&pattern(1000)).await.unwrap();
        received(&mut node, connection, 1000).await;
        // These are in the kernel, or in the inbox, when the abort comes.
        initiator.write_all(&pattern(100_000)).await.unwrap();
        tokio::time::sleep(QUIET).await;
        send(&mut node, connection, vec![Bytes::from(pattern(8 << 20))]);
        node.network
            .portal_command(PortalCommand::Abort { connection });
        closed(&mut node, connection).await;
        node.silent(QUIET).await;
        let mut all = Vec::new();
        let error = initiator.read_to_end(&mut all).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
    });
}

#[test]
fn connections_are_bounded_and_places_come_free() {
    run(async {
        let options = TestOptions {
            connections_max: 2,
            ..TestOptions::default()
        };
        let mut node = TestNode::with(1, 1, &options);
        let (first, connection) = connected(&mut node).await;
        let (_second, _) = connected(&mut node).await;
        let mut third = TcpStream::connect(node.portal).await.unwrap();
        let mut byte = [0];
        let turned_away = async { within(third.read(&mut byte)).await };
        let count = tokio::select! {
            read = turned_away => read.unwrap_or(0),
            event = node.next() => panic!("{event:?} although there is no place"),
        };
        assert_eq!(count, 0);
        drop(first);
        closed(&mut node, connection).await;
        connected(&mut node).await;
    });
}

/// Strangers who say nothing and never close keep nobody else out: what the engine has closed has no place any more, and those
/// that have drained for longest are not waited for.
#[test]
fn whoever_was_closed_takes_no_place_while_he_lingers() {
    run(async {
        let mut node = with_places(2);
        let mut lingering = many(&mut node, 2).await;
        for place in 0..100 {
            let connection = lingering[place].1;
            node.network
                .portal_command(PortalCommand::Close { connection });
            // Only what drains for too long has ended meanwhile.
            let initiator = TcpStream::connect(node.portal).await.unwrap();
            let connection = loop {
                match within(node.next_portal()).await {
                    PortalEvent::Connected { connection, .. } => break connection,
                    PortalEvent::Closed { connection } => {
                        let expected = lingering[place - 64].1;
                        assert_eq!(connection, expected, "the one that drains for longest");
                    }
                    other => panic!("{other:?} of those who say nothing"),
                }
            };
            lingering.push((initiator, connection));
        }
        let mut byte = [0];
        let (first, _) = &mut lingering[0];
        let end = within(first.read(&mut byte)).await;
        // It was told of an end before it was cut off.
        assert!(matches!(end, Ok(0) | Err(_)), "{end:?}");
    });
}

/// So many initiators, and what they are called.
async fn many(node: &mut TestNode, count: usize) -> Vec<(TcpStream, ConnectionId)> {
    let mut all = Vec::new();
    for _ in 0..count {
        all.push(connected(node).await);
    }
    all
}

fn with_places(connections_max: usize) -> TestNode {
    let mut node = TestNode::closed(
        1,
        &TestOptions {
            connections_max,
            ..TestOptions::default()
        },
    );
    node.network
        .open(holdfast_model::StoreId(1), holdfast_model::Incarnation(1))
        .unwrap();
    node
}

#[test]
fn the_more_initiators_there_are_the_less_is_read_of_each() {
    run(async {
        let mut node = with_places(256);
        let mut all = many(&mut node, 200).await;
        let (initiator, connection) = &mut all[100];
        let connection = *connection;
        let sent = pattern(1 << 20);
        let writing = initiator.write_all(&sent);
        let (written, (bytes, largest)) =
            tokio::join!(writing, received(&mut node, connection, sent.len()));
        written.unwrap();
        assert_eq!(bytes, sent);
        assert!(largest <= (16 << 20) / 200, "{largest} bytes at once");
    });
}

#[test]
fn what_waits_for_paused_connections_is_bounded_in_sum() {
    run(async {
        let mut node = with_places(256);
        let mut all = many(&mut node, 250).await;
        let piece = pattern(60 << 10);
        let pause = |node: &mut TestNode, connection| {
            node.network
                .portal_command(PortalCommand::Pause { connection });
        };
        for (_, connection) in &all {
            pause(&mut node, *connection);
        }
        let mut gone = Vec::new();
        for (initiator, connection) in &mut all {
            initiator.write_all(&piece).await.unwrap();
            node.network.portal_command(PortalCommand::Resume {
                connection: *connection,
            });
            // It is read before the engine wants nothing more, and not handed on.
            tokio::time::sleep(Duration::from_millis(4)).await;
            pause(&mut node, *connection);
            let wait = Duration::from_millis(4);
            while let Ok(event) = tokio::time::timeout(wait, node.next_portal()).await {
                match event {
                    PortalEvent::Closed { connection } => gone.push(connection),
                    other => panic!("{other:?} of a paused connection"),
                }
            }
        }
        assert!(!gone.is_empty(), "too much is held");
        assert!(gone.len() < 200, "{gone:?}: it is a bound, not a ban");
        let longest: Vec<ConnectionId> = all.iter().take(gone.len()).map(|it| it.1).collect();
        assert_eq!(
            gone, longest,
            "those of which something is held for longest"
        );
        let last = all[all.len() - 1].1;
        node.network
            .portal_command(PortalCommand::Resume { connection: last });
        let (bytes, _) = received(&mut node, last, piece.len()).await;
        assert_eq!(bytes, piece, "what was held is not lost");
    });
}
