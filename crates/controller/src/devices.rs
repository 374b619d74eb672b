//! The devices of nodes: each node answers for its own, and any for all.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use holdfast_api::client::{ApiUrl, ClientError};
use holdfast_api::documents::{DeviceChange, DeviceList};
use holdfast_api::{ApiClient, Problem, ProblemKind};
use holdfast_model::record::NodeRecord;

use crate::members::find;
use crate::reports::{self, REPORT_TIME_MAX};
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
        let devices = match self.node_of(name).await? {
            Node::Here => self.report().ok_or_else(problem::no_node)?.devices,
            Node::There(client, record) => {
                let client = client.within(REPORT_TIME_MAX);
                let report = client.local().await;
                let report = report.map_err(|error| passed_on(name, error))?;
                let report = reports::as_node(report, &record);
                report
                    .ok_or_else(|| problem::another_answers(name))?
                    .devices
            }
        };
        Ok(DeviceList { devices })
    }

    pub(crate) async fn change_devices_of(
        &self,
        name: &str,
        change: DeviceChange,
    ) -> Result<DeviceList, Problem> {
        match self.node_of(name).await? {
            Node::Here => self.change_devices_here(change).await,
            Node::There(client, _) => {
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
        match self.report().and_then(|report| report.rejected) {
            Some(rejected) => Err(problem::rejected(&rejected)),
            None => order(change).await,
        }
    }

    /// Who answers for a node's devices.
    async fn node_of(&self, name: &str) -> Result<Node, Problem> {
        let inventory = self.inventory().await?.seen;
        let node = find(&inventory, name)?;
        if self
            .registered_report()
            .is_some_and(|report| report.node == node.0)
        {
            return Ok(Node::Here);
        }
        let record = inventory.nodes[&node].clone();
        let url: Option<ApiUrl> = record.api.parse().ok();
        let url = url.ok_or_else(|| {
            let detail = format!("nobody knows where the API of {name} answers");
            Problem::new(ProblemKind::Unavailable, detail).hint("start the node")
        })?;
        let client = ApiClient::new(vec![url], None);
        Ok(Node::There(client, Box::new(record)))
    }
}

enum Node {
    Here,
    There(ApiClient, Box<NodeRecord>),
}

fn passed_on(name: &str, error: ClientError) -> Problem {
    match error {
        ClientError::Problem(problem) => problem,
        error @ (ClientError::Unreachable { .. } | ClientError::Unknown { .. }) => {
            let detail = format!("{name} does not answer: {error}");
            Problem::new(ProblemKind::Unavailable, detail)
                .hint("a node answers for its own devices: start it, or look at the network")
        }
    }
}
