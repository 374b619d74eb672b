//! Settings that the operator changes, in some of the runs.
//!
//! Invariant: what is drawn here comes of a stream of its own: the rest of a run's plan is what it would be without.

use holdfast_stdx::{Duration, Prng};

use super::{LONG_TIMES, RunPlan, Weather};
use crate::cluster::{Fault, SettingsChange};
use crate::profile::Profile;

/// Of the runs in which settings may change, one in so many has that.
const ONE_IN: u64 = 4;

impl RunPlan {
    /// Settings change a few times while hosts are busy.
    pub(super) fn add_settings(&mut self, profile: Profile, weather: Weather, prng: &mut Prng) {
        // While a backup of the metadata is there nobody orders anything.
        if weather == Weather::Backup || !prng.chance(1, ONE_IN) {
            return;
        }
        let changes = match profile {
            Profile::Long => prng.between(1, 3) * LONG_TIMES,
            Profile::Short | Profile::Beyond => prng.between(1, 4),
        };
        let load = self.load.as_millis() as u64;
        for _ in 0..changes {
            let when = Duration::from_millis(prng.between(1, load));
            let change = self.draw_change(prng);
            self.add(when, Fault::Settings(change));
        }
    }

    fn draw_change(&self, prng: &mut Prng) -> SettingsChange {
        const MIB: u64 = 1 << 20;
        // The last two are for whoever steers.
        let kinds = if self.cluster.controller.is_some() {
            5
        } else {
            3
        };
        match prng.below(kinds) {
            0 => SettingsChange::Slowdown(*prng.choose(&[1, 10, 100, 900])),
            1 => SettingsChange::Floor(*prng.choose(&[MIB, 2 * MIB, 16 * MIB, 1 << 30])),
            2 => SettingsChange::ScrubRate(*prng.choose(&[MIB, 64 * MIB, 1 << 30])),
            3 => SettingsChange::RepairDelay(*prng.choose(&[1, 2, 4, 60])),
            _ => SettingsChange::Rebalance(prng.chance(1, 2)),
        }
    }
}

/// Seconds between two scrubs of a volume, where they begin by themselves: all in vain if it is none.
const SCRUB_INTERVALS: &[u64] = &[0, 1, 1, 2, 5, 20];

impl RunPlan {
    /// Whoever steers begins scrubs of volumes that were not scrubbed for a while, and ends them; at times the
    /// operator changes how long that is.
    pub(super) fn add_scrub_interval(
        &mut self,
        profile: Profile,
        weather: Weather,
        prng: &mut Prng,
    ) {
        let Some(controller) = &mut self.cluster.controller else {
            return;
        };
        // While a backup of the metadata is there nobody orders anything.
        if weather == Weather::Backup || !prng.chance(1, ONE_IN) {
            return;
        }
        controller.scrub_interval_seconds = Some(*prng.choose(SCRUB_INTERVALS));
        let changes = match profile {
            Profile::Long => prng.between(0, LONG_TIMES),
            Profile::Short | Profile::Beyond => prng.between(0, 2),
        };
        let load = self.load.as_millis() as u64;
        for _ in 0..changes {
            let when = Duration::from_millis(prng.between(1, load));
            let change = SettingsChange::ScrubInterval(*prng.choose(SCRUB_INTERVALS));
            self.add(when, Fault::Settings(change));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn draw(seed: u64) -> Vec<(Duration, Fault)> {
        RunPlan::draw(Profile::Short, &mut Prng::from_seed(seed)).faults
    }

    #[test]
    fn some_runs_change_each_of_the_settings() {
        let mut runs: BTreeMap<&str, u64> = BTreeMap::new();
        for seed in 0..1000 {
            for (_, fault) in draw(seed) {
                if let Fault::Settings(change) = fault {
                    *runs.entry(change.name()).or_default() += 1;
                }
            }
        }
        assert_eq!(runs.len(), 6, "{runs:?}");
        assert!(runs.values().all(|count| *count > 20), "{runs:?}");
    }

    #[test]
    fn in_some_runs_scrubs_begin_by_themselves() {
        let plan = |seed| RunPlan::draw(Profile::Short, &mut Prng::from_seed(seed)).cluster;
        let intervals = (0..1000).filter_map(|seed| plan(seed).controller?.scrub_interval_seconds);
        let (never, now_and_then): (Vec<u64>, Vec<u64>) = intervals.partition(|it| *it == 0);
        assert!(never.len() > 5, "{}", never.len());
        assert!(
            (40..300).contains(&now_and_then.len()),
            "{}",
            now_and_then.len()
        );
    }
}
