//! A demo that keeps its metadata in etcd: the same contract, and an etcd that dies or stands still under
//! load. Hosts notice nothing, because nothing of theirs waits for etcd.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use holdfast_e2e::cli::{self, FAILED, fails, json};
use holdfast_e2e::demo::READY_WITHIN;
use holdfast_e2e::host::Host;
use holdfast_e2e::process::wait_until;
use holdfast_e2e::recover::{read_reports, recover};
use holdfast_e2e::{Demo, DemoOptions, scenario};
use holdfast_lab::verify::LoadConfig;
use serde_json::Value;

/// The longest stall that a node's death may cause.
const STALL_MAX: Duration = Duration::from_secs(3);
/// The longest time without a completed command that a busy machine causes by itself: what may be seen
/// while etcd is away.
const ORDINARY_STALL_MAX: Duration = Duration::from_secs(1);
/// How long etcd is away.
const AWAY: Duration = Duration::from_secs(10);
const SYNC_PATIENCE: Duration = Duration::from_secs(60);
/// etcd starts in a second; a busy machine takes longer, beyond what serves without it.
const READY_WITH_ETCD: Duration = Duration::from_secs(READY_WITHIN.as_secs() + 10);

/// Who may ask what is in the metadata as well, which is taken away or brought back here: nobody has to show who he is.
fn on_etcd() -> DemoOptions {
    DemoOptions {
        etcd: true,
        secure: false,
        ..DemoOptions::default()
    }
}

fn load_config() -> LoadConfig {
    LoadConfig {
        depth: 12,
        ..LoadConfig::default()
    }
}

#[test]
fn the_contract_is_the_same() {
    scenario(on_etcd(), |demo| {
        let host = Host::open(demo, "demo")?;
        let load = host.load(host.ledger(1), load_config());
        load.wait_for(200)?;
        // The parent's death is nobody else's, and the next parent adopts what it finds.
        let (etcd, nodes) = (demo.etcd_pid()?, pids(demo));
        demo.kill_parent()?;
        load.wait_for(200)?;
        ensure!(demo.runs(etcd), "etcd outlives the parent");
        let took = demo.start_again()?;
        ensure!(took <= READY_WITH_ETCD, "serving took {took:?}");
        ensure!(pids(demo) == nodes, "nodes were not adopted");
        ensure!(demo.etcd_pid()? == etcd, "etcd was not adopted");
        load.wait_for(200)?;
        let (_, mut ledger) = load.stop()?;
        drop(host);
        demo.stop()?;
        ensure!(!demo.runs(etcd), "etcd ends with the demo");
        // What a demo was first told is kept.
        let mut arguments = demo.arguments();
        let kind = arguments.iter().position(|word| word == "etcd");
        arguments[kind.expect("the demo is on etcd")] = "embedded".to_owned();
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let said = fails(FAILED, &arguments)?;
        ensure!(
            said.contains("in the store etcd") && said.contains("--fresh"),
            "it said {said}"
        );
        demo.start_again()?;
        Host::open(demo, "demo")?.verify(&mut ledger)?;
        let made: Value = json(
            &demo.file().api,
            &["volume", "create", "second", "1GiB", "--policy", "none"],
        )?;
        ensure!(made["name"] == "second", "it made {made}");
        demo.stop()
    });
}

fn pids(demo: &Demo) -> Vec<u32> {
    demo.file().nodes.iter().map(|node| node.pid).collect()
}

#[test]
fn a_node_dies_and_everything_dies() {
    scenario(on_etcd(), |demo| {
        let host = Host::open(demo, "demo")?;
        let load = host.load(host.ledger(1), load_config());
        for node in demo.node_names() {
            load.wait_for(200)?;
            load.restart_stalls();
            demo.kill(&node)?;
            sleep(Duration::from_secs(4));
            let report = load.report();
            ensure!(
                report.longest_stall <= STALL_MAX,
                "the death of {node} stalled the load: {report}"
            );
            demo.start_node(&node)?;
            demo.wait_until_whole("demo", SYNC_PATIENCE)?;
            load.host().wait_for_all_paths()?;
        }
        demo.kill_everything()?;
        let (_, mut ledger) = load.abandon()?;
        drop(host);
        let took = demo.start_again()?;
        ensure!(took <= READY_WITH_ETCD, "serving took {took:?}");
        Host::open(demo, "demo")?.verify(&mut ledger)?;
        demo.wait_until_whole("demo", SYNC_PATIENCE)?;
        Ok(())
    });
}

