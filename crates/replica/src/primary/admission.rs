//! From a command to a number: is it known already, is there room everywhere, are its blocks
//! whole?
//!
//! Invariants:
//! - a command is numbered once at most, and not after its lifetime;
//! - space is reserved at every in-sync replica before a write is numbered;
//! - between reading a block of which a part stays, is compared or is added to, and numbering it, nothing
//!   else that touches the block is numbered;
//! - what is found not to be as expected is told when what it was compared with is committed.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;

use holdfast_model::{
    BLOCK_SIZE, BlockIndex, BlockRange, Change, CommandId, Fence, NodeId, PageIndex,
};
use holdfast_stdx::{Bytes, Duration, Instant};
use holdfast_wire::{BlockContent, Content, OutcomeCode, Reserve, Reserved};

use super::write_kind::WriteKind;
use crate::timing::REPEATED_MAX;
use crate::{Contents, Context, Replica, Role, Token};

/// Bytes of data in commands that wait to be numbered, at most: beyond it the primary is busy.
const ADMITTED_BYTES_MAX: usize = 64 << 20;
/// Commands numbered and not committed, at most, and as many waiting to be numbered.
const COMMANDS_MAX: usize = 4096;
/// CRC-32C of a block of zeros.
const ZERO_BLOCK_CHECKSUM: u32 = 0x98F9_4189;

/// On which terms a change may be numbered.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// Which command, or part of one: repeated, it is the same change.
    pub command: CommandId,
    /// After this it must not be numbered any more.
    pub expires: Instant,
    /// It may have been numbered before.
    pub repeated: bool,
    /// By which access to the volume it is permitted.
    pub fence: Fence,
}

/// A change that a portal asks for.
#[derive(Clone, Debug)]
pub struct Operation {
    /// On which terms.
    pub terms: Terms,
    /// What to change.
    pub kind: WriteKind,
}

/// What there is to a change of which it is not known yet what it changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prospect {
    /// It may be submitted when that is known.
    Open,
    /// It was submitted before, and ends with `finish` when that is over.
    UnderWay,
    /// It ends so.
    Over(OutcomeCode),
}

/// A write of which some replicas have not yet said that there is room.
#[derive(Debug)]
struct Reserving {
    operation: Operation,
    range: BlockRange,
    waiting: BTreeSet<NodeId>,
}

/// A write of which some blocks are being read.
#[derive(Debug)]
struct Partial {
    operation: Operation,
    range: BlockRange,
    reading: BTreeMap<Token, BlockRange>,
    held: BTreeMap<BlockIndex, Bytes>,
}

impl Partial {
    /// Takes the contents of blocks; false if one of them cannot be read.
    fn hold(&mut self, wanted: BlockRange, contents: &Contents) -> bool {
        static ZEROS: [u8; BLOCK_SIZE] = [0; BLOCK_SIZE];
        for Content { range, content } in contents {
            for (index, block) in range.blocks().enumerate() {
                let at = index * BLOCK_SIZE;
                let bytes = match content {
                    BlockContent::Data { data, .. } => data.slice(at..at + BLOCK_SIZE),
                    BlockContent::Zero => Bytes::from_static(&ZEROS),
                    BlockContent::Bad => return false,
                };
                self.held.insert(block, bytes);
            }
        }
        wanted.blocks().all(|block| self.held.contains_key(&block))
    }
}

/// Commands on their way to their numbers.
#[derive(Debug, Default)]
pub(crate) struct Admission {
    commands: BTreeSet<CommandId>,
    bytes: usize,
    reserving: BTreeMap<u64, Reserving>,
    next_number: u64,
    partials: Vec<Partial>,
    /// Behind a partial write that touches the same blocks, in order.
    blocked: VecDeque<(Operation, BlockRange)>,
    /// Pages that are known to have their place at a member.
    placed: BTreeMap<NodeId, BTreeSet<PageIndex>>,
}

impl Admission {
    pub(crate) fn is_empty(&self) -> bool {
        self.commands.is_empty()
    }

    pub(crate) fn commands(&self) -> impl Iterator<Item = CommandId> {
        self.commands.iter().copied()
    }

    pub(crate) fn members_changed(&mut self) {
        self.placed.clear();
    }

