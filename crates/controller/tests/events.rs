//! What changes is told to those who listen.

use std::time::Duration;

use holdfast_api::documents::{
    Event, EventKind, EventSeverity, SettingsChange, VolumeCreate, VolumeDelete, VolumeGrow,
};
use holdfast_api::events::Listener;
use holdfast_api::{Api, ProblemKind};
use holdfast_controller::LISTENERS_MAX;
use holdfast_model::Policy;
use tokio_stream::StreamExt as _;

use crate::support::{Node, controller, open};

/// The next event of a kind; those in between are passed over.
async fn next(listener: &mut Listener, kind: EventKind) -> Event {
    loop {
        let event = tokio::time::timeout(Duration::from_secs(20), listener.next()).await;
        let event = event
            .unwrap_or_else(|_| panic!("{kind:?} is told"))
            .unwrap();
        if event.kind == kind {
            return Event::clone(&event);
        }
    }
}

#[tokio::test]
async fn what_changes_is_told_once_and_again_to_who_comes_back() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let controller = controller(&store).await;
    let nodes = [Node::start(1, &store).await, Node::start(2, &store).await];
    let mut listener = controller.events(None).await.unwrap();
    let began = next(&mut listener, EventKind::Began).await;

    let request = VolumeCreate {
        name: "data".to_owned(),
        bytes: 4096,
        policy: Policy::Mirror2,
        target: None,
        lun: None,
    };
    controller.create_volume(request).await.unwrap();
    let made = next(&mut listener, EventKind::VolumeCreated).await;
    assert_eq!(
        (&*made.subject, made.severity),
        ("volume data", EventSeverity::Info)
    );
    for node in &nodes {
        node.serve(1, 1);
    }
    let healthy = next(&mut listener, EventKind::VolumeHealth).await;
    assert!(healthy.detail.starts_with("healthy"), "{healthy:?}");
    let grow = VolumeGrow { bytes: 8192 };
    controller.grow_volume("data", grow).await.unwrap();
    next(&mut listener, EventKind::VolumeGrown).await;
    let change = SettingsChange {
        rebalance: Some(false),
        ..SettingsChange::default()
    };
    controller.change_settings(change).await.unwrap();
    let settings = next(&mut listener, EventKind::Settings).await;
    nodes[1].server.abort();
    let lost = next(&mut listener, EventKind::NodeLost).await;
    assert_eq!(
        (&*lost.subject, lost.severity),
        ("node n2", EventSeverity::Error)
    );
    let force = VolumeDelete { force: true };
    controller.delete_volume("data", force).await.unwrap();
    next(&mut listener, EventKind::VolumeDeleted).await;

    // Somebody has heard until the settings were changed, goes away, and comes back.
    drop(listener);
    let mut again = controller.events(Some(&settings.id)).await.unwrap();
    assert_eq!(next(&mut again, EventKind::NodeLost).await, lost);
    next(&mut again, EventKind::VolumeDeleted).await;
    let mut first = controller.events(Some(&began.id)).await.unwrap();
    assert_eq!(next(&mut first, EventKind::VolumeCreated).await, made);
    // What another node has told means nothing here.
    let other = controller.events(Some("1-1")).await.unwrap();
    let mut other = other;
    assert_eq!(other.next().await.unwrap().kind, EventKind::Gap);
}

#[tokio::test]
async fn a_node_that_was_told_to_stop_is_not_lost() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let controller = controller(&store).await;
    let node = Node::start(1, &store).await;
    let others = [Node::start(2, &store).await, Node::start(3, &store).await];
    let mut listener = controller.events(None).await.unwrap();
    next(&mut listener, EventKind::Began).await;
    Node::says_that_it_stops(2, 1, &store).await;
    // What it says of an earlier start says nothing of this one.
    Node::says_that_it_stops(3, 0, &store).await;
    for other in &others {
        other.server.abort();
    }
    let stopped = next(&mut listener, EventKind::NodeStopped).await;
    assert_eq!(
        (&*stopped.subject, &*stopped.detail, stopped.severity),
        ("node n2", "down: it was stopped", EventSeverity::Info)
    );
    let lost = next(&mut listener, EventKind::NodeLost).await;
    assert_eq!(&*lost.subject, "node n3");
    let explained = controller.explain().await.unwrap();
    let found = explained.nodes.iter().find(|it| it.node == "n2").unwrap();
    assert!(
        found.findings[0].what.starts_with("it was stopped"),
        "{found:?}"
    );
    node.server.abort();
}

#[tokio::test]
async fn so_many_listen_and_no_more() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let controller = controller(&store).await;
    let _node = Node::start(1, &store).await;
    let mut listeners = Vec::new();
    for _ in 0..LISTENERS_MAX {
        listeners.push(controller.events(None).await.unwrap());
    }
    let refused = controller.events(None).await.unwrap_err();
    assert_eq!((refused.kind, refused.status), (ProblemKind::Busy, 503));
    listeners.pop();
    controller.events(None).await.unwrap();
}
