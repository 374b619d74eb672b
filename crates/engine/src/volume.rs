//! Volumes as hosts see them, made from their records.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;

use holdfast_iscsi::chap::CHAP_NAME_LENGTH_MAX;
use holdfast_iscsi::target::{
    InitiatorEntry, Portal as TargetPortal, PortalAddress, TargetDirectory, TargetEntry, UnitAccess,
};
use holdfast_iscsi::{ChapAccount, ChapSecret, IscsiName, PortalGroupTag};
use holdfast_model::record::{
    AccessRecord, ChapRecord, ExportRecord, InitiatorRecord, NodeRecord, VolumeRecord,
};
use holdfast_model::{ClusterId, Fence, NodeId, VolumeId};
use holdfast_scsi::logical_unit::Identity;
use holdfast_scsi::{BlockLength, Geometry, LogicalUnit, Lun, Provisioning, TargetPortGroup};

/// A volume that is served.
#[derive(Debug)]
pub(crate) struct Volume {
    pub(crate) id: VolumeId,
    pub(crate) lun: Lun,
    pub(crate) unit: LogicalUnit,
}

/// What has become of units that were offered before.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Updated {
    /// Targets and numbers of units that have grown.
    pub(crate) grown: BTreeSet<(IscsiName, u16)>,
    /// Targets of which a unit is another volume now: one of its name was deleted, and made again.
    pub(crate) replaced: BTreeSet<IscsiName>,
}

/// What hosts can be offered: units by target and number.
#[derive(Debug, Default)]
pub(crate) struct Volumes {
    /// By target first: what every command looks up needs no name of its own.
    units: BTreeMap<IscsiName, BTreeMap<u16, Volume>>,
    access: BTreeMap<VolumeId, AccessRecord>,
    groups: BTreeMap<VolumeId, Vec<TargetPortGroup>>,
    provisioning: BTreeMap<VolumeId, Provisioning>,
}

/// That of all volumes on which nobody has ever registered; whose it is does not matter.
static OPEN: AccessRecord = AccessRecord::open(VolumeId(0));

impl Volumes {
    /// Who may do what with a volume, as far as it is known here.
    pub(crate) fn access(&self, volume: VolumeId) -> &AccessRecord {
        self.access.get(&volume).unwrap_or(&OPEN)
    }

    /// How often somebody has lost a right, as far as it is known here.
    pub(crate) fn fence(&self, volume: VolumeId) -> Fence {
        self.access(volume).fence
    }

    /// The target port groups, as hosts are told; none before it is known.
    pub(crate) fn groups(&self, volume: VolumeId) -> &[TargetPortGroup] {
        self.groups.get(&volume).map_or(&[], Vec::as_slice)
    }

    /// They are others.
    pub(crate) fn set_groups(&mut self, volume: VolumeId, groups: Vec<TargetPortGroup>) {
        if groups.is_empty() {
            self.groups.remove(&volume);
        } else {
            self.groups.insert(volume, groups);
        }
    }

    /// The space beneath a volume; none before it is known.
    pub(crate) fn provisioning(&self, volume: VolumeId) -> Option<Provisioning> {
        self.provisioning.get(&volume).copied()
    }

    /// It is another.
    pub(crate) fn set_provisioning(&mut self, volume: VolumeId, provisioning: Provisioning) {
        self.provisioning.insert(volume, provisioning);
    }

    /// Takes note of it; says how it was before.
    pub(crate) fn set_access(&mut self, volume: VolumeId, record: AccessRecord) -> AccessRecord {
        let before = match record.changes {
            // Nobody has ever registered, or the volume is deleted.
            0 if record.fence == Fence::ZERO => self.access.remove(&volume),
            _ => self.access.insert(volume, record),
        };
        before.unwrap_or_else(|| AccessRecord::open(volume))
    }

    /// The units of a target.
    pub(crate) fn luns(&self, target: &IscsiName) -> Vec<Lun> {
        let units = self.units.get(target).into_iter();
        units
            .flat_map(BTreeMap::values)
            .map(|volume| volume.lun)
            .collect()
    }

    /// A unit.
    pub(crate) fn unit(&self, target: &IscsiName, lun: Lun) -> Option<&Volume> {
        self.units.get(target)?.get(&lun.number()?)
    }

    /// The unit of that NAA identifier, and where it is offered.
    pub(crate) fn identified(&self, naa: &[u8; 16]) -> Option<(&IscsiName, u16, &Volume)> {
        self.all()
            .find(|(_, _, volume)| volume.unit.identity().naa() == *naa)
    }

    /// Every unit, and where it is offered.
    fn all(&self) -> impl Iterator<Item = (&IscsiName, u16, &Volume)> {
        let targets = self.units.iter();
        targets.flat_map(|(target, units)| {
            let units = units.iter();
            units.map(move |(number, volume)| (target, *number, volume))
        })
    }

