//! Commands on their way to a slice's primary, and back; and how they are given up.

use alloc::vec::Vec;

use holdfast_model::{BLOCK_SIZE, ENTRY_BYTES_MAX, Fence, SLICE_SIZE, VolumeId};
use holdfast_stdx::Bytes;

use super::{Body, Payload, read_bool, read_contents, write_contents};
use crate::WireError;
use crate::codec::{Reader, Writer};
use crate::message::{
    CopySource, EndTasks, Forward, ForwardKind, Forwarded, OutcomeCode, Settle, TasksEnded, Unread,
};

/// Flags of a forward.
const REPEATED: u8 = 1;
/// The fence follows; without it that is zero, as in versions before 7.
const FENCED: u8 = 2;

impl Body for Forward {
    fn write(&self, body: &mut Writer, payload: &mut Vec<Bytes>) {
        body.slice(self.slice);
        body.command(self.command);
        body.instant(self.heartbeat);
        let is_fenced = self.fence > Fence::ZERO;
        let flag = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
        body.u8(flag(self.repeated, REPEATED) | flag(is_fenced, FENCED));
        if is_fenced {
            body.u64(self.fence.0);
        }
        match &self.kind {
            ForwardKind::Write { offset, data } => {
                body.u8(0);
                write_place(body, *offset, data.len());
                payload.push(data.clone());
            }
            ForwardKind::Clear(range) => {
                body.u8(1);
                body.range(*range);
            }
            ForwardKind::Read(range) => {
                body.u8(2);
                body.range(*range);
            }
            ForwardKind::CompareAndWrite {
                offset,
                expected,
                data,
            } => {
                assert!(
                    expected.len() == data.len(),
                    "as much is compared as is written"
                );
                body.u8(3);
                write_place(body, *offset, data.len());
                // In one piece, as the frame's checksum covers it.
                payload.push(Bytes::from([&expected[..], data].concat()));
            }
            ForwardKind::Or { offset, data } => {
                body.u8(4);
                write_place(body, *offset, data.len());
                payload.push(data.clone());
            }
            ForwardKind::Copy { offset, source } => {
                body.u8(5);
                write_place(body, *offset, source.length as usize);
                body.slice(source.slice);
                body.u64(source.offset);
                body.u64(source.fence.0);
            }
        }
    }

    fn read(body: &mut Reader<'_>, payload: &mut Payload) -> Result<Self, WireError> {
        let (slice, command, heartbeat) = (body.slice()?, body.command()?, body.instant()?);
        let flags = body.u8()?;
        if flags & !(REPEATED | FENCED) != 0 {
            return Err(WireError::Malformed);
        }
        let fence = match flags & FENCED {
            0 => Fence::ZERO,
            _ => body.fence()?,
        };
        let kind = match body.u8()? {
            0 => {
                let (offset, length) = read_place(body)?;
                let data = payload.take(length)?;
                ForwardKind::Write { offset, data }
            }
            1 => ForwardKind::Clear(body.range()?),
            2 => ForwardKind::Read(body.part()?),
            3 => {
                let (offset, length) = read_place(body)?;
                if length > BLOCK_SIZE {
                    return Err(WireError::Malformed);
                }
                ForwardKind::CompareAndWrite {
                    offset,
                    expected: payload.take(length)?,
                    data: payload.take(length)?,
                }
            }
            4 => {
                let (offset, length) = read_place(body)?;
                let data = payload.take(length)?;
                ForwardKind::Or { offset, data }
            }
            5 => read_copy(body)?,
            _ => return Err(WireError::Malformed),
        };
        Ok(Self {
            slice,
            command,
            heartbeat,
            repeated: flags & REPEATED != 0,
            fence,
            kind,
        })
    }
}

/// What is copied is at most what an entry holds, where it is read and where it is written.
fn read_copy(body: &mut Reader<'_>) -> Result<ForwardKind, WireError> {
    let (offset, length) = read_place(body)?;
    let source = CopySource {
        slice: body.slice()?,
        offset: body.u64()?,
        length: length as u32,
        fence: body.fence()?,
    };
    check_place(source.offset, source.length)?;
    for start in [offset, source.offset] {
        let within = start % BLOCK_SIZE as u64 + u64::from(source.length);
        if within > ENTRY_BYTES_MAX as u64 {
            return Err(WireError::Malformed);
        }
    }
    Ok(ForwardKind::Copy { offset, source })
}

