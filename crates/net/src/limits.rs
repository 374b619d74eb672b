//! Every bound that the sockets keep to, with its reason.

use std::time::Duration;

/// Bytes that the sockets hand to the engine in one turn; who has more to read waits for the next.
/// Three messages of the greatest size, so that no peer is kept waiting by another's.
pub(crate) const TURN_BYTES_MAX: usize = 16 << 20;

/// Parts given to the kernel in one vectored write: 1 MiB in blocks of 4 KiB. The kernel takes
/// 1,024.
pub(crate) const WRITE_PARTS_MAX: usize = 256;

/// How long a write may wait for its acknowledgement by the other machine, or for room there,
/// before a link is given up. Shorter than a retransmission timer that has backed off, so that a
/// link is new soon after a partition has healed.
pub(crate) const LINK_UNANSWERED_MAX: Duration = Duration::from_secs(3);
/// The same at the portal, where a host may be paused for a snapshot.
pub(crate) const PORTAL_UNANSWERED_MAX: Duration = Duration::from_secs(30);
/// Silence after which a connection between nodes is probed, and the time between probes.
pub(crate) const LINK_PROBE: Duration = Duration::from_secs(1);
/// The same at the portal. A host that vanished is noticed after four of these.
pub(crate) const PORTAL_PROBE: Duration = Duration::from_secs(10);
/// Unanswered probes after which a connection is given up.
pub(crate) const PROBES_MAX: u32 = 3;

/// Bytes that the kernel holds for the control lane, each way: stale heartbeats are of no use.
pub(crate) const CONTROL_KERNEL_BYTES: usize = 64 << 10;
/// Bytes that wait for the control lane: the greatest message, and some.
pub(crate) const CONTROL_QUEUE_BYTES_MAX: usize = 8 << 20;
/// Bytes that wait for the data lane. A peer that lets more pile up does not read: the link is
/// given up, and with it what waits.
pub(crate) const DATA_QUEUE_BYTES_MAX: usize = 64 << 20;
/// Bytes that wait for an initiator: every command of a full window answered at once. The engine
/// keeps below it; who reaches it is cut off.
pub(crate) const PORTAL_QUEUE_BYTES_MAX: usize = 128 << 20;

/// Bytes that are sealed ahead of what the kernel has taken: what one write takes, and no more than processors keep near.
pub(crate) const SEAL_BYTES_MAX: usize = 256 << 10;
/// Bytes that are sealed and written in one go, before others have their turn: a quarter of a millisecond.
pub(crate) const SEAL_TURN_BYTES_MAX: usize = 1 << 20;
/// Parts that are gathered in one record: 16 KiB in blocks of 4 KiB, or many small messages.
pub(crate) const SEAL_PARTS_MAX: usize = 64;
/// What a lane that is sealed reads at once.
pub(crate) const SEALED_READ_BYTES: usize = 128 << 10;

/// What a lane reads at once: many small messages in one call; large ones are read in place.
pub(crate) const LANE_READ_BYTES: usize = 64 << 10;
/// What a lane reads before others have their turn, and once more at most what it reads at once: a message of 256 KiB and what
/// came with it. Opening that takes a tenth of a millisecond.
pub(crate) const LANE_BATCH_BYTES_MAX: usize = 320 << 10;
/// What the portal reads at once from one connection, at most and at least.
pub(crate) const PORTAL_READ_BYTES: usize = 256 << 10;
pub(crate) const PORTAL_READ_BYTES_MIN: usize = 16 << 10;
/// What it reads at once from all connections: the more there are, the less from each.
pub(crate) const PORTAL_READ_BYTES_SUM: usize = 16 << 20;
/// From this length on what was read is handed on in the buffer it was read into; below, it is
/// copied, so that no piece keeps a buffer alive that is much larger.
pub(crate) const PORTAL_KEEP_BYTES_MIN: usize = PORTAL_READ_BYTES / 8 * 7;
/// Bytes that the portal hands to the engine in one turn.
pub(crate) const PORTAL_TURN_BYTES_MAX: usize = 8 << 20;
/// What was read from connections before the engine wanted nothing more of them, in sum. A
/// connection that exceeds it is cut off: those that read what they are sent are not paused for
/// long.
pub(crate) const PORTAL_HELD_BYTES_MAX: usize = 8 << 20;

