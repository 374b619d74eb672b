//! What whoever begins a cluster asks: whether it is new, which volumes there are, and whether they are served.

use holdfast_api::{Problem, ProblemKind};
use holdfast_model::metadata::{Operation, OperationResult, Selector, Transaction};
use holdfast_model::record::{Record, VOLUMES_PREFIX, VolumeRecord};
use holdfast_model::{NodeId, VolumeId};

use crate::{Controller, problem};

impl Controller {
    /// Which volumes are not served at which of these nodes' portals.
    ///
    /// # Errors
    /// [`Problem`] if the metadata does not answer.
    pub async fn unserved(&self, nodes: &[NodeId]) -> Result<Vec<(String, NodeId)>, Problem> {
        let seen = self.view().await?;
        let (inventory, reports) = &*seen;
        let volumes = inventory.volumes.values().map(|volume| &volume.record);
        let everywhere = volumes.flat_map(|volume| nodes.iter().map(move |node| (volume, *node)));
        let lacking = everywhere.filter(|(volume, node)| !reports.serves(*node, volume.volume));
        Ok(lacking
            .map(|(volume, node)| (volume.name.clone(), node))
            .collect())
    }

    /// The records of the volumes, by name.
    ///
    /// # Errors
    /// [`Problem`] if the metadata does not answer, or holds what this version cannot read.
    pub async fn volume_records(&self) -> Result<Vec<VolumeRecord>, Problem> {
        let all = Transaction {
            compare: Vec::new(),
            success: vec![Operation::Range(Selector::Prefix(VOLUMES_PREFIX.into()))],
            failure: Vec::new(),
        };
        let outcome = self.desk.transact(all).await.map_err(problem::unread)?;
        let ranges = outcome
            .results
            .into_iter()
            .filter_map(|result| match result {
                OperationResult::Range(found) => Some(found),
                _ => None,
            });
        let records = ranges
            .flatten()
            .map(|found| VolumeRecord::decode(&found.value));
        let mut records: Vec<_> = records
            .collect::<Result<_, _>>()
            .map_err(|error| Problem::new(ProblemKind::Internal, error))?;
        records.sort_by(|one: &VolumeRecord, other| one.name.cmp(&other.name));
        Ok(records)
    }

    /// Whether no volume has ever been made.
    ///
    /// # Errors
    /// [`Problem`] if the metadata does not answer.
    pub async fn is_new(&self) -> Result<bool, Problem> {
        let inventory = self.inventory().await?.seen;
        Ok(inventory.cluster.record.next_volume == VolumeId(1))
    }
}
