//! What may be done through a node that does not follow the metadata, or is none of the cluster's any more.

use std::time::{Duration, Instant};

use holdfast_api::documents::{
    Astray, DeviceChange, DeviceList, LocalMetadata, LocalReport, NodeChange, NodeOrder, Rejected,
    Room, SettingsChange, VolumeCreate, VolumeDelete, VolumeGrow,
};
use holdfast_api::{Api, Precondition, Problem, ProblemKind};
use holdfast_controller::Controller;
use holdfast_metadata::suite::User;
use holdfast_metadata::{Embedded, Store};
use holdfast_model::metadata::{Operation, OperationResult, Revision, Selector};
use holdfast_model::record::{LEADER_KEY, WISHES_PREFIX};
use holdfast_model::{Policy, StoreId};
use tokio::sync::watch;

use crate::support::{CLUSTER, Node, controller, open};

/// The revision of everything, and how many keys begin so.
async fn keys(store: &Embedded, prefix: &str) -> (Revision, usize) {
    let all = Operation::Range(Selector::Prefix(prefix.into()));
    match User::new(store.session()).perform(all).await {
        (revision, OperationResult::Range(found)) => (revision, found.len()),
        other => panic!("it was a range: {other:?}"),
    }
}

/// Waits until so many keys begin so.
async fn until(store: &Embedded, prefix: &str, count: usize) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while keys(store, prefix).await.1 != count {
        assert!(Instant::now() < deadline, "{count} of {prefix}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// What the node in a controller's process says: it is n1, and well.
fn well() -> LocalReport {
    LocalReport {
        node: 1,
        name: "n1".to_owned(),
        incarnation: 1,
        store: StoreId(1).to_string(),
        open: true,
        room: Room {
            bytes: 1 << 40,
            used_bytes: 0,
        },
        ..LocalReport::default()
    }
}

async fn node(number: u16, store: &Embedded) -> Node {
    let node = Node::start(number, store).await;
    node.reporter.0.lock().unwrap().room.bytes = 1 << 40;
    node
}

fn volume(name: &str) -> VolumeCreate {
    VolumeCreate {
        name: name.to_owned(),
        bytes: 4 << 30,
        policy: Policy::Mirror2,
        target: None,
        lun: None,
    }
}

/// All that can be ordered, and what came of it.
async fn order_all(controller: &Controller) -> Vec<Problem> {
    let order = |order| NodeChange { order, site: None };
    let settings = SettingsChange {
        rebalance: Some(false),
        ..SettingsChange::default()
    };
    let device = || DeviceChange::Drain { device: 1 };
    let results = [
        controller.create_volume(volume("b")).await.map(drop),
        controller
            .grow_volume("a", VolumeGrow { bytes: 8 << 30 })
            .await
            .map(drop),
        controller.scrub_volume("a").await.map(drop),
        controller
            .delete_volume("a", VolumeDelete { force: true })
            .await,
        controller
            .change_node("n2", order(NodeOrder::MaintenanceOn))
            .await
            .map(drop),
        controller.remove_node("n3", Precondition::default()).await,
        controller.change_settings(settings).await.map(drop),
        controller.change_devices("n2", device()).await.map(drop),
        controller.change_local_devices(device()).await.map(drop),
    ];
    let failed = results.into_iter().map(Result::unwrap_err);
    failed.collect()
}

#[tokio::test]
async fn nothing_is_changed_through_a_node_that_does_not_follow_the_metadata() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let other = controller(&store).await;
    let nodes = [
        node(1, &store).await,
        node(2, &store).await,
        node(3, &store).await,
    ];
    other.create_volume(volume("a")).await.unwrap();
    let before = keys(&store, "/holdfast/").await;
    let (report, told) = watch::channel(LocalReport {
        metadata: LocalMetadata::Behind,
        astray: Some(Astray {
            why: "it is at revision 3, and was at 9 before".to_owned(),
            remedies: vec!["look at n1".to_owned(), "`holdfast recover`".to_owned()],
        }),
        ..well()
    });
    let asked = Controller::new(CLUSTER, store.session(), Some(told));
    let asked = asked.changing_devices(|_| async { Ok(DeviceList::default()) });
    let steering = asked.steer();
    for problem in order_all(&asked).await {
        assert_eq!(problem.kind, ProblemKind::Unavailable, "{problem}");
        let why = "n1 does not believe the metadata: it is at revision 3";
        assert!(problem.detail.starts_with(why), "{problem}");
        let hint = problem.hint.unwrap();
        assert!(
            hint.ends_with("; look at n1; or `holdfast recover`"),
            "{hint}"
        );
    }
    // Before it has looked at the metadata it cannot know whether it believes it.
    report.send_modify(|report| {
        report.metadata = LocalMetadata::Unreached;
        report.open = false;
        report.awaited_device = Some("/dev/sdc".to_owned());
    });
    let refused = asked.create_volume(volume("b")).await.unwrap_err();
    assert!(
        refused.detail.contains("waits for its device /dev/sdc"),
        "{refused}"
    );
    assert_eq!(keys(&store, "/holdfast/").await, before);
    assert!(
        nodes
            .iter()
            .all(|it| it.reporter.1.lock().unwrap().is_empty())
    );
    // Everything can be read.
    asked.status().await.unwrap();
    asked.volume("a").await.unwrap();
    asked.settings().await.unwrap();
    // An order that comes a moment too early is obeyed.
    let late = tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(300)).await;
        report.send_replace(well());
        report
    });
    let created = asked.create_volume(volume("b")).await.unwrap();
    assert!(created.is_new);
    late.await.unwrap();
    steering.abort();
}

