//! A device, open for reading.
//!
//! It refuses to write, and to hold a lock: a node that wants to start while its device is looked
//! at is not kept from it.
//!
//! Invariant: what cannot be read, or lies beyond the device's end, is zeros and named as
//! unreadable; a read never fails as a whole because a part of it does.

use std::fs::{File, OpenOptions};
use std::io::ErrorKind;
use std::ops::Range;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use holdfast_disk::lock_holder;
use holdfast_format::PatientRead;
use holdfast_model::{BLOCK_SIZE, DiskError, DiskOp};
use holdfast_node::predecessor::{self, Holder};
use holdfast_stdx::{Bytes, BytesMut};
use rustix::fs::{FlockOperation, OFlags, SeekFrom, flock};
use rustix::io::Errno;
use serde::Serialize;

use crate::failure::Failure;

const BLOCK: u64 = BLOCK_SIZE as u64;

/// Somebody has the device open to change it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct InUse {
    /// The process, where the system tells.
    pub(crate) process: Option<u32>,
}

/// A device, open for reading.
#[derive(Debug)]
pub(crate) struct Source {
    path: PathBuf,
    file: File,
    is_block_device: bool,
    bytes: u64,
}

/// What was read, with the parts of the device that could not be.
#[derive(Debug)]
pub(crate) struct Reading {
    /// As many bytes as were asked for; zeros where they could not be read.
    pub(crate) bytes: Bytes,
    /// By offsets on the device, in order.
    pub(crate) unreadable: Vec<Range<u64>>,
}

impl Reading {
    /// Whether all of the device's bytes from `offset` on could be read.
    pub(crate) fn is_readable(&self, offset: u64, length: usize) -> bool {
        let end = offset + length as u64;
        !self
            .unreadable
            .iter()
            .any(|range| range.start < end && offset < range.end)
    }
}

