//! What one node says of itself. Nodes of two versions read it: what is new may be missing.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{
    Device, ListedMember, LocalCondition, LocalLacking, LocalMember, LocalMetadata, LocalSession,
    LocalSilence, LocalStall, LocalSync, PathState, Room, ScrubFindings, Versions,
};

/// Why a node is not the one that its configuration says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Rejected {
    /// What stands in its way.
    pub why: String,
    /// What an operator may do: one of these.
    pub remedies: Vec<String>,
}

/// Why a node believes nothing of the metadata.
#[derive(
    Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema,
)]
pub struct Astray {
    /// What is wrong with it.
    pub why: String,
    /// What an operator may do: one of these.
    pub remedies: Vec<String>,
}

/// How a process of a node ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ProcessEnd {
    /// It stopped as it was told to.
    Stopped,
    /// It ended otherwise: it was killed or crashed, ended with an error, or its machine went down.
    Cut,
    /// What this version does not know.
    #[serde(other)]
    Other,
}

/// Why a node waits for a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AwaitedCause {
    /// It is not there, and was when the node last ran: the node starts without it soon, if it can.
    Missing,
    /// It is not there, and the node cannot start without it: it is waited for until it comes.
    Needed,
    /// It failed, and the node cannot start without it: it is tried again and again.
    Failed,
    /// It is shorter than it was, and the node cannot start without it: it is waited for until it is as long as it was.
    CutShort,
    /// What this version does not know.
    #[serde(other)]
    Other,
}

/// Which of a node's certificates expires first: of those that the cluster's authority answers for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CertificateOf {
    /// Its own.
    Node,
    /// That of the cluster's authority, which has signed it.
    Authority,
    /// What this version does not know.
    #[serde(other)]
    Other,
}

/// A certificate that somebody else issues, for as long as he likes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ForeignCertificate {
    /// When it expires: milliseconds since 1970 (UTC).
    pub expires_ms: u64,
    /// For how long it is good in all: milliseconds.
    pub lifetime_ms: u64,
}

/// What a node knows of itself that alarms are about, beside what volumes need.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Vitals {
    /// Its clock when it answered: milliseconds since 1970 (UTC).
    pub clock_ms: u64,
    /// The longest that commands of hosts have waited at its portal, of what ended within the last hour or lasts: milliseconds.
    pub longest_stall_ms: u64,
    /// When the first of the certificates expires that it shows to other nodes and to clients: its own, and that of its authority.
    /// Milliseconds since 1970 (UTC); null without any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate_expires_ms: Option<u64>,
    /// Which one that is; null without any, and from versions that do not say: there it is its own, or its authority's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate_of: Option<CertificateOf>,
    /// The one that it shows to an etcd that somebody else runs (`metadata.certificate`); null without any, and from versions that do
    /// not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub etcd_certificate: Option<ForeignCertificate>,
}

