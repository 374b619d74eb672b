//! Hosts have volumes copied, through the portal of a node that has them all.

use holdfast_engine::PortalEvent;
use holdfast_iscsi::initiator::{CommandRequest, CommandTag, Completion};
use holdfast_model::record::{
    self, AccessNexus, AccessRecord, CLUSTER_KEY, ClusterRecord, ExportRecord, InitiatorRecord,
    Membership, Record, Registration, Reservation, ReservationKind, SliceRecord,
};
use holdfast_model::{BlockIndex, CommandId, Epoch, Fence, Incarnation, SliceId, VolumeId};
use holdfast_scsi::Identity;
use holdfast_scsi::limits::{COPIES_MAX, COPIES_PER_NEXUS_MAX, COPY_STEP_BYTES};
use holdfast_stdx::Bytes;
use holdfast_wire::{
    Contents, CopySource, EndTasks, Forward, ForwardKind, Forwarded, Message, OutcomeCode, Settle,
    TasksEnded, Unread, WIRE_VERSION,
};

use crate::bench;
use crate::bench::host::{Host, UNIT, initiator, volume_document};
use crate::bench::{Bench, CLUSTER, ME, PEER, first_record, record_of_peer, store_of};

const ONE: VolumeId = VolumeId(1);
const TWO: VolumeId = VolumeId(2);
/// Blocks in one step.
const STEP: u16 = (COPY_STEP_BYTES / 512) as u16;
/// So many endings of a peer are kept an account of.
const ENDINGS: u64 = 256;

/// Two volumes of 16 MiB, each a target of its own.
fn two_volumes() -> Bench {
    with_two_volumes(Vec::new())
}

fn with_two_volumes(mut documents: Vec<(String, Bytes)>) -> Bench {
    let cluster = ClusterRecord {
        schema: 1,
        cluster: CLUSTER,
        next_volume: VolumeId(3),
        recoveries: 0,
        incarnation_floor: Incarnation::ZERO,
    };
    documents.push((CLUSTER_KEY.to_owned(), cluster.encode()));
    for volume in [ONE, TWO] {
        documents.push(volume_document(volume));
        let slice = SliceId { volume, index: 0 };
        let record = SliceRecord {
            slice,
            ..first_record()
        };
        let key = SliceRecord::key(slice);
        if !documents.iter().any(|(known, _)| *known == key) {
            documents.push((key, record.encode()));
        }
    }
    for host in [1, 2] {
        let record = InitiatorRecord {
            schema: 1,
            name: initiator(host),
            chap: None,
            mutual: None,
        };
        documents.push((InitiatorRecord::key(&record.name), record.encode()));
    }
    Bench::new(&documents)
}

fn sixteen(operation: u8, first: u64, count: u32) -> [u8; 16] {
    let mut cdb = [0; 16];
    cdb[0] = operation;
    cdb[2..10].copy_from_slice(&first.to_be_bytes());
    cdb[10..14].copy_from_slice(&count.to_be_bytes());
    cdb
}

fn write(first: u64, data: Vec<u8>) -> CommandRequest {
    let cdb = sixteen(0x8A, first, (data.len() / 512) as u32);
    CommandRequest::new(UNIT, &cdb).writing(vec![Bytes::from(data)])
}

fn read(first: u64, count: u32) -> CommandRequest {
    CommandRequest::new(UNIT, &sixteen(0x88, first, count)).reading(count * 512)
}

/// EXTENDED COPY of the first blocks of a volume to another place of one.
fn copy(identifier: u8, from: VolumeId, to: (VolumeId, u64), count: u16) -> CommandRequest {
    let mut list = vec![identifier, 0, 0, 64, 0, 0, 0, 0, 0, 0, 0, 28, 0, 0, 0, 0];
    for volume in [from, to.0] {
        list.extend([0xE4, 0, 0, 0, 0x01, 0x03, 0, 16]);
        list.extend(Identity::of_volume(CLUSTER, volume).naa());
        list.extend([0, 0, 0, 0, 0, 0, 0x02, 0]);
    }
    list.extend([0x02, 0, 0, 0x18, 0, 0, 0, 1, 0, 0]);
    list.extend(count.to_be_bytes());
    list.extend([0; 8]);
    list.extend(to.1.to_be_bytes());
    let mut cdb = [0; 16];
    (cdb[0], cdb[13]) = (0x83, list.len() as u8);
    CommandRequest::new(UNIT, &cdb).writing(vec![Bytes::from(list)])
}

