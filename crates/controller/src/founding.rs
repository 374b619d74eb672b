//! The making of a cluster.

use holdfast_api::Problem;
use holdfast_model::metadata::{Compare, Operation, Revision, Selector, Transaction};
use holdfast_model::record::{CLUSTER_KEY, ClusterRecord, Record};
use holdfast_model::{Incarnation, VolumeId};

use crate::{Controller, problem};

impl Controller {
    /// Makes the cluster, unless it has been made, and clears away what a process that ended in the
    /// middle of something has left behind.
    ///
    /// # Errors
    /// [`Problem`] if the metadata does not answer, or holds another cluster.
    pub async fn found(&self) -> Result<(), Problem> {
        self.make_cluster().await?;
        let inventory = self.inventory().await?.seen;
        for transaction in holdfast_control::clean_up(&inventory, |_| true) {
            self.desk
                .transact(transaction)
                .await
                .map_err(problem::metadata)?;
        }
        Ok(())
    }

    /// Makes the cluster, unless it has been made. Tells whether it was made by this.
    ///
    /// # Errors
    /// [`Problem`] if the metadata does not answer.
    pub async fn make_cluster(&self) -> Result<bool, Problem> {
        let record = ClusterRecord {
            schema: 1,
            cluster: self.cluster,
            next_volume: VolumeId(1),
            recoveries: 0,
            incarnation_floor: Incarnation::ZERO,
        };
        let key = || CLUSTER_KEY.to_owned();
        let absent = Compare::ModRevision {
            key: key(),
            equals: Revision(0),
        };
        let put = Operation::put(key(), record.encode());
        let founding = Transaction {
            compare: vec![absent],
            success: vec![put],
            failure: vec![Operation::Range(Selector::Key(key()))],
        };
        let outcome = self.desk.transact(founding).await;
        Ok(outcome.map_err(problem::metadata)?.succeeded)
    }
}
