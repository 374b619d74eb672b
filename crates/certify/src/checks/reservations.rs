//! Persistent reservations (SPC-4 5.12): what keeps a lost host from a disk.

mod basics;
mod fencing;
mod kinds;
mod naming;
mod surviving;

use crate::check::{Check, Group};

const GROUP: Group = Group::Reservations;

/// The checks, in their order.
pub(super) const CHECKS: [&[Check]; 5] = [
    basics::CHECKS,
    kinds::CHECKS,
    fencing::CHECKS,
    naming::CHECKS,
    surviving::CHECKS,
];
