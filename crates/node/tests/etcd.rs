//! The supervisor of etcd, over Debian's: restarts, adoption, ends.

use std::net::{IpAddr, Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

use holdfast_model::ClusterId;
use holdfast_node::config::etcd::EtcdSection;
use holdfast_node::etcd::{MemberTls, Plan, Supervisor, end_left, is_running};
use holdfast_node::process::Process;
use rustix::process::Signal;

const PATIENCE: Duration = Duration::from_secs(30);

fn section() -> EtcdSection {
    let free = || TcpListener::bind("127.0.0.1:0").unwrap();
    let (client, peer) = (free(), free());
    EtcdSection {
        member: None,
        program: None,
        client_port: client.local_addr().unwrap().port(),
        peer_port: peer.local_addr().unwrap().port(),
        plain: false,
        members: [("m".to_owned(), IpAddr::from(Ipv4Addr::LOCALHOST))].into(),
    }
}

fn plan(section: &EtcdSection, directory: &Path) -> Plan {
    Plan::of_machine(section, ClusterId(1), "m", directory, &MemberTls::Off)
        .expect("etcd is installed")
}

fn wait(what: &str, mut condition: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !condition() {
        assert!(begun.elapsed() < PATIENCE, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn wait_for_answers(plan: &Plan) {
    wait("etcd answers", || TcpStream::connect(plan.client()).is_ok());
}

#[test]
fn etcd_is_kept_running_adopted_and_ended() {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("etcd");
    let mut section = section();
    let first = plan(&section, &directory);
    assert!(!is_running(&directory));
    let supervisor = Supervisor::start(first.clone()).unwrap();
    wait_for_answers(&first);
    assert!(is_running(&directory));
    // What ends is started again.
    let pid = supervisor.pid().expect("it runs");
    Process::open(pid).unwrap().unwrap().signal(Signal::KILL);
    let again = || supervisor.pid().filter(|now| *now != pid);
    wait("another etcd runs", || again().is_some());
    assert!(supervisor.ended().expect("one ended").contains("signal: 9"));
    wait_for_answers(&first);
    // What is left is adopted, if it is what is wanted.
    let pid = again().unwrap();
    supervisor.leave();
    let adopter = Supervisor::start(first).unwrap();
    assert_eq!(adopter.pid(), Some(pid));
    adopter.leave();
    // Else it makes way.
    section.client_port = TcpListener::bind("127.0.0.1:0")
        .and_then(|it| it.local_addr())
        .unwrap()
        .port();
    let other = plan(&section, &directory);
    let supervisor = Supervisor::start(other.clone()).unwrap();
    assert_ne!(supervisor.pid(), Some(pid));
    assert!(Process::open(pid).unwrap().is_none_or(|it| it.has_ended()));
    wait_for_answers(&other);
    drop(supervisor);
    assert!(!is_running(&directory), "it ends with its supervisor");
    Supervisor::start(other).unwrap().leave();
    assert!(is_running(&directory));
    end_left(&directory);
    assert!(!is_running(&directory));
}

#[test]
fn an_etcd_that_cannot_run_is_told_and_tried_again() {
    let folder = tempfile::tempdir().unwrap();
    let mut section = section();
    // It listens on no address of this machine.
    section.members = [("m".to_owned(), "192.0.2.77".parse().unwrap())].into();
    let supervisor = Supervisor::start(plan(&section, folder.path())).unwrap();
    wait("it has ended", || supervisor.ended().is_some());
    let how = supervisor.ended().unwrap();
    assert!(
        how.contains("its last words") && how.contains("192.0.2.77"),
        "{how}"
    );
}
