//! Devices that come and go while the store is open.
//!
//! One order is carried out at a time. A change of the list of devices goes to the device with the
//! journal first, copy by copy, then to all others of the new list: a start in between finds the old list
//! or the new one, and either is right.
//!
//! Invariants:
//! - nothing is written to a device that holds anything, but for what has left this very store;
//! - a device gives out slots when every device of the store has the list that has it, and leaves when none
//!   of its slots is used and nothing is under way on it; an absent one when no page is lacking;
//! - a device that was missing and is there again counts when nothing is left over on it, and no page is written before;
//! - pages leave a device only if the others have room for all of them, and for what is promised.

mod joining;
mod writes;

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use holdfast_format::{
    DeviceList, DeviceState, JournalMark, ListedDevice, SUPERBLOCK_BYTES, SUPERBLOCK_OFFSETS,
};
use holdfast_model::{DiskCompletion, DiskId, DiskOp};

use crate::absent;
use crate::event::{Output, StoreEvent, StoreToken};
use crate::journal_move;
use crate::look::Look;
use crate::machine::{Core, DEVICES_TOKENS};
use crate::members::Member;
use crate::order::{DeviceOrder, DeviceRefused, DeviceStatus};
use crate::superblocks::Copies;

/// Orders that wait for their turn at most: each takes a few writes.
const ORDERS_MAX: usize = 16;

/// What is being done for the order under way.
#[derive(Debug)]
enum Step {
    /// Both superblocks of the device that is to be added are being read.
    Read(Copies),
    /// It is made one that is being added.
    Join { copy: usize },
    /// Nothing may be under way on the device that is to leave.
    Quiet,
    /// What is in the superblocks of all devices is being read.
    Look(Look),
    /// The new list is being written where the journal is.
    First { copy: usize },
    /// It is being written to the others.
    Others { copy: usize },
    /// The superblocks of the device that has left become zeros.
    Wipe { copy: usize },
}

/// What is to be done with the list.
#[derive(Clone, Copy, Debug)]
enum Task {
    Order(DeviceOrder),
    /// Devices that were missing and are there again count from now on.
    Return,
    /// The place where the journal was is not needed any more.
    Settle,
}

#[derive(Debug)]
struct Ordered {
    task: Task,
    /// Nobody waits for what the store does by itself.
    token: Option<StoreToken>,
}

#[derive(Debug)]
struct UnderWay {
    ordered: Ordered,
    step: Step,
    /// The device that it is about.
    ordinal: u16,
    /// The device that comes or goes.
    member: Option<Member>,
    in_flight: u32,
    /// Slots that there will be fewer when it is done, and that nobody else may be promised.
    promised: u32,
}

/// The store's devices, and the orders that change them.
#[derive(Debug)]
pub(crate) struct Devices {
    /// The one with the journal, then the others in the order of their ordinals.
    pub(crate) members: Vec<Member>,
    /// The numbers of those that the list says are absent, and that are there again.
    back: Vec<u16>,
    orders: VecDeque<Ordered>,
    under_way: Option<UnderWay>,
    /// Of each device the copy of its superblock that is written first, if that is not the first one.
    written_first: BTreeMap<DiskId, usize>,
    next_token: u64,
}

impl Devices {
    /// `back` are the numbers of those that were missing, and are there again.
    pub(crate) fn new(members: Vec<Member>, back: Vec<u16>) -> Self {
        Self {
            members,
            back,
            orders: VecDeque::new(),
            under_way: None,
            written_first: BTreeMap::new(),
            next_token: DEVICES_TOKENS,
        }
    }

    pub(crate) fn list(&self) -> &DeviceList {
        let (_, first) = &self.members[0];
        &first.list
    }

    pub(crate) fn member(&self, ordinal: u16) -> Option<&Member> {
        let mut members = self.members.iter();
        members.find(|(_, found)| found.ordinal == ordinal)
    }

    /// Whether no order is being carried out, and all devices that are there count.
    pub(crate) fn are_at_rest(&self) -> bool {
        self.under_way.is_none() && self.back.is_empty()
    }

    /// Whether a device is being removed.
    pub(crate) fn is_about_to_leave(&self, ordinal: u16) -> bool {
        let under_way = self.under_way.as_ref();
        under_way.is_some_and(|under_way| {
            let task = under_way.ordered.task;
            let is_removed = matches!(task, Task::Order(DeviceOrder::Remove { .. }));
            is_removed && under_way.ordinal == ordinal
        })
    }

