//! Guests: volumes that are made while a run goes on, used by hosts of their own, and deleted, with the plans that ship
//! (`holdfast_control`), carried out transaction by transaction as the daemons' controllers do it.
//!
//! Invariants:
//! - what is asked of a controller ends with its process; a transaction that is on its way arrives all the same, or never;
//! - each volume has a place in the plan of its own, though its name may have been another one's: nothing that was written to
//!   one counts for another;
//! - while one may come into being nobody's devices lose anything: where its replicas are to be was decided before.

use std::collections::{BTreeMap, VecDeque};

use holdfast_control::{
    Inventory, PlanError, Seen, VolumeName, VolumeSize, clean_up, create, delete,
};
use holdfast_model::metadata::{Operation, Revision, Transaction};
use holdfast_model::record::{Record, VOLUMES_PREFIX, VolumeRecord};
use holdfast_model::{NodeId, PAGE_SIZE, VolumeId};
use holdfast_scsi::logical_unit::Identity;
use holdfast_stdx::{Duration, Instant, Prng};

use super::node::{CLUSTER, ProcessId};
use super::{Cluster, Happening};
use crate::boot;
use crate::failure::Failure;
use crate::host::{Host, HostPlan};
use crate::network::Place;
use crate::volumes::VolumePlan;

/// A volume that may be made, and the host that then uses it.
#[derive(Clone, Debug)]
pub struct GuestPlan {
    /// The volume. Others may have the same name.
    pub volume: VolumePlan,
    /// The host.
    pub host: HostPlan,
}

/// What an operator wants of volumes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VolumeOrder {
    /// A guest, by its place in the plan, is to be made.
    Make {
        /// Which.
        guest: u8,
        /// Whoever asked hangs up after so many transactions: the rest is not carried out.
        hangs_up: Option<u8>,
    },
    /// Whatever has the name of a guest is to be deleted.
    Delete {
        /// Whose name it is.
        guest: u8,
        /// Hosts begin nothing new from then on; else they go on until they find out.
        orderly: bool,
    },
    /// What was cut short is to be cleared away.
    CleanUp,
}

/// How far something is that was asked of a controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// It looks what there is.
    Look,
    /// A transaction arrives at the metadata.
    Arrives,
    /// It hears whether that was done; or that nobody knows.
    Hears(Option<bool>),
}

/// Something that is asked of a process's controller.
#[derive(Debug)]
struct Request {
    order: VolumeOrder,
    process: ProcessId,
    /// Which volume is to be deleted, whatever has its name by then.
    meant: Option<VolumeId>,
    attempt: u32,
    /// The transactions that are left of the plan.
    plan: VecDeque<Transaction>,
    /// How many of it were done.
    done: u8,
    /// On its way, and for which store of the metadata.
    sent: Option<(Transaction, u64)>,
    /// How far somebody else was with a volume of that name, and since when.
    other: Option<((Revision, usize), Instant)>,
}

/// Guests, and what is wanted of them.
#[derive(Debug)]
pub(super) struct Guests {
    prng: Prng,
    requests: BTreeMap<u64, Request>,
    next_request: u64,
    /// The host of each that was made.
    made: BTreeMap<VolumeId, usize>,
}

/// How often a plan is made anew, the pause before that, and for how long somebody else who makes a volume of that name may
/// do nothing: as the daemons' controllers have it, but for the last, for runs are short.
const ATTEMPTS_MAX: u32 = 32;
const ATTEMPT_PAUSE: Duration = Duration::from_millis(10);
const ABANDONED_AFTER: Duration = Duration::from_millis(400);
/// Between two looks meanwhile, and of one who stands still.
const POLL: Duration = Duration::from_millis(50);
/// How long an answer of the metadata is waited for.
const PATIENCE: Duration = Duration::from_millis(500);
/// One transaction in so many is late.
const LATE_ONE_IN: u64 = 10;
/// By so much at most.
const LATE_NANOS: u64 = 2_000_000_000;

impl Guests {
    pub(super) fn new(prng: Prng) -> Self {
        Self {
            prng,
            requests: BTreeMap::new(),
            next_request: 0,
            made: BTreeMap::new(),
        }
    }

    /// Whether a volume may come into being, on the devices that nodes had a moment ago.
    pub(super) fn is_making(&self) -> bool {
        let mut requests = self.requests.values();
        requests.any(|it| matches!(it.order, VolumeOrder::Make { .. }))
    }
}