/// COPY STATUS: COPY MANAGER STATUS, segments and bytes.
fn status(host: &mut Host, bench: &mut Bench, identifier: u8) -> (u8, u16, u32) {
    let mut cdb = [0; 16];
    (cdb[0], cdb[2], cdb[13]) = (0x84, identifier, 12);
    let request = CommandRequest::new(UNIT, &cdb).reading(12);
    let completion = host.complete(bench, request);
    assert_eq!(completion.status, 0x00);
    let data = completion.data_in.concat();
    let bytes = u32::from_be_bytes(data[8..12].try_into().expect("four bytes"));
    (data[4], u16::from_be_bytes([data[5], data[6]]), bytes)
}

/// Sense key, code and INFORMATION of a command that has failed.
fn sense(completion: &Completion) -> (u8, u16, u32) {
    assert_eq!(completion.status, 0x02);
    let sense = &completion.sense;
    let word = |at: usize| u32::from_be_bytes(sense[at..at + 4].try_into().expect("four bytes"));
    (sense[2], (word(12) >> 16) as u16, word(3))
}

/// A copy of two steps, the first of which waits for the disk.
fn copying(bench: &mut Bench, host: &mut Host) -> CommandTag {
    bench.held = Some(Vec::new());
    bench.holds_writes = true;
    let tag = host.submit(bench, copy(7, ONE, (TWO, 0), 2 * STEP));
    bench.pass(10);
    host.run(bench);
    assert!(host.done.is_empty());
    assert_eq!(status(host, bench, 7), (0x00, 0, 0));
    tag
}

/// The disk works again: how the copy ends.
fn ended(bench: &mut Bench, host: &mut Host, tag: CommandTag) -> Completion {
    bench.holds_writes = false;
    bench.release();
    bench.pass(100);
    host.run(bench);
    host.done.remove(&tag).expect("the copy is answered")
}

#[test]
fn what_is_copied_is_there() {
    let mut bench = two_volumes();
    let mut one = Host::log_in(&mut bench, 1, ONE);
    let mut two = Host::log_in(&mut bench, 1, TWO);
    let data: Vec<u8> = (0..3 * 512).map(|at| (at / 7) as u8).collect();
    assert_eq!(one.complete(&mut bench, write(1, data.clone())).status, 0);
    let stale = vec![0xEE; 8 * 512];
    assert_eq!(two.complete(&mut bench, write(9, stale)).status, 0);
    // Asked of the one or of the other, over the border of a block, and over a step that is empty.
    for host in [&mut one, &mut two] {
        let request = copy(7, ONE, (TWO, 10), 2 * STEP);
        let completion = host.complete(&mut bench, request);
        assert_eq!(completion.status, 0, "{completion:?}");
        let bytes = 2 * COPY_STEP_BYTES as u32;
        assert_eq!(status(host, &mut bench, 7), (0x01, 1, bytes));
    }
    let found = two.complete(&mut bench, read(9, 8)).data_in.concat();
    assert_eq!(found[..512], [0xEE; 512]);
    assert_eq!(found[512..1024], [0; 512]);
    assert!(found[1024..1024 + data.len()] == data);
    assert_eq!(found[1024 + data.len()..], vec![0; 3 * 512]);
    // Within one, over itself.
    let completion = two.complete(&mut bench, copy(7, TWO, (TWO, 1), 12));
    assert_eq!(completion.status, 0);
    let found = two.complete(&mut bench, read(11, 3)).data_in.concat();
    assert!(found == [&[0; 512], &data[..512], &data[1024..]].concat());
}

fn export(bench: &mut Bench, volume: VolumeId, hosts: &[u8]) {
    let mut record = ExportRecord::nobody(volume);
    record.initiators = hosts.iter().map(|host| initiator(*host)).collect();
    bench.put(&ExportRecord::key(volume), record.encode());
}

