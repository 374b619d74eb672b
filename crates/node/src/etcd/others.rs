//! What the other members are asked by one that has no data, and what it tells them when they ask.
//!
//! A member that runs answers clients once it has had a leader; before that, only at its peers' port
//! (`/members`, by which etcd's own members find each other). One that has no data and does not run yet
//! is spoken for here: a line at its clients' port says that.
//!
//! Invariants:
//! - nothing is sent that changes anything;
//! - every question has an end, and every answer a size;
//! - an answer ends where it says so: whoever gave it may leave the connection open;
//! - where there is TLS, nothing is asked in the clear but of who answers without, and only where that is permitted.

use std::net::SocketAddr;
use std::time::Duration;

use holdfast_metadata::etcd::{EtcdMember, EtcdTls, members};
use holdfast_model::ClusterId;
use holdfast_tls::{Acceptor, ConnectError, Connector};
use serde::Deserialize;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{sleep, timeout};

use super::beginning::Heard;

/// How long one question may take: machines that are there answer from memory.
const PATIENCE: Duration = Duration::from_secs(1);
/// Bytes of an answer that are read: a list of a few dozen members.
const ANSWER_BYTES_MAX: u64 = 64 << 10;
/// What the line begins with that a waiting member answers.
const GREETING: &str = "holdfast: etcd waits, without data: ";
/// What a record of TLS begins with (RFC 5246, section 6.2.1): what is in it, and the first number of the version.
const ALERT: u8 = 21;
const HANDSHAKE: u8 = 22;
const TLS: u8 = 3;
/// After a connection could not be taken, which is for want of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What a member that waits says: whose etcd it would begin, and with whom.
pub(super) fn greeting(cluster: ClusterId, initial: &str) -> String {
    format!("{GREETING}{cluster} {initial}\n")
}

/// Says the greeting to everybody who connects; over TLS, where there is to be TLS. Never ends.
pub(super) async fn answer(listener: TcpListener, greeting: String, acceptor: Option<Acceptor>) {
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let say = async {
            match &acceptor {
                Some(acceptor) => {
                    let accepted = acceptor.accept(stream).await;
                    let (stream, _) = accepted.map_err(|_| ())?;
                    say(stream, &greeting).await
                }
                None => say(stream, &greeting).await,
            }
        };
        // Whoever does not want to hear it asks again.
        let _ = timeout(PATIENCE, say).await;
    }
}

async fn say(mut stream: impl AsyncWrite + Unpin, greeting: &str) -> Result<(), ()> {
    let said = stream.write_all(greeting.as_bytes()).await;
    said.map_err(|_| ())?;
    stream.shutdown().await.map_err(|_| ())
}

/// How others are asked.
#[derive(Clone)]
pub(super) struct Way {
    /// Over TLS; none in the clear.
    pub(super) secure: Option<Secure>,
    /// Whether who answers without TLS is asked in the clear.
    pub(super) permits_plain: bool,
}

/// What TLS needs.
#[derive(Clone)]
pub(super) struct Secure {
    /// To their clients' ports.
    pub(super) client: EtcdTls,
    /// To whatever else they say.
    pub(super) connector: Connector,
}

/// Why nothing is heard of somebody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mute {
    /// There is no answer that is understood.
    Silent,
    /// It answers, and not over TLS.
    WithoutTls,
}

/// Whom to ask, and what it would be that waits as well.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked<'a> {
    pub(super) client: SocketAddr,
    pub(super) peer: SocketAddr,
    pub(super) cluster: ClusterId,
    pub(super) greeting: &'a str,
}

/// Asks a member in every way. Tells whether it answered over TLS, too.
pub(super) async fn ask(whom: Asked<'_>, way: &Way) -> (Heard, bool) {
    let Some(secure) = &way.secure else {
        return match whom.ask(None).await {
            Ok(heard) => (heard, false),
            Err(_) if whom.speaks_tls().await => (Heard::OverTls, true),
            Err(_) => (Heard::Silent, false),
        };
    };
    match whom.ask(Some(secure)).await {
        Ok(heard) => (heard, true),
        Err(Mute::Silent) => (Heard::Silent, true),
        Err(Mute::WithoutTls) if way.permits_plain => {
            let heard = whom.ask(None).await;
            (heard.unwrap_or(Heard::Silent), false)
        }
        Err(Mute::WithoutTls) => (Heard::WithoutTls, false),
    }
}

