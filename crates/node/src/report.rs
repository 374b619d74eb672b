//! What the node tells its API about itself.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use holdfast_api::documents::{
    Astray, AwaitedCause, CacheUse, Device, JournalScrubs, ListedMember, LocalCondition,
    LocalJoining, LocalLacking, LocalMember, LocalMetadata, LocalReport, LocalScrub, LocalSession,
    LocalSlice, LocalStall, LocalSync, LocalVolume, MemberState, MendedBlocks, PathState,
    ProcessEnd, Rejected, ReplicaCondition, Room, SESSIONS_MAX, SessionParameters, Versions,
};
use holdfast_engine::{
    AccessState, Checked, Condition, NodeStatus, Rejection, ReplicaStatus, SessionStatus, Usage,
    VolumeStatus,
};
use holdfast_format::FORMAT_VERSION;
use holdfast_metadata::client::Status;
use holdfast_metadata::etcd::{self, ListedView, MemberView, MembersView};
use holdfast_model::{Incarnation, NodeId, PAGE_SIZE, SliceId, StoreId};
use holdfast_seal::KeyId;
use holdfast_wire::{WIRE_VERSION, WIRE_VERSION_MIN};
use tokio::sync::watch;

use crate::config::NodeConfig;
use crate::detached::Seen;
use crate::devices::Emptying;
use crate::history::Tails;
use crate::paths::Place;
use crate::rates::{Means, Rates};
use crate::{clock, devices, mending, stalls};

/// For how long there is no connection with the metadata before that is told: another server or member is tried in
/// moments. A connection on which nothing is heard ends after some seconds.
const AWAY_TOLD: Duration = Duration::from_secs(2);
/// Between two reports while a device is waited for: as often as the members of etcd are looked at. Nothing else changes.
const WAITING_EACH: Duration = Duration::from_secs(5);

/// What does not change while the node runs.
pub(crate) struct Reporter {
    node: u16,
    name: String,
    /// How the process before this one ended.
    before: Option<ProcessEnd>,
    /// It was told to stop.
    stopping: bool,
    /// Once it is registered: as which start, with which store.
    registered: Option<(Incarnation, StoreId)>,
    /// Where absent devices were.
    known: BTreeMap<u16, Place>,
    /// The device that is waited for before they are opened.
    awaited: Option<(String, AwaitedCause)>,
    /// When it was last due to report that.
    awaited_told: Option<Instant>,
    /// How it stands with the metadata, once there is a client of it.
    metadata: Option<watch::Receiver<Status>>,
    /// Since when there has been no connection with it, if there is none.
    away: Option<Instant>,
    /// How the members of etcd are, once somebody looks.
    members: Option<watch::Receiver<MembersView>>,
    /// How slow the devices are, once somebody measures.
    tails: Option<watch::Receiver<Tails>>,
    /// Reports that were made.
    made: u64,
    /// What joining replicas have, by slice and node.
    joining: Rates<(SliceId, NodeId)>,
    /// What those of each node were brought, in all slices.
    brought: Rates<NodeId>,
    /// What hosts have replicas do.
    work: Means<SliceId>,
    /// What has gone from the devices on which there is to be less, by their numbers.
    emptying: Emptying,
    /// Bad blocks that were replaced by other nodes'.
    mending: mending::Watch,
    /// The devices that were taken away while they are open.
    detached: watch::Receiver<Seen>,
    /// With which key secrets are opened, if there is one.
    secrets_key: Option<KeyId>,
}

/// What this program is, as a node tells it.
#[must_use]
pub fn versions() -> Versions {
    Versions {
        program: env!("CARGO_PKG_VERSION").to_owned(),
        protocol: WIRE_VERSION,
        protocol_min: WIRE_VERSION_MIN,
        format: FORMAT_VERSION,
    }
}

