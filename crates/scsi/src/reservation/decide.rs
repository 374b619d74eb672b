//! What a command about reservations comes to, on a given record.
//!
//! Invariants:
//! - a record that comes of a decision is sound, and can be stored;
//! - it differs in its generation by what SPC-4 6.15.2 counts, and in its fence by whether anybody
//!   lost a right.

use alloc::vec::Vec;

use holdfast_model::NodeId;
use holdfast_model::metadata::VALUE_LENGTH_MAX;
use holdfast_model::record::{
    AccessNexus, AccessRecord, LastChange, Record, Registration, Reservation, ReservationKind,
};

use super::permission::{is_holder, takes_away};
use super::request::{AccessRequest, Action, Out, OutAction};
use super::{kind, legacy, preempt, register, report};
use crate::limits::REGISTRATIONS_MAX;
use crate::{AdditionalSense, Response, Sense, Status};

/// What comes of a command about reservations.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(
    clippy::large_enum_variant,
    reason = "there is one at a time, and it is taken apart at once"
)]
pub enum Decision {
    /// It is answered, and nothing changes.
    Answer(Response),
    /// The record changes.
    Change {
        /// What it becomes.
        record: AccessRecord,
        /// Whose commands are aborted, except this one, as soon as nothing of theirs can begin any
        /// more (PREEMPT AND ABORT); in order. The sender is among them if it preempted itself.
        abort: Vec<AccessNexus>,
        /// What is answered when the change counts everywhere.
        response: Response,
    },
}

/// What the rules say: nothing changes, or this does.
pub(super) type Ruling = Result<Option<Change>, Refusal>;

pub(super) struct Change {
    pub(super) record: AccessRecord,
    pub(super) abort: Vec<AccessNexus>,
}

/// Why a command is not done.
#[derive(Debug)]
pub(super) enum Refusal {
    /// RESERVATION CONFLICT.
    Conflict,
    /// CHECK CONDITION.
    Check(Sense),
}

/// Bytes of a value that registrations leave to everything else in the record: two nexuses with
/// names of the greatest length, and the nodes that are up. What is not a registration always fits.
const RECORD_SPARE_BYTES: usize = 8 << 10;

impl AccessRequest {
    /// Decides it on the record as it is, for the nexus that sent it; `ports` are all target
    /// ports, ascending, by whose identifiers (SPC-4's RELATIVE TARGET PORT IDENTIFIER) hosts know
    /// the nodes.
    ///
    /// May be called again if the record has changed before the decision could be stored.
    ///
    /// Panics unless the record is sound and the ports ascend.
    #[must_use]
    pub fn decide(&self, record: &AccessRecord, nexus: &AccessNexus, ports: &[NodeId]) -> Decision {
        assert!(record.is_sound(), "what was read was checked");
        assert!(
            ports.is_sorted_by(|one, other| one < other),
            "target ports ascend"
        );
        let ruling = match &self.action {
            Action::Reserve => legacy::reserve(record, nexus),
            Action::Release => legacy::release(record, nexus),
            // SPC-2 5.5.1: while anybody has the unit by RESERVE, for everybody.
            _ if record.reserved.is_some() => Err(Refusal::Conflict),
            Action::In {
                action,
                allocation_length,
            } => {
                let response = report::respond(record, *action, *allocation_length);
                return Decision::Answer(match self.is_misdirected {
                    true => response.moved(0),
                    false => response,
                });
            }
            Action::Out(out) => rule(record, nexus, ports, out),
        };
        let length = self.data_out_length;
        match ruling {
            Ok(None) => Decision::Answer(Response::good_out(length)),
            Ok(Some(change)) => Decision::Change {
                record: self.stamp(record, nexus, &change.abort, change.record),
                abort: change.abort,
                response: Response::good_out(length),
            },
            Err(Refusal::Conflict) => {
                Decision::Answer(Response::bare(Status::ReservationConflict).moved(length))
            }
            Err(Refusal::Check(sense)) => {
                Decision::Answer(Response::check_condition(sense).moved(length))
            }
        }
    }

    /// Counts the change, and says whose it is.
    fn stamp(
        &self,
        old: &AccessRecord,
        nexus: &AccessNexus,
        aborted: &[AccessNexus],
        new: AccessRecord,
    ) -> AccessRecord {
        let out = match &self.action {
            Action::Out(out) => Some(out.action),
            _ => None,
        };
        let mut new = AccessRecord {
            last: Some(LastChange {
                nexus: nexus.clone(),
                action: out.map(OutAction::code),
                digest: self.digest,
            }),
            changes: old.changes + 1,
            ..new
        };
        if out.is_some_and(OutAction::is_counted) {
            new.generation = old.generation.wrapping_add(1);
        }
        // Commands that are aborted may be on their way, whether or not a reservation comes of it.
        let aborts_others = aborted.iter().any(|other| other != nexus);
        if takes_away(old, &new) || aborts_others {
            new.fence = old.fence.next();
        }
        assert!(new.is_sound(), "a decision keeps the record sound");
        new
    }
}

