//! What this node knows of the past of its metadata: whether what answers now is what it belongs
//! to, and has not gone back (a backup was restored, or its directory was emptied).
//!
//! It refuses to do anything about it: an operator must bring the right metadata back, and is told how.
//!
//! Invariants:
//! - the highest revision that was seen never falls, once the node is registered;
//! - metadata that does not know the cluster, or that has yet to make a volume of which this node
//!   holds slices, is not ours, or not any more, whatever its revision: so a restart, after which
//!   no revision is known, is survived as well.

use alloc::collections::BTreeSet;

use holdfast_model::metadata::{KeyValue, Revision};
use holdfast_model::record::{ClusterRecord, Record};
use holdfast_model::report::NotedAt;
use holdfast_model::{ClusterId, VolumeId};

use crate::astray::{Astray, Lost};

/// What is known.
#[derive(Debug, Default)]
pub(crate) struct Past {
    cluster: ClusterId,
    /// What had been noted at the start.
    noted: NotedAt,
    /// The highest revision that was seen, since the metadata was last made again.
    seen: Revision,
    /// How often it was.
    recoveries: u64,
    /// Something was believed in this start of the node.
    has_followed: bool,
    /// There was a record of the cluster in this start of the node.
    knows_cluster: bool,
    /// Volumes of which there have been slices here.
    held: BTreeSet<VolumeId>,
    /// Of what documents are gone, as was found last.
    lacking: Option<Lost>,
    /// That others do not follow it, as they say.
    disowned: Option<Astray>,
    astray: Option<Astray>,
}

impl Past {
    /// Of a node of this cluster that holds slices of these volumes, and has noted what it had seen.
    pub(crate) fn new(cluster: ClusterId, held: BTreeSet<VolumeId>, noted: NotedAt) -> Self {
        Self {
            cluster,
            noted,
            held,
            seen: noted.revision,
            recoveries: noted.recoveries,
            ..Self::default()
        }
    }

    /// What a node without devices had found out of the metadata counts when it has some.
    pub(crate) fn after(self, before: &Self) -> Self {
        let knows_cluster = self.knows_cluster || before.knows_cluster;
        Self {
            knows_cluster,
            ..self
        }
    }

    /// Documents of something are gone that nobody has deleted; or none are. That none are counts when the metadata is judged
    /// the next time.
    pub(crate) fn lack(&mut self, lost: Option<Lost>) {
        self.lacking = lost;
        if self.astray.is_none() {
            self.astray = lost.map(Astray::Lacking);
        }
    }

    /// Whether it is not what this node has followed, or that as it was before, as was found last.
    pub(crate) fn lacks_what_it_followed(&self) -> bool {
        match self.astray {
            // There is nothing there that this node has left since.
            Some(Astray::MadeAgain { recoveries, seen }) => recoveries < seen,
            _ => matches!(
                self.lacking,
                Some(Lost::Bookmark { .. } | Lost::Epoch { .. } | Lost::Sole(_))
            ),
        }
    }

    /// Others say, for this reason, that they do not follow it; or not enough of them do. That they do not any more counts when the
    /// metadata is judged the next time.
    pub(crate) fn disown(&mut self, why: Option<Astray>) {
        self.disowned = why;
        if self.astray.is_none() {
            self.astray = why;
        }
    }

    /// The record of the cluster was deleted.
    pub(crate) fn lose_cluster(&mut self) {
        self.astray = Some(Astray::NoCluster);
    }

    /// Whose the metadata is to be.
    pub(crate) fn cluster(&self) -> ClusterId {
        self.cluster
    }

    /// How often the metadata was made again, as far as is known.
    pub(crate) fn recoveries(&self) -> u64 {
        self.recoveries
    }

    /// The metadata is at a revision, as an answer says by which nothing was changed: what was to be compared was otherwise,
    /// perhaps because it is damaged. True if it has not gone back.
    pub(crate) fn follow_in_vain(&mut self, revision: Revision, asked_at: Revision) -> bool {
        let seen = self.seen;
        let is_followed = self.follow(revision, asked_at);
        self.seen = seen;
        is_followed
    }

