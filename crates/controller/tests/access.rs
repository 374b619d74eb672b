//! Who may use volumes, and which units they are, over an embedded store.

use holdfast_api::documents::{
    AccessChange, ChapAccount, InitiatorPut, LocalMetadata, ReceiverPut, VolumeAccess,
    VolumeCreate, VolumeDelete, WebhookPut,
};
use holdfast_api::{Api, Precondition, ProblemKind};
use holdfast_controller::Controller;
use holdfast_metadata::suite::User;
use holdfast_metadata::{Embedded, Store};
use holdfast_model::Policy;
use holdfast_model::metadata::Selector;
use holdfast_model::record::{
    InitiatorRecord, RECEIVERS_KEY, ReceiverWay, ReceiversRecord, Record, Secret,
};
use holdfast_seal::{Keys, Seal, is_sealed};

use crate::support::{CLUSTER, Node, controller, open};

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

/// What the metadata itself holds of the host.
async fn kept(store: &Embedded) -> InitiatorRecord {
    let mut user = User::new(store.session());
    let key = Selector::Key(InitiatorRecord::key(HOST));
    let (_, found) = user.range(key).await;
    InitiatorRecord::decode(&found[0].value).unwrap()
}

fn keys(present: u8, former: Option<u8>) -> Seal {
    let former = former.map(|it| [it; 32]);
    Seal::with(Some(Keys::new(&[present; 32], former.as_ref())))
}

fn opens_with(node: &Node, seal: &Seal) {
    let key = seal.key_id().map(|key| key.to_string());
    node.reporter.0.lock().unwrap().secrets_key = key;
}

fn with_seal(store: &Embedded, node: &Node, seal: &Seal) -> Controller {
    let report = node.reporter.0.lock().unwrap().clone();
    // The sender is of no use any more: what the node says stays as it is.
    let report = tokio::sync::watch::channel(report).1;
    let controller = Controller::new(CLUSTER, store.session(), Some(report));
    controller.sealing(seal.clone())
}

#[tokio::test]
async fn secrets_are_sealed_once_every_node_opens_them_and_those_of_before_too() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    controller(&store).await;
    let (n1, n2) = (Node::start(1, &store).await, Node::start(2, &store).await);
    let (seal, secret) = (keys(1, None), "a secret that nobody tells");
    opens_with(&n1, &seal);
    n1.reporter.0.lock().unwrap().metadata = LocalMetadata::Followed;
    let first = with_seal(&store, &n1, &seal);
    let chap = |record: &InitiatorRecord| record.chap.as_ref().unwrap().secret.0.clone();
    // One node does not open what is sealed: it is of an earlier version, or has another key.
    first
        .put_initiator(HOST, with_secret(secret))
        .await
        .unwrap();
    assert_eq!(chap(&kept(&store).await), secret);
    opens_with(&n2, &keys(2, None));
    first
        .put_initiator(HOST, with_secret(secret))
        .await
        .unwrap();
    assert_eq!(chap(&kept(&store).await), secret);
    // Then all do, and whoever steers seals what was there.
    opens_with(&n2, &seal);
    let steers = first.steer();
    let sealed = sealed_by(&store, |text| text != secret).await;
    assert!(!sealed.contains(secret) && is_sealed(&sealed), "{sealed}");
    // Whoever has the key sees no difference, and writes nothing for nothing.
    first
        .put_initiator(HOST, with_secret(secret))
        .await
        .unwrap();
    assert_eq!(chap(&kept(&store).await), sealed);
    let told = first.initiators().await.unwrap();
    assert_eq!(told.initiators[0].chap_name.as_deref(), Some("host"));
    assert!(!format!("{told:?}").contains("sealed:"));
    steers.abort();
    // Another one is sealed as it comes.
    let other = "another one that nobody tells";
    first.put_initiator(HOST, with_secret(other)).await.unwrap();
    let before = chap(&kept(&store).await);
    assert!(is_sealed(&before) && before != sealed);
    drop(first);

    // Without its key nothing is dropped, whatever else is changed.
    let anew = keys(3, None);
    opens_with(&n1, &anew);
    opens_with(&n2, &anew);
    let without = with_seal(&store, &n1, &anew);
    without.create_volume(wanted("data", 4)).await.unwrap();
    let allow = AccessChange::Allow(HOST.to_owned());
    without.change_access("data", allow).await.unwrap();
    assert_eq!(chap(&kept(&store).await), before);
    drop(without);
    // With the one of before beside its own, whoever steers seals it anew.
    let both = keys(3, Some(1));
    let steers = with_seal(&store, &n1, &both).steer();
    sealed_by(&store, |text| text != before).await;
    steers.abort();
    let only = with_seal(&store, &n1, &anew);
    let revision = kept(&store).await;
    only.put_initiator(HOST, with_secret(other)).await.unwrap();
    assert_eq!(kept(&store).await, revision, "it is the same secret");
}

