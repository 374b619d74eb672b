//! What is told of the loss of the metadata itself: while no node reaches it nobody steers, and no alarm is put on record.
//!
//! Each node keeps what the metadata last said of alarms. Where none that answers has followed the metadata for as long as its alarm
//! has to hold, one of them tells of that from memory: the one that steered last, or, where that does not answer, the next one in the
//! order of their numbers that does. It puts it on record as soon as it reaches the metadata again, where whoever steers ends it as any
//! other alarm.
//!
//! It refuses to tell of anything else from memory: what was raised before may be over.
//!
//! Invariants:
//! - nothing is told as long as any node that answers follows the metadata: whoever is cut off alone asks the others;
//! - where no other node answers, that is what is told;
//! - a node that has started since, and knows no receivers, is not waited for;
//! - one alarm is told of at a time, at a bounded pace, and nobody is asked more often than that.

use std::time::Duration;

use holdfast_api::documents::LocalMetadata;
use holdfast_control::{AlarmKind, end_alone, raise_alone, rule_of};
use holdfast_model::NodeId;
use holdfast_model::record::{AlarmEntry, NodeRecord};
use tokio::time::Instant;

use super::telling::Telling;
use super::{AlarmWatch, Kept, words};
use crate::Controller;
use crate::clock::unix_ms;
use crate::known::after;
use crate::reports::Reports;
use crate::trust::Steering;
use crate::view::nobody_follows;

const KIND: AlarmKind = AlarmKind::MetadataLost;
/// What it is about: all nodes.
const SUBJECT: &str = "cluster";
/// How often a node that does not steer reads what there is of alarms: who is told changes seldom.
const READ_PAUSE: Duration = Duration::from_secs(60);
/// Between two times at which others are asked whether they follow the metadata. All nodes may do so at once.
const ASK_PAUSE: Duration = Duration::from_secs(5);

/// What a node remembers for when the metadata is lost.
#[derive(Debug, Default)]
pub(crate) struct Vigil {
    known: Option<LastKnown>,
    /// Since when this node has not reached the metadata, and no other one is known to follow it.
    lost: Option<Instant>,
    /// Since when another one follows it after that was told as lost.
    back: Option<Instant>,
    /// When the others were last asked.
    asked: Option<Instant>,
    told: Option<FromMemory>,
}

/// What the metadata last said.
#[derive(Debug)]
struct LastKnown {
    kept: Kept,
    read: Instant,
    /// Who steered.
    leader: NodeId,
}

/// What is told from memory.
#[derive(Debug)]
struct FromMemory {
    /// What was last known, with that.
    kept: Kept,
    telling: Telling,
    /// The alarm.
    entry: AlarmEntry,
    is_over: bool,
}

/// What was seen when the others were asked.
enum Look {
    /// Another node follows the metadata.
    Followed,
    /// It is for another node to tell.
    ForAnother,
    /// Nobody follows it, since then.
    Lost(Since),
}

/// Since when, in milliseconds since 1970 (UTC), and how it is told.
type Since = (u64, String);

impl Vigil {
    /// The node of this process has steered, and looked last with this.
    pub(crate) fn led(&mut self, controller: &Controller, watch: AlarmWatch) {
        if let Some(kept) = watch.into_last() {
            self.known = Some(LastKnown {
                kept,
                read: Instant::now(),
                leader: NodeId(controller.number()),
            });
        }
    }

    /// The metadata answers, and this node steers, or did until now.
    pub(crate) async fn answered(&mut self, controller: &Controller, leader: NodeId) {
        self.is_not_known();
        if !self.has_put_on_record(controller).await {
            return;
        }
        match &mut self.known {
            Some(known) if known.read.elapsed() < READ_PAUSE => known.leader = leader,
            known => {
                if let Ok(kept) = controller.alarms_kept().await {
                    let read = Instant::now();
                    *known = Some(LastKnown { kept, read, leader });
                }
            }
        }
    }

    /// It answers, and it is not known whether anybody steers.
    pub(crate) fn is_not_known(&mut self) {
        (self.lost, self.back) = (None, None);
    }

    /// It does not answer.
    pub(crate) async fn is_away(&mut self, controller: &Controller) {
        if controller.may_steer() == Steering::NoNode {
            return;
        }
        let Some(known) = &self.known else {
            return;
        };
        let lost = *self.lost.get_or_insert_with(Instant::now);
        let Some(threshold) = rule_of(&known.kept.rules, KIND) else {
            return;
        };
        let hold = Duration::from_millis(threshold.hold_ms());
        let rests = self.asked.is_some_and(|it| it.elapsed() < ASK_PAUSE);
        if lost.elapsed() >= hold && !rests {
            let look = look(controller, known.leader, lost).await;
            self.asked = Some(Instant::now());
            self.note(look, hold);
        }
        if let Some(told) = &mut self.told {
            told.telling.pass(controller, &told.kept);
        }
    }

