//! What a connection with TLS has between its queue and its socket: records that were sealed and not sent yet, and bytes that
//! were read and not opened or not handed on yet.
//!
//! Invariants:
//! - what is sealed ahead is bounded, and so is what is read ahead: who does not read is sent no more;
//! - a record is opened where it was read to, and what it held is copied once, to where it is wanted.

use std::io;
use std::ops::Range;

use holdfast_stdx::{BufMut, Bytes};
use holdfast_tls::{
    Opened, RECORD_BYTES_MAX, RecordError, Records, SEALED_BYTES_MAX, Secured, record_length,
};

use crate::limits::{SEAL_PARTS_MAX, SEALED_READ_BYTES};
use crate::stream::Queue;

/// One connection's.
pub(crate) struct Sealing {
    records: Records,
    /// Records that wait to be sent.
    pub(crate) sealed: Queue,
    /// What was read: what was opened of it, then what was not.
    read: Box<[u8]>,
    opened: Range<usize>,
    unopened: Range<usize>,
    /// The other end has said that nothing follows.
    is_ended: bool,
}

/// Gives records to a queue.
struct Sealed<'a>(&'a mut Queue);

impl Extend<Vec<u8>> for Sealed<'_> {
    fn extend<T: IntoIterator<Item = Vec<u8>>>(&mut self, records: T) {
        self.0.extend(records.into_iter().map(Bytes::from));
    }
}

impl Sealing {
    /// Goes on where a handshake has ended.
    pub(crate) fn new(secured: Secured) -> Self {
        let Secured {
            records,
            opened,
            unopened,
            ..
        } = secured;
        let ahead = opened.len() + unopened.len();
        let mut read = vec![0; SEALED_READ_BYTES.max(ahead + SEALED_BYTES_MAX)];
        read[..opened.len()].copy_from_slice(&opened);
        read[opened.len()..ahead].copy_from_slice(&unopened);
        Self {
            records,
            sealed: Queue::default(),
            read: read.into_boxed_slice(),
            opened: 0..opened.len(),
            unopened: opened.len()..ahead,
            is_ended: false,
        }
    }

    /// Seals what waits in `queue`, as long as no more than `bytes_max` are sealed.
    pub(crate) fn seal(&mut self, queue: &mut Queue, bytes_max: usize) -> io::Result<()> {
        while queue.bytes() > 0 && self.sealed.bytes() < bytes_max {
            let mut parts: [&[u8]; SEAL_PARTS_MAX] = [&[]; SEAL_PARTS_MAX];
            let (mut count, mut bytes) = (0, 0);
            for (part, waits) in parts.iter_mut().zip(queue.parts()) {
                *part = &waits[..waits.len().min(RECORD_BYTES_MAX - bytes)];
                count += 1;
                bytes += part.len();
                if bytes == RECORD_BYTES_MAX {
                    break;
                }
            }
            let mut sealed = Sealed(&mut self.sealed);
            let done = self.records.seal(&parts[..count], &mut sealed);
            done.map_err(broken)?;
            queue.advance(bytes);
        }
        Ok(())
    }

    /// Seals the end of what is sent.
    pub(crate) fn seal_end(&mut self) -> io::Result<()> {
        let mut sealed = Sealed(&mut self.sealed);
        self.records.seal_end(&mut sealed).map_err(broken)
    }

    /// Whether there is something to take without asking the kernel.
    pub(crate) fn is_ready(&self) -> bool {
        !self.opened.is_empty() || self.is_ended || !matches!(self.next_length(), Ok(None))
    }

    /// Nothing more comes, and everything that came was taken.
    pub(crate) fn is_ended(&self) -> bool {
        self.is_ended && self.opened.is_empty()
    }

    /// Moves what was opened to where it is wanted, as much as has room there; how many bytes.
    pub(crate) fn take(&mut self, buffer: &mut impl BufMut) -> usize {
        let count = self.opened.len().min(buffer.remaining_mut());
        let end = self.opened.start + count;
        buffer.put_slice(&self.read[self.opened.start..end]);
        self.opened.start = end;
        count
    }

    /// Opens the next record, if it is here whole and there was one. If it is refused, what waits to be sent ends with why.
    pub(crate) fn open(&mut self) -> io::Result<bool> {
        self.try_open().map_err(|error| {
            let refusal = self.records.seal_refusal(&error);
            self.sealed.extend(refusal.map(Bytes::from));
            broken(error)
        })
    }

    fn try_open(&mut self) -> Result<bool, RecordError> {
        assert!(self.opened.is_empty(), "what was opened has been taken");
        if self.is_ended {
            return Ok(false);
        }
        let Some(length) = self.next_length()? else {
            return Ok(false);
        };
        let start = self.unopened.start;
        let record = &mut self.read[start..start + length];
        match self.records.open(record)? {
            Opened::Data(range) => self.opened = start + range.start..start + range.end,
            Opened::Nothing => {}
            Opened::End => self.is_ended = true,
        }
        self.unopened.start += length;
        Ok(true)
    }

    /// Where more can be read to, when there is no whole record.
    pub(crate) fn room(&mut self) -> &mut [u8] {
        assert!(self.opened.is_empty(), "what was opened has been taken");
        let length = self.unopened.len();
        self.read.copy_within(self.unopened.clone(), 0);
        self.unopened = 0..length;
        &mut self.read[length..]
    }

    /// So much was read there.
    pub(crate) fn came(&mut self, count: usize) {
        self.unopened.end += count;
        assert!(self.unopened.end <= self.read.len(), "it was read there");
    }

    /// How long the next record is, if it is here whole.
    fn next_length(&self) -> Result<Option<usize>, RecordError> {
        let here = &self.read[self.unopened.clone()];
        let length = record_length(here)?;
        Ok(length.filter(|length| *length <= here.len()))
    }
}

fn broken(error: RecordError) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

#[cfg(test)]
#[path = "sealing_tests.rs"]
mod tests;
