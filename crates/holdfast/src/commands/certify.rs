//! `holdfast certify`: whether a shared disk does what clusters of hosts need.

use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use holdfast_api::ApiClient;
use holdfast_api::documents::{NodeState, VolumeSummary};
use holdfast_certify::{
    ChapAccount, ChapSecret, CheckReport, IscsiName, Lun, Options, Outcome, Report, StartError,
    Timing, all_checks, report, run as carry_out,
};
use holdfast_control::{LUN_MAX, VolumeName};
use tokio::net::lookup_host;
use tokio::time::{Instant, sleep};

use super::client;
use super::initiator::read_secret;
use crate::cli::Global;
use crate::demo::Signals;
use crate::failure::Failure;
use crate::output::Output;

/// What the names of the three hosts begin with.
const INITIATOR: &str = "iqn.2026-11.io.holdfast:certify";
/// How old it may be what nodes tell of sessions: those of a run that has just ended are told still.
const TOLD_WITHIN: Duration = Duration::from_secs(5);
const TELL_PAUSE: Duration = Duration::from_millis(250);
/// How often it is told how far a run is whose report says at the end what came of each check.
const COUNT_INTERVAL: Duration = Duration::from_secs(5);
/// Exit codes: a check failed; nothing was checked, or not all of it.
const FAILED: u8 = 1;
const NOT_CHECKED: u8 = 2;

#[derive(Args, Debug)]
pub(crate) struct CertifyArguments {
    /// A volume of the cluster that --api names
    #[arg(
        required_unless_present = "portal",
        conflicts_with_all = ["portal", "target", "lun"]
    )]
    volume: Option<VolumeName>,
    /// Where a target is, HOST:PORT, whoever made it; several are several paths, and the target is asked for more
    #[arg(long, value_name = "HOST:PORT", requires = "target")]
    portal: Vec<String>,
    /// The target's iSCSI name
    #[arg(long, value_name = "IQN", requires = "portal", value_parser = iscsi_name)]
    target: Option<IscsiName>,
    /// The unit's number there [default: 0]
    #[arg(long, requires = "portal", value_parser = clap::value_parser!(u16).range(0..=i64::from(LUN_MAX)))]
    lun: Option<u16>,
    /// What the names of the three hosts that it plays begin with; -a, -b and -c follow. Where a volume is not open,
    /// they have to be allowed
    #[arg(long, value_name = "IQN", default_value = INITIATOR, value_parser = iscsi_name)]
    initiator: IscsiName,
    /// The CHAP name that all three say [default: what --initiator says]
    #[arg(long, value_name = "NAME", requires = "chap_secret_file")]
    chap_name: Option<String>,
    /// The file with the secret that they prove themselves by
    #[arg(long, value_name = "FILE")]
    chap_secret_file: Option<PathBuf>,
    /// What the shell is to run in the middle, with a reservation held and a host that writes: it restarts a node, or
    /// takes a path away, and ends when that is done
    #[arg(long, value_name = "COMMAND")]
    restart: Option<String>,
    /// Also if the unit holds data, or hosts use it: 16 MiB in its middle are OVERWRITTEN, and all registrations ended
    #[arg(long)]
    destroy_data: bool,
    /// The form of the report
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Where the report goes; what people need to know is told on stdout then
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// The form of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    // What they are says the documentation.
    Text,
    Json,
    Html,
}

impl Format {
    fn of(self, report: &Report) -> String {
        match self {
            Self::Text => report::text(report),
            Self::Json => report::json(report),
            Self::Html => report::html(report),
        }
    }
}

pub(crate) async fn run(
    global: &Global,
    output: &Output,
    arguments: CertifyArguments,
) -> Result<(), Failure> {
    certify(global, output, &arguments)
        .await
        .map_err(|failure| match failure.is_told() {
            true => failure,
            false => failure.exit(NOT_CHECKED),
        })
}

