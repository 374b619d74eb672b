//! Who copies to a joining replica: a secondary where one can, so that whoever serves hosts need not read
//! and send what others have as well.
//!
//! Invariants:
//! - what a source does not send, or may have sent in vain, is copied from here; so is what was asked of one
//!   that has fallen silent, for it may be the joining replica that is to take its place;
//! - a source that sends nothing of what it is asked for is left aside, and asked for one page now and then;
//! - a page counts as copied when it is durable at the joining replica, whoever sent it.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use holdfast_model::NodeId;
use holdfast_stdx::Instant;
use holdfast_wire::{Supplied, SupplyOutcome};

use super::Primary;
use super::member::Member;
use crate::marks::Lacking;
use crate::supply::knows_supply;
use crate::timing::SUPPLY_REST;
use crate::{Context, Replica, Role};

/// A source that does not send so many pages one after the other most likely sends none: it has no link to the
/// joining replica, or its disk hangs. Single pages it may not send because blocks of them are bad there.
const NOT_SENT_MAX: u32 = 4;

/// Pages that secondaries were asked to copy, by the copies' numbers.
#[derive(Debug, Default)]
pub(super) struct Orders {
    orders: BTreeMap<u64, Order>,
    /// Those that did not send what they were asked for last.
    failing: BTreeMap<NodeId, Failing>,
}

/// How a source has failed to send what it was asked for.
#[derive(Clone, Copy, Debug)]
struct Failing {
    /// So many pages, one after the other.
    not_sent: u32,
    /// It is asked for nothing before this.
    rests_until: Instant,
}

/// A page that a secondary was asked to copy.
#[derive(Debug)]
struct Order {
    source: NodeId,
    lacking: Lacking,
    /// The source has said that it is on its way, with so many bytes of data.
    sent: Option<u64>,
    /// It is durable at the joining replica.
    is_durable: bool,
}

impl Orders {
    pub(super) fn is_empty(&self) -> bool {
        self.orders.is_empty()
    }

    pub(super) fn lacking(&self) -> impl Iterator<Item = &Lacking> {
        self.orders.values().map(|order| &order.lacking)
    }

    /// Whom to ask for the next page: whoever has the fewest to copy, but for those that are left aside.
    pub(super) fn least_asked(&self, now: Instant, sources: &[NodeId]) -> Option<NodeId> {
        let may_ask = |source: &&NodeId| match self.failing.get(*source) {
            Some(failing) if failing.not_sent >= NOT_SENT_MAX => {
                now >= failing.rests_until && self.asked(**source) == 0
            }
            _ => true,
        };
        let sources = sources.iter().filter(may_ask);
        sources.copied().min_by_key(|source| self.asked(*source))
    }

    /// How many pages a source has to copy.
    fn asked(&self, source: NodeId) -> usize {
        let orders = self.orders.values();
        orders.filter(|order| order.source == source).count()
    }

    /// A source has not sent a page that it was asked for.
    fn note_failure(&mut self, now: Instant, source: NodeId) {
        let failing = self.failing.entry(source).or_insert(Failing {
            not_sent: 0,
            rests_until: now,
        });
        failing.not_sent = failing.not_sent.saturating_add(1);
        failing.rests_until = now + SUPPLY_REST;
    }

    pub(super) fn ask(&mut self, number: u64, source: NodeId, lacking: Lacking) {
        let order = Order {
            source,
            lacking,
            sent: None,
            is_durable: false,
        };
        self.orders.insert(number, order);
    }

    /// A copy is durable: what was lacking, and the bytes that travelled for it, as far as they are known yet.
    pub(super) fn durable(&mut self, number: u64) -> Option<(Lacking, u64)> {
        let order = self.orders.get_mut(&number)?;
        if order.is_durable {
            return None;
        }
        order.is_durable = true;
        let (lacking, sent) = (order.lacking, order.sent);
        if sent.is_some() {
            self.orders.remove(&number);
        }
        Some((lacking, sent.unwrap_or(0)))
    }

