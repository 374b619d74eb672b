//! How each action is carried out.
//!
//! Invariants:
//! - a process is looked at before it is killed, so that its memory counts too.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use holdfast_stdx::Prng;
use rustix::process::Signal;
use serde_json::Value;

use super::plan::{Action, Damage};
use super::{Thrasher, say};
use crate::damage::Device;
use crate::machines::{DIRECTORY_BYTES, Machines, name};
use crate::{cli, world};

/// Between two looks at the processes while nothing happens.
const LOOK: Duration = Duration::from_millis(100);
/// Bytes that a full file system has left when it is made full: what is used may grow meanwhile.
const LEFT_BYTES: u64 = 256 << 10;
/// How many bytes of the journal lie between two that are spoiled.
const JOURNAL_STRIDE: u64 = 256 << 10;

impl Thrasher<'_> {
    pub(super) fn act(&mut self, action: Action) -> Result<()> {
        let machines = &mut *self.machines;
        match action {
            Action::Wait(time) => self.wait(time),
            Action::Kill(place) => {
                self.note_memory(place)?;
                self.machines.kill(place)
            }
            Action::SwitchOff(place) => {
                self.note_memory(place)?;
                self.machines.switch_off(place)
            }
            Action::Start(place) => machines.start(place),
            Action::KillEtcd(place) => machines.kill_etcd(place),
            Action::Freeze(place) => machines.signal(place, Signal::STOP),
            Action::Thaw(place) => machines.signal(place, Signal::CONT),
            Action::FreezeEtcd(place) => machines.signal_etcd(place, Signal::STOP),
            Action::ThawEtcd(place) => machines.signal_etcd(place, Signal::CONT),
            Action::Unplug(party) => machines.network()?.unplug(party),
            Action::Plug(party) => machines.network()?.plug(party),
            Action::Cut(from, to) => machines.network()?.cut(from, to),
            Action::Heal(from, to) => machines.network()?.heal(from, to),
            Action::Slow(party, kilobits) => machines.network()?.slow(party, kilobits),
            Action::Unslow(party) => machines.network()?.unslow(party),
            Action::Maintenance(place, is_on) => {
                let switch = if is_on { "on" } else { "off" };
                let arguments = ["node", "maintenance", switch, &name(place)];
                let _: Value = cli::json(&self.apis(), &arguments)?;
                Ok(())
            }
            Action::Fill(place) => fill(&machines.directory(place)),
            Action::Free(place) => {
                world::resize_memory(&machines.directory(place), DIRECTORY_BYTES)
            }
            Action::Damage(place, how, seed) => damage(machines, place, how, seed),
        }
    }

    fn wait(&mut self, time: Duration) -> Result<()> {
        let end = Instant::now() + time;
        loop {
            self.machines.check_running()?;
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            std::thread::sleep(left.min(LOOK));
        }
    }
}

/// Leaves a file system in memory next to no room.
fn fill(directory: &Path) -> Result<()> {
    let room = rustix::fs::statvfs(directory).context("look at a file system")?;
    let used = (room.f_blocks - room.f_bfree) * room.f_frsize;
    world::resize_memory(directory, used + LEFT_BYTES)
}

fn damage(machines: &Machines, place: usize, how: Damage, seed: u64) -> Result<()> {
    let path = &machines.device(place);
    match how {
        Damage::Pages => spoil_pages(&Device::at_rest(path)?, seed),
        Damage::Journal => {
            Device::at_rest(path)?.spoil_journal(JOURNAL_STRIDE)?;
            Ok(())
        }
        // Its node makes a new one: an operator says that it is to have one.
        Damage::Replaced => {
            fs::remove_file(path).context("remove a device")?;
            let noted = machines.directory(place).join("devices.toml");
            match fs::remove_file(noted) {
                // It has not noted them yet.
                Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
                removed => removed.context("have the node forget its devices"),
            }
        }
    }
}

/// Spoils about half of the pages, each in one of the ways that there are.
fn spoil_pages(device: &Device, seed: u64) -> Result<()> {
    let mut prng = Prng::from_seed(seed);
    let slots = device.used_slots()?;
    let (mut spoiled, count) = (0, slots.len());
    for slot in slots {
        match prng.below(8) {
            0 if slot.mask != 0 => drop(device.spoil_block(slot, prng.below(64) as u32)?),
            1 => device.spoil_slot(slot)?,
            2 => device.spoil_entry(slot, &[prng.below(2) as usize])?,
            3 => device.spoil_entry(slot, &[0, 1])?,
            _ => continue,
        }
        spoiled += 1;
    }
    say(&format!(
        "               spoiled {spoiled} of {count} pages"
    ));
    Ok(())
}
