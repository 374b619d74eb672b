//! What the nodes say of themselves, asked of all at the same time.
//!
//! Invariants:
//! - a node that does not answer in time is down, as far as this goes;
//! - what answers at a node's address in another node's name is not that node, nor is what is not registered as it;
//! - the report of a node is that of the start that is on record, or of a later one, with the store on record. What
//!   answers at its address and has yet to register is taken for the node that starts, and nothing that it holds is
//!   relied on;
//! - the process that asks stands in for a node only if it is registered as it.

mod answered;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use holdfast_api::documents::{
    Astray, AwaitedCause, Device, ListedMember, LocalMember, LocalMetadata, LocalReport,
    LocalSlice, LocalSummary, LocalVolume, Mending, ProcessEnd, Room, Versions, Vitals,
};
use holdfast_api::trace::carried;
use holdfast_control::{Inventory, Part, Seen};
use holdfast_model::metadata::Revision;
use holdfast_model::record::NodeRecord;
use holdfast_model::record::NodeStanding::Removed;
use holdfast_model::{NodeId, SliceId, VolumeId};
use holdfast_seal::FORM_OF_SECRETS;
use holdfast_tls::Connector;
use tokio::task::JoinSet;
use tokio::time::Instant;

use self::answered::{Answered, ask};
pub(crate) use self::answered::{Whose, whose};
use crate::asking::client_of;

/// How long a node has to report. Nodes answer from memory: one that takes longer is in trouble.
pub const REPORT_TIME_MAX: Duration = Duration::from_secs(1);

/// As long as a start has made no more reports, four a second, it is taken for one that is on its way. A device that is full takes
/// up to seven seconds to open for each TiB (docs/performance.md).
const OPENING_REPORTS: u64 = 60;

/// The reports of the nodes that are up, their slices in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reports {
    nodes: BTreeMap<NodeId, Report>,
    /// Which of them tell of a slice: a few of what may be many, and asked for all the time.
    holders: BTreeMap<SliceId, Vec<NodeId>>,
    /// For how long it was waited for nodes that did not answer, when all others had.
    waited: Duration,
    /// What the node in this process says, where another one is the node of its number.
    rejected: Option<Box<LocalReport>>,
    /// The node in this process, if there is one.
    asked: Option<NodeId>,
    /// The volumes, and at which revision of the metadata their records were last changed, as it was read before the nodes were asked.
    volumes: BTreeMap<VolumeId, Revision>,
    /// The nodes that do not answer, and have said before that they end because they were told to.
    stopped: BTreeSet<NodeId>,
    /// The nodes that are not heard, for they follow another copy of the metadata, and by whom.
    estranged: BTreeMap<NodeId, String>,
}

#[derive(Clone, Debug)]
struct Report {
    /// Which one of which start of the node it is.
    number: (u64, u64),
    /// What the node is called.
    name: String,
    /// Whether the node is registered as this start.
    is_registered: bool,
    summary: LocalSummary,
    versions: Option<Versions>,
    awaited: Option<(String, AwaitedCause)>,
    process_before: Option<ProcessEnd>,
    /// Through which revision it knows the metadata, if it says so.
    metadata_revision: Option<Revision>,
    devices: Vec<Device>,
    /// What the node's portal serves, and to how many.
    volumes: BTreeMap<VolumeId, LocalVolume>,
    slices: BTreeMap<SliceId, LocalSlice>,
    astray: Option<Astray>,
    strangers: BTreeSet<NodeId>,
    metadata_full: bool,
    mending: Option<Mending>,
    metadata_members: Vec<LocalMember>,
    metadata_listed: Vec<ListedMember>,
    /// To which nodes something is copied, and how many bytes in a second.
    syncs: BTreeMap<NodeId, u64>,
    /// For how many seconds nodes have been silent, if it steers; and whether it may be longer.
    silent: BTreeMap<NodeId, (u64, bool)>,
    /// The name of the key by which it opens secrets.
    secrets_key: Option<String>,
    /// Up to which form it opens what is sealed.
    secrets_form: u32,
    /// Whether it would tell receivers that the metadata is lost.
    tells_of_loss: bool,
    vitals: Option<Vitals>,
    /// Milliseconds by which its clock is ahead of the one here, at least; below zero, behind it.
    skew_ms: i64,
}

