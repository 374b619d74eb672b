//! A node, or a path, is restarted in the middle: does everything survive it, and how long does it take?
//!
//! The command is run once, by the first of these checks, with a reservation held and a host that writes; what it found
//! about the rest is what the others say.

use std::process::Stdio;
use std::time::{Duration, Instant};

use holdfast_lab::meter::StallMeter;
use tokio::process::Command;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::answer::Answer;
use crate::bench::{A, B, Bench, C, Restarted, Way};
use crate::check::HostKind::{Multipath, Pacemaker, Vmware, Windows};
use crate::check::{Check, Checked, FINE, Group, Unmet, ensure, failed, fine};
use crate::checks::identity::identification;
use crate::nexus::Nexus;
use crate::parse::pages;
use crate::reserve::SHARED;
use crate::stretch::tag_of;

const GROUP: Group = Group::Restart;

pub(super) const CHECKS: &[Check] = &[
    Check {
        id: "restart.pause",
        group: GROUP,
        title: "A host goes on writing while something restarts",
        does: "Runs the command of --restart while A writes with a reservation, on whichever path works; the longest pause",
        clause: "none; limits of this check: see the documentation",
        consequence: "Disks fail, services move to other hosts, or stop",
        required_by: &[Windows, Vmware, Pacemaker, Multipath],
        run: |bench| Box::pin(pause(bench)),
    },
    Check {
        id: "restart.data",
        group: GROUP,
        title: "Everything that was acknowledged is there afterwards, through every path",
        does: "Reads what A wrote before, during and after the restart through every path",
        clause: "SBC-3 4.1",
        consequence: "Data is lost",
        required_by: &[Windows, Vmware, Pacemaker, Multipath],
        run: |bench| Box::pin(found(bench, |it| &it.data)),
    },
    Check {
        id: "restart.reservations",
        group: GROUP,
        title: "Registrations and the reservation are as before, and hold",
        does: "READ KEYS and READ RESERVATION through every path; writes of the holder, and of hosts that are not registered",
        clause: "SPC-4 5.12.1, 5.12.5",
        consequence: "After a node of the storage restarts nobody is fenced any more, or the owner has lost its disk",
        required_by: &[Windows, Pacemaker],
        run: |bench| Box::pin(found(bench, |it| &it.reservation)),
    },
    Check {
        id: "restart.identity",
        group: GROUP,
        title: "The unit is the same one afterwards",
        does: "Compares pages 80h and 83h of every path with those before",
        clause: "SPC-4 7.8.6, 7.8.17",
        consequence: "Hosts take it for another disk, and lose the one that they had",
        required_by: &[Windows, Vmware, Pacemaker, Multipath],
        run: |bench| Box::pin(found(bench, |it| &it.identity)),
    },
];

/// Chunks that this file writes to.
const CHUNK: u64 = 1200;
const CHUNKS: u64 = 64;
/// How long a command may take on a path before the host tries another one.
const PATH_PATIENCE: Duration = Duration::from_secs(3);
/// Between two writes, and between two attempts.
const PAUSE: Duration = Duration::from_millis(5);
/// How often a path that is down is tried.
const RETRY: Duration = Duration::from_millis(200);

/// What a chunk may hold: what was acknowledged last, or what was sent since.
#[derive(Clone, Debug, Default)]
struct Ledger {
    acknowledged: u64,
    in_doubt: Vec<u64>,
}

/// A host that writes through whichever path works.
struct Writer {
    nexuses: Vec<Nexus>,
    ledger: Vec<Ledger>,
    turn: usize,
    meter: StallMeter,
    failure: Option<Answer>,
}

