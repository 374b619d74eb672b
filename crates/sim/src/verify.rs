//! What is looked at from outside: whether the cluster is whole, and what its devices hold.

use std::collections::BTreeMap;

use holdfast_engine::ReplicaView;
use holdfast_model::record::{Membership, SliceRecord};
use holdfast_model::{BlockRange, DiskRequest, NodeId, PageIndex, SliceId};
use holdfast_stdx::{Duration, Instant};
use holdfast_store::{
    BlockRead, Expected, Output as StoreOutput, Store, StoreEvent, StoreToken, View,
};

use crate::boot;
use crate::cluster::{CLUSTER, Cluster};
use crate::disk::SimDisk;
use crate::failure::Failure;
use crate::host::HostCounts;
use crate::trace::Hash;

/// What a replica's devices hold of a slice.
#[derive(Debug, PartialEq, Eq)]
struct Contents {
    pages: BTreeMap<PageIndex, Vec<BlockRead>>,
}

impl Cluster {
    /// The nodes.
    #[must_use]
    pub fn node_ids(&self) -> Vec<NodeId> {
        self.nodes.keys().copied().collect()
    }

    /// Whether every node is registered.
    pub(crate) fn is_registered(&self) -> bool {
        let registered = boot::inventory(self.metadata()).nodes;
        let ready = |node: &crate::cluster::Node| {
            let process = node.process.as_ref();
            process.is_some_and(|process| process.engine.status().registered)
        };
        self.nodes
            .values()
            .all(|node| registered.contains_key(&node.id) && ready(node))
    }

    /// Makes the volumes.
    pub(crate) fn create_volumes(&mut self) -> Result<(), Failure> {
        for volume in self.plan.volumes.clone() {
            self.change_metadata(|machine, out| boot::create_volume(machine, &volume, out))?;
        }
        Ok(())
    }

    /// Hosts begin new commands, or do not any more.
    ///
    /// # Errors
    /// [`Failure`] if a host does something that it should not.
    pub fn set_busy(&mut self, busy: bool) -> Result<(), Failure> {
        self.last_done = self.now;
        for host in 0..self.hosts.len() {
            self.hosts[host].busy = busy;
            let now = self.now;
            self.with_host(host, |host, history, acts| host.act(now, history, acts))?;
        }
        Ok(())
    }

    /// Whether no host waits for anything.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.hosts.iter().all(crate::host::Host::is_idle)
    }

    /// What the hosts saw, all together.
    #[must_use]
    pub fn host_counts(&self) -> HostCounts {
        let mut sum = HostCounts::default();
        for host in &self.hosts {
            sum.done += host.counts.done;
            sum.repeated += host.counts.repeated;
            sum.medium_errors += host.counts.medium_errors;
            sum.no_space += host.counts.no_space;
            sum.resets += host.counts.resets;
        }
        sum
    }

    /// The sum of the trace.
    #[must_use]
    pub fn trace_hash(&self) -> Option<Hash> {
        self.trace.hash()
    }

    /// The replicas of a node that runs.
    #[must_use]
    pub fn views(&self, node: NodeId) -> Vec<ReplicaView> {
        let node = &self.nodes[&node];
        let now = node.clock.shows(self.now);
        let process = node.process.iter();
        process
            .flat_map(|process| process.engine.views(now))
            .collect()
    }

    /// The slices' records.
    #[must_use]
    pub fn records(&self) -> Vec<SliceRecord> {
        boot::slices(self.metadata())
    }

    /// What is not yet as it should be; `None` if everything is.
    pub(crate) fn unconverged(&self) -> Option<String> {
        for record in self.records() {
            if let Some(what) = self.slice_unconverged(&record) {
                return Some(format!("slice {}: {what}; {record:?}", record.slice));
            }
        }
        for host in &self.hosts {
            if host.paths_up() < host.path_count() {
                return Some(format!("host h{} has not all its paths", host.index));
            }
            if !host.busy && !host.is_idle() {
                return Some(format!(
                    "host h{} waits since {:?}",
                    host.index,
                    host.oldest()
                ));
            }
        }
        None
    }

    fn slice_unconverged(&self, record: &SliceRecord) -> Option<String> {
        let whole = record
            .replicas
            .iter()
            .all(|replica| replica.membership == Membership::InSync);
        if !whole {
            return Some("not every replica is in sync".into());
        }
        for replica in &record.replicas {
            let views = self.views(replica.node);
            let view = views.iter().find(|view| view.slice == record.slice);
            let Some(view) = view else {
                return Some(format!("{} has no replica", replica.node));
            };
            if view.in_sync != Some(record.epoch) {
                return Some(format!("{} has not begun: {view:?}", replica.node));
            }
            let leads = view.leads == Some(record.epoch);
            if leads != (replica.node == record.primary) {
                return Some(format!("who leads is not who should: {view:?}"));
            }
            if view.committed != view.prepared.1 {
                return Some(format!(
                    "{} has uncommitted entries: {view:?}",
                    replica.node
                ));
            }
        }
        None
    }

    /// Every host reads everything over every path.
    pub(crate) fn read_everything(&mut self) -> Result<(), Failure> {
        for host in 0..self.hosts.len() {
            let volume = self.plan.hosts[host].volume;
            let areas = self.plan.volumes[volume].everything(volume);
            let now = self.now;
            self.with_host(host, |host, history, acts| {
                for path in 0..host.path_count() {
                    for sectors in &areas {
                        host.want_read(now, path, *sectors);
                    }
                }
                host.act(now, history, acts);
            })?;
        }
        Ok(())
    }

    /// Switches everything off, and compares what the devices of in-sync replicas hold.
    pub(crate) fn compare_replicas(&mut self) -> Result<(), Failure> {
        let mut stores = BTreeMap::new();
        for node in self.node_ids() {
            stores.insert(node, self.opened_cold(node)?);
        }
        for record in self.records() {
            let slice = record.slice;
            let mut first: Option<(NodeId, Contents)> = None;
            for node in record.in_sync().collect::<Vec<_>>() {
                let cold = stores.get_mut(&node).expect("every node was opened");
                let contents = cold.contents(slice);
                match &first {
                    None => first = Some((node, contents)),
                    Some((other, held)) => differences(slice, (*other, held), (node, &contents))?,
                }
            }
        }
        Ok(())
    }

    /// The store on a copy of a node's devices, after a power loss.
    fn opened_cold(&self, node: NodeId) -> Result<Cold, Failure> {
        let node = &self.nodes[&node];
        let mut disks = node.disks.clone();
        for disk in &mut disks {
            disk.crash();
        }
        let now = Instant::from_nanos(1);
        let mut out = StoreOutput::default();
        let expected = Expected {
            cluster: Some(CLUSTER),
            node: Some(node.id),
            store: None,
        };
        let store = Store::open(now, node.plan.store, &node.geometry(), expected, &mut out);
        let mut cold = Cold {
            store,
            out,
            disks,
            now,
            events: Vec::new(),
        };
        cold.settle();
        if !cold.store.is_open() {
            return Err(Failure::NotConverged(format!(
                "the store of {} does not open",
                node.id
            )));
        }
        Ok(cold)
    }
}