    /// Gives all devices a changed list.
    pub(crate) fn change_list(&mut self, change: impl FnOnce(&mut DeviceList)) {
        let mut list = self.list().clone();
        list.generation += 1;
        change(&mut list);
        for (_, superblock) in &mut self.members {
            superblock.list = list.clone();
            superblock.device_count = list.devices.len() as u16;
            superblock.update += 1;
        }
    }
}

impl Core {
    pub(crate) fn order(&mut self, order: DeviceOrder, token: StoreToken, out: &mut Output) {
        if self.devices.orders.len() == ORDERS_MAX {
            let result = Err(DeviceRefused::Busy);
            out.events
                .push_back(StoreEvent::DeviceOrdered { token, result });
            return;
        }
        let (task, token) = (Task::Order(order), Some(token));
        self.devices.orders.push_back(Ordered { task, token });
    }

    /// What the store has, in the order of their numbers, and what is just leaving it.
    pub(crate) fn device_statuses(&self) -> Vec<DeviceStatus> {
        let bad_blocks = self.bad_blocks_by_disk();
        let status = |(geometry, found): &Member| DeviceStatus {
            disk: Some(geometry.disk),
            ordinal: found.ordinal,
            id: found.device_id,
            tier: Some(found.tier),
            state: self.state_of(found.ordinal),
            absent: None,
            journal: self.mark_of(found.ordinal),
            pages: u64::from(found.layout.slot_count),
            pages_used: u64::from(self.pages.used_slots(geometry.disk)),
            bad_blocks: bad_blocks.get(&geometry.disk).copied().unwrap_or(0),
        };
        let under_way = self.devices.under_way.as_ref();
        let leaving = under_way.filter(|under_way| {
            let task = under_way.ordered.task;
            matches!(task, Task::Order(DeviceOrder::Remove { .. }))
        });
        let leaving = leaving.and_then(|under_way| under_way.member.as_ref());
        let members = self.devices.members.iter().chain(leaving);
        let mut statuses: Vec<DeviceStatus> = members.map(status).collect();
        statuses.extend(self.absent_statuses());
        statuses.sort_by_key(|status| status.ordinal);
        statuses
    }

    /// What is done with a device; one that is just leaving is not in the list any more.
    pub(crate) fn state_of(&self, ordinal: u16) -> DeviceState {
        let listed = self.devices.list().device(ordinal);
        listed.map_or(DeviceState::Leaving, |listed| listed.state)
    }

    pub(crate) fn mark_of(&self, ordinal: u16) -> JournalMark {
        let listed = self.devices.list().device(ordinal);
        listed.map_or(JournalMark::None, |listed| listed.journal)
    }

    /// Begins what is ordered, and what has become due: after every event.
    pub(crate) fn go_on_ordering(&mut self, out: &mut Output) {
        while self.awaited.is_none() && !self.journal_move.is_switching() {
            if self.devices.under_way.is_none() {
                let Some(ordered) = self.next_order() else {
                    return;
                };
                self.begin_order(ordered, out);
                continue;
            }
            let under_way = self.devices.under_way.as_ref().expect("it was just there");
            if !matches!(under_way.step, Step::Quiet) {
                return;
            }
            let ordinal = under_way.ordinal;
            let member = self.devices.member(ordinal);
            if member.is_some_and(|(geometry, _)| !self.requests.is_idle(geometry.disk)) {
                return;
            }
            self.let_leave(ordinal);
        }
    }

    /// The next order; a device that is to leave, and is empty, does so unasked. None is carried out before
    /// those that are there again count, which waits for what is left over on them, nor while the journal's former place is needed.
    fn next_order(&mut self) -> Option<Ordered> {
        let token = None;
        if self.devices.list().next_journal().is_some() {
            let task = Task::Settle;
            return Some(Ordered { task, token });
        }
        if !self.devices.back.is_empty() {
            let task = Task::Return;
            let may_count = !self.pages.has_leftovers() && !self.pages.is_in_round();
            return may_count.then_some(Ordered { task, token });
        }
        let mut listed = self.devices.list().devices.iter();
        // One that would be refused waits: nothing would come of it but the same order again.
        let leaves = listed.find(|device| {
            let may_leave = || self.check_remove(device.ordinal, false).is_ok();
            device.state == DeviceState::Leaving && may_leave()
        });
        if let Some(ListedDevice { ordinal, .. }) = leaves {
            let order = DeviceOrder::Remove {
                ordinal: *ordinal,
                gives_up: false,
            };
            let task = Task::Order(order);
            return Some(Ordered { task, token });
        }
        self.devices.orders.pop_front()
    }

