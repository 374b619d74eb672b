//! Initiators, and whom volumes are for: put on record, and told. Secrets go in and never come out.

use holdfast_api::documents::{
    AccessChange, ChapAccount, Initiator, InitiatorList, InitiatorPut, Volume, VolumeAccess,
};
use holdfast_api::{Precondition, Problem, ProblemKind};
use holdfast_control::{
    AccessError, AccessOrder, Inventory, IscsiNodeName, PlanError, VolumeName, change_access,
    put_initiator, remove_initiator, volumes_by_initiator, volumes_of,
};
use holdfast_model::record::{ChapRecord, InitiatorRecord, VolumeRecord};

use crate::reports::Reports;
use crate::tags::Tagged;
use crate::trust::Change;
use crate::{Controller, problem, volume_in};

impl Controller {
    pub(crate) async fn list_initiators(&self) -> Result<InitiatorList, Problem> {
        let look = self.inventory().await?;
        let volumes = volumes_by_initiator(&look.seen);
        let records = look.seen.initiators.values();
        let initiators = records.map(|it| {
            let record = &it.record;
            let volumes = volumes.get(record.name.as_str());
            let volumes = volumes.into_iter().flatten().map(|it| (*it).to_owned());
            document(&look.seen, record, volumes.collect())
        });
        Ok(InitiatorList {
            initiators: initiators.collect(),
            next: None,
        })
    }

    pub(crate) async fn initiator_on_record(&self, name: &str) -> Result<Initiator, Problem> {
        let name = parse(name)?;
        let look = self.inventory().await?;
        let found = look.seen.initiators.get(name.as_str());
        let found = found.ok_or_else(|| refused(AccessError::NoSuchInitiator, None))?;
        Ok(alone(&look.seen, &found.record))
    }

    pub(crate) async fn record_initiator(
        &self,
        name: &str,
        request: InitiatorPut,
        precondition: &Precondition,
    ) -> Result<Initiator, Problem> {
        let name = parse(name)?;
        if request.chap.is_some() || request.mutual.is_some() {
            self.may_keep_secrets()?;
        }
        let chap = |chap: ChapAccount| ChapRecord {
            name: chap.name,
            secret: chap.secret,
        };
        let record = InitiatorRecord {
            schema: 1,
            name: name.to_string(),
            chap: request.chap.map(chap),
            mutual: request.mutual.map(chap),
        };
        let plan = |inventory: &Inventory, _: &Reports| {
            let tagged = Tagged::Initiator(name.as_str());
            tagged.holds(precondition, inventory)?;
            let planned =
                put_initiator(inventory, &record).map_err(|error| refused(error, None))?;
            Ok(planned.map(|planned| tagged.guarded(precondition, inventory, planned)))
        };
        if self.put_through(Change::Other, plan).await? {
            tracing::info!(initiator = %name, "put an initiator on record");
        }
        // What is told has the tag that it is told with, though another may have put it anew meanwhile.
        let look = self.inventory().await?;
        let found = look.seen.initiators.get(name.as_str());
        let record = found.map_or(&record, |found| &found.record);
        Ok(alone(&look.seen, record))
    }

    pub(crate) async fn forget_initiator(
        &self,
        name: &str,
        precondition: &Precondition,
    ) -> Result<(), Problem> {
        let name = parse(name)?;
        let plan = |inventory: &Inventory, _: &Reports| {
            let planned = remove_initiator(inventory, &name);
            let planned = planned.map_err(|error| refused(error, None))?;
            let tagged = Tagged::Initiator(name.as_str());
            tagged.holds(precondition, inventory)?;
            Ok(Some(tagged.guarded(precondition, inventory, planned)))
        };
        self.put_through(Change::Other, plan).await?;
        tracing::info!(initiator = %name, "forgot an initiator");
        Ok(())
    }

