//! What engines want done, done.

use holdfast_engine::{Command, Notice, OpenFailure, PeerCommand};
use holdfast_model::{DiskId, NodeId};
use holdfast_stdx::{Duration, Instant};

use super::node::{Misplaced, ProcessId};
use super::{Cluster, Happening, SeenStall, summary};
use crate::disk::SimDisk;
use crate::failure::Failure;
use crate::network::Place;

impl Cluster {
    /// Does what an engine wants done, in its order.
    pub(super) fn carry_out(
        &mut self,
        process: ProcessId,
        commands: Vec<Command>,
    ) -> Result<(), Failure> {
        for command in commands {
            if !matches!(command, Command::Disk(_)) {
                let said = summary::command(&command);
                self.line(Place::Node(process.node), format_args!("> {said}"));
            }
            match command {
                Command::Disk(request) => {
                    let now = self.now;
                    let place = usize::from(request.disk.0);
                    let node = self.node(process.node);
                    if !node.bays.is_open(request.disk) {
                        return Err(let_go(process.node, request.disk));
                    }
                    node.disks[place].submit(now, request);
                }
                Command::Metadata { token, request } => self.ask_metadata(process, token, request),
                Command::Peer(command) => self.peer_command(process, command)?,
                Command::Portal(command) => self.portal_command(process, command),
                Command::Registered => {}
                Command::Opened { store, incarnation } => {
                    self.opened(process, store, incarnation)?;
                }
                Command::OpenFailed(failure) => self.open_failed(process, failure)?,
                Command::Notice(notice) => {
                    self.tally.count(&notice);
                    self.watch.notice(&notice);
                    if let Notice::DeviceAbsent(..) = notice {
                        self.node(process.node).is_touched = true;
                    }
                }
                Command::Stalled(stall) => self.stalls.push(SeenStall {
                    node: process.node,
                    told: self.now,
                    stall,
                }),
                Command::Ordered { number, result } => {
                    self.device_ordered(process, number, result)?;
                }
                Command::Release(disk) => {
                    self.check_released(process.node, disk)?;
                    self.node(process.node).bays.set_open(disk, false);
                }
                Command::DeviceLost(disk) => self.device_lost(process, disk),
                // The daemon ends, and is started again by somebody.
                Command::Unusable(_) => self.end_process(process),
                // A node has one process here.
                Command::Displaced => return Err(Failure::Displaced(process.node)),
                Command::Stopped => self.stopped(process),
            }
        }
        // It takes no time to do all of that.
        let now = self.shown(process.node);
        if let Some(running) = self.running(process) {
            running.engine.handle_flushed(now);
        }
        Ok(())
    }

    /// What a node's clock shows.
    pub(super) fn shown(&self, node: NodeId) -> Instant {
        self.nodes[&node].clock.shows(self.now)
    }

    /// The daemon ends, and its node has to be looked after.
    fn open_failed(&mut self, process: ProcessId, failure: OpenFailure) -> Result<(), Failure> {
        let is_without_device = self.is_without_device(process.node, &failure)
            || self.erase_later_device(process.node, &failure);
        let node = self.node(process.node);
        let lies = node.disks.iter().any(SimDisk::is_lying);
        // What was left of making it is nothing that anybody has used.
        let is_half_made = !node.is_made && node.starts_of_disks > 1;
        let is_expected = node.disks_bad || node.aside.is_some() || is_without_device;
        if !is_expected && !lies && !is_half_made {
            return Err(Failure::OpenFailed(process.node, failure));
        }
        self.watch.coverage.reach("opening", "refused");
        self.end_process(process);
        if lies {
            self.replace_liars(process.node);
        } else if is_half_made {
            self.node(process.node).replace_disks();
            self.start_soon(process.node);
        }
        Ok(())
    }

    fn opened(
        &mut self,
        process: ProcessId,
        store: holdfast_model::StoreId,
        incarnation: holdfast_model::Incarnation,
    ) -> Result<(), Failure> {
        let aside = self.node(process.node).aside.take();
        match aside.map(|it| it.misplaced) {
            Some(Misplaced::Foreign) => return Err(Failure::OpenedForeign(process.node)),
            Some(Misplaced::Old) => self.node(process.node).is_forked = true,
            None => (),
        }
        self.invariants.opened(process.node, incarnation)?;
        self.node(process.node).known_start = process.start;
        self.node(process.node).is_made = true;
        self.look_at_devices(process.node);
        self.journal_opened(process.node);
        let Some(running) = self.running(process) else {
            return Ok(());
        };
        running.identity = Some((store, incarnation));
        for peer in running.peers.clone() {
            self.schedule(Duration::ZERO, Happening::Dial(process, peer));
        }
        Ok(())
    }

    fn peer_command(&mut self, process: ProcessId, command: PeerCommand) -> Result<(), Failure> {
        match command {
            PeerCommand::Connect { peer, .. } => {
                let Some(running) = self.running(process) else {
                    return Ok(());
                };
                if running.peers.insert(peer) && running.identity.is_some() {
                    self.schedule(Duration::ZERO, Happening::Dial(process, peer));
                }
            }
            PeerCommand::Forget { peer } => {
                if let Some(running) = self.running(process) {
                    running.peers.remove(&peer);
                }
                self.drop_link(process, peer);
            }
            PeerCommand::Send {
                peer,
                link,
                message,
            } => {
                self.send_to_peer(process, peer, link, &message)?;
            }
            PeerCommand::Reset { peer, link } => {
                let current = self
                    .running(process)
                    .and_then(|it| it.links.get(&peer).copied());
                if current == Some(link) {
                    self.drop_link(process, peer);
                }
            }
        }
        Ok(())
    }

    /// A process that stopped in good order ends.
    fn stopped(&mut self, process: ProcessId) {
        self.line(Place::Node(process.node), format_args!("has stopped"));
        self.end_process(process);
    }
}

fn let_go(node: NodeId, disk: DiskId) -> Failure {
    Failure::Invariant {
        name: "device_orders",
        what: format!("{node} asks disk {}, which it has let go", disk.0),
    }
}
