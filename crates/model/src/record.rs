//! What the metadata holds: one JSON document a key, each with its schema number.
//!
//! Invariants:
//! - unknown fields are refused: a newer schema is never half understood;
//! - a slice's epoch only ever rises, and with it everything else in its record.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use holdfast_stdx::Bytes;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::{
    ClusterId, Epoch, Incarnation, NodeId, Policy, SLICE_SIZE, Sequence, SliceId, StoreId, VolumeId,
};

mod access;
mod alarm;
mod creation;
mod deleted;
mod export;
mod node;
mod retention;
mod scrub;

pub use access::{
    ACCESS_PREFIX, AccessNexus, AccessRecord, Isid, LastChange, Registration, Reservation,
    ReservationKind,
};
pub use alarm::{
    ALARM_RULES_KEY, ALARMS_KEY, Acknowledgement, AlarmEntry, AlarmRule, AlarmRulesRecord,
    AlarmsRecord, Clearing, MAINTENANCE_KEY, MailSecurity, MaintenanceRecord, RECEIVERS_KEY,
    ReceiverRecord, ReceiverWay, ReceiversRecord, Undelivered,
};
pub use creation::{CREATIONS_PREFIX, CreationRecord};
pub use deleted::{DELETED_KEY, DeletedRecord};
pub use export::{
    ChapRecord, EXPORTS_PREFIX, ExportRecord, INITIATORS_PREFIX, InitiatorRecord, Secret,
    UNITS_PREFIX, UnitRecord,
};
pub use node::{
    BOOKMARKS_PREFIX, Bookmark, BookmarkRecord, DENIALS_PREFIX, DOMAINS_PREFIX, DRAINS_PREFIX,
    DenialRecord, DomainRecord, DrainRecord, INTENTS_PREFIX, IntentRecord, MACHINES_PREFIX,
    MachineRecord, NODES_PREFIX, NodeRecord, NodeStanding, STOPS_PREFIX, StopRecord, USES_PREFIX,
    UseRecord,
};
pub use retention::{RETENTION_KEY, RETENTION_MIB_MAX, RETENTION_MIB_MIN, RetentionRecord};
pub use scrub::{
    SCRUBBED_PREFIX, SCRUBS_PREFIX, ScrubFindings, ScrubRecord, ScrubResult, ScrubbedRecord,
};

/// A document of the metadata.
pub trait Record: Serialize + DeserializeOwned {
    /// The only schema number that this code understands.
    const SCHEMA: u32 = 1;

    /// The document's schema number.
    fn schema(&self) -> u32;

    /// The document as the store keeps it.
    fn encode(&self) -> Bytes {
        Bytes::from(serde_json::to_vec(self).expect("a record is valid JSON"))
    }

    /// Reads a document.
    ///
    /// # Errors
    /// [`RecordError`] if it is not JSON, lacks a field, has an unknown one, or bears another
    /// schema number.
    fn decode(value: &[u8]) -> Result<Self, RecordError> {
        // What a newer schema has beside that is no field of this one.
        let head: Head = serde_json::from_slice(value).map_err(|_| RecordError::Malformed)?;
        if head.schema != Self::SCHEMA {
            return Err(RecordError::Schema(head.schema));
        }
        serde_json::from_slice(value).map_err(|_| RecordError::Malformed)
    }
}

/// What is the same in all schemas.
#[derive(Deserialize)]
pub(crate) struct Head {
    pub(crate) schema: u32,
}

/// Why a document cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// It is not a document of this kind.
    #[error("the metadata holds a document that is not of its kind")]
    Malformed,
    /// It was written by another version.
    #[error("the metadata holds a document of schema {0}, which this version does not know")]
    Schema(u32),
}

