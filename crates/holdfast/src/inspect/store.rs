//! One store: everything that is known of it put together.

use std::collections::BTreeSet;

use holdfast_format::{DeviceList, DeviceState, PageSet};
use holdfast_journal::Chain;
use holdfast_model::report::NOTES;
use holdfast_model::{PageIndex, SliceId};
use holdfast_store::{Surveyed, SurveyedSlice};

use super::Options;
use super::damage::{Damages, Severity, span};
use super::device::Device;
use super::document::{
    DeviceReport, SliceJournal, SliceReport, SliceTable, Standing, StoreReport, SuperblockReport,
};
use super::journal::{self, JournalLook};
use super::pages::{self, Redo};
use super::progress::Progress;
use super::table::{self, SlicePages, TableLook};
use super::text;
use crate::output::Output;

/// A store that has been looked at.
#[derive(Debug)]
pub(crate) struct StoreLook {
    pub(crate) report: StoreReport,
    devices: Vec<Device>,
    /// By partition of the journal; none if it was not looked at.
    chains: Vec<Chain>,
}

/// The devices of each store, by their numbers. A device and a copy of it are of two.
pub(crate) fn group(devices: Vec<Device>) -> Vec<Vec<Device>> {
    let mut stores: Vec<Vec<Device>> = Vec::new();
    let mut seen = BTreeSet::new();
    for device in devices {
        if let Some(identity) = device.source.identity()
            && !seen.insert(identity)
        {
            continue;
        }
        let ordinal = device.superblock.ordinal;
        let place = stores.iter().position(|store| {
            let same = store.iter().all(|other| other.belongs_with(&device));
            same && store
                .iter()
                .all(|other| other.superblock.ordinal != ordinal)
        });
        match place {
            Some(place) => stores[place].push(device),
            None => stores.push(vec![device]),
        }
    }
    for store in &mut stores {
        store.sort_by_key(|device| device.superblock.ordinal);
    }
    stores
}

impl StoreLook {
    /// Looks at the devices of one store; there is one at least.
    pub(crate) fn look(devices: Vec<Device>, options: &Options, progress: &Progress) -> Self {
        let mut damages = Damages::default();
        for device in &devices {
            device.check(&mut damages);
        }
        let mut journal = look_at_journal(&devices, options, &mut damages, progress);
        let has_table = options.section.has_table();
        let table = has_table.then(|| table::look(&devices, &mut damages, progress));
        let mut report = describe_store(&devices);
        if let Some(table) = &table {
            report.pages_uncounted = table.pages_uncounted;
            for (device, counts) in report.devices.iter_mut().zip(&table.counts) {
                device.slots = Some(*counts);
            }
        }
        report.slices = slices(
            journal.as_mut(),
            table.as_ref(),
            report.devices_missing.is_empty(),
            options.slice,
            &mut damages,
        );
        if let Some(table) = &table {
            let redo = Redo(journal.as_ref().map(|look| &look.surveyed));
            report.pages = options
                .slice
                .map(|slice| pages::list(&devices, slice, options.page, redo, progress));
            report.verified = options
                .verify
                .then(|| pages::verify(&devices, table, redo, &mut damages, progress));
        }
        let mut chains = Vec::new();
        if let Some(look) = journal {
            report.journal = Some(look.report);
            chains = look.chains;
        }
        report.sound = damages.is_empty();
        report.damage = damages.listed;
        report.damage_unlisted = damages.unlisted;
        Self {
            report,
            devices,
            chains,
        }
    }

    /// The device with the journal, and its chains by partition; if it was looked at.
    pub(crate) fn journal(&self) -> Option<(&Device, &[Chain])> {
        self.report.journal.as_ref()?;
        Some((carrier(&self.devices)?, &self.chains))
    }

    /// Says that somebody has begun to use a device in the meantime.
    pub(crate) fn warn_of_later_use(&self, output: &Output) {
        for device in &self.devices {
            if device.in_use.is_none()
                && let Some(in_use) = device.source.in_use()
            {
                output.talk(&format!(
                    "warning: {} has come into use{} while it was read: it may look damaged \
                     without being so",
                    device.source.path().display(),
                    text::by(in_use)
                ));
            }
        }
    }
}

fn look_at_journal(
    devices: &[Device],
    options: &Options,
    damages: &mut Damages,
    progress: &Progress,
) -> Option<JournalLook> {
    let carrier = carrier(devices).filter(|_| options.section.has_journal())?;
    let mut look = journal::look(carrier, damages, progress)?;
    if options.segments {
        look.report.every_segment = Some(journal::segments(carrier, &look.chains).collect());
    }
    Some(look)
}

