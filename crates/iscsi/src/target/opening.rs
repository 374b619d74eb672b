//! The end of a login: its session opens once its nexus is free (RFC 7143 6.3.5).
//!
//! Invariants:
//! - the last answer goes out when the nexus is free, not before;
//! - what has changed since the login began is looked at once more before its session opens: whether
//!   the initiator may use the target, and without a proof, and whether the node takes sessions.

use alloc::string::String;

use holdfast_stdx::{Bytes, Instant};

use crate::negotiation::Parameters;
use crate::pdu::{Framing, LoginResponse, LoginStage, LoginStatus, Reply, Sequence};
use crate::target::connection::Phase;
use crate::target::directory::Admission;
use crate::target::load::Allowance;
use crate::target::login::{Begun, Kind, VERSION, login_sequence, moved_text};
use crate::target::nexus::{Claim, Shared, TsihHolder};
use crate::target::session::Session;
use crate::target::{CloseReason, ConnectionId, PortalAddress, Target, TargetEvent, TargetOutput};
use crate::{IscsiName, Nexus, PortalGroupTag, Tsih};

/// A login that is done but for its last answer.
#[derive(Debug)]
pub(super) struct Opening {
    pub(super) begun: Begun,
    pub(super) stage: LoginStage,
    pub(super) answer: String,
    pub(super) initiator: IscsiName,
    pub(super) kind: Kind,
    /// The initiator has proved who it is.
    pub(super) is_proved: bool,
    pub(super) parameters: Parameters,
    pub(super) has_declared: bool,
    pub(super) allowance: Allowance,
}

impl Opening {
    /// Whether the session would send data unasked although there is no room for it: its initiator
    /// has not negotiated what it was to be told.
    fn is_beyond_its_place(&self) -> bool {
        let sends_unasked = self.parameters.immediate_data || !self.parameters.initial_r2t;
        matches!(self.kind, Kind::Normal(_)) && !self.allowance.is_wide && sends_unasked
    }

    /// Why the session may not open after all, if it may not.
    fn objection(&self, shared: &Shared) -> Option<LoginStatus> {
        // The initiator has not negotiated what it was to be told.
        if self.is_beyond_its_place() {
            return Some(LoginStatus::OutOfResources);
        }
        let Kind::Normal(target) = &self.kind else {
            return None;
        };
        match shared.directory.admission(target, &self.initiator) {
            Admission::NoTarget => return Some(LoginStatus::NotFound),
            Admission::Refused => return Some(LoginStatus::AuthorizationFailure),
            Admission::Admitted { proved: true } if !self.is_proved => {
                return Some(LoginStatus::AuthenticationFailure);
            }
            Admission::Admitted { .. } => {}
        }
        let moved = self.moved_to(shared).is_some();
        moved.then_some(LoginStatus::TargetMovedTemporarily)
    }

    fn moved_to<'a>(&self, shared: &'a Shared) -> Option<&'a PortalAddress> {
        match &self.kind {
            Kind::Discovery => None,
            Kind::Normal(target) => shared.elsewhere(target, (&self.initiator, self.begun.isid)),
        }
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
        if let Some(status) = opening.objection(&self.shared) {
            self.refuse_opening(id, status, out);
            return;
        }
        let nexus = opening.nexus(self.shared.group());
        let claim = match &nexus {
            Some(nexus) => self.shared.claim(nexus, id),
            None => Claim::Free,
        };
        match claim {
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
            let moved_to = opening.moved_to(&self.shared);
            let moved_to = moved_to.filter(|_| status == LoginStatus::TargetMovedTemporarily);
            let text = moved_text(moved_to);
            connection
                .wire
                .send(&Reply::Login(response), [text].into(), out);
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
        let holder = TsihHolder {
            initiator: opening.initiator.clone(),
            isid: begun.isid,
            target: nexus.as_ref().map(|it| it.target.clone()),
            connection: begun.connection,
        };
        let Some(tsih) = self.shared.take_tsih(begun.tsih, holder) else {
            // The session whose connection it was to be has ended, and another has its number.
            self.refuse_opening(id, LoginStatus::SessionDoesNotExist, out);
            return;
        };
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
        let who = (opening.initiator.clone(), identity);
        let mut session = Session::new(who, tsih, begun.connection, agreed, begun.first);
        session.is_proved = opening.is_proved;
        // Whoever acknowledges the last answer was there when the session began.
        let unnamed = connection.wire.first_unnamed();
        connection.life.mark(now, unnamed);
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
        self.list(id);
        self.note_input(now, id, out);
    }
}
