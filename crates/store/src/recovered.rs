//! What the journal's records say of each slice, taken in their order.
//!
//! Invariants:
//! - an entry is void if an epoch began below it later, if its log was restarted, or if an entry of
//!   a later epoch took its sequence;
//! - an entry that was carried forward counts where its copy stands only if all that follow it stand behind
//!   that: power may have failed between the copies, and redo begins between them;
//! - what is not certain is not claimed: with a hole a slice is damaged until that very hole has been
//!   mended, and its prepared point goes no further than entries are there without a gap;
//! - a hole that came into being after a slice was mended, or filled anew, is a new one, although what
//!   it took stood before.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use holdfast_format::record::HOLES_PER_RECORD_MAX;
use holdfast_format::{Body, Hole, Install, PageSet, ReadRecord};
use holdfast_journal::{Found, GroupNumber};
use holdfast_model::{Change, CommandId, Entry, Epoch, Sequence, SliceId};
use holdfast_stdx::Bytes;

use crate::event::RecoveredSlice;
use crate::item::{PlacedPage, Source};
use crate::machine::partition_of;
use crate::slice::Kept;

/// A change that has to be redone.
#[derive(Debug)]
pub(crate) struct Redo {
    pub(crate) source: Source,
    pub(crate) bad: Vec<u32>,
    /// The slots with its data, one for each page, if that is not in the journal.
    pub(crate) slots: Vec<Option<PlacedPage>>,
    pub(crate) group: GroupNumber,
}

/// One slice.
#[derive(Debug)]
pub(crate) struct Sliver {
    pub(crate) state: Option<Bytes>,
    pub(crate) pages: PageSet,
    /// Whether `pages` is all that was logged.
    pub(crate) pages_certain: bool,
    pub(crate) committed: Sequence,
    /// The last group with which its log began anew: whoever let it knew what was before.
    begun: Option<GroupNumber>,
    /// A record says so, or what the records say does not fit together.
    damaged: bool,
    /// Holes that may have had something of the slice, and that nobody has filled.
    holes: Vec<Hole>,
    pub(crate) kept: Kept,
    pub(crate) commands: Vec<(CommandId, Sequence)>,
    /// Epochs of the entries and points that were found.
    epochs: BTreeMap<Sequence, Epoch>,
    /// Where the entries stand, those that need not be redone too.
    places: BTreeMap<Sequence, Places>,
    /// Entries to be redone, and those above the committed point.
    entries: BTreeMap<Sequence, Redo>,
    /// Copies, and entries that were committed when their log was restarted.
    apart: Vec<Redo>,
    prepared: Sequence,
    /// The last entry before the first one that is missing.
    gap: Option<Sequence>,
    /// The first entry of which a copy stands behind one that follows it.
    carry_again: Option<Sequence>,
}

/// What is left of a slice when all records have been taken.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) prepared: (Epoch, Sequence),
    pub(crate) committed: (Epoch, Sequence),
    /// Entries above the prepared point are in the journal and not part of the log: they follow a hole.
    pub(crate) cut: bool,
    /// Changes that are certain, by rank.
    pub(crate) settled: Vec<Redo>,
    /// Entries above the committed point, without gaps.
    pub(crate) unsettled: Vec<Redo>,
    /// Power failed while changes were carried forward: those of this rank and above have to be again.
    pub(crate) carry_again: Option<Sequence>,
}

impl Outcome {
    /// What says from now on where the log ends. What is certain behind that is in memory, and stays so
    /// for whoever recovers the journal again.
    pub(crate) fn record_of_cut(&self) -> Option<Body> {
        let (epoch, after) = self.prepared;
        let is_beyond =
            |redo: &Redo| matches!(&redo.source, Source::Entry(entry) if entry.sequence > after);
        if !self.cut {
            None
        } else if self.settled.iter().any(is_beyond) {
            Some(Body::Position {
                epoch,
                sequence: after,
                restart: true,
                damaged: true,
            })
        } else {
            Some(Body::BeginEpoch { epoch, after })
        }
    }
}

/// Groups in which an entry stands, in order, and whether what it changes is to be redone from there.
#[derive(Debug)]
struct Places {
    first: (GroupNumber, bool),
    copies: Vec<(GroupNumber, bool)>,
}

impl Places {
    fn new(group: GroupNumber, redo: bool) -> Self {
        Self {
            first: (group, redo),
            copies: Vec::new(),
        }
    }

    fn add(&mut self, group: GroupNumber, redo: bool) {
        self.copies.push((group, redo));
    }

    fn last(&self) -> (GroupNumber, bool) {
        self.copies.last().copied().unwrap_or(self.first)
    }