/// The cluster itself, at [`CLUSTER_KEY`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClusterRecord {
    /// Schema number, 1.
    pub schema: u32,
    /// Who we are.
    pub cluster: ClusterId,
    /// The next volume's id.
    pub next_volume: VolumeId,
    /// How often the metadata was lost and made again from what nodes keep.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub recoveries: u64,
    /// Nodes' starts are counted from here at least: lower numbers may have been given out before the
    /// metadata was lost.
    #[serde(default, skip_serializing_if = "is_first")]
    pub incarnation_floor: Incarnation,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

fn is_first(incarnation: &Incarnation) -> bool {
    *incarnation == Incarnation::ZERO
}

/// Where the cluster's record is.
pub const CLUSTER_KEY: &str = "/holdfast/cluster";
/// Where the names of volumes are.
pub const NAMES_PREFIX: &str = "/holdfast/names/";
/// Where it is said which volumes are being made.
pub const MAKINGS_PREFIX: &str = "/holdfast/makings/";
/// Where the volumes' records are.
pub const VOLUMES_PREFIX: &str = "/holdfast/volumes/";
/// Where the slices' records are.
pub const SLICES_PREFIX: &str = "/holdfast/slices/";

/// Where the settings are.
pub const SETTINGS_KEY: &str = "/holdfast/settings";
/// Where the one who steers is on record, for as long as its lease lives.
pub const LEADER_KEY: &str = "/holdfast/leader";
/// Where the wishes for slices are.
pub const WISHES_PREFIX: &str = "/holdfast/wishes/";

/// A volume's name, taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NameRecord {
    /// Schema number, 1.
    pub schema: u32,
    /// Whose name it is.
    pub volume: VolumeId,
}

impl NameRecord {
    /// The key of a name's record.
    #[must_use]
    pub fn key(name: &str) -> String {
        format!("{NAMES_PREFIX}{name}")
    }
}

/// A volume that is being made, or whose making was cut short: it has never been there, and may be cleared away. Where a
/// name's volume has neither this nor a record, the metadata was damaged, or a version without this document began to make
/// it. A document of its own, which such versions pass over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MakingRecord {
    /// Schema number, 1.
    pub schema: u32,
    /// Which volume.
    pub volume: VolumeId,
}

impl MakingRecord {
    /// The key of the record of a volume's making.
    #[must_use]
    pub fn key(volume: VolumeId) -> String {
        format!("{MAKINGS_PREFIX}{:016x}", volume.0)
    }
}

/// A volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VolumeRecord {
    /// Schema number, 1.
    pub schema: u32,
    /// Its id, for ever.
    pub volume: VolumeId,
    /// Its name, unique among volumes.
    pub name: String,
    /// Its size in bytes, a multiple of the block size.
    pub bytes: u64,
    /// Its protection.
    pub policy: Policy,
    /// The iSCSI name of its target.
    pub target: String,
    /// Its logical unit number there.
    pub lun: u16,
}

impl VolumeRecord {
    /// The key of a volume's record.
    #[must_use]
    pub fn key(volume: VolumeId) -> String {
        format!("{VOLUMES_PREFIX}{:016x}", volume.0)
    }

    /// How many slices the volume has; the last one may be used in part only.
    #[must_use]
    pub fn slice_count(&self) -> u32 {
        self.bytes.div_ceil(SLICE_SIZE) as u32
    }

    /// How many bytes of the volume that slice is: at most [`SLICE_SIZE`], and 0 of one that is behind its end.
    #[must_use]
    pub fn slice_bytes(&self, index: u32) -> u64 {
        let begin = u64::from(index) * SLICE_SIZE;
        self.bytes.saturating_sub(begin).min(SLICE_SIZE)
    }
}

/// What a replica is to its slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "state")]
pub enum Membership {
    /// It holds every committed write, gives leases and may be promoted.
    InSync,
    /// It takes every new write and is being brought up to date; it gives no lease and is never
    /// promoted.
    Joining {
        /// The committed point that it joined with: should it go away again, its mark is that of
        /// before.
        stable: Sequence,
    },
    /// It is away. The in-sync replicas keep a mark for it.
    Absent {
        /// The committed point that its own recovery is certain to find: the mark begins here.
        stable: Sequence,
    },
}

