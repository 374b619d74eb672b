//! Requests as futures, over one session with the metadata. Secrets are sealed on their way there, and opened on their way back.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use holdfast_metadata::{Answers, Requests, Session};
use holdfast_model::metadata::{
    MetadataAnswer, MetadataError, MetadataRequest, MetadataToken, Transaction, TransactionOutcome,
};
use holdfast_seal::Seal;
use tokio::sync::oneshot;

/// Who waits for an answer; nobody can any more when the session has ended.
type Waiting = Arc<Mutex<Option<BTreeMap<MetadataToken, oneshot::Sender<MetadataAnswer>>>>>;

#[derive(Debug)]
pub(crate) struct Desk {
    requests: Requests,
    token_last: AtomicU64,
    waiting: Waiting,
    /// What seals secrets; until it is said, nothing does.
    seal: OnceLock<Seal>,
}

impl Desk {
    /// Must be called within a tokio runtime. The session ends with the desk.
    pub(crate) fn start(session: Session) -> Self {
        let Session { requests, answers } = session;
        let waiting = Waiting::new(Mutex::new(Some(BTreeMap::new())));
        tokio::spawn(hand_out(answers, Arc::clone(&waiting)));
        Self {
            requests,
            token_last: AtomicU64::new(0),
            waiting,
            seal: OnceLock::new(),
        }
    }

    /// From now on this seals secrets; the first one that is said stays.
    pub(crate) fn seal_with(&self, seal: Seal) {
        drop(self.seal.set(seal));
    }

    /// What seals secrets.
    pub(crate) fn seal(&self) -> Option<&Seal> {
        self.seal.get()
    }

    pub(crate) async fn transact(
        &self,
        transaction: Transaction,
    ) -> Result<TransactionOutcome, MetadataError> {
        match self.ask(MetadataRequest::Transact(transaction)).await {
            MetadataAnswer::Transacted(outcome) => Ok(outcome),
            MetadataAnswer::Failed(error) => Err(error),
            // The store answers a question that was not asked.
            _ => Err(MetadataError::Unavailable),
        }
    }

    /// Asks for anything but a watch. Without an answer it may have been done.
    pub(crate) async fn ask(&self, mut request: MetadataRequest) -> MetadataAnswer {
        let Some(seal) = self.seal.get() else {
            return self.ask_as_is(request).await;
        };
        seal.close(&mut request);
        let mut answer = self.ask_as_is(request).await;
        seal.open(&mut answer);
        answer
    }

    /// The same with what is sealed as it is.
    pub(crate) async fn ask_as_is(&self, request: MetadataRequest) -> MetadataAnswer {
        let token = MetadataToken(self.token_last.fetch_add(1, Ordering::Relaxed) + 1);
        let (sender, answer) = oneshot::channel();
        match &mut *self.waiting.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(waiting) => waiting.insert(token, sender),
            None => return MetadataAnswer::Failed(MetadataError::Unavailable),
        };
        self.requests.submit(token, request);
        // The session may have ended.
        let answer = answer.await;
        answer.unwrap_or(MetadataAnswer::Failed(MetadataError::Unavailable))
    }
}

async fn hand_out(mut answers: Answers, waiting: Waiting) {
    while let Some((token, answer)) = answers.recv().await {
        let sender = match &mut *waiting.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(waiting) => waiting.remove(&token),
            None => None,
        };
        if let Some(sender) = sender {
            // Whoever has stopped waiting does not miss it.
            let _ = sender.send(answer);
        }
    }
    *waiting.lock().unwrap_or_else(PoisonError::into_inner) = None;
}
