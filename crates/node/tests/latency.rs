//! How long commands take by a node's word, and by a host's.

use std::time::{Duration, Instant};

use holdfast_api::documents::LocalFlow;
use holdfast_lab::{CommandRequest, IscsiName, Isid, Lun, Session, SessionConfig, SessionKind};
use holdfast_model::Policy;

use crate::support::Bench;

const READS: u64 = 200;
const UNIT: Lun = Lun::from_number(0);

async fn log_in(config: SessionConfig) -> Session {
    let session = Session::connect(config).await.unwrap();
    // What is told to whoever is new.
    let ready = CommandRequest::new(UNIT, &[0; 6]);
    while session.execute(ready.clone()).await.unwrap().status != 0 {}
    session
}

/// One after the other: how long they took together.
async fn read(session: &Session) -> Duration {
    let read = CommandRequest::new(UNIT, &[0x28, 0, 0, 0, 0, 0, 0, 0, 8, 0]).reading(4096);
    let mut noticed = Duration::ZERO;
    for _ in 0..READS {
        let begun = Instant::now();
        let done = session.execute(read.clone()).await.unwrap();
        noticed += begun.elapsed();
        assert_eq!(done.status, 0);
    }
    noticed
}

/// What was never written is read from nowhere: each is answered as soon as it is looked at, and took its time all the same.
#[test]
fn reads_take_no_longer_than_their_host_noticed_and_not_nothing() {
    let bench = Bench::new();
    let config = bench.config(1);
    let _node = bench.start(&config, 0);
    bench.create_volume("demo", 64 << 20, Policy::None);
    bench.wait_serving(&config, 1);
    let volume = bench.inventory().volumes.into_values().next().unwrap();
    let name = |text: &str| IscsiName::parse(text).unwrap();
    let session = SessionConfig::new(
        config.portal.listen,
        name("iqn.2026-11.example.host:1"),
        Isid([0x80, 0, 0, 0, 0, 1]),
        SessionKind::Normal(name(&volume.record.target)),
    );
    let (noticed, _session) = bench.wait_on(async {
        let session = log_in(session).await;
        (read(&session).await, session)
    });
    // Each second is told when it is over.
    let told: LocalFlow = bench.wait_for("the reads to be measured", || {
        let reads = bench.traffic(&config)?.volumes.into_iter().next()?.reads;
        let counts = reads.latencies.iter().map(|(_, count)| *count);
        (counts.sum::<u64>() == READS).then_some(reads)
    });
    let shortest = told.latencies.iter().map(|(longest, _)| *longest).min();
    assert!(shortest > Some(0), "{told:?}");
    // Each is told to the nearest microsecond.
    let noticed_us = noticed.as_micros() as u64 + READS / 2;
    assert!(
        (READS..=noticed_us).contains(&told.total_us),
        "{told:?}, and the host noticed {noticed:?}"
    );
}
