//! The journal's move to another device of the store (decision 0019, point 6).
//!
//! It begins by itself when the journal's device is drained or leaves, and another one has room: the journal is
//! copied there while groups go to both places; then the list on its device announces that it is about to be on the
//! other one, the superblock of that one gets the list that says that it is there, and then all others do. A last list
//! says that the former place is not needed any more.
//!
//! Invariants:
//! - the journal is where the list on its device says; from the announcement until all devices know of the move, the
//!   list on either device says that both are needed, and the newer one counts: what is done after a move was called off is
//!   not known to the device that it was called off for;
//! - from the announcement until all devices know of the move, groups are in both places;
//! - a move that is called off leaves a list that is newer than any in which it was done;
//! - no order about devices is carried out from before the announcement until the end.

use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;

use holdfast_format::{
    DeviceLayout, DeviceList, DeviceRole, DeviceState, JournalMark, SUPERBLOCK_OFFSETS, Superblock,
};
use holdfast_model::{DiskCompletion, DiskId, DiskOp, DiskRequest, DiskToken, Tier};
use holdfast_stdx::Bytes;

use crate::config::DeviceGeometry;
use crate::look::{self, Look};
use crate::machine::{Core, MOVE_TOKENS};
use crate::members::{Member, place_in_order};
use crate::order::DeviceRefused;
use crate::refusals::too_small;
use crate::requests::Urgency;
use crate::superblocks;

/// How far the journal's move is.
#[derive(Debug, Default)]
enum Step {
    /// It stays where it is.
    #[default]
    Stays,
    /// It is being copied.
    Copy,
    /// What is in the superblocks of all devices is being read.
    Look(Look),
    /// The list where it is says that it is about to move.
    Announce { copy: usize },
    /// The superblock of the new device gets the list that says that it is there.
    Switch { copy: usize },
    /// All others get it.
    Others { copy: usize },
}

/// A move of the journal, if there is one.
#[derive(Debug, Default)]
pub(crate) struct JournalMove {
    step: Step,
    /// The device that it goes to.
    to: u16,
    in_flight: u32,
    next_token: u64,
    /// Of each device the copy of its superblock that is written first.
    written_first: BTreeMap<DiskId, usize>,
}

impl JournalMove {
    /// Whether superblocks are being read and written for it.
    pub(crate) fn is_switching(&self) -> bool {
        !matches!(self.step, Step::Stays | Step::Copy)
    }
}

/// The journal stays where it is: whatever list the other device may have been about to get is older than this one.
pub(crate) fn call_off(list: &mut DeviceList) {
    if set_mark(list, JournalMark::Next, JournalMark::Room) {
        // The next generation is that of the list with which it would have been there.
        list.generation += 2;
    }
}

/// Gives the device with one mark another one; whether there is such a device.
fn set_mark(list: &mut DeviceList, old: JournalMark, new: JournalMark) -> bool {
    let mut devices = list.devices.iter_mut();
    let device = devices.find(|device| device.journal == old);
    device.is_some_and(|device| {
        device.journal = new;
        true
    })
}

/// The list with which the journal is where it was about to be, and the former place is needed to tell.
fn switched(list: &mut DeviceList) {
    for device in &mut list.devices {
        device.journal = match device.journal {
            JournalMark::Here => JournalMark::Next,
            JournalMark::Next => JournalMark::Here,
            other => other,
        };
    }
    assert!(list.journal().is_some(), "the move has been announced");
}

/// The list with which the journal's former place is not needed any more.
pub(crate) fn settled(list: &mut DeviceList) {
    set_mark(list, JournalMark::Next, JournalMark::Room);
}

impl Core {
    /// Where the journal could go: the newest device that has room for it.
    pub(crate) fn place_for_journal(&self) -> Option<&Member> {
        self.place_for_journal_but(None)
    }

    /// Whether the journal is on a device or on its way there, and has no other place. One that is absent or not in use is
    /// no place for it to go to.
    pub(crate) fn is_needed_for_journal(&self, ordinal: u16) -> bool {
        let list = self.devices.list();
        let listed = list.device(ordinal);
        let is_place =
            listed.is_some_and(|it| it.state == DeviceState::InUse && it.absent.is_none());
        let concerns = list.journal().is_some_and(|journal| {
            journal.ordinal == ordinal || journal.state != DeviceState::InUse && is_place
        });
        concerns && self.place_for_journal_but(Some(ordinal)).is_none()
    }

