//! Superblocks of a whole store: planned for a new one, read for one that exists.

use alloc::vec::Vec;

use holdfast_format::device::{SEGMENT_BYTES_MAX, SEGMENT_BYTES_MIN};
use holdfast_format::{
    DEVICES_MAX, DeviceLayout, DeviceList, DeviceRole, FORMAT_VERSION, SUPERBLOCK_BYTES,
    SUPERBLOCK_OFFSETS, Superblock, SuperblockError, TooManyDevices, UseIds,
};
use holdfast_journal::Journal;
use holdfast_model::{BLOCK_SIZE, DiskError, DiskId, ENTRY_BYTES_MAX, Tier};
use holdfast_stdx::{Bytes, Prng};

use crate::config::{DeviceGeometry, FormatConfig, StoreConfig, StoreIdentity};
use crate::event::OpenError;
use crate::members::Member;

const PARTITIONS_MAX: u16 = 64;

/// What was read at the two places of a device's superblock.
pub(crate) type Copies = [Option<Result<Bytes, DiskError>>; 2];

/// Refuses devices and configurations that cannot work, before anything is read.
pub(crate) fn check(
    config: &StoreConfig,
    devices: &[DeviceGeometry],
    create: bool,
) -> Result<(), OpenError> {
    for device in devices {
        if !matches!(device.sector, 512 | 4096) {
            return Err(OpenError::BadSector {
                disk: device.disk,
                sector: device.sector,
            });
        }
    }
    if create && !devices.iter().any(|device| device.tier == Tier::Flash) {
        return Err(OpenError::NoFlashDevice);
    }
    if devices.is_empty() {
        return Err(OpenError::NoFlashDevice);
    }
    if create && devices.len() > DEVICES_MAX {
        return Err(OpenError::TooManyDevices);
    }
    let FormatConfig {
        partitions,
        segment_bytes,
        ..
    } = config.format;
    let sound = config.requests_max > 0
        && (1..=PARTITIONS_MAX).contains(&partitions)
        && (SEGMENT_BYTES_MIN..=SEGMENT_BYTES_MAX).contains(&segment_bytes)
        && (segment_bytes as usize).is_multiple_of(BLOCK_SIZE)
        && (BLOCK_SIZE..=ENTRY_BYTES_MAX).contains(&config.change_bytes_max)
        && segment_bytes_min(config) <= segment_bytes as usize;
    if sound {
        Ok(())
    } else {
        Err(OpenError::BadConfig)
    }
}

/// The superblocks of a new store, in the order of their ordinals, each with its device: the journal on
/// the first flash device, slots numbered over all. The devices' ids are drawn from `seed`.
pub(crate) fn plan(
    config: &FormatConfig,
    identity: &StoreIdentity,
    devices: &[DeviceGeometry],
    seed: u64,
) -> Result<Vec<Member>, OpenError> {
    let journal = devices
        .iter()
        .position(|device| device.tier == Tier::Flash)
        .ok_or(OpenError::NoFlashDevice)?;
    let mut order: Vec<usize> = (0..devices.len()).collect();
    order.retain(|index| *index != journal);
    order.insert(0, journal);
    let mut planned: Vec<Member> = Vec::new();
    let mut slot_base = 0_u32;
    for (ordinal, index) in order.into_iter().enumerate() {
        let device = &devices[index];
        let layout = if ordinal == 0 {
            plan_with_journal(config, device)?
        } else {
            plan_in_role(device, DeviceRole::Pages)?
        };
        let superblock = Superblock {
            update: 1,
            cluster: identity.cluster,
            store: identity.store,
            nonce: identity.nonce,
            use_counter: 0,
            use_ids: UseIds::NONE,
            claimed: false,
            node: identity.node,
            ordinal: ordinal as u16,
            device_id: 0,
            device_count: devices.len() as u16,
            list: DeviceList::NONE,
            places: false,
            tier: device.tier,
            sector: device.sector,
            partitions: config.partitions,
            device_bytes: device.bytes,
            slot_base,
            layout,
        };
        planned.push((*device, superblock));
        slot_base = slot_base
            .checked_add(layout.slot_count)
            .ok_or(OpenError::TooLarge)?;
    }
    adopt(&mut planned, seed)?;
    Ok(planned)
}

/// Gives every device of a store, which are in the order of their ordinals, the list that is on the first;
/// and all of them one where there is none yet, with ids that are drawn from `seed`.
pub(crate) fn adopt(devices: &mut [Member], seed: u64) -> Result<(), OpenError> {
    let mut prng = Prng::from_seed(seed);
    let mut superblocks: Vec<&mut Superblock> =
        devices.iter_mut().map(|(_, found)| found).collect();
    Superblock::upgrade(&mut superblocks, || prng.next_u64())
        .map_err(|TooManyDevices| OpenError::TooManyDevices)
}

