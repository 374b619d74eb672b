//! A store on devices in memory that come and go, and the power of which fails.

use holdfast_format::DeviceState;
use holdfast_model::{
    BLOCK_SIZE, BlockIndex, BlockRange, Change, ClusterId, DiskCompletion, DiskError, DiskId,
    DiskOp, DiskRequest, Entry, Epoch, Fence, NodeId, Sequence, SliceId, StoreId, Tier, VolumeId,
};
use holdfast_stdx::{Bytes, Duration, Instant};
use holdfast_store::{
    BlockRead, DeviceGeometry, DeviceOrder, DeviceRefused, DeviceStatus, Expected, FormatConfig,
    OpenError, Output, ReadRequest, ReadSource, Recovered, RottenSegment, Store, StoreConfig,
    StoreEvent, StoreIdentity, StoreToken, View,
};

use crate::memory;

pub(crate) const SLICE: SliceId = SliceId {
    volume: VolumeId(1),
    index: 0,
};
/// One that lacks nothing.
pub(crate) const OTHER: SliceId = SliceId {
    volume: VolumeId(2),
    index: 0,
};
pub(crate) const THIRD: SliceId = SliceId {
    volume: VolumeId(3),
    index: 0,
};
pub(crate) const SEGMENT_BYTES: u64 = 256 << 10;
pub(crate) const JOURNAL_BYTES: u64 = 8 * SEGMENT_BYTES;
pub(crate) const SLOT_BYTES: u64 = (256 << 10) + 1024;
/// Room for 8 slots beside the journal.
pub(crate) const FIRST_BYTES: u64 = (2 << 20) + JOURNAL_BYTES + 8 * SLOT_BYTES;
/// Room for 16 slots.
pub(crate) const DATA_BYTES: u64 = (2 << 20) + 16 * SLOT_BYTES;
/// Pages that are written: more than are on the first device.
pub(crate) const PAGES: u32 = 12;

/// What is on the devices, whether they belong to the store or not: the journal is on the first.
pub(crate) type Devices = Vec<Vec<u8>>;

/// A store on devices in memory, which do what they are asked until the power fails.
pub(crate) struct Bench {
    pub(crate) store: Store,
    pub(crate) out: Output,
    pub(crate) now: Instant,
    pub(crate) devices: Devices,
    /// Requests until the power fails.
    pub(crate) left: usize,
    /// Bytes of the largest write.
    pub(crate) written_max: usize,
    /// Bytes of all writes.
    pub(crate) written: usize,
    /// A slice all of whose entries become committed when so many requests are left.
    pub(crate) commits: Option<(usize, SliceId)>,
    /// A device that fails.
    pub(crate) broken: Option<DiskId>,
    /// A place on the first device that cannot be read.
    pub(crate) unreadable: Option<u64>,
    /// The journal is checked all the time.
    pub(crate) checks: bool,
    /// Requests until a device fails.
    pub(crate) breaks: Option<(usize, DiskId)>,
    pub(crate) opened: Option<Result<Recovered, OpenError>>,
    pub(crate) ordered: Vec<Result<u16, DeviceRefused>>,
    pub(crate) gone: Vec<(Option<DiskId>, u16)>,
    /// The device that has failed, and whether it is noted as lost.
    pub(crate) failed: Option<(DiskId, bool)>,
    /// The device without which the store is over.
    pub(crate) unusable: Option<DiskId>,
    pub(crate) read: Option<Vec<BlockRead>>,
    pub(crate) durable: Vec<StoreToken>,
    /// What was found bad in the journal.
    pub(crate) rotten: Vec<RottenSegment>,
}

/// The power has failed.
#[derive(Debug)]
pub(crate) struct Off;

pub(crate) fn geometry(devices: &Devices, number: u16) -> DeviceGeometry {
    DeviceGeometry {
        disk: DiskId(number),
        bytes: devices[usize::from(number)].len() as u64,
        sector: 512,
        tier: Tier::Flash,
    }
}

pub(crate) fn geometries(devices: &Devices, given: &[u16]) -> Vec<DeviceGeometry> {
    let given = given.iter();
    given.map(|number| geometry(devices, *number)).collect()
}

pub(crate) fn config() -> StoreConfig {
    StoreConfig {
        change_bytes_max: 8 * BLOCK_SIZE,
        destage_after: Duration::from_millis(1),
        commit_after: Duration::from_millis(1),
        format: FormatConfig {
            partitions: 1,
            segment_bytes: SEGMENT_BYTES as u32,
            journal_bytes: Some(JOURNAL_BYTES),
        },
        ..StoreConfig::default()
    }
}

/// The byte that fills a block of a page.
pub(crate) fn value(page: u32, block: u32) -> u8 {
    (1 + 7 * page + block) as u8
}

