//! How long listings take of a cluster with 1,000 volumes and 64 nodes, where each volume is busy at each node, and where there is as
//! much as there may be of all else.
//!
//! It measures, and so does not run by itself: `cargo test --release -p holdfast-controller many:: -- --ignored --nocapture`. Where it is
//! optimised, as nodes are, it fails if a listing takes longer than is promised; of as much as there may be it only tells.
//! All nodes, the interface and who asks it are one thread here: what is measured is much more than a node has to do.
#![allow(clippy::print_stdout, reason = "figures are what it is for")]

mod filled;

use std::sync::Arc;
use std::time::{Duration, Instant};

use holdfast_api::client::ApiUrl;
use holdfast_api::documents::{
    AlarmChoice, AuditQuery, EVENTS_MAX, EventQuery, LocalSlice, LocalVolume, PathState, Room,
    STALLS_MAX, StallQuery,
};
use holdfast_api::{ApiClient, Door, Identities, router, server};
use holdfast_control::{Inventory, Seen, VolumeName, VolumeSize};
use holdfast_controller::{AUDIT_FILE, Accounts, AuditLog};
use holdfast_identity::{TOKENS_MAX, USERS_MAX};
use holdfast_metadata::suite::User;
use holdfast_metadata::{Embedded, Store as _};
use holdfast_model::{NodeId, Policy};
use tempfile::TempDir;
use tokio::net::TcpListener;

use crate::support::{Node, controller, open};

const NODES: u16 = 64;
const VOLUMES: u64 = 1000;
/// Two slices each.
const VOLUME_BYTES: u64 = 8 << 30;
/// A volume that is beside them, and how large it is: 512 slices.
const WIDE: (&str, u64) = ("wide", 2 << 40);
/// How often each listing is asked for.
const TIMES: usize = 9;
/// What a listing may take of a cluster of that size: the middle of all times.
const LISTING_TIME_MAX: Duration = Duration::from_millis(200);

async fn inventory(user: &mut User) -> Inventory {
    let outcome = user.transact(Inventory::query()).await.unwrap();
    Inventory::from_outcome(outcome).unwrap()
}

/// Makes the volumes as plans do, without waiting for nodes to serve them.
async fn make_volumes(store: &Embedded, besides: &[(&str, u64)]) -> Inventory {
    let mut user = User::new(store.session());
    let names = (0..VOLUMES).map(|number| (format!("volume-{number:04}"), VOLUME_BYTES));
    let besides = besides
        .iter()
        .map(|(name, bytes)| ((*name).to_owned(), *bytes));
    for (number, (name, bytes)) in (0..).zip(names.chain(besides)) {
        let inventory = inventory(&mut user).await;
        let name: VolumeName = name.parse().unwrap();
        let size = VolumeSize::new(bytes).unwrap();
        let seen = |node: NodeId| {
            Some(Seen {
                silent: Duration::ZERO,
                bytes: 1 << 50,
                // So that each node gets some.
                free_bytes: (1 << 50) - (u64::from(node.0) * 7919 + number * 31) % 64,
                work: 0,
            })
        };
        let policy = Policy::Mirror2;
        let plan = holdfast_control::create_at(&inventory, seen, &name, size, policy, None);
        for transaction in plan.unwrap().transactions {
            assert!(user.transact(transaction).await.unwrap().succeeded);
        }
    }
    inventory(&mut user).await
}

/// Each node knows every volume, and reports the slices that it has.
fn report(nodes: &[Node], inventory: &Inventory) {
    for node in nodes {
        let mut report = node.reporter.0.lock().unwrap();
        let own = NodeId(report.node);
        report.room = Room {
            bytes: 1 << 50,
            used_bytes: 1 << 40,
        };
        report.volumes = inventory
            .volumes
            .keys()
            .map(|volume| LocalVolume {
                volume: volume.0,
                serving: true,
                sessions: 1,
                name: None,
                path: Some(PathState::ActiveNonOptimized),
            })
            .collect();
        for found in inventory.volumes.values() {
            for (index, slice) in inventory.slices_of(&found.record).enumerate() {
                if slice.in_sync().any(|node| node == own) {
                    report.slices.push(LocalSlice {
                        volume: found.record.volume.0,
                        index: index as u32,
                        epoch: slice.epoch.0,
                        serving: slice.primary == own,
                        used_bytes: 1 << 30,
                        ..LocalSlice::default()
                    });
                }
            }
        }
    }
}

/// For how long this thread has had a processor: on a machine that has much else to do, what counts.
fn worked() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    let nanoseconds = text.split(' ').next().unwrap().parse().unwrap();
    Duration::from_nanos(nanoseconds)
}

/// The middle of the times of each listing.
#[derive(Default)]
struct Medians(Vec<(String, Duration)>);

