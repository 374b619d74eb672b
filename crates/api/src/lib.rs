//! The REST interface of a cluster, under `/api/v1`: its documents, the router that every node and
//! the demo's parent serve, the client that the command line uses, and the OpenAPI document that
//! describes it all.
//!
//! It refuses to know where answers come from: whoever serves it implements [`Api`].
//!
//! Invariants:
//! - what version 1 has once said it says for ever: fields are added, never changed or removed;
//! - every error is a problem document (RFC 9457) that says what to do about it.
#![forbid(unsafe_code)]

use std::future::Future;

pub mod client;
mod cursor;
pub mod documents;
pub mod events;
mod idempotency;
mod identities;
mod peer;
mod precondition;
mod problem;
pub mod redaction;
mod router;
pub mod server;
mod strict;
pub mod trace;
mod upkeep;

pub use client::{ApiClient, ClientError};
pub use idempotency::{IdempotencyKey, Keyed};
pub use identities::{
    Answer, BroughtBack, Door, Identities, LoggedIn, LoginAnswer, LoginFault, LoginRefused,
    SentAway, Shown, UserMade,
};
pub use peer::Peer;
pub use precondition::{Conditional, EntityTag, Precondition};
pub use problem::{Problem, ProblemKind};
pub use router::{openapi, router};
pub use upkeep::Upkeep;

use documents::{
    AccessChange, Alarm, AlarmAcknowledge, AlarmKind, AlarmKindChange, AlarmKindList, AlarmList,
    AlarmQuery, Created, DeviceChange, DeviceList, EventList, EventQuery, Explanation, History,
    HistoryOf, HistoryQuery, HistorySubject, Initiator, InitiatorList, InitiatorPut, LocalCluster,
    LocalEventState, LocalEvents, LocalHistory, LocalHistoryQuery, LocalReport, LocalRetention,
    LocalSessionQuery, LocalSessions, LocalStalls, LocalSupport, LocalTraffic, LogChange,
    LogLevels, Node, NodeChange, NodeDetails, NodeList, Receiver, ReceiverList, ReceiverPut,
    Reservations, Retention, RetentionChange, SessionList, Settings, SettingsChange, StallList,
    StallQuery, Status, TargetSessionList, Task, Traffic, Volume, VolumeCreate, VolumeDelete,
    VolumeGrow, VolumeList,
};

use events::Listener;

