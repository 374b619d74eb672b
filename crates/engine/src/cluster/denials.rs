//! What nodes say in metadata that they do not follow: that it is not what they have followed.
//!
//! Whoever was off while others went on cannot tell a backup from before that from the newest state. Those who went on can, by their
//! bookmarks, and say so where everybody sees it who follows it; over links they could not, for they do not register in it.
//!
//! It refuses to decide whether that counts: see `vouching`.
//!
//! Invariants:
//! - nothing else is changed in metadata that is not believed, and this only in that of the node's own cluster, in which its record is;
//! - nobody who runs says so in metadata of a lower revision than it has seen: others who run have seen as much, and what was changed without a bookmark
//!   they know by nothing else.

use alloc::string::String;
use alloc::vec;

use holdfast_model::NodeId;
use holdfast_model::metadata::{Compare, KeyValue, Operation, TransactionOutcome, WatchEvent};
use holdfast_model::record::{
    BookmarkRecord, CLUSTER_KEY, DENIALS_PREFIX, DenialRecord, INTENTS_PREFIX, IntentRecord,
    NODES_PREFIX, NodeRecord, NodeStanding, Record,
};
use holdfast_stdx::Instant;

use super::bookmark::as_read;
use super::lacking::{cluster_record, pairs};
use super::{Change, Cluster, Purpose, RETRY};
use crate::registration::Registration;

impl Cluster {
    /// Everything was read. A denial counts if it is of a node's present store, and the node is part of the cluster.
    pub(super) fn read_denials(&mut self, outcome: &TransactionOutcome) {
        let said = pairs(outcome).filter(|pair| pair.key.starts_with(DENIALS_PREFIX));
        let said = said.filter_map(|pair| Some((DenialRecord::decode(&pair.value).ok()?, pair)));
        let find = |key: String| pairs(outcome).find(|pair| pair.key == key);
        let said = said.filter(|(denial, _)| {
            let record = find(NodeRecord::key(denial.node));
            let record = record.and_then(|pair| NodeRecord::decode(&pair.value).ok());
            let intent = find(IntentRecord::key(denial.node));
            let intent = intent.and_then(|pair| IntentRecord::decode(&pair.value).ok());
            record.is_some_and(|it| it.store == denial.store)
                && intent.is_none_or(|it| it.standing != NodeStanding::Removed)
        });
        let said = said.map(|(denial, pair)| (denial.node, (denial, pair.mod_revision)));
        let denials = said.collect();
        if self.denials != denials {
            self.denials = denials;
            self.changes.push_back(Change::Denials);
        }
    }

    /// A watch has told this, of metadata that is followed.
    pub(super) fn hear_denials(&mut self, events: &[WatchEvent]) {
        for event in events {
            let has_changed = match event {
                WatchEvent::Put(pair) if pair.key.starts_with(DENIALS_PREFIX) => {
                    let denial = DenialRecord::decode(&pair.value);
                    denial.is_ok_and(|it| {
                        let said = (it, pair.mod_revision);
                        self.denials.insert(said.0.node, said.clone()) != Some(said)
                    })
                }
                WatchEvent::Delete { key, .. } => {
                    let node = key.strip_prefix(DENIALS_PREFIX);
                    let node = node.and_then(|node| node.parse().ok()).map(NodeId);
                    node.is_some_and(|node| self.denials.remove(&node).is_some())
                }
                WatchEvent::Put(_) => false,
            };
            if has_changed {
                self.changes.push_back(Change::Denials);
            }
        }
    }

    /// The same, while others deny it: if something has changed about who does everything is read again.
    pub(super) fn hear_denials_while_astray(&mut self, now: Instant, events: &[WatchEvent]) {
        let tells = |event: &WatchEvent| {
            let (WatchEvent::Put(KeyValue { key, .. }) | WatchEvent::Delete { key, .. }) = event;
            let prefixes = [DENIALS_PREFIX, NODES_PREFIX, INTENTS_PREFIX];
            prefixes.iter().any(|prefix| key.starts_with(prefix))
        };
        if self.is_disowned() && events.iter().any(tells) {
            self.retry.get_or_insert(now + RETRY);
        }
    }

