//! What a handshake between two nodes costs each of them: `cargo run --release -p holdfast-tls --example handshakes`.
//!
//! It tells the time of the processor, medians of rounds, and the longest step: whoever computes it does nothing else meanwhile.
#![allow(clippy::unwrap_used, reason = "a measurement fails so")]

use std::io::Write;
use std::time::{Duration, Instant, SystemTime};

use holdfast_model::{ClusterId, NodeId};
use holdfast_tls::{Authority, Credentials, Handshake, PeerTls, Subject};

const ROUNDS: usize = 400;

/// One side of a round.
#[derive(Default)]
struct Spent {
    all: Duration,
    longest: Duration,
}

impl Spent {
    fn step<T>(&mut self, step: impl FnOnce() -> T) -> T {
        let began = Instant::now();
        let done = step();
        let took = began.elapsed();
        self.all += took;
        self.longest = self.longest.max(took);
        done
    }

    fn advance(&mut self, handshake: &mut Handshake, came: &[u8]) -> bool {
        self.step(|| handshake.advance(came).unwrap())
    }
}

fn main() {
    let directory = tempfile::tempdir().unwrap();
    let now = SystemTime::now();
    let authority = Authority::found(&directory.path().join("ca"), ClusterId(7), now).unwrap();
    let node = |number| {
        let path = directory.path().join(format!("{number}"));
        let subject = Subject {
            node: NodeId(number),
            name: format!("n{number}"),
            hosts: Vec::new(),
        };
        authority.issue(&subject, &path, now).unwrap();
        PeerTls::new(&Credentials::read(&path).unwrap())
    };
    let (one, two) = (node(1), node(2));
    let mut rounds = [Vec::new(), Vec::new()];
    for _ in 0..ROUNDS {
        let mut spent = [Spent::default(), Spent::default()];
        let (mut dials, mut answers) = (one.dial(), two.answer());
        let mut done = [spent[0].advance(&mut dials, &[]), false];
        while done != [true, true] {
            done[1] = spent[1].advance(&mut answers, &dials.take_outgoing());
            done[0] = spent[0].advance(&mut dials, &answers.take_outgoing());
        }
        drop(spent[0].step(|| dials.finish().ok().unwrap()));
        drop(spent[1].step(|| answers.finish().ok().unwrap()));
        for (rounds, spent) in rounds.iter_mut().zip(spent) {
            rounds.push(spent);
        }
    }
    let mut out = std::io::stdout().lock();
    for (side, rounds) in ["dials", "answers"].into_iter().zip(rounds) {
        let median = |of: fn(&Spent) -> Duration| {
            let mut times: Vec<_> = rounds.iter().map(of).collect();
            times.sort();
            times[ROUNDS / 2].as_secs_f64() * 1e6
        };
        let (all, longest) = (median(|it| it.all), median(|it| it.longest));
        writeln!(
            out,
            "who {side}: {all:>4.0} µs, of which {longest:>4.0} µs at a stretch; 126 of them {:>3.0} ms",
            all * 126.0 / 1e3
        )
        .unwrap();
    }
}
