//! Pages that move to another device, wherever that is cut short.

use alloc::vec;
use alloc::vec::Vec;

use holdfast_format::{DeviceLayout, DeviceRole, PageKey, PageSet};
use holdfast_model::{
    DiskCompletion, DiskId, DiskOp, DiskRequest, PageIndex, Sequence, SliceId, Tier, VolumeId,
};
use holdfast_stdx::{Bytes, crc32c};

use crate::tests::MEMORY;
use crate::{
    BlockOutcome, Opening, PageJob, PageView, PageWork, Pages, PagesDevice, PagesEvent, PagesPlace,
    Paint, ReadSource, ToMove,
};

const BYTES: u64 = 6 << 20;
const SLICE: SliceId = SliceId {
    volume: VolumeId(1),
    index: 0,
};
const PAGES: u32 = 5;

/// Two devices that do everything at once, until the power fails.
struct Memory {
    devices: [Vec<u8>; 2],
    /// Requests until then.
    left: usize,
}

impl Memory {
    fn new() -> Self {
        Self {
            devices: [0, 1].map(|_| vec![0; BYTES as usize]),
            left: usize::MAX,
        }
    }

    fn perform(&mut self, request: DiskRequest) -> Option<DiskCompletion> {
        self.left = self.left.checked_sub(1)?;
        let device = &mut self.devices[usize::from(request.disk.0)];
        let mut bytes = Bytes::new();
        match request.op {
            DiskOp::Read { offset, length } => {
                bytes = Bytes::copy_from_slice(&device[offset as usize..][..length as usize]);
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
        Some(DiskCompletion {
            token: request.token,
            result: Ok(bytes),
        })
    }
}

fn layout() -> DeviceLayout {
    DeviceLayout::plan(BYTES, DeviceRole::Pages).expect("large enough")
}

fn device(number: u16, is_drained: bool) -> PagesDevice {
    PagesDevice {
        disk: DiskId(number),
        layout: layout(),
        // There is a gap between the two.
        slot_base: u32::from(number) * 2 * layout().slot_count,
        tier: Tier::Flash,
        is_drained,
    }
}

fn open(memory: &mut Memory, use_counter: u64, devices: Vec<PagesDevice>) -> Pages {
    let place = PagesPlace {
        devices,
        nonce: 77,
        use_counter,
        token_base: 0,
    };
    let mut requests = Vec::new();
    let mut opening = Opening::start(place, MEMORY, &mut requests);
    while let Some(request) = requests.pop() {
        let completion = memory.perform(request).expect("there is power");
        opening
            .handle(completion, &mut requests)
            .expect("the device works");
    }
    opening.finish()
}

/// Carries a round, or a read, to its end; nothing if the power fails.
fn run(
    pages: &mut Pages,
    memory: &mut Memory,
    mut requests: Vec<DiskRequest>,
    mut events: Vec<PagesEvent>,
) -> Option<PagesEvent> {
    let mut last = None;
    loop {
        for event in core::mem::take(&mut events) {
            if matches!(event, PagesEvent::Planned(_)) {
                pages.proceed(&mut requests, &mut events);
            }
            last = Some(event);
        }
        if requests.is_empty() && events.is_empty() {
            return last;
        }
        for request in core::mem::take(&mut requests) {
            let completion = memory.perform(request)?;
            pages
                .handle(completion, &mut requests, &mut events)
                .expect("the device works");
        }
    }
}

fn key(page: u32) -> PageKey {
    PageKey {
        slice: SLICE,
        page: PageIndex(page),
    }
}

fn round(pages: &mut Pages, memory: &mut Memory, jobs: Vec<PageJob>) -> Option<()> {
    let (mut requests, mut events) = (Vec::new(), Vec::new());
    pages.begin_round(jobs, &mut requests, &mut events);
    let done = run(pages, memory, requests, events)?;
    assert!(matches!(done, PagesEvent::RoundDone(_)));
    Some(())
}

/// Pages with some blocks each, all on the first device; the second has just been added.
fn filled(memory: &mut Memory) -> Pages {
    let mut pages = open(memory, 1, vec![device(0, false)]);
    let jobs = (0..PAGES).map(|page| {
        let paints = (0..64)
            .filter(|block| block % (page + 2) == 0)
            .map(|block| {
                let data = Bytes::from(vec![(64 * page + block) as u8; 4096]);
                let checksum = crc32c(&data);
                (block, Paint::Data { data, checksum })
            });
        PageJob {
            key: key(page),
            written: Sequence(5),
            work: PageWork::Paint(paints.collect()),
        }
    });
    round(&mut pages, memory, jobs.collect()).expect("there is power");
    pages.add_device(device(1, false));
    pages
}

fn move_jobs(pages: &Pages, count: usize) -> Vec<PageJob> {
    let found = pages.next_to_move(None, (count, 100), |_| false);
    let jobs = found.pages.into_iter().map(|key| PageJob {
        key,
        written: pages.page(key).expect("it is there").written,
        work: PageWork::Move,
    });
    jobs.collect()
}

/// Moves everything off the first device; nothing if the power fails.
fn drain(pages: &mut Pages, memory: &mut Memory) -> Option<()> {
    pages.drain(DiskId(0));
    while pages.used_slots(DiskId(0)) > 0 {
        let jobs = move_jobs(pages, 2);
        round(pages, memory, jobs)?;
    }
    Some(())
}

fn check(pages: &mut Pages, memory: &mut Memory) {
    for page in 0..PAGES {
        let view = pages.page(key(page)).expect("no page is lost");
        assert_eq!((view.lost, view.written), (0, Sequence(5)));
        let (mut requests, mut events) = (Vec::new(), Vec::new());
        pages.read(
            key(page),
            view.mask,
            ReadSource::Anywhere,
            1,
            &mut requests,
            &mut events,
        );
        let Some(PagesEvent::Read(done)) = run(pages, memory, requests, events) else {
            panic!("the read ends");
        };
        let expected: Vec<u32> = (0..64).filter(|block| block % (page + 2) == 0).collect();
        assert_eq!(done.blocks.len(), expected.len());
        for ((block, outcome), expected) in done.blocks.into_iter().zip(expected) {
            assert_eq!(block, expected);
            let BlockOutcome::Data { data, .. } = outcome else {
                panic!("{page} {block}: {outcome:?}");
            };
            assert_eq!(data[0], (64 * page + block) as u8);
        }
    }
}

#[test]
fn every_page_is_there_wherever_its_move_is_cut_short() {
    let mut full = Memory::new();
    drop(filled(&mut full));
    let mut set = PageSet::new();
    for page in 0..PAGES {
        set.set(PageIndex(page), true);
    }
    for requests in 0.. {
        let mut memory = Memory {
            devices: full.devices.clone(),
            left: usize::MAX,
        };
        let mut pages = open(&mut memory, 2, vec![device(0, false), device(1, false)]);
        pages.prove(SLICE, &set, true, Sequence::ZERO);
        memory.left = requests;
        let done = drain(&mut pages, &mut memory).is_some();
        memory.left = usize::MAX;
        let mut pages = open(&mut memory, 3, vec![device(0, true), device(1, false)]);
        pages.prove(SLICE, &set, true, Sequence::ZERO);
        check(&mut pages, &mut memory);
        drain(&mut pages, &mut memory).expect("there is power");
        check(&mut pages, &mut memory);
        pages.remove_device(DiskId(0));
        assert_eq!(pages.slot_count() - pages.free_slots(), PAGES);
        check(&mut pages, &mut memory);
        let mut pages = open(&mut memory, 4, vec![device(1, false)]);
        pages.prove(SLICE, &set, true, Sequence::ZERO);
        check(&mut pages, &mut memory);
        if done {
            assert!(requests > 40, "each step of each round is cut short");
            break;
        }
    }
}

#[test]
fn slots_of_a_drained_device_are_not_given_out_and_do_not_count() {
    let mut memory = Memory::new();
    let mut pages = filled(&mut memory);
    let count = layout().slot_count;
    assert_eq!(pages.slot_count(), 2 * count);
    assert_eq!(pages.free_slots(), 2 * count - PAGES);
    assert_eq!(pages.pages_to_move(), 0);
    pages.drain(DiskId(0));
    assert_eq!((pages.slot_count(), pages.free_slots()), (count, count));
    assert_eq!(pages.pages_to_move(), PAGES);
    let jobs = move_jobs(&pages, 2);
    round(&mut pages, &mut memory, jobs).expect("there is power");
    assert_eq!((pages.free_slots(), pages.pages_to_move()), (count - 2, 3));
    assert_eq!(pages.used_slots(DiskId(0)), PAGES, "two are left over");
    assert!(pages.has_leftovers());
    round(&mut pages, &mut memory, Vec::new()).expect("there is power");
    assert_eq!(pages.used_slots(DiskId(0)), 3);
    assert_eq!(pages.used_slots(DiskId(1)), 2);
}

/// A device is drained, and is not any more, while a round has taken slots of it for pages that are not in the map yet.
#[test]
fn a_slot_that_a_round_has_taken_does_not_count_while_its_device_is_drained() {
    let mut memory = Memory::new();
    let mut pages = filled(&mut memory);
    let count = layout().slot_count;
    pages.drain(DiskId(1));
    let job = PageJob {
        key: key(PAGES),
        work: PageWork::Paint(vec![(0, Paint::Bad(None))]),
        written: Sequence(9),
    };
    let (mut requests, mut events) = (Vec::new(), Vec::new());
    pages.begin_round(vec![job], &mut requests, &mut events);
    assert_eq!(
        (pages.slot_count(), pages.free_slots()),
        (count, count - PAGES)
    );
    pages.begin_giving(DiskId(1));
    pages.drain(DiskId(0));
    assert_eq!((pages.slot_count(), pages.free_slots()), (count, count));
    pages.begin_giving(DiskId(0));
    let all = 2 * count;
    assert_eq!((pages.slot_count(), pages.free_slots()), (all, all - PAGES));
}

#[test]
fn the_map_is_looked_through_in_parts() {
    let mut memory = Memory::new();
    let mut pages = filled(&mut memory);
    pages.drain(DiskId(0));
    let found = |pages: Vec<u32>, next: Option<u32>| ToMove {
        pages: pages.into_iter().map(key).collect(),
        next: next.map(key),
    };
    let all = |_| false;
    assert_eq!(
        pages.next_to_move(None, (2, 9), all),
        found(vec![0, 1], Some(2))
    );
    let last = pages.next_to_move(Some(key(2)), (9, 9), all);
    assert_eq!(last, found(vec![2, 3, 4], None));
    let held = pages.next_to_move(None, (9, 3), |other| other == key(1));
    assert_eq!(held, found(vec![0, 2], Some(3)));
}

/// A block that is bad where it comes from is bad where it goes, and its neighbours are not.
#[test]
fn what_is_bad_stays_bad_with_its_checksum() {
    let mut memory = Memory::new();
    let mut pages = filled(&mut memory);
    let slot = pages.state(key(1)).expect("the page is there").slot;
    let at = layout().slot_offset(slot) as usize + 3 * 4096;
    let checksum = crc32c(&memory.devices[0][at..at + 4096]);
    memory.devices[0][at + 7] ^= 1;
    drain(&mut pages, &mut memory).expect("there is power");
    for _ in 0..2 {
        let view = pages.page(key(1)).expect("the page is there");
        let PageView { mask, lost, .. } = view;
        assert_eq!((mask.count_ones(), lost), (22, 0));
        let (mut requests, mut events) = (Vec::new(), Vec::new());
        pages.read(
            key(1),
            mask,
            ReadSource::Anywhere,
            1,
            &mut requests,
            &mut events,
        );
        let Some(PagesEvent::Read(done)) = run(&mut pages, &mut memory, requests, events) else {
            panic!("the read ends");
        };
        for (block, outcome) in done.blocks {
            let is_bad = outcome == BlockOutcome::Bad(Some(checksum));
            assert_eq!(is_bad, block == 3, "{block}: {outcome:?}");
        }
        assert_eq!(pages.bad_blocks(SLICE).get(&PageIndex(1)), Some(&(1 << 3)));
        pages = open(&mut memory, 2, vec![device(0, true), device(1, false)]);
    }
}
