//! What is measured each second: of the node, of what hosts do at its portal, and of its devices.
//!
//! Invariant: counts are differences of what only grows, so that nothing is counted twice or lost between two looks.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use holdfast_disk::DeviceUse;
use holdfast_engine::{DeviceStatus, NodeStatus, Use};
use holdfast_history::{Done, Frame, Measure, Sample, Series, Value};
use holdfast_model::{DiskId, PAGE_SIZE, Tier, VolumeId};

use crate::metrics::Traffic;

/// Seconds in which the node measured.
pub(super) const SECONDS: Measure = Measure(0);
/// A node that stood still for longer has another one in its place: then it is the clock that was set.
const SECONDS_MAX: u64 = 60;
/// Bytes of reads.
pub(super) const READ_BYTES: Measure = Measure(1);
/// How long reads took.
pub(super) const READS: Measure = Measure(2);
/// Bytes of writes.
pub(super) const WRITE_BYTES: Measure = Measure(3);
/// How long writes took.
pub(super) const WRITES: Measure = Measure(4);
/// How long other commands that reach the medium took.
pub(super) const OTHERS: Measure = Measure(5);
/// Sessions of initiators at the portal.
pub(super) const SESSIONS: Measure = Measure(6);
/// Blocks of 4 KiB that were read from memory.
pub(super) const CACHE_HITS: Measure = Measure(7);
/// Blocks of 4 KiB that were not in memory when they were asked for.
pub(super) const CACHE_MISSES: Measure = Measure(8);
/// Segments of the journal that are in use.
pub(super) const JOURNAL_USED: Measure = Measure(9);
/// Segments of the journal.
pub(super) const JOURNAL: Measure = Measure(10);
/// Bytes that replicas led from here have copied to joining ones.
pub(super) const SYNCED_BYTES: Measure = Measure(11);
/// Bytes that are taken, or promised.
pub(super) const USED_BYTES: Measure = Measure(12);
/// Bytes that there is room for.
pub(super) const BYTES: Measure = Measure(13);
/// That a volume was there: once, in the first second in which it is seen after a start.
pub(super) const SEEN: Measure = Measure(14);

/// What only grows, as it was when it was last looked at.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    cache_hits: u64,
    cache_misses: u64,
    synced_bytes: u64,
}

/// Makes a frame of each second.
#[derive(Debug, Default)]
pub(crate) struct Measuring {
    /// The second that is under way, since 1970.
    second: Option<u64>,
    counts: Counts,
    /// What was counted in the second that is under way.
    frame: Frame,
    /// How the node stood when it was last looked at: a second without a look is told as the one before.
    levels: Frame,
    /// The numbers and the tiers of the devices, by the numbers of their disks.
    devices: BTreeMap<DiskId, (u16, Tier)>,
    /// The volumes, and those of which a frame says so.
    volumes: BTreeSet<VolumeId>,
    seen: BTreeSet<VolumeId>,
}

