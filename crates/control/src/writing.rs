//! The parts that transactions are made of: records that are written, and what must be as it was for
//! that.

use alloc::string::String;

use holdfast_model::metadata::{Compare, Operation, Revision};
use holdfast_model::record::Record;

use crate::Versioned;

/// A record is written; no lease ends it.
pub(crate) fn put(key: String, record: &impl Record) -> Operation {
    Operation::put(key, record.encode())
}

/// A key is as it was at a revision.
pub(crate) fn still_at(key: String, at: Revision) -> Compare {
    Compare::ModRevision { key, equals: at }
}

/// A key holds this record.
pub(crate) fn still_is(key: String, record: &impl Record) -> Compare {
    Compare::Value {
        key,
        equals: record.encode(),
    }
}

/// There is nothing under a key.
pub(crate) fn absent(key: String) -> Compare {
    still_at(key, Revision(0))
}

/// A key is as the inventory has it, if at all.
pub(crate) fn as_found<R>(key: String, found: Option<&Versioned<R>>) -> Compare {
    still_at(key, found.map_or(Revision(0), |found| found.revision))
}
