//! Machines that bring their own etcd: three short files make a cluster, which goes on without any one of
//! its machines.

use std::fs::File;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use holdfast_e2e::host::{Host, HostLoad};
use holdfast_e2e::machines::tls::on_machines_with_tls;
use holdfast_e2e::machines::{Machines, Role, on_machines};
use holdfast_e2e::process::wait_until;
use holdfast_e2e::{binary, cli};
use holdfast_lab::verify::LoadConfig;
use serde_json::Value;

/// The longest stall that a machine's death may cause.
const STALL_MAX: Duration = Duration::from_secs(3);
const PATIENCE: Duration = Duration::from_secs(60);

fn load_config() -> LoadConfig {
    LoadConfig {
        depth: 8,
        ..LoadConfig::default()
    }
}

/// A volume on all nodes, as a host has it.
fn volume(machines: &Machines, nodes: usize, policy: &str) -> Result<Host> {
    machines.wait_for_nodes(0, nodes)?;
    let api = machines.api(0);
    let create = ["volume", "create", "data", "1GiB", "--policy", policy];
    let _: Value = cli::json(&api, &create)?;
    let list: Value = cli::json(&api, &["volume", "list"])?;
    let target = list["volumes"][0]["target"].as_str();
    let target = target.context("the list says which target a volume is")?;
    Host::open_at(target, machines.portals(), |_| ())
}

/// Switches a machine off under load, and looks at what hosts see.
fn lose(machines: &mut Machines, load: &HostLoad, place: usize) -> Result<()> {
    load.restart_stalls();
    machines.switch_off(place)?;
    sleep(Duration::from_secs(6));
    let report = load.report();
    ensure!(
        report.longest_stall <= STALL_MAX,
        "the loss of machine {place} stalled the load: {report}"
    );
    load.wait_for(200)
}

/// Waits until so many of three members of etcd are told to answer, and the cluster to be so.
fn wait_for_members(machines: &Machines, up: u64, health: &str) -> Result<()> {
    let what = format!("{up} members are told to answer, and the cluster to be {health}");
    wait_until(&what, PATIENCE, || {
        let status: Value = cli::json(&machines.api(0), &["status"])?;
        let members = &status["metadata_members"];
        let alerts = status["alerts"].to_string();
        Ok(members["up"] == up
            && members["total"] == 3
            && status["health"] == health
            && alerts.contains("members of etcd answer") == (up < 3))
    })
    .map(|_| ())
}

#[test]
fn three_files_make_a_cluster_that_loses_a_machine_and_goes_on() {
    on_machines([Role::Node; 3], |machines| {
        let host = volume(machines, 3, "mirror3")?;
        let load = host.load(host.ledger(1), load_config());
        load.wait_for(300)?;
        // One of them takes etcd's leader with it.
        for lost in 0..3 {
            let other = (lost + 1) % 3;
            lose(machines, &load, lost)?;
            // What needs the metadata goes on as well.
            machines.wait_for_nodes(other, 2)?;
            let size = format!("{}GiB", lost + 2);
            let grow = ["volume", "grow", "data", &size];
            let grown: Value = cli::json(&machines.api(other), &grow)?;
            ensure!(
                grown["bytes"] == (lost as u64 + 2) << 30,
                "it grew to {grown}"
            );
            machines.start(lost)?;
            machines.wait_for_etcd(lost)?;
            machines.wait_for_nodes(lost, 3)?;
            machines.wait_until_whole(other, "data", 3)?;
            host.wait_for_all_paths()?;
        }
        // Its process alone dies: etcd, left behind, is adopted.
        let etcd = machines.etcd_pid(1)?;
        machines.kill(1)?;
        ensure!(machines.etcd_runs(1), "etcd outlives the node");
        machines.start(1)?;
        machines.wait_for_nodes(1, 3)?;
        ensure!(machines.etcd_pid(1)? == etcd, "etcd was not adopted");
        // And etcd alone: it is started again.
        machines.kill_etcd(1)?;
        wait_until("etcd is started again", PATIENCE, || {
            Ok(machines.etcd_runs(1) && machines.etcd_pid(1)? != etcd)
        })?;
        machines.wait_until_whole(1, "data", 3)?;
        load.wait_for(200)?;
        let (_, mut ledger) = load.stop()?;
        host.wait_for_all_paths()?;
        host.verify(&mut ledger)?;
        drop(host);
        // Everything is stopped cleanly, etcd with it, and comes back.
        for place in 0..3 {
            machines.stop(place)?;
        }
        for place in 0..3 {
            machines.start(place)?;
        }
        machines.wait_until_whole(0, "data", 3)?;
        Ok(())
    });
}

