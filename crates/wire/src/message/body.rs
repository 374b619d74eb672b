//! The fields of each message, in their order.
//!
//! Invariant: `write` and `read` of a message are each other's inverse; an opcode, once given, is
//! never given to another message.

use alloc::vec::Vec;

use holdfast_model::{BLOCK_SIZE, Change, ENTRY_BYTES_MAX, Entry, SLICE_SIZE};
use holdfast_stdx::{Bytes, crc32c};

use super::{
    Begin, BlockContent, Claim, Commit, Content, Copied, Copy, Fetch, Fetched, Forward,
    ForwardKind, Forwarded, Grant, Heartbeat, JoinRequest, Message, OutcomeCode, Prepare, Prepared,
    Query, QueryReply, Refusal, Refused, Reserve, Reserved, Resign, Role,
};
use crate::WireError;
use crate::codec::{Reader, Writer};

/// Bytes of a slice's record at most: 16 replicas of 150 bytes, and some.
const RECORD_BYTES_MAX: usize = 8 << 10;
const CLAIM_BYTES: usize = 12 + 8 + 4;
const GRANT_BYTES: usize = 12 + 8;
const RUN_BYTES: usize = 8 + 8;
const CONTENT_BYTES_MIN: usize = 8 + 1;

/// The payload as the fields take it, front to back.
struct Payload(Bytes);

impl Payload {
    fn take(&mut self, count: usize) -> Result<Bytes, WireError> {
        if count > self.0.len() {
            return Err(WireError::Malformed);
        }
        Ok(self.0.split_to(count))
    }
}

impl Message {
    pub(crate) const fn opcode(&self) -> u16 {
        match self {
            Self::Heartbeat(_) => 1,
            Self::Begin(_) => 2,
            Self::Prepare(_) => 3,
            Self::Prepared(_) => 4,
            Self::Commit(_) => 5,
            Self::Refused(_) => 6,
            Self::Query(_) => 7,
            Self::QueryReply(_) => 8,
            Self::Resign(_) => 9,
            Self::JoinRequest(_) => 10,
            Self::Copy(_) => 11,
            Self::Copied(_) => 12,
            Self::Reserve(_) => 13,
            Self::Reserved(_) => 14,
            Self::Forward(_) => 15,
            Self::Forwarded(_) => 16,
            Self::Fetch(_) => 17,
            Self::Fetched(_) => 18,
        }
    }

    pub(crate) fn write(&self, body: &mut Writer, payload: &mut Vec<Bytes>) {
        match self {
            Self::Heartbeat(message) => message.write(body),
            Self::Begin(message) => message.write(body),
            Self::Prepare(message) => message.write(body, payload),
            Self::Prepared(Prepared {
                slice,
                epoch,
                through: one,
                stable: two,
            })
            | Self::Commit(Commit {
                slice,
                epoch,
                committed: one,
                stable: two,
            }) => {
                body.slice(*slice);
                body.u64(epoch.0);
                body.u64(one.0);
                body.u64(two.0);
            }
            Self::Refused(message) => message.write(body),
            Self::Query(Query { slice, epoch }) | Self::Resign(Resign { slice, epoch }) => {
                body.slice(*slice);
                body.u64(epoch.0);
            }
            Self::QueryReply(message) => message.write(body),
            Self::JoinRequest(message) => message.write(body),
            Self::Copy(Copy {
                slice,
                epoch,
                number,
                as_of,
                contents,
            })
            | Self::Fetched(Fetched {
                slice,
                epoch,
                number,
                as_of,
                contents,
            }) => {
                body.slice(*slice);
                body.u64(epoch.0);
                body.u64(*number);
                body.u64(as_of.0);
                write_contents(contents, body, payload);
            }
            Self::Copied(Copied {
                slice,
                epoch,
                number,
            }) => {
                body.slice(*slice);
                body.u64(epoch.0);
                body.u64(*number);
            }
            Self::Reserve(Reserve {
                slice,
                epoch,
                number,
                range,
            })
            | Self::Fetch(Fetch {
                slice,
                epoch,
                number,
                range,
            }) => {
                body.slice(*slice);
                body.u64(epoch.0);
                body.u64(*number);
                body.range(*range);
            }
            Self::Reserved(message) => {
                body.slice(message.slice);
                body.u64(message.epoch.0);
                body.u64(message.number);
                body.u8(u8::from(message.granted));
            }
            Self::Forward(message) => message.write(body, payload),
            Self::Forwarded(message) => message.write(body, payload),
        }
    }

