//! From a seed to what goes wrong and when.
//!
//! Invariants:
//! - everything that goes wrong is mended by the end of the plan: nodes run, ways are passable;
//! - data stays recoverable: devices are emptied or rot on one node only, and not while it holds the
//!   only good copy; where they rot, nothing happens to the other nodes.

use holdfast_model::{NodeId, Policy};
use holdfast_stdx::{Duration, Prng};

use crate::cluster::{ClusterPlan, Fault, NodePlan};
use crate::host::HostPlan;
use crate::network::Place;
use crate::volumes::VolumePlan;

/// What a run does.
#[derive(Clone, Debug)]
pub struct RunPlan {
    /// The cluster.
    pub cluster: ClusterPlan,
    /// How long hosts are busy.
    pub load: Duration,
    /// What goes wrong, and is mended, and when after the load has begun.
    pub faults: Vec<(Duration, Fault)>,
    /// The node whose devices may lose what they hold.
    pub victim: NodeId,
}

/// From when to when something is wrong.
#[derive(Clone, Copy, Debug)]
struct Span {
    start: Duration,
    end: Duration,
}

/// How much goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Weather {
    Calm,
    Rough,
    Storm,
    /// Devices of one node rot; the others have a good time, or data might be lost.
    Rot,
}

impl RunPlan {
    /// The plan of a seed.
    pub fn draw(prng: &mut Prng) -> Self {
        let nodes = *prng.choose(&[1, 2, 3, 3, 3, 3, 3, 4, 5]);
        let policies: Vec<Policy> = [
            Policy::None,
            Policy::Mirror2,
            Policy::Mirror2,
            Policy::Mirror2,
            Policy::Mirror3,
            Policy::Mirror4,
        ]
        .into_iter()
        .filter(|policy| policy.copies() <= usize::from(nodes))
        .collect();
        let policy = *prng.choose(&policies);
        let hosts = prng.between(1, 3);
        let mut volume = VolumePlan::new("disk", policy);
        let crowded = prng.chance(1, 5);
        if crowded {
            volume.crowd();
        } else if prng.chance(1, 4) {
            volume.add_large_area();
        }
        let cluster = ClusterPlan {
            nodes,
            node: NodePlan::draw(prng),
            volumes: vec![volume],
            hosts: (0..hosts)
                .map(|_| HostPlan::draw(0, crowded, prng))
                .collect(),
        };
        let load = Duration::from_millis(prng.between(3000, 9000));
        let victim = NodeId(prng.between(1, nodes.into()) as u16);
        let faults = Vec::new();
        let mut plan = Self {
            cluster,
            load,
            faults,
            victim,
        };
        let weather = *prng.choose(&[
            Weather::Calm,
            Weather::Rough,
            Weather::Rough,
            Weather::Rough,
            Weather::Storm,
            Weather::Storm,
            Weather::Rot,
            Weather::Rot,
        ]);
        let episodes = match weather {
            Weather::Calm => prng.between(0, 1),
            Weather::Rough => prng.between(1, 3),
            Weather::Storm => prng.between(4, 9),
            Weather::Rot => {
                if policy.copies() > 1 {
                    plan.add_rot(prng);
                }
                0
            }
        };
        for _ in 0..episodes {
            plan.add_episode(prng);
        }
        plan
    }

    /// The victim's devices rot, while it runs, while it is off, and in between.
    fn add_rot(&mut self, prng: &mut Prng) {
        let load = self.load.as_millis() as u64;
        for _ in 0..prng.between(1, 4) {
            let when = Duration::from_millis(prng.between(100, load - 200));
            let fault = if prng.chance(1, 2) {
                Fault::Rot(self.victim)
            } else {
                Fault::LoseWrites(self.victim)
            };
            self.add(when, fault);
        }
        for _ in 0..prng.between(0, 3) {
            let start = Duration::from_millis(prng.between(100, load - 200));
            let end = start + Duration::from_millis(prng.between(1, 1500));
            let kind = if prng.chance(1, 2) {
                Fault::Kill(self.victim)
            } else {
                Fault::LosePower(self.victim)
            };
            self.down(Span { start, end }, kind, self.victim);
        }
    }

