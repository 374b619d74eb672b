//! The ledger's file: what was begun, and what is certain, in order; read again after the process
//! that kept it was killed.
//!
//! It does not outlive the machine's power: lines are written, not synced. It is there for the
//! death of the load; the death of the disks is what the load is about.
//!
//! ```text
//! header   magic 8 | seed 8 | grain 8 | windows 8 | 64 × (first 8 | count 8 | shared 8) | checksum 8
//! line     kind 4 | contents 4 | first 8 | count 8 | version 8 | checksum 8
//! ```
//!
//! Invariants:
//! - a line is on its way before the command that it is about;
//! - reading ends before the first line that is not whole, and the next is written there.

use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::path::Path;

use holdfast_stdx::crc32c;

use super::layout::{Layout, WINDOWS_MAX, Window};
use super::ledger::Contents;

const MAGIC: [u8; 8] = *b"hf-lab-j";
const WINDOW_BYTES: usize = 24;
const HEADER_BYTES: usize = 32 + WINDOWS_MAX * WINDOW_BYTES + 8;
const LINE_BYTES: usize = 40;
/// The longest file: 100 million lines, some hours of load.
const FILE_BYTES_MAX: u64 = 4 << 30;

/// What a line says of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LineKind {
    /// It was begun: it may be there.
    Begun,
    /// It was acknowledged or seen: nothing older is there.
    Certain,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) kind: LineKind,
    pub(super) contents: Contents,
    pub(super) first: u64,
    pub(super) count: u64,
    pub(super) version: u64,
}

#[derive(Debug)]
pub(super) struct LedgerFile {
    file: File,
    length: u64,
}

impl LedgerFile {
    pub(super) fn create(path: &Path, seed: u64, layout: &Layout) -> io::Result<Self> {
        let mut file = File::create_new(path)?;
        let mut header = Vec::with_capacity(HEADER_BYTES);
        header.extend(MAGIC);
        header.extend(seed.to_le_bytes());
        header.extend(layout.grain().to_le_bytes());
        header.extend((layout.windows().len() as u64).to_le_bytes());
        for window in layout.windows() {
            header.extend(window.first.to_le_bytes());
            header.extend(window.count.to_le_bytes());
            header.extend(u64::from(window.is_shared).to_le_bytes());
        }
        header.resize(HEADER_BYTES - 8, 0);
        seal(&mut header);
        file.write_all(&header)?;
        Ok(Self {
            file,
            length: HEADER_BYTES as u64,
        })
    }

    /// Opens a file for reading it and for going on with it. The lines are read as the iterator
    /// is; the file goes on after the last of those that were whole when this was called.
    pub(super) fn open(
        path: &Path,
    ) -> io::Result<(Self, u64, Layout, impl Iterator<Item = io::Result<Line>>)> {
        let mut file = OpenOptions::new().read(true).write(true).open(path)?;
        let mut header = [0; HEADER_BYTES];
        file.read_exact(&mut header)?;
        let (seed, layout) = parse_header(&header).ok_or(io::ErrorKind::InvalidData)?;
        let count = Lines::of(&mut file).try_fold(0_u64, |count, line| line.map(|_| count + 1))?;
        let length = HEADER_BYTES as u64 + count * LINE_BYTES as u64;
        file.set_len(length)?;
        file.seek(SeekFrom::Start(length))?;
        let mut again = File::open(path)?;
        again.seek(SeekFrom::Start(HEADER_BYTES as u64))?;
        let lines = Lines::of(again);
        Ok((Self { file, length }, seed, layout, lines))
    }

    pub(super) fn append(&mut self, line: &Line) -> io::Result<()> {
        if self.length + LINE_BYTES as u64 > FILE_BYTES_MAX {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.file.write_all(&line.encode())?;
        self.length += LINE_BYTES as u64;
        Ok(())
    }
}

fn seal(bytes: &mut Vec<u8>) {
    let checksum = u64::from(crc32c(bytes));
    bytes.extend(checksum.to_le_bytes());
}

/// The bytes without their checksum, if it is right.
fn unseal(bytes: &[u8]) -> Option<&[u8]> {
    let (body, checksum) = bytes.split_last_chunk::<8>()?;
    (u64::from_le_bytes(*checksum) == u64::from(crc32c(body))).then_some(body)
}

fn words(bytes: &[u8]) -> impl Iterator<Item = u64> {
    let (words, _) = bytes.as_chunks::<8>();
    words.iter().map(|word| u64::from_le_bytes(*word))
}

fn parse_header(header: &[u8]) -> Option<(u64, Layout)> {
    let body = unseal(header)?.strip_prefix(&MAGIC)?;
    let mut words = words(body);
    let (seed, grain, count) = (words.next()?, words.next()?, words.next()?);
    let count = usize::try_from(count)
        .ok()
        .filter(|count| *count <= WINDOWS_MAX)?;
    let windows: Option<Vec<Window>> = (0..count)
        .map(|_| {
            Some(Window {
                first: words.next()?,
                count: words.next()?,
                is_shared: words.next()? == 1,
            })
        })
        .collect();
    Some((seed, Layout::from_windows(windows?, grain)?))
}

impl Line {
    fn encode(&self) -> Vec<u8> {
        let kind: u32 = match self.kind {
            LineKind::Begun => 1,
            LineKind::Certain => 2,
        };
        let contents: u32 = match self.contents {
            Contents::Zeros => 0,
            Contents::Data => 1,
        };
        let mut bytes = Vec::with_capacity(LINE_BYTES);
        bytes.extend(kind.to_le_bytes());
        bytes.extend(contents.to_le_bytes());
        for word in [self.first, self.count, self.version] {
            bytes.extend(word.to_le_bytes());
        }
        seal(&mut bytes);
        bytes
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let mut words = words(unseal(bytes)?);
        let first = words.next()?;
        let kind = match first as u32 {
            1 => LineKind::Begun,
            2 => LineKind::Certain,
            _ => return None,
        };
        let contents = match first >> 32 {
            0 => Contents::Zeros,
            1 => Contents::Data,
            _ => return None,
        };
        Some(Self {
            kind,
            contents,
            first: words.next()?,
            count: words.next()?,
            version: words.next()?,
        })
    }
}

/// The whole lines of a file, from where it stands.
struct Lines<R> {
    reader: BufReader<R>,
}

impl<R: Read> Lines<R> {
    fn of(file: R) -> Self {
        Self {
            reader: BufReader::new(file),
        }
    }
}

impl<R: Read> Iterator for Lines<R> {
    type Item = io::Result<Line>;

    fn next(&mut self) -> Option<io::Result<Line>> {
        let mut bytes = [0; LINE_BYTES];
        match self.reader.read_exact(&mut bytes) {
            Ok(()) => Line::parse(&bytes).map(Ok),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => None,
            Err(error) => Some(Err(error)),
        }
    }
}
