//! Where the tasks of the sockets leave what has happened, for the loop to take in one go.
//!
//! Invariants:
//! - what one task leaves stays in order;
//! - a reader leaves one batch, and waits for the loop to take it before it reads on: what the
//!   engine has not seen is bounded by the number of connections, and by what its owner takes in a turn.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::task::{Context, Poll, Waker};

use tokio::sync::Notify;

/// What has happened, in order, and who waits for it.
pub(crate) struct Inbox<T> {
    items: RefCell<VecDeque<T>>,
    bytes: Cell<usize>,
    bytes_max: usize,
    waker: RefCell<Option<Waker>>,
    taken: Notify,
}

impl<T> Inbox<T> {
    /// One whose readers leave no more in a turn once `bytes_max` are there.
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self {
            items: RefCell::new(VecDeque::new()),
            bytes: Cell::new(0),
            bytes_max,
            waker: RefCell::new(None),
            taken: Notify::new(),
        }
    }

    /// Leaves an item that holds `bytes` of what was read.
    pub(crate) fn push(&self, item: T, bytes: usize) {
        self.items.borrow_mut().push_back(item);
        self.bytes.set(self.bytes.get() + bytes);
        if let Some(waker) = self.waker.borrow_mut().take() {
            waker.wake();
        }
    }

    /// Whether another batch may be read in this turn.
    pub(crate) fn has_room(&self) -> bool {
        self.bytes.get() < self.bytes_max
    }

    /// Waits until the loop has taken everything that is here now; whether there was anything.
    pub(crate) async fn turn(&self) -> bool {
        let is_empty = self.items.borrow().is_empty();
        if !is_empty {
            self.taken.notified().await;
        }
        !is_empty
    }

    /// Takes everything into `taken`, which is empty, and whose room is used for what comes next; `Pending` if there is
    /// nothing, and then the task is woken by the next item.
    pub(crate) fn poll_take(&self, context: &Context<'_>, taken: &mut VecDeque<T>) -> Poll<()> {
        assert!(taken.is_empty(), "what was taken has been looked at");
        std::mem::swap(&mut *self.items.borrow_mut(), taken);
        if taken.is_empty() {
            *self.waker.borrow_mut() = Some(context.waker().clone());
            return Poll::Pending;
        }
        self.bytes.set(0);
        self.taken.notify_waiters();
        Poll::Ready(())
    }
}
