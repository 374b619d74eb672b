//! iSCSI names, and the logical units that volumes are.
//!
//! Invariants:
//! - an [`IscsiNodeName`] is in the form in which names are compared (RFC 7143 4.2.7, RFC 3722), and every
//!   initiator and target of ours takes it;
//! - a [`UnitPlace`] is one that hosts can address.

use alloc::borrow::ToOwned;
use alloc::string::String;
use core::fmt;
use core::str::FromStr;

use holdfast_model::record::VolumeRecord;

use crate::{Inventory, PlanError, TARGET_PREFIX, VolumeName};

/// Bytes in an iSCSI name at most (RFC 7143 4.2.7.1).
const NODE_NAME_LENGTH_MAX: usize = 223;
/// The highest LUN: what every host scans, and addresses in one byte (SAM-5 4.7.7.1).
pub const LUN_MAX: u16 = 255;

/// The iSCSI name of an initiator or a target.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IscsiNodeName(String);

/// Why a text is no iSCSI name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NodeNameError {
    /// It is empty, or longer than names are.
    #[error("an iSCSI name has 1 to {NODE_NAME_LENGTH_MAX} letters")]
    Length,
    /// It has a letter that it may not have.
    #[error("an iSCSI name has letters, digits, '-', '.' and ':', and no '{0}'")]
    Letter(char),
    /// It is of no type that there is.
    #[error(
        "an iSCSI name is iqn.YYYY-MM. and a domain in reverse, as in iqn.2026-11.com.example:disk, or eui. and 16 digits, or \
         naa. and 16 or 32"
    )]
    Type,
}

impl IscsiNodeName {
    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for IscsiNodeName {
    type Err = NodeNameError;

    /// Capital letters become small ones. Underscores, which the standard does not have, are let through: there are hosts whose
    /// names have some.
    fn from_str(text: &str) -> Result<Self, NodeNameError> {
        if !(1..=NODE_NAME_LENGTH_MAX).contains(&text.len()) {
            return Err(NodeNameError::Length);
        }
        let permitted = |letter: char| {
            letter.is_ascii_alphanumeric() || matches!(letter, '-' | '.' | ':' | '_')
        };
        if let Some(letter) = text.chars().find(|one| !permitted(*one)) {
            return Err(NodeNameError::Letter(letter));
        }
        let name = text.to_ascii_lowercase();
        let digits = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        let is_one = match name.split_at_checked(4) {
            Some(("iqn.", rest)) => is_authority(rest),
            Some(("eui.", rest)) => rest.len() == 16 && digits(rest),
            Some(("naa.", rest)) => matches!(rest.len(), 16 | 32) && digits(rest),
            _ => false,
        };
        if is_one {
            Ok(Self(name))
        } else {
            Err(NodeNameError::Type)
        }
    }
}

/// Whether what follows `iqn.` is a month and a domain in reverse, and perhaps more behind a colon (RFC 7143 4.2.7.4).
fn is_authority(text: &str) -> bool {
    let authority = text
        .split_once(':')
        .map_or(text, |(authority, _)| authority);
    let Some((date, domain)) = authority.split_once('.') else {
        return false;
    };
    let Some((year, month)) = date.split_once('-') else {
        return false;
    };
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let is_date = year.len() == 4 && is_number(year) && month.len() == 2 && is_number(month);
    let is_month = matches!(month.parse(), Ok(1..=12_u8));
    is_date && is_month && domain.split('.').all(|label| !label.is_empty())
}

impl fmt::Display for IscsiNodeName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(&self.0)
    }
}

/// Which unit of which target a volume is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnitPlace {
    /// The target.
    pub target: IscsiNodeName,
    /// Its logical unit number there, at most [`LUN_MAX`].
    pub lun: u16,
}

/// A number is none that a unit can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a LUN is 0 to {LUN_MAX}")]
pub struct LunError;

