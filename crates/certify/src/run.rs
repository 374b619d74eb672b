//! A run: from finding the paths to clearing up.
//!
//! Invariants:
//! - however a run ends, short of the process, what it has registered is ended and what it wrote is zeros again, or
//!   the report says why not.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use holdfast_iscsi::IscsiName;
use holdfast_stdx::Prng;
use thiserror::Error;

use crate::bench::{A, Bench, HOSTS};
use crate::check::{Check, Outcome, Unmet};
use crate::link::TcpDialer;
use crate::options::Options;
use crate::parse::capacity::Capacity;
use crate::parse::identification::Identification;
use crate::parse::inquiry::Standard;
use crate::parse::pages;
use crate::report::{CheckReport, PathReport, Report, Subject};
use crate::stretch::{Stretch, UNIT_BYTES_MIN};
use crate::{checks, command, discovery, safety, verdict, words};

/// How long all sessions may take to come about.
const CONNECT_PATIENCE: Duration = Duration::from_secs(30);

/// Why nothing was checked.
#[derive(Debug, Error)]
pub enum StartError {
    /// No portal takes a session.
    #[error("no portal takes a session: {0}")]
    NoPath(String),
    /// A name that is too long for hosts' to be made of it.
    #[error("the initiator's name is too long")]
    Name,
    /// The unit does not answer as a disk does.
    #[error("the unit cannot be used: {0}")]
    Unusable(String),
    /// The unit is too small.
    #[error("the unit has {0} bytes, and {min} are needed", min = UNIT_BYTES_MIN)]
    TooSmall(u64),
    /// The unit is in use.
    #[error("the unit is in use: {}", .0.join("; "))]
    InUse(Vec<String>),
}

impl From<Unmet> for StartError {
    fn from(unmet: Unmet) -> Self {
        Self::Unusable(match unmet {
            Unmet::Failed { expected, seen } => format!("expected {expected}; seen: {seen}"),
            Unmet::NotApplicable(reason) | Unmet::Skipped(reason) | Unmet::NotRun(reason) => reason,
        })
    }
}

/// Carries out all checks. `stop` interrupts them; `progress` is told of each that has ended.
///
/// # Errors
/// [`StartError`] if nothing could be checked, or must not be.
pub async fn run(
    options: Options,
    stop: impl Future<Output = ()>,
    mut progress: impl FnMut(&CheckReport),
) -> Result<Report, StartError> {
    let hosts = names(&options.initiator)?;
    let (paths, discovery) = discovery::discover(&options, &hosts[0]).await;
    if paths.is_empty() {
        let why = discovery.unreachable.into_iter();
        let why: Vec<String> = why.map(|(_, why)| why).collect();
        return Err(StartError::NoPath(why.join("; ")));
    }
    let mut prng = Prng::from_seed(options.seed);
    let dialer = TcpDialer {
        target: options.target.clone(),
        hosts,
        paths: paths.clone(),
        run: prng.next_u64() as u32,
        chap: options.chap.clone(),
    };
    let portals = paths.iter().map(|(portal, _)| portal.to_string());
    let portals: Vec<String> = portals.collect();
    let mut bench = Bench::new(
        Arc::new(dialer),
        &portals,
        options.lun,
        options.timing,
        &mut prng,
    );
    bench.discovery = discovery;
    bench.restart.clone_from(&options.restart);
    tokio::pin!(stop);
    let prepared = prepare(&mut bench, options.destroys).await;
    if let Err(error) = prepared {
        for nexus in bench.all() {
            nexus.log_out().await;
        }
        return Err(error);
    }
    let mut subject = Subject::new(options.target.as_str(), options.lun);
    survey(&bench, &mut subject).await?;
    let began_ms = milliseconds();
    let start = Instant::now();
    let (results, interrupted) = carry_out(&mut bench, stop.as_mut(), &mut progress).await;
    let left = bench.leave(interrupted).await;
    let outcomes = results.iter().map(|it| (it.check, it.outcome.clone()));
    let outcomes: Vec<_> = outcomes.collect();
    Ok(Report {
        subject,
        began_ms,
        took: start.elapsed(),
        hosts: verdict::judge(&outcomes),
        checks: results,
        interrupted,
        left_behind: left.err().map(|unmet| StartError::from(unmet).to_string()),
    })
}

