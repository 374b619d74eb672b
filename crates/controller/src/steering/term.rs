//! A term: how one comes to steer, and for how long it does.
//!
//! Invariant: nothing is written in a term by one that another has followed.

use std::mem::take;
use std::time::Duration;

use holdfast_model::NodeId;
use holdfast_model::metadata::{
    Compare, LeaseId, MetadataAnswer, MetadataError, MetadataRequest, Operation, OperationResult,
    Revision, Selector, Transaction,
};
use holdfast_model::record::{LEADER_KEY, LeaderRecord, NODES_PREFIX, NodeRecord, Record};
use holdfast_stdx::Bytes;
use tokio::time::{Instant, sleep};

use super::PASS_PAUSE;
use crate::Controller;
use crate::events::Witness;
use crate::trust::Steering;

/// How long the lease lives on its own. No data waits for who steers; alarms and repairs do, and so do those who read what happens.
pub(crate) const TERM: Duration = Duration::from_secs(6);
/// How often the lease is renewed: three times before it ends.
const RENEWAL: Duration = Duration::from_secs(2);
/// Between two looks of one who might steer.
pub(super) const STAND_PAUSE: Duration = Duration::from_secs(1);

/// What whoever steers has.
pub(super) struct Lead {
    pub(super) lease: LeaseId,
    /// Its record.
    pub(super) own: Bytes,
    /// When it was last asked for the lease to live on, and it did: it lives a [`TERM`] from then on at least.
    renewed: Instant,
}

/// Why a term is over.
pub(super) enum Over {
    /// Somebody else steers, or the metadata does not answer.
    Deposed,
    /// The node of this process is none of the cluster's any more, or was told to stop.
    NoNode,
    /// It does not follow the metadata.
    Unsure,
}

impl Lead {
    pub(super) fn is_to_be_renewed(&self) -> bool {
        self.renewed.elapsed() >= RENEWAL
    }

    /// Until when nobody else can have taken the lead.
    pub(super) fn sure_until(&self) -> Instant {
        self.renewed + TERM
    }

    /// Renews the lease where that is due, as of before it is asked for. Without an answer it is tried again as long as there may be one.
    ///
    /// # Errors
    /// It has ended.
    pub(super) async fn live_on(&mut self, controller: &Controller) -> Result<(), Over> {
        if !self.is_to_be_renewed() {
            return Ok(());
        }
        let asked = Instant::now();
        let keep_alive = MetadataRequest::KeepAlive(self.lease);
        match controller.desk.ask(keep_alive).await {
            MetadataAnswer::KeptAlive => {
                self.renewed = asked;
                Ok(())
            }
            MetadataAnswer::Failed(MetadataError::NoSuchLease) => Err(Over::Deposed),
            _ => {
                sleep(PASS_PAUSE).await;
                match self.renewed.elapsed() < TERM {
                    true => Ok(()),
                    false => Err(Over::Deposed),
                }
            }
        }
    }

    /// Writes what follows from a pass, as long as it still has the lead, and can.
    ///
    /// # Errors
    /// Another one has it.
    pub(super) async fn write(
        &mut self,
        controller: &Controller,
        steps: Vec<Transaction>,
    ) -> Result<(), Over> {
        for mut step in steps {
            // There may be many, and each of them waits for a disk.
            self.live_on(controller).await?;
            let leads = Compare::Value {
                key: LEADER_KEY.into(),
                equals: self.own.clone(),
            };
            step.compare.push(leads);
            step.failure = vec![Operation::Range(Selector::Key(LEADER_KEY.into()))];
            let Ok(outcome) = controller.desk.transact(step).await else {
                return Ok(());
            };
            let leads = |result: &OperationResult| match result {
                OperationResult::Range(found) => found.iter().any(|pair| pair.value == self.own),
                _ => false,
            };
            if !outcome.succeeded && !outcome.results.iter().any(leads) {
                return Err(Over::Deposed);
            }
            // Else the world has changed: the next pass sees how.
        }
        Ok(())
    }
}

/// What one that does not steer remembers.
#[derive(Debug, Default)]
pub(super) struct Standing {
    pub(super) witness: Witness,
    /// The one that steered was an earlier start of this node: others have seen what happened since.
    gives_way: bool,
}

/// What came of standing.
pub(super) enum Stood {
    /// It steers.
    Chosen(Lead),
    /// This node does.
    Behind(NodeId),
    /// Nobody is known to.
    Nowhere,
    /// The metadata does not answer.
    Unreached,
}

impl Standing {
    /// Takes the lead, if nobody has it, and the node may.
    pub(super) async fn stand(&mut self, controller: &Controller) -> Stood {
        let steering = controller.may_steer();
        if steering == Steering::Disbelieved {
            return Stood::Nowhere;
        }
        match look(controller).await {
            Some(stood) => {
                if let Stood::Behind(leader) = stood {
                    self.gives_way = leader == NodeId(controller.number());
                }
                stood
            }
            // In the pause after this each other one looks.
            None if take(&mut self.gives_way) => Stood::Nowhere,
            None if steering == Steering::Allowed => take_lead(controller).await,
            None => Stood::Nowhere,
        }
    }
}

/// Where this process stands already, because somebody has the lead, or it cannot be known who has; nothing if nobody
/// has it. Who the nodes are is read along: each node is to know when the metadata is away, from its start on.
async fn look(controller: &Controller) -> Option<Stood> {
    let look = Transaction {
        success: vec![
            Operation::Range(Selector::Key(LEADER_KEY.into())),
            Operation::Range(Selector::Prefix(NODES_PREFIX.into())),
        ],
        ..Transaction::default()
    };
    let Ok(found) = controller.desk.transact(look).await else {
        return Some(Stood::Unreached);
    };
    if controller.has_gone_back(found.revision) {
        return Some(Stood::Nowhere);
    }
    if let Some(OperationResult::Range(nodes)) = found.results.get(1) {
        let nodes = nodes.iter();
        let records = nodes.filter_map(|pair| NodeRecord::decode(&pair.value).ok());
        controller.known_nodes.note(records.collect());
    }
    let Some(OperationResult::Range(found)) = found.results.first() else {
        return Some(Stood::Nowhere);
    };
    let leader = LeaderRecord::decode(&found.first()?.value).ok();
    Some(leader.map_or(Stood::Nowhere, |leader| Stood::Behind(leader.node)))
}

/// Takes the lead that nobody had, unless somebody else has taken it since.
async fn take_lead(controller: &Controller) -> Stood {
    let renewed = Instant::now();
    let granted = MetadataRequest::Grant { time_to_live: TERM };
    let MetadataAnswer::Granted { lease, .. } = controller.desk.ask(granted).await else {
        return Stood::Nowhere;
    };
    let node = controller.local.as_ref().map(|local| local.borrow().node);
    let record = LeaderRecord {
        schema: 1,
        node: NodeId(node.unwrap_or(0)),
        lease: lease.0,
    };
    let own = record.encode();
    let take = Transaction {
        compare: vec![Compare::ModRevision {
            key: LEADER_KEY.into(),
            equals: Revision(0),
        }],
        success: vec![Operation::Put {
            key: LEADER_KEY.into(),
            value: own.clone(),
            lease,
        }],
        failure: Vec::new(),
    };
    match controller.desk.transact(take).await {
        Ok(outcome) if outcome.succeeded => Stood::Chosen(Lead {
            lease,
            own,
            renewed,
        }),
        // If it was done all the same, it goes with the lease.
        _ => {
            controller.desk.ask(MetadataRequest::Revoke(lease)).await;
            Stood::Nowhere
        }
    }
}
