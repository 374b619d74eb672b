//! What hosts are told of the ways to a volume, and when.

use holdfast_iscsi::initiator::CommandRequest;
use holdfast_model::VolumeId;
use holdfast_model::record::{Record, SliceRecord};

use crate::bench;
use crate::bench::host::{Host, UNIT, volume_document};
use crate::bench::{Bench, PEER, first_record, record_of_peer, store_of};

const VOLUME: VolumeId = VolumeId(1);
/// Longer than hosts are not told of what is worse, with what may come before it.
const FOR_LONG: u64 = 2500;

/// A node with a volume, a host at its portal, and another node that can be reached.
fn new() -> (Bench, Host) {
    let mut bench = Bench::new(&[
        volume_document(VOLUME),
        (SliceRecord::key(bench::SLICE), first_record().encode()),
        record_of_peer(store_of(PEER), 1),
    ]);
    bench.connect();
    bench.pass(FOR_LONG);
    let host = Host::log_in(&mut bench, 1, VOLUME);
    (bench, host)
}

/// Whether the host is told that something has changed: UNIT ATTENTION, ASYMMETRIC ACCESS STATE CHANGED.
fn is_told(bench: &mut Bench, host: &mut Host) -> bool {
    let completion = host.complete(bench, CommandRequest::new(UNIT, &[0; 6]));
    match completion.status {
        0x00 => false,
        0x02 => {
            let sense = completion.sense;
            assert_eq!((sense[2], sense[12], sense[13]), (0x06, 0x2A, 0x06));
            true
        }
        other => panic!("status {other:#x}"),
    }
}

/// The state of the other node's group, as the host reads it.
fn state_of_peer(bench: &mut Bench, host: &mut Host) -> u8 {
    let mut cdb = [0; 12];
    cdb[..2].copy_from_slice(&[0xA3, 0x0A]);
    cdb[8..10].copy_from_slice(&512_u16.to_be_bytes());
    let completion = host.complete(bench, CommandRequest::new(UNIT, &cdb).reading(512));
    assert_eq!(completion.status, 0);
    let data = completion.data_in.concat();
    // SPC-4 6.37: descriptors of 8 bytes, each with one port of 4.
    let groups: Vec<&[u8]> = data[4..].chunks_exact(12).collect();
    let group = groups.iter().find(|group| group[3] == PEER.0 as u8);
    group.expect("it has a group")[0] & 0xF
}

/// Its slice's record is written anew, with nothing in it that hosts hear of.
fn touch_record(bench: &mut Bench) {
    let record = SliceRecord {
        bytes_moved: bench.record().bytes_moved + 1,
        ..bench.record()
    };
    bench.put(&SliceRecord::key(bench::SLICE), record.encode());
}

#[test]
fn a_node_that_is_away_for_a_moment_nobody_hears_of() {
    let (mut bench, mut host) = new();
    assert!(!is_told(&mut bench, &mut host));
    // Something else is about to be looked at, at whichever moment in between.
    for before in [100, 500, 900, 990, 1000] {
        touch_record(&mut bench);
        bench.pass(before);
        bench.disconnect();
        bench.pass(50);
        assert!(!is_told(&mut bench, &mut host), "{before}");
        bench.connect();
        bench.pass(FOR_LONG);
        assert!(!is_told(&mut bench, &mut host), "{before}");
    }
}

#[test]
fn a_node_that_stays_away_hosts_hear_of_and_of_its_return_at_once() {
    let (mut bench, mut host) = new();
    assert_eq!(state_of_peer(&mut bench, &mut host), 1);
    bench.disconnect();
    bench.pass(900);
    assert!(!is_told(&mut bench, &mut host));
    assert_eq!(state_of_peer(&mut bench, &mut host), 1);
    bench.pass(200);
    assert!(is_told(&mut bench, &mut host));
    assert_eq!(state_of_peer(&mut bench, &mut host), 3);
    bench.connect();
    assert!(is_told(&mut bench, &mut host));
    assert_eq!(state_of_peer(&mut bench, &mut host), 1);
}

/// The node tells people of the session and of the path what the host is told.
#[test]
fn the_session_and_its_path_are_told_to_people() {
    let (mut bench, _host) = new();
    bench.pass(FOR_LONG);
    let status = bench.engine.status();
    assert_eq!(
        status.volumes[0].path,
        Some(holdfast_engine::AccessState::ActiveOptimized)
    );
    let [session] = &status.sessions[..] else {
        panic!("there is one session: {:?}", status.sessions);
    };
    assert_eq!(session.initiator.as_str(), bench::host::initiator(1));
    assert_eq!(session.target.as_str(), bench::host::target(VOLUME));
    assert_eq!(session.isid.0, [0x80, 0, 0, 0, 0, 1]);
    assert_eq!((session.from.as_str(), session.commands), ("a test", 0));
    // As of when the engine last heard of the time: a heartbeat ago at most.
    let age = session.age.as_millis();
    let least = u128::from(FOR_LONG - 1000);
    assert!((least..=FOR_LONG.into()).contains(&age), "{age} ms");
    assert!(!session.is_proved);
}
