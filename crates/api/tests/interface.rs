//! Client and server of the interface against each other, with an implementation that remembers
//! what it was asked.
#![allow(clippy::unwrap_used, reason = "a test fails so")]

#[path = "interface/guard.rs"]
mod guard;
#[path = "interface/manners.rs"]
mod manners;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use holdfast_api::client::{ApiUrl, Failure};
use holdfast_api::documents::{
    AccessChange, Alarm, AlarmList, AlarmSeverity, ChapAccount, Created, DeviceChange, DeviceList,
    DeviceTier, Event, EventKind, EventList, EventQuery, EventSeverity, Explanation, Health,
    History, HistoryOf, HistoryQuery, HistorySubject, Initiator, InitiatorList, InitiatorPut,
    LocalCluster, LocalEventState, LocalEvents, LocalHistory, LocalHistoryQuery, LocalReport,
    LocalStalls, LocalSupport, LocalTraffic, LogChange, LogLevel, LogLevels, Node, NodeChange,
    NodeDetails, NodeList, NodeOrder, NodeStanding, NodeState, PathSession, Resync, Scrub,
    SessionList, SessionParameters, Settings, SettingsChange, StallList, StallQuery, Status,
    SyncWork, TargetSession, TargetSessionList, Task, ToMove, Traffic, Volume, VolumeCreate,
    VolumeDelete, VolumeGrow, VolumeList,
};
use holdfast_api::events::{Listener, Teller};
use holdfast_api::trace::TraceContext;
use holdfast_api::{
    Api, ApiClient, ClientError, Conditional, Door, EntityTag, Keyed, Precondition, Problem,
    ProblemKind, openapi, router, server,
};
use holdfast_model::Policy;
use holdfast_model::record::Secret;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const SETTINGS: Settings = Settings {
    repair_delay_seconds: 60,
    rebalance: true,
    background_slowdown_percent: 10,
    background_floor: 1 << 20,
    scrub_interval_seconds: 60,
    scrub_rate: 1 << 20,
    etag: None,
};

/// The tag of everything here.
fn tag() -> EntityTag {
    EntityTag::of("0-1")
}

/// What is wanted, if it is wanted of what is here.
fn conditional<T>(wanted: impl Into<Conditional<T>>) -> Result<T, Problem> {
    let wanted = wanted.into();
    wanted.precondition.holds(Some(&tag()))?;
    Ok(wanted.request)
}

/// What nodes keep.
fn retention(audit_mib: u32) -> holdfast_api::documents::Retention {
    holdfast_api::documents::Retention {
        audit_mib,
        events_mib: 16,
        etag: Some(tag()),
        ..holdfast_api::documents::Retention::default()
    }
}

#[derive(Default)]
struct Remembering {
    asked: Mutex<Vec<String>>,
    unavailable: bool,
    /// It is of another cluster.
    lacks_all: bool,
    /// What goes on telling listeners, if that is wanted.
    tellers: Mutex<Option<Vec<Teller>>>,
}

impl Remembering {
    fn ask(&self, what: String) -> Result<(), Problem> {
        self.asked.lock().unwrap().push(what);
        if self.lacks_all {
            return Err(Problem::new(ProblemKind::NoSuchVolume, "nothing here"));
        }
        if self.unavailable {
            return Err(Problem::new(ProblemKind::Unavailable, "not now"));
        }
        Ok(())
    }

    fn node_of(name: &str) -> Node {
        Node {
            name: name.to_owned(),
            node: name[1..].parse().unwrap(),
            state: NodeState::Up,
            answers: true,
            stopped: false,
            metadata_believed: Some(true),
            awaited_device: None,
            portal: String::new(),
            api: String::new(),
            incarnation: 1,
            replicas: 0,
            primaries: 0,
            sessions: None,
            room: None,
            work_per_second: None,
            standing: NodeStanding::Draining,
            is_drained: false,
            site: None,
            failure_domain: None,
            to_move: ToMove::default(),
            to_send: SyncWork::default(),
            to_receive: SyncWork::default(),
            etag: Some(tag()),
            versions: None,
        }
    }

    fn volume_of(name: &str, bytes: u64) -> Volume {
        Volume {
            name: name.to_owned(),
            bytes,
            used_bytes: None,
            policy: Policy::Mirror2,
            health: Health::Healthy,
            slices: Vec::new(),
            resync: Resync::default(),
            scrub: Scrub::default(),
            access: None,
            etag: Some(tag()),
        }
    }
}

/// Five paths, of which two differ in nothing but their sessions.
fn paths() -> SessionList {
    let path = |(initiator, volume, portal, tsih): (&str, &str, &str, u16)| PathSession {
        volume: volume.to_owned(),
        initiator: initiator.to_owned(),
        isid: "000000000000".to_owned(),
        tsih,
        address: "192.0.2.7:1".to_owned(),
        portal: portal.to_owned(),
        since_ms: 1,
        commands: 0,
        chap: false,
        parameters: SessionParameters::default(),
        state: None,
        slices_local: 0,
        slices: 1,
    };
    let sessions = [
        ("iqn.a:b", "db", "n1", 9),
        ("iqn.a:b", "db", "n1", 10),
        ("iqn.a:b", "db", "n2", 1),
        ("iqn.a:b", "db2", "n1", 1),
        ("iqn.a:b.c", "db", "n1", 1),
    ];
    SessionList {
        sessions: sessions.map(path).to_vec(),
        next: None,
        silent: vec!["n3".to_owned()],
    }
}

/// Four sessions, of which two differ in nothing but what names them at their portal.
fn sessions() -> TargetSessionList {
    let session = |(initiator, target, portal, tsih): (&str, &str, &str, u16)| TargetSession {
        target: target.to_owned(),
        initiator: initiator.to_owned(),
        isid: "000000000000".to_owned(),
        tsih,
        address: "192.0.2.7:1".to_owned(),
        portal: portal.to_owned(),
        since_ms: 1,
        commands: 0,
        chap: false,
        parameters: SessionParameters::default(),
    };
    let sessions = [
        ("iqn.a:b", "iqn.t", "n1", 9),
        ("iqn.a:b", "iqn.t", "n1", 10),
        ("iqn.a:b", "iqn.t", "n2", 1),
        ("iqn.a:b.c", "iqn.t", "n1", 1),
    ];
    TargetSessionList {
        sessions: sessions.map(session).to_vec(),
        next: None,
        silent: vec!["n3".to_owned()],
    }
}

/// Five alarms, three of which last, of two moments.
fn alarms() -> AlarmList {
    let alarm = |(id, severity, cleared_ms)| Alarm {
        id,
        kind: "node-lost".to_owned(),
        severity,
        title: "A node is lost".to_owned(),
        subject: "node n1".to_owned(),
        detail: String::new(),
        meaning: String::new(),
        action: String::new(),
        raised_ms: 1,
        cleared_ms,
        acknowledged: None,
    };
    let alarms = [
        (9, AlarmSeverity::Critical, None),
        (12, AlarmSeverity::Warning, None),
        (8, AlarmSeverity::Warning, None),
        (10, AlarmSeverity::Warning, Some(7)),
        (7, AlarmSeverity::Critical, Some(7)),
        (11, AlarmSeverity::Critical, Some(5)),
    ];
    AlarmList {
        alarms: alarms.map(alarm).to_vec(),
        next: None,
    }
}

impl Api for Remembering {
    async fn sessions(&self) -> Result<TargetSessionList, Problem> {
        self.ask("sessions".to_owned())?;
        Ok(sessions())
    }

    async fn volume_sessions(&self, name: &str) -> Result<SessionList, Problem> {
        self.ask(format!("sessions of {name}"))?;
        Ok(paths())
    }

