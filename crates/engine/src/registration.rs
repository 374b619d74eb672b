//! How a node makes itself known in the metadata: its record is read, and replaced if it is still
//! the one that was read.
//!
//! Invariants:
//! - every start of a node has an incarnation above those of all its earlier starts, whatever its
//!   store: a node that was emptied, or removed, counts on, and so names no command as its former
//!   self did;
//! - a registration that was given up, and arrives late, never replaces a later one;
//! - the record of a newer version is not replaced, nor that of a use: what it says of the past would be lost;
//! - the record of a node with another store is not replaced if that node has another name, or is another machine,
//!   or is reached at another address, and nobody has said that it is gone: see [`Rejection`]. Nor does a node take
//!   a name that another number has;
//! - of machines with blank devices that come at the same moment one takes a number, before it formats them;
//! - with the node's record goes its failure domain, as its configuration has it now, or the lack of one;
//! - a store that was brought back from the past is registered only once nothing that it holds is
//!   relied on any more: until then every start finds out anew.

use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use holdfast_model::metadata::{
    Compare, KeyValue, Operation, OperationResult, Revision, Selector, TransactionOutcome,
};
use holdfast_model::record::{
    Bookmark, BookmarkRecord, CLUSTER_KEY, ClusterRecord, DenialRecord, DomainRecord,
    MachineRecord, NODES_PREFIX, NodeRecord, Record, RecordError, StopRecord, UseRecord,
};
use holdfast_model::{Incarnation, MachineId, NodeId, StoreId};
use holdfast_store::UseIds;

use crate::config::Machine;
use crate::rejection::Rejection;

/// In which places what is read comes.
const NODE: usize = 0;
const CLUSTER: usize = 1;
const USE: usize = 2;
const MACHINE: usize = 3;
const ALL: usize = 4;

/// What to do after the record was read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// It is this start's.
    Done,
    /// The store lacks the use of it that is on record: somebody has brought back an old copy. To be asked
    /// again once what it holds is doubted.
    Doubt,
    /// A newer version wrote what is under this key: to be asked again, until an operator has done something about
    /// it.
    Newer(String),
    /// The number is this machine's, whose node has nothing yet: its devices may be formatted.
    Free,
    /// To take it, before that.
    Take(Vec<Compare>, Vec<Operation>),
    /// Somebody else is this node: to be asked again after a while.
    Rejected(Rejection),
    /// To replace it.
    Replace(Vec<Compare>, Vec<Operation>),
}

/// A registration under way, or done.
#[derive(Debug)]
pub(crate) struct Registration {
    own: NodeRecord,
    /// Its failure domain.
    domain: Option<String>,
    /// The id of this use of the store.
    use_id: u64,
    use_ids: UseIds,
    machine: Machine,
    /// The record that was last proposed: whoever reads it again knows that it has been taken.
    proposed: bool,
    is_doubted: bool,
    /// What the store holds is of another history than that of the metadata, and an operator says that it counts for nothing.
    is_of_another_history: bool,
    /// Where the machine was reached whose record is replaced by this, if that had another store.
    former: Option<String>,
    /// What an operator says of the machine has let it go on, where it could not have.
    has_used_take_over: bool,
}

impl Registration {
    /// Of a node with this record, whose incarnation is still to be found, in this failure domain, whose store knows these uses,
    /// and which is this machine.
    pub(crate) fn new(
        mut own: NodeRecord,
        domain: Option<String>,
        use_ids: UseIds,
        machine: Machine,
    ) -> Self {
        // It has a record of its own.
        let use_id = core::mem::take(&mut own.use_id);
        Self {
            own,
            domain,
            use_id,
            use_ids,
            machine,
            proposed: false,
            is_doubted: false,
            is_of_another_history: false,
            former: None,
            has_used_take_over: false,
        }
    }

    /// What is read: this node's record, the cluster's, that of the use, of the machine, and all nodes'.
    pub(crate) fn ranges(&self) -> Vec<Operation> {
        let node = self.own.node;
        let keys = [
            NodeRecord::key(node),
            CLUSTER_KEY.into(),
            UseRecord::key(node),
            MachineRecord::key(node),
        ];
        let keys = keys.into_iter().map(Selector::Key);
        let all = keys.chain([Selector::Prefix(NODES_PREFIX.into())]);
        all.map(Operation::Range).collect()
    }

    /// The first of them that a newer version wrote.
    fn newer(outcome: &TransactionOutcome) -> Option<&KeyValue> {
        let node = found(outcome, NODE).filter(|pair| is_newer::<NodeRecord>(pair));
        let cluster = found(outcome, CLUSTER).filter(|pair| is_newer::<ClusterRecord>(pair));
        let of_use = found(outcome, USE).filter(|pair| is_newer::<UseRecord>(pair));
        let machine = found(outcome, MACHINE).filter(|pair| is_newer::<MachineRecord>(pair));
        node.or(cluster).or(of_use).or(machine)
    }