#[test]
fn hosts_notice_nothing_of_an_etcd_that_is_away() {
    scenario(on_etcd(), |demo| {
        let host = Host::open(demo, "demo")?;
        let load = host.load(host.ledger(1), load_config());
        load.wait_for(500)?;
        let epochs = demo.volume("demo")?.epochs();
        // Nodes look every three seconds who the others are, and these have just registered.
        let own = demo.file().node("n1")?.api.clone();
        let _: Value = json(&own, &["status"])?;
        // It stands still, as on a disk that does not answer.
        load.restart_stalls();
        demo.freeze_etcd()?;
        load.run_for(AWAY)?;
        wait_until("n1 says that the metadata does not answer", AWAY, || {
            let said = cli::run(&["--api", &own, "status"])?;
            let said = String::from_utf8_lossy(&said.stdout).into_owned();
            let mut lines = said.lines();
            Ok(lines.any(|line| line.starts_with("n1 (asked)") && line.contains("not reached")))
        })?;
        let said = cli::run(&["--api", &own, "--json", "status"])?;
        let document: Value = serde_json::from_slice(&said.stdout)?;
        let nodes = document["known"]["nodes"].as_array();
        let is_told = nodes.is_some_and(|nodes| nodes.len() == 3) && document["error"].is_object();
        ensure!(is_told && !said.status.success(), "{document}");
        let said = cli::run(&["--api", &own, "status", "--explain"])?;
        let said = String::from_utf8_lossy(&said.stdout).into_owned();
        ensure!(said.contains("n1 (asked)"), "{said}");
        demo.thaw_etcd()?;
        load.run_for(Duration::from_secs(3))?;
        nothing_happened(demo, &load.report(), &epochs)?;
        // It dies over and over.
        load.restart_stalls();
        let begun = Instant::now();
        while begun.elapsed() < AWAY {
            let pid = demo.etcd_pid()?;
            demo.kill_etcd()?;
            demo.wait_for_another_etcd(pid)?;
        }
        load.run_for(Duration::from_secs(3))?;
        nothing_happened(demo, &load.report(), &epochs)?;
        let (_, mut ledger) = load.stop()?;
        host.verify(&mut ledger)?;
        // And what needs it goes on.
        demo.wait_until_whole("demo", SYNC_PATIENCE)?;
        let grown: Value = json(&demo.file().api, &["volume", "grow", "demo", "5GiB"])?;
        ensure!(grown["bytes"] == 5_u64 << 30, "it grew to {grown}");
        Ok(())
    });
}

/// An old backup of etcd is brought back while the nodes run, and the newest state later: hosts notice
/// nothing, nothing is changed by what the backup says, and it is told.
#[test]
fn a_backup_of_etcd_that_is_brought_back_is_not_followed() {
    scenario(on_etcd(), |demo| {
        let host = Host::open(demo, "demo")?;
        let backup = demo.scratch("backup");
        let newest = demo.scratch("newest");
        demo.change_etcd(|data| copy_directory(data, &backup))?;
        demo.wait_until_whole("demo", SYNC_PATIENCE)?;
        let grow = |demo: &Demo, size| json(demo.api(), &["volume", "grow", "demo", size]);
        let grown: Value = grow(demo, "5GiB")?;
        ensure!(grown["bytes"] == 5_u64 << 30, "it grew to {grown}");
        let load = host.load(host.ledger(1), load_config());
        load.wait_for(500)?;
        let epochs = demo.volume("demo")?.epochs();
        load.restart_stalls();
        demo.change_etcd(|data| {
            fs::rename(data, &newest)?;
            Ok(fs::rename(&backup, data)?)
        })?;
        wait_until_told(demo.api(), "does not believe the metadata")?;
        let said = fails(
            FAILED,
            &["--api", demo.api(), "volume", "grow", "demo", "7GiB"],
        )?;
        ensure!(
            said.contains("does not believe the metadata: it is at revision"),
            "it said {said}"
        );
        // The node that is asked says what it makes of it, and lets nothing be changed.
        let own = demo.file().node("n1")?.api.clone();
        for order in [
            &["volume", "grow", "demo", "7GiB"][..],
            &["node", "maintenance", "on", "n2"],
            &["settings", "set", "--rebalance", "off"],
            &["device", "drain", "n2", "0"],
            &["device", "drain", "n1", "0"],
        ] {
            let said = fails(FAILED, &[&["--api", &own], order].concat())?;
            let is_told = said.contains("n1 does not believe the metadata: it is at revision");
            ensure!(
                is_told && said.contains("holdfast recover"),
                "{order:?}: {said}"
            );
        }
        load.run_for(AWAY)?;
        demo.change_etcd(|data| {
            fs::remove_dir_all(data)?;
            Ok(fs::rename(&newest, data)?)
        })?;
        load.run_for(Duration::from_secs(3))?;
        nothing_happened(demo, &load.report(), &epochs)?;
        demo.wait_until_whole("demo", SYNC_PATIENCE)?;
        let grown: Value = grow(demo, "6GiB")?;
        ensure!(grown["bytes"] == 6_u64 << 30, "it grew to {grown}");
        let (_, mut ledger) = load.stop()?;
        host.verify(&mut ledger)
    });
}