impl Cluster {
    /// The operator wants something of volumes, over any node that reaches the metadata. Says whether somebody takes the
    /// order, and there is something to do.
    pub(super) fn order_volume(&mut self, order: VolumeOrder) -> Result<bool, Failure> {
        if self.is_outdated() {
            return Ok(false);
        }
        let Some(over) = self.choose_who_is_asked() else {
            return Ok(false);
        };
        let Some(process) = self.can_steer(over) else {
            return Ok(false);
        };
        let mut meant = None;
        if let VolumeOrder::Delete { guest, orderly } = order {
            let name = &self.plan.guests[usize::from(guest)].volume.name.clone();
            let inventory = self.inventory();
            let volume = inventory.and_then(|it| Some(it.volume(name)?.record.volume));
            let Some(volume) = volume else {
                return Ok(false);
            };
            meant = Some(volume);
            if let Some(host) = self.guests.made.get(&volume).filter(|_| orderly) {
                self.hosts[*host].busy = false;
            }
        }
        self.guests.next_request += 1;
        let number = self.guests.next_request;
        let request = Request {
            order,
            process,
            meant,
            attempt: 1,
            plan: VecDeque::new(),
            done: 0,
            sent: None,
            other: None,
        };
        self.guests.requests.insert(number, request);
        let delay = self.way_to_metadata();
        self.schedule(delay, Happening::Request(number, Step::Look));
        Ok(true)
    }

    /// Something that was asked of a controller goes on.
    pub(super) fn request(&mut self, number: u64, step: Step) -> Result<(), Failure> {
        let Some(mut request) = self.guests.requests.remove(&number) else {
            return Ok(());
        };
        if step == Step::Arrives {
            return self.arrives(number, request);
        }
        let process = request.process;
        let Some(running) = self.running(process) else {
            if request.done > 0 {
                self.reach("cut short by a death");
            }
            return Ok(());
        };
        if running.freeze.is_frozen() {
            self.goes_on(POLL, number, step, request);
            return Ok(());
        }
        match step {
            Step::Look => self.look_at_volumes(number, request),
            Step::Hears(Some(true)) => {
                request.done += 1;
                self.send_next(number, request);
            }
            Step::Hears(Some(false)) if request.order == VolumeOrder::CleanUp => {
                self.send_next(number, request);
            }
            Step::Hears(Some(false)) => {
                self.reach("others were faster");
                self.begin_anew(number, request);
            }
            Step::Hears(None) => {
                self.reach("outcome unknown");
                self.begin_anew(number, request);
            }
            Step::Arrives => unreachable!("it has arrived"),
        }
        Ok(())
    }

    fn goes_on(&mut self, after: Duration, number: u64, step: Step, request: Request) {
        self.guests.requests.insert(number, request);
        self.schedule(after, Happening::Request(number, step));
    }

    fn begin_anew(&mut self, number: u64, mut request: Request) {
        let pause = ATTEMPT_PAUSE * request.attempt;
        request.attempt += 1;
        (request.done, request.plan) = (0, VecDeque::new());
        if request.attempt <= ATTEMPTS_MAX && request.order != VolumeOrder::CleanUp {
            self.goes_on(pause, number, Step::Look, request);
        }
    }

    /// A plan is made of what there is.
    fn look_at_volumes(&mut self, number: u64, mut request: Request) {
        let from = request.process.node;
        let reaches = self
            .network
            .passes_both_ways(Place::Node(from), Place::Metadata);
        let inventory = self.inventory().filter(|_| reaches && !self.is_outdated());
        let Some(inventory) = inventory else {
            self.goes_on(PATIENCE, number, Step::Look, request);
            return;
        };
        let plan = match request.order {
            VolumeOrder::Make { guest, .. } => {
                if self.waits_for_other(guest, &inventory, &mut request) {
                    self.reach("waits for somebody else");
                    self.goes_on(POLL, number, Step::Look, request);
                    return;
                }
                self.plan_to_make(from, guest, &inventory)
            }
            VolumeOrder::Delete { guest, .. } => {
                let name = self.guest_name(guest);
                let found = inventory.volume(name.as_str());
                if found.map(|found| found.record.volume) == request.meant {
                    delete(&inventory, &name).map(|plan| plan.transactions)
                } else {
                    Ok(Vec::new())
                }
            }
            VolumeOrder::CleanUp => Ok(clean_up(&inventory, |_| true)),
        };
        match plan {
            Ok(plan) if plan.is_empty() => self.reach("nothing to do"),
            Ok(plan) => {
                request.plan = plan.into();
                self.send_next(number, request);
            }
            Err(refused) => {
                self.line(Place::Node(from), format_args!("refuses: {refused}"));
                self.reach(match refused {
                    PlanError::Exists { .. } => "refused: another of that name",
                    _ => "refused: too few nodes",
                });
            }
        }
    }

    fn guest_name(&self, guest: u8) -> VolumeName {
        let name = &self.plan.guests[usize::from(guest)].volume.name;
        name.parse().expect("a name of ours is a volume's name")
    }

