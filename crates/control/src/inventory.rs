//! What the metadata holds, read at one revision.
//!
//! Invariants:
//! - everything in it was there at the same time.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;

use holdfast_model::metadata::{
    KeyValue, Operation, OperationResult, Revision, Selector, Transaction, TransactionOutcome,
};
use holdfast_model::record::{
    CLUSTER_KEY, CREATIONS_PREFIX, ClusterRecord, CreationRecord, DELETED_KEY, DOMAINS_PREFIX,
    DRAINS_PREFIX, DeletedRecord, DomainRecord, DrainRecord, EXPORTS_PREFIX, ExportRecord,
    INITIATORS_PREFIX, INTENTS_PREFIX, InitiatorRecord, IntentRecord, MAKINGS_PREFIX, MakingRecord,
    NAMES_PREFIX, NODES_PREFIX, NameRecord, NodeRecord, Record, SCRUBBED_PREFIX, SCRUBS_PREFIX,
    SETTINGS_KEY, SLICES_PREFIX, ScrubRecord, ScrubbedRecord, SettingsRecord, SliceRecord,
    VOLUMES_PREFIX, VolumeRecord, WISHES_PREFIX, WishRecord,
};
use holdfast_model::{NodeId, SliceId, VolumeId};

/// A record, and the revision at which it was last changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Versioned<T> {
    /// The record.
    pub record: T,
    /// When it was last changed.
    pub revision: Revision,
}

/// What the metadata holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inventory {
    /// When it was read.
    pub revision: Revision,
    /// The cluster.
    pub cluster: Versioned<ClusterRecord>,
    /// The volumes that were deleted; none, of revision zero, if nobody has deleted any.
    pub deleted: Versioned<DeletedRecord>,
    /// The nodes.
    pub nodes: BTreeMap<NodeId, NodeRecord>,
    /// The failure domains that nodes say they are in.
    pub domains: BTreeMap<NodeId, DomainRecord>,
    /// The names of volumes.
    pub names: BTreeMap<String, Versioned<NameRecord>>,
    /// Which volumes are being made, or their making was cut short.
    pub makings: BTreeSet<VolumeId>,
    /// The volumes.
    pub volumes: BTreeMap<VolumeId, Versioned<VolumeRecord>>,
    /// The slices, those of volumes that are not there (yet, or any more) among them.
    pub slices: BTreeMap<SliceId, SliceRecord>,
    /// The settings; the defaults, of revision zero, if nobody has set any.
    pub settings: Versioned<SettingsRecord>,
    /// What the operator wants of nodes.
    pub intents: BTreeMap<NodeId, Versioned<IntentRecord>>,
    /// With how much drains began.
    pub drains: BTreeMap<NodeId, DrainRecord>,
    /// Where slices are to be.
    pub wishes: BTreeMap<SliceId, Versioned<WishRecord>>,
    /// The scrubs of volumes.
    pub scrubs: BTreeMap<VolumeId, Versioned<ScrubRecord>>,
    /// Initiators, by name.
    pub initiators: BTreeMap<String, Versioned<InitiatorRecord>>,
    /// Whom the volumes are for that are not for everybody.
    pub exports: BTreeMap<VolumeId, Versioned<ExportRecord>>,
    /// What came of wishes that bore a key, by where they are on record.
    pub creations: BTreeMap<String, Versioned<CreationRecord>>,
    /// What slices' parts in them found.
    pub scrubbed: BTreeMap<SliceId, ScrubbedRecord>,
}

/// Why there is no inventory.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InventoryError {
    /// Nobody has made the cluster yet.
    #[error("the metadata holds no cluster yet")]
    NoCluster,
    /// A record that cannot be read; its key.
    #[error("the metadata's record at {0} cannot be read by this version")]
    Record(String),
    /// The answer is none to the question.
    #[error("the metadata's answer is not to what was asked")]
    Answer,
}

impl Inventory {
    /// The transaction that reads it.
    #[must_use]
    pub fn query() -> Transaction {
        let keys = [CLUSTER_KEY, SETTINGS_KEY, DELETED_KEY].map(|key| Selector::Key(key.into()));
        let prefixes = [
            NODES_PREFIX,
            NAMES_PREFIX,
            MAKINGS_PREFIX,
            VOLUMES_PREFIX,
            SLICES_PREFIX,
            INTENTS_PREFIX,
            WISHES_PREFIX,
            SCRUBS_PREFIX,
            SCRUBBED_PREFIX,
            INITIATORS_PREFIX,
            EXPORTS_PREFIX,
            DOMAINS_PREFIX,
            CREATIONS_PREFIX,
            DRAINS_PREFIX,
        ]
        .map(|prefix| Selector::Prefix(prefix.into()));
        let all = keys.into_iter().chain(prefixes);
        let success = all.map(Operation::Range).collect();
        Transaction {
            success,
            ..Transaction::default()
        }
    }

