//! What listings are about, as much of it as a cluster may have: hosts with sessions at each node, alarms, stalls, copies under
//! way, and what was done through each node.

use std::collections::BTreeMap;
use std::sync::Arc;

use holdfast_api::documents::{
    AUDIT_MAX, AuditEntry, LocalAudit, LocalJoining, LocalSession, LocalStall,
};
use holdfast_control::{Inventory, RAISED_MAX, bound_alarms};
use holdfast_metadata::suite::User;
use holdfast_metadata::{Embedded, Store as _};
use holdfast_model::NodeId;
use holdfast_model::metadata::Operation;
use holdfast_model::record::{
    ALARMS_KEY, AlarmEntry, AlarmsRecord, Clearing, ExportRecord, InitiatorRecord, IntentRecord,
    NodeStanding, Record, WishRecord,
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
            .map(|(number, volume)| LocalSession {
                target: volume.record.target.clone(),
                initiator: if is_busy {
                    BUSY.to_owned()
                } else {
                    host(number as u64)
                },
                isid: "00023d000001".to_owned(),
                tsih: number as u16 + 1,
                address: "192.0.2.7:41234".to_owned(),
                ..LocalSession::default()
            })
            .collect();
        report.stalled = (0..STALLS).map(|number| stall(number, inventory)).collect();
    }
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
                let limit = asked.split("limit=").nth(1).unwrap();
                let digits = limit.find(|letter: char| !letter.is_ascii_digit());
                let limit = limit[..digits.unwrap()].parse().unwrap();
                let _ = stream.write_all(answers[&limit].as_bytes()).await;
            });
        }
    });
}