impl Reporter {
    /// `known` are the places of the node's devices, by their numbers, when it last ran.
    pub(crate) fn new(
        config: &NodeConfig,
        before: Option<ProcessEnd>,
        known: BTreeMap<u16, Place>,
        detached: watch::Receiver<Seen>,
    ) -> Self {
        Self {
            known,
            node: config.node.0,
            name: config.name.clone(),
            before,
            stopping: false,
            registered: None,
            awaited: None,
            awaited_told: None,
            metadata: None,
            away: None,
            members: None,
            tails: None,
            made: 0,
            joining: Rates::default(),
            brought: Rates::default(),
            work: Means::default(),
            emptying: Emptying::default(),
            mending: mending::Watch::default(),
            detached,
            secrets_key: None,
        }
    }

    /// This device is waited for before the devices are opened, or none any more. Whether a report is due: that is
    /// another one, or the metadata may be otherwise by now.
    pub(crate) fn waits_for(
        &mut self,
        now: Instant,
        device: Option<(&Path, AwaitedCause)>,
    ) -> bool {
        let awaited = device.map(|(path, cause)| (path.display().to_string(), cause));
        let last = self.awaited_told;
        let is_recent = last.is_some_and(|at| now.saturating_duration_since(at) < WAITING_EACH);
        if awaited == self.awaited && is_recent {
            return false;
        }
        self.awaited = awaited;
        self.awaited_told = Some(now);
        true
    }

    /// The node is registered, with these devices: this is which start of theirs it is.
    pub(crate) fn registered(&mut self, store: StoreId, incarnation: Incarnation) {
        self.registered = Some((incarnation, store));
    }

    /// From now on there is a client of the metadata, somebody looks at the members of etcd, and measures the devices; secrets are
    /// opened with this key.
    pub(crate) fn follow(
        &mut self,
        metadata: watch::Receiver<Status>,
        members: watch::Receiver<MembersView>,
        tails: watch::Receiver<Tails>,
        secrets_key: Option<KeyId>,
    ) {
        self.secrets_key = secrets_key;
        self.metadata = Some(metadata);
        self.members = Some(members);
        self.tails = Some(tails);
    }

    fn devices(&self, status: &NodeStatus, names: &[PathBuf]) -> Vec<Device> {
        let mut devices = devices::documents(
            &status.devices,
            names,
            &self.known,
            &self.emptying,
            &self.detached.borrow(),
        );
        if let Some(tails) = &self.tails {
            let tails = tails.borrow();
            for device in devices.iter_mut().filter(|it| !it.is_absent) {
                device.latency_p99_us = tails.get(&device.number).copied();
            }
        }
        devices
    }

    /// The node was told to stop: reports say so from now on.
    pub(crate) fn stops(&mut self) {
        self.stopping = true;
    }

    /// The report for this state of the engine; `names` has the paths of disks by their numbers.
    pub(crate) fn report(&mut self, status: &NodeStatus, names: &[PathBuf]) -> LocalReport {
        self.made += 1;
        self.note(Instant::now(), status);
        let metadata = metadata(status, self.is_away(Instant::now()));
        LocalReport {
            node: self.node,
            name: self.name.clone(),
            incarnation: self.registered.map_or(0, |(incarnation, _)| incarnation.0),
            store: {
                let registered = self.registered.as_ref();
                registered.map_or_else(String::new, |(_, store)| store.to_string())
            },
            versions: Some(versions()),
            process: std::process::id(),
            process_before: self.before,
            metadata_revision: status.known_through.0,
            number: self.made,
            stopping: self.stopping,
            open: status.open,
            awaited_device: self.awaited.as_ref().map(|(path, _)| path.clone()),
            awaited_cause: self.awaited.as_ref().map(|(_, cause)| *cause),
            room: room(&status.usage),
            volumes: status.volumes.iter().map(volume).collect(),
            slices: status.replicas.iter().map(|it| self.slice(it)).collect(),
            stalled: stalled(status),
            background_rate: status.background_rate,
            metadata,
            metadata_believed: metadata.is_believed(),
            astray: status.astray.map(|why| self.astray(why)),
            strangers: status.strangers.iter().map(|node| node.0).collect(),
            rejected: status.rejection.as_ref().map(rejected),
            metadata_full: self.metadata.as_ref().is_some_and(is_full),
            metadata_members: self.members.as_ref().map(members).unwrap_or_default(),
            metadata_listed: self.members.as_ref().map(listed).unwrap_or_default(),
            syncs: self.syncs(status),
            // Who steers knows.
            silent: Vec::new(),
            tells_of_loss: false,
            scrubbed: status.scrubbed.into(),
            table_copies_mended: status.usage.bad_copies,
            mending: self.mending.now(Instant::now()),
            mended: MendedBlocks {
                read: status.mended.read,
                known: status.mended.known,
                differing: status.mended.differing,
            },
            journal_scrubs: journal_scrubs(&status.usage.journal),
            cache: cache(&status.usage.cache),
            sessions: {
                let now = SystemTime::now();
                let sessions = status.sessions.iter().take(SESSIONS_MAX);
                sessions.map(|it| session(it, now)).collect()
            },
            provisioned_bytes: status.provisioned_bytes,
            brought_bytes: {
                let brought = status.brought.iter().map(|(_, bytes)| *bytes);
                brought.fold(0, u64::saturating_add)
            },
            devices: self.devices(status, names),
            secrets_key: self.secrets_key.map(|key| key.to_string()),
            secrets_form: self.secrets_key.map(|_| holdfast_seal::FORM),
            // Whoever is asked knows.
            vitals: None,
        }
    }

