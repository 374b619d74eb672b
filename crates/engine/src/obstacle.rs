//! What keeps commands from being done, as far as this node knows: for the stall ledger.
//!
//! A portal knows its own replica of a slice, its own disks, and which nodes it hears. What another
//! node's primary waits for it can only guess from those: of a primary that is there, and whose fellows
//! are there with quick disks, nothing is known.
//!
//! Invariants:
//! - nothing here changes anything but the ledger;
//! - it is looked before an event is handled, so that what ends a stall has not happened yet.

use holdfast_iscsi::target::SessionId;
use holdfast_model::{NodeId, SliceId, VolumeId};
use holdfast_replica::timing::HEARTBEAT;
use holdfast_replica::{Obstacle, Seeming, TELLING};
use holdfast_stdx::Duration;

use crate::engine::Engine;
use crate::part::{Owner, Part, PartKind, Whereabouts};
use crate::stall::{Blame, StallCause};

/// A node that has said nothing for two heartbeats' time counts as lost, in the ledger.
const SILENT: Duration = Duration::from_millis(2 * HEARTBEAT.as_millis() as u64);

/// The engine is told something once in a heartbeat's time at least. Between two of its steps so much
/// more has passed only if the process stood still.
pub(crate) const STANDSTILL_MIN: Duration =
    Duration::from_millis(HEARTBEAT.as_millis() as u64 * 3 / 2);

impl Engine {
    /// Looks at what is stalled, and why. `gap` is how long the engine was told nothing before.
    pub(crate) fn look_at_stalls(&mut self, gap: Duration) {
        let now = self.world.now;
        if !self.portal.stalls.is_due(now) {
            return;
        }
        let stalled = self.portal.stalls.stalled(now).into_iter();
        let stood_still = gap >= STANDSTILL_MIN;
        let blames: alloc::vec::Vec<_> = stalled
            .map(|key| {
                let blame = if stood_still {
                    Blame {
                        cause: StallCause::Standstill,
                        slice: None,
                        node: Some(self.config.node),
                    }
                } else {
                    self.blame(key)
                };
                (key, blame)
            })
            .collect();
        self.portal.stalls.looked(now, &blames);
    }

    /// What keeps the oldest command of a volume, or of a session with it, from being done.
    fn blame(&self, (volume, session): (VolumeId, Option<SessionId>)) -> Blame {
        let is_meant = |part: &&Part| {
            let Owner::Task { task, .. } = part.owner else {
                return false;
            };
            part.slice.volume == volume && self.portal.is_awaited(task, session)
        };
        let oldest = self.parts.all().filter(is_meant).min_by_key(|part| {
            let command = part.command;
            (part.arrived, command)
        });
        match oldest {
            Some(part) => self.blame_for(part),
            // Whoever waited was refused, and may come again.
            None => Blame {
                cause: StallCause::Unknown,
                slice: None,
                node: None,
            },
        }
    }

    fn blame_for(&self, part: &Part) -> Blame {
        let slice = part.slice;
        let obstacle = match part.whereabouts {
            Whereabouts::Here => self.obstacle_here(part),
            Whereabouts::Waiting { .. } | Whereabouts::There { .. } => {
                self.obstacle_elsewhere(slice, part.whereabouts)
            }
        };
        let (cause, node) = match obstacle {
            Some(Obstacle::Node(node)) => (StallCause::NodeLost, Some(node)),
            Some(Obstacle::Lease(node)) => (StallCause::Lease, node),
            Some(Obstacle::Media(node)) => (StallCause::Media, Some(node)),
            Some(Obstacle::Metadata) => (StallCause::Metadata, None),
            Some(Obstacle::Answer(node)) => (StallCause::Unknown, Some(node)),
            None => (StallCause::Unknown, self.primary_of(slice)),
        };
        Blame {
            cause,
            slice: Some(slice),
            node,
        }
    }

    /// How another node seems from here.
    fn seeming(&self, node: NodeId) -> Seeming {
        match self.world.peers.link(node) {
            Some(link) if self.world.now.since(link.heard_at) < SILENT => Seeming::There {
                append_age: link.peer.append_age,
            },
            _ => Seeming::Lost,
        }
    }

    fn obstacle_of_replica(&self, slice: SliceId) -> Option<Obstacle> {
        let replica = self.replicas.get(&slice)?;
        replica.obstacle(self.world.now, |node| self.seeming(node))
    }

    /// What is in the way of a part that is with the replica, or the store, here.
    fn obstacle_here(&self, part: &Part) -> Option<Obstacle> {
        let own_disk = Obstacle::Media(self.config.node);
        // Whatever it may be read from: it is being read, or mended.
        if matches!(part.kind, PartKind::Read(..)) {
            return Some(own_disk);
        }
        let obstacle = self.obstacle_of_replica(part.slice);
        let disk_is_slow = self.world.append_age >= TELLING;
        obstacle.or(disk_is_slow.then_some(own_disk))
    }

    /// What is in the way of a part that another node has, or that nobody takes.
    fn obstacle_elsewhere(&self, slice: SliceId, whereabouts: Whereabouts) -> Option<Obstacle> {
        let Some((record, _)) = self.world.cluster.slices.get(&slice) else {
            return Some(Obstacle::Metadata);
        };
        let own = self.config.node;
        let obstacle = self.obstacle_of_replica(slice);
        if record.primary == own || obstacle.is_some() {
            return obstacle;
        }
        let mut lost = core::iter::once(record.primary)
            .chain(record.in_sync())
            .filter(|node| *node != own && self.seeming(*node) == Seeming::Lost);
        if let Some(node) = lost.next() {
            return Some(Obstacle::Node(node));
        }
        let slow = |node: &NodeId| match self.seeming(*node) {
            Seeming::There { append_age } => append_age >= TELLING,
            Seeming::Lost => false,
        };
        if let Some(node) = record.in_sync().filter(|node| *node != own).find(slow) {
            return Some(Obstacle::Media(node));
        }
        // The primary is there, and does not take it: it may not serve yet, or not any more.
        let refused = matches!(whereabouts, Whereabouts::Waiting { .. });
        refused.then_some(Obstacle::Lease(Some(record.primary)))
    }
}
