//! Metadata that goes back under a controller: nothing is changed in it.

use std::sync::{Arc, Mutex};

use holdfast_api::documents::{SettingsChange, VolumeCreate};
use holdfast_api::{Api, ProblemKind};
use holdfast_controller::Controller;
use holdfast_metadata::session::Submit;
use holdfast_metadata::suite::User;
use holdfast_metadata::{Embedded, Requests, Session, Store};
use holdfast_model::Policy;
use holdfast_model::metadata::{
    MetadataAnswer, MetadataRequest, MetadataToken, Operation, Revision, Selector,
};
use tokio::sync::mpsc;

use crate::support::{CLUSTER, Node, controller, open};

/// A session with one store, and then with another.
struct Switch(Mutex<Requests>);

impl Submit for Switch {
    fn submit(&self, token: MetadataToken, request: MetadataRequest) {
        self.0.lock().unwrap().submit(token, request);
    }
}

/// Brings the answers of a session to whoever reads all of them.
fn bring(session: Session, answers: mpsc::Sender<(MetadataToken, MetadataAnswer)>) -> Requests {
    let Session {
        requests,
        answers: mut from,
    } = session;
    tokio::spawn(async move {
        while let Some(answer) = from.recv().await {
            answers.send(answer).await.unwrap();
        }
    });
    requests
}

async fn revision(store: &Embedded) -> Revision {
    let all = Operation::Range(Selector::Prefix("/holdfast/".into()));
    User::new(store.session()).perform(all).await.0
}

#[tokio::test]
async fn nothing_is_changed_in_metadata_that_has_gone_back() {
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let [newer, older] = folders.each_ref().map(|folder| open(folder.path()));
    // Both hold the cluster and its node; one has seen more.
    for store in [&newer, &older] {
        controller(store).await;
        Node::start(1, store).await;
    }
    let (sender, answers) = mpsc::channel(16);
    let switch = Arc::new(Switch(Mutex::new(bring(newer.session(), sender.clone()))));
    let session = Session {
        requests: Requests::new(Arc::clone(&switch) as Arc<dyn Submit>),
        answers,
    };
    let controller = Controller::new(CLUSTER, session, None);
    let delay = |seconds| SettingsChange {
        repair_delay_seconds: Some(seconds),
        ..SettingsChange::default()
    };
    for seconds in [100, 200, 300] {
        controller.change_settings(delay(seconds)).await.unwrap();
    }
    controller.settings().await.unwrap();
    *switch.0.lock().unwrap() = bring(older.session(), sender);
    let before = revision(&older).await;
    assert!(before < revision(&newer).await);

    let steering = controller.steer();
    let refused = controller.change_settings(delay(400)).await.unwrap_err();
    assert_eq!(refused.kind, ProblemKind::Unavailable);
    assert!(refused.detail.contains("gone back"), "{}", refused.detail);
    let request = VolumeCreate {
        name: "a".to_owned(),
        bytes: 4 << 30,
        policy: Policy::None,
        target: None,
        lun: None,
    };
    assert!(controller.create_volume(request).await.is_err());
    steering.abort();
    assert_eq!(
        revision(&older).await,
        before,
        "nobody has changed anything"
    );
}
