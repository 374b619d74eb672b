//! The metadata is lost for good: `holdfast recover` makes it again from the nodes' devices, and says what
//! it cannot know.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, ensure};
use holdfast_e2e::cli::{self, FAILED};
use holdfast_e2e::host::Host;
use holdfast_e2e::machines::{Role, on_machines};
use holdfast_e2e::recover::{read_reports, recover};
use holdfast_e2e::{DemoOptions, scenario};
use holdfast_lab::verify::LoadConfig;
use serde_json::Value;

const SYNC_PATIENCE: Duration = Duration::from_secs(60);

fn slices(plan: &Value, fate: &str) -> Option<u64> {
    plan["volumes"][0]["slices"][fate].as_u64()
}

/// Load, the death of everything, and the end of the metadata.
#[test]
fn lost_metadata_is_made_again_and_nothing_is_lost() {
    let options = DemoOptions {
        volumes: vec!["demo:10GiB:mirror2"],
        ..DemoOptions::default()
    };
    scenario(options, |demo| {
        let host = Host::open(demo, "demo")?;
        let load = host.load(host.ledger(1), LoadConfig::default());
        load.wait_for(500)?;
        let running = demo.path("n1").display().to_string();
        let talk = cli::fails(FAILED, &["recover", "read", &running])?;
        ensure!(talk.contains("stop the node first"), "{talk}");
        demo.kill_everything()?;
        let (_, mut ledger) = load.abandon()?;
        drop(host);
        let reports = read_reports(demo)?;
        let reports: Vec<&str> = reports.iter().map(String::as_str).collect();
        let metadata: PathBuf = demo.path("metadata");
        fs::remove_dir_all(&metadata)?;
        let metadata = metadata.display().to_string();

        // A node is not heard: what it may know is waited for, and nothing is made up.
        let some = recover(&[&["plan"], &reports[1..]].concat())?;
        ensure!(some["missing"] == serde_json::json!([1]), "{some}");
        ensure!(slices(&some, "waiting") > Some(0), "{some}");
        // With all of them everything is known.
        let all = recover(&[&["plan"], &reports[..]].concat())?;
        ensure!(slices(&all, "certain") == Some(3), "{all}");
        ensure!(all["volumes"][0]["complete"] == true, "{all}");
        let write = [&["write", "--metadata", &metadata], &reports[..]].concat();
        recover(&write)?;
        let talk = cli::fails(FAILED, &[&["recover"], &write[..]].concat())?;
        ensure!(talk.contains("--replace"), "{talk}");

        demo.start_again()?;
        let host = Host::open(demo, "demo")?;
        host.verify(&mut ledger)?;
        demo.wait_until_whole("demo", SYNC_PATIENCE)?;
        // It is a cluster like any other.
        let load = host.load(ledger, LoadConfig::default());
        load.wait_for(300)?;
        let (_, mut ledger) = load.stop()?;
        drop(host);
        demo.stop()?;

        // With reports from before it ran, what was written since would be lost.
        let again = [&["recover", "write", "--replace"], &write[1..]].concat();
        let talk = cli::fails(FAILED, &again)?;
        ensure!(talk.contains("read them anew"), "{talk}");

        // Once more, and over what is there: a node is not heard, and its slices wait for it.
        let reports = read_reports(demo)?;
        let heard: Vec<&str> = reports[1..].iter().map(String::as_str).collect();
        let write = [&["write", "--replace", "--metadata", &metadata], &heard[..]].concat();
        let some = recover(&write)?;
        ensure!(some["recoveries"] == 2, "{some}");
        demo.start_again()?;
        Host::open(demo, "demo")?.verify(&mut ledger)?;
        demo.wait_until_whole("demo", SYNC_PATIENCE)?;
        Ok(())
    });
}

/// Machines with an etcd of their own, of which nothing is left. They start with an empty one, and wait
/// until it is filled.
#[test]
fn nodes_wait_with_an_empty_etcd_until_it_is_filled() {
    on_machines([Role::Node; 3], |machines| {
        machines.wait_for_nodes(0, 3)?;
        let api = machines.api(0);
        let create = ["volume", "create", "data", "5GiB", "--policy", "mirror3"];
        let _: Value = cli::json(&api, &create)?;
        let list: Value = cli::json(&api, &["volume", "list"])?;
        let target = list["volumes"][0]["target"].as_str();
        let target = target.context("the list says which target a volume is")?;
        let host = Host::open_at(target, machines.portals(), |_| ())?;
        let load = host.load(host.ledger(1), LoadConfig::default());
        load.wait_for(300)?;
        for place in 0..3 {
            machines.switch_off(place)?;
        }
        let (_, mut ledger) = load.abandon()?;
        drop(host);
        let folder = tempfile::tempdir()?;
        let mut reports = Vec::new();
        for place in 0..3 {
            let device = machines.device(place).display().to_string();
            let path = folder.path().join(format!("{place}.json"));
            fs::write(&path, cli::done(&["recover", "read", &device])?)?;
            reports.push(path.display().to_string());
            // An empty one says that a new member is to begin here.
            let etcd = machines.directory(place).join("etcd");
            fs::remove_dir_all(&etcd)?;
            fs::create_dir(&etcd)?;
        }
        for place in 0..3 {
            machines.start(place)?;
        }
        let urls = [0, 1, 2].map(|place| machines.etcd_url(place)).join(",");
        let reports: Vec<&str> = reports.iter().map(String::as_str).collect();
        let written = recover(&[&["write", "--metadata", &urls], &reports[..]].concat())?;
        ensure!(slices(&written, "certain") == Some(2), "{written}");
        machines.wait_until_whole(0, "data", 3)?;
        let host = Host::open_at(target, machines.portals(), |_| ())?;
        host.verify(&mut ledger)
    });
}