#[test]
fn what_a_host_may_not_see_it_cannot_copy() {
    let mut bench = two_volumes();
    export(&mut bench, TWO, &[2]);
    let mut first = Host::log_in(&mut bench, 1, ONE);
    let mut second = Host::log_in(&mut bench, 2, ONE);
    for (from, to) in [(ONE, TWO), (TWO, ONE)] {
        let refused = first.complete(&mut bench, copy(7, from, (to, 0), 8));
        assert_eq!(sense(&refused), (0xA, 0x0D02, 0));
        assert_eq!(status(&mut first, &mut bench, 7), (0x02, 0, 0));
        let done = second.complete(&mut bench, copy(7, from, (to, 0), 8));
        assert_eq!(done.status, 0, "{done:?}");
    }
    // What there is not at all is told alike.
    let refused = first.complete(&mut bench, copy(7, ONE, (VolumeId(9), 0), 8));
    assert_eq!(sense(&refused), (0xA, 0x0D02, 0));
}

#[test]
fn a_volume_that_is_taken_from_a_host_is_not_copied_on() {
    let mut bench = two_volumes();
    let mut host = Host::log_in(&mut bench, 1, ONE);
    let tag = copying(&mut bench, &mut host);
    export(&mut bench, TWO, &[2]);
    let completion = ended(&mut bench, &mut host, tag);
    assert_eq!(sense(&completion), (0xA, 0x0D02, STEP.into()));
    let bytes = COPY_STEP_BYTES as u32;
    assert_eq!(status(&mut host, &mut bench, 7), (0x02, 0, bytes));
}

/// Whichever of the two it is: its slice is gone as well, and what waits for that ends when anything does.
#[test]
fn the_copy_of_a_volume_that_is_deleted_ends() {
    for volume in [ONE, TWO] {
        let mut bench = two_volumes();
        let mut host = Host::log_in(&mut bench, 1, ONE);
        let mut other = Host::log_in(&mut bench, 1, TWO);
        let asked = match volume {
            ONE => &mut other,
            _ => &mut host,
        };
        let tag = copying(&mut bench, asked);
        bench.delete(volume);
        bench.holds_writes = false;
        bench.release();
        for _ in 0..40 {
            bench.pass(1000);
            asked.run(&mut bench);
        }
        let completion = asked.done.remove(&tag).expect("the copy is answered");
        let (key, additional, _) = sense(&completion);
        assert_eq!((key, additional), (0xA, 0x0D02), "{completion:?}");
    }
}

/// Somebody else takes the volume that is written for writes; or the one that is read, which is of no matter to whoever reads.
#[test]
fn a_volume_that_is_reserved_meanwhile_is_not_written_on() {
    for (volume, is_stopped) in [(TWO, true), (ONE, false)] {
        let mut bench = two_volumes();
        let mut host = Host::log_in(&mut bench, 1, ONE);
        let tag = copying(&mut bench, &mut host);
        let nexus = AccessNexus {
            initiator: initiator(2),
            isid: record::Isid([0x80, 0, 0, 0, 0, 2]),
            port: ME,
        };
        let mut record = AccessRecord::open(volume);
        record.registrations = vec![Registration {
            nexus: nexus.clone(),
            key: 5,
            all_target_ports: false,
        }];
        record.reservation = Some(Reservation {
            kind: ReservationKind::WriteExclusive,
            holder: Some(nexus),
        });
        (record.fence, record.changes) = (Fence(1), 1);
        bench.put(&AccessRecord::key(volume), record.encode());
        let completion = ended(&mut bench, &mut host, tag);
        match is_stopped {
            true => assert_eq!(sense(&completion).1, 0x0D01),
            false => assert_eq!(completion.status, 0),
        }
    }
}

/// A reset of the unit that is written ends the copy that another unit was asked for, and is answered when that is over.
#[test]
fn a_reset_of_either_unit_ends_a_copy() {
    let mut bench = two_volumes();
    let mut host = Host::log_in(&mut bench, 1, ONE);
    let mut other = Host::log_in(&mut bench, 2, TWO);
    let tag = copying(&mut bench, &mut host);
    let reset = other.reset(&mut bench);
    bench.pass(1000);
    other.run(&mut bench);
    assert!(other.managed.is_empty(), "the copy is not over");
    let completion = ended(&mut bench, &mut host, tag);
    assert_eq!(sense(&completion), (0xA, 0x0D01, STEP.into()));
    bench.pass(5000);
    other.run(&mut bench);
    assert_eq!(other.managed.get(&reset), Some(&0));
}

