//! What the suite cannot see: the changes that come out, determinism, limits of size.

use std::collections::BTreeMap;

use holdfast_model::metadata::{
    Compare, TIME_TO_LIVE_MAX, TRANSACTION_OPERATIONS_MAX, VALUE_LENGTH_MAX,
};
use holdfast_stdx::Prng;

use super::*;

const CLIENT: ClientId = ClientId(1);
const LIMITS: HistoryLimits = HistoryLimits {
    revisions_max: 20,
    bytes_max: 8 << 10,
};

fn put(key: &str, value: Bytes) -> Operation {
    Operation::Put {
        key: key.to_owned(),
        value,
        lease: LeaseId::default(),
    }
}

fn transact(machine: &mut Machine, success: Vec<Operation>) -> MetadataAnswer {
    let mut out = Output::default();
    let transaction = Transaction {
        success,
        ..Transaction::default()
    };
    let request = MetadataRequest::Transact(transaction);
    machine.apply(Instant::ZERO, CLIENT, MetadataToken(0), request, &mut out);
    out.answers.pop().expect("an answer").answer
}

/// A store's state as the embedded store keeps it: made from nothing but the changes.
fn replay(snapshot: &mut Snapshot, changes: &[StoreChange]) {
    for change in changes {
        match change {
            StoreChange::Committed { revision, events } => {
                snapshot.revision = *revision;
                snapshot.history.push(events.clone());
                let mut keys: BTreeMap<_, _> = std::mem::take(&mut snapshot.keys)
                    .into_iter()
                    .map(|one| (one.key.clone(), one))
                    .collect();
                for event in events {
                    match event {
                        WatchEvent::Put(new) => keys.insert(new.key.clone(), new.clone()),
                        WatchEvent::Delete { key, .. } => keys.remove(key),
                    };
                }
                snapshot.keys = keys.into_values().collect();
            }
            StoreChange::LeaseGranted {
                lease,
                time_to_live,
            } => {
                snapshot.leases.push((*lease, *time_to_live));
                snapshot.lease_next = LeaseId(lease.0 + 1);
            }
            StoreChange::LeaseEnded(lease) => snapshot.leases.retain(|(id, _)| id != lease),
            StoreChange::HistoryFrom(revision) => {
                let gone = (revision.0 - snapshot.history_from.0) as usize;
                snapshot.history.drain(..gone);
                snapshot.history_from = *revision;
            }
        }
    }
}

/// Any request, over few keys and few leases so that they meet.
fn any_request(prng: &mut Prng, revision: Revision) -> MetadataRequest {
    let key = |prng: &mut Prng| format!("/{}", prng.below(8));
    let lease = LeaseId(prng.below(6));
    let selector = |prng: &mut Prng| match prng.below(5) {
        0 => Selector::Prefix("/".to_owned()),
        _ => Selector::Key(key(prng)),
    };
    match prng.below(20) {
        0 => MetadataRequest::Grant {
            time_to_live: Duration::from_millis(prng.between(900, 4_000)),
        },
        1 => MetadataRequest::KeepAlive(lease),
        2 => MetadataRequest::Revoke(lease),
        3 => MetadataRequest::Watch {
            selector: selector(prng),
            from: Revision(revision.0.saturating_sub(prng.below(30))),
        },
        4 => MetadataRequest::Unwatch,
        _ => {
            let equals = Revision(revision.0 * prng.below(2));
            let operations = (0..prng.below(4))
                .map(|_| match prng.below(6) {
                    0 => Operation::Delete(selector(prng)),
                    1 => Operation::Range(selector(prng)),
                    _ => Operation::Put {
                        key: key(prng),
                        value: Bytes::from(vec![b'v'; prng.below(2_000) as usize]),
                        lease: if prng.chance(1, 4) {
                            lease
                        } else {
                            LeaseId::default()
                        },
                    },
                })
                .collect();
            let compare = Compare::ModRevision {
                key: key(prng),
                equals,
            };
            MetadataRequest::Transact(Transaction {
                compare: vec![compare],
                failure: operations,
                success: Vec::new(),
            })
        }
    }
}

