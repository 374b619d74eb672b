//! What is kept of what was written down: files of frames of one resolution each, of which the oldest go.

use alloc::vec::Vec;

use crate::RESOLUTIONS;

/// A file of frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Which resolution, by its place in [`RESOLUTIONS`].
    pub place: usize,
    /// When its first frame began, in seconds since 1970.
    pub from: u64,
    /// When its last one ended.
    pub until: u64,
    /// How long it is.
    pub bytes: u64,
}

/// Which files are to go: those that are older than their resolution is kept for, and the oldest of a resolution that takes more
/// than its quarter of so many bytes. The newest of each resolution stays, whatever it takes.
#[must_use]
pub fn surplus(segments: &[Segment], now: u64, bytes_max: u64) -> Vec<Segment> {
    let mut gone = Vec::new();
    for (place, resolution) in RESOLUTIONS.iter().enumerate() {
        let mut of_it: Vec<Segment> = segments.to_vec();
        of_it.retain(|segment| segment.place == place);
        // The newest first.
        of_it.sort_by_key(|segment| core::cmp::Reverse((segment.until, segment.from)));
        let share = bytes_max / RESOLUTIONS.len() as u64;
        let mut taken = 0_u64;
        for (age, segment) in of_it.iter().enumerate() {
            taken = taken.saturating_add(segment.bytes);
            let is_old = segment.until.saturating_add(resolution.kept) < now;
            if age > 0 && (is_old || taken > share) {
                gone.push(*segment);
            }
        }
    }
    gone
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(place: usize, from: u64, bytes: u64) -> Segment {
        Segment {
            place,
            from,
            until: from + 600,
            bytes,
        }
    }

    #[test]
    fn what_is_old_goes_and_the_newest_stays() {
        let now = 1_000_000;
        let old = segment(0, now - 5000, 10);
        let segments = [segment(0, now - 600, 10), old, segment(1, now - 5000, 10)];
        assert_eq!(surplus(&segments, now, 1 << 20), [old]);
        assert_eq!(surplus(&[old], now, 1 << 20), []);
    }

    #[test]
    fn what_is_too_much_goes_from_its_old_end() {
        let now = 1_000_000;
        let segments: Vec<Segment> = (0..5)
            .map(|number| segment(2, now - 600 * number, 100))
            .collect();
        assert_eq!(surplus(&segments, now, 1000), segments[2..]);
        assert_eq!(surplus(&segments, now, 10), segments[1..]);
    }
}
