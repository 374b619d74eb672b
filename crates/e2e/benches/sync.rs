//! What it costs hosts, and the network, to bring a node up to date that was away.
//!
//! `cargo bench -p holdfast-e2e --bench sync -- [ROUNDS [SLOWDOWN FLOOR]]`: ratios within a round, and their
//! medians; SLOWDOWN and FLOOR as `holdfast settings set` has them, for what they come to.
//! Nothing is judged here; decision 0025 says what was found.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use holdfast_e2e::figures::say;
use holdfast_e2e::host::Host;
use holdfast_e2e::process::{wait_until, wait_with};
use holdfast_e2e::{Demo, DemoOptions, cli, scenario};
use holdfast_lab::verify::{Kind, Ledger, LoadConfig, LoadReport};
use serde_json::Value;
use tokio::task::JoinSet;

const MIB: u64 = 1 << 20;
const KIB: u64 = 1 << 10;
/// The demo's volume, and how much of it is filled before.
const VOLUME_BYTES: u64 = 4 << 30;
const FILLED_BYTES: u64 = 512 * MIB;
/// What changes while the node is away.
const CHANGED_BYTES: u64 = 200 * MIB;
const PIECE: u64 = 4 * KIB;
/// For how long the load is measured without a sync beside it.
const SPAN: Duration = Duration::from_secs(10);
/// How often is looked whether a sync beside a load has ended: each look is a process that hosts would feel.
const LOOK_EVERY: Duration = Duration::from_secs(1);
const SYNC_PATIENCE: Duration = Duration::from_secs(600);

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1).filter(|it| it != "--bench");
    let rounds = arguments.next().map_or(Ok(3), |it| it.parse());
    let rounds: u64 = rounds.context("the first argument is a number of rounds")?;
    let slowdown = arguments.next().unwrap_or_else(|| "10".to_owned());
    let floor = arguments.next().unwrap_or_else(|| "16MiB".to_owned());
    scenario(DemoOptions::default(), |demo| {
        measure(demo, rounds, (&slowdown, &floor))
    });
    Ok(())
}

/// What a load reached.
#[derive(Clone, Copy)]
struct Pace {
    per_second: f64,
    p99: Duration,
    /// Medians: of which kind fewer end says what they wait for.
    read: Duration,
    write: Duration,
}

impl Pace {
    fn of(report: &LoadReport) -> Self {
        let (reads, writes) = (report.kind(Kind::Read), report.kind(Kind::Write));
        Self {
            per_second: report.completed() as f64 / report.elapsed.as_secs_f64(),
            p99: reads
                .latencies
                .percentile(99.0)
                .max(writes.latencies.percentile(99.0)),
            read: reads.latencies.percentile(50.0),
            write: writes.latencies.percentile(50.0),
        }
    }
}

fn measure(demo: &mut Demo, rounds: u64, bounds: (&str, &str)) -> Result<()> {
    let host = Host::open(demo, "demo")?;
    write_all(&host, 0, FILLED_BYTES / MIB, MIB, MIB)?;
    let mut columns: [Vec<f64>; 8] = Default::default();
    say("                                               sync/without       sync/joining")?;
    say("round   moved MiB  sync s  idle KiB  idle s      IOPS     p99     IOPS     p99")?;
    for round in 0..rounds {
        let node = secondary(demo)?;
        let [changed, sync, idle_moved, idle] = by_itself(demo, &host, &node, round)?;
        let [per_second, p99, to_joining, p99_to_joining] =
            beside_load(demo, &host, &node, round, bounds)?;
        let row = [
            changed,
            sync,
            idle_moved,
            idle,
            per_second,
            p99,
            to_joining,
            p99_to_joining,
        ];
        say(&line(&round.to_string(), row))?;
        for (column, value) in columns.iter_mut().zip(row) {
            column.push(value);
        }
    }
    let medians = columns.map(|mut column| {
        column.sort_by(f64::total_cmp);
        column[column.len() / 2]
    });
    say(&line("median", medians))
}

/// Changes what is to be copied to a node that is away.
fn change(host: &Host, offset: u64) -> Result<()> {
    let count = CHANGED_BYTES / PIECE;
    let stride = VOLUME_BYTES / count / PIECE * PIECE;
    write_all(host, offset, count, PIECE, stride)
}

/// A sync that nothing else goes on beside, then one of nothing: MiB and seconds, KiB and seconds.
fn by_itself(demo: &mut Demo, host: &Host, node: &str, round: u64) -> Result<[f64; 4]> {
    let before = moved(demo)?;
    demo.kill(node)?;
    change(host, PIECE * (1 + round))?;
    let sync = bring_back(demo, node)?;
    let changed = (moved(demo)? - before) as f64 / MIB as f64;
    // Nothing changed.
    let before = moved(demo)?;
    demo.kill(node)?;
    std::thread::sleep(Duration::from_secs(10));
    let idle = bring_back(demo, node)?;
    let idle_moved = (moved(demo)? - before) as f64 / KIB as f64;
    Ok([changed, sync.as_secs_f64(), idle_moved, idle.as_secs_f64()])
}