    pub(crate) async fn order_access(
        &self,
        name: &str,
        change: AccessChange,
        precondition: &Precondition,
    ) -> Result<Volume, Problem> {
        let name: VolumeName = name.parse().map_err(problem::name)?;
        let order = match change {
            AccessChange::Allow(initiator) => AccessOrder::Allow(parse(&initiator)?),
            AccessChange::Disallow(initiator) => AccessOrder::Disallow(parse(&initiator)?),
            AccessChange::Open(true) => AccessOrder::Open,
            AccessChange::Open(false) => {
                let detail = "whom the volume is to be for is not said";
                return Err(Problem::new(ProblemKind::Invalid, detail)
                    .hint("`holdfast volume allow` names an initiator"));
            }
        };
        let plan = |inventory: &Inventory, _: &Reports| {
            let planned = change_access(inventory, &name, &order);
            let planned = planned.map_err(|error| refused(error, Some(&name)))?;
            let Some(found) = inventory.volume(name.as_str()) else {
                return Ok(planned);
            };
            let tagged = Tagged::Volume(found.record.volume);
            tagged.holds(precondition, inventory)?;
            Ok(planned.map(|planned| tagged.guarded(precondition, inventory, planned)))
        };
        if self.put_through(Change::Other, plan).await? {
            tracing::info!(%name, ?order, "changed whom a volume is for");
        }
        volume_in(&self.look().await?.seen, &name)
    }
}

/// Whom a volume is for.
pub(crate) fn of(inventory: &Inventory, volume: &VolumeRecord) -> VolumeAccess {
    let export = inventory.exports.get(&volume.volume);
    VolumeAccess {
        open: export.is_none(),
        initiators: export.map_or_else(Vec::new, |export| export.record.initiators.clone()),
    }
}

fn alone(inventory: &Inventory, record: &InitiatorRecord) -> Initiator {
    document(inventory, record, volumes_of(inventory, &record.name))
}

fn document(inventory: &Inventory, record: &InitiatorRecord, volumes: Vec<String>) -> Initiator {
    let name = |chap: &Option<ChapRecord>| chap.as_ref().map(|chap| chap.name.clone());
    Initiator {
        name: record.name.clone(),
        chap_name: name(&record.chap),
        mutual_name: name(&record.mutual),
        volumes,
        etag: Tagged::Initiator(&record.name).tag(inventory),
    }
}

fn parse(name: &str) -> Result<IscsiNodeName, Problem> {
    name.parse().map_err(|error| {
        Problem::new(ProblemKind::Invalid, format!("{name:?}: {error}")).hint(
            "a host tells its name: on Linux in /etc/iscsi/initiatorname.iscsi, on Windows with `iscsicli`",
        )
    })
}

fn refused(error: AccessError, volume: Option<&VolumeName>) -> Problem {
    let (kind, hint) = match (&error, volume) {
        (AccessError::NoSuchVolume, Some(name)) => {
            return problem::plan(name, PlanError::NoSuchVolume);
        }
        (AccessError::NoSuchVolume, None) => (ProblemKind::NoSuchVolume, ""),
        (AccessError::NoSuchInitiator, _) => (
            ProblemKind::NoSuchInitiator,
            "`holdfast initiator list` tells which there are, `holdfast initiator add` puts one on record",
        ),
        (AccessError::Listed(_), _) => (
            ProblemKind::Refused,
            "take it off their lists first: `holdfast volume disallow`",
        ),
        (AccessError::IsOpen, _) => (
            ProblemKind::Refused,
            "`holdfast volume allow` says whom it is for, and nobody else from then on",
        ),
        (AccessError::Full, _) => (ProblemKind::ClusterFull, "remove initiators that are gone"),
        (
            AccessError::SecretLength
            | AccessError::Letters
            | AccessError::NameLength
            | AccessError::MutualAlone
            | AccessError::SameSecret,
            _,
        ) => (
            ProblemKind::Invalid,
            "a good secret is what a generator of passwords makes; 16 letters are what every host takes",
        ),
    };
    Problem::new(kind, error).hint(hint)
}
