//! Which parts of a volume a load covers: windows, spread so that every kind of boundary is crossed.
//!
//! Covering a whole volume would need memory and time in proportion to it; what goes wrong, goes
//! wrong at beginnings, ends and boundaries, or anywhere.
//!
//! Invariants:
//! - windows are disjoint, in order, not empty, and of whole logical blocks;
//! - of the parts that a window has for its writers, no two share a logical block.

use std::ops::Range;

use holdfast_model::SLICE_SIZE;
use holdfast_stdx::Prng;

use super::content::SECTOR_SIZE;

/// Windows of one load.
pub const WINDOWS_MAX: usize = 64;
/// Bytes that one load covers at most: the ledger needs 16 bytes of memory for each sector.
pub const COVERED_BYTES_MAX: u64 = 8 << 30;
/// Bytes of the window whose neighbouring sectors belong to different writers. Small, so that they
/// meet.
const SHARED_WINDOW_BYTES: u64 = 128 << 10;

/// A stretch of sectors that a load covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// The first sector.
    pub first: u64,
    /// How many sectors.
    pub count: u64,
    /// Logical blocks belong to writers in turn; else each writer has one stretch of them.
    pub is_shared: bool,
}

impl Window {
    /// The sectors.
    #[must_use]
    pub const fn sectors(&self) -> Range<u64> {
        self.first..self.first + self.count
    }
}

/// The windows of a load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    windows: Vec<Window>,
    /// Sectors in a logical block.
    grain: u64,
}

impl Layout {
    /// Windows of about `window_bytes` on a volume of `volume_bytes` in logical blocks of
    /// `block_length`: at the beginning, at the end, over each boundary between slices as far as
    /// `windows_max` permits, and others at places that `seed` decides.
    ///
    /// Panics if the volume has not even two logical blocks.
    #[must_use]
    pub fn spread(
        volume_bytes: u64,
        block_length: u32,
        window_bytes: u64,
        windows_max: usize,
        seed: u64,
    ) -> Self {
        let grain = u64::from(block_length) / SECTOR_SIZE as u64;
        let sectors = volume_bytes / SECTOR_SIZE as u64 / grain * grain;
        let shared = (SHARED_WINDOW_BYTES / SECTOR_SIZE as u64).min(sectors / 2 / grain * grain);
        let count = (window_bytes / SECTOR_SIZE as u64 / grain * grain).min(sectors - shared);
        assert!(shared > 0, "a volume has several blocks");
        assert!(count > 0, "a window has blocks");
        assert!(windows_max > 0, "a load covers something");
        let windows_max = windows_max.min(WINDOWS_MAX);
        let mut prng = Prng::from_seed(seed);
        let mut layout = Self {
            windows: Vec::new(),
            grain,
        };
        layout.add(0, shared, true);
        layout.add(sectors - count, count, false);
        let slice = SLICE_SIZE / SECTOR_SIZE as u64;
        let mut boundaries: Vec<u64> = (1..)
            .map(|n| n * slice)
            .take_while(|at| *at < sectors)
            .collect();
        prng.shuffle(&mut boundaries);
        for boundary in boundaries {
            // Not in the middle: there, one writer's part might end and the next begin.
            let first = boundary.saturating_sub(count * 3 / 7) / grain * grain;
            if layout.windows.len() < windows_max && first + count <= sectors {
                layout.add(first, count, false);
            }
        }
        // A crowded volume has no room for all of them.
        for _ in 0..windows_max * 4 {
            if layout.windows.len() < windows_max {
                let first = prng.between(0, (sectors - count) / grain) * grain;
                layout.add(first, count, false);
            }
        }
        layout.windows.sort_by_key(|window| window.first);
        assert!(!layout.windows.is_empty(), "the first window has room");
        layout
    }

    /// The layout that has these windows.
    ///
    /// `None` unless they are as the invariants demand.
    #[must_use]
    pub fn from_windows(windows: Vec<Window>, grain: u64) -> Option<Self> {
        let ordered = windows.windows(2).all(|pair| {
            let end = pair[0].first.checked_add(pair[0].count);
            end.is_some_and(|end| end <= pair[1].first)
        });
        let whole = grain > 0
            && windows.iter().all(|window| {
                window.count > 0 && window.count % grain == 0 && window.first % grain == 0
            });
        let total = windows
            .iter()
            .try_fold(0_u64, |sum, window| sum.checked_add(window.count))?;
        let fits = (1..=WINDOWS_MAX).contains(&windows.len())
            && total <= COVERED_BYTES_MAX / SECTOR_SIZE as u64;
        (ordered && whole && fits).then_some(Self { windows, grain })
    }

