//! Three members of etcd under their supervisors: how they begin, how a lost one is replaced, and whom they let in. Over
//! Debian's etcd and the present one, with TLS as machines have it.

use std::fs;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant, SystemTime};

use holdfast_metadata::etcd::{EtcdMember, EtcdTls, members};
use holdfast_model::{ClusterId, NodeId};
use holdfast_node::config::etcd::EtcdSection;
use holdfast_node::etcd::{MemberTls, Plan, Supervisor, is_running};
use holdfast_tls::{Authority, Connector, Credentials, Renewal, Subject, replacing};
use tempfile::TempDir;

const CLUSTER: ClusterId = ClusterId(7);
/// The etcd that `cargo xtask etcd` builds: `crates/xtask/etcd/go.mod`.
const BUILT_VERSION: &str = "3.7.3";
/// Longer than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(90);
/// As long as members look twice whether they are to be started again.
const LOOKS: Duration = Duration::from_secs(25);
/// Between two that are started again, as long as ending one takes no longer than that.
const TURN_MIN: Duration = Duration::from_secs(10);
/// For so long nothing happens that must not.
const QUIET: Duration = Duration::from_secs(4);

/// A program that is built, in the build directory that this test runs from.
fn built(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    // target/debug/deps/test
    let target = test.ancestors().nth(3).unwrap();
    let program = target.join("etcd").join(BUILT_VERSION).join(name);
    let path = program.display();
    assert!(program.is_file(), "{path} is missing: `cargo xtask etcd`");
    program
}

/// Three machines: addresses of this one.
struct Three {
    folder: TempDir,
    section: EtcdSection,
    /// How each of them speaks.
    tls: [MemberTls; 3],
    supervisors: [Option<Supervisor>; 3],
}

impl Three {
    /// `program` is none for the one in PATH.
    fn plain(program: Option<PathBuf>) -> Self {
        let address = |place: u8| IpAddr::from(Ipv4Addr::new(127, 0, 0, place));
        let members = (1..=3).map(|place| (format!("n{place}"), address(place)));
        let members = members.collect();
        let [client_port, peer_port] = free_ports();
        Self {
            folder: tempfile::tempdir().unwrap(),
            section: EtcdSection {
                member: None,
                program,
                client_port,
                peer_port,
                plain: false,
                members,
            },
            tls: [MemberTls::Off, MemberTls::Off, MemberTls::Off],
            supervisors: [None, None, None],
        }
    }

    /// With TLS, as machines have it.
    fn new(program: Option<PathBuf>) -> Self {
        let mut three = Self::plain(program);
        let authority = three.folder.path().join("authority");
        Authority::found(&authority, CLUSTER, SystemTime::now()).unwrap();
        for place in 1..=3 {
            three.issue(place);
        }
        three
    }

    /// Gives a machine credentials for the address that it has.
    fn issue(&mut self, place: usize) {
        let authority = Authority::open(&self.folder.path().join("authority")).unwrap();
        let address = self.client(place).ip();
        let out = self.folder.path().join(format!("tls-{place}-{address}"));
        let subject = subject(place, &address.to_string());
        let issued = authority.issue(&subject, &out, SystemTime::now());
        issued.unwrap();
        self.tls[place - 1] = MemberTls::On(out);
    }

    fn directory(&self, place: usize) -> PathBuf {
        self.folder.path().join(format!("n{place}"))
    }

    fn start(&mut self, place: usize) {
        let name = format!("n{place}");
        let (home, tls) = (self.directory(place), &self.tls[place - 1]);
        let plan = Plan::of_machine(&self.section, CLUSTER, &name, &home, tls);
        let supervisor = Supervisor::start(plan.expect("etcd is installed")).unwrap();
        self.supervisors[place - 1] = Some(supervisor);
    }

    /// All of them, from before there was TLS.
    fn start_without_tls(&mut self) {
        self.tls = [MemberTls::Off, MemberTls::Off, MemberTls::Off];
        for place in 1..=3 {
            self.start(place);
        }
        self.wait_until_whole();
    }

    fn stop(&mut self, place: usize) {
        self.supervisors[place - 1] = None;
    }

