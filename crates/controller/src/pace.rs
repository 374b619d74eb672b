//! New slices, no faster than nodes take them up.
//!
//! A slice costs its nodes a few journal records and a change of its own record before it is served.
//! Thousands at a time would keep them from what they serve already: leases would run out.
//!
//! Invariants:
//! - of the slices of one plan, those of one transaction at most have not been taken up, unless their
//!   nodes take longer than [`TAKE_UP_MAX`], or all of them longer than [`WAIT_MAX`];
//! - nodes that are down, or metadata that cannot say, make a plan slow, but do not stop it.

use std::time::Duration;

use holdfast_model::metadata::{
    Operation, OperationResult, Selector, Transaction, TransactionOutcome,
};
use holdfast_model::record::SLICES_PREFIX;
use tokio::time::Instant;

use crate::desk::Desk;

/// For how long a transaction's slices are waited for.
const TAKE_UP_MAX: Duration = Duration::from_millis(500);
/// For how long all of them together are: whoever wants the volume waits, and does not for ever.
const WAIT_MAX: Duration = Duration::from_secs(20);
/// Between two looks.
const POLL: Duration = Duration::from_millis(5);

/// What a plan has made that may not have been taken up yet.
#[derive(Debug)]
pub(crate) struct Pace {
    /// For how long may be waited still.
    left: Duration,
    /// The keys of the last transaction's slices.
    made: Vec<String>,
}

impl Pace {
    pub(crate) fn new() -> Self {
        Self {
            left: WAIT_MAX,
            made: Vec::new(),
        }
    }

    /// A transaction is about to follow: if it makes slices, waits for those of the last one.
    pub(crate) async fn follow(&mut self, desk: &Desk, transaction: &Transaction) {
        let made = transaction
            .success
            .iter()
            .filter_map(|operation| match operation {
                Operation::Put { key, .. } if key.starts_with(SLICES_PREFIX) => Some(key.clone()),
                _ => None,
            });
        let made: Vec<String> = made.collect();
        if made.is_empty() {
            return;
        }
        let mut waiting = std::mem::replace(&mut self.made, made);
        let begun = Instant::now();
        let deadline = begun + TAKE_UP_MAX.min(self.left);
        while !waiting.is_empty() && Instant::now() < deadline {
            let ranges = waiting
                .iter()
                .map(|key| Operation::Range(Selector::Key(key.clone())));
            let look = Transaction {
                success: ranges.collect(),
                ..Transaction::default()
            };
            if let Ok(outcome) = desk.transact(look).await {
                waiting = untouched(outcome);
            }
            if !waiting.is_empty() {
                tokio::time::sleep(POLL).await;
            }
        }
        self.left = self.left.saturating_sub(begun.elapsed());
    }
}

/// The keys of records that are as they were made: whoever takes a slice up begins an epoch.
fn untouched(outcome: TransactionOutcome) -> Vec<String> {
    let found = outcome
        .results
        .into_iter()
        .filter_map(|result| match result {
            OperationResult::Range(found) => found.into_iter().next(),
            _ => None,
        });
    found
        .filter(|pair| pair.create_revision == pair.mod_revision)
        .map(|pair| pair.key)
        .collect()
}