    fn place_for_journal_but(&self, but: Option<u16>) -> Option<&Member> {
        let (_, first) = &self.devices.members[0];
        let list = self.devices.list();
        let has_room = |(_, found): &&Member| {
            let listed = list.device(found.ordinal);
            listed.is_some_and(|listed| {
                listed.state == DeviceState::InUse
                    && listed.absent.is_none()
                    && matches!(listed.journal, JournalMark::Room | JournalMark::Next)
            })
        };
        let fits = |(_, found): &&Member| {
            found.tier == Tier::Flash
                && found.layout.segment_bytes == first.layout.segment_bytes
                && found.layout.segment_count >= first.layout.segment_count
                && !self.devices.is_about_to_leave(found.ordinal)
                && Some(found.ordinal) != but
        };
        let members = self.devices.members.iter();
        let fitting = members.filter(has_room).filter(fits);
        fitting.max_by_key(|(_, found)| found.ordinal)
    }

    /// Where things are to be on a device that is added: with room for the journal, if that is wanted, or if it replaces
    /// one that has some.
    ///
    /// # Errors
    /// If it is too small for that, or the journal would not go there.
    pub(crate) fn plan_joining(
        &self,
        geometry: &DeviceGeometry,
        replaces: Option<u16>,
        journal_room: bool,
    ) -> Result<DeviceLayout, DeviceRefused> {
        let plan = |role| superblocks::plan_in_role(geometry, role).map_err(too_small);
        let replaced = replaces.map_or(JournalMark::None, |ordinal| self.mark_of(ordinal));
        let is_flash = geometry.tier == Tier::Flash;
        if (journal_room || replaced == JournalMark::Here) && !is_flash {
            return Err(DeviceRefused::NotFlash);
        }
        if !is_flash || (replaced == JournalMark::None && !journal_room) {
            return plan(DeviceRole::Pages);
        }
        let (_, first) = &self.devices.members[0];
        let here = &first.layout;
        let plan = |journal_bytes| {
            plan(DeviceRole::Journal {
                segment_bytes: here.segment_bytes,
                journal_bytes,
            })
        };
        let listed = replaces.and_then(|ordinal| self.devices.list().device(ordinal));
        let slots_min = listed.map_or(0, |listed| listed.slot_count);
        // Larger than it is, as on a new store's device, where that costs no pages.
        match plan(self.config.format.journal_bytes) {
            Ok(layout)
                if layout.segment_count >= here.segment_count && layout.slot_count >= slots_min =>
            {
                Ok(layout)
            }
            _ => plan(Some(here.journal_bytes())),
        }
    }

    /// Goes on with the journal's move, and begins one that has become due: after every event.
    pub(crate) fn go_on_moving_journal(&mut self) {
        if self.awaited.is_some() || self.journal_move.is_switching() {
            return;
        }
        let to = self.wanted_place().map(|(_, found)| found.ordinal);
        match self.journal_move.step {
            // One that was called off ends first.
            Step::Stays if self.journal.has_copy() || !self.devices.are_at_rest() => {}
            Step::Stays => {
                let place = self.wanted_place();
                let Some((geometry, found)) = place.map(|(at, found)| (*at, found.clone())) else {
                    return;
                };
                self.journal_move.to = found.ordinal;
                self.journal.begin_copy(geometry.disk, found.layout);
                self.journal_move.step = Step::Copy;
                self.go_on_copying();
            }
            _ if to != Some(self.journal_move.to) => {
                self.journal.end_copy();
                self.journal_move.step = Step::Stays;
            }
            _ => self.go_on_copying(),
        }
    }

    /// Where the journal is to go, if it is to go.
    fn wanted_place(&self) -> Option<&Member> {
        let journal = self.devices.list().journal();
        let is_to_go = journal.is_some_and(|listed| listed.state != DeviceState::InUse);
        self.place_for_journal().filter(|_| is_to_go)
    }

    fn go_on_copying(&mut self) {
        while let Some(request) = self.journal.next_copy_request() {
            self.requests.push(request, Urgency::Background);
        }
        // What is placed is on the device that has the journal.
        let is_placed = self.pages.has_placed();
        if self.journal.is_copied() && self.devices.are_at_rest() && !is_placed {
            self.look_for_move();
        }
    }