#[test]
fn a_copy_that_is_aborted_goes_on_no_more() {
    let mut bench = two_volumes();
    let mut host = Host::log_in(&mut bench, 1, ONE);
    let tag = copying(&mut bench, &mut host);
    host.initiator
        .abort(tag, &mut host.out)
        .expect("the command is under way");
    host.run(&mut bench);
    bench.holds_writes = false;
    bench.release();
    bench.pass(100);
    host.run(&mut bench);
    assert_eq!(host.managed.get(&tag), Some(&0));
    assert!(host.done.is_empty());
    assert_eq!(status(&mut host, &mut bench, 7), (0x02, 0, 0));
}

#[test]
fn the_copy_of_a_session_that_is_lost_goes_on_no_more() {
    let mut bench = two_volumes();
    let mut two = Host::log_in(&mut bench, 2, TWO);
    let stale = vec![0xEE; 512];
    let last = 2 * u64::from(STEP) - 1;
    assert_eq!(
        two.complete(&mut bench, write(last, stale.clone())).status,
        0
    );
    let mut host = Host::log_in(&mut bench, 1, ONE);
    copying(&mut bench, &mut host);
    let connection = host.connection;
    bench.at_portal(PortalEvent::Closed { connection });
    bench.holds_writes = false;
    bench.release();
    bench.pass(1000);
    let found = two.complete(&mut bench, read(last, 1)).data_in.concat();
    assert_eq!(found, stale);
}

/// More copies than there may be are to come again; other commands are done.
#[test]
fn copies_are_bounded() {
    let mut bench = two_volumes();
    let mut hosts: Vec<Host> = [1, 2]
        .into_iter()
        .flat_map(|host| [(host, ONE), (host, TWO)])
        .map(|(host, volume)| Host::log_in(&mut bench, host, volume))
        .collect();
    bench.held = Some(Vec::new());
    bench.holds_writes = true;
    let mut left = COPIES_MAX;
    for host in &mut hosts {
        for identifier in 0..COPIES_PER_NEXUS_MAX as u8 + 1 {
            host.submit(&mut bench, copy(identifier, ONE, (TWO, 0), STEP));
        }
        let busy = host.done.values().filter(|it| it.status == 0x08).count();
        let taken = left.min(COPIES_PER_NEXUS_MAX);
        assert_eq!(busy, COPIES_PER_NEXUS_MAX + 1 - taken);
        assert_eq!(host.done.len(), busy);
        host.done.clear();
        left -= taken;
        assert_eq!(host.complete(&mut bench, read(0, 1)).status, 0);
    }
    bench.holds_writes = false;
    bench.release();
    bench.pass(100);
    let mut done = 0;
    for host in &mut hosts {
        host.run(&mut bench);
        assert!(host.done.values().all(|it| it.status == 0));
        done += host.done.len();
    }
    assert_eq!(done, COPIES_MAX);
}

/// Has everything copied while each step takes its time, and says whether that was done; `between` is what happens meanwhile, after
/// so many steps.
fn copies_slowly(
    bench: &mut Bench,
    host: &mut Host,
    mut between: impl FnMut(&mut Bench, &mut Host, u32),
) -> Completion {
    let steps = (16 << 20) / COPY_STEP_BYTES as u32;
    (bench.held, bench.holds_writes) = (Some(Vec::new()), true);
    let tag = host.submit(bench, copy(7, ONE, (TWO, 0), 8 * STEP - 1));
    for step in 0..steps {
        bench.pass(600);
        between(bench, host, step);
        bench.release_held();
    }
    bench.holds_writes = false;
    bench.release();
    bench.pass(4000);
    host.run(bench);
    host.done.remove(&tag).expect("the copy is answered")
}

/// A copy goes on for as long as its host is there.
#[test]
fn a_copy_lasts_longer_than_a_write_lives_if_its_host_waits() {
    let mut bench = two_volumes();
    let mut host = Host::log_in(&mut bench, 1, ONE);
    let completion = copies_slowly(&mut bench, &mut host, |bench, host, _| host.run(bench));
    assert_eq!(completion.status, 0, "{completion:?}");
    // What is asked is not answered from now on.
    let completion = copies_slowly(&mut bench, &mut host, |_, _, _| ());
    let (key, additional, residue) = sense(&completion);
    assert_eq!((key, additional), (0xA, 0x0D01));
    assert!(residue > u32::from(STEP), "{residue}");
}