    async fn initiator_sessions(&self, name: &str) -> Result<SessionList, Problem> {
        self.ask(format!("sessions by {name}"))?;
        Ok(paths())
    }

    async fn local_sessions(
        &self,
        query: holdfast_api::documents::LocalSessionQuery,
    ) -> Result<holdfast_api::documents::LocalSessions, Problem> {
        self.ask(format!(
            "sessions here: {:?} {:?}",
            query.target, query.initiator
        ))?;
        Ok(holdfast_api::documents::LocalSessions::default())
    }

    async fn alarms(
        &self,
        query: holdfast_api::documents::AlarmQuery,
    ) -> Result<AlarmList, Problem> {
        self.ask(format!("alarms {:?}", query.state))?;
        Ok(alarms())
    }

    async fn acknowledge_alarm(
        &self,
        id: u64,
        request: holdfast_api::documents::AlarmAcknowledge,
        by: String,
    ) -> Result<Alarm, Problem> {
        self.ask(format!("{by} takes note of alarm {id}: {}", request.note))?;
        Err(Problem::new(ProblemKind::NoSuchAlarm, "no alarm here"))
    }

    async fn retention(&self) -> Result<holdfast_api::documents::Retention, Problem> {
        self.ask("retention".to_owned())?;
        Ok(retention(32))
    }

    async fn change_retention(
        &self,
        change: impl Into<Conditional<holdfast_api::documents::RetentionChange>> + Send,
    ) -> Result<holdfast_api::documents::Retention, Problem> {
        let change = conditional(change)?;
        self.ask(format!("retention: {change:?}"))?;
        Ok(retention(change.audit_mib.unwrap_or(32)))
    }

    async fn local_retention(&self) -> Result<holdfast_api::documents::LocalRetention, Problem> {
        self.ask("local retention".to_owned())?;
        Ok(holdfast_api::documents::LocalRetention::default())
    }

    async fn alarm_kinds(&self) -> Result<holdfast_api::documents::AlarmKindList, Problem> {
        self.ask("alarm kinds".to_owned())?;
        Ok(holdfast_api::documents::AlarmKindList::default())
    }

    async fn change_alarm_kind(
        &self,
        kind: &str,
        change: impl Into<Conditional<Option<holdfast_api::documents::AlarmKindChange>>> + Send,
    ) -> Result<holdfast_api::documents::AlarmKind, Problem> {
        let change = conditional(change)?;
        self.ask(format!("alarm kind {kind}: {change:?}"))?;
        Err(Problem::new(ProblemKind::NoSuchAlarm, "no kind here"))
    }

    async fn receivers(&self) -> Result<holdfast_api::documents::ReceiverList, Problem> {
        self.ask("receivers".to_owned())?;
        Ok(holdfast_api::documents::ReceiverList::default())
    }

    async fn put_receiver(
        &self,
        name: &str,
        request: impl Into<Conditional<holdfast_api::documents::ReceiverPut>> + Send,
    ) -> Result<holdfast_api::documents::Receiver, Problem> {
        let request = conditional(request)?;
        self.ask(format!("put receiver {name}: {request:?}"))?;
        Err(Problem::new(ProblemKind::Invalid, "no receiver here"))
    }

    async fn remove_receiver(&self, name: &str, precondition: Precondition) -> Result<(), Problem> {
        if precondition.is_any() {
            precondition.holds(Some(&tag()))?;
        }
        self.ask(format!("remove receiver {name}"))
    }

    async fn test_receiver(&self, name: &str) -> Result<(), Problem> {
        self.ask(format!("test receiver {name}"))
    }

    async fn reservations(
        &self,
        name: &str,
    ) -> Result<holdfast_api::documents::Reservations, Problem> {
        self.ask(format!("reservations of {name}"))?;
        Ok(holdfast_api::documents::Reservations::default())
    }

    async fn status(&self) -> Result<Status, Problem> {
        self.ask("status".to_owned())?;
        Err(Problem::new(ProblemKind::Internal, "no status here"))
    }

    async fn explain(&self) -> Result<Explanation, Problem> {
        self.ask("explain".to_owned())?;
        Ok(Explanation::default())
    }

    async fn nodes(&self) -> Result<NodeList, Problem> {
        self.ask("nodes".to_owned())?;
        Ok(NodeList {
            nodes: (1..4)
                .map(|number| Self::node_of(&format!("n{number}")))
                .collect(),
            next: None,
        })
    }

    async fn node(&self, name: &str) -> Result<NodeDetails, Problem> {
        self.ask(format!("node {name}"))?;
        Err(Problem::new(ProblemKind::NoSuchNode, name))
    }

    async fn change_node(
        &self,
        name: &str,
        change: impl Into<Conditional<NodeChange>> + Send,
    ) -> Result<Node, Problem> {
        let change = conditional(change)?;
        self.ask(format!("{:?} {name} in {:?}", change.order, change.site))?;
        Ok(Self::node_of(name))
    }

    async fn remove_node(&self, name: &str, precondition: Precondition) -> Result<(), Problem> {
        precondition.holds(Some(&tag()))?;
        self.ask(format!("remove {name}"))?;
        Err(Problem::new(ProblemKind::Refused, "it holds something"))
    }

    async fn devices(&self, name: &str) -> Result<DeviceList, Problem> {
        self.ask(format!("devices of {name}"))?;
        Ok(DeviceList::default())
    }

    async fn change_devices(
        &self,
        name: &str,
        change: DeviceChange,
    ) -> Result<DeviceList, Problem> {
        self.ask(format!("{name}: {change:?}"))?;
        Err(Problem::new(ProblemKind::Refused, "no room"))
    }

    async fn change_local_devices(&self, change: DeviceChange) -> Result<DeviceList, Problem> {
        self.ask(format!("here: {change:?}"))?;
        Ok(DeviceList::default())
    }

    async fn settings(&self) -> Result<Settings, Problem> {
        self.ask("settings".to_owned())?;
        Ok(Settings {
            etag: Some(tag()),
            ..SETTINGS
        })
    }

    async fn change_settings(
        &self,
        change: impl Into<Conditional<SettingsChange>> + Send,
    ) -> Result<Settings, Problem> {
        let change = conditional(change)?;
        self.ask(format!("set {:?}", change.repair_delay_seconds))?;
        Ok(SETTINGS)
    }

    async fn volumes(&self) -> Result<VolumeList, Problem> {
        self.ask("volumes".to_owned())?;
        Ok(VolumeList {
            volumes: Vec::new(),
            next: None,
        })
    }

    async fn volume(&self, name: &str) -> Result<Volume, Problem> {
        self.ask(format!("volume {name}"))?;
        Err(Problem::new(ProblemKind::NoSuchVolume, name).hint("look"))
    }

    async fn create_volume(
        &self,
        request: impl Into<Keyed<VolumeCreate>> + Send,
    ) -> Result<Created, Problem> {
        let Keyed { request, key } = request.into();
        if let Some(key) = key {
            self.ask(format!("key {}", key.as_str()))?;
        }
        self.ask(format!("create {request:?}"))?;
        Ok(Created {
            volume: Self::volume_of(&request.name, request.bytes),
            is_new: request.name == "demo",
        })
    }

    async fn grow_volume(
        &self,
        name: &str,
        request: impl Into<Conditional<VolumeGrow>> + Send,
    ) -> Result<Volume, Problem> {
        let request = conditional(request)?;
        self.ask(format!("grow {name} {}", request.bytes))?;
        Ok(Self::volume_of(name, request.bytes))
    }

    async fn initiator(&self, name: &str) -> Result<Initiator, Problem> {
        self.ask(format!("initiator {name}"))?;
        Ok(Initiator {
            name: name.to_owned(),
            chap_name: None,
            mutual_name: None,
            volumes: Vec::new(),
            etag: Some(tag()),
        })
    }

