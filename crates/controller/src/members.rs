//! Orders about nodes, and settings, carried out.

use holdfast_api::documents::{Node, NodeChange, NodeDetails, NodeOrder, Settings, SettingsChange};
use holdfast_api::{Precondition, Problem, ProblemKind};
use holdfast_control::{Inventory, Order, Refusal, change_settings, order};
use holdfast_model::NodeId;
use holdfast_model::metadata::{MetadataError, Transaction};
use holdfast_model::record::SettingsRecord;

use crate::reports::Reports;
use crate::tags::Tagged;
use crate::trust::Change;
use crate::view::last;
use crate::{ATTEMPT_PAUSE, ATTEMPTS_MAX, Controller, problem, steering, view};

impl Controller {
    pub(crate) async fn node_details(&self, name: &str) -> Result<NodeDetails, Problem> {
        let seen = self.view().await?;
        let (inventory, reports) = &*seen;
        let node = find(inventory, name)?;
        Ok(view::node_details(inventory, reports, node))
    }

    pub(crate) async fn order(
        &self,
        name: &str,
        change: NodeChange,
        precondition: &Precondition,
    ) -> Result<Node, Problem> {
        let what = match change.order {
            NodeOrder::Add => Order::Add,
            NodeOrder::Drain => Order::Drain,
            NodeOrder::CancelDrain => Order::CancelDrain,
            NodeOrder::MaintenanceOn => Order::MaintenanceOn,
            NodeOrder::MaintenanceOff => Order::MaintenanceOff,
        };
        self.obey(name, what, change.site.as_deref(), precondition)
            .await?;
        let look = self.look().await?;
        let (inventory, reports) = &look.seen;
        let node = find(inventory, name)?;
        Ok(view::node_details(inventory, reports, node).node)
    }

    pub(crate) async fn remove(
        &self,
        name: &str,
        precondition: &Precondition,
    ) -> Result<(), Problem> {
        self.obey(name, Order::Remove, None, precondition).await
    }

    /// Admits those of these nodes that wait.
    ///
    /// # Errors
    /// [`Problem`] if the metadata does not answer.
    pub async fn admit(&self, nodes: &[NodeId]) -> Result<(), Problem> {
        let inventory = self.inventory().await?.seen;
        let waits = |node: &&NodeId| {
            inventory.part_of(**node) == holdfast_control::Part::Waiting
                && inventory.nodes.contains_key(*node)
        };
        let names = nodes
            .iter()
            .filter(waits)
            .map(|node| &inventory.nodes[node].name);
        let names: Vec<String> = names.cloned().collect();
        drop(inventory);
        for name in names {
            self.obey(&name, Order::Add, None, &Precondition::default())
                .await?;
        }
        Ok(())
    }

    async fn obey(
        &self,
        name: &str,
        what: Order,
        site: Option<&str>,
        precondition: &Precondition,
    ) -> Result<(), Problem> {
        let plan = |inventory: &Inventory, reports: &Reports| {
            let node = find(inventory, name).map_err(|unknown| match what {
                Order::Add => to_be_started(unknown, name),
                _ => unknown,
            })?;
            // To remove a node that answers is no advice of one that is in its place.
            if let Some(own) = reports.rejected().filter(|_| reports.is_up(node)) {
                let rejected = own.rejected.clone().unwrap_or_default();
                return Err(problem::changed_elsewhere(&own.name, &rejected));
            }
            Tagged::Node(node).holds(precondition, inventory)?;
            let sight = steering::sight(inventory, reports, |_| None);
            let planned = order(inventory, &sight, node, what, site);
            let guarded = |planned| Tagged::Node(node).guarded(precondition, inventory, planned);
            planned
                .map(|planned| planned.map(guarded))
                .map_err(|refusal| {
                    let problem = refused(name, what, &refusal);
                    let is_held = matches!(refusal, Refusal::Holds { .. });
                    let last = is_held.then(|| last::hint(inventory, reports, node, name));
                    match last.flatten() {
                        Some(hint) => problem.hint(hint),
                        None => problem,
                    }
                })
        };
        let change = match what {
            Order::Remove => Change::Removal(name),
            _ => Change::Other,
        };
        if self.put_through(change, plan).await? {
            tracing::info!("ordered: node {name} {}", words(what));
        }
        Ok(())
    }

    pub(crate) async fn change(
        &self,
        change: SettingsChange,
        precondition: &Precondition,
    ) -> Result<Settings, Problem> {
        let plan = |inventory: &Inventory, _: &Reports| {
            Tagged::Settings.holds(precondition, inventory)?;
            let now = &inventory.settings.record;
            let settings = SettingsRecord {
                schema: 1,
                repair_delay_seconds: change
                    .repair_delay_seconds
                    .unwrap_or(now.repair_delay_seconds),
                rebalance: change.rebalance.unwrap_or(now.rebalance),
                background_slowdown_percent: change
                    .background_slowdown_percent
                    .unwrap_or(now.background_slowdown_percent),
                background_floor: change.background_floor.unwrap_or(now.background_floor),
                scrub_interval_seconds: change
                    .scrub_interval_seconds
                    .unwrap_or(now.scrub_interval_seconds),
                scrub_rate: change.scrub_rate.unwrap_or(now.scrub_rate),
            };
            let planned = change_settings(inventory, &settings)
                .map_err(|error| Problem::new(ProblemKind::Invalid, error))?;
            Ok(planned.map(|planned| Tagged::Settings.guarded(precondition, inventory, planned)))
        };
        self.put_through(Change::Other, plan).await?;
        Ok(settings(&self.inventory().await?.seen))
    }