pub(crate) fn remove(ordinal: u16) -> DeviceOrder {
    DeviceOrder::Remove {
        ordinal,
        gives_up: false,
    }
}

impl Bench {
    pub(crate) fn with(devices: Devices, left: usize, store: Store, out: Output) -> Self {
        Self {
            store,
            out,
            now: Instant::from_nanos(1),
            devices,
            left,
            written_max: 0,
            written: 0,
            commits: None,
            broken: None,
            unreadable: None,
            checks: false,
            breaks: None,
            opened: None,
            ordered: Vec::new(),
            gone: Vec::new(),
            failed: None,
            unusable: None,
            read: None,
            durable: Vec::new(),
            rotten: Vec::new(),
        }
    }

    /// A new store on the first two of these devices.
    pub(crate) fn create(devices: Devices) -> Self {
        Self::create_on(devices, &[0, 1], JOURNAL_BYTES)
    }

    pub(crate) fn create_on(devices: Devices, given: &[u16], journal_bytes: u64) -> Self {
        let identity = StoreIdentity {
            cluster: ClusterId(1),
            store: StoreId(2),
            node: NodeId(3),
            nonce: 4,
        };
        let given = geometries(&devices, given);
        let mut out = Output::default();
        let now = Instant::from_nanos(1);
        let mut config = config();
        config.format.journal_bytes = Some(journal_bytes);
        let store = Store::create(now, config, &given, identity, 1, &mut out);
        let mut bench = Self::with(devices, usize::MAX, store, out);
        bench.work().expect("there is power");
        assert!(matches!(bench.opened, Some(Ok(_))));
        bench
    }

    /// The store with pages on both of its devices; a third one is blank.
    pub(crate) fn filled() -> Self {
        Self::filled_with_journal(JOURNAL_BYTES)
    }

    pub(crate) fn filled_with_journal(journal_bytes: u64) -> Self {
        let first_bytes = FIRST_BYTES - JOURNAL_BYTES + journal_bytes;
        let devices = [first_bytes, DATA_BYTES, DATA_BYTES].map(|bytes| vec![0; bytes as usize]);
        let mut bench = Self::create_on(devices.into(), &[0, 1], journal_bytes);
        for page in 0..PAGES {
            bench.write_page(page);
        }
        bench.rest().expect("there is power");
        assert_eq!(bench.store.usage().dirty_bytes, 0);
        assert!(bench.statuses().iter().all(|device| device.pages_used > 0));
        bench
    }

    pub(crate) fn open(devices: Devices, given: &[u16], left: usize) -> Result<Self, Off> {
        let given = geometries(&devices, given);
        let mut out = Output::default();
        let now = Instant::from_nanos(1);
        let store = Store::open(now, config(), &given, Expected::default(), 1, &mut out);
        let mut bench = Self::with(devices, left, store, out);
        bench.work()?;
        assert!(bench.opened.is_some(), "it opens, or fails");
        Ok(bench)
    }

    /// With another id of the use.
    pub(crate) fn open_as(devices: &Devices, given: &[u16], use_id: u64) -> Self {
        let given = geometries(devices, given);
        let mut out = Output::default();
        let now = Instant::from_nanos(1);
        let expected = Expected::default();
        let store = Store::open(now, config(), &given, expected, use_id, &mut out);
        let mut bench = Self::with(devices.clone(), usize::MAX, store, out);
        bench.work().expect("there is power");
        bench
    }

    /// Starts again with all devices that there are.
    pub(crate) fn reopened(self) -> Self {
        let all: Vec<u16> = (0..self.devices.len() as u16).collect();
        let bench = Self::open(self.devices, &all, usize::MAX).expect("there is power");
        assert!(matches!(bench.opened, Some(Ok(_))), "{:?}", bench.opened);
        bench
    }

    pub(crate) fn work(&mut self) -> Result<(), Off> {
        while self.go_on()? {}
        Ok(())
    }

    /// Notes what has happened, and does the next thing that is asked: whether there was any.
    pub(crate) fn go_on(&mut self) -> Result<bool, Off> {
        for event in self.out.events.drain(..) {
            match event {
                StoreEvent::Opened(recovered) => self.opened = Some(Ok(recovered)),
                StoreEvent::OpenFailed(error) => self.opened = Some(Err(error)),
                StoreEvent::Durable { token } => self.durable.push(token),
                StoreEvent::JournalRotten(rotten) => self.rotten.push(rotten),
                StoreEvent::ReadDone { blocks, .. } => self.read = Some(blocks),
                StoreEvent::DeviceOrdered { result, .. } => self.ordered.push(result),
                StoreEvent::DeviceLeft { disk, ordinal } => self.gone.push((disk, ordinal)),
                StoreEvent::DeviceFailed { disk } => self.failed = Some((disk, false)),
                StoreEvent::DeviceLost { disk } => {
                    assert_eq!(self.failed, Some((disk, false)));
                    self.failed = Some((disk, true));
                }
                StoreEvent::Unusable { disk } => self.unusable = Some(disk),
            }
        }
        self.step()
    }

