//! Copies between units that hosts ask for: EXTENDED COPY (LID1), and what is told of it afterwards (SPC-4 6.4, and
//! 5.16 for what third-party copies have in common).
//!
//! The way of a copy: its parameter list is read by the unit that got it ([`CopyList`]); whoever serves units says which of
//! them the list means, and begins it ([`CopyList::begin`]); then it is one [`CopyStep`] after another, from the unit that is
//! read to the one that is written ([`Copy`](struct@Copy)).
//!
//! It refuses to know which units a host may see, to see what is copied, and to keep data for a host.
//!
//! Invariants:
//! - all of a list is checked before any of it is done;
//! - a copy has one step under way, and ranges may overlap: no step reads what it, or one before it, has written over;
//! - what is told of a copy is bounded, for each nexus.

mod list;
mod outcome;
mod page;
mod results;
mod steps;

pub use list::{CopyList, Reachable};
pub use outcome::{CopyOutcome, CopyReport, CopyStep};
pub use results::ResultsWanted;
pub use steps::Copy;

pub(crate) use page::third_party_copy;
pub(crate) use results::{CopyResults, respond};

/// DESCRIPTOR TYPE CODE of identification CSCD descriptors (SPC-4, CSCD descriptors).
const IDENTIFICATION: u8 = 0xE4;
/// DESCRIPTOR TYPE CODE of segment descriptors: from blocks to blocks, and the same from one byte of them to another.
const BLOCKS_TO_BLOCKS: u8 = 0x02;
const BYTES_TO_BYTES: u8 = 0x0A;

/// Those that are known, ascending.
const DESCRIPTOR_TYPES: [u8; 3] = [BLOCKS_TO_BLOCKS, BYTES_TO_BYTES, IDENTIFICATION];
