//! What a target has to offer: names, units, where they are served, and to whom.
//!
//! Its owner makes it from the cluster's metadata and gives it anew whenever that changes.
//!
//! Invariants:
//! - a target is listed under its own name, with its units in rising order;
//! - who sees none of a target's units is not told of the target, and does not get a session.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use thiserror::Error;

use crate::{ChapAccount, IscsiName, Isid, PortalGroupTag};

/// All targets of the cluster, as this node tells of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TargetDirectory {
    /// Targets by name.
    pub targets: BTreeMap<IscsiName, TargetEntry>,
    /// Initiators of which something is known. Others have nothing to prove who they are with.
    pub initiators: BTreeMap<IscsiName, InitiatorEntry>,
    /// Portal groups of nodes in maintenance: nobody is sent there.
    pub away: BTreeSet<PortalGroupTag>,
}

/// One target.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TargetEntry {
    /// TargetAlias: a name for people, at most 255 bytes; longer ones are not sent.
    pub alias: Option<String>,
    /// Its units by their numbers, and who sees each.
    pub units: BTreeMap<u16, UnitAccess>,
    /// Every portal of every node that serves it.
    pub portals: Vec<Portal>,
}

/// Who sees a unit. To others it does not exist.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum UnitAccess {
    /// Everybody.
    #[default]
    Everybody,
    /// These.
    Listed(BTreeSet<IscsiName>),
}

/// What is known of an initiator.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InitiatorEntry {
    /// What it proves by CHAP who it is with. Where a unit lists an initiator that has this, its
    /// name alone is not believed.
    pub account: Option<ChapAccount>,
    /// What the target proves to it who it is with, if the initiator wants that. Of no use without
    /// `account`, or with the same secret.
    pub mutual: Option<ChapAccount>,
}

/// Whether an initiator may have a session with a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Admission {
    /// There is no such target.
    NoTarget,
    /// It sees none of the target's units.
    Refused,
    /// It may, if it has proved who it is where `proved` says so.
    Admitted { proved: bool },
}

impl UnitAccess {
    /// Whether `initiator` sees the unit.
    #[must_use]
    pub fn permits(&self, initiator: &IscsiName) -> bool {
        match self {
            Self::Everybody => true,
            Self::Listed(initiators) => initiators.contains(initiator),
        }
    }
}

impl TargetEntry {
    /// Whether `initiator` sees the unit of this number.
    pub(super) fn shows(&self, unit: u16, initiator: &IscsiName) -> bool {
        let access = self.units.get(&unit);
        access.is_some_and(|access| access.permits(initiator))
    }

    /// Whether `initiator` sees any unit.
    pub(super) fn is_for(&self, initiator: &IscsiName) -> bool {
        self.units.values().any(|access| access.permits(initiator))
    }
}

impl TargetDirectory {
    /// Whether `initiator` may have a session with `target`.
    pub(super) fn admission(&self, target: &IscsiName, initiator: &IscsiName) -> Admission {
        let Some(entry) = self.targets.get(target) else {
            return Admission::NoTarget;
        };
        if !entry.is_for(initiator) {
            return Admission::Refused;
        }
        let has_account = self
            .initiators
            .get(initiator)
            .is_some_and(|it| it.account.is_some());
        // What everybody sees needs no proof.
        let mut seen = entry.units.values().filter(|it| it.permits(initiator));
        let is_listed = seen.any(|access| *access != UnitAccess::Everybody);
        Admission::Admitted {
            proved: has_account && is_listed,
        }
    }

    /// A portal of `target` on another node, for an initiator that cannot stay at the node of
    /// `group`: which one depends on who it is, so that not all go to the same.
    pub(super) fn elsewhere(
        &self,
        target: &IscsiName,
        group: PortalGroupTag,
        (initiator, isid): (&IscsiName, Isid),
    ) -> Option<&PortalAddress> {
        let entry = self.targets.get(target)?;
        let others = || {
            let portals = entry.portals.iter();
            portals.filter(|it| it.group != group && !self.away.contains(&it.group))
        };
        let bytes = initiator.as_str().bytes().chain(isid.0);
        let sum = bytes.fold(0_usize, |sum, byte| {
            sum.wrapping_mul(31).wrapping_add(byte.into())
        });
        let place = sum.checked_rem(others().count())?;
        others().nth(place).map(|it| &it.address)
    }
}

/// A place where a target can be reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Portal {
    /// As initiators reach it.
    pub address: PortalAddress,
    /// The node's portal group.
    pub group: PortalGroupTag,
}

/// `host:port` as TargetAddress wants it (RFC 7143 13.8): a DNS name, an IPv4 address, or an IPv6
/// address in brackets, and a TCP port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortalAddress(String);

