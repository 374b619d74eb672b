//! A cluster of real processes on this machine, its metadata in the test's own process.
//!
//! A node is this test's own program, started again: the test `daemon::a_node` runs one if it is told
//! where its configuration is.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

use holdfast_api::documents::{
    Created, DeviceChange, DeviceList, LocalReport, LocalStalls, LocalSupport, LocalTraffic,
    LogChange, LogLevels, NodeList, StallList, StallQuery, Status, Volume, VolumeCreate,
    VolumeDelete, VolumeGrow, VolumeList,
};
use holdfast_api::{
    Api, ApiClient, Conditional, Keyed, Precondition, Problem, ProblemKind, Upkeep as _,
};
use holdfast_control::{Inventory, Seen, VolumeName, VolumeSize};
use holdfast_metadata::server::{Door, serve};
use holdfast_metadata::suite::User;
use holdfast_metadata::{Embedded, HistoryLimits, Store};
use holdfast_model::metadata::{
    LeaseId, MetadataAnswer, MetadataRequest, Operation, Transaction, TransactionOutcome,
};
use holdfast_model::record::{CLUSTER_KEY, ClusterRecord, Record};
use holdfast_model::{ClusterId, Incarnation, NodeId, Policy, Tier, VolumeId};
use holdfast_node::ApiParts;
use holdfast_node::config::{
    CacheConfig, DeviceConfig, DiskDriver, Endpoint, HistoryConfig, LogConfig, MetadataConfig,
    NodeConfig, SecurityConfig,
};
use rustix::process::{Pid, Signal, kill_process};
use tokio::runtime::{Builder, Runtime};

pub(crate) const CLUSTER: ClusterId = ClusterId(0xC);
/// Where a test tells its own program which node to be.
pub(crate) const CONFIG_VARIABLE: &str = "HOLDFAST_TEST_NODE";
/// Longer than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
const DEVICE_BYTES: u64 = 2 << 30;

/// The metadata, and a place for nodes.
pub(crate) struct Bench {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) metadata: SocketAddr,
    runtime: Runtime,
    store: Arc<Embedded>,
}

