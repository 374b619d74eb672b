//! What the cluster has agreed on, as this node last heard: nodes, volumes, slices.
//!
//! It reads everything once, then watches; when the watch ends it begins anew. Watches are hints:
//! whoever must know asks again.
//!
//! Invariants:
//! - a record that cannot be read is skipped and told, never guessed;
//! - a slice's record replaces one of the same or an older revision only;
//! - what is proposed of a slice replaces the record that its replica was last told of, and no other;
//! - of metadata that has gone back, or is another cluster's, nothing is believed, least of all that
//!   something is deleted, and nothing is changed in it: an outcome of what is proposed is unknown;
//! - nor of metadata that lacks documents of a volume that is not on record as deleted: see [`lacking`].

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use holdfast_model::metadata::{
    Compare, KeyValue, LeaseId, MetadataAnswer, MetadataRequest, MetadataToken, Operation,
    OperationResult, Revision, Selector, Transaction, TransactionOutcome, WatchEvent,
};
use holdfast_model::record::{
    AccessRecord, Bookmark, CLUSTER_KEY, DELETED_KEY, DeletedRecord, DenialRecord, ExportRecord,
    InitiatorRecord, IntentRecord, NodeRecord, NodeStanding, Record, ScrubRecord, ScrubbedRecord,
    SettingsRecord, SliceRecord, VolumeRecord, WishRecord,
};
use holdfast_model::{ClusterId, Epoch, Incarnation, NodeId, SliceId, VolumeId};
use holdfast_replica::Proposed;
use holdfast_stdx::{Bytes, Duration, Instant};
use holdfast_wire::Vouch;

use crate::notes::Notes;
use crate::past::Past;
use crate::registration::Registration;
use crate::vouching::Asked;
use crate::{Astray, Notice};

mod access;
mod believed;
mod bookmark;
mod denials;
mod documents;
mod farewell;
mod following;
mod key;
mod lacking;
#[cfg(test)]
mod processes;
mod standing;

pub(crate) use access::Swapped;
use bookmark::Bookmarks;
use farewell::Farewell;
use key::Key;
use lacking::pairs;
use standing::Standing;

/// Everything of ours in the metadata.
const PREFIX: &str = "/holdfast/";
/// Requests under way at a time, at most, but for the watch: fewer than a session lets wait. Others wait
/// here; a slice has one proposal and one question under way.
const REQUESTS_MAX: usize = 256;
/// Between two attempts to read everything.
const RETRY: Duration = Duration::from_millis(200);

/// What a request was for.
#[derive(Clone, Debug)]
enum Purpose {
    /// To see that nothing is lacking, before the node of devices that hold something is registered.
    Look,
    /// To read this node's own record.
    Introduce,
    /// To take the number before blank devices are formatted.
    Take,
    Register,
    List,
    /// To see whether the bookmark is there, over another connection.
    Renew,
    /// To leave this bookmark.
    Leave(Bookmark),
    /// To see whether another node's is there.
    Vouch(Asked, Vouch),
    /// To say in it that it is not what this node has followed.
    Deny,
    Watch,
    Refresh(SliceId),
    Propose(SliceId, Bytes),
    /// To say that a slice's part of a scrub is done.
    SayScrubbed(ScrubbedRecord),
    /// To say that this node ends because it was told to.
    SayStopped,
    /// To know who may do what with a volume, for this order.
    ReadAccess(VolumeId, u64),
    /// To replace that by this.
    SwapAccess(VolumeId, u64, Bytes),
}

/// What changed in the view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// This node's number is nobody else's: its blank devices may be formatted.
    Free,
    /// This node is registered, as this start.
    Registered(Incarnation),
    /// The metadata knows of a use of this node's store that the store itself does not.
    Doubtful,
    /// A bookmark was left, and what was read is believed.
    Followed,
    /// It was looked for another node's bookmark.
    Looked(Asked, Vouch, bool),
    /// A node's newest bookmark is known.
    Bookmark(NodeId),
    /// Others say that the metadata is not what they have followed, or do not any more.
    Denials,
    /// A node's record, or the lack of one.
    Node(NodeId),
    /// A volume's.
    Volume,
    /// A slice's; `fresh` if it was asked for and is the newest there is.
    Slice { slice: SliceId, fresh: bool },
    /// A proposal ended.
    Proposed(SliceId, Proposed),
    /// What is wished of a slice.
    Wish(SliceId),
    /// What the operator wants of a node.
    Intent,
    /// The cluster's settings.
    Settings,
    /// A volume's scrubs.
    Scrub,
    /// Who may use what.
    Exports,
    /// What was said of a slice's part in one is kept, or has to be said again.
    SaidScrubbed(SliceId),
    /// Who may do what with a volume.
    Access(VolumeId),
    /// That was read, for an order, or could not be.
    AccessRead(u64, bool),
    /// What became of its replacement.
    AccessSwapped(u64, Swapped),
    /// Something that people should read.
    Tell(Notice),
}

