//! All tests of this crate from outside of it, in one program: what they share is compiled and linked once.
#![allow(clippy::unwrap_used, reason = "a test fails so")]

mod access;
mod chap;
mod common;
mod hostile;
mod life;
mod login;
mod memory;
mod protocol;
mod received;
mod session;
mod turns;
