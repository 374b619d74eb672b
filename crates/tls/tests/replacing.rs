//! An authority takes the place of another one while machines speak to each other, and credentials that somebody has changed are
//! taken, or not.
#![allow(clippy::unwrap_used, reason = "a test fails so")]

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use holdfast_model::{ClusterId, NodeId};
use holdfast_tls::replacing::{
    Found, NEXT_FILE, NEXT_KEY_FILE, Probe, Stage, finish, prepare, stage, switch,
};
use holdfast_tls::{
    Acceptor, Authority, Change, Connector, Credentials, CredentialsError, Renewal, Subject,
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
        hosts: Vec::new(),
    }
}

/// Two machines that run, each with what it had when it started, and a client that has the authority's certificate.
struct Two {
    folder: TempDir,
    machines: [(Acceptor, Connector, Credentials); 2],
}

impl Two {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let first = folder.path().join("1");
        let now = SystemTime::now();
        let authority = Authority::found(&first, CLUSTER, now).unwrap();
        authority
            .issue(&subject(2), &folder.path().join("2"), now)
            .unwrap();
        let start = |node: u16| {
            let directory = folder.path().join(node.to_string());
            let (own, _) = Credentials::of_node(&directory, CLUSTER, &subject(node), now).unwrap();
            (Acceptor::new(&own), Connector::of_machine(&own), own)
        };
        let machines = [start(1), start(2)];
        Self { folder, machines }
    }

    fn path(&self, node: usize) -> PathBuf {
        self.folder.path().join(node.to_string())
    }

    /// What each machine does again and again.
    fn look(&self, node: usize) -> (Change, Renewal) {
        let (_, _, own) = &self.machines[node - 1];
        let now = SystemTime::now();
        let change = own.refresh(now).unwrap();
        let subject = subject(u16::try_from(node).unwrap());
        (change, own.renew(&subject, now).unwrap())
    }

    /// Whether each reaches the other, and is known there.
    async fn all_meet(&self) -> bool {
        for (from, to) in [(0, 1), (1, 0)] {
            let (answers, asks) = (&self.machines[to].0, &self.machines[from].1);
            if meet(answers, asks).await != Some(self.machines[from].2.node()) {
                return false;
            }
        }
        true
    }

    /// What a machine finds at another one.
    async fn find(&self, probe: &Probe, to: usize) -> Found {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let acceptor = self.machines[to - 1].0.clone();
        tokio::spawn(async move {
            let (stream, _) = listener.accept().await.unwrap();
            let Ok((mut stream, _)) = acceptor.accept(stream).await else {
                return;
            };
            let mut request = [0; 64];
            let _ = stream.read(&mut request).await;
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await;
            let _ = stream.shutdown().await;
        });
        let stream = TcpStream::connect(address).await.unwrap();
        probe.ask("127.0.0.1", stream, "/").await.unwrap()
    }
}

/// As whom one is known at the other's, if there is a connection.
async fn meet(answers: &Acceptor, asks: &Connector) -> Option<NodeId> {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let answers = answers.clone();
    let answering = tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        let (mut stream, node) = answers.accept(stream).await.ok()?;
        stream.write_all(b"well met").await.ok()?;
        stream.shutdown().await.ok()?;
        node
    });
    let stream = TcpStream::connect(address).await.unwrap();
    let mut stream = asks.connect("127.0.0.1", stream).await.ok()?;
    let mut heard = String::new();
    stream.read_to_string(&mut heard).await.ok()?;
    answering.await.unwrap()
}

fn copy(from: &Path, to: &Path, names: &[&str]) {
    for name in names {
        fs::copy(from.join(name), to.join(name)).unwrap();
    }
}

