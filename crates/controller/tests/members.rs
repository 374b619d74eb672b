//! Orders about nodes, settings, and who steers.

use std::time::{Duration, Instant};

use holdfast_api::documents::{
    FindingKind, Health, LocalReport, NodeChange, NodeOrder, NodeStanding, Rejected, Room,
    SettingsChange, VolumeCreate,
};
use holdfast_api::{Api, Precondition, ProblemKind};
use holdfast_controller::Controller;
use holdfast_metadata::suite::User;
use holdfast_metadata::{Embedded, Store};
use holdfast_model::metadata::{LeaseId, Operation, OperationResult, Selector};
use holdfast_model::record::{
    LEADER_KEY, LeaderRecord, NodeRecord, Record, WISHES_PREFIX, WishRecord,
};
use holdfast_model::{NodeId, Policy};
use tokio::sync::watch;

use crate::support::{CLUSTER, Node, controller, open};

async fn node(number: u16, store: &Embedded) -> Node {
    let node = Node::start(number, store).await;
    let mut report = node.reporter.0.lock().unwrap();
    report.open = true;
    report.room = Room {
        bytes: 1 << 40,
        used_bytes: 1 << 30,
    };
    drop(report);
    node
}

async fn make(controller: &Controller, name: &str, policy: Policy) {
    controller
        .create_volume(wanted(name, policy))
        .await
        .unwrap();
}

fn wanted(name: &str, policy: Policy) -> VolumeCreate {
    VolumeCreate {
        name: name.to_owned(),
        bytes: 4 << 30,
        policy,
        target: None,
        lun: None,
    }
}

fn order(order: NodeOrder) -> NodeChange {
    NodeChange { order, site: None }
}

async fn found<T: Record>(store: &Embedded, prefix: &str) -> Vec<T> {
    let range = Operation::Range(Selector::Prefix(prefix.into()));
    let outcome = User::new(store.session()).perform(range).await;
    match outcome.1 {
        OperationResult::Range(found) => found
            .iter()
            .map(|pair| T::decode(&pair.value).unwrap())
            .collect(),
        other => panic!("it was a range: {other:?}"),
    }
}

/// Waits until somebody steers who is not `before`.
async fn leader(store: &Embedded, before: Option<&LeaderRecord>) -> LeaderRecord {
    let deadline = Instant::now() + Duration::from_secs(40);
    loop {
        let leaders: Vec<LeaderRecord> = found(store, LEADER_KEY).await;
        let found = leaders.into_iter().next();
        if let Some(found) = found.filter(|found| Some(found) != before) {
            return found;
        }
        assert!(Instant::now() < deadline, "nobody steers");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// What was founded and has no node yet serves nobody.
#[tokio::test]
async fn a_cluster_without_a_node_is_not_healthy() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let controller = controller(&store).await;
    let status = controller.status().await.unwrap();
    assert_eq!(status.health, Health::Unavailable);
    assert!(!status.protection.protected);
    let told = status
        .alerts
        .iter()
        .any(|it| it.detail.contains("no node has registered yet"));
    assert!(told, "{status:?}");
    let waits = controller.explain().await.unwrap().protection.waits_for;
    assert!(
        waits[0].what.contains("none has registered yet"),
        "{waits:?}"
    );
    let _node = node(1, &store).await;
    assert_ne!(
        controller.status().await.unwrap().health,
        Health::Unavailable
    );
}

#[tokio::test]
async fn orders_are_obeyed_or_refused_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let controller = controller(&store).await;
    let _nodes = [node(1, &store).await, node(2, &store).await];
    make(&controller, "twice", Policy::Mirror2).await;
    let late = node(3, &store).await;
    let standing = |list: Vec<holdfast_api::documents::Node>| -> Vec<_> {
        list.into_iter().map(|node| node.standing).collect()
    };
    let nodes = standing(controller.nodes().await.unwrap().nodes);
    let active = NodeStanding::Active;
    assert_eq!(nodes, [active, active, NodeStanding::Waiting]);
    let status = controller.status().await.unwrap();
    let told = status
        .alerts
        .iter()
        .any(|it| it.detail.contains("node add n3"));
    assert!(told && status.nodes.total == 2, "{status:?}");
    let refused = controller
        .change_node("n1", order(NodeOrder::Drain))
        .await
        .unwrap_err();
    assert_eq!(refused.kind, ProblemKind::Refused);
    assert!(refused.detail.contains("twice"), "{refused:?}");
    let added = NodeChange {
        order: NodeOrder::Add,
        site: Some("room-1".to_owned()),
    };
    let added = controller.change_node("n3", added).await.unwrap();
    assert_eq!(
        (added.standing, added.site.as_deref()),
        (active, Some("room-1"))
    );
    let drained = controller
        .change_node("n1", order(NodeOrder::Drain))
        .await
        .unwrap();
    assert_eq!(drained.to_move.slices, 1);
    let held = controller.node("n1").await.unwrap().slices;
    assert!(
        held.iter()
            .all(|slice| slice.volume == "twice" && slice.leaves)
    );
    let refused = controller
        .remove_node("n1", Precondition::default())
        .await
        .unwrap_err();
    assert!(
        refused.detail.contains("twice") && refused.hint.is_some(),
        "{refused:?}"
    );
    controller
        .remove_node("n3", Precondition::default())
        .await
        .unwrap();
    let none = controller.node("n3").await.unwrap_err();
    assert_eq!(none.kind, ProblemKind::NoSuchNode);
    late.server.abort();
    let refused = controller
        .change_node("n1", order(NodeOrder::MaintenanceOn))
        .await;
    assert!(refused.unwrap_err().detail.contains("cancel that first"));
}

