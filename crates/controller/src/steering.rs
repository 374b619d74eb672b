//! Steering: one of all controllers looks at the cluster again and again, and writes wishes.
//!
//! Who steers holds a lease of the metadata, and a record that goes with it. Every transaction of a pass
//! holds only as long as that record is its own: one that was slow and has been followed by another
//! changes nothing. For how long a node has been silent is counted by whoever steers, from when it
//! began to: a change of the one who steers makes repair later, never sooner. Alarms it makes no later than that it is noticed: what
//! those see who stand by counts ([`Witness`]).
//!
//! It refuses to decide anything: `control` plans.
//!
//! Invariants:
//! - one steers at a time, and only as the node of its process is one of the cluster's, and follows the metadata;
//! - looking takes a bounded share of everybody's time, however many slices there are.

mod term;

use std::collections::{BTreeMap, BTreeSet};
use std::mem::take;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use holdfast_api::documents::{LocalSilence, ReplicaCondition};
use holdfast_control::{
    Inventory, Seen, Sight, admit_all, clean_up, note_given_up, scrub_rounds, steer, without_record,
};
use holdfast_model::metadata::{MetadataRequest, Transaction};
use holdfast_model::{Epoch, Incarnation, NodeId, SliceId, VolumeId};
use tokio::time::{Instant, sleep};

use crate::Controller;
use crate::alarms::{AlarmWatch, Vigil, Way};
use crate::clock::unix_seconds;
use crate::events::{Chronicle, Witness};
use crate::reports::Reports;
use crate::trust::Steering;
use crate::view;

pub(crate) use self::term::TERM;
use self::term::{Lead, Over, STAND_PAUSE, Standing, Stood};

/// Between two passes at least: steps of a move follow each other at this pace.
const PASS_PAUSE: Duration = Duration::from_secs(1);
/// Between two passes passes as much time as one took, so many times.
const PASS_REST: u32 = 10;

/// A volume that gets no further for so long is being made by nobody: whoever makes it waits for its slices to be taken up
/// for a fraction of that.
const CLEARED_AFTER: Duration = Duration::from_secs(60);

/// What whoever steers remembers from pass to pass. Another one begins without it.
#[derive(Debug, Default)]
struct Memory {
    heard: BTreeMap<NodeId, Heard>,
    /// Replicas that were given up for dead.
    given_up: BTreeSet<(SliceId, NodeId)>,
    places: Option<Places>,
    /// Volumes that are being made, if somebody still does; how many slices they had, and since when.
    without_record: BTreeMap<VolumeId, (usize, Instant)>,
    /// Since when the node of this process has not followed the metadata, if it does not.
    unsure: Option<Instant>,
    /// When it was last looked whether all secrets are sealed.
    sealed: Option<Instant>,
    alarms: AlarmWatch,
    chronicle: Chronicle,
}

/// Where everything is, since when.
#[derive(Debug)]
struct Places {
    since: Instant,
    starts: BTreeMap<NodeId, Incarnation>,
    epochs: BTreeMap<SliceId, Epoch>,
}

impl Places {
    fn new(now: Instant, inventory: &Inventory) -> Self {
        let nodes = inventory.nodes.values();
        let slices = inventory.slices.values();
        Self {
            since: now,
            starts: nodes.map(|node| (node.node, node.incarnation)).collect(),
            epochs: slices.map(|slice| (slice.slice, slice.epoch)).collect(),
        }
    }

    fn is_of(&self, inventory: &Inventory) -> bool {
        let nodes = inventory.nodes.values();
        let slices = inventory.slices.values();
        nodes
            .map(|node| (node.node, node.incarnation))
            .eq(self.starts.iter().map(|it| (*it.0, *it.1)))
            && slices
                .map(|slice| (slice.slice, slice.epoch))
                .eq(self.epochs.iter().map(|it| (*it.0, *it.1)))
    }
}