#[tokio::test]
async fn an_authority_is_replaced_while_machines_speak() {
    let two = Two::new();
    let now = SystemTime::now();
    let (first, second) = (two.path(1), two.path(2));
    fs::write(first.join("secrets.key"), "a key for secrets").unwrap();
    assert!(two.all_meet().await);
    let before = fs::read(first.join("authority.key")).unwrap();
    let old_client = || Connector::of_authority(&two.folder.path().join("client.pem")).unwrap();
    fs::copy(
        first.join("authority.pem"),
        two.folder.path().join("client.pem"),
    )
    .unwrap();

    // Each believes both.
    assert!(matches!(
        switch(&first),
        Err(CredentialsError::NotNow { .. })
    ));
    let next = prepare(&first, now).unwrap();
    assert_eq!(
        prepare(&first, now).unwrap(),
        next,
        "a step may be repeated"
    );
    assert_eq!(stage(&first).unwrap(), Stage::Both);
    assert!(matches!(two.look(1), (Change::Taken(_, both), Renewal::NotDue) if both.len() == 2));
    assert!(two.all_meet().await);
    let probe = Probe::of_next(&first, &subject(1), now).unwrap();
    assert_eq!(two.find(&probe, 2).await, Found::Refuses);
    copy(&first, &second, &[NEXT_FILE, NEXT_KEY_FILE]);
    assert_eq!(prepare(&second, now).unwrap(), next);
    assert_eq!(
        two.find(&probe, 2).await,
        Found::Refuses,
        "it has not looked yet"
    );
    two.look(2);
    assert_eq!(two.find(&probe, 2).await, Found::Believes);
    assert!(two.all_meet().await);

    // One after the other shows what the next one signs.
    for (node, directory) in [(1, &first), (2, &second)] {
        switch(directory).unwrap();
        assert!(switch(directory).is_err(), "it was done");
        assert_eq!(stage(directory).unwrap(), Stage::Switched);
        if node == 1 {
            let early = finish(directory).unwrap_err();
            assert!(early.to_string().contains("half a minute"), "{early}");
        }
        let (change, renewal) = two.look(node);
        assert!(matches!(change, Change::Taken(..)));
        assert!(matches!(renewal, Renewal::Renewed(_)), "{renewal:?}");
        assert_eq!(two.look(node), (Change::None, Renewal::NotDue));
        assert!(two.all_meet().await, "after {node}");
        let probe = Probe::of_present(&first).unwrap();
        let found = if node == 1 {
            Found::Believes
        } else {
            Found::Shows
        };
        assert_eq!(two.find(&probe, 2).await, found);
    }
    assert!(
        meet_nobody(&two, &old_client()).await.is_none(),
        "clients need the new one"
    );

    // One after the other forgets the one before.
    for (node, directory) in [(1, &first), (2, &second)] {
        finish(directory).unwrap();
        finish(directory).unwrap();
        assert_eq!(stage(directory).unwrap(), Stage::One);
        two.look(node);
        assert!(two.all_meet().await, "after {node}");
    }
    // Whoever has the key of before is nobody.
    let thief = two.folder.path().join("thief");
    fs::create_dir(&thief).unwrap();
    fs::copy(
        two.folder.path().join("client.pem"),
        thief.join("authority.pem"),
    )
    .unwrap();
    holdfast_tls::write_key(
        &thief.join("authority.key"),
        &String::from_utf8(before).unwrap(),
    )
    .unwrap();
    let (own, _) = Credentials::of_node(&thief, CLUSTER, &subject(2), now).unwrap();
    assert_eq!(
        meet(&two.machines[0].0, &Connector::of_machine(&own)).await,
        None
    );
    assert!(!first.join("authority.former.key").exists());
    let kept = fs::read_to_string(first.join("secrets.key")).unwrap();
    assert_eq!(kept, "a key for secrets");
}

/// What somebody hears who only trusts.
async fn meet_nobody(two: &Two, client: &Connector) -> Option<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let acceptor = two.machines[0].0.clone();
    tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        // Whether it comes about is for the one who asks to say.
        let _ = acceptor.accept(stream).await;
    });
    let stream = TcpStream::connect(address).await.unwrap();
    client.connect("127.0.0.1", stream).await.ok().map(drop)
}