impl Asked<'_> {
    async fn ask(&self, secure: Option<&Secure>) -> Result<Heard, Mute> {
        let endpoint = self.client.to_string();
        let endpoint = endpoint.parse().expect("a socket's address is an endpoint");
        let connector = secure.map(|it| &it.connector);
        let (agreed, known, said) = tokio::join!(
            members(&endpoint, self.cluster, secure.map(|it| &it.client)),
            known_members(self.peer, connector),
            said(self.client, connector)
        );
        if let Ok(members) = agreed {
            return Ok(Heard::Agreed(members));
        }
        match (known, said) {
            (Ok(members), _) => Ok(Heard::Leaderless(members)),
            (_, Ok(line)) if line == self.greeting => Ok(Heard::Empty),
            (_, Ok(line)) if line.starts_with(GREETING) => Ok(Heard::OtherList),
            (Err(Mute::WithoutTls), _) | (_, Err(Mute::WithoutTls)) => Err(Mute::WithoutTls),
            _ => Err(Mute::Silent),
        }
    }
}

impl Asked<'_> {
    /// Whether it is there, over TLS: it runs, or waits as well.
    async fn speaks_tls(&self) -> bool {
        let (client, peer) = tokio::join!(speaks_tls(self.client), speaks_tls(self.peer));
        client || peer
    }
}

/// Whether what listens there speaks TLS. Nothing comes of it: whoever does refuses what this begins with.
async fn speaks_tls(address: SocketAddr) -> bool {
    let asked = async {
        let mut stream = TcpStream::connect(address).await.ok()?;
        stream.write_all(&hello()).await.ok()?;
        let mut record = [0; 2];
        stream.read_exact(&mut record).await.ok()?;
        Some(matches!(record, [ALERT | HANDSHAKE, TLS]))
    };
    let answer = timeout(PATIENCE, asked).await.ok().flatten();
    answer.unwrap_or(false)
}

/// A ClientHello of TLS 1.2 (RFC 5246, section 7.4.1.2) with two suites and no extension, in a record.
fn hello() -> Vec<u8> {
    let before = [HANDSHAKE, TLS, 1, 0, 47, 1, 0, 0, 43, TLS, 3];
    let random = [0; 32];
    let suites = [0, 0, 4, 0xc0, 0x2b, 0xc0, 0x2f, 1, 0];
    [&before[..], &random, &suites].concat()
}

/// Whom a member that runs without TLS knows, by itself.
pub(super) async fn known_in_the_clear(peer: SocketAddr) -> Option<Vec<EtcdMember>> {
    known_members(peer, None).await.ok()
}

/// A member as members tell each other.
#[derive(Deserialize)]
struct Known {
    id: u64,
    #[serde(default)]
    name: String,
    #[serde(default, rename = "peerURLs")]
    peer_urls: Vec<String>,
    #[serde(default, rename = "clientURLs")]
    client_urls: Vec<String>,
}

impl From<Known> for EtcdMember {
    fn from(known: Known) -> Self {
        let Known {
            id,
            name,
            peer_urls,
            client_urls,
        } = known;
        Self {
            id,
            name,
            peer_urls,
            client_urls,
            // Not told here, and of no matter for who begins.
            is_learner: false,
        }
    }
}

/// Whom a member that runs knows, by itself.
async fn known_members(
    peer: SocketAddr,
    connector: Option<&Connector>,
) -> Result<Vec<EtcdMember>, Mute> {
    // In HTTP's first version, which knows no answer in pieces. Where it ends is read from the list: etcd leaves
    // the connection open, at times.
    let request = format!("GET /members HTTP/1.0\r\nHost: {peer}\r\n\r\n");
    exchange(peer, request.as_bytes(), connector, read_members).await
}

/// The members in an answer, once all of it is there.
fn read_members(answer: &[u8]) -> Option<Vec<EtcdMember>> {
    let text = std::str::from_utf8(answer).ok()?;
    let (head, body) = text.split_once("\r\n\r\n")?;
    let status = head.lines().next()?;
    if status.split(' ').nth(1)? != "200" {
        return None;
    }
    let known: Vec<Known> = serde_json::from_str(body).ok()?;
    Some(known.into_iter().map(EtcdMember::from).collect())
}

/// What is said to whoever says nothing.
async fn said(client: SocketAddr, connector: Option<&Connector>) -> Result<String, Mute> {
    exchange(client, b"", connector, read_line).await
}

fn read_line(answer: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(answer).ok()?;
    text.ends_with('\n').then(|| text.to_owned())
}

