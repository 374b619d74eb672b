//! One TCP connection: its two directions, and the phase that its session is in.
//!
//! Invariants:
//! - a request is taken only while the connection's output is within its bound and its login
//!   does not wait for another session's end.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use holdfast_stdx::{Bytes, Instant};

use crate::pdu::{
    FrameError, Framing, Header, HeaderError, InitiatorTaskTag, LogoutRequest, NopIn, NopOut,
    Payload, PduReader, Reject, RejectReason, Reply, Request, TargetTransferTag,
    TaskManagementRequest, frame,
};
use crate::serial::SerialNumber;
use crate::target::arrivals::Arrivals;
use crate::target::life::Life;
use crate::target::login::Login;
use crate::target::logout::LoggingOut;
use crate::target::nexus::Shared;
use crate::target::opening::Opening;
use crate::target::session::{Admission, Held, Session};
use crate::target::turns::{BACKLOG_MAX, Standing, TURN, cost_of};
use crate::target::{CloseReason, ConnectionId, Limits, SessionInfo, TargetCommand, TargetOutput};
use crate::{IscsiName, Nexus};

#[derive(Debug)]
pub(super) struct Connection {
    pub(super) wire: Wire,
    pub(super) reader: PduReader,
    pub(super) arrivals: Arrivals,
    /// When the last byte of the request came that is looked at, and its initiator was not waited for any more.
    received: Instant,
    pub(super) phase: Phase,
    /// When the initiator last gave a sign of life.
    pub(super) last_heard: Instant,
    /// When the initiator was asked whether it is there, if it has given no sign of life since.
    pub(super) pinged: Option<Instant>,
    pub(super) life: Life,
    /// Input as it was noted last.
    pub(super) noted_input: usize,
    /// Where it stands among those that wait for their turn.
    pub(super) standing: Standing,
    /// As it stands in the machine's list of deadlines.
    pub(super) deadline: Option<Instant>,
    /// From where it comes, for people.
    pub(super) origin: String,
}

#[derive(Debug)]
pub(super) enum Phase {
    /// Who are you, and how shall we talk?
    Login(Box<Login>),
    /// The login is done but for its last answer, which waits for the nexus to be free.
    Opening(Box<Opening>),
    /// Full feature phase.
    Full(Box<Session>),
    /// The session has ended; its logout is answered when its commands have.
    LoggingOut(Box<LoggingOut>),
}

/// What is to be done after a request.
#[derive(Debug)]
pub(super) enum Flow {
    /// There is no further request now.
    Wait,
    /// Take the next.
    Continue,
    /// Close the connection.
    Close(CloseReason),
    /// The login is complete: open the session.
    Open,
    /// Task management concerns other sessions too.
    Manage(TaskManagementRequest),
    /// The session ends.
    Logout(LogoutRequest),
}

/// The outgoing direction.
#[derive(Debug)]
pub(super) struct Wire {
    pub(super) id: ConnectionId,
    pub(super) framing: Framing,
    status: SerialNumber,
    /// No PDU has named this number yet, nor any later one.
    unnamed: SerialNumber,
    unsent: usize,
    next_tag: u32,
}

impl Wire {
    pub(super) const fn take_status_number(&mut self, is_status: bool) -> SerialNumber {
        let number = self.status;
        self.unnamed = number.next();
        if is_status {
            self.status = self.unnamed;
        }
        number
    }

    /// The first number of a status that no PDU has named.
    pub(super) const fn first_unnamed(&self) -> SerialNumber {
        self.unnamed
    }

    /// A tag that was not used lately.
    pub(super) const fn next_transfer_tag(&mut self) -> TargetTransferTag {
        self.next_tag = self.next_tag.wrapping_add(1);
        if self.next_tag == TargetTransferTag::RESERVED.0 {
            self.next_tag = 0;
        }
        TargetTransferTag(self.next_tag)
    }

