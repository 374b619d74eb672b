//! A lane that waits for the other one of its link.

use std::rc::Rc;

use holdfast_wire::Hello;

use super::{Item, Shared};
use crate::limits::GREETING_TIME_MAX;
use crate::stream::Stream;
use crate::task::Task;

/// One greeted lane; a peer has no more than one.
pub(crate) struct Half {
    pub(crate) hello: Hello,
    pub(crate) stream: Rc<Stream>,
    _expiry: Task,
}

impl Half {
    /// Waits for the other lane, for a while.
    pub(crate) fn new(hello: Hello, stream: Rc<Stream>, shared: &Rc<Shared>) -> Self {
        let shared = Rc::clone(shared);
        let expiry = Task::start(async move {
            tokio::time::sleep(GREETING_TIME_MAX).await;
            shared.inbox.push(Item::HalfExpired(hello), 0);
        });
        Self {
            hello,
            stream,
            _expiry: expiry,
        }
    }

    /// Whether a lane with this hello completes the link.
    pub(crate) fn is_other_lane_of(&self, hello: &Hello) -> bool {
        let sought = Hello {
            lane: self.hello.lane,
            ..*hello
        };
        sought == self.hello && hello.lane != self.hello.lane
    }
}
