//! Who an initiator is, and how it proves that: AuthMethod and CHAP within a login
//! (RFC 7143 12.1, RFC 1994).
//!
//! It refuses to say which part of a proof was wrong, and to prove anything to somebody who has
//! not proved who he is.
//!
//! Invariants:
//! - a proof is asked for once in a login, and judged once, by one computation whose length does
//!   not depend on what is wrong;
//! - a challenge of ours is never answered by us (RFC 7143 9.2.1), and no secret proves both sides.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::chap::{
    CHAP_NAME_LENGTH_MAX, Challenges, ChapAlgorithm, ChapSum, hexadecimal, parse_binary,
};
use crate::negotiation::{Key, parse_number, put_pair};
use crate::pdu::LoginStatus;
use crate::target::InitiatorEntry;

/// How far the proof has come, in one login.
#[derive(Debug, Default)]
pub(super) struct Authentication {
    /// The initiator may not go on without a proof.
    required: bool,
    /// What is known of it; `None` of those who have nothing to prove it with.
    entry: Option<InitiatorEntry>,
    state: State,
    /// Keys of CHAP in the present text.
    text: ChapText,
}

#[derive(Debug, Default)]
enum State {
    /// No method was agreed on.
    #[default]
    Open,
    /// The method is "None".
    Unproved,
    /// The method is CHAP; the algorithms that the initiator has are to come.
    Chosen,
    /// The response is to come.
    Challenged {
        algorithm: ChapAlgorithm,
        identifier: u8,
        challenge: Vec<u8>,
    },
    /// It is who it says.
    Proved,
}

/// What a text has of CHAP.
#[derive(Debug, Default)]
struct ChapText {
    algorithms: Option<String>,
    identifier: Option<String>,
    challenge: Option<String>,
    name: Option<String>,
    response: Option<String>,
}

impl Authentication {
    /// The login is of an initiator of which `entry` is known.
    pub(super) fn identify(&mut self, entry: Option<InitiatorEntry>, required: bool) {
        self.entry = entry.filter(|it| it.account.is_some());
        assert!(!required || self.entry.is_some(), "a proof can be given");
        self.required = required;
    }

    /// Whether the login may leave the security stage.
    pub(super) const fn is_settled(&self) -> bool {
        match self.state {
            State::Open => !self.required,
            State::Unproved | State::Proved => true,
            State::Chosen | State::Challenged { .. } => false,
        }
    }

    /// Whether the initiator has not begun to prove what it has to.
    pub(super) const fn is_evaded(&self) -> bool {
        matches!(self.state, State::Open) && self.required
    }

    /// Whether the initiator has proved who it is.
    pub(super) const fn is_proved(&self) -> bool {
        matches!(self.state, State::Proved)
    }

