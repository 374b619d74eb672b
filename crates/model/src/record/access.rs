//! What the metadata holds of access to a volume: who is registered for persistent reservations, with which key, and who
//! holds which reservation. There is one document for each volume on which anybody has ever registered.
//!
//! The rules that it is changed by are SCSI's, and not known here.
//!
//! Invariants:
//! - an I_T nexus is registered once, and registrations are in the order of their nexuses;
//! - nobody is registered while a nexus has the unit by RESERVE;
//! - the fence rises with every change that takes anybody's right away, and never falls.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::is_zero;
use crate::{Fence, NodeId, VolumeId};

/// What is counted one by one gets nowhere near.
const COUNTER_MAX: u64 = 1 << 62;

/// Where the access to volumes is.
pub const ACCESS_PREFIX: &str = "/holdfast/access/";

/// An initiator port, through a target port: an I_T nexus (SAM-5 4.7), by names that outlive every session.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AccessNexus {
    /// The initiator's iSCSI name, as it is compared (RFC 7143 4.2.7).
    pub initiator: String,
    /// The initiator's part of the session's identifier.
    pub isid: Isid,
    /// The target port: there is one on each node.
    pub port: NodeId,
}

/// The initiator's part of a session's identifier (RFC 7143 11.12.5); with its name, it is the name of the initiator port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Isid(pub [u8; 6]);

impl Serialize for Isid {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let [a, b, c, d, e, f] = self.0;
        serializer.collect_str(&format_args!("{a:02x}{b:02x}{c:02x}{d:02x}{e:02x}{f:02x}"))
    }
}

impl<'de> Deserialize<'de> for Isid {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        let text = String::deserialize(source)?;
        let malformed = || serde::de::Error::custom("an ISID has twelve hexadecimal digits");
        if text.len() != 12 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(malformed());
        }
        let number = u64::from_str_radix(&text, 16).map_err(|_| malformed())?;
        let [_, _, isid @ ..] = number.to_be_bytes();
        Ok(Self(isid))
    }
}

/// A registration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registration {
    /// Whose it is.
    pub nexus: AccessNexus,
    /// Its reservation key, not zero.
    pub key: u64,
    /// It was made for all target ports at once (ALL_TG_PT).
    pub all_target_ports: bool,
}

/// What a reservation forbids others (SPC-4 5.12.2, Persistent reservation types).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReservationKind {
    /// Writes, to all but the holder.
    WriteExclusive,
    /// Reads and writes, to all but the holder.
    ExclusiveAccess,
    /// Writes, to all who are not registered.
    WriteExclusiveRegistrantsOnly,
    /// Reads and writes, to all who are not registered.
    ExclusiveAccessRegistrantsOnly,
    /// The same as the third, and all who are registered hold it.
    WriteExclusiveAllRegistrants,
    /// The same as the fourth, and all who are registered hold it.
    ExclusiveAccessAllRegistrants,
}

/// A reservation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reservation {
    /// What it forbids.
    pub kind: ReservationKind,
    /// Who holds it; nobody alone if all who are registered do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder: Option<AccessNexus>,
}

/// The command that has changed the access the last time: repeated on another path, it has the same outcome.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LastChange {
    /// Whose it was.
    pub nexus: AccessNexus,
    /// Service action of PERSISTENT RESERVE OUT; none of RESERVE and RELEASE, and of what no command did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<u8>,
    /// Tells the command, with its parameters, apart from others.
    pub digest: u64,
}

/// Who may do what with a volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AccessRecord {
    /// Schema number, 1.
    pub schema: u32,
    /// Whose access this is.
    pub volume: VolumeId,
    /// How often a right was taken away.
    pub fence: Fence,
    /// PRGENERATION (SPC-4 6.15.2); wraps.
    pub generation: u32,
    /// That it outlives the loss of power of all nodes was asked for (APTPL). It does in any case.
    #[serde(default, skip_serializing_if = "is_false")]
    pub persists: bool,
    /// Who is registered, in order.
    #[serde(with = "grouped", default, skip_serializing_if = "Vec::is_empty")]
    pub registrations: Vec<Registration>,
    /// Who holds what.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reservation: Option<Reservation>,
    /// Who holds all of it by RESERVE, which is not persistent: it ends with the nexus, and with a reset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reserved: Option<AccessNexus>,
    /// What has changed it the last time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<LastChange>,
    /// How often it was changed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub changes: u64,
}

