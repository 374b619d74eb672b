//! Whether what the metadata answers is believed, and what is done where it is not.
//!
//! Invariant: an answer that is not believed is used for nothing, and what it was asked for ends as unknown.

use holdfast_model::metadata::{Revision, TransactionOutcome};
use holdfast_model::record::CLUSTER_KEY;
use holdfast_replica::Proposed;
use holdfast_stdx::{Duration, Instant};

use super::farewell::Farewell;
use super::lacking::pairs;
use super::{Change, Cluster, Purpose, RETRY, Swapped};
use crate::{Astray, Notice};

/// Between two attempts to read everything after a while in which what answers was not believed: only somebody who brings the right metadata back ends that, and
/// all of it is read each time.
const RETRY_ASTRAY: Duration = Duration::from_secs(1);
/// After how long that is so.
const ASTRAY_FOR_LONG: Duration = Duration::from_secs(2);

impl Cluster {
    /// Whether an answer is to be believed. If not, what has to be done is.
    pub(super) fn is_ours(
        &mut self,
        now: Instant,
        purpose: &Purpose,
        outcome: &TransactionOutcome,
        asked_at: Revision,
    ) -> bool {
        let before = self.past.astray();
        let is_ours = self.judge(purpose, outcome, asked_at);
        self.tell_whether_astray(before);
        if !self.is_astray() {
            self.astray_since = None;
        }
        if !is_ours {
            self.not_ours(now, purpose, outcome);
        }
        is_ours
    }

    /// The metadata is believed, or not, and was before or not.
    pub(super) fn tell_whether_astray(&mut self, before: Option<Astray>) {
        let after = self.past.astray();
        if after.is_some() != before.is_some() {
            let notice = after.map_or(Notice::MetadataFollowed, Notice::MetadataAstray);
            self.changes.push_back(Change::Tell(notice));
        }
    }

    /// Whether an answer is to be believed.
    fn judge(&mut self, purpose: &Purpose, outcome: &TransactionOutcome, at: Revision) -> bool {
        match purpose {
            Purpose::Look | Purpose::List => {
                // It may not know what a watch has told of since.
                let is_overtaken = (at..self.past.seen()).contains(&outcome.revision);
                if !is_overtaken {
                    self.read_denials(outcome);
                }
                self.look_for_lacking(outcome, is_overtaken);
            }
            Purpose::Renew => self.look_for_own_bookmark(outcome),
            // It may be of another copy.
            Purpose::Refresh(_) if self.is_to_be_recognised() => {
                return self.past.follow_in_vain(outcome.revision, at);
            }
            Purpose::Refresh(slice) => self.look_for_slice(*slice, outcome),
            Purpose::Introduce => {}
            // It may be of another copy.
            Purpose::ReadAccess(..) if self.is_to_be_recognised() => {
                return self.past.follow_in_vain(outcome.revision, at);
            }
            Purpose::ReadAccess(..) => {}
            // Whoever is told by others that it follows a copy can see all the same whom it finds in it.
            Purpose::Vouch(..) => return self.past.follow_in_vain(outcome.revision, at),
            Purpose::Take
            | Purpose::Register
            | Purpose::Propose(..)
            | Purpose::SayScrubbed(_)
            | Purpose::SayStopped
            | Purpose::SwapAccess(..)
            | Purpose::Leave(_)
            | Purpose::Deny
            | Purpose::Watch => {
                let is_followed = if outcome.succeeded && !self.is_astray() {
                    self.past.follow(outcome.revision, at)
                } else {
                    self.past.follow_in_vain(outcome.revision, at)
                };
                return is_followed && !self.is_astray();
            }
        }
        let cluster = pairs(outcome).find(|pair| pair.key == CLUSTER_KEY);
        // What had been seen in another history was forgotten just now.
        let at = at.min(self.past.seen());
        self.past.judge(outcome.revision, at, cluster)
    }

    /// An answer is not to be believed. Everything is read again until the right metadata is back.
    fn not_ours(&mut self, now: Instant, purpose: &Purpose, outcome: &TransactionOutcome) {
        if matches!(purpose, Purpose::Look | Purpose::List) {
            self.deny(outcome);
        }
        let pause = self.pause_astray(now);
        match purpose {
            Purpose::Look => self.register_retry = Some(now + pause),
            Purpose::Introduce | Purpose::Take | Purpose::Register => {
                self.accepted();
                self.register_retry = Some(now + pause);
            }
            Purpose::Propose(slice, _) => {
                let unknown = Change::Proposed(*slice, Proposed::Unknown);
                self.changes.push_back(unknown);
            }
            Purpose::SayScrubbed(record) => {
                let said = Change::SaidScrubbed(record.slice);
                self.changes.push_back(said);
            }
            Purpose::ReadAccess(_, number) => {
                let change = Change::AccessRead(*number, false);
                self.changes.push_back(change);
            }
            Purpose::SwapAccess(_, number, _) => {
                let change = Change::AccessSwapped(*number, Swapped::Unknown);
                self.changes.push_back(change);
            }
            Purpose::Leave(_) | Purpose::Renew => {
                self.bookmarks.give_up();
                self.drop_held();
            }
            // Others have to say something else first, which a watch tells of. The bookmark is there, or that would be the reason.
            Purpose::List if self.is_disowned() => {
                self.bookmarks.found();
                if self.watch.is_some() {
                    return;
                }
            }
            Purpose::List
            | Purpose::Refresh(_)
            | Purpose::Watch
            | Purpose::Vouch(..)
            | Purpose::Deny => {}
            Purpose::SayStopped => self.farewell = Farewell::No,
        }
        if self.registered && !self.is_listing() {
            // Others that are refused meanwhile put it off no further.
            self.retry.get_or_insert(now + pause);
        }
    }

    /// How long it takes until everything is read again.
    fn pause_astray(&mut self, now: Instant) -> Duration {
        if !self.is_astray() {
            return RETRY;
        }
        let since = *self.astray_since.get_or_insert(now);
        if now.since(since) < ASTRAY_FOR_LONG {
            RETRY
        } else {
            RETRY_ASTRAY
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::processes::{made, registered, run};
    use super::*;

    /// Some hundred nodes that all read everything of what nobody mends are no load; and what is wrong for a moment only is
    /// over soon.
    #[test]
    fn what_is_not_believed_for_long_is_read_once_a_second() {
        let (mut right, mut now, mut node) = registered();
        let mut wrong = made();
        let mut asked = |now: &mut Instant, metadata: &mut _, seconds| {
            let before = node.asked;
            node.disconnect(*now);
            run(
                now,
                Duration::from_secs(seconds),
                metadata,
                &mut [&mut node],
            );
            (node.cluster.is_astray(), node.asked - before)
        };
        let (is_astray, often) = asked(&mut now, &mut wrong, 2);
        assert!(is_astray && often >= 7, "{often}");
        let (is_astray, seldom) = asked(&mut now, &mut wrong, 60);
        assert!(is_astray && (50..=65).contains(&seldom), "{seldom}");
        assert!(!asked(&mut now, &mut right, 2).0, "it is back");
        let (is_astray, often) = asked(&mut now, &mut wrong, 2);
        assert!(is_astray && often >= 7, "{often}");
    }
}
