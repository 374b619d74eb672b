//! Superblocks of a whole store: planned for a new one, put together for one that exists.

use alloc::vec;
use alloc::vec::Vec;

use holdfast_format::device::{SEGMENT_BYTES_MAX, SEGMENT_BYTES_MIN};
use holdfast_format::{
    DeviceLayout, DeviceRole, FORMAT_VERSION, SUPERBLOCK_BYTES, SUPERBLOCK_OFFSETS, Superblock,
    SuperblockError, USE_COUNTER_MAX, UseIds,
};
use holdfast_journal::Journal;
use holdfast_model::{BLOCK_SIZE, DiskError, DiskId, ENTRY_BYTES_MAX, Tier};
use holdfast_stdx::Bytes;

use crate::config::{DeviceGeometry, FormatConfig, StoreConfig, StoreIdentity};
use crate::event::{Expected, OpenError};

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

/// The superblocks of a new store: the journal on the first flash device, slots numbered over all.
pub(crate) fn plan(
    config: &FormatConfig,
    identity: &StoreIdentity,
    devices: &[DeviceGeometry],
) -> Result<Vec<Superblock>, OpenError> {
    let journal = devices
        .iter()
        .position(|device| device.tier == Tier::Flash)
        .ok_or(OpenError::NoFlashDevice)?;
    let mut order: Vec<usize> = (0..devices.len()).collect();
    order.retain(|index| *index != journal);
    order.insert(0, journal);
    let mut planned: Vec<Option<Superblock>> = vec![None; devices.len()];
    let mut slot_base = 0_u32;
    for (ordinal, index) in order.into_iter().enumerate() {
        let device = &devices[index];
        let layout = if ordinal == 0 {
            plan_with_journal(config, device)?
        } else {
            plan_in_role(device, DeviceRole::Pages)?
        };
        planned[index] = Some(Superblock {
            update: 1,
            cluster: identity.cluster,
            store: identity.store,
            nonce: identity.nonce,
            use_counter: 0,
            use_ids: UseIds::NONE,
            claimed: false,
            node: identity.node,
            ordinal: ordinal as u16,
            device_count: devices.len() as u16,
            tier: device.tier,
            sector: device.sector,
            partitions: config.partitions,
            device_bytes: device.bytes,
            slot_base,
            layout,
        });
        slot_base = slot_base
            .checked_add(layout.slot_count)
            .ok_or(OpenError::TooLarge)?;
    }
    Ok(planned.into_iter().flatten().collect())
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

fn plan_in_role(device: &DeviceGeometry, role: DeviceRole) -> Result<DeviceLayout, OpenError> {
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
                    if best.is_none_or(|best| best.update < found.update) {
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

/// Bytes that a segment needs to carry every change: a record carries half of one at most
/// ([`Journal::record_data_max`]).
fn segment_bytes_min(config: &StoreConfig) -> usize {
    2 * config.change_bytes_max
}

/// Refuses a store whose journal could not take every change.
pub(crate) fn must_carry(
    config: &StoreConfig,
    devices: &[(DeviceGeometry, Superblock)],
) -> Result<(), OpenError> {
    let journal = devices.iter().find(|(_, found)| found.ordinal == 0);
    let (device, found) = journal.expect("all devices are there");
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

/// Refuses devices that are not all those of the store that is expected.
pub(crate) fn must_belong(
    devices: &[(DeviceGeometry, Superblock)],
    expected: &Expected,
) -> Result<(), OpenError> {
    let (_, first) = devices.first().expect("there is a device");
    for (device, found) in devices {
        let same = found.cluster == first.cluster
            && found.store == first.store
            && found.nonce == first.nonce
            && found.node == first.node
            && found.device_count == first.device_count;
        let as_expected = expected.cluster.is_none_or(|id| id == found.cluster)
            && expected.store.is_none_or(|id| id == found.store)
            && expected.node.is_none_or(|id| id == found.node);
        if !same || !as_expected {
            return Err(OpenError::Foreign {
                disk: device.disk,
                cluster: found.cluster,
                store: found.store,
                node: found.node,
            });
        }
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
    }
    let count = first.device_count;
    for ordinal in 0..count {
        let there = devices
            .iter()
            .filter(|(_, found)| found.ordinal == ordinal)
            .count();
        if there != 1 {
            return Err(OpenError::MissingDevice { ordinal, count });
        }
    }
    must_agree(devices)?;
    must_be_newest(devices)
}

/// Refuses a device that is an older copy of itself. The number of an opening is announced where the
/// journal is, then written to all other devices, and only then counts: so these have the journal's
/// number, or while it is announced the one before.
fn must_be_newest(devices: &[(DeviceGeometry, Superblock)]) -> Result<(), OpenError> {
    let (journal, first) = devices
        .iter()
        .find(|(_, found)| found.ordinal == 0)
        .expect("all devices are there");
    let newest = first.use_counter;
    let oldest = newest.saturating_sub(u64::from(first.claimed));
    for (device, found) in devices {
        let (disk, known, start) = if found.use_counter > newest {
            (journal.disk, newest, found.use_counter)
        } else if found.use_counter < oldest {
            (device.disk, found.use_counter, oldest)
        } else {
            continue;
        };
        return Err(OpenError::OlderDevice { disk, known, start });
    }
    Ok(())
}

/// The number of the opening that comes next. One that was announced, and did not come about, is
/// announced again.
pub(crate) fn next_use(superblocks: &[Superblock]) -> u64 {
    let first = superblocks.iter().find(|found| found.ordinal == 0);
    let first = first.expect("all devices are there");
    first.use_counter + u64::from(!first.claimed)
}

/// Refuses superblocks that are each sound, and together not what was planned.
fn must_agree(devices: &[(DeviceGeometry, Superblock)]) -> Result<(), OpenError> {
    let mut slots = 0;
    for ordinal in 0..devices.len() as u16 {
        let (_, found) = devices
            .iter()
            .find(|(_, found)| found.ordinal == ordinal)
            .expect("all devices are there");
        let journal_sound = if ordinal == 0 {
            Journal::is_large_enough(found.layout.segment_count, found.partitions)
        } else {
            found.layout.segment_count == 0
        };
        if found.slot_base != slots || !journal_sound {
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

#[cfg(test)]
#[path = "superblocks_tests.rs"]
mod tests;
