//! Who owns a disk where hosts cannot talk to each other: challenge and defence, as Windows' cluster disk driver does
//! it by persistent reservations (MS-CSVP 3.2.4.15, and what is public of the driver).
//!
//! An owner defends itself at regular times: it looks whether it is registered still, and removes every registration that
//! is not its own. A challenger registers, and waits for longer than two rounds of that. If its registration is there
//! still, nobody has defended the disk: it preempts the owner.

use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::bench::{A, B, Bench, C, HOSTS, name};
use crate::check::HostKind::Windows;
use crate::check::{Check, Checked, FINE, Group, Unmet, ensure, failed, fine};
use crate::contender::Contender;
use crate::reserve::SHARED;

const GROUP: Group = Group::Arbitration;

pub(super) const CHECKS: &[Check] = &[
    Check {
        id: "arbitration.defend",
        group: GROUP,
        title: "An owner that defends its disk keeps it",
        does: "A owns the disk and defends it, B and then C challenge it, through different paths",
        clause: "SPC-4 5.12.11.4.3; MS-CSVP 3.2.4.15",
        consequence: "Windows: \"Validate Disk Arbitration\" fails: disks change hands under their owners",
        required_by: &[Windows],
        run: |bench| Box::pin(defend(bench)),
    },
    Check {
        id: "arbitration.challenge",
        group: GROUP,
        title: "A disk whose owner is gone is won by who challenges it",
        does: "A owns the disk, and its connections are cut; B challenges, and writes; A comes back, and is kept out",
        clause: "SPC-4 5.12.11.4; MS-CSVP 3.2.4.15",
        consequence: "Windows: \"Validate Disk Arbitration\" fails: a disk stays with a host that is gone",
        required_by: &[Windows],
        run: |bench| Box::pin(challenge(bench)),
    },
    Check {
        id: "arbitration.contest-free",
        group: GROUP,
        title: "Of several that want a free disk at once, one gets it",
        does: "A, B and C register and reserve at the same moment through different paths, several times",
        clause: "SPC-4 5.12.9",
        consequence: "Windows: \"Validate Multiple Arbitration\" fails: two hosts own one disk, and both write",
        required_by: &[Windows, crate::check::HostKind::Pacemaker],
        run: |bench| Box::pin(contest_free(bench)),
    },
    Check {
        id: "arbitration.contest-owned",
        group: GROUP,
        title: "Of several that challenge an owner that is gone, one wins",
        does: "A owns the disk and is silent; B and C challenge at the same moment, several times",
        clause: "SPC-4 5.12.11.4",
        consequence: "Windows: \"Validate Multiple Arbitration\" fails: two hosts own one disk, and both write",
        required_by: &[Windows],
        run: |bench| Box::pin(contest_owned(bench)),
    },
];

/// Chunks that this file writes to.
const CHUNK: u64 = 80;
/// How often a contest is repeated: what goes wrong by a race does not each time.
const ROUNDS: usize = 5;
/// Rounds in which an owner that is gone is challenged, each as long as a challenge.
const OWNED_ROUNDS: usize = 3;

/// A host, in what it does about the disk.
fn contender(bench: &Bench, host: usize) -> Contender {
    Contender::new(bench, host)
}

async fn defend(bench: &mut Bench) -> Checked {
    bench.needs_reservations()?;
    let timing = bench.timing;
    let owner = contender(bench, A);
    ensure(owner.take_free().await?, "A reserves a free disk", || {
        "RESERVATION CONFLICT".to_owned()
    })?;
    for host in [B, C] {
        let challenger = contender(bench, host);
        let won = {
            let challenging = challenger.challenge(timing.challenge_for);
            tokio::pin!(challenging);
            loop {
                tokio::select! {
                    won = &mut challenging => break won?,
                    () = sleep(timing.defend_every) => owner.defend().await?,
                }
            }
        };
        ensure(
            !won,
            format!("{} does not win a disk that A defends", name(host)),
            || "it does".to_owned(),
        )?;
        bench.is_held(Some((bench.key(A), SHARED))).await?;
        bench
            .write((host, 0), CHUNK, bench.tag())
            .await?
            .conflict()?;
        bench.write((A, 0), CHUNK, bench.tag()).await?.good()?;
    }
    FINE
}

