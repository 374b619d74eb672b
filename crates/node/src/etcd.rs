//! An etcd that runs beside a node, a witness or a demo: started, watched, started again when it ends,
//! stopped with its supervisor.
//!
//! It refuses to repair etcd, or to change who its members are: that is etcd's own business
//! (`etcdctl member`). How a member begins that has no data is decided in `beginning`.
//!
//! Invariants:
//! - one etcd runs in a directory at a time: one that a killed supervisor has left is adopted if it runs
//!   as it should, else it is ended first;
//! - nothing is signalled but a process whose command line names the directory;
//! - an etcd that ends at once, again and again, is started ever more rarely;
//! - its log is bounded.

mod again;
mod beginning;
mod others;
mod reached;
mod supervisor;
mod tls;
mod trouble;
mod waiting;

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use holdfast_metadata::etcd::EtcdEndpoint;
use holdfast_model::ClusterId;
use holdfast_tls::CredentialsError;

use crate::config::etcd::{EtcdSection, InvalidEtcd};
use crate::directory::remove_if_there;
use crate::process::Process;

use self::beginning::{Beginning, Own};
use self::reached::PeerUrl;

pub use self::supervisor::Supervisor;
pub use self::tls::MemberTls;

/// What etcd keeps, in the directory that is given to it.
pub const DATA_DIRECTORY: &str = "data";
/// Where in that etcd logs what it agrees to: without such a file it has nothing.
const LOGS_OF_ITS_OWN: &str = "member/wal";
/// The file by which an operator says that members that are silent have nothing.
const CONSENT_FILE: &str = "new";
/// The fingerprints of the authorities that the etcd which runs has read.
const BELIEVED_FILE: &str = "believed";
/// The options that etcd heeds only while it has no data: they are no part of what it is.
const OF_THE_BEGINNING: [&str; 2] = ["--initial-cluster=", "--initial-cluster-state="];
/// The file that names the process.
const PID_FILE: &str = "etcd.pid";
/// What etcd says, in its directory.
pub const LOG_FILE: &str = "etcd.log";
/// What it said before that.
const LOG_FILE_OLD: &str = "etcd.log.old";
/// Bytes of the log at which it begins anew. etcd is told to say only what is wrong.
const LOG_BYTES_MAX: u64 = 8 << 20;
/// What is read of the log to tell why etcd has ended.
const LAST_WORDS_MAX: u64 = 4 << 10;
/// Bytes of etcd's database at most, beyond which it takes no change: what Holdfast keeps there stays far
/// below 256 MiB, the history of an hour comes on top, and etcd recommends at most 8 GiB.
const QUOTA_BYTES: u64 = 2 << 30;
/// How often a leader says that it lives, and how long it may say nothing, in milliseconds: half of etcd's
/// own choice, and the least that it allows for this interval. A machine that dies may take the leader
/// with it, and what it led stands still until there is another. An election too many, as on a slow
/// disk, harms nobody: I/O does not wait for etcd.
const HEARTBEAT_MILLIS: u32 = 100;
const ELECTION_MILLIS: u32 = 500;
/// The variable without which older releases refuse to run on other processors than x86-64.
const PERMISSION: &str = "ETCD_UNSUPPORTED_ARCH";
/// For how long etcd keeps history: a watch that was away for less goes on where it was.
const HISTORY: &str = "1h";

/// What etcd is to be: all of it decided, but whether it listens with TLS, which is as the others reach it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    program: PathBuf,
    directory: PathBuf,
    cluster: ClusterId,
    name: String,
    client: SocketAddr,
    /// Where other members reach this one.
    peer: SocketAddr,
    others: Vec<OtherMember>,
    /// How this machine speaks to members, as its file says.
    tls: MemberTls,
    plain: Form,
    /// With TLS; none where the machine has none.
    secure: Option<Form>,
}

/// What etcd is started with, in one of the two ways.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Form {
    /// All but those of the beginning.
    arguments: Vec<String>,
    /// The URL by which other members are to know this one.
    peer_url: String,
    /// The members of the list, as etcd wants them told.
    initial: String,
}

/// Where another member is.
#[derive(Clone, Debug, PartialEq, Eq)]
struct OtherMember {
    name: String,
    client: SocketAddr,
    peer: SocketAddr,
}

