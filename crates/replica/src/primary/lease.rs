//! The lease, on the primary's side: what heartbeats claim and grant.
//!
//! Invariants:
//! - the primary reads only while every in-sync replica has granted the lease, one included that may
//!   be in sync by now;
//! - no replica is given a read lease that outlasts the primary's own.

use holdfast_model::{NodeId, SliceId};
use holdfast_stdx::{Duration, Instant};
use holdfast_wire::Claim;

use super::Primary;
use super::change::Kind;
use super::member::Member;
use crate::hand_over::lease_end;
use crate::timing::{DRIFT, LEASE, SILENT_FOR_READS};
use crate::{Context, Replica, Role};

impl Primary {
    pub(crate) fn may_read(&self, now: Instant) -> bool {
        self.is_serving() && now < self.lease_until()
    }

    /// Until when every in-sync replica has granted the lease. One that may be in sync by now has not
    /// missed this node for longer than since its change was proposed.
    pub(super) fn lease_until(&self) -> Instant {
        let in_sync = self.in_sync_members();
        let ends = in_sync.map(|(_, member)| lease_end(member.lease_from));
        let completing = self.completing().map(|(_, since)| since + LEASE);
        let ends = ends.chain(completing);
        ends.min().unwrap_or(Instant::from_nanos(u64::MAX))
    }

    /// The replica that counts as in sync as soon as the metadata says so, and since when that may be.
    pub(super) fn completing(&self) -> Option<(NodeId, Instant)> {
        let change = self.change.as_ref()?;
        match change.kind {
            Kind::Complete { node, .. } => Some((node, change.proposal.first_made)),
            _ => None,
        }
    }

    pub(crate) fn claim(&mut self, slice: SliceId, now: Instant, peer: NodeId) -> Option<Claim> {
        let is_in_sync = |member: &&Member| member.is_in_sync();
        self.members.get(&peer).filter(is_in_sync)?;
        let own = self.lease_until().since(now).min(LEASE);
        let serving = self.is_serving() && self.change.is_none() && self.leaving != Some(peer);
        let member = self.members.get_mut(&peer)?;
        let silent = member.silent_for(now) > SILENT_FOR_READS;
        let lease = if serving && member.has_begun() && !silent {
            own
        } else {
            Duration::ZERO
        };
        if !lease.is_zero() {
            member.read_lease_until = member.read_lease_until.max(now + lease + DRIFT);
        }
        let read_lease_us = lease.as_micros() as u32;
        Some(Claim {
            slice,
            epoch: self.epoch,
            read_lease_us,
        })
    }

    pub(crate) fn granted(&mut self, peer: NodeId, echo: Instant) {
        if let Some(member) = self.members.get_mut(&peer)
            && member.is_in_sync()
        {
            member.lease_from = member.lease_from.max(Some(echo));
        }
    }
}

impl Replica {
    /// Whether this replica leads where it should, and nothing is under way or wanted: of what a primary
    /// does after every event only a look at the disks is left.
    pub(crate) fn is_quiet(&self, context: &dyn Context) -> bool {
        let Role::Primary(primary) = &self.role else {
            return false;
        };
        let at_home = self
            .record
            .as_ref()
            .is_some_and(|record| record.preferred == self.me.node);
        let at_home = at_home && self.wish.is_none() && !context.is_spared(self.me.node);
        let mut members = primary.members.values();
        primary.is_serving()
            && at_home
            && !self.stopping
            && primary.change.is_none()
            && primary.offers.is_empty()
            && primary.unfinished.is_empty()
            && primary.pending.is_empty()
            && primary.settling.is_empty()
            && primary.admission.is_empty()
            && primary.fails_at().is_none_or(|due| context.now() < due)
            && members.all(|member| member.is_in_sync() && member.has_begun())
    }
}
