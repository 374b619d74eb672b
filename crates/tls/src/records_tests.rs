#![allow(clippy::unwrap_used, reason = "a test fails so")]
//! Two ends without a socket: what one seals the other opens, and nothing else.

use std::io::{Read, Write};
use std::sync::Arc;
use std::time::SystemTime;

use holdfast_model::{ClusterId, NodeId};
use rustls::client::ResolvesClientCert;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{ClientConnection, ServerConnection, SignatureScheme};
use tempfile::TempDir;

use super::*;
use crate::{Authority, Credentials, Handshake, HandshakeError, PeerTls, Secured, Subject};

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
    one.records.seal_end(&mut sealed).unwrap();
    assert_eq!(sealed.len(), 1);
    assert_eq!(two.records.open(&mut sealed[0]).unwrap(), Opened::End);
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

/// Other keys that were asked for are not forgotten for the end, and the end is within the limit as well.
#[test]
fn keys_that_are_due_are_changed_before_the_end() {
    let (mut one, mut two) = ends(4096);
    let asks = [24, 0, 0, 1, 1];
    let mut record = one.records.seal_as(ContentType::Handshake, &[&asks]);
    two.records.open(record.as_mut().unwrap()).unwrap();
    let mut sealed = Vec::new();
    two.records.seal_end(&mut sealed).unwrap();
    let opened = |record: &mut Vec<u8>| one.records.open(record).unwrap();
    let opened: Vec<_> = sealed.iter_mut().map(opened).collect();
    assert_eq!(opened, [Opened::Nothing, Opened::End]);
    let (mut one, _) = ends(4096);
    one.records.sealed_max = 4;
    let mut sealed = Vec::new();
    for _ in 0..3 {
        one.records.seal(&[b"x"], &mut sealed).unwrap();
    }
    one.records.seal_end(&mut sealed).unwrap();
    assert_eq!((sealed.len(), one.records.sealed), (5, 1));
}

/// The other end, with what rustls makes of records itself.
struct Theirs(rustls::Connection);

impl Theirs {
    /// What is said to it, and what it has to say.
    fn hear(&mut self, mut came: &[u8]) -> Vec<u8> {
        let mut heard = Vec::new();
        while !came.is_empty() {
            self.0.read_tls(&mut came).unwrap();
            self.0.process_new_packets().unwrap();
            let mut some = [0; 4096];
            while let Ok(count @ 1..) = self.0.reader().read(&mut some) {
                heard.extend_from_slice(&some[..count]);
            }
        }
        heard
    }

    fn say(&mut self, said: &[u8]) -> Vec<u8> {
        self.0.writer().write_all(said).unwrap();
        self.outgoing()
    }

    fn outgoing(&mut self) -> Vec<u8> {
        let mut out = Vec::new();
        while self.0.wants_write() {
            self.0.write_tls(&mut out).unwrap();
        }
        out
    }
}

/// An end of ours, and rustls as the one that dials it, or that it dials.
fn with_theirs(ours_dials: bool) -> (Secured, Theirs) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("ca");
    let authority = Authority::found(&path, ClusterId(7), SystemTime::now()).unwrap();
    let (one, two) = (
        peer(&authority, &directory, 1),
        peer(&authority, &directory, 2),
    );
    let mut theirs = Theirs(if ours_dials {
        ServerConnection::new(two.server).unwrap().into()
    } else {
        let client = ClientConnection::new(two.client, "n1".try_into().unwrap());
        client.unwrap().into()
    });
    let mut ours = if ours_dials { one.dial() } else { one.answer() };
    let mut is_done = ours.advance(&[]).unwrap();
    while !is_done || theirs.0.is_handshaking() {
        assert_eq!(theirs.hear(&ours.take_outgoing()), b"");
        is_done = ours.advance(&theirs.outgoing()).unwrap();
    }
    theirs.hear(&ours.take_outgoing());
    (ours.finish().unwrap(), theirs)
}

/// Seals with the next keys from here on, as after word of it.
fn change_own(ours: &mut Secured) {
    let next = match &mut ours.records.schedule {
        Schedule::Dialled(connection) => connection.update_tx_secret(),
        Schedule::Answered(connection) => connection.update_tx_secret(),
    };
    let (sealed, secrets) = next.unwrap();
    ours.records.encrypter = encrypter(ours.records.suite, secrets);
    ours.records.sealed = sealed;
}

/// Splits what came into records.
fn split(mut bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut records = Vec::new();
    while let Some(length) = record_length(bytes).unwrap() {
        let (record, rest) = bytes.split_at(length);
        records.push(record.to_vec());
        bytes = rest;
    }
    assert!(bytes.is_empty());
    records
}

