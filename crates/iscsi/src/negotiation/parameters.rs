//! The operational parameters of a session: how they begin, what a side prefers, what comes out.
//!
//! Invariants:
//! - a result function is applied in one place, for the side that answers and for the side that
//!   checks the answer.

use alloc::string::{String, ToString};
use core::ops::RangeInclusive;

use thiserror::Error;

use crate::negotiation::{Digest, Key, parse_boolean, parse_number};

/// What a session's keys came to. Lengths in bytes, times in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// HeaderDigest is CRC32C.
    pub header_digest: bool,
    /// DataDigest is CRC32C.
    pub data_digest: bool,
    /// MaxConnections.
    pub connections_max: u32,
    /// InitialR2T: no unsolicited Data-Out PDUs.
    pub initial_r2t: bool,
    /// ImmediateData: Data-Out may ride on the command.
    pub immediate_data: bool,
    /// MaxRecvDataSegmentLength that the peer declared: the most that may be sent to it.
    pub send_segment_max: u32,
    /// MaxBurstLength.
    pub burst_max: u32,
    /// FirstBurstLength.
    pub first_burst_max: u32,
    /// DefaultTime2Wait.
    pub time_to_wait: u32,
    /// DefaultTime2Retain.
    pub time_to_retain: u32,
    /// MaxOutstandingR2T.
    pub ready_to_transfer_max: u32,
    /// DataPDUInOrder.
    pub pdu_in_order: bool,
    /// DataSequenceInOrder.
    pub sequence_in_order: bool,
    /// ErrorRecoveryLevel.
    pub error_recovery_level: u32,
}

impl Default for Parameters {
    /// What holds without negotiation (RFC 7143 13).
    fn default() -> Self {
        Self {
            header_digest: false,
            data_digest: false,
            connections_max: 1,
            initial_r2t: true,
            immediate_data: true,
            send_segment_max: 8192,
            burst_max: 262_144,
            first_burst_max: 65_536,
            time_to_wait: 2,
            time_to_retain: 20,
            ready_to_transfer_max: 1,
            pdu_in_order: true,
            sequence_in_order: true,
            error_recovery_level: 0,
        }
    }
}

impl Parameters {
    /// Most unsolicited bytes of one command, immediate ones included. FirstBurstLength must not
    /// exceed MaxBurstLength (RFC 7143 13.14); if the two came out so nevertheless, the lower holds.
    #[must_use]
    pub fn unsolicited_max(&self) -> u32 {
        self.first_burst_max.min(self.burst_max)
    }
}

/// What one side wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preferences {
    /// Digests for headers that this side takes, the preferred one first.
    pub header_digests: &'static [Digest],
    /// Digests for data that this side takes, the preferred one first.
    pub data_digests: &'static [Digest],
    /// Wants every transfer asked for.
    pub initial_r2t: bool,
    /// Takes, or sends, data with the command.
    pub immediate_data: bool,
    /// The longest data segment that this side takes.
    pub receive_segment_max: u32,
    /// The longest sequence of data that it takes or sends.
    pub burst_max: u32,
    /// The same for unsolicited data.
    pub first_burst_max: u32,
    /// Outstanding R2Ts of one command.
    pub ready_to_transfer_max: u32,
}

impl Preferences {
    /// Digests in the order of a side that would rather have none.
    pub const DIGESTS: &'static [Digest] = &[Digest::None, Digest::Crc32c];
}

/// What a side answers to a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// This value.
    Value(String),
    /// Nothing: the key was a declaration (RFC 7143 6.2).
    Nothing,
    /// The value, or the key at this place, is not acceptable; what held before holds on.
    Reject,
    /// The key is unknown.
    NotUnderstood,
}

/// Why an answer to what this side offered is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum NegotiationError {
    /// The value does not follow from what was offered.
    #[error("the answer to {} does not follow from the offer", .0.name())]
    Value(Key),
    /// The key was refused.
    #[error("{} was refused", .0.name())]
    Refused(Key),
}

/// Ranges of RFC 7143 13.
const LENGTHS: RangeInclusive<u32> = 512..=(1 << 24) - 1;
const SECONDS: RangeInclusive<u32> = 0..=3600;
const COUNTS: RangeInclusive<u32> = 1..=65_535;
const LEVELS: RangeInclusive<u32> = 0..=2;
/// RFC 7143 13.24; we speak level 1, which is RFC 7143 itself.
const PROTOCOL_LEVELS: RangeInclusive<u32> = 0..=31;
const PROTOCOL_LEVEL: u32 = 1;

