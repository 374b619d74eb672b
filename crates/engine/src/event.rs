//! What an engine is told, and what it asks to be done: the whole boundary between the machine and
//! whoever drives it.
//!
//! Invariants:
//! - an engine acts only when told something, and says everything that it wants done;
//! - commands are carried out in their order as far as they concern the same connection or link;
//!   disk requests have no order among themselves.

use alloc::string::String;
use alloc::vec::Vec;

use holdfast_model::metadata::{MetadataAnswer, MetadataRequest, MetadataToken};
use holdfast_model::{DiskCompletion, DiskId, DiskRequest, Incarnation, NodeId, StoreId};
use holdfast_stdx::{Bytes, Instant};
use holdfast_store::{DeviceOrder, DeviceRefused, OpenError};
use holdfast_wire::Message;

use crate::{NewerState, Notice, Stall};

/// A connection at the portal; drawn by the driver, never used twice in one start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub u64);

/// A pair of connections to a peer; drawn by the driver, never used twice in one start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(pub u64);

/// Something happened.
#[derive(Clone, Debug)]
pub enum Event {
    /// A disk request ended.
    Disk(DiskCompletion),
    /// The metadata answered.
    Metadata {
        /// What the request was called.
        token: MetadataToken,
        /// The answer. A watch answers many times.
        answer: MetadataAnswer,
    },
    /// Something happened between nodes.
    Peer(PeerEvent),
    /// Something happened at the portal.
    Portal(PortalEvent),
    /// An order about a device. It is answered by [`Command::Ordered`], unless a device fails first.
    Order {
        /// Drawn by the driver; comes back in the answer.
        number: u64,
        /// What is ordered.
        order: DeviceOrder,
    },
    /// The operator wants this node to stop cleanly. It says [`Command::Stopped`] when it is done.
    Stop,
}

/// Something happened between nodes.
#[derive(Clone, Debug)]
pub enum PeerEvent {
    /// A link is up: both lanes are connected and greeted. At most one link a peer is up.
    Up {
        /// Who is at the other end.
        peer: NodeId,
        /// The link.
        link: LinkId,
        /// The contents of the peer's devices.
        store: StoreId,
        /// The start of the peer's process.
        incarnation: Incarnation,
        /// The version of the protocol that is spoken: the newest that both know.
        version: u16,
    },
    /// A message came, in the order of its lane.
    Received {
        /// From whom.
        peer: NodeId,
        /// Over which link.
        link: LinkId,
        /// What it says.
        message: Message,
    },
    /// The link is down; nothing more comes over it.
    Down {
        /// Who was at the other end.
        peer: NodeId,
        /// The link.
        link: LinkId,
    },
}

/// Something happened at the portal.
#[derive(Clone, Debug)]
pub enum PortalEvent {
    /// An initiator connected.
    Connected {
        /// The connection.
        connection: ConnectionId,
        /// From where, for people.
        from: String,
    },
    /// Bytes came.
    Received {
        /// The connection.
        connection: ConnectionId,
        /// The bytes, in any pieces.
        bytes: Bytes,
        /// When they were taken from the socket, by the clock that the engine is told: from then on a command takes its time.
        /// Not later than now.
        received: Instant,
    },
    /// The connection took bytes that it had been given.
    Sent {
        /// The connection.
        connection: ConnectionId,
        /// How many.
        count: usize,
    },
    /// The connection is gone.
    Closed {
        /// The connection.
        connection: ConnectionId,
    },
}

/// Why a node cannot start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenFailure {
    /// Its devices hold no store that can be opened.
    #[error(transparent)]
    Store(#[from] OpenError),
    /// The store holds what this version cannot read.
    #[error(transparent)]
    Newer(#[from] NewerState),
}

impl OpenFailure {
    /// The device that it is about, if it is about one.
    #[must_use]
    pub fn disk(&self) -> Option<DiskId> {
        match self {
            Self::Store(error) => error.disk(),
            Self::Newer(_) => None,
        }
    }
}

/// Something is to be done.
#[derive(Clone, Debug)]
pub enum Command {
    /// By a disk.
    Disk(DiskRequest),
    /// By the metadata.
    Metadata {
        /// Comes back in the answer.
        token: MetadataToken,
        /// What is asked.
        request: MetadataRequest,
    },
    /// Between nodes.
    Peer(PeerCommand),
    /// At the portal.
    Portal(PortalCommand),
    /// This start is the node on record: what was said of one before counts no more.
    Registered,
    /// The devices are open: from now on the driver may greet peers in this name, and let
    /// initiators in.
    Opened {
        /// What the devices hold.
        store: StoreId,
        /// This start.
        incarnation: Incarnation,
    },
    /// The devices cannot be opened: the node cannot start. Nothing more is asked.
    OpenFailed(OpenFailure),
    /// What was ordered about a device has been done, or was refused.
    Ordered {
        /// What the order was called.
        number: u64,
        /// The device's number.
        result: Result<u16, DeviceRefused>,
    },
    /// A device is none of the store's, or not any more: nothing is asked of it from now on.
    Release(DiskId),
    /// Something that people should read.
    Notice(Notice),
    /// Commands of hosts waited, and none was done for a while; that is over.
    Stalled(Stall),
    /// A device has failed, and every role here has ended; the store can be opened without the device, at the
    /// next start.
    DeviceLost(DiskId),
    /// A device has failed without which the store is over, and every role here has ended. The next start may find
    /// that it works.
    Unusable(DiskId),
    /// The same as [`Command::Stopped`], for another machine has taken this node's place, with other devices.
    Displaced,
    /// Everything is written and handed over: the process may end. After this, and only then,
    /// nothing more is asked.
    Stopped,
}

/// To be done between nodes.
#[derive(Clone, Debug)]
pub enum PeerCommand {
    /// Keep a link to this peer from now on, whenever it can be had. Repeated with another
    /// address: the peer has moved.
    Connect {
        /// The peer.
        peer: NodeId,
        /// Where it listens, `host:port`.
        address: String,
    },
    /// The peer has left the cluster.
    Forget {
        /// The peer.
        peer: NodeId,
    },
    /// Send a message. If the link is down by now it goes nowhere.
    Send {
        /// To whom.
        peer: NodeId,
        /// Over which link, and no other.
        link: LinkId,
        /// What.
        message: Message,
    },
    /// Drop the link and what is queued on it; a new one may be made at once.
    Reset {
        /// The peer.
        peer: NodeId,
        /// The link.
        link: LinkId,
    },
}

/// To be done at the portal.
#[derive(Clone, Debug)]
pub enum PortalCommand {
    /// Send bytes; [`PortalEvent::Sent`] says when the connection has taken them.
    Send {
        /// The connection.
        connection: ConnectionId,
        /// The bytes, in parts.
        parts: Vec<Bytes>,
    },
    /// Read nothing more from the connection until [`PortalCommand::Resume`].
    Pause {
        /// The connection.
        connection: ConnectionId,
    },
    /// Read from the connection again.
    Resume {
        /// The connection.
        connection: ConnectionId,
    },
    /// Close the connection once what it was given is sent.
    Close {
        /// The connection.
        connection: ConnectionId,
    },
    /// Close the connection now, and read nothing more that it holds.
    Abort {
        /// The connection.
        connection: ConnectionId,
    },
}
