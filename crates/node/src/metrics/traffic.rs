//! What hosts do with volumes at this portal, and what devices do, for Prometheus: the same counts as the history has.
//!
//! Invariant: a volume or device that is gone is told no more: labels have as many values as there are of them.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use holdfast_api::documents::LocalReport;
use holdfast_history::{Done, Latencies};
use holdfast_model::VolumeId;
use prometheus_client::encoding::{EncodeLabelSet, EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::{MetricType, TypedMetric};
use prometheus_client::registry::{Registry, Unit};

use super::Total;

/// Bounds of lengths, in microseconds: powers of two from 16 to 256 us, for reads from memory and from flash, and powers of four up to
/// 4 s. Each is the end of a step of [`Latencies`], so that what is told is exact.
const BOUNDS: [u64; 12] = [
    16,
    32,
    64,
    128,
    256,
    1 << 10,
    1 << 12,
    1 << 14,
    1 << 16,
    1 << 18,
    1 << 20,
    1 << 22,
];

/// How long something took, as a histogram.
#[derive(Clone, Debug, Default)]
struct Lengths(Arc<Mutex<Counts>>);

#[derive(Debug, Default)]
struct Counts {
    /// By bound; the last of what is longer than all.
    counts: [u64; BOUNDS.len() + 1],
    total: u64,
}

impl Lengths {
    fn add(&self, latencies: &Latencies) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for (microseconds, count) in latencies.steps() {
            let place = BOUNDS.partition_point(|bound| *bound < microseconds);
            counts.counts[place] += count;
        }
        counts.total += latencies.total();
    }
}

impl EncodeMetric for Lengths {
    fn encode(&self, mut encoder: MetricEncoder) -> Result<(), std::fmt::Error> {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let bounds = BOUNDS.map(|bound| bound as f64 / 1e6);
        let bounds = bounds.into_iter().chain([f64::INFINITY]);
        let buckets: Vec<(f64, u64)> = bounds.zip(counts.counts).collect();
        let count = counts.counts.iter().sum();
        let seconds = counts.total as f64 / 1e6;
        encoder.encode_histogram::<NoLabelSet>(seconds, count, &buckets, None)
    }

    fn metric_type(&self) -> MetricType {
        Self::TYPE
    }
}

impl TypedMetric for Lengths {
    const TYPE: MetricType = MetricType::Histogram;
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, PartialOrd, Ord, EncodeLabelSet)]
struct Commands {
    volume: String,
    kind: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, PartialOrd, Ord, EncodeLabelSet)]
struct Operations {
    device: u16,
    kind: &'static str,
}

/// What is done of one kind of thing.
#[derive(Clone, Debug)]
struct Flow<L> {
    lengths: Family<L, Lengths>,
    bytes: Family<L, Total>,
    /// Of which something is told.
    told: Arc<Mutex<BTreeSet<L>>>,
}

impl<L: Clone + std::hash::Hash + Eq + Ord> Default for Flow<L> {
    fn default() -> Self {
        Self {
            lengths: Family::default(),
            bytes: Family::default(),
            told: Arc::default(),
        }
    }
}

impl<L: Clone + std::hash::Hash + Eq + Ord> Flow<L> {
    /// Takes what was done, by kinds.
    fn add(&self, label: impl Fn(&'static str) -> L, [reads, writes, others]: &[Done; 3]) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        for (kind, done) in [("read", reads), ("write", writes), ("other", others)] {
            if done.latencies.count() == 0 {
                continue;
            }
            let label = label(kind);
            self.lengths.get_or_create(&label).add(&done.latencies);
            self.bytes.get_or_create(&label).inc_by(done.bytes);
            told.insert(label);
        }
    }

    /// Forgets what is not there any more.
    fn keep(&self, is_there: impl Fn(&L) -> bool) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        told.retain(|label| {
            let is_there = is_there(label);
            if !is_there {
                self.lengths.remove(label);
                self.bytes.remove(label);
            }
            is_there
        });
    }
}

/// What is done with volumes and by devices.
#[derive(Clone, Debug, Default)]
pub(crate) struct Traffic {
    volumes: Flow<Commands>,
    devices: Flow<Operations>,
}

