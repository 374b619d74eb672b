//! Bringing a joining replica up to date: what its mark names, page by page.
//!
//! A page of which it is in doubt what the replica lacks is compared first: the replica says what is in
//! its blocks, in few bytes each, and is sent those that differ. If none does it is sent one all the
//! same. With that its page counts as written now, so that it can tell later, as a primary, what
//! others lack of it.
//!
//! Invariants:
//! - copies are of committed content, read after the joining replica began to take new writes, and
//!   after it said what it has;
//! - a block counts as copied when it is durable there: a sync that is interrupted goes on with what
//!   is left and what has changed;
//! - few copies are on their way at a time, and they begin when background work may;
//! - from the moment that nothing is left to copy, nothing commits without the replica.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;

use holdfast_model::{BLOCK_SIZE, BlockIndex, BlockRange, Epoch, NodeId, PageIndex, Sequence};
use holdfast_wire::{BlockDigest, Content, Copied, Copy, Digest, Digests, Holdings, Supply};

use super::change::How;
use super::member::Member;
use super::sources::Orders;
use crate::digest;
use crate::marks::{Lacking, Mark, Marks, runs};
use crate::reading::Reading;
use crate::supply::knows_supply;
use crate::{Contents, Context, Replica, Role, Token};

/// Pages on their way to a joining replica at a time, at most.
const COPIES_MAX: usize = 32;
/// Bytes of blocks in them, at most, but for the last page: four pages whole.
const BYTES_MAX: u64 = 1 << 20;

/// How far bringing a replica up to date is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Bytes of blocks that the replica lacked and has now.
    pub bytes_done: u64,
    /// Bytes of all blocks that it lacked.
    pub bytes_total: u64,
    /// Bytes that travelled for it: data, and digests. Blocks that are zeros, or bad, cost nothing.
    pub bytes_moved: u64,
}

/// What is still to be copied.
#[derive(Debug)]
pub(crate) struct CatchUp {
    how: How,
    /// The epoch in which the sync began: what was copied since is there.
    sync: Epoch,
    /// The replica has begun to take part in it.
    started: bool,
    /// The page that comes next, if there may be one: the mark tells.
    next_page: Option<PageIndex>,
    /// The committed point when the replica was last told to begin.
    from: Sequence,
    /// What the replica was asked for.
    asked: BTreeMap<u64, Lacking>,
    /// What secondaries were asked to copy.
    pub(super) orders: Orders,
    /// What they did not: it is copied from here.
    pub(super) returned: VecDeque<Lacking>,
    reading: Vec<Page>,
    /// Sent, not durable there: which blocks, and how many bytes of data.
    sent: BTreeMap<u64, (Lacking, u64)>,
    next_number: u64,
    progress: Progress,
    /// Nothing is left to copy: it is complete once it has everything up to here.
    complete_at: Option<Sequence>,
}

/// A page that is being read here.
#[derive(Debug)]
struct Page {
    lacking: Lacking,
    /// What the replica has in each of the blocks.
    theirs: Option<Vec<BlockDigest>>,
    reading: Reading,
}

impl CatchUp {
    pub(crate) fn new(how: How, sync: Epoch) -> Self {
        Self {
            how,
            sync,
            started: false,
            next_page: None,
            from: Sequence::ZERO,
            asked: BTreeMap::new(),
            orders: Orders::default(),
            returned: VecDeque::new(),
            reading: Vec::new(),
            sent: BTreeMap::new(),
            next_number: 1,
            progress: Progress::default(),
            complete_at: None,
        }
    }

    pub(crate) fn sync(&self) -> Epoch {
        self.sync
    }

    /// Whether the replica is told to begin with nothing: it is once.
    pub(crate) fn begins_with_nothing(&self) -> bool {
        self.how == How::Everything && !self.started
    }

    /// Whether nothing commits without the replica, because nothing is left to copy.
    pub(crate) fn is_complete(&self) -> bool {
        self.complete_at.is_some()
    }

    /// The sequence from which on the replica has everything.
    pub(crate) fn complete_at(&self) -> Option<Sequence> {
        self.complete_at
    }

