//! Who is let in, and who is not: two ends of a connection, each with credentials from a directory of its own.
#![allow(clippy::unwrap_used, reason = "a test fails so")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use holdfast_model::{ClusterId, NodeId};
use holdfast_tls::{
    AcceptError, Acceptor, Authority, ConnectError, Connector, Credentials, CredentialsError,
    NODE_DAYS, Renewal, Subject,
};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const CLUSTER: ClusterId = ClusterId(0xc1);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

fn subject(node: u16) -> Subject {
    Subject {
        node: NodeId(node),
        name: format!("n{node}"),
        hosts: vec!["192.0.2.7".to_owned(), "node.example".to_owned()],
    }
}

/// An authority's directory, and credentials that it has issued at a time.
struct Made {
    directory: TempDir,
    authority: Authority,
}

impl Made {
    fn new(cluster: ClusterId) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let began = SystemTime::now() - 2 * u32::try_from(NODE_DAYS).unwrap() * DAY;
        let authority = Authority::found(&directory.path().join("ca"), cluster, began).unwrap();
        Self {
            directory,
            authority,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn issue(&self, node: u16, at: SystemTime) -> Credentials {
        let path = self.path(&format!("issued-{node}"));
        self.authority.issue(&subject(node), &path, at).unwrap();
        Credentials::read(&path).unwrap()
    }
}

/// What the one who asks saw, and whom the one who answers took it for.
async fn meet(
    acceptor: Acceptor,
    connector: Connector,
    host: &str,
) -> (
    Result<String, ConnectError>,
    Result<Option<NodeId>, AcceptError>,
) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let answers = tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        let (mut stream, node) = acceptor.accept(stream).await?;
        stream.write_all(b"well met").await?;
        stream.shutdown().await?;
        Ok(node)
    });
    let stream = TcpStream::connect(address).await.unwrap();
    let asked = async {
        let mut stream = connector.connect(host, stream).await?;
        let mut heard = String::new();
        let read = stream.read_to_string(&mut heard).await;
        read.map_err(ConnectError::Io)?;
        Ok(heard)
    };
    let asked = asked.await;
    (asked, answers.await.unwrap())
}

#[tokio::test]
async fn nodes_know_each_other_and_whoever_only_trusts_is_nobody() {
    let made = Made::new(CLUSTER);
    let now = SystemTime::now();
    let (one, two) = (made.issue(1, now), made.issue(2, now));
    for host in [
        "127.0.0.1",
        "[::1]",
        "localhost",
        "n1",
        "192.0.2.7",
        "node.example",
    ] {
        let (heard, seen) = meet(Acceptor::new(&one), Connector::of_machine(&two), host).await;
        assert_eq!(heard.unwrap(), "well met", "{host}");
        assert_eq!(seen.unwrap(), Some(NodeId(2)));
    }
    let plain = || Connector::of_authority(&made.path("ca/authority.pem")).unwrap();
    let (heard, seen) = meet(Acceptor::new(&one), plain(), "localhost").await;
    assert_eq!((heard.unwrap().as_str(), seen.unwrap()), ("well met", None));
    let (heard, _) = meet(Acceptor::new(&one), plain(), "192.0.2.8").await;
    assert!(matches!(heard, Err(ConnectError::OtherName(name)) if name == "192.0.2.8"));
}