impl Traffic {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register_with_unit(
            "command_duration",
            "How long commands of hosts took that read, wrote, or did something else on a volume at this portal: from when the last byte of \
             one, or of its data, was read from the connection until its answer was handed to that, but for what was waited for the host",
            Unit::Seconds,
            self.volumes.lengths.clone(),
        );
        registry.register_with_unit(
            "command_data",
            "What commands of hosts read or wrote on a volume at this portal",
            Unit::Bytes,
            self.volumes.bytes.clone(),
        );
        registry.register_with_unit(
            "device_operation_duration",
            "How long devices took to read, write, flush or discard",
            Unit::Seconds,
            self.devices.lengths.clone(),
        );
        registry.register_with_unit(
            "device_data",
            "What devices read or wrote",
            Unit::Bytes,
            self.devices.bytes.clone(),
        );
    }

    /// Hosts did this with a volume.
    pub(crate) fn volume(&self, volume: VolumeId, done: &[Done; 3]) {
        let label = |kind| Commands {
            volume: volume.to_string(),
            kind,
        };
        self.volumes.add(label, done);
    }

    /// A device did this.
    pub(crate) fn device(&self, device: u16, done: &[Done; 3]) {
        self.devices.add(|kind| Operations { device, kind }, done);
    }

    /// Forgets volumes and devices that this report of the node does not have.
    pub(super) fn keep(&self, report: &LocalReport) {
        // Before it is registered it knows of none, and so of none that is gone.
        if report.incarnation == 0 {
            return;
        }
        let volumes = report.volumes.iter();
        let volumes: BTreeSet<String> = volumes.map(|it| VolumeId(it.volume).to_string()).collect();
        self.volumes.keep(|label| volumes.contains(&label.volume));
        let devices: BTreeSet<u16> = report.devices.iter().map(|it| it.number).collect();
        self.devices.keep(|label| devices.contains(&label.device));
    }
}

#[cfg(test)]
mod tests {
    use holdfast_api::documents::LocalVolume;
    use prometheus_client::encoding::text;

    use super::*;

    fn done(lengths: &[u64]) -> Done {
        let mut latencies = Latencies::default();
        lengths.iter().for_each(|it| latencies.record(*it));
        Done {
            bytes: 4096 * lengths.len() as u64,
            latencies,
        }
    }

    fn text_of(traffic: &Traffic) -> String {
        let mut registry = Registry::with_prefix("holdfast");
        traffic.register(&mut registry);
        let mut text = String::new();
        text::encode(&mut text, &registry).expect("a string takes it");
        text
    }

    #[test]
    fn commands_are_told_in_seconds_and_bytes() {
        let traffic = Traffic::default();
        let nothing = Done::default();
        let reads = done(&[10, 64, 65, 1_000, 9_000_000]);
        traffic.volume(
            VolumeId(7),
            &[reads.clone(), nothing.clone(), nothing.clone()],
        );
        traffic.volume(VolumeId(7), &[reads, done(&[300]), nothing]);
        let text = text_of(&traffic);
        for line in [
            "# TYPE holdfast_command_duration_seconds histogram",
            "# TYPE holdfast_command_data_bytes counter",
            "holdfast_command_data_bytes_total{volume=\"v7\",kind=\"read\"} 40960",
            "holdfast_command_data_bytes_total{volume=\"v7\",kind=\"write\"} 4096",
            "holdfast_command_duration_seconds_count{volume=\"v7\",kind=\"read\"} 10",
            "holdfast_command_duration_seconds_sum{volume=\"v7\",kind=\"read\"} 18.002278",
            "holdfast_command_duration_seconds_bucket{le=\"0.000016\",volume=\"v7\",kind=\"read\"} 2",
            "holdfast_command_duration_seconds_bucket{le=\"0.001024\",volume=\"v7\",kind=\"read\"} 8",
            "holdfast_command_duration_seconds_bucket{le=\"4.194304\",volume=\"v7\",kind=\"read\"} 8",
            "holdfast_command_duration_seconds_bucket{le=\"+Inf\",volume=\"v7\",kind=\"read\"} 10",
        ] {
            assert!(text.lines().any(|it| it == line), "{line}\n{text}");
        }
        assert!(!text.contains("other"), "{text}");
    }

    /// A step of the history that reached over a bound would be told on the wrong side of it.
    #[test]
    fn bounds_are_ends_of_steps() {
        for bound in BOUNDS {
            let shorter = done(&[bound - 1]);
            let longest = shorter.latencies.steps().next().expect("there is one").0;
            assert!(longest < bound, "{longest} {bound}");
        }
    }

    #[test]
    fn what_is_gone_is_told_no_more() {
        let traffic = Traffic::default();
        let done = [10, 10, 10].map(|length| done(&[length]));
        for volume in [7, 8] {
            traffic.volume(VolumeId(volume), &done);
        }
        traffic.device(3, &done);
        traffic.keep(&LocalReport::default());
        assert!(
            text_of(&traffic).contains("volume=\"v7\""),
            "it may not know yet"
        );
        let volume = LocalVolume {
            volume: 8,
            ..LocalVolume::default()
        };
        traffic.keep(&LocalReport {
            incarnation: 1,
            volumes: vec![volume],
            ..LocalReport::default()
        });
        let text = text_of(&traffic);
        assert!(
            !text.contains("volume=\"v7\"") && !text.contains("device=\"3\""),
            "{text}"
        );
        assert!(text.contains("volume=\"v8\""), "{text}");
    }
}
