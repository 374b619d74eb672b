//! What those who may have to steer next see of alarms while whoever steers does not answer: until its lease ends nobody raises any, and
//! how long something is bad counts all the same.
//!
//! It refuses to raise or clear anything.
//!
//! Invariants:
//! - what was seen counts only if it was looked again and again since: of what came in between nothing is known.

use holdfast_control::Inventory;
use tokio::time::Instant;

use super::AlarmWatch;
use crate::Controller;
use crate::reports::Reports;
use crate::steering::TERM;

/// What is seen while nobody steers.
#[derive(Debug, Default)]
pub(crate) struct Heir {
    alarms: AlarmWatch,
    /// When that was last looked at.
    looked: Option<Instant>,
}

impl Heir {
    /// Looks once.
    pub(crate) async fn look(
        &mut self,
        controller: &Controller,
        inventory: &Inventory,
        reports: &Reports,
    ) {
        self.forget_what_is_old();
        let looked = self.alarms.look_on(controller, inventory, reports).await;
        if looked.is_some() {
            self.looked = Some(Instant::now());
        }
    }

    /// What is known to whoever steers from now on.
    pub(crate) fn alarms(mut self) -> AlarmWatch {
        self.forget_what_is_old();
        self.alarms
    }

    fn forget_what_is_old(&mut self) {
        if self.looked.is_some_and(|looked| looked.elapsed() >= TERM) {
            *self = Self::default();
        }
    }
}
