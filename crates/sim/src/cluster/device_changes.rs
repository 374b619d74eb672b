//! Devices of nodes that come and go: what the operator orders about them, and what happens to them.
//!
//! Whoever orders something does not know what there is: what is drawn picks one of the devices that there
//! are then.
//!
//! Invariants:
//! - a device that is taken out is put back in the end, so that nothing is lost with it; one that fails, or is
//!   dead, takes only what another node has;
//! - in the end every node is without none of its devices, and has ended what was begun.

use holdfast_engine::{
    Absence, Condition, DeviceOrder, DeviceState, DeviceStatus, JournalMark, NodeStatus,
    OpenFailure,
};
use holdfast_model::{DiskId, NodeId, SliceId};
use holdfast_stdx::Duration;

use super::devices::go_back;
use super::journal_place::{has_place_for_journal, with_journal};
use super::node::ProcessId;
use super::{Cluster, Fault, Happening};
use crate::failure::Failure;

/// Something is ordered about a node's devices, or happens to one. A number picks one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceChange {
    /// The operator adds one.
    Add(u16),
    /// The operator adds one with room for the journal.
    AddRoom(u16),
    /// The operator puts a new one in the place of another.
    Replace(u16),
    /// The same for the one with the journal.
    ReplaceJournal(u16),
    /// The operator has one drained.
    Drain(u16),
    /// The operator has the one with the journal drained.
    DrainJournal,
    /// It is not to be drained any more.
    Resume(u16),
    /// The operator removes one.
    Remove(u16),
    /// The operator gives up what an absent one had.
    GiveUp(u16),
    /// One is taken out of a node that is off.
    Pull(u16),
    /// The one with the journal is; at times the one that it is about to be on.
    PullJournal(u16),
    /// Those that were taken out are there again, for the next start.
    PutBack,
    /// Those that were taken out are dead, if others have what is on them.
    Discard,
    /// One fails as soon as others have what is on it: writes and flushes end in errors.
    Fail(u16),
    /// The one with the journal fails.
    FailJournal,
    /// The node ends when its journal is about to be on another one.
    EndAnnounced,
}

/// What is done about a device in the end.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Settling {
    Resume,
    Remove,
    Replace,
    /// Another one comes, with room for the journal.
    AddRoom,
}

/// Devices that a node has over time, at most.
const DISKS_MAX: usize = 8;
/// A new device has so much more than those before, or twice as much, or nothing.
const GROWTH_BYTES: u64 = 16 << 20;
/// How long whoever watches over a node takes to start it again.
const RESTART_MS: (u64, u64) = (5, 300);
/// How long an operator waits before ordering something else.
const PATIENCE: Duration = Duration::from_millis(100);

impl Cluster {
    /// Something is ordered about a node's devices, or happens to one. Says whether it was.
    pub(super) fn device_change(
        &mut self,
        node: NodeId,
        change: DeviceChange,
    ) -> Result<bool, Failure> {
        let is_off = self.nodes[&node].process.is_none();
        let done = match change {
            DeviceChange::Add(pick) => self.add_device(node, pick, None, false)?,
            DeviceChange::AddRoom(pick) => self.add_device(node, pick, None, true)?,
            DeviceChange::Replace(pick) => {
                let plain = |it: &DeviceStatus| it.journal != JournalMark::Here;
                let replaced = self.pick(node, pick, plain);
                self.replace_device(node, pick, replaced)?
            }
            DeviceChange::ReplaceJournal(pick) => {
                let replaced = self.ordinal_with_journal(node);
                self.replace_device(node, pick, replaced)?
            }
            DeviceChange::DrainJournal => {
                let ordinal = self.ordinal_with_journal(node);
                self.drain_device(node, ordinal)?
            }
            DeviceChange::Drain(pick) => {
                let wanted = |it: &DeviceStatus| {
                    it.journal != JournalMark::Here && it.state == DeviceState::InUse
                };
                let ordinal = self.pick(node, pick, wanted);
                self.drain_device(node, ordinal)?
            }
            DeviceChange::Resume(pick) => {
                let ordinal = self.pick(node, pick, |it| it.state == DeviceState::Draining);
                self.order_about(node, ordinal, |ordinal| DeviceOrder::Resume { ordinal })?
            }
            DeviceChange::Remove(pick) => {
                let wanted =
                    |it: &DeviceStatus| it.absent.is_some() || it.state == DeviceState::Draining;
                let ordinal = self.pick(node, pick, wanted);
                self.order_about(node, ordinal, |ordinal| remove(ordinal, false))?
            }
            DeviceChange::GiveUp(pick) => {
                let statuses = self.devices(node);
                let absent = statuses.iter().filter(|it| it.absent.is_some());
                let absent: Vec<u16> = absent.map(|it| it.ordinal).collect();
                let ordinal = (!absent.is_empty() && self.is_spare(node))
                    .then(|| absent[usize::from(pick) % absent.len()]);
                self.order_about(node, ordinal, |ordinal| remove(ordinal, true))?
            }
            DeviceChange::Pull(pick) => {
                is_off && self.nodes[&node].is_made && self.pull(node, pick)
            }
            DeviceChange::PullJournal(pick) => {
                is_off && self.nodes[&node].is_made && self.pull_journal(node, pick)
            }
            DeviceChange::PutBack => self.node(node).bays.put_back(),
            DeviceChange::Discard => {
                let is_elsewhere = self.is_spare(node) || !is_off && self.lacking(node).is_none();
                is_elsewhere && self.discard(node)
            }
            DeviceChange::Fail(pick) => self.doom(node, pick),
            DeviceChange::EndAnnounced => {
                self.node(node).journal_seen.is_awaited = true;
                true
            }
            DeviceChange::FailJournal => self.fail_journal(node),
        };
        self.node(node).is_touched |= done;
        Ok(done)
    }

