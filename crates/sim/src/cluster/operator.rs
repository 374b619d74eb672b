//! The operator, who orders something of nodes, and moves that the balance might want.
//!
//! An order goes over any node that reaches the metadata, and is refused as `holdfast_control` says.

use std::collections::BTreeMap;

use holdfast_control::{Inventory, Order, Part, Refusal, order};
use holdfast_model::NodeId;
use holdfast_model::metadata::{Compare, Operation, Revision, Transaction};
use holdfast_model::record::{NodeStanding, Record, SliceRecord, VolumeRecord, WishRecord};
use holdfast_stdx::Duration;

use super::controller::Written;
use super::{Cluster, Fault, Happening};
use crate::network::Place;

impl Cluster {
    /// The operator orders something of a node, over any node that reaches the metadata. Says whether it
    /// was not refused.
    pub(super) fn order(&mut self, node: NodeId, what: Order) -> bool {
        self.order_with(node, what, None)
    }

    /// The operator says where a node of the cluster stands. Says whether it was not refused.
    pub(super) fn tell_site(&mut self, node: NodeId, site: u8) -> bool {
        let inventory = self.inventory();
        // Whoever waits, or was removed, is added by an order of its own.
        let is_part = inventory.is_some_and(|inventory| match inventory.part_of(node) {
            Part::Waiting => false,
            Part::Of(standing) => standing != NodeStanding::Removed,
        });
        is_part && self.order_with(node, Order::Add, Some(&format!("site-{site}")))
    }

    fn order_with(&mut self, node: NodeId, what: Order, site: Option<&str>) -> bool {
        let Some(over) = self.choose_who_is_asked() else {
            return false;
        };
        let Some(inventory) = self.inventory() else {
            return false;
        };
        let sight = self.sight(over, &inventory, &mut BTreeMap::new());
        match order(&inventory, &sight, node, what, site) {
            Ok(Some(transaction)) => self.write_order(over, transaction),
            Ok(None) => {}
            Err(refusal) => {
                self.note_refusal(&refusal);
                self.line(Place::Node(over), format_args!("refuses: {refusal}"));
                return false;
            }
        }
        true
    }

    /// One of the nodes that reach the metadata, if there are any: an operator asks whichever answers.
    pub(super) fn choose_who_is_asked(&mut self) -> Option<NodeId> {
        let nodes = self.node_ids().into_iter();
        let able: Vec<NodeId> = nodes.filter(|it| self.can_steer(*it).is_some()).collect();
        (!able.is_empty()).then(|| *self.controller.prng.choose(&able))
    }

    /// Whether hosts are told of a node's portal: of those that belong to the cluster.
    pub(crate) fn is_told_of(&mut self, node: NodeId) -> bool {
        let inventory = self.inventory();
        inventory.is_none_or(|inventory| match inventory.part_of(node) {
            Part::Waiting => false,
            Part::Of(standing) => standing != NodeStanding::Removed,
        })
    }

    /// What was ordered over a node is on its way to the metadata.
    pub(super) fn write_order(&mut self, from: NodeId, transaction: Transaction) {
        let delay = self.way_to_metadata();
        self.controller.orders += 1;
        let written = Written {
            from,
            store: self.agreement.store(),
            own: None,
            transaction,
        };
        self.schedule(delay, Happening::Written(Box::new(written)));
    }

    fn note_refusal(&mut self, refusal: &Refusal) {
        let point = match refusal {
            Refusal::NoSuchNode | Refusal::Waiting | Refusal::NotSo(_) => "not so",
            Refusal::LastCopies(_) => "last copies",
            Refusal::TooFewNodes(_) => "too few nodes",
            Refusal::Holds { .. } => "holds something",
            Refusal::NoRoom { .. } | Refusal::NoRoomFor { .. } | Refusal::Site => return,
            Refusal::TooFewDomains(_) => unreachable!("nodes of the simulator name no domain"),
        };
        self.watch.coverage.reach("order refused", point);
    }

