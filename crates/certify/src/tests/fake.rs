//! A target in memory: one unit with as many ports as there are paths, decided on by the target's own code, and a lie
//! that changes what becomes of commands.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use holdfast_iscsi::IscsiName;
use holdfast_iscsi::pdu::Residual;
use holdfast_lab::session::{ConnectError, SessionError};
use holdfast_lab::{CommandRequest, Completion, EndReason, Isid, Lun};
use holdfast_model::record::{AccessNexus, AccessRecord, Isid as RecordIsid, Registration};
use holdfast_model::{ClusterId, NodeId, VolumeId};
use holdfast_scsi::reservation::{attentions, on_reset};
use holdfast_scsi::{
    AccessState, BlockLength, Cdb, Decision, Direction, Extent, Geometry, Identity, LogicalUnit,
    MediumData, MediumError, MediumOperation, Nexus, Outcome, Provisioning, Request, Response,
    StatusCode, Surroundings, TargetPortGroup, UnitAttention,
};
use holdfast_stdx::Bytes;
use tokio::time::sleep;

use crate::link::{Dialer, InitiatorPort, Link, Waiting};

pub(super) const UNIT_BYTES: u64 = 64 << 20;
/// What the medium allocates by.
const ALLOCATION_BYTES: usize = 4096;
const TARGET: &str = "iqn.2026-11.example:fake";
/// How long a command takes.
const COMMAND_TIME: Duration = Duration::from_millis(1);

/// Changes what became of a command: who sent it by host and path, and what is answered.
pub(super) type Lie =
    Box<dyn FnMut(&mut World, (usize, usize), &CommandRequest, &mut Completion) + Send>;

/// The target. Clones are the same one.
#[derive(Clone)]
pub(super) struct Fake {
    world: Arc<Mutex<World>>,
}

/// What there is of it.
pub(super) struct World {
    unit: LogicalUnit,
    /// Another unit of the target.
    other: LogicalUnit,
    pub(super) content: Vec<u8>,
    mapped: Vec<bool>,
    pub(super) access: AccessRecord,
    /// The record as it was before the command under way.
    pub(super) access_before: AccessRecord,
    /// What the last write has overwritten, and where.
    overwritten: (usize, Vec<u8>),
    nexuses: BTreeMap<AccessNexus, Nexus>,
    groups: Vec<TargetPortGroup>,
    /// A logical unit reset ends persistent reservations.
    pub(super) reset_clears: bool,
    /// Response to ABORT TASK.
    pub(super) abort_response: Option<u8>,
    lie: Option<Lie>,
}

struct FakeLink {
    fake: Fake,
    way: (usize, usize),
    is_over: AtomicBool,
}

fn isid(run: u8, path: usize) -> Isid {
    Isid([0x80, 0, 0, run, 0, path as u8 / 100])
}

fn nexus_of((host, path): (usize, usize)) -> AccessNexus {
    AccessNexus {
        initiator: initiator(host).as_str().to_owned(),
        isid: RecordIsid(isid(1, path).0),
        port: NodeId(path as u16 + 1),
    }
}

fn initiator(host: usize) -> IscsiName {
    IscsiName::parse(&format!("iqn.2026-11.example:host-{host}")).unwrap()
}

impl Fake {
    pub(super) fn new(paths: usize) -> Self {
        Self::lying(paths, None)
    }

    pub(super) fn lying(paths: usize, lie: Option<Lie>) -> Self {
        let geometry = Geometry::new(UNIT_BYTES, BlockLength::Emulated512);
        let unit = |volume| {
            let identity = Identity::of_volume(ClusterId(0xABC), VolumeId(volume));
            LogicalUnit::new(identity, geometry)
        };
        let groups = (1..=paths as u16).map(|group| TargetPortGroup {
            group,
            state: match group {
                1 => AccessState::ActiveOptimized,
                _ => AccessState::ActiveNonOptimized,
            },
            preferred: group == 1,
            status: StatusCode::Implicit,
            ports: vec![group],
        });
        let world = World {
            unit: unit(7),
            other: unit(8),
            content: vec![0; UNIT_BYTES as usize],
            mapped: vec![false; UNIT_BYTES as usize / ALLOCATION_BYTES],
            access: AccessRecord::open(VolumeId(7)),
            access_before: AccessRecord::open(VolumeId(7)),
            overwritten: (0, Vec::new()),
            nexuses: BTreeMap::new(),
            groups: groups.collect(),
            reset_clears: false,
            abort_response: None,
            lie,
        };
        Self {
            world: Arc::new(Mutex::new(world)),
        }
    }

