//! One path: a session that is made again whenever it ends.
//!
//! Invariants:
//! - a path that is up has a session that was logged in; its end is noticed by the path's task.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use holdfast_iscsi::initiator::EndReason;
use tokio::sync::watch;

use crate::session::{Session, SessionConfig};

#[derive(Debug)]
pub(super) struct Path {
    portal: SocketAddr,
    state: Mutex<State>,
    changed: Arc<watch::Sender<u64>>,
    completed: AtomicU64,
    repeated: AtomicU64,
    timeouts: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    session: Option<Session>,
    logins: u64,
    login_failures: u64,
    last_end: Option<EndReason>,
}

/// What became of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathReport {
    /// Where it leads.
    pub portal: SocketAddr,
    /// Whether it is up.
    pub is_up: bool,
    /// How often it came up.
    pub logins: u64,
    /// How often it did not.
    pub login_failures: u64,
    /// Commands that were carried out.
    pub completed: u64,
    /// Commands that had to be repeated, here or elsewhere.
    pub repeated: u64,
    /// Commands among these that were not answered in time.
    pub timeouts: u64,
    /// Why it went down last.
    pub last_end: Option<EndReason>,
}

impl Path {
    pub(super) fn new(portal: SocketAddr, changed: Arc<watch::Sender<u64>>) -> Self {
        Self {
            portal,
            state: Mutex::default(),
            changed,
            completed: AtomicU64::new(0),
            repeated: AtomicU64::new(0),
            timeouts: AtomicU64::new(0),
        }
    }

    /// The session, while the path is up.
    pub(super) fn session(&self) -> Option<Session> {
        let state = self.state();
        let session = state.session.as_ref()?;
        session.end_reason().is_none().then(|| session.clone())
    }

    pub(super) fn note_completed(&self) {
        self.completed.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn note_repeated(&self) {
        self.repeated.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn note_timeout(&self) {
        self.timeouts.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn report(&self) -> PathReport {
        let is_up = self.session().is_some();
        let state = self.state();
        PathReport {
            portal: self.portal,
            is_up,
            logins: state.logins,
            login_failures: state.login_failures,
            completed: self.completed.load(Ordering::Relaxed),
            repeated: self.repeated.load(Ordering::Relaxed),
            timeouts: self.timeouts.load(Ordering::Relaxed),
            last_end: state.last_end,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state
            .lock()
            .expect("nothing panics with the lock held")
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state());
        self.changed.send_modify(|count| *count += 1);
    }
}

/// Keeps a path up until it is dropped.
pub(super) async fn maintain(path: Arc<Path>, config: SessionConfig, reconnect_after: Duration) {
    loop {
        match Session::connect(config.clone()).await {
            Ok(session) => {
                path.change(|state| {
                    state.logins += 1;
                    state.session = Some(session.clone());
                });
                let reason = session.ended().await;
                path.change(|state| {
                    state.session = None;
                    state.last_end = Some(reason);
                });
            }
            Err(_) => path.change(|state| state.login_failures += 1),
        }
        tokio::time::sleep(reconnect_after).await;
    }
}
