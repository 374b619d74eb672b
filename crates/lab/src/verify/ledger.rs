//! What is known of every sector: what it may hold, and what it may never hold again.
//!
//! A sector has one writer, which numbers its writes; so the sector's versions only rise, and
//! "linearizable" comes down to this: a read returns nothing older than what was known to be there
//! when it began, and nothing that no write had been begun for when it ended.
//!
//! Invariants:
//! - a sector's floor only rises: to an acknowledged version, or to one that a read has returned;
//! - versions above the floor are those of writes whose outcome is not known, at most
//!   [`ATTEMPTS_MAX`] for a sector.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::ops::Range;

use super::content::{Found, SECTOR_SIZE, Stamp};
use super::layout::Layout;
use super::ledger_file::{LedgerFile, Line, LineKind};

/// Writes to one sector whose outcome is not known; one more is refused.
pub const ATTEMPTS_MAX: usize = 16;

/// What a write leaves in a sector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contents {
    /// Zeros: it was unmapped, or written so.
    Zeros,
    /// Its stamp.
    Data,
}

/// One write to a sector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Attempt {
    version: u64,
    contents: Contents,
}

#[derive(Clone, Copy, Debug)]
struct Known {
    /// Nothing older is there.
    floor: Attempt,
    /// The newest write of zeros that was begun.
    last_clear: u64,
}

const FRESH: Known = Known {
    floor: Attempt {
        version: 0,
        contents: Contents::Zeros,
    },
    last_clear: 0,
};

/// What is known.
#[derive(Debug)]
pub struct Ledger {
    seed: u64,
    layout: Layout,
    /// For each covered sector.
    known: Vec<Known>,
    /// Writes above the floor, by rising version.
    open: HashMap<usize, Vec<Attempt>>,
    last_version: u64,
    file: Option<LedgerFile>,
}

/// What was known of some sectors when a read of them began.
#[derive(Debug)]
pub struct Watch {
    first: u64,
    floors: Vec<Attempt>,
}

/// A write that was begun.
#[derive(Clone, Debug)]
pub struct Writing {
    /// Its number.
    pub version: u64,
    /// What it writes.
    pub contents: Contents,
    /// Where: a load's volume has a seed of its own.
    pub seed: u64,
    sectors: Range<u64>,
}

/// A sector held what it must not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which sector.
    pub sector: u64,
    /// The version that must be there at least.
    pub floor: u64,
    /// What is wrong with what was there.
    pub kind: ViolationKind,
}

/// What can be wrong with a sector's content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ViolationKind {
    /// An acknowledged, or already seen, write is gone: there is an older one.
    Stale {
        /// Which.
        version: u64,
    },
    /// The same, and there are zeros that no write since can have left.
    Zeros,
    /// A write that was never begun.
    Future {
        /// Which.
        version: u64,
    },
    /// Another sector's content, or another load's.
    Misplaced(Stamp),
    /// Parts of different writes.
    Torn(Stamp),
    /// Nothing that was ever written.
    Foreign,
    /// The read returned fewer bytes than it was asked for.
    Short,
}

impl fmt::Display for Violation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            sector,
            floor,
            kind,
        } = self;
        write!(
            formatter,
            "sector {sector} must hold version {floor} or later"
        )?;
        match kind {
            ViolationKind::Stale { version } => write!(formatter, ", holds version {version}"),
            ViolationKind::Zeros => formatter.write_str(", holds zeros"),
            ViolationKind::Future { version } => {
                write!(
                    formatter,
                    ", holds version {version}, which was never written"
                )
            }
            ViolationKind::Misplaced(stamp) => write!(formatter, ", holds {stamp:?}"),
            ViolationKind::Torn(stamp) => write!(formatter, ", holds a part of {stamp:?}"),
            ViolationKind::Foreign => formatter.write_str(", holds what nobody wrote"),
            ViolationKind::Short => formatter.write_str(", was not returned"),
        }
    }
}

impl Ledger {
    /// Of a volume that reads as zeros wherever `layout` covers it.
    #[must_use]
    pub fn new(seed: u64, layout: Layout) -> Self {
        let count = usize::try_from(layout.sector_count()).expect("the layout is bounded");
        Self {
            seed,
            layout,
            known: vec![FRESH; count],
            open: HashMap::new(),
            last_version: 0,
            file: None,
        }
    }

