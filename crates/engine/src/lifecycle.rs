//! How an engine begins and ends: the store is opened, replicas are made, roles are handed over.
//!
//! Invariants:
//! - peers and initiators are let in only once the replicas are there that they will speak to;
//! - a process whose node is another by now, with another store, ends, and does not come back as it: see
//!   [`Rejection`](crate::Rejection);
//! - a blank device is formatted only where that was asked for, and once; and not before it is known that the
//!   number it would be formatted under is no other node's.

use holdfast_model::record::NodeRecord;
use holdfast_model::{DiskId, Incarnation, SliceId, StoreId};
use holdfast_replica::{Found, Me, Replica};
use holdfast_stdx::{Duration, Instant};
use holdfast_store::{Expected, OpenError, Recovered, Store, UseIds};

use crate::Notice;
use crate::config::EngineConfig;
use crate::context::SliceContext;
use crate::engine::{Engine, Output};
use crate::event::Command;
use crate::newer::NewerState;
use crate::notes::Notes;
use crate::registration::Registration;
use crate::storage::Storage;

/// How long a node that is told to stop goes on: others may be told the same, and hear of it later. Whoever had not would take over
/// what it leads, or leave it out, which is another epoch, and may be data to move. Sessions are served meanwhile.
const STOP_TOGETHER: Duration = Duration::from_millis(500);
/// How long a stopping node waits for the others to have finished with one more of its replicas. Where others
/// go on, they do not finish with those that follow them.
const STOP_REST: Duration = Duration::from_millis(1500);
/// How long it waits in all: with thousands of slices it takes seconds.
const STOP_MAX: Duration = Duration::from_secs(6);

/// How far the engine's life is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Life {
    /// The store is being opened.
    Opening,
    /// It works.
    Open,
    /// The operator wants it to stop: it stands for nothing any more, and does what it does until then.
    Leaving { until: Instant },
    /// It hands over: when it stops whatever is left, as things are, and at the latest.
    Stopping { until: Instant, at_last: Instant },
    /// Nothing more is asked of anybody.
    Stopped,
}

/// The node's store, which begins to open.
pub(crate) fn open_store(config: &EngineConfig, now: Instant) -> Storage {
    let mut out = holdfast_store::Output::default();
    let expected = Expected {
        cluster: Some(config.cluster),
        node: Some(config.node),
        store: None,
    };
    let store = Store::open(
        now,
        config.store,
        &config.devices,
        expected,
        config.use_id,
        &mut out,
    );
    Storage::new(store, out)
}

impl Engine {
    pub(crate) fn make_replica(&mut self, slice: SliceId, me: Me) {
        let found = self
            .recovered
            .as_mut()
            .and_then(|recovered| recovered.slices.remove(&slice));
        let found = found.map_or_else(
            || Found {
                intact: true,
                ..Found::default()
            },
            |found| Found {
                state: found.state,
                committed: found.committed,
                intact: found.intact,
                lacks: found.lacks,
                tail_suspect: found.tail_suspect,
                commands: found.commands,
                changes: self
                    .world
                    .storage
                    .store()
                    .entries_above(slice, found.committed)
                    .filter_map(|entry| Some((entry.sequence, entry.change.range()?)))
                    .collect(),
            },
        );
        let bad = self.world.storage.bad_blocks(slice);
        if bad > 0 && !found.lacks {
            self.world.notices.push(Notice::Spoiled(slice, bad));
        }
        let mut context = SliceContext {
            slice,
            world: &mut self.world,
        };
        let mut replica = Replica::new(me, slice, &found, &mut context);
        replica.raise_fence(&mut context, self.volumes.fence(slice.volume));
        self.replicas.insert(slice, replica);
    }

    /// Whether the store found contents of a slice of which something is heard: if no record names this node,
    /// they were released, or their volume was deleted, while it was off, and are to be dropped.
    pub(crate) fn is_left_over(&self, slice: SliceId) -> bool {
        let recovered = self.recovered.as_ref();
        recovered.is_some_and(|recovered| recovered.slices.contains_key(&slice))
    }

    /// The replica of a slice that is deleted, or has none here any more, goes once its contents are
    /// dropped for good.
    pub(crate) fn forget_replica(&mut self, slice: SliceId) {
        let is_named = self.world.cluster.names(slice, self.config.node);
        let settled = self.replicas.get(&slice).is_some_and(Replica::is_settled);
        if settled && !is_named {
            self.replicas.remove(&slice);
            self.world.syncing.remove(&slice);
            self.world.takeovers.forget(self.world.now, slice);
            if let Some(timer) = self.timer_of.remove(&slice) {
                self.timers.remove(&(timer, slice));
            }
        }
    }