/// One replica of a slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplicaRecord {
    /// Where it is.
    pub node: NodeId,
    /// In which contents of that node's devices: an emptied or replaced store is another replica.
    pub store: StoreId,
    /// What it is.
    #[serde(flatten)]
    pub membership: Membership,
}

/// A slice's configuration. It changes by compare-and-set only, and each change raises the epoch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SliceRecord {
    /// Schema number, 1.
    pub schema: u32,
    /// Which slice.
    pub slice: SliceId,
    /// The configuration's number, from 1. In epoch 1 nothing has been written yet.
    pub epoch: Epoch,
    /// The one that orders writes; in sync.
    pub primary: NodeId,
    /// The one that is to order them whenever it is in sync: a wish, so that load stays spread.
    pub preferred: NodeId,
    /// Its replicas, by node.
    pub replicas: Vec<ReplicaRecord>,
    /// In-sync copies below which writes stop.
    pub copies_min: u8,
    /// Bytes that were copied to replicas to bring them up to date, in all epochs before this one.
    #[serde(default)]
    pub bytes_moved: u64,
    /// Who proposed this configuration, and in which start of its process.
    pub proposer: (NodeId, Incarnation),
    /// Told apart from the proposer's other proposals.
    pub nonce: u64,
    /// The metadata was lost, and the record made again from what replicas keep.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovery: Option<SliceRecovery>,
}

/// That a slice's record was made again, from what replicas keep, when the metadata was lost. It stays in
/// all later records of the slice: a replica that was away must be able to tell whether it was known of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SliceRecovery {
    /// Not everybody was heard who may know of later epochs. Nothing is served, and nobody is left out,
    /// before all who are in sync have said that they know of none.
    pub unconfirmed: bool,
    /// The epochs that were left out, each time that the record was made again.
    pub gaps: Vec<EpochGap>,
}

/// Epochs that may have been, and of which nobody told when a record was made again. A replica in which
/// one of them has begun has a history that was not known of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EpochGap {
    /// The newest epoch that was known of: the last one before the gap.
    pub known: Epoch,
    /// The epoch of the record that was made: the first one after it.
    pub made: Epoch,
    /// An operator has given up what was not known of: a replica with such a history begins anew, with
    /// nothing. Else it keeps what it has, and follows nobody.
    pub discards: bool,
}

impl SliceRecovery {
    /// The gap that an epoch is in.
    #[must_use]
    pub fn gap_of(&self, begun: Epoch) -> Option<&EpochGap> {
        let mut gaps = self.gaps.iter();
        gaps.find(|gap| gap.known < begun && begun < gap.made)
    }
}

impl SliceRecord {
    /// The key of a slice's record.
    #[must_use]
    pub fn key(slice: SliceId) -> String {
        format!("{}{:08x}", Self::prefix(slice.volume), slice.index)
    }

    /// Where all slices of a volume are.
    #[must_use]
    pub fn prefix(volume: VolumeId) -> String {
        format!("{SLICES_PREFIX}{:016x}/", volume.0)
    }

    /// The replica on `node`.
    #[must_use]
    pub fn replica(&self, node: NodeId) -> Option<&ReplicaRecord> {
        self.replicas.iter().find(|replica| replica.node == node)
    }

    /// The nodes whose replicas are in sync, the primary among them.
    pub fn in_sync(&self) -> impl Iterator<Item = NodeId> {
        self.with(|membership| membership == Membership::InSync)
    }

    /// Whether those who are in sync have yet to say that they know of nothing newer.
    #[must_use]
    pub fn is_unconfirmed(&self) -> bool {
        let recovery = self.recovery.as_ref();
        recovery.is_some_and(|recovery| recovery.unconfirmed)
    }

    /// The nodes whose replicas are joining.
    pub fn joining(&self) -> impl Iterator<Item = NodeId> {
        self.with(|membership| matches!(membership, Membership::Joining { .. }))
    }

