//! PacificA for one slice (Lin et al., MSR-TR-2008-25), with local reads in the manner of CRAQ
//! (Terrace & Freedman, USENIX ATC 2009): order, commit, leases, change of configuration, catch-up.
//!
//! It refuses to know where bytes are kept and how messages travel: [`Context`] does. What the
//! roles do, and what goes wrong if they do less, is `docs/replication.md`.
//!
//! Invariants:
//! - a replica acts in one role at a time, in one epoch, which only rises;
//! - nothing is acknowledged that is not durable at every in-sync replica of the epoch;
//! - an entry is given up only where a later primary's answer replaces it;
//! - whoever has withdrawn from an epoch grants nothing in it and takes nothing of it any more.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod candidate;
mod condition;
mod conduct;
mod context;
pub mod digest;
mod fence;
mod follow;
mod hand_over;
mod joiner;
mod marks;
mod obstacle;
mod primary;
mod reading;
mod recent;
mod room;
mod secondary;
mod state;
mod supply;
pub mod timing;
mod view;

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

use holdfast_model::record::{Membership, Record, SliceRecord, WishRecord};
use holdfast_model::{CommandId, Epoch, Incarnation, NodeId, Sequence, SliceId, StoreId};
use holdfast_stdx::{Bytes, Instant};
use holdfast_wire::{Begin, Claim, Grant, Message, OutcomeCode, Refusal, Refused, Resign};

use candidate::Candidate;
pub use condition::Condition;
use conduct::Conduct;
pub use context::{Contents, Context, Milestone, NotInstalled, Peer, Token};
use fence::Fenced;
pub use fence::{FENCES_SINCE, FenceState};
use joiner::Joiner;
use marks::{Marks, Window};
pub use obstacle::{Obstacle, Seeming, TELLING};
use primary::Primary;
pub use primary::{Operation, Progress, Prospect, Terms, WriteKind};
use recent::Recent;
use room::NoRoom;
use secondary::Secondary;
pub use state::{KEPT_VERSION, doubted, held, newer_version};
use state::{Kept, Standing, State};
pub use view::Status;

/// Whose replica it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Me {
    /// The node.
    pub node: NodeId,
    /// The contents of its devices.
    pub store: StoreId,
    /// The start of its process.
    pub incarnation: Incarnation,
}

/// What the store found of a slice when it was opened.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// The replica's own state, as it was last kept.
    pub state: Option<Bytes>,
    /// The committed point.
    pub committed: Sequence,
    /// Whether nothing durable is missing from the journal.
    pub intact: bool,
    /// Whether pages are lacking because a device is absent.
    pub lacks: bool,
    /// Whether the journal's last group was bad.
    pub tail_suspect: bool,
    /// Ids of the latest commands and their sequences.
    pub commands: Vec<(CommandId, Sequence)>,
    /// The changed blocks of the journal's entries, in order.
    pub changes: Vec<(Sequence, holdfast_model::BlockRange)>,
}

/// How a proposal ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proposed {
    /// It is the record now.
    Accepted,
    /// The record had changed.
    Rejected,
    /// Nobody can tell: it may be the record, now or later.
    Unknown,
}

/// What a replica is doing.
#[derive(Debug)]
enum Role {
    /// Not in sync: it offers itself to the primary, if the record has a place for it.
    Outside {
        /// When it offers itself next.
        offer: Instant,
    },
    Secondary(Secondary),
    Joiner(Box<Joiner>),
    Candidate(Candidate),
    Primary(Box<Primary>),
}

/// What a durable operation was for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wait {
    /// An entry.
    Append(Sequence),
    /// The beginning of an epoch, with the log up to here kept.
    Begin(Epoch, Sequence),
    /// A candidate's withdrawal.
    Withdraw(Epoch),
    /// A part of a copy.
    Install(u64),
    /// A clean stop.
    Clean,
    /// The end of all that the slice had here.
    Drop,
    /// That another replica is about to be counted as in sync.
    Admit,
    /// What the record takes this replica for, before it says so to a candidate in an epoch.
    Answer(NodeId, Epoch),
    /// Something that nothing waits for, but for its place in the order.
    Other,
}

