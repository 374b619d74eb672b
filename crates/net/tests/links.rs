//! Links between nodes, over real sockets of this machine.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use crate::support;
use crate::support::{
    CLUSTER, TestNode, TestOptions, both, control_message, credentials, data_message, is_secure,
    pair, run, within,
};
use holdfast_engine::{PeerCommand, PeerEvent};
use holdfast_model::{ClusterId, Incarnation, NodeId, StoreId};
use holdfast_stdx::Bytes;
use holdfast_wire::{
    FRAME_HEADER_BYTES, FrameHeader, Hello, Lane, Message, PAYLOAD_BYTES_MAX, WIRE_VERSION, encode,
    hello_from_frame, hello_to_frame,
};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const QUIET: Duration = Duration::from_millis(300);

/// A peer made by hand: one lane of it.
struct HandLane(Box<dyn Socket>);

trait Socket: AsyncRead + AsyncWrite + Unpin {}
impl<T: AsyncRead + AsyncWrite + Unpin> Socket for T {}

fn hello(lane: Lane, incarnation: u64, link: u64) -> Hello {
    Hello {
        cluster: CLUSTER,
        node: NodeId(1),
        store: StoreId(1),
        incarnation: Incarnation(incarnation),
        to: NodeId(2),
        link,
        lane,
        version: WIRE_VERSION,
    }
}

impl HandLane {
    async fn connect(to: SocketAddr) -> Self {
        let socket = TcpStream::connect(to).await.unwrap();
        if is_secure() {
            return Self(Box::new(credentials::ours().connect(1, socket).await));
        }
        Self(Box::new(socket))
    }

    async fn say(&mut self, hello: &Hello) {
        self.0
            .write_all(&hello_to_frame(hello).concat())
            .await
            .unwrap();
    }

    async fn hear(&mut self) -> Hello {
        let mut header = [0; FRAME_HEADER_BYTES];
        self.0.read_exact(&mut header).await.unwrap();
        let header = FrameHeader::parse(&header).unwrap();
        let mut rest = vec![0; header.rest_length()];
        self.0.read_exact(&mut rest).await.unwrap();
        hello_from_frame(&header, &Bytes::from(rest)).unwrap()
    }

    async fn greeted(to: SocketAddr, hello: &Hello) -> Self {
        let mut lane = Self::connect(to).await;
        lane.say(hello).await;
        let answer = lane.hear().await;
        assert_eq!(answer.node, NodeId(2));
        assert_eq!((answer.link, answer.lane), (hello.link, hello.lane));
        lane
    }

    /// The other end closes without having said anything more.
    async fn ends(mut self) {
        let mut byte = [0];
        match within(self.0.read(&mut byte)).await {
            Ok(0) | Err(_) => {}
            Ok(_) => panic!("it speaks where it should close"),
        }
    }
}

/// Node 2, which knows node 1, which is made by hand.
fn node_two() -> TestNode {
    let mut two = TestNode::open(2);
    two.connect(1, support::any_port());
    two
}

#[test]
fn both_ends_come_up_and_keep_the_order_of_each_lane() {
    both(|| async {
        let (mut one, link_one, mut two, link_two) = pair().await;
        for number in 1..=500 {
            one.send(2, link_one, data_message(number, 4096));
            one.send(2, link_one, control_message(number));
            two.send(1, link_two, data_message(number, 17));
        }
        one.network.flush();
        two.network.flush();
        let (mut control, mut data) = (1, 1);
        while control <= 500 || data <= 500 {
            let message = two.message(link_two).await;
            let next = match message.lane() {
                Lane::Control => {
                    control += 1;
                    control_message(control - 1)
                }
                Lane::Data => {
                    data += 1;
                    data_message(data - 1, 4096)
                }
            };
            assert!(message == next, "out of order or changed");
        }
        for number in 1..=500 {
            let message = one.message(link_one).await;
            assert!(message == data_message(number, 17));
        }
    });
}

