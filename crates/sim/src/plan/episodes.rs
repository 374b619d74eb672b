//! What goes wrong, episode by episode, each with its end.

use holdfast_model::NodeId;
use holdfast_stdx::{Duration, Prng};

use super::mix::{Kind, Mix};
use super::{LONG_TIMES, RunPlan, Span, Weather};
use crate::cluster::{Damage, Fault};
use crate::network::Place;
use crate::profile::Profile;

/// Of the runs in which much goes wrong, one in so many has devices whose reads hang.
const HANG_ONE_IN: u64 = 10;

impl RunPlan {
    /// Something goes wrong, and is mended some time later.
    pub(super) fn add_episode(&mut self, mix: &Mix, prng: &mut Prng) {
        let node = NodeId(prng.between(1, self.cluster.nodes.into()) as u16);
        let span = self.draw_span(prng);
        let Some(kind) = mix.next(prng) else {
            return;
        };
        match kind {
            Kind::Kill => self.down(span, Fault::Kill(node), node),
            Kind::PowerLoss => self.down(span, Fault::LosePower(node), node),
            Kind::Blackout => self.blackout(span, node, prng),
            Kind::AllKilled => self.all_down(span, Fault::Kill, prng),
            Kind::Deaths => self.deaths(span, prng),
            Kind::Freeze => self.freeze(span, node, prng),
            Kind::Part => self.part(span, node, prng),
            Kind::Isolate => self.isolate(span, node),
            Kind::Shun => self.shun(span.start, node, prng),
            Kind::OneWay => self.one_way(span, node, prng),
            Kind::MetadataAway => self.metadata_away(span, prng),
            Kind::HostAway => {
                let host = prng.below(self.cluster.hosts.len() as u64) as u16;
                self.cut_some(span, Place::Host(host), Place::Node(node), prng);
            }
            Kind::SlowNetwork => self.slow_network(span, prng),
            Kind::Empty => self.empty(span),
            Kind::RollBack => self.roll_back(span, Fault::RollBack(self.victim)),
            Kind::RollBackJournal => self.roll_back(span, Fault::RollBackJournal(self.victim)),
            Kind::Swap => self.swap(span, node, prng),
            Kind::SlowDisks => self.slow_disks(span, node, prng),
            Kind::Strand => self.strand(span.start, node, prng),
            Kind::DisturbSync => self.disturb_sync(span.start, node, prng),
            Kind::EndBadly => self.end_badly(span, node, prng),
            Kind::Move => self.moves(span.start, prng),
            Kind::Drain => self.drain(span.start, node, prng),
            Kind::Maintenance => self.maintain(span, node, prng),
            Kind::Replace => self.replace(span.start, node, prng),
        }
    }

