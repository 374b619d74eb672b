//! Changes that hold only as long as something is as somebody has seen it.

use holdfast_api::documents::{
    AccessChange, AlarmKindChange, InitiatorPut, NodeChange, NodeOrder, SettingsChange,
    VolumeCreate, VolumeDelete, VolumeGrow,
};
use holdfast_api::{Api, Conditional, EntityTag, Precondition, ProblemKind};
use holdfast_controller::Controller;
use holdfast_metadata::Store;
use holdfast_model::Policy;
use tokio::task::JoinSet;

use crate::support::{CLUSTER, Node, controller, open};

const HOST: &str = "iqn.2026-11.com.example:host";

fn wanted(name: &str) -> VolumeCreate {
    VolumeCreate {
        name: name.to_owned(),
        bytes: 4096,
        policy: Policy::None,
        target: None,
        lun: None,
    }
}

fn still<T>(tag: &EntityTag, request: T) -> Conditional<T> {
    Conditional {
        request,
        precondition: Precondition::still(tag),
    }
}

fn delay(seconds: u64) -> SettingsChange {
    SettingsChange {
        repair_delay_seconds: Some(seconds),
        ..SettingsChange::default()
    }
}

/// Of many who have seen the same, and change it at the same time through different nodes, one is done.
#[tokio::test]
async fn one_of_those_who_change_what_all_have_seen_is_done() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let first = controller(&store).await;
    for round in 0..4 {
        let tag = first.settings().await.unwrap().etag.unwrap();
        let mut changes = JoinSet::new();
        for writer in 0..8 {
            let controller = Controller::new(CLUSTER, store.session(), None);
            let change = still(&tag, delay(100 + 10 * round + writer));
            changes.spawn(async move { controller.change_settings(change).await });
        }
        let ended = changes.join_all().await;
        let done: Vec<_> = ended.iter().filter_map(|it| it.as_ref().ok()).collect();
        assert_eq!(done.len(), 1, "{ended:?}");
        let failed = ended.iter().filter_map(|it| it.as_ref().err());
        for problem in failed {
            assert_eq!(problem.kind, ProblemKind::PreconditionFailed);
        }
        assert_eq!(*done[0], first.settings().await.unwrap());
        assert_ne!(done[0].etag.as_ref(), Some(&tag));
    }
}

#[tokio::test]
async fn a_volumes_tag_is_of_what_may_be_changed() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let controller = controller(&store).await;
    let node = Node::start(1, &store).await;
    controller.create_volume(wanted("data")).await.unwrap();
    let tag = || async { controller.volume("data").await.unwrap().etag.unwrap() };
    let made = tag().await;
    node.serve(1, 1);
    controller.create_volume(wanted("other")).await.unwrap();
    assert_eq!(tag().await, made, "what nodes do changes nothing of it");
    let listed = controller.volumes().await.unwrap();
    assert_eq!(listed.volumes[0].etag.as_ref(), Some(&made));

    let grow = VolumeGrow { bytes: 8192 };
    let grown = controller.grow_volume("data", still(&made, grow)).await;
    let grown = grown.unwrap().etag.unwrap();
    assert_ne!(grown, made);
    let put = InitiatorPut::default();
    controller.put_initiator(HOST, put.clone()).await.unwrap();
    let allow = AccessChange::Allow(HOST.to_owned());
    let stale = controller
        .change_access("data", still(&made, allow.clone()))
        .await;
    assert_eq!(stale.unwrap_err().kind, ProblemKind::PreconditionFailed);
    let allowed = controller.change_access("data", still(&grown, allow)).await;
    let allowed = allowed.unwrap().etag.unwrap();
    assert_ne!(allowed, grown);
    // It is larger than before, and for somebody else: neither is deleted by whoever has not seen it.
    let force = VolumeDelete { force: true };
    for seen in [&made, &grown] {
        let stale = controller.delete_volume("data", still(seen, force)).await;
        assert_eq!(stale.unwrap_err().kind, ProblemKind::PreconditionFailed);
    }
    let grow = VolumeGrow { bytes: 16384 };
    let stale = controller.grow_volume("data", still(&grown, grow)).await;
    assert_eq!(stale.unwrap_err().kind, ProblemKind::PreconditionFailed);
    let delete = still(&allowed, force);
    controller.delete_volume("data", delete).await.unwrap();
    // Another one of that name has another tag.
    controller.create_volume(wanted("data")).await.unwrap();
    assert_ne!(tag().await, made);
}

