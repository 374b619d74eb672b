//! Heartbeats, and what decides who leads.

use alloc::vec::Vec;

use holdfast_stdx::Bytes;

use super::{Body, Payload, read_bool};
use crate::WireError;
use crate::codec::{Reader, Writer};
use crate::message::{Claim, Grant, Heartbeat, Query, QueryReply, Resign};

const CLAIM_BYTES: usize = 12 + 8 + 4;
const GRANT_BYTES: usize = 12 + 8;

impl Body for Heartbeat {
    fn write(&self, body: &mut Writer, _payload: &mut Vec<Bytes>) {
        body.instant(self.sent);
        body.instant(self.echo);
        body.u32(self.append_age_ms);
        body.u32(self.claims.len() as u32);
        for claim in &self.claims {
            body.slice(claim.slice);
            body.u64(claim.epoch.0);
            body.u32(claim.read_lease_us);
        }
        body.u32(self.grants.len() as u32);
        for grant in &self.grants {
            body.slice(grant.slice);
            body.u64(grant.epoch.0);
        }
    }

    fn read(body: &mut Reader<'_>, _payload: &mut Payload) -> Result<Self, WireError> {
        let (sent, echo, append_age_ms) = (body.instant()?, body.instant()?, body.u32()?);
        let claims = (0..body.count(CLAIM_BYTES)?)
            .map(|_| {
                Ok(Claim {
                    slice: body.slice()?,
                    epoch: body.epoch()?,
                    read_lease_us: body.u32()?,
                })
            })
            .collect::<Result<_, WireError>>()?;
        let grants = (0..body.count(GRANT_BYTES)?)
            .map(|_| {
                Ok(Grant {
                    slice: body.slice()?,
                    epoch: body.epoch()?,
                })
            })
            .collect::<Result<_, WireError>>()?;
        Ok(Self {
            sent,
            echo,
            append_age_ms,
            claims,
            grants,
        })
    }
}

impl Body for Query {
    fn write(&self, body: &mut Writer, _payload: &mut Vec<Bytes>) {
        body.slice(self.slice);
        body.u64(self.epoch.0);
    }

    fn read(body: &mut Reader<'_>, _payload: &mut Payload) -> Result<Self, WireError> {
        Ok(Self {
            slice: body.slice()?,
            epoch: body.epoch()?,
        })
    }
}

impl Body for QueryReply {
    fn write(&self, body: &mut Writer, _payload: &mut Vec<Bytes>) {
        body.slice(self.slice);
        body.u64(self.epoch.0);
        body.u8(u8::from(self.in_sync));
        body.u64(self.prepared.0.0);
        body.u64(self.prepared.1.0);
        body.u64(self.committed.0);
    }

    fn read(body: &mut Reader<'_>, _payload: &mut Payload) -> Result<Self, WireError> {
        Ok(Self {
            slice: body.slice()?,
            epoch: body.epoch()?,
            in_sync: read_bool(body)?,
            prepared: (body.epoch()?, body.sequence()?),
            committed: body.sequence()?,
        })
    }
}

impl Body for Resign {
    fn write(&self, body: &mut Writer, _payload: &mut Vec<Bytes>) {
        body.slice(self.slice);
        body.u64(self.epoch.0);
    }

    fn read(body: &mut Reader<'_>, _payload: &mut Payload) -> Result<Self, WireError> {
        Ok(Self {
            slice: body.slice()?,
            epoch: body.epoch()?,
        })
    }
}
