//! One connection as its initiator sees it: what it has sent, and what it may expect.
//!
//! Invariants (of what a target sends):
//! - it is whole PDUs, with digests where they were agreed on, and what they are is known;
//! - StatSN counts every status, and nothing else (RFC 7143 4.2.2.2); ExpCmdSN and MaxCmdSN never go
//!   back, and a window is never less than closed (4.2.2.1);
//! - a command is answered once at most;
//! - Data-In follows on Data-In, R2T on R2T, none beyond what the command expects, none longer than
//!   was agreed.

use std::collections::{BTreeMap, VecDeque};

use holdfast_iscsi::SerialNumber;
use holdfast_iscsi::pdu::{
    DataIn, Framing, HEADER_LENGTH, Header, InitiatorTaskTag, PduReader, ReadyToTransfer, Reply,
    Request, ScsiResponse, Sequence, TargetTransferTag, frame,
};
use holdfast_stdx::{Bytes, crc32c};

/// Whether the connection is still there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Life {
    /// It is.
    Open,
    /// The machine has closed it; its socket may have something to send still.
    Closed,
    /// Its socket is gone.
    Gone,
}

/// A command that was sent.
#[derive(Debug, Default)]
pub(super) struct Sent {
    /// How often one with this tag was, and how often one was answered.
    pub(super) count: u32,
    answered: u32,
    pub(super) number: SerialNumber,
    pub(super) expected_in: u32,
    pub(super) expected_out: u32,
    /// Data-In that has come, and how many PDUs of it.
    data_in: u32,
    data_in_pdus: u32,
    r2t_pdus: u32,
}

/// What the target asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    pub(super) ready: ReadyToTransfer,
    /// Bytes of it that were sent, in how many PDUs.
    pub(super) sent: u32,
    pub(super) pdus: u32,
}

#[derive(Debug)]
pub(super) struct Peer {
    pub(super) life: Life,
    /// Given to the socket, and not taken.
    pub(super) unsent: usize,
    /// Sent by the initiator, and not wanted by the machine yet.
    pub(super) backlog: VecDeque<Bytes>,
    pub(super) backlog_bytes: usize,
    reader: PduReader,
    pub(super) replies: VecDeque<(Reply, Bytes)>,
    /// How PDUs are framed now.
    pub(super) framing: Framing,
    /// How they are when the login is over, as far as is known.
    pub(super) agreed: Framing,
    pub(super) burst_max: u32,
    pub(super) ready_to_transfer_max: u32,
    pub(super) segment_max: u32,
    /// The longest data segment that the initiator has declared to take.
    pub(super) declared: u32,
    /// Nothing was sent that may have changed that in a way that is not known here.
    pub(super) is_measured: bool,
    /// Every command that was sent is known here.
    is_tracked: bool,
    /// All data that was sent was what was asked for.
    pub(super) is_orderly: bool,
    pub(super) is_full: bool,
    /// Requests of a login that were not answered.
    logins: u32,
    /// It has sent a response to a challenge that is right.
    pub(super) is_proved: bool,
    status: Option<SerialNumber>,
    window: Option<(SerialNumber, SerialNumber)>,
    next: SerialNumber,
    next_tag: u32,
    pub(super) commands: BTreeMap<u32, Sent>,
    pub(super) wanted: VecDeque<Wanted>,
    /// It was asked whether it is there, with that, and has not answered.
    pub(super) question: Option<TargetTransferTag>,
    last_text_tag: InitiatorTaskTag,
    pub(super) text_transfer: TargetTransferTag,
    /// The next PDU has a bit wrong, there.
    pub(super) spoils: Option<u8>,
}

impl Peer {
    /// The longest data segment that is ever sent.
    pub(super) const DATA_MAX: usize = 20_000;