#[tokio::test]
async fn nodes_and_initiators_have_tags() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let controller = controller(&store).await;
    let _nodes = [Node::start(1, &store).await, Node::start(2, &store).await];
    let tag = || async { controller.node("n2").await.unwrap().node.etag.unwrap() };
    let new = tag().await;
    // Its intent is put on record, and written anew with each volume on it, and nothing is changed.
    controller.create_volume(wanted("data")).await.unwrap();
    assert_eq!(tag().await, new);
    let order = |order| NodeChange { order, site: None };
    let change = still(&new, order(NodeOrder::MaintenanceOn));
    let aside = controller.change_node("n2", change.clone()).await.unwrap();
    let aside = aside.etag.unwrap();
    assert_ne!(aside, new);
    let stale = controller.change_node("n2", change).await.unwrap_err();
    assert_eq!(stale.kind, ProblemKind::PreconditionFailed);
    let back = still(&aside, order(NodeOrder::MaintenanceOff));
    controller.change_node("n2", back).await.unwrap();
    let stale = Precondition::still(&aside);
    let removed = controller.remove_node("n2", stale).await.unwrap_err();
    assert_eq!(removed.kind, ProblemKind::PreconditionFailed);

    let put = |precondition| Conditional {
        request: InitiatorPut::default(),
        precondition,
    };
    let absent = put(Precondition::absent());
    let first = controller.put_initiator(HOST, absent.clone()).await;
    let first = first.unwrap().etag.unwrap();
    assert_eq!(
        controller.initiator(HOST).await.unwrap().etag,
        Some(first.clone())
    );
    let again = controller.put_initiator(HOST, absent).await.unwrap_err();
    assert_eq!(again.kind, ProblemKind::PreconditionFailed);
    let stale = Precondition::still(&new);
    let kept = controller.remove_initiator(HOST, stale).await.unwrap_err();
    assert_eq!(kept.kind, ProblemKind::PreconditionFailed);
    let seen = Precondition::still(&first);
    controller.remove_initiator(HOST, seen).await.unwrap();
    let gone = controller.initiator(HOST).await.unwrap_err();
    assert_eq!(gone.kind, ProblemKind::NoSuchInitiator);
}

/// Of many who have seen the same of a kind of alarm, and change it at the same time through different nodes, one is done; and
/// another kind has nothing to do with it.
#[tokio::test]
async fn a_kind_of_alarm_is_changed_by_one_of_those_who_have_seen_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let first = controller(&store).await;
    let kind = "pool-almost-full";
    let tag = |code: &'static str| {
        let first = &first;
        async move {
            let kinds = first.alarm_kinds().await.unwrap().kinds;
            let found = kinds.into_iter().find(|it| it.kind == code);
            found.unwrap().etag.unwrap()
        }
    };
    let set = |set| {
        Some(AlarmKindChange {
            set: Some(set),
            clear: Some(40),
            ..AlarmKindChange::default()
        })
    };
    let (unset, other) = (tag(kind).await, tag("node-lost").await);
    for round in 0..4 {
        let seen = tag(kind).await;
        let mut changes = JoinSet::new();
        for writer in 0..8 {
            let controller = Controller::new(CLUSTER, store.session(), None);
            let change = still(&seen, set(50 + 10 * round + writer));
            changes.spawn(async move { controller.change_alarm_kind(kind, change).await });
        }
        let ended = changes.join_all().await;
        let stored = tag(kind).await;
        let done: Vec<_> = ended.iter().filter_map(|it| it.as_ref().ok()).collect();
        assert_eq!(done.len(), 1, "{ended:?}");
        assert_eq!(done[0].etag.as_ref(), Some(&stored));
        assert_ne!(stored, seen);
        for problem in ended.iter().filter_map(|it| it.as_ref().err()) {
            assert_eq!(problem.kind, ProblemKind::PreconditionFailed);
        }
    }
    assert_eq!(tag("node-lost").await, other);
    let stale = first.change_alarm_kind(kind, still(&unset, None)).await;
    assert_eq!(stale.unwrap_err().kind, ProblemKind::PreconditionFailed);
    let seen = tag(kind).await;
    let reset = first.change_alarm_kind(kind, still(&seen, None)).await;
    assert_eq!(reset.unwrap().etag, Some(unset));
}
