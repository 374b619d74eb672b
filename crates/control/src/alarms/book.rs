//! The alarms that are raised: from what is seen of all subjects, what is put on record.
//!
//! Invariants:
//! - a subject and a kind have one alarm at a time;
//! - what is over because its subject is gone, or its kind was put off, is cleared at once, and says so: it may not be well;
//! - what is said of an alarm follows what is seen while it is bad, at a bounded pace, and is what was seen last when it is over;
//! - of one that is well and not over yet, as it might come back, that is said;
//! - what another version raised, of a kind that is not known here, is left to that version;
//! - so many are raised at most, and so many of the past are kept.

use alloc::borrow::ToOwned;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use holdfast_model::metadata::VALUE_LENGTH_MAX;
use holdfast_model::record::{
    AlarmEntry, AlarmRule, AlarmRulesRecord, AlarmsRecord, Clearing, Record,
};

use super::{AlarmChange, AlarmKind, AlarmSeverity, AlarmState, Threshold};

/// Alarms that are raised at a time, at most: more say nothing that these do not.
pub const RAISED_MAX: usize = 512;
/// Of these, places that only critical ones get.
pub const CRITICAL_PLACES: usize = 128;
/// Alarms that are kept when they are over, at most.
pub const CLEARED_MAX: usize = 256;
/// Bytes of the document, at most: the metadata takes no larger one ([`VALUE_LENGTH_MAX`]), and there is to be room for notes.
pub const RECORD_BYTES_MAX: usize = VALUE_LENGTH_MAX / 8 * 7;

/// Between two looks by which what is said of raised alarms follows what is seen, in milliseconds at least: a value that is another
/// one each second costs the metadata a write a minute, however many alarms there are.
const FOLLOW_PAUSE_MS: u64 = 60_000;

/// What the detail of an alarm ends with that is told as over, and may not be: its kind was put off.
const PUT_OFF: &str = "alarms of this kind were put off: it may still be so";
/// And of one whose subject is no more.
const GONE: &str = "what it was about is no more";

/// And of one that is raised still, and is well: before for how long that has to last.
const WELL: &str = "it is well again, and over when that has lasted for ";
/// For how long it has to be well for that to be said, in milliseconds: what comes and goes with each look is not.
const WELL_SAID_AFTER_MS: u64 = 2000;
/// Between two looks by which alarms say that, in milliseconds at least: what comes and goes more slowly costs the metadata two
/// writes each time, as what is not well any more is not said for a moment longer.
const WELL_SAID_PAUSE_MS: u64 = 5000;
/// Between what was seen and what came of it.
const THEN: &str = " - ";

/// What is seen of a subject.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observation {
    /// The value; none if it cannot be seen now.
    pub value: Option<u64>,
    /// What there is to know if that is bad.
    pub detail: String,
}

/// What is seen of every subject that there is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observations {
    /// By kind and subject. A subject that is not in it is no more.
    pub seen: BTreeMap<(AlarmKind, String), Observation>,
    /// What says nothing of what is on it: "node n1". Of "device 2 of node n1" it is not known then whether it is no more.
    pub silent: BTreeSet<String>,
}

impl Observations {
    fn is_gone(&self, kind: AlarmKind, subject: &str) -> bool {
        let is_on = |silent: &String| subject.ends_with(silent.as_str());
        !self.seen.contains_key(&(kind, subject.to_owned())) && !self.silent.iter().any(is_on)
    }
}

/// When something is seen, by two clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// Milliseconds of a clock that nobody sets: hold times are counted by it.
    pub steady_ms: u64,
    /// Milliseconds since 1970 (UTC): what is put on record.
    pub wall_ms: u64,
}

/// Where alarms are that are neither raised for good nor cleared for good.
#[derive(Clone, Debug, Default)]
pub struct AlarmBook {
    states: BTreeMap<(AlarmKind, String), AlarmState>,
    /// When it was first looked, by the steady clock.
    began_ms: Option<u64>,
    /// When what is said of raised alarms last followed what is seen, by the steady clock.
    followed_ms: Option<u64>,
    /// When alarms last said that they are well, by the steady clock.
    said_ms: Option<u64>,
}

/// The threshold that is in force for a kind; none if alarms of it are off. A rule that makes no sense, which another
/// version may have let be, is as none.
#[must_use]
pub fn rule_of(rules: &AlarmRulesRecord, kind: AlarmKind) -> Option<Threshold> {
    let Some(rule) = rules.rules.get(kind.text().code) else {
        return Some(kind.threshold());
    };
    let hold_ms = rule.hold_seconds.saturating_mul(1000);
    let set = Threshold::new(kind.direction(), rule.set, rule.clear, hold_ms);
    (!rule.is_off).then(|| set.unwrap_or_else(|_| kind.threshold()))
}

/// Forgets what has been over for longest, until the document has a size that the metadata takes.
pub fn bound_alarms(record: &mut AlarmsRecord) {
    while record.encode().len() > RECORD_BYTES_MAX && !record.cleared.is_empty() {
        let surplus = record.cleared.len().div_ceil(4);
        record.cleared.drain(..surplus);
    }
}

