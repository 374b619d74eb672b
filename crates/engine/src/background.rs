//! Work that no host waits for: who may go on with it, and when.
//!
//! It refuses to know how fast that may be: [`Pace`](crate::pace::Pace) says so.

use alloc::vec::Vec;

use holdfast_model::SliceId;

use crate::engine::Engine;
use crate::pace::{Bounds, Work};

impl Engine {
    /// Lets those go on in the background who had to wait, if it is time.
    pub(crate) fn work_on(&mut self) {
        if !self.world.pace.is_due(self.world.now) {
            return;
        }
        self.scrubs.release();
        // Whoever was there first must not be it each time.
        let last = self.world.held_last;
        let held = core::mem::take(&mut self.world.held).into_iter();
        let (sooner, later): (Vec<SliceId>, Vec<SliceId>) =
            held.partition(|slice| Some(*slice) <= last);
        self.world.held_last = later.first().or(sooner.first()).copied();
        for slice in later.into_iter().chain(sooner) {
            self.with_replica(slice, |replica, context| replica.look_again(context));
        }
    }

    /// Lets a round of destage begin that waits, when it may.
    pub(crate) fn destage(&mut self) {
        let now = self.world.now;
        if self.world.storage.store().destage_waits() && self.world.pace.may(now, Work::Destage) {
            let (pages, bytes) = self.world.storage.destage(now);
            self.world.pace.began(now, Work::Destage, pages, bytes);
        }
    }

    /// How fast it may be is another matter now.
    pub(crate) fn settings_changed(&mut self) {
        let bounds = Bounds::of(&self.world.cluster.settings);
        self.world.pace.set_bounds(bounds);
    }
}
