//! Links between nodes that have credentials: who is let in, what is told of who is not, and that nothing is lost or without a
//! bound for it. `links.rs` runs over TLS as well.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use crate::support;
use crate::support::credentials::{DAY, Made, connector, ours, subject};
use crate::support::{
    CLUSTER, TestNode, TestOptions, control_message, data_message, pair, run, secure, within,
};
use holdfast_engine::{Event, PeerCommand, PeerEvent};
use holdfast_model::{ClusterId, NodeId};
use holdfast_tls::{Credentials, NODE_DAYS, PeerTls, Renewal};
use holdfast_wire::{Lane, PAYLOAD_BYTES_MAX, WIRE_VERSION, encode, hello_to_frame};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types::ServerName;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Metadata, Subscriber};

const QUIET: Duration = Duration::from_millis(500);

/// What was logged.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    /// Whether a line has all of these.
    fn has(&self, parts: &[&str]) -> bool {
        let lines = self.0.lock().unwrap();
        lines
            .iter()
            .any(|line| parts.iter().all(|part| line.contains(part)))
    }

    fn count(&self, part: &str) -> usize {
        let lines = self.0.lock().unwrap();
        lines.iter().filter(|line| line.contains(part)).count()
    }

    fn all(&self) -> String {
        self.0.lock().unwrap().join("\n")
    }
}

impl Subscriber for Log {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, event: &tracing::Event<'_>) {
        struct Message(String);
        impl Visit for Message {
            fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
                if field.name() == "message" {
                    self.0 = format!("{value:?}");
                }
            }
        }
        let mut message = Message(event.metadata().level().to_string());
        let level = message.0.clone();
        event.record(&mut message);
        self.0
            .lock()
            .unwrap()
            .push(format!("{level} {}", message.0));
    }
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// A node with credentials of its own, or with none.
fn node(number: u16, tls: Option<PeerTls>) -> TestNode {
    let options = TestOptions {
        tls: Some(tls),
        ..TestOptions::default()
    };
    TestNode::with(number, 1, &options)
}

/// Two nodes that do not come together, and what they say of it.
fn estranged(one: Option<PeerTls>, two: Option<PeerTls>) -> Log {
    let log = Log::default();
    let _guard = tracing::subscriber::set_default(log.clone());
    run(async {
        let (mut one, mut two) = (node(1, one), node(2, two));
        two.connect(1, one.peers);
        one.connect(2, two.peers);
        tokio::join!(one.silent(QUIET), two.silent(QUIET));
    });
    log
}

#[test]
fn a_node_with_tls_and_one_without_tell_what_is_wrong_on_both_sides() {
    let wants = "does not speak TLS, and this node does";
    let has_none = "speaks TLS, and this node does not";
    // The lower number dials.
    for (one, two, dials, answers) in [
        (None, Some(ours().tls(2)), has_none, wants),
        (Some(ours().tls(1)), None, wants, has_none),
    ] {
        let log = estranged(one, two);
        let text = log.all();
        assert!(log.has(&["WARN", "(n2)", dials]), "{text}");
        assert!(log.has(&["WARN", "127.0.0.1", answers]), "{text}");
        // It is tried again and again, and said once.
        assert!(log.count(wants) <= 1 && log.count(has_none) <= 1, "{text}");
    }
}

#[test]
fn a_certificate_of_another_authority_is_refused() {
    let other = Made::new(CLUSTER);
    let log = estranged(Some(other.tls(1)), Some(ours().tls(2)));
    let text = log.all();
    assert!(
        log.has(&["WARN", "not of the authority that is trusted here"]),
        "{text}"
    );
    assert!(
        log.has(&["WARN", "refuses this node's certificate"]),
        "{text}"
    );
}

#[test]
fn a_certificate_that_has_expired_is_refused_whichever_side_has_it() {
    let long_ago = SystemTime::now() - (u32::try_from(NODE_DAYS).unwrap() + 1) * DAY;
    for (one, two) in [
        (ours().tls_of(1, long_ago), ours().tls(2)),
        (ours().tls(1), ours().tls_of(2, long_ago)),
    ] {
        let log = estranged(Some(one), Some(two));
        let text = log.all();
        assert!(log.has(&["WARN", "its certificate has expired"]), "{text}");
        assert!(
            log.has(&["WARN", "refuses this node's certificate: it has expired"]),
            "{text}"
        );
    }
}

