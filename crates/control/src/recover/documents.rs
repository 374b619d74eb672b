//! What nodes have noted of the metadata's documents, put together.
//!
//! Invariants:
//! - of two notes of the same thing the later one counts;
//! - what a node with later knowledge does not know of is gone, but for volumes: of those an operator
//!   decides.

use alloc::borrow::ToOwned;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use holdfast_model::record::{
    ClusterRecord, IntentRecord, NodeRecord, NodeStanding, SettingsRecord, VolumeRecord,
};
use holdfast_model::report::{NodeReport, Note, NoteDocument, NotePlace, NotedAt};
use holdfast_model::{Incarnation, NodeId, VolumeId};

use super::{Doubt, RecoverError, beyond};

/// What is known.
#[derive(Debug)]
pub(super) struct Documents {
    noted: BTreeMap<NotePlace, Note>,
    /// Nodes whose devices are older than what is known of them.
    pub(super) old: BTreeSet<NodeId>,
    /// Nodes whose journal lacks a part.
    pub(super) holes: BTreeSet<NodeId>,
    pub(super) settings: Option<SettingsRecord>,
    pub(super) nodes: BTreeMap<NodeId, NodeRecord>,
    pub(super) intents: BTreeMap<NodeId, IntentRecord>,
    pub(super) volumes: BTreeMap<VolumeId, VolumeRecord>,
    reported: BTreeSet<NodeId>,
}

/// As of when a node knows everything, if it does.
fn knows_as_of(report: &NodeReport) -> Option<NotedAt> {
    let intact = report.notes_unreadable == 0 && !report.has_hole;
    let mut notes = report.notes.iter();
    let cluster = notes.find(|note| note.document.place() == NotePlace::Cluster);
    cluster.map(|note| note.at).filter(|_| intact)
}

/// Who knows of later times than a note, and not of what it is of.
fn unknown_to(reports: &[NodeReport], note: &Note) -> Option<NodeId> {
    let place = note.document.place();
    let mut reports = reports.iter();
    let by = reports.find(|report| {
        knows_as_of(report).is_some_and(|at| at >= note.at)
            && report.notes.iter().all(|it| it.document.place() != place)
    });
    by.map(|report| report.node)
}

impl Documents {
    pub(super) fn gather(reports: &[NodeReport], doubts: &mut Vec<Doubt>) -> Self {
        let mut noted: BTreeMap<NotePlace, Note> = BTreeMap::new();
        for note in reports.iter().flat_map(|report| &report.notes) {
            let newest = noted.entry(note.document.place());
            let newest = newest.or_insert_with(|| note.clone());
            if newest.at < note.at {
                *newest = note.clone();
            }
        }
        let mut documents = Self {
            noted,
            old: BTreeSet::new(),
            holes: BTreeSet::new(),
            settings: None,
            nodes: BTreeMap::new(),
            intents: BTreeMap::new(),
            volumes: BTreeMap::new(),
            reported: reports.iter().map(|report| report.node).collect(),
        };
        for note in documents.noted.values() {
            let is_gone = unknown_to(reports, note).is_some();
            match note.document.clone() {
                NoteDocument::Volume(it) => drop(documents.volumes.insert(it.volume, it)),
                _ if is_gone => {}
                NoteDocument::Settings(it) => documents.settings = Some(it),
                NoteDocument::Node(it) => drop(documents.nodes.insert(it.node, it)),
                NoteDocument::Intent(it) => drop(documents.intents.insert(it.node, it)),
                NoteDocument::Cluster(..) | NoteDocument::Bookmark(_) => {}
            }
        }
        documents.look_at_devices(reports, doubts);
        documents
    }

    /// What is wrong with the reports themselves.
    fn look_at_devices(&mut self, reports: &[NodeReport], doubts: &mut Vec<Doubt>) {
        for report in reports {
            let node = report.node;
            let known = self.nodes.get(&node);
            let known = known.filter(|known| known.store == report.store);
            if known.is_some_and(|known| known.uses > report.uses) {
                self.old.insert(node);
                doubts.push(Doubt::OldDevices(node));
            }
            if report.notes_unreadable > 0 {
                doubts.push(Doubt::NotesUnreadable(node, report.notes_unreadable));
            }
            if report.has_hole {
                self.holes.insert(node);
                doubts.push(Doubt::HasHole(node));
            }
        }
    }

