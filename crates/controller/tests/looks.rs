//! Many who ask about the whole cluster at a time.

use std::sync::Arc;
use std::time::Duration;

use holdfast_api::documents::{NodeChange, NodeOrder, NodeStanding, SettingsChange};
use holdfast_api::{Api, ApiClient, Door, ProblemKind, router, server};
use holdfast_controller::{Controller, READERS_MAX};
use holdfast_metadata::Store;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::support::{CLUSTER, Node, controller, open};

/// Reads what there is to be read of the whole cluster.
async fn read(controller: &Controller, what: usize) -> Result<(), ProblemKind> {
    let read = match what % 6 {
        0 => controller.status().await.map(drop),
        1 => controller.nodes().await.map(drop),
        2 => controller.volumes().await.map(drop),
        3 => controller.explain().await.map(drop),
        4 => controller.node("n1").await.map(drop),
        _ => controller.unserved(&[]).await.map(drop),
    };
    read.map_err(|problem| problem.kind)
}

/// However many ask, the nodes are asked by few; and who comes when many wait is told so.
#[tokio::test]
async fn readers_share_looks_and_wait_in_a_bounded_number() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let controller = controller(&store).await;
    let node = Node::start(1, &store).await;
    let reports = || node.reporter.0.lock().unwrap().number;
    let before = reports();
    let mut readers = JoinSet::new();
    for reader in 0..READERS_MAX + 20 {
        let controller = controller.clone();
        readers.spawn(async move { read(&controller, reader).await });
    }
    let read_by = readers.join_all().await;
    let busy = read_by.iter().filter(|it| **it == Err(ProblemKind::Busy));
    assert_eq!(busy.count(), 20);
    let done = read_by.iter().filter(|it| it.is_ok());
    assert_eq!(done.count(), READERS_MAX);
    let asked = reports() - before;
    assert!(asked <= 2, "the node was asked {asked} times");
    assert_eq!(read(&controller, 0).await, Ok(()), "nobody waits any more");
}

/// What somebody has been told to be done is seen by whoever asks afterwards, whoever has asked before, and
/// through whichever node.
#[tokio::test]
async fn a_read_after_an_order_sees_it() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let here = controller(&store).await;
    let there = Controller::new(CLUSTER, store.session(), None);
    let _nodes = [Node::start(1, &store).await, Node::start(2, &store).await];
    let mut standing = NodeStanding::Active;
    for round in 0..10 {
        let mut readers = JoinSet::new();
        for reader in 0..8 {
            let there = there.clone();
            readers.spawn(async move {
                tokio::time::sleep(Duration::from_millis(reader)).await;
                read(&there, reader as usize).await
            });
        }
        let (order, ordered) = if round % 2 == 0 {
            (NodeOrder::MaintenanceOn, NodeStanding::Maintenance)
        } else {
            (NodeOrder::MaintenanceOff, NodeStanding::Active)
        };
        let change = NodeChange { order, site: None };
        let told = here.change_node("n1", change).await.unwrap();
        assert_ne!(told.standing, standing);
        standing = ordered;
        for controller in [&here, &there] {
            let seen = controller.node("n1").await.unwrap();
            assert_eq!(seen.node.standing, standing);
        }
        let readers = readers.join_all().await;
        assert!(readers.iter().all(Result::is_ok));
    }
}

/// Through the interface: a status that programs know, and orders have room beside readers.
#[tokio::test]
async fn orders_are_obeyed_while_readers_wait() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let controller = controller(&store).await;
    let _node = Node::start(1, &store).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let routes = router(Arc::new(controller), Door::Open);
    let server = tokio::spawn(async move {
        server::serve(listener, routes).await;
    });
    let client = ApiClient::new(vec![url.parse().unwrap()], None);
    let mut readers = JoinSet::new();
    for _ in 0..100 {
        let client = client.clone();
        readers.spawn(async move { client.status().await });
    }
    let change = SettingsChange {
        rebalance: Some(false),
        ..SettingsChange::default()
    };
    let changed = client.change_settings(change).await.unwrap();
    assert!(!changed.rebalance);
    for read in readers.join_all().await {
        if let Err(holdfast_api::client::ClientError::Problem(problem)) = read {
            assert_eq!((problem.kind, problem.status), (ProblemKind::Busy, 503));
        }
    }
    server.abort();
}