/// How many changes after `told` are on record no more: alarms that were raised, or over, and were forgotten before somebody who
/// had been told until `told` could be told of them. One that was raised and over since counts twice.
#[must_use]
pub fn forgotten_changes(record: &AlarmsRecord, told: u64) -> u64 {
    let all = record.raised.iter().chain(&record.cleared);
    let numbers = all.flat_map(|entry| {
        let cleared = entry.cleared.as_ref().map(|it| it.change);
        [Some(entry.id), cleared].into_iter().flatten()
    });
    let kept = numbers.filter(|number| *number > told).count() as u64;
    record.changes.saturating_sub(told).saturating_sub(kept)
}

/// The rule that says of a kind what is so as long as nobody has set it otherwise.
#[must_use]
pub fn default_rule(kind: AlarmKind) -> AlarmRule {
    let threshold = kind.threshold();
    AlarmRule {
        is_off: false,
        set: threshold.set(),
        clear: threshold.clear(),
        hold_seconds: threshold.hold_ms() / 1000,
    }
}

/// Raises an alarm without a book: for whoever tells of it from memory, and puts it on record later. `raised_ms` is since when it is
/// so, in milliseconds since 1970 (UTC). Returns its number; none where one of that kind and subject is raised already, or there is no
/// place for it.
pub fn raise_alone(
    record: &mut AlarmsRecord,
    kind: AlarmKind,
    subject: &str,
    detail: &str,
    raised_ms: u64,
) -> Option<u64> {
    let code = kind.text().code;
    let is_it = |it: &AlarmEntry| it.kind == code && it.subject == subject;
    if record.raised.iter().any(is_it) || !has_place(record, kind) {
        return None;
    }
    raise(record, code, subject, detail, raised_ms);
    Some(record.changes)
}

/// Ends an alarm without a book, at a time in milliseconds since 1970 (UTC), if it is raised.
pub fn end_alone(record: &mut AlarmsRecord, id: u64, at_ms: u64) {
    if let Some(place) = record.raised.iter().position(|it| it.id == id) {
        clear(record, place, at_ms);
    }
}

/// Whether there is a place for another alarm of that kind.
fn has_place(record: &AlarmsRecord, kind: AlarmKind) -> bool {
    let places = match kind.text().severity {
        AlarmSeverity::Critical => RAISED_MAX,
        AlarmSeverity::Warning => RAISED_MAX - CRITICAL_PLACES,
    };
    record.raised.len() < places
}

impl AlarmBook {
    /// Takes in what is seen. Returns the record as it is then, if that is another one.
    #[must_use]
    pub fn observe(
        &mut self,
        record: &AlarmsRecord,
        rules: &AlarmRulesRecord,
        now: Moment,
        seen: &Observations,
    ) -> Option<AlarmsRecord> {
        self.began_ms.get_or_insert(now.steady_ms);
        let mut then = record.clone();
        self.end_what_is_gone(&mut then, rules, now, seen);
        self.states
            .retain(|(kind, subject), _| !seen.is_gone(*kind, subject));
        self.lose_sight(seen);
        for ((kind, subject), observation) in &seen.seen {
            let (Some(threshold), Some(value)) = (rule_of(rules, *kind), observation.value) else {
                continue;
            };
            let code = kind.text().code;
            let place = then
                .raised
                .iter()
                .position(|it| it.kind == code && it.subject == *subject);
            let key = (*kind, subject.clone());
            let mut state = match (self.states.get(&key), place) {
                (Some(state), place) if state.is_raised() == place.is_some() => *state,
                // Somebody else raised it, or it was cleared there.
                (_, Some(_)) => AlarmState::Raised {
                    since_ms: now.steady_ms,
                },
                (_, None) => AlarmState::Clear,
            };
            let since_ms = match state {
                AlarmState::Rising { since_ms } => since_ms,
                _ => now.steady_ms,
            };
            match (state.observe(now.steady_ms, value, threshold), place) {
                (Some(AlarmChange::Raised), _) if has_place(&then, *kind) => {
                    let held = now.steady_ms.saturating_sub(since_ms);
                    self.followed_ms = Some(now.steady_ms);
                    raise(
                        &mut then,
                        code,
                        subject,
                        &observation.detail,
                        now.wall_ms.saturating_sub(held),
                    );
                }
                // There is no room to put it on record: it is tried again.
                (Some(AlarmChange::Raised), _) => state = AlarmState::Rising { since_ms },
                (Some(AlarmChange::Cleared), Some(place)) => {
                    over(&mut then, place, now.wall_ms, threshold);
                }
                (Some(AlarmChange::Cleared) | None, _) => {}
            }
            match state {
                AlarmState::Clear => self.states.remove(&key),
                state => self.states.insert(key, state),
            };
        }
        self.follow(&mut then, now, seen);
        self.say_what_is_well(&mut then, rules, now, seen);
        if then == *record {
            return None;
        }
        bound_alarms(&mut then);
        Some(then)
    }

