//! A volume as hosts see it: who it is, how large it is, and what it answers.
//!
//! It dispatches; the answers are made in a file for each family. It does not keep the nexuses: who
//! does calls [`Nexus::raise`] on each that has to be told of something.
//!
//! Invariants:
//! - a pending unit attention is told before a command is begun, save the three that SAM-5 5.14
//!   exempts;
//! - what a reservation forbids ends before the medium is touched;
//! - what the CDB says was checked when it was read; what the Data-Out says is checked here, all of
//!   it before any of it is done.

use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use holdfast_model::record::{AccessNexus, AccessRecord};
use holdfast_model::{ClusterId, VolumeId};
use holdfast_stdx::Bytes;

use crate::cdb::{Cdb, Command, Direction, Verification};
use crate::geometry::BlockSpan;
use crate::limits::COMPARE_AND_WRITE_BYTES_MAX;
use crate::nexus::{Nexus, UnitAttention};
use crate::reservation::{self, AccessRequest, Need};
use crate::sense::{AdditionalSense, Sense, SenseKey};
use crate::steps::{Comparison, Outcome, Steps};
use crate::{
    CopyList, Geometry, Lun, Response, Surroundings, TargetPortGroup, alua, capacity, copy, data,
    data_in, inquiry, log, mode, mode_select, operation_codes, report_luns, report_operation_codes,
    task_functions, unmap,
};

/// Who a unit is, for ever: the same through every port, node, move and upgrade.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    naa: [u8; 16],
}

/// The company identifier in our NAA identifiers: none is registered, so this is one with the bit
/// for local administration set.
const COMPANY: u32 = 0x02_48_46;

impl Identity {
    /// That of a volume: an NAA IEEE Registered Extended designator (SPC-4), its vendor-specific
    /// part drawn from the cluster's id and its extension being the volume's, so that two volumes
    /// differ although they are of different clusters, and a volume's never comes back.
    #[must_use]
    pub const fn of_volume(cluster: ClusterId, volume: VolumeId) -> Self {
        let cluster = cluster.0 & ((1 << 36) - 1);
        let naa = 6 << 124 | (COMPANY as u128) << 100 | cluster << 64 | volume.0 as u128;
        Self {
            naa: naa.to_be_bytes(),
        }
    }

    /// NAA identifier, 16 bytes.
    #[must_use]
    pub const fn naa(&self) -> [u8; 16] {
        self.naa
    }

    /// PRODUCT SERIAL NUMBER: the same in hexadecimal digits.
    #[must_use]
    pub fn serial(&self) -> String {
        alloc::format!("{:032x}", u128::from_be_bytes(self.naa))
    }
}

/// One volume as hosts see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogicalUnit {
    identity: Identity,
    geometry: Geometry,
}

/// A command that has arrived with all its data.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    /// What is asked, as [`Cdb::parse`] understood it.
    pub cdb: Cdb,
    /// The Data-Out, in order.
    pub data_out: Vec<Bytes>,
    /// Bytes of Data-Out that the initiator meant to send (for iSCSI the Expected Data Transfer
    /// Length of a write). `data_out` has as many, or as many as the CDB wants if these are fewer.
    pub data_out_expected: u64,
    /// Bytes of Data-In that the initiator takes (for iSCSI the Expected Data Transfer Length of a
    /// read). No more is read from the medium than holds these.
    pub data_in_expected: u64,
    /// The units of the target that the initiator may see, for REPORT LUNS.
    pub luns: &'a [Lun],
    /// Who may do what with the unit, as this node knows it.
    pub access: &'a AccessRecord,
    /// Which nexus sent the command.
    pub port: &'a AccessNexus,
    /// What else an answer may tell of.
    pub surroundings: Surroundings<'a>,
}

impl LogicalUnit {
    /// A unit.
    #[must_use]
    pub const fn new(identity: Identity, geometry: Geometry) -> Self {
        Self { identity, geometry }
    }

    /// Who it is.
    #[must_use]
    pub const fn identity(&self) -> &Identity {
        &self.identity
    }

