//! A unit with a medium in memory, and what tests ask of it.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

use holdfast_model::record::{AccessNexus, AccessRecord, Isid};
use holdfast_model::{ClusterId, NodeId, VolumeId};
use holdfast_stdx::Bytes;

use crate::{
    AccessState, AdditionalSense, BlockLength, ByteRange, Cdb, CopyList, CopyOutcome, CopyStep,
    Decision, Direction, Extent, Geometry, Identity, LogicalUnit, Lun, MediumData, MediumError,
    MediumOperation, Nexus, Outcome, Provisioning, Reachable, Request, Response, Sense, SenseKey,
    Status, StatusCode, Surroundings, TargetPortGroup, WantedStates, limits,
};

const VOLUME: VolumeId = VolumeId(7);
pub(super) const IDENTITY: Identity = Identity::of_volume(ClusterId(0xABC), VOLUME);
/// That of the other unit, where there is one.
pub(super) const OTHER: Identity = Identity::of_volume(ClusterId(0xABC), VolumeId(8));
/// Bytes of the unit of most tests: 2,048 blocks of 512 bytes.
pub(super) const UNIT_BYTES: u64 = 1 << 20;
pub(super) const UNIT_BLOCKS: u64 = UNIT_BYTES / 512;
/// The medium of the tests allocates by 4 KiB.
const ALLOCATION_BYTES: usize = 4096;

pub(super) struct Bench {
    pub(super) unit: LogicalUnit,
    pub(super) nexus: Nexus,
    pub(super) content: Vec<u8>,
    mapped: Vec<bool>,
    /// What the medium was asked for, in order.
    pub(super) operations: Vec<MediumOperation>,
    /// What was to be copied, in order.
    pub(super) steps: Vec<CopyStep>,
    /// How the medium fails from now on.
    pub(super) failure: Option<MediumError>,
    /// How much Data-In the initiator takes from now on.
    pub(super) data_in_expected: u64,
    /// Who may do what, as all nodes know it.
    pub(super) access: AccessRecord,
    /// Which nexus commands come through.
    pub(super) port: AccessNexus,
    /// What is around the unit: the port is in the first of two groups.
    pub(super) groups: Vec<TargetPortGroup>,
    pub(super) provisioning: Option<Provisioning>,
    /// What was wanted of the groups, in order.
    pub(super) wanted: Vec<WantedStates>,
    /// The other unit that the initiator sees, for copies.
    pub(super) other: Option<Box<Bench>>,
}

/// The target ports of the bench.
pub(super) const PORTS: [NodeId; 2] = [NodeId(3), NodeId(7)];

/// A nexus of the bench's initiator of that number.
pub(super) fn port(initiator: u8, port: NodeId) -> AccessNexus {
    AccessNexus {
        initiator: alloc::format!("iqn.2026-11.example:host-{initiator}"),
        isid: Isid([0x80, 0, 0, 0, 0, initiator]),
        port,
    }
}

pub(super) const TARGET: &str = "iqn.2026-11.io.holdfast:test";

/// The group of the port that commands come through, and another.
fn groups() -> Vec<TargetPortGroup> {
    let group = |group, state| TargetPortGroup {
        group,
        state,
        preferred: group == 3,
        status: StatusCode::Implicit,
        ports: vec![group],
    };
    vec![
        group(3, AccessState::ActiveOptimized),
        group(4, AccessState::ActiveNonOptimized),
    ]
}

impl Bench {
    pub(super) fn new() -> Self {
        Self::with(UNIT_BYTES, BlockLength::Emulated512)
    }

    /// A unit that has already said that it is new.
    pub(super) fn with(bytes: u64, block_length: BlockLength) -> Self {
        let mut bench = Self::just_powered_on(bytes, block_length);
        bench.nexus.take();
        bench
    }

    pub(super) fn just_powered_on(bytes: u64, block_length: BlockLength) -> Self {
        let unit = LogicalUnit::new(IDENTITY, Geometry::new(bytes, block_length));
        // A unit that is too large for memory is one whose medium the test does not touch.
        let stored = if bytes <= 1 << 26 { bytes as usize } else { 0 };
        Self {
            unit,
            nexus: Nexus::new(3),
            content: vec![0; stored],
            mapped: vec![false; stored / ALLOCATION_BYTES],
            operations: Vec::new(),
            steps: Vec::new(),
            failure: None,
            data_in_expected: u64::MAX,
            access: AccessRecord::open(VOLUME),
            port: port(1, PORTS[0]),
            groups: groups(),
            provisioning: None,
            wanted: Vec::new(),
            other: None,
        }
    }