impl Bench {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let directory = folder.path().join("metadata");
        let limits = HistoryLimits::default();
        let store = Arc::new(Embedded::open(&directory, CLUSTER, limits).unwrap());
        let served: Arc<dyn Store> = store.clone();
        let listener = runtime
            .block_on(tokio::net::TcpListener::bind("127.0.0.1:0"))
            .unwrap();
        let metadata = listener.local_addr().unwrap();
        runtime.spawn(async move {
            serve(listener, served, Door::new(CLUSTER, "")).await;
        });
        let bench = Self {
            folder,
            metadata,
            runtime,
            store,
        };
        let cluster = ClusterRecord {
            schema: 1,
            cluster: CLUSTER,
            next_volume: VolumeId(1),
            recoveries: 0,
            incarnation_floor: Incarnation::ZERO,
        };
        bench.transact(Transaction {
            success: vec![Operation::Put {
                key: CLUSTER_KEY.into(),
                value: cluster.encode(),
                lease: LeaseId(0),
            }],
            ..Transaction::default()
        });
        bench
    }

    pub(crate) fn transact(&self, transaction: Transaction) -> TransactionOutcome {
        let session = self.store.session();
        self.runtime.block_on(async {
            let request = MetadataRequest::Transact(transaction);
            match User::new(session).ask(request).await {
                MetadataAnswer::Transacted(outcome) => outcome,
                other => panic!("{other:?}"),
            }
        })
    }

    pub(crate) fn inventory(&self) -> Inventory {
        Inventory::from_outcome(self.transact(Inventory::query())).unwrap()
    }

    pub(crate) fn create_volume(&self, name: &str, bytes: u64, policy: Policy) {
        let name: VolumeName = name.parse().unwrap();
        let size = VolumeSize::new(bytes).unwrap();
        let plan = holdfast_control::create(
            &self.inventory(),
            |_| {
                Some(Seen {
                    bytes: 1 << 30,
                    free_bytes: 1 << 30,
                    ..Seen::default()
                })
            },
            &name,
            size,
            policy,
        )
        .unwrap();
        for transaction in plan.transactions {
            assert!(self.transact(transaction).succeeded);
        }
    }

    /// A node's configuration, on ports that are free now.
    pub(crate) fn config(&self, node: u16) -> NodeConfig {
        let directory = self.folder.path().join(format!("n{node}"));
        NodeConfig {
            cluster: CLUSTER,
            node: NodeId(node),
            name: format!("n{node}"),
            failure_domain: None,
            portal: free_endpoint(),
            peers: free_endpoint(),
            api: free_endpoint(),
            metadata: MetadataConfig {
                addresses: vec![self.metadata.to_string()],
                ..MetadataConfig::default()
            },
            etcd: None,
            security: SecurityConfig {
                directory: None,
                off: true,
            },
            oidc: None,
            disk_driver: DiskDriver::Auto,
            devices: vec![DeviceConfig {
                path: directory.join("device"),
                file_bytes: Some(DEVICE_BYTES),
                preallocate: false,
                tier: Tier::Flash,
            }],
            cache: CacheConfig::default(),
            history: HistoryConfig::default(),
            log: LogConfig::default(),
            directory,
        }
    }

    /// Starts a node, and waits until it is registered as started after `incarnation`.
    pub(crate) fn start(&self, config: &NodeConfig, incarnation: u64) -> Node {
        let node = Node::spawn(self.folder.path(), config);
        self.wait_for("the node to register", || {
            let nodes = self.inventory().nodes;
            let record = nodes.get(&config.node)?;
            (record.incarnation.0 > incarnation).then_some(())
        });
        // It is registered before it lets its peers in, and says which start it is after that.
        self.wait_for("the node to let its peers in", || {
            let report = self.report(config)?;
            (report.incarnation > incarnation).then_some(())
        });
        node
    }

    pub(crate) fn report(&self, config: &NodeConfig) -> Option<LocalReport> {
        let url = format!("http://{}", config.api.listen).parse().unwrap();
        let client = ApiClient::new(vec![url], None);
        self.runtime.block_on(client.local()).ok()
    }

    /// What a host does.
    pub(crate) fn wait_on<T>(&self, host: impl Future<Output = T>) -> T {
        self.runtime.block_on(host)
    }

    /// What hosts did at the node's portal in the last seconds.
    pub(crate) fn traffic(&self, config: &NodeConfig) -> Option<LocalTraffic> {
        let url = format!("http://{}", config.api.listen).parse().unwrap();
        let client = ApiClient::new(vec![url], None);
        self.runtime.block_on(client.local_traffic()).ok()
    }

    /// Waits until the node's portal serves so many volumes whole.
    pub(crate) fn wait_serving(&self, config: &NodeConfig, count: usize) {
        self.wait_for("the volumes to be served", || {
            let report = self.report(config)?;
            let serving = report.volumes.iter().filter(|volume| volume.serving);
            (serving.count() == count).then_some(())
        });
    }

    pub(crate) fn wait_for<T>(&self, what: &str, mut done: impl FnMut() -> Option<T>) -> T {
        let begun = Instant::now();
        loop {
            if let Some(value) = done() {
                return value;
            }
            assert!(begun.elapsed() < PATIENCE, "waited too long for {what}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Nobody listens there. The port is below those that the kernel gives to outgoing connections: one of
/// these could take it before it is used. Tests of other packages have other ports.
fn free_endpoint() -> Endpoint {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let start = (std::process::id() as u16).wrapping_mul(97);
    loop {
        let turn = start.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed));
        let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, 10_000 + turn % 4_000));
        if TcpListener::bind(listen).is_ok() {
            return Endpoint {
                listen,
                advertise: None,
            };
        }
    }
}

/// A node's process; killed when dropped.
pub(crate) struct Node {
    child: Child,
    pub(crate) log: PathBuf,
}

