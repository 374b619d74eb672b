//! What the start of a node with full devices costs: how long its store takes to open, until a block of a page is
//! read, and what memory a page takes.
//!
//! `cargo bench -p holdfast-store --bench start -- FILE [--slices COUNT] [--in-order] [--openings COUNT]`: a FILE that is not
//! there is made, with 256 slices (1 TiB) unless told otherwise, each with all of its pages, scattered over the slots unless
//! they are to lie in order. It is sparse: the slots are holes, and each entry of the page table has the checksums of
//! blocks of zeros. The store itself makes superblocks, journal and the slices' logs; the sets of pages are appended to its
//! journal, and the table is written, both copies. 1 TiB takes 4.1 GiB of the file system. The file is left for more openings.
//!
//! Each opening is a process of its own, so that its memory is the opening's; every byte is read from the device, for
//! the page cache is bypassed. Beside it the same reads of the table without anything done about them: the device's limit.
//!
//! `start FILE --fill` has FILE, the device of a node that is off, have all pages of the slices that are on it. So the start of a whole
//! node is measured, by another bench of this name, in `crates/e2e`.
//!
//! docs/performance.md says what was found.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use holdfast_disk::{DeviceSpec, Disks, FileSpec, Options};
use holdfast_format::device::HEAD_BYTES;
use holdfast_format::zero::ZERO_BLOCK_CHECKSUM;
use holdfast_format::{
    Body, PageEntry, PageKey, PageSet, Record, SUPERBLOCK_BYTES, SUPERBLOCK_OFFSETS, SlotContent,
    Superblock, TABLE_ENTRY,
};
use holdfast_journal::{Found, Journal, JournalPlace, Recovery};
use holdfast_model::report::NOTES;
use holdfast_model::{
    BLOCKS_PER_PAGE, BlockRange, Change, ClusterId, DiskCompletion, DiskId, DiskOp, DiskRequest,
    DiskToken, Entry, Epoch, Fence, NodeId, PAGE_SIZE, PAGES_PER_SLICE, PageIndex, Sequence,
    SliceId, StoreId, Tier, VolumeId,
};
use holdfast_stdx::Bytes;
use holdfast_store::{
    BlockRead, DeviceGeometry, Expected, FormatConfig, Output, ReadRequest, ReadSource, Store,
    StoreConfig, StoreEvent, StoreIdentity, StoreToken, View,
};
use rustix::time::{ClockId, clock_gettime};
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

const DISK: DiskId = DiskId(0);
const USAGE: &str =
    "usage: start FILE [--slices COUNT] [--in-order] [--openings COUNT], or start FILE --fill";
/// What a device of 1 TiB has, whatever the size of this one.
const JOURNAL_BYTES: u64 = 8 << 30;
/// Volumes are of 1 TiB each.
const SLICES_PER_VOLUME: u32 = 256;
/// Bytes of a replica's state, about as many as it has.
const STATE_BYTES: usize = 512;
/// How much of the table is read or written at a time, and how many such requests there are at the same time.
const CHUNK_BYTES: u64 = 256 << 10;
const CHUNKS_IN_FLIGHT: usize = 8;
/// Where a version has the use in which it was written.
const VERSION_BITS: u32 = 40;
/// Slots that lie side by side have pages that are so far apart, where they are scattered: a prime number, so that
/// each page has its slot.
const SCATTER: u64 = 1_000_003;

fn main() -> Result<()> {
    let mut file: Option<PathBuf> = None;
    let (mut slices, mut openings, mut in_order) = (256, 3, false);
    let mut arguments = std::env::args().skip(1).filter(|it| it != "--bench");
    while let Some(argument) = arguments.next() {
        let mut number = || -> Result<u32> {
            let text = arguments.next().context(USAGE)?;
            text.parse().context(USAGE)
        };
        match argument.as_str() {
            "--slices" => slices = number()?,
            "--openings" => openings = number()?,
            "--in-order" => in_order = true,
            // For the processes that this one starts.
            "--open" => return open(&file.context(USAGE)?),
            "--read" => return read_table(&file.context(USAGE)?),
            "--fill" => return fill(&file.context(USAGE)?),
            _ if file.is_none() && !argument.starts_with('-') => file = Some(argument.into()),
            _ => bail!(USAGE),
        }
    }
    let file = file.context(USAGE)?;
    ensure!((1..=1 << 14).contains(&slices), "1 to 16384 slices");
    if !file.exists()
        && let Err(error) = make(&file, slices, in_order)
    {
        // It would pass for a whole one the next time.
        fs::remove_file(&file)?;
        return Err(error.context("make the file"));
    }
    let mut out = io::stdout();
    writeln!(
        out,
        "                seconds  processors  first read, ms  resident, MiB  at most  bytes a page"
    )?;
    for _ in 0..openings {
        for what in ["--read", "--open"] {
            let child = Command::new(std::env::current_exe()?)
                .arg(&file)
                .arg(what)
                .output()?;
            let errors = String::from_utf8_lossy(&child.stderr);
            ensure!(child.status.success(), "{what}: {errors}");
            out.write_all(&child.stdout)?;
        }
    }
    Ok(())
}

