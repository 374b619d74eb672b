//! What a page is to be, block by block.
//!
//! Invariants: a block is there, lost, or neither; only what is there can be suspect.

use alloc::boxed::Box;

use holdfast_model::BLOCKS_PER_PAGE;

use crate::job::Paint;

/// The blocks of a page, one bit each.
#[derive(Clone, Debug, Default)]
pub(crate) struct Target {
    /// Those that are there.
    pub(crate) mask: u64,
    /// Those that are lost.
    pub(crate) lost: u64,
    /// Blocks of `mask` whose contents are known not to match their checksum.
    pub(crate) suspect: u64,
    pub(crate) checksums: Option<PageChecksums>,
}

/// The checksum of each block of a page.
pub type PageChecksums = Box<[u32; BLOCKS_PER_PAGE as usize]>;

impl Target {
    /// A page all of which is there.
    pub(crate) fn whole(checksums: PageChecksums) -> Self {
        Self {
            mask: u64::MAX,
            checksums: Some(checksums),
            ..Self::default()
        }
    }

    pub(crate) fn is_nothing(&self) -> bool {
        self.mask == 0 && self.lost == 0
    }
}

/// What a page becomes when it is painted.
pub(crate) fn painted(before: &Target, paints: &[(u32, Paint)]) -> Target {
    let mut target = before.clone();
    let checksums = target.checksums.get_or_insert_with(|| Box::new([0; 64]));
    for (block, paint) in paints {
        let bit = 1 << block;
        target.mask &= !bit;
        target.lost &= !bit;
        target.suspect &= !bit;
        match paint {
            Paint::Data { checksum, .. } => {
                target.mask |= bit;
                checksums[*block as usize] = *checksum;
            }
            Paint::Bad(Some(checksum)) => {
                target.mask |= bit;
                target.suspect |= bit;
                checksums[*block as usize] = *checksum;
            }
            Paint::Bad(None) => target.lost |= bit,
            Paint::Zero => {}
        }
    }
    target
}
