//! What is told of the loss of the metadata itself: while no node reaches it nobody steers, and no alarm is put on record.
//!
//! Each node keeps whom the metadata last said to tell. Where none that answers has followed the metadata for as long as its alarm has to
//! hold, the one of them with the lowest number tells of that from memory, and tells that it is over when the metadata has been followed
//! for as long again.
//!
//! It refuses to tell of anything else from memory: what was raised before may be over. It refuses to put on record what it tells: it ends
//! it itself, for those whom it told.
//!
//! Invariants:
//! - nothing is told as long as any node that answers follows the metadata: whoever is cut off alone asks the others;
//! - where no other node answers, that is what is told;
//! - as soon as the metadata is followed nobody hears of its loss any more, and who has not is not told that it is over;
//! - a node leaves the telling only to one with a lower number that says that it would tell: so the last of them tells;
//! - the ids of what is told are none of the record's, nor any other node's or start's;
//! - it is a task of its own that asks and tells: nobody waits for it, and it asks at a bounded pace, one node at a time as long as another
//!   one may have to tell.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use holdfast_api::documents::LocalMetadata;
use holdfast_control::{AlarmKind, bound_alarms, end_alone, raise_alone, rule_of};
use holdfast_model::NodeId;
use holdfast_model::record::{NodeRecord, ReceiversRecord};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use super::telling::Telling;
use super::{Kept, words};
use crate::Controller;
use crate::clock::unix_ms;
use crate::reports::Reports;
use crate::trust::Steering;
use crate::view::nobody_follows;

const KIND: AlarmKind = AlarmKind::MetadataLost;
/// What it is about: all nodes.
const SUBJECT: &str = "cluster";
const PASS_PAUSE: Duration = Duration::from_secs(1);
/// How often it is read who is to be told: that changes seldom.
const READ_PAUSE: Duration = Duration::from_secs(30);
/// After others were asked whether they follow the metadata. All nodes may do so at once.
const ASK_PAUSE: Duration = Duration::from_secs(5);
/// Bits of an id for when this began to tell, in milliseconds since 1970: that is enough until the year 10889. Above them is the node's
/// number.
const TIME_BITS: u32 = 48;

/// Whether the node in this process would tell of the loss of the metadata.
#[derive(Clone, Debug, Default)]
pub(crate) struct WouldTell(Arc<AtomicBool>);

impl WouldTell {
    pub(crate) fn get(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    fn set(&self, would_tell: bool) {
        self.0.store(would_tell, Ordering::Relaxed);
    }
}

/// How the one who stands for the lead finds the metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// Somebody is known to steer.
    Followed,
    /// It is not known whether anybody does, or whether to believe it.
    Unknown,
    /// It does not answer.
    Away,
}

/// The task that tells. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Vigil {
    way: watch::Sender<Way>,
    task: JoinHandle<()>,
}

impl Vigil {
    /// Must be called within a tokio runtime.
    pub(crate) fn begin(controller: &Controller) -> Self {
        let (sender, way) = watch::channel(Way::Unknown);
        Self {
            way: sender,
            task: tokio::spawn(keep(controller.clone(), way)),
        }
    }

    /// How the metadata is found from now on.
    pub(crate) fn note(&self, way: Way) {
        self.way
            .send_if_modified(|known| std::mem::replace(known, way) != way);
    }
}

