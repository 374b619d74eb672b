//! A connection that is written from a queue: at once as far as the kernel takes it, and the rest
//! when it has room again.
//!
//! It refuses to bound the queue: whoever fills it knows what may wait.
//!
//! Invariants:
//! - bytes leave in the order in which they were queued, each once;
//! - a write that is tried never waits;
//! - where there is TLS, nothing leaves, and nothing is handed on, that is not sealed.

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
use tokio::task::yield_now;

use crate::limits::{PROBES_MAX, SEAL_BYTES_MAX, SEAL_TURN_BYTES_MAX, WRITE_PARTS_MAX};
use crate::sealing::Sealing;

/// A connection and what waits to be sent over it.
pub(crate) struct Stream {
    socket: TcpStream,
    queue: RefCell<Queue>,
    /// Where what is sent is sealed, and what comes opened.
    sealing: Option<RefCell<Sealing>>,
    /// Somebody tried to write, and the kernel had no room.
    stalled: Notify,
    /// The connection is to be closed once the queue is sent.
    closing: Notify,
}

/// What a write has come to.
struct Written {
    bytes: usize,
    /// It was enough for one go, and the kernel would have taken more.
    is_cut: bool,
}

/// Parts that wait, and how many bytes they have.
#[derive(Default)]
pub(crate) struct Queue {
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
            sealing: None,
            stalled: Notify::new(),
            closing: Notify::new(),
        })
    }

    /// From here on what is sent is sealed, and what comes is opened.
    pub(crate) fn seal(&mut self, sealing: Sealing) {
        self.sealing = Some(RefCell::new(sealing));
    }

    /// Whether there is TLS.
    pub(crate) fn is_sealed(&self) -> bool {
        self.sealing.is_some()
    }

    /// The socket, for what is set on it.
    pub(crate) fn socket(&self) -> SockRef<'_> {
        SockRef::from(&self.socket)
    }

    /// Bytes that wait to be sent.
    pub(crate) fn queued(&self) -> usize {
        let sealed = self.sealing.as_ref();
        let sealed = sealed.map_or(0, |sealing| sealing.borrow().sealed.bytes());
        self.queue.borrow().bytes + sealed
    }

    /// Adds parts to what waits.
    pub(crate) fn queue(&self, parts: impl IntoIterator<Item = Bytes>) {
        self.queue.borrow_mut().extend(parts);
    }

    /// Gives the kernel what it takes now, and says how many bytes. What it does not take is sent
    /// by whoever runs [`send`](Self::send).
    ///
    /// # Errors
    /// The connection is broken.
    pub(crate) fn write(&self) -> io::Result<usize> {
        let written = self.write_some()?;
        if written.is_cut {
            self.stalled.notify_one();
        }
        Ok(written.bytes)
    }

    /// The same; whoever is told that it was cut goes on, and lets others have their turn before.
    fn write_some(&self) -> io::Result<Written> {
        let mut queue = self.queue.borrow_mut();
        let Some(sealing) = &self.sealing else {
            let (bytes, _) = self.write_parts(&mut queue)?;
            let is_cut = false;
            return Ok(Written { bytes, is_cut });
        };
        let sealing = &mut *sealing.borrow_mut();
        let mut bytes = 0;
        loop {
            sealing.seal(&mut queue, SEAL_BYTES_MAX)?;
            let (count, is_all) = self.write_parts(&mut sealing.sealed)?;
            bytes += count;
            if !is_all || queue.bytes == 0 || bytes >= SEAL_TURN_BYTES_MAX {
                let is_cut = is_all && queue.bytes > 0;
                return Ok(Written { bytes, is_cut });
            }
        }
    }

    /// Gives the kernel what it takes of these parts; how many bytes, and whether that was all.
    fn write_parts(&self, queue: &mut Queue) -> io::Result<(usize, bool)> {
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
                    return Ok((written, false));
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok((written, true))
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
        if self.is_ready() {
            return Ok(());
        }
        self.socket.readable().await
    }

    /// Whether there is something to read that came already, and is not the kernel's any more.
    pub(crate) fn is_ready(&self) -> bool {
        let sealing = self.sealing.as_ref();
        sealing.is_some_and(|sealing| sealing.borrow().is_ready())
    }

    /// Whether what came has no end of its own, if it has ended: somebody has cut it off, or the other end is gone.
    pub(crate) fn is_cut_off(&self) -> bool {
        let sealing = self.sealing.as_ref();
        sealing.is_some_and(|sealing| !sealing.borrow().is_ended())
    }

    /// Reads what is there into `buffer`, as far as it has room. `None`: there is nothing now;
    /// zero: the other end has closed.
    ///
    /// # Errors
    /// The connection is broken.
    pub(crate) fn read(&self, buffer: &mut impl BufMut) -> io::Result<Option<usize>> {
        let room = buffer.remaining_mut();
        assert!(room > 0, "nothing is read into nothing");
        if let Some(sealing) = &self.sealing {
            return self.read_sealed(&mut sealing.borrow_mut(), buffer);
        }
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

    /// The same, of what is sealed: asks the kernel once, when there is no whole record any more.
    fn read_sealed(
        &self,
        sealing: &mut Sealing,
        buffer: &mut impl BufMut,
    ) -> io::Result<Option<usize>> {
        let mut has_asked = false;
        let mut taken = 0;
        loop {
            taken += sealing.take(buffer);
            if !buffer.has_remaining_mut() || sealing.is_ended() {
                return Ok(Some(taken));
            }
            match sealing.open() {
                Ok(true) => continue,
                Ok(false) => {}
                Err(error) => {
                    // The other end learns why if the kernel takes it now; it is over in any case.
                    let _ = self.write_parts(&mut sealing.sealed);
                    return Err(error);
                }
            }
            if std::mem::replace(&mut has_asked, true) {
                break;
            }
            let room = sealing.room();
            let length = room.len();
            match self.socket.try_read(room) {
                Ok(0) if taken == 0 => return Ok(Some(0)),
                Ok(0) => break,
                Ok(count) => {
                    if count < length {
                        self.rest();
                    }
                    sealing.came(count);
                }
                Err(error) if is_passing(&error) => break,
                Err(error) => return Err(error),
            }
        }
        Ok((taken > 0).then_some(taken))
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
        if let Some(sealing) = &self.sealing {
            let sealed = sealing.borrow_mut().seal_end();
            if sealed.is_err() || self.send_queued(&mut sent).await.is_err() {
                return;
            }
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
                // Who sends without a pause keeps neither others waiting, nor the time from running out.
                Ok(1..) => yield_now().await,
                Err(error) if is_passing(&error) => {}
                Ok(0) | Err(_) => return,
            }
        }
    }

    /// Says, where there is TLS, that nothing follows, and drops what waits: whoever is on the way cannot say that. Then it gives the
    /// other end time to read it, for as long as this is run.
    pub(crate) async fn part(&self) {
        if self.is_sealed() {
            self.queue.borrow_mut().clear();
            self.finish(|_| ()).await;
        }
    }

    /// Makes the close of this connection a reset: what is unread and unsent is dropped, on both
    /// sides.
    pub(crate) fn abort_on_close(&self) {
        // A failure leaves an ordinary close: the other end learns of it all the same.
        drop(SockRef::from(&self.socket).set_linger(Some(Duration::ZERO)));
    }

    /// Sends until nothing waits.
    ///
    /// # Errors
    /// The connection is broken.
    pub(crate) async fn send_queued(&self, sent: &mut impl FnMut(usize)) -> io::Result<()> {
        while self.queued() > 0 {
            self.socket.writable().await?;
            let written = self.write_some()?;
            if written.bytes > 0 {
                sent(written.bytes);
            }
            if written.is_cut {
                yield_now().await;
            }
        }
        Ok(())
    }
}