    /// The first method of the initiator's list that will do (RFC 7143 12.1, 6.2.1): CHAP where
    /// there is something to prove it by, "None" where no proof is required.
    pub(super) fn choose(&mut self, offer: &str) -> Result<&'static str, LoginStatus> {
        for method in offer.split(',') {
            match method {
                "CHAP" if self.entry.is_some() => {
                    self.state = State::Chosen;
                    return Ok("CHAP");
                }
                "None" if !self.required => {
                    self.state = State::Unproved;
                    return Ok("None");
                }
                _ => {}
            }
        }
        Err(LoginStatus::AuthenticationFailure)
    }

    /// Takes a key of CHAP; false if it has no place, CHAP not being under way.
    pub(super) fn take_key(&mut self, key: Key, value: &str) -> bool {
        if !matches!(self.state, State::Chosen | State::Challenged { .. }) {
            return false;
        }
        let place = match key {
            Key::ChapAlgorithm => &mut self.text.algorithms,
            Key::ChapIdentifier => &mut self.text.identifier,
            Key::ChapChallenge => &mut self.text.challenge,
            Key::ChapName => &mut self.text.name,
            Key::ChapResponse => &mut self.text.response,
            _ => unreachable!("only keys of CHAP are taken"),
        };
        *place = Some(value.into());
        true
    }

    /// Goes on with what a whole text has brought. A text without keys of CHAP leaves everything as
    /// it is: the initiator has something else to say first.
    pub(super) fn advance(
        &mut self,
        answer: &mut String,
        challenges: &mut Challenges,
    ) -> Result<(), LoginStatus> {
        let text = core::mem::take(&mut self.text);
        match &self.state {
            State::Open | State::Unproved | State::Proved => Ok(()),
            State::Chosen => self.put_challenge(&text, answer, challenges),
            State::Challenged {
                algorithm,
                identifier,
                challenge,
            } => {
                if text.is_empty() {
                    return Ok(());
                }
                let sum = ChapSum {
                    algorithm: *algorithm,
                    identifier: *identifier,
                    challenge,
                };
                self.judge(&text, &sum, answer)?;
                self.state = State::Proved;
                Ok(())
            }
        }
    }

    fn put_challenge(
        &mut self,
        text: &ChapText,
        answer: &mut String,
        challenges: &mut Challenges,
    ) -> Result<(), LoginStatus> {
        let has_more = text.name.is_some()
            || text.response.is_some()
            || text.identifier.is_some()
            || text.challenge.is_some();
        let Some(offer) = text.algorithms.as_deref().filter(|_| !has_more) else {
            // A response to nothing.
            return if has_more {
                Err(LoginStatus::InitiatorError)
            } else {
                Ok(())
            };
        };
        let algorithm = ChapAlgorithm::choose(offer).ok_or(LoginStatus::AuthenticationFailure)?;
        let (identifier, challenge) = challenges.next(algorithm.length());
        put_pair(
            answer,
            Key::ChapAlgorithm.name(),
            &algorithm.code().to_string(),
        );
        put_pair(answer, Key::ChapIdentifier.name(), &identifier.to_string());
        put_pair(answer, Key::ChapChallenge.name(), &hexadecimal(&challenge));
        self.state = State::Challenged {
            algorithm,
            identifier,
            challenge,
        };
        Ok(())
    }

    /// Whether the response is right; if it is, and the initiator wants a proof too, it is given.
    fn judge(
        &self,
        text: &ChapText,
        sum: &ChapSum<'_>,
        answer: &mut String,
    ) -> Result<(), LoginStatus> {
        let (Some(name), Some(response)) = (&text.name, &text.response) else {
            return Err(LoginStatus::MissingParameter);
        };
        if name.is_empty() || name.len() > CHAP_NAME_LENGTH_MAX {
            return Err(LoginStatus::InitiatorError);
        }
        let response = parse_binary(response).ok_or(LoginStatus::InitiatorError)?;
        // What the initiator wants of us has to make sense before it is looked at.
        let wanted = match (&text.identifier, &text.challenge) {
            (None, None) => None,
            (Some(identifier), Some(challenge)) => {
                let identifier = parse_number(identifier).and_then(|it| u8::try_from(it).ok());
                let identifier = identifier.ok_or(LoginStatus::InitiatorError)?;
                let challenge = parse_binary(challenge).ok_or(LoginStatus::InitiatorError)?;
                Some((identifier, challenge))
            }
            _ => return Err(LoginStatus::MissingParameter),
        };
        let entry = self.entry.as_ref().expect("CHAP is chosen with an account");
        let account = entry
            .account
            .as_ref()
            .expect("an entry that counts has one");
        if !account.proves(sum, name, &response) {
            return Err(LoginStatus::AuthenticationFailure);
        }
        let Some((identifier, challenge)) = wanted else {
            return Ok(());
        };
        // Our own challenge come back: the answer would be the response that we wait for elsewhere
        // (RFC 7143 9.2.1: "Responders MUST check for this condition and close").
        if challenge == sum.challenge {
            return Err(LoginStatus::AuthenticationFailure);
        }
        let mutual = entry.mutual.as_ref();
        // RFC 7143 9.2.1: no secret serves both directions.
        let mutual = mutual.filter(|it| it.secret != account.secret);
        let mutual = mutual.ok_or(LoginStatus::AuthenticationFailure)?;
        let ours = ChapSum {
            algorithm: sum.algorithm,
            identifier,
            challenge: &challenge,
        };
        put_pair(answer, Key::ChapName.name(), &mutual.name);
        let response = hexadecimal(&ours.response(&mutual.secret));
        put_pair(answer, Key::ChapResponse.name(), &response);
        Ok(())
    }
}

impl ChapText {
    const fn is_empty(&self) -> bool {
        self.algorithms.is_none()
            && self.identifier.is_none()
            && self.challenge.is_none()
            && self.name.is_none()
            && self.response.is_none()
    }
}