    /// What keeps a node whose devices are blank from its number, by the records as they were read.
    pub(crate) fn look(&mut self, outcome: &TransactionOutcome) -> Step {
        if let Some(newer) = Self::newer(outcome) {
            return Step::Newer(newer.key.clone());
        }
        let known = record(outcome, NODE);
        if let Some(rejection) = self.taken(known.as_ref(), outcome) {
            return Step::Rejected(rejection);
        }
        let holder = Holder::of(known.as_ref(), outcome);
        if [Holder::Has(self.machine.id), Holder::Took(self.machine.id)].contains(&holder) {
            return Step::Free;
        }
        Step::Take(self.as_read(outcome), vec![self.put_machine(None)])
    }

    /// The records as they were read.
    pub(crate) fn read(&mut self, outcome: &TransactionOutcome) -> Step {
        if let Some(newer) = Self::newer(outcome) {
            return Step::Newer(newer.key.clone());
        }
        let known: Option<NodeRecord> = record(outcome, NODE);
        if self.proposed && known.as_ref() == Some(&self.own) {
            return Step::Done;
        }
        if let Some(rejection) = self.taken(known.as_ref(), outcome) {
            return Step::Rejected(rejection);
        }
        let of_use: Option<UseRecord> = record(outcome, USE);
        let lacks_use = |known| self.lacks_use_of(known, of_use.as_ref());
        let is_to_doubt = self.is_of_another_history || known.as_ref().is_some_and(lacks_use);
        if !self.is_doubted && is_to_doubt {
            return Step::Doubt;
        }
        // A node that was removed has no record any more. Each start was a change of the metadata, or is counted as a use of
        // the store; where more were counted the removal has raised the floor.
        let floor = floor(outcome);
        let highest = Incarnation(floor.0 + outcome.revision.0);
        let of_other = known.as_ref().filter(|it| it.store != self.own.store);
        self.former = of_other.map(|it| it.peer.clone());
        // Metadata that was brought back from before lacks starts of which the store has kept count.
        let same = known.as_ref().filter(|it| it.store == self.own.store);
        let uses = same.map_or(0, |it| it.uses);
        let starts = self.own.uses.saturating_sub(uses).max(1);
        let before = known.map_or(highest, |known| known.incarnation);
        self.own.incarnation = Incarnation(before.max(floor).0 + starts);
        self.proposed = true;
        self.replace(outcome)
    }

    /// Whether the number, or the name, is another node's, after what an operator says.
    fn taken(
        &mut self,
        known: Option<&NodeRecord>,
        outcome: &TransactionOutcome,
    ) -> Option<Rejection> {
        let is_told_so = self.machine.takes_over;
        let rejection = self.taken_if(is_told_so, known, outcome);
        let is_used = is_told_so && rejection.is_none();
        self.has_used_take_over |= is_used && self.taken_if(false, known, outcome).is_some();
        rejection
    }

    /// The same, if an operator says that the other machine is gone, or not. A name that this node had before it keeps, whoever
    /// else has it: versions of before let that be.
    fn taken_if(
        &self,
        is_told_so: bool,
        known: Option<&NodeRecord>,
        outcome: &TransactionOutcome,
    ) -> Option<Rejection> {
        let (node, own) = (self.own.node, &self.own.name);
        let is_formatted = self.own.uses > 0;
        let holder = Holder::of(known, outcome);
        let is_same = holder == Holder::Has(self.machine.id) || self.machine.has_address;
        let is_itself = |other: &NodeRecord| is_same && other.peer == self.own.peer;
        match known {
            Some(other) if other.store == self.own.store => {}
            Some(other) if other.name != *own => {
                let name = other.name.clone();
                return Some(Rejection::Number {
                    node,
                    name,
                    is_formatted,
                });
            }
            Some(other) if !is_told_so && !is_itself(other) => {
                let peer = other.peer.clone();
                return Some(Rejection::OtherMachine {
                    node,
                    peer,
                    is_formatted,
                });
            }
            None if !is_told_so
                && matches!(holder, Holder::Took(other) if other != self.machine.id) =>
            {
                return Some(Rejection::Taken { node, is_formatted });
            }
            _ => {}
        }
        if known.is_some_and(|known| known.name == *own) {
            return None;
        }
        let all = match outcome.results.get(ALL) {
            Some(OperationResult::Range(found)) => found.as_slice(),
            _ => &[],
        };
        let mut others = all
            .iter()
            .filter_map(|pair| NodeRecord::decode(&pair.value).ok());
        let other = others.find(|other| other.node != node && other.name == *own)?;
        let name = other.name;
        let node = other.node;
        Some(Rejection::Name { name, node })
    }

