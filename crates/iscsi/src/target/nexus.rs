//! What connections share: sessions by nexus, commands and requests that are with the layer above,
//! deadlines, room.
//!
//! Invariants:
//! - a nexus has one entry while its session lives or its end was not confirmed;
//! - every task in the index is in the session of the connection that it names, and delivered.

use alloc::collections::{BTreeMap, BTreeSet};

use holdfast_stdx::Instant;

use crate::chap::Challenges;
use crate::negotiation::Preferences;
use crate::pdu::InitiatorTaskTag;
use crate::target::budget::Budget;
use crate::target::load::{Allowance, Load};
use crate::target::opening::Opening;
use crate::target::session::{Identity, Session};
use crate::target::task::TaskState;
use crate::target::{
    CloseReason, ConnectionId, Limits, PortalAddress, SessionId, TargetConfig, TargetDirectory,
    TargetEvent, TargetOutput, TaskId, TaskManagementFunction, TaskManagementId,
};
use crate::{ConnectionIdentifier, IscsiName, Isid, Nexus, PortalGroupTag, Tsih};

#[derive(Debug)]
pub(super) struct Shared {
    config: TargetConfig,
    pub(super) directory: TargetDirectory,
    nexuses: BTreeMap<Nexus, NexusState>,
    sessions: BTreeMap<SessionId, Nexus>,
    tsihs: BTreeMap<Tsih, TsihHolder>,
    pub(super) tasks: DeliveredTasks,
    pub(super) requests: BTreeMap<TaskManagementId, PendingRequest>,
    deadlines: BTreeSet<(Instant, ConnectionId)>,
    pub(super) budget: Budget,
    pub(super) load: Load,
    pub(super) challenges: Challenges,
    /// The node is in maintenance: sessions have so many seconds to go elsewhere, and new ones are
    /// sent there.
    pub(super) maintenance: Option<u16>,
    /// Connections that have not finished their login.
    pub(super) logins: usize,
    /// Connections of which a command waits until its initiator is known to wait for it.
    doubted: BTreeSet<ConnectionId>,
    /// The time of the last event.
    now: Instant,
    /// The last numbers that were given.
    session: u64,
    task: u64,
    request: u64,
    tsih: u16,
}

/// Commands that the layer above has, and where they came from.
pub(super) type DeliveredTasks = BTreeMap<TaskId, (ConnectionId, InitiatorTaskTag)>;

#[derive(Debug)]
pub(super) struct TsihHolder {
    pub(super) initiator: IscsiName,
    pub(super) isid: Isid,
    /// `None` for a discovery session.
    pub(super) target: Option<IscsiName>,
    pub(super) connection: ConnectionIdentifier,
}

#[derive(Debug)]
struct NexusState {
    session: SessionId,
    /// The connection of a session that lives; `None` once it has ended and drains.
    connection: Option<ConnectionId>,
    /// Bytes that its commands have reserved, which are with the layer above.
    reserved: u64,
    /// A login that waits for the nexus to be free.
    waiting: Option<ConnectionId>,
    /// A logout that waits for its commands.
    logging_out: Option<ConnectionId>,
    /// What it has of the windows' room, once it has ended: its commands' data is still there.
    allowance: Allowance,
}

/// A task management request that the layer above has.
#[derive(Debug)]
pub(super) struct PendingRequest {
    pub(super) connection: ConnectionId,
    pub(super) tag: InitiatorTaskTag,
    pub(super) function: TaskManagementFunction,
    /// Bytes that the commands which it ends have reserved.
    pub(super) reserved: u64,
}

/// Who waits for the end of a session's commands.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct DrainEnd {
    pub(super) waiting: Option<ConnectionId>,
    pub(super) logging_out: Option<ConnectionId>,
}

impl Shared {
    pub(super) fn new(config: TargetConfig, directory: TargetDirectory) -> Self {
        let config_limits = config.limits;
        let challenges = Challenges::new(config.seed);
        let budget = Budget::new(config_limits.total_bytes_max);
        Self {
            config,
            directory,
            nexuses: BTreeMap::new(),
            sessions: BTreeMap::new(),
            tsihs: BTreeMap::new(),
            tasks: BTreeMap::new(),
            requests: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            budget,
            load: Load::new(config_limits),
            challenges,
            maintenance: None,
            logins: 0,
            doubted: BTreeSet::new(),
            now: Instant::ZERO,
            session: 0,
            task: 0,
            request: 0,
            tsih: 0,
        }
    }

    pub(super) const fn limits(&self) -> &Limits {
        &self.config.limits
    }

    pub(super) const fn group(&self) -> PortalGroupTag {
        self.config.group
    }