#[tokio::test]
async fn settings_are_checked_and_kept() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let controller = controller(&store).await;
    assert_eq!(
        controller.settings().await.unwrap().repair_delay_seconds,
        3600
    );
    let change = |seconds| SettingsChange {
        repair_delay_seconds: Some(seconds),
        ..SettingsChange::default()
    };
    let changed = controller.change_settings(change(90)).await.unwrap();
    assert_eq!(
        (changed.repair_delay_seconds, changed.rebalance),
        (90, true)
    );
    let refused = controller.change_settings(change(1)).await.unwrap_err();
    assert_eq!(refused.kind, ProblemKind::Invalid);
    assert_eq!(controller.settings().await.unwrap(), changed);
}

/// Two might steer; one does, writes what is wished, and is followed by the other when it is gone.
#[tokio::test]
async fn one_steers_and_another_follows() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let controller = controller(&store).await;
    let _nodes = [
        node(1, &store).await,
        node(2, &store).await,
        node(3, &store).await,
    ];
    make(&controller, "twice", Policy::Mirror2).await;
    let steering = || Controller::new(CLUSTER, store.session(), None).steer();
    let first = steering();
    let leads = leader(&store, None).await;
    let second = steering();
    tokio::time::sleep(Duration::from_secs(4)).await;
    assert_eq!(leader(&store, None).await, leads, "the other one waits");
    assert!(found::<WishRecord>(&store, WISHES_PREFIX).await.is_empty());
    first.abort();
    leader(&store, Some(&leads)).await;
    let drained = controller
        .change_node("n1", order(NodeOrder::Drain))
        .await
        .unwrap();
    assert_eq!(drained.to_move.slices, 1);
    let deadline = Instant::now() + Duration::from_secs(20);
    let wish = loop {
        let wishes: Vec<WishRecord> = found(&store, WISHES_PREFIX).await;
        if let Some(wish) = wishes.into_iter().next() {
            break wish;
        }
        assert!(Instant::now() < deadline, "nothing is wished");
        tokio::time::sleep(Duration::from_millis(100)).await;
    };
    assert_eq!(wish.nodes, [NodeId(2), NodeId(3)]);
    assert_eq!(wish.kept, [NodeId(1)]);
    second.abort();
}

