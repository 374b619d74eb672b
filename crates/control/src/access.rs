//! Who may use volumes: initiators put on record, and volumes that are for some of them only.
//!
//! Invariants:
//! - a volume is never for an initiator of which there is no record: whoever is listed can be told what it proves itself by;
//! - a secret has the length that RFC 7143 9.2.1 wants, and letters that every host can be told.

use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use holdfast_model::VolumeId;
use holdfast_model::metadata::{Operation, Selector, Transaction};
use holdfast_model::record::{ChapRecord, ExportRecord, InitiatorRecord, VolumeRecord};

use crate::writing::{as_found, put, still_at};
use crate::{Inventory, IscsiNodeName, Versioned, VolumeName};

/// Initiators of a cluster at most: all of their records are read at once, and nodes keep them in memory.
pub const INITIATORS_MAX: usize = 1 << 10;
/// Letters in a secret at least: 96 bits (RFC 7143 9.2.1).
pub const SECRET_LENGTH_MIN: usize = 12;
/// Letters in a secret, or in a CHAP name, at most (RFC 7143 6.1).
pub const SECRET_LENGTH_MAX: usize = 255;

/// What becomes of whom a volume is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AccessOrder {
    /// It is for this initiator too; and for nobody else any more, if it was for everybody.
    Allow(IscsiNodeName),
    /// It is not for this initiator any more.
    Disallow(IscsiNodeName),
    /// It is for everybody.
    Open,
}

/// Why nothing is changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AccessError {
    /// There is no volume of that name.
    #[error("there is no volume of that name")]
    NoSuchVolume,
    /// There is no initiator of that name.
    #[error("there is no initiator of that name")]
    NoSuchInitiator,
    /// The initiator is listed.
    #[error("volumes are for it still: {}", .0.join(", "))]
    Listed(Vec<String>),
    /// The volume is for everybody, so that nobody can be taken off its list.
    #[error("the volume is for everybody")]
    IsOpen,
    /// The cluster has as many initiators as it can have.
    #[error("the cluster has {INITIATORS_MAX} initiators, which is as many as it can have")]
    Full,
    /// A secret is too short, or too long.
    #[error(
        "a CHAP secret has {SECRET_LENGTH_MIN} to {SECRET_LENGTH_MAX} letters (96 bits at least: RFC 7143 9.2.1)"
    )]
    SecretLength,
    /// A secret, or a CHAP name, has what cannot be typed everywhere.
    #[error("a CHAP secret, and a CHAP name, has letters, digits and signs of ASCII only")]
    Letters,
    /// A CHAP name is empty, or too long.
    #[error("a CHAP name has 1 to {SECRET_LENGTH_MAX} letters")]
    NameLength,
    /// The target would prove itself to nobody who has not proved himself.
    #[error("a mutual secret is of use only together with a secret of the initiator's own")]
    MutualAlone,
    /// Both sides would prove themselves by the same.
    #[error("the mutual secret is the initiator's own one: RFC 7143 9.2.1 wants another")]
    SameSecret,
}

/// Plans that an initiator is on record as this; nothing if it is so already.
///
/// # Errors
/// [`AccessError`] if that makes no sense, or there is no room.
pub fn put_initiator(
    inventory: &Inventory,
    record: &InitiatorRecord,
) -> Result<Option<Transaction>, AccessError> {
    for chap in record.chap.iter().chain(&record.mutual) {
        check(chap)?;
    }
    match (&record.chap, &record.mutual) {
        (None, Some(_)) => return Err(AccessError::MutualAlone),
        (Some(own), Some(mutual)) if own.secret == mutual.secret => {
            return Err(AccessError::SameSecret);
        }
        _ => {}
    }
    let found = inventory.initiators.get(&record.name);
    if found.is_some_and(|found| found.record == *record) {
        return Ok(None);
    }
    if found.is_none() && inventory.initiators.len() >= INITIATORS_MAX {
        return Err(AccessError::Full);
    }
    let key = InitiatorRecord::key(&record.name);
    Ok(Some(Transaction {
        compare: vec![as_found(key.clone(), found)],
        success: vec![put(key, record)],
        failure: Vec::new(),
    }))
}

fn check(chap: &ChapRecord) -> Result<(), AccessError> {
    let secret = &chap.secret.0;
    if !(SECRET_LENGTH_MIN..=SECRET_LENGTH_MAX).contains(&secret.len()) {
        return Err(AccessError::SecretLength);
    }
    if !(1..=SECRET_LENGTH_MAX).contains(&chap.name.len()) {
        return Err(AccessError::NameLength);
    }
    let plain = |text: &str| {
        text.bytes()
            .all(|byte| byte == b' ' || byte.is_ascii_graphic())
    };
    if plain(secret) && plain(&chap.name) {
        Ok(())
    } else {
        Err(AccessError::Letters)
    }
}

