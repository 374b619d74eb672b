//! Metadata that can be taken away, and come back.

use std::sync::{Arc, Mutex};

use holdfast_metadata::session::Submit;
use holdfast_metadata::{Embedded, Requests, Session, Store};
use holdfast_model::metadata::{MetadataAnswer, MetadataError, MetadataRequest, MetadataToken};
use tokio::sync::mpsc;

/// A store that answers until it is taken away.
pub(crate) struct Away {
    pub(crate) store: Mutex<Option<Requests>>,
    answers: mpsc::Sender<(MetadataToken, MetadataAnswer)>,
}

impl Submit for Away {
    fn submit(&self, token: MetadataToken, request: MetadataRequest) {
        match &*self.store.lock().unwrap() {
            Some(store) => store.submit(token, request),
            None => {
                let failed = MetadataAnswer::Failed(MetadataError::Unavailable);
                self.answers.try_send((token, failed)).unwrap();
            }
        }
    }
}

pub(crate) fn session(store: &Embedded) -> (Session, Arc<Away>) {
    let Session {
        requests,
        answers: mut from,
    } = store.session();
    let (sender, answers) = mpsc::channel(64);
    let brings = sender.clone();
    tokio::spawn(async move {
        while let Some(answer) = from.recv().await {
            brings.send(answer).await.unwrap();
        }
    });
    let away = Arc::new(Away {
        store: Mutex::new(Some(requests)),
        answers: sender,
    });
    let requests = Requests::new(Arc::clone(&away) as Arc<dyn Submit>);
    (Session { requests, answers }, away)
}
