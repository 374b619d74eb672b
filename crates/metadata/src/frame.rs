//! What a client and a server send each other over TCP.
//!
//! A frame is the length of its body (32 bits, little-endian), the body's CRC-32C (32 bits), and
//! the body. The client begins with [`ClientFrame::Hello`], and the server answers it with
//! [`ServerFrame::Welcome`]; from then on requests go one way and answers the other, matched by
//! their tokens. A side that cannot understand the other says why, if it can, and hangs up.
//!
//! Invariants:
//! - nothing is allocated for a body before its length is known to be within the limit, and then
//!   only as its bytes arrive;
//! - a body is looked at only after its checksum has held.

use std::io;

use holdfast_model::ClusterId;
use holdfast_model::metadata::{
    MetadataAnswer, MetadataRequest, MetadataToken, RANGE_BYTES_MAX, TRANSACTION_BYTES_MAX,
    TRANSACTION_OPERATIONS_MAX,
};
use holdfast_stdx::{BufMut, crc32c};
use tokio::io::{AsyncRead, AsyncReadExt};

use crate::codec::{self, CodecError, Encoded};

/// The protocol's version. 1: this one.
pub const VERSION: u16 = 1;
/// How every connection begins: the client's first body opens with it, and the server's.
pub const MAGIC: [u8; 4] = *b"HFmd";
/// Bytes in an access token at most.
pub const ACCESS_TOKEN_LENGTH_MAX: usize = 256;

/// Bytes in the body of a hello, and of the answer to it, at most.
pub(crate) const HELLO_BYTES_MAX: u32 = 512;
/// Bytes in the body of a request at most: its keys and values, and little more for each.
pub(crate) const REQUEST_BYTES_MAX: u32 =
    (TRANSACTION_BYTES_MAX + 3 * TRANSACTION_OPERATIONS_MAX * 32 + 64) as u32;
/// Bytes in the body of an answer at most: a range's keys and values, with what they are counted
/// for beyond their own bytes, and the results of 128 operations.
pub(crate) const ANSWER_BYTES_MAX: u32 =
    (RANGE_BYTES_MAX + TRANSACTION_OPERATIONS_MAX * 16 + 64) as u32;

const HEADER_BYTES: usize = 8;
/// What a body's buffer begins with, however long the header says that the body is.
const BUFFER_BYTES: u32 = 64 << 10;

/// What a client sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientFrame {
    /// The first frame.
    Hello {
        /// The version that the client speaks.
        version: u16,
        /// The cluster that it belongs to.
        cluster: ClusterId,
        /// What admits it; empty for none.
        access_token: String,
    },
    /// A request.
    Request {
        /// Comes back with the answers.
        token: MetadataToken,
        /// What is asked.
        request: MetadataRequest,
    },
}

/// What a server sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerFrame {
    /// The answer to a hello.
    Welcome {
        /// The version that the server speaks.
        version: u16,
    },
    /// The server hangs up.
    Refused(Refusal),
    /// An answer.
    Answer {
        /// The request's token.
        token: MetadataToken,
        /// The answer.
        answer: MetadataAnswer,
    },
}

/// Why a server hangs up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// It speaks this version only.
    #[error("the server speaks version {0} of the protocol, this program version {VERSION}")]
    Version(u16),
    /// It holds the metadata of this cluster.
    #[error("the server holds the metadata of cluster {0}, which is another one")]
    Cluster(ClusterId),
    /// The access token is not the one.
    #[error("the access token is wrong")]
    AccessToken,
    /// It has as many connections as it takes.
    #[error("the server has too many connections")]
    TooMany,
    /// What came is not the protocol.
    #[error("the server did not understand what was sent")]
    Malformed,
    /// Nothing came for too long, or what was sent was not taken.
    #[error("the connection stood still for too long")]
    TooSlow,
}

