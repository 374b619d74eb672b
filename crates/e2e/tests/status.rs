//! What an operator is told while a node is away, and when it is back.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use holdfast_e2e::host::Host;
use holdfast_e2e::process::wait_until;
use holdfast_e2e::{Demo, DemoOptions, cli, scenario};
use holdfast_lab::verify::LoadConfig;
use serde_json::Value;

/// Within which the nodes have noticed what has happened, and told.
const TOLD_WITHIN: Duration = Duration::from_secs(20);
const SYNC_PATIENCE: Duration = Duration::from_secs(120);
/// What `status --check` ends with where the cluster is not well.
const NOT_WELL: i32 = 3;

fn ask(demo: &Demo, arguments: &[&str]) -> Result<Value> {
    cli::json(demo.api(), arguments)
}

/// What people read.
fn text(demo: &Demo, arguments: &[&str]) -> Result<String> {
    let output = cli::run(&[&["--api", demo.api()], arguments].concat())?;
    ensure!(output.status.success(), "{arguments:?}: {output:?}");
    Ok(String::from_utf8(output.stdout)?)
}

/// The explanation's one entry about a volume, of this kind.
fn finding(explanation: &Value, kind: &str) -> Option<Value> {
    let findings = explanation["volumes"][0]["findings"].as_array()?;
    let mut found = findings.iter().filter(|one| one["kind"] == kind);
    found.next().cloned()
}

/// What `status --check` ends with.
fn checked(demo: &Demo, more: &[&str]) -> Result<Option<i32>> {
    let all = [&["--api", demo.api(), "status", "--check"], more].concat();
    Ok(cli::run(&all)?.status.code())
}

#[test]
fn a_node_that_is_away_is_waited_for_and_its_return_is_timed() {
    let options = DemoOptions {
        volumes: vec!["demo:4GiB:mirror3"],
        ..DemoOptions::default()
    };
    scenario(options, |demo| {
        wait_until("all is protected", TOLD_WITHIN, || {
            Ok(text(demo, &["status"])?.contains("protected: every volume"))
        })?;
        let host = Host::open(demo, "demo")?;
        let config = LoadConfig {
            depth: 8,
            ..LoadConfig::default()
        };
        let load = host.load(host.ledger(3), config);
        load.wait_for(100)?;
        let volume = demo.volume("demo")?;
        let slice = volume.slices.first().context("a volume has slices")?;
        let primary = slice.primary.clone().context("somebody leads")?;
        let away = slice.in_sync.iter().find(|node| **node != primary);
        let away = away.context("there are others")?.clone();
        demo.kill(&away)?;
        wait_until("the death is explained", TOLD_WITHIN, || {
            let explanation = ask(demo, &["status", "--explain"])?;
            let down = finding(&explanation, "node-down");
            Ok(down.is_some_and(|down| down["work"]["bytes"].as_u64() > Some(0)))
        })?;
        // Three copies on three nodes: nothing can be rebuilt elsewhere.
        let status = text(demo, &["status"])?;
        let line = format!("again: unknown: waits for {away} to come back");
        ensure!(status.contains("health   degraded"), "{status}");
        ensure!(status.contains(&line), "{status}");
        ensure!(checked(demo, &[])? == Some(NOT_WELL), "{status}");
        ensure!(checked(demo, &["--explain"])? == Some(NOT_WELL), "{status}");
        let explained = text(demo, &["status", "--explain"])?;
        ensure!(explained.contains(&format!("start {away}")), "{explained}");
        ensure!(explained.contains("holdfast node add"), "{explained}");
        load.wait_for(300)?;
        demo.start_node(&away)?;
        // A sync of little may be over before anybody looks: then it is protected.
        wait_until("nothing is waited for", SYNC_PATIENCE, || {
            let protection = ask(demo, &["status"])?["protection"].clone();
            let waits = protection["waits_for"].as_array();
            let waits = waits.context("it tells what it waits for")?;
            Ok(waits.is_empty())
        })?;
        wait_until("all is protected again", SYNC_PATIENCE, || {
            Ok(ask(demo, &["status"])?["protection"]["protected"] == true)
        })?;
        wait_until("a check is passed", SYNC_PATIENCE, || {
            Ok(checked(demo, &[])? == Some(0) && checked(demo, &["--explain"])? == Some(0))
        })?;
        let explanation = ask(demo, &["status", "--explain"])?;
        ensure!(
            explanation["volumes"] == Value::Array(vec![]),
            "{explanation}"
        );
        let (_, mut ledger) = load.stop()?;
        host.wait_for_all_paths()?;
        host.verify(&mut ledger)
    });
}
