//! Transactions: revisions, compare-and-set, ranges, limits.

use std::collections::BTreeSet;

use holdfast_model::metadata::{
    Compare, KEY_LENGTH_MAX, LeaseId, MetadataAnswer, MetadataError, MetadataRequest, Operation,
    OperationResult, Revision, TRANSACTION_OPERATIONS_MAX, Transaction, VALUE_LENGTH_MAX,
};
use holdfast_stdx::Bytes;

use super::user::{changed_at, key, prefix, put, put_leased};
use super::{Harness, User};

pub(super) async fn run<H: Harness>(harness: &mut H) {
    let mut user = User::new(harness.session().await);
    keys_know_their_revisions(&mut user).await;
    only_changes_raise_the_revision(&mut user).await;
    conditions_choose_the_branch(&mut user).await;
    a_transaction_is_one_revision_and_sees_itself(&mut user).await;
    ranges_are_ordered_and_exact(&mut user).await;
    a_failed_transaction_does_nothing(&mut user).await;
    limits_are_kept(&mut user).await;
    each_key_is_changed_once(&mut user).await;
    requests_in_flight_are_all_answered(&mut user).await;
    racing_users_lose_no_update(harness).await;
}

async fn keys_know_their_revisions(user: &mut User) {
    let name = "/suite/revisions";
    let first = user.put(name, "one").await;
    let second = user.put(name, "two").await;
    let found = user.find(name).await.expect("the key was put");
    assert_eq!(&found.value[..], b"two");
    assert_eq!(found.create_revision, first);
    assert_eq!(found.mod_revision, second);
    assert_eq!(found.version, 2);
    assert_eq!(found.lease, LeaseId::default());
    assert_eq!(user.delete(key(name)).await.1, 1);
    assert_eq!(user.find(name).await, None);
    let again = user.put(name, "three").await;
    let found = user.find(name).await.expect("the key was put");
    assert_eq!((found.create_revision, found.mod_revision), (again, again));
    assert_eq!(found.version, 1, "a key that is made anew begins anew");
}

async fn only_changes_raise_the_revision(user: &mut User) {
    let name = "/suite/changes";
    let before = user.put(name, "same").await;
    assert_eq!(user.revision().await, before);
    assert_eq!(
        user.range(key(name)).await.0,
        before,
        "a read changes nothing"
    );
    let nothing = user.delete(key("/suite/changes/none")).await;
    assert_eq!(nothing, (before, 0), "deleting nothing changes nothing");
    let failing = Transaction {
        compare: vec![changed_at(name, Revision(0))],
        success: vec![put(name, "not done")],
        failure: Vec::new(),
    };
    let outcome = user.transact(failing).await.expect("valid");
    assert_eq!((outcome.succeeded, outcome.revision), (false, before));
    let same = user.put(name, "same").await;
    assert_eq!(
        same,
        Revision(before.0 + 1),
        "a put changes, also to the same value"
    );
}

async fn conditions_choose_the_branch(user: &mut User) {
    let name = "/suite/conditions";
    let there = user.put(name, "v").await;
    let value = |equals: &'static str| Compare::Value {
        key: name.to_owned(),
        equals: Bytes::from_static(equals.as_bytes()),
    };
    let missing_value = Compare::Value {
        key: "/suite/conditions/none".to_owned(),
        equals: Bytes::new(),
    };
    let cases = [
        (vec![], true),
        (vec![changed_at(name, there)], true),
        (vec![changed_at(name, Revision(there.0 - 1))], false),
        (vec![changed_at(name, Revision(0))], false),
        (
            vec![changed_at("/suite/conditions/none", Revision(0))],
            true,
        ),
        (vec![changed_at("/suite/conditions/none", there)], false),
        (vec![value("v")], true),
        (vec![value("w")], false),
        (vec![missing_value], false),
        (vec![value("v"), changed_at(name, there)], true),
        (vec![value("v"), changed_at(name, Revision(0))], false),
    ];
    for (compare, holds) in cases {
        let transaction = Transaction {
            compare: compare.clone(),
            success: vec![Operation::Range(key(name))],
            failure: Vec::new(),
        };
        let outcome = user.transact(transaction).await.expect("valid");
        assert_eq!(outcome.succeeded, holds, "{compare:?}");
        assert_eq!(outcome.results.len(), usize::from(holds), "{compare:?}");
    }
}

