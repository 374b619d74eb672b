//! What a controller knows of the cluster when it is asked: the metadata, and what nodes say.
//!
//! Invariant: what the node in this process says is that of a node of the cluster only as long as no other
//! process has its number.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::SystemTime;

use holdfast_api::documents::{
    CertificateOf, ForeignCertificate, LocalMetadata, LocalReport, Vitals,
};
use holdfast_api::{Problem, ProblemKind};
use holdfast_control::{Inventory, InventoryError};
use holdfast_model::NodeId;
use holdfast_model::metadata::{Operation, OperationResult, Revision, Selector, Transaction};
use holdfast_model::record::{NodeRecord, Record, STOPS_PREFIX, StopRecord};
use holdfast_tls::Credentials;
use tokio::sync::watch;

use crate::clock::unix_ms;
use crate::looks::{Look, Seen};
use crate::reports::Reports;
use crate::stalls::Kept;
use crate::{Controller, problem};

/// For how long a stall is told as a node's longest: an hour.
const HOUR_MS: u64 = 60 * 60 * 1000;

impl Controller {
    /// What the metadata holds, for whoever does not need to know how the nodes are.
    pub(crate) async fn inventory(&self) -> Result<Look<Inventory>, Problem> {
        self.looks.own(self.read_metadata()).await
    }

    async fn read_metadata(&self) -> Result<Inventory, Problem> {
        let outcome = self
            .desk
            .transact(Inventory::query())
            .await
            .map_err(problem::unread)?;
        let inventory = Inventory::from_outcome(outcome).map_err(|error| match error {
            InventoryError::NoCluster => {
                let has_seen_it = self.seen.load(Ordering::Relaxed) > 0;
                problem::no_cluster(self.report().as_ref(), has_seen_it)
            }
            InventoryError::Record(_) | InventoryError::Answer => {
                Problem::new(ProblemKind::Internal, error)
                    .hint("another version of Holdfast may have written it")
            }
        })?;
        let found = inventory.cluster.record.cluster;
        if found != self.cluster {
            let detail = format!(
                "the metadata is that of cluster {found}, not {}",
                self.cluster
            );
            return Err(Problem::new(ProblemKind::Internal, detail)
                .hint("look at the addresses of the metadata in the configuration"));
        }
        if !self.has_gone_back(inventory.revision) {
            self.known_nodes
                .note(inventory.nodes.values().cloned().collect());
        }
        self.seen.fetch_max(inventory.revision.0, Ordering::Relaxed);
        Ok(inventory)
    }

    /// Whether metadata of this revision is older than what was there before: then nothing may be changed
    /// in it, for that would bring it to the revision that it had, and nobody would notice any more. An
    /// answer that others have overtaken looks the same: whoever asks again is told more.
    pub(crate) fn has_gone_back(&self, revision: Revision) -> bool {
        let local = self.local.as_ref();
        let is_behind =
            |local: &watch::Receiver<LocalReport>| local.borrow().metadata == LocalMetadata::Behind;
        revision.0 < self.seen.load(Ordering::Relaxed) || local.is_some_and(is_behind)
    }

    /// The node in this process: what it says of itself, and what it keeps.
    pub(crate) fn node_here(&self) -> Result<(LocalReport, &Kept), Problem> {
        match (&self.local, &self.kept) {
            (Some(local), Some(kept)) => Ok((local.borrow().clone(), kept)),
            _ => Err(problem::no_node()),
        }
    }

    /// What the metadata holds, and what the nodes say to it, for an order.
    pub(crate) async fn look(&self) -> Result<Look<Seen>, Problem> {
        self.looks.own(self.read_all()).await
    }

    /// The same for whoever only reads.
    ///
    /// # Errors
    /// The metadata cannot be read; or there are no nodes in it, and the one in this process knows that it is not what it has followed: what
    /// there is of the cluster is not known then.
    pub(crate) async fn view(&self) -> Result<Arc<Seen>, Problem> {
        let seen = self.looks.shared(self.read_all()).await?;
        match self.report() {
            Some(own) if seen.0.nodes.is_empty() && own.metadata == LocalMetadata::Behind => {
                Err(problem::not_believed(&own.name, own.astray.as_ref()))
            }
            _ => Ok(seen),
        }
    }

