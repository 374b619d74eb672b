//! Seeds: some that are run every time, and that the same seed is the same run.

use holdfast_sim::profile::Profile;
use holdfast_sim::run::run;
use holdfast_sim::trace::{Hash, Trace};

fn passes(seed: u64) {
    if let Err(failed) = run(Profile::Short, seed, Trace::Off) {
        panic!("seed {seed} failed at {}: {}", failed.at, failed.failure);
    }
}

#[test]
fn fixed_seeds_pass() {
    for seed in 0..60 {
        passes(seed);
    }
}

#[test]
fn the_same_seed_is_the_same_run() {
    let hash = |seed| {
        let report = run(Profile::Short, seed, Trace::Hash(Hash::default()));
        let report = report.unwrap_or_else(|failed| panic!("seed {seed}: {}", failed.failure));
        report.hash.expect("a sum was asked for")
    };
    for seed in [3, 11, 42] {
        assert_eq!(hash(seed), hash(seed), "seed {seed}");
    }
    assert_ne!(hash(3), hash(4), "different seeds are different runs");
}

/// What an absent device had is given up while the record has the node out: it joins with blocks that are bad, and
/// replicas are compared when they are mended, not before.
#[test]
fn what_joins_with_bad_blocks_is_waited_for() {
    passes(566_734);
}

/// What a replica is brought when it joins was never agreed on, and the next primary has in its place what was numbered
/// in an earlier epoch.
#[test]
fn what_follows_a_sync_may_be_of_an_earlier_epoch() {
    passes(662_655);
}

/// A new primary takes a write of a part of a block before its epoch's first entry is committed, and finds the block bad: it
/// waits until it may ask the others for it.
#[test]
fn a_new_primary_mends_what_it_reads_for_a_write() {
    passes(722_275);
}
