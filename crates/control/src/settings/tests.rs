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
        (900, 16 << 30, None),
        (0, 1 << 20, Some(SettingsError::Slowdown)),
        (901, 1 << 20, Some(SettingsError::Slowdown)),
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
