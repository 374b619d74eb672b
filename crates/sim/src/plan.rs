//! From a seed to what goes wrong and when.
//!
//! Invariants:
//! - everything that goes wrong is mended by the end of the plan: nodes run, ways are passable;
//! - data stays recoverable: devices are emptied or rot on one node only, and not while it holds the
//!   only copy.

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
}

/// How much goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Weather {
    Calm,
    Rough,
    Storm,
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
        let cluster = ClusterPlan {
            nodes,
            node: NodePlan::draw(prng),
            volumes: vec![VolumePlan::new("disk", policy)],
            hosts: (0..hosts).map(|_| HostPlan::draw(0, prng)).collect(),
        };
        let load = Duration::from_millis(prng.between(3000, 9000));
        let mut plan = Self {
            cluster,
            load,
            faults: Vec::new(),
        };
        let weather = *prng.choose(&[
            Weather::Calm,
            Weather::Rough,
            Weather::Rough,
            Weather::Storm,
        ]);
        let episodes = match weather {
            Weather::Calm => prng.between(0, 1),
            Weather::Rough => prng.between(1, 3),
            Weather::Storm => prng.between(4, 9),
        };
        for _ in 0..episodes {
            plan.add_episode(prng);
        }
        plan
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
        let load = self.load.as_millis() as u64;
        let start = Duration::from_millis(prng.between(100, load - 200));
        let long = prng.chance(1, 3);
        let span = Duration::from_millis(if long {
            prng.between(1000, 6000)
        } else {
            prng.between(20, 1200)
        });
        let end = start + span;
        let node = NodeId(prng.between(1, self.cluster.nodes.into()) as u16);
        let all: Vec<NodeId> = (1..=self.cluster.nodes).map(NodeId).collect();
        match prng.below(13) {
            0 | 1 => self.down(start, end, Fault::Kill(node), node),
            2 => self.down(start, end, Fault::LosePower(node), node),
            3 => {
                for node in all {
                    let late = Duration::from_millis(prng.below(800));
                    self.down(start, end + late, Fault::LosePower(node), node);
                }
            }
            4 => {
                for node in all {
                    let late = Duration::from_millis(prng.below(200));
                    self.down(start, end + late, Fault::Kill(node), node);
                }
            }
            5 | 6 => {
                let between = prng.chance(1, 2);
                self.faults.push((
                    start,
                    Fault::Freeze {
                        node,
                        span,
                        between,
                    },
                ));
                // The plan ends when it is over.
                self.faults.push((end, Fault::Start(node)));
            }
            7 => self.part(start, end, node, prng),
            8 => {
                let to_all: Vec<Place> = self.others(node).collect();
                for other in to_all {
                    self.cut_both(start, end, Place::Node(node), other);
                }
            }
            9 => self.cut_some(start, end, Place::Node(node), Place::Metadata, prng),
            10 => {
                let host = prng.below(self.cluster.hosts.len() as u64) as u16;
                self.cut_some(start, end, Place::Host(host), Place::Node(node), prng);
            }
            11 => {
                let slowness = Duration::from_millis(*prng.choose(&[2, 20, 100, 300]));
                self.faults.push((start, Fault::Slow(slowness)));
                self.faults.push((end, Fault::Slow(Duration::ZERO)));
                if prng.chance(1, 2) {
                    self.faults
                        .push((start, Fault::LoseAnswers(prng.between(2, 6))));
                    self.faults.push((end, Fault::LoseAnswers(0)));
                }
            }
            _ => {
                let fault = match prng.below(3) {
                    0 => Fault::StickDisks(node),
                    1 => Fault::FailDisks(node),
                    _ => Fault::Stop(node),
                };
                self.faults.push((start, fault));
                let kill = end + Duration::from_millis(1);
                self.faults.push((end, Fault::Kill(node)));
                self.faults.push((kill, Fault::Start(node)));
            }
        }
    }

    /// A node is down for a while.
    fn down(&mut self, start: Duration, end: Duration, fault: Fault, node: NodeId) {
        self.faults.push((start, fault));
        self.faults.push((end, Fault::Start(node)));
    }

    /// A node does not reach another one, or not both ways.
    fn part(&mut self, start: Duration, end: Duration, node: NodeId, prng: &mut Prng) {
        let others: Vec<NodeId> = (1..=self.cluster.nodes)
            .map(NodeId)
            .filter(|other| *other != node)
            .collect();
        if others.is_empty() {
            return;
        }
        let other = *prng.choose(&others);
        self.cut_some(start, end, Place::Node(node), Place::Node(other), prng);
    }

    fn others(&self, node: NodeId) -> impl Iterator<Item = Place> + use<> {
        let hosts = self.cluster.hosts.len() as u16;
        let nodes = (1..=self.cluster.nodes)
            .map(NodeId)
            .filter(move |other| *other != node);
        let places = nodes.map(Place::Node).chain((0..hosts).map(Place::Host));
        places.chain([Place::Metadata])
    }

    fn cut_some(
        &mut self,
        start: Duration,
        end: Duration,
        one: Place,
        other: Place,
        prng: &mut Prng,
    ) {
        match prng.below(3) {
            0 => self.cut(start, end, one, other),
            1 => self.cut(start, end, other, one),
            _ => self.cut_both(start, end, one, other),
        }
    }

    fn cut_both(&mut self, start: Duration, end: Duration, one: Place, other: Place) {
        self.cut(start, end, one, other);
        self.cut(start, end, other, one);
    }

    fn cut(&mut self, start: Duration, end: Duration, from: Place, to: Place) {
        self.faults.push((start, Fault::Cut(from, to)));
        self.faults.push((end, Fault::Mend(from, to)));
    }
}
