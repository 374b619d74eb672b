//! `holdfast-sim`: runs seeds, and replays those that failed.

use std::fs;
use std::io::{self, IsTerminal, Write};
use std::ops::{ControlFlow, Range};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use holdfast_sim::campaign::{Campaign, Summary, go};
use holdfast_sim::failure::Failed;
use holdfast_sim::profile::Profile;
use holdfast_sim::run::{Report, run};
use holdfast_sim::trace::Trace;

const HELP: &str = "\
Run the cluster in the simulator.

Usage: holdfast-sim --seed N [--profile NAME] [--trace]
       holdfast-sim --seeds A..B [--profile NAME] [--jobs N] [--stop]
                    [--progress] [--coverage] [--json] [--resume FILE]

  --profile NAME  what the runs are meant for: short, long or beyond
                  (without it: short); a seed means another run in each

  --seed N        run one seed
  --trace         print what happens

  --seeds A..B    run the seeds from A to before B
  --jobs N        run so many at a time (without it: one for each core)
  --stop          stop at the first that fails
  --progress      tell every ten seconds how far it is
  --coverage      print what was reached how often, and what never
  --json          print the summary as JSON
  --resume FILE   keep the summary in FILE, and go on from there next time
";

/// Between two looks at how far it is, and two savings of the summary.
const PROGRESS: Duration = Duration::from_secs(10);
/// Seeds at a time: more than any machine has cores.
const JOBS_MAX: usize = 1024;

#[derive(Debug, Default)]
struct Options {
    profile: Profile,
    seed: Option<u64>,
    trace: bool,
    seeds: Option<Range<u64>>,
    jobs: Option<usize>,
    stop: bool,
    progress: bool,
    coverage: bool,
    json: bool,
    resume: Option<PathBuf>,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some(options) = parse(&arguments) else {
        let _ = io::stderr().write_all(HELP.as_bytes());
        return ExitCode::from(2);
    };
    // The panic of a machine is told once, with its seed.
    std::panic::set_hook(Box::new(|_| {}));
    let passed = match (options.seed, &options.seeds) {
        (Some(seed), _) => Ok(one(options.profile, seed, options.trace)),
        (None, Some(seeds)) => many(seeds, &options),
        (None, None) => Ok(false),
    };
    match passed {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(what) => {
            let _ = writeln!(io::stderr(), "error: {what}");
            ExitCode::from(2)
        }
    }
}

fn parse(arguments: &[String]) -> Option<Options> {
    let mut options = Options::default();
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        match argument.as_str() {
            "--profile" => options.profile = rest.next()?.parse().ok()?,
            "--seed" => options.seed = Some(rest.next()?.parse().ok()?),
            "--seeds" => {
                let (from, to) = rest.next()?.split_once("..")?;
                options.seeds = Some(from.parse().ok()?..to.parse().ok()?);
            }
            "--jobs" => {
                let jobs = rest.next()?.parse().ok()?;
                options.jobs = Some(jobs).filter(|jobs| (1..=JOBS_MAX).contains(jobs));
                options.jobs?;
            }
            "--resume" => options.resume = Some(rest.next()?.into()),
            "--trace" => options.trace = true,
            "--stop" => options.stop = true,
            "--progress" => options.progress = true,
            "--coverage" => options.coverage = true,
            "--json" => options.json = true,
            _ => return None,
        }
    }
    let of_many = options.stop
        || options.progress
        || options.coverage
        || options.json
        || options.jobs.is_some()
        || options.resume.is_some();
    let fits = match (&options.seed, &options.seeds) {
        (Some(_), None) => !of_many,
        (None, Some(_)) => !options.trace,
        _ => false,
    };
    fits.then_some(options)
}

fn one(profile: Profile, seed: u64, trace: bool) -> bool {
    let trace = if trace {
        let mut out = io::BufWriter::new(io::stdout());
        Trace::Print(Box::new(move |line| {
            // Whoever reads may have seen enough.
            let _ = writeln!(out, "{line}");
        }))
    } else {
        Trace::Off
    };
    let result = run(profile, seed, trace);
    tell(profile, seed, &result);
    result.is_ok()
}

