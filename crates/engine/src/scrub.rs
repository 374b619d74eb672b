//! Scrubs: whoever leads a slice reads all of it, once a round, and has the other in-sync replicas read
//! theirs: what cannot be read, or fails its checksum, is mended, and what differs is made the same.
//!
//! Pages that came into being after a round began are not part of it: they were written a moment ago.
//! With a page both copies of its entry in the page table are read; the store writes again what is bad of that.
//! Each node reads its journal as well (`journal`). What is read here or elsewhere and is bad gets mended by the node that has it (`mend`); a page is then
//! looked at again, a few times.
//!
//! It refuses to know when rounds begin (`control` does), and who is right where replicas differ (`check`).
//!
//! Invariants:
//! - a slice is done only when every page that was there has been looked at, everywhere;
//! - at most a set number of bytes a second, and never what the foreground needs ([`Pace`](crate::pace::Pace));
//! - a few slices at a time, a page of each.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;

use holdfast_model::record::{ScrubFindings, ScrubRecord, ScrubbedRecord};
use holdfast_model::{
    BLOCK_SIZE, BlockRange, NodeId, PAGES_PER_SLICE, PageIndex, Sequence, SliceId,
};
use holdfast_replica::digest;
use holdfast_stdx::{Duration, Instant};
use holdfast_store::{BlockRead, View};
use holdfast_wire::{Content, Contents, Correct, Verified, Verify};

use crate::Notice;
use crate::engine::Engine;
use crate::lifecycle::Life;
use crate::storage::{Read, Reader};

mod asked;
mod check;
mod journal;

use asked::Asked;
pub(crate) use asked::Question;
use check::{Check, Correction, Told};
use journal::JournalRounds;

/// Slices that a node scrubs at a time.
const ROUNDS_MAX: usize = 2;
/// Between two looks for slices that are to be scrubbed.
const LOOK: Duration = Duration::from_secs(1);
/// How long other replicas have to say what they have.
const ANSWER_MAX: Duration = Duration::from_secs(5);
/// How often a page is looked at until everything is well there, at most.
const ATTEMPTS_MAX: u32 = 10;
/// After the first of them; after the others so many times that.
const AGAIN: Duration = Duration::from_millis(200);
/// The version of the protocol that a replica must speak to be asked.
const VERSION_MIN: u16 = 3;

/// A slice under way.
#[derive(Debug)]
struct Round {
    number: u64,
    /// Pages that are left, in order.
    pages: VecDeque<PageIndex>,
    /// After the last of them: other replicas may have pages behind it.
    ends: bool,
    /// No page of this slice is here from there on, up to the next of `pages`.
    from: PageIndex,
    /// Pages that other replicas have, and this one has not.
    extra: BTreeSet<PageIndex>,
    step: Step,
    found: ScrubFindings,
}

#[derive(Debug)]
enum Step {
    /// The next page may begin.
    Ready,
    /// A page: until when others may tell.
    Asks(Check, Instant),
    /// A page, looked at again then.
    Rests(Check, Instant),
    /// Everything is done, and is being said.
    Says,
    /// It is said again then.
    SaysAgain(Instant),
}

/// Scrubs of this node.
#[derive(Debug, Default)]
pub(crate) struct Scrubs {
    rounds: BTreeMap<SliceId, Round>,
    /// What others ask.
    asked: Asked,
    /// Names the questions.
    number: u64,
    /// When it is looked for slices that are to be scrubbed.
    look: Option<Instant>,
    /// No page begins before.
    next: Instant,
    /// The pace says when to go on.
    held: bool,
    journal: JournalRounds,
    /// What was found here since the start, of slices that were led from here.
    found: ScrubFindings,
}

/// How far a slice is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScrubStatus {
    /// The round.
    pub round: u64,
    /// What was found until now.
    pub findings: ScrubFindings,
}

impl Scrubs {
    /// There may be more to do.
    pub(crate) fn look_soon(&mut self) {
        self.look = None;
    }

    /// Whoever had to wait for the pace may ask it again.
    pub(crate) fn release(&mut self) {
        self.held = false;
    }

    pub(crate) fn status(&self, slice: SliceId) -> Option<ScrubStatus> {
        self.rounds.get(&slice).map(|round| ScrubStatus {
            round: round.number,
            findings: round.found,
        })
    }