async fn a_transaction_is_one_revision_and_sees_itself(user: &mut User) {
    user.put("/suite/one/gone", "old").await;
    let transaction = Transaction {
        success: vec![
            put("/suite/one/a", "1"),
            Operation::Range(prefix("/suite/one/")),
            Operation::Delete(key("/suite/one/gone")),
            put("/suite/one/b", "2"),
            Operation::Range(prefix("/suite/one/")),
        ],
        ..Transaction::default()
    };
    let outcome = user.transact(transaction).await.expect("valid");
    let [put_a, early, deleted, put_b, late] =
        <[_; 5]>::try_from(outcome.results).expect("an answer for each");
    assert_eq!((put_a, put_b), (OperationResult::Put, OperationResult::Put));
    assert_eq!(deleted, OperationResult::Delete(1));
    let names = |result: OperationResult| match result {
        OperationResult::Range(found) => found
            .into_iter()
            .map(|one| (one.key, one.mod_revision))
            .collect::<Vec<_>>(),
        other => panic!("a range is not answered by {other:?}"),
    };
    let early: Vec<_> = names(early).into_iter().map(|(name, _)| name).collect();
    assert_eq!(early, ["/suite/one/a", "/suite/one/gone"]);
    let expected = ["/suite/one/a", "/suite/one/b"].map(|name| (name.to_owned(), outcome.revision));
    assert_eq!(names(late), expected);
}

async fn ranges_are_ordered_and_exact(user: &mut User) {
    for name in ["b/", "b/2", "b/10", "b", "a", "b0", "b/\u{10FFFF}", "c"] {
        user.put(&format!("/suite/range/{name}"), "").await;
    }
    let found = user.range(prefix("/suite/range/b/")).await.1;
    let found: Vec<_> = found.iter().map(|one| one.key.as_str()).collect();
    let expected = ["b/", "b/10", "b/2", "b/\u{10FFFF}"].map(|name| format!("/suite/range/{name}"));
    assert_eq!(found, expected);
    assert_eq!(user.range(key("/suite/range/b")).await.1.len(), 1);
    assert_eq!(user.range(prefix("/suite/range")).await.1.len(), 8);
    assert!(
        user.range(prefix("")).await.1.len() >= 8,
        "all keys begin with nothing"
    );
    assert_eq!(user.delete(prefix("/suite/range/b/")).await.1, 4);
    assert_eq!(user.range(prefix("/suite/range/b")).await.1.len(), 2);
}

async fn a_failed_transaction_does_nothing(user: &mut User) {
    let before = user.revision().await;
    let no_such_lease = Transaction {
        success: vec![
            put("/suite/failed/a", "1"),
            put_leased("/suite/failed/b", "2", LeaseId(u64::MAX >> 1)),
        ],
        ..Transaction::default()
    };
    let outcome = user.transact(no_such_lease).await;
    assert_eq!(outcome, Err(MetadataError::NoSuchLease));
    assert_eq!(
        user.range(prefix("/suite/failed/")).await,
        (before, Vec::new())
    );
}

