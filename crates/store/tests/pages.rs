//! When pages are written, and reads meanwhile.

use crate::memory;
use std::collections::VecDeque;

use holdfast_model::{
    BLOCK_SIZE, BlockIndex, BlockRange, Change, ClusterId, DiskCompletion, DiskError, DiskId,
    DiskRequest, Entry, Epoch, Fence, NodeId, Sequence, SliceId, StoreId, Tier, VolumeId,
};
use holdfast_stdx::{Bytes, Duration, Instant};
use holdfast_store::{
    BlockRead, DeviceGeometry, FormatConfig, Output, ReadRequest, ReadSource, Store, StoreConfig,
    StoreEvent, StoreIdentity, StoreToken, View,
};

const SLICE: SliceId = SliceId {
    volume: VolumeId(1),
    index: 0,
};
/// The last block of a page and the first one of the next.
const ACROSS: BlockRange = BlockRange::new(63, 2);
const JOURNAL_BYTES: u64 = 8 * (256 << 10);
/// Pages that the device has room for, unless it is told otherwise.
const PAGES: u32 = 8;

/// A store on a device in memory, which does what it is asked at once, or when it is told to.
struct Bench {
    store: Store,
    out: Output,
    now: Instant,
    device: Vec<u8>,
    sequence: Sequence,
    reads: Vec<Vec<u8>>,
    opened: bool,
}

impl Bench {
    fn new() -> Self {
        Self::with(|_| ())
    }

    fn with(change: impl FnOnce(&mut StoreConfig)) -> Self {
        Self::of(PAGES, change)
    }

    fn of(pages: u32, change: impl FnOnce(&mut StoreConfig)) -> Self {
        let slot = (256 << 10) + 1024;
        let device_bytes = (2 << 20) + JOURNAL_BYTES + u64::from(pages) * slot + 4096;
        let geometry = DeviceGeometry {
            disk: DiskId(0),
            bytes: device_bytes,
            sector: 512,
            tier: Tier::Flash,
        };
        let mut config = StoreConfig {
            change_bytes_max: 8 * BLOCK_SIZE,
            destage_after: Duration::from_millis(1),
            commit_after: Duration::from_millis(1),
            format: FormatConfig {
                partitions: 1,
                segment_bytes: 256 << 10,
                journal_bytes: Some(JOURNAL_BYTES),
            },
            ..StoreConfig::default()
        };
        change(&mut config);
        let identity = StoreIdentity {
            cluster: ClusterId(1),
            store: StoreId(2),
            node: NodeId(3),
            nonce: 4,
        };
        let now = Instant::from_nanos(1);
        let mut out = Output::default();
        let store = Store::create(now, config, &[geometry], identity, 1, &mut out);
        let mut bench = Self {
            store,
            out,
            now,
            device: vec![0; device_bytes as usize],
            sequence: Sequence::ZERO,
            reads: Vec::new(),
            opened: false,
        };
        bench.work();
        assert!(bench.opened);
        bench
    }

    /// Does everything that the store asks of its device.
    fn work(&mut self) {
        loop {
            self.take_events();
            let Some(request) = self.out.requests.pop_front() else {
                return;
            };
            self.complete(request);
        }
    }

    fn take_events(&mut self) {
        for event in self.out.events.drain(..) {
            match event {
                StoreEvent::Opened(_) => self.opened = true,
                StoreEvent::ReadDone { blocks, .. } => {
                    let value = |block: BlockRead| match block {
                        BlockRead::Data { data, .. } => data[0],
                        BlockRead::Zero => 0,
                        BlockRead::Bad { .. } => panic!("a block is bad"),
                    };
                    self.reads.push(blocks.into_iter().map(value).collect());
                }
                StoreEvent::Durable { .. } => {}
                other => panic!("{other:?}"),
            }
        }
    }

    /// The device does one request.
    fn complete(&mut self, request: DiskRequest) {
        let completion = memory::perform(&mut self.device, request);
        self.store.handle_disk(self.now, completion, &mut self.out);
    }

