//! `holdfast status`.

use std::time::SystemTime;

use holdfast_api::documents::{
    Explanation, Health, LocalCluster, LocalMetadata, LocalNode, Protection, Status, TierRoom,
};
use holdfast_api::{ApiClient, ClientError, Problem, ProblemKind};
use serde::Serialize;

use super::protection::span;
use super::{client, protection};
use crate::cli::Global;
use crate::failure::Failure;
use crate::output::{Output, bytes, table};

/// Tells how the cluster is; with `check` the process ends by that.
pub(crate) async fn run(
    global: &Global,
    output: &Output,
    is_explained: bool,
    check: bool,
) -> Result<(), Failure> {
    let is_well = if is_explained {
        explain(global, output).await?
    } else {
        show(global, output).await?
    };
    if is_well || !check {
        return Ok(());
    }
    Err(Failure::answer_is_no())
}

/// Whether the cluster is healthy, and every volume has all its copies.
fn is_well(health: Health, protection: &Protection) -> bool {
    health == Health::Healthy && protection.protected
}

async fn show(global: &Global, output: &Output) -> Result<bool, Failure> {
    let client = client(global);
    let status = match client.status().await {
        Ok(status) => status,
        Err(error) => return Err(without_metadata(&client, output, error).await?),
    };
    output.result(&status, || text(&status))?;
    let is_calm = status.protection.protected && status.alerts.is_empty();
    if !is_calm && !output.is_for_programs() {
        output.talk(
            "\nhint: `holdfast status --explain` says what is waited for, and what you may do",
        );
    }
    Ok(is_well(status.health, &status.protection))
}

/// What programs are told if the metadata cannot be read.
#[derive(Serialize)]
struct Unread<'a> {
    error: &'a Problem,
    known: &'a LocalCluster,
}

/// Tells what nodes say of themselves, if it is the metadata that cannot be read. The command fails all the same:
/// nothing of it is how the cluster is.
async fn without_metadata(
    client: &ApiClient,
    output: &Output,
    error: ClientError,
) -> Result<Failure, Failure> {
    let is_unread =
        matches!(&error, ClientError::Problem(problem) if problem.kind == ProblemKind::Unavailable);
    let failure = Failure::from(error);
    if !is_unread {
        return Ok(failure);
    }
    // A node of an earlier version does not know the question.
    let Ok(known) = client.local_cluster().await else {
        return Ok(failure);
    };
    let document = Unread {
        error: failure.problem(),
        known: &known,
    };
    output.result(&document, || {
        format!(
            "health   not known: the metadata cannot be read\n\n{}",
            known_text(&known)
        )
    })?;
    Ok(failure.told_on_stdout())
}

fn known_text(known: &LocalCluster) -> String {
    let rows: Vec<_> = known.nodes.iter().map(row).collect();
    let names = [
        "NODE", "STATE", "METADATA", "REPLICAS", "LEADS", "SESSIONS", "USED", "FREE", "DEVICES",
    ];
    let list = match known.list_age_seconds {
        Some(seconds) => format!(
            "STALE: which nodes there are is known as of {} ago, when the metadata last told",
            span(seconds)
        ),
        None => {
            "which other nodes there are is not known: the metadata has not told since the start"
                .to_owned()
        }
    };
    format!(
        "what nodes say of themselves, now:\n{}\n{list}\n",
        table(names, &rows)
    )
}

fn row(node: &LocalNode) -> [String; 9] {
    let name = if node.is_asked {
        format!("{} (asked)", node.name)
    } else {
        node.name.clone()
    };
    let Some(says) = node.says else {
        let mut row = ["-"; 9].map(str::to_owned);
        (row[0], row[1]) = (name, "no answer".to_owned());
        return row;
    };
    let metadata = match says.metadata {
        // It has noticed nothing yet.
        LocalMetadata::Followed => "-",
        LocalMetadata::Unreached => "not reached",
        LocalMetadata::Behind => "not believed",
    };
    let devices = match says.devices_absent {
        0 => says.devices.to_string(),
        absent => format!("{}, {absent} absent", says.devices),
    };
    [
        name,
        if says.open { "up" } else { "devices not open" }.to_owned(),
        metadata.to_owned(),
        says.replicas.to_string(),
        says.primaries.to_string(),
        says.sessions.to_string(),
        bytes(says.room.used_bytes),
        bytes(says.room.free_bytes()),
        devices,
    ]
}

