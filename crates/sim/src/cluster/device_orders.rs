//! Orders about nodes' devices: given, answered, and what is then so.
//!
//! Invariants:
//! - an order is answered with what is known of its device then;
//! - where the journal is when an order has ended, its node and its devices say alike.

use holdfast_engine::{DeviceOrder, DeviceRefused, DeviceState, DeviceStatus, Event, JournalMark};
use holdfast_model::NodeId;

use super::Cluster;
use super::journal_place::has_place_for_journal;
use super::node::ProcessId;
use crate::failure::Failure;
use crate::invariants::{Facts, Ordered};

impl Cluster {
    /// Tells a node that runs.
    pub(super) fn order_device(&mut self, node: NodeId, order: DeviceOrder) -> Result<(), Failure> {
        let process = self.nodes[&node].process.as_ref();
        let process = process.expect("its devices were looked at").id;
        let statuses = self.devices(node);
        let ordered = Ordered {
            order,
            point: point(&order, &statuses),
            lacked_one: statuses.iter().any(|it| it.absent.is_some()),
        };
        let number = self.invariants.device_ordered(node, ordered);
        self.tell(process, Event::Order { number, order })
    }

    /// An order is answered.
    pub(super) fn device_ordered(
        &mut self,
        ProcessId { node, .. }: ProcessId,
        number: u64,
        result: Result<u16, DeviceRefused>,
    ) -> Result<(), Failure> {
        let ordered = self.invariants.device_answered(node, number)?;
        let group = match result {
            Ok(_) => "device order",
            Err(_) => "device order refused",
        };
        let point = result.map_or_else(reason, |_| ordered.point);
        self.watch.coverage.reach(group, point);
        self.check_journal(node)?;
        self.journal_looked_at(node);
        let facts = self.facts(node, &ordered);
        match result {
            Ok(ordinal) => {
                let statuses = self.devices(node);
                ordered.check_done(node, ordinal, &statuses, facts)
            }
            Err(refused) => {
                if let DeviceOrder::Add { geometry, .. } = ordered.order {
                    self.node(node).bays.set_open(geometry.disk, false);
                }
                ordered.check_refused(node, refused, facts)
            }
        }
    }

    /// What is known of the device that an order is about, when it is answered.
    fn facts(&self, node: NodeId, ordered: &Ordered) -> Facts {
        let statuses = self.devices(node);
        let mut facts = Facts {
            is_blank: false,
            is_failing: false,
            wants_room: false,
            journal_has_place: None,
        };
        // Of two that wait the second may have begun when the first is answered.
        let is_alone = !self.invariants.has_device_orders(node);
        match &ordered.order {
            DeviceOrder::Add {
                geometry,
                replaces,
                journal_room,
                ..
            } => {
                let disk = &self.nodes[&node].disks[usize::from(geometry.disk.0)];
                facts.is_blank = disk.is_blank();
                facts.is_failing = disk.is_failing();
                let plain = |ordinal: u16| mark_of(&statuses, ordinal) == Some(JournalMark::None);
                let wants_room = |ordinal| !(plain(ordinal) && is_alone);
                facts.wants_room = *journal_room || replaces.is_some_and(wants_room);
            }
            DeviceOrder::Drain { ordinal }
            | DeviceOrder::Resume { ordinal }
            | DeviceOrder::Remove { ordinal, .. } => {
                // One that another device leaves the journal to is needed even if the journal is not there.
                let is_plain = mark_of(&statuses, *ordinal) == Some(JournalMark::None);
                let has_place = is_plain || has_place_for_journal(&statuses, *ordinal);
                facts.journal_has_place = is_alone.then_some(has_place);
            }
        }
        facts
    }
}

fn mark_of(statuses: &[DeviceStatus], ordinal: u16) -> Option<JournalMark> {
    let mut statuses = statuses.iter();
    let device = statuses.find(|it| it.ordinal == ordinal);
    device.map(|device| device.journal)
}

/// What an order is called in the coverage.
fn point(order: &DeviceOrder, statuses: &[DeviceStatus]) -> &'static str {
    let is_absent = |ordinal: u16| {
        let mut statuses = statuses.iter();
        statuses.any(|it| it.ordinal == ordinal && it.absent.is_some())
    };
    let has_journal = |ordinal| mark_of(statuses, ordinal) == Some(JournalMark::Here);
    let is_left = |ordinal: u16| {
        let mut statuses = statuses.iter();
        statuses.any(|it| it.ordinal == ordinal && it.state != DeviceState::InUse)
    };
    match *order {
        DeviceOrder::Add {
            replaces: None,
            journal_room: true,
            ..
        } => "add with room for the journal",
        DeviceOrder::Add { replaces: None, .. } => "add",
        DeviceOrder::Add {
            replaces: Some(old),
            ..
        } if is_absent(old) => "replace an absent one",
        DeviceOrder::Add {
            replaces: Some(old),
            ..
        } if has_journal(old) => "replace the journal's",
        DeviceOrder::Add { .. } => "replace",
        DeviceOrder::Drain { ordinal } if has_journal(ordinal) => "drain the journal's",
        DeviceOrder::Drain { .. } => "drain",
        DeviceOrder::Resume { ordinal } if has_journal(ordinal) && is_left(ordinal) => {
            "call the journal's move off"
        }
        DeviceOrder::Resume { .. } => "resume",
        DeviceOrder::Remove { gives_up: true, .. } => "give up",
        DeviceOrder::Remove { ordinal, .. } if is_absent(ordinal) => "remove an absent one",
        DeviceOrder::Remove { ordinal, .. }
            if mark_of(statuses, ordinal) == Some(JournalMark::Room) =>
        {
            "remove one with room for the journal"
        }
        DeviceOrder::Remove { .. } => "remove",
    }
}

const fn reason(refused: DeviceRefused) -> &'static str {
    match refused {
        DeviceRefused::Unknown { .. } => "unknown",
        DeviceRefused::Journal => "journal",
        DeviceRefused::NoRoom { .. } => "no room",
        DeviceRefused::NotEmpty { .. } => "not empty",
        DeviceRefused::Absent => "absent",
        DeviceRefused::Lacking { .. } => "lacking",
        DeviceRefused::NotBlank { .. } => "holds something",
        DeviceRefused::InUse => "in use",
        DeviceRefused::NotFlash => "not flash",
        DeviceRefused::TooSmall { .. } => "too small",
        DeviceRefused::BadSector { .. } => "bad sector",
        DeviceRefused::TooMany => "too many",
        DeviceRefused::TooLarge => "too large",
        DeviceRefused::Failed => "failed",
        DeviceRefused::NotOpen => "not open",
        DeviceRefused::Busy => "busy",
    }
}
