//! Rivals: hosts that take their volume from each other, in some of the runs.
//!
//! Invariant: what is drawn here comes of a stream of its own: the rest of a run's plan is what it would be without.

use holdfast_stdx::{Duration, Prng};

use super::{RunPlan, Weather};
use crate::host::{HostPlan, Rivalry};

/// Of the runs in which there may be rivals, one in so many has them.
const ONE_IN: u64 = 4;
/// Types of reservations (SPC-4 6.15.3), those most often that clusters use.
const KINDS: &[u8] = &[1, 3, 5, 5, 5, 6, 7, 8];

impl RunPlan {
    /// The hosts of one volume become rivals; one more comes if there is only one.
    pub(super) fn add_rivals(&mut self, weather: Weather, prng: &mut Prng) {
        let is_sound = matches!(
            weather,
            Weather::Calm | Weather::Rough | Weather::Storm | Weather::Rot
        );
        if !is_sound || !prng.chance(1, ONE_IN) {
            return;
        }
        let volume = prng.below(self.cluster.volumes.len() as u64) as usize;
        let hosts = self.cluster.hosts.iter();
        if hosts.filter(|host| host.volume == volume).count() < 2 {
            let hurried = prng.chance(1, 4);
            let host = HostPlan {
                may_lack_room: self.is_tight,
                ..HostPlan::draw(volume, hurried, prng)
            };
            self.cluster.hosts.push(host);
        }
        let kind = *prng.choose(KINDS);
        let every = Duration::from_millis(prng.between(150, 1200));
        let registers_after = Duration::from_millis(prng.between(100, 1200));
        let hosts = self.cluster.hosts.iter_mut();
        for host in hosts.filter(|host| host.volume == volume) {
            host.rivalry = Some(Rivalry {
                kind,
                every,
                registers_after,
            });
        }
    }
}
