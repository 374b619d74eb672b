//! How long things may take. All of it is bounded drift away from being safe: see
//! `docs/replication.md`, Leases.

use holdfast_stdx::Duration;

/// Between two heartbeats of a node to a peer.
pub const HEARTBEAT: Duration = Duration::from_millis(100);
/// How long a grant lasts, counted by the primary from the sending of the heartbeat that the
/// grant answers.
pub const LEASE: Duration = Duration::from_millis(400);
/// How long a secondary waits for proof that the primary hears it before it tries to lead.
pub const GRACE: Duration = Duration::from_millis(600);
/// Added to [`LEASE`] by whoever waits for another's lease to end: clocks may differ in rate by
/// 1/32, far beyond what a working clock does.
pub const DRIFT: Duration = Duration::from_millis(13);
/// How long a candidate waits for the others to say how far they are.
pub const ASK: Duration = Duration::from_millis(100);
/// A secondary that answers nothing for so long is removed; a primary whose own append takes so long
/// hands over.
pub const SILENT: Duration = Duration::from_millis(500);
/// A secondary that has not answered for so long gets no read lease.
pub const SILENT_FOR_READS: Duration = Duration::from_millis(250);
/// A replica whose oldest append is no older than this keeps up.
pub const QUICK: Duration = Duration::from_millis(100);
/// A secondary whose link has been down for so long is removed.
pub const LINK_DOWN: Duration = Duration::from_millis(150);
/// How long the committed point waits for a prepare that carries it. Until a replica knows it, what was written there is read
/// elsewhere; but a message of its own for each write costs its sender a system call, and its receiver a wake-up.
pub const TELL_COMMITTED: Duration = Duration::from_millis(5);
/// Between two offers of a replica that wants to join, and between two looks at whether one that is
/// wanted can be named.
pub const JOIN_RETRY: Duration = Duration::from_millis(300);
/// How long a secondary reads a page for its primary before it gives that up. A busy disk takes a fraction of
/// a second, and fetching a bad block from another replica some two; while one that hangs is waited for, the
/// whole sync may stand still.
pub const SUPPLY_READ: Duration = Duration::from_secs(5);
/// How long a secondary that did not copy what it was asked for is left aside, before it is asked for one more
/// page. The primary copies as well meanwhile: a fault that ends costs little more than it lasted.
pub const SUPPLY_REST: Duration = Duration::from_secs(10);
/// Between two attempts at the metadata when it does not answer.
pub const METADATA_RETRY: Duration = Duration::from_millis(200);
/// How long a candidate stands back for one that is further.
pub const STAND_BACK: Duration = Duration::from_millis(250);
/// For so long after its start a node takes nobody for lost who has not been there: when all come back
/// together, they wait for each other rather than go on without.
pub const START_PATIENCE: Duration = Duration::from_secs(2);
/// How long a replica whose journal ended in a bad group waits for all others before it leads
/// without having heard them.
pub const SUSPECT_TAIL: Duration = Duration::from_secs(60);
/// How long a write may live between its portal's door and its numbering.
pub const LIFETIME: Duration = Duration::from_secs(3);
/// How old a command may be that its portal sends once more: its lifetime, by a clock that may be slow
/// by 1/32.
pub const REPEATED_MAX: Duration = Duration::from_millis(3100);
/// How old the heartbeat may be that vouches for a forward.
pub const FORWARD_AGE: Duration = Duration::from_secs(1);
/// How long the ids of commands are kept: two lifetimes, and the age of a forward each.
pub const COMMAND_MEMORY: Duration = Duration::from_secs(8);
