//! Stalls, as the client asks for them.

use super::{ApiClient, ClientError, after_of, volume_path};
use crate::documents::{LocalStalls, StallList, StallQuery};

impl ApiClient {
    /// The stalls of a volume, or of all.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn stalls(
        &self,
        volume: Option<&str>,
        query: StallQuery,
    ) -> Result<StallList, ClientError> {
        let of = volume.map(volume_path).unwrap_or_default();
        self.read(&format!("{of}/stalls?{}", query_of(query))).await
    }

    /// The stalls that the node at the URL keeps.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn local_stalls(&self, query: StallQuery) -> Result<LocalStalls, ClientError> {
        self.read(&format!("/local/stalls?{}", query_of(query)))
            .await
    }
}

fn query_of(query: StallQuery) -> String {
    let StallQuery {
        limit,
        since_ms,
        initiators,
        after,
    } = query;
    let after = after_of(after.as_deref());
    format!("limit={limit}&since_ms={since_ms}&initiators={initiators}{after}")
}
