//! Sessions as paths to volumes, and reservations, over an embedded store.

use holdfast_api::documents::{LocalSession, PathState, ReservationType, VolumeCreate};
use holdfast_api::{Api, ProblemKind};
use holdfast_metadata::Store as _;
use holdfast_metadata::suite::User;
use holdfast_model::metadata::Operation;
use holdfast_model::record::{
    AccessNexus, AccessRecord, Isid, Record, Registration, Reservation, ReservationKind,
};
use holdfast_model::{NodeId, Policy, VolumeId};

use crate::support::{Node, controller, open};

const HOST: &str = "iqn.2026-11.com.example:host";
const OTHER: &str = "iqn.2026-11.com.example:other";

fn wanted(name: &str, lun: u16) -> VolumeCreate {
    VolumeCreate {
        name: name.to_owned(),
        bytes: 4096,
        policy: Policy::None,
        target: Some("iqn.2026-11.com.example:shared".to_owned()),
        lun: Some(lun),
    }
}

fn session(initiator: &str, target: &str) -> LocalSession {
    LocalSession {
        target: target.to_owned(),
        initiator: initiator.to_owned(),
        isid: "00023d000001".to_owned(),
        tsih: 5,
        address: "192.0.2.7:51234".to_owned(),
        since_ms: 1_000,
        commands: 3,
        chap: true,
        ..LocalSession::default()
    }
}

#[tokio::test]
async fn sessions_are_paths_to_the_volumes_that_their_initiators_may_use() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let controller = controller(&store).await;
    let first = Node::start(1, &store).await;
    let second = Node::start(2, &store).await;
    for (name, lun) in [("data", 0), ("log", 1)] {
        controller.create_volume(wanted(name, lun)).await.unwrap();
    }
    let list = controller.volumes().await.unwrap();
    let data = list.volumes.iter().find(|it| it.name == "data").unwrap();
    let (id, target) = (data.volume, data.target.clone());
    for node in [&first, &second] {
        node.serve(id, 1);
        let mut report = node.reporter.0.lock().unwrap();
        report.volumes[0].path = Some(PathState::ActiveNonOptimized);
        report.sessions = vec![session(HOST, &target), session(OTHER, "iqn.another")];
    }
    let sessions = controller.volume_sessions("data").await.unwrap();
    let portals: Vec<_> = sessions.sessions.iter().map(|it| &*it.portal).collect();
    assert_eq!(portals, ["n1", "n2"]);
    assert!(sessions.silent.is_empty());
    let local: u32 = sessions.sessions.iter().map(|it| it.slices_local).sum();
    assert_eq!((local, sessions.sessions[0].slices), (1, 1), "one has it");
    let path = &sessions.sessions[0];
    assert_eq!(path.state, Some(PathState::ActiveNonOptimized));
    assert_eq!((path.tsih, path.commands, path.chap), (5, 3, true));
    assert_eq!(path.address, "192.0.2.7:51234");
    // The session is a path to both units, and of the second no state is known.
    let of_host = controller.initiator_sessions(HOST).await.unwrap();
    let volumes: Vec<_> = of_host.sessions.iter().map(|it| &*it.volume).collect();
    assert_eq!(volumes, ["data", "data", "log", "log"]);
    assert_eq!(of_host.sessions[2].state, None);
    // A session with a target that no volume has is a path to none.
    let of_other = controller.initiator_sessions(OTHER).await.unwrap();
    assert!(of_other.sessions.is_empty());
    // Each is told once, whatever it is a path to.
    let of_all = controller.sessions().await.unwrap();
    let told = of_all.sessions.iter();
    let told: Vec<_> = told.map(|it| (&*it.initiator, &*it.portal)).collect();
    assert_eq!(
        told,
        [(HOST, "n1"), (HOST, "n2"), (OTHER, "n1"), (OTHER, "n2")]
    );
    let one = &of_all.sessions[2];
    assert_eq!(
        (&*one.target, one.tsih, one.commands),
        ("iqn.another", 5, 3)
    );
    assert!(of_all.silent.is_empty());
    // Who does not answer is named.
    second.server.abort();
    let sessions = controller.volume_sessions("data").await.unwrap();
    assert_eq!(
        (sessions.sessions.len(), &*sessions.silent),
        (1, &["n2".to_owned()][..])
    );
    let of_all = controller.sessions().await.unwrap();
    assert_eq!(
        (of_all.sessions.len(), of_all.silent),
        (2, vec!["n2".to_owned()])
    );
    let gone = controller.volume_sessions("gone").await.unwrap_err();
    assert_eq!(gone.kind, ProblemKind::NoSuchVolume);
}

#[tokio::test]
async fn reservations_tell_who_is_registered_and_who_holds() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let controller = controller(&store).await;
    let _node = Node::start(1, &store).await;
    controller.create_volume(wanted("data", 0)).await.unwrap();
    let list = controller.volumes().await.unwrap();
    let volume = VolumeId(list.volumes[0].volume);
    let none = controller.reservations("data").await.unwrap();
    assert!(none.reservation.is_none() && none.registrations.is_empty());
    let nexus = |initiator: &str| AccessNexus {
        initiator: initiator.to_owned(),
        isid: Isid([0, 2, 0x3d, 0, 0, 1]),
        port: NodeId(1),
    };
    let registration = |initiator: &str, key| Registration {
        nexus: nexus(initiator),
        key,
        all_target_ports: false,
    };
    let mut record = AccessRecord {
        generation: 4,
        persists: true,
        registrations: vec![registration(HOST, 0xabc), registration(OTHER, 1)],
        reservation: Some(Reservation {
            kind: ReservationKind::WriteExclusiveRegistrantsOnly,
            holder: Some(nexus(OTHER)),
        }),
        ..AccessRecord::open(volume)
    };
    let put = |record: &AccessRecord| Operation::put(AccessRecord::key(volume), record.encode());
    let mut user = User::new(store.session());
    user.perform(put(&record)).await;
    let told = controller.reservations("data").await.unwrap();
    assert_eq!((told.generation, told.persists), (4, true));
    let held = told.reservation.unwrap();
    assert_eq!(held.kind, ReservationType::WriteExclusiveRegistrantsOnly);
    assert_eq!(
        (held.code, held.holder.unwrap().initiator.as_str()),
        (5, OTHER)
    );
    let keys = told.registrations.iter();
    let keys: Vec<_> = keys
        .map(|it| (&*it.key, &*it.nexus.portal, it.holder))
        .collect();
    assert_eq!(keys, [("0xabc", "n1", false), ("0x1", "n1", true)]);
    assert_eq!(told.registrations[0].nexus.isid, "00023d000001");
    // Where all who are registered hold it, each of them does.
    record.reservation = Some(Reservation {
        kind: ReservationKind::ExclusiveAccessAllRegistrants,
        holder: None,
    });
    user.perform(put(&record)).await;
    let told = controller.reservations("data").await.unwrap();
    assert_eq!(told.reservation.unwrap().code, 8);
    assert!(told.registrations.iter().all(|it| it.holder));
}