    pub(crate) fn progress(&self) -> Progress {
        self.progress
    }

    /// So many bytes travelled for it.
    pub(super) const fn moved(&mut self, bytes: u64) {
        self.progress.bytes_moved += bytes;
    }

    /// The replica will be told to begin once more: what was on its way is not any more.
    pub(super) fn pause(&mut self) {
        *self = Self {
            started: self.started,
            next_number: self.next_number,
            progress: self.progress,
            ..Self::new(self.how, self.sync)
        };
    }

    fn start(&mut self, mark: &Mark) {
        let left = mark.block_count() * BLOCK_SIZE as u64;
        self.progress.bytes_total = self.progress.bytes_done + left;
        self.next_page = Some(PageIndex(0));
        self.started = true;
    }

    /// Whether one more page may be on its way.
    fn has_room(&self) -> bool {
        let reading = self.reading.iter().map(|page| &page.lacking);
        let sent = self.sent.values().map(|(lacking, _)| lacking);
        let here = self.asked.values().chain(reading).chain(sent);
        let under_way = here.chain(self.orders.lacking());
        let (count, bytes) = under_way.fold((0, 0), |(count, bytes), lacking| {
            (count + 1, bytes + lacking.bytes())
        });
        count < COPIES_MAX && bytes < BYTES_MAX
    }

    /// The next page to bring up to date, if there may be one more on its way, and who is to copy it, if not
    /// this replica. Pages that are to be compared are compared with what is here.
    fn take(
        &mut self,
        mark: &Mark,
        sources: &[NodeId],
        context: &mut dyn Context,
    ) -> Option<(Lacking, Option<NodeId>)> {
        if !self.has_room() {
            return None;
        }
        let now = context.now();
        let mut may_work = |lacking: &Lacking| context.may_work(lacking.bytes());
        let may_return = self.returned.front().is_none_or(&mut may_work);
        if may_return && let Some(returned) = self.returned.pop_front() {
            return Some((returned, None));
        }
        let found = mark.next_page(self.next_page?);
        let certain = found.filter(|found| !found.is_doubtful);
        let source = certain.and_then(|_| self.orders.least_asked(now, sources));
        let may_copy = source.is_some() || may_return && found.as_ref().is_none_or(may_work);
        if !may_copy {
            return None;
        }
        self.next_page = found.map(|found| PageIndex(found.page.0 + 1));
        found.map(|found| (found, source))
    }

    fn is_done(&self) -> bool {
        let idle = self.asked.is_empty() && self.reading.is_empty() && self.sent.is_empty();
        let others = self.orders.is_empty() && self.returned.is_empty();
        self.started && self.next_page.is_none() && idle && others
    }

    fn number(&mut self) -> u64 {
        let number = self.next_number;
        self.next_number += 1;
        number
    }

    /// Begins to read a page, of which the replica has `theirs`.
    fn read(
        &mut self,
        context: &mut dyn Context,
        lacking: Lacking,
        theirs: Option<Vec<BlockDigest>>,
    ) {
        self.reading.push(Page {
            lacking,
            theirs,
            reading: Reading::begin(context, lacking.page, lacking.blocks),
        });
    }

    /// Whether `token` is that of a page, or of a part of one.
    fn reads(&self, token: Token) -> bool {
        self.reading.iter().any(|page| page.reading.reads(token))
    }

    /// A part of a page has been read: the page, if that was the last.
    fn part_read(&mut self, token: Token, contents: Contents) -> Option<Page> {
        let mut all = self.reading.iter();
        let place = all.position(|page| page.reading.reads(token))?;
        let is_whole = self.reading[place].reading.has_read(token, contents);
        is_whole.then(|| self.reading.swap_remove(place))
    }
}