    /// The volumes behind a target's units, or behind one of them.
    pub(crate) fn of(&self, target: &IscsiName, unit: Option<u16>) -> Vec<VolumeId> {
        let units = self.units.get(target).into_iter().flatten();
        units
            .filter(|(number, _)| unit.is_none_or(|unit| unit == **number))
            .map(|(_, volume)| volume.id)
            .collect()
    }

    /// The target and the unit's number under which a volume is offered.
    pub(crate) fn place_of(&self, volume: VolumeId) -> Option<(&IscsiName, u16)> {
        let found = self.all().find(|(_, _, unit)| unit.id == volume);
        found.map(|(target, number, _)| (target, number))
    }

    /// Follows the records.
    pub(crate) fn update(
        &mut self,
        cluster: ClusterId,
        records: &BTreeMap<VolumeId, VolumeRecord>,
    ) -> Updated {
        let mut units: BTreeMap<IscsiName, BTreeMap<u16, Volume>> = BTreeMap::new();
        let mut updated = Updated::default();
        for record in records.values() {
            let Some(volume) = made_of(cluster, record) else {
                continue;
            };
            let Ok(target) = IscsiName::parse(&record.target) else {
                continue;
            };
            let size = volume.unit.geometry().bytes();
            match self.unit(&target, volume.lun) {
                Some(before) if before.id != volume.id => {
                    updated.replaced.insert(target.clone());
                }
                Some(before) if before.unit.geometry().bytes() < size => {
                    updated.grown.insert((target.clone(), record.lun));
                }
                Some(_) | None => {}
            }
            units.entry(target).or_default().insert(record.lun, volume);
        }
        self.units = units;
        self.provisioning.retain(|it, _| records.contains_key(it));
        updated
    }

    /// Every target with the portals of every node, and who may use which of its units.
    pub(crate) fn directory(
        &self,
        nodes: &BTreeMap<NodeId, NodeRecord>,
        exports: &BTreeMap<VolumeId, ExportRecord>,
        initiators: &BTreeMap<String, InitiatorRecord>,
    ) -> TargetDirectory {
        let portals: Vec<TargetPortal> = nodes
            .values()
            .filter_map(|node| {
                let address = PortalAddress::parse(&node.portal).ok()?;
                Some(TargetPortal {
                    address,
                    group: PortalGroupTag(node.node.0),
                })
            })
            .collect();
        let initiators = initiators.values().filter_map(initiator);
        let mut directory = TargetDirectory {
            initiators: initiators.collect(),
            ..TargetDirectory::default()
        };
        for (target, lun, volume) in self.all() {
            let access = match exports.get(&volume.id) {
                None => UnitAccess::Everybody,
                Some(export) => {
                    let names = export.initiators.iter();
                    let names = names.filter_map(|name| IscsiName::parse(name).ok());
                    // Of whom nothing is known it is not known what he has to prove.
                    let known = names.filter(|name| directory.initiators.contains_key(name));
                    UnitAccess::Listed(known.collect())
                }
            };
            let entry = directory
                .targets
                .entry(target.clone())
                .or_insert_with(|| TargetEntry {
                    portals: portals.clone(),
                    ..TargetEntry::default()
                });
            entry.units.insert(lun, access);
        }
        directory
    }
}

/// `None` if the record says what no initiator can be, or has a secret, or a name for it, that is none: nobody is let in for want of
/// it.
fn initiator(record: &InitiatorRecord) -> Option<(IscsiName, InitiatorEntry)> {
    let account = |chap: &ChapRecord| {
        let secret = ChapSecret::new(chap.secret.0.as_bytes()).ok()?;
        // It is told to initiators, as the value of a key.
        let is_name = (1..=CHAP_NAME_LENGTH_MAX).contains(&chap.name.len())
            && chap
                .name
                .bytes()
                .all(|it| it == b' ' || it.is_ascii_graphic());
        let name = is_name.then(|| chap.name.clone())?;
        Some(ChapAccount { name, secret })
    };
    let entry = InitiatorEntry {
        account: record
            .chap
            .as_ref()
            .map(account)
            .map_or(Some(None), |it| it.map(Some))?,
        mutual: record.mutual.as_ref().and_then(account),
    };
    Some((IscsiName::parse(&record.name).ok()?, entry))
}

