//! What a Linux host sees of a cluster of three nodes: sessions to all, one map, its groups, a file system under
//! load while nodes die, reservations, discard.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use rustix::process::Signal;
use serde_json::Value;

use super::image::Image;
use super::initiator::{self, Disk, Map, Settings};
use super::machine::Guest;
use super::steps::Steps;
use super::tgt;
use crate::cli;
use crate::machines::{Machines, name};
use crate::network::{Network, Party, address};
use crate::process::wait_with;

/// How many nodes there are.
const NODES: usize = 3;
/// The volume.
const VOLUME: &str = "demo";
/// What volumes of guests are, and how many copies that keeps.
const POLICY: &str = "mirror2";
pub(super) const COPIES: usize = 2;
/// How long fio runs around each fault, in seconds: longer than open-iscsi needs to find out about a lost node,
/// and to go on without it.
const LOAD_SECONDS: u64 = 45;
/// How long the load runs before the fault.
const BEFORE: Duration = Duration::from_secs(12);
/// How long fio may take beyond its time: to lay out its file, and to read it again.
const LOAD_PATIENCE: Duration = Duration::from_secs(LOAD_SECONDS + 180);
/// The longest that fio may have waited for a command where a node was killed.
const STALL_MAX: Duration = Duration::from_secs(6);
/// The same where it fell silent: its sessions have to be found dead first.
const SILENT_STALL_MAX: Duration = Duration::from_secs(15);
/// How long the cluster may take to tell what a volume holds.
const TOLD_PATIENCE: Duration = Duration::from_secs(60);
/// Bytes that are written to be given back.
const GIVEN_BACK_BYTES: u64 = 128 << 20;
/// Where the file system is in the guest.
const MOUNT: &str = "/mnt";
/// Keys of reservations.
const KEY: &str = "0x5eed0001";
const OTHER_KEY: &str = "0x5eed0002";
/// WRITE EXCLUSIVE – REGISTRANTS ONLY (SPC-4, 5.9.2).
const TYPE: u8 = 5;

/// Bytes of tgt's volume.
const TGT_BYTES: u64 = 1 << 30;

/// What happens to a node under load: to the one that leads the volume then, but for one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// Nothing, to know what the load itself waits for.
    Nothing,
    /// SIGKILL: its connections are reset.
    KillPrimary,
    /// The same for one that does not lead.
    KillOther,
    /// SIGSTOP: its connections stay, and nothing answers.
    Freeze,
    /// Its cable is pulled: nobody is told.
    Unplug,
}

impl Fault {
    fn happen(self, machines: &mut Machines, place: usize) -> Result<()> {
        match self {
            Self::Nothing => Ok(()),
            Self::KillPrimary | Self::KillOther => machines.kill(place),
            Self::Freeze => machines.signal(place, Signal::STOP),
            Self::Unplug => machines.network()?.unplug(Party::Machine(place)),
        }
    }

    fn mend(self, machines: &mut Machines, place: usize) -> Result<()> {
        match self {
            Self::Nothing => Ok(()),
            Self::KillPrimary | Self::KillOther => machines.start(place),
            Self::Freeze => machines.signal(place, Signal::CONT),
            Self::Unplug => machines.network()?.plug(Party::Machine(place)),
        }
    }
}

/// The scenario, with a cluster of its own. It prints what came of each step.
///
/// # Errors
/// A step failed.
pub fn run(machines: &mut Machines, image: &Image, settings: Settings) -> Result<()> {
    machines.wait_for_nodes(0, NODES)?;
    let target = make_volume(&machines.api(0), VOLUME, "4GiB")?;
    machines.wait_until_whole(0, VOLUME, COPIES)?;
    let scratch = machines.scratch().to_owned();
    let mut scenario = Scenario {
        target,
        machines,
        settings,
        steps: Steps::default(),
    };
    scenario.take(image, &scratch)?;
    scenario.steps.finish()
}