    /// Takes in what is seen by one who may not put anything on record yet: for how long it has been bad counts once he may.
    pub fn look_on(
        &mut self,
        record: &AlarmsRecord,
        rules: &AlarmRulesRecord,
        now: Moment,
        seen: &Observations,
    ) {
        self.began_ms.get_or_insert(now.steady_ms);
        self.states
            .retain(|(kind, subject), _| !seen.is_gone(*kind, subject));
        for ((kind, subject), observation) in &seen.seen {
            let (Some(threshold), Some(value)) = (rule_of(rules, *kind), observation.value) else {
                continue;
            };
            let is_it = |it: &AlarmEntry| it.kind == kind.text().code && it.subject == *subject;
            let key = (*kind, subject.clone());
            if threshold.sets(value) && !record.raised.iter().any(is_it) {
                let since_ms = now.steady_ms;
                let state = self.states.entry(key);
                state.or_insert(AlarmState::Rising { since_ms });
            } else {
                self.states.remove(&key);
            }
        }
    }

    /// What is bad, and for how many milliseconds, that has not been for long enough to be raised.
    pub fn rising(&self, now: Moment) -> impl Iterator<Item = (AlarmKind, &str, u64)> {
        let states = self.states.iter();
        states.filter_map(move |((kind, subject), state)| match state {
            AlarmState::Rising { since_ms } => {
                let held_ms = now.steady_ms.saturating_sub(*since_ms);
                Some((*kind, subject.as_str(), held_ms))
            }
            _ => None,
        })
    }

    /// Whoever looked before saw something be bad for so many milliseconds until the end: that counts if it was at the first look
    /// here, and has been since. What was in between is not known, and does not count.
    pub fn count_in(&mut self, kind: AlarmKind, subject: &str, held_ms: u64) {
        let state = self.states.get_mut(&(kind, subject.to_owned()));
        if let Some(AlarmState::Rising { since_ms }) = state
            && Some(*since_ms) == self.began_ms
        {
            *since_ms = since_ms.saturating_sub(held_ms);
        }
    }

    /// What is not seen is not known to be well all the while. A device that does little gives no figure, and is no worse for that: one that
    /// works now and then would never be over.
    fn lose_sight(&mut self, seen: &Observations) {
        for (key, state) in &mut self.states {
            let may_rest = key.0 == AlarmKind::DeviceSlow;
            let observation = seen.seen.get(key);
            if observation.is_none_or(|it| it.value.is_none() && !may_rest) {
                state.lose_sight();
            }
        }
    }

    /// Has what is said of raised alarms be what is seen now, where that is still bad.
    fn follow(&mut self, then: &mut AlarmsRecord, now: Moment, seen: &Observations) {
        let is_due = |at: u64| now.steady_ms.saturating_sub(at) >= FOLLOW_PAUSE_MS;
        if !self.followed_ms.is_none_or(is_due) {
            return;
        }
        for entry in &mut then.raised {
            let Some(kind) = AlarmKind::of(&entry.kind) else {
                continue;
            };
            let key = (kind, entry.subject.clone());
            let is_bad = matches!(self.states.get(&key), Some(AlarmState::Raised { .. }));
            let observation = seen.seen.get(&key).filter(|it| it.value.is_some());
            let detail = observation.map(|it| &it.detail).filter(|_| is_bad);
            if let Some(detail) = detail.filter(|it| !it.is_empty() && **it != entry.detail) {
                entry.detail.clone_from(detail);
                self.followed_ms = Some(now.steady_ms);
            }
        }
    }

    /// Has raised alarms say whether what they are about is seen to be well by now: of what is not seen nobody knows.
    fn say_what_is_well(
        &mut self,
        then: &mut AlarmsRecord,
        rules: &AlarmRulesRecord,
        now: Moment,
        seen: &Observations,
    ) {
        let is_due = |at: u64| now.steady_ms.saturating_sub(at) >= WELL_SAID_PAUSE_MS;
        let is_due = self.said_ms.is_none_or(is_due);
        let raised = then.raised.iter().enumerate();
        let other: Vec<(usize, Option<String>)> = raised
            .filter_map(|(place, entry)| {
                let well = self.well_of(entry, rules, now, seen)?;
                let is_said = match &well {
                    Some(well) => entry.detail.ends_with(well.as_str()),
                    None => !entry.detail.contains(WELL),
                };
                let is_in_time = is_due || well.is_none();
                (is_in_time && !is_said).then_some((place, well))
            })
            .collect();
        if other.is_empty() {
            return;
        }
        if other.iter().any(|(_, well)| well.is_some()) {
            self.said_ms = Some(now.steady_ms);
        }
        // What is over gives way to it, and what is raised does not.
        let raised = AlarmsRecord {
            cleared: Vec::new(),
            ..then.clone()
        };
        let mut room = RECORD_BYTES_MAX.saturating_sub(raised.encode().len());
        for (place, well) in other {
            let entry = &mut then.raised[place];
            unsay_well(entry);
            if let Some(well) = well.filter(|well| THEN.len() + well.len() <= room) {
                room -= THEN.len() + well.len();
                end_with(entry, &well);
            }
        }
    }

