//! Plans: what an administrator wants, as metadata transactions.
//!
//! **Create.** First the name is taken, and with it the next volume's id, which is in the name's
//! record. Every later transaction of the plan holds only as long as the name's record says so: the
//! slices' records, as many to a transaction as fit, and last the volume's, with which the volume is
//! there. A plan that is cut short leaves a name whose volume has no record: the next volume of that
//! name takes the name over in its first transaction, which deletes the slices of the former as
//! well, and stops a plan that was not dead but slow. Both happen only while the volume still has no
//! record: a volume that was finished in the last moment stays.
//!
//! With the slices' records the intents of their nodes are written once more as they are. So a node that is removed at the
//! same time gets none, and an order about it that was weighed without them is weighed anew.
//!
//! **Grow.** The new slices' records first; then the volume's, with the new size. All hold only as
//! long as the volume's record is the one that the plan was made from. Slices that a plan which was
//! cut short has left behind the volume's end are kept as they are: a slice's configuration of one
//! epoch is never written twice.
//!
//! **Delete.** One transaction: the volume's record, its name, its slices, and what else is about them; and the volume is
//! on record as deleted, without which no node drops anything. So it is where slices are deleted of a volume whose making
//! was cut short.
//!
//! Of metadata that has lost documents nothing is deleted without an order: a name whose volume is neither there nor being
//! made, or slices of which nobody knows why they are there, are left alone.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use holdfast_model::metadata::{Compare, Operation, Revision, Selector, Transaction};
use holdfast_model::record::{
    AccessRecord, CLUSTER_KEY, ClusterRecord, DELETED_KEY, DeletedRecord, ExportRecord,
    MakingRecord, NameRecord, ScrubRecord, ScrubbedRecord, SliceRecord, UnitRecord, VolumeRecord,
    WishRecord,
};
use holdfast_model::{NodeId, Policy, VolumeId};
use holdfast_stdx::Count;

use crate::members::{self, admit_all};
use crate::writing::{absent, as_found, put, still_at, still_is};
use crate::{Inventory, Seen, UnitPlace, Versioned, VolumeName, VolumeSize};

use self::slices::make_slices;

mod slices;

/// Volumes of a cluster at most: every host sees all of them, and the nodes keep them in memory.
pub const VOLUMES_MAX: usize = 1 << 10;
/// Slices of a cluster at most (256 TiB): all of their records are read at once.
pub const SLICES_MAX: usize = 64 << 10;

/// Transactions to be carried out one after the other. One whose comparisons do not hold means that
/// somebody else was there: the rest is not carried out, and a new plan is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The transactions; none if there is nothing to do.
    pub transactions: Vec<Transaction>,
    /// The volume as it is afterwards, or was before it is deleted.
    pub volume: VolumeRecord,
}

/// Why there is no plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// There is a volume of that name, and it is another one.
    #[error("there is a volume of that name, of {bytes} bytes and policy {policy}")]
    Exists {
        /// Its size.
        bytes: u64,
        /// Its policy.
        policy: Policy,
    },
    /// There is no volume of that name.
    #[error("there is no volume of that name")]
    NoSuchVolume,
    /// The name is taken by a volume that has no record, and was not deleted.
    #[error("volume {0} has this name, and the metadata has lost its record")]
    Damaged(VolumeId),
    /// A volume does not shrink.
    #[error("the volume has {bytes} bytes, and volumes do not shrink")]
    Shrinks {
        /// Its size.
        bytes: u64,
    },
    /// The policy needs more nodes than the cluster has.
    #[error("policy {policy} needs {}, and the cluster has {nodes}", Count::of(policy.copies(), "node"))]
    TooFewNodes {
        /// The policy.
        policy: Policy,
        /// Nodes of the cluster.
        nodes: usize,
    },
    /// The policy needs more nodes than are up.
    #[error(
        "policy {policy} needs {}, and {available} of the cluster's {nodes} are up",
        Count::of(policy.copies(), "node")
    )]
    TooFewUp {
        /// The policy.
        policy: Policy,
        /// Nodes that are up.
        available: usize,
        /// Nodes of the cluster.
        nodes: usize,
    },
    /// The policy needs nodes of more failure domains than the cluster has.
    #[error(
        "policy {policy} puts each of its {} copies into a failure domain of its own, and the cluster's {nodes} nodes are in {}",
        policy.copies(), Count::of(*domains, "failure domain")
    )]
    TooFewDomains {
        /// The policy.
        policy: Policy,
        /// Nodes of the cluster.
        nodes: usize,
        /// Their domains.
        domains: usize,
    },
    /// The policy needs nodes of more failure domains than are up.
    #[error(
        "policy {policy} puts each of its {} copies into a failure domain of its own, and nodes are up in {domains_up} of the \
         cluster's {domains}",
        policy.copies()
    )]
    TooFewDomainsUp {
        /// The policy.
        policy: Policy,
        /// Domains of which a node is up.
        domains_up: usize,
        /// Domains of the cluster.
        domains: usize,
    },
    /// The cluster has as many volumes, or slices, as it can have.
    #[error("the cluster has as many volumes as it can have")]
    Full,
    /// There is a volume of that name, and its unit is another one.
    #[error("there is a volume of that name, at another target or with another LUN")]
    OtherPlace,
    /// The unit is another volume's.
    #[error("that LUN of the target is the one of volume `{0}`")]
    UnitTaken(String),
    /// The unit is the one that a volume has where nobody names one.
    #[error("LUN 0 of that target is kept for the volume of its name")]
    UnitKept,
}

