//! The contract of the command line that is about processes: who starts, adopts and stops whom.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use holdfast_e2e::cli::{FAILED, USAGE, fails, json, run};
use holdfast_e2e::demo::{READY_WITHIN, TOLD_WITHIN};
use holdfast_e2e::host::Host;
use holdfast_e2e::process::wait_until;
use holdfast_e2e::{Demo, DemoOptions, binary, scenario};
use holdfast_lab::verify::{Ledger, LoadConfig};
use serde_json::Value;

/// Blocks of 512 bytes.
const BLOCKS_PER_GIB: u64 = (1 << 30) / 512;

/// What a host has written that is gone again.
fn written(demo: &Demo) -> Result<Ledger> {
    let host = Host::open(demo, "demo")?;
    let load = host.load(host.ledger(1), LoadConfig::default());
    load.wait_for(500)?;
    let (_, ledger) = load.stop()?;
    Ok(ledger)
}

#[test]
fn a_clean_stop_changes_no_epoch_and_moves_no_data() {
    scenario(DemoOptions::default(), |demo| {
        let mut ledger = written(demo)?;
        let before = demo.volume("demo")?;
        // A node that was started by hand is stopped with the others.
        let node = demo.node_names().remove(0);
        demo.kill(&node)?;
        demo.start_node(&node)?;
        // The record may not have noticed its death: it leads anew, in a new epoch, in a moment.
        demo.wait_until_whole("demo", READY_WITHIN)?;
        wait_until("the volume is served", READY_WITHIN, || {
            Ok(demo.volume("demo")?.health == "healthy")
        })?;
        let settled = demo.volume("demo")?;
        demo.stop()?;
        let took = demo.start_again()?;
        ensure!(took <= READY_WITHIN, "serving took {took:?}");
        let after = demo.volume("demo")?;
        ensure!(
            after.epochs() == settled.epochs(),
            "{settled:?} became {after:?}"
        );
        ensure!(after.resync == settled.resync, "data was moved: {after:?}");
        ensure!(
            after.slices.len() == before.slices.len(),
            "slices are for ever"
        );
        Host::open(demo, "demo")?.verify(&mut ledger)
    });
}

#[test]
fn nodes_outlive_the_parent_and_are_adopted() {
    scenario(DemoOptions::default(), |demo| {
        let host = Host::open(demo, "demo")?;
        let load = host.load(host.ledger(1), LoadConfig::default());
        load.wait_for(200)?;
        let pids: Vec<u32> = demo.file().nodes.iter().map(|node| node.pid).collect();
        demo.kill_parent()?;
        load.wait_for(500)?;
        let took = demo.start_again()?;
        ensure!(took <= READY_WITHIN, "serving took {took:?}");
        let adopted: Vec<u32> = demo.file().nodes.iter().map(|node| node.pid).collect();
        ensure!(adopted == pids, "{pids:?} were not adopted: {adopted:?}");
        load.wait_for(200)?;
        let (_, mut ledger) = load.stop()?;
        host.verify(&mut ledger)?;
        drop(host);
        // What was adopted is stopped too.
        demo.interrupt()
    });
}

/// A node that does not stop is killed when whoever waits for it has no patience any more. Nothing is lost.
#[test]
fn a_second_signal_ends_what_does_not_stop() {
    scenario(DemoOptions::default(), |demo| {
        let mut ledger = written(demo)?;
        let node = demo.node_names().remove(0);
        let said = loop {
            demo.freeze(&node)?;
            match demo.interrupt_twice(&node)? {
                Some(said) => break said,
                None => demo.start_again()?,
            };
        };
        ensure!(said.contains(&format!("killed {node},")), "it said {said}");
        let took = demo.start_again()?;
        ensure!(took <= READY_WITHIN, "serving took {took:?}");
        Host::open(demo, "demo")?.verify(&mut ledger)
    });
}

