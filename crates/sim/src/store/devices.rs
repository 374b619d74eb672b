//! Devices that come and go while a store is used.
//!
//! Checked: nothing is asked of a device that has left; what is refused is refused with a reason that can
//! be; a drain that has begun ends; and wherever power is lost, the store opens with the devices that its
//! list then has.

use std::collections::BTreeSet;

use holdfast_model::{DiskId, DiskRequest, SliceId, Tier};
use holdfast_stdx::{Duration, Instant};
use holdfast_store::{
    DeviceGeometry, DeviceOrder, DeviceRefused, DeviceState, DeviceStatus, JournalMark, StoreToken,
};

use super::run::{Check, Host};
use crate::disk::{Latency, SimDisk};

/// Devices of a run at most, those that have left included.
const DISKS_MAX: usize = 7;

/// What is known of the orders of a run.
#[derive(Debug, Default)]
pub(crate) struct Orders {
    /// The orders under way.
    asked: std::collections::BTreeMap<u64, DeviceOrder>,
    /// Disks that have left, and are not being added again.
    left: BTreeSet<DiskId>,
    /// The device that had the journal when that was last looked at.
    journal: u16,
}

impl Host {
    /// Orders something about a device.
    pub(crate) fn order_device(&mut self) -> Check {
        let statuses = self.store().devices();
        self.note_journal(&statuses);
        let ordinals: Vec<u16> = statuses.iter().map(|device| device.ordinal).collect();
        let ordinal = *self.prng.choose(&ordinals);
        let order = match self.prng.below(8) {
            0..3 => {
                let replaces = self.prng.chance(1, 3).then_some(ordinal);
                let Some(disk) = self.disk_to_add(&statuses) else {
                    return Ok(());
                };
                DeviceOrder::Add {
                    geometry: self.geometry_of(disk),
                    id: self.prng.next_u64(),
                    replaces,
                    journal_room: self.prng.chance(1, 3),
                }
            }
            3..5 => DeviceOrder::Drain { ordinal },
            5 => DeviceOrder::Resume { ordinal },
            _ => DeviceOrder::Remove {
                ordinal,
                gives_up: false,
            },
        };
        if let DeviceOrder::Add { geometry, .. } = order {
            self.orders.left.remove(&geometry.disk);
        }
        self.give_order(order);
        Ok(())
    }

    fn give_order(&mut self, order: DeviceOrder) {
        self.next_token += 1;
        let token = self.next_token;
        self.orders.asked.insert(token, order);
        let now = self.now;
        let (store, out) = self.store_and_out();
        store.order_device(now, order, StoreToken(token), out);
    }

    /// Counts the journal's moves, as far as they are seen.
    fn note_journal(&mut self, statuses: &[DeviceStatus]) {
        let mut devices = statuses.iter();
        let here = devices.find(|device| device.journal == JournalMark::Here);
        let here = here.map(|device| device.ordinal);
        self.report.journal_moves += u64::from(here != Some(self.orders.journal));
        self.orders.journal = here.unwrap_or(self.orders.journal);
    }

    /// A new one, or one that is none of the store's any more.
    fn disk_to_add(&mut self, statuses: &[DeviceStatus]) -> Option<DiskId> {
        let in_store = |disk: DiskId| statuses.iter().any(|device| device.disk == Some(disk));
        let spare: Vec<DiskId> = self
            .disks
            .iter()
            .map(SimDisk::id)
            .filter(|disk| !in_store(*disk) && !self.is_being_added(*disk))
            .collect();
        if !spare.is_empty() && self.prng.chance(1, 2) {
            return Some(*self.prng.choose(&spare));
        }
        if self.disks.len() == DISKS_MAX {
            return None;
        }
        let disk = DiskId(self.disks.len() as u16);
        let slots = 16 + 8 * self.prng.below(5);
        // Mostly there is room for the journal.
        let journal = if self.prng.chance(3, 4) {
            self.journal_bytes
        } else {
            0
        };
        let bytes = (2 << 20) + journal + slots * ((256 << 10) + 1024) + 4096;
        let fork = self.prng.fork();
        let sector = self.options.sector;
        self.disks
            .push(SimDisk::new(disk, bytes, sector, Latency::default(), fork));
        Some(disk)
    }

    fn is_being_added(&self, disk: DiskId) -> bool {
        let mut asked = self.orders.asked.values();
        asked.any(
            |order| matches!(order, DeviceOrder::Add { geometry, .. } if geometry.disk == disk),
        )
    }

    pub(crate) fn geometry_of(&self, disk: DiskId) -> DeviceGeometry {
        DeviceGeometry {
            disk,
            bytes: self.disks[usize::from(disk.0)].bytes(),
            sector: self.options.sector,
            tier: match self.options.capacity & (1 << disk.0) {
                0 => Tier::Flash,
                _ => Tier::Capacity,
            },
        }
    }