    async fn initiators(&self) -> Result<InitiatorList, Problem> {
        self.ask("initiators".to_owned())?;
        Ok(InitiatorList {
            initiators: Vec::new(),
            next: None,
        })
    }

    async fn put_initiator(
        &self,
        name: &str,
        request: impl Into<Conditional<InitiatorPut>> + Send,
    ) -> Result<Initiator, Problem> {
        let request = conditional(request)?;
        self.ask(format!("put {name} {request:?}"))?;
        Ok(Initiator {
            name: name.to_owned(),
            chap_name: request.chap.map(|chap| chap.name),
            mutual_name: request.mutual.map(|chap| chap.name),
            volumes: Vec::new(),
            etag: Some(tag()),
        })
    }

    async fn remove_initiator(
        &self,
        name: &str,
        precondition: Precondition,
    ) -> Result<(), Problem> {
        precondition.holds(Some(&tag()))?;
        self.ask(format!("remove {name}"))
    }

    async fn change_access(
        &self,
        name: &str,
        change: impl Into<Conditional<AccessChange>> + Send,
    ) -> Result<Volume, Problem> {
        let change = conditional(change)?;
        self.ask(format!("access {name} {change:?}"))?;
        Ok(Self::volume_of(name, 4096))
    }

    async fn delete_volume(
        &self,
        name: &str,
        how: impl Into<Conditional<VolumeDelete>> + Send,
    ) -> Result<(), Problem> {
        let how = conditional(how)?;
        let force = if how.force { " by force" } else { "" };
        self.ask(format!("delete {name}{force}"))
    }

    async fn scrub_volume(&self, name: &str) -> Result<Volume, Problem> {
        self.ask(format!("scrub {name}"))?;
        Ok(Self::volume_of(name, 4096))
    }

    async fn tasks(&self) -> Result<Vec<Task>, Problem> {
        self.ask("tasks".to_owned())?;
        Ok(Vec::new())
    }

    async fn task(&self, id: &str) -> Result<Task, Problem> {
        self.ask(format!("task {id}"))?;
        Err(Problem::new(ProblemKind::NoSuchTask, id))
    }

    async fn cancel_task(&self, id: &str) -> Result<(), Problem> {
        self.ask(format!("call off {id}"))
    }

    async fn event_log(&self, query: EventQuery) -> Result<EventList, Problem> {
        self.ask(format!("event log {query:?}"))?;
        Ok(EventList::default())
    }

    async fn local_events(&self, query: EventQuery) -> Result<LocalEvents, Problem> {
        self.ask(format!("local events {query:?}"))?;
        Ok(LocalEvents::default())
    }

    async fn local_event_state(&self) -> Result<LocalEventState, Problem> {
        self.ask("local event state".to_owned())?;
        Ok(LocalEventState::default())
    }

    async fn events(&self, last: Option<&str>) -> Result<Listener, Problem> {
        self.ask(format!("events after {last:?}"))?;
        let event = Event {
            id: "a-1".to_owned(),
            at_ms: 1,
            kind: EventKind::NodeLost,
            severity: EventSeverity::Warning,
            subject: "node n1".to_owned(),
            detail: "down".to_owned(),
            not_before_ms: None,
        };
        let (teller, listener) = Listener::new(VecDeque::from([Arc::new(event)]));
        // Else the stream ends after what was missed: nobody tells anything more.
        if let Some(tellers) = &mut *self.tellers.lock().unwrap() {
            tellers.push(teller);
        }
        Ok(listener)
    }

    async fn local(&self) -> Result<LocalReport, Problem> {
        self.ask("local".to_owned())?;
        Ok(LocalReport::default())
    }

    async fn local_cluster(&self) -> Result<LocalCluster, Problem> {
        self.ask("local cluster".to_owned())?;
        Ok(LocalCluster::default())
    }

    async fn stalls(&self, volume: Option<&str>, query: StallQuery) -> Result<StallList, Problem> {
        self.ask(format!(
            "stalls {volume:?} {} {}",
            query.limit, query.initiators
        ))?;
        Ok(StallList::default())
    }

    async fn local_stalls(&self, query: StallQuery) -> Result<LocalStalls, Problem> {
        self.ask(format!("local stalls since {}", query.since_ms))?;
        Ok(LocalStalls::default())
    }

    async fn history(&self, of: HistoryOf, query: HistoryQuery) -> Result<History, Problem> {
        self.ask(format!("{of:?} {query:?}"))?;
        Ok(History::default())
    }

    async fn local_history(
        &self,
        subject: HistorySubject,
        query: LocalHistoryQuery,
    ) -> Result<LocalHistory, Problem> {
        let LocalHistoryQuery {
            from, until, step, ..
        } = query;
        self.ask(format!("{subject:?} {from} {until} {step}"))?;
        Ok(LocalHistory::default())
    }

    async fn traffic(&self) -> Result<Traffic, Problem> {
        self.ask("traffic".to_owned())?;
        Ok(Traffic::default())
    }

    async fn local_traffic(&self) -> Result<LocalTraffic, Problem> {
        self.ask("local traffic".to_owned())?;
        Ok(LocalTraffic::default())
    }

    async fn metrics(&self) -> Result<String, Problem> {
        self.ask("metrics".to_owned())?;
        Ok("# EOF\n".to_owned())
    }

    async fn node_log(&self, name: &str) -> Result<LogLevels, Problem> {
        self.ask(format!("log of {name}"))?;
        Ok(LogLevels::default())
    }

    async fn change_node_log(&self, name: &str, change: LogChange) -> Result<LogLevels, Problem> {
        self.ask(format!("change log of {name}: {change:?}"))?;
        Ok(LogLevels::default())
    }

    async fn local_log(&self) -> Result<LogLevels, Problem> {
        self.ask("local log".into())?;
        Ok(LogLevels::default())
    }

    async fn change_local_log(&self, change: LogChange) -> Result<LogLevels, Problem> {
        self.ask(format!("change local log: {change:?}"))?;
        Ok(LogLevels::default())
    }

    async fn node_support(&self, name: &str) -> Result<LocalSupport, Problem> {
        self.ask(format!("support of {name}"))?;
        Ok(LocalSupport::default())
    }

    async fn local_support(&self) -> Result<LocalSupport, Problem> {
        // As a question that goes on to another node does.
        let trace = TraceContext::present().map(|trace| trace.id());
        self.ask(format!("local support, of {}", trace.unwrap_or_default()))?;
        Ok(LocalSupport::default())
    }
}

async fn start(api: Remembering) -> (ApiUrl, Arc<Remembering>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap())
        .parse()
        .unwrap();
    let api = Arc::new(api);
    tokio::spawn(server::serve(listener, router(api.clone(), Door::Open)));
    (url, api)
}

