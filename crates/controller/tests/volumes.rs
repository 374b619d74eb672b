//! The control plane over an embedded store and nodes that only report.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use holdfast_api::documents::{
    Created, Health, History, HistoryOf, HistoryQuery, LocalStall, LocalVolume, NodeChange,
    NodeOrder, NodeState, SettingsChange, StallQuery, VolumeCreate, VolumeDelete, VolumeGrow,
};
use holdfast_api::{Api, Problem, ProblemKind};
use holdfast_controller::Controller;
use holdfast_metadata::suite::User;
use holdfast_metadata::{Session, Store};
use holdfast_model::metadata::{
    LeaseId, MetadataAnswer, MetadataError, MetadataRequest, MetadataToken, Operation, Selector,
    Transaction,
};
use holdfast_model::record::{NAMES_PREFIX, Record, SLICES_PREFIX, SliceRecord, VOLUMES_PREFIX};
use holdfast_model::{ClusterId, NodeId, Policy, SLICE_SIZE};

use crate::support::{CLUSTER, Node, controller, full, open, stalls_of};

/// Volumes are deleted that nobody uses.
const UNUSED: VolumeDelete = VolumeDelete { force: false };

fn wanted(name: &str, bytes: u64, policy: Policy) -> VolumeCreate {
    VolumeCreate {
        name: name.to_owned(),
        bytes,
        policy,
        target: None,
        lun: None,
    }
}

#[tokio::test]
async fn stalls_of_all_nodes_are_told_together_and_silent_nodes_named() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let controller = Controller::new(CLUSTER, store.session(), None);
    controller.found().await.unwrap();
    let nodes = [Node::start(1, &store).await, Node::start(2, &store).await];
    let lasting = LocalStall {
        began_ms: 17,
        ..stalls_of(1)[0].clone()
    };
    nodes[0].reporter.0.lock().unwrap().stalled = vec![lasting];
    let query = StallQuery::default();
    let list = controller.stalls(None, query.clone()).await.unwrap();
    let told: Vec<_> = list
        .stalls
        .iter()
        .map(|it| (it.portal.as_str(), it.began_ms, it.lasting))
        .collect();
    let expected = [
        ("n1", 17, true),
        ("n2", 2002, false),
        ("n1", 2001, false),
        ("n2", 1002, false),
        ("n1", 1001, false),
    ];
    assert_eq!(told, expected);
    assert_eq!(
        (list.stalls[0].volume.as_str(), list.silent.len()),
        ("v2", 0)
    );
    assert_eq!(list.stalls[0].node.as_deref(), Some("n9"));
    let two = StallQuery {
        limit: 2,
        ..query.clone()
    };
    assert_eq!(controller.stalls(None, two).await.unwrap().stalls.len(), 2);
    let named = controller.stalls(Some("none"), query.clone()).await;
    let problem = named.unwrap_err();
    assert_eq!(problem.kind, ProblemKind::NoSuchVolume);
    nodes[1].server.abort();
    let list = controller.stalls(None, query.clone()).await.unwrap();
    assert_eq!((list.stalls.len(), list.silent), (3, vec!["n2".to_owned()]));
    let problem = controller.local_stalls(query).await.unwrap_err();
    assert_eq!(problem.kind, ProblemKind::NoNode);
}

/// As whoever reads the whole ledger piece by piece: each is asked of all nodes anew.
#[tokio::test]
async fn stalls_of_one_moment_at_several_nodes_are_told_once_each_in_pieces() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let controller = controller(&store).await;
    let nodes = [1, 2, 3].map(|number| Node::start(number, &store));
    for node in nodes {
        let node = node.await;
        let stalled = [1, 2].map(|volume| LocalStall {
            began_ms: 17,
            volume,
            ..stalls_of(1)[0].clone()
        });
        node.reporter.0.lock().unwrap().stalled = stalled.to_vec();
    }
    let whole = controller
        .stalls(None, StallQuery::default())
        .await
        .unwrap();
    assert_eq!((whole.stalls.len(), &whole.next), (12, &None));
    for limit in 1..=12 {
        let (mut all, mut after) = (Vec::new(), None);
        loop {
            let query = StallQuery {
                limit,
                after,
                ..StallQuery::default()
            };
            let piece = controller.stalls(None, query).await.unwrap();
            assert!((1..=limit as usize).contains(&piece.stalls.len()));
            all.extend(piece.stalls);
            after = piece.next;
            if after.is_none() {
                break;
            }
        }
        assert_eq!(all, whole.stalls, "{limit}");
    }
    let none = StallQuery {
        after: Some("7".to_owned()),
        ..StallQuery::default()
    };
    let refused = controller.stalls(None, none).await.unwrap_err();
    assert_eq!(refused.kind, ProblemKind::Invalid);
}