    /// Takes in how it stands.
    fn note(&mut self, look: Look, hold: Duration) {
        match look {
            Look::ForAnother => self.back = None,
            Look::Followed => {
                // It is counted anew.
                self.lost = None;
                let back = *self.back.get_or_insert_with(Instant::now);
                if back.elapsed() >= hold
                    && let Some(told) = &mut self.told
                {
                    told.end();
                }
            }
            Look::Lost(since) => {
                self.back = None;
                self.raise(since);
            }
        }
    }

    fn raise(&mut self, since: Since) {
        let kept = match (&self.told, &self.known) {
            (Some(told), _) if !told.is_over => return,
            // It was over in between.
            (Some(told), _) => &told.kept,
            (None, Some(known)) => &known.kept,
            (None, None) => return,
        };
        self.told = FromMemory::new(kept, since);
    }

    /// Puts on record what was told from memory, as told to those who were. Answers whether nothing is left to be.
    pub(crate) async fn has_put_on_record(&mut self, controller: &Controller) -> bool {
        let Some(told) = &self.told else {
            return true;
        };
        let put = controller.change_alarms(|kept| {
            told.put(kept);
            Ok(())
        });
        if let Err(problem) = put.await {
            tracing::debug!(%problem, "put on record that the metadata was lost");
            return false;
        }
        self.told = None;
        true
    }
}

impl FromMemory {
    /// Beside what was last known, of which everybody counts as told. Nothing where the alarm is raised already, on record.
    fn new(kept: &Kept, (since_ms, detail): Since) -> Option<Self> {
        let mut kept = kept.clone();
        let names = kept.receivers.receivers.keys().cloned();
        let until = kept.alarms.changes;
        kept.alarms.told = names.map(|name| (name, until)).collect();
        raise_alone(&mut kept.alarms, KIND, SUBJECT, &detail, since_ms)?;
        let entry = kept.alarms.raised.last()?.clone();
        tracing::error!(alarm = entry.id, "alarm: {}", words(&entry));
        Some(Self {
            kept,
            telling: Telling::from_memory(),
            entry,
            is_over: false,
        })
    }

    /// Others follow the metadata.
    fn end(&mut self) {
        if !self.is_over {
            end_alone(&mut self.kept.alarms, self.entry.id, unix_ms());
            tracing::info!(
                alarm = self.entry.id,
                "alarm is over: {}",
                words(&self.entry)
            );
        }
        self.is_over = true;
    }

    /// Puts it on record.
    fn put(&self, kept: &mut Kept) {
        let AlarmEntry { id, raised_ms, .. } = self.entry;
        let detail = &self.entry.detail;
        let number = raise_alone(&mut kept.alarms, KIND, SUBJECT, detail, raised_ms);
        let Some(number) = number else {
            return;
        };
        if self.is_over {
            end_alone(&mut kept.alarms, number, unix_ms());
        }
        // Where something else has its number, it is told once more, by whoever steers.
        if number != id {
            return;
        }
        for (name, record) in &kept.receivers.receivers {
            let has_told = |change| self.telling.has_told(name, record, change);
            let until = (id..=kept.alarms.changes).rfind(|change| has_told(*change));
            let told = kept.alarms.told.get_mut(name);
            // Who was not told of what was before is told of all.
            if let (Some(until), Some(told)) = (until, told)
                && *told + 1 == id
            {
                *told = until;
            }
        }
    }
}

/// Asks the others whether they follow the metadata, which this node has not reached since `lost`.
async fn look(controller: &Controller, leader: NodeId, lost: Instant) -> Look {
    let own = NodeId(controller.number());
    let records = controller.known_nodes.records();
    let follows = |reports: &Reports| {
        let mut nodes = records.iter().map(|it| reports.metadata(it.node));
        nodes.any(|it| it == Some(LocalMetadata::Followed))
    };
    if let Some(record) = records.iter().find(|it| it.node == leader && leader != own) {
        let reports = ask(controller, [record]).await;
        if follows(&reports) {
            return Look::Followed;
        }
        if reports.is_registered(leader) {
            return Look::ForAnother;
        }
    }
    let reports = ask(controller, &records).await;
    if follows(&reports) {
        return Look::Followed;
    }
    let mut tells = std::iter::once(leader).chain(after(&records, leader));
    // One that has started since knows nothing.
    let first = tells.find(|node| *node == own || reports.is_registered(*node));
    if first.is_some_and(|first| first != own) {
        return Look::ForAnother;
    }
    let since_ms = unix_ms().saturating_sub(lost.elapsed().as_millis() as u64);
    let detail = nobody_follows(&reports, &records, own, since_ms);
    Look::Lost((since_ms, detail))
}

async fn ask(controller: &Controller, nodes: impl IntoIterator<Item = &NodeRecord>) -> Reports {
    let ask = Reports::collect(nodes, controller.report(), controller.connector.as_ref());
    controller.looks.unseen(ask).await
}

#[cfg(test)]
mod tests {
    use holdfast_model::record::{AlarmsRecord, ReceiverRecord, ReceiverWay, ReceiversRecord};
    use tokio::time::sleep;