/// The one device, with the loop that a node has around it.
struct Device {
    runtime: Runtime,
    disks: Disks,
    begun: Instant,
}

impl Device {
    fn open(spec: DeviceSpec) -> Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let disks = Disks::open(&[spec], Options::default())?;
        ensure!(
            disks.geometry(DISK).is_some_and(|found| found.direct),
            "the page cache cannot be bypassed here: what is read would come from memory"
        );
        Ok(Self {
            runtime,
            disks,
            begun: Instant::now(),
        })
    }

    fn existing(path: &Path) -> Result<Self> {
        Self::open(DeviceSpec::existing(path))
    }

    fn geometry(&self) -> DeviceGeometry {
        let found = self.disks.geometry(DISK).expect("it has been opened");
        DeviceGeometry {
            disk: DISK,
            bytes: found.size,
            sector: found.sector,
            tier: Tier::Flash,
        }
    }

    fn now(&self) -> holdfast_stdx::Instant {
        let passed = self.begun.elapsed().as_nanos();
        holdfast_stdx::Instant::from_nanos(passed as u64)
    }

    fn submit(&mut self, token: u64, op: DiskOp) {
        self.disks.submit(DiskRequest {
            token: DiskToken(token),
            disk: DISK,
            op,
        });
    }

    /// Waits for what ends, for so long at most.
    fn completions(&mut self, patience: Duration) -> Vec<DiskCompletion> {
        let mut ended = Vec::new();
        let completions = self.disks.completions(&mut ended);
        // With nothing ended it is a timeout, which whoever asked has been waiting for.
        let _ = self
            .runtime
            .block_on(async { timeout(patience, completions).await });
        ended
    }

    /// Waits until no more than so many requests are under way.
    fn settle(&mut self, outstanding_max: usize) -> Result<()> {
        while self.disks.outstanding() > outstanding_max {
            for completion in self.completions(Duration::MAX) {
                completion.result?;
            }
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        self.settle(0)?;
        self.submit(0, DiskOp::Flush);
        self.settle(0)
    }

    /// Drives a store until it has told of what is wanted.
    fn drive<T>(
        &mut self,
        store: &mut Store,
        out: &mut Output,
        mut wanted: impl FnMut(StoreEvent) -> Option<T>,
    ) -> Result<T> {
        loop {
            while let Some(event) = out.events.pop_front() {
                match event {
                    StoreEvent::OpenFailed(error) => return Err(error.into()),
                    StoreEvent::DeviceFailed { .. } => bail!("the device failed"),
                    event => {
                        if let Some(found) = wanted(event) {
                            return Ok(found);
                        }
                    }
                }
            }
            for request in out.requests.drain(..) {
                self.disks.submit(request);
            }
            let due = store.next_timeout();
            let patience = due.map_or(Duration::MAX, |due| due.since(self.now()));
            for completion in self.completions(patience) {
                store.handle_disk(self.now(), completion, out);
            }
            let now = self.now();
            if store.next_timeout().is_some_and(|due| due <= now) {
                store.handle_timeout(now, out);
            }
        }
    }

    fn superblock(&mut self) -> Result<Superblock> {
        let length = SUPERBLOCK_BYTES as u32;
        self.submit(0, DiskOp::Read { offset: 0, length });
        let mut ended = self.completions(Duration::MAX);
        let read = ended.pop().context("read the superblock")?;
        Ok(Superblock::decode(&read.result?)?)
    }
}

fn slice(number: u32) -> SliceId {
    SliceId {
        volume: VolumeId(u64::from(number / SLICES_PER_VOLUME) + 1),
        index: number % SLICES_PER_VOLUME,
    }
}

