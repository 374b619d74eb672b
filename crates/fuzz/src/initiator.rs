//! The initiator's machine, and a target that sends anything: our own tools stand for hosts with it.
//!
//! The answers are mostly those that could come next, so that logins succeed and commands go on.
//!
//! Invariants:
//! - a command that was taken completes once at most, and nothing completes after the session's end;
//! - a session ends once, and says nothing afterwards;
//! - what the initiator sends is whole PDUs, and no more data of a command than it has.

use std::collections::BTreeMap;

use holdfast_iscsi::initiator::{
    CommandRequest, CommandTag, Initiator, InitiatorChap, InitiatorCommand, InitiatorConfig,
    InitiatorEvent, InitiatorOutput, MutualChap, SessionKind,
};
use holdfast_iscsi::pdu::{
    AsyncMessage, DataIn, Framing, HEADER_LENGTH, InitiatorTaskTag, LoginResponse, LoginStage,
    LoginStatus, LogoutResponse, NopIn, PduReader, ReadyToTransfer, Reject, Reply, Request,
    Residual, ScsiResponse, Sequence, TargetTransferTag, TaskManagementCode,
    TaskManagementResponse, TextResponse, frame,
};
use holdfast_iscsi::{
    ChapAccount, ChapSecret, IscsiName, Isid, SerialNumber, Tsih, chap::ChapAlgorithm,
};
use holdfast_scsi::Lun;
use holdfast_stdx::{Bytes, Duration, Instant};

use crate::Input;

/// Steps of one input.
const STEPS_MAX: usize = 128;
/// Bytes of a command's data.
const DATA: usize = 20_000;

/// What an input does next, by its number.
mod step {
    pub(super) const READ: u8 = 0;
    pub(super) const WRITE: u8 = 1;
    pub(super) const ABORT: u8 = 2;
    pub(super) const MANAGE: u8 = 3;
    pub(super) const PING: u8 = 4;
    pub(super) const DISCOVER: u8 = 5;
    pub(super) const LOG_OUT: u8 = 6;
    pub(super) const PASS: u8 = 7;
    pub(super) const LOGIN: u8 = 8;
    pub(super) const RESPONSE: u8 = 9;
    pub(super) const DATA_IN: u8 = 10;
    pub(super) const READY: u8 = 11;
    pub(super) const OTHER: u8 = 12;
    pub(super) const HEADER: u8 = 13;
    pub(super) const BYTES: u8 = 14;
    pub(super) const CLOSED: u8 = 15;
    pub(super) const COUNT: usize = 16;
}

struct World {
    initiator: Initiator,
    now: Instant,
    /// What it has sent.
    reader: PduReader,
    /// How it reads.
    framing: Framing,
    stage: LoginStage,
    status: SerialNumber,
    /// Tags on the wire of what it has asked for, and how much data each command has.
    tags: Vec<(InitiatorTaskTag, u32)>,
    /// What each command that was taken may return, until it completes.
    commands: BTreeMap<CommandTag, u32>,
    has_ended: bool,
    next_tag: u64,
}

pub(crate) fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let mut world = World::new(input.u8());
    for _ in 0..STEPS_MAX {
        if input.is_empty() {
            break;
        }
        world.take_step(&mut input);
    }
}

fn config(flags: u8) -> InitiatorConfig {
    let name = |text| IscsiName::parse(text).expect("it is a name");
    let kind = match flags & 1 {
        0 => SessionKind::Normal(name("iqn.2026-11.example.holdfast:demo")),
        _ => SessionKind::Discovery,
    };
    let isid = Isid([0x80, 0, 0, 0, 0, 1]);
    let mut config = InitiatorConfig::new(name("iqn.2026-11.example.host:a"), isid, kind);
    config.commands_max = 8;
    let account = |name: &str, secret: &[u8]| ChapAccount {
        name: name.into(),
        secret: ChapSecret::new(secret).expect("it is long enough"),
    };
    if flags & 2 != 0 {
        config.chap = Some(InitiatorChap {
            account: account("host", b"what nobody guesses"),
            algorithms: ChapAlgorithm::PREFERRED,
            mutual: (flags & 4 != 0).then(|| MutualChap {
                account: account("target", b"what the target knows"),
                challenge: [7; 32],
            }),
        });
    }
    config
}

