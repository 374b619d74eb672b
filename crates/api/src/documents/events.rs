//! What changed, as those are told who listen, and those who ask later.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// What is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum EventKind {
    /// From here on everything is told.
    Began,
    /// Something may have changed that is not told: nobody kept it since the last event that the listener has, or it could not be put
    /// down in the log.
    Gap,
    /// The cluster is healthier than before, or less.
    ClusterHealth,
    /// A volume is healthier than before, or less.
    VolumeHealth,
    /// There is a new volume.
    VolumeCreated,
    /// A volume has more bytes.
    VolumeGrown,
    /// A volume is for others than before.
    VolumeAccess,
    /// Other nodes lead a volume's slices than before: they are its primaries.
    Primaries,
    /// A volume is no more.
    VolumeDeleted,
    /// A node cannot be relied on any more.
    NodeLost,
    /// The same, because it was told to stop.
    NodeStopped,
    /// It can be relied on again.
    NodeBack,
    /// A node has another part in the cluster, or is a new one, or no part of it any more.
    NodeStanding,
    /// A device has failed, or is not there.
    DeviceLost,
    /// A device is in another state.
    DeviceState,
    /// Replicas of a volume on a node are being brought up to date, or made there.
    SyncBegan,
    /// They are not any more: they are done, or it cannot go on.
    SyncEnded,
    /// Settings were changed.
    Settings,
    /// There is something new that an administrator should know.
    AlertRaised,
    /// That is not so any more.
    AlertCleared,
    /// An alarm is raised.
    AlarmRaised,
    /// Somebody has taken note of an alarm.
    AlarmAcknowledged,
    /// An alarm is over.
    AlarmCleared,
    /// Receivers were told of alarms.
    AlarmTold,
    /// Receivers could not be told of alarms.
    AlarmUntold,
    /// A node steers the cluster from now on, and tells what changes.
    Steering,
    /// What this version does not know.
    #[serde(other)]
    Other,
}

impl EventKind {
    /// All that this version knows.
    pub const ALL: [Self; 26] = [
        Self::Began,
        Self::Gap,
        Self::ClusterHealth,
        Self::VolumeHealth,
        Self::VolumeCreated,
        Self::VolumeGrown,
        Self::VolumeAccess,
        Self::Primaries,
        Self::VolumeDeleted,
        Self::NodeLost,
        Self::NodeStopped,
        Self::NodeBack,
        Self::NodeStanding,
        Self::DeviceLost,
        Self::DeviceState,
        Self::SyncBegan,
        Self::SyncEnded,
        Self::Settings,
        Self::AlertRaised,
        Self::AlertCleared,
        Self::AlarmRaised,
        Self::AlarmAcknowledged,
        Self::AlarmCleared,
        Self::AlarmTold,
        Self::AlarmUntold,
        Self::Steering,
    ];

    /// The word that documents and streams use.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Began => "began",
            Self::Gap => "gap",
            Self::ClusterHealth => "cluster-health",
            Self::VolumeHealth => "volume-health",
            Self::VolumeCreated => "volume-created",
            Self::VolumeGrown => "volume-grown",
            Self::VolumeAccess => "volume-access",
            Self::Primaries => "primaries",
            Self::VolumeDeleted => "volume-deleted",
            Self::NodeLost => "node-lost",
            Self::NodeStopped => "node-stopped",
            Self::NodeBack => "node-back",
            Self::NodeStanding => "node-standing",
            Self::DeviceLost => "device-lost",
            Self::DeviceState => "device-state",
            Self::SyncBegan => "sync-began",
            Self::SyncEnded => "sync-ended",
            Self::Settings => "settings",
            Self::AlertRaised => "alert-raised",
            Self::AlertCleared => "alert-cleared",
            Self::AlarmRaised => "alarm-raised",
            Self::AlarmAcknowledged => "alarm-acknowledged",
            Self::AlarmCleared => "alarm-cleared",
            Self::AlarmTold => "alarm-told",
            Self::AlarmUntold => "alarm-untold",
            Self::Steering => "steering",
            Self::Other => "other",
        }
    }
}

/// How much an event matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum EventSeverity {
    /// It is good to know.
    Info,
    /// It works, with less protection or little room.
    Warning,
    /// Something does not work.
    Error,
}