    fn fail_journal(&mut self, node: NodeId) -> bool {
        let state = self.node(node);
        state.disks_bad = true;
        let journal = state.journal_disk();
        state.disks[usize::from(journal.0)].fail();
        true
    }

    /// One of a node's devices: mostly one that is wanted, if there is one.
    fn pick(
        &self,
        node: NodeId,
        pick: u16,
        is_wanted: impl Fn(&DeviceStatus) -> bool,
    ) -> Option<u16> {
        let statuses = self.devices(node);
        let wanted = statuses.iter().filter(|it| is_wanted(it));
        let mut ordinals: Vec<u16> = wanted.map(|it| it.ordinal).collect();
        if ordinals.is_empty() || pick.is_multiple_of(8) {
            ordinals = statuses.iter().map(|it| it.ordinal).collect();
        }
        let place = usize::from(pick / 8).checked_rem(ordinals.len())?;
        Some(ordinals[place])
    }

    /// A new device is added, or one that the node does not use.
    fn add_device(
        &mut self,
        node: NodeId,
        pick: u16,
        replaces: Option<u16>,
        journal_room: bool,
    ) -> Result<bool, Failure> {
        let statuses = self.devices(node);
        if statuses.is_empty() {
            return Ok(false);
        }
        let wants_room = journal_room || has_room(&statuses, replaces);
        let state = self.node(node);
        let spare: Vec<DiskId> = state.bays.spare().collect();
        let can_grow = state.disks.len() < DISKS_MAX;
        let disk = if !spare.is_empty() && (pick.is_multiple_of(2) || !can_grow) {
            spare[usize::from(pick / 2) % spare.len()]
        } else if can_grow {
            let mut bytes = state.plan.page_device_bytes + u64::from(pick % 3) * GROWTH_BYTES;
            // Seldom there is none for it.
            if wants_room && !pick.is_multiple_of(16) {
                bytes += state.plan.store.format.journal_bytes.unwrap_or(0);
            }
            state.new_disk(bytes)
        } else {
            return Ok(false);
        };
        state.bays.set_open(disk, true);
        let order = DeviceOrder::Add {
            geometry: state.geometry_of(disk),
            id: state.prng.next_u64(),
            replaces,
            journal_room,
        };
        self.order_device(node, order)?;
        Ok(true)
    }

    fn replace_device(
        &mut self,
        node: NodeId,
        pick: u16,
        replaced: Option<u16>,
    ) -> Result<bool, Failure> {
        match replaced {
            Some(replaced) => self.add_device(node, pick, Some(replaced), false),
            None => Ok(false),
        }
    }

    /// A device is drained, unless no other one would take pages: what is written then has no room.
    fn drain_device(&mut self, node: NodeId, ordinal: Option<u16>) -> Result<bool, Failure> {
        let state = &self.nodes[&node];
        let statuses = self.devices(node);
        let disk_of = |ordinal| statuses.iter().find(|it| Some(it.ordinal) == ordinal)?.disk;
        let mut others = state.taking_pages();
        others.retain(|disk| Some(*disk) != disk_of(ordinal));
        // Another order may wait that takes one more away.
        let least = 1 + usize::from(self.invariants.has_device_orders(node));
        if others.len() < least {
            return Ok(false);
        }
        self.order_about(node, ordinal, |ordinal| DeviceOrder::Drain { ordinal })
    }

