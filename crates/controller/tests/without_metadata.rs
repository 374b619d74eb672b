//! What a controller tells while the metadata does not answer.

use std::time::Duration;

use holdfast_api::documents::{LocalReport, LocalSummary};
use holdfast_api::{Api, ProblemKind};
use holdfast_controller::Controller;
use holdfast_metadata::Store;
use tokio::sync::watch;

use crate::support::away::session;
use crate::support::{CLUSTER, Node, controller, open};

#[tokio::test]
async fn nodes_are_asked_and_the_list_of_them_has_an_age() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    controller(&store).await;
    let (first, second) = (Node::start(1, &store).await, Node::start(2, &store).await);
    let (_report, told) = watch::channel(LocalReport {
        node: 3,
        name: "n3".to_owned(),
        open: true,
        ..LocalReport::default()
    });
    let (session, away) = session(&store);
    let asked = Controller::new(CLUSTER, session, Some(told));
    let known = asked.local_cluster().await.unwrap();
    assert_eq!(known.list_age_seconds, None, "the metadata was never asked");
    assert_eq!(known.nodes.len(), 1);
    assert!(known.nodes[0].is_asked && known.nodes[0].name == "n3");
    asked.status().await.unwrap();

    *away.store.lock().unwrap() = None;
    let refused = asked.status().await.unwrap_err();
    assert_eq!(refused.kind, ProblemKind::Unavailable);
    // What nodes say is of now, and one that is gone is not told as it was.
    first.serve(7, 2);
    second.server.abort();
    tokio::time::sleep(Duration::from_millis(1100)).await;
    let known = asked.local_cluster().await.unwrap();
    assert!(known.list_age_seconds >= Some(1), "{known:?}");
    let names: Vec<&str> = known.nodes.iter().map(|node| node.name.as_str()).collect();
    assert_eq!(names, ["n1", "n2", "n3"]);
    let says = LocalSummary {
        open: true,
        metadata_believed: Some(true),
        replicas: 2,
        primaries: 2,
        ..LocalSummary::default()
    };
    assert_eq!(known.nodes[0].says, Some(says));
    assert_eq!(known.nodes[1].says, None, "it does not answer");
    assert!(known.nodes[2].is_asked && known.nodes[2].says.is_some());
    // An explanation tells no less.
    let explained = asked.explain().await.unwrap();
    assert_eq!(explained.revision, 0);
    assert_eq!(explained.known.unwrap().nodes, known.nodes);
}

/// The metadata may go away a moment after a node has started, before it has registered.
#[tokio::test]
async fn a_node_that_starts_knows_the_others_before_it_registers() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    controller(&store).await;
    let _nodes = [Node::start(1, &store).await, Node::start(2, &store).await];
    let (_report, told) = watch::channel(LocalReport {
        node: 3,
        name: "n3".to_owned(),
        ..LocalReport::default()
    });
    let (session, away) = session(&store);
    let starting = Controller::new(CLUSTER, session, Some(told));
    let steering = starting.steer();
    tokio::time::sleep(Duration::from_millis(500)).await;
    *away.store.lock().unwrap() = None;
    let known = starting.local_cluster().await.unwrap();
    let names: Vec<&str> = known.nodes.iter().map(|node| node.name.as_str()).collect();
    assert_eq!(names, ["n1", "n2", "n3"]);
    assert_eq!(known.list_age_seconds, Some(0));
    steering.abort();
}

#[tokio::test]
async fn without_a_node_and_a_list_nothing_is_known() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let alone = Controller::new(CLUSTER, store.session(), None);
    let refused = alone.local_cluster().await.unwrap_err();
    assert_eq!(refused.kind, ProblemKind::NoNode);
}