/// What answers.
///
/// What is to be done under a condition is done under it: a change is made in the same step in which it is seen to
/// hold, or not at all, with [`ProblemKind::PreconditionFailed`].
pub trait Api: Send + Sync + 'static {
    /// How the cluster is.
    fn status(&self) -> impl Future<Output = Result<Status, Problem>> + Send;

    /// Why the cluster is not healthy, what that waits for, and what an operator may do.
    fn explain(&self) -> impl Future<Output = Result<Explanation, Problem>> + Send;

    /// The nodes, by their number.
    fn nodes(&self) -> impl Future<Output = Result<NodeList, Problem>> + Send;

    /// A node, and what is on it.
    fn node(&self, name: &str) -> impl Future<Output = Result<NodeDetails, Problem>> + Send;

    /// Does what an operator wants of a node; [`ProblemKind::Refused`] with the reason.
    fn change_node(
        &self,
        name: &str,
        change: impl Into<Conditional<NodeChange>> + Send,
    ) -> impl Future<Output = Result<Node, Problem>> + Send;

    /// Removes a node on which nothing is from the cluster; [`ProblemKind::Refused`] with the reason.
    fn remove_node(
        &self,
        name: &str,
        precondition: Precondition,
    ) -> impl Future<Output = Result<(), Problem>> + Send;

    /// The devices of a node.
    fn devices(&self, name: &str) -> impl Future<Output = Result<DeviceList, Problem>> + Send;

    /// Adds a device to a node, drains one or removes one; [`ProblemKind::Refused`] with the reason.
    fn change_devices(
        &self,
        name: &str,
        change: DeviceChange,
    ) -> impl Future<Output = Result<DeviceList, Problem>> + Send;

    /// The same, at the node behind this interface; [`ProblemKind::NoNode`] if there is none.
    fn change_local_devices(
        &self,
        change: DeviceChange,
    ) -> impl Future<Output = Result<DeviceList, Problem>> + Send;

    /// The settings.
    fn settings(&self) -> impl Future<Output = Result<Settings, Problem>> + Send;

    /// Changes settings. They are in effect at once.
    fn change_settings(
        &self,
        change: impl Into<Conditional<SettingsChange>> + Send,
    ) -> impl Future<Output = Result<Settings, Problem>> + Send;

    /// What nodes keep of what they put down.
    fn retention(&self) -> impl Future<Output = Result<Retention, Problem>> + Send;

    /// Changes how much that may be. Nodes follow while they run.
    fn change_retention(
        &self,
        change: impl Into<Conditional<RetentionChange>> + Send,
    ) -> impl Future<Output = Result<Retention, Problem>> + Send;

    /// What the node behind this interface keeps; [`ProblemKind::NoNode`] if there is none.
    fn local_retention(&self) -> impl Future<Output = Result<LocalRetention, Problem>> + Send;

    /// The volumes, by name.
    fn volumes(&self) -> impl Future<Output = Result<VolumeList, Problem>> + Send;

    /// A volume.
    fn volume(&self, name: &str) -> impl Future<Output = Result<Volume, Problem>> + Send;

    /// Makes a volume. One that exists already, with the same size and policy, is nothing new. With a key its repetition is
    /// answered as it was, whatever has become of the volume's size and policy; [`ProblemKind::KeyReused`] if it is another one.
    fn create_volume(
        &self,
        request: impl Into<Keyed<VolumeCreate>> + Send,
    ) -> impl Future<Output = Result<Created, Problem>> + Send;

    /// Gives a volume more bytes.
    fn grow_volume(
        &self,
        name: &str,
        request: impl Into<Conditional<VolumeGrow>> + Send,
    ) -> impl Future<Output = Result<Volume, Problem>> + Send;

    /// Deletes a volume with all its data; [`ProblemKind::VolumeInUse`] if initiators have sessions
    /// with its target, and it is not to be forced.
    fn delete_volume(
        &self,
        name: &str,
        how: impl Into<Conditional<VolumeDelete>> + Send,
    ) -> impl Future<Output = Result<(), Problem>> + Send;

    /// The initiators that are on record, by name.
    fn initiators(&self) -> impl Future<Output = Result<InitiatorList, Problem>> + Send;

    /// An initiator that is on record.
    fn initiator(&self, name: &str) -> impl Future<Output = Result<Initiator, Problem>> + Send;

    /// Puts an initiator on record, or what is on record of it anew.
    fn put_initiator(
        &self,
        name: &str,
        request: impl Into<Conditional<InitiatorPut>> + Send,
    ) -> impl Future<Output = Result<Initiator, Problem>> + Send;

    /// Forgets an initiator; [`ProblemKind::Refused`] while volumes list it.
    fn remove_initiator(
        &self,
        name: &str,
        precondition: Precondition,
    ) -> impl Future<Output = Result<(), Problem>> + Send;

    /// Changes whom a volume is for. That is in effect at once, for sessions that there are as well.
    fn change_access(
        &self,
        name: &str,
        change: impl Into<Conditional<AccessChange>> + Send,
    ) -> impl Future<Output = Result<Volume, Problem>> + Send;

    /// Begins to read all of a volume and to compare its replicas, unless that is under way.
    fn scrub_volume(&self, name: &str) -> impl Future<Output = Result<Volume, Problem>> + Send;

    /// Long work under way, by its ids.
    fn tasks(&self) -> impl Future<Output = Result<Vec<Task>, Problem>> + Send;

    /// One of it.
    fn task(&self, id: &str) -> impl Future<Output = Result<Task, Problem>> + Send;

    /// Calls one off; [`ProblemKind::Refused`] with the reason where that cannot be.
    fn cancel_task(&self, id: &str) -> impl Future<Output = Result<(), Problem>> + Send;

    /// What changes from now on, after what was missed since `last`, the id of an event; [`ProblemKind::Busy`] if too many
    /// listen.
    fn events(&self, last: Option<&str>) -> impl Future<Output = Result<Listener, Problem>> + Send;

    /// What happened, as the logs of all nodes that answer have it: the newest first.
    fn event_log(
        &self,
        query: EventQuery,
    ) -> impl Future<Output = Result<EventList, Problem>> + Send;

    /// The same, as the log of the node behind this interface has it; [`ProblemKind::NoNode`] if there is none.
    fn local_events(
        &self,
        query: EventQuery,
    ) -> impl Future<Output = Result<LocalEvents, Problem>> + Send;

    /// How everything was when something was last put into that log; [`ProblemKind::NoNode`] if there is none.
    fn local_event_state(&self) -> impl Future<Output = Result<LocalEventState, Problem>> + Send;

    /// What the node behind this interface knows by itself; [`ProblemKind::NoNode`] if there is
    /// none.
    fn local(&self) -> impl Future<Output = Result<LocalReport, Problem>> + Send;

    /// What is known of the cluster without the metadata; [`ProblemKind::NoNode`] if nothing is.
    fn local_cluster(&self) -> impl Future<Output = Result<LocalCluster, Problem>> + Send;

    /// The stalls of a volume, or of all volumes, at all portals: the newest first.
    fn stalls(
        &self,
        volume: Option<&str>,
        query: StallQuery,
    ) -> impl Future<Output = Result<StallList, Problem>> + Send;

    /// The stalls that the node behind this interface keeps; [`ProblemKind::NoNode`] if there is none.
    fn local_stalls(
        &self,
        query: StallQuery,
    ) -> impl Future<Output = Result<LocalStalls, Problem>> + Send;

    /// The sessions with all targets, at all nodes that answer.
    fn sessions(&self) -> impl Future<Output = Result<TargetSessionList, Problem>> + Send;

    /// The sessions that are paths to a volume, at all nodes that answer.
    fn volume_sessions(
        &self,
        name: &str,
    ) -> impl Future<Output = Result<SessionList, Problem>> + Send;

    /// The sessions of an initiator, on record or not, as paths to volumes.
    fn initiator_sessions(
        &self,
        name: &str,
    ) -> impl Future<Output = Result<SessionList, Problem>> + Send;

    /// The sessions with the node behind this interface; [`ProblemKind::NoNode`] if there is none.
    fn local_sessions(
        &self,
        query: LocalSessionQuery,
    ) -> impl Future<Output = Result<LocalSessions, Problem>> + Send;

    /// The persistent reservations of a volume.
    fn reservations(
        &self,
        name: &str,
    ) -> impl Future<Output = Result<Reservations, Problem>> + Send;

    /// What was measured, at all nodes that answer.
    fn history(
        &self,
        of: HistoryOf,
        query: HistoryQuery,
    ) -> impl Future<Output = Result<History, Problem>> + Send;

    /// What the node behind this interface has measured of the subject that the query names; [`ProblemKind::NoNode`] if there is
    /// none.
    fn local_history(
        &self,
        subject: HistorySubject,
        query: LocalHistoryQuery,
    ) -> impl Future<Output = Result<LocalHistory, Problem>> + Send;

    /// What hosts did with each volume in the last few seconds, at all nodes that answer.
    fn traffic(&self) -> impl Future<Output = Result<Traffic, Problem>> + Send;

    /// What they did at the portal of the node behind this interface; [`ProblemKind::NoNode`] if there is none.
    fn local_traffic(&self) -> impl Future<Output = Result<LocalTraffic, Problem>> + Send;

    /// The metrics of the node behind this interface, in the text format of Prometheus (OpenMetrics);
    /// [`ProblemKind::NoNode`] if there is none.
    fn metrics(&self) -> impl Future<Output = Result<String, Problem>> + Send;

    /// What a node writes into its log.
    fn node_log(&self, name: &str) -> impl Future<Output = Result<LogLevels, Problem>> + Send;

    /// Has a node write more into its log, or less, for a time.
    fn change_node_log(
        &self,
        name: &str,
        change: LogChange,
    ) -> impl Future<Output = Result<LogLevels, Problem>> + Send;

    /// What the node behind this interface writes into its log; [`ProblemKind::NoNode`] if there is none.
    fn local_log(&self) -> impl Future<Output = Result<LogLevels, Problem>> + Send;

    /// Has it write more, or less, for a time.
    fn change_local_log(
        &self,
        change: LogChange,
    ) -> impl Future<Output = Result<LogLevels, Problem>> + Send;

    /// What a node has for whoever looks into something, without secrets.
    fn node_support(
        &self,
        name: &str,
    ) -> impl Future<Output = Result<LocalSupport, Problem>> + Send;

    /// The alarms.
    fn alarms(&self, query: AlarmQuery) -> impl Future<Output = Result<AlarmList, Problem>> + Send;

    /// Takes note of an alarm, in somebody's name; [`ProblemKind::NoSuchAlarm`] if it does not last.
    fn acknowledge_alarm(
        &self,
        id: u64,
        request: AlarmAcknowledge,
        by: String,
    ) -> impl Future<Output = Result<Alarm, Problem>> + Send;

    /// The kinds of alarms, and when they are raised.
    fn alarm_kinds(&self) -> impl Future<Output = Result<AlarmKindList, Problem>> + Send;

    /// Changes when alarms of a kind are raised; without a change, it is as if nobody had.
    fn change_alarm_kind(
        &self,
        kind: &str,
        change: impl Into<Conditional<Option<AlarmKindChange>>> + Send,
    ) -> impl Future<Output = Result<AlarmKind, Problem>> + Send;

    /// Those who are told of alarms.
    fn receivers(&self) -> impl Future<Output = Result<ReceiverList, Problem>> + Send;

    /// Has somebody told of alarms, from now on.
    fn put_receiver(
        &self,
        name: &str,
        request: impl Into<Conditional<ReceiverPut>> + Send,
    ) -> impl Future<Output = Result<Receiver, Problem>> + Send;

    /// Has somebody told of alarms no more.
    fn remove_receiver(
        &self,
        name: &str,
        precondition: Precondition,
    ) -> impl Future<Output = Result<(), Problem>> + Send;

    /// Tells a receiver of an alarm that is none, now; [`ProblemKind::Undelivered`] with the reason if that cannot be.
    fn test_receiver(&self, name: &str) -> impl Future<Output = Result<(), Problem>> + Send;

    /// The same, of the node behind this interface; [`ProblemKind::NoNode`] if there is none.
    fn local_support(&self) -> impl Future<Output = Result<LocalSupport, Problem>> + Send;
}
