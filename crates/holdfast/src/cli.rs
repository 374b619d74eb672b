//! The command line. It is a contract: other tools rely on it.

use std::path::PathBuf;
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{Args, CommandFactory, Parser, Subcommand};
use holdfast_api::client::{ApiUrl, UrlError};
use holdfast_api::documents::STALLS_DEFAULT;
use holdfast_control::{IscsiNodeName, LUN_MAX, VolumeName, VolumeSize, VolumeSizeError};
use holdfast_model::{ByteSize, Policy};
use holdfast_tls::{Connector, Credentials};

use crate::commands::alarm::AlarmCommand;
use crate::commands::audit::AuditArguments;
use crate::commands::certify::CertifyArguments;
use crate::commands::device::DeviceCommand;
use crate::commands::events::EventArguments;
use crate::commands::history::HistoryArguments;
use crate::commands::initiator::InitiatorCommand;
use crate::commands::log::LogArguments;
use crate::commands::receiver::ReceiverCommand;
use crate::commands::retention::RetentionCommand;
use crate::commands::security::SecurityCommand;
use crate::commands::settings::SettingsCommand;
use crate::commands::support::SupportArguments;
use crate::commands::token::TokenCommand;
use crate::commands::user::UserCommand;
use crate::demo::DemoOptions;
use crate::inspect::InspectArguments;
use crate::manual::ManArguments;
use crate::recover::RecoverCommand;

/// A virtual SAN: pool the disks of a few servers into highly available volumes, served over iSCSI
#[derive(Debug, Parser)]
#[command(name = "holdfast", version, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What help calls them: a command's own come first.
const GLOBAL: &str = "Options of every command";

/// Options of every command.
#[derive(Args, Debug)]
pub(crate) struct Global {
    /// Print exactly one JSON value
    #[arg(long, global = true, help_heading = GLOBAL)]
    pub(crate) json: bool,
    /// Where the cluster's API answers; several are tried in turn [default: http://127.0.0.1:7460, https with --ca or --credentials]
    // Read when it is needed: what is in the environment is no matter of those who do not ask an API.
    #[arg(
        long,
        global = true,
        help_heading = GLOBAL,
        env = "HOLDFAST_API",
        value_name = "URL",
        value_delimiter = ','
    )]
    api: Vec<String>,
    /// The certificate of the cluster's authority, by which its nodes are known over https
    #[arg(
        long,
        global = true,
        help_heading = GLOBAL,
        env = "HOLDFAST_CA",
        value_name = "FILE",
        hide_env_values = true
    )]
    ca: Option<PathBuf>,
    /// The credentials of a node, by which it may administer its cluster: its certificate is shown
    #[arg(
        long,
        global = true,
        help_heading = GLOBAL,
        env = "HOLDFAST_CREDENTIALS",
        value_name = "DIR",
        hide_env_values = true
    )]
    credentials: Option<PathBuf>,
    /// Tell HOLDFAST_TOKEN to other machines over http:// as well: whoever listens on the way has it then
    #[arg(long, global = true, help_heading = GLOBAL)]
    pub(crate) token_over_http: bool,
}

/// Where the demo's API answers if nothing else is said, without TLS, and over it where it is said whom to trust.
const API_DEFAULT: &str = "http://127.0.0.1:7460";
const API_DEFAULT_TRUSTED: &str = "https://127.0.0.1:7460";

impl Global {
    /// Where the API answers; ends the process if that makes no sense. An empty variable counts as none.
    pub(crate) fn api(&self) -> Vec<ApiUrl> {
        let named = self.api.iter().map(|url| url.trim());
        let is_none = named.clone().all(str::is_empty);
        let trusts = named_path(self.ca.as_ref()).or(named_path(self.credentials.as_ref()));
        let default = trusts.map_or(API_DEFAULT, |_| API_DEFAULT_TRUSTED);
        let urls = named.filter(|_| !is_none).chain(is_none.then_some(default));
        let urls = urls.map(|url| {
            url.parse().unwrap_or_else(|error: UrlError| {
                let what = format!("--api, or HOLDFAST_API: {error}");
                usage(None, ErrorKind::ValueValidation, &what)
            })
        });
        urls.collect()
    }

