//! Which nodes this one keeps links to, and whose portals it tells hosts of.
//!
//! A node that has registered belongs to the cluster once it is admitted. Before that nobody has to do
//! with it, nor it with anybody: it holds nothing, and what it sent would be heard for nothing.
//!
//! Invariants:
//! - as long as no node's part is on record all nodes belong together;
//! - a node that waits, or was removed, keeps no link to any other, and none to it is kept;
//! - nor does it have sessions of hosts: who clears a unit asks the nodes of the cluster, and what sat at
//!   another one would land afterwards, were that admitted;
//! - a process that is not the node of its number any more is not spoken to;
//! - hosts of a node in maintenance are sent to nodes that are there, or stay;
//! - a session is with the volume that its target had when it began: it ends when another one has that name.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use holdfast_iscsi::PortalGroupTag;
use holdfast_iscsi::target::TargetDirectory;
use holdfast_model::NodeId;
use holdfast_model::record::NodeRecord;
use holdfast_replica::Peer;

use crate::engine::Engine;

impl Engine {
    /// A node's record has changed, or is gone.
    pub(crate) fn node_changed(&mut self, node: NodeId) {
        self.directory_changed();
        self.keep_link(node);
        self.note_all_port_groups();
        self.consider_former(node);
        if node == self.config.node {
            self.consider_successor();
            self.consider_removed();
        }
    }

    /// Whether a process was a node that is another one by now, with another store: one that has yet to hear of that, and is
    /// not spoken to.
    pub(crate) fn is_former(&self, node: NodeId, peer: &Peer) -> bool {
        let record = self.world.cluster.nodes.get(&node);
        record.is_some_and(|record| {
            record.store != peer.store && record.incarnation > peer.incarnation
        })
    }

    fn consider_former(&mut self, node: NodeId) {
        let peer = self.world.peers.peer(node);
        if peer.is_some_and(|peer| self.is_former(node, &peer)) {
            self.world.peers.to_reset.insert(node);
        }
    }

    fn consider_removed(&mut self) {
        let Self { config, world, .. } = self;
        world.cluster.consider_removed(config.node, &config.name);
    }

    /// What the operator wants of nodes has changed.
    pub(crate) fn intents_changed(&mut self) {
        let nodes: Vec<NodeId> = self.world.cluster.nodes.keys().copied().collect();
        for node in nodes {
            self.keep_link(node);
        }
        self.directory_changed();
        let is_away = self.world.cluster.is_in_maintenance(self.config.node);
        let now = self.world.now;
        self.portal.set_maintenance(now, &self.volumes, is_away);
        if !self.belongs() {
            self.portal.drop_all(self.world.now, &self.volumes);
            self.consider_removed();
        }
        for slice in self.slices() {
            self.with_replica(slice, |replica, context| replica.look_again(context));
        }
    }

    /// Whether this node is part of the cluster, as far as it knows.
    pub(crate) fn belongs(&self) -> bool {
        self.world.cluster.belongs(self.config.node)
    }

    /// The other nodes that belong to the cluster with this one.
    pub(crate) fn neighbours(&self) -> impl Iterator<Item = NodeId> {
        let (own, cluster) = (self.config.node, &self.world.cluster);
        let is_one = self.belongs();
        let others = cluster.nodes.keys().copied();
        others.filter(move |node| is_one && *node != own && cluster.belongs(*node))
    }

    fn keep_link(&mut self, node: NodeId) {
        if node == self.config.node {
            return;
        }
        let is_neighbour = self.neighbours().any(|other| other == node);
        let record = self.world.cluster.nodes.get(&node);
        let address = record.filter(|_| is_neighbour);
        let address = address.map(|record| record.peer.clone());
        self.world.peers.keep(node, address);
    }

    /// Volumes were made, have grown, or are gone.
    pub(crate) fn volumes_changed(&mut self) {
        let volumes = &self.world.cluster.volumes;
        let updated = self.volumes.update(self.config.cluster, volumes);
        self.note_all_port_groups();
        self.portal.raise_grown(&updated.grown);
        if !updated.replaced.is_empty() {
            let mut directory = self.directory();
            let targets = &mut directory.targets;
            targets.retain(|target, _| !updated.replaced.contains(target));
            let now = self.world.now;
            self.portal.set_directory(now, &self.volumes, directory);
        }
        self.directory_changed();
    }

    pub(crate) fn directory_changed(&mut self) {
        let directory = self.directory();
        self.portal
            .set_directory(self.world.now, &self.volumes, directory);
    }

    fn directory(&self) -> TargetDirectory {
        let cluster = &self.world.cluster;
        let nodes = cluster.nodes.iter();
        let serving: BTreeMap<NodeId, NodeRecord> = nodes
            .filter(|(node, _)| cluster.belongs(**node))
            .map(|(node, record)| (*node, record.clone()))
            .collect();
        let mut directory =
            self.volumes
                .directory(&serving, &cluster.exports_now(), &cluster.initiators);
        let own = self.config.node;
        let others = serving.keys().filter(|node| **node != own);
        let away = others.filter(|node| {
            let is_there = self.world.peers.link(**node).is_some();
            !is_there || cluster.is_in_maintenance(**node)
        });
        directory.away = away.map(|node| PortalGroupTag(node.0)).collect();
        directory
    }

    /// A link to another node has come up, or is gone: hosts are sent to nodes that are there, or stay.
    pub(crate) fn places_changed(&mut self) {
        if self.world.cluster.is_in_maintenance(self.config.node) {
            self.directory_changed();
        }
    }
}