/// The hosts' names.
fn names(base: &IscsiName) -> Result<Vec<IscsiName>, StartError> {
    let names = (0..HOSTS).map(|host| {
        let letter = crate::bench::name(host).to_ascii_lowercase();
        IscsiName::parse(&format!("{}-{letter}", base.as_str())).map_err(|_| StartError::Name)
    });
    names.collect()
}

fn milliseconds() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as u64)
}

/// Finds out what the unit is, and whether it may be used.
pub(crate) async fn prepare(bench: &mut Bench, destroys: bool) -> Result<(), StartError> {
    bench.reconnect(CONNECT_PATIENCE).await?;
    for nexus in bench.all() {
        nexus.attentions().await?;
    }
    let first = bench.nexus((A, 0));
    let standard = Standard::parse(&bench.inquiry((A, 0), None).await?).map_err(Unmet::from)?;
    if (standard.qualifier, standard.kind) != (0, 0) {
        let Standard {
            qualifier, kind, ..
        } = standard;
        let text = format!("it is no disk (qualifier {qualifier}, type {kind})");
        return Err(StartError::Unusable(text));
    }
    let data = first.good(command::read_capacity(bench.lun)).await?;
    let capacity = Capacity::parse(&data).map_err(Unmet::from)?;
    if capacity.bytes() < UNIT_BYTES_MIN {
        return Err(StartError::TooSmall(capacity.bytes()));
    }
    bench.capacity = capacity;
    bench.stretch = Stretch::of(&capacity);
    if !destroys {
        let signs = safety::signs_of_use(bench).await?;
        return match signs.is_empty() {
            true => Ok(()),
            false => Err(StartError::InUse(signs)),
        };
    }
    // What others had registered is given up as well.
    let keys = bench.read_keys((A, 0)).await;
    if keys.is_ok_and(|keys| !keys.keys.is_empty()) {
        bench.clear_everything().await?;
    }
    Ok(())
}

/// Who the unit is, and where its paths lead, for the head of the report. What cannot be told is left out.
async fn survey(bench: &Bench, subject: &mut Subject) -> Result<(), StartError> {
    let standard = Standard::parse(&bench.inquiry((A, 0), None).await?).map_err(Unmet::from)?;
    subject.vendor = standard.vendor;
    subject.product = standard.product;
    subject.revision = standard.revision;
    subject.bytes = bench.capacity.bytes();
    subject.block_length = bench.capacity.block_length;
    if let Ok(data) = bench.inquiry((A, 0), Some(0x80)).await
        && let Ok(serial) = pages::serial(&data)
    {
        subject.serial = words::printable(serial.trim_ascii());
    }
    for way in bench.ways(A) {
        let named = match bench.inquiry(way, Some(0x83)).await {
            Ok(data) => Identification::parse(&data).unwrap_or_default(),
            Err(_) => Identification::default(),
        };
        if let Some((_, value)) = named.best() {
            subject.identifier = words::hexadecimal(value);
        }
        subject.paths.push(PathReport {
            portal: bench.paths[way.1].portal.clone(),
            relative_port: named.relative_port(),
            port_group: named.port_group(),
        });
    }
    Ok(())
}

/// Carries out the checks, one after the other. Whether they were interrupted.
pub(crate) async fn carry_out(
    bench: &mut Bench,
    mut stop: impl Future<Output = ()> + Unpin,
    progress: &mut impl FnMut(&CheckReport),
) -> (Vec<CheckReport>, bool) {
    let mut results = Vec::new();
    let mut interrupted = false;
    for check in checks::all() {
        let start = Instant::now();
        let outcome = if interrupted {
            not_run("the run was interrupted")
        } else {
            tokio::select! {
                outcome = one(bench, check) => outcome,
                () = &mut stop => {
                    interrupted = true;
                    not_run("the run was interrupted")
                }
            }
        };
        let result = CheckReport {
            check,
            outcome,
            took: start.elapsed(),
        };
        progress(&result);
        results.push(result);
    }
    (results, interrupted)
}

fn not_run(reason: &str) -> Outcome {
    Outcome::NotRun {
        reason: reason.to_owned(),
    }
}

/// Carries out one check, with everything as it is to find it.
pub(crate) async fn one(bench: &mut Bench, check: &Check) -> Outcome {
    match bench.refresh().await {
        Ok(()) => (check.run)(bench).await.into(),
        Err(Unmet::Failed { expected, seen }) => {
            not_run(&format!("before it: expected {expected}; seen: {seen}"))
        }
        Err(other) => Outcome::from(Err(other)),
    }
}