/// Why etcd cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum EtcdStartError {
    /// The section of the configuration makes no sense.
    #[error(transparent)]
    Invalid(#[from] InvalidEtcd),
    /// There is none.
    #[error(
        "etcd is not installed: PATH names no program `etcd`; on Debian and Ubuntu: apt-get install \
             etcd-server, then systemctl disable --now etcd"
    )]
    NotInstalled,
    /// The operating system refuses.
    #[error("{what} {}: {source}", path.display())]
    Refused {
        /// What was tried.
        what: &'static str,
        /// On what.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The port of the member is taken, or is none of this machine.
    #[error(
        "listen at {address}, which etcd.members names for this machine, until etcd can be started: {source}"
    )]
    Listen {
        /// Its clients' address.
        address: SocketAddr,
        /// Why not.
        source: io::Error,
    },
    /// The list names a machine on which a node has run without a member.
    #[error(
        "etcd.members names this machine, so the node would start a new member of etcd here; but it has run before \
         without one: there is no {}\n\n\
         hint: where something else runs etcd, leave the section [etcd] out, and say where it is: \
         metadata.etcd = [{}], with what goes with it (\"An etcd of one's own\" in docs/deployment.md); if the node is to start a \
         member here: mkdir -m 700 {}",
        home.display(), quoted(endpoints), home.display()
    )]
    NeverHere {
        /// Where a member's data would be.
        home: PathBuf,
        /// Where clients connect, by the list.
        endpoints: Vec<EtcdEndpoint>,
    },
    /// There is a member's data, and the list does not name the machine.
    #[error(
        "etcd.members does not name this machine ({name}), and there is the data of a member of etcd in {}\n\n\
         hint: where the name is misspelt, correct it, or say which member this machine has: etcd.member; where its \
         member has been removed for good, move {} away", home.display(), home.display()
    )]
    NotListed {
        /// The machine's name.
        name: String,
        /// What keeps the data.
        home: PathBuf,
    },
    /// The directory's path is not UTF-8.
    #[error("{} is not UTF-8: keep etcd elsewhere", .0.display())]
    Path(PathBuf),
    /// What TLS needs cannot be used.
    #[error("credentials of etcd's member: {0}")]
    Credentials(CredentialsError),
    /// The same, and it is not known why.
    #[error("what is in {} is no use for TLS to etcd", .0.display())]
    Unfit(PathBuf),
    /// It is to have none, and the other members reach it with TLS.
    #[error(
        "etcd's member here has TLS, and is to run without: the others would not reach it, and it would count as lost\n\n\
         hint: a member that has TLS keeps it. Take `off = true` out of the section [security] of this machine's file; a \
         witness without credentials gets them (`holdfast security issue --witness`): \"TLS between members of etcd\" in \
         docs/upgrade.md"
    )]
    HasTls,
}

fn quoted(endpoints: &[EtcdEndpoint]) -> String {
    let quoted = endpoints.iter().map(|it| {
        let scheme = if it.has_tls() { "https://" } else { "" };
        format!("\"{scheme}{}\"", it.address())
    });
    quoted.collect::<Vec<_>>().join(", ")
}

impl Plan {
    /// The member of a machine that is otherwise called `name`, with everything below `directory`.
    ///
    /// # Errors
    /// [`EtcdStartError`] if the machine is no member, or there is no program.
    pub fn of_machine(
        section: &EtcdSection,
        cluster: ClusterId,
        name: &str,
        directory: &Path,
        tls: &MemberTls,
    ) -> Result<Self, EtcdStartError> {
        section.check()?;
        let (member, own) = section.required(name)?;
        let program = match &section.program {
            Some(program) => program.clone(),
            None => find_program()?,
        };
        fs::metadata(&program).map_err(Self::refused("start", &program))?;
        let (client, peer) = (section.client_port, section.peer_port);
        let others = section.members.iter().filter(|(name, _)| *name != member);
        let others = others.map(|(name, it)| OtherMember {
            name: name.clone(),
            client: SocketAddr::new(*it, client),
            peer: SocketAddr::new(*it, peer),
        });
        let form = |tls: &MemberTls| Form::new(section, cluster, (member, own), directory, tls);
        let (plain, secure) = tls.forms();
        Ok(Self {
            program,
            directory: directory.to_owned(),
            cluster,
            name: member.to_owned(),
            client: SocketAddr::new(own, client),
            peer: SocketAddr::new(own, peer),
            others: others.collect(),
            tls: tls.clone(),
            plain: form(&plain)?,
            secure: secure.as_ref().map(form).transpose()?,
        })
    }