impl Node {
    pub(crate) fn spawn(folder: &Path, config: &NodeConfig) -> Self {
        let path = folder.join(format!("{}.toml", config.name));
        fs::write(&path, config.to_toml()).unwrap();
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "daemon::a_node", "--nocapture", "--quiet"])
            .env(CONFIG_VARIABLE, &path)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        Self {
            child,
            log: config.directory.join(holdfast_node::LOG_FILE),
        }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Waits until it ends.
    pub(crate) fn ended(&mut self) -> ExitStatus {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(begun.elapsed() < PATIENCE, "the node does not end");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    pub(crate) fn logged(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// An API that tells what the node knows, and nothing else.
pub(crate) struct LocalApi(pub(crate) ApiParts);

fn elsewhere<T>() -> Result<T, Problem> {
    Err(Problem::new(ProblemKind::Other, "not in this test"))
}

impl Api for LocalApi {
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
        elsewhere()
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
        let _ = query;
        elsewhere()
    }

    async fn status(&self) -> Result<Status, Problem> {
        elsewhere()
    }

    async fn explain(&self) -> Result<holdfast_api::documents::Explanation, Problem> {
        elsewhere()
    }

    async fn nodes(&self) -> Result<NodeList, Problem> {
        elsewhere()
    }

    async fn node(&self, _: &str) -> Result<holdfast_api::documents::NodeDetails, Problem> {
        elsewhere()
    }
    async fn change_node(
        &self,
        _: &str,
        _: impl Into<Conditional<holdfast_api::documents::NodeChange>> + Send,
    ) -> Result<holdfast_api::documents::Node, Problem> {
        elsewhere()
    }
    async fn remove_node(&self, _: &str, _: Precondition) -> Result<(), Problem> {
        elsewhere()
    }
    async fn devices(&self, _: &str) -> Result<DeviceList, Problem> {
        elsewhere()
    }
    async fn change_devices(&self, _: &str, _: DeviceChange) -> Result<DeviceList, Problem> {
        elsewhere()
    }
    async fn change_local_devices(&self, change: DeviceChange) -> Result<DeviceList, Problem> {
        self.0.devices.change(change).await
    }
    async fn settings(&self) -> Result<holdfast_api::documents::Settings, Problem> {
        elsewhere()
    }
    async fn change_settings(
        &self,
        _: impl Into<Conditional<holdfast_api::documents::SettingsChange>> + Send,
    ) -> Result<holdfast_api::documents::Settings, Problem> {
        elsewhere()
    }
    async fn volumes(&self) -> Result<VolumeList, Problem> {
        elsewhere()
    }

    async fn volume(&self, _name: &str) -> Result<Volume, Problem> {
        elsewhere()
    }

    async fn create_volume(
        &self,
        _request: impl Into<Keyed<VolumeCreate>> + Send,
    ) -> Result<Created, Problem> {
        elsewhere()
    }

    async fn grow_volume(
        &self,
        _name: &str,
        _request: impl Into<Conditional<VolumeGrow>> + Send,
    ) -> Result<Volume, Problem> {
        elsewhere()
    }

    async fn delete_volume(
        &self,
        _name: &str,
        _how: impl Into<Conditional<VolumeDelete>> + Send,
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
    async fn scrub_volume(&self, _name: &str) -> Result<Volume, Problem> {
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
        _: holdfast_api::documents::EventQuery,
    ) -> Result<holdfast_api::documents::LocalEvents, Problem> {
        elsewhere()
    }

    async fn local_event_state(&self) -> Result<holdfast_api::documents::LocalEventState, Problem> {
        elsewhere()
    }

    async fn events(&self, _: Option<&str>) -> Result<holdfast_api::events::Listener, Problem> {
        elsewhere()
    }

    async fn local(&self) -> Result<LocalReport, Problem> {
        Ok(self.0.report.borrow().clone())
    }

    async fn stalls(&self, _: Option<&str>, _: StallQuery) -> Result<StallList, Problem> {
        elsewhere()
    }

    async fn local_stalls(&self, _: StallQuery) -> Result<LocalStalls, Problem> {
        Ok(LocalStalls {
            stalls: self.0.stalls.borrow().iter().cloned().collect(),
            ..LocalStalls::default()
        })
    }

    async fn history(
        &self,
        _: holdfast_api::documents::HistoryOf,
        _: holdfast_api::documents::HistoryQuery,
    ) -> Result<holdfast_api::documents::History, Problem> {
        elsewhere()
    }

    async fn local_history(
        &self,
        subject: holdfast_api::documents::HistorySubject,
        query: holdfast_api::documents::LocalHistoryQuery,
    ) -> Result<holdfast_api::documents::LocalHistory, Problem> {
        self.0.history.ask(subject, query).await
    }

    async fn traffic(&self) -> Result<holdfast_api::documents::Traffic, Problem> {
        elsewhere()
    }

    async fn local_traffic(&self) -> Result<LocalTraffic, Problem> {
        self.0.history.traffic().await
    }

    async fn metrics(&self) -> Result<String, Problem> {
        Ok(self.0.metrics.text(&self.0.report.borrow()))
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
        Ok(self.0.upkeep.log())
    }

    async fn change_local_log(&self, change: LogChange) -> Result<LogLevels, Problem> {
        Ok(self.0.upkeep.change_log(&change))
    }

    async fn local_support(&self) -> Result<LocalSupport, Problem> {
        Ok(self.0.upkeep.support())
    }
}