/// One node's replica of one slice.
#[derive(Debug)]
pub struct Replica {
    me: Me,
    slice: SliceId,
    record: Option<SliceRecord>,
    /// Where the slice is to be, if that is not where it is.
    wish: Option<WishRecord>,
    /// When what is wished is looked at again, whatever else happens.
    wish_retry: Option<Instant>,
    state: Option<State>,
    /// The newest record that is kept with it, as it is in the metadata.
    kept_record: Bytes,
    role: Role,
    /// Durable operations under way, in their order.
    waits: VecDeque<(Token, Wait)>,
    /// What a primary wants to begin as soon as the contents here are dropped.
    begin_later: Option<(NodeId, Begin)>,
    /// Entries up to here are durable here.
    durable: Sequence,
    /// Until then nobody is taken for lost who has not been there: this node has only just started.
    patient_until: Instant,
    /// The journal's last group was bad: until then nobody leads without hearing all others.
    suspect_until: Option<Instant>,
    recent: Recent,
    /// The ids of commands that were numbered before this may not be among the recent ones.
    ids_from: Instant,
    window: Window,
    marks: Marks,
    conduct: Conduct,
    /// Changes that portals want, while the primary before this one has not let go.
    early: VecDeque<Operation>,
    /// When the last grant for this slice went out, to anybody; or when this replica came to be in sync,
    /// which its primary may have been reading without.
    last_grant: Option<Instant>,
    /// There is no record of the slice any more.
    is_deleted: bool,
    /// What is here is of no use: it is to begin with nothing when it joins.
    is_useless: bool,
    /// A part of the contents was on a device that is absent. That is not kept: if the device is there again
    /// before others have begun to bring what is lacking, nothing is.
    lacks: bool,
    /// There was no room here to bring it up to date.
    no_room: Option<NoRoom>,
    /// The operator wants the node to stop.
    stopping: bool,
    fenced: Fenced,
    nonce: u64,
}

/// From when on a replica that the store has found knows the ids of all commands that are numbered. One
/// that has just started may have come to be in sync just before it stopped; one that has nothing, and may
/// lead all the same, is of a slice that nobody has written to.
fn ids_from(found: &Found, context: &dyn Context) -> Instant {
    let is_sure = found.intact && !found.tail_suspect && !found.lacks;
    if is_sure && context.prepared().1 == Sequence::ZERO {
        Instant::ZERO
    } else {
        context.now()
    }
}

impl Replica {
    /// A replica as the store found it at this start. `record` follows by
    /// [`handle_record`](Self::handle_record).
    pub fn new(me: Me, slice: SliceId, found: &Found, context: &mut dyn Context) -> Self {
        let now = context.now();
        let mut replica = Self {
            me,
            slice,
            record: None,
            wish: None,
            wish_retry: None,
            state: None,
            kept_record: Bytes::new(),
            role: Role::Outside { offer: now },
            waits: VecDeque::new(),
            begin_later: None,
            durable: context.prepared().1,
            patient_until: now + timing::START_PATIENCE,
            suspect_until: found.tail_suspect.then(|| now + timing::SUSPECT_TAIL),
            recent: Recent::default(),
            ids_from: ids_from(found, context),
            window: Window::starting_at(found.committed),
            marks: Marks::new(),
            conduct: Conduct::default(),
            early: VecDeque::new(),
            last_grant: Some(now),
            is_deleted: false,
            is_useless: false,
            lacks: found.lacks,
            no_room: None,
            stopping: false,
            fenced: Fenced::default(),
            nonce: 0,
        };
        for (command, sequence) in &found.commands {
            replica.recent.note(now, *command, *sequence);
        }
        for (sequence, range) in &found.changes {
            replica.window.note(*sequence, *range);
        }
        let kept = found.state.as_ref().map(Kept::of);
        if let Some(kept) = &kept {
            replica.kept_record = kept.record.clone();
        }
        let kept = kept.map(|kept| kept.state);
        replica.state = kept;
        // Copies that were said to be durable may have been in the journal's last group.
        let joined = |state: State| matches!(state.standing, Standing::Joining { .. });
        let lacks_copies = found.tail_suspect && kept.is_some_and(joined);
        if !found.intact || lacks_copies {
            let left = State::after_loss(kept);
            replica.keep(context, left, Wait::Other);
            if matches!(left.standing, Standing::Damaged { .. }) {
                context.milestone(Milestone::NotThatReplica);
            }
        }
        replica
    }

