//! Volumes made, grown, deleted and scrubbed.

use holdfast_api::documents::{Created, Volume, VolumeCreate, VolumeDelete, VolumeGrow};
use holdfast_api::{Conditional, IdempotencyKey, Keyed, Problem};
use holdfast_control::{Inventory, PlanError, VolumeName, VolumeSize, Wish};

use crate::reports::Reports;
use crate::tags::Tagged;
use crate::trust::Change;
use crate::{Controller, clock, problem, volume_in};

impl Controller {
    pub(crate) async fn make_volume(
        &self,
        wanted: Keyed<VolumeCreate>,
    ) -> Result<Created, Problem> {
        let Keyed { request, key } = wanted;
        let name: VolumeName = request.name.parse().map_err(problem::name)?;
        let size = VolumeSize::new(request.bytes).map_err(problem::size)?;
        let unit = problem::unit(&name, request.target.as_deref(), request.lun)?;
        let wish = key.map(|key| wish(&key, &request));
        let make = |inventory: &Inventory, reports: &Reports| {
            let answered = wish.as_ref().map(|wish| wish.answered(inventory));
            if answered
                .transpose()
                .map_err(problem::key_reused)?
                .flatten()
                .is_some()
            {
                return Ok(Vec::new());
            }
            let seen = |node| reports.seen(node);
            let (unit, policy) = (unit.as_ref(), request.policy);
            let plan = holdfast_control::create_at(inventory, seen, &name, size, policy, unit);
            let plan = plan.map_err(|error| problem::plan(&name, error))?;
            Ok(match &wish {
                Some(wish) => wish.keep(inventory, plan),
                None => plan.transactions,
            })
        };
        let done = self.carry_out(make, &name).await?;
        let mut is_new = done;
        if let Some(wish) = &wish {
            let look = self.inventory().await?;
            // It has given way to others, if so many came in this moment.
            if let Some(answer) = wish.answered(&look.seen).map_err(problem::key_reused)? {
                let found = look.seen.volume(name.as_str());
                if found.is_none_or(|found| found.record.volume != answer.volume) {
                    return Err(problem::made_and_gone(&name));
                }
                is_new = answer.made;
            }
        }
        if done && is_new {
            tracing::info!(%name, bytes = size.bytes(), policy = %request.policy, "made a volume");
        }
        let volume = self.served(&name).await?;
        Ok(Created { volume, is_new })
    }

    pub(crate) async fn enlarge_volume(
        &self,
        name: &str,
        wanted: Conditional<VolumeGrow>,
    ) -> Result<Volume, Problem> {
        let Conditional {
            request,
            precondition,
        } = wanted;
        let name: VolumeName = name.parse().map_err(problem::name)?;
        let size = VolumeSize::new(request.bytes).map_err(problem::size)?;
        let make = |inventory: &Inventory, reports: &Reports| {
            let seen = |node| reports.seen(node);
            let plan = holdfast_control::grow(inventory, seen, &name, size);
            let plan = plan.map_err(|error| problem::plan(&name, error))?;
            let tagged = Tagged::Volume(plan.volume.volume);
            tagged.holds(&precondition, inventory)?;
            let mut transactions = plan.transactions;
            // With the last one it has its new size. What the others make has no effect without that.
            if let Some(last) = transactions.pop() {
                transactions.push(tagged.guarded(&precondition, inventory, last));
            }
            Ok(transactions)
        };
        if self.carry_out(make, &name).await? {
            tracing::info!(%name, bytes = size.bytes(), "grew a volume");
        }
        self.served(&name).await
    }

    pub(crate) async fn remove_volume(
        &self,
        name: &str,
        wanted: Conditional<VolumeDelete>,
    ) -> Result<(), Problem> {
        let Conditional {
            request,
            precondition,
        } = wanted;
        let name: VolumeName = name.parse().map_err(problem::name)?;
        self.may_change(Change::Other).await?;
        let meant = {
            let look = self.inventory().await?;
            let found = look.seen.volume(name.as_str());
            let meant = found.map(|found| found.record.volume);
            match meant {
                // Nobody waits for sessions to end for nothing.
                Some(meant) => Tagged::Volume(meant).holds(&precondition, &look.seen)?,
                None if look.seen.names.contains_key(name.as_str()) => precondition.holds(None)?,
                None => {}
            }
            meant
        };
        let Some(meant) = meant else {
            return self.clear_name(&name).await;
        };
        if !request.force {
            self.unused(&name, meant).await?;
        }
        // A later attempt must not delete another volume that has the name by then.
        let make = |inventory: &Inventory, _: &Reports| match inventory.volume(name.as_str()) {
            Some(found) if found.record.volume == meant => {
                let tagged = Tagged::Volume(meant);
                tagged.holds(&precondition, inventory)?;
                let plan = holdfast_control::delete(inventory, &name);
                let plan = plan.map_err(|error| problem::plan(&name, error))?;
                let guarded = |one| tagged.guarded(&precondition, inventory, one);
                Ok(plan.transactions.into_iter().map(guarded).collect())
            }
            _ => Ok(Vec::new()),
        };
        self.carry_out(make, &name).await?;
        tracing::info!(%name, "deleted a volume");
        Ok(())
    }

    /// Deletes what there is of a volume that has a name, and nothing else that tells what it is.
    async fn clear_name(&self, name: &VolumeName) -> Result<(), Problem> {
        let make = |inventory: &Inventory, _: &Reports| {
            let cleared = holdfast_control::clear(inventory, name);
            cleared
                .map(|one| vec![one])
                .ok_or_else(|| problem::plan(name, PlanError::NoSuchVolume))
        };
        self.carry_out(make, name).await?;
        tracing::info!(%name, "deleted what was left of a volume");
        Ok(())
    }

    pub(crate) async fn begin_scrub(&self, name: &str) -> Result<Volume, Problem> {
        let parsed: VolumeName = name.parse().map_err(problem::name)?;
        let plan = |inventory: &Inventory, _: &Reports| {
            let now = clock::unix_seconds();
            let planned = holdfast_control::begin_scrub(inventory, &parsed, now);
            planned.map_err(|error| problem::plan(&parsed, error))
        };
        if self.put_through(Change::Other, plan).await? {
            tracing::info!(name = %parsed, "scrubs a volume");
        }
        volume_in(&self.look().await?.seen, &parsed)
    }
}

/// A request that bears a key, in words that are the same whenever the request is.
fn wish(key: &IdempotencyKey, request: &VolumeCreate) -> Wish {
    Wish {
        key: key.as_str().to_owned(),
        words: serde_json::to_string(request).expect("documents are valid JSON"),
        now_seconds: clock::unix_seconds(),
    }
}
