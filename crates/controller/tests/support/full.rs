//! Metadata that takes no change while it is full.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use holdfast_metadata::session::Submit;
use holdfast_metadata::{Embedded, Requests, Session, Store};
use holdfast_model::metadata::{
    MetadataAnswer, MetadataError, MetadataRequest, MetadataToken, Operation,
};
use tokio::sync::mpsc;

/// A store that has room until it is full.
pub(crate) struct Full {
    inner: Requests,
    answers: mpsc::Sender<(MetadataToken, MetadataAnswer)>,
    pub(crate) is_full: AtomicBool,
    /// How many changes it has refused.
    pub(crate) refused: AtomicU32,
}

impl Submit for Full {
    fn submit(&self, token: MetadataToken, request: MetadataRequest) {
        let puts = match &request {
            MetadataRequest::Transact(transaction) => {
                let mut operations = transaction.success.iter();
                operations.any(|operation| matches!(operation, Operation::Put { .. }))
            }
            _ => false,
        };
        if !puts || !self.is_full.load(Ordering::Relaxed) {
            return self.inner.submit(token, request);
        }
        self.refused.fetch_add(1, Ordering::Relaxed);
        let answer = MetadataAnswer::Failed(MetadataError::Full);
        self.answers.try_send((token, answer)).unwrap();
    }
}

pub(crate) fn session(store: &Embedded) -> (Session, Arc<Full>) {
    let Session {
        requests,
        answers: mut told,
    } = store.session();
    let (sender, answers) = mpsc::channel(64);
    let full = Arc::new(Full {
        inner: requests,
        answers: sender.clone(),
        is_full: AtomicBool::new(false),
        refused: AtomicU32::new(0),
    });
    tokio::spawn(async move {
        while let Some(one) = told.recv().await {
            if sender.send(one).await.is_err() {
                return;
            }
        }
    });
    let requests = Requests::new(Arc::clone(&full) as Arc<dyn Submit>);
    (Session { requests, answers }, full)
}
