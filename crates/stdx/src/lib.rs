//! Domain-free building blocks of the pure crates: time as a value, seeded randomness, bounded
//! queues, buffers, the one checksum, and numbers as people read them.
//!
//! It refuses to know what a volume, a slice or a node is, to read a clock, and to draw entropy.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod checksum;
mod count;
mod prng;
mod queue;
mod time;
mod zero;

pub use bytes::{Buf, BufMut, Bytes, BytesMut};
pub use checksum::crc32c;
pub use count::Count;
pub use prng::Prng;
pub use queue::{BoundedQueue, QueueFull};
pub use smallvec::{SmallVec, smallvec};
pub use time::{Duration, Instant};
pub use zero::is_zero;
