use holdfast_model::metadata::{LeaseId, Operation, WatchEvent};

use super::*;

const UNAVAILABLE: MetadataAnswer = MetadataAnswer::Failed(MetadataError::Unavailable);

fn user(number: u64) -> MetadataToken {
    MetadataToken(1_000 + number)
}

fn selector() -> Selector {
    Selector::Prefix("/".to_owned())
}

fn watch(from: u64) -> MetadataRequest {
    MetadataRequest::Watch {
        selector: selector(),
        from: Revision(from),
    }
}

fn nothing() -> MetadataRequest {
    MetadataRequest::Transact(Transaction::default())
}

fn transacted(revision: u64) -> MetadataAnswer {
    MetadataAnswer::Transacted(TransactionOutcome {
        succeeded: true,
        revision: Revision(revision),
        results: Vec::new(),
    })
}

fn watched(revision: u64) -> MetadataAnswer {
    MetadataAnswer::Watched {
        revision: Revision(revision),
        events: vec![WatchEvent::Delete {
            key: "/a".to_owned(),
            mod_revision: Revision(revision),
        }],
    }
}

fn next(ledger: &mut Ledger) -> Option<(MetadataToken, MetadataRequest)> {
    ledger.next_frame(Instant::now()).map(|frame| match frame {
        ClientFrame::Request { token, request } => (token, request),
        ClientFrame::Hello { .. } => panic!("the connection says hello by itself"),
    })
}

fn connected() -> Ledger {
    let mut ledger = Ledger::new(true);
    ledger.connect(Instant::now(), None);
    ledger
}

#[tokio::test]
async fn answers_find_their_askers() {
    let mut ledger = connected();
    let now = Instant::now();
    assert_eq!(ledger.ask(now, user(1), nothing()), None);
    assert_eq!(
        ledger.ask(now, user(2), MetadataRequest::KeepAlive(LeaseId(1))),
        None
    );
    let (first, _) = next(&mut ledger).expect("the first");
    let (second, _) = next(&mut ledger).expect("the second");
    assert_eq!(next(&mut ledger), None);
    let kept = MetadataAnswer::KeptAlive;
    assert_eq!(
        ledger.answered(Instant::now(), second, kept.clone()),
        [(user(2), kept.clone())]
    );
    assert_eq!(
        ledger.answered(Instant::now(), second, kept),
        [],
        "a request is answered once"
    );
    assert_eq!(
        ledger.answered(Instant::now(), first, transacted(5)),
        [(user(1), transacted(5))]
    );
}

#[tokio::test]
async fn what_was_sent_is_unknown_and_what_was_not_waits() {
    let mut ledger = connected();
    let now = Instant::now();
    ledger.ask(now, user(1), nothing());
    let (sent, _) = next(&mut ledger).expect("a frame");
    ledger.ask(now, user(2), nothing());
    assert_eq!(ledger.disconnect(), [(user(1), UNAVAILABLE)]);
    assert_eq!(
        ledger.answered(Instant::now(), sent, transacted(5)),
        [],
        "too late"
    );
    ledger.connect(Instant::now(), None);
    let (again, _) = next(&mut ledger).expect("what waited is sent");
    assert_eq!(
        ledger.answered(Instant::now(), again, transacted(6)),
        [(user(2), transacted(6))]
    );
    assert_eq!(next(&mut ledger), None, "what was sent is not repeated");
}

#[tokio::test]
async fn nothing_waits_for_ever_or_without_bound() {
    let mut ledger = Ledger::new(true);
    let now = Instant::now();
    ledger.ask(now, user(1), nothing());
    ledger.ask(now + Duration::from_millis(1), user(2), nothing());
    assert_eq!(ledger.next_expiry(), Some(now + REQUEST_PATIENCE));
    assert_eq!(ledger.expire(now), []);
    assert_eq!(
        ledger.expire(now + REQUEST_PATIENCE),
        [(user(1), UNAVAILABLE)]
    );
    for number in 1..REQUESTS_WAITING_MAX as u64 {
        assert_eq!(ledger.ask(now, user(number), nothing()), None);
    }
    assert_eq!(
        ledger.ask(now, user(0), nothing()),
        Some((user(0), UNAVAILABLE))
    );
    ledger.connect(Instant::now(), None);
    let sent = std::iter::from_fn(|| next(&mut ledger)).count();
    assert_eq!(
        sent,
        REQUESTS_IN_FLIGHT_MAX - 1,
        "the server takes no more at a time"
    );
}