#[tokio::test]
async fn histories_of_all_nodes_are_added_up_and_silent_nodes_named() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let controller = Controller::new(CLUSTER, store.session(), None);
    controller.found().await.unwrap();
    let nodes = [Node::start(1, &store).await, Node::start(2, &store).await];
    let query = HistoryQuery::default();
    let cluster = controller.history(HistoryOf::Cluster, query).await.unwrap();
    assert_eq!(cluster.step_seconds, 9);
    assert!(cluster.points.len() >= 400 && cluster.silent.is_empty());
    assert_eq!(cluster.points[0].at_ms, cluster.from_ms);
    let rates = |history: &History| history.points[7].reads.per_second;
    assert!((rates(&cluster) - 3.0).abs() < 1e-9);
    let of_node = HistoryOf::Node("n2".to_owned());
    let node = controller.history(of_node, query).await.unwrap();
    assert!((rates(&node) - 2.0).abs() < 1e-9);
    for (of, kind) in [
        (HistoryOf::Node("n9".to_owned()), ProblemKind::NoSuchNode),
        (
            HistoryOf::Volume("none".to_owned()),
            ProblemKind::NoSuchVolume,
        ),
    ] {
        let problem = controller.history(of, query).await.unwrap_err();
        assert_eq!(problem.kind, kind);
    }
    nodes[1].server.abort();
    let cluster = controller.history(HistoryOf::Cluster, query).await.unwrap();
    assert!((rates(&cluster) - 1.0).abs() < 1e-9);
    assert_eq!(cluster.silent, ["n2"]);
}

#[tokio::test]
async fn volumes_come_grow_and_go() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let controller = controller(&store).await;
    let nodes = [Node::start(1, &store).await, Node::start(2, &store).await];
    let request = wanted("demo", 5 << 30, Policy::Mirror2);
    let Created { volume, is_new } = controller.create_volume(request.clone()).await.unwrap();
    assert!(is_new);
    assert_eq!((volume.bytes, volume.slices.len()), (5 << 30, 2));
    assert_eq!(volume.slices[0].in_sync, ["n1", "n2"]);
    assert_eq!(
        volume.health,
        Health::Unavailable,
        "no node has taken it up"
    );
    nodes.iter().for_each(|node| node.serve(1, 2));
    let everywhere = [NodeId(1), NodeId(2)];
    assert_eq!(controller.unserved(&everywhere).await.unwrap(), []);
    let nowhere = ("demo".to_owned(), NodeId(3));
    assert_eq!(controller.unserved(&[NodeId(3)]).await.unwrap(), [nowhere]);
    let volume = controller.volume("demo").await.unwrap();
    assert_eq!(
        (volume.health, volume.used_bytes),
        (Health::Healthy, Some(1 << 19))
    );
    assert_eq!(
        controller.create_volume(request).await.unwrap(),
        Created {
            volume,
            is_new: false
        },
    );
    let grown = controller
        .grow_volume("demo", VolumeGrow { bytes: 9 << 30 })
        .await
        .unwrap();
    assert_eq!((grown.bytes, grown.slices.len()), (9 << 30, 3));
    let listed = controller.volumes().await.unwrap().volumes;
    assert_eq!(listed[0].target, "iqn.2026-11.io.holdfast:demo");
    assert_eq!(controller.status().await.unwrap().volumes.total, 1);
    nodes[1].server.abort();
    let states: Vec<_> = controller
        .nodes()
        .await
        .unwrap()
        .nodes
        .iter()
        .map(|node| node.state)
        .collect();
    assert_eq!(states, [NodeState::Up, NodeState::Down]);
    // Whether anybody uses it there is not known.
    let problem = controller.delete_volume("demo", UNUSED).await.unwrap_err();
    assert_eq!(problem.kind, ProblemKind::VolumeInUse);
    assert!(problem.detail.contains("node n2"), "{problem}");
    let force = VolumeDelete { force: true };
    controller.delete_volume("demo", force).await.unwrap();
    assert_eq!(controller.volumes().await.unwrap().volumes, []);
    let kind = |result: Result<(), Problem>| result.unwrap_err().kind;
    assert_eq!(
        kind(controller.delete_volume("demo", UNUSED).await),
        ProblemKind::NoSuchVolume
    );
}

