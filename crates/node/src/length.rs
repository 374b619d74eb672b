//! How long a device is, and was when it became one of a store's.
//!
//! It refuses to judge anything else that is on a device: that is the store's.
//!
//! Invariant: a device is called cut short only where its superblock says that it was longer, or where it cannot hold
//! one.

use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::Path;

use holdfast_format::{SUPERBLOCK_BYTES, SUPERBLOCK_OFFSETS, Superblock};

/// A device that is shorter than it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cut {
    pub(crate) bytes: u64,
    /// Nothing, if it is too short to say so.
    pub(crate) bytes_then: Option<u64>,
    /// Whether it says that the journal is on it.
    pub(crate) has_journal: bool,
}

impl Cut {
    /// What is so, after the device's name.
    pub(crate) fn words(&self) -> String {
        let bytes = self.bytes;
        match self.bytes_then {
            Some(then) => format!("was cut short: it has {bytes} bytes, and had {then}"),
            None => format!("was cut short: it has {bytes} bytes, and had more"),
        }
    }
}

/// Whether a device, which is known to have been one of a store's, is there as long as it was.
pub(crate) fn is_whole(path: &Path) -> bool {
    path.exists() && cut(path).is_none()
}

/// What there is to say of a device's length, if it was longer; nothing if it is not there, or does not say it.
pub(crate) fn cut(path: &Path) -> Option<Cut> {
    let mut file = File::open(path).ok()?;
    // Of a block device there is no other way to know.
    let bytes = file.seek(SeekFrom::End(0)).ok()?;
    if bytes < SUPERBLOCK_BYTES as u64 {
        let (bytes_then, has_journal) = (None, false);
        return Some(Cut {
            bytes,
            bytes_then,
            has_journal,
        });
    }
    let read = |offset| {
        let mut block = vec![0; SUPERBLOCK_BYTES];
        file.read_exact_at(&mut block, offset).ok()?;
        Superblock::decode(&block).ok()
    };
    let found = SUPERBLOCK_OFFSETS.into_iter().filter_map(read);
    let found = found.max_by_key(|superblock| superblock.update)?;
    (bytes < found.device_bytes).then(|| Cut {
        bytes,
        bytes_then: Some(found.device_bytes),
        has_journal: found.has_journal(),
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use holdfast_format::{
        DeviceLayout, DeviceList, DeviceRole, DeviceState, JournalMark, ListedDevice, UseIds,
    };
    use holdfast_model::{ClusterId, NodeId, StoreId, Tier};

    use super::*;

    const BYTES: u64 = 80 << 20;

    /// Of the first of two devices.
    fn superblock(update: u64, has_journal: bool) -> Superblock {
        let role = DeviceRole::Journal {
            segment_bytes: 1 << 20,
            journal_bytes: None,
        };
        let layout = DeviceLayout::plan(BYTES, role).unwrap();
        let listed = |ordinal: u16, journal| ListedDevice {
            id: 7 + u64::from(ordinal),
            ordinal,
            slot_base: u32::from(ordinal) * layout.slot_count,
            slot_count: layout.slot_count,
            state: DeviceState::InUse,
            absent: None,
            journal,
        };
        let [first, second] = match has_journal {
            true => [JournalMark::Here, JournalMark::Room],
            false => [JournalMark::Room, JournalMark::Here],
        };
        Superblock {
            update,
            cluster: ClusterId(1),
            store: StoreId(2),
            nonce: 3,
            use_counter: 4,
            use_ids: UseIds::NONE,
            claimed: false,
            node: NodeId(5),
            ordinal: 0,
            device_id: 7,
            device_count: 2,
            list: DeviceList {
                generation: 1,
                next_slot: 2 * layout.slot_count,
                next_ordinal: 2,
                devices: vec![listed(0, first), listed(1, second)],
            },
            places: false,
            tier: Tier::Flash,
            sector: 512,
            partitions: 4,
            device_bytes: BYTES,
            slot_base: 0,
            layout,
        }
    }

    #[test]
    fn a_device_is_cut_short_where_it_says_that_it_was_longer() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("device");
        assert_eq!((is_whole(&path), cut(&path)), (false, None));
        // Nothing that says how long it was.
        fs::write(&path, vec![0; 8192]).unwrap();
        assert!(is_whole(&path));
        let file = File::options().write(true).open(&path).unwrap();
        file.set_len(BYTES).unwrap();
        let write = |copy: usize, superblock: Superblock| {
            file.write_all_at(&superblock.encode(), SUPERBLOCK_OFFSETS[copy])
                .unwrap();
        };
        write(0, superblock(1, false));
        write(1, superblock(2, true));
        assert!(is_whole(&path));
        let is_cut = |bytes: u64, bytes_then, has_journal| {
            file.set_len(bytes).unwrap();
            assert!(!is_whole(&path));
            let cut = cut(&path).unwrap();
            let expected = Cut {
                bytes,
                bytes_then,
                has_journal,
            };
            assert_eq!(cut, expected);
            cut.words()
        };
        let words = is_cut(BYTES - 512, Some(BYTES), true);
        assert_eq!(
            words,
            "was cut short: it has 83885568 bytes, and had 83886080"
        );
        is_cut(8192, Some(BYTES), false);
        let words = is_cut(100, None, false);
        assert!(words.ends_with("it has 100 bytes, and had more"), "{words}");
        is_cut(0, None, false);
    }
}
