//! What a second node on each machine brings: three machines with one node each beside three machines with two, under the same loads
//! on four volumes.
//!
//! `cargo bench -p holdfast-e2e --bench nodes_per_machine -- [OPTION]...`:
//!
//! - `--rounds N`: measurements of each, 3 unless told otherwise;
//! - `--seconds N`: how long each takes, 4 unless told otherwise;
//! - `--json FILE`: every figure of every run.
//!
//! In turn: a cluster is made, filled, measured with each load and removed, then one of the other kind. Machines have the same memory
//! and devices, whether one node has them or two share them.
//!
//! A node's work is that of one thread, its loop, so that a machine with one node has the use of one processor. Where all machines and
//! the load share a few processors, no more of them does more in the same time. But what each loop did is known, and how long it was at
//! it; so it can be reckoned at what rate the first of them would be at it all the time, had each a processor of its own: the *bound*.
//! docs/performance.md says what that does not show. Nothing is judged here but the aim.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use holdfast_e2e::arguments::Repeated;
use holdfast_e2e::figures::{Aim, Bound, Spread, micros, rounded, say};
use holdfast_e2e::process::{processor_time, processor_time_of_threads};
use holdfast_e2e::{Demo, DemoOptions, figures, scenario};
use holdfast_lab::bench::{self, BenchConfig, BenchError};
use holdfast_lab::meter::Latencies;
use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;

const MACHINES: u16 = 3;
/// What is held against each other. Devices and memory of a machine are shared among its nodes: the second has half of each.
const ARRANGEMENTS: [Arrangement; 2] = [
    Arrangement {
        nodes_per_machine: 1,
        device_size: "16GiB",
        cache: "3GiB",
    },
    Arrangement {
        nodes_per_machine: 2,
        device_size: "8GiB",
        cache: "1536MiB",
    },
];
const VOLUMES: [(&str, &str); 4] = [
    ("a", "a:1GiB:mirror2"),
    ("b", "b:1GiB:mirror2"),
    ("c", "c:1GiB:mirror2"),
    ("d", "d:1GiB:mirror2"),
];
const LOADS: [Load; 3] = [
    Load {
        name: "read-4k-32",
        what: "4 KiB random read",
        bytes: 4 << 10,
        reads: 100,
    },
    Load {
        name: "write-4k-32",
        what: "4 KiB random write",
        bytes: 4 << 10,
        reads: 0,
    },
    Load {
        name: "oltp-8k-32",
        what: "8 KiB, 80 of 100 reads",
        bytes: 8 << 10,
        reads: 80,
    },
];
const HOST: &str = "iqn.2026-11.io.holdfast.e2e:machines";
/// Of each volume's only session.
const DEPTH: usize = 32;
/// Commands under way while a volume is filled, or read through.
const SWEEP_DEPTH: usize = 8;
/// Of a command while it is filled: half a page goes through the nodes' journals, which have been written all around by then.
const FILL_BYTES: u32 = 128 << 10;
/// While it is read through: what nodes keep in memory.
const SWEEP_BYTES: u32 = 32 << 10;
/// What does not count before each measurement.
const WARM_UP: Duration = Duration::from_secs(1);
/// What two nodes on a machine can do by what one can, at least.
const RATIO_MIN: f64 = 1.3;

struct Arrangement {
    nodes_per_machine: u16,
    device_size: &'static str,
    cache: &'static str,
}

struct Load {
    name: &'static str,
    what: &'static str,
    bytes: u32,
    reads: u64,
}

fn main() -> Result<()> {
    let options = Repeated::of_process(4)?;
    let runtime = Builder::new_current_thread().enable_all().build()?;
    // By load, by arrangement, by round.
    let mut samples = LOADS.map(|_| ARRANGEMENTS.map(|_| Vec::new()));
    for round in 0..options.rounds {
        for (place, arrangement) in ARRANGEMENTS.iter().enumerate() {
            let demo = DemoOptions {
                nodes: MACHINES * arrangement.nodes_per_machine,
                nodes_per_machine: arrangement.nodes_per_machine,
                device_size: arrangement.device_size,
                cache: Some(arrangement.cache),
                volumes: VOLUMES.map(|(_, volume)| volume).into(),
                ..DemoOptions::default()
            };
            scenario(demo, |demo| {
                let volumes = fill(&runtime, demo)?;
                for (load, samples) in LOADS.iter().zip(&mut samples) {
                    let sample = measure(&runtime, demo, &volumes, load, options.span, round)?;
                    samples[place].push(sample);
                }
                Ok(())
            });
        }
    }
    let mut results = Vec::new();
    for (load, samples) in LOADS.iter().zip(&samples) {
        results.extend(tell(load, samples)?);
    }
    if let Some(path) = &options.json {
        let head = json!({ "rounds": options.rounds, "seconds": options.span.as_secs() });
        figures::write(path, "nodes_per_machine", &head, &results)?;
    }
    Ok(())
}