/// Its record may be of the devices that it had before, and what it has now is another store.
#[tokio::test]
async fn nothing_is_put_on_a_node_whose_devices_are_not_open() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let controller = controller(&store).await;
    let node = Node::start(1, &store).await;
    let is_open = |is_open| node.reporter.0.lock().unwrap().open = is_open;
    is_open(false);
    let request = wanted("demo", 1 << 30, Policy::None);
    let refused = controller.create_volume(request.clone()).await;
    assert_eq!(refused.unwrap_err().kind, ProblemKind::TooFewNodes);
    is_open(true);
    let made = controller.create_volume(request).await.unwrap();
    assert!(made.is_new);
}

#[tokio::test]
async fn a_volume_that_needs_more_failure_domains_is_refused_with_what_helps() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let controller = controller(&store).await;
    let _nodes = [Node::start(1, &store).await, Node::start(2, &store).await];
    for number in [1, 2] {
        Node::is_in(number, "rack-7", &store).await;
    }
    let twice = || wanted("twice", 4096, Policy::Mirror2);
    let refused = controller.create_volume(twice()).await.unwrap_err();
    assert_eq!(refused.kind, ProblemKind::TooFewNodes);
    assert!(
        refused
            .detail
            .contains("the cluster's 2 nodes are in 1 failure domain"),
        "{refused}"
    );
    let hint = refused.hint.unwrap_or_default();
    for part in ["add a node in another failure domain", "`failure_domain`"] {
        assert!(hint.contains(part), "{hint}");
    }
    assert_eq!(controller.volumes().await.unwrap().volumes, []);
    Node::is_in(2, "rack-8", &store).await;
    controller.create_volume(twice()).await.unwrap();
    let drained = NodeChange {
        order: NodeOrder::Drain,
        site: None,
    };
    let _third = Node::start(3, &store).await;
    Node::is_in(3, "rack-7", &store).await;
    let admitted = NodeChange {
        order: NodeOrder::Add,
        site: None,
    };
    controller.change_node("n3", admitted).await.unwrap();
    let refused = controller.change_node("n2", drained).await.unwrap_err();
    assert!(
        refused
            .detail
            .contains("too few failure domains for volumes twice"),
        "{refused}"
    );
    assert!(
        refused
            .hint
            .unwrap_or_default()
            .contains("`holdfast node list`")
    );
}

