//! Where everything of a demo is: paths and ports.
//!
//! Invariants:
//! - every path is absolute: what is started once starts again from anywhere;
//! - no port has two uses.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use holdfast_model::{ClusterId, NodeId, Tier};
use holdfast_node::config::etcd::EtcdSection;
use holdfast_node::config::{
    CACHE_BYTES_MAX, CacheConfig, DeviceConfig, DiskDriver, Endpoint, HistoryConfig, LogConfig,
    MetadataConfig, NodeConfig, SecurityConfig,
};
use holdfast_node::etcd::{DATA_DIRECTORY, MemberTls};
use holdfast_tls::{AUTHORITY_FILE, NODE_FILE, NODE_KEY_FILE};
use serde::{Deserialize, Serialize};

/// Nodes of a demo at most.
pub(crate) const NODES_MAX: u16 = 7;
/// The most nodes on a machine: with more there would be a single machine.
pub(crate) const NODES_PER_MACHINE_MAX: u16 = NODES_MAX / 2;
/// From the API's port to the metadata's, and from a node's API to where its peers connect.
const PEER_OFFSET: u16 = 100;
/// From the API's port to etcd's client port; its peer port is the next.
const ETCD_OFFSET: u16 = 200;
/// What the only member of the demo's etcd is called.
const ETCD_MEMBER: &str = "demo";

/// What keeps a demo's metadata.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum MetadataKind {
    /// The demo's parent.
    #[default]
    Embedded,
    /// An etcd that the parent starts.
    Etcd,
}

impl MetadataKind {
    #[allow(
        clippy::trivially_copy_pass_by_ref,
        reason = "serde passes a reference"
    )]
    pub(crate) fn is_embedded(&self) -> bool {
        *self == Self::Embedded
    }
}

impl std::fmt::Display for MetadataKind {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Self::Embedded => "embedded",
            Self::Etcd => "etcd",
        })
    }
}

/// What uses a port, and which option moves it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Use {
    pub(crate) address: SocketAddr,
    pub(crate) what: String,
    pub(crate) option: &'static str,
}

/// Paths and ports of a demo.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    directory: PathBuf,
    nodes: u16,
    nodes_per_machine: u16,
    portal_port: u16,
    api_port: u16,
    metadata: MetadataKind,
    etcd: Option<PathBuf>,
    cache_bytes: u64,
    is_insecure: bool,
}

impl Layout {
    /// A demo of so many nodes in an absolute directory. The ports have been checked.
    pub(crate) fn new(directory: &Path, nodes: u16, portal_port: u16, api_port: u16) -> Self {
        assert!(directory.is_absolute(), "the directory's path is absolute");
        assert!((1..=NODES_MAX).contains(&nodes), "a demo has 1 to 7 nodes");
        Self {
            directory: directory.to_owned(),
            nodes,
            nodes_per_machine: 1,
            portal_port,
            api_port,
            metadata: MetadataKind::Embedded,
            etcd: None,
            cache_bytes: CACHE_BYTES_MAX,
            is_insecure: false,
        }
    }

    /// With so many nodes on each machine; there are as many on all.
    pub(crate) fn grouping(self, nodes_per_machine: u16) -> Self {
        assert!(nodes_per_machine > 0, "a machine has a node");
        assert!(
            self.nodes.is_multiple_of(nodes_per_machine),
            "every machine has as many"
        );
        Self {
            nodes_per_machine,
            ..self
        }
    }

    /// With its metadata kept so; `program` is the etcd, if it is not the one in `PATH`.
    pub(crate) fn keeping(self, metadata: MetadataKind, program: Option<PathBuf>) -> Self {
        Self {
            metadata,
            etcd: program,
            ..self
        }
    }

    /// With so much memory of what was read, in each node.
    pub(crate) fn caching(self, cache_bytes: u64) -> Self {
        Self {
            cache_bytes,
            ..self
        }
    }

    /// Without TLS, if that is said.
    pub(crate) fn insecure(self, is_insecure: bool) -> Self {
        Self {
            is_insecure,
            ..self
        }
    }

    /// Where the parent's credentials are, and what its clients trust; none without TLS.
    pub(crate) fn credentials(&self) -> Option<PathBuf> {
        (!self.is_insecure).then(|| self.directory.join("tls"))
    }

    /// Where the password of the first user is.
    pub(crate) fn password_path(&self) -> PathBuf {
        self.directory.join("admin-password")
    }

