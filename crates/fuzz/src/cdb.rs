//! A logical unit, and whatever an initiator can ask of it: any CDB, with any data.
//!
//! Invariants:
//! - every command is answered, with sense data exactly where its status says so;
//! - no answer is longer than its ALLOCATION LENGTH, and none that failed has data;
//! - nothing that is asked of the medium is empty, beyond the unit's end, or, but for copies, not of whole blocks;
//! - a read returns what the medium holds, and the medium holds what was written, and what was copied.

use holdfast_iscsi::Isid as PortIsid;
use holdfast_model::record::{AccessNexus, AccessRecord, Isid};
use holdfast_model::{ClusterId, NodeId, VolumeId};
use holdfast_scsi::cdb::CDB_LENGTH_MAX;
use holdfast_scsi::{
    AccessState, BlockLength, Cdb, Command, CopyList, CopyOutcome, Decision, Direction,
    FieldPointer, Geometry, Identity, LogicalUnit, Lun, MediumError, Nexus, Outcome, Provisioning,
    Reachable, Request, Response, Sense, SenseKey, Status, StatusCode, Surroundings,
    TargetPortGroup, UnitAttention, limits, respond_absent,
};
use holdfast_stdx::Bytes;

use crate::Input;

mod copy;
mod medium;
mod seeds;

use copy::{Drawn, Field, Told};
use medium::Medium;

pub(crate) use seeds::seeds;

/// Commands of one input.
const COMMANDS_MAX: usize = 24;
/// Steps of one command: the longest compares 4 MiB by steps of 1 MiB, or fills 16 MiB.
const STEPS_MAX: usize = 64;
/// Steps of a copy: where the ranges of a segment may overlap, a step ends at each MiB of either.
const COPY_STEPS_MAX: usize = limits::COPY_SEGMENTS_MAX
    * 2
    * (limits::COPY_SEGMENT_BYTES_MAX / limits::ATOMIC_BYTES_MAX + 1) as usize;
/// The target ports.
const PORTS: [NodeId; 2] = [NodeId(3), NodeId(7)];

/// A unit, with two nexuses that send to it.
struct Bench {
    unit: LogicalUnit,
    medium: Medium,
    access: AccessRecord,
    sides: [(AccessNexus, Nexus); 2],
    groups: Vec<TargetPortGroup>,
    provisioning: Option<Provisioning>,
    /// What each side was answered to its copies.
    told: [Told; 2],
    /// So many bytes may be copied yet.
    copied_left: u64,
}

/// A command, with what its initiator means to move.
struct Sent {
    cdb: Vec<u8>,
    data_out: Vec<u8>,
    data_in_expected: u64,
    side: usize,
    /// It has a list of segments that nothing is to be said against.
    has_right_list: bool,
}

pub(crate) fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let mut bench = Bench::new(input.u8());
    for _ in 0..COMMANDS_MAX {
        if input.is_empty() {
            break;
        }
        let sent = bench.draw(&mut input);
        bench.send(&sent);
    }
}

impl Bench {
    fn new(kind: u8) -> Self {
        let block_length = match kind & 1 {
            0 => BlockLength::Emulated512,
            _ => BlockLength::Native4096,
        };
        let bytes = [1 << 20, 4096, 64 << 20, 64 << 40][usize::from(kind >> 1 & 3)];
        let state = [
            AccessState::ActiveOptimized,
            AccessState::ActiveNonOptimized,
            AccessState::Standby,
            AccessState::Unavailable,
        ][usize::from(kind >> 3 & 3)];
        let group = |group, state| TargetPortGroup {
            group,
            state,
            preferred: group == 3,
            status: StatusCode::Implicit,
            ports: vec![group],
        };
        let groups = match kind & 0x20 {
            0 => Vec::new(),
            _ => vec![group(3, state), group(7, AccessState::ActiveNonOptimized)],
        };
        let side = |number: u8, port: NodeId| {
            let nexus = AccessNexus {
                initiator: format!("iqn.2026-11.example:host-{number}"),
                isid: Isid(PortIsid([0x80, 0, 0, 0, 0, number]).0),
                port,
            };
            (nexus, Nexus::new(port.0))
        };
        let geometry = Geometry::new(bytes, block_length);
        Self {
            unit: LogicalUnit::new(Identity::of_volume(ClusterId(0xABC), VolumeId(7)), geometry),
            medium: Medium::new(geometry),
            access: AccessRecord::open(VolumeId(7)),
            sides: [side(1, PORTS[0]), side(2, PORTS[1])],
            groups,
            provisioning: (kind & 0x40 != 0).then_some(Provisioning {
                used_bytes: 1 << 30,
                available_bytes: 5 << 30,
                thresholds_bytes: (kind & 0x80 != 0).then_some([1 << 30, 1 << 29, 1 << 28]),
            }),
            told: Default::default(),
            copied_left: copy::COPIED_BYTES_MAX,
        }
    }