#[tokio::test]
async fn watches_go_on_where_they_were() {
    let mut ledger = Ledger::new(true);
    let now = Instant::now();
    assert_eq!(ledger.ask(now, user(1), watch(3)), None);
    ledger.connect(Instant::now(), None);
    let (first, request) = next(&mut ledger).expect("the watch begins with the connection");
    assert_eq!(request, watch(3));
    assert_eq!(
        ledger.answered(Instant::now(), first, watched(7)),
        [(user(1), watched(7))]
    );
    assert_eq!(ledger.disconnect(), [], "a watch survives");
    ledger.connect(Instant::now(), None);
    let (second, request) = next(&mut ledger).expect("the watch goes on");
    assert_eq!(request, watch(8));
    assert_eq!(
        ledger.answered(Instant::now(), first, watched(9)),
        [],
        "the old watch is over"
    );
    let ended = MetadataAnswer::WatchEnded(MetadataError::Compacted(Revision(30)));
    assert_eq!(
        ledger.answered(Instant::now(), second, ended.clone()),
        [(user(1), ended)]
    );
    ledger.disconnect();
    ledger.connect(Instant::now(), None);
    assert_eq!(
        next(&mut ledger),
        None,
        "a watch that has ended is not begun again"
    );
}

#[tokio::test]
async fn a_quiet_watch_does_not_fall_behind() {
    let mut ledger = connected();
    let now = Instant::now();
    ledger.ask(now, user(1), watch(3));
    let (early, _) = next(&mut ledger).expect("the first watch");
    ledger.ping();
    ledger.ping();
    let (ping, request) = next(&mut ledger).expect("the ping");
    assert_eq!(request, nothing());
    assert_eq!(next(&mut ledger), None, "one ping at a time");
    ledger.ask(now, user(2), watch(4));
    assert!(early < ping);
    assert_eq!(
        ledger.answered(Instant::now(), ping, transacted(90)),
        [],
        "nobody asked"
    );
    ledger.disconnect();
    ledger.connect(Instant::now(), None);
    let mut again: Vec<_> = std::iter::from_fn(|| next(&mut ledger))
        .map(|(_, one)| one)
        .collect();
    again.sort_by_key(|request| match request {
        MetadataRequest::Watch { from, .. } => *from,
        other => panic!("only watches go on, not {other:?}"),
    });
    // The later watch may have been answered after the ping: it goes on where it was.
    assert_eq!(again, [watch(4), watch(91)]);
}

#[tokio::test]
async fn an_unwatched_watch_is_silent() {
    let mut ledger = connected();
    let now = Instant::now();
    ledger.ask(now, user(1), watch(3));
    let (wire, _) = next(&mut ledger).expect("the watch");
    assert_eq!(
        ledger.ask(now, user(1), watch(3)),
        Some((user(1), MetadataAnswer::Failed(MetadataError::Invalid))),
        "a token names one watch"
    );
    ledger.ask(now, user(1), MetadataRequest::Unwatch);
    assert_eq!(next(&mut ledger), Some((wire, MetadataRequest::Unwatch)));
    assert_eq!(ledger.answered(Instant::now(), wire, watched(7)), []);
    ledger.ask(now, user(1), watch(9));
    let (again, request) = next(&mut ledger).expect("the token is free again");
    assert_eq!(request, watch(9));
    assert_ne!(again, wire);
}

#[tokio::test]
async fn without_an_order_a_ping_tells_nothing_of_watches() {
    let mut ledger = Ledger::new(false);
    ledger.connect(Instant::now(), None);
    ledger.ask(Instant::now(), user(1), watch(3));
    next(&mut ledger).expect("the watch");
    ledger.ping();
    let (ping, _) = next(&mut ledger).expect("the ping");
    assert_eq!(ledger.answered(Instant::now(), ping, transacted(90)), []);
    ledger.disconnect();
    ledger.connect(Instant::now(), None);
    let (_, request) = next(&mut ledger).expect("the watch goes on");
    assert_eq!(request, watch(3), "nothing was told yet");
}

fn origin(store: u64, revision: u64) -> Option<Origin> {
    let revision = Revision(revision);
    Some(Origin { store, revision })
}

#[tokio::test]
async fn no_watch_goes_on_over_a_store_that_has_gone_back_or_another() {
    let ended = MetadataAnswer::WatchEnded(MetadataError::Unavailable);
    let resumed = (user(1), MetadataAnswer::WatchResumed);
    for (again, goes_on) in [
        (origin(1, 7), true),
        (origin(1, 8), true),
        (None, true),
        (origin(1, 6), false),
        (origin(2, 8), false),
    ] {
        let mut ledger = Ledger::new(false);
        assert_eq!(ledger.connect(Instant::now(), origin(1, 2)), []);
        ledger.ask(Instant::now(), user(1), watch(3));
        let (wire, _) = next(&mut ledger).expect("the watch");
        ledger.answered(Instant::now(), wire, watched(7));
        ledger.disconnect();
        let told = ledger.connect(Instant::now(), again);
        if goes_on {
            assert_eq!(told, std::slice::from_ref(&resumed), "{again:?}");
            assert_eq!(next(&mut ledger).map(|(_, it)| it), Some(watch(8)));
        } else {
            assert_eq!(told, [(user(1), ended.clone())], "{again:?}");
            assert_eq!(next(&mut ledger), None);
            ledger.disconnect();
            assert_eq!(ledger.connect(Instant::now(), again), [], "it is told once");
        }
    }
}