/// Both ends change keys, each at its own time and when it is asked to; rustls understands ours, and we what rustls says.
#[test]
fn keys_are_changed_with_rustls_at_the_other_end() {
    for ours_dials in [false, true] {
        let (mut ours, mut theirs) = with_theirs(ours_dials);
        ours.records.sealed_max = 5;
        let mut updates = 0;
        for number in 0..40_u8 {
            let mut sealed = Vec::new();
            ours.records.seal(&[&[number]], &mut sealed).unwrap();
            updates += sealed.len() - 1;
            assert_eq!(theirs.hear(&sealed.concat()), [number]);
            if number % 3 == 0 {
                theirs.0.refresh_traffic_keys().unwrap();
            }
            if number % 7 == 0 {
                let asks = [24, 0, 0, 1, 1];
                let asks = ours.records.seal_as(ContentType::Handshake, &[&asks]);
                assert_eq!(theirs.hear(&asks.unwrap()), b"");
                change_own(&mut ours);
            }
            let mut came = split(&theirs.say(&[number; 100]));
            let heard = open_all(&mut ours.records, &mut came);
            assert_eq!(heard, [number; 100], "at {number}");
        }
        assert!(updates >= 8, "{updates}");
        // The end in both directions, and that a refusal is one for rustls.
        theirs.0.send_close_notify();
        let mut end = split(&theirs.outgoing());
        assert_eq!(ours.records.open(&mut end[0]).unwrap(), Opened::End);
        let refusal = ours.records.seal_refusal(&RecordError::Forged).unwrap();
        theirs.0.read_tls(&mut &refusal[..]).unwrap();
        assert_eq!(
            theirs.0.process_new_packets().unwrap_err(),
            rustls::Error::AlertReceived(AlertDescription::BadRecordMac)
        );
        let (mut ours, mut theirs) = with_theirs(ours_dials);
        let mut sealed = Vec::new();
        ours.records.seal_end(&mut sealed).unwrap();
        theirs.0.read_tls(&mut &sealed.concat()[..]).unwrap();
        let state = theirs.0.process_new_packets().unwrap();
        assert!(state.peer_has_closed());
    }
}

#[test]
fn a_refusal_is_told_and_understood() {
    let (mut one, mut two) = ends(4096);
    let cause = two
        .records
        .open(&mut [23, 3, 3, 0, 20].repeat(5))
        .unwrap_err();
    assert!(matches!(cause, RecordError::Forged));
    let mut told = two.records.seal_refusal(&cause).unwrap();
    let heard = one.records.open(&mut told).unwrap_err();
    assert!(matches!(
        heard,
        RecordError::Alert(AlertDescription::BadRecordMac)
    ));
    assert!(heard.to_string().contains("changed on its way"), "{heard}");
    // It is not answered in turn.
    assert_eq!(one.records.seal_refusal(&heard), None);
}

/// A certificate of this authority for node 2, with its key, shown so many times.
fn shown(authority: &Authority, count: usize) -> Shows {
    let subject = Subject {
        node: NodeId(2),
        name: "n2".to_owned(),
        hosts: Vec::new(),
    };
    let key = crate::authority::new_key();
    let pem = authority.sign(&subject, &key, SystemTime::now()).unwrap();
    let own = CertificateDer::from_pem_slice(pem.as_bytes()).unwrap();
    let key = PrivateKeyDer::from_pem_slice(key.serialize_pem().as_bytes()).unwrap();
    let provider = rustls::crypto::ring::default_provider();
    let shown = CertifiedKey::from_der(vec![own; count], key, &provider);
    Shows(shown.unwrap().into())
}

#[derive(Debug)]
struct Shows(Arc<CertifiedKey>);

impl ResolvesClientCert for Shows {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0))
    }
    fn has_certs(&self) -> bool {
        true
    }
}

impl ResolvesServerCert for Shows {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0))
    }
}

/// Each part of a handshake has its bound by rustls; all of it has one of ours.
#[test]
fn a_handshake_that_is_long_in_all_is_refused() {
    for (count, chain, is_refused) in [(20, 1, false), (160, 80, true)] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("ca");
        let authority = Authority::found(&path, ClusterId(7), SystemTime::now()).unwrap();
        let one = peer(&authority, &directory, 1);
        // 40 KiB of what it could speak, and as much of what it shows.
        let mut config = one.client.as_ref().clone();
        let protocols = (0..count).map(|_| vec![b'x'; 255]);
        config.alpn_protocols.extend(protocols);
        config.client_auth_cert_resolver = Arc::new(shown(&authority, chain));
        let client = ClientConnection::new(config.into(), "n1".try_into().unwrap());
        let mut theirs = Theirs(client.unwrap().into());
        let mut ours = one.answer();
        let done = between(&mut ours, &mut theirs);
        if is_refused {
            assert!(matches!(done, Err(HandshakeError::TooLong)), "{done:?}");
        } else {
            assert!(done.unwrap());
        }
    }
}