/// Whoever has the certificate of one node is not another.
#[test]
fn a_node_is_who_its_certificate_says() {
    // Node 1 comes as node 1, with the certificate of node 3.
    let log = estranged(Some(ours().tls(3)), Some(ours().tls(2)));
    let text = log.all();
    assert!(
        log.has(&["WARN", "n1 connects with the certificate of n3"]),
        "{text}"
    );
    // Node 3 answers where node 2 is dialled.
    let log = estranged(Some(ours().tls(1)), Some(ours().tls(3)));
    let text = log.all();
    assert!(log.has(&["WARN", "(n2)", "n3 answers there"]), "{text}");
}

#[test]
fn a_node_of_another_cluster_is_refused() {
    let other = Made::new(ClusterId(8));
    let log = estranged(Some(other.tls(1)), Some(ours().tls(2)));
    assert!(log.has(&["WARN", "not of the authority"]), "{}", log.all());
}

/// Where the certificate is one of this cluster, the greeting says which cluster its node is configured for.
#[test]
fn a_node_that_greets_for_another_cluster_is_refused() {
    let log = Log::default();
    let _guard = tracing::subscriber::set_default(log.clone());
    run(async {
        let options = TestOptions {
            tls: Some(Some(ours().tls(1))),
            cluster: ClusterId(8),
            ..TestOptions::default()
        };
        let mut one = TestNode::with(1, 1, &options);
        let mut two = node(2, Some(ours().tls(2)));
        two.connect(1, one.peers);
        one.connect(2, two.peers);
        tokio::join!(one.silent(QUIET), two.silent(QUIET));
    });
    let text = log.all();
    assert!(
        log.has(&["WARN", "greet 127.0.0.1", "it belongs to cluster"]),
        "{text}"
    );
    assert!(
        log.has(&["WARN", "(n2)", "it belongs to cluster"]),
        "{text}"
    );
}

#[test]
fn who_has_no_certificate_or_comes_for_something_else_is_refused() {
    let log = Log::default();
    let _guard = tracing::subscriber::set_default(log.clone());
    secure(async {
        let mut two = TestNode::open(2);
        two.connect(1, support::any_port());
        let name = || ServerName::try_from("n2").unwrap();
        let own = ours().issue(1, SystemTime::now());
        let socket = TcpStream::connect(two.peers).await.unwrap();
        let other_use = connector(&own, b"h2").connect(name(), socket).await;
        assert!(other_use.is_err());
        let socket = TcpStream::connect(two.peers).await.unwrap();
        let nobody = holdfast_tls::Connector::of_authority(&own.join("authority.pem")).unwrap();
        // The certificate is missed when the one who asks believes to be through.
        let ended = async {
            let mut stream = nobody.connect("n2", socket).await.unwrap();
            stream.read_u8().await
        };
        assert!(within(ended).await.is_err());
        two.silent(QUIET).await;
    });
    let text = log.all();
    assert!(log.has(&["WARN", "it has shown no certificate"]), "{text}");
    assert!(log.has(&["WARN", "not a port for peers"]), "{text}");
}

#[test]
fn garbage_and_silence_in_the_handshake_end_the_connection() {
    secure(async {
        let mut two = TestNode::open(2);
        let mut random = vec![22, 3, 1, 0, 200];
        random.extend((0..200_u8).map(|byte| byte.wrapping_mul(37)));
        // A record that is longer than any, and a handshake that says that it has 16 MiB.
        let endless = [22, 3, 1, 0xff, 0xff].repeat(20_000);
        let large: Vec<u8> = [22, 3, 1, 0x40, 0, 1, 0xff, 0xff, 0xff]
            .into_iter()
            .chain([0; 0x4000 - 4])
            .collect();
        for garbage in [
            random,
            endless,
            large.repeat(8),
            b"GET / HTTP/1.1\r\n".repeat(8),
        ] {
            let mut socket = TcpStream::connect(two.peers).await.unwrap();
            // It may be closed before it has taken all.
            let _ = socket.write_all(&garbage).await;
            within(ends(&mut socket)).await;
        }
        // Half of a handshake, and then nothing.
        let mut half = TcpStream::connect(two.peers).await.unwrap();
        half.write_all(&[22, 3, 1, 0, 200, 1]).await.unwrap();
        two.silent(QUIET).await;
        within(ends(&mut half)).await;
        // One that stops behind the handshake.
        let socket = TcpStream::connect(two.peers).await.unwrap();
        let mut shaken = ours().connect(1, socket).await;
        two.silent(QUIET).await;
        assert!(matches!(
            within(shaken.read(&mut [0])).await,
            Ok(0) | Err(_)
        ));
    });
}

