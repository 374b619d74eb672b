//! What the transport and a logical unit say to each other: addresses, attributes, statuses,
//! responses.
//!
//! Invariants:
//! - a [`Response`] has sense data exactly if its status is CHECK CONDITION;
//! - a response without GOOD status carries no Data-In.

use alloc::vec::Vec;

use holdfast_stdx::Bytes;

use crate::Sense;

/// A logical unit number as it stands in a PDU (SAM-5 4.7).
///
/// It keeps the bytes that the initiator sent, because the target has to send back the same ones;
/// one unit may be addressed in several ways, so units are looked up by [`number`](Self::number).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lun([u8; 8]);

impl Lun {
    /// The highest number that has an address: flat space addressing has 14 bits.
    pub const NUMBER_MAX: u16 = 0x3FFF;

    /// The address as it came.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 8]) -> Self {
        Self(bytes)
    }

    /// The address of unit `number`, at most [`NUMBER_MAX`](Self::NUMBER_MAX): peripheral device
    /// addressing below 256, as every host expects (SAM-5 4.7), flat space addressing above
    /// (SAM-5 4.7).
    #[must_use]
    pub const fn from_number(number: u16) -> Self {
        assert!(number <= Self::NUMBER_MAX, "a unit's number has 14 bits");
        let [high, low] = number.to_be_bytes();
        let method = if high == 0 { 0 } else { FLAT_SPACE << 6 };
        Self([method | high, low, 0, 0, 0, 0, 0, 0])
    }

    /// The address as it is sent.
    #[must_use]
    pub const fn to_bytes(self) -> [u8; 8] {
        self.0
    }

    /// The number of the unit; `None` if the address is of a kind that no unit here has: a further
    /// level, a bus other than the first, a well known logical unit, an extended address.
    #[must_use]
    pub const fn number(self) -> Option<u16> {
        let [first, second, rest @ ..] = self.0;
        if u64::from_be_bytes([0, 0, rest[0], rest[1], rest[2], rest[3], rest[4], rest[5]]) != 0 {
            return None;
        }
        match first >> 6 {
            PERIPHERAL_DEVICE if first == 0 => Some(second as u16),
            FLAT_SPACE => Some(u16::from_be_bytes([first & 0x3F, second])),
            _ => None,
        }
    }
}

/// Addressing methods (SAM-5 4.7).
const PERIPHERAL_DEVICE: u8 = 0b00;
const FLAT_SPACE: u8 = 0b01;

/// How a task stands to the others of its logical unit (SAM-5, Task attributes).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskAttribute {
    /// May be reordered with others of its kind. What comes untagged is taken for simple.
    Simple,
    /// After all that came before it, before all that comes after.
    Ordered,
    /// Before all others.
    HeadOfQueue,
    /// Of an auto contingent allegiance, which no unit here ever establishes.
    Aca,
}

/// How a command ended (SAM-5 5.3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Status {
    /// It did what it was asked.
    Good = 0x00,
    /// Sense data says what happened.
    CheckCondition = 0x02,
    /// Conditions of COMPARE AND similar commands were met.
    ConditionMet = 0x04,
    /// Not now: try again later.
    Busy = 0x08,
    /// A reservation of another initiator forbids it.
    ReservationConflict = 0x18,
    /// More commands than the unit has room for.
    TaskSetFull = 0x28,
    /// An auto contingent allegiance stands.
    AcaActive = 0x30,
    /// Another initiator aborted it, and asked that this be told.
    TaskAborted = 0x40,
}

impl Status {
    /// The status code.
    #[must_use]
    pub const fn code(self) -> u8 {
        self as u8
    }
}

/// The answer to a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// How it ended.
    pub status: Status,
    /// Why, if it ended with CHECK CONDITION.
    pub sense: Option<Sense>,
    /// What it returns, in order. It may be more than the initiator expects: the transport cuts it.
    pub data_in: Vec<Bytes>,
    /// Bytes that the command by itself moves, in or out, whatever the transport's initiator
    /// expected: the transport takes residual counts from the difference. A command that was
    /// refused for its CDB, and a read that failed, move none.
    pub transfer_length: u64,
}

impl Response {
    /// GOOD, for a command that moves nothing.
    #[must_use]
    pub const fn good() -> Self {
        Self::with_status(Status::Good)
    }

    /// GOOD, for a command that takes `length` bytes of Data-Out.
    #[must_use]
    pub const fn good_out(length: u64) -> Self {
        let mut response = Self::good();
        response.transfer_length = length;
        response
    }

    /// GOOD with `data`, which is all that the command moves.
    #[must_use]
    pub fn good_in(data: Vec<Bytes>) -> Self {
        let transfer_length = data.iter().map(|part| part.len() as u64).sum();
        Self {
            data_in: data,
            transfer_length,
            ..Self::good()
        }
    }

    /// CHECK CONDITION with `sense`, for a command that moved nothing.
    #[must_use]
    pub const fn check_condition(sense: Sense) -> Self {
        let mut response = Self::with_status(Status::CheckCondition);
        response.sense = Some(sense);
        response
    }

    /// A status without sense data, for a command that moved nothing.
    ///
    /// Panics on CHECK CONDITION, which has sense data.
    #[must_use]
    pub const fn bare(status: Status) -> Self {
        assert!(
            !matches!(status, Status::CheckCondition),
            "CHECK CONDITION comes with sense data"
        );
        Self::with_status(status)
    }

    const fn with_status(status: Status) -> Self {
        Self {
            status,
            sense: None,
            data_in: Vec::new(),
            transfer_length: 0,
        }
    }

    /// The same, for a command that by itself moves `length` bytes, whatever of them there was.
    #[must_use]
    pub const fn moved(mut self, length: u64) -> Self {
        self.transfer_length = length;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lun(high: u8, low: u8) -> Lun {
        Lun::from_bytes([high, low, 0, 0, 0, 0, 0, 0])
    }

    #[test]
    fn addresses_of_both_methods_name_the_same_units() {
        assert_eq!(lun(0x00, 0x00).number(), Some(0));
        assert_eq!(lun(0x00, 0xFF).number(), Some(255));
        assert_eq!(lun(0x40, 0x00).number(), Some(0));
        assert_eq!(lun(0x40, 0xFF).number(), Some(255));
        assert_eq!(lun(0x7F, 0xFF).number(), Some(Lun::NUMBER_MAX));
    }

    #[test]
    fn addresses_of_no_unit() {
        assert_eq!(lun(0x01, 0x00).number(), None, "the second bus");
        assert_eq!(lun(0x80, 0x00).number(), None, "logical unit addressing");
        assert_eq!(lun(0xC1, 0x01).number(), None, "the REPORT LUNS unit");
        assert_eq!(Lun::from_bytes([0, 0, 0, 1, 0, 0, 0, 0]).number(), None);
        assert_eq!(Lun::from_bytes([0, 0, 0, 0, 0, 0, 0, 1]).number(), None);
    }

    #[test]
    fn every_number_has_an_address() {
        for number in 0..=Lun::NUMBER_MAX {
            assert_eq!(Lun::from_number(number).number(), Some(number));
        }
        assert_eq!(Lun::from_number(255), lun(0x00, 0xFF));
        assert_eq!(Lun::from_number(256), lun(0x41, 0x00));
    }

    #[test]
    fn a_response_counts_what_it_returns() {
        let data = alloc::vec![Bytes::from_static(b"abc"), Bytes::from_static(b"de")];
        assert_eq!(Response::good_in(data).transfer_length, 5);
        assert_eq!(Response::good_out(512).transfer_length, 512);
    }
}
