//! Room.

use alloc::vec::Vec;

use holdfast_model::VolumeId;
use holdfast_stdx::Bytes;

use super::{Body, Payload};
use crate::WireError;
use crate::codec::{Reader, Writer};
use crate::message::{SPACE_VOLUMES_MAX, Space};

const VOLUME_BYTES: usize = 8 + 8;

impl Body for Space {
    fn write(&self, body: &mut Writer, _payload: &mut Vec<Bytes>) {
        assert!(self.volumes.len() <= SPACE_VOLUMES_MAX, "it has a limit");
        body.u64(self.pages);
        body.u64(self.pages_free);
        body.u32(self.volumes.len() as u32);
        for (volume, pages) in &self.volumes {
            body.u64(volume.0);
            body.u64(*pages);
        }
    }

    fn read(body: &mut Reader<'_>, _payload: &mut Payload) -> Result<Self, WireError> {
        let pages = body.u64()?;
        let pages_free = body.u64()?;
        let count = body.count(VOLUME_BYTES)?;
        if count > SPACE_VOLUMES_MAX {
            return Err(WireError::TooLong);
        }
        Ok(Self {
            pages,
            pages_free,
            volumes: (0..count)
                .map(|_| Ok((VolumeId(body.u64()?), body.u64()?)))
                .collect::<Result<_, WireError>>()?,
        })
    }
}
