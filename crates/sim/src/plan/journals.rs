//! Journals that move to other devices, in some of the runs in which devices come and go.
//!
//! Invariants:
//! - what is drawn here comes of a stream of its own: the rest of a run's plan is what it would be without;
//! - a device that is taken out is put back, and whoever ended because of one is started again.

use holdfast_model::NodeId;
use holdfast_stdx::{Duration, Prng};

use super::devices::{midway, one_of_two};
use super::{LONG_TIMES, RunPlan, Span, Weather};
use crate::cluster::{DeviceChange, Fault};
use crate::profile::Profile;

/// Of the runs with devices that come and go, one in so many has journals that move.
const ONE_IN: u64 = 3;
/// How long a journal of a run is about to move, once that has begun: some of what happens then hits it.
const MOVE_MICROS_MAX: u64 = 60_000;

impl RunPlan {
    /// Journals move, and things go wrong meanwhile.
    pub(super) fn add_journal_moves(
        &mut self,
        profile: Profile,
        weather: Weather,
        prng: &mut Prng,
    ) {
        if !prng.chance(1, ONE_IN) {
            return;
        }
        let episodes = match profile {
            Profile::Long => prng.between(1, 2) * LONG_TIMES,
            Profile::Short | Profile::Beyond => prng.between(1, 2),
        };
        for _ in 0..episodes {
            let mut node = NodeId(prng.between(1, self.cluster.nodes.into()) as u16);
            // Where devices of one node rot, nothing happens to the others.
            if weather == Weather::Rot {
                node = self.victim;
            }
            self.add_journal_move(weather, node, prng);
        }
    }

    fn add_journal_move(&mut self, weather: Weather, node: NodeId, prng: &mut Prng) {
        let span = self.draw_span(prng);
        let mut begins = span.start;
        if prng.chance(2, 3) {
            self.change(span.start, node, DeviceChange::AddRoom, prng);
            begins = span.start + Duration::from_millis(prng.between(2, 50));
            self.add(begins, Fault::Device(node, DeviceChange::DrainJournal));
        } else {
            self.change(begins, node, DeviceChange::ReplaceJournal, prng);
        }
        // No process starts where a backup of the metadata is brought back.
        if weather != Weather::Backup {
            self.disturb_move(begins, node, prng);
        }
        if prng.chance(1, 6) {
            let off = begins + during_move(prng);
            self.change(off, node, DeviceChange::Resume, prng);
        }
        let end = span.end.max(begins + Duration::from_millis(100));
        match prng.below(4) {
            0 => self.change(end, node, DeviceChange::Resume, prng),
            1 | 2 => self.change(end, node, DeviceChange::Remove, prng),
            _ => {}
        }
        // It goes back to where it was, or on.
        if prng.chance(1, 3) {
            let again = end + Duration::from_millis(prng.between(10, 400));
            self.add(again, Fault::Device(node, DeviceChange::DrainJournal));
        }
    }

    /// What goes wrong while a journal moves, and is mended.
    fn disturb_move(&mut self, begins: Duration, node: NodeId, prng: &mut Prng) {
        if prng.chance(1, 6) {
            self.change(begins, node, DeviceChange::Fail, prng);
        }
        if prng.chance(1, 2) {
            self.add(begins, Fault::Device(node, DeviceChange::EndAnnounced));
        }
        let mut start = begins;
        while prng.chance(1, 2) {
            start += during_move(prng);
            let end = start + Duration::from_millis(prng.between(2, 200));
            let span = Span { start, end };
            match prng.below(6) {
                0 => self.miss_journal(span, node, prng),
                1 => {
                    self.down(span, one_of_two(node, prng), node);
                    self.change(midway(span), node, DeviceChange::Pull, prng);
                    self.put_back(end + Duration::from_millis(prng.between(10, 800)), node);
                }
                2 => {
                    self.add(start, Fault::Device(node, DeviceChange::FailJournal));
                    self.down(span, Fault::Kill(node), node);
                }
                _ => self.down(span, one_of_two(node, prng), node),
            }
            start = end;
        }
    }

    /// What the journal needs is not there at a start, nor is the node then; and is there at a later one.
    fn miss_journal(&mut self, span: Span, node: NodeId, prng: &mut Prng) {
        self.down(span, one_of_two(node, prng), node);
        self.change(midway(span), node, DeviceChange::PullJournal, prng);
        self.put_back(
            span.end + Duration::from_millis(prng.between(10, 1500)),
            node,
        );
    }

    fn put_back(&mut self, when: Duration, node: NodeId) {
        self.add(when, Fault::Device(node, DeviceChange::PutBack));
        let end = when + Duration::from_millis(1);
        self.down(Span { start: when, end }, Fault::Kill(node), node);
    }
}

fn during_move(prng: &mut Prng) -> Duration {
    Duration::from_micros(prng.between(200, MOVE_MICROS_MAX))
}
