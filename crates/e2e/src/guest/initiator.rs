//! A guest as an initiator: its sessions, by open-iscsi, and its maps, by dm-multipath. It is set up as
//! `docs/hosts.md` recommends, by the files that users are given.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;

use super::machine::Guest;
use crate::process::wait_with;

/// What we recommend to users.
pub const MULTIPATH: &str = include_str!("../../../../dist/hosts/multipath.conf");
/// The same for sessions.
pub const ISCSID: &str = include_str!("../../../../dist/hosts/iscsid.conf");
/// Where multipathd finds what a scenario needs beside that.
pub const SCENARIO: &str = "/etc/multipath/conf.d/zz-scenario.conf";
/// How long a map may take to have its paths; `multipathd` looks at lost ones every few seconds.
const MAP_PATIENCE: Duration = Duration::from_secs(90);
/// Each look is work for a slow processor.
const LOOK: Duration = Duration::from_secs(1);

/// A disk that the kernel has by one session.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Disk {
    /// `sda` and so on.
    pub device: String,
    /// The address at the other end.
    pub portal: IpAddr,
}

/// A map, as `multipathd show map NAME json` tells of it.
#[derive(Clone, Debug, Deserialize)]
pub struct Map {
    /// Its name in `/dev/mapper`.
    pub name: String,
    /// Its world-wide identifier.
    pub uuid: String,
    /// The vendor of its paths.
    pub vend: String,
    /// The product that they are.
    pub prod: String,
    /// Its groups of paths, the best first.
    pub path_groups: Vec<Group>,
}

/// Paths that are used together.
#[derive(Clone, Debug, Deserialize)]
pub struct Group {
    /// Its priority.
    pub pri: i64,
    /// `active` where commands go.
    pub dm_st: String,
    /// Its paths.
    #[serde(default)]
    pub paths: Vec<Path>,
}

/// A path of a map.
#[derive(Clone, Debug, Deserialize)]
pub struct Path {
    /// `sda` and so on.
    pub dev: String,
    /// `active` or `failed`.
    pub dm_st: String,
    /// `ready`, `faulty` and so on, by the checker.
    pub chk_st: String,
}

impl Map {
    /// Its device.
    #[must_use]
    pub fn device(&self) -> String {
        format!("/dev/mapper/{}", self.name)
    }

    /// Its paths that are used.
    #[must_use]
    pub fn ready(&self) -> usize {
        let paths = self.path_groups.iter().flat_map(|group| &group.paths);
        let ready = paths.filter(|path| path.dm_st == "active" && path.chk_st == "ready");
        ready.count()
    }

    /// What a reader wants to know of its groups.
    #[must_use]
    pub fn describe(&self) -> String {
        let groups = self.path_groups.iter().map(|group| {
            let devices: Vec<&str> = group.paths.iter().map(|path| path.dev.as_str()).collect();
            format!(
                "{} (priority {}, {})",
                devices.join(" "),
                group.pri,
                group.dm_st
            )
        });
        groups.collect::<Vec<_>>().join("; ")
    }
}

/// How a guest is set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settings {
    /// As we recommend.
    Recommended,
    /// As Debian's packages come, but that there are maps.
    AsTheyCome,
}

/// Gives a guest its configuration, and starts the daemons. `more` is put into a file of its own for multipathd,
/// where it counts more.
///
/// # Errors
/// One does not start.
pub fn set_up(guest: &mut Guest, settings: Settings, more: &str) -> Result<()> {
    let (iscsid, multipath) = match settings {
        Settings::Recommended => (ISCSID, MULTIPATH),
        Settings::AsTheyCome => ("", "defaults {\n\tfind_multipaths yes\n}\n"),
    };
    guest.write("/run/holdfast-iscsid.conf", iscsid)?;
    guest.write("/etc/multipath/conf.d/holdfast.conf", multipath)?;
    guest.write(SCENARIO, more)?;
    guest.run(
        "cat /run/holdfast-iscsid.conf >>/etc/iscsi/iscsid.conf\n\
         touch /etc/multipath.conf\n\
         iscsid\n\
         multipathd",
    )?;
    let script = "multipathd show status";
    wait_with(LOOK, "multipathd serves", MAP_PATIENCE, || {
        Ok(guest.ask(script, MAP_PATIENCE)?.code == 0)
    })?;
    Ok(())
}

/// Asks one portal for the portals of all targets.
///
/// # Errors
/// It does not answer, or what it says is no answer.
pub fn discover(guest: &mut Guest, portal: SocketAddr) -> Result<BTreeSet<(SocketAddr, String)>> {
    let told = guest.run(&format!(
        "iscsiadm --mode discovery --type sendtargets --portal {portal}"
    ))?;
    told.lines().map(parse_discovered).collect()
}