/// The other end says what it likes, and closes.
async fn ends(socket: &mut TcpStream) {
    let mut said = [0; 4096];
    while let Ok(1..) = socket.read(&mut said).await {}
}

/// A connection from another address of this machine.
async fn from(last: u8, to: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket
        .bind((Ipv4Addr::new(127, 0, 0, last), 0).into())
        .unwrap();
    socket.connect(to).await.unwrap()
}

/// Whoever opens connections and says nothing has a few, and keeps no node out.
#[test]
fn handshakes_that_stand_still_are_bounded_and_keep_nobody_out() {
    let log = Log::default();
    let _guard = tracing::subscriber::set_default(log.clone());
    secure(async {
        let mut two = TestNode::open(2);
        let mut one = TestNode::open(1);
        let mut silent = Vec::new();
        for _ in 0..300 {
            silent.push(from(9, two.peers).await);
        }
        let started = Instant::now();
        for socket in &mut silent[..268] {
            within(ends(socket)).await;
        }
        two.connect(1, one.peers);
        one.connect(2, two.peers);
        tokio::join!(one.up(), two.up());
        assert!(started.elapsed() < Duration::from_secs(2));
        for socket in &mut silent[268..] {
            within(ends(socket)).await;
        }
        assert!(started.elapsed() < Duration::from_secs(5));
        two.silent(QUIET).await;
    });
    let text = log.all();
    assert!(
        log.has(&["WARN", "127.0.0.9", "the oldest was closed"]),
        "{text}"
    );
    assert!(log.count("127.0.0.9") <= 2, "{text}");
}

/// Nodes that are known by a name, and come from where that leads, are not taken for strangers by a node that was just started.
#[test]
fn who_comes_from_where_a_name_leads_has_room() {
    secure(async {
        let mut two = TestNode::open(2);
        two.network.peer_command(PeerCommand::Connect {
            peer: NodeId(1),
            address: "localhost:7462".to_owned(),
        });
        // Until it was looked up.
        two.silent(QUIET).await;
        let (mut named, mut others) = (Vec::new(), Vec::new());
        for _ in 0..100 {
            named.push(from(1, two.peers).await);
            others.push(from(9, two.peers).await);
        }
        within(ends(&mut others[0])).await;
        let mut said = [0];
        let ended = tokio::time::timeout(QUIET, named[0].read(&mut said)).await;
        assert!(ended.is_err(), "{ended:?}");
    });
}

/// Strangers who are refused are told of, but not without end, and the node that is refused is told of beside them.
#[test]
fn strangers_do_not_fill_the_log_and_hide_nobody() {
    let log = Log::default();
    let _guard = tracing::subscriber::set_default(log.clone());
    let long_ago = SystemTime::now() - (u32::try_from(NODE_DAYS).unwrap() + 1) * DAY;
    run(async {
        let mut one = node(1, Some(ours().tls_of(1, long_ago)));
        let mut two = node(2, Some(ours().tls(2)));
        for last in 10..60 {
            let mut stranger = from(last, two.peers).await;
            let _ = stranger.write_all(b"GET / HTTP/1.1\r\n").await;
            within(ends(&mut stranger)).await;
        }
        two.silent(QUIET).await;
        two.connect(1, one.peers);
        one.connect(2, two.peers);
        tokio::join!(one.silent(QUIET), two.silent(QUIET));
    });
    let text = log.all();
    assert_eq!(log.count("it does not speak TLS"), 16, "{text}");
    assert!(
        log.has(&[
            "WARN",
            "greet 127.0.0.1",
            "has expired",
            "left out before: 34 others"
        ]),
        "{text}"
    );
}

