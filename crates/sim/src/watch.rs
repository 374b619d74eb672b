//! What a cluster is seen to do, for the coverage.
//!
//! Invariant: whoever watches changes nothing: neither draws numbers nor schedules anything.

mod moves;

use std::collections::{BTreeMap, BTreeSet};

use holdfast_control::Order;
use holdfast_engine::{Notice, Rejection, ReplicaView};
use holdfast_metadata::machine::StoreChange;
use holdfast_model::record::{Membership, SliceRecord};
use holdfast_model::{NodeId, SliceId, StoreId};
use holdfast_wire::{Message, OutcomeCode, Refusal, Role as JoiningAs, SupplyOutcome};

use self::moves::{Moves, Trouble};
use crate::catalog::Changed;
use crate::cluster::{DeviceChange, Fault, VolumeOrder};
use crate::coverage::Coverage;
use crate::network::Place;

/// What a replica is seen to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Leads,
    Follows,
    Joins,
    /// The record takes it for in sync, and it has not begun: it waits for its primary, or stands.
    Stands,
    Outside,
}

impl Role {
    const fn name(self) -> &'static str {
        match self {
            Self::Leads => "leads",
            Self::Follows => "follows",
            Self::Joins => "joins",
            Self::Stands => "stands",
            Self::Outside => "outside",
        }
    }

    fn of(view: &ReplicaView, node: NodeId, store: StoreId, record: Option<&SliceRecord>) -> Self {
        if view.leads.is_some() {
            return Self::Leads;
        }
        if view.in_sync.is_some() {
            return Self::Follows;
        }
        let replica = record.and_then(|record| record.replica(node));
        match replica.filter(|replica| replica.store == store) {
            Some(replica) => match replica.membership {
                Membership::InSync => Self::Stands,
                Membership::Joining { .. } => Self::Joins,
                _ => Self::Outside,
            },
            None => Self::Outside,
        }
    }
}

/// Whoever watches.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    pub(crate) coverage: Coverage,
    roles: BTreeMap<(NodeId, SliceId), Role>,
    /// Syncs that have begun and not ended, each with the number that the primary gave it.
    syncs: BTreeSet<(SliceId, NodeId)>,
    moves: Moves,
}

impl Watch {
    /// A replica after a step of its node.
    pub(crate) fn replica(
        &mut self,
        node: NodeId,
        store: StoreId,
        view: &ReplicaView,
        record: Option<&SliceRecord>,
    ) {
        let role = Role::of(view, node, store, record);
        let before = self.roles.insert((node, view.slice), role);
        if before == Some(role) {
            return;
        }
        self.coverage.reach("role", role.name());
        if let Some(change) = before.and_then(|before| change(before, role)) {
            self.coverage.reach("role change", change);
        }
    }