/// The steps with reservations on tgt, through as many portals: what they want of a target is what another one
/// does.
///
/// # Errors
/// A step failed.
pub fn run_on_tgt(image: &Image) -> Result<()> {
    tgt::on_tgt(TGT_BYTES, NODES as u16, |network, scratch| {
        reservations(network, image, scratch)
    })
}

fn reservations(network: &Network, image: &Image, scratch: &Path) -> Result<()> {
    network.connect_guest(1)?;
    let guest = &mut Guest::start(network, image, 1, scratch)?;
    initiator::set_up(guest, Settings::Recommended, "")?;
    // Each of tgt's portals tells of itself only.
    for portal in tgt::portals(NODES as u16) {
        initiator::discover(guest, portal)?;
    }
    initiator::log_in(guest, tgt::TARGET)?;
    let map = initiator::one_map(guest, NODES)?;
    let disks = initiator::disks(guest, tgt::TARGET)?;
    let mut steps = Steps::default();
    steps.take("sg_persist", || sg_persist(guest, &disks));
    steps.take("mpathpersist", || mpathpersist(guest, &map, &disks));
    steps.finish()
}

/// Makes a volume, and gives the name of its target.
pub(super) fn make_volume(api: &str, volume: &str, size: &str) -> Result<String> {
    let create = ["volume", "create", volume, size, "--policy", POLICY];
    let _: Value = cli::json(api, &create)?;
    let list: Value = cli::json(api, &["volume", "list"])?;
    let mut volumes = list["volumes"].as_array().into_iter().flatten();
    let volume = volumes.find(|listed| listed["name"] == volume);
    let target = volume.and_then(|volume| volume["target"].as_str());
    Ok(target.context("the volume has a target")?.to_owned())
}

struct Scenario<'a> {
    machines: &'a mut Machines,
    target: String,
    settings: Settings,
    steps: Steps,
}

impl Scenario<'_> {
    fn take(&mut self, image: &Image, scratch: &Path) -> Result<()> {
        let Self {
            machines,
            target,
            settings,
            steps,
        } = self;
        let network = machines.network()?;
        network.connect_guest(1)?;
        let mut guest = Guest::start(network, image, 1, scratch)?;
        let boot = guest.boot();
        steps.take("boot", || {
            let kernel = guest.run("uname -r")?;
            Ok(((), format!("{} after {boot:.1?}", kernel.trim())))
        });
        let guest = &mut guest;
        initiator::set_up(guest, *settings, "")?;
        let portals = machines.portals();
        steps.take("log in on all portals", || log_in(guest, target, &portals));
        let Some(map) = steps.take("one map of all paths", || one_map(guest, target)) else {
            bail!("nothing can be done without a map; {}", guest.console());
        };
        let api = machines.api(0);
        let disks = initiator::disks(guest, target)?;
        if *settings == Settings::Recommended {
            steps.take("ALUA groups", || alua(guest, &map, target, &api));
            steps.take("sg_persist", || sg_persist(guest, &disks));
            steps.take("mpathpersist", || mpathpersist(guest, &map, &disks));
        }
        steps.take("ext4", || make_file_system(guest, &map));
        for fault in [
            Fault::Nothing,
            Fault::KillPrimary,
            Fault::KillOther,
            Fault::Freeze,
            Fault::Unplug,
        ] {
            steps.take(&format!("fio with verify, {fault:?}"), || {
                under_fault(guest, machines, fault, *settings)
            });
        }
        steps.take("what was written before is read", || {
            read_again(guest, &map)
        });
        steps.take("discard gives space back", || discard(guest, machines));
        steps.take("end", || end(guest, &map, target));
        Ok(())
    }
}

