//! What a node's program is, as far as that matters for running beside another one.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The versions of a program, and of what it speaks and writes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Versions {
    /// The program's.
    pub program: String,
    /// The newest version of the protocol between nodes that it speaks.
    pub protocol: u16,
    /// The oldest one.
    pub protocol_min: u16,
    /// The newest version of what is on devices that it reads; what it has opened is of that version.
    pub format: u32,
}
