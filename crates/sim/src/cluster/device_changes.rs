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
    Absence, Condition, DeviceOrder, DeviceRefused, DeviceState, DeviceStatus, Event, JournalMark,
    NodeStatus, OpenFailure,
};
use holdfast_model::record::Membership;
use holdfast_model::{DiskId, NodeId, SliceId};
use holdfast_stdx::Duration;

use super::node::ProcessId;
use super::{Cluster, Fault, Happening};
use crate::failure::Failure;
use crate::invariants::Facts;

/// Something is ordered about a node's devices, or happens to one. A number picks one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceChange {
    /// The operator adds one.
    Add(u16),
    /// The operator puts a new one in the place of another.
    Replace(u16),
    /// The operator has one drained.
    Drain(u16),
    /// It is not to be drained any more.
    Resume(u16),
    /// The operator removes one.
    Remove(u16),
    /// The operator gives up what an absent one had.
    GiveUp(u16),
    /// One is taken out of a node that is off.
    Pull(u16),
    /// Those that were taken out are there again, for the next start.
    PutBack,
    /// Those that were taken out are dead, if others have what is on them.
    Discard,
    /// One fails as soon as others have what is on it: writes and flushes end in errors.
    Fail(u16),
    /// The one with the journal fails.
    FailJournal,
}

