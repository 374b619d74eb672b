//! What the metadata holds of nodes: what each says of itself, and what the operator wants of it.
//!
//! Invariant: what a node says, and what is wanted of it, are documents of their own, each with one writer.

use alloc::format;
use alloc::string::String;

use serde::{Deserialize, Serialize};

use super::is_zero;
use crate::{Incarnation, MachineId, NodeId, StoreId};

/// Where the nodes' records are.
pub const NODES_PREFIX: &str = "/holdfast/nodes/";
/// Where the ids of the uses of nodes' stores are.
pub const USES_PREFIX: &str = "/holdfast/uses/";
/// Where it is said which machines the nodes are.
pub const MACHINES_PREFIX: &str = "/holdfast/machines/";
/// Where nodes say with which others they fail.
pub const DOMAINS_PREFIX: &str = "/holdfast/domains/";
/// Where nodes leave their bookmarks.
pub const BOOKMARKS_PREFIX: &str = "/holdfast/bookmarks/";
/// Where nodes say that the metadata is not what they have followed.
pub const DENIALS_PREFIX: &str = "/holdfast/denials/";
/// Where nodes say that they end because they were told to.
pub const STOPS_PREFIX: &str = "/holdfast/stops/";
/// Where it is said how much drains began with.
pub const DRAINS_PREFIX: &str = "/holdfast/drains/";
/// Where the operator's intents for nodes are.
pub const INTENTS_PREFIX: &str = "/holdfast/intents/";

/// A node as it last started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeRecord {
    /// Schema number, 1.
    pub schema: u32,
    /// Its id.
    pub node: NodeId,
    /// Its name.
    pub name: String,
    /// What its devices hold.
    pub store: StoreId,
    /// How often that store had been opened: its use counter.
    pub uses: u64,
    /// The id that was drawn at random for that opening; 0: its [`UseRecord`] has it. Nodes do not write it
    /// here, for the first version refuses what it does not know; notes have it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub use_id: u64,
    /// Which start of the node this is, rising, whatever its store.
    pub incarnation: Incarnation,
    /// Where initiators reach it, `host:port`.
    pub portal: String,
    /// Where other nodes reach it, `host:port`.
    pub peer: String,
    /// Where its API answers, a URL.
    pub api: String,
}

impl NodeRecord {
    /// The key of a node's record.
    #[must_use]
    pub fn key(node: NodeId) -> String {
        format!("{NODES_PREFIX}{:05}", node.0)
    }
}

/// The id that was drawn at random for the opening of a node's store that its [`NodeRecord`] tells of. A
/// document of its own, because the first version passes over those that it does not know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UseRecord {
    /// Schema number, 1.
    pub schema: u32,
    /// Which node.
    pub node: NodeId,
    /// What its devices hold.
    pub store: StoreId,
    /// Which opening of that.
    pub uses: u64,
    /// Its id.
    pub use_id: u64,
}

impl UseRecord {
    /// The key of the record of a node's store.
    #[must_use]
    pub fn key(node: NodeId) -> String {
        format!("{USES_PREFIX}{:05}", node.0)
    }

    /// Whether it is of the opening that a node's record tells of.
    #[must_use]
    pub fn is_of(&self, record: &NodeRecord) -> bool {
        (self.node, self.store, self.uses) == (record.node, record.store, record.uses)
    }
}

/// Which machine a node is. It is there before the node's record: a machine whose devices are blank takes the
/// number before it formats them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MachineRecord {
    /// Schema number, 1.
    pub schema: u32,
    /// Which node.
    pub node: NodeId,
    /// Which machine.
    pub machine: MachineId,
    /// The contents of its devices; none as long as it has only taken the number. Versions without machines replace
    /// a node's record, and delete it, and leave this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub store: Option<StoreId>,
}

impl MachineRecord {
    /// The key of the record for a node.
    #[must_use]
    pub fn key(node: NodeId) -> String {
        format!("{MACHINES_PREFIX}{:05}", node.0)
    }
}

/// The failure domain of a node, as its configuration has it. A node without such a record is a domain of its own. A document of
/// its own, because the first version refuses a field that it does not know, and passes over keys that it does not know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DomainRecord {
    /// Schema number, 1.
    pub schema: u32,
    /// Which node.
    pub node: NodeId,
    /// What the domain is called: nodes that say the same fail together.
    pub domain: String,
}

impl DomainRecord {
    /// The key of the record of a node's domain.
    #[must_use]
    pub fn key(node: NodeId) -> String {
        format!("{DOMAINS_PREFIX}{:05}", node.0)
    }
}