async fn pause(bench: &mut Bench) -> Checked {
    let Some(shell) = bench.restart.clone() else {
        return Err(Unmet::Skipped(
            "no command was given (--restart)".to_owned(),
        ));
    };
    bench.needs_paths()?;
    let reserves = bench.needs_reservations().is_ok();
    if reserves {
        bench.register(A).await?;
        bench.reserve((A, 0), SHARED).await?;
    }
    let before = identities(bench).await?;
    let mut upkeep = JoinSet::new();
    for nexus in bench.all() {
        upkeep.spawn(keep_up(nexus.clone()));
    }
    let mut writer = Writer {
        nexuses: bench.host(A).to_vec(),
        ledger: vec![Ledger::default(); CHUNKS as usize],
        turn: 0,
        meter: StallMeter::new(Instant::now()),
        failure: None,
    };
    let restarting = restart(&shell, bench.timing.restart_max);
    let ended = {
        tokio::pin!(restarting);
        loop {
            tokio::select! {
                ended = &mut restarting => break ended,
                () = writer.write_one(bench) => {}
            }
        }
    };
    // Paths come back, and the host goes on meanwhile.
    let deadline = Instant::now() + bench.timing.return_max;
    while !all_answer(bench).await {
        if Instant::now() >= deadline {
            break;
        }
        writer.write_one(bench).await;
    }
    for _ in 0..CHUNKS {
        writer.write_one(bench).await;
    }
    let longest = writer.meter.longest(Instant::now());
    upkeep.shutdown().await;
    bench.reconnect(RETRY).await?;
    let restarted = Restarted {
        reservation: match reserves {
            true => reservation(bench).await,
            false => bench.needs_reservations().and(FINE),
        },
        data: verify(bench, &writer.ledger).await,
        identity: compare(bench, &before).await,
    };
    bench.restarted = Some(restarted);
    ended?;
    judge(bench, &writer, longest)
}

fn judge(bench: &Bench, writer: &Writer, longest: Duration) -> Checked {
    if let Some(answer) = &writer.failure {
        return Err(answer.instead_of("GOOD, or an answer after which hosts try again"));
    }
    let text = format!(
        "the longest pause was {:.2} s, in {} writes",
        longest.as_secs_f64(),
        writer.meter.completions()
    );
    ensure(
        longest <= bench.timing.pause_max,
        format!("a pause of at most {:.0?}", bench.timing.pause_max),
        || text.clone(),
    )?;
    match longest > bench.timing.pause_noticed {
        true => crate::check::warn(text),
        false => fine(text),
    }
}

/// What the first check found.
async fn found(bench: &mut Bench, which: fn(&Restarted) -> &Checked) -> Checked {
    match (&bench.restarted, &bench.restart) {
        (Some(restarted), _) => which(restarted).clone(),
        (None, None) => Err(Unmet::Skipped(
            "no command was given (--restart)".to_owned(),
        )),
        (None, Some(_)) => Err(Unmet::NotRun(
            "restart.pause did not come so far".to_owned(),
        )),
    }
}

/// Runs the command, and waits for its end. What it says goes to where talk goes.
async fn restart(shell: &str, patience: Duration) -> Result<(), Unmet> {
    let mut command = Command::new("sh");
    command.args(["-c", shell]).stdin(Stdio::null());
    command.stdout(std::io::stderr()).kill_on_drop(true);
    let ended = timeout(patience, command.status()).await;
    match ended {
        Ok(Ok(status)) if status.success() => Ok(()),
        Ok(Ok(status)) => Err(Unmet::NotRun(format!(
            "the command of --restart ended with {status}"
        ))),
        Ok(Err(error)) => Err(Unmet::NotRun(format!("the command of --restart: {error}"))),
        Err(_) => Err(Unmet::NotRun(format!(
            "the command of --restart did not end within {patience:.0?}"
        ))),
    }
}

/// Logs in again whenever the session is gone.
async fn keep_up(nexus: Nexus) {
    loop {
        // It is tried again.
        let _ = nexus.connect().await;
        sleep(RETRY).await;
    }
}

/// Whether every path of every host takes commands.
async fn all_answer(bench: &Bench) -> bool {
    for nexus in bench.all() {
        let answers = timeout(PATH_PATIENCE, nexus.attentions()).await;
        if !matches!(answers, Ok(Ok(_))) {
            return false;
        }
    }
    true
}