    /// Whether somebody else makes a volume of that name, and goes on with it.
    fn waits_for_other(&self, guest: u8, inventory: &Inventory, request: &mut Request) -> bool {
        let name = self.guest_name(guest);
        let unfinished = inventory.names.get(name.as_str());
        let unfinished = unfinished.filter(|it| !inventory.volumes.contains_key(&it.record.volume));
        let Some(found) = unfinished else {
            return false;
        };
        let slices = inventory.slices.keys();
        let slices = slices.filter(|slice| slice.volume == found.record.volume);
        let seen = (found.revision, slices.count());
        match request.other {
            Some((before, since)) if before == seen => self.now.since(since) < ABANDONED_AFTER,
            _ => {
                request.other = Some((seen, self.now));
                true
            }
        }
    }

    fn plan_to_make(
        &self,
        from: NodeId,
        guest: u8,
        inventory: &Inventory,
    ) -> Result<Vec<Transaction>, PlanError> {
        let volume = &self.plan.guests[usize::from(guest)].volume;
        let size = VolumeSize::new(volume.bytes).expect("a size of ours is a volume's size");
        let reports = self.reports(from);
        let seen = |node| {
            let usage = reports.get(&node)?.usage;
            let page = PAGE_SIZE as u64;
            Some(Seen {
                bytes: usage.pages * page,
                free_bytes: usage.pages_free() * page,
                ..Seen::default()
            })
        };
        let name = self.guest_name(guest);
        let plan = create(inventory, seen, &name, size, volume.policy)?;
        Ok(plan.transactions)
    }

    /// The next transaction is sent, unless whoever asked has hung up.
    fn send_next(&mut self, number: u64, mut request: Request) {
        if let VolumeOrder::Make {
            hangs_up: Some(after),
            ..
        } = request.order
            && after == request.done
        {
            self.reach("hung up");
            return;
        }
        let Some(transaction) = request.plan.pop_front() else {
            return;
        };
        request.sent = Some((transaction, self.agreement.store()));
        let mut delay = self.way_to_metadata();
        if self.guests.prng.chance(1, LATE_ONE_IN) {
            delay += Duration::from_nanos(self.guests.prng.below(LATE_NANOS));
        }
        self.goes_on(delay, number, Step::Arrives, request);
    }

    /// A transaction arrives at the metadata.
    fn arrives(&mut self, number: u64, mut request: Request) -> Result<(), Failure> {
        let (transaction, store) = request.sent.take().expect("it was sent");
        let place = Place::Node(request.process.node);
        if store != self.agreement.store() || !self.network.passes(place, Place::Metadata) {
            self.goes_on(PATIENCE, number, Step::Hears(None), request);
            return Ok(());
        }
        let made = made_by(&transaction);
        self.note_surroundings(&request);
        let mut succeeded = false;
        self.change_metadata(|machine, out| {
            succeeded = boot::transact(machine, transaction, out).succeeded;
        })?;
        self.line(
            Place::Metadata,
            format_args!("{place} orders {:?}: {succeeded}", request.order),
        );
        if succeeded {
            self.volume_order_done(&request, made)?;
        }
        let lost_one_in = self.agreement.lost_one_in;
        let is_lost = lost_one_in > 0 && self.guests.prng.chance(1, lost_one_in);
        if is_lost || !self.network.passes(Place::Metadata, place) {
            self.goes_on(PATIENCE, number, Step::Hears(None), request);
        } else {
            let delay = self.network.delay();
            self.goes_on(delay, number, Step::Hears(Some(succeeded)), request);
        }
        Ok(())
    }

    /// A transaction of an order has changed something.
    fn volume_order_done(
        &mut self,
        request: &Request,
        made: Option<VolumeId>,
    ) -> Result<(), Failure> {
        match (request.order, made) {
            (VolumeOrder::Make { guest, .. }, Some(volume)) => self.guest_comes(guest, volume),
            (VolumeOrder::Make { .. }, None) => Ok(()),
            (VolumeOrder::Delete { .. }, _) => {
                let volume = request.meant.expect("a volume was meant");
                if let Some(host) = self.guests.made.get(&volume) {
                    self.hosts[*host].volume_is_gone();
                }
                self.reach("deleted");
                Ok(())
            }
            (VolumeOrder::CleanUp, _) => {
                self.reach("cleared away");
                Ok(())
            }
        }
    }

