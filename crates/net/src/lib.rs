//! The sockets of a node: links between nodes, and the portal where initiators connect.
//!
//! [`Network`] carries out what an engine commands and tells it what happened. It refuses to know
//! what messages and bytes mean, to wait inside a command, and to run without a bound on anything
//! that the other end decides.
//!
//! Invariants:
//! - every [`PeerEvent::Up`](holdfast_engine::PeerEvent::Up) is followed by exactly one `Down` of
//!   the same link, every [`PortalEvent::Connected`](holdfast_engine::PortalEvent::Connected) by
//!   exactly one `Closed`, and after those nothing is said of the link or connection;
//! - the messages of a lane come in the order in which they were sent, none missing, as long as
//!   the link is up.

mod accept;
mod complaints;
mod inbox;
mod limits;
mod network;
mod peers;
mod portal;
mod sealing;
mod stream;
mod task;

pub use accept::{BindError, Listener};
pub use limits::PORTAL_CONNECTIONS_MAX;
pub use network::{Network, NetworkConfig};
