//! The kinds of alarms: what each is called, how bad it is, when it is raised, what it means and
//! what to do. The interface, messages and the reference all take these texts from here.
//!
//! It refuses to word a case at hand: names and numbers are added by whoever has them.
//!
//! Invariants:
//! - a code is one kind's, and stays so: messages and receivers go by it;
//! - every kind's default threshold is one that [`Threshold::new`] takes.

use super::{Direction, Threshold};

/// How much an alarm matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum AlarmSeverity {
    /// Somebody should look, and nothing stands still.
    Warning,
    /// Hosts wait, or the next failure makes them wait.
    Critical,
}

/// What an alarm's value is counted in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AlarmUnit {
    /// It is so (1) or not (0).
    State,
    /// Hundredths.
    Percent,
    /// Thousandths of a second.
    Milliseconds,
    /// Seconds.
    Seconds,
    /// Days of 24 hours.
    Days,
}

/// What an alarm is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum AlarmKind {
    /// The room on a node is filled to 70 %.
    PoolFilling,
    /// The same to 85 %.
    PoolLow,
    /// The same to 95 %.
    PoolAlmostFull,
    /// Volumes promise more than there is, in percent of the room.
    Overcommitted,
    /// A node is down, or does not take part.
    NodeLost,
    /// A device is missing, has failed, or was taken away.
    DeviceLost,
    /// A device answers slowly: the 99th percentile of the last minute, in milliseconds.
    DeviceSlow,
    /// A volume has fewer good copies than its policy says.
    VolumeDegraded,
    /// Hosts wait for a part of a volume.
    VolumeStopped,
    /// Seconds in which nothing was brought to a copy that lacks something.
    SyncStuck,
    /// Blocks on a node that cannot be read or fail their checksum.
    BadBlocks,
    /// The longest that hosts waited at a portal within the last hour, in milliseconds.
    StallBudget,
    /// A member of etcd does not answer.
    MetadataMemberLost,
    /// A node does not follow the metadata, or none does.
    MetadataLost,
    /// etcd takes no change.
    MetadataFull,
    /// Days until a certificate expires.
    CertificateExpires,
    /// How far a node's clock is from what most nodes have, in milliseconds.
    ClockSkew,
    /// For how many seconds a node is in maintenance.
    MaintenanceLasts,
}

/// What there is to know of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AlarmText {
    /// What the interface and messages call it.
    pub code: &'static str,
    /// How much it matters.
    pub severity: AlarmSeverity,
    /// What its value is counted in.
    pub unit: AlarmUnit,
    /// In a few words.
    pub title: &'static str,
    /// What it means.
    pub meaning: &'static str,
    /// What to do.
    pub action: &'static str,
    /// Whether it is raised by values that are high, or low.
    direction: Direction,
    /// The value that sets it, the one that clears it, and for how many seconds either has to hold.
    default: (u64, u64, u64),
}

const ROOM: &str = "Have hosts unmap what they do not need (`fstrim`), add devices or a node (\"Grow\" in docs/day2.md), or delete \
                    what nobody needs.";

impl AlarmKind {
    /// Every kind, in the order of the reference.
    pub const ALL: [Self; 18] = [
        Self::PoolFilling,
        Self::PoolLow,
        Self::PoolAlmostFull,
        Self::Overcommitted,
        Self::NodeLost,
        Self::DeviceLost,
        Self::DeviceSlow,
        Self::VolumeDegraded,
        Self::VolumeStopped,
        Self::SyncStuck,
        Self::BadBlocks,
        Self::StallBudget,
        Self::MetadataMemberLost,
        Self::MetadataLost,
        Self::MetadataFull,
        Self::CertificateExpires,
        Self::ClockSkew,
        Self::MaintenanceLasts,
    ];

    /// The kind with that code, if this version knows it.
    #[must_use]
    pub fn of(code: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.text().code == code)
    }

    /// When it is raised and cleared, as long as nobody has set it otherwise.
    #[must_use]
    pub fn threshold(self) -> Threshold {
        let AlarmText {
            direction,
            default: (set, clear, hold_seconds),
            ..
        } = self.text();
        Threshold::new(direction, set, clear, hold_seconds * 1000)
            .expect("the defaults are thresholds that work")
    }

    /// Whether it is raised by values that are high, or low.
    #[must_use]
    pub const fn direction(self) -> Direction {
        self.text().direction
    }

    /// What people are told.
    #[must_use]
    pub const fn text(self) -> AlarmText {
        TEXTS[self as usize]
    }
}