    /// Does one thing that is asked, if there is any.
    fn step(&mut self) -> Result<bool, Off> {
        let Some(request) = self.out.requests.pop_front() else {
            return Ok(false);
        };
        let Some(left) = self.left.checked_sub(1) else {
            memory::tear(&mut self.devices[usize::from(request.disk.0)], &request);
            return Err(Off);
        };
        self.left = left;
        if let Some((_, slice)) = self.commits.filter(|(at, _)| *at == left) {
            let prepared = self.store.prepared(slice).1;
            self.store.set_committed(self.now, slice, prepared);
        }
        if let DiskOp::Write { parts, .. } = &request.op {
            let bytes = parts.iter().map(Bytes::len).sum();
            self.written += bytes;
            self.written_max = self.written_max.max(bytes);
        }
        let completion = self.perform(request);
        self.store.handle_disk(self.now, completion, &mut self.out);
        Ok(true)
    }

    pub(crate) fn perform(&mut self, request: DiskRequest) -> DiskCompletion {
        if let Some((left, disk)) = self.breaks {
            self.breaks = left.checked_sub(1).map(|left| (left, disk));
            if left == 0 {
                self.broken = Some(disk);
            }
        }
        if self.broken == Some(request.disk) {
            return DiskCompletion {
                token: request.token,
                result: Err(DiskError::Os(5)),
            };
        }
        if let DiskOp::Read { offset, length } = request.op
            && let Some(place) = self.unreadable.filter(|_| request.disk == DiskId(0))
            && (offset..offset + u64::from(length)).contains(&place)
        {
            return DiskCompletion {
                token: request.token,
                result: Err(DiskError::Os(5)),
            };
        }
        memory::perform(&mut self.devices[usize::from(request.disk.0)], request)
    }

    /// Reads all of the journal, and has done what follows from that.
    pub(crate) fn check_journal(&mut self) -> Result<(), Off> {
        self.store.check_journal();
        while self.store.is_checking_journal() {
            self.store.check_piece(&mut self.out);
            self.work()?;
        }
        self.rest()
    }

    /// Time passes until nothing is to be done for a while.
    pub(crate) fn rest(&mut self) -> Result<(), Off> {
        self.work()?;
        let end = self.now + Duration::from_secs(1);
        while let Some(due) = self.store.next_timeout().filter(|due| *due <= end) {
            self.now = self.now.max(due);
            self.store.handle_timeout(self.now, &mut self.out);
            self.work()?;
        }
        self.now = end;
        Ok(())
    }

    /// Some blocks of a page.
    pub(crate) fn write_page(&mut self, page: u32) {
        self.write(page, 0..6);
    }

    pub(crate) fn write(&mut self, page: u32, blocks: core::ops::Range<u32>) {
        let range = BlockRange::new(64 * page + blocks.start, blocks.end - blocks.start);
        let mut data = Vec::new();
        for block in blocks {
            data.extend_from_slice(&[value(page, block); BLOCK_SIZE]);
        }
        self.append(SLICE, range, data).expect("there is power");
    }

    /// The slice's next entry, committed.
    pub(crate) fn append(
        &mut self,
        slice: SliceId,
        range: BlockRange,
        data: Vec<u8>,
    ) -> Result<(), Off> {
        let sequence = self.begin(slice, range, data);
        self.work()?;
        self.store.set_committed(self.now, slice, sequence);
        Ok(())
    }

    /// The slice's next entry, on its way.
    pub(crate) fn begin(&mut self, slice: SliceId, range: BlockRange, data: Vec<u8>) -> Sequence {
        let before = self.store.prepared(slice).1;
        self.begin_as_of(before, slice, range, data)
    }

    /// The same; it says that entries up to this one are committed.
    pub(crate) fn begin_as_of(
        &mut self,
        committed: Sequence,
        slice: SliceId,
        range: BlockRange,
        data: Vec<u8>,
    ) -> Sequence {
        self.store.reserve(slice, range).expect("there is room");
        let change = Change::write(BlockIndex(range.start()), Bytes::from(data));
        self.begin_change(committed, slice, change)
    }

    /// The same, with any change that needs no more room than there is.
    pub(crate) fn begin_change(
        &mut self,
        committed: Sequence,
        slice: SliceId,
        change: Change,
    ) -> Sequence {
        let sequence = self.store.prepared(slice).1.next();
        let entry = Entry {
            epoch: Epoch(1),
            sequence,
            fence: Fence(0),
            command: Default::default(),
            change,
        };
        let token = StoreToken(sequence.0);
        self.store
            .append(self.now, slice, entry, committed, token, &mut self.out);
        sequence
    }