/// The peer answers what it was asked.
fn answer(bench: &mut Bench) -> u32 {
    let mut count = 0;
    for message in std::mem::take(&mut bench.sent) {
        if let Message::Settle(Settle { slice, command }) = message {
            let forwarded = Forwarded {
                slice,
                command,
                outcome: OutcomeCode::NotPrimary,
                contents: Contents::new(),
            };
            bench.receive(forwarded.into());
            count += 1;
        }
    }
    count
}

/// Another node may have been asked to reset a unit: it waits for what had arrived here before for no longer than a write lives.
#[test]
fn a_copy_lasts_longer_than_a_write_lives_if_every_node_is_heard() {
    let peer = record_of_peer(store_of(PEER), 1);
    let mut bench = with_two_volumes(vec![peer]);
    bench.connect_as(WIRE_VERSION);
    bench.pass(200);
    let mut host = Host::log_in(&mut bench, 1, ONE);
    let mut asked = 0;
    let completion = copies_slowly(&mut bench, &mut host, |bench, host, _| {
        host.run(bench);
        asked += answer(bench);
    });
    assert_eq!(completion.status, 0, "{completion:?}");
    assert!(asked > 3, "{asked}");
    // There are no copies any more: nothing is asked.
    answer(&mut bench);
    bench.pass(2000);
    host.run(&mut bench);
    assert_eq!(answer(&mut bench), 0);
    // It answers no more, or is not there.
    let completion = copies_slowly(&mut bench, &mut host, |bench, host, _| host.run(bench));
    assert_eq!(sense(&completion).1, 0x0D01);
    bench.disconnect();
    let completion = copies_slowly(&mut bench, &mut host, |bench, host, _| host.run(bench));
    assert_eq!(sense(&completion).1, 0x0D01);
    // What was not heard for longer than a write lives does not count, whatever is heard then.
    bench.connect_as(WIRE_VERSION);
    bench.pass(200);
    // Its access state has changed.
    let told = host.complete(&mut bench, CommandRequest::new(UNIT, &[0; 6]));
    assert_eq!(sense(&told), (0x6, 0x2A06, 0));
    let completion = copies_slowly(&mut bench, &mut host, |bench, host, step| {
        host.run(bench);
        if step > 5 {
            answer(bench);
        }
    });
    assert_eq!(sense(&completion).1, 0x0D01);
}

/// Two volumes, of which the peer, which is linked, leads one.
fn with_one_led_by_peer(volume: VolumeId) -> Bench {
    with_one_led_by_older_peer(volume, WIRE_VERSION)
}

fn with_one_led_by_older_peer(volume: VolumeId, version: u16) -> Bench {
    let peer = record_of_peer(store_of(PEER), 1);
    let slice = SliceId { volume, index: 0 };
    let led = SliceRecord {
        epoch: Epoch(2),
        slice,
        primary: PEER,
        preferred: PEER,
        replicas: vec![bench::replica(PEER, Membership::InSync)],
        ..first_record()
    };
    let mut bench = with_two_volumes(vec![peer, (SliceRecord::key(slice), led.encode())]);
    bench.connect_as(version);
    bench.pass(200);
    bench
}

/// The first command of a session is told that states of ports have changed, and so on.
fn settled(bench: &mut Bench, hosts: &mut [&mut Host]) {
    bench.pass(5000);
    for host in hosts {
        for _ in 0..2 {
            host.complete(bench, CommandRequest::new(UNIT, &[0; 6]));
        }
    }
    bench.sent.clear();
}

/// What the peer has been asked to do since that was looked at.
fn asked(bench: &mut Bench) -> Vec<Forward> {
    let sent = std::mem::take(&mut bench.sent);
    let forwards = sent.into_iter().filter_map(|message| match message {
        Message::Forward(forward) => Some(forward),
        _ => None,
    });
    forwards.collect()
}

/// The peer, which is asked to copy and nothing else, answers all of that alike for a while.
fn answer_all(bench: &mut Bench, milliseconds: u64, outcome: OutcomeCode) {
    for _ in 0..milliseconds / 5 {
        for Forward {
            slice,
            command,
            kind,
            ..
        } in asked(bench)
        {
            assert!(matches!(kind, ForwardKind::Copy { .. }), "{kind:?}");
            let contents = Contents::new();
            let answer = Forwarded {
                slice,
                command,
                outcome,
                contents,
            };
            bench.receive(answer.into());
        }
        bench.pass(5);
    }
}