    fn astray(&self, why: holdfast_engine::Astray) -> Astray {
        Astray {
            why: why.to_string(),
            remedies: why.remedies(&self.name),
        }
    }

    /// Whether the metadata has not answered for a while. Who has registered is told nothing of that by the engine, which
    /// waits for what changes.
    fn is_away(&self, now: Instant) -> bool {
        let away = self.away;
        away.is_some_and(|since| now.saturating_duration_since(since) >= AWAY_TOLD)
    }

    fn note(&mut self, now: Instant, status: &NodeStatus) {
        let is_connected = self.metadata.as_ref().map(is_connected);
        self.away = match is_connected {
            Some(false) => self.away.or(Some(now)),
            _ => None,
        };
        let replicas = status.replicas.iter();
        let joining = replicas.flat_map(|replica| {
            let joining = replica.joining.iter();
            joining.map(|(node, progress)| ((replica.slice, *node), progress.bytes_done))
        });
        self.joining.note(now, joining);
        self.brought.note(now, status.brought.iter().copied());
        let work = status.replicas.iter();
        self.work
            .note(now, work.map(|replica| (replica.slice, replica.work)));
        self.emptying.note(now, &status.devices);
        self.mending.note(now, status.mended.bad());
    }

    fn syncs(&self, status: &NodeStatus) -> Vec<LocalSync> {
        let syncs = status.brought.iter().map(|(node, _)| LocalSync {
            node: node.0,
            bytes_per_second: self.brought.per_second(node),
        });
        syncs.filter(|sync| sync.bytes_per_second > 0).collect()
    }

    fn slice(&self, replica: &ReplicaStatus) -> LocalSlice {
        let joining = replica.joining.iter();
        let lacking = replica.lacking.iter();
        LocalSlice {
            volume: replica.slice.volume.0,
            index: replica.slice.index,
            epoch: replica.epoch.0,
            serving: replica.leads,
            used_bytes: replica.pages * PAGE_SIZE as u64,
            work_per_second: self.work.per_second(&replica.slice),
            bad_blocks: replica.bad_blocks,
            joining: joining
                .map(|(node, progress)| LocalJoining {
                    node: node.0,
                    bytes_done: progress.bytes_done,
                    bytes_total: progress.bytes_total,
                    bytes_moved: progress.bytes_moved,
                    bytes_per_second: self.joining.per_second(&(replica.slice, *node)),
                })
                .collect(),
            lacking: lacking
                .map(|(node, bytes)| LocalLacking {
                    node: node.0,
                    bytes: *bytes,
                })
                .collect(),
            condition: condition(&replica.condition),
            handed_ms: replica.handed.map(|it| it.as_millis() as u64),
            scrub: replica.scrub.map(|scrub| LocalScrub {
                round: scrub.round,
                findings: scrub.findings.into(),
            }),
        }
    }
}

