//! Entity tags: which state of what an operator may change something is in, and what keeps a change from being made in
//! another one.
//!
//! A tag is made of what one look has seen, and so is a plan. The plan's transaction holds only as long as the records
//! behind the tag are those of the look, so that whatever is changed has the tag that was asked for at that moment.
//!
//! Invariants:
//! - a tag changes when what an operator may change does, and never because of what nodes do;
//! - nothing of a secret is in it: records that have one are told apart by their revision.

use holdfast_api::{EntityTag, Precondition, Problem};
use holdfast_control::{Inventory, Part};
use holdfast_model::metadata::{Compare, Revision, Transaction};
use holdfast_model::record::{
    ExportRecord, InitiatorRecord, IntentRecord, NodeRecord, Record, SETTINGS_KEY, VolumeRecord,
};
use holdfast_model::{NodeId, VolumeId};
use holdfast_stdx::crc32c;

/// What has a tag.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Tagged<'a> {
    Settings,
    Volume(VolumeId),
    Node(NodeId),
    Initiator(&'a str),
}

impl Tagged<'_> {
    /// Its tag; none if it is not there.
    pub(crate) fn tag(self, inventory: &Inventory) -> Option<EntityTag> {
        let parts = match self {
            Self::Settings => format!("s-{:x}", inventory.settings.revision.0),
            Self::Volume(volume) => {
                let record = inventory.volumes.get(&volume)?;
                let export = inventory.exports.get(&volume);
                let export = export.map_or(Revision(0), |export| export.revision);
                format!("v{:x}-{:x}-{:x}", volume.0, record.revision.0, export.0)
            }
            Self::Node(node) => {
                // Its intent is written anew, as it is, whenever it is given something: the revision tells nothing.
                let record = inventory.nodes.get(&node)?;
                let standing = match inventory.part_of(node) {
                    Part::Waiting => "waiting".to_owned(),
                    Part::Of(standing) => format!("{standing:?}").to_lowercase(),
                };
                let site = crc32c(inventory.site_of(node).unwrap_or_default().as_bytes());
                let store = crc32c(record.store.to_string().as_bytes());
                format!("n{:x}-{store:08x}-{standing}-{site:08x}", node.0)
            }
            Self::Initiator(name) => {
                let record = inventory.initiators.get(name)?;
                format!("i-{:x}", record.revision.0)
            }
        };
        // Metadata that was made again counts its revisions from the beginning.
        let recoveries = inventory.cluster.record.recoveries;
        Some(EntityTag::of(&format!("{recoveries:x}-{parts}")))
    }

    /// That the records behind the tag are those that were seen.
    fn unchanged(self, inventory: &Inventory) -> Vec<Compare> {
        let at = |key, revision: Option<Revision>| Compare::ModRevision {
            key,
            equals: revision.unwrap_or(Revision(0)),
        };
        match self {
            Self::Settings => {
                let revision = inventory.settings.revision;
                vec![at(SETTINGS_KEY.to_owned(), Some(revision))]
            }
            Self::Volume(volume) => {
                let record = inventory.volumes.get(&volume).map(|it| it.revision);
                let export = inventory.exports.get(&volume).map(|it| it.revision);
                vec![
                    at(VolumeRecord::key(volume), record),
                    at(ExportRecord::key(volume), export),
                ]
            }
            Self::Node(node) => {
                let intent = inventory.intents.get(&node).map(|it| it.revision);
                let mut compare = vec![at(IntentRecord::key(node), intent)];
                compare.extend(inventory.nodes.get(&node).map(|record| Compare::Value {
                    key: NodeRecord::key(node),
                    equals: record.encode(),
                }));
                compare
            }
            Self::Initiator(name) => {
                let record = inventory.initiators.get(name).map(|it| it.revision);
                vec![at(InitiatorRecord::key(name), record)]
            }
        }
    }

    /// That a precondition holds.
    pub(crate) fn holds(
        self,
        precondition: &Precondition,
        inventory: &Inventory,
    ) -> Result<(), Problem> {
        if !precondition.is_any() {
            return Ok(());
        }
        precondition.holds(self.tag(inventory).as_ref())
    }

    /// A plan that is carried out only in the state in which the precondition was seen to hold.
    pub(crate) fn guarded(
        self,
        precondition: &Precondition,
        inventory: &Inventory,
        planned: Transaction,
    ) -> Transaction {
        let mut planned = planned;
        if precondition.is_any() {
            planned.compare.extend(self.unchanged(inventory));
        }
        planned
    }
}