    pub(crate) async fn read_all(&self) -> Result<Seen, Problem> {
        let inventory = self.read_metadata().await?;
        let mut own = self.report();
        let rejected = own.take_if(|own| own.rejected.is_some());
        let asked = own.as_ref().map(|own| NodeId(own.node));
        let reports =
            Reports::collect(inventory.nodes.values(), own, self.connector.as_ref()).await;
        self.note_who_opens(&inventory, &reports);
        let reports = reports.asked_at(asked).beside(rejected);
        let stopped = self.stopped(&inventory, &reports).await?;
        let reports = reports.of_volumes(&inventory).but_stopped(stopped);
        Ok((inventory, reports))
    }

    /// Which of the nodes that do not answer have said that they stop. It is read after they were asked: a node says so before it ends.
    async fn stopped(
        &self,
        inventory: &Inventory,
        reports: &Reports,
    ) -> Result<BTreeSet<NodeId>, Problem> {
        let nodes = inventory.nodes.values();
        let silent: Vec<&NodeRecord> = nodes.filter(|it| !reports.is_up(it.node)).collect();
        if silent.is_empty() {
            return Ok(BTreeSet::new());
        }
        let query = Transaction {
            success: vec![Operation::Range(Selector::Prefix(STOPS_PREFIX.into()))],
            ..Transaction::default()
        };
        let outcome = self.desk.transact(query).await.map_err(problem::unread)?;
        let said = outcome.results.into_iter().flat_map(|result| match result {
            OperationResult::Range(found) => found,
            OperationResult::Put | OperationResult::Delete(_) => Vec::new(),
        });
        // What a newer version says in other words is not known.
        let said = said.filter_map(|pair| StopRecord::decode(&pair.value).ok());
        let said: Vec<StopRecord> = said.collect();
        let silent = silent.into_iter();
        let stopped = silent.filter(|node| said.iter().any(|said| said.is_of(node)));
        Ok(stopped.map(|node| node.node).collect())
    }

    /// What alarms about the node in this process are about, beside what it says itself.
    pub(crate) fn vitals(&self, local: &LocalReport) -> Vitals {
        let clock_ms = unix_ms();
        let kept = self.kept.as_ref();
        let stall = kept.map_or(0, |kept| {
            kept.longest_ms(local, clock_ms.saturating_sub(HOUR_MS))
        });
        let (whose, until) = self.first_to_expire().unzip();
        let to_etcd = self.shown_to_etcd.as_ref().and_then(|it| it.0());
        Vitals {
            clock_ms,
            longest_stall_ms: stall,
            certificate_expires_ms: until.and_then(since_1970_ms),
            certificate_of: whose,
            etcd_certificate: to_etcd.and_then(foreign),
        }
    }

    /// Which of the certificates that the cluster's authority answers for expires first, and when.
    fn first_to_expire(&self) -> Option<(CertificateOf, SystemTime)> {
        let own = self.credentials.as_ref();
        let authority = own.and_then(Credentials::authority_good_until);
        let own = own.map(|it| it.issued().not_after);
        let all = [
            (CertificateOf::Node, own),
            (CertificateOf::Authority, authority),
        ];
        let used = all.into_iter().filter_map(|(of, until)| Some((of, until?)));
        used.min_by_key(|(_, until)| *until)
    }

    /// What the node in this process says of itself, and, if it steers, of others.
    pub(crate) fn report(&self) -> Option<LocalReport> {
        let local = self.local.as_ref()?.borrow().clone();
        let vitals = Some(self.vitals(&local));
        Some(LocalReport {
            silent: self.silences.tell(),
            tells_of_loss: self.would_tell.get(),
            vitals,
            ..local
        })
    }
}

/// A certificate that is good from when until when.
fn foreign(good: Range<SystemTime>) -> Option<ForeignCertificate> {
    let lifetime = good.end.duration_since(good.start).ok()?;
    Some(ForeignCertificate {
        expires_ms: since_1970_ms(good.end)?,
        lifetime_ms: lifetime.as_millis() as u64,
    })
}

/// Nothing of a time before that.
fn since_1970_ms(time: SystemTime) -> Option<u64> {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).ok()?;
    Some(since.as_millis() as u64)
}
