//! The operator's commands: each asks the API, and prints what it says.

pub(crate) mod node;
pub(crate) mod status;
pub(crate) mod volume;

use holdfast_api::ApiClient;

use crate::cli::Global;

/// The variable that holds what the API wants to see. It is no option: other users of the machine
/// see a command line.
const TOKEN_VARIABLE: &str = "HOLDFAST_TOKEN";

fn client(global: &Global) -> ApiClient {
    let token = std::env::var(TOKEN_VARIABLE)
        .ok()
        .filter(|token| !token.is_empty());
    ApiClient::new(global.api.clone(), token.as_deref())
}