impl World {
    fn new(flags: u8) -> Self {
        let now = Instant::from_nanos(1_000_000_000);
        let mut out = InitiatorOutput::default();
        let initiator = Initiator::connect(now, config(flags), &mut out);
        let mut world = Self {
            initiator,
            now,
            reader: PduReader::new(Framing {
                data_length_max: (1 << 24) - 1,
                ..Framing::LOGIN
            }),
            framing: Framing::LOGIN,
            stage: LoginStage::SecurityNegotiation,
            status: SerialNumber(u32::MAX - 2),
            tags: Vec::new(),
            commands: BTreeMap::new(),
            has_ended: false,
            next_tag: 0,
        };
        world.take_output(out);
        world
    }

    fn with<R>(
        &mut self,
        call: impl FnOnce(&mut Initiator, Instant, &mut InitiatorOutput) -> R,
    ) -> R {
        let mut out = InitiatorOutput::default();
        let result = call(&mut self.initiator, self.now, &mut out);
        self.take_output(out);
        result
    }

    fn take_output(&mut self, out: InitiatorOutput) {
        assert!(
            !self.has_ended || out.commands.is_empty(),
            "it says no more"
        );
        assert!(!self.has_ended || out.events.is_empty(), "it is over");
        for command in out.commands {
            if let InitiatorCommand::Send(parts) = command {
                for part in parts {
                    assert!(!part.is_empty(), "no part is empty");
                    self.reader.push(part);
                }
            }
        }
        while let Some(pdu) = self.reader.next_pdu().expect("its stream can be cut") {
            let request = Request::parse(&pdu.header).expect("its headers are such");
            self.note(&request, pdu.data.len());
        }
        assert_eq!(self.reader.buffered(), 0, "whole PDUs only");
        for event in out.events {
            self.take_event(&event);
        }
    }

    fn note(&mut self, request: &Request, length: usize) {
        let (tag, expected) = match request {
            Request::Command(command) => {
                let expected = if command.flags.write {
                    command.expected_length
                } else {
                    0
                };
                assert!(length <= expected as usize, "no more than there is");
                (command.task_tag, expected)
            }
            Request::DataOut(pdu) => {
                let known = self.tags.iter().find(|(tag, _)| *tag == pdu.task_tag);
                let (_, expected) = known.expect("the data of a command that was sent");
                assert!(pdu.offset as usize + length <= *expected as usize);
                return;
            }
            Request::TaskManagement(request) => (request.task_tag, 0),
            Request::Text(text) => (text.task_tag, 0),
            Request::NopOut(nop) => (nop.task_tag, 0),
            Request::Logout(logout) => (logout.task_tag, 0),
            Request::Login(_) => return,
            Request::Snack(_) => panic!("ErrorRecoveryLevel 0 has none"),
        };
        if !tag.is_reserved() {
            self.tags.retain(|(other, _)| *other != tag);
            self.tags.push((tag, expected));
        }
    }

    fn take_event(&mut self, event: &InitiatorEvent) {
        assert!(!self.has_ended, "nothing happens after the end");
        match event {
            InitiatorEvent::Completed { tag, completion } => {
                let expected = self.commands.remove(tag);
                let expected = expected.expect("a command completes once");
                let length: usize = completion.data_in.iter().map(Bytes::len).sum();
                assert!(length <= expected as usize, "no more than expected");
            }
            InitiatorEvent::Ended { .. } => {
                assert!(self.initiator.has_ended());
                assert_eq!(self.initiator.outstanding(), 0, "nothing is waited for");
                assert_eq!(self.initiator.next_timeout(), None);
                self.has_ended = true;
            }
            InitiatorEvent::LoggedIn { .. } => {
                let parameters = *self.initiator.parameters();
                let framing = Framing {
                    header_digest: parameters.header_digest,
                    data_digest: parameters.data_digest,
                    data_length_max: (1 << 24) - 1,
                };
                self.reader.set_framing(framing);
                self.framing = framing;
            }
            _ => {}
        }
    }