async fn limits_are_kept(user: &mut User) {
    let long = "k".repeat(KEY_LENGTH_MAX - 1);
    user.put(&format!("/{long}"), "").await;
    user.delete(key(&format!("/{long}"))).await;
    let before = user
        .put("/suite/limits", &"v".repeat(VALUE_LENGTH_MAX))
        .await;
    let many = |count: usize| (0..count).map(|one| put(&format!("/suite/limits/{one}"), ""));
    let allowed = Transaction {
        success: many(TRANSACTION_OPERATIONS_MAX).collect(),
        ..Transaction::default()
    };
    let revision = user
        .transact(allowed)
        .await
        .expect("within the limit")
        .revision;
    assert_eq!(revision, Revision(before.0 + 1));
    let absent = |_| changed_at("/suite/limits/none", Revision(0));
    let large = "v".repeat(VALUE_LENGTH_MAX);
    let refused = [
        Transaction {
            success: vec![put("", "")],
            ..Transaction::default()
        },
        Transaction {
            success: vec![put(&format!("//{long}"), "")],
            ..Transaction::default()
        },
        Transaction {
            success: vec![put("/suite/limits", &format!("{large}+"))],
            ..Transaction::default()
        },
        Transaction {
            failure: many(TRANSACTION_OPERATIONS_MAX + 1).collect(),
            ..Transaction::default()
        },
        Transaction {
            compare: (0..=TRANSACTION_OPERATIONS_MAX).map(absent).collect(),
            ..Transaction::default()
        },
        Transaction {
            success: (0..5)
                .map(|one| put(&format!("/suite/limits/{one}"), &large))
                .collect(),
            ..Transaction::default()
        },
    ];
    for transaction in refused {
        assert_eq!(
            user.transact(transaction).await,
            Err(MetadataError::Invalid)
        );
    }
    assert_eq!(
        user.revision().await,
        revision,
        "what is refused changes nothing"
    );
    user.delete(prefix("/suite/limits")).await;
}

async fn each_key_is_changed_once(user: &mut User) {
    let before = user.put("/suite/once/a", "").await;
    let refused = [
        vec![put("/suite/once/a", "1"), put("/suite/once/a", "2")],
        vec![
            put("/suite/once/a", "1"),
            Operation::Delete(key("/suite/once/a")),
        ],
        vec![
            Operation::Delete(prefix("/suite/once/")),
            put("/suite/once/b", "1"),
        ],
    ];
    for operations in refused {
        let twice = Transaction {
            failure: operations,
            ..Transaction::default()
        };
        assert_eq!(user.transact(twice).await, Err(MetadataError::Invalid));
    }
    assert_eq!(user.revision().await, before);
}

async fn requests_in_flight_are_all_answered(user: &mut User) {
    let tokens: Vec<_> = (0..100)
        .map(|one| {
            let operation = put(&format!("/suite/flight/{one}"), "");
            user.submit(MetadataRequest::Transact(Transaction {
                success: vec![operation],
                ..Transaction::default()
            }))
        })
        .collect();
    let mut revisions = BTreeSet::new();
    for token in tokens.into_iter().rev() {
        match user.answer(token).await {
            MetadataAnswer::Transacted(outcome) => assert!(revisions.insert(outcome.revision)),
            other => panic!("a transaction is not answered by {other:?}"),
        }
    }
    assert_eq!(user.range(prefix("/suite/flight/")).await.1.len(), 100);
}

async fn racing_users_lose_no_update<H: Harness>(harness: &mut H) {
    const USERS: usize = 4;
    const UPDATES: u64 = 15;
    let name = "/suite/race";
    let mut racers = Vec::new();
    for _ in 0..USERS {
        let mut user = User::new(harness.session().await);
        racers.push(tokio::spawn(async move {
            for _ in 0..UPDATES {
                while !increment(&mut user, name).await {}
            }
        }));
    }
    for racer in racers {
        racer.await.expect("a racer ends well");
    }
    let mut user = User::new(harness.session().await);
    let found = user.find(name).await.expect("the racers made it");
    assert_eq!(
        &found.value[..],
        (USERS as u64 * UPDATES).to_string().as_bytes()
    );
    assert_eq!(found.version, USERS as u64 * UPDATES);
}

/// Whether nobody came between the read and the write.
async fn increment(user: &mut User, name: &str) -> bool {
    let found = user.find(name).await;
    let (count, changed) = found.map_or((0, Revision(0)), |found| {
        let text = str::from_utf8(&found.value).expect("a number");
        (text.parse::<u64>().expect("a number"), found.mod_revision)
    });
    let update = Transaction {
        compare: vec![changed_at(name, changed)],
        success: vec![put(name, &(count + 1).to_string())],
        failure: Vec::new(),
    };
    user.transact(update).await.expect("valid").succeeded
}
