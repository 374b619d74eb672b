//! Whether the next node may be upgraded, as a script asks it: by the exit code, and by one JSON value.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use holdfast_e2e::process::wait_until;
use holdfast_e2e::{Demo, DemoOptions, cli, scenario};
use serde_json::Value;

const GO_ON: i32 = 0;
const WAIT: i32 = 3;
const PATIENCE: Duration = Duration::from_secs(60);

/// The exit code, and what is told.
fn check(demo: &Demo) -> Result<(i32, Value)> {
    let output = cli::run(&["--json", "--api", demo.api(), "upgrade-check"])?;
    let code = output.status.code().context("it ends by itself")?;
    let told: Value = serde_json::from_slice(&output.stdout)
        .with_context(|| format!("one JSON value: {output:?}"))?;
    ensure!(told["may_go_on"] == (code == GO_ON), "{code}: {told}");
    Ok((code, told))
}

fn expect(demo: &Demo, code: i32) -> Result<()> {
    let mut last = None;
    let seen = wait_until("the answer", PATIENCE, || {
        let told = check(demo)?;
        let is_it = told.0 == code;
        last = Some(told);
        Ok(is_it)
    });
    seen.map(drop)
        .with_context(|| format!("{code} was expected, not {last:?}"))
}

#[test]
fn the_next_node_is_taken_when_nothing_is_away() {
    scenario(DemoOptions::default(), |demo| {
        expect(demo, GO_ON)?;
        let (_, told) = check(demo)?;
        let nodes = told["nodes"].as_array().context("nodes")?;
        ensure!(nodes.len() == demo.file().nodes.len(), "{told}");
        for node in nodes {
            ensure!(node["is_upgraded"] == true, "all run this program: {told}");
            ensure!(node["versions"] == told["program"], "{told}");
        }
        let order = ["--api", demo.api(), "node", "maintenance"];
        cli::done(&[&order[..], &["on", "n1"]].concat())?;
        let (code, told) = check(demo)?;
        ensure!(code == WAIT, "n1 is in maintenance: {told}");
        cli::done(&[&order[..], &["off", "n1"]].concat())?;
        expect(demo, GO_ON)?;
        let secondary = demo.secondary("demo")?;
        demo.kill(&secondary)?;
        let (code, told) = check(demo)?;
        ensure!(code == WAIT, "{secondary} is dead: {told}");
        demo.start_node(&secondary)?;
        expect(demo, GO_ON)
    });
}
