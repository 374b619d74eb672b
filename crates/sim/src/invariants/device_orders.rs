//! An order about a device is answered once, and refused only for a reason that there is (decision 0019,
//! How devices come and go).

use std::collections::BTreeMap;

use holdfast_engine::{DeviceOrder, DeviceRefused};
use holdfast_model::NodeId;

use crate::failure::Failure;

/// An order, and what it is called in the coverage.
pub(crate) type Ordered = (DeviceOrder, &'static str);

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
    /// The node is without one of its devices.
    pub(crate) lacks_one: bool,
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

/// An order is refused.
pub(super) fn check(
    node: NodeId,
    order: &DeviceOrder,
    refused: DeviceRefused,
    facts: Facts,
) -> Result<(), Failure> {
    let about = match order {
        DeviceOrder::Add { replaces, .. } => *replaces,
        DeviceOrder::Drain { ordinal }
        | DeviceOrder::Resume { ordinal }
        | DeviceOrder::Remove { ordinal, .. } => Some(*ordinal),
    };
    let adds = matches!(order, DeviceOrder::Add { .. });
    let fits = match refused {
        DeviceRefused::Journal => about == Some(0),
        // It left meanwhile.
        DeviceRefused::Unknown { .. } => about.is_some(),
        DeviceRefused::NoRoom { .. } | DeviceRefused::Busy | DeviceRefused::NotOpen => true,
        DeviceRefused::NotEmpty { .. } => matches!(order, DeviceOrder::Remove { .. }),
        DeviceRefused::Absent => matches!(order, DeviceOrder::Drain { .. }) && facts.lacks_one,
        DeviceRefused::Lacking { .. } => {
            let keeps = matches!(order, DeviceOrder::Remove { gives_up, .. } if !gives_up);
            keeps && facts.lacks_one
        }
        DeviceRefused::NotBlank { .. } => adds && !facts.is_blank,
        DeviceRefused::Failed => adds && facts.is_failing,
        DeviceRefused::InUse
        | DeviceRefused::NotFlash
        | DeviceRefused::TooSmall { .. }
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