fn any_run(seed: u64, steps: usize) -> Vec<Output> {
    let mut prng = Prng::from_seed(seed);
    let mut machine = Machine::new(LIMITS);
    let mut durable = machine.snapshot();
    let mut now = Instant::ZERO;
    let mut outputs = Vec::new();
    for step in 0..steps {
        let mut out = Output::default();
        let client = ClientId(prng.below(3));
        now += Duration::from_millis(prng.below(200));
        match prng.below(50) {
            0 => machine.disconnect(client),
            1 => {
                let mut told = Output::default();
                machine = Machine::restore(LIMITS, now, durable.clone(), &mut told)
                    .expect("what was made durable is whole");
                assert!(
                    told.changes.is_empty(),
                    "nothing beyond the limits was kept"
                );
            }
            2 => machine.handle_timeout(now, &mut out),
            _ => {
                let token = MetadataToken(step as u64);
                let request = any_request(&mut prng, machine.revision());
                machine.apply(now, client, token, request, &mut out);
            }
        }
        machine.assert_invariants();
        replay(&mut durable, &out.changes);
        assert_eq!(
            durable,
            machine.snapshot(),
            "the changes are all that changed"
        );
        outputs.push(out);
    }
    outputs
}

#[test]
fn the_changes_are_the_state_and_the_same_for_the_same_seed() {
    for seed in 0..20 {
        let outputs = any_run(seed, 600);
        assert_eq!(outputs, any_run(seed, 600));
        let kinds = |wanted: fn(&StoreChange) -> bool| {
            outputs.iter().flat_map(|out| &out.changes).any(wanted)
        };
        assert!(kinds(|change| matches!(change, StoreChange::LeaseEnded(_))));
        assert!(kinds(|change| matches!(
            change,
            StoreChange::HistoryFrom(_)
        )));
    }
}

#[test]
fn what_does_not_fit_together_is_not_restored() {
    let mut machine = Machine::new(LIMITS);
    transact(&mut machine, vec![put("/a", Bytes::new())]);
    transact(&mut machine, vec![put("/b", Bytes::new())]);
    let good = machine.snapshot();
    let restore = |change: fn(&mut Snapshot)| {
        let mut snapshot = good.clone();
        change(&mut snapshot);
        let mut out = Output::default();
        Machine::restore(LIMITS, Instant::ZERO, snapshot, &mut out).map(|_| ())
    };
    assert_eq!(restore(|_| ()), Ok(()));
    let history = Err(SnapshotError::History);
    assert_eq!(restore(|snapshot| snapshot.revision.0 += 1), history);
    assert_eq!(restore(|snapshot| snapshot.revision.0 = u64::MAX), history);
    assert_eq!(restore(|snapshot| snapshot.history_from.0 = 0), history);
    assert_eq!(
        restore(|snapshot| snapshot.history_from.0 = u64::MAX),
        history
    );
    assert_eq!(restore(|snapshot| snapshot.history[0].clear()), history);
    let key = Err(SnapshotError::Key);
    assert_eq!(restore(|snapshot| snapshot.keys[0].mod_revision.0 = 9), key);
    assert_eq!(
        restore(|snapshot| snapshot.keys[0].create_revision.0 = 3),
        key
    );
    assert_eq!(restore(|snapshot| snapshot.keys[0].version = 0), key);
    assert_eq!(
        restore(|snapshot| snapshot.keys[0].key = "/b".to_owned()),
        key
    );
    let lease = Err(SnapshotError::Lease);
    assert_eq!(restore(|snapshot| snapshot.keys[0].lease.0 = 1), lease);
    assert_eq!(restore(|snapshot| snapshot.lease_next.0 = 0), lease);
    let twice = |snapshot: &mut Snapshot| {
        snapshot.lease_next.0 = 9;
        snapshot.leases = vec![(LeaseId(2), TIME_TO_LIVE_MAX); 2];
    };
    assert_eq!(restore(twice), lease);
    let unmade = |snapshot: &mut Snapshot| snapshot.leases = vec![(LeaseId(2), TIME_TO_LIVE_MAX)];
    assert_eq!(restore(unmade), lease);
}

