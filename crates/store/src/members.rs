//! Which of the devices that are given are those of the store, and whether they are all there.
//!
//! Invariants:
//! - the list on the device with the journal says which devices the store has; a store of version 1 has
//!   no list, and all that are given must be its own;
//! - of two devices that say of themselves that they have the journal, the one with the newer list has it; while it
//!   is about to move, both are needed to tell;
//! - a store is opened with devices of the list only, and no other is written to;
//! - a device that was missing is taken back only if it is as it was then, and if no device is away that was
//!   there later; one that has failed never is.

use alloc::vec::Vec;

use holdfast_format::{JournalMark, Superblock, USE_COUNTER_MAX};
use holdfast_journal::Journal;
use holdfast_model::DiskId;

use crate::config::DeviceGeometry;
use crate::event::{Expected, OpenError, Stray, StrayDevice};

/// A device with what its superblock says.
pub(crate) type Member = (DeviceGeometry, Superblock);

/// A device with what was found in the place of its superblock.
pub(crate) type Found = (DeviceGeometry, Result<Superblock, OpenError>);

/// The devices that were given.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Members {
    /// Those of the store: the one with the journal, then the others in the order of their ordinals.
    pub(crate) devices: Vec<Member>,
    /// The others.
    pub(crate) strays: Vec<StrayDevice>,
    /// The numbers of those that are missing, and were there at the last use.
    pub(crate) missing: Vec<u16>,
    /// The numbers of those that are there again.
    pub(crate) back: Vec<u16>,
}

/// Tells the store's devices from others.
///
/// # Errors
/// [`OpenError`] if the store cannot be opened with these devices.
pub(crate) fn choose(found: Vec<Found>, expected: &Expected) -> Result<Members, OpenError> {
    // What a newer program has written is not missing.
    let is_newer = |found: &Found| matches!(found.1, Err(OpenError::NewerVersion { .. }));
    if let Some((_, Err(newer))) = found.iter().find(|found| is_newer(found)) {
        return Err(*newer);
    }
    let Some(journal) = journal_of(&found) else {
        return Err(without_journal(found));
    };
    let (device, first) = &journal;
    let is_expected = expected.cluster.is_none_or(|id| id == first.cluster)
        && expected.store.is_none_or(|id| id == first.store)
        && expected.node.is_none_or(|id| id == first.node);
    if !is_expected {
        return Err(foreign(device.disk, first));
    }
    let mut members = Members {
        devices: Vec::new(),
        strays: Vec::new(),
        missing: Vec::new(),
        back: Vec::new(),
    };
    let mut problem = None;
    for (geometry, superblock) in found {
        match place_of(&geometry, superblock, &journal)? {
            Ok(superblock) => members.devices.push((geometry, superblock)),
            Err((stray, error)) if first.is_of_version_1() || stray.is_none() => {
                return Err(error);
            }
            Err((stray, error)) => {
                let disk = geometry.disk;
                members
                    .strays
                    .extend(stray.map(|stray| StrayDevice { disk, stray }));
                problem.get_or_insert(error);
            }
        }
    }
    members
        .devices
        .sort_by_key(|device| place_in_order(device, first));
    let missing = missing(&members.devices, first);
    members.missing = missing.map_err(|missing| problem.unwrap_or(missing))?;
    members.take_back(first);
    for (geometry, superblock) in &members.devices {
        must_be_as_then(geometry, superblock)?;
    }
    must_agree(&members.devices, first)?;
    must_be_newest(&members.devices)?;
    Ok(members)
}

/// The device with the journal comes first, the others follow by their numbers.
pub(crate) fn place_in_order((_, found): &Member, first: &Superblock) -> (bool, u16) {
    (found.ordinal != first.ordinal, found.ordinal)
}

/// The last use of the store that has begun.
pub(crate) fn last_use(first: &Superblock) -> u64 {
    first.use_counter - u64::from(first.claimed)
}