#[test]
fn the_greatest_messages_pass() {
    both(|| async {
        let (mut one, link_one, mut two, link_two) = pair().await;
        for number in 1..=20 {
            one.send(2, link_one, data_message(number, PAYLOAD_BYTES_MAX));
            one.send(2, link_one, data_message(number, 1));
        }
        let receive = async {
            for number in 1..=20 {
                let (large, small) = (two.message(link_two).await, two.message(link_two).await);
                assert!(large == data_message(number, PAYLOAD_BYTES_MAX));
                assert!(small == data_message(number, 1));
            }
        };
        tokio::select! {
            () = receive => {}
            event = one.next() => panic!("{event:?} at the sender"),
        }
    });
}

#[test]
fn a_reset_link_goes_down_at_both_ends_and_comes_back() {
    both(|| async {
        let (mut one, link_one, mut two, link_two) = pair().await;
        two.network.peer_command(PeerCommand::Reset {
            peer: NodeId(1),
            link: link_two,
        });
        two.down(link_two).await;
        one.down(link_one).await;
        let ((next_one, _), (next_two, _)) = tokio::join!(one.up(), two.up());
        assert_ne!((next_one, next_two), (link_one, link_two));
        // What is meant for the former link goes nowhere, and does not harm the new one.
        one.send(2, link_one, data_message(1, 1));
        one.send(2, next_one, data_message(2, 1));
        one.network.peer_command(PeerCommand::Reset {
            peer: NodeId(2),
            link: link_one,
        });
        one.network.flush();
        assert!(two.message(next_two).await == data_message(2, 1));
    });
}

#[test]
fn a_node_that_was_started_anew_replaces_its_former_link() {
    both(|| async {
        let (mut one, link_one, mut two, link_two) = pair().await;
        let mut again = TestNode::with(1, 2, &TestOptions::default());
        again.connect(2, two.peers);
        two.down(link_two).await;
        let (replacing, incarnation) = two.up().await;
        assert_eq!(incarnation, Incarnation(2));
        again.up().await;
        // The former start, were it still alive, is not let in again.
        one.down(link_one).await;
        two.silent(QUIET).await;
        two.send(1, replacing, data_message(1, 1));
        two.network.flush();
        assert!(matches!(
            again.next_peer().await,
            PeerEvent::Received { .. }
        ));
    });
}

#[test]
fn a_peer_that_is_late_is_met_and_a_lost_one_met_again() {
    both(|| async {
        let absent = TestNode::closed(2, &TestOptions::default());
        let address = absent.peers;
        let mut one = TestNode::open(1);
        one.connect(2, address);
        one.silent(QUIET).await;
        drop(absent);
        let options = TestOptions {
            peers: address,
            ..TestOptions::default()
        };
        let mut two = TestNode::with(2, 1, &options);
        two.connect(1, one.peers);
        let ((link_one, _), _) = tokio::join!(one.up(), two.up());
        drop(two);
        one.down(link_one).await;
        let mut two = TestNode::with(2, 2, &options);
        two.connect(1, one.peers);
        let ((_, incarnation), _) = tokio::join!(one.up(), two.up());
        assert_eq!(incarnation, Incarnation(2));
    });
}

#[test]
fn a_peer_that_has_moved_is_found() {
    both(|| async {
        let mut one = TestNode::open(1);
        let nowhere = TestNode::closed(2, &TestOptions::default());
        one.connect(2, nowhere.peers);
        let mut two = node_two();
        one.silent(QUIET).await;
        one.connect(2, two.peers);
        let ((link_one, _), (link_two, _)) = tokio::join!(one.up(), two.up());
        // A new address does not harm the link that is up.
        one.connect(2, nowhere.peers);
        one.silent(QUIET).await;
        one.send(2, link_one, control_message(1));
        one.network.flush();
        assert!(two.message(link_two).await == control_message(1));
    });
}

#[test]
fn a_forgotten_peer_is_gone() {
    both(|| async {
        let (mut one, link_one, mut two, link_two) = pair().await;
        two.network
            .peer_command(PeerCommand::Forget { peer: NodeId(1) });
        two.down(link_two).await;
        one.down(link_one).await;
        one.silent(QUIET).await;
        two.silent(QUIET).await;
    });
}

