//! No two starts of a node have the same incarnation, nor does a later one have a lower one: commands are named by it, and one that
//! turns up again is taken for a repeat (decision 0031).

use std::collections::BTreeMap;

use holdfast_model::{Incarnation, NodeId};

use crate::failure::Failure;

/// Which incarnations there were.
#[derive(Debug, Default)]
pub(super) struct Starts {
    newest: BTreeMap<NodeId, Incarnation>,
}

impl Starts {
    pub(super) fn opened(&mut self, node: NodeId, incarnation: Incarnation) -> Result<(), Failure> {
        let before = self.newest.insert(node, incarnation);
        match before.filter(|before| *before >= incarnation) {
            None => Ok(()),
            Some(before) => Err(Failure::Invariant {
                name: "starts",
                what: format!("{node} starts as {incarnation} after {before}"),
            }),
        }
    }
}