/// What one node knows by itself, from which any node makes the documents about volumes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LocalReport {
    /// The node's number.
    pub node: u16,
    /// Its name.
    pub name: String,
    /// This start of it, if it has been registered since; else 0.
    pub incarnation: u64,
    /// The contents of its devices, 32 hexadecimal digits, if it has been registered since it started: no other node
    /// has the same.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub store: String,
    /// What it runs; null from a version that does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub versions: Option<Versions>,
    /// Its process.
    pub process: u32,
    /// How the process before it ended, in the same directory; null of the first, and from a version that does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process_before: Option<ProcessEnd>,
    /// Which report of this start it is, from 1: each is made after the one before.
    pub number: u64,
    /// It was told to stop: told within the process, for it ends when others might hear of it.
    #[serde(skip)]
    pub stopping: bool,
    /// Whether its devices are open, and none has failed.
    pub open: bool,
    /// The device that it waits for before it opens them; null where it waits for none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub awaited_device: Option<String>,
    /// Why it waits for that device; null where it waits for none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub awaited_cause: Option<AwaitedCause>,
    /// The room on its devices; nothing while they are not open.
    pub room: Room,
    /// The volumes that its portal knows.
    pub volumes: Vec<LocalVolume>,
    /// The slices of which it holds a replica.
    pub slices: Vec<LocalSlice>,
    /// Volumes of which no command is done at its portal though some wait, also if that is so of one initiator only.
    #[serde(default)]
    pub stalled: Vec<LocalStall>,
    /// Bytes a second that its background work is held to; nothing while it is held to nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub background_rate: Option<u64>,
    /// Whether it follows the metadata: followed, unreached, or behind, which is of any that it does not believe.
    #[serde(default)]
    pub metadata: LocalMetadata,
    /// The revision of the metadata through which it knows everything; 0 where it knows nothing, and from a version that does not tell.
    #[serde(default)]
    pub metadata_revision: u64,
    /// Whether it believes the metadata; null where it does not reach it, and of an earlier version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata_believed: Option<bool>,
    /// Why it believes nothing of the metadata, if that answers, and it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub astray: Option<Astray>,
    /// Numbers of other nodes that follow another copy of the metadata than it: neither hears the other.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub strangers: Vec<u16>,
    /// Why it is not registered in the metadata, if another node has its number or its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rejected: Option<Rejected>,
    /// Whether the metadata that it reaches is full, and takes no change.
    #[serde(default)]
    pub metadata_full: bool,
    /// The members of etcd that it is configured with; none where etcd does not keep the metadata, and before each of
    /// them has been judged.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub metadata_members: Vec<LocalMember>,
    /// Who the members of etcd are, as it last said itself; nothing before it has since the node's start.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub metadata_listed: Vec<ListedMember>,
    /// The nodes that replicas led here bring something to, and how fast that goes.
    #[serde(default)]
    pub syncs: Vec<LocalSync>,
    /// If it steers: which nodes are silent.
    #[serde(default)]
    pub silent: Vec<LocalSilence>,
    /// It does not reach the metadata, and would tell receivers of alarms that nobody does: nodes with higher numbers leave that to it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tells_of_loss: bool,
    /// What scrubs of slices that were led here have found since its start.
    #[serde(default)]
    pub scrubbed: ScrubFindings,
    /// Copies of entries of its page table that scrubs have found to be bad since its start, and that were written
    /// again.
    #[serde(default)]
    pub table_copies_mended: u64,
    /// Blocks that were bad on it, and have just been fetched from other nodes; null while there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mending: Option<Mending>,
    /// Blocks of it that were put right since its start.
    #[serde(default)]
    pub mended: MendedBlocks,
    /// What was read of its journal since its start to find what has rotted there, and found.
    #[serde(default)]
    pub journal_scrubs: JournalScrubs,
    /// What of reads came from its memory since its start.
    #[serde(default)]
    pub cache: CacheUse,
    /// Its devices; none while they are not open.
    #[serde(default)]
    pub devices: Vec<Device>,
    /// What alarms are about beside all that; null from a version that does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vitals: Option<Vitals>,
    /// The sessions at its portal, which are asked for by themselves, as paths are.
    #[serde(skip)]
    pub sessions: Vec<LocalSession>,
    /// What volumes promise of its room: the bytes of all slices of which it holds a replica. For its metrics only.
    #[serde(skip)]
    pub provisioned_bytes: u64,
    /// Bytes that replicas on other nodes lacked and were brought from here, since its start. For its metrics only.
    #[serde(skip)]
    pub brought_bytes: u64,
    /// The name of the key by which it opens secrets in the metadata, 16 hexadecimal digits; null from one that has none, or a
    /// version that cannot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secrets_key: Option<String>,
    /// Up to which form it opens what is sealed there: 1, of secrets; 2, of URLs of webhooks besides. Null from one that opens
    /// nothing, or secrets only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secrets_form: Option<u32>,
}

