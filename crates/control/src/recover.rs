//! Metadata that is lost for good, made again from what the nodes' devices say.
//!
//! It refuses to guess. What cannot be known is told as a [`Doubt`]; and of a slice of which a node that
//! was not heard may know more, a record is made that waits for that node.
//!
//! Invariants:
//! - a slice is served without further ado only if every replica that may have gone on after the newest
//!   epoch that is known of has told that it did not, or an operator has given up what it may have;
//! - new epochs, and new starts of nodes, have numbers above all that may have been given out;
//! - the cluster's record comes last: what was made in part is followed by nobody.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;

use holdfast_model::metadata::{Operation, Selector, Transaction};
use holdfast_model::record::{
    AccessRecord, CLUSTER_KEY, ClusterRecord, DELETED_KEY, IntentRecord, MACHINES_PREFIX,
    NameRecord, NodeRecord, SETTINGS_KEY, SettingsRecord, SliceRecord, VolumeRecord,
};
use holdfast_model::report::{NodeReport, NoteDocument};
use holdfast_model::{ClusterId, Epoch, Fence, NodeId, SliceId, StoreId, VolumeId};

use crate::volume::{VolumeName, VolumeSize};
use crate::writing::{absent, put};
use documents::Documents;
pub use doubt::Doubt;
use slices::Slices;

mod documents;
mod doubt;
mod slices;
#[cfg(test)]
mod tests;

/// Everything that is made again, and everything that was there, is under it.
pub const METADATA_PREFIX: &str = "/holdfast/";
/// New numbers begin so far, at least, behind those that are known of: further than any that was given out
/// and is not known of, as a slice's epoch or a node's start changes a few times a second at most.
pub(crate) const STEP: u64 = 1_000_000_000;
/// More changes of the access to a volume than there are between two losses of the metadata: 1,000 a second for over a month.
const FENCES_PER_RECOVERY: u64 = 1 << 32;
/// No number that counts something gets as far as this.
const NUMBER_MAX: u64 = 1 << 62;
/// Records in a transaction: fewer than its operations may be, and small enough together.
const RECORDS_PER_TRANSACTION: usize = 64;

/// The first multiple of [`STEP`] that is so far behind a number.
pub(crate) fn beyond(number: u64) -> u64 {
    (number + STEP).div_ceil(STEP) * STEP
}

/// What an operator has decided.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decisions {
    /// Volumes that are not made again: names, or numbers with a `v`.
    pub without: BTreeSet<String>,
    /// Nodes, by name or number with an `n`, that are lost for good: what they alone knew is given up.
    pub lost: BTreeSet<String>,
}

/// Why there is no plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecoverError {
    /// There is nothing to go by.
    #[error("there is no report")]
    NoReport,
    /// Two reports are of different clusters.
    #[error("the reports are of two clusters, {0} and {1}")]
    TwoClusters(ClusterId, ClusterId),
    /// Two reports are of one node.
    #[error("there are two reports of node {0}: which one is right cannot be told")]
    Twice(NodeId),
    /// A report says what no node can have written.
    #[error("the report of node {node} says what cannot be: {what}")]
    Absurd {
        /// Whose.
        node: NodeId,
        /// What.
        what: &'static str,
    },
    /// No such volume was found.
    #[error("no report tells of a volume {0}")]
    NoVolume(String),
    /// No such node was found.
    #[error("no report tells of a node {0}")]
    NoNode(String),
    /// A node is to be given up of which there is a report.
    #[error("node {0} is to be given up as lost, and there is a report of it")]
    NotLost(String),
    /// Two volumes have the same name.
    #[error(
        "volumes {first} and {second} are both called {name}: the first was deleted, most likely"
    )]
    SameName {
        /// The name.
        name: String,
        /// The older one.
        first: VolumeId,
        /// The newer one.
        second: VolumeId,
    },
}

/// What is to become of a slice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is served as soon as one of its replicas that are in sync is there.
    Certain,
    /// It is served when all of these nodes have started, which may know more, and the others that were in
    /// sync; unless one of them does know more.
    Waits(Vec<NodeId>),
    /// It goes on without what these nodes, which are given up, may have known alone.
    WithoutLost(Vec<NodeId>),
    /// It has never been written to.
    New,
    /// It is not made again, and its volume lacks it: nothing is known of it.
    Unknown,
    /// It is not made again: the newest of its records is not known.
    NoRecord,
}