    /// What was found since the start.
    pub(crate) fn found(&self) -> ScrubFindings {
        self.found
    }

    fn next_timeout(&self) -> Option<Instant> {
        let rounds = self.rounds.values().filter_map(|round| match &round.step {
            Step::Ready if self.held => None,
            Step::Ready => Some(self.next),
            Step::Asks(_, until) | Step::Rests(_, until) | Step::SaysAgain(until) => Some(*until),
            Step::Says => None,
        });
        rounds.chain(self.look).min()
    }

    fn new_number(&mut self) -> u64 {
        self.number += 1;
        self.number
    }
}

impl Engine {
    /// When there is something to do for scrubs.
    pub(crate) fn next_scrub(&self) -> Option<Instant> {
        let scrubs = self.may_scrub().then_some(&self.scrubs);
        let piece = scrubs.and_then(|_| self.next_journal_piece());
        let round = scrubs.and_then(Scrubs::next_timeout);
        round.into_iter().chain(piece).min()
    }

    fn may_scrub(&self) -> bool {
        self.is_alive() && self.life == Life::Open
    }

    /// Goes on scrubbing.
    pub(crate) fn scrub(&mut self) {
        if !self.may_scrub() {
            return;
        }
        let now = self.world.now;
        if self.scrubs.look.is_none_or(|look| look <= now) {
            self.scrubs.look = Some(now + LOOK);
            self.begin_rounds();
            self.look_for_journal();
        }
        self.scrub_journal();
        for slice in self.scrubs.rounds.keys().copied().collect::<Vec<_>>() {
            self.scrub_slice(slice);
        }
        self.answer_asked();
    }

    /// Takes up slices that are led here and not done, and drops those that are led elsewhere.
    fn begin_rounds(&mut self) {
        let cluster = &self.world.cluster;
        if cluster.is_astray() || !cluster.scrubs.values().any(ScrubRecord::is_under_way) {
            self.scrubs.rounds.clear();
            return;
        }
        let store = self.world.storage.store();
        for (slice, replica) in &self.replicas {
            let wanted = cluster.scrub_round(*slice);
            let wanted = wanted.filter(|_| replica.leads().is_some());
            let known = self.scrubs.rounds.get(slice).map(|round| round.number);
            if known.is_some() && known != wanted {
                self.scrubs.rounds.remove(slice);
            }
            let Some(number) = wanted.filter(|wanted| known != Some(*wanted)) else {
                continue;
            };
            if self.scrubs.rounds.len() >= ROUNDS_MAX {
                continue;
            }
            let round = Round {
                number,
                pages: store.allocated(*slice).map(|(page, _)| page).collect(),
                ends: false,
                from: PageIndex(0),
                extra: BTreeSet::new(),
                step: Step::Ready,
                found: ScrubFindings::default(),
            };
            self.scrubs.rounds.insert(*slice, round);
        }
    }

    /// Does what can be done for a slice now.
    fn scrub_slice(&mut self, slice: SliceId) {
        let now = self.world.now;
        let leads = self
            .replicas
            .get(&slice)
            .and_then(holdfast_replica::Replica::leads);
        if leads.is_none() {
            self.scrubs.rounds.remove(&slice);
            self.scrubs.look_soon();
            return;
        }
        loop {
            let Some(round) = self.scrubs.rounds.get_mut(&slice) else {
                return;
            };
            match &mut round.step {
                Step::Ready if self.scrubs.held || now < self.scrubs.next => return,
                Step::Ready => {
                    if !self.next_page(slice) {
                        return;
                    }
                }
                Step::Asks(check, until) => {
                    if *until <= now {
                        check.give_up_silent();
                    }
                    if !check.is_complete() {
                        return;
                    }
                    self.judge(slice);
                }
                Step::Rests(_, until) if *until > now => return,
                Step::Rests(..) => {
                    let Step::Rests(check, _) = core::mem::replace(&mut round.step, Step::Ready)
                    else {
                        unreachable!("it rests")
                    };
                    self.ask_replicas(slice, check);
                }
                Step::SaysAgain(until) if *until <= now => self.say_done(slice),
                Step::Says | Step::SaysAgain(_) => return,
            }
        }
    }