    fn take_step(&mut self, input: &mut Input<'_>) {
        match input.below(step::COUNT) as u8 {
            step::READ => {
                let length = input.pick(&[512, 0, 1, 20_000]);
                let request = CommandRequest::new(Lun::from_number(0), &[0x28]).reading(length);
                self.submit(request);
            }
            step::WRITE => {
                let length = input.pick(&[512, 1, 10_000, DATA]);
                let (one, other) = (length / 3, length - length / 3);
                let parts = [one, other].map(|length| Bytes::from(vec![b'w'; length]));
                let parts = parts.into_iter().filter(|part| !part.is_empty()).collect();
                self.submit(CommandRequest::new(Lun::from_number(0), &[0x2A]).writing(parts));
            }
            step::ABORT => {
                let tag = CommandTag(input.u8().into());
                // Whether there is such a command the machine knows.
                let _ = self.with(|initiator, _, out| initiator.abort(tag, out));
            }
            step::MANAGE => {
                let code = TaskManagementCode::from_code(1 + input.u8() % 8);
                let code = code.expect("there are eight");
                let tag = CommandTag(1000 + u64::from(input.u8()));
                let lun = Lun::from_number(0);
                let _ = self.with(|initiator, _, out| initiator.manage(tag, code, lun, out));
            }
            step::PING => self.with(Initiator::ping),
            step::DISCOVER => {
                let _ = self.with(|initiator, _, out| initiator.discover("All", out));
            }
            step::LOG_OUT => self.with(Initiator::log_out),
            step::PASS => {
                self.now += Duration::from_millis(input.pick(&[1, 5_000, 20_000]));
                self.with(Initiator::handle_timeout);
            }
            step::LOGIN => self.answer_login(input),
            step::RESPONSE => self.respond(input),
            step::DATA_IN => self.return_data(input),
            step::READY => self.ask_for_data(input),
            step::OTHER => self.say(input),
            step::HEADER => {
                let mut stream = input.array::<HEADER_LENGTH>().to_vec();
                // Mostly without data, or all that follows would be taken for it.
                if stream[5] != 0xFF {
                    stream[4..8].fill(0);
                }
                self.receive(stream);
            }
            step::BYTES => {
                let count = usize::from(input.u8());
                self.receive(input.take(count).to_vec());
            }
            _ => self.with(Initiator::handle_closed),
        }
    }

    fn submit(&mut self, request: CommandRequest) {
        self.next_tag += 1;
        let tag = CommandTag(self.next_tag);
        // It may complete before this returns.
        self.commands.insert(tag, request.expected_in);
        let taken = self.with(|initiator, _, out| initiator.submit(tag, request, out));
        if taken.is_err() {
            self.commands.remove(&tag);
        }
    }

    fn receive(&mut self, bytes: Vec<u8>) {
        self.with(|initiator, now, out| {
            initiator.handle_received(now, Bytes::from(bytes), out);
        });
    }

    fn reply(&mut self, reply: &Reply, data: Vec<u8>) {
        let mut parts = Vec::new();
        frame(
            reply.encode(),
            vec![Bytes::from(data)],
            self.framing,
            &mut parts,
        );
        self.receive(parts.concat());
    }

    /// The numbers that come next, or others.
    fn sequence(&mut self, twist: u8, is_status: bool) -> Sequence {
        let status = self.status.plus(u32::from(twist == 0xFF));
        if is_status {
            self.status = self.status.next();
        }
        let expected = SerialNumber(1);
        Sequence {
            status,
            expected_command: expected,
            command_max: expected.plus(u32::from(twist & 0x3F) + 4),
        }
    }

    /// The tag of something that it has asked for, the newest first; or of nothing.
    fn tag(&self, choice: u8) -> (InitiatorTaskTag, u32) {
        let newest = self.tags.iter().rev().nth(usize::from(choice & 0x0F));
        newest
            .copied()
            .unwrap_or((InitiatorTaskTag(u32::from(choice)), 0))
    }

