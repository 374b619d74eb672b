//! The control plane: answers the REST interface from what the metadata holds and what the nodes
//! report, and carries out the plans of `control`.
//!
//! Every node has one, and so has the demo's parent; they need not know of each other, because plans
//! that meet in the metadata never mix.
//!
//! It refuses to decide where replicas go (`control` does), and to keep anything of its own: what it
//! answers is read when it is asked.
#![forbid(unsafe_code)]

mod access;
mod alarms;
mod asking;
mod attempts;
mod audit;
mod beginning;
mod clock;
mod desk;
mod devices;
mod events;
mod founding;
mod history;
mod identity;
mod known;
mod line_log;
mod looks;
mod members;
mod pace;
mod paths;
mod problem;
mod recover;
mod reports;
mod retention;
mod sealing;
mod seeing;
mod stalls;
mod steering;
mod tags;
mod tasks;
mod traffic;
mod trust;
mod upkeep;
mod view;
mod volumes;
mod waits;

use std::collections::VecDeque;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, SystemTime};

use holdfast_api::documents::{
    AccessChange, Alarm, AlarmAcknowledge, AlarmKind, AlarmKindChange, AlarmKindList, AlarmList,
    AlarmQuery, Created, DeviceChange, DeviceList, EventList, EventQuery, Explanation, History,
    HistoryOf, HistoryQuery, HistorySubject, Initiator, InitiatorList, InitiatorPut, LocalCluster,
    LocalEventState, LocalEvents, LocalHistory, LocalHistoryQuery, LocalReport, LocalRetention,
    LocalSessionQuery, LocalSessions, LocalStall, LocalStalls, LocalSupport, LocalTraffic,
    LogChange, LogLevels, Node, NodeChange, NodeDetails, NodeList, Receiver, ReceiverList,
    ReceiverPut, Reservations, Retention, RetentionChange, SessionList, Settings, SettingsChange,
    StallList, StallQuery, Status, TargetSessionList, Task, Traffic, Volume, VolumeCreate,
    VolumeDelete, VolumeGrow, VolumeList,
};
use holdfast_api::events::Listener;
use holdfast_api::{Api, Conditional, Keyed, Precondition, Problem, ProblemKind};
use holdfast_control::{PlanError, VolumeName};
use holdfast_metadata::Session;
use holdfast_model::ClusterId;
use holdfast_tls::{Connector, Credentials};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use self::alarms::WouldTell;
use self::desk::Desk;
use self::devices::ChangeDevices;
use self::events::Events;
use self::history::AskHistory;
use self::known::KnownNodes;
use self::looks::{Looks, Seen};
use self::retention::Keeping;
use self::stalls::Kept;
use self::steering::Silences;
use self::upkeep::{Front, Own};

pub use self::audit::{AUDIT_FILE, AuditLog};
pub use self::events::{EVENTS_FILE, EventLog, LISTENERS_MAX};
pub use self::identity::Accounts;
pub use self::looks::{LOOK_BYTES_OF_SLICE_MAX, LOOKS_MAX, READERS_MAX};
pub use self::reports::REPORT_TIME_MAX;

/// How often a plan is made anew because others were faster, or an outcome is unknown. Each time
/// that others were faster, one of them got ahead.
const ATTEMPTS_MAX: u32 = 32;
/// The pause before the second attempt; it grows by as much with each further one.
const ATTEMPT_PAUSE: Duration = Duration::from_millis(10);
/// How long a new or grown volume may take to be served before it is answered as it is.
const SERVE_TIME_MAX: Duration = Duration::from_secs(5);

/// Tells from when and until when what is shown to etcd is good.
#[derive(Clone)]
struct ShownToEtcd(Arc<dyn Fn() -> Option<Range<SystemTime>> + Send + Sync>);

impl fmt::Debug for ShownToEtcd {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("ShownToEtcd")
    }
}

