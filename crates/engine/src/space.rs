//! The space beneath volumes (SBC-3 4.7.3.8, Logical block provisioning thresholds): how much is left for a volume, what it takes,
//! and the unit attention when little is left.
//!
//! Nodes tell each other what room they have, and what the slices take that they lead. What is left for a volume is
//! what the node of its in-sync replicas has left that is nearest to having too little: every copy needs its place.
//!
//! Invariants:
//! - nothing is decided by what is known here but what hosts are told;
//! - hosts are told nothing of a volume before all nodes that hold it, or lead it, have said what they have;
//! - they are told once of each threshold that no more than that is left, until there is clearly more again.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use holdfast_model::record::SliceRecord;
use holdfast_model::{NodeId, PAGE_SIZE, VolumeId};
use holdfast_scsi::limits::THRESHOLDS;
use holdfast_scsi::{Provisioning, UnitAttention};
use holdfast_stdx::{Duration, Instant};
use holdfast_wire::{Message, SPACE_VOLUMES_MAX, Space};

use crate::engine::Engine;

/// How often nodes say it: writes at full speed take a gigabyte or two meanwhile.
const SAID_EVERY: Duration = Duration::from_secs(2);
/// Hosts are told when no more than so many percent of a node's pages are free: it is filled to 70, 85 and 95 %, as alarms say.
const LEFT_PERCENT: [u64; THRESHOLDS] = [30, 15, 5];
/// There is clearly more again with one page more in so many of all, so that what goes up and down around the limit is told once.
const CLEARLY_SHARE: u64 = 50;

/// What nodes have said, and hosts have been told.
#[derive(Debug, Default)]
pub(crate) struct Spaces {
    said: BTreeMap<NodeId, Said>,
    /// How many thresholds hosts were told of, of volumes where that is any.
    told: BTreeMap<VolumeId, usize>,
    due: Instant,
}

/// What a node has said last, in pages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Said {
    all: u64,
    free: u64,
    /// What the slices of each volume take that it leads.
    volumes: BTreeMap<VolumeId, u64>,
}

impl From<Space> for Said {
    fn from(space: Space) -> Self {
        Self {
            all: space.pages,
            free: space.pages_free,
            volumes: space.volumes.into_iter().collect(),
        }
    }
}

impl Spaces {
    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        Some(self.due)
    }

    /// It is said again as soon as possible.
    pub(crate) fn hurry(&mut self, now: Instant) {
        self.due = now;
    }

    /// What is left for a volume and what it takes, in pages; none before everybody concerned has said so.
    fn beneath<'a>(
        &self,
        volume: VolumeId,
        records: impl Iterator<Item = &'a SliceRecord>,
    ) -> Option<Beneath> {
        let (mut holders, mut leaders) = (BTreeSet::new(), BTreeSet::new());
        for record in records {
            holders.extend(record.in_sync());
            leaders.insert(record.primary);
        }
        let mut used = 0_u64;
        for node in leaders {
            let of_it = self.said.get(&node)?.volumes.get(&volume);
            used = used.saturating_add(of_it.copied().unwrap_or(0));
        }
        let mut nearest: Option<Beneath> = None;
        for node in holders {
            let Said { all, free, .. } = *self.said.get(&node)?;
            let beneath = Beneath { free, all, used };
            if nearest.as_ref().is_none_or(|it| beneath.is_nearer_than(it)) {
                nearest = Some(beneath);
            }
        }
        nearest
    }
}

/// In pages, of one node.
#[derive(Debug, PartialEq, Eq)]
struct Beneath {
    free: u64,
    all: u64,
    used: u64,
}

impl Beneath {
    /// Whether it is nearer to having nothing left, as shares of all that it has.
    fn is_nearer_than(&self, other: &Self) -> bool {
        let one = u128::from(self.free) * u128::from(other.all);
        one < u128::from(other.free) * u128::from(self.all)
    }

    fn thresholds(&self) -> [u64; THRESHOLDS] {
        LEFT_PERCENT.map(|percent| (u128::from(self.all) * u128::from(percent) / 100) as u64)
    }

    /// How many thresholds are reached, if there are so many pages free.
    fn reached(&self, free: u64) -> usize {
        let thresholds = self.thresholds();
        thresholds.iter().filter(|left| free <= **left).count()
    }

    /// How many thresholds hosts are to have been told of, after so many.
    fn told_after(&self, told: usize) -> usize {
        let clearly = self.reached(self.free.saturating_sub(self.all / CLEARLY_SHARE));
        self.reached(self.free).max(told.min(clearly))
    }

    fn provisioning(&self) -> Provisioning {
        let bytes = |pages: u64| pages.saturating_mul(PAGE_SIZE as u64);
        Provisioning {
            used_bytes: bytes(self.used),
            available_bytes: bytes(self.free),
            thresholds_bytes: Some(self.thresholds().map(bytes)),
        }
    }
}

