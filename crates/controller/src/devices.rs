//! The devices of nodes: each node answers for its own, and any for all.
//!
//! Invariant: an order reaches the node that is meant, with the store on record, or nobody: a device that is given may be
//! erased.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use holdfast_api::client::ClientError;
use holdfast_api::documents::{DeviceChange, DeviceList, LocalReport};
use holdfast_api::{ApiClient, Problem, ProblemKind};
use holdfast_model::record::NodeRecord;

use crate::asking::client_of;
use crate::members::find;
use crate::reports::{REPORT_TIME_MAX, Whose, whose};
use crate::trust::Change;
use crate::{Controller, problem};

type Changing = Pin<Box<dyn Future<Output = Result<DeviceList, Problem>> + Send>>;

/// Orders something about the devices of the node in this process.
#[derive(Clone)]
pub(crate) struct ChangeDevices(Arc<dyn Fn(DeviceChange) -> Changing + Send + Sync>);

impl fmt::Debug for ChangeDevices {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("ChangeDevices")
    }
}

impl Controller {
    /// With what orders something about the devices of the node in this process.
    #[must_use]
    pub fn changing_devices<F>(
        self,
        change: impl Fn(DeviceChange) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Result<DeviceList, Problem>> + Send + 'static,
    {
        let devices = ChangeDevices(Arc::new(move |wanted| Box::pin(change(wanted))));
        Self {
            devices: Some(devices),
            ..self
        }
    }

    pub(crate) async fn devices_of(&self, name: &str) -> Result<DeviceList, Problem> {
        let report = match self.node_of(name).await? {
            Node::Here => self.report().ok_or_else(problem::no_node)?,
            Node::There(client, record) => {
                let report = answering(name, &client).await?;
                if whose(&report, &record) == Whose::Other {
                    return Err(problem::another_answers(name));
                }
                report
            }
        };
        Ok(DeviceList {
            devices: report.devices,
            awaited_device: report.awaited_device,
            awaited_cause: report.awaited_cause,
        })
    }

    pub(crate) async fn change_devices_of(
        &self,
        name: &str,
        change: DeviceChange,
    ) -> Result<DeviceList, Problem> {
        self.may_change(Change::Other).await?;
        match self.node_of(name).await? {
            Node::Here => self.change_devices_here(change).await,
            Node::There(client, record) => {
                let report = answering(name, &client).await?;
                is_obeying(name, &report, &record)?;
                let changed = client.change_local_devices(&change).await;
                changed.map_err(|error| passed_on(name, error))
            }
        }
    }

    pub(crate) async fn change_devices_here(
        &self,
        change: DeviceChange,
    ) -> Result<DeviceList, Problem> {
        let ChangeDevices(order) = self.devices.as_ref().ok_or_else(problem::no_node)?;
        self.may_change(Change::Other).await?;
        let own = self.report().ok_or_else(problem::no_node)?;
        match &own.rejected {
            Some(rejected) => Err(problem::changed_elsewhere(&own.name, rejected)),
            None if own.incarnation == 0 => Err(problem::unregistered(&own.name)),
            None => order(change).await,
        }
    }

    /// Who answers for a node.
    pub(crate) async fn node_of(&self, name: &str) -> Result<Node, Problem> {
        let inventory = self.inventory().await?.seen;
        let node = find(&inventory, name)?;
        let record = inventory.nodes[&node].clone();
        let own = self.report();
        if own.is_some_and(|own| whose(&own, &record) == Whose::Registered) {
            return Ok(Node::Here);
        }
        let client = client_of(&record, self.connector.as_ref()).ok_or_else(|| {
            let detail = format!("nobody knows where the API of {name} answers");
            Problem::new(ProblemKind::Unavailable, detail).hint("start the node")
        })?;
        Ok(Node::There(client, Box::new(record)))
    }
}

/// Who answers for a node.
pub(crate) enum Node {
    Here,
    There(ApiClient, Box<NodeRecord>),
}

/// What the process says of itself that answers at a node's address.
pub(crate) async fn answering(name: &str, client: &ApiClient) -> Result<LocalReport, Problem> {
    let client = client.clone().within(REPORT_TIME_MAX);
    let report = client.local().await;
    report.map_err(|error| passed_on(name, error))
}

/// That what answers is the node, registered, with the store on record.
fn is_obeying(name: &str, report: &LocalReport, record: &NodeRecord) -> Result<(), Problem> {
    match whose(report, record) {
        Whose::Other => Err(problem::another_answers(name)),
        Whose::Starting => Err(problem::unregistered(name)),
        Whose::Registered if report.store.is_empty() => Err(problem::unnamed_store(name)),
        Whose::Registered => Ok(()),
    }
}

pub(crate) fn passed_on(name: &str, error: ClientError) -> Problem {
    match error {
        ClientError::Problem(problem) => problem,
        error @ (ClientError::Unreachable(_) | ClientError::Unknown { .. }) => {
            let detail = format!("{name} does not answer: {error}");
            Problem::new(ProblemKind::Unavailable, detail)
                .hint("a node answers for itself and its devices: start it, or look at the network")
        }
    }
}
