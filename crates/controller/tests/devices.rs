//! Orders about the devices of nodes: whom they reach.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use holdfast_api::documents::{
    AwaitedCause, DeviceChange, DeviceList, LocalReport, LogChange, LogLevel, Rejected,
};
use holdfast_api::{Api, Problem, ProblemKind};
use holdfast_controller::Controller;
use holdfast_metadata::{Embedded, Store};
use holdfast_model::StoreId;
use tokio::sync::watch;

use crate::support::{CLUSTER, Node, controller, open};

const ORDER: DeviceChange = DeviceChange::Drain { device: 1 };

/// A controller beside a node that says this, and how many orders that node got.
fn beside(
    store: &Embedded,
    report: LocalReport,
) -> (Controller, Arc<AtomicU32>, watch::Sender<LocalReport>) {
    let (sender, told) = watch::channel(report);
    let orders = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&orders);
    let controller = Controller::new(CLUSTER, store.session(), Some(told));
    let controller = controller.changing_devices(move |_| {
        counted.fetch_add(1, Ordering::Relaxed);
        async { Ok(DeviceList::default()) }
    });
    (controller, orders, sender)
}

fn kind<T: std::fmt::Debug>(result: Result<T, Problem>) -> ProblemKind {
    result.unwrap_err().kind
}

/// A device that is given to a node may be erased: the machine that answers at its address must be the node.
#[tokio::test]
async fn an_order_reaches_the_node_that_is_meant_or_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let controller = controller(&store).await;
    let node = Node::start(1, &store).await;
    let well = node.reporter.0.lock().unwrap().clone();
    let other_store = StoreId(99).to_string();
    for (what, report) in [
        (
            "has the number, and other devices",
            LocalReport {
                store: other_store,
                incarnation: 9,
                ..well.clone()
            },
        ),
        (
            "has yet to register",
            LocalReport {
                store: String::new(),
                incarnation: 0,
                ..well.clone()
            },
        ),
        (
            "does not say what it has",
            LocalReport {
                store: String::new(),
                ..well.clone()
            },
        ),
        (
            "is another node",
            LocalReport {
                node: 2,
                ..well.clone()
            },
        ),
        (
            "was rejected",
            LocalReport {
                rejected: Some(Rejected::default()),
                ..well.clone()
            },
        ),
    ] {
        *node.reporter.0.lock().unwrap() = report;
        let refused = controller.change_devices("n1", ORDER).await;
        assert_eq!(kind(refused), ProblemKind::Unavailable, "{what}");
        assert_eq!(*node.reporter.1.lock().unwrap(), [], "{what}");
    }
    *node.reporter.0.lock().unwrap() = well;
    controller.change_devices("n1", ORDER).await.unwrap();
    assert_eq!(*node.reporter.1.lock().unwrap(), [ORDER]);
}

/// The process that is asked has the number of the node that is meant, and is not registered as it.
#[tokio::test]
async fn an_order_does_not_stay_with_whoever_has_only_the_number() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    controller(&store).await;
    let node = Node::start(1, &store).await;
    let well = node.reporter.0.lock().unwrap().clone();
    let starting = LocalReport {
        incarnation: 0,
        store: String::new(),
        ..well.clone()
    };
    let (newcomer, here, report) = beside(&store, starting);
    newcomer.change_devices("n1", ORDER).await.unwrap();
    assert_eq!(here.load(Ordering::Relaxed), 0);
    assert_eq!(*node.reporter.1.lock().unwrap(), [ORDER]);
    // Nor is one given to it by itself.
    let refused = newcomer.change_local_devices(ORDER).await;
    assert_eq!(kind(refused), ProblemKind::Unavailable);
    assert_eq!(here.load(Ordering::Relaxed), 0);
    report.send_replace(well);
    newcomer.change_devices("n1", ORDER).await.unwrap();
    newcomer.change_local_devices(ORDER).await.unwrap();
    assert_eq!(here.load(Ordering::Relaxed), 2);
}

/// The node that waits knows why, and any node tells it.
#[tokio::test]
async fn the_list_of_a_node_that_waits_for_a_device_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let controller = controller(&store).await;
    let node = Node::start(1, &store).await;
    {
        let mut report = node.reporter.0.lock().unwrap();
        report.awaited_device = Some("/dev/sdc".to_owned());
        report.awaited_cause = Some(AwaitedCause::Failed);
    }
    let list = controller.devices("n1").await.unwrap();
    let told = (list.awaited_device.as_deref(), list.awaited_cause);
    assert_eq!(told, (Some("/dev/sdc"), Some(AwaitedCause::Failed)));
}

/// What is looked into is the node that is meant, and not what answers in its place.
#[tokio::test]
async fn a_node_is_asked_for_its_log_and_what_else_it_has() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let controller = controller(&store).await;
    let node = Node::start(1, &store).await;
    let name = "n1";
    let more = LogChange {
        level: Some(LogLevel::Trace),
        ..LogChange::default()
    };
    let changed = controller.change_node_log(name, more).await.unwrap();
    assert_eq!(changed.level, LogLevel::Trace);
    assert_eq!(controller.node_log(name).await.unwrap(), changed);
    assert_eq!(controller.node_support(name).await.unwrap().node, 1);
    assert_eq!(kind(controller.local_log().await), ProblemKind::NoNode);
    assert_eq!(kind(controller.local_support().await), ProblemKind::NoNode);
    assert_eq!(
        kind(controller.node_log("nobody").await),
        ProblemKind::NoSuchNode
    );
    node.reporter.0.lock().unwrap().node = 2;
    assert_eq!(
        kind(controller.node_support(name).await),
        ProblemKind::Unavailable
    );
}
