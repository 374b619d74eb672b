//! The initiator's side: one session of a host, on one connection.
//!
//! Used by the simulator, by load generators and by cluster checks, which stand for the hosts.
//!
//! It refuses to reconnect: a session that ended says why, and its owner connects a new one.
//!
//! Invariants:
//! - every command that was taken completes once, or the session ends;
//! - numbers that the target must count up (StatSN, DataSN, R2TSN) are checked, and so is every
//!   length that it names: a target that breaks the protocol ends the session.

mod discovery;
mod event;
mod login;
mod management;
mod proof;
mod transfer;

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use holdfast_scsi::{Lun, TaskAttribute};
use holdfast_stdx::{Bytes, Instant};

pub use self::event::{
    CommandRequest, CommandTag, Completion, DiscoveredTarget, EndReason, InitiatorChap,
    InitiatorCommand, InitiatorConfig, InitiatorEvent, InitiatorOutput, MutualChap, SessionKind,
    SubmitError,
};

use self::login::LoginState;
use self::transfer::Pending;
use crate::negotiation::Parameters;
use crate::pdu::{
    Framing, InitiatorTaskTag, LogoutReason, LogoutRequest, NopIn, NopOut, PduReader, RawPdu,
    Reply, Request, Sequence, TargetTransferTag, frame,
};
use crate::serial::SerialNumber;
use crate::{ConnectionIdentifier, PortalGroupTag, Tsih};

/// The one connection of a session.
const CONNECTION: ConnectionIdentifier = ConnectionIdentifier(1);

/// The machine.
#[derive(Debug)]
pub struct Initiator {
    config: InitiatorConfig,
    reader: PduReader,
    framing: Framing,
    phase: Phase,
    parameters: Parameters,
    tsih: Tsih,
    group: Option<PortalGroupTag>,
    /// CmdSN of the next numbered request.
    next_command: SerialNumber,
    /// MaxCmdSN.
    command_max: SerialNumber,
    /// StatSN that comes next; `None` before the first.
    expected_status: Option<SerialNumber>,
    next_tag: u32,
    /// What is under way, by its tag on the wire.
    pending: BTreeMap<InitiatorTaskTag, Pending>,
    /// Commands that wait for the window.
    waiting: VecDeque<(CommandTag, CommandRequest)>,
    last_heard: Instant,
    pinged: Option<Instant>,
    deadline: Instant,
}

#[derive(Debug)]
enum Phase {
    Login(LoginState),
    Full,
    LoggingOut,
    Ended,
}

impl Initiator {
    /// A session on a connection that has just been made; its first request goes out.
    pub fn connect(now: Instant, config: InitiatorConfig, out: &mut InitiatorOutput) -> Self {
        assert!(config.commands_max > 0, "a session is for commands");
        let deadline = now + config.login_timeout;
        let first = config.first_command;
        let mut initiator = Self {
            config,
            reader: PduReader::new(Framing::LOGIN),
            framing: Framing::LOGIN,
            phase: Phase::Login(LoginState::new()),
            parameters: Parameters::default(),
            tsih: Tsih::NEW,
            group: None,
            next_command: first,
            command_max: first.previous(),
            expected_status: None,
            next_tag: 0,
            pending: BTreeMap::new(),
            waiting: VecDeque::new(),
            last_heard: now,
            pinged: None,
            deadline,
        };
        initiator.begin_login(out);
        initiator
    }

    /// Whether commands are taken and answered: the login is over, and the session is not.
    #[must_use]
    pub const fn is_logged_in(&self) -> bool {
        matches!(self.phase, Phase::Full)
    }

    /// Whether the session is over.
    #[must_use]
    pub const fn has_ended(&self) -> bool {
        matches!(self.phase, Phase::Ended)
    }

    /// What the login came to.
    #[must_use]
    pub const fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// Commands that were taken and have not completed.
    #[must_use]
    pub fn outstanding(&self) -> usize {
        let commands = self
            .pending
            .values()
            .filter(|it| matches!(it, Pending::Command(_)));
        commands.count() + self.waiting.len()
    }

    /// Bytes arrived.
    pub fn handle_received(&mut self, now: Instant, bytes: Bytes, out: &mut InitiatorOutput) {
        self.last_heard = now;
        self.pinged = None;
        self.reader.push(bytes);
        while !self.has_ended() {
            match self.reader.next_pdu() {
                Ok(None) => break,
                Ok(Some(pdu)) => {
                    if let Err(reason) = self.handle_pdu(now, pdu, out) {
                        self.end(reason, out);
                    }
                }
                Err(_) => self.end(EndReason::ProtocolError("a PDU that cannot be read"), out),
            }
        }
        self.send_waiting(out);
    }