    /// A process has ended: what its replicas were is no change to what they will be.
    pub(crate) fn process_ended<'a>(
        &mut self,
        node: NodeId,
        record: impl Fn(SliceId) -> Option<&'a SliceRecord>,
    ) {
        self.roles.retain(|(of, _), _| *of != node);
        let coverage = &mut self.coverage;
        self.moves.trouble(node, Trouble::Ends, record, coverage);
    }

    /// The metadata has changed.
    pub(crate) fn metadata<'a>(
        &mut self,
        changes: &[StoreChange],
        record: impl Fn(SliceId) -> Option<&'a SliceRecord>,
    ) {
        self.moves.follow(changes, record, &mut self.coverage);
    }

    /// Another store of the metadata has taken the place of the one before.
    pub(crate) fn metadata_replaced(&mut self) {
        self.moves.forget();
    }

    /// A record has changed.
    pub(crate) fn record(&mut self, changed: &Changed) {
        if let Some(before) = &changed.before
            && *before != changed.after
        {
            for point in differences(before, &changed.after) {
                self.coverage.reach("configuration", point);
            }
            self.moves
                .record(before, &changed.after, &mut self.coverage);
        }
    }

    /// An engine tells of something.
    pub(crate) fn notice(&mut self, notice: &Notice) {
        self.coverage.reach("notice", notice_name(notice));
        match notice {
            Notice::Joining { slice, node, full } => {
                let point = if *full { "full, begun" } else { "fast, begun" };
                self.coverage.reach("sync", point);
                if !self.syncs.insert((*slice, *node)) {
                    self.coverage.reach("sync", "begun again before it ended");
                }
            }
            Notice::InSync(slice, node) => {
                self.coverage.reach("sync", "ended");
                self.syncs.remove(&(*slice, *node));
            }
            _ => {}
        }
    }

    /// A message arrives.
    pub(crate) fn message(&mut self, message: &Message) {
        match message {
            Message::Refused(refused) => {
                let point = match refused.refusal {
                    Refusal::StaleEpoch => "stale epoch",
                    Refusal::NotThatReplica => "not that replica",
                    Refusal::Failed => "failed store",
                };
                self.coverage.reach("refusal", point);
            }
            Message::Forwarded(forwarded) => {
                let point = match forwarded.outcome {
                    OutcomeCode::Done => "done",
                    OutcomeCode::NotPrimary => "not primary",
                    OutcomeCode::Expired => "expired",
                    OutcomeCode::NotReady => "not ready",
                    OutcomeCode::NoSpace => "no space",
                    OutcomeCode::Busy => "busy",
                    OutcomeCode::MediumError => "medium error",
                    OutcomeCode::Deposed => "deposed",
                    OutcomeCode::Fenced => "fenced",
                    // No host of a plan that is drawn compares, or copies.
                    OutcomeCode::Miscompare { .. } | OutcomeCode::Unread(_) => return,
                };
                self.coverage.reach("forward", point);
            }
            Message::PrepareHeld(_) => self.coverage.reach("forward", "sent back without its data"),
            // A sync of an earlier epoch than the one that begins.
            Message::Begin(begin)
                if begin.role != JoiningAs::InSync && begin.sync < begin.epoch =>
            {
                self.coverage.reach("sync", "gone on where it was");
            }
            Message::Supplied(supplied) => {
                let point = match supplied.outcome {
                    SupplyOutcome::Sent { .. } => "copied by a secondary",
                    SupplyOutcome::NotSent { .. } => "not copied by a secondary",
                    SupplyOutcome::LinkLost => "secondary lost the link",
                };
                self.coverage.reach("sync", point);
            }
            _ => {}
        }
    }

    /// Something goes wrong; `done` says whether it was not held back.
    pub(crate) fn fault<'a>(
        &mut self,
        fault: &Fault,
        done: bool,
        record: impl Fn(SliceId) -> Option<&'a SliceRecord>,
    ) {
        if let Some(point) = fault_name(fault, done) {
            self.coverage.reach("fault", point);
        }
        if let Fault::Device(_, change) = fault
            && let Some(point) = device_change_name(*change, done)
        {
            self.coverage.reach("device", point);
        }
        if let Fault::Order(_, order) = fault {
            self.coverage.reach("order", order_name(*order, done));
        }
        if let Fault::Site(..) = fault {
            let point = if done { "site" } else { "site: refused" };
            self.coverage.reach("order", point);
        }
        if let Fault::Volume(order) = fault {
            let point = if done { "ordered" } else { "held back" };
            self.coverage.reach("guest", point);
            if *order == VolumeOrder::CleanUp && done {
                self.coverage.reach("guest", "clean-up ordered");
            }
        }
        if let Fault::Settings(change) = fault {
            let point = if done { change.name() } else { "held back" };
            self.coverage.reach("settings", point);
        }
        for (node, trouble) in troubles(fault, done) {
            let coverage = &mut self.coverage;
            self.moves.trouble(node, trouble, &record, coverage);
        }
    }
}

/// What a fault does to nodes that go on.
fn troubles(fault: &Fault, done: bool) -> Vec<(NodeId, Trouble)> {
    match *fault {
        Fault::Freeze { node, .. } | Fault::Standstill { node, .. } => {
            vec![(node, Trouble::Freezes)]
        }
        Fault::Cut(from, to) => [from, to]
            .into_iter()
            .filter_map(|place| match place {
                Place::Node(node) => Some((node, Trouble::Cut)),
                Place::Host(_) | Place::Metadata => None,
            })
            .collect(),
        Fault::SlowDisks(node, _) | Fault::StickDisks(node) | Fault::HangReads(node) => {
            vec![(node, Trouble::Slow)]
        }
        Fault::Wipe(node) if done => vec![(node, Trouble::Emptied)],
        _ => Vec::new(),
    }
}

