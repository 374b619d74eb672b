//! What the devices hold when everything is switched off: the replicas of a slice hold the same,
//! byte for byte.

use std::collections::{BTreeMap, BTreeSet};

use holdfast_model::report::{NOTES, NodeReport, NotePlace};
use holdfast_model::{BlockRange, Change, DiskRequest, NodeId, PageIndex, SliceId, VolumeId};
use holdfast_stdx::{Duration, Instant};
use holdfast_store::{
    BlockRead, Expected, Output as StoreOutput, ReadRequest, ReadSource, Recovered, Store,
    StoreEvent, StoreToken, View,
};

use crate::cluster::{CLUSTER, Cluster, Node};
use crate::disk::SimDisk;
use crate::failure::Failure;

/// What a replica's devices hold of a slice.
#[derive(Debug, PartialEq, Eq)]
struct Contents {
    pages: BTreeMap<PageIndex, Vec<BlockRead>>,
    /// Blocks that cannot be read, or may be older than they should be, are no surprise here.
    rotten: bool,
}

impl Cluster {
    /// Switches everything off, and compares what the devices of in-sync replicas hold.
    pub(crate) fn compare_replicas(&mut self, rotten: Option<NodeId>) -> Result<(), Failure> {
        let mut stores = BTreeMap::new();
        let notes = self.notes_of_gone();
        for node in self.node_ids() {
            let cold = self.opened_cold(node)?;
            // The end of a slice may rot as well: its node lets it go once more when it starts.
            if rotten != Some(node) {
                self.check_named(node, &notes, &cold)?;
            }
            stores.insert(node, cold);
        }
        for record in self.records() {
            let slice = record.slice;
            let mut first: Option<(NodeId, Contents)> = None;
            for node in record.in_sync().collect::<Vec<_>>() {
                let cold = stores.get_mut(&node).expect("every node was opened");
                if rotten == Some(node) && !cold.is_intact(slice) {
                    continue;
                }
                let mut contents = cold.contents(slice);
                contents.rotten = rotten == Some(node);
                match &first {
                    None => first = Some((node, contents)),
                    Some((other, held)) => differences(slice, (*other, held), (node, &contents))?,
                }
            }
        }
        Ok(())
    }

    /// Where notes of volumes would be that are not there any more.
    fn notes_of_gone(&mut self) -> BTreeSet<SliceId> {
        let Some(inventory) = self.inventory() else {
            return BTreeSet::new();
        };
        let volumes = (1..inventory.cluster.record.next_volume.0).map(VolumeId);
        let gone = volumes.filter(|volume| !inventory.volumes.contains_key(volume));
        gone.filter_map(|volume| NotePlace::Volume(volume).slice())
            .collect()
    }

    /// Nothing is left of replicas that were let go, nor notes of volumes that are gone.
    fn check_named(
        &self,
        node: NodeId,
        notes: &BTreeSet<SliceId>,
        cold: &Cold,
    ) -> Result<(), Failure> {
        if let Some(note) = cold.recovered.slices.keys().find(|it| notes.contains(it)) {
            return Err(Failure::NotConverged(format!(
                "the devices of {node} hold a note of a volume that is gone, {note}"
            )));
        }
        let slices = cold.recovered.slices.keys();
        let mut held = slices.filter(|slice| slice.volume != NOTES);
        match held.find(|slice| !self.is_named(node, **slice)) {
            Some(slice) => Err(Failure::NotConverged(format!(
                "the devices of {node} hold slice {slice}, which no record places there"
            ))),
            None => Ok(()),
        }
    }

    /// The store on a copy of a node's devices, after a power loss.
    fn opened_cold(&self, node: NodeId) -> Result<Cold, Failure> {
        let node = &self.nodes[&node];
        let mut disks = node.disks.clone();
        for disk in &mut disks {
            if disk.is_lying() {
                // Nothing is promised of what it loses now, when nobody could notice any more.
                disk.kill();
            } else {
                disk.crash();
            }
        }
        let mut cold = Cold::open(node, disks);
        cold.settle();
        if !cold.store.is_open() {
            let why = cold.events.iter().find_map(|event| match event {
                StoreEvent::OpenFailed(error) => Some(error.to_string()),
                _ => None,
            });
            return Err(Failure::NotConverged(format!(
                "the store of {} does not open: {}",
                node.id,
                why.unwrap_or_else(|| "it never ends".to_owned())
            )));
        }
        Ok(cold)
    }

