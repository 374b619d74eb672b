//! Listings over the logs of all nodes, which come in pieces.

use std::time::{Duration, SystemTime};

use holdfast_api::documents::{AuditEntry, AuditList, Stall, StallList};

use crate::failure::Failure;

/// A listing, or a piece of one.
pub(super) trait Pieces: Default {
    /// What is listed.
    type Entry;

    /// Its entries, where the rest begins, and the nodes that did not answer.
    fn parts(&mut self) -> (&mut Vec<Self::Entry>, &mut Option<String>, &mut Vec<String>);
}

impl Pieces for AuditList {
    type Entry = AuditEntry;

    fn parts(&mut self) -> (&mut Vec<AuditEntry>, &mut Option<String>, &mut Vec<String>) {
        (&mut self.entries, &mut self.next, &mut self.silent)
    }
}

impl Pieces for StallList {
    type Entry = Stall;

    fn parts(&mut self) -> (&mut Vec<Stall>, &mut Option<String>, &mut Vec<String>) {
        (&mut self.stalls, &mut self.next, &mut self.silent)
    }
}

/// So many entries at most, in as many pieces as that takes. `ask` is told how many are missing still, and after what.
pub(super) async fn read<L: Pieces>(
    limit: u32,
    ask: impl AsyncFn(u32, Option<String>) -> Result<L, Failure>,
) -> Result<L, Failure> {
    let mut all = L::default();
    let (entries, next, silent) = all.parts();
    loop {
        let missing = limit.saturating_sub(entries.len() as u32);
        let mut piece = ask(missing, next.take()).await?;
        let (told, rest, unheard) = piece.parts();
        let has_more = rest.is_some() && (told.len() as u32) < missing;
        entries.append(told);
        *next = rest.take();
        for node in unheard.drain(..) {
            if !silent.contains(&node) {
                silent.push(node);
            }
        }
        if !has_more {
            return Ok(all);
        }
    }
}

/// The moment so long ago, in milliseconds since 1970 (UTC): 0 if it is before that.
pub(super) fn milliseconds_ago(span: Duration) -> u64 {
    let then = SystemTime::now().checked_sub(span);
    let then = then.and_then(|then| then.duration_since(SystemTime::UNIX_EPOCH).ok());
    then.map_or(0, |then| {
        u64::try_from(then.as_millis()).unwrap_or(u64::MAX)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of a log of seven entries in pieces of three, of which one node does not answer.
    async fn told(limit: u32) -> AuditList {
        let read = read(limit, async |missing: u32, after: Option<String>| {
            let begin = after.map_or(0, |after| after.parse().unwrap());
            let end = (begin + u64::from(missing.min(3))).min(7);
            Ok(AuditList {
                entries: (begin..end)
                    .map(|at_ms| AuditEntry {
                        at_ms,
                        ..AuditEntry::default()
                    })
                    .collect(),
                next: (end < 7).then(|| end.to_string()),
                silent: vec!["n2".to_owned()],
            })
        });
        read.await.unwrap()
    }

    #[tokio::test]
    async fn so_many_are_read_as_are_wanted_or_there_are() {
        for (limit, count, next) in [
            (2, 2, Some("2")),
            (6, 6, Some("6")),
            (7, 7, None),
            (99, 7, None),
        ] {
            let list = told(limit).await;
            let times: Vec<_> = list.entries.iter().map(|it| it.at_ms).collect();
            assert_eq!(times, (0..count).collect::<Vec<_>>(), "{limit}");
            assert_eq!(list.next.as_deref(), next, "{limit}");
            assert_eq!(list.silent, ["n2"], "{limit}");
        }
    }

    #[test]
    fn what_was_before_1970_is_0() {
        assert_eq!(milliseconds_ago(Duration::MAX), 0);
        assert!(milliseconds_ago(Duration::ZERO) > 1_700_000_000_000);
    }
}
