//! What encryption between nodes costs: a demo with TLS beside one without, under the same mirrored writes.
//!
//! `cargo bench -p holdfast-e2e --bench tls -- [OPTION]...`:
//!
//! - `--rounds N`: measurements of each, 3 unless told otherwise;
//! - `--seconds N`: how long each takes, 4 unless told otherwise;
//! - `--json FILE`: every figure of every run.
//!
//! In turn, and the other one first in each other round: a demo is made, filled, measured with each load and removed, then one of the
//! other kind. Nothing is judged here but the aim: processors of all nodes together, for a write, those with TLS by those without.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use holdfast_e2e::arguments::Repeated;
use holdfast_e2e::figures::{Aim, Bound, Spread, micros, rounded, say};
use holdfast_e2e::process::processor_time;
use holdfast_e2e::{Demo, DemoOptions, figures, scenario};
use holdfast_lab::bench::{self, BenchConfig};
use serde_json::json;
use tokio::runtime::{Builder, Runtime};

const HOST: &str = "iqn.2026-11.io.holdfast.e2e:tls";
const VOLUME: &str = "demo";
/// Commands under way while the volume is filled, and of how many bytes.
const FILL_DEPTH: usize = 8;
const FILL_BYTES: u32 = 256 << 10;
/// What does not count before each measurement.
const WARM_UP: Duration = Duration::from_secs(1);
/// What TLS may cost.
const RATIO_MAX: f64 = 1.25;

struct Load {
    name: &'static str,
    bytes: u32,
    depth: usize,
}

const LOADS: [Load; 4] = [
    Load {
        name: "write-4k-1",
        bytes: 4 << 10,
        depth: 1,
    },
    Load {
        name: "write-4k-32",
        bytes: 4 << 10,
        depth: 32,
    },
    Load {
        name: "write-256k-1",
        bytes: 256 << 10,
        depth: 1,
    },
    Load {
        name: "write-256k-8",
        bytes: 256 << 10,
        depth: 8,
    },
];

/// One measurement.
struct Sample {
    per_second: f64,
    p50_us: f64,
    /// Of all processes that serve, for a write.
    cpu_us: f64,
}

/// A figure's name, and what it is of a sample.
type Figure = (&'static str, fn(&Sample) -> f64);

const FIGURES: [Figure; 3] = [
    ("iops", |it| it.per_second),
    ("p50_us", |it| it.p50_us),
    ("cpu_us", |it| it.cpu_us),
];

fn main() -> Result<()> {
    let options = Repeated::of_process(4)?;
    let runtime = Builder::new_current_thread().enable_all().build()?;
    // By load; without TLS, then with it.
    let mut samples = LOADS.map(|_| [Vec::new(), Vec::new()]);
    for round in 0..options.rounds {
        let is_odd = round % 2 == 1;
        for secure in [is_odd, !is_odd] {
            let demo = DemoOptions {
                secure,
                volumes: vec!["demo:1GiB:mirror2"],
                ..DemoOptions::default()
            };
            scenario(demo, |demo| {
                let volume = fill(&runtime, demo)?;
                for (load, samples) in LOADS.iter().zip(&mut samples) {
                    let sample = measure(&runtime, demo, &volume, load, options.span, round)?;
                    samples[usize::from(secure)].push(sample);
                }
                Ok(())
            });
        }
    }
    let mut results = Vec::new();
    for (load, [plain, secure]) in LOADS.iter().zip(&samples) {
        say(&format!("\n{}", load.name))?;
        for (name, figure) in FIGURES {
            let figures = |samples: &[Sample]| samples.iter().map(figure).collect::<Vec<f64>>();
            let (without, with) = (figures(plain), figures(secure));
            let spread = |it: &[f64]| Spread::of(it.iter().copied()).expect("there is a round");
            let ratios: Vec<f64> = with.iter().zip(&without).map(|(a, b)| a / b).collect();
            say(&format!(
                "  {name:<8} without {:>10.1}  with {:>10.1}  with / without {}",
                spread(&without).median,
                spread(&with).median,
                spread(&ratios)
            ))?;
            let runs = |it: &[f64]| it.iter().map(|it| rounded(*it)).collect::<Vec<f64>>();
            results.push(json!({
                "load": load.name, "figure": name, "without": runs(&without), "with": runs(&with),
            }));
            if name == "cpu_us" {
                let aim = Aim {
                    what: format!("{}: cpu_us with TLS / without", load.name),
                    bound: Bound::AtMost(RATIO_MAX),
                    ratio: spread(&ratios).median,
                };
                say(&format!("  {aim}"))?;
                results.push(aim.json());
            }
        }
    }
    if let Some(path) = &options.json {
        let head = json!({ "rounds": options.rounds, "seconds": options.span.as_secs() });
        figures::write(path, "tls", &head, &results)?;
    }
    Ok(())
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

fn measure(
    runtime: &Runtime,
    demo: &Demo,
    volume: &BenchConfig,
    load: &Load,
    span: Duration,
    round: u32,
) -> Result<Sample> {
    let run = |duration| {
        let config = BenchConfig {
            command_bytes: load.bytes,
            reads_percent: 0,
            depth: load.depth,
            duration,
            seed: u64::from(round) + 1,
            ..volume.clone()
        };
        let report = runtime.block_on(bench::run(config));
        report.with_context(|| format!("measure {}", load.name))
    };
    let served = || -> Result<Duration> {
        let mut sum = processor_time(demo.parent_pid()?)?;
        for node in &demo.file().nodes {
            sum += processor_time(node.pid)?;
        }
        Ok(sum)
    };
    run(WARM_UP)?;
    let before = served()?;
    let report = run(span)?;
    let took = served()?.saturating_sub(before);
    let latencies = report.latencies();
    ensure!(latencies.count() > 0, "nothing was done");
    Ok(Sample {
        per_second: report.commands_per_second(),
        p50_us: micros(latencies.percentile(50.0)),
        cpu_us: micros(took) / latencies.count() as f64,
    })
}