impl Engine {
    /// Another node says what it has.
    pub(crate) fn handle_space(&mut self, peer: NodeId, space: Space) {
        self.spaces.said.insert(peer, space.into());
    }

    /// Says what there is here, and looks at what there is everywhere.
    pub(crate) fn look_at_space(&mut self) {
        let now = self.world.now;
        if self.spaces.due > now {
            return;
        }
        self.spaces.due = now + SAID_EVERY;
        if !self.is_alive() {
            return;
        }
        let space = self.space_here();
        let message = Message::from(space.clone());
        let since = message.version();
        let linked: Vec<NodeId> = self.world.peers.nodes().collect();
        for node in linked {
            let link = self.world.peers.link(node);
            if link.is_some_and(|link| link.peer.version >= since) {
                self.world.peers.send(node, message.clone());
            }
        }
        self.spaces.said.insert(self.config.node, space.into());
        let cluster = &self.world.cluster;
        self.spaces.said.retain(|node, _| cluster.belongs(*node));
        let volumes: Vec<VolumeId> = cluster.volumes.keys().copied().collect();
        let known = &cluster.volumes;
        self.spaces.told.retain(|it, _| known.contains_key(it));
        for volume in volumes {
            self.look_at_space_of(volume);
        }
    }

    fn look_at_space_of(&mut self, volume: VolumeId) {
        let records = self.world.cluster.slices_of(volume);
        let Some(beneath) = self.spaces.beneath(volume, records) else {
            return;
        };
        let provisioning = beneath.provisioning();
        self.volumes.set_provisioning(volume, provisioning);
        let before = self.spaces.told.get(&volume).copied().unwrap_or(0);
        let told = beneath.told_after(before);
        if told == 0 {
            self.spaces.told.remove(&volume);
        } else {
            self.spaces.told.insert(volume, told);
        }
        if told > before {
            let attention = UnitAttention::SoftThresholdReached;
            self.portal.raise(&self.volumes, volume, attention);
        }
    }

    /// What there is here.
    fn space_here(&self) -> Space {
        let store = self.world.storage.store();
        let usage = store.usage();
        let mut volumes: Vec<(VolumeId, u64)> = Vec::new();
        let own = self.config.node;
        for slice in self.replicas.keys() {
            let record = self.world.cluster.slices.get(slice);
            if record.is_none_or(|(record, _)| record.primary != own) {
                continue;
            }
            let pages = store.allocated_pages(*slice);
            match volumes.last_mut() {
                Some((volume, sum)) if *volume == slice.volume => *sum += pages,
                _ => volumes.push((slice.volume, pages)),
            }
        }
        volumes.truncate(SPACE_VOLUMES_MAX);
        Space {
            pages: usage.pages,
            pages_free: usage.pages_free(),
            volumes,
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;
    use crate::port_groups::tests::record;

    /// The one that the records are of.
    const VOLUME: VolumeId = VolumeId(1);

    fn said(pages: u64, pages_free: u64, used: u64) -> Said {
        let volumes = vec![(VOLUME, used), (VolumeId(2), 1000)];
        let space = Space {
            pages,
            pages_free,
            volumes,
        };
        space.into()
    }

    #[test]
    fn the_node_that_is_nearest_to_having_too_little_counts() {
        let records = [record(0, 1, &[1, 2]), record(1, 2, &[2, 3])];
        let mut spaces = Spaces::default();
        for (node, space) in [
            (1, said(1000, 300, 4)),
            (2, said(5000, 1050, 6)),
            // Leads nothing of it.
            (4, said(1000, 1, 900)),
        ] {
            spaces.said.insert(NodeId(node), space);
        }
        // The third has said nothing.
        assert_eq!(spaces.beneath(VOLUME, records.iter()), None);
        spaces.said.insert(NodeId(3), said(1000, 1000, 0));
        let beneath = spaces.beneath(VOLUME, records.iter()).unwrap();
        assert_eq!(
            beneath,
            Beneath {
                free: 1050,
                all: 5000,
                used: 10,
            }
        );
        assert_eq!(
            beneath.provisioning(),
            Provisioning {
                used_bytes: 10 * PAGE_SIZE as u64,
                available_bytes: 1050 * PAGE_SIZE as u64,
                thresholds_bytes: Some([1500, 750, 250].map(|it| it * PAGE_SIZE as u64)),
            }
        );
    }

    #[test]
    fn hosts_are_told_of_each_threshold_once_until_there_is_clearly_more() {
        let mut told = 0;
        let mut look = |free: u64| {
            let beneath = Beneath {
                free,
                all: 1000,
                used: 1,
            };
            let before = told;
            told = beneath.told_after(before);
            told > before
        };
        for (free, is_told) in [
            (301, false),
            (300, true),
            (310, false),
            (299, false),
            // Two at a time are one.
            (50, true),
            (151, false),
            (49, true),
            (0, false),
            (1000, false),
            (300, true),
        ] {
            assert_eq!(look(free), is_told, "{free} free");
        }
    }
}
