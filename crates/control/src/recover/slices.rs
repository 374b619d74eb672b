//! What becomes of each slice when metadata is made again.
//!
//! Who leads the epoch after one is one of those who were in sync in it, and nothing is acknowledged in an
//! epoch that has not begun, durably, at its primary and at all who are in sync. A replica comes to be in
//! sync only by a change of a primary whose epoch has begun, and which has kept, durably, whom it admits. So
//! if all who are in sync by the newest record that is known of, and whoever its primary was admitting, say
//! that no later epoch has begun at them, nothing was acknowledged in a later epoch: any of them has
//! everything. If one of them was not heard, it may have gone on alone, or with others that are not known
//! of: the slice waits for it.
//!
//! Invariant: nobody is counted as in sync who may lack something that was acknowledged, unless an operator
//! has given it up.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use holdfast_model::metadata::Revision;
use holdfast_model::record::{
    ClusterRecord, EpochGap, Membership, SliceRecord, SliceRecovery, VolumeRecord,
};
use holdfast_model::report::{HeldSlice, HeldStanding, NodeReport};
use holdfast_model::{Epoch, Incarnation, NodeId, Sequence, SliceId, VolumeId};

use super::documents::Documents;
use super::{Doubt, Fate, Place, PlannedSlice, epoch_beyond};
use crate::inventory::{Inventory, Versioned};
use crate::members::Seen;
use crate::placement::Placement;

/// The slices, and what is needed to tell what becomes of them.
pub(super) struct Slices<'a> {
    pub(super) reports: &'a [NodeReport],
    pub(super) documents: &'a Documents,
    pub(super) missing: &'a BTreeSet<NodeId>,
    pub(super) lost: &'a BTreeSet<NodeId>,
    pub(super) planned: Vec<PlannedSlice>,
    pub(super) doubts: Vec<Doubt>,
}

/// What one of those says who may have gone on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Word {
    /// It knows of nothing newer, and has everything.
    Good,
    /// It knows of nothing newer, and does not have everything.
    Bad,
    /// Nobody can tell what it knows.
    None,
    /// It is given up.
    Lost,
}

