//! Which slots are free.
//!
//! Invariants: the count is that of the bits; flash is given out before capacity; on a device, slots
//! are given out in order as far as possible, so that pages written together lie together.

use alloc::vec;
use alloc::vec::Vec;

use holdfast_model::Tier;

use crate::place::PagesPlace;

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
        let devices: Vec<DeviceSlots> = place
            .devices
            .iter()
            .map(|device| {
                let count = device.layout.slot_count;
                let mut words = vec![u64::MAX; count.div_ceil(64) as usize];
                if let Some(last) = words.last_mut()
                    && !count.is_multiple_of(64)
                {
                    *last = (1 << (count % 64)) - 1;
                }
                DeviceSlots {
                    base: device.slot_base,
                    count,
                    tier: device.tier,
                    words,
                    free: count,
                    cursor: 0,
                }
            })
            .collect();
        let free = devices.iter().map(|device| device.free).sum();
        Self { devices, free }
    }

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
        self.free -= 1;
    }

    /// Takes any slot: of the flash device with most room, or else of the capacity device.
    pub(crate) fn take(&mut self) -> Option<u32> {
        let device = self
            .devices
            .iter_mut()
            .filter(|device| device.free > 0)
            .min_by_key(|device| (device.tier, u32::MAX - device.free))?;
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
        Some(device.base + word as u32 * 64 + bit)
    }

    pub(crate) fn release(&mut self, slot: u32) {
        assert!(!self.is_free(slot), "a slot is freed once");
        let device = self.device_mut(slot);
        let local = slot - device.base;
        device.words[local as usize / 64] |= 1 << (local % 64);
        device.free += 1;
        self.free += 1;
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
