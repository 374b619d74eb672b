use std::collections::{BTreeMap, BTreeSet};

use holdfast_api::documents::{Device, LocalJoining, LocalReport, LocalSlice, LocalVolume};
use holdfast_control::Versioned;
use holdfast_model::metadata::Revision;
use holdfast_model::record::{
    ClusterRecord, DeletedRecord, IntentRecord, Membership, NameRecord, ReplicaRecord,
    SettingsRecord, WishRecord,
};
use holdfast_model::{ClusterId, Epoch, Incarnation, Sequence, SliceId, StoreId, VolumeId};

use super::*;

const VOLUME: VolumeId = VolumeId(4);

pub(super) fn versioned<T>(record: T) -> Versioned<T> {
    Versioned {
        record,
        revision: Revision(3),
    }
}

fn node_record(node: u16) -> NodeRecord {
    NodeRecord {
        schema: 1,
        node: NodeId(node),
        name: format!("n{node}"),
        store: StoreId(node.into()),
        uses: 1,
        use_id: 1,
        incarnation: Incarnation(2),
        portal: format!("127.0.0.1:{}", 3259 + node),
        peer: String::new(),
        api: String::new(),
    }
}

pub(super) fn slice_record(index: u32, replicas: &[(u16, Membership)]) -> SliceRecord {
    let replicas = replicas.iter().map(|(node, membership)| ReplicaRecord {
        node: NodeId(*node),
        store: StoreId((*node).into()),
        membership: *membership,
    });
    SliceRecord {
        schema: 1,
        slice: SliceId {
            volume: VOLUME,
            index,
        },
        epoch: Epoch(5),
        primary: NodeId(1),
        preferred: NodeId(1),
        replicas: replicas.collect(),
        copies_min: 1,
        bytes_moved: 0,
        proposer: (NodeId(1), Incarnation(1)),
        nonce: 1,
        recovery: None,
    }
}

/// A mirror of two slices on two of three nodes.
pub(crate) fn inventory(slices: Vec<SliceRecord>) -> Inventory {
    let cluster = ClusterRecord {
        schema: 1,
        cluster: ClusterId(7),
        next_volume: VolumeId(9),
        recoveries: 0,
        incarnation_floor: Incarnation::ZERO,
    };
    let volume = VolumeRecord {
        schema: 1,
        volume: VOLUME,
        name: "demo".to_owned(),
        bytes: 5 << 30,
        policy: Policy::Mirror2,
        target: "iqn.2026-11.io.holdfast:demo".to_owned(),
        lun: 0,
    };
    Inventory {
        revision: Revision(8),
        cluster: versioned(cluster),
        deleted: versioned(DeletedRecord::default()),
        nodes: (1..=3)
            .map(|node| (NodeId(node), node_record(node)))
            .collect(),
        domains: BTreeMap::new(),
        names: BTreeMap::from([(
            "demo".to_owned(),
            versioned(NameRecord {
                schema: 1,
                volume: VOLUME,
            }),
        )]),
        makings: BTreeSet::new(),
        volumes: BTreeMap::from([(VOLUME, versioned(volume))]),
        slices: slices
            .into_iter()
            .map(|slice| (slice.slice, slice))
            .collect(),
        settings: versioned(SettingsRecord::default()),
        intents: BTreeMap::new(),
        drains: BTreeMap::new(),
        wishes: BTreeMap::new(),
        scrubs: BTreeMap::new(),
        initiators: BTreeMap::new(),
        exports: BTreeMap::new(),
        creations: BTreeMap::new(),
        scrubbed: BTreeMap::new(),
    }
}

pub(super) fn local(node: u16, slices: Vec<LocalSlice>) -> LocalReport {
    LocalReport {
        node,
        volumes: vec![LocalVolume {
            volume: VOLUME.0,
            serving: true,
            sessions: 0,
            ..LocalVolume::default()
        }],
        slices,
        open: true,
        ..LocalReport::default()
    }
}

