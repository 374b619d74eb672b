//! What history and metrics cost a node that has all to do that it can: reads and writes, and a scrape every 15 s.
//!
//! `cargo bench -p holdfast-e2e --bench history -- [OPTION]...`:
//!
//! - `--without PROGRAM`: a build that counts and keeps nothing, to be compared with; without it only the parts are told that can
//!   be told apart in one program;
//! - `--rounds N`: measurements of each, 3 unless told otherwise;
//! - `--seconds N`: how long each takes, 30 unless told otherwise: two scrapes;
//! - `--json FILE`: every figure of every run.
//!
//! In turn, and the other one first in each other round: a demo is made, filled, measured with each load and removed. One is scraped,
//! all of its nodes every 15 s as Prometheus does by default; the other is not, and is that of `--without` where there is one.
//! Nothing is judged here but the aim: processors of all nodes together, for a command, those of the first by those of the other.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use holdfast_e2e::arguments::Arguments;
use holdfast_e2e::figures::{Aim, Bound, Spread, micros, rounded, say};
use holdfast_e2e::process::processor_time;
use holdfast_e2e::{Demo, DemoOptions, figures, scenario};
use holdfast_lab::bench::{self, BenchConfig};
use serde_json::json;
use tokio::runtime::{Builder, Runtime};

const HOST: &str = "iqn.2026-11.io.holdfast.e2e:history";
const VOLUME: &str = "demo";
/// Commands under way while the volume is filled, and of how many bytes.
const FILL_DEPTH: usize = 8;
const FILL_BYTES: u32 = 256 << 10;
/// What does not count before each measurement.
const WARM_UP: Duration = Duration::from_secs(1);
/// Prometheus' usual interval.
const SCRAPE_EACH: Duration = Duration::from_secs(15);
/// The thread that writes the history down.
const THREAD: &str = "history";
/// What both may cost.
const RATIO_MAX: f64 = 1.02;

struct Load {
    name: &'static str,
    bytes: u32,
    reads_percent: u64,
    depth: usize,
}

const LOADS: [Load; 3] = [
    Load {
        name: "mixed-4k-32",
        bytes: 4 << 10,
        reads_percent: 70,
        depth: 32,
    },
    Load {
        name: "write-4k-32",
        bytes: 4 << 10,
        reads_percent: 0,
        depth: 32,
    },
    Load {
        name: "read-4k-32",
        bytes: 4 << 10,
        reads_percent: 100,
        depth: 32,
    },
];

/// One measurement.
struct Sample {
    per_second: f64,
    /// Of all nodes, for a command.
    cpu_us: f64,
    /// What of that the history's threads had, in thousandths.
    thread: f64,
    /// Answers of nodes that were asked for their metrics.
    scrapes: u32,
    /// What each of them took, at most.
    scrape_ms: f64,
}

