//! What a node does beside the data path, on threads of its own: its side of the metadata, its API with what plans for the cluster and
//! the console in front of it, and its history.
//!
//! Invariants:
//! - nothing here can make the data path wait. They exchange messages only;
//! - nothing that the API does, however large the cluster is and however many ask, keeps answers of the metadata
//!   from the data path: it has a thread, and sessions with the metadata, of its own.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use holdfast_api::documents::LocalReport;
use holdfast_api::{Api, Door, server};
use holdfast_metadata::Session;
use holdfast_metadata::client::{Client, ClientConfig, Status};
use holdfast_metadata::etcd::{EtcdConfig, MembersView, watch_members};
use holdfast_model::ClusterId;
use holdfast_net::Listener;
use holdfast_seal::Seal;
use holdfast_tls::{Connector, Credentials};
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{oneshot, watch};
use tracing::Level;

use crate::config::{Invalid, MetadataSource, NodeConfig, ShownToEtcd};
use crate::detached::Looker;
use crate::devices::DeviceDesk;
use crate::error::NodeError;
use crate::etcd::MemberTls;
use crate::history::{self, FrameSender, HistoryDesk, Tails};
use crate::logging::LogDesk;
use crate::members;
use crate::metrics::Metrics;
use crate::reach::Reach;
use crate::security::Security;
use crate::stalls::{self, Ledger, StallSender};
use crate::support::NodeUpkeep;

/// What is said at each start where members of etcd may have no TLS yet.
pub(crate) const PLAIN_MEMBERS: &str = "etcd.plain: members of etcd that have no TLS are believed, and spoken to in the clear: \
                                        whoever reaches their ports can read and change what the cluster has agreed on; take \
                                        the line out when all members have TLS (docs/upgrade.md)";

/// What a node's API is made from.
pub struct ApiParts {
    /// The cluster.
    pub cluster: ClusterId,
    /// A session of its own with the metadata.
    pub session: Session,
    /// The node's name.
    pub name: String,
    /// The node's directory.
    pub directory: PathBuf,
    /// Whether it has to be found out who asks, and whether that one may.
    pub is_guarded: bool,
    /// Where the cluster may have to be made, because nobody else does: another session.
    pub founding: Option<Session>,
    /// What the node knows by itself, renewed four times a second; each five seconds while it waits for a device.
    pub report: watch::Receiver<LocalReport>,
    /// The stalls that it keeps.
    pub stalls: watch::Receiver<Ledger>,
    /// What it counts.
    pub metrics: Metrics,
    /// Where its performance history is asked for.
    pub history: HistoryDesk,
    /// Where orders about its devices go.
    pub devices: DeviceDesk,
    /// What it trusts other nodes by, and shows them; none where there is to be no TLS.
    pub connector: Option<Connector>,
    /// What seals secrets in the metadata.
    pub seal: Seal,
    /// The credentials behind that.
    pub credentials: Option<Credentials>,
    /// What it shows to an etcd that somebody else runs.
    pub shown_to_etcd: ShownToEtcd,
    /// Where its log, and what else there is for whoever looks into something, is asked for.
    pub upkeep: NodeUpkeep,
}

/// The data path's end of what runs beside it. Dropping it ends the threads.
pub(crate) struct Services {
    pub(crate) session: Session,
    /// Opens the secrets in what that session answers.
    pub(crate) seal: Seal,
    /// How it stands with the metadata.
    pub(crate) metadata: watch::Receiver<Status>,
    /// How the members of etcd are, once each has been judged; for ever nothing where there are none.
    pub(crate) members: watch::Receiver<MembersView>,
    /// Where ended stalls go.
    pub(crate) stalls: StallSender,
    /// Where goes what was measured.
    pub(crate) frames: FrameSender,
    /// How slow the devices are.
    pub(crate) tails: watch::Receiver<Tails>,
    pub(crate) stop: [oneshot::Sender<()>; 2],
}