/// Plans a new volume on nodes that are `seen`. There is nothing to do if it exists already, with the same size and
/// policy.
///
/// # Errors
/// [`PlanError`] if there is another volume of that name, or no room.
pub fn create(
    inventory: &Inventory,
    seen: impl Fn(NodeId) -> Option<Seen>,
    name: &VolumeName,
    size: VolumeSize,
    policy: Policy,
) -> Result<Plan, PlanError> {
    create_at(inventory, seen, name, size, policy, None)
}

/// The same, as a unit that the administrator names; without one it is the only unit of a target of its own.
///
/// # Errors
/// [`PlanError`] if there is another volume of that name, or no room, or the unit is not to be had.
pub fn create_at(
    inventory: &Inventory,
    seen: impl Fn(NodeId) -> Option<Seen>,
    name: &VolumeName,
    size: VolumeSize,
    policy: Policy,
    unit: Option<&UnitPlace>,
) -> Result<Plan, PlanError> {
    let own = UnitPlace::of_volume(name);
    if let Some(existing) = inventory.volume(name.as_str()) {
        if unit.is_some_and(|unit| !unit.is_of(&existing.record)) {
            return Err(PlanError::OtherPlace);
        }
        return unchanged(&existing.record, size, policy);
    }
    let unit = unit.unwrap_or(&own);
    unit.check(inventory, &own)?;
    if let Some(damaged) = damaged(inventory, name) {
        return Err(PlanError::Damaged(damaged.record.volume));
    }
    check_room(inventory, 1, size.slice_count())?;
    let Versioned {
        record: cluster,
        revision,
    } = &inventory.cluster;
    let volume = VolumeRecord {
        schema: 1,
        volume: cluster.next_volume,
        name: name.as_str().into(),
        bytes: size.bytes(),
        policy,
        target: unit.target.as_str().into(),
        lun: unit.lun,
    };
    let mut transactions = vec![take_name(inventory, *revision, &volume)];
    let name_key = NameRecord::key(&volume.name);
    let guard = still_is(name_key, &named(volume.volume));
    let slices = 0..size.slice_count();
    transactions.extend(make_slices(inventory, seen, &volume, slices, &guard)?);
    let mut there = Transaction {
        compare: vec![guard, absent(VolumeRecord::key(volume.volume))],
        success: vec![
            put(VolumeRecord::key(volume.volume), &volume),
            made(volume.volume),
        ],
        failure: Vec::new(),
    };
    if *unit != own {
        // Of two that are made at the same time one gets it.
        let key = UnitRecord::key(&volume.target, volume.lun);
        there.compare.push(absent(key.clone()));
        let taken = UnitRecord {
            schema: 1,
            volume: volume.volume,
        };
        there.success.push(put(key, &taken));
    }
    transactions.push(there);
    Ok(Plan {
        transactions,
        volume,
    })
}

/// Plans that a volume has more bytes, its new slices on nodes that are `seen`. There is
/// nothing to do if it has as many already.
///
/// # Errors
/// [`PlanError`] if there is no such volume, it has more bytes, or there is no room.
pub fn grow(
    inventory: &Inventory,
    seen: impl Fn(NodeId) -> Option<Seen>,
    name: &VolumeName,
    size: VolumeSize,
) -> Result<Plan, PlanError> {
    let Versioned {
        record: old,
        revision,
    } = inventory
        .volume(name.as_str())
        .ok_or(PlanError::NoSuchVolume)?;
    if size.bytes() < old.bytes {
        return Err(PlanError::Shrinks { bytes: old.bytes });
    }
    if size.bytes() == old.bytes {
        return Ok(Plan {
            transactions: Vec::new(),
            volume: old.clone(),
        });
    }
    let (from, to) = (old.slice_count(), size.slice_count());
    check_room(inventory, 0, to - from)?;
    let volume = VolumeRecord {
        bytes: size.bytes(),
        ..old.clone()
    };
    let key = VolumeRecord::key(volume.volume);
    let guard = still_at(key.clone(), *revision);
    let mut transactions: Vec<Transaction> = admit_all(inventory).into_iter().collect();
    transactions.extend(make_slices(inventory, seen, &volume, from..to, &guard)?);
    transactions.push(Transaction {
        compare: vec![guard],
        success: vec![put(key, &volume)],
        failure: Vec::new(),
    });
    Ok(Plan {
        transactions,
        volume,
    })
}

