//! Who may do what with a unit: persistent reservations (SPC-4 5.12) and RESERVE and RELEASE of
//! SPC-2, as far as they can be decided without asking anybody.
//!
//! The state is an [`AccessRecord`], one for all nodes. Commands that read or change it become an
//! [`AccessRequest`], which is decided on the newest record; all others are held against what the
//! node knows of it by [`permits`]. It refuses to keep the record, to say when a change counts, and
//! to tell sessions of it: it answers what they are to be told ([`attentions`]).
//!
//! Invariants:
//! - a decision is the same whenever it is made of the same record;
//! - what is refused changes nothing;
//! - the fence rises exactly with what takes a right away from somebody, save with a loss of power;
//! - nobody is registered while one has the unit by RESERVE, and the other way round.

mod attention;
mod decide;
mod event;
mod kind;
mod legacy;
mod parameters;
mod permission;
mod preempt;
mod register;
mod repeat;
mod report;
mod request;
mod transport_id;

pub use attention::attentions;
pub use decide::Decision;
pub use event::{on_nexus_loss, on_reset};
pub use permission::{Need, permits, takes_away};
pub use repeat::is_repeat;
pub use request::{AccessRequest, InAction, OutAction};

pub(crate) use kind::of_code as kind_of_code;

#[cfg(doc)]
use holdfast_model::record::AccessRecord;

#[cfg(test)]
mod tests;