impl Memory {
    /// For how long nothing has moved, and all nodes that may be given something have taken part.
    fn unchanged(&mut self, now: Instant, inventory: &Inventory, reports: &Reports) -> Duration {
        let active = |node: &&NodeId| inventory.is_active(**node);
        let mut active = inventory.nodes.keys().filter(active);
        let is_quiet = inventory.wishes.is_empty() && active.all(|node| reports.takes_part(*node));
        let known = self.places.take_if(|it| is_quiet && it.is_of(inventory));
        let places = known.unwrap_or_else(|| Places::new(now, inventory));
        let unchanged = now.duration_since(places.since);
        self.places = Some(places);
        unchanged
    }
}

impl Memory {
    /// Whether something may be planned.
    ///
    /// # Errors
    /// Whoever steers has to leave it to another one.
    fn may_plan(&mut self, steering: Steering, now: Instant) -> Result<bool, Over> {
        let since = match steering {
            Steering::NoNode => return Err(Over::NoNode),
            Steering::Disbelieved => return Err(Over::Unsure),
            Steering::Allowed => None,
            Steering::NotNow => Some(self.unsure.unwrap_or(now)),
        };
        self.unsure = since;
        match since {
            Some(since) if now.duration_since(since) >= TERM => Err(Over::Unsure),
            since => Ok(since.is_none()),
        }
    }

    /// What was left of volumes whose making was cut short, to be cleared away. Nobody sees them, and they are held all the
    /// same.
    fn clear_abandoned(&mut self, now: Instant, inventory: &Inventory) -> Vec<Transaction> {
        let found = without_record(inventory).into_iter();
        let found = found.map(|(volume, slices)| {
            let known = self.without_record.get(&volume);
            let known = known.copied().filter(|(before, _)| *before == slices);
            (volume, known.unwrap_or((slices, now)))
        });
        self.without_record = found.collect();
        clean_up(inventory, |volume| {
            let known = self.without_record.get(&volume);
            known.is_some_and(|(_, since)| now.duration_since(*since) >= CLEARED_AFTER)
        })
    }
}

impl Memory {
    /// That of one who has seen this before it began to steer.
    fn after(witness: Witness) -> Self {
        let (seen, alarms) = witness.into_parts();
        Self {
            alarms: alarms.alarms(),
            chronicle: Chronicle::after(seen),
            ..Self::default()
        }
    }

    /// Raises alarms and puts down what has changed.
    async fn tell(
        &mut self,
        controller: &Controller,
        lead: &Lead,
        inventory: &Inventory,
        reports: &Reports,
    ) {
        let alarms = &mut self.alarms;
        let alarms = alarms.pass(controller, &lead.own, inventory, reports);
        let alarms = alarms.await;
        let (chronicle, sure_until) = (&mut self.chronicle, lead.sure_until());
        let pass = chronicle.pass(controller, inventory, reports, alarms, sure_until);
        pass.await;
        let (held, until_ms) = self.chronicle.held();
        self.alarms.count_in(held, until_ms);
    }
}

/// Which nodes are silent, as long as this controller steers: what a repair delay is counted by.
#[derive(Clone, Debug, Default)]
pub(crate) struct Silences(Arc<Mutex<BTreeMap<NodeId, Silence>>>);

/// Since when a node is silent, as far as is known.
#[derive(Clone, Copy, Debug)]
struct Silence {
    since: Instant,
    at_least: bool,
}

impl Silences {
    /// For how long they have been.
    pub(crate) fn tell(&self) -> Vec<LocalSilence> {
        let since = self.0.lock().expect("nobody panics with it");
        let silent = since.iter().map(|(node, silence)| LocalSilence {
            node: node.0,
            seconds: silence.since.elapsed().as_secs(),
            at_least: silence.at_least,
        });
        silent.collect()
    }

    fn note(&self, silent: BTreeMap<NodeId, Silence>) {
        *self.0.lock().expect("nobody panics with it") = silent;
    }
}

/// What is remembered of a node.
#[derive(Clone, Copy, Debug)]
struct Heard {
    last: Instant,
    seen: Seen,
    /// It was never heard: `last` is when it was first to be.
    is_unheard: bool,
}