impl Medians {
    /// Tells the middle of all times, and the longest; and the middle of the times for which it had a processor.
    async fn time<F: Future<Output = usize>>(
        &mut self,
        what: &str,
        count: usize,
        ask: impl Fn() -> F,
    ) {
        let (mut times, mut work) = (Vec::new(), Vec::new());
        for _ in 0..TIMES {
            // Readers have a rest after each look: whoever asks each second does not meet it.
            tokio::time::sleep(Duration::from_millis(500)).await;
            let (begun, before) = (Instant::now(), worked());
            let found = ask().await;
            times.push(begun.elapsed());
            work.push(worked().saturating_sub(before));
            assert!(found >= count, "{what}: {found} of {count}");
        }
        times.sort();
        work.sort();
        let (middle, longest) = (times[TIMES / 2], times[TIMES - 1].as_millis());
        let work = work[TIMES / 2].as_millis();
        println!(
            "{what:<24} {:>5} ms, {longest:>5} ms at most; {work:>5} ms of work",
            middle.as_millis()
        );
        self.0.push((what.to_owned(), middle));
    }

    /// None takes longer than is promised, where this is optimised.
    fn hold(&self) {
        let late = self.0.iter().filter(|it| it.1 > LISTING_TIME_MAX);
        let late: Vec<_> = late.collect();
        assert!(!self.0.is_empty());
        assert!(
            cfg!(debug_assertions) || late.is_empty(),
            "longer than {LISTING_TIME_MAX:?}: {late:?}"
        );
    }
}

/// The cluster, and who asks it.
struct Crowd {
    _folder: TempDir,
    store: Embedded,
    nodes: Vec<Node>,
    inventory: Inventory,
    client: ApiClient,
}

