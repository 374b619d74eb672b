//! Puts PDUs into a stream (RFC 7143 11.2).

use alloc::vec::Vec;

use holdfast_stdx::{BufMut, Bytes, BytesMut, crc32c};

use crate::pdu::{Framing, Header};

const PADDING: [u8; 3] = [0; 3];

/// Appends the PDU of `header` and `data` to `parts`, as `framing` says; the data is not copied.
/// Returns its bytes in the stream.
///
/// Panics if the data is longer than a PDU can say (2²⁴ bytes); what the peer takes is the
/// caller's to know.
pub fn frame(
    mut header: Header,
    mut data: Vec<Bytes>,
    framing: Framing,
    parts: &mut Vec<Bytes>,
) -> usize {
    let length: usize = data.iter().map(Bytes::len).sum();
    header.set_data_length(length);
    let head = match framing.header_digest {
        true => [&header.0[..], &crc32c(&header.0).to_le_bytes()].concat(),
        false => header.0.to_vec(),
    };
    let mut total = head.len();
    data.retain(|part| !part.is_empty());
    if length > 0 {
        let padding = &PADDING[..length.next_multiple_of(4) - length];
        let mut tail = padding.to_vec();
        if framing.data_digest {
            tail.extend(data_digest(&data, padding).to_le_bytes());
        }
        total += length + tail.len();
        if !tail.is_empty() {
            data.push(tail.into());
        }
    }
    if parts.is_empty() {
        // The list of the data is that of all: mostly there is no other.
        data.insert(0, head.into());
        *parts = data;
    } else {
        parts.push(head.into());
        parts.append(&mut data);
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
