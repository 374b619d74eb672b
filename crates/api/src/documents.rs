//! The documents of version 1.
//!
//! Sizes are in bytes. Nodes are called by their names, but in [`LocalReport`], which is for other
//! nodes and uses the numbers of the metadata.

use std::fmt;

use holdfast_model::Policy;

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::EntityTag;

mod access;
mod alarms;
mod devices;
mod events;
mod history;
mod identity;
mod local;
mod log;
mod members;
mod metadata;
mod places;
mod protection;
mod reservations;
mod retention;
mod scrub;
mod sessions;
mod stalls;
mod support;
mod tasks;
mod traffic;
mod versions;

pub use access::{AccessChange, ChapAccount, Initiator, InitiatorList, InitiatorPut, VolumeAccess};
pub use alarms::{
    ALARM_NOTE_MAX, Alarm, AlarmAcknowledge, AlarmAcknowledged, AlarmChoice, AlarmKind,
    AlarmKindChange, AlarmKindList, AlarmList, AlarmQuery, AlarmSeverity, AlarmThreshold,
    AlarmUnit, MailPut, MailReceiver, MailSecurity, Receiver, ReceiverList, ReceiverPut,
    ReceiverTrouble, WebhookPut, WebhookReceiver,
};
pub use devices::{Detached, Device, DeviceChange, DeviceList, DeviceState, DeviceTier, TierRoom};
pub use events::{
    EVENTS_MAX, Event, EventKind, EventList, EventPlace, EventQuery, EventSeverity,
    LocalEventState, LocalEvents, NoPlace,
};
pub use history::{
    Fill, Flow, HISTORY_STEPS_DEFAULT, HISTORY_STEPS_MAX, History, HistoryOf, HistoryPoint,
    HistoryQuery, HistorySubject, Latency, Level, LocalFlow, LocalHistory, LocalHistoryPoint,
    LocalHistoryQuery, LocalNodeMeasures, NodeMeasures, UnknownSubject,
};
pub use identity::{
    AUDIT_MAX, AuditEntry, AuditList, AuditQuery, Identity, IdentityKind, LocalAudit, LoginMethods,
    LoginProvider, PasswordChange, SessionCreate, Token, TokenCreate, TokenCreated, TokenList,
    User, UserChange, UserCreate, UserList,
};
pub use local::{
    Astray, AwaitedCause, CacheUse, CertificateOf, ForeignCertificate, JournalScrubs, LocalJoining,
    LocalReport, LocalScrub, LocalSlice, LocalVolume, MendedBlocks, Mending, ProcessEnd, Rejected,
    Vitals,
};
pub use log::{
    AreaLevel, LOG_CHANGE_SECONDS, LOG_CHANGE_SECONDS_MAX, LogArea, LogChange, LogLevel, LogLevels,
};
pub use members::{
    NodeChange, NodeDetails, NodeOrder, NodeSlice, NodeStanding, ReplicaRole, Settings,
    SettingsChange, ToMove,
};
pub use metadata::{
    ListedMember, LocalCluster, LocalMember, LocalNode, LocalSummary, MemberCounts, MemberState,
};
pub use places::{AuditPlace, Place, StallPlace, piece};
pub use protection::{
    Explanation, Finding, FindingKind, LocalCondition, LocalLacking, LocalMetadata, LocalSilence,
    LocalSync, NodeFindings, Protection, Remedy, ReplicaCondition, SyncWork, VolumeFindings, Wait,
};
pub use reservations::{
    HeldReservation, RegisteredKey, ReservationNexus, ReservationType, Reservations,
};
pub use retention::{
    KeptHistory, KeptLog, KeptResolution, LocalRetention, NodeRetention, Retention, RetentionChange,
};
pub use scrub::{Scrub, ScrubFindings, ScrubResult, ScrubRun};
pub use sessions::{
    LocalPath, LocalSession, LocalSessionQuery, LocalSessions, PathSession, PathState,
    SESSIONS_MAX, SessionList, SessionParameters, TargetSession, TargetSessionList,
};
pub use stalls::{
    LocalStall, LocalStalls, STALLS_DEFAULT, STALLS_MAX, Stall, StallCause, StallList, StallQuery,
};
pub use support::LocalSupport;
pub use tasks::{Task, TaskKind, TaskList};
pub use traffic::{LocalTraffic, LocalVolumeTraffic, TRAFFIC_SECONDS, Traffic, VolumeTraffic};
pub use versions::Versions;

