//! Every kind of record is read as it was written, and nothing else is.

use alloc::vec;
use alloc::vec::Vec;

use holdfast_model::{
    BlockIndex, BlockRange, Change, CommandId, Entry, Epoch, Fence, Incarnation, PageIndex,
    Sequence, SliceId, VolumeId,
};
use holdfast_stdx::{Bytes, Prng};

use crate::record_bytes::{decode, encode, size};
use crate::{Body, Hole, Install, PageChange, PageSet, Record};

fn every_kind() -> Vec<Record> {
    let mut set = PageSet::new();
    set.set(PageIndex(0), true);
    set.set(PageIndex(16_383), true);
    let command = CommandId {
        node: 1,
        incarnation: Incarnation(2),
        number: 3,
    };
    let write = Change::write(BlockIndex(62), Bytes::from(vec![7; 3 * 4096]));
    let bodies = vec![
        Body::Entry(Entry {
            epoch: Epoch(1),
            sequence: Sequence(2),
            fence: Fence(3),
            command,
            change: write.clone(),
        }),
        Body::Entry(Entry {
            epoch: Epoch(1),
            sequence: Sequence(3),
            fence: Fence(3),
            command,
            change: Change::Clear(BlockRange::slice()),
        }),
        Body::Entry(Entry {
            epoch: Epoch(1),
            sequence: Sequence(4),
            fence: Fence(3),
            command: CommandId::default(),
            change: Change::Nothing,
        }),
        Body::Placed {
            entry: Entry {
                epoch: Epoch(1),
                sequence: Sequence(5),
                fence: Fence(3),
                command,
                // Whoever reads it gets none.
                change: Change::Write {
                    start: BlockIndex(128),
                    data: Bytes::new(),
                    checksums: (1..=128).collect(),
                },
            },
            slots: vec![17, 0],
        },
        Body::Install {
            as_of: Sequence(9),
            install: Install::Change(write),
        },
        Body::Install {
            as_of: Sequence(9),
            install: Install::Change(Change::Clear(BlockRange::new(5, 6))),
        },
        Body::Install {
            as_of: Sequence(9),
            install: Install::Bad(BlockRange::new(5, 6)),
        },
        Body::BeginEpoch {
            epoch: Epoch(4),
            after: Sequence(2),
        },
        Body::Position {
            epoch: Epoch(4),
            sequence: Sequence(2),
            restart: true,
            damaged: false,
        },
        Body::Mended(Vec::new()),
        Body::Mended(vec![
            Hole {
                first_group: 7,
                next_group: 8,
            },
            Hole {
                first_group: 1 << 40,
                next_group: u64::MAX,
            },
        ]),
        Body::State(Bytes::from_static(b"some state")),
        Body::State(Bytes::new()),
        Body::Pages(vec![
            PageChange {
                page: PageIndex(1),
                present: true,
            },
            PageChange {
                page: PageIndex(16_383),
                present: false,
            },
        ]),
        Body::Checkpoint(set),
        Body::Commands(vec![(command, Sequence(2)), (command, Sequence(3))]),
        Body::DropSlice,
    ];
    bodies
        .into_iter()
        .map(|body| Record {
            slice: SliceId {
                volume: VolumeId(8),
                index: 9,
            },
            committed: Sequence(1),
            body,
        })
        .collect()
}

#[test]
fn what_is_written_is_read() {
    for record in every_kind() {
        let mut header = Vec::new();
        encode(&record, 0, &mut header);
        let data = record.data().cloned().unwrap_or_default();
        assert_eq!(size(&record), (header.len(), data.len()));
        let (found, length, bad) = decode(&header, &data).expect("a record");
        assert_eq!(found, record);
        assert_eq!(length, header.len());
        assert!(bad.is_empty());
    }
}

#[test]
fn garbage_is_refused_and_never_panics() {
    let mut prng = Prng::from_seed(1);
    for record in every_kind() {
        let mut header = Vec::new();
        encode(&record, 0, &mut header);
        let data = record.data().cloned().unwrap_or_default();
        for cut in 0..header.len() {
            assert!(
                decode(&header[..cut], &data).is_none(),
                "{record:?} cut at {cut}"
            );
        }
        for _ in 0..2_000 {
            let mut bytes = header.clone();
            for _ in 0..=prng.below(4) {
                let at = prng.below(bytes.len() as u64) as usize;
                bytes[at] = prng.next_u64() as u8;
            }
            // Some changes give another record; none may do more than that.
            let _ = decode(&bytes, &data);
            let _ = decode(&bytes, &Bytes::new());
        }
    }
    for _ in 0..20_000 {
        let mut bytes = vec![0; 128];
        prng.fill(&mut bytes);
        bytes[0] = prng.below(12) as u8;
        bytes[4..8].copy_from_slice(&128_u32.to_le_bytes());
        let _ = decode(&bytes, &Bytes::new());
    }
}