    /// Another unit beside this one.
    pub(super) fn with_other(mut self, bytes: u64, block_length: BlockLength) -> Self {
        let mut other = Self::with(bytes, block_length);
        other.unit = LogicalUnit::new(OTHER, other.unit.geometry());
        self.other = Some(Box::new(other));
        self
    }

    /// The unit of a volume.
    pub(super) fn of(&mut self, volume: VolumeId) -> &mut Self {
        match volume {
            VOLUME => self,
            _ => self.other.as_mut().expect("no other volume is reachable"),
        }
    }

    /// Does a copy, one step after another.
    fn copy(&mut self, list: CopyList) -> Response {
        let port = self.port.clone();
        let units = [(VOLUME, Some(&*self)), (VolumeId(8), self.other.as_deref())];
        let find = |naa: &[u8; 16]| {
            let mut units = units.iter();
            units.find_map(|(volume, bench)| {
                let bench = bench.filter(|bench| bench.unit.identity().naa() == *naa)?;
                Some(Reachable {
                    volume: *volume,
                    geometry: bench.unit.geometry(),
                    access: &bench.access,
                })
            })
        };
        let mut outcome = list.begin(&port, find);
        loop {
            match outcome {
                CopyOutcome::Done(report, response) => {
                    self.nexus.end_copy(report, Some(&response));
                    return response;
                }
                CopyOutcome::Step(step, copy) => {
                    self.nexus.note_copy(copy.report());
                    assert_eq!(copy.volumes(), [step.source, step.destination]);
                    let result = match self.failure {
                        Some(failure) => Err(failure),
                        None => {
                            self.copy_parts(&step);
                            Ok(())
                        }
                    };
                    self.steps.push(step);
                    outcome = copy.complete(result);
                }
            }
        }
    }

    /// Does a step in parts, as it may be cut: from the front or, every other time, from the end.
    fn copy_parts(&mut self, step: &CopyStep) {
        let mut parts = Vec::new();
        let mut done = 0;
        while done < step.length {
            let border = |at: u64| limits::ATOMIC_BYTES_MAX - at % limits::ATOMIC_BYTES_MAX;
            let fits = border(step.from + done).min(border(step.to + done));
            let length = fits.min(step.length - done);
            parts.push((done, length));
            done += length;
        }
        if self.steps.len() % 2 == 1 {
            parts.reverse();
        }
        for (done, length) in parts {
            let offset = step.from + done;
            let source = self.of(step.source);
            let data = source.slice(ByteRange { offset, length }).to_vec();
            let destination = self.of(step.destination);
            destination.overwrite(step.to + done, &data, true);
        }
    }

    /// The response to a command without Data-Out.
    pub(super) fn run(&mut self, cdb: &[u8]) -> Response {
        self.send(cdb, &[])
    }

    /// The response to a command whose initiator means to send `data`.
    pub(super) fn send(&mut self, cdb: &[u8], data: &[u8]) -> Response {
        let mut outcome = self.begin(cdb, data);
        loop {
            match outcome {
                Outcome::Done(response) => return self.checked(cdb, data, response),
                Outcome::Medium(operation, continuation) => {
                    let result = self.execute(&operation);
                    self.operations.push(operation);
                    outcome = continuation.complete(result);
                }
                Outcome::Access(request) => {
                    let response = match request.decide(&self.access, &self.port, &PORTS) {
                        Decision::Answer(response) => response,
                        Decision::Change {
                            record, response, ..
                        } => {
                            self.access = record;
                            response
                        }
                    };
                    return self.checked(cdb, data, response);
                }
                Outcome::Copy(list) => {
                    let response = self.copy(list);
                    return self.checked(cdb, data, response);
                }
                Outcome::PortGroups(wanted) => {
                    self.wanted.push(wanted.clone());
                    outcome = Outcome::Done(match self.failure {
                        Some(_) => wanted.failed(),
                        None => wanted.granted(),
                    });
                }
            }
        }
    }