    /// Where an initiator is sent that wants a session with `target`, if not here: a node in
    /// maintenance sends it away, unless there is no other.
    pub(super) fn elsewhere(
        &self,
        target: &IscsiName,
        who: (&IscsiName, Isid),
    ) -> Option<&PortalAddress> {
        self.maintenance?;
        self.directory.elsewhere(target, self.group(), who)
    }

    /// What this side wants of a session, wide or narrow.
    pub(super) const fn preferences(&self, is_wide: bool) -> Preferences {
        let limits = &self.config.limits;
        Preferences {
            header_digests: Preferences::DIGESTS,
            data_digests: Preferences::DIGESTS,
            // Unsolicited data saves a round trip, and the window bounds it; beyond what that has
            // room for, all data is asked for.
            initial_r2t: !is_wide,
            immediate_data: is_wide,
            receive_segment_max: limits.segment_max(is_wide),
            burst_max: limits.burst_max,
            first_burst_max: limits.first_burst_max,
            ready_to_transfer_max: limits.ready_to_transfer_max as u32,
        }
    }

    /// Input that may wait in a connection: the largest PDU that is taken, and what a driver reads
    /// at once.
    pub(super) const fn input_bytes_max(&self) -> usize {
        self.config.limits.data_segment_max as usize + (1 << 20)
    }

    pub(super) const fn next_task(&mut self) -> TaskId {
        self.task += 1;
        TaskId(self.task)
    }

    pub(super) const fn next_request(&mut self) -> TaskManagementId {
        self.request += 1;
        TaskManagementId(self.request)
    }

    /// The units that the initiator of a session sees.
    pub(super) fn units_of(&self, session: SessionId) -> BTreeSet<u16> {
        let Some(nexus) = self.sessions.get(&session) else {
            return BTreeSet::new();
        };
        let entry = self.directory.targets.get(&nexus.target);
        let units = entry.into_iter().flat_map(|it| &it.units);
        let seen = units.filter(|(_, access)| access.permits(&nexus.initiator));
        seen.map(|(number, _)| *number).collect()
    }

    /// The connection of a session that lives.
    pub(super) fn connection_of(&self, session: SessionId) -> Option<ConnectionId> {
        self.nexuses.get(self.sessions.get(&session)?)?.connection
    }

    /// Sessions that live, and those whose commands are not over.
    pub(super) fn session_count(&self) -> usize {
        let draining = self.nexuses.values().filter(|it| it.connection.is_none());
        self.tsihs.len() + draining.count()
    }

    /// The connection of the session that `tsih` names, if that is this initiator port's, and with
    /// this target.
    pub(super) fn find_session(
        &self,
        tsih: Tsih,
        (initiator, isid): (&IscsiName, Isid),
        target: Option<&IscsiName>,
    ) -> Option<ConnectionIdentifier> {
        let holder = self.tsihs.get(&tsih)?;
        let is_it = holder.initiator == *initiator
            && holder.isid == isid
            && holder.target.as_ref() == target;
        is_it.then_some(holder.connection)
    }

    /// A TSIH that no session has: `wanted`, if that is one, or any. `None` if another session has
    /// the one that is wanted.
    pub(super) fn take_tsih(&mut self, wanted: Tsih, holder: TsihHolder) -> Option<Tsih> {
        assert!(
            self.tsihs.len() < usize::from(u16::MAX),
            "sessions are bounded below this"
        );
        let mut tsih = wanted;
        while tsih == Tsih::NEW || self.tsihs.contains_key(&tsih) {
            if wanted != Tsih::NEW {
                return None;
            }
            self.tsih = self.tsih.wrapping_add(1);
            tsih = Tsih(self.tsih);
        }
        self.tsihs.insert(tsih, holder);
        Some(tsih)
    }

    /// Asks for `nexus` on behalf of `connection`. If it is not free, the connection is noted as
    /// waiting; the result names the connection that holds the nexus and is to be closed, and the
    /// one that waited before and does so no more.
    pub(super) fn claim(&mut self, nexus: &Nexus, connection: ConnectionId) -> Claim {
        match self.nexuses.get_mut(nexus) {
            None => Claim::Free,
            Some(state) => Claim::Taken {
                holder: state.connection,
                displaced: state.waiting.replace(connection),
            },
        }
    }

    /// Opens a session on a free nexus.
    pub(super) fn open_session(&mut self, nexus: Nexus, connection: ConnectionId) -> Identity {
        self.session += 1;
        let session = SessionId(self.session);
        let state = NexusState {
            session,
            connection: Some(connection),
            reserved: 0,
            waiting: None,
            logging_out: None,
            allowance: Allowance::default(),
        };
        let previous = self.nexuses.insert(nexus.clone(), state);
        assert!(previous.is_none(), "a nexus has one session");
        self.sessions.insert(session, nexus.clone());
        Identity { session, nexus }
    }