#[test]
fn a_link_needs_both_lanes() {
    both(|| async {
        let mut two = node_two();
        let control = HandLane::greeted(two.peers, &hello(Lane::Control, 1, 1)).await;
        two.silent(QUIET).await;
        let data = HandLane::greeted(two.peers, &hello(Lane::Data, 1, 1)).await;
        let (link, _) = two.up().await;
        drop(data);
        two.down(link).await;
        control.ends().await;
    });
}

#[test]
fn lanes_of_different_links_do_not_make_one() {
    both(|| async {
        let mut two = node_two();
        let _control = HandLane::greeted(two.peers, &hello(Lane::Control, 1, 1)).await;
        let _data = HandLane::greeted(two.peers, &hello(Lane::Data, 1, 2)).await;
        two.silent(QUIET).await;
        // The newer link waits; a lane of an older one does not push it out.
        let _late = HandLane::greeted(two.peers, &hello(Lane::Data, 1, 1)).await;
        two.silent(QUIET).await;
        let _control = HandLane::greeted(two.peers, &hello(Lane::Control, 1, 2)).await;
        two.up().await;
    });
}

#[test]
fn an_older_hello_does_not_replace_a_link() {
    both(|| async {
        let mut two = node_two();
        let _control = HandLane::greeted(two.peers, &hello(Lane::Control, 2, 5)).await;
        let _data = HandLane::greeted(two.peers, &hello(Lane::Data, 2, 5)).await;
        let (link, _) = two.up().await;
        for (store, incarnation, number) in [(1, 2, 4), (1, 1, 6), (1, 2, 5), (9, 1, 7)] {
            for lane in [Lane::Control, Lane::Data] {
                let stale = Hello {
                    store: StoreId(store),
                    ..hello(lane, incarnation, number)
                };
                let lane = HandLane::greeted(two.peers, &stale).await;
                tokio::select! {
                    () = lane.ends() => {}
                    event = two.next() => panic!("{event:?} for a stale hello"),
                }
            }
        }
        two.silent(QUIET).await;
        let _control = HandLane::greeted(two.peers, &hello(Lane::Control, 2, 6)).await;
        let _data = HandLane::greeted(two.peers, &hello(Lane::Data, 2, 6)).await;
        two.down(link).await;
        two.up().await;
    });
}

#[test]
fn wrong_greetings_are_refused() {
    both(|| async {
        let mut two = node_two();
        let right = hello(Lane::Control, 1, 1);
        // Who is in the wrong place is told what place this is.
        let misled = [
            Hello {
                cluster: ClusterId(8),
                ..right
            },
            Hello {
                to: NodeId(3),
                ..right
            },
        ];
        for hello in misled {
            let mut lane = HandLane::connect(two.peers).await;
            lane.say(&hello).await;
            let answer = lane.hear().await;
            assert_eq!((answer.cluster, answer.node), (CLUSTER, NodeId(2)));
            lane.ends().await;
        }
        for node in [3, 2, 0] {
            let stranger = Hello {
                node: NodeId(node),
                ..right
            };
            let mut lane = HandLane::connect(two.peers).await;
            lane.say(&stranger).await;
            lane.ends().await;
        }
        two.silent(QUIET).await;
    });
}

#[test]
fn nodes_of_different_clusters_do_not_meet() {
    both(|| async {
        let mut one = TestNode::open(1);
        let other = TestOptions {
            cluster: ClusterId(8),
            ..TestOptions::default()
        };
        let mut two = TestNode::with(2, 1, &other);
        two.connect(1, one.peers);
        one.connect(2, two.peers);
        one.silent(QUIET).await;
        two.silent(QUIET).await;
    });
}

