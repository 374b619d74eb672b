//! The interface over TCP: the suite through client, server and embedded store; connections that
//! break; guests that do not know how to behave.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use holdfast_metadata::client::{ClientConfig, ConnectError, REQUESTS_WAITING_MAX, Status};
use holdfast_metadata::frame::{MAGIC, Refusal};
use holdfast_metadata::server::{CONNECTIONS_MAX, Door, serve};
use holdfast_metadata::session::ANSWERS_WAITING_MAX;
use holdfast_metadata::suite::{self, Harness, User};
use holdfast_metadata::{Client, Embedded, Session, Store};
use holdfast_model::ClusterId;
use holdfast_model::metadata::{
    LeaseId, MetadataAnswer, MetadataError, MetadataRequest, MetadataToken, Operation, Revision,
    Selector, Transaction, WatchEvent,
};
use holdfast_stdx::{Bytes, crc32c};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::common::{CLUSTER, open, overrun};

const SECRET: &str = "open sesame";
/// Long enough for anything that happens at all.
const SOON: Duration = Duration::from_secs(30);

struct Served {
    address: SocketAddr,
    store: Arc<Embedded>,
    task: JoinHandle<()>,
}

impl Served {
    async fn start(folder: &Path, address: &str, door: Door) -> Self {
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        let store = Arc::new(open(folder));
        let shared: Arc<dyn Store> = store.clone();
        let task = tokio::spawn(async move {
            serve(listener, shared, door).await;
        });
        Self {
            address,
            store,
            task,
        }
    }

    fn client(&self) -> Client {
        Client::start(config(self.address))
    }

    async fn stop(self) {
        self.task.abort();
        let _ = self.task.await;
        let mut store = self.store;
        // Connections that are being aborted let go of the store in a moment.
        let store = loop {
            match Arc::try_unwrap(store) {
                Ok(store) => break store,
                Err(shared) => store = shared,
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        };
        store.close().unwrap();
    }
}

fn door() -> Door {
    Door {
        silence_max: Duration::from_secs(4),
        ..Door::new(CLUSTER, SECRET)
    }
}

fn config(address: SocketAddr) -> ClientConfig {
    ClientConfig {
        addresses: vec![address.to_string()],
        cluster: CLUSTER,
        access_token: SECRET.to_owned(),
    }
}

impl Harness for Served {
    async fn session(&mut self) -> Session {
        self.client().session
    }

    async fn pass(&mut self, time: Duration) {
        tokio::time::sleep(time).await;
    }

    async fn compact(&mut self) {
        overrun(self.store.session()).await;
    }
}

#[tokio::test]
async fn the_store_passes_the_suite_over_the_network() {
    let folder = tempfile::tempdir().unwrap();
    let mut served = Served::start(folder.path(), "127.0.0.1:0", door()).await;
    suite::run(&mut served).await;
}

/// A way to the server that a test can cut, and whose answers it can swallow.
struct Proxy {
    address: SocketAddr,
    task: JoinHandle<()>,
    mute: Arc<std::sync::atomic::AtomicBool>,
    cut: Arc<tokio::sync::Notify>,
}

impl Proxy {
    async fn start(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mute = Arc::new(std::sync::atomic::AtomicBool::new(false));
        let cut = Arc::new(tokio::sync::Notify::new());
        let (muted, cutting) = (mute.clone(), cut.clone());
        let task = tokio::spawn(async move {
            loop {
                let (near, _) = listener.accept().await.unwrap();
                let Ok(far) = TcpStream::connect(server).await else {
                    continue;
                };
                let muted = muted.clone();
                let cutting = cutting.clone();
                tokio::spawn(async move {
                    let (mut near_source, mut near_target) = near.into_split();
                    let (mut far_source, mut far_target) = far.into_split();
                    let there = tokio::io::copy(&mut near_source, &mut far_target);
                    let back = async {
                        let mut buffer = [0; 1 << 10];
                        while let Ok(length @ 1..) = far_source.read(&mut buffer).await {
                            if muted.load(std::sync::atomic::Ordering::SeqCst) {
                                continue;
                            }
                            if near_target.write_all(&buffer[..length]).await.is_err() {
                                break;
                            }
                        }
                    };
                    tokio::select! {
                        _ = there => {}
                        () = back => {}
                        () = cutting.notified() => {}
                    }
                });
            }
        });
        Self {
            address,
            task,
            mute,
            cut,
        }
    }