    use super::*;

    const HOLD: Duration = Duration::from_secs(30);

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

    /// Two receivers, after so many changes, of which the second has been told of one less.
    fn kept(changes: u64) -> Kept {
        let receivers = ["first", "second"].map(|name| (name.to_owned(), hook()));
        let told = [("first", changes), ("second", changes - 1)];
        Kept {
            alarms: AlarmsRecord {
                changes,
                told: told.map(|(name, told)| (name.to_owned(), told)).into(),
                ..AlarmsRecord::default()
            },
            receivers: ReceiversRecord {
                receivers: receivers.into(),
                ..ReceiversRecord::default()
            },
            ..Kept::default()
        }
    }

    fn since() -> Since {
        (7000, "n1 has not reached it".to_owned())
    }

    fn vigil() -> Vigil {
        let known = LastKnown {
            kept: kept(5),
            read: Instant::now(),
            leader: NodeId(1),
        };
        Vigil {
            known: Some(known),
            ..Vigil::default()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn it_is_told_once_and_is_over_when_others_have_followed_for_long_enough() {
        let mut vigil = vigil();
        vigil.note(Look::ForAnother, HOLD);
        vigil.note(Look::Followed, HOLD);
        assert!(vigil.told.is_none());
        vigil.note(Look::Lost(since()), HOLD);
        let told = vigil.told.as_ref().unwrap();
        assert_eq!((told.entry.id, &*told.entry.subject), (6, "cluster"));
        // Of what was before nobody is told from memory.
        assert!(told.kept.alarms.told.values().all(|it| *it == 5));
        vigil.note(Look::Lost(since()), HOLD);
        assert_eq!(vigil.told.as_ref().unwrap().kept.alarms.changes, 6);
        let is_over = |vigil: &Vigil| vigil.told.as_ref().unwrap().is_over;
        vigil.note(Look::Followed, HOLD);
        sleep(HOLD / 2).await;
        vigil.note(Look::Lost(since()), HOLD);
        sleep(HOLD / 2).await;
        vigil.note(Look::Followed, HOLD);
        assert!(!is_over(&vigil), "not for long enough");
        sleep(HOLD).await;
        vigil.note(Look::Followed, HOLD);
        assert!(is_over(&vigil));
        assert_eq!(vigil.told.as_ref().unwrap().kept.alarms.changes, 7);
        // Lost again, it is another one.
        vigil.note(Look::Lost(since()), HOLD);
        let told = vigil.told.as_ref().unwrap();
        assert_eq!((told.entry.id, told.is_over), (8, false));
        // What is raised on record already was told.
        let mut known = kept(5);
        let (since_ms, detail) = since();
        raise_alone(&mut known.alarms, KIND, SUBJECT, &detail, since_ms).unwrap();
        assert!(FromMemory::new(&known, since()).is_none());
    }

    #[tokio::test]
    async fn it_is_put_on_record_as_told_to_those_who_were() {
        let told_until = |kept: &Kept, name: &str| kept.alarms.told[name];
        for is_over in [false, true] {
            let mut told = FromMemory::new(&kept(5), since()).unwrap();
            told.telling = Telling::having_told("first", &hook(), 6);
            if is_over {
                told.end();
            }
            let mut then = kept(5);
            told.put(&mut then);
            let (raised, cleared) = (&then.alarms.raised, &then.alarms.cleared);
            assert_eq!(
                (raised.len(), cleared.len()),
                (1 - usize::from(is_over), usize::from(is_over))
            );
            let entry = raised.first().or(cleared.first()).unwrap();
            assert_eq!((entry.id, entry.raised_ms), (6, 7000));
            // That it is over is told by whoever steers.
            assert_eq!(told_until(&then, "first"), 6);
            assert_eq!(told_until(&then, "second"), 4);
            // Whoever else told it finds it there.
            let before = then.alarms.raised.clone();
            told.put(&mut then);
            assert_eq!(then.alarms.raised, before);
        }
        // One that was told of both.
        let mut told = FromMemory::new(&kept(5), since()).unwrap();
        told.telling = Telling::having_told("first", &hook(), 7);
        told.end();
        let mut then = kept(5);
        told.put(&mut then);
        assert_eq!(told_until(&then, "first"), 7);
        // One that was told of something before may not know that.
        let mut told = FromMemory::new(&kept(5), since()).unwrap();
        told.telling = Telling::having_told("second", &hook(), 6);
        let mut then = kept(5);
        told.put(&mut then);
        assert_eq!(told_until(&then, "second"), 4);
        // Where another alarm has its number, it is told under its own.
        told.telling = Telling::having_told("first", &hook(), 6);
        let mut then = kept(6);
        then.alarms.told.insert("first".to_owned(), 5);
        told.put(&mut then);
        assert_eq!(then.alarms.raised[0].id, 7);
        assert_eq!(told_until(&then, "first"), 5);
    }
}
