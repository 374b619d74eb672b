//! Sessions of initiators at all portals as paths to volumes, and the reservations of a volume.
//!
//! Invariants:
//! - what a node does not answer is not silently left out: the node is named;
//! - a session is a path to those volumes of its target that its initiator may use.

use std::collections::BTreeMap;

use holdfast_api::documents::{
    HeldReservation, LocalPath, LocalReport, LocalSession, LocalSessionQuery, LocalSessions,
    PathSession, PathState, RegisteredKey, ReservationNexus, ReservationType, Reservations,
    SessionList, TargetSession, TargetSessionList,
};
use holdfast_api::{Problem, ProblemKind};
use holdfast_control::{Inventory, PlanError, VolumeName};
use holdfast_model::NodeId;
use holdfast_model::metadata::{Operation, OperationResult, Selector, Transaction};
use holdfast_model::record::{
    AccessNexus, AccessRecord, Record, Registration, ReservationKind, VolumeRecord,
};

use crate::asking::{Answer, ask_each, silent};
use crate::{Controller, problem};

impl Answer for LocalSessions {
    fn node(&self) -> u16 {
        self.node
    }
}

/// What the node whose report this is answers.
pub(crate) fn local(report: &LocalReport, query: &LocalSessionQuery) -> LocalSessions {
    let wanted = report.sessions.iter().filter(|it| query.wants(it));
    let paths = report.volumes.iter().filter_map(|it| {
        let (volume, state) = (it.volume, it.path?);
        Some(LocalPath { volume, state })
    });
    LocalSessions {
        node: report.node,
        sessions: wanted.cloned().collect(),
        paths: paths.collect(),
    }
}

impl Controller {
    pub(crate) async fn sessions_of_all(&self) -> Result<TargetSessionList, Problem> {
        let look = self.inventory().await?;
        let query = LocalSessionQuery::default();
        let answers = self.ask_for_sessions(&look.seen, query).await;
        Ok(of_targets(&look.seen, answers))
    }

    pub(crate) async fn sessions_of_volume(&self, name: &str) -> Result<SessionList, Problem> {
        let look = self.inventory().await?;
        let volume = volume_in(&look.seen, name)?;
        let query = LocalSessionQuery {
            target: Some(volume.target.clone()),
            initiator: None,
        };
        let answers = self.ask_for_sessions(&look.seen, query).await;
        Ok(document(&look.seen, &answers, &[volume]))
    }

    pub(crate) async fn sessions_of_initiator(&self, name: &str) -> Result<SessionList, Problem> {
        let look = self.inventory().await?;
        let query = LocalSessionQuery {
            target: None,
            initiator: Some(name.to_ascii_lowercase()),
        };
        let answers = self.ask_for_sessions(&look.seen, query).await;
        let volumes = look.seen.volumes.values().map(|found| &found.record);
        Ok(document(&look.seen, &answers, &volumes.collect::<Vec<_>>()))
    }

    async fn ask_for_sessions(
        &self,
        inventory: &Inventory,
        query: LocalSessionQuery,
    ) -> BTreeMap<NodeId, LocalSessions> {
        let here = self.registered_here(inventory);
        let report = self.local.as_ref().filter(|_| here.is_some());
        let answer = report.map(|report| local(&report.borrow(), &query));
        let others = inventory.nodes.values();
        let others = others.filter(|node| Some(node.node) != here);
        let answers = ask_each(others, self.connector.as_ref(), |client| {
            let query = query.clone();
            async move { client.local_sessions(&query).await }
        });
        let answers = answers.await.into_iter().chain(answer);
        answers.map(|it| (NodeId(it.node), it)).collect()
    }

    pub(crate) async fn reservations_of(&self, name: &str) -> Result<Reservations, Problem> {
        let look = self.inventory().await?;
        let volume = volume_in(&look.seen, name)?.volume;
        let key = AccessRecord::key(volume);
        let read = Transaction {
            compare: Vec::new(),
            success: vec![Operation::Range(Selector::Key(key))],
            failure: Vec::new(),
        };
        let outcome = self.desk.transact(read).await.map_err(problem::unread)?;
        let found = outcome.results.into_iter().find_map(|result| match result {
            OperationResult::Range(found) => found.into_iter().next(),
            _ => None,
        });
        let unreadable = |error| {
            Problem::new(ProblemKind::Internal, error)
                .hint("another version of Holdfast may have written it")
        };
        let record = found.map(|found| AccessRecord::decode(&found.value));
        let record = record.transpose().map_err(unreadable)?;
        // Without one nobody has ever registered.
        let record = record.unwrap_or_else(|| AccessRecord::open(volume));
        Ok(reservations(&look.seen, &record))
    }
}

fn volume_in<'a>(inventory: &'a Inventory, name: &str) -> Result<&'a VolumeRecord, Problem> {
    let name: VolumeName = name.parse().map_err(problem::name)?;
    let found = inventory.volume(name.as_str());
    let found = found.ok_or_else(|| problem::plan(&name, PlanError::NoSuchVolume))?;
    Ok(&found.record)
}

fn node_name(inventory: &Inventory, node: NodeId) -> String {
    let record = inventory.nodes.get(&node);
    record.map_or_else(|| node.to_string(), |record| record.name.clone())
}