    fn mute(&self, mute: bool) {
        self.mute.store(mute, std::sync::atomic::Ordering::SeqCst);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn put(key: &str, value: &str) -> Transaction {
    let operation = Operation::Put {
        key: key.to_owned(),
        value: Bytes::copy_from_slice(value.as_bytes()),
        lease: LeaseId::default(),
    };
    Transaction {
        success: vec![operation],
        ..Transaction::default()
    }
}

#[tokio::test]
async fn an_outcome_that_was_lost_is_said_to_be_unknown() {
    let folder = tempfile::tempdir().unwrap();
    let served = Served::start(folder.path(), "127.0.0.1:0", door()).await;
    let proxy = Proxy::start(served.address).await;
    let mut user = User::new(Client::start(config(proxy.address)).session);
    user.put("/a", "1").await;
    proxy.mute(true);
    let lost = user.submit(MetadataRequest::Transact(put("/a", "2")));
    // The connection lives, and nothing comes: the client gives it up by itself.
    let begun = std::time::Instant::now();
    let answer = user.answer(lost).await;
    assert_eq!(answer, MetadataAnswer::Failed(MetadataError::Unavailable));
    assert!(
        begun.elapsed() < Duration::from_secs(6),
        "after {:?}",
        begun.elapsed()
    );
    proxy.mute(false);
    proxy.cut.notify_waiters();
    // It was done all the same, and once: the client has not repeated it.
    let found = loop {
        match user
            .transact(Transaction {
                success: vec![Operation::Range(Selector::Key("/a".to_owned()))],
                ..Transaction::default()
            })
            .await
        {
            Ok(outcome) => break outcome.results,
            Err(error) => assert_eq!(error, MetadataError::Unavailable),
        }
    };
    let holdfast_model::metadata::OperationResult::Range(found) = &found[0] else {
        panic!("a range is answered by keys");
    };
    assert_eq!((&found[0].value[..], found[0].version), (&b"2"[..], 2));
}

#[tokio::test]
async fn a_watch_misses_nothing_over_broken_connections_and_restarts() {
    let folder = tempfile::tempdir().unwrap();
    let mut served = Served::start(folder.path(), "127.0.0.1:0", door()).await;
    let proxy = Proxy::start(served.address).await;
    let mut watcher = User::new(Client::start(config(proxy.address)).session);
    let from = Revision(watcher.revision().await.0 + 1);
    let watch = watcher.watch(Selector::Prefix("/counted".to_owned()), from);
    let mut last = from;
    let mut expected = 0;
    for round in 0..8 {
        let mut writer = User::new(served.store.session());
        for _ in 0..30 {
            expected += 1;
            last = writer.put("/counted", &expected.to_string()).await;
            if expected % 11 == 0 {
                proxy.cut.notify_waiters();
            }
        }
        drop(writer);
        if round % 3 == 2 {
            let address = served.address.to_string();
            served.stop().await;
            served = Served::start(folder.path(), &address, door()).await;
        }
    }
    let events = watcher.events(watch, last).await;
    let told: Vec<_> = events
        .iter()
        .map(|event| match event {
            WatchEvent::Put(new) => String::from_utf8(new.value.to_vec()).unwrap(),
            WatchEvent::Delete { .. } => panic!("nothing was deleted"),
        })
        .collect();
    assert_eq!(
        told,
        (1..=expected)
            .map(|count| count.to_string())
            .collect::<Vec<_>>()
    );
}

#[tokio::test]
async fn without_a_server_requests_fail_and_later_ones_succeed() {
    let folder = tempfile::tempdir().unwrap();
    let served = Served::start(folder.path(), "127.0.0.1:0", door()).await;
    let address = served.address.to_string();
    let client = served.client();
    let mut status = client.status.clone();
    let mut user = User::new(client.session);
    user.put("/a", "1").await;
    served.stop().await;
    let begun = std::time::Instant::now();
    let refused = user.transact(put("/a", "2")).await;
    assert_eq!(refused, Err(MetadataError::Unavailable));
    assert!(begun.elapsed() < Duration::from_secs(3));
    status
        .wait_for(|now| matches!(now, Status::Disconnected { .. }))
        .await
        .unwrap();
    let served = Served::start(folder.path(), &address, door()).await;
    status
        .wait_for(|now| matches!(now, Status::Connected { .. }))
        .await
        .unwrap();
    assert_eq!(
        user.transact(put("/a", "3"))
            .await
            .map(|outcome| outcome.succeeded),
        Ok(true)
    );
    let found = User::new(served.store.session()).find("/a").await.unwrap();
    assert_eq!(&found.value[..], b"3");
}

/// Nobody reads while so much is asked: every request is answered all the same.
#[tokio::test]
async fn more_requests_than_may_wait_are_all_answered() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut client = Client::start(config(listener.local_addr().unwrap()));
    let count = 4 * (REQUESTS_WAITING_MAX + ANSWERS_WAITING_MAX) as u64;
    for number in 0..count {
        let request = MetadataRequest::Transact(put("/key", "value"));
        client
            .session
            .requests
            .submit(MetadataToken(number), request);
    }
    let mut answered = BTreeSet::new();
    while answered.len() < count as usize {
        let answer = client.session.answers.recv();
        let (token, _) = timeout(SOON, answer).await.unwrap().unwrap();
        assert!(answered.insert(token), "{token:?} is answered twice");
    }
}

async fn refusal_of(config: ClientConfig) -> Refusal {
    let mut client = Client::start(config);
    let status = client
        .status
        .wait_for(|now| matches!(now, Status::Disconnected { .. }))
        .await;
    match &*status.unwrap() {
        Status::Disconnected { reason, .. } => match **reason {
            ConnectError::Refused(refusal) => refusal,
            ref other => panic!("a refusal has a reason, not {other:?}"),
        },
        other => panic!("it was waited for: {other:?}"),
    }
}

#[tokio::test]
async fn strangers_are_told_why_they_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let served = Served::start(folder.path(), "127.0.0.1:0", door()).await;
    let other = ClientConfig {
        cluster: ClusterId(9),
        ..config(served.address)
    };
    assert_eq!(refusal_of(other).await, Refusal::Cluster(CLUSTER));
    let ignorant = ClientConfig {
        access_token: "open barley".to_owned(),
        ..config(served.address)
    };
    assert_eq!(refusal_of(ignorant).await, Refusal::AccessToken);
    // A listener that is something else.
    let stranger = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut client = Client::start(config(stranger.local_addr().unwrap()));
    let (mut guest, _) = stranger.accept().await.unwrap();
    guest
        .write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        .await
        .unwrap();
    let status = client
        .status
        .wait_for(|now| matches!(now, Status::Disconnected { .. }))
        .await;
    let status = format!("{:?}", status.unwrap());
    assert!(status.contains("Stranger"), "{status}");
}

fn frame(body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len()).unwrap().to_le_bytes();
    [&length[..], &crc32c(body).to_le_bytes(), body].concat()
}