    /// When everything is mended.
    #[must_use]
    pub fn end(&self) -> Duration {
        let last = self
            .faults
            .iter()
            .map(|(when, _)| *when)
            .max()
            .unwrap_or_default();
        self.load.max(last)
    }

    /// Something goes wrong, and is mended some time later.
    fn add_episode(&mut self, prng: &mut Prng) {
        let node = NodeId(prng.between(1, self.cluster.nodes.into()) as u16);
        let span = self.draw_span(prng);
        match prng.below(20) {
            0 | 1 => self.down(span, Fault::Kill(node), node),
            2 => self.down(span, Fault::LosePower(node), node),
            3 => self.blackout(span, node, prng),
            4 => self.all_down(span, Fault::Kill, prng),
            5 | 6 => self.freeze(span, node, prng),
            7 => self.part(span, node, prng),
            8 if prng.chance(1, 2) => self.isolate(span, node),
            8 => self.shun(span.start, node, prng),
            9 => self.cut_some(span, Place::Node(node), Place::Metadata, prng),
            10 => {
                let host = prng.below(self.cluster.hosts.len() as u64) as u16;
                self.cut_some(span, Place::Host(host), Place::Node(node), prng);
            }
            11 => self.slow_network(span, prng),
            12 => self.empty(span),
            13 => self.roll_back(span),
            14 | 15 => self.slow_disks(span, node, prng),
            16 => self.strand(span.start, node, prng),
            17 | 18 => self.disturb_sync(span.start, node, prng),
            _ => self.end_badly(span, node, prng),
        }
    }

    /// From when to when something is wrong: mostly for a moment, at times for seconds.
    fn draw_span(&self, prng: &mut Prng) -> Span {
        let load = self.load.as_millis() as u64;
        let start = Duration::from_millis(prng.between(100, load - 200));
        let length = Duration::from_millis(if prng.chance(1, 3) {
            prng.between(1000, 6000)
        } else {
            prng.between(20, 1200)
        });
        Span {
            start,
            end: start + length,
        }
    }

    fn add(&mut self, when: Duration, fault: Fault) {
        self.faults.push((when, fault));
    }

    fn nodes(&self) -> impl Iterator<Item = NodeId> + use<> {
        (1..=self.cluster.nodes).map(NodeId)
    }

    /// All nodes are down, and come back one after the other; at times so late that the others do not
    /// wait for them.
    fn all_down(&mut self, span: Span, fault: impl Fn(NodeId) -> Fault, prng: &mut Prng) {
        let late_ms_max = *prng.choose(&[200, 800, 5000]);
        for node in self.nodes() {
            let late = Duration::from_millis(prng.below(late_ms_max));
            let end = span.end + late;
            self.down(Span { end, ..span }, fault(node), node);
        }
    }

    /// All nodes lose power, perhaps when one of them has had slow disks for a moment.
    fn blackout(&mut self, span: Span, node: NodeId, prng: &mut Prng) {
        if prng.chance(2, 3) {
            let before = Duration::from_millis(prng.between(20, 400)).min(span.start);
            let slowness = Duration::from_millis(*prng.choose(&[50, 400, 1500]));
            self.add(span.start - before, Fault::SlowDisks(node, slowness));
        }
        self.all_down(span, Fault::LosePower, prng);
    }

    /// A node stands still.
    fn freeze(&mut self, Span { start, end }: Span, node: NodeId, prng: &mut Prng) {
        let fault = Fault::Freeze {
            node,
            span: end - start,
            between: prng.chance(1, 2),
        };
        self.add(start, fault);
        // The plan ends when it is over.
        self.add(end, Fault::Start(node));
    }

