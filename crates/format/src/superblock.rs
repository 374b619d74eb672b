//! The superblock: whose device this is and where things are on it.
//!
//! Invariants:
//! - it is there twice, far enough apart for no single stray write to take both; the valid one with
//!   the higher `update` counts;
//! - the copies are written one after the other, each durable before the next, so that one of them
//!   is valid at any moment;
//! - everything but `update`, `use_counter`, `use_ids`, `claimed` and the list of devices stays as it was
//!   when the device became one of the store's.

use alloc::vec::Vec;
use core::mem::{offset_of, size_of};

use holdfast_model::{ClusterId, NodeId, StoreId, Tier};
use holdfast_stdx::Bytes;
use zerocopy::little_endian::{U16, U32, U64, U128};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::bytes::{all_zero, checksum_without};
use crate::device::{DeviceLayout, SLOT_COUNT_MAX};
use crate::device_list::{
    DEVICES_MAX, DeviceList, DeviceState, JournalMark, ListedBytes, ListedDevice,
};
use crate::versions::{FORMAT_VERSION, VERSION_1, VERSION_2, VERSION_3, VERSION_4, VERSION_5};

/// Bytes of a superblock: one physical sector at most.
pub const SUPERBLOCK_BYTES: usize = 4096;
/// Where the two copies are. The second is beyond what partitioning tools write at the beginning.
pub const SUPERBLOCK_OFFSETS: [u64; 2] = [0, 1 << 20];

/// How often a store is opened at most: the upper 24 bits of the versions of table entries count
/// it, and those of ordinals in the journal. Once a second for half a year.
pub const USE_COUNTER_MAX: u64 = (1 << 24) - 1;

const USE_IDS: usize = 64;

const MAGIC: [u8; 8] = *b"HOLDFAST";

/// The superblock's bytes.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct SuperblockBytes {
    pub(crate) magic: [u8; 8],
    pub(crate) version: U32,
    pub(crate) checksum: U32,
    pub(crate) update: U64,
    pub(crate) cluster: U128,
    pub(crate) store: U128,
    pub(crate) nonce: U64,
    pub(crate) use_counter: U64,
    pub(crate) node: U16,
    pub(crate) ordinal: U16,
    pub(crate) device_count: U16,
    pub(crate) tier: u8,
    pub(crate) claimed: u8,
    pub(crate) sector: U32,
    pub(crate) partitions: U16,
    pub(crate) reserved_b: [u8; 2],
    pub(crate) device_bytes: U64,
    pub(crate) journal_offset: U64,
    pub(crate) segment_bytes: U32,
    pub(crate) segment_count: U32,
    pub(crate) table_a_offset: U64,
    pub(crate) slots_offset: U64,
    pub(crate) table_b_offset: U64,
    pub(crate) slot_count: U32,
    pub(crate) slot_base: U32,
    pub(crate) use_ids: [U64; USE_IDS],
    pub(crate) device_id: U64,
    pub(crate) generation: U64,
    pub(crate) next_slot: U32,
    pub(crate) next_ordinal: U16,
    pub(crate) reserved_c: [u8; 2],
    pub(crate) devices: [ListedBytes; DEVICES_MAX],
    pub(crate) reserved_d: [u8; 344],
}

const _: () = assert!(size_of::<SuperblockBytes>() == SUPERBLOCK_BYTES);
const _: () = assert!(offset_of!(SuperblockBytes, checksum) == 12);
const _: () = assert!(offset_of!(SuperblockBytes, nonce) == 56);
const _: () = assert!(offset_of!(SuperblockBytes, use_ids) == 144);
const _: () = assert!(offset_of!(SuperblockBytes, device_id) == 656);
const _: () = assert!(offset_of!(SuperblockBytes, devices) == 680);
const _: () = assert!(offset_of!(SuperblockBytes, reserved_d) == 3752);

/// The ids of the latest 64 uses of a store. Each is drawn at random when the use begins: a copy of the
/// store that was made before it, and brought back after it, knows another one under its number, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UseIds {
    /// That of a use is at its number modulo the length; 0: nobody knows.
    ids: [u64; USE_IDS],
}

