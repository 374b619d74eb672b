//! What a node does beside the data path, on a thread of its own: its side of the metadata, and its
//! API.
//!
//! Invariant: nothing here can make the data path wait. The two exchange messages only.

use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;

use holdfast_api::Api;
use holdfast_api::documents::LocalReport;
use holdfast_metadata::Session;
use holdfast_metadata::client::{Client, ClientConfig, Status};
use holdfast_metadata::etcd::EtcdConfig;
use holdfast_model::ClusterId;
use holdfast_net::Listener;
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{oneshot, watch};

use crate::config::{Invalid, MetadataSource, NodeConfig};
use crate::devices::DeviceDesk;
use crate::error::NodeError;
use crate::metrics::Metrics;
use crate::stalls::{self, Ledger, StallSender};

/// What a node's API is made from.
pub struct ApiParts {
    /// The cluster.
    pub cluster: ClusterId,
    /// A session of its own with the metadata.
    pub session: Session,
    /// Where the cluster may have to be made, because nobody else does: another session, and the node's
    /// directory.
    pub founding: Option<(Session, PathBuf)>,
    /// What the node knows by itself, renewed four times a second.
    pub report: watch::Receiver<LocalReport>,
    /// The stalls that it keeps.
    pub stalls: watch::Receiver<Ledger>,
    /// What it counts.
    pub metrics: Metrics,
    /// Where orders about its devices go.
    pub devices: DeviceDesk,
}

/// The data path's end of what runs beside it. Dropping it ends the thread.
pub(crate) struct Services {
    pub(crate) session: Session,
    /// Where ended stalls go.
    pub(crate) stalls: StallSender,
    pub(crate) stop: oneshot::Sender<()>,
}

impl Services {
    /// Starts the thread. `make_api` is called on it.
    ///
    /// # Errors
    /// The operating system has no thread or descriptor to give, or the API's port is taken.
    pub(crate) fn start<A: Api>(
        config: &NodeConfig,
        listener: Listener,
        report: watch::Receiver<LocalReport>,
        devices: DeviceDesk,
        make_api: impl FnOnce(ApiParts) -> A + Send + 'static,
    ) -> Result<Self, NodeError> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let within = runtime.enter();
        let listener = listener
            .open()
            .map_err(|error| NodeError::listen("api.listen", error))?;
        let Client { session, status } = connect(config)?;
        let founding = match config.metadata_source()? {
            // Whoever serves the metadata has made the cluster.
            MetadataSource::Servers { .. } => None,
            MetadataSource::Etcd(_) => Some((connect(config)?.session, config.directory.clone())),
        };
        let metrics = Metrics::new(&config.name);
        let path = stalls::file_in(&config.directory);
        let (stalls, keeper, shown) = stalls::keep(path, metrics.clone());
        let parts = ApiParts {
            cluster: config.cluster,
            session: connect(config)?.session,
            founding,
            report,
            stalls: shown,
            metrics,
            devices: devices.clone(),
        };
        drop(within);
        let (stop, stopped) = oneshot::channel::<()>();
        let beside = async {
            tokio::join!(tell(status), keeper.run(), devices.keep());
        };
        let services = move || run(&runtime, || make_api(parts), listener, beside, stopped);
        thread::Builder::new()
            .name("services".into())
            .spawn(services)?;
        Ok(Self {
            session,
            stalls,
            stop,
        })
    }
}

/// Begins a session with the metadata. Must be called within a tokio runtime.
///
/// # Errors
/// [`Invalid`] if the configuration does not say where the metadata is.
pub fn connect(config: &NodeConfig) -> Result<Client, Invalid> {
    let cluster = config.cluster;
    Ok(match config.metadata_source()? {
        MetadataSource::Servers { addresses, token } => Client::start(ClientConfig {
            addresses,
            cluster,
            access_token: token,
        }),
        MetadataSource::Etcd(endpoints) => Client::start_etcd(&EtcdConfig { endpoints, cluster }),
    })
}

fn run<A: Api>(
    runtime: &Runtime,
    make_api: impl FnOnce() -> A,
    listener: TcpListener,
    beside: impl Future<Output = ()>,
    stopped: oneshot::Receiver<()>,
) {
    runtime.block_on(async {
        let router = holdfast_api::router(Arc::new(make_api()));
        tokio::select! {
            // The other end is dropped, never used.
            _ = stopped => {}
            () = beside => {}
            never = holdfast_api::server::serve(listener, router) => match never {},
        }
    });
}

/// Tells how it stands with the metadata whenever that changes.
async fn tell(mut status: watch::Receiver<Status>) {
    let mut told = String::new();
    while status.changed().await.is_ok() {
        let (text, well) = match &*status.borrow_and_update() {
            Status::Connecting => continue,
            Status::Connected { address } => (format!("metadata: connected to {address}"), true),
            Status::Disconnected { address, reason } => {
                let mut text = format!("metadata: no connection to {address}: {reason}");
                let mut cause = reason.source();
                while let Some(below) = cause {
                    text.push_str(&format!(": {below}"));
                    cause = below.source();
                }
                (text, false)
            }
        };
        if text == told {
            continue;
        }
        if well {
            tracing::info!("{text}");
        } else {
            tracing::warn!("{text}");
        }
        told = text;
    }
    // The client has ended with its session; what else runs here goes on.
    std::future::pending::<()>().await;
}
