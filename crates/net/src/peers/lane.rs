//! One of the two connections of a link: frames out of bytes, and bytes into the socket.
//!
//! Invariants:
//! - a message is made only of a frame that was read whole and whose checksums hold;
//! - each message has a buffer of its own, no longer than its frame: keeping a block never keeps
//!   its neighbours;
//! - memory is taken for a frame only when its header has been checked against the bounds;
//! - a lane that has much to read gives way: what it reads without others having had their turn is bounded.

use std::io;
use std::rc::Rc;

use holdfast_engine::LinkId;
use holdfast_model::NodeId;
use holdfast_stdx::{Buf, BufMut, BytesMut};
use holdfast_tls::{RECORD_BYTES_MAX, RecordError};
use holdfast_wire::{FRAME_HEADER_BYTES, FrameHeader, Lane, Message, WireError, decode};
use tokio::task::yield_now;

use super::{Item, Shared};
use crate::limits::{LANE_BATCH_BYTES_MAX, LANE_READ_BYTES};
use crate::stream::Stream;

/// Why a lane ended.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LaneEnd {
    #[error("the peer closed the connection")]
    Closed,
    /// Without the word that TLS has for it: a process that was killed, or somebody in between. A message is taken whole or not at
    /// all, so that nothing is believed that was not said.
    #[error("the connection ended without the peer's word that it does")]
    CutOff,
    #[error("{0}")]
    Socket(io::Error),
    #[error("{0}")]
    Sealed(RecordError),
    #[error("{0}")]
    Wire(#[from] WireError),
    #[error("it does not take what it is sent")]
    Full,
}

impl From<io::Error> for LaneEnd {
    fn from(error: io::Error) -> Self {
        match error.downcast() {
            Ok(error) => Self::Sealed(error),
            Err(error) => Self::Socket(error),
        }
    }
}

/// Which lane of which link this is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LaneName {
    pub(crate) peer: NodeId,
    pub(crate) link: LinkId,
    pub(crate) lane: Lane,
}

/// Runs the lane until it ends, or is to be closed.
pub(crate) async fn run(name: LaneName, stream: Rc<Stream>, shared: Rc<Shared>) {
    let end = tokio::select! {
        biased;
        end = receive(name, &stream, &shared) => end,
        error = stream.send(|_| ()) => error.into(),
        () = stream.closing() => return stream.finish(|_| ()).await,
    };
    shared.inbox.push(Item::Ended { name, end }, 0);
}

async fn receive(name: LaneName, stream: &Stream, shared: &Shared) -> LaneEnd {
    let mut reader = FrameReader::new();
    // Bytes since others had their turn.
    let mut batch = 0;
    loop {
        if let Err(error) = stream.readable().await {
            return error.into();
        }
        if !shared.inbox.has_room() {
            shared.inbox.turn().await;
            batch = 0;
            continue;
        }
        match reader.read(stream) {
            Ok(None) => {}
            Ok(Some(0)) if stream.is_cut_off() => return LaneEnd::CutOff,
            Ok(Some(0)) => return LaneEnd::Closed,
            Ok(Some(count)) => {
                batch += count;
                if let Err(end) = take_messages(&mut reader, name, shared) {
                    return end;
                }
                // What is sealed comes in pieces of a record, and what was read of it already belongs to the batch. While it
                // is opened more comes, so that this alone would never end.
                let is_spent = batch >= LANE_BATCH_BYTES_MAX;
                if is_spent || !stream.is_ready() {
                    let has_turned = shared.inbox.turn().await;
                    if is_spent && !has_turned {
                        // All of it is of one message, and the loop has nothing to take.
                        yield_now().await;
                    }
                    if is_spent || has_turned {
                        batch = 0;
                    }
                }
            }
            Err(error) => return error.into(),
        }
    }
}

/// Hands on every message that is here whole.
fn take_messages(reader: &mut FrameReader, name: LaneName, shared: &Shared) -> Result<(), LaneEnd> {
    while let Some((message, bytes)) = reader.next_message()? {
        if message.lane() != name.lane {
            return Err(WireError::Malformed.into());
        }
        let LaneName { peer, link, .. } = name;
        shared.inbox.push(
            Item::Received {
                peer,
                link,
                message,
            },
            bytes,
        );
    }
    Ok(())
}

/// Bytes on their way to being frames.
struct FrameReader {
    /// What was read and is not part of a frame yet.
    ahead: BytesMut,
    /// The frame whose header is here.
    frame: Option<(FrameHeader, BytesMut)>,
}

impl FrameReader {
    fn new() -> Self {
        Self {
            ahead: BytesMut::with_capacity(LANE_READ_BYTES),
            frame: None,
        }
    }

    /// Reads once: straight into the frame if more than the read-ahead holds is missing of it. What is sealed has been read
    /// ahead where it is opened: more than a record of it would only be copied once more.
    fn read(&mut self, stream: &Stream) -> io::Result<Option<usize>> {
        let ahead_max = if stream.is_sealed() {
            RECORD_BYTES_MAX
        } else {
            LANE_READ_BYTES
        };
        if let Some((header, rest)) = &mut self.frame {
            let missing = header.rest_length() - rest.len();
            assert!(missing > 0, "a whole frame has been taken");
            assert!(self.ahead.is_empty(), "what was ahead is in the frame");
            if missing >= ahead_max {
                return stream.read(&mut rest.limit(missing));
            }
        }
        let room = ahead_max - self.ahead.len();
        self.ahead.reserve(room);
        stream.read(&mut (&mut self.ahead).limit(room))
    }

    /// The next message that is here whole, and the length of its frame.
    fn next_message(&mut self) -> Result<Option<(Message, usize)>, WireError> {
        let (header, mut rest) = match self.frame.take() {
            Some(frame) => frame,
            None => {
                let Some(bytes) = self.ahead.first_chunk::<FRAME_HEADER_BYTES>() else {
                    return Ok(None);
                };
                let header = FrameHeader::parse(bytes)?;
                self.ahead.advance(FRAME_HEADER_BYTES);
                (header, BytesMut::with_capacity(header.rest_length()))
            }
        };
        let missing = header.rest_length() - rest.len();
        let here = missing.min(self.ahead.len());
        rest.put_slice(&self.ahead[..here]);
        self.ahead.advance(here);
        if here < missing {
            self.frame = Some((header, rest));
            return Ok(None);
        }
        let message = decode(&header, &rest.freeze())?;
        Ok(Some((message, FRAME_HEADER_BYTES + header.rest_length())))
    }
}
