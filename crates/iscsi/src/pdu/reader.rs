//! Cuts a stream of bytes into PDUs (RFC 7143 11.2).
//!
//! Invariants:
//! - payloads are handed on as they were read, without copying, save what would keep a buffer alive
//!   that is much larger ([`Payload`]);
//! - small chunks are gathered, and what is left of a large one when the rest of a PDU is waited for
//!   is copied: what is held is in proportion to what is buffered;
//! - a PDU is yielded when all of it is here, and its length is judged before any of its data is
//!   waited for: once all PDUs that are here have been taken, what is buffered is less than one of the
//!   permitted length;
//! - after an error the stream cannot be cut any more: the reader yields only that error.

use alloc::collections::VecDeque;

use holdfast_stdx::{Buf, Bytes, BytesMut, crc32c};
use thiserror::Error;

use crate::pdu::{HEADER_LENGTH, Header, Payload};

/// Bytes of a digest (RFC 7143 13.1).
pub(super) const DIGEST_LENGTH: usize = 4;

/// How PDUs are framed on a connection, as negotiated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Framing {
    /// Headers are followed by their CRC32C.
    pub header_digest: bool,
    /// Data segments are followed by their CRC32C.
    pub data_digest: bool,
    /// The longest data segment that the receiver takes, in bytes.
    pub data_length_max: usize,
}

impl Framing {
    /// How every connection begins: without digests, and 8192 bytes at most (RFC 7143 13.12).
    pub const LOGIN: Self = Self {
        header_digest: false,
        data_digest: false,
        data_length_max: 8192,
    };
}

/// A PDU, not yet looked at.
#[derive(Clone, Debug)]
pub struct RawPdu {
    /// The basic header segment.
    pub header: Header,
    /// The data segment, without padding.
    pub data: Payload,
}

/// Why there is no PDU. But for the last one, the stream cannot be cut any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum FrameError {
    /// The header's digest is wrong: nothing in it can be believed.
    #[error("the header digest is wrong")]
    HeaderDigest,
    /// The data segment is longer than this side said that it takes.
    #[error("the data segment is longer than was agreed")]
    DataTooLong(Header),
    /// The data's digest is wrong. The header is whole, so that the next PDU can be told from this
    /// one; what is to become of the session is the caller's to judge (RFC 7143 7.8).
    #[error("the data digest is wrong")]
    DataDigest(Header),
}

/// Chunks shorter than this are gathered: each has an entry in a list, and a buffer.
const GATHER_BELOW: usize = 1024;

#[derive(Debug)]
struct Chunk {
    bytes: Bytes,
    /// How long the buffer is that it keeps alive.
    buffer: usize,
}

/// Takes chunks, yields PDUs.
#[derive(Debug)]
pub struct PduReader {
    framing: Framing,
    chunks: VecDeque<Chunk>,
    /// Small chunks that came last.
    tail: BytesMut,
    buffered: usize,
    /// Bytes of the buffers that `chunks` lie in.
    held: usize,
    /// The header of the PDU that is being waited for.
    header: Option<Header>,
    failed: Option<FrameError>,
}

impl PduReader {
    /// A reader at the beginning of a stream.
    #[must_use]
    pub fn new(framing: Framing) -> Self {
        Self {
            framing,
            chunks: VecDeque::new(),
            tail: BytesMut::new(),
            buffered: 0,
            held: 0,
            header: None,
            failed: None,
        }
    }

    /// From the next PDU on, frames are as `framing` says. Must be called between PDUs, that is,
    /// in answer to the one that was yielded last.
    pub fn set_framing(&mut self, framing: Framing) {
        assert!(self.header.is_none(), "framing changes between PDUs");
        self.framing = framing;
    }

    /// How frames are read.
    #[must_use]
    pub const fn framing(&self) -> Framing {
        self.framing
    }