    /// What the API is trusted by, and shown; ends the process if it cannot be read. An empty variable counts as none.
    pub(crate) fn connector(&self) -> Option<Connector> {
        let read = if let Some(directory) = named_path(self.credentials.as_ref()) {
            Credentials::read(directory)
                .map(|credentials| Connector::of_machine(&credentials))
                .map_err(|error| format!("--credentials, or HOLDFAST_CREDENTIALS: {error}"))
        } else {
            let file = named_path(self.ca.as_ref())?;
            Connector::of_authority(file).map_err(|error| format!("--ca, or HOLDFAST_CA: {error}"))
        };
        Some(read.unwrap_or_else(|what| usage(None, ErrorKind::ValueValidation, &what)))
    }
}

/// A path that is given and not empty.
fn named_path(path: Option<&PathBuf>) -> Option<&PathBuf> {
    path.filter(|path| !path.as_os_str().is_empty())
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a whole cluster on this machine, in the foreground
    Demo(DemoOptions),
    /// Run a node, or list, admit, drain and remove the nodes of the cluster
    Node(NodeArguments),
    /// List, add, drain, replace and remove the devices of a node
    Device {
        #[command(subcommand)]
        command: DeviceCommand,
    },
    /// Run a witness, in the foreground: a member of etcd beside two nodes, and nothing else
    Witness {
        /// The file that describes it
        #[arg(long, value_name = "FILE")]
        config: PathBuf,
    },
    /// Tell how the cluster is
    ///
    /// The command succeeds when the cluster has told, however it is; `health` in the output of --json is what to ask for.
    /// It fails (1) when nobody answers, or the metadata cannot be read. With --check it ends with 3 when the cluster is not well,
    /// as `upgrade-check` does where the answer is no.
    Status {
        /// End with 3 unless the cluster is healthy and every volume has all its copies
        #[arg(long)]
        check: bool,
        /// For every volume that is not healthy: what is wrong, what is waited for, and what you may do
        #[arg(long)]
        explain: bool,
    },
    /// List, make, show, grow, scrub and delete volumes
    ///
    /// A volume is a virtual disk that hosts reach over iSCSI at every node. It is cut into slices of 4 GiB,
    /// each with as many copies on different nodes as its policy says. Room is taken by what is written.
    Volume {
        #[command(subcommand)]
        command: VolumeCommand,
    },
    /// List the initiators that are on record, put one there, and forget one
    ///
    /// An initiator is a host, by its iSCSI name. A volume that is not open is for those that `volume allow` names.
    Initiator {
        #[command(subcommand)]
        command: InitiatorCommand,
    },
    /// List, make, change and remove users: people who log in at the console
    User {
        #[command(subcommand)]
        command: UserCommand,
    },
    /// List, make and revoke tokens: what programs show, and this command line, from HOLDFAST_TOKEN
    Token {
        #[command(subcommand)]
        command: TokenCommand,
    },
    /// Tell who this command line is to the cluster, and what that one may
    Whoami,
    /// List what was changed through the interface, by whom and from where, and what was refused
    Audit(AuditArguments),
    /// List the times in which commands waited and none was done, and why
    Stalls(StallArguments),
    /// Show how fast volumes, nodes or devices were
    ///
    /// IOPS, bytes and latencies in steps of time, of all nodes together. Each second is kept for an hour, ten seconds for a day, five
    /// minutes for 30 days, an hour for a year.
    History(HistoryArguments),
    /// Tell what happened, the newest first, or with --follow what changes: health, nodes, devices, syncs, volumes, settings, alarms
    ///
    /// The node that steers the cluster puts down what changes, whether somebody looks or not, and others keep copies.
    Events(EventArguments),
    /// List long work under way: syncs, moves, drains, scrubs
    Tasks {
        /// Call one off, by what the list calls it; what has been done of it stays done
        #[arg(long, value_name = "TASK")]
        cancel: Option<String>,
    },
    /// List alarms, take note of them, and set when they are raised
    ///
    /// An alarm is raised when something is wrong for long enough to be told to somebody, and is over by itself.
    Alarm {
        #[command(subcommand)]
        command: AlarmCommand,
    },
    /// List, set, try and remove who is told of alarms, by mail or by an HTTP request
    Receiver {
        #[command(subcommand)]
        command: ReceiverCommand,
    },
    /// Show and change the cluster's settings
    Settings {
        #[command(subcommand)]
        command: SettingsCommand,
    },
    /// Show what nodes keep of the audit log, of events and of the performance history, and change how much
    Retention {
        #[command(subcommand)]
        command: RetentionCommand,
    },
    /// Check whether a shared disk does what clusters of hosts need
    ///
    /// It plays three hosts, each with a session on every path, and tries what Windows Server failover clusters, VMware,
    /// Pacemaker with fence_scsi or fence_mpath, and Linux with dm-multipath rely on. It wants a unit that holds nothing and
    /// that nobody uses, writes to 16 MiB in its middle, and leaves zeros there. It ends with 0 if nothing failed, with 1 if
    /// something did, with 2 if it could not be tried.
    Certify(CertifyArguments),
    /// Look into a node's devices, while the node does not run
    Inspect(InspectArguments),
    /// Make the cluster's metadata again, if it is lost for good, from what the nodes' devices say
    Recover {
        #[command(subcommand)]
        command: RecoverCommand,
    },
    /// Tell whether a rolling upgrade to this program may begin now, or go on with the next node
    ///
    /// It is for the program that is to be installed: it asks all nodes which versions they run, and whether every volume is in sync, every
    /// node and every member of etcd answers, and nobody is in maintenance. It changes nothing. It ends with 0 if the next node may be taken, or all nodes
    /// run this version; with 3 if that would take something from hosts, or these versions do not run side by side; with 1 if it could not be found out.
    UpgradeCheck,
    /// Make a cluster's authority and the credentials of its machines, for TLS
    Security {
        #[command(subcommand)]
        command: SecurityCommand,
    },
    /// Put together what somebody needs who helps: how the cluster is and was, and each node's log, in one file
    ///
    /// A tar.gz of documents and logs, with configurations, and without secrets: look at it before you send it. What could not be had, because
    /// a node is down for example, is in it as `missing.txt`.
    SupportBundle(SupportArguments),
    /// Print what a shell needs to complete the words of this program
    ///
    /// For bash into `/usr/share/bash-completion/completions/holdfast`, for zsh into a file `_holdfast` in a directory of `fpath`, for
    /// fish into `~/.config/fish/completions/holdfast.fish`. For one session: `source <(holdfast completions bash)`.
    #[command(arg_required_else_help = true)]
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Write manual pages of all commands, or print their reference
    Man(ManArguments),
}