    /// A durable operation has ended.
    pub fn handle_durable(&mut self, context: &mut dyn Context, token: Token) {
        let (expected, wait) = self.waits.pop_front().expect("what ends was begun");
        assert!(
            token == expected,
            "durable operations of a slice end in their order"
        );
        match wait {
            Wait::Append(sequence) => self.durable = self.durable.max(sequence),
            Wait::Begin(epoch, kept) => {
                self.durable = kept;
                self.began(context, epoch, kept);
            }
            Wait::Withdraw(epoch) => self.withdrawn(context, epoch),
            Wait::Install(number) => self.installed(context, number),
            Wait::Clean => self.clean_stop_kept(context),
            Wait::Drop => self.dropped(context),
            Wait::Answer(peer, epoch) => self.answer_query(context, peer, epoch),
            Wait::Admit | Wait::Other => {}
        }
        self.maintain(context);
    }

    /// A message came. Those that concern commands, leases and repair are the engine's.
    pub fn handle_message(&mut self, context: &mut dyn Context, peer: NodeId, message: &Message) {
        // Whoever speaks of it has not heard so: what was kept of that now would stay for ever.
        if self.is_deleted {
            return;
        }
        match message {
            Message::Begin(begin) => self.handle_begin(context, peer, begin),
            Message::Prepare(prepare) => self.handle_prepare(context, peer, prepare),
            Message::Commit(commit) => self.handle_commit(context, peer, commit),
            Message::Copy(copy) => self.handle_copy(context, peer, copy),
            Message::Reserve(reserve) => self.handle_reserve(context, peer, reserve),
            Message::Query(query) => self.handle_query(context, peer, query),
            Message::QueryReply(reply) => self.handle_query_reply(context, peer, reply),
            Message::Resign(resign) => self.handle_resign(context, peer, resign),
            Message::HandOver(over) => self.handle_hand_over(context, peer, over),
            Message::Prepared(prepared) => self.handle_prepared(context, peer, prepared),
            Message::Refused(refused) => self.handle_refused(peer, refused),
            Message::JoinRequest(request) => self.handle_join_request(context, peer, request),
            Message::Copied(copied) => self.handle_copied(context, peer, copied),
            Message::Holdings(holdings) => self.handle_holdings(context, peer, holdings),
            Message::Digest(digest) => self.handle_digest(context, peer, digest),
            Message::Digests(digests) => self.handle_digests(context, peer, digests),
            Message::Supply(supply) => self.handle_supply(context, peer, supply),
            Message::Supplied(supplied) => self.handle_supplied(context, peer, supplied),
            Message::Reserved(reserved) => self.handle_reserved(context, peer, reserved),
            Message::Heartbeat(_)
            | Message::PrepareHeld(_)
            | Message::Forward(_)
            | Message::Forwarded(_)
            | Message::Settle(_)
            | Message::EndTasks(_)
            | Message::TasksEnded(_)
            | Message::Fetch(_)
            | Message::Fetched(_)
            | Message::Verify(_)
            | Message::Verified(_)
            | Message::Correct(_)
            | Message::Vouch(_)
            | Message::Vouched(_)
            | Message::Camp(_)
            | Message::Enforce(_)
            | Message::Enforced(_)
            | Message::Space(_) => unreachable!("these are the engine's"),
        }
        self.maintain(context);
    }

