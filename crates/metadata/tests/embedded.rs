//! The embedded store: the suite, and what it must remember over a restart.

use holdfast_metadata::embedded::OpenError;
use holdfast_metadata::suite::{self, User};
use holdfast_metadata::{Embedded, HistoryLimits, Store};
use holdfast_model::ClusterId;
use holdfast_model::metadata::{
    LeaseId, MetadataAnswer, MetadataError, MetadataRequest, Operation, Revision, Selector,
    Transaction,
};
use holdfast_stdx::{Bytes, Duration, Prng};

use crate::common::{CLUSTER, EmbeddedHarness, LIMITS, open};

fn prefix(name: &str) -> Selector {
    Selector::Prefix(name.to_owned())
}

#[tokio::test]
async fn the_embedded_store_passes_the_suite() {
    let folder = tempfile::tempdir().unwrap();
    suite::run(&mut EmbeddedHarness {
        store: open(folder.path()),
    })
    .await;
}

#[tokio::test]
async fn a_store_started_again_remembers_everything() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let mut user = User::new(store.session());
    let first = user.put("/a", "1").await;
    user.put("/b", "2").await;
    user.delete(Selector::Key("/b".to_owned())).await;
    let lease = user.grant(Duration::from_secs(2)).await;
    let leased = Operation::Put {
        key: "/leased".to_owned(),
        value: Bytes::new(),
        lease,
    };
    let last = user.perform(leased).await.0;
    let watch = user.watch(prefix("/"), first);
    let told = user.events(watch, last).await;
    let keys = user.range(prefix("/")).await;
    drop(user);
    store.close().unwrap();

    let store = open(folder.path());
    let mut user = User::new(store.session());
    assert_eq!(user.range(prefix("/")).await, keys);
    let watch = user.watch(prefix("/"), first);
    assert_eq!(user.events(watch, last).await, told, "the history is whole");
    // The lease's time has begun again: after three quarters of it, it still lives.
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    assert_eq!(
        user.ask(MetadataRequest::KeepAlive(lease)).await,
        MetadataAnswer::KeptAlive
    );
    tokio::time::sleep(Duration::from_millis(2_500)).await;
    assert_eq!(user.find("/leased").await, None);
    let next = user.grant(Duration::from_secs(2)).await;
    assert!(next > lease, "the name of a lease is not used again");
    assert_eq!(
        user.put("/c", "3").await,
        Revision(last.0 + 2),
        "revisions go on"
    );
}

#[tokio::test]
async fn compaction_is_remembered() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let mut user = User::new(store.session());
    let first = user.put("/old", "1").await;
    let mut last = first;
    for count in 0..2 * LIMITS.revisions_max {
        last = user.put("/new", &count.to_string()).await;
    }
    drop(user);
    store.close().unwrap();

    let fewer = HistoryLimits {
        revisions_max: 8,
        ..LIMITS
    };
    for (limits, kept) in [(LIMITS, LIMITS.revisions_max as u64), (fewer, 8)] {
        let store = Embedded::open(folder.path(), CLUSTER, limits).unwrap();
        let mut user = User::new(store.session());
        assert_eq!(
            user.find("/old").await.map(|found| found.mod_revision),
            Some(first)
        );
        let gone = user.watch(prefix("/"), first);
        let from = Revision(last.0 + 1 - kept);
        let expected = MetadataAnswer::WatchEnded(MetadataError::Compacted(from));
        assert_eq!(user.answer(gone).await, expected);
        let known = user.watch(prefix("/"), from);
        assert_eq!(user.events(known, last).await.len() as u64, kept);
    }
}

#[tokio::test]
async fn a_directory_has_one_user_and_one_cluster() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    match Embedded::open(folder.path(), CLUSTER, LIMITS) {
        Err(OpenError::InUse { path, holder }) => {
            assert_eq!(path, folder.path());
            assert_eq!(holder, std::process::id().to_string());
        }
        other => panic!("the directory is in use, not {other:?}"),
    }
    store.close().unwrap();
    match Embedded::open(folder.path(), ClusterId(2), LIMITS) {
        Err(OpenError::Cluster { found, expected }) => {
            assert_eq!((found, expected), (CLUSTER, ClusterId(2)));
        }
        other => panic!("the directory is another cluster's, not {other:?}"),
    }
    open(folder.path()).close().unwrap();
}

#[tokio::test]
async fn a_first_start_that_was_cut_short_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("store.redb.new"), [7; 5_000]).unwrap();
    std::fs::write(folder.path().join("LOCK"), "no number").unwrap();
    let store = open(folder.path());
    let mut user = User::new(store.session());
    assert_eq!(user.range(prefix("")).await.1, Vec::new());
}

#[tokio::test]
async fn a_file_that_is_no_store_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    for contents in [Vec::new(), vec![7; 100], vec![7; 1 << 20]] {
        std::fs::write(folder.path().join("store.redb"), &contents).unwrap();
        let refused = Embedded::open(folder.path(), CLUSTER, LIMITS);
        assert!(
            refused.is_err(),
            "{} bytes of nothing are no store",
            contents.len()
        );
    }
}

#[tokio::test]
async fn sessions_end_with_the_store() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let mut session = store.session();
    let waiting: Vec<_> = (0..100)
        .map(|number| {
            let token = holdfast_model::metadata::MetadataToken(number);
            let put = Operation::Put {
                key: format!("/{number}"),
                value: Bytes::new(),
                lease: LeaseId::default(),
            };
            let transaction = Transaction {
                success: vec![put],
                ..Transaction::default()
            };
            session
                .requests
                .submit(token, MetadataRequest::Transact(transaction));
            token
        })
        .collect();
    store.close().unwrap();
    // What was asked before the end has been done and answered.
    for expected in waiting {
        let (token, answer) = session.answers.recv().await.expect("an answer for each");
        assert_eq!(token, expected);
        assert!(matches!(answer, MetadataAnswer::Transacted(_)));
    }
    assert_eq!(session.answers.recv().await, None);
}

/// Whatever a disk did to the file: the store opens with what is whole, or says that it cannot.
#[tokio::test]
async fn damage_is_an_error_and_not_a_panic() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let mut user = User::new(store.session());
    for number in 0..50 {
        user.put(&format!("/{number}"), &"v".repeat(300)).await;
    }
    drop(user);
    store.close().unwrap();
    let file = folder.path().join("store.redb");
    let whole = std::fs::read(&file).unwrap();
    let mut prng = Prng::from_seed(17);
    let mut refused = 0;
    for round in 0..60 {
        let mut damaged = whole.clone();
        let place = prng.below(damaged.len() as u64) as usize;
        match round % 3 {
            0 => damaged[place] ^= 1 << prng.below(8),
            1 => {
                let end = (place + 512).min(damaged.len());
                prng.fill(&mut damaged[place..end]);
            }
            _ => damaged.truncate(place),
        }
        std::fs::write(&file, &damaged).unwrap();
        let opened = std::panic::catch_unwind(|| Embedded::open(folder.path(), CLUSTER, LIMITS));
        match opened.expect("damage is no mistake of ours") {
            Ok(store) => drop(store),
            Err(_) => refused += 1,
        }
    }
    assert!(refused > 5, "damage is found: {refused}");
}
