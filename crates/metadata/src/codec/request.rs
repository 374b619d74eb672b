//! The bytes of what a client asks.

use holdfast_model::metadata::{Compare, MetadataRequest, Operation, Transaction};
use holdfast_stdx::BufMut;

use super::{CodecError, Encoded};

impl Encoded for MetadataRequest {
    fn encode(&self, target: &mut Vec<u8>) {
        match self {
            Self::Transact(transaction) => {
                target.put_u8(1);
                transaction.encode(target);
            }
            Self::Watch { selector, from } => {
                target.put_u8(2);
                selector.encode(target);
                from.encode(target);
            }
            Self::Unwatch => target.put_u8(3),
            Self::Grant { time_to_live } => {
                target.put_u8(4);
                time_to_live.encode(target);
            }
            Self::KeepAlive(lease) => {
                target.put_u8(5);
                lease.encode(target);
            }
            Self::Revoke(lease) => {
                target.put_u8(6);
                lease.encode(target);
            }
        }
    }

    fn decode(source: &mut &[u8]) -> Result<Self, CodecError> {
        match u8::decode(source)? {
            1 => Encoded::decode(source).map(Self::Transact),
            2 => Ok(Self::Watch {
                selector: Encoded::decode(source)?,
                from: Encoded::decode(source)?,
            }),
            3 => Ok(Self::Unwatch),
            4 => Ok(Self::Grant {
                time_to_live: Encoded::decode(source)?,
            }),
            5 => Encoded::decode(source).map(Self::KeepAlive),
            6 => Encoded::decode(source).map(Self::Revoke),
            tag => Err(CodecError::Tag(tag)),
        }
    }
}

impl Encoded for Transaction {
    fn encode(&self, target: &mut Vec<u8>) {
        self.compare.encode(target);
        self.success.encode(target);
        self.failure.encode(target);
    }

    fn decode(source: &mut &[u8]) -> Result<Self, CodecError> {
        Ok(Self {
            compare: Encoded::decode(source)?,
            success: Encoded::decode(source)?,
            failure: Encoded::decode(source)?,
        })
    }
}

impl Encoded for Compare {
    fn encode(&self, target: &mut Vec<u8>) {
        match self {
            Self::ModRevision { key, equals } => {
                target.put_u8(1);
                key.encode(target);
                equals.encode(target);
            }
            Self::Value { key, equals } => {
                target.put_u8(2);
                key.encode(target);
                equals.encode(target);
            }
        }
    }

    fn decode(source: &mut &[u8]) -> Result<Self, CodecError> {
        match u8::decode(source)? {
            1 => Ok(Self::ModRevision {
                key: Encoded::decode(source)?,
                equals: Encoded::decode(source)?,
            }),
            2 => Ok(Self::Value {
                key: Encoded::decode(source)?,
                equals: Encoded::decode(source)?,
            }),
            tag => Err(CodecError::Tag(tag)),
        }
    }
}

impl Encoded for Operation {
    fn encode(&self, target: &mut Vec<u8>) {
        match self {
            Self::Range(selector) => {
                target.put_u8(1);
                selector.encode(target);
            }
            Self::Put { key, value, lease } => {
                target.put_u8(2);
                key.encode(target);
                value.encode(target);
                lease.encode(target);
            }
            Self::Delete(selector) => {
                target.put_u8(3);
                selector.encode(target);
            }
        }
    }

    fn decode(source: &mut &[u8]) -> Result<Self, CodecError> {
        match u8::decode(source)? {
            1 => Encoded::decode(source).map(Self::Range),
            2 => Ok(Self::Put {
                key: Encoded::decode(source)?,
                value: Encoded::decode(source)?,
                lease: Encoded::decode(source)?,
            }),
            3 => Encoded::decode(source).map(Self::Delete),
            tag => Err(CodecError::Tag(tag)),
        }
    }
}
