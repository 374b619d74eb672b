//! Identities and counters, each a type of its own so that none is taken for another.

use core::fmt;
use core::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

macro_rules! counter {
    ($(#[$meta:meta])* $name:ident, $display:literal) => {
        $(#[$meta])*
        #[derive(
            Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize,
            Deserialize,
        )]
        #[serde(transparent)]
        pub struct $name(pub u64);

        impl $name {
            /// The one before all others.
            pub const ZERO: $name = $name(0);

            /// The one after this. Panics at the end of 64 bits, which no cluster reaches.
            #[must_use]
            pub const fn next(self) -> Self {
                Self(self.0.checked_add(1).expect("a 64-bit counter does not run out"))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(formatter, concat!($display, "{}"), self.0)
            }
        }
    };
}

counter!(
    /// Number of a slice's configuration; only ever rises.
    Epoch, "e"
);
counter!(
    /// Place of an entry in its slice's order, from 1; zero means "before the first entry".
    Sequence, "s"
);
counter!(
    /// One start of a node's process; rises with every start of the same store.
    Incarnation, "i"
);
counter!(
    /// A volume's access rights, counted: rises with every change of anybody's right to write.
    /// (It is not SCSI's PRGENERATION.)
    Fence, "f"
);
counter!(
    /// A volume for ever: never used again after the volume's deletion.
    VolumeId, "v"
);

/// One storage server of the cluster, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NodeId(pub u16);

impl fmt::Display for NodeId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "n{}", self.0)
    }
}

/// A slice: 4 GiB of a volume, the unit of replication, placement and ownership.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SliceId {
    /// The volume that it is part of.
    pub volume: VolumeId,
    /// Which part: the slice begins at `index` × 4 GiB.
    pub index: u32,
}

impl SliceId {
    /// All slices that a volume may have, in their order.
    #[must_use]
    pub const fn all_of(volume: VolumeId) -> RangeInclusive<Self> {
        let first = Self { volume, index: 0 };
        let last = Self {
            volume,
            index: u32::MAX,
        };
        RangeInclusive::new(first, last)
    }
}

impl fmt::Display for SliceId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.volume, self.index)
    }
}

macro_rules! random_id {
    ($(#[$meta:meta])* $name:ident) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u128);

        impl fmt::Display for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(formatter, "{:032x}", self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(formatter, "{:032x}", self.0)
            }
        }

        impl Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
                let text = <alloc::string::String as Deserialize>::deserialize(source)?;
                u128::from_str_radix(&text, 16).map(Self).map_err(serde::de::Error::custom)
            }
        }
    };
}

random_id!(
    /// A cluster, drawn at random when it is made.
    ClusterId
);
random_id!(
    /// A machine that runs a node: drawn at random when the node's directory is made, and kept there.
    MachineId
);
random_id!(
    /// The contents of one node's devices, drawn at random when they are formatted: a node with
    /// empty or replaced devices is a new store under an old name.
    StoreId
);

/// A write as its portal numbered it, for at-most-once: the same id is the same write, wherever it
/// turns up again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CommandId {
    /// The node whose portal took the command; zero for writes that no portal took.
    pub node: u16,
    /// That node's start.
    pub incarnation: Incarnation,
    /// The command's number within that start, from 1.
    pub number: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_ids_survive_json() {
        let store = StoreId(0x0123_4567_89ab_cdef_0011_2233_4455_6677);
        let text = serde_json::to_string(&store).expect("an id is valid JSON");
        assert_eq!(text, "\"0123456789abcdef0011223344556677\"");
        assert_eq!(
            serde_json::from_str::<StoreId>(&text).expect("what was written reads"),
            store
        );
        assert!(serde_json::from_str::<StoreId>("\"no hex\"").is_err());
    }
}
