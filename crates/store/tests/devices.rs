//! Devices that come and go, wherever that is cut short, and what is refused.

use holdfast_format::{DeviceState, Superblock};
use holdfast_model::{
    BLOCK_SIZE, BlockIndex, BlockRange, Change, ClusterId, DiskCompletion, DiskError, DiskId,
    DiskOp, DiskRequest, Entry, Epoch, Fence, NodeId, PAGE_SIZE, Sequence, SliceId, StoreId, Tier,
    VolumeId,
};
use holdfast_stdx::{Bytes, Duration, Instant};
use holdfast_store::{
    BlockRead, DeviceGeometry, DeviceOrder, DeviceRefused, DeviceStatus, Expected, FormatConfig,
    OpenError, Output, Recovered, Store, StoreConfig, StoreEvent, StoreIdentity, StoreToken, Stray,
    View,
};

const SLICE: SliceId = SliceId {
    volume: VolumeId(1),
    index: 0,
};
const JOURNAL_BYTES: u64 = 8 * (256 << 10);
const SLOT_BYTES: u64 = (256 << 10) + 1024;
/// Room for 8 slots beside the journal.
const FIRST_BYTES: u64 = (2 << 20) + JOURNAL_BYTES + 8 * SLOT_BYTES;
/// Room for 16 slots.
const DATA_BYTES: u64 = (2 << 20) + 16 * SLOT_BYTES;
/// Pages that are written: more than are on the first device.
const PAGES: u32 = 12;

/// What is on the devices, whether they belong to the store or not: the journal is on the first.
type Devices = Vec<Vec<u8>>;

/// A store on devices in memory, which do what they are asked until the power fails.
struct Bench {
    store: Store,
    out: Output,
    now: Instant,
    devices: Devices,
    /// Requests until the power fails.
    left: usize,
    /// A device that fails.
    broken: Option<DiskId>,
    sequence: Sequence,
    opened: Option<Result<Recovered, OpenError>>,
    ordered: Vec<Result<u16, DeviceRefused>>,
    gone: Vec<(DiskId, u16)>,
    read: Option<Vec<BlockRead>>,
}

/// The power has failed.
#[derive(Debug)]
struct Off;

fn geometry(devices: &Devices, number: u16) -> DeviceGeometry {
    DeviceGeometry {
        disk: DiskId(number),
        bytes: devices[usize::from(number)].len() as u64,
        sector: 512,
        tier: Tier::Flash,
    }
}

fn config() -> StoreConfig {
    StoreConfig {
        change_bytes_max: 8 * BLOCK_SIZE,
        destage_after: Duration::from_millis(1),
        commit_after: Duration::from_millis(1),
        format: FormatConfig {
            partitions: 1,
            segment_bytes: 256 << 10,
            journal_bytes: Some(JOURNAL_BYTES),
        },
        ..StoreConfig::default()
    }
}

/// The byte that fills a block of a page.
fn value(page: u32, block: u32) -> u8 {
    (1 + 7 * page + block) as u8
}

impl Bench {
    fn with(devices: Devices, left: usize, store: Store, out: Output) -> Self {
        Self {
            store,
            out,
            now: Instant::from_nanos(1),
            devices,
            left,
            broken: None,
            sequence: Sequence::ZERO,
            opened: None,
            ordered: Vec::new(),
            gone: Vec::new(),
            read: None,
        }
    }

    /// A new store on the first two of these devices.
    fn create(devices: Devices) -> Self {
        let identity = StoreIdentity {
            cluster: ClusterId(1),
            store: StoreId(2),
            node: NodeId(3),
            nonce: 4,
        };
        let given = [0, 1].map(|number| geometry(&devices, number));
        let mut out = Output::default();
        let now = Instant::from_nanos(1);
        let store = Store::create(now, config(), &given, identity, 1, &mut out);
        let mut bench = Self::with(devices, usize::MAX, store, out);
        bench.work().expect("there is power");
        assert!(matches!(bench.opened, Some(Ok(_))));
        bench
    }

    /// The store with pages on both of its devices; a third one is blank.
    fn filled() -> Self {
        let devices = [FIRST_BYTES, DATA_BYTES, DATA_BYTES].map(|bytes| vec![0; bytes as usize]);
        let mut bench = Self::create(devices.into());
        for page in 0..PAGES {
            bench.write_page(page);
        }
        bench.rest().expect("there is power");
        assert_eq!(bench.store.usage().dirty_bytes, 0);
        assert!(bench.statuses().iter().all(|device| device.pages_used > 0));
        bench
    }