/// What the superblocks say; nothing has been looked at yet.
fn describe_store(devices: &[Device]) -> StoreReport {
    let first = &carrier(devices).unwrap_or(&devices[0]).superblock;
    let list = newest_list(devices);
    let is_missing = |ordinal: &u16| {
        let mut there = devices.iter().map(|device| device.superblock.ordinal);
        !there.any(|there| there == *ordinal)
    };
    let (device_count, numbers): (u16, Vec<u16>) = match list.generation {
        0 => (first.device_count, (0..first.device_count).collect()),
        _ => {
            let listed = list.devices.iter().map(|device| device.ordinal);
            (list.devices.len() as u16, listed.collect())
        }
    };
    let numbers = numbers.into_iter();
    StoreReport {
        store: first.store,
        cluster: first.cluster,
        node: first.node,
        use_counter: first.use_counter,
        partitions: first.partitions,
        device_count,
        list_generation: list.generation,
        devices_missing: numbers.filter(is_missing).collect(),
        devices: devices
            .iter()
            .map(|device| describe(device, list))
            .collect(),
        journal: None,
        slices: None,
        pages_uncounted: 0,
        pages: None,
        verified: None,
        damage: Vec::new(),
        damage_unlisted: 0,
        sound: false,
    }
}

/// The list of the store's devices: that of the device with the journal counts; without it the newest
/// that is there.
fn newest_list(devices: &[Device]) -> &DeviceList {
    let newest = || {
        let lists = devices.iter().map(|device| &device.superblock.list);
        lists.max_by_key(|list| list.generation)
    };
    let counts = carrier(devices).map(|device| &device.superblock.list);
    counts.or_else(newest).expect("there is a device")
}

/// The device with the journal: of those that say that they have it, the one with the newest list.
pub(crate) fn carrier(devices: &[Device]) -> Option<&Device> {
    let carriers = devices.iter();
    let carriers = carriers.filter(|device| device.superblock.has_journal());
    carriers.max_by_key(|device| device.superblock.list.generation)
}

fn standing(device: &Device, list: &DeviceList) -> Standing {
    let superblock = &device.superblock;
    let listed = list.device_of_id(superblock.device_id);
    if let Some(absence) = listed.and_then(|listed| listed.absent) {
        return match absence.is_lost {
            true => Standing::Lost,
            false => Standing::Missing,
        };
    }
    match listed.map(|listed| listed.state) {
        Some(DeviceState::InUse) => Standing::InUse,
        Some(DeviceState::Draining) => Standing::Draining,
        Some(DeviceState::Leaving) => Standing::Leaving,
        None if superblock.is_of_version_1() => Standing::InUse,
        None if superblock.is_joining() => Standing::Joining,
        None => Standing::Gone,
    }
}

fn describe(device: &Device, list: &DeviceList) -> DeviceReport {
    let superblock = &device.superblock;
    let offsets = holdfast_format::SUPERBLOCK_OFFSETS;
    let superblocks = device.copies.iter().zip(offsets).map(|(copy, offset)| {
        let valid = copy.valid();
        SuperblockReport {
            offset,
            update: valid.map(|found| found.update),
            use_counter: valid.map(|found| found.use_counter),
            problem: copy.problem(),
        }
    });
    DeviceReport {
        path: device.source.path().display().to_string(),
        bytes: device.source.bytes(),
        in_use: device.in_use,
        ordinal: superblock.ordinal,
        standing: standing(device, list),
        tier: superblock.tier,
        sector: superblock.sector,
        bytes_then: superblock.device_bytes,
        superblocks: superblocks.collect(),
        regions: device.regions().into_iter().map(Into::into).collect(),
        segment_bytes: superblock.layout.segment_bytes,
        segment_count: superblock.layout.segment_count,
        slot_base: superblock.slot_base,
        slot_count: superblock.layout.slot_count,
        slots: None,
    }
}

