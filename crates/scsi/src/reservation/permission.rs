//! Which commands a reservation lets through, and whether a change of it takes anything away.

use holdfast_model::record::{AccessNexus, AccessRecord};

use super::kind;
use crate::cdb::{Cdb, Command};

/// What a command has to be permitted, by the tables of SPC-4 5.12.1 and SBC-3 (Commands that are
/// allowed in the presence of various reservations).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Nothing: it is done whoever has reserved what. Commands about reservations are among these,
    /// for they are decided on the record itself.
    Nothing,
    /// That nobody else has the unit by RESERVE: every persistent reservation lets it through.
    Unreserved,
    /// To read, or to learn what is only told to those who may.
    Read,
    /// To write, or to do what others would notice.
    Write,
}

impl Need {
    /// What a command needs. One that is refused for its CDB needs nothing.
    #[must_use]
    pub const fn of(cdb: &Cdb) -> Self {
        let Ok(command) = cdb.command() else {
            return Self::Nothing;
        };
        match command {
            // READ CAPACITY is let through by RESERVE too (SBC, Reservations): a host that finds a
            // disk which another one has reserved still has to learn how large it is.
            Command::RequestSense { .. }
            | Command::Inquiry { .. }
            | Command::ReportLuns { .. }
            | Command::ReadCapacity10
            | Command::ReadCapacity16 { .. }
            // LOG SENSE is let through by all types.
            | Command::LogSense(_)
            | Command::PersistentReserveIn { .. }
            | Command::PersistentReserveOut { .. }
            | Command::Reserve
            | Command::Release => Self::Nothing,
            // START STOP UNIT with START and without POWER CONDITION is allowed, and no other one
            // is known here (SBC-3, Reservations).
            Command::TestUnitReady
            | Command::StartUnit
            | Command::ReportPortGroups { .. } => Self::Unreserved,
            // ALLOW COMMANDS 011b says this of the first two.
            Command::ModeSense(_)
            | Command::ReportOperationCodes { .. }
            | Command::ReportTaskFunctions { .. }
            | Command::LbaStatus { .. }
            | Command::Prefetch { .. }
            | Command::Read { .. }
            | Command::Verify { .. } => Self::Read,
            // Of copies this is what is needed of the unit that is asked; what is needed of those that they read and
            // write is for them to say.
            Command::ExtendedCopy { .. }
            | Command::ReceiveCopyResults { .. }
            | Command::Write { .. }
            | Command::CompareAndWrite { .. }
            | Command::OrWrite { .. }
            | Command::WriteAtomic { .. }
            | Command::ModeSelect { .. }
            | Command::SetPortGroups { .. }
            | Command::SynchronizeCache { .. }
            | Command::Unmap { .. }
            | Command::WriteSame { .. } => Self::Write,
        }
    }
}

/// Whether a nexus may do what needs `need`. What may not ends with RESERVATION CONFLICT.
#[must_use]
pub fn permits(record: &AccessRecord, nexus: &AccessNexus, need: Need) -> bool {
    // What almost every command finds.
    if record.reservation.is_none() && record.reserved.is_none() {
        return true;
    }
    permits_somebody(record, Some(nexus), need)
}

/// The same for a nexus, or for one that nobody has ever heard of.
fn permits_somebody(record: &AccessRecord, nexus: Option<&AccessNexus>, need: Need) -> bool {
    if need == Need::Nothing {
        return true;
    }
    // SPC-2 5.5.1.
    if record.reserved.is_some() && record.reserved.as_ref() != nexus {
        return false;
    }
    let Some(reservation) = &record.reservation else {
        return true;
    };
    let is_permitted_to_all = match need {
        Need::Nothing | Need::Unreserved => true,
        Need::Read => !kind::forbids_reads(reservation.kind),
        Need::Write => false,
    };
    if is_permitted_to_all {
        return true;
    }
    let Some(nexus) = nexus else {
        return false;
    };
    match kind::admits_registrants(reservation.kind) {
        true => record.registration(nexus).is_some(),
        false => reservation.holder.as_ref() == Some(nexus),
    }
}

/// Whether a nexus holds the persistent reservation (SPC-4 5.12.10).
pub(super) fn is_holder(record: &AccessRecord, nexus: &AccessNexus) -> bool {
    record.reservation.as_ref().is_some_and(|reservation| {
        match kind::is_held_by_all(reservation.kind) {
            true => record.registration(nexus).is_some(),
            false => reservation.holder.as_ref() == Some(nexus),
        }
    })
}

/// Whether anybody who could read or write before can do so no more.
#[must_use]
pub fn takes_away(old: &AccessRecord, new: &AccessRecord) -> bool {
    if new.reservation.is_none() && new.reserved.is_none() {
        return false;
    }
    // Whom the old one does not name are all alike, and the new one gives none of them less than a
    // stranger.
    let named = old.registrations.iter().map(|known| &known.nexus);
    let mut concerned = named.chain(&old.reserved).map(Some).chain([None]);
    concerned.any(|nexus| {
        let loses =
            |need| permits_somebody(old, nexus, need) && !permits_somebody(new, nexus, need);
        loses(Need::Read) || loses(Need::Write)
    })
}
