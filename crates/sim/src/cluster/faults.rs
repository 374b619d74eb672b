//! What goes wrong, and how it ends.

use holdfast_control::Order;
use holdfast_engine::Event;
use holdfast_model::NodeId;
use holdfast_stdx::{Duration, Prng};

use super::node::{Freeze, ProcessId};
use super::{Cluster, DeviceChange, Happening, SettingsChange, VolumeOrder};
use crate::failure::Failure;
use crate::network::Place;

/// Which documents of the metadata somebody deletes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damage {
    /// All.
    Everything,
    /// Those of volumes.
    Volumes,
    /// Those of slices.
    Slices,
    /// Those of nodes.
    Nodes,
}

/// Something goes wrong, or right again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A node's process is killed: nothing that was written is lost.
    Kill(NodeId),
    /// A node loses power: what was not on stable storage may be lost.
    LosePower(NodeId),
    /// A node's process starts.
    Start(NodeId),
    /// The operator stops a node.
    Stop(NodeId),
    /// A node's process stands still while its clock runs on; perhaps between deciding and doing.
    Freeze {
        /// Which.
        node: NodeId,
        /// For how long.
        span: Duration,
        /// It has decided what to do, and not done it.
        between: bool,
    },
    /// A node's machine stands still, and its clock with it.
    Standstill {
        /// Which.
        node: NodeId,
        /// For how long.
        span: Duration,
    },
    /// A way is cut, in one direction.
    Cut(Place, Place),
    /// It is passable again.
    Mend(Place, Place),
    /// What connects the first node to the second is reset, as the first one sees it; the second
    /// hears of it if the way passes.
    Reset(NodeId, NodeId),
    /// Messages may take as much longer as this; zero: they do not.
    Slow(Duration),
    /// A node's devices answer nothing until they come unstuck, or its process ends.
    StickDisks(NodeId),
    /// A node's devices end no read until they come unstuck, or its process ends. All else they do.
    HangReads(NodeId),
    /// They answer again.
    UnstickDisks(NodeId),
    /// A node's devices may take so much longer for each request, until its process ends.
    SlowDisks(NodeId, Duration),
    /// A node's devices fail: writes and flushes end in errors. Those without the journal do if others have
    /// what is on them.
    FailDisks(NodeId),
    /// One answer of the metadata in so many is lost; zero: none is.
    LoseAnswers(u64),
    /// Somebody makes a backup of the metadata; the first is made before there is a volume.
    SaveMetadata,
    /// The metadata is as it was at the last backup.
    RollBackMetadata,
    /// The metadata is empty.
    EmptyMetadata,
    /// Somebody deletes documents of the metadata while it is in use.
    DamageMetadata(Damage),
    /// The metadata is as it was before it was rolled back, emptied, or damaged.
    RestoreMetadata,
    /// A node finds a copy of the metadata in its place, which goes on by itself: the one that others have found, if any has.
    ForkMetadata(NodeId),
    /// All of them find the right one again.
    JoinMetadata,
    /// An operator says that a node takes its own place at its next start: what it holds counts for nothing.
    TakeOver(NodeId),
    /// A node, which is off, has new, empty devices; unless it holds the only good copy of a slice.
    Wipe(NodeId),
    /// Somebody copies a node's devices.
    CopyDisks(NodeId),
    /// A node, which is off, has its devices back as they were copied in an earlier start, with the
    /// same exception.
    RollBack(NodeId),
    /// The same for the device that its journal is on, if it has another one.
    RollBackJournal(NodeId),
    /// The devices with the journals of two nodes, which are off, are each in the other's place.
    SwapDisks(NodeId, NodeId),
    /// A node that was given wrong devices, and has not taken them for its own, is ended if it runs,
    /// and has its own again.
    PutBack(NodeId),
    /// A node's devices say from now on that something is on stable storage when it may not be.
    Lie(NodeId),
    /// A volume grows by a slice.
    Grow(usize),
    /// The operator has all volumes scrubbed, however far the last scrub is.
    Scrub,
    /// The operator orders something of a node.
    Order(NodeId, Order),
    /// The operator says in which of a few sites a node stands.
    Site(NodeId, u8),
    /// The operator changes one of the cluster's settings.
    Settings(SettingsChange),
    /// A replica of some slice is wanted elsewhere, or another one is to lead.
    Move,
    /// The operator wants a volume made or deleted.
    Volume(VolumeOrder),
    /// Some sectors of a node's devices change on their own, with the same exception.
    Rot(NodeId),
    /// Some sectors of pages do, and of nothing else, with the same exception.
    RotPages(NodeId),
    /// Both copies of some entries of the table do, and the pages are lost, with the same exception.
    RotTable(NodeId),
    /// The second copy of some entries of the table does; nothing is lost by that.
    RotTableCopy(NodeId),
    /// Everything does that the journal of a node, which is off, holds, with the same exception.
    RotJournal(NodeId),
    /// The write of the header of one segment of the journal of a node, which is off, was never done: it is the
    /// one of an earlier use, or there is none. Nothing is lost by that.
    LoseHeader(NodeId),
    /// Everything that the journal holds rots while it is in use: nothing is lost as long as the node runs.
    RotJournalInUse(NodeId),
    /// The same as [`Fault::Rot`] without exception: what only this node holds is lost.
    RotForGood(NodeId),
    /// The same as [`Fault::RotPages`] without exception.
    RotPagesForGood(NodeId),
    /// Some writes to pages on a node's devices were never done, or done elsewhere, with the same
    /// exception.
    LoseWrites(NodeId),
    /// Blocks of pages on the devices of a node, which is off, hold something else, and all checksums
    /// are right for it: what memory that went bad before a checksum was taken leaves behind.
    Alter(NodeId),
    /// Devices of a node come and go.
    Device(NodeId, DeviceChange),
}

