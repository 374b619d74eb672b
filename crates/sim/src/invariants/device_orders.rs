//! An order about a device is answered once, and refused only for a reason that there is; and the journal has a place
//! when it has ended (decision 0019, How devices come and go).

use std::collections::BTreeMap;

use holdfast_engine::{DeviceOrder, DeviceRefused, DeviceState, DeviceStatus, JournalMark};
use holdfast_model::NodeId;

use crate::failure::Failure;

/// An order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ordered {
    pub(crate) order: DeviceOrder,
    /// What it is called in the coverage.
    pub(crate) point: &'static str,
    /// The node was without one of its devices then. It loses none without ending, but when the answer is heard the
    /// one that was absent may have left: orders behind this one are carried out in the same turn.
    pub(crate) lacked_one: bool,
}

/// Orders under way.
#[derive(Debug, Default)]
pub(super) struct DeviceOrders {
    asked: BTreeMap<NodeId, BTreeMap<u64, Ordered>>,
    next: u64,
}

/// What is known of the device that an order is about.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Facts {
    /// Nothing was ever written on it.
    pub(crate) is_blank: bool,
    /// Its writes fail.
    pub(crate) is_failing: bool,
    /// It is to have room for the journal, or may have to.
    pub(crate) wants_room: bool,
    /// Whether the journal does not need it: it has another place, or the device no room; if that is certain.
    pub(crate) journal_has_place: Option<bool>,
}

impl DeviceOrders {
    /// Something is ordered. Returns the order's number.
    pub(super) fn ordered(&mut self, node: NodeId, order: Ordered) -> u64 {
        self.next += 1;
        self.asked.entry(node).or_default().insert(self.next, order);
        self.next
    }

    /// Whether a node has orders that are not answered yet.
    pub(super) fn are_under_way(&self, node: NodeId) -> bool {
        self.asked.get(&node).is_some_and(|asked| !asked.is_empty())
    }

    /// Nobody waits any more.
    pub(super) fn process_ended(&mut self, node: NodeId) {
        self.asked.remove(&node);
    }

    /// An order is answered. Returns it.
    pub(super) fn answered(&mut self, node: NodeId, number: u64) -> Result<Ordered, Failure> {
        let asked = self.asked.get_mut(&node);
        let order = asked.and_then(|asked| asked.remove(&number));
        order.ok_or_else(|| Failure::Invariant {
            name: "device_orders",
            what: format!("{node} answers order {number}, which nobody waits for"),
        })
    }
}

impl Ordered {
    /// It has been carried out: these are the node's devices then, and this is the number of the one that it is about.
    pub(crate) fn check_done(
        &self,
        node: NodeId,
        ordinal: u16,
        statuses: &[DeviceStatus],
        facts: Facts,
    ) -> Result<(), Failure> {
        let device = statuses.iter().find(|it| it.ordinal == ordinal);
        let order = &self.order;
        let fits = match order {
            // It may have been lost already: then nothing is said of it. One that the order behind this one drained in the
            // same turn has no room for the journal any more.
            DeviceOrder::Add { journal_room, .. } => {
                let has_room = |it: &DeviceStatus| {
                    it.journal != JournalMark::None || it.state != DeviceState::InUse
                };
                !journal_room || device.is_none_or(has_room)
            }
            // Nothing is drained that the journal cannot leave.
            DeviceOrder::Drain { .. } => device.is_none_or(|it| {
                let is_plain = it.journal != JournalMark::Here || it.state == DeviceState::InUse;
                is_plain || facts.journal_has_place != Some(false)
            }),
            DeviceOrder::Resume { .. } => true,
            DeviceOrder::Remove { .. } => device.is_none_or(|it| it.journal != JournalMark::Here),
        };
        if fits {
            return Ok(());
        }
        Err(Failure::Invariant {
            name: "device_orders",
            what: format!("{node} has done {order:?} of device {ordinal}, and has {statuses:?}"),
        })
    }

    /// It is refused.
    pub(crate) fn check_refused(
        &self,
        node: NodeId,
        refused: DeviceRefused,
        facts: Facts,
    ) -> Result<(), Failure> {
        let order = &self.order;
        let about = match order {
            DeviceOrder::Add { replaces, .. } => *replaces,
            DeviceOrder::Drain { ordinal }
            | DeviceOrder::Resume { ordinal }
            | DeviceOrder::Remove { ordinal, .. } => Some(*ordinal),
        };
        let adds = matches!(order, DeviceOrder::Add { .. });
        let fits = match refused {
            DeviceRefused::Journal => !adds && facts.journal_has_place != Some(true),
            // It left meanwhile.
            DeviceRefused::Unknown { .. } => about.is_some(),
            DeviceRefused::NoRoom { .. } | DeviceRefused::Busy | DeviceRefused::NotOpen => true,
            DeviceRefused::NotEmpty { .. } => matches!(order, DeviceOrder::Remove { .. }),
            DeviceRefused::Absent => matches!(order, DeviceOrder::Drain { .. }) && self.lacked_one,
            DeviceRefused::Lacking { .. } => {
                let keeps = matches!(order, DeviceOrder::Remove { gives_up, .. } if !gives_up);
                keeps && self.lacked_one
            }
            DeviceRefused::NotBlank { .. } => adds && !facts.is_blank,
            DeviceRefused::Failed => adds && facts.is_failing,
            DeviceRefused::TooSmall { .. } => adds && facts.wants_room,
            DeviceRefused::InUse
            | DeviceRefused::NotFlash
            | DeviceRefused::BadSector { .. }
            | DeviceRefused::TooMany
            | DeviceRefused::TooLarge => false,
        };
        if fits {
            return Ok(());
        }
        Err(Failure::Invariant {
            name: "device_orders",
            what: format!("{node} refuses {order:?}: {refused}"),
        })
    }
}
