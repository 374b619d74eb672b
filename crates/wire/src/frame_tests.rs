//! Every message there and back, and every way in which bytes may be wrong.

use alloc::vec;

use holdfast_model::metadata::Revision;
use holdfast_model::record::Bookmark;
use holdfast_model::{
    BLOCK_SIZE, BlockIndex, BlockRange, Change, ClusterId, CommandId, Entry, Epoch, Fence,
    Incarnation, NodeId, PageIndex, Sequence, SliceId, StoreId, VolumeId,
};
use holdfast_stdx::{Duration, Instant, Prng, smallvec};

use super::*;
use crate::codec::{BLOCKS_MAX, COUNTER_MAX};
use crate::message::*;
use crate::{Lane, hello::Hello};

const SLICE: SliceId = SliceId {
    volume: VolumeId(3),
    index: 1,
};
const COMMAND: CommandId = CommandId {
    node: 2,
    incarnation: Incarnation(5),
    number: 77,
};

fn data() -> Bytes {
    let mut bytes = vec![0; 2 * BLOCK_SIZE];
    Prng::from_seed(1).fill(&mut bytes);
    Bytes::from(bytes)
}

fn camp(stance: Stance, rival: Option<NodeId>) -> Camp {
    Camp {
        followers: 513,
        counts_receiver: rival.is_some(),
        goes_on: rival.is_none(),
        stance,
        rival,
    }
}

fn contents() -> Contents {
    let Change::Write {
        data, checksums, ..
    } = Change::write(BlockIndex(8), data())
    else {
        unreachable!("it was just made")
    };
    smallvec![
        Content {
            range: BlockRange::new(8, 2),
            content: BlockContent::Data { data, checksums },
        },
        Content {
            range: BlockRange::new(10, 5),
            content: BlockContent::Zero,
        },
        Content {
            range: BlockRange::new(15, 1),
            content: BlockContent::Bad,
        },
    ]
}

fn prepare(change: Change) -> Prepare {
    let entry = Entry {
        epoch: Epoch(6),
        sequence: Sequence(9),
        fence: Fence(2),
        command: COMMAND,
        change,
    };
    Prepare {
        slice: SLICE,
        epoch: Epoch(7),
        entry,
        committed: Sequence(8),
        stable: Sequence(5),
    }
}

fn prepare_held() -> PrepareHeld {
    let whole = prepare(Change::write(BlockIndex(63), data()));
    PrepareHeld::of(&whole).expect("it has data")
}

fn forward(kind: ForwardKind) -> Forward {
    Forward {
        slice: SLICE,
        command: COMMAND,
        heartbeat: Instant::from_nanos(4),
        repeated: true,
        fence: Fence::ZERO,
        kind,
    }
}

fn forwarded(outcome: OutcomeCode, contents: Contents) -> Forwarded {
    Forwarded {
        slice: SLICE,
        command: COMMAND,
        outcome,
        contents,
    }
}

fn copy(offset: u64, from: u64, length: u32) -> ForwardKind {
    let source = CopySource {
        slice: SliceId {
            volume: VolumeId(9),
            index: 2,
        },
        offset: from,
        length,
        fence: Fence(6),
    };
    ForwardKind::Copy { offset, source }
}

fn unread(why: Unread) -> Message {
    forwarded(OutcomeCode::Unread(why), Contents::new()).into()
}

fn enforce() -> Enforce {
    Enforce {
        number: 5,
        origin: NodeId(1),
        to: NodeId(3),
        volume: SLICE.volume,
        revision: Revision(77),
        record: Bytes::from_static(b"{}"),
    }
}

fn begin(role: Role) -> Begin {
    Begin {
        slice: SLICE,
        epoch: Epoch(7),
        role,
        committed: Sequence(8),
        tail: vec![(Epoch(5), Sequence(9)), (Epoch(6), Sequence(11))],
        stable: Sequence(5),
        sync: Epoch(6),
        record: Bytes::from_static(b"{}"),
        fence: Fence::ZERO,
    }
}

const BOOKMARK: Bookmark = Bookmark {
    use_id: 5,
    number: 2,
};

