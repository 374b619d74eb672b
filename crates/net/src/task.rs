//! A task that ends with its owner.

use std::future::Future;

use tokio::task::JoinHandle;

/// Dropping it ends the task where it waits.
pub(crate) struct Task(JoinHandle<()>);

impl Task {
    /// Starts `future` on this thread's runtime.
    pub(crate) fn start(future: impl Future<Output = ()> + 'static) -> Self {
        Self(tokio::task::spawn_local(future))
    }

    /// Waits until the task has ended by itself.
    pub(crate) async fn ended(mut self) {
        // A task that panicked has ended too; the panic was reported where it happened.
        drop((&mut self.0).await);
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}
