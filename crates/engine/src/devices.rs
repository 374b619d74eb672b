//! Devices that come and go: orders on their way to the store, and their answers back.
//!
//! It refuses to know of paths and descriptors: the driver has opened a device before it orders that it be
//! added, and closes one when it is released.

use holdfast_model::DiskId;
use holdfast_stdx::Instant;
use holdfast_store::{DeviceOrder, DeviceRefused, StoreToken, StrayDevice};

use crate::Notice;
use crate::engine::{Engine, Output};
use crate::event::Command;
use crate::lifecycle::Life;
use crate::storage::Use;

impl Engine {
    pub(crate) fn order_device(
        &mut self,
        now: Instant,
        number: u64,
        order: DeviceOrder,
        out: &mut Output,
    ) {
        if self.life == Life::Open && !self.failed {
            self.world.storage.order_device(now, number, order);
        } else {
            let result = Err(DeviceRefused::NotOpen);
            out.push(Command::Ordered { number, result });
        }
    }

    pub(crate) fn device_ordered(
        &mut self,
        token: StoreToken,
        result: Result<u16, DeviceRefused>,
        out: &mut Output,
    ) {
        let Use::Order(number) = self.world.storage.take_use(token) else {
            unreachable!("the token is an order's");
        };
        out.push(Command::Ordered { number, result });
    }

    pub(crate) fn device_left(&mut self, disk: Option<DiskId>, ordinal: u16, out: &mut Output) {
        self.world.notices.push(Notice::DeviceLeft(ordinal));
        if let Some(disk) = disk {
            out.push(Command::Release(disk));
        }
    }

    /// Devices of the store that it is used without.
    pub(crate) fn tell_of_absent_devices(&mut self) {
        for device in self.world.storage.store().devices() {
            if let Some(absence) = device.absent {
                let notice = Notice::DeviceAbsent(device.ordinal, absence);
                self.world.notices.push(notice);
            }
        }
    }

    /// Devices that were given, and are none of the store's, are told about and closed.
    pub(crate) fn release_strays(&mut self, strays: &[StrayDevice], out: &mut Output) {
        for StrayDevice { disk, stray } in strays {
            self.world.notices.push(Notice::Stray(*disk, *stray));
            out.push(Command::Release(*disk));
        }
    }
}
