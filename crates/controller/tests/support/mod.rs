//! Nodes that only report, and an embedded store.

pub(crate) mod away;
pub(crate) mod full;

use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use holdfast_api::documents::{
    Created, DeviceChange, DeviceList, Explanation, History, HistoryOf, HistoryQuery,
    HistorySubject, LocalFlow, LocalHistory, LocalHistoryPoint, LocalHistoryQuery, LocalReport,
    LocalSlice, LocalStall, LocalStalls, LocalSupport, LocalTraffic, LocalVolume,
    LocalVolumeTraffic, LogChange, LogLevel, LogLevels, Node as NodeDocument, NodeChange,
    NodeDetails, NodeList, Settings, SettingsChange, StallCause, StallList, StallPlace, StallQuery,
    Status, Traffic, Volume, VolumeCreate, VolumeDelete, VolumeGrow, VolumeList, piece,
};
use holdfast_api::{
    Api, Conditional, Door, Keyed, Precondition, Problem, ProblemKind, router, server,
};
use holdfast_controller::Controller;
use holdfast_metadata::suite::User;
use holdfast_metadata::{Embedded, HistoryLimits, Store};
use holdfast_model::metadata::Operation;
use holdfast_model::record::{DomainRecord, NodeRecord, Record, StopRecord};
use holdfast_model::{ClusterId, Incarnation, NodeId, StoreId};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

pub(crate) const CLUSTER: ClusterId = ClusterId(0xC1);

pub(crate) fn open(folder: &Path) -> Embedded {
    Embedded::open(folder, CLUSTER, HistoryLimits::default()).unwrap()
}

/// A node's API without a node: it reports what it is given, and keeps what is ordered about its devices and its log. Its log of
/// events has what it is given.
#[derive(Default)]
pub(crate) struct Reporter(
    pub(crate) Mutex<LocalReport>,
    pub(crate) Mutex<Vec<DeviceChange>>,
    pub(crate) Mutex<LogLevel>,
    pub(crate) Mutex<Vec<holdfast_api::documents::Event>>,
);

fn elsewhere<T>() -> Result<T, Problem> {
    Err(Problem::new(
        ProblemKind::Internal,
        "only reports are asked of it",
    ))
}

impl Api for Reporter {
    async fn sessions(&self) -> Result<holdfast_api::documents::TargetSessionList, Problem> {
        elsewhere()
    }

    async fn volume_sessions(
        &self,
        _: &str,
    ) -> Result<holdfast_api::documents::SessionList, Problem> {
        elsewhere()
    }

    async fn initiator_sessions(
        &self,
        _: &str,
    ) -> Result<holdfast_api::documents::SessionList, Problem> {
        elsewhere()
    }

    async fn alarms(
        &self,
        _: holdfast_api::documents::AlarmQuery,
    ) -> Result<holdfast_api::documents::AlarmList, Problem> {
        elsewhere()
    }

    async fn acknowledge_alarm(
        &self,
        _: u64,
        _: holdfast_api::documents::AlarmAcknowledge,
        _: String,
    ) -> Result<holdfast_api::documents::Alarm, Problem> {
        elsewhere()
    }

    async fn retention(&self) -> Result<holdfast_api::documents::Retention, Problem> {
        elsewhere()
    }

    async fn change_retention(
        &self,
        _: impl Into<Conditional<holdfast_api::documents::RetentionChange>> + Send,
    ) -> Result<holdfast_api::documents::Retention, Problem> {
        elsewhere()
    }

    async fn local_retention(&self) -> Result<holdfast_api::documents::LocalRetention, Problem> {
        Ok(holdfast_api::documents::LocalRetention {
            node: self.0.lock().unwrap().node,
            ..Default::default()
        })
    }

    async fn alarm_kinds(&self) -> Result<holdfast_api::documents::AlarmKindList, Problem> {
        elsewhere()
    }

    async fn change_alarm_kind(
        &self,
        _: &str,
        _: impl Into<Conditional<Option<holdfast_api::documents::AlarmKindChange>>> + Send,
    ) -> Result<holdfast_api::documents::AlarmKind, Problem> {
        elsewhere()
    }

    async fn receivers(&self) -> Result<holdfast_api::documents::ReceiverList, Problem> {
        elsewhere()
    }

