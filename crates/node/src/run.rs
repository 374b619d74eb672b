//! From a configuration to a node that runs.
//!
//! Invariant: what can be refused is refused before the devices are touched, and in the order in
//! which a person would mend it.

use std::net::SocketAddr;
use std::panic::resume_unwind;
use std::path::Path;

use holdfast_api::documents::{AwaitedCause, ProcessEnd};
use holdfast_api::{Api, Door, server};
use holdfast_disk::Disks;
use holdfast_engine::{Engine, EngineConfig, HOLD, NodeStatus, Output, TAKEOVERS_MAX};
use holdfast_iscsi::chap::ChapSeed;
use holdfast_iscsi::target::Limits;
use holdfast_model::{DiskId, StoreId};
use holdfast_net::{Listener, Network, NetworkConfig};
use holdfast_store::{StoreConfig, StoreIdentity};
use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::alarm::Alarm;
use crate::attention::Attention;
use crate::bad_blocks::BadBlocks;
use crate::config::{DeviceConfig, Invalid, LogConfig, NodeConfig};
use crate::departures::Departures;
use crate::detached;
use crate::devices::{self, DeviceDesk};
use crate::directory::{ClaimError, Directory};
use crate::disbelief::Disbelief;
use crate::error::NodeError;
use crate::etcd::Supervisor;
use crate::history::Measuring;
use crate::logging::{self, Log, LogDesk};
use crate::machine;
use crate::member;
use crate::metrics::Metrics;
use crate::opening::{self, Opened};
use crate::paths::Paths;
use crate::predecessor;
use crate::reactor::{Names, Reactor};
use crate::report::Reporter;
use crate::room::RoomWatch;
use crate::security::Security;
use crate::services::{ApiParts, Services};
use crate::signals::Signals;
use crate::{clock, limits};

/// The log in a node's directory.
pub const LOG_FILE: &str = "node.log";
/// Connections of peers: both lanes of the other nodes of a cluster of 64, and as many that are
/// being made.
const PEER_CONNECTIONS_MAX: usize = 4 * 64;

/// Runs a node until it is told to stop, by SIGTERM or SIGINT, and beside it a member of etcd, where the section
/// `[etcd]` has one for this machine. `make_api` makes what answers at its API, and what stands in front of it; it is called once, on another thread.
///
/// # Errors
/// [`NodeError`] if it cannot start, or does not stop cleanly. Everything that is known then is in
/// its log too, if there is one.
pub fn run<A: Api>(
    config: &NodeConfig,
    make_api: impl FnOnce(ApiParts) -> (A, Door) + Send + 'static,
) -> Result<(), NodeError> {
    config.check()?;
    config.check_plain().map_err(Invalid::from)?;
    let plan = member::of(config)?;
    let (directory, log) = move_in(&config.directory, config.log)?;
    tracing::info!(
        "starts as {} ({}) of cluster {}",
        config.name,
        config.node,
        config.cluster
    );
    if directory.before() == Some(ProcessEnd::Cut) {
        tracing::warn!(
            "the process before this one was not stopped: it was killed or crashed, ended with an error, or the machine went down"
        );
    }
    if config.etcd.is_some() && plan.is_none() {
        tracing::info!("no member of etcd runs here: etcd.members does not name this machine");
    }
    // A member of etcd may have to show the node's certificate.
    let begun = Security::begin(config).and_then(|security| {
        let supervisor = plan.map(Supervisor::start).transpose()?;
        Ok((security, supervisor))
    });
    // The supervisor outlives the node's own part, which needs it to end cleanly.
    let (supervisor, ended) = match begun {
        Ok((security, supervisor)) => {
            let begun = (log.desk(), directory.before());
            let ended = run_logged(config, security, begun, make_api);
            (supervisor, ended)
        }
        Err(error) => (None, Err(error)),
    };
    match &ended {
        Ok(()) => tracing::info!("stopped"),
        Err(error) => tracing::error!("{error}"),
    }
    if let Some(supervisor) = supervisor
        && ended.as_ref().is_err_and(NodeError::is_of_a_device)
    {
        tracing::info!("etcd, which needs no device, runs on, and the next start has it");
        supervisor.leave();
    }
    if ended.is_ok() {
        directory.leave();
    }
    ended
}

