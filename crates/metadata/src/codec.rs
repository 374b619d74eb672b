//! The bytes of requests, answers and events: on the wire between client and server, and in the
//! embedded store's history. Little-endian; a tag of one byte tells variants apart; strings, values
//! and lists bear their length, or count, in 32 bits.
//!
//! It refuses whatever it does not know: another tag, bytes that are left over, a length beyond
//! what is there. Nothing is allocated that the bytes at hand do not justify.
//!
//! Invariants:
//! - what is encoded is decoded to an equal value;
//! - a released tag or layout never changes its meaning: [`crate::frame::VERSION`] and the embedded
//!   store's format number rise instead.

mod answer;
mod request;

use holdfast_model::metadata::{KeyValue, LeaseId, Revision, Selector, WatchEvent};
use holdfast_stdx::{Buf, BufMut, Bytes, Duration};

/// The bytes are not what they should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CodecError {
    /// They end too early, or a length in them reaches beyond their end.
    #[error("the bytes end too early")]
    Short,
    /// There are more than there should be.
    #[error("there are bytes left over")]
    Surplus,
    /// A tag that this version does not know.
    #[error("unknown tag {0}")]
    Tag(u8),
    /// A string is not UTF-8.
    #[error("a string is not UTF-8")]
    Text,
}

/// A value with bytes of its own.
pub(crate) trait Encoded: Sized {
    /// Appends the value's bytes.
    fn encode(&self, target: &mut Vec<u8>);

    /// Takes the value's bytes from the front of `source`.
    fn decode(source: &mut &[u8]) -> Result<Self, CodecError>;
}

/// The bytes of `value`.
#[cfg(test)]
pub(crate) fn to_bytes(value: &impl Encoded) -> Vec<u8> {
    let mut target = Vec::new();
    value.encode(&mut target);
    target
}

/// The value that `source` is, and nothing more.
pub(crate) fn from_bytes<T: Encoded>(mut source: &[u8]) -> Result<T, CodecError> {
    let value = T::decode(&mut source)?;
    if source.is_empty() {
        Ok(value)
    } else {
        Err(CodecError::Surplus)
    }
}

macro_rules! number {
    ($($number:ty, $put:ident, $take:ident;)*) => {
        $(impl Encoded for $number {
            fn encode(&self, target: &mut Vec<u8>) {
                target.$put(*self);
            }

            fn decode(source: &mut &[u8]) -> Result<Self, CodecError> {
                source.$take().map_err(|_| CodecError::Short)
            }
        })*
    };
}

number! {
    u8, put_u8, try_get_u8;
    u16, put_u16_le, try_get_u16_le;
    u32, put_u32_le, try_get_u32_le;
    u64, put_u64_le, try_get_u64_le;
    u128, put_u128_le, try_get_u128_le;
}

macro_rules! newtype {
    ($($name:ident),*) => {
        $(impl Encoded for $name {
            fn encode(&self, target: &mut Vec<u8>) {
                self.0.encode(target);
            }

            fn decode(source: &mut &[u8]) -> Result<Self, CodecError> {
                u64::decode(source).map($name)
            }
        })*
    };
}

newtype!(Revision, LeaseId);

impl Encoded for bool {
    fn encode(&self, target: &mut Vec<u8>) {
        u8::from(*self).encode(target);
    }

    fn decode(source: &mut &[u8]) -> Result<Self, CodecError> {
        match u8::decode(source)? {
            0 => Ok(false),
            1 => Ok(true),
            tag => Err(CodecError::Tag(tag)),
        }
    }
}

impl Encoded for Duration {
    /// In nanoseconds; the limits keep leases far below the 584 years that fit.
    fn encode(&self, target: &mut Vec<u8>) {
        u64::try_from(self.as_nanos())
            .unwrap_or(u64::MAX)
            .encode(target);
    }

    fn decode(source: &mut &[u8]) -> Result<Self, CodecError> {
        u64::decode(source).map(Duration::from_nanos)
    }
}

