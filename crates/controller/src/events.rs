//! What changes, told to those who listen, by comparing what one look after the other sees. What is told to those who ask later is
//! put down by whoever steers ([`chronicle`]), who goes on where the one before has ended ([`taking_up`]), in a log ([`log`]) of which others have copies ([`copying`]).
//!
//! Nobody looks for listeners before somebody listens; then there is one look a second, however many do, and some minutes longer than
//! the last of them stays, so that whoever comes back misses nothing.
//!
//! Invariants:
//! - so many listen at most, and so many events are kept;
//! - nobody waits for a listener: one that is too slow is told nothing more;
//! - whoever has missed what is not kept is told that.

mod chronicle;
mod copying;
mod log;
mod memory;
mod of_all;
#[cfg(test)]
mod sample;
mod taking_up;
mod witness;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use holdfast_api::documents::{Event, EventKind, EventSeverity};
use holdfast_api::events::{Listener, Teller};
use holdfast_api::{Problem, ProblemKind};
use tokio::time::Instant;

use crate::Controller;
use crate::alarms::alarm_changes;
use crate::clock::unix_ms;
use crate::view::{Change, Snapshot};

pub(crate) use self::chronicle::Chronicle;
pub use self::log::{EVENTS_FILE, EventLog};
pub(crate) use self::witness::Witness;

/// Listeners of one node at a time: an eighth of the connections that the interface takes.
pub const LISTENERS_MAX: usize = 16;
/// Events that are kept for those who come back: more than one look can find where a node with a replica of every volume is lost.
const KEPT_MAX: usize = 4096;
/// Between two looks.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// For how long it is looked when nobody listens any more.
const LINGER: Duration = Duration::from_secs(300);

/// The events of one process.
#[derive(Debug, Default)]
pub(crate) struct Events(Mutex<Log>);

#[derive(Debug, Default)]
struct Log {
    /// Names this watch: ids of another one, or of another node, mean nothing here. Zero as long as nobody watches.
    watch: u64,
    /// Events of this watch until now.
    told: u64,
    kept: VecDeque<Arc<Event>>,
    listeners: Vec<Teller>,
}

impl Log {
    fn event(&self, number: u64, change: Change) -> Arc<Event> {
        let Change {
            kind,
            severity,
            subject,
            detail,
        } = change;
        Arc::new(Event {
            id: format!("{:x}-{number}", self.watch),
            at_ms: unix_ms(),
            kind,
            severity,
            subject,
            detail,
            not_before_ms: None,
        })
    }

    fn tell(&mut self, change: Change) {
        self.told += 1;
        let event = self.event(self.told, change);
        self.listeners.retain(|listener| listener.tell(&event));
        if self.kept.len() >= KEPT_MAX {
            self.kept.pop_front();
        }
        self.kept.push_back(event);
    }

    /// What is told first to somebody who has heard this last.
    fn missed(&self, last: Option<&str>) -> VecDeque<Arc<Event>> {
        let number = last.and_then(|last| {
            let (watch, number) = last.split_once('-')?;
            let is_this = u64::from_str_radix(watch, 16) == Ok(self.watch);
            let number: u64 = number.parse().ok().filter(|_| is_this)?;
            let oldest = self.told - self.kept.len() as u64;
            (oldest..=self.told).contains(&number).then_some(number)
        });
        if let Some(number) = number {
            let known = self.kept.len() - (self.told - number) as usize;
            return self.kept.iter().skip(known).cloned().collect();
        }
        let (kind, detail) = match last {
            Some(_) => (
                EventKind::Gap,
                "what changed since the last event that you have may not be told: look how everything is",
            ),
            None => (EventKind::Began, "from now on what changes is told"),
        };
        let change = Change {
            kind,
            severity: EventSeverity::Info,
            subject: "events".to_owned(),
            detail: detail.to_owned(),
        };
        VecDeque::from([self.event(self.told, change)])
    }
}

