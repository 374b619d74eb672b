//! One device of a store: its superblocks, and which of them counts.

use holdfast_format::layout::{Region, regions};
use holdfast_format::{SUPERBLOCK_BYTES, SUPERBLOCK_OFFSETS, Superblock, SuperblockError};
use holdfast_model::DiskError;

use super::damage::{Damages, Severity};
use super::source::{InUse, Source};
use crate::failure::Failure;

/// What is at one of a superblock's two places.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Copy {
    /// A superblock.
    Valid(Box<Superblock>),
    /// Something else, or one that has rotted.
    Bad(SuperblockError),
    /// The device cannot be read there, or ends before.
    Unreadable(DiskError),
}

impl Copy {
    fn at(source: &Source, offset: u64) -> Self {
        match source.read(offset, SUPERBLOCK_BYTES) {
            Err(error) => Self::Unreadable(error),
            Ok(bytes) => match Superblock::decode(&bytes) {
                Ok(found) => Self::Valid(Box::new(found)),
                Err(error) => Self::Bad(error),
            },
        }
    }

    pub(crate) fn valid(&self) -> Option<&Superblock> {
        match self {
            Self::Valid(found) => Some(found),
            Self::Bad(_) | Self::Unreadable(_) => None,
        }
    }

    /// Why it cannot be used, if it cannot.
    pub(crate) fn problem(&self) -> Option<String> {
        match self {
            Self::Valid(_) => None,
            Self::Bad(error) => Some(error.to_string()),
            Self::Unreadable(error) => Some(error.to_string()),
        }
    }
}

/// A device with a superblock that can be read.
#[derive(Debug)]
pub(crate) struct Device {
    pub(crate) source: Source,
    pub(crate) in_use: Option<InUse>,
    pub(crate) copies: [Copy; 2],
    /// The newer of the valid copies.
    pub(crate) superblock: Superblock,
}

impl Device {
    /// Reads the superblocks of a device.
    pub(crate) fn read(source: Source) -> Result<Self, Failure> {
        let in_use = source.in_use();
        let copies = SUPERBLOCK_OFFSETS.map(|offset| Copy::at(&source, offset));
        let valid = copies.iter().filter_map(|copy| copy.valid());
        match valid.max_by_key(|found| found.update).cloned() {
            Some(superblock) => Ok(Self {
                source,
                in_use,
                copies,
                superblock,
            }),
            None => Err(no_store(&source, &copies)),
        }
    }

    /// Whether the other is a device of the same store.
    pub(crate) fn belongs_with(&self, other: &Self) -> bool {
        let key = |found: &Superblock| (found.store, found.cluster, found.node, found.nonce);
        key(&self.superblock) == key(&other.superblock)
    }

    pub(crate) fn regions(&self) -> Vec<Region> {
        regions(&self.superblock.layout)
    }

    /// Says what is wrong with the superblocks, and with the device's size.
    pub(crate) fn check(&self, damages: &mut Damages) {
        let path = self.source.path();
        for (copy, offset) in self.copies.iter().zip(SUPERBLOCK_OFFSETS) {
            if let Some(problem) = copy.problem() {
                let what = format!("one of the two superblocks: {problem}");
                let place = (offset, SUPERBLOCK_BYTES as u64);
                damages.add(path, place, Severity::Spare, &what);
            }
        }
        if let [Copy::Valid(first), Copy::Valid(second)] = &self.copies
            && (first.store, first.nonce) != (second.store, second.nonce)
        {
            let what = "the two superblocks are of different stores; the newer counts".to_owned();
            damages.add_somewhere(path, Severity::Spare, what);
        }
        let (bytes, bytes_then) = (self.source.bytes(), self.superblock.device_bytes);
        if bytes < bytes_then {
            let what = format!("the device ends here; it had {bytes_then} bytes");
            let place = (bytes, bytes_then - bytes);
            damages.add(path, place, Severity::Lost, &what);
        }
    }
}

/// Why a device without a valid superblock cannot be looked at.
fn no_store(source: &Source, copies: &[Copy; 2]) -> Failure {
    let path = source.path().display();
    let nothing = |copy: &Copy| {
        matches!(
            copy,
            Copy::Bad(SuperblockError::Blank) | Copy::Unreadable(DiskError::Short)
        )
    };
    let newer = copies.iter().find_map(|copy| match copy {
        Copy::Bad(SuperblockError::NewerVersion(version)) => Some(version),
        _ => None,
    });
    if let Some(version) = newer {
        return Failure::new(format!("{path} is of format version {version}"))
            .hint("look at it with the newer program that wrote it");
    }
    let hint = "a node's devices are named in its node.toml, as devices.path";
    if copies
        .iter()
        .all(|copy| *copy == Copy::Bad(SuperblockError::Blank))
    {
        return Failure::new(format!("{path} holds no store: it is blank")).hint(hint);
    }
    let foreign = |copy: &Copy| nothing(copy) || *copy == Copy::Bad(SuperblockError::NotOurs);
    if copies.iter().all(foreign) {
        return Failure::new(format!(
            "{path} holds no store: no superblock is where one would be"
        ))
        .hint(hint);
    }
    let places: Vec<String> = copies
        .iter()
        .zip(SUPERBLOCK_OFFSETS)
        .filter_map(|(copy, offset)| Some(format!("at {offset}: {}", copy.problem()?)))
        .collect();
    Failure::new(format!(
        "{path} holds no store that can be read: {}",
        places.join("; ")
    ))
    .hint(
        "both superblocks are bad, and nothing else says where things are; the node can be given \
         a blank device, and others fill it",
    )
}
