//! What operators, and whoever steers, do while everything else goes wrong.

use holdfast_control::Order;
use holdfast_model::NodeId;
use holdfast_stdx::{Duration, Prng};

use super::{RunPlan, Span};
use crate::cluster::{ControllerPlan, Fault};

impl RunPlan {
    /// Somebody steers the cluster; at times a node of it waits to be added.
    pub(super) fn steer(&mut self, prng: &mut Prng) {
        let nodes = self.cluster.nodes;
        let copies = self.cluster.volumes.iter().map(|it| it.policy.copies());
        let spare = copies.max().is_some_and(|most| most < usize::from(nodes));
        let newcomer = (spare && prng.chance(1, 4)).then_some(NodeId(nodes));
        self.cluster.controller = Some(ControllerPlan {
            pause: Duration::from_millis(*prng.choose(&[100, 300, 1000])),
            term: Duration::from_millis(*prng.choose(&[200, 1000, 4000])),
            repair_delay_seconds: *prng.choose(&[1, 1, 2, 4]),
            rebalance: prng.chance(2, 3),
            newcomer,
            scrub_interval_seconds: None,
        });
        if let Some(node) = newcomer {
            let load = self.load.as_millis() as u64;
            let when = Duration::from_millis(prng.between(100, load - 200));
            self.add(when, Fault::Order(node, Order::Add));
        }
    }

    /// Replicas are wanted elsewhere, one after the other.
    pub(super) fn moves(&mut self, mut when: Duration, prng: &mut Prng) {
        for _ in 0..prng.between(1, 3) {
            self.add(when, Fault::Move);
            when += Duration::from_millis(prng.between(1, 1000));
        }
    }

    /// A node is drained; then it is to stay after all, or is removed, and added again.
    pub(super) fn drain(&mut self, start: Duration, node: NodeId, prng: &mut Prng) {
        self.add(start, Fault::Order(node, Order::Drain));
        let mut end = start + Duration::from_millis(prng.between(50, 5000));
        if prng.chance(1, 2) {
            end = self.remove(end, node, prng);
        }
        self.add(end, Fault::Order(node, Order::CancelDrain));
    }

    /// A node is put aside, and is off for a while, or not.
    pub(super) fn maintain(&mut self, Span { start, end }: Span, node: NodeId, prng: &mut Prng) {
        self.add(start, Fault::Order(node, Order::MaintenanceOn));
        let end = end + Duration::from_millis(prng.between(0, 2000));
        let fault = match prng.below(4) {
            0 => None,
            1 => Some(Fault::Kill(node)),
            2 => Some(Fault::LosePower(node)),
            _ => Some(Fault::Stop(node)),
        };
        if let Some(fault) = fault {
            let off = start + Duration::from_millis(prng.between(1, 1000));
            let on = off + Duration::from_millis(prng.between(100, 3000));
            self.add(off, fault);
            // Whoever has not stopped in order by then is killed.
            self.add(on, Fault::Kill(node));
            self.add(on + Duration::from_millis(1), Fault::Start(node));
        }
        self.add(end, Fault::Order(node, Order::MaintenanceOff));
    }

    /// A node is away for so long that its replicas are rebuilt elsewhere. It comes back as it was, or
    /// with empty devices; at times it is removed, and added again.
    pub(super) fn replace(&mut self, start: Duration, node: NodeId, prng: &mut Prng) {
        let delay = match self.cluster.controller {
            Some(plan) => plan.repair_delay_seconds,
            None => return,
        };
        let empties = prng.chance(1, 2);
        let node = if empties { self.victim } else { node };
        let away = Duration::from_secs(delay) + Duration::from_millis(prng.between(0, 4000));
        let end = start + away;
        self.down(Span { start, end }, Fault::LosePower(node), node);
        if empties {
            self.add(start + away / 2, Fault::Wipe(node));
        }
        if prng.chance(1, 3) {
            self.remove(end.saturating_sub(Duration::from_millis(20)), node, prng);
        }
    }

    /// A node is removed, if it holds nothing; it starts anew, and is added. Returns when that is over.
    fn remove(&mut self, when: Duration, node: NodeId, prng: &mut Prng) -> Duration {
        self.add(when, Fault::Order(node, Order::Remove));
        let off = when + Duration::from_millis(prng.between(20, 300));
        let on = off + Duration::from_millis(prng.between(1, 600));
        self.down(
            Span {
                start: off,
                end: on,
            },
            Fault::Kill(node),
            node,
        );
        let added = on + Duration::from_millis(prng.between(50, 600));
        self.add(added, Fault::Order(node, Order::Add));
        added + Duration::from_millis(50)
    }
}
