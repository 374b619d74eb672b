//! Who belongs to the cluster, and what the operator wants of them: admit, drain, put aside, remove.
//!
//! A node that registers is not yet part of the cluster: it *waits* until it is admitted, and is given
//! nothing. So does one that registers again after it was removed. As long as nobody's part is on
//! record, all registered nodes belong to the cluster: it is new, or older than this rule. The first
//! volume, or the first command about a node, puts the parts of all on record.
//!
//! Invariants:
//! - nothing is granted that would take the last good copy of a slice, or stop its writes; every
//!   refusal names the volumes;
//! - a node is removed only when nothing is, or is to be, on it.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use holdfast_model::metadata::{Compare, Operation, Selector, Transaction};
use holdfast_model::record::{DrainRecord, IntentRecord, NodeStanding, SliceRecord};
use holdfast_model::{NodeId, SliceId};
use holdfast_stdx::{Count, Duration};

use crate::Inventory;
use crate::placement::is_tight;
use crate::writing::{absent, as_found, put, still_is};

use self::checks::{check_drain, check_maintenance, check_remove};

mod checks;
mod removal;

/// Letters in a site's name at most; it stands in tables.
pub const SITE_LENGTH_MAX: usize = 63;

/// What the nodes say, as far as plans need it.
#[derive(Clone, Debug, Default)]
pub struct Sight {
    /// By node. One that is not there has never been heard.
    pub nodes: BTreeMap<NodeId, Seen>,
    /// Slices of which some replica has blocks that are known to be bad.
    pub bad: BTreeSet<SliceId>,
    /// Replicas that were [given up](crate::note_given_up) for dead, and may have come back.
    pub given_up: BTreeSet<(SliceId, NodeId)>,
    /// Bytes that a good copy of a slice takes on its node, of those slices of which one is heard.
    pub used: BTreeMap<SliceId, u64>,
    /// Slices whose primary serves them, and says that nothing is in them.
    pub empty: BTreeSet<SliceId>,
    /// Replicas that are not in sync, and say that they find no room on their node.
    pub lacks_room: BTreeSet<(SliceId, NodeId)>,
    /// What hosts have replicas do in a second, as [`Seen::work`].
    pub work: BTreeMap<(SliceId, NodeId), u64>,
    /// For how long nothing has moved, and nobody has been silent or started anew: what is said of work tells of
    /// the places where slices are, if it has been told for so long.
    pub unchanged: Duration,
}

/// One part in so many of a node's room is left to hosts when a copy is planned for it: while it is made
/// they write.
const MARGIN_SHARE: u64 = 64;

/// What a node says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// For how long it has said nothing, or its devices have not been open; zero if it is up.
    pub silent: Duration,
    /// The room on its devices, as last heard.
    pub bytes: u64,
    /// How much of it is free.
    pub free_bytes: u64,
    /// What hosts have its replicas do in a second, as a mean over some minutes: each read and each write that one
    /// takes part in counts, and each 64 KiB of them as much again.
    pub work: u64,
}

impl Seen {
    /// A node that is up and idle.
    pub(crate) fn with_room(bytes: u64, free_bytes: u64) -> Self {
        Self {
            bytes,
            free_bytes,
            ..Self::default()
        }
    }

    /// The bytes that copies may take: what is free, but for a margin.
    #[must_use]
    pub const fn spare_bytes(&self) -> u64 {
        self.free_bytes.saturating_sub(self.bytes / MARGIN_SHARE)
    }

    /// Whether so little is free that a node is given nothing while others have more.
    #[must_use]
    pub const fn is_tight(&self) -> bool {
        is_tight(self.bytes, self.free_bytes)
    }
}

impl Sight {
    /// Whether a node answers, with open devices.
    #[must_use]
    pub fn is_up(&self, node: NodeId) -> bool {
        let seen = self.nodes.get(&node);
        seen.is_some_and(|seen| seen.silent.is_zero())
    }

    /// What a copy of a slice takes, as far as that is known.
    pub(crate) fn used(&self, slice: SliceId) -> u64 {
        self.used.get(&slice).copied().unwrap_or(0)
    }

