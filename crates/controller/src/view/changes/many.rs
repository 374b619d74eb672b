//! What comparing costs with 1,000 volumes and 64 nodes.
//!
//! It measures, and so does not run by itself:
//! `cargo test --release -p holdfast-controller changes::many:: -- --ignored --nocapture`.
#![allow(clippy::print_stdout, reason = "figures are what it is for")]

use std::time::Instant;

use holdfast_api::documents::{LocalReport, LocalSlice, LocalVolume};
use holdfast_control::Inventory;
use holdfast_model::record::{Membership, NameRecord};
use holdfast_model::{Incarnation, NodeId, SliceId, StoreId, VolumeId};

use super::Snapshot;
use crate::reports::Reports;
use crate::view::tests::{inventory, slice_record, versioned};

const NODES: u16 = 64;
const VOLUMES: u64 = 1000;
const TIMES: usize = 25;

/// Each volume has two slices, on two nodes each.
fn many() -> Inventory {
    let few = inventory(Vec::new());
    let (node, volume) = (&few.nodes[&NodeId(1)], few.volumes.values().next().unwrap());
    let mut many = few.clone();
    many.nodes = (1..=NODES)
        .map(|number| {
            let mut node = node.clone();
            node.node = NodeId(number);
            node.name = format!("n{number}");
            node.store = StoreId(number.into());
            (node.node, node)
        })
        .collect();
    many.volumes.clear();
    many.names.clear();
    for number in 1..=VOLUMES {
        let mut volume = volume.clone();
        volume.record.volume = VolumeId(number);
        volume.record.name = format!("volume-{number:04}");
        let name = NameRecord {
            schema: 1,
            volume: VolumeId(number),
        };
        many.names
            .insert(volume.record.name.clone(), versioned(name));
        for index in 0..2 {
            let first = 1 + (number as u16 * 7 + index as u16) % NODES;
            let second = 1 + first % NODES;
            let replicas = [(first, Membership::InSync), (second, Membership::InSync)];
            let mut slice = slice_record(index, &replicas);
            slice.slice = SliceId {
                volume: VolumeId(number),
                index,
            };
            slice.primary = NodeId(first);
            many.slices.insert(slice.slice, slice);
        }
        many.volumes.insert(VolumeId(number), volume);
    }
    many
}

fn reports(inventory: &Inventory, lost: Option<u16>) -> Reports {
    let nodes = (1..=NODES).filter(|node| Some(*node) != lost);
    Reports::of(nodes.map(|number| {
        let own = NodeId(number);
        let held = inventory.slices.values();
        let held = held.filter(|slice| slice.replica(own).is_some());
        LocalReport {
            node: number,
            name: format!("n{number}"),
            incarnation: Incarnation(2).0,
            open: true,
            volumes: (1..=VOLUMES)
                .map(|volume| LocalVolume {
                    volume,
                    serving: true,
                    ..LocalVolume::default()
                })
                .collect(),
            slices: held
                .map(|slice| LocalSlice {
                    volume: slice.slice.volume.0,
                    index: slice.slice.index,
                    epoch: slice.epoch.0,
                    serving: slice.primary == own,
                    used_bytes: 1 << 30,
                    ..LocalSlice::default()
                })
                .collect(),
            ..LocalReport::default()
        }
    }))
}

/// The least of all times: on a machine that has much else to do, what it takes.
fn time<T>(what: &str, of: impl Fn() -> T) -> T {
    let runs = (0..TIMES).map(|_| {
        let begun = Instant::now();
        let made = of();
        (begun.elapsed(), made)
    });
    let (least, made) = runs.min_by_key(|(time, _)| *time).unwrap();
    println!("{what:<40} {:>8} us", least.as_micros());
    made
}

#[test]
#[ignore = "it measures"]
fn comparing_a_thousand_volumes_and_sixty_four_nodes() {
    let inventory = many();
    let (all, without) = (reports(&inventory, None), reports(&inventory, Some(9)));
    let before = time("what is compared", || Snapshot::of(&inventory, &all));
    time("of that, how the cluster is", || {
        crate::view::status(&inventory, &all)
    });
    let lost = Snapshot::of(&inventory, &without);
    let same = time("comparing where nothing has changed", || {
        before.clone().follow(&before).len()
    });
    let changes = time("comparing where a node is lost", || {
        lost.clone().follow(&before).len()
    });
    let text = time("what is kept, as a text", || {
        serde_json::to_vec(&before).unwrap()
    });
    println!(
        "{same} and {changes} changes; {} bytes are kept",
        text.len()
    );
}
