//! All tests of this crate from outside of it, in one program: what they share is compiled and linked once.
#![allow(clippy::unwrap_used, reason = "a test fails so")]

mod bad_config;
mod bad_input;
mod block_devices;
mod certify;
mod conformance;
mod copies;
mod damage;
mod demo;
mod devices;
mod etcd;
mod freeze;
mod full;
mod golden;
mod history;
mod https;
mod image;
mod kill;
mod members;
mod memory;
mod network;
mod oidc;
mod power;
mod preempt;
mod prometheus;
mod recover;
mod reference;
mod replace;
mod scrub;
mod secure;
mod stalls;
mod status;
mod sync;
mod take_over;
mod thrash;
mod tls;
mod turn_on;
mod upgrade_check;
mod with_etcd;

#[path = "../../lab/tests/support/mod.rs"]
mod support;
