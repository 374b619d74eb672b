//! What the parent itself runs: the metadata, and the API.

use std::convert::Infallible;
use std::sync::Arc;

use holdfast_api::{router, server as api_server};
use holdfast_controller::Controller;
use holdfast_metadata::embedded::{OpenError, StoreError};
use holdfast_metadata::server::{self as metadata_server, Door};
use holdfast_metadata::{Embedded, HistoryLimits, Store};
use holdfast_model::ClusterId;
use tokio::task::JoinSet;

use super::layout::Layout;
use super::ports;
use crate::failure::Failure;

/// The metadata and the API, served for as long as this lives.
#[derive(Debug)]
pub(crate) struct Services {
    store: Arc<Embedded>,
    cluster: ClusterId,
    _servers: JoinSet<Infallible>,
}

impl Services {
    /// Opens the metadata and begins to serve.
    pub(crate) async fn start(layout: &Layout, cluster: ClusterId) -> Result<Self, Failure> {
        let metadata = ports::listen(&layout.metadata_use()).await?;
        let api = ports::listen(&layout.api_use()).await?;
        let directory = layout.metadata_directory();
        // Blocks for a moment; nothing else is to be done before.
        let store = Embedded::open(&directory, cluster, HistoryLimits::default());
        let store = Arc::new(store.map_err(|error| unusable(&error))?);
        let controller = Controller::new(cluster, store.session(), None);
        controller.found().await?;
        let mut servers = JoinSet::new();
        let shared: Arc<dyn Store> = store.clone();
        servers.spawn(metadata_server::serve(
            metadata,
            shared,
            Door::new(cluster, ""),
        ));
        servers.spawn(api_server::serve(api, router(Arc::new(controller))));
        Ok(Self {
            store,
            cluster,
            _servers: servers,
        })
    }

    /// A control plane for the parent itself.
    pub(crate) fn controller(&self) -> Controller {
        Controller::new(self.cluster, self.store.session(), None)
    }

    /// Waits until the metadata has failed, if it ever does.
    pub(crate) async fn failed(&self) -> Arc<StoreError> {
        self.store.failed().await
    }
}

fn unusable(error: &OpenError) -> Failure {
    let cause = match error {
        OpenError::Io { source, .. } => format!("{error}: {source}"),
        other => other.to_string(),
    };
    let failure = Failure::new(format!("open the demo's metadata: {cause}"));
    match error {
        OpenError::Damaged | OpenError::Store(_) | OpenError::Format(_) => failure.hint(
            "the volumes' data is in the nodes' directories; --fresh erases everything and \
             begins anew",
        ),
        OpenError::InUse { .. } | OpenError::Cluster { .. } | OpenError::Io { .. } => failure,
    }
}
