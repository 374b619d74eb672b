//! Puts PDUs into a stream (RFC 7143 11.2).

use alloc::vec::Vec;

use holdfast_stdx::{BufMut, Bytes, BytesMut, crc32c};

use super::reader::DIGEST_LENGTH;
use crate::pdu::{Framing, HEADER_LENGTH, Header};

const PADDING: [u8; 3] = [0; 3];

/// Appends the PDU of `header` and `data` to `parts`, as `framing` says; the data is not copied.
/// Returns its bytes in the stream.
///
/// Panics if the data is longer than a PDU can say (2²⁴ bytes); what the peer takes is the
/// caller's to know.
pub fn frame(
    mut header: Header,
    data: Vec<Bytes>,
    framing: Framing,
    parts: &mut Vec<Bytes>,
) -> usize {
    let length: usize = data.iter().map(Bytes::len).sum();
    header.set_data_length(length);
    let mut head = BytesMut::with_capacity(HEADER_LENGTH + DIGEST_LENGTH);
    head.put_slice(&header.0);
    if framing.header_digest {
        head.put_u32_le(crc32c(&header.0));
    }
    let mut total = head.len();
    parts.push(head.freeze());
    if length == 0 {
        return total;
    }
    let padding = &PADDING[..length.next_multiple_of(4) - length];
    let mut tail = BytesMut::new();
    tail.put_slice(padding);
    if framing.data_digest {
        tail.put_u32_le(data_digest(&data, padding));
    }
    total += length + tail.len();
    parts.extend(data.into_iter().filter(|part| !part.is_empty()));
    if !tail.is_empty() {
        parts.push(tail.freeze());
    }
    total
}

fn data_digest(data: &[Bytes], padding: &[u8]) -> u32 {
    if let ([part], []) = (data, padding) {
        return crc32c(part);
    }
    let mut whole = BytesMut::new();
    for part in data {
        whole.put_slice(part);
    }
    whole.put_slice(padding);
    crc32c(&whole)
}
