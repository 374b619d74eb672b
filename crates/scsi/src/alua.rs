//! Asymmetric logical unit access (SPC-4 5.15.2): which ports are the short way to a unit, what
//! hosts are told of that, and what they may want to be otherwise.
//!
//! It refuses to decide who serves what: the states come in with each command, and what a host
//! wants goes out as an [`Outcome`](crate::Outcome).
//!
//! Invariants:
//! - what hosts want is answered once, by whoever took it;
//! - a port is not closed by a host: it shares the unit with others, whose only way it may be.

use alloc::vec::Vec;

use crate::cdb::{Cdb, Command};
use crate::data_in;
use crate::{AdditionalSense, Response, Sense, SenseKey};

/// ASYMMETRIC ACCESS STATE (SPC-4), the best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum AccessState {
    /// The short way.
    ActiveOptimized = 0x0,
    /// A way that costs more.
    ActiveNonOptimized = 0x1,
    /// No way now, but one that knows the unit.
    Standby = 0x2,
    /// No way now.
    Unavailable = 0x3,
    /// No way, and nothing can be asked through it.
    Offline = 0xE,
    /// On its way from one state to another.
    Transitioning = 0xF,
}

/// What brought a group into its state: STATUS CODE (SPC-4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum StatusCode {
    /// Nothing has changed.
    #[default]
    None = 0x0,
    /// SET TARGET PORT GROUPS.
    Explicit = 0x1,
    /// The target itself.
    Implicit = 0x2,
}

/// Ports that are in one state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetPortGroup {
    /// TARGET PORT GROUP.
    pub group: u16,
    /// The state of its ports.
    pub state: AccessState,
    /// PREF: the unit belongs here.
    pub preferred: bool,
    /// What brought it into its state.
    pub status: StatusCode,
    /// RELATIVE TARGET PORT IDENTIFIERs, at most 255.
    pub ports: Vec<u16>,
}

/// A host wants groups in other states (SET TARGET PORT GROUPS).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WantedStates {
    states: Vec<(u16, AccessState)>,
    /// Bytes of Data-Out that the command took.
    length: u64,
}

impl WantedStates {
    /// Groups, and the states that they are to be in, each group once: active/optimized or
    /// active/non-optimized. Of the others nothing is said.
    #[must_use]
    pub fn states(&self) -> &[(u16, AccessState)] {
        &self.states
    }

    /// The answer of who has seen to it, or will.
    #[must_use]
    pub fn granted(self) -> Response {
        Response::good_out(self.length)
    }

    /// The answer of who cannot (SPC-4, SET TARGET PORT GROUPS).
    #[must_use]
    pub fn failed(self) -> Response {
        let sense = Sense::new(
            SenseKey::HardwareError,
            AdditionalSense::SET_TARGET_PORT_GROUPS_COMMAND_FAILED,
        );
        Response::check_condition(sense).moved(self.length)
    }
}

/// T_SUP, O_SUP, U_SUP, S_SUP, AN_SUP, AO_SUP.
const SUPPORTED_STATES: u8 = 0xCF;
const PREFERRED: u8 = 0x80;
/// RETURN DATA FORMAT of the extended header.
const EXTENDED_FORMAT: u8 = 0x10;
/// IMPLICIT TRANSITION TIME, in seconds: for so long hosts have patience with a port in
/// transition. A fail-over takes a few.
const TRANSITION_SECONDS: u8 = 30;
const LIST_HEADER_LENGTH: usize = 4;