/// Which side a rule's result depends on.
#[derive(Clone, Copy)]
enum Rule {
    /// The result is the lower of the two.
    Minimum(RangeInclusive2),
    /// The result is the higher of the two.
    Maximum(RangeInclusive2),
    /// The result is Yes if both say so.
    And,
    /// The result is Yes if one says so.
    Or,
}

/// [`RangeInclusive`] is not `Copy`.
#[derive(Clone, Copy)]
struct RangeInclusive2(u32, u32);

impl From<RangeInclusive<u32>> for RangeInclusive2 {
    fn from(range: RangeInclusive<u32>) -> Self {
        Self(*range.start(), *range.end())
    }
}

impl RangeInclusive2 {
    fn parse(self, text: &str) -> Option<u32> {
        parse_number(text).filter(|number| (self.0..=self.1).contains(number))
    }
}

/// A parameter that is a number or a boolean: its rule, what this side wants, where it is kept.
enum Slot<'a> {
    Number(Rule, u32, &'a mut u32),
    Boolean(Rule, bool, &'a mut bool),
}

impl Parameters {
    fn slot<'a>(&'a mut self, key: Key, wants: &Preferences) -> Option<Slot<'a>> {
        let minimum = |range: RangeInclusive<u32>| Rule::Minimum(range.into());
        Some(match key {
            Key::MaxConnections => Slot::Number(minimum(COUNTS), 1, &mut self.connections_max),
            Key::InitialR2T => Slot::Boolean(Rule::Or, wants.initial_r2t, &mut self.initial_r2t),
            Key::ImmediateData => {
                Slot::Boolean(Rule::And, wants.immediate_data, &mut self.immediate_data)
            }
            Key::MaxBurstLength => {
                Slot::Number(minimum(LENGTHS), wants.burst_max, &mut self.burst_max)
            }
            Key::FirstBurstLength => Slot::Number(
                minimum(LENGTHS),
                wants.first_burst_max,
                &mut self.first_burst_max,
            ),
            Key::DefaultTime2Wait => {
                Slot::Number(Rule::Maximum(SECONDS.into()), 0, &mut self.time_to_wait)
            }
            // Nothing is retained: ErrorRecoveryLevel 0 has nothing to come back to.
            Key::DefaultTime2Retain => Slot::Number(minimum(SECONDS), 0, &mut self.time_to_retain),
            Key::MaxOutstandingR2T => Slot::Number(
                minimum(COUNTS),
                wants.ready_to_transfer_max,
                &mut self.ready_to_transfer_max,
            ),
            Key::DataPduInOrder => Slot::Boolean(Rule::Or, true, &mut self.pdu_in_order),
            Key::DataSequenceInOrder => Slot::Boolean(Rule::Or, true, &mut self.sequence_in_order),
            Key::ErrorRecoveryLevel => {
                Slot::Number(minimum(LEVELS), 0, &mut self.error_recovery_level)
            }
            _ => return None,
        })
    }

    /// What a side that wants `wants` answers when the peer offers `key` with `value`; the result
    /// is kept. For keys that are not operational parameters the answer is
    /// [`Answer::NotUnderstood`]; they are the caller's.
    pub fn answer(&mut self, key: Key, value: &str, wants: &Preferences) -> Answer {
        match key {
            Key::HeaderDigest => {
                answer_digest(value, wants.header_digests, &mut self.header_digest)
            }
            Key::DataDigest => answer_digest(value, wants.data_digests, &mut self.data_digest),
            Key::MaxRecvDataSegmentLength => match RangeInclusive2::from(LENGTHS).parse(value) {
                Some(length) => {
                    self.send_segment_max = length;
                    Answer::Nothing
                }
                None => Answer::Reject,
            },
            // The only semantics that we have is that of RFC 3720 (RFC 7143 13.23).
            Key::TaskReporting => {
                let has_ours = value.split(',').any(|item| item == "RFC3720");
                if has_ours {
                    Answer::Value("RFC3720".into())
                } else {
                    Answer::Reject
                }
            }
            Key::IscsiProtocolLevel => match RangeInclusive2::from(PROTOCOL_LEVELS).parse(value) {
                Some(level) => Answer::Value(level.min(PROTOCOL_LEVEL).to_string()),
                None => Answer::Reject,
            },
            // RFC 7143 13.25: "No" or "Reject" for the first two, "Reject" for the others.
            Key::IfMarker | Key::OfMarker => Answer::Value("No".into()),
            Key::IfMarkInt | Key::OfMarkInt => Answer::Reject,
            _ => match self.slot(key, wants) {
                Some(slot) => slot.answer(value),
                None => Answer::NotUnderstood,
            },
        }
    }

    /// Takes the peer's answer `value` to our offer of `key`.
    ///
    /// # Errors
    /// [`NegotiationError`] if the answer does not follow from the offer: the login cannot go on
    /// (RFC 7143 7.12).
    pub fn accept(
        &mut self,
        key: Key,
        value: &str,
        offered: &Preferences,
    ) -> Result<(), NegotiationError> {
        if matches!(value, "Reject" | "NotUnderstood" | "Irrelevant") {
            // What held before holds on, which for these keys is the default. Digests decide how
            // the stream is cut: nothing may be left open there.
            return match key {
                Key::HeaderDigest | Key::DataDigest => Err(NegotiationError::Refused(key)),
                _ => Ok(()),
            };
        }
        let error = NegotiationError::Value(key);
        match key {
            Key::HeaderDigest | Key::DataDigest => {
                let (list, slot) = match key {
                    Key::HeaderDigest => (offered.header_digests, &mut self.header_digest),
                    _ => (offered.data_digests, &mut self.data_digest),
                };
                let digest = Digest::from_name(value).filter(|digest| list.contains(digest));
                *slot = digest.ok_or(error)? == Digest::Crc32c;
                Ok(())
            }
            Key::MaxRecvDataSegmentLength => {
                let length = RangeInclusive2::from(LENGTHS).parse(value);
                self.send_segment_max = length.ok_or(error)?;
                Ok(())
            }
            _ => match self.slot(key, offered) {
                Some(slot) => slot.accept(value).ok_or(error),
                None => Ok(()),
            },
        }
    }
}

