//! What is in blocks, in short.

use alloc::vec::Vec;

use holdfast_model::{BLOCKS_PER_PAGE, PAGES_PER_SLICE, PageIndex};
use holdfast_stdx::Bytes;

use super::{Body, Payload};
use crate::WireError;
use crate::codec::{Reader, Writer};
use crate::message::{BlockDigest, ContentHash, Digest, Digests};

const HASH_BYTES: usize = 32;

impl Body for Digest {
    fn write(&self, body: &mut Writer, _payload: &mut Vec<Bytes>) {
        body.slice(self.slice);
        body.u64(self.epoch.0);
        body.u64(self.number);
        body.u32(self.page.0);
        body.u64(self.blocks);
    }

    fn read(body: &mut Reader<'_>, _payload: &mut Payload) -> Result<Self, WireError> {
        let digest = Self {
            slice: body.slice()?,
            epoch: body.epoch()?,
            number: body.u64()?,
            page: PageIndex(body.u32()?),
            blocks: body.u64()?,
        };
        if digest.page.0 < PAGES_PER_SLICE && digest.blocks != 0 {
            Ok(digest)
        } else {
            Err(WireError::Malformed)
        }
    }
}

impl Body for Digests {
    fn write(&self, body: &mut Writer, _payload: &mut Vec<Bytes>) {
        body.slice(self.slice);
        body.u64(self.epoch.0);
        body.u64(self.number);
        body.u64(self.as_of.0);
        body.u32(self.digests.len() as u32);
        for digest in &self.digests {
            match digest {
                BlockDigest::Data(hash) => {
                    body.u8(0);
                    body.bytes.extend_from_slice(&hash.0);
                }
                BlockDigest::Zero => body.u8(1),
                BlockDigest::Bad => body.u8(2),
            }
        }
    }

    fn read(body: &mut Reader<'_>, _payload: &mut Payload) -> Result<Self, WireError> {
        let (slice, epoch) = (body.slice()?, body.epoch()?);
        let (number, as_of) = (body.u64()?, body.sequence()?);
        let count = body.count(1)?;
        if count > BLOCKS_PER_PAGE as usize {
            return Err(WireError::Malformed);
        }
        let digests = (0..count).map(|_| read_digest(body));
        Ok(Self {
            slice,
            epoch,
            number,
            as_of,
            digests: digests.collect::<Result<_, _>>()?,
        })
    }
}

fn read_digest(body: &mut Reader<'_>) -> Result<BlockDigest, WireError> {
    Ok(match body.u8()? {
        0 => {
            let hash = body.take(HASH_BYTES)?;
            let hash = hash.try_into().expect("that many bytes were taken");
            BlockDigest::Data(ContentHash(hash))
        }
        1 => BlockDigest::Zero,
        2 => BlockDigest::Bad,
        _ => return Err(WireError::Malformed),
    })
}