    fn open(devices: Devices, given: &[u16], left: usize) -> Result<Self, Off> {
        let given: Vec<DeviceGeometry> = given
            .iter()
            .map(|number| geometry(&devices, *number))
            .collect();
        let mut out = Output::default();
        let now = Instant::from_nanos(1);
        let store = Store::open(now, config(), &given, Expected::default(), 1, &mut out);
        let mut bench = Self::with(devices, left, store, out);
        bench.work()?;
        assert!(bench.opened.is_some(), "it opens, or fails");
        Ok(bench)
    }

    /// Starts again with all devices that there are.
    fn reopened(self) -> Self {
        let all: Vec<u16> = (0..self.devices.len() as u16).collect();
        let bench = Self::open(self.devices, &all, usize::MAX).expect("there is power");
        assert!(matches!(bench.opened, Some(Ok(_))), "{:?}", bench.opened);
        bench
    }

    fn work(&mut self) -> Result<(), Off> {
        loop {
            for event in self.out.events.drain(..) {
                match event {
                    StoreEvent::Opened(recovered) => self.opened = Some(Ok(recovered)),
                    StoreEvent::OpenFailed(error) => self.opened = Some(Err(error)),
                    StoreEvent::Durable { .. } => {}
                    StoreEvent::ReadDone { blocks, .. } => self.read = Some(blocks),
                    StoreEvent::DeviceOrdered { result, .. } => self.ordered.push(result),
                    StoreEvent::DeviceLeft { disk, ordinal } => self.gone.push((disk, ordinal)),
                    StoreEvent::DeviceFailed { disk } => panic!("{disk:?} failed"),
                }
            }
            let Some(request) = self.out.requests.pop_front() else {
                return Ok(());
            };
            self.left = self.left.checked_sub(1).ok_or(Off)?;
            let completion = self.perform(request);
            self.store.handle_disk(self.now, completion, &mut self.out);
        }
    }

    fn perform(&mut self, request: DiskRequest) -> DiskCompletion {
        let device = &mut self.devices[usize::from(request.disk.0)];
        let mut result = Ok(Bytes::new());
        match request.op {
            _ if self.broken == Some(request.disk) => result = Err(DiskError::Os(5)),
            DiskOp::Read { offset, length } => {
                let bytes = &device[offset as usize..][..length as usize];
                result = Ok(Bytes::copy_from_slice(bytes));
            }
            DiskOp::Write { offset, parts, .. } => {
                let mut at = offset as usize;
                for part in parts {
                    device[at..at + part.len()].copy_from_slice(&part);
                    at += part.len();
                }
            }
            DiskOp::Flush | DiskOp::Discard { .. } => {}
        }
        DiskCompletion {
            token: request.token,
            result,
        }
    }