    /// A change is numbered: its pages have their place at the in-sync members for good. Those that may
    /// lose it by the change have to be asked for again.
    pub(crate) fn note_pages(&mut self, change: &Change, in_sync: impl Iterator<Item = NodeId>) {
        if let (Some(range), Change::Write { .. }) = (change.range(), change) {
            for node in in_sync {
                let placed = self.placed.entry(node).or_default();
                placed.extend(range.by_page().map(|(page, _)| page));
            }
        }
        let vacates = match change {
            Change::Clear(_) => true,
            Change::Write { checksums, .. } => checksums.contains(&ZERO_BLOCK_CHECKSUM),
            Change::Nothing => false,
        };
        if let Some(range) = change.range().filter(|_| vacates) {
            for placed in self.placed.values_mut() {
                for (page, _) in range.by_page() {
                    placed.remove(&page);
                }
            }
        }
    }

    fn is_placed(&self, node: NodeId, range: BlockRange) -> bool {
        let placed = self.placed.get(&node);
        placed.is_some_and(|placed| range.by_page().all(|(page, _)| placed.contains(&page)))
    }

    fn conflicts(&self, range: BlockRange, blocked: usize) -> bool {
        let partial = self
            .partials
            .iter()
            .any(|partial| partial.range.overlaps(range));
        partial
            || self
                .blocked
                .iter()
                .take(blocked)
                .any(|(_, other)| other.overlaps(range))
    }

    /// When the write that has been waiting for room the longest must not be numbered any more.
    pub(crate) fn next_expiry(&self) -> Option<Instant> {
        let (_, oldest) = self.reserving.first_key_value()?;
        Some(oldest.operation.terms.expires + Duration::from_nanos(1))
    }

    /// Takes out a command that has no number yet: it gets none. False if there is none.
    pub(crate) fn withdraw(&mut self, command: CommandId) -> bool {
        if !self.commands.contains(&command) {
            return false;
        }
        let is_it = |operation: &Operation| operation.terms.command == command;
        let reserving = self.reserving.iter();
        let number = reserving
            .filter(|(_, reserving)| is_it(&reserving.operation))
            .map(|(number, _)| *number)
            .next();
        let partial = self.partials.iter().position(|it| is_it(&it.operation));
        let blocked = self.blocked.iter().position(|(it, _)| is_it(it));
        let reserving = number.and_then(|number| self.reserving.remove(&number));
        let partial = partial.map(|place| self.partials.remove(place).operation);
        let blocked = blocked.and_then(|place| self.blocked.remove(place));
        let operation = reserving
            .map(|it| it.operation)
            .or(partial)
            .or(blocked.map(|(operation, _)| operation))
            .expect("a command that is on its way waits for something");
        self.leave(&operation);
        true
    }

    pub(super) fn leave(&mut self, operation: &Operation) {
        self.commands.remove(&operation.terms.command);
        self.bytes -= operation.kind.bytes();
    }
}

impl Replica {
    /// A portal wants a change. Ends with `finish`, unless this replica steps down without
    /// knowing it: then the portal asks the next primary under the same id.
    pub fn submit(&mut self, context: &mut dyn Context, operation: Operation) {
        let Some(operation) = self.keep_early(operation) else {
            return;
        };
        let command = operation.terms.command;
        match self.prospect(context, &operation.terms, operation.kind.bytes()) {
            Prospect::Open => {}
            Prospect::UnderWay => return,
            Prospect::Over(outcome) => {
                context.finish(command, outcome);
                return;
            }
        }
        let Some(range) = operation.kind.range() else {
            context.finish(command, OutcomeCode::Busy);
            return;
        };
        let Role::Primary(primary) = &mut self.role else {
            unreachable!("others refuse")
        };
        primary.admission.commands.insert(command);
        primary.admission.bytes += operation.kind.bytes();
        if matches!(operation.kind, WriteKind::Clear(_)) {
            self.order(context, operation, range);
        } else {
            self.make_room(context, operation, range);
        }
        self.maintain(context);
    }

    /// Whether a change of so many bytes may be submitted on these terms, once it is known what it changes. That has to be found
    /// out only if it may.
    #[must_use]
    pub fn prospect(&self, context: &dyn Context, terms: &Terms, bytes: usize) -> Prospect {
        let Role::Primary(primary) = &self.role else {
            return Prospect::Over(OutcomeCode::NotPrimary);
        };
        if let Some(sequence) = self.recent.sequence(terms.command) {
            return match sequence <= context.committed() {
                true => Prospect::Over(OutcomeCode::Done),
                false => Prospect::UnderWay,
            };
        }
        if !primary.takes_writes() || self.stopping {
            return Prospect::Over(OutcomeCode::NotPrimary);
        }
        if primary.is_settling(terms.command) {
            return Prospect::Over(OutcomeCode::Expired);
        }
        let too_few = primary.copies() < primary.copies_min || primary.waits_in_vain(context);
        let may_be_known = terms.repeated && context.now() < self.ids_from + REPEATED_MAX;
        if too_few || may_be_known {
            return Prospect::Over(OutcomeCode::NotReady);
        }
        if context.now() > terms.expires {
            return Prospect::Over(OutcomeCode::Expired);
        }
        if terms.fence < self.fenced.fence {
            return Prospect::Over(OutcomeCode::Fenced);
        }
        let admission = &primary.admission;
        let is_under_way = admission.commands.contains(&terms.command);
        if is_under_way || primary.is_mismatched(terms.command) {
            return Prospect::UnderWay;
        }
        let is_full = admission.bytes + bytes > ADMITTED_BYTES_MAX
            || admission.commands.len() >= COMMANDS_MAX
            || primary.pending.len() >= COMMANDS_MAX;
        match is_full {
            true => Prospect::Over(OutcomeCode::Busy),
            false => Prospect::Open,
        }
    }

