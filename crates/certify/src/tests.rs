//! Checks held against a target that is made up, in memory: an honest one passes all, and each is shown to bite by a lie
//! that only it is about.

mod bite;
mod fake;

use std::sync::Arc;
use std::time::Duration;

use holdfast_lab::Lun;
use holdfast_stdx::Prng;

use self::fake::{Fake, Lie};
use crate::bench::Bench;
use crate::check::Outcome;
use crate::options::Timing;
use crate::run::{StartError, carry_out, prepare};

/// Ten times as fast again; the time is not real.
const TIMING: Timing = Timing {
    return_max: Duration::from_secs(5),
    ..Timing::SCALED
};

fn bench(fake: &Fake) -> Bench {
    let portals = (1..=fake.paths()).map(|path| format!("192.0.2.{path}:3260"));
    let portals: Vec<String> = portals.collect();
    let dialer = Arc::new(fake.clone());
    let lun = Lun::from_number(0);
    Bench::new(dialer, &portals, lun, TIMING, &mut Prng::from_seed(1))
}

#[tokio::test(start_paused = true)]
async fn an_honest_target_passes_everything() {
    let fake = Fake::new(2);
    let mut bench = bench(&fake);
    prepare(&mut bench, false).await.unwrap();
    let never = std::future::pending();
    let (results, interrupted) = carry_out(&mut bench, Box::pin(never), &mut |_| ()).await;
    assert!(!interrupted);
    for result in &results {
        let is_restart = result.check.id.starts_with("restart.");
        let is_right = match &result.outcome {
            Outcome::Passed { .. } => !is_restart,
            Outcome::Skipped { .. } => is_restart,
            _ => false,
        };
        assert!(is_right, "{}: {:?}", result.check.id, result.outcome);
    }
    bench.leave(false).await.unwrap();
    assert!(
        fake.is_clean(),
        "nothing is registered, and all is zeros again"
    );
}

#[tokio::test(start_paused = true)]
async fn with_one_path_nothing_about_paths_is_passed() {
    let fake = Fake::new(1);
    let mut bench = bench(&fake);
    prepare(&mut bench, false).await.unwrap();
    let never = std::future::pending();
    let (results, _) = carry_out(&mut bench, Box::pin(never), &mut |_| ()).await;
    for result in &results {
        let failed = matches!(result.outcome, Outcome::Failed { .. });
        assert!(!failed, "{}: {:?}", result.check.id, result.outcome);
    }
    let of = |id: &str| {
        let found = results.iter().find(|it| it.check.id == id);
        found.unwrap().outcome.id()
    };
    assert_eq!(of("multipath.coherence"), "skipped");
    assert_eq!(of("multipath.session-loss"), "skipped");
    assert_eq!(of("reservations.by-path"), "skipped");
}

#[tokio::test(start_paused = true)]
async fn an_interrupted_run_leaves_nothing_behind() {
    let fake = Fake::new(2);
    let mut bench = bench(&fake);
    prepare(&mut bench, false).await.unwrap();
    // In the middle of what is about reservations.
    let stop = tokio::time::sleep(Duration::from_secs(2));
    let (results, interrupted) = carry_out(&mut bench, Box::pin(stop), &mut |_| ()).await;
    assert!(interrupted);
    assert!(matches!(
        results.last().unwrap().outcome,
        Outcome::NotRun { .. }
    ));
    assert!(!fake.is_clean(), "something was under way");
    bench.leave(true).await.unwrap();
    assert!(fake.is_clean());
}

#[tokio::test(start_paused = true)]
async fn a_unit_in_use_is_refused() {
    let signs = async |fake: &Fake| match prepare(&mut bench(fake), false).await {
        Err(StartError::InUse(signs)) => signs.join("; "),
        other => panic!("{other:?}"),
    };
    // A partition table, its copy at the end, a block in the stretch, a file system somewhere.
    let end = fake::UNIT_BYTES - 512;
    for place in [510, end, fake::UNIT_BYTES / 2 + 12_345, 8 << 20] {
        let fake = Fake::new(1);
        fake.put(place, &[0x55, 0xAA]);
        let said = signs(&fake).await;
        let block = format!("it holds data, in block {} at least", place / 512);
        assert_eq!(said, block);
        assert!(prepare(&mut bench(&fake), true).await.is_ok());
    }
    let fake = Fake::new(1);
    fake.register_stranger();
    let said = signs(&fake).await;
    assert_eq!(said, "1 keys are registered on it");
    assert!(prepare(&mut bench(&fake), true).await.is_ok());
    assert!(fake.is_clean(), "who says so gives others' keys up");
}

/// Somebody registers while a run is under way: the rest is not run, and the key stays.
#[tokio::test(start_paused = true)]
async fn a_stranger_is_left_alone() {
    let fake = Fake::new(1);
    let mut bench = bench(&fake);
    prepare(&mut bench, false).await.unwrap();
    fake.register_stranger();
    let never = std::future::pending();
    let (results, _) = carry_out(&mut bench, Box::pin(never), &mut |_| ()).await;
    for result in &results {
        let reason = match &result.outcome {
            Outcome::NotRun { reason } => reason,
            other => panic!("{other:?}"),
        };
        assert!(reason.contains("somebody else has registered"), "{reason}");
    }
    assert!(bench.leave(false).await.is_err());
    assert!(!fake.is_clean());
}

/// In real time, with a real process.
#[tokio::test]
async fn a_restart_is_told_apart_from_a_loss() {
    let outcomes = async |lie: Option<Lie>, shell: &str| {
        let fake = Fake::lying(2, lie);
        let mut bench = bench(&fake);
        bench.restart = Some(shell.to_owned());
        prepare(&mut bench, false).await.unwrap();
        let mut outcomes = Vec::new();
        for check in crate::checks::all().filter(|it| it.id.starts_with("restart.")) {
            outcomes.push(crate::run::one(&mut bench, check).await.id());
        }
        outcomes
    };
    assert_eq!(outcomes(None, "sleep 0.3").await, ["passed"; 4]);
    let failing = outcomes(None, "exit 3").await;
    assert_eq!(failing, ["not-run", "passed", "passed", "passed"]);
    // Every tenth write is acknowledged, and forgotten.
    let mut count = 0;
    let forgets: Lie = Box::new(move |world, _, request, completion| {
        if request.cdb[0] == 0x8A && completion.status == 0 {
            count += 1;
            if count % 10 == 0 {
                world.undo_write();
            }
        }
    });
    let lossy = outcomes(Some(forgets), "sleep 0.3").await;
    assert_eq!(lossy, ["passed", "failed", "passed", "passed"]);
}
