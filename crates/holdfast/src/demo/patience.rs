//! Waiting for a metadata store that is slow: etcd on a busy machine, or on a slow disk.
//!
//! It refuses to wait for a store in this process: that answers, or has failed for good.
//!
//! Invariant: what is repeated may be done twice without harm.

use std::path::PathBuf;
use std::time::Duration;

use holdfast_api::{Problem, ProblemKind};
use tokio::time::{Instant, sleep};

use crate::failure::Failure;

/// How long the metadata may be without an answer. An etcd that elects its leader anew, or waits for its disk, takes
/// seconds.
const PATIENCE: Duration = Duration::from_secs(60);
/// Between two attempts.
const PAUSE: Duration = Duration::from_millis(250);

/// How a demo waits for its metadata.
#[derive(Clone, Debug)]
pub(super) struct Patience {
    /// The log of the etcd that is waited for, if there is one.
    log: Option<PathBuf>,
}

impl Patience {
    pub(super) fn new(log: Option<PathBuf>) -> Self {
        Self { log }
    }

    /// Does it again until the metadata answers, or it has been waited for long enough. `what` says what for.
    pub(super) async fn wait<T>(
        &self,
        what: &str,
        mut attempt: impl AsyncFnMut() -> Result<T, Problem>,
    ) -> Result<T, Failure> {
        let begun = Instant::now();
        loop {
            let problem = match attempt().await {
                Ok(done) => return Ok(done),
                Err(problem) => problem,
            };
            let log = self.log.as_ref();
            let Some(log) = log.filter(|_| problem.kind == ProblemKind::Unavailable) else {
                return Err(problem.into());
            };
            if begun.elapsed() >= PATIENCE {
                let seconds = PATIENCE.as_secs();
                let detail = &problem.detail;
                return Err(Failure::new(format!(
                    "waited {seconds} s for the demo's etcd, {what}: {detail}"
                ))
                .hint(format!(
                    "etcd's log, {}, says what it does; started again, the demo goes on where it was",
                    log.display()
                )));
            }
            sleep(PAUSE).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn away() -> Problem {
        Problem::new(ProblemKind::Unavailable, "nobody answers")
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_etcd_is_waited_for() {
        let patience = Patience::new(Some("/demo/etcd/etcd.log".into()));
        let mut times = 0;
        let slow = async || {
            times += 1;
            if times < 100 { Err(away()) } else { Ok(times) }
        };
        assert_eq!(patience.wait("to begin", slow).await.unwrap(), 100);
        let begun = Instant::now();
        let never = patience.wait("to begin", async || Err::<(), _>(away()));
        let failure = never.await.unwrap_err().to_string();
        assert!(begun.elapsed() >= PATIENCE);
        let told = "waited 60 s for the demo's etcd, to begin: nobody answers";
        assert!(failure.starts_with(told), "{failure}");
        assert!(failure.contains("/demo/etcd/etcd.log"), "{failure}");
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_no_matter_of_time_is_not_waited_for() {
        let etcd = Patience::new(Some("/demo/etcd/etcd.log".into()));
        let begun = Instant::now();
        let full = async || Err::<(), _>(Problem::new(ProblemKind::ClusterFull, "full"));
        let failure = etcd.wait("", full).await.unwrap_err();
        assert_eq!(&*failure.problem().detail, "full");
        let here = Patience::new(None);
        here.wait("", async || Err::<(), _>(away()))
            .await
            .unwrap_err();
        assert_eq!(begun.elapsed(), Duration::ZERO);
    }
}
