//! A witness: a member of etcd beside two nodes, and nothing else.

use holdfast_tls::{Credentials, Subject};
use tokio::runtime::Builder;

use crate::config::witness::WitnessConfig;
use crate::error::NodeError;
use crate::etcd::{MemberTls, Plan, Supervisor};
use crate::member::ETCD_DIRECTORY;
use crate::run::move_in;
use crate::security;
use crate::services::PLAIN_MEMBERS;
use crate::signals::Signals;

/// Runs a witness until it is told to stop, by SIGTERM or SIGINT.
///
/// # Errors
/// [`NodeError`] if it cannot start.
pub fn run(config: &WitnessConfig) -> Result<(), NodeError> {
    config.check()?;
    let home = config.directory.join(ETCD_DIRECTORY);
    let tls = config.etcd_tls();
    let plan = Plan::of_machine(&config.etcd, config.cluster, &config.name, &home, &tls)?;
    let (directory, _log) = move_in(&config.directory, config.log)?;
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
    let credentials =
        begin_credentials(config, &tls).inspect_err(|error| tracing::error!("{error}"))?;
    let supervisor = Supervisor::start(plan).inspect_err(|error| tracing::error!("{error}"))?;
    runtime.block_on(async {
        tokio::select! {
            () = signals.next() => {}
            () = keep(credentials, config.subject()) => {}
        }
    });
    tracing::info!("stopping");
    drop(supervisor);
    tracing::info!("stopped");
    directory.leave();
    Ok(())
}

/// The credentials of its member; none where it has no TLS.
fn begin_credentials(
    config: &WitnessConfig,
    tls: &MemberTls,
) -> Result<Option<Credentials>, NodeError> {
    match tls {
        MemberTls::Off => tracing::warn!(
            "security.off, or etcd.plain without credentials: the member of etcd has no TLS, and whoever reaches its ports can \
             read and change what the cluster has agreed on"
        ),
        MemberTls::Coming(_) => tracing::warn!("{PLAIN_MEMBERS}"),
        MemberTls::On(_) => {}
    }
    if *tls == MemberTls::Off {
        return Ok(None);
    }
    let directory = config.credentials();
    let begun = security::credentials(&directory, config.cluster, &config.subject());
    begun.map(Some).map_err(|error| match error {
        NodeError::NoCredentials { directory } => NodeError::NoWitnessCredentials { directory },
        error => error,
    })
}

/// Renews them whenever that is due. Never ends.
async fn keep(credentials: Option<Credentials>, subject: Subject) {
    match credentials {
        Some(credentials) => security::keep(&credentials, &subject).await,
        None => std::future::pending().await,
    }
}
