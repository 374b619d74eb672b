//! The space beneath volumes (SBC-3 4.7.3.8, Logical block provisioning thresholds): how much is left for a volume, what it takes,
//! and the unit attention when little is left.
//!
//! Nodes tell each other what room they have, and what the slices take that they lead. What is left for a volume is
//! what the node of its in-sync replicas has left that is nearest to having too little: every copy needs its place.
//!
//! Invariants:
//! - nothing is decided by what is known here but what hosts are told;
//! - hosts are told nothing of a volume before all nodes that hold it, or lead it, have said what they have;
//! - they are told once that little is left, until there is clearly more again.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use holdfast_model::record::SliceRecord;
use holdfast_model::{NodeId, PAGE_SIZE, VolumeId};
use holdfast_scsi::{Provisioning, UnitAttention};
use holdfast_stdx::{Duration, Instant};
use holdfast_wire::{Message, SPACE_VOLUMES_MAX, Space};

use crate::engine::Engine;

/// How often nodes say it: writes at full speed take a gigabyte or two meanwhile.
const SAID_EVERY: Duration = Duration::from_secs(2);
/// Little is left where no more than one in so many pages of a node is free: its log says so at the same share.
const LITTLE_SHARE: u64 = 5;
/// There is clearly more again with one page more in so many of all, so that what goes up and down around the limit is told once.
const CLEARLY_SHARE: u64 = 50;

/// What nodes have said, and hosts have been told.
#[derive(Debug, Default)]
pub(crate) struct Spaces {
    said: BTreeMap<NodeId, Said>,
    /// Volumes that have little left.
    little: BTreeSet<VolumeId>,
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
            let beneath = Beneath {
                free,
                little: all / LITTLE_SHARE,
                clearly: all / LITTLE_SHARE + all / CLEARLY_SHARE,
                used,
            };
            if nearest
                .as_ref()
                .is_none_or(|it| beneath.margin() < it.margin())
            {
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
    /// So many are little.
    little: u64,
    /// More than so many are enough again.
    clearly: u64,
    used: u64,
}

impl Beneath {
    /// How far it is from having little left; negative beyond.
    fn margin(&self) -> i128 {
        i128::from(self.free) - i128::from(self.little)
    }

    fn provisioning(&self) -> Provisioning {
        let bytes = |pages: u64| pages.saturating_mul(PAGE_SIZE as u64);
        Provisioning {
            used_bytes: bytes(self.used),
            available_bytes: bytes(self.free),
            threshold_bytes: Some(bytes(self.little)),
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
        self.spaces.little.retain(|it| known.contains_key(it));
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
        if beneath.free > beneath.clearly {
            self.spaces.little.remove(&volume);
        } else if beneath.free <= beneath.little && self.spaces.little.insert(volume) {
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
                little: 1000,
                clearly: 1100,
                used: 10,
            }
        );
        assert_eq!(
            beneath.provisioning(),
            Provisioning {
                used_bytes: 10 * PAGE_SIZE as u64,
                available_bytes: 1050 * PAGE_SIZE as u64,
                threshold_bytes: Some(1000 * PAGE_SIZE as u64),
            }
        );
    }
}
