//! A host that is fenced off writes nothing any more: from the answer to PREEMPT AND ABORT on, none of its writes appears,
//! whichever node is killed, or stands still, at whichever moment in between.

use std::io::{self, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use holdfast_e2e::rival::{Outcome, Rival, done};
use holdfast_e2e::{Demo, DemoOptions, scenario};
use holdfast_lab::command::{self, ReserveIn, ReserveOut, ReserveType};
use holdfast_stdx::Prng;
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;
use tokio::time::sleep;

const VOLUME: &str = "shared";
/// Writers of the host that is fenced off, each with a slot of its own: enough to have some on every way between two nodes.
const SLOTS: usize = 16;
const SLOT_BLOCKS: u32 = 8;
const SLOT_BYTES: usize = SLOT_BLOCKS as usize * 512;
/// Between two slots: one in each GiB, so that all slices have some.
const SLOT_STRIDE: u64 = (1 << 30) / 512;
/// How long it writes before anything happens.
const BEFORE: Duration = Duration::from_millis(150);
/// How far apart the command and what happens to a node are, at most.
const APART_MAX_MS: u64 = 80;
/// How long a node stands still: longer than its leases last.
const FREEZE: Duration = Duration::from_secs(5);
/// How long it is waited for what may still appear.
const AFTERWARDS: Duration = Duration::from_millis(500);
/// How long a round may take to be over.
const WHOLE_PATIENCE: Duration = Duration::from_secs(60);
/// How long the volume may take to be another host's, with a node dead or standing still.
const TAKEN_MAX: Duration = Duration::from_secs(10);

#[test]
fn who_is_preempted_writes_nothing_any_more() {
    in_rounds(6, 20_261_126);
}

/// The same, a hundred times; see docs/hacking.md.
#[test]
#[ignore = "takes five minutes"]
fn who_is_preempted_over_and_over_writes_nothing_any_more() {
    in_rounds(100, 1);
}

fn in_rounds(rounds: u32, seed: u64) {
    let options = DemoOptions {
        volumes: vec!["shared:16GiB:mirror2"],
        etcd: true,
        ..DemoOptions::default()
    };
    scenario(options, |demo| {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .context("start a runtime")?;
        let file = demo.file();
        let target = file.volume(VOLUME)?.target.clone();
        let portals: Vec<_> = file.nodes.iter().map(|node| node.portal).collect();
        let mut rounds_run = Rounds {
            runtime,
            rivals: [
                Arc::new(Rival::new(1, &target, &portals)?),
                Arc::new(Rival::new(2, &target, &portals)?),
            ],
            prng: Prng::from_seed(seed),
            tally: Tally::default(),
        };
        for round in 1..=rounds {
            rounds_run
                .one(demo, round)
                .with_context(|| format!("round {round} of seed {seed}"))?;
        }
        rounds_run.tally.tell(rounds)
    });
}

/// What happens to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Kill,
    Freeze,
}

/// What was seen.
#[derive(Default)]
struct Tally {
    killed: Vec<Duration>,
    frozen: Vec<Duration>,
    acknowledged: u64,
    conflicts: u64,
}

impl Tally {
    fn tell(&self, rounds: u32) -> Result<()> {
        let Self {
            acknowledged,
            conflicts,
            ..
        } = self;
        let mut out = io::stdout();
        writeln!(
            out,
            "{rounds} rounds: {acknowledged} writes acknowledged, {conflicts} refused"
        )?;
        for (what, times) in [("killed", &self.killed), ("frozen", &self.frozen)] {
            let mut times = times.clone();
            times.sort_unstable();
            if let (Some(median), Some(worst)) = (times.get(times.len() / 2), times.last()) {
                let (median, worst) = (median.as_millis(), worst.as_millis());
                writeln!(
                    out,
                    "a node {what}: taken over in {median} ms (median), {worst} ms (worst)"
                )?;
            }
        }
        Ok(())
    }
}

struct Rounds {
    runtime: Runtime,
    /// Who is fenced off, and who does it.
    rivals: [Arc<Rival>; 2],
    prng: Prng,
    tally: Tally,
}

/// What the writers have done.
#[derive(Default)]
struct Written {
    /// The last number that was acknowledged, by slot.
    acknowledged: [AtomicU64; SLOTS],
    counts: [AtomicU64; 2],
    stop: AtomicBool,
}