fn hello(version: u16) -> Vec<u8> {
    let mut body = vec![1];
    body.extend_from_slice(&MAGIC);
    body.extend_from_slice(&version.to_le_bytes());
    body.extend_from_slice(&CLUSTER.0.to_le_bytes());
    body.extend_from_slice(&u32::try_from(SECRET.len()).unwrap().to_le_bytes());
    body.extend_from_slice(SECRET.as_bytes());
    frame(&body)
}

/// Sends, and reads until the server hangs up.
async fn converse(server: SocketAddr, sent: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(server).await.unwrap();
    // The server may hang up before it has taken everything.
    let _ = stream.write_all(sent).await;
    let mut received = Vec::new();
    let _ = timeout(Duration::from_secs(8), stream.read_to_end(&mut received))
        .await
        .expect("the server hangs up");
    received
}

const WELCOME: [u8; 7] = [1, b'H', b'F', b'm', b'd', 1, 0];
const MALFORMED: [u8; 2] = [2, 5];
const TOO_SLOW: [u8; 2] = [2, 6];

#[tokio::test]
async fn bad_guests_are_told_and_hung_up_on() {
    let folder = tempfile::tempdir().unwrap();
    let quick = Door {
        silence_max: Duration::from_secs(1),
        ..door()
    };
    let served = Served::start(folder.path(), "127.0.0.1:0", quick).await;
    let server = served.address;
    let malformed = frame(&MALFORMED);
    let welcome = frame(&WELCOME);
    assert_eq!(
        converse(server, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").await,
        malformed
    );
    assert_eq!(converse(server, &hello(2)).await, frame(&[2, 1, 1, 0]));
    assert_eq!(converse(server, &frame(&[9; 40])).await, malformed);
    assert_eq!(converse(server, b"").await, frame(&TOO_SLOW));
    assert_eq!(converse(server, &hello(1)[..20]).await, frame(&TOO_SLOW));
    let unwatch = frame(&[2, 7, 0, 0, 0, 0, 0, 0, 0, 3]);
    assert_eq!(
        converse(server, &unwatch).await,
        malformed,
        "a request is no hello"
    );
    let greeted = |rest: &[u8]| [&hello(1), rest].concat();
    let silent = [&welcome[..], &frame(&TOO_SLOW)].concat();
    assert_eq!(converse(server, &greeted(&unwatch)).await, silent);
    let refused = [&welcome[..], &malformed].concat();
    assert_eq!(converse(server, &greeted(&hello(1))).await, refused);
    assert_eq!(converse(server, &greeted(&[0xFF; 64])).await, refused);
    assert_eq!(converse(server, &greeted(&frame(&[2; 30]))).await, refused);
    let mut bad_checksum = unwatch.clone();
    bad_checksum[5] ^= 1;
    assert_eq!(converse(server, &greeted(&bad_checksum)).await, refused);
    // The store is as well as it was.
    let mut user = User::new(served.client().session);
    user.put("/a", "1").await;
}

#[tokio::test]
async fn connections_are_limited() {
    let folder = tempfile::tempdir().unwrap();
    let served = Served::start(folder.path(), "127.0.0.1:0", door()).await;
    let mut guests = Vec::new();
    for _ in 0..CONNECTIONS_MAX {
        let mut guest = TcpStream::connect(served.address).await.unwrap();
        guest.write_all(&hello(1)).await.unwrap();
        let mut welcome = [0; WELCOME.len() + 8];
        guest.read_exact(&mut welcome).await.unwrap();
        guests.push(guest);
    }
    assert_eq!(refusal_of(config(served.address)).await, Refusal::TooMany);
    guests.truncate(CONNECTIONS_MAX / 2);
    let mut user = User::new(served.client().session);
    while user.transact(put("/a", "1")).await.is_err() {}
}

/// A guest that asks and does not listen costs bounded memory, and goes.
#[tokio::test]
async fn a_guest_that_does_not_listen_is_hung_up_on() {
    let folder = tempfile::tempdir().unwrap();
    let quick = Door {
        silence_max: Duration::from_secs(1),
        ..door()
    };
    let served = Served::start(folder.path(), "127.0.0.1:0", quick).await;
    let mut writer = User::new(served.store.session());
    let large = "v".repeat(200 << 10);
    for number in 0..20 {
        writer.put(&format!("/large/{number}"), &large).await;
    }
    let mut guest = TcpStream::connect(served.address).await.unwrap();
    guest.write_all(&hello(1)).await.unwrap();
    // A read of everything, 4 MiB an answer, as often as the guest gets rid of it.
    let asked = async {
        for token in 0_u64.. {
            let mut body = vec![2];
            body.extend_from_slice(&token.to_le_bytes());
            body.extend_from_slice(&[1, 0, 0, 0, 0, 1, 0, 0, 0, 1, 2, 0, 0, 0, 0, 0, 0, 0, 0]);
            if guest.write_all(&frame(&body)).await.is_err() {
                return token;
            }
        }
        unreachable!("the guest is hung up on")
    };
    let asked = timeout(Duration::from_secs(15), asked).await;
    assert!(asked.is_ok(), "the server hangs up");
    writer.put("/still", "well").await;
}
