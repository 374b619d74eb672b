//! Configurations and devices that cannot be used: a clear error, and nothing is harmed.

use std::fs;
use std::os::unix::fs::FileExt;
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

        ensure!(fs::read(&small)? == vec![0; 1 << 20], "it was changed");

        // Somebody else's data, too small or not.
        let foreign = demo.scratch("foreign");
        let content = vec![7; 64 << 20];
        fs::write(&foreign, &content)?;
        for bytes in [64 << 20, 4 << 30] {
            let file = fs::File::options().write(true).open(&foreign)?;
            file.set_len(bytes)?;
            refused(demo, &with_device(demo, &good, &foreign))?;
            let mut found = vec![0; content.len()];
            let file = fs::File::open(&foreign)?;
            file.read_exact_at(&mut found, 0)?;
            ensure!(found == content, "it was overwritten");
            ensure!(file.metadata()?.len() == bytes, "its size was changed");
        }

        // The device of a node that runs.
        let used = demo.device("n1");
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
    let old = demo.device(NODE).display().to_string();
    good.replace(&old, &device.display().to_string())
}

fn without_devices(good: &str) -> String {
    let end = good.find("[[devices]]").unwrap_or(good.len());
    good[..end].to_owned()
}