    /// What an alarm is to say of how well it is. One stays as it is that has been well for too short, or is of a kind that is not known.
    fn well_of(
        &self,
        entry: &AlarmEntry,
        rules: &AlarmRulesRecord,
        now: Moment,
        seen: &Observations,
    ) -> Option<Option<String>> {
        let kind = AlarmKind::of(&entry.kind)?;
        let key = (kind, entry.subject.clone());
        let is_seen = seen.seen.get(&key).is_some_and(|it| it.value.is_some());
        let (true, Some(AlarmState::Falling { better_ms, .. })) = (is_seen, self.states.get(&key))
        else {
            return Some(None);
        };
        let seconds = rule_of(rules, kind)?.hold_ms() / 1000;
        let lasts = now.steady_ms.saturating_sub(*better_ms);
        (lasts >= WELL_SAID_AFTER_MS).then(|| Some(format!("{WELL}{seconds} s")))
    }

    fn end_what_is_gone(
        &self,
        then: &mut AlarmsRecord,
        rules: &AlarmRulesRecord,
        now: Moment,
        seen: &Observations,
    ) {
        let mut place = 0;
        while let Some(entry) = then.raised.get(place) {
            let why = AlarmKind::of(&entry.kind).and_then(|kind| {
                let is_off = rule_of(rules, kind).is_none();
                let is_gone = seen.is_gone(kind, &entry.subject);
                is_off.then_some(PUT_OFF).or(is_gone.then_some(GONE))
            });
            match why {
                Some(why) => {
                    end_with(&mut then.raised[place], why);
                    clear(then, place, now.wall_ms);
                }
                None => place += 1,
            }
        }
    }
}

fn raise(record: &mut AlarmsRecord, code: &str, subject: &str, detail: &str, raised_ms: u64) {
    record.changes += 1;
    record.raised.push(AlarmEntry {
        id: record.changes,
        kind: code.to_owned(),
        subject: subject.to_owned(),
        detail: detail.to_owned(),
        raised_ms,
        cleared: None,
        acknowledged: None,
    });
}

/// It has been well for long enough, and that is said: whoever reads when the alarm was over is not to take it for when
/// it was well.
fn over(record: &mut AlarmsRecord, place: usize, at_ms: u64, threshold: Threshold) {
    let seconds = threshold.hold_ms() / 1000;
    if seconds > 0 {
        end_with(
            &mut record.raised[place],
            &format!("it has been well again for {seconds} s"),
        );
    }
    clear(record, place, at_ms);
}

fn end_with(entry: &mut AlarmEntry, what: &str) {
    unsay_well(entry);
    if !entry.detail.is_empty() {
        entry.detail.push_str(THEN);
    }
    entry.detail.push_str(what);
}

/// Whether an alarm that says this is about something that is seen to be well again, and is over when that has lasted.
#[must_use]
pub fn says_well(detail: &str) -> bool {
    detail.contains(WELL)
}

fn unsay_well(entry: &mut AlarmEntry) {
    if let Some(place) = entry.detail.find(WELL) {
        let seen = &entry.detail[..place];
        let length = seen.strip_suffix(THEN).unwrap_or(seen).len();
        entry.detail.truncate(length);
    }
}

fn clear(record: &mut AlarmsRecord, place: usize, at_ms: u64) {
    record.changes += 1;
    let mut entry = record.raised.remove(place);
    entry.cleared = Some(Clearing {
        change: record.changes,
        at_ms,
    });
    if record.cleared.len() >= CLEARED_MAX {
        record.cleared.remove(0);
    }
    record.cleared.push(entry);
}

#[cfg(test)]
mod tests {
    use holdfast_model::record::Acknowledgement;

    use super::*;

    const FULL: AlarmKind = AlarmKind::PoolAlmostFull;
    const LOST: AlarmKind = AlarmKind::NodeLost;

    fn seen(all: &[(AlarmKind, &str, Option<u64>)]) -> Observations {
        let all = all.iter().map(|(kind, subject, value)| {
            let observation = Observation {
                value: *value,
                detail: format!("{subject} is at {value:?}"),
            };
            ((*kind, (*subject).to_owned()), observation)
        });
        Observations {
            seen: all.collect(),
            silent: BTreeSet::new(),
        }
    }

    /// A cluster whose clock goes on by a second with each look.
    #[derive(Default)]
    struct Bench {
        book: AlarmBook,
        record: AlarmsRecord,
        rules: AlarmRulesRecord,
        seconds: u64,
    }

    impl Bench {
        fn look(&mut self, all: &[(AlarmKind, &str, Option<u64>)]) -> bool {
            self.observe(&seen(all))
        }

        fn observe(&mut self, seen: &Observations) -> bool {
            self.seconds += 1;
            let now = Moment {
                steady_ms: self.seconds * 1000,
                wall_ms: 1_000_000 + self.seconds * 1000,
            };
            let then = self.book.observe(&self.record, &self.rules, now, seen);
            let is_other = then.is_some();
            self.record = then.unwrap_or_else(|| self.record.clone());
            is_other
        }

        /// So many looks at the same.
        fn looks(&mut self, times: usize, seen: &Observations) {
            for _ in 0..times {
                self.observe(seen);
            }
        }

        fn raised(&self) -> usize {
            self.record.raised.len()
        }
    }

