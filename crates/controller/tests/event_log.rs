//! What happened while nobody looked is told afterwards, once, whoever steered, and whoever is lost.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use holdfast_api::documents::{
    AlarmQuery, Event, EventKind, EventList, EventQuery, EventSeverity, LocalReport, Room,
    VolumeCreate,
};
use holdfast_api::{Api, Door, router, server};
use holdfast_controller::{Controller, EVENTS_FILE, EventLog};
use holdfast_metadata::{Embedded, Store};
use holdfast_model::{Policy, StoreId};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::support::{CLUSTER, controller, open, register};

/// How long another one may take to steer: until the lease ends, which is six seconds, and to look.
const PATIENCE: Duration = Duration::from_secs(30);

/// For how long the lease of whoever steers lives on its own at least, in milliseconds: it is renewed each two of six seconds.
const LEASE_MS_MIN: u64 = 4000;

/// A node's process, as far as the control plane is concerned.
struct Process {
    controller: Controller,
    address: SocketAddr,
    report: watch::Sender<LocalReport>,
    server: JoinHandle<()>,
    steering: JoinHandle<()>,
}

fn folder_of(number: u16, folder: &Path) -> PathBuf {
    let folder = folder.join(format!("n{number}"));
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// A cluster that no node is of, and the directory of all that will be.
async fn founded() -> (TempDir, Embedded) {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    controller(&store).await;
    (folder, store)
}

impl Process {
    /// The first node, which has begun to steer.
    async fn steering(store: &Embedded, folder: &Path) -> Self {
        let first = Self::start(1, store, folder).await;
        first.told(EventKind::Steering, "node n1", 1).await;
        first
    }

    async fn start(number: u16, store: &Embedded, folder: &Path) -> Self {
        let address = "127.0.0.1:0".parse().unwrap();
        let process = Self::start_at((number, 1), address, store, folder).await;
        register(number, process.address, store).await;
        process
    }

    /// At an address that is known already: `start` counts the node's.
    async fn start_at(
        (number, start): (u16, u64),
        address: SocketAddr,
        store: &Embedded,
        folder: &Path,
    ) -> Self {
        let (report, told) = watch::channel(LocalReport {
            node: number,
            name: format!("n{number}"),
            incarnation: start,
            store: StoreId(number.into()).to_string(),
            open: true,
            room: Room {
                bytes: 1 << 40,
                used_bytes: 0,
            },
            ..LocalReport::default()
        });
        let log = EventLog::open(&folder_of(number, folder).join(EVENTS_FILE)).unwrap();
        let controller = Controller::new(CLUSTER, store.session(), Some(told)).putting_down(log);
        let controller = controller.serve_within(Duration::from_millis(50));
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        let routes = router(Arc::new(controller.clone()), Door::Open);
        Self {
            address,
            report,
            server: tokio::spawn(async move {
                server::serve(listener, routes).await;
            }),
            steering: controller.steer(),
            controller,
        }
    }

    /// It is killed.
    async fn stop(self) -> SocketAddr {
        for task in [self.server, self.steering] {
            task.abort();
            // Then its address is free.
            assert!(task.await.unwrap_err().is_cancelled());
        }
        self.address
    }

    async fn log(&self) -> EventList {
        let query = EventQuery {
            limit: 1000,
            ..EventQuery::default()
        };
        self.controller.event_log(query).await.unwrap()
    }

    /// Waits until so many events of a kind are told of something.
    async fn told(&self, kind: EventKind, subject: &str, count: usize) -> Vec<Event> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let events = self.log().await.events;
            let found = of(&events, kind, subject);
            if found.len() >= count {
                assert_eq!(found.len(), count, "{events:#?}");
                return found;
            }
            assert!(
                Instant::now() < deadline,
                "{kind:?} of {subject}: {events:#?}"
            );
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Waits until its own log has an event.
    async fn has(&self, event: &Event) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let told = self.controller.local_events(EventQuery::default()).await;
            if told.unwrap().events.contains(event) {
                return;
            }
            assert!(Instant::now() < deadline, "{event:?} is not copied");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

/// Waits until how everything is is in a node's directory, with a word in it: what is killed sooner does not know it.
async fn is_written(folder: &Path, word: &str) {
    let file = folder.join(EVENTS_FILE).with_extension("state");
    let deadline = Instant::now() + PATIENCE;
    while !std::fs::read_to_string(&file).is_ok_and(|text| text.contains(word)) {
        assert!(Instant::now() < deadline, "{word} is not in {file:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn of(events: &[Event], kind: EventKind, subject: &str) -> Vec<Event> {
    let found = events
        .iter()
        .filter(|it| (it.kind, &*it.subject) == (kind, subject));
    found.cloned().collect()
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.unwrap().as_millis() as u64
}

#[tokio::test]
async fn the_loss_of_the_node_that_steered_is_told_once_by_the_next_and_nothing_twice() {
    let (folder, store) = founded().await;
    let folder = folder.path();
    let first = Process::steering(&store, folder).await;
    let second = Process::start(2, &store, folder).await;
    let third = Process::start(3, &store, folder).await;
    let request = VolumeCreate {
        name: "data".to_owned(),
        bytes: 4096,
        policy: Policy::Mirror2,
        target: None,
        lun: None,
    };
    second.controller.create_volume(request).await.unwrap();
    let made = second
        .told(EventKind::VolumeCreated, "volume data", 1)
        .await;
    assert_eq!(made[0].not_before_ms, None, "it is looked all the time");
    for other in [&second, &third] {
        other.has(&made[0]).await;
    }

    let stopped_ms = now_ms();
    let address = first.stop().await;
    let lost = second
        .told(EventKind::NodeLost, "node n1", 1)
        .await
        .remove(0);
    assert_eq!(lost.severity, EventSeverity::Error);
    assert!(lost.at_ms > stopped_ms);
    // The others saw that it does not answer while nobody steered yet, and that counts for its alarm.
    second.told(EventKind::AlarmRaised, "node n1", 1).await;
    let all = AlarmQuery::default();
    let alarms = second.controller.alarms(all).await.unwrap().alarms;
    let alarm = alarms.iter().find(|it| it.subject == "node n1").unwrap();
    let log = second.log().await;
    let steering = &of(&log.events, EventKind::Steering, "node n2");
    let others = of(&log.events, EventKind::Steering, "node n3");
    let steering = steering.first().or(others.first()).unwrap();
    // Whoever begins takes what it sees first for the beginning, if it knows nothing of before.
    let seen = stopped_ms..steering.at_ms - 1000;
    assert!(seen.contains(&alarm.raised_ms), "{alarm:?} {steering:?}");
    assert_eq!(log.silent, ["n1"]);
    // Those that keep copies of its log have seen it when it was so.
    let steers = log.events.iter().find(|it| it.kind == EventKind::Steering);
    let steers = steers.expect("another one steers");
    assert!(lost.at_ms < steers.at_ms, "{lost:?} {steers:?}");
    assert_eq!(
        of(&log.events, EventKind::VolumeCreated, "volume data"),
        made
    );

    // It comes back with what it knows.
    let first = Process::start_at((1, 2), address, &store, folder).await;
    first.told(EventKind::NodeBack, "node n1", 1).await;
    let log = first.log().await;
    assert!(log.silent.is_empty(), "{:?}", log.silent);
    assert_eq!(
        of(&log.events, EventKind::VolumeCreated, "volume data"),
        made
    );
    assert_eq!(of(&log.events, EventKind::NodeLost, "node n1"), [lost]);
    let steering = log
        .events
        .iter()
        .filter(|it| it.kind == EventKind::Steering);
    assert_eq!(steering.count(), 2);

    // In pieces it is the same.
    let mut query = EventQuery {
        limit: 2,
        until_ms: Some(log.events[0].at_ms + 1),
        ..EventQuery::default()
    };
    let mut pieces = Vec::new();
    loop {
        let piece = third.controller.event_log(query.clone()).await.unwrap();
        pieces.extend(piece.events);
        match piece.next {
            Some(next) => query.after = Some(next.parse().unwrap()),
            None => break,
        }
    }
    assert_eq!(pieces, log.events);
    for process in [first, second, third] {
        process.stop().await;
    }
}

/// Nobody has to wait until its lease ends.
#[tokio::test]
async fn a_node_that_is_told_to_stop_leaves_it_to_others_to_steer() {
    let (folder, store) = founded().await;
    let folder = folder.path();
    let first = Process::steering(&store, folder).await;
    let second = Process::start(2, &store, folder).await;
    let steers = first.told(EventKind::Steering, "node n1", 1).await;
    second.has(&steers[0]).await;
    let stopped_ms = now_ms();
    first.report.send_modify(|report| report.stopping = true);
    // It runs on for a while, and stands no more.
    let next = second.told(EventKind::Steering, "node n2", 1).await;
    let after_ms = next[0].at_ms - stopped_ms;
    assert!(after_ms < LEASE_MS_MIN, "it took {after_ms} ms");
    for process in [first, second] {
        process.stop().await;
    }
}

/// It is back before another one steers, and does not take that up again itself.
#[tokio::test]
async fn the_node_that_steered_is_told_as_lost_though_it_is_back_soon() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    controller(&store).await;
    let folder = folder.path();
    let first = Process::start(1, &store, folder).await;
    let steers = first.told(EventKind::Steering, "node n1", 1).await;
    let second = Process::start(2, &store, folder).await;
    second.has(&steers[0]).await;
    let address = first.stop().await;
    // Less than its lease lives.
    tokio::time::sleep(Duration::from_secs(3)).await;
    let first = Process::start_at((1, 2), address, &store, folder).await;
    let back = second.told(EventKind::NodeBack, "node n1", 1).await;
    assert_eq!(back[0].detail, "up: started anew");
    let lost = second.told(EventKind::NodeLost, "node n1", 1).await;
    assert!(lost[0].at_ms < back[0].at_ms, "{lost:?} {back:?}");
    second.told(EventKind::Steering, "node n2", 1).await;
    for process in [first, second] {
        process.stop().await;
    }
}

/// What changed while no process ran at all.
#[tokio::test]
async fn what_changed_while_nothing_ran_is_told_by_whoever_steers_first() {
    let (folder, store) = founded().await;
    let folder = folder.path();
    let only = Process::steering(&store, folder).await;
    let second = Process::start(2, &store, folder).await;
    only.told(EventKind::NodeStanding, "node n2", 1).await;
    is_written(&folder_of(1, folder), "n2").await;
    second.stop().await;
    let address = only.stop().await;
    let again = Process::start_at((1, 2), address, &store, folder).await;
    let lost = again.told(EventKind::NodeLost, "node n2", 1).await;
    assert!(lost[0].not_before_ms.is_some());
    // It was away itself.
    let back = again.told(EventKind::NodeBack, "node n1", 1).await;
    assert!(back[0].detail.contains("started anew"), "{back:?}");
    let log = again.log().await;
    assert_eq!(log.silent, ["n2"]);
    again.stop().await;
}

#[tokio::test]
async fn a_log_that_cannot_be_read_is_named_and_hides_no_other_one() {
    let (folder, store) = founded().await;
    let folder = folder.path();
    // More than is in memory: the rest is in the file.
    let event = |at_ms: u64| Event {
        id: format!("a-1-{at_ms:08x}"),
        at_ms,
        kind: EventKind::NodeBack,
        severity: EventSeverity::Info,
        subject: "node n9".to_owned(),
        detail: "up".to_owned(),
        not_before_ms: None,
    };
    let lines = (1..=5000).map(|at_ms| serde_json::to_string(&event(at_ms)).unwrap() + "\n");
    let file = folder_of(1, folder).join(EVENTS_FILE);
    std::fs::write(&file, lines.collect::<String>()).unwrap();
    let first = Process::steering(&store, folder).await;
    let second = Process::start(2, &store, folder).await;
    let query = EventQuery {
        kind: Some(EventKind::Steering),
        ..EventQuery::default()
    };
    let list = first.controller.event_log(query.clone()).await.unwrap();
    assert!(list.silent.is_empty() && !list.events.is_empty());
    second.has(&list.events[0]).await;
    // No question that was asked before.
    let query = EventQuery { limit: 99, ..query };
    std::fs::create_dir(file.with_extension("log.old")).unwrap();
    let named = first.controller.event_log(query).await.unwrap();
    assert_eq!(named.silent, ["n1"]);
    assert_eq!(named.events, list.events);
    for process in [first, second] {
        process.stop().await;
    }
}

/// How everything was, as this version puts it down.
async fn put_down(file: &Path) -> serde_json::Value {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let text = std::fs::read(file).unwrap_or_default();
        let value: serde_json::Value = serde_json::from_slice(&text).unwrap_or_default();
        if value["state"]["is_without_states"] == true {
            return value;
        }
        assert!(Instant::now() < deadline, "{value}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// A rolling upgrade is no reason to tell of each alert that is told in another way from now on that it is over.
#[tokio::test]
async fn what_an_earlier_version_kept_as_an_alert_is_not_told_as_cleared() {
    let (folder, store) = founded().await;
    let folder = folder.path();
    let only = Process::steering(&store, folder).await;
    let file = folder_of(1, folder).join("events.state");
    let mut last = put_down(&file).await;
    let mut address = only.stop().await;
    let words = ("warning", "volume demo", "2 of 2 slices lack a good copy");
    for (count, is_earlier) in [(0, true), (1, false)] {
        let (severity, subject, detail) = words;
        let alert =
            serde_json::json!({ "severity": severity, "subject": subject, "detail": detail });
        last["state"]["snapshot"]["alerts"] = serde_json::json!([[words, alert]]);
        if is_earlier {
            let state = last["state"].as_object_mut().unwrap();
            assert!(state.remove("is_without_states").is_some());
        }
        std::fs::write(&file, last.to_string()).unwrap();
        let again = Process::start_at((1, 1), address, &store, folder).await;
        // What it begins with it tells in one pass.
        again.told(EventKind::Steering, "node n1", 2 + count).await;
        let log = again.log().await;
        let cleared = of(&log.events, EventKind::AlertCleared, "volume demo");
        assert_eq!(cleared.len(), count, "{log:?}");
        last = put_down(&file).await;
        address = again.stop().await;
    }
}