/// How a volume, or the cluster, is.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Health {
    /// Everything is served, with all its copies.
    #[default]
    Healthy,
    /// Everything is served, something with fewer good copies than its policy says.
    Degraded,
    /// Something is not served.
    Unavailable,
}

impl Health {
    /// The word that documents and the command line use.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Healthy => "healthy",
            Self::Degraded => "degraded",
            Self::Unavailable => "unavailable",
        }
    }
}

/// How the cluster is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Status {
    /// The cluster's id, 32 hexadecimal digits.
    pub cluster: String,
    /// The worst of all volumes' health; degraded at best if a node is down, or has no room left.
    pub health: Health,
    /// Its nodes, counted.
    pub nodes: NodeCounts,
    /// The members of etcd that keep its metadata, counted; null where there are none, or nothing is known of them.
    #[serde(default)]
    pub metadata_members: Option<MemberCounts>,
    /// Its volumes, counted.
    pub volumes: VolumeCounts,
    /// The room on the nodes that answer, but for those that are being drained, or are drained: nothing new goes there.
    pub pool: Room,
    /// The same by classes of devices, the fastest first; none from a version that does not tell.
    #[serde(default)]
    pub tiers: Vec<TierRoom>,
    /// What the volumes would fill if every block of them were written, with all copies.
    pub promised_bytes: u64,
    /// How far it is from every volume having all its copies.
    #[serde(default)]
    pub protection: Protection,
    /// What an administrator should know, the worst first.
    pub alerts: Vec<Alert>,
    /// The revision of the metadata from which this was made.
    pub revision: u64,
}

/// Nodes, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NodeCounts {
    /// All.
    pub total: u32,
    /// Those that answer, with open devices, registered, and believe the metadata, and follow the copy of it that others do.
    pub up: u32,
    /// Those that answer otherwise.
    #[serde(default)]
    pub not_ready: u32,
    /// Those that are in maintenance, whether they answer or not.
    #[serde(default)]
    pub in_maintenance: u32,
    /// Those that are being drained, or are drained, whether they answer or not: nothing new goes there.
    #[serde(default)]
    pub draining: u32,
}

/// Volumes, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct VolumeCounts {
    /// All.
    pub total: u32,
    /// Those that are healthy.
    pub healthy: u32,
    /// Those that are degraded.
    pub degraded: u32,
    /// Those that are unavailable.
    pub unavailable: u32,
}

/// The room for data on a node's devices, or on those of several nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Room {
    /// All, a multiple of 256 KiB.
    pub bytes: u64,
    /// What is taken, or promised to writes under way.
    pub used_bytes: u64,
}

/// How much of a room is left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum RoomLevel {
    /// Enough.
    #[default]
    Roomy,
    /// 15 %, or less.
    Low,
    /// Less than a large write may need.
    Full,
}

/// What a write may need, and more: 8 pages of 256 KiB. A room that is not much larger is full with less.
const ROOM_FULL_BYTES: u64 = 2 << 20;
const ROOM_FULL_SHARE: u64 = 16;

impl Room {
    /// What is left.
    #[must_use]
    pub const fn free_bytes(&self) -> u64 {
        self.bytes.saturating_sub(self.used_bytes)
    }

    /// How much is taken, in percent; 100 only if it is all.
    #[must_use]
    pub const fn used_percent(&self) -> u64 {
        match (self.used_bytes as u128 * 100).checked_div(self.bytes as u128) {
            Some(percent) => percent as u64,
            None => 0,
        }
    }

    /// How much is left.
    #[must_use]
    pub fn level(&self) -> RoomLevel {
        if self.free_bytes() < ROOM_FULL_BYTES.min(self.bytes / ROOM_FULL_SHARE) {
            RoomLevel::Full
        } else if self.used_percent() >= 85 {
            RoomLevel::Low
        } else {
            RoomLevel::Roomy
        }
    }
}

/// How much something matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// It works, with less protection or little room.
    Warning,
    /// Something does not work.
    Error,
}

/// Something that an administrator should know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Alert {
    /// How much it matters.
    pub severity: Severity,
    /// What it is about: "node n1", "volume demo".
    pub subject: String,
    /// What there is to know.
    pub detail: String,
}

impl fmt::Display for Alert {
    /// As people read it: "warning: node n1: down".
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            severity,
            subject,
            detail,
        } = self;
        let severity = match severity {
            Severity::Warning => "warning",
            Severity::Error => "error",
        };
        write!(formatter, "{severity}: {subject}: {detail}")
    }
}

