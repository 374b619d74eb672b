//! The joining replica: takes every new write, and blocks that it lacks, until it has all.
//!
//! Invariants:
//! - it grants no lease, serves no read and is never promoted;
//! - it is recorded as joining before its first block is overwritten;
//! - a copy never lands over a block that the stream of writes has brought since it joined;
//! - a copy from a secondary is as of the point at which it began, or a later one;
//! - what it says of its blocks is what is committed there.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use holdfast_model::{
    BlockIndex, BlockRange, Change, Epoch, NodeId, PAGE_SIZE, PageIndex, Sequence,
};
use holdfast_wire::{
    Begin, Content, Copied, Copy, Digest, Digests, Holdings, Refusal, Role as BeginRole,
};

use crate::marks::{Window, runs};
use crate::state::{Standing, State};
use crate::{Contents, Context, NotInstalled, Replica, Role, Token, Wait, digest};

/// Joining, fed by a primary.
#[derive(Debug)]
pub(crate) struct Joiner {
    pub(crate) epoch: Epoch,
    pub(crate) primary: NodeId,
    /// The committed point when it began: what follows comes as entries, what was before is copied.
    from: Sequence,
    pub(crate) begun: bool,
    pub(crate) acknowledged: Sequence,
    /// Blocks that the stream has brought since the epoch began here.
    written: BTreeMap<PageIndex, u64>,
    /// Copies of which parts are on their way to the disk, how many, and their bytes.
    installing: BTreeMap<u64, (usize, u64)>,
    /// It is asked what it has.
    is_compared: bool,
    /// Blocks that are being read to say what is in them, and the questions.
    digesting: BTreeMap<Token, (Digest, Sequence)>,
    /// What the primary waits for, and what waits for its turn in the background. The primary sends no
    /// more as long as it has no answer.
    held: VecDeque<Held>,
}

/// Something that the primary is answered when background work may go on.
#[derive(Clone, Copy, Debug)]
enum Held {
    /// What is in these blocks.
    Digest(Digest),
    /// A copy is durable, of so many bytes.
    Copied(u64, u64),
}

/// Questions and copies at a time, at most: many times what a primary has on its way.
const HELD_MAX: usize = 256;

impl Joiner {
    pub(crate) fn wrote(&mut self, range: BlockRange) {
        for (page, part) in range.by_page() {
            *self.written.entry(page).or_default() |= part.page_mask();
        }
    }

    /// The parts of `range` that the stream has not brought.
    fn missing(&self, range: BlockRange) -> Vec<BlockRange> {
        let mut parts = Vec::new();
        for (page, part) in range.by_page() {
            let written = self.written.get(&page).copied().unwrap_or(0);
            parts.extend(runs(page, part.page_mask() & !written));
        }
        parts
    }
}

impl Replica {
    pub(crate) fn begin_joining(
        &mut self,
        context: &mut dyn Context,
        peer: NodeId,
        begin: &Begin,
        role: BeginRole,
    ) {
        let full = role == BeginRole::JoiningFull;
        let stable = match self.standing() {
            _ if full => Sequence::ZERO,
            None => Sequence::ZERO,
            Some(Standing::Whole) => context.stable(),
            Some(Standing::Joining { stable, .. } | Standing::Damaged { stable }) => stable,
        };
        let withdrawn = self.state.unwrap_or(State::NEW).withdrawn;
        assert!(
            !full || self.state.is_none(),
            "what is copied in full begins with nothing"
        );
        let sync = begin.sync;
        let standing = Standing::Joining { stable, sync };
        let state = State {
            epoch: begin.epoch,
            withdrawn,
            standing,
            clean: None,
            admitting: None,
        };
        self.keep(context, state, Wait::Other);
        // What was never committed, as far as is known here, may not have been committed at all.
        let committed = context.committed();
        let token = context.begin_epoch(begin.epoch, committed);
        self.waits.push_back((token, Wait::Other));
        self.recent.give_up_above(committed);
        // The entries that follow keep the epochs in which they were numbered. Those of this tail may be given up, and
        // others come in their place that are of an earlier epoch, but of none before that of what is committed here.
        let first = begin.tail.first().map_or(begin.epoch, |(epoch, _)| *epoch);
        let epoch = context.prepared().0.min(first);
        let token = context.restart_log((epoch, begin.committed));
        // From now on that is what its standing says.
        self.lacks = false;
        self.waits
            .push_back((token, Wait::Begin(begin.epoch, begin.committed)));
        self.ids_from = context.now();
        self.window = Window::starting_at(begin.committed);
        self.marks.clear();
        self.role = Role::Joiner(Box::new(Joiner {
            epoch: begin.epoch,
            primary: peer,
            from: begin.committed,
            begun: false,
            acknowledged: Sequence::ZERO,
            written: BTreeMap::new(),
            installing: BTreeMap::new(),
            is_compared: role == BeginRole::JoiningCompared,
            digesting: BTreeMap::new(),
            held: VecDeque::new(),
        }));
    }

    /// Says which pages are here, if that is what the primary does not know.
    pub(crate) fn tell_holdings(&self, context: &mut dyn Context) {
        let Role::Joiner(joiner) = &self.role else {
            return;
        };
        if joiner.is_compared {
            let pages = context.allocated().into_iter().map(|(page, _)| page);
            let holdings = Holdings {
                slice: self.slice,
                epoch: joiner.epoch,
                pages: pages.collect(),
            };
            context.send(joiner.primary, holdings.into());
        }
    }