async fn certify(
    global: &Global,
    output: &Output,
    arguments: &CertifyArguments,
) -> Result<(), Failure> {
    let options = options(global, output, arguments).await?;
    // Before minutes are spent on what cannot be told.
    let file = arguments.output.as_ref().map(|path| {
        let file = File::create(path);
        file.map_err(|error| Failure::new(format!("write {}: {error}", path.display())))
    });
    let file = file.transpose()?;
    let mut signals = Signals::listen()?;
    let mut meanwhile = Meanwhile::new(io::stdout().is_terminal() && io::stderr().is_terminal());
    let progress = |report: &CheckReport| {
        if let Some(line) = meanwhile.line(report, Instant::now()) {
            output.talk(&line);
        }
    };
    let report = carry_out(options, signals.next(), progress)
        .await
        .map_err(|error| refused(&error))?;
    let format = match output.is_for_programs() {
        true => Format::Json,
        false => arguments.format,
    };
    match file {
        None => output.print(&format.of(&report))?,
        Some(mut file) => {
            let written = file.write_all(arguments.format.of(&report).as_bytes());
            let other = match output.is_for_programs() {
                true => Format::Json,
                false => Format::Text,
            };
            // Whatever became of the file: nothing else tells what came of the checks.
            output.print(&other.of(&report))?;
            written.map_err(|error| Failure::new(format!("write the report: {error}")))?;
        }
    }
    judged(&report)
}

/// What the run comes to: which exit code.
fn judged(report: &Report) -> Result<(), Failure> {
    let counts = report.counts();
    let code = match (counts.failed, counts.not_run) {
        _ if report.interrupted => NOT_CHECKED,
        (0, 0) if report.left_behind.is_none() => return Ok(()),
        (0, _) => NOT_CHECKED,
        _ => FAILED,
    };
    Err(Failure::new("not everything passed").told().exit(code))
}

/// What is told while checks are carried out.
struct Meanwhile {
    /// Whoever reads this reads the report below it, which tells of each check: it is only counted here.
    counts: bool,
    done: usize,
    told: Option<Instant>,
}

impl Meanwhile {
    const fn new(counts: bool) -> Self {
        Self {
            counts,
            done: 0,
            told: None,
        }
    }

    /// What is told of a check that has ended, if anything is.
    fn line(&mut self, report: &CheckReport, now: Instant) -> Option<String> {
        self.done += 1;
        if !self.counts {
            return Some(progress_line(report));
        }
        let is_recent = |told: Instant| now.saturating_duration_since(told) < COUNT_INTERVAL;
        if self.told.is_some_and(is_recent) {
            return None;
        }
        self.told = Some(now);
        let (done, all) = (self.done, all_checks().count());
        Some(format!("{done} of {all} checks have ended"))
    }
}

fn progress_line(report: &CheckReport) -> String {
    let outcome = report.outcome.id();
    let what = match &report.outcome {
        Outcome::Failed { seen, .. } => format!(": {seen}"),
        Outcome::Warning { warning } => format!(": {warning}"),
        _ => String::new(),
    };
    let took = report.took.as_secs_f64();
    format!("{outcome:<15} {} ({took:.1} s){what}", report.check.id)
}

/// Why nothing was checked.
fn refused(error: &StartError) -> Failure {
    let failure = Failure::new(error);
    match error {
        StartError::InUse(_) => failure.hint(
            "name one that holds nothing and that nobody uses; --destroy-data takes it all the same: \
             16 MiB in its middle are overwritten, and all registrations ended",
        ),
        StartError::NoPath(_) => failure.hint(
            "where a volume is not open, allow the hosts: --initiator says what their names begin with, and -a, -b and -c \
             follow; where they have to prove who they are, --chap-name and --chap-secret-file say by what",
        ),
        StartError::Name | StartError::Unusable(_) | StartError::TooSmall(_) => failure,
    }
}

/// What the run is told.
async fn options(
    global: &Global,
    output: &Output,
    arguments: &CertifyArguments,
) -> Result<Options, Failure> {
    let (portals, target, lun) = match &arguments.volume {
        Some(volume) => of_volume(global, volume, arguments.destroy_data).await?,
        None => {
            let target = arguments.target.clone();
            let target = target.expect("the command line wants it");
            (
                arguments.portal.clone(),
                target,
                arguments.lun.unwrap_or_default(),
            )
        }
    };
    let mut addresses = Vec::new();
    for portal in &portals {
        addresses.push(address(portal).await?);
    }
    Ok(Options {
        portals: addresses,
        target,
        lun: Lun::from_number(lun),
        initiator: arguments.initiator.clone(),
        chap: chap(arguments, output)?,
        restart: arguments.restart.clone(),
        destroys: arguments.destroy_data,
        timing: Timing::SCALED,
        seed: seed()?,
    })
}

/// A name of other makers' targets, some of which have letters that names of ours do not.
fn iscsi_name(text: &str) -> Result<IscsiName, String> {
    IscsiName::parse(text).map_err(|error| error.to_string())
}