    pub(super) fn new() -> Self {
        let reading = Framing {
            data_length_max: (1 << 24) - 1,
            ..Framing::LOGIN
        };
        Self {
            life: Life::Open,
            unsent: 0,
            backlog: VecDeque::new(),
            backlog_bytes: 0,
            reader: PduReader::new(reading),
            replies: VecDeque::new(),
            framing: Framing::LOGIN,
            agreed: Framing::LOGIN,
            burst_max: 262_144,
            ready_to_transfer_max: 1,
            segment_max: 8192,
            declared: 8192,
            is_measured: true,
            is_tracked: true,
            is_orderly: true,
            is_full: false,
            logins: 0,
            is_proved: false,
            status: None,
            window: None,
            next: SerialNumber(0xFFFF_FFFA),
            next_tag: 0,
            commands: BTreeMap::new(),
            wanted: VecDeque::new(),
            question: None,
            last_text_tag: InitiatorTaskTag(0),
            text_transfer: TargetTransferTag::RESERVED,
            spoils: None,
        }
    }

    /// Something is sent that may be a command, or anything.
    pub(super) const fn lose_track(&mut self) {
        self.is_tracked = false;
        self.is_measured = false;
    }

    pub(super) const fn new_tag(&mut self) -> InitiatorTaskTag {
        self.next_tag += 1;
        InitiatorTaskTag(self.next_tag)
    }

    pub(super) const fn text_tag(&mut self, is_new: bool) -> InitiatorTaskTag {
        if is_new {
            self.last_text_tag = self.new_tag();
        }
        self.last_text_tag
    }

    /// The tag of a command that was sent, or of none, and its number.
    pub(super) fn some_tag(&self, choice: u8) -> (u32, SerialNumber) {
        let latest = self.commands.iter().rev();
        match latest.clone().nth(usize::from(choice & 0x0F)) {
            Some((tag, sent)) => (*tag, sent.number),
            None => (u32::from(choice), self.next.previous()),
        }
    }

    pub(super) const fn next_number(&self) -> SerialNumber {
        self.next
    }

    /// The number of a request; one that is not immediate has it for itself.
    pub(super) const fn take_number(&mut self, immediate: bool) -> SerialNumber {
        let number = self.next;
        if !immediate {
            self.next = number.next();
        }
        number
    }

    pub(super) fn expected_status(&self) -> SerialNumber {
        self.status.unwrap_or(SerialNumber::ZERO)
    }

    /// A PDU as it stands in the stream, and note of what it is.
    pub(super) fn framed(&mut self, request: &Request, data: &[u8]) -> Vec<u8> {
        // What is outside of the window is ignored, and leaves a gap there.
        if self
            .window
            .is_some_and(|(_, max)| max.precedes(self.next.previous()))
        {
            self.is_orderly = false;
        }
        match request {
            Request::Login(_) => self.logins += 1,
            // It may be read when the login is over, as it was not meant.
            _ if !self.is_full => self.lose_track(),
            _ => {}
        }
        if let Request::Command(command) = request {
            let sent = self.commands.entry(command.task_tag.0).or_default();
            let count = sent.count + 1;
            // Of a tag that is used again it is not known which command is answered.
            self.is_tracked &= count == 1;
            let expected = |wanted| if wanted { command.expected_length } else { 0 };
            *sent = Sent {
                count,
                answered: sent.answered,
                number: command.command_number,
                expected_in: expected(command.flags.read),
                expected_out: expected(command.flags.write),
                ..Sent::default()
            };
        }
        let mut parts = Vec::new();
        let data = vec![Bytes::copy_from_slice(data)];
        frame(request.encode(), data, self.framing, &mut parts);
        self.spoiled(parts.concat())
    }

    /// The same of any header, which says the length of `data`; additional headers are zeros.
    pub(super) fn laid_out(&mut self, header: &[u8; HEADER_LENGTH], data: &[u8]) -> Vec<u8> {
        let mut stream = header.to_vec();
        stream.resize(HEADER_LENGTH + Header(*header).additional_length(), 0);
        if self.framing.header_digest {
            stream.extend(crc32c(&stream).to_le_bytes());
        }
        let mut padded = data.to_vec();
        padded.resize(data.len().next_multiple_of(4), 0);
        stream.extend(&padded);
        if self.framing.data_digest && !data.is_empty() {
            stream.extend(crc32c(&padded).to_le_bytes());
        }
        self.spoiled(stream)
    }

