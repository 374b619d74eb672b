//! What must hold after every step, one file each.

mod commits_agree;
mod copies;
mod device_orders;
mod late_writes;
mod one_primary;
mod records;
mod rights;
mod room;
mod settled;
mod starts;
mod volumes;

use holdfast_engine::{Engine, ReplicaView};
use holdfast_metadata::Machine;
use holdfast_metadata::machine::StoreChange;
use holdfast_model::{CommandId, Incarnation, NodeId};
use holdfast_wire::Refused;

use self::commits_agree::CommitsAgree;
use self::copies::Copies;
use self::device_orders::DeviceOrders;
pub(crate) use self::device_orders::{Facts, Ordered};
use self::one_primary::OnePrimary;
use self::rights::Rights;
use self::room::InSyncHasRoom;
use self::starts::Starts;
use self::volumes::Volumes;
use crate::catalog::Changed;
use crate::content::Value;
use crate::failure::Failure;

/// All of them, and what they remember.
#[derive(Debug, Default)]
pub(crate) struct Invariants {
    one_primary: OnePrimary,
    /// A node whose epochs are those of a copy of the metadata.
    outsider: Option<NodeId>,
    commits_agree: CommitsAgree,
    pub(crate) copies: Copies,
    device_orders: DeviceOrders,
    in_sync_has_room: InSyncHasRoom,
    pub(crate) rights: Rights,
    starts: Starts,
    volumes: Volumes,
}

impl Invariants {
    /// An engine has done something; one of its replicas is as `view` says.
    pub(crate) fn after_step(
        &mut self,
        node: NodeId,
        start: u64,
        engine: &Engine,
        view: &ReplicaView,
    ) -> Result<(), Failure> {
        if self.outsider == Some(node) {
            return Ok(());
        }
        self.one_primary.check(node, start, view)?;
        self.commits_agree.check(node, engine, view)
    }

    /// What this node does is looked at no more: it follows a copy of the metadata, and reaches nobody who could tell it.
    pub(crate) fn leave_out(&mut self, node: Option<NodeId>) {
        self.outsider = node;
    }

    /// Writes may land after their time: clocks do not do what is assumed of them.
    pub(crate) fn let_writes_be_late(&mut self) {
        self.commits_agree.late_writes.are_allowed();
    }

    /// A host was told that its write is done.
    pub(crate) fn write_done(&mut self, write: Value) {
        self.commits_agree.late_writes.done(write);
    }

    /// A host resets a unit while these writes are under way.
    pub(crate) fn reset_sent(&mut self, host: usize, writes: Vec<CommandId>) {
        self.commits_agree.settled.reset_sent(host, writes);
    }

    /// Its reset was answered.
    pub(crate) fn reset_done(&mut self, host: usize) {
        self.commits_agree.settled.reset_done(host);
    }

    /// A node has registered, and opened its store.
    pub(crate) fn opened(&mut self, node: NodeId, incarnation: Incarnation) -> Result<(), Failure> {
        if self.outsider == Some(node) {
            return Ok(());
        }
        self.starts.opened(node, incarnation)
    }

    /// A process has ended.
    pub(crate) fn process_ended(&mut self, node: NodeId) {
        self.commits_agree.process_ended(node);
        self.copies.process_ended(node);
        self.device_orders.process_ended(node);
        self.in_sync_has_room.process_ended(node);
    }

    /// Something is ordered of a node about a device. Returns the order's number.
    pub(crate) fn device_ordered(&mut self, node: NodeId, order: Ordered) -> u64 {
        self.device_orders.ordered(node, order)
    }

    /// Whether a node has orders about devices that are not answered yet.
    pub(crate) fn has_device_orders(&self, node: NodeId) -> bool {
        self.device_orders.are_under_way(node)
    }

    /// An order about a device is answered. Returns it.
    pub(crate) fn device_answered(
        &mut self,
        node: NodeId,
        number: u64,
    ) -> Result<Ordered, Failure> {
        self.device_orders.answered(node, number)
    }

    /// The metadata has changed, and these records with it.
    pub(crate) fn agreed(
        &mut self,
        machine: &Machine,
        changes: &[StoreChange],
        changed: &[Changed],
    ) -> Result<(), Failure> {
        machine.assert_invariants();
        self.volumes.check(changes)?;
        for changed in changed {
            self.in_sync_has_room.changed(changed);
        }
        changed.iter().try_for_each(records::check)
    }

    /// Another store of the metadata has taken the place of the one before.
    pub(crate) fn metadata_replaced(&mut self) {
        self.volumes.is_blind = true;
    }

    /// Scrubs of a volume begin one after the other.
    pub(crate) fn rounds_follow_each_other(&mut self) {
        self.volumes.has_rounds = true;
    }

    /// A replica says that it cannot go on, and no device of its node has failed.
    pub(crate) fn refused(&self, node: NodeId, refused: &Refused) -> Result<(), Failure> {
        self.in_sync_has_room.check(node, refused)
    }

    /// Entries that were seen committed.
    pub(crate) fn commit_count(&self) -> usize {
        self.commits_agree.count()
    }
}