impl Heard {
    const fn silence(&self) -> Silence {
        Silence {
            since: self.last,
            at_least: self.is_unheard,
        }
    }
}

/// Steers whenever nobody else does. Never ends.
pub(crate) async fn run(controller: Controller) {
    let mut standing = Standing::default();
    let vigil = Vigil::begin(&controller);
    loop {
        match standing.stand(&controller).await {
            Stood::Chosen(mut own) => {
                tracing::info!("steers the cluster from now on");
                vigil.note(Way::Followed);
                let mut memory = Memory::after(take(&mut standing.witness));
                // It has moments left, in which others are to know that nobody steers any more.
                let over = tokio::select! {
                    over = lead(&controller, &mut own, &mut memory) => over,
                    () = controller.is_told_to_stop() => Over::NoNode,
                };
                controller.silences.note(BTreeMap::new());
                tracing::info!("steers the cluster no more");
                // In metadata that is not believed nothing is changed: there the lease ends by itself.
                if let Over::NoNode = over {
                    controller
                        .desk
                        .ask(MetadataRequest::Revoke(own.lease))
                        .await;
                }
            }
            Stood::Behind(leader) => {
                vigil.note(Way::Followed);
                standing.witness.pass(&controller, leader).await;
            }
            Stood::Nowhere => vigil.note(Way::Unknown),
            Stood::Unreached => vigil.note(Way::Away),
        }
        sleep(STAND_PAUSE).await;
    }
}

async fn lead(controller: &Controller, own: &mut Lead, memory: &mut Memory) -> Over {
    loop {
        let begun = Instant::now();
        let waited = match pass(controller, own, memory).await {
            Ok(waited) => waited,
            Err(over) => return over,
        };
        let worked = begun.elapsed().saturating_sub(waited);
        let end = Instant::now() + PASS_PAUSE.max(worked * PASS_REST);
        // However long that is, the lease lives on.
        while Instant::now() < end || own.is_to_be_renewed() {
            if let Err(over) = own.live_on(controller).await {
                return over;
            }
            sleep(
                end.saturating_duration_since(Instant::now())
                    .min(PASS_PAUSE),
            )
            .await;
        }
    }
}

/// Looks once, and writes what follows. Tells for how long it was waited for nodes that are away.
async fn pass(
    controller: &Controller,
    lead: &mut Lead,
    memory: &mut Memory,
) -> Result<Duration, Over> {
    if !memory.may_plan(controller.may_steer(), Instant::now())? {
        return Ok(Duration::ZERO);
    }
    // It waits for nobody who asks.
    let (inventory, reports) = match controller.read_all().await {
        Ok(seen) => seen,
        Err(problem) => {
            tracing::debug!(%problem, "look at the cluster");
            memory.chronicle.sees_nothing();
            return Ok(Duration::ZERO);
        }
    };
    let waited = reports.waited();
    lead.live_on(controller).await?;
    if controller.has_gone_back(inventory.revision) {
        tracing::debug!("the metadata has gone back: nothing is planned");
        return Ok(waited);
    }
    note(&inventory, &reports, &mut memory.heard);
    let silent = memory
        .heard
        .iter()
        .filter(|(node, _)| !reports.takes_part(**node));
    let silent = silent
        .map(|(node, heard)| (*node, heard.silence()))
        .collect();
    controller.silences.note(silent);
    let mut sight = sight(&inventory, &reports, |node| {
        let heard = memory.heard.get(&node)?;
        let silent = heard.last.elapsed();
        Some(Seen {
            silent,
            ..heard.seen
        })
    });
    memory.tell(controller, lead, &inventory, &reports).await;
    sight.unchanged = memory.unchanged(Instant::now(), &inventory, &reports);
    note_given_up(&inventory, &sight, &mut memory.given_up);
    sight.given_up.clone_from(&memory.given_up);
    let mut steps = match admit_all(&inventory) {
        Some(step) => vec![step],
        None => steer(&inventory, &sight),
    };
    steps.extend(memory.clear_abandoned(Instant::now(), &inventory));
    steps.extend(scrub_rounds(&inventory, &sight, unix_seconds()));
    let looked = &mut memory.sealed;
    steps.extend(controller.seal_anew((&inventory, &reports), looked).await);
    lead.write(controller, steps).await?;
    Ok(waited)
}