    pub(super) fn paths(&self) -> usize {
        self.world().groups.len()
    }

    pub(super) fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap()
    }

    pub(super) fn put(&self, place: u64, bytes: &[u8]) {
        let place = place as usize;
        self.world().content[place..place + bytes.len()].copy_from_slice(bytes);
    }

    /// Nobody is registered, and every byte is zero.
    pub(super) fn is_clean(&self) -> bool {
        let world = self.world();
        world.access.registrations.is_empty() && world.content.iter().all(|byte| *byte == 0)
    }

    pub(super) fn register_stranger(&self) {
        let registration = Registration {
            nexus: nexus_of((9, 0)),
            key: 0x5757,
            all_target_ports: false,
        };
        self.world().access.registrations.push(registration);
    }
}

impl Dialer for Fake {
    fn connect(
        &self,
        host: usize,
        path: usize,
    ) -> Waiting<'_, Result<Arc<dyn Link>, ConnectError>> {
        let link = FakeLink {
            fake: self.clone(),
            way: (host, path),
            is_over: AtomicBool::new(false),
        };
        Box::pin(async move {
            sleep(COMMAND_TIME).await;
            let port = path as u16 + 1;
            let mut world = self.world();
            let nexuses = &mut world.nexuses;
            let nexus = nexuses
                .entry(nexus_of((host, path)))
                .or_insert_with(|| Nexus::new(port));
            nexus.raise(UnitAttention::NexusLoss);
            Ok(Arc::new(link) as Arc<dyn Link>)
        })
    }

    fn port(&self, host: usize, path: usize) -> InitiatorPort {
        InitiatorPort {
            name: initiator(host),
            isid: isid(1, path),
        }
    }
}

impl Link for FakeLink {
    fn execute(&self, command: CommandRequest) -> Waiting<'_, Result<Completion, SessionError>> {
        Box::pin(async move {
            sleep(COMMAND_TIME).await;
            if self.is_over() {
                return Err(SessionError::Ended(EndReason::Closed));
            }
            Ok(self.fake.world().execute(self.way, &command))
        })
    }

    fn abort_midway(
        &self,
        command: CommandRequest,
        _after: Duration,
    ) -> Waiting<'_, Result<Option<u8>, SessionError>> {
        Box::pin(async move {
            self.execute(command).await?;
            Ok(self.fake.world().abort_response)
        })
    }

    fn reset(&self, _lun: Lun) -> Waiting<'_, Result<u8, SessionError>> {
        Box::pin(async move {
            sleep(COMMAND_TIME).await;
            let mut world = self.fake.world();
            if let Some(record) = on_reset(&world.access) {
                world.access = record;
            }
            if world.reset_clears {
                world.access = AccessRecord::open(VolumeId(7));
            }
            for nexus in world.nexuses.values_mut() {
                nexus.raise(UnitAttention::Reset);
            }
            Ok(0)
        })
    }

    fn cut(&self) -> Waiting<'_, ()> {
        self.is_over.store(true, Ordering::Relaxed);
        Box::pin(std::future::ready(()))
    }

    fn log_out(&self) -> Waiting<'_, ()> {
        self.cut()
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }
}

impl World {
    fn execute(&mut self, way: (usize, usize), request: &CommandRequest) -> Completion {
        self.access_before = self.access.clone();
        let response = self.respond(way, request);
        let sense = response.sense.map(|sense| sense.encode_fixed().to_vec());
        let mut completion = Completion {
            status: response.status.code(),
            sense: sense.unwrap_or_default().into(),
            data_in: response.data_in,
            residual: Residual::None,
        };
        if let Some(mut lie) = self.lie.take() {
            lie(self, way, request, &mut completion);
            self.lie = Some(lie);
        }
        completion
    }