    fn begin_order(&mut self, ordered: Ordered, out: &mut Output) {
        let order = match ordered.task {
            Task::Order(order) => order,
            Task::Return => {
                let back = core::mem::take(&mut self.devices.back);
                return self.begin_by_itself(ordered, |list| absent::take_back(list, &back));
            }
            Task::Settle => return self.begin_by_itself(ordered, journal_move::settled),
        };
        let result = match order {
            DeviceOrder::Add {
                geometry,
                replaces,
                journal_room,
                ..
            } => self.check_add(&geometry, replaces, journal_room),
            DeviceOrder::Drain { ordinal } => self.check_drain(ordinal),
            DeviceOrder::Resume { ordinal } => self.check_listed(ordinal),
            DeviceOrder::Remove { ordinal, gives_up } => self.check_remove(ordinal, gives_up),
        };
        let step = match order {
            DeviceOrder::Add { .. } => Step::Read([None, None]),
            DeviceOrder::Drain { .. } | DeviceOrder::Resume { .. } => Step::Look(Look::default()),
            DeviceOrder::Remove { .. } => Step::Quiet,
        };
        match result {
            Err(refused) => answer(ordered.token, Err(refused), out),
            Ok(promised) => {
                let ordinal = match order {
                    // It gets one when it is known to be blank.
                    DeviceOrder::Add { .. } => u16::MAX,
                    DeviceOrder::Drain { ordinal }
                    | DeviceOrder::Resume { ordinal }
                    | DeviceOrder::Remove { ordinal, .. } => ordinal,
                };
                // To drain what is drained changes nothing.
                let is_done = match order {
                    DeviceOrder::Drain { .. } => self.state_of(ordinal) != DeviceState::InUse,
                    DeviceOrder::Resume { .. } => self.state_of(ordinal) == DeviceState::InUse,
                    DeviceOrder::Add { .. } | DeviceOrder::Remove { .. } => false,
                };
                if is_done {
                    return answer(ordered.token, Ok(ordinal), out);
                }
                self.devices.under_way = Some(UnderWay {
                    ordered,
                    step,
                    ordinal,
                    member: None,
                    in_flight: 0,
                    promised,
                });
                self.start(order);
            }
        }
    }

    /// Changes the list as the store itself wants it.
    fn begin_by_itself(&mut self, ordered: Ordered, change: impl FnOnce(&mut DeviceList)) {
        self.devices.under_way = Some(UnderWay {
            ordered,
            step: Step::Look(Look::default()),
            ordinal: u16::MAX,
            member: None,
            in_flight: 0,
            promised: 0,
        });
        self.devices.change_list(change);
        self.look();
    }

    /// Whether nothing is done to pages but that what is left over is cleared: as long as a device that was missing,
    /// and is there again, does not count yet.
    pub(crate) fn only_clears(&self) -> bool {
        let under_way = self.devices.under_way.as_ref();
        let returns = |it: &UnderWay| matches!(it.ordered.task, Task::Return);
        !self.devices.back.is_empty() || under_way.is_some_and(returns)
    }

    fn start(&mut self, order: DeviceOrder) {
        match order {
            DeviceOrder::Add { geometry, .. } => {
                // The first copy has an even one.
                self.devices.next_token = self.devices.next_token.next_multiple_of(2);
                for offset in SUPERBLOCK_OFFSETS {
                    let length = SUPERBLOCK_BYTES as u32;
                    self.ask_device(geometry.disk, DiskOp::Read { offset, length });
                }
            }
            DeviceOrder::Drain { ordinal } => {
                self.stop_giving(ordinal);
                self.devices.change_list(|list| {
                    set_state(list, ordinal, DeviceState::Draining);
                });
                self.look();
            }
            DeviceOrder::Resume { ordinal } => {
                self.devices.change_list(|list| {
                    set_state(list, ordinal, DeviceState::InUse);
                });
                self.look();
            }
            DeviceOrder::Remove { ordinal, .. } => self.stop_giving(ordinal),
        }
    }

    /// Nothing is given out of an absent device.
    fn stop_giving(&mut self, ordinal: u16) {
        if let Some((geometry, _)) = self.devices.member(ordinal) {
            self.pages.drain(geometry.disk);
        }
    }

    fn begin_giving(&mut self, ordinal: u16) {
        if let Some((geometry, _)) = self.devices.member(ordinal) {
            self.pages.begin_giving(geometry.disk);
        }
    }

    /// Slots that an order takes away when it is done.
    pub(crate) fn promised_to_orders(&self) -> u32 {
        let under_way = self.devices.under_way.as_ref();
        under_way.map_or(0, |under_way| under_way.promised)
    }

    fn step(&mut self, step: Step) {
        let under_way = self.devices.under_way.as_mut();
        under_way.expect("an order is under way").step = step;
    }

