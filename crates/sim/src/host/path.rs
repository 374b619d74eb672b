//! One path of a host: a connection to a node's portal, and the session on it.

use holdfast_engine::ConnectionId;
use holdfast_iscsi::initiator::{
    CommandRequest, CommandTag, Initiator, InitiatorConfig, InitiatorOutput, SessionKind,
};
use holdfast_iscsi::pdu::TaskManagementCode;
use holdfast_iscsi::{IscsiName, Isid};
use holdfast_model::NodeId;
use holdfast_stdx::{Duration, Instant, Prng};

use super::work::{identify, unit};
use super::{Act, Acts, HostPlan};

/// How a path stands.
#[derive(Debug)]
pub(super) enum State {
    Down {
        retry: Instant,
    },
    /// It asked to be connected.
    Connecting,
    Up {
        connection: ConnectionId,
        initiator: Box<Initiator>,
        logged_in: bool,
    },
}

/// A path.
#[derive(Debug)]
pub(super) struct Path {
    pub(super) node: NodeId,
    config: InitiatorConfig,
    reconnect: Duration,
    pub(super) state: State,
    /// When its node was last heard.
    heard: Instant,
    /// Why its node was last of no use for the volume, if that is known.
    pub(super) absent: Option<Absent>,
}

/// Why a node that can be reached has no such volume for its host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Absent {
    /// There is no such target.
    NoTarget,
    /// There is one, and its unit is another volume, or none.
    OtherVolume,
}

impl Path {
    pub(super) fn new(host: usize, node: NodeId, volume: &str, prng: &mut Prng) -> Self {
        let parse = |name: &str| IscsiName::parse(name).expect("a name of ours is a name");
        let name = parse(&format!("iqn.2026-11.host:h{host}"));
        let target = parse(&crate::boot::target_of(volume));
        let isid = Isid([0x80, 0, host as u8, 0, 0, node.0 as u8]);
        let mut config = InitiatorConfig::new(name, isid, SessionKind::Normal(target));
        config.preferences.immediate_data = prng.chance(3, 4);
        config.preferences.initial_r2t = prng.chance(1, 4);
        config.login_timeout = Duration::from_secs(3);
        config.ping_after = Duration::from_millis(prng.between(1500, 4000));
        config.ping_timeout = Duration::from_millis(prng.between(2500, 5000));
        Self {
            node,
            config,
            reconnect: Duration::from_millis(prng.between(100, 1000)),
            state: State::Down {
                retry: Instant::ZERO,
            },
            heard: Instant::ZERO,
            absent: None,
        }
    }

    pub(super) fn is_up(&self) -> bool {
        matches!(
            self.state,
            State::Up {
                logged_in: true,
                ..
            }
        )
    }

    pub(super) fn next_timeout(&self) -> Option<Instant> {
        match &self.state {
            State::Down { retry } => Some(*retry),
            State::Connecting => None,
            State::Up { initiator, .. } => initiator.next_timeout(),
        }
    }

    pub(super) fn handle_timeout(
        &mut self,
        now: Instant,
        acts: &mut Acts,
        out: &mut InitiatorOutput,
    ) {
        match &mut self.state {
            State::Down { retry } if *retry <= now => {
                self.state = State::Connecting;
                acts.acts.push(Act::Connect {
                    path: usize::from(self.node.0) - 1,
                    node: self.node,
                });
            }
            State::Up { initiator, .. } => initiator.handle_timeout(now, out),
            State::Down { .. } | State::Connecting => {}
        }
    }

    pub(super) fn connected(
        &mut self,
        now: Instant,
        connection: Option<ConnectionId>,
        out: &mut InitiatorOutput,
    ) {
        self.state = match connection {
            None => State::Down {
                retry: now + self.reconnect,
            },
            Some(connection) => {
                self.heard = now;
                let initiator = Box::new(Initiator::connect(now, self.config.clone(), out));
                State::Up {
                    connection,
                    initiator,
                    logged_in: false,
                }
            }
        };
    }

    /// The path can be used from now on.
    pub(super) fn logged_in(&mut self) {
        self.absent = None;
        if let State::Up { logged_in, .. } = &mut self.state {
            *logged_in = true;
        }
    }

    /// Asks which volume the unit is.
    pub(super) fn identify(&mut self, tag: CommandTag, out: &mut InitiatorOutput) {
        if let State::Up { initiator, .. } = &mut self.state {
            let submitted = initiator.submit(tag, identify(), out);
            submitted.expect("the first command of a session is taken");
        }
    }

    /// Something came over a connection: the session on it, if it is the one that is up.
    pub(super) fn hears(
        &mut self,
        now: Instant,
        connection: ConnectionId,
    ) -> Option<&mut Initiator> {
        if matches!(self.state, State::Up { connection: current, .. } if current == connection) {
            self.heard = now;
        }
        self.initiator(connection)
    }

    /// When what was not answered here may be repeated elsewhere, once the connection is over; `is_told`: by its node.
    pub(super) fn outlived_at(&self, now: Instant, is_told: bool, plan: &HostPlan) -> Instant {
        if is_told {
            now + plan.after_end
        } else {
            now.max(self.heard + plan.patience)
        }
    }

    /// The session on a connection, if it is the one that is up.
    pub(super) fn initiator(&mut self, connection: ConnectionId) -> Option<&mut Initiator> {
        match &mut self.state {
            State::Up {
                connection: current,
                initiator,
                ..
            } if *current == connection => Some(initiator),
            _ => None,
        }
    }

    pub(super) fn submit(
        &mut self,
        tag: CommandTag,
        request: CommandRequest,
        out: &mut InitiatorOutput,
    ) -> bool {
        match &mut self.state {
            State::Up { initiator, .. } => initiator.submit(tag, request, out).is_ok(),
            State::Down { .. } | State::Connecting => false,
        }
    }

    pub(super) fn abort(&mut self, tag: CommandTag, out: &mut InitiatorOutput) -> bool {
        match &mut self.state {
            State::Up { initiator, .. } => initiator.abort(tag, out).is_ok(),
            State::Down { .. } | State::Connecting => false,
        }
    }

    /// Asks for the unit to be reset.
    pub(super) fn reset_unit(&mut self, tag: CommandTag, out: &mut InitiatorOutput) -> bool {
        let function = TaskManagementCode::LogicalUnitReset;
        match &mut self.state {
            State::Up { initiator, .. } => initiator.manage(tag, function, unit(), out).is_ok(),
            State::Down { .. } | State::Connecting => false,
        }
    }

    /// Gives the connection up.
    pub(super) fn close(&mut self, now: Instant, acts: &mut Acts) {
        if let State::Up { connection, .. } = self.state {
            acts.acts.push(Act::Close(connection));
            self.ended(now);
        }
    }

    /// The session is over.
    pub(super) fn ended(&mut self, now: Instant) {
        self.state = State::Down {
            retry: now + self.reconnect,
        };
    }
}