    /// The last one that is not behind `other`.
    fn last_before(&self, other: Option<GroupNumber>) -> Option<(GroupNumber, bool)> {
        let first = core::iter::once(&self.first);
        let mut all = self.copies.iter().rev().chain(first);
        let fits = |place: &&(GroupNumber, bool)| other.is_none_or(|other| place.0 <= other);
        all.find(fits).copied()
    }
}

/// All slices.
#[derive(Debug)]
pub(crate) struct Slivers {
    pub(crate) slices: BTreeMap<SliceId, Sliver>,
    /// Slices whose end is the last thing that was said of them, with the holes since.
    pub(crate) dropped: BTreeMap<SliceId, Vec<Hole>>,
    /// Of each partition.
    pub(crate) holes: Vec<Vec<Hole>>,
    /// Of each partition: something may be missing before this group.
    pub(crate) suspects: Vec<Option<GroupNumber>>,
}

impl Slivers {
    pub(crate) fn new(partitions: u16) -> Self {
        Self {
            slices: BTreeMap::new(),
            dropped: BTreeMap::new(),
            holes: alloc::vec![Vec::new(); usize::from(partitions)],
            suspects: alloc::vec![None; usize::from(partitions)],
        }
    }

    pub(crate) fn take(&mut self, found: Found) {
        match found {
            Found::Record {
                partition,
                group,
                redo,
                read,
            } => self.take_record(partition, group, redo, read),
            Found::Hole { partition, hole } => self.take_hole(partition, hole.unwrap_or(UNNAMED)),
            Found::End { partition, suspect } => self.suspects[usize::from(partition)] = suspect,
        }
    }

    fn take_hole(&mut self, partition: u16, hole: Hole) {
        add_hole(&mut self.holes[usize::from(partition)], hole);
        let partitions = self.holes.len() as u16;
        let is_there = |id: &SliceId| partition_of(*id, partitions) == partition;
        for (_, slice) in self.slices.iter_mut().filter(|(id, _)| is_there(id)) {
            add_hole(&mut slice.holes, hole);
            slice.pages_certain = false;
        }
        for (_, holes) in self.dropped.iter_mut().filter(|(id, _)| is_there(id)) {
            add_hole(holes, hole);
        }
    }

    fn take_record(&mut self, partition: u16, group: GroupNumber, redo: bool, read: ReadRecord) {
        let id = read.record.slice;
        if matches!(read.record.body, Body::DropSlice) {
            self.slices.remove(&id);
            self.dropped.insert(id, Vec::new());
            return;
        }
        let dropped = self.dropped.remove(&id);
        let slice = self.slices.entry(id).or_insert_with(|| {
            // What was lost before the slice's end does not matter any more.
            let all = &self.holes[usize::from(partition)];
            Sliver::new(dropped.unwrap_or_else(|| all.clone()))
        });
        slice.take(group, redo, read);
    }
}

impl Sliver {
    /// Changes that may have to be redone and whose data is in slots.
    pub(crate) fn placed_mut(&mut self) -> impl Iterator<Item = &mut Redo> {
        let all = self.entries.values_mut().chain(&mut self.apart);
        all.filter(|redo| !redo.slots.is_empty())
    }

    /// A slice of which nothing has been found yet, and that may have lost something in `holes`.
    pub(crate) fn new(holes: Vec<Hole>) -> Self {
        Self {
            state: None,
            pages: PageSet::new(),
            pages_certain: holes.is_empty(),
            committed: Sequence::ZERO,
            begun: None,
            damaged: false,
            holes,
            kept: Kept::default(),
            commands: Vec::new(),
            epochs: BTreeMap::new(),
            places: BTreeMap::new(),
            entries: BTreeMap::new(),
            apart: Vec::new(),
            prepared: Sequence::ZERO,
            gap: None,
            carry_again: None,
        }
    }

    /// A slice of which nothing was found, in a partition with a hole.
    pub(crate) fn lost() -> Self {
        Self::new(alloc::vec![UNNAMED])
    }

    /// Whether something of the slice is lost, as far as can be told.
    pub(crate) fn is_damaged(&self) -> bool {
        self.damaged || !self.holes.is_empty()
    }