/// Bad blocks of a node that were fetched from other nodes, without a pause of more than some seconds, until now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Mending {
    /// How many blocks of 4 KiB.
    pub blocks: u64,
    /// Seconds since the first of them.
    pub seconds: u64,
}

/// Blocks of 4 KiB that were put right on a node with what other replicas had, by how it was known that they were wrong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MendedBlocks {
    /// They were bad when somebody read them.
    pub read: u64,
    /// They were known to be bad: a scrub had found them, or the start of the node.
    pub known: u64,
    /// They were sound, and not what the other replicas had: a scrub had found that.
    pub differing: u64,
}

/// What a node has found when it read its own journal for scrubs, since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct JournalScrubs {
    /// Times that all of it was read.
    pub rounds: u64,
    /// Bytes that were read.
    pub bytes_read: u64,
    /// Segments with a place that could not be read, or was not what had been written.
    pub bad_segments: u64,
    /// Of these, those of which everything that matters was written again.
    pub mended_segments: u64,
}

/// Blocks of 4 KiB that were read from what a node keeps in memory, or were not there, since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CacheUse {
    /// Blocks that were in memory because they had been read before.
    pub hits: u64,
    /// Blocks that were not in memory.
    pub misses: u64,
    /// Blocks that had been read ahead when they were asked for, or were about to be.
    pub ahead_used: u64,
    /// Blocks that were read ahead, and that nobody asked for before they went.
    pub ahead_unused: u64,
}

/// A volume at one portal.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LocalVolume {
    /// The volume's id.
    pub volume: u64,
    /// What it is called, for metrics. Who asks the node for a report has the metadata, which says so as well.
    #[serde(skip)]
    pub name: Option<String>,
    /// Whether this portal serves it whole: reads and writes of every slice reach a primary that
    /// takes them.
    pub serving: bool,
    /// Sessions of initiators with its target.
    pub sessions: u32,
    /// What hosts are told of this path. It is told with the sessions, and not in the report: that is asked of all nodes at each
    /// look, and stays small.
    #[serde(skip)]
    pub path: Option<PathState>,
}

/// A replica of a slice.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LocalSlice {
    /// The volume's id.
    pub volume: u64,
    /// Which slice of it.
    pub index: u32,
    /// The number of the newest configuration that the replica knows.
    pub epoch: u64,
    /// Whether it is the primary, and takes reads and writes.
    pub serving: bool,
    /// Bytes of pages that the replica holds.
    pub used_bytes: u64,
    /// What hosts have it do in a second, as a mean over some minutes: each read and each write that it takes part in
    /// counts, and each 64 KiB of them as much again.
    #[serde(default)]
    pub work_per_second: u64,
    /// Blocks of 4 KiB that are known to be bad here and have not been fetched from another replica
    /// yet.
    pub bad_blocks: u64,
    /// The replicas that it is bringing up to date.
    pub joining: Vec<LocalJoining>,
    /// If it serves: all replicas that are not in sync, those that it brings up to date among them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lacking: Vec<LocalLacking>,
    /// What it is doing, if it neither leads without ado nor follows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub condition: Option<LocalCondition>,
    /// For how many milliseconds it has been about to lead, because the primary before it hands the slice over while all is well, or
    /// because nobody has ever led it; null where it is not, and from a version that does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handed_ms: Option<u64>,
    /// How far it is scrubbed, if that is under way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scrub: Option<LocalScrub>,
}

/// How far a slice is scrubbed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LocalScrub {
    /// Which round it is.
    pub round: u64,
    /// What was found until now.
    pub findings: ScrubFindings,
}

/// A replica that is being brought up to date by another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LocalJoining {
    /// The number of the node where it is.
    pub node: u16,
    /// Bytes that it has.
    pub bytes_done: u64,
    /// Bytes that it needs, those that it has among them.
    pub bytes_total: u64,
    /// Bytes of data that were sent for it.
    pub bytes_moved: u64,
    /// Bytes in a second by which it has come closer, over the last ten seconds.
    #[serde(default)]
    pub bytes_per_second: u64,
}