/// Plans that a name is free that is a volume's which is neither there nor being made, and that what there is of that volume
/// is no more. None if there is no such name.
#[must_use]
pub fn clear(inventory: &Inventory, name: &VolumeName) -> Option<Transaction> {
    let Versioned { record, revision } = damaged(inventory, name)?;
    let key = NameRecord::key(name.as_str());
    let (unchanged, said) = Deletions::new(inventory).insert(record.volume);
    let compare = vec![
        still_at(key.clone(), *revision),
        still_without_record(record),
        absent(MakingRecord::key(record.volume)),
        unchanged,
    ];
    let success = vec![
        said,
        Operation::Delete(Selector::Key(key)),
        delete_slices(record.volume),
        Operation::Delete(Selector::Prefix(WishRecord::prefix(record.volume))),
    ];
    Some(Transaction {
        compare,
        success,
        failure: Vec::new(),
    })
}

/// Plans that a volume, and all its data, is no more.
///
/// # Errors
/// [`PlanError::NoSuchVolume`].
pub fn delete(inventory: &Inventory, name: &VolumeName) -> Result<Plan, PlanError> {
    let Versioned {
        record: volume,
        revision,
    } = inventory
        .volume(name.as_str())
        .ok_or(PlanError::NoSuchVolume)?;
    let key = VolumeRecord::key(volume.volume);
    let (unchanged, said) = Deletions::new(inventory).insert(volume.volume);
    let transaction = Transaction {
        compare: vec![still_at(key.clone(), *revision), unchanged],
        success: vec![
            said,
            Operation::Delete(Selector::Key(key)),
            Operation::Delete(Selector::Key(NameRecord::key(&volume.name))),
            delete_slices(volume.volume),
            Operation::Delete(Selector::Prefix(WishRecord::prefix(volume.volume))),
            Operation::Delete(Selector::Key(AccessRecord::key(volume.volume))),
            Operation::Delete(Selector::Key(ScrubRecord::key(volume.volume))),
            Operation::Delete(Selector::Prefix(ScrubbedRecord::prefix(volume.volume))),
            Operation::Delete(Selector::Key(ExportRecord::key(volume.volume))),
            Operation::Delete(Selector::Key(UnitRecord::key(&volume.target, volume.lun))),
        ],
        failure: Vec::new(),
    };
    Ok(Plan {
        transactions: vec![transaction],
        volume: volume.clone(),
    })
}

/// The volumes of which there is a name, or slices, and no record, and how many slices each has. They are being made, or
/// that was cut short; or something is left of one that was deleted, or is damaged. Not each of them is on record as being
/// made: earlier versions do not put that there.
#[must_use]
pub fn without_record(inventory: &Inventory) -> BTreeMap<VolumeId, usize> {
    let has_none = |volume: &VolumeId| !inventory.volumes.contains_key(volume);
    let named = inventory.names.values().map(|name| name.record.volume);
    let mut found: BTreeMap<VolumeId, usize> =
        named.filter(has_none).map(|volume| (volume, 0)).collect();
    let slices = inventory.slices.keys().map(|slice| slice.volume);
    for volume in slices.filter(has_none) {
        *found.entry(volume).or_default() += 1;
    }
    found
}

/// Removes the names, with their slices, of volumes whose making was cut short, and slices that were left of deleted
/// ones; of those that are `abandoned`. A making that is under way is stopped by it, and begins anew. To be carried out one
/// after the other.
#[must_use]
pub fn clean_up(inventory: &Inventory, abandoned: impl Fn(VolumeId) -> bool) -> Vec<Transaction> {
    let slices = inventory.slices.keys().map(|slice| slice.volume);
    let left = slices.filter(|it| inventory.deleted.record.contains(*it) && abandoned(*it));
    let left: BTreeSet<VolumeId> = left.collect();
    let left = left.into_iter().map(|volume| Transaction {
        compare: vec![absent(VolumeRecord::key(volume))],
        success: vec![delete_slices(volume)],
        failure: Vec::new(),
    });
    let mut deleted = Deletions::new(inventory);
    let cut_short = inventory.names.iter().filter(|(_, name)| {
        let volume = name.record.volume;
        is_being_made(inventory, volume) && abandoned(volume)
    });
    let cut_short = cut_short.map(|(name, Versioned { record, revision })| {
        let (unchanged, said) = deleted.insert(record.volume);
        Transaction {
            compare: vec![
                still_at(NameRecord::key(name), *revision),
                still_without_record(record),
                unchanged,
            ],
            success: vec![
                said,
                Operation::Delete(Selector::Key(NameRecord::key(name))),
                made(record.volume),
                delete_slices(record.volume),
            ],
            failure: Vec::new(),
        }
    });
    left.chain(cut_short).collect()
}