/// Takes a directory for this process, and begins its log there.
pub(crate) fn move_in(directory: &Path, log: LogConfig) -> Result<(Directory, Log), NodeError> {
    let directory = predecessor::attempt(|| Directory::claim(directory), ClaimError::holder)?;
    let path = directory.path().join(LOG_FILE);
    let log = logging::start(&path, log);
    let log = log.map_err(|source| NodeError::Log { path, source })?;
    Ok((directory, log))
}

fn run_logged<A: Api>(
    config: &NodeConfig,
    security: Option<Security>,
    (log, before): (LogDesk, Option<ProcessEnd>),
    make_api: impl FnOnce(ApiParts) -> (A, Door) + Send + 'static,
) -> Result<(), NodeError> {
    let portal_limits = Limits::default();
    let connections = portal_limits.connections_max + PEER_CONNECTIONS_MAX;
    limits::prepare(connections + server::OPEN_MAX)?;
    let peers = bind("peers.listen", config.peers.listen)?;
    let portal = bind("portal.listen", config.portal.listen)?;
    let api = bind("api.listen", config.api.listen)?;
    let network = Network::new(NetworkConfig {
        cluster: config.cluster,
        node: config.node,
        peers,
        tls: security.as_ref().map(Security::between_peers),
        portals: vec![portal],
        connections_max: portal_limits.connections_max,
        clock: clock::now,
    });
    let runtime = Builder::new_current_thread()
        .enable_all()
        .build_local(LocalOptions::default())?;
    let mut left_out = None;
    let door = (api, security);
    let begun = (network, log, before);
    let ended = runtime.block_on(serve(config, door, begun, make_api, &mut left_out));
    // A name that is being looked up may take long, and nobody waits for it any more.
    runtime.shutdown_background();
    ended.map_err(|error| {
        let error = opening::blame(error, left_out);
        opening::note_ended(&error, config);
        error
    })
}

/// Opens the devices and drives the engine. The API answers before: a node may wait for a device. `left_out` is told
/// why the first device that could not be opened was not.
async fn serve<A: Api>(
    config: &NodeConfig,
    door: (Listener, Option<Security>),
    (network, log, before): (Network, LogDesk, Option<ProcessEnd>),
    make_api: impl FnOnce(ApiParts) -> (A, Door) + Send + 'static,
    left_out: &mut Option<NodeError>,
) -> Result<(), NodeError> {
    let mut signals = Signals::listen()?;
    let paths = Paths::read(&config.directory);
    let (detached, looker) = detached::watch();
    let mut reporter = Reporter::new(config, before, paths.known(), detached.seen.clone());
    let (report, told) = watch::channel(reporter.report(&NodeStatus::default(), &[]));
    let (desk, orders) = devices::desk(paths, told.clone());
    let metrics = Metrics::with_links(&config.name, network.links_cut());
    let (desks, words) = ((desk.clone(), looker), (log, metrics));
    let services = Services::start(config, door, told, desks, words, make_api)?;
    let key = services.seal.key_id();
    reporter.follow(services.metadata, services.members, services.tails, key);
    let tell = |device: Option<(&Path, AwaitedCause)>| {
        if reporter.waits_for(Instant::now().into_std(), device) {
            report.send_replace(reporter.report(&NodeStatus::default(), &[]));
        }
    };
    let opened = tokio::select! {
        opened = open(config, &desk, tell) => opened?,
        () = signals.next() => return stopped_early(),
    };
    *left_out = opened.left_out;
    let (disks, found) = (opened.disks, opened.found);
    let mut out = Output::default();
    let engine = Engine::new(
        EngineConfig {
            // Those that could not be opened may be what holds the store.
            create: left_out.is_none().then(|| identity(config)).transpose()?,
            ..engine_config(config, &found, &disks)?
        },
        clock::now(),
        &mut out,
    );
    let reactor = Reactor {
        engine,
        disks,
        network,
        session: services.session,
        seal: services.seal,
        reporter,
        room: RoomWatch::default(),
        bad_blocks: BadBlocks::new(),
        departures: Departures::default(),
        disbelief: Disbelief::new(),
        detached,
        stalls: services.stalls,
        frames: services.frames,
        measuring: Measuring::default(),
        measure_due: Instant::now(),
        report,
        report_due: Instant::now(),
        names: names(config, &found),
        orders,
        alarm: Alarm::new(),
        attention: Attention::new(),
        end: None,
        out,
    };
    // As a task of its own: what wakes the future that the runtime itself runs costs a system call each time.
    let ended = joined(tokio::task::spawn_local(reactor.run(signals)).await);
    // The threads of the services end with this.
    drop(services.stop);
    ended
}

