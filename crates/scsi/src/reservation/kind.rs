//! Types of persistent reservations (SPC-4 6.15.3.3): their codes, and what they mean.

use holdfast_model::record::ReservationKind as Kind;

/// TYPE, as SPC-4 6.15.3.3 numbers them.
const CODES: [(u8, Kind); 6] = [
    (0x1, Kind::WriteExclusive),
    (0x3, Kind::ExclusiveAccess),
    (0x5, Kind::WriteExclusiveRegistrantsOnly),
    (0x6, Kind::ExclusiveAccessRegistrantsOnly),
    (0x7, Kind::WriteExclusiveAllRegistrants),
    (0x8, Kind::ExclusiveAccessAllRegistrants),
];

/// The type with that code.
pub(crate) fn of_code(code: u8) -> Option<Kind> {
    let found = CODES.iter().find(|(known, _)| *known == code);
    found.map(|(_, kind)| *kind)
}

/// The code of a type.
pub(super) fn code(kind: Kind) -> u8 {
    let found = CODES.iter().find(|(_, known)| *known == kind);
    found.expect("every type has a code").0
}

/// It forbids reads as well as writes.
pub(super) const fn forbids_reads(kind: Kind) -> bool {
    match kind {
        Kind::WriteExclusive
        | Kind::WriteExclusiveRegistrantsOnly
        | Kind::WriteExclusiveAllRegistrants => false,
        Kind::ExclusiveAccess
        | Kind::ExclusiveAccessRegistrantsOnly
        | Kind::ExclusiveAccessAllRegistrants => true,
    }
}

/// All who are registered hold it.
pub(super) const fn is_held_by_all(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::WriteExclusiveAllRegistrants | Kind::ExclusiveAccessAllRegistrants
    )
}

/// All who are registered may do everything, whoever holds it.
pub(super) const fn admits_registrants(kind: Kind) -> bool {
    !matches!(kind, Kind::WriteExclusive | Kind::ExclusiveAccess)
}