#[test]
fn garbage_instead_of_a_greeting_is_refused() {
    both(|| async {
        let mut two = node_two();
        let mut long = hello_to_frame(&hello(Lane::Control, 1, 1)).concat();
        // A frame of the greatest length, well formed as far as its header goes.
        let large = encode(&data_message(1, PAYLOAD_BYTES_MAX)).concat();
        long[70] ^= 1;
        for garbage in [
            &b"GET / HTTP/1.1\r\n\r\n".repeat(8)[..],
            &long,
            &large[..64],
        ] {
            let mut lane = HandLane::connect(two.peers).await;
            lane.0.write_all(garbage).await.unwrap();
            lane.ends().await;
        }
        // Half a hello, and then nothing: closed after a while, and nobody else is held up.
        let mut half = HandLane::connect(two.peers).await;
        half.0.write_all(&long[..40]).await.unwrap();
        two.silent(QUIET).await;
        half.ends().await;
    });
}

#[test]
fn a_peer_of_another_version_learns_which_version_is_here() {
    both(|| async {
        let two = node_two();
        let mut frame = hello_to_frame(&hello(Lane::Control, 1, 1)).concat();
        frame[4] = u8::try_from(WIRE_VERSION + 1).unwrap();
        let checksum = holdfast_stdx::crc32c(&frame[..60]).to_le_bytes();
        frame[60..64].copy_from_slice(&checksum);
        let mut lane = HandLane::connect(two.peers).await;
        lane.0.write_all(&frame).await.unwrap();
        assert_eq!(lane.hear().await.node, NodeId(2));
        lane.ends().await;
    });
}

/// A node of the first version, made by hand, is dialled.
#[test]
fn a_peer_of_an_older_version_is_spoken_to_in_that() {
    run(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut one = TestNode::open(1);
        one.connect(2, listener.local_addr().unwrap());
        let mut lanes = Vec::new();
        while lanes.len() < 2 {
            let mut lane = HandLane(Box::new(within(listener.accept()).await.unwrap().0));
            let mut header = [0; FRAME_HEADER_BYTES];
            within(lane.0.read_exact(&mut header)).await.unwrap();
            let header = FrameHeader::parse(&header).unwrap();
            let mut rest = vec![0; header.rest_length()];
            within(lane.0.read_exact(&mut rest)).await.unwrap();
            let heard = hello_from_frame(&header, &Bytes::from(rest)).unwrap();
            let answer = Hello {
                node: NodeId(2),
                to: NodeId(1),
                version: 1,
                ..heard
            };
            if heard.version == 1 {
                lane.say(&answer).await;
                lanes.push(lane);
            } else {
                // It can read no more than that this is a version that it does not know.
                let (to, link) = (NodeId(0), 0);
                lane.say(&Hello { to, link, ..answer }).await;
            }
        }
        match one.next_peer().await {
            PeerEvent::Up { version, .. } => assert_eq!(version, 1),
            other => panic!("{other:?} where a link should come up"),
        }
    });
}

#[test]
fn peers_speak_the_newest_version_that_both_know() {
    both(|| async {
        let mut two = node_two();
        for version in [1, WIRE_VERSION] {
            let link = u64::from(version);
            let hello = |lane| Hello {
                version,
                ..hello(lane, 1, link)
            };
            let control = HandLane::greeted(two.peers, &hello(Lane::Control)).await;
            let data = HandLane::greeted(two.peers, &hello(Lane::Data)).await;
            let event = match two.next_peer().await {
                PeerEvent::Down { .. } => two.next_peer().await,
                event => event,
            };
            assert!(
                matches!(event, PeerEvent::Up { version: spoken, .. } if spoken == version),
                "{event:?}"
            );
            drop((control, data));
        }
    });
}

#[test]
fn garbage_on_a_link_takes_it_down_after_what_came_whole() {
    both(|| async {
        let mut two = node_two();
        let whole = encode(&data_message(1, 100)).concat();
        let mut flipped = encode(&data_message(2, 100)).concat();
        *flipped.last_mut().unwrap() ^= 1;
        let other_lane = encode(&control_message(1)).concat();
        let hello_again = hello_to_frame(&hello(Lane::Data, 1, 1)).concat();
        for (number, garbage) in (1..).zip([vec![0; 200], flipped, other_lane, hello_again]) {
            let _control = HandLane::greeted(two.peers, &hello(Lane::Control, 1, number)).await;
            let mut data = HandLane::greeted(two.peers, &hello(Lane::Data, 1, number)).await;
            let (link, _) = two.up().await;
            data.0.write_all(&whole).await.unwrap();
            data.0.write_all(&garbage).await.unwrap();
            assert!(two.message(link).await == data_message(1, 100));
            two.down(link).await;
            data.ends().await;
        }
    });
}

