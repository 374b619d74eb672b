//! Stores made by the code that makes real ones, on devices in memory that do everything at once.

use std::collections::BTreeMap;
use std::path::Path;

use holdfast_model::{
    BlockIndex, BlockRange, Change, ClusterId, CommandId, DiskCompletion, DiskError, DiskId,
    DiskOp, Entry, Epoch, Fence, Incarnation, NodeId, Sequence, SliceId, StoreId, Tier, VolumeId,
};
use holdfast_stdx::{Bytes, Duration, Instant};
use holdfast_store::{
    DeviceGeometry, Expected, FormatConfig, Output, Recovered, Store, StoreConfig, StoreEvent,
    StoreIdentity, StoreToken,
};

pub(crate) const CLUSTER: ClusterId = ClusterId(0xC1);
pub(crate) const STORE: StoreId = StoreId(0x57);
pub(crate) const NODE: NodeId = NodeId(3);
pub(crate) const PARTITIONS: u16 = 2;
pub(crate) const SEGMENT_BYTES: u32 = 1 << 20;
pub(crate) const SEGMENTS: u32 = 12;
/// Room for the head, the journal, and 32 slots with their tables.
pub(crate) const FIRST_BYTES: u64 =
    (2 << 20) + SEGMENTS as u64 * SEGMENT_BYTES as u64 + 32 * ((256 << 10) + 1024);
/// Room for the head and 16 slots with their tables.
pub(crate) const SECOND_BYTES: u64 = (2 << 20) + 16 * ((256 << 10) + 1024);

/// A slice of volume 1.
pub(crate) const fn slice(index: u32) -> SliceId {
    SliceId {
        volume: VolumeId(1),
        index,
    }
}

/// A store that is open.
pub(crate) struct Made {
    pub(crate) devices: Vec<Vec<u8>>,
    store: Store,
    out: Output,
    now: Instant,
    next_token: u64,
    /// Of slices that are beyond their first one.
    epochs: BTreeMap<SliceId, Epoch>,
    failed: Option<String>,
    pub(crate) recovered: Option<Recovered>,
}

impl Made {
    /// A new store on blank devices of these sizes; the journal is on the first.
    pub(crate) fn create(sizes: &[u64]) -> Self {
        let devices: Vec<Vec<u8>> = sizes.iter().map(|size| vec![0; *size as usize]).collect();
        let identity = StoreIdentity {
            cluster: CLUSTER,
            store: STORE,
            node: NODE,
            nonce: 0x1234_5678_9abc_def0,
        };
        let mut out = Output::default();
        let now = Instant::from_nanos(1 << 40);
        let geometries = geometries(&devices);
        let store = Store::create(now, config(), &geometries, identity, 1, &mut out);
        let made = Self::new(devices, store, out, now);
        assert!(made.recovered.is_some(), "{:?}", made.failed);
        made
    }

    /// The same store after its node was killed and started again.
    pub(crate) fn reopened(self) -> Self {
        let opened = Self::open(self.devices).expect("a store that was killed opens");
        Self {
            epochs: self.epochs,
            ..opened
        }
    }

    /// The store on these devices; why not, if it does not open.
    pub(crate) fn open(devices: Vec<Vec<u8>>) -> Result<Self, String> {
        let mut out = Output::default();
        let now = Instant::from_nanos(1 << 41);
        let expected = Expected::default();
        let geometries = geometries(&devices);
        let store = Store::open(now, config(), &geometries, expected, 2, &mut out);
        let made = Self::new(devices, store, out, now);
        match made.failed {
            None => Ok(made),
            Some(failed) => Err(failed),
        }
    }

    fn new(devices: Vec<Vec<u8>>, store: Store, out: Output, now: Instant) -> Self {
        let mut made = Self {
            devices,
            store,
            out,
            now,
            next_token: 0,
            epochs: BTreeMap::new(),
            failed: None,
            recovered: None,
        };
        made.work();
        made
    }

    /// Writes blocks as the slice's next entry, and has it committed.
    pub(crate) fn write(&mut self, slice: SliceId, block: u32, contents: &[u8]) {
        self.append(
            slice,
            Change::write(BlockIndex(block), contents.to_vec().into()),
        );
    }

