//! A command about reservations, on its way from the CDB to where it is decided.
//!
//! Invariants:
//! - its parameter list was read, and found well formed;
//! - its digest is that of what it asks for, the same on every node and in every version.

use alloc::string::String;
use alloc::vec::Vec;

use holdfast_model::NodeId;
use holdfast_model::record::{Isid, ReservationKind};

use super::transport_id::TransportId;
use super::{kind, parameters, repeat};
use crate::cdb::Command;
use crate::{AdditionalSense, Response, Sense};

/// SERVICE ACTION of PERSISTENT RESERVE IN (SPC-4 6.15.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InAction {
    /// READ KEYS.
    ReadKeys,
    /// READ RESERVATION.
    ReadReservation,
    /// REPORT CAPABILITIES.
    ReportCapabilities,
    /// READ FULL STATUS.
    ReadFullStatus,
}

/// SERVICE ACTION of PERSISTENT RESERVE OUT, with the TYPE where that means anything (SPC-4
/// 6.16.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutAction {
    /// REGISTER.
    Register,
    /// RESERVE.
    Reserve(ReservationKind),
    /// RELEASE.
    Release(ReservationKind),
    /// CLEAR.
    Clear,
    /// PREEMPT.
    Preempt(Option<ReservationKind>),
    /// PREEMPT AND ABORT. Here and in PREEMPT the type is ignored if no reservation comes of it, so
    /// that there need not be a valid one.
    PreemptAndAbort(Option<ReservationKind>),
    /// REGISTER AND IGNORE EXISTING KEY.
    RegisterAndIgnore,
    /// REGISTER AND MOVE.
    RegisterAndMove,
}

impl OutAction {
    /// SERVICE ACTION.
    #[must_use]
    pub const fn code(self) -> u8 {
        match self {
            Self::Register => 0x00,
            Self::Reserve(_) => 0x01,
            Self::Release(_) => 0x02,
            Self::Clear => 0x03,
            Self::Preempt(_) => 0x04,
            Self::PreemptAndAbort(_) => 0x05,
            Self::RegisterAndIgnore => 0x06,
            Self::RegisterAndMove => 0x07,
        }
    }

    /// What it asks for counts in PRGENERATION (SPC-4 6.15.2).
    pub(super) const fn is_counted(self) -> bool {
        !matches!(self, Self::Reserve(_) | Self::Release(_))
    }

    /// Its parameter list may be longer than 24 bytes (SPC-4 6.16.2).
    pub(crate) const fn has_transport_ids(self) -> bool {
        matches!(self, Self::Register | Self::RegisterAndMove)
    }

    fn kind(self) -> Option<ReservationKind> {
        match self {
            Self::Reserve(kind) | Self::Release(kind) => Some(kind),
            Self::Preempt(kind) | Self::PreemptAndAbort(kind) => kind,
            _ => None,
        }
    }
}

/// A PERSISTENT RESERVE IN, PERSISTENT RESERVE OUT, RESERVE or RELEASE that has arrived, and was
/// found well formed: what it does is up to the newest record, see
/// [`decide`](Self::decide).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessRequest {
    pub(super) action: Action,
    pub(super) digest: u64,
    /// Bytes of Data-Out that the command wants, for its answer.
    pub(super) data_out_length: u64,
    /// The initiator sends data to a command that wants to send some.
    pub(super) is_misdirected: bool,
}

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Action {
    In {
        action: InAction,
        allocation_length: u32,
    },
    Out(Out),
    Reserve,
    Release,
}

/// A PERSISTENT RESERVE OUT.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Out {
    pub(super) action: OutAction,
    /// RESERVATION KEY.
    pub(super) key: u64,
    /// SERVICE ACTION RESERVATION KEY.
    pub(super) action_key: u64,
    /// APTPL.
    pub(super) persists: bool,
    /// ALL_TG_PT.
    pub(super) all_target_ports: bool,
    pub(super) others: Others,
}

/// Whom a PERSISTENT RESERVE OUT is about beside its sender.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Others {
    Nobody,
    /// SPEC_I_PT: they are registered too.
    Register(Vec<TransportId>),
    /// The reservation moves there.
    Move {
        initiator: String,
        isid: Isid,
        /// RELATIVE TARGET PORT IDENTIFIER.
        port: NodeId,
        /// UNREG: the sender's registration ends.
        unregisters: bool,
    },
}

impl AccessRequest {
    /// Reads the parameter list of a command about reservations, which is all the Data-Out that
    /// there is.
    ///
    /// Panics if the command is about something else.
    ///
    /// # Errors
    /// PARAMETER LIST LENGTH ERROR if the list ends before it should, or after; INVALID FIELD IN
    /// PARAMETER LIST.
    pub(crate) fn read(command: Command, list: &[u8]) -> Result<Self, Sense> {
        let mut digest = repeat::Digest::new();
        let (action, data_out_length) = match command {
            Command::PersistentReserveIn {
                action,
                allocation_length,
            } => {
                let action = Action::In {
                    action,
                    allocation_length,
                };
                (action, 0)
            }
            Command::PersistentReserveOut {
                action,
                parameter_list_length,
            } => {
                if list.len() != parameter_list_length as usize {
                    return Err(LENGTH_ERROR);
                }
                digest.add(&[0x5F, action.code(), action.kind().map_or(0, kind::code)]);
                digest.add(list);
                let length = u64::from(parameter_list_length);
                (Action::Out(parameters::parse(action, list)?), length)
            }
            Command::Reserve => (Action::Reserve, 0),
            Command::Release => (Action::Release, 0),
            other => panic!("{other:?} is not about reservations"),
        };
        Ok(Self {
            action,
            digest: digest.value(),
            data_out_length,
            is_misdirected: false,
        })
    }

    /// The same, of an initiator that sends data to it instead of taking some: nothing moves.
    pub(crate) fn misdirected(mut self) -> Self {
        self.is_misdirected = true;
        self
    }

    /// The answer to one that was done before.
    #[must_use]
    pub fn done(&self) -> Response {
        Response::good_out(self.data_out_length)
    }

    /// It only reads: deciding it changes nothing.
    #[must_use]
    pub const fn is_read(&self) -> bool {
        matches!(self.action, Action::In { .. })
    }

    /// Tells what is asked for apart from other things, across nodes and versions.
    #[must_use]
    pub const fn digest(&self) -> u64 {
        self.digest
    }
}

/// The parameter list has not the length that it has to have.
pub(super) const LENGTH_ERROR: Sense =
    Sense::illegal_request(AdditionalSense::PARAMETER_LIST_LENGTH_ERROR);