/// Its device is not there. The others serve, whatever becomes of that one, and it is said which it is.
#[test]
fn a_node_that_is_waited_for_may_end_and_be_started_again() {
    scenario(DemoOptions::default(), |demo| {
        let mut ledger = written(demo)?;
        let node = demo.node_names().remove(0);
        let command = demo.file().node(&node)?.command.clone();
        demo.stop()?;
        let device = demo.path(format!("{node}/device"));
        let away = demo.scratch("device-away");
        fs::rename(&device, &away)?;
        let before = fs::read_to_string(demo.scratch("demo.log"))?.len();
        demo.begin_again()?;
        let log = demo.scratch("demo.log");
        let says = |what: &str| {
            wait_until(&format!("the demo says: {what}"), READY_WITHIN * 6, || {
                Ok(fs::read_to_string(&log)?[before..].contains(what))
            })
        };
        says(&format!("2 of 3 nodes are up; {node} is not"))?;
        let pid = fs::read_to_string(demo.path(format!("{node}/node.pid")))?;
        let killed = Command::new("kill").args(["-KILL", pid.trim()]).status()?;
        ensure!(killed.success(), "it runs");
        says(&format!("node {node} was ended by signal 9"))?;
        fs::rename(&away, &device)?;
        let mut child = Command::new(&command[0])
            .args(&command[1..])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .process_group(0)
            .spawn()?;
        demo.wait_until_ready()?;
        Host::open(demo, "demo")?.verify(&mut ledger)?;
        demo.stop()?;
        child.wait()?;
        Ok(())
    });
}

#[test]
fn a_node_may_be_started_at_once_after_its_death() {
    scenario(DemoOptions::default(), |demo| {
        for node in demo.node_names() {
            demo.kill(&node)?;
            demo.start_node(&node)?;
        }
        demo.wait_until_whole("demo", READY_WITHIN)?;
        Ok(())
    });
}

#[test]
fn mistakes_are_told() {
    scenario(DemoOptions::default(), |demo| {
        let mut arguments = demo.arguments();
        // A second user of the directory is told who holds it.
        let parent = demo.parent_pid()?.to_string();
        let said = fails(FAILED, &text(&arguments))?;
        ensure!(
            said.contains(&parent),
            "it does not name process {parent}: {said}"
        );
        // Another directory, the same ports.
        let other = demo.scratch("other");
        arguments[2] = other.display().to_string();
        let said = fails(FAILED, &text(&arguments))?;
        ensure!(
            said.contains("-port"),
            "it does not name the option: {said}"
        );
        let is_named = said.contains(&parent)
            || demo
                .file()
                .nodes
                .iter()
                .any(|node| said.contains(&node.pid.to_string()));
        ensure!(is_named, "it does not name the process: {said}");
        for wrong in [
            &["demo", "--nodes", "0"][..],
            &["demo", "--nodes", "8"],
            &["demo", "--volume", "a:1GiB"],
            &["demo", "--volume", "a:1GiB:raid7"],
            &["demo", "--no-such-option"],
            &["no-such-command"],
            &[],
        ] {
            fails(USAGE, wrong).with_context(|| format!("{wrong:?}"))?;
        }
        // The demo is none the worse for it.
        ensure!(demo.volume("demo")?.is_whole(2), "the demo has suffered");
        let status: Value = json(&demo.file().api, &["status"])?;
        ensure!(status.is_object(), "status is one value: {status}");
        change_volumes(demo)
    });
}

/// What cannot be done to volumes, and what can.
fn change_volumes(demo: &Demo) -> Result<()> {
    let api = demo.file().api.clone();
    let with_api = |arguments: &[&str]| -> Vec<String> {
        let all = [&["--api", &api], arguments].concat();
        all.into_iter().map(str::to_owned).collect()
    };
    for (arguments, code) in [
        (&["volume", "show", "none"][..], FAILED),
        (
            &["volume", "create", "four", "1GiB", "--policy", "mirror4"],
            FAILED,
        ),
        (&["volume", "delete", "none", "--yes"], FAILED),
    ] {
        let said = fails(code, &text(&with_api(arguments)));
        said.with_context(|| format!("{arguments:?}"))?;
    }
    Ok(())
}

#[test]
fn a_volume_named_again_is_nothing_new_and_a_different_one_is_an_error() {
    scenario(DemoOptions::default(), |demo| {
        demo.stop()?;
        let mut arguments = demo.arguments();
        let last = arguments.len() - 1;
        for different in ["demo:8GiB:mirror2", "demo:4GiB:mirror3"] {
            arguments[last] = different.to_owned();
            let said = fails(FAILED, &text(&arguments))?;
            ensure!(said.contains("demo"), "it does not name the volume: {said}");
        }
        demo.start_again()?;
        ensure!(demo.volume("demo")?.is_whole(2), "the demo has suffered");
        Ok(())
    });
}