/// A machine that is set up while others are between two steps is as far as they are, and takes the same steps.
#[tokio::test]
async fn a_machine_that_comes_in_between_is_as_far_as_the_others() {
    let two = Two::new();
    let (first, now) = (two.path(1), SystemTime::now());
    prepare(&first, now).unwrap();
    let third = two.folder.path().join("3");
    let issue = || {
        let authority = Authority::open(&first).unwrap();
        authority.issue(&subject(3), &third, now).unwrap();
    };
    issue();
    assert_eq!(stage(&third).unwrap(), Stage::Both);
    assert!(finish(&third).is_err(), "it would drop the next one");
    Probe::of_next(&third, &subject(3), now).unwrap();
    switch(&third).unwrap();
    assert_eq!(stage(&third).unwrap(), Stage::Switched);
    // Without the key it could not be as far as that.
    fs::remove_dir_all(&third).unwrap();
    fs::rename(first.join(NEXT_KEY_FILE), first.join("elsewhere")).unwrap();
    let authority = Authority::open(&first).unwrap();
    let error = authority.issue(&subject(3), &third, now).unwrap_err();
    assert!(matches!(&error, CredentialsError::Missing(path) if path.ends_with(NEXT_KEY_FILE)));
    assert!(!third.exists(), "nothing of it is made");
    fs::rename(first.join("elsewhere"), first.join(NEXT_KEY_FILE)).unwrap();
    switch(&first).unwrap();
    issue();
    assert_eq!(stage(&third).unwrap(), Stage::Switched);
    finish(&third).unwrap();
}

/// An authority that a clock founded which was far ahead is replaced like any other.
#[test]
fn the_next_authority_is_the_younger_one_whatever_the_clock_said() {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("1");
    let now = SystemTime::now();
    Authority::found(&directory, CLUSTER, now + 400 * DAY).unwrap();
    Credentials::of_node(&directory, CLUSTER, &subject(1), now).unwrap();
    let younger = prepare(&directory, now).unwrap();
    assert!(younger.not_before > now + 399 * DAY, "{younger:?}");
    switch(&directory).unwrap();
    let own = Credentials::read(&directory).unwrap();
    let renewed = own.renew(&subject(1), now).unwrap();
    assert!(matches!(renewed, Renewal::Renewed(_)));
    finish(&directory).unwrap();
}

/// Who has put the authorities in the wrong order does not drop the one that is to stay.
#[test]
fn the_older_of_two_authorities_is_not_the_one_that_is_left() {
    let two = Two::new();
    let (first, now) = (two.path(1), SystemTime::now());
    prepare(&first, now + Duration::from_secs(60)).unwrap();
    for name in [NEXT_FILE, NEXT_KEY_FILE] {
        fs::remove_file(first.join(name)).unwrap();
    }
    let before = fs::read(first.join("authority.pem")).unwrap();
    let error = finish(&first).unwrap_err();
    assert!(error.to_string().contains("older"), "{error}");
    assert_eq!(fs::read(first.join("authority.pem")).unwrap(), before);
}

/// What was begun and cut short is taken up, whatever file it was cut behind.
#[test]
fn credentials_that_were_begun_are_ended() {
    let folder = tempfile::tempdir().unwrap();
    let (ca, out) = (folder.path().join("ca"), folder.path().join("out"));
    let now = SystemTime::now();
    Authority::found(&ca, CLUSTER, now).unwrap();
    let key = fs::read(ca.join("authority.key")).unwrap();
    fs::remove_file(ca.join("authority.pem")).unwrap();
    let authority = Authority::found(&ca, CLUSTER, now).unwrap();
    assert_eq!(fs::read(ca.join("authority.key")).unwrap(), key);
    let issue = || authority.issue(&subject(2), &out, now);
    issue().unwrap();
    Credentials::read(&out).unwrap();
    assert!(matches!(issue(), Err(CredentialsError::Exists(_))));
    for names in [
        &["authority.pem"][..],
        &["authority.pem", "node.pem"],
        &["authority.pem", "node.pem", "node.key"],
    ] {
        for name in names {
            fs::remove_file(out.join(name)).unwrap();
        }
        issue().unwrap();
        Credentials::read(&out).unwrap();
    }
    // Another authority's key is nobody's to be written over.
    fs::remove_file(out.join("authority.pem")).unwrap();
    fs::remove_file(out.join("authority.key")).unwrap();
    fs::copy(out.join("node.key"), out.join("authority.key")).unwrap();
    let before = fs::read(out.join("authority.key")).unwrap();
    assert!(matches!(issue(), Err(CredentialsError::Exists(_))));
    assert_eq!(fs::read(out.join("authority.key")).unwrap(), before);
}

