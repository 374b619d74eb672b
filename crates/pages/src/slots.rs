//! Which slots are free.
//!
//! Invariants: the count is that of the bits; nothing is given out of a device that is drained, and what
//! is free there does not count; flash is given out before capacity; on a device, slots
//! are given out in order as far as possible, so that pages written together lie together.

use alloc::vec;
use alloc::vec::Vec;

use holdfast_model::Tier;

use crate::place::{PagesDevice, PagesPlace};

#[derive(Debug)]
struct DeviceSlots {
    base: u32,
    count: u32,
    tier: Tier,
    /// Free slots are ones.
    words: Vec<u64>,
    free: u32,
    /// The word to look at first.
    cursor: usize,
    is_drained: bool,
}

impl DeviceSlots {
    /// All of them free.
    fn new(device: &PagesDevice) -> Self {
        let count = device.layout.slot_count;
        let mut words = vec![u64::MAX; count.div_ceil(64) as usize];
        if let Some(last) = words.last_mut()
            && !count.is_multiple_of(64)
        {
            *last = (1 << (count % 64)) - 1;
        }
        Self {
            base: device.slot_base,
            count,
            tier: device.tier,
            words,
            free: count,
            cursor: 0,
            is_drained: device.is_drained,
        }
    }
}

/// The free slots of all devices.
#[derive(Debug)]
pub(crate) struct Slots {
    devices: Vec<DeviceSlots>,
    free: u32,
}

impl Slots {
    /// All slots free.
    pub(crate) fn new(place: &PagesPlace) -> Self {
        let mut slots = Self {
            devices: Vec::new(),
            free: 0,
        };
        for device in &place.devices {
            slots.add(device);
        }
        slots
    }

    /// Adds a device, with bases above those of all others.
    pub(crate) fn add(&mut self, device: &PagesDevice) {
        if !device.is_drained {
            self.free += device.layout.slot_count;
        }
        self.devices.push(DeviceSlots::new(device));
    }

    /// Gives out no slot any more of the device whose slots begin there.
    pub(crate) fn stop_giving(&mut self, base: u32) {
        let device = self.device_mut(base);
        if !device.is_drained {
            device.is_drained = true;
            let free = device.free;
            self.free -= free;
        }
    }

    /// Gives out the slots of the device whose slots begin there, which was drained.
    pub(crate) fn begin_giving(&mut self, base: u32) {
        let device = self.device_mut(base);
        assert!(device.is_drained, "its free slots are not counted yet");
        device.is_drained = false;
        let free = device.free;
        self.free += free;
    }

    /// Forgets the device whose slots begin there: all of them are free.
    pub(crate) fn remove(&mut self, base: u32) {
        let device = self.device(base);
        assert!(device.is_drained, "its free slots are not counted");
        assert!(device.free == device.count, "none of its slots is used");
        self.devices.retain(|device| device.base != base);
    }

    /// Slots that are not free of the device whose slots begin there.
    pub(crate) fn used(&self, base: u32) -> u32 {
        let device = self.device(base);
        device.count - device.free
    }

    /// Free slots of the devices that are not drained.
    pub(crate) fn free(&self) -> u32 {
        self.free
    }

    pub(crate) fn is_free(&self, slot: u32) -> bool {
        let device = self.device(slot);
        let local = slot - device.base;
        device.words[local as usize / 64] & (1 << (local % 64)) != 0
    }

    /// Takes a slot that is known: what a table says of it.
    pub(crate) fn occupy(&mut self, slot: u32) {
        assert!(self.is_free(slot), "a slot is taken once");
        let device = self.device_mut(slot);
        let local = slot - device.base;
        device.words[local as usize / 64] &= !(1 << (local % 64));
        device.free -= 1;
        if !device.is_drained {
            self.free -= 1;
        }
    }

    /// Takes any slot: of the flash device with most room, or else of the capacity device.
    pub(crate) fn take(&mut self) -> Option<u32> {
        let index = self.next_device()?;
        Some(self.take_of(index))
    }

    /// Takes a slot of the device whose slots begin there, if it is the one of which any would be taken now.
    pub(crate) fn take_on(&mut self, base: u32) -> Option<u32> {
        let index = self.next_device()?;
        (self.devices[index].base == base).then(|| self.take_of(index))
    }

    fn next_device(&self) -> Option<usize> {
        let devices = self.devices.iter().enumerate();
        let with_room = devices.filter(|(_, device)| device.free > 0 && !device.is_drained);
        let next = with_room.min_by_key(|(_, device)| (device.tier, u32::MAX - device.free));
        next.map(|(index, _)| index)
    }

    fn take_of(&mut self, index: usize) -> u32 {
        let device = &mut self.devices[index];
        let words = device.words.len();
        let word = (0..words)
            .map(|step| (device.cursor + step) % words)
            .find(|word| device.words[*word] != 0)
            .expect("a device with free slots has one");
        device.cursor = word;
        let bit = device.words[word].trailing_zeros();
        device.words[word] &= !(1 << bit);
        device.free -= 1;
        self.free -= 1;
        device.base + word as u32 * 64 + bit
    }

    pub(crate) fn release(&mut self, slot: u32) {
        assert!(!self.is_free(slot), "a slot is freed once");
        let device = self.device_mut(slot);
        let local = slot - device.base;
        device.words[local as usize / 64] |= 1 << (local % 64);
        device.free += 1;
        if !device.is_drained {
            self.free += 1;
        }
        assert!(
            self.devices
                .iter()
                .all(|device| device.free <= device.count)
        );
    }

    fn index(&self, slot: u32) -> usize {
        self.devices.partition_point(|device| device.base <= slot) - 1
    }

    fn device(&self, slot: u32) -> &DeviceSlots {
        &self.devices[self.index(slot)]
    }

    fn device_mut(&mut self, slot: u32) -> &mut DeviceSlots {
        let index = self.index(slot);
        &mut self.devices[index]
    }
}
