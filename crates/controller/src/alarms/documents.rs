//! What the interface says of alarms, from what is on record and the texts of the kinds.

use holdfast_api::EntityTag;
use holdfast_api::documents::{
    Alarm, AlarmAcknowledged, AlarmKind, AlarmSeverity, AlarmThreshold, AlarmUnit,
};
use holdfast_control::{self as control, Direction, Threshold, default_rule, rule_of};
use holdfast_model::record::{AlarmEntry, AlarmRule, AlarmRulesRecord};

pub(super) fn severity(code: &str) -> AlarmSeverity {
    let kind = control::AlarmKind::of(code);
    kind.map_or(AlarmSeverity::Other, |kind| match kind.text().severity {
        control::AlarmSeverity::Warning => AlarmSeverity::Warning,
        control::AlarmSeverity::Critical => AlarmSeverity::Critical,
    })
}

pub(super) fn alarm(entry: &AlarmEntry) -> Alarm {
    let text = control::AlarmKind::of(&entry.kind).map(control::AlarmKind::text);
    let (title, meaning, action) = match text {
        Some(text) => (text.title, text.meaning, text.action),
        None => (
            "An alarm that this version does not know",
            "Another version of Holdfast raised it.",
            "Ask a node of the newest version.",
        ),
    };
    Alarm {
        id: entry.id,
        kind: entry.kind.clone(),
        severity: severity(&entry.kind),
        title: title.to_owned(),
        subject: entry.subject.clone(),
        detail: entry.detail.clone(),
        meaning: meaning.to_owned(),
        action: action.to_owned(),
        raised_ms: entry.raised_ms,
        cleared_ms: entry.cleared.as_ref().map(|it| it.at_ms),
        acknowledged: entry.acknowledged.as_ref().map(|it| AlarmAcknowledged {
            by: it.by.clone(),
            at_ms: it.at_ms,
            note: it.note.clone(),
        }),
    }
}

pub(super) fn kind(kind: control::AlarmKind, rules: &AlarmRulesRecord) -> AlarmKind {
    let text = kind.text();
    let rule = rules.rules.get(text.code).copied();
    let off = rule.is_some_and(|rule| rule.is_off);
    // One that is off has its threshold for when it is on again.
    let present = rule_of(rules, kind).map(threshold);
    let present =
        present.unwrap_or_else(|| threshold_of(rule.unwrap_or_else(|| default_rule(kind))));
    AlarmKind {
        kind: text.code.to_owned(),
        title: text.title.to_owned(),
        severity: severity(text.code),
        unit: match text.unit {
            control::AlarmUnit::State => AlarmUnit::State,
            control::AlarmUnit::Percent => AlarmUnit::Percent,
            control::AlarmUnit::Milliseconds => AlarmUnit::Milliseconds,
            control::AlarmUnit::Seconds => AlarmUnit::Seconds,
            control::AlarmUnit::Days => AlarmUnit::Days,
        },
        low_is_bad: kind.direction() == Direction::Falling,
        threshold: present,
        default_threshold: threshold_of(default_rule(kind)),
        off,
        meaning: text.meaning.to_owned(),
        action: text.action.to_owned(),
        etag: Some(tag_of_kind(kind, rules)),
    }
}

/// Names what is set of a kind: all of it, so that what is set as it was before has the tag of before.
pub(super) fn tag_of_kind(kind: control::AlarmKind, rules: &AlarmRulesRecord) -> EntityTag {
    let Some(rule) = rules.rules.get(kind.text().code) else {
        return EntityTag::of("k-default");
    };
    let AlarmRule {
        is_off,
        set,
        clear,
        hold_seconds,
    } = *rule;
    let state = if is_off { "off" } else { "on" };
    EntityTag::of(&format!("k-{state}-{set:x}-{clear:x}-{hold_seconds:x}"))
}

fn threshold(threshold: Threshold) -> AlarmThreshold {
    AlarmThreshold {
        set: threshold.set(),
        clear: threshold.clear(),
        hold_seconds: threshold.hold_ms() / 1000,
    }
}

const fn threshold_of(rule: AlarmRule) -> AlarmThreshold {
    AlarmThreshold {
        set: rule.set,
        clear: rule.clear,
        hold_seconds: rule.hold_seconds,
    }
}
