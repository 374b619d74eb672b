//! A connection that is written from a queue: at once as far as the kernel takes it, and the rest
//! when it has room again.
//!
//! It refuses to bound the queue: whoever fills it knows what may wait.
//!
//! Invariants:
//! - bytes leave in the order in which they were queued, each once;
//! - a write that is tried never waits.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::net::Shutdown;
use std::time::Duration;

use holdfast_stdx::{Buf, BufMut, Bytes};
use socket2::{SockRef, TcpKeepalive};
use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio::sync::Notify;

use crate::limits::{PROBES_MAX, WRITE_PARTS_MAX};

/// A connection and what waits to be sent over it.
pub(crate) struct Stream {
    socket: TcpStream,
    queue: RefCell<Queue>,
    /// Somebody tried to write, and the kernel had no room.
    stalled: Notify,
    /// The connection is to be closed once the queue is sent.
    closing: Notify,
}

#[derive(Default)]
struct Queue {
    parts: VecDeque<Bytes>,
    bytes: usize,
}

/// How long a connection may be unanswered, and how it is probed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    /// For an acknowledgement, or for room at the other end.
    pub(crate) unanswered: Duration,
    /// Silence before a probe, and between probes.
    pub(crate) probe: Duration,
}

impl Stream {
    /// Takes a connected socket.
    ///
    /// # Errors
    /// What the operating system says; the connection may be gone already.
    pub(crate) fn new(socket: TcpStream, patience: Patience) -> io::Result<Self> {
        socket.set_nodelay(true)?;
        let reference = SockRef::from(&socket);
        let keepalive = TcpKeepalive::new()
            .with_time(patience.probe)
            .with_interval(patience.probe)
            .with_retries(PROBES_MAX);
        reference.set_tcp_keepalive(&keepalive)?;
        reference.set_tcp_user_timeout(Some(patience.unanswered))?;
        Ok(Self {
            socket,
            queue: RefCell::default(),
            stalled: Notify::new(),
            closing: Notify::new(),
        })
    }

    /// Bytes that wait to be sent.
    pub(crate) fn queued(&self) -> usize {
        self.queue.borrow().bytes
    }

    /// Adds parts to what waits.
    pub(crate) fn queue(&self, parts: impl IntoIterator<Item = Bytes>) {
        let mut queue = self.queue.borrow_mut();
        for part in parts.into_iter().filter(|part| !part.is_empty()) {
            queue.bytes += part.len();
            queue.parts.push_back(part);
        }
    }

    /// Gives the kernel what it takes now, and says how many bytes. What it does not take is sent
    /// by whoever runs [`send`](Self::send).
    ///
    /// # Errors
    /// The connection is broken.
    pub(crate) fn write(&self) -> io::Result<usize> {
        let mut queue = self.queue.borrow_mut();
        let mut written = 0;
        while queue.bytes > 0 {
            let mut slices = [IoSlice::new(&[]); WRITE_PARTS_MAX];
            let mut count = 0;
            for (slice, part) in slices.iter_mut().zip(&queue.parts) {
                *slice = IoSlice::new(part);
                count += 1;
            }
            match self.socket.try_write_vectored(&slices[..count]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => {
                    queue.advance(count);
                    written += count;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.stalled.notify_one();
                    break;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(written)
    }

    /// Sends, whenever a write has stalled, what waits; tells `sent` of every write. Ends only
    /// with the connection.
    pub(crate) async fn send(&self, mut sent: impl FnMut(usize)) -> io::Error {
        loop {
            self.stalled.notified().await;
            if let Err(error) = self.send_queued(&mut sent).await {
                return error;
            }
        }
    }

    /// Waits until there is something to read.
    ///
    /// # Errors
    /// The connection is broken.
    pub(crate) async fn readable(&self) -> io::Result<()> {
        self.socket.readable().await
    }

    /// Reads what is there into `buffer`, as far as it has room. `None`: there is nothing now;
    /// zero: the other end has closed.
    ///
    /// # Errors
    /// The connection is broken.
    pub(crate) fn read(&self, buffer: &mut impl BufMut) -> io::Result<Option<usize>> {
        let room = buffer.remaining_mut();
        assert!(room > 0, "nothing is read into nothing");
        match self.socket.try_read_buf(buffer) {
            Ok(count) => {
                if count < room {
                    self.rest();
                }
                Ok(Some(count))
            }
            Err(error) if is_passing(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// All that was there has been read: the runtime learns so without asking the kernel once more. What comes from now on wakes
    /// anew, and an end that has been seen stays seen (epoll(7), edge-triggered). Nothing comes in between: sockets are looked at on this thread.
    fn rest(&self) {
        let nothing = || Err::<(), _>(io::ErrorKind::WouldBlock.into());
        // It says what it was told to say.
        let _ = self.socket.try_io(Interest::READABLE, nothing);
    }

    /// Asks that the connection be closed once what waits is sent.
    pub(crate) fn close(&self) {
        self.closing.notify_one();
    }

    /// Waits until somebody asks for the close.
    pub(crate) async fn closing(&self) {
        self.closing.notified().await;
    }

    /// Sends what waits, says that nothing follows, and reads until the other end has closed too:
    /// a socket closed with unread bytes would take back what the other end has not read yet.
    pub(crate) async fn finish(&self, mut sent: impl FnMut(usize)) {
        if self.send_queued(&mut sent).await.is_err() {
            return;
        }
        if SockRef::from(&self.socket)
            .shutdown(Shutdown::Write)
            .is_err()
        {
            return;
        }
        let mut nothing = [0; 4096];
        while self.socket.readable().await.is_ok() {
            match self.socket.try_read(&mut nothing) {
                Ok(1..) => {}
                Err(error) if is_passing(&error) => {}
                Ok(0) | Err(_) => return,
            }
        }
    }

    /// Makes the close of this connection a reset: what is unread and unsent is dropped, on both
    /// sides.
    pub(crate) fn abort_on_close(&self) {
        // A failure leaves an ordinary close: the other end learns of it all the same.
        drop(SockRef::from(&self.socket).set_linger(Some(Duration::ZERO)));
    }

    /// Sends until nothing waits.
    async fn send_queued(&self, sent: &mut impl FnMut(usize)) -> io::Result<()> {
        while self.queued() > 0 {
            self.socket.writable().await?;
            match self.write()? {
                0 => {}
                count => sent(count),
            }
        }
        Ok(())
    }
}

impl Queue {
    fn advance(&mut self, mut count: usize) {
        assert!(count <= self.bytes, "the kernel takes what it was given");
        self.bytes -= count;
        while count > 0 {
            let front = self.parts.front_mut().expect("the parts hold the bytes");
            if front.len() > count {
                front.advance(count);
                return;
            }
            count -= front.len();
            self.parts.pop_front();
        }
    }
}

/// Whether trying again later may help.
fn is_passing(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
    )
}