    #[test]
    fn an_alarm_is_raised_once_and_moves_to_the_past() {
        let mut bench = Bench::default();
        assert!(!bench.look(&[(FULL, "node n1", Some(94))]));
        assert!(bench.look(&[(FULL, "node n1", Some(96))]));
        let entry = bench.record.raised[0].clone();
        assert_eq!(
            (entry.id, &*entry.kind, &*entry.subject),
            (1, "pool-almost-full", "node n1")
        );
        assert_eq!(
            (entry.raised_ms, &*entry.detail),
            (1_002_000, "node n1 is at Some(96)")
        );
        assert!(!bench.look(&[(FULL, "node n1", Some(97))]));
        assert!(!bench.look(&[(FULL, "node n1", Some(93))]), "hysteresis");
        assert!(!bench.look(&[(FULL, "node n1", None)]), "it cannot be seen");
        assert!(bench.look(&[(FULL, "node n1", Some(92))]));
        assert_eq!(bench.raised(), 0);
        let clearing = bench.record.cleared[0].cleared.clone().unwrap();
        assert_eq!((clearing.change, clearing.at_ms), (2, 1_006_000));
    }

    #[test]
    fn since_when_it_is_so_is_on_record_and_not_when_it_was_raised() {
        let mut bench = Bench::default();
        for _ in 0..10 {
            assert!(!bench.look(&[(LOST, "node n1", Some(1))]));
        }
        assert!(bench.look(&[(LOST, "node n1", Some(1))]));
        assert_eq!(bench.record.raised[0].raised_ms, 1_001_000);
    }

    #[test]
    fn what_is_said_follows_what_is_seen_while_it_is_bad_and_once_a_minute_at_most() {
        let mut bench = Bench::default();
        let detail = |bench: &Bench| bench.record.raised[0].detail.clone();
        assert!(bench.look(&[(FULL, "node n1", Some(95))]));
        let changed = bench.record.changes;
        for _ in 0..59 {
            assert!(!bench.look(&[(FULL, "node n1", Some(98))]), "so soon");
        }
        assert!(bench.look(&[(FULL, "node n1", Some(98))]));
        assert_eq!(detail(&bench), "node n1 is at Some(98)");
        assert_eq!(bench.record.changes, changed, "nobody is told anew");
        bench.seconds += 60;
        assert!(!bench.look(&[(FULL, "node n1", None)]), "it is not seen");
        // Another one who steers goes on with it.
        bench.book = AlarmBook::default();
        assert!(bench.look(&[(FULL, "node n1", Some(94))]), "hysteresis");
        assert_eq!(detail(&bench), "node n1 is at Some(94)");
        // What is better now is not what the alarm was about.
        bench.rules.rules.insert("pool-almost-full".to_owned(), {
            let hold_seconds = 5;
            AlarmRule {
                hold_seconds,
                ..default_rule(FULL)
            }
        });
        bench.seconds += 60;
        assert!(!bench.look(&[(FULL, "node n1", Some(9))]));
        assert_eq!(detail(&bench), "node n1 is at Some(94)");
    }

    #[test]
    fn what_each_alarm_says_rests_for_a_minute_when_it_is_raised() {
        let mut bench = Bench::default();
        assert!(bench.look(&[(FULL, "node n1", Some(95))]));
        bench.seconds += 600;
        let both = |second| [(FULL, "node n1", Some(95)), (FULL, "node n2", Some(second))];
        assert!(bench.look(&both(95)));
        assert!(!bench.look(&both(96)), "so soon");
    }

    #[test]
    fn what_was_bad_while_nobody_could_raise_it_counts_for_whoever_may() {
        let mut bench = Bench::default();
        let look_on = |bench: &mut Bench, value| {
            bench.seconds += 1;
            let now = Moment {
                steady_ms: bench.seconds * 1000,
                wall_ms: 1_000_000 + bench.seconds * 1000,
            };
            let seen = seen(&[(LOST, "node n1", value)]);
            bench.book.look_on(&bench.record, &bench.rules, now, &seen);
        };
        for value in [1, 0, 1, 1] {
            look_on(&mut bench, Some(value));
        }
        for _ in 0..20 {
            look_on(&mut bench, None);
            look_on(&mut bench, Some(1));
        }
        assert!(bench.look(&[(LOST, "node n1", Some(1))]), "held long since");
        let raised_ms = bench.record.raised[0].raised_ms;
        assert_eq!(raised_ms, 1_003_000, "since it was bad without a pause");
        // What is on record is whoever's who steers.
        bench.book = AlarmBook::default();
        look_on(&mut bench, Some(1));
        assert!(!bench.look(&[(LOST, "node n1", Some(0))]));
        for _ in 0..10 {
            assert_eq!(bench.raised(), 1);
            bench.look(&[(LOST, "node n1", Some(0))]);
        }
        assert_eq!(bench.raised(), 0);
    }