    /// Where is what admits nodes at the demo's own metadata; none for a demo without TLS.
    pub(crate) fn metadata_token_path(&self) -> Option<PathBuf> {
        (!self.is_insecure).then(|| self.directory.join("metadata-token"))
    }

    /// What admits them: nothing before it was made.
    fn metadata_token(&self) -> String {
        let read = self.metadata_token_path().map(fs::read_to_string);
        let token = read.and_then(Result::ok).unwrap_or_default();
        token.trim().to_owned()
    }

    /// Where the token of `demo.json` is.
    pub(crate) fn token_path(&self) -> PathBuf {
        self.directory.join("token")
    }

    /// The URL of an API of the demo.
    pub(crate) fn url(&self, address: SocketAddr) -> String {
        let scheme = if self.is_insecure { "http" } else { "https" };
        format!("{scheme}://{address}")
    }

    /// What keeps the metadata.
    pub(crate) fn metadata_kind(&self) -> MetadataKind {
        self.metadata
    }

    /// Whether all ports exist, and none has two uses.
    pub(crate) fn check_ports(
        portal: u16,
        api: u16,
        nodes: u16,
        metadata: MetadataKind,
    ) -> Result<(), String> {
        let last = |first: u16, count: u16| first.checked_add(count).filter(|_| first > 0);
        let Some(portals_end) = last(portal, nodes - 1) else {
            return Err(format!(
                "--portal-port {portal}: there are no ports for {nodes} portals"
            ));
        };
        let Some(peers_end) = last(api, PEER_OFFSET + nodes) else {
            return Err(format!(
                "--api-port {api}: there are no ports up to {PEER_OFFSET} + {nodes} above it"
            ));
        };
        let etcd_end = match metadata {
            MetadataKind::Embedded => None,
            MetadataKind::Etcd => Some(last(api, ETCD_OFFSET + 1).ok_or_else(|| {
                format!(
                    "--api-port {api}: there are no ports for etcd, {ETCD_OFFSET} and 1 above it"
                )
            })?),
        };
        let apis = api..=api + nodes;
        let peers = api + PEER_OFFSET..=peers_end;
        let portals = portal..=portals_end;
        let meet = |other: &std::ops::RangeInclusive<u16>| {
            portals.start() <= other.end() && other.start() <= portals.end()
        };
        let meets_etcd = etcd_end.is_some_and(|end| meet(&(end - 1..=end)));
        if meet(&apis) || meet(&peers) || meets_etcd {
            return Err(format!(
                "the portals' ports from {portal} and the APIs' from {api} meet: choose others \
                 with --portal-port or --api-port"
            ));
        }
        Ok(())
    }

    pub(crate) fn nodes_per_machine(&self) -> u16 {
        self.nodes_per_machine
    }

    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// The nodes' numbers.
    pub(crate) fn nodes(&self) -> impl DoubleEndedIterator<Item = NodeId> + use<> {
        (1..=self.nodes).map(NodeId)
    }

    pub(crate) fn node_name(node: NodeId) -> String {
        format!("n{}", node.0)
    }

    /// What a node fails with: its machine, where that has others. They follow each other.
    pub(crate) fn failure_domain(&self, node: NodeId) -> Option<String> {
        let machine = (node.0 - 1) / self.nodes_per_machine + 1;
        (self.nodes_per_machine > 1).then(|| format!("m{machine}"))
    }

    pub(crate) fn node_directory(&self, node: NodeId) -> PathBuf {
        self.directory.join(Self::node_name(node))
    }

    pub(crate) fn node_config_path(&self, node: NodeId) -> PathBuf {
        self.node_directory(node).join("node.toml")
    }

    /// What a node says before it logs, and when it cannot log.
    pub(crate) fn node_talk_path(&self, node: NodeId) -> PathBuf {
        self.node_directory(node).join("node.stderr")
    }

    /// What the metadata is in.
    pub(crate) fn metadata_directory(&self) -> PathBuf {
        match self.metadata {
            MetadataKind::Embedded => self.directory.join("metadata"),
            MetadataKind::Etcd => self.etcd_directory().join(DATA_DIRECTORY),
        }
    }

    /// What etcd keeps, and what it says.
    pub(crate) fn etcd_directory(&self) -> PathBuf {
        self.directory.join("etcd")
    }

    /// The demo's etcd: one member, on this machine.
    pub(crate) fn etcd(&self) -> (EtcdSection, &'static str) {
        let section = EtcdSection {
            member: None,
            program: self.etcd.clone(),
            client_port: self.api_port + ETCD_OFFSET,
            peer_port: self.api_port + ETCD_OFFSET + 1,
            plain: false,
            members: [(ETCD_MEMBER.to_owned(), Ipv4Addr::LOCALHOST.into())].into(),
        };
        (section, ETCD_MEMBER)
    }