    /// Whether this record, under this node's number, says that another process is the node now. Each record
    /// that replaces another is of a later start.
    pub(crate) fn is_displaced_by(&self, record: &NodeRecord) -> bool {
        record.store != self.own.store && record.incarnation > self.own.incarnation
    }

    /// What the store holds is relied on no more, durably.
    pub(crate) fn doubted(&mut self) {
        self.is_doubted = true;
    }

    /// Whether an operator says that the node takes its own place in metadata that is not what it has followed.
    pub(crate) fn may_begin_anew(&self) -> bool {
        self.machine.takes_over && !self.proposed
    }

    /// It does: what the store holds is doubted before the node is registered.
    pub(crate) fn begin_anew(&mut self) {
        self.is_of_another_history = true;
        self.has_used_take_over = true;
    }

    /// Whether it does, and has not left a bookmark yet.
    pub(crate) fn begins_anew(&self) -> bool {
        self.is_of_another_history
    }

    /// It has: what it holds is of the history of this metadata from now on.
    pub(crate) fn has_begun_anew(&mut self) {
        self.is_of_another_history = false;
    }

    /// Whether what an operator says was what let the node go on; nothing where no operator says so.
    pub(crate) fn take_over_used(&self) -> Option<bool> {
        let is_told_so = self.machine.takes_over;
        is_told_so.then_some(self.has_used_take_over)
    }

    /// It goes on from where another one was looked at before the devices were formatted.
    pub(crate) fn after(self, before: Option<&Self>) -> Self {
        let has_used = before.is_some_and(|before| before.has_used_take_over);
        Self {
            has_used_take_over: self.has_used_take_over || has_used,
            ..self
        }
    }

    /// The key of this node's record.
    pub(crate) fn node_key(&self) -> String {
        NodeRecord::key(self.own.node)
    }

    /// Which node this is.
    pub(crate) fn node(&self) -> NodeId {
        self.own.node
    }

    /// Whether a record of this node is of this store; one that cannot be read may be.
    pub(crate) fn is_of_own_store(&self, pair: &KeyValue) -> bool {
        NodeRecord::decode(&pair.value).map_or(true, |record| record.store == self.own.store)
    }

    /// The key of this node's bookmark.
    pub(crate) fn bookmark_key(&self) -> String {
        BookmarkRecord::key(self.own.node)
    }

    /// A bookmark of this start.
    pub(crate) fn bookmark(&self, number: u64) -> BookmarkRecord {
        BookmarkRecord {
            schema: 1,
            node: self.own.node,
            store: self.own.store,
            uses: self.own.uses,
            bookmark: Bookmark {
                use_id: self.use_id,
                number,
            },
        }
    }

    /// That the node on record is this start.
    pub(crate) fn as_registered(&self) -> Compare {
        Compare::Value {
            key: self.node_key(),
            equals: self.own.encode(),
        }
    }

    /// That this start ends because it was told to.
    pub(crate) fn stop(&self) -> StopRecord {
        StopRecord {
            schema: 1,
            node: self.own.node,
            incarnation: self.own.incarnation,
        }
    }

    /// That metadata is not what this node has followed.
    pub(crate) fn denial(&self) -> DenialRecord {
        DenialRecord {
            schema: 1,
            node: self.own.node,
            store: self.own.store,
            overruled: false,
        }
    }

    /// Whether an operator says that the metadata is the right one, whoever denies it.
    pub(crate) fn overrules(&self) -> bool {
        self.machine.takes_over
    }

    /// It is not what all others have followed, and this node goes on by what an operator says.
    pub(crate) fn has_overruled(&mut self) {
        self.has_used_take_over = true;
    }

    /// Whether a bookmark was left in a use that the store knows.
    pub(crate) fn knows_use_of(&self, bookmark: &BookmarkRecord) -> bool {
        let known = self.use_ids.of(bookmark.uses, self.own.uses);
        bookmark.store == self.own.store && known == Some(bookmark.bookmark.use_id)
    }

    /// Whether a bookmark of this node was left by another store, or in a use that its store does not know.
    pub(crate) fn is_anothers(&self, bookmark: &BookmarkRecord) -> bool {
        let known = self.use_ids.of(bookmark.uses, self.own.uses);
        bookmark.store != self.own.store
            || bookmark.uses > self.own.uses
            || known.is_some_and(|id| id != bookmark.bookmark.use_id)
    }

