//! The reference of all metrics in Markdown, made from what a node would say that has something of everything.
//!
//! Invariant: each metric that is registered is in it, under the name and with the labels that Prometheus sees.

use std::collections::BTreeSet;
use std::fmt::Write;

use holdfast_api::documents::{
    Device, DeviceState, DeviceTier, ForeignCertificate, ListedMember, LocalCondition, LocalReport,
    LocalSlice, LocalStall, LocalVolume, MemberState, ReplicaCondition, StallCause, Vitals,
};
use holdfast_history::Meter;
use holdfast_model::VolumeId;

use super::Metrics;

/// What stands before the first metric.
const BEGINNING: &str = "\
# Metrics

<!-- Made from the program: `cargo xtask fix` writes it anew, the gate's step `reference` compares. -->

Each node answers at `/metrics` for itself, in OpenMetrics' text; [monitoring.md](../monitoring.md) says how Prometheus asks, which alerts are worth having, and has a
dashboard. Units are bytes and seconds. A counter begins at 0 when the node's process starts. Stalls are told by cause from the start on; what is counted by volume or initiator from the first time on.

| metric | kind | labels | what it is |
|---|---|---|---|
";

/// One metric, as it is exposed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Exposed {
    /// As queries name it: a counter with its `_total`.
    name: String,
    kind: String,
    labels: Vec<String>,
    help: String,
}

/// The reference.
#[must_use]
pub fn reference() -> String {
    let mut text = BEGINNING.to_owned();
    let mut all = exposed(&sample());
    all.sort_by(|left, right| left.name.cmp(&right.name));
    for metric in all {
        let labels: Vec<_> = metric.labels.iter().map(|it| format!("`{it}`")).collect();
        let _ = writeln!(
            text,
            "| `{}` | {} | {} | {} |",
            metric.name,
            metric.kind,
            labels.join(", "),
            metric.help.replace('|', "\\|")
        );
    }
    text
}

/// What is exposed by a node that has something of everything.
#[must_use]
pub fn sample() -> String {
    let metrics = Metrics::new("n1");
    let stall = LocalStall {
        began_ms: 1,
        length_ms: 700,
        volume: 7,
        initiator: None,
        cause: StallCause::NodeLost,
        node: None,
        slice: None,
        waiting_max: 1,
        served: true,
    };
    metrics.stalls().ended(&stall);
    metrics.stalls().ended(&LocalStall {
        initiator: Some("iqn.2026-11.example:host".to_owned()),
        ..stall
    });
    let done = [(); 3].map(|()| {
        let mut meter = Meter::default();
        meter.record(4096, 300);
        meter.take()
    });
    metrics.traffic().volume(VolumeId(7), &done);
    metrics.traffic().device(0, &done);
    metrics.text(&LocalReport {
        volumes: vec![LocalVolume {
            volume: 7,
            name: Some("demo".to_owned()),
            ..LocalVolume::default()
        }],
        devices: vec![device()],
        metadata_listed: vec![ListedMember {
            member: "cafe".to_owned(),
            name: "n1".to_owned(),
            endpoints: Vec::new(),
            peers: Vec::new(),
            votes: true,
            state: MemberState::Answers,
        }],
        slices: vec![LocalSlice {
            condition: Some(LocalCondition {
                what: ReplicaCondition::Asks,
                nodes: vec![2],
            }),
            ..LocalSlice::default()
        }],
        vitals: Some(Vitals {
            clock_ms: 1,
            longest_stall_ms: 0,
            certificate_expires_ms: Some(2),
            certificate_of: None,
            etcd_certificate: Some(ForeignCertificate {
                expires_ms: 2,
                lifetime_ms: 1,
            }),
        }),
        ..LocalReport::default()
    })
}

fn device() -> Device {
    Device {
        number: 0,
        path: "/dev/sdb".to_owned(),
        tier: DeviceTier::Flash,
        state: DeviceState::InUse,
        journal: true,
        journal_room: false,
        is_absent: false,
        bytes: 4096,
        used_bytes: 1024,
        bytes_per_second: 0,
        seconds_left: None,
        drain_bytes: None,
        bad_blocks: 0,
        detached: None,
        latency_p99_us: Some(900),
    }
}

/// The metrics in a text, in its order.
fn exposed(text: &str) -> Vec<Exposed> {
    let mut found: Vec<Exposed> = Vec::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').unwrap_or((rest, ""));
            found.push(Exposed {
                name: name.to_owned(),
                help: help.to_owned(),
                ..Exposed::default()
            });
        } else if let Some(rest) = line.strip_prefix("# TYPE ")
            && let Some(last) = found.last_mut()
        {
            last.kind = rest.rsplit(' ').next().unwrap_or_default().to_owned();
            match last.kind.as_str() {
                "counter" => last.name.push_str("_total"),
                "info" => last.name.push_str("_info"),
                _ => {}
            }
        } else if !line.starts_with('#')
            && let Some(last) = found.last_mut()
        {
            for label in labels(line) {
                let is_bound = label == "le" && last.kind == "histogram";
                if !is_bound && !last.labels.contains(&label) {
                    last.labels.push(label);
                }
            }
        }
    }
    found
}

/// The names of a line's labels.
fn labels(line: &str) -> Vec<String> {
    let Some((_, rest)) = line.split_once('{') else {
        return Vec::new();
    };
    let (inside, _) = rest.split_once('}').unwrap_or((rest, ""));
    let pairs = inside.split("\",");
    let names = pairs.filter_map(|pair| pair.split_once("=\""));
    names.map(|(name, _)| name.to_owned()).collect()
}

/// The names of all series that queries can ask for: of a histogram its buckets, sum and count.
#[must_use]
pub fn series() -> BTreeSet<String> {
    let text = sample();
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let names = lines.filter_map(|line| line.split(['{', ' ']).next());
    names.map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A family without a value is not exposed: one that the sample forgets would be missing here and nowhere else.
    #[test]
    fn every_metric_that_is_registered_is_in_the_reference() {
        let registered = format!("{:?}", Metrics::new("n1").registry);
        let registered = registered.matches("Descriptor {").count();
        assert!(registered > 30, "{registered}");
        assert_eq!(exposed(&sample()).len(), registered);
    }

    #[test]
    fn metrics_are_told_as_queries_name_them() {
        let reference = reference();
        for line in [
            "| `holdfast_stall_seconds` | histogram | `cause` | ",
            "| `holdfast_volume_stalls_total` | counter | `volume` | ",
            "| `holdfast_initiator_stalled_seconds_total` | counter | `volume`, `initiator` | ",
            "| `holdfast_build_info` | info | `version`, `node` | ",
            "| `holdfast_pool_bytes` | gauge |  | ",
        ] {
            assert!(reference.contains(line), "{line} in:\n{reference}");
        }
    }
}