/// Why nothing that a node holds is relied on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Absence {
    /// It does not answer.
    Down,
    /// Nor does this one, which was stopped.
    Stopped,
    /// It waits for this device before it opens its devices, for this reason.
    Awaits(String, AwaitedCause),
    /// It has just started, and opens its devices.
    Opening,
    /// Its devices are not open, or have failed.
    Shut,
    /// Its devices are open, and it has not registered since it started.
    Unregistered,
    /// It does not believe the metadata, and why, if it says so.
    Disbelieves(Option<Astray>),
    /// It follows another copy of the metadata than the node of this name.
    Estranged(String),
}

impl Report {
    fn new(
        Answered {
            report,
            is_registered,
            skew_ms,
        }: Answered,
    ) -> Self {
        let summary = LocalSummary::from(&report);
        let volumes = report.volumes.into_iter();
        let slices = report.slices.into_iter().map(|slice| {
            let id = SliceId {
                volume: VolumeId(slice.volume),
                index: slice.index,
            };
            (id, slice)
        });
        Self {
            number: (report.incarnation, report.number),
            name: report.name,
            is_registered,
            summary,
            versions: report.versions,
            process_before: report.process_before,
            metadata_revision: Some(Revision(report.metadata_revision)).filter(|it| it.0 > 0),
            awaited: report.awaited_device.map(|device| {
                // Earlier versions wait for one reason only.
                let cause = report.awaited_cause.unwrap_or(AwaitedCause::Missing);
                (device, cause)
            }),
            devices: report.devices,
            volumes: volumes.map(|one| (VolumeId(one.volume), one)).collect(),
            slices: slices.collect(),
            astray: report.astray,
            strangers: report.strangers.into_iter().map(NodeId).collect(),
            metadata_full: report.metadata_full,
            mending: report.mending,
            metadata_members: report.metadata_members,
            metadata_listed: report.metadata_listed,
            syncs: report
                .syncs
                .iter()
                .map(|sync| (NodeId(sync.node), sync.bytes_per_second))
                .collect(),
            silent: report
                .silent
                .iter()
                .map(|silence| (NodeId(silence.node), (silence.seconds, silence.at_least)))
                .collect(),
            secrets_key: report.secrets_key,
            // Earlier versions do not say.
            secrets_form: report.secrets_form.unwrap_or(FORM_OF_SECRETS),
            tells_of_loss: report.tells_of_loss,
            vitals: report.vitals,
            skew_ms,
        }
    }

    /// Whether the node has just started: what is not so yet may be on its way.
    fn has_just_started(&self) -> bool {
        (1..=OPENING_REPORTS).contains(&self.number.1)
    }

    /// Whether the node says that it does not believe the metadata.
    fn disbelieves(&self) -> bool {
        self.summary.metadata == LocalMetadata::Behind
    }
}

impl Reports {
    /// Asks all these nodes; `local` is the report of the one in this process.
    pub(crate) async fn collect(
        nodes: impl IntoIterator<Item = &NodeRecord>,
        mut local: Option<LocalReport>,
        connector: Option<&Connector>,
    ) -> Self {
        let mut asked = JoinSet::new();
        let mut answers = Vec::new();
        for node in nodes {
            match local.take_if(|local| whose(local, node) == Whose::Registered) {
                Some(local) => answers.push(Answered::from(local)),
                None => drop(asked.spawn(carried(ask(node.clone(), client_of(node, connector))))),
            }
        }
        let mut last = Instant::now();
        while let Some(asked) = asked.join_next().await {
            if let Some(answer) = asked.expect("no question panics, or is given up") {
                last = Instant::now();
                answers.push(answer);
            }
        }
        Self {
            waited: last.elapsed(),
            ..Self::of_answers(answers)
        }
    }

    fn of_answers(answers: impl IntoIterator<Item = Answered>) -> Self {
        let mut all = Self::default();
        for answer in answers {
            let node = NodeId(answer.report.node);
            all.nodes.insert(node, Report::new(answer));
        }
        for (node, report) in &all.nodes {
            for slice in report.slices.keys() {
                all.holders.entry(*slice).or_default().push(*node);
            }
        }
        all.compared()
    }