    /// A node reaches only hosts, again and again: long enough that it is taken out, and does not hear so.
    fn shun(&mut self, mut start: Duration, node: NodeId, prng: &mut Prng) {
        let reset = prng.chance(1, 2);
        for _ in 0..prng.between(1, 5) {
            let end = start + Duration::from_millis(prng.between(150, 900));
            for other in self.nodes().filter(|other| *other != node) {
                if reset {
                    self.reset_before(start, node, other);
                }
                self.cut_both(Span { start, end }, Place::Node(node), Place::Node(other));
            }
            self.cut_both(Span { start, end }, Place::Node(node), Place::Metadata);
            start = end + Duration::from_millis(prng.between(600, 1500));
        }
    }

    /// A node reaches nobody.
    fn isolate(&mut self, span: Span, node: NodeId) {
        let hosts = (0..self.cluster.hosts.len() as u16).map(Place::Host);
        let others = self.nodes().filter(|other| *other != node);
        let places: Vec<Place> = others.map(Place::Node).chain(hosts).collect();
        for other in places.into_iter().chain([Place::Metadata]) {
            self.cut_both(span, Place::Node(node), other);
        }
    }

    /// What a node has sent to another one is stuck on its way; the node is killed, and when its hosts
    /// have repeated everything elsewhere, what was stuck arrives.
    fn strand(&mut self, start: Duration, node: NodeId, prng: &mut Prng) {
        let Some(other) = self.other(node, prng) else {
            return;
        };
        let seconds =
            |prng: &mut Prng, least, most| Duration::from_millis(prng.between(least, most));
        let killed = start + seconds(prng, 20, 400);
        let away = Span {
            start: killed,
            end: killed + seconds(prng, 300, 3000),
        };
        self.down(away, Fault::Kill(node), node);
        let end = killed + seconds(prng, 3400, 4800);
        self.cut(Span { start, end }, Place::Node(node), Place::Node(other));
    }

    /// Messages take long; the metadata's answers may get lost.
    fn slow_network(&mut self, Span { start, end }: Span, prng: &mut Prng) {
        let slowness = Duration::from_millis(*prng.choose(&[2, 20, 100, 300]));
        self.add(start, Fault::Slow(slowness));
        self.add(end, Fault::Slow(Duration::ZERO));
        if prng.chance(1, 2) {
            self.add(start, Fault::LoseAnswers(prng.between(2, 6)));
            self.add(end, Fault::LoseAnswers(0));
        }
    }

    /// The victim comes back with empty devices.
    fn empty(&mut self, span: Span) {
        self.down(span, Fault::Kill(self.victim), self.victim);
        let emptied = span.start + (span.end - span.start) / 2;
        self.add(emptied, Fault::Wipe(self.victim));
    }

    /// The victim comes back with its devices as they were before its last start.
    fn roll_back(&mut self, Span { start, end }: Span) {
        let node = self.victim;
        let step = (end - start) / 5;
        self.add(start, Fault::CopyDisks(node));
        let away = Span {
            start: start + step,
            end: start + 2 * step,
        };
        self.down(away, Fault::Kill(node), node);
        let away = Span {
            start: start + 3 * step,
            end,
        };
        self.down(away, Fault::Kill(node), node);
        self.add(start + 4 * step, Fault::RollBack(node));
    }

    /// A node's devices are slow, or do not answer for a while.
    fn slow_disks(&mut self, Span { start, end }: Span, node: NodeId, prng: &mut Prng) {
        if prng.chance(1, 2) {
            self.add(start, Fault::StickDisks(node));
            self.add(end, Fault::UnstickDisks(node));
        } else {
            let slowness = Duration::from_millis(*prng.choose(&[5, 50, 400, 1500]));
            self.add(start, Fault::SlowDisks(node, slowness));
            self.add(end, Fault::SlowDisks(node, Duration::ZERO));
        }
    }

    /// A node's devices fail, or it is told to stop; later it is killed if it still runs.
    fn end_badly(&mut self, Span { start, end }: Span, node: NodeId, prng: &mut Prng) {
        let fault = match prng.below(3) {
            0 => Fault::StickDisks(node),
            1 => Fault::FailDisks(node),
            _ => Fault::Stop(node),
        };
        self.add(start, fault);
        self.add(end, Fault::Kill(node));
        self.add(end + Duration::from_millis(1), Fault::Start(node));
    }

