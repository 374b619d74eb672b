//! Metadata that is lost for good, and made again from the nodes' devices.

use holdfast_control::{Decisions, RecoverError, Recovery, recover};
use holdfast_metadata::machine::Output;
use holdfast_metadata::{HistoryLimits, Machine};
use holdfast_model::NodeId;

use super::Cluster;
use crate::boot;
use crate::failure::Failure;

impl Cluster {
    /// What the metadata would be, from the devices of these nodes, which are off.
    ///
    /// # Errors
    /// [`RecoverError`] if what they tell does not fit together.
    pub fn plan_recovery(
        &self,
        heard: &[NodeId],
        decisions: &Decisions,
    ) -> Result<Recovery, RecoverError> {
        let reports: Vec<_> = heard.iter().map(|node| self.report_of(*node)).collect();
        recover(&reports, decisions)
    }

    /// The metadata is gone, and this is in its place.
    ///
    /// # Errors
    /// [`Failure`] if something happened that must not.
    pub fn put_recovery(&mut self, recovery: &Recovery) -> Result<(), Failure> {
        let mut machine = Machine::new(HistoryLimits::default());
        for transaction in recovery.transactions(false) {
            let outcome = boot::transact(&mut machine, transaction, &mut Output::default());
            assert!(outcome.succeeded, "an empty store takes it");
        }
        self.replace_metadata(machine)?;
        self.agreement.forget_others();
        Ok(())
    }
}