impl Services {
    /// Starts the threads. `make_api` is called on that of the API.
    ///
    /// # Errors
    /// The operating system has no thread or descriptor to give, or the API's port is taken.
    pub(crate) fn start<A: Api>(
        config: &NodeConfig,
        (listener, security): (Listener, Option<Security>),
        report: watch::Receiver<LocalReport>,
        (devices, looker): (DeviceDesk, Looker),
        (log, metrics): (LogDesk, Metrics),
        make_api: impl FnOnce(ApiParts) -> (A, Door) + Send + 'static,
    ) -> Result<Self, NodeError> {
        let (beside, for_api) = (runtime()?, runtime()?);
        let within = beside.enter();
        let Client { session, status } = connect(config)?;
        let path = stalls::file_in(&config.directory);
        let (stalls, keeper, shown) = stalls::keep(path, metrics.clone());
        let (frames, history, tails) = keep_history(config, &metrics)?;
        drop(within);
        let within = for_api.enter();
        let listener = listener
            .open()
            .map_err(|error| NodeError::listen("api.listen", error))?;
        let reach = Reach::new(&config.metadata_source()?);
        let etcd = config.etcd_config()?;
        warn_of_plain_metadata(config);
        let founding = founding(config, etcd.is_some())?;
        let parts = ApiParts {
            cluster: config.cluster,
            name: config.name.clone(),
            directory: config.directory.clone(),
            is_guarded: !config.security.off,
            session: connect(config)?.session,
            founding,
            report,
            stalls: shown,
            metrics,
            history,
            devices: devices.clone(),
            connector: security.as_ref().map(Security::connector),
            seal: Security::seal_of(security.as_ref()),
            credentials: security.as_ref().map(Security::credentials),
            shown_to_etcd: ShownToEtcd::new(config),
            upkeep: NodeUpkeep::new(log, config),
        };
        drop(within);
        let metadata = status.clone();
        let (views, members) = watch::channel(MembersView::default());
        let members_told = members::tell(members.clone());
        let (stop_beside, stopped) = oneshot::channel::<()>();
        start("services", move || {
            beside.block_on(async {
                tokio::select! {
                    // The other end is dropped, never used.
                    _ = stopped => {}
                    _ = async { tokio::join!(tell(status, reach), keeper.run(), devices.keep()) } => {}
                    _ = async { tokio::join!(look_at_members(etcd, views), members_told) } => {}
                    never = looker.run() => match never {},
                }
            });
        })?;
        let seal = parts.seal.clone();
        let stop_api = start_api(for_api, listener, security, move || make_api(parts))?;
        Ok(Self {
            session,
            seal,
            metadata,
            members,
            stalls,
            frames,
            tails,
            stop: [stop_beside, stop_api],
        })
    }
}

fn keep_history(
    config: &NodeConfig,
    metrics: &Metrics,
) -> io::Result<(FrameSender, HistoryDesk, watch::Receiver<Tails>)> {
    let bytes_max = config.history.bytes_max;
    let traffic = metrics.traffic().clone();
    history::keep(config.node.0, &config.directory, bytes_max, traffic)
}

/// Starts the thread of the API, with the console in front of it, until what it gives is dropped.
fn start_api<A: Api>(
    runtime: Runtime,
    listener: TcpListener,
    security: Option<Security>,
    make_api: impl FnOnce() -> (A, Door) + Send + 'static,
) -> io::Result<oneshot::Sender<()>> {
    let (stop, stopped) = oneshot::channel::<()>();
    start("api", move || {
        runtime.block_on(async {
            let (api, door) = make_api();
            let router = holdfast_api::router(Arc::new(api), door);
            let router = holdfast_console::with_console(router);
            let acceptor = security.as_ref().map(Security::acceptor);
            if let Some(security) = security {
                // It ends with the runtime.
                drop(tokio::spawn(security.keep()));
            }
            tokio::select! {
                _ = stopped => {}
                never = server::serve_over(listener, router, acceptor) => match never {},
            }
        });
    })?;
    Ok(stop)
}

/// What the cluster may have to be made with; nothing where whoever serves the metadata has made it.
fn founding(config: &NodeConfig, has_etcd: bool) -> Result<Option<Session>, Invalid> {
    if !has_etcd {
        return Ok(None);
    }
    Ok(Some(connect(config)?.session))
}

fn runtime() -> io::Result<Runtime> {
    Builder::new_current_thread().enable_all().build()
}

fn start(name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let builder = thread::Builder::new().name(name.into());
    builder.spawn(run).map(drop)
}

fn warn_of_plain_metadata(config: &NodeConfig) {
    if config.has_plain_metadata() {
        tracing::warn!(
            "metadata.plain: where the metadata is, it is spoken to without TLS: whoever is on the way can read and change what \
             the cluster has agreed on; https:// in metadata.etcd, and metadata.ca, say otherwise"
        );
    }
    if matches!(config.etcd_tls(), MemberTls::Coming(_)) {
        tracing::warn!("{PLAIN_MEMBERS}");
    }
}

/// Begins a session with the metadata. Must be called within a tokio runtime.
///
/// # Errors
/// [`Invalid`] if the configuration does not say where the metadata is, or a file that TLS with etcd needs is no use, or it is not
/// permitted to speak to it in the clear.
pub fn connect(config: &NodeConfig) -> Result<Client, Invalid> {
    if let Some(etcd) = config.etcd_config()? {
        return Ok(Client::start_etcd(&etcd));
    }
    let MetadataSource::Servers { addresses, token } = config.metadata_source()? else {
        unreachable!("what is no etcd is a server of ours");
    };
    Ok(Client::start(ClientConfig {
        addresses,
        cluster: config.cluster,
        access_token: token,
    }))
}

/// Looks at the members of etcd, if that keeps the metadata.
async fn look_at_members(etcd: Option<EtcdConfig>, views: watch::Sender<MembersView>) {
    if let Some(etcd) = etcd {
        watch_members(etcd, views).await;
    }
    // What else runs here goes on.
    std::future::pending::<()>().await;
}

/// Tells how it stands with the metadata.
async fn tell(mut status: watch::Receiver<Status>, mut reach: Reach) {
    while status.changed().await.is_ok() {
        let line = reach.line(Instant::now(), &status.borrow_and_update());
        match line {
            Some((Level::ERROR, text)) => tracing::error!("{text}"),
            Some((Level::WARN, text)) => tracing::warn!("{text}"),
            Some((_, text)) => tracing::info!("{text}"),
            None => {}
        }
    }
    // The client has ended with its session; what else runs here goes on.
    std::future::pending::<()>().await;
}