fn many(seeds: &Range<u64>, options: &Options) -> Result<bool, String> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let campaign = Campaign {
        profile: options.profile,
        first: seeds.start,
        end: seeds.end,
        jobs: options.jobs.unwrap_or(cores),
        stop: options.stop,
    };
    let file = options.resume.as_deref();
    let mut summary = match file {
        Some(file) => kept(file, &campaign)?,
        None => Summary::new(campaign.profile, campaign.first),
    };
    let shows = options.progress || io::stderr().is_terminal();
    let (begun, before) = (Instant::now(), summary.next);
    let mut looked = begun;
    let mut trouble = None;
    go(&campaign, &mut summary, |summary, seed, result| {
        if result.is_err() {
            tell(campaign.profile, seed, result);
        }
        if looked.elapsed() < PROGRESS {
            return ControlFlow::Continue(());
        }
        looked = Instant::now();
        if shows {
            progress(&campaign, summary, summary.next - before, begun.elapsed());
        }
        trouble = file.and_then(|file| keep(file, summary).err());
        if trouble.is_some() {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    });
    if let Some(what) = trouble {
        return Err(what);
    }
    if let Some(file) = file {
        keep(file, &summary)?;
    }
    conclude(&summary, options);
    Ok(summary.failed.is_empty())
}

fn conclude(summary: &Summary, options: &Options) {
    let mut out = io::stdout();
    let _ = writeln!(io::stderr(), "{summary}");
    if options.json {
        let text = serde_json::to_string_pretty(summary).expect("a summary is JSON");
        let _ = writeln!(out, "{text}");
        return;
    }
    if options.coverage {
        let _ = write!(out, "{}", summary.coverage);
    }
    let (passed, count) = (summary.passed, summary.count());
    let _ = writeln!(out, "{passed} of {count} seeds passed");
}

fn progress(campaign: &Campaign, summary: &Summary, count: u64, time: Duration) {
    let rate = count as f64 / time.as_secs_f64() * 60.0;
    let _ = writeln!(
        io::stderr(),
        "{} of {} seeds, {} failed, {rate:.0} a minute",
        summary.count(),
        campaign.end - campaign.first,
        summary.failed.len()
    );
}

/// The summary that was kept, if there is one and it is of this campaign.
fn kept(file: &Path, campaign: &Campaign) -> Result<Summary, String> {
    let name = file.display();
    let text = match fs::read_to_string(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Ok(Summary::new(campaign.profile, campaign.first));
        }
        Err(error) => return Err(format!("read {name}: {error}")),
        Ok(text) => text,
    };
    let summary: Summary = serde_json::from_str(&text).map_err(|error| {
        format!(
            "read {name}: {error}\n\nhint: it is not a summary that this program has written; name another file"
        )
    })?;
    let fits = summary.profile == campaign.profile
        && summary.first == campaign.first
        && (summary.first..=campaign.end).contains(&summary.next);
    if !fits {
        return Err(format!(
            "{name} is about seeds from {} to before {} of the profile {}\n\nhint: give the same first \
             seed and profile, and a later end, or name another file",
            summary.first, summary.next, summary.profile
        ));
    }
    Ok(summary)
}

/// Keeps the summary: all of the new one or all of the old one, whatever happens meanwhile.
fn keep(file: &Path, summary: &Summary) -> Result<(), String> {
    let text = serde_json::to_string(summary).expect("a summary is JSON");
    let mut name = file.as_os_str().to_owned();
    name.push(".new");
    let fresh = PathBuf::from(name);
    fs::write(&fresh, text)
        .and_then(|()| fs::rename(&fresh, file))
        .map_err(|error| format!("write {}: {error}", file.display()))
}

fn tell(profile: Profile, seed: u64, result: &Result<Report, Failed>) {
    let mut out = io::stderr();
    let _ = match result {
        Ok(report) => writeln!(out, "seed {seed} passed: {report}"),
        Err(Failed { failure, at }) => writeln!(
            out,
            "seed {seed} failed at {at}: {failure}\n\nhint: cargo run --release -p holdfast-sim -- \
             --profile {profile} --seed {seed} --trace"
        ),
    };
}