/// A mark of which there is no second: the random id of the use of a store in which it was made, and its number among those of
/// that use, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bookmark {
    /// Drawn at random.
    pub use_id: u64,
    /// Rising.
    pub number: u64,
}

/// The bookmark that a node left when it last began to follow the metadata, or saw that it says something new of data. Metadata without
/// it is not what the node followed: it was copied before, and has gone on by itself, or it is a backup.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BookmarkRecord {
    /// Schema number, 1.
    pub schema: u32,
    /// Which node.
    pub node: NodeId,
    /// What its devices hold.
    pub store: StoreId,
    /// Which opening of that it was.
    pub uses: u64,
    /// The bookmark.
    pub bookmark: Bookmark,
}

/// What a node says that does not follow the metadata: it has followed another, or this one as it was later. Gone as soon as the node
/// follows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DenialRecord {
    /// Schema number, 1.
    pub schema: u32,
    /// Which node.
    pub node: NodeId,
    /// What its devices hold.
    pub store: StoreId,
    /// The others have gone on with this metadata all the same: it counts no more.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub overruled: bool,
}

impl DenialRecord {
    /// The key of a node's denial.
    #[must_use]
    pub fn key(node: NodeId) -> String {
        format!("{DENIALS_PREFIX}{:05}", node.0)
    }
}

impl BookmarkRecord {
    /// The key of a node's bookmark.
    #[must_use]
    pub fn key(node: NodeId) -> String {
        format!("{BOOKMARKS_PREFIX}{:05}", node.0)
    }
}

/// What a node says that ends because it was told to: from then on it is not lost, but stopped. The record stays, and is of no
/// start but that one. A document of its own, because versions without it pass over it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StopRecord {
    /// Schema number, 1.
    pub schema: u32,
    /// Which node.
    pub node: NodeId,
    /// Which start of it ends.
    pub incarnation: Incarnation,
}

impl StopRecord {
    /// The key of what a node says.
    #[must_use]
    pub fn key(node: NodeId) -> String {
        format!("{STOPS_PREFIX}{:05}", node.0)
    }

    /// Whether it is of the start that a node's record tells of.
    #[must_use]
    pub fn is_of(&self, record: &NodeRecord) -> bool {
        (self.node, self.incarnation) == (record.node, record.incarnation)
    }
}

/// What the operator wants of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NodeStanding {
    /// It holds what it is given.
    Active,
    /// It is about to be worked on: it leads nothing, is given nothing, and nothing of it is rebuilt
    /// elsewhere.
    Maintenance,
    /// Everything that it holds moves away.
    Draining,
    /// It is no part of the cluster any more.
    Removed,
}

/// What the operator wants of a node, beside the node's own record, which the node writes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IntentRecord {
    /// Schema number, 1.
    pub schema: u32,
    /// Which node.
    pub node: NodeId,
    /// What is wanted of it.
    pub standing: NodeStanding,
    /// Where it stands: copies of a slice are kept on different sites, as far as there are any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub site: Option<String>,
}

impl IntentRecord {
    /// A node is part of the cluster, and nothing else is wanted of it.
    #[must_use]
    pub const fn active(node: NodeId) -> Self {
        Self {
            schema: 1,
            node,
            standing: NodeStanding::Active,
            site: None,
        }
    }

    /// The key of the intent for a node.
    #[must_use]
    pub fn key(node: NodeId) -> String {
        format!("{INTENTS_PREFIX}{:05}", node.0)
    }
}

/// With how much a node's drain began, so that it can be told how far it is. A document of its own, because versions without it
/// refuse an intent with more in it, and pass over this.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DrainRecord {
    /// Schema number, 1.
    pub schema: u32,
    /// Which node.
    pub node: NodeId,
    /// Bytes that slices on it held when the drain was ordered, as far as was known.
    pub bytes: u64,
}

