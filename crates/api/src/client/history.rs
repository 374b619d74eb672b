//! Performance history, as the client asks for it.

use super::{ApiClient, ClientError, path_of, volume_path};
use crate::documents::{History, HistoryOf, HistoryQuery, LocalHistory, LocalHistoryQuery};

impl ApiClient {
    /// What was measured of the cluster, or a part of it.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn history(
        &self,
        of: &HistoryOf,
        query: HistoryQuery,
    ) -> Result<History, ClientError> {
        let HistoryQuery {
            from_ms,
            until_ms,
            step_seconds,
        } = query;
        let said = [
            ("from_ms", from_ms),
            ("until_ms", until_ms),
            ("step_seconds", step_seconds.map(u64::from)),
        ];
        let said = said
            .iter()
            .filter_map(|(key, value)| Some(format!("{key}={}", (*value)?)));
        let said: Vec<String> = said.collect();
        let path = format!("{}/history?{}", resource(of), said.join("&"));
        self.read(&path).await
    }

    /// What the node at the URL has measured.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn local_history(
        &self,
        query: &LocalHistoryQuery,
    ) -> Result<LocalHistory, ClientError> {
        let LocalHistoryQuery {
            of,
            from,
            until,
            step,
        } = query;
        // A name of an initiator has nothing that a query's value may not have but in escapes.
        let of = path_of("", of);
        let of = of.trim_start_matches('/');
        self.read(&format!(
            "/local/history?of={of}&from={from}&until={until}&step={step}"
        ))
        .await
    }
}

/// Whose history it is, as a path.
fn resource(of: &HistoryOf) -> String {
    match of {
        HistoryOf::Cluster => String::new(),
        HistoryOf::Volume(volume) => volume_path(volume),
        HistoryOf::Initiator(volume, initiator) => {
            volume_path(volume) + &path_of("initiators", initiator)
        }
        HistoryOf::Host(initiator) => path_of("initiators", initiator),
        HistoryOf::Node(node) => path_of("nodes", node),
        HistoryOf::Device(node, device) => {
            path_of("nodes", node) + &path_of("devices", &device.to_string())
        }
        HistoryOf::Tier(tier) => path_of("tiers", tier.as_str()),
    }
}
