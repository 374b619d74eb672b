//! A witness: a member of etcd beside two nodes, and nothing else.

use tokio::runtime::Builder;

use crate::config::witness::WitnessConfig;
use crate::error::NodeError;
use crate::etcd::{Plan, Supervisor};
use crate::member::ETCD_DIRECTORY;
use crate::run::move_in;
use crate::signals::Signals;

/// Runs a witness until it is told to stop, by SIGTERM or SIGINT.
///
/// # Errors
/// [`NodeError`] if it cannot start.
pub fn run(config: &WitnessConfig) -> Result<(), NodeError> {
    config.check()?;
    let home = config.directory.join(ETCD_DIRECTORY);
    let plan = Plan::of_machine(&config.etcd, config.cluster, &config.name, &home)?;
    let (_directory, _log) = move_in(&config.directory, config.log)?;
    tracing::info!(
        "starts as witness {} of cluster {}",
        config.name,
        config.cluster
    );
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