impl Drop for Vigil {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn keep(controller: Controller, mut way: watch::Receiver<Way>) {
    let mut memory = Memory::default();
    loop {
        memory.pass(&controller, &mut way).await;
        // What changes in between may be over soon: whom to tell is read as soon as the metadata is there.
        tokio::select! {
            () = sleep(PASS_PAUSE) => {}
            Ok(()) = way.changed() => {}
        }
    }
}

/// What a node remembers for when the metadata is lost.
#[derive(Debug, Default)]
struct Memory {
    /// What the metadata last said, and when.
    known: Option<(Kept, Instant)>,
    /// Since when this node has not reached the metadata, and no other one is known to follow it.
    lost: Option<Instant>,
    /// Since when it is followed again after that was told as lost.
    followed: Option<Instant>,
    /// When the others were last asked.
    asked: Option<Instant>,
    told: Option<FromMemory>,
}

/// What was seen when the others were asked.
enum Look {
    /// Another node follows the metadata.
    Followed,
    /// It is for another node to tell.
    ForAnother,
    /// Nobody follows it: how that is told.
    Lost(String),
}

impl Memory {
    async fn pass(&mut self, controller: &Controller, way: &mut watch::Receiver<Way>) {
        let found = match (*way.borrow_and_update(), controller.may_steer()) {
            (_, Steering::NoNode) => Way::Unknown,
            (way, _) => way,
        };
        let would_tell = found == Way::Away && self.has_whom_to_tell();
        controller.would_tell.set(would_tell);
        match found {
            Way::Followed => {
                self.is_followed();
                tokio::select! {
                    () = self.read(controller) => {}
                    _ = way.changed() => {}
                }
            }
            Way::Unknown => self.lost = None,
            Way::Away => {
                self.lost.get_or_insert_with(Instant::now);
            }
        }
        let mut is_lost = false;
        if found != Way::Followed && self.is_to_ask(would_tell) {
            let is_open = self.is_open();
            // What is seen is of no use where that changes meanwhile.
            let look = tokio::select! {
                look = look(controller, self.lost, is_open) => Some(look),
                _ = way.changed() => None,
            };
            self.asked = Some(Instant::now());
            is_lost = would_tell && matches!(look, Some(Look::Lost(_)));
            self.note(look, NodeId(controller.number()), would_tell);
        }
        self.tell(controller, is_lost);
    }

    /// Whether the alarm is one that is to be told, and to anybody.
    fn has_whom_to_tell(&self) -> bool {
        self.known.as_ref().is_some_and(|(kept, _)| {
            rule_of(&kept.rules, KIND).is_some() && !kept.receivers.receivers.is_empty()
        })
    }

    /// For how long the metadata has to be lost before that is told, and followed before that is over.
    fn hold(&self) -> Duration {
        let rule = self.known.as_ref();
        let rule = rule.and_then(|(kept, _)| rule_of(&kept.rules, KIND));
        rule.map_or(Duration::ZERO, |it| Duration::from_millis(it.hold_ms()))
    }

    /// What was told is not over.
    fn is_open(&self) -> bool {
        self.told.as_ref().is_some_and(|told| !told.is_over())
    }

    fn is_to_ask(&self, would_tell: bool) -> bool {
        let has_held = self.lost.is_some_and(|it| it.elapsed() >= self.hold());
        let rests = self.asked.is_some_and(|it| it.elapsed() < ASK_PAUSE);
        !rests && (self.is_open() || would_tell && has_held)
    }

    /// Reads who is to be told, now and then.
    async fn read(&mut self, controller: &Controller) {
        let known = self.known.as_ref();
        if known.is_some_and(|(_, read)| read.elapsed() < READ_PAUSE) {
            return;
        }
        if let Ok(kept) = controller.alarms_kept().await {
            if let Some(told) = &mut self.told {
                told.forget_all_but(&kept.receivers);
            }
            self.known = Some((kept, Instant::now()));
        }
    }

    /// Takes in what others say.
    fn note(&mut self, look: Option<Look>, own: NodeId, would_tell: bool) {
        match look {
            Some(Look::Followed) => self.is_followed(),
            Some(Look::Lost(detail)) => {
                self.followed = None;
                if would_tell {
                    self.raise(own, &detail);
                }
            }
            Some(Look::ForAnother) | None => {}
        }
    }

    /// This node follows the metadata, or another one does.
    fn is_followed(&mut self) {
        // It is counted anew.
        self.lost = None;
        let hold = self.hold();
        let Some(told) = self.told.as_mut().filter(|told| !told.is_over()) else {
            return;
        };
        let followed = *self.followed.get_or_insert_with(Instant::now);
        if !told.call_off() {
            tracing::info!("the metadata is followed, and nobody has heard that it was lost");
            (self.told, self.followed) = (None, None);
        } else if followed.elapsed() >= hold {
            told.end();
            self.followed = None;
        }
    }