/// A line as `10.77.0.1:3260,1 iqn.2026-11.io.holdfast:demo`.
fn parse_discovered(line: &str) -> Result<(SocketAddr, String)> {
    let (portal, target) = line.split_once(' ').context("a target has a portal")?;
    let (portal, _group) = portal.split_once(',').context("a portal has a group")?;
    let portal = portal.parse().context("a portal is an address")?;
    Ok((portal, target.to_owned()))
}

/// Logs in to a target that was discovered, on all its portals.
///
/// # Errors
/// One refuses.
pub fn log_in(guest: &mut Guest, target: &str) -> Result<()> {
    let script = format!("iscsiadm --mode node --targetname {target} --login");
    guest.run(&script).map(drop)
}

/// The disks that the guest has by its sessions to a target.
///
/// # Errors
/// The guest does not answer as it should.
pub fn disks(guest: &mut Guest, target: &str) -> Result<Vec<Disk>> {
    let script = format!(
        "for session in /sys/class/iscsi_session/session*; do\n\
           test \"$(cat $session/targetname 2>/dev/null)\" = {target} || continue\n\
           connection=/sys/class/iscsi_connection/connection${{session##*session}}:0\n\
           for disk in $session/device/target*/*/block/*; do\n\
             test -e $disk && echo \"${{disk##*/}} $(cat $connection/persistent_address)\"\n\
           done\n\
         done; true"
    );
    let told = guest.run(&script)?;
    let mut disks = Vec::new();
    for line in told.lines() {
        let (device, portal) = line.split_once(' ').context("a disk has a portal")?;
        let (device, portal) = (device.to_owned(), portal.parse()?);
        disks.push(Disk { device, portal });
    }
    disks.sort_unstable();
    Ok(disks)
}

/// All maps.
///
/// # Errors
/// `multipathd` does not say.
pub fn maps(guest: &mut Guest) -> Result<Vec<Map>> {
    #[derive(Deserialize)]
    struct Told {
        maps: Vec<Map>,
    }
    let told = guest.run("multipathd show maps json")?;
    let told: Told = serde_json::from_str(&told).with_context(|| format!("read {told}"))?;
    Ok(told.maps)
}

/// The one map that there is, once it has so many paths that are used.
///
/// # Errors
/// There is none or more than one, or it has not.
pub fn one_map(guest: &mut Guest, paths: usize) -> Result<Map> {
    let mut found = Vec::new();
    let waited = wait_with(LOOK, "one map has all its paths", MAP_PATIENCE, || {
        found = maps(guest)?;
        Ok(matches!(&found[..], [map] if map.ready() == paths))
    });
    waited.with_context(|| {
        let described = found.iter().map(Map::describe);
        format!("there are: {:?}", described.collect::<Vec<_>>())
    })?;
    match <[Map; 1]>::try_from(found) {
        Ok([map]) => Ok(map),
        Err(found) => bail!("{} maps should be one", found.len()),
    }
}

/// What the kernel's table says of a map: the features and the handler that it was given, among others.
///
/// # Errors
/// There is none.
pub fn table(guest: &mut Guest, map: &Map) -> Result<String> {
    let told = guest.run(&format!("dmsetup table {}", map.name))?;
    ensure!(told.contains(" multipath "), "{told} is no map's");
    Ok(told.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn portals_are_read() {
        let line = "10.77.0.2:18000,2 iqn.2026-11.io.holdfast:demo";
        let (portal, target) = parse_discovered(line).unwrap();
        assert_eq!(portal.to_string(), "10.77.0.2:18000");
        assert_eq!(target, "iqn.2026-11.io.holdfast:demo");
        assert!(parse_discovered("iscsiadm: no records found").is_err());
    }

    #[test]
    fn maps_are_read() {
        let told = r#"{"name": "mpatha", "uuid": "36001", "vend": "HOLDFAST", "prod": "VIRTUAL DISK",
            "path_groups": [
              {"pri": 50, "dm_st": "active", "paths": [
                {"dev": "sdb", "dm_st": "active", "chk_st": "ready", "pri": 50}]},
              {"pri": 10, "dm_st": "enabled", "paths": [
                {"dev": "sda", "dm_st": "failed", "chk_st": "faulty", "pri": 10}]}]}"#;
        let map: Map = serde_json::from_str(told).unwrap();
        assert_eq!(map.ready(), 1);
        assert_eq!(map.device(), "/dev/mapper/mpatha");
        let described = "sdb (priority 50, active); sda (priority 10, enabled)";
        assert_eq!(map.describe(), described);
    }
}
