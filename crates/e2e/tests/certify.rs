//! `holdfast certify`: a volume of three nodes is ready for clusters of hosts, with a node that dies in the middle; a target
//! that lacks something is told so; a unit in use is left alone; and whoever interrupts a run leaves nothing behind.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use holdfast_e2e::image::{qemu_io, url};
use holdfast_e2e::process::wait_until;
use holdfast_e2e::{Demo, DemoOptions, binary, cli, scenario};
use rustix::process::{Pid, Signal, kill_process};
use serde::Deserialize;

use crate::support::{Medium, TARGET};

/// Longest that a run may take; `timeout` ends it then.
const PATIENCE_SECONDS: &str = "540";
/// How long the run may take until it restarts something, and a node until it is in sync again.
const RESTART_PATIENCE: Duration = Duration::from_secs(300);
const SYNC_PATIENCE: Duration = Duration::from_secs(120);
/// Checks in the table.
const CHECKS: usize = 65;

/// What of the report's schema this is about.
#[derive(Debug, Deserialize)]
struct Document {
    schema: u32,
    interrupted: bool,
    left_behind: Option<String>,
    hosts: Vec<Host>,
    checks: Vec<Check>,
}

#[derive(Debug, Deserialize)]
struct Host {
    host: String,
    standing: String,
}

#[derive(Debug, Deserialize)]
struct Check {
    id: String,
    outcome: String,
    /// The rest of it.
    #[serde(flatten)]
    #[allow(dead_code, reason = "it is in the message of a failed test")]
    details: serde_json::Map<String, serde_json::Value>,
}

impl Document {
    fn read(path: &Path) -> Result<Self> {
        let text = fs::read_to_string(path).context("read the report")?;
        let document: Self = serde_json::from_str(&text).context("understand the report")?;
        ensure!(document.schema == 1, "the schema is the documented one");
        ensure!(document.checks.len() == CHECKS, "every check is told of");
        Ok(document)
    }

    fn outcome(&self, id: &str) -> &str {
        let found = self.checks.iter().find(|check| check.id == id);
        found.map_or("missing", |check| &check.outcome)
    }

    fn standing(&self, host: &str) -> &str {
        let found = self.hosts.iter().find(|it| it.host == host);
        found.map_or("missing", |it| &it.standing)
    }

    /// Checks that neither passed nor are among these.
    fn others(&self, except: &[&str]) -> Vec<&Check> {
        let others = self
            .checks
            .iter()
            .filter(|check| check.outcome != "passed" && !except.contains(&check.id.as_str()));
        others.collect()
    }
}

/// Starts a run; its talk can be read.
fn start(arguments: &[&str]) -> Result<Child> {
    let mut command = Command::new("timeout");
    command
        .args(["--foreground", PATIENCE_SECONDS])
        .arg(binary::holdfast()?)
        .arg("certify")
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    cli::equip(&mut command);
    command.spawn().context("start holdfast certify")
}

/// Waits for the end; the exit code, and the talk.
fn end(child: Child) -> Result<(Option<i32>, String)> {
    let output = child.wait_with_output()?;
    let talk = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(!talk.contains("panicked"), "a run does not panic: {talk}");
    Ok((output.status.code(), talk))
}

#[test]
fn a_volume_of_three_nodes_is_ready_for_clusters() {
    scenario(DemoOptions::default(), |demo| {
        let target = demo.file().volume("demo")?.target.clone();
        // Another unit of the same target, to be told apart.
        let other = [
            "volume", "create", "other", "1GiB", "--target", &target, "--lun", "1",
        ];
        let order = |arguments: &[&str]| {
            let all = [&["--api", demo.api()], arguments].concat();
            cli::done(&all)
        };
        order(&other)?;
        // It is for nobody but the hosts that are played.
        for letter in ["a", "b", "c"] {
            let host = format!("iqn.2026-11.io.holdfast:certify-{letter}");
            order(&["initiator", "add", &host])?;
            order(&["volume", "allow", "demo", &host])?;
        }
        let (begun, done) = (demo.scratch("begun"), demo.scratch("done"));
        let report = demo.scratch("report.json");
        let restart = format!(
            "touch {}; while [ ! -e {} ]; do sleep 0.1; done",
            begun.display(),
            done.display()
        );
        let api = demo.api().to_owned();
        let run = start(&[
            "demo",
            "--api",
            &api,
            "--restart",
            &restart,
            "--format",
            "json",
            "--output",
            &report.display().to_string(),
        ])?;
        let restarted = restart_primary(demo, &begun);
        fs::write(&done, "")?;
        let (code, talk) = end(run)?;
        restarted.with_context(|| talk.clone())?;
        let document = Document::read(&report).with_context(|| talk.clone())?;
        // How fast this machine is at the moment is not what this is about.
        let others = document.others(&["latency.read", "latency.write", "restart.pause"]);
        ensure!(others.is_empty(), "these did not pass: {others:#?}\n{talk}");
        let is_over = !document.interrupted && document.left_behind.is_none();
        ensure!(is_over, "{document:?}");
        for host in &document.hosts {
            ensure!(host.standing.starts_with("ready"), "{host:?}");
        }
        ensure!(code == Some(0), "it ended with {code:?}: {talk}");
        Ok(())
    });
}