/// The control plane of one process.
#[derive(Clone, Debug)]
pub struct Controller {
    cluster: ClusterId,
    desk: Arc<Desk>,
    local: Option<watch::Receiver<LocalReport>>,
    /// With what other nodes are asked over TLS.
    connector: Option<Connector>,
    kept: Option<Kept>,
    /// Where orders about the devices of the node in this process go.
    devices: Option<ChangeDevices>,
    /// Where its history is asked for.
    history: Option<AskHistory>,
    /// Where its log, and what else it has, is asked for.
    upkeep: Option<Own>,
    /// What this process has of its own, if it is a demo's, which has no node in it.
    front: Option<Front>,
    /// The credentials of this process, which expire.
    credentials: Option<Credentials>,
    /// When what it shows to etcd is good, if that is something else.
    shown_to_etcd: Option<ShownToEtcd>,
    /// Which nodes are silent, if this one steers.
    silences: Silences,
    /// Whether it would tell of the loss of the metadata.
    would_tell: WouldTell,
    /// The highest revision of the metadata that was seen.
    seen: Arc<AtomicU64>,
    looks: Arc<Looks>,
    events: Arc<Events>,
    /// The log of events of this process, if it keeps one.
    event_log: Option<EventLog>,
    /// The nodes, for when the metadata does not tell them.
    known_nodes: KnownNodes,
    /// What it keeps beside that.
    keeping: Keeping,
    serve_time_max: Duration,
}

impl Controller {
    /// The control plane of `cluster`, over a session of its own with the metadata. `local` is what
    /// the node in this process reports of itself, if there is one.
    ///
    /// Must be called within a tokio runtime.
    #[must_use]
    pub fn new(
        cluster: ClusterId,
        session: Session,
        local: Option<watch::Receiver<LocalReport>>,
    ) -> Self {
        let desk = Arc::new(Desk::start(session));
        Self {
            cluster,
            desk,
            local,
            connector: None,
            kept: None,
            devices: None,
            history: None,
            upkeep: None,
            front: None,
            credentials: None,
            shown_to_etcd: None,
            silences: Silences::default(),
            would_tell: WouldTell::default(),
            seen: Arc::default(),
            looks: Arc::default(),
            events: Arc::default(),
            event_log: None,
            known_nodes: KnownNodes::default(),
            keeping: Keeping::default(),
            serve_time_max: SERVE_TIME_MAX,
        }
    }

    /// With what the node in this process keeps of stalls, and counts.
    #[must_use]
    pub fn keeping(
        self,
        stalls: watch::Receiver<VecDeque<LocalStall>>,
        metrics: impl Fn(&LocalReport) -> String + Send + Sync + 'static,
    ) -> Self {
        let metrics = Arc::new(metrics);
        Self {
            kept: Some(Kept { stalls, metrics }),
            ..self
        }
    }

    /// With what it shows others, to tell when that expires.
    #[must_use]
    pub fn showing(self, credentials: Option<Credentials>) -> Self {
        Self {
            credentials,
            ..self
        }
    }

    /// With what tells from when and until when the certificate is good that it shows to an etcd that somebody else runs; nothing
    /// where it shows none. It is asked for each report.
    #[must_use]
    pub fn showing_to_etcd(
        self,
        good: impl Fn() -> Option<Range<SystemTime>> + Send + Sync + 'static,
    ) -> Self {
        Self {
            shown_to_etcd: Some(ShownToEtcd(Arc::new(good))),
            ..self
        }
    }

    /// Steers the cluster whenever nobody else does, until the task is aborted or its runtime ends.
    ///
    /// Must be called within a tokio runtime.
    pub fn steer(&self) -> JoinHandle<()> {
        tokio::spawn(steering::run(self.clone()))
    }

    /// With less patience for new volumes to be served.
    #[must_use]
    pub fn serve_within(self, serve_time_max: Duration) -> Self {
        Self {
            serve_time_max,
            ..self
        }
    }
}

fn volume_in((inventory, reports): &Seen, name: &VolumeName) -> Result<Volume, Problem> {
    let record = inventory.volume(name.as_str());
    let record = record.ok_or_else(|| problem::plan(name, PlanError::NoSuchVolume))?;
    Ok(view::volume(inventory, reports, &record.record))
}

impl Api for Controller {
    async fn status(&self) -> Result<Status, Problem> {
        let seen = self.view().await?;
        Ok(view::status(&seen.0, &seen.1))
    }

    async fn nodes(&self) -> Result<NodeList, Problem> {
        let seen = self.view().await?;
        Ok(view::nodes(&seen.0, &seen.1))
    }

    async fn explain(&self) -> Result<Explanation, Problem> {
        match (self.view().await, &self.local) {
            (Ok(seen), _) => Ok(view::explain(&seen.0, &seen.1)),
            // One node says at least what it knows by itself.
            (Err(problem), Some(local)) if problem.kind == ProblemKind::Unavailable => {
                let explanation = view::unreached(&local.borrow(), &problem);
                let known = self.known().await.ok();
                Ok(Explanation {
                    known,
                    ..explanation
                })
            }
            (Err(problem), _) => Err(problem),
        }
    }

    async fn node(&self, name: &str) -> Result<NodeDetails, Problem> {
        self.node_details(name).await
    }