/// A volume that hosts use is not deleted by mistake; the file says what volumes there are.
#[test]
fn a_volume_in_use_is_deleted_by_force_only() {
    scenario(DemoOptions::default(), |demo| {
        let api = demo.file().api.clone();
        let _: Value = json(&api, &["volume", "create", "other", "1GiB"])?;
        wait_until("the file names the new volume", TOLD_WITHIN, || {
            demo.refresh()?;
            Ok(demo.file().volumes.len() == 2)
        })?;
        let host = Host::open(demo, "other")?;
        wait_until("all sessions are counted", TOLD_WITHIN, || {
            let list: Value = json(&api, &["volume", "list"])?;
            let volumes = list["volumes"].as_array().context("there are volumes")?;
            let mut sessions = volumes.iter().map(|it| (&it["name"], &it["sessions"]));
            Ok(sessions.any(|(name, count)| name == "other" && count == 3))
        })?;
        let logged_in = |more: &[&str]| -> Result<Vec<Value>> {
            let list: Value = json(&api, &[&["initiator", "sessions"], more].concat())?;
            let all = list["sessions"].as_array().context("there are sessions")?;
            Ok(all.clone())
        };
        let all = logged_in(&[])?;
        ensure!(all.len() == 3, "one on each path: {all:?}");
        let who = all[0]["initiator"].as_str().context("it has a name")?;
        let paths = logged_in(&[who])?;
        let are_paths = paths.len() == 3 && paths.iter().all(|it| it["volume"] == "other");
        ensure!(are_paths, "of one the same, by volumes: {paths:?}");
        let delete = |more: &[&str]| -> Vec<String> {
            let all = [&["--api", &api, "volume", "delete"], more].concat();
            all.into_iter().map(str::to_owned).collect()
        };
        let said = fails(FAILED, &text(&delete(&["other", "--yes"])))?;
        ensure!(said.contains("3 sessions"), "one on each path: {said}");
        let how = "holdfast volume delete other --force";
        ensure!(said.contains(how), "it does not say how: {said}");
        host.run(host.disk().write(0, vec![7; 512].into(), 0))?;
        // Nobody uses the other one, and who has just gone is waited for.
        drop(host);
        let _: Value = json(&api, &["volume", "delete", "other", "--yes"])?;
        let host = Host::open_with(demo, "demo", |config| {
            config.patience = TOLD_WITHIN;
        })?;
        let _: Value = json(&api, &["volume", "delete", "demo", "--yes", "--force"])?;
        wait_until("it takes no writes any more", TOLD_WITHIN, || {
            let written = host.run(host.disk().write(0, vec![7; 512].into(), 0));
            Ok(written.is_err())
        })?;
        wait_until("the file names no volume", TOLD_WITHIN, || {
            demo.refresh()?;
            Ok(demo.file().volumes.is_empty())
        })
        .map(|_| ())
    });
}

/// Hosts that use a volume notice nothing of its growth; who looks anew has more.
#[test]
fn a_volume_grows_while_it_is_used() {
    scenario(DemoOptions::default(), |demo| {
        let host = Host::open(demo, "demo")?;
        let load = host.load(host.ledger(1), LoadConfig::default());
        load.wait_for(200)?;
        let api = demo.file().api.clone();
        let grown: Value = json(&api, &["volume", "grow", "demo", "9GiB"])?;
        ensure!(grown["bytes"] == 9_u64 << 30, "it said {grown}");
        ensure!(grown["health"] != "unavailable", "it said {grown}");
        let again = run(&["--api", &api, "volume", "grow", "demo", "9GiB"])?;
        let said = String::from_utf8_lossy(&again.stderr);
        ensure!(again.status.success(), "it said {said}");
        ensure!(said.contains("nothing was changed"), "it said {said}");
        // A node that is back is told in the file, and what the volumes are by then.
        let node = demo.node_names().remove(2);
        demo.kill(&node)?;
        demo.start_node(&node)?;
        demo.wait_until_whole("demo", READY_WITHIN)?;
        wait_until("the file says how large it is", TOLD_WITHIN, || {
            demo.refresh()?;
            Ok(demo.file().volume("demo")?.bytes == 9 << 30)
        })?;
        let later = Host::open(demo, "demo")?;
        let capacity = later.disk().capacity();
        ensure!(capacity.bytes() == 9 << 30, "it has {capacity:?}");
        // In the third slice, which there was not before; through each path.
        for path in 0..3 {
            let (first, data) = (8 * BLOCKS_PER_GIB + path, vec![path as u8 + 1; 512]);
            later.run(
                later
                    .disk()
                    .write(first, data.clone().into(), path as usize),
            )?;
            let read = later.disk().read(first, 1, path as usize + 1);
            ensure!(later.run(read)?.data_in.concat() == data, "block {first}");
        }
        load.wait_for(200)?;
        let (_, mut ledger) = load.stop()?;
        host.verify(&mut ledger)?;
        let smaller = fails(FAILED, &["--api", &api, "volume", "grow", "demo", "8GiB"])?;
        ensure!(smaller.contains("9GiB"), "it said {smaller}");
        ensure!(demo.volume("demo")?.slices.len() == 3, "three slices");
        Ok(())
    });
}