    #[test]
    fn what_whoever_looked_before_has_seen_counts_where_it_is_bad_from_the_first_look_on() {
        let bad = [(LOST, "node n1", Some(1)), (LOST, "node n2", Some(1))];
        let mut before = Bench::default();
        before.look(&bad[..1]);
        for _ in 0..6 {
            before.look(&bad);
        }
        let now = Moment {
            steady_ms: before.seconds * 1000,
            wall_ms: 0,
        };
        let held: Vec<_> = before.book.rising(now).collect();
        assert_eq!(held, [(LOST, "node n1", 6000), (LOST, "node n2", 5000)]);
        let mut after = Bench {
            seconds: 100,
            ..Bench::default()
        };
        after.look(&bad[..1]);
        // The other one is bad again, and was not for a moment.
        after.look(&bad);
        for (kind, subject, held_ms) in held {
            after.book.count_in(kind, subject, held_ms);
        }
        for _ in 0..2 {
            assert!(!after.look(&bad));
        }
        assert!(after.look(&bad), "6 s and 4 s are enough");
        assert_eq!(after.record.raised[0].subject, "node n1");
        assert_eq!(after.record.raised[0].raised_ms, 1_095_000);
        assert_eq!(after.raised(), 1);
    }

    #[test]
    fn what_is_over_says_for_how_long_it_has_been_well() {
        let mut bench = Bench::default();
        let lost = |value| [(LOST, "node n1", Some(value))];
        (0..10).for_each(|_| assert!(!bench.look(&lost(1))));
        assert!(bench.look(&lost(1)));
        let said = (0..10).filter(|_| bench.look(&lost(0))).count();
        assert_eq!((said, bench.raised()), (1, 1), "that it is well");
        assert!(bench.look(&lost(0)));
        let over = &bench.record.cleared[0];
        assert_eq!(
            over.detail,
            "node n1 is at Some(1) - it has been well again for 10 s"
        );
        // Without a time to hold there is nothing to say.
        assert!(bench.look(&[(FULL, "node n1", Some(96))]));
        assert!(bench.look(&[(FULL, "node n1", Some(1))]));
        assert_eq!(bench.record.cleared[1].detail, "node n1 is at Some(96)");
    }

    #[test]
    fn what_is_well_and_not_over_yet_says_so_until_it_is_bad_again() {
        let mut bench = Bench::default();
        let lost = |value| [(LOST, "node n1", Some(value))];
        let look = |bench: &mut Bench, value| {
            bench.look(&lost(value));
        };
        let detail = |bench: &Bench| bench.record.raised[0].detail.clone();
        (0..11).for_each(|_| look(&mut bench, 1));
        let changes = bench.record.changes;
        let well =
            "node n1 is at Some(1) - it is well again, and over when that has lasted for 10 s";
        assert!(!bench.look(&lost(0)), "it may be bad again at once");
        assert!(!bench.look(&lost(0)));
        assert!(bench.look(&lost(0)));
        assert_eq!(detail(&bench), well);
        assert!(!bench.look(&lost(0)), "it is said once");
        // Another one who steers leaves what is said.
        bench.book = AlarmBook::default();
        assert!(!bench.look(&lost(0)));
        assert!(bench.look(&lost(1)));
        assert_eq!(detail(&bench), "node n1 is at Some(1)");
        (0..3).for_each(|_| look(&mut bench, 0));
        assert_eq!(detail(&bench), well);
        assert_eq!(bench.record.changes, changes, "nobody is told anew");
        (0..8).for_each(|_| look(&mut bench, 0));
        let over = "node n1 is at Some(1) - it has been well again for 10 s";
        assert_eq!(bench.record.cleared[0].detail, over);
        (0..11).for_each(|_| look(&mut bench, 1));
        (0..3).for_each(|_| look(&mut bench, 0));
        bench.look(&[]);
        let gone = "node n1 is at Some(1) - what it was about is no more";
        assert_eq!(bench.record.cleared[1].detail, gone);
    }

    #[test]
    fn who_takes_over_raises_nothing_twice_and_clears_what_another_raised() {
        let mut bench = Bench::default();
        assert!(bench.look(&[(FULL, "node n1", Some(96))]));
        bench.book = AlarmBook::default();
        assert!(!bench.look(&[(FULL, "node n1", Some(96))]));
        bench.book = AlarmBook::default();
        assert!(bench.look(&[(FULL, "node n1", Some(10))]));
        assert_eq!(bench.raised(), 0);
    }

    #[test]
    fn what_is_raised_without_a_book_is_raised_once_and_ends_by_one() {
        let mut bench = Bench::default();
        let raise = |record: &mut AlarmsRecord| raise_alone(record, LOST, "cluster", "so", 7000);
        assert_eq!(raise(&mut bench.record), Some(1));
        assert_eq!(raise(&mut bench.record), None, "it is raised");
        let entry = &bench.record.raised[0];
        assert_eq!((&*entry.detail, entry.raised_ms), ("so", 7000));
        // Whoever has a book ends it as any other.
        let well = [(LOST, "cluster", Some(0))];
        let said = (0..10).filter(|_| bench.look(&well)).count();
        assert_eq!((said, bench.raised()), (1, 1), "that it is well");
        assert!(bench.look(&well));
        assert_eq!(raise(&mut bench.record), Some(3));
        end_alone(&mut bench.record, 2, 9000);
        assert_eq!(bench.raised(), 1, "that is another one");
        end_alone(&mut bench.record, 3, 9000);
        let over = bench.record.cleared.last().unwrap().cleared.as_ref();
        assert_eq!(
            over.map(|it| (it.change, it.at_ms)),
            Some((4, 9000)),
            "it has a number of its own"
        );
        for number in 0..RAISED_MAX {
            let subject = format!("node {number}");
            raise_alone(&mut bench.record, LOST, &subject, "", 0);
        }
        assert_eq!(bench.raised(), RAISED_MAX);
        assert_eq!(raise(&mut bench.record), None, "there is no place");
    }