    /// What was seen since the start does not count, for nothing has been done by it; but for that the cluster has
    /// been made.
    pub(crate) fn look_anew(&mut self) {
        self.seen = self.noted.revision;
        self.recoveries = self.noted.recoveries;
        self.has_followed = false;
    }

    /// What was seen, and is held, is of another history.
    pub(crate) fn begin_anew(&mut self) {
        self.noted = NotedAt {
            recoveries: self.noted.recoveries,
            ..NotedAt::default()
        };
        self.seen = Revision(0);
        self.held.clear();
    }

    /// The highest revision that was seen.
    pub(crate) fn seen(&self) -> Revision {
        self.seen
    }

    /// Why the metadata is not followed, if it is not.
    pub(crate) fn astray(&self) -> Option<Astray> {
        self.astray
    }

    /// There are slices of a volume.
    pub(crate) fn hold(&mut self, volume: VolumeId) {
        self.held.insert(volume);
    }

    /// The metadata is at a revision. What was asked when `asked_at` was the highest that had been
    /// seen is answered as of a later one, or the metadata has gone back; true if it has not.
    pub(crate) fn follow(&mut self, revision: Revision, asked_at: Revision) -> bool {
        if revision < asked_at {
            let seen = self.seen;
            self.astray = Some(Astray::Behind { revision, seen });
            return false;
        }
        self.seen = self.seen.max(revision);
        true
    }

    /// Judges the metadata by its revision and its record of the cluster, which decides whether it is
    /// followed from now on; true if it is. What is not believed has no revision that counts.
    pub(crate) fn judge(
        &mut self,
        revision: Revision,
        asked_at: Revision,
        cluster: Option<&KeyValue>,
    ) -> bool {
        let before = (self.seen, self.recoveries);
        if let Err(why) = self.consider(revision, asked_at, cluster) {
            (self.seen, self.recoveries) = before;
            self.astray = Some(why);
        }
        self.astray.is_none()
    }

