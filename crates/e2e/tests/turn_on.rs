//! A cluster without TLS gets it: by one stop of all machines, after which its members of etcd have it one by one, while hosts
//! write.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use holdfast_e2e::cli;
use holdfast_e2e::host::Host;
use holdfast_e2e::machines::{Machines, Role, name, on_machines};
use holdfast_e2e::process::wait_until;
use holdfast_lab::verify::LoadConfig;
use serde_json::Value;

/// The longest stall that is allowed while members of etcd move: no data path has anything to do with it.
const STALL_MAX: Duration = Duration::from_secs(1);
const PATIENCE: Duration = Duration::from_secs(90);

/// Debian's `etcdctl` as the manual has it: at one machine's member, with the credentials of that machine.
fn etcdctl(machines: &Machines, url: &str, place: usize, words: &[&str]) -> Result<String> {
    let own = machines.credentials(place);
    let mut command = Command::new("etcdctl");
    command.args(["--endpoints", url, "--command-timeout", "5s"]);
    if url.starts_with("https://") {
        for (option, file) in [
            ("--cacert", "authority.pem"),
            ("--cert", "node.pem"),
            ("--key", "node.key"),
        ] {
            command.arg(option).arg(own.join(file));
        }
    }
    let output = command.args(words).output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "etcdctl {words:?}: {said}");
    Ok(String::from_utf8(output.stdout)?)
}

fn in_the_clear(url: &str) -> String {
    url.replacen("https://", "http://", 1)
}

/// The URL of a machine's member that answers, which says whether it has TLS.
fn answering(machines: &Machines, place: usize) -> Result<Option<String>> {
    let url = machines.etcd_url(place);
    // In the order in which one that moves changes: none has TLS first and then none.
    let urls = [url.clone(), in_the_clear(&url)];
    let mut answers = urls
        .into_iter()
        .filter(|url| etcdctl(machines, url, place, &["endpoint", "health"]).is_ok());
    let answer = answers.next();
    ensure!(answers.next().is_none(), "{answer:?} answers in both ways");
    Ok(answer)
}

fn wait_until_answering(machines: &Machines, place: usize, scheme: &str) -> Result<()> {
    let what = format!("etcd of {} answers {scheme}", name(place));
    wait_until(&what, PATIENCE, || {
        Ok(answering(machines, place)?.is_some_and(|url| url.starts_with(scheme)))
    })
    .map(drop)
}

/// What an operator does for one machine's member, at another one that answers.
fn move_member(machines: &Machines, place: usize, at: usize) -> Result<()> {
    let url = answering(machines, at)?.context("another member answers")?;
    let list = etcdctl(machines, &url, at, &["member", "list", "-w", "json"])?;
    let list: Value = serde_json::from_str(&list)?;
    let members = list["members"].as_array().context("it lists members")?;
    let member = members.iter().find(|it| it["name"] == name(place));
    let id = member
        .and_then(|it| it["ID"].as_u64())
        .context("it is listed")?;
    let peer = format!("--peer-urls=https://{}", machines.etcd_peers(place));
    etcdctl(
        machines,
        &url,
        at,
        &["member", "update", &format!("{id:x}"), &peer],
    )?;
    wait_until_answering(machines, place, "https://")
}

fn wait_until_well(machines: &Machines) -> Result<()> {
    wait_until("all is well", PATIENCE, || {
        let Ok(status) = cli::json::<Value>(&machines.api(0), &["status"]) else {
            return Ok(false);
        };
        Ok(status["health"] == "healthy" && status["metadata_members"]["up"] == 3)
    })
    .map(drop)
}

#[test]
fn tls_is_turned_on_by_one_stop_and_members_of_etcd_follow_under_load() {
    on_machines([Role::Node, Role::Node, Role::Witness], |machines| {
        machines.wait_for_nodes(0, 2)?;
        let create = ["volume", "create", "data", "1GiB", "--policy", "mirror2"];
        let _: Value = cli::json(&machines.api(0), &create)?;
        let list: Value = cli::json(&machines.api(0), &["volume", "list"])?;
        let target = list["volumes"][0]["target"].as_str();
        let host = Host::open_at(target.context("a target")?, machines.portals(), |_| ())?;
        let load = host.load(host.ledger(6), LoadConfig::default());
        load.wait_for(300)?;
        let clear = machines.api(0);

        // Hosts wait meanwhile, and nothing that they wrote is lost.
        machines.turn_tls_on()?;
        machines.wait_for_nodes(0, 2)?;
        machines.wait_until_whole(0, "data", 2)?;
        host.wait_for_all_paths()?;
        load.wait_for(300)?;
        ensure!(
            cli::json::<Value>(&clear, &["status"]).is_err(),
            "nobody is answered in the clear"
        );
        for place in 0..3 {
            wait_until_answering(machines, place, "http://")?;
        }
        wait_until_well(machines)?;

        load.restart_stalls();
        for (place, at) in [(0, 1), (1, 2), (2, 0)] {
            move_member(machines, place, at)?;
            wait_until_well(machines)?;
        }
        let report = load.report();
        ensure!(
            report.longest_stall <= STALL_MAX,
            "it stalled the load: {report}"
        );

        // As it is from now on.
        machines.demand_tls()?;
        for place in 0..3 {
            machines.stop(place)?;
            machines.start(place)?;
            wait_until_answering(machines, place, "https://")?;
            machines.wait_for_nodes(0, 2)?;
            machines.wait_until_whole(0, "data", 2)?;
            wait_until_well(machines)?;
        }
        let (_, mut ledger) = load.stop()?;
        host.wait_for_all_paths()?;
        host.verify(&mut ledger)
    });
}
