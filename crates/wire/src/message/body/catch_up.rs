//! Joining, copying, reserving, repairing.

use alloc::vec::Vec;

use holdfast_stdx::Bytes;

use super::{Body, Payload, read_bool, read_contents, write_contents};
use crate::WireError;
use crate::codec::{Reader, Writer};
use crate::message::{Copied, Copy, Fetch, Fetched, JoinRequest, Reserve, Reserved};

impl Body for JoinRequest {
    fn write(&self, body: &mut Writer, _payload: &mut Vec<Bytes>) {
        body.slice(self.slice);
        body.u128(self.store.0);
        body.u64(self.stable.0);
        body.u8(u8::from(self.usable));
        body.u64(self.sync.0);
    }

    fn read(body: &mut Reader<'_>, _payload: &mut Payload) -> Result<Self, WireError> {
        Ok(Self {
            slice: body.slice()?,
            store: body.store()?,
            stable: body.sequence()?,
            usable: read_bool(body)?,
            sync: body.epoch()?,
        })
    }
}

impl Body for Copy {
    fn write(&self, body: &mut Writer, payload: &mut Vec<Bytes>) {
        body.slice(self.slice);
        body.u64(self.epoch.0);
        body.u64(self.number);
        body.u64(self.as_of.0);
        write_contents(&self.contents, body, payload);
    }

    fn read(body: &mut Reader<'_>, payload: &mut Payload) -> Result<Self, WireError> {
        Ok(Self {
            slice: body.slice()?,
            epoch: body.epoch()?,
            number: body.u64()?,
            as_of: body.sequence()?,
            contents: read_contents(body, payload)?,
        })
    }
}

impl Body for Copied {
    fn write(&self, body: &mut Writer, _payload: &mut Vec<Bytes>) {
        body.slice(self.slice);
        body.u64(self.epoch.0);
        body.u64(self.number);
    }

    fn read(body: &mut Reader<'_>, _payload: &mut Payload) -> Result<Self, WireError> {
        Ok(Self {
            slice: body.slice()?,
            epoch: body.epoch()?,
            number: body.u64()?,
        })
    }
}

impl Body for Reserve {
    fn write(&self, body: &mut Writer, _payload: &mut Vec<Bytes>) {
        body.slice(self.slice);
        body.u64(self.epoch.0);
        body.u64(self.number);
        body.range(self.range);
    }

    fn read(body: &mut Reader<'_>, _payload: &mut Payload) -> Result<Self, WireError> {
        Ok(Self {
            slice: body.slice()?,
            epoch: body.epoch()?,
            number: body.u64()?,
            range: body.part()?,
        })
    }
}

impl Body for Reserved {
    fn write(&self, body: &mut Writer, _payload: &mut Vec<Bytes>) {
        body.slice(self.slice);
        body.u64(self.epoch.0);
        body.u64(self.number);
        body.u8(u8::from(self.granted));
    }

    fn read(body: &mut Reader<'_>, _payload: &mut Payload) -> Result<Self, WireError> {
        Ok(Self {
            slice: body.slice()?,
            epoch: body.epoch()?,
            number: body.u64()?,
            granted: read_bool(body)?,
        })
    }
}

impl Body for Fetch {
    fn write(&self, body: &mut Writer, _payload: &mut Vec<Bytes>) {
        body.slice(self.slice);
        body.u64(self.epoch.0);
        body.u64(self.number);
        body.range(self.range);
    }

    fn read(body: &mut Reader<'_>, _payload: &mut Payload) -> Result<Self, WireError> {
        Ok(Self {
            slice: body.slice()?,
            epoch: body.epoch()?,
            number: body.u64()?,
            range: body.part()?,
        })
    }
}

impl Body for Fetched {
    fn write(&self, body: &mut Writer, payload: &mut Vec<Bytes>) {
        body.slice(self.slice);
        body.u64(self.epoch.0);
        body.u64(self.number);
        body.u64(self.as_of.0);
        write_contents(&self.contents, body, payload);
    }

    fn read(body: &mut Reader<'_>, payload: &mut Payload) -> Result<Self, WireError> {
        Ok(Self {
            slice: body.slice()?,
            epoch: body.epoch()?,
            number: body.u64()?,
            as_of: body.sequence()?,
            contents: read_contents(body, payload)?,
        })
    }
}
