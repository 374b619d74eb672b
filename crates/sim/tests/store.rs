//! The store under some hundreds of seeds, and the histories that were found by them.

use std::ops::Range;

use holdfast_sim::store::{Options, Report, run};

/// Runs seeds; gives the sum of what they did.
fn run_all(seeds: Range<u64>, options: impl Fn(u64) -> Options) -> Report {
    let mut sum = Report::default();
    for seed in seeds {
        let options = options(seed);
        let report = match std::panic::catch_unwind(move || run(seed, options)) {
            Ok(Ok(report)) => report,
            Ok(Err(failure)) => panic!("{failure}"),
            Err(_) => panic!("seed {seed} panicked, with {options:?}"),
        };
        sum.entries += report.entries;
        sum.reads += report.reads;
        sum.bad_blocks += report.bad_blocks;
        sum.recoveries += report.recoveries;
        sum.damaged += report.damaged;
        sum.lacking += report.lacking;
        sum.refused += report.refused;
        sum.installs += report.installs;
        sum.placed += report.placed;
        sum.orders += report.orders;
        sum.devices_left += report.devices_left;
        sum.journal_moves += report.journal_moves;
        sum.journal_rounds_percent += report.journal_rounds_percent;
        sum.mended += report.mended;
        sum.rotten_alone += report.rotten_alone;
    }
    sum
}

#[test]
fn without_faults() {
    let sum = run_all(0..30, |_| Options {
        crashes: false,
        ..Options::default()
    });
    assert_eq!(sum.bad_blocks, 0);
    assert!(sum.installs > 100, "{sum:?}");
    assert!(sum.refused > 10, "small devices are full at times: {sum:?}");
}

#[test]
fn with_power_losses_and_kills() {
    let sum = run_all(0..80, |seed| Options {
        sector: if seed % 2 == 0 { 512 } else { 4096 },
        ..Options::default()
    });
    assert_eq!(sum.bad_blocks, 0);
    assert_eq!(sum.damaged, 0);
    assert!(sum.recoveries > 200, "{sum:?}");
}

#[test]
fn devices_come_and_go() {
    let sum = run_all(0..60, |seed| Options {
        orders: true,
        crashes: seed % 4 != 0,
        ..Options::default()
    });
    assert_eq!(sum.bad_blocks, 0);
    assert_eq!(sum.damaged, 0);
    assert!(sum.orders > 300, "{sum:?}");
    assert!(sum.devices_left > 30, "{sum:?}");
    assert!(sum.journal_moves > 10, "{sum:?}");
}

/// The journal can go to some of them only.
#[test]
fn devices_of_capacity_come_and_go() {
    let sum = run_all(0..60, |seed| Options {
        orders: true,
        failures: seed % 2 != 0,
        capacity: Options::capacity_of_seed(seed),
        crashes: seed % 4 != 0,
        ..Options::default()
    });
    assert_eq!(sum.damaged, 0);
    assert!(sum.orders > 300, "{sum:?}");
    assert!(sum.devices_left > 20, "{sum:?}");
    assert!(sum.journal_moves > 3, "{sum:?}");
}

/// A device that was to leave, and that the journal needed, had the store give itself the same order for ever.
#[test]
fn no_leave_is_refused_again_and_again() {
    let seed = 200_119;
    let report = run(seed, with_orders(seed)).unwrap_or_else(|failure| panic!("{failure}"));
    assert!(report.devices_left > 0, "{report:?}");
}

#[test]
fn a_device_that_fails_takes_what_is_on_it_and_nothing_else() {
    let sum = run_all(0..60, |seed| Options {
        orders: true,
        failures: true,
        crashes: seed % 4 != 0,
        ..Options::default()
    });
    assert_eq!(sum.damaged, 0);
    assert!(sum.lacking > 20, "{sum:?}");
    assert!(sum.devices_left > 10, "{sum:?}");
}

/// Their data is in slots, and only where it is in the journal.
#[test]
fn whole_pages_are_written() {
    let sum = run_all(0..200, |seed| Options {
        pages: true,
        capacity: Options::capacity_of_seed(seed),
        ..Options::of_seed(seed)
    });
    assert!(sum.placed > 500, "{sum:?}");
    assert!(sum.devices_left > 10, "{sum:?}");
}

#[test]
fn with_everything() {
    // Rot is read in one of sixty.
    let sum = run_all(0..480, Options::of_seed);
    assert!(sum.bad_blocks > 5, "rot is read: {sum:?}");
    assert!(sum.damaged > 20, "holes are found: {sum:?}");
    assert!(
        sum.rotten_alone > 20,
        "one block rots, and no more: {sum:?}"
    );
    assert!(sum.journal_rounds_percent > 480 * 100, "{sum:?}");
}