#[tokio::test]
async fn a_volume_in_use_is_not_deleted_unless_that_is_forced() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let controller = controller(&store).await;
    let nodes = [Node::start(1, &store).await, Node::start(2, &store).await];
    for name in ["first", "second"] {
        let request = wanted(name, 4096, Policy::Mirror2);
        controller.create_volume(request).await.unwrap();
    }
    let set_sessions = |count| {
        let mut report = nodes[1].reporter.0.lock().unwrap();
        report.volumes = vec![LocalVolume {
            volume: 1,
            serving: true,
            sessions: count,
            ..LocalVolume::default()
        }];
    };
    set_sessions(2);
    let listed = controller.volumes().await.unwrap().volumes;
    let sessions: Vec<_> = listed.iter().map(|volume| volume.sessions).collect();
    assert_eq!(sessions, [2, 0]);
    let listed = controller.nodes().await.unwrap().nodes;
    let sessions: Vec<_> = listed.iter().map(|node| node.sessions).collect();
    assert_eq!(sessions, [Some(0), Some(2)]);
    let problem = controller.delete_volume("first", UNUSED).await.unwrap_err();
    assert_eq!(problem.kind, ProblemKind::VolumeInUse);
    assert!(problem.detail.contains("2 sessions"), "{problem}");
    let hint = problem.hint.unwrap();
    assert!(
        hint.contains("`holdfast volume delete first --force`"),
        "{hint}"
    );
    // Nobody uses the other one, and who is just logging out is waited for.
    controller.delete_volume("second", UNUSED).await.unwrap();
    let (deleted, ()) = tokio::join!(controller.delete_volume("first", UNUSED), async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        set_sessions(0);
    });
    deleted.unwrap();
    controller
        .create_volume(wanted("third", 4096, Policy::None))
        .await
        .unwrap();
    nodes[0].reporter.0.lock().unwrap().volumes = vec![LocalVolume {
        volume: 3,
        serving: true,
        sessions: 1,
        ..LocalVolume::default()
    }];
    let force = VolumeDelete { force: true };
    controller.delete_volume("third", force).await.unwrap();
    assert_eq!(controller.volumes().await.unwrap().volumes, []);
}

#[tokio::test]
async fn what_cannot_be_is_refused_with_a_hint() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let controller = controller(&store).await;
    let nodes = [Node::start(1, &store).await, Node::start(2, &store).await];
    controller
        .create_volume(wanted("demo", 8192, Policy::None))
        .await
        .unwrap();
    nodes[1].server.abort();
    for (name, bytes, policy, kind, says) in [
        ("Demo", 4096, Policy::None, ProblemKind::Invalid, "no 'D'"),
        (
            "a",
            0,
            Policy::None,
            ProblemKind::Invalid,
            "at least one block",
        ),
        (
            "a",
            5000,
            Policy::None,
            ProblemKind::Invalid,
            "4096 and 8192",
        ),
        (
            "a",
            1 << 60,
            Policy::None,
            ProblemKind::Invalid,
            "at most 64TiB",
        ),
        (
            "demo",
            4096,
            Policy::None,
            ProblemKind::VolumeExists,
            "of 8KiB and none",
        ),
        (
            "a",
            4096,
            Policy::Mirror3,
            ProblemKind::TooFewNodes,
            "has 2",
        ),
        (
            "a",
            4096,
            Policy::Mirror2,
            ProblemKind::TooFewNodes,
            "1 of the cluster's 2 are up",
        ),
    ] {
        let problem = controller
            .create_volume(wanted(name, bytes, policy))
            .await
            .unwrap_err();
        assert_eq!(problem.kind, kind, "{problem:?}");
        assert!(problem.detail.contains(says), "{problem:?}");
        assert!(problem.hint.is_some(), "{problem:?}");
    }
    let shrunk = controller
        .grow_volume("demo", VolumeGrow { bytes: 4096 })
        .await
        .unwrap_err();
    assert_eq!(shrunk.kind, ProblemKind::VolumeShrinks);
    let unknown = controller.volume("other").await.unwrap_err();
    assert_eq!(unknown.kind, ProblemKind::NoSuchVolume);
    assert_eq!(
        controller.local().await.unwrap_err().kind,
        ProblemKind::NoNode
    );
    let stranger = Controller::new(ClusterId(2), store.session(), None);
    let problem = stranger.volumes().await.unwrap_err();
    assert!(problem.detail.contains("is that of cluster"), "{problem:?}");
}