impl Fault {
    /// Whether devices lose something that they should hold, or bring something old back.
    pub(crate) const fn loses_data(&self) -> bool {
        matches!(
            self,
            Self::Wipe(_)
                | Self::RollBack(_)
                | Self::RollBackJournal(_)
                | Self::SwapDisks(..)
                | Self::Lie(_)
                | Self::Rot(_)
                | Self::RotPages(_)
                | Self::RotTable(_)
                | Self::RotJournal(_)
                | Self::RotForGood(_)
                | Self::RotPagesForGood(_)
                | Self::LoseWrites(_)
                | Self::Alter(_)
                | Self::Device(_, DeviceChange::Pull(_) | DeviceChange::Fail(_))
        )
    }
}

impl Cluster {
    /// Lets something go wrong, or right again, later.
    pub fn plan_fault(&mut self, after: Duration, fault: Fault) {
        self.schedule(after, Happening::Fault(fault));
    }

    pub(super) fn fault(&mut self, fault: Fault) -> Result<(), Failure> {
        self.trace
            .line(self.now, &"!   ", format_args!("{fault:?}"));
        let (mut done, mut result) = (true, Ok(()));
        match fault {
            Fault::Kill(node) => self.kill(node),
            Fault::LosePower(node) => self.lose_power(node),
            Fault::Start(node) => result = self.start(node),
            Fault::Stop(node) => result = self.stop(node),
            Fault::Freeze {
                node,
                span,
                between,
            } => self.freeze(node, span, between),
            Fault::Standstill { node, span } => self.stand_still(node, span),
            Fault::Cut(from, to) => self.cut(from, to),
            Fault::Mend(from, to) => self.mend(from, to),
            Fault::Reset(node, peer) => result = self.reset_link(node, peer),
            Fault::Slow(slowness) => self.network.slowness = slowness,
            Fault::LoseAnswers(one_in) => self.agreement.lost_one_in = one_in,
            Fault::SaveMetadata => self.agreement.save(),
            Fault::TakeOver(node) => self.node(node).takes_over = true,
            Fault::Grow(volume) => result = self.grow(volume),
            Fault::PutBack(node) => done = self.put_back(node),
            Fault::Order(node, order) => done = self.order(node, order),
            Fault::Site(node, site) => done = self.tell_site(node, site),
            Fault::Settings(change) => done = self.change_settings(change),
            Fault::Move => done = self.move_slice(),
            Fault::Scrub
            | Fault::Volume(_)
            | Fault::Device(..)
            | Fault::RollBackMetadata
            | Fault::EmptyMetadata
            | Fault::DamageMetadata(_)
            | Fault::ForkMetadata(_)
            | Fault::JoinMetadata
            | Fault::RestoreMetadata => match self.held_back_or_done(fault) {
                Ok(it) => done = it,
                Err(failure) => result = Err(failure),
            },
            Fault::StickDisks(node)
            | Fault::HangReads(node)
            | Fault::UnstickDisks(node)
            | Fault::SlowDisks(node, _)
            | Fault::FailDisks(node)
            | Fault::Wipe(node)
            | Fault::CopyDisks(node)
            | Fault::RollBack(node)
            | Fault::RollBackJournal(node)
            | Fault::SwapDisks(node, _)
            | Fault::Lie(node)
            | Fault::Rot(node)
            | Fault::RotPages(node)
            | Fault::RotTable(node)
            | Fault::RotTableCopy(node)
            | Fault::RotJournal(node)
            | Fault::LoseHeader(node)
            | Fault::RotJournalInUse(node)
            | Fault::RotForGood(node)
            | Fault::RotPagesForGood(node)
            | Fault::LoseWrites(node)
            | Fault::Alter(node) => done = self.device_fault(node, fault),
        }
        let agreement = &self.agreement;
        self.watch
            .fault(&fault, done, |slice| agreement.slice(slice));
        result
    }

    /// What changes the metadata at once, or devices in use, may be held back, and may break something.
    fn held_back_or_done(&mut self, fault: Fault) -> Result<bool, Failure> {
        match fault {
            Fault::Scrub => self.order_scrub(),
            Fault::Volume(order) => self.order_volume(order),
            Fault::Device(node, change) => self.device_change(node, change),
            Fault::DamageMetadata(damage) => self.damage_metadata(damage).map(|()| true),
            Fault::ForkMetadata(node) => self.fork_metadata(node).map(|()| true),
            Fault::JoinMetadata => self.join_metadata(),
            _ => self.metadata_fault(fault),
        }
    }

