//! What a volume must read as, sector by sector.
//!
//! Every write has a number of its own. A sector that it wrote says, over and over, which write it was and
//! of which block of 4 KiB: bytes that take little room in an image, and tell a block from any other.

use std::time::Duration;

use anyhow::{Result, ensure};
use holdfast_lab::command;
use holdfast_stdx::Bytes;
use serde::{Deserialize, Serialize};

use crate::host::Host;

/// Bytes of a sector.
const SECTOR: u64 = 512;
/// Sectors of a block, which is as much as one checksum covers.
const BLOCK_SECTORS: u64 = 8;
/// Sectors that are read at a time: 1 MiB.
const READ_SECTORS: u64 = 2048;
/// How long the volume may take to be served through each portal.
const READ_PATIENCE: Duration = Duration::from_secs(300);

/// Consecutive sectors that the same write wrote last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stretch {
    /// The first of them.
    pub first: u64,
    /// How many.
    pub count: u64,
    /// Which write.
    pub write: u64,
}

/// What each sector of a volume must read as: the number of the write, or zero for zeros.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sheet {
    /// In order, and not overlapping.
    stretches: Vec<Stretch>,
    sectors: u64,
    next_write: u64,
}

/// What write `write` puts into a sector.
fn content(write: u64, sector: u64) -> [u8; 8] {
    if write == 0 {
        return [0; 8];
    }
    let word = ((write << 40) | (sector / BLOCK_SECTORS)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    word.to_le_bytes()
}

impl Sheet {
    /// That of a volume of this size.
    #[must_use]
    pub fn new(bytes: u64, stretches: &[Stretch]) -> Self {
        let last = stretches.iter().map(|stretch| stretch.write).max();
        Self {
            stretches: stretches.to_vec(),
            sectors: bytes / SECTOR,
            next_write: last.unwrap_or_default() + 1,
        }
    }

    /// What the volume must read as, but for zeros.
    #[must_use]
    pub fn stretches(&self) -> &[Stretch] {
        &self.stretches
    }

    /// Writes sectors, in one command, with another content than any before.
    ///
    /// # Errors
    /// The command fails.
    pub fn write(&mut self, host: &Host, first: u64, count: u64) -> Result<()> {
        let write = self.next_write;
        let sectors =
            (first..first + count).map(|sector| content(write, sector).repeat(SECTOR as usize / 8));
        let data = sectors.collect::<Vec<_>>().concat();
        host.run(host.disk().write(first, Bytes::from(data), 0))?;
        self.next_write += 1;
        self.put(first, count, write);
        Ok(())
    }

    /// Takes sectors away.
    ///
    /// # Errors
    /// The command fails.
    pub fn unmap(&mut self, host: &Host, first: u64, count: u64) -> Result<()> {
        let disk = host.disk();
        let unmap = command::unmap(disk.config().lun, &[(first, count as u32)]);
        host.run(disk.execute(&unmap, 0))?;
        self.put(first, count, 0);
        Ok(())
    }

    fn put(&mut self, first: u64, count: u64, write: u64) {
        let end = first + count;
        assert!(end <= self.sectors, "a write is of the volume");
        let mut left = Vec::new();
        for old in self.stretches.drain(..) {
            let old_end = old.first + old.count;
            let keep = |first: u64, end: u64| Stretch {
                first,
                count: end.saturating_sub(first),
                ..old
            };
            left.push(keep(old.first, old_end.min(first)));
            left.push(keep(old.first.max(end), old_end));
        }
        left.retain(|stretch| stretch.count > 0);
        if write != 0 {
            left.push(Stretch {
                first,
                count,
                write,
            });
        }
        left.sort_by_key(|stretch| stretch.first);
        self.stretches = left;
    }

    /// The bytes that the sectors must hold.
    fn expected(&self, first: u64, count: u64) -> Vec<u8> {
        let mut bytes = vec![0; (count * SECTOR) as usize];
        for stretch in &self.stretches {
            let from = stretch.first.max(first);
            let end = (stretch.first + stretch.count).min(first + count);
            for sector in from..end {
                let at = ((sector - first) * SECTOR) as usize;
                let word = content(stretch.write, sector).repeat(SECTOR as usize / 8);
                bytes[at..at + SECTOR as usize].copy_from_slice(&word);
            }
        }
        bytes
    }

    /// Reads the whole volume through each path, and holds every byte against what it must be.
    ///
    /// # Errors
    /// Something is wrong, or cannot be read.
    pub fn verify(&self, host: &Host) -> Result<()> {
        let paths: Vec<usize> = (0..host.disk().path_count()).collect();
        self.verify_through(host, &paths)
    }

    /// The same through some paths.
    ///
    /// # Errors
    /// Something is wrong, or cannot be read.
    pub fn verify_through(&self, host: &Host, paths: &[usize]) -> Result<()> {
        let sectors = host.disk().capacity().blocks;
        ensure!(sectors == self.sectors, "the volume has {sectors} sectors");
        for path in paths.iter().copied() {
            let begun = std::time::Instant::now();
            let mut first = 0;
            while first < sectors {
                let count = READ_SECTORS.min(sectors - first);
                let read = host.disk().read(first, count as u32, path);
                let answer = host.run(read)?;
                ensure!(answer.path == path, "path {path} did not answer");
                self.compare(first, count, &answer.data_in.concat())?;
                first += count;
            }
            ensure!(begun.elapsed() < READ_PATIENCE, "path {path} is too slow");
        }
        Ok(())
    }

    fn compare(&self, first: u64, count: u64, found: &[u8]) -> Result<()> {
        let expected = self.expected(first, count);
        ensure!(found.len() == expected.len(), "a read is whole");
        if found == expected {
            return Ok(());
        }
        let pairs = found
            .chunks(SECTOR as usize)
            .zip(expected.chunks(SECTOR as usize));
        let wrong = (first..)
            .zip(pairs)
            .find(|(_, (found, right))| found != right);
        let (sector, (found, right)) = wrong.expect("something is wrong");
        anyhow::bail!(
            "sector {sector} begins with {:02x?}, and must with {:02x?}",
            &found[..8],
            &right[..8]
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sheet_knows_what_was_written_last() {
        let mut sheet = Sheet::new(1 << 20, &[]);
        sheet.put(8, 24, 1);
        sheet.put(16, 8, 2);
        sheet.put(12, 2, 0);
        sheet.put(30, 4, 3);
        let stretch = |first, count, write| Stretch {
            first,
            count,
            write,
        };
        let left = [
            stretch(8, 4, 1),
            stretch(14, 2, 1),
            stretch(16, 8, 2),
            stretch(24, 6, 1),
            stretch(30, 4, 3),
        ];
        assert_eq!(sheet.stretches(), left);
        assert_eq!(Sheet::new(1 << 20, &left).next_write, 4);
        let all = sheet.expected(0, 40);
        assert_eq!(all[..8 * 512], [0; 8 * 512]);
        assert_eq!(all[8 * 512..][..8], content(1, 8));
        assert_eq!(all[12 * 512..14 * 512], [0; 2 * 512]);
        assert_eq!(all[33 * 512 + 504..34 * 512], content(3, 33));
        assert_eq!(sheet.expected(16, 2), all[16 * 512..18 * 512]);
        // Another write, another block: another content.
        assert_ne!(content(1, 8), content(2, 8));
        assert_ne!(content(1, 8), content(1, 16));
        let mut wrong = all.clone();
        sheet.compare(0, 40, &all).unwrap();
        wrong[20 * 512 + 3] ^= 1;
        let error = sheet.compare(0, 40, &wrong).unwrap_err().to_string();
        assert!(error.contains("sector 20"), "{error}");
    }
}
