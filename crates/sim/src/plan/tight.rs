//! Devices with room for fewer pages than hosts write, in some of the runs: the operator adds others in the end.
//!
//! Invariant: what is drawn here comes of a stream of its own: the rest of a run's plan is what it would be without.

use holdfast_format::TABLE_BLOCK;
use holdfast_model::{BLOCK_SIZE, PAGE_SIZE};
use holdfast_stdx::Prng;

use super::devices::PAGE_DEVICE_BYTES;
use super::{RunPlan, Weather};
use crate::cluster::Fault;

/// Of the runs in which devices may be small, one in so many has that.
const ONE_IN: u64 = 8;
/// What the superblocks take.
const HEAD_BYTES: u64 = 2 << 20;
/// Slots come in eights, each with a part of both copies of the table.
const EIGHT_SLOTS_BYTES: u64 = 8 * PAGE_SIZE as u64 + 2 * TABLE_BLOCK as u64;

impl RunPlan {
    /// Nodes have one small device each, and hosts write to so many places that there is no room for all.
    pub(super) fn add_tight_devices(&mut self, weather: Weather, prng: &mut Prng) {
        // Where devices lie, or rot, less can be promised of what they are asked.
        let is_sound = !matches!(weather, Weather::Lies | Weather::Rot);
        let is_device = |fault: &Fault| matches!(fault, Fault::Device(..));
        let have_others = self.faults.iter().any(|(_, fault)| is_device(fault));
        if !is_sound || have_others || !prng.chance(1, ONE_IN) {
            return;
        }
        let node = &mut self.cluster.node;
        let eights = prng.between(1, 2);
        node.device_count = 1;
        node.page_device_bytes = PAGE_DEVICE_BYTES;
        let journal_bytes = node.store.format.journal_bytes.unwrap_or(0);
        node.device_bytes = HEAD_BYTES + journal_bytes + eights * EIGHT_SLOTS_BYTES;
        let page = (PAGE_SIZE / BLOCK_SIZE) as u64;
        for volume in &mut self.cluster.volumes {
            let places = prng.between(2, 9);
            let areas = (0..places).map(|place| (page * (70 + 3 * place) + place, 2));
            volume.areas.extend(areas);
        }
        for host in &mut self.cluster.hosts {
            host.may_lack_room = true;
        }
        self.is_tight = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::Profile;

    #[test]
    fn some_runs_have_small_devices_and_nothing_else_happens_to_these() {
        let draw = |seed| RunPlan::draw(Profile::Short, &mut Prng::from_seed(seed));
        let tight: Vec<_> = (0..1000).map(draw).filter(|it| it.is_tight).collect();
        assert!((30..200).contains(&tight.len()), "{}", tight.len());
        for plan in tight {
            let mut faults = plan.faults.iter();
            assert!(!faults.any(|(_, it)| matches!(it, Fault::Device(..))));
        }
    }
}
