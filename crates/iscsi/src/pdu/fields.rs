//! Values of header fields that have names of their own.

use crate::pdu::HeaderError;

/// The initiator's name for a task (RFC 7143 11.2.1.8).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InitiatorTaskTag(pub u32);

impl InitiatorTaskTag {
    /// No task.
    pub const RESERVED: Self = Self(0xFFFF_FFFF);

    /// Whether this names a task at all.
    #[must_use]
    pub fn is_reserved(self) -> bool {
        self == Self::RESERVED
    }
}

/// The target's name for what it asked of the initiator (RFC 7143 11.7.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TargetTransferTag(pub u32);

impl TargetTransferTag {
    /// Nothing was asked.
    pub const RESERVED: Self = Self(0xFFFF_FFFF);

    /// Whether this is an answer to nothing.
    #[must_use]
    pub fn is_reserved(self) -> bool {
        self == Self::RESERVED
    }
}

macro_rules! codes {
    ($(#[$meta:meta])* $name:ident, $width:ty { $($(#[$variant_meta:meta])* $variant:ident = $code:literal,)+ }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name {
            $($(#[$variant_meta])* $variant,)+
        }

        impl $name {
            /// The code in the PDU.
            #[must_use]
            pub const fn code(self) -> $width {
                match self {
                    $(Self::$variant => $code,)+
                }
            }

            /// What `code` stands for, if anything.
            #[must_use]
            pub const fn from_code(code: $width) -> Option<Self> {
                match code {
                    $($code => Some(Self::$variant),)+
                    _ => None,
                }
            }
        }
    };
}

codes!(
    /// Stages of a login (RFC 7143 11.12.3).
    LoginStage, u8 {
        /// Who are you?
        SecurityNegotiation = 0,
        /// How shall we talk?
        OperationalNegotiation = 1,
        /// Commands.
        FullFeature = 3,
    }
);

codes!(
    /// How a login went: class in the high byte, detail in the low one (RFC 7143 11.13.5).
    LoginStatus, u16 {
        /// Proceed.
        Success = 0x0000,
        /// The target is elsewhere for the time being.
        TargetMovedTemporarily = 0x0101,
        /// The initiator did something wrong.
        InitiatorError = 0x0200,
        /// It is not who it says.
        AuthenticationFailure = 0x0201,
        /// It may not use this target.
        AuthorizationFailure = 0x0202,
        /// There is no such target.
        NotFound = 0x0203,
        /// The version is not supported.
        UnsupportedVersion = 0x0205,
        /// The session has all the connections that it may have.
        TooManyConnections = 0x0206,
        /// A key that had to come did not.
        MissingParameter = 0x0207,
        /// Another kind of session than this target has.
        SessionTypeNotSupported = 0x0209,
        /// The TSIH names no session.
        SessionDoesNotExist = 0x020A,
        /// A PDU that does not belong into a login.
        InvalidDuringLogin = 0x020B,
        /// The target did something wrong.
        TargetError = 0x0300,
        /// Not now.
        ServiceUnavailable = 0x0301,
        /// Everything is taken.
        OutOfResources = 0x0302,
    }
);

codes!(
    /// Task management functions (RFC 7143 11.5.1).
    TaskManagementCode, u8 {
        /// One task.
        AbortTask = 1,
        /// All of this initiator's on the unit.
        AbortTaskSet = 2,
        /// A condition that no unit here has.
        ClearAca = 3,
        /// All of everybody's on the unit.
        ClearTaskSet = 4,
        /// All of everybody's, and the unit as after power on.
        LogicalUnitReset = 5,
        /// All units of the target.
        TargetWarmReset = 6,
        /// All units of the target, and its sessions.
        TargetColdReset = 7,
        /// Move a task to this connection: ErrorRecoveryLevel 2 only.
        TaskReassign = 8,
    }
);

codes!(
    /// How task management went (RFC 7143 11.6.1).
    TaskManagementResponseCode, u8 {
        /// Done.
        Complete = 0,
        /// There is no such task.
        TaskDoesNotExist = 1,
        /// There is no such unit.
        LunDoesNotExist = 2,
        /// The task has its connection.
        TaskStillAllegiant = 3,
        /// Tasks do not move here.
        ReassignmentNotSupported = 4,
        /// The function is not supported.
        NotSupported = 5,
        /// The initiator may not.
        AuthorizationFailed = 6,
        /// No.
        Rejected = 255,
    }
);

codes!(
    /// Why an initiator logs out (RFC 7143 11.14.1).
    LogoutReason, u8 {
        /// The session is over.
        CloseSession = 0,
        /// The connection is over.
        CloseConnection = 1,
        /// The connection broke and its tasks move: ErrorRecoveryLevel 2 only.
        RemoveForRecovery = 2,
    }
);

codes!(
    /// How a logout went (RFC 7143 11.15.1).
    LogoutResponseCode, u8 {
        /// Closed.
        Success = 0,
        /// No such connection.
        CidNotFound = 1,
        /// Connections are not recovered here.
        RecoveryNotSupported = 2,
        /// It could not be cleaned up.
        CleanupFailed = 3,
    }
);

codes!(
    /// Why a PDU was refused (RFC 7143 11.17.1).
    RejectReason, u8 {
        /// Its data came damaged.
        DataDigestError = 0x02,
        /// A SNACK that cannot be served.
        SnackReject = 0x03,
        /// It breaks the rules.
        ProtocolError = 0x04,
        /// It asks for what is not supported.
        CommandNotSupported = 0x05,
        /// Too many immediate commands.
        TooManyImmediate = 0x06,
        /// Its tag names a task that is under way.
        TaskInProgress = 0x07,
        /// It acknowledges what was not sent.
        InvalidDataAck = 0x08,
        /// One of its fields is wrong.
        InvalidField = 0x09,
        /// It takes too much for now.
        LongOperation = 0x0A,
        /// The initiator was asked to log out.
        WaitingForLogout = 0x0C,
    }
);

codes!(
    /// What a target tells unasked (RFC 7143 11.9.1).
    AsyncEvent, u8 {
        /// Sense data of a unit.
        ScsiEvent = 0,
        /// Please log out.
        LogoutRequested = 1,
        /// A connection goes away.
        ConnectionDropped = 2,
        /// All connections go away.
        SessionDropped = 3,
        /// Please negotiate again.
        NegotiationRequested = 4,
    }
);

/// The difference between what an initiator expected to move and what its command moved
/// (RFC 7143 11.4.5.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Residual {
    /// There is none.
    #[default]
    None,
    /// So many bytes of those expected were not moved.
    Underflow(u32),
    /// So many bytes more would have been moved.
    Overflow(u32),
}

impl Residual {
    /// What is left of `expected` bytes when the command by itself moves `moved`.
    #[must_use]
    pub fn between(expected: u32, moved: u64) -> Self {
        let expected = u64::from(expected);
        if moved > expected {
            Self::Overflow(u32::try_from(moved - expected).unwrap_or(u32::MAX))
        } else if moved < expected {
            Self::Underflow((expected - moved) as u32)
        } else {
            Self::None
        }
    }

    const OVERFLOW: u8 = 0x04;
    const UNDERFLOW: u8 = 0x02;

    /// The flags O and U, and the count.
    pub(crate) const fn encode(self) -> (u8, u32) {
        match self {
            Self::None => (0, 0),
            Self::Underflow(count) => (Self::UNDERFLOW, count),
            Self::Overflow(count) => (Self::OVERFLOW, count),
        }
    }

    /// From the flags of byte 1 and the count.
    pub(crate) const fn decode(flags: u8, count: u32) -> Result<Self, HeaderError> {
        match flags & (Self::OVERFLOW | Self::UNDERFLOW) {
            0 => Ok(Self::None),
            Self::UNDERFLOW => Ok(Self::Underflow(count)),
            Self::OVERFLOW => Ok(Self::Overflow(count)),
            // "The two bits are mutually exclusive", RFC 7143 11.4.1.
            _ => Err(HeaderError::Field(1)),
        }
    }
}
