//! Whether a volume goes on as it began: minutes of random writes of 4 KiB at queue depth 32, and what each of them was like.
//!
//! `cargo bench -p holdfast-e2e --bench steady -- [OPTION]...`:
//!
//! - `--minutes N`: 10 unless told otherwise, 3 at least;
//! - `--json FILE`: every figure.
//!
//! The first minute is not what the last one is held against: journals are empty then. Nothing is judged here but the aims.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, ensure};
use holdfast_e2e::arguments::Arguments;
use holdfast_e2e::figures::{Aim, Bound, micros, say};
use holdfast_e2e::{Demo, DemoOptions, figures, scenario};
use holdfast_lab::bench::{self, BenchConfig, BenchReport};
use holdfast_lab::meter::Latencies;
use serde_json::json;
use tokio::runtime::Builder;

const VOLUME: &str = "demo";
const HOST: &str = "iqn.2026-11.io.holdfast.e2e:steady";
const DEPTH: usize = 32;
const COMMAND_BYTES: u32 = 4 << 10;
/// While the volume is filled.
const FILL_BYTES: u32 = 256 << 10;
const FILL_DEPTH: usize = 8;
const MINUTE: Duration = Duration::from_secs(60);
/// One that does not count, one that the last is held against, and the last.
const MINUTES_MIN: u32 = 3;
const MINUTES_MAX: u32 = 24 * 60;
/// What the last minute has of the commands of the second one, at least.
const LAST_TO_SECOND_MIN: f64 = 0.8;
/// p99.9 of all by p50 of all, at most.
const TAIL_RATIO_MAX: f64 = 20.0;

fn main() -> Result<()> {
    let options = Options::parse()?;
    scenario(DemoOptions::default(), |demo| measure(demo, &options));
    Ok(())
}

struct Options {
    minutes: u32,
    json: Option<PathBuf>,
}

impl Options {
    fn parse() -> Result<Self> {
        let mut arguments = Arguments::of_process();
        let options = Self {
            minutes: arguments.number("--minutes", 10, MINUTES_MAX)?,
            json: arguments.json(),
        };
        arguments.end()?;
        let minutes = options.minutes;
        ensure!(
            minutes >= MINUTES_MIN,
            "--minutes is {MINUTES_MIN} at least"
        );
        Ok(options)
    }
}

fn measure(demo: &Demo, options: &Options) -> Result<()> {
    demo.wait_until_settled(VOLUME)?;
    let config = BenchConfig {
        depth: DEPTH,
        command_bytes: COMMAND_BYTES,
        reads_percent: 0,
        duration: MINUTE * options.minutes,
        ..demo.bench_config(VOLUME, HOST)?
    };
    let fill = BenchConfig {
        command_bytes: FILL_BYTES,
        depth: FILL_DEPTH,
        ..config.clone()
    };
    let runtime = Builder::new_current_thread().enable_all().build()?;
    say("filling")?;
    runtime.block_on(bench::sweep(fill))?;
    say(&format!("writing for {} minutes", options.minutes))?;
    let minutes = runtime.block_on(bench::run_in_parts(config, options.minutes))?;

    say("minute      IOPS   p50_us   p99_us  p99.9_us    max_us")?;
    let mut all = Latencies::default();
    let mut results = Vec::new();
    for (index, minute) in minutes.iter().enumerate() {
        let number = index + 1;
        let per_second = minute.commands_per_second();
        say(&line(&number.to_string(), per_second, &minute.writes))?;
        all.add(&minute.writes);
        results.push(json!({
            "minute": number,
            "iops": figures::rounded(per_second),
            "latencies": figures::latencies(&minute.writes),
        }));
    }
    let per_second = all.count() as f64 / (MINUTE * options.minutes).as_secs_f64();
    say(&line("all", per_second, &all))?;
    for aim in aims(&minutes, &all) {
        say(&format!("  {aim}"))?;
        results.push(aim.json());
    }
    if let Some(path) = &options.json {
        let run = json!({
            "minutes": options.minutes,
            "iops": figures::rounded(per_second),
            "latencies": figures::latencies(&all),
        });
        figures::write(path, "steady", &run, &results)?;
    }
    Ok(())
}

fn aims(minutes: &[BenchReport], all: &Latencies) -> [Aim; 2] {
    let rate = |minute: usize| minutes[minute - 1].commands_per_second();
    let [p50, p999] = [50.0, 99.9].map(|percent| all.percentile(percent).as_secs_f64());
    [
        Aim {
            what: "random writes: the last minute / the second".to_owned(),
            bound: Bound::AtLeast(LAST_TO_SECOND_MIN),
            ratio: rate(minutes.len()) / rate(2),
        },
        Aim {
            what: "random writes: p99.9 / p50".to_owned(),
            bound: Bound::AtMost(TAIL_RATIO_MAX),
            ratio: p999 / p50,
        },
    ]
}

fn line(name: &str, per_second: f64, latencies: &Latencies) -> String {
    let [p50, p99, p999] = [50.0, 99.0, 99.9].map(|it| micros(latencies.percentile(it)));
    let max = micros(latencies.max());
    format!("{name:<6} {per_second:>9.0} {p50:>8.0} {p99:>8.0} {p999:>9.0} {max:>9.0}")
}