    pub(super) fn send(&mut self, reply: &Reply, data: Vec<Bytes>, out: &mut TargetOutput) {
        // Several PDUs of one event go out as one command.
        if let Some(TargetCommand::Send { connection, parts }) = out.commands.back_mut()
            && *connection == self.id
        {
            let length = frame(reply.encode(), data, self.framing, parts);
            self.unsent += length;
            out.sent_bytes += length;
            return;
        }
        let mut parts = Vec::new();
        let length = frame(reply.encode(), data, self.framing, &mut parts);
        self.unsent += length;
        out.sent_bytes += length;
        out.commands.push_back(TargetCommand::Send {
            connection: self.id,
            parts,
        });
    }

    pub(super) const fn handle_sent(&mut self, bytes: usize) {
        assert!(
            bytes <= self.unsent,
            "a socket takes only what it was given"
        );
        self.unsent -= bytes;
    }

    pub(super) const fn unsent(&self) -> usize {
        self.unsent
    }
}

/// A request with its data, or why there is none.
enum Next {
    Request(Header, Request, Payload),
    Refused(Header, RejectReason),
    Flow(Flow),
}

impl Connection {
    pub(super) fn new(id: ConnectionId, now: Instant) -> Self {
        Self {
            wire: Wire {
                id,
                framing: Framing::LOGIN,
                status: SerialNumber(1),
                unnamed: SerialNumber(1),
                unsent: 0,
                next_tag: 0,
            },
            reader: PduReader::new(Framing::LOGIN),
            arrivals: Arrivals::default(),
            received: now,
            phase: Phase::Login(Box::default()),
            last_heard: now,
            pinged: None,
            life: Life::default(),
            noted_input: 0,
            standing: Standing::default(),
            deadline: None,
            origin: String::new(),
        }
    }

    /// Whether its socket is to be read.
    pub(super) const fn wants_input(&self, shared: &Shared) -> bool {
        self.may_step(shared)
            && !(self.standing.is_listed()
                && (self.reader.buffered() >= BACKLOG_MAX || shared.load.is_input_short()))
    }

    /// Whether what has come can be looked at now, as far as it goes.
    pub(super) fn is_ready(&self, shared: &Shared) -> bool {
        let has_held = matches!(&self.phase, Phase::Full(session) if session.window.has_held());
        self.may_step(shared) && (has_held || self.reader.can_advance())
    }

    /// Not at the bound either: there no answer is sent, and those of what came would pile up.
    const fn may_step(&self, shared: &Shared) -> bool {
        matches!(self.phase, Phase::Login(_) | Phase::Full(_)) && !self.is_full(shared)
    }

    /// Whether its initiator has to take some of the output first.
    pub(super) const fn is_full(&self, shared: &Shared) -> bool {
        self.wire.unsent >= shared.load.output_max()
    }

    pub(super) const fn is_in_login(&self) -> bool {
        matches!(self.phase, Phase::Login(_))
    }

    /// Whatever comes is a sign of life.
    pub(super) const fn note_heard(&mut self, now: Instant) {
        self.last_heard = now;
        self.pinged = None;
    }

    /// The nexus of a session that is not for discovery.
    pub(super) fn nexus(&self) -> Option<&Nexus> {
        match &self.phase {
            Phase::Full(session) => session.identity.as_ref().map(|it| &it.nexus),
            _ => None,
        }
    }

    /// Whether the initiator of a session has proved who it is.
    pub(super) fn is_proved(&self) -> bool {
        matches!(&self.phase, Phase::Full(session) if session.is_proved)
    }

    /// The target that a session is about.
    pub(super) fn target(&self) -> Option<&IscsiName> {
        self.nexus().map(|nexus| &nexus.target)
    }

    pub(super) fn info(&self) -> Option<SessionInfo> {
        let Phase::Full(session) = &self.phase else {
            return None;
        };
        let identity = session.identity.as_ref()?;
        Some(SessionInfo {
            session: identity.session,
            connection: self.wire.id,
            nexus: identity.nexus.clone(),
            tasks: session.tasks.len(),
            tsih: session.tsih,
            is_proved: session.is_proved,
            parameters: session.parameters,
            origin: self.origin.clone(),
        })
    }