    pub(crate) fn ordered(
        &mut self,
        token: StoreToken,
        result: Result<u16, DeviceRefused>,
    ) -> Check {
        let order = self.orders.asked.remove(&token.0);
        let order = order.ok_or_else(|| format!("nobody ordered {token:?}"))?;
        self.report.orders += u64::from(result.is_ok());
        let Err(refused) = result else {
            return Ok(());
        };
        let fits = match refused {
            DeviceRefused::Journal | DeviceRefused::NoRoom { .. } => true,
            DeviceRefused::NotEmpty { .. } => matches!(order, DeviceOrder::Remove { .. }),
            // It left meanwhile.
            DeviceRefused::Unknown { .. } => {
                !matches!(order, DeviceOrder::Add { replaces: None, .. })
            }
            DeviceRefused::Failed => self.options.failures || self.options.rot,
            // A copy of its superblock was torn, one of a former device has rotted, or it is lost and has not
            // left.
            DeviceRefused::NotBlank { .. } => {
                self.options.crashes || self.options.rot || self.lost_device
            }
            DeviceRefused::Busy => true,
            DeviceRefused::Absent => self.lost_device || self.half_made,
            DeviceRefused::Lacking { .. } => self.lost_device,
            // It has no room for the journal.
            DeviceRefused::TooSmall { .. } => {
                let is_plain = |replaces: Option<u16>, room: bool| replaces.is_none() && !room;
                !matches!(order, DeviceOrder::Add { replaces, journal_room, .. } if is_plain(replaces, journal_room))
            }
            DeviceRefused::NotFlash => {
                matches!(order, DeviceOrder::Add { geometry, .. } if geometry.tier == Tier::Capacity)
            }
            DeviceRefused::InUse
            | DeviceRefused::BadSector { .. }
            | DeviceRefused::TooMany
            | DeviceRefused::TooLarge
            | DeviceRefused::NotOpen => false,
        };
        if fits {
            Ok(())
        } else {
            Err(format!("{order:?} is refused: {refused}"))
        }
    }

    pub(crate) fn device_left(&mut self, disk: Option<DiskId>) {
        // One that was lost is left alone since the store was opened. It may be wanted back already.
        if let Some(disk) = disk
            && !self.is_being_added(disk)
        {
            self.orders.left.insert(disk);
        }
        self.report.devices_left += 1;
    }

    /// Nothing may be asked of a device that has left.
    pub(crate) fn may_be_asked(&self, request: &DiskRequest) -> Check {
        if self.orders.left.contains(&request.disk) {
            return Err(format!("disk {} has left, and is asked", request.disk.0));
        }
        Ok(())
    }

    /// Power is lost, or the store is opened: nobody waits for anything.
    pub(crate) fn forget_orders(&mut self) {
        self.orders = Orders {
            journal: self.orders.journal,
            ..Orders::default()
        };
    }

    /// The store is open: other disks than its own are left alone.
    pub(crate) fn members_known(&mut self) {
        let statuses = self.store().devices();
        let members: BTreeSet<DiskId> = statuses.iter().filter_map(|device| device.disk).collect();
        let others = self.disks.iter().map(SimDisk::id);
        self.orders.left = others.filter(|disk| !members.contains(disk)).collect();
    }

    /// Drains that have begun end, and what is to leave leaves.
    pub(crate) fn drains_end(&mut self) -> Check {
        let until: Instant = self.now + Duration::from_secs(20);
        let undecided_until = self.now + Duration::from_secs(10);
        // Then the devices that are left may be too small for what was promised on one that is lost.
        let mut are_called_off = false;
        while has_draining(&self.store().devices()) || !are_called_off && !self.has_room_for_all() {
            let usage = self.store().usage();
            let is_full = usage.segments_used > usage.segments / 2;
            if self.now > undecided_until && is_full {
                // What nobody decides is written again to leave a device's slots: there may be no room for that beside it.
                let slices: Vec<SliceId> = self.model.keys().copied().collect();
                slices.into_iter().for_each(|slice| self.commit_all(slice));
            }
            if self.now > until {
                let devices = self.store().devices();
                if !self.lost_device || self.has_room_for_all() {
                    return Err(format!("a drain does not end: {devices:?} {usage:?}"));
                }
                // What was to take their pages has failed since: they are to stay.
                are_called_off = true;
                for DeviceStatus { ordinal, .. } in devices {
                    self.give_order(DeviceOrder::Resume { ordinal });
                }
            }
            self.advance(self.now + Duration::from_millis(100))?;
        }
        let statuses = self.store().devices();
        self.note_journal(&statuses);
        Ok(())
    }

    /// Whether all that has to move, and all that waits to become a page, has room on the devices that are in use.
    fn has_room_for_all(&mut self) -> bool {
        let usage = self.store().usage();
        usage.pages_used + usage.pages_reserved <= usage.pages
    }
}

/// Whether a device has still to become empty, or to leave. The journal stays where no other device that is in use has
/// room for it.
fn has_draining(devices: &[DeviceStatus]) -> bool {
    let in_use = devices.iter().filter(|it| it.state == DeviceState::InUse);
    let mut places = in_use.filter(|it| it.absent.is_none());
    let has_place = places.any(|it| it.journal == JournalMark::Room);
    let left = |device: &DeviceStatus| {
        let has_journal = device.journal == JournalMark::Here;
        match device.state {
            DeviceState::InUse => false,
            DeviceState::Draining => device.pages_used > 0 || has_journal && has_place,
            DeviceState::Leaving => device.pages_used > 0 || !has_journal || has_place,
        }
    };
    devices.iter().any(left)
}
