//! PREEMPT, and PREEMPT AND ABORT: a host is kept out, and nothing of it arrives later.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use holdfast_lab::CommandRequest;
use holdfast_lab::command::ReserveOut;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::GROUP;
use crate::bench::{A, B, Bench, C};
use crate::check::HostKind::{Pacemaker, Windows};
use crate::check::{Check, Checked, FINE, Unmet, ensure, failed, fine};
use crate::nexus::Nexus;
use crate::reserve::SHARED;
use crate::stretch::tag_of;

pub(super) const CHECKS: &[Check] = &[
    Check {
        id: "reservations.preempt",
        group: GROUP,
        title: "PREEMPT takes the reservation over, and ends the registrations of who had it",
        does: "B preempts A's key through another path; READ KEYS, READ RESERVATION, reads and writes of all",
        clause: "SPC-4 5.12.11.4",
        consequence: "Windows: no disk fails over from a host that is lost; fence_scsi with plain PREEMPT cannot fence",
        required_by: &[Windows, Pacemaker],
        run: |bench| Box::pin(preempt(bench, ReserveOut::Preempt)),
    },
    Check {
        id: "reservations.preempt-abort",
        group: GROUP,
        title: "PREEMPT AND ABORT does the same, and aborts",
        does: "The same with PREEMPT AND ABORT",
        clause: "SPC-4 5.12.11.5",
        consequence: "fence_scsi and fence_mpath fence by it: without it Pacemaker cannot fence, and stops",
        required_by: &[Pacemaker],
        run: |bench| Box::pin(preempt(bench, ReserveOut::PreemptAndAbort)),
    },
    Check {
        id: "reservations.preempt-registration",
        group: GROUP,
        title: "PREEMPT of who only is registered leaves the reservation alone",
        does: "A, which holds it, preempts B's key, and then one that nobody has",
        clause: "SPC-4 5.12.11.4.3",
        consequence: "An owner that defends its disk (Windows), or fences a member (fence_scsi), loses the disk",
        required_by: &[Windows, Pacemaker],
        run: |bench| Box::pin(preempt_registration(bench)),
    },
    Check {
        id: "reservations.fences-writes",
        group: GROUP,
        title: "Nothing that a preempted host had sent is written later",
        does: "A writes through every path without a pause while B preempts it; what B reads then must not change any more",
        clause: "SPC-4 5.12.11.4; SAM-5 4.4.3",
        consequence: "A host that took over finds its data overwritten by the one that it fenced",
        required_by: &[Windows, Pacemaker],
        run: |bench| Box::pin(fences(bench, ReserveOut::Preempt)),
    },
    Check {
        id: "reservations.abort-fences-writes",
        group: GROUP,
        title: "The same of PREEMPT AND ABORT",
        does: "The same with PREEMPT AND ABORT",
        clause: "SPC-4 5.12.11.5",
        consequence: "A node that Pacemaker has fenced writes once more: the file system is damaged",
        required_by: &[Pacemaker],
        run: |bench| Box::pin(fences(bench, ReserveOut::PreemptAndAbort)),
    },
];

/// Chunks that this file writes to.
const CHUNK: u64 = 32;
/// Commands that A has under way on each path.
const DEPTH: u64 = 4;
/// How long A writes before it is preempted, and how long what it wrote is watched.
const WRITES_FOR: Duration = Duration::from_millis(150);
const WATCHED_FOR: Duration = Duration::from_millis(1500);
/// How long is waited for the answer to any of A's commands, once it is preempted.
const ANSWERS_WITHIN: Duration = Duration::from_secs(1);