#[test]
fn a_full_store_refuses_puts_and_takes_deletes() {
    let mut machine = Machine::new(LIMITS);
    // The values share their bytes: the test itself needs little memory.
    let value = Bytes::from(vec![7; VALUE_LENGTH_MAX]);
    let mut count = 0;
    loop {
        match transact(&mut machine, vec![put(&format!("/{count}"), value.clone())]) {
            MetadataAnswer::Transacted(_) => count += 1,
            answer => {
                assert_eq!(answer, MetadataAnswer::Failed(MetadataError::Invalid));
                break;
            }
        }
    }
    assert_eq!(count, limits::STORE_BYTES_MAX / VALUE_LENGTH_MAX - 1);
    let all = || Selector::Prefix("/".to_owned());
    let answer = transact(&mut machine, vec![Operation::Range(all())]);
    assert_eq!(
        answer,
        MetadataAnswer::Failed(MetadataError::Invalid),
        "too much to answer"
    );
    let answer = transact(&mut machine, vec![Operation::Delete(all())]);
    assert!(matches!(answer, MetadataAnswer::Transacted(_)));
    let answer = transact(&mut machine, vec![put("/", value)]);
    assert!(matches!(answer, MetadataAnswer::Transacted(_)));
    machine.assert_invariants();
}

#[test]
fn long_history_is_told_in_pieces_and_a_revision_never_split() {
    let mut machine = Machine::new(HistoryLimits::default());
    let value = Bytes::from(vec![7; 4 << 10]);
    for _ in 0..5 {
        let operations = (0..TRANSACTION_OPERATIONS_MAX)
            .map(|number| put(&format!("/{number}"), value.clone()))
            .collect();
        transact(&mut machine, operations);
    }
    let mut out = Output::default();
    let request = MetadataRequest::Watch {
        selector: Selector::Prefix("/".to_owned()),
        from: Revision(0),
    };
    machine.apply(Instant::ZERO, CLIENT, MetadataToken(1), request, &mut out);
    let told: Vec<_> = out
        .answers
        .into_iter()
        .map(|addressed| match addressed.answer {
            MetadataAnswer::Watched { revision, events } => (revision.0, events.len()),
            other => panic!("a watch is not answered by {other:?}"),
        })
        .collect();
    let whole = TRANSACTION_OPERATIONS_MAX;
    assert_eq!(told, [(3, 2 * whole), (5, 2 * whole), (6, whole)]);
}

#[test]
fn watches_of_a_client_are_limited_and_end_with_it() {
    let mut machine = Machine::new(LIMITS);
    let mut out = Output::default();
    let mut watch = |machine: &mut Machine, number: usize| {
        out.answers.clear();
        let request = MetadataRequest::Watch {
            selector: Selector::Key("/a".to_owned()),
            from: Revision(0),
        };
        let token = MetadataToken(number as u64);
        machine.apply(Instant::ZERO, CLIENT, token, request, &mut out);
        matches!(
            out.answers[..],
            [Addressed {
                answer: MetadataAnswer::Watched { .. },
                ..
            }]
        )
    };
    for number in 0..limits::WATCHES_PER_CLIENT_MAX {
        assert!(watch(&mut machine, number));
    }
    assert!(!watch(&mut machine, limits::WATCHES_PER_CLIENT_MAX));
    machine.disconnect(CLIENT);
    assert!(watch(&mut machine, limits::WATCHES_PER_CLIENT_MAX));
}