    /// Whether every node of the cluster says that it opens what is sealed with this key, up to that form.
    pub(crate) fn all_open(&self, inventory: &Inventory, key: &str, form: u32) -> bool {
        let is_removed = |node| matches!(inventory.part_of(node), Part::Of(Removed));
        let opens = |node| {
            let report = self.nodes.get(&node);
            report.is_some_and(|it: &Report| {
                it.secrets_key.as_deref() == Some(key) && it.secrets_form >= form
            })
        };
        let mut nodes = inventory.nodes.keys().copied();
        !inventory.nodes.is_empty() && nodes.all(|node| is_removed(node) || opens(node))
    }

    /// For how long it was waited for nodes that did not answer, when all others had: that costs nobody anything.
    pub(crate) const fn waited(&self) -> Duration {
        self.waited
    }

    /// Those of registered nodes.
    pub(crate) fn of(reports: impl IntoIterator<Item = LocalReport>) -> Self {
        Self::of_answers(reports.into_iter().map(Answered::from))
    }

    /// One of the nodes has yet to register.
    #[cfg(test)]
    pub(crate) fn but_unregistered(mut self, node: NodeId) -> Self {
        let report = self.nodes.get_mut(&node).expect("it reports");
        report.is_registered = false;
        self
    }

    /// With what the node in this process says, which is none of the cluster's.
    pub(crate) fn beside(self, rejected: Option<LocalReport>) -> Self {
        Self {
            rejected: rejected.map(Box::new),
            ..self
        }
    }

    /// With which of the nodes that do not answer have said that they stop.
    pub(crate) fn but_stopped(self, stopped: BTreeSet<NodeId>) -> Self {
        Self { stopped, ..self }
    }

    /// With which volumes there were when the nodes were asked.
    pub(crate) fn of_volumes(self, inventory: &Inventory) -> Self {
        let volumes = inventory.volumes.iter();
        Self {
            volumes: volumes.map(|(id, it)| (*id, it.revision)).collect(),
            ..self
        }
    }

    /// Whether what a node says is from before a volume was made or grew, and so of before it heard of its slices.
    pub(crate) fn is_from_before(&self, node: NodeId, volume: VolumeId) -> bool {
        let known = self.nodes.get(&node).and_then(|it| it.metadata_revision);
        let changed = self.volumes.get(&volume);
        known
            .zip(changed)
            .is_some_and(|(known, changed)| known < *changed)
    }

    /// What the node in this process says, if it is none of the cluster's because another one has its number.
    pub(crate) fn rejected(&self) -> Option<&LocalReport> {
        self.rejected.as_deref()
    }

    pub(crate) fn is_up(&self, node: NodeId) -> bool {
        self.nodes.contains_key(&node)
    }

    /// Which start of a node answers, if that is registered, and its devices are open.
    pub(crate) fn incarnation(&self, node: NodeId) -> Option<u64> {
        let report = self.nodes.get(&node).filter(|_| self.is_open(node));
        report.map(|report| report.number.0)
    }

    /// How the process of a node ended before the one that answers, if it says so.
    pub(crate) fn process_before(&self, node: NodeId) -> Option<ProcessEnd> {
        self.nodes.get(&node)?.process_before
    }

    /// What a node that is up says of itself, in short.
    pub(crate) fn summary(&self, node: NodeId) -> Option<LocalSummary> {
        Some(self.nodes.get(&node)?.summary)
    }

    /// What a node says of its replica of a slice.
    pub(crate) fn replica(&self, node: NodeId, slice: SliceId) -> Option<&LocalSlice> {
        self.nodes.get(&node)?.slices.get(&slice)
    }

    /// Whether a node that is up follows the metadata.
    pub(crate) fn metadata(&self, node: NodeId) -> Option<LocalMetadata> {
        Some(self.summary(node)?.metadata)
    }

    /// Whether a node that is up would tell receivers that the metadata is lost.
    pub(crate) fn tells_of_loss(&self, node: NodeId) -> bool {
        self.nodes.get(&node).is_some_and(|it| it.tells_of_loss)
    }

    /// Why a node believes nothing of the metadata, if it says so.
    pub(crate) fn astray(&self, node: NodeId) -> Option<&Astray> {
        self.nodes.get(&node)?.astray.as_ref()
    }

