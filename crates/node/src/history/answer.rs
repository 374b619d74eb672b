//! What was measured, as a document.

use holdfast_api::documents::{
    DeviceTier, Fill, HistorySubject, Level, LocalFlow, LocalHistoryPoint, LocalHistoryQuery,
    LocalNodeMeasures,
};
use holdfast_history::{Measure, Sample, Series, Span, Value};
use holdfast_model::VolumeId;

use super::archive::{Archive, Step, Whose};
use super::measure;
use crate::devices::tier_of;

/// What was measured of a subject, in the steps that a query asks for.
pub(super) fn points(
    archive: &Archive,
    subject: &HistorySubject,
    query: &LocalHistoryQuery,
) -> Vec<LocalHistoryPoint> {
    let Some(whose) = whose(subject) else {
        return Vec::new();
    };
    let span = Span {
        from: query.from,
        until: query.until,
        step: query.step,
    };
    let is_node = *subject == HistorySubject::Node;
    let steps = archive.of(&whose, span);
    let points = steps.iter().map(|(at, step)| point(*at, step, is_node));
    points.collect()
}

/// Nothing for a class of devices that this version does not know.
fn whose(subject: &HistorySubject) -> Option<Whose> {
    let series = match subject {
        HistorySubject::Host(name) => return Some(Whose::Host(name.clone())),
        HistorySubject::Node => Series::Node,
        HistorySubject::Volume(volume) => Series::Volume(VolumeId(*volume)),
        HistorySubject::Initiator(volume, name) => {
            Series::Initiator(VolumeId(*volume), name.clone())
        }
        HistorySubject::Device(device) => Series::Device(*device),
        HistorySubject::Tier(name) => {
            let tiers = [DeviceTier::Flash, DeviceTier::Capacity];
            let tier = tiers.into_iter().find(|it| it.as_str() == name)?;
            Series::Tier(measure::number(tier_of(tier)))
        }
    };
    Some(Whose::One(series))
}

fn point(at: u64, step: &Step, is_node: bool) -> LocalHistoryPoint {
    let sample = &step.sample;
    let used = level(sample, measure::USED_BYTES);
    let fill = Fill {
        used_bytes: used.mean() as u64,
        bytes: level(sample, measure::BYTES).mean() as u64,
    };
    LocalHistoryPoint {
        at,
        seconds: step.seconds,
        reads: reads(sample),
        writes: writes(sample),
        others: flow(sample, None, measure::OTHERS),
        fill: (used.looks > 0).then_some(fill),
        node: is_node.then(|| LocalNodeMeasures {
            sessions: level(sample, measure::SESSIONS),
            journal_used: level(sample, measure::JOURNAL_USED),
            journal: level(sample, measure::JOURNAL),
            cache_hits: sample.count(measure::CACHE_HITS),
            cache_misses: sample.count(measure::CACHE_MISSES),
            synced_bytes: sample.count(measure::SYNCED_BYTES),
        }),
    }
}

/// Commands that read.
pub(super) fn reads(sample: &Sample) -> LocalFlow {
    flow(sample, Some(measure::READ_BYTES), measure::READS)
}

/// Commands that write.
pub(super) fn writes(sample: &Sample) -> LocalFlow {
    flow(sample, Some(measure::WRITE_BYTES), measure::WRITES)
}

fn flow(sample: &Sample, bytes: Option<Measure>, times: Measure) -> LocalFlow {
    let Some(latencies) = sample.latencies(times) else {
        return LocalFlow::default();
    };
    LocalFlow {
        bytes: bytes.map_or(0, |bytes| sample.count(bytes)),
        total_us: latencies.total(),
        latencies: latencies.steps().collect(),
    }
}

fn level(sample: &Sample, measure: Measure) -> Level {
    match sample.get(measure) {
        Some(Value::Level { sum, looks, most }) => Level {
            sum: *sum,
            looks: *looks,
            most: *most,
        },
        _ => Level::default(),
    }
}
