//! Watches how much room is left on the node's devices, and says so when that changes.

use holdfast_api::documents::{Room, RoomLevel};

/// Who watches it.
#[derive(Debug, Default)]
pub(crate) struct RoomWatch {
    told: RoomLevel,
}

/// What more must be free before a level is taken back, in percent of all.
const HYSTERESIS_PERCENT: u64 = 2;

impl RoomWatch {
    /// How much room there is now. Returns the level if it is another one than was told.
    pub(crate) fn note(&mut self, room: Room) -> Option<RoomLevel> {
        let level = room.level();
        // What goes up and down around a limit is told once.
        let back = Room {
            used_bytes: room.used_bytes + room.bytes / 100 * HYSTERESIS_PERCENT,
            ..room
        };
        let changed = level > self.told || back.level() < self.told;
        changed.then(|| {
            self.told = level;
            level
        })
    }

    /// Writes it into the log.
    pub(crate) fn tell(&mut self, room: Room) {
        if room.bytes == 0 {
            // The devices are not open yet, or have failed.
            return;
        }
        let percent = room.used_percent();
        let (free_bytes, bytes) = (room.free_bytes(), room.bytes);
        match self.note(room) {
            None => {}
            Some(RoomLevel::Roomy) => {
                tracing::info!(free_bytes, bytes, "there is enough room again");
            }
            Some(RoomLevel::Low) => {
                tracing::warn!(free_bytes, bytes, "the room is {percent} % full");
            }
            Some(RoomLevel::Full) => tracing::error!(
                free_bytes,
                bytes,
                "the room is full: writes that need more than is left are refused; unmap what is not \
                 needed (that is free within 16 s), or delete volumes"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_level_is_told_once_until_it_is_left() {
        let mut watch = RoomWatch::default();
        let mut note = |used: u64| {
            watch.note(Room {
                bytes: 1000 << 20,
                used_bytes: used << 20,
            })
        };
        assert_eq!(note(100), None);
        assert_eq!(note(850), Some(RoomLevel::Low));
        assert_eq!(note(900), None);
        assert_eq!(note(840), None, "near the limit");
        assert_eq!(note(855), None);
        assert_eq!(note(999), Some(RoomLevel::Full));
        assert_eq!(note(990), None);
        assert_eq!(note(1000), None);
        assert_eq!(note(900), Some(RoomLevel::Low));
        assert_eq!(note(1000), Some(RoomLevel::Full));
        assert_eq!(note(100), Some(RoomLevel::Roomy));
        assert_eq!(note(100), None);
    }
}