    /// The link to a node is up.
    pub fn handle_peer_up(&mut self, context: &mut dyn Context, peer: NodeId) {
        if let Role::Outside { offer } = &mut self.role {
            *offer = context.now();
        }
        match self.role {
            Role::Primary(_) => self.greet_member(context, peer),
            Role::Candidate(_) => self.ask_too(context, peer),
            _ => {}
        }
        self.maintain(context);
    }

    /// The link to a node is down.
    pub fn handle_peer_down(&mut self, context: &mut dyn Context, peer: NodeId) {
        let now = context.now();
        self.begin_later.take_if(|(primary, _)| *primary == peer);
        match &mut self.role {
            Role::Primary(_) => self.lose_member_link(context, peer),
            Role::Joiner(joiner) if joiner.primary == peer => {
                self.role = Role::Outside {
                    offer: now + timing::JOIN_RETRY,
                };
            }
            Role::Secondary(secondary) if secondary.primary == peer => secondary.link_lost(),
            Role::Secondary(_) => self.lose_supplied(context, peer),
            _ => {}
        }
        self.maintain(context);
    }

    /// This node stood still for longer than a lease: what waited meanwhile is not to be done any
    /// more, and what it did not hear says nothing about the others.
    pub fn handle_stood_still(&mut self, context: &mut dyn Context) {
        let now = context.now();
        match &mut self.role {
            Role::Secondary(secondary) => secondary.start_anew(now),
            Role::Primary(_) => self.refuse_admitted(context, OutcomeCode::Expired),
            _ => {}
        }
        self.maintain(context);
    }

    /// A device of this node has failed: nothing more is asked of this replica, and whoever relies on
    /// it need not wait to find out.
    pub fn handle_failure(&mut self, context: &mut dyn Context) {
        let slice = self.slice;
        match &self.role {
            Role::Primary(primary) => {
                let epoch = primary.epoch;
                let members: Vec<NodeId> =
                    primary.in_sync_members().map(|(node, _)| node).collect();
                // One that it has taken out may still read: that is waited for with its lease.
                let unread = !primary.waits_for_readers(context.now());
                for node in members.into_iter().filter(|_| unread) {
                    context.send(node, Resign { slice, epoch }.into());
                }
                self.retire(context);
            }
            Role::Secondary(Secondary { epoch, primary, .. }) => {
                self.refuse(context, *primary, *epoch, Refusal::Failed);
            }
            Role::Joiner(joiner) => {
                self.refuse(context, joiner.primary, joiner.epoch, Refusal::Failed);
            }
            Role::Outside { .. } | Role::Candidate(_) => {}
        }
    }

    /// Time has passed.
    pub fn handle_timeout(&mut self, context: &mut dyn Context) {
        match &self.role {
            Role::Outside { .. } => self.offer(context),
            Role::Secondary(_) => self.watch_primary(context),
            Role::Candidate(_) => self.press_on(context),
            Role::Primary(_) => self.expire_admitted(context),
            Role::Joiner(_) => {}
        }
        self.maintain(context);
    }