    /// Memory of input that is no command's data.
    pub(super) fn input_bytes(&self) -> usize {
        let phase = match &self.phase {
            Phase::Login(login) => login.held_bytes(),
            Phase::Full(session) => session.waiting_bytes(),
            Phase::Opening(_) | Phase::LoggingOut(_) => 0,
        };
        self.reader.held_bytes() + phase
    }

    pub(super) fn held_bytes(&self) -> usize {
        let phase = match &self.phase {
            Phase::Login(login) => login.held_bytes(),
            Phase::Full(session) => session.held_bytes(),
            Phase::Opening(_) | Phase::LoggingOut(_) => 0,
        };
        self.reader.buffered() + self.wire.unsent + phase
    }

    /// Takes one request, and says what it has cost.
    pub(super) fn step(
        &mut self,
        now: Instant,
        shared: &mut Shared,
        out: &mut TargetOutput,
    ) -> (Flow, u32) {
        if !self.may_step(shared) {
            return (Flow::Wait, 0);
        }
        match self.next(shared, out) {
            Next::Flow(Flow::Wait) => (Flow::Wait, 0),
            Next::Flow(flow) => (flow, cost_of(0, 0)),
            Next::Refused(header, reason) => {
                self.reject(&header, reason, shared, out);
                (Flow::Continue, cost_of(0, 0))
            }
            Next::Request(header, request, data) => {
                let cost = match request {
                    Request::TaskManagement(_) => TURN,
                    _ => cost_of(data.len(), wanted_by(&request, shared.limits())),
                };
                (self.take(now, (&header, request, data), shared, out), cost)
            }
        }
    }

    fn take(
        &mut self,
        now: Instant,
        (header, request, data): (&Header, Request, Payload),
        shared: &mut Shared,
        out: &mut TargetOutput,
    ) -> Flow {
        match &mut self.phase {
            Phase::Login(login) => login.handle(&mut self.wire, request, data, shared, out),
            Phase::Full(_) => {
                // Every request of this phase has its ExpStatSN there (RFC 7143 11).
                let expected = SerialNumber(header.word(28));
                let unnamed = self.wire.first_unnamed();
                let times = (now, self.received);
                if self.life.acknowledge(times, expected, unnamed) {
                    self.pump(shared, out);
                }
                self.handle_request(now, header, request, data, shared, out)
            }
            Phase::Opening(_) | Phase::LoggingOut(_) => {
                unreachable!("of such connections no request is taken")
            }
        }
    }