    /// The machine's disk is lost.
    fn lose(&mut self, place: usize) {
        self.stop(place);
        fs::remove_dir_all(self.directory(place)).unwrap();
    }

    fn supervisor(&self, place: usize) -> &Supervisor {
        self.supervisors[place - 1].as_ref().unwrap()
    }

    fn client(&self, place: usize) -> SocketAddr {
        SocketAddr::new(
            self.section.members[&format!("n{place}")],
            self.section.client_port,
        )
    }

    /// Whom all have agreed upon, as this one says, if it answers.
    fn agreed(&self, place: usize) -> Option<Vec<EtcdMember>> {
        self.asked(place, self.tls[place - 1].client().unwrap().as_ref())
    }

    /// The same, asked so.
    fn asked(&self, place: usize, tls: Option<&EtcdTls>) -> Option<Vec<EtcdMember>> {
        let endpoint = self.client(place).to_string().parse().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(members(&endpoint, CLUSTER, tls)).ok()
    }

    /// Why one does not answer who is asked so.
    fn refused(&self, place: usize, tls: Option<&EtcdTls>) -> String {
        let endpoint = self.client(place).to_string().parse().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let answer = runtime.block_on(members(&endpoint, CLUSTER, tls));
        answer.unwrap_err().to_string()
    }

    /// Waits until all members are well, which each of them says.
    fn wait_until_whole(&self) {
        for place in 1..=3 {
            wait(&format!("n{place} sees three that run"), || {
                self.agreed(place).is_some_and(|members| {
                    members.len() == 3 && members.iter().all(EtcdMember::has_run)
                })
            });
        }
    }

    /// Waits until a supervisor waits for this; tells its words.
    fn waits_for(&self, place: usize, word: &str) -> String {
        wait(&format!("n{place} waits for: {word}"), || {
            let waits = self.supervisor(place).waits();
            waits.is_some_and(|text| text.contains(word))
        });
        self.supervisor(place).waits().unwrap()
    }

    fn pids(&self) -> [Option<u32>; 3] {
        let running = |it: &Option<Supervisor>| it.as_ref().and_then(Supervisor::pid);
        [0, 1, 2].map(|place| running(&self.supervisors[place]))
    }

