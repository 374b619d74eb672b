//! What the parent itself runs: the metadata, or the etcd that keeps it, the API, and the console.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use holdfast_api::{router, server as api_server};
use holdfast_console::with_console;
use holdfast_controller::{Accounts, Controller};
use holdfast_metadata::client::{Client, Status};
use holdfast_metadata::embedded::{OpenError, StoreError};
use holdfast_metadata::etcd::EtcdConfig;
use holdfast_metadata::server::{self as metadata_server, Door};
use holdfast_metadata::{Embedded, HistoryLimits, Session, Store};
use holdfast_model::ClusterId;
use holdfast_node::etcd::{LOG_FILE, Plan, Supervisor};
use holdfast_node::support::of_demo;
use holdfast_seal::Seal;
use holdfast_tls::{Acceptor, Connector, Credentials};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::layout::{Layout, MetadataKind};
use super::patience::Patience;
use super::{people, ports};
use crate::commands::node::audit_log;
use crate::failure::Failure;

/// What the parent is called where it is said through whose interface something was done.
const PARENT_NAME: &str = "demo";
/// How long etcd may take to answer. It takes a second; a machine may be busy.
const ETCD_PATIENCE: Duration = Duration::from_secs(60);
/// How often it is looked whether it does.
const ETCD_POLL: Duration = Duration::from_millis(50);

/// The metadata and the API, served for as long as this lives.
#[derive(Debug)]
pub(crate) struct Services {
    store: Keeper,
    cluster: ClusterId,
    connector: Option<Connector>,
    seal: Seal,
    patience: Patience,
    token: Option<String>,
    _servers: JoinSet<Infallible>,
}

/// What keeps the metadata.
#[derive(Debug)]
enum Keeper {
    Embedded(Arc<Embedded>),
    Etcd {
        supervisor: Supervisor,
        config: EtcdConfig,
    },
}

impl Keeper {
    fn session(&self) -> Session {
        match self {
            Self::Embedded(store) => store.session(),
            Self::Etcd { config, .. } => Client::start_etcd(config).session,
        }
    }
}

impl Services {
    /// Opens the metadata and begins to serve.
    pub(crate) async fn start(
        layout: &Layout,
        cluster: ClusterId,
        own: Option<Credentials>,
    ) -> Result<Self, Failure> {
        let api = ports::listen(&layout.api_use()).await?;
        let mut servers = JoinSet::new();
        let store = match layout.metadata_kind() {
            MetadataKind::Embedded => open(layout, cluster, &mut servers).await?,
            MetadataKind::Etcd => start_etcd(layout, cluster).await?,
        };
        let connector = own.as_ref().map(Connector::of_machine);
        let seal = match layout.credentials() {
            Some(directory) => Seal::of_directory(&directory).map_err(Failure::new)?,
            None => Seal::without_key(),
        };
        let mut controller = Controller::new(cluster, store.session(), None)
            .connecting(connector.clone())
            .sealing(seal.clone());
        let is_etcd = layout.metadata_kind() == MetadataKind::Etcd;
        let patience = Patience::new(is_etcd.then(|| layout.etcd_directory().join(LOG_FILE)));
        let founding = patience.wait("to make the cluster", async || controller.found().await);
        founding.await?;
        let mut token = None;
        let mut door = holdfast_api::Door::Open;
        if own.is_some() {
            let audit = audit_log(layout.directory());
            let directory = layout.directory().to_owned();
            controller = controller
                .auditing(Some(audit.clone()))
                .fronting(PARENT_NAME, move || of_demo(&directory, PARENT_NAME));
            // It ends with the runtime.
            drop(controller.retain());
            let accounts = Accounts::new(controller.clone(), PARENT_NAME, audit);
            token = Some(people::admit(&accounts, layout, &patience).await?);
            door = holdfast_api::Door::Guarded(Arc::new(accounts));
        }
        let router = with_console(router(Arc::new(controller), door));
        let acceptor = own.as_ref().map(Acceptor::new);
        servers.spawn(api_server::serve_over(api, router, acceptor));
        Ok(Self {
            store,
            cluster,
            connector,
            seal,
            patience,
            token,
            _servers: servers,
        })
    }