    fn raise(&mut self, own: NodeId, detail: &str) {
        let (Some((known, _)), Some(lost)) = (&self.known, self.lost) else {
            return;
        };
        if lost.elapsed() < self.hold() {
            return;
        }
        let now_ms = unix_ms();
        let since_ms = now_ms.saturating_sub(lost.elapsed().as_millis() as u64);
        let told = self
            .told
            .get_or_insert_with(|| FromMemory::new(own, now_ms));
        told.raise(&known.receivers, detail, since_ms);
    }

    /// Tells what there is to tell: that it is lost only where that has just been seen.
    fn tell(&mut self, controller: &Controller, is_lost: bool) {
        let Some(told) = &mut self.told else {
            return;
        };
        if told.is_over() && told.telling.has_told_all(&told.kept) {
            self.told = None;
        } else if is_lost || told.is_over() {
            told.telling.pass(controller, &told.kept);
        }
    }
}

/// What is told from memory, until everybody who has heard of it has heard that it is over. It may be lost again before that.
#[derive(Debug)]
struct FromMemory {
    /// These alarms only, and whom to tell.
    kept: Kept,
    telling: Telling,
}

impl FromMemory {
    /// What a node begins to tell now, in milliseconds since 1970 (UTC).
    fn new(own: NodeId, now_ms: u64) -> Self {
        let mut kept = Kept::default();
        let time = now_ms & ((1 << TIME_BITS) - 1);
        kept.alarms.changes = (u64::from(own.0) << TIME_BITS) | time;
        Self {
            kept,
            telling: Telling::from_memory(),
        }
    }

    fn is_over(&self) -> bool {
        self.kept.alarms.raised.is_empty()
    }

    /// The metadata is lost since then, in milliseconds since 1970 (UTC): all of these are to be told.
    fn raise(&mut self, receivers: &ReceiversRecord, detail: &str, since_ms: u64) {
        let alarms = &mut self.kept.alarms;
        if raise_alone(alarms, KIND, SUBJECT, detail, since_ms).is_some() {
            bound_alarms(alarms);
            if let Some(entry) = alarms.raised.first() {
                tracing::error!(alarm = entry.id, "alarm: {}", words(entry));
            }
        }
        let told = &mut self.kept.receivers.receivers;
        for (name, record) in &receivers.receivers {
            // Whoever is told already is told of what else has changed, too.
            if told.get(name) != Some(record) {
                told.insert(name.clone(), record.clone());
                alarms.told.insert(name.clone(), alarms.changes - 1);
            }
        }
    }

    /// Nobody is told any more who has heard of nothing. Answers whether anybody has.
    fn call_off(&mut self) -> bool {
        let heard = self.telling.call_off();
        let receivers = &mut self.kept.receivers.receivers;
        receivers.retain(|name, _| heard.contains(name));
        !receivers.is_empty()
    }

    fn end(&mut self) {
        let alarms = &mut self.kept.alarms;
        if let Some(entry) = alarms.raised.first() {
            tracing::info!(alarm = entry.id, "alarm is over: {}", words(entry));
            end_alone(alarms, entry.id, unix_ms());
        }
        bound_alarms(alarms);
    }