    /// Everything was read, and is not believed: that it is not what this node has followed is said there, unless it has been.
    pub(super) fn deny(&mut self, outcome: &TransactionOutcome) {
        let Some(own) = self.registration.as_ref() else {
            return;
        };
        let find = |key: &str| pairs(outcome).find(|pair| pair.key == key);
        let record = find(&own.node_key());
        let is_own = record.is_some_and(|pair| own.is_of_own_store(pair));
        let cluster = cluster_record(pairs(outcome));
        let is_of_this = cluster.is_some_and(|it| it.cluster == self.past.cluster());
        let has_gone_back = self.registered && outcome.revision < self.past.seen();
        if !self.past.lacks_what_it_followed() || has_gone_back || !is_own || !is_of_this {
            return;
        }
        let denial = own.denial();
        let said = find(&DenialRecord::key(denial.node));
        let is_said = said.and_then(|pair| DenialRecord::decode(&pair.value).ok());
        let is_said = is_said.is_some_and(|said| said.store == denial.store);
        let mut purposes = self.requests.values();
        if is_said || purposes.any(|(purpose, _)| matches!(purpose, Purpose::Deny)) {
            return;
        }
        let keys = [
            CLUSTER_KEY.into(),
            own.node_key(),
            BookmarkRecord::key(denial.node),
            DenialRecord::key(denial.node),
        ];
        let compare = keys.iter().map(|key| as_read(key, find(key))).collect();
        let put = Operation::put(DenialRecord::key(denial.node), denial.encode());
        self.transact(Purpose::Deny, compare, vec![put]);
    }

    /// Which other nodes say that this is not what they have followed, and count.
    pub(crate) fn deniers(&self) -> impl Iterator<Item = NodeId> {
        let is_told_so = self.is_told_to_overrule();
        let own = self.own_node();
        let said = self.denials.iter().filter(move |(node, (denial, _))| {
            // While it is not believed all that is known is what was read at once.
            let is_known = self.nodes.get(node).map(|it| it.store) == Some(denial.store);
            let is_part = self.is_astray() || (is_known && self.belongs(**node));
            !is_told_so && own != Some(**node) && !denial.overruled && is_part
        });
        said.map(|(node, _)| *node)
    }

    /// This node, once it is registered.
    pub(crate) fn own_node(&self) -> Option<NodeId> {
        self.registration.as_ref().map(Registration::node)
    }

    /// How many nodes are part of the cluster.
    pub(crate) fn member_count(&self) -> usize {
        let nodes = self.nodes.keys();
        nodes.filter(|node| self.belongs(**node)).count()
    }

    /// Whether an operator has said that this metadata is the right one.
    pub(crate) fn is_told_to_overrule(&self) -> bool {
        (self.registration.as_ref()).is_some_and(Registration::overrules)
    }

    /// It was of use.
    pub(crate) fn has_overruled(&mut self) {
        self.own().has_overruled();
    }

    /// This node goes on with the metadata although others deny it, and so does whoever comes to it from now on.
    pub(crate) fn overrule_denials(&mut self) {
        let own = self.own_node();
        let mut said = self.denials.values();
        let standing = said.find(|(it, _)| !it.overruled && own != Some(it.node));
        let mut purposes = self.requests.values();
        if !self.may_change() || purposes.any(|(purpose, _)| matches!(purpose, Purpose::Deny)) {
            return;
        }
        let Some((denial, equals)) = standing.cloned() else {
            return;
        };
        let key = DenialRecord::key(denial.node);
        let compare = Compare::ModRevision {
            key: key.clone(),
            equals,
        };
        let overruled = DenialRecord {
            overruled: true,
            ..denial
        };
        self.own().has_overruled();
        let put = Operation::put(key, overruled.encode());
        self.transact(Purpose::Deny, vec![compare], vec![put]);
    }
}

#[cfg(test)]
#[path = "denials_tests.rs"]
mod tests;