    /// Where it answers clients.
    #[must_use]
    pub fn client(&self) -> SocketAddr {
        self.client
    }

    /// Whether etcd has anything in its directory. Then it goes on with that, whatever it is told.
    fn has_data(&self) -> bool {
        let logs = self.path(DATA_DIRECTORY).join(LOGS_OF_ITS_OWN);
        let Ok(mut entries) = fs::read_dir(logs) else {
            return false;
        };
        entries.any(|entry| {
            entry.is_ok_and(|entry| entry.path().extension() == Some(OsStr::new("wal")))
        })
    }

    /// Whether the others must be asked before etcd is started.
    fn must_ask(&self) -> bool {
        !self.others.is_empty() && !self.has_data()
    }

    fn own(&self) -> Own {
        let consent = self.path(CONSENT_FILE);
        let peer = self.wanted().peer_url.clone();
        let others = self.others.iter().map(|it| format!("http://{}", it.peer));
        let listed = others.chain([peer.clone()]);
        Own {
            name: self.name.clone(),
            listed: listed.map(|url| PeerUrl::of(&url)).collect(),
            peer,
            data: self.path(DATA_DIRECTORY),
            consented: consent.exists(),
            consent,
            etcdctl: self.tls.for_etcdctl(),
        }
    }

    /// How a member begins: with TLS, where its machine has it.
    fn wanted(&self) -> &Form {
        self.secure.as_ref().unwrap_or(&self.plain)
    }

    /// How the others reach the member, as far as that is known.
    fn form(&self) -> &Form {
        // One that is alone is reached by nobody.
        if self.others.is_empty() || !self.has_data() || self.is_noted() {
            self.wanted()
        } else {
            &self.plain
        }
    }

    /// The same of one that begins so, if it begins.
    fn form_of(&self, beginning: &Beginning) -> &Form {
        match beginning {
            Beginning::Joining { has_tls: false, .. } if !self.has_data() => &self.plain,
            Beginning::Joining { .. } | Beginning::New => self.form(),
        }
    }

    /// Whether the member has no TLS for no other reason than that the others reach it without.
    fn may_move(&self) -> bool {
        self.secure.as_ref().is_some_and(|it| it != self.form()) && self.has_data()
    }

    /// Whether this machine speaks in the clear to members that have no TLS, though it has it.
    fn permits_plain(&self) -> bool {
        matches!(self.tls, MemberTls::Coming(_))
    }

    /// Whether a member that is to have no TLS may be started.
    ///
    /// # Errors
    /// [`EtcdStartError::HasTls`] if the others reach it over TLS.
    fn check_tls(&self) -> Result<(), EtcdStartError> {
        let is_reached = !self.others.is_empty() && self.has_data();
        // Whichever address it has: too careful harms nobody.
        if is_reached && self.secure.is_none() && self.has_note() {
            return Err(EtcdStartError::HasTls);
        }
        Ok(())
    }

    /// Notes whom an etcd believes that is started now.
    fn note_believed(&self) -> io::Result<()> {
        let path = self.path(BELIEVED_FILE);
        match self.tls.believed() {
            Some(text) => fs::write(path, text),
            None => remove_if_there(&path),
        }
    }

    /// Whether the etcd that runs believes other authorities than it would if it were started now.
    fn believes_others(&self) -> bool {
        let Some(now) = self.tls.believed() else {
            return false;
        };
        // Whether all of it goes together is looked at only where something has changed.
        fs::read_to_string(self.path(BELIEVED_FILE)).ok() != Some(now) && self.tls.is_usable()
    }

    /// Notes how the others reach a member that begins so.
    fn note_beginning(&self, form: &Form) -> io::Result<()> {
        if self.has_data() {
            return Ok(());
        }
        self.note(self.secure.as_ref() == Some(form))
    }

