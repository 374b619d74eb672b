//! Scenarios with real Linux hosts, in machines that QEMU emulates: `cargo run --release -p holdfast-e2e
//! --example guest -- SCENARIO`, as root, once `make setup-guest` has installed what it needs.
//!
//! - `multipath`: one host set up as `docs/hosts.md` recommends, and a cluster of three nodes;
//! - `multipath-plain`: the same host as Debian's packages come, for comparison: how long it waits for a lost node;
//! - `reservations-tgt`: what `multipath` does with reservations, on tgt: the steps themselves are put to the test;
//! - `failover`: two hosts with PostgreSQL on one volume of a cluster of three nodes;
//! - `failover-tgt`: the same two on tgt, for comparison.
//!
//! The image that guests boot is made first, once.

use std::ffi::OsString;

use anyhow::{Result, bail, ensure};
use holdfast_e2e::guest::initiator::Settings;
use holdfast_e2e::guest::{failover, image, multipath};
use holdfast_e2e::machines::on_network;
use holdfast_e2e::world;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [scenario] = &arguments[..] else {
        bail!("usage: guest multipath|multipath-plain|reservations-tgt|failover|failover-tgt");
    };
    // Packages come from outside, where there is a network.
    let image = image::build()?;
    if !world::is_inside() {
        if let Some(reason) = world::missing() {
            bail!("guests need a network of their own: {reason}");
        }
        let status = world::enter(&[OsString::from(scenario)])?;
        ensure!(status.success(), "{scenario} ended with {status}");
        return Ok(());
    }
    match scenario.as_str() {
        "multipath" => {
            on_network(|machines| multipath::run(machines, &image, Settings::Recommended));
        }
        "multipath-plain" => {
            on_network(|machines| multipath::run(machines, &image, Settings::AsTheyCome));
        }
        "reservations-tgt" => multipath::run_on_tgt(&image)?,
        "failover" => on_network(|machines| failover::run(machines, &image)),
        "failover-tgt" => failover::run_on_tgt(&image)?,
        other => bail!("{other} is no scenario"),
    }
    Ok(())
}
