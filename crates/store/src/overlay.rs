//! What the items in memory make of one page.
//!
//! *Settled* items are those that recovery is certain to find committed; only they are destaged.
//! They are merged: each block belongs to one part. The others wait in a list until they are
//! settled or void.
//!
//! Invariants: parts do not overlap; of two items that touch a block the one with the higher rank
//! has it, of equal ones the later.

use alloc::vec::Vec;

use holdfast_model::Sequence;

use crate::item::{ItemId, Masks};

/// What a part makes of its blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PartKind {
    Data,
    Zero,
    Bad,
}

/// Blocks that one settled item has the last word on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) mask: u64,
    pub(crate) item: ItemId,
    pub(crate) rank: Sequence,
    pub(crate) kind: PartKind,
}

/// One page's overlay.
#[derive(Debug, Default)]
pub(crate) struct PageOverlay {
    parts: Vec<Part>,
    /// By rank, then number.
    unsettled: Vec<(Sequence, ItemId)>,
}

impl PageOverlay {
    pub(crate) fn is_empty(&self) -> bool {
        self.parts.is_empty() && self.unsettled.is_empty()
    }

    pub(crate) fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// The blocks that are settled and not bad.
    pub(crate) fn good_mask(&self) -> u64 {
        let good = self.parts.iter().filter(|part| part.kind != PartKind::Bad);
        good.fold(0, |mask, part| mask | part.mask)
    }

    /// Blocks that some settled item has the last word on.
    pub(crate) fn settled_mask(&self) -> u64 {
        self.parts.iter().fold(0, |mask, part| mask | part.mask)
    }

    /// Blocks that settled items of a higher rank have the last word on. There are some for a copy that carries an
    /// older change forward.
    pub(crate) fn settled_above(&self, rank: Sequence) -> u64 {
        let above = self.parts.iter().filter(|part| part.rank > rank);
        above.fold(0, |mask, part| mask | part.mask)
    }

    /// Items that are not settled, the one with the last word last.
    pub(crate) fn unsettled(&self) -> impl DoubleEndedIterator<Item = (Sequence, ItemId)> {
        self.unsettled.iter().copied()
    }

    pub(crate) fn add_unsettled(&mut self, rank: Sequence, item: ItemId) {
        let place = self
            .unsettled
            .partition_point(|other| *other < (rank, item));
        self.unsettled.insert(place, (rank, item));
    }

    /// Takes an item out of the list; says whether it was there.
    pub(crate) fn remove_unsettled(&mut self, rank: Sequence, item: ItemId) -> bool {
        let before = self.unsettled.len();
        self.unsettled.retain(|other| *other != (rank, item));
        self.unsettled.len() < before
    }

    /// Merges a settled item: says how many parts it has got, and which items lost their last part
    /// (once for each part lost).
    pub(crate) fn settle(
        &mut self,
        item: ItemId,
        rank: Sequence,
        masks: Masks,
        lost: &mut Vec<ItemId>,
    ) -> u32 {
        let mut mask = masks.all();
        for part in &mut self.parts {
            if part.rank > rank {
                mask &= !part.mask;
            } else {
                part.mask &= !mask;
            }
        }
        self.drop_empty(lost);
        let kinds = [
            (PartKind::Data, masks.data & mask),
            (PartKind::Zero, masks.zero & mask),
            (PartKind::Bad, masks.bad & mask),
        ];
        let mut count = 0;
        for (kind, mask) in kinds.into_iter().filter(|(_, mask)| *mask != 0) {
            self.parts.push(Part {
                mask,
                item,
                rank,
                kind,
            });
            count += 1;
        }
        count
    }

    /// Takes away what has been destaged: those blocks of `destaged` that still are its item's.
    pub(crate) fn destaged(&mut self, destaged: &Part, lost: &mut Vec<ItemId>) {
        for part in &mut self.parts {
            if part.item == destaged.item && part.kind == destaged.kind {
                part.mask &= !destaged.mask;
            }
        }
        self.drop_empty(lost);
    }

    /// Takes all parts away.
    pub(crate) fn clear_parts(&mut self, lost: &mut Vec<ItemId>) {
        lost.extend(self.parts.drain(..).map(|part| part.item));
    }

    fn drop_empty(&mut self, lost: &mut Vec<ItemId>) {
        self.parts.retain(|part| {
            if part.mask == 0 {
                lost.push(part.item);
            }
            part.mask != 0
        });
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    fn data(mask: u64) -> Masks {
        Masks {
            data: mask,
            ..Masks::default()
        }
    }

    #[test]
    fn the_higher_rank_has_the_block_in_whatever_order_they_settle() {
        let mut overlay = PageOverlay::default();
        let mut lost = vec![];
        assert_eq!(
            overlay.settle(ItemId(1), Sequence(5), data(0b0111), &mut lost),
            1
        );
        assert_eq!(
            overlay.settle(ItemId(2), Sequence(4), data(0b1110), &mut lost),
            1
        );
        assert_eq!(
            overlay.settle(ItemId(3), Sequence(3), data(0b0011), &mut lost),
            0
        );
        assert!(lost.is_empty());
        let masks: Vec<_> = overlay
            .parts()
            .iter()
            .map(|part| (part.item.0, part.mask))
            .collect();
        assert_eq!(masks, [(1, 0b0111), (2, 0b1000)]);
        let both = Masks {
            data: 0b0001,
            zero: 0b1110,
            bad: 0,
        };
        assert_eq!(overlay.settle(ItemId(4), Sequence(5), both, &mut lost), 2);
        assert_eq!(lost, [ItemId(1), ItemId(2)]);
    }

    #[test]
    fn destage_takes_only_what_was_not_overwritten_meanwhile() {
        let mut overlay = PageOverlay::default();
        let mut lost = vec![];
        overlay.settle(ItemId(1), Sequence(1), data(0b11), &mut lost);
        let taken = overlay.parts()[0];
        overlay.settle(ItemId(2), Sequence(2), data(0b10), &mut lost);
        overlay.destaged(&taken, &mut lost);
        assert_eq!(lost, [ItemId(1)]);
        assert_eq!(overlay.parts().len(), 1);
        assert_eq!(overlay.parts()[0].item, ItemId(2));
    }
}