/// Takes note of who is up, with open devices, and follows the metadata. Who was never heard counts from now on.
fn note(inventory: &Inventory, reports: &Reports, heard: &mut BTreeMap<NodeId, Heard>) {
    heard.retain(|node, _| inventory.nodes.contains_key(node));
    for node in inventory.nodes.keys() {
        let now = Instant::now();
        let known = heard.entry(*node).or_insert(Heard {
            last: now,
            seen: Seen::default(),
            is_unheard: true,
        });
        if let Some(seen) = reports.seen(*node) {
            *known = Heard {
                last: now,
                seen,
                is_unheard: false,
            };
        }
    }
}

/// What plans need of what the nodes say; `before` tells for how long one that is not up has been
/// silent, and what it said last.
pub(crate) fn sight(
    inventory: &Inventory,
    reports: &Reports,
    before: impl Fn(NodeId) -> Option<Seen>,
) -> Sight {
    let nodes = inventory.nodes.keys().map(|node| {
        let up = reports.seen(*node);
        let seen = match (up, before(*node)) {
            (Some(seen), _) => seen,
            (None, Some(seen)) => Seen {
                // It is not up, however short that is.
                silent: seen.silent.max(Duration::from_nanos(1)),
                ..seen
            },
            (None, None) => Seen {
                silent: Duration::MAX,
                ..Seen::default()
            },
        };
        (*node, seen)
    });
    let bad = inventory.slices.values().filter(|slice| {
        let mut replicas = reports.replicas(slice.slice);
        replicas
            .any(|(node, local)| local.bad_blocks > 0 && slice.in_sync().any(|other| other == node))
    });
    Sight {
        nodes: nodes.collect(),
        bad: bad.map(|slice| slice.slice).collect(),
        given_up: BTreeSet::new(),
        used: used_bytes(inventory, reports),
        empty: view::empty(inventory, reports),
        lacks_room: lacks_room(inventory, reports),
        work: work(inventory, reports),
        unchanged: Duration::ZERO,
    }
}

/// What each replica does for hosts.
fn work(inventory: &Inventory, reports: &Reports) -> BTreeMap<(SliceId, NodeId), u64> {
    let slices = inventory.slices.keys();
    let replicas = slices.flat_map(|slice| reports.replicas(*slice).map(|it| (*slice, it)));
    let work = replicas.map(|(slice, (node, local))| ((slice, node), local.work_per_second));
    work.collect()
}

/// What a copy of each slice takes, of which anybody knows it.
fn used_bytes(inventory: &Inventory, reports: &Reports) -> BTreeMap<SliceId, u64> {
    let slices = inventory.slices.iter();
    let used = slices.filter_map(|(id, it)| Some((*id, view::slice_used_bytes(reports, it)?)));
    used.collect()
}

fn lacks_room(inventory: &Inventory, reports: &Reports) -> BTreeSet<(SliceId, NodeId)> {
    let slices = inventory.slices.keys();
    let replicas = slices.flat_map(|slice| reports.replicas(*slice).map(|it| (*slice, it)));
    let full = replicas.filter(|(_, (_, replica))| {
        let condition = replica.condition.as_ref();
        condition.is_some_and(|condition| condition.what == ReplicaCondition::NoRoom)
    });
    full.map(|(slice, (node, _))| (slice, node)).collect()
}

#[cfg(test)]
mod tests {
    use holdfast_control::Versioned;
    use holdfast_model::ClusterId;
    use holdfast_model::record::{
        ClusterRecord, DeletedRecord, NameRecord, SettingsRecord, WishRecord,
    };

    use holdfast_model::metadata::Revision;

    use super::*;

    fn versioned<T>(record: T) -> Versioned<T> {
        Versioned {
            record,
            revision: Revision(3),
        }
    }