/// The view, and the requests under way.
#[derive(Debug, Default)]
pub(crate) struct Cluster {
    pub(crate) nodes: BTreeMap<NodeId, NodeRecord>,
    pub(crate) volumes: BTreeMap<VolumeId, VolumeRecord>,
    pub(crate) slices: BTreeMap<SliceId, (SliceRecord, Revision)>,
    deleted: DeletedRecord,
    /// The revision of each slice's record that the slice's replica was last told of.
    told: BTreeMap<SliceId, Revision>,
    pub(crate) wishes: BTreeMap<SliceId, WishRecord>,
    intents: BTreeMap<NodeId, IntentRecord>,
    pub(crate) settings: SettingsRecord,
    pub(crate) scrubs: BTreeMap<VolumeId, ScrubRecord>,
    access: BTreeMap<VolumeId, (AccessRecord, Revision)>,
    /// Volumes of which it cannot be read who may do what with them, as of then, and never could here: they are for nobody.
    closed: BTreeMap<VolumeId, Revision>,
    /// Initiators by name.
    pub(crate) initiators: BTreeMap<String, InitiatorRecord>,
    /// The volumes that are not for everybody.
    pub(crate) exports: BTreeMap<VolumeId, ExportRecord>,
    /// The bookmarks of all nodes.
    left: BTreeMap<NodeId, Bookmark>,
    /// What nodes say that have not followed this, and since when.
    denials: BTreeMap<NodeId, (DenialRecord, Revision)>,
    /// The last scrub that each slice's part is done of.
    scrubbed: BTreeMap<SliceId, u64>,
    /// Keys whose documents cannot be read.
    pub(crate) unreadable: BTreeSet<String>,
    registration: Option<Registration>,
    /// Nothing was lacking when this node began.
    has_looked: bool,
    registered: bool,
    standing: Standing,
    refreshing: BTreeSet<SliceId>,
    /// What was asked for what, and the highest revision that had been seen then.
    requests: BTreeMap<MetadataToken, (Purpose, Revision)>,
    past: Past,
    /// Slices that the store holds, until everything has been read: then it is known which of them are of deleted volumes.
    held: BTreeSet<SliceId>,
    /// The newest epoch that has begun here of each of them, until then as well.
    pub(crate) begun: BTreeMap<SliceId, Epoch>,
    /// Volumes of which there is something here that was made in another history of the metadata, which counts for nothing.
    of_another_history: BTreeSet<VolumeId>,
    /// A list lacked something that may be newer.
    is_to_list_again: bool,
    pub(crate) notes: Notes,
    bookmarks: Bookmarks,
    /// The newest request for everything, and when it was made.
    reading: Option<(MetadataToken, Instant)>,
    /// After how long it is made once more.
    lost_after: Duration,
    /// When it is tried again to leave a bookmark.
    renew_at: Option<Instant>,
    /// What a watch has told, and when, since it goes on over another connection: until it is known what answers there.
    held_back: Option<Vec<(Instant, Revision, Vec<WatchEvent>)>>,
    /// A watch has told something that was not taken in: everything is read before it goes on.
    is_behind: bool,
    /// This node reads what is known of it once what it has noted of bookmarks is durable.
    introduces_when_kept: bool,
    watch: Option<MetadataToken>,
    next_token: u64,
    retry: Option<Instant>,
    /// Since when no answer has been believed.
    astray_since: Option<Instant>,
    register_retry: Option<Instant>,
    farewell: Farewell,
    out: VecDeque<(MetadataToken, MetadataRequest)>,
    changes: VecDeque<Change>,
}

impl Cluster {
    /// Registers this node, which holds these slices and has these notes, then reads everything.
    pub(crate) fn start(
        &mut self,
        cluster: ClusterId,
        registration: Registration,
        held: BTreeSet<SliceId>,
        notes: Notes,
    ) {
        let volumes = held.iter().map(|slice| slice.volume).collect();
        let past = Past::new(cluster, volumes, notes.noted());
        self.past = past.after(&self.past);
        self.held = held;
        let (noted, recoveries) = notes.bookmark();
        self.bookmarks = Bookmarks::new(noted, recoveries);
        self.lost_after = following::LOST_AFTER;
        self.notes = notes;
        self.registration = Some(registration.after(self.registration.as_ref()));
        self.introduce();
    }

