//! The list of a store's devices, which is in every superblock.
//!
//! Invariants:
//! - ids, numbers (ordinals) and numbers of slots are given out once in the life of a store, so that
//!   what an entry of a page table or of the list says never comes to mean something else;
//! - one device has the journal, and is there; at most one other is about to get it;
//! - every change raises the generation; the list on the device with the journal counts, and is
//!   written there before it is written to any other device of the store;
//! - entries are in the order of their ordinals, which is that of their slots.

use alloc::vec::Vec;
use core::mem::{offset_of, size_of};

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::device::SLOT_COUNT_MAX;
use crate::superblock::USE_COUNTER_MAX;

/// Devices of a store at most: as many as are in the superblock.
pub const DEVICES_MAX: usize = 128;

/// An entry's bytes.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct ListedBytes {
    pub(crate) id: U64,
    pub(crate) slot_base: U32,
    pub(crate) slot_count: U32,
    pub(crate) ordinal: U16,
    pub(crate) state: u8,
    pub(crate) absent: u8,
    /// The lowest 24 bits: a use's number has no more.
    pub(crate) last_use: [u8; 3],
    pub(crate) journal: u8,
}

const _: () = assert!(size_of::<ListedBytes>() == 24);
const _: () = assert!(offset_of!(ListedBytes, absent) == 19);
const _: () = assert!(offset_of!(ListedBytes, journal) == 23);

impl ListedBytes {
    pub(crate) const NONE: Self = Self {
        id: U64::ZERO,
        slot_base: U32::ZERO,
        slot_count: U32::ZERO,
        ordinal: U16::ZERO,
        state: 0,
        absent: 0,
        last_use: [0; 3],
        journal: 0,
    };
}

/// What is done with a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceState {
    /// It takes pages.
    InUse,
    /// It takes no pages any more, and those that it has go to others.
    Draining,
    /// The same, and when it has none left it leaves the store by itself.
    Leaving,
}

/// A device that the store has, and is used without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Absence {
    /// Whether it has failed: then it is never used again.
    pub is_lost: bool,
    /// The last use of the store in which it took part, wholly or until it failed.
    pub last_use: u64,
}

/// What a device has to do with the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JournalMark {
    /// Nothing: there is no room for it.
    None,
    /// There is room for it.
    Room,
    /// It is about to be here, or was until just now: which of the two devices has it, their own lists say.
    Next,
    /// It is here.
    Here,
}

impl JournalMark {
    /// What a list without marks says of the device of this number.
    #[must_use]
    pub fn unmarked(ordinal: u16) -> Self {
        match ordinal {
            0 => Self::Here,
            _ => Self::None,
        }
    }
}

/// A device of the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListedDevice {
    /// Drawn at random when it was added, not 0.
    pub id: u64,
    /// Its number.
    pub ordinal: u16,
    /// Number of its first slot among all slots of the store.
    pub slot_base: u32,
    /// Its slots.
    pub slot_count: u32,
    /// What is done with it.
    pub state: DeviceState,
    /// It is not there, or has failed.
    pub absent: Option<Absence>,
    /// What it has to do with the journal.
    pub journal: JournalMark,
}

/// The devices of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceList {
    /// Rises with every change. 0 is no list: that of a device which is being added, or of version 1.
    pub generation: u64,
    /// Slots that have been given out so far: the base of the next device's.
    pub next_slot: u32,
    /// Numbers of devices that have been given out so far.
    pub next_ordinal: u16,
    /// The devices, by rising ordinals.
    pub devices: Vec<ListedDevice>,
}

impl DeviceList {
    /// No list.
    pub const NONE: Self = Self {
        generation: 0,
        next_slot: 0,
        next_ordinal: 0,
        devices: Vec::new(),
    };

    /// The device of this number.
    #[must_use]
    pub fn device(&self, ordinal: u16) -> Option<&ListedDevice> {
        self.devices.iter().find(|device| device.ordinal == ordinal)
    }

    /// The device of this id.
    #[must_use]
    pub fn device_of_id(&self, id: u64) -> Option<&ListedDevice> {
        self.devices.iter().find(|device| device.id == id)
    }

    /// Whether the store is used without one of them.
    #[must_use]
    pub fn lacks_one(&self) -> bool {
        self.devices.iter().any(|device| device.absent.is_some())
    }

    /// The device that has the journal; none where there is no list.
    #[must_use]
    pub fn journal(&self) -> Option<&ListedDevice> {
        self.marked(JournalMark::Here)
    }

    /// The device that is about to have the journal.
    #[must_use]
    pub fn next_journal(&self) -> Option<&ListedDevice> {
        self.marked(JournalMark::Next)
    }

    fn marked(&self, mark: JournalMark) -> Option<&ListedDevice> {
        self.devices.iter().find(|device| device.journal == mark)
    }