    /// The bytes of a node that copies may take: what is free, but for a margin.
    pub(crate) fn spare(&self, node: NodeId) -> u64 {
        let seen = self.nodes.get(&node).copied().unwrap_or_default();
        seen.spare_bytes()
    }

    /// For how long a node has been silent; for ever if it was never heard.
    #[must_use]
    pub fn silent(&self, node: NodeId) -> Duration {
        self.nodes
            .get(&node)
            .map_or(Duration::MAX, |seen| seen.silent)
    }
}

/// What a node is to the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// It has registered, and nobody has admitted it.
    Waiting,
    /// It was admitted.
    Of(NodeStanding),
}

impl Inventory {
    /// What a node is to the cluster.
    #[must_use]
    pub fn part_of(&self, node: NodeId) -> Part {
        match self.intents.get(&node) {
            // Its record went when it was removed: it, or another machine of that number, is back.
            Some(intent)
                if intent.record.standing == NodeStanding::Removed
                    && self.nodes.contains_key(&node) =>
            {
                Part::Waiting
            }
            Some(intent) => Part::Of(intent.record.standing),
            None if self.intents.is_empty() => Part::Of(NodeStanding::Active),
            None => Part::Waiting,
        }
    }

    /// Whether a node may be given something.
    #[must_use]
    pub fn is_active(&self, node: NodeId) -> bool {
        self.nodes.contains_key(&node) && self.part_of(node) == Part::Of(NodeStanding::Active)
    }

    /// Where a node stands.
    #[must_use]
    pub fn site_of(&self, node: NodeId) -> Option<&str> {
        self.intents.get(&node)?.record.site.as_deref()
    }

    /// The failure domain that a node says it is in; none for one of its own.
    #[must_use]
    pub fn domain_of(&self, node: NodeId) -> Option<&str> {
        Some(self.domains.get(&node)?.domain.as_str())
    }

    /// The slices of volumes that a node holds replicas of.
    pub fn slices_on(&self, node: NodeId) -> impl Iterator<Item = &SliceRecord> {
        let slices = self.slices.values();
        slices.filter(move |slice| {
            self.volumes.contains_key(&slice.slice.volume) && slice.replica(node).is_some()
        })
    }

    /// The slices that are on a node, or are to be there, those of unfinished volumes among them: it is not removed then.
    #[must_use]
    pub fn held_by(&self, node: NodeId) -> BTreeSet<SliceId> {
        let held = self.slices.values();
        let held = held.filter(|slice| slice.replica(node).is_some());
        let wished = self.wishes.values().filter(|wish| {
            wish.record.nodes.contains(&node) && self.slices.contains_key(&wish.record.slice)
        });
        let wished = wished.map(|wish| wish.record.slice);
        held.map(|slice| slice.slice).chain(wished).collect()
    }

    fn volume_name(&self, slice: SliceId) -> String {
        let volume = self.volumes.get(&slice.volume);
        volume.map_or_else(|| slice.volume.to_string(), |it| it.record.name.clone())
    }
}

/// What an operator wants of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// It is to be part of the cluster.
    Add,
    /// Everything on it is to move away.
    Drain,
    /// What is on it may stay after all.
    CancelDrain,
    /// It is about to be worked on.
    MaintenanceOn,
    /// It is back.
    MaintenanceOff,
    /// It is no part of the cluster any more.
    Remove,
}

/// Why an order is not obeyed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// There is no node of that name.
    NoSuchNode,
    /// It has not been admitted.
    Waiting,
    /// It is not what the order supposes.
    NotSo(&'static str),
    /// These volumes would have no good copy that answers, or too few for writes.
    LastCopies(Vec<String>),
    /// These volumes need more nodes than would be left.
    TooFewNodes(Vec<String>),
    /// Copies of these volumes would have to share a failure domain.
    TooFewDomains(Vec<String>),
    /// The others have too little room.
    NoRoom {
        /// What is on the node.
        needed: u64,
        /// What is free on the others.
        free: u64,
    },
    /// There is room on the others, but not on any of them for one of the slices.
    NoRoomFor {
        /// Of this volume.
        volume: String,
        /// What it takes.
        bytes: u64,
        /// The most that is left for it on another node that does not hold it, once the others have moved.
        left: u64,
    },
    /// It still holds replicas of these volumes, or is to hold some.
    Holds {
        /// How many.
        slices: usize,
        /// Of which.
        volumes: Vec<String>,
    },
    /// A site's name is not one.
    Site,
}

