//! Plans about volumes, carried out: made anew and tried again until nobody has come in between.
//!
//! Invariants:
//! - what may have been done by an attempt that nobody answered is not told as nothing to do;
//! - nothing is planned from metadata that has gone back.

use holdfast_api::Problem;
use holdfast_control::{Inventory, VolumeName};
use holdfast_model::metadata::{MetadataError, Transaction};

use crate::pace::Pace;
use crate::reports::Reports;
use crate::trust::Change;
use crate::{ATTEMPT_PAUSE, ATTEMPTS_MAX, Controller, problem};

/// What ended an attempt at a plan.
enum Attempt {
    /// Others were faster: from the beginning, with a fresh look.
    Again(Problem),
    /// It is unknown how it ended: the same.
    Unknown(Problem),
    /// The metadata cannot be read: it is not known what is to be done, nor what became of what was begun.
    Unseen(Problem),
    /// It cannot be done.
    Refused(Problem),
}

impl Controller {
    /// Makes a plan and carries it out, again and again until nobody has come in between. Tells
    /// whether there was anything to do.
    pub(crate) async fn carry_out(
        &self,
        make: impl Fn(&Inventory, &Reports) -> Result<Vec<Transaction>, Problem>,
        name: &VolumeName,
    ) -> Result<bool, Problem> {
        // What there is nothing to do for any more may have been done by an attempt that nobody answered.
        let mut may_be_done = false;
        for attempt in 1.. {
            let waited = self.wait_for_makers(name).await.map_err(Attempt::Unseen);
            let attempted = match waited {
                Ok(()) => self.attempt(&make, name).await,
                Err(unseen) => Err(unseen),
            };
            let problem = match attempted {
                Ok(done) => return Ok(done || may_be_done),
                Err(Attempt::Refused(problem)) => {
                    return Err(problem::or_unknown(problem, may_be_done));
                }
                Err(Attempt::Unseen(problem)) if !may_be_done => return Err(problem),
                Err(Attempt::Again(problem) | Attempt::Unseen(problem)) => problem,
                Err(Attempt::Unknown(problem)) => {
                    may_be_done = true;
                    problem
                }
            };
            if attempt >= ATTEMPTS_MAX {
                return Err(problem);
            }
            tracing::debug!(%problem, %name, "plan anew");
            tokio::time::sleep(ATTEMPT_PAUSE * attempt).await;
        }
        unreachable!("the attempts are counted")
    }

    async fn attempt(
        &self,
        make: impl Fn(&Inventory, &Reports) -> Result<Vec<Transaction>, Problem>,
        name: &VolumeName,
    ) -> Result<bool, Attempt> {
        self.may_change(Change::Other)
            .await
            .map_err(Attempt::Refused)?;
        // What was seen is kept no longer than it takes to plan.
        let plan = {
            let look = self.look().await.map_err(Attempt::Unseen)?;
            let (inventory, reports) = &look.seen;
            if self.has_gone_back(inventory.revision) {
                return Err(Attempt::Again(problem::gone_back()));
            }
            make(inventory, reports).map_err(Attempt::Refused)?
        };
        let done = !plan.is_empty();
        let mut pace = Pace::new();
        for transaction in plan {
            pace.follow(&self.desk, &transaction).await;
            match self.desk.transact(transaction).await {
                Ok(outcome) if outcome.succeeded => {}
                Ok(_) => return Err(Attempt::Again(problem::conflict(name))),
                Err(MetadataError::Unavailable) => {
                    return Err(Attempt::Unknown(problem::metadata(
                        MetadataError::Unavailable,
                    )));
                }
                Err(error) => return Err(Attempt::Refused(problem::metadata(error))),
            }
        }
        Ok(done)
    }
}