    /// What this node's store holds is relied on no more, durably: it can be registered.
    pub(crate) fn doubted(&mut self) {
        self.own().doubted();
        if self.own().begins_anew() {
            // From now on its store is like any other's.
            self.introduces_when_kept = true;
            self.forget_bookmark();
        } else {
            self.introduce();
        }
    }

    /// Whether what the store holds is of another history than that of the metadata.
    pub(crate) fn begins_anew(&self) -> bool {
        self.registration
            .as_ref()
            .is_some_and(Registration::begins_anew)
    }

    /// Whether everything has been read, and this node is registered.
    pub(crate) fn is_ready(&self) -> bool {
        self.watch.is_some() && self.registered
    }

    /// Slices that the store holds, until everything has been read, and believed; in order.
    pub(crate) fn held(&self) -> impl Iterator<Item = &SliceId> {
        self.held.iter()
    }

    /// Whether a `take-over` was used; nothing where there is none.
    pub(crate) fn take_over_used(&self) -> Option<bool> {
        self.registration.as_ref()?.take_over_used()
    }

    /// Whether what the metadata answers is not believed.
    pub(crate) fn is_astray(&self) -> bool {
        self.astray().is_some()
    }

    /// Why it is not.
    pub(crate) fn astray(&self) -> Option<Astray> {
        self.past.astray()
    }

    /// Whether something may be changed in the metadata. After it was away nothing is before it has been
    /// read: a change might bring metadata that has gone back to the revision that it had, and nobody would
    /// see.
    fn may_change(&self) -> bool {
        self.watch.is_some() && !self.is_astray() && !self.is_to_be_signed()
    }

    pub(crate) fn take_requests(
        &mut self,
    ) -> impl Iterator<Item = (MetadataToken, MetadataRequest)> {
        let waiting = self.out.len();
        let under_way = self.requests.len().saturating_sub(waiting);
        let room = REQUESTS_MAX.saturating_sub(under_way);
        self.out.drain(..waiting.min(room))
    }