impl fmt::Display for Refusal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSuchNode => formatter.write_str("there is no such node"),
            Self::Waiting => formatter.write_str("the node has not been admitted"),
            Self::NotSo(what) => formatter.write_str(what),
            Self::LastCopies(volumes) => write!(
                formatter,
                "without the node, no other good copy, or too few for writes, would be up of slices of \
                 volumes {}",
                Names(volumes)
            ),
            Self::TooFewNodes(volumes) => write!(
                formatter,
                "the other active nodes that are up are too few for volumes {}",
                Names(volumes)
            ),
            Self::TooFewDomains(volumes) => write!(
                formatter,
                "the other active nodes that are up are in too few failure domains for volumes {}",
                Names(volumes)
            ),
            Self::NoRoom { needed, free } => write!(
                formatter,
                "the node holds {needed} bytes, and {free} bytes are free on the other active nodes"
            ),
            Self::NoRoomFor {
                volume,
                bytes,
                left,
            } => write!(
                formatter,
                "a slice of volume {volume} takes {bytes} bytes, and no more than {left} are left for it on any \
                 other active node that has no copy of it, nor shares a failure domain with one, beside what is on its way \
                 there, or has to leave other nodes: one part in {MARGIN_SHARE} of a node is left to hosts"
            ),
            Self::Holds { slices, volumes } => write!(
                formatter,
                "the node holds, or is to hold, {}, of {} {}",
                Count::of(*slices, "replica"),
                Count::of(volumes.len(), "volume").choose("volume", "volumes"),
                Names(volumes)
            ),
            Self::Site => write!(
                formatter,
                "a site has 1 to {SITE_LENGTH_MAX} letters, digits, '-' and '.'"
            ),
        }
    }
}

/// How many names are told; there may be a thousand.
const NAMES_MAX: usize = 8;

struct Names<'a>(&'a [String]);

impl fmt::Display for Names<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, name) in self.0.iter().take(NAMES_MAX).enumerate() {
            let comma = if place > 0 { ", " } else { "" };
            write!(formatter, "{comma}{name}")?;
        }
        match self.0.len().checked_sub(NAMES_MAX) {
            Some(more) if more > 0 => write!(formatter, " and {more} more"),
            _ => Ok(()),
        }
    }
}

/// Plans an order about a node, and where it stands. There is nothing to do if it is so already.
///
/// # Errors
/// [`Refusal`] with the reason.
pub fn order(
    inventory: &Inventory,
    sight: &Sight,
    node: NodeId,
    order: Order,
    site: Option<&str>,
) -> Result<Option<Transaction>, Refusal> {
    use NodeStanding::{Active, Draining, Maintenance, Removed};
    let part = inventory.part_of(node);
    if !inventory.nodes.contains_key(&node) {
        return Err(Refusal::NoSuchNode);
    }
    if site.is_some_and(|site| !is_site(site)) {
        return Err(Refusal::Site);
    }
    if part == Part::Waiting && !matches!(order, Order::Add | Order::Remove) {
        return Err(Refusal::Waiting);
    }
    let standing = match (order, part) {
        (Order::Add, Part::Of(standing @ (Active | Maintenance | Draining))) => standing,
        (Order::Add, _) => Active,
        (Order::Drain, _) => {
            check_drain(inventory, sight, node)?;
            Draining
        }
        (Order::CancelDrain, Part::Of(Draining | Active)) => Active,
        (Order::CancelDrain, _) => return Err(Refusal::NotSo("the node is not being drained")),
        (Order::MaintenanceOn, Part::Of(Draining)) => {
            let why = "the node is being drained; cancel that first";
            return Err(Refusal::NotSo(why));
        }
        (Order::MaintenanceOn, _) => {
            check_maintenance(inventory, sight, node)?;
            Maintenance
        }
        (Order::MaintenanceOff, Part::Of(Maintenance | Active)) => Active,
        (Order::MaintenanceOff, _) => return Err(Refusal::NotSo("the node is not in maintenance")),
        (Order::Remove, _) => {
            check_remove(inventory, node)?;
            Removed
        }
    };
    let site = site.map_or_else(
        || inventory.site_of(node).map(Into::into),
        |it| Some(it.into()),
    );
    let record = IntentRecord {
        schema: 1,
        node,
        standing,
        site,
    };
    let mut planned = put_intent(inventory, &record);
    if let Some(transaction) = &mut planned {
        transaction
            .success
            .extend(note_drain(inventory, sight, &record));
    }
    Ok(planned)
}