    /// Ends a session: none of its tasks is answered any more.
    pub(super) fn end_session(
        &mut self,
        session: Session,
        reason: CloseReason,
        out: &mut TargetOutput,
    ) {
        let held = self.tsihs.remove(&session.tsih);
        assert!(held.is_some(), "a session has its TSIH");
        let Some(identity) = session.identity else {
            self.load.give_back(session.allowance);
            assert_eq!(session.reserved, 0, "discovery has no commands");
            return;
        };
        let mut free = 0;
        let mut with_layer_above = 0;
        for task in session.tasks.values() {
            if let TaskState::Delivered(id) = task.state {
                self.tasks.remove(&id);
                with_layer_above += task.reserved;
            } else {
                free += task.reserved;
            }
        }
        let state = self.nexuses.get_mut(&identity.nexus);
        let state = state.expect("a session that ends has its nexus");
        let connection = state.connection.take();
        let connection = connection.expect("a session ends once");
        state.reserved = with_layer_above;
        state.allowance = session.allowance;
        self.requests.retain(|_, pending| {
            let is_gone = pending.connection == connection;
            if is_gone {
                state.reserved += pending.reserved;
            }
            !is_gone
        });
        self.budget.release(free);
        let session = identity.session;
        out.events
            .push_back(TargetEvent::SessionClosed { session, reason });
    }

    /// Notes that `connection` waits to have its logout answered.
    pub(super) fn wait_for_logout(&mut self, nexus: &Nexus, connection: ConnectionId) {
        let state = self.nexuses.get_mut(nexus);
        let state = state.expect("a session that has just ended drains");
        state.logging_out = Some(connection);
    }

    /// The layer above is done with a session that has ended; `None` if there is none of this
    /// number.
    pub(super) fn end_drain(&mut self, session: SessionId) -> Option<DrainEnd> {
        let nexus = self.sessions.get(&session)?;
        let state = self.nexuses.get(nexus).expect("a session has its nexus");
        assert_eq!(state.session, session, "a nexus has one session");
        assert!(
            state.connection.is_none(),
            "only a session that was closed is finished"
        );
        let nexus = self.sessions.remove(&session).expect("it was there");
        let state = self.nexuses.remove(&nexus).expect("it was there");
        self.budget.release(state.reserved);
        self.load.give_back(state.allowance);
        Some(DrainEnd {
            waiting: state.waiting,
            logging_out: state.logging_out,
        })
    }

    /// A login that waited is given up.
    pub(super) fn stop_waiting(&mut self, connection: ConnectionId, opening: &Opening) {
        let Some(nexus) = opening.nexus(self.group()) else {
            return;
        };
        if let Some(state) = self.nexuses.get_mut(&nexus)
            && state.waiting == Some(connection)
        {
            state.waiting = None;
        }
    }

    pub(super) fn move_deadline(
        &mut self,
        connection: ConnectionId,
        before: Option<Instant>,
        after: Option<Instant>,
    ) {
        if let Some(before) = before {
            let removed = self.deadlines.remove(&(before, connection));
            assert!(removed, "a connection's deadline is in the list");
        }
        if let Some(after) = after {
            self.deadlines.insert((after, connection));
        }
    }

    /// The connection whose deadline has come; the deadline stays in the list.
    pub(super) fn take_due(&self, now: Instant) -> Option<ConnectionId> {
        let (deadline, connection) = self.deadlines.first()?;
        (*deadline <= now).then_some(*connection)
    }

    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.deadlines.first().map(|(deadline, _)| *deadline)
    }

    /// The initiator at `connection` has to be asked whether it waits for what it has sent.
    pub(super) fn doubt(&mut self, connection: ConnectionId) {
        self.doubted.insert(connection);
    }

    pub(super) fn next_doubted(&mut self) -> Option<ConnectionId> {
        self.doubted.pop_first()
    }

    pub(super) fn assert_consistent(&mut self, now: Instant, connections: usize) {
        assert!(now >= self.now, "the driver's clock does not go back");
        self.now = now;
        assert!(self.logins <= connections, "a login is a connection");
        assert!(self.doubted.is_empty(), "who is doubted is asked");
        assert!(
            self.deadlines.len() <= connections,
            "a connection has one deadline"
        );
        assert_eq!(
            self.sessions.len(),
            self.nexuses.len(),
            "a session has its nexus"
        );
    }
}

/// Whether a nexus can be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Claim {
    Free,
    Taken {
        holder: Option<ConnectionId>,
        displaced: Option<ConnectionId>,
    },
}