    /// How that speaks: with the parent's credentials.
    pub(crate) fn etcd_tls(&self) -> MemberTls {
        self.credentials().map_or(MemberTls::Off, MemberTls::On)
    }

    pub(crate) fn file_path(&self) -> PathBuf {
        self.directory.join("demo.json")
    }

    pub(crate) fn api(&self) -> SocketAddr {
        local(self.api_port)
    }

    pub(crate) fn metadata(&self) -> SocketAddr {
        local(self.api_port + PEER_OFFSET)
    }

    pub(crate) fn node_api(&self, node: NodeId) -> SocketAddr {
        local(self.api_port + node.0)
    }

    pub(crate) fn node_peers(&self, node: NodeId) -> SocketAddr {
        local(self.api_port + PEER_OFFSET + node.0)
    }

    pub(crate) fn node_portal(&self, node: NodeId) -> SocketAddr {
        local(self.portal_port + (node.0 - 1))
    }

    /// The ports of a node.
    pub(crate) fn node_uses(&self, node: NodeId) -> [Use; 3] {
        let name = Self::node_name(node);
        let used = |address, what: &str, option| Use {
            address,
            what: format!("{what} of node {name}"),
            option,
        };
        [
            used(self.node_portal(node), "the portal", "--portal-port"),
            used(self.node_api(node), "the API", "--api-port"),
            used(self.node_peers(node), "the peers' port", "--api-port"),
        ]
    }

    /// The port of the parent's API.
    pub(crate) fn api_use(&self) -> Use {
        Use {
            address: self.api(),
            what: "the API".to_owned(),
            option: "--api-port",
        }
    }

    /// The ports of the metadata.
    pub(crate) fn metadata_uses(&self) -> Vec<Use> {
        let used = |address, what: &str| Use {
            address,
            what: what.to_owned(),
            option: "--api-port",
        };
        match self.metadata {
            MetadataKind::Embedded => vec![used(self.metadata(), "the metadata")],
            MetadataKind::Etcd => {
                let client = self.api_port + ETCD_OFFSET;
                vec![
                    used(local(client), "etcd"),
                    used(local(client + 1), "etcd's peers"),
                ]
            }
        }
    }

    /// The configuration of a node.
    pub(crate) fn node_config(
        &self,
        cluster: ClusterId,
        node: NodeId,
        device_bytes: u64,
    ) -> NodeConfig {
        let directory = self.node_directory(node);
        let device = DeviceConfig {
            path: directory.join("device"),
            file_bytes: Some(device_bytes),
            preallocate: false,
            tier: Tier::Flash,
        };
        let endpoint = |listen| Endpoint {
            listen,
            advertise: None,
        };
        NodeConfig {
            cluster,
            node,
            name: Self::node_name(node),
            failure_domain: self.failure_domain(node),
            portal: endpoint(self.node_portal(node)),
            peers: endpoint(self.node_peers(node)),
            api: endpoint(self.node_api(node)),
            metadata: match self.metadata {
                MetadataKind::Embedded => MetadataConfig {
                    addresses: vec![self.metadata().to_string()],
                    token: self.metadata_token(),
                    ..MetadataConfig::default()
                },
                MetadataKind::Etcd => self.etcd_for(&directory),
            },
            etcd: None,
            security: SecurityConfig {
                directory: None,
                off: self.is_insecure,
            },
            oidc: None,
            disk_driver: DiskDriver::Auto,
            devices: vec![device],
            cache: CacheConfig {
                bytes_max: self.cache_bytes,
            },
            history: HistoryConfig::default(),
            log: LogConfig::default(),
            directory,
        }
    }
}

impl Layout {
    /// The demo's etcd, as the file of a node in `directory` says it.
    fn etcd_for(&self, directory: &Path) -> MetadataConfig {
        let address = local(self.api_port + ETCD_OFFSET);
        if self.is_insecure {
            return MetadataConfig {
                etcd: vec![address.to_string()],
                ..MetadataConfig::default()
            };
        }
        let own = |name: &str| Some(directory.join("tls").join(name));
        MetadataConfig {
            etcd: vec![format!("https://{address}")],
            ca: own(AUTHORITY_FILE),
            certificate: own(NODE_FILE),
            key: own(NODE_KEY_FILE),
            ..MetadataConfig::default()
        }
    }
}