impl Rounds {
    fn one(&mut self, demo: &mut Demo, round: u32) -> Result<()> {
        demo.wait_until_whole(VOLUME, WHOLE_PATIENCE)?;
        let [victim, winner] = self.rivals.clone();
        // Who holds it may go on by any path.
        let kind = match round % 2 {
            0 => ReserveType::ExclusiveAccessRegistrants,
            _ => ReserveType::WriteExclusiveRegistrants,
        };
        self.runtime.block_on(begin(&victim, &winner, kind))?;
        let written = Arc::new(Written::default());
        let writers: Vec<JoinHandle<()>> = (0..SLOTS)
            .map(|slot| {
                let writer = write_on(Arc::clone(&victim), slot, round, Arc::clone(&written));
                self.runtime.spawn(writer)
            })
            .collect();
        std::thread::sleep(BEFORE);

        let fault = match round % 4 {
            0 => Fault::Freeze,
            _ => Fault::Kill,
        };
        let nodes = demo.node_names();
        let place = self.prng.below(nodes.len() as u64) as usize;
        let apart = |prng: &mut Prng| Duration::from_millis(prng.below(APART_MAX_MS));
        let (before_command, before_fault) = (apart(&mut self.prng), apart(&mut self.prng));
        // Over a node that stands still a host finds out by its own time limits, which are not what is looked at here.
        let first_path = match fault {
            Fault::Kill => self.prng.below(nodes.len() as u64) as usize,
            Fault::Freeze => (place + 1) % nodes.len(),
        };
        let taking = {
            let (winner, victim_key) = (Arc::clone(&winner), victim.key);
            self.runtime.spawn(async move {
                sleep(before_command).await;
                take_over(&winner, first_path, victim_key, kind).await
            })
        };
        std::thread::sleep(before_fault);
        match fault {
            Fault::Kill => demo.kill(&nodes[place])?,
            Fault::Freeze => demo.freeze(&nodes[place])?,
        }
        let frozen_at = Instant::now();
        let took = self.runtime.block_on(taking).context("take it over")??;
        // From here on nothing of the other one appears.
        let path = (place + 1) % nodes.len();
        let found = self.runtime.block_on(read_all(&winner, path, round))?;
        let marked = self.runtime.block_on(mark(&winner, path, round, &found))?;
        if fault == Fault::Freeze {
            std::thread::sleep(FREEZE.saturating_sub(frozen_at.elapsed()));
            demo.thaw(&nodes[place])?;
        }
        std::thread::sleep(AFTERWARDS);
        written.stop.store(true, Ordering::Relaxed);
        for other in 0..nodes.len() {
            let is_there = other != place || fault == Fault::Freeze;
            if is_there {
                self.runtime
                    .block_on(check(&victim, &winner, other, &marked))
                    .with_context(|| format!("{fault:?} of {}, path {other}", nodes[place]))?;
            }
        }
        for writer in writers {
            writer.abort();
        }
        for (slot, found) in found.iter().enumerate() {
            let acknowledged = written.acknowledged[slot].load(Ordering::Relaxed);
            ensure!(
                acknowledged <= number_of(*found, round),
                "slot {slot}: write {acknowledged} was acknowledged, and {found:x} is there"
            );
        }
        let [acknowledged, conflicts] = [0, 1].map(|it| written.counts[it].load(Ordering::Relaxed));
        ensure!(acknowledged > 0, "nothing was written");
        self.tally.acknowledged += acknowledged;
        self.tally.conflicts += conflicts;
        match fault {
            Fault::Kill => {
                self.tally.killed.push(took);
                demo.start_node(&nodes[place])?;
            }
            Fault::Freeze => self.tally.frozen.push(took),
        }
        Ok(())
    }
}

/// Both are registered on every path, and the first has reserved the volume.
async fn begin(victim: &Rival, winner: &Rival, kind: ReserveType) -> Result<()> {
    // What a round before has left.
    winner.register().await?;
    let cleared = winner.reserve_out(0, ReserveOut::Clear, kind, 0).await;
    done(cleared).context("clear")?;
    victim.register().await.context("register the first")?;
    winner.register().await.context("register the second")?;
    let reserved = victim.reserve_out(1, ReserveOut::Reserve, kind, 0).await;
    done(reserved).context("reserve")?;
    Ok(())
}

/// Writes number after number to a slot, each on the next path.
async fn write_on(victim: Arc<Rival>, slot: usize, round: u32, written: Arc<Written>) {
    let mut number = 0_u64;
    while !written.stop.load(Ordering::Relaxed) {
        number += 1;
        let path = (slot + number as usize) % victim.paths();
        let outcome = write(&victim, path, slot, stamp(round, number)).await;
        match outcome {
            Outcome::Done(_) => {
                written.acknowledged[slot].store(number, Ordering::Relaxed);
                written.counts[0].fetch_add(1, Ordering::Relaxed);
            }
            Outcome::Conflict => {
                written.counts[1].fetch_add(1, Ordering::Relaxed);
            }
            // A host's own pause before it tries a path again.
            Outcome::Refused(_) | Outcome::Unknown => sleep(Duration::from_millis(10)).await,
        }
    }
}

