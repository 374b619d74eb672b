//! Segments of a journal whose header was not written when they were begun, in some of the runs in which devices are sound
//! otherwise.
//!
//! Invariant: what is drawn here comes of a stream of its own: the rest of a run's plan is what it would be without.

use holdfast_model::NodeId;
use holdfast_stdx::Prng;

use super::devices::midway;
use super::{RunPlan, Weather};
use crate::cluster::Fault;

/// Of these runs, one in so many has that.
const ONE_IN: u64 = 6;

impl RunPlan {
    /// A node is off, and then lacks the header of some segment.
    pub(super) fn add_lost_headers(&mut self, weather: Weather, prng: &mut Prng) {
        let is_sound = matches!(weather, Weather::Calm | Weather::Rough | Weather::Storm);
        if !is_sound || !prng.chance(1, ONE_IN) {
            return;
        }
        for _ in 0..prng.between(1, 3) {
            let node = NodeId(prng.between(1, self.cluster.nodes.into()) as u16);
            let span = self.draw_span(prng);
            self.down(span, Fault::Kill(node), node);
            self.add(midway(span), Fault::LoseHeader(node));
        }
    }
}