fn log_in(guest: &mut Guest, target: &str, portals: &[SocketAddr]) -> Result<((), String)> {
    let found = initiator::discover(guest, portals[0])?;
    let expected: BTreeSet<_> = portals.iter().map(|at| (*at, target.to_owned())).collect();
    ensure!(found == expected, "{found:?} should be {expected:?}");
    initiator::log_in(guest, target)?;
    let disks = initiator::disks(guest, target)?;
    let reached: BTreeSet<_> = disks.iter().map(|disk| disk.portal).collect();
    let expected: BTreeSet<_> = portals.iter().map(SocketAddr::ip).collect();
    ensure!(reached == expected, "{reached:?} should be {expected:?}");
    ensure!(disks.len() == NODES, "{disks:?} should be {NODES}");
    Ok(((), describe(&disks)))
}

fn describe(disks: &[Disk]) -> String {
    let disks = disks.iter();
    let described = disks.map(|disk| format!("{} by {}", disk.device, disk.portal));
    described.collect::<Vec<_>>().join(", ")
}

fn one_map(guest: &mut Guest, target: &str) -> Result<(Map, String)> {
    let map = initiator::one_map(guest, NODES)?;
    ensure!(map.vend == "HOLDFAST", "the vendor is {:?}", map.vend);
    ensure!(map.prod.trim() == "VIRTUAL DISK", "it is {:?}", map.prod);
    let disks = initiator::disks(guest, target)?;
    let devices: BTreeSet<_> = disks.iter().map(|disk| disk.device.as_str()).collect();
    let paths = map.path_groups.iter().flat_map(|group| &group.paths);
    let paths: BTreeSet<_> = paths.map(|path| path.dev.as_str()).collect();
    ensure!(paths == devices, "{paths:?} should be {devices:?}");
    let saw = format!("{} {}: {}", map.name, map.uuid, map.describe());
    Ok((map, saw))
}

/// The paths by the nodes that hold the volume are the best group; dm-multipath has ALUA's handler; and each path tells
/// the same states of all groups.
fn alua(guest: &mut Guest, map: &Map, target: &str, api: &str) -> Result<((), String)> {
    let table = initiator::table(guest, map)?;
    let disks = initiator::disks(guest, target)?;
    let mut told = BTreeSet::new();
    for disk in &disks {
        told.insert(guest.run(&format!("sg_rtpg --decode /dev/{}", disk.device))?);
    }
    ensure!(told.len() == 1, "paths tell different states: {told:#?}");
    ensure!(table.contains(" 1 alua "), "no ALUA: {table}");
    let volume = cli::volume_show(api, VOLUME)?;
    let optimized: BTreeSet<_> = (0..NODES)
        .filter(|place| volume.is_held_by(&name(*place)))
        .map(|place| address(Party::Machine(place)))
        .collect();
    let map = initiator::one_map(guest, NODES)?;
    let [best, rest @ ..] = &map.path_groups[..] else {
        bail!("the map has no group");
    };
    let at_best = |disk: &&Disk| best.paths.iter().any(|path| path.dev == disk.device);
    let best_portals: BTreeSet<_> = disks
        .iter()
        .filter(at_best)
        .map(|disk| disk.portal)
        .collect();
    ensure!(
        best_portals == optimized,
        "the best group is by {best_portals:?}, and {optimized:?} hold the volume: {}",
        map.describe()
    );
    ensure!(
        rest.iter().all(|group| group.pri < best.pri),
        "{}",
        map.describe()
    );
    Ok(((), map.describe()))
}

