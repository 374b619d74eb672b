//! Going over everything that a load covers: to clear it before, to read it after.
//!
//! Invariants:
//! - nothing is left out: a stretch that cannot be read is an error.

use std::io;
use std::ops::Range;

use holdfast_stdx::Bytes;
use thiserror::Error;

use super::content::SECTOR_SIZE;
use super::ledger::{Contents, Ledger, Violation};
use super::report::DETAILS_MAX;
use crate::command;
use crate::multipath::{CommandError, MultipathDisk};

/// Sectors of one command.
const STEP: u64 = (256 << 10) / SECTOR_SIZE as u64;

/// Why not everything was gone over.
#[derive(Debug, Error)]
pub enum SweepError {
    /// A command failed.
    #[error("sectors {first} to {last}: {error}")]
    Command {
        /// The first sector of the command.
        first: u64,
        /// The last.
        last: u64,
        /// Why.
        error: CommandError,
    },
    /// The ledger's file cannot be written.
    #[error("cannot write the ledger's file: {0}")]
    Ledger(#[from] io::Error),
    /// Sectors held what they must not.
    #[error("{count} sectors are wrong; the first: {}", first[0])]
    Violated {
        /// How many.
        count: u64,
        /// The first of them, at least one.
        first: Vec<Violation>,
    },
}

/// Fills everything that `ledger` covers with zeros, whatever was there, so that a load can begin.
///
/// # Errors
/// [`SweepError`].
pub async fn clear_everything(disk: &MultipathDisk, ledger: &mut Ledger) -> Result<(), SweepError> {
    for sectors in steps(ledger) {
        let writing = ledger.begin(sectors.clone(), Contents::Zeros)?;
        let data = Bytes::from(writing.bytes());
        let blocks = blocks_of(disk, &sectors);
        let count = (blocks.end - blocks.start) as u32;
        let lun = disk.config().lun;
        let request = command::write(lun, blocks.start, count, vec![data], false);
        let result = disk.execute(&request, 0).await;
        result.map_err(|error| failed(&sectors, error))?;
        ledger.acknowledge(&writing)?;
    }
    Ok(())
}

/// Reads everything that `ledger` covers, through path `path` as long as that is up, and holds it
/// against the ledger. Returns the number of sectors.
///
/// # Errors
/// [`SweepError`].
pub async fn verify_everything(
    disk: &MultipathDisk,
    ledger: &mut Ledger,
    path: usize,
) -> Result<u64, SweepError> {
    let mut sector_count = 0;
    let mut violated = 0;
    let mut first = Vec::new();
    for sectors in steps(ledger) {
        let watch = ledger.watch(&sectors);
        let blocks = blocks_of(disk, &sectors);
        let count = (blocks.end - blocks.start) as u32;
        let result = disk.read(blocks.start, count, path).await;
        let answer = result.map_err(|error| failed(&sectors, error))?;
        ledger.check(&watch, &answer.data_in.concat(), |violation| {
            violated += 1;
            if first.len() < DETAILS_MAX {
                first.push(violation);
            }
        })?;
        sector_count += sectors.end - sectors.start;
    }
    if violated > 0 {
        let count = violated;
        return Err(SweepError::Violated { count, first });
    }
    Ok(sector_count)
}

fn failed(sectors: &Range<u64>, error: CommandError) -> SweepError {
    SweepError::Command {
        first: sectors.start,
        last: sectors.end - 1,
        error,
    }
}

fn blocks_of(disk: &MultipathDisk, sectors: &Range<u64>) -> Range<u64> {
    let grain = u64::from(disk.capacity().block_length) / SECTOR_SIZE as u64;
    sectors.start / grain..sectors.end / grain
}

/// Everything that is covered, in steps that lie within one window.
fn steps(ledger: &Ledger) -> Vec<Range<u64>> {
    let windows = ledger.layout().windows().iter();
    windows
        .flat_map(|window| {
            let sectors = window.sectors();
            let firsts = sectors.clone().step_by(STEP as usize);
            firsts.map(move |first| first..(first + STEP).min(sectors.end))
        })
        .collect()
}