    async fn change_node(
        &self,
        name: &str,
        change: impl Into<Conditional<NodeChange>> + Send,
    ) -> Result<Node, Problem> {
        let wanted = change.into();
        self.order(name, wanted.request, &wanted.precondition).await
    }

    async fn remove_node(&self, name: &str, precondition: Precondition) -> Result<(), Problem> {
        self.remove(name, &precondition).await
    }

    async fn devices(&self, name: &str) -> Result<DeviceList, Problem> {
        self.devices_of(name).await
    }

    async fn change_devices(
        &self,
        name: &str,
        change: DeviceChange,
    ) -> Result<DeviceList, Problem> {
        self.change_devices_of(name, change).await
    }

    async fn change_local_devices(&self, change: DeviceChange) -> Result<DeviceList, Problem> {
        self.change_devices_here(change).await
    }

    async fn settings(&self) -> Result<Settings, Problem> {
        Ok(members::settings(&self.inventory().await?.seen))
    }

    async fn change_settings(
        &self,
        change: impl Into<Conditional<SettingsChange>> + Send,
    ) -> Result<Settings, Problem> {
        let wanted = change.into();
        self.change(wanted.request, &wanted.precondition).await
    }

    async fn retention(&self) -> Result<Retention, Problem> {
        self.retention_of_all().await
    }

    async fn change_retention(
        &self,
        change: impl Into<Conditional<RetentionChange>> + Send,
    ) -> Result<Retention, Problem> {
        self.set_retention(change.into()).await
    }

    async fn local_retention(&self) -> Result<LocalRetention, Problem> {
        self.retention_here().await
    }

    async fn volumes(&self) -> Result<VolumeList, Problem> {
        let seen = self.view().await?;
        Ok(view::volumes(&seen.0, &seen.1))
    }

    async fn volume(&self, name: &str) -> Result<Volume, Problem> {
        let name: VolumeName = name.parse().map_err(problem::name)?;
        volume_in(&*self.view().await?, &name)
    }

    async fn create_volume(
        &self,
        request: impl Into<Keyed<VolumeCreate>> + Send,
    ) -> Result<Created, Problem> {
        self.make_volume(request.into()).await
    }

    async fn grow_volume(
        &self,
        name: &str,
        request: impl Into<Conditional<VolumeGrow>> + Send,
    ) -> Result<Volume, Problem> {
        self.enlarge_volume(name, request.into()).await
    }

    async fn delete_volume(
        &self,
        name: &str,
        how: impl Into<Conditional<VolumeDelete>> + Send,
    ) -> Result<(), Problem> {
        self.remove_volume(name, how.into()).await
    }

    async fn initiators(&self) -> Result<InitiatorList, Problem> {
        self.list_initiators().await
    }

    async fn initiator(&self, name: &str) -> Result<Initiator, Problem> {
        self.initiator_on_record(name).await
    }

    async fn put_initiator(
        &self,
        name: &str,
        request: impl Into<Conditional<InitiatorPut>> + Send,
    ) -> Result<Initiator, Problem> {
        let wanted = request.into();
        self.record_initiator(name, wanted.request, &wanted.precondition)
            .await
    }

    async fn remove_initiator(
        &self,
        name: &str,
        precondition: Precondition,
    ) -> Result<(), Problem> {
        self.forget_initiator(name, &precondition).await
    }

    async fn change_access(
        &self,
        name: &str,
        change: impl Into<Conditional<AccessChange>> + Send,
    ) -> Result<Volume, Problem> {
        let wanted = change.into();
        self.order_access(name, wanted.request, &wanted.precondition)
            .await
    }

    async fn scrub_volume(&self, name: &str) -> Result<Volume, Problem> {
        self.begin_scrub(name).await
    }

    async fn tasks(&self) -> Result<Vec<Task>, Problem> {
        self.list_tasks().await
    }

    async fn task(&self, id: &str) -> Result<Task, Problem> {
        let mut tasks = self.list_tasks().await?.into_iter();
        let found = tasks.find(|task| task.id == id);
        found.ok_or_else(|| tasks::no_such_task(id))
    }

    async fn cancel_task(&self, id: &str) -> Result<(), Problem> {
        self.call_off(id).await
    }

    async fn events(&self, last: Option<&str>) -> Result<Listener, Problem> {
        self.listen(last).await
    }

    async fn event_log(&self, query: EventQuery) -> Result<EventList, Problem> {
        self.events_of_all(query).await
    }