/// What is wrong, what is waited for, and what may be done.
async fn explain(global: &Global, output: &Output) -> Result<bool, Failure> {
    let client = client(global);
    let explanation = match client.explain().await {
        Ok(explanation) => explanation,
        Err(error) => return Err(without_metadata(&client, output, error).await?),
    };
    let mut text = protection::explanation(&explanation, SystemTime::now());
    if let Some(known) = &explanation.known {
        text.push_str(&format!("\n{}", known_text(known)));
    }
    output.result(&explanation, || text.clone())?;
    if !output.is_for_programs() {
        output.talk_of_chapters(&text);
    }
    told_of(&explanation)?;
    Ok(is_explained_well(&explanation))
}

/// The same, by what there is to explain.
fn is_explained_well(explanation: &Explanation) -> bool {
    let volumes = explanation.volumes.iter().map(|it| it.health);
    let findings = explanation.nodes.iter().flat_map(|it| &it.findings);
    let findings = findings.chain(&explanation.metadata).map(|it| it.health);
    let worst = volumes.chain(findings).max().unwrap_or(Health::Healthy);
    is_well(worst, &explanation.protection)
}

/// What one node knows by itself is not how the cluster is: the command fails, as it does without --explain.
fn told_of(explanation: &Explanation) -> Result<(), Failure> {
    if explanation.revision > 0 {
        return Ok(());
    }
    let what = "the metadata cannot be read: this is what nodes know by themselves";
    Err(Failure::new(what).told_on_stdout())
}

