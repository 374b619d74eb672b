//! Real members of etcd, in directories of their own, on free ports of this machine.
//!
//! Without etcd the tests fail: they say what is missing.

use std::fs::{self, File};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use holdfast_metadata::client::Client;
use holdfast_metadata::etcd::{EtcdConfig, EtcdEndpoint};
use holdfast_model::ClusterId;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// The etcd that is built from its Go modules: `crates/xtask/etcd/go.mod`.
const BUILT_VERSION: &str = "3.7.3";
/// How long a cluster may take to be there.
const STARTED_WITHIN: Duration = Duration::from_secs(60);

/// Which etcd.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Release {
    /// The one of Debian's package.
    Packaged,
    /// The one that is built here.
    Built,
}

impl Release {
    fn program(self) -> PathBuf {
        match self {
            Self::Packaged => {
                let paths = std::env::var_os("PATH").unwrap_or_default();
                let found = std::env::split_paths(&paths)
                    .map(|folder| folder.join("etcd"))
                    .find(|program| program.is_file());
                found.expect("etcd is not installed: `apt-get install etcd-server`")
            }
            Self::Built => tool("etcd"),
        }
    }
}

/// A program that `cargo xtask etcd` builds, in the build directory that this test runs from.
fn tool(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("a test has a path");
    // target/debug/deps/test
    let target = test.ancestors().nth(3).expect("tests lie in the target");
    let program = target.join("etcd").join(BUILT_VERSION).join(name);
    assert!(
        program.is_file(),
        "{} is missing: `cargo xtask etcd` builds it",
        program.display()
    );
    program
}

/// A member.
struct Member {
    child: Option<Child>,
    client_port: u16,
    peer_port: u16,
}

/// A cluster of etcd. Its processes end with it.
pub(crate) struct Cluster {
    release: Release,
    folder: TempDir,
    members: Vec<Member>,
    /// Rises when it is restored from a backup, which makes new members.
    generation: u32,
    /// Beside those that every member has.
    options: Vec<String>,
    /// Whether clients speak TLS with it, and show certificates.
    is_secure: bool,
}

impl Cluster {
    /// Starts so many members, and waits until they are one cluster.
    pub(crate) fn start(release: Release, count: usize) -> Self {
        Self::start_with(release, count, &[])
    }

    /// The same, with more options.
    pub(crate) fn start_with(release: Release, count: usize, options: &[&str]) -> Self {
        let mut cluster = Self::prepare(release, count);
        cluster.options = options.iter().map(|&option| option.to_owned()).collect();
        cluster.start_all();
        cluster
    }

    /// One member with TLS, by a certificate and its key; clients have to show one of the same authority. All are PEM.
    pub(crate) fn start_secure(
        release: Release,
        authority: &str,
        (own, key): &(String, String),
    ) -> Self {
        let mut cluster = Self::prepare(release, 1);
        cluster.is_secure = true;
        for (name, text) in [("ca.pem", authority), ("own.pem", own), ("key.pem", key)] {
            fs::write(cluster.folder.path().join(name), text).unwrap();
        }
        let file = |option: &str, name: &str| format!("--{option}={}", cluster.file(name));
        cluster.options = vec![
            "--client-cert-auth".to_owned(),
            file("trusted-ca-file", "ca.pem"),
            file("cert-file", "own.pem"),
            file("key-file", "key.pem"),
        ];
        cluster.start_all();
        cluster
    }