    fn take(&mut self, group: GroupNumber, redo: bool, read: ReadRecord) {
        let ReadRecord { record, bad } = read;
        self.committed = self.committed.max(record.committed);
        match record.body {
            Body::Entry(entry) => self.take_entry((group, redo), entry, bad, &[]),
            Body::Placed { entry, slots } => self.take_entry((group, redo), entry, bad, &slots),
            Body::Install { as_of, install } => {
                if redo {
                    let install = own_install(install);
                    self.apart.push(Redo {
                        source: Source::Install { as_of, install },
                        bad,
                        slots: Vec::new(),
                        group,
                    });
                }
            }
            Body::BeginEpoch { after, .. } => {
                self.begun = Some(group);
                self.void_above(after);
            }
            Body::Position {
                epoch,
                sequence,
                restart,
                damaged,
            } => {
                self.kept.position = Some(group);
                self.damaged |= damaged;
                if restart {
                    self.begun = Some(group);
                    self.restart(sequence);
                }
                self.epochs.insert(sequence, epoch);
                self.prepared = self.prepared.max(sequence);
                self.committed = self.committed.max(sequence);
            }
            Body::Mended(filled) => {
                self.damaged = false;
                let is_filled = |hole: &Hole| filled.iter().any(|known| known.covers(hole));
                self.holes.retain(|hole| !is_filled(hole));
                if self.holes.is_empty() {
                    self.gap = None;
                }
            }
            Body::State(state) => {
                self.kept.state = Some(group);
                self.state = Some(state);
            }
            Body::Pages(changes) => {
                self.kept.pages.get_or_insert(group);
                for change in changes {
                    self.pages.set(change.page, change.present);
                }
            }
            Body::Checkpoint(set) => {
                self.kept.pages = Some(group);
                self.pages = set;
                self.pages_certain = true;
            }
            Body::Commands(commands) => self.commands.extend(commands),
            Body::DropSlice => unreachable!("taken before"),
        }
    }

    fn take_entry(
        &mut self,
        (group, redo): (GroupNumber, bool),
        entry: Entry,
        bad: Vec<u32>,
        slots: &[u32],
    ) {
        let sequence = entry.sequence;
        let overtaken = self
            .epochs
            .get(&sequence)
            .is_some_and(|epoch| *epoch < entry.epoch && sequence > self.committed);
        if overtaken {
            // The record that voided the older entry is lost in a hole.
            self.void_above(Sequence(sequence.0 - 1));
        }
        // Before the first hole what is missing has been trimmed.
        let may_be_lost = !self.holes.is_empty() && self.gap.is_none();
        if sequence > self.prepared.next() && may_be_lost {
            self.gap = Some(self.prepared);
        }
        self.prepared = self.prepared.max(sequence);
        self.epochs.insert(sequence, entry.epoch);
        self.places
            .entry(sequence)
            .and_modify(|places| places.add(group, redo))
            .or_insert_with(|| Places::new(group, redo));
        if entry.command.node != 0 {
            self.commands.push((entry.command, sequence));
        }
        if redo {
            let source = Source::Entry(own_entry(entry));
            let slots = slots.iter().map(|slot| {
                Some(PlacedPage {
                    slot: *slot,
                    is_whole: false,
                })
            });
            let redo = Redo {
                source,
                bad,
                slots: slots.collect(),
                group,
            };
            self.entries.insert(sequence, redo);
        }
    }

    fn void_above(&mut self, after: Sequence) {
        self.entries.split_off(&after.next());
        self.places.split_off(&after.next());
        self.epochs.split_off(&after.next());
        self.commands.retain(|(_, sequence)| *sequence <= after);
        self.prepared = self.prepared.min(after);
        self.gap = self.gap.filter(|gap| *gap < after);
    }

    /// The log begins anew after `at`: what was committed before stays to be redone.
    fn restart(&mut self, at: Sequence) {
        let committed = self.committed;
        self.void_above(committed);
        self.choose_places();
        let entries = core::mem::take(&mut self.entries);
        self.apart.extend(entries.into_values());
        self.places.clear();
        self.prepared = at;
        self.gap = None;
    }

    /// Of the copies of each entry takes the last one behind which all later entries stand, and leaves out
    /// entries that are not to be redone from there.
    fn choose_places(&mut self) {
        let mut before: Option<GroupNumber> = None;
        for (sequence, places) in self.places.iter().rev() {
            let place = places.last_before(before);
            let (last, is_redone) = places.last();
            // Where nothing of it is redone its order does not matter any more.
            if is_redone && place.is_none_or(|(group, _)| group != last) {
                let first = self.carry_again.unwrap_or(*sequence);
                self.carry_again = Some(first.min(*sequence));
            }
            match place {
                Some((group, true)) => {
                    if let Some(entry) = self.entries.get_mut(sequence) {
                        entry.group = group;
                    }
                }
                // It is in pages; where it stood before what follows it, if that is trimmed.
                Some((_, false)) | None => {
                    self.entries.remove(sequence);
                }
            }
            before = Some(before.map_or(last, |before| before.min(last)));
        }
    }

