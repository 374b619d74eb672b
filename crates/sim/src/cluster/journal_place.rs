//! Where a node's journal is, as the superblocks of its devices say it.
//!
//! It is told from outside, by the rule of decision 0019, so that what a node says of itself can be held against it.
//!
//! Invariant: whoever looks changes nothing, but for a node that is to end when its journal is about to be elsewhere.

use holdfast_engine::{DeviceState, DeviceStatus, JournalMark};
use holdfast_format::{SUPERBLOCK_BYTES, SUPERBLOCK_OFFSETS, Superblock};
use holdfast_model::{DiskId, NodeId};
use holdfast_stdx::Duration;

use super::node::Node;
use super::{Cluster, DeviceChange, Fault};
use crate::disk::SimDisk;
use crate::failure::Failure;

/// What the devices of a node say of its journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct JournalPlace {
    /// The device that it is on.
    pub(crate) here: DiskId,
    /// The device that it is about to be on: no store is opened without it.
    pub(crate) next: Option<DiskId>,
    /// Some of the store's devices have an older list.
    is_news: bool,
    /// Those that take pages, as the list says.
    in_use: Vec<DiskId>,
}

/// From the announcement until all devices have the last list takes ten writes, one after the other, and a look at all superblocks.
const ANNOUNCED_MICROS_MAX: u64 = 4000;
/// How long a node is off then.
const STRUCK_MS: (u64, u64) = (2, 200);

impl JournalPlace {
    /// Whether no store is opened without a device.
    pub(super) fn needs(&self, disk: DiskId) -> bool {
        self.here == disk || self.next == Some(disk)
    }
}

/// What was seen of a node's journal.
#[derive(Clone, Debug)]
pub(super) struct JournalSeen {
    /// The devices that it was on, the last one last.
    places: Vec<DiskId>,
    /// It was about to be elsewhere when the last process ended.
    was_announced: bool,
    /// The node is to end when it is about to be elsewhere.
    pub(super) is_awaited: bool,
}

impl Default for JournalSeen {
    fn default() -> Self {
        Self {
            places: vec![DiskId(0)],
            was_announced: false,
            is_awaited: false,
        }
    }
}

impl Node {
    /// Where the journal is: none where there is no store yet.
    pub(super) fn journal_place(&self) -> Option<JournalPlace> {
        let disks = match &self.aside {
            Some(aside) => &aside.disks,
            None => &self.disks,
        };
        let own: Vec<(DiskId, Superblock)> = disks
            .iter()
            .filter_map(|disk| Some((disk.id(), superblock_of(disk)?)))
            .filter(|(_, found)| found.store == self.store)
            .collect();
        let journals = own.iter().filter(|(_, found)| found.has_journal());
        let (here, first) = journals.max_by_key(|(_, found)| found.list.generation)?;
        let next = first.list.next_journal();
        let next = next.and_then(|next| own.iter().find(|(_, found)| found.device_id == next.id));
        let is_behind = |(_, found): &(DiskId, Superblock)| {
            let listed = first.list.device_of_id(found.device_id);
            let counts = listed.is_some_and(|listed| listed.absent.is_none());
            counts && found.list.generation < first.list.generation
        };
        let listed = first.list.devices.iter();
        let in_use = listed.filter(|it| it.state == DeviceState::InUse && it.absent.is_none());
        let disk_of = |id: u64| own.iter().find(|(_, found)| found.device_id == id);
        let in_use = in_use.filter_map(|listed| Some(disk_of(listed.id)?.0));
        Some(JournalPlace {
            in_use: in_use.collect(),
            here: *here,
            next: next.map(|(disk, _)| *disk),
            is_news: own.iter().any(is_behind),
        })
    }

    /// The device with the journal; where there is no store yet, the one that gets it.
    pub(super) fn journal_disk(&self) -> DiskId {
        self.journal_place().map_or(DiskId(0), |place| place.here)
    }

    /// Devices that take pages, are there, and are not about to fail.
    pub(super) fn taking_pages(&self) -> Vec<DiskId> {
        let in_use = self.journal_place().map(|place| place.in_use);
        let mut disks = in_use.unwrap_or_default();
        disks.retain(|disk| self.bays.there().any(|it| it == *disk));
        disks.retain(|disk| self.bays.doomed().all(|it| it != *disk));
        disks
    }

    /// Whether no store is opened without a device.
    pub(super) fn is_needed_for_journal(&self, disk: DiskId) -> bool {
        match self.journal_place() {
            Some(place) => place.needs(disk),
            None => disk == DiskId(0),
        }
    }
}

/// Whether the journal could go to a device other than `but`.
pub(super) fn has_place_for_journal(statuses: &[DeviceStatus], but: u16) -> bool {
    statuses.iter().any(|it| {
        it.ordinal != but
            && it.state == DeviceState::InUse
            && it.absent.is_none()
            && matches!(it.journal, JournalMark::Room | JournalMark::Next)
    })
}

/// The device that has the journal, as a node says.
pub(super) fn with_journal(statuses: &[DeviceStatus]) -> Option<&DeviceStatus> {
    let mut statuses = statuses.iter();
    statuses.find(|it| it.journal == JournalMark::Here)
}