/// Bytes after a hello's header at most; it has 73.
pub(crate) const HELLO_BYTES_MAX: usize = 512;
/// What a handshake of TLS reads at once: one side of it, as a rule.
pub(crate) const HANDSHAKE_READ_BYTES: usize = 4 << 10;
/// How long greeting a peer may take, with the handshake before that, and one lane to be joined by the other.
pub(crate) const GREETING_TIME_MAX: Duration = Duration::from_secs(5);
/// How long who connects may take to show who it is: nodes do at once, over a network that loses packets after some hundreds of
/// milliseconds, and come again.
pub(crate) const PROOF_TIME_MAX: Duration = Duration::from_secs(3);
/// Incoming connections of whom it is not known yet who they are: both lanes of a cluster of 64 nodes, twice.
pub(crate) const UNPROVEN_MAX: usize = 256;
/// Of these from one address from which no node is known to come: both lanes of 16 nodes.
pub(crate) const UNPROVEN_OF_ADDRESS_MAX: usize = 32;
/// Handshakes of whoever connects that begin at once: those of both lanes of a cluster of 64 nodes, twice, as when a switch
/// comes back.
pub(crate) const HANDSHAKES_AT_ONCE_MAX: u32 = 256;
/// How many more begin in a second. At 0.3 ms each that is an eighth of one processor, for as long as somebody goes on to try;
/// whoever stands behind all of [`UNPROVEN_MAX`] waits for 0.64 s.
pub(crate) const HANDSHAKES_PER_SECOND: u32 = 400;
/// How long connecting to a peer may take.
pub(crate) const CONNECT_TIME_MAX: Duration = Duration::from_secs(1);
/// The wait before the first attempt to connect again.
pub(crate) const REDIAL_WAIT_MIN: Duration = Duration::from_millis(20);
/// The wait grows to this: a peer that is back is met within half a second.
pub(crate) const REDIAL_WAIT_MAX: Duration = Duration::from_millis(500);
/// A link that lived this long was a good one: the waits begin anew.
pub(crate) const LINK_GOOD_AFTER: Duration = Duration::from_secs(1);
/// How long the second lane of a link may take to end after the first has ended in good order: as long as a node that stops goes
/// on sending. A node that is gone has ended both.
pub(crate) const LAST_WORDS_TIME_MAX: Duration = STOP_TIME_MAX;
/// Lanes at once that say that they end, and wait until the other end has heard it: both of all links of a cluster of 64 nodes. More
/// of them end without a word.
pub(crate) const PARTINGS_MAX: usize = 128;

/// Connections of initiators unless configured otherwise: 64 volumes, six hosts, two paths, and
/// some.
pub const PORTAL_CONNECTIONS_MAX: usize = 1024;
/// How long a connection that the engine closes may take to drain.
pub(crate) const CLOSE_TIME_MAX: Duration = Duration::from_secs(5);
/// Connections that drain at once, beside those that have a place. More than hosts close together; strangers who never end what
/// they began are not waited for.
pub(crate) const CLOSING_MAX: usize = 64;
/// How long the end of the process waits for the sockets to drain.
pub(crate) const STOP_TIME_MAX: Duration = Duration::from_millis(500);
/// Connections that the kernel queues before they are accepted.
pub(crate) const LISTEN_BACKLOG: u32 = 1024;
/// The wait after an accept that failed for want of something, file descriptors for example.
pub(crate) const ACCEPT_WAIT: Duration = Duration::from_millis(100);

/// The same complaint about the same peer is repeated after this.
pub(crate) const COMPLAINT_PAUSE: Duration = Duration::from_secs(60);