    #[test]
    fn what_is_gone_or_put_off_is_over_and_what_is_not_known_stays() {
        let mut bench = Bench::default();
        assert!(bench.look(&[(FULL, "node n1", Some(96)), (FULL, "node n2", Some(96))]));
        let mut newer = bench.record.raised[0].clone();
        newer.kind = "of-tomorrow".to_owned();
        bench.record.raised.push(newer);
        assert!(bench.look(&[(FULL, "node n2", Some(96))]));
        assert_eq!(bench.raised(), 2);
        let why = |bench: &Bench| bench.record.cleared.last().unwrap().detail.clone();
        assert_eq!(
            why(&bench),
            "node n1 is at Some(96) - what it was about is no more"
        );
        let off = AlarmRule {
            is_off: true,
            set: 95,
            clear: 93,
            hold_seconds: 0,
        };
        bench.rules.rules.insert("pool-almost-full".to_owned(), off);
        assert!(bench.look(&[(FULL, "node n2", Some(96))]));
        assert!(why(&bench).ends_with("put off: it may still be so"));
        assert_eq!(bench.record.raised[0].kind, "of-tomorrow");
        assert!(!bench.look(&[(FULL, "node n2", Some(96))]), "it is off");
    }

    #[test]
    fn what_is_on_something_that_says_nothing_is_not_taken_for_gone() {
        let mut bench = Bench::default();
        let device = (FULL, "device 2 of node n1", Some(99));
        assert!(bench.look(&[device]));
        let silent = BTreeSet::from(["node n1".to_owned()]);
        assert!(!bench.observe(&Observations {
            silent,
            ..seen(&[])
        }));
        let other = BTreeSet::from(["node n11".to_owned()]);
        assert!(bench.observe(&Observations {
            silent: other,
            ..seen(&[])
        }));
        assert_eq!(bench.raised(), 0);
    }

    #[test]
    fn other_thresholds_are_in_force_and_those_that_make_no_sense_are_not() {
        let mut rules = AlarmRulesRecord::default();
        let rule = |set, clear| AlarmRule {
            is_off: false,
            set,
            clear,
            hold_seconds: 0,
        };
        rules
            .rules
            .insert("pool-almost-full".to_owned(), rule(50, 40));
        assert_eq!(rule_of(&rules, FULL).unwrap().set(), 50);
        rules
            .rules
            .insert("pool-almost-full".to_owned(), rule(50, 60));
        assert_eq!(rule_of(&rules, FULL), Some(FULL.threshold()));
    }

    /// A node that was lost, and has been well for so long that it is said.
    fn well() -> Bench {
        let mut bench = Bench::default();
        bench.looks(11, &seen(&[(LOST, "node n1", Some(1))]));
        bench.looks(3, &seen(&[(LOST, "node n1", Some(0))]));
        assert!(bench.record.raised[0].detail.contains(WELL));
        bench
    }

    /// Nobody knows how that node is, or it says nothing.
    fn unseen() -> [Observations; 2] {
        let nobody_knows = seen(&[(LOST, "node n1", None)]);
        let nobody_asks = Observations {
            silent: BTreeSet::from(["node n1".to_owned()]),
            ..seen(&[])
        };
        [nobody_knows, nobody_asks]
    }

    #[test]
    fn what_is_not_seen_is_not_said_to_be_well() {
        for seen in unseen() {
            let mut bench = well();
            bench.looks(5, &seen);
            let detail = &bench.record.raised[0].detail;
            assert_eq!(detail, "node n1 is at Some(1)");
            assert!(!bench.observe(&seen));
        }
    }

    #[test]
    fn what_was_not_seen_meanwhile_was_not_well_all_the_while() {
        for unseen in unseen() {
            let mut bench = well();
            bench.looks(10, &unseen);
            let up = seen(&[(LOST, "node n1", Some(0))]);
            bench.looks(10, &up);
            assert_eq!(bench.raised(), 1, "it has been well for 9 s");
            bench.observe(&up);
            assert_eq!(bench.raised(), 0);
        }
    }

    #[test]
    fn what_is_measured_seldom_is_over_all_the_same() {
        let mut bench = Bench::default();
        let slow = |value| seen(&[(AlarmKind::DeviceSlow, "device 0", value)]);
        bench.looks(121, &slow(Some(900)));
        assert_eq!(bench.raised(), 1);
        // It has done too little in the meantime to tell.
        bench.observe(&slow(Some(1)));
        bench.looks(119, &slow(None));
        let said = &bench.record.raised[0].detail;
        assert!(!said.contains(WELL), "it may hang: {said}");
        bench.observe(&slow(Some(1)));
        assert_eq!(bench.raised(), 0);
    }