    /// Whether this node's store was used, in the past, without knowing. Its count tells only until it has
    /// been opened as often again; the ids of its uses tell always.
    fn lacks_use_of(&self, known: &NodeRecord, of_use: Option<&UseRecord>) -> bool {
        if known.store != self.own.store {
            return false;
        }
        // One that is of another use was left by a start before that of a version without ids.
        let recorded = of_use.filter(|of_use| of_use.is_of(known));
        let recorded = recorded.map_or(known.use_id, |of_use| of_use.use_id);
        let id = self.use_ids.of(known.uses, self.own.uses);
        match id {
            _ if known.uses >= self.own.uses => true,
            Some(id) if recorded != 0 => id != recorded,
            _ => false,
        }
    }

    /// That nobody else has taken the number since it was read.
    fn as_read(&self, outcome: &TransactionOutcome) -> Vec<Compare> {
        let node = self.own.node;
        let keys = [
            (NodeRecord::key(node), NODE),
            (MachineRecord::key(node), MACHINE),
        ];
        let compare = keys.map(|(key, place)| Compare::ModRevision {
            key,
            equals: found(outcome, place).map_or(Revision(0), |pair| pair.mod_revision),
        });
        compare.into()
    }

    fn put_machine(&self, store: Option<StoreId>) -> Operation {
        let node = self.own.node;
        let machine = MachineRecord {
            schema: 1,
            node,
            machine: self.machine.id,
            store,
        };
        Operation::put(MachineRecord::key(node), machine.encode())
    }

    /// Says in which failure domain the node is; one that is on record from before is gone where its configuration has none any
    /// more.
    fn tell_domain(&self) -> Operation {
        let node = self.own.node;
        let key = DomainRecord::key(node);
        let Some(domain) = self.domain.clone() else {
            return Operation::Delete(Selector::Key(key));
        };
        let record = DomainRecord {
            schema: 1,
            node,
            domain,
        };
        Operation::put(key, record.encode())
    }

    fn replace(&self, outcome: &TransactionOutcome) -> Step {
        let of_use = UseRecord {
            schema: 1,
            node: self.own.node,
            store: self.own.store,
            uses: self.own.uses,
            use_id: self.use_id,
        };
        let operations = vec![
            Operation::put(NodeRecord::key(self.own.node), self.own.encode()),
            Operation::put(UseRecord::key(self.own.node), of_use.encode()),
            self.put_machine(Some(self.own.store)),
            self.tell_domain(),
        ];
        Step::Replace(self.as_read(outcome), operations)
    }

    /// Where the machine was reached whose place this one has taken, if that had another store.
    pub(crate) fn former(&self) -> Option<&str> {
        self.former.as_deref()
    }

    /// Which start of the node this is. Meaningful once the registration is done.
    pub(crate) fn incarnation(&self) -> Incarnation {
        self.own.incarnation
    }
}

/// What was read in a place.
fn found(outcome: &TransactionOutcome, place: usize) -> Option<&KeyValue> {
    match outcome.results.get(place) {
        Some(OperationResult::Range(found)) => found.first(),
        _ => None,
    }
}

/// The record that was read in a place, if this version can read it.
fn record<R: Record>(outcome: &TransactionOutcome, place: usize) -> Option<R> {
    R::decode(&found(outcome, place)?.value).ok()
}

/// Which machine has a number.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Holder {
    /// None, as far as is known. What is there may be of a node that a version without machines has replaced, or
    /// removed.
    Nobody,
    /// It has taken it, and not registered yet.
    Took(MachineId),
    /// It is the one on record.
    Has(MachineId),
}

impl Holder {
    fn of(known: Option<&NodeRecord>, outcome: &TransactionOutcome) -> Self {
        let Some(found) = record::<MachineRecord>(outcome, MACHINE) else {
            return Self::Nobody;
        };
        match found.store {
            None => Self::Took(found.machine),
            Some(store) if known.is_some_and(|known| known.store == store) => {
                Self::Has(found.machine)
            }
            Some(_) => Self::Nobody,
        }
    }
}

/// Whether a newer version wrote it.
fn is_newer<R: Record>(pair: &KeyValue) -> bool {
    matches!(R::decode(&pair.value), Err(RecordError::Schema(_)))
}

/// From where starts are counted at least; told beside the node's own record.
fn floor(outcome: &TransactionOutcome) -> Incarnation {
    let record: Option<ClusterRecord> = record(outcome, CLUSTER);
    record.map_or(Incarnation::ZERO, |record| record.incarnation_floor)
}

#[cfg(test)]
#[path = "registration_tests.rs"]
mod tests;