    fn file(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    fn prepare(release: Release, count: usize) -> Self {
        let ports = free_ports(2 * count);
        let members = ports
            .chunks(2)
            .map(|ports| Member {
                child: None,
                client_port: ports[0],
                peer_port: ports[1],
            })
            .collect();
        Self {
            release,
            folder: tempfile::tempdir().unwrap(),
            members,
            generation: 0,
            options: Vec::new(),
            is_secure: false,
        }
    }

    pub(crate) fn start_all(&mut self) {
        for place in 0..self.members.len() {
            self.start_member(place);
        }
        self.wait();
    }

    /// Until every member answers linearizable reads.
    pub(crate) fn wait(&self) {
        let begun = Instant::now();
        loop {
            let endpoints = self.endpoints();
            let health = self.ctl(&["--endpoints", &endpoints, "endpoint", "health"]);
            if health.is_ok() {
                return;
            }
            if begun.elapsed() > STARTED_WITHIN {
                panic!("etcd is not there: {health:?}\n{}", self.logs());
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    fn logs(&self) -> String {
        let logs = (0..self.members.len()).map(|place| {
            let log = fs::read_to_string(self.log(place)).unwrap_or_default();
            let lines: Vec<_> = log.lines().collect();
            lines[lines.len().saturating_sub(10)..].join("\n")
        });
        logs.collect::<Vec<_>>().join("\n\n")
    }

    fn log(&self, place: usize) -> PathBuf {
        self.folder.path().join(format!("m{place}.log"))
    }

    fn data(&self, place: usize) -> PathBuf {
        let generation = self.generation;
        self.folder.path().join(format!("m{place}-{generation}"))
    }

    fn initial(&self) -> String {
        let members = self.members.iter().enumerate();
        let members =
            members.map(|(place, it)| format!("m{place}=http://127.0.0.1:{}", it.peer_port));
        members.collect::<Vec<_>>().join(",")
    }

    pub(crate) fn start_member(&mut self, place: usize) {
        let Member {
            client_port,
            peer_port,
            ..
        } = self.members[place];
        let scheme = if self.is_secure { "https" } else { "http" };
        let client = format!("{scheme}://127.0.0.1:{client_port}");
        let peer = format!("http://127.0.0.1:{peer_port}");
        let log = File::options()
            .append(true)
            .create(true)
            .open(self.log(place))
            .unwrap();
        let child = Command::new(self.release.program())
            .args(["--name", &format!("m{place}")])
            .arg("--data-dir")
            .arg(self.data(place))
            .args(["--listen-client-urls", &client])
            .args(["--advertise-client-urls", &client])
            .args(["--listen-peer-urls", &peer])
            .args(["--initial-advertise-peer-urls", &peer])
            .args(["--initial-cluster", &self.initial()])
            .args(["--initial-cluster-state", "new"])
            .args(&self.options)
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        self.members[place].child = Some(child);
    }

    /// Kills a member; its directory stays.
    pub(crate) fn kill(&mut self, place: usize) {
        if let Some(mut child) = self.members[place].child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    pub(crate) fn kill_all(&mut self) {
        for place in 0..self.members.len() {
            self.kill(place);
        }
    }

    /// What a stuck disk under etcd does to it, to the full.
    pub(crate) fn freeze(&self, place: usize) {
        self.signal(place, Signal::STOP);
    }

    pub(crate) fn thaw(&self, place: usize) {
        self.signal(place, Signal::CONT);
    }

    fn signal(&self, place: usize, signal: Signal) {
        let child = self.members[place].child.as_ref().expect("it runs");
        let pid = Pid::from_raw(child.id().cast_signed()).expect("a process has a number");
        kill_process(pid, signal).unwrap();
    }

    pub(crate) fn address(&self, place: usize) -> String {
        format!("127.0.0.1:{}", self.members[place].client_port)
    }

    fn endpoints(&self) -> String {
        let places = 0..self.members.len();
        let addresses = places.map(|place| self.address(place));
        addresses.collect::<Vec<_>>().join(",")
    }

    /// The place of the leader.
    pub(crate) fn leader(&self) -> usize {
        for place in 0..self.members.len() {
            let address = self.address(place);
            let arguments = [
                "--endpoints",
                &address,
                "-w",
                "fields",
                "endpoint",
                "status",
            ];
            let status = self.ctl(&arguments).unwrap();
            let field = |name: &str| {
                let lines = status.lines();
                let mut values = lines.filter_map(|line| line.strip_prefix(name));
                values.next().expect("etcdctl names it").to_owned()
            };
            if field("\"MemberID\" : ") == field("\"Leader\" : ") {
                return place;
            }
        }
        panic!("a healthy cluster has a leader");
    }

    /// Makes etcd forget what was before its present revision.
    pub(crate) fn compact(&self) {
        let addresses = self.endpoints();
        let found = self
            .ctl(&["--endpoints", &addresses, "-w", "fields", "get", "none"])
            .unwrap();
        let lines = found.lines();
        let mut revisions = lines.filter_map(|line| line.strip_prefix("\"Revision\" : "));
        let revision = revisions.next().expect("etcdctl names it");
        self.ctl(&["--endpoints", &addresses, "compact", revision])
            .unwrap();
    }

    /// What an operator does when it is full.
    pub(crate) fn make_room(&self) {
        self.compact();
        for place in 0..self.members.len() {
            let address = self.address(place);
            self.ctl(&["--endpoints", &address, "defrag"]).unwrap();
        }
        let addresses = self.endpoints();
        self.ctl(&["--endpoints", &addresses, "alarm", "disarm"])
            .unwrap();
    }

    /// Puts a key that is no cluster's.
    pub(crate) fn put_other(&self, key: &str) {
        let address = self.endpoints();
        self.ctl(&["--endpoints", &address, "put", key, "value"])
            .unwrap();
    }

    pub(crate) fn backup(&self) -> PathBuf {
        let path = self.folder.path().join("backup");
        let address = self.address(0);
        let text = path.to_str().unwrap();
        self.ctl(&["--endpoints", &address, "snapshot", "save", text])
            .unwrap();
        path
    }

    /// Begins anew from a backup, at the same addresses. All members must be dead.
    pub(crate) fn restore(&mut self, backup: &Path) {
        self.generation += 1;
        for (place, member) in self.members.iter().enumerate() {
            assert!(member.child.is_none(), "it is dead");
            let restored = Command::new(tool("etcdutl"))
                .args(["snapshot", "restore"])
                .arg(backup)
                .args(["--name", &format!("m{place}")])
                .args(["--initial-cluster", &self.initial()])
                .args(["--initial-cluster-token", "restored"])
                .args([
                    "--initial-advertise-peer-urls",
                    &format!("http://127.0.0.1:{}", member.peer_port),
                ])
                .arg("--data-dir")
                .arg(self.data(place))
                .output()
                .unwrap();
            let said = String::from_utf8_lossy(&restored.stderr);
            assert!(restored.status.success(), "{said}");
        }
    }

    fn ctl(&self, arguments: &[&str]) -> Result<String, String> {
        let mut command = Command::new(tool("etcdctl"));
        if self.is_secure {
            // Whose certificate it is, is for others to find out.
            command.arg("--insecure-skip-tls-verify").args([
                "--insecure-transport=false",
                &format!("--cert={}", self.file("own.pem")),
                &format!("--key={}", self.file("key.pem")),
            ]);
        }
        let done = command
            .args(["--dial-timeout", "2s", "--command-timeout", "5s"])
            .args(arguments)
            .output()
            .unwrap();
        if done.status.success() {
            return Ok(String::from_utf8(done.stdout).unwrap());
        }
        Err(String::from_utf8_lossy(&done.stderr).into_owned())
    }

    /// A client that knows these members, in this order.
    pub(crate) fn client(&self, cluster: ClusterId, places: &[usize]) -> Client {
        let endpoint = |place: &usize| -> EtcdEndpoint { self.address(*place).parse().unwrap() };
        Client::start_etcd(&EtcdConfig {
            endpoints: places.iter().map(endpoint).collect(),
            cluster,
            tls: None,
        })
    }
}

impl Drop for Cluster {
    #[allow(
        clippy::print_stderr,
        reason = "this is what a failed test is read for"
    )]
    fn drop(&mut self) {
        self.kill_all();
        if std::thread::panicking() {
            eprintln!("{}", self.logs());
        }
    }
}

/// Ports that nobody listens on, below those that connections are given. Tests of other packages that may run at the same time have others,
/// or they would take the port of a member that is about to be started again.
fn free_ports(count: usize) -> Vec<u16> {
    use std::sync::atomic::{AtomicU16, Ordering};
    static NEXT: AtomicU16 = AtomicU16::new(0);
    const FIRST: u16 = 15_500;
    const PORTS: u16 = 1_500;
    let begin = (std::process::id() % u32::from(PORTS)) as u16;
    let mut ports = Vec::new();
    while ports.len() < count {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        assert!(number < PORTS, "no port is free");
        let port = FIRST + (begin + number) % PORTS;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            ports.push(port);
        }
    }
    ports
}