/// `node --config FILE` runs a node; `node list` is a command.
#[derive(Args, Debug)]
#[command(arg_required_else_help = true)]
pub(crate) struct NodeArguments {
    /// Run the node that this file describes, in the foreground
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Means nothing: services of earlier versions have it. A member of etcd runs beside the node where the section
    /// `[etcd]` of its file names this machine, and only there
    #[arg(long, requires = "config", hide = true)]
    #[allow(dead_code, reason = "it is accepted, and means nothing any more")]
    with_etcd: bool,
    #[command(subcommand)]
    command: Option<NodeSubcommand>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum NodeSubcommand {
    /// List the nodes of the cluster
    ///
    /// `WORK/S` is what hosts have the replicas on a node do in a second, as a mean over some minutes: each read and each write that
    /// one takes part in counts, and each 64 KiB of them as much again. Who leads what is evened out by it. `TO MOVE` is what has to
    /// go from the node, or to be rebuilt elsewhere in its place; `TO SEND` and `TO RECEIVE` are what it has to bring to others, and
    /// to be brought.
    List,
    /// Show a node, and what is on it
    Show {
        /// The node's name
        name: String,
    },
    /// Admit a node that has registered: from now on it is given replicas
    Add {
        /// The node's name
        name: String,
        /// Where it stands: copies are kept on different sites, as far as there are any
        #[arg(long)]
        site: Option<String>,
    },
    /// Move everything away from a node, while it is in use
    Drain {
        /// The node's name
        name: String,
        /// Wait until nothing is left on it; to interrupt that does not end the drain
        #[arg(long)]
        wait: bool,
        /// What is still there may stay after all
        #[arg(long, conflicts_with = "wait")]
        cancel: bool,
    },
    /// Put a node aside before its machine is worked on, or take it back
    ///
    /// On: the node hands over what it leads, and is given nothing new, and nothing of it is rebuilt elsewhere
    /// however long it is off. When it is stopped then, what hosts write to volumes of which it has a copy waits
    /// for a fraction of a second, until that copy is left out. This is refused where a volume would stop
    /// without it. Off: what it has missed is copied to it, and it leads again.
    Maintenance {
        /// On before the work, off after it
        switch: Switch,
        /// The node's name
        name: String,
    },
    /// Remove a node on which nothing is from the cluster
    Remove {
        /// The node's name
        name: String,
    },
    /// Show at which level a node writes into its log, or have it write more, or less, for a time
    ///
    /// It falls back to what is configured (`log.level`) by itself, and when it starts. What is written is not shown here: the log is
    /// `node.log` in the node's directory on its machine, /var/lib/holdfast unless its file says otherwise, and of a demo's n1 `n1` in the
    /// demo's directory. `holdfast support-bundle --nodes NAME` fetches the end of it.
    Log(LogArguments),
}

/// What is on or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Switch {
    // What that means says the argument: here it would stand in every help.
    On,
    Off,
}