const fn order_name(order: Order, done: bool) -> &'static str {
    match (order, done) {
        (Order::Add, true) => "add",
        (Order::Add, false) => "add: refused",
        (Order::Drain, true) => "drain",
        (Order::Drain, false) => "drain: refused",
        (Order::CancelDrain, true) => "cancel drain",
        (Order::CancelDrain, false) => "cancel drain: refused",
        (Order::MaintenanceOn, true) => "maintenance on",
        (Order::MaintenanceOn, false) => "maintenance on: refused",
        (Order::MaintenanceOff, true) => "maintenance off",
        (Order::MaintenanceOff, false) => "maintenance off: refused",
        (Order::Remove, true) => "remove",
        (Order::Remove, false) => "remove: refused",
    }
}

fn change(before: Role, after: Role) -> Option<&'static str> {
    use Role::{Follows, Joins, Leads, Outside, Stands};
    Some(match (before, after) {
        (Leads, Outside) => "leads > outside",
        (Leads, Stands) => "leads > stands",
        (Follows, Stands) => "follows > stands",
        (Follows, Outside) => "follows > outside",
        (Stands, Leads) => "stands > leads",
        (Stands, Follows) => "stands > follows",
        (Stands, Outside) => "stands > outside",
        (Outside, Joins) => "outside > joins",
        (Joins, Outside) => "joins > outside",
        (Joins, Stands) => "joins > stands",
        (Outside, Stands) => "outside > stands",
        // Between two looks more than one thing may have happened.
        _ => return None,
    })
}

/// What is different in a record.
fn differences(before: &SliceRecord, after: &SliceRecord) -> Vec<&'static str> {
    let mut points = Vec::new();
    let whole = |record: &SliceRecord| record.in_sync().collect::<BTreeSet<_>>();
    let joining = |record: &SliceRecord| record.joining().collect::<BTreeSet<_>>();
    let (was, is) = (whole(before), whole(after));
    let left_out = was.difference(&is).count();
    match left_out {
        0 => {}
        1 => points.push("taken out"),
        _ => points.push("several taken out"),
    }
    for node in joining(after).difference(&joining(before)) {
        let store = |record: &SliceRecord| record.replica(*node).map(|replica| replica.store);
        points.push(if store(before) == store(after) {
            "joins in its place"
        } else {
            "joins with another store"
        });
    }
    if is.difference(&was).next().is_some() {
        points.push("in sync");
    }
    if before.primary != after.primary {
        let by_itself = after.proposer.0 == after.primary;
        points.push(match (by_itself, is.contains(&before.primary)) {
            (true, true) if left_out == 0 => "takeover",
            (true, _) => "takeover, leaving somebody out",
            (false, true) => "led by another one",
            (false, false) => "led by another one, itself left out",
        });
    }
    if points.is_empty() {
        points.push("epoch alone");
    }
    points
}

const fn notice_name(notice: &Notice) -> &'static str {
    match notice {
        Notice::PeerUp(_) => "peer up",
        Notice::PeerDown(_) => "peer down",
        Notice::StoodStill { .. } => "stood still",
        Notice::Leads(..) => "leads",
        Notice::Deposed(..) => "deposed",
        Notice::Removed { slow: false, .. } => "removed, lost",
        Notice::Removed { slow: true, .. } => "removed, slow",
        Notice::HandedOver { slow: false, .. } => "handed over, preferred",
        Notice::HandedOver { slow: true, .. } => "handed over, slow",
        Notice::Joining { full: false, .. } => "joining, fast",
        Notice::Joining { full: true, .. } => "joining, full",
        Notice::InSync(..) => "in sync",
        Notice::Named(..) => "named for a copy",
        Notice::Released(..) => "released",
        Notice::Spoiled(..) => "spoiled",
        Notice::Repaired(..) => "repaired",
        Notice::Lost(..) => "lost",
        Notice::Corrected(..) => "corrected",
        Notice::Scrubbed { .. } => "scrubbed",
        Notice::JournalRotten(_) => "journal rotten",
        Notice::StoreBehind => "store behind",
        Notice::NotThatReplica(_) => "not that replica",
        Notice::MetadataBehind(..) => "metadata behind",
        Notice::NotKnownOf(..) => "not known of",
        Notice::MetadataAstray(_) => "metadata astray",
        Notice::Unreadable(_) => "unreadable document",
        Notice::MetadataFollowed => "metadata followed",
        Notice::VolumeDeleted(_) => "volume deleted",
        Notice::Rejected(Rejection::Removed { .. }) => "removed from the cluster",
        // No machine of a run is another's.
        Notice::Rejected(_) => "rejected",
        Notice::Replaced { .. } => "replaced",
        Notice::Displaced { .. } => "displaced",
        Notice::Unsaid => "unsaid that it stops",
        Notice::Stray(..) => "stray device",
        Notice::DeviceLeft(_) => "device left",
        Notice::DeviceAbsent(..) => "device absent",
        Notice::DeviceFailed(_) => "device failed",
    }
}

