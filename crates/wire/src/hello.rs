//! The first frame on a connection: who speaks, and which lane of which link this is.

use holdfast_model::{ClusterId, Incarnation, NodeId, StoreId};

use crate::WireError;
use crate::codec::{Reader, Writer};

/// Two connections make a link, so that heartbeats never queue behind data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Lane {
    /// Heartbeats and what decides who leads.
    Control,
    /// Everything that carries or orders data.
    Data,
}

/// Said by both ends, the dialling one first. A link is up when both lanes have exchanged it with
/// the same `link`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The cluster that the speaker belongs to.
    pub cluster: ClusterId,
    /// The speaker.
    pub node: NodeId,
    /// The contents of its devices.
    pub store: StoreId,
    /// The start of its process.
    pub incarnation: Incarnation,
    /// The node that it wants to speak to.
    pub to: NodeId,
    /// Drawn by the dialling side, the same on both lanes of a link, never drawn twice in one
    /// incarnation.
    pub link: u64,
    /// Which lane this is.
    pub lane: Lane,
    /// The newest version that the speaker offers to speak; in an answer, the one to be spoken. It is
    /// in the frame's header: whoever knows only older ones can read that much.
    pub version: u16,
}

impl Hello {
    pub(crate) fn write(&self, body: &mut Writer) {
        body.u128(self.cluster.0);
        body.u16(self.node.0);
        body.u128(self.store.0);
        body.u64(self.incarnation.0);
        body.u16(self.to.0);
        body.u64(self.link);
        body.u8(match self.lane {
            Lane::Control => 0,
            Lane::Data => 1,
        });
    }

    pub(crate) fn read(body: &mut Reader<'_>, version: u16) -> Result<Self, WireError> {
        Ok(Self {
            cluster: ClusterId(body.u128()?),
            node: NodeId(body.u16()?),
            store: body.store()?,
            incarnation: body.incarnation()?,
            to: NodeId(body.u16()?),
            link: body.u64()?,
            lane: match body.u8()? {
                0 => Lane::Control,
                1 => Lane::Data,
                _ => return Err(WireError::Malformed),
            },
            version,
        })
    }
}