    /// What the query's outcome tells.
    ///
    /// # Errors
    /// [`InventoryError`] if there is no cluster, or something that this version cannot read.
    pub fn from_outcome(outcome: TransactionOutcome) -> Result<Self, InventoryError> {
        let [
            cluster,
            settings,
            deleted,
            nodes,
            names,
            makings,
            volumes,
            slices,
            intents,
            wishes,
            scrubs,
            scrubbed,
            initiators,
            exports,
            domains,
            creations,
            drains,
        ] = ranges(outcome.results)?;
        let cluster = cluster.first().ok_or(InventoryError::NoCluster)?;
        Ok(Self {
            revision: outcome.revision,
            cluster: read(cluster)?,
            deleted: read_one(&deleted)?,
            nodes: read_all(&nodes, |_, node: Versioned<NodeRecord>| {
                (node.record.node, node.record)
            })?,
            domains: read_all(&domains, |_, domain: Versioned<DomainRecord>| {
                (domain.record.node, domain.record)
            })?,
            names: read_all(&names, |key, name| (key[NAMES_PREFIX.len()..].into(), name))?,
            makings: read_all(&makings, |_, making: Versioned<MakingRecord>| {
                (making.record.volume, ())
            })?
            .into_keys()
            .collect(),
            volumes: read_all(&volumes, |_, volume: Versioned<VolumeRecord>| {
                (volume.record.volume, volume)
            })?,
            slices: read_all(&slices, |_, slice: Versioned<SliceRecord>| {
                (slice.record.slice, slice.record)
            })?,
            settings: read_one(&settings)?,
            intents: read_all(&intents, |_, intent: Versioned<IntentRecord>| {
                (intent.record.node, intent)
            })?,
            drains: read_all(&drains, |_, drain: Versioned<DrainRecord>| {
                (drain.record.node, drain.record)
            })?,
            wishes: read_all(&wishes, |_, wish: Versioned<WishRecord>| {
                (wish.record.slice, wish)
            })?,
            scrubs: read_all(&scrubs, |_, scrub: Versioned<ScrubRecord>| {
                (scrub.record.volume, scrub)
            })?,
            initiators: read_all(&initiators, |_, one: Versioned<InitiatorRecord>| {
                (one.record.name.clone(), one)
            })?,
            exports: read_all(&exports, |_, export: Versioned<ExportRecord>| {
                (export.record.volume, export)
            })?,
            creations: read_all(&creations, |key, one| (key.into(), one))?,
            scrubbed: read_all(&scrubbed, |_, scrubbed: Versioned<ScrubbedRecord>| {
                (scrubbed.record.slice, scrubbed.record)
            })?,
        })
    }

    /// The volume of that name, even if nothing but its own record says so.
    #[must_use]
    pub fn volume(&self, name: &str) -> Option<&Versioned<VolumeRecord>> {
        let named = self.names.get(name);
        let named = named.and_then(|named| self.volumes.get(&named.record.volume));
        named.or_else(|| {
            let mut volumes = self.volumes.values();
            volumes.find(|volume| volume.record.name == name)
        })
    }

    /// The slices of a volume that its record speaks of, in their order.
    pub fn slices_of(&self, volume: &VolumeRecord) -> impl Iterator<Item = &SliceRecord> {
        let id = volume.volume;
        let end = SliceId {
            volume: id,
            index: volume.slice_count(),
        };
        self.slices
            .range(
                SliceId {
                    volume: id,
                    index: 0,
                }..end,
            )
            .map(|(_, slice)| slice)
    }
}

fn read<T: Record>(found: &KeyValue) -> Result<Versioned<T>, InventoryError> {
    let record = T::decode(&found.value).map_err(|_| InventoryError::Record(found.key.clone()))?;
    Ok(Versioned {
        record,
        revision: found.mod_revision,
    })
}

/// What is there, or what counts as long as nothing is, of revision zero.
fn read_one<T: Record + Default>(found: &[KeyValue]) -> Result<Versioned<T>, InventoryError> {
    found.first().map_or_else(
        || {
            Ok(Versioned {
                record: T::default(),
                revision: Revision(0),
            })
        },
        read,
    )
}

/// What was found under each of the query's selectors.
fn ranges<const COUNT: usize>(
    results: Vec<OperationResult>,
) -> Result<[Vec<KeyValue>; COUNT], InventoryError> {
    let ranges = results.into_iter().map(|result| match result {
        OperationResult::Range(found) => Ok(found),
        OperationResult::Put | OperationResult::Delete(_) => Err(InventoryError::Answer),
    });
    let ranges: Vec<_> = ranges.collect::<Result<_, _>>()?;
    ranges.try_into().map_err(|_| InventoryError::Answer)
}

fn read_all<T: Record, K: Ord, V>(
    found: &[KeyValue],
    place: impl Fn(&str, Versioned<T>) -> (K, V),
) -> Result<BTreeMap<K, V>, InventoryError> {
    found
        .iter()
        .map(|one| Ok(place(&one.key, read(one)?)))
        .collect()
}