/// An empty etcd is in the place of the one that a node has followed, and somebody has made the cluster's document in it: that no node has
/// registered yet, as it says, is not so.
#[tokio::test]
async fn metadata_without_nodes_that_a_node_does_not_believe_is_not_told_as_a_new_cluster() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let alone = controller(&store).await;
    let status = alone.status().await.unwrap();
    assert!(status.alerts[0].detail.contains("start the nodes"));
    let (_report, told) = watch::channel(LocalReport {
        metadata: LocalMetadata::Behind,
        astray: Some(Astray {
            why: "it is at revision 2, and was at 69 before".to_owned(),
            remedies: vec!["`holdfast recover`".to_owned()],
        }),
        ..well()
    });
    let asked = Controller::new(CLUSTER, store.session(), Some(told));
    let problem = asked.status().await.unwrap_err();
    assert_eq!(problem.kind, ProblemKind::Unavailable);
    assert!(problem.detail.contains("was at 69 before"), "{problem}");
    let explanation = asked.explain().await.unwrap();
    let finding = &explanation.nodes[0].findings[0];
    assert!(finding.what.contains("was at 69 before"), "{finding:?}");
    let remedies = format!("{:?}", finding.remedies);
    assert!(remedies.contains("holdfast recover"), "{remedies}");
}

/// Its place was taken, or it was refused: what it is told of the cluster is true, and nobody means it by an order.
#[tokio::test]
async fn nothing_is_changed_through_a_node_that_is_not_registered_but_what_it_advises() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let other = controller(&store).await;
    let nodes = [
        node(1, &store).await,
        node(2, &store).await,
        node(3, &store).await,
    ];
    other.create_volume(volume("a")).await.unwrap();
    let place = other.node("n3").await.unwrap();
    assert!(place.slices.is_empty(), "it can be removed");
    let before = keys(&store, "/holdfast/").await;
    let (_report, told) = watch::channel(LocalReport {
        name: "n9".to_owned(),
        incarnation: 0,
        rejected: Some(Rejected {
            why: "number 3 is node n3's".to_owned(),
            remedies: vec![
                "choose another number".to_owned(),
                "remove n3 (`holdfast node remove n3`), if it is gone".to_owned(),
            ],
        }),
        node: 3,
        ..well()
    });
    let asked = Controller::new(CLUSTER, store.session(), Some(told));
    let asked = asked.changing_devices(|_| async { Ok(DeviceList::default()) });
    for problem in order_all(&asked).await {
        assert_eq!(problem.kind, ProblemKind::Refused, "{problem}");
        let why = "the node that answers, n9, is not registered: number 3 is node n3's; nothing is";
        assert!(problem.detail.starts_with(why), "{problem}");
        let hint = problem.hint.unwrap();
        assert!(hint.contains("at the address of another node"), "{hint}");
        assert!(hint.contains("for n9 itself: choose another"), "{hint}");
    }
    assert_eq!(keys(&store, "/holdfast/").await, before);
    assert!(
        nodes
            .iter()
            .all(|it| it.reporter.1.lock().unwrap().is_empty())
    );
    asked.status().await.unwrap();
    // It advises to remove that one when it answers nobody, and none of the others.
    nodes[2].server.abort();
    nodes[1].server.abort();
    let order = asked
        .remove_node("n2", Precondition::default())
        .await
        .unwrap_err();
    assert!(order.detail.contains("n9, is not registered"), "{order}");
    asked
        .remove_node("n3", Precondition::default())
        .await
        .unwrap();
    assert!(other.node("n3").await.is_err());
}

