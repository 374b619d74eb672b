//! The login phase (RFC 7143 6.3): who the initiator is, which target it wants, and how the two
//! will talk.
//!
//! It refuses whatever is not a login; what follows one is in [`opening`](super::opening).
//!
//! Invariants:
//! - a login is refused with a status that says why, before its connection is closed;
//! - who has to prove who he is does not leave the security stage before he has.

use alloc::collections::BTreeSet;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use holdfast_stdx::Bytes;

use crate::negotiation::{Answer, Key, Pair, Parameters, parse_text, put_pair};
use crate::pdu::{
    Framing, InitiatorTaskTag, LoginRequest, LoginResponse, LoginStage, LoginStatus, Payload,
    Reply, Request, Sequence,
};
use crate::serial::SerialNumber;
use crate::target::authentication::Authentication;
use crate::target::connection::{Flow, Wire};
use crate::target::directory::Admission;
use crate::target::load::Allowance;
use crate::target::nexus::Shared;
use crate::target::opening::Opening;
use crate::target::{CloseReason, PortalAddress, TargetOutput};
use crate::{ConnectionIdentifier, IscsiName, Isid, Tsih};

/// Requests of one login; two to four are usual.
const REQUESTS_MAX: u32 = 32;
/// Text of one answer: what every initiator takes before it says otherwise (RFC 7143 13.12).
const ANSWER_BYTES_MAX: usize = Framing::LOGIN.data_length_max;
/// The only version there is (RFC 7143 11.12.4).
pub(super) const VERSION: u8 = 0;
/// Longest TargetAlias (RFC 7143 13.6).
const ALIAS_LENGTH_MAX: usize = 255;

/// A login under way.
#[derive(Debug, Default)]
pub(super) struct Login {
    begun: Option<Begun>,
    /// The stage that the login is in; `None` before the first request.
    stage: Option<LoginStage>,
    requests: u32,
    /// Text that goes on in the next request.
    text: Vec<u8>,
    seen: BTreeSet<Key>,
    initiator: Option<IscsiName>,
    kind: Option<Kind>,
    authentication: Authentication,
    /// Where the target is for the time being, if it is not here.
    moved_to: Option<PortalAddress>,
    parameters: Parameters,
    /// The target has said how long data segments may be that it takes.
    has_declared: bool,
    /// From when it is known who it is.
    pub(super) allowance: Allowance,
}

/// What every request of a login repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Begun {
    pub(super) isid: Isid,
    pub(super) tsih: Tsih,
    pub(super) tag: InitiatorTaskTag,
    pub(super) connection: ConnectionIdentifier,
    pub(super) first: SerialNumber,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Discovery,
    Normal(IscsiName),
}

impl Login {
    pub(super) fn held_bytes(&self) -> usize {
        self.text.len()
    }

    /// Takes one PDU.
    pub(super) fn handle(
        &mut self,
        wire: &mut Wire,
        request: Request,
        data: Payload,
        shared: &mut Shared,
        out: &mut TargetOutput,
    ) -> Flow {
        let Request::Login(request) = request else {
            return self.refuse_unknown(wire, out);
        };
        match self.advance(&request, data, shared) {
            Err(status) => self.refuse(wire, &request, status, out),
            Ok(Step::More) => {
                let response = self.response(&request, false, Tsih::NEW, wire);
                wire.send(&Reply::Login(response), Vec::new(), out);
                Flow::Continue
            }
            Ok(Step::Answer(text)) => {
                // A stage is left when both are ready to (RFC 7143 11.13.1).
                let transit = request.transit && self.authentication.is_settled();
                let response = self.response(&request, transit, Tsih::NEW, wire);
                if let (true, Some(next)) = (transit, request.next) {
                    self.stage = Some(next);
                }
                wire.send(&Reply::Login(response), [Bytes::from(text)].into(), out);
                Flow::Continue
            }
            Ok(Step::Complete(text)) => {
                self.text = text.into_bytes();
                Flow::Open
            }
        }
    }