/// A figure's name, and what it is of a sample.
type Figure = (&'static str, fn(&Sample) -> f64);

const FIGURES: [Figure; 5] = [
    ("iops", |it| it.per_second),
    ("cpu_us", |it| it.cpu_us),
    ("thread_permille", |it| it.thread),
    ("scrapes", |it| it.scrapes.into()),
    ("scrape_ms", |it| it.scrape_ms),
];

fn main() -> Result<()> {
    let mut arguments = Arguments::of_process();
    let without = arguments.text("--without").map(PathBuf::from);
    let rounds = arguments.number("--rounds", 3, 100)?;
    let span = arguments.seconds(30, 120)?;
    let json = arguments.json();
    arguments.end()?;
    let runtime = Builder::new_current_thread().enable_all().build()?;
    // By load; without, then with it.
    let mut samples = LOADS.map(|_| [Vec::new(), Vec::new()]);
    for round in 0..rounds {
        let is_odd = round % 2 == 1;
        for scraped in [is_odd, !is_odd] {
            let demo = DemoOptions {
                // Prometheus keeps its connections: what a handshake costs is not what is looked for.
                secure: false,
                volumes: vec!["demo:1GiB:mirror2"],
                program: without.clone().filter(|_| !scraped),
                ..DemoOptions::default()
            };
            scenario(demo, |demo| {
                let volume = fill(&runtime, demo)?;
                for (load, samples) in LOADS.iter().zip(&mut samples) {
                    let sample = measure(&runtime, demo, &volume, load, (span, scraped, round))?;
                    samples[usize::from(scraped)].push(sample);
                }
                Ok(())
            });
        }
    }
    let results = tell(&samples)?;
    if let Some(path) = &json {
        let head = json!({
            "rounds": rounds,
            "seconds": span.as_secs(),
            "compared": without.is_some(),
        });
        figures::write(path, "history", &head, &results)?;
    }
    Ok(())
}

/// Says what was measured, and gives it as it is written down.
fn tell(samples: &[[Vec<Sample>; 2]]) -> Result<Vec<serde_json::Value>> {
    let mut results = Vec::new();
    for (load, [without, with]) in LOADS.iter().zip(samples) {
        say(&format!("\n{}", load.name))?;
        for (name, figure) in FIGURES {
            let figures = |samples: &[Sample]| samples.iter().map(figure).collect::<Vec<f64>>();
            let (without, with) = (figures(without), figures(with));
            let spread = |it: &[f64]| Spread::of(it.iter().copied()).expect("there is a round");
            say(&format!(
                "  {name:<16} without {:>10.2}  with {:>10.2}",
                spread(&without).median,
                spread(&with).median
            ))?;
            let runs = |it: &[f64]| it.iter().map(|it| rounded(*it)).collect::<Vec<f64>>();
            results.push(json!({
                "load": load.name, "figure": name, "without": runs(&without), "with": runs(&with),
            }));
            if name == "cpu_us" {
                let ratios: Vec<f64> = with.iter().zip(&without).map(|(a, b)| a / b).collect();
                let aim = Aim {
                    what: format!("{}: cpu_us with / without", load.name),
                    bound: Bound::AtMost(RATIO_MAX),
                    ratio: spread(&ratios).median,
                };
                say(&format!("  {aim}, {}", spread(&ratios)))?;
                results.push(aim.json());
            }
        }
    }
    Ok(results)
}

/// Writes all of the volume once. A load on it is what comes back, with nothing said yet of what it does.
fn fill(runtime: &Runtime, demo: &Demo) -> Result<BenchConfig> {
    demo.wait_until_settled(VOLUME)?;
    let volume = demo.bench_config(VOLUME, HOST)?;
    let sweep = BenchConfig {
        command_bytes: FILL_BYTES,
        reads_percent: 0,
        depth: FILL_DEPTH,
        ..volume.clone()
    };
    let swept = runtime.block_on(bench::sweep(sweep));
    swept.context("fill the volume")?;
    Ok(volume)
}

/// What the nodes have had of processors: all of them, and the history's threads.
fn served(demo: &Demo) -> Result<(Duration, Duration)> {
    let (mut all, mut history) = (Duration::ZERO, Duration::ZERO);
    for node in &demo.file().nodes {
        all += processor_time(node.pid)?;
        for thread in fs::read_dir(format!("/proc/{}/task", node.pid))? {
            let thread = thread?.path();
            // One that has ended meanwhile has no name.
            let name = fs::read_to_string(thread.join("comm"));
            if name.is_ok_and(|it| it.trim_end() == THREAD) {
                history += worked(&thread.join("schedstat"))?;
            }
        }
    }
    Ok((all, history))
}

/// For how long a thread has had a processor: to a nanosecond, for a clock's tick is more than this one needs in seconds.
fn worked(schedstat: &Path) -> Result<Duration> {
    let text = fs::read_to_string(schedstat)?;
    let nanoseconds = text.split(' ').next().context("a number")?;
    Ok(Duration::from_nanos(nanoseconds.parse()?))
}

fn measure(
    runtime: &Runtime,
    demo: &Demo,
    volume: &BenchConfig,
    load: &Load,
    (span, is_scraped, round): (Duration, bool, u32),
) -> Result<Sample> {
    let run = |duration| {
        let config = BenchConfig {
            command_bytes: load.bytes,
            reads_percent: load.reads_percent,
            depth: load.depth,
            duration,
            seed: u64::from(round) + 1,
            ..volume.clone()
        };
        let report = runtime.block_on(bench::run(config));
        report.with_context(|| format!("measure {}", load.name))
    };
    run(WARM_UP)?;
    let nodes = demo.file().nodes.iter();
    let nodes: Vec<String> = nodes.map(|it| it.api.replace("http://", "")).collect();
    let (end, ended) = mpsc::channel::<()>();
    let scraper = is_scraped.then(|| thread::spawn(move || scrape(&nodes, &ended)));
    let before = served(demo)?;
    let report = run(span)?;
    let after = served(demo)?;
    drop(end);
    let (scrapes, longest) = match scraper {
        Some(scraper) => scraper.join().expect("a scraper does not panic")?,
        None => (0, Duration::ZERO),
    };
    let took = after.0.saturating_sub(before.0);
    let history = after.1.saturating_sub(before.1);
    ensure!(
        !is_scraped || history > Duration::ZERO,
        "no thread is called {THREAD}, or it does nothing"
    );
    let commands = report.latencies().count();
    ensure!(commands > 0, "nothing was done");
    Ok(Sample {
        per_second: report.commands_per_second(),
        cpu_us: micros(took) / commands as f64,
        thread: history.as_secs_f64() / took.as_secs_f64() * 1000.0,
        scrapes,
        scrape_ms: longest.as_secs_f64() * 1000.0,
    })
}

/// Asks all nodes for their metrics, at once and then every 15 s, until the other end is gone: how often, and what the longest took.
fn scrape(nodes: &[String], ended: &mpsc::Receiver<()>) -> Result<(u32, Duration)> {
    let (mut count, mut longest) = (0, Duration::ZERO);
    loop {
        for node in nodes {
            let begun = Instant::now();
            let mut stream = TcpStream::connect(node)?;
            let ask = format!(
                "GET /metrics HTTP/1.0\r\nhost: {node}\r\naccept: application/openmetrics-text\r\n\r\n"
            );
            stream.write_all(ask.as_bytes())?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer)?;
            ensure!(answer.ends_with("# EOF\n"), "{answer}");
            longest = longest.max(begun.elapsed());
            count += 1;
        }
        if ended.recv_timeout(SCRAPE_EACH) != Err(RecvTimeoutError::Timeout) {
            return Ok((count, longest));
        }
    }
}
