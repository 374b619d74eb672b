//! The copies of the log of whoever steers, at a few other nodes: what happened until a node was lost is told while it is.
//!
//! What a copy lacks is looked through from the newest on, in pieces, until everything older is here; then it is put down from there
//! on, the oldest first: files are changed in that order, and where it is cut short nothing is missing in between.
//!
//! Invariants:
//! - where nothing was told a copy costs one question in each pause, and a short answer;
//! - one look at another node has one end, however slow that is;
//! - so many pieces are fetched at a time at most; what was fetched stays, and the next look goes on from there;
//! - how everything was is put down only when all events that led to it are here, and never in the place of what is newer: whoever
//!   begins to steer may need that.

use std::future::Future;
use std::time::Duration;

use holdfast_api::ApiClient;
use holdfast_api::documents::{
    EVENTS_MAX, Event, EventPlace, EventQuery, LocalEventState, LocalEvents,
};
use holdfast_model::NodeId;
use holdfast_model::record::NodeRecord;
use tokio::time::{Instant, timeout_at};

use super::chronicle::STATE_PAUSE;
use super::log::EventLog;
use crate::Controller;
use crate::asking::client_of;
use crate::known::after;
use crate::reports::REPORT_TIME_MAX;

/// Nodes that keep a copy, beside whoever steers: all of them in small clusters; where some of these are lost together, others have it.
const COPIES: usize = 4;
/// Pieces that are fetched at a time at most: half of the lines that may wait to be written. More comes with the next look.
const PIECES_MAX: usize = 4;
/// Pieces that are looked through for what is lacking at most: files full of the shortest events have no more, however much is to be
/// kept.
const GAP_MAX: usize = 1024;
/// How long one look takes at most, all answers together: whoever steers may be away, and somebody has to notice.
const TIME_MAX: Duration = Duration::from_secs(3);

impl Controller {
    /// Keeps a copy of what whoever steers has put down, if that is this node's part.
    pub(super) async fn copy_events(&self, leader: NodeId) -> Copied {
        let Some(log) = &self.event_log else {
            return Copied::ByOthers;
        };
        let own = NodeId(self.number());
        let nodes = self.known_nodes.records();
        let Some(record) = nodes.iter().find(|node| node.node == leader) else {
            return Copied::ByOthers;
        };
        if own == leader || !is_keeper(&nodes, leader, own) {
            return Copied::ByOthers;
        }
        let Some(client) = client_of(record, self.connector.as_ref()) else {
            return Copied::ByOthers;
        };
        match copy(log, &client, leader).await {
            Some(looked_ms) => Copied::AsOf(looked_ms),
            None => Copied::NoAnswer,
        }
    }
}

/// What came of a look at the log of whoever steers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Copied {
    /// It is for other nodes to do.
    ByOthers,
    /// Whoever steers does not answer.
    NoAnswer,
    /// It last looked then, in milliseconds since 1970 (UTC) by its clock.
    AsOf(u64),
}

/// Whether a node is one of those that come after another one in the order of their numbers.
fn is_keeper(nodes: &[NodeRecord], leader: NodeId, own: NodeId) -> bool {
    after(nodes, leader)
        .iter()
        .take(COPIES)
        .any(|node| *node == own)
}

/// Whoever has put something down, as far as a copy asks it. Nothing where there is no answer.
trait Origin {
    fn events(&self, query: &EventQuery) -> impl Future<Output = Option<LocalEvents>> + Send;

    fn state(&self) -> impl Future<Output = Option<LocalEventState>> + Send;
}

impl Origin for ApiClient {
    async fn events(&self, query: &EventQuery) -> Option<LocalEvents> {
        self.local_events(query).await.ok()
    }

    async fn state(&self) -> Option<LocalEventState> {
        self.local_event_state().await.ok()
    }
}

/// Copies what is lacking, as far as one look goes, and tells when the node last looked. Nothing if it does not answer, or another one
/// does.
async fn copy(log: &EventLog, origin: &impl Origin, leader: NodeId) -> Option<u64> {
    let begun = Instant::now();
    let until = begun + TIME_MAX;
    let query = EventQuery {
        limit: 1,
        ..EventQuery::default()
    };
    // It answers from memory: one whose machine is lost is not waited for.
    let first = timeout_at(begun + REPORT_TIME_MAX, origin.events(&query));
    let first = first.await.ok()??;
    if first.node != leader.0 {
        return None;
    }
    let (mark, _) = log.marked();
    // How everything is may be put down anew where nothing is told of it.
    if first.mark == mark && first.written_ms <= log.written_ms() {
        log.note_look_of_other(first.looked_ms, STATE_PAUSE);
        return Some(first.looked_ms);
    }
    let begun_before = log.walk().take().filter(|walk| walk.leader == leader);
    let mut walk = begun_before.unwrap_or_else(|| Walk::new(leader));
    // Where it is cut short, the next look goes on.
    if walk.go_on(log, origin, until).await.is_none() {
        tracing::debug!(node = %leader, "copy the log of events");
    }
    *log.walk() = Some(walk);
    Some(first.looked_ms)
}