    /// A PDU that has no place in a login, or is none.
    pub(super) fn refuse_unknown(&self, wire: &mut Wire, out: &mut TargetOutput) -> Flow {
        // "Invalid during login", RFC 7143 11.13.5.
        let request = LoginRequest {
            transit: false,
            more: false,
            current: self.stage.unwrap_or(LoginStage::SecurityNegotiation),
            next: None,
            version_max: VERSION,
            version_min: VERSION,
            isid: self.begun.map_or(Isid([0; 6]), |it| it.isid),
            tsih: Tsih::NEW,
            task_tag: self.begun.map_or(InitiatorTaskTag::RESERVED, |it| it.tag),
            connection: ConnectionIdentifier(0),
            command_number: self.begun.map_or(SerialNumber::ZERO, |it| it.first),
            expected_status: SerialNumber::ZERO,
        };
        self.refuse(wire, &request, LoginStatus::InvalidDuringLogin, out)
    }

    fn refuse(
        &self,
        wire: &mut Wire,
        request: &LoginRequest,
        status: LoginStatus,
        out: &mut TargetOutput,
    ) -> Flow {
        let mut response = self.response(request, false, Tsih::NEW, wire);
        response.status = status;
        let text = moved_text(self.moved_to.as_ref());
        wire.send(&Reply::Login(response), [text].into(), out);
        Flow::Close(CloseReason::LoginRefused)
    }

    fn response(
        &self,
        request: &LoginRequest,
        transit: bool,
        tsih: Tsih,
        wire: &mut Wire,
    ) -> LoginResponse {
        LoginResponse {
            transit,
            more: false,
            current: request.current,
            next: request.next.filter(|_| transit),
            version_max: VERSION,
            version_active: VERSION,
            isid: request.isid,
            tsih,
            task_tag: request.task_tag,
            sequence: login_sequence(wire, request.command_number),
            status: LoginStatus::Success,
        }
    }

    fn advance(
        &mut self,
        request: &LoginRequest,
        data: Payload,
        shared: &mut Shared,
    ) -> Result<Step, LoginStatus> {
        self.check_header(request)?;
        self.requests += 1;
        if self.requests > REQUESTS_MAX
            || self.text.len() + data.len() > shared.limits().text_bytes_max
        {
            return Err(LoginStatus::InitiatorError);
        }
        for part in data.into_parts() {
            self.text.extend_from_slice(&part);
        }
        // C: the text is complete only with a later request, until then the answer is empty
        // (RFC 7143 6.2).
        if request.more {
            return Ok(Step::More);
        }
        let text = core::mem::take(&mut self.text);
        let pairs = parse_text(&text).map_err(|_| LoginStatus::InitiatorError)?;
        let mut answer = String::new();
        if self.kind.is_none() {
            self.identify(request, &pairs, &mut answer, shared)?;
        }
        for pair in &pairs {
            self.answer_pair(request.current, *pair, &mut answer, shared)?;
        }
        let challenges = &mut shared.challenges;
        self.authentication.advance(&mut answer, challenges)?;
        self.check_stage(request)?;
        if request.current == LoginStage::OperationalNegotiation && !self.has_declared {
            self.has_declared = true;
            let length = shared.limits().segment_max(self.allowance.is_wide);
            let length = length.to_string();
            put_pair(&mut answer, Key::MaxRecvDataSegmentLength.name(), &length);
        }
        if answer.len() > ANSWER_BYTES_MAX {
            return Err(LoginStatus::InitiatorError);
        }
        if request.next == Some(LoginStage::FullFeature) && self.authentication.is_settled() {
            return Ok(Step::Complete(answer));
        }
        Ok(Step::Answer(answer))
    }

    /// What RFC 7143 6.3 and 11.12 demand of the headers of one login.
    fn check_header(&mut self, request: &LoginRequest) -> Result<(), LoginStatus> {
        if request.version_min > VERSION {
            return Err(LoginStatus::UnsupportedVersion);
        }
        let begun = Begun {
            isid: request.isid,
            tsih: request.tsih,
            tag: request.task_tag,
            connection: request.connection,
            first: request.command_number,
        };
        if *self.begun.get_or_insert(begun) != begun {
            return Err(LoginStatus::InitiatorError);
        }
        // A login may begin with either stage, and then is in the stage that it went to.
        let stage = *self.stage.get_or_insert(request.current);
        if request.current != stage || stage == LoginStage::FullFeature {
            return Err(LoginStatus::InitiatorError);
        }
        // Stages go up only (RFC 7143 11.12.3).
        match request.next {
            Some(next) if next.code() <= stage.code() => Err(LoginStatus::InitiatorError),
            _ => Ok(()),
        }
    }

