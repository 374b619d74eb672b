//! The journal's move to another device of the store (decision 0019, point 6).
//!
//! Invariants:
//! - the journal is where the list on its device says; while it is about to move, the list on either device
//!   says so, and the newer one counts;
//! - a move that is called off leaves a list that is newer than any in which it was done.

use holdfast_format::{DeviceList, JournalMark};

/// The journal stays where it is: whatever list the other device may have been about to get is older than this one.
pub(crate) fn call_off(list: &mut DeviceList) {
    let mut devices = list.devices.iter_mut();
    let next = devices.find(|device| device.journal == JournalMark::Next);
    if let Some(next) = next {
        next.journal = JournalMark::Room;
        // The next generation is that of the list with which it would have been there.
        list.generation += 2;
    }
}
