//! What etcd says on the stream of watches, as answers of ours.
//!
//! Invariants:
//! - an answer holds whole revisions: what comes in pieces is kept until its revision is complete;
//! - of a watch that is not ours any more nothing is kept.

use std::collections::BTreeMap;

use holdfast_model::metadata::{
    MetadataAnswer, MetadataError, MetadataToken, Revision, WatchEvent,
};

use super::EtcdError;
use super::names::{Root, revision};
use super::proto::WatchResponse;
use crate::client::way::Told;

/// The watches of one stream.
pub(super) struct Watches {
    root: Root,
    /// The events of a watch's newest revision, of which more may come.
    pieces: BTreeMap<MetadataToken, Vec<WatchEvent>>,
}

impl Watches {
    pub(super) fn new(root: Root) -> Self {
        let pieces = BTreeMap::new();
        Self { root, pieces }
    }

    /// etcd says something; it may be nothing to tell.
    ///
    /// # Errors
    /// What ends the connection.
    pub(super) fn answered(&mut self, answer: WatchResponse) -> Result<Option<Told>, EtcdError> {
        let token = MetadataToken(answer.watch_id.cast_unsigned());
        if answer.canceled {
            self.pieces.remove(&token);
            return Self::cancelled(token, &answer);
        }
        if answer.created {
            return Ok(None);
        }
        let told_up_to = answer.header.map(|header| revision(header.revision));
        if answer.events.is_empty() && !answer.fragment {
            let Some(revision) = told_up_to.filter(|_| !self.pieces.contains_key(&token)) else {
                return Ok(None);
            };
            return Ok(Some(watched(token, revision, Vec::new())));
        }
        let mut events = self.pieces.remove(&token).unwrap_or_default();
        let new = answer.events.into_iter();
        events.extend(new.filter_map(|event| self.root.event(event)));
        // The header names etcd's revision, up to which this watch may not have told everything.
        let Some(last) = events.last().map(happened) else {
            return Ok(None);
        };
        if !answer.fragment {
            return Ok(Some(watched(token, last, events)));
        }
        let whole = events.partition_point(|event| happened(event) < last);
        let rest = events.split_off(whole);
        self.pieces.insert(token, rest);
        let Some(last) = events.last().map(happened) else {
            return Ok(None);
        };
        Ok(Some(watched(token, last, events)))
    }

    fn cancelled(token: MetadataToken, answer: &WatchResponse) -> Result<Option<Told>, EtcdError> {
        if answer.compact_revision > 0 {
            let from = revision(answer.compact_revision);
            let ended = MetadataAnswer::WatchEnded(MetadataError::Compacted(from));
            return Ok(Some((token, ended)));
        }
        if answer.cancel_reason.is_empty() {
            // We have asked for it.
            return Ok(None);
        }
        Err(EtcdError::Watch(answer.cancel_reason.clone()))
    }
}

fn watched(token: MetadataToken, revision: Revision, events: Vec<WatchEvent>) -> Told {
    (token, MetadataAnswer::Watched { revision, events })
}

fn happened(event: &WatchEvent) -> Revision {
    match event {
        WatchEvent::Put(new) => new.mod_revision,
        WatchEvent::Delete { mod_revision, .. } => *mod_revision,
    }
}

#[cfg(test)]
mod tests {
    use holdfast_model::ClusterId;

    use super::super::proto::{Event, KeyValue, ResponseHeader};
    use super::*;

    fn event(revision: i64) -> Event {
        let mut key = Root::of(ClusterId(1)).selection(&holdfast_model::metadata::Selector::Key(
            format!("/{revision}"),
        ));
        Event {
            kind: 1,
            kv: Some(KeyValue {
                key: std::mem::take(&mut key.0),
                mod_revision: revision,
                ..KeyValue::default()
            }),
        }
    }

    fn answer(events: &[i64], fragment: bool) -> WatchResponse {
        WatchResponse {
            header: Some(ResponseHeader {
                cluster_id: 1,
                member_id: 2,
                revision: 90,
            }),
            watch_id: 4,
            fragment,
            events: events.iter().copied().map(event).collect(),
            ..WatchResponse::default()
        }
    }

    /// The revision, and those of the events.
    fn told(watches: &mut Watches, answer: WatchResponse) -> Option<(u64, Vec<u64>)> {
        let (token, answer) = watches.answered(answer).expect("the stream goes on")?;
        assert_eq!(token, MetadataToken(4));
        match answer {
            MetadataAnswer::Watched { revision, events } => {
                let events = events.iter().map(|event| happened(event).0);
                Some((revision.0, events.collect()))
            }
            other => panic!("a watch tells no {other:?}"),
        }
    }

    #[test]
    fn pieces_are_told_as_whole_revisions() {
        let mut watches = Watches::new(Root::of(ClusterId(1)));
        let mut next = |events: &[i64], fragment| told(&mut watches, answer(events, fragment));
        assert_eq!(next(&[3, 3, 4], false), Some((4, vec![3, 3, 4])));
        assert_eq!(next(&[5, 6], true), Some((5, vec![5])));
        assert_eq!(next(&[6], true), None, "revision 6 may have more");
        assert_eq!(next(&[6, 7], true), Some((6, vec![6, 6, 6])));
        assert_eq!(next(&[], true), None);
        assert_eq!(next(&[7], false), Some((7, vec![7, 7])));
        assert_eq!(next(&[], false), Some((90, vec![])), "a sign of progress");
    }

    #[test]
    fn keys_of_others_are_not_told() {
        let mut watches = Watches::new(Root::of(ClusterId(2)));
        assert_eq!(told(&mut watches, answer(&[3], false)), None);
    }

    #[test]
    fn the_end_of_a_watch_says_why() {
        let mut watches = Watches::new(Root::of(ClusterId(1)));
        told(&mut watches, answer(&[5], true));
        let cancelled = |compact_revision, reason: &str| WatchResponse {
            canceled: true,
            compact_revision,
            cancel_reason: reason.to_owned(),
            ..answer(&[], false)
        };
        let compacted = watches.answered(cancelled(8, "compacted")).unwrap();
        let ended = MetadataAnswer::WatchEnded(MetadataError::Compacted(Revision(8)));
        assert_eq!(compacted, Some((MetadataToken(4), ended)));
        assert!(watches.answered(cancelled(0, "")).unwrap().is_none());
        let reason = watches.answered(cancelled(0, "no leader")).unwrap_err();
        assert!(reason.to_string().contains("no leader"));
        assert_eq!(told(&mut watches, answer(&[9], false)), Some((9, vec![9])));
    }
}
