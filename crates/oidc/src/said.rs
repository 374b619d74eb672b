//! What a provider has said of itself, and asking it anew.
//!
//! It refuses to let one who logs in wait for the question of another longer than for his own: the question goes on by itself,
//! whoever waits for it or has gone.
//!
//! Invariants:
//! - one question at a time, however many want to know;
//! - a provider that fails is left alone for [`FAILED_PAUSE`];
//! - where something was said before, that counts on as long as nothing newer is said: who may wait no longer goes on with it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use crate::error::ProviderError;

/// How long a provider is left alone that has just failed.
pub(crate) const FAILED_PAUSE: Duration = Duration::from_secs(5);

/// Something of which the provider is asked now and then.
#[derive(Debug)]
pub(crate) struct Said<T> {
    what: &'static str,
    held: Mutex<Held<T>>,
    /// Tells those who wait that a question has ended.
    ended: watch::Sender<()>,
}

/// Something, and since when.
type Since<T> = Option<(Arc<T>, Instant)>;

#[derive(Debug)]
struct Held<T> {
    last: Since<T>,
    failed: Since<ProviderError>,
    is_asking: bool,
}

impl<T: Send + Sync + 'static> Said<T> {
    pub(crate) fn new(what: &'static str) -> Self {
        Self {
            what,
            held: Mutex::new(Held {
                last: None,
                failed: None,
                is_asking: false,
            }),
            ended: watch::Sender::new(()),
        }
    }

    /// What was said, and not longer ago than that. If it was, `ask` asks anew; that is waited for as long as `patience` says where
    /// something was said before, and else to its end.
    pub(crate) async fn since<F>(
        self: &Arc<Self>,
        age_max: Duration,
        patience: Duration,
        ask: impl FnOnce() -> F,
    ) -> Result<Arc<T>, Arc<ProviderError>>
    where
        F: Future<Output = Result<T, ProviderError>> + Send + 'static,
    {
        // Before it is looked whether somebody asks: no end is missed.
        let mut ended = self.ended.subscribe();
        let has_last = {
            let mut held = self.held();
            if let Some(last) = younger(&held.last, age_max) {
                return Ok(last);
            }
            if younger(&held.failed, FAILED_PAUSE).is_some() {
                return self.counts(&held);
            }
            if !held.is_asking {
                held.is_asking = true;
                let (question, asked) = (Question(Arc::clone(self)), ask());
                tokio::spawn(async move { question.settle(asked.await) });
            }
            held.last.is_some()
        };
        if has_last {
            // Whether it has ended or not, what is there then counts.
            let _ = timeout(patience, ended.changed()).await;
        } else {
            let _ = ended.changed().await;
        }
        self.counts(&self.held())
    }

    /// What counts now.
    fn counts(&self, held: &Held<T>) -> Result<Arc<T>, Arc<ProviderError>> {
        match (&held.last, &held.failed) {
            (Some((last, _)), _) => Ok(Arc::clone(last)),
            (None, Some((error, _))) => Err(Arc::clone(error)),
            // The question did not come to its end.
            (None, None) => Err(Arc::new(ProviderError::Unreadable { what: self.what })),
        }
    }

    fn held(&self) -> MutexGuard<'_, Held<T>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A question under way. Whatever becomes of it, there can be another one afterwards.
struct Question<T: Send + Sync + 'static>(Arc<Said<T>>);

impl<T: Send + Sync + 'static> Question<T> {
    /// Keeps what was read. That nothing was is told once for all who wait.
    fn settle(self, read: Result<T, ProviderError>) {
        let now = Instant::now();
        let mut held = self.0.held();
        match read {
            Ok(what) => held.last = Some((Arc::new(what), now)),
            Err(error) => {
                tracing::warn!("a login by OIDC: {error}");
                held.failed = Some((Arc::new(error), now));
            }
        }
    }
}

impl<T: Send + Sync + 'static> Drop for Question<T> {
    fn drop(&mut self) {
        self.0.held().is_asking = false;
        self.0.ended.send_replace(());
    }
}

/// What was said, if that is not as long ago.
fn younger<T>(since: &Since<T>, age_max: Duration) -> Option<Arc<T>> {
    let (what, at) = since.as_ref()?;
    (at.elapsed() < age_max).then(|| Arc::clone(what))
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);
    const SECOND: Duration = Duration::from_secs(1);

    async fn known() -> Arc<Said<u8>> {
        let said = Arc::new(Said::new("a number"));
        let first = said.since(HOUR, SECOND, || async { Ok(1) }).await;
        assert_eq!(*first.unwrap(), 1);
        said
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_answer_keeps_nobody_waiting_who_has_an_earlier_one() {
        let said = known().await;
        tokio::time::advance(HOUR).await;
        let slow = || async {
            tokio::time::sleep(9 * SECOND).await;
            Ok(2)
        };
        let begun = Instant::now();
        for _ in 0..3 {
            assert_eq!(*said.since(HOUR, SECOND, slow).await.unwrap(), 1);
        }
        assert_eq!(begun.elapsed(), 3 * SECOND);
        // It was not given up, and there was one question.
        tokio::time::sleep(6 * SECOND).await;
        let never = || pending::<Result<u8, ProviderError>>();
        assert_eq!(*said.since(HOUR, SECOND, never).await.unwrap(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn who_has_nothing_waits_and_a_failure_is_everybodys() {
        let said = Arc::new(Said::<u8>::new("a number"));
        let ask = |pause: u32, what: &'static str| {
            let said = Arc::clone(&said);
            async move {
                let asked = move || async move {
                    tokio::time::sleep(pause * SECOND).await;
                    Err(ProviderError::Unreadable { what })
                };
                said.since(HOUR, SECOND, asked)
                    .await
                    .unwrap_err()
                    .to_string()
            }
        };
        let begun = Instant::now();
        let (one, other) = tokio::join!(ask(9, "first"), ask(0, "second"));
        assert!(one.starts_with("first"), "{one}");
        assert_eq!(one, other);
        assert_eq!(begun.elapsed(), 9 * SECOND);
        assert!(ask(0, "third").await.starts_with("first"), "left alone");
        tokio::time::advance(FAILED_PAUSE).await;
        assert!(ask(0, "fourth").await.starts_with("fourth"));
    }
}