    /// Time passes until the store has nothing to do, for a second at most.
    fn rest(&mut self) {
        self.work();
        let end = self.now + Duration::from_secs(1);
        while let Some(due) = self.store.next_timeout().filter(|due| *due <= end) {
            self.now = self.now.max(due);
            self.store.handle_timeout(self.now, &mut self.out);
            self.work();
            if self.store.usage().dirty_bytes == 0 {
                return;
            }
        }
        self.now = end;
    }

    /// Writes and commits, and lets it become a part of its pages if nothing is in the way.
    fn write(&mut self, range: BlockRange, value: u8) {
        let data = Bytes::from(vec![value; range.bytes() as usize]);
        self.change(range, Change::write(BlockIndex(range.start()), data));
    }

    fn clear(&mut self, range: BlockRange) {
        self.change(range, Change::Clear(range));
    }

    fn change(&mut self, range: BlockRange, change: Change) {
        self.sequence = self.sequence.next();
        let entry = Entry {
            epoch: Epoch(1),
            sequence: self.sequence,
            fence: Fence(0),
            command: Default::default(),
            change,
        };
        self.store.reserve(SLICE, range).expect("there is room");
        let before = Sequence(self.sequence.0 - 1);
        let token = StoreToken(self.sequence.0);
        self.store
            .append(self.now, SLICE, entry, before, token, &mut self.out);
        self.work();
        self.store.set_committed(self.now, SLICE, self.sequence);
        self.rest();
    }

    /// Begins a read; the device has not done what that takes.
    fn begin_read(&mut self, range: BlockRange, source: ReadSource) -> VecDeque<DiskRequest> {
        let token = StoreToken(0);
        let view = View::Committed;
        self.store.read(
            self.now,
            ReadRequest {
                slice: SLICE,
                range,
                view,
                source,
            },
            token,
            &mut self.out,
        );
        self.take_requests()
    }

    fn take_requests(&mut self) -> VecDeque<DiskRequest> {
        self.take_events();
        std::mem::take(&mut self.out.requests)
    }

    fn is_destaged(&self) -> bool {
        self.store.usage().dirty_bytes == 0
    }
}

/// A read of which the first page was done before a write of both pages was put in place, and the
/// second one after.
fn torn(bench: &mut Bench, source: ReadSource) -> VecDeque<DiskRequest> {
    bench.write(ACROSS, 1);
    assert!(bench.is_destaged());
    let mut requests = bench.begin_read(ACROSS, source);
    assert_eq!(requests.len(), 2, "{requests:?}");
    let first = requests.pop_front().expect("there are two");
    bench.complete(first);
    bench.write(ACROSS, 2);
    assert!(bench.is_destaged());
    assert!(bench.reads.is_empty());
    requests
}

#[test]
fn a_read_is_of_one_moment_whatever_is_put_in_place_meanwhile() {
    for source in [ReadSource::Media, ReadSource::Anywhere] {
        let mut bench = Bench::new();
        for request in torn(&mut bench, source) {
            bench.complete(request);
        }
        bench.work();
        assert_eq!(bench.reads, [[2, 2]]);
    }
}

/// What is read again comes from memory, as it is by then; what must come from the media does not.
#[test]
fn what_was_read_is_in_memory_until_it_is_another() {
    let mut bench = Bench::new();
    let read = |bench: &mut Bench, source| {
        let requests = bench.begin_read(ACROSS, source);
        let count = requests.len();
        for request in requests {
            bench.complete(request);
        }
        bench.work();
        (count, bench.reads.pop().expect("it is done"))
    };
    bench.write(ACROSS, 1);
    assert_eq!(read(&mut bench, ReadSource::Media), (2, vec![1, 1]));
    assert_eq!(read(&mut bench, ReadSource::Anywhere), (2, vec![1, 1]));
    assert_eq!(read(&mut bench, ReadSource::Anywhere), (0, vec![1, 1]));
    assert_eq!(read(&mut bench, ReadSource::Media), (2, vec![1, 1]));
    bench.write(BlockRange::new(63, 1), 2);
    assert!(bench.is_destaged());
    assert_eq!(read(&mut bench, ReadSource::Anywhere), (0, vec![2, 1]));
    bench.clear(BlockRange::new(64, 1));
    assert!(bench.is_destaged());
    assert_eq!(read(&mut bench, ReadSource::Anywhere), (0, vec![2, 0]));
    bench.write(BlockRange::new(64, 1), 3);
    assert!(bench.is_destaged());
    assert_eq!(read(&mut bench, ReadSource::Anywhere), (1, vec![2, 3]));
    let usage = bench.store.usage().cache;
    assert_eq!((usage.hits, usage.misses), (6, 3));
}

