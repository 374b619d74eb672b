//! The provider of identities at which people log in, as a node's configuration says it.

use std::path::Path;
use std::sync::Arc;

use holdfast_oidc::{Provider, Settings, TicketKey};
use holdfast_seal::KEY_FILE;
use holdfast_tls::{CredentialsError, read_key};

/// The provider; logins that are under way are sealed with what the machines of the cluster have in `keys`. It is asked at once,
/// so that what is wrong is in the log before somebody wants to log in.
pub(crate) fn provider(settings: Settings, keys: &Path) -> Option<Arc<Provider>> {
    let key = match ticket_key(keys) {
        Ok(key) => key,
        Err(error) => {
            tracing::error!("oidc: nobody can log in at {}: {error}", settings.issuer);
            return None;
        }
    };
    let provider = match Provider::new(settings, key) {
        Ok(provider) => Arc::new(provider),
        Err(error) => {
            tracing::error!("oidc.{error}");
            return None;
        }
    };
    let asked = Arc::clone(&provider);
    tokio::spawn(async move {
        let settings = asked.settings();
        let (issuer, back) = (&settings.issuer, settings.redirect_url());
        // What is wrong it has said itself.
        if asked.look().await.is_ok() {
            tracing::info!("people may log in at {issuer}, and come back to {back}");
        }
    });
    Some(provider)
}

/// The key that follows from what secrets are sealed with; without that, one that only this process has.
fn ticket_key(directory: &Path) -> Result<TicketKey, Box<dyn std::error::Error>> {
    let path = directory.join(KEY_FILE);
    match read_key(&path) {
        Ok(text) => Ok(TicketKey::derive(text.trim().as_bytes())),
        Err(CredentialsError::Missing(_)) => {
            tracing::warn!(
                "{} is not there: a login at a provider of identities has to end at the node where it began",
                path.display()
            );
            Ok(TicketKey::of_this_process()?)
        }
        Err(error) => Err(error.into()),
    }
}