    pub(crate) fn read(
        opcode: u16,
        body: &mut Reader<'_>,
        payload: Bytes,
    ) -> Result<Self, WireError> {
        let mut payload = Payload(payload);
        let message = match opcode {
            1 => Heartbeat::read(body)?.into(),
            2 => Begin::read(body)?.into(),
            3 => Prepare::read(body, &mut payload)?.into(),
            4 => Prepared {
                slice: body.slice()?,
                epoch: body.epoch()?,
                through: body.sequence()?,
                stable: body.sequence()?,
            }
            .into(),
            5 => Commit {
                slice: body.slice()?,
                epoch: body.epoch()?,
                committed: body.sequence()?,
                stable: body.sequence()?,
            }
            .into(),
            6 => Refused::read(body)?.into(),
            7 => Query {
                slice: body.slice()?,
                epoch: body.epoch()?,
            }
            .into(),
            8 => QueryReply {
                slice: body.slice()?,
                epoch: body.epoch()?,
                in_sync: read_bool(body)?,
                prepared: (body.epoch()?, body.sequence()?),
            }
            .into(),
            9 => Resign {
                slice: body.slice()?,
                epoch: body.epoch()?,
            }
            .into(),
            10 => JoinRequest {
                slice: body.slice()?,
                store: body.store()?,
                stable: body.sequence()?,
                usable: read_bool(body)?,
            }
            .into(),
            11 => Copy {
                slice: body.slice()?,
                epoch: body.epoch()?,
                number: body.u64()?,
                as_of: body.sequence()?,
                contents: read_contents(body, &mut payload)?,
            }
            .into(),
            12 => Copied {
                slice: body.slice()?,
                epoch: body.epoch()?,
                number: body.u64()?,
            }
            .into(),
            13 => Reserve {
                slice: body.slice()?,
                epoch: body.epoch()?,
                number: body.u64()?,
                range: body.range()?,
            }
            .into(),
            14 => Reserved {
                slice: body.slice()?,
                epoch: body.epoch()?,
                number: body.u64()?,
                granted: read_bool(body)?,
            }
            .into(),
            15 => Forward::read(body, &mut payload)?.into(),
            16 => Forwarded::read(body, &mut payload)?.into(),
            17 => Fetch {
                slice: body.slice()?,
                epoch: body.epoch()?,
                number: body.u64()?,
                range: body.range()?,
            }
            .into(),
            18 => Fetched {
                slice: body.slice()?,
                epoch: body.epoch()?,
                number: body.u64()?,
                as_of: body.sequence()?,
                contents: read_contents(body, &mut payload)?,
            }
            .into(),
            _ => return Err(WireError::Malformed),
        };
        if payload.0.is_empty() {
            Ok(message)
        } else {
            Err(WireError::Malformed)
        }
    }
}