impl UseIds {
    /// Those of a store that was never used.
    pub const NONE: Self = Self { ids: [0; USE_IDS] };
    /// How many of the latest are kept.
    pub const KEPT: u64 = USE_IDS as u64;

    /// The use of this number begins.
    pub fn begin(&mut self, number: u64, id: u64) {
        self.ids[Self::place(number)] = id;
    }

    /// The id of a use, where `latest` is the number of the latest; `None` if it is too long ago, has not
    /// been yet, or was of a version that drew none.
    #[must_use]
    pub fn of(&self, number: u64, latest: u64) -> Option<u64> {
        let ago = latest.checked_sub(number)?;
        let id = self.ids[Self::place(number)];
        (ago < Self::KEPT && id != 0).then_some(id)
    }

    fn place(number: u64) -> usize {
        (number % Self::KEPT) as usize
    }
}

impl Default for UseIds {
    fn default() -> Self {
        Self::NONE
    }
}

/// What a superblock says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Superblock {
    /// Rises with every time it is written.
    pub update: u64,
    /// The cluster.
    pub cluster: ClusterId,
    /// The store.
    pub store: StoreId,
    /// Drawn at random when the store was created, in every structure, told to nobody.
    pub nonce: u64,
    /// How often the store has been opened.
    pub use_counter: u64,
    /// The ids of the latest openings.
    pub use_ids: UseIds,
    /// That opening has only been announced: nothing has been done in it. Only where the journal is.
    pub claimed: bool,
    /// The node.
    pub node: NodeId,
    /// Which of the store's devices this is, from 0.
    pub ordinal: u16,
    /// The device, drawn at random when it became one of the store's; 0 in version 1.
    pub device_id: u64,
    /// How many devices the store has; 0 on one that is being added.
    pub device_count: u16,
    /// The store's devices; none in version 1, and on one that is being added.
    pub list: DeviceList,
    /// Whether the journal may have entries whose data is in slots.
    pub places: bool,
    /// The device's class.
    pub tier: Tier,
    /// Bytes that the device writes whole or not at all: 512 or 4096.
    pub sector: u32,
    /// Chains of the journal.
    pub partitions: u16,
    /// The device's size when the store was created.
    pub device_bytes: u64,
    /// Number of the device's first slot among all slots of the store.
    pub slot_base: u32,
    /// Where things are.
    pub layout: DeviceLayout,
}

/// Why bytes are not a superblock that can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SuperblockError {
    /// All zeros: nothing has been written here.
    #[error("there is nothing")]
    Blank,
    /// Something else is here.
    #[error("this is not a superblock")]
    NotOurs,
    /// It is a superblock that has rotted.
    #[error("the superblock's checksum is wrong")]
    BadChecksum,
    /// A newer program wrote it.
    #[error("the superblock is of version {0}")]
    NewerVersion(u32),
    /// The checksum is right but the contents cannot be: a mistake of whoever wrote it.
    #[error("the superblock contradicts itself")]
    Malformed,
}

/// A store has more devices than a list of them takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a store has at most {DEVICES_MAX} devices")]
pub struct TooManyDevices;

impl Superblock {
    /// The superblock's bytes, in the oldest version that can say it but the first. Panics if it is of version 1 and has not been
    /// [`upgrade`](Self::upgrade)d.
    #[must_use]
    pub fn encode(&self) -> Bytes {
        assert!(self.device_id != 0, "a device has an id");
        assert!(
            usize::from(self.device_count) == self.list.devices.len(),
            "the devices of the list are counted"
        );
        let mut raw = SuperblockBytes {
            magic: MAGIC,
            version: U32::new(self.version()),
            checksum: U32::ZERO,
            update: U64::new(self.update),
            cluster: U128::new(self.cluster.0),
            store: U128::new(self.store.0),
            nonce: U64::new(self.nonce),
            use_counter: U64::new(self.use_counter),
            node: U16::new(self.node.0),
            ordinal: U16::new(self.ordinal),
            device_count: U16::new(self.device_count),
            tier: match self.tier {
                Tier::Flash => 0,
                Tier::Capacity => 1,
            },
            claimed: u8::from(self.claimed),
            sector: U32::new(self.sector),
            partitions: U16::new(self.partitions),
            reserved_b: [0; 2],
            device_bytes: U64::new(self.device_bytes),
            journal_offset: U64::new(self.layout.journal_offset),
            segment_bytes: U32::new(self.layout.segment_bytes),
            segment_count: U32::new(self.layout.segment_count),
            table_a_offset: U64::new(self.layout.table_offsets[0]),
            slots_offset: U64::new(self.layout.slots_offset),
            table_b_offset: U64::new(self.layout.table_offsets[1]),
            slot_count: U32::new(self.layout.slot_count),
            slot_base: U32::new(self.slot_base),
            use_ids: self.use_ids.ids.map(U64::new),
            device_id: U64::new(self.device_id),
            generation: U64::new(self.list.generation),
            next_slot: U32::new(self.list.next_slot),
            next_ordinal: U16::new(self.list.next_ordinal),
            reserved_c: [0; 2],
            devices: self.list.encode(self.version() >= VERSION_4),
            reserved_d: [0; 344],
        };
        raw.checksum = U32::new(checksum_without(
            raw.as_bytes(),
            offset_of!(SuperblockBytes, checksum),
        ));
        Bytes::copy_from_slice(raw.as_bytes())
    }