fn rejected(rejection: &Rejection) -> Rejected {
    Rejected {
        why: rejection.reason(),
        remedies: rejection.remedies(),
    }
}

/// How it stands with the metadata; `is_away` if that has not answered for a while.
fn metadata(status: &NodeStatus, is_away: bool) -> LocalMetadata {
    if status.astray.is_some() {
        LocalMetadata::Behind
    } else if !is_away && (status.registered || status.rejection.is_some()) {
        LocalMetadata::Followed
    } else {
        LocalMetadata::Unreached
    }
}

fn members(view: &watch::Receiver<MembersView>) -> Vec<LocalMember> {
    let document = |view: &MemberView| LocalMember {
        endpoint: view.endpoint.address().to_owned(),
        state: state(view.state),
        member: view.member.map(number),
        tls: Some(view.endpoint.has_tls()),
    };
    view.borrow().configured.iter().map(document).collect()
}

fn state(state: etcd::MemberState) -> MemberState {
    match state {
        etcd::MemberState::Answers => MemberState::Answers,
        etcd::MemberState::Leaderless => MemberState::Leaderless,
        etcd::MemberState::Foreign => MemberState::Foreign,
        etcd::MemberState::Silent => MemberState::Silent,
    }
}

/// The number of a member of etcd, as etcd writes it.
fn number(member: u64) -> String {
    format!("{member:x}")
}

fn listed(view: &watch::Receiver<MembersView>) -> Vec<ListedMember> {
    let addresses = |urls: &[String]| urls.iter().map(|url| address(url)).collect();
    let document = |view: &ListedView| ListedMember {
        member: number(view.member.id),
        name: view.member.name.clone(),
        endpoints: addresses(&view.member.client_urls),
        peers: addresses(&view.member.peer_urls),
        votes: !view.member.is_learner,
        state: state(view.state),
    };
    view.borrow().listed.iter().map(document).collect()
}

/// `host:port` of a URL as etcd has them.
fn address(url: &str) -> String {
    let address = url.split_once("://").map_or(url, |(_, address)| address);
    address.trim_end_matches('/').to_owned()
}

fn is_connected(status: &watch::Receiver<Status>) -> bool {
    matches!(*status.borrow(), Status::Connected { .. })
}

fn is_full(status: &watch::Receiver<Status>) -> bool {
    matches!(*status.borrow(), Status::Connected { is_full: true, .. })
}

/// What there is to say of a replica that neither leads without ado nor follows.
fn condition(condition: &Condition) -> Option<LocalCondition> {
    use ReplicaCondition as What;
    let one = |node: &NodeId| vec![*node];
    let (what, nodes) = match condition {
        Condition::Leads | Condition::Follows(_) => return None,
        Condition::Stuck(nodes) => (What::Stuck, nodes.clone()),
        Condition::Begins(nodes) => (What::Begins, nodes.clone()),
        Condition::Queued => (What::Queued, Vec::new()),
        Condition::Asks(nodes) => (What::Asks, nodes.clone()),
        Condition::StandsBack(node) => (What::StandsBack, one(node)),
        Condition::Doubts(nodes) => (What::Doubts, nodes.clone()),
        Condition::Proposes => (What::Proposes, Vec::new()),
        Condition::Joins(node) => (What::Joins, one(node)),
        Condition::Offers(node) => (What::Offers, one(node)),
        Condition::NoRoom => (What::NoRoom, Vec::new()),
        Condition::Damaged => (What::Damaged, Vec::new()),
        Condition::Lacks => (What::Lacks, Vec::new()),
        Condition::OtherStore => (What::OtherStore, Vec::new()),
        Condition::Unnamed => (What::Unnamed, Vec::new()),
        Condition::Unrecorded => (What::Unrecorded, Vec::new()),
    };
    let nodes = nodes.into_iter().map(|node| node.0).collect();
    Some(LocalCondition { what, nodes })
}

fn stalled(status: &NodeStatus) -> Vec<LocalStall> {
    let (now, wall) = (clock::now(), SystemTime::now());
    let stalled = status.stalled.iter();
    stalled
        .map(|stall| stalls::local(stall, now, wall))
        .collect()
}

