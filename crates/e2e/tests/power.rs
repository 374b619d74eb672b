//! Everything dies at once, under load: what was acknowledged is there again.

use std::time::Duration;

use anyhow::ensure;
use holdfast_e2e::demo::READY_WITHIN;
use holdfast_e2e::host::Host;
use holdfast_e2e::{DemoOptions, scenario};
use holdfast_lab::verify::LoadConfig;

const SYNC_PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn everything_dies_and_comes_back() {
    die_together(3);
}

/// Minutes rather than seconds; see docs/hacking.md.
#[test]
#[ignore = "takes ten minutes"]
fn everything_dies_over_and_over() {
    die_together(40);
}

fn die_together(rounds: u64) {
    scenario(DemoOptions::default(), |demo| {
        let mut ledger = Host::open(demo, "demo")?.ledger(1);
        for round in 0..rounds {
            let host = Host::open(demo, "demo")?;
            host.verify(&mut ledger)?;
            let config = LoadConfig {
                depth: 16,
                seed: round,
                ..LoadConfig::default()
            };
            let load = host.load(ledger, config);
            load.wait_for(300 + round * 100)?;
            demo.kill_everything()?;
            // In the middle of everything, as a host sees it that has lost its disk.
            (_, ledger) = load.abandon()?;
            drop(host);
            let took = demo.start_again()?;
            ensure!(took <= READY_WITHIN, "serving took {took:?}");
        }
        let host = Host::open(demo, "demo")?;
        host.verify(&mut ledger)?;
        demo.wait_until_whole("demo", SYNC_PATIENCE)?;
        // And all of it again, now that every replica has caught up, with the log emptied by a
        // clean stop.
        drop(host);
        demo.stop()?;
        demo.start_again()?;
        Host::open(demo, "demo")?.verify(&mut ledger)
    });
}
