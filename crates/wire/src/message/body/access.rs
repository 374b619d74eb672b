//! Access to volumes.

use alloc::vec::Vec;

use holdfast_model::metadata::VALUE_LENGTH_MAX;
use holdfast_model::{NodeId, VolumeId};
use holdfast_stdx::Bytes;

use super::{Body, Payload};
use crate::WireError;
use crate::codec::{Reader, Writer};
use crate::message::{Enforce, Enforced};

const LED_BYTES: usize = 4 + 8;

impl Body for Enforce {
    fn write(&self, body: &mut Writer, _payload: &mut Vec<Bytes>) {
        body.u64(self.number);
        body.u16(self.origin.0);
        body.u16(self.to.0);
        body.u64(self.volume.0);
        body.u64(self.revision.0);
        body.u32(self.record.len() as u32);
        body.bytes.extend_from_slice(&self.record);
    }

    fn read(body: &mut Reader<'_>, _payload: &mut Payload) -> Result<Self, WireError> {
        Ok(Self {
            number: body.u64()?,
            origin: NodeId(body.u16()?),
            to: NodeId(body.u16()?),
            volume: VolumeId(body.u64()?),
            revision: body.revision()?,
            record: {
                let length = body.count(1)?;
                if length > VALUE_LENGTH_MAX {
                    return Err(WireError::TooLong);
                }
                Bytes::copy_from_slice(body.take(length)?)
            },
        })
    }
}

impl Body for Enforced {
    fn write(&self, body: &mut Writer, _payload: &mut Vec<Bytes>) {
        body.u64(self.number);
        body.u16(self.origin.0);
        body.u16(self.from.0);
        body.u64(self.volume.0);
        body.u64(self.fence.0);
        body.u32(self.led.len() as u32);
        for (index, epoch) in &self.led {
            body.u32(*index);
            body.u64(epoch.0);
        }
    }

    fn read(body: &mut Reader<'_>, _payload: &mut Payload) -> Result<Self, WireError> {
        Ok(Self {
            number: body.u64()?,
            origin: NodeId(body.u16()?),
            from: NodeId(body.u16()?),
            volume: VolumeId(body.u64()?),
            fence: body.fence()?,
            led: (0..body.count(LED_BYTES)?)
                .map(|_| Ok((body.u32()?, body.epoch()?)))
                .collect::<Result<_, WireError>>()?,
        })
    }
}