/// Divides the device that carries the journal: a journal of the size asked for, or else of the
/// usual share, but no smaller than its partitions need.
fn plan_with_journal(
    config: &FormatConfig,
    device: &DeviceGeometry,
) -> Result<DeviceLayout, OpenError> {
    let segment_bytes = config.segment_bytes;
    let bytes_min =
        u64::from(Journal::segment_count_min(config.partitions)) * u64::from(segment_bytes);
    if let Some(bytes) = config.journal_bytes
        && bytes < bytes_min
    {
        return Err(OpenError::JournalTooSmall { bytes, bytes_min });
    }
    let plan = |journal_bytes| {
        let role = DeviceRole::Journal {
            segment_bytes,
            journal_bytes,
        };
        plan_in_role(device, role)
    };
    match plan(config.journal_bytes) {
        Ok(layout) if Journal::is_large_enough(layout.segment_count, config.partitions) => {
            Ok(layout)
        }
        // The share is too small, or leaves no room for a single page.
        _ if config.journal_bytes.is_none() => plan(Some(bytes_min)),
        refused => refused,
    }
}

/// Bytes that a store's first device needs at least, in a format.
#[must_use]
pub fn device_bytes_min(config: &FormatConfig) -> u64 {
    let nothing = DeviceGeometry {
        disk: DiskId(0),
        bytes: 0,
        sector: 4096,
        tier: Tier::Flash,
    };
    match plan_with_journal(config, &nothing) {
        Err(OpenError::TooSmall { bytes_min, .. }) => bytes_min,
        other => unreachable!("nothing is too small for a store: {other:?}"),
    }
}

pub(crate) fn plan_in_role(
    device: &DeviceGeometry,
    role: DeviceRole,
) -> Result<DeviceLayout, OpenError> {
    DeviceLayout::plan(device.bytes, role).map_err(|error| OpenError::TooSmall {
        disk: device.disk,
        bytes: device.bytes,
        bytes_min: error.bytes_min,
    })
}

/// Whether copy `copy` of a superblock lies beyond the device's end. There is nothing then, however
/// the read ended.
fn is_beyond_end(device: &DeviceGeometry, copy: usize) -> bool {
    SUPERBLOCK_OFFSETS[copy] + SUPERBLOCK_BYTES as u64 > device.bytes
}

/// Refuses a device that holds anything, for a store is created only where nothing is lost.
pub(crate) fn must_be_blank(device: &DeviceGeometry, copies: &Copies) -> Result<(), OpenError> {
    let disk = device.disk;
    for (copy, read) in copies.iter().enumerate() {
        let bytes = match read.as_ref().expect("both places were read") {
            Ok(bytes) => bytes,
            // How large it would have to be is said when the store is planned.
            Err(_) if is_beyond_end(device, copy) => continue,
            Err(_) => return Err(OpenError::DeviceFailed { disk }),
        };
        let owner = match Superblock::decode(bytes) {
            Err(SuperblockError::Blank) => continue,
            Ok(found) => Some((found.cluster, found.store, found.node)),
            Err(_) => None,
        };
        return Err(OpenError::NotBlank { disk, owner });
    }
    Ok(())
}

/// The newer of a device's two superblocks.
pub(crate) fn newest(device: &DeviceGeometry, copies: &Copies) -> Result<Superblock, OpenError> {
    let disk = device.disk;
    let mut best: Option<Superblock> = None;
    let mut blank = 0;
    let mut failed = 0;
    for (copy, read) in copies.iter().enumerate() {
        match read.as_ref().expect("both places were read") {
            Err(_) if is_beyond_end(device, copy) => blank += 1,
            Err(_) => failed += 1,
            Ok(bytes) => match Superblock::decode(bytes) {
                Ok(found) => {
                    if best.as_ref().is_none_or(|best| best.update < found.update) {
                        best = Some(found);
                    }
                }
                Err(SuperblockError::NewerVersion(version)) => {
                    return Err(OpenError::NewerVersion {
                        disk,
                        version,
                        known: FORMAT_VERSION,
                    });
                }
                Err(SuperblockError::Blank) => blank += 1,
                Err(_) => {}
            },
        }
    }
    match best {
        Some(found) => Ok(found),
        None if blank == copies.len() => Err(OpenError::Blank { disk }),
        None if failed == copies.len() => Err(OpenError::DeviceFailed { disk }),
        None => Err(OpenError::BadSuperblocks { disk }),
    }
}

/// The copy that is written first: not the one that counts now. A write that is torn leaves that one, whatever
/// has become of the other since it was written.
pub(crate) fn written_first(copies: &Copies) -> usize {
    let update = |copy: usize| {
        let bytes = copies[copy].as_ref()?.as_ref().ok()?;
        let found = Superblock::decode(bytes).ok()?;
        Some(found.update)
    };
    usize::from(update(0) > update(1))
}

/// Bytes that a segment needs to carry every change: a record carries half of one at most
/// ([`Journal::record_data_max`]).
fn segment_bytes_min(config: &StoreConfig) -> usize {
    2 * config.change_bytes_max
}

/// Refuses a store whose journal, which is on this device, could not take every change.
pub(crate) fn must_carry(config: &StoreConfig, (device, found): &Member) -> Result<(), OpenError> {
    let (bytes, bytes_min) = (found.layout.segment_bytes, segment_bytes_min(config));
    if (bytes as usize) < bytes_min {
        return Err(OpenError::SmallSegments {
            disk: device.disk,
            bytes,
            bytes_min,
        });
    }
    Ok(())
}

#[cfg(test)]
#[path = "superblocks_tests.rs"]
mod tests;