    pub(crate) fn open_failed(&mut self, error: OpenError, out: &mut Output) {
        let error = match self.begin_blank(error) {
            Ok(()) => return,
            Err(error) => error,
        };
        self.life = Life::Stopped;
        out.push(Command::OpenFailed(error.into()));
    }

    /// If the devices are blank, and may be formatted, looks whether this node may. What cannot be formatted is told
    /// whether the metadata answers or not.
    fn begin_blank(&mut self, error: OpenError) -> Result<(), OpenError> {
        let blank = matches!(error, OpenError::Blank { .. });
        let Some(identity) = self.config.create.as_ref().filter(|_| blank) else {
            return Err(error);
        };
        Store::may_create(&self.config.store, &self.config.devices, identity)?;
        let own = self.record(identity.store, 0);
        let registration = self.registration(own, UseIds::NONE);
        let cluster = &mut self.world.cluster;
        cluster.look_first(self.config.cluster, registration);
        Ok(())
    }

    /// Formats the blank devices.
    pub(crate) fn create_store(&mut self) {
        let identity = self.config.create.take();
        let mut store_out = holdfast_store::Output::default();
        let store = Store::create(
            self.world.now,
            self.config.store,
            &self.config.devices,
            identity.expect("the devices are blank, and may be formatted once"),
            self.config.use_id,
            &mut store_out,
        );
        self.world.storage = Storage::new(store, store_out);
    }

    /// This node's record, as far as it is known before it is registered.
    fn record(&self, store: StoreId, uses: u64) -> NodeRecord {
        NodeRecord {
            schema: 1,
            node: self.config.node,
            name: self.config.name.clone(),
            store,
            uses,
            use_id: self.config.use_id,
            incarnation: Incarnation::ZERO,
            portal: self.config.portal.clone(),
            peer: self.config.peer.clone(),
            api: self.config.api.clone(),
        }
    }

    fn registration(&self, own: NodeRecord, use_ids: UseIds) -> Registration {
        let domain = self.config.failure_domain.clone();
        Registration::new(own, domain, use_ids, self.config.machine)
    }

    /// Peers are let in once the replicas are there that they will speak to.
    pub(crate) fn consider_announcing(&mut self, out: &mut Output) {
        let Some(me) = self.me else { return };
        if !self.announced && self.world.cluster.is_ready() && self.life == Life::Open {
            self.announced = true;
            let Me {
                store, incarnation, ..
            } = me;
            out.push(Command::Opened { store, incarnation });
        }
    }

    pub(crate) fn opened(&mut self, mut recovered: Recovered, out: &mut Output) {
        if let Some(newer) = NewerState::find(&recovered.slices) {
            self.life = Life::Stopped;
            out.push(Command::OpenFailed(newer.into()));
            return;
        }
        let notes = Notes::take_from(&mut recovered.slices);
        self.release_strays(&recovered.strays, out);
        self.tell_of_absent_devices();
        let held = recovered.slices.keys().copied().collect();
        let kept = recovered.slices.iter();
        let kept = kept.filter(|(_, found)| found.state.is_some());
        let begun = kept.map(|(slice, found)| {
            let state = found.state.as_ref();
            let held = holdfast_replica::held(*slice, state, found.intact, found.committed);
            (*slice, held.epoch)
        });
        self.world.cluster.begun = begun.collect();
        let own = self.record(recovered.store, recovered.use_counter);
        let registration = self.registration(own, *recovered.use_ids);
        self.world
            .cluster
            .start(self.config.cluster, registration, held, notes);
        self.life = Life::Open;
        self.recovered = Some(recovered);
    }

    /// The store was brought back from the past. What it holds, it holds as of nobody knows when: all of
    /// its replicas join anew, and the node is registered once that is durable.
    pub(crate) fn doubt(&mut self) {
        let recovered = self.recovered.as_mut().expect("the store is open");
        let begins_anew = self.world.cluster.begins_anew();
        if !begins_anew {
            self.world.notices.push(Notice::StoreBehind);
        }
        self.doubts = recovered.slices.len();
        let now = self.world.now;
        let cluster = &self.world.cluster;
        let storage = &mut self.world.storage;
        recovered.slices.retain(|slice, _| {
            let is_other = cluster.is_of_another_history(slice.volume);
            if is_other {
                storage.drop_doubted(now, *slice);
            }
            !is_other
        });
        for (slice, found) in &mut recovered.slices {
            let known = found.state.as_ref().filter(|_| !begins_anew);
            let state = holdfast_replica::doubted(known);
            found.state = Some(state.clone());
            self.world
                .storage
                .put_doubted(self.world.now, *slice, state);
        }
        if self.doubts == 0 {
            self.world.cluster.doubted();
        }
    }