    /// Whether a node says that the metadata is full.
    pub(crate) fn metadata_full(&self, node: NodeId) -> bool {
        self.nodes.get(&node).is_some_and(|it| it.metadata_full)
    }

    /// What nodes say of the endpoints of etcd that they are configured with, and of the members that etcd lists.
    pub(crate) fn metadata_members(
        &self,
    ) -> impl Iterator<Item = (NodeId, &[LocalMember], &[ListedMember])> {
        let nodes = self.nodes.iter();
        nodes.map(|(node, it)| (*node, &it.metadata_members[..], &it.metadata_listed[..]))
    }

    /// For how many seconds a node has been silent, as whoever steers counts it; and whether it may be longer, for it was silent when
    /// that one began to.
    pub(crate) fn silence(&self, node: NodeId) -> Option<(u64, bool)> {
        let told = self.nodes.values();
        told.filter_map(|report| report.silent.get(&node).copied())
            .max()
    }

    /// Bytes in a second that one node brings another.
    pub(crate) fn sync_rate(&self, source: NodeId, target: NodeId) -> u64 {
        let report = self.nodes.get(&source);
        let rate = report.and_then(|report| report.syncs.get(&target));
        rate.copied().unwrap_or(0)
    }

    /// Bytes in a second that a node brings others.
    pub(crate) fn send_rate(&self, source: NodeId) -> u64 {
        let report = self.nodes.get(&source);
        let rates = report.into_iter().flat_map(|report| report.syncs.values());
        rates.fold(0, |sum, rate| sum.saturating_add(*rate))
    }

    /// Bytes in a second that a node is brought by others.
    pub(crate) fn receive_rate(&self, target: NodeId) -> u64 {
        let reports = self.nodes.values();
        let rates = reports.filter_map(|report| report.syncs.get(&target));
        rates.fold(0, |sum, rate| sum.saturating_add(*rate))
    }

    /// What the nodes say of their replicas of a slice.
    pub(crate) fn replicas(&self, slice: SliceId) -> impl Iterator<Item = (NodeId, &LocalSlice)> {
        let holders = self.holders.get(&slice).into_iter().flatten();
        holders.filter_map(move |node| Some((*node, self.replica(*node, slice)?)))
    }

    /// The slices of which a node knows bad blocks of its own, and how many.
    pub(crate) fn bad_blocks(&self, node: NodeId) -> impl Iterator<Item = (SliceId, u64)> {
        let slices = self.nodes.get(&node).into_iter().flat_map(|it| &it.slices);
        let counts = slices.map(|(id, slice)| (*id, slice.bad_blocks));
        counts.filter(|(_, count)| *count > 0)
    }

    /// The bad blocks that a node has just fetched from others.
    pub(crate) fn mending(&self, node: NodeId) -> Option<Mending> {
        self.nodes.get(&node)?.mending
    }

    /// Whether all nodes of the cluster that are up, with open devices, serve the volume at their portals. Hosts are not
    /// sent to others.
    pub(crate) fn serve_everywhere(&self, inventory: &Inventory, volume: VolumeId) -> bool {
        inventory
            .nodes
            .keys()
            .filter(|node| self.is_open(**node))
            .filter(|node| matches!(inventory.part_of(**node), Part::Of(part) if part != Removed))
            .all(|node| self.serves(*node, volume))
    }

    /// Whether a node is up and serves a volume at its portal.
    pub(crate) fn serves(&self, node: NodeId, volume: VolumeId) -> bool {
        let report = self.nodes.get(&node);
        let volume = report.and_then(|report| report.volumes.get(&volume));
        volume.is_some_and(|volume| volume.serving)
    }

    /// Whether a node is up and registered, and its devices are open.
    pub(crate) fn is_open(&self, node: NodeId) -> bool {
        let report = self.nodes.get(&node);
        report.is_some_and(|report| report.summary.open && report.is_registered)
    }

