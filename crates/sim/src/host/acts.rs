//! What hosts want done.

use holdfast_engine::ConnectionId;
use holdfast_model::NodeId;
use holdfast_stdx::Bytes;

/// What a host wants done.
#[derive(Debug)]
pub(crate) enum Act {
    Connect {
        path: usize,
        node: NodeId,
    },
    Send(ConnectionId, Vec<Bytes>),
    Close(ConnectionId),
    /// A reset of the unit is on its way.
    ResetSent,
    /// It was answered: every command that had arrived anywhere before is over.
    ResetDone,
    /// A registration is on its way.
    Registers,
    /// It was answered, or given up.
    Registered {
        in_doubt: bool,
    },
    /// The host begins to take the volume from another one.
    Takes {
        of: usize,
    },
    /// The other one is registered no more; `reserved`: and this one holds the reservation.
    Taken {
        of: usize,
        reserved: bool,
    },
    /// That was refused, or given up.
    NotTaken {
        in_doubt: bool,
    },
    /// All reservations are to end.
    Clears,
}

/// What a host wants done, in order.
#[derive(Debug, Default)]
pub(crate) struct Acts {
    pub(crate) acts: Vec<Act>,
    /// What it was told and should not have been.
    pub(crate) complaint: Option<String>,
}
