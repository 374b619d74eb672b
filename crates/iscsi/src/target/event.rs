//! What goes in and out of the target's machine, besides bytes.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use holdfast_scsi::{Lun, TaskAttribute};
use holdfast_stdx::{Bytes, Instant};

use crate::Nexus;

/// A TCP connection, numbered by the driver; numbers are never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub u64);

/// A session, numbered by the machine from 1; numbers are never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub u64);

/// A command, numbered by the machine from 1; numbers are never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId(pub u64);

/// A task management request, numbered by the machine from 1; numbers are never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskManagementId(pub u64);

/// What the machine wants: bytes and closings for the driver, events for the layer above. Each
/// list is in order and taken empty by its reader after every call.
#[derive(Debug, Default)]
pub struct TargetOutput {
    /// For the driver.
    pub commands: VecDeque<TargetCommand>,
    /// For the layer above.
    pub events: VecDeque<TargetEvent>,
    /// Connections whose input was looked at, so that more of it may be wanted, or none any more.
    pub served: Vec<ConnectionId>,
    /// Bytes that were given to sockets and that the machine has not noted yet.
    pub(super) sent_bytes: usize,
}

/// What the driver is to do with a connection.
#[derive(Clone, Debug)]
pub enum TargetCommand {
    /// Send these bytes, in order, and tell [`handle_sent`](crate::target::Target::handle_sent) how
    /// many the socket has taken.
    Send {
        /// Where.
        connection: ConnectionId,
        /// What; no part is empty.
        parts: Vec<Bytes>,
    },
    /// Close, after having sent what was given before if that takes no longer than a second. The
    /// machine has forgotten the connection already.
    Close {
        /// Which.
        connection: ConnectionId,
        /// Why.
        reason: CloseReason,
    },
}

/// Why a connection, and with it its session, ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseReason {
    /// More connections, or more unfinished logins, than the limits permit.
    TooManyConnections,
    /// The login took too long.
    LoginTimeout,
    /// The login was refused; the initiator was told why.
    LoginRefused,
    /// The initiator logged out.
    Logout,
    /// The initiator logged in again on the same nexus (RFC 7143 6.3.5).
    Reinstated,
    /// The initiator did not answer.
    PingTimeout,
    /// The initiator was asked to log out, and did not in time.
    LogoutTimeout,
    /// The initiator broke the protocol beyond what a Reject mends.
    ProtocolError,
    /// A digest was wrong; ErrorRecoveryLevel 0 knows no other way (RFC 7143 7.8).
    DigestError,
    /// More was fed than the machine wanted.
    InputOverflow,
    /// The peer closed, or the connection broke.
    PeerClosed,
    /// A TARGET COLD RESET (RFC 7143 11.5.1).
    ColdReset,
    /// The target is not offered any more.
    TargetRemoved,
    /// The initiator may not use the target any more.
    AccessWithdrawn,
    /// The owner ordered it: see [`Target::drop_all_sessions`](crate::target::Target::drop_all_sessions).
    Dropped,
}

impl CloseReason {
    /// Whether the initiator is told that its session ends, before it does: where that is our wish,
    /// and there is somebody to hear of it.
    pub(super) const fn is_told(self) -> bool {
        matches!(
            self,
            Self::LogoutTimeout | Self::TargetRemoved | Self::AccessWithdrawn
        )
    }
}

/// What the layer above must know.
#[derive(Clone, Debug)]
pub enum TargetEvent {
    /// A session on this I_T nexus began.
    SessionOpened {
        /// Which.
        session: SessionId,
        /// Whose.
        nexus: Nexus,
    },
    /// A session ended: none of its tasks is answered any more. To be confirmed with
    /// [`finish_session`](crate::target::Target::finish_session) when every command of it is done or
    /// refused for good, on every node; until then its logout is not answered, and no new session
    /// on the same nexus opens.
    SessionClosed {
        /// Which.
        session: SessionId,
        /// Why.
        reason: CloseReason,
    },
    /// A command, complete with its Data-Out. To be answered with
    /// [`respond`](crate::target::Target::respond).
    Command(Command),
    /// A task management function. To be answered with
    /// [`finish_task_management`](crate::target::Target::finish_task_management).
    TaskManagement(TaskManagement),
}

/// A command for the layer above.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// What it is answered by.
    pub task: TaskId,
    /// Whose.
    pub session: SessionId,
    /// Which unit.
    pub lun: Lun,
    /// How it stands to others. The machine gives commands up in the order that the attributes ask
    /// for; that they are carried out in it is the layer above's.
    pub attribute: TaskAttribute,
    /// The CDB, filled up with zeros.
    pub cdb: [u8; 16],
    /// All Data-Out that the initiator had for it, in order.
    pub data_out: Vec<Bytes>,
    /// Bytes of Data-Out that the initiator expected to send; `data_out` has as many.
    pub expected_out: u32,
    /// Bytes of Data-In that the initiator takes; more of a response is cut off.
    pub expected_in: u32,
    /// Since when this side has it in hand: how long it takes is counted from there, though it may wait for its connection's turn, for
    /// room, or for those before it. When the last byte of it, or of its data, was received; but if it had to wait for its
    /// initiator then, to take what it was sent or to say that it is there, when that was over.
    pub received: Instant,
    /// Since when it lives: its initiator is known to have been there then, and waits for it. That is not later than its first
    /// PDU's arrival, and earlier by at most [`KNOWN_FOR`](crate::target::KNOWN_FOR). What leaves nothing behind lives from its
    /// arrival, whoever waits.
    pub since: Instant,
}

/// A task management function for the layer above.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskManagement {
    /// What it is answered by.
    pub request: TaskManagementId,
    /// Whose.
    pub session: SessionId,
    /// What to do.
    pub function: TaskManagementFunction,
    /// Commands that were given to the layer above and that the function ends. They are never
    /// answered; what has not been begun should not be, what has been must be over before the
    /// function is.
    pub tasks: Vec<TaskId>,
    /// Sessions that lost commands by it, whether or not those were given to the layer above.
    pub sessions: Vec<SessionId>,
}

/// Commands that were ended for another node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EndedTasks {
    /// Those that were given to the layer above. They are never answered.
    pub tasks: Vec<TaskId>,
    /// Sessions that lost commands, whether or not those were given to the layer above.
    pub sessions: Vec<SessionId>,
}

/// What task management asks for (RFC 7143 11.5.1), where the machine cannot do it alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskManagementFunction {
    /// End one command.
    AbortTask(TaskId),
    /// End a command that there is not: it has been answered, or was ended before, perhaps for another
    /// session. It may not be over yet: done when all commands of this session that were ended are.
    AbortUnknownTask,
    /// End all commands of this session on the unit.
    AbortTaskSet(Lun),
    /// End all commands on the unit.
    ClearTaskSet(Lun),
    /// End all commands on the unit and reset it.
    LogicalUnitReset(Lun),
    /// The same for all units of the target.
    TargetWarmReset,
    /// The same, and then all sessions of the target are closed.
    TargetColdReset,
}

/// How task management went, from the layer above.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskManagementOutcome {
    /// Done.
    Complete,
    /// The unit does not exist.
    LunDoesNotExist,
    /// Not possible.
    Rejected,
}