    /// How large it is.
    #[must_use]
    pub const fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// Makes it larger, in use: every nexus is to be told of
    /// [`UnitAttention::CapacityChanged`] afterwards.
    ///
    /// Panics if it would become smaller, or otherwise as [`Geometry::new`].
    pub fn grow(&mut self, bytes: u64) {
        assert!(bytes >= self.geometry.bytes(), "a unit never shrinks");
        self.geometry = Geometry::new(bytes, self.geometry.block_length());
    }

    /// Begins a command.
    ///
    /// Panics unless the request has the Data-Out that it has to have.
    #[must_use]
    pub fn begin(&self, nexus: &mut Nexus, request: Request<'_>) -> Outcome {
        let Request {
            cdb,
            mut data_out,
            data_out_expected,
            data_in_expected,
            luns,
            access,
            port,
            surroundings,
        } = request;
        let around = Around { luns, surroundings };
        let steps = Steps {
            geometry: self.geometry,
            data_out_length: cdb.data_out_length(),
        };
        data::truncate(&mut data_out, steps.data_out_length);
        assert_eq!(
            data::length(&data_out),
            steps.data_out_length.min(data_out_expected),
            "all the Data-Out has arrived that the initiator means to send"
        );
        let is_forbidden = !reservation::permits(access, port, Need::of(&cdb));
        if is_forbidden && !nexus.awaits_reset() {
            return steps.conflict();
        }
        if !exempt_from_unit_attention(cdb.operation_code())
            && let Some(attention) = nexus.take()
        {
            return steps.refuse(attention.sense());
        }
        let direction = cdb.direction();
        let data = Data {
            out: data_out,
            out_expected: data_out_expected,
            in_expected: data_in_expected,
            steps,
        };
        let group = surroundings.group_of(nexus.relative_target_port());
        if let Some(sense) = group.and_then(|group| alua::refusal(group.state, &cdb)) {
            return steps.refuse(sense);
        }
        match cdb.command() {
            Err(sense) => steps.refuse(sense),
            // Its data was to be sent, and none will come: what is not done is not GOOD. That R and
            // W contradict the CDB is nothing that RFC 7143 11.3.1 has an answer for; FCP-4 9.4.2
            // gives this sense to what contradicts it otherwise.
            Ok(_) if direction == Direction::Out && data.is_to_be_sent_back() => {
                Outcome::Done(Response::check_condition(DATA_MISFIT))
            }
            // The reverse changes nothing, so that it is done, as the conformance suite of libiscsi
            // wants it (Read10Invalid); that nothing was moved, the residual count tells.
            Ok(command) if direction == Direction::In && data_out_expected > 0 => {
                match self.execute(command, nexus, &around, data) {
                    Outcome::Done(response) => Outcome::Done(response.moved(0)),
                    Outcome::Access(request) => Outcome::Access(request.misdirected()),
                    other => other,
                }
            }
            Ok(command) => self.execute(command, nexus, &around, data),
        }
    }