pub(super) fn local_slice(index: u32, epoch: u64, serving: bool, used_bytes: u64) -> LocalSlice {
    LocalSlice {
        volume: VOLUME.0,
        index,
        epoch,
        serving,
        used_bytes,
        ..LocalSlice::default()
    }
}

pub(super) const BOTH: [(u16, Membership); 2] = [(1, Membership::InSync), (2, Membership::InSync)];

fn record(inventory: &Inventory) -> &VolumeRecord {
    &inventory.volumes[&VOLUME].record
}

#[test]
fn a_healthy_volume_is_told_once_whatever_its_copies() {
    let inventory = inventory(vec![slice_record(0, &BOTH), slice_record(1, &BOTH)]);
    let first = vec![local_slice(0, 5, true, 100), local_slice(1, 5, false, 7)];
    let second = vec![local_slice(0, 5, false, 90), local_slice(1, 5, true, 8)];
    let reports = Reports::of([local(1, first), local(2, second), local(3, Vec::new())]);
    let document = volume(&inventory, &reports, record(&inventory));
    assert_eq!(document.health, Health::Healthy);
    assert_eq!(document.used_bytes, Some(108));
    assert_eq!(document.slices[1].in_sync, ["n1", "n2"]);
    assert_eq!((document.slices[1].index, document.slices[1].epoch), (1, 5));
    assert_eq!(document.slices[0].primary, "n1");
    let list = volumes(&inventory, &reports).volumes;
    assert_eq!(
        (list.len(), list[0].used_bytes, list[0].lun),
        (1, Some(108), 0)
    );
    let cluster = status(&inventory, &reports);
    assert_eq!((cluster.health, cluster.revision), (Health::Healthy, 8));
    let counts = NodeCounts {
        total: 3,
        up: 3,
        not_ready: 0,
        in_maintenance: 0,
        draining: 0,
    };
    assert_eq!(cluster.nodes, counts);
    assert_eq!(cluster.volumes.healthy, 1);
    assert_eq!(cluster.alerts, []);
    assert_eq!(cluster.promised_bytes, 10 << 30, "two copies");
    assert!(reports.serve_everywhere(&inventory, VOLUME));
    let list = nodes(&inventory, &reports).nodes;
    let counts: Vec<_> = list
        .iter()
        .map(|node| (node.replicas, node.primaries))
        .collect();
    assert_eq!(counts, [(2, 2), (2, 0), (0, 0)]);
}

