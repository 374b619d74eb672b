//! What happened, counted: whether a run has gone where it was meant to go.

use std::fmt;

use holdfast_engine::Notice;
use serde::{Deserialize, Serialize};

/// How often engines told of something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tally {
    /// A replica began to lead.
    pub leads: u64,
    /// A replica was taken out.
    pub removed: u64,
    /// A slice was handed over.
    pub handed_over: u64,
    /// A replica was brought up to date by what changed.
    pub joined_fast: u64,
    /// A replica was copied in full.
    pub joined_full: u64,
    /// A node stood still.
    pub stood_still: u64,
    /// A device failed.
    pub devices_failed: u64,
    /// A block was repaired.
    pub repaired: u64,
    /// A block was lost.
    pub lost: u64,
    /// A block was corrected.
    pub corrected: u64,
    /// A slice was scrubbed.
    pub scrubbed: u64,
    /// A segment of a journal had rotted.
    pub journal_rotten: u64,
    /// The metadata was not followed any more.
    pub astray: u64,
    /// A node found that its devices were an old copy.
    pub store_behind: u64,
}

impl Tally {
    pub(crate) fn count(&mut self, notice: &Notice) {
        match notice {
            Notice::Leads(..) => self.leads += 1,
            Notice::Removed { .. } => self.removed += 1,
            Notice::HandedOver { .. } => self.handed_over += 1,
            Notice::Joining { full: false, .. } => self.joined_fast += 1,
            Notice::Joining { full: true, .. } => self.joined_full += 1,
            Notice::StoodStill { .. } => self.stood_still += 1,
            Notice::DeviceFailed(_) => self.devices_failed += 1,
            Notice::Repaired(..) => self.repaired += 1,
            Notice::Lost(..) => self.lost += 1,
            Notice::Corrected(..) => self.corrected += 1,
            Notice::Scrubbed { .. } => self.scrubbed += 1,
            Notice::JournalRotten(_) => self.journal_rotten += 1,
            Notice::MetadataAstray(_) => self.astray += 1,
            Notice::StoreBehind => self.store_behind += 1,
            Notice::PeerUp(_)
            | Notice::PeerDown(_)
            | Notice::Deposed(..)
            | Notice::Spoiled(..)
            | Notice::InSync(..)
            | Notice::Named(..)
            | Notice::Released(..)
            | Notice::MetadataBehind(..)
            | Notice::NotKnownOf(..)
            | Notice::Unreadable(_)
            | Notice::MetadataFollowed
            | Notice::VolumeDeleted(_)
            | Notice::Rejected(_)
            | Notice::Replaced { .. }
            | Notice::Displaced { .. }
            | Notice::Unsaid
            | Notice::Stray(..)
            | Notice::DeviceLeft(_)
            | Notice::DeviceAbsent(..)
            | Notice::NotThatReplica(_) => {}
        }
    }

    /// Adds another run's.
    pub fn add(&mut self, other: &Self) {
        self.leads += other.leads;
        self.removed += other.removed;
        self.handed_over += other.handed_over;
        self.joined_fast += other.joined_fast;
        self.joined_full += other.joined_full;
        self.stood_still += other.stood_still;
        self.devices_failed += other.devices_failed;
        self.repaired += other.repaired;
        self.lost += other.lost;
        self.corrected += other.corrected;
        self.scrubbed += other.scrubbed;
        self.astray += other.astray;
        self.store_behind += other.store_behind;
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "{} primaries, {} hand-overs, {} removals, {} fast and {} full syncs, {} freezes, {} devices failed, \
             {} blocks repaired",
            self.leads,
            self.handed_over,
            self.removed,
            self.joined_fast,
            self.joined_full,
            self.stood_still,
            self.devices_failed,
            self.repaired
        )
    }
}