    /// Whether the byte at this place is another one whenever the store is opened, or its list changes: its
    /// checksum, the numbers of the use and of what comes next, and the ids of uses.
    #[must_use]
    pub fn changes_at(place: usize) -> bool {
        let field = |start: usize, bytes: usize| (start..start + bytes).contains(&place);
        field(offset_of!(SuperblockBytes, version), 4)
            || field(offset_of!(SuperblockBytes, checksum), 4)
            || field(offset_of!(SuperblockBytes, use_counter), 8)
            || field(offset_of!(SuperblockBytes, ordinal), 2)
            || field(offset_of!(SuperblockBytes, slot_base), 4)
            || field(offset_of!(SuperblockBytes, use_ids), 8 * USE_IDS)
    }

    fn version(&self) -> u32 {
        // What is being added has no list yet.
        let has_room = self.is_joining() && self.layout.segment_count > 0;
        if self.places {
            VERSION_5
        } else if has_room || self.list.has_marks() {
            VERSION_4
        } else if self.list.lacks_one() {
            VERSION_3
        } else {
            VERSION_2
        }
    }

    /// Whether the device is one that was being added: it has never had a page.
    #[must_use]
    pub fn is_joining(&self) -> bool {
        self.device_id != 0 && self.list.generation == 0
    }

    /// Whether it is of version 1, which had no list of the devices.
    #[must_use]
    pub fn is_of_version_1(&self) -> bool {
        self.device_id == 0
    }

    /// Whether it says of its own device that this has the journal. Of two devices of a store that do, the one
    /// with the list of the higher generation has it.
    #[must_use]
    pub fn has_journal(&self) -> bool {
        if self.is_of_version_1() {
            return self.ordinal == 0;
        }
        let journal = self.list.journal();
        journal.is_some_and(|listed| listed.ordinal == self.ordinal)
    }

    /// Makes the superblocks of all devices of a store, in the order of their ordinals, such as version 2
    /// has, where they are of version 1: with a list of the devices. `draw` gives random numbers.
    /// Those that a store which was cut short in this has on its other devices stay as they are.
    ///
    /// # Errors
    /// [`TooManyDevices`] if the store has more devices than a list.
    pub fn upgrade(
        superblocks: &mut [&mut Self],
        mut draw: impl FnMut() -> u64,
    ) -> Result<(), TooManyDevices> {
        if superblocks.len() > DEVICES_MAX {
            return Err(TooManyDevices);
        }
        let first = superblocks.first().expect("a store has a device");
        let list = if first.is_of_version_1() {
            let mut slots = 0;
            let devices: Vec<ListedDevice> = superblocks
                .iter()
                .map(|found| {
                    slots = found.slot_base + found.layout.slot_count;
                    ListedDevice {
                        id: draw().max(1),
                        ordinal: found.ordinal,
                        slot_base: found.slot_base,
                        slot_count: found.layout.slot_count,
                        state: DeviceState::InUse,
                        absent: None,
                        journal: JournalMark::unmarked(found.ordinal),
                    }
                })
                .collect();
            DeviceList {
                generation: 1,
                next_slot: slots,
                next_ordinal: devices.len() as u16,
                devices,
            }
        } else {
            first.list.clone()
        };
        for superblock in superblocks {
            let listed = list.device(superblock.ordinal);
            superblock.device_id = listed.expect("every device is in the list").id;
            superblock.device_count = list.devices.len() as u16;
            superblock.list = list.clone();
        }
        Ok(())
    }