    fn with(&self, keep: impl Fn(Membership) -> bool) -> impl Iterator<Item = NodeId> {
        self.replicas
            .iter()
            .filter(move |replica| keep(replica.membership))
            .map(|replica| replica.node)
    }
}

/// Replicas of a slice at most, those among them that are to go: the copies of the strongest policy,
/// and as many that take their place.
pub const REPLICAS_MAX: usize = 8;

/// Where the control plane wants a slice to be. Only the slice's primary changes the slice's record; it
/// works towards the wish, as far as that can be done. The wish goes when the record says the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WishRecord {
    /// Schema number, 1.
    pub schema: u32,
    /// Which slice.
    pub slice: SliceId,
    /// The nodes that are to hold its replicas, and in the end no others.
    pub nodes: Vec<NodeId>,
    /// Nodes whose replicas stay until the control plane has seen that nothing depends on them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kept: Vec<NodeId>,
    /// The one of them that is to lead.
    pub preferred: NodeId,
}

impl WishRecord {
    /// The key of the wish for a slice.
    #[must_use]
    pub fn key(slice: SliceId) -> String {
        format!("{}{:08x}", Self::prefix(slice.volume), slice.index)
    }

    /// Where the wishes for all slices of a volume are.
    #[must_use]
    pub fn prefix(volume: VolumeId) -> String {
        format!("{WISHES_PREFIX}{:016x}/", volume.0)
    }

    /// Whether it can be meant: somebody holds the slice, nobody twice, and one of them leads.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        let mut nodes = [&self.nodes[..], &self.kept].concat();
        nodes.sort_unstable();
        nodes.dedup();
        nodes.len() == self.nodes.len() + self.kept.len()
            && nodes.len() <= REPLICAS_MAX
            && self.nodes.contains(&self.preferred)
    }

    /// Whether a slice's record says what is wished.
    #[must_use]
    pub fn is_met_by(&self, record: &SliceRecord) -> bool {
        let named = |node: &NodeId| record.replica(*node).is_some();
        record.replicas.len() == self.nodes.len()
            && self.nodes.iter().all(named)
            && record.preferred == self.preferred
    }
}

/// The cluster's settings, at [`SETTINGS_KEY`]. What is not there has its default.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SettingsRecord {
    /// Schema number, 1.
    pub schema: u32,
    /// After so many seconds without a word from a node its replicas are rebuilt elsewhere.
    #[serde(default = "default_repair_delay")]
    pub repair_delay_seconds: u64,
    /// Whether slices move by themselves to even out what nodes hold and lead.
    #[serde(default = "default_rebalance")]
    pub rebalance: bool,
    /// By how many percent hosts' commands may become slower by what nodes do in the background.
    #[serde(default = "default_background_slowdown")]
    pub background_slowdown_percent: u32,
    /// Bytes a second, in whole pages of 256 KiB, that a node may do in the background however slow hosts' commands are. A piece of a page
    /// counts for more than its bytes.
    #[serde(default = "default_background_floor")]
    pub background_floor: u64,
    /// A volume is scrubbed when so many seconds have passed since its last scrub began; zero: only when
    /// an operator says so.
    #[serde(default = "default_scrub_interval")]
    pub scrub_interval_seconds: u64,
    /// Bytes a second that a node scrubs at most, of what it leads.
    #[serde(default = "default_scrub_rate")]
    pub scrub_rate: u64,
}

/// An hour: longer than a machine takes to be restarted, or updated.
const fn default_repair_delay() -> u64 {
    60 * 60
}

const fn default_rebalance() -> bool {
    true
}

/// A tenth: what is hardly told from how a machine is at one time and another.
const fn default_background_slowdown() -> u32 {
    10
}

/// 16 MiB/s: a TiB in 18 hours.
const fn default_background_floor() -> u64 {
    16 << 20
}

/// A week: sectors that cannot be read any more are mostly found while the other copies are good.
const fn default_scrub_interval() -> u64 {
    7 * 24 * 60 * 60
}