/// A crash between any two files leaves what the same step goes on from.
#[test]
fn a_switch_that_was_cut_short_goes_on() {
    for (done, again) in [(0, false), (1, false), (2, false), (2, true)] {
        let folder = tempfile::tempdir().unwrap();
        let directory = folder.path().join("1");
        let now = SystemTime::now();
        Authority::found(&directory, CLUSTER, now).unwrap();
        Credentials::of_node(&directory, CLUSTER, &subject(1), now).unwrap();
        prepare(&directory, now).unwrap();
        let path = |name: &str| directory.join(name);
        let present = fs::read(path("authority.key")).unwrap();
        fs::copy(path(NEXT_KEY_FILE), folder.path().join(NEXT_KEY_FILE)).unwrap();
        if done > 0 {
            fs::rename(path("authority.key"), path("authority.former.key")).unwrap();
        }
        if done > 1 {
            fs::rename(path(NEXT_KEY_FILE), path("authority.key")).unwrap();
        }
        // What is shown is good all the while, and others can be asked.
        Credentials::read(&directory).unwrap();
        Probe::of_next(&directory, &subject(1), now).unwrap();
        if again {
            fs::copy(folder.path().join(NEXT_KEY_FILE), path(NEXT_KEY_FILE)).unwrap();
        }
        switch(&directory).unwrap();
        assert!(!path(NEXT_KEY_FILE).exists());
        let former = fs::read(path("authority.former.key")).unwrap();
        assert_eq!(former, present, "the key of the one before is kept");
        assert_eq!(stage(&directory).unwrap(), Stage::Switched);
        let own = Credentials::read(&directory).unwrap();
        assert!(matches!(
            own.renew(&subject(1), now).unwrap(),
            Renewal::Renewed(_)
        ));
        finish(&directory).unwrap();
    }
}

/// What was prepared on another machine meanwhile is not believed as a third one: nodes would not start with it.
#[test]
fn a_third_authority_is_not_believed() {
    let two = Two::new();
    let (first, second, now) = (two.path(1), two.path(2), SystemTime::now());
    prepare(&first, now).unwrap();
    prepare(&second, now).unwrap();
    let before = fs::read(second.join("authority.pem")).unwrap();
    copy(&first, &second, &[NEXT_FILE, NEXT_KEY_FILE]);
    let error = prepare(&second, now).unwrap_err();
    assert!(matches!(&error, CredentialsError::NotNow { .. }));
    for part in ["authority.pem", "replace status", "take it back"] {
        assert!(error.to_string().contains(part), "{part} in {error}");
    }
    assert_eq!(fs::read(second.join("authority.pem")).unwrap(), before);
    // As that says, it is taken back, and this one prepared.
    let only = fs::read_to_string(second.join("authority.pem")).unwrap();
    let end = "-----END CERTIFICATE-----\n";
    let only = only.split_inclusive(end).next().unwrap();
    fs::write(second.join("authority.pem"), only).unwrap();
    prepare(&second, now).unwrap();
    two.look(2);

    // The same where the one before is believed still.
    switch(&second).unwrap();
    two.look(2);
    assert!(prepare(&second, now).is_err(), "one is under way");
    let other = two.folder.path().join("other");
    Authority::found(&other, CLUSTER, now).unwrap();
    for (from, to) in [
        ("authority.pem", NEXT_FILE),
        ("authority.key", NEXT_KEY_FILE),
    ] {
        fs::copy(other.join(from), second.join(to)).unwrap();
    }
    assert!(prepare(&second, now).is_err(), "one is under way");
    Credentials::of_node(&second, CLUSTER, &subject(2), now).unwrap();

    // What somebody else has put there is told of: the file, and what to do.
    let mut three = fs::read_to_string(second.join("authority.pem")).unwrap();
    three += &fs::read_to_string(other.join("authority.pem")).unwrap();
    fs::write(second.join("authority.pem"), three).unwrap();
    let started = Credentials::of_node(&second, CLUSTER, &subject(2), now);
    let error = started.map(drop).unwrap_err();
    assert!(matches!(error, CredentialsError::TooMany { count: 3, .. }));
    for part in ["2/authority.pem", "hint: leave the first"] {
        assert!(error.to_string().contains(part), "{part} in {error}");
    }
    let (_, _, runs) = &two.machines[1];
    let shown = runs.issued();
    assert!(runs.refresh(now).is_err());
    assert_eq!(runs.issued(), shown, "what runs goes on as it was");
}