    /// A proof has its place in the security stage: who goes past that, or wants to, without having
    /// begun one is refused (RFC 7143 6.3.2).
    fn check_stage(&self, request: &LoginRequest) -> Result<(), LoginStatus> {
        let is_past = request.current != LoginStage::SecurityNegotiation;
        if self.authentication.is_evaded() && (is_past || request.transit) {
            return Err(LoginStatus::AuthenticationFailure);
        }
        Ok(())
    }

    /// The keys that the first request must have (RFC 7143 6.3 and 13.4, 13.5, 13.21).
    fn identify(
        &mut self,
        request: &LoginRequest,
        pairs: &[Pair<'_>],
        answer: &mut String,
        shared: &mut Shared,
    ) -> Result<(), LoginStatus> {
        let value_of = |key: Key| {
            pairs
                .iter()
                .find(|it| it.key == key.name())
                .map(|it| it.value)
        };
        let name = value_of(Key::InitiatorName).ok_or(LoginStatus::MissingParameter)?;
        let initiator = IscsiName::parse(name).map_err(|_| LoginStatus::InitiatorError)?;
        let kind = match value_of(Key::SessionType).unwrap_or("Normal") {
            "Discovery" => Kind::Discovery,
            "Normal" => {
                let name = value_of(Key::TargetName).ok_or(LoginStatus::MissingParameter)?;
                // What is no name is no target's name.
                let name = IscsiName::parse(name).map_err(|_| LoginStatus::NotFound)?;
                self.admit(&name, (&initiator, request.isid), shared)?;
                let entry = &shared.directory.targets[&name];
                if let Some(alias) = &entry.alias
                    && alias.len() <= ALIAS_LENGTH_MAX
                    && !alias.contains('\0')
                {
                    put_pair(answer, Key::TargetAlias.name(), alias);
                }
                // "MUST be returned in the first Login Response", RFC 7143 13.9.
                let group = shared.group().0.to_string();
                put_pair(answer, Key::TargetPortalGroupTag.name(), &group);
                Kind::Normal(name)
            }
            _ => return Err(LoginStatus::SessionTypeNotSupported),
        };
        if kind == Kind::Discovery {
            // Names and addresses are no secrets; who offers a proof is taken at his word.
            let entry = shared.directory.initiators.get(&initiator);
            self.authentication.identify(entry.cloned(), false);
        }
        check_tsih(request, &initiator, &kind, shared)?;
        self.initiator = Some(initiator);
        // Discovery has no commands, and its texts are short.
        if kind != Kind::Discovery {
            self.allowance = shared.load.take_place();
        }
        self.kind = Some(kind);
        Ok(())
    }

    /// Whether the initiator may have a session with the target, and here.
    fn admit(
        &mut self,
        target: &IscsiName,
        who: (&IscsiName, Isid),
        shared: &Shared,
    ) -> Result<(), LoginStatus> {
        let proved = match shared.directory.admission(target, who.0) {
            Admission::NoTarget => return Err(LoginStatus::NotFound),
            Admission::Refused => return Err(LoginStatus::AuthorizationFailure),
            Admission::Admitted { proved } => proved,
        };
        if let Some(address) = shared.elsewhere(target, who) {
            self.moved_to = Some(address.clone());
            return Err(LoginStatus::TargetMovedTemporarily);
        }
        let entry = shared.directory.initiators.get(who.0);
        self.authentication.identify(entry.cloned(), proved);
        Ok(())
    }

    fn answer_pair(
        &mut self,
        stage: LoginStage,
        pair: Pair<'_>,
        answer: &mut String,
        shared: &Shared,
    ) -> Result<(), LoginStatus> {
        let Some(key) = Key::from_name(pair.key) else {
            // RFC 7143 6.2: whatever is not known, private extensions too.
            put_pair(answer, pair.key, "NotUnderstood");
            return Ok(());
        };
        // A key is negotiated once in a login (RFC 7143 6.3.3).
        if !self.seen.insert(key) {
            return Err(LoginStatus::InitiatorError);
        }
        let result = match key {
            Key::AuthMethod if stage == LoginStage::SecurityNegotiation => {
                Answer::Value(self.authentication.choose(pair.value)?.into())
            }
            // Answered when the text has been read.
            Key::ChapAlgorithm
            | Key::ChapIdentifier
            | Key::ChapChallenge
            | Key::ChapName
            | Key::ChapResponse
                if stage == LoginStage::SecurityNegotiation
                    && self.authentication.take_key(key, pair.value) =>
            {
                Answer::Nothing
            }
            // Declarations of the initiator; those that matter were read already.
            Key::InitiatorName
            | Key::InitiatorAlias
            | Key::TargetName
            | Key::SessionType
            | Key::NodeArchitecture => Answer::Nothing,
            // Declarations of the target, keys of the full feature phase, and keys of a stage that
            // is over, or of a method that was not chosen.
            Key::AuthMethod
            | Key::TargetAlias
            | Key::TargetAddress
            | Key::TargetPortalGroupTag
            | Key::SendTargets
            | Key::ChapAlgorithm
            | Key::ChapIdentifier
            | Key::ChapChallenge
            | Key::ChapName
            | Key::ChapResponse => Answer::Reject,
            _ => {
                self.parameters
                    .answer(key, pair.value, &shared.preferences(self.allowance.is_wide))
            }
        };
        put_answer(answer, pair.key, &result);
        Ok(())
    }

    /// The login as it waits for its last answer.
    pub(super) fn into_opening(self) -> Opening {
        let expect = "a login that is complete began, and said who it is";
        Opening {
            begun: self.begun.expect(expect),
            stage: self.stage.expect(expect),
            answer: String::from_utf8(self.text).expect("answers are text"),
            initiator: self.initiator.expect(expect),
            kind: self.kind.expect(expect),
            is_proved: self.authentication.is_proved(),
            parameters: self.parameters,
            has_declared: self.has_declared,
            allowance: self.allowance,
        }
    }
}

/// A TSIH asks for a connection of a session that there is (RFC 7143 6.3.1): MaxConnections is 1, so
/// that it can only be the one that the session has, reinstated (6.3.4).
fn check_tsih(
    request: &LoginRequest,
    initiator: &IscsiName,
    kind: &Kind,
    shared: &Shared,
) -> Result<(), LoginStatus> {
    if request.tsih == Tsih::NEW {
        return Ok(());
    }
    let target = match kind {
        Kind::Discovery => None,
        Kind::Normal(target) => Some(target),
    };
    match shared.find_session(request.tsih, (initiator, request.isid), target) {
        None => Err(LoginStatus::SessionDoesNotExist),
        Some(connection) if connection == request.connection && target.is_some() => Ok(()),
        Some(_) => Err(LoginStatus::TooManyConnections),
    }
}

/// The text of a refusal that says where the target is. With a redirection an address has no portal
/// group tag (RFC 7143 13.8).
pub(super) fn moved_text(address: Option<&PortalAddress>) -> Bytes {
    let mut text = String::new();
    if let Some(address) = address {
        put_pair(&mut text, Key::TargetAddress.name(), &address.to_string());
    }
    Bytes::from(text)
}

enum Step {
    /// The text goes on.
    More,
    /// An answer within the login.
    Answer(String),
    /// The answer that ends it.
    Complete(String),
}

/// Numbers of a login's answers: its requests are immediate, so nothing advances but StatSN.
pub(super) const fn login_sequence(wire: &mut Wire, first: SerialNumber) -> Sequence {
    Sequence {
        status: wire.take_status_number(true),
        expected_command: first,
        command_max: first,
    }
}

/// Appends what a side answers to `key`, if anything.
pub(super) fn put_answer(text: &mut String, key: &str, answer: &Answer) {
    match answer {
        Answer::Value(value) => put_pair(text, key, value),
        Answer::Nothing => {}
        Answer::Reject => put_pair(text, key, "Reject"),
        Answer::NotUnderstood => put_pair(text, key, "NotUnderstood"),
    }
}