fn is_false(flag: &bool) -> bool {
    !*flag
}

impl AccessRecord {
    /// That of a volume on which nobody has ever registered: everybody may do everything.
    #[must_use]
    pub const fn open(volume: VolumeId) -> Self {
        Self {
            schema: 1,
            volume,
            fence: Fence::ZERO,
            generation: 0,
            persists: false,
            registrations: Vec::new(),
            reservation: None,
            reserved: None,
            last: None,
            changes: 0,
        }
    }

    /// The key of the record of a volume's access.
    #[must_use]
    pub fn key(volume: VolumeId) -> String {
        format!("{ACCESS_PREFIX}{:016x}", volume.0)
    }

    /// The registration of a nexus.
    #[must_use]
    pub fn registration(&self, nexus: &AccessNexus) -> Option<&Registration> {
        let found = self.place_of(nexus).ok()?;
        Some(&self.registrations[found])
    }

    /// Where the registration of a nexus is, or would be.
    ///
    /// # Errors
    /// It is not there.
    pub fn place_of(&self, nexus: &AccessNexus) -> Result<usize, usize> {
        self.registrations
            .binary_search_by(|known| known.nexus.cmp(nexus))
    }

    /// Whether what was read is well formed: registrations in order, none twice, no key zero, a holder who is
    /// registered, and nobody registered beside a RESERVE.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        let ordered = self
            .registrations
            .is_sorted_by(|one, other| one.nexus < other.nexus);
        let has_keys = self.registrations.iter().all(|it| it.key != 0);
        let holder = self.reservation.as_ref().map(|it| (it.kind, &it.holder));
        let is_held = match holder {
            None => true,
            Some((
                ReservationKind::WriteExclusiveAllRegistrants
                | ReservationKind::ExclusiveAccessAllRegistrants,
                holder,
            )) => holder.is_none() && !self.registrations.is_empty(),
            Some((_, holder)) => holder
                .as_ref()
                .is_some_and(|holder| self.registration(holder).is_some()),
        };
        let excludes = self.reserved.is_none() || self.registrations.is_empty();
        let is_counted = self.fence.0 <= COUNTER_MAX && self.changes <= COUNTER_MAX;
        ordered && has_keys && is_held && excludes && is_counted
    }
}

/// Registrations as the document has them: an initiator's name is there once, however many sessions it has.
mod grouped {
    use super::{AccessNexus, Deserialize, Deserializer, Isid, NodeId, Registration, Serializer};
    use alloc::string::String;
    use alloc::vec::Vec;

    use serde::Serialize;