/// Seconds, as people write a span of time.
pub(crate) fn seconds(text: &str) -> Result<u64, String> {
    let good = || "a time is a number and s, m, h or d, for example 90s".to_owned();
    let (number, unit) = text
        .split_at_checked(text.len().wrapping_sub(1))
        .ok_or_else(good)?;
    let factor = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 60 * 60,
        "d" => 24 * 60 * 60,
        _ => return Err(good()),
    };
    let number: u64 = number.parse().map_err(|_| good())?;
    number.checked_mul(factor).ok_or_else(good)
}

/// What `node` is to do.
#[derive(Debug)]
pub(crate) enum NodeCommand {
    /// Run the node that this file describes.
    Run(PathBuf),
    /// Ask the cluster, or change it.
    Ask(NodeSubcommand),
}

impl NodeArguments {
    /// What is to be done; ends the process if that makes no sense.
    pub(crate) fn chosen(self) -> NodeCommand {
        match (self.config, self.command) {
            (Some(config), None) => NodeCommand::Run(config),
            (None, Some(command)) => NodeCommand::Ask(command),
            (Some(_), Some(_)) => usage(
                Some("node"),
                ErrorKind::ArgumentConflict,
                "--config runs a node, and goes with no other command",
            ),
            (None, None) => usage(
                Some("node"),
                ErrorKind::MissingRequiredArgument,
                "--config FILE, or a command such as list, is missing",
            ),
        }
    }
}