/// Whoever leads what is written is told what to copy, and by which access that may be read; what is copied is not sent, and not
/// read here.
#[test]
fn who_leads_what_is_written_copies() {
    let mut bench = with_one_led_by_peer(TWO);
    let mut host = Host::log_in(&mut bench, 1, ONE);
    settled(&mut bench, &mut [&mut host]);
    let mut record = AccessRecord::open(ONE);
    (record.fence, record.changes) = (Fence(3), 1);
    bench.put(&AccessRecord::key(ONE), record.encode());
    let tag = host.submit(&mut bench, copy(7, ONE, (TWO, 8), 2 * STEP));
    let sources: Vec<CopySource> = asked(&mut bench)
        .iter()
        .map(|forward| match forward.kind {
            ForwardKind::Copy { offset, source } => {
                assert_eq!((forward.slice.volume, forward.fence), (TWO, Fence::ZERO));
                assert_eq!(offset, source.offset + 8 * 512);
                source
            }
            ref other => panic!("{other:?}"),
        })
        .collect();
    // The borders of both cut it.
    let lengths: Vec<u32> = sources.iter().map(|source| source.length).collect();
    let step = COPY_STEP_BYTES as u32;
    assert_eq!(lengths, [step / 2 - 4096, 4096, step / 2 - 4096]);
    for source in sources {
        assert_eq!((source.slice.volume, source.fence), (ONE, Fence(3)));
    }
    host.run(&mut bench);
    assert!(host.done.is_empty());
    // It is not answered: what has a number may be done.
    let aborting = host.initiator.abort(tag, &mut host.out);
    aborting.expect("it is under way");
    host.run(&mut bench);
    let settles = bench.sent.iter();
    let settles = settles.filter(|it| matches!(it, Message::Settle(_)));
    assert_eq!(settles.count(), 3);
}

/// A peer of an older version cannot be asked: the copy is to come again.
#[test]
fn who_cannot_be_asked_to_copy_is_not_sent_what_is_copied() {
    let mut bench = with_one_led_by_older_peer(TWO, 7);
    let mut host = Host::log_in(&mut bench, 1, ONE);
    settled(&mut bench, &mut [&mut host]);
    let tag = host.submit(&mut bench, copy(7, ONE, (TWO, 0), STEP));
    for _ in 0..40 {
        bench.pass(100);
        host.run(&mut bench);
    }
    assert_eq!(asked(&mut bench), []);
    assert_eq!(host.done.remove(&tag).map(|it| it.status), Some(0x08));
}

#[test]
fn how_a_copy_ends_that_who_leads_cannot_do() {
    let lost = |block| {
        let block = BlockIndex(block);
        OutcomeCode::Unread(Unread::Lost { block })
    };
    for (outcome, status, key) in [
        (OutcomeCode::Done, 0x00, 0),
        // It is not asked too much at a time for ever, nor does nobody ever serve what is read: so long it is asked again.
        (OutcomeCode::Busy, 0x08, 0),
        (OutcomeCode::Unread(Unread::NotReady), 0x02, 0x2),
        (OutcomeCode::Unread(Unread::Fenced), 0x08, 0),
        (lost(255), 0x02, 0xA),
        (OutcomeCode::NoSpace, 0x02, 0xA),
    ] {
        let mut bench = with_one_led_by_peer(TWO);
        let mut host = Host::log_in(&mut bench, 1, ONE);
        settled(&mut bench, &mut [&mut host]);
        let tag = host.submit(&mut bench, copy(7, ONE, (TWO, 0), STEP));
        let waits = status == 0x08 || key == 0x2;
        answer_all(&mut bench, 1000, outcome);
        host.run(&mut bench);
        assert_eq!(host.done.contains_key(&tag), !waits, "{outcome:?}");
        if waits {
            answer_all(&mut bench, 2500, outcome);
            host.run(&mut bench);
        }
        let completion = host.done.remove(&tag).expect("it is answered");
        assert_eq!(completion.status, status, "{outcome:?}");
        if status == 0x02 {
            assert_eq!(sense(&completion).0, key, "{outcome:?}");
        }
        // What was only a moment is forgotten.
        if waits {
            let tag = host.submit(&mut bench, copy(7, ONE, (TWO, 0), STEP));
            answer_all(&mut bench, 100, outcome);
            answer_all(&mut bench, 100, OutcomeCode::Done);
            host.run(&mut bench);
            assert_eq!(host.done.remove(&tag).map(|it| it.status), Some(0));
        }
    }
}

