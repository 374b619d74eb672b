//! Frames: a fixed header, a body of fields, a payload of blocks.
//!
//! Layout of the header (64 bytes, little-endian):
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 4 | magic `HFWR` |
//! | 4 | 2 | version that the receiver must speak to read it; of a hello: the newest to be spoken |
//! | 6 | 2 | opcode |
//! | 8 | 4 | body length |
//! | 12 | 4 | payload length |
//! | 16 | 4 | CRC-32C of the body |
//! | 20 | 4 | CRC-32C of a payload without checksums of its own, else zero |
//! | 24 | 36 | reserved, zero |
//! | 60 | 4 | CRC-32C of bytes 0 to 59 |

use alloc::vec::Vec;

use holdfast_stdx::{BufMut, Bytes, crc32c};

use crate::codec::{Reader, Writer};
use crate::hello::Hello;
use crate::message::Message;

/// The newest version that this code speaks; it speaks the older ones too, with peers that do not know
/// better. The list only ever grows at its end.
/// - Version 1: the first.
/// - Version 2: replicas are compared by digests.
/// - Version 3: so are those that are in sync.
/// - Version 4: in-sync secondaries copy to replicas that join.
/// - Version 5: nodes find out whether they follow the same metadata.
/// - Version 6: those of whom some do not say how many follow it with them, and whether they go on.
/// - Version 7: who has lost the right to write to a volume is fenced off; a command may compare, or set bits, where it writes.
/// - Version 8: whoever leads the slice that is written reads what is copied to it.
/// - Version 9: a secondary is not sent the data of a write that it has forwarded.
pub const WIRE_VERSION: u16 = 9;
/// The oldest version that this code speaks.
pub const WIRE_VERSION_MIN: u16 = 1;
/// Bytes of a frame's header.
pub const FRAME_HEADER_BYTES: usize = 64;
/// Bytes of a body at most: a heartbeat for 64 Ki slices, the checksums of 1 MiB, a slice's record.
pub const BODY_BYTES_MAX: usize = 4 << 20;
/// Bytes of a payload at most: an entry, or an answer to a read of that length.
pub const PAYLOAD_BYTES_MAX: usize = 1 << 20;

const MAGIC: u32 = u32::from_le_bytes(*b"HFWR");
const HELLO_OPCODE: u16 = 0;

/// Why bytes from a peer are refused. The connection cannot be used any further.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// These are not frames of ours.
    #[error("the peer does not speak this protocol")]
    Magic,
    /// The peer speaks another version.
    #[error(
        "the peer speaks version {0} of the protocol, this node speaks versions \
         {WIRE_VERSION_MIN} to {WIRE_VERSION}: update the older of the two"
    )]
    Version(u16),
    /// A checksum is wrong: the bytes changed on their way.
    #[error("a checksum of the message is wrong")]
    Checksum,
    /// A length is beyond its bound.
    #[error("the message is longer than any may be")]
    TooLong,
    /// A field holds what it may not, or the fields do not fill the body.
    #[error("the message is not well formed")]
    Malformed,
}

/// A frame's header, checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHeader {
    version: u16,
    opcode: u16,
    body_length: u32,
    payload_length: u32,
    body_checksum: u32,
    payload_checksum: u32,
}

impl FrameHeader {
    /// Reads a header.
    ///
    /// # Errors
    /// [`WireError`] if the bytes are not a header of this version, or announce more than the
    /// bounds allow.
    pub fn parse(bytes: &[u8; FRAME_HEADER_BYTES]) -> Result<Self, WireError> {
        let mut reader = Reader::new(bytes);
        if reader.u32()? != MAGIC {
            return Err(WireError::Magic);
        }
        if crc32c(&bytes[..60]).to_le_bytes() != bytes[60..] {
            return Err(WireError::Checksum);
        }
        let version = reader.u16()?;
        if !(WIRE_VERSION_MIN..=WIRE_VERSION).contains(&version) {
            return Err(WireError::Version(version));
        }
        let header = Self {
            version,
            opcode: reader.u16()?,
            body_length: reader.u32()?,
            payload_length: reader.u32()?,
            body_checksum: reader.u32()?,
            payload_checksum: reader.u32()?,
        };
        if reader.take(36)?.iter().any(|byte| *byte != 0) {
            return Err(WireError::Malformed);
        }
        let body_fits = header.body_length as usize <= BODY_BYTES_MAX;
        let payload_fits = header.payload_length as usize <= PAYLOAD_BYTES_MAX;
        if body_fits && payload_fits {
            Ok(header)
        } else {
            Err(WireError::TooLong)
        }
    }