    /// The next request whose turn it is.
    fn next(&mut self, shared: &mut Shared, out: &mut TargetOutput) -> Next {
        if let Phase::Full(session) = &mut self.phase
            && let Some(held) = session.window.take_held()
        {
            let header = held.request.encode();
            self.received = self.life.in_hand(held.received);
            return Next::Request(header, held.request, held.data);
        }
        let pdu = match self.reader.next_pdu() {
            Ok(Some(pdu)) => {
                let received = self.arrivals.take(self.reader.buffered());
                let received = received.expect("a request has bytes that came");
                self.received = self.life.in_hand(received);
                pdu
            }
            Ok(None) => return Next::Flow(Flow::Wait),
            Err(FrameError::DataDigest(header)) => {
                return Next::Flow(self.lose_data(&header, shared, out));
            }
            Err(error) => return Next::Flow(Flow::Close(self.fail(error, shared, out))),
        };
        let request = match (Request::parse(&pdu.header), &mut self.phase) {
            (Ok(request), _) => request,
            (Err(_), Phase::Login(login)) => {
                return Next::Flow(login.refuse_unknown(&mut self.wire, out));
            }
            (Err(HeaderError::Opcode(_)), _) => {
                return Next::Refused(pdu.header, RejectReason::CommandNotSupported);
            }
            (Err(HeaderError::Field(_)), Phase::Full(session)) => {
                // Its number is taken all the same, or those behind it would wait for ever.
                if !pdu.header.is_immediate() {
                    session.window.admit(SerialNumber(pdu.header.word(24)));
                }
                return Next::Refused(pdu.header, RejectReason::InvalidField);
            }
            (Err(HeaderError::Field(_)), _) => {
                return Next::Refused(pdu.header, RejectReason::InvalidField);
            }
        };
        let (Phase::Full(session), Some(number)) = (&mut self.phase, command_number(&request))
        else {
            return Next::Request(pdu.header, request, pdu.data);
        };
        match session.window.admit(number) {
            Admission::Now => Next::Request(pdu.header, request, pdu.data),
            Admission::Outside => Next::Flow(Flow::Continue),
            Admission::Later => {
                let kept = session.window.hold(
                    number,
                    Held {
                        request,
                        data: pdu.data,
                        received: self.received,
                    },
                );
                let flow = if kept {
                    Flow::Continue
                } else {
                    Flow::Close(CloseReason::ProtocolError)
                };
                Next::Flow(flow)
            }
        }
    }

    /// The stream cannot be cut any more: says why, where there is somebody to tell.
    fn fail(
        &mut self,
        error: FrameError,
        shared: &mut Shared,
        out: &mut TargetOutput,
    ) -> CloseReason {
        match error {
            FrameError::HeaderDigest | FrameError::DataDigest(_) => CloseReason::DigestError,
            FrameError::DataTooLong(header) => {
                match &self.phase {
                    Phase::Login(login) => {
                        login.refuse_unknown(&mut self.wire, out);
                    }
                    _ => self.reject(&header, RejectReason::ProtocolError, shared, out),
                }
                CloseReason::ProtocolError
            }
        }
    }

    /// The data of a PDU came damaged; its header did not. Of Data-Out it costs the command, which
    /// fails when the rest of its data has come (RFC 7143 7.8); of a request that the window counts
    /// it leaves a gap there that nothing fills at ErrorRecoveryLevel 0, so that the session ends.
    fn lose_data(&mut self, header: &Header, shared: &mut Shared, out: &mut TargetOutput) -> Flow {
        self.reject(header, RejectReason::DataDigestError, shared, out);
        let (Ok(Request::DataOut(pdu)), Phase::Full(session)) =
            (Request::parse(header), &mut self.phase)
        else {
            return Flow::Close(CloseReason::DigestError);
        };
        session.lose_data_out(&pdu, header.data_length(), self.received);
        self.pump(shared, out);
        Flow::Continue
    }

    /// Refuses a PDU (RFC 7143 11.17); its header goes back as data.
    pub(super) fn reject(
        &mut self,
        header: &Header,
        reason: RejectReason,
        shared: &mut Shared,
        out: &mut TargetOutput,
    ) {
        let Phase::Full(session) = &mut self.phase else {
            return;
        };
        let reply = Reply::Reject(Reject {
            reason: reason.code(),
            sequence: session.sequence(&mut self.wire, shared, true),
        });
        self.wire
            .send(&reply, [Bytes::copy_from_slice(&header.0)].into(), out);
    }

