use holdfast_model::metadata::{
    Compare, MetadataAnswer, MetadataError, MetadataRequest, Operation, OperationResult,
    Transaction, TransactionOutcome,
};
use holdfast_stdx::Prng;

use super::*;

fn key_value() -> KeyValue {
    KeyValue {
        key: "k".to_owned(),
        value: Bytes::from_static(b"\xFF\x00"),
        create_revision: Revision(2),
        mod_revision: Revision(3),
        version: 4,
        lease: LeaseId(5),
    }
}

fn requests() -> Vec<MetadataRequest> {
    let key = || "k".to_owned();
    vec![
        MetadataRequest::Transact(Transaction {
            compare: vec![
                Compare::ModRevision {
                    key: key(),
                    equals: Revision(1),
                },
                Compare::Value {
                    key: key(),
                    equals: Bytes::from_static(b"v"),
                },
            ],
            success: vec![
                Operation::Range(Selector::Key(key())),
                Operation::Put {
                    key: key(),
                    value: Bytes::from_static(b"v"),
                    lease: LeaseId(7),
                },
            ],
            failure: vec![Operation::Delete(Selector::Prefix(key()))],
        }),
        MetadataRequest::Watch {
            selector: Selector::Prefix(String::new()),
            from: Revision(9),
        },
        MetadataRequest::Unwatch,
        MetadataRequest::Grant {
            time_to_live: Duration::from_millis(1_500),
        },
        MetadataRequest::KeepAlive(LeaseId(1)),
        MetadataRequest::Revoke(LeaseId(2)),
    ]
}

fn answers() -> Vec<MetadataAnswer> {
    let results = vec![
        OperationResult::Range(vec![key_value(), key_value()]),
        OperationResult::Put,
        OperationResult::Delete(3),
    ];
    let outcome = TransactionOutcome {
        succeeded: true,
        revision: Revision(8),
        results,
    };
    let deleted = WatchEvent::Delete {
        key: "k".to_owned(),
        mod_revision: Revision(4),
    };
    vec![
        MetadataAnswer::Transacted(outcome),
        MetadataAnswer::Watched {
            revision: Revision(4),
            events: vec![WatchEvent::Put(key_value()), deleted],
        },
        MetadataAnswer::WatchResumed,
        MetadataAnswer::WatchEnded(MetadataError::Compacted(Revision(7))),
        MetadataAnswer::Granted {
            lease: LeaseId(1),
            time_to_live: Duration::from_secs(2),
        },
        MetadataAnswer::KeptAlive,
        MetadataAnswer::Revoked,
        MetadataAnswer::Failed(MetadataError::Unavailable),
        MetadataAnswer::Failed(MetadataError::NoSuchLease),
        MetadataAnswer::Failed(MetadataError::Invalid),
        MetadataAnswer::Failed(MetadataError::Full),
    ]
}

/// Every value is read back; every part of its bytes, and its bytes with one more, is refused.
fn reads_back_whole<T: Encoded + PartialEq + std::fmt::Debug>(values: Vec<T>) {
    for value in values {
        let mut bytes = to_bytes(&value);
        assert_eq!(from_bytes::<T>(&bytes).as_ref(), Ok(&value));
        for length in 0..bytes.len() {
            assert!(
                from_bytes::<T>(&bytes[..length]).is_err(),
                "{value:?} cut at {length}"
            );
        }
        bytes.push(0);
        assert_eq!(from_bytes::<T>(&bytes), Err(CodecError::Surplus));
    }
}

#[test]
fn what_is_written_is_read_back() {
    reads_back_whole(requests());
    reads_back_whole(answers());
}

#[test]
fn absurd_counts_allocate_nothing() {
    let mut bytes = vec![1];
    bytes.extend_from_slice(&u32::MAX.to_le_bytes());
    assert_eq!(
        from_bytes::<MetadataRequest>(&bytes),
        Err(CodecError::Short)
    );
}

#[test]
fn damaged_bytes_are_refused_or_read_as_something_else() {
    let mut prng = Prng::from_seed(11);
    for value in requests() {
        let bytes = to_bytes(&value);
        for _ in 0..2_000 {
            let mut damaged = bytes.clone();
            let place = prng.below(damaged.len() as u64) as usize;
            damaged[place] ^= 1 << prng.below(8);
            if let Ok(other) = from_bytes::<MetadataRequest>(&damaged) {
                assert_eq!(to_bytes(&other), damaged, "one value has one form");
            }
        }
    }
}

#[test]
fn the_first_version_is_read_for_ever() {
    // A put of "k" = "v" under lease 7, if "k" does not exist.
    let literal = b"\x01\
        \x01\0\0\0\x01\x01\0\0\0k\0\0\0\0\0\0\0\0\
        \x01\0\0\0\x02\x01\0\0\0k\x01\0\0\0v\x07\0\0\0\0\0\0\0\
        \0\0\0\0";
    let request = MetadataRequest::Transact(Transaction {
        compare: vec![Compare::ModRevision {
            key: "k".to_owned(),
            equals: Revision(0),
        }],
        success: vec![Operation::Put {
            key: "k".to_owned(),
            value: Bytes::from_static(b"v"),
            lease: LeaseId(7),
        }],
        failure: Vec::new(),
    });
    assert_eq!(to_bytes(&request), literal);
    assert_eq!(from_bytes(literal), Ok(request));
}