/// Makes a file with a store that has so many slices, and all of their pages.
fn make(path: &Path, slices: u32, in_order: bool) -> Result<()> {
    let begun = Instant::now();
    let pages = u64::from(slices * PAGES_PER_SLICE);
    let slot = PAGE_SIZE as u64 + 2 * TABLE_ENTRY as u64;
    let size = HEAD_BYTES + JOURNAL_BYTES + pages * slot;
    let mut device = Device::open(DeviceSpec {
        file: Some(FileSpec {
            size,
            preallocate: false,
        }),
        ..DeviceSpec::existing(path)
    })?;
    write_logs(&mut device, slices)?;
    write_pages(&mut device, in_order)?;
    let took = begun.elapsed().as_secs_f64();
    writeln!(
        io::stdout(),
        "made in {took:.0} s: {slices} slices, {pages} pages"
    )?;
    Ok(())
}

/// Has the device of a node that is off have all pages of the slices that are on it.
fn fill(path: &Path) -> Result<()> {
    let begun = Instant::now();
    let slices = write_pages(&mut Device::existing(path)?, false)?;
    let took = begun.elapsed().as_secs_f64();
    let pages = slices * u64::from(PAGES_PER_SLICE);
    writeln!(
        io::stdout(),
        "filled in {took:.0} s: {slices} slices, {pages} pages"
    )?;
    Ok(())
}

/// Has the slices of a store have all of their pages. How many slices there are.
fn write_pages(device: &mut Device, in_order: bool) -> Result<u64> {
    let superblock = begin_use(device)?;
    let slices = write_sets(device, &superblock)?;
    write_table(device, &superblock, &slices, in_order)?;
    Ok(slices.len() as u64)
}

/// Creates a store, with slices that have a log and a state.
fn write_logs(device: &mut Device, slices: u32) -> Result<()> {
    let mut out = Output::default();
    let identity = StoreIdentity {
        cluster: ClusterId(1),
        store: StoreId(1),
        node: NodeId(1),
        nonce: 1,
    };
    let (now, geometry) = (device.now(), device.geometry());
    let format = FormatConfig {
        journal_bytes: Some(JOURNAL_BYTES),
        ..FormatConfig::default()
    };
    let config = StoreConfig {
        format,
        ..StoreConfig::default()
    };
    let mut store = Store::create(now, config, &[geometry], identity, 1, &mut out);
    let opened = |event| matches!(event, StoreEvent::Opened(_)).then_some(());
    device.drive(&mut store, &mut out, opened)?;
    for number in 0..slices {
        let now = device.now();
        let entry = Entry {
            epoch: Epoch(1),
            sequence: Sequence(1),
            fence: Fence(0),
            command: Default::default(),
            change: Change::Nothing,
        };
        let none = Sequence::ZERO;
        store.append(now, slice(number), entry, none, StoreToken(0), &mut out);
        let state = Bytes::from(vec![1; STATE_BYTES]);
        store.put_state(now, slice(number), state, StoreToken(1), &mut out);
    }
    let mut left = slices;
    device.drive(&mut store, &mut out, |event| {
        let is_state = matches!(event, StoreEvent::Durable { token } if token == StoreToken(1));
        left -= u32::from(is_state);
        (left == 0).then_some(())
    })?;
    device.flush()
}

/// Raises the use counter, as an opening does: what is written from here on is of another use.
fn begin_use(device: &mut Device) -> Result<Superblock> {
    let mut superblock = device.superblock()?;
    superblock.update += 1;
    superblock.use_counter += 1;
    superblock.use_ids.begin(superblock.use_counter, 1);
    for offset in SUPERBLOCK_OFFSETS {
        let write = DiskOp::Write {
            offset,
            parts: vec![superblock.encode()],
            durable: true,
        };
        device.submit(0, write);
        device.settle(0)?;
    }
    Ok(superblock)
}