    pub(super) fn begin(&mut self, cdb: &[u8], data: &[u8]) -> Outcome {
        let cdb = Cdb::parse(cdb, self.unit.geometry());
        let sent = data.len().min(cdb.data_out_length() as usize);
        // In parts of odd lengths, as they come from the network.
        let data_out = data[..sent]
            .chunks(1000)
            .map(Bytes::copy_from_slice)
            .collect();
        // The initiator takes Data-In, if the CDB does not want it to send.
        let data_in_expected = match cdb.direction() {
            Direction::Out => 0,
            Direction::In | Direction::None => self.data_in_expected,
        };
        let request = Request {
            cdb,
            data_out,
            data_out_expected: data.len() as u64,
            data_in_expected,
            luns: &[Lun::from_number(0), Lun::from_number(300)],
            access: &self.access,
            port: &self.port,
            surroundings: Surroundings {
                target: TARGET,
                groups: &self.groups,
                provisioning: self.provisioning,
            },
        };
        self.unit.begin(&mut self.nexus, request)
    }

    /// What holds for every response.
    fn checked(&self, cdb: &[u8], sent: &[u8], response: Response) -> Response {
        let length: u64 = response.data_in.iter().map(|part| part.len() as u64).sum();
        let failed = response.status != Status::Good;
        assert_eq!(
            response.sense.is_some(),
            response.status == Status::CheckCondition,
            "{cdb:x?}"
        );
        assert!(!failed || response.data_in.is_empty(), "{cdb:x?}");
        let parsed = Cdb::parse(cdb, self.unit.geometry());
        let wanted = parsed.data_out_length();
        let is_misdirected = parsed.direction() == Direction::In && !sent.is_empty();
        if self.data_in_expected == u64::MAX && !is_misdirected {
            assert_eq!(response.transfer_length, length.max(wanted), "{cdb:x?}");
        }
        response
    }

    fn execute(&mut self, operation: &MediumOperation) -> Result<MediumData, MediumError> {
        if let Some(failure) = self.failure {
            return Err(failure);
        }
        match operation {
            MediumOperation::Read { range, .. } => {
                let middle = range.length as usize / 3;
                let (first, second) = self.slice(*range).split_at(middle);
                Ok(MediumData::Bytes(vec![
                    Bytes::copy_from_slice(first),
                    Bytes::copy_from_slice(second),
                ]))
            }
            MediumOperation::Write { offset, data, .. } => {
                let data = data.concat();
                self.overwrite(*offset, &data, true);
                Ok(MediumData::None)
            }
            MediumOperation::WriteAtomic { offset, data } => {
                let data = data.concat();
                let border = |at: u64| at / limits::ATOMIC_BYTES_MAX;
                assert_eq!(border(*offset), border(offset + data.len() as u64 - 1));
                self.overwrite(*offset, &data, true);
                Ok(MediumData::None)
            }
            MediumOperation::CompareAndWrite {
                offset,
                expected,
                data,
            } => {
                let found = &self.content[*offset as usize..][..expected.len()];
                let mut pairs = found.iter().zip(expected);
                if let Some(place) = pairs.position(|(found, wanted)| found != wanted) {
                    return Err(MediumError::Miscompare {
                        position: place as u64,
                    });
                }
                self.overwrite(*offset, data, true);
                Ok(MediumData::None)
            }
            MediumOperation::Or { offset, data } => {
                let data = data.concat();
                let found = self.content[*offset as usize..][..data.len()].iter();
                let ored: Vec<u8> = found.zip(&data).map(|(a, b)| a | b).collect();
                self.overwrite(*offset, &ored, true);
                Ok(MediumData::None)
            }
            MediumOperation::Verify { range } | MediumOperation::SynchronizeCache { range } => {
                assert!(!self.slice(*range).is_empty());
                Ok(MediumData::None)
            }
            MediumOperation::Clear { ranges } => {
                for range in ranges {
                    let zeros = vec![0; self.slice(*range).len()];
                    self.overwrite(range.offset, &zeros, false);
                }
                Ok(MediumData::None)
            }
            MediumOperation::Fill { range, pattern } => {
                let times = range.length as usize / pattern.len();
                assert!(pattern.iter().any(|byte| *byte != 0));
                self.overwrite(range.offset, &pattern.repeat(times), true);
                Ok(MediumData::None)
            }
            MediumOperation::BlockStatus {
                offset,
                extent_count_max,
            } => Ok(MediumData::Extents(
                self.extents(*offset, *extent_count_max),
            )),
        }
    }