/// Whether a node can be relied on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum NodeState {
    /// It answers, its devices are open, and it is registered.
    Up,
    /// It does not answer, or nothing that it holds can be relied on: it waits for a device, or its devices are not open
    /// yet, or have failed, or it has not registered since it started.
    Down,
}

/// A node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// Its number.
    pub node: u16,
    /// Whether it can be relied on.
    pub state: NodeState,
    /// Whether it answers, also if it is down otherwise.
    #[serde(default)]
    pub answers: bool,
    /// Whether it does not answer because it was told to stop.
    #[serde(default)]
    pub stopped: bool,
    /// Whether it believes the metadata, as it says itself; null where it does not answer, or does not reach the metadata.
    #[serde(default)]
    pub metadata_believed: Option<bool>,
    /// The device that it waits for before it opens its devices; null if it waits for none.
    #[serde(default)]
    pub awaited_device: Option<String>,
    /// Where initiators reach it, `host:port`.
    pub portal: String,
    /// Where its API answers, a URL.
    pub api: String,
    /// Which start of its process this is: a number that rises by one with each start on the same devices. It counts on from a number of
    /// the metadata's, and so is higher than the starts that there were.
    pub incarnation: u64,
    /// Replicas of slices that it holds.
    pub replicas: u32,
    /// Slices of which it is the primary, and that are served.
    pub primaries: u32,
    /// Sessions of initiators at its portal; null if it is down.
    pub sessions: Option<u32>,
    /// The room on its devices; null if it is down.
    pub room: Option<Room>,
    /// What hosts have its replicas do in a second, as a mean over some minutes: each read and each write that one takes
    /// part in counts, and each 64 KiB of them as much again. Null if it is down.
    #[serde(default)]
    pub work_per_second: Option<u64>,
    /// What it is to the cluster.
    #[serde(default)]
    pub standing: NodeStanding,
    /// Whether it was to be drained, and nothing is on it any more, or is to be: it can be removed.
    #[serde(default)]
    pub is_drained: bool,
    /// Where it stands; null if nobody has told.
    pub site: Option<String>,
    /// With which other nodes it fails, as its configuration says: those that say the same; null for none.
    #[serde(default)]
    pub failure_domain: Option<String>,
    /// What has to go from it, or to be rebuilt elsewhere in its place.
    #[serde(default)]
    pub to_move: ToMove,
    /// What replicas that it leads have to bring to others.
    #[serde(default)]
    pub to_send: SyncWork,
    /// What its own replicas have to be brought.
    #[serde(default)]
    pub to_receive: SyncWork,
    /// Names what may be changed of it, as `If-Match` takes it; null from a version that does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub etag: Option<EntityTag>,
    /// What it runs; null if it does not answer, or is of a version that does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub versions: Option<Versions>,
}

/// The nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NodeList {
    /// By their number.
    pub nodes: Vec<Node>,
    /// Where the rest begins, for `after`; none if there is no more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// A volume in short.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct VolumeSummary {
    /// Its name.
    pub name: String,
    /// Its number, as logs and `inspect` name it: v7/0 is its first slice.
    pub volume: u64,
    /// Its size.
    pub bytes: u64,
    /// Bytes of pages that have been written, once whatever the copies; null if no node knows.
    pub used_bytes: Option<u64>,
    /// Its protection.
    #[schema(value_type = PolicyName)]
    pub policy: Policy,
    /// How it is.
    pub health: Health,
    /// The iSCSI name of its target.
    pub target: String,
    /// Its logical unit number there.
    pub lun: u16,
    /// Sessions of initiators with its target, at all portals that answer.
    pub sessions: u32,
    /// Names what may be changed of it, as `If-Match` takes it; null from a version that does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub etag: Option<EntityTag>,
}

/// The volumes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct VolumeList {
    /// By name.
    pub volumes: Vec<VolumeSummary>,
    /// Where the rest begins, for `after`; none if there is no more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// A volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Volume {
    /// Its name.
    pub name: String,
    /// Its size.
    pub bytes: u64,
    /// Bytes of pages that have been written, once whatever the copies; null if no node knows.
    pub used_bytes: Option<u64>,
    /// Its protection.
    #[schema(value_type = PolicyName)]
    pub policy: Policy,
    /// How it is.
    pub health: Health,
    /// Its slices, in order.
    pub slices: Vec<Slice>,
    /// What bringing its replicas up to date has cost.
    pub resync: Resync,
    /// What was found when all of it was read.
    #[serde(default)]
    pub scrub: Scrub,
    /// Whom it is for; null from a version that does not tell.
    #[serde(default)]
    pub access: Option<VolumeAccess>,
    /// Names what may be changed of it, as `If-Match` takes it; null from a version that does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub etag: Option<EntityTag>,
}

