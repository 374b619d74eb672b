//! Performance history as values: what is measured of volumes, nodes, devices and initiators, in what steps it is added up, how
//! it is written down, and what is kept for how long.
//!
//! It refuses to know where files are, what time it is, and what a measure means: whoever measures says so, and whoever
//! shows.
//!
//! Invariants:
//! - values that are added up say the same as if they had been measured as one: counts add, levels keep their sum and
//!   their largest, latencies keep how many there were of each length, so that percentiles over any time are true to a step;
//! - whatever bytes are read, nothing is taken that was not written whole.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod codec;
mod frame;
mod latencies;
mod meter;
mod rollup;
mod sample;
mod series;
mod shelf;
mod span;

pub use codec::HistoryError;
pub use frame::{FRAME_BYTES_MAX, Frame, Frames};
pub use latencies::{Latencies, Recorder};
pub use meter::{Done, Meter};
pub use rollup::{RESOLUTIONS, Resolution, Rollup};
pub use sample::{Measure, Sample, Value};
pub use series::Series;
pub use shelf::{Segment, surplus};
pub use span::Span;