    /// The number of the device with the journal, if the node runs.
    fn ordinal_with_journal(&self, node: NodeId) -> Option<u16> {
        with_journal(&self.devices(node)).map(|device| device.ordinal)
    }

    fn order_about(
        &mut self,
        node: NodeId,
        ordinal: Option<u16>,
        order: impl FnOnce(u16) -> DeviceOrder,
    ) -> Result<bool, Failure> {
        let Some(ordinal) = ordinal else {
            return Ok(false);
        };
        self.order_device(node, order(ordinal))?;
        Ok(true)
    }

    /// A device of a node that is off is taken out: seldom one that the journal needs.
    fn pull(&mut self, node: NodeId, pick: u16) -> bool {
        let state = self.node(node);
        let taking = state.taking_pages();
        let (is_needed, is_last) = (
            |disk: &DiskId| state.is_needed_for_journal(*disk),
            |disk: &DiskId| taking == [*disk],
        );
        // Without the last that takes pages hosts would be told that there is no room.
        let there = state.bays.there();
        let there = there.filter(|disk| is_needed(disk) || !is_last(disk));
        let mut chosen: Vec<DiskId> = there.collect();
        if !pick.is_multiple_of(16) {
            chosen.retain(|disk| !is_needed(disk));
        }
        self.pull_one(node, &chosen, pick / 16)
    }

    /// One that the journal needs is.
    fn pull_journal(&mut self, node: NodeId, pick: u16) -> bool {
        let state = self.node(node);
        let there = state.bays.there();
        let needed = there.filter(|disk| state.is_needed_for_journal(*disk));
        let needed: Vec<DiskId> = needed.collect();
        self.pull_one(node, &needed, pick)
    }

    fn pull_one(&mut self, node: NodeId, disks: &[DiskId], pick: u16) -> bool {
        let Some(place) = usize::from(pick).checked_rem(disks.len()) else {
            return false;
        };
        let state = self.node(node);
        let is_needed = state.is_needed_for_journal(disks[place]);
        state.bays.pull(disks[place]);
        state.is_wounded = true;
        if is_needed {
            self.watch.coverage.reach("device", "journal's taken out");
        }
        true
    }

    /// Those that were taken out are dead, unless the journal needs them.
    fn discard(&mut self, node: NodeId) -> bool {
        let place = self.nodes[&node].journal_place();
        let is_needed = |disk| place.as_ref().is_none_or(|place| place.needs(disk));
        self.node(node).bays.discard(is_needed)
    }

    /// A device that is not the one with the journal is to fail.
    fn doom(&mut self, node: NodeId, pick: u16) -> bool {
        let state = self.node(node);
        let journal = state.journal_disk();
        let taking = state.taking_pages();
        let bays = &mut state.bays;
        let is_last = |disk: &DiskId| taking == [*disk];
        let others = bays.there().filter(|it| *it != journal && !is_last(it));
        let others: Vec<DiskId> = others.collect();
        let Some(place) = usize::from(pick).checked_rem(others.len()) else {
            return false;
        };
        bays.doom(others[place]);
        true
    }

    /// Devices that are to fail do so when something is about to be written on them, and others have what is
    /// on them at that moment: later the record may say otherwise.
    pub(super) fn fail_doomed(&mut self, node: NodeId) {
        let (now, state) = (self.now, &self.nodes[&node]);
        let doomed: Vec<usize> = state.bays.doomed().map(|disk| disk.0.into()).collect();
        let is_due = doomed
            .iter()
            .any(|disk| state.disks[*disk].is_write_due(now));
        if !is_due || self.agreement.is_being_changed() || !self.is_spare(node) {
            return;
        }
        // Without the last that takes pages hosts would be told that there is no room.
        let least = 1 + usize::from(self.invariants.has_device_orders(node));
        if self.nodes[&node].taking_pages().len() < least {
            return;
        }
        let state = self.node(node);
        for disk in doomed {
            state.disks[disk].fail();
        }
        state.bays.end_doom();
        state.is_wounded = true;
        self.watch.coverage.reach("device", "fails");
    }