    /// Begins with the next page of a slice, or says that it is done; false if it has to wait.
    fn next_page(&mut self, slice: SliceId) -> bool {
        let Some(round) = self.scrubs.rounds.get(&slice) else {
            return false;
        };
        let last = PageIndex(PAGES_PER_SLICE - 1);
        let (from, page) = match (round.extra.first(), round.pages.front()) {
            (Some(page), _) => (*page, *page),
            (None, Some(page)) => (round.from, *page),
            // There are no pages here behind the last one: others may have some.
            (None, None) if !round.ends && round.from <= last => (round.from, last),
            (None, None) => {
                self.say_done(slice);
                return true;
            }
        };
        let bytes = self.page_bytes(slice, page);
        let now = self.world.now;
        if !self.may_scrub_bytes(now, bytes) {
            return false;
        }
        if let Some(round) = self.scrubs.rounds.get_mut(&slice)
            && !round.extra.remove(&page)
        {
            round.ends |= round.pages.pop_front().is_none();
            round.from = PageIndex(page.0 + 1);
        }
        self.ask_replicas(slice, Check::new(self.config.node, from, page));
        true
    }

    /// Bytes that a replica here holds of a page.
    fn page_bytes(&self, slice: SliceId, page: PageIndex) -> u64 {
        let store = self.world.storage.store();
        let held = store.allocated_in(slice, page..=page).next();
        held.map_or(0, |(_, blocks)| {
            u64::from(blocks.count_ones()) * BLOCK_SIZE as u64
        })
    }

    /// Reads a page here, and asks the others for theirs.
    fn ask_replicas(&mut self, slice: SliceId, mut check: Check) {
        let (now, number) = (self.world.now, self.scrubs.new_number());
        let replica = self.replicas.get(&slice);
        let epoch = replica
            .and_then(holdfast_replica::Replica::leads)
            .unwrap_or_default();
        let fellows = replica.map_or_else(Vec::new, holdfast_replica::Replica::fellows);
        check.begin(number, epoch);
        for node in fellows {
            match self.world.peers.link(node) {
                None => check.give_up(node),
                Some(link) if link.peer.version < VERSION_MIN => check.leave_out(node),
                Some(_) => check.ask(node),
            }
            if !check.is_asked(node) {
                continue;
            }
            let (from, page) = (check.from, check.page);
            let verify = Verify {
                slice,
                epoch,
                number,
                from,
                page,
            };
            self.world.peers.send(node, verify.into());
        }
        let store = self.world.storage.store();
        let reader = Reader::Scrub {
            number,
            as_of: store.committed(slice),
            written: store.written(slice, check.page),
        };
        let range = BlockRange::page(check.page);
        if check.attempts == 0 {
            self.world.storage.check_entry(slice, check.page);
        }
        if let Some(round) = self.scrubs.rounds.get_mut(&slice) {
            round.step = Step::Asks(check, now + ANSWER_MAX);
        }
        let read = Read::new(now, slice, range, View::Committed, reader);
        self.world.storage.read(now, read);
    }

    /// The page that a question is about, if it is still asked.
    fn asked_check(
        &mut self,
        slice: SliceId,
        number: u64,
    ) -> Option<(&mut Check, &mut BTreeSet<PageIndex>)> {
        let round = self.scrubs.rounds.get_mut(&slice)?;
        match &mut round.step {
            Step::Asks(check, _) if check.number == number => Some((check, &mut round.extra)),
            _ => None,
        }
    }

    /// A page was read here.
    pub(crate) fn scrub_read(
        &mut self,
        slice: SliceId,
        number: u64,
        (as_of, written): (Sequence, Option<Sequence>),
        contents: Contents,
    ) {
        let Some(me) = self.me else { return };
        if let Some((check, _)) = self.asked_check(slice, number) {
            let told = Told {
                as_of,
                written,
                digests: digests_of(me.store, &contents),
            };
            check.read_here(told, contents);
            self.scrub_slice(slice);
        }
    }