impl Writer {
    /// One write, on the path that worked last, or on the next one.
    async fn write_one(&mut self, bench: &Bench) {
        sleep(PAUSE).await;
        let tag = bench.tag();
        let index = (tag % CHUNKS) as usize;
        let chunk = CHUNK + index as u64;
        self.ledger[index].in_doubt.push(tag);
        let nexus = self.nexuses[self.turn % self.nexuses.len()].clone();
        if nexus.link().is_none() {
            self.turn += 1;
            return;
        }
        let request = bench.write_request(chunk, tag);
        match timeout(PATH_PATIENCE, nexus.once(request)).await {
            Ok(Ok(answer)) if answer.is_good() => {
                self.ledger[index] = Ledger {
                    acknowledged: tag,
                    in_doubt: Vec::new(),
                };
                self.meter.completed(Instant::now());
            }
            Ok(Ok(answer)) => {
                let repeats = answer.attention().is_some() || answer.is_for_later();
                // TASK ABORTED, ABORTED COMMAND, and what a path says that is no way now.
                let moves = answer.status == 0x40
                    || answer
                        .sense
                        .is_some_and(|sense| matches!(sense.key, 0x2 | 0xB));
                if !repeats && !moves {
                    self.failure.get_or_insert(answer);
                }
                self.turn += usize::from(!repeats);
            }
            Ok(Err(_)) => self.turn += 1,
            Err(_) => {
                // As a host does: what was sent there must not arrive after what is sent elsewhere.
                nexus.cut().await;
                self.turn += 1;
            }
        }
    }
}

/// Everything that was written, read through every path.
async fn verify(bench: &Bench, ledger: &[Ledger]) -> Checked {
    let mut count = 0;
    for way in bench.ways(A).chain(bench.ways(B)) {
        for (chunk, known) in (CHUNK..).zip(ledger) {
            if known.acknowledged == 0 && known.in_doubt.is_empty() {
                continue;
            }
            let data = bench.read(way, chunk).await?.good()?;
            let seen = tag_of(&data, chunk);
            let is_right =
                seen.is_some_and(|tag| tag == known.acknowledged || known.in_doubt.contains(&tag));
            ensure(
                is_right,
                format!(
                    "{}: write {} in block {chunk}, which was acknowledged, or a later one",
                    bench.nexus(way).label(),
                    known.acknowledged
                ),
                || format!("write {seen:?}"),
            )?;
            count += 1;
        }
    }
    fine(format!("{count} blocks read"))
}

async fn reservation(bench: &Bench) -> Checked {
    bench.is_held(Some((bench.key(A), SHARED))).await?;
    bench.is_registered(bench.key(A), bench.paths.len()).await?;
    for way in bench.ways(A) {
        bench
            .write(way, CHUNK + CHUNKS, bench.tag())
            .await?
            .good()?;
    }
    for way in bench.ways(B).chain(bench.ways(C)) {
        bench
            .write(way, CHUNK + CHUNKS, bench.tag())
            .await?
            .conflict()?;
    }
    FINE
}

/// What each path says of who the unit is.
async fn identities(bench: &Bench) -> Result<Vec<(Vec<u8>, Vec<u8>)>, Unmet> {
    let mut all = Vec::new();
    for way in bench.ways(A) {
        all.push(identity(bench, way).await?);
    }
    Ok(all)
}

async fn identity(bench: &Bench, way: Way) -> Result<(Vec<u8>, Vec<u8>), Unmet> {
    let serial = pages::serial(&bench.inquiry(way, Some(0x80)).await?)?;
    let named = identification(bench, way).await?;
    let best = named.best().map(|(_, value)| value.to_vec());
    Ok((serial, best.unwrap_or_default()))
}

async fn compare(bench: &Bench, before: &[(Vec<u8>, Vec<u8>)]) -> Checked {
    for (way, before) in bench.ways(A).zip(before) {
        let after = identity(bench, way).await?;
        if after != *before {
            return Err(failed(
                format!(
                    "{}: serial number and identifier as before",
                    bench.nexus(way).label()
                ),
                format!("{after:?} and {before:?}"),
            ));
        }
    }
    FINE
}
