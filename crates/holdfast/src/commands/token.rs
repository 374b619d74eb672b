//! `holdfast token`.

use std::time::Duration;

use clap::Subcommand;
use holdfast_api::documents::{Token, TokenCreate};
use holdfast_identity::{Label, Proof, ProofKind, Role, Scope};
use serde::Serialize;

use super::client;
use super::stalls::utc;
use crate::cli::{Global, age};
use crate::failure::Failure;
use crate::output::{Output, table};

#[derive(Debug, Subcommand)]
pub(crate) enum TokenCommand {
    /// List the tokens: what each may, who made it, and until when it holds
    List,
    /// Make a token for a program; it is told this once
    Create {
        /// What it is for, for example Prometheus
        name: Label,
        /// What its holder may: viewer, operator or administrator; no more than who makes it
        #[arg(long, default_value_t = Role::Viewer)]
        role: Role,
        /// For what part: everything, volumes (and hosts), or metrics
        #[arg(long, default_value_t = Scope::Everything)]
        scope: Scope,
        /// How long it holds, for example 30m, 12h, 90d; five years at most
        #[arg(long = "for", value_name = "SPAN", value_parser = age, default_value = "90d")]
        lifetime: Duration,
    },
    /// Revoke a token: it holds no more
    Revoke {
        /// What the list calls it
        id: String,
    },
}

/// What `token revoke` says to programs.
#[derive(Serialize)]
struct Revoked<'a> {
    revoked: &'a str,
}

pub(crate) async fn run(
    global: &Global,
    output: &Output,
    command: TokenCommand,
) -> Result<(), Failure> {
    let client = client(global);
    match command {
        TokenCommand::List => {
            let list = client.tokens().await?;
            output.result(&list, || text(&list.tokens))
        }
        TokenCommand::Create {
            name,
            role,
            scope,
            lifetime,
        } => {
            let request = TokenCreate {
                name: name.into(),
                role,
                scope,
                lifetime_seconds: lifetime.as_secs(),
            };
            let created = client.create_token(&request).await?;
            output.talk("note: it is not told again; programs bring it as HOLDFAST_TOKEN, or as `Authorization: Bearer`");
            output.result(&created, || format!("{}\n", created.secret.0))
        }
        TokenCommand::Revoke { id } => {
            // Whoever has found a token may show all of it: it goes nowhere.
            let shown = Proof::taken_apart(ProofKind::Token, &id);
            let id = shown.map_or(id.clone(), |(id, _)| id.to_owned());
            client.revoke_token(&id).await?;
            output.result(&Revoked { revoked: &id }, || format!("revoked {id}\n"))
        }
    }
}

fn text(tokens: &[Token]) -> String {
    let rows: Vec<_> = tokens
        .iter()
        .map(|token| {
            [
                token.id.clone(),
                token.name.clone(),
                token.role.to_string(),
                token.scope.to_string(),
                token.created_by.clone(),
                utc(token.expires_ms),
            ]
        })
        .collect();
    table(
        ["TOKEN", "NAME", "ROLE", "SCOPE", "MADE BY", "UNTIL (UTC)"],
        &rows,
    )
}