async fn address(portal: &str) -> Result<SocketAddr, Failure> {
    let mut found = lookup_host(portal)
        .await
        .map_err(|error| Failure::new(format!("portal {portal}: {error}")))?;
    let first = found.next();
    first.ok_or_else(|| Failure::new(format!("portal {portal}: the name has no address")))
}

/// Where a volume is: the portals of the nodes that are up, its target, its number.
async fn of_volume(
    global: &Global,
    volume: &VolumeName,
    destroys: bool,
) -> Result<(Vec<String>, IscsiName, u16), Failure> {
    let client = client(global);
    let mut summary = summary(&client, volume).await?;
    let deadline = Instant::now() + TOLD_WITHIN;
    while summary.sessions > 0 && !destroys && Instant::now() < deadline {
        sleep(TELL_PAUSE).await;
        summary = self::summary(&client, volume).await?;
    }
    if summary.sessions > 0 && !destroys {
        let sessions = holdfast_stdx::Count::of(summary.sessions, "session");
        let what = format!("hosts have {sessions} with the target of volume {volume}");
        return Err(Failure::new(what).hint(
            "name one that nobody uses; --destroy-data takes it all the same: 16 MiB in its middle are overwritten, and \
             all registrations ended",
        ));
    }
    let nodes = client.nodes().await?.nodes.into_iter();
    let portals = nodes
        .filter(|node| node.state == NodeState::Up)
        .map(|node| node.portal);
    let portals: Vec<String> = portals.collect();
    match portals.is_empty() {
        true => Err(Failure::new("no node is up")),
        false => {
            let target = iscsi_name(&summary.target)
                .map_err(|error| Failure::new(format!("target {}: {error}", summary.target)))?;
            Ok((portals, target, summary.lun))
        }
    }
}

async fn summary(client: &ApiClient, volume: &VolumeName) -> Result<VolumeSummary, Failure> {
    chosen(client.volumes().await?.volumes, volume)
}

fn chosen(volumes: Vec<VolumeSummary>, volume: &VolumeName) -> Result<VolumeSummary, Failure> {
    let mut volumes = volumes.into_iter();
    let found = volumes.find(|summary| summary.name == volume.as_str());
    found.ok_or_else(|| {
        Failure::new(format!("there is no volume {volume}")).hint(
            "`holdfast volume list` names them, `holdfast volume create` makes one; a disk of another maker is named by --portal and \
             --target",
        )
    })
}

fn chap(arguments: &CertifyArguments, output: &Output) -> Result<Option<ChapAccount>, Failure> {
    let Some(file) = &arguments.chap_secret_file else {
        return Ok(None);
    };
    let secret = ChapSecret::new(read_secret(file, output)?.0.as_bytes());
    let secret = secret
        .map_err(|error| Failure::new(format!("the secret in {}: {error}", file.display())))?;
    let own = || arguments.initiator.as_str().to_owned();
    Ok(Some(ChapAccount {
        name: arguments.chap_name.clone().unwrap_or_else(own),
        secret,
    }))
}

/// What makes keys, and the hosts' ports, those of this run.
fn seed() -> Result<u64, Failure> {
    let mut bytes = [0; 8];
    let filled = getrandom::fill(&mut bytes);
    filled.map_err(|error| Failure::new(format!("draw a key: {error}")))?;
    Ok(u64::from_ne_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_reads_the_report_below_is_told_only_how_many_checks_have_ended() {
        let check = all_checks().next().unwrap();
        let report = CheckReport {
            check,
            outcome: Outcome::Passed {
                note: String::new(),
            },
            took: Duration::ZERO,
        };
        let begun = Instant::now();
        let mut each = Meanwhile::new(false);
        for _ in 0..2 {
            let line = each.line(&report, begun).unwrap();
            assert!(line.contains(check.id), "{line}");
        }
        let mut counted = Meanwhile::new(true);
        let told =
            [0, 1, 5].map(|seconds| counted.line(&report, begun + Duration::from_secs(seconds)));
        let all = all_checks().count();
        let line = |done| Some(format!("{done} of {all} checks have ended"));
        assert_eq!(told, [line(1), None, line(3)]);
    }

    #[test]
    fn a_volume_that_is_not_there_is_told_with_what_to_do() {
        let name = "nothing".parse().unwrap();
        let refused = chosen(Vec::new(), &name).unwrap_err().to_string();
        assert!(
            refused.starts_with("there is no volume nothing"),
            "{refused}"
        );
        assert!(refused.contains("`holdfast volume list`"), "{refused}");
    }
}