    fn add(&mut self, first: u64, count: u64, is_shared: bool) {
        let new = Window {
            first,
            count,
            is_shared,
        };
        let total = self.sector_count() + count;
        let is_free =
            |other: &Window| other.sectors().end <= first || new.sectors().end <= other.first;
        let fits = total <= COVERED_BYTES_MAX / SECTOR_SIZE as u64;
        if fits && self.windows.iter().all(is_free) {
            self.windows.push(new);
        }
    }

    /// The windows, in order.
    #[must_use]
    pub fn windows(&self) -> &[Window] {
        &self.windows
    }

    /// Sectors in a logical block.
    #[must_use]
    pub const fn grain(&self) -> u64 {
        self.grain
    }

    /// Sectors in all windows.
    #[must_use]
    pub fn sector_count(&self) -> u64 {
        self.windows.iter().map(|window| window.count).sum()
    }

    /// Where a sector stands among those of all windows; `None` if it is in none.
    #[must_use]
    pub fn index_of(&self, sector: u64) -> Option<usize> {
        let mut before = 0;
        for window in &self.windows {
            if window.sectors().contains(&sector) {
                return usize::try_from(before + sector - window.first).ok();
            }
            before += window.count;
        }
        None
    }

    /// The part of a window (not a shared one) that belongs to writer `index` of `count`. Empty if
    /// there are more writers than blocks.
    #[must_use]
    pub fn part(&self, window: &Window, index: u64, count: u64) -> Range<u64> {
        assert!(index < count, "a writer is one of all");
        let blocks = window.count / self.grain;
        let edge = |index: u64| window.first + blocks * index / count * self.grain;
        edge(index)..edge(index + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boundaries_are_covered_and_writers_are_disjoint() {
        for (bytes, block_length) in [(16 << 30, 512), (16 << 30, 4096), (1 << 20, 512)] {
            let layout = Layout::spread(bytes, block_length, 8 << 20, 9, 1);
            let windows = layout.windows().to_vec();
            assert_eq!(
                Layout::from_windows(windows.clone(), layout.grain()).as_ref(),
                Some(&layout)
            );
            let sectors = bytes / 512;
            assert!(windows[0].is_shared && windows[0].first == 0);
            assert_eq!(windows.last().unwrap().sectors().end, sectors);
            for boundary in (1..4)
                .map(|n| n * (4 << 30) / 512)
                .filter(|at| *at < sectors)
            {
                let inside = |window: &Window| {
                    (0..32).any(|index| {
                        let part = layout.part(window, index, 32);
                        part.start < boundary && boundary < part.end
                    })
                };
                assert!(windows.iter().any(inside), "{boundary}");
            }
            for window in &windows {
                let mut next = window.first;
                for index in 0..7 {
                    let part = layout.part(window, index, 7);
                    assert_eq!(part.start, next);
                    next = part.end;
                }
                assert_eq!(next, window.sectors().end);
            }
        }
    }

    #[test]
    fn indices_count_covered_sectors() {
        let layout = Layout::spread(1 << 30, 512, 1 << 20, 4, 1);
        let sectors = layout.windows().iter().flat_map(Window::sectors);
        for (index, sector) in sectors.enumerate() {
            assert_eq!(layout.index_of(sector), Some(index));
        }
        let last = layout.windows().last().unwrap().sectors().end;
        assert_eq!(layout.index_of(last), None);
    }

    #[test]
    fn windows_from_outside_are_checked() {
        let window = |first, count| Window {
            first,
            count,
            is_shared: false,
        };
        for (windows, grain) in [
            (vec![], 1),
            (vec![window(0, 0)], 1),
            (vec![window(0, 8), window(7, 8)], 1),
            (vec![window(8, 8), window(0, 8)], 1),
            (vec![window(0, 12)], 8),
            (vec![window(4, 8)], 8),
            (vec![window(0, 8)], 0),
            (vec![window(0, u64::MAX), window(1, 1)], 1),
            (vec![window(0, u64::MAX)], 1),
        ] {
            assert_eq!(Layout::from_windows(windows, grain), None);
        }
    }
}