/// A machine with a copy of a node's configuration: what it says of itself is not what that node says, and it does
/// not take that node for silent, nor steer.
#[tokio::test]
async fn a_node_that_was_rejected_does_not_speak_for_the_one_with_its_number() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    controller(&store).await;
    let _nodes = [node(1, &store).await, node(2, &store).await];
    let why = "number 1 is node n1's";
    let (report, told) = watch::channel(LocalReport {
        node: 1,
        name: "n4".into(),
        rejected: Some(Rejected {
            why: why.into(),
            remedies: vec!["choose another".into()],
        }),
        ..LocalReport::default()
    });
    let newcomer = Controller::new(CLUSTER, store.session(), Some(told));
    let steering = newcomer.steer();
    let status = newcomer.status().await.unwrap();
    assert_eq!((status.nodes.total, status.nodes.up), (2, 2));
    let alert = &status.alerts[0];
    assert_eq!(alert.subject, "this node, n4");
    assert!(alert.detail.contains(why), "{}", alert.detail);
    let explained = newcomer.explain().await.unwrap();
    let own = &explained.nodes[0];
    assert_eq!(own.node, "n4 (this node)");
    let finding = &own.findings[0];
    assert_eq!(finding.kind, FindingKind::NotRegistered);
    assert_eq!(finding.remedies[0].what, "choose another");
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(leaders(&store).await, []);
    // The operator has given it another number, and it has started again.
    report.send_modify(|report| {
        report.node = 4;
        report.incarnation = 9;
        report.rejected = None;
    });
    leader(&store, None).await;
    steering.abort();
}

/// What answers at a node's address may be a start that has been replaced, or a machine that is not that node.
#[tokio::test]
async fn what_another_process_reports_is_not_the_nodes() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let controller = controller(&store).await;
    let nodes = [node(1, &store).await, node(2, &store).await];
    let made = async |name: &str| {
        controller
            .create_volume(wanted(name, Policy::Mirror2))
            .await
    };
    for (what, incarnation, is_rejected, is_up, takes) in [
        ("of-record", 1, false, true, true),
        ("later", 2, false, true, true),
        ("starts", 0, false, false, false),
        ("another-starts", 0, true, false, false),
        ("another", 7, true, false, false),
    ] {
        {
            let mut report = nodes[1].reporter.0.lock().unwrap();
            report.incarnation = incarnation;
            report.rejected = is_rejected.then(Rejected::default);
        }
        // What was seen before is not shown again.
        tokio::time::sleep(Duration::from_millis(100)).await;
        let nodes = controller.status().await.unwrap().nodes;
        assert_eq!(nodes.up, 1 + u32::from(is_up), "{what}");
        assert_eq!(nodes.not_ready, u32::from(what == "starts"));
        assert_eq!(made(what).await.is_ok(), takes, "{what}");
    }
}

async fn leaders(store: &Embedded) -> Vec<LeaderRecord> {
    found(store, LEADER_KEY).await
}

/// As versions of before let it be: an order must not reach another node than the one that is meant.
#[tokio::test]
async fn of_two_nodes_with_one_name_none_is_meant() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let controller = controller(&store).await;
    let _nodes = [node(1, &store).await, node(2, &store).await];
    let record = NodeRecord {
        name: "n1".into(),
        ..found::<NodeRecord>(&store, &NodeRecord::key(NodeId(2))).await[0].clone()
    };
    let put = Operation::Put {
        key: NodeRecord::key(record.node),
        value: record.encode(),
        lease: LeaseId(0),
    };
    User::new(store.session()).perform(put).await;
    for change in [NodeOrder::Add, NodeOrder::MaintenanceOn] {
        let refused = controller.change_node("n1", order(change)).await;
        let refused = refused.unwrap_err();
        assert_eq!(refused.kind, ProblemKind::Refused);
        let what = "numbers 1 and 2 are both called n1";
        assert!(refused.detail.contains(what), "{refused}");
        assert!(refused.hint.unwrap().contains("another `name`"));
    }
}