    /// Another replica says what it has.
    pub(crate) fn handle_verified(&mut self, peer: NodeId, verified: Verified) {
        let slice = verified.slice;
        let Some((check, extra)) = self.asked_check(slice, verified.number) else {
            return;
        };
        if !check.is_asked(peer) || check.epoch != verified.epoch {
            return;
        }
        let (from, page) = (check.from, check.page);
        let inside = |other: &PageIndex| (from..page).contains(other);
        extra.extend(verified.extra.into_iter().filter(inside));
        let told = Told {
            as_of: verified.as_of,
            written: Some(verified.written).filter(|written| written.0 > 0),
            digests: verified.digests,
        };
        check.tell(peer, told);
    }

    /// A link is gone: who was asked over it does not tell.
    pub(crate) fn give_up_verifies(&mut self, peer: NodeId) {
        for round in self.scrubs.rounds.values_mut() {
            if let Step::Asks(check, _) = &mut round.step
                && check.is_asked(peer)
            {
                check.give_up(peer);
            }
        }
        self.scrubs.asked.forget(peer);
    }

    /// All have told what they have of a page.
    fn judge(&mut self, slice: SliceId) {
        let now = self.world.now;
        let Some(round) = self.scrubs.rounds.get_mut(&slice) else {
            return;
        };
        let Step::Asks(mut check, _) = core::mem::replace(&mut round.step, Step::Ready) else {
            return;
        };
        let store = self.world.storage.store();
        let page = check.page;
        let verdict = check.judge(|sequence| store.page_changed_above(slice, page, sequence));
        if verdict.is_final() || check.attempts >= ATTEMPTS_MAX {
            let findings = check.findings(&verdict);
            round.found.add(&findings);
            self.scrubs.found.add(&findings);
            return;
        }
        let again = now + check.attempts * AGAIN;
        if verdict.bad_here != 0 {
            self.mending.look_soon();
        }
        for correction in verdict.corrections {
            match correction {
                Correction::Here { from, blocks } => self.correct_here(slice, page, from, blocks),
                Correction::There { node, blocks } => {
                    let correct = Correct {
                        slice,
                        epoch: check.epoch,
                        as_of: check.as_of(),
                        contents: check.contents_of(blocks),
                    };
                    self.world.peers.send(node, correct.into());
                }
            }
        }
        if let Some(round) = self.scrubs.rounds.get_mut(&slice) {
            round.step = Step::Rests(check, again);
        }
    }

    /// Fetches blocks that are sound here, and not what they should be.
    fn correct_here(&mut self, slice: SliceId, page: PageIndex, from: NodeId, blocks: u64) {
        let (now, range) = (self.world.now, BlockRange::page(page));
        let wrong = range.blocks().map(|block| {
            if blocks & 1 << block.within_page() == 0 {
                BlockRead::Zero
            } else {
                BlockRead::Bad { checksum: None }
            }
        });
        let wrong = wrong.collect();
        let read = Read::new(now, slice, range, View::Committed, Reader::Correcting);
        self.fetch(read, wrong, alloc::vec![from]);
    }

    /// Says that a slice is done.
    fn say_done(&mut self, slice: SliceId) {
        let Some(round) = self.scrubs.rounds.get_mut(&slice) else {
            return;
        };
        round.step = Step::Says;
        let record = ScrubbedRecord {
            schema: 1,
            slice,
            round: round.number,
            findings: round.found,
        };
        self.world.cluster.say_scrubbed(&record);
    }

    /// The metadata has taken that, or has not.
    pub(crate) fn said_done(&mut self, slice: SliceId) {
        let Some(round) = self.scrubs.rounds.get_mut(&slice) else {
            return;
        };
        let is_left = self.world.cluster.scrub_round(slice) == Some(round.number);
        if is_left && matches!(round.step, Step::Says) {
            round.step = Step::SaysAgain(self.world.now + LOOK);
            return;
        }
        let findings = round.found;
        self.scrubs.rounds.remove(&slice);
        self.scrubs.look_soon();
        self.world
            .notices
            .push(Notice::Scrubbed { slice, findings });
    }
}

/// What is to be told of contents that were read, by the node whose store this is to the one that leads.
fn digests_of(
    primary: holdfast_model::StoreId,
    contents: &[Content],
) -> Vec<holdfast_wire::BlockDigest> {
    let key = digest::key(primary, primary);
    let blocks = contents.iter().flat_map(|content| {
        let blocks = content.range.blocks();
        blocks.map(|block| digest::of(&key, content, block))
    });
    blocks.collect()
}