/// What a task came to; its panic goes on here.
fn joined<T>(ended: Result<T, tokio::task::JoinError>) -> T {
    ended.unwrap_or_else(|error| resume_unwind(error.into_panic()))
}

/// Whoever told it to stop did not wait until the devices were open.
fn stopped_early() -> Result<(), NodeError> {
    tracing::info!("stopping");
    Ok(())
}

/// Opens the devices, when those are there that the node had: one at least of those without which it can do nothing,
/// however long that takes, and the others, or some time has passed. `tell` is told which is waited for.
async fn open(
    config: &NodeConfig,
    desk: &DeviceDesk,
    mut tell: impl FnMut(Option<(&Path, AwaitedCause)>),
) -> Result<Opened, NodeError> {
    let mut awaited = desk.paths().awaited();
    loop {
        let needed = desk.paths().needed(&config.devices);
        opening::wait(&needed, &mut awaited, &mut tell).await;
        let mut paths = desk.paths();
        match opening::open(config, &mut paths) {
            Ok(opened) => return Ok(opened),
            Err(error) => opening::await_lacking(error, config, &mut paths)?,
        }
    }
}

fn bind(key: &'static str, address: SocketAddr) -> Result<Listener, NodeError> {
    let bind = || Listener::bind(address).map_err(|error| NodeError::listen(key, error));
    predecessor::attempt(bind, NodeError::holder_of_port)
}

fn names(config: &NodeConfig, found: &[DeviceConfig]) -> Names {
    Names {
        directory: config.directory.clone(),
        devices: found.iter().map(|device| device.path.clone()).collect(),
        given: {
            let given = found.iter();
            given
                .map(|device| (device.path.clone(), device.tier))
                .collect()
        },
        addresses: vec![
            ("peers.listen", config.peers.listen),
            ("portal.listen", config.portal.listen),
        ],
    }
}

/// That of a store that is created.
fn identity(config: &NodeConfig) -> Result<StoreIdentity, NodeError> {
    Ok(StoreIdentity {
        cluster: config.cluster,
        store: StoreId(u128::from_ne_bytes(random()?)),
        node: config.node,
        nonce: u64::from_ne_bytes(random()?),
    })
}

fn engine_config(
    config: &NodeConfig,
    found: &[DeviceConfig],
    disks: &Disks,
) -> Result<EngineConfig, NodeError> {
    let geometry = |(number, device): (u16, &DeviceConfig)| {
        let disk = DiskId(number);
        let found = disks.geometry(disk).expect("every device has been opened");
        devices::geometry(disk, found, device.tier)
    };
    Ok(EngineConfig {
        cluster: config.cluster,
        node: config.node,
        name: config.name.clone(),
        failure_domain: config.failure_domain.clone(),
        portal: config.portal.advertised(),
        peer: config.peers.advertised(),
        api: format!("{}://{}", config.api_scheme(), config.api.advertised()),
        devices: (0..).zip(found).map(geometry).collect(),
        create: None,
        machine: machine::identify(&config.directory, config.peers.advertise.is_none())?,
        use_id: u64::from_ne_bytes(random()?).max(1),
        store: StoreConfig {
            block_cache_bytes: config.cache.bytes_max,
            ..StoreConfig::default()
        },
        portal_limits: Limits::default(),
        portal_seed: ChapSeed(random()?),
        hold: HOLD,
        takeovers_max: TAKEOVERS_MAX,
    })
}

/// Bytes that nobody can guess.
pub(crate) fn random<const N: usize>() -> Result<[u8; N], NodeError> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(std::io::Error::from)?;
    Ok(bytes)
}