    /// Why nothing that a node holds is relied on; nothing if it is.
    pub(crate) fn absence(&self, node: NodeId) -> Option<Absence> {
        let Some(report) = self.nodes.get(&node) else {
            let is_stopped = self.stopped.contains(&node);
            return Some(if is_stopped {
                Absence::Stopped
            } else {
                Absence::Down
            });
        };
        match &report.awaited {
            _ if report.summary.open && report.is_registered => None,
            Some((device, cause)) if !report.summary.open => {
                Some(Absence::Awaits(device.clone(), *cause))
            }
            // It opens nothing, and does not register, before it does.
            _ if report.disbelieves() => Some(Absence::Disbelieves(report.astray.clone())),
            _ if report.summary.open => Some(Absence::Unregistered),
            _ if report.has_just_started() => Some(Absence::Opening),
            _ => Some(Absence::Shut),
        }
    }

    /// Whether a node that answers has just started.
    pub(crate) fn has_just_started(&self, node: NodeId) -> bool {
        self.nodes.get(&node).is_some_and(Report::has_just_started)
    }

    /// Why nothing can be brought to a node; nothing if that can. Who does not believe the metadata may hold what it led, and
    /// follows nobody anew.
    pub(crate) fn isolation(&self, node: NodeId) -> Option<Absence> {
        let disbelieves = || {
            let report = self.nodes.get(&node).filter(|it| it.disbelieves())?;
            Some(Absence::Disbelieves(report.astray.clone()))
        };
        let estranged = || self.estranged.get(&node).cloned().map(Absence::Estranged);
        self.absence(node).or_else(disbelieves).or_else(estranged)
    }

    /// Whether a node is up, believes the metadata, and follows the copy of it that others do: it can be given something, its
    /// copies protect, and it is not silent. One that does not reach the metadata takes part: it goes on serving, and keeps in
    /// sync what it holds, without it. Where its copies are needed elsewhere it is drained.
    pub(crate) fn takes_part(&self, node: NodeId) -> bool {
        self.isolation(node).is_none()
    }

    /// With who is not heard by whom, because it follows another copy of the metadata: by the node that was asked, whose copy
    /// is told; without one by any that believes its own.
    fn compared(mut self) -> Self {
        self.estranged.clear();
        let is_heard = |node: NodeId| self.asked.is_none_or(|asked| asked == node);
        let believing = self.nodes.iter();
        let believing = believing.filter(|(node, it)| is_heard(**node) && !it.disbelieves());
        for (_, report) in believing {
            for stranger in &report.strangers {
                let by = self.estranged.entry(*stranger);
                by.or_insert_with(|| report.name.clone());
            }
        }
        self
    }

    /// Whether a node says that it does not believe the metadata.
    pub(crate) fn disbelieves(&self, node: NodeId) -> bool {
        self.nodes.get(&node).is_some_and(Report::disbelieves)
    }

    /// The node in this process, by whose metadata everything is told, if it does not believe that.
    pub(crate) fn disbelieving_asked(&self) -> Option<NodeId> {
        self.asked.filter(|node| self.disbelieves(*node))
    }

    /// With the node in this process, which may not have registered.
    pub(crate) fn asked_at(self, asked: Option<NodeId>) -> Self {
        Self { asked, ..self }.compared()
    }

    /// Which report of which start each node's is.
    pub(crate) fn numbers(&self) -> BTreeMap<NodeId, (u64, u64)> {
        let nodes = self.nodes.iter();
        nodes.map(|(node, report)| (*node, report.number)).collect()
    }

    /// Whether a node's report was made after another look, in which it had one too.
    pub(crate) fn is_newer(&self, node: NodeId, than: &BTreeMap<NodeId, (u64, u64)>) -> bool {
        let report = self.nodes.get(&node);
        let numbers = report.zip(than.get(&node));
        numbers.is_some_and(|(report, then)| report.number > *then)
    }

    /// A node as plans see it, if it takes part.
    pub(crate) fn seen(&self, node: NodeId) -> Option<Seen> {
        let room = self.room(node).filter(|_| self.takes_part(node))?;
        Some(Seen {
            silent: Duration::ZERO,
            bytes: room.bytes,
            free_bytes: room.free_bytes(),
            work: self.work_at(node)?,
        })
    }

    /// What hosts have a node's replicas do in a second, if it is up.
    pub(crate) fn work_at(&self, node: NodeId) -> Option<u64> {
        let slices = self.nodes.get(&node)?.slices.values();
        let work = slices.map(|slice| slice.work_per_second);
        Some(work.fold(0, u64::saturating_add))
    }

