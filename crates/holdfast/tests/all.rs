//! All tests of this crate from outside of it, in one program: what they share is compiled and linked once.
#![allow(clippy::unwrap_used, reason = "a test fails so")]

mod contract;
mod data_format;
mod inspect;

#[allow(dead_code, reason = "the unit tests of inspect use the rest")]
#[path = "support/store.rs"]
mod made;
