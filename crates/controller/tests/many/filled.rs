//! What listings are about, as much of it as a cluster may have: hosts with sessions at each node, alarms, stalls, copies under
//! way, and what was done through each node.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use holdfast_api::documents::{
    AUDIT_MAX, AuditEntry, Device, DeviceState, DeviceTier, EVENTS_MAX, Event, EventKind,
    EventSeverity, LocalAudit, LocalJoining, LocalSession, LocalStall, ReceiverPut, TokenCreate,
    UserCreate, WebhookPut,
};
use holdfast_api::{ApiClient, Identities, Keyed};
use holdfast_control::{Inventory, RAISED_MAX, bound_alarms};
use holdfast_controller::Accounts;
use holdfast_identity::{ACCOUNTS_KEY, AccountsRecord, Caller, Role, Scope, TOKENS_MAX, USERS_MAX};
use holdfast_metadata::suite::User;
use holdfast_metadata::{Embedded, Store as _};
use holdfast_model::NodeId;
use holdfast_model::metadata::{Operation, OperationResult, Selector};
use holdfast_model::record::{
    ALARMS_KEY, AlarmEntry, AlarmsRecord, Clearing, ExportRecord, InitiatorRecord, IntentRecord,
    NodeStanding, Record, Secret, WishRecord,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::{NODES, VOLUMES};
use crate::support::{Node, register};

/// The host that has sessions with all volumes, at the first nodes.
pub(super) const BUSY: &str = "iqn.2026-11.example:busy";
/// At so many.
pub(super) const BUSY_NODES: u16 = 4;
/// The node that is drained.
const DRAINED: NodeId = NodeId(1);
/// What each node keeps of stalls, at most.
pub(super) const STALLS: u64 = 1024;
/// What it keeps of them where there were some: all nodes together have as many as are told at a time.
pub(super) const STALLS_USUAL: u64 = 16;
/// What each node has of devices.
pub(super) const DEVICES: u16 = 8;
/// Those who are told of alarms.
pub(super) const RECEIVERS: usize = 32;

/// How much of the log is asked for: by the console, and at most.
pub(super) const LOG_LIMITS: [u32; 2] = [200, AUDIT_MAX];

/// The host of a volume.
pub(super) fn host(number: u64) -> String {
    format!("iqn.2026-11.example:host-{number:04}")
}

async fn put<R: Record>(user: &mut User, key: String, record: &R) {
    user.perform(Operation::put(key, record.encode())).await;
}

/// Each volume is for a host of its own, and for the busy one.
pub(super) async fn hosts(store: &Embedded, inventory: &Inventory) {
    let mut user = User::new(store.session());
    let names = (0..VOLUMES).map(host).chain([BUSY.to_owned()]);
    for name in names {
        let record = InitiatorRecord {
            schema: 1,
            name,
            chap: None,
            mutual: None,
        };
        put(&mut user, InitiatorRecord::key(&record.name), &record).await;
    }
    for (number, volume) in inventory.volumes.keys().enumerate() {
        let record = ExportRecord {
            initiators: vec![BUSY.to_owned(), host(number as u64)],
            ..ExportRecord::nobody(*volume)
        };
        put(&mut user, ExportRecord::key(*volume), &record).await;
    }
}

/// Each volume has a session at each node: at the first ones the busy host's, else its own host's.
pub(super) fn sessions(nodes: &[Node], inventory: &Inventory) {
    for node in nodes {
        let mut report = node.reporter.0.lock().unwrap();
        let is_busy = report.node <= BUSY_NODES;
        let volumes = inventory.volumes.values().enumerate();
        report.sessions = volumes
            .map(|(number, volume)| {
                let initiator = if is_busy {
                    BUSY.to_owned()
                } else {
                    host(number as u64)
                };
                session(number, &volume.record.target, initiator)
            })
            .collect();
    }
}

/// Each volume's host has a session at each node with a copy of any of its slices, as they have paths.
pub(super) fn paths(nodes: &[Node], inventory: &Inventory) {
    for (number, volume) in inventory.volumes.values().enumerate() {
        let slices = inventory.slices_of(&volume.record);
        let holders: BTreeSet<NodeId> = slices.flat_map(|slice| slice.in_sync()).collect();
        for node in holders {
            let mut report = nodes[usize::from(node.0) - 1].reporter.0.lock().unwrap();
            let session = session(number, &volume.record.target, host(number as u64));
            report.sessions.push(session);
        }
    }
}

fn session(number: usize, target: &str, initiator: String) -> LocalSession {
    LocalSession {
        target: target.to_owned(),
        initiator,
        isid: "00023d000001".to_owned(),
        tsih: number as u16 + 1,
        address: "192.0.2.7:41234".to_owned(),
        ..LocalSession::default()
    }
}

/// Each node has so many.
pub(super) fn stalls(nodes: &[Node], inventory: &Inventory, each: u64) {
    for node in nodes {
        let mut report = node.reporter.0.lock().unwrap();
        report.stalled = (0..each).map(|number| stall(number, inventory)).collect();
    }
}

/// Devices and a log of events at each node, and those who are told of alarms.
pub(super) async fn upkeep(nodes: &[Node], client: &ApiClient) {
    for node in nodes {
        let mut report = node.reporter.0.lock().unwrap();
        report.devices = (0..DEVICES).map(device).collect();
        let own = report.node;
        *node.reporter.3.lock().unwrap() = (0..EVENTS_MAX).map(|it| event(own, it)).collect();
    }
    for number in 0..RECEIVERS {
        let put = ReceiverPut {
            webhook: Some(WebhookPut {
                url: "http://192.0.2.9/hook".to_owned(),
                secret: Some(Secret("open sesame".to_owned())),
            }),
            ..ReceiverPut::default()
        };
        let name = format!("receiver-{number}");
        client.put_receiver(&name, &put).await.unwrap();
    }
}

fn device(number: u16) -> Device {
    Device {
        number,
        path: format!("/dev/disk/by-id/nvme-{number}"),
        tier: DeviceTier::Flash,
        state: DeviceState::InUse,
        journal: number == 0,
        journal_room: false,
        is_absent: false,
        bytes: 1 << 42,
        used_bytes: 1 << 40,
        bytes_per_second: 0,
        seconds_left: None,
        drain_bytes: None,
        bad_blocks: 0,
        detached: None,
        latency_p99_us: Some(700),
    }
}

/// What no other node has: the newest first, as they are told.
fn event(node: u16, number: u32) -> Event {
    Event {
        id: format!("{node}-{number}"),
        at_ms: 1_000_000 - 100 * u64::from(number) - u64::from(node),
        kind: EventKind::NodeLost,
        severity: EventSeverity::Warning,
        subject: format!("node n{node}"),
        detail: "it does not answer".to_owned(),
        not_before_ms: None,
    }
}

/// As many users and tokens as there may be.
pub(super) async fn accounts(store: &Embedded, accounts: &Accounts) {
    let ada = UserCreate {
        name: "ada".to_owned(),
        role: Role::Administrator,
        password: Secret("correct horse battery".to_owned()),
    };
    accounts.create_user(Keyed::from(ada)).await.unwrap();
    let token = TokenCreate {
        name: "backup".to_owned(),
        role: Role::Viewer,
        scope: Scope::Everything,
        lifetime_seconds: 86_400,
    };
    let maker = Caller::node(1);
    let made = accounts.create_token(Keyed::from(token), &maker).await;
    made.unwrap();
    let mut user = User::new(store.session());
    let range = Operation::Range(Selector::Key(ACCOUNTS_KEY.into()));
    let (_, OperationResult::Range(found)) = user.perform(range).await else {
        panic!("it is a range");
    };
    let mut record = AccountsRecord::decode(&found[0].value).unwrap();
    // To make each would take as long as its password's hash does.
    for number in 1..USERS_MAX {
        let mut more = record.users[0].clone();
        more.name = format!("user-{number:03}").parse().unwrap();
        record.users.push(more);
    }
    for number in 1..TOKENS_MAX {
        let mut more = record.tokens[0].clone();
        more.id = format!("{number:016x}");
        record.tokens.push(more);
    }
    put(&mut user, ACCOUNTS_KEY.to_owned(), &record).await;
}

fn stall(number: u64, inventory: &Inventory) -> LocalStall {
    let volumes = inventory.volumes.keys();
    let volume = volumes.cycle().nth(number as usize).unwrap();
    LocalStall {
        began_ms: number * 7919 % 1_000_003,
        length_ms: 700,
        volume: volume.0,
        initiator: None,
        cause: holdfast_api::documents::StallCause::NodeLost,
        node: Some(1),
        slice: Some(0),
        waiting_max: 4,
        served: true,
    }
}

/// As many alarms as may be raised, and as many that are over as there is room for. How many there are.
pub(super) async fn alarms(store: &Embedded) -> usize {
    let entry = |id: u64, is_over: bool| AlarmEntry {
        id,
        kind: "volume-degraded".to_owned(),
        subject: format!("volume volume-{:04}", id % VOLUMES),
        detail: "slice 1 lacks a copy on node n1: that is down".to_owned(),
        raised_ms: id,
        cleared: is_over.then_some(Clearing {
            change: id,
            at_ms: id + 1,
        }),
        acknowledged: None,
    };
    let over = 2000;
    let mut record = AlarmsRecord {
        changes: over + RAISED_MAX as u64,
        raised: (over..over + RAISED_MAX as u64)
            .map(|id| entry(id, false))
            .collect(),
        cleared: (0..over).map(|id| entry(id, true)).collect(),
        ..AlarmsRecord::default()
    };
    bound_alarms(&mut record);
    let mut user = User::new(store.session());
    put(&mut user, ALARMS_KEY.to_owned(), &record).await;
    record.raised.len() + record.cleared.len()
}

/// A node is drained, and while that is so every slice that it does not hold is on its way to another node, too: half of the copies
/// are under way. How many tasks that is.
pub(super) async fn moves(store: &Embedded, nodes: &[Node], inventory: &Inventory) -> usize {
    let mut user = User::new(store.session());
    let intent = IntentRecord {
        standing: NodeStanding::Draining,
        ..IntentRecord::active(DRAINED)
    };
    put(&mut user, IntentRecord::key(DRAINED), &intent).await;
    let mut count = 1;
    for volume in inventory.volumes.values() {
        for (index, slice) in inventory.slices_of(&volume.record).enumerate() {
            let held: Vec<NodeId> = slice.replicas.iter().map(|it| it.node).collect();
            let from = slice.primary.0 + 1 + index as u16;
            let free = (0..NODES).map(|step| NodeId((from + step) % NODES + 1));
            let target = free.into_iter().find(|it| !held.contains(it)).unwrap();
            let wish = WishRecord {
                schema: 1,
                slice: slice.slice,
                nodes: vec![slice.primary, target],
                kept: Vec::new(),
                preferred: slice.primary,
            };
            put(&mut user, WishRecord::key(slice.slice), &wish).await;
            count += 1;
            let source = usize::from(slice.primary.0) - 1;
            let mut report = nodes[source].reporter.0.lock().unwrap();
            let led = report
                .slices
                .iter_mut()
                .find(|it| (it.volume, it.index) == (volume.record.volume.0, index as u32));
            led.unwrap().joining = vec![LocalJoining {
                node: target.0,
                bytes_done: 1 << 29,
                bytes_total: 1 << 30,
                bytes_moved: 1 << 29,
                bytes_per_second: 1 << 20,
            }];
        }
    }
    count
}

/// A node that only tells what was done through it: as much as it is asked for.
pub(super) async fn keeper(number: u16, store: &Embedded) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let record = register(number, listener.local_addr().unwrap(), store).await;
    let entry = |at_ms: u64| AuditEntry {
        at_ms,
        number: at_ms + 1,
        node: record.name.clone(),
        who: "token backup (0123456789abcdef)".to_owned(),
        from: "192.0.2.7".to_owned(),
        method: "POST".to_owned(),
        path: "/api/v1/volumes".to_owned(),
        status: 200,
        code: None,
        about: Some("volume volume-0500".to_owned()),
        trace_id: Some("0af7651916cd43dd8448eb211c80319c".to_owned()),
    };
    let answers: BTreeMap<u32, String> = LOG_LIMITS
        .map(|limit| {
            // Whoever wants so many asks for one more, to see whether there is.
            let limit = (limit + 1).min(AUDIT_MAX);
            let log = LocalAudit {
                node: number,
                entries: (0..u64::from(limit)).rev().map(entry).collect(),
            };
            let body = serde_json::to_string(&log).unwrap();
            let length = body.len();
            let head = format!(
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n"
            );
            (limit, head + &body)
        })
        .into();
    let answers = Arc::new(answers);
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let answers = Arc::clone(&answers);
            tokio::spawn(async move {
                let mut asked = Vec::new();
                while !asked.ends_with(b"\r\n\r\n") {
                    let mut some = [0; 1024];
                    match stream.read(&mut some).await {
                        Ok(count) if count > 0 => asked.extend_from_slice(&some[..count]),
                        _ => return,
                    }
                }
                let asked = String::from_utf8(asked).unwrap();
                // What else is asked of it is not what is measured.
                let Some(limit) = asked.split("limit=").nth(1) else {
                    return;
                };
                let digits = limit.find(|letter: char| !letter.is_ascii_digit());
                let limit = limit[..digits.unwrap()].parse().unwrap();
                let _ = stream.write_all(answers[&limit].as_bytes()).await;
            });
        }
    });
}