    /// Time passes until nothing is to be done for a while.
    fn rest(&mut self) -> Result<(), Off> {
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
    fn write_page(&mut self, page: u32) {
        self.write(page, 0..6);
    }

    fn write(&mut self, page: u32, blocks: core::ops::Range<u32>) {
        let range = BlockRange::new(64 * page + blocks.start, blocks.end - blocks.start);
        let mut data = Vec::new();
        for block in blocks {
            data.extend_from_slice(&[value(page, block); BLOCK_SIZE]);
        }
        self.store.reserve(SLICE, range).expect("there is room");
        self.sequence = self.store.prepared(SLICE).1.next();
        let entry = Entry {
            epoch: Epoch(1),
            sequence: self.sequence,
            fence: Fence(0),
            command: Default::default(),
            change: Change::write(BlockIndex(range.start()), Bytes::from(data)),
        };
        let before = Sequence(self.sequence.0 - 1);
        let token = StoreToken(self.sequence.0);
        self.store
            .append(self.now, SLICE, entry, before, token, &mut self.out);
        self.work().expect("there is power");
        self.store.set_committed(self.now, SLICE, self.sequence);
    }

    /// Every block of every page is there, and nothing else.
    fn check(&mut self) {
        for page in 0..PAGES {
            let range = BlockRange::new(64 * page, 8);
            let (token, view) = (StoreToken(0), View::Committed);
            self.store
                .read(self.now, SLICE, range, view, token, &mut self.out);
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

    fn statuses(&self) -> Vec<DeviceStatus> {
        self.store.devices()
    }

    /// What the store has on this disk.
    fn status(&self, disk: u16) -> Option<DeviceStatus> {
        let mut devices = self.statuses().into_iter();
        devices.find(|device| device.disk == DiskId(disk))
    }

    fn order(&mut self, order: DeviceOrder) -> Result<Result<u16, DeviceRefused>, Off> {
        let token = StoreToken(u64::MAX);
        self.store
            .order_device(self.now, order, token, &mut self.out);
        self.work()?;
        Ok(self.ordered.pop().expect("it has been done, or refused"))
    }

    fn add(&mut self, disk: u16, replaces: Option<u16>) -> Result<Result<u16, DeviceRefused>, Off> {
        let geometry = geometry(&self.devices, disk);
        self.order(DeviceOrder::Add {
            geometry,
            id: 1000 + u64::from(disk),
            replaces,
        })
    }

    /// The third device takes the place of the second, by three orders; goes on where it was cut short.
    fn exchange(&mut self) -> Result<(), Off> {
        if self.status(2).is_none() {
            assert!(self.add(2, None)?.is_ok());
        }
        if let Some(DeviceStatus { ordinal, .. }) = self.status(1) {
            assert_eq!(self.order(DeviceOrder::Drain { ordinal })?, Ok(ordinal));
            while self.status(1).expect("it is there").pages_used > 0 {
                self.rest()?;
            }
            assert_eq!(self.order(DeviceOrder::Remove { ordinal })?, Ok(ordinal));
            assert_eq!(self.gone, [(DiskId(1), ordinal)]);
        }
        Ok(())
    }

    /// The same by one order.
    fn replace(&mut self) -> Result<(), Off> {
        if self.status(2).is_none() {
            let ordinal = self.status(1).expect("it is there").ordinal;
            assert!(self.add(2, Some(ordinal))?.is_ok());
        }
        while self.status(1).is_some() {
            self.rest()?;
        }
        Ok(())
    }

    fn is_exchanged(&self) -> bool {
        let states = self.statuses();
        let disks: Vec<u16> = states.iter().map(|device| device.disk.0).collect();
        let in_use = states.iter().all(|it| it.state == DeviceState::InUse);
        disks == [0, 2] && in_use
    }
}

/// Cuts the power after each request of what is done, which then goes on after a start.
fn cut_short_everywhere(run: fn(&mut Bench) -> Result<(), Off>) {
    let full = Bench::filled().devices;
    for requests in 0.. {
        let Ok(mut bench) = Bench::open(full.clone(), &[0, 1], usize::MAX) else {
            unreachable!("there is power");
        };
        bench.left = requests;
        let done = run(&mut bench).is_ok();
        bench.left = usize::MAX;
        let mut bench = bench.reopened();
        bench.check();
        run(&mut bench).expect("there is power");
        assert!(bench.is_exchanged(), "{requests}: {:?}", bench.statuses());
        bench.check();
        let usage = bench.store.usage();
        assert_eq!((usage.pages, usage.pages_used), (24, u64::from(PAGES)));
        // It is blank, unless the power failed just then, and no part of the store.
        let mut bench = bench.reopened();
        let Some(Ok(Recovered { strays, .. })) = &bench.opened else {
            unreachable!("it was opened");
        };
        let [stray] = strays[..] else {
            panic!("one device is none of the store's: {strays:?}");
        };
        assert_eq!(stray.disk, DiskId(1));
        assert!(matches!(stray.stray, Stray::Blank | Stray::Gone));
        assert!(bench.is_exchanged());
        bench.check();
        // What left may come back, under a new number.
        let ordinal = bench.add(1, None).expect("there is power");
        assert!(matches!(ordinal, Ok(3..=4)), "{ordinal:?}");
        if done {
            assert!(requests > 40, "each step is cut short");
            return;
        }
    }
}

#[test]
fn add_drain_and_remove_are_gone_on_with_wherever_they_are_cut_short() {
    cut_short_everywhere(Bench::exchange);
}

#[test]
fn replace_is_gone_on_with_wherever_it_is_cut_short() {
    cut_short_everywhere(Bench::replace);
}

#[test]
fn a_drain_goes_on_by_itself_and_beside_writes() {
    let mut bench = Bench::filled();
    assert_eq!(bench.add(2, None).expect("there is power"), Ok(2));
    let drained = bench.order(DeviceOrder::Drain { ordinal: 1 });
    assert_eq!(drained.expect("there is power"), Ok(1));
    let mut bench = bench.reopened();
    for round in 0.. {
        for page in 0..PAGES {
            bench.write_page(page);
        }
        bench.store.handle_timeout(bench.now, &mut bench.out);
        bench.work().expect("there is power");
        if bench.status(1).expect("it is there").pages_used == 0 {
            break;
        }
        assert!(round < 200, "pages have their turn to move");
    }
    bench.check();
}

#[test]
fn what_would_lose_something_is_refused_with_the_reason() {
    let mut bench = Bench::filled();
    let drain = |ordinal| DeviceOrder::Drain { ordinal };
    let remove = |ordinal| DeviceOrder::Remove { ordinal };
    let mut refused = |order| bench.order(order).expect("there is power").unwrap_err();
    assert_eq!(refused(drain(0)), DeviceRefused::Journal);
    assert_eq!(refused(remove(0)), DeviceRefused::Journal);
    assert_eq!(refused(drain(7)), DeviceRefused::Unknown { ordinal: 7 });
    let used = bench.status(1).expect("it is there").pages_used;
    let free = 8 - (u64::from(PAGES) - used);
    let no_room = DeviceRefused::NoRoom {
        bytes: used * PAGE_SIZE as u64,
        bytes_free: free * PAGE_SIZE as u64,
    };
    let mut refused = |order| bench.order(order).expect("there is power").unwrap_err();
    assert_eq!(refused(drain(1)), no_room);
    let bytes = used * PAGE_SIZE as u64;
    assert_eq!(refused(remove(1)), DeviceRefused::NotEmpty { bytes });
    assert_eq!(bench.add(1, None).unwrap(), Err(DeviceRefused::InUse));
    // Neither what holds something nor what is too small is written to.
    bench.devices[2][5] = 1;
    let before = bench.devices[2].clone();
    let not_blank = DeviceRefused::NotBlank { owner: None };
    assert_eq!(bench.add(2, None).unwrap(), Err(not_blank));
    assert!(bench.devices[2] == before);
    bench.devices[2] = vec![0; 1 << 20];
    let too_small = bench.add(2, None).unwrap();
    assert!(matches!(too_small, Err(DeviceRefused::TooSmall { .. })));
    bench.devices[2] = vec![0; DATA_BYTES as usize];
    bench.broken = Some(DiskId(2));
    assert_eq!(bench.add(2, None).unwrap(), Err(DeviceRefused::Failed));
    bench.broken = None;
    bench.check();
    assert_eq!(bench.add(2, None).unwrap(), Ok(2));
}

/// A device of another store is not touched, nor one that knows more than this store.
#[test]
fn devices_of_others_are_refused() {
    let mut bench = Bench::filled();
    let mut other = Superblock::decode(&bench.devices[1][..4096]).expect("a superblock");
    let put = |bench: &mut Bench, superblock: &Superblock| {
        bench.devices[2][..4096].copy_from_slice(&superblock.encode());
        bench.add(2, None).expect("there is power")
    };
    other.store = StoreId(77);
    let owner = Some((ClusterId(1), StoreId(77), NodeId(3)));
    let refused = put(&mut bench, &other);
    assert_eq!(refused, Err(DeviceRefused::NotBlank { owner }));
    other.store = StoreId(2);
    other.list.generation += 100;
    let owner = Some((ClusterId(1), StoreId(2), NodeId(3)));
    let refused = put(&mut bench, &other);
    assert_eq!(refused, Err(DeviceRefused::NotBlank { owner }));
    // A copy of a device that the store has.
    other.list.generation -= 100;
    let refused = put(&mut bench, &other);
    assert_eq!(refused, Err(DeviceRefused::NotBlank { owner }));
}

/// What is promised counts: once a drain has begun, its pages find room, whatever is written.
#[test]
fn room_for_what_has_to_move_is_given_to_nobody_else() {
    let mut bench = Bench::filled();
    assert_eq!(bench.add(2, None).unwrap(), Ok(2));
    assert_eq!(
        bench.order(DeviceOrder::Drain { ordinal: 1 }).unwrap(),
        Ok(1)
    );
    let mut page = PAGES;
    while bench
        .store
        .reserve(SLICE, BlockRange::new(64 * page, 1))
        .is_ok()
    {
        bench.write(page, 0..1);
        page += 1;
    }
    assert_eq!(page, 24, "as many as two devices hold");
    for _ in 0..20 {
        bench.rest().expect("there is power");
    }
    assert_eq!(bench.status(1).expect("it is there").pages_used, 0);
    assert_eq!(bench.store.usage().pages_used, 24);
    assert_eq!(bench.store.allocated_pages(SLICE), 24);
}