fn every_message() -> Vec<Message> {
    let (slice, epoch, number) = (SLICE, Epoch(7), 11);
    let (range, as_of) = (BlockRange::new(8, 8), Sequence(8));
    let refused = |refusal| Refused {
        slice,
        epoch,
        refusal,
    };
    vec![
        Heartbeat {
            sent: Instant::from_nanos(1),
            echo: Instant::from_nanos(2),
            append_age_ms: 3,
            claims: vec![Claim {
                slice,
                epoch,
                read_lease_us: 400_000,
            }],
            grants: vec![
                Grant { slice, epoch },
                Grant {
                    slice,
                    epoch: Epoch(8),
                },
            ],
        }
        .into(),
        begin(Role::InSync).into(),
        begin(Role::JoiningFast).into(),
        begin(Role::JoiningFull).into(),
        begin(Role::JoiningCompared).into(),
        Holdings {
            slice,
            epoch,
            pages: [0, 1, 9, 16_383].map(PageIndex).to_vec(),
        }
        .into(),
        Digest {
            slice,
            epoch,
            number,
            page: PageIndex(16_383),
            blocks: 1 << 63 | 0b101,
        }
        .into(),
        Digests {
            slice,
            epoch,
            number,
            as_of,
            digests: vec![
                BlockDigest::Zero,
                BlockDigest::Data([7; 16]),
                BlockDigest::Bad,
            ],
        }
        .into(),
        prepare(Change::write(BlockIndex(63), data())).into(),
        prepare(Change::Clear(range)).into(),
        prepare(Change::Nothing).into(),
        prepare_held().into(),
        Prepared {
            slice,
            epoch,
            through: Sequence(9),
            stable: Sequence(5),
        }
        .into(),
        Commit {
            slice,
            epoch,
            committed: Sequence(9),
            stable: Sequence(5),
        }
        .into(),
        refused(Refusal::StaleEpoch).into(),
        refused(Refusal::NotThatReplica).into(),
        refused(Refusal::Failed).into(),
        Query { slice, epoch }.into(),
        QueryReply {
            slice,
            epoch,
            in_sync: true,
            prepared: (Epoch(6), Sequence(9)),
            committed: Sequence(8),
        }
        .into(),
        Resign { slice, epoch }.into(),
        JoinRequest {
            slice,
            store: StoreId(9),
            stable: Sequence(5),
            usable: true,
            sync: Epoch(6),
        }
        .into(),
        Copy {
            slice,
            epoch,
            number,
            as_of,
            contents: contents(),
        }
        .into(),
        Copied {
            slice,
            epoch,
            number,
        }
        .into(),
        Reserve {
            slice,
            epoch,
            number,
            range,
        }
        .into(),
        Reserved {
            slice,
            epoch,
            number,
            granted: true,
        }
        .into(),
        forward(ForwardKind::Write {
            offset: 512,
            data: data().slice(..1024),
        })
        .into(),
        forward(ForwardKind::Clear(range)).into(),
        forward(ForwardKind::Read(range)).into(),
        Forward {
            repeated: false,
            fence: Fence(4),
            ..forward(ForwardKind::Read(range))
        }
        .into(),
        enforce().into(),
        Begin {
            fence: Fence(4),
            ..begin(Role::InSync)
        }
        .into(),
        Enforced {
            number,
            origin: NodeId(1),
            from: NodeId(3),
            volume: slice.volume,
            fence: Fence(4),
            led: vec![(0, epoch), (2, Epoch(1))],
        }
        .into(),
        Space {
            pages: 4000,
            pages_free: 1000,
            volumes: vec![(slice.volume, 7), (VolumeId(9), 0)],
        }
        .into(),
        forwarded(OutcomeCode::Fenced, Contents::new()).into(),
        forward(ForwardKind::CompareAndWrite {
            offset: 1536,
            expected: data().slice(..512),
            data: data().slice(512..1024),
        })
        .into(),
        forward(ForwardKind::Or {
            offset: 512,
            data: data(),
        })
        .into(),
        forwarded(OutcomeCode::Miscompare { position: 511 }, Contents::new()).into(),
        forward(copy(512, 1536, 1024)).into(),
        Forward {
            fence: Fence(4),
            ..forward(copy(0, 0, 512))
        }
        .into(),
        unread(Unread::NotReady),
        unread(Unread::Lost {
            block: BlockIndex(300),
        }),
        unread(Unread::Fenced),
        forwarded(OutcomeCode::Done, contents()).into(),
        forwarded(OutcomeCode::NotPrimary, Contents::new()).into(),
        forwarded(OutcomeCode::Expired, Contents::new()).into(),
        forwarded(OutcomeCode::NotReady, Contents::new()).into(),
        forwarded(OutcomeCode::NoSpace, Contents::new()).into(),
        forwarded(OutcomeCode::Busy, Contents::new()).into(),
        forwarded(OutcomeCode::MediumError, Contents::new()).into(),
        forwarded(OutcomeCode::Deposed, Contents::new()).into(),
        HandOver {
            slice,
            epoch,
            record: Bytes::from_static(b"{}"),
            slow: true,
        }
        .into(),
        Settle {
            slice,
            command: COMMAND,
        }
        .into(),
        EndTasks {
            number,
            volume: SLICE.volume,
            reset: true,
        }
        .into(),
        TasksEnded {
            number,
            settled: true,
        }
        .into(),
        Vouch { bookmark: BOOKMARK }.into(),
        Vouched {
            bookmark: BOOKMARK,
            is_there: true,
            age: Duration::from_secs(1),
        }
        .into(),
        camp(Stance::Sure, None).into(),
        camp(Stance::Undecided, Some(NodeId(7))).into(),
        camp(Stance::Yields, Some(NodeId(7))).into(),
        camp(Stance::Told, Some(NodeId(7))).into(),
        Fetch {
            slice,
            epoch,
            number,
            range,
        }
        .into(),
        Fetched {
            slice,
            epoch,
            number,
            as_of,
            contents: contents(),
        }
        .into(),
        Verify {
            slice,
            epoch,
            number,
            from: PageIndex(3),
            page: PageIndex(16_383),
        }
        .into(),
        Verified {
            slice,
            epoch,
            number,
            as_of,
            written: Sequence(7),
            extra: vec![PageIndex(3), PageIndex(16_382)],
            digests: vec![BlockDigest::Data([9; 16]), BlockDigest::Zero],
        }
        .into(),
        Correct {
            slice,
            epoch,
            as_of,
            contents: contents(),
        }
        .into(),
        Supply {
            slice,
            epoch,
            number,
            to: NodeId(3),
            from: Sequence(7),
            page: PageIndex(16_383),
            blocks: 1 << 63 | 5,
        }
        .into(),
        supplied(SupplyOutcome::Sent {
            number,
            bytes: 12_288,
        }),
        supplied(SupplyOutcome::NotSent { number }),
        supplied(SupplyOutcome::LinkLost),
    ]
}