#[tokio::test]
async fn nodes_and_settings_are_asked_for_and_changed() {
    let (url, api) = start(Remembering::default()).await;
    let client = ApiClient::new(vec![url], None);
    let kind = |error: ClientError| match error {
        ClientError::Problem(problem) => (problem.kind, problem.status),
        other => panic!("{other}"),
    };
    let none = client.node("n4").await.map_err(kind);
    assert_eq!(none, Err((ProblemKind::NoSuchNode, 404)));
    let change = NodeChange {
        order: NodeOrder::CancelDrain,
        site: Some("a".to_owned()),
    };
    let changed = client.change_node("n4", &change).await.unwrap();
    assert_eq!(changed, Remembering::node_of("n4"));
    let refused = client.remove_node("n4").await.map_err(kind);
    assert_eq!(refused, Err((ProblemKind::Refused, 409)));
    assert_eq!(client.devices("n4").await.unwrap(), DeviceList::default());
    let drain = DeviceChange::Drain { device: 3 };
    let refused = client.change_devices("n4", &drain).await.map_err(kind);
    assert_eq!(refused, Err((ProblemKind::Refused, 409)));
    let add = DeviceChange::Add {
        path: "/dev/sdx".to_owned(),
        tier: DeviceTier::Capacity,
        replaces: Some(1),
        journal_room: false,
    };
    client.change_local_devices(&add).await.unwrap();
    let settings = client.settings().await.unwrap();
    assert_eq!(settings.etag, Some(tag()));
    let change = SettingsChange {
        repair_delay_seconds: Some(60),
        ..SettingsChange::default()
    };
    assert_eq!(client.change_settings(change).await.unwrap(), SETTINGS);
    let asked = [
        "node n4",
        "CancelDrain n4 in Some(\"a\")",
        "remove n4",
        "devices of n4",
        "n4: Drain { device: 3 }",
        "here: Add { path: \"/dev/sdx\", tier: Capacity, replaces: Some(1), journal_room: false }",
        "settings",
        "set Some(60)",
    ];
    assert_eq!(*api.asked.lock().unwrap(), asked);
}

/// A port where nobody listens.
async fn nobody() -> ApiUrl {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    format!("http://{}", listener.local_addr().unwrap())
        .parse()
        .unwrap()
}

#[tokio::test]
async fn every_method_reaches_the_implementation() {
    let (url, api) = start(Remembering::default()).await;
    let client = ApiClient::new(vec![url], Some("secret"));
    assert!(matches!(client.status().await,
        Err(ClientError::Problem(problem)) if problem.kind == ProblemKind::Internal));
    assert_eq!(client.explain().await.unwrap(), Explanation::default());
    client.nodes().await.unwrap();
    client.volumes().await.unwrap();
    match client.volume("a/b ?").await {
        Err(ClientError::Problem(problem)) => {
            assert_eq!(problem.kind, ProblemKind::NoSuchVolume);
            assert_eq!((problem.status, &*problem.detail), (404, "a/b ?"));
            assert_eq!(problem.hint.as_deref(), Some("look"));
        }
        other => panic!("the problem comes through, not {other:?}"),
    }
    let request = VolumeCreate {
        name: "demo".to_owned(),
        bytes: 4096,
        policy: Policy::Mirror2,
        target: None,
        lun: None,
    };
    let created = client.create_volume(&request).await.unwrap();
    assert_eq!((created.volume.bytes, created.is_new), (4096, true));
    let again = VolumeCreate {
        name: "there".to_owned(),
        ..request
    };
    assert!(!client.create_volume(&again).await.unwrap().is_new);
    assert_eq!(
        client
            .grow_volume("demo", VolumeGrow { bytes: 8192 })
            .await
            .unwrap()
            .bytes,
        8192
    );
    let delete = |force| client.delete_volume("demo", VolumeDelete { force });
    delete(false).await.unwrap();
    delete(true).await.unwrap();
    client.scrub_volume("demo").await.unwrap();
    let secret = "what nobody is told";
    let chap = ChapAccount {
        name: "host".to_owned(),
        secret: Secret(secret.to_owned()),
    };
    let put = InitiatorPut {
        chap: Some(chap),
        mutual: None,
    };
    let initiator = client.put_initiator("iqn.a:b", &put).await.unwrap();
    assert_eq!(initiator.chap_name.as_deref(), Some("host"));
    assert!(!serde_json::to_string(&initiator).unwrap().contains(secret));
    client.initiators().await.unwrap();
    client.initiator("iqn.a:b").await.unwrap();
    client.remove_initiator("iqn.a:b").await.unwrap();
    for change in [
        AccessChange::Allow("iqn.a:b".to_owned()),
        AccessChange::Disallow("iqn.a:b".to_owned()),
        AccessChange::Open(true),
    ] {
        client.change_access("demo", &change).await.unwrap();
    }
    client.tasks().await.unwrap();
    client.cancel_task("scrub~data").await.unwrap();
    client.local().await.unwrap();
    client.local_cluster().await.unwrap();
    let query = StallQuery {
        limit: 7,
        initiators: true,
        since_ms: 9,
        after: None,
    };
    client.stalls(None, query.clone()).await.unwrap();
    client.stalls(Some("demo"), query.clone()).await.unwrap();
    client.local_stalls(query.clone()).await.unwrap();
    let with = |limit, after: Option<&str>| StallQuery {
        limit,
        after: after.map(str::to_owned),
        ..query.clone()
    };
    for query in [with(0, None), with(1025, None), with(7, Some("a&b"))] {
        match client.stalls(None, query).await {
            Err(ClientError::Problem(problem)) => assert_eq!(problem.kind, ProblemKind::Invalid),
            other => panic!("so many are too many, or too few, not {other:?}"),
        }
    }
    let asked = api.asked.lock().unwrap().join("\n");
    assert_eq!(
        asked,
        "status\nexplain\nnodes\nvolumes\nvolume a/b ?\n\
         create VolumeCreate { name: \"demo\", bytes: 4096, policy: Mirror2, target: None, lun: None }\n\
         create VolumeCreate { name: \"there\", bytes: 4096, policy: Mirror2, target: None, lun: None }\n\
         grow demo 8192\ndelete demo\ndelete demo by force\nscrub demo\n\
         put iqn.a:b InitiatorPut { chap: Some(ChapAccount { name: \"host\", secret: Secret(..) }), mutual: None }\n\
         initiators\ninitiator iqn.a:b\nremove iqn.a:b\n\
         access demo Allow(\"iqn.a:b\")\naccess demo Disallow(\"iqn.a:b\")\naccess demo Open(true)\ntasks\ncall off scrub~data\nlocal\nlocal cluster\n\
         stalls None 7 true\nstalls Some(\"demo\") 7 true\nlocal stalls since 9"
    );
}

#[tokio::test]
async fn urls_are_tried_in_turn() {
    let (bad, _) = start(Remembering {
        unavailable: true,
        ..Remembering::default()
    })
    .await;
    let (good, api) = start(Remembering::default()).await;
    let none = nobody().await;
    let client = ApiClient::new(vec![none.clone(), bad.clone(), good.clone()], None);
    client.volumes().await.unwrap();
    // A change goes to the first that takes it, and its word is final.
    let error = client
        .delete_volume("demo", VolumeDelete::default())
        .await
        .unwrap_err();
    assert!(matches!(error, ClientError::Problem(problem)
        if problem.kind == ProblemKind::Unavailable));
    let client = ApiClient::new(vec![none.clone(), good], None);
    client
        .delete_volume("demo", VolumeDelete::default())
        .await
        .unwrap();
    assert_eq!(api.asked.lock().unwrap().last().unwrap(), "delete demo");
    // Who is not there says less than who has answered.
    let (bad, _) = start(Remembering {
        unavailable: true,
        ..Remembering::default()
    })
    .await;
    let client = ApiClient::new(vec![bad, none.clone()], None);
    let error = client.volumes().await.unwrap_err();
    assert!(matches!(error, ClientError::Problem(_)), "{error}");
    let client = ApiClient::new(vec![none.clone()], None);
    match client.nodes().await {
        Err(ClientError::Unreachable(tried)) => match &tried[..] {
            [(url, Failure::Io(error))] => {
                assert_eq!(*url, none);
                assert_eq!(error.kind(), std::io::ErrorKind::ConnectionRefused);
            }
            other => panic!("nobody is there, not {other:?}"),
        },
        other => panic!("nobody is there, not {other:?}"),
    }
    // Each that was tried is named, for a question and for a change.
    let other = nobody().await;
    let client = ApiClient::new(vec![none.clone(), other.clone()], None);
    let question = client.nodes().await.map(drop);
    let change = client.delete_volume("demo", VolumeDelete::default()).await;
    for error in [question.unwrap_err(), change.unwrap_err()] {
        let told = error.to_string();
        let begins = format!("cannot reach the API at {none}: Connection refused");
        assert!(told.starts_with(&begins), "{told}");
        assert!(told.contains(&format!("; nor at {other}: ")), "{told}");
    }
}