    /// One of them is kept as such.
    pub(crate) fn doubt_kept(&mut self) {
        self.doubts -= 1;
        if self.doubts == 0 {
            self.world.cluster.doubted();
        }
    }

    /// Keeps what is to be kept of the metadata.
    pub(crate) fn keep_notes(&mut self) {
        let now = self.world.now;
        while let Some((slice, note)) = self.world.cluster.notes.next() {
            match note {
                Some(note) => self.world.storage.put_note(now, slice, note),
                None => self.world.storage.drop_note(now, slice),
            }
        }
    }

    /// Nothing more is asked of the store.
    pub(crate) fn device_failed(&mut self, disk: DiskId) {
        self.world.notices.push(Notice::DeviceFailed(disk));
        for slice in self.slices() {
            self.with_replica(slice, |replica, context| {
                replica.handle_failure(context);
            });
        }
        self.failed = true;
        self.parts.replicas_failed(self.world.now);
        self.timers.clear();
        self.timer_of.clear();
        self.portal.drop_all(self.world.now, &self.volumes);
    }

    /// The node knows who it is: it takes part from now on.
    pub(crate) fn registered(&mut self, incarnation: Incarnation, out: &mut Output) {
        let recovered = self.recovered.as_ref();
        let store = recovered.expect("the store is open").store;
        self.me = Some(Me {
            node: self.config.node,
            store,
            incarnation,
        });
        self.parts.name(self.config.node, incarnation);
        self.access.name(incarnation);
        out.push(Command::Registered);
        if let Some(former) = self.world.cluster.former() {
            let peer = former.into();
            self.world.notices.push(Notice::Replaced { peer });
        }
    }

    /// The operator wants the node to stop.
    pub(crate) fn stop(&mut self, now: Instant) {
        match self.life {
            Life::Opening => {
                self.life = Life::Stopping {
                    until: now,
                    at_last: now,
                };
            }
            Life::Open => self.prepare_to_leave(now),
            Life::Leaving { .. } | Life::Stopping { .. } | Life::Stopped => {}
        }
    }

    /// Stands for nothing from now on, and leaves in a moment, if somebody is there who may be told to stop as well.
    fn prepare_to_leave(&mut self, now: Instant) {
        self.world.takeovers.close();
        if !self.failed {
            self.world.cluster.say_stopped(now, self.config.node);
        }
        let is_alone = self.world.peers.nodes().next().is_none();
        if self.failed || is_alone {
            self.leave(now);
        } else {
            let until = now + STOP_TOGETHER;
            self.life = Life::Leaving { until };
        }
    }

    /// The others have had their time to hear that they are to stop, if they are.
    pub(crate) fn consider_leaving(&mut self) {
        if let Life::Leaving { until } = self.life
            && self.world.now >= until
        {
            self.leave(self.world.now);
        }
    }

    /// Hands over, and lets go of hosts.
    fn leave(&mut self, now: Instant) {
        self.life = Life::Stopping {
            until: now + STOP_REST,
            at_last: now + STOP_MAX,
        };
        self.portal.drop_all(now, &self.volumes);
        for slice in self.slices() {
            self.with_replica(slice, |replica, context| replica.stop(context));
        }
    }

    /// Another process may be this node by now: then this one hands over what it can, and ends.
    pub(crate) fn consider_successor(&mut self) {
        let own = self.config.node;
        if matches!(self.life, Life::Open | Life::Leaving { .. })
            && let Some(successor) = self.world.cluster.successor(own)
        {
            let peer = successor.peer.clone();
            self.world.notices.push(Notice::Displaced { peer });
            self.leave(self.world.now);
        }
    }

    /// The others have finished with a replica here: with more of them they may soon.
    pub(crate) fn replica_stopped(&mut self) {
        if let Life::Stopping { until, at_last } = &mut self.life {
            *until = (self.world.now + STOP_REST).min(*at_last);
        }
    }

    pub(crate) fn consider_stopped(&mut self, out: &mut Output) {
        let Life::Stopping { until, .. } = self.life else {
            return;
        };
        let is_unsaid = self.world.cluster.is_saying_stopped();
        let done = self.replicas.values().all(Replica::is_stopped) && !is_unsaid;
        if done || self.failed || self.world.now >= until {
            self.life = Life::Stopped;
            if is_unsaid {
                self.world.notices.push(Notice::Unsaid);
            }
            self.hand_over(out);
            let is_displaced = self.world.cluster.successor(self.config.node).is_some();
            out.push(if is_displaced {
                Command::Displaced
            } else {
                Command::Stopped
            });
        }
    }
}