/// Plans that an initiator is forgotten.
///
/// # Errors
/// [`AccessError`] if there is none, or volumes are for it.
pub fn remove_initiator(
    inventory: &Inventory,
    name: &IscsiNodeName,
) -> Result<Transaction, AccessError> {
    let found = inventory.initiators.get(name.as_str());
    let found = found.ok_or(AccessError::NoSuchInitiator)?;
    let volumes = volumes_of(inventory, name.as_str());
    if !volumes.is_empty() {
        return Err(AccessError::Listed(volumes));
    }
    let key = InitiatorRecord::key(name.as_str());
    // Whoever lists it meanwhile rewrites its record, so that this holds no more.
    let compare = vec![still_at(key.clone(), found.revision)];
    Ok(Transaction {
        compare,
        success: vec![Operation::Delete(Selector::Key(key))],
        failure: Vec::new(),
    })
}

/// The names of the volumes that list an initiator.
#[must_use]
pub fn volumes_of(inventory: &Inventory, initiator: &str) -> Vec<String> {
    let volumes = inventory.volumes.values().map(|volume| &volume.record);
    let listing = volumes.filter(|volume| {
        let export = inventory.exports.get(&volume.volume);
        export.is_some_and(|it| it.record.initiators.iter().any(|other| other == initiator))
    });
    let mut names: Vec<String> = listing.map(|volume| volume.name.clone()).collect();
    names.sort();
    names
}

/// The names of the volumes that each initiator may use, by its name, in order: of all initiators in one go, for each volume lists
/// some, and few list most.
#[must_use]
pub fn volumes_by_initiator(inventory: &Inventory) -> BTreeMap<&str, Vec<&str>> {
    let mut all: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for export in inventory.exports.values().map(|export| &export.record) {
        let Some(volume) = inventory.volumes.get(&export.volume) else {
            continue;
        };
        for initiator in &export.initiators {
            let names = all.entry(initiator).or_default();
            names.push(&volume.record.name);
        }
    }
    for names in all.values_mut() {
        names.sort_unstable();
    }
    all
}

/// Plans that a volume is for others; nothing if it is so already.
///
/// # Errors
/// [`AccessError`] if there is no such volume, or initiator, or nothing to take anybody off.
pub fn change_access(
    inventory: &Inventory,
    name: &VolumeName,
    order: &AccessOrder,
) -> Result<Option<Transaction>, AccessError> {
    let volume = inventory.volume(name.as_str());
    let volume = volume.ok_or(AccessError::NoSuchVolume)?;
    let id = volume.record.volume;
    let found = inventory.exports.get(&id);
    let key = ExportRecord::key(id);
    let mut compare = vec![
        as_found(key.clone(), found),
        still_at(VolumeRecord::key(id), volume.revision),
    ];
    let mut again = None;
    let operation = match order {
        AccessOrder::Open if found.is_none() => return Ok(None),
        AccessOrder::Open => Operation::Delete(Selector::Key(key)),
        AccessOrder::Allow(initiator) => {
            let known = inventory.initiators.get(initiator.as_str());
            let known = known.ok_or(AccessError::NoSuchInitiator)?;
            let initiator_key = InitiatorRecord::key(initiator.as_str());
            compare.push(still_at(initiator_key.clone(), known.revision));
            let mut export = listed(found, id);
            match export.initiators.binary_search(&initiator.to_string()) {
                Ok(_) => return Ok(None),
                Err(place) => export.initiators.insert(place, initiator.to_string()),
            }
            // As it is, so that who forgets it at the same time does so knowingly.
            again = Some(put(initiator_key, &known.record));
            put(key, &export)
        }
        AccessOrder::Disallow(initiator) => {
            if found.is_none() {
                return Err(AccessError::IsOpen);
            }
            let mut export = listed(found, id);
            let before = export.initiators.len();
            export
                .initiators
                .retain(|other| other != initiator.as_str());
            if export.initiators.len() == before {
                return Ok(None);
            }
            put(key, &export)
        }
    };
    Ok(Some(Transaction {
        compare,
        success: [operation].into_iter().chain(again).collect(),
        failure: Vec::new(),
    }))
}

fn listed(found: Option<&Versioned<ExportRecord>>, volume: VolumeId) -> ExportRecord {
    let found = found.map(|found| found.record.clone());
    let mut export = found.unwrap_or_else(|| ExportRecord::nobody(volume));
    export.initiators.sort();
    export
}