impl Members {
    /// Tells devices that were missing and can be used again from those that cannot.
    fn take_back(&mut self, first: &Superblock) {
        let absence = |ordinal: u16| first.list.device(ordinal).and_then(|it| it.absent);
        let (mut back, mut others): (Vec<Member>, Vec<Member>) = core::mem::take(&mut self.devices)
            .into_iter()
            .partition(|(_, found)| absence(found.ordinal).is_some());
        // Those that are there later than another may be what that one needs, or be refused themselves.
        loop {
            let is_here = |ordinal: u16| {
                let mut here = back.iter().chain(&others);
                here.any(|(_, found)| found.ordinal == ordinal)
            };
            let away = first.list.devices.iter();
            let away = away.filter(|device| !is_here(device.ordinal));
            let latest = away
                .map(|device| device.absent.map_or(last_use(first), |it| it.last_use))
                .max();
            let refused = back.iter().position(|(_, found)| {
                let absence = absence(found.ordinal).expect("it was away");
                absence.is_lost
                    || !is_as_left(found, absence.last_use, first)
                    || latest > Some(absence.last_use)
            });
            let Some(place) = refused else { break };
            let (geometry, found) = back.remove(place);
            let is_lost = absence(found.ordinal).is_some_and(|it| it.is_lost);
            let stray = if is_lost { Stray::Failed } else { Stray::Older };
            let disk = geometry.disk;
            self.strays.push(StrayDevice { disk, stray });
        }
        self.back = back.iter().map(|(_, found)| found.ordinal).collect();
        others.append(&mut back);
        others.sort_by_key(|device| place_in_order(device, first));
        self.devices = others;
    }
}

/// Whether a device is as it was when it was last used, in a use that the store went on from without it.
fn is_as_left(found: &Superblock, last_use: u64, first: &Superblock) -> bool {
    let id = |of: &Superblock| of.use_ids.of(last_use, of.use_counter);
    let is_same = match (id(found), id(first)) {
        (Some(here), Some(there)) => here == there,
        _ => true,
    };
    // It may have heard of a use that was announced, and in which nothing was done before it was missing; or of
    // later ones, in which it was to be taken back, and was not: then it says itself that it is absent.
    let itself = found.list.device(found.ordinal).and_then(|it| it.absent);
    let is_taken_back = itself.is_some_and(|it| it.last_use == last_use);
    let is_last = found.use_counter == last_use || found.use_counter == last_use + 1;
    is_same && (is_last || is_taken_back)
}

/// The device with the journal: of those of one store that say that they have it, the one with the newest list. Where
/// there are two, of different stores, the second is foreign.
fn journal_of(found: &[Found]) -> Option<Member> {
    let mut newest: Option<(&DeviceGeometry, &Superblock)> = None;
    for (geometry, found) in found {
        let Ok(found) = found else { continue };
        let is_newer = newest.is_none_or(|(_, newest)| {
            is_of_same_store(found, newest) && found.list.generation > newest.list.generation
        });
        if found.has_journal() && is_newer {
            newest = Some((geometry, found));
        }
    }
    newest.map(|(geometry, found)| (*geometry, found.clone()))
}

fn is_of_same_store(one: &Superblock, other: &Superblock) -> bool {
    one.cluster == other.cluster
        && one.store == other.store
        && one.nonce == other.nonce
        && one.node == other.node
}