impl Cluster {
    /// What a node says of its journal is what its devices say, when nothing is on its way to them.
    pub(super) fn check_journal(&self, node: NodeId) -> Result<(), Failure> {
        let statuses = self.devices(node);
        if statuses.is_empty() {
            return Ok(());
        }
        let here: Vec<&DeviceStatus> = statuses
            .iter()
            .filter(|it| it.journal == JournalMark::Here)
            .collect();
        let place = self.nodes[&node].journal_place();
        let is_so = match here.as_slice() {
            [device] => {
                device.absent.is_none() && device.disk == place.as_ref().map(|place| place.here)
            }
            _ => false,
        };
        if is_so {
            return Ok(());
        }
        Err(Failure::Invariant {
            name: "device_orders",
            what: format!("{node} says that {here:?} has the journal: its devices say {place:?}"),
        })
    }

    /// A device is let go: it is not the one with the journal.
    pub(super) fn check_released(&self, node: NodeId, disk: DiskId) -> Result<(), Failure> {
        let place = self.nodes[&node].journal_place();
        if (place.as_ref()).is_some_and(|place| !place.needs(disk)) {
            return Ok(());
        }
        Err(Failure::Invariant {
            name: "device_orders",
            what: format!(
                "{node} lets disk {} go: the journal is at {place:?}",
                disk.0
            ),
        })
    }

    /// A node that is to end while its journal is about to be elsewhere does, if that is so.
    pub(super) fn strike_announced(&mut self, node: NodeId) {
        let state = self.node(node);
        let is_due = state.journal_seen.is_awaited
            && (state.journal_place()).is_some_and(|place| place.next.is_some());
        if !is_due {
            return;
        }
        state.journal_seen.is_awaited = false;
        let prng = &mut state.prng;
        let struck = Duration::from_micros(prng.below(ANNOUNCED_MICROS_MAX));
        let fault = if prng.chance(1, 3) {
            Fault::Kill(node)
        } else {
            Fault::LosePower(node)
        };
        let back = struck + Duration::from_millis(prng.between(STRUCK_MS.0, STRUCK_MS.1));
        self.plan_fault(struck, fault);
        let is_pulled = self.node(node).prng.chance(1, 3);
        if is_pulled {
            let pick = self.node(node).prng.below(2) as u16;
            let change = DeviceChange::PullJournal(pick);
            self.plan_fault(struck, Fault::Device(node, change));
        }
        self.plan_fault(back, Fault::Start(node));
        if is_pulled {
            let there = back + Duration::from_millis(STRUCK_MS.1);
            self.plan_fault(there, Fault::Device(node, DeviceChange::PutBack));
            self.plan_fault(there, Fault::Kill(node));
            self.plan_fault(there, Fault::Start(node));
        }
    }

    /// A process is about to end: how far the journal's move is then.
    pub(super) fn journal_left(&mut self, node: NodeId) {
        let state = &self.nodes[&node];
        if !state.is_touched || state.process.is_none() {
            return;
        }
        let Some(place) = state.journal_place() else {
            return;
        };
        let statuses = self.devices(node);
        let is_copied = with_journal(&statuses).is_some_and(|device| {
            device.state != DeviceState::InUse && has_place_for_journal(&statuses, device.ordinal)
        });
        let next = place.next;
        let has_moved = state.journal_seen.places.last() != Some(&place.here);
        let point = match (next, has_moved) {
            (Some(_), false) => Some("process ends: announced"),
            (Some(_), true) => Some("process ends: switched"),
            (None, true) if place.is_news => Some("process ends: settled, and not all know"),
            (None, _) => is_copied.then_some("process ends: being copied"),
        };
        if let Some(point) = point {
            self.watch.coverage.reach("journal", point);
        }
        self.node(node).journal_seen.was_announced = next.is_some() && !has_moved;
        self.journal_looked_at(node);
    }

    /// Where the journal is, is noted.
    pub(super) fn journal_looked_at(&mut self, node: NodeId) {
        let state = self.nodes.get_mut(&node).expect("nodes stay");
        let Some(JournalPlace { here, .. }) = state.journal_place() else {
            return;
        };
        let coverage = &mut self.watch.coverage;
        let places = &mut state.journal_seen.places;
        if places.last() == Some(&here) {
            return;
        }
        coverage.reach("journal", "has moved");
        if places.contains(&here) {
            coverage.reach("journal", "has moved back");
        }
        places.push(here);
    }

    /// A node is open: what has become of a move that was announced.
    pub(super) fn journal_opened(&mut self, node: NodeId) {
        let state = self.node(node);
        if !state.is_touched {
            return;
        }
        let seen = &mut state.journal_seen;
        let was_announced = std::mem::take(&mut seen.was_announced);
        let before = seen.places.last().copied();
        if was_announced && before == Some(state.journal_disk()) {
            self.watch
                .coverage
                .reach("journal", "called off at a start");
        }
        self.journal_looked_at(node);
    }
}

/// What a device says of itself.
fn superblock_of(disk: &SimDisk) -> Option<Superblock> {
    let copies = SUPERBLOCK_OFFSETS.into_iter();
    let copies = copies.map(|offset| disk.show(offset, SUPERBLOCK_BYTES as u32));
    let sound = copies.filter_map(|bytes| Superblock::decode(&bytes).ok());
    sound.max_by_key(|found| found.update)
}
