//! Long work under way, over an embedded store and nodes that only report.

use holdfast_api::documents::{
    Device, DeviceChange, DeviceState, DeviceTier, LocalJoining, NodeChange, NodeOrder,
    NodeStanding, Room, Task, TaskKind, VolumeCreate,
};
use holdfast_api::{Api, ProblemKind};
use holdfast_metadata::suite::User;
use holdfast_metadata::{Embedded, Store};
use holdfast_model::metadata::{Operation, OperationResult, Selector};
use holdfast_model::record::{Membership, Record, SLICES_PREFIX, SliceRecord};
use holdfast_model::{Policy, Sequence};

use crate::support::{Node, controller, open};

async fn node(number: u16, store: &Embedded) -> Node {
    let node = Node::start(number, store).await;
    node.reporter.0.lock().unwrap().room = Room {
        bytes: 1 << 40,
        used_bytes: 1 << 30,
    };
    node
}

fn ids(tasks: &[Task]) -> Vec<&str> {
    tasks.iter().map(|task| &*task.id).collect()
}

/// The second replica of the first slice is being brought up to date. Tells where it is, and who leads.
async fn set_back(store: &Embedded) -> (u16, u16) {
    let mut user = User::new(store.session());
    let range = Operation::Range(Selector::Prefix(SLICES_PREFIX.into()));
    let (_, OperationResult::Range(found)) = user.perform(range).await else {
        panic!("a range is answered by one");
    };
    let mut record = SliceRecord::decode(&found[0].value).unwrap();
    let primary = record.primary;
    let other = record.replicas.iter_mut().find(|it| it.node != primary);
    let other = other.unwrap();
    other.membership = Membership::Joining {
        stable: Sequence(0),
    };
    let joining = other.node;
    let put = Operation::put(SliceRecord::key(record.slice), record.encode());
    user.perform(put).await;
    (joining.0, primary.0)
}

#[tokio::test]
async fn what_takes_long_is_told_and_called_off_where_that_is_possible() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let controller = controller(&store).await;
    let nodes = [
        node(1, &store).await,
        node(2, &store).await,
        node(3, &store).await,
    ];
    let request = VolumeCreate {
        name: "data".to_owned(),
        bytes: 4 << 30,
        policy: Policy::Mirror2,
        target: None,
        lun: None,
    };
    controller.create_volume(request).await.unwrap();
    assert_eq!(controller.tasks().await.unwrap(), []);

    // A replica is brought up to date.
    let (joining, primary) = set_back(&store).await;
    let leader = &nodes[usize::from(primary) - 1];
    leader.serve(1, 1);
    let id = format!("sync~data~0~n{joining}");
    let waits = controller.task(&id).await.unwrap();
    assert!(waits.is_waiting && waits.bytes_done.is_none(), "{waits:?}");
    leader.reporter.0.lock().unwrap().slices[0].joining = vec![LocalJoining {
        node: joining,
        bytes_done: 1 << 20,
        bytes_total: 5 << 20,
        bytes_moved: 1 << 20,
        bytes_per_second: 1 << 20,
    }];
    let sync = controller.task(&id).await.unwrap();
    assert_eq!(
        (sync.bytes_done, sync.bytes_total),
        (Some(1 << 20), Some(5 << 20))
    );
    assert_eq!((sync.seconds_left, sync.is_waiting), (Some(4), false));
    let refused = controller.cancel_task(&id).await.unwrap_err();
    assert_eq!(refused.kind, ProblemKind::Refused);

    // It is scrubbed.
    controller.scrub_volume("data").await.unwrap();
    assert_eq!(ids(&controller.tasks().await.unwrap()), ["scrub~data", &id]);
    let scrub = controller.task("scrub~data").await.unwrap();
    assert!(scrub.began_seconds.is_some() && !scrub.can_cancel);
    let refused = controller.cancel_task("scrub~data").await.unwrap_err();
    assert_eq!((refused.kind, refused.status), (ProblemKind::Refused, 409));
    let none = controller.cancel_task("scrub~other").await.unwrap_err();
    assert_eq!((none.kind, none.status), (ProblemKind::NoSuchTask, 404));
}

#[tokio::test]
async fn drains_are_called_off() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let controller = controller(&store).await;
    let nodes = [node(1, &store).await, node(2, &store).await];
    let request = VolumeCreate {
        name: "data".to_owned(),
        bytes: 4 << 30,
        policy: Policy::None,
        target: None,
        lun: None,
    };
    controller.create_volume(request).await.unwrap();
    let listed = controller.nodes().await.unwrap().nodes;
    let holder = listed.iter().find(|node| node.replicas == 1).unwrap();
    let leader = &nodes[usize::from(holder.node) - 1];
    leader.serve(1, 1);
    let drain = NodeChange {
        order: NodeOrder::Drain,
        site: None,
    };
    controller.change_node(&holder.name, drain).await.unwrap();
    let id = format!("node-drain~{}", holder.name);
    let task = controller.task(&id).await.unwrap();
    assert_eq!((task.kind, task.can_cancel), (TaskKind::NodeDrain, true));
    assert_eq!(task.bytes_left, Some(1 << 18));
    let progress = |task: &Task| (task.bytes_done, task.bytes_total);
    assert_eq!(progress(&task), (Some(0), Some(1 << 18)));
    // Hosts write on.
    leader.reporter.0.lock().unwrap().slices[0].used_bytes = 3 << 18;
    let task = controller.task(&id).await.unwrap();
    assert_eq!(progress(&task), (Some(0), Some(3 << 18)));
    leader.reporter.0.lock().unwrap().slices[0].used_bytes = 1 << 16;
    let task = controller.task(&id).await.unwrap();
    assert_eq!(progress(&task), (Some(3 << 16), Some(4 << 16)));
    controller.cancel_task(&id).await.unwrap();
    let node = controller.node(&holder.name).await.unwrap().node;
    assert_eq!(node.standing, NodeStanding::Active);
    assert_eq!(controller.tasks().await.unwrap(), []);

    let device = Device {
        number: 3,
        path: "/dev/sdx".to_owned(),
        tier: DeviceTier::Flash,
        state: DeviceState::Draining,
        journal: false,
        journal_room: false,
        is_absent: false,
        bytes: 1 << 40,
        used_bytes: 1 << 30,
        bytes_per_second: 1 << 20,
        seconds_left: Some(1024),
        drain_bytes: Some(3 << 30),
        bad_blocks: 0,
        detached: None,
        latency_p99_us: None,
    };
    leader.reporter.0.lock().unwrap().devices = vec![device];
    let id = format!("device-drain~{}~3", holder.name);
    let task = controller.task(&id).await.unwrap();
    assert_eq!(
        (task.bytes_left, task.seconds_left),
        (Some(1 << 30), Some(1024))
    );
    assert_eq!(progress(&task), (Some(2 << 30), Some(3 << 30)));
    controller.cancel_task(&id).await.unwrap();
    let ordered = leader.reporter.1.lock().unwrap();
    assert_eq!(*ordered, [DeviceChange::Resume { device: 3 }]);
}