#[tokio::test]
async fn a_node_without_its_key_puts_no_secret_on_record_and_others_seal_what_is_plain() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    controller(&store).await;
    let (n1, n2) = (Node::start(1, &store).await, Node::start(2, &store).await);
    let (seal, secret) = (keys(1, None), "a secret that nobody tells");
    opens_with(&n1, &seal);
    opens_with(&n2, &seal);
    n1.reporter.0.lock().unwrap().metadata = LocalMetadata::Followed;
    let first = with_seal(&store, &n1, &seal);
    let other = "iqn.2026-11.com.example:other";
    // Others are sealed already, when one node loses its key.
    first.nodes().await.unwrap();
    first
        .put_initiator(other, with_secret(secret))
        .await
        .unwrap();
    assert!(seal.seals());
    opens_with(&n2, &Seal::without_key());
    let without = with_seal(&store, &n1, &Seal::with(None));
    let refused = without.put_initiator(HOST, with_secret(secret)).await;
    let refused = refused.unwrap_err();
    assert_eq!(refused.kind, ProblemKind::Unavailable);
    assert!(refused.hint.unwrap().contains("secrets.key"));
    // One of an earlier version writes it all the same.
    let earlier = with_seal(&store, &n1, &Seal::without_key());
    earlier
        .put_initiator(HOST, with_secret(secret))
        .await
        .unwrap();
    assert_eq!(kept(&store).await.chap.unwrap().secret.0, secret);
    drop((without, earlier));
    let steers = first.steer();
    let sealed = sealed_by(&store, |text| text != secret).await;
    assert!(is_sealed(&sealed), "{sealed}");
    steers.abort();
}

/// What the metadata itself holds of where a receiver is told.
async fn url_of(store: &Embedded) -> (String, String) {
    let mut user = User::new(store.session());
    let (_, found) = user.range(Selector::Key(RECEIVERS_KEY.into())).await;
    let record = ReceiversRecord::decode(&found[0].value).unwrap();
    match &record.receivers["chat"].way {
        ReceiverWay::Webhook { url, secret } => (url.clone(), secret.clone().unwrap().0),
        ReceiverWay::Mail { .. } => panic!("it is a webhook"),
    }
}