/// A process without a node judges nothing by itself.
#[tokio::test]
async fn nothing_is_changed_in_metadata_that_a_node_does_not_believe() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let demo = controller(&store).await;
    let nodes = [node(1, &store).await, node(2, &store).await];
    demo.create_volume(volume("a")).await.unwrap();
    let say = |astray: Option<&str>| {
        let mut report = nodes[1].reporter.0.lock().unwrap();
        report.astray = astray.map(|why| Astray {
            why: why.to_owned(),
            remedies: vec!["bring them back".to_owned()],
        });
        report.number += 1;
    };
    say(Some("it has lost documents of volume v1"));
    let before = keys(&store, "/holdfast/").await;
    let forced = VolumeDelete { force: true };
    let settings = SettingsChange {
        rebalance: Some(false),
        ..SettingsChange::default()
    };
    for refused in [
        demo.create_volume(volume("b")).await.map(drop),
        demo.delete_volume("a", forced).await,
        demo.change_settings(settings).await.map(drop),
    ] {
        let problem = refused.unwrap_err();
        let why = "n2 does not believe the metadata: it has lost documents of volume v1";
        assert!(problem.detail.starts_with(why), "{problem}");
        let hint = problem.hint.unwrap();
        assert!(hint.ends_with("; bring them back"), "{hint}");
    }
    assert_eq!(keys(&store, "/holdfast/").await, before);
    say(None);
    assert!(demo.create_volume(volume("b")).await.unwrap().is_new);
}

#[tokio::test]
async fn whoever_steers_stops_when_its_node_goes_or_does_not_follow() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let operator = controller(&store).await;
    let _nodes = [
        node(1, &store).await,
        node(2, &store).await,
        node(3, &store).await,
    ];
    operator.create_volume(volume("a")).await.unwrap();
    let (report, told) = watch::channel(well());
    let first = Controller::new(CLUSTER, store.session(), Some(told));
    let steering = first.steer();
    until(&store, LEADER_KEY, 1).await;
    // It reads everything anew, and has yet to see whether it believes it.
    report.send_modify(|report| report.metadata = LocalMetadata::Unreached);
    tokio::time::sleep(Duration::from_millis(1500)).await;
    let drain = NodeChange {
        order: NodeOrder::Drain,
        site: None,
    };
    operator.change_node("n2", drain).await.unwrap();
    tokio::time::sleep(Duration::from_millis(2500)).await;
    assert_eq!(keys(&store, WISHES_PREFIX).await.1, 0);
    report.send_replace(well());
    until(&store, WISHES_PREFIX, 1).await;
    // A node that was removed leaves it to another one at once.
    let removed = Rejected {
        why: "the node was removed from the cluster".to_owned(),
        remedies: Vec::new(),
    };
    report.send_modify(|report| report.rejected = Some(removed));
    until(&store, LEADER_KEY, 0).await;
    let revision = keys(&store, "/holdfast/").await.0;
    tokio::time::sleep(Duration::from_secs(4)).await;
    assert_eq!(
        keys(&store, "/holdfast/").await.0,
        revision,
        "it stands no more"
    );
    report.send_replace(well());
    until(&store, LEADER_KEY, 1).await;
    // In metadata that is not believed the lease ends by itself.
    report.send_modify(|report| report.metadata = LocalMetadata::Behind);
    until(&store, LEADER_KEY, 0).await;
    steering.abort();
}
