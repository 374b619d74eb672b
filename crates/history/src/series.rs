//! Of what something is measured.

use alloc::string::String;

use holdfast_model::VolumeId;

use crate::HistoryError;
use crate::codec::{Reader, Writer};

/// Bytes of an initiator's name at most (RFC 7143, 4.2.7.1).
const NAME_BYTES_MAX: usize = 223;

/// A thing whose history is kept, by the node at which it is measured.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Series {
    /// The node itself.
    Node,
    /// A volume, at the node's portal.
    Volume(VolumeId),
    /// One of the node's devices, by its number.
    Device(u16),
    /// What one initiator does with one volume.
    Initiator(VolumeId, String),
    /// The node's devices of one class, by its number in records.
    Tier(u8),
}

impl Series {
    pub(crate) fn write(&self, out: &mut Writer) {
        match self {
            Self::Node => out.byte(0),
            Self::Volume(volume) => {
                out.byte(1);
                out.number(volume.0);
            }
            Self::Device(device) => {
                out.byte(2);
                out.number(u64::from(*device));
            }
            Self::Initiator(volume, name) => {
                out.byte(3);
                out.number(volume.0);
                out.text(name);
            }
            Self::Tier(tier) => {
                out.byte(4);
                out.byte(*tier);
            }
        }
    }

    pub(crate) fn read(from: &mut Reader<'_>) -> Result<Self, HistoryError> {
        match from.byte()? {
            0 => Ok(Self::Node),
            1 => Ok(Self::Volume(VolumeId(from.number()?))),
            2 => {
                let device = u16::try_from(from.number()?);
                device
                    .map(Self::Device)
                    .map_err(|_| HistoryError::Malformed)
            }
            3 => {
                let volume = VolumeId(from.number()?);
                let name = from.text()?;
                if name.len() > NAME_BYTES_MAX {
                    return Err(HistoryError::Malformed);
                }
                Ok(Self::Initiator(volume, name.into()))
            }
            4 => from.byte().map(Self::Tier),
            _ => Err(HistoryError::Malformed),
        }
    }
}