fn put_length(length: usize, target: &mut Vec<u8>) {
    u32::try_from(length)
        .expect("the limits keep lengths below 4 GiB")
        .encode(target);
}

fn take<'a>(source: &mut &'a [u8]) -> Result<&'a [u8], CodecError> {
    let length = u32::decode(source)? as usize;
    let (taken, rest) = source.split_at_checked(length).ok_or(CodecError::Short)?;
    *source = rest;
    Ok(taken)
}

impl Encoded for String {
    fn encode(&self, target: &mut Vec<u8>) {
        put_length(self.len(), target);
        target.put_slice(self.as_bytes());
    }

    fn decode(source: &mut &[u8]) -> Result<Self, CodecError> {
        let text = str::from_utf8(take(source)?).map_err(|_| CodecError::Text)?;
        Ok(text.to_owned())
    }
}

impl Encoded for Bytes {
    fn encode(&self, target: &mut Vec<u8>) {
        put_length(self.len(), target);
        target.put_slice(self);
    }

    /// Copies: a slice of the frame would keep all of the frame in memory for as long as the value
    /// lives.
    fn decode(source: &mut &[u8]) -> Result<Self, CodecError> {
        take(source).map(Bytes::copy_from_slice)
    }
}

/// Appends the bytes of a list.
pub(crate) fn encode_list<T: Encoded>(items: &[T], target: &mut Vec<u8>) {
    put_length(items.len(), target);
    for item in items {
        item.encode(target);
    }
}

impl<T: Encoded> Encoded for Vec<T> {
    fn encode(&self, target: &mut Vec<u8>) {
        encode_list(self, target);
    }

    /// Grows with what is really there: the count alone reserves nothing.
    fn decode(source: &mut &[u8]) -> Result<Self, CodecError> {
        let count = u32::decode(source)?;
        (0..count)
            .map(|_| T::decode(source))
            .collect::<Result<_, _>>()
    }
}

impl Encoded for Selector {
    fn encode(&self, target: &mut Vec<u8>) {
        match self {
            Self::Key(key) => {
                target.put_u8(1);
                key.encode(target);
            }
            Self::Prefix(prefix) => {
                target.put_u8(2);
                prefix.encode(target);
            }
        }
    }

    fn decode(source: &mut &[u8]) -> Result<Self, CodecError> {
        match u8::decode(source)? {
            1 => String::decode(source).map(Self::Key),
            2 => String::decode(source).map(Self::Prefix),
            tag => Err(CodecError::Tag(tag)),
        }
    }
}

impl Encoded for KeyValue {
    fn encode(&self, target: &mut Vec<u8>) {
        self.key.encode(target);
        self.value.encode(target);
        self.create_revision.encode(target);
        self.mod_revision.encode(target);
        self.version.encode(target);
        self.lease.encode(target);
    }

    fn decode(source: &mut &[u8]) -> Result<Self, CodecError> {
        Ok(Self {
            key: Encoded::decode(source)?,
            value: Encoded::decode(source)?,
            create_revision: Encoded::decode(source)?,
            mod_revision: Encoded::decode(source)?,
            version: Encoded::decode(source)?,
            lease: Encoded::decode(source)?,
        })
    }
}

impl Encoded for WatchEvent {
    fn encode(&self, target: &mut Vec<u8>) {
        match self {
            Self::Put(new) => {
                target.put_u8(1);
                new.encode(target);
            }
            Self::Delete { key, mod_revision } => {
                target.put_u8(2);
                key.encode(target);
                mod_revision.encode(target);
            }
        }
    }

    fn decode(source: &mut &[u8]) -> Result<Self, CodecError> {
        match u8::decode(source)? {
            1 => KeyValue::decode(source).map(Self::Put),
            2 => Ok(Self::Delete {
                key: Encoded::decode(source)?,
                mod_revision: Encoded::decode(source)?,
            }),
            tag => Err(CodecError::Tag(tag)),
        }
    }
}

#[cfg(test)]
mod tests;