/// A store without an engine.
struct Cold {
    store: Store,
    out: StoreOutput,
    disks: Vec<SimDisk>,
    now: Instant,
    events: Vec<StoreEvent>,
}

impl Cold {
    /// Serves its requests until it has none.
    fn settle(&mut self) {
        loop {
            for DiskRequest { token, disk, op } in self.out.requests.drain(..) {
                let place = usize::from(disk.0);
                self.disks[place].submit(self.now, DiskRequest { token, disk, op });
            }
            self.events.extend(self.out.events.drain(..));
            let next = self.disks.iter().filter_map(SimDisk::next_completion).min();
            let Some(next) = next else {
                return;
            };
            self.now = self.now.max(next);
            for place in 0..self.disks.len() {
                while let Some(done) = self.disks[place].complete(self.now) {
                    self.store.handle_disk(self.now, done, &mut self.out);
                }
            }
        }
    }

    /// What it holds of a slice: the newest version, committed or not.
    fn contents(&mut self, slice: SliceId) -> Contents {
        let mut wanted: Vec<PageIndex> =
            self.store.allocated(slice).map(|(page, _)| page).collect();
        wanted.sort();
        let mut pages = BTreeMap::new();
        for (number, page) in wanted.into_iter().enumerate() {
            let token = StoreToken(number as u64 + 1);
            self.now += Duration::from_micros(1);
            let range = BlockRange::page(page);
            self.store
                .read(self.now, slice, range, View::Prepared, token, &mut self.out);
            self.settle();
            for event in self.events.drain(..) {
                if let StoreEvent::ReadDone { token: of, blocks } = event
                    && of == token
                {
                    let empty = blocks.iter().all(|block| *block == BlockRead::Zero);
                    if !empty {
                        pages.insert(page, blocks);
                    }
                }
            }
        }
        Contents { pages }
    }
}

fn differences(
    slice: SliceId,
    (one, first): (NodeId, &Contents),
    (other, second): (NodeId, &Contents),
) -> Result<(), Failure> {
    let pages: std::collections::BTreeSet<&PageIndex> =
        first.pages.keys().chain(second.pages.keys()).collect();
    for page in pages {
        let blocks = |contents: &Contents| contents.pages.get(page).cloned().unwrap_or_default();
        let (left, right) = (blocks(first), blocks(second));
        let at = |blocks: &Vec<BlockRead>, index: usize| {
            blocks.get(index).cloned().unwrap_or(BlockRead::Zero)
        };
        for index in 0..64 {
            let (left, right) = (at(&left, index), at(&right, index));
            if left != right {
                let what = |block: &BlockRead| match block {
                    BlockRead::Data { checksum, .. } => format!("data {checksum:08x}"),
                    BlockRead::Zero => "zeros".into(),
                    BlockRead::Bad { .. } => "bad".into(),
                };
                return Err(Failure::NotConverged(format!(
                    "block {index} of page {} of {slice} is {} at {one} and {} at {other}",
                    page.0,
                    what(&left),
                    what(&right)
                )));
            }
        }
    }
    Ok(())
}