#[test]
fn a_renewed_certificate_is_shown_from_then_on_and_links_stay() {
    run(async {
        let long_ago = SystemTime::now() - (u32::try_from(NODE_DAYS).unwrap() - 1) * DAY;
        let own = Credentials::read(&ours().issue(1, long_ago)).unwrap();
        let before = own.issued();
        let (mut one, mut two) = (
            node(1, Some(PeerTls::new(&own))),
            node(2, Some(ours().tls(2))),
        );
        two.connect(1, one.peers);
        one.connect(2, two.peers);
        let ((link_one, _), (link_two, _)) = tokio::join!(one.up(), two.up());
        let renewal = own.renew(&subject(1), SystemTime::now()).unwrap();
        assert!(matches!(renewal, Renewal::Renewed(_)));
        one.send(2, link_one, data_message(1, 4096));
        one.network.flush();
        assert!(two.message(link_two).await == data_message(1, 4096));
        // What is shown on a new connection is the new one.
        let made = connector(&ours().issue(2, SystemTime::now()), b"holdfast/peer");
        let socket = TcpStream::connect(one.peers).await.unwrap();
        let name = ServerName::try_from("n1").unwrap();
        let connecting = made.connect(name, socket);
        let shown = tokio::select! {
            stream = connecting => stream.unwrap(),
            event = one.next() => panic!("{event:?}"),
        };
        let shown = shown.get_ref().1.peer_certificates().unwrap()[0].clone();
        let shown = holdfast_tls::fingerprint(&shown);
        assert_eq!(shown, own.issued().fingerprint);
        assert_ne!(shown, before.fingerprint);
    });
}

#[test]
fn large_messages_come_in_order_through_a_slow_reader() {
    secure(async {
        let (mut one, link_one, mut two, link_two) = pair().await;
        let lengths = [
            PAYLOAD_BYTES_MAX,
            1,
            4096,
            16_384,
            16_385,
            262_144,
            65_536,
            100_001,
        ];
        let message = |number: u64| {
            let length = lengths[usize::try_from(number).unwrap() % lengths.len()];
            data_message(number, length)
        };
        for number in 0..80 {
            one.send(2, link_one, message(number));
        }
        let sends = async {
            loop {
                // A heartbeat goes past all of it.
                one.send(2, link_one, control_message(7));
                one.network.flush();
                tokio::select! {
                    event = one.next() => panic!("{event:?} at the sender"),
                    () = tokio::time::sleep(Duration::from_millis(20)) => {}
                }
            }
        };
        let receives = async {
            let mut next = 0;
            while next < 80 {
                let heard = two.message(link_two).await;
                if heard.lane() == Lane::Data {
                    assert!(
                        heard == message(next),
                        "message {next} is out of order or changed"
                    );
                    next += 1;
                    tokio::time::sleep(Duration::from_millis(3)).await;
                }
            }
        };
        tokio::select! {
            () = receives => {}
            () = sends => {}
        }
    });
}

/// What is seen on the wire is not what is said.
#[test]
fn what_is_said_between_nodes_cannot_be_read_on_its_way() {
    secure(async {
        let mut two = TestNode::open(2);
        let between = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut one = TestNode::open(1);
        two.connect(1, one.peers);
        one.connect(2, between.local_addr().unwrap());
        let target = two.peers;
        let seen: Arc<Mutex<Vec<u8>>> = Arc::default();
        let taps = Arc::clone(&seen);
        tokio::task::spawn_local(async move {
            loop {
                let (mut near, _) = between.accept().await.unwrap();
                let mut far = TcpStream::connect(target).await.unwrap();
                let taps = Arc::clone(&taps);
                tokio::task::spawn_local(async move {
                    let (mut a, mut b) = ([0; 4096], [0; 4096]);
                    loop {
                        let (count, to, said) = tokio::select! {
                            Ok(count) = near.read(&mut a) => (count, &mut far, &a),
                            Ok(count) = far.read(&mut b) => (count, &mut near, &b),
                        };
                        if count == 0 {
                            return;
                        }
                        taps.lock().unwrap().extend_from_slice(&said[..count]);
                        to.write_all(&said[..count]).await.unwrap();
                    }
                });
            }
        });
        let ((link_one, _), (link_two, _)) = tokio::join!(one.up(), two.up());
        let secret = data_message(3, 4096);
        one.send(2, link_one, secret.clone());
        one.network.flush();
        assert!(two.message(link_two).await == secret);
        let seen = seen.lock().unwrap();
        assert!(seen.len() > 4096);
        let frame = encode(&secret).concat();
        let has = |sought: &[u8]| seen.windows(sought.len()).any(|it| it == sought);
        assert!(!has(&frame[..16]) && !has(&frame[frame.len() - 64..]) && !has(b"HFWR"));
    });
}

