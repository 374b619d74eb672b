//! What a logical unit knows of each initiator port: which unit attention conditions it has still
//! to be told (SAM-5 5.14), and what it may ask of its copies.
//!
//! Invariants:
//! - each condition is told once, in the order in which they arose;
//! - a condition waits at most once, so that what waits is bounded;
//! - a reset displaces whatever was waiting: it says more (SAM-5 5.14, precedence);
//! - after a reset nothing is known of copies (SPC-4, RECEIVE COPY STATUS (LID1)).

use alloc::vec::Vec;

use crate::copy::{CopyReport, CopyResults};
use crate::{AdditionalSense, Response, Sense, SenseKey, Status};

/// Something that an initiator has to be told before its next command is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnitAttention {
    /// The unit is new to the initiator: everything it knew may be void.
    PowerOn,
    /// LOGICAL UNIT RESET, or TARGET RESET.
    Reset,
    /// The initiator's session ended and another began in its place.
    NexusLoss,
    /// Another initiator's task management aborted commands of this one.
    CommandsCleared,
    /// The unit has grown.
    CapacityChanged,
    /// A mode parameter changed.
    ModeParametersChanged,
    /// INQUIRY now answers otherwise.
    InquiryDataChanged,
    /// REPORT LUNS now answers otherwise.
    ReportedLunsChanged,
    /// Another initiator cleared all registrations, and the reservation.
    ReservationsPreempted,
    /// A reservation that admitted the initiator is gone, or became one of another type.
    ReservationsReleased,
    /// Another initiator ended the registration.
    RegistrationsPreempted,
    /// REPORT TARGET PORT GROUPS now answers otherwise.
    AccessStateChanged,
    /// What is left of the space beneath has fallen to the threshold.
    SoftThresholdReached,
}

impl UnitAttention {
    /// The condition's sense data.
    #[must_use]
    pub const fn sense(self) -> Sense {
        let additional = match self {
            Self::PowerOn => AdditionalSense::POWER_ON_RESET_OR_BUS_DEVICE_RESET_OCCURRED,
            Self::Reset => AdditionalSense::BUS_DEVICE_RESET_FUNCTION_OCCURRED,
            Self::NexusLoss => AdditionalSense::I_T_NEXUS_LOSS_OCCURRED,
            Self::CommandsCleared => AdditionalSense::COMMANDS_CLEARED_BY_ANOTHER_INITIATOR,
            Self::CapacityChanged => AdditionalSense::CAPACITY_DATA_HAS_CHANGED,
            Self::ModeParametersChanged => AdditionalSense::MODE_PARAMETERS_CHANGED,
            Self::InquiryDataChanged => AdditionalSense::INQUIRY_DATA_HAS_CHANGED,
            Self::ReportedLunsChanged => AdditionalSense::REPORTED_LUNS_DATA_HAS_CHANGED,
            Self::ReservationsPreempted => AdditionalSense::RESERVATIONS_PREEMPTED,
            Self::ReservationsReleased => AdditionalSense::RESERVATIONS_RELEASED,
            Self::RegistrationsPreempted => AdditionalSense::REGISTRATIONS_PREEMPTED,
            Self::AccessStateChanged => AdditionalSense::ASYMMETRIC_ACCESS_STATE_CHANGED,
            Self::SoftThresholdReached => AdditionalSense::THIN_PROVISIONING_SOFT_THRESHOLD_REACHED,
        };
        Sense::new(SenseKey::UnitAttention, additional)
    }

    /// How much it says: a higher one tells all that lower resets would.
    const fn reset_rank(self) -> u8 {
        match self {
            Self::PowerOn => 3,
            Self::Reset => 2,
            Self::NexusLoss => 1,
            _ => 0,
        }
    }
}

/// One initiator port, through one target port, at one logical unit (I_T_L nexus).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nexus {
    relative_target_port: u16,
    pending: Vec<UnitAttention>,
    copies: CopyResults,
}

impl Nexus {
    /// A nexus seen for the first time, through the target port with that relative identifier
    /// (from 1): the unit has just been powered on as far as the initiator can tell.
    #[must_use]
    pub fn new(relative_target_port: u16) -> Self {
        assert!(relative_target_port > 0, "port identifiers begin at 1");
        Self {
            relative_target_port,
            pending: alloc::vec![UnitAttention::PowerOn],
            copies: CopyResults::new(),
        }
    }

    /// RELATIVE TARGET PORT IDENTIFIER of the port that commands come through.
    #[must_use]
    pub const fn relative_target_port(&self) -> u16 {
        self.relative_target_port
    }

    /// Establishes a condition.
    pub fn raise(&mut self, attention: UnitAttention) {
        let rank = attention.reset_rank();
        if rank > 0 {
            self.copies = CopyResults::new();
            if self.pending.iter().any(|known| known.reset_rank() > rank) {
                return;
            }
            self.pending.clear();
        }
        if !self.pending.contains(&attention) {
            self.pending.push(attention);
        }
    }

    /// The conditions that wait, in order.
    #[must_use]
    pub fn pending(&self) -> &[UnitAttention] {
        &self.pending
    }

    /// A copy of this nexus is so far.
    pub fn note_copy(&mut self, report: CopyReport) {
        self.copies.note(report);
    }

    /// A copy of this nexus has ended so far: with that answer, or without one because it was aborted.
    pub fn end_copy(&mut self, report: CopyReport, response: Option<&Response>) {
        let status = response.map_or(Status::TaskAborted, |response| response.status);
        let sense = response.and_then(|response| response.sense);
        self.copies.end(report, status, sense);
    }

    pub(crate) const fn copies(&mut self) -> &mut CopyResults {
        &mut self.copies
    }

    /// Whether what is to be told next is that of a reset, or of a lost nexus: they go before a
    /// RESERVATION CONFLICT, all others after it (SAM-5 5.3.3, Status precedence).
    pub(crate) fn awaits_reset(&self) -> bool {
        let first = self.pending.first();
        first.is_some_and(|attention| attention.reset_rank() > 0)
    }

    /// Takes the condition that is to be told next: telling it ends it.
    pub(crate) fn take(&mut self) -> Option<UnitAttention> {
        (!self.pending.is_empty()).then(|| self.pending.remove(0))
    }

    /// Ends a condition by other means.
    pub(crate) fn clear(&mut self, attention: UnitAttention) {
        self.pending.retain(|known| *known != attention);
    }
}

#[cfg(test)]
mod tests {
    use super::UnitAttention as Attention;
    use super::*;

    #[test]
    fn each_is_told_once_in_order() {
        let mut nexus = Nexus::new(1);
        assert_eq!(nexus.take(), Some(Attention::PowerOn));
        nexus.raise(Attention::CapacityChanged);
        nexus.raise(Attention::ReportedLunsChanged);
        nexus.raise(Attention::CapacityChanged);
        assert_eq!(nexus.take(), Some(Attention::CapacityChanged));
        assert_eq!(nexus.take(), Some(Attention::ReportedLunsChanged));
        assert_eq!(nexus.take(), None);
    }

    #[test]
    fn a_reset_displaces_what_says_less() {
        let mut nexus = Nexus::new(1);
        nexus.raise(Attention::CapacityChanged);
        nexus.raise(Attention::Reset);
        assert_eq!(
            nexus.pending(),
            [Attention::PowerOn, Attention::CapacityChanged]
        );
        nexus.take();
        nexus.raise(Attention::NexusLoss);
        nexus.raise(Attention::Reset);
        assert_eq!(nexus.pending(), [Attention::Reset]);
    }
}
