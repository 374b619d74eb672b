//! The fields of each message, in their order.
//!
//! Invariant: `write` and `read` of a message are each other's inverse.

mod access;
mod catch_up;
mod compare;
mod forward;
mod lease;
mod log;
mod space;
mod supply;
mod vouch;

use alloc::vec::Vec;

use holdfast_model::{BLOCK_SIZE, Checksums};
use holdfast_stdx::{Bytes, crc32c};

use super::{BlockContent, Content, Contents};
use crate::WireError;
use crate::codec::{BLOCKS_MAX, Reader, Writer};

const CONTENT_BYTES_MIN: usize = 8 + 1;

/// A message's bytes.
pub(super) trait Body: Sized {
    fn write(&self, body: &mut Writer, payload: &mut Vec<Bytes>);
    fn read(body: &mut Reader<'_>, payload: &mut Payload) -> Result<Self, WireError>;
}

/// The payload as the fields take it, front to back.
pub(super) struct Payload(pub(super) Bytes);

impl Payload {
    fn take(&mut self, count: usize) -> Result<Bytes, WireError> {
        if count > self.0.len() {
            return Err(WireError::Malformed);
        }
        Ok(self.0.split_to(count))
    }
}

fn read_bool(body: &mut Reader<'_>) -> Result<bool, WireError> {
    match body.u8()? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(WireError::Malformed),
    }
}

fn write_data(data: &Bytes, checksums: &[u32], body: &mut Writer, payload: &mut Vec<Bytes>) {
    assert!(
        data.len() == checksums.len() * BLOCK_SIZE,
        "each block has its checksum"
    );
    write_checksums(checksums, body);
    payload.push(data.clone());
}

fn write_checksums(checksums: &[u32], body: &mut Writer) {
    body.u32(checksums.len() as u32);
    for checksum in checksums {
        body.u32(*checksum);
    }
}

/// Those of one to [`BLOCKS_MAX`] blocks.
fn read_checksums(body: &mut Reader<'_>) -> Result<Checksums, WireError> {
    let count = body.count(4)?;
    if count == 0 || count > BLOCKS_MAX {
        return Err(WireError::Malformed);
    }
    (0..count).map(|_| body.u32()).collect()
}

fn read_data(
    body: &mut Reader<'_>,
    payload: &mut Payload,
) -> Result<(Bytes, Checksums), WireError> {
    let checksums = read_checksums(body)?;
    let data = payload.take(checksums.len() * BLOCK_SIZE)?;
    let intact = data
        .chunks_exact(BLOCK_SIZE)
        .map(crc32c)
        .eq(checksums.iter().copied());
    if intact {
        Ok((data, checksums))
    } else {
        Err(WireError::Checksum)
    }
}

fn write_contents(contents: &[Content], body: &mut Writer, payload: &mut Vec<Bytes>) {
    body.u32(contents.len() as u32);
    for Content { range, content } in contents {
        body.range(*range);
        match content {
            BlockContent::Data { data, checksums } => {
                assert!(
                    checksums.len() == range.count() as usize,
                    "data fills its range"
                );
                body.u8(0);
                write_data(data, checksums, body, payload);
            }
            BlockContent::Zero => body.u8(1),
            BlockContent::Bad => body.u8(2),
        }
    }
}

/// Contents of at most [`BLOCKS_MAX`] blocks, all together.
fn read_contents(body: &mut Reader<'_>, payload: &mut Payload) -> Result<Contents, WireError> {
    let mut left = BLOCKS_MAX;
    (0..body.count(CONTENT_BYTES_MIN)?)
        .map(|_| {
            let range = body.part()?;
            left = left
                .checked_sub(range.count() as usize)
                .ok_or(WireError::Malformed)?;
            let content = match body.u8()? {
                0 => {
                    let (data, checksums) = read_data(body, payload)?;
                    if checksums.len() != range.count() as usize {
                        return Err(WireError::Malformed);
                    }
                    BlockContent::Data { data, checksums }
                }
                1 => BlockContent::Zero,
                2 => BlockContent::Bad,
                _ => return Err(WireError::Malformed),
            };
            Ok(Content { range, content })
        })
        .collect()
}