#[test]
fn a_lost_node_degrades_and_a_lost_primary_stops() {
    let absent = Membership::Absent {
        stable: Sequence(9),
    };
    let alone = [(1, Membership::InSync), (2, absent)];
    let lost = inventory(vec![slice_record(0, &alone), slice_record(1, &BOTH)]);
    let slices = vec![local_slice(0, 5, true, 1), local_slice(1, 5, true, 1)];
    let reports = Reports::of([local(1, slices), local(3, Vec::new())]);
    assert_eq!(
        volume(&lost, &reports, record(&lost)).health,
        Health::Degraded
    );
    assert!(
        reports.serve_everywhere(&lost, VOLUME),
        "every portal that is up"
    );
    let mut deaf = local(3, Vec::new());
    deaf.volumes[0].serving = false;
    assert!(!Reports::of([deaf.clone()]).serve_everywhere(&lost, VOLUME));
    let shut = LocalReport {
        open: false,
        ..deaf
    };
    assert!(
        Reports::of([shut]).serve_everywhere(&lost, VOLUME),
        "it serves nothing before its devices are open"
    );
    let cluster = status(&lost, &reports);
    assert_eq!((cluster.health, cluster.nodes.up), (Health::Degraded, 2));
    assert_eq!(
        said(&cluster),
        [
            "error: node n2: down: it does not answer",
            "warning: volume demo: 2 of 2 slices have fewer good copies than the policy says (that on n2 is not good); nothing is lost, and hosts are served"
        ]
    );
    assert_eq!(nodes(&lost, &reports).nodes[1].state, NodeState::Down);
    // Not yet replaced in the record, and already not there.
    let unnoticed = inventory(vec![slice_record(0, &BOTH), slice_record(1, &BOTH)]);
    assert_eq!(
        volume(&unnoticed, &reports, record(&unnoticed)).health,
        Health::Degraded
    );
    let mut bad = local_slice(0, 5, false, 1);
    bad.bad_blocks = 1;
    let up = vec![local_slice(0, 5, true, 1), local_slice(1, 5, true, 1)];
    let spoiled = Reports::of([local(1, up), local(2, vec![bad]), local(3, Vec::new())]);
    assert_eq!(
        volume(&unnoticed, &spoiled, record(&unnoticed)).health,
        Health::Degraded,
        "a copy has blocks that are bad"
    );
    let of_volume = |reports: &Reports| {
        let said = said(&status(&unnoticed, reports)).into_iter();
        let mut said = said.filter(|it| it.contains("volume demo: "));
        said.find(|it| it.contains("good copies")).unwrap()
    };
    let one = "warning: volume demo: 1 of 2 slices has fewer good copies than its policy says";
    let harmless = "(that on n2 is not good); nothing is lost, and hosts are served";
    assert_eq!(of_volume(&spoiled), format!("{one} {harmless}"));
    // Where no other copy mends them, nothing is said to be well.
    let bad_slice = |is_primary| {
        let mut bad = local_slice(0, 5, is_primary, 1);
        bad.bad_blocks = 1;
        bad
    };
    let good = |is_primary| local_slice(1, 5, is_primary, 1);
    let first = local(1, vec![bad_slice(true), good(true)]);
    let second = local(2, vec![bad_slice(false), good(false)]);
    let worse = Reports::of([first, second, local(3, Vec::new())]);
    assert_eq!(
        of_volume(&worse),
        format!("{one} (those on n1, n2 are not good)")
    );
    let half = Reports::of([local(1, vec![local_slice(0, 5, true, 1)])]);
    let document = volume(&unnoticed, &half, record(&unnoticed));
    assert_eq!(document.health, Health::Unavailable);
    assert_eq!(
        document.used_bytes, None,
        "nobody knows how much the second slice holds"
    );
    let cluster = status(&unnoticed, &half);
    assert_eq!(
        (cluster.health, cluster.volumes.unavailable),
        (Health::Unavailable, 1)
    );
    assert_eq!(
        said(&cluster)[0],
        "error: volume demo: 1 of 2 slices is not served"
    );
}

/// New volumes get nothing there, and what is there goes to the others.
#[test]
fn the_room_of_a_node_that_is_to_go_is_not_in_the_pool() {
    let mut inventory = inventory(vec![slice_record(0, &BOTH), slice_record(1, &BOTH)]);
    let up = |node| LocalReport {
        room: Room {
            bytes: 1 << 30,
            used_bytes: 1 << 20,
        },
        ..local(node, vec![local_slice(0, 5, node == 1, 1)])
    };
    let reports = Reports::of([up(1), up(2), up(3)]);
    let pool = |inventory: &Inventory| {
        let cluster = status(inventory, &reports);
        let room = cluster.pool;
        (
            cluster.nodes.draining,
            room.bytes >> 30,
            room.used_bytes >> 20,
        )
    };
    assert_eq!(pool(&inventory), (0, 3, 3));
    for node in 1..=3 {
        let intent = IntentRecord::active(NodeId(node));
        inventory.intents.insert(NodeId(node), versioned(intent));
    }
    // The one holds something still, and the other can be removed.
    for (node, left) in [(2, (1, 2, 2)), (3, (2, 1, 1))] {
        let intent = inventory.intents.get_mut(&NodeId(node)).unwrap();
        intent.record.standing = Wanted::Draining;
        assert_eq!(pool(&inventory), left);
    }
}