impl Measuring {
    /// Takes note of how the node stands. What it says is part of the frame of the second that is under way.
    pub(crate) fn note(&mut self, status: &NodeStatus) {
        let usage = &status.usage;
        let counts = Counts {
            cache_hits: usage.cache.hits,
            cache_misses: usage.cache.misses,
            synced_bytes: status.bytes_moved,
        };
        let before = std::mem::replace(&mut self.counts, counts);
        let page = PAGE_SIZE as u64;
        let mut own = Sample::default();
        for (measure, count, before) in [
            (CACHE_HITS, counts.cache_hits, before.cache_hits),
            (CACHE_MISSES, counts.cache_misses, before.cache_misses),
            (SYNCED_BYTES, counts.synced_bytes, before.synced_bytes),
        ] {
            own.add(measure, Value::Count(count.saturating_sub(before)));
        }
        self.frame.add(Series::Node, &own);
        self.levels = Frame::default();
        if !status.open {
            return;
        }
        let mut own = Sample::default();
        let sessions = status.volumes.iter().map(|it| u64::from(it.sessions)).sum();
        for (measure, level) in [
            (SESSIONS, sessions),
            (JOURNAL_USED, u64::from(usage.segments_used)),
            (JOURNAL, u64::from(usage.segments)),
            (USED_BYTES, usage.pages_taken() * page),
            (BYTES, usage.pages * page),
        ] {
            own.add(measure, Value::level(level));
        }
        self.levels.add(Series::Node, &own);
        self.devices = status.devices.iter().filter_map(device).collect();
        self.volumes = status.volumes.iter().map(|it| it.volume).collect();
        let mut tiers = BTreeMap::<u8, (u64, u64)>::new();
        for device in status.devices.iter().filter(|it| it.absent.is_none()) {
            let (used, all) = (device.pages_used * page, device.pages * page);
            self.levels
                .add(Series::Device(device.ordinal), &fill(used, all));
            if let Some(tier) = device.tier {
                let sum = tiers.entry(number(tier)).or_default();
                *sum = (sum.0 + used, sum.1 + all);
            }
        }
        for (tier, (used, all)) in tiers {
            self.levels.add(Series::Tier(tier), &fill(used, all));
        }
    }

    /// How long the second lasts that is under way.
    pub(crate) fn left_of_second(now: SystemTime) -> Duration {
        let passed = now.duration_since(UNIX_EPOCH).unwrap_or_default();
        Duration::from_nanos(u64::from(1_000_000_000 - passed.subsec_nanos()))
    }

    /// The frame of the second that is over, if one is; `take_uses` is asked what hosts and devices have done until now.
    pub(crate) fn take(
        &mut self,
        now: SystemTime,
        take_uses: impl FnOnce() -> (Vec<Use>, Vec<DeviceUse>),
    ) -> Option<Frame> {
        let second = now.duration_since(UNIX_EPOCH).map_or(0, |it| it.as_secs());
        if self.second == Some(second) {
            return None;
        }
        let before = self.second.replace(second);
        let mut frame = std::mem::take(&mut self.frame);
        frame.merge(&self.levels);
        let mut own = Sample::default();
        let (uses, device_uses) = take_uses();
        for it in device_uses {
            // Before the first look at the node nobody knows which device it is.
            let Some((ordinal, tier)) = self.devices.get(&it.disk) else {
                continue;
            };
            let sample = done([&it.reads, &it.writes, &it.others]);
            frame.add(Series::Device(*ordinal), &sample);
            frame.add(Series::Tier(number(*tier)), &sample);
        }
        for it in uses {
            let sample = done([&it.reads, &it.writes, &it.others]);
            let series = match it.initiator {
                Some(name) => Series::Initiator(it.volume, name.to_string()),
                None => {
                    own.merge(&sample);
                    Series::Volume(it.volume)
                }
            };
            frame.add(series, &sample);
        }
        let before = before?;
        // Where the node stood still it is more than one, and where the clock was set nobody knows.
        let seconds = second.checked_sub(before);
        let seconds = seconds.filter(|it| (1..=SECONDS_MAX).contains(it));
        own.add(SECONDS, Value::Count(seconds.unwrap_or(1)));
        frame.add(Series::Node, &own);
        let mut there = Sample::default();
        there.add(SEEN, Value::Count(1));
        for volume in self.volumes.difference(&self.seen) {
            frame.add(Series::Volume(*volume), &there);
        }
        self.seen.clone_from(&self.volumes);
        frame.from = before;
        frame.seconds = 1;
        Some(frame)
    }
}

/// How a tier is called in frames, for ever.
pub(super) const fn number(tier: Tier) -> u8 {
    match tier {
        Tier::Flash => 0,
        Tier::Capacity => 1,
    }
}

/// Tells Prometheus what a frame says of volumes and devices.
pub(super) fn tell(traffic: &Traffic, frame: &Frame) {
    for (series, sample) in &frame.samples {
        match series {
            // That it is there is nothing that was done.
            Series::Volume(_) if sample.count(SEEN) > 0 && is_idle(sample) => {}
            Series::Volume(volume) => traffic.volume(*volume, &undone(sample)),
            Series::Device(device) => traffic.device(*device, &undone(sample)),
            Series::Node | Series::Initiator(..) | Series::Tier(_) => {}
        }
    }
}

