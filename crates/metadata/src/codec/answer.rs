//! The bytes of what a client is told.

use holdfast_model::metadata::{
    MetadataAnswer, MetadataError, OperationResult, TransactionOutcome,
};
use holdfast_stdx::BufMut;

use super::{CodecError, Encoded};

impl Encoded for MetadataAnswer {
    fn encode(&self, target: &mut Vec<u8>) {
        match self {
            Self::Transacted(outcome) => {
                target.put_u8(1);
                outcome.encode(target);
            }
            Self::Watched { revision, events } => {
                target.put_u8(2);
                revision.encode(target);
                events.encode(target);
            }
            Self::WatchEnded(error) => {
                target.put_u8(3);
                error.encode(target);
            }
            Self::Granted {
                lease,
                time_to_live,
            } => {
                target.put_u8(4);
                lease.encode(target);
                time_to_live.encode(target);
            }
            Self::KeptAlive => target.put_u8(5),
            Self::Revoked => target.put_u8(6),
            Self::Failed(error) => {
                target.put_u8(7);
                error.encode(target);
            }
            Self::WatchResumed => target.put_u8(8),
        }
    }

    fn decode(source: &mut &[u8]) -> Result<Self, CodecError> {
        match u8::decode(source)? {
            1 => Encoded::decode(source).map(Self::Transacted),
            2 => Ok(Self::Watched {
                revision: Encoded::decode(source)?,
                events: Encoded::decode(source)?,
            }),
            3 => Encoded::decode(source).map(Self::WatchEnded),
            4 => Ok(Self::Granted {
                lease: Encoded::decode(source)?,
                time_to_live: Encoded::decode(source)?,
            }),
            5 => Ok(Self::KeptAlive),
            6 => Ok(Self::Revoked),
            7 => Encoded::decode(source).map(Self::Failed),
            8 => Ok(Self::WatchResumed),
            tag => Err(CodecError::Tag(tag)),
        }
    }
}

impl Encoded for MetadataError {
    fn encode(&self, target: &mut Vec<u8>) {
        match self {
            Self::Unavailable => target.put_u8(1),
            Self::Compacted(from) => {
                target.put_u8(2);
                from.encode(target);
            }
            Self::NoSuchLease => target.put_u8(3),
            Self::Invalid => target.put_u8(4),
            Self::Full => target.put_u8(5),
        }
    }

    fn decode(source: &mut &[u8]) -> Result<Self, CodecError> {
        match u8::decode(source)? {
            1 => Ok(Self::Unavailable),
            2 => Encoded::decode(source).map(Self::Compacted),
            3 => Ok(Self::NoSuchLease),
            4 => Ok(Self::Invalid),
            5 => Ok(Self::Full),
            tag => Err(CodecError::Tag(tag)),
        }
    }
}

impl Encoded for TransactionOutcome {
    fn encode(&self, target: &mut Vec<u8>) {
        self.succeeded.encode(target);
        self.revision.encode(target);
        self.results.encode(target);
    }

    fn decode(source: &mut &[u8]) -> Result<Self, CodecError> {
        Ok(Self {
            succeeded: Encoded::decode(source)?,
            revision: Encoded::decode(source)?,
            results: Encoded::decode(source)?,
        })
    }
}

impl Encoded for OperationResult {
    fn encode(&self, target: &mut Vec<u8>) {
        match self {
            Self::Range(found) => {
                target.put_u8(1);
                found.encode(target);
            }
            Self::Put => target.put_u8(2),
            Self::Delete(count) => {
                target.put_u8(3);
                count.encode(target);
            }
        }
    }

    fn decode(source: &mut &[u8]) -> Result<Self, CodecError> {
        match u8::decode(source)? {
            1 => Encoded::decode(source).map(Self::Range),
            2 => Ok(Self::Put),
            3 => Encoded::decode(source).map(Self::Delete),
            tag => Err(CodecError::Tag(tag)),
        }
    }
}
