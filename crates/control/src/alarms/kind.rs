//! The kinds of alarms: what each is called, how bad it is, when it is raised, what it means and
//! what to do. The interface, messages and the reference all take these texts from here.
//!
//! It refuses to word a case at hand: names and numbers are added by whoever has them.
//!
//! Invariants:
//! - a code is one kind's, and stays so: messages and receivers go by it;
//! - every kind's default threshold is one that [`Threshold::new`] takes.

use super::Threshold;

/// How much an alarm matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum AlarmSeverity {
    /// Somebody should look, and nothing stands still.
    Warning,
    /// Hosts wait, or the next failure makes them wait.
    Critical,
}

/// What an alarm is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum AlarmKind {
    /// A tier of a node is filled to 70 %, in percent.
    PoolFilled,
    /// The same to 85 %, in percent.
    PoolNearlyFull,
    /// The same to 95 %, in percent.
    PoolFull,
    /// A node is down: 1, else 0.
    NodeLost,
    /// A device is missing or has failed: 1, else 0.
    DeviceLost,
    /// A volume has fewer good copies than its policy says: 1, else 0.
    VolumeDegraded,
    /// Hosts wait for a part of a volume: 1, else 0.
    VolumeStopped,
}

/// What there is to know of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AlarmText {
    /// What the interface and messages call it.
    pub code: &'static str,
    /// In a few words.
    pub title: &'static str,
    /// What it means.
    pub meaning: &'static str,
    /// What to do.
    pub action: &'static str,
}

const SECOND_MS: u64 = 1000;
const MINUTE_MS: u64 = 60 * SECOND_MS;
const MAKE_ROOM: &str = "Have hosts unmap what they do not need, add a node or devices, or delete \
    what nobody needs.";

impl AlarmKind {
    /// Every kind, in the order of the reference.
    pub const ALL: [Self; 7] = [
        Self::PoolFilled,
        Self::PoolNearlyFull,
        Self::PoolFull,
        Self::NodeLost,
        Self::DeviceLost,
        Self::VolumeDegraded,
        Self::VolumeStopped,
    ];

    /// How much it matters.
    #[must_use]
    pub const fn severity(self) -> AlarmSeverity {
        match self {
            Self::PoolFilled | Self::PoolNearlyFull | Self::VolumeDegraded => {
                AlarmSeverity::Warning
            }
            Self::PoolFull | Self::NodeLost | Self::DeviceLost | Self::VolumeStopped => {
                AlarmSeverity::Critical
            }
        }
    }

    /// When it is raised and cleared, as long as nobody has set it otherwise.
    #[must_use]
    pub fn threshold(self) -> Threshold {
        let (set, clear, hold_ms) = match self {
            Self::PoolFilled => (70, 65, MINUTE_MS),
            Self::PoolNearlyFull => (85, 80, MINUTE_MS),
            Self::PoolFull => (95, 90, 0),
            // A node that starts anew within seconds is not lost.
            Self::NodeLost => (1, 1, 10 * SECOND_MS),
            Self::DeviceLost => (1, 1, 10 * SECOND_MS),
            // A copy that missed a few writes is back within that time.
            Self::VolumeDegraded => (1, 1, MINUTE_MS),
            // Less is what a node's death costs.
            Self::VolumeStopped => (1, 1, 2 * SECOND_MS),
        };
        Threshold::new(set, clear, hold_ms).expect("the defaults are thresholds that work")
    }

    /// What people are told.
    #[must_use]
    pub const fn text(self) -> AlarmText {
        match self {
            Self::PoolFilled => AlarmText {
                code: "pool-filled",
                title: "A node's tier fills up",
                meaning: "Much of the room is used. Nothing is lacking yet.",
                action: MAKE_ROOM,
            },
            Self::PoolNearlyFull => AlarmText {
                code: "pool-nearly-full",
                title: "A node's tier is nearly full",
                meaning: "Little room is left, and there may be none for a copy that has to be made.",
                action: MAKE_ROOM,
            },
            Self::PoolFull => AlarmText {
                code: "pool-full",
                title: "A node's tier is about to be full",
                meaning: "Writes that need room will soon be refused there.",
                action: MAKE_ROOM,
            },
            Self::NodeLost => AlarmText {
                code: "node-lost",
                title: "A node is down",
                meaning: "What it held has a copy less until it is back or that is rebuilt elsewhere.",
                action: "Start it. If it does not come back, add another node and remove this one.",
            },
            Self::DeviceLost => AlarmText {
                code: "device-lost",
                title: "A device is missing or has failed",
                meaning: "What it held has a copy less until it is back or that is rebuilt elsewhere.",
                action: "Bring it back, or use `holdfast device replace`.",
            },
            Self::VolumeDegraded => AlarmText {
                code: "volume-degraded",
                title: "A volume is degraded",
                meaning: "It is served, with fewer good copies than its policy says.",
                action: "See `holdfast status --explain`. Take no other node down meanwhile.",
            },
            Self::VolumeStopped => AlarmText {
                code: "volume-stopped",
                title: "A volume is stopped",
                meaning: "Hosts wait for reads or writes of a part of it.",
                action: "Bring back the node or device that `holdfast status --explain` names.",
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_kind_has_a_code_of_its_own_and_a_threshold() {
        let codes: BTreeSet<_> = AlarmKind::ALL.iter().map(|kind| kind.text().code).collect();
        assert_eq!(codes.len(), AlarmKind::ALL.len());
        for kind in AlarmKind::ALL {
            let _ = kind.threshold();
            let text = kind.text();
            assert!(text.meaning.ends_with('.') && text.action.ends_with('.'));
        }
    }
}