    fn answer_login(&mut self, input: &mut Input<'_>) {
        const TEXTS: [&str; 12] = [
            "",
            "AuthMethod=None\0TargetPortalGroupTag=1\0",
            "AuthMethod=CHAP\0",
            "CHAP_A=7\0CHAP_I=1\0CHAP_C=0x0011\0",
            "CHAP_A=5\0CHAP_I=256\0CHAP_C=0bAAEC\0",
            "CHAP_N=target\0CHAP_R=0x00\0",
            "HeaderDigest=CRC32C\0DataDigest=CRC32C\0",
            "HeaderDigest=None\0DataDigest=None\0MaxRecvDataSegmentLength=512\0",
            "InitialR2T=No\0ImmediateData=Yes\0MaxBurstLength=8192\0FirstBurstLength=1024\0",
            "MaxOutstandingR2T=1\0ErrorRecoveryLevel=0\0DefaultTime2Wait=2\0",
            "TargetAddress=[::1]:3260\0",
            "MaxBurstLength=Reject\0X=NotUnderstood\0",
        ];
        let (flags, twist) = (input.u8(), input.u8());
        let mut text = String::new();
        for _ in 0..input.below(4) {
            text.push_str(input.pick(&TEXTS));
        }
        let next = match (flags & 3, self.stage) {
            (0, _) => None,
            (1, LoginStage::SecurityNegotiation) => Some(LoginStage::OperationalNegotiation),
            _ => Some(LoginStage::FullFeature),
        };
        let status = match flags >> 4 {
            0xF => LoginStatus::TargetMovedTemporarily,
            0xE => LoginStatus::AuthenticationFailure,
            _ => LoginStatus::Success,
        };
        let response = LoginResponse {
            transit: next.is_some(),
            more: flags & 4 != 0,
            current: self.stage,
            next,
            version_max: 0,
            version_active: 0,
            isid: Isid([0x80, 0, 0, 0, 0, 1]),
            tsih: Tsih(9),
            task_tag: InitiatorTaskTag(u32::from(flags & 8)),
            sequence: self.sequence(twist, true),
            status,
        };
        self.stage = next.unwrap_or(self.stage);
        self.reply(&Reply::Login(response), text.into_bytes());
    }

    fn respond(&mut self, input: &mut Input<'_>) {
        let [choice, twist, status, pdus] = input.array();
        let sense = match status {
            2 => vec![0, 2, 0x70, 0],
            3 => vec![0xFF],
            _ => Vec::new(),
        };
        let response = ScsiResponse {
            response: u8::from(twist == 0xFE),
            status,
            task_tag: self.tag(choice).0,
            sequence: self.sequence(twist, true),
            data_number: SerialNumber(pdus.into()),
            residual: Residual::None,
        };
        self.reply(&Reply::Response(response), sense);
    }

    fn return_data(&mut self, input: &mut Input<'_>) {
        let [choice, twist, flags, number] = input.array();
        let offset = input.pick(&[0, 100, 8192, 19_999, u32::MAX]);
        let length = input.pick(&[100, 0, 1, 512, 8192, 19_900]);
        let has_status = flags & 2 != 0;
        let pdu = DataIn {
            is_final: flags & 1 != 0,
            acknowledge: false,
            status: has_status.then_some(0),
            residual: Residual::None,
            lun: Lun::from_number(0),
            task_tag: self.tag(choice).0,
            transfer_tag: TargetTransferTag::RESERVED,
            sequence: self.sequence(twist, has_status),
            data_number: SerialNumber(number.into()),
            offset,
        };
        self.reply(&Reply::DataIn(pdu), vec![b'd'; length]);
    }

    fn ask_for_data(&mut self, input: &mut Input<'_>) {
        let [choice, twist, number] = input.array();
        let (task_tag, expected) = self.tag(choice);
        let offset = input.pick(&[0, 1, 8192, 10_000, u32::MAX]);
        let length = input.pick(&[expected, 0, 1, 8192, 1_000_000, u32::MAX]);
        let ready = ReadyToTransfer {
            lun: Lun::from_number(0),
            task_tag,
            transfer_tag: TargetTransferTag(5),
            sequence: self.sequence(twist, false),
            number: SerialNumber(number.into()),
            offset,
            length,
        };
        self.reply(&Reply::ReadyToTransfer(ready), Vec::new());
    }