/// Who accepts and says nothing does not keep a question from those who would answer.
#[tokio::test]
async fn a_question_goes_on_from_who_is_silent() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url: ApiUrl = format!("http://{}", silent.local_addr().unwrap())
        .parse()
        .unwrap();
    let (good, _) = start(Remembering::default()).await;
    let client = ApiClient::new(vec![url, good], None);
    let begun = Instant::now();
    client.nodes().await.unwrap();
    assert!(begun.elapsed() < Duration::from_secs(15));
}

#[tokio::test]
async fn a_change_without_an_answer_is_unknown() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url: ApiUrl = format!("http://{}", listener.local_addr().unwrap())
        .parse()
        .unwrap();
    tokio::spawn(async move {
        loop {
            let (mut guest, _) = listener.accept().await.unwrap();
            let mut buffer = [0; 64];
            guest.read_exact(&mut buffer).await.unwrap();
        }
    });
    let (good, api) = start(Remembering::default()).await;
    let client = ApiClient::new(vec![url, good], None);
    let error = client
        .delete_volume("demo", VolumeDelete::default())
        .await
        .unwrap_err();
    assert!(matches!(error, ClientError::Unknown { .. }), "{error:?}");
    assert!(
        api.asked.lock().unwrap().is_empty(),
        "it is not repeated elsewhere"
    );
    client.nodes().await.unwrap();
}

/// Answers whatever it is asked with the same page.
async fn stranger(status: &'static str) -> ApiUrl {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url: ApiUrl = format!("http://{}", listener.local_addr().unwrap())
        .parse()
        .unwrap();
    tokio::spawn(async move {
        loop {
            let (mut guest, _) = listener.accept().await.unwrap();
            let mut request = Vec::new();
            while !request.ends_with(b"\r\n\r\n") {
                guest.read_buf(&mut request).await.unwrap();
            }
            let page = format!("HTTP/1.1 {status}\r\ncontent-length: 5\r\n\r\nhello");
            guest.write_all(page.as_bytes()).await.unwrap();
        }
    });
    url
}

#[tokio::test]
async fn what_answers_may_be_something_else() {
    let how = VolumeDelete::default();
    let [page, none] = [stranger("200 OK").await, stranger("404 Not Found").await];
    let client = ApiClient::new(vec![page.clone()], None);
    let error = client.nodes().await.unwrap_err();
    assert!(error.to_string().contains("not Holdfast's API"), "{error}");
    let error = client.delete_volume("demo", how).await.unwrap_err();
    assert!(matches!(error, ClientError::Unreachable(_)), "{error:?}");
    // Another one is asked then, and told to: whoever is no Holdfast has done nothing.
    let (good, api) = start(Remembering::default()).await;
    let client = ApiClient::new(vec![page.clone(), none.clone(), good], None);
    client.nodes().await.unwrap();
    client.delete_volume("demo", how).await.unwrap();
    assert_eq!(api.asked.lock().unwrap().last().unwrap(), "delete demo");
    // What each did is told.
    let nobody = nobody().await;
    let client = ApiClient::new(vec![page, none, nobody.clone()], None);
    let question = client.nodes().await.map(drop);
    let change = client.delete_volume("demo", how).await;
    for error in [question.unwrap_err(), change.unwrap_err()] {
        let told = error.to_string();
        let refused = format!("; nor at {nobody}: Connection refused");
        for part in ["(HTTP status 200 OK); nor at", "404 Not Found", &refused] {
            assert!(told.contains(part), "{told}");
        }
    }
    // What stands before a Holdfast may have passed it on.
    let gateway = stranger("502 Bad Gateway").await;
    let (good, api) = start(Remembering::default()).await;
    let client = ApiClient::new(vec![gateway, good], None);
    let error = client.delete_volume("demo", how).await.unwrap_err();
    assert!(matches!(error, ClientError::Unknown { .. }), "{error:?}");
    assert!(api.asked.lock().unwrap().is_empty());
    client.nodes().await.unwrap();
}

/// Which cluster is meant shows in what it has.
#[tokio::test]
async fn what_one_does_not_have_is_asked_of_the_others() {
    let how = VolumeDelete::default();
    let query = StallQuery::default();
    let other = Remembering {
        lacks_all: true,
        ..Remembering::default()
    };
    let (other, _) = start(other).await;
    let (good, api) = start(Remembering::default()).await;
    let client = ApiClient::new(vec![other.clone(), good], None);
    client.stalls(Some("demo"), query.clone()).await.unwrap();
    client.delete_volume("demo", how).await.unwrap();
    assert_eq!(api.asked.lock().unwrap().last().unwrap(), "delete demo");
    // Nobody has it: that is told, and what the others said if it is something else.
    let client = ApiClient::new(vec![other.clone(), other.clone()], None);
    let error = client
        .stalls(Some("demo"), query.clone())
        .await
        .unwrap_err();
    assert_eq!(error.to_string(), "nothing here");
    let unavailable = Remembering {
        unavailable: true,
        ..Remembering::default()
    };
    let (unavailable, _) = start(unavailable).await;
    let nobody = nobody().await;
    let urls = vec![unavailable.clone(), other.clone(), nobody.clone()];
    let error = ApiClient::new(urls, None)
        .stalls(Some("demo"), query)
        .await
        .unwrap_err();
    let told = error.to_string();
    let says = format!("nothing here (says {other}; {unavailable} says: not now; {nobody}: ");
    assert!(told.starts_with(&says), "{told}");
    match error {
        ClientError::Problem(problem) => assert_eq!(problem.kind, ProblemKind::NoSuchVolume),
        other => panic!("somebody has answered, not {other:?}"),
    }
}

#[tokio::test]
async fn retention_is_asked_for_and_changed() {
    let (url, api) = start(Remembering::default()).await;
    let tagged = send(&url, "GET /api/v1/retention", "accept: */*", "").await;
    assert!(tagged.contains("\r\netag: \"0-1\"\r\n"), "{tagged}");
    let unknown = "{\"history_mib\":64}";
    let refused = send(&url, "PATCH /api/v1/retention", "accept: */*", unknown).await;
    assert!(refused.starts_with("HTTP/1.1 400"), "{refused}");
    let client = ApiClient::new(vec![url], None);
    assert_eq!(client.retention().await.unwrap(), retention(32));
    let change = holdfast_api::documents::RetentionChange {
        audit_mib: Some(64),
        events_mib: None,
    };
    let changed = client.change_retention(change).await.unwrap();
    assert_eq!(changed.audit_mib, 64);
    client.local_retention().await.unwrap();
    let asked = [
        "retention",
        "retention",
        "retention: RetentionChange { audit_mib: Some(64), events_mib: None }",
        "local retention",
    ];
    assert_eq!(*api.asked.lock().unwrap(), asked);
}

#[tokio::test]
async fn traffic_is_asked_for_by_its_path() {
    let (url, api) = start(Remembering::default()).await;
    let client = ApiClient::new(vec![url], None);
    assert_eq!(client.traffic().await.unwrap(), Traffic::default());
    assert_eq!(
        client.local_traffic().await.unwrap(),
        LocalTraffic::default()
    );
    assert_eq!(*api.asked.lock().unwrap(), ["traffic", "local traffic"]);
}