/// A volume without a record whose making is on record: under way, or cut short. Of the others without a record it is not
/// known what they are, so nothing is cleared away by itself.
fn is_being_made(inventory: &Inventory, volume: VolumeId) -> bool {
    inventory.makings.contains(&volume) && !inventory.volumes.contains_key(&volume)
}

/// A name whose volume is neither there nor being made.
fn damaged<'a>(inventory: &'a Inventory, name: &VolumeName) -> Option<&'a Versioned<NameRecord>> {
    let named = inventory.names.get(name.as_str())?;
    let volume = named.record.volume;
    let is_known = inventory.volumes.contains_key(&volume) || inventory.makings.contains(&volume);
    (!is_known).then_some(named)
}

fn named(volume: VolumeId) -> NameRecord {
    NameRecord { schema: 1, volume }
}

/// A volume's making is over.
fn made(volume: VolumeId) -> Operation {
    Operation::Delete(Selector::Key(MakingRecord::key(volume)))
}

fn delete_slices(volume: VolumeId) -> Operation {
    Operation::Delete(Selector::Prefix(SliceRecord::prefix(volume)))
}

/// Volumes that are put on record as deleted, by transactions that follow each other.
struct Deletions {
    record: DeletedRecord,
    /// The record is as the transaction before has left it.
    unchanged: Compare,
}

impl Deletions {
    fn new(inventory: &Inventory) -> Self {
        Self {
            record: inventory.deleted.record.clone(),
            unchanged: as_found(DELETED_KEY.into(), Some(&inventory.deleted)),
        }
    }

    /// What has to be so for a volume's deletion, and what says that it is deleted: that goes first, so that whoever
    /// follows the metadata has it when it reads of the slices.
    fn insert(&mut self, volume: VolumeId) -> (Compare, Operation) {
        self.record.insert(volume);
        let unchanged = still_is(DELETED_KEY.into(), &self.record);
        let unchanged = core::mem::replace(&mut self.unchanged, unchanged);
        (unchanged, put(DELETED_KEY.into(), &self.record))
    }
}

fn unchanged(existing: &VolumeRecord, size: VolumeSize, policy: Policy) -> Result<Plan, PlanError> {
    if existing.bytes == size.bytes() && existing.policy == policy {
        return Ok(Plan {
            transactions: Vec::new(),
            volume: existing.clone(),
        });
    }
    Err(PlanError::Exists {
        bytes: existing.bytes,
        policy: existing.policy,
    })
}

fn check_room(inventory: &Inventory, volumes: usize, slices: u32) -> Result<(), PlanError> {
    let room = inventory.names.len() + volumes <= VOLUMES_MAX
        && inventory.slices.len() + slices as usize <= SLICES_MAX;
    if room { Ok(()) } else { Err(PlanError::Full) }
}

/// Takes the name and the next volume's id, and clears away what a plan that was cut short has left
/// under that name.
fn take_name(inventory: &Inventory, cluster_at: Revision, volume: &VolumeRecord) -> Transaction {
    let key = NameRecord::key(&volume.name);
    let former = inventory.names.get(&volume.name);
    let name_at = former.map_or(Revision(0), |name| name.revision);
    let mut success = vec![
        put(
            CLUSTER_KEY.into(),
            &ClusterRecord {
                next_volume: volume.volume.next(),
                ..inventory.cluster.record.clone()
            },
        ),
        put(key.clone(), &named(volume.volume)),
        put(
            MakingRecord::key(volume.volume),
            &MakingRecord {
                schema: 1,
                volume: volume.volume,
            },
        ),
    ];
    // Who comes later is not given anything before it is admitted.
    let members = members::on_record(inventory, |_| true);
    success.extend(members.success);
    let mut compare = vec![
        still_at(CLUSTER_KEY.into(), cluster_at),
        still_at(key, name_at),
    ];
    if let Some(former) = former.map(|name| &name.record) {
        let (unchanged, said) = Deletions::new(inventory).insert(former.volume);
        success.extend([said, made(former.volume), delete_slices(former.volume)]);
        compare.extend([still_without_record(former), unchanged]);
    }
    compare.extend(members.compare);
    Transaction {
        compare,
        success,
        failure: Vec::new(),
    }
}

/// The name's volume has no record still. The name's own record says nothing of that: it does not
/// change when the volume is finished.
fn still_without_record(name: &NameRecord) -> Compare {
    absent(VolumeRecord::key(name.volume))
}

#[cfg(test)]
mod tests;
