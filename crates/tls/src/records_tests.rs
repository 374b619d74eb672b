#![allow(clippy::unwrap_used, reason = "a test fails so")]
//! Two ends without a socket: what one seals the other opens, and nothing else.

use std::time::SystemTime;

use holdfast_model::{ClusterId, NodeId};
use tempfile::TempDir;

use super::*;
use crate::{Authority, Credentials, Handshake, PeerTls, Secured, Subject};

fn peer(authority: &Authority, directory: &TempDir, node: u16) -> PeerTls {
    let path = directory.path().join(node.to_string());
    let subject = Subject {
        node: NodeId(node),
        name: format!("n{node}"),
        hosts: Vec::new(),
    };
    authority.issue(&subject, &path, SystemTime::now()).unwrap();
    PeerTls::new(&Credentials::read(&path).unwrap())
}

/// Shakes hands by pieces of so many bytes.
fn shake(mut dials: Handshake, mut answers: Handshake, piece: usize) -> (Secured, Secured) {
    let mut done = [dials.advance(&[]).unwrap(), answers.advance(&[]).unwrap()];
    while done != [true, true] {
        for piece in dials.take_outgoing().chunks(piece) {
            done[1] = answers.advance(piece).unwrap();
        }
        for piece in answers.take_outgoing().chunks(piece) {
            done[0] = dials.advance(piece).unwrap();
        }
    }
    (dials.finish().unwrap(), answers.finish().unwrap())
}

fn ends(piece: usize) -> (Secured, Secured) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("ca");
    let authority = Authority::found(&path, ClusterId(7), SystemTime::now()).unwrap();
    let (one, two) = (
        peer(&authority, &directory, 1),
        peer(&authority, &directory, 2),
    );
    shake(one.dial(), two.answer(), piece)
}

fn open_all(records: &mut Records, sealed: &mut Vec<Vec<u8>>) -> Vec<u8> {
    let mut heard = Vec::new();
    for mut record in sealed.drain(..) {
        assert_eq!(record_length(&record).unwrap(), Some(record.len()));
        if let Opened::Data(range) = records.open(&mut record).unwrap() {
            heard.extend_from_slice(&record[range]);
        }
    }
    heard
}

#[test]
fn both_know_who_the_other_is_whatever_pieces_the_handshake_comes_in() {
    for piece in [1, 100, 1 << 20] {
        let (one, two) = ends(piece);
        assert_eq!((one.node, two.node), (NodeId(2), NodeId(1)));
        assert_eq!(
            one.records.suite.common.suite,
            rustls::CipherSuite::TLS13_AES_128_GCM_SHA256
        );
    }
}

#[test]
fn what_is_sealed_in_parts_is_opened_in_one_record() {
    let (mut one, mut two) = ends(4096);
    let mut sealed = Vec::new();
    for length in [1, 2, 4096, RECORD_BYTES_MAX] {
        let said: Vec<u8> = (0..length).map(|it| it as u8).collect();
        let (first, second) = said.split_at(length / 3);
        one.records.seal(&[first, second], &mut sealed).unwrap();
        assert_eq!(sealed.len(), 1);
        assert!(sealed[0].len() <= length + 22);
        assert_eq!(open_all(&mut two.records, &mut sealed), said);
    }
    let mut end = one.records.seal_end().unwrap();
    assert_eq!(two.records.open(&mut end).unwrap(), Opened::End);
}

/// Keys that have sealed as much as they may are followed by others, and the other end by its own when it is asked to.
#[test]
fn keys_are_changed_in_time() {
    let (mut one, mut two) = ends(4096);
    one.records.sealed_max = 4;
    let mut sealed = Vec::new();
    let mut updates = 0;
    for number in 0..20_u8 {
        one.records.seal(&[&[number]], &mut sealed).unwrap();
        assert!(one.records.sealed < 4, "the limit holds");
        updates += sealed.len() - 1;
        assert_eq!(open_all(&mut two.records, &mut sealed), [number]);
        two.records.seal(&[&[number]], &mut sealed).unwrap();
        assert_eq!(open_all(&mut one.records, &mut sealed), [number]);
    }
    assert!(updates >= 5, "{updates}");
    let asks = [24, 0, 0, 1, 1];
    let mut record = one
        .records
        .seal_as(ContentType::Handshake, &[&asks])
        .unwrap();
    assert_eq!(two.records.open(&mut record).unwrap(), Opened::Nothing);
    assert!(two.records.update_due);
    two.records.seal(&[b"x"], &mut sealed).unwrap();
    assert_eq!(sealed.len(), 2);
    assert_eq!(open_all(&mut one.records, &mut sealed), b"x");
}

/// Whoever sends what brings nothing makes more work than it has.
#[test]
fn records_without_data_are_borne_for_a_while() {
    let (mut one, mut two) = ends(4096);
    let idle = |one: &mut Secured, two: &mut Secured| {
        let mut empty = one
            .records
            .seal_as(ContentType::ApplicationData, &[])
            .unwrap();
        two.records.open(&mut empty).map(drop)
    };
    let mut sealed = Vec::new();
    for _ in 0..3 {
        for _ in 0..IDLE_RECORDS_MAX {
            idle(&mut one, &mut two).unwrap();
        }
        one.records.seal(&[b"x"], &mut sealed).unwrap();
        assert_eq!(open_all(&mut two.records, &mut sealed), b"x");
    }
    for _ in 0..IDLE_RECORDS_MAX {
        idle(&mut one, &mut two).unwrap();
    }
    let last = idle(&mut one, &mut two);
    assert!(matches!(last, Err(RecordError::Malformed)), "{last:?}");
}

#[test]
fn what_was_changed_left_out_or_said_again_is_refused() {
    let seal = |one: &mut Secured| {
        let mut sealed = Vec::new();
        one.records.seal(&[b"word"], &mut sealed).unwrap();
        sealed.remove(0)
    };
    for at in [5, 8, 20] {
        let (mut one, mut two) = ends(4096);
        let mut record = seal(&mut one);
        record[at] ^= 1;
        assert!(matches!(
            two.records.open(&mut record),
            Err(RecordError::Forged)
        ));
    }
    let (mut one, mut two) = ends(4096);
    let mut again = seal(&mut one);
    let mut copy = again.clone();
    two.records.open(&mut again).unwrap();
    assert!(matches!(
        two.records.open(&mut copy),
        Err(RecordError::Forged)
    ));
    let (mut one, mut two) = ends(4096);
    drop(seal(&mut one));
    assert!(two.records.open(&mut seal(&mut one)).is_err());
    // In the clear, or too long.
    let (_, mut two) = ends(4096);
    let mut alert = [21, 3, 3, 0, 2, 1, 0];
    assert!(matches!(
        two.records.open(&mut alert),
        Err(RecordError::Malformed)
    ));
    assert!(two.records.open(&mut [23, 3, 3, 0, 0]).is_err());
    assert!(record_length(&[23, 3, 3, 0x41, 1]).is_err());
    assert_eq!(record_length(&[23, 3, 3, 0x41]).unwrap(), None);
}

/// Other messages of a handshake have no place behind it.
#[test]
fn only_a_change_of_keys_is_taken_of_what_is_not_data() {
    for message in [
        &[4, 0, 0, 0][..],
        &[24, 0, 0, 1, 2],
        &[24, 0, 0, 1, 0, 24, 0, 0, 1, 0],
    ] {
        let (mut one, mut two) = ends(4096);
        let mut record = one
            .records
            .seal_as(ContentType::Handshake, &[message])
            .unwrap();
        assert!(matches!(
            two.records.open(&mut record),
            Err(RecordError::Malformed)
        ));
    }
}
