//! How slow the devices are now: of each the 99th percentile of the last minute.
//!
//! Invariant: of a device that does next to nothing nothing is said; ten operations are enough, for one that hangs does no more.

use std::collections::{BTreeMap, VecDeque};

use holdfast_history::{Frame, Latencies, Series};
use tokio::sync::watch;

use super::measure::{OTHERS, READS, WRITES};

/// Microseconds that the slowest hundredth of operations took at least, by the device's number.
pub(crate) type Tails = BTreeMap<u16, u64>;

/// Seconds that are looked at.
const SECONDS: usize = 60;
/// Seconds that are added up before they are looked at.
const STEP: usize = 10;
/// Fewer operations in that time say nothing.
const OPERATIONS_MIN: u64 = 10;

type Step = BTreeMap<u16, Latencies>;

#[derive(Debug)]
pub(super) struct Slowness {
    /// Steps that are over, the newest last.
    steps: VecDeque<Step>,
    under_way: Step,
    seconds: usize,
    told: watch::Sender<Tails>,
}

impl Slowness {
    pub(super) fn new() -> (Self, watch::Receiver<Tails>) {
        let (told, tails) = watch::channel(Tails::new());
        let new = Self {
            steps: VecDeque::new(),
            under_way: Step::new(),
            seconds: 0,
            told,
        };
        (new, tails)
    }

    /// Takes in what was measured in a second.
    pub(super) fn take(&mut self, frame: &Frame) {
        for (series, sample) in &frame.samples {
            let Series::Device(number) = series else {
                continue;
            };
            for measure in [READS, WRITES, OTHERS] {
                if let Some(latencies) = sample.latencies(measure) {
                    self.under_way.entry(*number).or_default().merge(latencies);
                }
            }
        }
        self.seconds += 1;
        if self.seconds < STEP {
            return;
        }
        self.seconds = 0;
        if self.steps.len() >= SECONDS / STEP {
            self.steps.pop_front();
        }
        self.steps.push_back(std::mem::take(&mut self.under_way));
        let mut all = Step::new();
        for (number, latencies) in self.steps.iter().flatten() {
            all.entry(*number).or_default().merge(latencies);
        }
        let enough = all
            .into_iter()
            .filter(|(_, it)| it.count() >= OPERATIONS_MIN);
        let tails = enough.filter_map(|(number, it)| Some((number, it.quantile(0.99)?)));
        self.told.send_replace(tails.collect());
    }
}

#[cfg(test)]
mod tests {
    use holdfast_history::{Sample, Value};

    use super::*;

    fn second(device: u16, operations: &[(u64, u64)]) -> Frame {
        let mut frame = Frame::default();
        let mut sample = Sample::default();
        let latencies = Latencies::from_steps(0, operations.iter().copied());
        sample.add(WRITES, Value::Latencies(latencies));
        frame.add(Series::Device(device), &sample);
        frame
    }

    #[test]
    fn the_slowest_hundredth_of_the_last_minute_counts_and_few_operations_do_not() {
        let (mut slowness, tails) = Slowness::new();
        slowness.take(&second(4, &[(1_000_000, 9)]));
        for _ in 1..10 {
            slowness.take(&second(3, &[(100, 20), (1_000_000, 1)]));
        }
        let told = tails.borrow().clone();
        assert_eq!(
            told.keys().copied().collect::<Vec<_>>(),
            [3],
            "the other one did too little"
        );
        assert!((900_000..1_200_000).contains(&told[&3]), "{told:?}");
        // Of a minute without anything nothing is left.
        for _ in 0..SECONDS {
            slowness.take(&Frame::default());
        }
        assert!(tails.borrow().is_empty());
    }
}
