//! `holdfast node` and `holdfast witness`: the daemons, and the list of nodes.

use std::path::Path;

use holdfast_api::documents::{NodeList, NodeState};
use holdfast_controller::Controller;
use holdfast_node::config::NodeConfig;
use holdfast_node::config::witness::WitnessConfig;
use holdfast_node::{ApiParts, WithEtcd};

use super::{client, found};
use crate::cli::Global;
use crate::failure::Failure;
use crate::output::{Output, bytes, table};

/// Runs a node until it is told to stop.
pub(crate) fn run(config: &Path, with_etcd: WithEtcd) -> Result<(), Failure> {
    let config = NodeConfig::read(config).map_err(Failure::new)?;
    holdfast_node::run(&config, with_etcd, |parts| {
        let ApiParts {
            cluster,
            session,
            founding,
            report,
        } = parts;
        if let Some((session, directory)) = founding {
            let controller = Controller::new(cluster, session, None);
            tokio::spawn(found::found(controller, directory, report.clone()));
        }
        Controller::new(cluster, session, Some(report))
    })
    .map_err(Failure::new)
}

/// Runs a witness until it is told to stop.
pub(crate) fn witness(config: &Path) -> Result<(), Failure> {
    let config = WitnessConfig::read(config).map_err(Failure::new)?;
    holdfast_node::witness::run(&config).map_err(Failure::new)
}

pub(crate) async fn list(global: &Global, output: &Output) -> Result<(), Failure> {
    let list = client(global).nodes().await?;
    output.result(&list, || text(&list))?;
    Ok(())
}

fn text(list: &NodeList) -> String {
    let rows: Vec<_> = list
        .nodes
        .iter()
        .map(|node| {
            let state = match node.state {
                NodeState::Up => "up",
                NodeState::Down => "down",
            };
            [
                node.name.clone(),
                state.to_owned(),
                node.portal.clone(),
                node.api.clone(),
                node.replicas.to_string(),
                node.primaries.to_string(),
                known(node.sessions.map(|count| count.to_string())),
                known(node.room.map(|room| bytes(room.used_bytes))),
                known(node.room.map(|room| bytes(room.free_bytes()))),
            ]
        })
        .collect();
    table(
        [
            "NODE",
            "STATE",
            "PORTAL",
            "API",
            "REPLICAS",
            "PRIMARIES",
            "SESSIONS",
            "USED",
            "FREE",
        ],
        &rows,
    )
}

/// What only a node that is up tells.
fn known(told: Option<String>) -> String {
    told.unwrap_or_else(|| "-".to_owned())
}