/// Appends to the store's journal that its slices have all of their pages: which they are, and how far each is committed.
fn write_sets(device: &mut Device, superblock: &Superblock) -> Result<BTreeMap<SliceId, Sequence>> {
    let place = JournalPlace {
        disk: DISK,
        layout: superblock.layout,
        store: superblock.store,
        nonce: superblock.nonce,
        use_counter: superblock.use_counter,
        partitions: superblock.partitions,
        token_base: 0,
    };
    let (mut requests, mut found) = (Vec::new(), Vec::new());
    let mut recovery = Recovery::start(place, &mut requests);
    while !recovery.is_done() {
        for request in requests.drain(..) {
            device.disks.submit(request);
        }
        for completion in device.completions(Duration::MAX) {
            recovery.handle(completion, &mut requests, &mut found)?;
        }
    }
    let mut slices: BTreeMap<SliceId, (u16, Sequence)> = BTreeMap::new();
    for found in found {
        if let Found::Record {
            partition, read, ..
        } = found
            && read.record.slice.volume != NOTES
        {
            let Record {
                slice, committed, ..
            } = read.record;
            let known = slices.entry(slice).or_insert((partition, committed));
            known.1 = known.1.max(committed);
        }
    }
    let mut journal = recovery.finish();
    let mut all = PageSet::new();
    for page in 0..PAGES_PER_SLICE {
        all.set(PageIndex(page), true);
    }
    for (slice, (partition, committed)) in &slices {
        let record = Record {
            slice: *slice,
            committed: *committed,
            body: Body::Checkpoint(all.clone()),
        };
        journal.append(*partition, record, 0);
    }
    write_journal(device, &mut journal, superblock.partitions)?;
    let committed = slices.into_iter().map(|(slice, (_, point))| (slice, point));
    Ok(committed.collect())
}

fn write_journal(device: &mut Device, journal: &mut Journal, partitions: u16) -> Result<()> {
    loop {
        for partition in 0..partitions {
            if let Some(begun) = journal.start(partition, |_| Sequence(1)) {
                device.disks.submit(begun.request);
            }
        }
        if device.disks.outstanding() == 0 {
            return Ok(());
        }
        for completion in device.completions(Duration::MAX) {
            completion.result?;
            journal.complete(journal.partition_of(completion.token));
        }
    }
}

/// Writes an entry for each page of the slices, in both copies of the table.
fn write_table(
    device: &mut Device,
    superblock: &Superblock,
    slices: &BTreeMap<SliceId, Sequence>,
    in_order: bool,
) -> Result<()> {
    let layout = &superblock.layout;
    let slices: Vec<_> = slices
        .iter()
        .map(|(slice, point)| (*slice, *point))
        .collect();
    let pages = slices.len() as u64 * u64::from(PAGES_PER_SLICE);
    ensure!(
        pages <= u64::from(layout.slot_count),
        "{pages} pages have no room in {} slots",
        layout.slot_count
    );
    let per_chunk = CHUNK_BYTES / TABLE_ENTRY as u64;
    for first in (0..pages).step_by(per_chunk as usize) {
        let mut chunk = Vec::with_capacity(CHUNK_BYTES as usize);
        for slot in first..pages.min(first + per_chunk) {
            let place = if in_order {
                slot
            } else {
                slot * SCATTER % pages
            };
            let (slice, point) = slices[(place / u64::from(PAGES_PER_SLICE)) as usize];
            let page = PageIndex((place % u64::from(PAGES_PER_SLICE)) as u32);
            let key = PageKey { slice, page };
            chunk.extend_from_slice(&entry(superblock, slot, key, point));
        }
        let chunk = Bytes::from(chunk);
        for (copy, table) in layout.table_offsets.into_iter().enumerate() {
            let write = DiskOp::Write {
                offset: table + first * TABLE_ENTRY as u64,
                parts: vec![chunk.clone()],
                durable: false,
            };
            device.submit(2 * first + copy as u64, write);
        }
        device.settle(CHUNKS_IN_FLIGHT)?;
    }
    device.flush()
}

/// The entry of a slot with a page, as it was written then.
fn entry(superblock: &Superblock, slot: u64, key: PageKey, written: Sequence) -> [u8; TABLE_ENTRY] {
    let entry = PageEntry {
        version: (superblock.use_counter << VERSION_BITS) + 1 + slot,
        slot: superblock.slot_base + slot as u32,
        content: SlotContent::Page {
            key,
            written,
            mask: u64::MAX,
            bad: 0,
            checksums: Box::new([ZERO_BLOCK_CHECKSUM; BLOCKS_PER_PAGE as usize]),
        },
    };
    entry.encode(superblock.nonce)
}