async fn challenge(bench: &mut Bench) -> Checked {
    bench.needs_reservations()?;
    let tag = bench.tag();
    contender(bench, A).take_free().await?;
    bench.write((A, 0), CHUNK, tag).await?.good()?;
    for nexus in bench.host(A) {
        nexus.cut().await;
    }
    let challenger = contender(bench, B);
    let won = challenger.challenge(bench.timing.challenge_for).await?;
    ensure(won, "B wins a disk that nobody defends", || {
        "it does not".to_owned()
    })?;
    bench.is_held(Some((bench.key(B), SHARED))).await?;
    bench.holds((B, 0), CHUNK, tag).await?;
    let tag = bench.tag();
    bench
        .write((B, bench.last_path()), CHUNK, tag)
        .await?
        .good()?;
    bench.reconnect(Duration::from_secs(10)).await?;
    for way in bench.ways(A) {
        bench.write(way, CHUNK, bench.tag()).await?.conflict()?;
        bench.holds(way, CHUNK, tag).await?;
    }
    FINE
}

async fn contest_free(bench: &mut Bench) -> Checked {
    bench.needs_reservations()?;
    let mut winners = Vec::new();
    for _ in 0..ROUNDS {
        let contenders = (0..HOSTS).map(|host| contender(bench, host));
        let mut contest = JoinSet::new();
        for contender in contenders {
            contest.spawn(async move { (contender.host(), contender.take_free().await) });
        }
        let winner = settle(bench, contest).await?;
        winners.push(name(winner));
        bench.clear_everything().await?;
    }
    fine(format!("won in turn by {}", String::from_iter(winners)))
}

async fn contest_owned(bench: &mut Bench) -> Checked {
    bench.needs_reservations()?;
    let mut winners = Vec::new();
    for _ in 0..OWNED_ROUNDS {
        contender(bench, A).take_free().await?;
        let mut contest = JoinSet::new();
        for host in [B, C] {
            let contender = contender(bench, host);
            let (owner, wait) = (bench.key(A), bench.timing.challenge_for);
            contest.spawn(async move { (host, contender.take_over(owner, wait).await) });
        }
        let winner = settle(bench, contest).await?;
        winners.push(name(winner));
        bench.write((A, 0), CHUNK, bench.tag()).await?.conflict()?;
        bench.clear_everything().await?;
    }
    fine(format!("won in turn by {}", String::from_iter(winners)))
}

/// Who has won: one, which holds the disk on record, and is the only one that writes when the others have given up.
async fn settle(
    bench: &Bench,
    mut contest: JoinSet<(usize, Result<bool, Unmet>)>,
) -> Result<usize, Unmet> {
    let (mut winners, mut losers) = (Vec::new(), Vec::new());
    while let Some(ended) = contest.join_next().await {
        let (host, won) = ended.map_err(|error| Unmet::NotRun(error.to_string()))?;
        match won? {
            true => winners.push(host),
            false => losers.push(host),
        }
    }
    let [winner] = winners[..] else {
        let names: String = winners.iter().map(|host| name(*host)).collect();
        return Err(failed(
            "one winner",
            format!("{}: {names:?}", winners.len()),
        ));
    };
    bench.is_held(Some((bench.key(winner), SHARED))).await?;
    for host in losers {
        contender(bench, host).give_up().await?;
        bench
            .write((host, 0), CHUNK, bench.tag())
            .await?
            .conflict()?;
    }
    let tag = bench.tag();
    bench.write((winner, 0), CHUNK, tag).await?.good()?;
    bench.holds((C, bench.last_path()), CHUNK, tag).await?;
    Ok(winner)
}
