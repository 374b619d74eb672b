//! How a node stands, for its API: a snapshot that costs little.

use alloc::string::String;
use alloc::vec::Vec;

use holdfast_iscsi::negotiation::Parameters;
use holdfast_iscsi::{IscsiName, Isid, Tsih};
use holdfast_model::metadata::Revision;
use holdfast_model::record::{ScrubFindings, SliceRecord};
use holdfast_model::{Epoch, NodeId, SliceId, VolumeId};
pub use holdfast_replica::Condition;
use holdfast_replica::Progress;
pub use holdfast_scsi::AccessState;
use holdfast_stdx::Duration;
use holdfast_store::DeviceStatus;
pub use holdfast_store::{Checked, Usage};

use crate::engine::Engine;
use crate::scrub::ScrubStatus;
use crate::{Astray, Rejection, Stall, Use};

/// A node's view of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeStatus {
    /// The store is open, and no device has failed.
    pub open: bool,
    /// The metadata is being watched, and this node is registered in it.
    pub registered: bool,
    /// Why it is not, if somebody else is this node, or it was removed.
    pub rejection: Option<Rejection>,
    /// Why nothing is believed of the metadata, if it answers, and that is so.
    pub astray: Option<Astray>,
    /// The revision of the metadata through which it knows everything that concerns it.
    pub known_through: Revision,
    /// Peers that can be spoken to.
    pub peers: Vec<NodeId>,
    /// Other nodes that follow another copy of the metadata: neither hears the other.
    pub strangers: Vec<NodeId>,
    /// What the store holds.
    pub usage: Usage,
    /// Notes of what is not in the metadata any more, which the store has yet to drop.
    pub notes_going: usize,
    /// Bytes a second that background work is held to; none while it is held to nothing.
    pub background_rate: Option<u64>,
    /// Bytes that replicas led from here have copied to joining ones since the start.
    pub bytes_moved: u64,
    /// For other nodes, the bytes of blocks that joining replicas there lacked, and were brought by
    /// replicas led from here, since the start.
    pub brought: Vec<(NodeId, u64)>,
    /// What volumes promise of the room here: the bytes of the slices of which there is a replica here.
    pub provisioned_bytes: u64,
    /// Replicas here.
    pub replicas: Vec<ReplicaStatus>,
    /// The volumes, at this portal.
    pub volumes: Vec<VolumeStatus>,
    /// The sessions of initiators at this portal: no more than it has connections.
    pub sessions: Vec<SessionStatus>,
    /// What scrubs of slices that were led here have found since the start.
    pub scrubbed: ScrubFindings,
    /// Volumes, and initiators, of which no command has been done here for a while though some wait.
    pub stalled: Vec<Stall>,
    /// Blocks that were put right here since the start.
    pub mended: MendedBlocks,
    /// The devices that the store has.
    pub devices: Vec<DeviceStatus>,
}

/// Blocks that were put right on a node, with what other replicas had, by how it was known that they were wrong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MendedBlocks {
    /// They were bad when somebody read them.
    pub read: u64,
    /// They were known to be bad: a scrub had found them, or the opening of the store.
    pub known: u64,
    /// They were sound, and not what the other replicas had: a scrub had found that.
    pub differing: u64,
}

impl MendedBlocks {
    /// Those that were bad.
    #[must_use]
    pub const fn bad(&self) -> u64 {
        self.read + self.known
    }
}

/// A volume at this portal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeStatus {
    /// Which.
    pub volume: VolumeId,
    /// What it is called; nothing where its record is not known.
    pub name: Option<String>,
    /// Whether hosts are let in here, and every slice of it can be reached.
    pub served: bool,
    /// Sessions of initiators with its target.
    pub sessions: u32,
    /// What hosts are told of the path by this node (ALUA); nothing before its slices are known.
    pub path: Option<AccessState>,
}

/// A session of an initiator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionStatus {
    /// Whose.
    pub initiator: IscsiName,
    /// The initiator's part of its identifier.
    pub isid: Isid,
    /// The target's part of it.
    pub tsih: Tsih,
    /// With which target.
    pub target: IscsiName,
    /// From where its connection comes, for people.
    pub from: String,
    /// For how long it has been open.
    pub age: Duration,
    /// Its commands that have not been answered.
    pub commands: usize,
    /// Its initiator has proved who it is.
    pub is_proved: bool,
    /// What was agreed on.
    pub parameters: Parameters,
}

/// A replica here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicaStatus {
    /// The slice.
    pub slice: SliceId,
    /// Its epoch, as far as it is known here.
    pub epoch: Epoch,
    /// Whether it leads and serves.
    pub leads: bool,
    /// Pages that it holds.
    pub pages: u64,
    /// What hosts have had it do since the start: each read and each entry counts, and each 64 KiB of them as much
    /// again.
    pub work: u64,
    /// Blocks that are known to be bad here, and have not been mended yet.
    pub bad_blocks: u64,
    /// For a primary: who is being brought up to date, and how far that is.
    pub joining: Vec<(NodeId, Progress)>,
    /// For a primary: the replicas that are not in sync, with the bytes of blocks that each lacks; `None`
    /// if nobody can tell yet.
    pub lacking: Vec<(NodeId, Option<u64>)>,
    /// What it is doing, and what keeps it from more.
    pub condition: Condition,
    /// For how long it has been about to lead, because the primary before it hands the slice over, or nobody has ever led it;
    /// nothing where it is not.
    pub handed: Option<Duration>,
    /// How far it is scrubbed, if that is under way and it leads.
    pub scrub: Option<ScrubStatus>,
}