    /// A volume is there, and a host uses it.
    fn guest_comes(&mut self, guest: u8, volume: VolumeId) -> Result<(), Failure> {
        let GuestPlan { volume: plan, host } = self.plan.guests[usize::from(guest)].clone();
        let mut before = self.plan.volumes[self.planned_volumes()..].iter();
        let point = if before.any(|it| it.name == plan.name) {
            "made again"
        } else {
            "made"
        };
        self.reach(point);
        let place = self.plan.volumes.len();
        self.plan.volumes.push(plan);
        let host = HostPlan {
            volume: place,
            ..host
        };
        self.plan.hosts.push(host);
        let index = self.hosts.len();
        let nodes = self.node_ids();
        let mut host = Host::new(index, &self.plan, &nodes, &mut self.guests.prng);
        host.expect(Identity::of_volume(CLUSTER, volume).naa());
        host.busy = self.busy;
        self.hosts.push(host);
        self.guests.made.insert(volume, index);
        let now = self.now;
        self.with_host(index, |host, history, acts| host.act(now, history, acts))
    }

    /// What else goes on while a volume is deleted, or made.
    fn note_surroundings(&mut self, request: &Request) {
        let is_off = self.nodes.values().any(|node| node.process.is_none());
        let VolumeOrder::Delete { .. } = request.order else {
            return;
        };
        let Some(volume) = request.meant else { return };
        let records = self.slices().filter(|it| it.slice.volume == volume);
        let records: Vec<_> = records.cloned().collect();
        let off = |node: NodeId| self.nodes[&node].process.is_none();
        let cut = |node: NodeId| !self.network.passes(Place::Metadata, Place::Node(node));
        let holds = |what: &dyn Fn(NodeId) -> bool| {
            let mut nodes = records.iter().flat_map(|record| &record.replicas);
            nodes.any(|replica| what(replica.node))
        };
        let joins = records
            .iter()
            .any(|record| record.joining().next().is_some());
        let inventory = self.agreement.inventory();
        let moves = inventory.as_ref().is_some_and(|inventory| {
            let mut wishes = inventory.wishes.keys();
            wishes.any(|slice| slice.volume == volume)
        });
        let scrubbed = inventory.is_some_and(|inventory| {
            let scrub = inventory.scrubs.get(&volume);
            scrub.is_some_and(|scrub| scrub.record.is_under_way())
        });
        let points = [
            ("deleted: a holder is off", is_off && holds(&off)),
            ("deleted: a holder is cut off", holds(&cut)),
            ("deleted: a replica joins", joins),
            ("deleted: it moves", moves),
            ("deleted: it is scrubbed", scrubbed),
        ];
        for (point, _) in points.into_iter().filter(|(_, reached)| *reached) {
            self.reach(point);
        }
    }

    /// Volumes that are there from the beginning.
    pub(crate) fn planned_volumes(&self) -> usize {
        self.plan.volumes.len() - self.guests.made.len()
    }

    /// In the end: everything that was asked is answered, and what was cut short is cleared away. Says whether there is still
    /// something to be waited for.
    pub(crate) fn clear_volumes_away(&mut self) -> bool {
        if self.plan.guests.is_empty() {
            return false;
        }
        if !self.guests.requests.is_empty() {
            return true;
        }
        let Some(inventory) = self.inventory() else {
            return true;
        };
        if clean_up(&inventory, |_| true).is_empty() {
            return false;
        }
        self.order_volume(VolumeOrder::CleanUp).is_ok_and(|_| true)
    }

    /// What there is of volumes that are not there, in the end.
    pub(crate) fn left_of_volumes(&mut self) -> Option<String> {
        if self.plan.guests.is_empty() {
            return None;
        }
        let inventory = self.inventory()?;
        let is_there = |volume: VolumeId| inventory.volumes.contains_key(&volume);
        let names = inventory.names.values().map(|name| name.record.volume);
        let slices = inventory.slices.keys().map(|slice| slice.volume);
        let wishes = inventory.wishes.keys().map(|slice| slice.volume);
        let scrubs = inventory.scrubs.keys().copied();
        let scrubbed = inventory.scrubbed.keys().map(|slice| slice.volume);
        let all = names.chain(slices).chain(wishes);
        let mut all = all.chain(scrubs).chain(scrubbed);
        let left = all.find(|volume| !is_there(*volume))?;
        Some(format!(
            "the metadata has something of volume {left}, which is not there"
        ))
    }

    fn reach(&mut self, point: &'static str) {
        self.watch.coverage.reach("guest", point);
    }
}

/// The volume that is there once a transaction is done, if one is.
fn made_by(transaction: &Transaction) -> Option<VolumeId> {
    transaction.success.iter().find_map(|step| match step {
        Operation::Put { key, value, .. } if key.starts_with(VOLUMES_PREFIX) => {
            let record = VolumeRecord::decode(value).expect("our own records can be read");
            Some(record.volume)
        }
        _ => None,
    })
}