    async fn local_events(&self, query: EventQuery) -> Result<LocalEvents, Problem> {
        self.events_here(&query).await
    }

    async fn local_event_state(&self) -> Result<LocalEventState, Problem> {
        self.event_state_here()
    }

    async fn local(&self) -> Result<LocalReport, Problem> {
        self.report().ok_or_else(problem::no_node)
    }

    async fn local_cluster(&self) -> Result<LocalCluster, Problem> {
        self.known().await
    }

    async fn stalls(&self, volume: Option<&str>, query: StallQuery) -> Result<StallList, Problem> {
        self.stalls_of(volume, query).await
    }

    async fn local_stalls(&self, query: StallQuery) -> Result<LocalStalls, Problem> {
        let after = query.place()?;
        let (report, kept) = self.node_here()?;
        Ok(kept.answer(&report, &query, after.as_ref()))
    }

    async fn sessions(&self) -> Result<TargetSessionList, Problem> {
        self.sessions_of_all().await
    }

    async fn volume_sessions(&self, name: &str) -> Result<SessionList, Problem> {
        self.sessions_of_volume(name).await
    }

    async fn initiator_sessions(&self, name: &str) -> Result<SessionList, Problem> {
        self.sessions_of_initiator(name).await
    }

    async fn local_sessions(&self, query: LocalSessionQuery) -> Result<LocalSessions, Problem> {
        let report = self.local.as_ref().ok_or_else(problem::no_node)?;
        Ok(paths::local(&report.borrow(), &query))
    }

    async fn reservations(&self, name: &str) -> Result<Reservations, Problem> {
        self.reservations_of(name).await
    }

    async fn history(&self, of: HistoryOf, query: HistoryQuery) -> Result<History, Problem> {
        self.history_of(&of, query).await
    }

    async fn local_history(
        &self,
        subject: HistorySubject,
        query: LocalHistoryQuery,
    ) -> Result<LocalHistory, Problem> {
        self.history_here(subject, query).await
    }

    async fn traffic(&self) -> Result<Traffic, Problem> {
        self.traffic_of_all().await
    }

    async fn local_traffic(&self) -> Result<LocalTraffic, Problem> {
        self.traffic_here().await
    }

    async fn metrics(&self) -> Result<String, Problem> {
        let (mut report, kept) = self.node_here()?;
        report.vitals = Some(self.vitals(&report));
        Ok((kept.metrics)(&report))
    }

    async fn node_log(&self, name: &str) -> Result<LogLevels, Problem> {
        self.log_of(name).await
    }

    async fn change_node_log(&self, name: &str, change: LogChange) -> Result<LogLevels, Problem> {
        self.change_log_of(name, change).await
    }

    async fn local_log(&self) -> Result<LogLevels, Problem> {
        self.log_here()
    }

    async fn change_local_log(&self, change: LogChange) -> Result<LogLevels, Problem> {
        self.change_log_here(&change)
    }

    async fn node_support(&self, name: &str) -> Result<LocalSupport, Problem> {
        self.support_of(name).await
    }

    async fn alarms(&self, query: AlarmQuery) -> Result<AlarmList, Problem> {
        self.alarms_asked(query).await
    }

    async fn acknowledge_alarm(
        &self,
        id: u64,
        request: AlarmAcknowledge,
        by: String,
    ) -> Result<Alarm, Problem> {
        self.acknowledge(id, &request, &by).await
    }

    async fn alarm_kinds(&self) -> Result<AlarmKindList, Problem> {
        self.kinds_of_alarms().await
    }

    async fn change_alarm_kind(
        &self,
        kind: &str,
        change: impl Into<Conditional<Option<AlarmKindChange>>> + Send,
    ) -> Result<AlarmKind, Problem> {
        self.change_kind_of_alarm(kind, change.into()).await
    }

    async fn receivers(&self) -> Result<ReceiverList, Problem> {
        self.receivers_of_alarms().await
    }

    async fn put_receiver(
        &self,
        name: &str,
        request: impl Into<Conditional<ReceiverPut>> + Send,
    ) -> Result<Receiver, Problem> {
        let Conditional {
            request,
            precondition,
        } = request.into();
        self.set_receiver(name, &request, &precondition).await
    }

    async fn remove_receiver(&self, name: &str, precondition: Precondition) -> Result<(), Problem> {
        self.drop_receiver(name, &precondition).await
    }

    async fn test_receiver(&self, name: &str) -> Result<(), Problem> {
        self.try_receiver(name).await
    }

    async fn local_support(&self) -> Result<LocalSupport, Problem> {
        self.support_here().await
    }
}