/// A backup of etcd is brought back on all machines, from before one of them was away. That one cannot know that it is old, and is told so in it
/// by the others. Nobody serves by it, and what was written meanwhile is there when the newest state is back.
#[test]
fn a_backup_from_before_a_machine_was_away_is_followed_by_none() {
    on_machines([Role::Node; 3], |machines| {
        let host = volume(machines, 3, "mirror3")?;
        let load = host.load(host.ledger(3), load_config());
        load.wait_for(300)?;
        machines.wait_until_whole(0, "data", 3)?;
        // Until all have marked that there is a volume.
        load.run_for(Duration::from_secs(3))?;
        let saved = machines.save_metadata(0)?;
        machines.switch_off(1)?;
        load.run_for(Duration::from_secs(4))?;
        let (_, mut ledger) = load.stop()?;
        machines.stop(0)?;
        machines.stop(2)?;
        machines.restore_metadata(&saved)?;
        for place in 0..3 {
            machines.start(place)?;
        }
        let told = [
            (0, "it is not the one that this node has followed"),
            (1, "it is not what n1 has followed"),
            (2, "it is not the one that this node has followed"),
        ];
        for (place, why) in told {
            wait_until_told(machines, place, why)?;
        }
        // It does not come to be believed by and by.
        sleep(Duration::from_secs(8));
        for (place, why) in told {
            wait_until_told(machines, place, why)?;
        }
        for place in 0..3 {
            machines.stop(place)?;
        }
        machines.bring_back_metadata()?;
        File::create(machines.directory(1).join("take-over"))?;
        for place in 0..3 {
            machines.start(place)?;
        }
        machines.wait_until_whole(0, "data", 3)?;
        host.wait_for_all_paths()?;
        host.verify(&mut ledger)
    });
}

/// Waits until a machine tells this of itself.
fn wait_until_told(machines: &Machines, place: usize, what: &str) -> Result<()> {
    let api = machines.api(place);
    let all = format!("{what} is told by {api}");
    wait_until(&all, PATIENCE, || {
        let said = cli::run(&["--api", &api, "status", "--explain"])?;
        let text = [said.stdout, said.stderr].concat();
        Ok(String::from_utf8_lossy(&text).contains(what))
    })
    .map(drop)
}

/// By what `docs/deployment.md` says, and what the new machine tells: no more.
#[test]
fn a_machine_at_another_address_takes_the_place_of_one_that_is_gone() {
    on_machines([Role::Node; 3], |machines| {
        let host = volume(machines, 3, "mirror3")?;
        let load = host.load(host.ledger(2), load_config());
        load.wait_for(200)?;
        machines.switch_off(1)?;
        machines.replace(1)?;
        File::create(machines.directory(1).join("take-over"))?;
        machines.start(1)?;
        let etcdctl = binary::etcdctl()?;
        for command in machines.told_commands(1)? {
            // Members that have found each other five seconds ago are no whole cluster yet, to etcd.
            wait_until(&command, PATIENCE, || {
                let words = command.split(' ').skip(1);
                Ok(Command::new(&etcdctl)
                    .args(words)
                    .output()?
                    .status
                    .success())
            })?;
        }
        machines.wait_for_etcd(1)?;
        machines.wait_for_nodes(1, 3)?;
        machines.wait_until_whole(0, "data", 3)?;
        // The other nodes run on with the former address, which is nobody's.
        wait_until("the members are told as they are", PATIENCE, || {
            let status: Value = cli::json(&machines.api(0), &["status"])?;
            let members = &status["metadata_members"];
            let alerts = status["alerts"].to_string();
            let is_told = alerts.contains("in the configuration of m1 and m3, is no member");
            Ok(members["up"] == 3 && members["total"] == 3 && is_told)
        })?;
        // It counts: the metadata goes on without another one.
        machines.switch_off(2)?;
        machines.wait_for_nodes(1, 2)?;
        let grow = ["volume", "grow", "data", "2GiB"];
        let _: Value = cli::json(&machines.api(1), &grow)?;
        machines.start(2)?;
        machines.wait_until_whole(1, "data", 3)?;
        load.wait_for(200)?;
        let (_, mut ledger) = load.stop()?;
        host.verify(&mut ledger)?;
        Ok(())
    });
}