#[tokio::test]
async fn histories_are_asked_for_by_paths() {
    let (url, api) = start(Remembering::default()).await;
    let client = ApiClient::new(vec![url], None);
    let name = "iqn.2026-11.example:host/1".to_owned();
    let query = HistoryQuery {
        from_ms: Some(1_000),
        until_ms: Some(61_000),
        step_seconds: Some(10),
    };
    let all = [
        HistoryOf::Cluster,
        HistoryOf::Volume("sql".to_owned()),
        HistoryOf::Initiator("sql".to_owned(), name.clone()),
        HistoryOf::Host(name.clone()),
        HistoryOf::Node("node-1".to_owned()),
        HistoryOf::Device("node-1".to_owned(), 2),
        HistoryOf::Tier(DeviceTier::Flash),
    ];
    for of in all {
        for query in [query, HistoryQuery::default()] {
            client.history(&of, query).await.unwrap();
            assert_eq!(
                *api.asked.lock().unwrap().last().unwrap(),
                format!("{of:?} {query:?}")
            );
        }
    }
    let subjects = [
        HistorySubject::Node,
        HistorySubject::Initiator(7, name.clone()),
        HistorySubject::Host(name),
    ];
    for subject in subjects {
        let query = LocalHistoryQuery {
            of: subject.to_string(),
            from: 600,
            until: 1200,
            step: 300,
        };
        client.local_history(&query).await.unwrap();
        assert_eq!(
            *api.asked.lock().unwrap().last().unwrap(),
            format!("{subject:?} 600 1200 300")
        );
    }
}

#[tokio::test]
async fn histories_that_make_no_sense_are_refused() {
    let (url, _) = start(Remembering::default()).await;
    let client = ApiClient::new(vec![url], None);
    for (from_ms, until_ms, step_seconds, words) in [
        (0, 1000, 0, "step_seconds is 0"),
        (2000, 1000, 1, "until_ms is before from_ms"),
        (0, 3_601_000, 1, "3601 steps"),
        (1 << 63, u64::MAX, 1, "from_ms is more than"),
        (0, 1 << 63, u32::MAX, "until_ms is more than"),
    ] {
        let query = HistoryQuery {
            from_ms: Some(from_ms),
            until_ms: Some(until_ms),
            step_seconds: Some(step_seconds),
        };
        let refused = client.history(&HistoryOf::Cluster, query).await;
        let Err(ClientError::Problem(problem)) = refused else {
            panic!("{refused:?}");
        };
        assert_eq!(problem.kind, ProblemKind::Invalid);
        assert!(problem.detail.contains(words), "{problem}");
        assert!(problem.hint.is_some(), "{problem}");
    }
    for (of, from, until, step, words) in [
        ("", 0, 10, 1, "no history of"),
        ("disk:1", 0, 10, 1, "no history of `disk:1`"),
        ("node", 5, 10, 10, "multiple of step"),
        ("node", 0, 10, 0, "multiple of step"),
        ("node", 0, 3602, 1, "3601 steps"),
    ] {
        let query = LocalHistoryQuery {
            of: of.to_owned(),
            from,
            until,
            step,
        };
        let refused = client.local_history(&query).await;
        let Err(ClientError::Problem(problem)) = refused else {
            panic!("{refused:?}");
        };
        assert!(problem.detail.contains(words), "{problem}");
    }
}

/// One id finds what was done for a request, whoever did it.
#[tokio::test]
async fn a_request_is_a_part_of_the_trace_that_it_names() {
    let (url, api) = start(Remembering::default()).await;
    let trace = "0af7651916cd43dd8448eb211c80319c";
    let request = |path: &str, parent: &str| {
        format!(
            "GET {path} HTTP/1.1\r\nhost: a\r\ntraceparent: {parent}\r\nconnection: close\r\n\r\n"
        )
    };
    let parent = format!("00-{trace}-b7ad6b7169203331-01");
    let answer = raw(&url, &request("/api/v1/local/support", &parent)).await;
    assert!(
        answer.contains(&format!("\r\ntraceresponse: 00-{trace}-")),
        "{answer}"
    );
    assert_eq!(
        *api.asked.lock().unwrap(),
        [format!("local support, of {trace}")]
    );
    let answer = raw(&url, &request("/nothing", &parent)).await;
    assert!(
        answer.contains(&format!("\"trace_id\":\"{trace}\"")),
        "{answer}"
    );
    // What is none is ignored: the request begins a trace.
    let answer = raw(&url, &request("/nothing", "00-1-2-3")).await;
    assert!(answer.starts_with("HTTP/1.1 404"), "{answer}");
    assert!(
        answer.contains("\"trace_id\":\"") && !answer.contains(trace),
        "{answer}"
    );
}

/// A server's client is asked within a request: what it asks is a part of the same trace.
#[tokio::test]
async fn a_trace_is_handed_on() {
    let (far, asked) = start(Remembering::default()).await;
    let far = Arc::new(ApiClient::new(vec![far], None));
    let passing = axum::Router::new().fallback(move || {
        let far = Arc::clone(&far);
        async move {
            let asked = tokio::spawn(holdfast_api::trace::carried(async move {
                far.local_support().await.is_ok()
            }));
            asked.await.unwrap().to_string()
        }
    });
    let passing = holdfast_api::trace::layer(passing);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(server::serve(listener, passing));
    let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
    let request = format!(
        "GET / HTTP/1.1\r\nhost: a\r\ntraceparent: 00-{trace}-00f067aa0ba902b7-00\r\nconnection: close\r\n\r\n"
    );
    let answer = raw(&url.parse().unwrap(), &request).await;
    assert!(answer.ends_with("true"), "{answer}");
    assert_eq!(
        *asked.asked.lock().unwrap(),
        [format!("local support, of {trace}")]
    );
}

#[tokio::test]
async fn levels_of_logs_are_asked_for_and_changed() {
    let (url, api) = start(Remembering::default()).await;
    let client = ApiClient::new(vec![url], None);
    let more = LogChange {
        level: Some(LogLevel::Debug),
        ..LogChange::default()
    };
    client.node_log("n1").await.unwrap();
    client.change_node_log("n1", &more).await.unwrap();
    client.local_log().await.unwrap();
    client.change_local_log(&more).await.unwrap();
    let asked = std::mem::take(&mut *api.asked.lock().unwrap());
    assert_eq!(asked.len(), 4);
    assert!(
        asked[1].contains("log of n1") && asked[1].contains("Debug"),
        "{asked:?}"
    );
    for (change, words) in [
        (LogChange::default(), "changes nothing"),
        (
            LogChange {
                seconds: Some(86_401),
                ..more.clone()
            },
            "seconds is 86401",
        ),
        (
            LogChange {
                seconds: Some(0),
                ..more
            },
            "seconds is 0",
        ),
    ] {
        let refused = client.change_local_log(&change).await;
        let Err(ClientError::Problem(problem)) = refused else {
            panic!("{refused:?}");
        };
        assert_eq!(problem.kind, ProblemKind::Invalid);
        assert!(problem.detail.contains(words), "{problem}");
        assert!(problem.hint.is_some(), "{problem}");
    }
    assert!(api.asked.lock().unwrap().is_empty());
}