/// A registration by one path is seen by all, a reservation keeps out who is not registered, and lets in who is.
fn sg_persist(guest: &mut Guest, disks: &[Disk]) -> Result<((), String)> {
    let [one, other, ..] = disks else {
        bail!("two paths are needed");
    };
    let (one, other) = (&one.device, &other.device);
    let reserved = guest.run(&format!(
        "set -e\n\
         out='sg_persist --no-inquiry --out'\n\
         in='sg_persist --no-inquiry --in'\n\
         $out --register --param-sark={KEY} /dev/{one}\n\
         $in --read-keys /dev/{other} | grep -q {KEY}\n\
         $out --reserve --param-rk={KEY} --prout-type={TYPE} /dev/{one}\n\
         $in --read-reservation /dev/{other}"
    ))?;
    let cleared = format!("sg_persist --no-inquiry --out --clear --param-rk={KEY} /dev/{one}");
    let checked = guest.run(&format!(
        "set -e\n\
         put='dd if=/dev/zero bs=4096 count=1 oflag=direct status=none'\n\
         $put of=/dev/{one}\n\
         if $put of=/dev/{other}; then echo 'one without registration writes'; exit 1; fi\n\
         sg_persist --no-inquiry --out --register --param-sark={OTHER_KEY} /dev/{other}\n\
         $put of=/dev/{other}"
    ));
    guest.run(&cleared)?;
    checked?;
    // The others are told first that their registrations are gone: RESERVATIONS PREEMPTED (SPC-4, CLEAR service action).
    let left = guest.run(&format!(
        "for path in {paths}; do sg_turs /dev/$path; done >/dev/null 2>&1\n\
         sg_persist --no-inquiry --in --read-keys /dev/{other}",
        paths = devices(disks)
    ))?;
    ensure!(!left.contains("0x5eed"), "keys are left: {left}");
    let line = reserved.lines().find(|line| line.contains("type:"));
    let line = line.with_context(|| format!("a type is told: {reserved}"))?;
    ensure!(reserved.contains(KEY), "the holder is told: {reserved}");
    Ok(((), line.trim().to_owned()))
}

/// One registration of a map is one of each of its paths.
fn mpathpersist(guest: &mut Guest, map: &Map, disks: &[Disk]) -> Result<((), String)> {
    let device = map.device();
    guest.write(
        initiator::SCENARIO,
        "defaults {\n\treservation_key file\n}\n",
    )?;
    guest.run("multipathd reconfigure")?;
    initiator::one_map(guest, disks.len())?;
    let registered = guest.run(&format!(
        "set -e\n\
         mpathpersist --out --register --param-sark={KEY} {device}\n\
         mpathpersist --in --read-keys {device}"
    ));
    let used = registered.and_then(|keys| {
        let seen = keys.matches(KEY).count();
        let expected = disks.len();
        ensure!(seen == expected, "{seen} keys should be {expected}: {keys}");
        guest.run(&format!(
            "set -e\n\
             mpathpersist --out --reserve --param-rk={KEY} --prout-type={TYPE} {device}\n\
             mpathpersist --in --read-reservation {device} | grep -q {KEY}\n\
             for path in {paths}; do\n\
               dd if=/dev/zero of=/dev/$path bs=4096 count=1 oflag=direct status=none\n\
             done\n\
             mpathpersist --out --release --param-rk={KEY} --prout-type={TYPE} {device}",
            paths = devices(disks)
        ))
    });
    let undone = guest.run(&format!(
        "mpathpersist --out --register --param-rk={KEY} --param-sark=0 {device}\n\
         mpathpersist --in --read-keys {device}"
    ));
    used?;
    ensure!(!undone?.contains(KEY), "keys are left");
    Ok(((), format!("one key on each of {} paths", disks.len())))
}

fn devices(disks: &[Disk]) -> String {
    let devices: Vec<&str> = disks.iter().map(|disk| disk.device.as_str()).collect();
    devices.join(" ")
}

/// fio's options for what is written before the faults and read after them.
fn kept(more: &str) -> String {
    format!(
        "fio --name=kept --filename={MOUNT}/kept --rw=write --bs=64k --size=64M --ioengine=libaio --iodepth=4 \
         --direct=1 --verify=crc32c --verify_fatal=1 --randseed=1 {more}"
    )
}

fn make_file_system(guest: &mut Guest, map: &Map) -> Result<((), String)> {
    let patience = Duration::from_secs(180);
    guest.run_for(&format!("mkfs.ext4 -q -F {}", map.device()), patience)?;
    guest.run(&format!("mount {} {MOUNT}", map.device()))?;
    guest.run_for(&kept("--do_verify=0"), patience)?;
    let sizes = guest.run(&format!("df --output=size,used -h {MOUNT} | tail -1"))?;
    Ok(((), format!("size and used: {}", sizes.trim())))
}