    fn execute(
        &self,
        command: Command,
        nexus: &mut Nexus,
        around: &Around<'_>,
        data: Data,
    ) -> Outcome {
        let Around { luns, surroundings } = around;
        let response = match command {
            Command::TestUnitReady | Command::StartUnit => Ok(Response::good()),
            Command::RequestSense {
                descriptor_format,
                allocation_length,
            } => Ok(request_sense(nexus, descriptor_format, allocation_length)),
            Command::Inquiry {
                page,
                allocation_length,
            } => inquiry::respond(
                &self.identity,
                self.geometry,
                (nexus, surroundings),
                page,
                allocation_length,
            ),
            Command::ModeSense(mode_sense) => {
                mode::respond(self.geometry, surroundings, mode_sense)
            }
            Command::LogSense(log_sense) => log::respond(surroundings.provisioning, log_sense),
            Command::ReportTaskFunctions {
                extended,
                allocation_length,
            } => Ok(task_functions::respond(extended, allocation_length)),
            Command::ReportPortGroups { .. } | Command::SetPortGroups { .. } => {
                return port_groups(command, surroundings.groups, data);
            }
            Command::ModeSelect {
                ten, page_format, ..
            } => return self.mode_select((ten, page_format), surroundings, data),
            Command::ReportLuns {
                select,
                allocation_length,
            } => {
                nexus.clear(UnitAttention::ReportedLunsChanged);
                report_luns::respond(luns, select, allocation_length)
            }
            Command::ReportOperationCodes {
                subject,
                timeouts,
                allocation_length,
            } => {
                let has_groups = !surroundings.groups.is_empty();
                report_operation_codes::respond(subject, timeouts, has_groups, allocation_length)
            }
            Command::ReadCapacity10 => Ok(capacity::respond_10(self.geometry)),
            Command::ReadCapacity16 { allocation_length } => {
                Ok(capacity::respond_16(self.geometry, allocation_length))
            }
            Command::ExtendedCopy { .. } | Command::ReceiveCopyResults { .. } => {
                return copies(command, nexus, data);
            }
            access @ (Command::PersistentReserveIn { .. }
            | Command::PersistentReserveOut { .. }
            | Command::Reserve
            | Command::Release) => {
                return ask_for_access(access, data);
            }
            medium => return self.execute_on_medium(medium, data),
        };
        Outcome::Done(response.unwrap_or_else(Response::check_condition))
    }

    fn execute_on_medium(&self, command: Command, data: Data) -> Outcome {
        let steps = data.steps;
        let range = |span| self.geometry.byte_range(span);
        match command {
            Command::Read { span, .. } | Command::Verify { span, .. } if span.count == 0 => {
                // Not an error (SBC-3, TRANSFER LENGTH).
                steps.good()
            }
            // SBC-3, PRE-FETCH (10): GOOD tells that there is no room in a cache for them. There is
            // none that hosts could fill.
            Command::Prefetch { .. } => steps.good(),
            Command::CompareAndWrite { span } => self.compare_and_write(span, data),
            Command::WriteAtomic { span } => match data.complete() {
                Ok(parts) if parts.is_empty() => steps.good(),
                Ok(parts) => steps.write_atomic(range(span).offset, parts),
                Err(sense) => steps.refuse(sense),
            },
            Command::OrWrite { span } => match data.whole_blocks() {
                Ok(parts) if parts.is_empty() => steps.good(),
                Ok(parts) => steps.or(range(span).offset, parts),
                Err(sense) => steps.refuse(sense),
            },
            Command::Read {
                span,
                force_unit_access,
            } => steps.read(range(span), data.in_expected, force_unit_access),
            Command::Write {
                span,
                force_unit_access,
                verify,
            } => self.write(span, force_unit_access, verify, data),
            Command::Verify { span, verification } => match verification {
                Verification::Medium => steps.verify(range(span)),
                Verification::Compare | Verification::CompareOne => match data.complete() {
                    Ok(expected) => steps.compare(Comparison {
                        range: range(span),
                        expected,
                        repeats: verification == Verification::CompareOne,
                    }),
                    Err(sense) => steps.refuse(sense),
                },
            },
            Command::SynchronizeCache { span } => steps.synchronize_cache(range(span)),
            Command::Unmap { .. } => match unmap::parse(&data::join(data.out), self.geometry) {
                Ok(ranges) => steps.clear(ranges),
                Err(sense) => steps.refuse(sense),
            },
            Command::WriteSame {
                span,
                with_data,
                unmap,
            } => self.write_same(span, with_data, unmap, data),
            Command::LbaStatus {
                first,
                allocation_length,
            } => {
                let offset = range(BlockSpan { first, count: 1 }).offset;
                steps.lba_status(offset, allocation_length)
            }
            other => panic!("{other:?} does not need the medium"),
        }
    }