impl Engine {
    /// A snapshot.
    #[must_use]
    pub fn status(&self) -> NodeStatus {
        let outside = NodeStatus {
            rejection: self.world.cluster.rejection().cloned(),
            // A node that starts finds out by this that its metadata is lost.
            astray: self.world.cluster.astray(),
            ..NodeStatus::default()
        };
        if !self.is_alive() {
            let volumes = self.unserved_before_registered();
            return NodeStatus { volumes, ..outside };
        }
        // Nobody hears it, and it sends hosts away.
        let is_disowned = self.world.cluster.is_disowned();
        let store = self.world.storage.store();
        let replicas = self.replicas.iter().map(|(slice, replica)| {
            let status = replica.status(self.world.now);
            ReplicaStatus {
                slice: *slice,
                epoch: status.epoch,
                leads: status.leads && !is_disowned,
                pages: store.allocated_pages(*slice),
                work: self.world.storage.work(*slice),
                bad_blocks: self.world.storage.bad_blocks(*slice),
                joining: status.joining,
                lacking: status.lacking,
                condition: status.condition,
                handed: status.handed,
                scrub: self.scrubs.status(*slice),
            }
        });
        NodeStatus {
            open: true,
            registered: self.world.cluster.is_ready(),
            known_through: self.world.cluster.notes.through(),
            peers: self.world.peers.nodes().collect(),
            strangers: self.vouching.strangers(),
            usage: store.usage(),
            notes_going: self.world.cluster.notes.going(),
            background_rate: self.world.pace.rate(self.world.now),
            bytes_moved: self.world.bytes_moved,
            brought: {
                let brought = self.world.brought.iter();
                brought.map(|(node, bytes)| (*node, *bytes)).collect()
            },
            provisioned_bytes: self.provisioned_bytes(),
            replicas: replicas.collect(),
            volumes: self.volume_statuses(),
            sessions: self.portal.session_statuses(self.world.now),
            scrubbed: self.scrubs.found(),
            stalled: self.portal.stalls.lasting(self.world.now),
            mended: self.world.mended,
            devices: store.devices(),
            ..outside
        }
    }

    /// What hosts have done at the portal here since this was last asked.
    pub fn take_uses(&mut self) -> Vec<Use> {
        self.portal.usage.take()
    }

    /// Whether the node could not have registered without what an operator says of the machine (`takes_over`); nothing where none
    /// says anything.
    #[must_use]
    pub fn take_over_used(&self) -> Option<bool> {
        self.world.cluster.take_over_used()
    }

    /// The volumes of which there are slices here, of a node that does not register because it does not believe the metadata: it
    /// knows of no others.
    fn unserved_before_registered(&self) -> Vec<VolumeStatus> {
        let cluster = &self.world.cluster;
        let held = cluster.held().filter(|_| cluster.is_astray());
        let mut volumes: Vec<VolumeId> = held.map(|slice| slice.volume).collect();
        volumes.dedup();
        let unserved = |volume| VolumeStatus {
            volume,
            name: None,
            served: false,
            sessions: 0,
            path: None,
        };
        volumes.into_iter().map(unserved).collect()
    }

    fn provisioned_bytes(&self) -> u64 {
        let volumes = &self.world.cluster.volumes;
        let replicas = self.replicas.keys();
        let bytes = replicas.filter_map(|slice| {
            let record = volumes.get(&slice.volume)?;
            Some(record.slice_bytes(slice.index))
        });
        bytes.fold(0, u64::saturating_add)
    }

    fn volume_statuses(&self) -> Vec<VolumeStatus> {
        let takes_hosts = !self.refuses_hosts();
        let sessions = self.portal.sessions_by_target();
        let volumes = self.world.cluster.volumes.values();
        volumes
            .map(|record| {
                let volume = record.volume;
                let sessions = sessions.get(record.target.as_str()).copied();
                VolumeStatus {
                    volume,
                    name: Some(record.name.clone()),
                    served: takes_hosts && self.reaches_all(volume, record.slice_count()),
                    sessions: sessions.unwrap_or(0),
                    path: self.port_groups.told(volume, self.config.node),
                }
            })
            .collect()
    }

    /// Whether each of so many slices of a volume is led from here, or by a peer that can be asked.
    fn reaches_all(&self, volume: VolumeId, count: u32) -> bool {
        let mut reached = 0;
        // In their order, and without looking each of them up: there may be many.
        for record in self.world.cluster.slices_of(volume) {
            if reached == count || record.slice.index != reached || !self.reaches(record) {
                break;
            }
            reached += 1;
        }
        reached == count
    }

    fn reaches(&self, record: &SliceRecord) -> bool {
        if record.primary == self.config.node {
            let replica = self.replicas.get(&record.slice);
            replica.is_some_and(|replica| replica.leads().is_some())
        } else {
            self.world.peers.link(record.primary).is_some()
        }
    }
}
