//! Copies that come from another replica than the primary.

use alloc::vec::Vec;

use holdfast_model::{NodeId, PAGES_PER_SLICE, PageIndex};
use holdfast_stdx::Bytes;

use super::{Body, Payload};
use crate::WireError;
use crate::codec::{Reader, Writer};
use crate::message::{Supplied, Supply, SupplyOutcome};

impl Body for Supply {
    fn write(&self, body: &mut Writer, _payload: &mut Vec<Bytes>) {
        body.slice(self.slice);
        body.u64(self.epoch.0);
        body.u64(self.number);
        body.u16(self.to.0);
        body.u64(self.from.0);
        body.u32(self.page.0);
        body.u64(self.blocks);
    }

    fn read(body: &mut Reader<'_>, _payload: &mut Payload) -> Result<Self, WireError> {
        let supply = Self {
            slice: body.slice()?,
            epoch: body.epoch()?,
            number: body.u64()?,
            to: NodeId(body.u16()?),
            from: body.sequence()?,
            page: PageIndex(body.u32()?),
            blocks: body.u64()?,
        };
        if supply.page.0 < PAGES_PER_SLICE && supply.blocks != 0 {
            Ok(supply)
        } else {
            Err(WireError::Malformed)
        }
    }
}

impl Body for Supplied {
    fn write(&self, body: &mut Writer, _payload: &mut Vec<Bytes>) {
        body.slice(self.slice);
        body.u64(self.epoch.0);
        body.u16(self.to.0);
        match self.outcome {
            SupplyOutcome::Sent { number, bytes } => {
                body.u8(0);
                body.u64(number);
                body.u64(bytes);
            }
            SupplyOutcome::NotSent { number } => {
                body.u8(1);
                body.u64(number);
            }
            SupplyOutcome::LinkLost => body.u8(2),
        }
    }

    fn read(body: &mut Reader<'_>, _payload: &mut Payload) -> Result<Self, WireError> {
        Ok(Self {
            slice: body.slice()?,
            epoch: body.epoch()?,
            to: NodeId(body.u16()?),
            outcome: match body.u8()? {
                0 => SupplyOutcome::Sent {
                    number: body.u64()?,
                    bytes: body.u64()?,
                },
                1 => SupplyOutcome::NotSent {
                    number: body.u64()?,
                },
                2 => SupplyOutcome::LinkLost,
                _ => return Err(WireError::Malformed),
            },
        })
    }
}