/// Prometheus asks with its own words, and wants its own; others are told what everybody reads.
#[tokio::test]
async fn metrics_are_told_as_prometheus_reads_them() {
    let (url, _) = start(Remembering::default()).await;
    let address = url.to_string().replace("http://", "");
    let ask = async |accept: &str| {
        let mut stream = TcpStream::connect(&address).await.unwrap();
        let request =
            format!("GET /metrics HTTP/1.1\r\nhost: here\r\n{accept}connection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        assert!(answer.contains("\r\nvary: accept\r\n"), "{answer}");
        answer
    };
    // As Prometheus 2.42 asks.
    let prometheus = "accept: application/openmetrics-text;version=1.0.0,\
                      application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1\r\n";
    let answer = ask(prometheus).await;
    assert!(answer.contains("content-type: application/openmetrics-text; version=1.0.0"));
    assert!(answer.ends_with("\r\n\r\n# EOF\n"), "{answer}");
    for accept in ["", "accept: */*\r\n"] {
        let answer = ask(accept).await;
        assert!(answer.contains("content-type: text/plain; version=0.0.4"));
        assert!(answer.ends_with("\r\n\r\n"), "{answer}");
    }
}

/// Clients that ask, and never read what they are told, leave in the end.
#[tokio::test]
async fn clients_that_do_not_listen_keep_nobody_out() {
    let (url, _) = start(Remembering::default()).await;
    let address = url.to_string().replace("http://", "");
    let request = "GET /api/v1/openapi.json HTTP/1.1\r\nhost: a\r\n\r\n".repeat(200);
    let mut deaf = Vec::new();
    for _ in 0..server::CONNECTIONS_MAX {
        let mut stream = TcpStream::connect(&address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        deaf.push(stream);
    }
    let asked = raw(
        &url,
        "GET /api/v1/local HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n",
    );
    assert!(asked.await.starts_with("HTTP/1.1 200"));
}

/// Sends, and reads until the server hangs up.
async fn raw(url: &ApiUrl, request: &str) -> String {
    let address = url.to_string().replace("http://", "");
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    let read = stream.read_to_string(&mut answer);
    tokio::time::timeout(Duration::from_secs(40), read)
        .await
        .expect("the server hangs up")
        .unwrap();
    answer
}

fn post(body: &str, content_type: &str) -> String {
    format!(
        "POST /api/v1/volumes HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\
         content-type: {content_type}\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

#[tokio::test]
async fn bad_requests_are_told_what_is_wrong() {
    let (url, api) = start(Remembering::default()).await;
    let json = "application/json";
    let list = raw(&url, &post(r#"["demo", 4096, "mirror2"]"#, json)).await;
    assert!(list.starts_with("HTTP/1.1 400"), "{list}");
    assert!(list.contains("is a list, and not an object"), "{list}");
    let long = format!("{{\"name\":\"{}\"}}", "x".repeat(100 << 10));
    for (request, status, says) in [
        (post("{}", json), "400", "missing field `name`"),
        (
            "GET /api/v1/volumes/%FF HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n".to_owned(),
            "400",
            "the path is not understood",
        ),
        (
            "GET /api/v1/stalls?since_ms=9223372036854775808 HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n".to_owned(),
            "400",
            "since_ms is more than",
        ),
        (
            post("{\"name\":\"a\",\"bytes\":1,\"policy\":\"raid7\"}", json),
            "400",
            "raid7",
        ),
        (
            post(
                "{\"name\":\"a\",\"bytes\":1,\"policy\":\"none\",\"x\":1}",
                json,
            ),
            "400",
            "`x`",
        ),
        (post("nonsense", json), "400", "JSON"),
        (post("{}", "text/plain"), "415", "application/json"),
        (post(&long, json), "413", "length limit"),
        (
            "GET /nothing HTTP/1.1\r\nconnection: close\r\n\r\n".to_owned(),
            "404",
            "/api/v1",
        ),
        (
            "DELETE /api/v1/volumes HTTP/1.1\r\nconnection: close\r\n\r\n".to_owned(),
            "405",
            "method",
        ),
    ] {
        let answer = raw(&url, &request).await;
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status}")),
            "{answer}"
        );
        assert!(answer.contains("application/problem+json"), "{answer}");
        assert!(answer.contains(says), "{answer}");
        assert!(answer.contains("\"hint\""), "{answer}");
        assert!(answer.contains("\"code\""), "{answer}");
        let path = request.split(' ').nth(1).unwrap();
        let path = path.split('?').next().unwrap();
        let instance = format!("\"instance\":\"{path}\"");
        assert!(answer.contains(&instance), "{answer}");
        assert_eq!(answer.contains("\r\nallow: "), status == "405", "{answer}");
    }
    assert!(api.asked.lock().unwrap().is_empty());
    let answer = raw(&url, "what is this\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
    // Half a request, and then nothing.
    assert!(
        !raw(&url, "GET / HTTP/1.1\r\nhost:")
            .await
            .starts_with("HTTP/1.1 200")
    );
}

/// One request over a connection of its own: its method and path, headers, and body if it is to have one.
async fn send(url: &ApiUrl, what: &str, header: &str, body: &str) -> String {
    let json = match body {
        "" => String::new(),
        _ => format!(
            "content-type: application/json\r\ncontent-length: {}\r\n",
            body.len()
        ),
    };
    let head = format!("{what} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n{header}\r\n{json}\r\n");
    raw(url, &format!("{head}{body}")).await
}

#[tokio::test]
async fn what_may_be_changed_has_a_tag_and_changes_hold_for_it() {
    let (url, _) = start(Remembering::default()).await;
    let grow = ("PATCH /api/v1/volumes/demo", "{\"bytes\":8192}");
    let nothing = ("DELETE /api/v1/volumes/demo", "");
    for (what, body) in [
        grow,
        nothing,
        ("PATCH /api/v1/settings", "{}"),
        ("PATCH /api/v1/retention", "{\"audit_mib\":64}"),
        ("PATCH /api/v1/nodes/n4", "{\"order\":\"drain\"}"),
        ("PATCH /api/v1/volumes/demo/access", "{\"open\":true}"),
        ("PUT /api/v1/initiators/iqn.a:b", "{}"),
        ("DELETE /api/v1/initiators/iqn.a:b", ""),
        ("DELETE /api/v1/nodes/n4", ""),
        ("PATCH /api/v1/alarm-kinds/node-lost", "{\"off\":true}"),
        ("DELETE /api/v1/alarm-kinds/node-lost", ""),
    ] {
        let stale = send(&url, what, "if-match: \"0-0\"", body).await;
        assert!(stale.starts_with("HTTP/1.1 412"), "{what}: {stale}");
        assert!(stale.contains("precondition-failed"), "{stale}");
        let current = send(&url, what, "if-match: \"0-1\"", body).await;
        assert!(!current.starts_with("HTTP/1.1 412"), "{what}: {current}");
        let wrong = send(&url, what, "if-match: 0-1", body).await;
        assert!(wrong.starts_with("HTTP/1.1 400"), "{what}: {wrong}");
    }
    let changed = send(&url, grow.0, "accept: */*", grow.1).await;
    assert!(changed.contains("\r\netag: \"0-1\"\r\n"), "{changed}");
    let settings = "GET /api/v1/settings";
    let told = send(&url, settings, "if-none-match: \"0-2\"", "").await;
    assert!(told.starts_with("HTTP/1.1 200"), "{told}");
    assert!(told.contains("\r\netag: \"0-1\"\r\n"), "{told}");
    let known = send(&url, settings, "if-none-match: \"0-1\"", "").await;
    assert!(known.starts_with("HTTP/1.1 304"), "{known}");
    assert!(known.ends_with("\r\n\r\n"), "{known}");
}

/// Numbers have a sign, by the document.
#[tokio::test]
async fn a_threshold_is_a_number_that_the_document_lets_be() {
    let (url, _) = start(Remembering::default()).await;
    for field in ["set", "clear"] {
        let change = |number: u64| format!("{{\"{field}\":{number}}}");
        let patch = "PATCH /api/v1/alarm-kinds/device-slow";
        let greatest = send(&url, patch, "accept: */*", &change(i64::MAX as u64)).await;
        // It comes to be asked of whoever knows the kinds, of which there is none here.
        assert!(greatest.starts_with("HTTP/1.1 404"), "{greatest}");
        let refused = send(&url, patch, "accept: */*", &change(1 << 63)).await;
        assert!(refused.starts_with("HTTP/1.1 400"), "{refused}");
        let says = format!("{field} is more than 9223372036854775807");
        assert!(refused.contains(&says), "{refused}");
    }
}

#[tokio::test]
async fn a_creation_may_bear_a_key() {
    let (url, api) = start(Remembering::default()).await;
    let body = "{\"name\":\"demo\",\"bytes\":4096,\"policy\":\"none\"}";
    let create = "POST /api/v1/volumes";
    let made = send(&url, create, "idempotency-key: \"a-1\"", body).await;
    assert!(made.starts_with("HTTP/1.1 201"), "{made}");
    assert!(made.contains("\r\netag: "), "{made}");
    assert_eq!(api.asked.lock().unwrap()[0], "key a-1");
    for bad in [
        "idempotency-key: a b",
        "idempotency-key: a\r\nidempotency-key: b",
    ] {
        let refused = send(&url, create, bad, body).await;
        assert!(refused.starts_with("HTTP/1.1 400"), "{refused}");
    }
    assert_eq!(api.asked.lock().unwrap().len(), 2);
}

#[tokio::test]
async fn events_are_told_as_a_stream() {
    let (url, api) = start(Remembering::default()).await;
    let told = send(&url, "GET /api/v1/events", "last-event-id: a-0", "").await;
    assert!(
        told.contains("content-type: text/event-stream\r\n"),
        "{told}"
    );
    let lines =
        "id: a-1\nevent: node-lost\ndata: {\"id\":\"a-1\",\"at_ms\":1,\"kind\":\"node-lost\"";
    assert!(told.contains(lines), "{told}");
    let client = ApiClient::new(vec![nobody().await, url], None);
    let mut heard = Vec::new();
    client
        .follow(None, |event| heard.push(event.subject))
        .await
        .unwrap();
    assert_eq!(heard, ["node n1"]);
    let asked = ["events after Some(\"a-0\")", "events after None"];
    assert_eq!(*api.asked.lock().unwrap(), asked);
}

#[tokio::test]
async fn the_log_of_events_is_asked_for_in_pieces() {
    let (url, api) = start(Remembering::default()).await;
    let client = ApiClient::new(vec![url.clone()], None);
    let query = EventQuery {
        limit: 7,
        since_ms: 1,
        until_ms: Some(9),
        severity: EventSeverity::Warning,
        kind: Some(EventKind::NodeLost),
        after: Some("5.a-2".parse().unwrap()),
    };
    client.event_log(&query).await.unwrap();
    client.local_events(&EventQuery::default()).await.unwrap();
    client.local_event_state().await.unwrap();
    let asked = [
        format!("event log {query:?}"),
        format!("local events {:?}", EventQuery::default()),
        "local event state".to_owned(),
    ];
    assert_eq!(*api.asked.lock().unwrap(), asked);
    for query in [
        "limit=0",
        "limit=1001",
        "severity=none",
        "kind=other",
        "kind=of-tomorrow",
        "after=a",
        "since_ms=-1",
        "until_ms=9223372036854775808",
        "before=1",
    ] {
        for path in ["events/log", "local/events"] {
            let what = format!("GET /api/v1/{path}?{query}");
            let refused = send(&url, &what, "accept: */*", "").await;
            assert!(refused.starts_with("HTTP/1.1 400"), "{query}: {refused}");
        }
    }
    assert_eq!(api.asked.lock().unwrap().len(), 3);
}

#[tokio::test]
async fn listings_are_told_in_pieces() {
    let (url, _) = start(Remembering::default()).await;
    let get = |query: String| {
        let what = format!("GET /api/v1/nodes{query}");
        let url = url.clone();
        async move { send(&url, &what, "accept: */*", "").await }
    };
    let all = get(String::new()).await;
    assert!(all.contains("\"n1\"") && all.contains("\"n3\""), "{all}");
    assert!(!all.contains("\"next\""), "{all}");
    let first = get("?limit=2".to_owned()).await;
    assert!(!first.contains("\"n3\""), "{first}");
    let (_, next) = first.split_once("\"next\":\"").unwrap();
    let (next, _) = next.split_once('"').unwrap();
    let rest = get(format!("?limit=2&after={next}")).await;
    assert!(
        rest.contains("\"n3\"") && !rest.contains("\"n2\""),
        "{rest}"
    );
    assert!(!rest.contains("\"next\""), "{rest}");
    let named = get("?prefix=n2".to_owned()).await;
    assert!(
        named.contains("\"n2\"") && !named.contains("\"n1\""),
        "{named}"
    );
    for bad in ["?limit=0", "?limit=x", "?after=x"] {
        let refused = get(bad.to_owned()).await;
        assert!(refused.starts_with("HTTP/1.1 400"), "{bad}: {refused}");
    }
}

/// All of a listing in pieces of so many, and how many pieces that took.
async fn in_pieces(url: &ApiUrl, path: &str, field: &str, limit: usize) -> (Vec<Value>, usize) {
    let (mut all, mut pieces, mut after) = (Vec::new(), 0, String::new());
    loop {
        let what = format!("GET {path}?limit={limit}{after}");
        let answer = send(url, &what, "accept: */*", "").await;
        let (_, body) = answer.split_once("\r\n\r\n").unwrap();
        let piece: Value = serde_json::from_str(body).unwrap();
        let told = piece[field].as_array().unwrap();
        assert!((1..=limit).contains(&told.len()), "{answer}");
        all.extend(told.iter().cloned());
        pieces += 1;
        match piece["next"].as_str() {
            Some(next) => after = format!("&after={next}"),
            None => return (all, pieces),
        }
    }
}

#[tokio::test]
async fn sessions_and_alarms_are_told_in_pieces_and_each_once() {
    let (url, _) = start(Remembering::default()).await;
    let (sessions, alarms) = (paths().sessions, alarms().alarms);
    let sessions = serde_json::to_value(sessions).unwrap();
    let of_all = serde_json::to_value(crate::sessions().sessions).unwrap();
    let alarms = serde_json::to_value(alarms).unwrap();
    for (path, field, expected) in [
        ("/api/v1/sessions", "sessions", &of_all),
        ("/api/v1/volumes/db/sessions", "sessions", &sessions),
        ("/api/v1/initiators/iqn.a:b/sessions", "sessions", &sessions),
        ("/api/v1/alarms", "alarms", &alarms),
    ] {
        let expected = expected.as_array().unwrap();
        for limit in 1..=7 {
            let (all, pieces) = in_pieces(&url, path, field, limit).await;
            assert_eq!(all, *expected, "{path} {limit}");
            assert_eq!(pieces, expected.len().div_ceil(limit), "{path} {limit}");
        }
        let whole = send(&url, &format!("GET {path}"), "accept: */*", "").await;
        assert!(!whole.contains("\"next\""), "{whole}");
    }
    for path in ["/api/v1/volumes/db/sessions", "/api/v1/sessions"] {
        let piece = format!("GET {path}?limit=1");
        let piece = send(&url, &piece, "accept: */*", "").await;
        assert!(piece.contains("\"silent\":[\"n3\"]"), "{piece}");
    }
}

#[tokio::test]
async fn the_document_is_served() {
    let (url, _) = start(Remembering::default()).await;
    let request = "GET /api/v1/openapi.json HTTP/1.1\r\nconnection: close\r\n\r\n";
    let answer = raw(&url, request).await;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.contains("content-type: application/json"), "{head}");
    assert_eq!(body, openapi());
}

#[test]
fn the_document_describes_the_interface() {
    let document = openapi();
    assert!(document.contains("\"openapi\": \"3.1.0\""));
    for path in [
        "/api/v1/status",
        "/api/v1/nodes",
        "/api/v1/volumes/{name}",
        "/api/v1/local",
    ] {
        assert!(document.contains(path));
    }
}