    #[test]
    fn what_is_well_says_the_hold_time_that_is_in_force() {
        let mut bench = well();
        let rule = AlarmRule {
            hold_seconds: 3600,
            ..default_rule(LOST)
        };
        bench.rules.rules.insert("node-lost".to_owned(), rule);
        bench.looks(5, &seen(&[(LOST, "node n1", Some(0))]));
        let detail = &bench.record.raised[0].detail;
        assert!(detail.ends_with(&format!("{WELL}3600 s")), "{detail}");
        assert_eq!(detail.matches(WELL).count(), 1);
    }

    #[test]
    fn what_comes_and_goes_is_not_put_on_record_each_time() {
        let mut bench = well();
        let mut writes = 0;
        for second in 0..60 {
            let is_lost = u64::from(second % 4 == 3);
            writes += u64::from(bench.look(&[(LOST, "node n1", Some(is_lost))]));
        }
        assert_eq!(bench.raised(), 1);
        assert!(
            (1..=2 * 60_000 / WELL_SAID_PAUSE_MS).contains(&writes),
            "{writes}"
        );
    }

    #[test]
    fn there_is_room_for_what_is_raised_before_it_says_that_it_is_well() {
        let mut bench = Bench::default();
        let names: Vec<String> = (0..99).map(|number| format!("node {number:02}")).collect();
        let all = |value| -> Vec<(AlarmKind, &str, Option<u64>)> {
            names.iter().map(|name| (LOST, &**name, value)).collect()
        };
        bench.looks(11, &seen(&all(Some(1))));
        let room = RECORD_BYTES_MAX - bench.record.encode().len() - 1000;
        bench.record.raised[0].acknowledged = Some(Acknowledgement {
            by: String::new(),
            at_ms: 0,
            note: "n".repeat(room),
        });
        bench.looks(3, &seen(&all(Some(0))));
        assert!(bench.record.encode().len() <= RECORD_BYTES_MAX);
        let is_well = |entry: &&AlarmEntry| entry.detail.contains(WELL);
        let said = bench.record.raised.iter().filter(is_well).count();
        assert!((5..20).contains(&said), "{said}");
    }

    /// As long as names, words and notes can be.
    #[test]
    fn the_document_is_never_larger_than_the_metadata_takes() {
        let mut bench = Bench::default();
        let name = "v".repeat(63);
        let names: Vec<String> = (0..RAISED_MAX)
            .map(|number| format!("device 99999 of node {name}{number:05}"))
            .collect();
        let all = |value| -> Vec<(AlarmKind, &str, Option<u64>)> {
            names
                .iter()
                .map(|name| (FULL, &**name, Some(value)))
                .collect()
        };
        for _ in 0..4 {
            assert!(bench.look(&all(99)));
            assert_eq!(bench.raised(), RAISED_MAX);
            for entry in &mut bench.record.raised {
                entry.acknowledged = Some(Acknowledgement {
                    by: "u".repeat(64),
                    at_ms: u64::MAX,
                    note: "n".repeat(200),
                });
            }
            assert!(bench.look(&all(1)));
            assert!(bench.record.encode().len() <= RECORD_BYTES_MAX);
            assert!(!bench.record.cleared.is_empty());
        }
    }

    #[test]
    fn there_is_a_place_for_what_is_critical_however_many_warnings_there_are() {
        let mut bench = Bench::default();
        let names: Vec<String> = (0..RAISED_MAX).map(|it| format!("node {it}")).collect();
        let mut all: Vec<(AlarmKind, &str, Option<u64>)> = names
            .iter()
            .map(|name| (AlarmKind::StallBudget, &**name, Some(9999)))
            .collect();
        assert!(bench.look(&all));
        assert_eq!(bench.raised(), RAISED_MAX - CRITICAL_PLACES);
        all.push((FULL, "node n1", Some(99)));
        assert!(bench.look(&all));
        assert_eq!(bench.record.raised.last().unwrap().kind, "pool-almost-full");
    }

    #[test]
    fn neither_what_is_raised_nor_the_past_grows_without_bound() {
        let mut bench = Bench::default();
        let names: Vec<String> = (0..RAISED_MAX + 9)
            .map(|number| format!("node {number:05}"))
            .collect();
        let all = |value| -> Vec<(AlarmKind, &str, Option<u64>)> {
            names
                .iter()
                .map(|name| (FULL, &**name, Some(value)))
                .collect()
        };
        assert!(bench.look(&all(99)));
        assert_eq!(bench.raised(), RAISED_MAX);
        assert!(bench.look(&all(1)));
        assert_eq!(
            (bench.raised(), bench.record.cleared.len()),
            (0, CLEARED_MAX)
        );
        // What is forgotten is counted for those who have not been told.
        let forgotten = |told| forgotten_changes(&bench.record, told);
        let raised = RAISED_MAX as u64;
        assert_eq!(bench.record.changes, 2 * raised);
        assert_eq!(forgotten(0), 2 * (raised - CLEARED_MAX as u64));
        assert_eq!(forgotten(raised), raised - CLEARED_MAX as u64);
        assert_eq!(forgotten(2 * raised), 0);
        assert!(
            bench.look(&all(99)),
            "what there was no room for begins as all others"
        );
        // When one ends, there is room for another.
        let mut mixed = all(99);
        mixed[0].2 = Some(0);
        assert!(bench.look(&mixed));
        assert_eq!(bench.raised(), RAISED_MAX);
    }
}