    pub(super) fn kill(&mut self, node: NodeId) {
        self.heal(node);
        let process = self.node(node).process.take();
        self.node(node).disks_bad = false;
        for disk in &mut self.node(node).disks {
            disk.kill();
        }
        if let Some(process) = process {
            self.bury(process.id, true);
        }
    }

    fn lose_power(&mut self, node: NodeId) {
        self.heal(node);
        let process = self.node(node).process.take();
        self.node(node).disks_bad = false;
        for disk in &mut self.node(node).disks {
            disk.crash();
        }
        if let Some(process) = process {
            self.bury(process.id, false);
        }
    }

    /// A process has ended by itself.
    pub(super) fn end_process(&mut self, process: ProcessId) {
        if self.running(process).is_some() {
            self.kill(process.node);
        }
    }

    fn bury(&mut self, process: ProcessId, kernel_lives: bool) {
        self.node(process.node).bays.close();
        self.links_of_dead(process, kernel_lives);
        self.connections_of_dead(process, kernel_lives);
        self.metadata_of_dead(process);
        self.invariants.process_ended(process.node);
        let agreement = &self.agreement;
        self.watch
            .process_ended(process.node, |slice| agreement.slice(slice));
    }

    fn stop(&mut self, node: NodeId) -> Result<(), Failure> {
        let Some(process) = &mut self.node(node).process else {
            return Ok(());
        };
        process.stopping = true;
        let process = process.id;
        self.tell(process, Event::Stop)
    }

    fn freeze(&mut self, node: NodeId, span: Duration, between: bool) {
        let until = self.now + span;
        let Some(process) = &mut self.node(node).process else {
            return;
        };
        if !matches!(process.freeze, Freeze::No) {
            return;
        }
        let id = process.id;
        if between {
            process.freeze = Freeze::Coming { until };
        } else {
            process.freeze = Freeze::Frozen {
                held: Vec::new(),
                inputs: Default::default(),
                clock_stands_since: None,
            };
            self.schedule.at(until, Happening::Thaw(id));
        }
    }

    fn stand_still(&mut self, node: NodeId, span: Duration) {
        let now = self.now;
        let Some(process) = &mut self.node(node).process else {
            return;
        };
        if !matches!(process.freeze, Freeze::No) {
            return;
        }
        process.freeze = Freeze::Frozen {
            held: Vec::new(),
            inputs: Default::default(),
            clock_stands_since: Some(now),
        };
        let id = process.id;
        self.schedule.at(now + span, Happening::Thaw(id));
    }

    /// A frozen process goes on: it does what it was about to do, and hears what came meanwhile, in
    /// whatever order its driver comes across it.
    pub(super) fn thaw(&mut self, process: ProcessId) -> Result<(), Failure> {
        let Some(running) = self.running(process) else {
            return Ok(());
        };
        let freeze = std::mem::replace(&mut running.freeze, Freeze::No);
        let Freeze::Frozen {
            held,
            inputs,
            clock_stands_since,
        } = freeze
        else {
            running.freeze = freeze;
            return Ok(());
        };
        if let Some(since) = clock_stands_since {
            let stood = self.now.since(since);
            self.node(process.node).clock.stand(stood);
        }
        self.line(Place::Node(process.node), format_args!("goes on"));
        self.carry_out(process, held)?;
        for event in shuffled(inputs.into(), &mut self.prng) {
            self.tell(process, event)?;
        }
        self.set_timers(process);
        self.connections_of_thawed(process)
    }

    fn cut(&mut self, from: Place, to: Place) {
        self.network.cut(self.now, from, to);
        match (from, to) {
            (Place::Node(one), Place::Node(other)) => self.way_cut(one, other),
            (Place::Node(node), Place::Metadata) | (Place::Metadata, Place::Node(node)) => {
                let process = self.node(node).process.as_ref();
                if let Some(process) = process.map(|process| process.id) {
                    self.soon_lost(process);
                }
            }
            _ => {}
        }
    }

    fn mend(&mut self, from: Place, to: Place) {
        if !self.network.mend(from, to) {
            return;
        }
        match (from, to) {
            (Place::Node(one), Place::Node(other)) => self.way_mended(one, other),
            (Place::Host(host), Place::Node(node)) | (Place::Node(node), Place::Host(host)) => {
                self.host_way_mended(usize::from(host), node);
            }
            _ => {}
        }
    }
}

/// The inputs of a process that stood still: those of one kind keep their order.
fn shuffled(inputs: Vec<Event>, prng: &mut Prng) -> Vec<Event> {
    if prng.chance(1, 2) {
        return inputs;
    }
    let kind = |event: &Event| match event {
        Event::Disk(_) => 0,
        Event::Metadata { .. } => 1,
        Event::Peer(_) => 2,
        Event::Portal(_) => 3,
        Event::Order { .. } | Event::Stop => 4,
    };
    let mut order = [0, 1, 2, 3, 4];
    prng.shuffle(&mut order);
    let mut inputs = inputs;
    inputs.sort_by_key(|event| order[kind(event)]);
    inputs
}