    fn consider(
        &mut self,
        revision: Revision,
        asked_at: Revision,
        cluster: Option<&KeyValue>,
    ) -> Result<(), Astray> {
        let record = cluster.map(|pair| ClusterRecord::decode(&pair.value));
        let record = record.transpose().map_err(Astray::Unreadable)?;
        if let Some(other) = record.as_ref().map(|record| record.cluster)
            && other != self.cluster
        {
            // Its revisions say nothing of ours.
            return Err(Astray::OtherCluster(other));
        }
        let mut asked_at = asked_at;
        if let Some(recoveries) = record.as_ref().map(|record| record.recoveries)
            && recoveries != self.recoveries
        {
            let seen = self.recoveries;
            // Whoever ran on may have done things that nobody knew of when it was made again.
            if self.has_followed || recoveries < seen {
                return Err(Astray::MadeAgain { recoveries, seen });
            }
            self.recoveries = recoveries;
            (self.seen, asked_at) = (Revision(0), Revision(0));
        }
        let seen = self.seen;
        if revision < asked_at {
            return Err(Astray::Behind { revision, seen });
        }
        if revision < seen {
            // A watch has overtaken it: it may not know of the newest volume.
            return Ok(());
        }
        self.seen = revision;
        let Some(record) = record else {
            // A cluster that is about to be made.
            let has_noted = self.noted != NotedAt::default();
            if !self.held.is_empty() || self.knows_cluster || has_noted {
                return Err(Astray::NoCluster);
            }
            self.astray = None;
            return Ok(());
        };
        self.knows_cluster = true;
        if let Some(volume) = self.held.range(record.next_volume..).next() {
            return Err(Astray::Unborn(*volume));
        }
        if let Some(lost) = self.lacking {
            return Err(Astray::Lacking(lost));
        }
        if let Some(why) = self.disowned {
            return Err(why);
        }
        self.astray = None;
        self.has_followed = true;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use holdfast_model::Incarnation;
    use holdfast_model::metadata::LeaseId;
    use holdfast_model::record::{CLUSTER_KEY, RecordError};

    use super::*;

    fn record(cluster: u128, next_volume: u64) -> KeyValue {
        made_again(cluster, next_volume, 0)
    }

    fn made_again(cluster: u128, next_volume: u64, recoveries: u64) -> KeyValue {
        let record = ClusterRecord {
            schema: 1,
            cluster: ClusterId(cluster),
            next_volume: VolumeId(next_volume),
            recoveries,
            incarnation_floor: Incarnation::ZERO,
        };
        KeyValue {
            key: CLUSTER_KEY.to_string(),
            value: record.encode(),
            create_revision: Revision(1),
            mod_revision: Revision(1),
            version: 1,
            lease: LeaseId(0),
        }
    }

    fn past(held: &[u64]) -> Past {
        noted(held, NotedAt::default())
    }

    fn noted(held: &[u64], noted: NotedAt) -> Past {
        let held = held.iter().copied().map(VolumeId).collect();
        Past::new(ClusterId(5), held, noted)
    }

    const NOTED: NotedAt = NotedAt {
        recoveries: 1,
        revision: Revision(9),
    };

    /// Nor does a node without slices take it for that of a cluster that is about to be made.
    #[test]
    fn a_record_that_cannot_be_read_is_not_passed_over() {
        for held in [&[][..], &[1]] {
            let mut past = past(held);
            let mut newer = record(5, 2);
            newer.value = br#"{"schema":2,"next":[]}"#.as_slice().into();
            assert!(!past.judge(Revision(3), past.seen(), Some(&newer)));
            let why = Astray::Unreadable(RecordError::Schema(2));
            assert_eq!(past.astray(), Some(why));
            assert!(why.to_string().contains("schema 2"), "{why}");
            newer.value = b"".as_slice().into();
            assert!(!past.judge(Revision(3), past.seen(), Some(&newer)));
            // The right one is back.
            assert!(past.judge(Revision(4), past.seen(), Some(&record(5, 2))));
            assert_eq!(past.astray(), None);
        }
    }

    #[test]
    fn what_was_noted_is_remembered_through_a_restart() {
        let mut past = noted(&[], NOTED);
        assert!(!past.judge(Revision(8), past.seen(), Some(&made_again(5, 1, 1))));
        assert!(past.judge(Revision(9), past.seen(), Some(&made_again(5, 1, 1))));
        let mut past = noted(&[], NOTED);
        assert!(!past.judge(Revision(99), past.seen(), Some(&record(5, 1))));
        let (recoveries, seen) = (0, 1);
        assert_eq!(past.astray(), Some(Astray::MadeAgain { recoveries, seen }));
    }

    #[test]
    fn metadata_that_was_made_again_is_followed_from_the_next_start_on() {
        let mut past = noted(&[], NOTED);
        assert!(past.judge(Revision(2), past.seen(), Some(&made_again(5, 1, 2))));
        assert_eq!(past.seen(), Revision(2));
        assert!(!past.judge(Revision(1), past.seen(), Some(&made_again(5, 1, 2))));
        assert!(past.judge(Revision(3), past.seen(), Some(&made_again(5, 1, 2))));
        assert!(!past.judge(Revision(99), past.seen(), Some(&made_again(5, 1, 3))));
        let (recoveries, seen) = (3, 2);
        assert_eq!(past.astray(), Some(Astray::MadeAgain { recoveries, seen }));
        // That of another cluster is of no account.
        let mut past = noted(&[], NOTED);
        assert!(!past.judge(Revision(99), past.seen(), Some(&made_again(6, 1, 2))));
        assert!(past.judge(Revision(9), past.seen(), Some(&made_again(5, 1, 1))));
    }

    #[test]
    fn a_lower_revision_than_was_seen_is_not_followed_until_it_is_reached_again() {
        let mut past = past(&[]);
        assert!(past.judge(Revision(9), Revision(0), Some(&record(5, 1))));
        assert!(!past.judge(Revision(8), past.seen(), Some(&record(5, 1))));
        let (revision, seen) = (Revision(8), Revision(9));
        assert_eq!(past.astray(), Some(Astray::Behind { revision, seen }));
        assert_eq!(past.seen(), Revision(9));
        assert!(past.judge(Revision(9), past.seen(), Some(&record(5, 1))));
        assert_eq!(past.astray(), None);
    }

    #[test]
    fn an_answer_that_was_overtaken_by_a_watch_is_not_of_the_past() {
        let mut past = past(&[]);
        assert!(past.follow(Revision(9), Revision(7)));
        assert!(past.follow(Revision(8), Revision(7)));
        assert_eq!(past.seen(), Revision(9));
        past.hold(VolumeId(1));
        assert!(past.judge(Revision(8), Revision(7), Some(&record(5, 1))));
    }

    #[test]
    fn metadata_of_nobody_or_of_somebody_else_is_not_followed_by_a_node_that_holds_slices() {
        assert!(past(&[]).judge(Revision(1), Revision(0), None));
        let mut holder = past(&[3]);
        assert!(!holder.judge(Revision(1), Revision(0), None));
        assert_eq!(holder.astray(), Some(Astray::NoCluster));
        let other = record(6, 4);
        assert!(!past(&[]).judge(Revision(1), Revision(0), Some(&other)));
        assert!(!holder.judge(Revision(1), Revision(0), Some(&other)));
        assert_eq!(holder.astray(), Some(Astray::OtherCluster(ClusterId(6))));
    }

    /// Its revision says nothing of the right one's, which is followed when it is back.
    #[test]
    fn the_revision_of_what_is_not_believed_does_not_count() {
        let mut past = past(&[1]);
        assert!(past.judge(Revision(9), Revision(0), Some(&record(5, 2))));
        assert!(!past.judge(Revision(20), past.seen(), None));
        assert_eq!(past.seen(), Revision(9));
        past.lack(Some(Lost::Volume(VolumeId(1))));
        assert!(!past.judge(Revision(20), past.seen(), Some(&record(5, 2))));
        assert_eq!(
            past.astray(),
            Some(Astray::Lacking(Lost::Volume(VolumeId(1))))
        );
        assert!(!past.judge(Revision(20), past.seen(), Some(&made_again(5, 2, 1))));
        past.lack(None);
        assert!(past.judge(Revision(9), past.seen(), Some(&record(5, 2))));
        assert_eq!(past.astray(), None);
    }

    #[test]
    fn documents_that_are_lacking_count_at_once() {
        let mut past = past(&[]);
        assert!(past.judge(Revision(1), Revision(0), Some(&record(5, 2))));
        past.lack(Some(Lost::Volume(VolumeId(1))));
        assert_eq!(
            past.astray(),
            Some(Astray::Lacking(Lost::Volume(VolumeId(1))))
        );
        // What is read of something else does not say that they are there again.
        assert!(!past.judge(Revision(2), past.seen(), Some(&record(5, 2))));
    }

    /// A node that holds no slice has noted that there is a cluster.
    #[test]
    fn emptied_metadata_is_not_that_of_a_new_cluster_to_who_has_noted_one() {
        let mut past = noted(&[], NOTED);
        assert!(!past.judge(Revision(20), past.seen(), None));
        assert_eq!(past.astray(), Some(Astray::NoCluster));
        assert!(past.judge(Revision(9), past.seen(), Some(&made_again(5, 1, 1))));
    }

    #[test]
    fn a_node_without_devices_remembers_that_there_was_a_cluster() {
        let mut first = past(&[]);
        assert!(first.judge(Revision(1), Revision(0), Some(&record(5, 1))));
        let mut past = past(&[]).after(&first);
        assert!(!past.judge(Revision(1), Revision(0), None));
        assert_eq!(past.astray(), Some(Astray::NoCluster));
    }

    #[test]
    fn metadata_that_has_yet_to_make_a_volume_that_is_here_has_gone_back() {
        let mut past = past(&[2]);
        past.hold(VolumeId(3));
        assert!(past.judge(Revision(1), Revision(0), Some(&record(5, 4))));
        assert!(!past.judge(Revision(1), Revision(0), Some(&record(5, 3))));
        assert_eq!(past.astray(), Some(Astray::Unborn(VolumeId(3))));
    }
}