/// Writes and reads all of every volume once. A load on each is what comes back, with nothing said yet of what it does.
fn fill(runtime: &Runtime, demo: &Demo) -> Result<Vec<BenchConfig>> {
    let mut volumes = Vec::new();
    let mut leaders = Vec::new();
    for (volume, _) in VOLUMES {
        demo.wait_until_settled(volume)?;
        volumes.push(demo.bench_config(volume, HOST)?);
        leaders.push(demo.primary(volume)?);
    }
    let nodes = demo.file().nodes.len();
    let leaders = leaders.join(", ");
    say(&format!(
        "{nodes} nodes on {MACHINES} machines; volumes are led by {leaders}"
    ))?;
    for (command_bytes, reads_percent) in [(FILL_BYTES, 0), (SWEEP_BYTES, 100)] {
        let sweep = |volume: &BenchConfig| BenchConfig {
            command_bytes,
            reads_percent,
            depth: SWEEP_DEPTH,
            ..volume.clone()
        };
        let swept = at_once(runtime, volumes.iter().map(sweep), bench::sweep);
        swept.context("fill the volumes")?;
    }
    Ok(volumes)
}

/// Does the same with several loads at once. What came of each, in no order.
fn at_once<T, F>(
    runtime: &Runtime,
    loads: impl Iterator<Item = BenchConfig>,
    work: fn(BenchConfig) -> F,
) -> Result<Vec<T>>
where
    T: Send + 'static,
    F: Future<Output = Result<T, BenchError>> + Send + 'static,
{
    let done = runtime.block_on(async { loads.map(work).collect::<JoinSet<_>>().join_all().await });
    done.into_iter().map(|done| Ok(done?)).collect()
}

/// How busy a node was, as a part of the time.
struct Busy {
    node: String,
    /// Its process, with what the kernel did for it in threads of its own.
    process: f64,
    /// The one of its threads that was busiest: its loop.
    thread: f64,
}

/// One measurement.
struct Sample {
    per_second: f64,
    latencies: Latencies,
    /// Of all processes that serve, for a command.
    cpu_us: f64,
    nodes: Vec<Busy>,
}

impl Sample {
    /// Commands in a second at which the busiest of the loops would be at work all the time.
    fn bound(&self) -> f64 {
        let shares = self.nodes.iter().map(|it| it.thread);
        self.per_second / shares.fold(0.0, f64::max)
    }

    /// The same if each loop had as much to do.
    fn bound_if_even(&self) -> f64 {
        let shares = self.nodes.iter().map(|it| it.thread);
        self.per_second * self.nodes.len() as f64 / shares.sum::<f64>()
    }
}