/// Where the cluster's keys are in etcd.
fn cluster_prefix(demo: &Demo) -> Result<String> {
    let said = demo.etcdctl(&["get", "/holdfast/", "--prefix", "--keys-only"])?;
    let mut keys = said.lines();
    let prefix = keys.find_map(|key| key.strip_suffix("/holdfast/cluster"));
    Ok(prefix.context("etcd has a cluster")?.to_owned())
}

/// Keys, each with what it holds.
fn documents(demo: &Demo, prefix: &str) -> Result<Vec<(String, String)>> {
    let said = demo.etcdctl(&["get", prefix, "--prefix"])?;
    let lines: Vec<&str> = said.lines().collect();
    let (pairs, rest) = lines.as_chunks::<2>();
    ensure!(!pairs.is_empty() && rest.is_empty(), "etcd has {said}");
    let pairs = pairs.iter();
    Ok(pairs
        .map(|[key, value]| ((*key).to_owned(), (*value).to_owned()))
        .collect())
}

fn wait_until_told(api: &str, what: &str) -> Result<()> {
    wait_until(&format!("{what} is told"), SYNC_PATIENCE, || {
        let said = cli::run(&["--api", api, "status", "--explain"])?;
        let all = [said.stdout, said.stderr].concat();
        Ok(String::from_utf8_lossy(&all).contains(what))
    })
    .map(drop)
}

/// Somebody deletes keys under load: hosts notice nothing, no data goes, and it is told. What is put back is followed; what
/// is not can be made again from the devices.
#[test]
fn keys_that_somebody_deletes_take_no_data_with_them() {
    scenario(on_etcd(), |demo| {
        let host = Host::open(demo, "demo")?;
        let load = host.load(host.ledger(1), load_config());
        load.wait_for(500)?;
        demo.wait_until_whole("demo", SYNC_PATIENCE)?;
        let epochs = demo.volume("demo")?.epochs();
        load.restart_stalls();
        let cluster = cluster_prefix(demo)?;
        for kind in ["slices", "volumes"] {
            let prefix = format!("{cluster}/holdfast/{kind}/");
            let before = documents(demo, &prefix)?;
            demo.etcdctl(&["del", &prefix, "--prefix"])?;
            wait_until_told(demo.api(), "does not believe the metadata")?;
            load.run_for(Duration::from_secs(3))?;
            let said = fails(
                FAILED,
                &["--api", demo.api(), "volume", "grow", "demo", "7GiB"],
            )?;
            ensure!(said.contains("hint"), "it said {said}");
            for (key, value) in &before {
                demo.etcdctl(&["put", "--", key, value])?;
            }
            nothing_happened(demo, &load.report(), &epochs)?;
            demo.wait_until_whole("demo", SYNC_PATIENCE)?;
        }
        demo.etcdctl(&["del", &cluster, "--prefix"])?;
        // A process without a node knows nothing of what nodes hold.
        wait_until_told(&demo.file().nodes[0].api, "holdfast recover")?;
        load.run_for(Duration::from_secs(3))?;
        let report = load.report();
        ensure!(report.longest_stall <= ORDINARY_STALL_MAX, "{report}");
        let (_, mut ledger) = load.stop()?;
        host.verify(&mut ledger)?;
        drop(host);
        // etcd stays, and what is left in it.
        demo.kill_parent()?;
        for node in demo.node_names() {
            demo.kill(&node)?;
        }
        fs::remove_file(demo.path("demo.json"))?;
        let reports = read_reports(demo)?;
        let reports: Vec<&str> = reports.iter().map(String::as_str).collect();
        let plan = recover(&[&["plan"], &reports[..]].concat())?;
        let slices = &plan["volumes"][0]["slices"];
        ensure!(slices["certain"] == 1, "{plan}");
        let url = format!("http://{}", demo.etcd_address());
        let write = ["write", "--replace", "--metadata", &url];
        recover(&[&write, &reports[..]].concat())?;
        for _ in 0..2 {
            demo.start_again()?;
            Host::open(demo, "demo")?.verify(&mut ledger)?;
            demo.wait_until_whole("demo", SYNC_PATIENCE)?;
            demo.stop()?;
        }
        Ok(())
    });
}

