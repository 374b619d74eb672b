//! Three members of etcd under their supervisors: how they begin, and how a lost one is replaced. Over
//! Debian's etcd and the present one.
#![allow(clippy::unwrap_used, reason = "a test fails so")]

use std::fs;
use std::io::Read;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use holdfast_metadata::etcd::{EtcdMember, members};
use holdfast_model::ClusterId;
use holdfast_node::config::etcd::EtcdSection;
use holdfast_node::etcd::{Plan, Supervisor, is_running};
use tempfile::TempDir;

const CLUSTER: ClusterId = ClusterId(7);
/// The etcd that `cargo xtask etcd` builds: `crates/xtask/etcd/go.mod`.
const BUILT_VERSION: &str = "3.7.3";
/// Longer than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(90);
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
    supervisors: [Option<Supervisor>; 3],
}

impl Three {
    /// `program` is none for the one in PATH.
    fn new(program: Option<PathBuf>) -> Self {
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
                members,
            },
            supervisors: [None, None, None],
        }
    }

    fn directory(&self, place: usize) -> PathBuf {
        self.folder.path().join(format!("n{place}"))
    }

    fn start(&mut self, place: usize) {
        let name = format!("n{place}");
        let plan = Plan::of_machine(&self.section, CLUSTER, &name, &self.directory(place));
        let supervisor = Supervisor::start(plan.expect("etcd is installed")).unwrap();
        self.supervisors[place - 1] = Some(supervisor);
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
        let endpoint = self.client(place).to_string().parse().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(members(&endpoint, CLUSTER)).ok()
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

    fn assert_stays_out(&self, place: usize) {
        let begun = Instant::now();
        while begun.elapsed() < QUIET {
            assert_eq!(self.supervisor(place).pid(), None);
            assert!(!is_running(&self.directory(place)));
            std::thread::sleep(Duration::from_millis(50));
        }
    }
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
        three.start(3);
        let text = three.waits_for(3, "member remove");
        three.assert_stays_out(3);
        obey(&text);
        three.wait_until_whole();
        let members = three.agreed(1).unwrap();
        let member = members.iter().find(|member| member.name == "n3").unwrap();
        let url = format!("http://{}", three.client(3));
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
    let mut three = Three::new(None);
    three.start(1);
    three.waits_for(1, "n2 and n3");
    let mut said = String::new();
    let mut stream = TcpStream::connect(three.client(1)).unwrap();
    stream.read_to_string(&mut said).unwrap();
    assert!(
        said.starts_with("holdfast: etcd waits, without data"),
        "{said}"
    );
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