    fn spoiled(&mut self, mut stream: Vec<u8>) -> Vec<u8> {
        if let Some(place) = self.spoils.take() {
            self.lose_track();
            // Near its beginning, or near its end.
            let index = usize::from(place >> 1) % stream.len();
            let index = if place & 1 == 0 {
                index
            } else {
                stream.len() - 1 - index
            };
            stream[index] ^= 1 << (place >> 5);
        }
        stream
    }

    /// The target has sent something.
    pub(super) fn receive(&mut self, parts: Vec<Bytes>) {
        for part in parts {
            assert!(!part.is_empty(), "no part is empty");
            self.unsent += part.len();
            self.reader.push(part);
        }
        while let Some(pdu) = self
            .reader
            .next_pdu()
            .expect("a target's stream can be cut")
        {
            let reply = Reply::parse(&pdu.header).expect("a target's header is one");
            let data = pdu.data.into_bytes();
            assert_eq!(pdu.header.additional_length(), 0);
            self.check(&reply, &data);
            self.replies.push_back((reply, data));
        }
        assert_eq!(self.reader.buffered(), 0, "whole PDUs only");
    }

    fn check(&mut self, reply: &Reply, data: &Bytes) {
        match reply {
            Reply::Login(response) => {
                assert!(!self.is_full, "a login is answered in a login");
                self.logins = self.logins.saturating_sub(1);
                self.check_status(response.sequence, true);
                self.note_login(response, data);
                return;
            }
            _ => assert!(self.is_full, "there is a session: {reply:?}"),
        }
        match reply {
            Reply::NopIn(nop) => {
                self.note(nop.sequence, !nop.task_tag.is_reserved());
                if nop.transfer_tag != TargetTransferTag::RESERVED {
                    self.question = Some(nop.transfer_tag);
                }
            }
            Reply::Response(response) => {
                self.note(response.sequence, true);
                self.check_response(response, data);
            }
            Reply::TaskManagement(response) => self.note(response.sequence, true),
            Reply::Text(response) => {
                self.note(response.sequence, true);
                self.text_transfer = response.transfer_tag;
            }
            Reply::DataIn(data_in) => {
                self.note(data_in.sequence, data_in.status.is_some());
                self.check_data_in(data_in, data);
            }
            // It was taken when its request came: others may have been sent meanwhile.
            Reply::Logout(response) => self.check_status(response.sequence, true),
            Reply::ReadyToTransfer(ready) => {
                self.note(ready.sequence, false);
                self.check_ready(*ready);
            }
            Reply::Async(message) => self.note(message.sequence, true),
            Reply::Reject(reject) => {
                self.note(reject.sequence, true);
                assert_eq!(data.len(), HEADER_LENGTH, "the header that was refused");
                self.note_refused(data);
            }
            Reply::Login(_) => unreachable!("it was seen to"),
        }
    }

    fn check_status(&mut self, sequence: Sequence, is_status: bool) {
        if let Some(status) = self.status {
            assert_eq!(sequence.status, status, "StatSN counts up by one");
        }
        self.status = Some(match is_status {
            true => sequence.status.next(),
            false => sequence.status,
        });
    }

    fn note(&mut self, sequence: Sequence, is_status: bool) {
        self.check_status(sequence, is_status);
        let (expected, max) = (sequence.expected_command, sequence.command_max);
        assert!(
            !max.precedes(expected.previous()),
            "a window is closed at least"
        );
        if let Some((old_expected, old_max)) = self.window {
            assert!(!expected.precedes(old_expected), "ExpCmdSN never goes back");
            assert!(!max.precedes(old_max), "MaxCmdSN never goes back");
        }
        if self.is_tracked {
            assert!(
                !self.next.precedes(expected),
                "it expects no more than the next"
            );
        }
        self.window = Some((expected, max));
    }

    /// The session began with these numbers.
    pub(super) fn begin(&mut self, sequence: Sequence) {
        self.is_full = true;
        self.window = Some((sequence.expected_command, sequence.command_max));
        self.reader.set_framing(Framing {
            data_length_max: (1 << 24) - 1,
            ..self.framing
        });
    }

    /// Numbers that the initiator may use.
    pub(super) fn open_window(&self) -> Option<u32> {
        let (expected, max) = self.window?;
        Some(max.next().distance_from(expected))
    }