#[test]
fn a_read_that_had_to_be_planned_again_is_not_overtaken_for_ever() {
    let mut bench = Bench::new();
    for request in torn(&mut bench, ReadSource::Media) {
        bench.complete(request);
    }
    let again = bench.take_requests();
    assert_eq!(again.len(), 2, "{again:?}");
    // What is written now stays in memory until the read is done; other pages do not care.
    bench.write(ACROSS, 3);
    assert!(!bench.is_destaged());
    let dirty = bench.store.usage().dirty_bytes;
    bench.write(BlockRange::new(300, 1), 4);
    assert_eq!(bench.store.usage().dirty_bytes, dirty);
    for request in again {
        bench.complete(request);
    }
    bench.work();
    assert_eq!(bench.reads, [[2, 2]]);
    bench.rest();
    assert!(bench.is_destaged());
    let requests = bench.begin_read(ACROSS, ReadSource::Media);
    for request in requests {
        bench.complete(request);
    }
    bench.work();
    assert_eq!(bench.reads[1], [3, 3]);
}

#[test]
fn destage_that_is_late_waits_to_be_told() {
    let mut bench = Bench::with(|config| config.destage_waits = true);
    bench.write(ACROSS, 1);
    assert!(!bench.is_destaged());
    assert!(bench.store.destage_waits());
    let due = bench.store.next_timeout();
    let soon = bench.now + Duration::from_secs(1);
    assert!(
        due.is_none_or(|due| due > soon),
        "it is told, not woken: {due:?}"
    );
    let block = BLOCK_SIZE as u64;
    let begun = bench.store.destage(bench.now, &mut bench.out);
    assert_eq!(begun, (2, 2 * block));
    assert!(!bench.store.destage_waits());
    bench.work();
    assert!(bench.is_destaged());
    let nothing = bench.store.destage(bench.now, &mut bench.out);
    assert_eq!(nothing, (0, 0));
    // What was told when nothing waited is no permission for later.
    bench.write(ACROSS, 2);
    assert!(!bench.is_destaged());
}

#[test]
fn destage_that_room_is_needed_of_waits_for_nobody() {
    let mut bench = Bench::with(|config| {
        config.destage_waits = true;
        config.dirty_bytes_max = 256 << 10;
    });
    let mut most = 0;
    for number in 0..100 {
        bench.write(BlockRange::new(8 * (number % 40), 4), 1);
        most = most.max(bench.store.usage().dirty_bytes);
    }
    assert!(most > 32 << 10 && most < 128 << 10, "{most}");
}

/// What is said to be as of an earlier point than the block in place takes nothing away, whether that is in the
/// journal still or in its page: whoever repairs a block relies on it.
#[test]
fn an_older_block_does_not_take_the_place_of_a_newer_one() {
    let block = BlockRange::new(7, 1);
    for rests in [true, false] {
        let mut bench = Bench::with(|config| {
            if !rests {
                config.destage_after = Duration::from_secs(100);
            }
        });
        bench.write(block, 1);
        let (now, as_of) = (bench.now, bench.sequence);
        bench.write(block, 2);
        let change = Change::write(BlockIndex(7), Bytes::from(vec![1; BLOCK_SIZE]));
        let out = &mut bench.out;
        let installed = bench
            .store
            .install(now, SLICE, change, as_of, StoreToken(77), out);
        bench.work();
        for request in bench.begin_read(block, ReadSource::Media) {
            bench.complete(request);
        }
        bench.work();
        let last = bench.reads.last().expect("it was read");
        assert_eq!(*last, [2], "destaged: {rests}, {installed:?}");
    }
}