#[test]
fn frames_may_come_in_any_pieces() {
    both(|| async {
        let mut two = node_two();
        let _control = HandLane::greeted(two.peers, &hello(Lane::Control, 1, 1)).await;
        let mut data = HandLane::greeted(two.peers, &hello(Lane::Data, 1, 1)).await;
        let (link, _) = two.up().await;
        let frames = [encode(&data_message(1, 5)), encode(&data_message(2, 3))]
            .concat()
            .concat();
        let writer = async {
            for byte in frames {
                data.0.write_all(&[byte]).await.unwrap();
                tokio::task::yield_now().await;
            }
        };
        let reader = async {
            assert!(two.message(link).await == data_message(1, 5));
            assert!(two.message(link).await == data_message(2, 3));
        };
        tokio::join!(writer, reader);
        // Half a frame and the end.
        data.0
            .write_all(&encode(&data_message(3, 100)).concat()[..80])
            .await
            .unwrap();
        drop(data);
        two.down(link).await;
    });
}

#[test]
fn a_peer_that_does_not_read_is_cut_off_and_does_not_hold_up_heartbeats() {
    both(|| async {
        let mut two = node_two();
        let mut control = HandLane::greeted(two.peers, &hello(Lane::Control, 1, 1)).await;
        let _data = HandLane::greeted(two.peers, &hello(Lane::Data, 1, 1)).await;
        let (link, _) = two.up().await;
        let message = data_message(1, PAYLOAD_BYTES_MAX);
        let mut sent = 0;
        let expected: Vec<u8> = encode(&control_message(1)).concat();
        let mut heard = vec![0; expected.len()];
        loop {
            two.send(1, link, message.clone());
            two.send(1, link, control_message(1));
            sent += 1;
            two.network.flush();
            if let Ok(event) = tokio::time::timeout(Duration::ZERO, two.next_peer()).await {
                assert!(matches!(event, PeerEvent::Down { .. }), "{event:?}");
                break;
            }
            within(control.0.read_exact(&mut heard)).await.unwrap();
            assert_eq!(heard, expected);
            assert!(sent < 100, "the queue has no bound");
        }
        assert!(sent > 60, "only {sent} MiB may wait");
    });
}

#[test]
fn connections_that_do_not_greet_are_bounded_and_keep_nobody_out() {
    run(async {
        let mut two = node_two();
        let mut silent = Vec::new();
        for _ in 0..300 {
            silent.push(HandLane::connect(two.peers).await);
        }
        // Those that have waited longest go at once, and whoever greets is let in.
        let started = Instant::now();
        for lane in silent.drain(..44) {
            lane.ends().await;
        }
        let _control = HandLane::greeted(two.peers, &hello(Lane::Control, 1, 1)).await;
        let _data = HandLane::greeted(two.peers, &hello(Lane::Data, 1, 1)).await;
        two.up().await;
        assert!(started.elapsed() < Duration::from_secs(2));
        // None is kept for ever.
        for lane in silent {
            lane.ends().await;
        }
        assert!(started.elapsed() < Duration::from_secs(5));
    });
}

#[test]
fn the_last_words_arrive() {
    both(|| async {
        let (mut one, link_one, mut two, link_two) = pair().await;
        for number in 1..=20 {
            one.send(2, link_one, data_message(number, PAYLOAD_BYTES_MAX));
            // Unread bytes at the closing end must not take back what it has sent.
            two.send(1, link_two, control_message(number));
        }
        one.send(2, link_one, control_message(1));
        two.network.flush();
        let receive = async {
            let mut heard: Vec<Message> = Vec::new();
            while let PeerEvent::Received { message, .. } = two.next_peer().await {
                heard.push(message);
            }
            heard
        };
        let (heard, ()) = tokio::join!(receive, one.network.close());
        assert_eq!(heard.len(), 21);
        assert!(heard.contains(&control_message(1)));
    });
}