fn is_idle(sample: &Sample) -> bool {
    let kinds = [READS, WRITES, OTHERS];
    kinds.iter().all(|it| sample.latencies(*it).is_none())
}

/// What [`done`] has said: reads, writes, others.
fn undone(sample: &Sample) -> [Done; 3] {
    let kinds = [
        (Some(READ_BYTES), READS),
        (Some(WRITE_BYTES), WRITES),
        (None, OTHERS),
    ];
    kinds.map(|(bytes, times)| Done {
        bytes: bytes.map_or(0, |bytes| sample.count(bytes)),
        latencies: sample.latencies(times).cloned().unwrap_or_default(),
    })
}

fn fill(used: u64, all: u64) -> Sample {
    let mut sample = Sample::default();
    sample.add(USED_BYTES, Value::level(used));
    sample.add(BYTES, Value::level(all));
    sample
}

/// Reads, writes, others.
fn done([reads, writes, others]: [&Done; 3]) -> Sample {
    let mut sample = Sample::default();
    for (bytes, times, done) in [(READ_BYTES, READS, reads), (WRITE_BYTES, WRITES, writes)] {
        sample.add(bytes, Value::Count(done.bytes));
        sample.add(times, Value::Latencies(done.latencies.clone()));
    }
    sample.add(OTHERS, Value::Latencies(others.latencies.clone()));
    sample
}

