//! Which members of etcd answer, by what all nodes say of those that they are configured with.
//!
//! A member is known by the endpoint in the nodes' configurations. Where etcd does not keep the metadata there is
//! nothing to say.
//!
//! Invariants:
//! - a member that any node reaches counts as one that answers; from which nodes it is not reached is told;
//! - what is said of a majority is said of the members that nodes are configured with.

use std::collections::BTreeMap;

use holdfast_api::documents::{Finding, FindingKind, MemberCounts, MemberState};
use holdfast_model::NodeId;

use super::explain::{listed, remedy, wait};
use super::node_findings::finding;
use crate::reports::Reports;

/// What becomes of a cluster whose metadata is away.
const AWAY: &str =
    "hosts' I/O goes on, but nothing can be changed, and no node that dies is replaced";

/// A member, as the nodes see it.
#[derive(Debug, Default)]
struct Member {
    is_reached: bool,
    /// Who does not find it well, and how each does.
    missed: Vec<(NodeId, MemberState)>,
}

/// The members by their endpoints.
fn members(reports: &Reports) -> BTreeMap<&str, Member> {
    let mut members: BTreeMap<&str, Member> = BTreeMap::new();
    for (node, told) in reports.metadata_members() {
        let member = members.entry(told.endpoint.as_str()).or_default();
        match told.state {
            MemberState::Answers => member.is_reached = true,
            state => member.missed.push((node, state)),
        }
    }
    members
}

fn count(members: &BTreeMap<&str, Member>) -> MemberCounts {
    let up = members.values().filter(|member| member.is_reached).count();
    let counted = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    MemberCounts {
        total: counted(members.len()),
        up: counted(up),
    }
}

/// The members, counted; nothing where there are none.
pub(super) fn counts(reports: &Reports) -> Option<MemberCounts> {
    let counts = count(&members(reports));
    (counts.total > 0).then_some(counts)
}

/// What there is to know. `name` says what a node is called.
pub(super) fn findings(reports: &Reports, name: impl Fn(NodeId) -> String) -> Vec<Finding> {
    let members = members(reports);
    let away = members.iter().filter(|(_, member)| !member.is_reached);
    let away: Vec<(&str, &Member)> = away.map(|(endpoint, member)| (*endpoint, member)).collect();
    let mut findings = Vec::new();
    if !away.is_empty() {
        findings.push(lost(&away, count(&members)));
    }
    let partly = members.iter().filter(|(_, member)| member.is_reached);
    let partly = partly.filter(|(_, member)| !member.missed.is_empty());
    findings.extend(partly.map(|(endpoint, member)| cut_off(endpoint, member, &name)));
    findings
}

/// Members that no node reaches.
fn lost(away: &[(&str, &Member)], counts: MemberCounts) -> Finding {
    let MemberCounts { total, up } = counts;
    let each = away.iter().map(|(endpoint, member)| {
        // Who has heard something of it knows best.
        let states = member.missed.iter().map(|(_, state)| *state);
        format!("{endpoint} {}", words(states.min()))
    });
    let each: Vec<String> = each.collect();
    let majority = total / 2 + 1;
    let then = match (up + 1).checked_sub(majority) {
        None | Some(0) => format!("that is no majority: {AWAY}"),
        Some(more) => format!("with {more} more lost the metadata is away: {AWAY}"),
    };
    let endpoints: Vec<String> = away.iter().map(|(it, _)| (*it).to_owned()).collect();
    let endpoints = listed(&endpoints);
    Finding {
        waits_for: vec![wait(format!("{endpoints} to answer"))],
        remedies: vec![
            remedy(format!(
                "start the machine of {endpoints}, or what runs etcd there (a node that `etcd.members` names, or a witness); \
                 `etcd/etcd.log` in its directory tells what is wrong"
            )),
            remedy(
                "if its data is lost for good, take a new member in: \"A member whose data is lost\" in \
                 docs/deployment.md",
            ),
        ],
        ..finding(
            FindingKind::MetadataMember,
            format!(
                "{up} of {total} members of etcd answer: {}; {then}",
                each.join(", ")
            ),
        )
    }
}

/// A member that some nodes reach, and others do not.
fn cut_off(endpoint: &str, member: &Member, name: &impl Fn(NodeId) -> String) -> Finding {
    let nodes: Vec<String> = member.missed.iter().map(|(node, _)| name(*node)).collect();
    let states = member.missed.iter().map(|(_, state)| *state);
    let (nodes, words) = (listed(&nodes), words(states.min()));
    Finding {
        waits_for: vec![wait(format!("{nodes} to reach {endpoint}"))],
        remedies: vec![remedy(format!(
            "look at the way from {nodes} to {endpoint}: the network, a firewall, the configuration"
        ))],
        ..finding(
            FindingKind::MetadataMember,
            format!("from {nodes}, the member of etcd at {endpoint} {words}; other nodes reach it"),
        )
    }
}

/// What is the matter with a member, after its endpoint.
fn words(state: Option<MemberState>) -> &'static str {
    match state {
        Some(MemberState::Leaderless) => {
            "has no leader, for it does not reach enough of the others"
        }
        Some(MemberState::Foreign) => "is of another etcd",
        _ => "does not answer",
    }
}