    fn look_for_move(&mut self) {
        let mut look = Look::default();
        for (disk, copy, op) in look::reads(&self.devices.members) {
            let token = self.ask_for_move(disk, op);
            look.ask(token, disk, copy);
        }
        self.journal_move.step = Step::Look(look);
    }

    fn ask_for_move(&mut self, disk: DiskId, op: DiskOp) -> DiskToken {
        let token = DiskToken(MOVE_TOKENS + self.journal_move.next_token);
        self.journal_move.next_token += 1;
        self.journal_move.in_flight += 1;
        // Few, and while they are under way every group is written twice.
        let request = DiskRequest { token, disk, op };
        self.requests.push(request, Urgency::Read);
        token
    }

    /// Takes the end of a request for the journal's move.
    ///
    /// # Errors
    /// If a device of the store has failed.
    pub(crate) fn handle_journal_move(&mut self, completion: DiskCompletion) -> Result<(), ()> {
        let state = &mut self.journal_move;
        state.in_flight -= 1;
        if let Step::Look(look) = &mut state.step {
            look.take(completion);
            if look.is_done() {
                state.written_first = look.written_first();
                let to = state.to;
                self.devices.change_list(|list| {
                    let mut devices = list.devices.iter_mut();
                    let next = devices.find(|device| device.ordinal == to);
                    next.expect("the list has the device").journal = JournalMark::Next;
                });
                self.announce_move(0);
            }
            return Ok(());
        }
        completion.result.map_err(|_| ())?;
        if state.in_flight > 0 {
            return Ok(());
        }
        match state.step {
            Step::Announce { copy: 0 } => self.announce_move(1),
            Step::Announce { .. } => self.switch_journal(0),
            Step::Switch { copy: 0 } => self.switch_journal(1),
            Step::Switch { .. } => {
                self.journal_switched();
                self.tell_of_move(0);
            }
            Step::Others { copy: 0 } => self.tell_of_move(1),
            Step::Others { .. } => {
                // Every device knows: what is in the former place does not count any more, and the list is about to say so.
                self.journal.switch();
                self.journal_move.step = Step::Stays;
            }
            Step::Stays | Step::Copy | Step::Look(_) => {
                unreachable!("nothing is written in this step")
            }
        }
        Ok(())
    }

    fn write_for_move(&mut self, disk: DiskId, copy: usize, bytes: Bytes) {
        let first = self.journal_move.written_first.get(&disk).copied();
        let op = DiskOp::Write {
            offset: SUPERBLOCK_OFFSETS[copy ^ first.unwrap_or(0)],
            parts: vec![bytes],
            durable: true,
        };
        self.ask_for_move(disk, op);
    }

    /// From here on neither of the two devices is enough to open the store.
    fn announce_move(&mut self, copy: usize) {
        let (geometry, superblock) = &self.devices.members[0];
        let (disk, bytes) = (geometry.disk, superblock.encode());
        self.write_for_move(disk, copy, bytes);
        self.journal_move.step = Step::Announce { copy };
    }

    /// The first copy that is durable is the switch. Memory knows of it when both are: until then it can be
    /// called off.
    fn switch_journal(&mut self, copy: usize) {
        let to = self.devices.member(self.journal_move.to);
        let (geometry, superblock) = to.expect("the device is one of the store's");
        let mut superblock: Superblock = superblock.clone();
        superblock.list.generation += 1;
        superblock.update += 1;
        switched(&mut superblock.list);
        let (disk, bytes) = (geometry.disk, superblock.encode());
        self.write_for_move(disk, copy, bytes);
        self.journal_move.step = Step::Switch { copy };
    }

    fn journal_switched(&mut self) {
        self.devices.change_list(switched);
        let to = self.devices.member(self.journal_move.to);
        let (_, first) = to.expect("the device is one of the store's");
        let first = first.clone();
        let members = &mut self.devices.members;
        members.sort_by_key(|member| place_in_order(member, &first));
    }

    fn tell_of_move(&mut self, copy: usize) {
        let others = self.devices.members[1..].iter();
        let writes: Vec<(DiskId, Bytes)> = others
            .map(|(geometry, superblock)| (geometry.disk, superblock.encode()))
            .collect();
        for (disk, bytes) in writes {
            self.write_for_move(disk, copy, bytes);
        }
        self.journal_move.step = Step::Others { copy };
    }
}