/// Sends a request, and reads until `read` finds the whole answer.
async fn exchange<T>(
    address: SocketAddr,
    request: &[u8],
    connector: Option<&Connector>,
    read: impl Fn(&[u8]) -> Option<T>,
) -> Result<T, Mute> {
    let exchange = async {
        let stream = TcpStream::connect(address).await;
        let stream = stream.map_err(|_| Mute::Silent)?;
        let found = match connector {
            Some(connector) => {
                let host = address.ip().to_string();
                let connected = connector.connect(&host, stream).await;
                let stream = connected.map_err(|error| match error {
                    ConnectError::Plain => Mute::WithoutTls,
                    _ => Mute::Silent,
                })?;
                talk(stream, request, read).await
            }
            None => talk(stream, request, read).await,
        };
        found.ok_or(Mute::Silent)
    };
    let exchanged = timeout(PATIENCE, exchange).await;
    exchanged.unwrap_or(Err(Mute::Silent))
}

async fn talk<T>(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    request: &[u8],
    read: impl Fn(&[u8]) -> Option<T>,
) -> Option<T> {
    stream.write_all(request).await.ok()?;
    stream.flush().await.ok()?;
    let mut stream = stream.take(ANSWER_BYTES_MAX);
    let mut answer = Vec::new();
    while stream.read_buf(&mut answer).await.ok()? > 0 {
        if let Some(found) = read(&answer) {
            return Some(found);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use holdfast_model::NodeId;
    use holdfast_tls::{Authority, Credentials, Subject};

    use super::*;

    /// etcd 3.4 leaves a connection open after what it has answered there; newer ones do so at times.
    #[tokio::test]
    async fn a_member_that_leaves_the_connection_open_is_heard() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let answers = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = [0; 512];
            let count = stream.read(&mut request).await.unwrap();
            assert!(request[..count].starts_with(b"GET /members "));
            let pieces = [
                "HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n",
                r#"[{"id":7,"peerURLs":["http://192.0.2.1:2380"],"#,
                "\"name\":\"n1\"}]\n",
            ];
            for piece in pieces {
                stream.write_all(piece.as_bytes()).await.unwrap();
                sleep(Duration::from_millis(20)).await;
            }
            std::future::pending::<()>().await;
        };
        let members = tokio::select! {
            members = known_in_the_clear(address) => members.unwrap(),
            () = answers => unreachable!("it leaves the connection open"),
        };
        assert_eq!(members[0].name, "n1");
    }

    /// To a machine without TLS it says nothing, and is there all the same.
    #[tokio::test]
    async fn one_that_waits_over_tls_is_not_silent_to_a_machine_without() {
        let folder = tempfile::tempdir().unwrap();
        let (cluster, now) = (ClusterId(7), SystemTime::now());
        let authority = Authority::found(folder.path(), cluster, now);
        authority.unwrap();
        let subject = Subject {
            node: NodeId(1),
            name: "n1".to_owned(),
            hosts: Vec::new(),
        };
        let own = Credentials::of_node(folder.path(), cluster, &subject, now);
        let (own, _) = own.unwrap();
        let way = Way {
            secure: None,
            permits_plain: false,
        };
        // Nobody is there: the port is free again.
        let free = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let away = free.local_addr().unwrap();
        drop(free);
        let greeting = greeting(cluster, "n1=x");
        for (acceptor, heard) in [
            (Some(Acceptor::new(&own)), (Heard::OverTls, true)),
            (None, (Heard::Empty, false)),
        ] {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let client = listener.local_addr().unwrap();
            let there = tokio::spawn(answer(listener, greeting.clone(), acceptor));
            let whom = Asked {
                client,
                peer: away,
                cluster,
                greeting: &greeting,
            };
            assert_eq!(ask(whom, &way).await, heard);
            there.abort();
        }
        let whom = Asked {
            client: away,
            peer: away,
            cluster,
            greeting: &greeting,
        };
        assert_eq!(ask(whom, &way).await, (Heard::Silent, false));
    }

    #[test]
    fn a_list_of_members_is_read() {
        let head = "HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n";
        // As etcd 3.4 says it: who was only added has neither name nor clients.
        let body = r#"[{"id":10276657743932975437,"peerURLs":["http://192.0.2.1:2380"],"name":"n1","clientURLs":["http://192.0.2.1:2379"]},{"id":7,"peerURLs":["http://192.0.2.3:2380"]}]"#;
        let members = read_members(format!("{head}{body}\n").as_bytes()).unwrap();
        assert_eq!(members[0].id, 10_276_657_743_932_975_437);
        assert!(members[0].has_run());
        assert!(!members[1].has_run());
        for other in [
            "",
            "HTTP/1.0 404 Not Found\r\n\r\n[]",
            "HTTP/1.0 200 OK\r\n\r\nno",
        ] {
            assert_eq!(read_members(other.as_bytes()), None, "{other}");
        }
    }
}
