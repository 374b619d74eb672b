//! Long work under way, told and called off.

use holdfast_api::documents::{DeviceChange, NodeChange, NodeOrder, Task, TaskKind};
use holdfast_api::{Precondition, Problem, ProblemKind};

use crate::{Controller, view};

impl Controller {
    pub(crate) async fn list_tasks(&self) -> Result<Vec<Task>, Problem> {
        let seen = self.view().await?;
        Ok(view::tasks(&seen.0, &seen.1))
    }

    /// Calls off what can be. What has been done of it stays done.
    pub(crate) async fn call_off(&self, id: &str) -> Result<(), Problem> {
        let tasks = self.list_tasks().await?;
        let task = tasks.into_iter().find(|task| task.id == id);
        let task = task.ok_or_else(|| no_such_task(id))?;
        let node = task.node.as_deref().unwrap_or_default();
        match task.kind {
            TaskKind::NodeDrain => {
                let change = NodeChange {
                    order: NodeOrder::CancelDrain,
                    site: None,
                };
                self.order(node, change, &Precondition::default()).await?;
            }
            TaskKind::DeviceDrain if task.can_cancel => {
                let number = id.rsplit('~').next().and_then(|number| number.parse().ok());
                let device = number.ok_or_else(|| no_such_task(id))?;
                self.change_devices_of(node, DeviceChange::Resume { device })
                    .await?;
            }
            _ => return Err(not_to_be_called_off(&task)),
        }
        Ok(())
    }
}

pub(crate) fn no_such_task(id: &str) -> Problem {
    let detail = format!("there is no task {id} under way, or not any more");
    Problem::new(ProblemKind::NoSuchTask, detail).hint("`holdfast tasks` tells which there are")
}

fn not_to_be_called_off(task: &Task) -> Problem {
    let (why, hint) = match task.kind {
        TaskKind::Sync => (
            "a replica that is not up to date protects nobody",
            "`holdfast settings set --background-slowdown` says how much hosts may notice of it",
        ),
        TaskKind::Move => (
            "it makes the copies that the policy wants, where they are to be",
            "of a drain: cancel that; else `holdfast settings set --rebalance off` keeps further ones from beginning",
        ),
        TaskKind::Scrub => (
            "a scrub that has begun is ended",
            "`holdfast settings set --scrub-rate` makes it slower",
        ),
        TaskKind::DeviceDrain => (
            "the device is not there, so that what was on it has to be brought",
            "wait for its end",
        ),
        TaskKind::Creation => (
            "the volume is there in a moment",
            "`holdfast volume delete` deletes it then",
        ),
        TaskKind::NodeDrain | TaskKind::Other => ("it is not known here", "ask the newest node"),
    };
    let detail = format!("task {} cannot be called off: {why}", task.id);
    Problem::new(ProblemKind::Refused, detail).hint(hint)
}
