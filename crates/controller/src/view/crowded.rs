//! Copies that share a failure domain, or a site while another site has none of their slice.
//!
//! It repeats what `control` plans by, for people. Of sites slices that lack copies are left out: what they lack comes first. Of
//! domains they are not: copies that fail together protect no more than one of them.

use std::collections::{BTreeMap, BTreeSet};

use holdfast_api::documents::{Alert, Finding, FindingKind, Health, Remedy, Severity, Wait};
use holdfast_control::{Inventory, Shared, crowded};
use holdfast_model::NodeId;
use holdfast_model::record::{SliceRecord, VolumeRecord};

use super::assessed::Assessed;
use super::explain::{add_elsewhere, add_node, listed, remedy, runs, wait};
use super::node_findings::finding;
use super::{slice_used_bytes, some_of};
use crate::reports::Reports;

/// A slice whose good copies are closer together than they should be.
pub(super) struct Crowded<'a> {
    slice: &'a SliceRecord,
    shared: Shared,
    /// The failure domains that several of them are in.
    domains: BTreeSet<&'a str>,
    /// The nodes with which they would share less.
    others: BTreeSet<NodeId>,
}

/// How it comes that a slice's copies are together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    /// One is on its way to another place.
    Moves,
    /// It moves when nothing else is to be done.
    Waits,
    /// No node of another domain, or site, has room for it.
    NoRoom,
    /// There is no node of another domain.
    Nowhere,
}

/// What there is to know about a volume.
pub(super) fn of_volume(
    inventory: &Inventory,
    reports: &Reports,
    assessed: &Assessed<'_>,
) -> Vec<Finding> {
    let mut stages: BTreeMap<(Shared, Stage), Vec<&Crowded<'_>>> = BTreeMap::new();
    for crowded in &assessed.crowded {
        let stage = (crowded.shared, stage(inventory, reports, crowded));
        stages.entry(stage).or_default().push(crowded);
    }
    let told = |((shared, stage), crowded): ((Shared, Stage), Vec<&Crowded<'_>>)| {
        let indexes: Vec<u32> = crowded.iter().map(|it| it.slice.slice.index).collect();
        let (kind, what) = match shared {
            Shared::Domain => (
                FindingKind::SharedDomain,
                format!(
                    "copies are in one failure domain, {}: what happens to that happens to all of them",
                    domains(&crowded)
                ),
            ),
            Shared::Site => (
                FindingKind::SharedSite,
                "copies are in one site, and another site has none".to_owned(),
            ),
        };
        Finding {
            slices: u32::try_from(indexes.len()).unwrap_or(u32::MAX),
            indexes: runs(&indexes),
            waits_for: vec![waits_for(shared, stage)],
            remedies: remedies(shared, stage),
            ..finding(kind, what)
        }
    };
    stages.into_iter().map(told).collect()
}

/// What to tell of a volume, in one line for each of domains and sites.
pub(super) fn alerts(assessed: &Assessed<'_>) -> Vec<Alert> {
    let volume = assessed.volume;
    let slices = volume.slice_count();
    let alert = |shared: Shared| {
        let crowded = assessed.crowded.iter().filter(|it| it.shared == shared);
        let crowded: Vec<&Crowded<'_>> = crowded.collect();
        let count = crowded.len();
        let has = match shared {
            Shared::Domain => format!("copies in one failure domain, {}", domains(&crowded)),
            Shared::Site => "copies in one site, and none in another".to_owned(),
        };
        let detail = some_of(
            count as u64,
            slices.into(),
            [&format!("has {has}"), &format!("have {has}")],
        );
        (count > 0).then(|| Alert {
            severity: Severity::Warning,
            subject: format!("volume {}", volume.name),
            detail,
        })
    };
    let alerts = [Shared::Domain, Shared::Site].map(alert);
    alerts.into_iter().flatten().collect()
}

/// The slices whose copies could be further apart, or are in one failure domain; `healths` says how all are.
pub(super) fn slices<'a>(
    inventory: &'a Inventory,
    volume: &VolumeRecord,
    healths: &[Health],
) -> Vec<Crowded<'a>> {
    let slices = inventory.slices_of(volume).zip(healths);
    let crowded = slices.filter_map(|(slice, health)| {
        let (shared, others) = crowded(inventory, slice)?;
        let is_told = match shared {
            Shared::Domain => *health != Health::Unavailable,
            Shared::Site => *health == Health::Healthy,
        };
        is_told.then(|| Crowded {
            slice,
            shared,
            domains: shared_domains(inventory, slice),
            others,
        })
    });
    crowded.collect()
}

/// The failure domains that several good copies of a slice are in.
fn shared_domains<'a>(inventory: &'a Inventory, slice: &SliceRecord) -> BTreeSet<&'a str> {
    let mut seen = BTreeSet::new();
    let domains = slice.in_sync().filter_map(|node| inventory.domain_of(node));
    domains.filter(|domain| !seen.insert(*domain)).collect()
}

/// The failure domains that are shared, as people name them: "rack-1 and rack-2".
fn domains(crowded: &[&Crowded<'_>]) -> String {
    let domains = crowded.iter().flat_map(|it| &it.domains);
    let domains: BTreeSet<String> = domains.map(|it| (*it).to_owned()).collect();
    let domains: Vec<String> = domains.into_iter().collect();
    listed(&domains)
}

fn stage(inventory: &Inventory, reports: &Reports, crowded: &Crowded<'_>) -> Stage {
    let Crowded { slice, others, .. } = crowded;
    if others.is_empty() {
        return Stage::Nowhere;
    }
    let wish = inventory.wishes.get(&slice.slice);
    if wish.is_some_and(|wish| others.iter().any(|it| wish.record.nodes.contains(it))) {
        return Stage::Moves;
    }
    let used = slice_used_bytes(reports, slice).unwrap_or(0);
    let has_room = |node: &NodeId| {
        let seen = reports.seen(*node);
        seen.is_none_or(|seen| !seen.is_tight() && used <= seen.spare_bytes())
    };
    if others.iter().any(has_room) {
        Stage::Waits
    } else {
        Stage::NoRoom
    }
}

const fn place(shared: Shared) -> &'static str {
    match shared {
        Shared::Domain => "failure domain",
        Shared::Site => "site",
    }
}

fn waits_for(shared: Shared, stage: Stage) -> Wait {
    let place = place(shared);
    wait(match stage {
        Stage::Moves => format!("the copy in another {place} to have everything"),
        Stage::Waits => "its turn: copies move apart, a few at a time, when every node is up and no volume lacks a copy"
            .to_owned(),
        Stage::NoRoom => format!(
            "room in another {place}: a node takes such a copy as long as a tenth of it is free"
        ),
        Stage::Nowhere => format!("a node of another {place}"),
    })
}

fn remedies(shared: Shared, stage: Stage) -> Vec<Remedy> {
    let place = place(shared);
    match stage {
        Stage::Moves | Stage::Waits => Vec::new(),
        Stage::NoRoom => vec![
            Remedy {
                what: format!("add a device to a node in a {place} that has no copy"),
                command: Some("holdfast device add NODE PATH".to_owned()),
            },
            add_node(),
        ],
        Stage::Nowhere => vec![
            add_elsewhere(),
            remedy(
                "where they do not fail together: put that right in the nodes' configurations, and start them again, one \
                 after the other",
            ),
        ],
    }
}