fn local(port: u16) -> SocketAddr {
    SocketAddrV4::new(Ipv4Addr::LOCALHOST, port).into()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_ports_are_those_of_the_contract() {
        let layout = Layout::new(Path::new("/d"), 3, 3260, 7460);
        assert_eq!(layout.api().port(), 7460);
        assert_eq!(layout.metadata().port(), 7560);
        let last = NodeId(3);
        assert_eq!(layout.node_portal(last).port(), 3262);
        assert_eq!(layout.node_api(last).port(), 7463);
        assert_eq!(layout.node_peers(last).port(), 7563);
        assert_eq!(layout.node_config_path(last), Path::new("/d/n3/node.toml"));
        let config = layout.node_config(ClusterId(7), last, 1 << 30);
        assert_eq!(config.check(), Ok(()));
        assert_eq!(config.devices[0].path, Path::new("/d/n3/device"));
        assert_eq!(config.failure_domain, None);
        assert_eq!(layout.url(layout.node_api(last)), "https://127.0.0.1:7463");
        assert_eq!(config.credentials(), Path::new("/d/n3/tls"));
        assert_eq!(layout.credentials().as_deref(), Some(Path::new("/d/tls")));
        let layout = layout.insecure(true);
        assert_eq!(layout.credentials(), None);
        assert_eq!(layout.url(layout.api()), "http://127.0.0.1:7460");
        assert!(layout.node_config(ClusterId(7), last, 1 << 30).security.off);
    }

    #[test]
    fn nodes_of_a_machine_say_so() {
        let layout = Layout::new(Path::new("/d"), 6, 3260, 7460).grouping(2);
        let configs = layout.nodes().map(|node| {
            let config = layout.node_config(ClusterId(7), node, 1 << 30);
            assert_eq!(config.check(), Ok(()));
            config.failure_domain.unwrap()
        });
        let domains: Vec<String> = configs.collect();
        assert_eq!(domains, ["m1", "m1", "m2", "m2", "m3", "m3"]);
    }

    #[test]
    fn no_port_has_two_uses() {
        for (portal, api, good) in [
            (3260, 7460, true),
            (7453, 7460, true),
            (7454, 7460, false),
            (7467, 7460, false),
            (7468, 7460, true),
            (7553, 7460, true),
            (7554, 7460, false),
            (7568, 7460, true),
            (65529, 7460, true),
            (65530, 7460, false),
            (3260, 65428, true),
            (3260, 65429, false),
            (0, 7460, false),
            (3260, 0, false),
        ] {
            let embedded = MetadataKind::Embedded;
            let checked = Layout::check_ports(portal, api, NODES_MAX, embedded);
            assert_eq!(checked.is_ok(), good, "{portal} {api}: {checked:?}");
            if good {
                let layout = Layout::new(Path::new("/d"), NODES_MAX, portal, api);
                let uses = layout.nodes().flat_map(|node| layout.node_uses(node));
                let mut ports: BTreeSet<_> = uses.map(|one| one.address.port()).collect();
                ports.extend([layout.api().port(), layout.metadata().port()]);
                assert_eq!(ports.len(), 3 * usize::from(NODES_MAX) + 2);
            }
        }
    }
    #[test]
    fn etcd_has_ports_of_its_own() {
        for (portal, api, good) in [
            (3260, 7460, true),
            (7653, 7460, true),
            (7654, 7460, false),
            (7661, 7460, false),
            (7662, 7460, true),
            (3260, 65334, true),
            (3260, 65335, false),
        ] {
            let checked = Layout::check_ports(portal, api, NODES_MAX, MetadataKind::Etcd);
            assert_eq!(checked.is_ok(), good, "{portal} {api}: {checked:?}");
        }
        let layout = Layout::new(Path::new("/d"), 3, 3260, 7460).keeping(MetadataKind::Etcd, None);
        let ports: Vec<_> = layout.metadata_uses();
        let ports: Vec<_> = ports.iter().map(|used| used.address.port()).collect();
        assert_eq!(ports, [7660, 7661]);
        let config = layout.node_config(ClusterId(7), NodeId(1), 1 << 30);
        assert_eq!(config.check(), Ok(()));
        assert_eq!(config.metadata.etcd, ["https://127.0.0.1:7660"]);
        assert_eq!(layout.etcd().0.check(), Ok(()));
        assert_eq!(layout.metadata_directory(), Path::new("/d/etcd/data"));
    }
}