    /// The same, kept in a new file too, from which [`recover`](Self::recover) makes it again.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn create(seed: u64, layout: Layout, path: &std::path::Path) -> io::Result<Self> {
        let mut ledger = Self::new(seed, layout);
        ledger.file = Some(LedgerFile::create(path, seed, &ledger.layout)?);
        Ok(ledger)
    }

    /// What was known when the process that kept the file ended, however it did. What was being
    /// written then has an unknown outcome.
    ///
    /// # Errors
    /// What the operating system says, or [`io::ErrorKind::InvalidData`] if it is no such file.
    pub fn recover(path: &std::path::Path) -> io::Result<Self> {
        let (file, seed, layout, lines) = LedgerFile::open(path)?;
        let mut ledger = Self::new(seed, layout);
        for line in lines {
            ledger.replay(line?)?;
        }
        ledger.file = Some(file);
        Ok(ledger)
    }

    /// Tells this load's content from others'.
    #[must_use]
    pub const fn seed(&self) -> u64 {
        self.seed
    }

    /// What the load covers.
    #[must_use]
    pub const fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Sectors that have been written, or cleared, at least once for certain.
    #[must_use]
    pub fn written_sectors(&self) -> usize {
        self.known
            .iter()
            .filter(|known| known.floor.version > 0)
            .count()
    }

    /// Sectors for which there are writes whose outcome is not known.
    #[must_use]
    pub fn doubtful_sectors(&self) -> usize {
        self.open.len()
    }

    /// Whether a write to these sectors may be begun: not too many before have an unknown outcome.
    #[must_use]
    pub fn has_room(&self, sectors: &Range<u64>) -> bool {
        let indices = self.indices(sectors);
        indices.into_iter().all(|index| {
            self.open
                .get(&index)
                .is_none_or(|open| open.len() < ATTEMPTS_MAX)
        })
    }

    /// Numbers a write; from now on it may be there. Panics if there is no room for it, or if the
    /// layout does not cover it.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn begin(&mut self, sectors: Range<u64>, contents: Contents) -> io::Result<Writing> {
        assert!(self.has_room(&sectors), "whoever writes asks for room");
        let attempt = Attempt {
            version: self.last_version + 1,
            contents,
        };
        self.log(LineKind::Begun, &sectors, attempt)?;
        self.note_begun(&sectors, attempt);
        Ok(Writing {
            version: attempt.version,
            contents,
            seed: self.seed,
            sectors,
        })
    }

    /// A write was acknowledged; nothing older may ever be there again.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn acknowledge(&mut self, writing: &Writing) -> io::Result<()> {
        let attempt = Attempt {
            version: writing.version,
            contents: writing.contents,
        };
        self.log(LineKind::Certain, &writing.sectors, attempt)?;
        self.note_certain(&writing.sectors, attempt);
        Ok(())
    }

    /// To be called before a read of these sectors is sent. Panics if the layout does not cover it.
    #[must_use]
    pub fn watch(&self, sectors: &Range<u64>) -> Watch {
        let indices = self.indices(sectors);
        Watch {
            first: sectors.start,
            floors: self.known[indices]
                .iter()
                .map(|known| known.floor)
                .collect(),
        }
    }

    /// Holds what a read returned against what was known, and learns from it. What is wrong is given
    /// to `report`.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn check(
        &mut self,
        watch: &Watch,
        data: &[u8],
        mut report: impl FnMut(Violation),
    ) -> io::Result<()> {
        // What was learned, in runs of the same version.
        let mut learned: Vec<(Range<u64>, Attempt)> = Vec::new();
        for (offset, floor) in watch.floors.iter().enumerate() {
            let sector = watch.first + offset as u64;
            let content = data.get(offset * SECTOR_SIZE..(offset + 1) * SECTOR_SIZE);
            match self.judge(sector, *floor, content) {
                Ok(None) => {}
                Ok(Some(attempt)) => match learned.last_mut() {
                    Some((run, last)) if run.end == sector && *last == attempt => run.end += 1,
                    _ => learned.push((sector..sector + 1, attempt)),
                },
                Err(kind) => report(Violation {
                    sector,
                    floor: floor.version,
                    kind,
                }),
            }
        }
        for (sectors, attempt) in learned {
            self.log(LineKind::Certain, &sectors, attempt)?;
            self.note_certain(&sectors, attempt);
        }
        Ok(())
    }

    /// What the content of a sector is worth, read since its floor was `floor`: nothing new, a newer
    /// version that is there for certain, or a violation.
    fn judge(
        &self,
        sector: u64,
        floor: Attempt,
        content: Option<&[u8]>,
    ) -> Result<Option<Attempt>, ViolationKind> {
        let index = self.layout.index_of(sector).expect("it was watched");
        let known = &self.known[index];
        match Stamp::find(content.ok_or(ViolationKind::Short)?) {
            Found::Foreign => Err(ViolationKind::Foreign),
            Found::Torn(stamp) => Err(ViolationKind::Torn(stamp)),
            Found::Whole(stamp) if stamp.sector != sector || stamp.seed != self.seed => {
                Err(ViolationKind::Misplaced(stamp))
            }
            Found::Whole(Stamp { version, .. }) if version > self.last_version => {
                Err(ViolationKind::Future { version })
            }
            Found::Whole(Stamp { version, .. }) if version < floor.version => {
                Err(ViolationKind::Stale { version })
            }
            Found::Whole(Stamp { version, .. }) => {
                let attempt = Attempt {
                    version,
                    contents: Contents::Data,
                };
                Ok((version > known.floor.version).then_some(attempt))
            }
            Found::Zeros if floor.contents == Contents::Zeros => Ok(None),
            Found::Zeros if known.last_clear <= floor.version => Err(ViolationKind::Zeros),
            // Which of several clearings this was is not known, so that only the first of them is
            // certain; and none if the floor has risen meanwhile.
            Found::Zeros if known.floor == floor => Ok(self.open.get(&index).and_then(|open| {
                let cleared = |attempt: &&Attempt| attempt.contents == Contents::Zeros;
                open.iter().find(cleared).copied()
            })),
            Found::Zeros => Ok(None),
        }
    }

    fn log(&mut self, kind: LineKind, sectors: &Range<u64>, attempt: Attempt) -> io::Result<()> {
        let Some(file) = &mut self.file else {
            return Ok(());
        };
        file.append(&Line {
            kind,
            contents: attempt.contents,
            first: sectors.start,
            count: sectors.end - sectors.start,
            version: attempt.version,
        })
    }

    /// Takes over what the file says.
    fn replay(&mut self, line: Line) -> io::Result<()> {
        let covered = |sector: u64| self.layout.index_of(sector);
        let sectors = line.first..line.first.saturating_add(line.count);
        let ends = (line.count > 0)
            .then(|| covered(sectors.start).zip(covered(sectors.end - 1)))
            .flatten();
        // Within one window, or the sectors between would not all be covered.
        let is_covered = ends.is_some_and(|(first, last)| (last - first) as u64 == line.count - 1);
        if !is_covered {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let attempt = Attempt {
            version: line.version,
            contents: line.contents,
        };
        match line.kind {
            LineKind::Begun => self.note_begun(&sectors, attempt),
            LineKind::Certain => self.note_certain(&sectors, attempt),
        }
        Ok(())
    }

    fn note_begun(&mut self, sectors: &Range<u64>, attempt: Attempt) {
        self.last_version = self.last_version.max(attempt.version);
        for index in self.indices(sectors) {
            self.open.entry(index).or_default().push(attempt);
            if attempt.contents == Contents::Zeros {
                self.known[index].last_clear = attempt.version;
            }
        }
    }

    fn note_certain(&mut self, sectors: &Range<u64>, attempt: Attempt) {
        for index in self.indices(sectors) {
            let known = &mut self.known[index];
            if attempt.version > known.floor.version {
                known.floor = attempt;
            }
            if let Some(open) = self.open.get_mut(&index) {
                open.retain(|other| other.version > attempt.version);
                if open.is_empty() {
                    self.open.remove(&index);
                }
            }
        }
    }

    /// The places of sectors that lie in one window.
    fn indices(&self, sectors: &Range<u64>) -> Range<usize> {
        assert!(!sectors.is_empty(), "a command is about some sectors");
        let index = |sector| self.layout.index_of(sector).expect("the layout covers it");
        let (first, last) = (index(sectors.start), index(sectors.end - 1));
        assert_eq!(
            (last - first) as u64,
            sectors.end - 1 - sectors.start,
            "a command lies within a window"
        );
        first..last + 1
    }
}

impl Writing {
    /// The bytes to be written.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        let count = usize::try_from(self.sectors.end - self.sectors.start);
        let length = count.expect("a command has few sectors") * SECTOR_SIZE;
        let mut bytes = vec![0; length];
        if self.contents == Contents::Data {
            for (place, sector) in bytes
                .chunks_exact_mut(SECTOR_SIZE)
                .zip(self.sectors.clone())
            {
                let stamp = Stamp {
                    seed: self.seed,
                    sector,
                    version: self.version,
                };
                stamp.fill(place);
            }
        }
        bytes
    }

    /// The sectors to be written.
    #[must_use]
    pub fn sectors(&self) -> Range<u64> {
        self.sectors.clone()
    }
}

#[cfg(test)]
mod tests;