    fn say(&mut self, input: &mut Input<'_>) {
        let [kind, choice, twist, code] = input.array();
        let task_tag = self.tag(choice).0;
        let transfer_tag = match code & 1 {
            0 => TargetTransferTag::RESERVED,
            _ => TargetTransferTag(3),
        };
        let is_status = kind % 6 != 1;
        let sequence = self.sequence(twist, is_status);
        let count = usize::from(input.u8());
        let mut data = Vec::new();
        let reply = match kind % 6 {
            0 | 1 => Reply::NopIn(NopIn {
                lun: Lun::from_number(0),
                task_tag: if is_status {
                    task_tag
                } else {
                    InitiatorTaskTag::RESERVED
                },
                transfer_tag,
                sequence,
            }),
            2 => Reply::TaskManagement(TaskManagementResponse {
                response: code,
                task_tag,
                sequence,
            }),
            3 => {
                data = match count {
                    0 => b"TargetName=iqn.a\0TargetAddress=h:3260,1\0TargetAddress=[::1]:1,x\0"
                        .to_vec(),
                    count => input.take(count).to_vec(),
                };
                Reply::Text(TextResponse {
                    is_final: code & 2 == 0,
                    more: code & 4 != 0,
                    lun: Lun::from_number(0),
                    task_tag,
                    transfer_tag,
                    sequence,
                })
            }
            4 => Reply::Async(AsyncMessage {
                event: code,
                sequence,
                parameters: [1, 2, 3],
            }),
            _ if code & 1 == 0 => {
                data = vec![0; HEADER_LENGTH];
                Reply::Reject(Reject {
                    reason: code,
                    sequence,
                })
            }
            _ => Reply::Logout(LogoutResponse {
                response: code,
                task_tag,
                sequence,
                time_to_wait: 2,
                time_to_retain: 0,
            }),
        };
        self.reply(&reply, data);
    }
}

/// A target that behaves: logins of each kind, then reads, writes, task management and discovery.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for (kind, digests) in [(0, 7), (0, 6), (1, 7), (2, 7), (6, 7)] {
        let mut seed = vec![kind];
        match kind {
            0 | 1 => seed.extend([step::LOGIN, 1, 0, 1, 1]),
            _ => {
                seed.extend([step::LOGIN, 0, 0, 1, 2]);
                seed.extend([step::LOGIN, 0, 0, 1, 3]);
                seed.extend([step::LOGIN, 1, 0, 1, 5]);
            }
        }
        seed.extend([step::LOGIN, 2, 0, 2, digests, 8]);
        seed.extend([step::READ, 0, step::DATA_IN, 0, 0, 3, 0, 0, 3]);
        seed.extend([step::READ, 3, step::DATA_IN, 0, 0, 0, 0, 0, 4]);
        seed.extend([step::RESPONSE, 0, 0, 2, 1]);
        seed.extend([
            step::WRITE,
            2,
            step::READY,
            0,
            0,
            0,
            0,
            3,
            step::RESPONSE,
            0,
            0,
            0,
            1,
        ]);
        seed.extend([step::WRITE, 0, step::ABORT, 4, step::OTHER, 2, 0, 0, 0, 0]);
        seed.extend([step::MANAGE, 4, 0, step::OTHER, 2, 0, 0, 0, 0]);
        seed.extend([step::DISCOVER, step::OTHER, 3, 0, 0, 0, 0]);
        seed.extend([
            step::PING,
            step::OTHER,
            0,
            0,
            0,
            0,
            0,
            step::OTHER,
            1,
            0,
            0,
            1,
            0,
        ]);
        seed.extend([step::OTHER, 4, 0, 0, 1, 0, step::OTHER, 5, 0, 0, 4, 0]);
        seed.extend([step::PASS, 1, step::LOG_OUT, step::OTHER, 5, 0, 0, 1, 0]);
        seeds.push(seed);
    }
    let mut raw = vec![0, step::HEADER, 0x23, 0x87];
    raw.extend([0; 46]);
    raw.extend([step::BYTES, 3, 1, 2, 3, step::CLOSED]);
    seeds.push(raw);
    seeds
}