    /// The devices of a node, if it is up.
    pub(crate) fn devices(&self, node: NodeId) -> &[Device] {
        let report = self.nodes.get(&node);
        report.map_or(&[], |report| report.devices.as_slice())
    }

    /// The room on a node's devices, if it is up.
    pub(crate) fn room(&self, node: NodeId) -> Option<Room> {
        Some(self.summary(node)?.room)
    }

    /// What alarms about a node are about, if it answers and tells; with it by how many milliseconds its clock differs, at least,
    /// from what most nodes have. The clock here may be the one that is wrong.
    pub(crate) fn vitals(&self, node: NodeId) -> Option<(Vitals, u64)> {
        let report = self.nodes.get(&node)?;
        let tell = self.nodes.values().filter(|it| it.vitals.is_some());
        let usual = median(tell.map(|it| it.skew_ms).collect());
        Some((report.vitals?, report.skew_ms.abs_diff(usual)))
    }

    /// What a node runs, if it answers and tells.
    pub(crate) fn versions(&self, node: NodeId) -> Option<&Versions> {
        self.nodes.get(&node)?.versions.as_ref()
    }

    /// Sessions at a node's portal, if it is up.
    pub(crate) fn sessions_at(&self, node: NodeId) -> Option<u32> {
        let volumes = self.nodes.get(&node)?.volumes.values();
        let sessions = volumes.map(|volume| volume.sessions);
        Some(sessions.fold(0, u32::saturating_add))
    }

    /// Sessions with a volume's target, at the portals of all nodes that are up.
    pub(crate) fn sessions_with(&self, volume: VolumeId) -> u32 {
        let volumes = self
            .nodes
            .values()
            .filter_map(|report| report.volumes.get(&volume));
        let sessions = volumes.map(|volume| volume.sessions);
        sessions.fold(0, u32::saturating_add)
    }
}

/// What half of them have, or less, and half of them, or more. Where two are in the middle, the one that is nearer to the clock
/// here: of two nodes it cannot be told which is wrong.
fn median(mut skews: Vec<i64>) -> i64 {
    skews.sort_unstable();
    let Some(last) = skews.len().checked_sub(1) else {
        return 0;
    };
    let (low, high) = (skews[last / 2], skews[skews.len() / 2]);
    if low.unsigned_abs() <= high.unsigned_abs() {
        low
    } else {
        high
    }
}

#[cfg(test)]
mod tests {
    use holdfast_model::{Incarnation, StoreId};

    use super::answered::skew;
    use super::*;

    #[test]
    fn clocks_are_judged_by_what_most_have() {
        assert_eq!(skew(100, 90, 110), 0);
        assert_eq!((skew(80, 90, 110), skew(125, 90, 110)), (-10, 15));
        assert_eq!(skew(0, u64::MAX, u64::MAX), -i64::MAX);
        // The clock of the one that looks is a minute behind: it is that one whose clock is wrong.
        assert_eq!(median(vec![60_001, 0, 59_999]), 59_999);
        assert_eq!(median(vec![0, 3, -5000, 2, 1]), 1);
        // Of two nodes it cannot be told, nor of two against two.
        assert_eq!(median(vec![5000, 0]), 0);
        assert_eq!(median(vec![5000, 5001, 0, 1]), 1);
        assert_eq!(median(Vec::new()), 0);
    }

    fn record() -> NodeRecord {
        NodeRecord {
            schema: 1,
            node: NodeId(1),
            name: "n1".to_owned(),
            store: StoreId(7),
            uses: 1,
            use_id: 1,
            incarnation: Incarnation(4),
            portal: String::new(),
            peer: String::new(),
            // Nobody answers there.
            api: String::new(),
        }
    }

    fn report(incarnation: u64, store: u128) -> LocalReport {
        LocalReport {
            node: 1,
            incarnation,
            store: StoreId(store).to_string(),
            open: true,
            ..LocalReport::default()
        }
    }

