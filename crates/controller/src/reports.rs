//! What the nodes say of themselves, asked of all at the same time.
//!
//! Invariants:
//! - a node that does not answer in time is down, as far as this goes;
//! - what answers at a node's address in another node's name is not that node, nor is what is not registered as it;
//! - the report of a node is that of the start that is on record, or of a later one; before it says so its devices are
//!   not open.

use std::collections::BTreeMap;
use std::time::Duration;

use holdfast_api::ApiClient;
use holdfast_api::client::ApiUrl;
use holdfast_api::documents::{
    Device, LocalMember, LocalMetadata, LocalReport, LocalSlice, LocalSummary, LocalVolume, Room,
};
use holdfast_control::{Inventory, Part, Seen};
use holdfast_model::record::NodeRecord;
use holdfast_model::record::NodeStanding::Removed;
use holdfast_model::{NodeId, SliceId, VolumeId};
use tokio::task::JoinSet;
use tokio::time::Instant;

/// How long a node has to report. Nodes answer from memory: one that takes longer is in trouble.
pub const REPORT_TIME_MAX: Duration = Duration::from_secs(1);

/// The reports of the nodes that are up, their slices in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reports {
    nodes: BTreeMap<NodeId, Report>,
    /// For how long it was waited for nodes that did not answer, when all others had.
    waited: Duration,
    /// What the node in this process says, where another one is the node of its number.
    rejected: Option<Box<LocalReport>>,
}

#[derive(Clone, Debug)]
struct Report {
    /// Which one of which start of the node it is.
    number: (u64, u64),
    summary: LocalSummary,
    awaited_device: Option<String>,
    devices: Vec<Device>,
    /// What the node's portal serves, and to how many.
    volumes: BTreeMap<VolumeId, LocalVolume>,
    slices: BTreeMap<SliceId, LocalSlice>,
    metadata_full: bool,
    metadata_members: Vec<LocalMember>,
    /// To which nodes something is copied, and how many bytes in a second.
    syncs: BTreeMap<NodeId, u64>,
    /// For how many seconds nodes have been silent, if it steers.
    silent: BTreeMap<NodeId, u64>,
}

impl Report {
    fn new(report: LocalReport) -> Self {
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
            summary,
            awaited_device: report.awaited_device,
            devices: report.devices,
            volumes: volumes.map(|one| (VolumeId(one.volume), one)).collect(),
            slices: slices.collect(),
            metadata_full: report.metadata_full,
            metadata_members: report.metadata_members,
            syncs: report
                .syncs
                .iter()
                .map(|sync| (NodeId(sync.node), sync.bytes_per_second))
                .collect(),
            silent: report
                .silent
                .iter()
                .map(|silence| (NodeId(silence.node), silence.seconds))
                .collect(),
        }
    }
}

impl Reports {
    /// Asks all these nodes; `local` is the report of the one in this process.
    pub(crate) async fn collect(
        nodes: impl IntoIterator<Item = &NodeRecord>,
        mut local: Option<LocalReport>,
    ) -> Self {
        let mut asked = JoinSet::new();
        let mut answers = Vec::new();
        for node in nodes {
            match local.take_if(|local| local.node == node.node.0) {
                Some(local) => answers.extend(as_node(local, node)),
                None => drop(asked.spawn(ask(node.clone()))),
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
            ..Self::of(answers)
        }
    }

    /// For how long it was waited for nodes that did not answer, when all others had: that costs nobody anything.
    pub(crate) const fn waited(&self) -> Duration {
        self.waited
    }

    pub(crate) fn of(reports: impl IntoIterator<Item = LocalReport>) -> Self {
        let nodes = reports
            .into_iter()
            .map(|one| (NodeId(one.node), Report::new(one)));
        Self {
            nodes: nodes.collect(),
            waited: Duration::ZERO,
            rejected: None,
        }
    }

    /// With what the node in this process says, which is none of the cluster's.
    pub(crate) fn beside(self, rejected: Option<LocalReport>) -> Self {
        Self {
            rejected: rejected.map(Box::new),
            ..self
        }
    }

    /// What the node in this process says, if it is none of the cluster's because another one has its number.
    pub(crate) fn rejected(&self) -> Option<&LocalReport> {
        self.rejected.as_deref()
    }

    pub(crate) fn is_up(&self, node: NodeId) -> bool {
        self.nodes.contains_key(&node)
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

    /// Whether a node says that the metadata is full.
    pub(crate) fn metadata_full(&self, node: NodeId) -> bool {
        self.nodes.get(&node).is_some_and(|it| it.metadata_full)
    }

    /// What nodes say of the members of etcd that they are configured with.
    pub(crate) fn metadata_members(&self) -> impl Iterator<Item = (NodeId, &LocalMember)> {
        let nodes = self.nodes.iter();
        nodes.flat_map(|(node, report)| report.metadata_members.iter().map(|it| (*node, it)))
    }

    /// For how many seconds a node has been silent, as whoever steers counts it.
    pub(crate) fn silence(&self, node: NodeId) -> Option<u64> {
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
        self.nodes
            .iter()
            .filter_map(move |(node, report)| Some((*node, report.slices.get(&slice)?)))
    }

    /// Whether all nodes of the cluster that are up serve the volume at their portals. Hosts are not sent
    /// to others.
    pub(crate) fn serve_everywhere(&self, inventory: &Inventory, volume: VolumeId) -> bool {
        inventory
            .nodes
            .keys()
            .filter(|node| self.is_up(**node))
            .filter(|node| matches!(inventory.part_of(**node), Part::Of(part) if part != Removed))
            .all(|node| self.serves(*node, volume))
    }

    /// Whether a node is up and serves a volume at its portal.
    pub(crate) fn serves(&self, node: NodeId, volume: VolumeId) -> bool {
        let report = self.nodes.get(&node);
        let volume = report.and_then(|report| report.volumes.get(&volume));
        volume.is_some_and(|volume| volume.serving)
    }

    /// Whether a node is up, and its devices are open.
    pub(crate) fn is_open(&self, node: NodeId) -> bool {
        self.summary(node).is_some_and(|report| report.open)
    }

    /// The device that a node waits for before it opens its devices.
    pub(crate) fn awaited_device(&self, node: NodeId) -> Option<&str> {
        self.nodes.get(&node)?.awaited_device.as_deref()
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

    /// A node as plans see it, if it is up, and its devices are open.
    pub(crate) fn seen(&self, node: NodeId) -> Option<Seen> {
        let room = self.room(node).filter(|_| self.is_open(node))?;
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

async fn ask(node: NodeRecord) -> Option<LocalReport> {
    let url: ApiUrl = node.api.parse().ok()?;
    let client = ApiClient::new(vec![url], None);
    let report = tokio::time::timeout(REPORT_TIME_MAX, client.local())
        .await
        .ok()?
        .ok()?;
    as_node(report, &node)
}

/// What a process reports as a node of the cluster, if it is that node.
pub(crate) fn as_node(report: LocalReport, record: &NodeRecord) -> Option<LocalReport> {
    let is_on_record = report.incarnation >= record.incarnation.0;
    let starts = report.incarnation == 0;
    let is_it = report.node == record.node.0 && report.rejected.is_none();
    let shown = LocalReport {
        open: report.open && is_on_record,
        ..report
    };
    (is_it && (is_on_record || starts)).then_some(shown)
}
