//! The log: epochs, entries, commits.

use alloc::vec::Vec;

use holdfast_model::{BlockRange, Change, CommandId, Entry, Epoch, Fence, Sequence, SliceId};
use holdfast_stdx::Bytes;

use super::{Body, Payload, read_bool, read_checksums, read_data, write_checksums, write_data};
use crate::WireError;
use crate::codec::{Reader, Writer};
use crate::message::{
    Begin, Commit, HandOver, Prepare, PrepareHeld, Prepared, Refusal, Refused, Role,
};

/// Bytes of a slice's record at most: 16 replicas of 150 bytes, and some.
const RECORD_BYTES_MAX: usize = 8 << 10;
const RUN_BYTES: usize = 8 + 8;
/// Flag of a role: the fence follows; without it that is zero, as in versions before 7.
const FENCED: u8 = 0x80;

fn write_record(record: &Bytes, body: &mut Writer) {
    assert!(
        record.len() <= RECORD_BYTES_MAX,
        "a record of ours keeps to its bound"
    );
    body.u32(record.len() as u32);
    body.bytes.extend_from_slice(record);
}

fn read_record(body: &mut Reader<'_>) -> Result<Bytes, WireError> {
    let length = body.count(1)?;
    if length > RECORD_BYTES_MAX {
        return Err(WireError::TooLong);
    }
    Ok(Bytes::copy_from_slice(body.take(length)?))
}

/// The runs of entries above `committed` that are there when `epoch` begins.
fn read_tail(
    body: &mut Reader<'_>,
    epoch: Epoch,
    committed: Sequence,
) -> Result<Vec<(Epoch, Sequence)>, WireError> {
    let count = body.count(RUN_BYTES)?;
    let mut tail: Vec<(Epoch, Sequence)> = Vec::with_capacity(count);
    for _ in 0..count {
        let run = (body.epoch()?, body.sequence()?);
        let follows = tail
            .last()
            .is_none_or(|before| before.0 < run.0 && before.1 < run.1);
        if !follows || run.0 > epoch || run.1 <= committed {
            return Err(WireError::Malformed);
        }
        tail.push(run);
    }
    Ok(tail)
}

impl Body for HandOver {
    fn write(&self, body: &mut Writer, _payload: &mut Vec<Bytes>) {
        body.slice(self.slice);
        body.u64(self.epoch.0);
        write_record(&self.record, body);
        body.u8(u8::from(self.slow));
    }

    fn read(body: &mut Reader<'_>, _payload: &mut Payload) -> Result<Self, WireError> {
        Ok(Self {
            slice: body.slice()?,
            epoch: body.epoch()?,
            record: read_record(body)?,
            slow: read_bool(body)?,
        })
    }
}

impl Body for Begin {
    fn write(&self, body: &mut Writer, _payload: &mut Vec<Bytes>) {
        body.slice(self.slice);
        body.u64(self.epoch.0);
        let role = match self.role {
            Role::InSync => 0,
            Role::JoiningFast => 1,
            Role::JoiningFull => 2,
            Role::JoiningCompared => 3,
        };
        match self.fence {
            Fence::ZERO => body.u8(role),
            fence => {
                body.u8(role | FENCED);
                body.u64(fence.0);
            }
        }
        body.u64(self.committed.0);
        body.u32(self.tail.len() as u32);
        for (epoch, last) in &self.tail {
            body.u64(epoch.0);
            body.u64(last.0);
        }
        body.u64(self.stable.0);
        body.u64(self.sync.0);
        write_record(&self.record, body);
    }

    fn read(body: &mut Reader<'_>, _payload: &mut Payload) -> Result<Self, WireError> {
        let (slice, epoch) = (body.slice()?, body.epoch()?);
        let role = body.u8()?;
        let fence = match role & FENCED {
            0 => Fence::ZERO,
            _ => body.fence()?,
        };
        let role = match role & !FENCED {
            0 => Role::InSync,
            1 => Role::JoiningFast,
            2 => Role::JoiningFull,
            3 => Role::JoiningCompared,
            _ => return Err(WireError::Malformed),
        };
        let committed = body.sequence()?;
        let tail = read_tail(body, epoch, committed)?;
        let (stable, sync) = (body.sequence()?, body.epoch()?);
        let record = read_record(body)?;
        Ok(Self {
            slice,
            epoch,
            role,
            committed,
            tail,
            stable,
            sync,
            record,
            fence,
        })
    }
}

/// What every message with an entry begins with.
struct Head {
    slice: SliceId,
    epoch: Epoch,
    committed: Sequence,
    stable: Sequence,
    numbered_in: Epoch,
    sequence: Sequence,
    fence: Fence,
    command: CommandId,
}

impl Head {
    fn write(&self, body: &mut Writer) {
        body.slice(self.slice);
        body.u64(self.epoch.0);
        body.u64(self.committed.0);
        body.u64(self.stable.0);
        body.u64(self.numbered_in.0);
        body.u64(self.sequence.0);
        body.u64(self.fence.0);
        body.command(self.command);
    }

