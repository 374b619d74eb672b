//! What a host makes of a target's answer: this is the one place that knows.

use holdfast_iscsi::initiator::Completion;
use holdfast_scsi::{SenseKey, Status};
use holdfast_stdx::Bytes;

use super::Problem;
use crate::sense::SenseData;

/// What is to be done about a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Nothing more: it was carried out and returned this.
    Done(Vec<Bytes>),
    /// It failed for good.
    Refused(Problem),
    /// Send it again: the target only had something to say first.
    Repeat(Problem),
    /// Send it again on another path.
    RepeatElsewhere(Problem),
    /// Send it again after a pause: the target cannot do it now.
    RepeatLater(Problem),
}

pub(super) fn judge(completion: Completion) -> Verdict {
    const GOOD: u8 = Status::Good.code();
    const CHECK_CONDITION: u8 = Status::CheckCondition.code();
    const BUSY: u8 = Status::Busy.code();
    const TASK_SET_FULL: u8 = Status::TaskSetFull.code();
    const TASK_ABORTED: u8 = Status::TaskAborted.code();
    let status = completion.status;
    match status {
        GOOD => Verdict::Done(completion.data_in),
        BUSY | TASK_SET_FULL | TASK_ABORTED => Verdict::RepeatLater(Problem::Status(status)),
        CHECK_CONDITION => match SenseData::parse(&completion.sense) {
            Some(sense) => judge_sense(sense),
            None => Verdict::Refused(Problem::Status(status)),
        },
        _ => Verdict::Refused(Problem::Status(status)),
    }
}

fn judge_sense(sense: SenseData) -> Verdict {
    const UNIT_ATTENTION: u8 = SenseKey::UnitAttention as u8;
    const NOT_READY: u8 = SenseKey::NotReady as u8;
    const ABORTED_COMMAND: u8 = SenseKey::AbortedCommand as u8;
    let problem = Problem::Sense(sense);
    match sense.key {
        UNIT_ATTENTION => Verdict::Repeat(problem),
        NOT_READY | ABORTED_COMMAND => Verdict::RepeatLater(problem),
        _ => Verdict::Refused(problem),
    }
}

#[cfg(test)]
mod tests {
    use holdfast_iscsi::pdu::Residual;
    use holdfast_scsi::{AdditionalSense, Sense};

    use super::*;

    fn completion(status: Status, sense: Option<Sense>) -> Completion {
        Completion {
            status: status.code(),
            sense: sense.map_or_else(Bytes::new, |sense| {
                Bytes::copy_from_slice(&sense.encode_fixed())
            }),
            data_in: Vec::new(),
            residual: Residual::None,
        }
    }

    #[test]
    fn every_status_has_its_verdict() {
        use Status as S;
        for status in [S::Busy, S::TaskSetFull, S::TaskAborted] {
            let expected = Verdict::RepeatLater(Problem::Status(status.code()));
            assert_eq!(judge(completion(status, None)), expected);
        }
        for status in [S::ReservationConflict, S::AcaActive, S::CheckCondition] {
            let expected = Verdict::Refused(Problem::Status(status.code()));
            assert_eq!(judge(completion(status, None)), expected, "{status:?}");
        }
        let good = judge(completion(S::Good, None));
        assert_eq!(good, Verdict::Done(Vec::new()));
    }

    #[test]
    fn every_sense_key_has_its_verdict() {
        for (key, repeated) in [
            (SenseKey::UnitAttention, true),
            (SenseKey::NotReady, true),
            (SenseKey::AbortedCommand, true),
            (SenseKey::MediumError, false),
            (SenseKey::IllegalRequest, false),
            (SenseKey::DataProtect, false),
            (SenseKey::HardwareError, false),
            (SenseKey::Miscompare, false),
        ] {
            let sense = Sense::new(key, AdditionalSense::NONE);
            let verdict = judge(completion(Status::CheckCondition, Some(sense)));
            let is_final = matches!(verdict, Verdict::Refused(_));
            assert_eq!(is_final, !repeated, "{key:?}");
        }
    }
}