fn supplied(outcome: SupplyOutcome) -> Message {
    Supplied {
        slice: SLICE,
        epoch: Epoch(7),
        to: NodeId(3),
        outcome,
    }
    .into()
}

fn joined(parts: &[Bytes]) -> Vec<u8> {
    parts.concat()
}

fn read(bytes: &[u8]) -> Result<Message, WireError> {
    let header = bytes[..FRAME_HEADER_BYTES]
        .try_into()
        .expect("a frame has a header");
    let header = FrameHeader::parse(header)?;
    decode(
        &header,
        &Bytes::copy_from_slice(&bytes[FRAME_HEADER_BYTES..]),
    )
}

#[test]
fn every_message_is_read_as_it_was_written() {
    for message in every_message() {
        assert_eq!(read(&joined(&encode(&message))), Ok(message));
    }
}

#[test]
fn a_changed_bit_anywhere_is_noticed() {
    let mut prng = Prng::from_seed(2);
    for message in every_message() {
        let bytes = joined(&encode(&message));
        for _ in 0..200 {
            let mut changed = bytes.clone();
            let position = prng.below(bytes.len() as u64) as usize;
            changed[position] ^= 1 << prng.below(8);
            let header = changed[..FRAME_HEADER_BYTES]
                .try_into()
                .expect("a frame has a header");
            let parsed = FrameHeader::parse(header);
            let outcome = parsed.and_then(|header| {
                decode(
                    &header,
                    &Bytes::copy_from_slice(&changed[FRAME_HEADER_BYTES..]),
                )
            });
            assert!(
                outcome.is_err(),
                "bit flip at {position} of {message:?} went unnoticed"
            );
        }
    }
}