    /// The next command that the input asks for, and what happens before it.
    fn draw(&mut self, input: &mut Input<'_>) -> Sent {
        const FAILURES: [MediumError; 7] = [
            MediumError::NotReady,
            MediumError::Lost { offset: 2048 },
            MediumError::Write,
            MediumError::NoSpace,
            MediumError::Busy,
            MediumError::Aborted,
            MediumError::Internal,
        ];
        const ATTENTIONS: [UnitAttention; 6] = [
            UnitAttention::AccessStateChanged,
            UnitAttention::SoftThresholdReached,
            UnitAttention::Reset,
            UnitAttention::CommandsCleared,
            UnitAttention::CapacityChanged,
            UnitAttention::ReportedLunsChanged,
        ];
        let flags = input.u8();
        let side = usize::from(flags & 1);
        if flags & 0x02 != 0 {
            let attention = input.pick(&ATTENTIONS);
            self.sides[side].1.raise(attention);
            if attention == UnitAttention::Reset {
                self.told[side].clear();
            }
        }
        self.medium.failure = (flags & 0x04 != 0).then(|| input.pick(&FAILURES));
        self.medium.sound_operations = 0;
        let mut cdb = input.array::<CDB_LENGTH_MAX>().to_vec();
        if flags & 0x08 != 0 {
            cdb.truncate(input.below(CDB_LENGTH_MAX + 1));
        }
        if let Some(drawn) = self.draw_copy(&mut cdb, input) {
            return Sent {
                cdb,
                data_out: drawn.list,
                data_in_expected: 0,
                side,
                has_right_list: drawn.is_right,
            };
        }
        let wanted = Cdb::parse(&cdb, self.unit.geometry()).data_out_length();
        assert!(wanted <= limits::TRANSFER_BYTES_MAX, "it is bounded");
        let data_out = draw_data(input, flags >> 4 & 3, wanted);
        let data_in_expected = match flags >> 6 {
            0 => u64::MAX,
            1 => 0,
            2 => u64::from(input.u8()),
            _ => u64::from(input.u32()),
        };
        Sent {
            cdb,
            data_out,
            data_in_expected,
            side,
            has_right_list: false,
        }
    }

    /// A list for EXTENDED COPY (LID1), unless the input has its own; and something to be copied.
    fn draw_copy(&mut self, cdb: &mut [u8], input: &mut Input<'_>) -> Option<Drawn> {
        let is_copy = cdb.len() == CDB_LENGTH_MAX && cdb[0] == 0x83 && cdb[1] & 0x1F == 0;
        let how = if is_copy { input.u8() } else { 0 };
        if how & 1 == 0 {
            return None;
        }
        if how & 2 != 0 {
            self.medium.sow(input.u8());
        }
        self.medium.sound_operations = usize::from(how >> 2 & 0x0F);
        let mut field = Field {
            naa: self.unit.identity().naa(),
            geometry: self.unit.geometry(),
            left: self.copied_left,
        };
        let drawn = field.draw(input);
        self.copied_left = field.left;
        let length = drawn.list.len() as u32;
        cdb[10..14].copy_from_slice(&length.to_be_bytes());
        Some(drawn)
    }

