//! What TLS costs a link, by itself: messages from one node to another, both on this thread, with TLS and without it in turn.
//!
//! `cargo run --release -p holdfast-net --example sealing` tells the time of the processor for a message, of both ends and the
//! kernel together; medians of rounds, and the difference. What that is of a mirrored write tells `cargo bench -p holdfast-e2e
//! --bench tls`.
#![allow(clippy::unwrap_used, reason = "a measurement fails so")]

#[path = "../tests/support/mod.rs"]
mod support;

use std::io::Write;

use support::{data_message, pair, run, secure};
use tikv_jemallocator::Jemalloc;

/// As in the program.
#[global_allocator]
static MEMORY: Jemalloc = Jemalloc;

const ROUNDS: usize = 9;
/// Bytes of a round.
const ROUND_BYTES: usize = 64 << 20;

fn main() {
    for (length, at_once) in [(4 << 10, 1), (4 << 10, 32), (256 << 10, 1), (256 << 10, 8)] {
        let count = ROUND_BYTES / length;
        let mut times = [Vec::new(), Vec::new()];
        for _ in 0..ROUNDS {
            times[0].push(plain(length, at_once, count));
            times[1].push(sealed(length, at_once, count));
        }
        let [plain, sealed] = times.map(|mut times| {
            times.sort_by(f64::total_cmp);
            times[ROUNDS / 2]
        });
        let mut out = std::io::stdout().lock();
        writeln!(
            out,
            "{length:>7} bytes, {at_once:>2} at once: {plain:>7.2} µs without, {sealed:>7.2} µs with TLS, {:>6.2} µs more",
            sealed - plain
        )
        .unwrap();
    }
}

fn plain(length: usize, at_once: usize, count: usize) -> f64 {
    support::insecure();
    run(exchange(length, at_once, count))
}

fn sealed(length: usize, at_once: usize, count: usize) -> f64 {
    secure(exchange(length, at_once, count))
}

/// Processor time for a message, in µs.
async fn exchange(length: usize, at_once: usize, count: usize) -> f64 {
    let (mut one, link_one, mut two, link_two) = pair().await;
    let message = data_message(1, length);
    let before = processor_ns();
    for _ in 0..count / at_once {
        for _ in 0..at_once {
            one.send(2, link_one, message.clone());
        }
        one.network.flush();
        let receives = async {
            for _ in 0..at_once {
                two.message(link_two).await;
            }
        };
        tokio::select! {
            () = receives => {}
            event = one.next() => panic!("{event:?} at the sender"),
        }
    }
    (processor_ns() - before) / 1e3 / count as f64
}

/// What this thread has had of processors.
fn processor_ns() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    text.split(' ').next().unwrap().parse().unwrap()
}
