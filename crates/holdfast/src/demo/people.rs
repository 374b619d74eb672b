//! Who may ask a demo's interface: its first user, and the token in `demo.json`.
//!
//! Invariants:
//! - both are made once, and kept in files that nobody else can read; a token that holds no more is made anew;
//! - a user that somebody has made, or changed, is left alone.

use std::fs;
use std::path::Path;

use holdfast_api::documents::{TokenCreate, UserCreate};
use holdfast_api::{Identities, ProblemKind, Shown};
use holdfast_controller::Accounts;
use holdfast_identity::{Caller, Role, Scope};
use holdfast_model::record::Secret;
use holdfast_tls::DEMO;

use super::layout::Layout;
use super::patience::Patience;
use crate::failure::Failure;

/// The first user.
pub(crate) const FIRST_USER: &str = "admin";
/// How long the token holds: a year.
const TOKEN_LIFETIME_SECONDS: u64 = 365 * 86_400;

/// Lets the first user and the token in, and gives the token.
///
/// # Errors
/// The metadata does not answer, or a file cannot be written.
pub(crate) async fn admit(
    accounts: &Accounts,
    layout: &Layout,
    patience: &Patience,
) -> Result<String, Failure> {
    let users = patience.wait("to list the users", async || accounts.users().await);
    if users.await?.is_empty() {
        let password = random()?;
        write_secret(&layout.password_path(), &password)?;
        let making = patience.wait("to make the first user", async || {
            let request = UserCreate {
                name: FIRST_USER.to_owned(),
                role: Role::Administrator,
                password: Secret(password.clone()),
            };
            accounts.create_user(request.into()).await
        });
        making.await?;
    }
    let path = layout.token_path();
    if let Ok(token) = fs::read_to_string(&path) {
        let token = token.trim();
        let asking = patience.wait("to know the token", async || {
            match accounts.who(Shown::Token(token)).await {
                Ok(_) => Ok(true),
                Err(problem) if problem.kind == ProblemKind::Unauthenticated => Ok(false),
                Err(problem) => Err(problem),
            }
        });
        if asking.await? {
            return Ok(token.to_owned());
        }
    }
    let maker = Caller::node(DEMO.0);
    let making = patience.wait("to make a token", async || {
        let request = TokenCreate {
            name: "demo.json".to_owned(),
            role: Role::Administrator,
            scope: Scope::Everything,
            lifetime_seconds: TOKEN_LIFETIME_SECONDS,
        };
        accounts.create_token(request.into(), &maker).await
    });
    let Secret(token) = making.await?.secret;
    write_secret(&path, &token)?;
    Ok(token)
}

/// What admits nodes at the demo's own metadata: made once; nothing for a demo without TLS.
///
/// # Errors
/// The file cannot be written.
pub(crate) fn metadata_token(layout: &Layout) -> Result<String, Failure> {
    let Some(path) = layout.metadata_token_path() else {
        return Ok(String::new());
    };
    match fs::read_to_string(&path) {
        Ok(token) if !token.trim().is_empty() => return Ok(token.trim().to_owned()),
        _ => {}
    }
    let token = random()?;
    write_secret(&path, &token)?;
    Ok(token)
}

fn write_secret(path: &Path, secret: &str) -> Result<(), Failure> {
    let written = holdfast_durable::replace(path, format!("{secret}\n").as_bytes(), 0o600);
    written.map_err(|error| Failure::new(format!("write {}: {error}", path.display())))
}

/// A text that nobody can guess.
fn random() -> Result<String, Failure> {
    let mut bytes = [0; 16];
    let filled = getrandom::fill(&mut bytes);
    filled.map_err(|error| Failure::new(format!("draw a password: {error}")))?;
    Ok(format!("{:032x}", u128::from_ne_bytes(bytes)))
}
