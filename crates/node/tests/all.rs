//! All tests of this crate from outside of it, in one program: what they share is compiled and linked once.
#![allow(clippy::unwrap_used, reason = "a test fails so")]

mod daemon;
mod etcd;
mod etcd_members;
mod latency;
mod monitoring;
mod support;
