//! Leases, their deadlines, and the keys bound to them.
//!
//! Invariants:
//! - each lease is in the list of deadlines exactly once, under its own deadline;
//! - ids rise and are never used again, also over restarts.

use std::collections::{BTreeMap, BTreeSet};

use holdfast_model::metadata::{LeaseId, MetadataError};
use holdfast_stdx::{Duration, Instant};

use super::tree::Tree;
use crate::limits::LEASES_MAX;

#[derive(Clone, Debug)]
struct Lease {
    time_to_live: Duration,
    deadline: Instant,
    keys: BTreeSet<String>,
}

#[derive(Clone, Debug)]
pub(super) struct Leases {
    next: LeaseId,
    leases: BTreeMap<LeaseId, Lease>,
    deadlines: BTreeSet<(Instant, LeaseId)>,
}

impl Leases {
    /// No leases yet; the first one made is `next`.
    pub(super) fn new(next: LeaseId) -> Self {
        assert!(next > LeaseId::default(), "zero is no lease");
        Self {
            next,
            leases: BTreeMap::new(),
            deadlines: BTreeSet::new(),
        }
    }

    pub(super) fn contains(&self, lease: LeaseId) -> bool {
        self.leases.contains_key(&lease)
    }

    /// The id of the lease that is made next.
    pub(super) fn next(&self) -> LeaseId {
        self.next
    }

    /// All leases, with their time to live.
    pub(super) fn all(&self) -> impl Iterator<Item = (LeaseId, Duration)> {
        self.leases
            .iter()
            .map(|(lease, found)| (*lease, found.time_to_live))
    }

    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.deadlines.first().map(|(deadline, _)| *deadline)
    }

    /// The lease whose time has been over for longest.
    pub(super) fn expired(&self, now: Instant) -> Option<LeaseId> {
        let (deadline, lease) = self.deadlines.first()?;
        (*deadline <= now).then_some(*lease)
    }

    pub(super) fn grant(
        &mut self,
        now: Instant,
        time_to_live: Duration,
    ) -> Result<LeaseId, MetadataError> {
        if self.leases.len() >= LEASES_MAX {
            return Err(MetadataError::Invalid);
        }
        let lease = self.next;
        self.next = LeaseId(lease.0 + 1);
        self.insert(now, lease, time_to_live);
        Ok(lease)
    }

    /// A lease that was made before a restart: its time begins again.
    pub(super) fn insert(&mut self, now: Instant, lease: LeaseId, time_to_live: Duration) {
        assert!(lease < self.next, "the lease has been made");
        let deadline = now + time_to_live;
        self.deadlines.insert((deadline, lease));
        let old = self.leases.insert(
            lease,
            Lease {
                time_to_live,
                deadline,
                keys: BTreeSet::new(),
            },
        );
        assert!(old.is_none(), "a lease is made once");
    }

    pub(super) fn keep_alive(&mut self, now: Instant, lease: LeaseId) -> Result<(), MetadataError> {
        let found = self
            .leases
            .get_mut(&lease)
            .ok_or(MetadataError::NoSuchLease)?;
        self.deadlines.remove(&(found.deadline, lease));
        found.deadline = now + found.time_to_live;
        self.deadlines.insert((found.deadline, lease));
        Ok(())
    }

    pub(super) fn bind(&mut self, lease: LeaseId, key: &str) {
        if lease != LeaseId::default() {
            let found = self
                .leases
                .get_mut(&lease)
                .expect("a key is bound to a living lease");
            found.keys.insert(key.to_owned());
        }
    }

    pub(super) fn unbind(&mut self, lease: LeaseId, key: &str) {
        if lease != LeaseId::default() {
            let found = self
                .leases
                .get_mut(&lease)
                .expect("a key is bound to a living lease");
            assert!(found.keys.remove(key), "a lease knows its keys");
        }
    }

    /// The keys bound to `lease`, in their order.
    pub(super) fn keys(&self, lease: LeaseId) -> Vec<String> {
        self.leases
            .get(&lease)
            .map_or_else(Vec::new, |found| found.keys.iter().cloned().collect())
    }

    pub(super) fn remove(&mut self, lease: LeaseId) {
        let old = self.leases.remove(&lease).expect("a lease ends once");
        assert!(old.keys.is_empty(), "the keys of a lease go before it does");
        self.deadlines.remove(&(old.deadline, lease));
    }

    pub(super) fn assert_invariants(&self, tree: &Tree) {
        assert_eq!(
            self.leases.len(),
            self.deadlines.len(),
            "each lease has one deadline"
        );
        for (id, lease) in &self.leases {
            assert!(
                self.deadlines.contains(&(lease.deadline, *id)),
                "a lease has its deadline"
            );
            for key in &lease.keys {
                let bound = tree.find(key).map(|found| found.lease);
                assert_eq!(bound, Some(*id), "a lease's keys are bound to it");
            }
        }
        for key_value in tree
            .all()
            .filter(|key_value| key_value.lease != LeaseId::default())
        {
            let lease = self
                .leases
                .get(&key_value.lease)
                .expect("a key's lease lives");
            assert!(
                lease.keys.contains(&key_value.key),
                "a key's lease knows it"
            );
        }
    }
}