impl Page {
    /// What the replica is to be sent.
    fn differing(self, key: &digest::Key) -> Contents {
        let contents = self.reading.contents;
        let Some(theirs) = self.theirs else {
            return contents;
        };
        let mut differing = Contents::new();
        for content in &contents {
            let differs = |block: &BlockIndex| {
                let before = self.lacking.blocks & ((1 << block.within_page()) - 1);
                let ours = digest::of(key, content, *block);
                theirs[before.count_ones() as usize] != ours
            };
            let blocks = content.range.blocks().filter(differs);
            let blocks = blocks.fold(0, |mask, block| mask | 1 << block.within_page());
            differing.extend(runs(self.lacking.page, blocks).map(|run| content.part(run)));
        }
        if differing.is_empty() {
            let first = contents.first();
            let one = |it: &Content| it.part(BlockRange::new(it.range.start(), 1));
            differing.extend(first.map(one));
        }
        differing
    }
}

/// A joining member is about to be told to begin: from here on its mark tells apart what it is
/// sent from what it lacks. What is above the committed point is not known to reach it.
pub(super) fn prepare_catch_up(
    marks: &mut Marks,
    context: &dyn Context,
    node: NodeId,
    member: &mut Member,
) {
    let key = (node, member.store);
    let Some(catch_up) = member.catch_up_mut() else {
        return;
    };
    catch_up.pause();
    catch_up.from = context.committed();
    let sync = catch_up.sync();
    match catch_up.how {
        How::Everything if !catch_up.started => {
            let mark = Mark::of_everything(sync, context.allocated());
            marks.insert(key, mark);
        }
        How::Compared { stable } if !catch_up.started => {
            marks.insert(key, Mark::lost(stable, sync));
        }
        _ => {}
    }
    let mark = marks.get_mut(&key).expect("who joins has a mark");
    mark.begin(sync);
    for entry in context.entries_above(context.committed()) {
        if let Some(range) = entry.change.range() {
            mark.note(entry.sequence, range);
        }
    }
}

impl Replica {
    /// A joining member has begun: what it lacks is copied, as soon as that is known.
    pub(crate) fn start_catch_up(&mut self, node: NodeId) {
        let Role::Primary(primary) = &mut self.role else {
            return;
        };
        let Some(member) = primary.members.get_mut(&node) else {
            return;
        };
        let mark = self.marks.get(&(node, member.store));
        let mark = mark.expect("who joins has a mark");
        if let Some(catch_up) = member.catch_up_mut()
            && mark.is_filled()
        {
            catch_up.start(mark);
        }
    }

    /// A joining member has said which pages it has.
    pub(crate) fn handle_holdings(
        &mut self,
        context: &mut dyn Context,
        peer: NodeId,
        holdings: &Holdings,
    ) {
        let Role::Primary(primary) = &mut self.role else {
            return;
        };
        let member = primary.members.get(&peer);
        let Some(member) = member.filter(|member| member.has_begun()) else {
            return;
        };
        let mark = self.marks.get_mut(&(peer, member.store));
        let is_new = member.is_joining() && primary.epoch == holdings.epoch;
        if let Some(mark) = mark.filter(|mark| is_new && !mark.is_filled()) {
            let there: BTreeSet<PageIndex> = context
                .allocated()
                .into_iter()
                .map(|(page, _)| page)
                .collect();
            let theirs = holdings.pages.iter().copied();
            let gone = theirs.filter(|page| !there.contains(page));
            mark.fill(context.changed_above(mark.from), gone);
            self.start_catch_up(peer);
        }
    }