    /// The nodes that are, or may be, part of the cluster.
    pub(super) fn members(&self) -> impl Iterator<Item = NodeId> {
        let removed = |node: &NodeId| {
            let intent = self.intents.get(node);
            intent.is_some_and(|intent| intent.standing == NodeStanding::Removed)
        };
        let known = self.nodes.keys().chain(self.intents.keys());
        let known: BTreeSet<NodeId> = known.copied().collect();
        known.into_iter().filter(move |node| !removed(node))
    }

    /// How people call a node.
    pub(super) fn node_name(&self, node: NodeId) -> String {
        let record = self.nodes.get(&node);
        record.map_or_else(|| format!("{node}"), |record| record.name.clone())
    }

    /// The nodes of these names or numbers.
    pub(super) fn named_nodes(
        &self,
        names: &BTreeSet<String>,
    ) -> Result<BTreeSet<NodeId>, RecoverError> {
        let find = |name: &String| {
            let mut nodes = self.nodes.values();
            let named = nodes.find(|node| node.name == *name);
            let number = name
                .strip_prefix('n')
                .and_then(|number| number.parse().ok());
            let number = number.map(NodeId).filter(|node| {
                self.members().any(|it| it == *node) || self.reported.contains(node)
            });
            let found = named.map(|node| node.node).or(number);
            found.ok_or_else(|| RecoverError::NoNode(name.clone()))
        };
        names.iter().map(find).collect()
    }

    /// Leaves volumes out. Tells which.
    pub(super) fn leave_out(
        &mut self,
        names: &BTreeSet<String>,
    ) -> Result<BTreeSet<VolumeId>, RecoverError> {
        let mut left_out = BTreeSet::new();
        for name in names {
            let volumes = self.volumes.values();
            let is_meant = |volume: &&VolumeRecord| {
                volume.name == *name || format!("{}", volume.volume) == *name
            };
            let meant: Vec<VolumeId> = volumes.filter(is_meant).map(|it| it.volume).collect();
            if meant.is_empty() {
                return Err(RecoverError::NoVolume(name.clone()));
            }
            left_out.extend(meant);
        }
        self.volumes.retain(|volume, _| !left_out.contains(volume));
        Ok(left_out)
    }

    /// Whether each name is one volume's.
    pub(super) fn check_names(&self) -> Result<(), RecoverError> {
        let mut names: BTreeMap<&str, VolumeId> = BTreeMap::new();
        for volume in self.volumes.values() {
            if let Some(first) = names.insert(&volume.name, volume.volume) {
                return Err(RecoverError::SameName {
                    name: volume.name.to_owned(),
                    first,
                    second: volume.volume,
                });
            }
        }
        Ok(())
    }

    pub(super) fn tell_doubtful_volumes(&self, reports: &[NodeReport], doubts: &mut Vec<Doubt>) {
        for volume in self.volumes.values() {
            let note = &self.noted[&NotePlace::Volume(volume.volume)];
            if let Some(by) = unknown_to(reports, note) {
                let name = volume.name.clone();
                doubts.push(Doubt::MayBeDeleted { name, by });
            }
        }
    }

    /// The cluster's record: nothing that was given out is given out again.
    pub(super) fn cluster(&self, reports: &[NodeReport]) -> ClusterRecord {
        let mut next_volume = VolumeId(1);
        let mut recoveries = 0;
        let mut highest = Incarnation::ZERO;
        for report in reports {
            let slices = report.slices.iter();
            let held = slices.clone().map(|held| held.slice.volume.next());
            next_volume = held.fold(next_volume, VolumeId::max);
            let records = slices.filter_map(|held| held.record.as_ref());
            let proposers = records.map(|record| record.proposer.1);
            highest = proposers.fold(highest.max(report.incarnation_max), Incarnation::max);
            for Note { at, document, .. } in &report.notes {
                recoveries = recoveries.max(at.recoveries);
                // A node that was not on record counted its starts from the revision on.
                highest = highest.max(Incarnation(at.revision.0));
                match document {
                    NoteDocument::Cluster(record, incarnation) => {
                        next_volume = next_volume.max(record.next_volume);
                        recoveries = recoveries.max(record.recoveries);
                        highest = highest.max(record.incarnation_floor).max(*incarnation);
                    }
                    NoteDocument::Node(record) => highest = highest.max(record.incarnation),
                    NoteDocument::Volume(record) => {
                        next_volume = next_volume.max(record.volume.next());
                    }
                    NoteDocument::Settings(_)
                    | NoteDocument::Intent(_)
                    | NoteDocument::Bookmark(_) => {}
                }
            }
        }
        ClusterRecord {
            schema: 1,
            cluster: reports[0].cluster,
            next_volume,
            recoveries: recoveries + 1,
            incarnation_floor: Incarnation(beyond(highest.0)),
        }
    }
}
