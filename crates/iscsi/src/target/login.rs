//! The login phase (RFC 7143 6.3): who the initiator is, which target it wants, and how the two
//! will talk.
//!
//! It refuses whatever is not a login, and authentication other than "None": CHAP will have its
//! place in [`Login::authenticate`].
//!
//! Invariants:
//! - a login is refused with a status that says why, before its connection is closed;
//! - the last answer goes out when the nexus is free, not before.

use alloc::collections::BTreeSet;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use holdfast_stdx::{Bytes, Instant};

use crate::negotiation::{Answer, Key, Pair, Parameters, parse_text, put_pair};
use crate::pdu::{
    Framing, InitiatorTaskTag, LoginRequest, LoginResponse, LoginStage, LoginStatus, Payload,
    Reply, Request, Sequence,
};
use crate::serial::SerialNumber;
use crate::target::connection::{Flow, Phase, Wire};
use crate::target::load::Allowance;
use crate::target::nexus::{Claim, Shared};
use crate::target::session::Session;
use crate::target::{CloseReason, ConnectionId, Target, TargetEvent, TargetOutput};
use crate::{ConnectionIdentifier, IscsiName, Isid, Nexus, PortalGroupTag, Tsih};

/// Requests of one login; two to four are usual.
const REQUESTS_MAX: u32 = 32;
/// Text of one answer: what every initiator takes before it says otherwise (RFC 7143 13.12).
const ANSWER_BYTES_MAX: usize = Framing::LOGIN.data_length_max;
/// The only version there is (RFC 7143 11.12.4).
const VERSION: u8 = 0;
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
    parameters: Parameters,
    /// The target has said how long data segments may be that it takes.
    has_declared: bool,
    /// From when it is known who it is.
    pub(super) allowance: Allowance,
}

/// What every request of a login repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Begun {
    isid: Isid,
    tsih: Tsih,
    tag: InitiatorTaskTag,
    connection: ConnectionIdentifier,
    first: SerialNumber,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    Discovery,
    Normal(IscsiName),
}

/// A login that is done but for its last answer.
#[derive(Debug)]
pub(super) struct Opening {
    begun: Begun,
    stage: LoginStage,
    answer: String,
    initiator: IscsiName,
    kind: Kind,
    parameters: Parameters,
    has_declared: bool,
    pub(super) allowance: Allowance,
}

impl Opening {
    /// Whether the session would send data unasked although there is no room for it: its initiator
    /// has not negotiated what it was to be told.
    fn is_beyond_its_place(&self) -> bool {
        let sends_unasked = self.parameters.immediate_data || !self.parameters.initial_r2t;
        matches!(self.kind, Kind::Normal(_)) && !self.allowance.is_wide && sends_unasked
    }

    /// The nexus that the session will be on, if it is not for discovery.
    pub(super) fn nexus(&self, group: PortalGroupTag) -> Option<Nexus> {
        match &self.kind {
            Kind::Discovery => None,
            Kind::Normal(target) => Some(Nexus {
                initiator: self.initiator.clone(),
                isid: self.begun.isid,
                target: target.clone(),
                group,
            }),
        }
    }

