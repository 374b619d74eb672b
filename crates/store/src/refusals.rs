//! What is not done with devices, and why not.
//!
//! It refuses before anything is written.

use holdfast_format::device::SLOT_COUNT_MAX;
use holdfast_format::{DEVICES_MAX, DeviceState, JournalMark, Superblock};
use holdfast_model::PAGE_SIZE;

use crate::config::DeviceGeometry;
use crate::event::OpenError;
use crate::machine::Core;
use crate::members::Member;
use crate::order::DeviceRefused;
use crate::superblocks::{self, Copies};

/// The least that a device writes whole.
const SECTOR_MIN: usize = 512;

impl Core {
    /// Gives the number of slots that there will be fewer: none, unless another device is replaced.
    pub(crate) fn check_add(
        &self,
        geometry: &DeviceGeometry,
        replaces: Option<u16>,
        journal_room: bool,
    ) -> Result<u32, DeviceRefused> {
        let mut members = self.devices.members.iter();
        if members.any(|(other, _)| other.disk == geometry.disk) {
            return Err(DeviceRefused::InUse);
        }
        if !matches!(geometry.sector, 512 | 4096) {
            let sector = geometry.sector;
            return Err(DeviceRefused::BadSector { sector });
        }
        let list = self.devices.list();
        if list.devices.len() == DEVICES_MAX || list.next_ordinal == u16::MAX {
            return Err(DeviceRefused::TooMany);
        }
        let layout = self.plan_joining(geometry, replaces, journal_room)?;
        let end = list.next_slot.checked_add(layout.slot_count);
        if end.is_none_or(|end| end > SLOT_COUNT_MAX) {
            return Err(DeviceRefused::TooLarge);
        }
        match replaces {
            Some(ordinal) => {
                if layout.segment_count == 0 {
                    self.must_leave_journal(ordinal)?;
                }
                self.check_room(ordinal, layout.slot_count)
            }
            None => Ok(0),
        }
    }

    pub(crate) fn check_drain(&self, ordinal: u16) -> Result<u32, DeviceRefused> {
        if self.is_absent(ordinal) {
            return Err(DeviceRefused::Absent);
        }
        self.must_leave_journal(ordinal)?;
        self.check_room(ordinal, 0).map(|_| 0)
    }

    pub(crate) fn check_listed(&self, ordinal: u16) -> Result<u32, DeviceRefused> {
        let listed = self.devices.list().device(ordinal);
        listed.map_or(Err(DeviceRefused::Unknown { ordinal }), |_| Ok(0))
    }

    pub(crate) fn check_remove(&self, ordinal: u16, gives_up: bool) -> Result<u32, DeviceRefused> {
        if self.is_absent(ordinal) {
            let lacking = self.pages.lacking();
            let bytes = bytes_of(lacking);
            return match lacking {
                1.. if !gives_up => Err(DeviceRefused::Lacking { bytes }),
                _ => Ok(0),
            };
        }
        let (geometry, found) = self.member_of(ordinal)?;
        self.must_leave_journal(ordinal)?;
        let has_journal = self.mark_of(ordinal) == JournalMark::Here;
        let journal = if has_journal {
            found.layout.journal_bytes()
        } else {
            0
        };
        let bytes = bytes_of(self.pages.used_slots(geometry.disk)) + journal;
        if bytes > 0 {
            return Err(DeviceRefused::NotEmpty { bytes });
        }
        self.check_room(ordinal, 0)?;
        Ok(0)
    }

    /// Refuses to let a device go that the journal needs. One without room for it never is.
    fn must_leave_journal(&self, ordinal: u16) -> Result<(), DeviceRefused> {
        let has_room = self.mark_of(ordinal) != JournalMark::None;
        match has_room && self.is_needed_for_journal(ordinal) {
            true => Err(DeviceRefused::Journal),
            false => Ok(()),
        }
    }

    fn member_of(&self, ordinal: u16) -> Result<&Member, DeviceRefused> {
        let member = self.devices.member(ordinal);
        member.ok_or(DeviceRefused::Unknown { ordinal })
    }

    /// Whether all pages have room without the device, if so many slots are added, and one more: a store that takes nothing
    /// is of no use. Gives the number of slots that there will be fewer.
    pub(crate) fn check_room(&self, ordinal: u16, added: u32) -> Result<u32, DeviceRefused> {
        if self.is_absent(ordinal) {
            return Ok(0);
        }
        let (geometry, found) = self.member_of(ordinal)?;
        if self.state_of(ordinal) != DeviceState::InUse {
            return Ok(0);
        }
        let used = self.pages.used_slots(geometry.disk);
        let free_here = found.layout.slot_count - used;
        let free = (self.pages.free_slots() + added).saturating_sub(free_here);
        let needed = (self.reserved + self.pages.pages_to_move() + used).max(1);
        if needed > free {
            return Err(DeviceRefused::NoRoom {
                bytes: bytes_of(needed),
                bytes_free: bytes_of(free),
            });
        }
        Ok(found.layout.slot_count.saturating_sub(added))
    }
}

fn bytes_of(pages: u32) -> u64 {
    u64::from(pages) * PAGE_SIZE as u64
}

pub(crate) fn too_small(error: OpenError) -> DeviceRefused {
    match error {
        OpenError::TooSmall {
            bytes, bytes_min, ..
        } => DeviceRefused::TooSmall { bytes, bytes_min },
        other => unreachable!("a device is only ever too small for a layout: {other}"),
    }
}

/// Refuses a device that holds anything, but what has left this store or was never quite added to it.
/// `joining` is what it is about to get.
pub(crate) fn may_join(
    geometry: &DeviceGeometry,
    copies: &Copies,
    first: &Superblock,
    joining: &Superblock,
) -> Result<(), DeviceRefused> {
    let was_ours = |found: &Superblock| {
        (found.cluster, found.store, found.nonce) == (first.cluster, first.store, first.nonce)
            && !found.is_of_version_1()
            && found.list.generation <= first.list.generation
            && found.use_counter <= first.use_counter
            && first.list.device_of_id(found.device_id).is_none()
    };
    match superblocks::newest(geometry, copies) {
        Ok(found) if was_ours(&found) => Ok(()),
        _ if is_left_by_adding(copies, joining) => Ok(()),
        _ => superblocks::must_be_blank(geometry, copies).map_err(|error| match error {
            OpenError::NotBlank { owner, .. } => DeviceRefused::NotBlank { owner },
            _ => DeviceRefused::Failed,
        }),
    }
}

/// Whether a device holds nothing but a part of the first copy of such a superblock, as an order to add it
/// leaves that was cut short in the first of its writes: sector by sector either nothing, or what the
/// same order would write now, but for what changes with every start.
fn is_left_by_adding(copies: &Copies, joining: &Superblock) -> bool {
    let [Some(Ok(first)), Some(Ok(second))] = copies else {
        return false;
    };
    let expected = joining.encode();
    first.len() == expected.len()
        && is_zero(second)
        && first
            .chunks(SECTOR_MIN)
            .zip(expected.chunks(SECTOR_MIN))
            .zip((0..).step_by(SECTOR_MIN))
            .all(|((found, wanted), offset)| {
                let bytes = found.iter().zip(wanted).zip(offset..);
                let mut differing = bytes.filter(|((found, wanted), _)| found != wanted);
                is_zero(found) || differing.all(|(_, at)| Superblock::changes_at(at))
            })
}

fn is_zero(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == 0)
}