#[test]
fn bodies_that_lie_about_their_lengths_are_refused() {
    let mut prng = Prng::from_seed(3);
    for opcode in 0..24 {
        for _ in 0..500 {
            let mut random = vec![0; prng.below(120) as usize];
            prng.fill(&mut random);
            let mut body = Writer::new();
            body.bytes.extend(random);
            let payload = vec![0; prng.below(9000) as usize];
            let bytes = joined(&frame((1, opcode), body, vec![Bytes::from(payload)], 0));
            // Refused or read, but never a panic and never more memory than was sent.
            let _ = read(&bytes);
        }
    }
}

/// Blocks that no command of ours is about in one piece, and numbers after which there is no next
/// one: whoever reads them could not go on.
#[test]
fn what_no_honest_node_says_is_refused() {
    let (slice, epoch, number, as_of) = (SLICE, Epoch(7), 11, Sequence(8));
    let most = BLOCKS_MAX as u32;
    let zeros = |ranges: &[(u32, u32)]| -> Contents {
        let ranges = ranges.iter();
        let zeros = ranges.map(|(start, count)| Content {
            range: BlockRange::new(*start, *count),
            content: BlockContent::Zero,
        });
        zeros.collect()
    };
    let with_range = |range: BlockRange| -> Vec<Message> {
        let zeros = zeros(&[(range.start(), range.count())]);
        let fetched = Fetched {
            slice,
            epoch,
            number,
            as_of,
            contents: zeros.clone(),
        };
        let copy = Copy {
            slice,
            epoch,
            number,
            as_of,
            contents: zeros.clone(),
        };
        let fetch = Fetch {
            slice,
            epoch,
            number,
            range,
        };
        let reserve = Reserve {
            slice,
            epoch,
            number,
            range,
        };
        vec![
            fetched.into(),
            copy.into(),
            fetch.into(),
            reserve.into(),
            forward(ForwardKind::Read(range)).into(),
            forwarded(OutcomeCode::Done, zeros).into(),
        ]
    };
    for message in with_range(BlockRange::new(300, most)) {
        assert_eq!(read(&joined(&encode(&message))), Ok(message));
    }
    let mut refused = with_range(BlockRange::new(300, most + 1));
    refused.extend(with_range(BlockRange::slice()));
    let in_two = zeros(&[(0, most), (1000, 1)]);
    refused.push(forwarded(OutcomeCode::Done, in_two).into());
    let ends = [u64::MAX, COUNTER_MAX + 1];
    for end in ends {
        let committed = Sequence(end);
        let stable = Sequence(0);
        refused.push(
            Commit {
                slice,
                epoch,
                committed,
                stable,
            }
            .into(),
        );
        let epoch = Epoch(end);
        refused.push(Query { slice, epoch }.into());
    }
    let tails = [
        vec![(Epoch(5), Sequence(8))],
        vec![(Epoch(8), Sequence(9))],
        vec![(Epoch(5), Sequence(9)), (Epoch(5), Sequence(10))],
        vec![(Epoch(5), Sequence(9)), (Epoch(6), Sequence(9))],
        vec![(Epoch(6), Sequence(9)), (Epoch(5), Sequence(10))],
    ];
    for tail in tails {
        let begin = begin(Role::InSync);
        refused.push(Begin { tail, ..begin }.into());
    }
    for message in refused {
        let read = read(&joined(&encode(&message)));
        assert_eq!(read, Err(WireError::Malformed), "{message:?}");
    }
    // What is cleared may be as long as it likes.
    let clear = Message::from(forward(ForwardKind::Clear(BlockRange::slice())));
    assert_eq!(read(&joined(&encode(&clear))), Ok(clear));
}

#[test]
fn other_versions_and_endless_frames_are_refused() {
    let mut header: [u8; FRAME_HEADER_BYTES] = frame((1, 1), Writer::new(), Vec::new(), 0)[0][..]
        .try_into()
        .expect("the first part is it");
    let seal = |header: &mut [u8; FRAME_HEADER_BYTES]| {
        let checksum = crc32c(&header[..60]);
        header[60..].copy_from_slice(&checksum.to_le_bytes());
    };
    let newer = WIRE_VERSION + 1;
    header[4..6].copy_from_slice(&newer.to_le_bytes());
    seal(&mut header);
    assert_eq!(FrameHeader::parse(&header), Err(WireError::Version(newer)));
    header[4..6].copy_from_slice(&1_u16.to_le_bytes());
    header[12..16].copy_from_slice(&u32::MAX.to_le_bytes());
    seal(&mut header);
    assert_eq!(FrameHeader::parse(&header), Err(WireError::TooLong));
    let request = b"GET / HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\nUser-Agent: abcd\r\n";
    let request = request[..]
        .try_into()
        .expect("it was cut to a header's length");
    assert_eq!(FrameHeader::parse(request), Err(WireError::Magic));
}