    /// Sees to it that every in-sync replica has a place for the write.
    fn make_room(&mut self, context: &mut dyn Context, operation: Operation, range: BlockRange) {
        if !context.reserve(range) {
            self.end(context, &operation, OutcomeCode::NoSpace);
            return;
        }
        let Role::Primary(primary) = &mut self.role else {
            return;
        };
        let waiting: BTreeSet<NodeId> = primary
            .members
            .iter()
            .filter(|(node, member)| {
                member.is_in_sync() && !primary.admission.is_placed(**node, range)
            })
            .map(|(node, _)| *node)
            .collect();
        if waiting.is_empty() {
            self.order(context, operation, range);
            return;
        }
        let (slice, epoch) = (self.slice, primary.epoch);
        let number = primary.admission.next_number;
        primary.admission.next_number += 1;
        for node in &waiting {
            if primary
                .members
                .get(node)
                .is_some_and(|member| member.has_begun())
            {
                context.send(
                    *node,
                    Reserve {
                        slice,
                        epoch,
                        number,
                        range,
                    }
                    .into(),
                );
            }
        }
        let reserving = Reserving {
            operation,
            range,
            waiting,
        };
        primary.admission.reserving.insert(number, reserving);
    }

    pub(crate) fn handle_reserved(
        &mut self,
        context: &mut dyn Context,
        peer: NodeId,
        reserved: &Reserved,
    ) {
        let Role::Primary(primary) = &mut self.role else {
            return;
        };
        let admission = &mut primary.admission;
        if primary.epoch != reserved.epoch {
            return;
        }
        let Some(reserving) = admission.reserving.get_mut(&reserved.number) else {
            return;
        };
        if !reserving.waiting.remove(&peer) {
            return;
        }
        if reserved.granted && !reserving.waiting.is_empty() {
            return;
        }
        let reserving = admission
            .reserving
            .remove(&reserved.number)
            .expect("it was just there");
        if reserved.granted {
            self.order(context, reserving.operation, reserving.range);
        } else {
            self.end(context, &reserving.operation, OutcomeCode::NoSpace);
        }
    }

    /// Asks again for room: the members, or their links, are others now.
    pub(crate) fn retry_reservations(&mut self, context: &mut dyn Context) {
        let Role::Primary(primary) = &mut self.role else {
            return;
        };
        let reserving = core::mem::take(&mut primary.admission.reserving);
        for Reserving {
            operation, range, ..
        } in reserving.into_values()
        {
            self.make_room(context, operation, range);
        }
    }

    /// Ends writes that have waited for room for too long.
    pub(crate) fn expire_admitted(&mut self, context: &mut dyn Context) {
        let now = context.now();
        let Role::Primary(primary) = &mut self.role else {
            return;
        };
        if primary
            .admission
            .next_expiry()
            .is_none_or(|next| next > now)
        {
            return;
        }
        let waiting = primary.admission.reserving.iter();
        let late: Vec<u64> = waiting
            .filter(|(_, reserving)| reserving.operation.terms.expires < now)
            .map(|(number, _)| *number)
            .collect();
        for number in late {
            let Role::Primary(primary) = &mut self.role else {
                return;
            };
            let reserving = primary.admission.reserving.remove(&number);
            let operation = reserving.expect("it was just found").operation;
            self.end(context, &operation, OutcomeCode::Expired);
        }
    }

    /// A member may have restarted: what it had promised counts no more.
    pub(crate) fn release_reservations_of(&mut self, node: NodeId) {
        if let Role::Primary(primary) = &mut self.role {
            primary.admission.placed.remove(&node);
        }
    }

    /// Numbers a change, or lets it wait until its blocks are whole.
    fn order(&mut self, context: &mut dyn Context, operation: Operation, range: BlockRange) {
        let Role::Primary(primary) = &mut self.role else {
            return;
        };
        if primary.admission.conflicts(range, usize::MAX) {
            primary.admission.blocked.push_back((operation, range));
            return;
        }
        self.complete_blocks(context, operation, range);
    }

