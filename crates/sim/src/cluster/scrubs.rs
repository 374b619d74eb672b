//! Scrubs: rounds that whoever steers begins and ends, and those that an operator orders.
//!
//! They are planned by the code that ships (`holdfast_control`) where the plan tells an interval; else an operator's order is
//! a new round, however far the last one is, and nobody ends it.
//!
//! Invariant: clocks on the walls of two nodes differ by seconds, and none of them goes back.

use holdfast_control::{Inventory, VolumeName, begin_scrub};
use holdfast_model::NodeId;
use holdfast_model::metadata::{Operation, Transaction};
use holdfast_model::record::{Record, SCRUBS_PREFIX, ScrubRecord};

use super::{Cluster, Fault, SettingsChange};
use crate::failure::Failure;

/// What time it is when a run begins, in seconds since 1970.
const BEGINS_SECONDS: u64 = 1_795_000_000;
/// By less than so many seconds clocks differ.
const CLOCKS_DIFFER_SECONDS: u64 = 3;

impl Cluster {
    /// Whether rounds are begun and ended as they are in a cluster that is used.
    pub(super) fn has_rounds(&self) -> bool {
        let plan = self.plan.controller;
        plan.is_some_and(|plan| plan.scrub_interval_seconds.is_some())
    }

    /// What a node takes for the time.
    pub(super) fn unix_seconds(&self, node: NodeId) -> u64 {
        BEGINS_SECONDS
            + u64::from(node.0) % CLOCKS_DIFFER_SECONDS
            + self.now.as_nanos() / 1_000_000_000
    }

    /// The operator wants all volumes scrubbed. Says whether anybody takes the order.
    pub(super) fn order_scrub(&mut self) -> Result<bool, Failure> {
        // Whoever is asked refuses as long as the metadata has gone back.
        if self.is_outdated() {
            return Ok(false);
        }
        if !self.has_rounds() {
            return self.scrub().map(|_| true);
        }
        let Some(over) = self.choose_who_is_asked() else {
            return Ok(false);
        };
        let Some(inventory) = self.inventory() else {
            return Ok(false);
        };
        let now = self.unix_seconds(over);
        for name in inventory.names.keys() {
            let name: VolumeName = name.parse().expect("a name of ours is a volume's name");
            match begin_scrub(&inventory, &name, now) {
                Ok(Some(transaction)) => self.write_order(over, transaction),
                Ok(None) => self
                    .watch
                    .coverage
                    .reach("scrub", "ordered while one is under way"),
                // It is being made.
                Err(_) => {}
            }
        }
        Ok(true)
    }

    /// No scrub is to begin by itself any more. Says whether there is still something to be waited for.
    pub(super) fn call_scrubs_off(&mut self, inventory: &Inventory) -> bool {
        let goes_on = self.has_rounds() && inventory.settings.record.scrub_interval_seconds != 0;
        if goes_on && self.controller.orders == 0 {
            self.fault(Fault::Settings(SettingsChange::ScrubInterval(0)))
                .expect("an order breaks nothing");
        }
        goes_on
    }

    /// The round that has not ended, if whoever steers is to end it.
    pub(super) fn scrubs_unsettled(&self, inventory: &Inventory) -> Option<String> {
        if !self.has_rounds() {
            return None;
        }
        let mut rounds = inventory.scrubs.values();
        let round = rounds.find(|found| found.record.is_under_way())?;
        Some(format!("a scrub does not end: {:?}", round.record))
    }
}

/// What a transaction does to a volume's rounds, if anything.
pub(super) fn point(transaction: &Transaction, is_ordered: bool) -> Option<&'static str> {
    let record = transaction.success.iter().find_map(|step| match step {
        Operation::Put { key, value, .. } if key.starts_with(SCRUBS_PREFIX) => {
            Some(ScrubRecord::decode(value).expect("our own records can be read"))
        }
        _ => None,
    })?;
    Some(match (record.is_under_way(), is_ordered) {
        (true, true) => "begun by an order",
        (true, false) if record.round == 1 => "begun by itself",
        (true, false) => "begun by itself again",
        (false, _) => "ended",
    })
}