/// How far the copy of one node's log is.
#[derive(Debug)]
pub(super) struct Walk {
    leader: NodeId,
    /// All that its log has before that is here; nothing where that is not known.
    whole: Option<EventPlace>,
    /// The places after which pieces are lacking, beside the newest one: the newest first.
    gap: Vec<EventPlace>,
}

impl Walk {
    const fn new(leader: NodeId) -> Self {
        Self {
            leader,
            whole: None,
            gap: Vec::new(),
        }
    }

    async fn go_on(&mut self, log: &EventLog, origin: &impl Origin, until: Instant) -> Option<()> {
        // How everything was comes first: what led to it is in the log by then, and so in the pieces that are fetched after it. The
        // other way round an event could be in it that is in no piece, and nobody would fetch that any more.
        let state = timeout_at(until, origin.state()).await.ok()??;
        if state.node != self.leader.0 {
            return None;
        }
        self.reach_down_to(log, &state);
        for _ in 0..PIECES_MAX {
            let query = EventQuery {
                limit: EVENTS_MAX,
                after: self.gap.last().cloned(),
                ..EventQuery::default()
            };
            // What was fetched before stays, and the next look goes on from there.
            let piece = timeout_at(until, origin.events(&query)).await.ok()??;
            if piece.node != self.leader.0 {
                return None;
            }
            if self.take(log, &piece.events) {
                log.note_state_of_other(&state);
                break;
            }
        }
        Some(())
    }

    /// Where a clock was set back, what was told last is older than what is here.
    fn reach_down_to(&mut self, log: &EventLog, state: &LocalEventState) {
        let Ok(last) = state.mark.parse::<EventPlace>() else {
            return;
        };
        if self.whole.as_ref().is_some_and(|whole| last < *whole) && !log.has(&last) {
            self.whole = Some(last);
        }
    }