/// Why a frame could not be read.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// The connection broke, or ended within a frame.
    #[error("the connection broke")]
    Io(#[from] io::Error),
    /// The other side has hung up, between two frames.
    #[error("the connection was closed")]
    Closed,
    /// The header names a body of this length.
    #[error("a frame of {0} bytes is too long")]
    TooLong(u32),
    /// The body is not what its checksum is of.
    #[error("the checksum of a frame is wrong")]
    Checksum,
    /// The body is no frame.
    #[error("a frame is malformed")]
    Body(#[from] CodecError),
}

/// The bytes of a frame.
pub(crate) fn to_frame(value: &impl Encoded) -> Vec<u8> {
    let mut frame = vec![0; HEADER_BYTES];
    value.encode(&mut frame);
    let body = &frame[HEADER_BYTES..];
    let length = u32::try_from(body.len()).expect("the limits keep frames below 4 GiB");
    assert!(
        length <= ANSWER_BYTES_MAX,
        "the store keeps its answers within the limits"
    );
    let checksum = crc32c(body);
    frame[..4].copy_from_slice(&length.to_le_bytes());
    frame[4..HEADER_BYTES].copy_from_slice(&checksum.to_le_bytes());
    frame
}

/// Reads one frame whose body is of `length_max` bytes at most. A frame is lost if this is
/// cancelled.
pub(crate) async fn read_frame<T: Encoded>(
    source: &mut (impl AsyncRead + Unpin),
    length_max: u32,
) -> Result<T, FrameError> {
    let mut header = [0; HEADER_BYTES];
    if source.read(&mut header[..1]).await? == 0 {
        return Err(FrameError::Closed);
    }
    source.read_exact(&mut header[1..]).await?;
    let [a, b, c, d, e, f, g, h] = header;
    let length = u32::from_le_bytes([a, b, c, d]);
    let checksum = u32::from_le_bytes([e, f, g, h]);
    if length > length_max {
        return Err(FrameError::TooLong(length));
    }
    let mut body = Vec::with_capacity(length.min(BUFFER_BYTES) as usize);
    source
        .take(u64::from(length))
        .read_to_end(&mut body)
        .await?;
    if body.len() < length as usize {
        return Err(FrameError::Io(io::ErrorKind::UnexpectedEof.into()));
    }
    if crc32c(&body) != checksum {
        return Err(FrameError::Checksum);
    }
    Ok(codec::from_bytes(&body)?)
}

fn decode_magic(source: &mut &[u8]) -> Result<(), CodecError> {
    let magic = u32::decode(source)?.to_le_bytes();
    if magic == MAGIC {
        Ok(())
    } else {
        Err(CodecError::Tag(magic[0]))
    }
}

impl Encoded for ClientFrame {
    fn encode(&self, target: &mut Vec<u8>) {
        match self {
            Self::Hello {
                version,
                cluster,
                access_token,
            } => {
                target.put_u8(1);
                target.put_slice(&MAGIC);
                version.encode(target);
                cluster.0.encode(target);
                access_token.encode(target);
            }
            Self::Request { token, request } => {
                target.put_u8(2);
                token.0.encode(target);
                request.encode(target);
            }
        }
    }

    fn decode(source: &mut &[u8]) -> Result<Self, CodecError> {
        match u8::decode(source)? {
            1 => {
                decode_magic(source)?;
                Ok(Self::Hello {
                    version: Encoded::decode(source)?,
                    cluster: ClusterId(Encoded::decode(source)?),
                    access_token: Encoded::decode(source)?,
                })
            }
            2 => Ok(Self::Request {
                token: MetadataToken(Encoded::decode(source)?),
                request: Encoded::decode(source)?,
            }),
            tag => Err(CodecError::Tag(tag)),
        }
    }
}

impl Encoded for ServerFrame {
    fn encode(&self, target: &mut Vec<u8>) {
        match self {
            Self::Welcome { version } => {
                target.put_u8(1);
                target.put_slice(&MAGIC);
                version.encode(target);
            }
            Self::Refused(refusal) => {
                target.put_u8(2);
                refusal.encode(target);
            }
            Self::Answer { token, answer } => {
                target.put_u8(3);
                token.0.encode(target);
                answer.encode(target);
            }
        }
    }

    fn decode(source: &mut &[u8]) -> Result<Self, CodecError> {
        match u8::decode(source)? {
            1 => {
                decode_magic(source)?;
                Ok(Self::Welcome {
                    version: Encoded::decode(source)?,
                })
            }
            2 => Encoded::decode(source).map(Self::Refused),
            3 => Ok(Self::Answer {
                token: MetadataToken(Encoded::decode(source)?),
                answer: Encoded::decode(source)?,
            }),
            tag => Err(CodecError::Tag(tag)),
        }
    }
}

impl Encoded for Refusal {
    fn encode(&self, target: &mut Vec<u8>) {
        match self {
            Self::Version(version) => {
                target.put_u8(1);
                version.encode(target);
            }
            Self::Cluster(cluster) => {
                target.put_u8(2);
                cluster.0.encode(target);
            }
            Self::AccessToken => target.put_u8(3),
            Self::TooMany => target.put_u8(4),
            Self::Malformed => target.put_u8(5),
            Self::TooSlow => target.put_u8(6),
        }
    }

    fn decode(source: &mut &[u8]) -> Result<Self, CodecError> {
        match u8::decode(source)? {
            1 => Encoded::decode(source).map(Self::Version),
            2 => Ok(Self::Cluster(ClusterId(Encoded::decode(source)?))),
            3 => Ok(Self::AccessToken),
            4 => Ok(Self::TooMany),
            5 => Ok(Self::Malformed),
            6 => Ok(Self::TooSlow),
            tag => Err(CodecError::Tag(tag)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn read(bytes: &[u8]) -> Result<ClientFrame, FrameError> {
        read_frame(&mut &bytes[..], HELLO_BYTES_MAX).await
    }

    fn hello() -> ClientFrame {
        ClientFrame::Hello {
            version: VERSION,
            cluster: ClusterId(7),
            access_token: "secret".to_owned(),
        }
    }

    #[tokio::test]
    async fn frames_are_read_back_one_after_the_other() {
        let request = ClientFrame::Request {
            token: MetadataToken(3),
            request: MetadataRequest::Unwatch,
        };
        let bytes = [to_frame(&hello()), to_frame(&request)].concat();
        let mut source = &bytes[..];
        for expected in [hello(), request] {
            let frame = read_frame::<ClientFrame>(&mut source, HELLO_BYTES_MAX).await;
            assert_eq!(frame.expect("what was written reads"), expected);
        }
        let end = read_frame::<ClientFrame>(&mut source, HELLO_BYTES_MAX).await;
        assert!(matches!(end, Err(FrameError::Closed)));
    }

    #[tokio::test]
    async fn damage_is_told_apart() {
        let good = to_frame(&hello());
        for length in 1..good.len() {
            assert!(matches!(
                read(&good[..length]).await,
                Err(FrameError::Io(_))
            ));
        }
        for place in 0..good.len() {
            let mut bad = good.clone();
            bad[place] ^= 0x40;
            assert!(read(&bad).await.is_err(), "a flipped bit at {place}");
        }
        let mut long = good.clone();
        long[..4].copy_from_slice(&(HELLO_BYTES_MAX + 1).to_le_bytes());
        assert!(matches!(read(&long).await, Err(FrameError::TooLong(_))));
        assert!(matches!(
            read(b"GET / HTTP/1.1\r\n\r\n").await,
            Err(FrameError::TooLong(_))
        ));
        let magic = b"\x01HTTP";
        let other = [
            &5_u32.to_le_bytes()[..],
            &crc32c(magic).to_le_bytes(),
            magic,
        ]
        .concat();
        assert!(matches!(
            read(&other).await,
            Err(FrameError::Body(CodecError::Tag(b'H')))
        ));
    }
}