    async fn put_receiver(
        &self,
        _: &str,
        _: impl Into<Conditional<holdfast_api::documents::ReceiverPut>> + Send,
    ) -> Result<holdfast_api::documents::Receiver, Problem> {
        elsewhere()
    }

    async fn remove_receiver(&self, _: &str, _: Precondition) -> Result<(), Problem> {
        elsewhere()
    }

    async fn test_receiver(&self, _: &str) -> Result<(), Problem> {
        elsewhere()
    }

    async fn reservations(
        &self,
        _: &str,
    ) -> Result<holdfast_api::documents::Reservations, Problem> {
        elsewhere()
    }

    async fn local_sessions(
        &self,
        query: holdfast_api::documents::LocalSessionQuery,
    ) -> Result<holdfast_api::documents::LocalSessions, Problem> {
        let report = self.0.lock().unwrap();
        let sessions = report.sessions.iter().filter(|it| query.wants(it));
        let paths = report.volumes.iter().filter_map(|it| {
            let (volume, state) = (it.volume, it.path?);
            Some(holdfast_api::documents::LocalPath { volume, state })
        });
        Ok(holdfast_api::documents::LocalSessions {
            node: report.node,
            sessions: sessions.cloned().collect(),
            paths: paths.collect(),
        })
    }

    async fn status(&self) -> Result<Status, Problem> {
        elsewhere()
    }
    async fn explain(&self) -> Result<Explanation, Problem> {
        elsewhere()
    }
    async fn nodes(&self) -> Result<NodeList, Problem> {
        elsewhere()
    }
    async fn node(&self, _: &str) -> Result<NodeDetails, Problem> {
        elsewhere()
    }
    async fn change_node(
        &self,
        _: &str,
        _: impl Into<Conditional<NodeChange>> + Send,
    ) -> Result<NodeDocument, Problem> {
        elsewhere()
    }
    async fn devices(&self, _: &str) -> Result<DeviceList, Problem> {
        elsewhere()
    }

    async fn change_devices(&self, _: &str, _: DeviceChange) -> Result<DeviceList, Problem> {
        elsewhere()
    }

    async fn change_local_devices(&self, change: DeviceChange) -> Result<DeviceList, Problem> {
        self.1.lock().unwrap().push(change);
        Ok(DeviceList::default())
    }

    async fn remove_node(&self, _: &str, _: Precondition) -> Result<(), Problem> {
        elsewhere()
    }
    async fn settings(&self) -> Result<Settings, Problem> {
        elsewhere()
    }
    async fn change_settings(
        &self,
        _: impl Into<Conditional<SettingsChange>> + Send,
    ) -> Result<Settings, Problem> {
        elsewhere()
    }
    async fn volumes(&self) -> Result<VolumeList, Problem> {
        elsewhere()
    }
    async fn volume(&self, _: &str) -> Result<Volume, Problem> {
        elsewhere()
    }
    async fn create_volume(
        &self,
        _: impl Into<Keyed<VolumeCreate>> + Send,
    ) -> Result<Created, Problem> {
        elsewhere()
    }
    async fn grow_volume(
        &self,
        _: &str,
        _: impl Into<Conditional<VolumeGrow>> + Send,
    ) -> Result<Volume, Problem> {
        elsewhere()
    }
    async fn delete_volume(
        &self,
        _: &str,
        _: impl Into<Conditional<VolumeDelete>> + Send,
    ) -> Result<(), Problem> {
        elsewhere()
    }
    async fn initiator(&self, _: &str) -> Result<holdfast_api::documents::Initiator, Problem> {
        elsewhere()
    }

    async fn initiators(&self) -> Result<holdfast_api::documents::InitiatorList, Problem> {
        elsewhere()
    }
    async fn put_initiator(
        &self,
        _: &str,
        _: impl Into<Conditional<holdfast_api::documents::InitiatorPut>> + Send,
    ) -> Result<holdfast_api::documents::Initiator, Problem> {
        elsewhere()
    }
    async fn remove_initiator(&self, _: &str, _: Precondition) -> Result<(), Problem> {
        elsewhere()
    }
    async fn change_access(
        &self,
        _: &str,
        _: impl Into<Conditional<holdfast_api::documents::AccessChange>> + Send,
    ) -> Result<Volume, Problem> {
        elsewhere()
    }
    async fn scrub_volume(&self, _: &str) -> Result<Volume, Problem> {
        elsewhere()
    }
    async fn local_cluster(&self) -> Result<holdfast_api::documents::LocalCluster, Problem> {
        elsewhere()
    }