/// What happens to devices; orders are counted when they are answered.
const fn device_change_name(change: DeviceChange, done: bool) -> Option<&'static str> {
    Some(match (change, done) {
        (DeviceChange::Pull(_) | DeviceChange::PullJournal(_), true) => "taken out",
        (DeviceChange::PutBack, true) => "put back",
        (DeviceChange::Discard, true) => "dead",
        (DeviceChange::Discard, false) => "dead: held back",
        (DeviceChange::FailJournal, _) => "journal's fails",
        (DeviceChange::GiveUp(_), false) => "given up: held back",
        _ => return None,
    })
}

const fn fault_name(fault: &Fault, done: bool) -> Option<&'static str> {
    Some(match fault {
        Fault::Kill(_) => "kill",
        Fault::LosePower(_) => "power loss",
        Fault::Stop(_) => "stop",
        Fault::Freeze { between: false, .. } => "freeze",
        Fault::Freeze { between: true, .. } => "freeze between",
        Fault::Standstill { .. } => "standstill",
        Fault::Cut(Place::Node(_), Place::Node(_)) => "cut node to node",
        Fault::Cut(Place::Node(_), Place::Metadata) => "cut node to metadata",
        Fault::Cut(Place::Metadata, Place::Node(_)) => "cut metadata to node",
        Fault::Cut(Place::Host(_), Place::Node(_)) => "cut host to node",
        Fault::Cut(Place::Node(_), Place::Host(_)) => "cut node to host",
        Fault::Reset(..) => "reset of a link",
        Fault::Slow(_) => "slow network",
        Fault::StickDisks(_) => "stuck disks",
        Fault::HangReads(_) => "hanging reads",
        Fault::SlowDisks(..) => "slow disks",
        Fault::FailDisks(_) => "failing disks",
        Fault::LoseAnswers(_) => "lost answers",
        Fault::RollBackMetadata if done => "metadata rolled back",
        Fault::RollBackMetadata => "metadata rolled back: held back",
        Fault::EmptyMetadata => "metadata emptied",
        Fault::DamageMetadata(_) => "metadata damaged",
        Fault::RestoreMetadata if done => "metadata restored",
        Fault::Wipe(_) if done => "emptied",
        Fault::Wipe(_) => "emptied: held back",
        Fault::RollBack(_) if done => "rolled back",
        Fault::RollBack(_) => "rolled back: held back",
        Fault::RollBackJournal(_) if done => "journal rolled back",
        Fault::RollBackJournal(_) => "journal rolled back: held back",
        Fault::SwapDisks(..) if done => "swapped devices",
        Fault::PutBack(_) if done => "devices put back",
        Fault::Rot(_) | Fault::RotPages(_) | Fault::RotTable(_) if done => "rot",
        Fault::Rot(_) | Fault::RotPages(_) | Fault::RotTable(_) => "rot: held back",
        Fault::RotForGood(_) | Fault::RotPagesForGood(_) | Fault::RotTableCopy(_) => "rot",
        Fault::RotJournalInUse(_) => "journal rotten in use",
        Fault::RotJournal(_) if done => "journal rotten",
        Fault::RotJournal(_) => "journal rotten: held back",
        Fault::LoseHeader(_) if done => "lost header of a segment",
        Fault::LoseWrites(_) if done => "lost and misdirected writes",
        Fault::LoseWrites(_) => "lost and misdirected writes: held back",
        Fault::Alter(_) if done => "altered",
        Fault::Alter(_) => "altered: held back",
        Fault::Lie(_) => "lying devices",
        Fault::Grow(_) => "growth",
        Fault::Scrub => "scrub",
        Fault::Move if done => "move",
        Fault::Move => "move: held back",
        _ => return None,
    })
}