    /// What the devices of a node that is off tell of the metadata.
    pub(crate) fn report_of(&self, node: NodeId) -> NodeReport {
        let node = &self.nodes[&node];
        assert!(node.process.is_none(), "a node is read when it is off");
        let mut cold = Cold::open(node, node.disks.clone());
        cold.settle();
        assert!(cold.store.is_open(), "its devices can be read");
        let recovered = &cold.recovered;
        let identity = (CLUSTER, node.id, recovered.store);
        // The copy was opened once more.
        let uses = recovered.use_counter - 1;
        holdfast_engine::report(identity, uses, &recovered.slices)
    }

    /// Looks at what a node's recovery is about to find.
    pub(crate) fn probe(&mut self, node: NodeId) {
        let node = &self.nodes[&node];
        let mut cold = Cold::open(node, node.disks.clone());
        cold.settle();
        if !cold.store.is_open() {
            return;
        }
        let slices = cold.recovered.slices.values();
        let (mut intact, mut suspect) = (true, false);
        for slice in slices {
            intact &= slice.intact;
            suspect |= slice.tail_suspect;
        }
        let point = match (intact, suspect) {
            (false, _) => "journal has lost a part",
            (true, true) => "journal ends in a bad group",
            (true, false) => "journal ends well",
        };
        self.watch.coverage.reach("opening", point);
    }
}

/// A store without an engine.
struct Cold {
    store: Store,
    out: StoreOutput,
    disks: Vec<SimDisk>,
    now: Instant,
    events: Vec<StoreEvent>,
    recovered: Recovered,
}

impl Cold {
    /// A store that is about to open.
    fn open(node: &Node, disks: Vec<SimDisk>) -> Self {
        let now = Instant::from_nanos(1);
        let mut out = StoreOutput::default();
        let expected = Expected {
            cluster: Some(CLUSTER),
            node: Some(node.id),
            store: None,
        };
        // Nothing of this is written anywhere else.
        let use_id = 0;
        let geometry = node.geometry();
        let store = Store::open(now, node.plan.store, &geometry, expected, use_id, &mut out);
        Self {
            store,
            out,
            disks,
            now,
            events: Vec::new(),
            recovered: Recovered::default(),
        }
    }

    /// Serves its requests until it has none.
    fn settle(&mut self) {
        loop {
            for DiskRequest { token, disk, op } in self.out.requests.drain(..) {
                let place = usize::from(disk.0);
                self.disks[place].submit(self.now, DiskRequest { token, disk, op });
            }
            for event in self.out.events.drain(..) {
                match event {
                    StoreEvent::Opened(recovered) => self.recovered = recovered,
                    event => self.events.push(event),
                }
            }
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

    /// Whether nothing that was durable is missing of a slice's log.
    fn is_intact(&self, slice: SliceId) -> bool {
        self.recovered.slices.get(&slice).is_none_or(|it| it.intact)
    }

    /// What it holds of a slice: the newest version, committed or not.
    fn contents(&mut self, slice: SliceId) -> Contents {
        // What is not known to be committed here counts too: elsewhere it may be known.
        let undecided = self
            .store
            .entries_above(slice, self.store.committed(slice))
            .filter_map(|entry| match entry.change {
                Change::Write { .. } => entry.change.range(),
                Change::Clear(_) | Change::Nothing => None,
            })
            .flat_map(|range| range.by_page().map(|(page, _)| page).collect::<Vec<_>>());
        let allocated = self.store.allocated(slice).map(|(page, _)| page);
        let wanted: BTreeSet<PageIndex> = allocated.chain(undecided).collect();
        let mut pages = BTreeMap::new();
        for (number, page) in wanted.into_iter().enumerate() {
            let token = StoreToken(number as u64 + 1);
            self.now += Duration::from_micros(1);
            let range = BlockRange::page(page);
            let request = ReadRequest {
                slice,
                range,
                view: View::Prepared,
                source: ReadSource::Media,
            };
            self.store.read(self.now, request, token, &mut self.out);
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
        Contents {
            pages,
            rotten: false,
        }
    }
}

fn differences(
    slice: SliceId,
    (one, first): (NodeId, &Contents),
    (other, second): (NodeId, &Contents),
) -> Result<(), Failure> {
    let pages: BTreeSet<&PageIndex> = first.pages.keys().chain(second.pages.keys()).collect();
    for page in pages {
        let blocks = |contents: &Contents| contents.pages.get(page).cloned().unwrap_or_default();
        let (left, right) = (blocks(first), blocks(second));
        let at = |blocks: &Vec<BlockRead>, index: usize| {
            blocks.get(index).cloned().unwrap_or(BlockRead::Zero)
        };
        for index in 0..64 {
            let (left, right) = (at(&left, index), at(&right, index));
            let bad = |block: &BlockRead| matches!(block, BlockRead::Bad { .. });
            let rotten = first.rotten && bad(&left) || second.rotten && bad(&right);
            if left != right && !rotten {
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
