//! Devices that come and go, in some of the runs.
//!
//! Invariants:
//! - what is drawn here comes of a stream of its own: the rest of a run's plan is what it would be without;
//! - a device that is taken out is put back, and whoever ended because of one is started again.

use holdfast_model::NodeId;
use holdfast_stdx::{Duration, Prng};

use super::{LONG_TIMES, RunPlan, Span, Weather};
use crate::cluster::{DeviceChange, Fault};
use crate::profile::Profile;

/// Of the runs in which devices may come and go, one in so many has that.
const ONE_IN: u64 = 3;
/// What a device has for pages: more than all that a node ever holds, and so little that stores open fast.
pub(super) const PAGE_DEVICE_BYTES: u64 = 64 << 20;

/// What makes the stream of numbers for journals that move another one than that for devices goes on with.
const JOURNALS: u64 = 0x0010_4E41;

/// A kind of episode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// One comes, another one is drained and goes, or stays after all.
    Exchange,
    Replace,
    /// One is not there at a start, and there at a later one, or dead.
    Missing,
    /// One fails while the store is open.
    Fail,
    /// One fails while the store is opened.
    FailAtOpening,
    /// The one with the journal fails, and the node gets new devices.
    JournalFails,
}

/// A kind, how often a run has it at all (in a hundred), and how often it then happens, among the others.
struct Row(Kind, u64, u64);

const KINDS: &[Row] = &[
    Row(Kind::Exchange, 70, 3),
    Row(Kind::Replace, 60, 2),
    Row(Kind::Missing, 60, 4),
    Row(Kind::Fail, 60, 3),
    Row(Kind::FailAtOpening, 40, 1),
    Row(Kind::JournalFails, 30, 1),
];

impl RunPlan {
    /// Nodes have several devices, and they come and go.
    pub(super) fn add_devices(&mut self, profile: Profile, weather: Weather, prng: &mut Prng) {
        // Where devices lie less can be promised of what they are asked.
        if weather == Weather::Lies || !prng.chance(1, ONE_IN) {
            return;
        }
        let node = &mut self.cluster.node;
        node.device_count = *prng.choose(&[1, 2, 2, 3, 3, 4]);
        node.page_device_bytes = PAGE_DEVICE_BYTES;
        node.device_bytes = PAGE_DEVICE_BYTES + node.store.format.journal_bytes.unwrap_or(0);
        let is_quiet = |fault: &Fault| matches!(fault, Fault::Grow(_) | Fault::Scrub);
        let is_alone = self.faults.iter().all(|(_, fault)| is_quiet(fault));
        if is_alone && weather == Weather::Calm && prng.chance(1, 2) {
            self.give_up(prng);
        } else {
            let own = prng.clone().next_u64() ^ JOURNALS;
            self.add_device_episodes(profile, weather, prng);
            self.add_journal_moves(profile, weather, &mut Prng::from_seed(own));
        }
        self.compares |= self.faults.iter().any(|(_, fault)| fault.loses_data());
    }

    fn add_device_episodes(&mut self, profile: Profile, weather: Weather, prng: &mut Prng) {
        let mut kinds = Vec::new();
        for Row(kind, chance, weight) in KINDS {
            let is_possible = match (weather, kind) {
                (_, Kind::Exchange | Kind::Replace) => true,
                // No process starts in this run.
                (Weather::Backup, _) => false,
                // What rots on the new devices is compared with nothing.
                (Weather::Rot, Kind::JournalFails) => false,
                _ => true,
            };
            if prng.chance(*chance, 100) && is_possible {
                kinds.extend((0..*weight).map(|_| *kind));
            }
        }
        if kinds.is_empty() {
            return;
        }
        let episodes = match profile {
            Profile::Long => prng.between(1, 3) * LONG_TIMES,
            Profile::Short | Profile::Beyond => prng.between(1, 4),
        };
        for _ in 0..episodes {
            let kind = *prng.choose(&kinds);
            self.add_device_episode(kind, weather, prng);
        }
    }

    fn add_device_episode(&mut self, kind: Kind, weather: Weather, prng: &mut Prng) {
        let mut node = NodeId(prng.between(1, self.cluster.nodes.into()) as u16);
        let span = self.draw_span(prng);
        // Where devices of one node rot, nothing happens to the others.
        if weather == Weather::Rot && !matches!(kind, Kind::Exchange | Kind::Replace) {
            node = self.victim;
        }
        match kind {
            Kind::Exchange => self.exchange(span, node, prng),
            Kind::Replace => self.change(span.start, node, DeviceChange::Replace, prng),
            Kind::Missing => self.miss(span, node, prng),
            Kind::Fail => {
                self.change(span.start, node, DeviceChange::Fail, prng);
                self.care(span.end, node, prng);
            }
            Kind::FailAtOpening => {
                self.down(span, one_of_two(node, prng), node);
                self.change(midway(span), node, DeviceChange::Fail, prng);
            }
            Kind::JournalFails => {
                let node = self.victim;
                self.add(span.start, Fault::Device(node, DeviceChange::FailJournal));
                self.add(span.end, Fault::Kill(node));
                self.add(span.end, Fault::Wipe(node));
                self.add(span.end + Duration::from_millis(1), Fault::Start(node));
            }
        }
    }

