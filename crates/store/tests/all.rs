//! All tests of this crate from outside of it, in one program: what they share is compiled and linked once.
#![allow(clippy::unwrap_used, reason = "a test fails so")]

mod absent;
mod bench;
mod carried;
mod devices;
mod dropping;
mod epochs;
mod journal_move;
mod memory;
mod opening;
mod pages;
mod placed;
mod rot;
mod tiny;
