//! All tests of this crate from outside of it, in one program: what they share is compiled and linked once.
#![allow(clippy::unwrap_used, reason = "a test fails so")]

mod bench;
mod compare;
mod copy;
mod copying;
mod fetches;
mod former;
mod held;
mod latency;
mod orders;
mod port_groups;
mod proposals;
mod stops;
mod turns;
mod vouching;
