//! Who may use volumes, and which units they are, over an embedded store.
#![allow(clippy::unwrap_used, reason = "a test fails so")]

mod support;

use holdfast_api::documents::{
    AccessChange, ChapAccount, InitiatorPut, VolumeAccess, VolumeCreate, VolumeDelete,
};
use holdfast_api::{Api, Precondition, ProblemKind};
use holdfast_model::Policy;
use holdfast_model::record::Secret;

use support::{Node, controller, open};

const HOST: &str = "iqn.2026-11.com.example:host";

fn wanted(name: &str, lun: u16) -> VolumeCreate {
    VolumeCreate {
        name: name.to_owned(),
        bytes: 4096,
        policy: Policy::None,
        target: Some("iqn.2026-11.com.example:shared".to_owned()),
        lun: Some(lun),
    }
}

fn with_secret(secret: &str) -> InitiatorPut {
    let chap = ChapAccount {
        name: "host".to_owned(),
        secret: Secret(secret.to_owned()),
    };
    InitiatorPut {
        chap: Some(chap),
        mutual: None,
    }
}

#[tokio::test]
async fn a_volume_is_given_to_initiators_and_taken_from_them() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let controller = controller(&store).await;
    let _node = Node::start(1, &store).await;
    let created = controller.create_volume(wanted("data", 4)).await.unwrap();
    let everybody = VolumeAccess {
        open: true,
        initiators: Vec::new(),
    };
    assert_eq!(created.volume.access, Some(everybody.clone()));
    let list = controller.volumes().await.unwrap();
    let (target, lun) = (&*list.volumes[0].target, list.volumes[0].lun);
    assert_eq!((target, lun), ("iqn.2026-11.com.example:shared", 4));
    // What cannot be: the unit is taken, the name is none, the number is too high.
    let mut wrong = wanted("other", 4);
    let taken = controller.create_volume(wrong.clone()).await.unwrap_err();
    assert_eq!(taken.kind, ProblemKind::VolumeExists);
    wrong.lun = Some(256);
    let high = controller.create_volume(wrong.clone()).await.unwrap_err();
    assert_eq!(high.kind, ProblemKind::Invalid);
    wrong = wanted("other", 5);
    wrong.target = Some("iqn.shared".to_owned());
    let none = controller.create_volume(wrong).await.unwrap_err();
    assert_eq!(none.kind, ProblemKind::Invalid);

    let allow = AccessChange::Allow(HOST.to_owned());
    let unknown = controller.change_access("data", allow.clone()).await;
    assert_eq!(unknown.unwrap_err().kind, ProblemKind::NoSuchInitiator);
    let short = controller.put_initiator(HOST, with_secret("short")).await;
    assert_eq!(short.unwrap_err().kind, ProblemKind::Invalid);
    let secret = "a secret that nobody tells";
    let initiator = controller.put_initiator(HOST, with_secret(secret)).await;
    assert_eq!(initiator.unwrap().chap_name.as_deref(), Some("host"));
    let volume = controller.change_access("data", allow).await.unwrap();
    let access = volume.access.unwrap();
    assert_eq!(
        (access.open, access.initiators),
        (false, vec![HOST.to_owned()])
    );
    let list = controller.initiators().await.unwrap();
    assert_eq!(list.initiators[0].volumes, ["data"]);
    assert!(!format!("{list:?}").contains(secret));
    let listed = controller
        .remove_initiator(HOST, Precondition::default())
        .await
        .unwrap_err();
    assert_eq!(listed.kind, ProblemKind::Refused);
    // With the volume goes what is kept for it, and its unit is free.
    let unused = VolumeDelete { force: true };
    controller.delete_volume("data", unused).await.unwrap();
    controller
        .remove_initiator(HOST, Precondition::default())
        .await
        .unwrap();
    let created = controller.create_volume(wanted("new", 4)).await.unwrap();
    assert_eq!(created.volume.access, Some(everybody));
}
