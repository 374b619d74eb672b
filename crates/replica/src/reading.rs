//! Blocks of a page that are being read, to be copied to a joining replica.

use alloc::collections::BTreeSet;

use holdfast_model::{PageIndex, Sequence};

use crate::marks::runs;
use crate::{Contents, Context, Token};

/// Blocks of a page, committed, that are being read run by run.
#[derive(Debug)]
pub(crate) struct Reading {
    /// As of the committed point then.
    pub(crate) as_of: Sequence,
    /// What has not been read yet.
    waiting: BTreeSet<Token>,
    /// What has.
    pub(crate) contents: Contents,
}

impl Reading {
    /// Begins to read the blocks of a page whose bits are set in `blocks`.
    pub(crate) fn begin(context: &mut dyn Context, page: PageIndex, blocks: u64) -> Self {
        let as_of = context.committed();
        let runs = runs(page, blocks);
        Self {
            as_of,
            waiting: runs.map(|run| context.read_committed(run)).collect(),
            contents: Contents::new(),
        }
    }

    /// Whether `token` is that of a run.
    pub(crate) fn reads(&self, token: Token) -> bool {
        self.waiting.contains(&token)
    }

    /// A run has been read. Whether that was the last.
    pub(crate) fn has_read(&mut self, token: Token, contents: Contents) -> bool {
        self.waiting.remove(&token);
        self.contents.extend(contents);
        self.waiting.is_empty()
    }
}
