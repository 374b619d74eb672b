//! The time at which the loop turns though nothing has happened.
//!
//! Invariant: it goes off at the time of whoever waits for it now, whatever it was told before.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::time::{Instant, Sleep, sleep_until};

/// One timer of the runtime, for as long as the loop runs.
///
/// Nearly every event puts the next timeout off. A timer that is moved with each is work for each, and where none is set in between
/// a write to the runtime's own descriptor and one more turn of epoll. So it stays where it is until it is due, and is moved only then.
pub(crate) struct Alarm(Pin<Box<Sleep>>);

impl Alarm {
    pub(crate) fn new() -> Self {
        Self(Box::pin(sleep_until(Instant::now())))
    }

    /// Waits until then. What is given up, and waited for anew with another time, costs nothing if that is later.
    pub(crate) async fn until(&mut self, due: Instant) {
        poll_fn(|context| self.poll(context, due)).await;
    }

    fn poll(&mut self, context: &mut Context<'_>, due: Instant) -> Poll<()> {
        let Self(timer) = self;
        if due < timer.deadline() || timer.is_elapsed() {
            timer.as_mut().reset(due);
        }
        while timer.as_mut().poll(context).is_ready() {
            if timer.deadline() >= due {
                return Poll::Ready(());
            }
            timer.as_mut().reset(due);
        }
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    const STEP: Duration = Duration::from_millis(10);

    /// Waits for it and gives up at once, as the loop does when something happens.
    async fn disturb(alarm: &mut Alarm, due: Instant) {
        let waited = timeout(Duration::ZERO, alarm.until(due)).await;
        assert!(waited.is_err(), "it is not due yet");
    }

    #[tokio::test(start_paused = true)]
    async fn it_goes_off_at_the_last_time_that_it_was_told() {
        let start = Instant::now();
        let mut alarm = Alarm::new();
        disturb(&mut alarm, start + STEP).await;
        alarm.until(start + 3 * STEP).await;
        assert_eq!(start.elapsed(), 3 * STEP, "it was put off");
        disturb(&mut alarm, start + 9 * STEP).await;
        alarm.until(start + 4 * STEP).await;
        assert_eq!(start.elapsed(), 4 * STEP, "it was called sooner");
    }

    #[tokio::test(start_paused = true)]
    async fn a_time_that_has_passed_is_now() {
        let start = Instant::now();
        let mut alarm = Alarm::new();
        tokio::time::advance(2 * STEP).await;
        alarm.until(start + STEP).await;
        assert_eq!(start.elapsed(), 2 * STEP);
        alarm.until(start + 3 * STEP).await;
        assert_eq!(start.elapsed(), 3 * STEP);
    }
}