/// Takes up new slices, some at a time, as nodes do; returns how many it has found waiting at most.
async fn take_up(session: Session, slices: usize) -> usize {
    let mut user = User::new(session);
    let (mut taken, mut waiting_max) = (0, 0);
    while taken < slices {
        let found = user
            .range(Selector::Prefix(SLICES_PREFIX.to_owned()))
            .await
            .1;
        let new = found
            .into_iter()
            .filter(|pair| pair.create_revision == pair.mod_revision);
        let new: Vec<_> = new.collect();
        waiting_max = waiting_max.max(new.len());
        let puts = new.into_iter().take(50).map(|pair| {
            let mut record = SliceRecord::decode(&pair.value).unwrap();
            record.epoch = record.epoch.next();
            Operation::Put {
                key: pair.key,
                value: record.encode(),
                lease: LeaseId::default(),
            }
        });
        let success: Vec<_> = puts.collect();
        taken += success.len();
        let all = Transaction {
            success,
            ..Transaction::default()
        };
        user.transact(all).await.unwrap();
    }
    waiting_max
}

#[tokio::test]
async fn a_large_volume_is_made_no_faster_than_its_slices_are_taken_up() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let controller = controller(&store).await;
    let _nodes = [Node::start(1, &store).await, Node::start(2, &store).await];
    let taking = tokio::spawn(take_up(store.session(), 300));
    let request = wanted("large", 300 * SLICE_SIZE, Policy::Mirror2);
    let created = controller.create_volume(request).await.unwrap();
    assert_eq!(created.volume.slices.len(), 300);
    let waiting_max = taking.await.unwrap();
    assert!(
        (1..=127).contains(&waiting_max),
        "{waiting_max} were waiting"
    );
}

#[tokio::test]
async fn many_make_volumes_at_the_same_time() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let _nodes = [Node::start(1, &store).await, Node::start(2, &store).await];
    let mut makers = Vec::new();
    for maker in 0..4 {
        let controller = controller(&store).await;
        makers.push(tokio::spawn(async move {
            let shared = controller
                .create_volume(wanted("shared", 8 << 30, Policy::Mirror2))
                .await;
            let own = wanted(&format!("own-{maker}"), 4096, Policy::None);
            (shared, controller.create_volume(own).await)
        }));
    }
    for maker in makers {
        let (shared, own) = maker.await.unwrap();
        assert_eq!(shared.unwrap().volume.slices.len(), 2);
        own.unwrap();
    }
    let mut user = User::new(store.session());
    let count = async |user: &mut User, prefix: &str| {
        user.range(Selector::Prefix(prefix.to_owned()))
            .await
            .1
            .len()
    };
    assert_eq!(count(&mut user, NAMES_PREFIX).await, 5);
    assert_eq!(
        count(&mut user, SLICES_PREFIX).await,
        6,
        "nothing is left over"
    );
}

/// A session whose answers to some transactions are lost, though they were done, and those to so many looks that follow
/// one.
fn forgetful(inner: Session, looks: u32) -> Session {
    struct Passing(holdfast_metadata::Requests);
    impl holdfast_metadata::session::Submit for Passing {
        fn submit(&self, token: MetadataToken, request: MetadataRequest) {
            self.0.submit(token, request);
        }
    }
    let (sender, answers) = tokio::sync::mpsc::channel(64);
    let Session {
        requests,
        answers: mut told,
    } = inner;
    tokio::spawn(async move {
        let mut changes = 0;
        let mut revision = 0;
        let mut lost = 0;
        while let Some((token, mut answer)) = told.recv().await {
            if lost > 0 {
                lost -= 1;
                answer = MetadataAnswer::Failed(MetadataError::Unavailable);
            } else if let MetadataAnswer::Transacted(outcome) = &answer
                && outcome.revision.0 > revision
            {
                revision = outcome.revision.0;
                changes += 1;
                if changes % 5 == 0 {
                    answer = MetadataAnswer::Failed(MetadataError::Unavailable);
                    lost = looks;
                }
            }
            if sender.send((token, answer)).await.is_err() {
                return;
            }
        }
    });
    Session {
        requests: holdfast_metadata::Requests::new(Arc::new(Passing(requests))),
        answers,
    }
}

