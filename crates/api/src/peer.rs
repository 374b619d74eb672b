//! Who is at the other end of a connection to the interface, as far as the connection itself shows it.
//!
//! It refuses to tell who a person is: that is for what a request carries.
//!
//! Invariants:
//! - every request has one, among its extensions (`axum::Extension<Peer>`);
//! - a node is named only where the connection is TLS, and its client has proved with its key that it is that node of this
//!   cluster.

use std::net::SocketAddr;

/// The other end of the connection that a request came over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Where it connects from.
    pub address: SocketAddr,
    /// The number of the node of this cluster that it is, by its certificate; `None` is anybody else.
    pub node: Option<u16>,
}