    #[derive(Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Group {
        initiator: String,
        /// ISID, target port, key in hexadecimal digits, ALL_TG_PT.
        registrations: Vec<(Isid, NodeId, String, bool)>,
    }

    pub(super) fn serialize<S: Serializer>(
        registrations: &[Registration],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let mut groups: Vec<Group> = Vec::new();
        for Registration {
            nexus,
            key,
            all_target_ports,
        } in registrations
        {
            let entry = (
                nexus.isid,
                nexus.port,
                alloc::format!("{key:x}"),
                *all_target_ports,
            );
            match groups.last_mut() {
                Some(group) if group.initiator == nexus.initiator => {
                    group.registrations.push(entry);
                }
                _ => groups.push(Group {
                    initiator: nexus.initiator.clone(),
                    registrations: alloc::vec![entry],
                }),
            }
        }
        groups.serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        source: D,
    ) -> Result<Vec<Registration>, D::Error> {
        let mut registrations = Vec::new();
        for group in Vec::<Group>::deserialize(source)? {
            for (isid, port, key, all_target_ports) in group.registrations {
                let key = u64::from_str_radix(&key, 16).map_err(serde::de::Error::custom)?;
                let initiator = group.initiator.clone();
                registrations.push(Registration {
                    nexus: AccessNexus {
                        initiator,
                        isid,
                        port,
                    },
                    key,
                    all_target_ports,
                });
            }
        }
        Ok(registrations)
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;
    use crate::record::Record;

    fn nexus(initiator: &str, port: u16) -> AccessNexus {
        AccessNexus {
            initiator: initiator.to_string(),
            isid: Isid([0, 2, 0x3d, 0, 0, 1]),
            port: NodeId(port),
        }
    }

    fn record() -> AccessRecord {
        let registration = |initiator: &str, port, key| Registration {
            nexus: nexus(initiator, port),
            key,
            all_target_ports: false,
        };
        AccessRecord {
            fence: Fence(3),
            generation: 4,
            registrations: alloc::vec![
                registration("iqn.a", 1, 0xabc),
                registration("iqn.a", 2, 0xabc),
                registration("iqn.b", 1, u64::MAX),
            ],
            reservation: Some(Reservation {
                kind: ReservationKind::WriteExclusive,
                holder: Some(nexus("iqn.a", 2)),
            }),
            ..AccessRecord::open(VolumeId(7))
        }
    }

    #[test]
    fn it_reads_as_it_was_written() {
        let text = record().encode();
        assert_eq!(
            core::str::from_utf8(&text).unwrap(),
            r#"{"schema":1,"volume":7,"fence":3,"generation":4,"registrations":[{"initiator":"iqn.a","registrations":[["00023d000001",1,"abc",false],["00023d000001",2,"abc",false]]},{"initiator":"iqn.b","registrations":[["00023d000001",1,"ffffffffffffffff",false]]}],"reservation":{"kind":"write-exclusive","holder":{"initiator":"iqn.a","isid":"00023d000001","port":2}}}"#
        );
        assert_eq!(AccessRecord::decode(&text), Ok(record()));
        let open = AccessRecord::open(VolumeId(7));
        assert_eq!(AccessRecord::decode(&open.encode()), Ok(open));
    }

    #[test]
    fn registrations_are_found_by_their_nexus() {
        let record = record();
        let found = record.registration(&nexus("iqn.b", 1)).unwrap();
        assert_eq!(found.key, u64::MAX);
        assert_eq!(record.registration(&nexus("iqn.b", 2)), None);
        assert_eq!(record.place_of(&nexus("iqn.a", 3)), Err(2));
    }

    #[test]
    fn what_contradicts_itself_is_not_sound() {
        assert!(record().is_sound());
        let mut twice = record();
        twice.registrations[1] = twice.registrations[0].clone();
        assert!(!twice.is_sound());
        let mut without_key = record();
        without_key.registrations[2].key = 0;
        assert!(!without_key.is_sound());
        let mut held_by_nobody = record();
        held_by_nobody.registrations.remove(1);
        assert!(!held_by_nobody.is_sound());
        let mut reserved_twice = record();
        reserved_twice.reserved = Some(nexus("iqn.a", 1));
        assert!(!reserved_twice.is_sound());
    }

    /// Six hosts with sixteen sessions each are 96 nexuses; a thousand fit as well.
    #[test]
    fn a_thousand_registrations_fit_into_a_value() {
        let mut record = AccessRecord::open(VolumeId(1));
        for host in 0..64 {
            for port in 1..=16 {
                let name = format!("iqn.1991-05.com.example:host-with-a-long-name-{host:04}");
                record.registrations.push(Registration {
                    nexus: nexus(&name, port),
                    key: u64::MAX,
                    all_target_ports: true,
                });
            }
        }
        assert!(record.is_sound());
        assert!(record.encode().len() < crate::metadata::VALUE_LENGTH_MAX / 2);
    }
}