impl Slices<'_> {
    /// Plans for the slices of all volumes that are made again.
    pub(super) fn plan(&mut self, cluster: &ClusterRecord, left_out: &BTreeSet<VolumeId>) {
        let mut fresh = Vec::new();
        for volume in self.documents.volumes.values() {
            for index in 0..volume.slice_count() {
                let slice = SliceId {
                    volume: volume.volume,
                    index,
                };
                match self.fate_of(slice) {
                    Some(planned) => self.planned.push(planned),
                    None if self.all_is_heard() => fresh.push((slice, volume)),
                    None => self.not_made(slice, Fate::Unknown, Doubt::Unknown(slice)),
                }
            }
        }
        self.place(cluster, &fresh);
        self.planned.sort_by_key(|planned| planned.slice);
        self.tell_strays(left_out);
    }

    /// Whether everybody has said all that there is.
    fn all_is_heard(&self) -> bool {
        let is_lost = |node: &NodeId| self.lost.contains(node);
        let mut doubtful = self.documents.holes.iter().chain(&self.documents.old);
        self.missing.is_empty() && doubtful.all(is_lost)
    }

    fn not_made(&mut self, slice: SliceId, fate: Fate, doubt: Doubt) {
        self.doubts.push(doubt);
        self.planned.push(PlannedSlice {
            slice,
            fate,
            record: None,
        });
    }

    /// What nodes hold of a slice, but for those that are given up.
    fn held(&self, slice: SliceId) -> impl Iterator<Item = (&NodeReport, &HeldSlice)> {
        let reports = self.reports.iter();
        let heard = reports.filter(|report| !self.lost.contains(&report.node));
        heard.filter_map(move |report| {
            let mut slices = report.slices.iter();
            Some((report, slices.find(|held| held.slice == slice)?))
        })
    }

    /// What becomes of a slice of which somebody has something.
    fn fate_of(&mut self, slice: SliceId) -> Option<PlannedSlice> {
        let held: Vec<&HeldSlice> = self.held(slice).map(|(_, held)| held).collect();
        held.first()?;
        let epochs = held.iter().flat_map(|held| {
            let kept = held.record.iter().map(|record| record.epoch);
            kept.chain([held.epoch, held.withdrawn])
        });
        let highest = epochs.max().unwrap_or_default();
        let found = newest_of(&held);
        let Some((newest, voids)) = found.map(|(newest, voids)| (newest.clone(), voids)) else {
            self.doubts.push(Doubt::NoRecord(slice));
            return Some(PlannedSlice {
                slice,
                fate: Fate::NoRecord,
                record: None,
            });
        };
        let words = self.words(&newest);
        let (fate, in_sync) = self.judge(&newest, &words);
        let record = made_again(&newest, &voids, highest, &fate, &in_sync);
        Some(PlannedSlice {
            slice,
            fate,
            record: Some(record),
        })
    }

    /// What those say who may have gone on after the newest record that is known of.
    fn words(&self, newest: &SliceRecord) -> BTreeMap<NodeId, Word> {
        let admitting = self.held(newest.slice).filter_map(|(_, held)| {
            let is_of_it = held.record.as_ref() == Some(newest) && held.epoch == newest.epoch;
            held.admitting.filter(|_| is_of_it)
        });
        let mut asked: BTreeSet<NodeId> = admitting.collect();
        asked.retain(|node| newest.replica(*node).is_some());
        asked.extend(newest.in_sync());
        let words = asked.into_iter().map(|node| {
            let store = newest.replica(node).map(|replica| replica.store);
            let store = store.expect("they are named in the record");
            (node, self.word_of(newest.slice, (node, store)))
        });
        words.collect()
    }

    fn word_of(&self, slice: SliceId, (node, store): Place) -> Word {
        if self.lost.contains(&node) {
            return Word::Lost;
        }
        let mut reports = self.reports.iter();
        let report = reports.find(|report| report.node == node && report.store == store);
        let Some(report) = report.filter(|_| !self.documents.old.contains(&node)) else {
            return Word::None;
        };
        let held = report.slices.iter().find(|held| held.slice == slice);
        match held {
            Some(held) if !held.intact => Word::None,
            Some(held) if held.standing == HeldStanding::Damaged => Word::Bad,
            Some(_) => Word::Good,
            // It may have known of a record that does not name it, and dropped what it had: whoever that
            // names is among the others.
            None if self.all_is_heard() && self.lost.is_empty() => Word::Bad,
            None => Word::None,
        }
    }

    /// What becomes of a slice, and who is counted as in sync.
    fn judge(
        &mut self,
        newest: &SliceRecord,
        words: &BTreeMap<NodeId, Word>,
    ) -> (Fate, BTreeSet<NodeId>) {
        let slice = newest.slice;
        let of = |wanted: Word| -> Vec<NodeId> {
            let words = words.iter().filter(|(_, word)| **word == wanted);
            words.map(|(node, _)| *node).collect()
        };
        let was_in_sync = |node: &NodeId| newest.in_sync().any(|it| it == *node);
        let (good, silent, lost) = (of(Word::Good), of(Word::None), of(Word::Lost));
        let whole: BTreeSet<NodeId> = good.iter().copied().filter(was_in_sync).collect();
        if !silent.is_empty() {
            let nodes = silent.clone();
            self.doubts.push(Doubt::Waits { slice, nodes });
            let needed = whole.into_iter().chain(silent.iter().copied());
            let needed = needed.collect();
            return (Fate::Waits(silent), needed);
        }
        if whole.is_empty() {
            let everybody = newest.in_sync().collect();
            if lost.is_empty() {
                self.doubts.push(Doubt::AllDamaged(slice));
                return (Fate::Certain, everybody);
            }
            let nodes = lost.clone();
            self.doubts.push(Doubt::OnlyLost { slice, nodes });
            return (Fate::Waits(lost), everybody);
        }
        if lost.is_empty() {
            return (Fate::Certain, whole);
        }
        let nodes = lost.clone();
        self.doubts.push(Doubt::GivenUp { slice, nodes });
        (Fate::WithoutLost(lost), whole)
    }

    /// Makes the slices that have never been written to, where nodes are that were heard.
    fn place(&mut self, cluster: &ClusterRecord, fresh: &[(SliceId, &VolumeRecord)]) {
        let inventory = self.inventory(cluster);
        let heard: BTreeSet<NodeId> = inventory.nodes.keys().copied().collect();
        let copies_max = heard.iter().filter(|it| inventory.is_active(**it)).count();
        let mut placement = Placement::new(&inventory, |_| Some(Seen::with_room(1 << 40, 1 << 40)));
        for (slice, volume) in fresh {
            let copies = volume.policy.copies();
            if copies_max == 0 {
                self.not_made(*slice, Fate::Unknown, Doubt::NoPlace(*slice));
                continue;
            }
            self.doubts.push(Doubt::Emptied(*slice));
            let placed = placement.place(copies.min(copies_max));
            let (primary, replicas) = placed.expect("there are as many nodes");
            let record = SliceRecord {
                schema: 1,
                slice: *slice,
                epoch: Epoch(1),
                primary,
                preferred: primary,
                replicas,
                copies_min: volume.policy.copies_min().min(copies_max) as u8,
                bytes_moved: 0,
                proposer: (NodeId(0), Incarnation::ZERO),
                nonce: 0,
                recovery: None,
            };
            self.planned.push(PlannedSlice {
                slice: *slice,
                fate: Fate::New,
                record: Some(record),
            });
        }
    }

    /// What is there to place new slices by: the nodes that were heard, with what they hold.
    fn inventory(&self, cluster: &ClusterRecord) -> Inventory {
        let of_old = Revision(0);
        let heard = self.reports.iter().filter_map(|report| {
            let known = self.documents.nodes.get(&report.node)?;
            let is_given = !self.lost.contains(&report.node);
            let store = report.store;
            is_given.then(|| {
                let record = known.clone();
                (
                    report.node,
                    holdfast_model::record::NodeRecord { store, ..record },
                )
            })
        });
        let made = self.planned.iter();
        let made = made.filter_map(|planned| Some((planned.slice, planned.record.clone()?)));
        let intents = self.documents.intents.iter().map(|(node, record)| {
            let (record, revision) = (record.clone(), of_old);
            (*node, Versioned { record, revision })
        });
        Inventory {
            revision: of_old,
            cluster: Versioned {
                record: cluster.clone(),
                revision: of_old,
            },
            deleted: Versioned {
                record: holdfast_model::record::DeletedRecord::default(),
                revision: of_old,
            },
            nodes: heard.collect(),
            // Nobody has noted them: nodes say them at their next start, and what shares one then moves apart.
            domains: BTreeMap::new(),
            names: BTreeMap::new(),
            makings: BTreeSet::new(),
            volumes: BTreeMap::new(),
            slices: made.collect(),
            settings: Versioned {
                record: self.documents.settings.clone().unwrap_or_default(),
                revision: of_old,
            },
            intents: intents.collect(),
            drains: BTreeMap::new(),
            wishes: BTreeMap::new(),
            scrubs: BTreeMap::new(),
            initiators: BTreeMap::new(),
            exports: BTreeMap::new(),
            creations: BTreeMap::new(),
            scrubbed: BTreeMap::new(),
        }
    }

    /// Tells of slices that no volume has.
    fn tell_strays(&mut self, left_out: &BTreeSet<VolumeId>) {
        let held = self.reports.iter().flat_map(|report| &report.slices);
        let held: BTreeSet<SliceId> = held.map(|held| held.slice).collect();
        let mut unknown = BTreeSet::new();
        for slice in held {
            let volume = slice.volume;
            match self.documents.volumes.get(&volume) {
                Some(known) if slice.index < known.slice_count() => {}
                Some(_) => self.doubts.push(Doubt::BeyondEnd(slice)),
                None if left_out.contains(&volume) || !unknown.insert(volume) => {}
                None => self.doubts.push(Doubt::NoVolume(volume)),
            }
        }
    }
}