/// Node 1, made by hand, comes to node 2: the lane for control, and that for data.
async fn lanes(two: &TestNode) -> [TlsStream<TcpStream>; 2] {
    lanes_of(two, 1).await
}

async fn lanes_of(two: &TestNode, incarnation: u64) -> [TlsStream<TcpStream>; 2] {
    let mut lanes = Vec::new();
    for lane in [Lane::Control, Lane::Data] {
        let socket = TcpStream::connect(two.peers).await.unwrap();
        let mut stream = ours().connect(1, socket).await;
        let hello = holdfast_wire::Hello {
            cluster: CLUSTER,
            node: NodeId(1),
            store: holdfast_model::StoreId(1),
            incarnation: holdfast_model::Incarnation(incarnation),
            to: NodeId(2),
            link: 1,
            lane,
            version: WIRE_VERSION,
        };
        let frame = hello_to_frame(&hello).concat();
        stream.write_all(&frame).await.unwrap();
        let mut answer = vec![0; frame.len()];
        stream.read_exact(&mut answer).await.unwrap();
        lanes.push(stream);
    }
    lanes.try_into().unwrap()
}

/// Node 2, which knows node 1, which is made by hand.
fn node_two() -> TestNode {
    let mut two = TestNode::open(2);
    two.connect(1, support::any_port());
    two
}

/// A record that was changed on its way takes the link down; people are told at both ends, and not each time.
#[test]
fn a_record_that_was_changed_takes_the_link_down() {
    let log = Log::default();
    let _guard = tracing::subscriber::set_default(log.clone());
    secure(async {
        let mut two = node_two();
        for incarnation in 1..=3 {
            let [_control, mut data] = lanes_of(&two, incarnation).await;
            let (link, _) = two.up().await;
            // rustls on the other side changes its keys as it likes.
            for number in 1..=3 {
                data.write_all(&encode(&data_message(number, 5000)).concat())
                    .await
                    .unwrap();
                assert!(two.message(link).await == data_message(number, 5000));
                data.get_mut().1.refresh_traffic_keys().unwrap();
            }
            let sealed = [23, 3, 3, 0, 40].into_iter().chain([7; 40]);
            let sealed: Vec<u8> = sealed.collect();
            data.get_mut().0.write_all(&sealed).await.unwrap();
            two.down(link).await;
            let told = within(data.read_u8()).await.unwrap_err().to_string();
            assert!(told.contains("BadRecordMac"), "{told}");
        }
    });
    let text = log.all();
    let changed = "a record of TLS was changed on its way";
    assert!(
        log.has(&["WARN", "link to n1", changed, "docs/security.md"]),
        "{text}"
    );
    assert_eq!(log.count(changed), 1, "{text}");
}

/// The other way: it is told that what it sent came otherwise.
#[test]
fn who_is_told_that_its_records_were_changed_says_so() {
    let log = Log::default();
    let _guard = tracing::subscriber::set_default(log.clone());
    secure(async {
        let mut two = node_two();
        let [_control, mut data] = lanes(&two).await;
        let (link, _) = two.up().await;
        // rustls sends the alert for what it cannot open.
        let (socket, theirs) = data.get_mut();
        theirs
            .read_tls(&mut [23, 3, 3, 0, 20].repeat(5).as_slice())
            .unwrap();
        theirs.process_new_packets().unwrap_err();
        let mut alert = Vec::new();
        theirs.write_tls(&mut alert).unwrap();
        socket.write_all(&alert).await.unwrap();
        two.down(link).await;
    });
    let text = log.all();
    assert!(
        log.has(&[
            "WARN",
            "link to n1",
            "it ended TLS",
            "of this node was changed"
        ]),
        "{text}"
    );
}

