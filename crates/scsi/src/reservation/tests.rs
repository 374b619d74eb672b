//! Tests of decisions about reservations, from CDB and parameter list to the record that comes of
//! them.

mod attentions;
mod bench;
mod conformance;
mod events;
mod lists;
mod model;
mod permissions;
mod preempting;
mod registering;
mod repeats;
mod reports;
mod reserving;