#[tokio::test]
async fn whoever_is_of_another_authority_is_refused_on_both_sides() {
    let (made, other) = (Made::new(CLUSTER), Made::new(CLUSTER));
    let now = SystemTime::now();
    let (one, stranger) = (made.issue(1, now), other.issue(2, now));
    let (heard, seen) = meet(Acceptor::new(&one), Connector::of_machine(&stranger), "n1").await;
    assert!(matches!(heard, Err(ConnectError::Untrusted)), "{heard:?}");
    assert!(matches!(seen, Err(AcceptError::Io(_))), "{seen:?}");
    // It trusts the right one, and shows what the wrong one has signed.
    let mixed = made.path("mixed");
    fs::create_dir(&mixed).unwrap();
    for (from, name) in [
        (made.path("issued-1"), "authority.pem"),
        (other.path("issued-2"), "node.pem"),
        (other.path("issued-2"), "node.key"),
    ] {
        fs::copy(from.join(name), mixed.join(name)).unwrap();
    }
    let read = Credentials::read(&mixed).unwrap_err();
    assert!(
        matches!(read, CredentialsError::OtherAuthority(_)),
        "{read}"
    );
    // Whoever shows such a certificate all the same.
    let key = other.path("issued-2");
    let (heard, seen) = meet(Acceptor::new(&one), shows(&made, &key), "n1").await;
    assert!(heard.is_err() && seen.is_err(), "{heard:?} {seen:?}");
}

/// Trusts `made`, and shows what is in a directory, whatever that is.
fn shows(made: &Made, directory: &Path) -> Connector {
    use tokio_rustls::rustls::pki_types::pem::PemObject;
    use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
    use tokio_rustls::rustls::{ClientConfig, RootCertStore};
    let read = |name| fs::read(directory.join(name)).unwrap();
    let authority = fs::read(made.path("ca/authority.pem")).unwrap();
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_slice(&authority).unwrap())
        .unwrap();
    let own = CertificateDer::from_pem_slice(&read("node.pem")).unwrap();
    let key = PrivateKeyDer::from_pem_slice(&read("node.key")).unwrap();
    let config = ClientConfig::builder()
        .with_root_certificates(roots)
        .with_client_auth_cert(vec![own], key)
        .unwrap();
    Connector::from(config)
}

#[tokio::test]
async fn what_has_expired_is_refused_on_both_sides() {
    let made = Made::new(CLUSTER);
    let now = SystemTime::now();
    let long_ago = now - (u32::try_from(NODE_DAYS).unwrap() + 1) * DAY;
    let (good, old) = (made.issue(1, now), made.issue(2, long_ago));
    let (heard, _) = meet(Acceptor::new(&old), Connector::of_machine(&good), "n2").await;
    assert!(matches!(heard, Err(ConnectError::Expired)), "{heard:?}");
    let (heard, seen) = meet(Acceptor::new(&good), Connector::of_machine(&old), "n1").await;
    assert!(heard.is_err() && seen.is_err(), "{heard:?} {seen:?}");
    // One of tomorrow is not good today either.
    let early = made.issue(3, now + 2 * DAY);
    let (heard, _) = meet(Acceptor::new(&early), Connector::of_machine(&good), "n3").await;
    assert!(matches!(heard, Err(ConnectError::Expired)), "{heard:?}");
}

/// The authority's own certificate is for signing, and for nothing else.
#[tokio::test]
async fn a_certificate_of_another_use_is_refused() {
    let made = Made::new(CLUSTER);
    let good = made.issue(1, SystemTime::now());
    let odd = made.path("odd");
    fs::create_dir(&odd).unwrap();
    fs::copy(made.path("ca/authority.pem"), odd.join("node.pem")).unwrap();
    fs::copy(made.path("ca/authority.key"), odd.join("node.key")).unwrap();
    let (heard, seen) = meet(Acceptor::new(&good), shows(&made, &odd), "n1").await;
    assert!(heard.is_err() && seen.is_err(), "{heard:?} {seen:?}");
}

#[tokio::test]
async fn what_does_not_speak_tls_is_told_apart() {
    let made = Made::new(CLUSTER);
    let acceptor = Acceptor::new(&made.issue(1, SystemTime::now()));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut plain = TcpStream::connect(listener.local_addr().unwrap())
        .await
        .unwrap();
    plain.write_all(b"GET / HTTP/1.1\r\n").await.unwrap();
    let (stream, _) = listener.accept().await.unwrap();
    match acceptor.accept(stream).await {
        Err(AcceptError::Plain(mut stream)) => {
            let mut whole = [0; 16];
            stream.read_exact(&mut whole).await.unwrap();
            assert_eq!(&whole, b"GET / HTTP/1.1\r\n", "nothing of it is lost");
        }
        other => panic!("{:?}", other.map(|(_, node)| node)),
    }
}

