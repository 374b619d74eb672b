//! Machines with networks of their own: what is cut is cut.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result};
use holdfast_e2e::binary;
use holdfast_e2e::machines::{Machines, test_on_network};
use holdfast_e2e::network::Party;
use holdfast_e2e::process::wait_until;

/// How many machines there are.
const MACHINES: usize = 3;
/// How long a node is waited for that does not answer, in seconds: longer than a lost packet costs.
const ANSWERS_WITHIN: &str = "3";
/// How long is waited for what is not cut: a slow machine is not a hang.
const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn what_is_cut_is_cut_and_nothing_else() {
    test_on_network("network::what_is_cut_is_cut_and_nothing_else", |machines| {
        machines.wait_for_nodes(0, MACHINES)?;
        let [one, two, three] = [0, 1, 2].map(Party::Machine);
        let all_but = |cut: &[(Party, Party)]| check_reach(machines, cut);
        all_but(&[])?;
        let network = machines.network()?;
        // A question needs both ways.
        network.cut(one, two)?;
        all_but(&[(one, two), (two, one)])?;
        network.heal(one, two)?;
        network.cut(Party::Hosts, three)?;
        all_but(&[(Party::Hosts, three)])?;
        network.heal(Party::Hosts, three)?;
        network.unplug(two)?;
        all_but(&[
            (one, two),
            (two, one),
            (two, three),
            (three, two),
            (Party::Hosts, two),
        ])?;
        network.plug(two)?;
        all_but(&[])
    });
}

/// Waits until those that are cut off from each other get no answer, and all others do: a node that has just
/// come back may not know what it is asked for yet.
fn check_reach(machines: &Machines, cut: &[(Party, Party)]) -> Result<()> {
    wait_until(
        &format!("{cut:?} and nothing else is cut"),
        PATIENCE,
        || Ok(unanswered(machines)? == cut),
    )?;
    Ok(())
}

/// Who asks which node for something, over the network, and gets no answer.
fn unanswered(machines: &Machines) -> Result<Vec<(Party, Party)>> {
    let network = machines.network()?;
    let mut unanswered = Vec::new();
    for from in network.parties() {
        for place in (0..MACHINES).filter(|place| Party::Machine(*place) != from) {
            let status = network
                .command(from, Path::new("timeout"))
                .arg(ANSWERS_WITHIN)
                .arg(binary::holdfast()?)
                .args(["--api", &machines.api(place), "node", "list"])
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .status()
                .context("ask a node")?;
            if !status.success() {
                unanswered.push((from, Party::Machine(place)));
            }
        }
    }
    Ok(unanswered)
}