    /// A device is noted as lost: the process ends, and whoever watches over it starts it again.
    pub(super) fn device_lost(&mut self, process: ProcessId, disk: DiskId) {
        self.watch.coverage.reach("device", "lost");
        let state = self.node(process.node);
        state.is_touched = true;
        state.is_wounded = true;
        if state.prng.chance(1, 2) {
            state.bays.bury(disk);
        } else {
            // It works again, and what is on it is not what was written.
            go_back(&mut state.disks[usize::from(disk.0)]);
        }
        self.end_process(process);
        self.start_soon(process.node);
    }

    pub(super) fn start_soon(&mut self, node: NodeId) {
        let (least, most) = RESTART_MS;
        let pause = self.node(node).prng.between(least, most);
        self.plan_fault(Duration::from_millis(pause), Fault::Start(node));
    }

    /// A node cannot open its devices because of one that fails, or because the one with the journal is not
    /// there. Says whether that is so; the next start does without the one that fails.
    pub(super) fn is_without_device(&mut self, node: NodeId, failure: &OpenFailure) -> bool {
        let state = self.node(node);
        let journal = state.journal_disk();
        let next = state.journal_place().and_then(|place| place.next);
        let mut needed = [Some(journal), next].into_iter().flatten();
        if needed.clone().any(|disk| !state.bays.is_open(disk)) {
            // They were put back while the others were looked at.
            if needed.all(|disk| state.bays.is_given(disk)) {
                self.start_soon(node);
            }
            self.watch.coverage.reach("journal", "not there at a start");
            return true;
        }
        let is_failing = |disk: &DiskId| state.disks[usize::from(disk.0)].is_failing();
        let Some(disk) = failure.disk().filter(is_failing) else {
            return false;
        };
        if disk != journal {
            state.bays.leave_out(disk);
            state.is_touched = true;
            state.is_wounded = true;
            self.watch.coverage.reach("device", "fails at an opening");
            self.start_soon(node);
        }
        true
    }

    /// A node is open: what it lacks is looked at.
    pub(super) fn look_at_devices(&mut self, node: NodeId) {
        let state = &self.nodes[&node];
        if !state.is_touched {
            return;
        }
        let Some(process) = &state.process else {
            return;
        };
        let status = process.engine.status();
        let coverage = &mut self.watch.coverage;
        let absences = status.devices.iter().filter_map(|it| it.absent);
        let absences: Vec<Absence> = absences.collect();
        let count = absences.len();
        for absence in absences {
            let point = if absence.is_lost {
                "away: lost"
            } else {
                "away: missing"
            };
            coverage.reach("device", point);
        }
        if count > 1 {
            coverage.reach("device", "several away");
        }
        if count < state.absent_count {
            coverage.reach("device", "taken back");
        }
        if count > 0 {
            let lacks = |status: &NodeStatus| {
                let mut replicas = status.replicas.iter();
                replicas.any(|replica| replica.condition == Condition::Lacks)
            };
            let point = if lacks(&status) {
                "lacks something"
            } else {
                "lacks nothing"
            };
            coverage.reach("device", point);
        }
        self.node(node).absent_count = count;
    }

    /// The slice of which a node that runs has not all, whatever the record says: blocks that are bad in one that
    /// joins what has changed are still bad when it counts as in sync.
    fn lacking(&self, node: NodeId) -> Option<SliceId> {
        let store = self.nodes[&node].store;
        let lacking = self.slices().find(|record| {
            let replica = record.replica(node).filter(|it| it.store == store);
            replica.is_some() && !self.is_whole(node, record)
        });
        lacking.map(|record| record.slice)
    }

    /// It is noted whether a node has all of its slices, for it is about to end.
    pub(super) fn heal(&mut self, node: NodeId) {
        self.journal_left(node);
        if self.nodes[&node].is_wounded && self.nodes[&node].process.is_some() {
            self.node(node).is_wounded = self.lacking(node).is_some();
        }
    }

    /// Nothing happens to devices any more, and those that are not dead are there.
    pub(crate) fn end_device_faults(&mut self) {
        for state in self.nodes.values_mut() {
            state.is_touched |= state.bays.put_back();
            state.bays.end_doom();
            state.journal_seen.is_awaited = false;
            state.disks.iter_mut().for_each(|disk| disk.recover());
        }
    }

    /// What is not as it should be in the end with nodes' devices; it is seen to. Every node is, however the
    /// others are: what one lacks may be on a device that another one is to be started with.
    pub(crate) fn devices_unsettled(&mut self) -> Option<String> {
        let nodes = self.node_ids().into_iter();
        let unsettled = nodes.filter_map(|node| {
            let what = self.devices_unsettled_of(node)?;
            Some(format!("{node}: {what}"))
        });
        let unsettled: Vec<String> = unsettled.collect();
        (!unsettled.is_empty()).then(|| unsettled.join("; "))
    }