    /// Takes the next bytes of the stream, which have their buffer for themselves.
    pub fn push(&mut self, chunk: Bytes) {
        if chunk.is_empty() || self.failed.is_some() {
            return;
        }
        self.buffered += chunk.len();
        if chunk.len() < GATHER_BELOW {
            self.tail.extend_from_slice(&chunk);
            return;
        }
        self.seal();
        let buffer = chunk.len();
        self.put(chunk, buffer);
    }

    /// Bytes of memory that wait with what is [`buffered`](Self::buffered).
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.held + self.tail.capacity()
    }

    /// Bytes that wait to become a PDU.
    #[must_use]
    pub const fn buffered(&self) -> usize {
        self.buffered
    }

    /// Whether [`next_pdu`](Self::next_pdu) would get on: to a PDU, to the reason why there is none, or to a header at least, which is
    /// judged before the rest is waited for.
    #[must_use]
    pub fn can_advance(&self) -> bool {
        match self.header {
            _ if self.failed.is_some() => true,
            Some(header) => self.buffered >= self.framed_length(header.data_length()),
            None => self
                .header_length()
                .is_some_and(|length| self.buffered >= length),
        }
    }

    /// The next PDU, if all of it is here.
    ///
    /// # Errors
    /// [`FrameError`], again and again, once the stream cannot be cut; [`FrameError::DataDigest`] once
    /// for the PDU that it is about.
    pub fn next_pdu(&mut self) -> Result<Option<RawPdu>, FrameError> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        let result = self.advance();
        match result {
            Ok(Some(_)) => {}
            Ok(None) => self.compact(),
            Err(FrameError::DataDigest(_)) => {}
            Err(error) => {
                self.failed = Some(error);
                self.chunks.clear();
                self.tail = BytesMut::new();
                (self.buffered, self.held) = (0, 0);
            }
        }
        result
    }

    fn put(&mut self, bytes: Bytes, buffer: usize) {
        self.held += buffer;
        self.chunks.push_back(Chunk { bytes, buffer });
    }

    /// What was gathered becomes a chunk.
    fn seal(&mut self) {
        if !self.tail.is_empty() {
            let tail = core::mem::take(&mut self.tail);
            let buffer = tail.capacity();
            self.put(tail.freeze(), buffer);
        }
    }

    /// Lets go of a buffer of which little is left. Only the first chunk was taken from.
    fn compact(&mut self) {
        if let Some(front) = self.chunks.front_mut()
            && front.bytes.len() < front.buffer / 2
        {
            self.held -= front.buffer;
            front.bytes = Bytes::copy_from_slice(&front.bytes);
            front.buffer = front.bytes.len();
            self.held += front.buffer;
        }
    }

    fn advance(&mut self) -> Result<Option<RawPdu>, FrameError> {
        let Some(header) = self.current_header()? else {
            return Ok(None);
        };
        let data_length = header.data_length();
        let padded = data_length.next_multiple_of(4);
        let framed = self.framed_length(data_length);
        // Additional header segments were dealt with together with the header.
        if self.buffered < framed {
            return Ok(None);
        }
        self.header = None;
        if framed == padded {
            let mut data = Payload::new();
            self.take(data_length, |part, buffer, more| {
                data.push_part(part, buffer, more);
            });
            self.take(padded - data_length, |_, _, _| ());
            return Ok(Some(RawPdu { header, data }));
        }
        // The digest covers the padding (RFC 7143 11.2.3); copied together here, because our CRC
        // is of one piece.
        let mut whole = BytesMut::with_capacity(padded);
        self.take(padded, |part, _, _| whole.extend_from_slice(&part));
        if self.take_digest() != crc32c(&whole) {
            return Err(FrameError::DataDigest(header));
        }
        whole.truncate(data_length);
        Ok(Some(RawPdu {
            header,
            data: Payload::from(whole.freeze()),
        }))
    }

    /// The header of the PDU that begins here, its additional segments and digest taken too.
    fn current_header(&mut self) -> Result<Option<Header>, FrameError> {
        if let Some(header) = self.header {
            return Ok(Some(header));
        }
        let Some(length) = self.header_length().filter(|it| self.buffered >= *it) else {
            return Ok(None);
        };
        let digest = self.header_digest_length();
        let mut bytes = [0; HEADER_LENGTH + ADDITIONAL_LENGTH_MAX];
        let header = &mut bytes[..length - digest];
        self.copy_out(header);
        if digest > 0 && self.take_digest() != crc32c(header) {
            return Err(FrameError::HeaderDigest);
        }
        let [header, ..] = bytes.as_chunks::<HEADER_LENGTH>().0 else {
            unreachable!("the buffer is longer than a header");
        };
        let header = Header(*header);
        if header.data_length() > self.framing.data_length_max {
            return Err(FrameError::DataTooLong(header));
        }
        self.header = Some(header);
        Ok(Some(header))
    }

    /// How much of the stream the header takes that comes next, with its additional segments and its digest, as soon as that is
    /// known.
    fn header_length(&self) -> Option<usize> {
        let additional = usize::from(self.peek_byte(4)?) * 4;
        Some(HEADER_LENGTH + additional + self.header_digest_length())
    }

    const fn header_digest_length(&self) -> usize {
        if self.framing.header_digest {
            DIGEST_LENGTH
        } else {
            0
        }
    }

    /// How much of the stream a data segment takes, with its padding and its digest.
    const fn framed_length(&self, data_length: usize) -> usize {
        let digest = if data_length > 0 && self.framing.data_digest {
            DIGEST_LENGTH
        } else {
            0
        };
        data_length.next_multiple_of(4) + digest
    }

    fn peek_byte(&self, mut offset: usize) -> Option<u8> {
        for Chunk { bytes, .. } in &self.chunks {
            if let Some(byte) = bytes.get(offset) {
                return Some(*byte);
            }
            offset -= bytes.len();
        }
        self.tail.get(offset).copied()
    }

    fn take_digest(&mut self) -> u32 {
        let mut bytes = [0; DIGEST_LENGTH];
        self.copy_out(&mut bytes);
        // The CRC's bytes go out lowest first (RFC 7143 13.1: the bit reflection of its example).
        u32::from_le_bytes(bytes)
    }

    /// Takes the next bytes, which must be here, without a share of the buffers that they lie in.
    fn copy_out(&mut self, mut bytes: &mut [u8]) {
        assert!(bytes.len() <= self.buffered, "only what is here is taken");
        self.buffered -= bytes.len();
        while !bytes.is_empty() {
            let front = self.first_chunk();
            let (part, rest) = bytes.split_at_mut(bytes.len().min(front.len()));
            front.copy_to_slice(part);
            bytes = rest;
            self.drop_taken();
        }
    }

    /// What was not taken of the first chunk.
    fn first_chunk(&mut self) -> &mut Bytes {
        if self.chunks.is_empty() {
            self.seal();
        }
        let front = self.chunks.front_mut();
        &mut front.expect("what is buffered lies in chunks").bytes
    }

    /// Lets go of the first chunk, if all of it was taken.
    fn drop_taken(&mut self) {
        if let Some(front) = self.chunks.front()
            && front.bytes.is_empty()
        {
            self.held -= front.buffer;
            self.chunks.pop_front();
        }
    }

    /// Hands the next `length` bytes, which must be here, to `sink`: part by part, with the length
    /// of the buffer that the part lies in and of what follows the part.
    fn take(&mut self, mut length: usize, mut sink: impl FnMut(Bytes, usize, usize)) {
        assert!(length <= self.buffered, "only what is here is taken");
        self.buffered -= length;
        while length > 0 {
            let front = self.first_chunk();
            let part = front.split_to(length.min(front.len()));
            let buffer = self.chunks[0].buffer;
            length -= part.len();
            self.drop_taken();
            sink(part, buffer, length);
        }
    }
}

/// The longest additional header segments: their length is a byte that counts words.
const ADDITIONAL_LENGTH_MAX: usize = 255 * 4;