    pub(crate) fn finish(&mut self) -> Outcome {
        self.choose_places();
        let found = self.committed;
        let gap = self.gap.filter(|_| self.is_damaged());
        let limit = gap.unwrap_or(self.prepared);
        let committed = found.min(limit);
        let mut settled = core::mem::take(&mut self.apart);
        let mut unsettled = Vec::new();
        let mut prepared = committed;
        for (sequence, redo) in core::mem::take(&mut self.entries) {
            if sequence <= found {
                settled.push(redo);
            } else if sequence == prepared.next() && sequence <= limit && redo.bad.is_empty() {
                prepared = sequence;
                unsettled.push(redo);
            }
        }
        let cut = prepared < self.prepared;
        // What a record says was committed must be there, or have been trimmed with a position.
        self.damaged |= cut || found > self.prepared;
        settled.sort_by_key(|redo| match &redo.source {
            Source::Entry(entry) => (entry.sequence, false),
            Source::Install { as_of, .. } => (*as_of, true),
        });
        let overtaken = first_overtaken(&settled, &unsettled);
        let carry_again = [self.carry_again, overtaken].into_iter().flatten().min();
        Outcome {
            prepared: (self.epoch_at(prepared), prepared),
            committed: (self.epoch_at(committed), committed),
            cut,
            settled,
            unsettled,
            carry_again,
        }
    }

    /// What the replica is told of the slice, when `outcome` has been taken from it. Takes the state
    /// and the commands along. `suspect` is the group of its partition before which something may be missing.
    pub(crate) fn recovered(
        &mut self,
        outcome: &Outcome,
        suspect: Option<GroupNumber>,
    ) -> RecoveredSlice {
        let mut commands = core::mem::take(&mut self.commands);
        // Of entries that are gone: they were not committed, or their number is of no use.
        commands.retain(|(_, sequence)| *sequence <= outcome.prepared.1);
        commands.sort_unstable();
        commands.dedup();
        RecoveredSlice {
            state: self.state.take(),
            prepared: outcome.prepared,
            committed: outcome.committed.1,
            stable: outcome.committed.1,
            intact: !self.is_damaged(),
            lacks: false,
            tail_suspect: suspect.is_some_and(|group| self.begun.is_none_or(|begun| begun < group)),
            commands,
        }
    }

    fn epoch_at(&self, sequence: Sequence) -> Epoch {
        self.epochs
            .range(..=sequence)
            .next_back()
            .map_or(Epoch::ZERO, |(_, epoch)| *epoch)
    }
}

/// The first entry that a copy stands behind which is older than it, and of the same blocks.
fn first_overtaken(settled: &[Redo], unsettled: &[Redo]) -> Option<Sequence> {
    let mut by_page: BTreeMap<u32, Vec<&Redo>> = BTreeMap::new();
    let is_copy = |redo: &&Redo| matches!(redo.source, Source::Install { .. });
    for copy in settled.iter().filter(is_copy) {
        for (page, _) in copy.source.range().iter().flat_map(|range| range.by_page()) {
            by_page.entry(page.0).or_default().push(copy);
        }
    }
    if by_page.is_empty() {
        return None;
    }
    let is_overtaken = |entry: &&Redo| {
        let range = entry.source.range();
        let mut pages = range.iter().flat_map(|range| range.by_page());
        pages.any(|(page, part)| {
            let mut copies = by_page.get(&page.0).into_iter().flatten();
            copies.any(|copy| {
                copy.group > entry.group
                    && copy.source.rank() < entry.source.rank()
                    && copy.source.range().is_some_and(|it| it.overlaps(part))
            })
        })
    };
    let entries = settled.iter().chain(unsettled).filter(|it| !is_copy(it));
    let overtaken = entries.filter(is_overtaken);
    overtaken.map(|entry| entry.source.rank()).min()
}

/// Groups of which nobody knows the numbers: no record names them.
const UNNAMED: Hole = Hole {
    first_group: 0,
    next_group: u64::MAX,
};

/// Of all that were found, the holes that a record can name.
pub(crate) fn named(holes: Vec<Hole>) -> Vec<Hole> {
    holes.into_iter().filter(|hole| *hole != UNNAMED).collect()
}

/// Adds a hole. Beyond those that one record can name there is but one more, which cannot be filled.
fn add_hole(holes: &mut Vec<Hole>, hole: Hole) {
    if holes.len() < HOLES_PER_RECORD_MAX {
        holes.push(hole);
    } else if holes.len() == HOLES_PER_RECORD_MAX {
        holes.push(UNNAMED);
    }
}

/// Data of its own instead of a share of a whole segment.
fn own_change(change: Change) -> Change {
    match change {
        Change::Write {
            start,
            data,
            checksums,
        } => Change::Write {
            start,
            data: Bytes::copy_from_slice(&data),
            checksums,
        },
        other => other,
    }
}

fn own_entry(entry: Entry) -> Entry {
    Entry {
        change: own_change(entry.change),
        ..entry
    }
}

fn own_install(install: Install) -> Install {
    match install {
        Install::Change(change) => Install::Change(own_change(change)),
        bad @ Install::Bad(_) => bad,
    }
}
