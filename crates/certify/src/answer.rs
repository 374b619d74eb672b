//! How a command ended, and what was expected of it.

use holdfast_lab::sense::SenseData;
use holdfast_lab::{Completion, SenseKey, Status};

use crate::check::{Unmet, failed};
use crate::words;

/// An answer, with who asked what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    /// Such as "READ (16) by host A through 127.0.0.1:3260".
    pub(crate) what: String,
    pub(crate) status: u8,
    pub(crate) sense: Option<SenseData>,
    pub(crate) data: Vec<u8>,
}

const ILLEGAL_REQUEST: u8 = SenseKey::IllegalRequest as u8;
const UNIT_ATTENTION: u8 = SenseKey::UnitAttention as u8;
const NOT_READY: u8 = SenseKey::NotReady as u8;

impl Answer {
    pub(crate) fn new(what: String, completion: &Completion) -> Self {
        let sense = match completion.status == Status::CheckCondition.code() {
            true => SenseData::parse(&completion.sense),
            false => None,
        };
        Self {
            what,
            status: completion.status,
            sense,
            data: completion.data_in.concat(),
        }
    }

    pub(crate) fn is_good(&self) -> bool {
        self.status == Status::Good.code()
    }

    pub(crate) fn is_conflict(&self) -> bool {
        self.status == Status::ReservationConflict.code()
    }

    /// The target does not know the command, or not what was asked with it.
    pub(crate) fn is_unknown(&self) -> bool {
        let known = self.sense.filter(|sense| sense.key == ILLEGAL_REQUEST);
        known.is_some_and(|sense| matches!(sense.additional(), 0x2000 | 0x2400 | 0x2600))
    }

    /// The condition of a unit attention, if that is what it is.
    pub(crate) fn attention(&self) -> Option<u16> {
        let sense = self.sense.filter(|sense| sense.key == UNIT_ATTENTION)?;
        Some(sense.additional())
    }

    /// A host tries again a moment later.
    pub(crate) fn is_for_later(&self) -> bool {
        let is_busy = [Status::Busy, Status::TaskSetFull].map(Status::code);
        let becomes_ready = self.sense.is_some_and(|sense| {
            sense.key == NOT_READY && matches!(sense.additional(), 0x0401 | 0x040A)
        });
        is_busy.contains(&self.status) || becomes_ready
    }

    /// The data of a command that has to be GOOD.
    pub(crate) fn good(self) -> Result<Vec<u8>, Unmet> {
        match self.is_good() {
            true => Ok(self.data),
            false => Err(self.instead_of("GOOD")),
        }
    }

    /// It has to be RESERVATION CONFLICT.
    pub(crate) fn conflict(&self) -> Result<(), Unmet> {
        match self.is_conflict() {
            true => Ok(()),
            false => Err(self.instead_of("RESERVATION CONFLICT")),
        }
    }

    /// It has to be CHECK CONDITION with that key and condition.
    pub(crate) fn refused(&self, key: SenseKey, additional: u16) -> Result<(), Unmet> {
        let expected = SenseData {
            key: key as u8,
            code: additional.to_be_bytes()[0],
            qualifier: additional.to_be_bytes()[1],
            information: None,
        };
        let seen = self.sense.map(|sense| (sense.key, sense.additional()));
        match seen == Some((key as u8, additional)) {
            true => Ok(()),
            false => Err(self.instead_of(&words::sense(expected))),
        }
    }

    /// That it did not end as expected.
    pub(crate) fn instead_of(&self, expected: &str) -> Unmet {
        failed(format!("{}: {expected}", self.what), self.how_it_ended())
    }

    /// Status, and what sense data says.
    pub(crate) fn how_it_ended(&self) -> String {
        let status = words::status(self.status);
        match self.sense {
            Some(sense) => format!("{status}: {}", words::sense(sense)),
            None if self.status == Status::CheckCondition.code() => {
                format!("{status} without sense data that can be read")
            }
            None => status,
        }
    }
}

#[cfg(test)]
mod tests {
    use holdfast_stdx::Bytes;

    use super::*;

    fn answer(status: Status, sense: &[u8]) -> Answer {
        let completion = Completion {
            status: status.code(),
            sense: Bytes::copy_from_slice(sense),
            data_in: Vec::new(),
            residual: holdfast_iscsi::pdu::Residual::None,
        };
        Answer::new("READ (16) by host A".to_owned(), &completion)
    }

    const ATTENTION: [u8; 8] = [0x72, 6, 0x2A, 5, 0, 0, 0, 0];

    #[test]
    fn what_was_expected_and_what_was_seen() {
        let conflict = answer(Status::ReservationConflict, &[]);
        let expected = failed("READ (16) by host A: GOOD", "RESERVATION CONFLICT");
        assert_eq!(conflict.clone().good(), Err(expected));
        assert_eq!(conflict.conflict(), Ok(()));
        let attention = answer(Status::CheckCondition, &ATTENTION);
        assert_eq!(attention.attention(), Some(0x2A05));
        assert_eq!(attention.refused(SenseKey::UnitAttention, 0x2A05), Ok(()));
        let unread = answer(Status::CheckCondition, &[]);
        assert!(unread.how_it_ended().contains("without sense data"));
        // Sense data beside another status means nothing.
        assert_eq!(answer(Status::Good, &ATTENTION).attention(), None);
    }

    #[test]
    fn when_a_host_tries_again() {
        assert!(answer(Status::Busy, &[]).is_for_later());
        let starting = [0x72, 2, 4, 1, 0, 0, 0, 0];
        assert!(answer(Status::CheckCondition, &starting).is_for_later());
        let offline = [0x72, 2, 4, 0x12, 0, 0, 0, 0];
        assert!(!answer(Status::CheckCondition, &offline).is_for_later());
        let unknown = [0x72, 5, 0x20, 0, 0, 0, 0, 0];
        assert!(answer(Status::CheckCondition, &unknown).is_unknown());
    }
}
