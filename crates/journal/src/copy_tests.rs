//! A journal that is copied while it is written to: in the new place is what is in the old one.

use alloc::vec;
use alloc::vec::Vec;

use holdfast_format::{Body, DeviceLayout, DeviceRole, SegmentHeader};
use holdfast_model::{DiskId, DiskOp, DiskRequest, DiskToken, Sequence};
use holdfast_stdx::Prng;

use crate::tests::{Memory, SEGMENT, entry};
use crate::{Begun, CopyFailed, Found, GroupNumber, Journal, JournalPlace, Recovery};

const PARTITIONS: u16 = 2;
const SEGMENTS: u64 = 12;
/// Of the new place, which is larger.
const MORE_SEGMENTS: u64 = 14;

pub(crate) fn place(disk: u16, use_counter: u64) -> JournalPlace {
    let segments = [SEGMENTS, MORE_SEGMENTS][usize::from(disk)];
    let role = DeviceRole::Journal {
        segment_bytes: SEGMENT,
        journal_bytes: Some(segments * u64::from(SEGMENT)),
    };
    JournalPlace {
        disk: DiskId(disk),
        layout: DeviceLayout::plan(8 << 20, role).expect("large enough"),
        store: holdfast_model::StoreId(1),
        nonce: 2,
        use_counter,
        partitions: PARTITIONS,
        token_base: 1 << 50,
    }
}

fn recover(memory: &mut Memory, place: JournalPlace) -> (Journal, Vec<Found>) {
    let mut requests = Vec::new();
    let mut found = Vec::new();
    let mut recovery = Recovery::start(place, &mut requests);
    while let Some(request) = requests.pop() {
        let completion = memory.perform(&request);
        let handled = recovery.handle(completion, &mut requests, &mut found);
        handled.expect("the device works");
    }
    (recovery.finish(), found)
}

/// A journal, its device and one that it is copied to; requests end in any order.
pub(crate) struct Bench {
    pub(crate) journal: Journal,
    disks: [Memory; 2],
    pending: Vec<DiskRequest>,
    pub(crate) prng: Prng,
    is_idle: bool,
    sequence: u64,
    begun: Vec<Option<(GroupNumber, Vec<u64>)>>,
    /// What is in durable groups.
    durable: Vec<(u16, GroupNumber, u64)>,
}

impl Bench {
    pub(crate) fn new(seed: u64) -> Self {
        let mut prng = Prng::from_seed(seed);
        let mut disks = [0, 1].map(|_| Memory {
            bytes: vec![0; 8 << 20],
            unreadable: Vec::new(),
        });
        for request in Journal::format(&place(0, 0)) {
            disks[0].perform(&request);
        }
        // What is left over there is from another time of the same store.
        let stale = place(1, 0);
        for index in 0..MORE_SEGMENTS as u32 {
            let header = SegmentHeader {
                store: stale.store,
                nonce: stale.nonce,
                index,
                ordinal: 1 + prng.below(1 << 20),
                partition: Some(prng.below(u64::from(PARTITIONS)) as u16),
                first_group: 1 + prng.below(9),
                oldest_group: 1,
            };
            disks[1].perform(&DiskRequest {
                token: DiskToken(0),
                disk: DiskId(1),
                op: DiskOp::Write {
                    offset: stale.layout.segment_offset(index),
                    parts: vec![header.encode()],
                    durable: true,
                },
            });
        }
        let (journal, _) = recover(&mut disks[0], place(0, 1));
        Self {
            journal,
            disks,
            pending: Vec::new(),
            prng,
            is_idle: false,
            sequence: 0,
            begun: vec![None; usize::from(PARTITIONS)],
            durable: Vec::new(),
        }
    }

    fn partition(&mut self) -> u16 {
        self.prng.below(u64::from(PARTITIONS)) as u16
    }

    /// Something happens: an append, a trim, a group or a piece that is begun, or a request that ends.
    pub(crate) fn step(&mut self) {
        let partition = self.partition();
        match self.prng.below(12) {
            0..2 if !self.is_idle && self.journal.waiting(partition) < 3 => {
                self.sequence += 1;
                let blocks = self.prng.below(12) as usize;
                let record = entry(self.sequence, blocks);
                self.journal.append(partition, record, self.sequence);
            }
            2 if !self.is_idle && self.journal.chain_segments(partition) > 3 => {
                self.journal.trim(partition);
                self.journal.force(partition);
            }
            3..6 => self.begin(partition),
            6..8 => self.pending.extend(self.journal.next_copy_request()),
            8 if self.journal.is_checking() => {
                let request = self.journal.next_check_request();
                self.ask_for_check(request);
            }
            _ => self.end_one(),
        }
    }

    fn begin(&mut self, partition: u16) {
        let Some(begun) = self.journal.start(partition, |_| Sequence(7)) else {
            return;
        };
        let Begun {
            request,
            twin,
            written,
        } = begun;
        self.pending.push(request);
        self.pending.extend(twin);
        let tags = written.records.iter().map(|record| record.tag).collect();
        self.begun[usize::from(partition)] = Some((written.group, tags));
    }

    fn end_one(&mut self) {
        if self.pending.is_empty() {
            return;
        }
        let place = self.prng.below(self.pending.len() as u64) as usize;
        let request = self.pending.swap_remove(place);
        let completion = self.disks[usize::from(request.disk.0)].perform(&request);
        if self.journal.is_for_copy(request.token) {
            let taken = self.journal.take_copied(completion);
            return taken.expect("the device works");
        }
        if self.journal.is_for_check(request.token) {
            let found = self.journal.take_checked(completion);
            assert_eq!(found, Ok(None), "all is well");
            let request = self.journal.rest_of_check_piece();
            self.ask_for_check(request);
            return;
        }
        let partition = self.journal.partition_of(request.token);
        if self.journal.complete(partition) {
            let begun = self.begun[usize::from(partition)].take();
            let (group, tags) = begun.expect("it was begun");
            let records = tags.into_iter().map(|tag| (partition, group, tag));
            self.durable.extend(records);
        }
    }

