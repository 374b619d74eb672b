//! What the metadata holds of a node that starts with other devices than those on its record.
//!
//! It is written by whoever starts, and deleted by whoever runs under the number already. A bid that still
//! stands after a while was not objected to.

use alloc::format;
use alloc::string::String;

use serde::{Deserialize, Serialize};

use crate::{NodeId, StoreId};

/// Where bids are.
pub const BIDS_PREFIX: &str = "/holdfast/bids/";

/// That a process with other devices wants to be a node. A document of its own, because versions of before
/// pass over those that they do not know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BidRecord {
    /// Schema number, 1.
    pub schema: u32,
    /// Which node.
    pub node: NodeId,
    /// What its devices hold.
    pub store: StoreId,
    /// Where other nodes would reach it, `host:port`: it tells people which machine it is.
    pub peer: String,
}

impl BidRecord {
    /// The key of the bid to be a node.
    #[must_use]
    pub fn key(node: NodeId) -> String {
        format!("{BIDS_PREFIX}{:05}", node.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Record;

    #[test]
    fn bids_are_read_for_ever() {
        let bid = BidRecord {
            schema: 1,
            node: NodeId(3),
            store: StoreId(0xA),
            peer: "192.0.2.4:7561".into(),
        };
        let text = br#"{"schema":1,"node":3,"store":"0000000000000000000000000000000a","peer":"192.0.2.4:7561"}"#;
        assert_eq!(&bid.encode()[..], text);
        assert_eq!(BidRecord::decode(text), Ok(bid));
        assert_eq!(BidRecord::key(NodeId(3)), "/holdfast/bids/00003");
    }
}
