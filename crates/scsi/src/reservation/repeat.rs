//! Commands that come a second time, because their initiator never heard how the first one ended.
//!
//! A host whose path dies in the middle of a command repeats it on another one, or after a new
//! login. If it was done the first time, some would be refused now: the key is another, the holder
//! is. Those are known again by what the record's newest change was.

use holdfast_model::record::{AccessNexus, AccessRecord};

use super::kind;
use super::request::{AccessRequest, Action, Out, OutAction};

/// FNV-1a with 64 bits (draft-eastlake-fnv): short, and the same for ever.
pub(super) struct Digest(u64);

impl Digest {
    pub(super) const fn new() -> Self {
        Self(0xCBF2_9CE4_8422_2325)
    }

    pub(super) fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3);
        }
    }

    pub(super) const fn value(self) -> u64 {
        self.0
    }
}

/// Whether `request`, which `nexus` sends, may be the repetition of the command that changed the
/// record last, and would be refused for no other reason than that it was done: then GOOD is what
/// its sender has to hear. Whether it is one (and not a second command that asks for the same) is
/// for whoever knows the time and the sessions.
///
/// Nothing that a host sends on each of its paths in turn is one: a REGISTER on another nexus
/// registers that one. Nor is it one if the sender would take the nexus that it now uses for the
/// holder, and another one of its nexuses is.
#[must_use]
pub fn is_repeat(record: &AccessRecord, nexus: &AccessNexus, request: &AccessRequest) -> bool {
    let (Action::Out(out), Some(last)) = (&request.action, &record.last) else {
        return false;
    };
    if last.action != Some(out.action.code()) || last.digest != request.digest {
        return false;
    }
    let is_same_initiator = last.nexus.initiator == nexus.initiator;
    let is_same_port = is_same_initiator && last.nexus.isid == nexus.isid;
    let is_same_nexus = last.nexus == *nexus;
    let is_registered = || {
        let registration = record.registration(nexus);
        registration.is_some_and(|registration| registration.key == out.key)
    };
    match out.action {
        OutAction::Register => is_same_nexus || (is_same_port && out.all_target_ports),
        // Done twice it does no harm.
        OutAction::RegisterAndIgnore | OutAction::Release(_) => false,
        OutAction::Clear => is_same_initiator,
        OutAction::RegisterAndMove => is_same_nexus || (is_same_initiator && is_registered()),
        OutAction::Reserve(_) | OutAction::Preempt(_) | OutAction::PreemptAndAbort(_) => {
            let has_what_it_wants = is_registered() && !is_held_elsewhere(record, nexus, out);
            is_same_nexus || (is_same_initiator && has_what_it_wants)
        }
    }
}

/// The command may have made another nexus than this one the only one with access.
fn is_held_elsewhere(record: &AccessRecord, nexus: &AccessNexus, out: &Out) -> bool {
    let wanted = match out.action {
        OutAction::Reserve(kind) => Some(kind),
        OutAction::Preempt(kind) | OutAction::PreemptAndAbort(kind) => kind,
        _ => None,
    };
    record.reservation.as_ref().is_some_and(|reservation| {
        !kind::admits_registrants(reservation.kind)
            && wanted == Some(reservation.kind)
            && reservation.holder.as_ref() != Some(nexus)
    })
}