/// A node is sent to a backup of etcd, while the others go on with etcd itself: it leads nothing by what the
/// backup says, whoever dies. When it is sent back its copies count for nothing, and an operator is told how they come to count again.
#[test]
fn a_node_that_is_sent_to_a_copy_of_etcd_leads_nothing_by_it() {
    let options = DemoOptions {
        volumes: vec!["demo:4GiB:mirror3"],
        ..on_etcd()
    };
    scenario(options, |demo| {
        let host = Host::open(demo, "demo")?;
        let load = host.load(host.ledger(1), load_config());
        load.wait_for(500)?;
        demo.wait_until_whole("demo", SYNC_PATIENCE)?;
        let primary = demo.primary("demo")?;
        let mut others = demo.node_names().into_iter();
        let node = others
            .find(|it| *it != primary)
            .context("there are three")?;
        let copy = demo.copy_etcd()?;
        demo.kill(&node)?;
        demo.send_to(&node, &copy, true)?;
        demo.start_node(&node)?;
        let own = demo.file().node(&node)?.api.clone();
        wait_until_told(&own, "follows another copy of it")?;
        load.wait_for(200)?;
        // In the copy it is in sync, and the one that leads is gone; of the others one alone is too few.
        demo.kill(&primary)?;
        sleep(Duration::from_secs(4));
        let leads = demo.primary("demo")?;
        ensure!(leads != node, "{leads} leads");
        demo.start_node(&primary)?;
        load.wait_for(200)?;
        // It is sent back.
        demo.kill(&node)?;
        demo.send_to(&node, &copy, false)?;
        demo.start_node(&node)?;
        wait_until_told(&own, "has another bookmark of this node")?;
        wait_until_told(&own, "`take-over`")?;
        demo.kill(&node)?;
        drop(copy);
        fs::write(demo.path(&node).join("take-over"), "")?;
        demo.start_node(&node)?;
        demo.wait_until_whole("demo", SYNC_PATIENCE)?;
        let (_, mut ledger) = load.stop()?;
        host.verify(&mut ledger)
    });
}

fn copy_directory(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let to = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_directory(&entry.path(), &to)?;
        } else {
            fs::copy(entry.path(), to)?;
        }
    }
    Ok(())
}

/// No stall beyond the ordinary, and no slice has changed hands.
fn nothing_happened(
    demo: &Demo,
    report: &holdfast_lab::verify::LoadReport,
    epochs: &BTreeMap<u64, u64>,
) -> Result<()> {
    ensure!(
        report.longest_stall <= ORDINARY_STALL_MAX,
        "the absence of etcd stalled the load: {report}"
    );
    let begun = Instant::now();
    // The question goes to etcd, which is only just back.
    let now = loop {
        match demo.volume("demo") {
            Ok(volume) => break volume.epochs(),
            Err(error) if begun.elapsed() > SYNC_PATIENCE => return Err(error),
            Err(_) => sleep(Duration::from_millis(100)),
        }
    };
    ensure!(now == *epochs, "slices changed hands: {epochs:?}, {now:?}");
    Ok(())
}
