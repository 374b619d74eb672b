//! How much of the logs is kept: read from the metadata, changed there, and followed by each process while it runs.
//!
//! Invariants:
//! - what metadata that has gone back says is not followed, and neither is what this version does not understand: it stays as it was;
//! - of those who have seen the same, and change it under that condition, one does.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use holdfast_api::documents::{
    KeptHistory, LocalRetention, NodeRetention, Retention, RetentionChange,
};
use holdfast_api::{ApiClient, Conditional, EntityTag, Problem, ProblemKind};
use holdfast_model::NodeId;
use holdfast_model::metadata::{
    Compare, Operation, OperationResult, Revision, Selector, Transaction, TransactionOutcome,
};
use holdfast_model::record::{
    RETENTION_KEY, RETENTION_MIB_MAX, RETENTION_MIB_MIN, Record, RecordError, RetentionRecord,
};
use tokio::task::JoinHandle;

use crate::asking::{Answer, ask_each, silent};
use crate::audit::AuditLog;
use crate::trust::Change;
use crate::{ATTEMPT_PAUSE, ATTEMPTS_MAX, Controller, problem};

/// Between two questions whether something else is to be kept: one key is read, and nobody waits for it.
const FOLLOW_PAUSE: Duration = Duration::from_secs(5);

type Answered = Pin<Box<dyn Future<Output = Result<KeptHistory, Problem>> + Send>>;

/// What is kept in this process, beside the log of events.
#[derive(Clone, Default)]
pub(crate) struct Keeping {
    audit: Option<AuditLog>,
    history: Option<Arc<dyn Fn() -> Answered + Send + Sync>>,
}

impl fmt::Debug for Keeping {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Keeping")
            .field("audit", &self.audit)
            .finish_non_exhaustive()
    }
}

impl Answer for LocalRetention {
    fn node(&self) -> u16 {
        self.node
    }
}

impl Controller {
    /// With the audit log of this process, if it has one.
    #[must_use]
    pub fn auditing(mut self, log: Option<AuditLog>) -> Self {
        self.keeping.audit = log;
        self
    }