fn text(status: &Status) -> String {
    let Status {
        cluster,
        health,
        nodes,
        metadata_members,
        volumes,
        pool,
        tiers,
        promised_bytes,
        protection,
        alerts,
        ..
    } = status;
    let mut text = format!("cluster  {cluster}\nhealth   {}\n", health.as_str());
    text.push_str(&format!("nodes    {} of {} up", nodes.up, nodes.total));
    let others = [
        ("not ready", nodes.not_ready),
        ("in maintenance", nodes.in_maintenance),
        ("draining or drained", nodes.draining),
    ];
    for (what, count) in others.into_iter().filter(|(_, count)| *count > 0) {
        text.push_str(&format!(", {count} {what}"));
    }
    text.push('\n');
    if let Some(members) = metadata_members {
        let (up, total) = (members.up, members.total);
        text.push_str(&format!(
            "metadata {up} of {total} members of etcd answer\n"
        ));
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
    let some = match (nodes.up < nodes.total, nodes.draining > 0) {
        (true, true) => " on the nodes that are up, and are not to go",
        (true, false) => " on the nodes that are up",
        (false, true) => " on the nodes that are not to go",
        (false, false) => "",
    };
    text.push_str(&format!(
        "\npool     {}{some}: {} used, {} free; {} promised to all volumes with their copies\n",
        bytes(pool.bytes),
        bytes(pool.used_bytes),
        bytes(pool.free_bytes()),
        bytes(*promised_bytes),
    ));
    text.push_str(&by_tier(tiers));
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

/// The room by classes of devices; of one class it is all the same.
fn by_tier(tiers: &[TierRoom]) -> String {
    let several = tiers.iter().filter(|_| tiers.len() > 1);
    let lines = several.map(|it| {
        format!(
            "         {}: {} on {} device{}, {} used, {} free\n",
            it.tier.as_str(),
            bytes(it.room.bytes),
            it.devices,
            if it.devices == 1 { "" } else { "s" },
            bytes(it.room.used_bytes),
            bytes(it.room.free_bytes()),
        )
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use holdfast_api::documents::{
        DeviceTier, Finding, FindingKind, LocalSummary, NodeCounts, NodeFindings, Room,
        VolumeCounts,
    };

    use super::*;

    /// Room that new volumes get nothing of is not told as free.
    #[test]
    fn whose_room_the_pool_is_is_told() {
        let pool = |up, draining| {
            let told = text(&Status {
                cluster: String::new(),
                health: Health::Healthy,
                nodes: NodeCounts {
                    total: 3,
                    up,
                    draining,
                    ..NodeCounts::default()
                },
                metadata_members: None,
                volumes: VolumeCounts::default(),
                pool: Room {
                    bytes: 2 << 30,
                    used_bytes: 1 << 30,
                },
                tiers: Vec::new(),
                promised_bytes: 0,
                protection: Protection::default(),
                alerts: Vec::new(),
                revision: 1,
            });
            let line = |begins| told.lines().find(|line| line.starts_with(begins));
            let pool = line("pool").unwrap().split_once(':').unwrap().0;
            (line("nodes").unwrap().to_owned(), pool.to_owned())
        };
        let told =
            |nodes: &str, pool: &str| (format!("nodes    {nodes}"), format!("pool     {pool}"));
        assert_eq!(pool(3, 0), told("3 of 3 up", "2 GiB"));
        let one = told(
            "3 of 3 up, 1 draining or drained",
            "2 GiB on the nodes that are not to go",
        );
        assert_eq!(pool(3, 1), one);
        let both = pool(2, 1).1;
        assert!(
            both.ends_with("on the nodes that are up, and are not to go"),
            "{both}"
        );
    }

    /// Of one class of devices it is what the pool's line has said.
    #[test]
    fn room_is_told_by_tier_where_there_are_several() {
        let tier = |tier, devices, bytes: u64, used_bytes| TierRoom {
            tier,
            devices,
            room: Room { bytes, used_bytes },
        };
        let flash = tier(DeviceTier::Flash, 3, 6 << 30, 3 << 29);
        let capacity = tier(DeviceTier::Capacity, 1, 4 << 40, 0);
        assert_eq!(by_tier(&[]), "");
        assert_eq!(by_tier(std::slice::from_ref(&flash)), "");
        assert_eq!(
            by_tier(&[flash, capacity]),
            "         flash: 6 GiB on 3 devices, 1.5 GiB used, 4.5 GiB free\n\
             \x20        capacity: 4 TiB on 1 device, 0 B used, 4 TiB free\n"
        );
    }

    #[test]
    fn a_check_wants_health_and_every_copy() {
        let protection = |protected| Protection {
            protected,
            ..Protection::default()
        };
        assert!(is_well(Health::Healthy, &protection(true)));
        assert!(!is_well(Health::Healthy, &protection(false)));
        assert!(!is_well(Health::Degraded, &protection(true)));
        let mut explanation = Explanation {
            protection: protection(true),
            ..Explanation::default()
        };
        assert!(is_explained_well(&explanation));
        explanation.nodes.push(NodeFindings {
            node: "n1".to_owned(),
            findings: vec![Finding {
                kind: FindingKind::NodeDown,
                health: Health::Unavailable,
                what: "it has not answered for 9 s".to_owned(),
                slices: 0,
                indexes: String::new(),
                work: None,
                waits_for: Vec::new(),
                remedies: Vec::new(),
            }],
        });
        assert!(!is_explained_well(&explanation));
    }

    #[test]
    fn an_explanation_without_the_metadata_is_a_failure() {
        let mut explanation = Explanation::default();
        let failure = told_of(&explanation).unwrap_err();
        assert!(failure.is_told_on_stdout() && !failure.is_told());
        explanation.revision = 7;
        told_of(&explanation).unwrap();
    }

    #[test]
    fn what_is_old_is_told_with_its_age() {
        let node = |number: u16, says| LocalNode {
            name: format!("n{number}"),
            node: number,
            is_asked: number == 1,
            says,
        };
        let first = LocalSummary {
            open: true,
            metadata: LocalMetadata::Unreached,
            metadata_believed: None,
            replicas: 3,
            primaries: 2,
            sessions: 4,
            room: Room {
                bytes: 3 << 30,
                used_bytes: 1 << 30,
            },
            devices: 2,
            devices_absent: 1,
        };
        let known = LocalCluster {
            list_age_seconds: Some(180),
            nodes: vec![node(1, Some(first)), node(2, None)],
        };
        assert_eq!(
            known_text(&known),
            "what nodes say of themselves, now:\n\
             NODE        STATE      METADATA     REPLICAS  LEADS  SESSIONS  USED   FREE   DEVICES\n\
             n1 (asked)  up         not reached  3         2      4         1 GiB  2 GiB  2, 1 absent\n\
             n2          no answer  -            -         -      -         -      -      -\n\
             \n\
             STALE: which nodes there are is known as of 3 min ago, when the metadata last told\n"
        );
        let alone = LocalCluster {
            list_age_seconds: None,
            nodes: vec![node(1, Some(first))],
        };
        assert!(known_text(&alone).ends_with("has not told since the start\n"));
    }
}
