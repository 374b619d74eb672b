//! The tests that every store passes, over a [`Session`]. They assert what users of the interface
//! rely on, and nothing that etcd does not give.
//!
//! A store under test may hold other keys, and other users may change them meanwhile: each test
//! works below a prefix of its own.

mod lease;
mod transaction;
pub mod user;
mod watch;

use std::future::Future;

use holdfast_stdx::Duration;

pub use self::user::User;
use crate::session::Session;

/// A store under test.
pub trait Harness {
    /// A new session with the store; always the same store.
    fn session(&mut self) -> impl Future<Output = Session>;

    /// Lets so much of the store's time pass, at least.
    fn pass(&mut self, time: Duration) -> impl Future<Output = ()>;

    /// Makes the store forget the history of all that has happened so far.
    fn compact(&mut self) -> impl Future<Output = ()>;
}

/// Runs every test. Panics where the store does what it must not.
pub async fn run<H: Harness>(harness: &mut H) {
    transaction::run(harness).await;
    watch::run(harness).await;
    lease::run(harness).await;
}