    fn respond(&mut self, way: (usize, usize), request: &CommandRequest) -> Response {
        let port = nexus_of(way);
        let is_other = request.lun.number() != Some(0);
        let unit = if is_other { &self.other } else { &self.unit };
        let cdb = Cdb::parse(&request.cdb, unit.geometry());
        let data = request.data_out.concat();
        let sent = data.len().min(cdb.data_out_length() as usize);
        let data_in_expected = match cdb.direction() {
            Direction::Out => 0,
            Direction::In | Direction::None => u64::from(request.expected_in),
        };
        let provisioning = Provisioning {
            used_bytes: 1 << 20,
            available_bytes: 1 << 30,
            thresholds_bytes: None,
        };
        let begun = Request {
            cdb,
            data_out: vec![Bytes::copy_from_slice(&data[..sent])],
            data_out_expected: data.len() as u64,
            data_in_expected,
            luns: &[Lun::from_number(0), Lun::from_number(1)],
            access: &self.access,
            port: &port,
            surroundings: Surroundings {
                target: TARGET,
                groups: &self.groups,
                provisioning: Some(provisioning),
            },
        };
        let nexus = self.nexuses.get_mut(&port).expect("who asks has logged in");
        let mut outcome = unit.begin(nexus, begun);
        loop {
            match outcome {
                Outcome::Done(response) => return response,
                Outcome::Medium(operation, continuation) => {
                    let result = self.carry_out(&operation);
                    outcome = continuation.complete(result);
                }
                Outcome::Access(request) => {
                    let ports: Vec<NodeId> =
                        self.groups.iter().map(|it| NodeId(it.group)).collect();
                    return match request.decide(&self.access, &port, &ports) {
                        Decision::Answer(response) => response,
                        Decision::Change {
                            record, response, ..
                        } => {
                            self.change_access(record);
                            response
                        }
                    };
                }
                Outcome::PortGroups(wanted) => return wanted.granted(),
                Outcome::Copy(_) => panic!("no check copies by the target"),
            }
        }
    }

    fn change_access(&mut self, record: AccessRecord) {
        let old = std::mem::replace(&mut self.access, record);
        for (port, nexus) in &mut self.nexuses {
            if let Some(attention) = attentions(&old, &self.access, port) {
                nexus.raise(attention);
            }
        }
    }

    fn carry_out(&mut self, operation: &MediumOperation) -> Result<MediumData, MediumError> {
        match operation {
            MediumOperation::Read { range, .. } => {
                let data = &self.content[range.offset as usize..][..range.length as usize];
                return Ok(MediumData::Bytes(vec![Bytes::copy_from_slice(data)]));
            }
            MediumOperation::Write { offset, data, .. }
            | MediumOperation::WriteAtomic { offset, data }
            | MediumOperation::Or { offset, data } => {
                self.overwrite(*offset, &data.concat(), true);
            }
            MediumOperation::CompareAndWrite {
                offset,
                expected,
                data,
            } => {
                let found = &self.content[*offset as usize..][..expected.len()];
                let mut pairs = found.iter().zip(expected);
                if let Some(place) = pairs.position(|(found, wanted)| found != wanted) {
                    let position = place as u64;
                    return Err(MediumError::Miscompare { position });
                }
                self.overwrite(*offset, data, true);
            }
            MediumOperation::Verify { .. } | MediumOperation::SynchronizeCache { .. } => {}
            MediumOperation::Clear { ranges } => {
                for range in ranges {
                    self.overwrite(range.offset, &vec![0; range.length as usize], false);
                }
            }
            MediumOperation::Fill { range, pattern } => {
                let times = range.length as usize / pattern.len();
                self.overwrite(range.offset, &pattern.repeat(times), true);
            }
            MediumOperation::BlockStatus { offset, .. } => {
                return Ok(MediumData::Extents(self.extents(*offset)));
            }
        }
        Ok(MediumData::None)
    }

    pub(super) fn overwrite(&mut self, offset: u64, data: &[u8], mapped: bool) {
        let offset = offset as usize;
        let place = &mut self.content[offset..offset + data.len()];
        self.overwritten = (offset, place.to_vec());
        place.copy_from_slice(data);
        let units = offset / ALLOCATION_BYTES..(offset + data.len()).div_ceil(ALLOCATION_BYTES);
        self.mapped[units].fill(mapped);
    }

    /// Takes the last write back.
    pub(super) fn undo_write(&mut self) {
        let (offset, data) = std::mem::take(&mut self.overwritten);
        self.content[offset..offset + data.len()].copy_from_slice(&data);
    }

    fn extents(&self, offset: u64) -> Vec<Extent> {
        let first = offset as usize / ALLOCATION_BYTES;
        let mut extents: Vec<Extent> = Vec::new();
        let mut at = offset as usize;
        for (index, mapped) in self.mapped.iter().copied().enumerate().skip(first) {
            let end = (index + 1) * ALLOCATION_BYTES;
            let length = (end - at) as u64;
            at = end;
            let is_full = extents.len() == 8;
            match extents.last_mut() {
                Some(last) if last.mapped == mapped => last.length += length,
                _ if is_full => break,
                _ => extents.push(Extent { length, mapped }),
            }
        }
        extents
    }
}