/// No two copies are on one machine: one may die with all its nodes.
#[test]
fn a_machine_dies_with_all_its_nodes() {
    let options = DemoOptions {
        nodes: 4,
        nodes_per_machine: 2,
        volumes: vec!["demo:24GiB:mirror2"],
        ..DemoOptions::default()
    };
    scenario(options, |demo| {
        let nodes = demo.file().nodes.clone();
        let domains: Vec<_> = nodes.iter().map(|it| it.failure_domain.clone()).collect();
        let [one, two] = ["m1", "m2"].map(|it| Some(it.to_owned()));
        ensure!(
            domains == [one.clone(), one, two.clone(), two],
            "{domains:?}"
        );
        demo.wait_until_whole("demo", READY_WITHIN)?;
        let volume = demo.volume("demo")?;
        for slice in &volume.slices {
            let machines = slice.in_sync.iter().map(|name| {
                let node = demo.file().node(name)?;
                Ok(node.failure_domain.clone())
            });
            let machines: BTreeSet<_> = machines.collect::<Result<_>>()?;
            ensure!(machines.len() == 2, "a machine has both copies: {slice:?}");
        }
        // Each leads as much: the nodes of a machine, too.
        for node in &nodes {
            let primaries = volume.primaries();
            let leads = primaries.iter().filter(|it| **it == node.name).count();
            ensure!((1..=2).contains(&leads), "{} leads {leads} of 6", node.name);
        }
        let host = Host::open(demo, "demo")?;
        let load = host.load(host.ledger(1), LoadConfig::default());
        load.wait_for(500)?;
        for node in &nodes[..2] {
            demo.kill(&node.name)?;
        }
        load.wait_for(500)?;
        let (_, mut ledger) = load.stop()?;
        host.verify(&mut ledger)?;
        for node in &nodes[..2] {
            demo.start_node(&node.name)?;
        }
        demo.wait_until_whole("demo", READY_WITHIN)?;
        Ok(())
    });
}

#[test]
fn fresh_erases_only_what_is_ours() {
    scenario(DemoOptions::default(), |demo| {
        let foreign = demo.scratch("foreign");
        fs::create_dir(&foreign)?;
        fs::write(foreign.join("precious"), "data")?;
        let said = fails(
            FAILED,
            &["demo", "--fresh", "--dir", &foreign.display().to_string()],
        )?;
        ensure!(!said.is_empty(), "nothing was said");
        ensure!(foreign.join("precious").exists(), "it was erased");
        Ok(())
    });
}

#[test]
fn help_is_on_stdout_and_errors_are_not() -> Result<()> {
    let output = Command::new(binary::holdfast()?).arg("--help").output()?;
    ensure!(output.status.success() && output.stderr.is_empty());
    ensure!(!output.stdout.is_empty());
    let output = Command::new(binary::holdfast()?)
        .arg("--nonsense")
        .output()?;
    ensure!(output.status.code() == Some(USAGE));
    ensure!(output.stdout.is_empty() && !output.stderr.is_empty());
    Ok(())
}

fn text(arguments: &[String]) -> Vec<&str> {
    arguments.iter().map(String::as_str).collect()
}
