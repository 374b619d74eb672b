//! What the store says to have changed above a point, held against every version of every block.

use std::collections::BTreeMap;

use holdfast_model::{BLOCKS_PER_PAGE, ChangedPage, PageIndex, Sequence, SliceId};

use super::model::ModelSlice;
use super::run::{Check, Host};

impl Host {
    pub(crate) fn check_changed(&mut self, slice: SliceId) -> Check {
        let committed = self.store().committed(slice);
        let above = Sequence(self.prng.below(committed.0 + 1));
        let prepared = self.store().prepared(slice).1;
        let found = self.changed_above(slice, above);
        let later = self.changed_above(slice, prepared);
        let allocated: BTreeMap<PageIndex, u64> = self.store().allocated(slice).collect();
        let Some(model) = self.model.get(&slice) else {
            return Ok(());
        };
        if model.filled.is_some() || model.dropping.is_some() {
            return Ok(());
        }
        let missing = changed_blocks(model, above, committed).find(|block| {
            let page = PageIndex(block / BLOCKS_PER_PAGE);
            let told = found.get(&page).map_or(0, |changed| changed.blocks);
            let is_told = told & (1 << (block % BLOCKS_PER_PAGE)) != 0;
            allocated.contains_key(&page) && !is_told
        });
        if let Some(block) = missing {
            return Err(format!(
                "{slice}: block {block} changed above {above}, and nobody says so"
            ));
        }
        let certain = !self.rotten && !self.options.journal_rot;
        if certain && let Some((page, _)) = later.first_key_value() {
            return Err(format!(
                "{slice}: {page:?} is said to have changed above {prepared}"
            ));
        }
        Ok(())
    }

    fn changed_above(
        &mut self,
        slice: SliceId,
        sequence: Sequence,
    ) -> BTreeMap<PageIndex, ChangedPage> {
        let changed = self.store().changed_above(slice, sequence);
        changed.into_iter().map(|one| (one.page, one)).collect()
    }
}

/// The blocks that have a version above one point and not above another.
fn changed_blocks(
    model: &ModelSlice,
    above: Sequence,
    through: Sequence,
) -> impl Iterator<Item = u32> {
    model
        .blocks()
        .filter(move |block| model.changed(*block, above, through))
}
