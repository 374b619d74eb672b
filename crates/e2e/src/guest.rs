//! Guests: real Linux hosts, each a machine that QEMU emulates with Debian's kernel, open-iscsi and
//! multipath-tools, on the network of [`crate::network`]; and what is seen from them.
//!
//! Nothing here needs hardware virtualisation, and nothing is fast: what a guest does takes several times as
//! long as on a machine. What it waits for takes as long as anywhere.
//!
//! Invariants:
//! - guests are started inside only ([`crate::world`]), and end with it;
//! - scenarios are here, in Rust; shell is for what runs in a guest;
//! - each step of a scenario tells on its own what came of it.

pub mod agent;
pub mod failover;
pub mod image;
pub mod initiator;
pub mod initramfs;
pub mod machine;
pub mod multipath;
pub mod steps;
pub mod tgt;
