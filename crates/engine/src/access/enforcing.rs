//! A new access to a volume is enforced: everybody goes by it.
//!
//! What has to be waited for if somebody has lost a right: every node that is in sync in a slice of the volume has said that
//! it goes by the new state, for it may serve reads, and may come to lead; and the primary of each slice has said, in the
//! epoch that is on record, that everything it numbered before is committed. Who came to lead after the change has read
//! the new state together with becoming primary. Others may have served reads until their leases ended.
//!
//! A node that cannot be reached is asked through others. One that nobody reaches leads no more once its leases have ended, and
//! another takes its place; if none can, the order ends as not ready, and the change stands: it is enforced when somebody leads.
//!
//! Invariants:
//! - the list of primaries is not older than the change;
//! - a primary's word counts for the epoch for which it was given, and no other.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use holdfast_model::metadata::Revision;
use holdfast_model::record::{AccessRecord, Record, SliceRecord, VolumeRecord};
use holdfast_model::{Epoch, Fence, NodeId, VolumeId};
use holdfast_replica::FENCES_SINCE;
use holdfast_replica::timing::{DRIFT, LEASE};
use holdfast_stdx::{Bytes, Duration, Instant};
use holdfast_wire::{Enforce, Enforced};

use super::{Order, Stage};
use crate::engine::Engine;

/// How long nobody's right being lost may take to be told to all.
const TOLD_WITHIN: Duration = Duration::from_millis(250);
/// When somebody who has answered, and not said enough, is asked again.
const AGAIN: Duration = Duration::from_millis(20);
/// When somebody who has not answered is asked again, this time through others as well.
const ROUND: Duration = Duration::from_millis(250);

/// What a node has been asked, and has said.
#[derive(Debug)]
struct Asked {
    at: Instant,
    /// The slices that it leads, and in which epochs, as it said last.
    led: Option<BTreeMap<u32, Epoch>>,
}

/// How far it is.
#[derive(Debug)]
pub(super) struct Enforcing {
    volume: VolumeId,
    fence: Fence,
    /// The record.
    value: Bytes,
    revision: Revision,
    /// Somebody has lost a right by it.
    takes: bool,
    begun: Instant,
    asked: BTreeMap<NodeId, Asked>,
    /// Since when nodes that have not answered have been seen to be in sync nowhere.
    out_since: BTreeMap<NodeId, Instant>,
    /// When it is looked at again.
    pub(super) due: Instant,
}

impl Enforcing {
    pub(super) fn new(
        now: Instant,
        record: &AccessRecord,
        revision: Revision,
        takes: bool,
    ) -> Self {
        Self {
            value: record.encode(),
            volume: record.volume,
            fence: record.fence,
            revision,
            takes,
            begun: now,
            asked: BTreeMap::new(),
            out_since: BTreeMap::new(),
            due: now,
        }
    }

    fn has_answered(&self, node: NodeId) -> bool {
        let asked = self.asked.get(&node);
        asked.is_some_and(|asked| asked.led.is_some())
    }

    /// It is looked at again then, unless before.
    fn look_at(&mut self, now: Instant, due: Instant) {
        self.due = match self.due <= now {
            true => due,
            false => self.due.min(due),
        };
    }

    /// Whether a node leads a slice in this epoch, or a later one, and goes by the new state.
    fn leads(&self, node: NodeId, index: u32, epoch: Epoch) -> bool {
        let asked = self.asked.get(&node);
        let led = asked.and_then(|asked| asked.led.as_ref());
        led.and_then(|led| led.get(&index))
            .is_some_and(|led| *led >= epoch)
    }
}

impl Engine {
    /// Finds out whether everybody goes by it, and asks those who have not said so.
    pub(super) fn pursue_enforcing(&mut self, number: u64) {
        let now = self.world.now;
        self.note_who_is_out(number);
        let Some(missing) = self.missing(number) else {
            // What has happened since the change is not known yet.
            if let Some(enforcing) = self.enforcing(number) {
                enforcing.due = now + AGAIN;
            }
            return;
        };
        if missing.is_empty() {
            let order = self.order(number);
            let volume = order.volume;
            let proposed = order.proposed.take().expect("it has been done");
            if proposed.takes {
                let known = self.access.enforced.entry(volume).or_default();
                *known = proposed.record.fence.max(*known);
            }
            self.end_order(number, Some(proposed.response));
            return;
        }
        for node in missing {
            self.ask_to_enforce(number, node);
        }
    }

    /// Notes who is in sync in no slice of the volume.
    fn note_who_is_out(&mut self, number: u64) {
        let now = self.world.now;
        let takes = |it: &&mut Enforcing| it.takes;
        let Some(volume) = self.enforcing(number).filter(takes).map(|it| it.volume) else {
            return;
        };
        let records = self.world.cluster.slices_of(volume);
        let in_sync: BTreeSet<NodeId> = records.flat_map(SliceRecord::in_sync).collect();
        let out: Vec<NodeId> = self
            .neighbours()
            .filter(|it| !in_sync.contains(it))
            .collect();
        if let Some(enforcing) = self.enforcing(number) {
            enforcing
                .out_since
                .retain(|node, _| !in_sync.contains(node));
            for node in out {
                enforcing.out_since.entry(node).or_insert(now);
            }
        }
    }