    fn send(&mut self, sent: &Sent) -> Response {
        let cdb = Cdb::parse(&sent.cdb, self.unit.geometry());
        let luns = [Lun::from_number(0), Lun::from_number(300)];
        let absent = respond_absent(&sent.cdb, &luns);
        check(&sent.cdb, &cdb, &absent);
        // A command moves data in one direction: the initiator's flags say which.
        let data_in_expected = match (cdb.direction(), sent.data_out.len()) {
            (Direction::Out, 1..) | (_, 1..) => 0,
            _ => sent.data_in_expected,
        };
        let arrived = sent.data_out.len().min(cdb.data_out_length() as usize);
        let parts = sent.data_out[..arrived].chunks(1000);
        let (port, nexus) = &mut self.sides[sent.side];
        let request = Request {
            cdb,
            data_out: parts.map(Bytes::copy_from_slice).collect(),
            data_out_expected: sent.data_out.len() as u64,
            data_in_expected,
            luns: &luns,
            access: &self.access,
            port,
            surroundings: Surroundings {
                target: "iqn.2026-11.io.holdfast:test",
                groups: &self.groups,
                provisioning: self.provisioning,
            },
        };
        let mut outcome = self.unit.begin(nexus, request);
        let mut steps = 0;
        let response = loop {
            match outcome {
                Outcome::Done(response) => break response,
                Outcome::Medium(operation, continuation) => {
                    steps += 1;
                    assert!(steps <= STEPS_MAX, "a command ends: {:x?}", sent.cdb);
                    outcome = continuation.complete(self.medium.execute(&operation));
                }
                Outcome::Access(request) => {
                    let port = &self.sides[sent.side].0;
                    match request.decide(&self.access, port, &PORTS) {
                        Decision::Answer(response) => break response,
                        Decision::Change {
                            record, response, ..
                        } => {
                            self.access = record;
                            break response;
                        }
                    }
                }
                Outcome::Copy(list) => break self.copy(sent, arrived, list),
                Outcome::PortGroups(wanted) => {
                    assert!(!wanted.states().is_empty(), "something is wanted");
                    break match self.medium.failure {
                        Some(_) => wanted.failed(),
                        None => wanted.granted(),
                    };
                }
            }
        };
        check(&sent.cdb, &cdb, &response);
        self.check_content(&cdb, sent, &response, data_in_expected);
        response
    }

    /// Does a copy within the unit, whose list are the first bytes that were sent: no other unit is reachable.
    fn copy(&mut self, sent: &Sent, arrived: usize, list: CopyList) -> Response {
        let geometry = self.unit.geometry();
        let before = self.medium.clone();
        let (port, nexus) = &mut self.sides[sent.side];
        let own = Reachable {
            volume: VolumeId(7),
            geometry,
            access: &self.access,
        };
        let naa = self.unit.identity().naa();
        let mut outcome = list.begin(port, |wanted| (*wanted == naa).then_some(own));
        let mut steps = 0;
        let (report, response) = loop {
            match outcome {
                CopyOutcome::Done(report, response) => break (report, response),
                CopyOutcome::Step(step, copy) => {
                    steps += 1;
                    assert!(steps <= COPY_STEPS_MAX, "a copy ends");
                    nexus.note_copy(copy.report());
                    outcome = copy.complete(self.medium.carry_out(&step));
                }
            }
        };
        nexus.end_copy(report, Some(&response));
        self.told[sent.side].note(report, &response);
        let is_free = self.access.reservation.is_none() && self.access.reserved.is_none();
        if sent.has_right_list && is_free && self.medium.failure.is_none() {
            assert_eq!(response.status, Status::Good, "{:x?}", response.sense);
        }
        let list = &sent.data_out[..arrived];
        let told = (geometry, report, &response);
        copy::check(list, before, &self.medium, told);
        response
    }

