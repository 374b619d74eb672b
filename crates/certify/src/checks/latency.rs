//! How long commands take.

use std::time::Instant;

use holdfast_lab::meter::Latencies;

use crate::bench::{A, Bench};
use crate::check::HostKind::Windows;
use crate::check::{Check, Checked, Group, Unmet, ensure, fine, warn};

const GROUP: Group = Group::Latency;

pub(super) const CHECKS: &[Check] = &[
    Check {
        id: "latency.read",
        group: GROUP,
        title: "Reads take no longer than clusters of hosts can bear",
        does: "Reads 4 KiB 100 times through each path, one after the other",
        clause: "none; limits of this check: see the documentation",
        consequence: "Windows: \"Validate Disk Access Latency\" fails; disks fail over for no reason",
        required_by: &[Windows],
        run: |bench| Box::pin(measure(bench, false)),
    },
    Check {
        id: "latency.write",
        group: GROUP,
        title: "Writes take no longer than clusters of hosts can bear",
        does: "Writes 4 KiB 100 times through each path, one after the other",
        clause: "none; limits of this check: see the documentation",
        consequence: "Windows: \"Validate Disk Access Latency\" fails; VMware loses its heartbeats, and locks",
        required_by: &[Windows],
        run: |bench| Box::pin(measure(bench, true)),
    },
];

/// Chunks that this file writes to.
const CHUNK: u64 = 1056;
const COMMANDS: u64 = 100;

async fn measure(bench: &mut Bench, writes: bool) -> Checked {
    let mut all = Latencies::default();
    let mut lines = Vec::new();
    for way in bench.ways(A) {
        let mut latencies = Latencies::default();
        for number in 0..COMMANDS {
            let chunk = CHUNK + number;
            let start = Instant::now();
            let answer = match writes {
                true => bench.write(way, chunk, bench.tag()).await?,
                false => bench.read(way, chunk).await?,
            };
            latencies.record(start.elapsed());
            answer.good()?;
        }
        lines.push(format!("{}: {latencies}", bench.paths[way.1].portal));
        all.add(&latencies);
    }
    let note = lines.join("; ");
    ensure(
        all.max() <= bench.timing.latency_max,
        format!("no command of more than {:.1?}", bench.timing.latency_max),
        || note.clone(),
    )?;
    if all.count() == 0 {
        return Err(Unmet::NotRun("nothing was measured".to_owned()));
    }
    match all.percentile(99.0) > bench.timing.latency_slow {
        true => warn(format!("slow: {note}")),
        false => fine(note),
    }
}