#[test]
fn a_node_makes_its_own_credentials_and_renews_them_in_time() {
    let made = Made::new(CLUSTER);
    let (now, directory) = (SystemTime::now(), made.path("ca"));
    let of_node = |node, at| Credentials::of_node(&directory, CLUSTER, &subject(node), at);
    let (credentials, renewal) = of_node(1, now).unwrap();
    let first = credentials.issued();
    assert_eq!(renewal, Renewal::Renewed(first.clone()));
    assert_eq!(credentials.node(), NodeId(1));
    assert!(
        first.names.contains(&"node.example".to_owned()),
        "{first:?}"
    );
    let mode = |name: &str| {
        let metadata = fs::metadata(directory.join(name)).unwrap();
        metadata.permissions().mode() & 0o777
    };
    assert_eq!(
        [mode(""), mode("node.key"), mode("authority.key")],
        [0o700, 0o600, 0o600]
    );
    assert_eq!(of_node(1, now).unwrap().1, Renewal::NotDue);
    let key = fs::read(directory.join("node.key")).unwrap();
    let later = now + u32::try_from(NODE_DAYS * 2 / 3 + 1).unwrap() * DAY;
    let renewal = credentials.renew(&subject(1), later).unwrap();
    let second = credentials.issued();
    assert_eq!(renewal, Renewal::Renewed(second.clone()));
    assert!(second.not_after > first.not_after);
    assert_eq!(fs::read(directory.join("node.key")).unwrap(), key);
    // Another address is in it at once.
    let moved = Subject {
        hosts: vec!["192.0.2.99".to_owned()],
        ..subject(1)
    };
    let renewal = credentials.renew(&moved, later).unwrap();
    assert!(matches!(renewal, Renewal::Renewed(it) if it.names.contains(&"192.0.2.99".to_owned())));
    // Without the authority's key, they are good as long as they are.
    fs::remove_file(directory.join("authority.key")).unwrap();
    assert_eq!(credentials.renew(&moved, later).unwrap(), Renewal::NotDue);
    assert!(matches!(
        credentials.renew(&moved, later + u32::try_from(NODE_DAYS).unwrap() * DAY),
        Err(CredentialsError::Missing(_))
    ));
    // A node starts with them as well, and says that they could not be renewed; not with what has expired.
    let due = later + u32::try_from(NODE_DAYS * 2 / 3 + 1).unwrap() * DAY;
    let started = Credentials::of_node(&directory, CLUSTER, &moved, due);
    assert!(matches!(started.unwrap().1, Renewal::Failed(_)));
    let expired = later + u32::try_from(NODE_DAYS + 2).unwrap() * DAY;
    let refused = Credentials::of_node(&directory, CLUSTER, &moved, expired);
    assert!(matches!(refused, Err(CredentialsError::Missing(_))));
}

/// A machine without a clock of its own begins somewhere.
#[test]
fn what_was_made_by_a_clock_that_was_ahead_is_made_anew() {
    let made = Made::new(CLUSTER);
    let (now, directory) = (SystemTime::now(), made.path("ca"));
    let ahead = now + 400 * DAY;
    let (credentials, _) = Credentials::of_node(&directory, CLUSTER, &subject(1), ahead).unwrap();
    assert!(credentials.issued().not_before > now);
    let renewal = credentials.renew(&subject(1), now).unwrap();
    assert!(matches!(renewal, Renewal::Renewed(it) if it.not_before < now));
}