/// When the run asks for it, the node that leads dies, and is started again.
fn restart_primary(demo: &mut Demo, begun: &Path) -> Result<()> {
    wait_until("the run restarts something", RESTART_PATIENCE, || {
        Ok(begun.exists())
    })?;
    let primary = demo.primary("demo")?;
    demo.kill(&primary)?;
    demo.start_node(&primary)?;
    demo.wait_until_whole("demo", SYNC_PATIENCE)?;
    Ok(())
}

#[test]
fn what_tgt_lacks_is_told() {
    let medium = Medium::new(64 << 20);
    let tgt = medium.serve();
    let report = medium.directory().join("report.json");
    let run = start(&[
        "--portal",
        &tgt.portal().to_string(),
        "--target",
        TARGET,
        "--lun",
        "1",
        "--format",
        "json",
        "--output",
        &report.display().to_string(),
    ]);
    let (code, talk) = end(run.unwrap()).unwrap();
    let document = Document::read(&report).unwrap();
    assert_eq!(code, Some(1), "{talk}");
    // tgt refuses PREEMPT AND ABORT (docs/hosts.md), and has one port here.
    assert_eq!(document.outcome("reservations.preempt-abort"), "failed");
    assert_eq!(document.standing("pacemaker-fence-scsi"), "not-ready");
    assert_eq!(document.outcome("multipath.coherence"), "skipped");
    assert_eq!(document.standing("linux-dm-multipath"), "undetermined");
    assert_eq!(document.outcome("multipath.states"), "not-applicable");
    for passed in [
        "identity.serial",
        "capacity.size",
        "reservations.register-ignore",
        "reservations.write-exclusive-registrants",
        "caching.synchronize",
    ] {
        let outcome = document.outcome(passed);
        assert_eq!(outcome, "passed", "{passed}: {:#?}", document.checks);
    }
}

#[test]
fn what_is_in_use_is_left_alone_and_nothing_is_left_behind() {
    scenario(DemoOptions::default(), |demo| {
        let file = demo.file();
        let volume = file.volume("demo")?;
        let url = url(file.nodes[0].portal, &volume.target, volume.lun);
        let api = demo.api().to_owned();
        interrupt(&api, "reservations.preempt ")?;
        // Nobody is registered any more, and all is zeros again: else this one would be refused.
        interrupt(&api, "identity.inquiry ")?;
        qemu_io(&url, "write -P 0x55 100M 4k")?;
        qemu_io(&url, "write -P 0x55 0 4k")?;
        let said = cli::fails(2, &["certify", "demo", "--api", &api])?;
        ensure!(said.contains("it holds data, in block 0"), "{said}");
        ensure!(said.contains("hint: "), "{said}");
        qemu_io(&url, "read -P 0x55 0 4k")?;
        qemu_io(&url, "read -P 0x55 100M 4k")?;
        let said = cli::fails(2, &["certify", "nothing", "--api", &api])?;
        ensure!(said.contains("there is no volume nothing"), "{said}");
        // A command line that makes no sense.
        cli::fails(cli::USAGE, &["certify"])?;
        cli::fails(cli::USAGE, &["certify", "demo", "--portal", "127.0.0.1:1"])?;
        Ok(())
    });
}

/// Starts a run, and interrupts it when it has told of a check.
fn interrupt(api: &str, check: &str) -> Result<()> {
    let mut run = start(&["demo", "--api", api])?;
    let talk = run.stderr.take().context("its talk")?;
    let mut lines = BufReader::new(talk).lines();
    let mut said = Vec::new();
    loop {
        let Some(line) = lines.next().transpose()? else {
            bail!("the run ended: {said:?}");
        };
        let is_it = line.contains(check);
        said.push(line);
        if is_it {
            break;
        }
    }
    // `timeout` hands it on.
    kill_process(Pid::from_child(&run), Signal::INT)?;
    said.extend(lines.map_while(Result::ok));
    let code = run.wait()?.code();
    ensure!(code == Some(2), "it ended with {code:?}: {said:#?}");
    Ok(())
}