/// In the order of the kinds.
const TEXTS: [AlarmText; AlarmKind::ALL.len()] = [
    AlarmText {
        code: "pool-filling",
        severity: AlarmSeverity::Warning,
        unit: AlarmUnit::Percent,
        direction: Direction::Rising,
        default: (70, 68, 60),
        title: "A node's room fills up",
        meaning: "Much of the room on a node is used. Nothing is lacking yet. Hosts of volumes on it are told, too (a unit attention, 38h/07h).",
        action: ROOM,
    },
    AlarmText {
        code: "pool-low",
        severity: AlarmSeverity::Warning,
        unit: AlarmUnit::Percent,
        direction: Direction::Rising,
        default: (85, 83, 60),
        title: "A node has little room left",
        meaning: "Little room is left on a node, and there may be none for copies that have to be made when another node is lost. Hosts are told, too.",
        action: ROOM,
    },
    AlarmText {
        code: "pool-almost-full",
        severity: AlarmSeverity::Critical,
        unit: AlarmUnit::Percent,
        direction: Direction::Rising,
        default: (95, 93, 0),
        title: "A node is almost full",
        meaning: "Writes that need room will soon be refused on a node. What has been written stays readable and can be overwritten. Hosts are told, too.",
        action: ROOM,
    },
    AlarmText {
        code: "overcommitted",
        severity: AlarmSeverity::Warning,
        unit: AlarmUnit::Percent,
        direction: Direction::Rising,
        default: (300, 280, 60),
        title: "Volumes promise much more than there is",
        meaning: "The sizes of all volumes, times their copies, are far above the room on all nodes. That is how thin volumes are meant, as long as somebody watches how they fill.",
        action: "Add devices or nodes before hosts write what they were promised; or set the limit that suits you (`holdfast alarm set overcommitted`).",
    },
    AlarmText {
        code: "node-lost",
        severity: AlarmSeverity::Critical,
        unit: AlarmUnit::State,
        direction: Direction::Rising,
        default: (1, 1, 10),
        title: "A node is lost",
        meaning: "A node does not answer, or nothing that it holds can be relied on. What it held has a copy less until it is back, or that is made anew elsewhere. One that was told to stop is not lost before it has been away for ten minutes.",
        action: "On its machine: `systemctl start holdfast-node`, and if it does not stay up, `journalctl -u holdfast-node`; \
                 one of a demo: the line that the demo printed when it ended (`command` in `demo.json`). \
                 Where the machine does not answer either, see to it and its network. If it does not come back: \"A node is lost\" in docs/day2.md.",
    },
    AlarmText {
        code: "device-lost",
        severity: AlarmSeverity::Critical,
        unit: AlarmUnit::State,
        direction: Direction::Rising,
        default: (1, 1, 10),
        title: "A device is lost",
        meaning: "A node does without one of its devices, or goes on with one that it would not find at its next start. What was on it has a copy less.",
        action: "`holdfast device list` says which. Bring it back, or replace it (\"Replace a disk\" in docs/day2.md). Do not restart a node whose device was taken away.",
    },
    AlarmText {
        code: "device-slow",
        severity: AlarmSeverity::Warning,
        unit: AlarmUnit::Milliseconds,
        direction: Direction::Rising,
        default: (500, 250, 120),
        title: "A device answers slowly",
        meaning: "Of a device's operations one in a hundred takes longer than the limit. Disks do that before they fail, and every copy waits for the slowest.",
        action: "Compare it with its like (`holdfast history device`); look at SMART and the kernel's log; replace it if that goes on.",
    },
    AlarmText {
        code: "volume-degraded",
        severity: AlarmSeverity::Warning,
        unit: AlarmUnit::State,
        direction: Direction::Rising,
        default: (1, 1, 60),
        title: "A volume is degraded",
        meaning: "A volume is served, with fewer good copies than its policy says.",
        action: "Take no other node down meanwhile. `holdfast status --explain` says what it waits for, and how long it takes.",
    },
    AlarmText {
        code: "volume-stopped",
        severity: AlarmSeverity::Critical,
        unit: AlarmUnit::State,
        direction: Direction::Rising,
        default: (1, 1, 5),
        title: "A volume is stopped",
        meaning: "Hosts wait for reads or writes of a part of a volume.",
        action: "Bring back the node or device that `holdfast status --explain` names.",
    },
    AlarmText {
        code: "sync-stuck",
        severity: AlarmSeverity::Warning,
        unit: AlarmUnit::Seconds,
        direction: Direction::Rising,
        default: (900, 60, 0),
        title: "A sync does not get on",
        meaning: "A copy lacks something, and for a long time nothing of it was brought, though nobody is waited for that is down.",
        action: "`holdfast tasks` says where it stands; `holdfast status --explain` what it waits for: room, a device, or a busy node (`settings set --background-floor`).",
    },
    AlarmText {
        code: "bad-blocks",
        severity: AlarmSeverity::Warning,
        unit: AlarmUnit::State,
        direction: Direction::Rising,
        default: (1, 1, 60),
        title: "Blocks are bad",
        meaning: "Blocks of a copy are bad. With a good copy elsewhere they are put right within seconds, so there is none, or it cannot be reached. Without one hosts get MEDIUM ERROR for them.",
        action: "Bring back nodes that are away. If a device has more and more of them, replace it.",
    },
    AlarmText {
        code: "stall-budget",
        severity: AlarmSeverity::Warning,
        unit: AlarmUnit::Milliseconds,
        direction: Direction::Rising,
        default: (2000, 2000, 0),
        title: "Hosts waited for long",
        meaning: "Commands of hosts waited longer than the limit at a portal within the last hour. A killed node costs about one second.",
        action: "`holdfast stalls --since 1h` has each with its cause.",
    },
    AlarmText {
        code: "metadata-member-lost",
        severity: AlarmSeverity::Warning,
        unit: AlarmUnit::State,
        direction: Direction::Rising,
        default: (1, 1, 30),
        title: "A member of the metadata is lost",
        meaning: "A member of etcd does not answer. Volumes do not notice. Of three members no other may be lost.",
        action: "Start that machine's node or witness again.",
    },
    AlarmText {
        code: "metadata-lost",
        severity: AlarmSeverity::Critical,
        unit: AlarmUnit::State,
        direction: Direction::Rising,
        default: (1, 1, 30),
        title: "The metadata is not followed",
        meaning: "A node does not reach the metadata, or does not believe it: it serves on what it has, and takes nothing over. Of the cluster: no node that answers does, so that nothing can be changed, and no node that dies is replaced; other alarms are not raised meanwhile.",
        action: "Where it is not reached: the network, etcd's majority (`holdfast status --explain` at any node says which members answer). Where it is not believed: \"Backup\" in docs/deployment.md.",
    },
    AlarmText {
        code: "metadata-full",
        severity: AlarmSeverity::Critical,
        unit: AlarmUnit::State,
        direction: Direction::Rising,
        default: (1, 1, 0),
        title: "The metadata is full",
        meaning: "etcd's database has reached its quota, and takes no change: no node that dies is replaced.",
        action: "\"When etcd is full\" in docs/deployment.md.",
    },
    AlarmText {
        code: "certificate-expires",
        severity: AlarmSeverity::Warning,
        unit: AlarmUnit::Days,
        direction: Direction::Falling,
        default: (30, 31, 3600),
        title: "A certificate expires soon",
        meaning: "A certificate that a node uses expires: its own, or that of the cluster's authority; or the one that it shows to an etcd that somebody else runs, which is told of by itself, and counts as if it were good for 120 days in all where it is for less; or that of a witness, which is told of its member of etcd. Nodes and witnesses renew their own long before; without a valid one nobody reaches them, or they do not reach etcd.",
        action: "See the log of the node, or witness, for why its own was not renewed; of the authority: \"To replace the authority\" in docs/security.md; of the one for etcd (`metadata.certificate`): put a new one and its key into the files, which are read again without a restart (\"TLS to etcd\" in docs/security.md).",
    },
    AlarmText {
        code: "clock-skew",
        severity: AlarmSeverity::Warning,
        unit: AlarmUnit::Milliseconds,
        direction: Direction::Rising,
        default: (1000, 500, 60),
        title: "Clocks differ",
        meaning: "A node's clock is not that of the others. No data depends on it; logs, history, certificates and logins do.",
        action: "Have the machine's clock set by NTP (chrony, systemd-timesyncd).",
    },
    AlarmText {
        code: "maintenance-lasts",
        severity: AlarmSeverity::Warning,
        unit: AlarmUnit::Seconds,
        direction: Direction::Rising,
        default: (86_400, 86_400, 0),
        title: "Maintenance lasts",
        meaning: "A node has been in maintenance for a day, or as long as the limit says. Nothing that it holds is made anew elsewhere, and what is lacking because it is away raises no other alarm.",
        action: "End it: `holdfast node maintenance off NODE`. If the node does not come back: \"A node is lost\" in docs/day2.md. If the work takes so long, take note of this alarm (`holdfast alarm acknowledge`).",
    },
];

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_kind_has_a_code_of_its_own_and_a_threshold() {
        let codes: BTreeSet<_> = AlarmKind::ALL.iter().map(|kind| kind.text().code).collect();
        assert_eq!(codes.len(), AlarmKind::ALL.len());
        for (place, kind) in AlarmKind::ALL.into_iter().enumerate() {
            assert_eq!(
                kind as usize, place,
                "the texts are in the order of the kinds"
            );
            let _ = kind.threshold();
            let text = kind.text();
            assert!(text.meaning.ends_with('.') && text.action.ends_with('.'));
            assert_eq!(AlarmKind::of(text.code), Some(kind));
        }
        assert_eq!(AlarmKind::of("none"), None);
    }
}