/// An end that anybody can have made is told from one that the peer has said.
#[test]
fn an_end_without_a_word_is_told_from_a_close() {
    let log = Log::default();
    let _guard = tracing::subscriber::set_default(log.clone());
    secure(async {
        let mut two = node_two();
        for (incarnation, is_said) in [(1, true), (2, false)] {
            let [mut control, mut data] = lanes_of(&two, incarnation).await;
            let (link, _) = two.up().await;
            // What was said whole before is taken, and half a message is none.
            let frame = encode(&data_message(1, 5000)).concat();
            data.write_all(&frame).await.unwrap();
            data.write_all(&frame[..3000]).await.unwrap();
            for stream in [&mut control, &mut data] {
                if is_said {
                    stream.shutdown().await.unwrap();
                } else {
                    stream.get_mut().0.shutdown().await.unwrap();
                }
            }
            assert!(two.message(link).await == data_message(1, 5000));
            two.down(link).await;
            let cut = log.count("ended without the peer's word that it does (1 of all");
            assert_eq!(cut, usize::from(!is_said), "{}", log.all());
            let counted = two.network.links_cut().load(Ordering::Relaxed);
            assert_eq!(counted, u64::from(!is_said));
        }
    });
    assert!(
        log.has(&["INFO", "link to n1", "closed the connection"]),
        "{}",
        log.all()
    );
}

/// A link that a node ends is told from one that was cut, whoever of both ends it and whatever still waits.
#[test]
fn a_link_that_is_reset_is_told_from_one_that_was_cut() {
    let log = Log::default();
    let _guard = tracing::subscriber::set_default(log.clone());
    secure(async {
        let (mut one, link_one, mut two, link_two) = pair().await;
        let reset = |node: &mut TestNode, peer: u16, link| {
            let peer = NodeId(peer);
            node.network.peer_command(PeerCommand::Reset { peer, link });
        };
        // More than the kernel takes.
        for number in 0..200 {
            two.send(1, link_two, data_message(number, 256 << 10));
        }
        two.network.flush();
        reset(&mut two, 1, link_two);
        two.down(link_two).await;
        let until_down = async {
            loop {
                match one.next_peer().await {
                    PeerEvent::Down { link, .. } => break assert_eq!(link, link_one),
                    PeerEvent::Received { .. } => {}
                    other => panic!("{other:?}"),
                }
            }
        };
        // The other end runs meanwhile, and is up again as soon as it was dialled.
        let ((), (link_two, _)) = tokio::join!(within(until_down), two.up());
        let (link_one, _) = one.up().await;
        reset(&mut one, 2, link_one);
        one.down(link_one).await;
        let (_, (link_one, _)) = tokio::join!(two.down(link_two), one.up());
        let (link_two, _) = two.up().await;
        let cut = |node: &TestNode| node.network.links_cut().load(Ordering::Relaxed);
        assert_eq!((cut(&one), cut(&two)), (0, 0), "{}", log.all());
        assert_eq!(log.count("without the peer's word"), 0, "{}", log.all());
        one.send(2, link_one, control_message(1));
        one.network.flush();
        assert!(two.message(link_two).await == control_message(1));
    });
    let text = log.all();
    for peer in ["link to n1", "link to n2"] {
        assert!(log.has(&["INFO", peer, "closed the connection"]), "{text}");
    }
}

/// Opening what a peer sends is work: as long as it sends without a pause, others would wait for it.
#[test]
fn a_peer_that_sends_without_a_pause_leaves_others_their_turn() {
    const LENGTH: usize = 16 << 10;
    const COUNT: u64 = 2048;
    secure(async {
        let mut two = node_two();
        let [_control, mut data] = lanes(&two).await;
        let (link, _) = two.up().await;
        tokio::task::spawn_local(async move {
            for number in 0..COUNT {
                let frame = encode(&data_message(number, LENGTH)).concat();
                data.write_all(&frame).await.unwrap();
            }
            // What was sealed, and the kernel had no room for, waits for this.
            data.flush().await.unwrap();
            std::future::pending::<()>().await;
        });
        let (mut heard, mut most) = (0, 0);
        while heard < COUNT {
            let mut events = Vec::new();
            within(two.network.next_events(&mut events)).await;
            most = most.max(events.len() * LENGTH);
            for event in events {
                let Event::Peer(PeerEvent::Received {
                    link: of, message, ..
                }) = event
                else {
                    panic!("{event:?} where a message should come");
                };
                assert!(of == link && message == data_message(heard, LENGTH));
                heard += 1;
            }
            // What is there meanwhile is more than is to be taken in a turn.
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert!(most <= 512 << 10, "{} KiB in one turn", most >> 10);
        assert!(most >= 128 << 10, "{} KiB: that is no load", most >> 10);
    });
}