/// A slice that was, or is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedSlice {
    /// Which.
    pub slice: SliceId,
    /// What becomes of it.
    pub fate: Fate,
    /// The record that is made of it, if one is.
    pub record: Option<SliceRecord>,
}

/// What is made again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recovery {
    /// The cluster.
    pub cluster: ClusterRecord,
    /// The settings, if any are known.
    pub settings: Option<SettingsRecord>,
    /// The nodes.
    pub nodes: BTreeMap<NodeId, NodeRecord>,
    /// What was wanted of them.
    pub intents: BTreeMap<NodeId, IntentRecord>,
    /// Nodes that told nothing, and are not given up.
    pub missing: BTreeSet<NodeId>,
    /// Nodes that are given up.
    pub lost: BTreeSet<NodeId>,
    /// The volumes.
    pub volumes: BTreeMap<VolumeId, VolumeRecord>,
    /// The slices, in their order.
    pub slices: Vec<PlannedSlice>,
    /// What cannot be known.
    pub doubts: Vec<Doubt>,
}

/// What the metadata is to be, as far as these reports tell.
///
/// # Errors
/// [`RecoverError`] if the reports, or what an operator has decided, do not fit together.
pub fn recover(reports: &[NodeReport], decisions: &Decisions) -> Result<Recovery, RecoverError> {
    check(reports)?;
    let mut doubts = Vec::new();
    let mut documents = Documents::gather(reports, &mut doubts);
    let lost = documents.named_nodes(&decisions.lost)?;
    // What only it has would be thrown away, although it is here.
    if let Some(report) = reports.iter().find(|report| lost.contains(&report.node)) {
        return Err(RecoverError::NotLost(documents.node_name(report.node)));
    }
    let missing: BTreeSet<NodeId> = documents
        .members()
        .filter(|node| !lost.contains(node) && reports.iter().all(|it| it.node != *node))
        .collect();
    for node in &missing {
        doubts.push(Doubt::NodeMissing(documents.node_name(*node)));
    }
    let left_out = documents.leave_out(&decisions.without)?;
    documents.check_names()?;
    documents.tell_doubtful_volumes(reports, &mut doubts);
    if documents.settings.is_none() {
        doubts.push(Doubt::NoSettings);
    }
    let cluster = documents.cluster(reports);
    let mut slices = Slices {
        reports,
        documents: &documents,
        missing: &missing,
        lost: &lost,
        planned: Vec::new(),
        doubts,
    };
    slices.plan(&cluster, &left_out);
    let Slices {
        planned, doubts, ..
    } = slices;
    Ok(Recovery {
        cluster,
        settings: documents.settings,
        nodes: documents.nodes,
        intents: documents.intents,
        missing,
        lost,
        volumes: documents.volumes,
        slices: planned,
        doubts,
    })
}

/// Whether the reports are of one cluster, and one of each node.
fn check(reports: &[NodeReport]) -> Result<(), RecoverError> {
    let first = reports.first().ok_or(RecoverError::NoReport)?;
    let mut seen = BTreeSet::new();
    for report in reports {
        if report.cluster != first.cluster {
            return Err(RecoverError::TwoClusters(first.cluster, report.cluster));
        }
        if !seen.insert(report.node) {
            return Err(RecoverError::Twice(report.node));
        }
        if let Some(what) = absurdity(report) {
            let node = report.node;
            return Err(RecoverError::Absurd { node, what });
        }
    }
    Ok(())
}