/// A slice of a volume: 4 GiB, or what is left at the end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Slice {
    /// Which, from 0.
    pub index: u32,
    /// The number of its configuration.
    pub epoch: u64,
    /// The node that orders its writes, or is to.
    pub primary: String,
    /// Whether it does: else nobody takes reads and writes.
    #[serde(default = "is_served")]
    pub served: bool,
    /// The nodes whose replicas hold everything, the primary among them; none that says that it has lost what it held.
    pub in_sync: Vec<String>,
    /// The replicas that are being brought up to date.
    pub joining: Vec<Joining>,
    /// The replicas that are to hold everything, do not, and are not being brought up to date: their nodes
    /// are down, or they wait for their turn.
    #[serde(default)]
    pub absent: Vec<AbsentReplica>,
}

/// What versions of before did not tell.
const fn is_served() -> bool {
    true
}

/// A replica that is to hold everything, does not, and is not being brought up to date.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AbsentReplica {
    /// Where it is, or is to be.
    pub node: String,
    /// Bytes that it lacks; null if nobody can tell before it has said what it has.
    pub bytes_lacking: Option<u64>,
}

/// A replica that is being brought up to date.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Joining {
    /// Where it is.
    pub node: String,
    /// Bytes that it has.
    pub bytes_done: u64,
    /// Bytes that it needs, those that it has among them.
    pub bytes_total: u64,
    /// Bytes in a second that it gets, over the last ten seconds.
    #[serde(default)]
    pub bytes_per_second: u64,
    /// Seconds until it has everything, at this rate; null if there is none.
    #[serde(default)]
    pub seconds_left: Option<u64>,
}

/// What bringing replicas up to date has cost, and what is left of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Resync {
    /// Bytes of data that were sent to replicas to bring them up to date, since the volume was made, as far as that is on
    /// record: a node that is lost may have sent more. Blocks that hold zeros cost nothing.
    pub bytes_moved: u64,
    /// What is left.
    #[serde(default)]
    pub work: SyncWork,
}

/// A new volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct VolumeCreate {
    /// Its name: 1 to 63 lower-case letters, digits, '-' and '.'.
    pub name: String,
    /// Its size, a multiple of 4096, 64 TiB at most.
    pub bytes: u64,
    /// Its protection.
    #[schema(value_type = PolicyName)]
    pub policy: Policy,
    /// The iSCSI name of the target that it is to be a unit of; without, one of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// Its logical unit number there, 0 to 255; without, 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lun: Option<u16>,
}

/// What came of the wish for a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Created {
    /// As it is.
    pub volume: Volume,
    /// It was made now: there was none like it.
    pub is_new: bool,
}

/// A volume's new size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct VolumeGrow {
    /// The size, not less than before.
    pub bytes: u64,
}

/// How a volume is to be deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct VolumeDelete {
    /// Also if initiators have sessions with its target: they lose it.
    pub force: bool,
}

