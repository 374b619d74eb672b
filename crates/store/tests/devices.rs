//! Devices that come and go, wherever that is cut short, and what is refused.

mod memory;

use holdfast_format::{DeviceState, SUPERBLOCK_OFFSETS, Superblock};
use holdfast_model::{
    BLOCK_SIZE, BlockIndex, BlockRange, Change, ClusterId, DiskCompletion, DiskError, DiskId,
    DiskRequest, Entry, Epoch, Fence, NodeId, PAGE_SIZE, PageIndex, Sequence, SliceId, StoreId,
    Tier, VolumeId,
};
use holdfast_stdx::{Bytes, Duration, Instant};
use holdfast_store::{
    BlockRead, DeviceGeometry, DeviceOrder, DeviceRefused, DeviceStatus, Expected, FormatConfig,
    InstallRefused, OpenError, Output, Recovered, Store, StoreConfig, StoreEvent, StoreIdentity,
    StoreToken, Stray, StrayDevice, View,
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
    gone: Vec<(Option<DiskId>, u16)>,
    /// The device that has failed, and whether it is noted as lost.
    failed: Option<(DiskId, bool)>,
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

fn remove(ordinal: u16) -> DeviceOrder {
    DeviceOrder::Remove {
        ordinal,
        gives_up: false,
    }
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
            failed: None,
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

    /// With another id of the use.
    fn open_as(devices: &Devices, given: &[u16], use_id: u64) -> Self {
        let given: Vec<DeviceGeometry> = given
            .iter()
            .map(|number| geometry(devices, *number))
            .collect();
        let mut out = Output::default();
        let now = Instant::from_nanos(1);
        let expected = Expected::default();
        let store = Store::open(now, config(), &given, expected, use_id, &mut out);
        let mut bench = Self::with(devices.clone(), usize::MAX, store, out);
        bench.work().expect("there is power");
        bench
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
                    StoreEvent::DeviceFailed { disk } => self.failed = Some((disk, false)),
                    StoreEvent::DeviceLost { disk } => {
                        assert_eq!(self.failed, Some((disk, false)));
                        self.failed = Some((disk, true));
                    }
                }
            }
            let Some(request) = self.out.requests.pop_front() else {
                return Ok(());
            };
            let Some(left) = self.left.checked_sub(1) else {
                memory::tear(&mut self.devices[usize::from(request.disk.0)], &request);
                return Err(Off);
            };
            self.left = left;
            let completion = self.perform(request);
            self.store.handle_disk(self.now, completion, &mut self.out);
        }
    }

    fn perform(&mut self, request: DiskRequest) -> DiskCompletion {
        if self.broken == Some(request.disk) {
            return DiskCompletion {
                token: request.token,
                result: Err(DiskError::Os(5)),
            };
        }
        memory::perform(&mut self.devices[usize::from(request.disk.0)], request)
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
        devices.find(|device| device.disk == Some(DiskId(disk)))
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
            assert_eq!(self.order(remove(ordinal))?, Ok(ordinal));
            assert_eq!(self.gone, [(Some(DiskId(1)), ordinal)]);
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
        let disks: Vec<Option<DiskId>> = states.iter().map(|device| device.disk).collect();
        let in_use = states.iter().all(|it| it.state == DeviceState::InUse);
        disks == [0, 2].map(|disk| Some(DiskId(disk))) && in_use
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
        match stray.stray {
            Stray::Blank | Stray::Gone => {}
            // The power failed while its last superblock became zeros: an operator makes it blank.
            Stray::Unreadable if !done => bench.devices[1][..2 << 20].fill(0),
            other => panic!("{requests}: {other:?}"),
        }
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

/// One copy of a superblock has rotted since the store was opened, and the power fails while the other gets a new
/// list: there is always a good one.
#[test]
fn an_order_that_is_cut_short_tears_no_superblock_beside_a_rotten_one() {
    let full = Bench::filled().devices;
    for place in 0..2 {
        for offset in SUPERBLOCK_OFFSETS {
            for requests in 0.. {
                let mut bench = open(&full, &[0, 1, 2]);
                bench.devices[place][offset as usize + 100] ^= 1;
                bench.left = requests;
                let done = bench.add(2, None).is_ok();
                bench.left = usize::MAX;
                bench.reopened().check();
                if done {
                    assert!(requests > 8, "each copy of each superblock is written");
                    break;
                }
            }
        }
    }
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

/// What is in the first blocks of a page, by the prepared view.
fn blocks(bench: &mut Bench, page: u32) -> Vec<BlockRead> {
    let range = BlockRange::new(64 * page, 8);
    let (token, view) = (StoreToken(0), View::Prepared);
    bench
        .store
        .read(bench.now, SLICE, range, view, token, &mut bench.out);
    bench.work().expect("there is power");
    bench.read.take().expect("the read ends")
}

/// The slice's log begins anew, as it does when others bring what is lacking.
fn join(bench: &mut Bench) {
    let at = bench.store.prepared(SLICE);
    bench.store.set_committed(bench.now, SLICE, at.1);
    let token = StoreToken(0);
    bench
        .store
        .restart_log(bench.now, SLICE, at, token, &mut bench.out);
    bench.work().expect("there is power");
}

fn write_whole(bench: &mut Bench, page: u32) {
    for block in (0..64).step_by(8) {
        bench.write(page, block..block + 8);
    }
}

/// All of a page is as `write_whole` has written it.
fn is_whole(bench: &mut Bench, page: u32) -> bool {
    let found = blocks(bench, page);
    let mut found = (0..).zip(found);
    found.all(|(block, read)| matches!(read, BlockRead::Data { data, .. } if data[0] == value(page, block)))
}

fn is_bad(block: &BlockRead) -> bool {
    matches!(block, BlockRead::Bad { .. })
}

/// The pages of which something is bad; all others, and what else there is, are as they were written.
fn bad_pages(bench: &mut Bench) -> Vec<u32> {
    let mut bad = Vec::new();
    for page in 0..PAGES {
        let found = blocks(bench, page);
        if found.iter().any(is_bad) {
            bad.push(page);
        }
        for (block, read) in (0..).zip(found) {
            match read {
                BlockRead::Data { data, .. } if block < 6 => {
                    assert_eq!(data[0], value(page, block), "{page} {block}");
                }
                BlockRead::Zero if block >= 6 => {}
                BlockRead::Bad { .. } => {}
                other => panic!("{page} {block}: {other:?}"),
            }
        }
    }
    bad
}

fn opened(bench: &Bench) -> &Recovered {
    match &bench.opened {
        Some(Ok(recovered)) => recovered,
        other => panic!("it opens: {other:?}"),
    }
}

fn lacks(bench: &Bench) -> bool {
    opened(bench).slices[&SLICE].lacks
}

fn open(devices: &Devices, given: &[u16]) -> Bench {
    Bench::open(devices.clone(), given, usize::MAX).expect("there is power")
}

fn absent(bench: &Bench) -> Vec<(u16, bool)> {
    let statuses = bench.statuses().into_iter();
    let absent = statuses.filter_map(|device| Some((device.ordinal, device.absent?.is_lost)));
    absent.collect()
}

#[test]
fn without_a_device_its_pages_are_bad_and_with_it_they_are_there_again() {
    let mut full = Bench::filled();
    let used = full.status(1).expect("it is there").pages_used as usize;
    let mut bench = open(&full.devices, &[0]);
    assert!(lacks(&bench));
    assert_eq!(absent(&bench), [(1, false)]);
    let bad = bad_pages(&mut bench);
    assert_eq!(bad.len(), used);
    assert_eq!(bench.statuses()[1].pages_used as usize, used);
    assert_eq!(bench.store.usage().pages, 8);
    // What is not there is nothing that was ever written, and no slot of it is given out.
    assert_eq!(blocks(&mut bench, PAGES)[0], BlockRead::Zero);
    // It stays so, and nothing is lacking when the device is back.
    let mut bench = open(&bench.devices, &[0]);
    assert!(lacks(&bench));
    assert_eq!(bad_pages(&mut bench), bad);
    let mut bench = open(&bench.devices, &[0, 1]);
    assert!(!lacks(&bench) && absent(&bench).is_empty());
    bench.check();
    full.check();
}

/// What was brought meanwhile counts, and what was not is as it was: that of which the journal had a part, too.
#[test]
fn a_device_that_is_back_is_older_than_what_was_brought_without_it() {
    let mut full = Bench::filled();
    let page = bad_pages(&mut open(&full.devices, &[0]))[0];
    // Power fails before this is in its place.
    write_fill(&mut full, page, value(page, 0)).expect("there is power");
    // It is known to be committed by the next one.
    write_fill(&mut full, page + 1, value(page + 1, 0)).expect("there is power");
    let mut bench = open(&full.devices, &[0]);
    bench.rest().expect("there is power");
    let bad = bad_pages(&mut bench);
    assert_eq!(bad[0], page);
    let mut again = bench.reopened();
    assert!(!lacks(&again));
    again.check();

    let mut bench = open(&full.devices, &[0]);
    join(&mut bench);
    write_whole(&mut bench, bad[1]);
    bench.rest().expect("there is power");
    assert_eq!(bench.store.usage().dirty_bytes, 0);
    assert_eq!(
        bad_pages_without(&mut bench, bad[1]),
        [&bad[..1], &bad[2..]].concat()
    );
    let mut bench = bench.reopened();
    assert!(!lacks(&bench));
    assert!(is_whole(&mut bench, bad[1]));
    let half_there: Vec<u32> = bad_pages_without(&mut bench, bad[1]);
    // The journal had a part of these, which is in its place now, and the rest has to be brought.
    assert!(half_there.len() <= 2, "{half_there:?}");
}

/// `bad_pages`, of all but one that was written as a whole.
fn bad_pages_without(bench: &mut Bench, whole: u32) -> Vec<u32> {
    let pages = (0..PAGES).filter(|page| *page != whole);
    let pages: Vec<u32> = pages.collect();
    let is_bad = |page: &u32| blocks(bench, *page).iter().any(is_bad);
    pages.into_iter().filter(is_bad).collect()
}

/// A page that memory makes up for lacks nothing, whether that is in its place yet or not.
#[test]
fn what_the_journal_makes_up_for_is_not_lacking() {
    let mut bench = Bench::filled();
    assert_eq!(bench.add(2, None).expect("there is power"), Ok(2));
    let mut bench = open(&bench.devices, &[0, 2]);
    join(&mut bench);
    // Those of which the journal has nothing.
    let all_bad = |page: &u32| blocks(&mut bench, *page).iter().all(is_bad);
    let bad: Vec<u32> = (0..PAGES).filter(all_bad).collect();
    assert!(bad.len() > 3, "{bad:?}");
    for (place, page) in bad.iter().enumerate() {
        write_whole(&mut bench, *page);
        bench.store.handle_timeout(bench.now, &mut bench.out);
        let mut again = open(&bench.devices, &[0, 2]);
        assert_eq!(lacks(&again), place + 1 < bad.len());
        // What is written last may not be known to be committed.
        assert!(bad[..place].iter().all(|page| is_whole(&mut again, *page)));
    }
}

#[test]
fn an_older_copy_of_what_is_lacking_is_not_taken() {
    let mut bench = open(&Bench::filled().devices, &[0]);
    let page = bad_pages(&mut bench)[0];
    let committed = bench.store.committed(SLICE);
    assert_eq!(
        bench
            .store
            .page_changed_above(SLICE, PageIndex(page), Sequence::ZERO),
        u64::MAX
    );
    let mut install = |as_of: u64| {
        let change = Change::write(BlockIndex(64 * page), Bytes::from(vec![9; BLOCK_SIZE]));
        bench
            .store
            .reserve(SLICE, BlockRange::new(64 * page, 1))
            .expect("there is room");
        let (now, token) = (bench.now, StoreToken(1));
        bench
            .store
            .install(now, SLICE, change, Sequence(as_of), token, &mut bench.out)
    };
    assert_eq!(install(committed.0 - 1), Err(InstallRefused::Stale));
    assert_eq!(install(committed.0), Ok(()));
}

/// Openings that are cut short, without the device and when it is back, whatever comes next.
#[test]
fn devices_go_missing_and_come_back_wherever_that_is_cut_short() {
    let full = Bench::filled().devices;
    let without = open(&full, &[0]).devices;
    for (devices, given) in [(&full, &[0][..]), (&without, &[0, 1]), (&without, &[0])] {
        for requests in 0.. {
            let mut cut = cut_opening(devices, given, requests);
            for next in [&[0, 1][..], &[0]] {
                let mut bench = open(&cut.0, next);
                assert_eq!(
                    lacks(&bench),
                    next.len() == 1,
                    "{given:?} {requests} {next:?}"
                );
                bad_pages(&mut bench);
                let mut bench = open(&bench.devices, &[0, 1]);
                assert!(!lacks(&bench), "{given:?} {requests} {next:?}");
                bench.check();
                // Cut short once more, in the same place.
                cut = cut_opening(&cut.0, next, requests);
            }
            if cut.1 {
                assert!(requests > 10, "each step is cut short");
                break;
            }
        }
    }
}

/// What is on the devices when the power fails, and whether it was late.
fn cut_opening(devices: &Devices, given: &[u16], requests: usize) -> (Devices, bool) {
    let geometries: Vec<DeviceGeometry> = given
        .iter()
        .map(|number| geometry(devices, *number))
        .collect();
    let mut out = Output::default();
    let now = Instant::from_nanos(1);
    let store = Store::open(now, config(), &geometries, Expected::default(), 5, &mut out);
    let mut bench = Bench::with(devices.clone(), requests, store, out);
    let late = bench.work().is_ok();
    (bench.devices, late)
}

/// An older copy of the device that was missing is not taken for it, nor one of a use that was never.
#[test]
fn what_comes_back_is_what_was_missed() {
    let full = Bench::filled().devices;
    let mut later = open(&full, &[0, 1]);
    later.write_page(0);
    later.rest().expect("there is power");
    let mut without = open(&later.devices, &[0]);
    let bad = bad_pages(&mut without);
    let refused = |devices: &Devices| {
        let mut bench = open(devices, &[0, 1]);
        let disk = DiskId(1);
        let stray = Stray::Older;
        assert_eq!(opened(&bench).strays, [StrayDevice { disk, stray }]);
        assert!(lacks(&bench));
        assert_eq!(bad_pages(&mut bench), bad);
    };
    let mut older = without.devices.clone();
    older[1].clone_from(&full[1]);
    refused(&older);
    // Of the same number, but another use.
    let mut other = Bench::open_as(&full, &[0, 1], 77);
    other.rest().expect("there is power");
    let mut replaced = without.devices.clone();
    replaced[1].clone_from(&other.devices[1]);
    refused(&replaced);
    open(&without.devices, &[0, 1]).check();
}

/// While another device is away that was there later, newer pages may be on that one.
#[test]
fn a_device_does_not_come_back_while_a_later_one_is_away() {
    let mut bench = Bench::filled();
    assert_eq!(bench.add(2, None).expect("there is power"), Ok(2));
    let devices = bench.devices;
    let without_one = open(&devices, &[0, 2]).devices;
    let without_both = open(&without_one, &[0]).devices;
    let bench = open(&without_both, &[0, 1]);
    assert_eq!(absent(&bench), [(1, false), (2, false)]);
    assert_eq!(opened(&bench).strays.len(), 1);
    // The later one may, and both together.
    assert_eq!(absent(&open(&without_both, &[0, 2])), [(1, false)]);
    assert_eq!(absent(&open(&without_both, &[0, 1, 2])), []);
    // When the later one is given up the earlier one cannot come back any more.
    let mut bench = open(&without_both, &[0]);
    let gives_up = true;
    let order = DeviceOrder::Remove {
        ordinal: 2,
        gives_up,
    };
    assert_eq!(bench.order(order).expect("there is power"), Ok(2));
    assert_eq!(absent(&bench), [(1, true)]);
    let bench = open(&bench.devices, &[0, 1]);
    let disk = DiskId(1);
    let stray = Stray::Failed;
    assert_eq!(opened(&bench).strays, [StrayDevice { disk, stray }]);
}

/// A device that fails is lost for good once that is noted, wherever power fails then; one with the journal takes
/// the store.
#[test]
fn a_device_that_fails_is_lost_and_the_others_go_on() {
    let full = Bench::filled();
    let of_second = {
        let mut bench = open(&full.devices, &[0]);
        bad_pages(&mut bench)
    };
    let mut told = 0;
    for requests in 0.. {
        let mut bench = open(&full.devices, &[0, 1]);
        bench.broken = Some(DiskId(1));
        bench.left = requests;
        let page = of_second[0];
        let late = write_until(&mut bench, page).is_ok();
        if late {
            assert_eq!(bench.failed, Some((DiskId(1), true)));
            assert!(!bench.store.is_open());
        } else if let Some((disk, is_noted)) = bench.failed {
            assert_eq!((disk, is_noted), (DiskId(1), false), "{requests}");
            told += 1;
        }
        let mut bench = open(&bench.devices, &[0, 1]);
        if late {
            assert_eq!(absent(&bench), [(1, true)]);
            assert!(lacks(&bench));
            let bad = bad_pages(&mut bench);
            // The first page was being written: what the journal has of it counts.
            assert_eq!(bad, of_second);
            assert!(blocks(&mut bench, page)[..6].iter().all(|it| !is_bad(it)));
            assert!(told >= 2, "it is told at once, and noted then");
            break;
        }
        // Lost, or as if nothing had happened.
        let is_lost = lacks(&bench);
        assert_eq!(absent(&bench).len(), usize::from(is_lost));
        for page in 0..PAGES {
            let found = blocks(&mut bench, page);
            for (block, read) in (0..6).zip(found) {
                match read {
                    BlockRead::Data { data, .. } => assert_eq!(data[0], value(page, block)),
                    BlockRead::Bad { .. } if is_lost => {}
                    other => panic!("{page} {block}: {other:?}"),
                }
            }
        }
    }
    let mut bench = open(&full.devices, &[0, 1]);
    bench.broken = Some(DiskId(0));
    assert!(write_until(&mut bench, 0).is_ok());
    assert_eq!(bench.failed, Some((DiskId(0), false)));
}

/// Writes a page, which is destaged or fails to be.
fn write_until(bench: &mut Bench, page: u32) -> Result<(), Off> {
    let range = BlockRange::new(64 * page, 6);
    let mut data = Vec::new();
    for block in 0..6 {
        data.extend_from_slice(&[value(page, block); BLOCK_SIZE]);
    }
    bench.store.reserve(SLICE, range).expect("there is room");
    let sequence = bench.store.prepared(SLICE).1.next();
    let entry = Entry {
        epoch: Epoch(1),
        sequence,
        fence: Fence(0),
        command: Default::default(),
        change: Change::write(BlockIndex(range.start()), Bytes::from(data)),
    };
    let before = Sequence(sequence.0 - 1);
    let token = StoreToken(sequence.0);
    bench
        .store
        .append(bench.now, SLICE, entry, before, token, &mut bench.out);
    bench.work()?;
    bench.store.set_committed(bench.now, SLICE, sequence);
    bench.rest()
}

/// Pages move to a device while they are written; then that device is gone, wherever power failed: what is
/// left over of a page where it came from is never taken for what was written since.
#[test]
fn nothing_older_takes_the_place_of_what_is_gone() {
    let full = Bench::filled().devices;
    let mut stood_in = 0;
    for requests in 0.. {
        let mut bench = open(&full, &[0, 1]);
        bench.left = requests;
        // By page: what was written last, and whether that may be there or not.
        let mut written: Vec<[Option<u8>; 2]> = (0..PAGES)
            .map(|page| [Some(value(page, 0)), None])
            .collect();
        let done = move_and_write(&mut bench, &mut written).is_ok();
        bench.left = usize::MAX;
        let before = bench.devices.clone();
        let mut bench = open(&before, &[0, 1]);
        for page in 0..PAGES {
            let found = blocks(&mut bench, page);
            match &found[0] {
                BlockRead::Data { data, .. } => {
                    assert!(
                        written[page as usize].contains(&Some(data[0])),
                        "{requests} {page}: {}",
                        data[0]
                    );
                    stood_in += 1;
                }
                BlockRead::Bad { .. } => assert!(lacks(&bench), "{requests} {page}"),
                BlockRead::Zero => panic!("{requests} {page} is gone"),
            }
        }
        if done {
            assert!(requests > 100, "each step is cut short");
            assert!(stood_in > requests, "not everything was gone");
            return;
        }
    }
}

fn move_and_write(bench: &mut Bench, written: &mut [[Option<u8>; 2]]) -> Result<(), Off> {
    assert!(bench.add(2, Some(1))?.is_ok());
    for round in 1..4 {
        for page in 0..PAGES {
            let fill = value(page, 0) + 50 * round;
            let place = &mut written[page as usize];
            place[1] = Some(fill);
            write_fill(bench, page, fill)?;
            *place = [Some(fill), None];
            // It is destaged at once, or when pages have had their turn to move.
            bench.now += Duration::from_millis(2);
            bench.store.handle_timeout(bench.now, &mut bench.out);
            bench.work()?;
        }
        bench.rest()?;
    }
    Ok(())
}

/// The first block of a page.
fn write_fill(bench: &mut Bench, page: u32, fill: u8) -> Result<(), Off> {
    let range = BlockRange::new(64 * page, 1);
    bench.store.reserve(SLICE, range).expect("there is room");
    let sequence = bench.store.prepared(SLICE).1.next();
    let entry = Entry {
        epoch: Epoch(1),
        sequence,
        fence: Fence(0),
        command: Default::default(),
        change: Change::write(
            BlockIndex(range.start()),
            Bytes::from(vec![fill; BLOCK_SIZE]),
        ),
    };
    let before = Sequence(sequence.0 - 1);
    let token = StoreToken(sequence.0);
    bench
        .store
        .append(bench.now, SLICE, entry, before, token, &mut bench.out);
    bench.work()?;
    bench.store.set_committed(bench.now, SLICE, sequence);
    Ok(())
}

/// One that is absent leaves when nothing is lacking, or when that is given up.
#[test]
fn an_absent_device_leaves_when_nothing_of_it_is_lacking() {
    let full = Bench::filled().devices;
    let mut bench = open(&full, &[0]);
    let bad = bad_pages(&mut bench);
    let bytes = (bad.len() * PAGE_SIZE) as u64;
    let drain = DeviceOrder::Drain { ordinal: 1 };
    assert_eq!(bench.order(drain).unwrap(), Err(DeviceRefused::Absent));
    let refused = bench.order(remove(1)).unwrap();
    assert_eq!(refused, Err(DeviceRefused::Lacking { bytes }));
    // Another takes its place: it leaves by itself.
    assert_eq!(bench.add(2, Some(1)).unwrap(), Ok(2));
    let mut bench = open(&bench.devices, &[0, 2]);
    bench.rest().expect("there is power");
    assert_eq!(absent(&bench), [(1, false)]);
    join(&mut bench);
    for page in bad {
        write_whole(&mut bench, page);
        bench.rest().expect("there is power");
    }
    assert!(bench.is_exchanged(), "{:?}", bench.statuses());
    assert_eq!(bench.gone, [(None, 1)]);
    let bench = bench.reopened();
    let strays: Vec<Stray> = opened(&bench).strays.iter().map(|it| it.stray).collect();
    assert_eq!(strays, [Stray::Gone]);

    let mut bench = open(&full, &[0]);
    let gives_up = true;
    let order = DeviceOrder::Remove {
        ordinal: 1,
        gives_up,
    };
    assert_eq!(bench.order(order).unwrap(), Ok(1));
    let mut bench = bench.reopened();
    assert!(!lacks(&bench), "what is lacking is given up");
    assert!(!bad_pages(&mut bench).is_empty(), "and bad all the same");
}

#[test]
fn a_drain_is_called_off() {
    let mut bench = Bench::filled();
    assert_eq!(bench.add(2, None).unwrap(), Ok(2));
    let resume = DeviceOrder::Resume { ordinal: 1 };
    assert_eq!(bench.order(resume).unwrap(), Ok(1), "it is in use already");
    let unknown = DeviceOrder::Resume { ordinal: 9 };
    let refused = bench.order(unknown).unwrap();
    assert_eq!(refused, Err(DeviceRefused::Unknown { ordinal: 9 }));
    assert_eq!(bench.store.usage().pages, 40);
    for order in [
        DeviceOrder::Drain { ordinal: 1 },
        DeviceOrder::Drain { ordinal: 1 },
    ] {
        assert_eq!(bench.order(order).unwrap(), Ok(1));
        assert_eq!(bench.store.usage().pages, 24);
        assert_eq!(bench.order(resume).unwrap(), Ok(1));
        assert_eq!(bench.store.usage().pages, 40);
    }
    let used = bench.status(1).expect("it is there").pages_used;
    let mut bench = bench.reopened();
    bench.rest().expect("there is power");
    let status = bench.status(1).expect("it is there");
    assert_eq!(
        (status.state, status.pages_used),
        (DeviceState::InUse, used)
    );
    // Of one that is to be replaced, too: both stay.
    assert_eq!(
        bench.order(DeviceOrder::Drain { ordinal: 2 }).unwrap(),
        Ok(2)
    );
    bench.rest().expect("there is power");
    assert_eq!(
        bench.order(DeviceOrder::Resume { ordinal: 2 }).unwrap(),
        Ok(2)
    );
    bench.check();
}

/// Power fails in the very first write to a device that is being added: sector by sector it is there or not.
/// The same order goes on, another one is refused as ever.
#[test]
fn an_add_whose_first_write_was_torn_goes_on() {
    let mut done = Bench::filled();
    let before = done.devices.clone();
    assert_eq!(done.add(2, None).unwrap(), Ok(2));
    let mut bench = open(&before, &[0, 1]);
    // What it writes first is known from the superblock that is there when the rest is not.
    let mut cut = open(&before, &[0, 1]);
    cut.left = 3;
    assert!(cut.add(2, None).is_err());
    let joining = cut.devices[2][..4096].to_vec();
    assert!(
        Superblock::decode(&joining)
            .expect("it was written")
            .is_joining()
    );
    for torn in 0..256 {
        let mut devices = before.clone();
        for sector in (0..8).filter(|sector| torn & (1 << sector) != 0) {
            let range = 512 * sector..512 * (sector + 1);
            devices[2][range.clone()].copy_from_slice(&joining[range]);
        }
        // The store has been used since.
        let mut bench = open(&devices, &[0, 1]);
        assert_eq!(bench.add(2, None).unwrap(), Ok(2), "{torn:b}");
        assert_eq!(bench.status(2).map(|it| it.ordinal), Some(2));
    }
    let mut refused = |change: &dyn Fn(&mut Vec<u8>)| {
        bench.devices[2].clone_from(&before[2]);
        bench.devices[2][..512].copy_from_slice(&joining[..512]);
        change(&mut bench.devices[2]);
        let kept = bench.devices[2].clone();
        let refused = bench.add(2, None).unwrap();
        assert!(
            matches!(refused, Err(DeviceRefused::NotBlank { .. })),
            "{refused:?}"
        );
        assert!(bench.devices[2] == kept, "nothing is written to it");
    };
    // The nonce is another, there is something besides, or in the second place.
    refused(&|device| device[56] ^= 1);
    refused(&|device| device[3000] = 1);
    refused(&|device| device[1 << 20] = 1);
    refused(&|device| {
        device[..512].fill(0);
        device[656] = 1;
    });
}

/// The journal's device is brought back as it was while the other one was missing, after that one was back.
#[test]
fn an_older_copy_of_the_journal_is_refused_though_the_other_device_was_missing_then() {
    let full = Bench::filled().devices;
    let without = Bench::open_as(&full, &[0], 11);
    opened(&without);
    let older = without.devices[0].clone();
    let mut bench = Bench::open_as(&without.devices, &[0, 1], 12);
    assert!(!lacks(&bench));
    write_fill(&mut bench, 0, 251).expect("there is power");
    write_fill(&mut bench, 1, 251).expect("there is power");
    bench.rest().expect("there is power");
    let mut devices = bench.devices;
    devices[0] = older;
    let bench = Bench::open_as(&devices, &[0, 1], 13);
    assert!(
        matches!(bench.opened, Some(Err(OpenError::OlderDevice { .. }))),
        "{:?}",
        bench
            .opened
            .as_ref()
            .map(|it| it.as_ref().map(|it| it.use_counter))
    );
}

/// A device that is back has older copies of what was brought without it, until they are cleared: what they say
/// is not to count when the device with the newer ones is missing, or fails, before that.
#[test]
#[ignore = "not mended yet: see what is known to be wrong in decision 0019"]
fn what_is_back_is_not_taken_for_what_was_brought_meanwhile() {
    let mut bench = Bench::filled();
    assert_eq!(bench.add(2, None).expect("there is power"), Ok(2));
    let lacking = bad_pages(&mut open(&bench.devices, &[0, 2]));
    // Without the second device its pages are brought, with other contents, to the third.
    let mut bench = open(&bench.devices, &[0, 2]);
    join(&mut bench);
    for page in &lacking {
        for block in (0..64).step_by(8) {
            let range = BlockRange::new(64 * page + block, 8);
            bench.store.reserve(SLICE, range).expect("there is room");
            let sequence = bench.store.prepared(SLICE).1.next();
            let entry = Entry {
                epoch: Epoch(1),
                sequence,
                fence: Fence(0),
                command: Default::default(),
                change: Change::write(
                    BlockIndex(range.start()),
                    Bytes::from(vec![250; 8 * BLOCK_SIZE]),
                ),
            };
            let before = Sequence(sequence.0 - 1);
            let token = StoreToken(sequence.0);
            bench
                .store
                .append(bench.now, SLICE, entry, before, token, &mut bench.out);
            bench.work().expect("there is power");
            bench.store.set_committed(bench.now, SLICE, sequence);
        }
    }
    bench.rest().expect("there is power");
    assert_eq!(bench.store.usage().dirty_bytes, 0);
    // It was used and stopped well: nothing is lacking.
    let mut again = open(&bench.devices, &[0, 2]);
    assert!(!lacks(&again));
    for page in &lacking {
        assert!(
            blocks(&mut again, *page)
                .iter()
                .all(|read| matches!(read, BlockRead::Data { data, .. } if data[0] == 250))
        );
    }
    let brought = again.devices;
    let mut stale = Vec::new();
    // The second device is back, and power fails while the store is opened.
    for requests in 0.. {
        let (devices, late) = cut_opening(&brought, &[0, 1, 2], requests);
        // Then the third is not there.
        let mut bench = open(&devices, &[0, 1]);
        for page in &lacking {
            for read in &blocks(&mut bench, *page)[..6] {
                match read {
                    BlockRead::Data { data, .. } if data[0] == 250 => {}
                    BlockRead::Bad { .. } => {}
                    _ => {
                        stale.push((requests, *page));
                        break;
                    }
                }
            }
        }
        if late {
            break;
        }
    }
    assert!(stale.is_empty(), "{} stale: {:?}", stale.len(), stale);
}

/// Load of another slice while a device is missing makes a replica that lacks a page one that lacks nothing and has
/// bad blocks, for good: with the device that is back, and without.
#[test]
#[ignore = "not mended yet: see what is known to be wrong in decision 0019"]
fn load_while_a_device_is_missing_makes_no_bad_blocks_of_what_is_on_it() {
    const OTHER: SliceId = SliceId {
        volume: VolumeId(2),
        index: 0,
    };
    let mut full = Bench::filled();
    assert_eq!(full.add(2, None).expect("there is power"), Ok(2));
    let page = bad_pages(&mut open(&full.devices, &[0, 2]))[0];
    // Power fails before this is in its place.
    write_fill(&mut full, page, value(page, 0)).expect("there is power");
    // It is known to be committed by the next one.
    write_fill(&mut full, page + 1, value(page + 1, 0)).expect("there is power");
    let mut bench = open(&full.devices, &[0, 2]);
    assert!(lacks(&bench));
    // Hosts write to a slice that lacks nothing.
    for sequence in 1..=12_u64 {
        let range = BlockRange::new(8 * (sequence as u32 - 1), 8);
        bench.store.reserve(OTHER, range).expect("there is room");
        let entry = Entry {
            epoch: Epoch(1),
            sequence: Sequence(sequence),
            fence: Fence(0),
            command: Default::default(),
            change: Change::write(
                BlockIndex(range.start()),
                Bytes::from(vec![9; 8 * BLOCK_SIZE]),
            ),
        };
        bench.store.append(
            bench.now,
            OTHER,
            entry,
            Sequence(sequence - 1),
            StoreToken(sequence),
            &mut bench.out,
        );
        bench
            .store
            .set_committed(bench.now, OTHER, Sequence(sequence));
    }
    bench.rest().expect("there is power");
    let mut back = open(&bench.devices, &[0, 1, 2]);
    let (lacks, bad) = (lacks(&back), bad_pages(&mut back));
    assert!(bad.is_empty() || lacks, "lacks {lacks}, bad {bad:?}");
}

fn write_other(bench: &mut Bench, page: u32, fill: u8) {
    const OTHER: SliceId = SliceId {
        volume: VolumeId(2),
        index: 0,
    };
    let range = BlockRange::new(64 * page, 8);
    bench.store.reserve(OTHER, range).expect("there is room");
    let sequence = bench.store.prepared(OTHER).1.next();
    let entry = Entry {
        epoch: Epoch(1),
        sequence,
        fence: Fence(0),
        command: Default::default(),
        change: Change::write(
            BlockIndex(range.start()),
            Bytes::from(vec![fill; 8 * BLOCK_SIZE]),
        ),
    };
    let (before, token) = (Sequence(sequence.0 - 1), StoreToken(sequence.0));
    bench
        .store
        .append(bench.now, OTHER, entry, before, token, &mut bench.out);
    bench.work().expect("there is power");
    bench.store.set_committed(bench.now, OTHER, sequence);
}

/// How many writes to pages that have their slots become durable while a device is missing, and the others are full.
fn writes_without_a_device(has_remainder: bool) -> Option<u32> {
    let devices = [FIRST_BYTES, DATA_BYTES].map(|bytes| vec![0; bytes as usize]);
    let mut bench = Bench::create(devices.into());
    // All slots but one are taken; those of the other slice on the first device, some of them.
    for page in 0..11 {
        if page % 2 == 0 {
            bench.write_page(page);
            bench.rest().expect("there is power");
            write_other(&mut bench, page, 1);
        } else {
            write_other(&mut bench, page, 1);
            bench.rest().expect("there is power");
            bench.write_page(page);
        }
        bench.rest().expect("there is power");
    }
    for page in 11..13 {
        bench.write_page(page);
        bench.rest().expect("there is power");
    }
    assert_eq!(bench.store.usage().pages_used, 24);
    let on_second = |bench: &mut Bench| {
        let mut it = open(&bench.devices, &[0]);
        let pages: Vec<u32> = (0..11)
            .filter(|page| blocks(&mut it, *page).iter().any(is_bad))
            .collect();
        pages
    };
    let page = on_second(&mut bench)[0];
    if has_remainder {
        // Power fails before this is in its place.
        write_fill(&mut bench, page, 77).expect("there is power");
        write_fill(&mut bench, page, 78).expect("there is power");
    }
    let mut bench = open(&bench.devices, &[0]);
    assert!(lacks(&bench));
    let usage = bench.store.usage();
    assert_eq!((usage.pages, usage.pages_used), (8, 8));
    let other = SliceId {
        volume: VolumeId(2),
        index: 0,
    };
    let bad = bench.store.bad_blocks(other);
    let sound = (0..11).find(|page| !bad.contains_key(&PageIndex(*page)));
    let sound = sound.expect("one is on the first device");
    for number in 0..200 {
        write_other(&mut bench, sound, number as u8);
        for _ in 0..10 {
            bench.rest().expect("there is power");
        }
        if bench.store.oldest_unfinished_append().is_some() {
            return Some(number);
        }
    }
    None
}

#[test]
#[ignore = "not mended yet: see what is known to be wrong in decision 0019"]
fn writes_go_on_while_a_device_is_missing_and_the_others_are_full() {
    assert_eq!(writes_without_a_device(false), None);
    assert_eq!(writes_without_a_device(true), None);
}
