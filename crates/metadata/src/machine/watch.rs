//! Watches: who is told of which keys.
//!
//! Invariants:
//! - the events of one revision come in one answer, never split;
//! - a watch is told of nothing before the revision that it begins at.

use std::collections::BTreeMap;

use holdfast_model::metadata::{MetadataAnswer, MetadataToken, Revision, Selector, WatchEvent};

use super::history::{History, event_bytes};
use super::{ClientId, Output};
use crate::limits::WATCHES_PER_CLIENT_MAX;

/// Bytes of past events after which an answer is closed at the end of its revision: history is told
/// in pieces of about this size.
const REPLAY_BYTES: usize = 1 << 20;

#[derive(Clone, Debug)]
struct Watch {
    selector: Selector,
    from: Revision,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Watches {
    watches: BTreeMap<(ClientId, MetadataToken), Watch>,
}

impl Watches {
    pub(super) fn contains(&self, client: ClientId, token: MetadataToken) -> bool {
        self.watches.contains_key(&(client, token))
    }

    pub(super) fn has_room(&self, client: ClientId) -> bool {
        self.tokens(client).take(WATCHES_PER_CLIENT_MAX).count() < WATCHES_PER_CLIENT_MAX
    }

    pub(super) fn insert(
        &mut self,
        client: ClientId,
        token: MetadataToken,
        selector: Selector,
        from: Revision,
    ) {
        let old = self
            .watches
            .insert((client, token), Watch { selector, from });
        assert!(old.is_none(), "a token names one watch");
    }

    pub(super) fn remove(&mut self, client: ClientId, token: MetadataToken) {
        self.watches.remove(&(client, token));
    }

    pub(super) fn remove_client(&mut self, client: ClientId) {
        let tokens: Vec<_> = self.tokens(client).collect();
        for token in tokens {
            self.remove(client, token);
        }
    }

    pub(super) fn tell(&self, revision: Revision, events: &[WatchEvent], out: &mut Output) {
        for ((client, token), watch) in &self.watches {
            if revision < watch.from {
                continue;
            }
            let told: Vec<_> = events
                .iter()
                .filter(|event| selects(&watch.selector, event))
                .cloned()
                .collect();
            if !told.is_empty() {
                out.answer(
                    *client,
                    *token,
                    MetadataAnswer::Watched {
                        revision,
                        events: told,
                    },
                );
            }
        }
    }

    fn tokens(&self, client: ClientId) -> impl Iterator<Item = MetadataToken> {
        let all = (client, MetadataToken(0))..=(client, MetadataToken(u64::MAX));
        self.watches.range(all).map(|((_, token), _)| *token)
    }
}

/// What a watch that begins at `from` is told at once. The last answer, which may be empty, tells
/// that the watch has caught up with `now`.
pub(super) fn replay(
    history: &History,
    selector: &Selector,
    from: Revision,
    now: Revision,
) -> Vec<MetadataAnswer> {
    let mut answers = Vec::new();
    let mut events = Vec::new();
    let mut bytes = 0;
    for (revision, happened) in history.since(from) {
        for event in happened.iter().filter(|event| selects(selector, event)) {
            bytes += event_bytes(event);
            events.push(event.clone());
        }
        if bytes >= REPLAY_BYTES && revision < now {
            answers.push(MetadataAnswer::Watched {
                revision,
                events: std::mem::take(&mut events),
            });
            bytes = 0;
        }
    }
    answers.push(MetadataAnswer::Watched {
        revision: now,
        events,
    });
    answers
}

fn selects(selector: &Selector, event: &WatchEvent) -> bool {
    let key = match event {
        WatchEvent::Put(new) => &new.key,
        WatchEvent::Delete { key, .. } => key,
    };
    match selector {
        Selector::Key(name) => key == name,
        Selector::Prefix(prefix) => key.starts_with(prefix.as_str()),
    }
}