/// Whoever speaks an older version reads what has been there since.
#[test]
fn only_what_is_new_needs_a_new_version() {
    for message in every_message() {
        let needed = encode(&message)[0][4];
        let since = match &message {
            Message::Begin(begin) if begin.fence != Fence::ZERO => 7,
            Message::Begin(begin) if begin.role == Role::JoiningCompared => 2,
            Message::Holdings(_) | Message::Digest(_) | Message::Digests(_) => 2,
            Message::Verify(_) | Message::Verified(_) | Message::Correct(_) => 3,
            Message::Supply(_) | Message::Supplied(_) => 4,
            Message::Vouch(_) | Message::Vouched(_) => 5,
            Message::Camp(_) => 6,
            Message::Enforce(_) | Message::Enforced(_) | Message::Space(_) => 7,
            Message::PrepareHeld(_) => 9,
            Message::Forward(forward) => match forward.kind {
                ForwardKind::Copy { .. } => 8,
                _ if forward.fence != Fence::ZERO => 7,
                ForwardKind::CompareAndWrite { .. } | ForwardKind::Or { .. } => 7,
                _ => 1,
            },
            Message::Forwarded(forwarded) => match forwarded.outcome {
                OutcomeCode::Unread(_) => 8,
                OutcomeCode::Miscompare { .. } | OutcomeCode::Fenced => 7,
                _ => 1,
            },
            _ => 1,
        };
        assert_eq!(needed, since, "{message:?}");
    }
}

/// Version 7, as it was released.
#[test]
fn comparisons_are_written_as_they_are_for_ever() {
    let head = |kind: u8| {
        let mut body = vec![3, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0];
        body.extend([2, 0, 5, 0, 0, 0, 0, 0, 0, 0, 77, 0, 0, 0, 0, 0, 0, 0]);
        body.extend([4, 0, 0, 0, 0, 0, 0, 0, 1, kind]);
        body
    };
    let place = |length: u8| [0, 2, 0, 0, 0, 0, 0, 0, length, 0, 0, 0];
    let compare = ForwardKind::CompareAndWrite {
        offset: 512,
        expected: Bytes::from_static(b"old"),
        data: Bytes::from_static(b"new"),
    };
    let parts = encode(&forward(compare).into());
    assert_eq!(parts[0][4..8], [7, 0, 15, 0]);
    let expected = [&head(3)[..], &place(3)].concat();
    assert_eq!(parts[0][FRAME_HEADER_BYTES..], expected);
    assert_eq!(parts[1], "oldnew");

    let or = ForwardKind::Or {
        offset: 512,
        data: Bytes::from_static(b"bits"),
    };
    let parts = encode(&forward(or).into());
    assert_eq!(parts[0][4..8], [7, 0, 15, 0]);
    let expected = [&head(4)[..], &place(4)].concat();
    assert_eq!(parts[0][FRAME_HEADER_BYTES..], expected);
    assert_eq!(parts[1], "bits");

    let miscompare = OutcomeCode::Miscompare { position: 258 };
    let parts = encode(&forwarded(miscompare, Contents::new()).into());
    assert_eq!(parts[0][4..8], [7, 0, 16, 0]);
    assert_eq!(
        parts[0][FRAME_HEADER_BYTES + 30..],
        [9, 2, 1, 0, 0, 0, 0, 0, 0]
    );
}

