//! Documents about protection: what is left to do until every volume has all its copies, what that waits
//! for, and what an operator may do.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Health, LocalCluster};

/// Copies that are being made, or brought up to date.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SyncWork {
    /// Replicas that lack something, those that wait for their turn among them.
    pub replicas: u32,
    /// Bytes that they lack, at most: of a replica that has not said what it has, all that is on the
    /// slice.
    pub bytes: u64,
    /// Bytes in a second by which that has become less, over the last ten seconds.
    pub bytes_per_second: u64,
    /// Seconds until nothing is left, at this rate; null if there is no rate to tell it from.
    pub seconds_left: Option<u64>,
}

/// What does not go on by itself.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
pub struct Wait {
    /// What is waited for.
    pub what: String,
    /// Seconds until it goes on in any case; null if nobody can tell, or it never does.
    pub seconds_left: Option<u64>,
}

/// How far the cluster is from every volume having all its copies, on nodes that answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Protection {
    /// Whether every volume has.
    pub protected: bool,
    /// Slices that have not.
    pub slices: u32,
    /// What is left of the work that makes it so. Its time is null as long as anything is waited for.
    pub work: SyncWork,
    /// What is waited for that does not go on by itself.
    pub waits_for: Vec<Wait>,
}

/// What is wrong.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum FindingKind {
    /// Nobody takes reads and writes.
    NotServed,
    /// No write is done: too few copies are there.
    WritesWait,
    /// A node is down that holds a copy.
    NodeDown,
    /// A node that holds a copy which counts as good does not answer.
    NodeSilent,
    /// A copy is not up to date yet.
    Syncing,
    /// Blocks of a copy, or on a node, are bad, or were until they were fetched from other copies just now.
    BadBlocks,
    /// There are fewer copies than the policy says, and no node for more.
    NoPlace,
    /// Copies are in one failure domain.
    SharedDomain,
    /// Copies are in one site, and another site has none.
    SharedSite,
    /// A node's devices are not open, or have failed.
    DevicesFailed,
    /// A node does without one of its devices, which is missing or has failed.
    DeviceAbsent,
    /// A device was taken away while its node has it open: the node's next start does not find it.
    DeviceDetached,
    /// A device is being emptied.
    DeviceDraining,
    /// A node has little room left, or none.
    NoRoom,
    /// A node does not follow the metadata.
    MetadataLost,
    /// The node that answers is not registered: another one has its number, or its name.
    NotRegistered,
    /// A node answers, and has not registered since it started: it does not reach the metadata, or that takes no change.
    NotRegisteredYet,
    /// The metadata that a node reaches is full, and takes no change.
    MetadataFull,
    /// A node has registered, and waits to be admitted.
    NotAdmitted,
    /// A node is in maintenance.
    Maintenance,
    /// A node is being drained.
    Draining,
    /// A member of etcd does not answer, or not to every node.
    MetadataMember,
    /// What this version does not know.
    #[serde(other)]
    Other,
}

/// What an operator may do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Remedy {
    /// What it does. Nothing that loses data is proposed without saying so.
    pub what: String,
    /// The command; null if it is none of the command line's.
    pub command: Option<String>,
}

/// Something that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Finding {
    /// What kind of thing is wrong.
    pub kind: FindingKind,
    /// How the cluster, or the volume, is at best as long as this is so.
    #[serde(default)]
    pub health: Health,
    /// What is wrong.
    pub what: String,
    /// Of a volume: how many of its slices it is about; else zero.
    pub slices: u32,
    /// Of a volume: which of its slices, from 0, as in "0-3 7"; else empty.
    pub indexes: String,
    /// What is left to be copied; null if nothing is.
    pub work: Option<SyncWork>,
    /// What is waited for.
    pub waits_for: Vec<Wait>,
    /// What an operator may do; nothing if nothing needs to be done.
    pub remedies: Vec<Remedy>,
}

/// A volume about which there is something to know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct VolumeFindings {
    /// Its name.
    pub volume: String,
    /// How it is: it may be healthy, where what there is to know is no lack of copies.
    pub health: Health,
    /// What.
    pub findings: Vec<Finding>,
}

/// Why the cluster is not healthy, and what helps.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Explanation {
    /// How far it is from every volume having all its copies.
    pub protection: Protection,
    /// What there is to know about what keeps the metadata.
    #[serde(default)]
    pub metadata: Vec<Finding>,
    /// What there is to know about nodes.
    pub nodes: Vec<NodeFindings>,
    /// The volumes about which there is something to know, by name; those that are not healthy among them.
    pub volumes: Vec<VolumeFindings>,
    /// The revision of the metadata from which this was made; zero if the metadata did not answer: then
    /// this is what one node knows by itself.
    pub revision: u64,
    /// What nodes say of themselves, if the metadata did not answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub known: Option<LocalCluster>,
}

