//! Settings of the cluster that the operator changes while it runs.
//!
//! Runs are short: the repair delay, and the time between two scrubs, may be shorter here than an operator could set them
//! (`holdfast_control`), and background work may slow hosts down by more. What is written, and on what condition, is the same.

use holdfast_model::metadata::{Compare, Operation, Transaction};
use holdfast_model::record::{Record, SETTINGS_KEY, SettingsRecord};

use super::Cluster;

/// One of the settings is another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettingsChange {
    /// After so many seconds without a word from a node its replicas are rebuilt elsewhere.
    RepairDelay(u64),
    /// Whether slices move by themselves to even out what nodes hold.
    Rebalance(bool),
    /// By how many percent background work may make hosts' commands slower.
    Slowdown(u32),
    /// Bytes a second that background work gets in any case.
    Floor(u64),
    /// Bytes a second that a node scrubs.
    ScrubRate(u64),
    /// After so many seconds a volume is scrubbed again; never, if there are none.
    ScrubInterval(u64),
}

impl SettingsChange {
    /// What it is called in the coverage.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::RepairDelay(_) => "repair delay",
            Self::Rebalance(_) => "rebalance",
            Self::Slowdown(_) => "slowdown",
            Self::Floor(_) => "floor",
            Self::ScrubRate(_) => "scrub rate",
            Self::ScrubInterval(_) => "scrub interval",
        }
    }

    fn apply(self, settings: &mut SettingsRecord) {
        match self {
            Self::RepairDelay(seconds) => settings.repair_delay_seconds = seconds,
            Self::Rebalance(rebalance) => settings.rebalance = rebalance,
            Self::Slowdown(percent) => settings.background_slowdown_percent = percent,
            Self::Floor(bytes) => settings.background_floor = bytes,
            Self::ScrubRate(bytes) => settings.scrub_rate = bytes,
            Self::ScrubInterval(seconds) => settings.scrub_interval_seconds = seconds,
        }
    }
}

impl Cluster {
    /// The operator changes a setting, over any node that reaches the metadata. Says whether somebody takes the
    /// order, and the setting was another one.
    pub(super) fn change_settings(&mut self, change: SettingsChange) -> bool {
        if self.is_outdated() {
            return false;
        }
        let Some(over) = self.choose_who_is_asked() else {
            return false;
        };
        let Some(inventory) = self.inventory() else {
            return false;
        };
        let before = &inventory.settings;
        let mut settings = before.record.clone();
        change.apply(&mut settings);
        if settings == before.record {
            return false;
        }
        let transaction = Transaction {
            compare: vec![Compare::ModRevision {
                key: SETTINGS_KEY.into(),
                equals: before.revision,
            }],
            success: vec![Operation::put(SETTINGS_KEY.into(), settings.encode())],
            failure: Vec::new(),
        };
        self.write_order(over, transaction);
        true
    }
}