    fn enforcing(&mut self, number: u64) -> Option<&mut Enforcing> {
        match self.access.orders.get_mut(&number)? {
            Order {
                stage: Stage::Enforcing(enforcing),
                ..
            } => Some(enforcing),
            _ => None,
        }
    }

    /// Who has not said yet what is needed; none if that is not known.
    fn missing(&self, number: u64) -> Option<BTreeSet<NodeId>> {
        let Order {
            volume,
            stage: Stage::Enforcing(enforcing),
            ..
        } = self.access.orders.get(&number)?
        else {
            return None;
        };
        let now = self.world.now;
        let elapsed = now.since(enforcing.begun);
        let mut missing = BTreeSet::new();
        // Whoever is in sync nowhere may have been until a moment ago, and have a read lease.
        let leases_over = |node: &NodeId| {
            let since = enforcing.out_since.get(node);
            enforcing.takes && since.is_some_and(|since| now.since(*since) > LEASE + DRIFT)
        };
        let told = !enforcing.takes && elapsed > TOLD_WITHIN;
        for node in self.neighbours() {
            let is_there = enforcing.takes || self.world.peers.link(node).is_some();
            if is_there && !leases_over(&node) && !told && !enforcing.has_answered(node) {
                missing.insert(node);
            }
        }
        if !enforcing.has_answered(self.config.node) {
            missing.insert(self.config.node);
        }
        if !enforcing.takes {
            return Some(missing);
        }
        let cluster = &self.world.cluster;
        if !cluster.is_known_through(enforcing.revision) {
            return None;
        }
        let volume_record = cluster.volumes.get(volume);
        let expected = volume_record.map_or(0, VolumeRecord::slice_count);
        let mut found = 0;
        for record in cluster.slices_of(*volume) {
            found += 1;
            let silent = record
                .in_sync()
                .filter(|node| !enforcing.has_answered(*node));
            missing.extend(silent);
            if !enforcing.leads(record.primary, record.slice.index, record.epoch) {
                missing.insert(record.primary);
            }
        }
        (found >= expected).then_some(missing)
    }

    /// Asks a node, unless it was asked a moment ago.
    fn ask_to_enforce(&mut self, number: u64, to: NodeId) {
        let (now, origin) = (self.world.now, self.config.node);
        let Some(enforcing) = self.enforcing(number) else {
            return;
        };
        let before = enforcing.asked.get(&to);
        let pause = match before {
            None => Duration::ZERO,
            Some(Asked { led: Some(_), .. }) => AGAIN,
            Some(Asked { led: None, .. }) => ROUND,
        };
        let due = before.map_or(now, |asked| asked.at + pause);
        if now < due {
            enforcing.look_at(now, due);
            return;
        }
        let is_silent = before.is_some_and(|asked| asked.led.is_none());
        let led = enforcing.asked.remove(&to).and_then(|asked| asked.led);
        enforcing.asked.insert(to, Asked { at: now, led });
        enforcing.look_at(now, now + ROUND);
        let question = Enforce {
            number,
            origin,
            to,
            volume: enforcing.volume,
            revision: enforcing.revision,
            record: enforcing.value.clone(),
        };
        if to == origin {
            self.ask_oneself(&question);
            return;
        }
        let is_linked = self.knows_fences(to);
        if is_linked {
            self.world.peers.send(to, question.clone().into());
        }
        if !is_linked || is_silent {
            let others = self.world.peers.nodes().filter(|it| *it != to);
            let others: Vec<NodeId> = others.filter(|it| self.knows_fences(*it)).collect();
            for through in others {
                self.world.peers.send(through, question.clone().into());
            }
        }
    }

    /// Whether a node has a link, and speaks of fences.
    pub(crate) fn knows_fences(&self, node: NodeId) -> bool {
        let link = self.world.peers.link(node);
        link.is_some_and(|link| link.peer.version >= FENCES_SINCE)
    }

    /// A node has said that it goes by a new state, and where it leads.
    pub(crate) fn enforced(&mut self, answer: Enforced) {
        if let Some(enforcing) = self.enforcing(answer.number)
            && enforcing.volume == answer.volume
            && enforcing.fence <= answer.fence
            && let Some(asked) = enforcing.asked.get_mut(&answer.from)
        {
            asked.led = Some(answer.led.into_iter().collect());
            self.pursue_enforcing(answer.number);
        }
    }

    /// A slice's record is another: somebody else may have to be asked.
    pub(crate) fn look_at_enforcing(&mut self, volume: VolumeId) {
        let orders = self.access.orders.iter_mut();
        for (_, order) in orders.filter(|(_, order)| order.volume == volume) {
            if let Stage::Enforcing(enforcing) = &mut order.stage {
                enforcing.due = self.world.now;
            }
        }
    }
}