impl DrainRecord {
    /// The key of a node's drain.
    #[must_use]
    pub fn key(node: NodeId) -> String {
        format!("{DRAINS_PREFIX}{:05}", node.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Record;

    /// The first version refuses a field that it does not know: records of nodes have none.
    #[test]
    fn a_nodes_record_is_that_of_the_first_version() {
        let literal = br#"{"schema":1,"node":3,"name":"n3","store":"0000000000000000000000000000000a","uses":7,"incarnation":9,"portal":"h:1","peer":"h:2","api":"http://h:3"}"#;
        let record = NodeRecord::decode(literal).unwrap();
        assert_eq!(record.use_id, 0);
        assert_eq!(&record.encode()[..], &literal[..]);
        // As versions wrote it that were never released, and notes have it.
        let with_id = NodeRecord {
            use_id: 5,
            ..record.clone()
        };
        let text = core::str::from_utf8(literal).unwrap();
        let text = text.replace(r#""uses":7,"#, r#""uses":7,"use_id":5,"#);
        assert_eq!(&with_id.encode()[..], text.as_bytes());
        assert_eq!(NodeRecord::decode(text.as_bytes()), Ok(with_id));
        let literal = br#"{"schema":1,"node":3,"store":"0000000000000000000000000000000a","uses":7,"use_id":5}"#;
        let of_use = UseRecord::decode(literal).unwrap();
        assert_eq!(&of_use.encode()[..], &literal[..]);
        assert_eq!(UseRecord::key(NodeId(3)), "/holdfast/uses/00003");
        assert!(of_use.is_of(&record));
        assert!(!of_use.is_of(&NodeRecord {
            uses: 8,
            ..record.clone()
        }));
        let literal = br#"{"schema":1,"node":3,"machine":"000000000000000000000000000000ff"}"#;
        let machine = MachineRecord::decode(literal).unwrap();
        assert_eq!((machine.machine, machine.store), (MachineId(0xff), None));
        assert_eq!(&machine.encode()[..], &literal[..]);
        let literal = br#"{"schema":1,"node":3,"machine":"000000000000000000000000000000ff","store":"0000000000000000000000000000000a"}"#;
        let machine = MachineRecord::decode(literal).unwrap();
        assert_eq!(machine.store, Some(record.store));
        assert_eq!(&machine.encode()[..], &literal[..]);
        assert_eq!(MachineRecord::key(NodeId(3)), "/holdfast/machines/00003");
    }

    #[test]
    fn a_domain_is_read_for_ever() {
        let literal = br#"{"schema":1,"node":3,"domain":"rack-7"}"#;
        let record = DomainRecord::decode(literal).unwrap();
        assert_eq!((record.node, &*record.domain), (NodeId(3), "rack-7"));
        assert_eq!(&record.encode()[..], &literal[..]);
        assert_eq!(DomainRecord::key(NodeId(3)), "/holdfast/domains/00003");
    }

    #[test]
    fn a_denial_is_read_for_ever() {
        let literal = br#"{"schema":1,"node":3,"store":"0000000000000000000000000000000a"}"#;
        let record = DenialRecord::decode(literal).unwrap();
        assert_eq!((record.node, record.store), (NodeId(3), StoreId(10)));
        assert_eq!(&record.encode()[..], &literal[..]);
        let overruled = DenialRecord {
            overruled: true,
            ..record
        };
        let literal =
            br#"{"schema":1,"node":3,"store":"0000000000000000000000000000000a","overruled":true}"#;
        assert_eq!(&overruled.encode()[..], &literal[..]);
        assert_eq!(DenialRecord::key(NodeId(3)), "/holdfast/denials/00003");
    }

    #[test]
    fn a_stop_is_read_for_ever() {
        let literal = br#"{"schema":1,"node":3,"incarnation":12}"#;
        let record = StopRecord::decode(literal).unwrap();
        assert_eq!(
            (record.node, record.incarnation),
            (NodeId(3), Incarnation(12))
        );
        assert_eq!(&record.encode()[..], &literal[..]);
        assert_eq!(StopRecord::key(NodeId(3)), "/holdfast/stops/00003");
    }

    #[test]
    fn a_drain_is_read_for_ever() {
        let literal = br#"{"schema":1,"node":3,"bytes":4096}"#;
        let record = DrainRecord::decode(literal).unwrap();
        assert_eq!((record.node, record.bytes), (NodeId(3), 4096));
        assert_eq!(&record.encode()[..], &literal[..]);
        assert_eq!(DrainRecord::key(NodeId(3)), "/holdfast/drains/00003");
    }

    #[test]
    fn a_bookmark_is_read_for_ever() {
        let literal = br#"{"schema":1,"node":3,"store":"0000000000000000000000000000000a","uses":7,"bookmark":{"use_id":5,"number":2}}"#;
        let record = BookmarkRecord::decode(literal).unwrap();
        assert_eq!((record.node, record.store), (NodeId(3), StoreId(10)));
        assert_eq!((record.uses, record.bookmark.number), (7, 2));
        assert_eq!(&record.encode()[..], &literal[..]);
        assert_eq!(BookmarkRecord::key(NodeId(3)), "/holdfast/bookmarks/00003");
    }
}