/// Every slice that the journal or the page table knows, or the one that is asked for.
fn slices(
    journal: Option<&mut JournalLook>,
    table: Option<&TableLook>,
    all_devices: bool,
    only: Option<SliceId>,
    damages: &mut Damages,
) -> Option<Vec<SliceReport>> {
    if journal.is_none() && table.is_none() {
        return None;
    }
    let mut ids = BTreeSet::new();
    let (path, mut surveyed) = match journal {
        Some(look) => (look.report.path.clone(), Some(&mut look.surveyed)),
        None => (String::new(), None),
    };
    if let Some(table) = table {
        ids.extend(table.slices.keys().copied());
        if let Some(surveyed) = surveyed.as_deref_mut() {
            for id in table.slices.keys() {
                surveyed.slice_with_pages(*id);
            }
        }
    }
    let surveyed: Option<&Surveyed> = surveyed.as_deref();
    if let Some(surveyed) = surveyed {
        ids.extend(surveyed.slices.keys().copied());
    }
    let none = SlicePages::default();
    let reports = ids.into_iter().map(|id| {
        let known = surveyed.and_then(|surveyed| surveyed.slices.get(&id));
        let pages = table.map(|table| table.slices.get(&id).unwrap_or(&none));
        let mut report = SliceReport {
            slice: id,
            journal: known.map(of_journal),
            table: pages.map(of_table),
        };
        if let (Some(table), Some(pages), true) = (&mut report.table, pages, surveyed.is_some()) {
            compare(known, pages, all_devices, table);
        }
        let mut tell = |what: String| {
            let path = std::path::Path::new(&path);
            damages.add_somewhere(path, Severity::Lost, what);
        };
        if known.is_some_and(|known| !known.recovered.intact) {
            tell(format!(
                "slice {id} is not intact: a part of its journal is missing, others have to fill it"
            ));
        }
        if let (Some(known), Some(pages), Some(lost)) =
            (known, pages, report.table.and_then(|table| table.lost))
            && lost > 0
        {
            tell_lost(id, &known.pages, &pages.seen, &mut tell);
        }
        if let Some(bad) = report.table.map(|table| table.bad_blocks)
            && bad > 0
        {
            tell(format!("slice {id}: {bad} blocks are marked as lost"));
        }
        report
    });
    let reports: Vec<SliceReport> = reports.collect();
    // The node's notes are no slices.
    let is_shown = |slice: SliceId| only.map_or(slice.volume != NOTES, |only| only == slice);
    let shown = reports.into_iter().filter(|it| is_shown(it.slice));
    Some(shown.collect())
}

fn of_journal(known: &SurveyedSlice) -> SliceJournal {
    let recovered = &known.recovered;
    let blocks = known.redo_blocks.values();
    SliceJournal {
        partition: known.partition,
        epoch: recovered.prepared.0.0,
        prepared: recovered.prepared.1.0,
        committed: recovered.committed.0,
        intact: recovered.intact,
        tail_suspect: recovered.tail_suspect,
        pages: known.pages.len(),
        pages_certain: known.pages_certain,
        redo_changes: known.redo_changes,
        redo_blocks: blocks.map(|mask| u64::from(mask.count_ones())).sum(),
        commands: recovered.commands.len(),
        state_bytes: recovered.state.as_ref().map(holdfast_stdx::Bytes::len),
    }
}

fn of_table(pages: &SlicePages) -> SliceTable {
    SliceTable {
        pages: pages.pages,
        superseded: pages.superseded,
        bad_blocks: pages.bad_blocks,
        lost: None,
        left_over: None,
    }
}

/// Holds the pages in slots against those that the journal lists.
fn compare(
    known: Option<&SurveyedSlice>,
    pages: &SlicePages,
    all_devices: bool,
    table: &mut SliceTable,
) {
    let Some(known) = known else {
        // The slice was dropped.
        table.lost = Some(0);
        table.left_over = Some(pages.pages);
        return;
    };
    if !known.pages_certain {
        return;
    }
    let only_in = |these: &PageSet, those: &PageSet| {
        these.iter().filter(|page| !those.contains(*page)).count() as u64
    };
    table.left_over = Some(only_in(&pages.seen, &known.pages));
    table.lost = all_devices.then(|| only_in(&known.pages, &pages.seen));
}

/// Tells of pages that the journal lists and no slot holds, runs of them at once.
fn tell_lost(id: SliceId, listed: &PageSet, seen: &PageSet, tell: &mut impl FnMut(String)) {
    let mut run: Option<(u32, u32)> = None;
    let mut end = |run: &mut Option<(u32, u32)>| {
        if let Some((first, last)) = run.take() {
            tell(format!(
                "{} of slice {id}: in no slot",
                span("page", first.into(), last.into())
            ));
        }
    };
    for PageIndex(page) in listed.iter().filter(|page| !seen.contains(*page)) {
        match &mut run {
            Some((_, last)) if *last + 1 == page => *last = page,
            _ => {
                end(&mut run);
                run = Some((page, page));
            }
        }
    }
    end(&mut run);
}