/// Epochs of a record that was made again, and that one whom it counted on did not confirm: nothing was
/// acknowledged in them.
#[derive(Clone, Copy, Debug)]
struct Void {
    first: Epoch,
    last: Epoch,
}

/// The newest record that counts, and what does not count although it is newer; none if nobody has kept the
/// record of the newest epoch that has begun.
fn newest_of<'a>(held: &[&'a HeldSlice]) -> Option<(&'a SliceRecord, Vec<Void>)> {
    let mut voids: Vec<Void> = Vec::new();
    loop {
        let end = voids.first().map(|void| void.first);
        let counts = |epoch: Epoch| end.is_none_or(|end| epoch < end);
        let records = held.iter().filter_map(|held| held.record.as_ref());
        let records = records.filter(|record| counts(record.epoch));
        let newest = records.max_by_key(|record| record.epoch)?;
        let mut begun = held.iter().map(|held| held.epoch);
        let gaps = newest.recovery.iter().flat_map(|recovery| &recovery.gaps);
        let gap = gaps.last().filter(|_| newest.is_unconfirmed());
        let is_in = |gap: &&EpochGap| begun.any(|it| gap.known < it && it < gap.made);
        if let Some(gap) = gap.filter(is_in) {
            let (first, last) = (gap.made, newest.epoch);
            voids.insert(0, Void { first, last });
            continue;
        }
        let mut begun = held.iter().map(|held| held.epoch);
        let is_newest = begun.all(|epoch| epoch <= newest.epoch || !counts(epoch));
        return is_newest.then_some((newest, voids));
    }
}

