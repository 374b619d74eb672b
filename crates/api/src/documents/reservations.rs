//! Persistent reservations of a volume: who is registered with which key, and who holds what.
//!
//! It refuses to change any of it: that is for the hosts, by PERSISTENT RESERVE OUT.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What a reservation forbids others (SPC-4 5.12.2, Persistent reservation types).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ReservationType {
    /// Writes, to all but the holder.
    WriteExclusive,
    /// Reads and writes, to all but the holder.
    ExclusiveAccess,
    /// Writes, to all who are not registered.
    WriteExclusiveRegistrantsOnly,
    /// Reads and writes, to all who are not registered.
    ExclusiveAccessRegistrantsOnly,
    /// Writes, to all who are not registered; all who are hold it.
    WriteExclusiveAllRegistrants,
    /// Reads and writes, to all who are not registered; all who are hold it.
    ExclusiveAccessAllRegistrants,
}

impl ReservationType {
    /// Its code in PERSISTENT RESERVE IN and OUT (SPC-4, persistent reservation type codes).
    #[must_use]
    pub const fn code(self) -> u8 {
        match self {
            Self::WriteExclusive => 1,
            Self::ExclusiveAccess => 3,
            Self::WriteExclusiveRegistrantsOnly => 5,
            Self::ExclusiveAccessRegistrantsOnly => 6,
            Self::WriteExclusiveAllRegistrants => 7,
            Self::ExclusiveAccessAllRegistrants => 8,
        }
    }

    /// Its name, as people and SPC-4 call it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::WriteExclusive => "Write Exclusive",
            Self::ExclusiveAccess => "Exclusive Access",
            Self::WriteExclusiveRegistrantsOnly => "Write Exclusive - Registrants Only",
            Self::ExclusiveAccessRegistrantsOnly => "Exclusive Access - Registrants Only",
            Self::WriteExclusiveAllRegistrants => "Write Exclusive - All Registrants",
            Self::ExclusiveAccessAllRegistrants => "Exclusive Access - All Registrants",
        }
    }
}

/// An initiator port through a target port (an I_T nexus).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReservationNexus {
    /// The initiator's iSCSI name.
    pub initiator: String,
    /// The initiator's part of the session's identifier: twelve hexadecimal digits.
    pub isid: String,
    /// The node whose target port it is.
    pub portal: String,
}

/// A registration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RegisteredKey {
    /// Whose it is.
    #[serde(flatten)]
    pub nexus: ReservationNexus,
    /// The reservation key, as initiators write it: `0x` and hexadecimal digits.
    pub key: String,
    /// It was made for all target ports at once (ALL_TG_PT).
    pub all_target_ports: bool,
    /// It holds the reservation.
    pub holder: bool,
}

/// A persistent reservation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HeldReservation {
    /// What it forbids.
    #[serde(rename = "type")]
    pub kind: ReservationType,
    /// The code of that, 1 to 8.
    pub code: u8,
    /// Who holds it; null if all who are registered do.
    pub holder: Option<ReservationNexus>,
}

/// Persistent reservations of a volume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Reservations {
    /// How often registrations were changed (PRGENERATION); wraps at 2^32.
    pub generation: u32,
    /// That they outlive the loss of power of all nodes was asked for (APTPL). They do in any case.
    pub persists: bool,
    /// What is held; null if nothing is.
    pub reservation: Option<HeldReservation>,
    /// Who is registered, by initiator.
    pub registrations: Vec<RegisteredKey>,
    /// Who has all of it by RESERVE (SPC-2), which ends with the session; null if nobody has.
    pub reserved: Option<ReservationNexus>,
}