/// That, when it is as it is waited for.
async fn url_when(store: &Embedded, is: impl Fn(&(String, String)) -> bool) -> (String, String) {
    let waited = async {
        loop {
            let found = url_of(store).await;
            if is(&found) {
                return found;
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    let patience = std::time::Duration::from_secs(60);
    tokio::time::timeout(patience, waited).await.unwrap()
}

/// While a cluster is upgraded there are nodes that open secrets, and no URLs.
#[tokio::test]
async fn urls_of_webhooks_are_sealed_once_every_node_opens_those() {
    const URL: &str = "https://hooks.example.com/services/T0/token";
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    controller(&store).await;
    let (n1, n2) = (Node::start(1, &store).await, Node::start(2, &store).await);
    let seal = keys(1, None);
    for node in [&n1, &n2] {
        opens_with(node, &seal);
    }
    n1.reporter.0.lock().unwrap().secrets_form = Some(holdfast_seal::FORM);
    let first = with_seal(&store, &n1, &seal);
    let put = ReceiverPut {
        webhook: Some(WebhookPut {
            url: URL.to_owned(),
            secret: Some(Secret("a secret that nobody tells".to_owned())),
        }),
        ..ReceiverPut::default()
    };
    first.nodes().await.unwrap();
    first.put_receiver("chat", put.clone()).await.unwrap();
    let (url, secret) = url_of(&store).await;
    assert!(url == URL && is_sealed(&secret), "{url} {secret}");
    // One of an earlier version writes both plainly, and whoever steers seals the one that every node opens.
    let earlier = with_seal(&store, &n1, &Seal::without_key());
    earlier.put_receiver("chat", put.clone()).await.unwrap();
    drop(earlier);
    let (url, secret) = url_of(&store).await;
    assert!(url == URL && !is_sealed(&secret), "{url} {secret}");
    let steers = first.steer();
    let (url, _) = url_when(&store, |(_, secret)| is_sealed(secret)).await;
    assert_eq!(url, URL, "it was looked at, and left");
    n2.reporter.0.lock().unwrap().secrets_form = Some(holdfast_seal::FORM);
    url_when(&store, |(url, _)| is_sealed(url)).await;
    steers.abort();
    let shown = |controller: Controller| async move {
        let receivers = controller.receivers().await.unwrap().receivers;
        receivers[0].webhook.clone().unwrap().url
    };
    assert_eq!(shown(first.clone()).await, URL);
    // The secret stays for the same place.
    let same = WebhookPut {
        url: URL.to_owned(),
        secret: None,
    };
    let same = ReceiverPut {
        webhook: Some(same),
        ..put.clone()
    };
    let stays = first.put_receiver("chat", same).await.unwrap();
    assert!(stays.webhook.unwrap().is_signed);
    // Who cannot open it tells nobody, and says why.
    let other = with_seal(&store, &n1, &keys(2, None));
    assert_eq!(shown(other.clone()).await, "(sealed)");
    let refused = other.test_receiver("chat").await.unwrap_err();
    assert_eq!(refused.kind, ProblemKind::Undelivered);
    // And one that has lost its key puts none on record.
    let without = with_seal(&store, &n1, &Seal::with(None));
    let refused = without.put_receiver("chat", put).await.unwrap_err();
    assert_eq!(refused.kind, ProblemKind::Unavailable);
    assert!(is_sealed(&url_of(&store).await.0));
}

/// It may have the former key only, and must open what is written meanwhile when it is back.
#[tokio::test]
async fn a_node_that_does_not_answer_keeps_the_former_key_in_use() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    controller(&store).await;
    let (n1, n2) = (Node::start(1, &store).await, Node::start(2, &store).await);
    let (former, present) = (keys(1, None), keys(3, Some(1)));
    // Its key was changed, and so was that of the other, which then fell silent.
    opens_with(&n1, &present);
    opens_with(&n2, &present);
    let controller = with_seal(&store, &n1, &present);
    n2.server.abort();
    let is_with = async |seal: &Seal, secret: &str| {
        controller.nodes().await.unwrap();
        controller
            .put_initiator(HOST, with_secret(secret))
            .await
            .unwrap();
        let text = kept(&store).await.chap.unwrap().secret.0;
        let key = seal.key_id().unwrap().to_string();
        text.starts_with(&format!("sealed:1:{key}:"))
    };
    // Nothing is sealed before all have said what they open; what is sealed from then on has the former key.
    assert!(!is_with(&present, "a secret of one hour").await);
    present.begin();
    assert!(is_with(&former, "a secret of another").await);
    // It is back, with the present one.
    let back = Node::start(2, &store).await;
    opens_with(&back, &present);
    assert!(is_with(&present, "a secret of a third").await);
}

/// What is kept of the host's secret, when that is as it is waited for.
async fn sealed_by(store: &Embedded, is: impl Fn(&str) -> bool) -> String {
    let waited = async {
        loop {
            let text = kept(store).await.chap.unwrap().secret.0;
            if is(&text) {
                return text;
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    let patience = std::time::Duration::from_secs(40);
    tokio::time::timeout(patience, waited).await.unwrap()
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

/// All at once they are told what each by itself is told, in the order of names, and not of volumes' ids.
#[tokio::test]
async fn initiators_are_listed_with_the_volumes_that_each_may_use() {
    const OTHER: &str = "iqn.2026-11.example:other";
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let controller = controller(&store).await;
    let _node = Node::start(1, &store).await;
    for name in [HOST, OTHER] {
        let put = controller.put_initiator(name, InitiatorPut::default());
        put.await.unwrap();
    }
    for (lun, (volume, initiators)) in [
        ("web", &[HOST, OTHER][..]),
        ("data", &[HOST][..]),
        ("open", &[][..]),
    ]
    .into_iter()
    .enumerate()
    {
        let created = controller.create_volume(wanted(volume, lun as u16));
        created.await.unwrap();
        for initiator in initiators {
            let allow = AccessChange::Allow((*initiator).to_owned());
            controller.change_access(volume, allow).await.unwrap();
        }
    }
    let list = controller.initiators().await.unwrap().initiators;
    let told: Vec<_> = list.iter().map(|it| (&*it.name, &it.volumes[..])).collect();
    let (data, web) = ("data".to_owned(), "web".to_owned());
    assert_eq!(
        told,
        [(HOST, &[data, web.clone()][..]), (OTHER, &[web][..])]
    );
    for listed in &list {
        assert_eq!(&controller.initiator(&listed.name).await.unwrap(), listed);
    }
}
