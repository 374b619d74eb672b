//! `holdfast-sim`: runs seeds, and replays those that failed.

use std::io::{self, Write};
use std::ops::Range;
use std::process::ExitCode;

use holdfast_sim::failure::Failed;
use holdfast_sim::run::{Report, run};
use holdfast_sim::tally::Tally;
use holdfast_sim::trace::Trace;

const HELP: &str = "\
Run the cluster in the simulator.

Usage: holdfast-sim --seed N [--trace]
       holdfast-sim --seeds A..B [--stop]

  --seed N      run one seed
  --trace       print what happens
  --seeds A..B  run the seeds from A to before B
  --stop        stop at the first that fails
";

enum Wanted {
    One { seed: u64, trace: bool },
    Many { seeds: Range<u64>, stop: bool },
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some(wanted) = parse(&arguments) else {
        let _ = io::stderr().write_all(HELP.as_bytes());
        return ExitCode::from(2);
    };
    // The panic of a machine is told once, with its seed.
    std::panic::set_hook(Box::new(|_| {}));
    let passed = match wanted {
        Wanted::One { seed, trace } => one(seed, trace),
        Wanted::Many { seeds, stop } => many(seeds, stop),
    };
    if passed {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn parse(arguments: &[String]) -> Option<Wanted> {
    let (mut seed, mut seeds) = (None, None);
    let (mut trace, mut stop) = (false, false);
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        match argument.as_str() {
            "--seed" => seed = Some(rest.next()?.parse().ok()?),
            "--seeds" => {
                let (from, to) = rest.next()?.split_once("..")?;
                seeds = Some(from.parse().ok()?..to.parse().ok()?);
            }
            "--trace" => trace = true,
            "--stop" => stop = true,
            _ => return None,
        }
    }
    match (seed, seeds) {
        (Some(seed), None) if !stop => Some(Wanted::One { seed, trace }),
        (None, Some(seeds)) if !trace => Some(Wanted::Many { seeds, stop }),
        _ => None,
    }
}

fn one(seed: u64, trace: bool) -> bool {
    let trace = if trace {
        let mut out = io::BufWriter::new(io::stdout());
        Trace::Print(Box::new(move |line| {
            // Whoever reads may have seen enough.
            let _ = writeln!(out, "{line}");
        }))
    } else {
        Trace::Off
    };
    let result = run(seed, trace);
    tell(seed, &result);
    result.is_ok()
}

fn many(seeds: Range<u64>, stop: bool) -> bool {
    let (mut count, mut failed) = (0u64, 0u64);
    let (mut commands, mut repeated) = (0u64, 0u64);
    let mut tally = Tally::default();
    for seed in seeds {
        let result = run(seed, Trace::Off);
        count += 1;
        match &result {
            Ok(report) => {
                commands += report.hosts.done;
                repeated += report.hosts.repeated;
                tally.add(&report.tally);
            }
            Err(_) => {
                failed += 1;
                tell(seed, &result);
                if stop {
                    break;
                }
            }
        }
    }
    let _ = writeln!(
        io::stderr(),
        "{commands} commands, {repeated} of them repeated; {tally}"
    );
    let _ = writeln!(io::stdout(), "{} of {count} seeds passed", count - failed);
    failed == 0
}

fn tell(seed: u64, result: &Result<Report, Failed>) {
    let mut out = io::stderr();
    let _ = match result {
        Ok(report) => writeln!(out, "seed {seed} passed: {report}"),
        Err(Failed { failure, at }) => writeln!(
            out,
            "seed {seed} failed at {at}: {failure}\n\nhint: cargo run --release -p holdfast-sim -- \
             --seed {seed} --trace"
        ),
    };
}
