//! What a replica may do: the whole of its world, as one trait. The engine is behind it.

use alloc::vec::Vec;

use holdfast_model::{
    BlockRange, Change, ChangedPage, CommandId, Entry, Epoch, Incarnation, NodeId, PageIndex,
    Sequence, StoreId,
};
use holdfast_stdx::{Bytes, Duration, Instant};
pub use holdfast_wire::Contents;
use holdfast_wire::{Message, OutcomeCode};

/// Names something that ends later. Tokens of one slice's durable operations come back in the
/// order in which they were given out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(pub u64);

/// Why a copy is not installed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotInstalled {
    /// The page is of a later point than any that this replica should have.
    Newer,
    /// An entry that is not known to be committed touches the blocks.
    Undecided,
}

/// Who is at the other end of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// The contents of its devices.
    pub store: StoreId,
    /// The start of its process.
    pub incarnation: Incarnation,
    /// The version of the protocol that is spoken with it.
    pub version: u16,
    /// How long its oldest append had been waiting for its disk when it last told.
    pub append_age: Duration,
}

/// What happened to a replica that people should know of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Milestone {
    /// It leads from this epoch on.
    Leads(Epoch),
    /// It led, and does so no more; the slice is in this epoch.
    Deposed(Epoch),
    /// It took this node's replica out of the in-sync set.
    Removed {
        /// Whose.
        node: NodeId,
        /// It is there, but its disk takes too long.
        slow: bool,
    },
    /// It hands the slice over to this node's replica.
    HandedOver {
        /// Whose.
        node: NodeId,
        /// The disk here takes too long.
        slow: bool,
    },
    /// It brings this node's replica up to date: all of it, or what changed.
    Joining {
        /// Whose.
        node: NodeId,
        /// Whether all that is allocated is copied.
        full: bool,
    },
    /// This node's replica is in sync.
    InSync(NodeId),
    /// This node is to hold a replica: it is named in the record, with nothing yet.
    Named(NodeId),
    /// This node's replica is not wanted any more: the record does not name it.
    Released(NodeId),
    /// It is not what the record says that it is.
    NotThatReplica,
    /// The record is of this epoch, and the replica has been part of a later one.
    MetadataBehind(Epoch),
    /// The record is of this epoch. It was made when the metadata was lost, and without what this replica
    /// knows.
    NotKnownOf(Epoch),
}

/// What a replica may do. Everything concerns the replica's own slice.
pub trait Context {
    /// What time it is.
    fn now(&self) -> Instant;

    /// Appends an entry; its sequence is the one after [`prepared`](Self::prepared). Ends with
    /// `handle_durable`.
    fn append(&mut self, entry: Entry, committed: Sequence) -> Token;
    /// Voids the entries above `after` in the journal. Ends with `handle_durable`.
    fn begin_epoch(&mut self, epoch: Epoch, after: Sequence) -> Token;
    /// Forgets all entries and lets the log begin anew after a point. Ends with `handle_durable`.
    fn restart_log(&mut self, after: (Epoch, Sequence)) -> Token;
    /// Keeps the replica's own state. Ends with `handle_durable`.
    fn put_state(&mut self, state: Bytes) -> Token;
    /// Installs a block's contents as of the committed point, `None` for contents that are bad.
    /// Room for it is [`reserve`](Self::reserve)d. Ends with `handle_durable`.
    ///
    /// # Errors
    /// [`NotInstalled`]; nothing was changed.
    fn install(&mut self, range: BlockRange, change: Option<Change>)
    -> Result<Token, NotInstalled>;
    /// Records that what a hole in the journal may have held is there again. Ends with
    /// `handle_durable`.
    fn mend(&mut self) -> Token;
    /// Drops everything that the slice has here, its state too. Ends with `handle_durable`.
    fn drop_contents(&mut self) -> Token;
    /// Lets entries up to here take effect.
    fn set_committed(&mut self, committed: Sequence);
    /// The last entry's epoch and sequence.
    fn prepared(&self) -> (Epoch, Sequence);
    /// The committed point.
    fn committed(&self) -> Sequence;
    /// The committed point that recovery is certain to find.
    fn stable(&self) -> Sequence;
    /// The entries above a sequence that is not below the committed point.
    fn entries_above(&self, sequence: Sequence) -> Vec<Entry>;
    /// The entry of a sequence, if it is kept: as long as it is not in pages.
    fn entry(&self, sequence: Sequence) -> Option<Entry>;
    /// Pages that hold anything, with the mask of their blocks that do.
    fn allocated(&self) -> Vec<(PageIndex, u64)>;
    /// Pages that are there, and of which blocks may have changed above a sequence.
    fn changed_above(&self, sequence: Sequence) -> Vec<ChangedPage>;
    /// Makes sure that there is room for a write.
    fn reserve(&mut self, range: BlockRange) -> bool;
    /// Pages that there is room for on this node, and that nothing was promised.
    fn free_pages(&self) -> u64;
    /// Reads the newest version of blocks. Ends with `handle_read`.
    fn read_prepared(&mut self, range: BlockRange) -> Token;
    /// Reads the committed version of blocks. Ends with `handle_read`.
    fn read_committed(&mut self, range: BlockRange) -> Token;

    /// Blocks that are known to be bad here, and have not been mended yet.
    fn bad_blocks(&self) -> u64;
    /// Whether a node is spared: it is not to lead while another can.
    fn is_spared(&self, node: NodeId) -> bool;

    /// How long the oldest append here, of any slice, has been waiting for its disk.
    fn append_age(&self) -> Duration;

    /// Who is at the other end of the link to a node, if it is up.
    fn peer(&self, node: NodeId) -> Option<Peer>;
    /// Sends a message, if the link is up.
    fn send(&mut self, node: NodeId, message: Message);
    /// Sends the next heartbeat to a node now rather than when it is due.
    fn hurry(&mut self, node: NodeId);
    /// Drops the link: the peer does not keep to the protocol.
    fn reset_link(&mut self, node: NodeId);

    /// Asks for the record to be replaced, if it is still at the revision that this replica was
    /// last told of. Ends with `handle_proposed`.
    fn propose(&mut self, record: Bytes);
    /// Asks for the record as it is now. Ends with `handle_record`.
    fn refresh(&mut self);

    /// A command has ended.
    fn finish(&mut self, command: CommandId, outcome: OutcomeCode);
    /// For statistics: the joining replica on a node has so many bytes more of blocks that it lacked, and
    /// so many travelled for that.
    fn copied(&mut self, node: NodeId, bytes_done: u64, bytes_moved: u64);
    /// Whether one more slice that is led here may begin to bring replicas up to date.
    fn may_sync(&self) -> bool;
    /// Whether work of so many bytes that no host waits for may begin. If not, this replica is told to
    /// [`look_again`](crate::Replica::look_again) when it is time to ask again.
    fn may_work(&mut self, bytes: u64) -> bool;
    /// A host's change that was numbered here was committed after so long.
    fn committed_after(&mut self, took: Duration);
    /// Whether one more replica may begin to take over. If not, this one is given time
    /// ([`handle_timeout`](crate::Replica::handle_timeout)) as soon as it may.
    fn may_stand(&mut self) -> bool;
    /// Something for people.
    fn milestone(&mut self, milestone: Milestone);
}
