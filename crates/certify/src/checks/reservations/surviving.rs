//! What reservations outlive.

use std::time::Duration;

use holdfast_lab::command::{ReserveOut, ReserveParameters};
use tokio::time::sleep;

use super::GROUP;
use crate::bench::{A, B, Bench, C};
use crate::check::HostKind::{Pacemaker, Windows};
use crate::check::{Check, Checked, FINE, Unmet, ensure, failed};
use crate::reserve::SHARED;

pub(super) const CHECKS: &[Check] = &[
    Check {
        id: "reservations.session-loss",
        group: GROUP,
        title: "A reservation outlives the sessions of its holder, who finds it again",
        does: "A's connections are cut; B and C look and write meanwhile; A logs in again, and writes without registering",
        clause: "SPC-4 5.12.1",
        consequence: "A host whose network flickers loses its disk, or another one writes to it",
        required_by: &[Windows, Pacemaker],
        run: |bench| Box::pin(session_loss(bench)),
    },
    Check {
        id: "reservations.reset",
        group: GROUP,
        title: "A reservation outlives LOGICAL UNIT RESET",
        does: "C resets the unit that A has reserved",
        clause: "SPC-4 5.12.1",
        consequence: "Any host frees a disk that another one owns, as before persistent reservations",
        required_by: &[Windows, Pacemaker],
        run: |bench| Box::pin(reset(bench)),
    },
    Check {
        id: "reservations.persist",
        group: GROUP,
        title: "Reservations are made to outlive a loss of power, and the target says so",
        does: "Registers with APTPL set, and reads PTPL_A; then without",
        clause: "SPC-4 5.12.5, 6.15.4",
        consequence: "Linux always asks for it: registering fails; after a loss of power nobody is fenced any more",
        required_by: &[],
        run: |bench| Box::pin(persist(bench)),
    },
];

/// Chunks that this file writes to.
const CHUNK: u64 = 72;
/// A moment in which a target would do what it does about a lost session.
const MOMENT: Duration = Duration::from_millis(500);

async fn session_loss(bench: &mut Bench) -> Checked {
    bench.needs_reservations()?;
    let tag = bench.tag();
    bench.register(A).await?;
    bench.reserve((A, 0), SHARED).await?;
    bench.write((A, 0), CHUNK, tag).await?.good()?;
    for nexus in bench.host(A) {
        nexus.cut().await;
    }
    sleep(MOMENT).await;
    bench.is_held(Some((bench.key(A), SHARED))).await?;
    bench.is_registered(bench.key(A), bench.paths.len()).await?;
    for way in bench.ways(B).chain(bench.ways(C)) {
        bench.write(way, CHUNK, bench.tag()).await?.conflict()?;
        bench.holds(way, CHUNK, tag).await?;
    }
    bench.reconnect(MOMENT * 20).await?;
    for way in bench.ways(A) {
        bench.write(way, CHUNK, bench.tag()).await?.good()?;
    }
    bench.release((A, 0), SHARED).await?;
    FINE
}

async fn reset(bench: &mut Bench) -> Checked {
    bench.needs_reservations()?;
    bench.register(A).await?;
    bench.reserve((A, 0), SHARED).await?;
    let response = bench.nexus((C, 0)).reset().await?;
    if response != 0 {
        return Err(Unmet::NotRun(format!(
            "LOGICAL UNIT RESET was answered with response {response}"
        )));
    }
    bench.is_held(Some((bench.key(A), SHARED))).await?;
    bench.is_registered(bench.key(A), bench.paths.len()).await?;
    bench.write((A, 0), CHUNK, bench.tag()).await?.good()?;
    bench.write((C, 0), CHUNK, bench.tag()).await?.conflict()?;
    FINE
}

async fn persist(bench: &mut Bench) -> Checked {
    bench.needs_reservations()?;
    if !bench.capabilities((A, 0)).await?.can_persist {
        return Err(Unmet::NotApplicable(
            "the target says that it does not do that (PTPL_C is 0)".to_owned(),
        ));
    }
    for persists in [true, false] {
        let parameters = ReserveParameters {
            action_key: bench.key(A),
            persists,
            ..ReserveParameters::default()
        };
        let action = ReserveOut::RegisterAndIgnore;
        let answer = bench.reserve_with((A, 0), action, SHARED, parameters);
        answer.await?.good()?;
        for way in bench.ways(C) {
            let told = bench.capabilities(way).await?.persists;
            ensure(
                told == persists,
                format!("PTPL_A {persists}, by {}", bench.nexus(way).label()),
                || told.to_string(),
            )?;
        }
    }
    match bench.read_keys((A, 0)).await?.count(bench.key(A)) {
        1 => FINE,
        count => Err(failed("one registration", count.to_string())),
    }
}
