//! Holdfast beside its peers on this machine: the same loads, in turn, in one run.
//!
//! `cargo xtask bench [OPTION]...`, or `cargo bench -p holdfast-e2e --bench peers -- [OPTION]...`:
//!
//! - `--rounds N`: measurements of each, 5 unless told otherwise;
//! - `--seconds N`: how long each takes, 4 unless told otherwise;
//! - `--only WORKLOAD` and `--with CONTESTANT`, each as often as wanted: of all, only these; `--with ceph` by itself: all, and Ceph, which
//!   is there only if it is named, as are sequential reads of one command at a time: of these the least is in memory with a small `--cache`,
//!   and with 2 MiB nothing is read ahead;
//! - `--cache SIZE`: what each node keeps in memory of what was read, 4.5 GiB unless told otherwise: enough for all of the volume, as the
//!   peers have it in the system's;
//! - `--size SIZE`: of a volume, and of a peer's file, 4 GiB unless told otherwise;
//! - `--json FILE`: every figure of every run.
//!
//! Nothing is judged here but what docs/performance.md aims at, and a run that misses an aim ends well: these are measurements.

mod ceph;
mod contest;
mod contestants;
mod fio;
mod options;
mod report;
mod workloads;

use anyhow::Result;
use holdfast_e2e::figures::say;
use holdfast_e2e::{Demo, DemoOptions, figures, scenario};
use serde_json::json;
use tokio::runtime::Builder;

use contestants::{Contestant, VOLUME};
use options::Options;
use report::Outcome;

fn main() -> Result<()> {
    let options = Options::parse()?;
    // What serves and what is measured share the machine; and it is the machine's rate that counts, not the load's.
    let demo = DemoOptions {
        cache: Some(options.cache),
        volumes: contestants::volumes(&options.contestants, options.size),
        device_size: contestants::device_size(&options.contestants, options.size),
        ..DemoOptions::default()
    };
    scenario(demo, |demo| compare(demo, &options));
    Ok(())
}

fn compare(demo: &Demo, options: &Options) -> Result<()> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let bytes = demo.file().volume(VOLUME)?.bytes;
    contestants::check_room(&demo.directory(), &options.contestants, bytes)?;
    let contestants = options.contestants.iter();
    let contestants = contestants.map(|name| Contestant::new(demo, name, bytes));
    let contestants: Vec<_> = contestants.collect::<Result<_>>()?;
    for contestant in &contestants {
        say(&format!("filling {}", contestant.name))?;
        contest::fill(&runtime, contestant)?;
    }
    let mut outcomes = Vec::new();
    for workload in &options.workloads {
        let all = contestants.iter();
        let those: Vec<_> = all.filter(|it| it.takes_part_in(workload)).collect();
        let mut samples: Vec<_> = those.iter().map(|it| (it.name, Vec::new())).collect();
        for round in 0..options.rounds {
            for (contestant, (_, samples)) in those.iter().zip(&mut samples) {
                let seed = u64::from(round) + 1;
                let sample =
                    contest::measure(&runtime, contestant, workload, options.duration, seed)?;
                samples.push(sample);
            }
        }
        let outcome = Outcome { workload, samples };
        say(&outcome.text())?;
        outcomes.push(outcome);
    }
    if let Some(path) = &options.json {
        let results: Vec<_> = outcomes.iter().flat_map(Outcome::json).collect();
        let head = json!({
            "rounds": options.rounds,
            "seconds": options.duration.as_secs(),
            "volume_bytes": bytes,
        });
        figures::write(path, "peers", &head, &results)?;
    }
    Ok(())
}