impl UnitPlace {
    /// What the request for a volume of this name says of its unit: the target of its own, or LUN 0, where it says nothing. `None`
    /// if it says nothing of either.
    ///
    /// # Errors
    /// [`LunError`] if no unit has that number.
    pub fn wanted(
        volume: &VolumeName,
        target: Option<IscsiNodeName>,
        lun: Option<u16>,
    ) -> Result<Option<Self>, LunError> {
        if lun.is_some_and(|lun| lun > LUN_MAX) {
            return Err(LunError);
        }
        let is_named = target.is_some() || lun.is_some();
        let own = Self::of_volume(volume);
        let place = Self {
            target: target.unwrap_or(own.target),
            lun: lun.unwrap_or(own.lun),
        };
        Ok(is_named.then_some(place))
    }

    /// The unit that a volume has where nobody names one: the only one of a target of its own.
    pub(crate) fn of_volume(volume: &VolumeName) -> Self {
        Self {
            target: IscsiNodeName(volume.target()),
            lun: 0,
        }
    }

    /// Whether it is the unit that some volume has where nobody names one.
    pub(crate) fn is_kept(&self) -> bool {
        let name = self.target.0.strip_prefix(TARGET_PREFIX);
        self.lun == 0 && name.is_some_and(|name| name.to_owned().parse::<VolumeName>().is_ok())
    }

    /// Whether a new volume can be this unit, where `own` is the one that it has if nobody names one. Those are kept for the
    /// volumes of their names, whether there are any or not.
    pub(crate) fn check(&self, inventory: &Inventory, own: &Self) -> Result<(), PlanError> {
        let mut volumes = inventory.volumes.values();
        if let Some(taken) = volumes.find(|it| self.is_of(&it.record)) {
            return Err(PlanError::UnitTaken(taken.record.name.clone()));
        }
        if self != own && self.is_kept() {
            return Err(PlanError::UnitKept);
        }
        Ok(())
    }

    pub(crate) fn is_of(&self, volume: &VolumeRecord) -> bool {
        volume.target == self.target.0 && volume.lun == self.lun
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for (text, name) in [
            (
                "iqn.2026-11.com.example:disk.1",
                "iqn.2026-11.com.example:disk.1",
            ),
            (
                "IQN.1991-05.com.Microsoft:HOST_1",
                "iqn.1991-05.com.microsoft:host_1",
            ),
            ("iqn.2001-04.example", "iqn.2001-04.example"),
            ("eui.02004567A425678D", "eui.02004567a425678d"),
            (
                "naa.62004567ba64678d0123456789abcdef",
                "naa.62004567ba64678d0123456789abcdef",
            ),
        ] {
            assert_eq!(text.parse::<IscsiNodeName>().unwrap().as_str(), name);
        }
        for (text, error) in [
            ("", NodeNameError::Length),
            (&"i".repeat(224), NodeNameError::Length),
            ("iqn.2026-11.com.example:a/b", NodeNameError::Letter('/')),
            (
                "iqn.2026-11.com.example:\u{fc}",
                NodeNameError::Letter('\u{fc}'),
            ),
            ("iqn.2026-13.com.example", NodeNameError::Type),
            ("iqn.26-11.com.example", NodeNameError::Type),
            ("iqn.2026-11", NodeNameError::Type),
            ("iqn.2026-11.", NodeNameError::Type),
            ("iqn.2026-11.com..example", NodeNameError::Type),
            ("iqn.2026-11:disk", NodeNameError::Type),
            ("eui.123", NodeNameError::Type),
            ("disk", NodeNameError::Type),
        ] {
            assert_eq!(text.parse::<IscsiNodeName>(), Err(error), "{text}");
        }
    }

    #[test]
    fn a_unit_is_what_is_named_of_it() {
        let volume: VolumeName = "data".parse().unwrap();
        let target: IscsiNodeName = "iqn.2026-11.com.example:a".parse().unwrap();
        let wanted = |target, lun| UnitPlace::wanted(&volume, target, lun);
        assert_eq!(wanted(None, None), Ok(None));
        assert_eq!(wanted(None, Some(256)), Err(LunError));
        let own = UnitPlace::of_volume(&volume);
        assert_eq!(wanted(None, Some(0)), Ok(Some(own.clone())));
        assert!(own.is_kept());
        let named = wanted(Some(target.clone()), None).unwrap().unwrap();
        assert_eq!(named, UnitPlace { target, lun: 0 });
        assert!(!named.is_kept() && !wanted(None, Some(1)).unwrap().unwrap().is_kept());
    }
}