    /// The version that the frame is of.
    #[must_use]
    pub const fn version(&self) -> u16 {
        self.version
    }

    /// Bytes that follow the header: the body, then the payload.
    #[must_use]
    pub const fn rest_length(&self) -> usize {
        self.body_length as usize + self.payload_length as usize
    }

    /// Puts it into room that is zero.
    fn write(&self, room: &mut [u8]) {
        let mut fields = &mut room[..];
        fields.put_u32_le(MAGIC);
        fields.put_u16_le(self.version);
        fields.put_u16_le(self.opcode);
        fields.put_u32_le(self.body_length);
        fields.put_u32_le(self.payload_length);
        fields.put_u32_le(self.body_checksum);
        fields.put_u32_le(self.payload_checksum);
        let checksum = crc32c(&room[..60]);
        room[60..].copy_from_slice(&checksum.to_le_bytes());
    }

    /// Cuts what follows the header into body and payload, and checks both.
    fn open<'a>(&self, rest: &'a Bytes) -> Result<(&'a [u8], Bytes), WireError> {
        assert!(
            rest.len() == self.rest_length(),
            "the reader brings what the header announced"
        );
        let body = &rest[..self.body_length as usize];
        let payload = rest.slice(self.body_length as usize..);
        if crc32c(body) != self.body_checksum {
            return Err(WireError::Checksum);
        }
        if self.payload_checksum != 0 && crc32c(&payload) != self.payload_checksum {
            return Err(WireError::Checksum);
        }
        Ok((body, payload))
    }
}

fn frame(
    (version, opcode): (u16, u16),
    body: Writer,
    payload: Vec<Bytes>,
    payload_checksum: u32,
) -> Vec<Bytes> {
    let payload_length: usize = payload.iter().map(Bytes::len).sum();
    let mut head = body.bytes;
    let (room, body) = head.split_at_mut(FRAME_HEADER_BYTES);
    assert!(
        body.len() <= BODY_BYTES_MAX,
        "a message of ours keeps to its bound"
    );
    assert!(
        payload_length <= PAYLOAD_BYTES_MAX,
        "a payload of ours keeps to its bound"
    );
    let header = FrameHeader {
        version,
        opcode,
        body_length: body.len() as u32,
        payload_length: payload_length as u32,
        body_checksum: crc32c(body),
        payload_checksum,
    };
    header.write(room);
    let mut parts = payload;
    parts.insert(0, Bytes::from(head));
    parts
}

/// The bytes of `message`, in parts to be sent one after the other.
#[must_use]
pub fn encode(message: &Message) -> Vec<Bytes> {
    let mut body = Writer::new();
    let mut payload = Vec::new();
    message.write(&mut body, &mut payload);
    let checksum = if message.payload_has_checksums() {
        0
    } else {
        assert!(payload.len() <= 1, "a checksum covers all of the payload");
        payload.first().map_or(0, |bytes| crc32c(bytes))
    };
    let kind = (message.version(), message.opcode());
    frame(kind, body, payload, checksum)
}

/// The message whose header was `header`, from the bytes that followed it.
///
/// # Errors
/// [`WireError`] if a checksum is wrong or a field is not well formed.
pub fn decode(header: &FrameHeader, rest: &Bytes) -> Result<Message, WireError> {
    let (body, payload) = header.open(rest)?;
    let mut reader = Reader::new(body);
    let message = Message::read(header.opcode, &mut reader, payload)?;
    reader.finish()?;
    Ok(message)
}

/// The bytes of `hello`.
#[must_use]
pub fn hello_to_frame(hello: &Hello) -> Vec<Bytes> {
    let mut body = Writer::new();
    hello.write(&mut body);
    frame((hello.version, HELLO_OPCODE), body, Vec::new(), 0)
}

/// The hello that a connection's first frame must be.
///
/// # Errors
/// [`WireError`] if the frame is another, a checksum is wrong or a field is not well formed.
pub fn hello_from_frame(header: &FrameHeader, rest: &Bytes) -> Result<Hello, WireError> {
    if header.opcode != HELLO_OPCODE {
        return Err(WireError::Malformed);
    }
    let (body, _) = header.open(rest)?;
    let mut reader = Reader::new(body);
    let hello = Hello::read(&mut reader, header.version)?;
    reader.finish()?;
    Ok(hello)
}

#[cfg(test)]
#[path = "frame_tests.rs"]
mod tests;