/// Whoever shows a chain has each of its signatures looked at, in every order in which it may fit together: nobody has one.
#[test]
fn a_chain_of_certificates_is_not_looked_at() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("ca");
    let authority = Authority::found(&path, ClusterId(7), SystemTime::now()).unwrap();
    let one = peer(&authority, &directory, 1);
    let refused = |done: Result<bool, HandshakeError>| {
        assert!(matches!(done, Err(HandshakeError::Untrusted)), "{done:?}");
    };
    // The one who dials shows it.
    let mut config = one.client.as_ref().clone();
    config.client_auth_cert_resolver = Arc::new(shown(&authority, 2));
    let client = ClientConnection::new(config.into(), "n1".try_into().unwrap());
    let mut theirs = Theirs(client.unwrap().into());
    let mut ours = one.answer();
    refused(between(&mut ours, &mut theirs));
    // The one who answers does.
    let mut config = one.server.as_ref().clone();
    config.cert_resolver = Arc::new(shown(&authority, 2));
    let server = ServerConnection::new(config.into());
    let mut theirs = Theirs(server.unwrap().into());
    let mut ours = one.dial();
    refused(between(&mut ours, &mut theirs));
}

/// Lets the two speak until ours is done, or ends it.
fn between(ours: &mut Handshake, theirs: &mut Theirs) -> Result<bool, HandshakeError> {
    loop {
        match ours.advance(&theirs.outgoing()) {
            Ok(false) => drop(theirs.hear(&ours.take_outgoing())),
            done => return done,
        }
    }
}

/// What begins a handshake may be changed anywhere, and cut anywhere: the same comes of it.
#[test]
fn a_handshake_that_was_changed_ends_the_same_wherever_it_is_cut() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("ca");
    let authority = Authority::found(&path, ClusterId(7), SystemTime::now()).unwrap();
    let (one, two) = (
        peer(&authority, &directory, 1),
        peer(&authority, &directory, 2),
    );
    let mut dials = one.dial();
    dials.advance(&[]).unwrap();
    let hello = dials.take_outgoing();
    let mut errors = 0;
    for (at, bits) in (0..hello.len()).flat_map(|at| [(at, 0xff), (at, 1)]) {
        let mut changed = hello.clone();
        changed[at] ^= bits;
        let ways = [1, at + 1, hello.len()].map(|piece| {
            let mut answers = two.answer();
            let mut pieces = changed.chunks(piece);
            let end = pieces.find_map(|piece| answers.advance(piece).err());
            (format!("{end:?}"), end.is_some())
        });
        assert_eq!(ways[0], ways[1], "changed at {at}");
        assert_eq!(ways[0], ways[2], "changed at {at}");
        errors += usize::from(ways[0].1);
    }
    assert!(errors > 20, "{errors} of {}", hello.len());
}

/// One authority has signed for two clusters: certificates tell them apart, whichever side is of the other one.
#[test]
fn a_node_of_another_cluster_under_the_same_authority_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("ca");
    let mut authority = Authority::found(&path, ClusterId(7), SystemTime::now()).unwrap();
    let one = peer(&authority, &directory, 1);
    authority.cluster = ClusterId(8);
    for ours_dials in [false, true] {
        let mut theirs = Theirs(if ours_dials {
            let mut config = one.server.as_ref().clone();
            config.cert_resolver = Arc::new(shown(&authority, 1));
            ServerConnection::new(config.into()).unwrap().into()
        } else {
            let mut config = one.client.as_ref().clone();
            config.client_auth_cert_resolver = Arc::new(shown(&authority, 1));
            let client = ClientConnection::new(config.into(), "n1".try_into().unwrap());
            client.unwrap().into()
        });
        let mut ours = if ours_dials { one.dial() } else { one.answer() };
        let mut is_done = ours.advance(&[]).unwrap();
        while !is_done {
            theirs.hear(&ours.take_outgoing());
            is_done = ours.advance(&theirs.outgoing()).unwrap();
        }
        match ours.finish().err().unwrap() {
            HandshakeError::OtherCluster(found) => {
                assert_eq!((found.cluster, found.node), (ClusterId(8), NodeId(2)));
            }
            other => panic!("{other}"),
        }
    }
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
