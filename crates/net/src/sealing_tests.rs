#![allow(clippy::unwrap_used, reason = "a test fails so")]
//! Whatever a peer sends, and wherever it is cut: the same comes of it, and nothing that was not said.

use std::time::SystemTime;

use holdfast_model::{ClusterId, NodeId};
use holdfast_stdx::{BufMut, BytesMut, Prng};
use holdfast_tls::{Authority, Credentials, PeerTls, Subject};

use super::*;

/// Two nodes that can shake hands again and again.
struct Nodes {
    one: PeerTls,
    two: PeerTls,
}

impl Nodes {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("ca");
        let authority = Authority::found(&path, ClusterId(7), SystemTime::now()).unwrap();
        let tls = |node| {
            let path = directory.path().join(format!("{node}"));
            let subject = Subject {
                node: NodeId(node),
                name: format!("n{node}"),
                hosts: Vec::new(),
            };
            authority.issue(&subject, &path, SystemTime::now()).unwrap();
            PeerTls::new(&Credentials::read(&path).unwrap())
        };
        let (one, two) = (tls(1), tls(2));
        Self { one, two }
    }

    fn meet(&self) -> (Sealing, Sealing) {
        let (mut dials, mut answers) = (self.one.dial(), self.two.answer());
        let mut done = [dials.advance(&[]).unwrap(), false];
        while done != [true, true] {
            done[1] = answers.advance(&dials.take_outgoing()).unwrap();
            done[0] = dials.advance(&answers.take_outgoing()).unwrap();
        }
        let (dials, answers) = (dials.finish().unwrap(), answers.finish().unwrap());
        (Sealing::new(dials), Sealing::new(answers))
    }
}

/// What goes over the wire when these are said, each by itself, and then the end.
fn said(sealing: &mut Sealing, messages: &[Vec<u8>]) -> Vec<u8> {
    let mut wire = Vec::new();
    for message in messages {
        let mut queue = Queue::default();
        queue.extend([Bytes::from(message.clone())]);
        sealing.seal(&mut queue, usize::MAX).unwrap();
    }
    sealing.seal_end().unwrap();
    for part in sealing.sealed.parts() {
        wire.extend_from_slice(part);
    }
    wire
}

/// What came of it.
#[derive(Debug, PartialEq, Eq)]
struct Heard {
    bytes: Vec<u8>,
    is_ended: bool,
    error: Option<String>,
}

/// Hears pieces as a socket gives them, and takes no more than `take_max` at once.
fn hear<'a>(
    sealing: &mut Sealing,
    pieces: impl IntoIterator<Item = &'a [u8]>,
    take_max: usize,
) -> Heard {
    let mut heard = Heard {
        bytes: Vec::new(),
        is_ended: false,
        error: None,
    };
    for mut piece in pieces {
        while !piece.is_empty() && !heard.is_ended {
            let room = sealing.room();
            assert!(!room.is_empty(), "a record has room");
            let count = room.len().min(piece.len());
            room[..count].copy_from_slice(&piece[..count]);
            sealing.came(count);
            piece = &piece[count..];
            loop {
                match sealing.open() {
                    Ok(true) => {}
                    Ok(false) => break,
                    Err(error) => {
                        heard.error = Some(error.to_string());
                        return heard;
                    }
                }
                loop {
                    let mut some = BytesMut::new();
                    if sealing.take(&mut (&mut some).limit(take_max)) == 0 {
                        break;
                    }
                    heard.bytes.extend_from_slice(&some);
                }
            }
            heard.is_ended = sealing.is_ended();
        }
    }
    heard
}

#[test]
fn what_is_said_comes_the_same_wherever_it_is_cut() {
    let nodes = Nodes::new();
    let messages = [vec![1], vec![2; 40], vec![3; 3]];
    let all = Heard {
        bytes: messages.concat(),
        is_ended: true,
        error: None,
    };
    let length = said(&mut nodes.meet().0, &messages).len();
    for at in 0..=length {
        let (mut one, mut two) = nodes.meet();
        let wire = said(&mut one, &messages);
        let (first, second) = wire.split_at(at);
        assert_eq!(hear(&mut two, [first, second], 7), all, "cut at {at}");
    }
    // Long ones in pieces that are drawn.
    for seed in 0..40 {
        let mut random = Prng::from_seed(seed);
        let mut draw = |max: u64| usize::try_from(random.below(max)).unwrap();
        let messages: Vec<Vec<u8>> = (0..12_u8).map(|it| vec![it; draw(70_000)]).collect();
        let (mut one, mut two) = nodes.meet();
        let wire = said(&mut one, &messages);
        let mut pieces = Vec::new();
        let mut rest = &wire[..];
        while !rest.is_empty() {
            let max = [3, 1000, 20_000, 400_000][draw(4)];
            let (piece, others) = rest.split_at(rest.len().min(1 + draw(max)));
            pieces.push(piece);
            rest = others;
        }
        let heard = hear(&mut two, pieces, 1 + draw(30_000));
        assert!(heard.error.is_none() && heard.is_ended, "seed {seed}");
        assert!(heard.bytes == messages.concat(), "seed {seed}");
    }
}

#[test]
fn of_what_was_changed_only_what_was_before_it_is_heard() {
    let nodes = Nodes::new();
    let messages = [vec![1; 10], vec![2; 10]];
    let length = said(&mut nodes.meet().0, &messages).len();
    for at in 0..length {
        let mut ways = Vec::new();
        for cut in [length, at, at + 1, 1] {
            let (mut one, mut two) = nodes.meet();
            let mut wire = said(&mut one, &messages);
            wire[at] ^= 0x80;
            let heard = hear(&mut two, wire.chunks(cut.max(1)), 100);
            if [1, 2].contains(&(at % 32)) {
                // The version there has no meaning, and is not looked at (RFC 8446, section 5.1).
                assert!(heard.is_ended && heard.bytes == messages.concat());
                continue;
            }
            assert!(!heard.is_ended, "the end was not changed: {at}");
            assert!(messages.concat().starts_with(&heard.bytes));
            assert_eq!(heard.bytes.len() % 10, 0, "a record is taken whole");
            // It is told of, unless there is less than is said to come.
            if heard.error.is_some() {
                assert!(two.sealed.bytes() > 0, "changed at {at}");
            }
            ways.push(heard);
        }
        assert!(ways.windows(2).all(|two| two[0] == two[1]), "{ways:?}");
    }
}

#[test]
fn bytes_of_any_kind_are_refused_and_nothing_is_heard_of_them() {
    let nodes = Nodes::new();
    for seed in 0..200 {
        let mut random = Prng::from_seed(seed);
        let mut bytes: Vec<u8> = (0..2000).map(|_| random.below(256) as u8).collect();
        // Half of them begin as a record does.
        if seed % 2 == 0 {
            bytes[..4].copy_from_slice(&[23, 3, 3, 0]);
        }
        let mut ways = Vec::new();
        for piece in [1, 5, 2000] {
            let (_, mut two) = nodes.meet();
            ways.push(hear(&mut two, bytes.chunks(piece), 100));
        }
        assert!(ways.windows(2).all(|two| two[0] == two[1]), "{ways:?}");
        assert_eq!(ways[0].bytes, b"");
        assert!(!ways[0].is_ended);
    }
}