    /// Reads a superblock.
    ///
    /// # Errors
    /// [`SuperblockError`] for anything that this program did not write or cannot read.
    pub fn decode(bytes: &[u8]) -> Result<Self, SuperblockError> {
        let raw = SuperblockBytes::ref_from_bytes(bytes).map_err(|_| SuperblockError::NotOurs)?;
        if raw.magic != MAGIC {
            return Err(if all_zero(bytes) {
                SuperblockError::Blank
            } else {
                SuperblockError::NotOurs
            });
        }
        let checksum = checksum_without(bytes, offset_of!(SuperblockBytes, checksum));
        if checksum != raw.checksum.get() {
            return Err(SuperblockError::BadChecksum);
        }
        if raw.version.get() > FORMAT_VERSION {
            return Err(SuperblockError::NewerVersion(raw.version.get()));
        }
        raw.parse().ok_or(SuperblockError::Malformed)
    }
}

impl SuperblockBytes {
    fn parse(&self) -> Option<Superblock> {
        let layout = DeviceLayout {
            journal_offset: self.journal_offset.get(),
            segment_bytes: self.segment_bytes.get(),
            segment_count: self.segment_count.get(),
            table_offsets: [self.table_a_offset.get(), self.table_b_offset.get()],
            slots_offset: self.slots_offset.get(),
            slot_count: self.slot_count.get(),
        };
        let tier = match self.tier {
            0 => Tier::Flash,
            1 => Tier::Capacity,
            _ => return None,
        };
        let slot_end = self.slot_base.get().checked_add(layout.slot_count)?;
        let (device_id, list) = self.parse_list()?;
        let sound = self.version.get() >= VERSION_1
            && matches!(self.sector.get(), 512 | 4096)
            && matches!(self.partitions.get(), 1..=64)
            && slot_end <= SLOT_COUNT_MAX
            && self.claimed <= 1
            && self.reserved_b == [0; 2]
            && layout.fits(self.device_bytes.get());
        sound.then_some(Superblock {
            update: self.update.get(),
            cluster: ClusterId(self.cluster.get()),
            store: StoreId(self.store.get()),
            nonce: self.nonce.get(),
            use_counter: self.use_counter.get(),
            use_ids: UseIds {
                ids: self.use_ids.map(U64::get),
            },
            claimed: self.claimed == 1,
            node: NodeId(self.node.get()),
            ordinal: self.ordinal.get(),
            device_id,
            device_count: self.device_count.get(),
            list,
            places: self.version.get() >= VERSION_5,
            tier,
            sector: self.sector.get(),
            partitions: self.partitions.get(),
            device_bytes: self.device_bytes.get(),
            slot_base: self.slot_base.get(),
            layout,
        })
    }

    /// The device's id, and the list; neither was there before version 2.
    fn parse_list(&self) -> Option<(u64, DeviceList)> {
        if self.version.get() == VERSION_1 {
            let is_one_of_them = self.ordinal.get() < self.device_count.get();
            return is_one_of_them.then_some((0, DeviceList::NONE));
        }
        let head = (
            self.generation.get(),
            self.next_slot.get(),
            self.next_ordinal.get(),
        );
        let has_marks = self.version.get() >= VERSION_4;
        let list = DeviceList::decode(head, &self.devices, self.device_count.get(), has_marks)?;
        let id = self.device_id.get();
        let is_listed = list.device_of_id(id).is_some_and(|listed| {
            listed.ordinal == self.ordinal.get()
                && listed.slot_base == self.slot_base.get()
                && listed.slot_count == self.slot_count.get()
        });
        let sound = id != 0
            && (self.version.get() >= VERSION_3 || !list.lacks_one())
            && self.reserved_c == [0; 2]
            && self.reserved_d == [0; 344]
            && (is_listed || list.generation == 0);
        sound.then_some((id, list))
    }
}