    fn handle_request(
        &mut self,
        now: Instant,
        header: &Header,
        request: Request,
        data: Payload,
        shared: &mut Shared,
        out: &mut TargetOutput,
    ) -> Flow {
        let Phase::Full(session) = &mut self.phase else {
            unreachable!("requests are handled in the full feature phase");
        };
        let is_discovery = session.identity.is_none();
        let refused = match request {
            // A discovery session has text and logout (RFC 7143 4.3), and may ask whether we live.
            Request::Command(_) | Request::DataOut(_) | Request::TaskManagement(_)
                if is_discovery =>
            {
                Some(RejectReason::CommandNotSupported)
            }
            Request::Command(command) => {
                let times = (now, self.received);
                let refused = session.handle_command(times, &command, data, shared);
                self.pump(shared, out);
                refused
            }
            Request::DataOut(pdu) => {
                if let Some(asked) = session.handle_data_out(&pdu, data, self.received) {
                    self.life.note(asked, self.received);
                }
                self.pump(shared, out);
                None
            }
            Request::TaskManagement(request) => return Flow::Manage(request),
            Request::Logout(request) => return Flow::Logout(request),
            Request::NopOut(nop) => {
                self.handle_nop(&nop, data, shared, out);
                None
            }
            Request::Text(text) => {
                session.handle_text(&mut self.wire, &text, &data.into_bytes(), shared, out)
            }
            // A second login on a connection is a protocol error (RFC 7143 6.3.1).
            Request::Login(_) => Some(RejectReason::ProtocolError),
            // ErrorRecoveryLevel 0 has no SNACK (RFC 7143 11.16).
            Request::Snack(_) => Some(RejectReason::SnackReject),
        };
        if let Some(reason) = refused {
            self.reject(header, reason, shared, out);
        }
        Flow::Continue
    }

    /// RFC 7143 11.18: a NOP-Out with a task tag is answered with its data; one without is an answer
    /// to ours, or nothing.
    fn handle_nop(
        &mut self,
        nop: &NopOut,
        data: Payload,
        shared: &mut Shared,
        out: &mut TargetOutput,
    ) {
        let Phase::Full(session) = &mut self.phase else {
            unreachable!("requests are handled in the full feature phase");
        };
        if nop.task_tag.is_reserved() {
            if self.life.answered(nop.transfer_tag, self.received) {
                self.pump(shared, out);
            }
            return;
        }
        let reply = Reply::NopIn(NopIn {
            lun: nop.lun,
            task_tag: nop.task_tag,
            transfer_tag: TargetTransferTag::RESERVED,
            sequence: session.sequence(&mut self.wire, shared, true),
        });
        let mut echo = data.into_bytes();
        echo.truncate(session.parameters.send_segment_max as usize);
        self.wire.send(&reply, [echo].into(), out);
    }

    /// Asks the initiator whether it is there (RFC 7143 11.19).
    pub(super) fn ping(&mut self, now: Instant, shared: &mut Shared, out: &mut TargetOutput) {
        let Phase::Full(session) = &mut self.phase else {
            return;
        };
        let transfer_tag = self.wire.next_transfer_tag();
        self.pinged = Some(now);
        self.life.ask(now, transfer_tag);
        let reply = Reply::NopIn(NopIn {
            lun: holdfast_scsi::Lun::from_number(0),
            task_tag: InitiatorTaskTag::RESERVED,
            transfer_tag,
            sequence: session.sequence(&mut self.wire, shared, false),
        });
        self.wire.send(&reply, Vec::new(), out);
    }
}

/// Data that a request wants sent to its initiator. What it wants to send costs when it comes.
fn wanted_by(request: &Request, limits: &Limits) -> u32 {
    match request {
        Request::Command(command) if command.flags.read => {
            command.expected_length.min(limits.data_in_max)
        }
        _ => 0,
    }
}

/// The number of a request that the command window counts.
const fn command_number(request: &Request) -> Option<SerialNumber> {
    let (immediate, number) = match request {
        Request::NopOut(pdu) => (pdu.immediate, pdu.command_number),
        Request::Command(pdu) => (pdu.immediate, pdu.command_number),
        Request::TaskManagement(pdu) => (pdu.immediate, pdu.command_number),
        Request::Text(pdu) => (pdu.immediate, pdu.command_number),
        Request::Logout(pdu) => (pdu.immediate, pdu.command_number),
        Request::Login(_) | Request::DataOut(_) | Request::Snack(_) => return None,
    };
    if immediate { None } else { Some(number) }
}