impl EventSeverity {
    /// The word that documents and streams use.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

/// Something that changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Event {
    /// Names it: of the stream, for `Last-Event-ID`; of the log, whichever node's it is in. An event has another one in the stream
    /// than in the log.
    pub id: String,
    /// When the node saw it: milliseconds since 1970 (UTC).
    pub at_ms: u64,
    /// What is told.
    pub kind: EventKind,
    /// How much it matters.
    pub severity: EventSeverity,
    /// What it is about: "node n1", "volume demo".
    pub subject: String,
    /// What there is to know.
    pub detail: String,
    /// In the log: when it was last seen to be otherwise, where that is longer ago than a few seconds; it became so in between, and
    /// nobody looked. Milliseconds since 1970 (UTC).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_before_ms: Option<u64>,
}

impl Event {
    /// Where it stands in the log.
    #[must_use]
    pub fn place(&self) -> EventPlace {
        EventPlace {
            at_ms: self.at_ms,
            id: self.id.clone(),
        }
    }
}

/// Where an event stands in the log: later ones are greater. Where two are of one time, their ids say which comes first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct EventPlace {
    at_ms: u64,
    id: String,
}

/// Letters of an event's id at most.
const ID_LENGTH_MAX: usize = 64;

/// Why a text names no place in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoPlace;

impl fmt::Display for NoPlace {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("it is no cursor of the log of events")
    }
}

impl std::error::Error for NoPlace {}

impl fmt::Display for EventPlace {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:x}.{}", self.at_ms, self.id)
    }
}

impl FromStr for EventPlace {
    type Err = NoPlace;

    fn from_str(text: &str) -> Result<Self, NoPlace> {
        let (at_ms, id) = text.split_once('.').ok_or(NoPlace)?;
        let is_hex = at_ms.bytes().all(|digit| digit.is_ascii_hexdigit());
        let is_id = |letter: u8| letter.is_ascii_alphanumeric() || letter == b'-';
        if !is_hex || id.len() > ID_LENGTH_MAX || !id.bytes().all(is_id) {
            return Err(NoPlace);
        }
        Ok(Self {
            at_ms: u64::from_str_radix(at_ms, 16).map_err(|_| NoPlace)?,
            id: id.to_owned(),
        })
    }
}

impl TryFrom<String> for EventPlace {
    type Error = NoPlace;

    fn try_from(text: String) -> Result<Self, NoPlace> {
        text.parse()
    }
}

impl From<EventPlace> for String {
    fn from(place: EventPlace) -> Self {
        place.to_string()
    }
}

/// Events that are told at a time at most.
pub const EVENTS_MAX: u32 = 1000;

/// Which events of the log are asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct EventQuery {
    /// How many at most, the newest first: 1 to 1000.
    #[param(default = 100, minimum = 1, maximum = 1000)]
    pub limit: u32,
    /// None from before that: milliseconds since 1970 (UTC).
    #[param(default = 0)]
    pub since_ms: u64,
    /// None from then or later: milliseconds since 1970 (UTC).
    #[param(value_type = Option<u64>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until_ms: Option<u64>,
    /// None that matter less; all unless it is said.
    #[param(inline, value_type = Option<EventSeverity>)]
    pub severity: EventSeverity,
    /// Of this kind only.
    #[param(inline)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<EventKind>,
    /// Those after a piece, which are older: what its `next` said.
    #[param(value_type = Option<String>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<EventPlace>,
}

impl Default for EventQuery {
    fn default() -> Self {
        Self {
            limit: 100,
            since_ms: 0,
            until_ms: None,
            severity: EventSeverity::Info,
            kind: None,
            after: None,
        }
    }
}

impl EventQuery {
    /// Whether an event is asked for, however many others are.
    #[must_use]
    pub fn wants(&self, event: &Event) -> bool {
        event.at_ms >= self.since_ms
            && self.until_ms.is_none_or(|until| event.at_ms < until)
            && event.severity >= self.severity
            && self.kind.is_none_or(|kind| event.kind == kind)
            && self.is_after(event)
    }

    fn is_after(&self, event: &Event) -> bool {
        let Some(EventPlace { at_ms, id }) = &self.after else {
            return true;
        };
        (event.at_ms, &*event.id) < (*at_ms, &**id)
    }
}

