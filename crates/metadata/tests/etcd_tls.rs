//! TLS with real members of etcd: who is believed, and who is let in.

use std::time::Duration;

use holdfast_metadata::client::{Client, ConnectError, Status};
use holdfast_metadata::etcd::{
    EtcdConfig, EtcdEndpoint, EtcdError, EtcdTls, EtcdTlsError, MemberState, MembersView,
    TlsRefusal, members, watch_members,
};
use holdfast_metadata::suite::User;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;

use crate::common::CLUSTER;
use crate::common::etcd::{Cluster, Release};

/// Long enough for anything that happens at all, on a machine that is busy.
const SOON: Duration = Duration::from_secs(60);

/// Who signs.
struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        Self(CertifiedIssuer::self_signed(params, key).unwrap())
    }

    fn pem(&self) -> String {
        self.0.pem()
    }

    /// A certificate for a name, and its key.
    fn sign(&self, name: &str) -> (String, String) {
        let params = CertificateParams::new([name.to_owned()]).unwrap();
        let key = KeyPair::generate().unwrap();
        let signed = params.signed_by(&key, &self.0).unwrap();
        (signed.pem(), key.serialize_pem())
    }
}

/// A member with TLS that wants certificates of this authority, and is at this name.
fn member(release: Release, authority: &Authority, name: &str) -> Cluster {
    Cluster::start_secure(release, &authority.pem(), &authority.sign(name))
}

fn config(cluster: &Cluster, tls: Option<EtcdTls>) -> EtcdConfig {
    let scheme = if tls.is_some() { "https://" } else { "" };
    let endpoint = format!("{scheme}{}", cluster.address(0));
    EtcdConfig {
        endpoints: vec![endpoint.parse().unwrap()],
        cluster: CLUSTER,
        tls,
    }
}

fn tls(authority: &Authority, shown: Option<&(String, String)>) -> EtcdTls {
    let shown = shown.map(|(own, key)| (own.as_bytes(), key.as_bytes()));
    EtcdTls::new(authority.pem().as_bytes(), shown).unwrap()
}

/// Why there is no connection.
async fn refused(config: &EtcdConfig) -> TlsRefusal {
    let mut client = Client::start_etcd(config);
    let told = client
        .status
        .wait_for(|status| !matches!(status, Status::Connecting));
    let told = timeout(SOON, told).await.unwrap().unwrap();
    match &*told {
        Status::Disconnected { reason, .. } => match &**reason {
            ConnectError::Etcd(EtcdError::Tls(refusal)) => *refusal,
            other => panic!("it is told of TLS, not {other:?}"),
        },
        other => panic!("it is refused, and not {other:?}"),
    }
}

/// The alert that says so may be lost, and then only the end is heard.
fn is_of_certificate(refusal: TlsRefusal) -> bool {
    matches!(refusal, TlsRefusal::Certificate | TlsRefusal::Closed)
}

#[tokio::test]
async fn etcd_with_tls_is_used_and_who_is_not_known_is_refused() {
    let (authority, other) = (Authority::new(), Authority::new());
    let own = authority.sign("client");
    for release in [Release::Packaged, Release::Built] {
        let cluster = member(release, &authority, "127.0.0.1");
        let right = config(&cluster, Some(tls(&authority, Some(&own))));
        let client = Client::start_etcd(&right);
        let mut user = User::new(client.session);
        let put = timeout(SOON, user.put("/key", "value")).await.unwrap();
        let found = user.find("/key").await.unwrap();
        assert_eq!((&found.value[..], found.mod_revision), (&b"value"[..], put));
        // The looks at members have TLS as well, at the endpoint and where the member says that it is.
        let (told, mut views) = watch::channel(MembersView::default());
        let watching = tokio::spawn(watch_members(right.clone(), told));
        timeout(SOON, views.changed()).await.unwrap().unwrap();
        let view = views.borrow_and_update().clone();
        assert_eq!(view.configured[0].state, MemberState::Answers);
        assert_eq!(view.listed[0].state, MemberState::Answers);
        watching.abort();

        let of_other = config(&cluster, Some(tls(&other, Some(&own))));
        assert_eq!(refused(&of_other).await, TlsRefusal::OtherAuthority);
        let nothing = config(&cluster, Some(tls(&authority, None)));
        assert!(is_of_certificate(refused(&nothing).await));
        let strange = other.sign("client");
        let strange = config(&cluster, Some(tls(&authority, Some(&strange))));
        assert!(is_of_certificate(refused(&strange).await));
    }
    let elsewhere = member(Release::Built, &authority, "etcd.example");
    let elsewhere = config(&elsewhere, Some(tls(&authority, Some(&own))));
    assert_eq!(refused(&elsewhere).await, TlsRefusal::OtherName);
    let plain = Cluster::start(Release::Built, 1);
    let plain = config(&plain, Some(tls(&authority, None)));
    assert_eq!(refused(&plain).await, TlsRefusal::NoTls);
}