/// Six pages, of which each block is as its page's number says.
fn with_pages(change: impl FnOnce(&mut StoreConfig)) -> Bench {
    filled(Bench::with(change), 6)
}

fn filled(mut bench: Bench, pages: u32) -> Bench {
    for page in 0..pages {
        for part in 0..8 {
            bench.write(BlockRange::new(64 * page + 8 * part, 8), 1 + page as u8);
        }
    }
    bench.rest();
    assert!(bench.is_destaged());
    bench
}

/// Three reads of eight blocks each: from then on it is known that somebody reads one after the other. What that has asked of the device.
fn read_three(bench: &mut Bench) -> VecDeque<DiskRequest> {
    for part in 0..2 {
        let requests = bench.begin_read(BlockRange::new(8 * part, 8), ReadSource::Anywhere);
        assert_eq!(requests.len(), 1);
        bench.complete(requests[0].clone());
    }
    let mut requests = bench.begin_read(BlockRange::new(16, 8), ReadSource::Anywhere);
    let own = requests.pop_front().expect("it is not in memory");
    bench.complete(own);
    bench.take_events();
    bench.reads.clear();
    requests
}

#[test]
fn whoever_reads_on_finds_it_in_memory() {
    let mut bench = with_pages(|_| ());
    let ahead = read_three(&mut bench);
    assert_eq!(ahead.len(), 2, "the rest of the page, and the next one");
    for request in ahead {
        bench.complete(request);
    }
    let mut requests = 0;
    for part in 3..48 {
        for request in bench.begin_read(BlockRange::new(8 * part, 8), ReadSource::Anywhere) {
            requests += 1;
            bench.complete(request);
        }
        bench.take_events();
        let read = bench.reads.pop().expect("it is in memory");
        assert_eq!(read, [1 + part as u8 / 8; 8]);
    }
    assert_eq!(requests, 4, "each of the other pages once");
    let usage = bench.store.usage().cache;
    assert_eq!((usage.hits, usage.misses), (0, 24));
    assert_eq!((usage.ahead_used, usage.ahead_unused), (360, 0));
}

#[test]
fn what_is_being_read_ahead_is_waited_for() {
    let mut bench = with_pages(|_| ());
    let ahead = read_three(&mut bench);
    let across = BlockRange::new(60, 8);
    for _ in 0..2 {
        let requests = bench.begin_read(across, ReadSource::Anywhere);
        assert_eq!(requests.len(), 0, "it is on its way");
    }
    let media = bench.begin_read(across, ReadSource::Media);
    assert_eq!(media.len(), 2, "who asks for the media gets them");
    for request in ahead {
        assert_eq!(bench.reads.len(), 0);
        bench.complete(request);
        bench.take_events();
    }
    assert_eq!(bench.reads, [[1, 1, 1, 1, 2, 2, 2, 2]; 2]);
    for request in media {
        bench.complete(request);
    }
}

/// Some block of the page may be bad: whoever waits for another one does not wait until that is found.
#[test]
fn what_cannot_be_read_ahead_is_read_by_whoever_wants_it() {
    let mut bench = with_pages(|_| ());
    let ahead = read_three(&mut bench);
    let wanted = BlockRange::new(64, 8);
    // It is on its way; what comes behind it is asked for.
    let behind = bench.begin_read(wanted, ReadSource::Anywhere);
    for request in ahead {
        let completion = DiskCompletion {
            token: request.token,
            result: Err(DiskError::Os(5)),
        };
        bench
            .store
            .handle_disk(bench.now, completion, &mut bench.out);
    }
    assert_eq!(bench.out.requests.len(), 1, "what is wanted, and no more");
    bench.work();
    bench.take_events();
    assert_eq!(bench.reads, [[2; 8]]);
    let usage = bench.store.usage().cache;
    assert_eq!((usage.ahead_used, usage.ahead_unused), (0, 40 + 64));
    for request in behind {
        bench.complete(request);
    }
}

