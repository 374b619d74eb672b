//! What is found of the volumes: each slice is looked at once, whatever is told of it then.

use std::collections::BTreeMap;

use holdfast_api::documents::Health;
use holdfast_control::Inventory;
use holdfast_model::record::VolumeRecord;

use super::causes::{self, Cause, Group};
use super::crowded::Crowded;
use super::{crowded, slice_healths, worst_of};
use crate::reports::Reports;

/// A volume, and what is found of it.
pub(super) struct Assessed<'a> {
    pub(super) volume: &'a VolumeRecord,
    /// How its slices are, in their order.
    pub(super) healths: Vec<Health>,
    /// Why, of those that are not healthy.
    pub(super) causes: BTreeMap<Cause, Group>,
    /// Slices whose copies could be further apart, or are in one failure domain.
    pub(super) crowded: Vec<Crowded<'a>>,
}

impl Assessed<'_> {
    /// How the volume is.
    pub(super) fn health(&self) -> Health {
        worst_of(&self.healths)
    }
}

/// All volumes, by their numbers.
pub(super) fn all<'a>(inventory: &'a Inventory, reports: &Reports) -> Vec<Assessed<'a>> {
    let volumes = inventory.volumes.values().map(|volume| &volume.record);
    let assessed = volumes.map(|volume| {
        let healths = slice_healths(inventory, reports, volume);
        Assessed {
            volume,
            causes: causes::of_volume(inventory, reports, volume, &healths),
            crowded: crowded::slices(inventory, volume, &healths),
            healths,
        }
    });
    assessed.collect()
}