impl Crowd {
    /// With these volumes besides.
    async fn gather(besides: &[(&str, u64)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = open(folder.path());
        let controller = controller(&store).await;
        let mut nodes = Vec::new();
        for number in 1..=NODES {
            nodes.push(Node::start(number, &store).await);
        }
        let begun = Instant::now();
        let inventory = make_volumes(&store, besides).await;
        let (count, took) = (inventory.volumes.len(), begun.elapsed());
        println!("made {count} volumes in {took:?}");
        report(&nodes, &inventory);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url: ApiUrl = format!("http://{}", listener.local_addr().unwrap())
            .parse()
            .unwrap();
        let routes = router(Arc::new(controller), Door::Open);
        tokio::spawn(async move { server::serve(listener, routes).await });
        Self {
            _folder: folder,
            store,
            nodes,
            inventory,
            client: ApiClient::new(vec![url], None),
        }
    }

    /// What is asked for again and again.
    async fn time_looks(&self, medians: &mut Medians) {
        let client = &self.client;
        let (all, nodes) = (VOLUMES as usize, NODES.into());
        medians
            .time("volumes", all, || async {
                client.volumes().await.unwrap().volumes.len()
            })
            .await;
        medians
            .time("nodes", nodes, || async {
                client.nodes().await.unwrap().nodes.len()
            })
            .await;
        medians
            .time("status", all, || async {
                client.status().await.unwrap().volumes.total as usize
            })
            .await;
        medians
            .time("explain", 0, || async {
                client.explain().await.unwrap().volumes.len()
            })
            .await;
        medians
            .time("a volume", 2, || async {
                client.volume("volume-0500").await.unwrap().slices.len()
            })
            .await;
    }

    async fn time_lists(&self, counts: &Counts, medians: &mut Medians) {
        let client = &self.client;
        medians
            .time("initiators", counts.initiators, || async {
                client.initiators().await.unwrap().initiators.len()
            })
            .await;
        medians
            .time("tasks", counts.tasks, || async {
                client.tasks().await.unwrap().tasks.len()
            })
            .await;
        medians
            .time("alarms", counts.alarms, || async {
                client.alarms(AlarmChoice::All).await.unwrap().alarms.len()
            })
            .await;
        medians
            .time("stalls", STALLS_MAX as usize, || async {
                let query = StallQuery {
                    limit: STALLS_MAX,
                    ..StallQuery::default()
                };
                client.stalls(None, query).await.unwrap().stalls.len()
            })
            .await;
        self.time_events(EventQuery::default().limit, medians).await;
    }

    async fn time_events(&self, limit: u32, medians: &mut Medians) {
        let client = &self.client;
        medians
            .time(&format!("events, {limit}"), limit as usize, || async {
                let query = EventQuery {
                    limit,
                    ..EventQuery::default()
                };
                let list = client.event_log(&query).await.unwrap();
                assert!(list.silent.is_empty(), "{:?}", list.silent);
                list.events.len()
            })
            .await;
    }

    /// Who has sessions with what, through which nodes.
    async fn time_sessions(&self, counts: &Counts, medians: &mut Medians) {
        let client = &self.client;
        medians
            .time("sessions", 1000, || async {
                let list = client.sessions_within(1000).await.unwrap();
                assert!(list.silent.is_empty(), "{:?}", list.silent);
                list.sessions.len()
            })
            .await;
        medians
            .time("sessions of a volume", counts.of_volume, || async {
                let list = client.volume_sessions("volume-0500").await.unwrap();
                assert!(list.silent.is_empty(), "{:?}", list.silent);
                list.sessions.len()
            })
            .await;
        medians
            .time("sessions of a host", counts.of_host, || async {
                let list = client.initiator_sessions(&counts.host).await.unwrap();
                assert!(list.silent.is_empty(), "{:?}", list.silent);
                list.sessions.len()
            })
            .await;
    }

    /// What is seldom asked for, and is as much in any cluster of that size.
    async fn time_others(&self, medians: &mut Medians) {
        let client = &self.client;
        medians
            .time("a node", 1, || async {
                client.node("n32").await.unwrap().slices.len()
            })
            .await;
        medians
            .time("devices of a node", filled::DEVICES.into(), || async {
                client.devices("n32").await.unwrap().devices.len()
            })
            .await;
        medians
            .time("retention", NODES.into(), || async {
                let told = client.retention().await.unwrap();
                assert!(told.silent.is_empty(), "{:?}", told.silent);
                told.nodes.len()
            })
            .await;
        medians
            .time("alarm kinds", 10, || async {
                client.alarm_kinds().await.unwrap().kinds.len()
            })
            .await;
        medians
            .time("receivers", filled::RECEIVERS, || async {
                client.receivers().await.unwrap().receivers.len()
            })
            .await;
    }
}

/// How much there is to list, at least.
struct Counts {
    initiators: usize,
    tasks: usize,
    alarms: usize,
    of_volume: usize,
    /// Whose sessions are asked for, and how many that are.
    host: String,
    of_host: usize,
}

#[tokio::test]
#[ignore = "it measures"]
async fn listings_of_a_thousand_volumes_and_sixty_four_nodes() {
    let crowd = Crowd::gather(&[WIDE]).await;
    filled::hosts(&crowd.store, &crowd.inventory).await;
    filled::paths(&crowd.nodes, &crowd.inventory);
    filled::stalls(&crowd.nodes, &crowd.inventory, filled::STALLS_USUAL);
    filled::upkeep(&crowd.nodes, &crowd.client).await;
    let counts = Counts {
        initiators: VOLUMES as usize + 1,
        tasks: 0,
        alarms: filled::alarms(&crowd.store).await,
        of_volume: 2,
        host: filled::host(500),
        of_host: 2,
    };
    let mut medians = Medians::default();
    crowd.time_looks(&mut medians).await;
    crowd.time_lists(&counts, &mut medians).await;
    crowd.time_sessions(&counts, &mut medians).await;
    crowd.time_others(&mut medians).await;
    let client = &crowd.client;
    medians
        .time("a wide volume", 512, || async {
            client.volume(WIDE.0).await.unwrap().slices.len()
        })
        .await;
    medians
        .time("traffic", VOLUMES as usize, || async {
            let traffic = client.traffic().await.unwrap();
            assert!(traffic.silent.is_empty(), "{:?}", traffic.silent);
            traffic.volumes.len()
        })
        .await;
    medians.hold();
}

/// There is no promise for that much at once: what it takes is told.
#[tokio::test]
#[ignore = "it measures"]
async fn listings_of_as_much_as_there_may_be() {
    let crowd = Crowd::gather(&[]).await;
    filled::hosts(&crowd.store, &crowd.inventory).await;
    filled::sessions(&crowd.nodes, &crowd.inventory);
    filled::stalls(&crowd.nodes, &crowd.inventory, filled::STALLS);
    filled::upkeep(&crowd.nodes, &crowd.client).await;
    let counts = Counts {
        initiators: VOLUMES as usize + 1,
        tasks: filled::moves(&crowd.store, &crowd.nodes, &crowd.inventory).await,
        alarms: filled::alarms(&crowd.store).await,
        of_volume: NODES.into(),
        host: filled::BUSY.to_owned(),
        of_host: usize::from(filled::BUSY_NODES) * VOLUMES as usize,
    };
    println!("{} tasks, {} alarms", counts.tasks, counts.alarms);
    let mut medians = Medians::default();
    crowd.time_looks(&mut medians).await;
    crowd.time_lists(&counts, &mut medians).await;
    crowd.time_sessions(&counts, &mut medians).await;
    crowd.time_events(EVENTS_MAX, &mut medians).await;
}

#[tokio::test]
#[ignore = "it measures"]
async fn the_logs_of_sixty_four_nodes_and_who_may_ask_for_them() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder.path().join("store"));
    let controller = controller(&store).await;
    let log = AuditLog::open(&folder.path().join(AUDIT_FILE)).unwrap();
    let accounts = Accounts::new(controller, "n1", log);
    for number in 1..=NODES {
        filled::keeper(number, &store).await;
    }
    let mut medians = Medians::default();
    for limit in filled::LOG_LIMITS {
        medians
            .time(&format!("log, {limit}"), limit as usize, || async {
                let query = AuditQuery {
                    limit,
                    ..AuditQuery::default()
                };
                let list = accounts.audit(query).await.unwrap();
                assert!(list.silent.is_empty(), "{:?}", list.silent);
                list.entries.len()
            })
            .await;
    }
    filled::accounts(&store, &accounts).await;
    medians
        .time("users", USERS_MAX, || async {
            accounts.users().await.unwrap().len()
        })
        .await;
    medians
        .time("tokens", TOKENS_MAX, || async {
            accounts.tokens().await.unwrap().len()
        })
        .await;
    medians.hold();
}