/// 64 MiB/s: 36 TiB in a week.
const fn default_scrub_rate() -> u64 {
    64 << 20
}

impl Default for SettingsRecord {
    fn default() -> Self {
        Self {
            schema: 1,
            repair_delay_seconds: default_repair_delay(),
            rebalance: default_rebalance(),
            background_slowdown_percent: default_background_slowdown(),
            background_floor: default_background_floor(),
            scrub_interval_seconds: default_scrub_interval(),
            scrub_rate: default_scrub_rate(),
        }
    }
}

/// Who plans for the whole cluster, at [`LEADER_KEY`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LeaderRecord {
    /// Schema number, 1.
    pub schema: u32,
    /// Which node.
    pub node: NodeId,
    /// The lease that it holds: another one each time.
    pub lease: u64,
}

macro_rules! record {
    ($($name:ident),*) => {
        $(impl Record for $name {
            fn schema(&self) -> u32 {
                self.schema
            }
        })*
    };
}

record!(
    AccessRecord,
    ClusterRecord,
    DeletedRecord,
    ExportRecord,
    InitiatorRecord,
    UnitRecord,
    NodeRecord,
    UseRecord,
    BookmarkRecord,
    DenialRecord,
    StopRecord,
    DrainRecord,
    MachineRecord,
    DomainRecord,
    NameRecord,
    MakingRecord,
    VolumeRecord,
    SliceRecord,
    WishRecord,
    IntentRecord,
    SettingsRecord,
    LeaderRecord,
    ScrubRecord,
    ScrubbedRecord,
    CreationRecord
);

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    fn slice_record() -> SliceRecord {
        SliceRecord {
            schema: 1,
            slice: SliceId {
                volume: VolumeId(3),
                index: 1,
            },
            epoch: Epoch(7),
            primary: NodeId(1),
            preferred: NodeId(2),
            replicas: vec![
                ReplicaRecord {
                    node: NodeId(1),
                    store: StoreId(0xA),
                    membership: Membership::InSync,
                },
                ReplicaRecord {
                    node: NodeId(2),
                    store: StoreId(0xB),
                    membership: Membership::Absent {
                        stable: Sequence(41),
                    },
                },
            ],
            copies_min: 1,
            bytes_moved: 0,
            proposer: (NodeId(1), Incarnation(4)),
            nonce: 9,
            recovery: None,
        }
    }

    #[test]
    fn the_slices_of_a_volume_are_all_of_it() {
        let literal = br#"{"schema":1,"volume":3,"name":"v","target":"iqn.2026-11.io.holdfast:v",
            "bytes":4294971392,"policy":"mirror2","lun":0}"#;
        let volume = VolumeRecord::decode(literal).unwrap();
        assert_eq!(volume.slice_count(), 2);
        let bytes = [0, 1, 2, u32::MAX].map(|index| volume.slice_bytes(index));
        assert_eq!(bytes, [SLICE_SIZE, 4096, 0, 0]);
    }

    #[test]
    fn the_first_schema_is_read_for_ever() {
        let literal =
            br#"{"schema":1,"slice":{"volume":3,"index":1},"epoch":7,"primary":1,"preferred":2,
            "replicas":[
            {"node":1,"store":"0000000000000000000000000000000a","state":"in-sync"},
            {"node":2,"store":"0000000000000000000000000000000b","state":"absent","stable":41}],
            "copies_min":1,"proposer":[1,4],"nonce":9}"#;
        assert_eq!(SliceRecord::decode(literal), Ok(slice_record()));
        assert_eq!(
            SliceRecord::decode(&slice_record().encode()),
            Ok(slice_record())
        );
    }

    #[test]
    fn wishes_intents_and_settings_are_read_for_ever() {
        let wish = WishRecord {
            schema: 1,
            slice: slice_record().slice,
            nodes: vec![NodeId(1), NodeId(3)],
            kept: vec![],
            preferred: NodeId(3),
        };
        let literal = br#"{"schema":1,"slice":{"volume":3,"index":1},"nodes":[1,3],"preferred":3}"#;
        assert_eq!(WishRecord::decode(literal), Ok(wish.clone()));
        assert_eq!(&wish.encode()[..], &literal[..]);
        let intent = IntentRecord {
            schema: 1,
            node: NodeId(3),
            standing: NodeStanding::Maintenance,
            site: None,
        };
        let literal = br#"{"schema":1,"node":3,"standing":"maintenance"}"#;
        assert_eq!(IntentRecord::decode(literal), Ok(intent.clone()));
        assert_eq!(&intent.encode()[..], &literal[..]);
        let settings = SettingsRecord::decode(br#"{"schema":1}"#);
        assert_eq!(settings, Ok(SettingsRecord::default()));
        let unknown = br#"{"schema":1,"repair_delay":5}"#;
        assert_eq!(SettingsRecord::decode(unknown), Err(RecordError::Malformed));
    }

    #[test]
    fn a_wish_is_sound_and_met_or_not() {
        let wish = |nodes: &[u16], preferred| WishRecord {
            schema: 1,
            slice: slice_record().slice,
            nodes: nodes.iter().map(|node| NodeId(*node)).collect(),
            kept: vec![],
            preferred: NodeId(preferred),
        };
        assert!(wish(&[1, 3], 3).is_sound());
        assert!(!wish(&[1, 3], 2).is_sound(), "nobody leads");
        assert!(!wish(&[3, 3], 3).is_sound(), "two copies in one place");
        assert!(!wish(&[], 1).is_sound());
        assert!(!wish(&[1, 2, 3, 4, 5, 6, 7, 8, 9], 1).is_sound());
        let record = slice_record();
        assert!(wish(&[2, 1], 2).is_met_by(&record));
        assert!(!wish(&[2, 1], 1).is_met_by(&record));
        assert!(!wish(&[2], 2).is_met_by(&record));
        assert!(!wish(&[1, 3], 1).is_met_by(&record));
    }

    #[test]
    fn other_schemas_and_unknown_fields_are_refused() {
        let newer = SliceRecord {
            schema: 2,
            ..slice_record()
        };
        assert_eq!(
            SliceRecord::decode(&newer.encode()),
            Err(RecordError::Schema(2))
        );
        let newer = br#"{"schema":2,"cluster":"0a","next_volumes":[1],"more":true}"#;
        assert_eq!(ClusterRecord::decode(newer), Err(RecordError::Schema(2)));
        let unknown = br#"{"schema":1,"cluster":"0a","next_volume":1,"more":true}"#;
        assert_eq!(ClusterRecord::decode(unknown), Err(RecordError::Malformed));
    }

    #[test]
    fn what_was_made_again_is_told_from_what_was_not() {
        let cluster =
            br#"{"schema":1,"cluster":"0000000000000000000000000000000a","next_volume":4}"#;
        let first = ClusterRecord::decode(cluster).unwrap();
        assert_eq!((first.recoveries, first.incarnation_floor.0), (0, 0));
        assert_eq!(&first.encode()[..], &cluster[..]);
        let again = ClusterRecord {
            recoveries: 1,
            incarnation_floor: Incarnation(70),
            ..first
        };
        assert_eq!(ClusterRecord::decode(&again.encode()), Ok(again));
        let gap = EpochGap {
            known: Epoch(7),
            made: Epoch(100),
            discards: false,
        };
        let recovery = SliceRecovery {
            unconfirmed: true,
            gaps: vec![gap],
        };
        for (begun, found) in [(7, None), (8, Some(&gap)), (99, Some(&gap)), (100, None)] {
            assert_eq!(recovery.gap_of(Epoch(begun)), found);
        }
        let slice = SliceRecord {
            recovery: Some(recovery),
            ..slice_record()
        };
        assert!(slice.is_unconfirmed() && !slice_record().is_unconfirmed());
        assert_eq!(SliceRecord::decode(&slice.encode()), Ok(slice));
    }
}
