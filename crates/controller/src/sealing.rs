//! Secrets in the metadata: from when on they are sealed, and those that were there before.
//!
//! Invariants:
//! - nothing is sealed before every node has said that it can open it, but where something is sealed already; secrets and URLs each;
//! - what is sealed anew is what was there: whoever was faster stays;
//! - while keys are changed on one machine after the other, what is sealed is sealed with the key that all have;
//! - where some are sealed, what is plain does not stay so because a node has lost its key; with another key nothing is sealed
//!   that it may be the only one to open;
//! - a node that should have a key, and has none, puts no secret on record.

use std::time::Duration;

use holdfast_api::{Problem, ProblemKind};
use holdfast_control::Inventory;
use holdfast_model::metadata::{
    MetadataAnswer, MetadataRequest, Operation, OperationResult, Selector, Transaction,
};
use holdfast_seal::documents::PREFIXES;
use holdfast_seal::{FORM, FORM_OF_SECRETS, Seal};
use tokio::time::Instant;

use crate::Controller;
use crate::reports::Reports;

/// How often whoever steers looks whether all secrets are sealed with the present key.
const LOOK_PAUSE: Duration = Duration::from_secs(30);
/// Documents that are sealed anew in one pass, at most.
const RENEWED_MAX: usize = 64;

impl Controller {
    /// With what seals secrets on their way into the metadata.
    #[must_use]
    pub fn sealing(self, seal: Seal) -> Self {
        self.desk.seal_with(seal);
        self
    }

    /// That a secret can be put on record through this process.
    ///
    /// # Errors
    /// It would be there plainly, for want of a key.
    pub(crate) fn may_keep_secrets(&self) -> Result<(), Problem> {
        if !self.desk.seal().is_some_and(Seal::lacks_key) {
            return Ok(());
        }
        let detail = "this node has no key to seal secrets with: it would be in the metadata for everybody to read who reads that";
        Err(Problem::new(ProblemKind::Unavailable, detail).hint(
            "ask another node (`--api`); or put the secrets.key of another machine beside this one's credentials, and start it again",
        ))
    }

    /// Seals from now on, if every node can open what is sealed; with the former key, if there is one, as long as not every node has said
    /// that it has the present one: who does not answer may have the former only.
    pub(crate) fn note_who_opens(&self, inventory: &Inventory, reports: &Reports) {
        let Some(seal) = self.desk.seal() else {
            return;
        };
        let all_open = self.all_open(inventory, reports, FORM_OF_SECRETS);
        seal.use_former(seal.former_id().is_some() && !all_open);
        if !seal.seals() && all_open {
            seal.begin();
        }
        if all_open && self.all_open(inventory, reports, FORM) {
            seal.begin_with_urls();
        }
    }

    fn all_open(&self, inventory: &Inventory, reports: &Reports, form: u32) -> bool {
        let key = self.desk.seal().and_then(|seal| seal.key_id());
        key.is_some_and(|key| reports.all_open(inventory, &key.to_string(), form))
    }

    /// What seals those secrets that are plain, or sealed with an earlier key. `looked` is when that was last looked for; it is
    /// looked again as soon as it may be that something is left.
    pub(crate) async fn seal_anew(
        &self,
        (inventory, reports): (&Inventory, &Reports),
        looked: &mut Option<Instant>,
    ) -> Vec<Transaction> {
        let rests = looked.is_some_and(|looked| looked.elapsed() < LOOK_PAUSE);
        let Some(seal) = self.desk.seal().filter(|seal| seal.seals() && !rests) else {
            return Vec::new();
        };
        // A node that does not open them is without the others as well. It may have written those that are plain.
        let only_plain = !self.all_open(inventory, reports, FORM_OF_SECRETS);
        let look = Transaction {
            success: PREFIXES
                .map(|prefix| Operation::Range(Selector::Prefix(prefix.into())))
                .to_vec(),
            ..Transaction::default()
        };
        let answer = self.desk.ask_as_is(MetadataRequest::Transact(look)).await;
        let MetadataAnswer::Transacted(outcome) = answer else {
            return Vec::new();
        };
        let found = outcome.results.iter().flat_map(|result| match result {
            OperationResult::Range(found) => found.as_slice(),
            OperationResult::Put | OperationResult::Delete(_) => &[],
        });
        let renewed = found.filter_map(|pair| seal.renew(pair, only_plain));
        let renewed: Vec<Transaction> = renewed.take(RENEWED_MAX).collect();
        if renewed.len() < RENEWED_MAX {
            *looked = Some(Instant::now());
        }
        if !renewed.is_empty() {
            tracing::info!(
                "seals the secrets of {} documents of the metadata, which were plain or sealed with an earlier key",
                renewed.len()
            );
        }
        renewed
    }
}
