//! The operator's commands: each asks the API, and prints what it says.

pub(crate) mod alarm;
pub(crate) mod audit;
pub(crate) mod certify;
mod confirm;
pub(crate) mod device;
mod drain;
pub(crate) mod events;
mod found;
pub(crate) mod history;
pub(crate) mod initiator;
pub(crate) mod log;
mod login;
pub(crate) mod node;
mod password;
mod paths;
mod pieces;
mod protection;
pub(crate) mod receiver;
mod replace;
pub(crate) mod retention;
mod scrub;
pub(crate) mod security;
pub(crate) mod settings;
pub(crate) mod stalls;
pub(crate) mod status;
pub(crate) mod support;
pub(crate) mod tasks;
pub(crate) mod token;
mod traffic;
pub(crate) mod upgrade_check;
pub(crate) mod user;
pub(crate) mod volume;

use clap::error::ErrorKind;
use holdfast_api::ApiClient;

use crate::cli::{Global, usage};

/// The variable that holds what the API wants to see. It is no option: other users of the machine
/// see a command line.
const TOKEN_VARIABLE: &str = "HOLDFAST_TOKEN";

/// Who asks the API; ends the process if what it is to be asked with makes no sense.
fn client(global: &Global) -> ApiClient {
    let token = std::env::var_os(TOKEN_VARIABLE).filter(|token| !token.is_empty());
    let token = token.map(|token| match token.into_string() {
        Ok(token) if token.chars().all(|letter| letter.is_ascii_graphic()) => token,
        _ => usage(
            None,
            ErrorKind::ValueValidation,
            "HOLDFAST_TOKEN: a token has letters, digits and signs, no spaces and no line breaks",
        ),
    });
    ApiClient::new(global.api(), token.as_deref())
        .telling_token_in_plain(global.token_over_http)
        .connecting(global.connector())
}