/// Beside a load: before, while a replica joins and is sent next to nothing, while it is brought up to
/// date, and after. Machines are not the same for a minute: what is measured in between is held against
/// the mean of before and after. A node that joins serves no reads, and passes them on: that is not what
/// the sync costs.
fn beside_load(
    demo: &mut Demo,
    host: &Host,
    node: &str,
    round: u64,
    (slowdown, floor): (&str, &str),
) -> Result<[f64; 4]> {
    let mut ledger = host.ledger(7 + round);
    host.clear(&mut ledger)?;
    let (before, mut ledger) = measured(host, ledger)?;
    demo.kill(node)?;
    change(host, PIECE * (9 + round))?;
    // Some of that is where the load writes.
    host.clear(&mut ledger)?;
    background(demo, "1", "1MiB")?;
    demo.start_node(node)?;
    wait_until("the replica joins", SYNC_PATIENCE, || joins(demo, node))?;
    host.wait_for_all_paths()?;
    let (joining, ledger) = measured(host, ledger)?;
    ensure!(joins(demo, node)?, "the replica was not held back");
    let begun = host.load(ledger, config());
    background(demo, slowdown, floor)?;
    let took = wait_with(LOOK_EVERY, "the sync ends", SYNC_PATIENCE, || {
        demo.is_whole("demo")
    })?;
    let (report, ledger) = begun.stop()?;
    let with = Pace::of(&report);
    host.wait_for_all_paths()?;
    let (after, _) = measured(host, ledger)?;
    say(&format!("beside the load it took {took:.1?}"))?;
    for (name, pace) in [
        ("before", before),
        ("joining", joining),
        ("sync", with),
        ("after", after),
    ] {
        let Pace {
            per_second,
            p99,
            read,
            write,
        } = pace;
        say(&format!(
            "  {name:<7} {per_second:>6.0} IOPS  p99 {p99:.2?}  p50 reads {read:.2?}, writes {write:.2?}"
        ))?;
    }
    Ok([
        2.0 * with.per_second / (before.per_second + after.per_second),
        2.0 * with.p99.as_secs_f64() / (before.p99 + after.p99).as_secs_f64(),
        with.per_second / joining.per_second,
        with.p99.as_secs_f64() / joining.p99.as_secs_f64(),
    ])
}

fn config() -> LoadConfig {
    LoadConfig {
        depth: 8,
        reads: 70,
        writes: 30,
        unmaps: 0,
        write_sames: 0,
        command_bytes_max: 8 << 10,
        ..LoadConfig::default()
    }
}

/// What a load reaches by itself.
fn measured(host: &Host, ledger: Ledger) -> Result<(Pace, Ledger)> {
    let begun = host.load(ledger, config());
    std::thread::sleep(SPAN);
    let (report, ledger) = begun.stop()?;
    Ok((Pace::of(&report), ledger))
}

/// By how many percent background work may slow hosts down, and what it gets in any case.
fn background(demo: &Demo, slowdown: &str, floor: &str) -> Result<()> {
    let set = [
        "settings",
        "set",
        "--background-slowdown",
        slowdown,
        "--background-floor",
        floor,
    ];
    let _: Value = cli::json(demo.api(), &set)?;
    Ok(())
}

/// Whether a node's replica is being brought up to date.
fn joins(demo: &Demo, node: &str) -> Result<bool> {
    let volume = demo.volume("demo")?;
    let mut slices = volume.slices.iter();
    Ok(slices.any(|slice| slice.joining.iter().any(|it| it.node == node)))
}

/// Starts a node, and waits until the volume is whole: how long that takes.
fn bring_back(demo: &mut Demo, node: &str) -> Result<Duration> {
    let began = Instant::now();
    demo.start_node(node)?;
    demo.wait_until_whole("demo", SYNC_PATIENCE)?;
    Ok(began.elapsed())
}

fn moved(demo: &Demo) -> Result<u64> {
    // What a node says of itself is a moment old.
    std::thread::sleep(Duration::from_secs(2));
    Ok(demo.volume("demo")?.resync.bytes_moved)
}

/// The node that holds the one slice, and does not lead it.
fn secondary(demo: &Demo) -> Result<String> {
    let volume = demo.volume("demo")?;
    let slice = volume.slices.first().context("a volume has slices")?;
    let mut others = slice.in_sync.iter();
    let other = others.find(|node| Some(*node) != slice.primary.as_ref());
    other
        .cloned()
        .context("somebody holds it beside the primary")
}

/// Writes pieces of `length` bytes, `stride` bytes apart, several at a time.
fn write_all(host: &Host, offset: u64, count: u64, length: u64, stride: u64) -> Result<()> {
    const TOGETHER: u64 = 16;
    for first in (0..count).step_by(TOGETHER as usize) {
        let mut writes = JoinSet::new();
        for index in first..count.min(first + TOGETHER) {
            let word = (offset << 40 | index).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            let data = word.to_le_bytes().repeat(length as usize / 8);
            let sector = (offset + index * stride) / 512;
            let disk = Arc::clone(host.disk());
            let write = async move { disk.write(sector, data.into(), index as usize).await };
            host.run(async { writes.spawn(write) });
        }
        for done in host.run(writes.join_all()) {
            done?;
        }
    }
    Ok(())
}

fn line(name: &str, row: [f64; 8]) -> String {
    let [changed, sync, idle_moved, idle, ratios @ ..] = row;
    let [per_second, p99, to_joining, p99_to_joining] = ratios;
    format!(
        "{name:<7} {changed:>9.1} {sync:>7.1} {idle_moved:>9.0} {idle:>7.1} {per_second:>9.2} {p99:>7.2} \
         {to_joining:>8.2} {p99_to_joining:>7.2}"
    )
}