impl Source {
    /// Opens a file or a block device.
    pub(crate) fn open(path: &Path) -> Result<Self, Failure> {
        let refused = |action: &str, error: &dyn std::fmt::Display| {
            Failure::new(format!("{action} {}: {error}", path.display()))
                .hint("name a device that exists, and that you may read")
        };
        let kind = std::fs::metadata(path).map_err(|error| refused("look at", &error))?;
        let is_block_device = kind.file_type().is_block_device();
        if !is_block_device && !kind.is_file() {
            return Err(Failure::new(format!(
                "{} is neither a file nor a block device",
                path.display()
            ))
            .hint("name a node's device, its directory, or its node.toml"));
        }
        let file = File::open(path).map_err(|error| refused("open", &error))?;
        let bytes = rustix::fs::seek(&file, SeekFrom::End(0))
            .map_err(|error| refused("ask for the size of", &error))?;
        Ok(Self {
            path: path.to_owned(),
            file,
            is_block_device,
            bytes,
        })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The device's size.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// What tells the device from every other, under whatever name.
    pub(crate) fn identity(&self) -> Option<(u64, u64)> {
        let found = self.file.metadata().ok()?;
        if self.is_block_device {
            return Some((u64::MAX, found.rdev()));
        }
        Some((found.dev(), found.ino()))
    }

    /// Who has the device, if anybody. A node holds a file by `flock` and a block device by
    /// `O_EXCL`; both can only be asked for by taking them, which is let go at once.
    pub(crate) fn in_use(&self) -> Option<InUse> {
        let held = if self.is_block_device {
            let exclusively = OpenOptions::new()
                .read(true)
                .custom_flags(OFlags::EXCL.bits() as i32)
                .open(&self.path);
            exclusively.is_err_and(|error| error.kind() == ErrorKind::ResourceBusy)
        } else {
            match flock(&self.file, FlockOperation::NonBlockingLockShared) {
                Ok(()) => {
                    // Nothing depends on its success: closing the file would do it too.
                    let _ = flock(&self.file, FlockOperation::Unlock);
                    false
                }
                Err(errno) => errno == Errno::WOULDBLOCK,
            }
        };
        held.then(|| InUse {
            process: lock_holder(self.file.as_fd()),
        })
    }

    /// Waits for a process that is ending to let go of the device: one that was killed a moment ago may
    /// still have writes of its own on their way. Nobody is waited for who lives.
    ///
    /// # Errors
    /// Who has it.
    pub(crate) fn wait_for_release(&self) -> Result<(), InUse> {
        predecessor::attempt(
            || self.in_use().map_or(Ok(()), Err),
            |in_use| Some(Holder::from(in_use.process)),
        )
    }

    /// Reads exactly so many bytes.
    pub(crate) fn read(&self, offset: u64, length: usize) -> Result<Bytes, DiskError> {
        let end = offset.checked_add(length as u64);
        if end.is_none_or(|end| end > self.bytes) {
            return Err(DiskError::Short);
        }
        let mut bytes = BytesMut::zeroed(length);
        match self.file.read_exact_at(&mut bytes, offset) {
            Ok(()) => Ok(bytes.freeze()),
            Err(error) => Err(error.raw_os_error().map_or(DiskError::Short, DiskError::Os)),
        }
    }

    /// Reads whole blocks: at once, or, where that fails, one by one.
    pub(crate) fn read_patiently(&self, offset: u64, length: usize) -> Reading {
        let end = offset.saturating_add(length as u64);
        let there = self.bytes.min(end).saturating_sub(offset) / BLOCK * BLOCK;
        let mut unreadable = Vec::new();
        let mut bytes = BytesMut::zeroed(length);
        if there > 0 {
            let (mut reader, mut op) = PatientRead::start(offset, there as u32);
            let read = loop {
                let DiskOp::Read { offset, length } = op else {
                    unreachable!("a patient read reads");
                };
                let result = self.read(offset, length as usize);
                if result.is_err() && u64::from(length) == BLOCK {
                    add(&mut unreadable, offset..offset + BLOCK);
                }
                match reader.take(result) {
                    Ok(bytes) => break bytes,
                    Err(next) => op = next,
                }
            };
            bytes[..there as usize].copy_from_slice(&read);
        }
        if offset + there < end {
            add(&mut unreadable, offset + there..end);
        }
        Reading {
            bytes: bytes.freeze(),
            unreadable,
        }
    }
}

fn add(ranges: &mut Vec<Range<u64>>, range: Range<u64>) {
    match ranges.last_mut() {
        Some(last) if last.end == range.start => last.end = range.end,
        // A block that failed alone and at once is the same block.
        Some(last) if *last == range => {}
        _ => ranges.push(range),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::process::{Command, Stdio};
    use std::thread;
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_lies_beyond_the_end_is_zeros_and_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("device");
        std::fs::write(&path, vec![7; 3 * BLOCK_SIZE + 100]).unwrap();
        let source = Source::open(&path).unwrap();
        let reading = source.read_patiently(BLOCK, 4 * BLOCK_SIZE);
        assert_eq!(reading.bytes[..2 * BLOCK_SIZE], [7; 2 * BLOCK_SIZE]);
        assert_eq!(reading.bytes[2 * BLOCK_SIZE..], [0; 2 * BLOCK_SIZE]);
        assert_eq!(reading.unreadable, vec![3 * BLOCK..5 * BLOCK; 1]);
        assert!(reading.is_readable(2 * BLOCK, BLOCK_SIZE));
        assert!(!reading.is_readable(3 * BLOCK - 1, 2));
        let far = source.read_patiently(1 << 40, BLOCK_SIZE);
        assert_eq!(far.unreadable, vec![1 << 40..(1 << 40) + BLOCK; 1]);
        assert_eq!(source.read(u64::MAX, 512), Err(DiskError::Short));
    }

    #[test]
    fn who_has_the_device_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("device");
        std::fs::write(&path, "").unwrap();
        let source = Source::open(&path).unwrap();
        assert_eq!(source.in_use(), None);
        let other = File::open(&path).unwrap();
        flock(&other, FlockOperation::NonBlockingLockExclusive).unwrap();
        let process = Some(std::process::id());
        assert_eq!(source.in_use(), Some(InUse { process }));
        drop(other);
        assert_eq!(source.in_use(), None);
        // Looking does not keep anybody from it.
        let other = File::open(&path).unwrap();
        flock(&other, FlockOperation::NonBlockingLockExclusive).unwrap();
    }

    #[test]
    fn a_process_that_ends_is_waited_for_and_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("device");
        std::fs::write(&path, "").unwrap();
        // `cat` has the lock too, which is its parent's by name.
        let mut process = Command::new("flock")
            .arg(&path)
            .arg("cat")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut words = process.stdin.take().unwrap();
        words.write_all(b".").unwrap();
        let mut answer = [0];
        let mut answers = process.stdout.take().unwrap();
        answers.read_exact(&mut answer).unwrap();
        let source = Source::open(&path).unwrap();
        let holder = InUse {
            process: Some(process.id()),
        };
        assert_eq!(source.wait_for_release(), Err(holder));
        process.kill().unwrap();
        assert_eq!(source.in_use(), Some(holder));
        let release = thread::spawn(move || {
            thread::sleep(Duration::from_millis(300));
            drop(words);
        });
        assert_eq!(source.wait_for_release(), Ok(()));
        process.wait().unwrap();
        release.join().unwrap();
    }

    #[test]
    fn what_is_no_device_is_refused() {
        let error = Source::open(Path::new("/dev/null")).unwrap_err();
        assert!(error.to_string().contains("neither a file nor a block"));
        let error = Source::open(Path::new("/nonexistent")).unwrap_err();
        assert!(error.to_string().contains("hint: "));
    }
}
