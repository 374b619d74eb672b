//! Waits for what others do: a volume that somebody else makes, sessions that end, nodes that begin to serve.
//!
//! Invariant: nothing is waited for without end.

use std::time::Duration;

use holdfast_api::Problem;
use holdfast_api::documents::{Health, Volume};
use holdfast_control::{Inventory, PlanError, VolumeName};
use holdfast_model::VolumeId;
use holdfast_model::metadata::Revision;
use tokio::time::Instant;

use crate::{Controller, problem, view};

/// Without any progress for so long, the making of a volume has been cut short, and its name is
/// taken over. One that is only slow is stopped by it, and begins anew.
const ABANDONED_AFTER: Duration = Duration::from_secs(2);
/// How long sessions may take to end before a volume is not deleted because of them: longer than nodes
/// take to report that they have.
const SESSIONS_END_MAX: Duration = Duration::from_secs(3);
/// Between two looks passes as much time as one takes, so many times: they keep nodes from their work.
const LOOK_REST: u32 = 3;
/// How often it is looked at meanwhile.
const SERVE_POLL: Duration = Duration::from_millis(100);

impl Controller {
    /// While somebody else makes a volume of that name, waits for the end.
    pub(crate) async fn wait_for_makers(&self, name: &VolumeName) -> Result<(), Problem> {
        let mut last = None;
        let mut since = Instant::now();
        loop {
            let seen = making_of(&self.inventory().await?.seen, name);
            if seen.is_none() {
                return Ok(());
            }
            if seen != last {
                since = Instant::now();
                last = seen;
            } else if since.elapsed() >= ABANDONED_AFTER {
                return Ok(());
            }
            tokio::time::sleep(SERVE_POLL).await;
        }
    }

    /// Waits a moment for the sessions with a volume's target to end: who has just logged out is not in
    /// the way.
    pub(crate) async fn unused(&self, name: &VolumeName, volume: VolumeId) -> Result<(), Problem> {
        let deadline = Instant::now() + SESSIONS_END_MAX;
        let before = self.look().await?.seen.1.numbers();
        loop {
            let begun = Instant::now();
            let (sessions, unheard) = {
                let look = self.look().await?;
                let (inventory, reports) = &look.seen;
                // Nodes report now and then: what they said before is not what is.
                let unheard = inventory
                    .nodes
                    .values()
                    .find(|node| !reports.is_newer(node.node, &before));
                let unheard = unheard.map(|node| node.name.clone());
                (reports.sessions_with(volume), unheard)
            };
            if sessions == 0 && unheard.is_none() {
                return Ok(());
            }
            if begun >= deadline {
                return Err(match unheard {
                    Some(node) if sessions == 0 => problem::may_be_in_use(name, &node),
                    _ => problem::in_use(name, sessions),
                });
            }
            tokio::time::sleep(SERVE_POLL.max(begun.elapsed() * LOOK_REST)).await;
        }
    }

    /// The volume once it is served at every portal that is up, or as it is after a while.
    pub(crate) async fn served(&self, name: &VolumeName) -> Result<Volume, Problem> {
        let deadline = Instant::now() + self.serve_time_max;
        loop {
            let (volume, served) = {
                let look = self.look().await?;
                let (inventory, reports) = &look.seen;
                let record = inventory
                    .volume(name.as_str())
                    .ok_or_else(|| problem::plan(name, PlanError::NoSuchVolume))?;
                let volume = view::volume(inventory, reports, &record.record);
                // What nodes report may be from before it grew: then nobody says that its new slices are led.
                let served = reports.serve_everywhere(inventory, record.record.volume)
                    && volume.health != Health::Unavailable;
                (volume, served)
            };
            if served || Instant::now() >= deadline {
                return Ok(volume);
            }
            tokio::time::sleep(SERVE_POLL).await;
        }
    }
}

/// How far the making of a volume of that name is, if one is under way or was cut short. That of an earlier version, which
/// does not put it on record, is waited for as well.
fn making_of(inventory: &Inventory, name: &VolumeName) -> Option<(Revision, usize)> {
    let found = inventory.names.get(name.as_str())?;
    let mut without_record = holdfast_control::without_record(inventory);
    let slices = without_record.remove(&found.record.volume)?;
    Some((found.revision, slices))
}
