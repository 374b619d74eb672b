//! Guests: volumes that are made and deleted while hosts are busy, in some of the runs.
//!
//! Invariant: what is drawn here comes of a stream of its own: the rest of a run's plan is what it would be without.

use holdfast_model::{BLOCK_SIZE, NodeId, PAGE_SIZE, Policy};
use holdfast_stdx::{Duration, Prng};

use super::{LONG_TIMES, RunPlan, Span, Weather};
use crate::cluster::{Fault, GuestPlan, VolumeOrder};
use crate::host::HostPlan;
use crate::profile::Profile;
use crate::volumes::VolumePlan;

/// Of the runs in which volumes may come and go, one in so many has that.
const ONE_IN: u64 = 4;
/// Of the making of volumes, one in so many is cut short.
const HANGS_UP_ONE_IN: u64 = 4;
/// A volume of one slice.
const SMALL_BYTES: u64 = 64 << 20;

impl RunPlan {
    /// One or two names are given to one volume after the other.
    pub(super) fn add_guests(&mut self, profile: Profile, weather: Weather, prng: &mut Prng) {
        let is_sound = matches!(
            weather,
            Weather::Calm | Weather::Rough | Weather::Storm | Weather::Rot
        );
        // What has one copy is lost where it rots.
        let copies_min = if weather == Weather::Rot { 2 } else { 1 };
        let has_room = usize::from(self.cluster.nodes) >= copies_min;
        if !is_sound || !has_room || !prng.chance(1, ONE_IN) {
            return;
        }
        self.compares |= prng.chance(1, 2);
        for name in 0..prng.between(1, 2) {
            self.add_name(name, profile, weather, copies_min, prng);
        }
    }

    fn add_name(
        &mut self,
        name: u64,
        profile: Profile,
        weather: Weather,
        copies_min: usize,
        prng: &mut Prng,
    ) {
        let load = self.load.as_millis() as u64;
        let volumes = match profile {
            Profile::Long => prng.between(2, 2 * LONG_TIMES),
            Profile::Short | Profile::Beyond => prng.between(1, 3),
        };
        let pause_max = load / (2 * volumes) + 100;
        let mut when = Duration::from_millis(prng.between(1, load / 2));
        for _ in 0..volumes {
            let guest = self.add_guest(name, copies_min, prng);
            self.make(when, guest, prng);
            when += Duration::from_millis(prng.between(20, 2 * pause_max));
            if prng.chance(1, 8) {
                // It stays, and another one of that name is refused, or it is there already.
                continue;
            }
            let orderly = prng.chance(1, 4);
            self.add(when, Fault::Volume(VolumeOrder::Delete { guest, orderly }));
            if weather != Weather::Rot && prng.chance(1, 2) {
                self.trouble(when, prng);
            }
            when += Duration::from_millis(prng.between(1, pause_max));
        }
    }

    /// Its place among the guests.
    fn add_guest(&mut self, name: u64, copies_min: usize, prng: &mut Prng) -> u8 {
        let nodes = usize::from(self.cluster.nodes);
        let policies = [
            Policy::None,
            Policy::Mirror2,
            Policy::Mirror2,
            Policy::Mirror3,
            Policy::Mirror4,
        ];
        let policies = policies.into_iter();
        let policies = policies.filter(|it| (copies_min..=nodes).contains(&it.copies()));
        let policies: Vec<Policy> = policies.collect();
        let mut volume = VolumePlan::new(&format!("guest{name}"), *prng.choose(&policies));
        if prng.chance(2, 3) {
            let page = (PAGE_SIZE / BLOCK_SIZE) as u64;
            volume.bytes = SMALL_BYTES;
            volume.areas = vec![(0, 4), (page - 2, 4), (4 * page - 3, 6), (20 * page + 7, 1)];
        }
        let host = HostPlan {
            resets: None,
            may_lack_room: self.is_tight,
            ..HostPlan::draw(0, prng.chance(1, 2), prng)
        };
        self.cluster.guests.push(GuestPlan { volume, host });
        (self.cluster.guests.len() - 1) as u8
    }

    /// A guest is to be made: now and then it is cut short, wanted twice, or what there is left is cleared away meanwhile.
    fn make(&mut self, when: Duration, guest: u8, prng: &mut Prng) {
        let hangs_up = prng
            .chance(1, HANGS_UP_ONE_IN)
            .then(|| prng.between(0, 2) as u8);
        let make = |hangs_up| Fault::Volume(VolumeOrder::Make { guest, hangs_up });
        self.add(when, make(hangs_up));
        let soon = |prng: &mut Prng, most| when + Duration::from_millis(prng.below(most));
        if prng.chance(1, 8) {
            let again = soon(prng, 60);
            self.add(again, make(None));
        }
        if hangs_up.is_some() && prng.chance(1, 2) {
            let again = soon(prng, 1000);
            self.add(again, make(None));
        }
        if prng.chance(1, 4) {
            let cleared = soon(prng, 100);
            self.add(cleared, Fault::Volume(VolumeOrder::CleanUp));
        }
    }

    /// Something goes wrong about the time at which a volume is deleted.
    fn trouble(&mut self, when: Duration, prng: &mut Prng) {
        let node = NodeId(prng.between(1, self.cluster.nodes.into()) as u16);
        let before = Duration::from_millis(prng.between(0, 300));
        let span = Span {
            start: when.saturating_sub(before),
            end: when + Duration::from_millis(prng.between(10, 2000)),
        };
        match prng.below(5) {
            0 => self.down(span, Fault::Kill(node), node),
            1 | 2 => self.down(span, Fault::LosePower(node), node),
            3 => self.freeze(span, node, prng),
            _ => self.away_from_metadata(span, node, prng),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draw(seed: u64) -> RunPlan {
        RunPlan::draw(Profile::Short, &mut Prng::from_seed(seed))
    }

    #[test]
    fn some_runs_have_volumes_that_come_and_go() {
        let plans = (0..1000).map(draw);
        let plans: Vec<RunPlan> = plans.filter(|it| !it.cluster.guests.is_empty()).collect();
        assert!((100..400).contains(&plans.len()), "{}", plans.len());
        let count = |is: fn(&VolumeOrder) -> bool| {
            let faults = plans.iter().flat_map(|plan| &plan.faults);
            let orders = faults.filter_map(|(_, fault)| match fault {
                Fault::Volume(order) => Some(order),
                _ => None,
            });
            orders.filter(|order| is(order)).count()
        };
        let make = |order: &VolumeOrder| matches!(order, VolumeOrder::Make { hangs_up: None, .. });
        let cut = |order: &VolumeOrder| {
            matches!(
                order,
                VolumeOrder::Make {
                    hangs_up: Some(_),
                    ..
                }
            )
        };
        let delete = |order: &VolumeOrder| matches!(order, VolumeOrder::Delete { .. });
        for kind in [make, cut, delete] {
            assert!(count(kind) > 50, "{}", count(kind));
        }
        assert!(count(|order| *order == VolumeOrder::CleanUp) > 20);
    }
}
