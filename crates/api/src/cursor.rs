//! Cursors: where a piece of a listing ended, as clients hand it back for the next one.
//!
//! Invariants:
//! - clients are to take a cursor as it is, so it looks like no name and no time.

use crate::{Problem, ProblemKind};

/// The cursor of a place.
pub(crate) fn of(place: &str) -> String {
    place.bytes().map(|byte| format!("{byte:02x}")).collect()
}

/// The place of a cursor.
pub(crate) fn read(cursor: &str) -> Result<String, Problem> {
    let digits = cursor.as_bytes().chunks(2);
    let bytes: Option<Vec<u8>> = digits
        .map(|pair| {
            let pair = std::str::from_utf8(pair).ok()?;
            let is_hex = pair.len() == 2 && pair.bytes().all(|digit| digit.is_ascii_hexdigit());
            is_hex.then(|| u8::from_str_radix(pair, 16).ok()).flatten()
        })
        .collect();
    let place = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
    place.ok_or_else(none)
}

/// What is no cursor, or none of this listing.
pub(crate) fn none() -> Problem {
    Problem::new(ProblemKind::Invalid, "after is no cursor of this interface")
        .hint("it is what `next` said in the piece before")
}
