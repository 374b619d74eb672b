//! Room in the journal: who may take segments, and how many stay for whom.
//!
//! Appends wait for room; what makes room does not, and must find some whatever has happened before. So the free segments are
//! shared out, in whole segments, not in bytes: a record does not go on in the next one, and where each is half a
//! segment long, a segment has one. What the journal has taken in and not written yet counts as written, for nothing takes it back.
//!
//! - The last one of each partition is for small records: the group that each opening writes, and the group that says what is trimmed; positions,
//!   pages that come and go, and what a slice has that is carried forward. None of these is as long as a segment.
//! - What is above is for carrying entries forward, and changes that cannot be destaged: all that has to go together has room before the first
//!   of it is written.
//! - What is above [`segments_kept`](Core::segments_kept) is for appends.
//!
//! So the journal goes on by itself, whenever power fails:
//! - *It is opened*: what a start takes in is written by it, or lost with its memory, and never leaves fewer than a segment for each
//!   partition. The trimmed segments that nobody has announced were not free before either.
//! - *What is decided becomes pages*, and holds no segment any more: that takes small records alone.
//! - *What is carried forward is carried to its end*, unless power fails. Then it is [`unfinished`](crate::unfinished), and holds the oldest
//!   segment until there is room for all of it once more. If there never is, that ends with the last change from before the start that is
//!   not in pages: then nothing is redone any more in the wrong order, and what was to be carried has no meaning. Nothing else is carried
//!   for a segment that is held for that: it would take the room and give none.
//! - *A trimmed segment is announced* by a small record, or by a group without any.
//!
//! What nobody decides can hold the journal: appends wait for that.

use alloc::collections::BTreeMap;

use holdfast_journal::{Footprint, GroupNumber};
use holdfast_model::{Sequence, SliceId};

use crate::item::ItemId;
use crate::machine::Core;

/// Segments for carrying forward, at least: an entry of half a segment, and it again when power has failed.
const CARRY_SEGMENTS: u32 = 2;

impl Core {
    /// Free segments that appends leave.
    fn segments_kept(&self) -> u32 {
        let partitions = self.partitions.len() as u32;
        partitions + partitions.max(CARRY_SEGMENTS)
    }

    /// Whether the journal is short of segments.
    pub(crate) fn is_journal_tight(&self) -> bool {
        self.journal.free_segments() <= self.segments_kept() + self.partitions.len() as u32
    }

    /// Whether the journal may take another append. While nothing is there that can be destaged, waiting
    /// for that would be waiting for ever: then only the journal's own room counts.
    pub(crate) fn has_room(&self) -> bool {
        // One record begins one segment at most.
        if self.free_behind(None) <= self.segments_kept() {
            return false;
        }
        let has_to_wait = self.destage.has_settled() && !self.destage.stranded;
        self.items.bytes() <= self.dirty_bytes_max() || !has_to_wait
    }

    /// Segments that are free when all is written that the journal has taken in, or is about to; and more of a partition.
    fn free_behind(&self, more: Option<(u16, &Footprint)>) -> u32 {
        let mut free = self.journal.free_segments();
        for (partition, state) in (0..).zip(&self.partitions) {
            let more = more.filter(|(of, _)| *of == partition);
            let behind = more.map_or(state.held, |(_, more)| state.held.and(more));
            free = free.saturating_sub(self.journal.segments_for(partition, &behind));
        }
        free
    }

    /// Whether so much can be carried forward at once.
    pub(crate) fn has_room_to_carry(&self, partition: u16, copies: &Footprint) -> bool {
        self.free_behind(Some((partition, copies))) >= self.partitions.len() as u32
    }

    /// Whether these items may be carried forward, so that the segment that ends with `last` can be trimmed.
    pub(crate) fn may_carry(&self, partition: u16, last: GroupNumber, items: &[ItemId]) -> bool {
        let unfinished = self.partitions[usize::from(partition)].unfinished.as_ref();
        if unfinished.is_some_and(|it| it.holds(last)) {
            return false;
        }
        let is_worth_it = self.is_carrying_worth_it(partition) || self.may_mend(partition);
        is_worth_it
            && !self.would_overtake_copy(items)
            && self.has_room_to_carry(partition, &self.footprint_to_carry(items, false))
    }

    /// What carrying these items forward takes; `with_data` if theirs that is in slots is not to stay there.
    pub(crate) fn footprint_to_carry(&self, items: &[ItemId], with_data: bool) -> Footprint {
        let mut footprint = Footprint::default();
        let mut from: BTreeMap<SliceId, Sequence> = BTreeMap::new();
        for number in items {
            let item = &self.items[*number];
            let first = from.entry(item.slice).or_insert(item.rank());
            *first = item.rank().min(*first);
            if self.destage.is_settled(*number) {
                self.add_stranded(*number, &mut footprint);
            }
        }
        for (id, first) in from {
            let slice = self.slice(id).expect("the slice exists");
            for (_, number) in slice.log.range(first..) {
                let leaves = with_data && items.contains(number);
                let (header, data) = self.items[*number].record_bytes(leaves);
                footprint.add(header, data);
            }
        }
        footprint
    }
}
