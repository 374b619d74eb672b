//! What the cluster agrees on, behind one interface with the semantics of etcd's v3 API: revisions,
//! compare-and-set transactions, watches from a revision, leases, compaction. The words are those
//! of [`holdfast_model::metadata`].
//!
//! - [`machine`]: the store as a pure machine; the simulator drives it as it is.
//! - [`embedded`]: the machine made durable in one directory, for one machine and for tests.
//! - [`server`] and [`client`]: the interface over TCP.
//! - [`etcd`]: the same client's way to an etcd cluster, for clusters that span machines.
//! - [`session`]: what a user of the metadata holds, whichever store is behind it.
//! - [`suite`]: the tests that every store passes.
//!
//! It refuses to know what the keys mean, and to come between the cluster and agreement: there is
//! no consensus of our own here.
#![forbid(unsafe_code)]

pub mod client;
mod codec;
pub mod embedded;
pub mod etcd;
pub mod frame;
pub mod limits;
pub mod machine;
pub mod server;
pub mod session;
pub mod suite;

pub use client::Client;
pub use codec::CodecError;
pub use embedded::Embedded;
pub use machine::{ClientId, HistoryLimits, Machine, Output};
pub use session::{Answers, Requests, Session, Store};
