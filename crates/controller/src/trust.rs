//! What the node in this process lets be done through it.
//!
//! Its engine judges the metadata; a controller reads it over a session of its own, and would change what the node
//! takes for metadata that has gone back, or before the node has looked.
//!
//! Invariants:
//! - through a node that does not follow the metadata nothing is changed, neither in the metadata nor of its devices; nor
//!   through a process without a node in metadata that a node does not believe;
//! - nor through one whose node is not registered, but for what its own advice names: to remove the node that is in its
//!   way, and that does not answer;
//! - a node that is none of the cluster's, or not any more, does not steer it;
//! - everything can be read.

use std::future::pending;
use std::time::Duration;

use holdfast_api::Problem;
use holdfast_api::documents::{LocalMetadata, LocalReport, Rejected};
use tokio::time::timeout;

use crate::{Controller, problem};

/// How long an order waits for the node to follow the metadata: longer than it takes to register, or to read everything
/// anew, and to say so.
const FOLLOW_PATIENCE: Duration = Duration::from_secs(3);

/// Whether a process may steer the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Steering {
    /// It may.
    Allowed,
    /// Its node has yet to read the metadata, or to read it anew: nothing is planned meanwhile.
    NotNow,
    /// Its node believes nothing of the metadata.
    Disbelieved,
    /// Its node is none of the cluster's yet, or not any more, or ends.
    NoNode,
}

/// What is to be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change<'a> {
    /// The node of this name is to be removed.
    Removal(&'a str),
    /// Anything else.
    Other,
}

impl Controller {
    /// That something may be changed through this process. Waits a moment for its node to follow the metadata.
    ///
    /// # Errors
    /// It does not, or is not registered, and why.
    pub(crate) async fn may_change(&self, change: Change<'_>) -> Result<(), Problem> {
        let Some(mut told) = self.local.clone() else {
            return self.is_believed().await;
        };
        let has_judged = |report: &LocalReport| report.metadata != LocalMetadata::Unreached;
        // Whether it does or not, what it says then decides.
        let _ = timeout(FOLLOW_PATIENCE, told.wait_for(has_judged)).await;
        let report = told.borrow();
        match report.metadata {
            LocalMetadata::Followed => match &report.rejected {
                Some(rejected) if !names(rejected, change) => {
                    Err(problem::changed_elsewhere(&report.name, rejected))
                }
                _ => Ok(()),
            },
            LocalMetadata::Unreached => Err(problem::not_followed(&report)),
            LocalMetadata::Behind => {
                let why = report.astray.as_ref();
                Err(problem::not_believed(&report.name, why))
            }
        }
    }

    /// That all nodes that answer believe the metadata: a process without a node judges nothing by itself.
    async fn is_believed(&self) -> Result<(), Problem> {
        let look = self.look().await?;
        let (inventory, reports) = &look.seen;
        for record in inventory.nodes.values() {
            if let Some(why) = reports.astray(record.node) {
                return Err(problem::not_believed(&record.name, Some(why)));
            }
        }
        Ok(())
    }

    /// Whether this process may steer.
    pub(crate) fn may_steer(&self) -> Steering {
        let Some(told) = &self.local else {
            return Steering::Allowed;
        };
        let report = told.borrow();
        if report.stopping || report.rejected.is_some() || report.incarnation == 0 {
            return Steering::NoNode;
        }
        match report.metadata {
            LocalMetadata::Followed => Steering::Allowed,
            LocalMetadata::Unreached => Steering::NotNow,
            LocalMetadata::Behind => Steering::Disbelieved,
        }
    }

    /// Waits until the node of this process was told to stop.
    pub(crate) async fn is_told_to_stop(&self) {
        if let Some(mut told) = self.local.clone()
            && told.wait_for(|report| report.stopping).await.is_ok()
        {
            return;
        }
        pending::<()>().await;
    }
}

/// Whether a node that is not registered advises a change: there may be no other node through which it could be done.
fn names(rejected: &Rejected, change: Change<'_>) -> bool {
    let Change::Removal(name) = change else {
        return false;
    };
    let command = removal(name);
    let mut remedies = rejected.remedies.iter();
    remedies.any(|remedy| remedy.contains(&command))
}

/// How advice names the removal of a node.
pub(crate) fn removal(name: &str) -> String {
    format!("`holdfast node remove {name}`")
}
