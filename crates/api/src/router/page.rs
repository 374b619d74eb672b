//! Listings in pieces.
//!
//! A listing has an order of its own, and a cursor names the last of a piece: what comes or goes in between makes nobody
//! miss or meet anything else twice.
//!
//! Invariants:
//! - without parameters everything is told at once, as version 1 has said from the beginning.

use axum::extract::Query;
use axum::extract::rejection::QueryRejection;
use serde::Deserialize;
use utoipa::IntoParams;

use super::asked;
use crate::{Problem, ProblemKind, cursor};

/// Things in a piece at most, if pieces are asked for.
const LIMIT_MAX: u32 = 1000;

/// Which part of a listing is asked for.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub(super) struct PageQuery {
    /// So many at most, from 1 to 1000; without, all.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
    /// Those after a piece: what its `next` said.
    after: Option<String>,
    /// Those whose names begin so.
    prefix: Option<String>,
}

/// A question that is understood.
pub(super) struct Chosen {
    limit: usize,
    after: Option<String>,
    prefix: String,
}

/// What a query asks for: before anybody is troubled with it.
pub(super) fn chosen(query: Result<Query<PageQuery>, QueryRejection>) -> Result<Chosen, Problem> {
    let query = asked(query)?;
    let limit = match query.limit {
        None => usize::MAX,
        Some(limit) if (1..=LIMIT_MAX).contains(&limit) => limit as usize,
        Some(limit) => {
            let detail = format!("limit is {limit}, and not 1 to {LIMIT_MAX}");
            return Err(Problem::new(ProblemKind::Invalid, &detail)
                .hint("ask for the rest with `after`, or for everything without `limit`"));
        }
    };
    Ok(Chosen {
        limit,
        after: query.after.as_deref().map(cursor::read).transpose()?,
        prefix: query.prefix.unwrap_or_default(),
    })
}

/// A part of a listing: how things are called, and where they stand in its order, is told by these.
pub(super) fn page<T>(
    all: Vec<T>,
    chosen: &Chosen,
    name: impl Fn(&T) -> &str,
    place: impl Fn(&T) -> String,
) -> (Vec<T>, Option<String>) {
    let Chosen {
        limit,
        after,
        prefix,
    } = chosen;
    let is_meant = |one: &T| {
        name(one).starts_with(prefix.as_str())
            && after.as_ref().is_none_or(|after| place(one) > *after)
    };
    let mut meant = all.into_iter().filter(is_meant);
    let piece: Vec<T> = meant.by_ref().take(*limit).collect();
    let next = match (piece.last(), meant.next()) {
        (Some(last), Some(_)) => Some(cursor::of(&place(last))),
        _ => None,
    };
    (piece, next)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(all: &[&str], query: PageQuery) -> Result<(Vec<String>, Option<String>), Problem> {
        let all = all.iter().map(|one| (*one).to_owned()).collect();
        let chosen = chosen(Ok(Query(query)))?;
        Ok(page(all, &chosen, String::as_str, String::clone))
    }

    fn limited(limit: u32, after: Option<String>) -> PageQuery {
        PageQuery {
            limit: Some(limit),
            after,
            prefix: None,
        }
    }

    #[test]
    fn pieces_are_all_of_it_whatever_comes_and_goes() {
        let all = ["a", "b", "c", "d", "e"];
        assert_eq!(
            piece(&all, PageQuery::default()).unwrap(),
            (all.map(str::to_owned).to_vec(), None)
        );
        let (first, next) = piece(&all, limited(2, None)).unwrap();
        assert_eq!(first, ["a", "b"]);
        // The last of the piece goes, and one comes in front of it.
        let (second, next) = piece(&["a", "aa", "c", "d", "e"], limited(2, next)).unwrap();
        assert_eq!(second, ["c", "d"]);
        let (third, next) = piece(&all, limited(2, next)).unwrap();
        assert_eq!((third, next), (vec!["e".to_owned()], None));
        // Where the last piece is full nobody is sent for an empty one.
        assert_eq!(piece(&all, limited(5, None)).unwrap().1, None);
        let named = PageQuery {
            prefix: Some("b".to_owned()),
            ..limited(1, None)
        };
        assert_eq!(piece(&["a", "b", "ba", "c"], named).unwrap().0, ["b"]);
    }

    #[test]
    fn what_is_no_piece_is_refused() {
        for query in [limited(0, None), limited(LIMIT_MAX + 1, None)] {
            assert_eq!(piece(&[], query).unwrap_err().kind, ProblemKind::Invalid);
        }
        for cursor in ["a", "zz", "+1", "ff", "ä"] {
            let query = limited(1, Some(cursor.to_owned()));
            assert_eq!(
                piece(&[], query).unwrap_err().kind,
                ProblemKind::Invalid,
                "{cursor}"
            );
        }
    }
}