/// What in a report cannot be: it may have been changed on its way here.
fn absurdity(report: &NodeReport) -> Option<&'static str> {
    let mut numbers = Vec::from([report.uses, report.incarnation_max.0]);
    let mut held = BTreeSet::new();
    for it in &report.slices {
        numbers.extend([it.epoch.0, it.withdrawn.0, it.slice.volume.0]);
        if !held.insert(it.slice) {
            return Some("a slice is there twice");
        }
        let Some(record) = &it.record else { continue };
        numbers.extend([record.epoch.0, record.proposer.1.0]);
        let nodes: BTreeSet<NodeId> = record.replicas.iter().map(|it| it.node).collect();
        if nodes.len() != record.replicas.len() || !record.in_sync().any(|it| it == record.primary)
        {
            return Some("a slice's record names nobody to lead it, or a node twice");
        }
    }
    for note in &report.notes {
        numbers.extend([note.at.recoveries, note.at.revision.0]);
        match &note.document {
            NoteDocument::Cluster(record, start) => {
                numbers.extend([record.next_volume.0, record.recoveries, start.0]);
                numbers.push(record.incarnation_floor.0);
            }
            NoteDocument::Node(record) => numbers.extend([record.uses, record.incarnation.0]),
            NoteDocument::Volume(volume) => {
                let name: Result<VolumeName, _> = volume.name.parse();
                if name.is_err() || VolumeSize::new(volume.bytes).is_err() {
                    return Some("a volume's name or size is none");
                }
                numbers.push(volume.volume.0);
            }
            NoteDocument::Settings(_) | NoteDocument::Intent(_) | NoteDocument::Bookmark(_) => {}
        }
    }
    let is_too_high = numbers.into_iter().any(|number| number > NUMBER_MAX);
    is_too_high.then_some("a number is too high")
}

impl Recovery {
    /// The transactions that make it, one after the other. Each is done only if there is no cluster (any
    /// more); with `replace` the first one deletes all that there is.
    #[must_use]
    pub fn transactions(&self, replace: bool) -> Vec<Transaction> {
        let mut puts: Vec<Operation> = Vec::new();
        let made = self.slices.iter().filter_map(|it| it.record.as_ref());
        puts.extend(made.map(|it| put(SliceRecord::key(it.slice), it)));
        for volume in self.volumes.values() {
            let name = NameRecord {
                schema: 1,
                volume: volume.volume,
            };
            puts.push(put(NameRecord::key(&volume.name), &name));
            puts.push(put(VolumeRecord::key(volume.volume), volume));
            let access = self.access_of(volume.volume);
            puts.push(put(AccessRecord::key(volume.volume), &access));
        }
        let nodes = self.nodes.values();
        puts.extend(nodes.map(|it| put(NodeRecord::key(it.node), it)));
        let intents = self.intents.values();
        puts.extend(intents.map(|it| put(IntentRecord::key(it.node), it)));
        puts.extend(self.settings.iter().map(|it| put(SETTINGS_KEY.into(), it)));
        let nothing = absent(CLUSTER_KEY.into());
        let clear = replace.then(|| Transaction {
            success: alloc::vec![Operation::Delete(Selector::Prefix(METADATA_PREFIX.into()))],
            ..Transaction::default()
        });
        let cluster = put(CLUSTER_KEY.into(), &self.cluster);
        let mut steps: Vec<Vec<Operation>> = puts
            .chunks(RECORDS_PER_TRANSACTION)
            .map(<[Operation]>::to_vec)
            .collect();
        // Who takes a number meanwhile does so for what is made here, and may have to wait.
        let machines = Operation::Delete(Selector::Prefix(MACHINES_PREFIX.into()));
        // What was deleted may be there again.
        let deleted = Operation::Delete(Selector::Key(DELETED_KEY.into()));
        steps.push(alloc::vec![machines, deleted, cluster]);
        let steps = steps.into_iter().map(|success| Transaction {
            compare: alloc::vec![nothing.clone()],
            success,
            failure: Vec::new(),
        });
        clear.into_iter().chain(steps).collect()
    }

    /// Nobody is registered: what was is not noted anywhere. Everything that was let in before is fenced off.
    fn access_of(&self, volume: VolumeId) -> AccessRecord {
        AccessRecord {
            fence: Fence(self.cluster.recoveries * FENCES_PER_RECOVERY),
            ..AccessRecord::open(volume)
        }
    }

    /// The slices of a volume, in their order.
    pub fn slices_of(&self, volume: VolumeId) -> impl Iterator<Item = &PlannedSlice> {
        let slices = self.slices.iter();
        slices.filter(move |planned| planned.slice.volume == volume)
    }

    /// Whether all of a volume is made again, if only to wait.
    #[must_use]
    pub fn is_complete(&self, volume: &VolumeRecord) -> bool {
        let made = self.slices_of(volume.volume);
        made.filter(|planned| planned.record.is_some()).count() == volume.slice_count() as usize
    }
}

/// What a slice's record relies on.
pub(crate) type Place = (NodeId, StoreId);

/// The epoch of a record that is made again, where this is the highest that was heard of.
pub(crate) fn epoch_beyond(epoch: Epoch) -> Epoch {
    Epoch(beyond(epoch.0))
}
