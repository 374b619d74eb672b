//! What goes in and out of the initiator's machine, besides bytes.

use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use holdfast_scsi::{Lun, TaskAttribute};
use holdfast_stdx::{Bytes, Duration};
use thiserror::Error;

use crate::chap::{ChapAccount, ChapAlgorithm};
use crate::negotiation::Preferences;
use crate::pdu::{LoginStatus, Residual};
use crate::serial::SerialNumber;
use crate::{IscsiName, Isid, PortalGroupTag, Tsih};

/// What an initiator is told once.
#[derive(Clone, Debug)]
pub struct InitiatorConfig {
    /// Its name.
    pub name: IscsiName,
    /// Which of its ports.
    pub isid: Isid,
    /// What the session is for.
    pub kind: SessionKind,
    /// What it would like to agree on.
    pub preferences: Preferences,
    /// CmdSN of its first command.
    pub first_command: SerialNumber,
    /// Commands that it takes before they have completed.
    pub commands_max: usize,
    /// How long the login, or the logout, may take.
    pub login_timeout: Duration,
    /// Silence after which the target is asked whether it is there.
    pub ping_after: Duration,
    /// How long it may take to answer.
    pub ping_timeout: Duration,
    /// Whether ExpDataSN of a response is held against the PDUs that arrived (RFC 7143 11.4.8).
    /// There are targets that leave it zero.
    pub counts_data: bool,
    /// How it proves who it is; it offers to do without as well. Without, it only does that.
    pub chap: Option<InitiatorChap>,
}

/// What an initiator proves who it is with, and has the target prove.
#[derive(Clone, Debug)]
pub struct InitiatorChap {
    /// Its own account.
    pub account: ChapAccount,
    /// The algorithms that it offers, the preferred one first.
    pub algorithms: &'static [ChapAlgorithm],
    /// What the target has to prove, if it has to.
    pub mutual: Option<MutualChap>,
}

/// What a target has to prove.
#[derive(Clone)]
pub struct MutualChap {
    /// By which account. The name is looked at too.
    pub account: ChapAccount,
    /// What it is challenged with: bytes that nobody can guess, new ones for each session.
    pub challenge: [u8; 32],
}

impl fmt::Debug for MutualChap {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut mutual = formatter.debug_struct("MutualChap");
        mutual
            .field("account", &self.account)
            .finish_non_exhaustive()
    }
}

/// What a session is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionKind {
    /// Asking for targets.
    Discovery,
    /// Commands for this target.
    Normal(IscsiName),
}

impl InitiatorConfig {
    /// A session as most hosts make it.
    #[must_use]
    pub const fn new(name: IscsiName, isid: Isid, kind: SessionKind) -> Self {
        Self {
            name,
            isid,
            kind,
            preferences: Preferences {
                header_digests: Preferences::DIGESTS,
                data_digests: Preferences::DIGESTS,
                initial_r2t: false,
                immediate_data: true,
                receive_segment_max: 256 << 10,
                burst_max: 1 << 20,
                first_burst_max: 64 << 10,
                ready_to_transfer_max: 1,
            },
            first_command: SerialNumber(1),
            commands_max: 1024,
            login_timeout: Duration::from_secs(15),
            ping_after: Duration::from_secs(5),
            ping_timeout: Duration::from_secs(5),
            counts_data: true,
            chap: None,
        }
    }
}

/// The owner's name for a command, or for a task management request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CommandTag(pub u64);

/// A command to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandRequest {
    /// Which unit.
    pub lun: Lun,
    /// How it stands to others.
    pub attribute: TaskAttribute,
    /// The CDB, filled up with zeros.
    pub cdb: [u8; 16],
    /// Data to write; empty for a command that writes none.
    pub data_out: Vec<Bytes>,
    /// Bytes that it may return; zero for a command that reads none.
    pub expected_in: u32,
}

/// Why a request was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum SubmitError {
    /// The session is not in its full feature phase.
    #[error("the session is not logged in")]
    NotLoggedIn,
    /// As many commands as the configuration permits are under way.
    #[error("too many commands are under way")]
    Full,
    /// A command of this tag is under way.
    #[error("the tag names a command that is under way")]
    TagInUse,
    /// No command of this tag is under way.
    #[error("no command of this tag is under way")]
    NoSuchCommand,
}

/// What the machine wants. Each list is in order and taken empty by its reader after every call.
#[derive(Debug, Default)]
pub struct InitiatorOutput {
    /// For the driver.
    pub commands: VecDeque<InitiatorCommand>,
    /// For the owner.
    pub events: VecDeque<InitiatorEvent>,
}

/// What the driver is to do with the connection.
#[derive(Clone, Debug)]
pub enum InitiatorCommand {
    /// Send these bytes, in order; no part is empty.
    Send(Vec<Bytes>),
    /// Close.
    Close,
}

/// How a command ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completion {
    /// SCSI status code.
    pub status: u8,
    /// Sense data; empty unless the status is CHECK CONDITION.
    pub sense: Bytes,
    /// What it returned, in order.
    pub data_in: Vec<Bytes>,
    /// What was not moved, or would have been moved beyond what was expected.
    pub residual: Residual,
}

/// A target that SendTargets told of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiscoveredTarget {
    /// Its name.
    pub name: String,
    /// Where it is, and the portal groups of these places.
    pub addresses: Vec<(String, PortalGroupTag)>,
}

/// What the owner must know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InitiatorEvent {
    /// Commands may be submitted.
    LoggedIn {
        /// The target's number for the session.
        tsih: Tsih,
        /// The portal group, which a normal session is told.
        group: Option<PortalGroupTag>,
    },
    /// A command ended.
    Completed {
        /// Which.
        tag: CommandTag,
        /// How.
        completion: Completion,
    },
    /// A task management function ended.
    TaskManagementDone {
        /// The tag that it was asked for with.
        tag: CommandTag,
        /// RFC 7143 11.6.1; zero is "done".
        response: u8,
    },
    /// The answer to SendTargets.
    Targets(Vec<DiscoveredTarget>),
    /// The answer to a ping.
    Pong,
    /// A message that nobody asked for; event 1 asks to log out within `seconds`.
    Async {
        /// RFC 7143 11.9.1.
        event: u8,
        /// Parameter 3.
        seconds: u16,
    },
    /// The target is elsewhere for the time being; that the login was refused follows.
    Redirected {
        /// Where, as the target spells it (RFC 7143 13.8).
        address: String,
    },
    /// The target refused a PDU.
    Rejected {
        /// RFC 7143 11.17.1.
        reason: u8,
    },
    /// The session is over; commands that have not completed never will.
    Ended {
        /// Why.
        reason: EndReason,
    },
}

/// Why a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum EndReason {
    /// The target refused the login.
    #[error("the login was refused: {0:?}")]
    LoginRefused(LoginStatus),
    /// The target wanted a proof that this side does not have, or did not give one that was wanted,
    /// or gave a wrong one.
    #[error("the target did not prove who it is, or wants what this side cannot prove")]
    NotAuthenticated,
    /// The target took too long.
    #[error("the target did not answer in time")]
    Timeout,
    /// The connection was closed, or broke.
    #[error("the connection was closed")]
    Closed,
    /// The owner logged out.
    #[error("logged out")]
    LoggedOut,
    /// The target broke the protocol.
    #[error("the target broke the protocol: {0}")]
    ProtocolError(&'static str),
}