    #[test]
    fn a_report_is_the_nodes_by_its_number_its_store_and_its_start() {
        let whose = |report: &LocalReport| whose(report, &record());
        assert_eq!(whose(&report(4, 7)), Whose::Registered);
        assert_eq!(whose(&report(5, 7)), Whose::Registered);
        assert_eq!(whose(&report(3, 7)), Whose::Other, "an earlier start");
        assert_eq!(whose(&report(5, 8)), Whose::Other, "another store");
        let starting = LocalReport {
            store: String::new(),
            ..report(0, 0)
        };
        assert_eq!(whose(&starting), Whose::Starting);
        let before = LocalReport {
            store: String::new(),
            ..report(4, 0)
        };
        assert_eq!(whose(&before), Whose::Registered, "of an earlier version");
        let rejected = LocalReport {
            rejected: Some(holdfast_api::documents::Rejected::default()),
            ..report(5, 7)
        };
        let other = LocalReport {
            node: 2,
            ..report(5, 7)
        };
        for report in [rejected, other] {
            assert_eq!(whose(&report), Whose::Other);
        }
    }

    #[tokio::test]
    async fn who_asks_stands_in_for_a_node_only_if_it_is_registered_as_it() {
        let record = record();
        let starting = report(0, 7);
        for other in [starting, report(9, 8)] {
            let reports = Reports::collect([&record], Some(other), None).await;
            assert_eq!(reports.absence(NodeId(1)), Some(Absence::Down));
        }
        let reports = Reports::collect([&record], Some(report(4, 7)), None).await;
        assert_eq!(reports.absence(NodeId(1)), None);
    }

    /// Who is heard, and who believes its own copy, says who is not.
    #[test]
    fn who_follows_another_copy_is_told_by_those_who_are_heard() {
        let says = |node: u16, strangers: &[u16]| LocalReport {
            node,
            name: format!("n{node}"),
            strangers: strangers.to_vec(),
            ..report(4, 7)
        };
        let disbelieves = LocalReport {
            metadata: LocalMetadata::Behind,
            ..says(4, &[2])
        };
        let reports = || {
            let all = [says(1, &[3]), says(2, &[3]), says(3, &[1, 2])];
            Reports::of(all.into_iter().chain([disbelieves.clone()]))
        };
        let told = |reports: &Reports| {
            [1, 2, 3].map(|node| match reports.isolation(NodeId(node)) {
                Some(Absence::Estranged(by)) => by,
                other => format!("{other:?}"),
            })
        };
        assert_eq!(told(&reports()), ["n3", "n3", "n1"]);
        let asked = |node| told(&reports().asked_at(Some(NodeId(node))));
        assert_eq!(asked(2), ["None", "None", "n2"]);
        assert_eq!(asked(3), ["n3", "n3", "None"]);
        assert_eq!(asked(4), ["None", "None", "None"]);
    }

    #[test]
    fn what_a_node_lacks_to_be_relied_on_is_told_apart() {
        let absence = |report: LocalReport, is_registered| {
            let reports = Reports::of_answers([Answered {
                is_registered,
                ..report.into()
            }]);
            assert_eq!(
                reports.is_open(NodeId(1)),
                reports.absence(NodeId(1)).is_none()
            );
            (
                reports.absence(NodeId(1)),
                reports.summary(NodeId(1)).map(|it| it.open),
            )
        };
        let open = || report(0, 7);
        let shut = || LocalReport {
            open: false,
            ..open()
        };
        let awaits = LocalReport {
            awaited_device: Some("/dev/sdc".to_owned()),
            ..shut()
        };
        let device = Absence::Awaits("/dev/sdc".to_owned(), AwaitedCause::Missing);
        assert_eq!(absence(open(), true), (None, Some(true)));
        let unregistered = (Some(Absence::Unregistered), Some(true));
        assert_eq!(absence(open(), false), unregistered);
        assert_eq!(absence(shut(), true), (Some(Absence::Shut), Some(false)));
        let after = |number| LocalReport { number, ..shut() };
        let opens = (Some(Absence::Opening), Some(false));
        assert_eq!(absence(after(OPENING_REPORTS), true), opens);
        let failed = absence(after(OPENING_REPORTS + 1), true);
        assert_eq!(failed, (Some(Absence::Shut), Some(false)));
        assert_eq!(absence(awaits, false), (Some(device), Some(false)));
        assert_eq!(Reports::default().absence(NodeId(1)), Some(Absence::Down));
    }
}
