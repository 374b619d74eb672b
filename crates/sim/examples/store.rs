//! Runs seeds of the store's simulation: `cargo run --example store -- 7`, or `-- 0..1000`,
//! with `--trace` for every request and event, with `--orders` for orders about devices in every run, and with
//! `--capacity` for devices of capacity among them, and with `--pages` for writes of whole pages.

#![allow(clippy::print_stdout)]

use holdfast_sim::store::{Options, run};

fn main() {
    let argument = std::env::args().nth(1).unwrap_or_else(|| "0..100".into());
    let (first, end) = match argument.split_once("..") {
        Some((first, end)) => (first.parse(), end.parse()),
        None => (argument.parse(), argument.parse().map(|seed: u64| seed + 1)),
    };
    let (Ok(first), Ok(end)) = (first, end) else {
        println!("give a seed, or a range of them as 0..100");
        std::process::exit(2);
    };
    let mut failed = 0;
    for seed in first..end {
        let options = Options {
            trace: std::env::args().any(|argument| argument == "--trace"),
            ..Options::of_seed(seed)
        };
        let has = |option: &str| std::env::args().any(|argument| argument == option);
        let capacity = if has("--capacity") {
            Options::capacity_of_seed(seed)
        } else {
            0
        };
        let options = Options {
            orders: options.orders || has("--orders"),
            pages: has("--pages"),
            capacity,
            ..options
        };
        match std::panic::catch_unwind(move || run(seed, options)) {
            Ok(Ok(report)) if end - first == 1 => println!("{options:?}\n{report:?}"),
            Ok(Ok(_)) => {}
            Ok(Err(failure)) => {
                failed += 1;
                println!("{failure}\n{options:?}");
                println!("again: cargo run -p holdfast-sim --example store -- {seed}");
            }
            Err(_) => {
                failed += 1;
                println!(
                    "seed {seed} panicked; again: cargo run -p holdfast-sim --example store -- {seed}"
                );
            }
        }
    }
    println!("{} seeds passed, {failed} failed", end - first - failed);
    std::process::exit(i32::from(failed > 0));
}