    /// Every block of every page is there, and nothing else.
    pub(crate) fn check(&mut self) {
        for page in 0..PAGES {
            let range = BlockRange::new(64 * page, 8);
            let (token, view) = (StoreToken(0), View::Committed);
            self.begin_read(SLICE, range, view, ReadSource::Anywhere, token);
            self.work().expect("there is power");
            let blocks = self.read.take().expect("the read ends");
            for (block, read) in (0..).zip(blocks) {
                match read {
                    BlockRead::Data { data, .. } if block < 6 => {
                        assert_eq!(data[0], value(page, block));
                    }
                    BlockRead::Zero if block >= 6 => {}
                    other => panic!("{page} {block}: {other:?}"),
                }
            }
        }
        assert_eq!(self.store.allocated_pages(SLICE), u64::from(PAGES));
    }

    pub(crate) fn statuses(&self) -> Vec<DeviceStatus> {
        self.store.devices()
    }

    /// What the store has on this disk.
    pub(crate) fn status(&self, disk: u16) -> Option<DeviceStatus> {
        let mut devices = self.statuses().into_iter();
        devices.find(|device| device.disk == Some(DiskId(disk)))
    }

    pub(crate) fn order(&mut self, order: DeviceOrder) -> Result<Result<u16, DeviceRefused>, Off> {
        let token = StoreToken(u64::MAX);
        self.store
            .order_device(self.now, order, token, &mut self.out);
        self.work()?;
        Ok(self.ordered.pop().expect("it has been done, or refused"))
    }

    pub(crate) fn add(
        &mut self,
        disk: u16,
        replaces: Option<u16>,
    ) -> Result<Result<u16, DeviceRefused>, Off> {
        let geometry = geometry(&self.devices, disk);
        self.order(DeviceOrder::Add {
            geometry,
            id: 1000 + u64::from(disk),
            replaces,
            journal_room: false,
        })
    }

    /// The third device takes the place of the second, by three orders; goes on where it was cut short.
    pub(crate) fn exchange(&mut self) -> Result<(), Off> {
        if self.status(2).is_none() {
            assert!(self.add(2, None)?.is_ok());
        }
        if let Some(DeviceStatus { ordinal, .. }) = self.status(1) {
            assert_eq!(self.order(DeviceOrder::Drain { ordinal })?, Ok(ordinal));
            while self.status(1).expect("it is there").pages_used > 0 {
                self.rest()?;
            }
            assert_eq!(self.order(remove(ordinal))?, Ok(ordinal));
            assert_eq!(self.gone, [(Some(DiskId(1)), ordinal)]);
        }
        Ok(())
    }

    /// The same by one order.
    pub(crate) fn replace(&mut self) -> Result<(), Off> {
        if self.status(2).is_none() {
            let ordinal = self.status(1).expect("it is there").ordinal;
            assert!(self.add(2, Some(ordinal))?.is_ok());
        }
        while self.status(1).is_some() {
            self.rest()?;
        }
        Ok(())
    }

    pub(crate) fn is_exchanged(&self) -> bool {
        let states = self.statuses();
        let disks: Vec<Option<DiskId>> = states.iter().map(|device| device.disk).collect();
        let in_use = states.iter().all(|it| it.state == DeviceState::InUse);
        disks == [0, 2].map(|disk| Some(DiskId(disk))) && in_use
    }

    /// Begins a read.
    pub(crate) fn begin_read(
        &mut self,
        slice: SliceId,
        range: BlockRange,
        view: View,
        source: ReadSource,
        token: StoreToken,
    ) {
        let request = ReadRequest {
            slice,
            range,
            view,
            source,
        };
        self.store.read(self.now, request, token, &mut self.out);
    }
}

/// What is in the first blocks of a page, by the prepared view.
pub(crate) fn blocks(bench: &mut Bench, page: u32) -> Vec<BlockRead> {
    let range = BlockRange::new(64 * page, 8);
    let (token, view) = (StoreToken(0), View::Prepared);
    bench.begin_read(SLICE, range, view, ReadSource::Anywhere, token);
    bench.work().expect("there is power");
    bench.read.take().expect("the read ends")
}

pub(crate) fn opened(bench: &Bench) -> &Recovered {
    match &bench.opened {
        Some(Ok(recovered)) => recovered,
        other => panic!("it opens: {other:?}"),
    }
}

pub(crate) fn open(devices: &Devices, given: &[u16]) -> Bench {
    Bench::open(devices.clone(), given, usize::MAX).expect("there is power")
}
