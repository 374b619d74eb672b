//! Where nodes stand, which the operator tells while hosts are busy, in some of the runs.
//!
//! Invariant: what is drawn here comes of a stream of its own: the rest of a run's plan is what it would be without.

use holdfast_model::NodeId;
use holdfast_stdx::{Duration, Prng};

use super::{RunPlan, Weather};
use crate::cluster::Fault;

/// Of the runs in which sites may be told, one in so many has that.
const ONE_IN: u64 = 4;

impl RunPlan {
    /// The operator says where most nodes stand; at times one of them is carried elsewhere.
    pub(super) fn add_sites(&mut self, weather: Weather, prng: &mut Prng) {
        let nodes = self.cluster.nodes;
        let is_steered = self.cluster.controller.is_some();
        // While a backup of the metadata is there nobody orders anything.
        if !is_steered || nodes < 3 || weather == Weather::Backup || !prng.chance(1, ONE_IN) {
            return;
        }
        let sites = prng.between(2, 3);
        let load = self.load.as_millis() as u64;
        let mut when = Duration::from_millis(prng.between(1, load));
        for node in 1..=nodes {
            if prng.chance(7, 8) {
                self.add(when, Fault::Site(NodeId(node), prng.below(sites) as u8));
                when += Duration::from_millis(prng.between(0, 200));
            }
        }
        if prng.chance(1, 2) {
            let node = NodeId(prng.between(1, nodes.into()) as u16);
            when += Duration::from_millis(prng.between(0, 2000));
            self.add(when, Fault::Site(node, prng.below(sites) as u8));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::Profile;

    #[test]
    fn some_runs_tell_of_more_than_one_site() {
        let draw = |seed| RunPlan::draw(Profile::Short, &mut Prng::from_seed(seed)).faults;
        let sites = |seed| {
            let faults = draw(seed).into_iter();
            let sites = faults.filter_map(|(_, fault)| match fault {
                Fault::Site(_, site) => Some(site),
                _ => None,
            });
            sites.collect::<std::collections::BTreeSet<u8>>().len()
        };
        let runs = (0..1000).filter(|seed| sites(*seed) > 1).count();
        assert!((30..300).contains(&runs), "{runs}");
    }
}