    /// The connection broke, or the target closed it.
    pub fn handle_closed(&mut self, _now: Instant, out: &mut InitiatorOutput) {
        let reason = match self.phase {
            Phase::LoggingOut => EndReason::LoggedOut,
            _ => EndReason::Closed,
        };
        self.end(reason, out);
    }

    /// The time that [`next_timeout`](Self::next_timeout) named has come, or any other.
    pub fn handle_timeout(&mut self, now: Instant, out: &mut InitiatorOutput) {
        if now < self.deadline || self.has_ended() {
            return;
        }
        if !matches!(self.phase, Phase::Full) {
            self.end(EndReason::Timeout, out);
            return;
        }
        match self.pinged {
            Some(asked) if asked + self.config.ping_timeout <= now => {
                self.end(EndReason::Timeout, out);
                return;
            }
            None if self.last_heard + self.config.ping_after <= now => self.ping(now, out),
            _ => {}
        }
        self.deadline = match self.pinged {
            Some(asked) => asked + self.config.ping_timeout,
            None => self.last_heard + self.config.ping_after,
        };
    }

    /// When [`handle_timeout`](Self::handle_timeout) is next needed.
    #[must_use]
    pub const fn next_timeout(&self) -> Option<Instant> {
        if self.has_ended() {
            None
        } else {
            Some(self.deadline)
        }
    }

    /// Takes a command; it goes out when the window permits.
    ///
    /// # Errors
    /// [`SubmitError`] if it cannot be taken.
    pub fn submit(
        &mut self,
        tag: CommandTag,
        command: CommandRequest,
        out: &mut InitiatorOutput,
    ) -> Result<(), SubmitError> {
        if !self.is_logged_in() {
            return Err(SubmitError::NotLoggedIn);
        }
        if self.outstanding() >= self.config.commands_max {
            return Err(SubmitError::Full);
        }
        if self.find(tag).is_some() || self.waiting.iter().any(|(other, _)| *other == tag) {
            return Err(SubmitError::TagInUse);
        }
        assert!(
            command.data_out.is_empty() || command.expected_in == 0,
            "a command moves data in one direction"
        );
        self.waiting.push_back((tag, command));
        self.send_waiting(out);
        Ok(())
    }

    /// Asks the target whether it is there.
    pub fn ping(&mut self, now: Instant, out: &mut InitiatorOutput) {
        if !self.is_logged_in() {
            return;
        }
        self.pinged = Some(now);
        let task_tag = self.take_tag();
        self.pending.insert(task_tag, Pending::Ping);
        let request = Request::NopOut(NopOut {
            immediate: true,
            lun: Lun::from_number(0),
            task_tag,
            transfer_tag: TargetTransferTag::RESERVED,
            command_number: self.next_command,
            expected_status: self.expected_status(),
        });
        self.send(&request, Vec::new(), out);
    }

    /// Ends the session in order; [`InitiatorEvent::Ended`] follows.
    pub fn log_out(&mut self, now: Instant, out: &mut InitiatorOutput) {
        if !self.is_logged_in() {
            self.end(EndReason::LoggedOut, out);
            return;
        }
        self.phase = Phase::LoggingOut;
        self.deadline = now + self.config.login_timeout;
        let task_tag = self.take_tag();
        let request = Request::Logout(LogoutRequest {
            immediate: true,
            reason: LogoutReason::CloseSession,
            task_tag,
            connection: CONNECTION,
            command_number: self.next_command,
            expected_status: self.expected_status(),
        });
        self.send(&request, Vec::new(), out);
    }

    fn end(&mut self, reason: EndReason, out: &mut InitiatorOutput) {
        if !self.has_ended() {
            self.phase = Phase::Ended;
            self.pending.clear();
            self.waiting.clear();
            out.commands.push_back(InitiatorCommand::Close);
            out.events.push_back(InitiatorEvent::Ended { reason });
        }
    }

    fn send(&self, request: &Request, data: Vec<Bytes>, out: &mut InitiatorOutput) {
        if let Some(InitiatorCommand::Send(parts)) = out.commands.back_mut() {
            frame(request.encode(), data, self.framing, parts);
            return;
        }
        let mut parts = Vec::new();
        frame(request.encode(), data, self.framing, &mut parts);
        out.commands.push_back(InitiatorCommand::Send(parts));
    }

    fn expected_status(&self) -> SerialNumber {
        self.expected_status.unwrap_or(SerialNumber::ZERO)
    }

    /// A tag that nothing under way has.
    fn take_tag(&mut self) -> InitiatorTaskTag {
        loop {
            self.next_tag = self.next_tag.wrapping_add(1);
            let tag = InitiatorTaskTag(self.next_tag);
            if !tag.is_reserved() && !self.pending.contains_key(&tag) {
                return tag;
            }
        }
    }

