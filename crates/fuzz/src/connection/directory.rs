//! What there is to offer: a target for everybody, one for a host that proves who it is, and what
//! becomes of them.

use std::collections::{BTreeMap, BTreeSet};

use holdfast_iscsi::target::{
    InitiatorEntry, Limits, Portal, PortalAddress, TargetDirectory, TargetEntry, UnitAccess,
};
use holdfast_iscsi::{ChapAccount, ChapSecret, IscsiName, PortalGroupTag};

/// The target for everybody.
pub(super) const OPEN: &str = "iqn.2026-11.example.holdfast:demo";
/// The target for [`KNOWN`], who has to prove who it is.
pub(super) const CLOSED: &str = "iqn.2026-11.example.holdfast:closed";
/// The host that has an account.
pub(super) const KNOWN: &str = "iqn.2026-11.example.host:known";
/// The secret of that account.
pub(super) const SECRET: &[u8] = b"what nobody guesses";

/// The portal group of the node that the machine is on.
pub(super) const GROUP: PortalGroupTag = PortalGroupTag(1);

pub(super) fn name(text: &str) -> IscsiName {
    IscsiName::parse(text).expect("names here are names")
}

/// Limits under which every figure is reached soon; one command may take all the room that there is.
pub(super) fn limits() -> Limits {
    Limits {
        connections_max: 5,
        logins_max: 3,
        sessions_max: 4,
        data_segment_max: 8192,
        burst_max: 16_384,
        first_burst_max: 4096,
        ready_to_transfer_max: 2,
        wide_sessions_max: 2,
        window: 16,
        immediate_max: 2,
        management_max: 2,
        data_out_max: 64 << 10,
        data_in_max: 64 << 10,
        connection_bytes_max: 64 << 10,
        total_bytes_max: 64 << 10,
        // The smallest windows, and so much beyond them that a second session takes from the first.
        window_bytes_max: (2 * 10 * (64 << 10)) + (64 << 10),
        input_total_max: 42_000,
        output_bytes_max: 64 << 10,
        output_total_max: 96 << 10,
        text_bytes_max: 8192,
        ..Limits::default()
    }
}

/// The directory of that kind; zero is as it begins.
pub(super) fn directory(kind: u8) -> TargetDirectory {
    let portal = |text: &str, group| Portal {
        address: PortalAddress::parse(text).expect("addresses here are addresses"),
        group: PortalGroupTag(group),
    };
    let known: BTreeSet<IscsiName> = [name(KNOWN)].into();
    let listed = || UnitAccess::Listed(known.clone());
    let entry = |units: BTreeMap<u16, UnitAccess>| TargetEntry {
        alias: Some("demo".into()),
        units,
        portals: vec![portal("127.0.0.1:3260", 1), portal("[::1]:3261", 2)],
    };
    let open = match kind & 3 {
        0 => BTreeMap::from([(0, UnitAccess::Everybody), (1, listed())]),
        1 => BTreeMap::from([(0, listed())]),
        2 => BTreeMap::from([(300, UnitAccess::Everybody)]),
        _ => BTreeMap::new(),
    };
    let mut targets = BTreeMap::from([(name(CLOSED), entry(BTreeMap::from([(0, listed())])))]);
    if !open.is_empty() {
        targets.insert(name(OPEN), entry(open));
    }
    let account = |name: &str, secret| ChapAccount {
        name: name.into(),
        secret: ChapSecret::new(secret).expect("it is long enough"),
    };
    let entry = InitiatorEntry {
        account: Some(account("host", SECRET)),
        mutual: Some(account("target", b"what the target knows")),
    };
    let mut away = BTreeSet::new();
    if kind & 4 != 0 {
        away.insert(PortalGroupTag(2));
    }
    TargetDirectory {
        targets,
        initiators: BTreeMap::from([(name(KNOWN), entry)]),
        away,
    }
}