    /// Makes a plan of one transaction and carries it out, until nobody has come between. Tells whether
    /// there was anything to do.
    pub(crate) async fn put_through(
        &self,
        change: Change<'_>,
        plan: impl Fn(&Inventory, &Reports) -> Result<Option<Transaction>, Problem>,
    ) -> Result<bool, Problem> {
        // What does not hold any more may be so because of an attempt that nobody answered.
        let mut may_be_done = false;
        for attempt in 1..=ATTEMPTS_MAX {
            self.may_change(change).await?;
            // What was seen is kept no longer than it takes to plan.
            let planned = {
                let look = self.look().await?;
                let (inventory, reports) = &look.seen;
                let has_gone_back = self.has_gone_back(inventory.revision);
                (!has_gone_back)
                    .then(|| plan(inventory, reports))
                    .transpose()
                    .map_err(|problem| problem::or_unknown(problem, may_be_done))?
            };
            let Some(planned) = planned else {
                if attempt == ATTEMPTS_MAX {
                    return Err(problem::gone_back());
                }
                tokio::time::sleep(ATTEMPT_PAUSE * attempt).await;
                continue;
            };
            let Some(transaction) = planned else {
                return Ok(attempt > 1);
            };
            match self.desk.transact(transaction).await {
                Ok(outcome) if outcome.succeeded => return Ok(true),
                // Whether it was done is seen at the next look.
                Ok(_) => {}
                Err(MetadataError::Unavailable) => may_be_done = true,
                Err(error) => return Err(problem::metadata(error)),
            }
            tokio::time::sleep(ATTEMPT_PAUSE * attempt).await;
        }
        let detail = "others change the same at the same time, or the metadata does not answer";
        Err(Problem::new(ProblemKind::Conflict, detail).hint("try again"))
    }
}

/// What is ordered of a node, after its name.
const fn words(order: Order) -> &'static str {
    match order {
        Order::Add => "is admitted",
        Order::Drain => "is drained",
        Order::CancelDrain => "is not to be drained any more",
        Order::MaintenanceOn => "is in maintenance from now on",
        Order::MaintenanceOff => "is in maintenance no more",
        Order::Remove => "is removed",
    }
}

/// Nobody of that name has registered who is to be added.
fn to_be_started(unknown: Problem, name: &str) -> Problem {
    if unknown.kind != ProblemKind::NoSuchNode {
        return unknown;
    }
    unknown.hint(format!(
        "start it first, or start it again if it was removed while it ran: it registers then, and `holdfast node add {name}` \
         admits it; `holdfast node list` tells who has registered"
    ))
}

pub(crate) fn settings(inventory: &Inventory) -> Settings {
    let record = &inventory.settings.record;
    Settings {
        repair_delay_seconds: record.repair_delay_seconds,
        rebalance: record.rebalance,
        background_slowdown_percent: record.background_slowdown_percent,
        background_floor: record.background_floor,
        scrub_interval_seconds: record.scrub_interval_seconds,
        scrub_rate: record.scrub_rate,
        etag: Tagged::Settings.tag(inventory),
    }
}

/// The node of that name. Of several, which versions of before let be, or which registered at the same moment,
/// none is meant: an order for one of them must not reach another.
pub(crate) fn find(inventory: &Inventory, name: &str) -> Result<NodeId, Problem> {
    let nodes = inventory.nodes.values();
    let mut found = nodes.filter(|node| node.name == name).map(|node| node.node);
    let node = found.next().ok_or_else(|| {
        Problem::new(ProblemKind::NoSuchNode, format!("there is no node {name}"))
            .hint("`holdfast node list` tells which there are")
    })?;
    let Some(other) = found.next() else {
        return Ok(node);
    };
    let detail = format!(
        "the nodes of numbers {} and {} are both called {name}",
        node.0, other.0
    );
    Err(Problem::new(ProblemKind::Refused, detail)
        .hint("give one of them another `name` in its configuration, and start it again"))
}

fn refused(name: &str, what: Order, refusal: &Refusal) -> Problem {
    let detail = format!("node {name}: {refusal}");
    let problem = Problem::new(ProblemKind::Refused, detail);
    match (refusal, what) {
        (Refusal::NoSuchNode, _) => problem,
        (Refusal::Waiting, _) => problem.hint(format!("`holdfast node add {name}` admits it")),
        (Refusal::NotSo(_), _) => problem.hint("`holdfast node list` tells how nodes stand"),
        (Refusal::LastCopies(_), _) => problem.hint(
            "wait until the volumes are healthy (`holdfast status`); a volume of policy none has one \
             copy only: drain the node instead",
        ),
        (Refusal::TooFewNodes(_) | Refusal::NoRoom { .. } | Refusal::NoRoomFor { .. }, _) => {
            problem.hint("add a node first, start those that are down, or delete volumes")
        }
        (Refusal::TooFewDomains(_), _) => problem.hint(
            "add a node of another failure domain first, start those that are down, or delete volumes; `holdfast node list` \
             tells in which domain each is, by `failure_domain` in its configuration",
        ),
        (Refusal::Holds { .. }, _) => problem.hint(format!(
            "`holdfast node drain {name}` moves them away; of a node that is dead they are rebuilt \
             elsewhere after the repair delay"
        )),
        (Refusal::Site, _) => Problem::new(ProblemKind::Invalid, refusal)
            .hint("a good name is, for example, room-1"),
    }
}
