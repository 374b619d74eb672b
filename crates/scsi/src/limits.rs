//! The limits that hosts are told in the Block Limits VPD page, or by sense data, and that are held
//! against them.

use holdfast_model::{BLOCK_SIZE, ENTRY_BYTES_MAX, PAGE_SIZE, SLICE_SIZE};

/// MAXIMUM TRANSFER LENGTH: bytes of data in one command. Bounds what a node holds for a command;
/// above what Linux (1 MiB by the optimum below) and Windows (256 KiB) send.
pub const TRANSFER_BYTES_MAX: u64 = 4 << 20;
/// OPTIMAL TRANSFER LENGTH: what becomes one entry of a slice's log.
pub const TRANSFER_BYTES_OPTIMAL: u64 = 1 << 20;
/// OPTIMAL TRANSFER LENGTH GRANULARITY: below a physical block a write has to read first.
pub const TRANSFER_GRANULARITY_BYTES: u64 = BLOCK_SIZE as u64;
/// MAXIMUM UNMAP LBA COUNT, in logical blocks: what conformance suites still hold for sane.
pub const UNMAP_BLOCKS_MAX: u64 = 1 << 20;
/// MAXIMUM UNMAP BLOCK DESCRIPTOR COUNT: a parameter list of 4 KiB and a header.
pub const UNMAP_DESCRIPTORS_MAX: usize = 256;
/// OPTIMAL UNMAP GRANULARITY: space is given back by the page.
pub const UNMAP_GRANULARITY_BYTES: u64 = PAGE_SIZE as u64;
/// MAXIMUM WRITE SAME LENGTH, in logical blocks: a whole number of pages in either block length,
/// and few enough to be told in ten bytes. (Conformance suites try 65,536 blocks where this permits
/// them, and write as many in one command to see them vanish.)
pub const WRITE_SAME_BLOCKS_MAX: u64 = 1 << 15;
/// How much one step of a comparison reads back: it comes on top of the data that is held already.
pub const COMPARE_STEP_BYTES: u64 = 1 << 20;
/// How much one step of a WRITE SAME fills: a few entries of a slice's log.
pub const FILL_STEP_BYTES: u64 = 8 << 20;
/// Descriptors in one answer to GET LBA STATUS: hosts ask again from where it ends.
pub const LBA_STATUS_DESCRIPTORS_MAX: u32 = 256;
/// I_T nexuses registered for persistent reservations on a unit: ten times what six hosts with
/// sixteen sessions each need. More get INSUFFICIENT REGISTRATION RESOURCES (SPC-4 5.12.7).
pub const REGISTRATIONS_MAX: usize = 1 << 10;
/// PARAMETER LIST LENGTH of PERSISTENT RESERVE OUT, in bytes: more than thirty TransportIDs of the
/// greatest length. What is longer gets PARAMETER LIST LENGTH ERROR (SPC-4 6.16.2).
pub const RESERVATION_LIST_BYTES_MAX: u32 = 8 << 10;
/// MAXIMUM COMPARE AND WRITE LENGTH: a physical block. Hosts lock with one logical block.
pub const COMPARE_AND_WRITE_BYTES_MAX: u64 = BLOCK_SIZE as u64;
/// MAXIMUM ATOMIC TRANSFER LENGTH: what one entry of a slice's log holds.
pub const ATOMIC_BYTES_MAX: u64 = ENTRY_BYTES_MAX as u64;
/// ATOMIC ALIGNMENT and ATOMIC TRANSFER LENGTH GRANULARITY.
pub const ATOMIC_GRANULARITY_BYTES: u64 = BLOCK_SIZE as u64;
/// Bytes of the parameter list of SET TARGET PORT GROUPS: far more groups than a target has ports.
pub const PORT_GROUP_LIST_BYTES_MAX: u32 = 4 + 4 * 1024;
/// MAXIMUM CSCD DESCRIPTOR COUNT: hosts name two units at most, and as often as they like.
pub const COPY_CSCDS_MAX: usize = 8;
/// MAXIMUM SEGMENT DESCRIPTOR COUNT: hosts send one or a few. (Conformance suites want one more than that, with one CSCD
/// descriptor more than there may be, to be longer than descriptors may be: so it is below 15.)
pub const COPY_SEGMENTS_MAX: usize = 8;
/// MAXIMUM DESCRIPTOR LIST LENGTH: as many of each, the segments' of the longer kind.
pub const COPY_DESCRIPTORS_BYTES_MAX: u64 = 32 * (COPY_CSCDS_MAX + COPY_SEGMENTS_MAX) as u64;
/// MAXIMUM SEGMENT LENGTH: as many blocks of 512 bytes as the two bytes of their number hold, and one.
pub const COPY_SEGMENT_BYTES_MAX: u64 = 32 << 20;
/// PARAMETER LIST LENGTH of EXTENDED COPY, in bytes: far more than the descriptors that are known take; bounds what
/// is held for a list that will be refused.
pub const COPY_LIST_BYTES_MAX: u32 = 64 << 10;
/// How much one step of a copy reads and writes: what nodes hold for each copy under way, all together.
pub const COPY_STEP_BYTES: u64 = 2 << 20;
/// MAXIMUM CONCURRENT COPIES, and TOTAL CONCURRENT COPIES: copies under way at a node, so that all of them hold no more than half
/// of what a portal may hold. More end as BUSY.
pub const COPIES_MAX: usize = 16;
/// How many of them may be of one nexus: hosts have others beside them.
pub const COPIES_PER_NEXUS_MAX: usize = 8;
/// Copies of which a unit keeps, for a nexus, how they ended: those under way, and some that hosts have not asked about.
pub const COPY_RESULTS_MAX: usize = 32;
/// What LBA mapping resources are counted in (SBC-3, THRESHOLD EXPONENT): coarse enough for 32 bits.
pub const THRESHOLD_SET_BYTES: u64 = 1 << 20;
/// Thresholds that hosts are told of: of the mode page's descriptors as many are used.
pub const THRESHOLDS: usize = 3;

const _: () = assert!(
    COPIES_PER_NEXUS_MAX < COPY_RESULTS_MAX,
    "what is under way has its place"
);
const _: () = assert!(
    COPY_LIST_BYTES_MAX as u64 <= TRANSFER_BYTES_MAX,
    "a parameter list is no longer than other data"
);
const _: () = assert!(
    ATOMIC_BYTES_MAX.is_power_of_two(),
    "what is aligned to its own length does not cross it"
);
const _: () = assert!(
    SLICE_SIZE.is_multiple_of(ATOMIC_BYTES_MAX),
    "what does not cross it does not cross a slice"
);
