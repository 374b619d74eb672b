//! The first start of a cluster that keeps its metadata in etcd: somebody has to make the cluster there.
//!
//! It refuses to make it anew: a node that has data, or has seen the cluster before, takes an etcd that
//! knows nothing for one that was lost, and leaves it to the operator to bring the right one back.
//!
//! Invariant: a node makes a cluster once at most.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use holdfast_api::documents::LocalReport;
use holdfast_controller::Controller;
use holdfast_node::SEEN_FILE;
use tokio::sync::watch;
use tokio::time::sleep;

/// Between two attempts.
const RETRY: Duration = Duration::from_millis(500);

/// Makes the cluster if this node is new, and nobody has made it.
pub(crate) async fn found(
    controller: Controller,
    directory: PathBuf,
    mut report: watch::Receiver<LocalReport>,
) {
    let seen = directory.join(SEEN_FILE);
    if seen.exists() {
        return;
    }
    let Ok(opened) = report
        .wait_for(|report| report.open)
        .await
        .map(|it| it.slices.len())
    else {
        // The node has ended.
        return;
    };
    if opened > 0 {
        return;
    }
    let made = loop {
        match controller.make_cluster().await {
            Ok(made) => break made,
            // The log says how it stands with the metadata.
            Err(_) => sleep(RETRY).await,
        }
    };
    if made {
        tracing::info!("the metadata knew of no cluster: this one is made");
    }
    if let Err(error) = mark(&seen) {
        tracing::warn!("write {}: {error}", seen.display());
    }
}

fn mark(path: &Path) -> io::Result<()> {
    File::create(path)?.sync_all()
}