    /// A node is down for a while.
    fn down(&mut self, Span { start, end }: Span, fault: Fault, node: NodeId) {
        self.add(start, fault);
        self.add(end, Fault::Start(node));
    }

    /// A node does not reach another one, or not both ways; or again and again for moments, long enough
    /// that one of them is taken out, and short enough that it may serve reads still.
    fn part(&mut self, span: Span, node: NodeId, prng: &mut Prng) {
        let Some(other) = self.other(node, prng) else {
            return;
        };
        if prng.chance(1, 2) {
            self.cut_some(span, Place::Node(node), Place::Node(other), prng);
            return;
        }
        let reset = prng.chance(1, 2);
        let mut start = span.start;
        for _ in 0..prng.between(3, 8) {
            let end = start + Duration::from_millis(prng.between(150, 500));
            self.cut_both(Span { start, end }, Place::Node(node), Place::Node(other));
            if reset {
                self.reset_before(start, node, other);
            }
            start = end + Duration::from_millis(prng.between(300, 900));
        }
    }

    /// A node is away for long enough to be taken out. When it is back, another one hears no answers of
    /// the metadata for a while, so that it does not know whether the first one is in sync by now;
    /// meanwhile it does not reach it either, and may be killed.
    fn disturb_sync(&mut self, start: Duration, node: NodeId, prng: &mut Prng) {
        let Some(other) = self.other(node, prng) else {
            return;
        };
        let mut after = |from, least, most| from + Duration::from_millis(prng.between(least, most));
        let back = after(start, 500, 2000);
        // About 50 ms after its start a node joins; without slow disks it is in sync 2 ms later.
        let slow = after(back, 40, 60);
        let deaf = after(back, 45, 160);
        let deaf = Span {
            start: deaf,
            end: after(deaf, 500, 2000),
        };
        let apart = after(deaf.start, 0, 300);
        let apart = Span {
            start: apart,
            end: after(apart, 200, 2000),
        };
        let away = after(apart.start, 10, 300);
        let away = Span {
            start: away,
            end: after(away, 300, 3000),
        };
        self.down(Span { start, end: back }, Fault::Kill(node), node);
        if prng.chance(3, 4) {
            let slowness = Duration::from_millis(prng.between(5, 40));
            self.add(slow, Fault::SlowDisks(node, slowness));
            self.add(deaf.end, Fault::SlowDisks(node, Duration::ZERO));
        }
        self.cut(deaf, Place::Metadata, Place::Node(other));
        self.cut_some(apart, Place::Node(other), Place::Node(node), prng);
        if prng.chance(1, 2) {
            self.reset_before(apart.start, other, node);
        }
        if prng.chance(2, 3) {
            self.down(away, Fault::Kill(other), other);
        }
    }

    /// One of the other nodes, if there is one.
    fn other(&self, node: NodeId, prng: &mut Prng) -> Option<NodeId> {
        let others: Vec<NodeId> = self.nodes().filter(|other| *other != node).collect();
        (!others.is_empty()).then(|| *prng.choose(&others))
    }

    /// The link between two nodes is reset, so shortly before something else that both hear of it.
    fn reset_before(&mut self, what: Duration, one: NodeId, other: NodeId) {
        let when = what.saturating_sub(Duration::from_millis(1));
        self.add(when, Fault::Reset(one, other));
    }

    fn cut_some(&mut self, span: Span, one: Place, other: Place, prng: &mut Prng) {
        match prng.below(3) {
            0 => self.cut(span, one, other),
            1 => self.cut(span, other, one),
            _ => self.cut_both(span, one, other),
        }
    }

    fn cut_both(&mut self, span: Span, one: Place, other: Place) {
        self.cut(span, one, other);
        self.cut(span, other, one);
    }

    fn cut(&mut self, Span { start, end }: Span, from: Place, to: Place) {
        self.add(start, Fault::Cut(from, to));
        self.add(end, Fault::Mend(from, to));
    }
}
