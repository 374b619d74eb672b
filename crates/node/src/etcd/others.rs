//! What the other members are asked by one that has no data, and what it tells them when they ask.
//!
//! A member that runs answers clients once it has had a leader; before that, only at its peers' port
//! (`/members`, by which etcd's own members find each other). One that has no data and does not run yet
//! is spoken for here: a line at its clients' port says that.
//!
//! Invariants:
//! - nothing is sent that changes anything;
//! - every question has an end, and every answer a size;
//! - an answer ends where it says so: whoever gave it may leave the connection open.

use std::net::SocketAddr;
use std::time::Duration;

use holdfast_metadata::etcd::{EtcdMember, EtcdTls, members};
use holdfast_model::ClusterId;
use holdfast_tls::{Acceptor, Connector};
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
#[derive(Clone, Debug)]
pub(super) struct Way {
    /// To their clients' ports.
    pub(super) client: Option<EtcdTls>,
    /// To whatever else they say; none in the clear.
    pub(super) connector: Option<Connector>,
}

/// Asks a member in every way.
pub(super) async fn ask(
    client: SocketAddr,
    peer: SocketAddr,
    cluster: ClusterId,
    greeting: &str,
    way: &Way,
) -> Heard {
    let endpoint = client.to_string();
    let endpoint = endpoint.parse().expect("a socket's address is an endpoint");
    let (agreed, known, said) = tokio::join!(
        members(&endpoint, cluster, way.client.as_ref()),
        known_members(peer, way),
        said(client, way)
    );
    if let Ok(members) = agreed {
        return Heard::Agreed(members);
    }
    if let Some(members) = known {
        return Heard::Leaderless(members);
    }
    match said {
        Some(line) if line == greeting => Heard::Empty,
        Some(line) if line.starts_with(GREETING) => Heard::OtherList,
        _ => Heard::Silent,
    }
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
async fn known_members(peer: SocketAddr, way: &Way) -> Option<Vec<EtcdMember>> {
    // In HTTP's first version, which knows no answer in pieces. Where it ends is read from the list: etcd leaves
    // the connection open, at times.
    let request = format!("GET /members HTTP/1.0\r\nHost: {peer}\r\n\r\n");
    exchange(peer, request.as_bytes(), way, read_members).await
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
async fn said(client: SocketAddr, way: &Way) -> Option<String> {
    exchange(client, b"", way, read_line).await
}

fn read_line(answer: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(answer).ok()?;
    text.ends_with('\n').then(|| text.to_owned())
}

/// Sends a request, and reads until `read` finds the whole answer.
async fn exchange<T>(
    address: SocketAddr,
    request: &[u8],
    way: &Way,
    read: impl Fn(&[u8]) -> Option<T>,
) -> Option<T> {
    let exchange = async {
        let stream = TcpStream::connect(address).await.ok()?;
        match &way.connector {
            Some(connector) => {
                let host = address.ip().to_string();
                let stream = connector.connect(&host, stream).await.ok()?;
                talk(stream, request, read).await
            }
            None => talk(stream, request, read).await,
        }
    };
    timeout(PATIENCE, exchange).await.ok()?
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
        let plain = Way {
            client: None,
            connector: None,
        };
        let members = tokio::select! {
            members = known_members(address, &plain) => members.unwrap(),
            () = answers => unreachable!("it leaves the connection open"),
        };
        assert_eq!(members[0].name, "n1");
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
