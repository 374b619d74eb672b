//! CHAP on the initiator's side (RFC 7143 12.1.3): it proves who it is, and has the target prove.
//!
//! Invariants:
//! - nothing is proved by a method, or an algorithm, that was not offered;
//! - who wants the target to prove who it is gets no session with one that has not;
//! - a challenge of ours is never answered by us.

use alloc::string::{String, ToString};

use super::{EndReason, Initiator, MutualChap, Phase};
use crate::chap::{ChapAccount, ChapAlgorithm, ChapSum, hexadecimal, parse_binary};
use crate::negotiation::{Key, Pair, parse_number, put_pair};

/// How far the proof has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Proof {
    /// Methods were offered.
    Offered,
    /// The method is CHAP, and algorithms were offered.
    Chosen,
    /// The response was sent; the target's is to come, to a challenge of ours with this identifier,
    /// if it was wanted.
    Responded(ChapAlgorithm, u8),
    /// Nothing is to come any more.
    Over,
}

const WRONG: EndReason = EndReason::ProtocolError("a login that does not follow CHAP");

impl Proof {
    /// Whether the initiator has nothing more to say after what it says now. The offer may be the
    /// last word: then it was an offer to do without.
    pub(super) const fn may_be_last(self) -> bool {
        !matches!(self, Self::Chosen)
    }
}

/// Wants a proof of the target too; the result is the identifier that goes with it: another one than the target's, so that not
/// even the sums are alike.
fn put_challenge(
    text: &mut String,
    mutual: &MutualChap,
    theirs: &ChapSum<'_>,
) -> Result<u8, EndReason> {
    if theirs.challenge == mutual.challenge {
        return Err(EndReason::NotAuthenticated);
    }
    let ours = theirs.identifier.wrapping_add(1);
    put_pair(text, Key::ChapIdentifier.name(), &ours.to_string());
    let challenge = hexadecimal(&mutual.challenge);
    put_pair(text, Key::ChapChallenge.name(), &challenge);
    Ok(ours)
}

/// Whether what the target says of its name, and the response, is right.
fn judge(
    account: &ChapAccount,
    sum: &ChapSum<'_>,
    (name, response): (Option<&str>, Option<&str>),
) -> Result<Proof, EndReason> {
    let response = response.and_then(parse_binary).unwrap_or_default();
    if account.proves(sum, name.unwrap_or_default(), &response) {
        Ok(Proof::Over)
    } else {
        Err(EndReason::NotAuthenticated)
    }
}

/// The one of these that the target has chosen.
fn find(algorithms: &[ChapAlgorithm], code: &str) -> Option<ChapAlgorithm> {
    let mut algorithms = algorithms.iter().copied();
    algorithms.find(|it| parse_number(code) == Some(it.code()))
}

fn identifier(text: Option<&str>) -> Option<u8> {
    text.and_then(parse_number)?.try_into().ok()
}

/// The algorithms that are offered, as CHAP_A has them.
fn codes(algorithms: &[ChapAlgorithm]) -> String {
    let codes = algorithms.iter().map(|it| it.code().to_string());
    codes.collect::<alloc::vec::Vec<_>>().join(",")
}

impl Initiator {
    /// Whether everything is proved that has to be.
    pub(super) fn is_proved(&self) -> bool {
        match &self.phase {
            Phase::Login(login) => match login.proof {
                Proof::Over => true,
                // A target that has not said which method it takes takes none.
                Proof::Offered => self
                    .config
                    .chap
                    .as_ref()
                    .is_none_or(|chap| chap.mutual.is_none()),
                Proof::Chosen | Proof::Responded(..) => false,
            },
            Phase::Full | Phase::LoggingOut | Phase::Ended => true,
        }
    }

    /// Goes on with what a text of the target has brought: the result is the answer, if there is to
    /// be one.
    pub(super) fn take_proof(&mut self, pairs: &[Pair<'_>]) -> Result<Option<String>, EndReason> {
        let Phase::Login(login) = &mut self.phase else {
            unreachable!("only a login proves anything");
        };
        let value_of = |key: Key| {
            let mut pairs = pairs.iter();
            pairs.find(|it| it.key == key.name()).map(|it| it.value)
        };
        let chap = self.config.chap.as_ref();
        let mut text = String::new();
        match login.proof {
            Proof::Over => return Ok(None),
            Proof::Offered => match (value_of(Key::AuthMethod), chap) {
                (None, _) => return Ok(None),
                (Some("CHAP"), Some(chap)) => {
                    put_pair(
                        &mut text,
                        Key::ChapAlgorithm.name(),
                        &codes(chap.algorithms),
                    );
                    login.proof = Proof::Chosen;
                }
                (Some("None"), chap) if chap.is_none_or(|chap| chap.mutual.is_none()) => {
                    login.proof = Proof::Over;
                    return Ok(None);
                }
                (Some(_), _) => return Err(EndReason::NotAuthenticated),
            },
            Proof::Chosen => {
                let chap = chap.expect("CHAP is chosen by who has an account");
                let code = value_of(Key::ChapAlgorithm).ok_or(WRONG)?;
                let algorithm = find(chap.algorithms, code).ok_or(WRONG)?;
                let identifier = identifier(value_of(Key::ChapIdentifier)).ok_or(WRONG)?;
                let challenge = value_of(Key::ChapChallenge)
                    .and_then(parse_binary)
                    .ok_or(WRONG)?;
                let sum = ChapSum {
                    algorithm,
                    identifier,
                    challenge: &challenge,
                };
                let response = sum.response(&chap.account.secret);
                put_pair(&mut text, Key::ChapName.name(), &chap.account.name);
                put_pair(&mut text, Key::ChapResponse.name(), &hexadecimal(&response));
                login.proof = Proof::Over;
                if let Some(mutual) = &chap.mutual {
                    let ours = put_challenge(&mut text, mutual, &sum)?;
                    login.proof = Proof::Responded(algorithm, ours);
                }
            }
            Proof::Responded(algorithm, identifier) => {
                let mutual = chap
                    .and_then(|it| it.mutual.as_ref())
                    .expect("a response is wanted by who can judge it");
                let sum = ChapSum {
                    algorithm,
                    identifier,
                    challenge: &mutual.challenge,
                };
                let said = (value_of(Key::ChapName), value_of(Key::ChapResponse));
                login.proof = judge(&mutual.account, &sum, said)?;
                return Ok(None);
            }
        }
        Ok(Some(text))
    }
}