    /// The first members become others, and no two of them at the same time.
    fn are_started_again_in_turn(&self, before: &[Option<u32>]) {
        let begun = Instant::now();
        let mut turns = vec![None; before.len()];
        while turns.contains(&None) {
            assert!(begun.elapsed() < PATIENCE, "waited in vain: {turns:?}");
            for ((turn, now), before) in turns.iter_mut().zip(self.pids()).zip(before) {
                if now.is_some() && now != *before {
                    turn.get_or_insert(begun.elapsed());
                }
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        turns.sort_unstable();
        let gaps = turns
            .windows(2)
            .map(|two| two[1].unwrap() - two[0].unwrap());
        assert!(gaps.min().unwrap() >= TURN_MIN, "{turns:?}");
        self.wait_until_whole();
    }

    fn assert_stays_out(&self, place: usize) {
        let begun = Instant::now();
        while begun.elapsed() < QUIET {
            assert_eq!(self.supervisor(place).pid(), None);
            assert!(!is_running(&self.directory(place)));
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

fn subject(place: usize, address: &str) -> Subject {
    Subject {
        node: NodeId(u16::try_from(place).unwrap()),
        name: format!("n{place}"),
        hosts: vec![address.to_owned()],
    }
}

/// What a peers' port answers to whoever asks in the clear, as etcd's own members did without TLS.
fn asked_in_the_clear(address: SocketAddr) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(QUIET)).unwrap();
    stream.write_all(b"GET /members HTTP/1.0\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    // What ends it is of no matter.
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

/// Ports that are free now at all addresses that are used, below those that connections are given.
fn free_ports() -> [u16; 2] {
    use std::sync::atomic::{AtomicU16, Ordering};
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let start = (std::process::id() as u16).wrapping_mul(31);
    let next = || loop {
        let turn = start.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed));
        let port = 21_000 + turn % 4_000;
        let is_free = |place| TcpListener::bind((Ipv4Addr::new(127, 0, 0, place), port)).is_ok();
        if (1..=4).all(is_free) {
            return port;
        }
    };
    [next(), next()]
}

fn wait(what: &str, mut condition: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !condition() {
        assert!(begun.elapsed() < PATIENCE, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Does what an operator is told to, word by word.
fn obey(text: &str) {
    let lines = text.lines();
    let commands: Vec<_> = lines
        .filter_map(|line| line.strip_prefix("etcdctl "))
        .collect();
    assert!(!commands.is_empty(), "nothing is to be done: {text}");
    for command in commands {
        // Members that have just found each other are no whole cluster yet, to etcd.
        wait(command, || {
            let done = Command::new(built("etcdctl"))
                .args(command.split(' '))
                .output()
                .unwrap();
            done.status.success()
        });
    }
}

fn each_release(test: impl Fn(Three)) {
    for program in [None, Some(built("etcd"))] {
        test(Three::new(program));
    }
}

#[test]
fn a_lost_member_is_replaced_by_two_commands() {
    each_release(|mut three| {
        // None begins before all are there, whatever the order.
        three.start(3);
        three.waits_for(3, "n1 and n2");
        three.start(1);
        three.waits_for(1, "waits for n2:");
        three.waits_for(3, "waits for n2:");
        three.assert_stays_out(3);
        three.start(2);
        three.wait_until_whole();
        let first = three.agreed(1).unwrap();

        three.lose(3);
        three.start(3);
        let text = three.waits_for(3, "member remove");
        // There is an etcd: nobody has to be told that there is nothing here, and something else may want the port.
        drop(TcpListener::bind(three.client(3)).unwrap());
        three.assert_stays_out(3);
        obey(&text);
        three.wait_until_whole();
        assert_eq!(three.supervisor(3).waits(), None);
        let number = |members: &[EtcdMember]| {
            let found = members.iter().find(|member| member.name == "n3");
            found.unwrap().id
        };
        let now = three.agreed(1).unwrap();
        assert_ne!(number(&now), number(&first), "it is another member");

        // How it began is no part of what it is: the one that is left is adopted.
        let pid = three.supervisor(3).pid();
        three.supervisors[2].take().unwrap().leave();
        three.start(3);
        assert_eq!(three.supervisor(3).pid(), pid);
        // And it goes on with what it has, like any other.
        for place in 1..=3 {
            three.stop(place);
        }
        for place in [3, 2, 1] {
            three.start(place);
        }
        three.wait_until_whole();
    });
}

/// etcd refuses a new member for as long as the dead one is on its list: what the operator is told has to be enough.
#[test]
fn a_member_at_another_address_takes_the_place_of_a_dead_one() {
    each_release(|mut three| {
        for place in 1..=3 {
            three.start(place);
        }
        three.wait_until_whole();
        three.lose(3);
        // The others, which run, are not told.
        let elsewhere = Ipv4Addr::new(127, 0, 0, 4).into();
        three.section.members.insert("n3".to_owned(), elsewhere);
        three.issue(3);
        three.start(3);
        let text = three.waits_for(3, "member remove");
        three.assert_stays_out(3);
        obey(&text);
        three.wait_until_whole();
        let members = three.agreed(1).unwrap();
        let member = members.iter().find(|member| member.name == "n3").unwrap();
        let url = format!("https://{}", three.client(3));
        assert_eq!(member.client_urls, [url]);
        // One that is started again with the list of before goes on all the same.
        three.stop(1);
        three
            .section
            .members
            .insert("n3".to_owned(), Ipv4Addr::new(127, 0, 0, 3).into());
        three.start(1);
        three.section.members.insert("n3".to_owned(), elsewhere);
        three.wait_until_whole();
    });
}

#[test]
fn a_lost_member_does_not_begin_beside_those_that_are_away() {
    each_release(|mut three| {
        for place in 1..=3 {
            three.start(place);
        }
        three.wait_until_whole();
        for place in 1..=2 {
            three.stop(place);
        }
        three.lose(3);
        three.start(3);
        three.waits_for(3, "n1 and n2");
        three.assert_stays_out(3);
        // One that has data and no leader does not let it in either, whatever an operator says.
        three.start(1);
        three.waits_for(3, "n1 has, and no leader");
        fs::write(three.directory(3).join("new"), "").unwrap();
        three.assert_stays_out(3);
        three.start(2);
        obey(&three.waits_for(3, "member remove"));
        three.wait_until_whole();
    });
}

/// One of three will not come: an operator says that there is nothing to wait for.
#[test]
fn two_begin_when_an_operator_says_so_and_the_third_joins_later() {
    each_release(|mut three| {
        for place in 1..=2 {
            three.start(place);
            three.waits_for(place, "waits for");
        }
        three.assert_stays_out(1);
        let consents = [1, 2].map(|place| three.directory(place).join("new"));
        for consent in &consents {
            fs::write(consent, "").unwrap();
        }
        wait("two are an etcd", || three.agreed(1).is_some());
        wait("what was said is forgotten", || {
            !consents.iter().any(|consent| consent.exists())
        });
        three.start(3);
        three.wait_until_whole();
    });
}

/// One began before the others did: because it saw first that nobody has anything, or was told so.
#[test]
fn one_that_has_begun_alone_takes_the_others_along() {
    each_release(|mut three| {
        three.start(1);
        three.waits_for(1, "n2 and n3");
        fs::write(three.directory(1).join("new"), "").unwrap();
        wait("one begins", || three.supervisor(1).pid().is_some());
        three.start(2);
        three.waits_for(2, "waits for n3:");
        three.start(3);
        three.wait_until_whole();
    });
}

#[test]
fn a_waiting_member_says_so_at_its_port() {
    for has_tls in [false, true] {
        let mut three = if has_tls {
            Three::new(None)
        } else {
            Three::plain(None)
        };
        says_that_it_waits(&mut three, has_tls);
    }
}

fn says_that_it_waits(three: &mut Three, has_tls: bool) {
    three.start(1);
    three.waits_for(1, "n2 and n3");
    let said = asked_in_the_clear(three.client(1));
    let says = said.starts_with("holdfast: etcd waits, without data");
    assert_eq!(says, !has_tls, "{said}");
    // Whoever was told another list waits as well.
    three.section.members.remove("n3");
    three.start(2);
    three.waits_for(2, "n1 has another list of members");
    let begun = Instant::now();
    three.stop(1);
    assert!(
        begun.elapsed() < Duration::from_secs(10),
        "it stops at once"
    );
}

#[test]
fn nobody_is_let_in_without_a_certificate_of_the_cluster() {
    each_release(|mut three| {
        for place in 1..=3 {
            three.start(place);
        }
        three.wait_until_whole();
        let strange = three.folder.path().join("strange");
        let authority = Authority::found(&strange, CLUSTER, SystemTime::now()).unwrap();
        let out = three.folder.path().join("strange-1");
        let issued = authority.issue(&subject(1, "127.0.0.1"), &out, SystemTime::now());
        issued.unwrap();
        let read = |path: &PathBuf, name: &str| fs::read(path.join(name)).unwrap();
        let MemberTls::On(own) = three.tls[0].clone() else {
            unreachable!("it has TLS");
        };
        let ca = read(&own, "authority.pem");
        let (certificate, key) = (read(&out, "node.pem"), read(&out, "node.key"));
        let shows_another = EtcdTls::new(&ca, Some((&certificate, &key))).unwrap();
        let shows_nothing = EtcdTls::new(&ca, None).unwrap();
        for place in 1..=3 {
            assert_eq!(three.asked(place, None), None, "in the clear");
            assert_eq!(three.asked(place, Some(&shows_nothing)), None);
            assert_eq!(three.asked(place, Some(&shows_another)), None);
            let peers = SocketAddr::new(three.client(place).ip(), three.section.peer_port);
            let said = asked_in_the_clear(peers);
            assert!(!said.contains("peerURLs"), "{said}");
            assert!(three.agreed(place).is_some(), "its own are let in");
        }
        // What a renewed certificate is: other files, of which nobody is told.
        let before = three.supervisor(2).pid();
        let MemberTls::On(second) = three.tls[1].clone() else {
            unreachable!("it has TLS");
        };
        let authority = Authority::open(&own).unwrap();
        let new = three.folder.path().join("renewed");
        let issued = authority.issue(&subject(2, "127.0.0.2"), &new, SystemTime::now());
        issued.unwrap();
        let shown = || shown_by(three.client(2), &own);
        let fingerprint = shown();
        for name in ["node.key", "node.pem"] {
            fs::rename(new.join(name), second.join(name)).unwrap();
        }
        wait("the new one is shown", || shown() != fingerprint);
        assert_eq!(
            three.supervisor(2).pid(),
            before,
            "it was not started again"
        );
        three.wait_until_whole();
    });
}

/// The fingerprint of what a member shows, with these credentials.
fn shown_by(address: SocketAddr, own: &Path) -> Option<String> {
    let connector = Connector::of_machine(&Credentials::read(own).unwrap());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let stream = tokio::net::TcpStream::connect(address).await.ok()?;
        let host = address.ip().to_string();
        let stream = connector.connect(&host, stream).await.ok()?;
        let shown = stream.get_ref().1.peer_certificates()?.first()?.clone();
        Some(holdfast_tls::fingerprint(&shown))
    })
}

/// A client that asks all members in turn while they get TLS, and permits those that have none.
struct Onlooker {
    stop: std::sync::mpsc::Sender<()>,
    thread: std::thread::JoinHandle<(u32, Duration)>,
}

impl Onlooker {
    fn start(three: &Three, tls: MemberTls) -> Self {
        let endpoints = [1, 2, 3].map(|place| three.client(place).to_string().parse().unwrap());
        let (stop, stopped) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            let tls = tls.client().unwrap();
            let (mut answers, mut last, mut longest) = (0, Instant::now(), Duration::ZERO);
            for turn in 0.. {
                if stopped.try_recv() != Err(std::sync::mpsc::TryRecvError::Empty) {
                    break;
                }
                // Each answer is one that a majority stands behind.
                let asked = members(&endpoints[turn % 3], CLUSTER, tls.as_ref());
                if runtime.block_on(asked).is_ok() {
                    longest = longest.max(last.elapsed());
                    (answers, last) = (answers + 1, Instant::now());
                }
                std::thread::sleep(Duration::from_millis(20));
            }
            (answers, longest)
        });
        Self { stop, thread }
    }

    /// The longest time without an answer.
    fn end(self) -> Duration {
        drop(self.stop);
        let (answers, longest) = self.thread.join().unwrap();
        assert!(answers > 100, "{answers} answers");
        longest
    }
}

impl Three {
    fn credentials(&self, place: usize) -> PathBuf {
        match &self.tls[place - 1] {
            MemberTls::On(directory) | MemberTls::Coming(directory) => directory.clone(),
            MemberTls::Off => unreachable!("it has TLS"),
        }
    }

    /// Waits until all are well, as each says over TLS, or in the clear.
    fn wait_until_whole_over(&self, has_tls: [bool; 3]) {
        for (place, has_tls) in (1..=3).zip(has_tls) {
            let strict = MemberTls::On(self.credentials(place)).client().unwrap();
            let tls = strict.as_ref().filter(|_| has_tls);
            wait(&format!("n{place} is well, with TLS: {has_tls}"), || {
                self.asked(place, tls).is_some_and(|members| {
                    members.len() == 3 && members.iter().all(EtcdMember::has_run)
                })
            });
        }
    }

    /// Tells another member that one is reached over TLS: all that an operator does.
    fn move_to_tls(&self, place: usize, at: usize, at_has_tls: bool) {
        let own = self.credentials(at);
        let strict = MemberTls::On(own.clone()).client().unwrap();
        let listed = self.asked(at, strict.as_ref().filter(|_| at_has_tls));
        let listed = listed.unwrap();
        let name = format!("n{place}");
        let id = listed.iter().find(|it| it.name == name).unwrap().id;
        let peers = SocketAddr::new(self.client(place).ip(), self.section.peer_port);
        let (at, own) = (self.client(at), own.display());
        let endpoint = if at_has_tls {
            format!(
                "https://{at} --cacert {own}/authority.pem --cert {own}/node.pem --key {own}/node.key"
            )
        } else {
            format!("http://{at}")
        };
        obey(&format!(
            "etcdctl --endpoints {endpoint} member update {id:x} --peer-urls=https://{peers}"
        ));
    }
}

/// What docs/upgrade.md says, step by step; and what somebody does who has not read it.
#[test]
fn members_get_tls_one_after_the_other() {
    each_release(|mut three| {
        let on = three.tls.clone();
        let coming = [1, 2, 3].map(|place| MemberTls::Coming(three.credentials(place)));
        three.start_without_tls();
        let onlooker = Onlooker::start(&three, coming[0].clone());
        // The new version, two of them without a word of it in their files, and somebody who makes files by hand: each goes on as the
        // others reach it.
        for place in 1..=3 {
            three.stop(place);
            three.tls[place - 1] = if place < 3 { &on } else { &coming }[place - 1].clone();
            for name in ["tls", "new"].iter().take(place) {
                fs::write(three.directory(place).join(name), "").unwrap();
            }
            three.start(place);
            wait(&format!("n{place} goes on"), || {
                three.asked(place, None).is_some()
            });
        }
        three.wait_until_whole_over([false; 3]);
        // Whose file does not permit it speaks to nobody in the clear, and is told what would.
        let refused = three.refused(1, on[0].client().unwrap().as_ref());
        assert!(refused.contains("`plain = true`"), "{refused}");
        // One at a time, by one command each: nothing is stopped, and no file is touched.
        let mut has_tls = [false; 3];
        for place in [2, 1, 3] {
            let before = [1, 2, 3].map(|place| three.supervisor(place).pid());
            let at = place % 3 + 1;
            three.move_to_tls(place, at, has_tls[at - 1]);
            has_tls[place - 1] = true;
            three.wait_until_whole_over(has_tls);
            let after = [1, 2, 3].map(|place| three.supervisor(place).pid());
            for other in 1..=3 {
                let is_same = before[other - 1] == after[other - 1];
                assert_eq!(is_same, other != place, "n{other}: {before:?} {after:?}");
            }
        }
        let longest = onlooker.end();
        assert!(
            longest < Duration::from_secs(10),
            "{longest:?} without a majority"
        );
        three.tls = on;
        let listed = three.agreed(1).unwrap();
        let urls = listed
            .iter()
            .flat_map(|it| it.peer_urls.iter().chain(&it.client_urls));
        assert!(
            urls.clone().all(|url| url.starts_with("https://")),
            "{listed:?}"
        );
        // It is noted, so that they are started so from now on.
        for place in 1..=3 {
            three.stop(place);
            three.start(place);
            three.wait_until_whole();
        }
        // Without its note one has no TLS until its etcd has said that it is to.
        three.stop(1);
        fs::remove_file(three.directory(1).join("tls")).unwrap();
        three.start(1);
        three.wait_until_whole();
        // Nobody goes back by a file.
        three.stop(3);
        let off = MemberTls::Off;
        let plan = Plan::of_machine(&three.section, CLUSTER, "n3", &three.directory(3), &off);
        let error = Supervisor::start(plan.unwrap()).unwrap_err().to_string();
        assert!(error.contains("has TLS"), "{error}");
        three.start(3);
        three.wait_until_whole();
    });
}

/// In the middle of that a disk is lost: nobody who lives is to be removed, and the new member begins with TLS.
#[test]
fn a_member_is_replaced_while_others_have_no_tls() {
    each_release(|mut three| {
        let on = three.tls.clone();
        let coming = [1, 2, 3].map(|place| MemberTls::Coming(three.credentials(place)));
        three.start_without_tls();
        for place in 1..=3 {
            three.stop(place);
            three.tls[place - 1] = coming[place - 1].clone();
            three.start(place);
            three.wait_until_whole();
        }
        // It is told that they are there, not that they are silent.
        three.lose(3);
        three.tls[2] = on[2].clone();
        three.start(3);
        let text = three.waits_for(3, "what answers at n1 and n2 has no TLS");
        assert!(
            text.contains("plain = true") && !text.contains("touch"),
            "{text}"
        );
        fs::write(three.directory(3).join("new"), "").unwrap();
        three.assert_stays_out(3);
        three.stop(3);
        three.tls[2] = coming[2].clone();
        let replaced = |three: &mut Three, place: usize, endpoints: &str| {
            three.start(place);
            let text = three.waits_for(place, "member remove");
            assert_eq!(text.matches("member remove").count(), 1, "{text}");
            assert!(
                text.contains(&format!("--endpoints {endpoints} ")),
                "{text}"
            );
            obey(&text);
        };
        let at = |three: &Three, scheme: &str, place| format!("{scheme}://{}", three.client(place));
        let both = [1, 2].map(|place| at(&three, "http", place)).join(",");
        replaced(&mut three, 3, &both);
        three.wait_until_whole_over([false, false, true]);
        // Another one, beside one with TLS and one without.
        three.lose(1);
        let third = at(&three, "https", 3);
        let credentials = format!(
            "--cacert {}",
            three.credentials(1).join("authority.pem").display()
        );
        replaced(&mut three, 1, &format!("{third} {credentials}"));
        three.wait_until_whole_over([true, false, true]);
        three.move_to_tls(2, 1, true);
        three.wait_until_whole_over([true; 3]);
    });
}

/// etcd reads whom it believes when it starts: it is started again where that has changed, one member after the other.
#[test]
fn members_follow_when_the_authority_is_replaced() {
    let mut three = Three::new(None);
    for place in 1..=3 {
        three.start(place);
    }
    three.wait_until_whole();
    let own = three.tls.clone().map(|tls| match tls {
        MemberTls::On(directory) => directory,
        _ => unreachable!("it has TLS"),
    });
    let read = |name: &str| fs::read(own[0].join(name)).unwrap();
    let [ca, certificate, key] = ["authority.pem", "node.pem", "node.key"].map(read);
    let of_before = Some((&certificate[..], &key[..]));
    let now = SystemTime::now();
    let started_again = |three: &Three, place: usize, step: &dyn Fn(&Path)| {
        let before = three.supervisor(place).pid();
        step(&own[place - 1]);
        wait(&format!("n{place} is started again"), || {
            let pid = three.supervisor(place).pid();
            pid.is_some() && pid != before
        });
        three.wait_until_whole();
    };
    for place in 1..=3 {
        started_again(&three, place, &|directory| {
            for name in ["authority.next.pem", "authority.next.key"] {
                if place > 1 {
                    fs::copy(own[0].join(name), directory.join(name)).unwrap();
                }
            }
            replacing::prepare(directory, now).unwrap();
        });
    }
    let before = three.pids();
    for place in 1..=3 {
        let directory = &own[place - 1];
        replacing::switch(directory).unwrap();
        // What a node does that runs there.
        let subject = subject(place, &three.client(place).ip().to_string());
        let (_, renewal) = Credentials::of_node(directory, CLUSTER, &subject, now).unwrap();
        assert!(matches!(renewal, Renewal::Renewed(_)), "{renewal:?}");
        three.wait_until_whole();
    }
    // Which of them signs is of no matter to etcd.
    assert_eq!(three.pids(), before);
    // As a tool does it: on all machines at once, while one member is away.
    three.stop(3);
    let before = three.pids();
    for directory in &own {
        replacing::finish(directory).unwrap();
    }
    let quiet = Instant::now();
    while quiet.elapsed() < LOOKS {
        assert_eq!(three.pids(), before, "a second one is away");
        std::thread::sleep(Duration::from_millis(50));
    }
    three.start(3);
    let before = three.pids();
    three.are_started_again_in_turn(&before[..2]);
    // What the authority before has signed is let in nowhere, by whoever still knows its key.
    let both = [ca, fs::read(own[0].join("authority.pem")).unwrap()].concat();
    let of_before = EtcdTls::new(&both, of_before).unwrap();
    for place in 1..=3 {
        assert_eq!(three.asked(place, Some(&of_before)), None);
    }
}