/// The device has read what was there before the write, and says so after it.
#[test]
fn what_a_write_overtakes_is_not_read_as_it_was() {
    for (is_awaited, is_here) in [(false, false), (true, false), (false, true)] {
        let mut bench = with_pages(|_| ());
        let ahead = read_three(&mut bench);
        let (block, beside) = (BlockRange::new(70, 1), BlockRange::new(80, 1));
        if is_awaited {
            bench.begin_read(BlockRange::new(70, 11), ReadSource::Anywhere);
        }
        let mut completions = VecDeque::new();
        for request in ahead {
            completions.push_back(memory::perform(&mut bench.device, request));
        }
        if !is_here {
            bench.write(block, 9);
            bench.clear(beside);
            assert!(bench.is_destaged());
        }
        for completion in completions {
            bench
                .store
                .handle_disk(bench.now, completion, &mut bench.out);
        }
        bench.work();
        if is_here {
            bench.write(block, 9);
            bench.clear(beside);
            assert!(bench.is_destaged());
        }
        if is_awaited {
            let read = bench.reads.pop().expect("it was read again");
            assert_eq!(read, [9, 2, 2, 2, 2, 2, 2, 2, 2, 2, 0]);
        }
        bench.begin_read(BlockRange::new(70, 11), ReadSource::Anywhere);
        bench.work();
        for request in bench.begin_read(BlockRange::new(70, 11), ReadSource::Anywhere) {
            bench.complete(request);
        }
        bench.take_events();
        let read = bench.reads.pop().expect("it was read");
        assert_eq!(read, [9, 2, 2, 2, 2, 2, 2, 2, 2, 2, 0]);
    }
}

/// There are more streams than may have a page on its way. Together they have no more of it than there may be, and each has its turn.
#[test]
fn streams_share_what_is_on_its_way() {
    const STREAMS: u32 = 24;
    const PAGES_EACH: u32 = 4;
    let pages = STREAMS * PAGES_EACH;
    let mut bench = filled(Bench::of(pages + 2, |_| ()), pages);
    let bytes = |request: &DiskRequest| request.op.extent().expect("a read").1;
    let mut on_their_way = VecDeque::new();
    let (mut most, mut found) = (0, [0; STREAMS as usize]);
    for part in 0..8 * PAGES_EACH {
        for stream in 0..STREAMS {
            let first = 64 * PAGES_EACH * stream + 8 * part;
            let range = BlockRange::new(first, 8);
            let asked = bench.begin_read(range, ReadSource::Anywhere);
            let (own, ahead): (Vec<_>, Vec<_>) = asked
                .into_iter()
                .partition(|request| bytes(request) == range.bytes());
            found[stream as usize] += u32::from(own.is_empty());
            on_their_way.extend(ahead);
            most = most.max(on_their_way.iter().map(bytes).sum::<u64>());
            own.into_iter().for_each(|request| bench.complete(request));
            bench.take_events();
            while bench.reads.is_empty() {
                let next = on_their_way.pop_front();
                bench.complete(next.expect("it waits for something"));
                on_their_way.extend(bench.take_requests());
            }
            let page = (first / 64) as u8;
            assert_eq!(bench.reads.pop().expect("it is there"), [1 + page; 8]);
        }
    }
    assert!((2 << 20..=4 << 20).contains(&most), "{most}");
    assert!(found.iter().all(|found| *found >= 4), "{found:?}");
}

#[test]
fn nothing_is_read_ahead_without_memory_or_turns() {
    let changes: [fn(&mut StoreConfig); 2] = [
        |config| config.block_cache_bytes = 2 << 20,
        |config| config.requests_max = 2,
    ];
    for change in changes {
        let mut bench = with_pages(change);
        assert_eq!(read_three(&mut bench).len(), 0);
    }
}