    pub(crate) fn take_changes(&mut self) -> VecDeque<Change> {
        core::mem::take(&mut self.changes)
    }

    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        let next_bookmark = self.next_bookmark_due();
        let retries = [
            self.retry,
            self.register_retry,
            self.renew_at,
            next_bookmark,
            self.farewell_due(),
        ];
        retries.into_iter().flatten().min()
    }

    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        if self.retry.is_some_and(|retry| retry <= now) {
            self.list(now);
        }
        if self.renew_at.is_some_and(|renew| renew <= now) {
            self.renew(now);
        }
        if self.next_bookmark_due().is_some_and(|due| due <= now) {
            self.leave_next();
        }
        if self.register_retry.is_some_and(|retry| retry <= now) {
            self.introduce();
        }
        if self.farewell_due().is_some_and(|due| due <= now) {
            self.bid_farewell();
        }
    }

    /// Asks for a slice's record as it is now.
    pub(crate) fn refresh(&mut self, slice: SliceId) {
        if self.refreshing.insert(slice) {
            let range = Operation::Range(Selector::Key(SliceRecord::key(slice)));
            let others = [CLUSTER_KEY, DELETED_KEY];
            let others = others.map(|key| Operation::Range(Selector::Key(key.into())));
            let access = Self::range_of_access(slice.volume);
            let ranges = [range, access].into_iter().chain(others).collect();
            self.transact(Purpose::Refresh(slice), vec![], ranges);
        }
    }

    /// A slice's record as it is known here, of which the slice's replica is told now.
    pub(crate) fn tell(&mut self, slice: SliceId) -> Option<SliceRecord> {
        let Some((record, revision)) = self.slices.get(&slice) else {
            self.told.remove(&slice);
            return None;
        };
        self.told.insert(slice, *revision);
        Some(record.clone())
    }

    /// That a slice's record is still the one that its replica was last told of; none if it is known not to be. What
    /// came since, and the replica has yet to hear of, may be the record of another primary.
    fn is_as_told(&self, slice: SliceId) -> Option<Compare> {
        let (_, known) = self.slices.get(&slice)?;
        let equals = *self.told.get(&slice).filter(|told| *told == known)?;
        let key = SliceRecord::key(slice);
        Some(Compare::ModRevision { key, equals })
    }

    /// Asks for a slice's record to be replaced, if it is still the one that its replica was last told of. One that is
    /// deleted is not made again.
    pub(crate) fn propose(&mut self, slice: SliceId, value: Bytes) {
        if !self.may_change() {
            let unknown = Change::Proposed(slice, Proposed::Unknown);
            self.changes.push_back(unknown);
            return;
        }
        let Some(compare) = self.is_as_told(slice) else {
            self.changes
                .push_back(Change::Proposed(slice, Proposed::Rejected));
            return;
        };
        let put = Operation::put(SliceRecord::key(slice), value.clone());
        // Whoever leads from now on knows who may write.
        let operations = vec![put, Self::range_of_access(slice.volume)];
        self.transact(Purpose::Propose(slice, value), vec![compare], operations);
    }

    /// The scrub that a slice's part is to be done of, if there is one.
    pub(crate) fn scrub_round(&self, slice: SliceId) -> Option<u64> {
        let scrub = self.scrubs.get(&slice.volume)?;
        let is_left = (self.scrubbed.get(&slice)).is_none_or(|done| *done < scrub.round);
        (scrub.is_under_way() && is_left).then_some(scrub.round)
    }

    /// Says that a slice's part of a scrub is done, if its configuration is still the one that its replica
    /// was last told of.
    pub(crate) fn say_scrubbed(&mut self, record: &ScrubbedRecord) {
        let slice = record.slice;
        let compare = self.is_as_told(slice).filter(|_| self.may_change());
        let Some(compare) = compare else {
            self.changes.push_back(Change::SaidScrubbed(slice));
            return;
        };
        let put = Operation::put(ScrubbedRecord::key(slice), record.encode());
        let purpose = Purpose::SayScrubbed(record.clone());
        self.transact(purpose, vec![compare], vec![put]);
    }

    pub(crate) fn handle_answer(
        &mut self,
        now: Instant,
        token: MetadataToken,
        answer: MetadataAnswer,
    ) {
        if self.watch == Some(token) {
            self.handle_watch(now, answer);
            return;
        }
        let Some((purpose, asked_at)) = self.requests.remove(&token) else {
            return;
        };
        if let Purpose::Refresh(slice) = purpose {
            self.refreshing.remove(&slice);
        }
        if let MetadataAnswer::Transacted(outcome) = &answer
            && !self.is_ours(now, &purpose, outcome, asked_at)
        {
            return;
        }
        match (purpose, answer) {
            (purpose @ (Purpose::List | Purpose::Renew | Purpose::Leave(_)), answer) => {
                self.reading_answered(now, (token, &purpose), answer);
            }
            (Purpose::Vouch(asked, vouch), answer) => self.looked(asked, vouch, &answer),
            (Purpose::Look, MetadataAnswer::Transacted(_)) => {
                self.has_looked = true;
                self.introduce();
            }
            (Purpose::Introduce, MetadataAnswer::Transacted(outcome)) => {
                self.introduced(now, &outcome);
            }
            (Purpose::Register, MetadataAnswer::Transacted(outcome)) if outcome.succeeded => {
                self.registered(now);
            }
            (Purpose::Take, MetadataAnswer::Transacted(outcome)) if outcome.succeeded => {
                self.number_is_own();
            }
            (Purpose::Look | Purpose::Introduce | Purpose::Take | Purpose::Register, _) => {
                self.register_retry = Some(now + RETRY);
            }
            (Purpose::Refresh(slice), MetadataAnswer::Transacted(outcome))
                if !self.is_to_be_recognised() =>
            {
                self.refreshed(slice, &outcome);
            }
            (Purpose::Refresh(_), MetadataAnswer::Transacted(_)) => self.it_answers(now),
            (Purpose::Propose(slice, value), MetadataAnswer::Transacted(outcome)) => {
                self.proposed(slice, value, &outcome);
            }
            (Purpose::Propose(slice, _), MetadataAnswer::Failed(_)) => {
                self.changes
                    .push_back(Change::Proposed(slice, Proposed::Unknown));
            }
            (Purpose::SayScrubbed(record), answer) => self.scrubbed_said(&record, &answer),
            (Purpose::SayStopped, answer) => self.farewell_answered(now, &answer),
            (Purpose::ReadAccess(volume, number), answer) => {
                self.access_read(volume, number, &answer);
            }
            (Purpose::SwapAccess(volume, number, value), answer) => {
                self.access_swapped(volume, number, value, &answer);
            }
            (Purpose::Refresh(_) | Purpose::Propose(..) | Purpose::Watch | Purpose::Deny, _) => {}
        }
    }

    /// What came of saying that a slice's part of a scrub is done.
    fn scrubbed_said(&mut self, record: &ScrubbedRecord, answer: &MetadataAnswer) {
        if matches!(answer, MetadataAnswer::Transacted(outcome) if outcome.succeeded) {
            self.scrubbed.insert(record.slice, record.round);
        }
        self.changes.push_back(Change::SaidScrubbed(record.slice));
    }

    fn ask(&mut self, purpose: Purpose, request: MetadataRequest) -> MetadataToken {
        self.next_token += 1;
        let token = MetadataToken(self.next_token);
        self.requests.insert(token, (purpose, self.past.seen()));
        self.out.push_back((token, request));
        token
    }

    fn transact(
        &mut self,
        purpose: Purpose,
        compare: Vec<Compare>,
        success: Vec<Operation>,
    ) -> MetadataToken {
        let transaction = Transaction {
            compare,
            success,
            failure: vec![],
        };
        self.ask(purpose, MetadataRequest::Transact(transaction))
    }

    /// Reads what the metadata knows of this node, once it is not damaged. What it read before binds it to nothing.
    fn introduce(&mut self) {
        self.register_retry = None;
        self.past.look_anew();
        if !self.has_looked && !self.standing.is_blank() {
            self.read_all(Purpose::Look);
            return;
        }
        let ranges = self.own().ranges();
        self.transact(Purpose::Introduce, vec![], ranges);
    }

    fn registered(&mut self, now: Instant) {
        self.registered = true;
        self.register_retry = None;
        self.accepted();
        let incarnation = self.own().incarnation();
        self.notes.name(incarnation);
        self.changes.push_back(Change::Registered(incarnation));
        self.list(now);
    }

    fn own(&mut self) -> &mut Registration {
        let own = self.registration.as_mut();
        own.expect("a node registers once it knows its store")
    }

    fn refreshed(&mut self, slice: SliceId, outcome: &TransactionOutcome) {
        if let Some(pair) = pairs(outcome).find(|pair| pair.key == DELETED_KEY) {
            self.put(pair, false);
        }
        self.found_access(slice.volume, outcome);
        match outcome.results.first() {
            Some(OperationResult::Range(found)) => match found.first() {
                Some(pair) => drop(self.put(pair, true)),
                None => self.delete(Key::Slice(slice)),
            },
            _ => self
                .changes
                .push_back(Change::Proposed(slice, Proposed::Unknown)),
        }
    }

    /// An accepted proposal is the record from now on.
    fn proposed(&mut self, slice: SliceId, value: Bytes, outcome: &TransactionOutcome) {
        if !outcome.succeeded {
            self.changes
                .push_back(Change::Proposed(slice, Proposed::Rejected));
            return;
        }
        self.proposed_with_access(slice.volume, outcome);
        self.has_put(SliceRecord::key(slice), value, outcome.revision);
    }

    /// This node has put a key: it is known before the watch tells it.
    fn has_put(&mut self, key: String, value: Bytes, mod_revision: Revision) {
        let pair = KeyValue {
            key,
            value,
            create_revision: Revision(0),
            mod_revision,
            version: 0,
            lease: LeaseId(0),
        };
        self.put(&pair, true);
    }

    /// The records of a volume's slices, in their order.
    pub(crate) fn slices_of(&self, volume: VolumeId) -> impl Iterator<Item = &SliceRecord> {
        let slices = self.slices.range(SliceId::all_of(volume));
        slices.map(|(_, (record, _))| record)
    }

    /// Whether a node is part of the cluster; all are as long as nobody's part is on record.
    pub(crate) fn belongs(&self, node: NodeId) -> bool {
        let intent = self.intents.get(&node);
        self.intents.is_empty()
            || intent.is_some_and(|intent| intent.standing != NodeStanding::Removed)
    }

    /// Whether a node is not to lead while another can.
    pub(crate) fn is_spared(&self, node: NodeId) -> bool {
        let intent = self.intents.get(&node);
        intent.is_some_and(|intent| intent.standing != NodeStanding::Active)
    }

    /// Whether a node is about to be worked on.
    pub(crate) fn is_in_maintenance(&self, node: NodeId) -> bool {
        let intent = self.intents.get(&node);
        intent.is_some_and(|intent| intent.standing == NodeStanding::Maintenance)
    }

    /// Whether a slice's record names a node's replica.
    pub(crate) fn names(&self, slice: SliceId, node: NodeId) -> bool {
        let record = self.slices.get(&slice);
        record.is_some_and(|(record, _)| record.replica(node).is_some())
    }
}

#[cfg(test)]
#[path = "cluster_tests.rs"]
mod tests;
