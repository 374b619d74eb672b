//! Whether a history can have happened: every block is a register that all hosts agree on.
//!
//! Each block's attempts are put into an order that explains what everybody was told: an attempt
//! takes effect between its sending and its end, once; one that its host has given up may have taken
//! effect before that, or never. ("Just-in-time linearization": Lowe, Testing for linearizability,
//! 2017: the set of all states that the block can be in is carried along the history, and an attempt
//! is given its place at the latest when it ends.)
//!
//! Reads and writes of one block are of one moment, whatever sectors of it they touch. A read takes
//! its place as soon as the block is what it saw: it changes nothing, so that later is no better.

use std::collections::{BTreeMap, BTreeSet};

use crate::content::Value;
use crate::failure::Failure;
use crate::history::{Asked, Attempt, Ended, Order, Sectors};
use crate::volumes::SECTORS_PER_BLOCK;

/// A block's sectors.
type Block = [Value; SECTORS_PER_BLOCK as usize];

/// States that a block may be in at a moment, at most: beyond it a history is not worth its search.
const STATES_MAX: usize = 200_000;

/// What an attempt does to one block.
#[derive(Clone, Debug)]
struct Step {
    attempt: usize,
    /// Which of its sectors.
    sectors: std::ops::Range<usize>,
    effect: Effect,
    sent: Order,
    /// When it must have taken effect.
    end: Order,
    /// It may never have taken effect.
    optional: bool,
}

#[derive(Clone, Debug)]
enum Effect {
    Write(Value),
    Read(Vec<Value>),
}

/// Checks a history.
///
/// # Errors
/// [`Failure::History`] if it cannot have happened.
pub fn check(attempts: &[Attempt]) -> Result<(), Failure> {
    let mut blocks: BTreeMap<(usize, u64), Vec<Step>> = BTreeMap::new();
    for (number, attempt) in attempts.iter().enumerate() {
        check_right(number, attempt)?;
        for (block, step) in steps(number, attempt) {
            blocks
                .entry((attempt.sectors.volume, block))
                .or_default()
                .push(step);
        }
    }
    for ((volume, block), steps) in blocks {
        let steps = without_unseen(steps);
        if let Err(stuck) = explain(&steps) {
            return Err(Failure::History(report(
                volume, block, &steps, stuck, attempts,
            )));
        }
    }
    Ok(())
}

/// Whether what was done was done by somebody who may.
fn check_right(number: usize, attempt: &Attempt) -> Result<(), Failure> {
    let was_done = matches!(attempt.ended, Ended::Done(..));
    let is_forbidden = attempt.fenced.is_some_and(|fenced| fenced < attempt.sent);
    if was_done && is_forbidden && attempt.asked != Asked::Read {
        let host = attempt.host;
        return Err(Failure::History(format!(
            "attempt {number} of h{host} was done, though the host had lost the right to write before it was sent"
        )));
    }
    Ok(())
}

/// Checks that reads that nobody disturbed have all seen the same.
///
/// # Errors
/// [`Failure::History`] if they have not.
pub fn reads_agree(reads: &[Attempt]) -> Result<(), Failure> {
    let mut seen: BTreeMap<(usize, u64), Value> = BTreeMap::new();
    for read in reads {
        let Ended::Done(_, values) = &read.ended else {
            continue;
        };
        let Sectors { volume, first, .. } = read.sectors;
        for (sector, value) in (first..).zip(values) {
            let before = *seen.entry((volume, sector)).or_insert(*value);
            if before != *value {
                return Err(Failure::History(format!(
                    "sector {sector} of volume {volume} is {before:x} over one path and {value:x} \
                     over another, and nobody writes"
                )));
            }
        }
    }
    Ok(())
}

/// What an attempt does to each block.
fn steps(number: usize, attempt: &Attempt) -> Vec<(u64, Step)> {
    let Sectors { first, count, .. } = attempt.sectors;
    let (end, optional) = match &attempt.ended {
        Ended::Done(order, _) => (*order, false),
        Ended::GivenUp(order) => (*order, true),
        Ended::No => (Order::MAX, true),
    };
    let fenced = attempt.fenced.filter(|_| attempt.asked != Asked::Read);
    if fenced.is_some_and(|fenced| fenced < attempt.sent) {
        return Vec::new();
    }
    let end = fenced.map_or(end, |fenced| end.min(fenced));
    let mut steps = Vec::new();
    let mut sector = first;
    while sector < first + count {
        let block = sector / SECTORS_PER_BLOCK;
        let stop = ((block + 1) * SECTORS_PER_BLOCK).min(first + count);
        let effect = match (attempt.asked, &attempt.ended) {
            (Asked::Write(value), _) => Some(Effect::Write(value)),
            (Asked::Read, Ended::Done(_, values)) => {
                let range = (sector - first) as usize..(stop - first) as usize;
                Some(Effect::Read(values[range].to_vec()))
            }
            (Asked::Read, _) => None,
        };
        let base = block * SECTORS_PER_BLOCK;
        let sectors = (sector - base) as usize..(stop - base) as usize;
        if let Some(effect) = effect {
            let step = Step {
                attempt: number,
                sectors,
                effect,
                sent: attempt.sent,
                end,
                optional,
            };
            steps.push((block, step));
        }
        sector = stop;
    }
    steps
}

