//! Whether a unit may be used for a run: whether it holds something, or somebody uses it.
//!
//! Invariants:
//! - what the run would write over was read in full, and held nothing but zeros, or was given up;
//! - nothing is written, and nothing registered, to find out.

use holdfast_lab::Status;

use crate::bench::{A, Bench};
use crate::check::Unmet;
use crate::command;
use crate::stretch::STEP_BYTES;

/// Bytes at both ends of a unit where partition tables, labels and superblocks are.
const END_BYTES: u64 = 1 << 20;
/// Samples over the rest of the unit, and bytes of each.
const SAMPLES: u64 = 256;
const SAMPLE_BYTES: u32 = 4 << 10;

/// Signs that the unit is in use, in words.
pub(crate) async fn signs_of_use(bench: &Bench) -> Result<Vec<String>, Unmet> {
    let mut signs = Vec::new();
    let nexus = bench.nexus((A, 0));
    let keys = command::persistent_reserve_in(bench.lun, command::ReserveIn::ReadKeys, 8 << 10);
    let keys = nexus.ask(keys).await?;
    if keys.is_conflict() {
        // Only SPC-2's RESERVE forbids that.
        signs.push("somebody has it by RESERVE".to_owned());
        return Ok(signs);
    }
    if keys.is_good() {
        let keys = crate::parse::reservations::Keys::parse(&keys.data)?.keys;
        if !keys.is_empty() {
            signs.push(format!("{} keys are registered on it", keys.len()));
        }
    }
    let read = command::read(bench.lun, 0, 1, bench.capacity.block_length);
    if nexus.ask(read).await?.status == Status::ReservationConflict.code() {
        signs.push("it is reserved, so that it cannot be read".to_owned());
        return Ok(signs);
    }
    if let Some(block) = first_data(bench).await? {
        signs.push(format!("it holds data, in block {block} at least"));
    }
    Ok(signs)
}

/// The first block that holds something else than zeros, of those that are looked at.
async fn first_data(bench: &Bench) -> Result<Option<u64>, Unmet> {
    let capacity = bench.capacity;
    let length = u64::from(capacity.block_length);
    let end = END_BYTES / length;
    let stretch = &bench.stretch;
    let whole = [
        (0, end),
        (capacity.blocks - end, end),
        (stretch.first, stretch.blocks),
    ];
    for (first, count) in whole {
        let step = u64::from(STEP_BYTES) / length;
        for first in (first..first + count).step_by(step as usize) {
            if let Some(block) = nonzero(bench, first, step as u32).await? {
                return Ok(Some(block));
            }
        }
    }
    let sample = SAMPLE_BYTES / capacity.block_length;
    for number in 0..SAMPLES {
        let place = capacity.blocks / SAMPLES * number;
        let first = place.min(capacity.blocks - u64::from(sample));
        if let Some(block) = nonzero(bench, first, sample).await? {
            return Ok(Some(block));
        }
    }
    Ok(None)
}

async fn nonzero(bench: &Bench, first: u64, count: u32) -> Result<Option<u64>, Unmet> {
    let length = bench.capacity.block_length;
    let read = command::read(bench.lun, first, count, length);
    let data = bench.nexus((A, 0)).good(read).await?;
    let place = data.iter().position(|byte| *byte != 0);
    Ok(place.map(|place| first + place as u64 / u64::from(length)))
}
