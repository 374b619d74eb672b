//! `holdfast audit` and `holdfast whoami`.

use std::time::Duration;

use holdfast_api::documents::{
    AUDIT_MAX, AuditEntry, AuditList, AuditQuery, Identity, IdentityKind,
};

use holdfast_identity::Who;

use super::client;
use super::pieces::{self, milliseconds_ago};
use super::stalls::utc;
use crate::cli::{Global, age};
use crate::failure::Failure;
use crate::output::{Output, table};

#[derive(clap::Args, Debug)]
pub(crate) struct AuditArguments {
    /// Of the last so many seconds, minutes, hours or days, for example 90s, 15m, 6h, 7d
    #[arg(long, value_name = "AGE", value_parser = age)]
    since: Option<Duration>,
    /// How many at most, the newest first: any number, of all that nodes keep
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
}

pub(crate) async fn show(
    global: &Global,
    output: &Output,
    arguments: &AuditArguments,
) -> Result<(), Failure> {
    let since_ms = arguments.since.map_or(0, milliseconds_ago);
    let client = client(global);
    let list: AuditList = pieces::read(arguments.limit, async |missing, after| {
        let query = AuditQuery {
            limit: missing.min(AUDIT_MAX),
            since_ms,
            after,
        };
        Ok(client.audit(query).await?)
    })
    .await?;
    if !list.silent.is_empty() {
        let silent = list.silent.join(", ");
        output.talk(&format!(
            "note: what was done through {silent} is missing: no answer"
        ));
    }
    output.result(&list, || text(&list.entries))
}

fn text(entries: &[AuditEntry]) -> String {
    let rows: Vec<_> = entries
        .iter()
        .map(|entry| {
            let result = match &entry.code {
                Some(code) => format!("{} {code}", entry.status),
                None => entry.status.to_string(),
            };
            let about = entry.about.as_ref();
            let about = about.map_or_else(String::new, |about| format!(": {about}"));
            [
                utc(entry.at_ms),
                entry.node.clone(),
                entry.who.clone(),
                entry.from.clone(),
                format!("{} {}{about}", entry.method, entry.path),
                result,
            ]
        })
        .collect();
    table(
        ["TIME (UTC)", "THROUGH", "WHO", "FROM", "WHAT", "RESULT"],
        &rows,
    )
}

pub(crate) async fn who(global: &Global, output: &Output) -> Result<(), Failure> {
    let who = client(global).who().await?;
    output.result(&who, || told(&who))
}

fn told(who: &Identity) -> String {
    let Identity {
        kind,
        name,
        role,
        scope,
        expires_ms,
        issuer,
    } = who;
    let kind = match kind {
        IdentityKind::User => "user ",
        IdentityKind::Token => "token ",
        // Who shows the certificate of what runs a demo.
        IdentityKind::Node if *name == Who::DEMO.to_string() => {
            return format!("demo: {role} for {scope}\n");
        }
        IdentityKind::Node => "node ",
        IdentityKind::Anybody => {
            return "anybody: security is off, and everybody may everything\n".to_owned();
        }
    };
    let until = expires_ms.map_or_else(String::new, |at| format!(", until {}", utc(at)));
    let issuer = issuer.as_ref();
    let by = issuer.map_or_else(String::new, |issuer| format!(", known by {issuer}"));
    format!("{kind}{name}: {role} for {scope}{until}{by}\n")
}