/// Leaves out writes that may never have taken effect, and of which nobody ever saw anything: if
/// there is an explanation with them, there is one without.
fn without_unseen(steps: Vec<Step>) -> Vec<Step> {
    let seen: BTreeSet<Value> = steps
        .iter()
        .flat_map(|step| match &step.effect {
            Effect::Read(values) => values.clone(),
            Effect::Write(_) => Vec::new(),
        })
        .collect();
    let keeps = |step: &Step| match &step.effect {
        Effect::Write(value) => !step.optional || seen.contains(value),
        Effect::Read(_) => true,
    };
    steps.into_iter().filter(keeps).collect()
}

/// A state that the block may be in, and which of the attempts under way have led to it.
type State = (Block, u64);

/// Looks for an order. Fails with the step that has no place in any.
fn explain(steps: &[Step]) -> Result<(), usize> {
    let mut moments: Vec<(Order, bool, usize)> = Vec::new();
    for (index, step) in steps.iter().enumerate() {
        moments.push((step.sent, true, index));
        if step.end != Order::MAX {
            moments.push((step.end, false, index));
        }
    }
    moments.sort_unstable();
    let mut states: BTreeSet<State> = BTreeSet::from([(Block::default(), 0)]);
    let mut open: BTreeMap<usize, usize> = BTreeMap::new();
    for (_, begins, index) in moments {
        if begins {
            let slot = (0..64).find(|slot| !open.values().any(|used| used == slot));
            open.insert(
                index,
                slot.expect("few attempts on a block are under way at a time"),
            );
            if matches!(steps[index].effect, Effect::Read(_)) {
                let placed = states.iter().map(|state| with_reads(steps, &open, *state));
                states = placed.collect();
            }
            continue;
        }
        states = end(steps, &open, states, index);
        open.remove(&index);
        if states.is_empty() {
            return Err(index);
        }
        assert!(
            states.len() <= STATES_MAX,
            "a history has few explanations at a time"
        );
    }
    Ok(())
}

/// The states after attempt `last` has ended.
fn end(
    steps: &[Step],
    open: &BTreeMap<usize, usize>,
    states: BTreeSet<State>,
    last: usize,
) -> BTreeSet<State> {
    let bit = 1u64 << open[&last];
    let mut after = BTreeSet::new();
    let mut seen = BTreeSet::new();
    let mut todo: Vec<State> = Vec::new();
    for state in states {
        if state.1 & bit != 0 {
            after.insert((state.0, state.1 & !bit));
        } else {
            if steps[last].optional {
                after.insert(state);
            }
            todo.push(state);
        }
    }
    while let Some((block, done)) = todo.pop() {
        if !seen.insert((block, done)) {
            continue;
        }
        for (index, slot) in open {
            let this = 1u64 << slot;
            let Effect::Write(value) = steps[*index].effect else {
                continue;
            };
            if done & this != 0 {
                continue;
            }
            let mut next = block;
            next[steps[*index].sectors.clone()].fill(value);
            let next = with_reads(steps, open, (next, done | this));
            if next.1 & bit != 0 {
                after.insert((next.0, next.1 & !bit));
            } else {
                todo.push(next);
            }
        }
    }
    after
}

/// A state, with every read under way that sees it as it is in its place.
fn with_reads(steps: &[Step], open: &BTreeMap<usize, usize>, (block, mut done): State) -> State {
    for (index, slot) in open {
        let Step {
            effect, sectors, ..
        } = &steps[*index];
        if let Effect::Read(values) = effect
            && block[sectors.clone()] == values[..]
        {
            done |= 1 << slot;
        }
    }
    (block, done)
}

/// Attempts that a report tells of, at most.
const REPORTED_MAX: usize = 40;

fn report(volume: usize, block: u64, steps: &[Step], stuck: usize, attempts: &[Attempt]) -> String {
    use std::fmt::Write;
    let last = &steps[stuck];
    let mut text = format!(
        "block {block} of volume {volume} cannot have been as it was seen when attempt {} ended",
        last.attempt
    );
    let mut near: Vec<&Step> = steps.iter().filter(|step| step.sent <= last.end).collect();
    near.sort_by_key(|step| step.sent);
    let skip = near.len().saturating_sub(REPORTED_MAX);
    for step in &near[skip..] {
        let Attempt {
            host, path, ended, ..
        } = &attempts[step.attempt];
        let end = match ended {
            Ended::No => "open".into(),
            Ended::Done(order, _) => format!("done {order}"),
            Ended::GivenUp(order) => format!("given up {order}"),
        };
        let effect = match &step.effect {
            Effect::Write(value) => format!("write {value:x}"),
            Effect::Read(values) => format!("read {values:x?}"),
        };
        let (number, sent, sectors) = (step.attempt, step.sent, &step.sectors);
        let _ = write!(
            text,
            "\n  attempt {number} of h{host} over path {path}: sent {sent}, {end}: \
             sectors {sectors:?} {effect}"
        );
    }
    text
}

#[cfg(test)]
#[path = "oracle_tests.rs"]
mod tests;