fn room(usage: &Usage) -> Room {
    Room {
        bytes: usage.pages * PAGE_SIZE as u64,
        used_bytes: usage.pages_taken() * PAGE_SIZE as u64,
    }
}

fn journal_scrubs(checked: &Checked) -> JournalScrubs {
    JournalScrubs {
        rounds: checked.rounds,
        bytes_read: checked.bytes,
        bad_segments: checked.rotten,
        mended_segments: checked.mended,
    }
}

fn cache(usage: &holdfast_store::CacheUse) -> CacheUse {
    CacheUse {
        hits: usage.hits,
        misses: usage.misses,
        ahead_used: usage.ahead_used,
        ahead_unused: usage.ahead_unused,
    }
}

fn volume(status: &VolumeStatus) -> LocalVolume {
    LocalVolume {
        volume: status.volume.0,
        name: status.name.clone(),
        serving: status.served,
        sessions: status.sessions,
        path: status.path.map(path),
    }
}

const fn path(state: AccessState) -> PathState {
    match state {
        AccessState::ActiveOptimized => PathState::ActiveOptimized,
        AccessState::ActiveNonOptimized => PathState::ActiveNonOptimized,
        AccessState::Standby => PathState::Standby,
        AccessState::Unavailable => PathState::Unavailable,
        AccessState::Offline => PathState::Offline,
        AccessState::Transitioning => PathState::Transitioning,
    }
}