    /// A device comes, another one is drained; it is removed, or is to stay after all, or neither.
    fn exchange(&mut self, Span { start, end }: Span, node: NodeId, prng: &mut Prng) {
        if prng.chance(2, 3) {
            self.change(start, node, DeviceChange::Add, prng);
        }
        let drained = start + Duration::from_millis(prng.between(0, 300));
        self.change(drained, node, DeviceChange::Drain, prng);
        if prng.chance(1, 4) {
            let again = drained + Duration::from_millis(prng.between(0, 300));
            self.change(again, node, DeviceChange::Drain, prng);
        }
        match prng.below(4) {
            0 => self.change(end, node, DeviceChange::Resume, prng),
            1 | 2 => self.change(end, node, DeviceChange::Remove, prng),
            _ => {}
        }
    }

    /// A node starts without one of its devices, or several. They are there again at a later start, or dead.
    fn miss(&mut self, Span { start, end }: Span, node: NodeId, prng: &mut Prng) {
        let on = start + Duration::from_millis(prng.between(2, 600));
        self.start_without(Span { start, end: on }, node, prng);
        let mut end = end.max(on + Duration::from_millis(20));
        if prng.chance(1, 2) {
            let cared = on + Duration::from_millis(prng.between(1, 1000));
            self.care(cared, node, prng);
        }
        // It starts again, and at times goes without another one then.
        while prng.chance(1, 3) {
            let off = on + Duration::from_millis(prng.between(1, 1500));
            let span = Span {
                start: off,
                end: off + Duration::from_millis(prng.between(2, 300)),
            };
            if prng.chance(1, 2) {
                self.start_without(span, node, prng);
            } else {
                self.down(span, one_of_two(node, prng), node);
            }
            end = end.max(span.end);
        }
        if prng.chance(1, 4) {
            let dead = on + Duration::from_millis(prng.between(1, 2000));
            self.add(dead, Fault::Device(node, DeviceChange::Discard));
            self.care(dead.max(end), node, prng);
        }
        self.add(end, Fault::Device(node, DeviceChange::PutBack));
        let off = end + Duration::from_millis(prng.between(0, 200));
        let on = off + Duration::from_millis(prng.between(1, 300));
        let span = Span {
            start: off,
            end: on,
        };
        self.down(span, one_of_two(node, prng), node);
        // That start is cut short, and perhaps it is gone again.
        if prng.chance(1, 2) {
            let cut = on + Duration::from_micros(prng.between(200, 100_000));
            let span = Span {
                start: cut,
                end: cut + Duration::from_millis(prng.between(2, 300)),
            };
            if prng.chance(1, 2) {
                self.start_without(span, node, prng);
                let back = span.end + Duration::from_millis(prng.between(1, 2000));
                self.add(back, Fault::Device(node, DeviceChange::PutBack));
            } else {
                self.down(span, one_of_two(node, prng), node);
            }
        }
    }

    /// A node is down, and a device is taken out of it meanwhile.
    fn start_without(&mut self, span: Span, node: NodeId, prng: &mut Prng) {
        self.down(span, one_of_two(node, prng), node);
        self.change(midway(span), node, DeviceChange::Pull, prng);
        if prng.chance(1, 5) {
            self.change(midway(span), node, DeviceChange::Pull, prng);
        }
    }

    /// The operator does something about a device that is absent.
    fn care(&mut self, when: Duration, node: NodeId, prng: &mut Prng) {
        let change = match prng.below(6) {
            0 | 1 => DeviceChange::Replace,
            2 | 3 => DeviceChange::Remove,
            4 => DeviceChange::Drain,
            _ => return,
        };
        self.change(when, node, change, prng);
    }

    /// A device is absent for good, and what it had is given up. Its node then has blocks that are bad, which
    /// others bring: nothing may happen to these meanwhile, for whoever leads alone brings them to all.
    fn give_up(&mut self, prng: &mut Prng) {
        let node = NodeId(prng.between(1, self.cluster.nodes.into()) as u16);
        let Span { start, end } = self.draw_span(prng);
        let mut end = end.max(start + Duration::from_millis(50));
        if prng.chance(1, 2) {
            let on = start + Duration::from_millis(prng.between(2, 600));
            self.start_without(Span { start, end: on }, node, prng);
            self.add(on, Fault::Device(node, DeviceChange::Discard));
            end = end.max(on + Duration::from_millis(10));
        } else {
            self.change(start, node, DeviceChange::Fail, prng);
        }
        self.change(end, node, DeviceChange::GiveUp, prng);
        let off = end + Duration::from_millis(prng.between(0, 500));
        let span = Span {
            start: off,
            end: off + Duration::from_millis(prng.between(1, 600)),
        };
        self.down(span, one_of_two(node, prng), node);
        self.add(span.end, Fault::Device(node, DeviceChange::PutBack));
    }

    pub(super) fn change(
        &mut self,
        when: Duration,
        node: NodeId,
        change: fn(u16) -> DeviceChange,
        prng: &mut Prng,
    ) {
        let pick = prng.below(1 << 16) as u16;
        self.add(when, Fault::Device(node, change(pick)));
    }
}

pub(super) fn one_of_two(node: NodeId, prng: &mut Prng) -> Fault {
    if prng.chance(1, 2) {
        Fault::Kill(node)
    } else {
        Fault::LosePower(node)
    }
}

pub(super) fn midway(Span { start, end }: Span) -> Duration {
    start + (end - start) / 2
}