/// Opens the store on the file, reads a block, and tells what that took.
fn open(path: &Path) -> Result<()> {
    let before = Memory::now()?;
    let begun = Instant::now();
    let mut device = Device::existing(path)?;
    let mut out = Output::default();
    let (now, geometry) = (device.now(), device.geometry());
    let (config, expected) = (StoreConfig::default(), Expected::default());
    let mut store = Store::open(now, config, &[geometry], expected, 2, &mut out);
    let recovered = device.drive(&mut store, &mut out, |event| match event {
        StoreEvent::Opened(recovered) => Some(recovered),
        _ => None,
    })?;
    let (took, cpu) = (begun.elapsed(), cpu());
    let slices: Vec<SliceId> = recovered.slices.keys().copied().collect();
    let last = *slices.last().context("there is a slice")?;
    let first_read = read_block(&mut device, &mut store, &mut out, last)?;
    let after = Memory::now()?;
    check(&store, &recovered.slices)?;
    let pages = slices.len() as u64 * u64::from(PAGES_PER_SLICE);
    let grown = after.resident.saturating_sub(before.resident);
    writeln!(
        io::stdout(),
        "opening         {:>7.2}  {cpu:>10.2}  {:>14.2}  {:>13}  {:>7}  {:>12.1}",
        took.as_secs_f64(),
        first_read.as_secs_f64() * 1e3,
        grown >> 20,
        after.most.saturating_sub(before.resident) >> 20,
        grown as f64 / pages as f64,
    )?;
    Ok(())
}

/// Reads the last block of the slice from the medium, and tells how long that took.
fn read_block(
    device: &mut Device,
    store: &mut Store,
    out: &mut Output,
    slice: SliceId,
) -> Result<Duration> {
    let begun = Instant::now();
    let last = PAGES_PER_SLICE * BLOCKS_PER_PAGE - 1;
    let request = ReadRequest {
        slice,
        range: BlockRange::new(last, 1),
        view: View::Committed,
        source: ReadSource::Media,
    };
    store.read(device.now(), request, StoreToken(2), out);
    let blocks = device.drive(store, out, |event| match event {
        StoreEvent::ReadDone { blocks, .. } => Some(blocks),
        _ => None,
    })?;
    let is_read = matches!(&blocks[..], [BlockRead::Data { checksum, .. }] if *checksum == ZERO_BLOCK_CHECKSUM);
    ensure!(is_read, "the block is read as it was written: {blocks:?}");
    Ok(begun.elapsed())
}

/// What was opened is what was made: nothing is lost, or left out.
fn check<T>(store: &Store, slices: &BTreeMap<SliceId, T>) -> Result<()> {
    for slice in slices.keys() {
        let pages = store.allocated_pages(*slice);
        ensure!(
            pages == u64::from(PAGES_PER_SLICE),
            "{slice}: {pages} pages"
        );
        let bad = store.bad_blocks(*slice);
        ensure!(bad.is_empty(), "{slice}: bad blocks in {} pages", bad.len());
    }
    Ok(())
}

/// Reads what an opening reads of the table, and tells how long that takes.
fn read_table(path: &Path) -> Result<()> {
    let mut device = Device::existing(path)?;
    let layout = device.superblock()?.layout;
    let begun = Instant::now();
    for at in (0..layout.table_bytes()).step_by(CHUNK_BYTES as usize) {
        for table in layout.table_offsets {
            let length = CHUNK_BYTES.min(layout.table_bytes() - at) as u32;
            let offset = table + at;
            device.submit(offset, DiskOp::Read { offset, length });
        }
        device.settle(CHUNKS_IN_FLIGHT)?;
    }
    device.settle(0)?;
    let took = begun.elapsed().as_secs_f64();
    writeln!(io::stdout(), "reads alone     {took:>7.2}  {:>10.2}", cpu())?;
    Ok(())
}

/// Seconds that this process has had of processors.
fn cpu() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Memory of this process that is there, in bytes.
struct Memory {
    resident: u64,
    most: u64,
}

impl Memory {
    fn now() -> Result<Self> {
        let status = fs::read_to_string("/proc/self/status")?;
        let bytes = |key: &str| -> Result<u64> {
            let line = status.lines().find_map(|line| line.strip_prefix(key));
            let kib = line.context("memory in the process's status")?;
            Ok(kib.trim().trim_end_matches(" kB").parse::<u64>()? << 10)
        };
        Ok(Self {
            resident: bytes("VmRSS:")?,
            most: bytes("VmHWM:")?,
        })
    }
}