/// Has no TLS for who begins with it, as whoever is on the way can say, and tells of everybody who comes without.
async fn stand_in(listener: TcpListener, came: mpsc::Sender<()>) {
    while let Ok((mut stream, _)) = listener.accept().await {
        let mut said = [0; 4096];
        // A record of TLS begins with 22, HTTP/2 with a letter.
        match stream.read(&mut said).await {
            Ok(1..) if said[0] == 22 => {
                let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
            }
            Ok(1..) => drop(came.send(()).await),
            _ => {}
        }
    }
}

/// Members get TLS one after the other, and meanwhile are spoken to as they are: but one that has had it is not taken for one that
/// has none, whoever says so.
#[tokio::test]
async fn where_tls_was_found_nothing_is_said_in_the_clear_any_more() {
    let authority = Authority::new();
    let own = authority.sign("client");
    let tls = || tls(&authority, Some(&own)).or_plain();
    let mut cluster = member(Release::Built, &authority, "127.0.0.1");
    let endpoint: EtcdEndpoint = cluster.address(0).parse().unwrap();
    members(&endpoint, CLUSTER, Some(&tls())).await.unwrap();
    cluster.kill(0);
    let (told, mut came) = mpsc::channel(16);
    let listener = TcpListener::bind(endpoint.address()).await.unwrap();
    tokio::spawn(stand_in(listener, told));
    for _ in 0..3 {
        let error = members(&endpoint, CLUSTER, Some(&tls())).await.unwrap_err();
        assert!(
            matches!(error, EtcdError::Tls(TlsRefusal::Downgraded)),
            "{error:?}"
        );
    }
    assert!(came.try_recv().is_err(), "something was said in the clear");

    // Where it was not found yet, whoever is on the way is taken for one without: that is what the setting means.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (told, mut came) = mpsc::channel(16);
    tokio::spawn(stand_in(listener, told));
    let _ = members(&address.parse().unwrap(), CLUSTER, Some(&tls())).await;
    assert!(came.try_recv().is_ok());
}

#[test]
fn what_is_no_use_is_refused_before_anybody_connects() {
    let authority = Authority::new();
    let (own, key) = authority.sign("client");
    let (_, other_key) = authority.sign("client");
    let pem = authority.pem();
    let made = |authority: &str, own: &str, key: &str| {
        let shown = (own.as_bytes(), key.as_bytes());
        EtcdTls::new(authority.as_bytes(), Some(shown)).map(drop)
    };
    assert_eq!(made(&pem, &own, &key), Ok(()));
    for none in ["", "nothing", key.as_str()] {
        assert_eq!(made(none, &own, &key), Err(EtcdTlsError::Authority));
        assert_eq!(made(&pem, none, &key), Err(EtcdTlsError::Certificate));
    }
    assert_eq!(made(&pem, &own, &own), Err(EtcdTlsError::Key));
    assert_eq!(made(&pem, &own, &other_key), Err(EtcdTlsError::OtherKey));
    let printed = format!("{:?}", tls(&authority, Some(&(own, key))));
    assert_eq!(printed, "EtcdTls(..)");
}