/// Tells that the command line makes no sense, and ends the process with 2. How the subcommand is used
/// is told; how `holdfast` is, if there is none.
pub(crate) fn usage(subcommand: Option<&str>, kind: ErrorKind, what: &str) -> ! {
    let mut all = Cli::command();
    all.build();
    let found = subcommand.and_then(|name| all.find_subcommand_mut(name));
    match found {
        Some(subcommand) => subcommand.error(kind, what).exit(),
        None => all.error(kind, what).exit(),
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum VolumeCommand {
    /// List the volumes: size, policy, health, target, sessions
    List {
        /// With what hosts did with each in the last five seconds: IOPS, throughput, latency
        #[arg(long)]
        traffic: bool,
    },
    /// Make a volume, and wait until every node serves it
    ///
    /// One that is there already, with the same size and policy, is nothing new.
    Create(VolumeCreateArguments),
    /// Show a volume: who leads each slice, who is in sync, what the last scrub found
    Show {
        /// The volume's name
        name: VolumeName,
    },
    /// Show the sessions that are paths to a volume, and which of them hosts are told to prefer
    Sessions {
        /// The volume's name
        name: VolumeName,
    },
    /// Show the persistent reservations of a volume: who is registered with which key, and who holds it
    Reservations {
        /// The volume's name
        name: VolumeName,
    },
    /// Give a volume more bytes, while it is in use
    ///
    /// Hosts see the new size when they ask for it (on Linux: `iscsiadm -m session --rescan`). Volumes do not
    /// shrink.
    Grow {
        /// The volume's name
        name: VolumeName,
        /// Its new size, and not what is added: for example 8GiB
        #[arg(value_parser = size)]
        size: VolumeSize,
    },
    /// Read all of a volume now, mend what is bad, and compare its copies
    Scrub {
        /// The volume's name
        name: VolumeName,
        /// Wait for the end, and fail if something could not be mended
        #[arg(long)]
        wait: bool,
    },
    /// Let an initiator use a volume, and nobody else who is not allowed
    ///
    /// Sessions of others with a volume that was open until now end at once. What LUN it has does not change.
    Allow {
        /// The volume's name
        volume: VolumeName,
        /// The initiator's iSCSI name
        initiator: IscsiNodeName,
    },
    /// Take a volume from an initiator: its sessions end at once
    Disallow {
        /// The volume's name
        volume: VolumeName,
        /// The initiator's iSCSI name
        initiator: IscsiNodeName,
    },
    /// Open a volume to everybody, as new volumes are
    Open {
        /// The volume's name
        volume: VolumeName,
    },
    /// Delete a volume with ALL ITS DATA; refused while hosts have sessions with it
    ///
    /// At a terminal it asks first; elsewhere it wants `--yes`.
    Delete {
        /// The volume's name
        name: VolumeName,
        /// Do not ask
        #[arg(long)]
        yes: bool,
        /// Also if initiators have sessions with its target: they lose it
        #[arg(long)]
        force: bool,
    },
}

#[derive(Args, Debug)]
pub(crate) struct VolumeCreateArguments {
    /// Its name: 1 to 63 lower-case letters, digits, '-' and '.'
    pub(crate) name: VolumeName,
    /// Its size, for example 4GiB: a multiple of 4KiB, 64TiB at most
    #[arg(value_parser = size)]
    pub(crate) size: VolumeSize,
    /// How many copies it has, each on a node of its own: none (1), mirror2, mirror3 or mirror4. The last two go on as
    /// long as two copies are left
    #[arg(long, default_value_t = Policy::Mirror2)]
    pub(crate) policy: Policy,
    /// The iSCSI name of the target that it is to be a unit of, which may have others [default: one of its own]
    #[arg(long, value_name = "IQN")]
    pub(crate) target: Option<IscsiNodeName>,
    /// Its logical unit number there, 0 to 255 [default: 0]
    #[arg(long, value_parser = clap::value_parser!(u16).range(0..=i64::from(LUN_MAX)))]
    pub(crate) lun: Option<u16>,
}

#[derive(Args, Debug)]
pub(crate) struct StallArguments {
    /// Of this volume only
    pub(crate) volume: Option<VolumeName>,
    /// Of the last so many seconds, minutes, hours or days, for example 90s, 15m, 6h, 7d
    #[arg(long, value_name = "AGE", value_parser = age)]
    pub(crate) since: Option<Duration>,
    /// How many at most, the newest first; each node keeps 1,024
    #[arg(long, default_value_t = STALLS_DEFAULT, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) limit: u32,
    /// Each initiator's as well, not only those in which nobody was served at a portal
    #[arg(long)]
    pub(crate) initiators: bool,
}

/// A span of time as people write it.
pub(crate) fn age(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text:?} is no span of time such as 90s, 15m, 6h or 7d");
    let unit = text.chars().last().ok_or_else(wrong)?;
    let seconds = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3600,
        'd' => 86_400,
        _ => return Err(wrong()),
    };
    let count: u64 = text[..text.len() - 1].parse().map_err(|_| wrong())?;
    count
        .checked_mul(seconds)
        .map(Duration::from_secs)
        .ok_or_else(wrong)
}

/// A number of bytes as people write it.
pub(crate) fn byte_size(text: &str) -> Result<u64, String> {
    let size = text.parse();
    size.map(|ByteSize(bytes)| bytes)
        .map_err(|error: holdfast_model::size::SizeError| error.to_string())
}

/// A volume's size as people write it.
pub(crate) fn size(text: &str) -> Result<VolumeSize, String> {
    let bytes = byte_size(text)?;
    VolumeSize::new(bytes).map_err(|error| {
        let has_no_unit = text.bytes().all(|letter| letter.is_ascii_digit());
        match error {
            VolumeSizeError::NotWhole { below: 0, .. } if has_no_unit => {
                format!("{error}: write {text}GiB, if that is what is meant")
            }
            _ => error.to_string(),
        }
    })
}

/// A volume as the demo is told of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct VolumeSpec {
    pub(crate) name: VolumeName,
    pub(crate) size: VolumeSize,
    pub(crate) policy: Policy,
}

