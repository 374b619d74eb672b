//! Leases: their keys go when they end.

use holdfast_model::metadata::{
    LeaseId, MetadataAnswer, MetadataError, MetadataRequest, OperationResult, Revision,
    TIME_TO_LIVE_MAX, TIME_TO_LIVE_MIN, Transaction, WatchEvent,
};
use holdfast_stdx::Duration;

use super::user::{event_revision, key, prefix, put, put_leased};
use super::{Harness, User};

/// The life of the leases under test.
const LIFE: Duration = TIME_TO_LIVE_MIN;
/// So long after its end a store has certainly noticed: etcd looks at its leases twice a second.
const NOTICED: Duration = Duration::from_millis(1_500);

pub(super) async fn run<H: Harness>(harness: &mut H) {
    lives_are_limited(harness).await;
    keys_go_with_their_lease(harness).await;
    a_lease_is_kept_alive(harness).await;
    a_lease_is_revoked(harness).await;
    a_key_changes_its_lease(harness).await;
}

async fn lives_are_limited<H: Harness>(harness: &mut H) {
    let mut user = User::new(harness.session().await);
    for time_to_live in [Duration::ZERO, LIFE / 2, TIME_TO_LIVE_MAX + LIFE] {
        let answer = user.ask(MetadataRequest::Grant { time_to_live }).await;
        assert_eq!(
            answer,
            MetadataAnswer::Failed(MetadataError::Invalid),
            "{time_to_live:?}"
        );
    }
    let before = user.revision().await;
    let (first, second) = (user.grant(LIFE).await, user.grant(TIME_TO_LIVE_MAX).await);
    assert_ne!(first, second, "leases have names of their own");
    assert_ne!(first, LeaseId::default(), "zero is no lease");
    assert_eq!(user.revision().await, before, "a lease is no change");
    assert_eq!(
        user.ask(MetadataRequest::Revoke(second)).await,
        MetadataAnswer::Revoked
    );
}

async fn keys_go_with_their_lease<H: Harness>(harness: &mut H) {
    let mut user = User::new(harness.session().await);
    let (lease, life) = user.grant_life(LIFE).await;
    let leased = Transaction {
        success: vec![
            put_leased("/suite/life/a", "1", lease),
            put_leased("/suite/life/b", "2", lease),
            put("/suite/life/c", "3"),
        ],
        ..Transaction::default()
    };
    let outcome = user.transact(leased).await.expect("valid");
    assert_eq!(outcome.results, vec![OperationResult::Put; 3]);
    let watch = user.watch(prefix("/suite/life/"), Revision(outcome.revision.0 + 1));
    assert_eq!(
        user.find("/suite/life/a").await.map(|found| found.lease),
        Some(lease)
    );
    harness.pass(life + NOTICED).await;
    let (now, left) = user.range(prefix("/suite/life/")).await;
    let left: Vec<_> = left.iter().map(|found| found.key.as_str()).collect();
    assert_eq!(left, ["/suite/life/c"]);
    let events = user.events(watch, now).await;
    let [first, second] = <[_; 2]>::try_from(events).expect("two keys went");
    assert_eq!(
        event_revision(&first),
        event_revision(&second),
        "they went together"
    );
    assert!(matches!(first, WatchEvent::Delete { key, .. } if key == "/suite/life/a"));
    let gone = user.ask(MetadataRequest::KeepAlive(lease)).await;
    assert_eq!(gone, MetadataAnswer::Failed(MetadataError::NoSuchLease));
    let late = Transaction {
        success: vec![put_leased("/suite/life/a", "1", lease)],
        ..Transaction::default()
    };
    assert_eq!(user.transact(late).await, Err(MetadataError::NoSuchLease));
}

async fn a_lease_is_kept_alive<H: Harness>(harness: &mut H) {
    let name = "/suite/alive";
    let mut user = User::new(harness.session().await);
    let (lease, life) = user.grant_life(LIFE).await;
    user.perform(put_leased(name, "", lease)).await;
    for _ in 0..6 {
        harness.pass(life / 2).await;
        let answer = user.ask(MetadataRequest::KeepAlive(lease)).await;
        assert_eq!(answer, MetadataAnswer::KeptAlive);
    }
    assert!(user.find(name).await.is_some());
    // The lease is the store's, not the session's.
    drop(user);
    let mut user = User::new(harness.session().await);
    assert_eq!(
        user.ask(MetadataRequest::KeepAlive(lease)).await,
        MetadataAnswer::KeptAlive
    );
    harness.pass(life + NOTICED).await;
    assert_eq!(user.find(name).await, None);
}

async fn a_lease_is_revoked<H: Harness>(harness: &mut H) {
    let name = "/suite/revoked";
    let mut user = User::new(harness.session().await);
    let lease = user.grant(LIFE).await;
    let before = user.perform(put_leased(name, "", lease)).await.0;
    assert_eq!(
        user.ask(MetadataRequest::Revoke(lease)).await,
        MetadataAnswer::Revoked
    );
    assert_eq!(
        user.range(key(name)).await,
        (Revision(before.0 + 1), Vec::new())
    );
    let again = user.ask(MetadataRequest::Revoke(lease)).await;
    assert_eq!(again, MetadataAnswer::Failed(MetadataError::NoSuchLease));
    let empty = user.grant(LIFE).await;
    assert_eq!(
        user.ask(MetadataRequest::Revoke(empty)).await,
        MetadataAnswer::Revoked
    );
    assert_eq!(user.revision().await, Revision(before.0 + 1), "no key went");
}

async fn a_key_changes_its_lease<H: Harness>(harness: &mut H) {
    let (kept, moved) = ("/suite/rebound/kept", "/suite/rebound/moved");
    let mut user = User::new(harness.session().await);
    let (first, second) = (
        user.grant(TIME_TO_LIVE_MAX).await,
        user.grant(TIME_TO_LIVE_MAX).await,
    );
    user.perform(put_leased(kept, "", first)).await;
    user.perform(put_leased(moved, "", first)).await;
    user.put(kept, "").await;
    user.perform(put_leased(moved, "", second)).await;
    user.ask(MetadataRequest::Revoke(first)).await;
    assert_eq!(user.range(prefix("/suite/rebound/")).await.1.len(), 2);
    user.ask(MetadataRequest::Revoke(second)).await;
    assert!(user.find(kept).await.is_some());
    assert_eq!(user.find(moved).await, None);
}