/// Why there is no store where there is no device with a journal.
fn without_journal(found: Vec<Found>) -> OpenError {
    let mut all = Vec::new();
    for (geometry, superblock) in found {
        match superblock {
            Err(error) => return error,
            Ok(superblock) => all.push((geometry, superblock)),
        }
    }
    let counts = all.iter().map(|(_, found)| found.device_count);
    let count = counts.max().unwrap_or(0);
    let newest = all.iter().max_by_key(|(_, found)| found.list.generation);
    let journal = newest.and_then(|(_, newest)| Some((newest, newest.list.journal()?)));
    let Some((newest, journal)) = journal else {
        return OpenError::MissingDevice { ordinal: 0, count };
    };
    // The device that got the journal does not know of that.
    let is_older =
        |(_, found): &&Member| found.device_id == journal.id && is_of_same_store(found, newest);
    match all.iter().find(is_older) {
        Some((device, found)) => OpenError::OlderDevice {
            disk: device.disk,
            known: found.use_counter,
            start: newest.use_counter,
        },
        None => {
            let ordinal = journal.ordinal;
            OpenError::MissingDevice { ordinal, count }
        }
    }
}

fn foreign(disk: DiskId, found: &Superblock) -> OpenError {
    OpenError::Foreign {
        disk,
        cluster: found.cluster,
        store: found.store,
        node: found.node,
    }
}

/// Whether a device is the store's: its superblock; or else what it is, and what is said of it where
/// one of the store's own is missing.
///
/// # Errors
/// That the device with the journal is an older copy of itself.
fn place_of(
    geometry: &DeviceGeometry,
    superblock: Result<Superblock, OpenError>,
    journal: &Member,
) -> Result<Result<Superblock, (Option<Stray>, OpenError)>, OpenError> {
    let disk = geometry.disk;
    let (_, first) = journal;
    let found = match superblock {
        Ok(found) => found,
        Err(error @ OpenError::Blank { .. }) => return Ok(Err((Some(Stray::Blank), error))),
        Err(error) => return Ok(Err((Some(Stray::Unreadable), error))),
    };
    if !is_of_same_store(&found, first) {
        // A second journal: which of the two stores is meant is not ours to guess.
        let stray = (!found.has_journal()).then_some(Stray::Foreign);
        return Ok(Err((stray, foreign(disk, &found))));
    }
    if found.list.generation > first.list.generation {
        return Err(is_later(&(*geometry, found), journal));
    }
    let is_listed = if first.is_of_version_1() || found.is_of_version_1() {
        found.device_count == first.device_count || first.list.device(found.ordinal).is_some()
    } else {
        first.list.device_of_id(found.device_id).is_some()
    };
    if is_listed {
        return Ok(Ok(found));
    }
    // The store went on without it, so it has seen no later use than the others; but for one that has left the store since the device
    // with the journal was brought back from before: it was passed over until then, and the list has its number no more.
    let mut listed = first.list.devices.iter();
    let has_left = found.ordinal < first.list.next_ordinal
        && !first.is_of_version_1()
        && !listed.any(|device| device.ordinal == found.ordinal);
    if found.use_counter > first.use_counter && !has_left {
        return Err(is_later(&(*geometry, found), journal));
    }
    let stray = if found.is_joining() {
        Stray::Joining
    } else {
        Stray::Gone
    };
    let missing = OpenError::NotListed { disk };
    Ok(Err((Some(stray), missing)))
}

/// The devices that are missing now, and were not before.
///
/// # Errors
/// The store cannot be opened: the device with the journal is missing, or the one that may have it by now; or one is
/// there twice.
fn missing(devices: &[Member], first: &Superblock) -> Result<Vec<u16>, OpenError> {
    let mut missing = Vec::new();
    let count = first.device_count;
    let next = first.list.next_journal().map(|device| device.ordinal);
    let numbers: Vec<u16> = if first.is_of_version_1() {
        (0..count).collect()
    } else {
        let listed = first.list.devices.iter();
        listed.map(|device| device.ordinal).collect()
    };
    for ordinal in numbers {
        let there = devices.iter().filter(|(_, found)| found.ordinal == ordinal);
        let may_be_missing =
            ordinal != first.ordinal && Some(ordinal) != next && !first.is_of_version_1();
        match there.count() {
            1 => {}
            0 if may_be_missing => {
                let listed = first.list.device(ordinal);
                if listed.is_some_and(|listed| listed.absent.is_none()) {
                    missing.push(ordinal);
                }
            }
            _ => return Err(OpenError::MissingDevice { ordinal, count }),
        }
    }
    Ok(missing)
}