    /// Whether it says more of the journal than that it is on device 0, which is in use.
    pub(crate) fn has_marks(&self) -> bool {
        self.devices.iter().any(|device| {
            let is_usual = device.journal == JournalMark::unmarked(device.ordinal);
            !is_usual || (device.ordinal == 0 && device.state != DeviceState::InUse)
        })
    }

    /// The entries, with marks or, if they say no more than what is usual, without.
    pub(crate) fn encode(&self, has_marks: bool) -> [ListedBytes; DEVICES_MAX] {
        assert!(self.is_sound(), "a list that is written is one");
        assert!(has_marks || !self.has_marks(), "what is unusual is said");
        let mut bytes = [ListedBytes::NONE; DEVICES_MAX];
        for (place, device) in bytes.iter_mut().zip(&self.devices) {
            let last_use = device.absent.map_or(0, |absent| absent.last_use);
            let [low, middle, high, ..] = last_use.to_le_bytes();
            *place = ListedBytes {
                id: U64::new(device.id),
                slot_base: U32::new(device.slot_base),
                slot_count: U32::new(device.slot_count),
                ordinal: U16::new(device.ordinal),
                state: match device.state {
                    DeviceState::InUse => 1,
                    DeviceState::Draining => 2,
                    DeviceState::Leaving => 3,
                },
                absent: match device.absent {
                    None => 0,
                    Some(Absence { is_lost: false, .. }) => 1,
                    Some(Absence { is_lost: true, .. }) => 2,
                },
                last_use: [low, middle, high],
                journal: match device.journal {
                    _ if !has_marks => 0,
                    JournalMark::None => 0,
                    JournalMark::Room => 1,
                    JournalMark::Next => 2,
                    JournalMark::Here => 3,
                },
            };
        }
        bytes
    }

    /// The list with these entries; nothing if they contradict each other. Without marks the journal is on
    /// device 0.
    pub(crate) fn decode(
        (generation, next_slot, next_ordinal): (u64, u32, u16),
        entries: &[ListedBytes; DEVICES_MAX],
        count: u16,
        has_marks: bool,
    ) -> Option<Self> {
        let (entries, rest) = entries.split_at_checked(usize::from(count))?;
        if rest.iter().any(|entry| entry.as_bytes() != [0; 24]) {
            return None;
        }
        let devices = entries.iter().map(|entry| listed(entry, has_marks));
        let devices = devices.collect::<Option<Vec<_>>>()?;
        let list = Self {
            generation,
            next_slot,
            next_ordinal,
            devices,
        };
        (list.is_sound() && (has_marks || !list.has_marks())).then_some(list)
    }

    fn is_sound(&self) -> bool {
        if self.generation == 0 {
            return *self == Self::NONE;
        }
        let mut slots = 0;
        let mut ordinals = 0;
        for (place, device) in self.devices.iter().enumerate() {
            let twice = self.devices[..place]
                .iter()
                .any(|other| other.id == device.id);
            let Some(end) = device.slot_base.checked_add(device.slot_count) else {
                return false;
            };
            if twice || device.id == 0 || device.ordinal < ordinals || device.slot_base < slots {
                return false;
            }
            if device.ordinal == u16::MAX {
                return false;
            }
            (slots, ordinals) = (end, device.ordinal + 1);
        }
        self.devices.len() <= DEVICES_MAX
            && !self.devices.is_empty()
            && self.is_there_once(JournalMark::Here) == Some(true)
            && self.is_there_once(JournalMark::Next) != Some(false)
            && self.devices.iter().all(is_used_up_to)
            && slots <= self.next_slot
            && ordinals <= self.next_ordinal
            && self.next_slot <= SLOT_COUNT_MAX
    }

    /// Whether there is one device with this mark, and it is not absent; nothing if there is none.
    fn is_there_once(&self, mark: JournalMark) -> Option<bool> {
        let mut marked = self.devices.iter().filter(|device| device.journal == mark);
        let first = marked.next()?;
        Some(first.absent.is_none() && marked.next().is_none())
    }
}

fn is_used_up_to(device: &ListedDevice) -> bool {
    device
        .absent
        .is_none_or(|absent| absent.last_use <= USE_COUNTER_MAX)
}

