//! Watches: order, completeness, history, compaction.

use std::collections::BTreeMap;

use holdfast_model::metadata::{
    MetadataAnswer, MetadataError, MetadataRequest, Operation, Revision, Transaction, WatchEvent,
};

use super::user::{key, prefix, put};
use super::{Harness, User};

pub(super) async fn run<H: Harness>(harness: &mut H) {
    let mut user = User::new(harness.session().await);
    the_past_and_the_present_are_told(&mut user).await;
    others_changes_are_told(harness).await;
    only_what_was_asked_is_told(&mut user).await;
    the_future_can_be_watched(&mut user).await;
    an_ended_watch_is_silent(&mut user).await;
    a_token_names_one_watch(&mut user).await;
    replaying_gives_the_state(harness).await;
    forgotten_history_is_refused(harness).await;
}

/// Events in short: the key, and its value or nothing.
fn brief(events: &[WatchEvent]) -> Vec<(String, Option<String>)> {
    events
        .iter()
        .map(|event| match event {
            WatchEvent::Put(new) => (
                new.key.clone(),
                Some(String::from_utf8_lossy(&new.value).into_owned()),
            ),
            WatchEvent::Delete { key, .. } => (key.clone(), None),
        })
        .collect()
}

fn told(name: &str, value: Option<&str>) -> (String, Option<String>) {
    (name.to_owned(), value.map(str::to_owned))
}

async fn the_past_and_the_present_are_told(user: &mut User) {
    let (a, b) = ("/suite/past/a", "/suite/past/b");
    let from = user.put(a, "1").await;
    user.put(b, "1").await;
    let past = user.delete(key(a)).await.0;
    let watch = user.watch(prefix("/suite/past/"), from);
    let events = user.events(watch, past).await;
    assert_eq!(
        brief(&events),
        [told(a, Some("1")), told(b, Some("1")), told(a, None)]
    );
    user.put(b, "2").await;
    let both = Transaction {
        success: vec![Operation::Delete(key(b)), put(a, "3")],
        ..Transaction::default()
    };
    let present = user.transact(both).await.expect("valid").revision;
    let events = user.events(watch, present).await;
    assert_eq!(
        brief(&events),
        [told(b, Some("2")), told(b, None), told(a, Some("3"))]
    );
    match &events[2] {
        WatchEvent::Put(new) => assert_eq!(Some(new.clone()), user.find(a).await),
        WatchEvent::Delete { .. } => panic!("the last event is a put"),
    }
    let later = user.watch(prefix("/suite/past/"), Revision(past.0 + 1));
    assert_eq!(
        user.events(later, present).await,
        events,
        "a watch can be begun anew anywhere"
    );
}

async fn others_changes_are_told<H: Harness>(harness: &mut H) {
    let mut watcher = User::new(harness.session().await);
    let mut writer = User::new(harness.session().await);
    let from = Revision(watcher.revision().await.0 + 1);
    let watch = watcher.watch(prefix("/suite/others/"), from);
    let mut last = from;
    for count in 0..50 {
        last = writer.put("/suite/others/key", &count.to_string()).await;
    }
    let events = watcher.events(watch, last).await;
    let expected: Vec<_> = (0..50)
        .map(|count| told("/suite/others/key", Some(&count.to_string())))
        .collect();
    assert_eq!(brief(&events), expected);
}

async fn only_what_was_asked_is_told(user: &mut User) {
    let from = user.put("/suite/asked/other", "1").await;
    let one = user.watch(key("/suite/asked/one"), from);
    let all = user.watch(prefix("/suite/asked/"), from);
    user.put("/suite/asked/one", "2").await;
    user.put("/suite/asked/one/more", "3").await;
    let last = user.put("/suite/asked/one", "4").await;
    let name = "/suite/asked/one";
    let events = user.events(one, last).await;
    assert_eq!(
        brief(&events),
        [told(name, Some("2")), told(name, Some("4"))]
    );
    assert_eq!(user.events(all, last).await.len(), 4);
}

async fn the_future_can_be_watched(user: &mut User) {
    let name = "/suite/future";
    let now = user.put(name, "now").await;
    let watch = user.watch(key(name), Revision(now.0 + 2));
    user.put(name, "too early").await;
    let last = user.put(name, "in time").await;
    assert_eq!(
        brief(&user.events(watch, last).await),
        [told(name, Some("in time"))]
    );
}

