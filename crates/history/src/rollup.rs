//! Adds frames of a second up to longer ones.
//!
//! Each resolution is made of the frames of the one before it, so that after a start nothing more is needed to go on than what
//! was written down: the frames of the finer resolution in the step that is under way.
//!
//! Invariants:
//! - a frame of a resolution begins at a multiple of its length, and is told once, when one comes that is not in its step;
//! - whatever the clock does, no frame holds what was measured in another step.

use alloc::vec::Vec;

use crate::Frame;

/// One of the steps in which history is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resolution {
    /// The length of a step, in seconds.
    pub seconds: u32,
    /// For how long it is kept, in seconds.
    pub kept: u64,
}

const HOUR: u64 = 3600;
const DAY: u64 = 24 * HOUR;

/// All, the finest first: each is a multiple of the one before.
pub const RESOLUTIONS: [Resolution; 4] = [
    Resolution {
        seconds: 1,
        kept: HOUR,
    },
    Resolution {
        seconds: 10,
        kept: DAY,
    },
    Resolution {
        seconds: 300,
        kept: 30 * DAY,
    },
    Resolution {
        seconds: 3600,
        kept: 365 * DAY,
    },
];

impl Resolution {
    /// When the step began in which this moment is, in seconds since 1970.
    #[must_use]
    pub const fn step_of(&self, at: u64) -> u64 {
        at - at % self.seconds as u64
    }
}

/// The steps of all resolutions but the finest that are under way.
#[derive(Debug, Default)]
pub struct Rollup {
    under_way: [Option<Frame>; RESOLUTIONS.len() - 1],
}

impl Rollup {
    /// Takes a frame of the finest resolution. Says which frames are to be written down, each with its resolution's place in
    /// [`RESOLUTIONS`]: this one, and those that are complete by now.
    pub fn take(&mut self, frame: Frame) -> Vec<(usize, Frame)> {
        let mut told = Vec::new();
        self.pass_on(0, frame, &mut told);
        told
    }

    /// Takes a frame that was written down before a start, of the resolution at this place: it is a part of the next one's step.
    /// Those of a step come in any order, the finer after the coarser. Says what is complete by now.
    pub fn take_again(&mut self, place: usize, frame: &Frame) -> Vec<(usize, Frame)> {
        let mut told = Vec::new();
        self.add(place + 1, frame, &mut told);
        told
    }

    /// What belongs to the last frames of the resolution at this place, and is not written down yet: of the steps that are under
    /// way, its own and those of the finer ones.
    pub fn under_way(&self, place: usize) -> impl Iterator<Item = &Frame> {
        self.under_way.iter().take(place).flatten()
    }

    fn pass_on(&mut self, place: usize, frame: Frame, told: &mut Vec<(usize, Frame)>) {
        self.add(place + 1, &frame, told);
        told.push((place, frame));
    }

    fn add(&mut self, place: usize, frame: &Frame, told: &mut Vec<(usize, Frame)>) {
        let Some(resolution) = RESOLUTIONS.get(place) else {
            return;
        };
        let from = resolution.step_of(frame.from);
        let under_way = &mut self.under_way[place - 1];
        let complete = under_way.take_if(|it| it.from != from);
        let sum = under_way.get_or_insert_with(|| Frame {
            from,
            seconds: resolution.seconds,
            ..Frame::default()
        });
        sum.merge(frame);
        if let Some(complete) = complete {
            self.pass_on(place, complete, told);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Measure, Sample, Series, Value};

    const COUNT: Measure = Measure(1);
    const START: u64 = 1_795_000_000 / 3600 * 3600;

    fn second(from: u64) -> Frame {
        let mut sample = Sample::default();
        sample.add(COUNT, Value::Count(1));
        let mut frame = Frame {
            from,
            seconds: 1,
            ..Frame::default()
        };
        frame.add(Series::Node, &sample);
        frame
    }

    fn count(frame: &Frame) -> u64 {
        match frame.samples[&Series::Node].get(COUNT) {
            Some(Value::Count(count)) => *count,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn each_resolution_has_each_second_once() {
        let mut rollup = Rollup::default();
        let mut told: [Vec<Frame>; 4] = Default::default();
        for at in START..START + 2 * 3600 + 1 {
            for (place, frame) in rollup.take(second(at)) {
                told[place].push(frame);
            }
        }
        let expected = [(1, 7201), (10, 720), (300, 24), (3600, 2)];
        for (frames, (seconds, number)) in told.iter().zip(expected) {
            // The last of the coarser ones wait for the step after the next of the finer.
            let fewer = number - frames.len() as u64;
            assert!(fewer <= 1, "{seconds}: {}", frames.len());
            for (place, frame) in frames.iter().enumerate() {
                assert_eq!(frame.from, START + place as u64 * seconds);
                assert_eq!(u64::from(frame.seconds), seconds);
                assert_eq!(count(frame), seconds);
            }
        }
    }

    /// Whoever asks for a year's history sees the last minute.
    #[test]
    fn what_is_under_way_and_what_was_told_are_all_there_was() {
        let mut rollup = Rollup::default();
        let mut told = [0_u64; 4];
        for at in START..START + 5000 {
            for (place, frame) in rollup.take(second(at)) {
                told[place] += count(&frame);
            }
            for (place, told) in told.iter().enumerate() {
                let under_way: u64 = rollup.under_way(place).map(count).sum();
                assert_eq!(told + under_way, at - START + 1, "place {place} at {at}");
            }
        }
    }

    #[test]
    fn a_start_in_the_middle_loses_nothing_that_was_written_down() {
        let mut rollup = Rollup::default();
        let mut told: [Vec<Frame>; 4] = Default::default();
        let stop = START + 1234;
        for at in START..stop {
            for (place, frame) in rollup.take(second(at)) {
                told[place].push(frame);
            }
        }
        rollup = Rollup::default();
        for place in (0..3).rev() {
            let last = told[place + 1].last();
            let next = last.map_or(0, |frame| frame.from + u64::from(frame.seconds));
            let written = told[place].clone();
            for frame in written.iter().filter(|frame| frame.from >= next) {
                for (place, frame) in rollup.take_again(place, frame) {
                    told[place].push(frame);
                }
            }
        }
        for at in stop..START + 4000 {
            for (place, frame) in rollup.take(second(at)) {
                told[place].push(frame);
            }
        }
        assert_eq!(told[3].len(), 1);
        assert_eq!(count(&told[3][0]), 3600);
    }

    #[test]
    fn a_clock_that_is_set_back_mixes_no_steps() {
        let mut rollup = Rollup::default();
        let mut told = Vec::new();
        for at in [
            START + 3,
            START + 4,
            START - 60,
            START - 59,
            START + 5,
            START + 10,
        ] {
            let frames = rollup.take(second(at));
            told.extend(frames.into_iter().filter(|(place, _)| *place == 1));
        }
        let steps: Vec<(u64, u64)> = told.iter().map(|(_, it)| (it.from, count(it))).collect();
        assert_eq!(steps, [(START, 2), (START - 60, 2), (START, 1)]);
    }
}