/// Version 8, as it was released.
#[test]
fn copies_are_written_as_they_are_for_ever() {
    let fenced = Forward {
        fence: Fence(4),
        ..forward(copy(512, 1536, 1024))
    };
    let parts = encode(&fenced.into());
    assert_eq!(parts[0][4..8], [8, 0, 15, 0]);
    let mut body = vec![3, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0];
    body.extend([2, 0, 5, 0, 0, 0, 0, 0, 0, 0, 77, 0, 0, 0, 0, 0, 0, 0]);
    body.extend([4, 0, 0, 0, 0, 0, 0, 0, 3, 4, 0, 0, 0, 0, 0, 0, 0, 5]);
    body.extend([0, 2, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0]);
    body.extend([9, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0]);
    body.extend([0, 6, 0, 0, 0, 0, 0, 0, 6, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(parts[0][FRAME_HEADER_BYTES..], body);
    assert_eq!(parts.len(), 1, "no data goes with it");

    let block = BlockIndex(258);
    for (why, tail) in [
        (Unread::NotReady, &[10, 0, 0, 0, 0, 0][..]),
        (Unread::Lost { block }, &[10, 1, 2, 1, 0, 0, 0, 0, 0, 0]),
        (Unread::Fenced, &[10, 2, 0, 0, 0, 0]),
    ] {
        let parts = encode(&unread(why));
        assert_eq!(parts[0][4..8], [8, 0, 16, 0]);
        assert_eq!(parts[0][FRAME_HEADER_BYTES + 30..], *tail);
    }
}

/// Version 9, as it was released.
#[test]
fn entries_without_data_are_written_as_they_are_for_ever() {
    let parts = encode(&prepare_held().into());
    assert_eq!(parts.len(), 1, "no data goes with it");
    assert_eq!(parts[0][4..8], [9, 0, 37, 0]);
    let mut body = vec![3, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0];
    for number in [7_u64, 8, 5, 6, 9, 2] {
        body.extend(number.to_le_bytes());
    }
    body.extend([2, 0, 5, 0, 0, 0, 0, 0, 0, 0, 77, 0, 0, 0, 0, 0, 0, 0]);
    body.extend([63, 0, 0, 0, 2, 0, 0, 0]);
    for block in data().chunks(BLOCK_SIZE) {
        body.extend(crc32c(block).to_le_bytes());
    }
    assert_eq!(parts[0][FRAME_HEADER_BYTES..], body);
}

#[test]
fn an_entry_is_made_whole_with_its_own_data_only() {
    let whole = prepare(Change::write(BlockIndex(63), data()));
    assert_eq!(prepare_held().with(data()), Some(whole));
    let mut other = data().to_vec();
    other[5000] ^= 1;
    let wrong = [
        Bytes::from(other),
        data().slice(..BLOCK_SIZE),
        Bytes::from([data(), data()].concat()),
        Bytes::new(),
    ];
    for other in wrong {
        assert_eq!(prepare_held().with(other), None);
    }
    assert_eq!(PrepareHeld::of(&prepare(Change::Nothing)), None);
}

#[test]
fn entries_without_data_have_limits() {
    let ask = |start, blocks| {
        let held = PrepareHeld {
            start: BlockIndex(start),
            checksums: smallvec![1; blocks],
            ..prepare_held()
        };
        read(&joined(&encode(&held.into())))
    };
    let last = (holdfast_model::SLICE_SIZE / BLOCK_SIZE as u64) as u32 - 1;
    assert!(ask(last, 1).is_ok());
    assert!(ask(0, BLOCKS_MAX).is_ok());
    for wrong in [ask(0, 0), ask(0, BLOCKS_MAX + 1), ask(last, 2)] {
        assert_eq!(wrong, Err(WireError::Malformed));
    }
}

/// No more than an entry has, where it is read and where it is written, and nothing beyond either slice.
#[test]
fn copies_have_limits() {
    let ask = |offset, from, length| {
        let kind = copy(offset, from, length);
        read(&joined(&encode(&forward(kind).into())))
    };
    let most = (BLOCKS_MAX * BLOCK_SIZE) as u32;
    let last = holdfast_model::SLICE_SIZE - 512;
    assert!(ask(0, BLOCK_SIZE as u64, most).is_ok());
    assert!(ask(512, 0, most - 512).is_ok());
    assert!(ask(last, last, 512).is_ok());
    for wrong in [
        ask(0, 0, 0),
        ask(0, 0, most + 512),
        ask(512, 0, most),
        ask(0, 512, most),
        ask(last, 0, 1024),
        ask(0, last, 1024),
        ask(u64::MAX, 0, 1),
        ask(0, u64::MAX, 1),
    ] {
        assert_eq!(wrong, Err(WireError::Malformed));
    }
}

/// More than a block is not compared, and nothing beyond the slice.
#[test]
fn comparisons_have_limits() {
    let compare = |offset, length| {
        let bytes = Bytes::from(vec![1; length]);
        let kind = ForwardKind::CompareAndWrite {
            offset,
            expected: bytes.clone(),
            data: bytes,
        };
        read(&joined(&encode(&forward(kind).into())))
    };
    let or = |offset, length| {
        let data = Bytes::from(vec![1; length]);
        read(&joined(&encode(
            &forward(ForwardKind::Or { offset, data }).into(),
        )))
    };
    let last = holdfast_model::SLICE_SIZE - 512;
    assert!(compare(512, BLOCK_SIZE).is_ok());
    assert!(compare(last, 512).is_ok());
    assert!(or(last, 512).is_ok());
    for wrong in [
        compare(0, BLOCK_SIZE + 1),
        compare(0, 0),
        compare(last, 513),
        compare(u64::MAX, 1),
        or(0, 0),
        or(last, 513),
    ] {
        assert_eq!(wrong, Err(WireError::Malformed));
    }
}

#[test]
fn pages_that_no_slice_has_are_refused() {
    let verify = |from, page| Verify {
        slice: SLICE,
        epoch: Epoch(7),
        number: 1,
        from: PageIndex(from),
        page: PageIndex(page),
    };
    assert!(read(&joined(&encode(&verify(4, 4).into()))).is_ok());
    for bad in [verify(5, 4), verify(0, 16_384)] {
        assert_eq!(
            read(&joined(&encode(&bad.into()))),
            Err(WireError::Malformed)
        );
    }
    let supply = |page, blocks| Supply {
        slice: SLICE,
        epoch: Epoch(7),
        number: 1,
        to: NodeId(3),
        from: Sequence(8),
        page: PageIndex(page),
        blocks,
    };
    assert!(read(&joined(&encode(&supply(4, 1).into()))).is_ok());
    for bad in [supply(4, 0), supply(16_384, 1)] {
        assert_eq!(
            read(&joined(&encode(&bad.into()))),
            Err(WireError::Malformed)
        );
    }
    let verified = Verified {
        slice: SLICE,
        epoch: Epoch(7),
        number: 1,
        as_of: Sequence(8),
        written: Sequence(0),
        extra: vec![PageIndex(16_384)],
        digests: Vec::new(),
    };
    assert_eq!(
        read(&joined(&encode(&verified.into()))),
        Err(WireError::Malformed)
    );
}

#[test]
fn the_first_version_of_the_header_is_read_for_ever() {
    let bytes = joined(&encode(&Message::Query(Query {
        slice: SLICE,
        epoch: Epoch(7),
    })));
    let mut expected = Vec::new();
    expected.extend_from_slice(b"HFWR\x01\x00\x07\x00\x14\x00\x00\x00\x00\x00\x00\x00");
    expected.extend_from_slice(&crc32c(&bytes[64..]).to_le_bytes());
    expected.resize(60, 0);
    assert_eq!(bytes[..60], expected);
    assert_eq!(
        bytes[64..],
        *b"\x03\0\0\0\0\0\0\0\x01\0\0\0\x07\0\0\0\0\0\0\0"
    );
}

#[test]
fn hellos_are_read_as_they_were_written() {
    for lane in [Lane::Control, Lane::Data] {
        let hello = Hello {
            cluster: ClusterId(1),
            node: NodeId(2),
            store: StoreId(3),
            incarnation: Incarnation(4),
            to: NodeId(1),
            link: 5,
            lane,
            version: 2,
        };
        let bytes = joined(&hello_to_frame(&hello));
        let header = bytes[..FRAME_HEADER_BYTES]
            .try_into()
            .expect("a frame has a header");
        let header = FrameHeader::parse(header).expect("it was just written");
        assert_eq!(header.version(), 2);
        let rest = Bytes::copy_from_slice(&bytes[FRAME_HEADER_BYTES..]);
        assert_eq!(hello_from_frame(&header, &rest), Ok(hello));
        assert_eq!(decode(&header, &rest), Err(WireError::Malformed));
    }
}