    /// Puts a piece down, the oldest first, if everything older is here; else looks further back. True once everything is here.
    fn take(&mut self, log: &EventLog, piece: &[Event]) -> bool {
        let lacking = piece.iter().rev().filter(|it| !log.has(&it.place()));
        let lacking: Vec<Event> = lacking.cloned().collect();
        let oldest = piece.last().map(Event::place);
        let oldest =
            oldest.filter(|_| piece.len() >= EVENTS_MAX as usize && self.gap.len() < GAP_MAX);
        if let Some(oldest) = oldest {
            let is_whole = match &self.whole {
                Some(whole) => oldest <= *whole,
                None => lacking.is_empty(),
            };
            if !is_whole {
                self.gap.push(oldest);
                return false;
            }
        }
        log.note(lacking);
        match self.gap.pop() {
            Some(place) => {
                self.whole = Some(place);
                false
            }
            None => {
                self.whole = piece.first().map(Event::place);
                true
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicU32, Ordering};

    use holdfast_model::{Incarnation, StoreId};

    use super::super::sample::event;
    use super::*;

    fn events(times: impl IntoIterator<Item = u64>) -> Vec<Event> {
        times.into_iter().map(event).collect()
    }

    /// What happens at whoever steers.
    type Happening = dyn FnMut(&EventLog) + Send;

    /// Whoever steers, with what happens there after each answer.
    struct Leader {
        log: EventLog,
        after: Mutex<Box<Happening>>,
        /// Pieces after which it answers no more.
        pieces_left: AtomicU32,
    }

    impl Leader {
        fn new(folder: &Path) -> Self {
            Self {
                log: EventLog::open(&folder.join("leader.log")).unwrap(),
                after: Mutex::new(Box::new(|_| {})),
                pieces_left: AtomicU32::new(u32::MAX),
            }
        }

        fn tell(&self, times: impl IntoIterator<Item = u64>) {
            tell(&self.log, events(times));
        }

        fn then(self, after: impl FnMut(&EventLog) + Send + 'static) -> Self {
            Self {
                after: Mutex::new(Box::new(after)),
                ..self
            }
        }
    }

    /// As whoever steers does it.
    fn tell(log: &EventLog, events: Vec<Event>) {
        let last = events.last().unwrap().place();
        log.note(events);
        log.note_state(&LocalEventState {
            node: 1,
            mark: last.to_string(),
            looked_ms: 1_000_000,
            state: Some(serde_json::json!({ "last": last.to_string() })),
        });
    }

    impl Origin for Leader {
        async fn events(&self, query: &EventQuery) -> Option<LocalEvents> {
            if query.limit > 1 {
                let left = self.pieces_left.load(Ordering::Relaxed);
                self.pieces_left
                    .store(left.checked_sub(1)?, Ordering::Relaxed);
            }
            let answer = self.log.answer(1, query).await.ok();
            self.after.lock().unwrap()(&self.log);
            answer
        }

        async fn state(&self) -> Option<LocalEventState> {
            let state = self
                .log
                .state()
                .map(|state| LocalEventState { node: 1, ..state });
            self.after.lock().unwrap()(&self.log);
            state
        }
    }

    const LEADER: NodeId = NodeId(1);

    async fn look(log: &EventLog, leader: &Leader) -> Option<u64> {
        let copied = copy(log, leader, LEADER).await;
        // Whatever came of it: what is said to be so is in the copy.
        if let Ok(last) = log.marked().0.parse() {
            assert!(
                log.has(&last),
                "{last} is in no copy, and is not fetched any more"
            );
        }
        copied
    }

    /// All that a log has, the newest first.
    async fn all(log: &EventLog) -> Vec<Event> {
        let mut query = EventQuery {
            limit: EVENTS_MAX,
            ..EventQuery::default()
        };
        let mut all = Vec::new();
        loop {
            let piece = log.answer(1, &query).await.unwrap().events;
            let Some(last) = piece.last() else {
                return all;
            };
            query.after = Some(last.place());
            all.extend(piece);
        }
    }

    /// Answers each question in its time, and always has more.
    struct Slow(Duration);

    impl Origin for Slow {
        async fn events(&self, query: &EventQuery) -> Option<LocalEvents> {
            tokio::time::sleep(self.0).await;
            Some(LocalEvents {
                node: LEADER.0,
                events: events((1..=u64::from(query.limit)).rev()),
                mark: event(1).place().to_string(),
                ..LocalEvents::default()
            })
        }

        async fn state(&self) -> Option<LocalEventState> {
            tokio::time::sleep(self.0).await;
            Some(LocalEventState {
                node: LEADER.0,
                ..LocalEventState::default()
            })
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_look_ends_in_time_however_slow_the_answers_are() {
        for millis in [100, 800, 1400, 1900, 2900, 60_000] {
            let folder = tempfile::tempdir().unwrap();
            let log = EventLog::open(&folder.path().join("copy.log")).unwrap();
            let begun = Instant::now();
            copy(&log, &Slow(Duration::from_millis(millis)), LEADER).await;
            assert!(
                begun.elapsed() <= TIME_MAX,
                "{millis}: {:?}",
                begun.elapsed()
            );
        }
    }

    #[tokio::test]
    async fn how_everything_is_is_copied_also_where_nothing_was_told() {
        let folder = tempfile::tempdir().unwrap();
        let leader = Leader::new(folder.path());
        leader.tell([1]);
        let log = EventLog::open(&folder.path().join("copy.log")).unwrap();
        look(&log, &leader).await.unwrap();
        let settled = serde_json::json!({ "has_settled": true });
        leader.log.note_state(&LocalEventState {
            looked_ms: 1_000_500,
            state: Some(settled.clone()),
            ..leader.log.state().unwrap()
        });
        look(&log, &leader).await.unwrap();
        assert_eq!(log.state().unwrap().state, Some(settled));
    }

    #[tokio::test]
    async fn whoever_begins_to_steer_takes_nothing_from_those_who_know_what_was_told_last() {
        let folder = tempfile::tempdir().unwrap();
        let log = EventLog::open(&folder.path().join("copy.log")).unwrap();
        tell(&log, events([1, 2]));
        let known = log.state();
        let leader = Leader::new(folder.path());
        let none = LocalEventState {
            node: 1,
            ..LocalEventState::default()
        };
        let old = LocalEventState {
            mark: events([1])[0].place().to_string(),
            looked_ms: 5,
            state: Some(serde_json::json!({ "last": "1" })),
            ..none.clone()
        };
        for state in [none, old] {
            leader.log.note_state(&state);
            look(&log, &leader).await.unwrap();
            assert_eq!(log.state(), known);
        }
        // It has taken that up, and goes on.
        leader.tell([3]);
        look(&log, &leader).await.unwrap();
        assert_eq!(log.state().unwrap().mark, leader.log.marked().0);
    }

    #[tokio::test]
    async fn what_is_told_while_it_is_copied_is_copied_too() {
        let folder = tempfile::tempdir().unwrap();
        let leader = Leader::new(folder.path());
        leader.tell([1]);
        let mut next = 2;
        let leader = leader.then(move |log| {
            if next < 10 {
                tell(log, events([next]));
                next += 1;
            }
        });
        let log = EventLog::open(&folder.path().join("copy.log")).unwrap();
        for _ in 0..9 {
            look(&log, &leader).await.unwrap();
        }
        assert_eq!(log.marked().0, event(9).place().to_string());
        assert_eq!(all(&log).await, all(&leader.log).await);
        assert_eq!(log.state(), leader.log.state());
    }

    #[tokio::test]
    async fn a_copy_is_whole_in_the_end_however_much_it_lacks_and_how_often_it_is_cut_short() {
        let folder = tempfile::tempdir().unwrap();
        let leader = Leader::new(folder.path());
        for thousand in 0..7 {
            leader.tell(thousand * 1000 + 1..=thousand * 1000 + 1000);
            wait_for(&leader.log).await;
        }
        leader.tell(7001..=7300);
        let log = EventLog::open(&folder.path().join("copy.log")).unwrap();
        // It has something of before.
        log.note(events(1..=300));
        let mut looks = 0;
        while log.marked().0 != leader.log.marked().0 {
            // What has come stays, though the next piece does not.
            leader.pieces_left.store(3, Ordering::Relaxed);
            look(&log, &leader).await.unwrap();
            if looks == 2 {
                leader.tell(7301..=7800);
            }
            looks += 1;
            assert!(looks < 10, "{looks}");
            wait_for(&log).await;
        }
        assert_eq!(all(&log).await, events((1..=7800).rev()));
        // From now on it is a matter of one piece.
        leader.tell([7801]);
        leader.pieces_left.store(1, Ordering::Relaxed);
        look(&log, &leader).await.unwrap();
        assert_eq!(log.marked().0, event(7801).place().to_string());
    }

    #[tokio::test]
    async fn what_is_told_by_a_clock_that_was_set_back_is_copied_too() {
        let folder = tempfile::tempdir().unwrap();
        let leader = Leader::new(folder.path());
        leader.tell(10_001..=12_500);
        let log = EventLog::open(&folder.path().join("copy.log")).unwrap();
        for _ in 0..3 {
            look(&log, &leader).await.unwrap();
        }
        assert_eq!(log.marked(), leader.log.marked());
        leader.tell([5]);
        for _ in 0..3 {
            look(&log, &leader).await.unwrap();
        }
        assert_eq!(log.marked(), leader.log.marked());
        assert_eq!(all(&log).await, all(&leader.log).await);
    }

    #[tokio::test]
    async fn until_when_everything_was_as_it_was_is_written_each_ten_minutes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("copy.log");
        let leader = Leader::new(folder.path());
        leader.tell([1]);
        let log = EventLog::open(&path).unwrap();
        look(&log, &leader).await.unwrap();
        for (looked_ms, written_ms) in [(1_599_999, 1_000_000), (1_600_000, 1_600_000)] {
            leader.log.note_look(looked_ms);
            look(&log, &leader).await.unwrap();
            wait_for(&log).await;
            let written = EventLog::open(&path).unwrap().state().unwrap();
            let told = leader.log.state().unwrap();
            assert_eq!(
                written,
                LocalEventState {
                    looked_ms: written_ms,
                    ..told
                }
            );
        }
    }

    async fn wait_for(log: &EventLog) {
        let begun = Instant::now();
        while log.waiting() > 0 {
            assert!(begun.elapsed() < Duration::from_secs(10));
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    #[test]
    fn a_few_nodes_after_whoever_steers_keep_copies() {
        let record = |number| NodeRecord {
            schema: 1,
            node: NodeId(number),
            name: format!("n{number}"),
            store: StoreId(1),
            uses: 1,
            use_id: 1,
            incarnation: Incarnation(1),
            portal: String::new(),
            peer: String::new(),
            api: String::new(),
        };
        let keepers = |count, leader| {
            let nodes: Vec<_> = (1..=count).map(record).collect();
            let all = (1..=count).filter(|own| is_keeper(&nodes, NodeId(leader), NodeId(*own)));
            all.collect::<Vec<_>>()
        };
        assert_eq!(keepers(3, 2), [1, 3]);
        assert_eq!(keepers(64, 10), [11, 12, 13, 14]);
        assert_eq!(keepers(64, 63), [1, 2, 3, 64]);
        assert_eq!(keepers(1, 1), [] as [u16; 0]);
    }
}