    /// Clears blocks as the slice's next entry, and has it committed.
    pub(crate) fn clear(&mut self, slice: SliceId, range: BlockRange) {
        self.append(slice, Change::Clear(range));
    }

    /// Takes a copy from another replica, as of what is committed.
    pub(crate) fn install(&mut self, slice: SliceId, block: u32, contents: &[u8]) {
        let change = Change::write(BlockIndex(block), contents.to_vec().into());
        let range = change.range().expect("a write has blocks");
        self.store.reserve(slice, range).expect("there is room");
        let as_of = self.store.committed(slice);
        let token = self.token();
        self.store
            .install(self.now, slice, change, as_of, token, &mut self.out)
            .expect("nothing newer is there");
        self.work();
    }

    /// Writes blocks as the slice's next entry, and begins an epoch in which that is void.
    pub(crate) fn write_void(&mut self, slice: SliceId, block: u32, contents: &[u8]) {
        let (epoch, after) = self.store.prepared(slice);
        self.prepare(
            slice,
            Change::write(BlockIndex(block), contents.to_vec().into()),
        );
        let epoch = epoch.max(Epoch(1)).next();
        let token = self.token();
        let (now, out) = (self.now, &mut self.out);
        self.store.begin_epoch(now, slice, epoch, after, token, out);
        self.work();
        self.epochs.insert(slice, epoch);
    }

    /// Writes blocks as the slice's next entry, and has the log begin anew further on without it.
    pub(crate) fn write_before_restart(&mut self, slice: SliceId, block: u32, contents: &[u8]) {
        self.prepare(
            slice,
            Change::write(BlockIndex(block), contents.to_vec().into()),
        );
        let (epoch, sequence) = self.store.prepared(slice);
        let at = (epoch, Sequence(sequence.0 + 5));
        let token = self.token();
        self.store
            .restart_log(self.now, slice, at, token, &mut self.out);
        self.work();
    }

    fn append(&mut self, slice: SliceId, change: Change) {
        self.prepare(slice, change);
        let (_, prepared) = self.store.prepared(slice);
        self.store.set_committed(self.now, slice, prepared);
    }

    fn prepare(&mut self, slice: SliceId, change: Change) {
        let (_, prepared) = self.store.prepared(slice);
        if let Some(range) = change.range() {
            self.store.reserve(slice, range).expect("there is room");
        }
        let entry = Entry {
            epoch: self.epochs.get(&slice).copied().unwrap_or(Epoch(1)),
            sequence: prepared.next(),
            fence: Fence(0),
            command: CommandId {
                node: 1,
                incarnation: Incarnation(1),
                number: prepared.0 + 1,
            },
            change,
        };
        let token = self.token();
        let (now, out) = (self.now, &mut self.out);
        self.store.append(now, slice, entry, prepared, token, out);
        self.work();
    }

    /// Keeps a replica's state.
    pub(crate) fn put_state(&mut self, slice: SliceId, state: &[u8]) {
        let token = self.token();
        let state = Bytes::copy_from_slice(state);
        self.store
            .put_state(self.now, slice, state, token, &mut self.out);
        self.work();
    }

    pub(crate) fn drop_slice(&mut self, slice: SliceId) {
        self.epochs.remove(&slice);
        let token = self.token();
        self.store.drop_slice(self.now, slice, token, &mut self.out);
        self.work();
    }

    /// Lets so much time pass: what is old enough is destaged.
    pub(crate) fn wait(&mut self, duration: Duration) {
        let until = self.now + duration;
        while let Some(next) = self.store.next_timeout().filter(|next| *next <= until) {
            self.now = self.now.max(next);
            self.store.handle_timeout(self.now, &mut self.out);
            self.work();
        }
        self.now = until;
    }

    /// How far the slice is prepared.
    pub(crate) fn prepared(&self, slice: SliceId) -> Sequence {
        self.store.prepared(slice).1
    }

    fn token(&mut self) -> StoreToken {
        self.next_token += 1;
        StoreToken(self.next_token)
    }