    async fn tasks(&self) -> Result<Vec<holdfast_api::documents::Task>, Problem> {
        elsewhere()
    }

    async fn task(&self, _: &str) -> Result<holdfast_api::documents::Task, Problem> {
        elsewhere()
    }

    async fn cancel_task(&self, _: &str) -> Result<(), Problem> {
        elsewhere()
    }

    async fn event_log(
        &self,
        _: holdfast_api::documents::EventQuery,
    ) -> Result<holdfast_api::documents::EventList, Problem> {
        elsewhere()
    }

    async fn local_events(
        &self,
        query: holdfast_api::documents::EventQuery,
    ) -> Result<holdfast_api::documents::LocalEvents, Problem> {
        let told = self.3.lock().unwrap();
        let mut events: Vec<_> = told.iter().filter(|it| query.wants(it)).cloned().collect();
        events.sort_by_key(|event| std::cmp::Reverse(event.place()));
        events.truncate(query.limit as usize);
        Ok(holdfast_api::documents::LocalEvents {
            node: self.0.lock().unwrap().node,
            events,
            ..Default::default()
        })
    }

    async fn local_event_state(&self) -> Result<holdfast_api::documents::LocalEventState, Problem> {
        elsewhere()
    }

    async fn events(&self, _: Option<&str>) -> Result<holdfast_api::events::Listener, Problem> {
        elsewhere()
    }

    async fn local(&self) -> Result<LocalReport, Problem> {
        let mut report = self.0.lock().unwrap();
        report.number += 1;
        Ok(report.clone())
    }
    async fn stalls(&self, _: Option<&str>, _: StallQuery) -> Result<StallList, Problem> {
        elsewhere()
    }
    async fn local_stalls(&self, query: StallQuery) -> Result<LocalStalls, Problem> {
        let report = self.0.lock().unwrap();
        let after = query.place()?;
        let told = |stalls: Vec<LocalStall>, lasting| {
            let wanted = stalls.into_iter().filter(|stall| query.wants(stall));
            let placed = wanted.map(|it| (StallPlace::of(report.node, &it, lasting), it));
            piece(placed, after.as_ref(), query.limit as usize).0
        };
        Ok(LocalStalls {
            node: report.node,
            lasting: told(report.stalled.clone(), true),
            stalls: told(stalls_of(report.node), false),
        })
    }
    /// In each step as many reads as the node's number, in a second.
    async fn local_history(
        &self,
        _: HistorySubject,
        query: LocalHistoryQuery,
    ) -> Result<LocalHistory, Problem> {
        let node = self.0.lock().unwrap().node;
        let point = |at| LocalHistoryPoint {
            at,
            seconds: 1,
            reads: LocalFlow {
                bytes: 100 * u64::from(node),
                total_us: 100,
                latencies: vec![(100, u64::from(node))],
            },
            ..LocalHistoryPoint::default()
        };
        let steps = (query.from..query.until).step_by(query.step as usize);
        Ok(LocalHistory {
            node,
            points: steps.map(point).collect(),
        })
    }
    async fn history(&self, _: HistoryOf, _: HistoryQuery) -> Result<History, Problem> {
        elsewhere()
    }
    async fn traffic(&self) -> Result<Traffic, Problem> {
        elsewhere()
    }

    /// With each volume that it knows as many reads as the node's number, in a second.
    async fn local_traffic(&self) -> Result<LocalTraffic, Problem> {
        let report = self.0.lock().unwrap();
        let node = report.node;
        let reads = LocalFlow {
            bytes: 100 * u64::from(node),
            total_us: 100,
            latencies: vec![(100, u64::from(node))],
        };
        let volumes = report.volumes.iter().map(|it| LocalVolumeTraffic {
            volume: it.volume,
            reads: reads.clone(),
            ..LocalVolumeTraffic::default()
        });
        Ok(LocalTraffic {
            node,
            seconds: 1,
            volumes: volumes.collect(),
        })
    }

    async fn metrics(&self) -> Result<String, Problem> {
        elsewhere()
    }