    /// Takes the end of a request for an order.
    ///
    /// # Errors
    /// If a device of the store has failed.
    pub(crate) fn handle_devices(
        &mut self,
        completion: DiskCompletion,
        out: &mut Output,
    ) -> Result<(), ()> {
        let under_way = self.devices.under_way.as_mut();
        let under_way = under_way.expect("requests are for the order under way");
        under_way.in_flight -= 1;
        let failed = completion.result.is_err();
        match &mut under_way.step {
            Step::Read(copies) => {
                // Each is asked for once, in order; their ends come in any order.
                let copy = (completion.token.0 % 2) as usize;
                copies[copy] = Some(completion.result);
                if under_way.in_flight == 0 {
                    self.candidate_read(out);
                }
            }
            Step::Join { .. } if failed => self.refuse(DeviceRefused::Failed, out),
            Step::Join { copy: 0 } => {
                self.write_joining(1);
            }
            Step::Join { .. } => self.let_join(),
            Step::Quiet => unreachable!("nothing is asked for in this step"),
            Step::Look(look) => {
                look.take(completion);
                if look.is_done() {
                    self.devices.written_first = look.written_first();
                    self.write_first(0);
                }
            }
            Step::First { .. } | Step::Others { .. } if failed => return Err(()),
            Step::First { copy: 0 } => self.write_first(1),
            Step::First { .. } => {
                if self.devices.members.len() > 1 {
                    self.write_others(0);
                } else {
                    self.listed(out);
                }
            }
            Step::Others { copy } => {
                let copy = *copy;
                if under_way.in_flight == 0 {
                    if copy == 0 {
                        self.write_others(1);
                    } else {
                        self.listed(out);
                    }
                }
            }
            // It has left: what becomes of it is no longer the store's concern.
            Step::Wipe { copy: 1 } => self.wipe(0),
            Step::Wipe { .. } => self.end_order(out),
        }
        Ok(())
    }

    fn refuse(&mut self, refused: DeviceRefused, out: &mut Output) {
        let under_way = self.devices.under_way.take();
        let under_way = under_way.expect("an order is under way");
        answer(under_way.ordered.token, Err(refused), out);
    }

    /// Nothing is on the device, or under way on it: now the list loses it.
    fn let_leave(&mut self, ordinal: u16) {
        let members = &mut self.devices.members;
        let place = members
            .iter()
            .position(|(_, found)| found.ordinal == ordinal);
        // An absent one is in the list only.
        let member = place.map(|place| members.remove(place));
        let under_way = self.devices.under_way.as_mut();
        under_way.expect("an order is under way").member = member;
        self.devices
            .change_list(|list| absent::take_out(list, ordinal));
        self.look();
    }

    /// Every device of the store has the new list.
    fn listed(&mut self, out: &mut Output) {
        let under_way = self.devices.under_way.as_ref();
        let under_way = under_way.expect("an order is under way");
        let is_absent = under_way.member.is_none();
        let Task::Order(order) = under_way.ordered.task else {
            return self.end_order(out);
        };
        match order {
            DeviceOrder::Add {
                geometry, replaces, ..
            } => {
                self.pages.begin_giving(geometry.disk);
                if let Some(old) = replaces {
                    self.stop_giving(old);
                }
                self.end_order(out);
            }
            DeviceOrder::Drain { .. } => self.end_order(out),
            DeviceOrder::Resume { ordinal } => {
                self.begin_giving(ordinal);
                self.end_order(out);
            }
            DeviceOrder::Remove { ordinal, .. } if is_absent => {
                let disk = None;
                out.events
                    .push_back(StoreEvent::DeviceLeft { disk, ordinal });
                self.end_order(out);
            }
            DeviceOrder::Remove { .. } => self.wipe(1),
        }
    }

    fn end_order(&mut self, out: &mut Output) {
        let under_way = self.devices.under_way.take();
        let under_way = under_way.expect("an order is under way");
        let ordinal = under_way.ordinal;
        if let Some((geometry, _)) = under_way.member {
            let disk = geometry.disk;
            self.pages.remove_device(disk);
            let disk = Some(disk);
            out.events
                .push_back(StoreEvent::DeviceLeft { disk, ordinal });
        }
        answer(under_way.ordered.token, Ok(ordinal), out);
    }
}

fn answer(token: Option<StoreToken>, result: Result<u16, DeviceRefused>, out: &mut Output) {
    if let Some(token) = token {
        out.events
            .push_back(StoreEvent::DeviceOrdered { token, result });
    }
}

fn set_state(list: &mut DeviceList, ordinal: u16, state: DeviceState) {
    let mut devices = list.devices.iter_mut();
    let device = devices.find(|device| device.ordinal == ordinal);
    device.expect("the list has the device").state = state;
}