async fn write(rival: &Rival, path: usize, slot: usize, word: u64) -> Outcome {
    let data = word.to_le_bytes().repeat(SLOT_BYTES / 8).into();
    let first = slot as u64 * SLOT_STRIDE;
    let write = command::write(rival.lun(), first, SLOT_BLOCKS, vec![data], false);
    rival.on(path, &write).await
}

const fn stamp(round: u32, number: u64) -> u64 {
    (round as u64) << 32 | number
}

/// The number of a write of this round; zero if it is of another.
const fn number_of(word: u64, round: u32) -> u64 {
    match word >> 32 == round as u64 {
        true => word & 0xFFFF_FFFF,
        false => 0,
    }
}

/// Preempts the other one's key, on one path after the other, until that is done.
async fn take_over(
    winner: &Rival,
    first: usize,
    victim_key: u64,
    kind: ReserveType,
) -> Result<Duration> {
    let begun = Instant::now();
    let mut asked = false;
    for path in first.. {
        let path = path % winner.paths();
        ensure!(begun.elapsed() < TAKEN_MAX, "it takes too long");
        let action = ReserveOut::PreemptAndAbort;
        match winner.reserve_out(path, action, kind, victim_key).await {
            Outcome::Done(_) => break,
            // An answer may be lost with its path, and somebody else's key is not there twice.
            Outcome::Conflict if asked && holds(winner, path).await => break,
            Outcome::Conflict => ensure!(asked, "it is registered, and the other one is"),
            Outcome::Refused(_) | Outcome::Unknown => asked = true,
        }
    }
    Ok(begun.elapsed())
}

/// Whether it holds the reservation.
async fn holds(rival: &Rival, path: usize) -> bool {
    let read = command::persistent_reserve_in(rival.lun(), ReserveIn::ReadReservation, 24);
    match rival.on(path, &read).await {
        // SPC-4 6.15.3.2: a header of eight bytes, then the key of the holder.
        Outcome::Done(data) => data.get(8..16) == Some(&rival.key.to_be_bytes()),
        _ => false,
    }
}

/// What the slots hold: each one write, whole.
async fn read_all(rival: &Rival, path: usize, round: u32) -> Result<[u64; SLOTS]> {
    let mut found = [0; SLOTS];
    for (slot, found) in found.iter_mut().enumerate() {
        let first = slot as u64 * SLOT_STRIDE;
        let data = rival.read(path, first, SLOT_BLOCKS).await?;
        let (words, _) = data.as_chunks::<8>();
        *found = u64::from_le_bytes(words[0]);
        ensure!(
            words.iter().all(|word| *word == words[0]),
            "slot {slot} has parts of several writes in round {round}"
        );
    }
    Ok(found)
}

/// The winner's word in a slot: no write of the other one's looks like it.
const WINNERS: u64 = 1 << 63;

/// The winner writes to every other slot; gives what is in all of them then.
async fn mark(
    winner: &Rival,
    path: usize,
    round: u32,
    found: &[u64; SLOTS],
) -> Result<[u64; SLOTS]> {
    let mut marked = *found;
    for (slot, word) in marked.iter_mut().enumerate().step_by(2) {
        *word = WINNERS | stamp(round, slot as u64);
        done(write(winner, path, slot, *word).await).context("the winner may write")?;
    }
    Ok(marked)
}

/// Nothing has appeared, and the one who has lost is refused.
async fn check(victim: &Rival, winner: &Rival, path: usize, marked: &[u64; SLOTS]) -> Result<()> {
    // A node that stood still, or its host's path, may take a moment to be back.
    let until = Instant::now() + TAKEN_MAX;
    let found = loop {
        match read_all(winner, path, 0).await {
            Ok(found) => break found,
            Err(error) => ensure!(Instant::now() < until, "{error:#}"),
        }
        sleep(Duration::from_millis(50)).await;
    };
    for (slot, (found, marked)) in found.iter().zip(marked).enumerate() {
        ensure!(
            found == marked,
            "slot {slot} held {marked:x}, and {found:x} has appeared"
        );
    }
    let refused = loop {
        match write(victim, path, 0, u64::MAX).await {
            Outcome::Unknown if Instant::now() < until => {}
            outcome => break outcome,
        }
        sleep(Duration::from_millis(50)).await;
    };
    ensure!(
        matches!(refused, Outcome::Conflict),
        "who has lost the volume writes: {refused:?}"
    );
    Ok(())
}