    /// Reads the blocks that the change needs; if there are none, numbers it.
    fn complete_blocks(
        &mut self,
        context: &mut dyn Context,
        operation: Operation,
        range: BlockRange,
    ) {
        let needs = operation.kind.needs(range);
        if needs.is_empty() {
            self.number_operation(context, &operation, &BTreeMap::new());
            return;
        }
        let reading = needs
            .into_iter()
            .map(|blocks| (context.read_prepared(blocks), blocks))
            .collect();
        let Role::Primary(primary) = &mut self.role else {
            return;
        };
        let held = BTreeMap::new();
        primary.admission.partials.push(Partial {
            operation,
            range,
            reading,
            held,
        });
    }

    /// A read has ended.
    pub fn handle_read(&mut self, context: &mut dyn Context, token: Token, contents: Contents) {
        let rest = self.copy_read(context, token, contents);
        let rest = rest.and_then(|contents| self.digest_read(context, token, contents));
        let rest = rest.and_then(|contents| self.supply_read(context, token, contents));
        if let Some(contents) = rest {
            self.edge_read(context, token, &contents);
        }
        self.maintain(context);
    }

    fn edge_read(&mut self, context: &mut dyn Context, token: Token, contents: &Contents) {
        let Role::Primary(primary) = &mut self.role else {
            return;
        };
        let partials = &mut primary.admission.partials;
        let place = partials
            .iter()
            .position(|partial| partial.reading.contains_key(&token));
        let Some(place) = place else { return };
        let blocks = partials[place]
            .reading
            .remove(&token)
            .expect("it was found by it");
        let readable = partials[place].hold(blocks, contents);
        if readable && !partials[place].reading.is_empty() {
            return;
        }
        let partial = partials.remove(place);
        if readable {
            self.number_operation(context, &partial.operation, &partial.held);
        } else {
            self.end(context, &partial.operation, OutcomeCode::MediumError);
        }
        self.unblock(context);
    }

    /// Lets go on what waited behind a partial write that is numbered, or has ended, now.
    pub(crate) fn unblock(&mut self, context: &mut dyn Context) {
        let mut place = 0;
        loop {
            let Role::Primary(primary) = &mut self.role else {
                return;
            };
            let admission = &mut primary.admission;
            let Some((_, range)) = admission.blocked.get(place) else {
                return;
            };
            if admission.conflicts(*range, place) {
                place += 1;
                continue;
            }
            let (operation, range) = admission.blocked.remove(place).expect("it was just there");
            self.complete_blocks(context, operation, range);
        }
    }

    fn number_operation(
        &mut self,
        context: &mut dyn Context,
        operation: &Operation,
        held: &BTreeMap<BlockIndex, Bytes>,
    ) {
        if context.now() > operation.terms.expires {
            self.end(context, operation, OutcomeCode::Expired);
            return;
        }
        let change = match operation.kind.change(held) {
            Ok(change) => change,
            Err(mismatch) => {
                self.end_mismatched(context, operation, mismatch);
                return;
            }
        };
        let has_room = match &change {
            Change::Write { .. } => change.range().is_some_and(|range| context.reserve(range)),
            Change::Clear(_) | Change::Nothing => true,
        };
        if !has_room {
            self.end(context, operation, OutcomeCode::NoSpace);
            return;
        }
        let Role::Primary(primary) = &mut self.role else {
            return;
        };
        primary.admission.leave(operation);
        self.number(context, operation.terms.command, change);
    }

    /// Ends a command that was not numbered, and never will be.
    fn end(&mut self, context: &mut dyn Context, operation: &Operation, outcome: OutcomeCode) {
        if let Role::Primary(primary) = &mut self.role {
            primary.admission.leave(operation);
        }
        context.finish(operation.terms.command, outcome);
    }

    /// Ends every command that is not numbered yet.
    pub(crate) fn refuse_admitted(&mut self, context: &mut dyn Context, outcome: OutcomeCode) {
        let Role::Primary(primary) = &mut self.role else {
            return;
        };
        let placed = core::mem::take(&mut primary.admission.placed);
        let next_number = primary.admission.next_number;
        let fresh = Admission {
            placed,
            next_number,
            ..Admission::default()
        };
        let admission = core::mem::replace(&mut primary.admission, fresh);
        for command in admission.commands {
            context.finish(command, outcome);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_of_zeros_is_right() {
        assert_eq!(holdfast_stdx::crc32c(&[0; BLOCK_SIZE]), ZERO_BLOCK_CHECKSUM);
    }
}