    /// With what tells how much of its history the node in this process keeps.
    #[must_use]
    pub fn keeping_history<F>(mut self, ask: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<KeptHistory, Problem>> + Send + 'static,
    {
        self.keeping.history = Some(Arc::new(move || Box::pin(ask())));
        self
    }

    /// Has the logs of this process keep what is set, until the task is aborted or its runtime ends.
    ///
    /// Must be called within a tokio runtime.
    pub fn retain(&self) -> JoinHandle<()> {
        tokio::spawn(follow(self.clone()))
    }

    fn hold(&self, record: &RetentionRecord) {
        let bytes = |mib: u32| u64::from(mib) << 20;
        if let Some(log) = &self.keeping.audit {
            log.hold(bytes(record.audit_mib));
        }
        if let Some(log) = &self.event_log {
            log.hold(bytes(record.events_mib));
        }
    }

    async fn retention_set(&self) -> Result<(RetentionRecord, Revision), Problem> {
        let key = Selector::Key(RETENTION_KEY.to_owned());
        let look = Transaction {
            success: vec![Operation::Range(key)],
            ..Transaction::default()
        };
        let outcome = self.desk.transact(look).await.map_err(problem::unread)?;
        if self.has_gone_back(outcome.revision) {
            return Err(problem::gone_back());
        }
        read(outcome).map_err(|error| {
            Problem::new(ProblemKind::Internal, error)
                .hint("another version of Holdfast may have written what is to be kept")
        })
    }

    pub(crate) async fn retention_here(&self) -> Result<LocalRetention, Problem> {
        if self.local.is_none() && self.front.is_none() {
            return Err(problem::no_node());
        }
        let history = async {
            let ask = self.keeping.history.as_ref()?;
            ask().await.ok()
        };
        let (audit, events) = (self.keeping.audit.clone(), self.event_log.clone());
        let files = tokio::task::spawn_blocking(move || {
            let audit = audit.and_then(|log| readable("audit log", log.kept()));
            let events = events.and_then(|log| readable("log of events", log.kept()));
            (audit, events)
        });
        let (history, files) = tokio::join!(history, files);
        let (audit, events) = files.map_err(|error| Problem::new(ProblemKind::Internal, error))?;
        Ok(LocalRetention {
            node: self.number(),
            audit,
            events,
            history,
        })
    }

    pub(crate) async fn retention_of_all(&self) -> Result<Retention, Problem> {
        let (record, _) = self.retention_set().await?;
        let inventory = self.inventory().await?.seen;
        let here = self.registered_here(&inventory);
        let nodes = inventory.nodes.values();
        let others = nodes.clone().filter(|node| Some(node.node) != here);
        let others = ask_each(
            others,
            self.connector.as_ref(),
            |client: ApiClient| async move { client.local_retention().await },
        );
        let own = async {
            here.or_else(|| self.front.as_ref().map(|_| NodeId(self.number())))?;
            self.retention_here().await.ok()
        };
        let (others, own) = tokio::join!(others, own);
        let mut told: Vec<LocalRetention> = others.into_iter().chain(own).collect();
        let silent = silent(nodes, |node| told.iter().any(|it| it.node == node.0));
        told.sort_by_key(|kept| kept.node);
        let name_of = |number: u16| {
            let node = inventory.nodes.values().find(|it| it.node.0 == number);
            let front = || self.front.as_ref().map(|front| front.name.clone());
            node.map(|node| node.name.clone()).or_else(front)
        };
        let named = |kept: LocalRetention| NodeRetention {
            name: name_of(kept.node).unwrap_or_default(),
            kept,
        };
        Ok(Retention {
            audit_mib: record.audit_mib,
            events_mib: record.events_mib,
            nodes: told.into_iter().map(named).collect(),
            silent,
            etag: Some(tag_of(&record)),
        })
    }

    pub(crate) async fn set_retention(
        &self,
        change: Conditional<RetentionChange>,
    ) -> Result<Retention, Problem> {
        for attempt in 1..=ATTEMPTS_MAX {
            self.may_change(Change::Other).await?;
            let (record, revision) = self.retention_set().await?;
            change.precondition.holds(Some(&tag_of(&record)))?;
            let next = changed(&record, change.request)?;
            if next == record {
                return self.retention_of_all().await;
            }
            // It is changed only while it is what was seen.
            let transaction = Transaction {
                compare: vec![Compare::ModRevision {
                    key: RETENTION_KEY.to_owned(),
                    equals: revision,
                }],
                success: vec![Operation::put(RETENTION_KEY.to_owned(), next.encode())],
                failure: Vec::new(),
            };
            let outcome = self.desk.transact(transaction).await;
            if outcome.map_err(problem::metadata)?.succeeded {
                self.hold(&next);
                return self.retention_of_all().await;
            }
            tokio::time::sleep(ATTEMPT_PAUSE * attempt).await;
        }
        let detail = "others change what is to be kept at the same time";
        Err(Problem::new(ProblemKind::Conflict, detail).hint("try again"))
    }
}

/// Follows what is set. What cannot be read, or not be understood, leaves it as it was.
async fn follow(controller: Controller) {
    loop {
        if let Ok((record, _)) = controller.retention_set().await {
            controller.hold(&record);
        }
        tokio::time::sleep(FOLLOW_PAUSE).await;
    }
}

fn read(outcome: TransactionOutcome) -> Result<(RetentionRecord, Revision), RecordError> {
    let mut found = outcome
        .results
        .into_iter()
        .filter_map(|result| match result {
            OperationResult::Range(found) => found.into_iter().next(),
            _ => None,
        });
    match found.next() {
        Some(pair) => Ok((RetentionRecord::decode(&pair.value)?, pair.mod_revision)),
        None => Ok((RetentionRecord::default(), Revision(0))),
    }
}

fn readable<T>(what: &str, read: std::io::Result<T>) -> Option<T> {
    read.inspect_err(|error| tracing::warn!("look at the {what}: {error}"))
        .ok()
}

/// It is made of what is set: nothing else can be changed.
fn tag_of(record: &RetentionRecord) -> EntityTag {
    let RetentionRecord {
        schema: _,
        audit_mib,
        events_mib,
    } = record;
    EntityTag::of(&format!("r-{audit_mib:x}-{events_mib:x}"))
}

/// The record with a change.
fn changed(record: &RetentionRecord, change: RetentionChange) -> Result<RetentionRecord, Problem> {
    let bounded = |name: &str, present: u32, wanted: Option<u32>| match wanted {
        Some(mib) if !(RETENTION_MIB_MIN..=RETENTION_MIB_MAX).contains(&mib) => {
            let detail =
                format!("{name} is {mib} MiB, and not {RETENTION_MIB_MIN} to {RETENTION_MIB_MAX}");
            let hint = "what is to be kept for longer is copied elsewhere: audit.log and events.log in the nodes' directories";
            Err(Problem::new(ProblemKind::Invalid, detail).hint(hint))
        }
        _ => Ok(wanted.unwrap_or(present)),
    };
    Ok(RetentionRecord {
        audit_mib: bounded("audit_mib", record.audit_mib, change.audit_mib)?,
        events_mib: bounded("events_mib", record.events_mib, change.events_mib)?,
        ..*record
    })
}
