//! Bookmarks.

use alloc::vec::Vec;

use holdfast_model::NodeId;
use holdfast_model::record::Bookmark;
use holdfast_stdx::{Bytes, Duration};

use super::{Body, Payload, read_bool};
use crate::WireError;
use crate::codec::{Reader, Writer};
use crate::message::{Camp, Stance, Vouch, Vouched};

fn write_bookmark(bookmark: Bookmark, body: &mut Writer) {
    body.u64(bookmark.use_id);
    body.u64(bookmark.number);
}

fn read_bookmark(body: &mut Reader<'_>) -> Result<Bookmark, WireError> {
    Ok(Bookmark {
        use_id: body.u64()?,
        number: body.u64()?,
    })
}

impl Body for Vouch {
    fn write(&self, body: &mut Writer, _payload: &mut Vec<Bytes>) {
        write_bookmark(self.bookmark, body);
    }

    fn read(body: &mut Reader<'_>, _payload: &mut Payload) -> Result<Self, WireError> {
        Ok(Self {
            bookmark: read_bookmark(body)?,
        })
    }
}

impl Body for Vouched {
    fn write(&self, body: &mut Writer, _payload: &mut Vec<Bytes>) {
        write_bookmark(self.bookmark, body);
        body.u8(u8::from(self.is_there));
        body.u32(u32::try_from(self.age.as_secs()).unwrap_or(u32::MAX));
    }

    fn read(body: &mut Reader<'_>, _payload: &mut Payload) -> Result<Self, WireError> {
        Ok(Self {
            bookmark: read_bookmark(body)?,
            is_there: read_bool(body)?,
            age: Duration::from_secs(body.u32()?.into()),
        })
    }
}

impl Body for Camp {
    fn write(&self, body: &mut Writer, _payload: &mut Vec<Bytes>) {
        body.u16(self.followers);
        body.u8(u8::from(self.counts_receiver));
        body.u8(u8::from(self.goes_on));
        body.u8(match self.stance {
            Stance::Sure => 0,
            Stance::Undecided => 1,
            Stance::Yields => 2,
            Stance::Told => 3,
        });
        // No node has the number zero.
        body.u16(self.rival.map_or(0, |node| node.0));
    }

    fn read(body: &mut Reader<'_>, _payload: &mut Payload) -> Result<Self, WireError> {
        Ok(Self {
            followers: body.u16()?,
            counts_receiver: read_bool(body)?,
            goes_on: read_bool(body)?,
            stance: match body.u8()? {
                0 => Stance::Sure,
                1 => Stance::Undecided,
                2 => Stance::Yields,
                3 => Stance::Told,
                _ => return Err(WireError::Malformed),
            },
            rival: Some(NodeId(body.u16()?)).filter(|node| node.0 != 0),
        })
    }
}