    /// Power fails: all that is durable and not trimmed is found on the disk.
    fn check(&self, disk: u16) {
        let mut memory = self.disks[usize::from(disk)].clone();
        let (_, found) = recover(&mut memory, place(disk, 2));
        let hole = found.iter().find(|it| matches!(it, Found::Hole { .. }));
        assert_eq!(hole, None, "on disk {disk}");
        let found: Vec<(u16, GroupNumber, u64)> = found
            .into_iter()
            .filter_map(|found| match found {
                Found::Record {
                    partition,
                    group,
                    read,
                    ..
                } => match read.record.body {
                    Body::Entry(entry) if read.bad.is_empty() => {
                        Some((partition, group, entry.sequence.0))
                    }
                    other => panic!("{other:?}"),
                },
                _ => None,
            })
            .collect();
        for (partition, group, sequence) in &self.durable {
            let oldest = self.journal.chain(*partition).oldest_group;
            let is_there = found.contains(&(*partition, *group, *sequence));
            assert!(
                is_there || *group < oldest,
                "disk {disk} lacks {sequence} in {group:?} of partition {partition}"
            );
        }
    }

    /// Where the journal has been nothing is read any more: the device may be let go.
    fn ask_for_check(&mut self, request: Option<DiskRequest>) {
        let disk = self.journal.place.disk;
        assert!(request.iter().all(|request| request.disk == disk));
        self.pending.extend(request);
    }

    pub(crate) fn copy(&mut self) {
        let layout = place(1, 0).layout;
        self.journal.begin_copy(DiskId(1), layout);
    }

    pub(crate) fn steps_until(&mut self, what: &str, is_so: impl Fn(&Journal) -> bool) {
        for _ in 0..100_000 {
            if is_so(&self.journal) {
                return;
            }
            self.step();
        }
        panic!("{what} does not come");
    }
}

#[test]
fn a_copy_has_all_that_is_durable_whenever_power_fails() {
    for seed in 0..64 {
        let mut bench = Bench::new(seed);
        for _ in 0..bench.prng.below(3000) {
            bench.step();
        }
        bench.copy();
        bench.steps_until("the copy", Journal::is_copied);
        for _ in 0..20 {
            bench.check(0);
            bench.check(1);
            for _ in 0..bench.prng.below(40) {
                bench.step();
            }
        }
        bench.journal.switch();
        assert_eq!(u64::from(bench.journal.segment_count()), MORE_SEGMENTS);
        assert!(!bench.journal.has_copy());
        // The former place may be gone.
        for _ in 0..20 {
            bench.check(1);
            for _ in 0..200 {
                bench.step();
            }
        }
        bench.steps_until("an idle moment", |journal| {
            (0..PARTITIONS).all(|partition| journal.waiting(partition) == 0)
        });
    }
}

/// It may be called off and begun again, wherever that is.
#[test]
fn a_copy_that_is_called_off_does_no_harm() {
    for seed in 0..64 {
        let mut bench = Bench::new(seed);
        for _ in 0..bench.prng.below(3000) {
            bench.step();
        }
        for _ in 0..6 {
            bench.copy();
            for _ in 0..bench.prng.below(600) {
                bench.step();
            }
            bench.journal.end_copy();
            assert!(!bench.journal.is_copied());
            bench.check(0);
            bench.steps_until("its end", |journal| !journal.has_copy());
            // No segment is lost by that.
            let chains = (0..PARTITIONS).map(|partition| {
                let unannounced = bench.journal.unannounced(partition);
                bench.journal.chain_segments(partition) + unannounced
            });
            let used: usize = chains.sum();
            let free = bench.journal.free_segments() as usize;
            assert_eq!(used + free, SEGMENTS as usize, "seed {seed}");
        }
        bench.copy();
        bench.steps_until("the copy", Journal::is_copied);
        bench.check(0);
        bench.check(1);
    }
}

/// What cannot be read any more is as bad in the new place, and what comes after it is there.
#[test]
fn what_cannot_be_read_is_bad_in_the_copy_too() {
    let mut bench = Bench::new(1);
    for _ in 0..2000 {
        bench.step();
    }
    bench.is_idle = true;
    let chain = bench.journal.chain(0);
    let segment = place(0, 1).layout.segment_offset(chain.segments[0].index);
    bench.disks[0].unreadable = (1..12).map(|block| segment + block * 4096).collect();
    bench.copy();
    bench.steps_until("the copy", Journal::is_copied);
    bench.steps_until("an idle moment", |journal| {
        (0..PARTITIONS).all(|partition| journal.waiting(partition) == 0)
    });
    while !bench.pending.is_empty() {
        bench.end_one();
    }
    let [old, new] = [0, 1].map(|disk: u16| {
        let memory = &mut bench.disks[usize::from(disk)];
        let (_, found) = recover(memory, place(disk, 2));
        found
    });
    let mut holes = old.iter().filter(|it| matches!(it, Found::Hole { .. }));
    assert!(holes.next().is_some(), "something is lost");
    assert!(old == new);
}

#[test]
fn a_copy_on_a_device_that_fails_is_told() {
    let mut bench = Bench::new(1);
    bench.copy();
    let request = bench.journal.next_copy_request().expect("a header");
    let failed = bench.journal.take_copied(holdfast_model::DiskCompletion {
        token: request.token,
        result: Err(holdfast_model::DiskError::Os(5)),
    });
    assert_eq!(failed, Err(CopyFailed));
}