/// The record of a slice with these replicas in sync.
fn made_again(
    newest: &SliceRecord,
    voids: &[Void],
    highest: Epoch,
    fate: &Fate,
    in_sync: &BTreeSet<NodeId>,
) -> SliceRecord {
    let mut record = newest.clone();
    record.epoch = epoch_beyond(highest);
    for replica in &mut record.replicas {
        replica.membership = match replica.membership {
            _ if in_sync.contains(&replica.node) => Membership::InSync,
            Membership::InSync => Membership::Absent {
                stable: Sequence::ZERO,
            },
            Membership::Joining { stable } | Membership::Absent { stable } => {
                Membership::Absent { stable }
            }
        };
    }
    let leaders = [newest.primary, newest.preferred].into_iter();
    let leader = leaders.chain(in_sync.iter().copied());
    let leader = leader.into_iter().find(|node| in_sync.contains(node));
    record.primary = leader.expect("somebody is in sync");
    record.proposer = (NodeId(0), Incarnation::ZERO);
    record.nonce = 0;
    let before = newest.recovery.iter().flat_map(|recovery| &recovery.gaps);
    let mut gaps: Vec<EpochGap> = before.copied().collect();
    let mut known = newest.epoch;
    for void in voids {
        gaps.push(EpochGap {
            known,
            made: void.first,
            discards: false,
        });
        known = void.last;
    }
    gaps.push(EpochGap {
        known,
        made: record.epoch,
        discards: matches!(fate, Fate::WithoutLost(_)),
    });
    record.recovery = Some(SliceRecovery {
        unconfirmed: matches!(fate, Fate::Waits(_)),
        gaps,
    });
    record
}
