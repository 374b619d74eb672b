//! All sockets of a node as one thing, for the loop that drives its engine.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::task::{Context, Poll, Waker};

use holdfast_engine::{Event, PeerCommand, PortalCommand};
use holdfast_model::{ClusterId, Incarnation, NodeId, StoreId};
use holdfast_stdx::Instant;
use holdfast_tls::PeerTls;
use tokio::time::timeout;

use crate::accept::{BindError, Listener};
use crate::limits::STOP_TIME_MAX;
use crate::peers::{Identity, Peers};
use crate::portal::Portal;

/// What the sockets are made of.
#[derive(Debug)]
pub struct NetworkConfig {
    /// The cluster; peers of another are refused.
    pub cluster: ClusterId,
    /// This node.
    pub node: NodeId,
    /// Where peers connect.
    pub peers: Listener,
    /// How peers are known, and what is said between them is kept from others; without it whoever knows the cluster is believed.
    pub tls: Option<PeerTls>,
    /// Where initiators connect.
    pub portals: Vec<Listener>,
    /// Connections of initiators at most, at all portals; the next is closed at once.
    pub connections_max: usize,
    /// The clock that the engine is told, for when something came.
    pub clock: fn() -> Instant,
}

/// All sockets of a node. It lives on one thread, in a `tokio` runtime for local tasks.
pub struct Network {
    cluster: ClusterId,
    node: NodeId,
    listeners: Option<(Listener, Vec<Listener>)>,
    peers: Peers,
    portal: Portal,
}

impl Network {
    /// Nobody is spoken to or let in before [`open`](Self::open).
    #[must_use]
    pub fn new(config: NetworkConfig) -> Self {
        Self {
            cluster: config.cluster,
            node: config.node,
            listeners: Some((config.peers, config.portals)),
            peers: Peers::new(config.node, config.tls),
            portal: Portal::new(config.connections_max, config.clock),
        }
    }

    /// Begins to speak to peers in this name, and lets initiators in. Once a start.
    ///
    /// # Errors
    /// [`BindError`] if another process listens on an address since it was bound.
    pub fn open(&mut self, store: StoreId, incarnation: Incarnation) -> Result<(), BindError> {
        let (peers, portals) = self.listeners.take().expect("a node opens once a start");
        let identity = Identity {
            cluster: self.cluster,
            node: self.node,
            store,
            incarnation,
        };
        self.peers.open(identity, peers.open()?);
        for portal in portals {
            self.portal.open(portal.open()?);
        }
        Ok(())
    }

    /// Does what the engine asks between nodes. What is sent leaves with the next
    /// [`flush`](Self::flush).
    pub fn peer_command(&mut self, command: PeerCommand) {
        self.peers.command(command);
    }

    /// Does what the engine asks at the portal. What is sent leaves with the next
    /// [`flush`](Self::flush).
    pub fn portal_command(&mut self, command: PortalCommand) {
        self.portal.command(command);
    }

    /// Writes what the commands have queued: one write a lane and connection for all of them.
    pub fn flush(&mut self) {
        self.peers.flush();
        self.portal.flush();
    }

    /// Flushes, and adds everything that has happened to `events`. `Pending`: nothing has, and the
    /// task is woken when something does.
    pub fn poll_events(
        &mut self,
        context: &Context<'_>,
        events: &mut impl Extend<Event>,
    ) -> Poll<()> {
        self.flush();
        let (peers, portal) = (self.peers.poll(context), self.portal.poll(context));
        if peers.is_pending() && portal.is_pending() {
            return Poll::Pending;
        }
        events.extend(self.peers.take_events().map(Event::Peer));
        events.extend(self.portal.take_events().map(Event::Portal));
        Poll::Ready(())
    }

    /// Flushes, and waits until something has happened. Nothing is lost if the wait is given up.
    pub async fn next_events(&mut self, events: &mut impl Extend<Event>) {
        poll_fn(|context| self.poll_events(context, events)).await;
    }

    /// Flushes, and adds what has happened to `events`, without waiting.
    pub fn take_events(&mut self, events: &mut impl Extend<Event>) {
        let context = Context::from_waker(Waker::noop());
        // Whoever waits next registers anew.
        let _ = self.poll_events(&context, events);
    }

    /// How many links with TLS ended since the start without the other end's word, as whoever is on the way can have it: it is counted
    /// on while the network lives.
    #[must_use]
    pub fn links_cut(&self) -> Arc<AtomicU64> {
        self.peers.cut_off()
    }

    /// Sends what is queued and closes everything in good order, within half a second.
    pub async fn close(mut self) {
        self.flush();
        let closing = async { tokio::join!(self.peers.close(), self.portal.close()) };
        if timeout(STOP_TIME_MAX, closing).await.is_err() {
            tracing::info!("stopped before every connection had taken what was sent");
        }
    }
}