    fn end_command(&mut self, tag: InitiatorTaskTag) {
        if !self.is_tracked {
            return;
        }
        let sent = self.commands.get_mut(&tag.0);
        let sent = sent.expect("a command that is answered was sent");
        sent.answered += 1;
        assert!(sent.answered <= sent.count, "a command is answered once");
        self.wanted.retain(|wanted| wanted.ready.task_tag != tag);
    }

    /// A command that is refused is answered by that.
    fn note_refused(&mut self, header: &[u8]) {
        let header = header.try_into().expect("it has the length of one");
        if let Ok(Request::Command(command)) = Request::parse(&Header(header)) {
            self.end_command(command.task_tag);
        }
    }

    /// Whether all that it has sent was as it should be.
    pub(super) const fn does_its_part(&self) -> bool {
        self.is_tracked && self.is_orderly
    }

    /// What the target owes an initiator that has done its part, and has been left alone.
    pub(super) fn check_served(&self) {
        if self.life != Life::Open {
            return;
        }
        assert!(self.is_full || self.logins == 0, "a login is answered");
        for (tag, sent) in self.commands.iter().filter(|_| self.is_full) {
            assert_eq!(sent.answered, sent.count, "command {tag} is answered");
        }
    }

    fn check_response(&mut self, response: &ScsiResponse, data: &Bytes) {
        const CHECK_CONDITION: u8 = 0x02;
        assert_eq!(response.response, 0, "it is the command that ended");
        if response.status == CHECK_CONDITION {
            let length = usize::from(u16::from_be_bytes([data[0], data[1]]));
            assert_eq!(data.len(), 2 + length, "SenseLength and sense data");
        } else {
            assert!(data.is_empty(), "no sense data without CHECK CONDITION");
        }
        if self.is_tracked
            && let Some(sent) = self.commands.get(&response.task_tag.0)
        {
            let pdus = sent.data_in_pdus + sent.r2t_pdus;
            assert_eq!(response.data_number.0, pdus, "ExpDataSN counts them");
        }
        self.end_command(response.task_tag);
    }

    fn check_data_in(&mut self, pdu: &DataIn, data: &Bytes) {
        assert!(!data.is_empty(), "there is data in it");
        if self.is_measured {
            assert!(
                data.len() <= self.declared as usize,
                "no longer than declared"
            );
        }
        if self.is_tracked {
            let sent = self.commands.get_mut(&pdu.task_tag.0);
            let sent = sent.expect("data is returned for a command that was sent");
            assert_eq!(pdu.offset, sent.data_in, "data follows on data");
            assert_eq!(pdu.data_number.0, sent.data_in_pdus);
            sent.data_in += data.len() as u32;
            sent.data_in_pdus += 1;
            assert!(sent.data_in <= sent.expected_in, "no more than expected");
            assert!(sent.answered < sent.count, "none after the answer");
        }
        if pdu.status.is_some() {
            assert!(pdu.is_final, "nothing follows a status");
            self.end_command(pdu.task_tag);
        }
    }

    fn check_ready(&mut self, ready: ReadyToTransfer) {
        assert!(!ready.transfer_tag.is_reserved());
        assert!(
            (1..=self.burst_max).contains(&ready.length),
            "a burst at most"
        );
        if self.is_tracked {
            let sent = self.commands.get_mut(&ready.task_tag.0);
            let sent = sent.expect("data is asked for a command that was sent");
            assert_eq!(ready.number.0, sent.r2t_pdus);
            sent.r2t_pdus += 1;
            let end = u64::from(ready.offset) + u64::from(ready.length);
            assert!(end <= sent.expected_out.into(), "no more than there is");
            assert!(sent.answered < sent.count, "none after the answer");
        }
        self.wanted.push_back(Wanted {
            ready,
            sent: 0,
            pdus: 0,
        });
        if self.is_tracked && self.is_orderly {
            let same = |it: &&Wanted| it.ready.task_tag == ready.task_tag;
            let outstanding = self.wanted.iter().filter(same).count();
            assert!(
                outstanding <= self.ready_to_transfer_max as usize,
                "as agreed"
            );
        }
    }
}