/// REPORT TARGET PORT GROUPS (SPC-4).
pub(crate) fn report(
    groups: &[TargetPortGroup],
    extended: bool,
    allocation_length: u32,
) -> Response {
    let mut data = alloc::vec![0; 4];
    if extended {
        data.extend([EXTENDED_FORMAT, TRANSITION_SECONDS, 0, 0]);
    }
    for group in groups {
        let ports = u8::try_from(group.ports.len()).expect("a group has at most 255 ports");
        let preferred = if group.preferred { PREFERRED } else { 0 };
        data.extend([preferred | group.state as u8, SUPPORTED_STATES]);
        data.extend(group.group.to_be_bytes());
        data.extend([0, group.status as u8, 0, ports]);
        for port in &group.ports {
            data.extend([0, 0]);
            data.extend(port.to_be_bytes());
        }
    }
    // RETURN DATA LENGTH counts what follows it.
    let length = (data.len() - 4) as u32;
    data[..4].copy_from_slice(&length.to_be_bytes());
    data_in::respond(&data, allocation_length)
}

/// The parameter list of SET TARGET PORT GROUPS (SPC-4); `None` if it wants nothing.
///
/// # Errors
/// INVALID FIELD IN PARAMETER LIST at a state that no host may ask for, at a group that is not
/// there, and at one that is named twice.
pub(crate) fn wanted(
    groups: &[TargetPortGroup],
    list: &[u8],
) -> Result<Option<WantedStates>, Sense> {
    let mut states: Vec<(u16, AccessState)> = Vec::new();
    let descriptors = list.get(LIST_HEADER_LENGTH..).unwrap_or_default();
    for (index, descriptor) in descriptors.chunks_exact(4).enumerate() {
        let at = (LIST_HEADER_LENGTH + 4 * index) as u16;
        let state = match descriptor[0] & 0x0F {
            0x0 => AccessState::ActiveOptimized,
            0x1 => AccessState::ActiveNonOptimized,
            _ => return Err(Sense::invalid_parameter(at, Some(3))),
        };
        let group = u16::from_be_bytes([descriptor[2], descriptor[3]]);
        let is_known = groups.iter().any(|known| known.group == group);
        let is_new = states.iter().all(|(named, _)| *named != group);
        if !is_known || !is_new {
            return Err(Sense::invalid_parameter(at + 2, None));
        }
        states.push((group, state));
    }
    let length = list.len() as u64;
    Ok((!states.is_empty()).then_some(WantedStates { states, length }))
}

/// The sense data with which a command through a port in that state is refused; `None` if it is
/// done (SPC-4 5.15.2.4).
pub(crate) fn refusal(state: AccessState, cdb: &Cdb) -> Option<Sense> {
    use AdditionalSense as Additional;
    use Command as C;
    let Ok(command) = cdb.command() else {
        return None;
    };
    let finds_out = matches!(
        command,
        C::Inquiry { .. }
            | C::ReportLuns { .. }
            | C::ReportPortGroups { .. }
            | C::RequestSense { .. }
    );
    let sets = matches!(command, C::SetPortGroups { .. });
    let keeps_house = matches!(
        command,
        C::LogSense(_) | C::ModeSense(_) | C::ModeSelect { .. }
    );
    // PERSISTENT RESERVE IN and OUT.
    let reserves = matches!(cdb.operation_code(), 0x5E | 0x5F);
    let (is_done, additional) = match state {
        AccessState::ActiveOptimized | AccessState::ActiveNonOptimized => return None,
        AccessState::Standby => (
            finds_out || sets || keeps_house || reserves,
            Additional::LOGICAL_UNIT_NOT_ACCESSIBLE_TARGET_PORT_IN_STANDBY_STATE,
        ),
        AccessState::Unavailable => (
            finds_out || sets,
            Additional::LOGICAL_UNIT_NOT_ACCESSIBLE_TARGET_PORT_IN_UNAVAILABLE_STATE,
        ),
        AccessState::Offline => (
            finds_out || sets,
            Additional::LOGICAL_UNIT_NOT_READY_OFFLINE,
        ),
        AccessState::Transitioning => (
            finds_out,
            Additional::LOGICAL_UNIT_NOT_ACCESSIBLE_ASYMMETRIC_ACCESS_STATE_TRANSITION,
        ),
    };
    (!is_done).then(|| Sense::new(SenseKey::NotReady, additional))
}