    /// A source has sent a copy: the bytes that travelled, if that is durable already.
    fn sent(&mut self, source: NodeId, number: u64, bytes: u64) -> Option<u64> {
        let order = self.orders.get_mut(&number);
        let order = order.filter(|order| order.source == source)?;
        order.sent = Some(bytes);
        let is_durable = order.is_durable;
        self.failing.remove(&source);
        if is_durable {
            self.orders.remove(&number);
        }
        is_durable.then_some(bytes)
    }

    /// A source has not sent a copy, and will not: what is still lacking.
    fn not_sent(&mut self, now: Instant, source: NodeId, number: u64) -> Option<Lacking> {
        let order = self.orders.get(&number)?;
        let is_lacking = order.source == source && !order.is_durable;
        let order = is_lacking.then(|| self.orders.remove(&number))??;
        self.note_failure(now, source);
        Some(order.lacking)
    }

    /// Whatever was asked of a source may not arrive: what is still lacking.
    fn lose(&mut self, source: NodeId) -> Vec<Lacking> {
        let (lost, kept) = core::mem::take(&mut self.orders)
            .into_iter()
            .partition(|(_, order): &(u64, Order)| order.source == source);
        self.orders = kept;
        let lost: BTreeMap<u64, Order> = lost;
        let lacking = lost.into_values().filter(|order| !order.is_durable);
        lacking.map(|order| order.lacking).collect()
    }
}

impl Primary {
    /// The secondaries that can copy to a joining replica. What others were asked to copy, which have fallen
    /// silent, is copied from here.
    pub(super) fn sources(&mut self, context: &dyn Context) -> Vec<NodeId> {
        let secondaries = self.in_sync_members();
        let secondaries: Vec<(NodeId, bool)> = secondaries
            .map(|(node, member)| (node, is_there(context, node, member)))
            .collect();
        for (node, _) in secondaries.iter().filter(|(_, is_there)| !is_there) {
            self.lose_source(*node);
        }
        let sources = secondaries.into_iter();
        sources
            .filter(|(node, is_there)| *is_there && knows_supply(context, *node))
            .map(|(node, _)| node)
            .collect()
    }

    /// The link to a secondary is gone: what it was asked to copy is copied from here.
    pub(super) fn lose_source(&mut self, source: NodeId) {
        for member in self.members.values_mut() {
            if let Some(catch_up) = member.catch_up_mut() {
                let lost = catch_up.orders.lose(source);
                catch_up.returned.extend(lost);
            }
        }
    }
}

/// Whether a secondary can be expected to copy.
fn is_there(context: &dyn Context, node: NodeId, member: &Member) -> bool {
    let now = context.now();
    member.can_supply(now) && member.loss(now, context.peer(node)).is_none()
}

impl Replica {
    /// A secondary says what became of copies that it was asked for.
    pub(crate) fn handle_supplied(
        &mut self,
        context: &mut dyn Context,
        peer: NodeId,
        supplied: &Supplied,
    ) {
        let Role::Primary(primary) = &mut self.role else {
            return;
        };
        if primary.epoch != supplied.epoch {
            return;
        }
        let now = context.now();
        let member = primary.members.get_mut(&supplied.to);
        let Some(catch_up) = member.and_then(|member| member.catch_up_mut()) else {
            return;
        };
        match supplied.outcome {
            SupplyOutcome::Sent { number, bytes } => {
                if let Some(bytes) = catch_up.orders.sent(peer, number, bytes) {
                    catch_up.moved(bytes);
                    context.copied(supplied.to, 0, bytes);
                }
            }
            SupplyOutcome::NotSent { number } => {
                let lacking = catch_up.orders.not_sent(now, peer, number);
                catch_up.returned.extend(lacking);
            }
            SupplyOutcome::LinkLost => {
                let lost = catch_up.orders.lose(peer);
                catch_up.returned.extend(lost);
            }
        }
    }
}