    fn read(body: &mut Reader<'_>) -> Result<Self, WireError> {
        Ok(Self {
            slice: body.slice()?,
            epoch: body.epoch()?,
            committed: body.sequence()?,
            stable: body.sequence()?,
            numbered_in: body.epoch()?,
            sequence: body.sequence()?,
            fence: body.fence()?,
            command: body.command()?,
        })
    }
}

impl Body for Prepare {
    fn write(&self, body: &mut Writer, payload: &mut Vec<Bytes>) {
        let head = Head {
            slice: self.slice,
            epoch: self.epoch,
            committed: self.committed,
            stable: self.stable,
            numbered_in: self.entry.epoch,
            sequence: self.entry.sequence,
            fence: self.entry.fence,
            command: self.entry.command,
        };
        head.write(body);
        match &self.entry.change {
            Change::Write {
                start,
                data,
                checksums,
            } => {
                body.u8(0);
                body.u32(start.0);
                write_data(data, checksums, body, payload);
            }
            Change::Clear(range) => {
                body.u8(1);
                body.range(*range);
            }
            Change::Nothing => body.u8(2),
        }
    }

    fn read(body: &mut Reader<'_>, payload: &mut Payload) -> Result<Self, WireError> {
        let head = Head::read(body)?;
        let change = match body.u8()? {
            0 => {
                let start = body.block()?;
                let (data, checksums) = read_data(body, payload)?;
                BlockRange::checked(start.0, checksums.len() as u32).ok_or(WireError::Malformed)?;
                Change::Write {
                    start,
                    data,
                    checksums,
                }
            }
            1 => Change::Clear(body.range()?),
            2 => Change::Nothing,
            _ => return Err(WireError::Malformed),
        };
        Ok(Self {
            slice: head.slice,
            epoch: head.epoch,
            entry: Entry {
                epoch: head.numbered_in,
                sequence: head.sequence,
                fence: head.fence,
                command: head.command,
                change,
            },
            committed: head.committed,
            stable: head.stable,
        })
    }
}

impl Body for PrepareHeld {
    fn write(&self, body: &mut Writer, _payload: &mut Vec<Bytes>) {
        let head = Head {
            slice: self.slice,
            epoch: self.epoch,
            committed: self.committed,
            stable: self.stable,
            numbered_in: self.numbered_in,
            sequence: self.sequence,
            fence: self.fence,
            command: self.command,
        };
        head.write(body);
        body.u32(self.start.0);
        write_checksums(&self.checksums, body);
    }

    fn read(body: &mut Reader<'_>, _payload: &mut Payload) -> Result<Self, WireError> {
        let head = Head::read(body)?;
        let (start, checksums) = (body.block()?, read_checksums(body)?);
        BlockRange::checked(start.0, checksums.len() as u32).ok_or(WireError::Malformed)?;
        Ok(Self {
            slice: head.slice,
            epoch: head.epoch,
            numbered_in: head.numbered_in,
            sequence: head.sequence,
            fence: head.fence,
            command: head.command,
            start,
            checksums,
            committed: head.committed,
            stable: head.stable,
        })
    }
}

impl Body for Prepared {
    fn write(&self, body: &mut Writer, _payload: &mut Vec<Bytes>) {
        body.slice(self.slice);
        body.u64(self.epoch.0);
        body.u64(self.through.0);
        body.u64(self.stable.0);
    }

    fn read(body: &mut Reader<'_>, _payload: &mut Payload) -> Result<Self, WireError> {
        Ok(Self {
            slice: body.slice()?,
            epoch: body.epoch()?,
            through: body.sequence()?,
            stable: body.sequence()?,
        })
    }
}

impl Body for Commit {
    fn write(&self, body: &mut Writer, _payload: &mut Vec<Bytes>) {
        body.slice(self.slice);
        body.u64(self.epoch.0);
        body.u64(self.committed.0);
        body.u64(self.stable.0);
    }

    fn read(body: &mut Reader<'_>, _payload: &mut Payload) -> Result<Self, WireError> {
        Ok(Self {
            slice: body.slice()?,
            epoch: body.epoch()?,
            committed: body.sequence()?,
            stable: body.sequence()?,
        })
    }
}

impl Body for Refused {
    fn write(&self, body: &mut Writer, _payload: &mut Vec<Bytes>) {
        body.slice(self.slice);
        body.u64(self.epoch.0);
        body.u8(match self.refusal {
            Refusal::StaleEpoch => 0,
            Refusal::NotThatReplica => 1,
            Refusal::Failed => 2,
        });
    }

    fn read(body: &mut Reader<'_>, _payload: &mut Payload) -> Result<Self, WireError> {
        let (slice, epoch) = (body.slice()?, body.epoch()?);
        let refusal = match body.u8()? {
            0 => Refusal::StaleEpoch,
            1 => Refusal::NotThatReplica,
            2 => Refusal::Failed,
            _ => return Err(WireError::Malformed),
        };
        Ok(Self {
            slice,
            epoch,
            refusal,
        })
    }
}
