//! `holdfast status`.

use std::time::SystemTime;

use holdfast_api::documents::Status;

use super::{client, protection};
use crate::cli::Global;
use crate::failure::Failure;
use crate::output::{Output, bytes};

pub(crate) async fn show(global: &Global, output: &Output) -> Result<(), Failure> {
    let status = client(global).status().await?;
    output.result(&status, || text(&status))?;
    let is_well = status.protection.protected && status.alerts.is_empty();
    if !is_well && !output.is_for_programs() {
        output.talk(
            "\nhint: `holdfast status --explain` says what is waited for, and what you may do",
        );
    }
    Ok(())
}

/// What is wrong, what is waited for, and what may be done.
pub(crate) async fn explain(global: &Global, output: &Output) -> Result<(), Failure> {
    let explanation = client(global).explain().await?;
    output.result(&explanation, || {
        protection::explanation(&explanation, SystemTime::now())
    })?;
    Ok(())
}

fn text(status: &Status) -> String {
    let Status {
        cluster,
        health,
        nodes,
        metadata_members,
        volumes,
        pool,
        promised_bytes,
        protection,
        alerts,
        ..
    } = status;
    let mut text = format!("cluster  {cluster}\nhealth   {}\n", health.as_str());
    text.push_str(&format!("nodes    {} of {} up\n", nodes.up, nodes.total));
    if let Some(members) = metadata_members {
        let (up, total) = (members.up, members.total);
        text.push_str(&format!("metadata {up} of {total} members of etcd answer\n"));
    }
    text.push_str(&format!("volumes  {}", volumes.total));
    let parts = [
        ("healthy", volumes.healthy),
        ("degraded", volumes.degraded),
        ("unavailable", volumes.unavailable),
    ];
    let parts: Vec<_> = parts
        .iter()
        .filter(|(_, count)| *count > 0)
        .map(|(word, count)| format!("{count} {word}"))
        .collect();
    if !parts.is_empty() {
        text.push_str(&format!(" ({})", parts.join(", ")));
    }
    let some = if nodes.up < nodes.total {
        " on the nodes that are up"
    } else {
        ""
    };
    text.push_str(&format!(
        "\npool     {}{some}: {} used, {} free; all volumes with their copies may fill {}\n",
        bytes(pool.bytes),
        bytes(pool.used_bytes),
        bytes(pool.free_bytes()),
        bytes(*promised_bytes),
    ));
    let line = protection::line(protection, SystemTime::now());
    text.push_str(&format!("\n{line}\n"));
    if !alerts.is_empty() {
        text.push('\n');
    }
    for alert in alerts {
        text.push_str(&format!("{alert}\n"));
    }
    text
}
