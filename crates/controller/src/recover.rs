//! Writing metadata that was lost, and was planned anew.
//!
//! Invariant: what is there is replaced only where that was asked for.

use std::collections::BTreeMap;

use holdfast_api::{Problem, ProblemKind};
use holdfast_control::{METADATA_PREFIX, Recovery};
use holdfast_model::metadata::{KeyValue, Operation, OperationResult, Selector, Transaction};
use holdfast_model::record::{Record, SliceRecord};
use holdfast_stdx::Count;

use crate::{Controller, problem};

impl Controller {
    /// Writes what is to be the metadata. With `replace` all that is there goes first.
    ///
    /// # Errors
    /// [`Problem`] if something is there and is not to be replaced, or the metadata does not answer: then a
    /// part may be written, which nobody follows.
    pub async fn write_recovery(&self, recovery: &Recovery, replace: bool) -> Result<(), Problem> {
        let look = Transaction {
            success: vec![Operation::Range(Selector::Prefix(METADATA_PREFIX.into()))],
            ..Transaction::default()
        };
        let outcome = self.desk.transact(look).await.map_err(problem::unread)?;
        let found = match outcome.results.first() {
            Some(OperationResult::Range(found)) => &found[..],
            _ => &[],
        };
        refuse_older(recovery, found)?;
        if !found.is_empty() && !replace {
            let keys = Count::of(found.len(), "key");
            return Err(Problem::new(
                ProblemKind::Conflict,
                format!("the metadata is not empty: it holds {keys} of this cluster"),
            )
            .hint(
                "is it the right one, and is all of it to be given up? Then repeat this with --replace",
            ));
        }
        for transaction in recovery.transactions(replace && !found.is_empty()) {
            let written = self.desk.transact(transaction).await;
            let written = written.map_err(|error| {
                problem::metadata(error).hint("repeat this with --replace when it answers again")
            })?;
            if !written.succeeded {
                return Err(Problem::new(
                    ProblemKind::Conflict,
                    "somebody has made the cluster meanwhile",
                )
                .hint("stop all nodes that are not waiting for the metadata, and repeat this with --replace"));
            }
        }
        Ok(())
    }
}

/// What is there is not replaced by what is older: then nodes have run since their reports were made.
fn refuse_older(recovery: &Recovery, found: &[KeyValue]) -> Result<(), Problem> {
    let found = found.iter().map(|pair| (pair.key.as_str(), &pair.value));
    let found: BTreeMap<_, _> = found.collect();
    let mut planned = recovery.slices.iter().filter_map(|it| it.record.as_ref());
    let older = planned.find(|planned| {
        let there = found.get(SliceRecord::key(planned.slice).as_str());
        let there = there.and_then(|value| SliceRecord::decode(value).ok());
        there.is_some_and(|there| there.epoch > planned.epoch)
    });
    let Some(SliceRecord { slice, .. }) = older else {
        return Ok(());
    };
    Err(Problem::new(
        ProblemKind::Conflict,
        format!("the metadata knows of later epochs of slice {slice} than the reports"),
    )
    .hint("nodes have run since they were read: stop them, and read them anew"))
}
