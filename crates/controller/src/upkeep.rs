//! What is asked of a single node when something is looked into: its log, and its part of a support bundle. Each node answers for
//! itself, and any for all.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use holdfast_api::documents::{LocalSupport, LogChange, LogLevels};
use holdfast_api::{Problem, ProblemKind, Upkeep};

use crate::devices::{Node, answering, passed_on};
use crate::reports::{Whose, whose};
use crate::{Controller, problem};

/// How long a node may take to put together what it has.
const SUPPORT_TIME_MAX: Duration = Duration::from_secs(10);

/// What the node in this process answers with.
#[derive(Clone)]
pub(crate) struct Own(Arc<dyn Upkeep>);

impl fmt::Debug for Own {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Own")
    }
}

/// What a process has to tell that has no node in it, and yet an address through which something is done: that of a demo.
#[derive(Clone)]
pub(crate) struct Front {
    /// What it is called where nodes are named.
    pub(crate) name: String,
    support: Arc<dyn Fn() -> LocalSupport + Send + Sync>,
}

impl fmt::Debug for Front {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Front").field(&self.name).finish()
    }
}

impl Controller {
    /// In a process without a node: what that is called, and what it has of its own for a support bundle. Its audit log is told
    /// beside those of nodes.
    #[must_use]
    pub fn fronting(
        self,
        name: &str,
        support: impl Fn() -> LocalSupport + Send + Sync + 'static,
    ) -> Self {
        let front = Front {
            name: name.to_owned(),
            support: Arc::new(support),
        };
        Self {
            front: Some(front),
            ..self
        }
    }

    /// With what tells and changes the log of the node in this process, and what else it has.
    #[must_use]
    pub fn keeping_up(self, own: impl Upkeep) -> Self {
        let upkeep = Some(Own(Arc::new(own)));
        Self { upkeep, ..self }
    }

    fn own(&self) -> Result<Arc<dyn Upkeep>, Problem> {
        let own = self.upkeep.as_ref().ok_or_else(problem::no_node)?;
        Ok(Arc::clone(&own.0))
    }

    pub(crate) async fn log_of(&self, name: &str) -> Result<LogLevels, Problem> {
        match self.answering_for(name).await? {
            Node::Here => self.log_here(),
            Node::There(client, _) => {
                let levels = client.local_log().await;
                levels.map_err(|error| passed_on(name, error))
            }
        }
    }

    pub(crate) async fn change_log_of(
        &self,
        name: &str,
        change: LogChange,
    ) -> Result<LogLevels, Problem> {
        match self.answering_for(name).await? {
            Node::Here => self.change_log_here(&change),
            Node::There(client, _) => {
                let levels = client.change_local_log(&change).await;
                levels.map_err(|error| passed_on(name, error))
            }
        }
    }

    pub(crate) async fn support_of(&self, name: &str) -> Result<LocalSupport, Problem> {
        match self.answering_for(name).await? {
            Node::Here => self.support_here().await,
            Node::There(client, _) => {
                let support = client.within(SUPPORT_TIME_MAX).local_support().await;
                support.map_err(|error| passed_on(name, error))
            }
        }
    }

    pub(crate) fn log_here(&self) -> Result<LogLevels, Problem> {
        Ok(self.own()?.log())
    }

    pub(crate) fn change_log_here(&self, change: &LogChange) -> Result<LogLevels, Problem> {
        Ok(self.own()?.change_log(change))
    }

    pub(crate) async fn support_here(&self) -> Result<LocalSupport, Problem> {
        if let Some(front) = self.front.clone() {
            let told = tokio::task::spawn_blocking(move || (front.support)()).await;
            return told.map_err(|error| Problem::new(ProblemKind::Internal, error));
        }
        let own = self.own()?;
        // It reads files: others are answered meanwhile.
        let told = tokio::task::spawn_blocking(move || own.support()).await;
        let told = told.map_err(|error| Problem::new(ProblemKind::Internal, error))?;
        let report = self.report();
        let counted = self.kept.as_ref().zip(report.as_ref());
        Ok(LocalSupport {
            metrics: counted.map_or_else(String::new, |(kept, report)| (kept.metrics)(report)),
            report: report.map(Box::new),
            ..told
        })
    }

    /// Who answers for a node: it, and not another one at its address. One that has started and is not registered yet does.
    async fn answering_for(&self, name: &str) -> Result<Node, Problem> {
        let node = self.node_of(name).await?;
        if let Node::There(client, record) = &node {
            let report = answering(name, client).await?;
            if whose(&report, record) == Whose::Other {
                return Err(problem::another_answers(name));
            }
        }
        Ok(node)
    }
}