    async fn node_log(&self, _: &str) -> Result<LogLevels, Problem> {
        elsewhere()
    }

    async fn change_node_log(&self, _: &str, _: LogChange) -> Result<LogLevels, Problem> {
        elsewhere()
    }

    async fn node_support(&self, _: &str) -> Result<LocalSupport, Problem> {
        elsewhere()
    }

    async fn local_log(&self) -> Result<LogLevels, Problem> {
        Ok(LogLevels {
            level: *self.2.lock().unwrap(),
            ..LogLevels::default()
        })
    }

    async fn change_local_log(&self, change: LogChange) -> Result<LogLevels, Problem> {
        *self.2.lock().unwrap() = change.level.unwrap_or_default();
        self.local_log().await
    }

    async fn local_support(&self) -> Result<LocalSupport, Problem> {
        Ok(LocalSupport {
            node: self.0.lock().unwrap().node,
            ..LocalSupport::default()
        })
    }
}

/// Two stalls of each node, one of each of two volumes.
pub(crate) fn stalls_of(node: u16) -> Vec<LocalStall> {
    let stall = |volume: u64| LocalStall {
        began_ms: 1000 * volume + u64::from(node),
        length_ms: 100,
        volume,
        initiator: None,
        cause: StallCause::NodeLost,
        node: Some(9),
        slice: Some(0),
        waiting_max: 1,
        served: true,
    };
    vec![stall(2), stall(1)]
}

/// Puts down that there is a node whose interface is at that address.
pub(crate) async fn register(number: u16, api: SocketAddr, store: &Embedded) -> NodeRecord {
    let record = NodeRecord {
        schema: 1,
        node: NodeId(number),
        name: format!("n{number}"),
        store: StoreId(number.into()),
        uses: 1,
        use_id: 1,
        incarnation: Incarnation(1),
        portal: String::new(),
        peer: String::new(),
        api: format!("http://{api}"),
    };
    let put = Operation::put(NodeRecord::key(record.node), record.encode());
    User::new(store.session()).perform(put).await;
    record
}

pub(crate) struct Node {
    pub(crate) reporter: Arc<Reporter>,
    pub(crate) server: JoinHandle<()>,
}

impl Node {
    pub(crate) async fn start(number: u16, store: &Embedded) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let record = register(number, listener.local_addr().unwrap(), store).await;
        let reporter = Arc::new(Reporter::default());
        *reporter.0.lock().unwrap() = LocalReport {
            node: number,
            incarnation: record.incarnation.0,
            store: record.store.to_string(),
            open: true,
            ..LocalReport::default()
        };
        let routes = router(reporter.clone(), Door::Open);
        let server = tokio::spawn(async move {
            server::serve(listener, routes).await;
        });
        Self { reporter, server }
    }

    /// It says in its configuration that it is in this failure domain.
    pub(crate) async fn is_in(number: u16, domain: &str, store: &Embedded) {
        let record = DomainRecord {
            schema: 1,
            node: NodeId(number),
            domain: domain.to_owned(),
        };
        let put = Operation::put(DomainRecord::key(record.node), record.encode());
        User::new(store.session()).perform(put).await;
    }

    /// A node says that this start of it ends because it was told to.
    pub(crate) async fn says_that_it_stops(number: u16, incarnation: u64, store: &Embedded) {
        let record = StopRecord {
            schema: 1,
            node: NodeId(number),
            incarnation: Incarnation(incarnation),
        };
        let put = Operation::put(StopRecord::key(record.node), record.encode());
        User::new(store.session()).perform(put).await;
    }

    /// Serves this volume, and leads all of its slices.
    pub(crate) fn serve(&self, volume: u64, slices: u32) {
        let mut report = self.reporter.0.lock().unwrap();
        report.volumes.push(LocalVolume {
            volume,
            serving: true,
            sessions: 0,
            ..LocalVolume::default()
        });
        report.slices.extend((0..slices).map(|index| LocalSlice {
            volume,
            index,
            epoch: 1,
            serving: true,
            used_bytes: 1 << 18,
            ..LocalSlice::default()
        }));
    }
}

pub(crate) async fn controller(store: &Embedded) -> Controller {
    let controller = Controller::new(CLUSTER, store.session(), None);
    let controller = controller.serve_within(Duration::from_millis(50));
    controller.found().await.unwrap();
    controller
}