    /// When time alone changes something.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Instant> {
        match &self.role {
            Role::Outside { offer } => self.wants_in().then_some(*offer),
            Role::Secondary(secondary) => {
                let missed = self.primary_missed_at(secondary);
                let supplies = secondary.supplies.next_timeout();
                missed.into_iter().chain(supplies).min()
            }
            Role::Candidate(candidate) => Some(candidate.next_timeout()),
            Role::Joiner(_) => None,
            Role::Primary(primary) => primary
                .next_timeout()
                .into_iter()
                .chain(self.wish_retry)
                .min(),
        }
    }

    /// What a heartbeat to `peer` says that this replica leads, with `peer` in sync.
    pub fn claim(&mut self, now: Instant, peer: NodeId) -> Option<Claim> {
        let slice = self.slice;
        match &mut self.role {
            Role::Primary(primary) => primary.claim(slice, now, peer),
            _ => None,
        }
    }

    /// What a heartbeat to `peer` grants for this slice.
    pub fn grant(&mut self, now: Instant, peer: NodeId) -> Option<Grant> {
        match &self.role {
            // To one that it takes for lost it grants nothing: it would have to wait for the end of that.
            Role::Secondary(secondary) if self.misses_primary(now, secondary) => None,
            Role::Secondary(secondary) if secondary.primary == peer && secondary.begun => {
                self.last_grant = Some(now);
                Some(Grant {
                    slice: self.slice,
                    epoch: secondary.epoch,
                })
            }
            _ => None,
        }
    }

    /// A heartbeat said that `peer` leads this slice; it answers ours of `echo`.
    pub fn handle_claim(&mut self, peer: NodeId, claim: &Claim, echo: Instant) {
        if let Role::Secondary(secondary) = &mut self.role
            && secondary.primary == peer
            && secondary.epoch == claim.epoch
        {
            secondary.claimed(echo, claim.read_lease_us);
        }
    }

    /// A heartbeat granted the lease of this slice, in answer to ours of `echo`.
    pub fn handle_grant(
        &mut self,
        context: &mut dyn Context,
        peer: NodeId,
        grant: &Grant,
        echo: Instant,
    ) {
        if let Role::Primary(primary) = &mut self.role
            && primary.epoch == grant.epoch
        {
            primary.granted(peer, echo);
            if self.is_quiet(context) {
                self.note_append_ages(context);
            } else {
                self.maintain(context);
            }
        }
    }

    /// The cheap list that every event ends with: what has become possible is done, what must
    /// hold is asserted.
    fn maintain(&mut self, context: &mut dyn Context) {
        self.consider_early(context);
        match &self.role {
            Role::Secondary(_) => {
                self.acknowledge(context);
                self.read_supplies(context);
            }
            Role::Joiner(_) => {
                self.acknowledge(context);
                self.answer_held(context);
            }
            Role::Primary(_) => {
                self.lead_on(context);
                self.mind_wish(context.now());
            }
            Role::Outside { .. } | Role::Candidate(_) => {}
        }
        assert!(
            context.committed() <= context.prepared().1,
            "what is committed was prepared before"
        );
    }

    /// Keeps `state`, and the newest record with it, durably in the order of everything else.
    fn keep(&mut self, context: &mut dyn Context, state: State, wait: Wait) {
        if let Some(before) = &self.state {
            assert!(state.epoch >= before.epoch, "an epoch only rises");
            assert!(
                state.withdrawn >= before.withdrawn,
                "a withdrawal is for ever"
            );
        }
        self.state = Some(state);
        if let Some(record) = &self.record {
            self.kept_record = record.encode();
        }
        let record = self.kept_record.clone();
        let token = context.put_state(Kept { state, record }.encode());
        self.waits.push_back((token, wait));
    }

    /// Notes what an entry changes for replicas that are away.
    fn note_change(&mut self, sequence: Sequence, range: holdfast_model::BlockRange) {
        self.window.note(sequence, range);
        for mark in self.marks.values_mut() {
            mark.note(sequence, range);
        }
    }

    /// Makes a mark for every replica that the record names as away and that has none yet, and
    /// drops those of replicas that are not away any more.
    fn adjust_marks(&mut self) {
        let Some(record) = &self.record else { return };
        let away = |node, store| {
            record
                .replicas
                .iter()
                .find_map(|replica| match replica.membership {
                    Membership::Absent { stable } | Membership::Joining { stable } => {
                        (replica.node == node && replica.store == store).then_some(stable)
                    }
                    Membership::InSync => None,
                })
        };
        self.marks
            .retain(|(node, store), _| away(*node, *store).is_some());
        for replica in &record.replicas {
            if let Some(stable) = away(replica.node, replica.store) {
                let key = (replica.node, replica.store);
                self.marks
                    .entry(key)
                    .or_insert_with(|| self.window.mark(stable));
            }
        }
    }

    fn refuse(&self, context: &mut dyn Context, peer: NodeId, epoch: Epoch, refusal: Refusal) {
        context.send(
            peer,
            Refused {
                slice: self.slice,
                epoch,
                refusal,
            }
            .into(),
        );
    }

    fn next_nonce(&mut self) -> u64 {
        self.nonce += 1;
        self.nonce
    }
}
