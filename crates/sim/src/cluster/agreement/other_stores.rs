//! Other stores in the place of the metadata: backups, empty and damaged ones, and one that goes on by itself.

use std::collections::BTreeSet;

use holdfast_control::METADATA_PREFIX;
use holdfast_metadata::{HistoryLimits, Machine};
use holdfast_model::NodeId;
use holdfast_model::metadata::{Operation, Selector, Transaction};
use holdfast_model::record::{NODES_PREFIX, SLICES_PREFIX, SliceRecord, VOLUMES_PREFIX};
use holdfast_stdx::{Duration, Instant};

use super::{Agreement, Broken, Fork};
use crate::boot;
use crate::cluster::node::ProcessId;
use crate::cluster::{Cluster, Damage, Fault};
use crate::failure::Failure;

/// After so long everybody who reaches the metadata has heard of a change.
const ALL_KNOW: Duration = Duration::from_secs(1);

impl Agreement {
    /// Somebody makes a backup.
    pub(in crate::cluster) fn save(&mut self) {
        self.saved = Some(self.machine.clone());
        self.outdated_since = None;
    }

    /// What there is of other stores is of no use any more.
    pub(in crate::cluster) fn forget_others(&mut self) {
        (self.saved, self.outdated_since, self.right) = (None, None, None);
    }

    /// The backup, if everybody has seen something newer by now. Whoever has not takes it for what it
    /// has always followed: it can be told by nothing.
    fn outdated(&self, now: Instant) -> Option<Machine> {
        let known = self.outdated_since?;
        (now.since(known) >= ALL_KNOW)
            .then(|| self.saved.clone())
            .flatten()
    }
}

impl Cluster {
    /// Something is done to the metadata while it is off, for a moment: every session breaks. Says whether
    /// there was something to be done.
    pub(in crate::cluster) fn metadata_fault(&mut self, fault: Fault) -> Result<bool, Failure> {
        let agreement = &mut self.agreement;
        let machine = match fault {
            Fault::RollBackMetadata => agreement.outdated(self.now),
            Fault::EmptyMetadata => Some(Machine::new(HistoryLimits::default())),
            _ => agreement.right.take(),
        };
        let Some(machine) = machine else {
            return Ok(false);
        };
        let before = self.replace_metadata(machine)?;
        if fault != Fault::RestoreMetadata {
            self.agreement.right.get_or_insert(before);
        }
        Ok(true)
    }

    /// Somebody deletes documents of the metadata while it is in use: whoever watches is told.
    pub(in crate::cluster) fn damage_metadata(&mut self, damage: Damage) -> Result<(), Failure> {
        let right = self.agreement.machine.clone();
        self.agreement.right.get_or_insert(right);
        self.watch.metadata_replaced();
        self.invariants.metadata_replaced();
        let prefix = match damage {
            Damage::Everything => METADATA_PREFIX,
            Damage::Volumes => VOLUMES_PREFIX,
            Damage::Slices => SLICES_PREFIX,
            Damage::Nodes => NODES_PREFIX,
        };
        let transaction = Transaction {
            success: vec![Operation::Delete(Selector::Prefix(prefix.into()))],
            ..Transaction::default()
        };
        self.change_metadata(|machine, out| drop(boot::transact(machine, transaction, out)))
    }

    /// Whether the metadata is not the one that the nodes belong to.
    pub(in crate::cluster) fn is_outdated(&self) -> bool {
        self.agreement.right.is_some()
    }

    /// Another store takes the place of the one before, which is given back.
    pub(in crate::cluster) fn replace_metadata(
        &mut self,
        machine: Machine,
    ) -> Result<Machine, Failure> {
        let processes: Vec<ProcessId> = self.agreement.sessions.keys().copied().collect();
        let broken = self.break_sessions(processes)?;
        self.agreement.ghosts.clear();
        let agreement = &mut self.agreement;
        let before = std::mem::replace(&mut agreement.machine, machine);
        agreement.replaced += 1;
        agreement.catalog.read_anew(&agreement.machine);
        self.watch.metadata_replaced();
        self.invariants.metadata_replaced();
        self.resume_or_end(broken)?;
        Ok(before)
    }

    /// A node finds a copy of the metadata in its place, which goes on by itself: the one that others have found, if any has.
    pub(in crate::cluster) fn fork_metadata(&mut self, node: NodeId) -> Result<(), Failure> {
        let broken = self.leave_metadata(node)?;
        let agreement = &mut self.agreement;
        let (right, sessions) = (&agreement.machine, &agreement.sessions);
        let fork = agreement.fork.get_or_insert_with(|| {
            let mut machine = right.clone();
            for session in sessions.values() {
                machine.disconnect(session.client);
            }
            let nodes = BTreeSet::new();
            Fork { nodes, machine }
        });
        fork.nodes.insert(node);
        self.resume_or_end(broken)
    }

    /// The slices' records in the copy.
    pub fn copied_records(&mut self) -> Vec<SliceRecord> {
        self.agreement.copied_slices()
    }

    /// They find the right one again.
    pub(in crate::cluster) fn join_metadata(&mut self) -> Result<bool, Failure> {
        let Some(nodes) = self.agreement.fork.as_ref().map(|fork| fork.nodes.clone()) else {
            return Ok(false);
        };
        let mut broken = Vec::new();
        for node in nodes {
            broken.extend(self.leave_metadata(node)?);
        }
        self.agreement.fork = None;
        self.resume_or_end(broken)?;
        Ok(true)
    }

    /// The sessions of a node break, and nothing of them is on its way.
    fn leave_metadata(&mut self, node: NodeId) -> Result<Vec<Broken>, Failure> {
        let sessions = self.agreement.sessions.keys().copied();
        let own = sessions.filter(|process| process.node == node).collect();
        let broken = self.break_sessions(own)?;
        let ghosts = &mut self.agreement.ghosts;
        ghosts.retain(|(process, _), _| process.node != node);
        Ok(broken)
    }
}
