//! One connection over TCP: two tasks, so that neither direction waits for the other.
//!
//! Invariants:
//! - the tasks end with the connection's value.

use holdfast_stdx::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::way::{self, Connect, Heard, Origin};
use super::{ClientConfig, ConnectError};
use crate::frame::{self, ClientFrame, FrameError, ServerFrame};

/// How long connecting, and then being welcomed, may take.
const CONNECT_PATIENCE: Duration = Duration::from_secs(2);
/// Frames that have been read and not been looked at.
const INCOMING_WAITING_MAX: usize = 16;

/// A connection whose hello was answered.
#[derive(Debug)]
pub(crate) struct Connection {
    /// Frames to send. Bounded by the requests in flight.
    outgoing: mpsc::UnboundedSender<Vec<u8>>,
    incoming: mpsc::Receiver<Result<ServerFrame, FrameError>>,
    _tasks: JoinSet<()>,
}

impl Connect for ClientConfig {
    type Connection = Connection;
    const IN_ORDER: bool = true;

    async fn open(&self, address: &str) -> Result<Connection, ConnectError> {
        Connection::open(address, self).await
    }
}

impl Connection {
    async fn open(address: &str, config: &ClientConfig) -> Result<Self, ConnectError> {
        let greeting = async {
            let stream = TcpStream::connect(address).await?;
            // Where it cannot be had, the connection is slower and right.
            let _ = stream.set_nodelay(true);
            let (mut source, mut target) = stream.into_split();
            greet(&mut source, &mut target, config).await?;
            Ok((source, target))
        };
        let greeted = timeout(CONNECT_PATIENCE, greeting).await;
        let (source, target) = greeted.unwrap_or(Err(ConnectError::TooSlow))?;
        let (outgoing, to_send) = mpsc::unbounded_channel();
        let (received, incoming) = mpsc::channel(INCOMING_WAITING_MAX);
        let mut tasks = JoinSet::new();
        tasks.spawn(write(target, to_send));
        tasks.spawn(read(source, received));
        Ok(Self {
            outgoing,
            incoming,
            _tasks: tasks,
        })
    }
}

impl way::Connection for Connection {
    /// The server says it with its first answer.
    fn origin(&self) -> Option<Origin> {
        None
    }

    fn send(&mut self, frame: ClientFrame) {
        let _ = self.outgoing.send(frame::to_frame(&frame));
    }

    async fn receive(&mut self) -> Result<Heard, ConnectError> {
        let frame = self.incoming.recv().await;
        match frame.unwrap_or(Err(FrameError::Closed)) {
            Ok(ServerFrame::Answer { token, answer }) => Ok(Heard::Answer((token, answer))),
            Ok(ServerFrame::Refused(refusal)) => Err(refusal.into()),
            Ok(ServerFrame::Welcome { .. }) => Err(ConnectError::Stranger(None)),
            Err(FrameError::Io(error)) => Err(error.into()),
            Err(error) => Err(ConnectError::Stranger(Some(error))),
        }
    }
}

async fn greet(
    source: &mut OwnedReadHalf,
    target: &mut OwnedWriteHalf,
    config: &ClientConfig,
) -> Result<(), ConnectError> {
    let hello = ClientFrame::Hello {
        version: frame::VERSION,
        cluster: config.cluster,
        access_token: config.access_token.clone(),
    };
    target.write_all(&frame::to_frame(&hello)).await?;
    match frame::read_frame(source, frame::HELLO_BYTES_MAX).await {
        Ok(ServerFrame::Welcome {
            version: frame::VERSION,
        }) => Ok(()),
        Ok(ServerFrame::Refused(refusal)) => Err(ConnectError::Refused(refusal)),
        Ok(ServerFrame::Welcome { .. } | ServerFrame::Answer { .. }) => {
            Err(ConnectError::Stranger(None))
        }
        Err(FrameError::Io(error)) => Err(ConnectError::Io(error)),
        Err(error) => Err(ConnectError::Stranger(Some(error))),
    }
}

async fn write(mut target: OwnedWriteHalf, mut to_send: mpsc::UnboundedReceiver<Vec<u8>>) {
    while let Some(frame) = to_send.recv().await {
        if target.write_all(&frame).await.is_err() {
            // The reader tells: what cannot be written to cannot be read from for long.
            return;
        }
    }
}

async fn read(mut source: OwnedReadHalf, received: mpsc::Sender<Result<ServerFrame, FrameError>>) {
    loop {
        let frame = frame::read_frame(&mut source, frame::ANSWER_BYTES_MAX).await;
        let ended = frame.is_err();
        if received.send(frame).await.is_err() || ended {
            return;
        }
    }
}