fn listed(entry: &ListedBytes, has_marks: bool) -> Option<ListedDevice> {
    let state = match entry.state {
        1 => DeviceState::InUse,
        2 => DeviceState::Draining,
        3 => DeviceState::Leaving,
        _ => return None,
    };
    let [low, middle, high] = entry.last_use;
    let last_use = u64::from_le_bytes([low, middle, high, 0, 0, 0, 0, 0]);
    let absent = match entry.absent {
        0 if last_use == 0 => None,
        mark @ (1 | 2) => Some(Absence {
            is_lost: mark == 2,
            last_use,
        }),
        _ => return None,
    };
    let journal = match (entry.journal, has_marks) {
        (0, false) => JournalMark::unmarked(entry.ordinal.get()),
        (0, true) => JournalMark::None,
        (1, true) => JournalMark::Room,
        (2, true) => JournalMark::Next,
        (3, true) => JournalMark::Here,
        _ => return None,
    };
    Some(ListedDevice {
        id: entry.id.get(),
        ordinal: entry.ordinal.get(),
        slot_base: entry.slot_base.get(),
        slot_count: entry.slot_count.get(),
        state,
        absent,
        journal,
    })
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    fn device(id: u64, ordinal: u16, slot_base: u32) -> ListedDevice {
        ListedDevice {
            id,
            ordinal,
            slot_base,
            slot_count: 8,
            state: DeviceState::InUse,
            absent: None,
            journal: JournalMark::unmarked(ordinal),
        }
    }

    fn list() -> DeviceList {
        DeviceList {
            generation: 9,
            next_slot: 64,
            next_ordinal: 8,
            devices: vec![device(1, 0, 0), device(2, 3, 16), device(3, 7, 56)],
        }
    }

    fn read(list: &DeviceList, entries: &[ListedBytes; DEVICES_MAX]) -> Option<DeviceList> {
        let head = (list.generation, list.next_slot, list.next_ordinal);
        DeviceList::decode(head, entries, list.devices.len() as u16, list.has_marks())
    }

    /// The journal is on the second device, and on its way to the third; the first is leaving.
    fn marked() -> DeviceList {
        let mut list = list();
        let marks = [JournalMark::Room, JournalMark::Here, JournalMark::Next];
        for (device, mark) in list.devices.iter_mut().zip(marks) {
            device.journal = mark;
        }
        list.devices[0].state = DeviceState::Leaving;
        list
    }

    #[test]
    fn a_list_with_gaps_is_read_as_it_was_written() {
        assert_eq!(read(&list(), &list().encode(false)), Some(list()));
        let none = DeviceList::NONE;
        assert_eq!(read(&none, &none.encode(none.has_marks())), Some(none));
    }

    #[test]
    fn what_is_known_of_absent_devices_is_read_as_it_was_written() {
        let mut list = list();
        for (place, is_lost, last_use) in [(1, false, 0), (2, true, USE_COUNTER_MAX)] {
            list.devices[place].absent = Some(Absence { is_lost, last_use });
        }
        assert!(list.lacks_one());
        assert_eq!(read(&list, &list.encode(list.has_marks())), Some(list));
    }

    #[test]
    fn a_list_that_contradicts_itself_is_none() {
        let spoil: [fn(&mut [ListedBytes; DEVICES_MAX]); 13] = [
            |entries| entries[1].id = U64::new(1),
            |entries| entries[1].id = U64::ZERO,
            |entries| entries[0].ordinal = U16::new(1),
            |entries| entries[0].state = 2,
            |entries| entries[2].state = 4,
            |entries| entries[1].slot_base = U32::new(7),
            |entries| entries[2].slot_base = U32::new(57),
            |entries| entries[2].ordinal = U16::new(8),
            |entries| entries[3].journal = 1,
            |entries| entries[1].journal = 1,
            |entries| entries[0].absent = 1,
            |entries| entries[1].absent = 3,
            |entries| entries[1].last_use[0] = 1,
        ];
        for (number, spoil) in spoil.into_iter().enumerate() {
            let mut entries = list().encode(false);
            spoil(&mut entries);
            assert_eq!(read(&list(), &entries), None, "{number}");
        }
    }

    #[test]
    fn where_the_journal_is_is_read_as_it_was_written() {
        let list = marked();
        assert!(list.has_marks() && !self::list().has_marks());
        assert_eq!(list.journal().map(|it| it.ordinal), Some(3));
        assert_eq!(list.next_journal().map(|it| it.ordinal), Some(7));
        assert_eq!(
            read(&list, &list.encode(list.has_marks())),
            Some(list.clone())
        );
        // Number 0 may have left.
        let mut without = list;
        without.devices.remove(0);
        assert_eq!(
            read(&without, &without.encode(without.has_marks())),
            Some(without)
        );
        // What has the journal may be on its way out before there is another place for it.
        let mut draining = self::list();
        draining.devices[0].state = DeviceState::Draining;
        assert!(draining.has_marks());
        assert_eq!(
            read(&draining, &draining.encode(draining.has_marks())),
            Some(draining)
        );
    }

    #[test]
    fn a_list_with_no_journal_or_two_is_none() {
        let spoil: [fn(&mut [ListedBytes; DEVICES_MAX]); 6] = [
            |entries| entries[1].journal = 0,
            |entries| entries[0].journal = 3,
            |entries| entries[0].journal = 2,
            |entries| entries[0].journal = 4,
            |entries| entries[1].absent = 1,
            |entries| entries[2].absent = 2,
        ];
        for (number, spoil) in spoil.into_iter().enumerate() {
            let mut entries = marked().encode(true);
            spoil(&mut entries);
            assert_eq!(read(&marked(), &entries), None, "{number}");
        }
    }
}
