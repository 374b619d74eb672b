//! All tests of this crate from outside of it, in one program: what they share is compiled and linked once.
#![allow(clippy::unwrap_used, reason = "a test fails so")]

mod changes;
mod compare;
mod conditions;
mod deletion;
mod fence;
mod hand_over;
mod hostile;
mod lab;
mod recovery;
mod settle;
mod supply;
mod sync;
mod takeover;
mod wishes;