    fn slice(&self, range: ByteRange) -> &[u8] {
        assert!(range.length > 0, "the medium is asked for something");
        &self.content[range.offset as usize..][..range.length as usize]
    }

    fn overwrite(&mut self, offset: u64, data: &[u8], mapped: bool) {
        let offset = offset as usize;
        assert!(!data.is_empty(), "the medium is given something");
        self.content[offset..offset + data.len()].copy_from_slice(data);
        let first = offset / ALLOCATION_BYTES;
        let last = (offset + data.len() - 1) / ALLOCATION_BYTES;
        for index in first..=last {
            let unit = &self.content[index * ALLOCATION_BYTES..][..ALLOCATION_BYTES];
            let empty = unit.iter().all(|byte| *byte == 0);
            self.mapped[index] = mapped || (self.mapped[index] && !empty);
        }
    }

    /// Extents as they are, but the last in two pieces if there is room: the unit has to join them.
    fn extents(&self, offset: u64, count_max: u32) -> Vec<Extent> {
        let first = offset as usize / ALLOCATION_BYTES;
        let mut extents: Vec<Extent> = Vec::new();
        let mut at = offset as usize;
        for (index, mapped) in self.mapped.iter().copied().enumerate().skip(first) {
            let end = (index + 1) * ALLOCATION_BYTES;
            let length = (end - at) as u64;
            at = end;
            let full = extents.len() == count_max as usize;
            match extents.last_mut() {
                Some(last) if last.mapped == mapped => last.length += length,
                _ if full => return extents,
                _ => extents.push(Extent { length, mapped }),
            }
        }
        if let Some(last) = extents.last().copied()
            && last.length > ALLOCATION_BYTES as u64
            && extents.len() < count_max as usize
        {
            let length = ALLOCATION_BYTES as u64;
            extents.pop();
            extents.push(Extent {
                length: last.length - length,
                ..last
            });
            extents.push(Extent { length, ..last });
        }
        extents
    }
}

/// The Data-In of a response that has to be GOOD.
pub(super) fn data(response: &Response) -> Vec<u8> {
    assert_eq!(response.status, Status::Good, "{:?}", response.sense);
    response.data_in.concat()
}

pub(super) fn assert_good(response: &Response) {
    assert_eq!(response.status, Status::Good, "{:?}", response.sense);
}

/// The sense data of a response that has to be CHECK CONDITION.
pub(super) fn sense(response: &Response) -> Sense {
    assert_eq!(response.status, Status::CheckCondition);
    response
        .sense
        .expect("CHECK CONDITION comes with sense data")
}

pub(super) fn assert_illegal(response: &Response, additional: AdditionalSense) {
    let sense = sense(response);
    assert_eq!(sense.key, SenseKey::IllegalRequest);
    assert_eq!(sense.additional, additional);
}

/// A CDB of 10 bytes.
pub(super) fn ten(operation_code: u8, flags: u8, first: u32, count: u16) -> [u8; 10] {
    let [a, b, c, d] = first.to_be_bytes();
    let [e, f] = count.to_be_bytes();
    [operation_code, flags, a, b, c, d, 0, e, f, 0]
}

/// A CDB of 12 bytes.
pub(super) fn twelve(operation_code: u8, flags: u8, first: u32, count: u32) -> [u8; 12] {
    let mut cdb = [0; 12];
    cdb[..2].copy_from_slice(&[operation_code, flags]);
    cdb[2..6].copy_from_slice(&first.to_be_bytes());
    cdb[6..10].copy_from_slice(&count.to_be_bytes());
    cdb
}

/// A CDB of 16 bytes.
pub(super) fn sixteen(operation_code: u8, flags: u8, first: u64, count: u32) -> [u8; 16] {
    let mut cdb = [0; 16];
    cdb[..2].copy_from_slice(&[operation_code, flags]);
    cdb[2..10].copy_from_slice(&first.to_be_bytes());
    cdb[10..14].copy_from_slice(&count.to_be_bytes());
    cdb
}

/// Blocks that all differ.
pub(super) fn pattern(blocks: usize, seed: u8) -> Vec<u8> {
    (0..blocks * 512)
        .map(|index| (index / 512) as u8 ^ (index % 251) as u8 ^ seed)
        .collect()
}