    pub(crate) fn handle_digest(
        &mut self,
        context: &mut dyn Context,
        peer: NodeId,
        digest: &Digest,
    ) {
        if !self.takes_from(peer, digest.epoch) {
            self.refuse(context, peer, digest.epoch, Refusal::StaleEpoch);
            return;
        }
        match &mut self.role {
            Role::Joiner(joiner) if joiner.digesting.len() + joiner.held.len() < HELD_MAX => {
                joiner.held.push_back(Held::Digest(*digest));
                self.answer_held(context);
            }
            _ => context.reset_link(peer),
        }
    }

    /// Answers what the primary waits for, as fast as background work may go on here.
    pub(crate) fn answer_held(&mut self, context: &mut dyn Context) {
        let slice = self.slice;
        let Role::Joiner(joiner) = &mut self.role else {
            return;
        };
        while let Some(held) = joiner.held.front().copied() {
            let bytes = match held {
                Held::Digest(_) => PAGE_SIZE as u64,
                Held::Copied(_, bytes) => bytes,
            };
            if !context.may_work(bytes) {
                return;
            }
            joiner.held.pop_front();
            match held {
                Held::Digest(digest) => {
                    let as_of = context.committed();
                    let token = context.read_committed(BlockRange::page(digest.page));
                    joiner.digesting.insert(token, (digest, as_of));
                }
                Held::Copied(number, _) => {
                    let epoch = joiner.epoch;
                    let copied = Copied {
                        slice,
                        epoch,
                        number,
                    };
                    context.send(joiner.primary, copied.into());
                }
            }
        }
    }

    /// Blocks that were read to say what is in them. Gives the contents back if they are for something
    /// else.
    pub(crate) fn digest_read(
        &mut self,
        context: &mut dyn Context,
        token: Token,
        contents: Contents,
    ) -> Option<Contents> {
        let Role::Joiner(joiner) = &mut self.role else {
            return Some(contents);
        };
        let Some((asked, as_of)) = joiner.digesting.remove(&token) else {
            return Some(contents);
        };
        let (epoch, primary) = (joiner.epoch, joiner.primary);
        let peer = context.peer(primary)?;
        let key = digest::key(peer.store, self.me.store);
        let is_asked = |block: &BlockIndex| asked.blocks & (1 << block.within_page()) != 0;
        let digests = contents.iter().flat_map(|content| {
            let blocks = content.range.blocks().filter(is_asked);
            blocks.map(|block| digest::of(&key, content, block))
        });
        let digests: Vec<_> = digests.collect();
        assert!(
            digests.len() == asked.blocks.count_ones() as usize,
            "a read brings what was asked for"
        );
        let digests = Digests {
            slice: self.slice,
            epoch,
            number: asked.number,
            as_of,
            digests,
        };
        context.send(primary, digests.into());
        None
    }

    pub(crate) fn handle_copy(&mut self, context: &mut dyn Context, peer: NodeId, copy: &Copy) {
        if !self.takes_from(peer, copy.epoch) && !self.takes_supplied(peer, copy) {
            self.refuse(context, peer, copy.epoch, Refusal::StaleEpoch);
            return;
        }
        let joiner = match &mut self.role {
            Role::Joiner(joiner) if joiner.installing.len() + joiner.held.len() < HELD_MAX => {
                joiner
            }
            _ => {
                context.reset_link(peer);
                return;
            }
        };
        let primary = joiner.primary;
        let mut tokens = Vec::new();
        let mut refused = false;
        let mut has_room = true;
        for content in &copy.contents {
            for part in joiner.missing(content.range) {
                let change = content.part(part).into_change();
                // A page with nothing but bad blocks has its place too.
                let is_clear = matches!(change, Some(Change::Clear(_)));
                if !is_clear && !context.reserve(part) {
                    has_room = false;
                    continue;
                }
                match context.install(part, change) {
                    Ok(token) => tokens.push(token),
                    Err(why) => {
                        refused = true;
                        self.is_useless |= why == NotInstalled::Newer;
                    }
                }
            }
        }
        if refused || !has_room {
            joiner.installing.remove(&copy.number);
        } else {
            let bytes = copy.contents.iter().map(Content::data_bytes).sum();
            joiner
                .installing
                .insert(copy.number, (tokens.len() + 1, bytes));
        }
        for token in tokens {
            self.waits.push_back((token, Wait::Install(copy.number)));
        }
        if refused {
            self.refuse(context, primary, copy.epoch, Refusal::Failed);
        } else if !has_room {
            self.refuse_for_room(context, primary, copy.epoch);
        } else {
            self.installed(context, copy.number);
        }
    }

    /// Whether a copy that does not come from the primary is one that it asked for, and of use. One of an
    /// earlier beginning may lack entries that were on their way here then: it comes late, and its primary
    /// does not wait for it.
    fn takes_supplied(&self, peer: NodeId, copy: &Copy) -> bool {
        let Role::Joiner(joiner) = &self.role else {
            return false;
        };
        let is_fellow = self.fellows().contains(&peer);
        let is_new = joiner.begun && joiner.epoch == copy.epoch && copy.as_of >= joiner.from;
        is_fellow && is_new
    }

    /// A part of a copy is durable, or the copy had one part less than counted.
    pub(crate) fn installed(&mut self, context: &mut dyn Context, number: u64) {
        let Role::Joiner(joiner) = &mut self.role else {
            return;
        };
        let Some((left, bytes)) = joiner.installing.get_mut(&number) else {
            return;
        };
        *left -= 1;
        if *left == 0 {
            joiner.held.push_back(Held::Copied(number, *bytes));
            joiner.installing.remove(&number);
            self.answer_held(context);
        }
    }
}