fn must_be_as_then(device: &DeviceGeometry, found: &Superblock) -> Result<(), OpenError> {
    if device.bytes < found.device_bytes {
        return Err(OpenError::Shrunk {
            disk: device.disk,
            bytes: device.bytes,
            bytes_then: found.device_bytes,
        });
    }
    if device.sector > found.sector {
        return Err(OpenError::LargerSector {
            disk: device.disk,
            sector: device.sector,
            sector_then: found.sector,
        });
    }
    Ok(())
}

/// Refuses superblocks that are each sound, and together not what was planned.
fn must_agree(devices: &[Member], first: &Superblock) -> Result<(), OpenError> {
    let mut slots = 0;
    for (_, found) in devices {
        let journal_sound = if mark_of(found, first) == JournalMark::None {
            found.layout.segment_count == 0
        } else {
            Journal::is_large_enough(found.layout.segment_count, found.partitions)
        };
        // Two lists of one generation say different things.
        let is_second = found.has_journal()
            && found.ordinal != first.ordinal
            && found.list.generation == first.list.generation;
        let slots_sound = match first.list.device(found.ordinal) {
            Some(listed) => {
                listed.slot_base == found.slot_base && listed.slot_count == found.layout.slot_count
            }
            None => found.slot_base == slots,
        };
        if !slots_sound || !journal_sound || is_second {
            return Err(OpenError::Contradiction);
        }
        if found.use_counter >= USE_COUNTER_MAX {
            return Err(OpenError::UsedUp);
        }
        // Each is checked to end within the numbers that there are.
        slots += found.layout.slot_count;
    }
    Ok(())
}

/// What a device has to do with the journal, as the list says.
fn mark_of(found: &Superblock, first: &Superblock) -> JournalMark {
    let listed = first.list.device(found.ordinal);
    let unmarked = || JournalMark::unmarked(found.ordinal);
    listed.map_or_else(unmarked, |listed| listed.journal)
}

/// Refuses a device that is an older copy of itself, or shows that the journal's is one. The number of an opening is announced where the
/// journal is, then written to all other devices, and only then counts: so these have the journal's
/// number, or while it is announced the one before.
fn must_be_newest(devices: &[Member]) -> Result<(), OpenError> {
    let journal = devices.first().expect("all devices are there");
    let (_, first) = journal;
    let newest = first.use_counter;
    let oldest = last_use(first);
    for device in devices {
        let (geometry, found) = device;
        // That of one which is there again was compared with when it was last there.
        let listed = first.list.device(found.ordinal);
        let was_absent = listed.is_some_and(|listed| listed.absent.is_some());
        if found.use_counter > newest {
            return Err(is_later(device, journal));
        }
        if found.use_counter < oldest && !was_absent {
            return Err(OpenError::OlderDevice {
                disk: geometry.disk,
                known: found.use_counter,
                start: oldest,
            });
        }
    }
    Ok(())
}

/// The error for a device that knows of what the one taken for the journal's has missed. If the journal is elsewhere
/// by what it knows, nothing on it is to be given up: the other one is no journal any more.
fn is_later(later: &Member, journal: &Member) -> OpenError {
    let ((device, found), (first_device, first)) = (later, journal);
    let (known, start) = (first.use_counter, found.use_counter);
    let listed = found.list.journal();
    if listed.is_some_and(|listed| listed.id != first.device_id) {
        let disk = first_device.disk;
        return OpenError::OlderDevice { disk, known, start };
    }
    let disk = device.disk;
    OpenError::LaterDevice { disk, known, start }
}

/// The number of the opening that comes next. One that was announced, and did not come about, is
/// announced again.
pub(crate) fn next_use(first: &Superblock) -> u64 {
    first.use_counter + u64::from(!first.claimed)
}
