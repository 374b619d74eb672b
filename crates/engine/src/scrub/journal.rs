//! The journal's part in scrubs: a node reads its own, all of it, when a scrub of a volume begins of which it holds a part.
//!
//! Not when it starts: a start has just read it. No other node has to do with it, and the scrub's result does not wait for it.
//!
//! Invariant: every round of scrubs that begins is followed by a round over the journal that begins after it.

use alloc::collections::BTreeMap;

use holdfast_model::{SliceId, VolumeId};
use holdfast_stdx::{Duration, Instant};

use crate::engine::Engine;

/// When the journal is read.
#[derive(Debug, Default)]
pub(crate) struct JournalRounds {
    /// The latest scrub of each volume, as far as it is known here; none before the first look.
    seen: Option<BTreeMap<VolumeId, u64>>,
    /// One has begun since the journal was last begun to be read.
    is_due: bool,
}

impl Engine {
    /// When the next piece of the journal may be read.
    pub(super) fn next_journal_piece(&self) -> Option<Instant> {
        let waits = self.world.storage.store().check_waits();
        waits
            .filter(|_| !self.scrubs.held)
            .map(|_| self.scrubs.next)
    }

    /// Looks for scrubs that have begun.
    pub(super) fn look_for_journal(&mut self) {
        if !self.world.cluster.is_ready() || self.world.cluster.is_astray() {
            return;
        }
        let is_here = |volume: VolumeId| {
            let first = SliceId { volume, index: 0 };
            let next = self.replicas.range(first..).next();
            next.is_some_and(|(slice, _)| slice.volume == volume)
        };
        let scrubs = self.world.cluster.scrubs.iter();
        let rounds: BTreeMap<VolumeId, u64> = scrubs
            .filter(|(volume, scrub)| scrub.is_under_way() && is_here(**volume))
            .map(|(volume, scrub)| (*volume, scrub.round))
            .collect();
        let rounds_seen = self.scrubs.journal.seen.replace(rounds.clone());
        if let Some(seen) = rounds_seen {
            let is_new = |(volume, round): (&VolumeId, &u64)| seen.get(volume) != Some(round);
            self.scrubs.journal.is_due |= rounds.iter().any(is_new);
        }
    }

    /// Goes on reading the journal.
    pub(super) fn scrub_journal(&mut self) {
        let now = self.world.now;
        let is_under_way = self.world.storage.store().is_checking_journal();
        if self.scrubs.journal.is_due && !is_under_way {
            self.scrubs.journal.is_due = false;
            self.world.storage.check_journal();
        }
        let Some(bytes) = self.world.storage.store().check_waits() else {
            return;
        };
        if self.may_scrub_bytes(now, bytes) {
            self.world.storage.check_journal_piece();
        }
    }

    /// Whether so many bytes may be read for a scrub now; then they are.
    pub(super) fn may_scrub_bytes(&mut self, now: Instant, bytes: u64) -> bool {
        if self.scrubs.held || now < self.scrubs.next {
            return false;
        }
        if !self.world.pace.may_begin(now, bytes) {
            self.scrubs.held = true;
            return false;
        }
        let rate = self.world.cluster.settings.scrub_rate.max(1);
        let takes = u128::from(bytes) * 1_000_000_000 / u128::from(rate);
        let takes = Duration::from_nanos(u64::try_from(takes).unwrap_or(u64::MAX / 2));
        self.scrubs.next = self.scrubs.next.max(now) + takes;
        true
    }
}
