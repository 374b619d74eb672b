//! Creations that bear a key, and their repetitions.

use holdfast_api::documents::{Created, VolumeCreate, VolumeDelete, VolumeGrow};
use holdfast_api::{Api, IdempotencyKey, Keyed, ProblemKind};
use holdfast_control::{CREATION_KEPT_SECONDS, CREATIONS_MAX};
use holdfast_controller::Controller;
use holdfast_metadata::suite::User;
use holdfast_metadata::{Embedded, Store};
use holdfast_model::Policy;
use holdfast_model::metadata::{Operation, OperationResult, Selector};
use holdfast_model::record::{CREATIONS_PREFIX, CreationRecord, Record};
use tokio::task::JoinSet;

use crate::support::{CLUSTER, Node, controller, open};

fn wanted(name: &str, bytes: u64, key: &str) -> Keyed<VolumeCreate> {
    Keyed {
        request: VolumeCreate {
            name: name.to_owned(),
            bytes,
            policy: Policy::None,
            target: None,
            lun: None,
        },
        key: Some(IdempotencyKey::new(key).unwrap()),
    }
}

async fn kept(store: &Embedded) -> Vec<CreationRecord> {
    let range = Operation::Range(Selector::Prefix(CREATIONS_PREFIX.into()));
    let answer = User::new(store.session()).perform(range).await;
    let (_, OperationResult::Range(found)) = answer else {
        panic!("a range is answered by one");
    };
    let read = |it: holdfast_model::metadata::KeyValue| CreationRecord::decode(&it.value).unwrap();
    found.into_iter().map(read).collect()
}

#[tokio::test]
async fn a_repetition_is_answered_as_it_was_through_any_node() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let [here, there] = [controller(&store).await, controller(&store).await];
    let _node = Node::start(1, &store).await;
    let made = here.create_volume(wanted("data", 4096, "k")).await.unwrap();
    assert!(made.is_new);
    assert_eq!(
        there
            .create_volume(wanted("data", 4096, "k"))
            .await
            .unwrap(),
        made
    );
    // It has grown since: that is no other wish.
    let grow = VolumeGrow { bytes: 8192 };
    here.grow_volume("data", grow).await.unwrap();
    let Created { volume, is_new } = there
        .create_volume(wanted("data", 4096, "k"))
        .await
        .unwrap();
    assert_eq!((volume.bytes, is_new), (8192, true));
    for other in [wanted("data", 8192, "k"), wanted("other", 4096, "k")] {
        let refused = there.create_volume(other).await.unwrap_err();
        assert_eq!(
            (refused.kind, refused.status),
            (ProblemKind::KeyReused, 422)
        );
    }
    // Another key finds it there, and goes on to.
    for _ in 0..2 {
        let found = here.create_volume(wanted("data", 8192, "l")).await.unwrap();
        assert!(!found.is_new);
    }
    // What was made and deleted is not made once more by a request that was on its way for long.
    let force = VolumeDelete { force: true };
    here.delete_volume("data", force).await.unwrap();
    for key in ["k", "l"] {
        let bytes = if key == "k" { 4096 } else { 8192 };
        let gone = there.create_volume(wanted("data", bytes, key)).await;
        assert_eq!(gone.unwrap_err().kind, ProblemKind::NoSuchVolume);
    }
    assert!(here.volumes().await.unwrap().volumes.is_empty());
    let again = there
        .create_volume(wanted("data", 4096, "m"))
        .await
        .unwrap();
    assert!(again.is_new);
}

/// The key's record is written with the volume's: of many that come at the same time one makes it.
#[tokio::test]
async fn of_requests_at_the_same_time_one_is_done() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let first = controller(&store).await;
    let _node = Node::start(1, &store).await;
    let mut requests = JoinSet::new();
    for number in 0..8 {
        let controller = Controller::new(CLUSTER, store.session(), None)
            .serve_within(std::time::Duration::from_millis(50));
        // The same key for two names.
        let request = wanted(["one", "two"][number % 2], 4096, "k");
        requests.spawn(async move { controller.create_volume(request).await });
    }
    let ended = requests.join_all().await;
    let volumes = first.volumes().await.unwrap().volumes;
    assert_eq!(volumes.len(), 1, "{ended:?}");
    for answer in ended {
        match answer {
            Ok(created) => assert_eq!(
                (created.is_new, &created.volume.name),
                (true, &volumes[0].name)
            ),
            Err(problem) => assert_eq!(problem.kind, ProblemKind::KeyReused),
        }
    }
}

#[tokio::test]
async fn so_many_keys_are_kept_and_for_so_long() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let controller = controller(&store).await;
    let node = Node::start(1, &store).await;
    // It is served at once, so that nobody waits for that.
    node.serve(1, 1);
    for number in 0..CREATIONS_MAX + 3 {
        let request = wanted("data", 4096, &format!("key-{number}"));
        controller.create_volume(request).await.unwrap();
    }
    assert_eq!(kept(&store).await.len(), CREATIONS_MAX);
    // The newest is there, and old ones go with the next.
    let mut user = User::new(store.session());
    for number in 3..CREATIONS_MAX + 3 {
        let key = format!("key-{number}");
        let old = CreationRecord {
            schema: 1,
            volume: holdfast_model::VolumeId(1),
            made: true,
            wish: "another".to_owned(),
            at_seconds: 1_700_000_000 - CREATION_KEPT_SECONDS,
        };
        let put = Operation::put(CreationRecord::key(&key), old.encode());
        user.perform(put).await;
    }
    // A key whose time is over is free, for another wish as well.
    let free = wanted("data", 4096, "key-9");
    assert!(!controller.create_volume(free).await.unwrap().is_new);
    assert!(kept(&store).await.len() < CREATIONS_MAX);
}