impl Heartbeat {
    fn write(&self, body: &mut Writer) {
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

    fn read(body: &mut Reader<'_>) -> Result<Self, WireError> {
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

impl Begin {
    fn write(&self, body: &mut Writer) {
        assert!(
            self.record.len() <= RECORD_BYTES_MAX,
            "a record of ours keeps to its bound"
        );
        body.slice(self.slice);
        body.u64(self.epoch.0);
        body.u8(match self.role {
            Role::InSync => 0,
            Role::JoiningFast => 1,
            Role::JoiningFull => 2,
        });
        body.u64(self.committed.0);
        body.u32(self.tail.len() as u32);
        for (epoch, last) in &self.tail {
            body.u64(epoch.0);
            body.u64(last.0);
        }
        body.u64(self.stable.0);
        body.u32(self.record.len() as u32);
        body.bytes.extend_from_slice(&self.record);
    }

    fn read(body: &mut Reader<'_>) -> Result<Self, WireError> {
        let (slice, epoch) = (body.slice()?, body.epoch()?);
        let role = match body.u8()? {
            0 => Role::InSync,
            1 => Role::JoiningFast,
            2 => Role::JoiningFull,
            _ => return Err(WireError::Malformed),
        };
        let committed = body.sequence()?;
        let tail = (0..body.count(RUN_BYTES)?)
            .map(|_| Ok((body.epoch()?, body.sequence()?)))
            .collect::<Result<_, WireError>>()?;
        let stable = body.sequence()?;
        let length = body.count(1)?;
        if length > RECORD_BYTES_MAX {
            return Err(WireError::TooLong);
        }
        let record = Bytes::copy_from_slice(body.take(length)?);
        Ok(Self {
            slice,
            epoch,
            role,
            committed,
            tail,
            stable,
            record,
        })
    }
}

impl Prepare {
    fn write(&self, body: &mut Writer, payload: &mut Vec<Bytes>) {
        body.slice(self.slice);
        body.u64(self.epoch.0);
        body.u64(self.committed.0);
        body.u64(self.stable.0);
        body.u64(self.entry.epoch.0);
        body.u64(self.entry.sequence.0);
        body.u64(self.entry.fence.0);
        body.command(self.entry.command);
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
        let (slice, epoch) = (body.slice()?, body.epoch()?);
        let (committed, stable) = (body.sequence()?, body.sequence()?);
        let (entry_epoch, sequence) = (body.epoch()?, body.sequence()?);
        let (fence, command) = (body.fence()?, body.command()?);
        let change = match body.u8()? {
            0 => {
                let start = body.block()?;
                let (data, checksums) = read_data(body, payload)?;
                holdfast_model::BlockRange::checked(start.0, checksums.len() as u32)
                    .ok_or(WireError::Malformed)?;
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
        let entry = Entry {
            epoch: entry_epoch,
            sequence,
            fence,
            command,
            change,
        };
        Ok(Self {
            slice,
            epoch,
            entry,
            committed,
            stable,
        })
    }
}

impl Refused {
    fn write(&self, body: &mut Writer) {
        body.slice(self.slice);
        body.u64(self.epoch.0);
        body.u8(match self.refusal {
            Refusal::StaleEpoch => 0,
            Refusal::NotThatReplica => 1,
            Refusal::Failed => 2,
        });
    }

    fn read(body: &mut Reader<'_>) -> Result<Self, WireError> {
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

impl QueryReply {
    fn write(&self, body: &mut Writer) {
        body.slice(self.slice);
        body.u64(self.epoch.0);
        body.u8(u8::from(self.in_sync));
        body.u64(self.prepared.0.0);
        body.u64(self.prepared.1.0);
    }
}

impl JoinRequest {
    fn write(&self, body: &mut Writer) {
        body.slice(self.slice);
        body.u128(self.store.0);
        body.u64(self.stable.0);
        body.u8(u8::from(self.usable));
    }
}

impl Forward {
    fn write(&self, body: &mut Writer, payload: &mut Vec<Bytes>) {
        body.slice(self.slice);
        body.command(self.command);
        body.instant(self.heartbeat);
        match &self.kind {
            ForwardKind::Write { offset, data } => {
                body.u8(0);
                body.u64(*offset);
                body.u32(data.len() as u32);
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
        }
    }

    fn read(body: &mut Reader<'_>, payload: &mut Payload) -> Result<Self, WireError> {
        let (slice, command, heartbeat) = (body.slice()?, body.command()?, body.instant()?);
        let kind = match body.u8()? {
            0 => {
                let (offset, length) = (body.u64()?, body.u32()? as usize);
                let data = payload.take(length)?;
                let end = offset
                    .checked_add(length as u64)
                    .ok_or(WireError::Malformed)?;
                if length == 0 || end > SLICE_SIZE {
                    return Err(WireError::Malformed);
                }
                ForwardKind::Write { offset, data }
            }
            1 => ForwardKind::Clear(body.range()?),
            2 => ForwardKind::Read(body.range()?),
            _ => return Err(WireError::Malformed),
        };
        Ok(Self {
            slice,
            command,
            heartbeat,
            kind,
        })
    }
}

impl Forwarded {
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
        });
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

fn read_bool(body: &mut Reader<'_>) -> Result<bool, WireError> {
    match body.u8()? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(WireError::Malformed),
    }
}

fn write_data(data: &Bytes, checksums: &[u32], body: &mut Writer, payload: &mut Vec<Bytes>) {
    assert!(
        data.len() == checksums.len() * BLOCK_SIZE,
        "each block has its checksum"
    );
    body.u32(checksums.len() as u32);
    for checksum in checksums {
        body.u32(*checksum);
    }
    payload.push(data.clone());
}

fn read_data(body: &mut Reader<'_>, payload: &mut Payload) -> Result<(Bytes, Vec<u32>), WireError> {
    let count = body.count(4)?;
    if count == 0 || count > ENTRY_BYTES_MAX / BLOCK_SIZE {
        return Err(WireError::Malformed);
    }
    let checksums = (0..count)
        .map(|_| body.u32())
        .collect::<Result<Vec<u32>, _>>()?;
    let data = payload.take(count * BLOCK_SIZE)?;
    let intact = data
        .chunks_exact(BLOCK_SIZE)
        .map(crc32c)
        .eq(checksums.iter().copied());
    if intact {
        Ok((data, checksums))
    } else {
        Err(WireError::Checksum)
    }
}

fn write_contents(contents: &[Content], body: &mut Writer, payload: &mut Vec<Bytes>) {
    body.u32(contents.len() as u32);
    for Content { range, content } in contents {
        body.range(*range);
        match content {
            BlockContent::Data { data, checksums } => {
                assert!(
                    checksums.len() == range.count() as usize,
                    "data fills its range"
                );
                body.u8(0);
                write_data(data, checksums, body, payload);
            }
            BlockContent::Zero => body.u8(1),
            BlockContent::Bad => body.u8(2),
        }
    }
}

fn read_contents(body: &mut Reader<'_>, payload: &mut Payload) -> Result<Vec<Content>, WireError> {
    (0..body.count(CONTENT_BYTES_MIN)?)
        .map(|_| {
            let range = body.range()?;
            let content = match body.u8()? {
                0 => {
                    let (data, checksums) = read_data(body, payload)?;
                    if checksums.len() != range.count() as usize {
                        return Err(WireError::Malformed);
                    }
                    BlockContent::Data { data, checksums }
                }
                1 => BlockContent::Zero,
                2 => BlockContent::Bad,
                _ => return Err(WireError::Malformed),
            };
            Ok(Content { range, content })
        })
        .collect()
}