    fn work(&mut self) {
        while let Some(request) = self.out.requests.pop_front() {
            let device = &mut self.devices[usize::from(request.disk.0)];
            let result = perform(device, &request.op);
            let completion = DiskCompletion {
                token: request.token,
                result,
            };
            self.store.handle_disk(self.now, completion, &mut self.out);
        }
        while let Some(event) = self.out.events.pop_front() {
            match event {
                StoreEvent::Opened(recovered) => self.recovered = Some(recovered),
                StoreEvent::OpenFailed(error) => self.failed = Some(error.to_string()),
                StoreEvent::DeviceFailed { disk }
                | StoreEvent::DeviceLost { disk }
                | StoreEvent::Unusable { disk } => {
                    panic!("{disk:?} does not fail")
                }
                StoreEvent::Durable { .. }
                | StoreEvent::ReadDone { .. }
                | StoreEvent::DeviceOrdered { .. }
                | StoreEvent::JournalRotten(_)
                | StoreEvent::DeviceLeft { .. } => {}
            }
        }
    }
}

fn perform(device: &mut [u8], op: &DiskOp) -> Result<Bytes, DiskError> {
    match op {
        DiskOp::Read { offset, length } => {
            let begin = *offset as usize;
            let bytes = device.get(begin..begin + *length as usize);
            bytes.map(Bytes::copy_from_slice).ok_or(DiskError::Short)
        }
        DiskOp::Write { offset, parts, .. } => {
            let mut at = *offset as usize;
            for part in parts {
                device[at..at + part.len()].copy_from_slice(part);
                at += part.len();
            }
            Ok(Bytes::new())
        }
        DiskOp::Flush | DiskOp::Discard { .. } => Ok(Bytes::new()),
    }
}

fn geometries(devices: &[Vec<u8>]) -> Vec<DeviceGeometry> {
    devices
        .iter()
        .zip(0..)
        .map(|(bytes, number)| DeviceGeometry {
            disk: DiskId(number),
            bytes: bytes.len() as u64,
            sector: 512,
            tier: if number == 0 {
                Tier::Flash
            } else {
                Tier::Capacity
            },
        })
        .collect()
}

fn config() -> StoreConfig {
    StoreConfig {
        change_bytes_max: SEGMENT_BYTES as usize / 2,
        table_cache_bytes: 64 << 10,
        block_cache_bytes: 512 << 10,
        format: FormatConfig {
            partitions: PARTITIONS,
            segment_bytes: SEGMENT_BYTES,
            journal_bytes: Some(u64::from(SEGMENTS) * u64::from(SEGMENT_BYTES)),
        },
        ..StoreConfig::default()
    }
}

/// Contents that differ from block to block and from write to write.
pub(crate) fn contents(seed: u8, blocks: usize) -> Vec<u8> {
    (0..blocks * 4096)
        .map(|byte| seed ^ (byte / 4096 + byte % 251) as u8)
        .collect()
}

/// A store with some of everything: three slices, one of them dropped, pages that are destaged and
/// changes that are not.
pub(crate) fn typical(sizes: &[u64]) -> Made {
    let mut made = Made::create(sizes);
    for page in 0..6 {
        made.write(slice(0), page * 64, &contents(page as u8, 8));
        made.write(slice(1), page * 64 + 3, &contents(0x40 + page as u8, 2));
    }
    made.write(slice(2), 0, &contents(0x80, 1));
    made.put_state(slice(0), b"a replica's state");
    made.wait(Duration::from_secs(10));
    made.clear(slice(1), BlockRange::new(5 * 64, 64));
    made.drop_slice(slice(2));
    made.wait(Duration::from_secs(10));
    // What is written now stays in the journal only.
    made.write(slice(0), 2, &contents(0xC0, 3));
    made.write(slice(1), 7 * 64, &contents(0xC1, 1));
    made.write(slice(0), 9 * 64 + 60, &contents(0xC2, 8));
    made
}

/// Writes the devices to files `d0`, `d1`… in `folder`.
pub(crate) fn save(devices: &[Vec<u8>], folder: &Path) -> Vec<std::path::PathBuf> {
    devices
        .iter()
        .enumerate()
        .map(|(number, bytes)| {
            let path = folder.join(format!("d{number}"));
            std::fs::write(&path, bytes).expect("there is room for it");
            path
        })
        .collect()
}