fn rule(record: &AccessRecord, nexus: &AccessNexus, ports: &[NodeId], out: &Out) -> Ruling {
    match out.action {
        OutAction::Register => register::register(record, nexus, ports, out, false),
        OutAction::RegisterAndIgnore => register::register(record, nexus, ports, out, true),
        OutAction::RegisterAndMove => register::register_and_move(record, nexus, ports, out),
        OutAction::Reserve(kind) => reserve(record, nexus, out, kind),
        OutAction::Release(kind) => release(record, nexus, out, kind),
        OutAction::Clear => clear(record, nexus, out),
        OutAction::Preempt(kind) => preempt::preempt(record, nexus, out, kind, false),
        OutAction::PreemptAndAbort(kind) => preempt::preempt(record, nexus, out, kind, true),
    }
}

/// RESERVE (SPC-4 5.12.9).
fn reserve(record: &AccessRecord, nexus: &AccessNexus, out: &Out, kind: ReservationKind) -> Ruling {
    check_key(record, nexus, out.key)?;
    match &record.reservation {
        None => changed(AccessRecord {
            reservation: Some(reservation(kind, nexus)),
            ..record.clone()
        }),
        Some(reservation) if reservation.kind == kind && is_holder(record, nexus) => Ok(None),
        Some(_) => Err(Refusal::Conflict),
    }
}

/// RELEASE (SPC-4 5.12.11, Releasing).
fn release(record: &AccessRecord, nexus: &AccessNexus, out: &Out, kind: ReservationKind) -> Ruling {
    check_key(record, nexus, out.key)?;
    match &record.reservation {
        Some(reservation) if is_holder(record, nexus) => {
            if reservation.kind != kind {
                return Err(Refusal::Check(Sense::illegal_request(
                    AdditionalSense::INVALID_RELEASE_OF_PERSISTENT_RESERVATION,
                )));
            }
            changed(AccessRecord {
                reservation: None,
                ..record.clone()
            })
        }
        // Nothing of the sender's to release is not an error.
        _ => Ok(None),
    }
}

/// CLEAR (SPC-4 5.12.11, Clearing).
fn clear(record: &AccessRecord, nexus: &AccessNexus, out: &Out) -> Ruling {
    check_key(record, nexus, out.key)?;
    changed(AccessRecord {
        registrations: Vec::new(),
        reservation: None,
        ..record.clone()
    })
}

/// A nexus that is not registered, or not with that key, may not (SPC-4 5.12.1).
pub(super) fn check_key(
    record: &AccessRecord,
    nexus: &AccessNexus,
    key: u64,
) -> Result<(), Refusal> {
    match record.registration(nexus) {
        Some(registration) if registration.key == key => Ok(()),
        _ => Err(Refusal::Conflict),
    }
}

/// That becomes of the record, and nobody's commands are aborted.
pub(super) fn changed(record: AccessRecord) -> Ruling {
    let abort = Vec::new();
    Ok(Some(Change { record, abort }))
}

/// The reservation of that type that a nexus makes.
pub(super) fn reservation(kind: ReservationKind, nexus: &AccessNexus) -> Reservation {
    let holder = match kind::is_held_by_all(kind) {
        true => None,
        false => Some(nexus.clone()),
    };
    Reservation { kind, holder }
}

/// Releases the reservation if nobody is left who holds it (SPC-4 5.12.11, Unregistering).
pub(super) fn release_if_unheld(record: &mut AccessRecord) {
    let is_held = match &record.reservation {
        None => return,
        Some(reservation) => match &reservation.holder {
            Some(holder) => record.registration(holder).is_some(),
            None => !record.registrations.is_empty(),
        },
    };
    if !is_held {
        record.reservation = None;
    }
}

/// Registers a nexus, or changes its registration.
pub(super) fn put(record: &mut AccessRecord, registration: Registration) {
    match record.place_of(&registration.nexus) {
        Ok(place) => record.registrations[place] = registration,
        Err(place) => record.registrations.insert(place, registration),
    }
}

/// Ends the registration of a nexus, if it has one.
pub(super) fn remove(record: &mut AccessRecord, nexus: &AccessNexus) {
    if let Ok(place) = record.place_of(nexus) {
        record.registrations.remove(place);
    }
}

/// Whether there is room for what is registered (SPC-4 5.12.7).
pub(super) fn check_room(record: &AccessRecord) -> Result<(), Refusal> {
    let room = VALUE_LENGTH_MAX - RECORD_SPARE_BYTES;
    if record.registrations.len() <= REGISTRATIONS_MAX && record.encode().len() <= room {
        return Ok(());
    }
    Err(Refusal::Check(Sense::illegal_request(
        AdditionalSense::INSUFFICIENT_REGISTRATION_RESOURCES,
    )))
}