fn answer_digest(offer: &str, ours: &[Digest], slot: &mut bool) -> Answer {
    // The first of the peer's list that this side takes (RFC 7143 6.2.1).
    match offer
        .split(',')
        .filter_map(Digest::from_name)
        .find(|digest| ours.contains(digest))
    {
        Some(digest) => {
            *slot = digest == Digest::Crc32c;
            Answer::Value(digest.name().into())
        }
        None => Answer::Reject,
    }
}

impl Slot<'_> {
    fn answer(self, value: &str) -> Answer {
        match self {
            Slot::Number(rule, ours, slot) => {
                let (Rule::Minimum(range) | Rule::Maximum(range)) = rule else {
                    unreachable!("numbers have numeric rules");
                };
                let Some(theirs) = range.parse(value) else {
                    return Answer::Reject;
                };
                *slot = match rule {
                    Rule::Maximum(_) => theirs.max(ours),
                    _ => theirs.min(ours),
                };
                Answer::Value(slot.to_string())
            }
            Slot::Boolean(rule, ours, slot) => {
                let Some(theirs) = parse_boolean(value) else {
                    return Answer::Reject;
                };
                *slot = match rule {
                    Rule::And => theirs && ours,
                    _ => theirs || ours,
                };
                Answer::Value(if *slot { "Yes" } else { "No" }.into())
            }
        }
    }

    /// Keeps the peer's answer, if it follows from `ours`.
    fn accept(self, value: &str) -> Option<()> {
        match self {
            Slot::Number(rule, ours, slot) => match rule {
                Rule::Maximum(range) => *slot = range.parse(value).filter(|it| *it >= ours)?,
                Rule::Minimum(range) => *slot = range.parse(value).filter(|it| *it <= ours)?,
                Rule::And | Rule::Or => unreachable!("numbers have numeric rules"),
            },
            Slot::Boolean(rule, ours, slot) => {
                let result = parse_boolean(value)?;
                let follows = match rule {
                    Rule::And => ours || !result,
                    _ => !ours || result,
                };
                *slot = follows.then_some(result)?;
            }
        }
        Some(())
    }
}
