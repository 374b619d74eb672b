//! The last few seconds that are over, of all volumes: in memory, for that is asked for each second.
//!
//! Invariant: it holds no more frames than seconds are told.

use std::collections::{BTreeMap, VecDeque};

use holdfast_api::documents::{LocalTraffic, LocalVolumeTraffic, TRAFFIC_SECONDS};
use holdfast_history::{Frame, Sample, Series};
use holdfast_model::VolumeId;

use super::{answer, measure};

/// What was measured of volumes in a step.
#[derive(Debug)]
struct Recent {
    from: u64,
    until: u64,
    /// Seconds of it in which the node measured.
    seconds: u64,
    volumes: Vec<(VolumeId, Sample)>,
}

/// The last few seconds, the earliest first.
#[derive(Debug, Default)]
pub(super) struct Seconds(VecDeque<Recent>);

impl Seconds {
    /// Takes what was measured in the newest second.
    pub(super) fn take(&mut self, frame: &Frame) {
        let until = frame.from.saturating_add(u64::from(frame.seconds));
        let first = until.saturating_sub(u64::from(TRAFFIC_SECONDS));
        // Where the clock was set back, what was measured before it is of no time that can be told.
        self.0
            .retain(|it| it.until > first && it.from < frame.from && it.until <= frame.from);
        let own = frame.samples.get(&Series::Node);
        let volumes = frame.samples.iter().filter_map(|(series, sample)| {
            let Series::Volume(volume) = series else {
                return None;
            };
            Some((*volume, sample.clone()))
        });
        self.0.push_back(Recent {
            from: frame.from,
            until,
            seconds: own.map_or(0, |it| it.count(measure::SECONDS)),
            volumes: volumes.collect(),
        });
    }

    /// What was done with each volume.
    pub(super) fn traffic(&self, node: u16) -> LocalTraffic {
        let mut all = BTreeMap::<VolumeId, Sample>::new();
        for (volume, sample) in self.0.iter().flat_map(|it| &it.volumes) {
            all.entry(*volume).or_default().merge(sample);
        }
        let volumes = all.iter().map(|(volume, sample)| LocalVolumeTraffic {
            volume: volume.0,
            reads: answer::reads(sample),
            writes: answer::writes(sample),
        });
        let is_busy = |it: &LocalVolumeTraffic| {
            !(it.reads.latencies.is_empty() && it.writes.latencies.is_empty())
        };
        LocalTraffic {
            node,
            seconds: self.0.iter().map(|it| it.seconds).sum(),
            volumes: volumes.filter(is_busy).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use holdfast_history::{Latencies, Value};

    use super::*;

    const START: u64 = 1_795_000_000;

    fn second(at: u64, reads: u64) -> Frame {
        let mut frame = Frame {
            from: at,
            seconds: 1,
            ..Frame::default()
        };
        let mut own = Sample::default();
        own.add(measure::SECONDS, Value::Count(1));
        frame.add(Series::Node, &own);
        let mut sample = Sample::default();
        sample.add(measure::READ_BYTES, Value::Count(512 * reads));
        let latencies = Latencies::from_steps(100 * reads, [(100, reads)]);
        sample.add(measure::READS, Value::Latencies(latencies));
        frame.add(Series::Volume(VolumeId(7)), &sample);
        frame
    }

    fn counted(seconds: &Seconds) -> (u64, u64) {
        let told = seconds.traffic(1);
        let reads = told.volumes.iter().flat_map(|it| &it.reads.latencies);
        (told.seconds, reads.map(|(_, count)| count).sum())
    }

    #[test]
    fn the_last_five_seconds_are_told_and_no_others() {
        let mut seconds = Seconds::default();
        assert_eq!(seconds.traffic(1).seconds, 0);
        for at in 0..20 {
            seconds.take(&second(START + at, 1 << at));
        }
        assert_eq!(counted(&seconds), (5, 0b11111 << 15));
        assert_eq!(seconds.0.len(), 5);
        // Seconds in which nothing was done count, and the volume goes from the list.
        for at in 20..30 {
            seconds.take(&second(START + at, 0));
        }
        assert_eq!(seconds.traffic(1).volumes, []);
        assert_eq!(counted(&seconds).0, 5);
    }

    #[test]
    fn a_gap_and_a_clock_that_is_set_back_mix_no_times() {
        let mut seconds = Seconds::default();
        for at in [0, 1, 2, 100] {
            seconds.take(&second(START + at, 1));
        }
        assert_eq!(counted(&seconds), (1, 1));
        seconds.take(&second(START + 50, 1));
        assert_eq!(counted(&seconds), (1, 1));
    }
}