/// One that is there.
fn device(status: &DeviceStatus) -> Option<(DiskId, (u16, Tier))> {
    Some((status.disk?, (status.ordinal, status.tier?)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdfast_engine::{DeviceState, JournalMark, VolumeStatus};
    use holdfast_history::Latencies;

    fn at(millis: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_millis(1_795_000_000_000 + millis)
    }

    fn reads(count: u64) -> (Vec<Use>, Vec<DeviceUse>) {
        let mut latencies = Latencies::default();
        (0..count).for_each(|_| latencies.record(100));
        let reads = Done {
            bytes: count * 4096,
            latencies,
        };
        let by_all = Use {
            volume: VolumeId(7),
            initiator: None,
            reads: reads.clone(),
            writes: Done::default(),
            others: Done::default(),
        };
        let of_device = DeviceUse {
            disk: DiskId(0),
            reads,
            writes: Done::default(),
            others: Done::default(),
        };
        (vec![by_all], vec![of_device])
    }

    fn nothing() -> (Vec<Use>, Vec<DeviceUse>) {
        (Vec::new(), Vec::new())
    }

    fn count(frame: &Frame, series: &Series, measure: Measure) -> u64 {
        match frame.samples[series].get(measure) {
            Some(Value::Count(count)) => *count,
            Some(Value::Latencies(latencies)) => latencies.count(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_second_is_told_once_when_it_is_over() {
        let mut measuring = Measuring::default();
        let none = measuring.take(at(300), nothing);
        assert_eq!(
            none, None,
            "of the first one nobody knows how long it was looked at"
        );
        assert_eq!(measuring.take(at(900), || panic!("it is not over")), None);
        let frame = measuring.take(at(1100), || reads(5)).expect("it is over");
        assert_eq!((frame.from, frame.seconds), (1_795_000_000, 1));
        for series in [Series::Node, Series::Volume(VolumeId(7))] {
            assert_eq!(count(&frame, &series, READS), 5);
            assert_eq!(count(&frame, &series, READ_BYTES), 5 * 4096);
        }
        assert_eq!(count(&frame, &Series::Node, SECONDS), 1);
        let idle = measuring.take(at(2000), nothing).expect("it is over");
        assert_eq!(count(&idle, &Series::Node, SECONDS), 1);
        assert_eq!(idle.samples.len(), 1);
        for (later, seconds) in [(5400, 3), (2_000_000, 1), (0, 1)] {
            let frame = measuring.take(at(later), nothing).expect("it is over");
            assert_eq!(count(&frame, &Series::Node, SECONDS), seconds, "{later}");
        }
    }

    #[test]
    fn counts_are_what_came_since_the_last_look() {
        let mut measuring = Measuring::default();
        measuring.take(at(0), nothing);
        let mut status = NodeStatus {
            open: true,
            bytes_moved: 1000,
            volumes: vec![VolumeStatus {
                volume: VolumeId(7),
                name: None,
                served: true,
                sessions: 3,
                path: None,
            }],
            ..NodeStatus::default()
        };
        measuring.note(&status);
        status.bytes_moved = 1500;
        measuring.note(&status);
        let frame = measuring.take(at(1000), nothing).expect("it is over");
        assert_eq!(count(&frame, &Series::Node, SYNCED_BYTES), 1500);
        let sessions = frame.samples[&Series::Node].get(SESSIONS);
        assert_eq!(sessions, Some(&Value::level(3)));
        let frame = measuring.take(at(1500), || panic!("it is not over"));
        assert_eq!(frame, None);
        measuring.note(&status);
        let frame = measuring.take(at(2000), nothing).expect("it is over");
        assert_eq!(frame.samples[&Series::Node].get(SYNCED_BYTES), None);
        let frame = measuring.take(at(3000), nothing).expect("it is over");
        let sessions = frame.samples[&Series::Node].get(SESSIONS);
        assert_eq!(sessions, Some(&Value::level(3)), "nobody has looked again");
    }

    #[test]
    fn that_a_volume_is_there_is_told_once_and_is_nothing_that_was_done() {
        let mut measuring = Measuring::default();
        let status = NodeStatus {
            open: true,
            volumes: vec![VolumeStatus {
                volume: VolumeId(7),
                name: None,
                served: true,
                sessions: 0,
                path: None,
            }],
            ..NodeStatus::default()
        };
        measuring.note(&status);
        assert_eq!(measuring.take(at(0), nothing), None);
        let frame = measuring.take(at(1000), nothing).expect("it is over");
        let sample = &frame.samples[&Series::Volume(VolumeId(7))];
        assert_eq!(sample.count(SEEN), 1);
        assert!(is_idle(sample));
        measuring.note(&status);
        let frame = measuring.take(at(2000), || reads(1)).expect("it is over");
        let sample = &frame.samples[&Series::Volume(VolumeId(7))];
        assert_eq!((sample.count(SEEN), is_idle(sample)), (0, false));
        // Another one is another one, also of the same number.
        measuring.note(&NodeStatus {
            open: true,
            ..NodeStatus::default()
        });
        let frame = measuring.take(at(3000), nothing).expect("it is over");
        assert_eq!(frame.samples.len(), 1);
        measuring.note(&status);
        let frame = measuring.take(at(4000), nothing).expect("it is over");
        assert_eq!(count(&frame, &Series::Volume(VolumeId(7)), SEEN), 1);
    }

    /// Its number in the store, not that of the disk at this start.
    #[test]
    fn devices_are_called_by_their_numbers() {
        let mut measuring = Measuring::default();
        measuring.take(at(0), nothing);
        measuring.note(&NodeStatus {
            open: true,
            devices: vec![DeviceStatus {
                disk: Some(DiskId(0)),
                ordinal: 5,
                id: 1,
                tier: Some(Tier::Capacity),
                state: DeviceState::InUse,
                absent: None,
                journal: JournalMark::None,
                pages: 100,
                pages_used: 25,
                bad_blocks: 0,
            }],
            ..NodeStatus::default()
        });
        let frame = measuring.take(at(1000), || reads(5)).expect("it is over");
        for series in [Series::Device(5), Series::Tier(1)] {
            assert_eq!(count(&frame, &series, READS), 5);
            let used = frame.samples[&series].get(USED_BYTES);
            assert_eq!(used, Some(&Value::level(25 * PAGE_SIZE as u64)));
        }
    }
}