/// How many slices a volume has, and in how many of them each node is in sync.
fn holdings(inventory: &Inventory, volume: &VolumeRecord) -> (u32, BTreeMap<NodeId, u32>) {
    let (mut slices, mut in_sync) = (0, BTreeMap::new());
    for record in inventory.slices_of(volume) {
        slices += 1;
        for node in record.in_sync() {
            *in_sync.entry(node).or_default() += 1;
        }
    }
    (slices, in_sync)
}

/// The sessions themselves, whatever they are paths to.
fn of_targets(
    inventory: &Inventory,
    answers: BTreeMap<NodeId, LocalSessions>,
) -> TargetSessionList {
    let silent = silent(inventory.nodes.values(), |node| answers.contains_key(&node));
    let mut sessions = Vec::new();
    for (node, answer) in answers {
        let portal = node_name(inventory, node);
        sessions.extend(answer.sessions.into_iter().map(|it| TargetSession {
            target: it.target,
            initiator: it.initiator,
            isid: it.isid,
            tsih: it.tsih,
            address: it.address,
            portal: portal.clone(),
            since_ms: it.since_ms,
            commands: it.commands,
            chap: it.chap,
            parameters: it.parameters,
        }));
    }
    sessions.sort_by_cached_key(TargetSession::place);
    TargetSessionList {
        sessions,
        next: None,
        silent,
    }
}

/// The paths to these volumes.
fn document(
    inventory: &Inventory,
    answers: &BTreeMap<NodeId, LocalSessions>,
    volumes: &[&VolumeRecord],
) -> SessionList {
    let mut by_target: BTreeMap<&str, Vec<&VolumeRecord>> = BTreeMap::new();
    for volume in volumes {
        by_target.entry(&volume.target).or_default().push(volume);
    }
    let mut known = BTreeMap::new();
    let mut sessions = Vec::new();
    for (node, answer) in answers {
        let states: BTreeMap<u64, PathState> = answer
            .paths
            .iter()
            .map(|it| (it.volume, it.state))
            .collect();
        for session in &answer.sessions {
            let of_target = by_target.get(session.target.as_str()).into_iter().flatten();
            for volume in of_target.filter(|volume| may_use(inventory, volume, session)) {
                let id = volume.volume;
                let (slices, in_sync) = known
                    .entry(id)
                    .or_insert_with(|| holdings(inventory, volume));
                sessions.push(PathSession {
                    volume: volume.name.clone(),
                    initiator: session.initiator.clone(),
                    isid: session.isid.clone(),
                    tsih: session.tsih,
                    address: session.address.clone(),
                    portal: node_name(inventory, *node),
                    since_ms: session.since_ms,
                    commands: session.commands,
                    chap: session.chap,
                    parameters: session.parameters,
                    state: states.get(&id.0).copied(),
                    slices_local: in_sync.get(node).copied().unwrap_or(0),
                    slices: *slices,
                });
            }
        }
    }
    sessions.sort_by_cached_key(PathSession::place);
    SessionList {
        sessions,
        next: None,
        silent: silent(inventory.nodes.values(), |node| answers.contains_key(&node)),
    }
}

/// Whether a volume is for the initiator of a session.
fn may_use(inventory: &Inventory, volume: &VolumeRecord, session: &LocalSession) -> bool {
    let export = inventory.exports.get(&volume.volume);
    export.is_none_or(|export| export.record.initiators.contains(&session.initiator))
}

fn reservations(inventory: &Inventory, record: &AccessRecord) -> Reservations {
    let nexus = |nexus: &AccessNexus| ReservationNexus {
        initiator: nexus.initiator.clone(),
        isid: nexus
            .isid
            .0
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect(),
        portal: node_name(inventory, nexus.port),
    };
    let held = record.reservation.as_ref();
    // Where nobody holds it alone, all do.
    let holds = |it: &Registration| {
        held.is_some_and(|held| {
            held.holder
                .as_ref()
                .is_none_or(|holder| *holder == it.nexus)
        })
    };
    Reservations {
        generation: record.generation,
        persists: record.persists,
        reservation: held.map(|held| HeldReservation {
            kind: kind(held.kind),
            code: kind(held.kind).code(),
            holder: held.holder.as_ref().map(nexus),
        }),
        registrations: record
            .registrations
            .iter()
            .map(|it| RegisteredKey {
                nexus: nexus(&it.nexus),
                key: format!("{:#x}", it.key),
                all_target_ports: it.all_target_ports,
                holder: holds(it),
            })
            .collect(),
        reserved: record.reserved.as_ref().map(nexus),
    }
}

const fn kind(kind: ReservationKind) -> ReservationType {
    use ReservationType as Type;
    match kind {
        ReservationKind::WriteExclusive => Type::WriteExclusive,
        ReservationKind::ExclusiveAccess => Type::ExclusiveAccess,
        ReservationKind::WriteExclusiveRegistrantsOnly => Type::WriteExclusiveRegistrantsOnly,
        ReservationKind::ExclusiveAccessRegistrantsOnly => Type::ExclusiveAccessRegistrantsOnly,
        ReservationKind::WriteExclusiveAllRegistrants => Type::WriteExclusiveAllRegistrants,
        ReservationKind::ExclusiveAccessAllRegistrants => Type::ExclusiveAccessAllRegistrants,
    }
}
