//! What the metrics tell of the devices of this node's store.

use holdfast_api::documents::{Device, LocalReport};
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::{Registry, Unit};

use super::labels::{DeviceLabel, DeviceStateLabel};
use super::{Level, level, register_all};

/// What is known of each device.
#[derive(Clone, Debug, Default)]
pub(super) struct Devices {
    bytes: Family<DeviceLabel, Level>,
    used: Family<DeviceLabel, Level>,
    state: Family<DeviceStateLabel, Level>,
    detached: Level,
}

impl Devices {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register(
            "device_state",
            "1 for what is done with a device, by its number: in-use, draining, drained, leaving, missing or lost",
            self.state.clone(),
        );
        let devices = [
            ("device", "What a device can hold", &self.bytes),
            (
                "device_used",
                "What it holds; of one that is missing or lost, what is lacking because of all that are",
                &self.used,
            ),
        ];
        register_all(registry, Some(&Unit::Bytes), devices);
        registry.register(
            "devices_detached",
            "Devices that were taken away, or cut short, while this node has them open",
            self.detached.clone(),
        );
    }

    /// What each device holds, and what is done with it. Those that have left are told no more.
    pub(super) fn tell(&self, report: &LocalReport) {
        self.bytes.clear();
        self.used.clear();
        self.state.clear();
        let is_detached = |it: &&Device| it.detached.is_some() && !it.is_absent;
        let detached = report.devices.iter().filter(is_detached);
        self.detached.set(level(detached.count() as u64));
        for device in &report.devices {
            let number = device.number;
            let label = DeviceLabel { device: number };
            let bytes = self.bytes.get_or_create(&label);
            bytes.set(level(device.bytes));
            let used = self.used.get_or_create(&label);
            used.set(level(device.used_bytes));
            let state = DeviceStateLabel {
                device: number,
                state: device.state.as_str(),
            };
            self.state.get_or_create(&state).set(1);
        }
    }
}
