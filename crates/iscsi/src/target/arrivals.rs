//! When what a connection has brought came from its socket: for how long a command takes, and for nothing else.
//!
//! It refuses to know where a PDU ends.
//!
//! Invariants:
//! - the last byte of a PDU is never said to have come later than it did, and only where more than [`TIMES_MAX`] pieces wait for their
//!   connection's turn earlier;
//! - what was taken is forgotten, and of a PDU that is still coming every piece but the last.

use alloc::collections::VecDeque;

use holdfast_stdx::Instant;

/// Pieces that are told apart: a connection's socket is read once a turn of the driver, and the connection has its turn within a few
/// of these.
const TIMES_MAX: usize = 64;

/// What has come, by when it did.
#[derive(Debug, Default)]
pub(super) struct Arrivals {
    /// How much has come since the beginning, in bytes.
    come: u64,
    /// Up to where each piece that was not taken goes, and when it came.
    times: VecDeque<(u64, Instant)>,
}

impl Arrivals {
    /// So many bytes came at that time.
    pub(super) fn push(&mut self, at: Instant, length: usize) {
        self.come += length as u64;
        let is_full = self.times.len() >= TIMES_MAX;
        match self.times.back_mut() {
            Some((end, before)) if is_full || *before == at => *end = self.come,
            _ => self.times.push_back((self.come, at)),
        }
    }

    /// Nothing that has come ends a PDU, so that nobody will ask when it did.
    pub(super) fn forget(&mut self) {
        self.times.clear();
    }

    /// All was taken but the last `left` bytes. When the last byte that was taken came; nothing if that was told before.
    /// It must not be [forgotten](Self::forget).
    pub(super) fn take(&mut self, left: usize) -> Option<Instant> {
        let taken = self.come - left as u64;
        while let Some((end, _)) = self.times.front()
            && *end < taken
        {
            self.times.pop_front();
        }
        let (end, at) = *self.times.front()?;
        if end == taken {
            self.times.pop_front();
        }
        Some(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(microseconds: u64) -> Instant {
        Instant::from_nanos(1000 * microseconds)
    }

    #[test]
    fn each_byte_came_with_its_piece() {
        let mut arrivals = Arrivals::default();
        assert_eq!(arrivals.take(0), None);
        arrivals.push(at(1), 10);
        arrivals.push(at(2), 10);
        arrivals.push(at(2), 10);
        arrivals.push(at(3), 10);
        assert_eq!(arrivals.take(35), Some(at(1)), "in the first piece");
        assert_eq!(arrivals.take(30), Some(at(1)), "its end");
        assert_eq!(
            arrivals.take(5),
            Some(at(3)),
            "over one that is not asked for"
        );
        assert_eq!(arrivals.take(0), Some(at(3)));
        assert_eq!(arrivals.times, []);
        arrivals.push(at(4), 1);
        assert_eq!(arrivals.take(0), Some(at(4)));
    }

    #[test]
    fn what_ends_nothing_takes_no_room() {
        let mut arrivals = Arrivals::default();
        for piece in 0..1000 {
            arrivals.forget();
            arrivals.push(at(piece), 1);
        }
        assert_eq!(arrivals.times.len(), 1);
        arrivals.push(at(1000), 1);
        assert_eq!(arrivals.take(1), Some(at(999)));
        assert_eq!(arrivals.take(0), Some(at(1000)));
    }

    #[test]
    fn of_too_many_pieces_the_last_came_no_later_than_they_did() {
        let mut arrivals = Arrivals::default();
        for piece in 0..1000 {
            arrivals.push(at(piece), 1);
        }
        assert_eq!(arrivals.times.len(), TIMES_MAX);
        for piece in 0..1000 {
            let told = arrivals.take(999 - piece as usize).expect("it has come");
            assert_eq!(told, at(piece.min(TIMES_MAX as u64 - 1)));
        }
        assert_eq!(arrivals.times, []);
    }
}