    /// Keeps the copies flowing.
    pub(crate) fn feed_copies(&mut self, context: &mut dyn Context) {
        let prepared = context.prepared().1;
        let slice = self.slice;
        let Role::Primary(primary) = &mut self.role else {
            return;
        };
        if !primary.is_syncing() {
            return;
        }
        let epoch = primary.epoch;
        let sources = primary.sources(context);
        let members = primary.members.iter_mut();
        for (node, member) in members.filter(|(_, member)| member.takes_copies()) {
            let mark = self.marks.get(&(*node, member.store));
            let Some((catch_up, mark)) = member.catch_up_mut().zip(mark) else {
                continue;
            };
            let takes = knows_supply(context, *node);
            let sources = if takes { &sources[..] } else { &[] };
            while let Some((lacking, source)) = catch_up.take(mark, sources, context) {
                if let Some(source) = source {
                    let number = catch_up.number();
                    let supply = Supply {
                        slice,
                        epoch,
                        number,
                        to: *node,
                        from: catch_up.from,
                        page: lacking.page,
                        blocks: lacking.blocks,
                    };
                    catch_up.orders.ask(number, source, lacking);
                    context.send(source, supply.into());
                    continue;
                }
                if !lacking.is_doubtful {
                    catch_up.read(context, lacking, None);
                    continue;
                }
                let number = catch_up.number();
                catch_up.asked.insert(number, lacking);
                let digest = Digest {
                    slice,
                    epoch,
                    number,
                    page: lacking.page,
                    blocks: lacking.blocks,
                };
                context.send(*node, digest.into());
            }
            if catch_up.is_done() && catch_up.complete_at.is_none() {
                catch_up.complete_at = Some(prepared);
            }
        }
    }

    /// A joining member says what is in its blocks.
    pub(crate) fn handle_digests(
        &mut self,
        context: &mut dyn Context,
        peer: NodeId,
        digests: &Digests,
    ) {
        let Role::Primary(primary) = &mut self.role else {
            return;
        };
        let member = primary.members.get_mut(&peer);
        let Some(catch_up) = member.and_then(|member| member.catch_up_mut()) else {
            return;
        };
        if primary.epoch != digests.epoch {
            return;
        }
        let Some(lacking) = catch_up.asked.remove(&digests.number) else {
            return;
        };
        if digests.digests.len() != lacking.blocks.count_ones() as usize {
            context.reset_link(peer);
            return;
        }
        let bytes = digests.bytes();
        catch_up.moved(bytes);
        catch_up.read(context, lacking, Some(digests.digests.clone()));
        context.copied(peer, 0, bytes);
    }

    /// Blocks that were read for a copy. Gives the contents back if they are for something else.
    pub(crate) fn copy_read(
        &mut self,
        context: &mut dyn Context,
        token: Token,
        contents: Contents,
    ) -> Option<Contents> {
        let Role::Primary(primary) = &mut self.role else {
            return Some(contents);
        };
        let mut members = primary.members.iter_mut();
        let reader = members.find_map(|(node, member)| {
            let store = member.store;
            let catch_up = member.catch_up_mut()?;
            catch_up.reads(token).then_some((*node, store, catch_up))
        });
        let Some((node, store, catch_up)) = reader else {
            return Some(contents);
        };
        let page = catch_up.part_read(token, contents)?;
        let number = catch_up.number();
        let (lacking, as_of) = (page.lacking, page.reading.as_of);
        let contents = page.differing(&digest::key(self.me.store, store));
        let sent = (lacking, contents.iter().map(Content::data_bytes).sum());
        catch_up.sent.insert(number, sent);
        let copy = Copy {
            slice: self.slice,
            epoch: primary.epoch,
            number,
            as_of,
            contents,
        };
        context.send(node, copy.into());
        None
    }

    pub(crate) fn handle_copied(
        &mut self,
        context: &mut dyn Context,
        peer: NodeId,
        copied: &Copied,
    ) {
        let Role::Primary(primary) = &mut self.role else {
            return;
        };
        if primary.epoch != copied.epoch {
            return;
        }
        let Some(member) = primary.members.get_mut(&peer) else {
            return;
        };
        let key = (peer, member.store);
        let Some(catch_up) = member.catch_up_mut() else {
            return;
        };
        let supplied = catch_up.orders.durable(copied.number);
        let sent = catch_up.sent.remove(&copied.number);
        if let Some((lacking, data_bytes)) = sent.or(supplied) {
            let done_bytes = lacking.bytes();
            catch_up.progress.bytes_done += done_bytes;
            catch_up.moved(data_bytes);
            context.copied(peer, done_bytes, data_bytes);
            if let Some(mark) = self.marks.get_mut(&key) {
                mark.has_copy(lacking.page, lacking.blocks);
            }
        }
    }
}
