//! What is told of requests and events in a run's trace: checksums stand for data.

use holdfast_model::{DiskOp, DiskRequest, PAGE_SIZE};
use holdfast_stdx::{Bytes, crc32c};
use holdfast_store::{BlockRead, StoreEvent};

/// A request, with the checksum of what it writes.
pub(crate) fn describe_request(request: &DiskRequest) -> String {
    let op = match &request.op {
        DiskOp::Write {
            offset,
            parts,
            durable,
        } => {
            let bytes: usize = parts.iter().map(Bytes::len).sum();
            let sums: Vec<u32> = parts.iter().map(|part| crc32c(part)).collect();
            format!("write {offset}+{bytes} durable {durable} {sums:x?}")
        }
        other => format!("{other:?}"),
    };
    format!("disk {} {} {op}", request.disk.0, request.token.0)
}

/// An event, with checksums for data.
pub(crate) fn describe_event(event: &StoreEvent) -> String {
    match event {
        StoreEvent::ReadDone { token, blocks } => {
            let sums: Vec<(u8, u32)> = blocks
                .iter()
                .map(|block| match block {
                    BlockRead::Data { checksum, .. } => (0, *checksum),
                    BlockRead::Zero => (1, 0),
                    BlockRead::Bad { checksum } => (2, checksum.unwrap_or(0)),
                })
                .collect();
            format!("read {} {sums:x?}", token.0)
        }
        StoreEvent::Opened(recovered) => format!("opened, use {}", recovered.use_counter),
        other => format!("{other:?}"),
    }
}

/// Whether a page is written that waits for nothing else: destage flushes many together.
pub(crate) fn is_placed_page(request: &DiskRequest) -> bool {
    match &request.op {
        DiskOp::Write { parts, durable, .. } => {
            *durable && matches!(&parts[..], [page] if page.len() == PAGE_SIZE)
        }
        DiskOp::Read { .. } | DiskOp::Discard { .. } | DiskOp::Flush => false,
    }
}