/// A session that is as old as the engine says at this time.
fn session(status: &SessionStatus, now: SystemTime) -> LocalSession {
    let since = now.checked_sub(status.age);
    let since = since.and_then(|since| since.duration_since(SystemTime::UNIX_EPOCH).ok());
    let since_ms = since.map_or(0, |since| {
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    });
    let [a, b, c, d, e, f] = status.isid.0;
    let parameters = status.parameters;
    LocalSession {
        target: status.target.as_str().to_owned(),
        initiator: status.initiator.as_str().to_owned(),
        isid: format!("{a:02x}{b:02x}{c:02x}{d:02x}{e:02x}{f:02x}"),
        tsih: status.tsih.0,
        address: status.from.clone(),
        since_ms,
        commands: u32::try_from(status.commands).unwrap_or(u32::MAX),
        chap: status.is_proved,
        parameters: SessionParameters {
            header_digest: parameters.header_digest,
            data_digest: parameters.data_digest,
            burst_bytes_max: parameters.burst_max,
            first_burst_bytes_max: parameters.first_burst_max,
            segment_bytes_max: parameters.send_segment_max,
            initial_r2t: parameters.initial_r2t,
            immediate_data: parameters.immediate_data,
        },
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use holdfast_metadata::client::ConnectError;
    use holdfast_metadata::etcd::EtcdMember;

    use super::*;
    use crate::detached;

    const CONFIG: &str = r#"
        cluster = "0123456789abcdef0123456789abcdef"
        node = 1
        name = "n1"
        directory = "/n1"
        portal = { listen = "127.0.0.1:1" }
        peers = { listen = "127.0.0.1:2" }
        api = { listen = "127.0.0.1:3" }
        metadata = { addresses = ["127.0.0.1:4"] }
        devices = [{ path = "/n1/device", file_bytes = 1073741824 }]
    "#;

    fn connected() -> Status {
        Status::Connected {
            address: "127.0.0.1:4".to_owned(),
            is_full: false,
        }
    }

    fn away() -> Status {
        Status::Disconnected {
            address: "127.0.0.1:4".to_owned(),
            reason: Arc::new(ConnectError::TooSlow),
        }
    }

    /// The engine waits for what changes, and hears of nothing.
    #[test]
    fn a_metadata_that_does_not_answer_is_told_after_a_while() {
        let config: NodeConfig = toml::from_str(CONFIG).unwrap();
        let mut reporter = Reporter::new(&config, None, BTreeMap::new(), detached::watch().0.seen);
        let (status, told) = watch::channel(connected());
        let (_members, members) = watch::channel(MembersView::default());
        let (_tails, tails) = watch::channel(Tails::new());
        reporter.follow(told, members, tails, None);
        let start = Instant::now();
        let follows = NodeStatus {
            registered: true,
            ..NodeStatus::default()
        };
        let mut at = |milliseconds, now: &Status, node: &NodeStatus| {
            status.send_replace(now.clone());
            let now = start + Duration::from_millis(milliseconds);
            reporter.note(now, node);
            metadata(node, reporter.is_away(now))
        };
        assert_eq!(at(0, &connected(), &follows), LocalMetadata::Followed);
        assert_eq!(at(1000, &away(), &follows), LocalMetadata::Followed);
        // Each address that is tried is no news.
        assert_eq!(at(2900, &away(), &follows), LocalMetadata::Followed);
        assert_eq!(at(3000, &away(), &follows), LocalMetadata::Unreached);
        let astray = NodeStatus {
            astray: Some(holdfast_engine::Astray::NoCluster),
            strangers: vec![NodeId(2)],
            ..follows.clone()
        };
        assert_eq!(at(3500, &away(), &astray), LocalMetadata::Behind);
        assert_eq!(at(4000, &connected(), &follows), LocalMetadata::Followed);
        assert_eq!(at(4500, &away(), &follows), LocalMetadata::Followed);
        let told = reporter.report(&astray, &[]);
        assert_eq!(told.metadata_believed, Some(false));
        assert_eq!(told.strangers, [2]);
        let told = told.astray.unwrap();
        assert_eq!(told.why, "it has no record of the cluster");
        assert!(told.remedies[0].ends_with("in the configuration of n1 are right"));
    }

    /// However long it waits, what it tells of the metadata is no older than some seconds.
    #[test]
    fn a_node_that_waits_for_a_device_tells_of_the_metadata_meanwhile() {
        let config: NodeConfig = toml::from_str(CONFIG).unwrap();
        let mut reporter = Reporter::new(&config, None, BTreeMap::new(), detached::watch().0.seen);
        let (status, told) = watch::channel(connected());
        let (views, members) = watch::channel(MembersView::default());
        let (_tails, tails) = watch::channel(Tails::new());
        reporter.follow(told, members, tails, None);
        let (start, device) = (Instant::now(), Path::new("/n1/device"));
        let mut at = |milliseconds, cause| {
            let now = start + Duration::from_millis(milliseconds);
            let is_due = reporter.waits_for(now, cause);
            is_due.then(|| reporter.report(&NodeStatus::default(), &[]))
        };
        let needed = Some((device, AwaitedCause::Needed));
        let first = at(0, needed).expect("it is news");
        assert_eq!(first.awaited_cause, Some(AwaitedCause::Needed));
        assert!(!first.metadata_full && first.metadata_listed.is_empty());
        let member = EtcdMember {
            id: 7,
            name: "n1".to_owned(),
            peer_urls: Vec::new(),
            client_urls: Vec::new(),
            is_learner: false,
        };
        let view = ListedView {
            member,
            state: etcd::MemberState::Answers,
        };
        let configured = MemberView {
            endpoint: "https://192.0.2.1:2379".parse().unwrap(),
            state: etcd::MemberState::Answers,
            member: Some(7),
        };
        views.send_modify(|views| {
            views.listed.push(view);
            views.configured.push(configured);
        });
        status.send_replace(Status::Connected {
            address: "127.0.0.1:4".to_owned(),
            is_full: true,
        });
        assert_eq!(at(4800, needed), None);
        let second = at(5000, needed).expect("some time has passed");
        assert!(second.metadata_full && second.metadata_listed.len() == 1);
        assert_eq!(second.metadata_members[0].tls, Some(true));
        assert_eq!(at(9800, needed), None);
        let failed = at(9900, Some((device, AwaitedCause::Failed)));
        assert_eq!(failed.unwrap().awaited_cause, Some(AwaitedCause::Failed));
        let over = at(10_000, None).expect("it is over");
        assert_eq!((over.awaited_device, over.number), (None, 4));
    }
}