    /// What a read returns is what the medium holds, and what was written it holds.
    fn check_content(&mut self, cdb: &Cdb, sent: &Sent, response: &Response, expected: u64) {
        if let Ok(Command::ReceiveCopyResults {
            wanted,
            identifier,
            allocation_length,
        }) = cdb.command()
        {
            let asked = (wanted, identifier, allocation_length);
            self.told[sent.side].check(asked, expected, response);
        }
        if sent.has_right_list && cdb.command().is_ok() {
            let refused = response.sense.map(|sense| sense.key);
            assert_ne!(refused, Some(SenseKey::IllegalRequest), "the list is right");
        }
        if response.status != Status::Good {
            return;
        }
        let geometry = self.unit.geometry();
        match cdb.command() {
            Ok(Command::Read { span, .. }) if sent.data_out.is_empty() => {
                let range = geometry.byte_range(span);
                let data = response.data_in.concat();
                assert!(data.len() as u64 >= range.length.min(expected));
                assert!(data.len() as u64 <= range.length);
                assert_eq!(response.transfer_length, range.length);
                assert!(self.medium.holds(range.offset, &data), "as it is there");
            }
            Ok(Command::Write { span, .. } | Command::WriteAtomic { span }) => {
                let range = geometry.byte_range(span);
                let data = &sent.data_out[..range.length.min(sent.data_out.len() as u64) as usize];
                let whole = data.len() - data.len() % geometry.block_length().bytes() as usize;
                let kept = self.medium.kept(range.offset, whole as u64).len();
                assert!(self.medium.holds(range.offset, &data[..kept]));
            }
            _ => {}
        }
    }
}

/// As many bytes as a command wants, or more, or fewer.
fn draw_data(input: &mut Input<'_>, how_much: u8, wanted: u64) -> Vec<u8> {
    let length = match how_much {
        0 => wanted,
        1 => 0,
        2 => wanted.min(input.u16().into()),
        _ => wanted + u64::from(input.u8()),
    };
    let explicit = match length {
        0 => &[],
        _ => {
            let count = usize::from(input.u8());
            input.take(count)
        }
    };
    // What is not there in full is repeated.
    match explicit {
        [] => vec![0; length as usize],
        some => some.iter().copied().cycle().take(length as usize).collect(),
    }
}

/// What holds for every answer to any CDB.
fn check(bytes: &[u8], cdb: &Cdb, response: &Response) {
    let has_sense = response.status == Status::CheckCondition;
    assert_eq!(response.sense.is_some(), has_sense, "{bytes:x?}");
    let length: usize = response.data_in.iter().map(Bytes::len).sum();
    if response.status != Status::Good {
        assert_eq!(length, 0, "what failed returns nothing: {bytes:x?}");
    }
    if let Ok(Some(allocation_length)) = cdb.command().map(allocation_length) {
        assert!(length <= allocation_length as usize, "{bytes:x?}");
    }
    if let Some(sense) = response.sense {
        check_sense(bytes, &sense);
    }
}

fn check_sense(bytes: &[u8], sense: &Sense) {
    let fixed = sense.encode_fixed();
    assert_eq!(usize::from(fixed[7]) + 8, fixed.len());
    let descriptor = sense.encode_descriptor();
    assert_eq!(usize::from(descriptor[7]) + 8, descriptor.len());
    assert!(descriptor.len() <= 252, "SPC-4 4.5: the most that there is");
    if let Some(FieldPointer { in_cdb, byte, bit }) = sense.field {
        assert!(bit.is_none_or(|bit| bit < 8));
        if in_cdb {
            assert!(usize::from(byte) < CDB_LENGTH_MAX, "{bytes:x?}: {sense:?}");
        }
    }
}

fn allocation_length(command: Command) -> Option<u32> {
    Some(match command {
        Command::RequestSense {
            allocation_length, ..
        }
        | Command::Inquiry {
            allocation_length, ..
        }
        | Command::ReportLuns {
            allocation_length, ..
        }
        | Command::ReportOperationCodes {
            allocation_length, ..
        }
        | Command::ReadCapacity16 { allocation_length }
        | Command::ReceiveCopyResults {
            allocation_length, ..
        }
        | Command::LbaStatus {
            allocation_length, ..
        }
        | Command::PersistentReserveIn {
            allocation_length, ..
        }
        | Command::ReportPortGroups {
            allocation_length, ..
        }
        | Command::ReportTaskFunctions {
            allocation_length, ..
        } => allocation_length,
        Command::ModeSense(mode_sense) => mode_sense.allocation_length,
        Command::LogSense(log_sense) => log_sense.allocation_length,
        Command::ReadCapacity10 => 8,
        _ => return None,
    })
}