/// `None` if the record says what no volume can be.
fn made_of(cluster: ClusterId, record: &VolumeRecord) -> Option<Volume> {
    let whole = record
        .bytes
        .is_multiple_of(holdfast_model::BLOCK_SIZE as u64);
    let sane = record.bytes > 0 && record.bytes <= holdfast_scsi::geometry::CAPACITY_BYTES_MAX;
    if !whole || !sane || record.lun > Lun::NUMBER_MAX {
        return None;
    }
    let geometry = Geometry::new(record.bytes, BlockLength::Emulated512);
    let unit = LogicalUnit::new(Identity::of_volume(cluster, record.volume), geometry);
    Some(Volume {
        id: record.volume,
        lun: Lun::from_number(record.lun),
        unit,
    })
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use holdfast_model::Policy;
    use holdfast_model::record::Secret;

    use super::*;

    const TARGET: &str = "iqn.2026-11.io.holdfast:data";

    /// What becomes of the units when there is one volume, of so many blocks.
    fn update(volumes: &mut Volumes, volume: u64, blocks: u64) -> Updated {
        let record = VolumeRecord {
            schema: 1,
            volume: VolumeId(volume),
            name: "data".to_string(),
            bytes: blocks * holdfast_model::BLOCK_SIZE as u64,
            policy: Policy::Mirror2,
            target: TARGET.to_string(),
            lun: 0,
        };
        volumes.update(ClusterId(5), &[(VolumeId(volume), record)].into())
    }

    /// A node that was cut off hears of both in one moment.
    #[test]
    fn another_volume_of_the_same_name_is_not_one_that_has_grown() {
        let mut volumes = Volumes::default();
        let target = IscsiName::parse(TARGET).unwrap();
        assert_eq!(update(&mut volumes, 1, 8), Updated::default());
        let grown = Updated {
            grown: [(target.clone(), 0)].into(),
            ..Updated::default()
        };
        assert_eq!(update(&mut volumes, 1, 9), grown);
        let replaced = Updated {
            replaced: [target].into(),
            ..Updated::default()
        };
        assert_eq!(update(&mut volumes, 2, 10), replaced);
        assert_eq!(update(&mut volumes, 2, 10), Updated::default());
    }
    fn initiator(name: &str, secret: Option<&str>) -> InitiatorRecord {
        let chap = secret.map(|secret| ChapRecord {
            name: "host".to_string(),
            secret: Secret(secret.to_string()),
        });
        InitiatorRecord {
            schema: 1,
            name: name.to_string(),
            chap: chap.clone(),
            mutual: chap,
        }
    }

    /// Volume 1 is for everybody, or for those who are listed; of them those count of whom enough is known.
    #[test]
    fn a_volume_is_for_whom_it_lists() {
        let mut volumes = Volumes::default();
        update(&mut volumes, 1, 8);
        let named = |name: &str, account: &str| {
            let mut record = initiator(name, Some("a secret of some length"));
            let accounts = [&mut record.chap, &mut record.mutual];
            for chap in accounts.into_iter().flatten() {
                chap.name = account.to_string();
            }
            record
        };
        let nobody = BTreeMap::new();
        let records = [
            initiator("iqn.host:a", None),
            initiator("iqn.host:b", Some("a secret of some length")),
            initiator("iqn.host:c", Some("too short")),
            initiator("no name", None),
            named("iqn.host:e", "a\0Key=value"),
            named("iqn.host:f", ""),
        ];
        let known: BTreeMap<String, InitiatorRecord> = records
            .iter()
            .map(|record| (record.name.clone(), record.clone()))
            .collect();
        let access = |exports: &BTreeMap<VolumeId, ExportRecord>| {
            let directory = volumes.directory(&BTreeMap::new(), exports, &known);
            let target = IscsiName::parse(TARGET).unwrap();
            let names: Vec<String> = directory
                .initiators
                .keys()
                .map(|it| it.to_string())
                .collect();
            assert_eq!(names, ["iqn.host:a", "iqn.host:b"]);
            directory.targets[&target].units[&0].clone()
        };
        assert_eq!(access(&nobody), UnitAccess::Everybody);
        let other = ExportRecord::nobody(VolumeId(2));
        let other = BTreeMap::from([(VolumeId(2), other)]);
        assert_eq!(access(&other), UnitAccess::Everybody);
        let mut export = ExportRecord::nobody(VolumeId(1));
        let listed = BTreeMap::from([(VolumeId(1), export.clone())]);
        assert_eq!(access(&listed), UnitAccess::Listed(BTreeSet::new()));
        let names = [
            "iqn.host:a",
            "iqn.host:b",
            "iqn.host:c",
            "iqn.host:d",
            "iqn.host:e",
            "no name",
        ];
        export.initiators = names.map(String::from).into();
        let listed = BTreeMap::from([(VolumeId(1), export)]);
        let expected = ["iqn.host:a", "iqn.host:b"].map(|name| IscsiName::parse(name).unwrap());
        assert_eq!(access(&listed), UnitAccess::Listed(expected.into()));
    }
}