    /// A control plane for the parent itself.
    pub(crate) fn controller(&self) -> Controller {
        Controller::new(self.cluster, self.store.session(), None)
            .connecting(self.connector.clone())
            .sealing(self.seal.clone())
    }

    /// What its API wants to see, if that is anything.
    pub(crate) fn token(&self) -> Option<&str> {
        self.token.as_deref()
    }

    /// How its metadata is waited for.
    pub(crate) fn patience(&self) -> Patience {
        self.patience.clone()
    }

    /// Waits until the metadata has failed for good, if it ever does. An etcd that ends is started again.
    pub(crate) async fn failed(&self) -> Arc<StoreError> {
        match &self.store {
            Keeper::Embedded(store) => store.failed().await,
            Keeper::Etcd { .. } => std::future::pending().await,
        }
    }

    /// Ends. Where nodes run on, so does the etcd that they need.
    pub(crate) fn leave_to(self, nodes_run: bool) {
        if let Keeper::Etcd { supervisor, .. } = self.store
            && nodes_run
        {
            supervisor.leave();
        }
    }
}

/// Opens the store in this process, and serves it.
async fn open(
    layout: &Layout,
    cluster: ClusterId,
    servers: &mut JoinSet<Infallible>,
) -> Result<Keeper, Failure> {
    let [used] = &layout.metadata_uses()[..] else {
        unreachable!("the embedded metadata has one port");
    };
    let listener = ports::listen(used).await?;
    let directory = layout.metadata_directory();
    // Blocks for a moment; nothing else is to be done before.
    let store = Embedded::open(&directory, cluster, HistoryLimits::default());
    let store = Arc::new(store.map_err(|error| unusable(&error))?);
    let shared: Arc<dyn Store> = store.clone();
    // Other processes of this machine reach the port as well.
    let token = people::metadata_token(layout)?;
    let door = Door::new(cluster, &token);
    servers.spawn(metadata_server::serve(listener, shared, door));
    Ok(Keeper::Embedded(store))
}

/// Starts etcd, or adopts the one that an earlier demo has left, and waits until it answers.
async fn start_etcd(layout: &Layout, cluster: ClusterId) -> Result<Keeper, Failure> {
    let (section, member) = layout.etcd();
    let (home, tls) = (layout.etcd_directory(), layout.etcd_tls());
    let plan = Plan::of_machine(&section, cluster, member, &home, &tls).map_err(Failure::new)?;
    let config = EtcdConfig {
        endpoints: section.endpoints(member, tls.is_on()),
        cluster,
        tls: tls.client().map_err(Failure::new)?,
    };
    let supervisor = Supervisor::start(plan).map_err(Failure::new)?;
    let client = Client::start_etcd(&config);
    let begun = Instant::now();
    while !matches!(*client.status.borrow(), Status::Connected { .. }) {
        if let Some(how) = supervisor.ended() {
            return Err(Failure::new(format!("the demo's etcd {how}"))
                .hint("its log is etcd/etcd.log in the demo's directory"));
        }
        if begun.elapsed() >= ETCD_PATIENCE {
            return Err(Failure::new("the demo's etcd does not answer")
                .hint("its log is etcd/etcd.log in the demo's directory"));
        }
        sleep(ETCD_POLL).await;
    }
    Ok(Keeper::Etcd { supervisor, config })
}

fn unusable(error: &OpenError) -> Failure {
    let cause = match error {
        OpenError::Io { source, .. } => format!("{error}: {source}"),
        other => other.to_string(),
    };
    let failure = Failure::new(format!("open the demo's metadata: {cause}"));
    match error {
        OpenError::Format(_) => failure.hint("run the newer program that wrote it"),
        OpenError::Damaged | OpenError::Store(_) => failure.hint(
            "the volumes' data is in the nodes' directories; --fresh erases everything and \
             begins anew",
        ),
        OpenError::InUse { .. } | OpenError::Cluster { .. } | OpenError::Io { .. } => failure,
    }
}
