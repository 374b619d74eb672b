//! A disk goes from one host to another, with what is on it.

use std::time::Duration;

use tokio::task::JoinSet;

use crate::bench::{A, B, Bench, C, HOSTS, name};
use crate::check::HostKind::{Pacemaker, Windows};
use crate::check::{Check, Checked, Group, Unmet, failed, fine};
use crate::contender::Contender;
use crate::reserve::SHARED;

const GROUP: Group = Group::Failover;

pub(super) const CHECKS: &[Check] = &[
    Check {
        id: "failover.move",
        group: GROUP,
        title: "A disk goes from host to host and back, with its data",
        does: "Each host in turn preempts the one before, reads all that is there, writes, and the one before is kept out",
        clause: "SPC-4 5.12.11.4",
        consequence: "Windows: \"Validate Disk Failover\" fails; services come up on data that is old",
        required_by: &[Windows, Pacemaker],
        run: |bench| Box::pin(moves(bench)),
    },
    Check {
        id: "failover.simultaneous",
        group: GROUP,
        title: "Of several that take a disk over at once, one has it, and its data stands",
        does: "All other hosts preempt the owner at the same moment; who wins writes; repeated",
        clause: "SPC-4 5.12.11.4",
        consequence: "Windows: \"Validate Simultaneous Failover\" fails; two hosts mount one file system",
        required_by: &[Windows, Pacemaker],
        run: |bench| Box::pin(simultaneous(bench)),
    },
];

/// Chunks that this file writes to.
const CHUNK: u64 = 96;
/// Blocks that go with the disk.
const CHUNKS: u64 = 8;
/// Moves, and rounds.
const MOVES: [usize; 6] = [B, C, A, C, B, A];
const ROUNDS: usize = 5;

async fn moves(bench: &mut Bench) -> Checked {
    bench.needs_reservations()?;
    Contender::new(bench, A).take_free().await?;
    let mut owner = A;
    let mut tags = write_all(bench, owner).await?;
    for next in MOVES {
        bench.register(next).await?;
        let way = (next, next % bench.paths.len());
        bench.preempt(way, bench.key(owner)).await?.good()?;
        bench.is_held(Some((bench.key(next), SHARED))).await?;
        for (chunk, tag) in (CHUNK..).zip(&tags) {
            bench.holds(way, chunk, *tag).await?;
        }
        for lost in bench.ways(owner) {
            bench.write(lost, CHUNK, bench.tag()).await?.conflict()?;
        }
        tags = write_all(bench, next).await?;
        owner = next;
    }
    for way in bench.ways(B) {
        for (chunk, tag) in (CHUNK..).zip(&tags) {
            bench.holds(way, chunk, *tag).await?;
        }
    }
    fine(format!("{} moves", MOVES.len()))
}

/// A host writes all the blocks through all of its paths, and says what is there now.
async fn write_all(bench: &Bench, host: usize) -> Result<Vec<u64>, Unmet> {
    let mut tags = Vec::new();
    for chunk in CHUNK..CHUNK + CHUNKS {
        let path = (chunk % bench.paths.len() as u64) as usize;
        let tag = bench.tag();
        bench.write((host, path), chunk, tag).await?.good()?;
        tags.push(tag);
    }
    Ok(tags)
}

async fn simultaneous(bench: &mut Bench) -> Checked {
    bench.needs_reservations()?;
    Contender::new(bench, A).take_free().await?;
    let mut owner = A;
    let mut winners = vec![name(A)];
    for _ in 0..ROUNDS {
        let tags = write_all(bench, owner).await?;
        let mut contest = JoinSet::new();
        for host in (0..HOSTS).filter(|host| *host != owner) {
            let contender = Contender::new(bench, host);
            // Nobody waits for a defence: what is tried is the moment itself.
            let (old, wait) = (bench.key(owner), Duration::ZERO);
            contest.spawn(async move { (host, contender.take_over(old, wait).await) });
        }
        let mut won = Vec::new();
        let mut lost = vec![owner];
        while let Some(ended) = contest.join_next().await {
            let (host, has_won) = ended.map_err(|error| Unmet::NotRun(error.to_string()))?;
            match has_won? {
                true => won.push(host),
                false => lost.push(host),
            }
        }
        let [winner] = won[..] else {
            return Err(failed("one new owner", format!("{} of them", won.len())));
        };
        bench.is_held(Some((bench.key(winner), SHARED))).await?;
        for host in lost {
            bench.unregister(host).await?;
            bench
                .write((host, 0), CHUNK, bench.tag())
                .await?
                .conflict()?;
        }
        for (chunk, tag) in (CHUNK..).zip(&tags) {
            bench
                .holds((winner, bench.last_path()), chunk, *tag)
                .await?;
        }
        owner = winner;
        winners.push(name(winner));
    }
    fine(format!("owned in turn by {}", String::from_iter(winners)))
}