/// A certificate that an administrator puts there is taken, with its key, if it is the node's and good.
#[test]
fn what_is_put_in_the_place_of_credentials_is_taken_or_told() {
    let two = Two::new();
    let (first, now) = (two.path(1), SystemTime::now());
    let own = two.machines[0].2.clone();
    let authority = Authority::open(&first).unwrap();
    let issue = |name: &str, subject: &Subject, at: SystemTime| {
        let out = two.folder.path().join(name);
        authority.issue(subject, &out, at).unwrap();
        out
    };
    let shown = own.issued().fingerprint;
    assert_eq!(own.refresh(now).unwrap(), Change::None);
    let kept = two.folder.path().join("kept");
    fs::create_dir(&kept).unwrap();
    copy(&first, &kept, &["node.pem", "node.key", "authority.pem"]);

    let other = issue("other", &subject(1), now);
    copy(&other, &first, &["node.pem"]);
    assert!(matches!(
        own.refresh(now),
        Err(CredentialsError::OtherKey(_))
    ));
    assert_eq!(
        own.issued().fingerprint,
        shown,
        "the one before is shown on"
    );
    copy(&other, &first, &["node.key"]);
    let Change::Taken(taken, _) = own.refresh(now).unwrap() else {
        panic!("it goes together now");
    };
    assert_ne!(taken.fingerprint, shown);
    assert_eq!(own.issued(), taken);

    let strange = issue("strange", &subject(3), now);
    copy(&strange, &first, &["node.pem", "node.key"]);
    assert!(matches!(
        own.refresh(now),
        Err(CredentialsError::OtherNode { .. })
    ));
    let expired = issue("expired", &subject(1), now - 400 * DAY);
    copy(&expired, &first, &["node.pem", "node.key"]);
    assert!(matches!(
        own.refresh(now),
        Err(CredentialsError::NotValid(_))
    ));
    fs::write(first.join("node.pem"), "nothing").unwrap();
    assert!(own.refresh(now).is_err());
    assert_eq!(own.issued(), taken, "none of these is shown");

    copy(&kept, &first, &["node.pem", "node.key"]);
    assert!(matches!(own.refresh(now).unwrap(), Change::Taken(..)));
    assert_eq!(own.issued().fingerprint, shown);
    // An authority of another cluster is none of ours.
    let foreign = two.folder.path().join("foreign");
    Authority::found(&foreign, ClusterId(7), now).unwrap();
    copy(&foreign, &first, &["authority.pem"]);
    assert!(matches!(
        own.refresh(now),
        Err(CredentialsError::OtherCluster { .. })
    ));
    let both = [kept.join("authority.pem"), foreign.join("authority.pem")];
    let both = both.map(|it| fs::read_to_string(it).unwrap()).concat();
    fs::write(first.join("authority.pem"), both).unwrap();
    assert!(matches!(
        own.refresh(now),
        Err(CredentialsError::OtherCluster { .. })
    ));
}
