//! The volumes, and the places on them where hosts meet.

use holdfast_model::{BLOCK_SIZE, PAGE_SIZE, Policy, SLICE_SIZE, VolumeId};
use holdfast_stdx::Prng;

use crate::content::SECTOR_SIZE;
use crate::history::Sectors;

/// Sectors in a block.
pub const SECTORS_PER_BLOCK: u64 = (BLOCK_SIZE / SECTOR_SIZE) as u64;

/// A volume.
#[derive(Clone, Debug)]
pub struct VolumePlan {
    /// Its name.
    pub name: String,
    /// Its size.
    pub bytes: u64,
    /// Its protection.
    pub policy: Policy,
    /// Where hosts write: runs of blocks, each its first and how many.
    pub areas: Vec<(u64, u64)>,
    /// A run where they write much at a time, now and then.
    pub large_area: Option<(u64, u64)>,
}

/// What the cluster calls the volume of that place in the plan: they are made in their order.
pub(crate) fn volume_id(place: usize) -> VolumeId {
    VolumeId(place as u64 + 1)
}

/// A volume of more slices than this does not grow any more.
const SLICES_MAX: u64 = 3;

/// One command in so many is a large one.
const LARGE_ONE_IN: u64 = 30;

impl VolumePlan {
    /// A volume of two slices, with places where boundaries are.
    #[must_use]
    pub fn new(name: &str, policy: Policy) -> Self {
        let page = (PAGE_SIZE / BLOCK_SIZE) as u64;
        let slice = SLICE_SIZE / BLOCK_SIZE as u64;
        let entry = 4 * page;
        Self {
            name: name.into(),
            bytes: SLICE_SIZE + (64 << 20),
            policy,
            areas: vec![
                (0, 4),
                (page - 2, 4),
                (entry - 3, 6),
                (slice - 2, 4),
                (slice + 3 * page, 3),
                (20 * page + 7, 1),
            ],
            large_area: None,
        }
    }

    /// Lets hosts meet at a single block of each slice: what one of them reads, another has just written.
    pub fn crowd(&mut self) {
        self.areas = vec![(0, 1), (SLICE_SIZE / BLOCK_SIZE as u64 + 3, 1)];
    }

    /// The volume is larger by a slice, and hosts have places there too. Says whether that may be.
    pub(crate) fn grow(&mut self) -> bool {
        if self.bytes > SLICES_MAX * SLICE_SIZE {
            return false;
        }
        let edge = self.bytes / BLOCK_SIZE as u64;
        let slice = SLICE_SIZE / BLOCK_SIZE as u64;
        let fresh = self.bytes.div_ceil(SLICE_SIZE) * slice;
        self.bytes += SLICE_SIZE;
        self.areas.extend([(edge - 2, 4), (fresh + 1, 2)]);
        true
    }

    /// Lets hosts write more at a time than one entry of a log holds.
    pub fn add_large_area(&mut self) {
        let page = (PAGE_SIZE / BLOCK_SIZE) as u64;
        self.large_area = Some((43 * page, 5 * page));
    }

    /// Sectors that a host may want.
    pub fn draw(&self, volume: usize, prng: &mut Prng) -> Sectors {
        if let Some((start, blocks)) = self.large_area
            && prng.chance(1, LARGE_ONE_IN)
        {
            let first = prng.below(blocks / 2);
            let count = prng.between(1, blocks - first);
            if first.is_multiple_of(2) {
                return of_pages(volume, start + first, count);
            }
            return of_blocks(volume, start + first, count);
        }
        let (start, blocks) = *prng.choose(&self.areas);
        let whole = prng.chance(2, 3);
        if whole {
            let first = prng.below(blocks);
            let count = prng.between(1, blocks - first);
            of_blocks(volume, start + first, count)
        } else {
            let sectors = blocks * SECTORS_PER_BLOCK;
            let first = prng.below(sectors);
            let count = prng.between(1, (sectors - first).min(12));
            Sectors {
                volume,
                first: start * SECTORS_PER_BLOCK + first,
                count,
            }
        }
    }

    /// Everything from the first place to the last one.
    pub(crate) fn whole(&self, volume: usize) -> Sectors {
        let ends = self.areas.iter().map(|(start, blocks)| start + blocks);
        let first = self.areas.iter().map(|(start, _)| *start).min();
        let first = first.unwrap_or_default();
        of_blocks(volume, first, ends.max().unwrap_or(first) - first)
    }

    /// The places that have the template, if the volume has it: every second area.
    pub(crate) fn template(&self, volume: usize) -> Vec<Sectors> {
        let areas = self.areas.iter().step_by(2);
        areas
            .map(|(start, blocks)| of_blocks(volume, *start, *blocks))
            .collect()
    }

    /// The areas as sectors.
    #[must_use]
    pub fn everything(&self, volume: usize) -> Vec<Sectors> {
        let areas = self.areas.iter().chain(&self.large_area);
        areas
            .map(|(start, blocks)| of_blocks(volume, *start, *blocks))
            .collect()
    }
}

/// Whole pages instead of these blocks: those in which they begin and end, but for the last one if there are others.
fn of_pages(volume: usize, first: u64, count: u64) -> Sectors {
    let page = (PAGE_SIZE / BLOCK_SIZE) as u64;
    let begin = first / page;
    let end = ((first + count) / page).max(begin + 1);
    of_blocks(volume, begin * page, (end - begin) * page)
}

fn of_blocks(volume: usize, first: u64, count: u64) -> Sectors {
    Sectors {
        volume,
        first: first * SECTORS_PER_BLOCK,
        count: count * SECTORS_PER_BLOCK,
    }
}