#[test]
fn room_is_told_by_classes_of_devices_that_take_data() {
    let mut inventory = inventory(vec![slice_record(0, &BOTH)]);
    let device = |number, tier, state, is_absent| Device {
        number,
        path: String::new(),
        tier,
        state,
        journal: false,
        journal_room: false,
        is_absent,
        bytes: 1 << 30,
        used_bytes: 1 << 20,
        bytes_per_second: 0,
        seconds_left: None,
        drain_bytes: None,
        bad_blocks: 0,
        detached: None,
        latency_p99_us: None,
    };
    use {DeviceState as State, DeviceTier as Tier};
    let up = |node| LocalReport {
        devices: vec![
            device(0, Tier::Capacity, State::InUse, false),
            device(1, Tier::Flash, State::InUse, false),
            device(2, Tier::Capacity, State::Draining, false),
            device(3, Tier::Flash, State::Lost, true),
            device(4, Tier::Capacity, State::InUse, false),
        ],
        ..local(node, Vec::new())
    };
    let reports = Reports::of([up(1), up(2), up(3)]);
    let tiers = |inventory: &Inventory| {
        let tiers = status(inventory, &reports).tiers;
        let tiers = tiers.iter().map(|it| {
            (
                it.tier,
                it.devices,
                it.room.bytes >> 30,
                it.room.used_bytes >> 20,
            )
        });
        tiers.collect::<Vec<_>>()
    };
    let all = [(Tier::Flash, 3, 3, 3), (Tier::Capacity, 6, 6, 6)];
    assert_eq!(tiers(&inventory), all);
    for node in 1..=3 {
        let mut intent = IntentRecord::active(NodeId(node));
        if node == 2 {
            intent.standing = Wanted::Draining;
        }
        inventory.intents.insert(NodeId(node), versioned(intent));
    }
    let left = [(Tier::Flash, 2, 2, 2), (Tier::Capacity, 4, 4, 4)];
    assert_eq!(tiers(&inventory), left);
    assert_eq!(status(&inventory, &Reports::default()).tiers, []);
}

#[test]
fn the_room_of_all_nodes_is_told_and_where_it_ends() {
    let inventory = inventory(vec![slice_record(0, &BOTH), slice_record(1, &BOTH)]);
    let up = |node, used_bytes| LocalReport {
        room: Room {
            bytes: 1 << 30,
            used_bytes,
        },
        ..local(
            node,
            vec![
                local_slice(0, 5, node == 1, 1),
                local_slice(1, 5, node == 1, 1),
            ],
        )
    };
    let low = 900 << 20;
    let reports = Reports::of([up(1, 0), up(2, low), up(3, 5 << 20)]);
    let cluster = status(&inventory, &reports);
    let pool = Room {
        bytes: 3 << 30,
        used_bytes: 905 << 20,
    };
    assert_eq!((cluster.health, cluster.pool), (Health::Healthy, pool));
    assert_eq!(
        said(&cluster),
        ["warning: node n2: 87 % of its room are used"]
    );
    let listed = nodes(&inventory, &reports).nodes;
    assert_eq!(listed[1].room.map(|room| room.used_bytes), Some(low));
    let reports = Reports::of([up(1, 0), up(2, 1 << 30), up(3, 5 << 20)]);
    let cluster = status(&inventory, &reports);
    assert_eq!(cluster.health, Health::Degraded);
    assert_eq!(
        said(&cluster),
        [
            "error: node n2: full: writes that need more room than is left are refused, and no copy can be made \
             there"
        ]
    );
}

#[test]
fn a_node_whose_devices_have_failed_is_up_and_not_well() {
    let inventory = inventory(vec![slice_record(0, &BOTH), slice_record(1, &BOTH)]);
    let slices = |leads| vec![local_slice(0, 5, leads, 1), local_slice(1, 5, leads, 1)];
    let failed = LocalReport {
        open: false,
        ..local(3, Vec::new())
    };
    let reports = Reports::of([local(1, slices(true)), local(2, slices(false)), failed]);
    let cluster = status(&inventory, &reports);
    assert_eq!(cluster.health, Health::Degraded);
    assert_eq!(
        said(&cluster),
        ["error: node n3: it has not opened its devices, or they have failed"]
    );
}

