//! What nodes say in metadata that they do not follow: that it is not what they have followed.
//!
//! Whoever was off while others went on cannot tell a backup from before that from the newest state. Those who went on can, by their
//! bookmarks, and say so where everybody sees it who follows it; over links they could not, for they do not register in it.
//!
//! It refuses to decide whether that counts: see `vouching`.
//!
//! Invariants:
//! - nothing else is changed in metadata that is not believed, and this only in that of the node's own cluster, in which its record is;
//! - nobody who runs says so in metadata of a lower revision than it has seen: others who run have seen as much, and have nothing else to tell it by.

use alloc::vec;

use holdfast_model::NodeId;
use holdfast_model::metadata::{Operation, TransactionOutcome, WatchEvent};
use holdfast_model::record::{BookmarkRecord, CLUSTER_KEY, DENIALS_PREFIX, DenialRecord, Record};

use super::bookmark::as_read;
use super::lacking::pairs;
use super::{Change, Cluster, Purpose};
use crate::registration::Registration;

impl Cluster {
    /// Everything was read.
    pub(super) fn read_denials(&mut self, outcome: &TransactionOutcome) {
        let denials = pairs(outcome).filter(|pair| pair.key.starts_with(DENIALS_PREFIX));
        let denials = denials.filter_map(|pair| DenialRecord::decode(&pair.value).ok());
        let denials = denials.map(|denial| (denial.node, denial.store)).collect();
        if self.denials != denials {
            self.denials = denials;
            self.changes.push_back(Change::Denials);
        }
    }

    /// A watch has told this, of metadata that is followed, or will be if nobody denies it any more.
    pub(super) fn hear_denials(&mut self, events: &[WatchEvent]) {
        for event in events {
            let has_changed = match event {
                WatchEvent::Put(pair) if pair.key.starts_with(DENIALS_PREFIX) => {
                    let denial = DenialRecord::decode(&pair.value);
                    denial.is_ok_and(|it| self.denials.insert(it.node, it.store) != Some(it.store))
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

    /// Everything was read, and is not believed: that it is not what this node has followed is said there, unless it has been.
    pub(super) fn deny(&mut self, outcome: &TransactionOutcome) {
        let Some(own) = self.registration.as_ref() else {
            return;
        };
        let find = |key: &str| pairs(outcome).find(|pair| pair.key == key);
        let record = find(&own.node_key());
        let is_own = record.is_some_and(|pair| own.is_of_own_store(pair));
        let has_gone_back = self.registered && outcome.revision < self.past.seen();
        if !self.past.lacks_what_it_followed()
            || has_gone_back
            || !is_own
            || !self.is_of_this_cluster(outcome)
        {
            return;
        }
        let denial = own.denial();
        let said = find(&DenialRecord::key(denial.node));
        let is_said = said.is_some_and(|pair| pair.value == denial.encode());
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

    /// Which other nodes say that this is not what they have followed; but for those whose replicas are all known to lack something: others have
    /// gone on without them, by what is followed here.
    pub(crate) fn deniers(&self) -> impl Iterator<Item = NodeId> {
        let own = self.registration.as_ref().map(Registration::node);
        let denials = self.denials.iter().filter(move |(node, store)| {
            let is_known = self.nodes.get(node).is_some_and(|it| it.store == **store);
            own != Some(**node)
                && is_known
                && self.belongs(**node)
                && !self.has_gone_on_without(**node)
        });
        denials.map(|(node, _)| *node)
    }

    fn has_gone_on_without(&self, node: NodeId) -> bool {
        let records = self.slices.values().map(|(record, _)| record);
        let mut named = records
            .filter(|record| record.replica(node).is_some())
            .peekable();
        named.peek().is_some() && !named.any(|record| record.in_sync().any(|it| it == node))
    }
}

#[cfg(test)]
#[path = "denials_tests.rs"]
mod tests;