/// What is done about a device in the end.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Settling {
    Resume,
    Remove,
    Replace,
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
            DeviceChange::Add(pick) => self.add_device(node, pick, None)?,
            DeviceChange::Replace(pick) => match self.pick(node, pick, |it| it.ordinal != 0) {
                Some(replaced) => self.add_device(node, pick, Some(replaced))?,
                None => false,
            },
            DeviceChange::Drain(pick) => {
                let wanted = |it: &DeviceStatus| it.ordinal != 0 && it.state == DeviceState::InUse;
                let ordinal = self.pick(node, pick, wanted);
                self.order_about(node, ordinal, |ordinal| DeviceOrder::Drain { ordinal })?
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
            DeviceChange::PutBack => self.node(node).bays.put_back(),
            DeviceChange::Discard => {
                let is_elsewhere = self.is_spare(node) || !is_off && self.lacking(node).is_none();
                is_elsewhere && self.node(node).bays.discard()
            }
            DeviceChange::Fail(pick) => self.doom(node, pick),
            DeviceChange::FailJournal => {
                let state = self.node(node);
                state.disks_bad = true;
                state.disks[0].fail();
                true
            }
        };
        self.node(node).is_touched |= done;
        Ok(done)
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
    ) -> Result<bool, Failure> {
        let statuses = self.devices(node);
        if statuses.is_empty() {
            return Ok(false);
        }
        // The journal stays where it is: which device has it is what faults are chosen by.
        let has_journal = |ordinal: &u16| {
            let mut statuses = statuses.iter();
            statuses.any(|it| it.ordinal == *ordinal && it.journal == JournalMark::Here)
        };
        let replaces = replaces.filter(|ordinal| !has_journal(ordinal));
        let state = self.node(node);
        let spare: Vec<DiskId> = state.bays.spare().collect();
        let can_grow = state.disks.len() < DISKS_MAX;
        let disk = if !spare.is_empty() && (pick.is_multiple_of(2) || !can_grow) {
            spare[usize::from(pick / 2) % spare.len()]
        } else if can_grow {
            let bytes = state.plan.page_device_bytes + u64::from(pick % 3) * GROWTH_BYTES;
            state.new_disk(bytes)
        } else {
            return Ok(false);
        };
        state.bays.set_open(disk, true);
        let order = DeviceOrder::Add {
            geometry: state.geometry_of(disk),
            id: state.prng.next_u64(),
            replaces,
            journal_room: false,
        };
        self.order_device(node, order)?;
        Ok(true)
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

    /// Tells a node that runs.
    fn order_device(&mut self, node: NodeId, order: DeviceOrder) -> Result<(), Failure> {
        let process = self.nodes[&node].process.as_ref();
        let process = process.expect("its devices were looked at").id;
        let is_absent = |ordinal: u16| {
            let statuses = self.devices(node);
            let mut statuses = statuses.iter();
            statuses.any(|it| it.ordinal == ordinal && it.absent.is_some())
        };
        let point = match order {
            DeviceOrder::Add { replaces: None, .. } => "add",
            DeviceOrder::Add {
                replaces: Some(old),
                ..
            } if is_absent(old) => "replace an absent one",
            DeviceOrder::Add { .. } => "replace",
            DeviceOrder::Drain { .. } => "drain",
            DeviceOrder::Resume { .. } => "resume",
            DeviceOrder::Remove { gives_up: true, .. } => "give up",
            DeviceOrder::Remove { ordinal, .. } if is_absent(ordinal) => "remove an absent one",
            DeviceOrder::Remove { .. } => "remove",
        };
        let number = self.invariants.device_ordered(node, (order, point));
        self.tell(process, Event::Order { number, order })
    }

    /// An order is answered.
    pub(super) fn device_ordered(
        &mut self,
        ProcessId { node, .. }: ProcessId,
        number: u64,
        result: Result<u16, DeviceRefused>,
    ) -> Result<(), Failure> {
        let (order, point) = self.invariants.device_answered(node, number)?;
        let Err(refused) = result else {
            self.watch.coverage.reach("device order", point);
            return Ok(());
        };
        self.watch
            .coverage
            .reach("device order refused", reason(refused));
        let lacks_one = self.devices(node).iter().any(|it| it.absent.is_some());
        let mut facts = Facts {
            is_blank: false,
            is_failing: false,
            lacks_one,
        };
        if let DeviceOrder::Add { geometry, .. } = order {
            let state = self.node(node);
            state.bays.set_open(geometry.disk, false);
            let disk = &state.disks[usize::from(geometry.disk.0)];
            facts.is_blank = disk.is_blank();
            facts.is_failing = disk.is_failing();
        }
        self.invariants.device_refused(node, &order, refused, facts)
    }

    /// A device of a node that is off is taken out: seldom the one with the journal.
    fn pull(&mut self, node: NodeId, pick: u16) -> bool {
        let state = self.node(node);
        let there: Vec<DiskId> = state.bays.there().collect();
        let others: Vec<DiskId> = there.iter().copied().filter(|it| it.0 != 0).collect();
        let chosen = if pick.is_multiple_of(16) {
            there
        } else {
            others
        };
        let Some(place) = usize::from(pick / 16).checked_rem(chosen.len()) else {
            return false;
        };
        state.bays.pull(chosen[place]);
        state.is_wounded = true;
        true
    }

    /// A device that is not the one with the journal is to fail.
    fn doom(&mut self, node: NodeId, pick: u16) -> bool {
        let bays = &mut self.node(node).bays;
        let others: Vec<DiskId> = bays.there().filter(|it| it.0 != 0).collect();
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
        let journal = DiskId(0);
        let state = self.node(node);
        if !state.bays.is_open(journal) {
            // It was put back while the others were looked at.
            if state.bays.is_given(journal) {
                self.start_soon(node);
            }
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

    /// The slice of which a node that runs has not all, though the record says so.
    fn lacking(&self, node: NodeId) -> Option<SliceId> {
        let store = self.nodes[&node].store;
        let lacking = self.slices().find(|record| {
            let replica = record.replica(node).filter(|it| it.store == store);
            let counts = replica.is_some_and(|it| it.membership == Membership::InSync);
            counts && !self.is_whole(node, record)
        });
        lacking.map(|record| record.slice)
    }

    /// It is noted whether a node has what its record says, for it is about to end.
    pub(super) fn heal(&mut self, node: NodeId) {
        if self.nodes[&node].is_wounded && self.nodes[&node].process.is_some() {
            self.node(node).is_wounded = self.lacking(node).is_some();
        }
    }

    /// Nothing happens to devices any more, and those that are not dead are there.
    pub(crate) fn end_device_faults(&mut self) {
        for state in self.nodes.values_mut() {
            state.is_touched |= state.bays.put_back();
            state.bays.end_doom();
            state.disks.iter_mut().for_each(|disk| disk.recover());
        }
    }

    /// What is not as it should be in the end with nodes' devices; it is seen to.
    pub(crate) fn devices_unsettled(&mut self) -> Option<String> {
        let mut nodes = self.node_ids().into_iter();
        nodes.find_map(|node| {
            let what = self.devices_unsettled_of(node)?;
            Some(format!("{node}: {what}"))
        })
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
            if let Some(settling) = self.settling(node, &device) {
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
        self.node(node).is_wounded = false;
        None
    }

    /// What is done about a device that is not simply used: it differs from one to the next.
    fn settling(&self, node: NodeId, device: &DeviceStatus) -> Option<Settling> {
        let is_even = (node.0 + device.ordinal).is_multiple_of(2);
        let has_room = self.nodes[&node].disks.len() < DISKS_MAX;
        match (device.state, device.absent) {
            (DeviceState::Leaving, _) => None,
            (_, Some(_)) if is_even && has_room => Some(Settling::Replace),
            (_, Some(_)) => Some(Settling::Remove),
            (_, None) if is_even => Some(Settling::Resume),
            (_, None) => (device.pages_used == 0).then_some(Settling::Remove),
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
            Settling::Replace => self.add_device(node, 1, Some(ordinal)).map(drop),
        }
    }
}

fn remove(ordinal: u16, gives_up: bool) -> DeviceOrder {
    DeviceOrder::Remove { ordinal, gives_up }
}

const fn reason(refused: DeviceRefused) -> &'static str {
    match refused {
        DeviceRefused::Unknown { .. } => "unknown",
        DeviceRefused::Journal => "journal",
        DeviceRefused::NoRoom { .. } => "no room",
        DeviceRefused::NotEmpty { .. } => "not empty",
        DeviceRefused::Absent => "absent",
        DeviceRefused::Lacking { .. } => "lacking",
        DeviceRefused::NotBlank { .. } => "holds something",
        DeviceRefused::InUse => "in use",
        DeviceRefused::NotFlash => "not flash",
        DeviceRefused::TooSmall { .. } => "too small",
        DeviceRefused::BadSector { .. } => "bad sector",
        DeviceRefused::TooMany => "too many",
        DeviceRefused::TooLarge => "too large",
        DeviceRefused::Failed => "failed",
        DeviceRefused::NotOpen => "not open",
        DeviceRefused::Busy => "busy",
    }
}
