//! A witness: a member of etcd beside two nodes, and nothing else.

use tokio::runtime::Builder;
use tracing::Level;

use crate::config::witness::WitnessConfig;
use crate::directory::{ClaimError, Directory};
use crate::error::NodeError;
use crate::etcd::{Plan, Supervisor};
use crate::run::{ETCD_DIRECTORY, LOG_FILE};
use crate::signals::Signals;
use crate::{logging, predecessor};

/// Runs a witness until it is told to stop, by SIGTERM or SIGINT.
///
/// # Errors
/// [`NodeError`] if it cannot start.
pub fn run(config: &WitnessConfig) -> Result<(), NodeError> {
    config.check()?;
    let directory =
        predecessor::attempt(|| Directory::claim(&config.directory), ClaimError::holder)?;
    let path = directory.path().join(LOG_FILE);
    let log = logging::start(&path, config.log.bytes_max, Level::INFO);
    let _log = log.map_err(|source| NodeError::Log { path, source })?;
    tracing::info!(
        "starts as witness {} of cluster {}",
        config.name,
        config.cluster
    );
    let home = directory.path().join(ETCD_DIRECTORY);
    let plan = Plan::of_machine(&config.etcd, config.cluster, &config.name, &home)?;
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let mut signals = {
        let _within = runtime.enter();
        Signals::listen()?
    };
    let supervisor = Supervisor::start(plan)?;
    runtime.block_on(signals.next());
    tracing::info!("stopping");
    drop(supervisor);
    tracing::info!("stopped");
    Ok(())
}
