//! Initiators, and whom volumes are for. What a secret is goes in, and never comes out.

use holdfast_model::record::Secret;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::EntityTag;

/// The initiators.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct InitiatorList {
    /// By name.
    pub initiators: Vec<Initiator>,
    /// Where the rest begins, for `after`; none if there is no more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// An initiator that is on record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Initiator {
    /// Its iSCSI name.
    pub name: String,
    /// The CHAP name under which it proves who it is; null if its iSCSI name is believed.
    pub chap_name: Option<String>,
    /// The CHAP name under which targets prove to it who they are, if it wants that; null if they cannot.
    pub mutual_name: Option<String>,
    /// The volumes that list it, by name. Those that are for everybody are not among them.
    pub volumes: Vec<String>,
    /// Names what may be changed of it, as `If-Match` takes it; null from a version that does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub etag: Option<EntityTag>,
}

/// What is to be on record of an initiator.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct InitiatorPut {
    /// What it proves who it is by; without, its iSCSI name is believed.
    pub chap: Option<ChapAccount>,
    /// What targets prove to it who they are by.
    pub mutual: Option<ChapAccount>,
}

/// A CHAP name, and its secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ChapAccount {
    /// The name, of 1 to 255 letters.
    pub name: String,
    /// The secret, of 12 to 255 letters.
    #[schema(value_type = String, write_only)]
    pub secret: Secret,
}

/// Whom a volume is for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct VolumeAccess {
    /// It is for every initiator.
    pub open: bool,
    /// Else the initiators that it is for, by name.
    pub initiators: Vec<String>,
}

/// What becomes of whom a volume is for. The names are iSCSI names of initiators.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum AccessChange {
    /// It is for this initiator, too; and for nobody else any more, if it was open.
    Allow(String),
    /// It is not for this initiator any more.
    Disallow(String),
    /// With true it is for every initiator. False is refused: allow somebody.
    Open(bool),
}