/// What answers there may be a copy.
#[tokio::test]
async fn what_was_to_be_changed_is_not_changed_over_another_connection() {
    for watches in [false, true] {
        let mut ledger = connected();
        let now = Instant::now();
        if watches {
            ledger.ask(now, user(1), watch(3));
            next(&mut ledger).expect("the watch");
        }
        ledger.disconnect();
        let put = Operation::put("/a".to_owned(), holdfast_stdx::Bytes::new());
        let change = MetadataRequest::Transact(Transaction {
            success: vec![put],
            ..Transaction::default()
        });
        ledger.ask(now, user(2), change.clone());
        ledger.ask(now, user(3), nothing());
        let told = ledger.connect(now, None);
        let mut sent = std::iter::from_fn(|| next(&mut ledger)).map(|(_, request)| request);
        if watches {
            let resumed = (user(1), MetadataAnswer::WatchResumed);
            assert_eq!(told, [(user(2), UNAVAILABLE), resumed]);
            assert_eq!(sent.next(), Some(watch(3)));
        } else {
            assert_eq!(told, []);
            assert_eq!(sent.next(), Some(change));
        }
        assert_eq!(sent.next(), Some(nothing()));
        assert_eq!(sent.next(), None);
    }
}

#[tokio::test]
async fn a_store_that_goes_back_on_a_living_connection_is_noticed() {
    let mut ledger = connected();
    let now = Instant::now();
    ledger.ask(now, user(1), watch(3));
    ledger.ask(now, user(2), nothing());
    let (wire, _) = next(&mut ledger).expect("the watch");
    ledger.ping();
    let (early, _) = next(&mut ledger).expect("the ping");
    let (asked, _) = next(&mut ledger).expect("the request");
    ledger.answered(Instant::now(), asked, transacted(9));
    assert_eq!(
        ledger.answered(Instant::now(), early, transacted(8)),
        [],
        "what was asked before may be answered as of before"
    );
    ledger.ping();
    let (late, _) = next(&mut ledger).expect("the ping");
    let ended = MetadataAnswer::WatchEnded(MetadataError::Unavailable);
    assert_eq!(
        ledger.answered(Instant::now(), late, transacted(8)),
        [(user(1), ended)]
    );
    assert_eq!(next(&mut ledger), Some((wire, MetadataRequest::Unwatch)));
}

fn change() -> MetadataRequest {
    MetadataRequest::Transact(Transaction {
        success: vec![Operation::Delete(selector())],
        ..Transaction::default()
    })
}

#[tokio::test(start_paused = true)]
async fn a_change_waits_until_a_quiet_store_has_answered_a_look() {
    let mut ledger = connected();
    ledger.ask(Instant::now(), user(1), change());
    let (sent, request) = next(&mut ledger).expect("it has just been heard");
    assert_eq!(request, change());
    ledger.answered(Instant::now(), sent, transacted(5));
    tokio::time::advance(QUIET_MAX + Duration::from_millis(1)).await;
    // What changes nothing does not wait.
    ledger.ask(Instant::now(), user(2), nothing());
    let (sent, _) = next(&mut ledger).expect("it is sent");
    ledger.ask(Instant::now(), user(3), change());
    let (look, request) = next(&mut ledger).expect("a look goes first");
    assert_eq!(request, nothing());
    assert_eq!(next(&mut ledger), None, "one look is enough");
    let failed = UNAVAILABLE;
    ledger.answered(Instant::now(), sent, failed);
    assert_eq!(next(&mut ledger), None, "a failure is no sign of the store");
    ledger.answered(Instant::now(), look, transacted(5));
    let (_, request) = next(&mut ledger).expect("now it is heard");
    assert_eq!(request, change());
}

#[tokio::test(start_paused = true)]
async fn a_change_that_waits_goes_to_the_next_store() {
    let mut ledger = connected();
    tokio::time::advance(QUIET_MAX * 2).await;
    ledger.ask(Instant::now(), user(1), change());
    next(&mut ledger).expect("a look goes first");
    assert_eq!(ledger.disconnect(), [], "nothing is in doubt");
    ledger.connect(Instant::now(), None);
    let (_, request) = next(&mut ledger).expect("it is sent");
    assert_eq!(request, change());
}