/// Nothing is tried again that waits for an operator to make room, and that is said.
#[tokio::test]
async fn orders_end_at_once_where_the_metadata_is_full() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let _node = Node::start(1, &store).await;
    controller(&store).await;
    let (session, full) = full::session(&store);
    full.is_full.store(true, Ordering::Relaxed);
    let controller = Controller::new(CLUSTER, session, None);
    let make = controller.create_volume(wanted("demo", 4096, Policy::None));
    let made = make.await.unwrap_err();
    let change = controller.change_settings(SettingsChange {
        repair_delay_seconds: Some(77),
        ..SettingsChange::default()
    });
    for problem in [made, change.await.unwrap_err()] {
        assert_eq!(problem.kind, ProblemKind::ClusterFull);
        assert!(problem.detail.contains("store is full"), "{problem}");
        let hint = problem.hint.expect("it says what to do");
        assert!(hint.contains("etcdctl alarm disarm"), "{hint}");
    }
    let refused = full.refused.load(Ordering::Relaxed);
    assert_eq!(refused, 2, "one attempt for each");
}

#[tokio::test]
async fn lost_answers_are_looked_up() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let _node = Node::start(1, &store).await;
    controller(&store).await;
    let controller = Controller::new(CLUSTER, forgetful(store.session(), 0), None)
        .serve_within(Duration::from_millis(50));
    let mut user = User::new(store.session());
    for round in 0..6 {
        let name = format!("demo-{round}");
        loop {
            match controller
                .create_volume(wanted(&name, 8 << 30, Policy::None))
                .await
            {
                Ok(created) => {
                    assert!(created.is_new, "this very request has made it");
                    break assert_eq!(created.volume.slices.len(), 2);
                }
                Err(problem) => assert_eq!(problem.kind, ProblemKind::Unavailable),
            }
        }
        let slices = user
            .range(Selector::Prefix(SLICES_PREFIX.to_owned()))
            .await
            .1;
        assert_eq!(slices.len(), 2, "what was cut short is cleared away");
        loop {
            match controller.delete_volume(&name, UNUSED).await {
                Ok(()) => break,
                Err(problem) if problem.kind == ProblemKind::NoSuchVolume => break,
                Err(problem) => assert_eq!(problem.kind, ProblemKind::Unavailable),
            }
        }
    }
    assert!(
        user.range(Selector::Prefix(SLICES_PREFIX.to_owned()))
            .await
            .1
            .is_empty()
    );
}

/// The metadata is away for a moment in the middle of a plan: what was begun is finished when it is back.
#[tokio::test]
async fn what_was_begun_is_finished_when_the_metadata_is_back() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let _node = Node::start(1, &store).await;
    controller(&store).await;
    let controller =
        Controller::new(CLUSTER, forgetful(store.session(), 4), None).serve_within(Duration::ZERO);
    for round in 0..6 {
        let wanted = wanted(&format!("demo-{round}"), 8 << 30, Policy::None);
        // The answer that is lost may be the last one, and then what follows is a look at what was made.
        match controller.create_volume(wanted).await {
            Ok(created) => assert!(created.is_new),
            Err(problem) => assert_eq!(problem.kind, ProblemKind::Unavailable),
        }
    }
    let (mut user, slices) = (User::new(store.session()), SLICES_PREFIX.to_owned());
    let slices = user.range(Selector::Prefix(slices)).await.1;
    assert_eq!(slices.len(), 12);
    let volumes = user
        .range(Selector::Prefix(VOLUMES_PREFIX.to_owned()))
        .await
        .1;
    assert_eq!(volumes.len(), 6, "none is left unfinished");
}

#[tokio::test]
async fn without_the_metadata_everything_says_so_soon() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let controller = controller(&store).await;
    store.close().unwrap();
    let begun = Instant::now();
    for problem in [
        controller.status().await.unwrap_err(),
        controller.volume("demo").await.unwrap_err(),
        controller
            .create_volume(wanted("demo", 4096, Policy::None))
            .await
            .unwrap_err(),
    ] {
        assert_eq!(problem.kind, ProblemKind::Unavailable);
    }
    assert!(begun.elapsed() < Duration::from_secs(2));
}