async fn an_ended_watch_is_silent(user: &mut User) {
    let name = "/suite/ended";
    let from = user.put(name, "1").await;
    let ended = user.watch(key(name), from);
    let other = user.watch(key(name), from);
    user.events(ended, from).await;
    user.submit_again(ended, MetadataRequest::Unwatch);
    // The answer to a later request tells that the store knows of the watch's end.
    user.revision().await;
    let last = user.put(name, "2").await;
    user.events(other, last).await;
    let again = user.watch(key(name), last);
    assert_eq!(user.events(again, last).await.len(), 1);
    // Under the token of a watch that is over, a new one can begin: it is told of nothing else.
    user.submit_again(
        ended,
        MetadataRequest::Watch {
            selector: key(name),
            from: last,
        },
    );
    assert_eq!(
        brief(&user.events(ended, last).await),
        [told(name, Some("2"))]
    );
    let unknown = user.submit(MetadataRequest::Unwatch);
    assert_ne!(unknown, ended);
    user.revision().await;
}

async fn a_token_names_one_watch(user: &mut User) {
    let name = "/suite/token";
    let from = user.put(name, "1").await;
    let watch = user.watch(key(name), from);
    assert_eq!(user.events(watch, from).await.len(), 1);
    user.submit_again(
        watch,
        MetadataRequest::Watch {
            selector: key(name),
            from,
        },
    );
    assert_eq!(
        user.answer(watch).await,
        MetadataAnswer::Failed(MetadataError::Invalid)
    );
    let last = user.put(name, "2").await;
    assert_eq!(
        user.events(watch, last).await.len(),
        1,
        "the first watch goes on"
    );
}

/// A watch that begins while others write gives, change by change, what a read gives at the end.
async fn replaying_gives_the_state<H: Harness>(harness: &mut H) {
    let root = "/suite/replay/";
    let mut watcher = User::new(harness.session().await);
    let from = Revision(watcher.revision().await.0 + 1);
    let mut writers = Vec::new();
    for writer in 0..3_u64 {
        let mut user = User::new(harness.session().await);
        writers.push(tokio::spawn(async move {
            for step in 0..40_u64 {
                let name = format!("/suite/replay/{}", (step * 7 + writer * 3) % 11);
                if step % 4 == writer % 4 {
                    user.delete(key(&name)).await;
                } else {
                    user.put(&name, &format!("{writer}:{step}")).await;
                }
            }
        }));
    }
    let watch = watcher.watch(prefix(root), from);
    for writer in writers {
        writer.await.expect("a writer ends well");
    }
    let last = watcher.put("/suite/replay/end", "").await;
    let mut state = BTreeMap::new();
    for event in watcher.events(watch, last).await {
        match event {
            WatchEvent::Put(new) => {
                state.insert(new.key.clone(), new);
            }
            WatchEvent::Delete { key, .. } => {
                assert!(state.remove(&key).is_some(), "what is deleted was there");
            }
        }
    }
    let (_, found) = watcher.range(prefix(root)).await;
    assert_eq!(state.into_values().collect::<Vec<_>>(), found);
}

async fn forgotten_history_is_refused<H: Harness>(harness: &mut H) {
    let mut user = User::new(harness.session().await);
    let name = "/suite/forgotten";
    let old = user.put(name, "1").await;
    let living = user.watch(key(name), old);
    user.events(living, old).await;
    harness.compact().await;
    let watch = user.watch(key(name), old);
    let from = match user.answer(watch).await {
        MetadataAnswer::WatchEnded(MetadataError::Compacted(from)) => from,
        other => panic!("a watch of forgotten history is not answered by {other:?}"),
    };
    assert!(from > old, "what is gone is said");
    let last = user.put(name, "2").await;
    let expected = [told(name, Some("2"))];
    // From what a fresh read tells, a watch can begin, under the token of the one that is over.
    let (now, _) = user.range(key(name)).await;
    assert!(now >= last);
    user.submit_again(
        watch,
        MetadataRequest::Watch {
            selector: key(name),
            from: last,
        },
    );
    assert_eq!(brief(&user.events(watch, last).await), expected);
    assert_eq!(
        brief(&user.events(living, last).await),
        expected,
        "a living watch goes on"
    );
}