impl std::str::FromStr for VolumeSpec {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts: Vec<_> = text.split(':').collect();
        let [name, bytes, policy] = parts[..] else {
            return Err("a volume is NAME:SIZE:POLICY, for example demo:4GiB:mirror2".to_owned());
        };
        Ok(Self {
            name: name
                .parse()
                .map_err(|error: holdfast_control::NameError| error.to_string())?,
            size: size(bytes)?,
            policy: policy
                .parse()
                .map_err(|error: holdfast_model::policy::UnknownPolicy| error.to_string())?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Cli, ErrorKind> {
        Cli::try_parse_from(line.split(' ')).map_err(|error| error.kind())
    }

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn who_forgets_the_unit_is_told_what_to_write() {
        assert_eq!(size("2GiB").unwrap().bytes(), 2 << 30);
        let refused = size("2").unwrap_err();
        assert!(refused.ends_with("write 2GiB, if that is what is meant"));
        for text in ["2KiB", "2B", "8193", "0"] {
            let refused = size(text).err();
            assert!(refused.is_none_or(|it| !it.contains("write")), "{text}");
        }
    }

    #[test]
    fn help_has_a_commands_own_options_first() {
        let mut all = Cli::command();
        all.build();
        for name in ["demo", "status", "stalls"] {
            let command = all.find_subcommand_mut(name).unwrap();
            let help = command.render_long_help().to_string();
            let (own, every) = help.split_once(GLOBAL).unwrap();
            assert!(own.contains("--help"), "{own}");
            for option in [
                "--json",
                "--api",
                "--ca",
                "--credentials",
                "--token-over-http",
            ] {
                let has = |text: &str| {
                    let mut lines = text.lines();
                    lines.any(|line| line.split_whitespace().next() == Some(option))
                };
                assert!(has(every) && !has(own), "{option}: {help}");
            }
        }
    }

    #[test]
    fn global_options_go_anywhere() {
        let api: ApiUrl = "http://127.0.0.1:9".parse().unwrap();
        for line in [
            "holdfast --json --api http://127.0.0.1:9 status",
            "holdfast status --json --api http://127.0.0.1:9",
            "holdfast --json volume --api http://127.0.0.1:9 show demo",
            "holdfast volume show demo --api http://127.0.0.1:9 --json",
            "holdfast node --json list --api http://127.0.0.1:9",
        ] {
            let cli = parsed(line).unwrap();
            assert!(cli.global.json, "{line}");
            assert_eq!(cli.global.api(), std::slice::from_ref(&api), "{line}");
        }
        let cli = parsed("holdfast status --api http://127.0.0.1:9,http://127.0.0.1:8").unwrap();
        assert_eq!(cli.global.api().len(), 2);
        assert_eq!(
            parsed("holdfast status").unwrap().global.api(),
            ["http://127.0.0.1:7460".parse().unwrap()]
        );
    }

    #[test]
    fn a_node_runs_or_is_listed() {
        let chosen = |line| match parsed(line).unwrap().command {
            Command::Node(node) => node.chosen(),
            other => panic!("it is about nodes, not {other:?}"),
        };
        let asks = |line| match chosen(line) {
            NodeCommand::Ask(command) => command,
            NodeCommand::Run(_) => panic!("it asks"),
        };
        assert!(matches!(asks("holdfast node list"), NodeSubcommand::List));
        // The second is that of earlier versions' services.
        for line in [
            "holdfast node --config /d/n1/node.toml",
            "holdfast node --config /d/n1/node.toml --with-etcd",
        ] {
            match chosen(line) {
                NodeCommand::Run(config) => {
                    assert_eq!(config, PathBuf::from("/d/n1/node.toml"));
                }
                NodeCommand::Ask(_) => panic!("it runs"),
            }
        }
        match asks("holdfast node drain n1 --cancel") {
            NodeSubcommand::Drain { name, wait, cancel } => {
                assert!(name == "n1" && cancel && !wait);
            }
            other => panic!("it drains, not {other:?}"),
        }
        let both = parsed("holdfast node drain n1 --wait --cancel").unwrap_err();
        assert_eq!(both, ErrorKind::ArgumentConflict);
        match asks("holdfast node maintenance on n1") {
            NodeSubcommand::Maintenance { switch, name } => {
                assert!(name == "n1" && switch == Switch::On);
            }
            other => panic!("it is put aside, not {other:?}"),
        }
    }

    #[test]
    fn settings_are_read() {
        let line = "holdfast settings set --repair-delay 30m --rebalance off \
                    --background-slowdown 25 --background-floor 64MiB --scrub-interval 7d \
                    --scrub-rate 8MiB";
        match parsed(line).unwrap().command {
            Command::Settings {
                command: SettingsCommand::Set(set),
            } => {
                assert_eq!(set.repair_delay, Some(1800));
                assert_eq!(set.rebalance, Some(Switch::Off));
                assert_eq!(set.background_slowdown, Some(25));
                assert_eq!(set.background_floor, Some(64 << 20));
                assert_eq!(set.scrub_interval, Some(7 * 24 * 60 * 60));
                assert_eq!(set.scrub_rate, Some(8 << 20));
            }
            other => panic!("it sets, not {other:?}"),
        }
        let nothing = parsed("holdfast settings set").unwrap_err();
        assert_eq!(nothing, ErrorKind::MissingRequiredArgument);
        for bad in [
            "",
            "s",
            "5",
            "5 m",
            "-5s",
            "5w",
            "18446744073709551615h",
            "5\u{e9}",
        ] {
            assert!(seconds(bad).is_err(), "{bad}");
        }
        assert_eq!(seconds("2d"), Ok(172_800));
    }

    #[test]
    fn ages_are_read() {
        for (text, seconds) in [("90s", 90), ("15m", 900), ("6h", 21_600), ("7d", 604_800)] {
            assert_eq!(age(text), Ok(Duration::from_secs(seconds)));
        }
        for text in [
            "",
            "s",
            "5",
            "-1s",
            "5 m",
            "1w",
            "18446744073709551615d",
            "1µ",
        ] {
            assert!(age(text).unwrap_err().contains("15m"), "{text}");
        }
        match parsed("holdfast stalls demo --since 1h --limit 5 --initiators")
            .unwrap()
            .command
        {
            Command::Stalls(stalls) => {
                assert_eq!((stalls.limit, stalls.initiators), (5, true));
                assert_eq!(stalls.since, Some(Duration::from_secs(3600)));
            }
            other => panic!("it is about stalls, not {other:?}"),
        }
        assert!(parsed("holdfast stalls --limit 0").is_err());
        for fits in [
            "",
            " --volume a --initiator iqn.x",
            " --initiator iqn.x",
            " --node n1 --device 2",
            " --tier flash",
        ] {
            assert!(parsed(&format!("holdfast history{fits} --last 1d --step 5m")).is_ok());
        }
        for wrong in [
            "--node n1 --initiator iqn.x",
            "--tier flash --initiator iqn.x",
            "--device 2",
            "--volume a --node n1",
            "--tier disk",
        ] {
            assert!(
                parsed(&format!("holdfast history {wrong}")).is_err(),
                "{wrong}"
            );
        }
    }

    #[test]
    fn volumes_are_read() {
        let spec: VolumeSpec = "demo:4GiB:mirror2".parse().unwrap();
        assert_eq!((spec.size.bytes(), spec.policy), (4 << 30, Policy::Mirror2));
        for (text, says) in [
            ("demo", "NAME:SIZE:POLICY"),
            ("demo:4GiB", "NAME:SIZE:POLICY"),
            ("demo:4GiB:mirror2:x", "NAME:SIZE:POLICY"),
            ("Demo:4GiB:mirror2", "lower-case"),
            ("demo:4G:mirror2", "units"),
            ("demo:5000:mirror2", "4096 and 8192"),
            ("demo:0:mirror2", "at least one block"),
            ("demo:65TiB:mirror2", "at most 64TiB"),
            ("demo:4GiB:raid5", "mirror4"),
        ] {
            let error = text.parse::<VolumeSpec>().unwrap_err();
            assert!(error.contains(says), "{text}: {error}");
        }
        match parsed("holdfast volume create a 1GiB --policy none")
            .unwrap()
            .command
        {
            Command::Volume {
                command: VolumeCommand::Create(create),
            } => {
                assert_eq!(
                    (create.size.bytes(), create.policy),
                    (1 << 30, Policy::None)
                );
            }
            other => panic!("it makes a volume, not {other:?}"),
        }
        assert_eq!(
            parsed("holdfast volume create a").unwrap_err(),
            ErrorKind::MissingRequiredArgument
        );
    }
}