    fn devices_unsettled_of(&mut self, node: NodeId) -> Option<String> {
        let (now, state) = (self.now, &self.nodes[&node]);
        if !state.is_touched {
            return None;
        }
        let Some(process) = &state.process else {
            return Some("is off".into());
        };
        let (id, status) = (process.id, process.engine.status());
        if !status.open {
            return Some("its devices are not open".into());
        }
        if self.invariants.has_device_orders(node) || now < state.orders_rest {
            return Some("an order is under way".into());
        }
        if state.bays.have_returned() {
            self.plan_fault(Duration::ZERO, Fault::Kill(node));
            self.plan_fault(Duration::ZERO, Fault::Start(node));
            self.node(node).orders_rest = now + PATIENCE;
            return Some("devices are there that it does not use yet".into());
        }
        let unsettled =
            |device: &&DeviceStatus| device.state != DeviceState::InUse || device.absent.is_some();
        if let Some(device) = status.devices.iter().find(unsettled) {
            let (what, device) = (format!("{device:?}"), *device);
            if let Some(settling) = self.settling(node, &device, &status.devices) {
                let ordered = Happening::Settle(id, device.ordinal, settling);
                self.schedule(Duration::ZERO, ordered);
                self.node(node).orders_rest = now + PATIENCE;
            }
            return Some(what);
        }
        if state.is_wounded
            && let Some(slice) = self.lacking(node)
        {
            let replicas = status.replicas.iter().filter(|it| it.slice == slice);
            let mut replica = replicas.map(|it| (it.condition.clone(), it.bad_blocks));
            return Some(format!("has not all of {slice}: {:?}", replica.next_back()));
        }
        if state.journal_place().is_some_and(|it| it.next.is_some()) {
            return Some("the journal is about to be elsewhere".into());
        }
        self.node(node).is_wounded = false;
        self.journal_looked_at(node);
        None
    }

    /// What is done about a device that is not simply used: it differs from one to the next.
    fn settling(
        &self,
        node: NodeId,
        device: &DeviceStatus,
        all: &[DeviceStatus],
    ) -> Option<Settling> {
        let is_even = (node.0 + device.ordinal).is_multiple_of(2);
        let has_room = self.nodes[&node].disks.len() < DISKS_MAX;
        let has_journal = device.journal == JournalMark::Here;
        let may_have_journal = device.journal != JournalMark::None;
        let is_needed = may_have_journal && !has_place_for_journal(all, device.ordinal);
        let is_stuck = has_journal && is_needed;
        match (device.state, device.absent) {
            // What was to take its journal has failed since, or is to be empty itself.
            (DeviceState::Leaving, None) if is_stuck && has_room => Some(Settling::AddRoom),
            (_, None) if is_stuck => Some(Settling::Resume),
            (DeviceState::Leaving, _) => None,
            (_, Some(_)) if is_even && has_room => Some(Settling::Replace),
            (_, Some(_)) => Some(Settling::Remove),
            // Where the journal is is to be empty as well, and it has no other place to go.
            (_, None) if is_needed => Some(Settling::Resume),
            (_, None) if is_even => Some(Settling::Resume),
            (_, None) => {
                let is_empty = device.pages_used == 0 && !has_journal;
                is_empty.then_some(Settling::Remove)
            }
        }
    }

    pub(super) fn settle_device(
        &mut self,
        process: ProcessId,
        ordinal: u16,
        settling: Settling,
    ) -> Result<(), Failure> {
        let node = process.node;
        if self.running(process).is_none() {
            return Ok(());
        }
        match settling {
            Settling::Resume => self.order_device(node, DeviceOrder::Resume { ordinal }),
            Settling::Remove => self.order_device(node, remove(ordinal, false)),
            // An odd number picks a new one.
            Settling::Replace => self.add_device(node, 1, Some(ordinal), false).map(drop),
            Settling::AddRoom => self.add_device(node, 1, None, true).map(drop),
        }
    }
}

/// Whether a device has room for the journal, that is to be replaced.
fn has_room(statuses: &[DeviceStatus], replaces: Option<u16>) -> bool {
    let mut replaced = statuses.iter().filter(|it| Some(it.ordinal) == replaces);
    replaced.any(|it| it.journal != JournalMark::None)
}

fn remove(ordinal: u16, gives_up: bool) -> DeviceOrder {
    DeviceOrder::Remove { ordinal, gives_up }
}