    /// Forgets what an operator has said of silent members: it was about this beginning.
    fn begun(&self) -> io::Result<()> {
        remove_if_there(&self.path(CONSENT_FILE))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    fn refused(
        what: &'static str,
        path: &Path,
    ) -> impl FnOnce(io::Error) -> EtcdStartError + use<> {
        let path = path.to_owned();
        move |source| EtcdStartError::Refused { what, path, source }
    }

    /// What was left running in the directory, and whether it runs as this plan says.
    fn left(&self) -> Option<(Process, bool)> {
        let (process, mut arguments) = left(&self.directory)?;
        arguments.retain(|it| !OF_THE_BEGINNING.iter().any(|option| it.starts_with(option)));
        let is_same = arguments == self.form().arguments && !self.believes_others();
        Some((process, is_same))
    }

    fn command(&self, form: &Form, beginning: &Beginning, log: File) -> io::Result<Command> {
        use std::os::unix::process::CommandExt;
        let (initial, state) = match beginning {
            Beginning::New => (&form.initial, "new"),
            Beginning::Joining { initial, .. } => (initial, "existing"),
        };
        let [members, how] = OF_THE_BEGINNING;
        let mut command = Command::new(&self.program);
        command
            .args(&form.arguments)
            .args([format!("{members}{initial}"), format!("{how}{state}")])
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            // So that a key pressed here is not for it.
            .process_group(0);
        // etcd refuses to start where its environment says other things than its arguments.
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("ETCD_") && name != PERMISSION {
                command.env_remove(name);
            }
        }
        Ok(command)
    }

