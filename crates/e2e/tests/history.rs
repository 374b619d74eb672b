//! The performance history of real processes: what a load did is told by any node, and after a start.

use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use holdfast_e2e::host::{Host, INITIATOR};
use holdfast_e2e::{Demo, DemoOptions, cli, scenario};
use holdfast_lab::verify::{LoadConfig, PathChoice};
use serde::Deserialize;

/// What `holdfast history` tells, as its contract says.
#[derive(Debug, Deserialize)]
struct History {
    step_seconds: u32,
    points: Vec<Point>,
    silent: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct Point {
    at_ms: u64,
    writes: Flow,
}

#[derive(Debug, Deserialize)]
struct Flow {
    per_second: f64,
    bytes_per_second: f64,
    latency: Option<Latency>,
}

#[derive(Debug, Deserialize)]
struct Latency {
    mean_us: f64,
    p50_us: u64,
    p99_us: u64,
    max_us: u64,
}

fn history(api: &str, arguments: &[&str]) -> Result<History> {
    let all = [&["history", "--last", "5m", "--step", "1s"], arguments].concat();
    cli::json(api, &all)
}

/// Writes that were done in all of the time.
fn writes(history: &History) -> f64 {
    let step = f64::from(history.step_seconds);
    let each = history.points.iter().map(|it| it.writes.per_second * step);
    each.sum()
}

/// Waits until the seconds of a load are over, and measured.
fn told(demo: &Demo, arguments: &[&str], at_least: f64) -> Result<History> {
    let begun = Instant::now();
    loop {
        let history = history(&demo.file().api, arguments)?;
        if writes(&history) >= at_least {
            return Ok(history);
        }
        ensure!(
            begun.elapsed() < Duration::from_secs(20),
            "{arguments:?}: {at_least} writes were done: {history:?}"
        );
        sleep(Duration::from_millis(200));
    }
}

#[test]
fn what_a_load_did_is_told_by_all_and_outlives_a_node() {
    scenario(DemoOptions::default(), |demo| {
        let host = Host::open(demo, "demo")?;
        let config = LoadConfig {
            depth: 8,
            paths: PathChoice::Own,
            ..LoadConfig::default()
        };
        let load = host.load(host.ledger(1), config);
        load.run_for(Duration::from_secs(3))?;
        load.stop()?;
        let volume = told(demo, &["--volume", "demo"], 100.0)?;
        ensure!(volume.silent.is_empty(), "{volume:?}");
        let done = writes(&volume);
        for point in &volume.points {
            let Flow {
                per_second,
                bytes_per_second,
                latency,
            } = &point.writes;
            ensure!(*bytes_per_second >= per_second * 512.0, "{point:?}");
            let Some(latency) = latency else {
                ensure!(*per_second == 0.0, "{point:?}");
                continue;
            };
            let Latency {
                mean_us,
                p50_us,
                p99_us,
                max_us,
            } = latency;
            ensure!(p50_us <= p99_us && p99_us <= max_us, "{point:?}");
            ensure!(*mean_us > 0.0 && *mean_us <= *max_us as f64, "{point:?}");
        }
        let of_host = history(&demo.file().api, &["--initiator", INITIATOR])?;
        ensure!(writes(&of_host) >= done, "{done}, and {of_host:?}");
        // Devices write what hosts do, on two nodes.
        let tier = told(demo, &["--tier", "flash"], 1.0)?;
        ensure!(
            tier.points.iter().all(|it| it.at_ms % 1000 == 0),
            "{tier:?}"
        );
        demo.kill("n1")?;
        let without = history(&demo.file().api, &["--volume", "demo"])?;
        ensure!(without.silent == ["n1"], "{without:?}");
        demo.start_node("n1")?;
        let again = told(demo, &["--volume", "demo"], done)?;
        ensure!(writes(&again) >= done, "{done}, and then {again:?}");
        let of_node = history(&demo.file().api, &["--node", "n1"])?;
        let first = of_node.points.first().context("it has measured")?;
        ensure!(
            volume
                .points
                .first()
                .is_some_and(|it| first.at_ms <= it.at_ms),
            "it tells what was before its start: {of_node:?}"
        );
        Ok(())
    });
}