/// The place of the node that leads the volume.
fn primary(machines: &Machines) -> Result<usize> {
    let volume = cli::volume_show(&machines.api(0), VOLUME)?;
    let primary = volume.primaries().first().map(|name| (*name).to_owned());
    let primary = primary.context("the volume has a primary")?;
    let place = (0..NODES).find(|place| name(*place) == primary);
    place.context("the primary is a machine")
}

/// fio runs, something happens, and fio must not notice but by waiting. Afterwards all is as it was before.
fn under_fault(
    guest: &mut Guest,
    machines: &mut Machines,
    fault: Fault,
    settings: Settings,
) -> Result<((), String)> {
    let primary = primary(machines)?;
    let place = match fault {
        Fault::KillOther => (primary + 1) % NODES,
        _ => primary,
    };
    guest.start_job(
        "fio",
        &format!(
            "rm -f {MOUNT}/load\n\
             exec fio --name=load --filename={MOUNT}/load --rw=randrw --bs=16k --size=32M --ioengine=libaio \
             --iodepth=4 --direct=1 --verify=crc32c --verify_backlog=64 --verify_fatal=1 --time_based \
             --runtime={LOAD_SECONDS} --output-format=json"
        ),
    )?;
    sleep(BEFORE);
    fault.happen(machines, place)?;
    let ended = guest.wait_for_job("fio", LOAD_PATIENCE);
    let without = initiator::maps(guest).map(|maps| maps.iter().map(Map::ready).sum::<usize>());
    fault.mend(machines, place)?;
    let ended = ended?;
    ensure!(
        ended.code == 0,
        "fio ended with {}: {}",
        ended.code,
        ended.output
    );
    let load = Load::parse(&ended.output)?;
    machines.wait_for_nodes(0, NODES)?;
    machines.wait_until_whole(0, VOLUME, COPIES)?;
    initiator::one_map(guest, NODES)?;
    let (expected, stall_max) = match (fault, settings) {
        (Fault::Nothing, _) => (NODES, STALL_MAX),
        (_, Settings::AsTheyCome) => (NODES - 1, Duration::from_secs(LOAD_SECONDS)),
        (Fault::KillPrimary | Fault::KillOther, Settings::Recommended) => (NODES - 1, STALL_MAX),
        (Fault::Freeze | Fault::Unplug, Settings::Recommended) => (NODES - 1, SILENT_STALL_MAX),
    };
    let without = without?;
    ensure!(
        without == expected,
        "{without} paths were left, not {expected}"
    );
    let stall = load.longest;
    ensure!(
        stall <= stall_max,
        "fio waited {stall:?}, {stall_max:?} is allowed"
    );
    Ok(((), load.describe()))
}

/// What fio tells of a run.
struct Load {
    /// The longest that a command took.
    longest: Duration,
    commands: u64,
}

impl Load {
    fn parse(output: &str) -> Result<Self> {
        // Notes may come before.
        let start = output.find('{').context("fio prints JSON")?;
        let told: Value = serde_json::from_str(&output[start..]).context("read fio's JSON")?;
        let job = &told["jobs"][0];
        ensure!(job["error"] == 0, "fio found an error: {job:#}");
        let (mut longest, mut commands) = (0, 0);
        for direction in ["read", "write"] {
            let nanoseconds = job[direction]["clat_ns"]["max"].as_f64();
            let nanoseconds = nanoseconds.context("fio tells the longest time")? as u64;
            longest = longest.max(nanoseconds);
            let count = job[direction]["total_ios"].as_u64();
            commands += count.context("fio tells how many commands there were")?;
        }
        ensure!(commands > 0, "fio did nothing");
        Ok(Self {
            longest: Duration::from_nanos(longest),
            commands,
        })
    }