/// A figure's name, and what it is of a sample.
type Figure = (&'static str, fn(&Sample) -> f64);

const FIGURES: [Figure; 6] = [
    ("iops", |it| it.per_second),
    ("p50_us", |it| micros(it.latencies.percentile(50.0))),
    ("p99_us", |it| micros(it.latencies.percentile(99.0))),
    ("cpu_us", |it| it.cpu_us),
    ("bound", Sample::bound),
    ("bound_if_even", Sample::bound_if_even),
];

/// What processes had of processors so far.
struct Times {
    parent: Duration,
    nodes: Vec<(Duration, BTreeMap<u32, Duration>)>,
}

impl Times {
    fn now(demo: &Demo) -> Result<Self> {
        let nodes = demo.file().nodes.iter();
        let nodes = nodes.map(|node| {
            let threads = processor_time_of_threads(node.pid)?;
            Ok((processor_time(node.pid)?, threads))
        });
        Ok(Self {
            parent: processor_time(demo.parent_pid()?)?,
            nodes: nodes.collect::<Result<_>>()?,
        })
    }
}

fn measure(
    runtime: &Runtime,
    demo: &Demo,
    volumes: &[BenchConfig],
    load: &Load,
    span: Duration,
    round: u32,
) -> Result<Sample> {
    let run = |duration| {
        let config = |volume: &BenchConfig| BenchConfig {
            command_bytes: load.bytes,
            reads_percent: load.reads,
            depth: DEPTH,
            duration,
            seed: u64::from(round) + 1,
            ..volume.clone()
        };
        let reports = at_once(runtime, volumes.iter().map(config), bench::run);
        reports.with_context(|| format!("measure {}", load.name))
    };
    run(WARM_UP)?;
    let (before, begun) = (Times::now(demo)?, Instant::now());
    let reports = run(span)?;
    let (after, took) = (Times::now(demo)?, begun.elapsed());

    let mut latencies = Latencies::default();
    for report in &reports {
        latencies.add(&report.latencies());
    }
    ensure!(latencies.count() > 0, "nothing was done");
    let mut served = after.parent.saturating_sub(before.parent);
    let mut nodes = Vec::new();
    for ((node, before), after) in demo
        .file()
        .nodes
        .iter()
        .zip(&before.nodes)
        .zip(&after.nodes)
    {
        let process = after.0.saturating_sub(before.0);
        let threads = after.1.iter().map(|(thread, time)| {
            let before = before.1.get(thread).copied().unwrap_or_default();
            time.saturating_sub(before)
        });
        let thread = threads.max().unwrap_or_default();
        served += process;
        nodes.push(Busy {
            node: node.name.clone(),
            process: process.div_duration_f64(took),
            thread: thread.div_duration_f64(took),
        });
    }
    let rates = reports.iter().map(bench::BenchReport::commands_per_second);
    Ok(Sample {
        per_second: rates.sum(),
        cpu_us: micros(served) / latencies.count() as f64,
        latencies,
        nodes,
    })
}

/// Tells what became of a load, and returns it as results.
fn tell(load: &Load, samples: &[Vec<Sample>; 2]) -> Result<Vec<Value>> {
    let mut results = Vec::new();
    let volumes = VOLUMES.len();
    say(&format!(
        "\n{} ({}): {volumes} volumes, each with {DEPTH} at a time",
        load.what, load.name
    ))?;
    let names = FIGURES.map(|(name, _)| format!("{name:>18}")).join("");
    say(&format!("  {:<16}{names}", "nodes a machine"))?;
    for (arrangement, samples) in ARRANGEMENTS.iter().zip(samples) {
        let each = arrangement.nodes_per_machine;
        let medians = FIGURES.map(|(_, figure)| {
            let spread = Spread::of(samples.iter().map(figure));
            let median = spread.expect("there is a round").median;
            let digits = usize::from(median < 100.0);
            format!("{median:>18.digits$}")
        });
        say(&format!("  {each:<16}{}", medians.join("")))?;
        results.push(json_of(load, each, samples));
    }
    let ratios = FIGURES.map(|(_, figure)| {
        let pairs = samples[1].iter().zip(&samples[0]);
        let ratios = pairs.map(|(two, one)| figure(two) / figure(one));
        Spread::of(ratios).expect("there is a round")
    });
    let told = ratios.map(|ratio| format!("{:>18}", ratio.to_string()));
    say(&format!("  {:<16}{}", "two / one", told.join("")))?;
    for samples in samples {
        let last = samples.last().expect("there is a round");
        let busy = last.nodes.iter().map(|it| {
            let Busy {
                node,
                process,
                thread,
            } = it;
            format!("{node} {thread:.2} ({process:.2})")
        });
        let busy: Vec<String> = busy.collect();
        say(&format!("  loops (and processes): {}", busy.join(", ")))?;
    }
    let bound = FIGURES.iter().position(|(name, _)| *name == "bound");
    let aim = Aim {
        what: format!("{}: bound of two nodes on a machine / one", load.name),
        bound: Bound::AtLeast(RATIO_MIN),
        ratio: ratios[bound.expect("it is a figure")].median,
    };
    say(&format!("  {aim}"))?;
    results.push(aim.json());
    Ok(results)
}

fn json_of(load: &Load, nodes_per_machine: u16, samples: &[Sample]) -> Value {
    let mut told = serde_json::Map::new();
    told.insert("load".into(), load.name.into());
    told.insert("nodes_per_machine".into(), nodes_per_machine.into());
    for (name, figure) in FIGURES {
        let runs: Vec<f64> = samples.iter().map(|it| rounded(figure(it))).collect();
        let median = Spread::of(runs.iter().copied()).map(|it| it.median);
        told.insert(name.into(), json!({ "median": median, "runs": runs }));
    }
    for (name, share) in [
        ("busy_loops", (|it| it.thread) as fn(&Busy) -> f64),
        ("busy_processes", |it| it.process),
    ] {
        let runs = samples.iter().map(|sample| {
            let nodes = sample.nodes.iter();
            let shares = nodes.map(|it| (it.node.clone(), rounded(share(it)).into()));
            Value::Object(shares.collect())
        });
        told.insert(name.into(), runs.collect());
    }
    Value::Object(told)
}
