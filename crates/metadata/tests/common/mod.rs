//! What the tests of the embedded store, and of the interface over TCP, share.

pub(crate) mod etcd;

use std::path::Path;

use holdfast_metadata::suite::{Harness, User};
use holdfast_metadata::{Embedded, HistoryLimits, Session, Store};
use holdfast_model::ClusterId;
use holdfast_stdx::Duration;

pub(crate) const CLUSTER: ClusterId = ClusterId(0xC1);
/// More than any test of the suite needs at a time, little enough to be overrun in moments.
pub(crate) const LIMITS: HistoryLimits = HistoryLimits {
    revisions_max: 300,
    bytes_max: 16 << 20,
};

pub(crate) fn open(folder: &Path) -> Embedded {
    Embedded::open(folder, CLUSTER, LIMITS).expect("the store opens")
}

pub(crate) struct EmbeddedHarness {
    pub(crate) store: Embedded,
}

/// Changes keys until the history of what was before is forgotten.
pub(crate) async fn overrun(session: Session) {
    let mut user = User::new(session);
    for count in 0..=LIMITS.revisions_max {
        user.put("/overrun", &count.to_string()).await;
    }
}

impl Harness for EmbeddedHarness {
    async fn session(&mut self) -> Session {
        self.store.session()
    }

    async fn pass(&mut self, time: Duration) {
        tokio::time::sleep(time).await;
    }

    async fn compact(&mut self) {
        overrun(self.store.session()).await;
    }
}
