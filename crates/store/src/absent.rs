//! Devices that the store has, and is used without: missing when it was opened, or failed since.
//!
//! Invariants:
//! - without the device that has the journal there is no store, and whoever uses it is told so;
//! - whoever uses the store hears of a failure at once: from then on calls do nothing;
//! - once a device is noted as lost nothing on it counts ever again; until then it counts as if nothing had
//!   happened, for whatever it failed to write is still in the journal;
//! - nothing else is done in the store between its failure and the end.

use alloc::vec;

use holdfast_format::{Absence, DeviceList, SUPERBLOCK_OFFSETS};
use holdfast_model::{DiskCompletion, DiskId, DiskOp, DiskRequest, DiskToken};

use crate::event::{Output, StoreEvent};
use crate::journal_move;
use crate::look::{self, Look};
use crate::machine::{Core, DEVICES_TOKENS, LOSS_TOKENS};
use crate::order::DeviceStatus;

/// A device that has failed: the list is to say so, where the journal is.
#[derive(Debug)]
pub(crate) struct Loss {
    disk: DiskId,
    step: Step,
}

#[derive(Debug)]
enum Step {
    /// Other writes to superblocks are under way there.
    Waits,
    /// What is in the superblocks there is being read.
    Look(Look),
    /// The list is being written there, first to the copy of this number.
    Write { copy: usize, first: usize },
}

impl Core {
    pub(crate) fn is_absent(&self, ordinal: u16) -> bool {
        let listed = self.devices.list().device(ordinal);
        listed.is_some_and(|listed| listed.absent.is_some())
    }

    pub(crate) fn absent_statuses(&self) -> impl Iterator<Item = DeviceStatus> {
        let listed = self.devices.list().devices.iter();
        // One that is there again, and does not count yet, is told of like the others that are there.
        let is_away = |ordinal| self.devices.member(ordinal).is_none();
        let absent = listed.filter(move |it| it.absent.is_some() && is_away(it.ordinal));
        absent.map(|listed| DeviceStatus {
            disk: None,
            ordinal: listed.ordinal,
            id: listed.id,
            tier: None,
            state: listed.state,
            absent: listed.absent,
            journal: listed.journal,
            pages: u64::from(listed.slot_count),
            pages_used: u64::from(self.pages.lacking()),
            bad_blocks: 0,
        })
    }

    /// A device has failed to write: nothing is done any more but to note that, if the store can do
    /// without it.
    pub(crate) fn device_failed(&mut self, disk: DiskId, out: &mut Output) {
        self.failed = true;
        out.events.push_back(StoreEvent::DeviceFailed { disk });
        let members = &self.devices.members;
        let failed = members.iter().find(|(geometry, _)| geometry.disk == disk);
        let failed = failed.map(|(_, found)| (found.ordinal, found.use_counter));
        let (_, first) = &members[0];
        let Some((ordinal, last_use)) = failed.filter(|(ordinal, _)| *ordinal != first.ordinal)
        else {
            out.events.push_back(StoreEvent::Unusable { disk });
            return;
        };
        self.devices.change_list(|list| {
            journal_move::call_off(list);
            let mut devices = list.devices.iter_mut();
            let listed = devices.find(|device| device.ordinal == ordinal);
            listed.expect("the list has the device").absent = Some(Absence {
                is_lost: true,
                last_use,
            });
        });
        let step = Step::Waits;
        self.loss = Some(Loss { disk, step });
        self.note_loss(out);
    }

    /// Takes the end of a request while the loss of a device is being noted. Others than ours are over.
    pub(crate) fn handle_loss(&mut self, completion: DiskCompletion, out: &mut Output) {
        let Some(loss) = &mut self.loss else { return };
        let is_ours = completion.token.0 >= LOSS_TOKENS;
        match &mut loss.step {
            _ if !is_ours => {
                self.requests.complete(completion.token);
                self.note_loss(out);
            }
            Step::Waits => unreachable!("nothing is asked for in this step"),
            Step::Look(look) => {
                look.take(completion);
                if look.is_done() {
                    let (journal, _) = &self.devices.members[0];
                    let first = look.written_first()[&journal.disk];
                    self.write_loss(0, first, out);
                }
            }
            Step::Write { copy: 0, first } if completion.result.is_ok() => {
                let first = *first;
                self.write_loss(1, first, out);
            }
            Step::Write { .. } => {
                let lost = StoreEvent::DeviceLost { disk: loss.disk };
                let disk = self.devices.members[0].0.disk;
                let unusable = StoreEvent::Unusable { disk };
                let event = completion.result.map_or(unusable, |_| lost);
                out.events.push_back(event);
                self.loss = None;
            }
        }
    }

    /// Reads what the list is written over where the journal is, once no other superblock is on its way there.
    fn note_loss(&mut self, out: &mut Output) {
        let (journal, _) = &self.devices.members[0];
        let orders = DiskToken(DEVICES_TOKENS);
        let is_written = self.requests.is_in_flight_from(orders, journal.disk);
        let loss = self.loss.as_mut().expect("a device is lost");
        if is_written || !matches!(loss.step, Step::Waits) {
            return;
        }
        let mut look = Look::default();
        for (disk, copy, op) in look::reads(&self.devices.members[..1]) {
            let token = DiskToken(LOSS_TOKENS + copy as u64);
            out.requests.push_back(DiskRequest { token, disk, op });
            look.ask(token, disk, copy);
        }
        loss.step = Step::Look(look);
    }

    fn write_loss(&mut self, copy: usize, first: usize, out: &mut Output) {
        let (journal, superblock) = &self.devices.members[0];
        let place = copy ^ first;
        out.requests.push_back(DiskRequest {
            token: DiskToken(LOSS_TOKENS + place as u64),
            disk: journal.disk,
            op: DiskOp::Write {
                offset: SUPERBLOCK_OFFSETS[place],
                parts: vec![superblock.encode()],
                durable: true,
            },
        });
        let loss = self.loss.as_mut().expect("a device is lost");
        loss.step = Step::Write { copy, first };
    }
}

/// Devices that were absent, and count from now on.
pub(crate) fn take_back(list: &mut DeviceList, back: &[u16]) {
    let devices = list.devices.iter_mut();
    let back = devices.filter(|device| back.contains(&device.ordinal));
    back.for_each(|device| device.absent = None);
}

/// Takes a device out of the list. Where it was absent, what it may have had of newer pages is gone for
/// good: what was missing before it may have older ones, and cannot come back.
pub(crate) fn take_out(list: &mut DeviceList, ordinal: u16) {
    let gone = list.device(ordinal).and_then(|device| device.absent);
    list.devices.retain(|device| device.ordinal != ordinal);
    for device in &mut list.devices {
        if let (Some(gone), Some(absence)) = (gone, &mut device.absent) {
            absence.is_lost |= absence.last_use < gone.last_use;
        }
    }
}
