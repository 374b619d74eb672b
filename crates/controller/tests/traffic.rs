//! Traffic of volumes, asked of all nodes, over an embedded store.

use holdfast_api::documents::VolumeCreate;
use holdfast_api::{Api, ProblemKind};
use holdfast_model::Policy;

use crate::support::{Node, controller, open};

#[tokio::test]
async fn what_nodes_count_is_added_up_and_who_is_silent_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let controller = controller(&store).await;
    let first = Node::start(1, &store).await;
    let second = Node::start(2, &store).await;
    let none = controller.traffic().await.unwrap();
    assert!(none.volumes.is_empty(), "there is no volume: {none:?}");
    let wanted = VolumeCreate {
        name: "data".to_owned(),
        bytes: 4096,
        policy: Policy::None,
        target: None,
        lun: None,
    };
    controller.create_volume(wanted).await.unwrap();
    let list = controller.volumes().await.unwrap();
    for node in [&first, &second] {
        node.serve(list.volumes[0].volume, 1);
    }
    let told = controller.traffic().await.unwrap();
    assert!(told.silent.is_empty());
    assert_eq!(told.volumes.len(), 1);
    let data = &told.volumes[0];
    assert_eq!(data.volume, "data");
    assert!((data.all.per_second - 3.0).abs() < 1e-9, "{data:?}");
    assert!((data.reads.bytes_per_second - 300.0).abs() < 1e-9);
    assert!(data.writes.latency.is_none());
    second.server.abort();
    let told = controller.traffic().await.unwrap();
    assert_eq!(told.silent, ["n2"]);
    assert!((told.volumes[0].all.per_second - 1.0).abs() < 1e-9);
    // There is no node in this process.
    let nobody = controller.local_traffic().await.unwrap_err();
    assert_eq!(nobody.kind, ProblemKind::NoNode);
}
