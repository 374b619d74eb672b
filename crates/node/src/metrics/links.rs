//! What the metrics tell of the links between nodes.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use prometheus_client::registry::Registry;

use super::{Metrics, Total};

/// What is counted of links.
#[derive(Clone, Debug, Default)]
pub(crate) struct Links {
    cut: Total,
    /// Where it is counted, once there is a network.
    counted: Arc<OnceLock<Arc<AtomicU64>>>,
}

impl Metrics {
    /// The metrics of a node, all zero but the links that its network counts as cut.
    pub(crate) fn with_links(node: &str, cut: Arc<AtomicU64>) -> Self {
        let metrics = Self::new(node);
        metrics.links().follow(cut);
        metrics
    }
}

impl Links {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register(
            "links_cut",
            "Links to other nodes over TLS that ended without the other node's word: its process or machine is gone, or something in between has cut them",
            self.cut.clone(),
        );
    }

    /// The network counts here from now on. A node has one.
    pub(crate) fn follow(&self, cut: Arc<AtomicU64>) {
        // A second one would be a mistake that harms nobody: the first is told of.
        let _ = self.counted.set(cut);
    }

    pub(super) fn keep(&self) {
        let counted = self.counted.get();
        let count = counted.map_or(0, |it| it.load(Ordering::Relaxed));
        self.cut.inner().store(count, Ordering::Relaxed);
    }
}