fn write_place(body: &mut Writer, offset: u64, length: usize) {
    body.u64(offset);
    body.u32(length as u32);
}

/// Where bytes are to go, within the slice, and how many; not none.
fn read_place(body: &mut Reader<'_>) -> Result<(u64, usize), WireError> {
    let (offset, length) = (body.u64()?, body.u32()?);
    check_place(offset, length)?;
    Ok((offset, length as usize))
}

fn check_place(offset: u64, length: u32) -> Result<(), WireError> {
    let end = offset.checked_add(u64::from(length));
    match end.is_some_and(|end| length > 0 && end <= SLICE_SIZE) {
        true => Ok(()),
        false => Err(WireError::Malformed),
    }
}

impl Body for Forwarded {
    fn write(&self, body: &mut Writer, payload: &mut Vec<Bytes>) {
        body.slice(self.slice);
        body.command(self.command);
        body.u8(match self.outcome {
            OutcomeCode::Done => 0,
            OutcomeCode::NotPrimary => 1,
            OutcomeCode::Expired => 2,
            OutcomeCode::NotReady => 3,
            OutcomeCode::NoSpace => 4,
            OutcomeCode::Busy => 5,
            OutcomeCode::MediumError => 6,
            OutcomeCode::Deposed => 7,
            OutcomeCode::Fenced => 8,
            OutcomeCode::Miscompare { .. } => 9,
            OutcomeCode::Unread(_) => 10,
        });
        match self.outcome {
            OutcomeCode::Miscompare { position } => body.u32(position),
            OutcomeCode::Unread(Unread::NotReady) => body.u8(0),
            OutcomeCode::Unread(Unread::Lost { block }) => {
                body.u8(1);
                body.u32(block.0);
            }
            OutcomeCode::Unread(Unread::Fenced) => body.u8(2),
            _ => {}
        }
        write_contents(&self.contents, body, payload);
    }

    fn read(body: &mut Reader<'_>, payload: &mut Payload) -> Result<Self, WireError> {
        let (slice, command) = (body.slice()?, body.command()?);
        let outcome = match body.u8()? {
            0 => OutcomeCode::Done,
            1 => OutcomeCode::NotPrimary,
            2 => OutcomeCode::Expired,
            3 => OutcomeCode::NotReady,
            4 => OutcomeCode::NoSpace,
            5 => OutcomeCode::Busy,
            6 => OutcomeCode::MediumError,
            7 => OutcomeCode::Deposed,
            8 => OutcomeCode::Fenced,
            9 => OutcomeCode::Miscompare {
                position: body.u32()?,
            },
            10 => OutcomeCode::Unread(match body.u8()? {
                0 => Unread::NotReady,
                1 => Unread::Lost {
                    block: body.block()?,
                },
                2 => Unread::Fenced,
                _ => return Err(WireError::Malformed),
            }),
            _ => return Err(WireError::Malformed),
        };
        let contents = read_contents(body, payload)?;
        Ok(Self {
            slice,
            command,
            outcome,
            contents,
        })
    }
}

impl Body for Settle {
    fn write(&self, body: &mut Writer, _payload: &mut Vec<Bytes>) {
        body.slice(self.slice);
        body.command(self.command);
    }

    fn read(body: &mut Reader<'_>, _payload: &mut Payload) -> Result<Self, WireError> {
        Ok(Self {
            slice: body.slice()?,
            command: body.command()?,
        })
    }
}

impl Body for EndTasks {
    fn write(&self, body: &mut Writer, _payload: &mut Vec<Bytes>) {
        body.u64(self.number);
        body.u64(self.volume.0);
        body.u8(u8::from(self.reset));
    }

    fn read(body: &mut Reader<'_>, _payload: &mut Payload) -> Result<Self, WireError> {
        Ok(Self {
            number: body.u64()?,
            volume: VolumeId(body.u64()?),
            reset: read_bool(body)?,
        })
    }
}

impl Body for TasksEnded {
    fn write(&self, body: &mut Writer, _payload: &mut Vec<Bytes>) {
        body.u64(self.number);
        body.u8(u8::from(self.settled));
    }

    fn read(body: &mut Reader<'_>, _payload: &mut Payload) -> Result<Self, WireError> {
        Ok(Self {
            number: body.u64()?,
            settled: read_bool(body)?,
        })
    }
}