/// What happened, as the logs of all nodes that answer have it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EventList {
    /// The newest first. What is in several logs is told once.
    pub events: Vec<Event>,
    /// What `after` is to say for those that come after these, which are older; null where there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// The nodes that did not answer, by name: what only they have is missing.
    pub silent: Vec<String>,
    /// Until when all that changed is in the logs that answer: milliseconds since 1970 (UTC), by the clock of the node that steered
    /// then; 0 where nobody has looked, or a version answers that does not tell.
    #[serde(default)]
    pub looked_ms: u64,
}

/// The same, as the log of one node has it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LocalEvents {
    /// The node's number; 0 of a process without a node.
    pub node: u16,
    /// The newest first.
    pub events: Vec<Event>,
    /// Names what was told last, for whoever compares what there is with it; empty where nothing was.
    #[serde(default)]
    pub mark: String,
    /// Until when nothing else had changed, as far as the node knows: milliseconds since 1970 (UTC); 0 where nothing was told.
    #[serde(default)]
    pub looked_ms: u64,
    /// When it was last put down how everything is: milliseconds since 1970 (UTC); 0 where it was not, and from a version that does
    /// not tell.
    #[serde(default)]
    pub written_ms: u64,
}

/// How everything was when something was told last, for whoever steers next.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LocalEventState {
    /// The node's number; 0 of a process without a node.
    pub node: u16,
    /// Names what was told last.
    pub mark: String,
    /// Until when everything was seen to be so: milliseconds since 1970 (UTC).
    #[serde(default)]
    pub looked_ms: u64,
    /// How everything was, in the manner of the version that looked; null where nobody has.
    #[schema(value_type = Option<Object>)]
    pub state: Option<serde_json::Value>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(at_ms: u64, id: &str) -> Event {
        Event {
            id: id.to_owned(),
            at_ms,
            kind: EventKind::NodeLost,
            severity: EventSeverity::Warning,
            subject: "node n1".to_owned(),
            detail: "down".to_owned(),
            not_before_ms: None,
        }
    }

    #[test]
    fn a_place_is_read_as_it_is_written_and_nothing_else_is() {
        let place = event(1_700_000_000_123, "18bcfe5687b-1-0000002a").place();
        assert_eq!(place.to_string().parse(), Ok(place));
        let long = format!("1.{}", "a".repeat(ID_LENGTH_MAX + 1));
        for text in [
            "",
            "a",
            "g.a",
            "1.a b",
            "1.a&limit=2",
            "10000000000000000.a",
            &long,
        ] {
            assert_eq!(text.parse::<EventPlace>(), Err(NoPlace), "{text}");
        }
    }

    #[test]
    fn what_is_asked_for_is_told() {
        let all = EventQuery::default();
        let one = event(1000, "a-2");
        let later = [event(1000, "a-1"), event(999, "b-1")];
        let after = EventQuery {
            after: Some(one.place()),
            ..all
        };
        assert!(all.wants(&one) && !after.wants(&one));
        assert!(later.iter().all(|event| after.wants(event)));
        assert!(!after.wants(&event(1000, "a-3")));
        let between = EventQuery {
            since_ms: 1000,
            until_ms: Some(1001),
            ..all.clone()
        };
        assert!(between.wants(&one) && !between.wants(&later[1]));
        assert!(!between.wants(&event(1001, "a-1")));
        let errors = EventQuery {
            severity: EventSeverity::Error,
            ..all.clone()
        };
        let back = EventQuery {
            kind: Some(EventKind::NodeBack),
            ..all
        };
        assert!(!errors.wants(&one) && !back.wants(&one));
    }

    /// Logs outlive versions.
    #[test]
    fn events_are_read_by_the_versions_before_and_after() {
        let of_tomorrow = r#"{"id":"a-1","at_ms":1,"kind":"of-tomorrow","severity":"info","subject":"s","detail":"d","x":1}"#;
        let read: Event = serde_json::from_str(of_tomorrow).unwrap();
        assert_eq!((read.kind, read.not_before_ms), (EventKind::Other, None));
        let text = serde_json::to_string(&event(1, "a-1")).unwrap();
        assert!(!text.contains("not_before_ms"), "{text}");
    }
}
