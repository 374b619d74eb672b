//! A secondary that copies to a joining replica, because its primary asks it to.
//!
//! Invariants:
//! - only who is in sync in the epoch of the question copies anything, and only what is committed, as of
//!   the point at which the joining replica began or a later one;
//! - blocks that are bad here are not copied: the primary may have good ones;
//! - whatever is asked is answered, as long as the link to the primary is up, reads that hang included;
//! - nothing is begun while a read hangs, and what hung is not sent when it ends after all.

use alloc::collections::{BTreeSet, VecDeque};
use alloc::vec::Vec;

use holdfast_model::{BLOCK_SIZE, NodeId};
use holdfast_stdx::Instant;
use holdfast_wire::{BlockContent, Content, Copy, Supplied, Supply, SupplyOutcome};

use crate::reading::Reading;
use crate::timing::SUPPLY_READ;
use crate::{Contents, Context, Replica, Role, Token};

/// The version of the protocol from which on replicas copy for their primary, and take such copies.
const SUPPLY_SINCE: u16 = 4;

/// Questions at a time, at most: many times what a primary has on its way.
const SUPPLIES_MAX: usize = 256;

/// What a secondary copies for its primary.
#[derive(Debug, Default)]
pub(crate) struct Supplies {
    /// What waits for its turn in the background.
    held: VecDeque<Supply>,
    reading: Vec<Page>,
    /// To whom something was sent over the link that is up now.
    sent_to: BTreeSet<NodeId>,
}

/// A page that is being read for the primary.
#[derive(Debug)]
struct Page {
    supply: Supply,
    reading: Reading,
    since: Instant,
    /// It takes too long: the primary was told that it is not sent.
    is_given_up: bool,
}

impl Supplies {
    fn count(&self) -> usize {
        self.held.len() + self.reading.len()
    }

    /// What has been read, if that was the last of it.
    fn take_read(&mut self, token: Token, contents: Contents) -> Option<Page> {
        let mut all = self.reading.iter();
        let place = all.position(|page| page.reading.reads(token))?;
        let is_whole = self.reading[place].reading.has_read(token, contents);
        is_whole.then(|| self.reading.swap_remove(place))
    }

    /// When the oldest read takes too long, if it has not ended before.
    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        let waited_for = self.reading.iter().filter(|page| !page.is_given_up);
        waited_for.map(|page| page.since + SUPPLY_READ).min()
    }

    /// What the primary is not to wait for any more at `now`: pages that take too long to be read, and, as long as
    /// such a read has not ended, all that waits for its turn.
    fn give_up(&mut self, now: Instant) -> Vec<Supply> {
        let mut given_up = Vec::new();
        for page in &mut self.reading {
            if !page.is_given_up && page.since + SUPPLY_READ <= now {
                page.is_given_up = true;
                given_up.push(page.supply);
            }
        }
        if self.reading.iter().any(|page| page.is_given_up) {
            given_up.extend(self.held.drain(..));
        }
        given_up
    }
}

impl Replica {
    /// The primary wants blocks copied to a joining replica.
    pub(crate) fn handle_supply(
        &mut self,
        context: &mut dyn Context,
        peer: NodeId,
        supply: &Supply,
    ) {
        let is_asked_by_primary = self.takes_from(peer, supply.epoch);
        match &mut self.role {
            Role::Secondary(secondary)
                if is_asked_by_primary && secondary.supplies.count() < SUPPLIES_MAX =>
            {
                secondary.supplies.held.push_back(*supply);
            }
            _ => tell(context, peer, supply, not_sent(supply)),
        }
    }

    /// Begins to read what the primary wants copied, as fast as background work may go on here.
    pub(crate) fn read_supplies(&mut self, context: &mut dyn Context) {
        let Role::Secondary(secondary) = &mut self.role else {
            return;
        };
        for supply in secondary.supplies.give_up(context.now()) {
            tell(context, secondary.primary, &supply, not_sent(&supply));
        }
        while let Some(supply) = secondary.supplies.held.front().copied() {
            if !knows_supply(context, supply.to) || context.committed() < supply.from {
                secondary.supplies.held.pop_front();
                tell(context, secondary.primary, &supply, not_sent(&supply));
                continue;
            }
            let bytes = u64::from(supply.blocks.count_ones()) * BLOCK_SIZE as u64;
            if !context.may_work(bytes) {
                return;
            }
            secondary.supplies.held.pop_front();
            secondary.supplies.reading.push(Page {
                supply,
                reading: Reading::begin(context, supply.page, supply.blocks),
                since: context.now(),
                is_given_up: false,
            });
        }
    }

    /// Blocks that were read for the primary. Gives the contents back if they are for something else.
    pub(crate) fn supply_read(
        &mut self,
        context: &mut dyn Context,
        token: Token,
        contents: Contents,
    ) -> Option<Contents> {
        let slice = self.slice;
        let Role::Secondary(secondary) = &mut self.role else {
            return Some(contents);
        };
        let mut reading = secondary.supplies.reading.iter();
        if !reading.any(|page| page.reading.reads(token)) {
            return Some(contents);
        }
        let page = secondary.supplies.take_read(token, contents)?;
        if page.is_given_up {
            return None;
        }
        let supply = page.supply;
        let Reading {
            as_of, contents, ..
        } = page.reading;
        let is_bad = |content: &Content| matches!(content.content, BlockContent::Bad);
        let outcome = if context.peer(supply.to).is_none() || contents.iter().any(is_bad) {
            not_sent(&supply)
        } else {
            let bytes = contents.iter().map(Content::data_bytes).sum();
            let copy = Copy {
                slice,
                epoch: supply.epoch,
                number: supply.number,
                as_of,
                contents,
            };
            context.send(supply.to, copy.into());
            secondary.supplies.sent_to.insert(supply.to);
            SupplyOutcome::Sent {
                number: supply.number,
                bytes,
            }
        };
        tell(context, secondary.primary, &supply, outcome);
        None
    }

    /// The link to a node is gone: what was copied to it may not have arrived.
    pub(crate) fn lose_supplied(&mut self, context: &mut dyn Context, to: NodeId) {
        let slice = self.slice;
        let Role::Secondary(secondary) = &mut self.role else {
            return;
        };
        if secondary.supplies.sent_to.remove(&to) {
            let supplied = Supplied {
                slice,
                epoch: secondary.epoch,
                to,
                outcome: SupplyOutcome::LinkLost,
            };
            context.send(secondary.primary, supplied.into());
        }
    }
}

/// Whether there is a link to a node, and it knows of copies that do not come from the primary.
pub(crate) fn knows_supply(context: &dyn Context, node: NodeId) -> bool {
    let peer = context.peer(node);
    peer.is_some_and(|peer| peer.version >= SUPPLY_SINCE)
}

const fn not_sent(supply: &Supply) -> SupplyOutcome {
    SupplyOutcome::NotSent {
        number: supply.number,
    }
}

fn tell(context: &mut dyn Context, primary: NodeId, supply: &Supply, outcome: SupplyOutcome) {
    let supplied = Supplied {
        slice: supply.slice,
        epoch: supply.epoch,
        to: supply.to,
        outcome,
    };
    context.send(primary, supplied.into());
}