    fn compare_and_write(&self, span: BlockSpan, data: Data) -> Outcome {
        let steps = data.steps;
        // No blocks are not an error (SBC-3, COMPARE AND WRITE). But whoever means to send more than any
        // such command takes has asked for more blocks than the one byte of their number holds, and must not
        // take GOOD for their comparison.
        if span.count == 0 {
            return match data.out_expected > 2 * COMPARE_AND_WRITE_BYTES_MAX {
                true => steps.refuse(Sense::invalid_cdb_field(13, None)),
                false => steps.good(),
            };
        }
        let offset = self.geometry.byte_range(span).offset;
        match data.exact() {
            Ok(parts) => steps.compare_and_write(offset, parts),
            Err(sense) => steps.refuse(sense),
        }
    }

    fn mode_select(
        &self,
        (ten, page_format): (bool, bool),
        surroundings: &Surroundings<'_>,
        data: Data,
    ) -> Outcome {
        let steps = data.steps;
        let checked = data.complete().and_then(|list| {
            let list = data::join(list);
            mode_select::check(&list, (ten, page_format), self.geometry, surroundings)
        });
        match checked {
            Ok(()) => steps.good(),
            Err(sense) => steps.refuse(sense),
        }
    }

    fn write(
        &self,
        span: BlockSpan,
        force_unit_access: bool,
        verify: Option<Verification>,
        data: Data,
    ) -> Outcome {
        let steps = data.steps;
        let parts = match data.whole_blocks() {
            Ok(parts) => parts,
            Err(sense) => return steps.refuse(sense),
        };
        if parts.is_empty() {
            return steps.good();
        }
        let offset = self.geometry.byte_range(span).offset;
        match verify {
            None => steps.write(offset, parts, force_unit_access),
            Some(verification) => {
                let compare = verification == Verification::Compare;
                steps.write_and_check(offset, parts, compare)
            }
        }
    }

    fn write_same(&self, span: BlockSpan, with_data: bool, unmap: bool, data: Data) -> Outcome {
        let steps = data.steps;
        let range = self.geometry.byte_range(span);
        if !with_data {
            return steps.clear(vec![range]);
        }
        let block = match data.exact() {
            Ok(parts) => data::join(parts),
            Err(sense) => return steps.refuse(sense),
        };
        // UNMAP wants the blocks deallocated, whatever the Data-Out (SBC-3, WRITE SAME (10), ANCHOR
        // bit, UNMAP bit, and ANC_SUP bit relationships). Zeros take no space without it either.
        match unmap || block.iter().all(|byte| *byte == 0) {
            true => steps.clear(vec![range]),
            false => steps.fill(range, block),
        }
    }
}

/// What is about reservations is for whoever has the record of them.
fn ask_for_access(command: Command, data: Data) -> Outcome {
    let steps = data.steps;
    let request = AccessRequest::read(command, &data::join(data.out));
    request.map_or_else(|sense| steps.refuse(sense), Outcome::Access)
}

/// The commands about copies between units.
fn copies(command: Command, nexus: &mut Nexus, data: Data) -> Outcome {
    match command {
        Command::ReceiveCopyResults {
            wanted,
            identifier,
            allocation_length,
        } => {
            let response = copy::respond(nexus.copies(), wanted, identifier, allocation_length);
            Outcome::Done(response.unwrap_or_else(Response::check_condition))
        }
        _ => extended_copy(nexus, data),
    }
}

/// Takes what a host wants copied; nothing is not an error (SPC-4 6.4).
fn extended_copy(nexus: &mut Nexus, data: Data) -> Outcome {
    let steps = data.steps;
    if steps.data_out_length == 0 {
        return steps.good();
    }
    let list = data
        .complete()
        .and_then(|list| CopyList::parse(&data::join(list)));
    let list = match list {
        Ok(list) => list,
        Err(sense) => return steps.refuse(sense),
    };
    let report = list.report();
    if report
        .identifier
        .is_some_and(|it| nexus.copies().is_under_way(it))
    {
        // SPC-4 6.4, LIST IDENTIFIER.
        return steps.refuse(Sense::illegal_request(
            AdditionalSense::OPERATION_IN_PROGRESS,
        ));
    }
    nexus.note_copy(report);
    Outcome::Copy(list)
}