/// Answers to the peer's questions, but to what became of those commands: true if one of these was asked about.
fn answer_but(bench: &mut Bench, open: &[CommandId]) {
    for message in std::mem::take(&mut bench.sent) {
        match message {
            Message::EndTasks(EndTasks { number, .. }) => {
                let settled = true;
                bench.receive(TasksEnded { number, settled }.into());
            }
            Message::Settle(Settle { slice, command }) if !open.contains(&command) => {
                // Of a write that nobody has sent.
                let outcome = match slice.volume {
                    TWO => OutcomeCode::Expired,
                    _ => OutcomeCode::NotPrimary,
                };
                let contents = Contents::new();
                let answer = Forwarded {
                    slice,
                    command,
                    outcome,
                    contents,
                };
                bench.receive(answer.into());
            }
            _ => {}
        }
    }
}

/// Whoever resets a unit, and is told that it is done, finds nothing of an aborted command there afterwards: whatever unit was
/// asked for it.
#[test]
fn a_reset_waits_for_what_an_aborted_copy_writes() {
    for is_copy in [false, true] {
        let mut bench = with_one_led_by_peer(TWO);
        let mut host = Host::log_in(&mut bench, 1, if is_copy { ONE } else { TWO });
        let mut other = Host::log_in(&mut bench, 2, TWO);
        settled(&mut bench, &mut [&mut host, &mut other]);
        let request = match is_copy {
            true => copy(7, ONE, (TWO, 0), 2 * STEP),
            false => write(0, vec![1; 512]),
        };
        let tag = host.submit(&mut bench, request);
        bench.pass(10);
        host.run(&mut bench);
        let forwarded = |message: &Message| match message {
            Message::Forward(forward) => Some(forward.command),
            _ => None,
        };
        let open: Vec<CommandId> = bench.sent.iter().filter_map(forwarded).collect();
        // A step is two parts.
        assert_eq!(open.len(), if is_copy { 2 } else { 1 }, "it writes");
        let aborting = host.initiator.abort(tag, &mut host.out);
        aborting.expect("it is under way");
        host.run(&mut bench);
        let reset = other.reset(&mut bench);
        for _ in 0..5 {
            bench.pass(1);
            answer_but(&mut bench, &open);
        }
        other.run(&mut bench);
        assert_eq!(other.managed.get(&reset), None, "a copy: {is_copy}");
    }
}

/// A node that asks for more than is kept an account of waits for the answer in vain, and takes everything for over.
#[test]
fn a_copy_is_stopped_by_an_ending_of_which_no_account_is_kept() {
    let mut bench = with_one_led_by_peer(ONE);
    let mut host = Host::log_in(&mut bench, 1, TWO);
    let mut other = Host::log_in(&mut bench, 2, ONE);
    settled(&mut bench, &mut [&mut host, &mut other]);
    // It waits for the peer, and so do these endings.
    other.submit(&mut bench, write(0, vec![1; 512]));
    let ending = |number, volume| EndTasks {
        number,
        volume,
        reset: true,
    };
    for number in 0..ENDINGS {
        bench.receive(ending(number, ONE).into());
    }
    (bench.held, bench.holds_writes) = (Some(Vec::new()), true);
    let tag = host.submit(&mut bench, copy(7, TWO, (TWO, 1), 8 * STEP - 1));
    bench.pass(10);
    bench.receive(ending(ENDINGS, TWO).into());
    (bench.holds_writes, bench.held) = (false, bench.held.take());
    bench.release();
    bench.pass(3000);
    host.run(&mut bench);
    assert!(
        !host.done.contains_key(&tag),
        "it was aborted with its unit"
    );
    let ready = host.complete(&mut bench, CommandRequest::new(UNIT, &[0; 6]));
    assert_eq!(sense(&ready).1, 0x2903, "its unit was reset");
}