/// A node about which there is something to know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NodeFindings {
    /// Its name.
    pub node: String,
    /// What.
    pub findings: Vec<Finding>,
}

/// What a replica is doing that neither leads nor follows, and with whom.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
pub struct LocalCondition {
    /// What.
    pub what: ReplicaCondition,
    /// The numbers of the nodes that this is about: those that it waits for, or that feed it.
    pub nodes: Vec<u16>,
}

/// What a replica is doing that neither leads nor follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ReplicaCondition {
    /// It leads, and no write is committed: the nodes are gone, and too few copies would remain.
    Stuck,
    /// It is to lead, and serves as soon as the nodes have what it has.
    Begins,
    /// It wants to lead, as soon as fewer others of its node do.
    Queued,
    /// It wants to lead, and asks the nodes how far they are, or waits for the end of a lease.
    Asks,
    /// It wants to lead, and lets the node go first, which is further.
    StandsBack,
    /// It wants to lead; its journal ended in a bad group, and it has not heard the nodes, which may have
    /// what was in it.
    Doubts,
    /// It wants to lead, and the metadata has to say whether it does.
    Proposes,
    /// It is being brought up to date by the node.
    Joins,
    /// It is not in sync, and offers itself to the node.
    Offers,
    /// It is not in sync, and waits for room on its node: what it was sent found none.
    NoRoom,
    /// Something durable is lost: it is copied in full.
    Damaged,
    /// A part of it was on a device of its node that is absent: others bring it, or it is there again with the
    /// device.
    Lacks,
    /// The record means other contents of the node's devices than those that are there.
    OtherStore,
    /// The newest record has no place for it: what is here is dropped.
    Unnamed,
    /// It knows no record of its slice, or only one from before what it took part in.
    Unrecorded,
    /// What this version does not know.
    #[serde(other)]
    Other,
}

impl ReplicaCondition {
    /// The word that documents use.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Stuck => "stuck",
            Self::Begins => "begins",
            Self::Queued => "queued",
            Self::Asks => "asks",
            Self::StandsBack => "stands-back",
            Self::Doubts => "doubts",
            Self::Proposes => "proposes",
            Self::Joins => "joins",
            Self::Offers => "offers",
            Self::NoRoom => "no-room",
            Self::Damaged => "damaged",
            Self::Lacks => "lacks",
            Self::OtherStore => "other-store",
            Self::Unnamed => "unnamed",
            Self::Unrecorded => "unrecorded",
            Self::Other => "other",
        }
    }
}

/// Whether a node follows the metadata.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum LocalMetadata {
    /// It does.
    #[default]
    Followed,
    /// It does not reach it, or has not been registered in it yet.
    Unreached,
    /// It answers, and is not believed: it has gone back, is another cluster's, or is otherwise not as it must be. The word
    /// is of a version that knew the first of these only, and stays because nodes of it read it.
    Behind,
}

impl LocalMetadata {
    /// Whether it is believed; nothing where it is not reached.
    #[must_use]
    pub const fn is_believed(self) -> Option<bool> {
        match self {
            Self::Followed => Some(true),
            Self::Unreached => None,
            Self::Behind => Some(false),
        }
    }
}

/// A replica that is not in sync, as its primary knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LocalLacking {
    /// The number of the node where it is.
    pub node: u16,
    /// Bytes of blocks that it lacks; null if nobody can tell before it has said what it has.
    pub bytes: Option<u64>,
}

/// How fast replicas led here bring those on another node up to date.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LocalSync {
    /// The number of the other node.
    pub node: u16,
    /// Bytes in a second that replicas there lacked and have now, over the last ten seconds.
    pub bytes_per_second: u64,
}

/// For how long a node has been silent, as the one that steers counts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LocalSilence {
    /// The node's number.
    pub node: u16,
    /// For so many seconds.
    pub seconds: u64,
    /// Whether it may be longer: it was silent already when the one that steers began to.
    #[serde(default)]
    pub at_least: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_called_as_they_are_written() {
        use ReplicaCondition as It;
        for condition in [
            It::Stuck,
            It::Begins,
            It::Queued,
            It::Asks,
            It::StandsBack,
            It::Doubts,
            It::Proposes,
            It::Joins,
            It::Offers,
            It::NoRoom,
            It::Damaged,
            It::Lacks,
            It::OtherStore,
            It::Unnamed,
            It::Unrecorded,
        ] {
            let written = serde_json::to_value(condition).expect("it is a word");
            assert_eq!(written, condition.as_str());
        }
    }
}