async fn preempt(bench: &mut Bench, action: ReserveOut) -> Checked {
    bench.needs_reservations()?;
    let tag = bench.tag();
    bench.register(A).await?;
    bench.register(B).await?;
    bench.reserve((A, 0), SHARED).await?;
    bench.write((A, 0), CHUNK, tag).await?.good()?;
    let way = (B, bench.last_path());
    let (old, new) = (bench.key(A), bench.key(B));
    let answer = bench.reserve_out(way, action, SHARED, new, old).await?;
    answer.good()?;
    bench.is_registered(old, 0).await?;
    bench.is_registered(new, bench.paths.len()).await?;
    bench.is_held(Some((new, SHARED))).await?;
    for lost in bench.ways(A) {
        bench.holds(lost, CHUNK, tag).await?;
        bench.write(lost, CHUNK, bench.tag()).await?.conflict()?;
        // Its key is gone, so that it has no say.
        let back = bench.reserve_out(lost, action, SHARED, old, new);
        back.await?.conflict()?;
    }
    for winner in bench.ways(B) {
        let tag = bench.tag();
        bench.write(winner, CHUNK, tag).await?.good()?;
        bench.holds((C, 0), CHUNK, tag).await?;
    }
    FINE
}

async fn preempt_registration(bench: &mut Bench) -> Checked {
    bench.needs_reservations()?;
    bench.register(A).await?;
    bench.register(B).await?;
    bench.reserve((A, 0), SHARED).await?;
    bench.preempt((A, 0), bench.key(B)).await?.good()?;
    bench.is_registered(bench.key(B), 0).await?;
    bench.is_registered(bench.key(A), bench.paths.len()).await?;
    bench.is_held(Some((bench.key(A), SHARED))).await?;
    bench.write((B, 0), CHUNK, bench.tag()).await?.conflict()?;
    let nobody = bench.other_key(4);
    bench.preempt((A, 0), nobody).await?.conflict()?;
    bench.is_held(Some((bench.key(A), SHARED))).await?;
    FINE
}

/// Writes one chunk over and over until something else than GOOD is answered, and counts what was written.
async fn write_on(nexus: Nexus, requests: Vec<CommandRequest>, written: Arc<AtomicU64>) {
    loop {
        for request in &requests {
            // A target may end the sessions of who is preempted.
            match nexus.once(request.clone()).await {
                Ok(answer) if answer.is_good() => written.fetch_add(1, Ordering::Relaxed),
                _ => return,
            };
        }
    }
}

async fn fences(bench: &mut Bench, action: ReserveOut) -> Checked {
    bench.needs_reservations()?;
    bench.register(A).await?;
    bench.register(B).await?;
    bench.reserve((A, 0), SHARED).await?;
    let (old, new) = (bench.key(A), bench.key(B));
    let mut writers = JoinSet::new();
    let written = Arc::new(AtomicU64::new(0));
    let chunks = DEPTH * bench.paths.len() as u64;
    for chunk in 0..chunks {
        let way = (A, (chunk % bench.paths.len() as u64) as usize);
        // Different content for each write, so that one that comes later is seen.
        let requests = (0..64).map(|_| bench.write_request(CHUNK + chunk, bench.tag()));
        let nexus = bench.nexus(way).clone();
        writers.spawn(write_on(nexus, requests.collect(), Arc::clone(&written)));
    }
    sleep(WRITES_FOR).await;
    let way = (B, bench.last_path());
    let answer = bench.reserve_out(way, action, SHARED, new, old).await?;
    answer.good()?;
    let before = contents(bench, chunks).await?;
    // PREEMPT AND ABORT leaves commands without an answer (SAM-5, TAS 0): they are not waited for.
    while let Ok(Some(_)) = timeout(ANSWERS_WITHIN, writers.join_next()).await {}
    writers.shutdown().await;
    sleep(WATCHED_FOR).await;
    let after = contents(bench, chunks).await?;
    let written = written.load(Ordering::Relaxed);
    ensure(written > 0, "writes of A before it was preempted", || {
        "none".to_owned()
    })?;
    match before
        .iter()
        .zip(&after)
        .position(|(one, other)| one != other)
    {
        None => fine(format!("{written} writes before, none after")),
        Some(chunk) => Err(failed(
            "what B read when it had taken over is there still",
            format!("block {chunk} of {chunks} was written by A afterwards"),
        )),
    }
}

async fn contents(bench: &Bench, chunks: u64) -> Result<Vec<Option<u64>>, Unmet> {
    let mut contents = Vec::new();
    for chunk in CHUNK..CHUNK + chunks {
        let data = bench.read((B, 0), chunk).await?.good()?;
        contents.push(tag_of(&data, chunk));
    }
    Ok(contents)
}