/// A text is not `host:port`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("a portal's address is host:port, with an IPv6 host in brackets")]
pub struct PortalAddressError;

impl PortalAddress {
    /// The address that `text` spells.
    ///
    /// # Errors
    /// [`PortalAddressError`] if it is none.
    pub fn parse(text: &str) -> Result<Self, PortalAddressError> {
        let (host, port) = text.rsplit_once(':').ok_or(PortalAddressError)?;
        let port: u16 = port.parse().map_err(|_| PortalAddressError)?;
        let name = match host.strip_prefix('[') {
            Some(rest) => rest.strip_suffix(']').ok_or(PortalAddressError)?,
            None if host.contains(':') => return Err(PortalAddressError),
            None => host,
        };
        let permitted =
            |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b':' | b'%');
        if port == 0 || name.is_empty() || name.len() > 253 || !name.bytes().all(permitted) {
            return Err(PortalAddressError);
        }
        Ok(Self(text.into()))
    }
}

impl fmt::Display for PortalAddress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    fn name(text: &str) -> IscsiName {
        IscsiName::parse(text).unwrap()
    }

    /// A target with a unit for everybody, if `open`, and one for the host a.
    fn directory(open: bool) -> TargetDirectory {
        let listed = UnitAccess::Listed([name("iqn.a")].into());
        let mut units = BTreeMap::from([(1, listed)]);
        if open {
            units.insert(0, UnitAccess::Everybody);
        }
        let portal = |group| Portal {
            address: PortalAddress::parse(&alloc::format!("h{group}:3260")).unwrap(),
            group: PortalGroupTag(group),
        };
        let entry = TargetEntry {
            units,
            portals: (1..=3).map(portal).collect(),
            ..TargetEntry::default()
        };
        TargetDirectory {
            targets: [(name("iqn.t"), entry)].into(),
            ..TargetDirectory::default()
        }
    }

    #[test]
    fn who_is_admitted_and_who_has_to_prove_it() {
        let account = ChapAccount {
            name: "a".into(),
            secret: crate::ChapSecret::new(b"twelve bytes").unwrap(),
        };
        let known = InitiatorEntry {
            account: Some(account),
            mutual: None,
        };
        let (a, b, t) = (name("iqn.a"), name("iqn.b"), name("iqn.t"));
        for (open, of_b) in [
            (false, Admission::Refused),
            (true, Admission::Admitted { proved: false }),
        ] {
            let mut directory = directory(open);
            assert_eq!(directory.admission(&t, &b), of_b);
            assert_eq!(directory.admission(&a, &b), Admission::NoTarget);
            for proved in [false, true] {
                assert_eq!(directory.admission(&t, &a), Admission::Admitted { proved });
                directory.initiators.insert(a.clone(), known.clone());
            }
            // What everybody sees is seen without a proof too, but by nobody else's name.
            directory.initiators.insert(b.clone(), known.clone());
            assert_eq!(directory.admission(&t, &b), of_b);
            let entry = &directory.targets[&t];
            assert_eq!(entry.shows(0, &b), open);
            assert!(entry.shows(1, &a) && !entry.shows(1, &b) && !entry.shows(2, &a));
        }
    }

    #[test]
    fn who_is_sent_elsewhere_goes_to_a_node_that_is_there() {
        let mut directory = directory(true);
        let target = name("iqn.t");
        let mut seen = BTreeSet::new();
        for host in 0..20 {
            let who = (&name("iqn.a"), Isid([0, 0, 0, 0, 0, host]));
            let address = directory.elsewhere(&target, PortalGroupTag(2), who);
            seen.insert(address.unwrap().to_string());
        }
        let others = ["h1:3260", "h3:3260"].map(String::from);
        assert_eq!(seen, others.into(), "both, and never its own");
        let who = (&name("iqn.a"), Isid([0; 6]));
        directory.away = [PortalGroupTag(1)].into();
        let address = directory.elsewhere(&target, PortalGroupTag(2), who);
        assert_eq!(address.unwrap().to_string(), "h3:3260");
        directory.away.insert(PortalGroupTag(3));
        let address = directory.elsewhere(&target, PortalGroupTag(2), who);
        assert_eq!(address, None);
    }

    #[test]
    fn addresses() {
        for good in ["10.0.0.1:3260", "[fd00::1]:3260", "node-1.example:860"] {
            assert_eq!(PortalAddress::parse(good).unwrap().to_string(), good);
        }
        for bad in [
            "",
            "10.0.0.1",
            ":3260",
            "fd00::1:3260",
            "[fd00::1:3260",
            "a b:1",
            "a:0",
            "a:65536",
            "a,b:1",
        ] {
            assert_eq!(PortalAddress::parse(bad), Err(PortalAddressError), "{bad}");
        }
    }
}
