//! Comparing.

use alloc::vec::Vec;

use holdfast_model::{BLOCKS_PER_PAGE, PAGES_PER_SLICE, PageIndex};
use holdfast_stdx::Bytes;

use super::{Body, Payload, read_contents, write_contents};
use crate::WireError;
use crate::codec::{Reader, Writer};
use crate::message::{BlockDigest, Correct, Digest, Digests, Holdings, Verified, Verify};

/// One bit for each page of a slice.
const HOLDINGS_BYTES: usize = PAGES_PER_SLICE as usize / 8;

impl Body for Holdings {
    fn write(&self, body: &mut Writer, _payload: &mut Vec<Bytes>) {
        body.slice(self.slice);
        body.u64(self.epoch.0);
        let mut bits = [0; HOLDINGS_BYTES];
        for page in &self.pages {
            bits[page.0 as usize / 8] |= 1 << (page.0 % 8);
        }
        body.bytes.extend_from_slice(&bits);
    }

    fn read(body: &mut Reader<'_>, _payload: &mut Payload) -> Result<Self, WireError> {
        let (slice, epoch) = (body.slice()?, body.epoch()?);
        let bits = body.take(HOLDINGS_BYTES)?;
        let pages =
            (0..PAGES_PER_SLICE).filter(|page| bits[*page as usize / 8] & 1 << (page % 8) != 0);
        Ok(Self {
            slice,
            epoch,
            pages: pages.map(PageIndex).collect(),
        })
    }
}

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
        write_digests(&self.digests, body);
    }

    fn read(body: &mut Reader<'_>, _payload: &mut Payload) -> Result<Self, WireError> {
        let (slice, epoch, number) = (body.slice()?, body.epoch()?, body.u64()?);
        let as_of = body.sequence()?;
        Ok(Self {
            slice,
            epoch,
            number,
            as_of,
            digests: read_digests(body)?,
        })
    }
}

impl Body for Verify {
    fn write(&self, body: &mut Writer, _payload: &mut Vec<Bytes>) {
        body.slice(self.slice);
        body.u64(self.epoch.0);
        body.u64(self.number);
        body.u32(self.from.0);
        body.u32(self.page.0);
    }

    fn read(body: &mut Reader<'_>, _payload: &mut Payload) -> Result<Self, WireError> {
        let verify = Self {
            slice: body.slice()?,
            epoch: body.epoch()?,
            number: body.u64()?,
            from: PageIndex(body.u32()?),
            page: PageIndex(body.u32()?),
        };
        if verify.from <= verify.page && verify.page.0 < PAGES_PER_SLICE {
            Ok(verify)
        } else {
            Err(WireError::Malformed)
        }
    }
}

impl Body for Verified {
    fn write(&self, body: &mut Writer, _payload: &mut Vec<Bytes>) {
        body.slice(self.slice);
        body.u64(self.epoch.0);
        body.u64(self.number);
        body.u64(self.as_of.0);
        body.u64(self.written.0);
        body.u32(self.extra.len() as u32);
        for page in &self.extra {
            body.u32(page.0);
        }
        write_digests(&self.digests, body);
    }

    fn read(body: &mut Reader<'_>, _payload: &mut Payload) -> Result<Self, WireError> {
        let (slice, epoch, number) = (body.slice()?, body.epoch()?, body.u64()?);
        let (as_of, written) = (body.sequence()?, body.sequence()?);
        let count = body.count(4)?;
        if count > PAGES_PER_SLICE as usize {
            return Err(WireError::Malformed);
        }
        let extra = (0..count).map(|_| body.u32().map(PageIndex));
        let extra = extra.collect::<Result<Vec<_>, _>>()?;
        if extra.iter().any(|page| page.0 >= PAGES_PER_SLICE) {
            return Err(WireError::Malformed);
        }
        Ok(Self {
            slice,
            epoch,
            number,
            as_of,
            written,
            extra,
            digests: read_digests(body)?,
        })
    }
}

impl Body for Correct {
    fn write(&self, body: &mut Writer, payload: &mut Vec<Bytes>) {
        body.slice(self.slice);
        body.u64(self.epoch.0);
        body.u64(self.as_of.0);
        write_contents(&self.contents, body, payload);
    }

    fn read(body: &mut Reader<'_>, payload: &mut Payload) -> Result<Self, WireError> {
        Ok(Self {
            slice: body.slice()?,
            epoch: body.epoch()?,
            as_of: body.sequence()?,
            contents: read_contents(body, payload)?,
        })
    }
}

fn write_digests(digests: &[BlockDigest], body: &mut Writer) {
    body.u32(digests.len() as u32);
    for digest in digests {
        match digest {
            BlockDigest::Zero => body.u8(0),
            BlockDigest::Bad => body.u8(1),
            BlockDigest::Data(hash) => {
                body.u8(2);
                body.bytes.extend_from_slice(hash);
            }
        }
    }
}

fn read_digests(body: &mut Reader<'_>) -> Result<Vec<BlockDigest>, WireError> {
    let count = body.count(1)?;
    if count > BLOCKS_PER_PAGE as usize {
        return Err(WireError::Malformed);
    }
    let digests = (0..count).map(|_| {
        Ok(match body.u8()? {
            0 => BlockDigest::Zero,
            1 => BlockDigest::Bad,
            2 => BlockDigest::Data(body.array()?),
            _ => return Err(WireError::Malformed),
        })
    });
    digests.collect()
}
