use holdfast_model::metadata::{LeaseId, WatchEvent};
use holdfast_stdx::Duration;

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
    ledger.next_frame().map(|frame| match frame {
        ClientFrame::Request { token, request } => (token, request),
        ClientFrame::Hello { .. } => panic!("the connection says hello by itself"),
    })
}

fn connected() -> Ledger {
    let mut ledger = Ledger::default();
    ledger.connect();
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
        ledger.answered(second, kept.clone()),
        Some((user(2), kept.clone()))
    );
    assert_eq!(
        ledger.answered(second, kept),
        None,
        "a request is answered once"
    );
    assert_eq!(
        ledger.answered(first, transacted(5)),
        Some((user(1), transacted(5)))
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
    assert_eq!(ledger.answered(sent, transacted(5)), None, "too late");
    ledger.connect();
    let (again, _) = next(&mut ledger).expect("what waited is sent");
    assert_eq!(
        ledger.answered(again, transacted(6)),
        Some((user(2), transacted(6)))
    );
    assert_eq!(next(&mut ledger), None, "what was sent is not repeated");
}

#[tokio::test]
async fn nothing_waits_for_ever_or_without_bound() {
    let mut ledger = Ledger::default();
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
    ledger.connect();
    let sent = std::iter::from_fn(|| next(&mut ledger)).count();
    assert_eq!(
        sent,
        REQUESTS_IN_FLIGHT_MAX - 1,
        "the server takes no more at a time"
    );
}

#[tokio::test]
async fn watches_go_on_where_they_were() {
    let mut ledger = Ledger::default();
    let now = Instant::now();
    assert_eq!(ledger.ask(now, user(1), watch(3)), None);
    ledger.connect();
    let (first, request) = next(&mut ledger).expect("the watch begins with the connection");
    assert_eq!(request, watch(3));
    assert_eq!(
        ledger.answered(first, watched(7)),
        Some((user(1), watched(7)))
    );
    assert_eq!(ledger.disconnect(), [], "a watch survives");
    ledger.connect();
    let (second, request) = next(&mut ledger).expect("the watch goes on");
    assert_eq!(request, watch(8));
    assert_eq!(
        ledger.answered(first, watched(9)),
        None,
        "the old watch is over"
    );
    let ended = MetadataAnswer::WatchEnded(MetadataError::Compacted(Revision(30)));
    assert_eq!(
        ledger.answered(second, ended.clone()),
        Some((user(1), ended))
    );
    ledger.disconnect();
    ledger.connect();
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
    assert_eq!(ledger.answered(ping, transacted(90)), None, "nobody asked");
    ledger.disconnect();
    ledger.connect();
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
    assert_eq!(ledger.answered(wire, watched(7)), None);
    ledger.ask(now, user(1), watch(9));
    let (again, request) = next(&mut ledger).expect("the token is free again");
    assert_eq!(request, watch(9));
    assert_ne!(again, wire);
}
