//! The store under some hundreds of seeds.

use holdfast_sim::store::{Options, Report, run};

fn run_all(seeds: std::ops::Range<u64>, options: impl Fn(u64) -> Options) -> Vec<Report> {
    let mut reports = Vec::new();
    for seed in seeds {
        let options = options(seed);
        let outcome = std::panic::catch_unwind(move || run(seed, options));
        match outcome {
            Ok(Ok(report)) => reports.push(report),
            Ok(Err(failure)) => panic!("{failure}"),
            Err(_) => panic!("seed {seed} panicked"),
        }
    }
    reports
}

#[test]
fn quiet_life() {
    run_all(0..40, |_| Options {
        crashes: false,
        ..Options::default()
    });
}
