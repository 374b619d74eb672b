//! Settings, and their refusals.

extern crate std;

use super::*;
use crate::lab_tests::Lab;

#[test]
fn settings_are_checked() {
    let mut lab = Lab::new(2);
    let inventory = lab.inventory();
    for (seconds, good) in [
        (0, false),
        (4, false),
        (5, true),
        (3600, true),
        (u64::MAX, false),
    ] {
        let settings = SettingsRecord {
            repair_delay_seconds: seconds,
            ..SettingsRecord::default()
        };
        assert_eq!(
            change_settings(&inventory, &settings).is_ok(),
            good,
            "{seconds}"
        );
    }
    assert_eq!(
        change_settings(&inventory, &SettingsRecord::default()),
        Ok(None)
    );
    for (percent, floor, refused) in [
        (1, 1 << 20, None),
        (100, 16 << 30, None),
        (0, 1 << 20, Some(SettingsError::Slowdown)),
        (101, 1 << 20, Some(SettingsError::Slowdown)),
        (500, 1 << 20, Some(SettingsError::Slowdown)),
        (10, (1 << 20) - 1, Some(SettingsError::BackgroundFloor)),
        (10, (16 << 30) + 1, Some(SettingsError::BackgroundFloor)),
    ] {
        let settings = SettingsRecord {
            background_slowdown_percent: percent,
            background_floor: floor,
            ..SettingsRecord::default()
        };
        assert_eq!(change_settings(&inventory, &settings).err(), refused);
    }
}

/// As a version of before let it be: other settings can be changed all the same.
#[test]
fn what_is_not_changed_is_not_judged() {
    let mut inventory = Lab::new(2).inventory();
    inventory.settings.record.background_slowdown_percent = 500;
    let mut settings = inventory.settings.record.clone();
    settings.rebalance = !settings.rebalance;
    assert!(change_settings(&inventory, &settings).unwrap().is_some());
    settings.background_slowdown_percent = 501;
    let refused = change_settings(&inventory, &settings).unwrap_err();
    let said = std::format!("{refused}");
    assert!(said.contains("1 % to 100 %"), "{said}");
}