/// With how much a drain begins is on record as long as it goes on, if it is known of all that is there. A node that is removed leaves
/// nothing anyway.
fn note_drain(inventory: &Inventory, sight: &Sight, wanted: &IntentRecord) -> Option<Operation> {
    let node = wanted.node;
    let key = DrainRecord::key(node);
    let is_known = inventory.drains.contains_key(&node);
    match wanted.standing {
        NodeStanding::Draining => {
            let known = |slice: &SliceRecord| sight.used.get(&slice.slice).copied();
            let mut held = inventory.slices_on(node).map(known);
            let bytes = held.try_fold(0_u64, |sum, bytes| Some(sum.saturating_add(bytes?)));
            let bytes = bytes.filter(|_| !is_draining(inventory, node))?;
            let record = DrainRecord {
                schema: 1,
                node,
                bytes,
            };
            Some(put(key, &record))
        }
        NodeStanding::Removed => None,
        NodeStanding::Active | NodeStanding::Maintenance => {
            is_known.then_some(Operation::Delete(Selector::Key(key)))
        }
    }
}

fn is_draining(inventory: &Inventory, node: NodeId) -> bool {
    inventory.part_of(node) == Part::Of(NodeStanding::Draining)
}

fn is_site(site: &str) -> bool {
    let good = |letter: char| letter.is_ascii_alphanumeric() || "-.".contains(letter);
    (1..=SITE_LENGTH_MAX).contains(&site.len()) && site.chars().all(good)
}

fn put_intent(inventory: &Inventory, record: &IntentRecord) -> Option<Transaction> {
    let node = record.node;
    let known = inventory.intents.get(&node);
    // A node that has a record although it was removed has registered again: that record is to go.
    let removed = record.standing == NodeStanding::Removed;
    if !removed && known.is_some_and(|known| known.record == *record) {
        return None;
    }
    let mut transaction = on_record(inventory, |other| other != node);
    let key = IntentRecord::key(node);
    transaction.compare.push(as_found(key.clone(), known));
    if record.standing != NodeStanding::Active {
        transaction
            .compare
            .extend(others_unchanged(inventory, node));
    }
    transaction.success.push(put(key, record));
    if removed {
        removal::forget(inventory, &inventory.nodes[&node], &mut transaction);
    }
    Some(transaction)
}

/// What an order takes away is weighed against what those about other nodes have taken, and two that are
/// given at the same time would not see each other. Where they are written as they were, for a volume that is
/// made, nothing has changed.
fn others_unchanged(inventory: &Inventory, node: NodeId) -> impl Iterator<Item = Compare> {
    let others = inventory.intents.iter().filter(move |(other, intent)| {
        **other != node && intent.record.standing != NodeStanding::Removed
    });
    others.map(|(other, intent)| still_is(IntentRecord::key(*other), &intent.record))
}

/// Puts the parts of all nodes on record if there are volumes and no part is: the cluster is older than
/// the rule that nodes are admitted.
#[must_use]
pub fn admit_all(inventory: &Inventory) -> Option<Transaction> {
    let transaction = on_record(inventory, |_| !inventory.volumes.is_empty());
    (!transaction.success.is_empty()).then_some(transaction)
}

/// Puts the parts of all nodes on record, of those that are `wanted`, if no part is.
pub(crate) fn on_record(inventory: &Inventory, wanted: impl Fn(NodeId) -> bool) -> Transaction {
    let mut transaction = Transaction::default();
    let is_new = inventory.intents.is_empty();
    let nodes = inventory
        .nodes
        .keys()
        .filter(|node| is_new && wanted(**node));
    for node in nodes {
        let key = IntentRecord::key(*node);
        transaction.compare.push(absent(key.clone()));
        transaction
            .success
            .push(put(key, &IntentRecord::active(*node)));
    }
    transaction
}

#[cfg(test)]
mod tests;