#[test]
fn two_nodes_and_a_witness_go_on_without_any_one() {
    on_machines([Role::Node, Role::Node, Role::Witness], |machines| {
        let host = volume(machines, 2, "mirror2")?;
        let load = host.load(host.ledger(1), load_config());
        load.wait_for(300)?;
        // Without the witness.
        load.restart_stalls();
        machines.switch_off(2)?;
        load.run_for(Duration::from_secs(4))?;
        wait_for_members(machines, 2, "degraded")?;
        machines.start(2)?;
        machines.wait_for_etcd(2)?;
        wait_for_members(machines, 3, "healthy")?;
        // Members find each other again before the next one goes.
        sleep(Duration::from_secs(5));
        // Without a node, which takes the witness to agree.
        lose(machines, &load, 1)?;
        machines.start(1)?;
        machines.wait_until_whole(0, "data", 2)?;
        host.wait_for_all_paths()?;
        let (_, mut ledger) = load.stop()?;
        host.verify(&mut ledger)?;
        machines.stop(2)
    });
}

/// What is asked of etcd, by Debian's own tool, with the credentials of a machine or with none.
fn asks_etcd(machines: &Machines, place: usize, url: &str, own: Option<&Path>) -> Result<bool> {
    let mut command = Command::new("etcdctl");
    command.args(["--endpoints", url, "--command-timeout", "5s"]);
    if url.starts_with("https://") {
        command
            .arg("--cacert")
            .arg(machines.credentials(place).join("authority.pem"));
    }
    if let Some(own) = own {
        command.arg("--cert").arg(own.join("node.pem"));
        command.arg("--key").arg(own.join("node.key"));
    }
    let asked = command.args(["get", "", "--prefix", "--limit", "1", "--keys-only"]);
    Ok(asked.output()?.status.success())
}

/// Two nodes and a witness, with TLS between everybody: who has no certificate of the cluster is let in nowhere, and the loss
/// of one of them is what it is without TLS.
#[test]
fn members_of_etcd_with_tls_let_in_nobody_else() {
    on_machines_with_tls([Role::Node, Role::Node, Role::Witness], |machines| {
        let host = volume(machines, 2, "mirror2")?;
        let load = host.load(host.ledger(4), load_config());
        load.wait_for(300)?;
        let strange = machines.scratch().join("strange");
        let directory = strange.to_str().context("a path of a test is UTF-8")?;
        let cluster = "5eed0000000000000000000000000003";
        cli::done(&[
            "security",
            "found",
            "--directory",
            directory,
            "--cluster",
            cluster,
        ])?;
        let other = machines.scratch().join("strange-1");
        let out = other.to_str().context("a path of a test is UTF-8")?;
        let issue = [
            "security",
            "issue",
            "--directory",
            directory,
            "--node",
            "1",
            "--name",
            "m1",
        ];
        cli::done(&[&issue[..], &["--address", "127.0.0.1", "--out", out]].concat())?;
        for place in 0..3 {
            let url = machines.etcd_url(place);
            ensure!(url.starts_with("https://"), "it has TLS");
            let own = machines.credentials(place);
            ensure!(
                asks_etcd(machines, place, &url, Some(&own))?,
                "its own is let in"
            );
            ensure!(
                !asks_etcd(machines, place, &url, None)?,
                "who shows nothing is not"
            );
            ensure!(
                !asks_etcd(machines, place, &url, Some(&other))?,
                "nor a stranger"
            );
            let plain = url.replacen("https://", "http://", 1);
            ensure!(
                !asks_etcd(machines, place, &plain, None)?,
                "nor one in the clear"
            );
            let peers = machines.etcd_peers(place);
            let mut stream = TcpStream::connect(peers)?;
            stream.set_read_timeout(Some(Duration::from_secs(5)))?;
            stream.write_all(b"GET /members HTTP/1.0\r\n\r\n")?;
            let mut answer = Vec::new();
            // How it ends is of no matter.
            let _ = stream.read_to_end(&mut answer);
            let answer = String::from_utf8_lossy(&answer);
            ensure!(!answer.contains("peerURLs"), "peers are told: {answer}");
        }
        // The second time a node goes, the witness is the one who came back.
        for lost in [2, 1] {
            lose(machines, &load, lost)?;
            let size = format!("{}GiB", 4 - lost);
            let grow = ["volume", "grow", "data", &size];
            let _: Value = cli::json(&machines.api(0), &grow)?;
            machines.start(lost)?;
            machines.wait_for_etcd(lost)?;
            machines.wait_for_nodes(0, 2)?;
            machines.wait_until_whole(0, "data", 2)?;
        }
        wait_for_members(machines, 3, "healthy")?;
        let (_, mut ledger) = load.stop()?;
        host.wait_for_all_paths()?;
        host.verify(&mut ledger)
    });
}