    /// Who is no receiver any more is told nothing.
    fn forget_all_but(&mut self, known: &ReceiversRecord) {
        let receivers = &mut self.kept.receivers.receivers;
        receivers.retain(|name, _| known.receivers.contains_key(name));
    }
}

/// Asks the others whether they follow the metadata, which this node has not reached since `lost`. Where something that it tells is open,
/// that is left to nobody.
async fn look(controller: &Controller, lost: Option<Instant>, is_open: bool) -> Look {
    let own = NodeId(controller.number());
    let mut records = controller.known_nodes.records();
    records.sort_unstable_by_key(|it| it.node);
    let mut reports = Reports::default();
    for asked in questions(&records, own, is_open) {
        let is_own = asked.iter().any(|it| it.node == own);
        let local = is_own.then(|| controller.report()).flatten();
        reports = Reports::collect(asked, local, controller.connector.as_ref()).await;
        let nodes = asked.iter().map(|it| it.node);
        if let Some(look) = judge(&reports, nodes, own, is_open) {
            return look;
        }
    }
    let lost_ms = lost.map_or(0, |it| it.elapsed().as_millis() as u64);
    let since_ms = unix_ms().saturating_sub(lost_ms);
    Look::Lost(nobody_follows(&reports, &records, own, since_ms))
}

/// Who is asked, in turn, until that shows whose it is to tell: one by one those to whom it may be left, and then all.
fn questions(
    records: &[NodeRecord],
    own: NodeId,
    is_open: bool,
) -> impl Iterator<Item = &[NodeRecord]> {
    let before = records
        .iter()
        .filter(move |it| it.node < own && !is_open)
        .map(std::slice::from_ref);
    before.chain([records])
}

/// What follows from what these nodes say, if it is not for this one to tell.
fn judge(
    reports: &Reports,
    mut nodes: impl Iterator<Item = NodeId> + Clone,
    own: NodeId,
    is_open: bool,
) -> Option<Look> {
    let follows = |node| reports.metadata(node) == Some(LocalMetadata::Followed);
    if nodes.clone().any(follows) {
        return Some(Look::Followed);
    }
    let is_left = !is_open && nodes.any(|it| it < own && reports.tells_of_loss(it));
    is_left.then_some(Look::ForAnother)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use holdfast_api::documents::LocalReport;
    use holdfast_model::record::{AlarmRule, ReceiverRecord, ReceiverWay};
    use holdfast_model::{Incarnation, StoreId};

    use super::super::telling::news;
    use super::*;

    const HOLD: Duration = Duration::from_secs(30);
    const OWN: NodeId = NodeId(2);

    fn hook() -> ReceiverRecord {
        ReceiverRecord {
            critical_only: false,
            authority: String::new(),
            way: ReceiverWay::Webhook {
                url: "https://hooks.example/".to_owned(),
                secret: None,
            },
        }
    }

    /// Two receivers.
    fn kept() -> Kept {
        let receivers = ["first", "second"].map(|name| (name.to_owned(), hook()));
        Kept {
            receivers: ReceiversRecord {
                receivers: receivers.into(),
                ..ReceiversRecord::default()
            },
            ..Kept::default()
        }
    }

    impl Memory {
        fn of(kept: Kept) -> Self {
            Self {
                known: Some((kept, Instant::now())),
                ..Self::default()
            }
        }

        /// Nobody that answers follows the metadata.
        fn finds_it_lost(&mut self) {
            self.lost.get_or_insert_with(Instant::now);
            self.note(Some(Look::Lost("it is away".to_owned())), OWN, true);
        }

        /// For as long as that has to hold.
        async fn loses(&mut self) {
            self.finds_it_lost();
            sleep(HOLD).await;
            self.finds_it_lost();
        }

        /// Another node follows it for as long as that has to hold.
        async fn finds_it_again(&mut self) {
            self.note(Some(Look::Followed), OWN, true);
            sleep(HOLD).await;
            self.note(Some(Look::Followed), OWN, true);
        }

        fn is_told(&mut self) -> &mut FromMemory {
            self.told.as_mut().unwrap()
        }

        /// A receiver is being told, and hears of it or not as it is said here; or neither yet.
        fn tells(&mut self, name: &str, hears: Option<bool>) {
            self.is_told().telling.tries(name, &hook(), hears);
        }

        /// Who is still told of anything.
        fn receivers(&self) -> Vec<&str> {
            let told = self.told.iter();
            told.flat_map(|it| it.kept.receivers.receivers.keys().map(|it| &**it))
                .collect()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn it_is_told_once_and_is_over_when_it_has_been_followed_for_long_enough() {
        let mut memory = Memory::of(kept());
        memory.note(Some(Look::ForAnother), OWN, true);
        memory.finds_it_lost();
        sleep(HOLD / 2).await;
        memory.finds_it_lost();
        assert!(memory.told.is_none(), "not for long enough");
        memory.note(Some(Look::Followed), OWN, true);
        memory.finds_it_lost();
        sleep(HOLD / 2).await;
        memory.finds_it_lost();
        assert!(memory.told.is_none(), "it is counted anew");
        memory.loses().await;
        let alarms = memory.is_told().kept.alarms.clone();
        let entry = &alarms.raised[0];
        assert_eq!(
            entry.id >> TIME_BITS,
            2,
            "no number of the record, nor of another node"
        );
        assert_eq!(
            (&*entry.kind, &*entry.subject),
            ("metadata-lost", "cluster")
        );
        let all = [("first", entry.id - 1), ("second", entry.id - 1)];
        let all = all.map(|(name, told)| (name.to_owned(), told));
        assert_eq!(alarms.told, BTreeMap::from(all));
        memory.finds_it_lost();
        assert_eq!(memory.is_told().kept.alarms, alarms);
        memory.tells("first", Some(true));
        memory.note(Some(Look::Followed), OWN, true);
        sleep(HOLD / 2).await;
        memory.finds_it_lost();
        sleep(HOLD / 2).await;
        memory.note(Some(Look::Followed), OWN, true);
        assert!(memory.is_open(), "not for long enough");
        memory.finds_it_again().await;
        assert!(!memory.is_open());
        let told = &memory.is_told().kept.alarms;
        assert_eq!((told.changes, told.cleared[0].id), (entry.id + 1, entry.id));
    }

    #[tokio::test(start_paused = true)]
    async fn a_node_that_told_nobody_forgets_it_as_soon_as_it_is_followed() {
        let mut memory = Memory::of(kept());
        memory.loses().await;
        // One is still to be told, and with the other there is no connection yet.
        memory.tells("first", None);
        memory.note(Some(Look::Followed), OWN, true);
        assert!(memory.told.is_none() && memory.followed.is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn it_is_over_for_those_who_may_have_heard_of_it_and_for_nobody_else() {
        let mut memory = Memory::of(kept());
        memory.loses().await;
        // The first one may have taken it without having said so yet.
        memory.tells("first", Some(true));
        memory.tells("second", None);
        memory.note(Some(Look::Followed), OWN, true);
        assert_eq!(memory.receivers(), ["first"]);
        // It is lost all the same: then the other one has to hear of it, too.
        memory.loses().await;
        assert_eq!(memory.receivers(), ["first", "second"]);
        memory.finds_it_again().await;
        assert_eq!(memory.receivers(), ["first"]);
        let told = memory.is_told();
        let changes = told.kept.alarms.changes;
        assert!(!told.telling.has_told_all(&told.kept));
        told.telling.has_told("first", changes - 1);
        assert!(
            !told.telling.has_told_all(&told.kept),
            "not that it is over"
        );
        told.telling.has_told("first", changes);
        assert!(told.telling.has_told_all(&told.kept));
        // Who is no receiver any more is not waited for.
        told.forget_all_but(&ReceiversRecord::default());
        assert!(memory.receivers().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_loss_is_told_also_where_not_everybody_has_heard_of_the_end_of_the_one_before() {
        let mut memory = Memory::of(kept());
        memory.loses().await;
        let first = memory.is_told().kept.alarms.changes;
        for name in ["first", "second"] {
            memory.tells(name, Some(true));
            memory.is_told().telling.has_told(name, first);
        }
        memory.finds_it_again().await;
        memory.is_told().telling.has_told("second", first + 1);
        memory.loses().await;
        let alarms = &memory.is_told().kept.alarms;
        let told_since = |told| {
            let news = news(alarms, told, false).into_iter();
            news.map(|it| (it.id, it.change.name())).collect::<Vec<_>>()
        };
        let raised = ((first + 2).to_string(), "raised");
        assert_eq!(told_since(first + 1), std::slice::from_ref(&raised));
        assert_eq!(told_since(first), [raised, (first.to_string(), "cleared")]);
        // Nobody is left out who has the end of the first one to hear.
        memory.finds_it_again().await;
        assert_eq!(memory.receivers(), ["first", "second"]);
    }

    #[tokio::test(start_paused = true)]
    async fn who_has_nobody_to_tell_asks_nobody_and_others_ask_at_a_pace() {
        let put_off = AlarmRule {
            is_off: true,
            ..holdfast_control::default_rule(KIND)
        };
        let mut off = kept();
        off.rules.rules.insert(KIND.text().code.to_owned(), put_off);
        for memory in [
            Memory::default(),
            Memory::of(Kept::default()),
            Memory::of(off),
        ] {
            assert!(!memory.has_whom_to_tell());
        }
        let mut memory = Memory::of(kept());
        assert!(memory.has_whom_to_tell() && !memory.is_to_ask(true));
        memory.lost = Some(Instant::now());
        sleep(HOLD / 2).await;
        assert!(!memory.is_to_ask(true));
        sleep(HOLD / 2).await;
        assert!(memory.is_to_ask(true) && !memory.is_to_ask(false));
        memory.asked = Some(Instant::now());
        assert!(!memory.is_to_ask(true));
        sleep(ASK_PAUSE).await;
        assert!(memory.is_to_ask(true));
        // What was told is to end also where there is nobody to tell any more.
        memory.loses().await;
        assert!(memory.is_to_ask(false));
    }

    fn records() -> Vec<NodeRecord> {
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
        (1..=4).map(record).collect()
    }

    /// What one node finds where those answer that are given here, with whether each would tell. Everybody else is away.
    fn found(own: u16, is_open: bool, says: &BTreeMap<u16, LocalReport>) -> (Option<Look>, usize) {
        let (records, own) = (records(), NodeId(own));
        let mut asked = 0;
        for question in questions(&records, own, is_open) {
            asked += question.len();
            let answers = question
                .iter()
                .filter_map(|it| says.get(&it.node.0).cloned());
            let nodes = question.iter().map(|it| it.node);
            let look = judge(&Reports::of(answers), nodes, own, is_open);
            if look.is_some() {
                return (look, asked);
            }
        }
        (None, asked)
    }

    fn says(node: u16, metadata: LocalMetadata, tells_of_loss: bool) -> (u16, LocalReport) {
        let report = LocalReport {
            node,
            metadata,
            tells_of_loss,
            ..LocalReport::default()
        };
        (node, report)
    }

    #[test]
    fn of_those_that_answer_and_would_tell_exactly_the_first_does() {
        for answer in 1_u16..16 {
            for would_tell in 1_u16..16 {
                let is_in = |set: u16, node: u16| (set >> (node - 1)) & 1 == 1;
                let answers = (1..=4).filter(|it| is_in(answer, *it));
                let answers = answers
                    .map(|it| says(it, LocalMetadata::Unreached, is_in(would_tell, it)))
                    .collect();
                let tell = (1..=4).filter(|it| is_in(answer & would_tell, *it));
                let tell: Vec<u16> = tell.collect();
                for own in &tell {
                    let (look, _) = found(*own, false, &answers);
                    assert_eq!(look.is_none(), *own == tell[0], "{own} of {tell:?}");
                }
            }
        }
    }

    #[test]
    fn nobody_tells_where_anybody_follows_it_and_no_more_are_asked_than_that_takes() {
        use LocalMetadata::{Behind, Followed, Unreached};
        let lost = [
            says(1, Unreached, true),
            says(2, Unreached, true),
            says(3, Behind, false),
            says(4, Unreached, true),
        ];
        let lost = BTreeMap::from(lost);
        let (look, asked) = found(4, false, &lost);
        assert!(matches!(look, Some(Look::ForAnother)));
        assert_eq!(asked, 1, "who would tell is enough");
        let (look, asked) = found(1, false, &lost);
        assert!(look.is_none());
        assert_eq!(asked, 4);
        // What it tells itself it ends itself.
        assert!(found(4, true, &lost).0.is_none());
        for follower in 1..=4 {
            let mut says = lost.clone();
            says.get_mut(&follower).unwrap().metadata = Followed;
            for own in 1..=4 {
                let (look, _) = found(own, true, &says);
                assert!(matches!(look, Some(Look::Followed)), "{own}: {follower}");
                assert!(found(own, false, &says).0.is_some(), "{own}: {follower}");
            }
        }
    }
}
