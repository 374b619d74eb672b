//! Hosts of volumes that come and go: they look which volume it is that they are given, as hosts with several paths do, and
//! use no other.
//!
//! Invariants:
//! - what is meant for one volume is sent over no session in which another one was seen;
//! - when its volume is gone, each node that is reached says so: a host that hears nothing waits for ever.

use holdfast_iscsi::initiator::{CommandTag, Completion, EndReason, InitiatorOutput};
use holdfast_iscsi::pdu::LoginStatus;
use holdfast_model::NodeId;
use holdfast_stdx::Instant;

use super::path::Absent;
use super::work::names;
use super::{Acts, Host};

/// What a host calls its question which volume it is given.
pub(super) const IDENTIFY: CommandTag = CommandTag(u64::MAX - 1);

/// Which volume a host is meant to use.
#[derive(Clone, Copy, Debug)]
pub(super) struct Identity {
    naa: [u8; 16],
    /// It was deleted.
    is_gone: bool,
}

impl Host {
    /// Uses no other volume than this one.
    pub(crate) fn expect(&mut self, naa: [u8; 16]) {
        self.guest = Some(Identity {
            naa,
            is_gone: false,
        });
    }

    /// The volume is deleted: the host is not told, but finds out.
    pub(crate) fn volume_is_gone(&mut self) {
        if let Some(guest) = &mut self.guest {
            guest.is_gone = true;
        }
    }

    /// Whether the volume is one that is deleted.
    pub(crate) fn is_of_gone(&self) -> bool {
        self.guest.is_some_and(|guest| guest.is_gone)
    }

    /// The node that has not yet said that there is no such volume, of these.
    pub(crate) fn unrefused(&self, nodes: &[NodeId]) -> Option<NodeId> {
        let mut paths = self.paths.iter().filter(|it| nodes.contains(&it.node));
        let path = paths.find(|it| it.is_up() || it.absent.is_none())?;
        Some(path.node)
    }

    /// A session is there: what its unit is comes first, if that matters.
    pub(super) fn logged_in(&mut self, path: usize) -> InitiatorOutput {
        let mut out = InitiatorOutput::default();
        match self.guest {
            Some(_) => self.paths[path].identify(IDENTIFY, &mut out),
            None => self.paths[path].logged_in(),
        }
        out
    }

    /// The unit has said which volume it is.
    pub(super) fn identified(
        &mut self,
        now: Instant,
        path: usize,
        completion: &Completion,
        acts: &mut Acts,
    ) {
        let expected = self.guest.map(|guest| guest.naa);
        if expected.is_some_and(|naa| names(completion, naa)) {
            self.paths[path].logged_in();
        } else {
            self.not_there(now, path, acts);
        }
    }

    /// A path leads to another volume, or to none.
    pub(super) fn not_there(&mut self, now: Instant, path: usize, acts: &mut Acts) {
        self.counts.other_volume += 1;
        self.paths[path].absent = Some(Absent::OtherVolume);
        self.give_path_up(now, path, acts);
    }

    /// A session has ended, or was refused.
    pub(super) fn note_end(&mut self, path: usize, reason: &EndReason) {
        let path = &mut self.paths[path];
        path.absent = match reason {
            EndReason::LoginRefused(LoginStatus::NotFound) => {
                self.counts.no_target += 1;
                Some(Absent::NoTarget)
            }
            _ => None,
        };
    }
}
