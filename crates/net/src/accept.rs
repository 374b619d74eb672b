//! Listeners: taken early, so that a port that is in use is known before anything is opened, and
//! opened late, so that nobody is let in before there is somebody to serve them.
//!
//! Invariant: places that are taken and not given back are counted, and there are none beyond the limit.

use std::cell::Cell;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;

use tokio::net::{TcpListener, TcpSocket, TcpStream};

use crate::limits::{ACCEPT_WAIT, LISTEN_BACKLOG};

/// An address cannot be listened on.
#[derive(Debug, thiserror::Error)]
#[error("listen on {address}: {source}")]
pub struct BindError {
    /// The address.
    pub address: SocketAddr,
    /// Why not.
    pub source: io::Error,
}

impl BindError {
    /// Whether another process, or another socket of this one, has the port.
    #[must_use]
    pub fn is_taken(&self) -> bool {
        self.source.kind() == io::ErrorKind::AddrInUse
    }
}

/// An address that is taken, and not listened on yet: who connects is refused.
#[derive(Debug)]
pub struct Listener {
    socket: TcpSocket,
    address: SocketAddr,
}

impl Listener {
    /// Takes `address`; port 0 is any that is free.
    ///
    /// # Errors
    /// [`BindError`] if the address is not this machine's, or its port is taken.
    pub fn bind(address: SocketAddr) -> Result<Self, BindError> {
        let bind = || {
            let socket = match address {
                SocketAddr::V4(_) => TcpSocket::new_v4()?,
                SocketAddr::V6(_) => TcpSocket::new_v6()?,
            };
            // The former process's closed connections do not keep this one from its port.
            socket.set_reuseaddr(true)?;
            socket.bind(address)?;
            let address = socket.local_addr()?;
            Ok(Self { socket, address })
        };
        bind().map_err(|source| BindError { address, source })
    }

    /// What was taken.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Lets connections in. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// [`BindError`] if another process listens there since it was bound.
    pub fn open(self) -> Result<TcpListener, BindError> {
        let address = self.address;
        self.socket
            .listen(LISTEN_BACKLOG)
            .map_err(|source| BindError { address, source })
    }
}

/// A count of connections that has a limit.
#[derive(Clone)]
pub(crate) struct Places {
    taken: Rc<Cell<usize>>,
    limit: usize,
}

/// One of the places; free again when dropped.
pub(crate) struct Place(Rc<Cell<usize>>);

impl Places {
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            taken: Rc::new(Cell::new(0)),
            limit,
        }
    }

    pub(crate) fn take(&self) -> Option<Place> {
        if self.taken.get() == self.limit {
            return None;
        }
        self.taken.set(self.taken.get() + 1);
        Some(Place(Rc::clone(&self.taken)))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

/// Accepts for ever; `take` gets each connection.
pub(crate) async fn accept(listener: TcpListener, mut take: impl FnMut(TcpStream, SocketAddr)) {
    loop {
        match listener.accept().await {
            Ok((socket, from)) => take(socket, from),
            Err(error) if is_of_connection(&error) => {}
            Err(error) => {
                tracing::warn!("accept a connection: {error}");
                tokio::time::sleep(ACCEPT_WAIT).await;
            }
        }
    }
}

/// Whether accepting failed because that one connection was already gone.
fn is_of_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionRefused
            | io::ErrorKind::Interrupted
    )
}