/// The commands of target port groups. Without groups there are none (SPC-4, TPGS 00b).
fn port_groups(command: Command, groups: &[TargetPortGroup], data: Data) -> Outcome {
    match command {
        _ if groups.is_empty() => data.steps.refuse(operation_codes::UNKNOWN_SERVICE_ACTION),
        Command::ReportPortGroups {
            extended,
            allocation_length,
        } => Outcome::Done(alua::report(groups, extended, allocation_length)),
        _ => set_port_groups(groups, data),
    }
}

/// Takes what a host wants of target port groups; nothing is not an error (SPC-4).
fn set_port_groups(groups: &[TargetPortGroup], data: Data) -> Outcome {
    let steps = data.steps;
    let wanted = data
        .complete()
        .and_then(|list| alua::wanted(groups, &data::join(list)));
    match wanted {
        Ok(Some(wanted)) => Outcome::PortGroups(wanted),
        Ok(None) => steps.good(),
        Err(sense) => steps.refuse(sense),
    }
}

/// What a command's answer may tell of beside the unit.
struct Around<'a> {
    luns: &'a [Lun],
    surroundings: Surroundings<'a>,
}

/// The data of a command: Data-Out, as much as the CDB wants or the initiator meant to send, and
/// how much Data-In it takes.
struct Data {
    out: Vec<Bytes>,
    out_expected: u64,
    in_expected: u64,
    steps: Steps,
}

/// The initiator's and the CDB's idea of the data differ in a way that nothing can be done
/// about.
const DATA_MISFIT: Sense =
    Sense::illegal_request(AdditionalSense::INVALID_FIELD_IN_COMMAND_INFORMATION_UNIT);

impl Data {
    /// The initiator takes data, and sends none.
    const fn is_to_be_sent_back(&self) -> bool {
        self.out_expected == 0 && self.in_expected > 0
    }

    /// What there is, if that is a whole number of blocks: of a write whose initiator meant to
    /// send less than the CDB wants, so much is done as was sent (a residual count tells so).
    fn whole_blocks(self) -> Result<Vec<Bytes>, Sense> {
        let block_bytes = self.steps.geometry.block_length().bytes();
        match data::length(&self.out).is_multiple_of(block_bytes) {
            true => Ok(self.out),
            false => Err(DATA_MISFIT),
        }
    }

    /// All that the CDB wants.
    fn complete(self) -> Result<Vec<Bytes>, Sense> {
        match self.out_expected >= self.steps.data_out_length {
            true => Ok(self.out),
            false => Err(DATA_MISFIT),
        }
    }

    /// All that the CDB wants, if the initiator did not mean to send more either: a WRITE SAME with
    /// several blocks is not what its sender takes it for.
    fn exact(self) -> Result<Vec<Bytes>, Sense> {
        match self.out_expected == self.steps.data_out_length {
            true => Ok(self.out),
            false => Err(DATA_MISFIT),
        }
    }
}

/// INQUIRY, REPORT LUNS and REQUEST SENSE are done although a unit attention waits (SAM-5 5.14).
const fn exempt_from_unit_attention(operation_code: u8) -> bool {
    matches!(operation_code, 0x12 | 0xA0 | 0x03)
}

/// REQUEST SENSE (SPC-4): returns what waits, which is thereby told. All other sense data went
/// with the command that it belongs to.
fn request_sense(nexus: &mut Nexus, descriptor_format: bool, allocation_length: u32) -> Response {
    let sense = match nexus.take() {
        Some(attention) => attention.sense(),
        None => Sense::new(SenseKey::NoSense, AdditionalSense::NONE),
    };
    sense_data(sense, descriptor_format, allocation_length)
}

/// Sense data as parameter data.
pub(crate) fn sense_data(
    sense: Sense,
    descriptor_format: bool,
    allocation_length: u32,
) -> Response {
    let bytes = match descriptor_format {
        true => sense.encode_descriptor(),
        false => Vec::from(sense.encode_fixed()),
    };
    data_in::respond(&bytes, allocation_length)
}
