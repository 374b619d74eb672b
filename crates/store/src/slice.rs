//! One slice in memory.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;

use holdfast_format::{PageSet, Record};
use holdfast_journal::GroupNumber;
use holdfast_model::{Epoch, PageIndex, Sequence};
use holdfast_stdx::Bytes;

use crate::event::StoreToken;
use crate::item::ItemId;
use crate::overlay::PageOverlay;

/// What is kept of a slice in memory: its log above the stable point, what is not yet destaged, and
/// what has to be carried forward when the journal is trimmed.
#[derive(Debug)]
pub(crate) struct Slice {
    pub(crate) partition: u16,
    pub(crate) prepared: (Epoch, Sequence),
    pub(crate) committed: (Epoch, Sequence),
    /// The committed point that durable records state.
    pub(crate) stable: (Epoch, Sequence),
    /// The committed point that written records state, durable or not.
    pub(crate) stated: Sequence,
    /// Entries up to this are durable.
    pub(crate) durable: Sequence,
    /// Entries that are not settled.
    pub(crate) log: BTreeMap<Sequence, ItemId>,
    /// Copies that are durable and about to be settled.
    pub(crate) installs: Vec<ItemId>,
    pub(crate) overlay: BTreeMap<PageIndex, PageOverlay>,
    /// Nothing above this has been done to a page that does not exist now.
    pub(crate) absent: Sequence,
    pub(crate) state: Option<Bytes>,
    /// The groups with the latest record of each kind, where that is written.
    pub(crate) kept: Kept,
    /// The pages that the journal says the slice has.
    pub(crate) logged: PageSet,
    pub(crate) damaged: bool,
    /// It has pages of which nothing is here because a device is absent, and that has not been made good by a
    /// log that begins anew.
    pub(crate) lacks: bool,
    /// Records of the slice that wait for room, or in `held`.
    pub(crate) waiting: u32,
    /// Records that wait for data on its way to slots, and those behind them.
    pub(crate) held: VecDeque<(u64, Record)>,
    /// Records of the slice that the journal has and has not begun to write: the committed point is
    /// going to be stated by them.
    pub(crate) unwritten: u32,
    pub(crate) dropping: bool,
    /// Its end is in the journal, or handed to it.
    pub(crate) is_ended: bool,
    pub(crate) drop_token: Option<StoreToken>,
    pub(crate) abandoned: Abandoned,
    /// Pages that writes may come for; of the last 8 seconds, and of the 8 before.
    pub(crate) claims: [BTreeSet<PageIndex>; 2],
    /// Pages without a slot that will need one.
    pub(crate) reserved: BTreeSet<PageIndex>,
}

/// What waited for room when the slice was dropped.
#[derive(Debug, Default)]
pub(crate) struct Abandoned {
    pub(crate) tokens: Vec<StoreToken>,
    pub(crate) copies: Vec<ItemId>,
}

/// The oldest groups whose records still matter for the slice's own state.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Kept {
    pub(crate) state: Option<GroupNumber>,
    pub(crate) position: Option<GroupNumber>,
    /// Entries in groups up to this one are at or below the position.
    pub(crate) position_covers: Option<GroupNumber>,
    pub(crate) pages: Option<GroupNumber>,
}

impl Slice {
    pub(crate) fn new(partition: u16) -> Self {
        Self {
            partition,
            prepared: (Epoch::ZERO, Sequence::ZERO),
            committed: (Epoch::ZERO, Sequence::ZERO),
            stable: (Epoch::ZERO, Sequence::ZERO),
            stated: Sequence::ZERO,
            durable: Sequence::ZERO,
            log: BTreeMap::new(),
            installs: Vec::new(),
            overlay: BTreeMap::new(),
            absent: Sequence::ZERO,
            state: None,
            kept: Kept::default(),
            logged: PageSet::new(),
            damaged: false,
            lacks: false,
            waiting: 0,
            held: VecDeque::new(),
            unwritten: 0,
            dropping: false,
            is_ended: false,
            drop_token: None,
            abandoned: Abandoned::default(),
            claims: [BTreeSet::new(), BTreeSet::new()],
            reserved: BTreeSet::new(),
        }
    }

    /// The committed point that a record may state now: what it covers is durable.
    pub(crate) fn to_state(&self) -> Sequence {
        self.committed.1.min(self.durable)
    }

    pub(crate) fn is_claimed(&self, page: PageIndex) -> bool {
        self.claims.iter().any(|claims| claims.contains(&page))
    }

    /// Whether the committed point needs a record of its own to be stated.
    pub(crate) fn is_unstated(&self) -> bool {
        !self.dropping && self.unwritten == 0 && self.to_state() > self.stated
    }
}