/// What is told of a drained node is what its removal asks for.
#[test]
fn a_node_is_drained_when_it_can_be_removed() {
    let mut inventory = inventory(vec![slice_record(0, &BOTH), slice_record(1, &BOTH)]);
    for node in 1..=3 {
        let mut intent = IntentRecord::active(NodeId(node));
        if node == 3 {
            intent.standing = Wanted::Draining;
        }
        inventory.intents.insert(NodeId(node), versioned(intent));
    }
    let reports = Reports::of([1, 2, 3].map(|node| local(node, Vec::new())));
    let told = |inventory: &Inventory| {
        let sight = crate::steering::sight(inventory, &reports, |_| None);
        let remove = holdfast_control::Order::Remove;
        let removed = holdfast_control::order(inventory, &sight, NodeId(3), remove, None);
        let drained = nodes(inventory, &reports).nodes[2].is_drained;
        let explained = explain(inventory, &reports);
        let third = explained.nodes.iter().find(|node| node.node == "n3");
        let finding = &third.expect("it is being drained").findings[0];
        let last = finding.remedies.last();
        let last = last.and_then(|remedy| remedy.command.as_deref());
        assert_eq!(last, Some("holdfast node drain n3 --cancel"));
        let what = &finding.what;
        assert_eq!(drained, what == "it is drained, and can go", "{what}");
        assert_eq!(drained, removed.is_ok());
        drained
    };
    assert!(told(&inventory));
    // One of a volume that is being made, and one that is to come.
    let mut making = inventory.clone();
    let mut slice = slice_record(0, &[(3, Membership::InSync)]);
    slice.slice.volume = VolumeId(8);
    making.slices.insert(slice.slice, slice);
    assert!(!told(&making));
    let wish = WishRecord {
        schema: 1,
        slice: slice_record(0, &BOTH).slice,
        nodes: vec![NodeId(1), NodeId(3)],
        kept: Vec::new(),
        preferred: NodeId(1),
    };
    inventory.wishes.insert(wish.slice, versioned(wish));
    assert!(!told(&inventory));
}

/// The alerts, as people read them.
fn said(cluster: &Status) -> Vec<String> {
    cluster.alerts.iter().map(ToString::to_string).collect()
}

#[test]
fn a_returning_replica_is_told_with_its_progress() {
    let joining = [
        (1, Membership::InSync),
        (
            2,
            Membership::Joining {
                stable: Sequence(2),
            },
        ),
    ];
    let mut synced = slice_record(1, &BOTH);
    synced.bytes_moved = 1000;
    let inventory = inventory(vec![slice_record(0, &joining), synced]);
    let mut source = local_slice(0, 5, true, 10);
    source.joining = vec![LocalJoining {
        node: 2,
        bytes_done: 3,
        bytes_total: 4,
        bytes_moved: 2,
        bytes_per_second: 0,
    }];
    let former = local_slice(0, 4, true, 99);
    let reports = Reports::of([
        local(1, vec![source, local_slice(1, 5, true, 1)]),
        local(2, vec![former]),
        local(3, Vec::new()),
    ]);
    let document = volume(&inventory, &reports, record(&inventory));
    assert_eq!(document.health, Health::Degraded);
    let expected = Joining {
        node: "n2".to_owned(),
        bytes_done: 3,
        bytes_total: 4,
        bytes_per_second: 0,
        seconds_left: None,
    };
    assert_eq!(document.slices[0].joining, [expected]);
    assert_eq!(document.slices[0].in_sync, ["n1"]);
    assert_eq!(
        document.used_bytes,
        Some(11),
        "the newer of two that say they serve is asked"
    );
    assert_eq!(document.resync.bytes_moved, 1002);
}

mod explanations;
mod health;
mod metadata;
mod progress;