    fn response(&self, status: LoginStatus, tsih: Tsih, sequence: Sequence) -> LoginResponse {
        let is_success = status == LoginStatus::Success;
        LoginResponse {
            transit: is_success,
            more: false,
            current: self.stage,
            next: is_success.then_some(LoginStage::FullFeature),
            version_max: VERSION,
            version_active: VERSION,
            isid: self.begun.isid,
            tsih,
            task_tag: self.begun.tag,
            sequence,
            status,
        }
    }
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
                let response = self.response(&request, request.transit, Tsih::NEW, wire);
                if let (true, Some(next)) = (request.transit, request.next) {
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
        wire.send(&Reply::Login(response), Vec::new(), out);
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
        if request.current == LoginStage::OperationalNegotiation && !self.has_declared {
            self.has_declared = true;
            let length = shared.limits().segment_max(self.allowance.is_wide);
            let length = length.to_string();
            put_pair(&mut answer, Key::MaxRecvDataSegmentLength.name(), &length);
        }
        if answer.len() > ANSWER_BYTES_MAX {
            return Err(LoginStatus::InitiatorError);
        }
        if request.next == Some(LoginStage::FullFeature) {
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
                let entry = shared
                    .directory
                    .targets
                    .get(&name)
                    .ok_or(LoginStatus::NotFound)?;
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
        if request.tsih != Tsih::NEW {
            // MaxConnections is 1, so no session takes a second connection; nor is one reinstated
            // in place of another at ErrorRecoveryLevel 0 (RFC 7143 6.3.4 says SHOULD).
            return Err(
                if shared.has_session(request.tsih, &initiator, request.isid) {
                    LoginStatus::TooManyConnections
                } else {
                    LoginStatus::SessionDoesNotExist
                },
            );
        }
        self.initiator = Some(initiator);
        // Discovery has no commands, and its texts are short.
        if kind != Kind::Discovery {
            self.allowance = shared.load.take_place();
        }
        self.kind = Some(kind);
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
            Key::AuthMethod => self.authenticate(stage, pair.value)?,
            // Declarations of the initiator; those that matter were read already.
            Key::InitiatorName | Key::InitiatorAlias | Key::TargetName | Key::SessionType => {
                Answer::Nothing
            }
            // Declarations of the target, keys of the full feature phase, and keys of a method
            // that was not chosen.
            Key::TargetAlias
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

    /// RFC 7143 12.1: the first method of the initiator's list that the target takes. That is
    /// "None" as long as no initiator has a secret.
    fn authenticate(&self, stage: LoginStage, offer: &str) -> Result<Answer, LoginStatus> {
        if stage != LoginStage::SecurityNegotiation {
            return Ok(Answer::Reject);
        }
        if offer.split(',').any(|method| method == "None") {
            return Ok(Answer::Value("None".into()));
        }
        Err(LoginStatus::AuthenticationFailure)
    }

    /// The login as it waits for its last answer.
    fn into_opening(self) -> Opening {
        let expect = "a login that is complete began, and said who it is";
        Opening {
            begun: self.begun.expect(expect),
            stage: self.stage.expect(expect),
            answer: String::from_utf8(self.text).expect("answers are text"),
            initiator: self.initiator.expect(expect),
            kind: self.kind.expect(expect),
            parameters: self.parameters,
            has_declared: self.has_declared,
            allowance: self.allowance,
        }
    }
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
const fn login_sequence(wire: &mut Wire, first: SerialNumber) -> Sequence {
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

impl Target {
    /// A login is complete: opens its session, or makes it wait for the nexus.
    pub(super) fn open(&mut self, now: Instant, id: ConnectionId, out: &mut TargetOutput) {
        let connection = self
            .connections
            .get_mut(&id)
            .expect("it has just been handled");
        if let Phase::Login(login) = &mut connection.phase {
            let opening = core::mem::take(&mut **login).into_opening();
            connection.phase = Phase::Opening(opening.into());
        }
        let Phase::Opening(opening) = &connection.phase else {
            unreachable!("only a login opens a session");
        };
        let nexus = opening.nexus(self.shared.group());
        let claim = match &nexus {
            Some(nexus) => self.shared.claim(nexus, id),
            None => Claim::Free,
        };
        match claim {
            _ if opening.is_beyond_its_place() => {
                self.refuse_opening(id, LoginStatus::OutOfResources, out);
            }
            // A session in place of another needs no more room than that had.
            Claim::Free if self.shared.session_count() >= self.shared.limits().sessions_max => {
                self.refuse_opening(id, LoginStatus::OutOfResources, out);
            }
            Claim::Free => self.finish_opening(now, id, nexus, out),
            Claim::Taken { holder, displaced } => {
                if let Some(displaced) = displaced {
                    self.refuse_opening(displaced, LoginStatus::InitiatorError, out);
                }
                // Session reinstatement (RFC 7143 6.3.5): the old session ends first, with all of
                // its commands.
                if let Some(holder) = holder {
                    self.close(holder, CloseReason::Reinstated, out);
                }
            }
        }
    }

    fn refuse_opening(&mut self, id: ConnectionId, status: LoginStatus, out: &mut TargetOutput) {
        if let Some(connection) = self.connections.get_mut(&id)
            && let Phase::Opening(opening) = &connection.phase
        {
            let sequence = login_sequence(&mut connection.wire, opening.begun.first);
            let response = opening.response(status, Tsih::NEW, sequence);
            connection
                .wire
                .send(&Reply::Login(response), Vec::new(), out);
            self.close(id, CloseReason::LoginRefused, out);
        }
    }

    /// The last answer of a login.
    fn finish_opening(
        &mut self,
        now: Instant,
        id: ConnectionId,
        nexus: Option<Nexus>,
        out: &mut TargetOutput,
    ) {
        let connection = self
            .connections
            .get_mut(&id)
            .expect("an opening has its connection");
        let Phase::Opening(opening) = &mut connection.phase else {
            unreachable!("only an opening is finished");
        };
        let begun = opening.begun;
        let tsih = self.shared.take_tsih(&opening.initiator, begun.isid);
        let identity = nexus.map(|nexus| self.shared.open_session(nexus, id));
        if let Some(identity) = &identity {
            out.events.push_back(TargetEvent::SessionOpened {
                session: identity.session,
                nexus: identity.nexus.clone(),
            });
        }
        let parameters = opening.parameters;
        let allowance = core::mem::take(&mut opening.allowance);
        let agreed = (parameters, allowance);
        let mut session = Session::new(identity, tsih, begun.connection, agreed, begun.first);
        let sequence = session.sequence(&mut connection.wire, &mut self.shared, true);
        let response = opening.response(LoginStatus::Success, tsih, sequence);
        let text = Bytes::from(core::mem::take(&mut opening.answer));
        connection
            .wire
            .send(&Reply::Login(response), [text].into(), out);
        // What was negotiated holds from the next PDU on, both ways.
        let declared = self.shared.limits().segment_max(allowance.is_wide) as usize;
        let framing = Framing {
            header_digest: parameters.header_digest,
            data_digest: parameters.data_digest,
            data_length_max: if opening.has_declared {
                declared
            } else {
                Framing::LOGIN.data_length_max
            },
        };
        connection.wire.framing = framing;
        connection.reader.set_framing(framing);
        connection.phase = Phase::Full(session.into());
        connection.last_heard = now;
        let deadline = connection.next_deadline(self.shared.limits());
        self.shared.logins -= 1;
        self.set_deadline(id, deadline);
    }

    /// The nexus that a login waits for is free.
    pub(super) fn resume_opening(
        &mut self,
        now: Instant,
        id: ConnectionId,
        out: &mut TargetOutput,
    ) {
        self.open(now, id, out);
        self.process(now, id, out);
        self.note_input(id, out);
    }
}
