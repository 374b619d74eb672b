//! Configurations and devices that cannot be used: a clear error, and nothing is harmed.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use holdfast_e2e::cli::{FAILED, fails};
use holdfast_e2e::{Demo, DemoOptions, scenario};

const NODE: &str = "n3";

#[test]
fn wrong_configurations_are_told() {
    scenario(DemoOptions::default(), |demo| {
        // The node's command while it runs: told who holds its directory.
        let command = demo.file().node(NODE)?.command.clone();
        let pid = demo.pid(NODE)?.to_string();
        let arguments: Vec<&str> = command[1..].iter().map(String::as_str).collect();
        let said = fails(FAILED, &arguments)?;
        ensure!(
            said.contains(&pid),
            "it does not name process {pid}: {said}"
        );

        demo.kill(NODE)?;
        let good = fs::read_to_string(demo.path(NODE).join("node.toml"))?;
        for (what, text, says) in [
            ("no TOML", good.replacen('=', ":", 1), ""),
            (
                "a misspelt key",
                good.replace("file_bytes", "file_byte"),
                "file_byte",
            ),
            ("no devices", without_devices(&good), "devices"),
            ("an empty file", String::new(), ""),
        ] {
            let said = refused(demo, &text).with_context(|| what.to_owned())?;
            ensure!(said.contains(says), "{what}: {said}");
            ensure!(
                said.contains("wrong.toml"),
                "{what}: no file is named: {said}"
            );
        }

        let small = demo.scratch("small");
        fs::File::create(&small)?.set_len(1 << 20)?;
        let said = refused(demo, &with_device(demo, &good, &small))?;
        ensure!(
            said.contains("small"),
            "it does not name the device: {said}"
        );

        // Somebody else's data.
        let foreign = demo.scratch("foreign");
        fs::write(&foreign, vec![7; 64 << 20])?;
        fs::File::options()
            .write(true)
            .open(&foreign)?
            .set_len(4 << 30)?;
        refused(demo, &with_device(demo, &good, &foreign))?;
        ensure!(
            fs::read(&foreign)?[..64 << 20] == vec![7; 64 << 20],
            "it was overwritten"
        );

        // The device of a node that runs.
        let used = demo.path("n1").join("device");
        let said = refused(demo, &with_device(demo, &good, &used))?;
        ensure!(said.contains("n1"), "it does not name the device: {said}");

        // Another cluster's.
        let line = good.lines().find(|line| line.starts_with("cluster"));
        let line = line.context("the configuration names its cluster")?;
        let other = good.replace(line, "cluster = \"00000000000000000000000000000007\"");
        let said = refused(demo, &other)?;
        ensure!(
            said.contains("cluster"),
            "it does not speak of the cluster: {said}"
        );

        // After all that the node is as good as before.
        demo.start_node(NODE)?;
        demo.wait_until_whole("demo", std::time::Duration::from_secs(30))?;
        Ok(())
    });
}

/// What a node says that was started with this configuration and cannot run.
fn refused(demo: &Demo, text: &str) -> Result<String> {
    let path = demo.path("wrong.toml");
    fs::write(&path, text)?;
    fails(FAILED, &["node", "--config", &path.display().to_string()])
}

fn with_device(demo: &Demo, good: &str, device: &Path) -> String {
    let old = demo.path(NODE).join("device").display().to_string();
    good.replace(&old, &device.display().to_string())
}

fn without_devices(good: &str) -> String {
    let end = good.find("[[devices]]").unwrap_or(good.len());
    good[..end].to_owned()
}
