//! What the tests of the sockets share: networks on free ports of this machine, and waiting with a
//! limit.

#![allow(dead_code, reason = "each test binary uses its part")]

use std::cell::Cell;
use std::future::Future;
use std::net::SocketAddr;
use std::time::Duration;

use holdfast_engine::{Event, LinkId, PeerCommand, PeerEvent, PortalEvent};
use holdfast_model::{ClusterId, CommandId, Incarnation, NodeId, SliceId, StoreId, VolumeId};
use holdfast_net::{Listener, Network, NetworkConfig};
use holdfast_stdx::{Bytes, Instant};
use holdfast_tls::PeerTls;
use holdfast_wire::{Forward, ForwardKind, Message, Query};
use tokio::runtime::{Builder, LocalOptions};
use tokio::time::timeout;

pub(crate) mod credentials;

/// Longer than anything here takes on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);
pub(crate) const CLUSTER: ClusterId = ClusterId(7);

/// Runs a test on a runtime as the node's.
pub(crate) fn run<F: Future>(future: F) -> F::Output {
    let runtime = Builder::new_current_thread()
        .enable_all()
        .build_local(LocalOptions::default())
        .unwrap();
    runtime.block_on(within(future))
}

thread_local! {
    /// Whether nodes have credentials, in this test, now.
    static SECURE: Cell<bool> = const { Cell::new(false) };
}

/// Whether nodes have credentials.
pub(crate) fn is_secure() -> bool {
    SECURE.get()
}

/// Runs a test between nodes without credentials, and again between nodes that have them.
pub(crate) fn both<F: Future>(test: impl Fn() -> F) {
    for secure in [false, true] {
        SECURE.set(secure);
        run(test());
    }
}

/// Nodes have none from here on.
pub(crate) fn insecure() {
    SECURE.set(false);
}

/// Runs a test between nodes with credentials.
pub(crate) fn secure<F: Future>(future: F) -> F::Output {
    SECURE.set(true);
    run(future)
}

/// Panics if it takes too long.
pub(crate) async fn within<F: Future>(future: F) -> F::Output {
    timeout(PATIENCE, future).await.expect("it took too long")
}

/// A network that is driven by hand.
pub(crate) struct TestNode {
    pub(crate) network: Network,
    pub(crate) peers: SocketAddr,
    pub(crate) portal: SocketAddr,
    pub(crate) events: Vec<Event>,
}

pub(crate) struct TestOptions {
    pub(crate) cluster: ClusterId,
    pub(crate) connections_max: usize,
    pub(crate) peers: SocketAddr,
    /// In place of what the test has.
    pub(crate) tls: Option<Option<PeerTls>>,
}

impl Default for TestOptions {
    fn default() -> Self {
        Self {
            cluster: CLUSTER,
            connections_max: 8,
            peers: any_port(),
            tls: None,
        }
    }
}

/// A clock that stands still.
pub(crate) const CLOCK: Instant = Instant::from_nanos(1_000_000_000);

pub(crate) fn any_port() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

impl TestNode {
    pub(crate) fn closed(node: u16, options: &TestOptions) -> Self {
        let peers = Listener::bind(options.peers).unwrap();
        let portal = Listener::bind(any_port()).unwrap();
        let (peer_address, portal_address) = (peers.address(), portal.address());
        let own = || is_secure().then(|| credentials::ours().tls(node));
        let tls = options.tls.clone().unwrap_or_else(own);
        let network = Network::new(NetworkConfig {
            cluster: options.cluster,
            node: NodeId(node),
            peers,
            portals: vec![portal],
            tls,
            connections_max: options.connections_max,
            clock: || CLOCK,
        });
        Self {
            network,
            peers: peer_address,
            portal: portal_address,
            events: Vec::new(),
        }
    }

    pub(crate) fn open(node: u16) -> Self {
        Self::with(node, 1, &TestOptions::default())
    }

    pub(crate) fn with(node: u16, incarnation: u64, options: &TestOptions) -> Self {
        let mut test = Self::closed(node, options);
        let store = StoreId(u128::from(node));
        test.network.open(store, Incarnation(incarnation)).unwrap();
        test
    }

    pub(crate) fn connect(&mut self, peer: u16, address: SocketAddr) {
        self.network.peer_command(PeerCommand::Connect {
            peer: NodeId(peer),
            address: address.to_string(),
        });
    }

    pub(crate) fn send(&mut self, peer: u16, link: LinkId, message: Message) {
        self.network.peer_command(PeerCommand::Send {
            peer: NodeId(peer),
            link,
            message,
        });
    }

    /// The next event.
    pub(crate) async fn next(&mut self) -> Event {
        while self.events.is_empty() {
            self.network.next_events(&mut self.events).await;
        }
        self.events.remove(0)
    }

    pub(crate) async fn next_peer(&mut self) -> PeerEvent {
        match self.next().await {
            Event::Peer(event) => event,
            other => panic!("{other:?} is not from a peer"),
        }
    }

    pub(crate) async fn next_portal(&mut self) -> PortalEvent {
        match self.next().await {
            Event::Portal(event) => event,
            other => panic!("{other:?} is not from the portal"),
        }
    }

    /// The next event must be that a link is up.
    pub(crate) async fn up(&mut self) -> (LinkId, Incarnation) {
        match self.next_peer().await {
            PeerEvent::Up {
                link, incarnation, ..
            } => (link, incarnation),
            other => panic!("{other:?} where a link should come up"),
        }
    }

    /// The next event must be that this link is down.
    pub(crate) async fn down(&mut self, expected: LinkId) {
        match self.next_peer().await {
            PeerEvent::Down { link, .. } => assert_eq!(link, expected),
            other => panic!("{other:?} where a link should go down"),
        }
    }

    /// The next event must be a message over this link.
    pub(crate) async fn message(&mut self, expected: LinkId) -> Message {
        match self.next_peer().await {
            PeerEvent::Received { link, message, .. } => {
                assert_eq!(link, expected);
                message
            }
            other => panic!("{other:?} where a message should come"),
        }
    }

    /// Nothing may happen for a while.
    pub(crate) async fn silent(&mut self, duration: Duration) {
        let happened = timeout(duration, self.next()).await;
        assert!(
            happened.is_err(),
            "{happened:?} where nothing should happen"
        );
    }
}

/// Two nodes, 1 and 2, with a link.
pub(crate) async fn pair() -> (TestNode, LinkId, TestNode, LinkId) {
    let mut one = TestNode::open(1);
    let mut two = TestNode::open(2);
    two.connect(1, one.peers);
    one.connect(2, two.peers);
    let ((link_one, _), (link_two, _)) = tokio::join!(one.up(), two.up());
    (one, link_one, two, link_two)
}

pub(crate) fn slice() -> SliceId {
    SliceId {
        volume: VolumeId(1),
        index: 0,
    }
}

/// A message of the data lane with `length` bytes, told apart by its number.
pub(crate) fn data_message(number: u64, length: usize) -> Message {
    let data: Vec<u8> = (0..length).map(|at| (at as u64 + number) as u8).collect();
    Message::from(Forward {
        slice: slice(),
        command: CommandId {
            node: 1,
            incarnation: Incarnation(1),
            number,
        },
        heartbeat: Instant::ZERO,
        repeated: false,
        fence: holdfast_model::Fence::ZERO,
        kind: ForwardKind::Write {
            offset: 0,
            data: Bytes::from(data),
        },
    })
}

/// A message of the control lane, told apart by its number.
pub(crate) fn control_message(number: u64) -> Message {
    Message::from(Query {
        slice: slice(),
        epoch: holdfast_model::Epoch(number),
    })
}
