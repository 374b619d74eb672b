//! A recovery, for people and for programs.

use holdfast_control::{Fate, Recovery};
use holdfast_model::record::VolumeRecord;
use serde::Serialize;

use crate::output::{bytes, table};

/// What a recovery says to programs.
#[derive(Serialize)]
pub(super) struct Document {
    cluster: String,
    /// Which time this is.
    recoveries: u64,
    /// The nodes that are made again.
    nodes: Vec<String>,
    /// Numbers of nodes without a report.
    missing: Vec<u16>,
    /// Numbers of nodes that are given up.
    lost: Vec<u16>,
    volumes: Vec<VolumeDocument>,
    /// What cannot be known, in words.
    doubts: Vec<String>,
}

#[derive(Serialize)]
struct VolumeDocument {
    volume: u64,
    name: String,
    bytes: u64,
    policy: String,
    /// Whether all of its slices are made again, if only to wait.
    complete: bool,
    slices: SliceCounts,
}

/// Slices by what becomes of them.
#[derive(Default, Serialize)]
struct SliceCounts {
    certain: u32,
    waiting: u32,
    without_lost: u32,
    new: u32,
    unknown: u32,
}

fn count(recovery: &Recovery, volume: &VolumeRecord) -> SliceCounts {
    let mut counts = SliceCounts::default();
    for planned in recovery.slices_of(volume.volume) {
        *match planned.fate {
            Fate::Certain => &mut counts.certain,
            Fate::Waits(_) => &mut counts.waiting,
            Fate::WithoutLost(_) => &mut counts.without_lost,
            Fate::New => &mut counts.new,
            Fate::Unknown | Fate::NoRecord => &mut counts.unknown,
        } += 1;
    }
    counts
}

pub(super) fn document(recovery: &Recovery) -> Document {
    let volumes = recovery.volumes.values().map(|volume| VolumeDocument {
        volume: volume.volume.0,
        name: volume.name.clone(),
        bytes: volume.bytes,
        policy: volume.policy.to_string(),
        complete: recovery.is_complete(volume),
        slices: count(recovery, volume),
    });
    Document {
        cluster: recovery.cluster.cluster.to_string(),
        recoveries: recovery.cluster.recoveries,
        nodes: recovery.nodes.values().map(|it| it.name.clone()).collect(),
        missing: recovery.missing.iter().map(|node| node.0).collect(),
        lost: recovery.lost.iter().map(|node| node.0).collect(),
        volumes: volumes.collect(),
        doubts: recovery.doubts.iter().map(ToString::to_string).collect(),
    }
}

pub(super) fn text(recovery: &Recovery) -> String {
    let nodes: Vec<&str> = recovery.nodes.values().map(|it| it.name.as_str()).collect();
    let mut text = format!(
        "cluster {}, nodes {}\n\n",
        recovery.cluster.cluster,
        nodes.join(", ")
    );
    let rows: Vec<[String; 8]> = recovery
        .volumes
        .values()
        .map(|volume| {
            let counts = count(recovery, volume);
            [
                volume.name.clone(),
                bytes(volume.bytes),
                volume.policy.to_string(),
                counts.certain.to_string(),
                counts.waiting.to_string(),
                counts.without_lost.to_string(),
                counts.new.to_string(),
                counts.unknown.to_string(),
            ]
        })
        .collect();
    let names = [
        "VOLUME", "SIZE", "POLICY", "CERTAIN", "WAITING", "GIVEN UP", "NEW", "UNKNOWN",
    ];
    text.push_str(&table(names, &rows));
    if recovery.doubts.is_empty() {
        text.push_str("\nnothing is in doubt\n");
    } else {
        text.push_str("\nwhat cannot be known:\n");
    }
    for doubt in &recovery.doubts {
        text.push_str(&format!("- {doubt}\n"));
    }
    text
}
