//! The initiator's side.