/// A volume's protection, as documents name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum PolicyName {
    /// One copy.
    None,
    /// Two copies.
    Mirror2,
    /// Three copies.
    Mirror3,
    /// Four copies.
    Mirror4,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The command line's contract: other tools read exactly this.
    #[test]
    fn a_volume_looks_as_it_is_documented() {
        let volume = Volume {
            name: "demo".to_owned(),
            access: None,
            etag: None,
            bytes: 4 << 30,
            used_bytes: Some(262_144),
            policy: Policy::Mirror2,
            health: Health::Degraded,
            slices: vec![Slice {
                index: 0,
                epoch: 3,
                primary: "n1".to_owned(),
                served: true,
                in_sync: vec!["n1".to_owned()],
                joining: vec![Joining {
                    node: "n2".to_owned(),
                    bytes_done: 1,
                    bytes_total: 2,
                    bytes_per_second: 1,
                    seconds_left: Some(1),
                }],
                absent: vec![AbsentReplica {
                    node: "n3".to_owned(),
                    bytes_lacking: None,
                }],
            }],
            resync: Resync {
                bytes_moved: 4096,
                work: SyncWork {
                    replicas: 1,
                    bytes: 1,
                    bytes_per_second: 1,
                    seconds_left: Some(1),
                },
            },
            scrub: Scrub {
                running: None,
                last: Some(ScrubResult {
                    round: 2,
                    began_seconds: 3,
                    ended_seconds: 4,
                    findings: ScrubFindings {
                        bytes_read: 4096,
                        ..ScrubFindings::default()
                    },
                }),
            },
        };
        let text = r#"{"name":"demo","bytes":4294967296,"used_bytes":262144,"policy":"mirror2","health":"degraded","slices":[{"index":0,"epoch":3,"primary":"n1","served":true,"in_sync":["n1"],"joining":[{"node":"n2","bytes_done":1,"bytes_total":2,"bytes_per_second":1,"seconds_left":1}],"absent":[{"node":"n3","bytes_lacking":null}]}],"resync":{"bytes_moved":4096,"work":{"replicas":1,"bytes":1,"bytes_per_second":1,"seconds_left":1}},"scrub":{"running":null,"last":{"round":2,"began_seconds":3,"ended_seconds":4,"findings":{"bytes_read":4096,"bad_blocks":0,"differing_blocks":0,"doubtful_blocks":0,"unmended_blocks":0,"skipped_blocks":0}}},"access":null}"#;
        assert_eq!(serde_json::to_string(&volume).unwrap(), text);
        assert_eq!(serde_json::from_str::<Volume>(text).unwrap(), volume);
        // As nodes said it before they told rates.
        let before = r#"{"name":"demo","bytes":4294967296,"used_bytes":262144,"policy":"mirror2","health":"degraded","slices":[{"index":0,"epoch":3,"primary":"n1","in_sync":["n1"],"joining":[{"node":"n2","bytes_done":1,"bytes_total":2}]}],"resync":{"bytes_moved":4096}}"#;
        let read: Volume = serde_json::from_str(before).unwrap();
        assert_eq!(read.slices[0].joining[0].seconds_left, None);
        assert_eq!(read.scrub, Scrub::default());
    }

    /// Nodes of two versions tell each other how they are while one after the other is updated.
    #[test]
    fn a_report_of_before_and_one_of_after_are_read() {
        let before = r#"{"node":1,"name":"n1","incarnation":1,"process":2,"number":3,"open":true,"room":{"bytes":0,"used_bytes":0},"volumes":[],"slices":[{"volume":1,"index":0,"epoch":1,"serving":true,"used_bytes":0,"bad_blocks":0,"joining":[]}]}"#;
        let read: LocalReport = serde_json::from_str(before).unwrap();
        assert_eq!(read.metadata, LocalMetadata::Followed);
        assert_eq!(read.slices[0].condition, None);
        let before = r#"{"nodes":[{"name":"n1","node":1,"state":"up","portal":"h:1","api":"http://h:2","incarnation":1,"replicas":2,"primaries":1,"sessions":0,"room":null}]}"#;
        let read: NodeList = serde_json::from_str(before).unwrap();
        assert_eq!(read.nodes[0].standing, NodeStanding::Active);
        assert_eq!(read.nodes[0].to_move, ToMove::default());
        let after = r#"{"what":"something-new","nodes":[2]}"#;
        let read: LocalCondition = serde_json::from_str(after).unwrap();
        assert_eq!(read.what, ReplicaCondition::Other);
    }

    #[test]
    fn a_room_is_full_before_nothing_is_left() {
        let room = |used_bytes| Room {
            bytes: 100 << 20,
            used_bytes,
        };
        assert_eq!(room(84 << 20).level(), RoomLevel::Roomy);
        assert_eq!(room(85 << 20).level(), RoomLevel::Low);
        assert_eq!(room(98 << 20).level(), RoomLevel::Low);
        assert_eq!(room((98 << 20) + 1).level(), RoomLevel::Full);
        assert_eq!(room((100 << 20) - 1).used_percent(), 99);
        assert_eq!(room(100 << 20).free_bytes(), 0);
        assert_eq!(
            Room::default().level(),
            RoomLevel::Roomy,
            "nothing is open yet"
        );
        let smallest = Room {
            bytes: 8 * 262_144,
            used_bytes: 0,
        };
        assert_eq!(smallest.level(), RoomLevel::Roomy);
    }

    #[test]
    fn policies_are_called_as_in_the_model() {
        let names = [
            PolicyName::None,
            PolicyName::Mirror2,
            PolicyName::Mirror3,
            PolicyName::Mirror4,
        ];
        for (name, policy) in names.into_iter().zip(Policy::ALL) {
            let name = serde_json::to_string(&name).unwrap();
            assert_eq!(name, serde_json::to_string(&policy).unwrap());
        }
    }
}