    /// One replica of some slice is to be elsewhere, as the balance may want it; where there is no other
    /// node another one of its own is to lead. Says whether there was something to be wished.
    pub(super) fn move_slice(&mut self) -> bool {
        let Some(inventory) = self.inventory() else {
            return false;
        };
        let slices: Vec<&SliceRecord> = inventory
            .slices
            .values()
            .filter(|record| inventory.volumes.contains_key(&record.slice.volume))
            .collect();
        if slices.is_empty() {
            return false;
        }
        let record = *self.controller.prng.choose(&slices);
        let before = inventory.wishes.get(&record.slice);
        let nodes = match before {
            Some(wish) => wish.record.nodes.clone(),
            None => record.replicas.iter().map(|it| it.node).collect(),
        };
        let wish = self.draw_wish(&inventory, record, nodes);
        if !wish.is_sound() || wish.is_met_by(record) {
            return false;
        }
        let volume = VolumeRecord::key(record.slice.volume);
        let transaction = Transaction {
            compare: vec![
                Compare::ModRevision {
                    key: WishRecord::key(record.slice),
                    equals: before.map_or(Revision(0), |before| before.revision),
                },
                Compare::ModRevision {
                    key: volume,
                    equals: inventory.volumes[&record.slice.volume].revision,
                },
            ],
            success: vec![Operation::put(WishRecord::key(record.slice), wish.encode())],
            failure: Vec::new(),
        };
        self.write_order(record.primary, transaction);
        true
    }

    /// A wish that moves one of these nodes' replicas, if there is another node, or another one leads.
    fn draw_wish(
        &mut self,
        inventory: &Inventory,
        record: &SliceRecord,
        mut nodes: Vec<NodeId>,
    ) -> WishRecord {
        let prng = &mut self.controller.prng;
        let others: Vec<NodeId> = inventory
            .nodes
            .keys()
            .copied()
            .filter(|node| inventory.is_active(*node) && !nodes.contains(node))
            .collect();
        if !others.is_empty() {
            let goes = prng.below(nodes.len() as u64) as usize;
            nodes[goes] = *prng.choose(&others);
            nodes.sort_unstable();
        }
        let stays = nodes.contains(&record.preferred) && prng.chance(1, 2);
        let preferred = if stays {
            record.preferred
        } else {
            *prng.choose(&nodes)
        };
        let kept = record.replicas.iter().map(|replica| replica.node);
        WishRecord {
            schema: 1,
            slice: record.slice,
            kept: kept.filter(|node| !nodes.contains(node)).collect(),
            nodes,
            preferred,
        }
    }

    /// Everything that was ordered of nodes is called off. Says whether there is still something to be
    /// waited for.
    pub(crate) fn call_orders_off(&mut self) -> bool {
        if self.plan.controller.is_none() {
            return false;
        }
        let Some(inventory) = self.inventory() else {
            return true;
        };
        let is_away = |part: Part| part != Part::Of(NodeStanding::Active);
        let nodes = self.node_ids();
        let registered = |node: &NodeId| inventory.nodes.contains_key(node);
        let mut waits = nodes
            .iter()
            .any(|node| !registered(node) || is_away(inventory.part_of(*node)));
        if self.controller.orders > 0 {
            return true;
        }
        waits |= self.call_scrubs_off(&inventory);
        for node in nodes {
            let what = match inventory.part_of(node) {
                Part::Of(NodeStanding::Active) => continue,
                Part::Waiting | Part::Of(NodeStanding::Removed) => Order::Add,
                Part::Of(NodeStanding::Draining) => Order::CancelDrain,
                Part::Of(NodeStanding::Maintenance) => Order::MaintenanceOff,
            };
            if registered(&node) {
                self.order(node, what);
            } else {
                self.register_again(node);
            }
        }
        waits
    }

    /// Who was removed while it ran registers when it starts again.
    fn register_again(&mut self, node: NodeId) {
        let process = self.nodes[&node].process.as_ref();
        if process.is_some_and(|process| process.engine.status().registered) {
            self.kill(node);
            self.schedule(Duration::ZERO, Happening::Fault(Fault::Start(node)));
        }
    }
}
