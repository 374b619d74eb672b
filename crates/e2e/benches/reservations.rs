//! What a change of reservations costs on a healthy cluster of three nodes with etcd: from the command to its answer, which is
//! there when every node enforces the change.
//!
//! `cargo bench -p holdfast-e2e --bench reservations -- [ROUNDS]`: medians and worst cases, in milliseconds, of commands that
//! come over the nodes in turn; docs/hacking.md says what was found.

use std::io::{self, Write as _};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use holdfast_e2e::rival::{Rival, done};
use holdfast_e2e::{DemoOptions, scenario};
use holdfast_lab::command::{ReserveOut, ReserveType};
use tokio::runtime::Builder;

const KIND: ReserveType = ReserveType::WriteExclusiveRegistrants;
const PATIENCE: Duration = Duration::from_secs(60);

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1).filter(|it| it != "--bench");
    let rounds = match arguments.next() {
        None => 50,
        Some(rounds) => rounds
            .parse()
            .context("the argument is a number of rounds")?,
    };
    if arguments.next().is_some() {
        bail!("one argument: a number of rounds");
    }
    let options = DemoOptions {
        volumes: vec!["shared:16GiB:mirror2"],
        etcd: true,
        ..DemoOptions::default()
    };
    scenario(options, |demo| {
        demo.wait_until_whole("shared", PATIENCE)?;
        let file = demo.file();
        let target = file.volume("shared")?.target.clone();
        let portals: Vec<_> = file.nodes.iter().map(|node| node.portal).collect();
        let one = Rival::new(1, &target, &portals)?;
        let other = Rival::new(2, &target, &portals)?;
        let runtime = Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(measure(&one, &other, rounds))
    });
    Ok(())
}

/// The commands of a round, in order: who sends it, and what.
const COMMANDS: [(usize, ReserveOut, &str); 8] = [
    (0, ReserveOut::RegisterAndIgnore, "register"),
    (1, ReserveOut::RegisterAndIgnore, "register"),
    (0, ReserveOut::Reserve, "reserve"),
    (1, ReserveOut::Preempt, "preempt"),
    (0, ReserveOut::RegisterAndIgnore, "register"),
    (0, ReserveOut::PreemptAndAbort, "preempt and abort"),
    (0, ReserveOut::Release, "release"),
    (0, ReserveOut::Clear, "clear"),
];

async fn measure(one: &Rival, other: &Rival, rounds: usize) -> Result<()> {
    let mut times: Vec<(&str, Vec<Duration>)> = Vec::new();
    for round in 0..rounds {
        for (place, (who, action, what)) in COMMANDS.into_iter().enumerate() {
            let (rival, rival_key) = match who {
                0 => (one, other.key),
                _ => (other, one.key),
            };
            let action_key = match action {
                ReserveOut::RegisterAndIgnore => rival.key,
                _ => rival_key,
            };
            // A registration is its path's: what one host does, it does on the same path.
            let path = (round + who) % rival.paths();
            let begun = Instant::now();
            let outcome = rival.reserve_out(path, action, KIND, action_key).await;
            let took = begun.elapsed();
            done(outcome).with_context(|| format!("round {round}, command {place}: {what}"))?;
            match times.iter_mut().find(|(known, _)| *known == what) {
                Some((_, times)) => times.push(took),
                None => times.push((what, vec![took])),
            }
        }
    }
    let mut out = io::stdout();
    writeln!(out, "what               count  median ms  worst ms")?;
    for (what, mut times) in times {
        times.sort_unstable();
        let milliseconds = |time: Duration| time.as_secs_f64() * 1e3;
        let median = milliseconds(times[times.len() / 2]);
        let worst = milliseconds(times[times.len() - 1]);
        writeln!(
            out,
            "{what:<17}  {:>5}  {median:>9.1}  {worst:>8.1}",
            times.len()
        )?;
    }
    Ok(())
}