impl Queue {
    /// What waits, in order.
    pub(crate) fn parts(&self) -> impl Iterator<Item = &Bytes> {
        self.parts.iter()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    fn clear(&mut self) {
        *self = Self::default();
    }

    pub(crate) fn advance(&mut self, mut count: usize) {
        assert!(count <= self.bytes, "no more is taken than there is");
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

impl Extend<Bytes> for Queue {
    fn extend<T: IntoIterator<Item = Bytes>>(&mut self, parts: T) {
        for part in parts.into_iter().filter(|part| !part.is_empty()) {
            self.bytes += part.len();
            self.parts.push_back(part);
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

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::TcpListener;

    use tokio::runtime::{Builder, LocalOptions};
    use tokio::task::spawn_local;

    use super::*;

    /// Somebody who has much to say when this end has nothing more to hear does not keep the thread for himself meanwhile.
    #[test]
    fn an_end_leaves_others_their_turn_whatever_the_other_end_sends() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut theirs = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (ours, _) = listener.accept().unwrap();
        for socket in [&ours, &theirs] {
            socket.set_nonblocking(true).unwrap();
        }
        let mut sent = 0;
        while let Ok(count) = theirs.write(&[0; 1 << 16]) {
            sent += count;
        }
        theirs.shutdown(Shutdown::Write).unwrap();
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build_local(LocalOptions::default())
            .unwrap();
        let turns = runtime.block_on(async {
            let patience = Patience {
                unanswered: Duration::from_secs(3),
                probe: Duration::from_secs(1),
            };
            let stream = Stream::new(TcpStream::from_std(ours).unwrap(), patience).unwrap();
            let ends = spawn_local(async move { stream.finish(|_| ()).await });
            let mut turns = 0;
            while !ends.is_finished() {
                yield_now().await;
                turns += 1;
            }
            turns
        });
        assert!(sent >= 256 << 10, "{sent} bytes are no load");
        assert!(turns >= sent / (64 << 10), "{turns} turns for {sent} bytes");
    }
}