/// What others take now they take after a clock was wrong for a moment, by whatever: what it has renewed is good when the one before was.
#[test]
fn a_clock_that_is_wrong_takes_nothing_away() {
    for wrong in [
        SystemTime::now() + 300 * DAY,
        SystemTime::now() + 20 * 365 * DAY,
        SystemTime::UNIX_EPOCH + 30 * DAY,
    ] {
        let made = Made::new(CLUSTER);
        let (now, directory) = (SystemTime::now(), made.path("ca"));
        let (credentials, _) = Credentials::of_node(&directory, CLUSTER, &subject(1), now).unwrap();
        let before = credentials.issued();
        let renewal = credentials.renew(&subject(1), wrong).unwrap();
        assert!(matches!(renewal, Renewal::Renewed(_)), "{renewal:?}");
        let after = credentials.issued();
        assert!(after.not_before <= before.not_before, "{after:?}");
        assert!(after.not_after >= before.not_after, "{after:?}");
        // It is good by that clock as well, and not made anew at each look, by neither.
        assert!((after.not_before..after.not_after).contains(&wrong));
        for at in [wrong, now] {
            let renewal = credentials.renew(&subject(1), at).unwrap();
            assert_eq!(renewal, Renewal::NotDue);
        }
    }
}

/// It begins with the first one, and is due when a third of a year is left all the same.
#[test]
fn what_was_renewed_often_is_due_as_the_first_was() {
    let made = Made::new(CLUSTER);
    let (begun, directory) = (SystemTime::now(), made.path("ca"));
    let (credentials, _) = Credentials::of_node(&directory, CLUSTER, &subject(1), begun).unwrap();
    let mut renewed = Vec::new();
    for day in 0..3000 {
        let renewal = credentials.renew(&subject(1), begun + day * DAY).unwrap();
        if matches!(renewal, Renewal::Renewed(_)) {
            renewed.push(day);
        }
    }
    let pauses = renewed.windows(2).map(|two| two[1] - two[0]);
    assert!(renewed.len() > 10, "{renewed:?}");
    for pause in pauses {
        assert!((243..=245).contains(&pause), "{renewed:?}");
    }
}

#[test]
fn credentials_that_are_not_right_are_refused() {
    let made = Made::new(CLUSTER);
    let (now, directory) = (SystemTime::now(), made.path("ca"));
    let again = Authority::found(&directory, CLUSTER, now).err().unwrap();
    assert!(matches!(again, CredentialsError::Exists(_)), "{again}");
    Credentials::of_node(&directory, CLUSTER, &subject(1), now).unwrap();
    let issued = made.authority.issue(&subject(2), &directory, now);
    assert!(matches!(issued, Err(CredentialsError::Exists(_))));
    let other = Credentials::of_node(&directory, ClusterId(7), &subject(1), now).unwrap_err();
    assert!(
        matches!(other, CredentialsError::OtherCluster { .. }),
        "{other}"
    );
    let other = Credentials::of_node(&directory, CLUSTER, &subject(2), now).unwrap_err();
    assert!(
        matches!(other, CredentialsError::OtherNode { .. }),
        "{other}"
    );
    let key = directory.join("node.key");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o640)).unwrap();
    let public = Credentials::read(&directory).unwrap_err();
    assert!(
        matches!(public, CredentialsError::Public { mode: 0o640, .. }),
        "{public}"
    );
    made.issue(2, now);
    fs::remove_file(&key).unwrap();
    fs::copy(made.path("issued-2").join("node.key"), &key).unwrap();
    let other = Credentials::read(&directory).unwrap_err();
    assert!(matches!(other, CredentialsError::OtherKey(_)), "{other}");
    fs::write(directory.join("authority.pem"), "nonsense").unwrap();
    let nonsense = Credentials::read(&directory).unwrap_err();
    assert!(
        matches!(nonsense, CredentialsError::Unreadable { .. }),
        "{nonsense}"
    );
    let name = Subject {
        hosts: vec!["a b".to_owned()],
        ..subject(3)
    };
    let wrong = made.authority.issue(&name, &made.path("wrong"), now);
    assert!(matches!(wrong, Err(CredentialsError::Name(name)) if name == "a b"));
}