/// Rot in a journal in use does not matter any more when it has been checked.
#[test]
fn a_journal_that_rots_while_it_is_in_use_is_mended() {
    let sum = run_all(0..120, |seed| Options {
        checks: true,
        failures: seed % 8 == 0,
        orders: seed % 4 == 1,
        sector: if seed % 2 == 0 { 512 } else { 4096 },
        ..Options::default()
    });
    assert!(sum.mended > 100, "{sum:?}");
}

#[test]
fn long_runs_take_the_journal_round_many_times() {
    let sum = run_all(0..3, |_| Options {
        steps: 4_000,
        ..Options::default()
    });
    assert!(sum.journal_rounds_percent > 3 * 1_000, "{sum:?}");
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    for seed in 0..5 {
        let first = run(seed, Options::of_seed(seed)).expect("it passes");
        let second = run(seed, Options::of_seed(seed)).expect("it passes");
        assert_eq!(first, second);
    }
    let traces = [0, 1].map(|seed| run(seed, Options::of_seed(seed)).expect("it passes").trace);
    assert!(traces[0] != traces[1], "other seeds are other runs");
}

/// The options of a seed when its history was found.
fn as_it_was(seed: u64) -> Options {
    Options {
        destage_waits: false,
        checks: false,
        ..Options::of_seed(seed)
    }
}

fn with_pages(seed: u64) -> Options {
    Options {
        pages: true,
        ..Options::of_seed(seed)
    }
}

fn with_orders(seed: u64) -> Options {
    Options {
        orders: true,
        capacity: Options::capacity_of_seed(seed),
        ..Options::of_seed(seed)
    }
}

/// An undecided clear was written again at the journal's end, before a later write that had been
/// destaged and was not redone: the block read as zeros after a crash.
#[test]
fn what_is_carried_forward_does_not_overtake() {
    run_all(75..76, as_it_was);
}

/// The entries above the last position were trimmed: nothing told any more how far the log went.
#[test]
fn a_trimmed_log_still_says_where_it_ends() {
    for seed in [200, 249, 301, 373] {
        run_all(seed..seed + 1, as_it_was);
    }
}

/// Entries were void in memory, and their group was not redone any more, when the record that said
/// so was lost: recovery missed them, and took the slice for damaged.
#[test]
fn what_is_void_is_redone_until_that_is_durable() {
    run_all(1507..1508, as_it_was);
}

/// A log that began anew at zero lost its epoch when its first segment was trimmed.
#[test]
fn an_empty_log_keeps_its_epoch() {
    for seed in [553, 656, 1189, 1520, 2401, 2643] {
        run_all(seed..seed + 1, as_it_was);
    }
}

/// Not the store's fault: a slice that was dropped to be filled again went on from nothing when the
/// crash came before its log had begun anew.
#[test]
fn a_log_begins_anew_after_a_crash_in_between() {
    run_all(24..25, as_it_was);
}

/// Not the store's fault: power was lost while the store was made, so that it was opened without a device which had
/// not heard of it.
#[test]
fn a_store_that_was_half_made_does_without_a_device() {
    let as_it_was = |seed| Options {
        orders: true,
        ..Options::of_seed(seed)
    };
    run_all(13_274..13_275, as_it_was);
}

/// The journal was full for good: what was carried forward had begun without the room to end, in segments that hold one entry each.
#[test]
fn what_is_carried_forward_has_room_to_the_end() {
    run_all(343..344, with_pages);
    let with_both = |seed| Options {
        pages: true,
        ..with_orders(seed)
    };
    run_all(20_854..20_855, with_both);
    run_all(40_613..40_614, with_both);
}

/// A rotten segment had been trimmed when the journal was checked, and no group had said so when power failed: a recovery read it all the
/// same, and found a hole.
#[test]
fn what_is_trimmed_before_it_is_checked_is_not_read_again() {
    run_all(71_234..71_235, Options::of_seed);
}

/// A header that a device had torn as it failed was taken for rot by the next check of the journal.
#[test]
fn a_torn_header_is_not_taken_for_rot() {
    run_all(67_344..67_345, with_orders);
}

/// All slots that were free were kept for entries whose data was in slots already, and that nobody decided.
#[test]
fn a_drain_does_not_wait_for_what_is_placed() {
    run_all(62_589..62_590, with_pages);
}

/// Not the store's fault: a device failed that was to take what another one held in the journal, too, and nobody called the drain
/// of that one off.
#[test]
fn a_drain_is_called_off_when_there_is_no_room_any_more() {
    run_all(68_874..68_875, Options::of_seed);
    run_all(75_082..75_083, Options::of_seed);
    for seed in [60_873, 65_945] {
        run_all(seed..seed + 1, with_pages);
    }
}

/// A copy was taken that was older than what had cleared its blocks, for the page had not been there then.
#[test]
fn a_clear_counts_for_a_page_that_comes_later() {
    run_all(41_353..41_354, with_pages);
}
