//! Heartbeats: what every node tells every other all the time, and what leases are made of.

use alloc::vec::Vec;

use holdfast_model::NodeId;
use holdfast_replica::Replica;
use holdfast_stdx::{Duration, Instant};
use holdfast_wire::Heartbeat;

use crate::context::milliseconds;
use crate::engine::Engine;
use crate::event::LinkId;
use crate::peers::About;

impl Engine {
    /// Sends the heartbeats that are due.
    pub(crate) fn beat(&mut self) {
        let now = self.world.now;
        for (peer, heard, about) in self.world.peers.due(now) {
            let heartbeat = self.heartbeat(now, peer, heard, &about);
            self.world.peers.send(peer, heartbeat.into());
        }
    }

    fn heartbeat(
        &mut self,
        now: Instant,
        peer: NodeId,
        heard: Instant,
        about: &About,
    ) -> Heartbeat {
        let mut heartbeat = Heartbeat {
            sent: now,
            echo: heard,
            append_age_ms: milliseconds(self.world.append_age),
            claims: Vec::new(),
            grants: Vec::new(),
        };
        if !self.is_alive() {
            return heartbeat;
        }
        let mut speak = |replica: &mut Replica| {
            heartbeat.claims.extend(replica.claim(now, peer));
            heartbeat.grants.extend(replica.grant(now, peer));
        };
        match about {
            About::All => self.replicas.values_mut().for_each(speak),
            About::Some(slices) => {
                for slice in slices {
                    if let Some(replica) = self.replicas.get_mut(slice) {
                        speak(replica);
                    }
                }
            }
        }
        heartbeat
    }

    pub(crate) fn handle_heartbeat(&mut self, peer: NodeId, link: LinkId, heartbeat: &Heartbeat) {
        let now = self.world.now;
        let Some(current) = self.world.peers.current(peer, link) else {
            return;
        };
        current.heard_at = now;
        current.heard = current.heard.max(heartbeat.sent);
        current.peer.append_age = Duration::from_millis(heartbeat.append_age_ms.into());
        let echo = heartbeat.echo;
        if echo == Instant::ZERO || echo > self.world.now {
            // Nothing of ours had arrived: it proves nothing. Or the peer makes times up.
            return;
        }
        for claim in &heartbeat.claims {
            // There may be thousands. A claim puts off what the replica has to do, and nothing else.
            if let Some(replica) = self.replicas.get_mut(&claim.slice) {
                replica.handle_claim(peer, claim, echo);
            }
        }
        for grant in &heartbeat.grants {
            self.with_replica(grant.slice, |replica, context| {
                replica.handle_grant(context, peer, grant, echo);
            });
        }
    }
}