    /// Of a volume whose making was cut short there is a name and nothing else.
    fn cut_short() -> Inventory {
        let cluster = ClusterRecord {
            schema: 1,
            cluster: ClusterId(1),
            next_volume: VolumeId(8),
            recoveries: 0,
            incarnation_floor: Incarnation::ZERO,
        };
        let name = NameRecord {
            schema: 1,
            volume: VolumeId(7),
        };
        Inventory {
            revision: Revision(3),
            cluster: versioned(cluster),
            deleted: versioned(DeletedRecord::default()),
            nodes: BTreeMap::new(),
            domains: BTreeMap::new(),
            names: BTreeMap::from([("big".to_owned(), versioned(name))]),
            makings: BTreeSet::from([VolumeId(7)]),
            volumes: BTreeMap::new(),
            slices: BTreeMap::new(),
            settings: versioned(SettingsRecord::default()),
            intents: BTreeMap::new(),
            drains: BTreeMap::new(),
            wishes: BTreeMap::new(),
            scrubs: BTreeMap::new(),
            initiators: BTreeMap::new(),
            exports: BTreeMap::new(),
            creations: BTreeMap::new(),
            scrubbed: BTreeMap::new(),
        }
    }

    #[test]
    fn what_is_left_of_a_volume_is_cleared_away_in_the_end() {
        let mut memory = Memory::default();
        let inventory = cut_short();
        let start = Instant::now();
        let end = start + CLEARED_AFTER;
        assert_eq!(memory.clear_abandoned(start, &inventory), []);
        let before = end - Duration::from_secs(1);
        assert_eq!(
            memory.clear_abandoned(before, &inventory),
            [],
            "it may be slow"
        );
        assert_eq!(memory.clear_abandoned(end, &inventory).len(), 1);
        let mut gone = inventory.clone();
        gone.names.clear();
        assert_eq!(memory.clear_abandoned(end, &gone), []);
        assert_eq!(
            memory.clear_abandoned(end, &inventory),
            [],
            "that is another one"
        );
    }

    #[test]
    fn who_does_not_follow_the_metadata_plans_nothing_and_leaves_it_to_another_in_the_end() {
        let mut memory = Memory::default();
        let start = Instant::now();
        let mut plans = |steering, seconds| {
            let planned = memory.may_plan(steering, start + Duration::from_secs(seconds));
            planned.map_err(|over| matches!(over, Over::NoNode))
        };
        assert_eq!(plans(Steering::Allowed, 0), Ok(true));
        assert_eq!(plans(Steering::NotNow, 1), Ok(false));
        assert_eq!(plans(Steering::NotNow, 6), Ok(false));
        assert_eq!(plans(Steering::Allowed, 8), Ok(true));
        assert_eq!(plans(Steering::NotNow, 20), Ok(false), "since now");
        assert_eq!(plans(Steering::NotNow, 26), Err(false));
        assert_eq!(plans(Steering::Disbelieved, 31), Err(false));
        assert_eq!(plans(Steering::NoNode, 32), Err(true));
    }

    #[test]
    fn work_is_known_when_nothing_has_changed_for_long() {
        let mut memory = Memory::default();
        let mut inventory = cut_short();
        let reports = Reports::default();
        let start = Instant::now();
        let minute = Duration::from_secs(60);
        assert_eq!(
            memory.unchanged(start, &inventory, &reports),
            Duration::ZERO
        );
        assert_eq!(
            memory.unchanged(start + minute, &inventory, &reports),
            minute
        );
        let wish = WishRecord {
            schema: 1,
            slice: SliceId {
                volume: VolumeId(7),
                index: 0,
            },
            nodes: vec![NodeId(1)],
            kept: Vec::new(),
            preferred: NodeId(1),
        };
        inventory.wishes.insert(wish.slice, versioned(wish));
        let moving = memory.unchanged(start + minute * 2, &inventory, &reports);
        assert_eq!(moving, Duration::ZERO);
        inventory.wishes.clear();
        let after = memory.unchanged(start + minute * 3, &inventory, &reports);
        assert_eq!(after, minute, "since the move was seen last");
    }
}