    /// The victim's devices rot, while it runs, while it is off, and in between: pages, table and journal.
    pub(super) fn add_rot(&mut self, prng: &mut Prng) {
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
            if prng.chance(1, 4) {
                let rots = start + (end - start) / 2;
                self.add(rots, Fault::RotJournal(self.victim));
            }
        }
    }

    /// A backup of the metadata is made, and brought back a while later, or documents are deleted; then the right one is.
    pub(super) fn add_backup(&mut self, prng: &mut Prng) {
        let load = self.load.as_millis() as u64;
        let saved = prng.between(1, load / 2);
        let back = prng.between(saved, load - 100);
        let right = back + prng.between(50, 4000);
        let fault = match prng.below(10) {
            0 | 1 => Fault::EmptyMetadata,
            2 => Fault::DamageMetadata(Damage::Everything),
            3 => Fault::DamageMetadata(Damage::Volumes),
            4 => Fault::DamageMetadata(Damage::Slices),
            5 => Fault::DamageMetadata(Damage::Nodes),
            _ => Fault::RollBackMetadata,
        };
        self.add(Duration::from_millis(saved), Fault::SaveMetadata);
        self.add(Duration::from_millis(back), fault);
        self.add(Duration::from_millis(right), Fault::RestoreMetadata);
    }

    /// The victim's devices lie, and it loses power now and then.
    pub(super) fn add_lies(&mut self, prng: &mut Prng) {
        let load = self.load.as_millis() as u64;
        let victim = self.victim;
        self.add(Duration::from_millis(prng.below(500)), Fault::Lie(victim));
        for _ in 0..prng.between(1, 3) {
            let start = Duration::from_millis(prng.between(100, load - 200));
            let end = start + Duration::from_millis(prng.between(1, 2500));
            let fault = if prng.chance(3, 4) {
                Fault::LosePower(victim)
            } else {
                Fault::Kill(victim)
            };
            self.down(Span { start, end }, fault, victim);
        }
    }

    /// Machines stand still, one or several times, and so do their clocks.
    pub(super) fn add_standstills(&mut self, prng: &mut Prng) {
        for _ in 0..prng.between(1, 3) {
            let node = NodeId(prng.between(1, self.cluster.nodes.into()) as u16);
            let Span { start, end } = self.draw_span(prng);
            let span = end - start;
            self.add(start, Fault::Standstill { node, span });
            // The plan ends when it is over.
            self.add(end, Fault::Start(node));
        }
    }

    /// A volume grows while it is in use, whatever else happens. Of two copies, the one that is on devices that rot
    /// may be alone for a while: whoever is cut off, or starts, need not see that the volume has grown. So of
    /// less than three none grows there; `copies_min` is what the volume has that has the fewest.
    pub(super) fn add_growth(&mut self, weather: Weather, copies_min: usize, prng: &mut Prng) {
        let load = self.load.as_millis() as u64;
        let is_safe = weather != Weather::Rot || copies_min > 2;
        for _ in 0..prng.between(1, 2) {
            let volume = prng.below(self.cluster.volumes.len() as u64) as usize;
            let when = Duration::from_millis(prng.between(100, load - 200));
            if is_safe {
                self.add(when, Fault::Grow(volume));
            }
        }
    }

    pub(super) fn add_scrubs(&mut self, prng: &mut Prng) {
        let load = self.load.as_millis() as u64;
        for _ in 0..prng.between(1, 3) {
            let when = Duration::from_millis(prng.between(100, load));
            self.add(when, Fault::Scrub);
        }
    }

    /// Nodes die one after the other, and are away at the same time: as many as a mirror survives, and
    /// now and then more.
    fn deaths(&mut self, Span { mut start, end }: Span, prng: &mut Prng) {
        let mut nodes: Vec<NodeId> = self.nodes().collect();
        prng.shuffle(&mut nodes);
        let count = prng.between(1, nodes.len().min(3) as u64) as usize;
        for node in nodes.drain(..count) {
            let fault = if prng.chance(1, 2) {
                Fault::Kill(node)
            } else {
                Fault::LosePower(node)
            };
            let late = Duration::from_millis(prng.below(2000));
            let end = end.max(start) + late;
            self.down(Span { start, end }, fault, node);
            start += Duration::from_millis(prng.between(0, 1500));
        }
    }

    /// A node hears nobody and is heard by all, or the other way round.
    fn one_way(&mut self, span: Span, node: NodeId, prng: &mut Prng) {
        let deaf = prng.chance(1, 2);
        let metadata_too = prng.chance(1, 2);
        let others = self.nodes().filter(|other| *other != node);
        let mut places: Vec<Place> = others.map(Place::Node).collect();
        if metadata_too {
            places.push(Place::Metadata);
        }
        for place in places {
            if deaf {
                self.cut(span, place, Place::Node(node));
            } else {
                self.cut(span, Place::Node(node), place);
            }
        }
    }

    /// Some nodes, or all, do not reach the metadata, or do not hear it.
    fn metadata_away(&mut self, span: Span, prng: &mut Prng) {
        let mut nodes: Vec<NodeId> = self.nodes().collect();
        prng.shuffle(&mut nodes);
        let count = prng.between(1, nodes.len() as u64) as usize;
        for node in nodes.drain(..count) {
            self.cut_some(span, Place::Node(node), Place::Metadata, prng);
        }
    }

    /// One node does not reach the metadata, or does not hear it.
    pub(super) fn away_from_metadata(&mut self, span: Span, node: NodeId, prng: &mut Prng) {
        self.cut_some(span, Place::Node(node), Place::Metadata, prng);
    }

    /// Two nodes are off, and come back with each other's first device; they are off again, and come
    /// back with their own.
    fn swap(&mut self, Span { start, end }: Span, node: NodeId, prng: &mut Prng) {
        let Some(other) = self.other(node, prng) else {
            return;
        };
        let step = (end - start) / 3;
        for place in [node, other] {
            self.down(
                Span {
                    start,
                    end: start + step,
                },
                Fault::Kill(place),
                place,
            );
        }
        self.add(start + step / 2, Fault::SwapDisks(node, other));
        for place in [node, other] {
            let away = Span {
                start: start + 2 * step,
                end,
            };
            self.down(away, Fault::PutBack(place), place);
        }
    }

    /// From when to when something is wrong: mostly for a moment, at times for seconds.
    pub(super) fn draw_span(&self, prng: &mut Prng) -> Span {
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

    pub(super) fn add(&mut self, when: Duration, fault: Fault) {
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
    pub(super) fn freeze(&mut self, Span { start, end }: Span, node: NodeId, prng: &mut Prng) {
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

    /// The victim comes back with its devices, or one of them, as they were before its last start. If it
    /// refuses them, it gets its own back.
    fn roll_back(&mut self, Span { start, end }: Span, fault: Fault) {
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
        self.add(start + 4 * step, fault);
        let later = end + Duration::from_millis(300);
        self.add(later, Fault::PutBack(node));
        self.add(later, Fault::Start(node));
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

    /// Reads hang on a node's devices for a while, in some of the runs in which devices may be slow.
    pub(super) fn add_hanging_reads(
        &mut self,
        profile: Profile,
        weather: Weather,
        prng: &mut Prng,
    ) {
        if !matches!(weather, Weather::Rough | Weather::Storm) || !prng.chance(1, HANG_ONE_IN) {
            return;
        }
        let episodes = match profile {
            Profile::Long => LONG_TIMES,
            Profile::Short | Profile::Beyond => prng.between(1, 2),
        };
        for _ in 0..episodes {
            let node = NodeId(prng.between(1, self.cluster.nodes.into()) as u16);
            let Span { start, end } = self.draw_span(prng);
            self.add(start, Fault::HangReads(node));
            self.add(end, Fault::UnstickDisks(node));
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
    pub(super) fn down(&mut self, Span { start, end }: Span, fault: Fault, node: NodeId) {
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