    /// Begins the log anew if it has grown.
    fn trim_log(&self) -> io::Result<()> {
        let log = self.path(LOG_FILE);
        let length = match fs::metadata(&log) {
            Ok(found) => found.len(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        };
        if length < LOG_BYTES_MAX {
            return Ok(());
        }
        // etcd has it open, and appends: it is emptied, not renamed.
        fs::copy(&log, self.path(LOG_FILE_OLD))?;
        File::options().write(true).open(&log)?.set_len(0)
    }

    /// The last line that etcd has said.
    fn last_words(&self) -> String {
        use std::io::{Read, Seek, SeekFrom};
        let read = || -> io::Result<String> {
            let mut file = File::open(self.path(LOG_FILE))?;
            let length = file.metadata()?.len();
            file.seek(SeekFrom::Start(length.saturating_sub(LAST_WORDS_MAX)))?;
            let mut bytes = Vec::new();
            file.take(LAST_WORDS_MAX).read_to_end(&mut bytes)?;
            Ok(String::from_utf8_lossy(&bytes).into_owned())
        };
        let said = read().unwrap_or_default();
        said.lines().last().unwrap_or_default().trim().to_owned()
    }
}

impl Form {
    /// That of the member of this name and address.
    fn new(
        section: &EtcdSection,
        cluster: ClusterId,
        (member, own): (&str, IpAddr),
        directory: &Path,
        tls: &MemberTls,
    ) -> Result<Self, EtcdStartError> {
        let scheme = tls.scheme();
        let url = |address: IpAddr, port| format!("{scheme}://{}", SocketAddr::new(address, port));
        let members = section.members.iter();
        let members = members.map(|(name, it)| format!("{name}={}", url(*it, section.peer_port)));
        let initial = members.collect::<Vec<_>>().join(",");
        let (client_url, peer_url) = (url(own, section.client_port), url(own, section.peer_port));
        let mark = data_option(directory);
        let mark = mark.ok_or_else(|| EtcdStartError::Path(directory.to_owned()))?;
        let options = options(member, &client_url, &peer_url, cluster);
        let of_tls = tls.options().map_err(EtcdStartError::Path)?;
        let options = options.into_iter().chain(of_tls);
        let options = options.map(|(name, value)| format!("--{name}={value}"));
        Ok(Self {
            arguments: [mark].into_iter().chain(options).collect(),
            peer_url,
            initial,
        })
    }
}

/// What etcd is, as options: all but who its members are at the beginning.
fn options(
    member: &str,
    client_url: &str,
    peer_url: &str,
    cluster: ClusterId,
) -> [(&'static str, String); 13] {
    [
        ("name", member.to_owned()),
        ("listen-client-urls", client_url.to_owned()),
        ("advertise-client-urls", client_url.to_owned()),
        ("listen-peer-urls", peer_url.to_owned()),
        ("initial-advertise-peer-urls", peer_url.to_owned()),
        ("initial-cluster-token", format!("holdfast-{cluster}")),
        ("heartbeat-interval", HEARTBEAT_MILLIS.to_string()),
        ("election-timeout", ELECTION_MILLIS.to_string()),
        ("auto-compaction-mode", "periodic".to_owned()),
        ("auto-compaction-retention", HISTORY.to_owned()),
        ("quota-backend-bytes", QUOTA_BYTES.to_string()),
        ("logger", "zap".to_owned()),
        ("log-level", "warn".to_owned()),
    ]
}

/// The option by which an etcd in `directory` is known.
fn data_option(directory: &Path) -> Option<String> {
    let data = directory.join(DATA_DIRECTORY);
    Some(format!("--data-dir={}", data.to_str()?))
}

/// The etcd that was left running in a directory, and its arguments.
fn left(directory: &Path) -> Option<(Process, Vec<String>)> {
    let text = fs::read_to_string(directory.join(PID_FILE)).ok()?;
    // First the handle, then the proof: if the proof is of this number, the handle is too.
    let process = Process::open(text.trim().parse().ok()?).ok()??;
    let line = fs::read(format!("/proc/{}/cmdline", process.pid())).ok()?;
    let line = String::from_utf8_lossy(&line);
    let words = line.split_terminator('\0').skip(1);
    let arguments: Vec<String> = words.map(str::to_owned).collect();
    let is_here = arguments.contains(&data_option(directory)?);
    (is_here && !process.has_ended()).then_some((process, arguments))
}

/// Whether an etcd runs in a directory, one that was left there too.
#[must_use]
pub fn is_running(directory: &Path) -> bool {
    left(directory).is_some()
}

/// Ends the etcd that was left running in a directory, if one was.
pub fn end_left(directory: &Path) {
    if let Some((process, _)) = left(directory) {
        supervisor::end(&process);
    }
}

/// The `etcd` that `PATH` finds.
///
/// # Errors
/// [`EtcdStartError::NotInstalled`].
pub fn find_program() -> Result<PathBuf, EtcdStartError> {
    let paths = std::env::var_os("PATH");
    find_in(paths.as_deref().unwrap_or_default()).ok_or(EtcdStartError::NotInstalled)
}

fn find_in(paths: &OsStr) -> Option<PathBuf> {
    let mut programs = std::env::split_paths(paths).map(|folder| folder.join("etcd"));
    programs.find(|program| program.is_absolute() && program.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn section() -> EtcdSection {
        let text = "program = \"/bin/sh\"\n[members]\nn1 = \"192.0.2.1\"\nn2 = \"2001:db8::2\"\n";
        toml::from_str(text).unwrap()
    }

    #[test]
    fn a_member_is_started_by_the_list_alone() {
        let directory = Path::new("/srv/holdfast/etcd");
        let plan =
            Plan::of_machine(&section(), ClusterId(7), "n2", directory, &MemberTls::Off).unwrap();
        assert_eq!(plan.client().to_string(), "[2001:db8::2]:2379");
        let says =
            |what: &str| assert!(plan.form().arguments.iter().any(|it| it == what), "{what}");
        says("--name=n2");
        says("--data-dir=/srv/holdfast/etcd/data");
        says("--listen-peer-urls=http://[2001:db8::2]:2380");
        let list = "n1=http://192.0.2.1:2380,n2=http://[2001:db8::2]:2380";
        assert_eq!(plan.form().initial, list);
        assert_eq!(plan.form().peer_url, "http://[2001:db8::2]:2380");
        let [other] = &plan.others[..] else {
            panic!("there is one other");
        };
        assert_eq!(other.client.to_string(), "192.0.2.1:2379");
        let stranger = Plan::of_machine(&section(), ClusterId(7), "n3", directory, &MemberTls::Off);
        let error = stranger.unwrap_err().to_string();
        assert!(
            error.contains("n3") && error.contains("etcd.member"),
            "{error}"
        );
    }

    #[test]
    fn a_member_with_tls_lets_nobody_in_without_a_certificate() {
        let directory = Path::new("/srv/holdfast/etcd");
        let own = PathBuf::from("/srv/holdfast/tls");
        let plan = |tls: MemberTls| {
            Plan::of_machine(&section(), ClusterId(7), "n2", directory, &tls).unwrap()
        };
        let on = plan(MemberTls::On(own.clone()));
        for said in [
            "--listen-peer-urls=https://[2001:db8::2]:2380",
            "--listen-client-urls=https://[2001:db8::2]:2379",
            "--advertise-client-urls=https://[2001:db8::2]:2379",
            "--client-cert-auth=true",
            "--peer-client-cert-auth=true",
            "--trusted-ca-file=/srv/holdfast/tls/authority.pem",
            "--peer-trusted-ca-file=/srv/holdfast/tls/authority.pem",
            "--cert-file=/srv/holdfast/tls/node.pem",
            "--peer-key-file=/srv/holdfast/tls/node.key",
        ] {
            assert!(on.form().arguments.iter().any(|it| it == said), "{said}");
        }
        assert_eq!(
            on.form().initial,
            "n1=https://192.0.2.1:2380,n2=https://[2001:db8::2]:2380"
        );
        // What the file says of others does not change it.
        assert_eq!(plan(MemberTls::Coming(own)).form(), on.form());
        // One that waits for its turn listens in the clear, and reaches those that have had theirs.
        let coming = on.plain;
        assert_eq!(coming.peer_url, "http://[2001:db8::2]:2380");
        let has = |what: &str| coming.arguments.iter().any(|it| it.starts_with(what));
        assert!(has("--peer-cert-file=") && !has("--cert-file="));
        assert!(!has("--peer-client-cert-auth"));
    }

    /// How others reach a member is in etcd's data: no file of ours, and nobody's `touch`, chooses how it listens.
    #[test]
    fn a_member_with_data_is_started_as_the_others_reach_it() {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().join("etcd");
        let plan =
            |tls: &MemberTls| Plan::of_machine(&section(), ClusterId(7), "n2", &home, tls).unwrap();
        let (off, on) = (plan(&MemberTls::Off), plan(&MemberTls::On("/tls".into())));
        let coming = plan(&MemberTls::Coming("/tls".into()));
        let begin = |plan: &Plan, form: &Form| {
            fs::create_dir_all(&home).unwrap();
            plan.check_tls().unwrap();
            plan.note_beginning(form).unwrap();
            let logs = home.join("data").join(LOGS_OF_ITS_OWN);
            fs::create_dir_all(&logs).unwrap();
            fs::write(logs.join("0.wal"), "").unwrap();
            plan.check_tls().unwrap();
        };
        let secure = on.secure.as_ref().unwrap();
        // From before there was TLS.
        begin(&off, off.form());
        for plan in [&on, &coming] {
            assert_eq!(plan.form(), &on.plain);
            assert!(plan.may_move());
        }
        let mark = home.join("tls");
        for empty in ["", "\n", "http://[2001:db8::2]:2380\n"] {
            fs::write(&mark, empty).unwrap();
            assert_eq!(on.form(), &on.plain, "{empty}");
            // What says nothing keeps nobody from going on without.
            off.check_tls().unwrap();
        }
        // A machine that had TLS has another address now: nobody is let in until etcd was asked, where nothing is said in the clear.
        fs::write(&mark, "https://192.0.2.1:2380\n").unwrap();
        assert_eq!(on.form(), secure);
        assert_eq!(coming.form(), &on.plain);
        off.check_tls().unwrap_err();
        on.note(true).unwrap();
        for plan in [&on, &coming] {
            assert_eq!(plan.form(), secure);
            assert!(!plan.may_move());
        }
        let error = off.check_tls().unwrap_err().to_string();
        assert!(
            error.contains("off = true") && !error.contains("rm "),
            "{error}"
        );
        fs::remove_dir_all(&home).unwrap();
        // With TLS from the beginning on, and in an etcd that was told otherwise.
        begin(&on, on.form_of(&Beginning::New));
        assert_eq!(on.form(), secure);
        fs::remove_dir_all(&home).unwrap();
        let joining = Beginning::Joining {
            initial: String::new(),
            has_tls: false,
        };
        begin(&on, on.form_of(&joining));
        assert_eq!((on.form(), on.form_of(&joining)), (&on.plain, &on.plain));
    }

    /// It is told before a directory is taken and a log begun.
    #[test]
    fn a_program_that_is_missing_is_told_at_once() {
        let section = EtcdSection {
            program: Some("/nowhere/etcd".into()),
            ..section()
        };
        let plan = Plan::of_machine(
            &section,
            ClusterId(7),
            "n2",
            Path::new("/d"),
            &MemberTls::Off,
        );
        let error = plan.unwrap_err().to_string();
        assert!(error.contains("start /nowhere/etcd"), "{error}");
    }

    #[test]
    fn a_program_is_found_where_path_says() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(find_in(folder.path().as_os_str()), None);
        fs::write(folder.path().join("etcd"), "").unwrap();
        let paths = std::env::join_paths([Path::new("/nowhere"), folder.path()]).unwrap();
        assert_eq!(find_in(&paths), Some(folder.path().join("etcd")));
    }
}