    fn handle_pdu(
        &mut self,
        now: Instant,
        pdu: RawPdu,
        out: &mut InitiatorOutput,
    ) -> Result<(), EndReason> {
        let reply = Reply::parse(&pdu.header)
            .map_err(|_| EndReason::ProtocolError("a header that no target sends"))?;
        if matches!(self.phase, Phase::Login(_)) {
            let Reply::Login(response) = reply else {
                return Err(EndReason::ProtocolError("not a login response in a login"));
            };
            self.note_sequence(response.sequence, true)?;
            return self.handle_login(now, &response, pdu.data, out);
        }
        match reply {
            Reply::Login(_) => Err(EndReason::ProtocolError("a login response after the login")),
            Reply::NopIn(nop) => self.handle_nop(&nop, out),
            Reply::Response(response) => {
                self.note_sequence(response.sequence, true)?;
                self.handle_response(&response, pdu.data, out)
            }
            Reply::DataIn(data_in) => {
                self.note_sequence(data_in.sequence, data_in.status.is_some())?;
                self.handle_data_in(&data_in, pdu.data, out)
            }
            Reply::ReadyToTransfer(ready) => {
                self.note_sequence(ready.sequence, false)?;
                self.handle_ready_to_transfer(&ready, out)
            }
            Reply::TaskManagement(response) => {
                self.note_sequence(response.sequence, true)?;
                self.handle_management(response.task_tag, response.response, out);
                Ok(())
            }
            Reply::Text(response) => {
                self.note_sequence(response.sequence, true)?;
                self.handle_text(&response, &pdu.data.into_bytes(), out)
            }
            Reply::Logout(response) => {
                self.note_sequence(response.sequence, true)?;
                Err(EndReason::LoggedOut)
            }
            Reply::Async(message) => {
                self.note_sequence(message.sequence, true)?;
                let [_, _, seconds] = message.parameters;
                let event = message.event;
                out.events
                    .push_back(InitiatorEvent::Async { event, seconds });
                Ok(())
            }
            Reply::Reject(reject) => {
                self.note_sequence(reject.sequence, true)?;
                out.events.push_back(InitiatorEvent::Rejected {
                    reason: reject.reason,
                });
                Ok(())
            }
        }
    }

    /// StatSN counts up by one (RFC 7143 4.2.2.2); the window only moves up (RFC 7143 4.2.2.1).
    fn note_sequence(&mut self, sequence: Sequence, is_status: bool) -> Result<(), EndReason> {
        if is_status {
            if self
                .expected_status
                .is_some_and(|expected| expected != sequence.status)
            {
                return Err(EndReason::ProtocolError("a StatSN out of order"));
            }
            self.expected_status = Some(sequence.status.next());
        }
        let is_sane = !sequence
            .command_max
            .precedes(sequence.expected_command.previous());
        if is_sane && self.command_max.precedes(sequence.command_max) {
            self.command_max = sequence.command_max;
        }
        Ok(())
    }

    fn handle_nop(&mut self, nop: &NopIn, out: &mut InitiatorOutput) -> Result<(), EndReason> {
        self.note_sequence(nop.sequence, !nop.task_tag.is_reserved())?;
        if matches!(self.pending.get(&nop.task_tag), Some(Pending::Ping)) {
            self.pending.remove(&nop.task_tag);
            out.events.push_back(InitiatorEvent::Pong);
        } else if !nop.transfer_tag.is_reserved() {
            // RFC 7143 11.18: answered with the target's tag, and without one of ours.
            let request = Request::NopOut(NopOut {
                immediate: true,
                lun: nop.lun,
                task_tag: InitiatorTaskTag::RESERVED,
                transfer_tag: nop.transfer_tag,
                command_number: self.next_command,
                expected_status: self.expected_status(),
            });
            self.send(&request, Vec::new(), out);
        }
        Ok(())
    }

    /// Sends what waits for the window.
    fn send_waiting(&mut self, out: &mut InitiatorOutput) {
        while self.is_logged_in() && !self.command_max.precedes(self.next_command) {
            let Some((tag, command)) = self.waiting.pop_front() else {
                return;
            };
            self.send_command(tag, command, out);
        }
    }
}

impl CommandRequest {
    /// A command without data, of the simple attribute.
    #[must_use]
    pub fn new(lun: Lun, cdb: &[u8]) -> Self {
        let mut filled = [0; 16];
        filled[..cdb.len()].copy_from_slice(cdb);
        Self {
            lun,
            attribute: TaskAttribute::Simple,
            cdb: filled,
            data_out: Vec::new(),
            expected_in: 0,
        }
    }

    /// The same, that returns at most `length` bytes.
    #[must_use]
    pub fn reading(mut self, length: u32) -> Self {
        self.expected_in = length;
        self
    }

    /// The same, with `data` to write.
    #[must_use]
    pub fn writing(mut self, data: Vec<Bytes>) -> Self {
        self.data_out = data;
        self
    }
}