    fn describe(&self) -> String {
        let (commands, longest) = (self.commands, self.longest);
        format!("the longest of {commands} commands took {longest:.2?}")
    }
}

fn read_again(guest: &mut Guest, map: &Map) -> Result<((), String)> {
    let patience = Duration::from_secs(180);
    let device = map.device();
    guest.run_for(
        &format!("umount {MOUNT} && e2fsck -f -n {device} && mount {device} {MOUNT}"),
        patience,
    )?;
    guest.run_for(&kept("--verify_only"), patience)?;
    Ok(((), "64 MiB, and e2fsck finds nothing".to_owned()))
}

fn discard(guest: &mut Guest, machines: &Machines) -> Result<((), String)> {
    let patience = Duration::from_secs(180);
    let api = machines.api(0);
    // What earlier steps have left is given back first.
    guest.run_for(
        &format!("rm -f {MOUNT}/load; sync; fstrim {MOUNT}"),
        patience,
    )?;
    let before = used_when_settled(&api)?;
    let mebibytes = GIVEN_BACK_BYTES >> 20;
    guest.run_for(
        &format!(
            "dd if=/dev/urandom of={MOUNT}/large bs=1M count={mebibytes} oflag=direct status=none && sync"
        ),
        patience,
    )?;
    let full = used_when_settled(&api)?;
    ensure!(
        full >= before + GIVEN_BACK_BYTES,
        "{before} bytes were used, and {full} with {GIVEN_BACK_BYTES} more"
    );
    guest.run_for(&format!("rm {MOUNT}/large; sync; fstrim {MOUNT}"), patience)?;
    let after = used_when_settled(&api)?;
    // The file system may have taken some for itself meanwhile.
    ensure!(
        after <= full - GIVEN_BACK_BYTES * 9 / 10,
        "{full} bytes were used, and {after} after {GIVEN_BACK_BYTES} were given back"
    );
    let in_mib = |bytes: u64| format!("{} MiB", bytes >> 20);
    let saw = [before, full, after].map(in_mib).join(", then ");
    Ok(((), format!("{saw} are used")))
}

/// Bytes that the volume holds, once that has not changed for a while: nodes tell it every now and then.
fn used_when_settled(api: &str) -> Result<u64> {
    /// Looks that have to see the same, a second apart.
    const LOOKS: usize = 8;
    let (mut used, mut same) = (None, 0);
    wait_with(
        Duration::from_secs(1),
        "used space is told",
        TOLD_PATIENCE,
        || {
            let now = cli::volume_show(api, VOLUME)?.used_bytes;
            same = if now == used { same + 1 } else { 0 };
            used = now;
            Ok(same >= LOOKS)
        },
    )?;
    used.context("the nodes tell what is used")
}

fn end(guest: &mut Guest, map: &Map, target: &str) -> Result<((), String)> {
    guest.run(&format!(
        "set -e\n\
         umount {MOUNT}\n\
         multipath -f {}\n\
         iscsiadm --mode node --targetname {target} --logout",
        map.name
    ))?;
    let disks = initiator::disks(guest, target)?;
    ensure!(disks.is_empty(), "{disks:?} are left");
    let complaints = guest.run("dmesg | grep -c -E 'BUG|Oops|hung task' || true")?;
    ensure!(complaints.trim() == "0", "{}", guest.console());
    Ok(((), "unmounted, and logged out".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fio_tells_is_read() {
        let told = r#"fio: this is a note
            {"jobs": [{"error": 0,
              "read": {"total_ios": 7, "clat_ns": {"max": 2000000000}},
              "write": {"total_ios": 5, "clat_ns": {"max": 1500000000}}}]}"#;
        let load = Load::parse(told).unwrap();
        assert_eq!(load.longest, Duration::from_secs(2));
        assert_eq!(load.commands, 12);
        assert!(Load::parse("fio: no such file").is_err());
        assert!(Load::parse(&told.replace("\"error\": 0", "\"error\": 84")).is_err());
    }
}