impl Events {
    fn log(&self) -> MutexGuard<'_, Log> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Controller {
    /// Somebody listens, who has heard this last.
    pub(crate) async fn listen(&self, last: Option<&str>) -> Result<Listener, Problem> {
        // The first look is what the next ones are compared with: what changes from now on is told.
        let is_watched = self.events.log().watch != 0;
        let first = if is_watched {
            None
        } else {
            Some(self.snapshot().await?)
        };
        let mut log = self.events.log();
        log.listeners.retain(|listener| !listener.is_over());
        if log.listeners.len() >= LISTENERS_MAX {
            let detail = format!("{LISTENERS_MAX} listen here already");
            return Err(Problem::new(ProblemKind::Busy, detail)
                .hint("listen at another node, or look now and then instead"));
        }
        if log.watch == 0 {
            let Some(first) = first else {
                let detail = "the watch has just ended";
                return Err(Problem::new(ProblemKind::Busy, detail).hint("try again"));
            };
            log.watch = unix_ms().max(1);
            tokio::spawn(watch(self.clone(), first));
        }
        let (teller, listener) = Listener::new(log.missed(last));
        log.listeners.push(teller);
        Ok(listener)
    }

    async fn snapshot(&self) -> Result<Snapshot, Problem> {
        let seen = self.view().await?;
        Ok(Snapshot::of(&seen.0, &seen.1))
    }
}

/// Compares looks until nobody has listened for a while.
async fn watch(controller: Controller, first: Snapshot) {
    let mut last = first;
    let mut alarms = controller.alarms_seen().await;
    let mut heard = Instant::now();
    loop {
        tokio::time::sleep(LOOK_INTERVAL).await;
        // What cannot be seen now shows at the next look that can.
        let now = controller.snapshot().await.ok();
        let alarms_now = controller.alarms_seen().await;
        let mut log = controller.events.log();
        if let Some(mut now) = now {
            for change in now.follow(&last) {
                log.tell(change);
            }
            last = now;
        }
        if let (Some(before), Some(now)) = (&alarms, &alarms_now) {
            for change in alarm_changes(before, now) {
                log.tell(change);
            }
        }
        alarms = alarms_now.or(alarms);
        log.listeners.retain(|listener| !listener.is_over());
        if !log.listeners.is_empty() {
            heard = Instant::now();
        } else if heard.elapsed() >= LINGER {
            *log = Log::default();
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(events: &VecDeque<Arc<Event>>) -> Vec<(&str, EventKind)> {
        events
            .iter()
            .map(|event| (&*event.id, event.kind))
            .collect()
    }

    fn change() -> Change {
        Change {
            kind: EventKind::Settings,
            severity: EventSeverity::Info,
            subject: "settings".to_owned(),
            detail: String::new(),
        }
    }

    #[test]
    fn who_comes_back_is_told_what_was_missed_or_that_it_is_not_kept() {
        let mut log = Log {
            watch: 0xa,
            ..Log::default()
        };
        assert_eq!(ids(&log.missed(None)), [("a-0", EventKind::Began)]);
        log.tell(change());
        log.tell(change());
        assert_eq!(
            ids(&log.missed(Some("a-1"))),
            [("a-2", EventKind::Settings)]
        );
        assert_eq!(ids(&log.missed(Some("a-2"))), []);
        assert_eq!(log.missed(Some("a-0")).len(), 2);
        for unknown in ["b-1", "a-3", "", "a", "a-x", "-1", "a-18446744073709551616"] {
            let told = log.missed(Some(unknown));
            assert_eq!(ids(&told), [("a-2", EventKind::Gap)], "{unknown}");
        }
        for _ in 0..KEPT_MAX {
            log.tell(change());
        }
        assert_eq!(log.kept.len(), KEPT_MAX);
        assert_eq!(log.missed(Some("a-2")).len(), KEPT_MAX);
        assert_eq!(log.missed(Some("a-1"))[0].kind, EventKind::Gap);
    }
}
