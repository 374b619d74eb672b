//! Which members of etcd answer, by what all nodes say of those that they are configured with.
//!
//! Who the members are, etcd says itself, and nodes tell what they have heard of it: files spell endpoints as they like,
//! have those of members that are gone, and lack others. Where etcd does not keep the metadata, or no node has heard who
//! the members are, there is nothing to say.
//!
//! Invariants:
//! - what is said of a majority is said of etcd's own members: a dead one that it lists counts, and an endpoint in a
//!   file does not;
//! - a member that any node reaches counts as one that answers; from which nodes it is not reached is told;
//! - an endpoint is told to be no member's only where it cannot be that of one.

use std::collections::{BTreeMap, BTreeSet};

use holdfast_api::documents::{
    Finding, FindingKind, ListedMember, LocalMember, MemberCounts, MemberState,
};
use holdfast_model::NodeId;

use super::explain::{listed, remedy, wait};
use super::node_findings::finding;
use crate::reports::Reports;

/// What becomes of a cluster whose metadata is away.
const AWAY: &str =
    "hosts' I/O goes on, but nothing can be changed, and no node that dies is replaced";

/// A member, as the nodes see it.
#[derive(Debug)]
struct Member<'a> {
    listed: &'a ListedMember,
    is_reached: bool,
    /// Who does not find it well, and how each does.
    missed: Vec<(NodeId, MemberState)>,
}

/// An endpoint that is no member's, and the nodes that are configured with it.
#[derive(Debug, Default)]
struct Stranger {
    nodes: Vec<NodeId>,
    is_foreign: bool,
}

/// Etcd's members, and what is configured besides.
#[derive(Debug, Default)]
struct View<'a> {
    members: Vec<Member<'a>>,
    strangers: BTreeMap<&'a str, Stranger>,
}

impl<'a> View<'a> {
    fn new(reports: &'a Reports) -> Self {
        let mut members: Vec<Member<'a>> = current(reports);
        let mut strangers: BTreeMap<&str, Stranger> = BTreeMap::new();
        for (node, configured, listed) in reports.metadata_members() {
            for told in listed {
                let mut all = members.iter_mut();
                // One that this node has heard of before it was removed, or before others hear of it.
                let Some(member) = all.find(|it| it.listed.member == told.member) else {
                    continue;
                };
                match told.state {
                    MemberState::Answers => member.is_reached = true,
                    state => member.missed.push((node, state)),
                }
            }
            for told in configured
                .iter()
                .filter(|it| is_nobodys(it, configured, listed))
            {
                let stranger = strangers.entry(&told.endpoint).or_default();
                stranger.nodes.push(node);
                stranger.is_foreign |= told.state == MemberState::Foreign;
            }
        }
        Self { members, strangers }
    }

    fn counts(&self) -> MemberCounts {
        let voters = self.members.iter().filter(|member| member.listed.votes);
        let up = voters.clone().filter(|member| member.is_reached).count();
        let counted = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        MemberCounts {
            total: counted(voters.count()),
            up: counted(up),
        }
    }
}

/// The members that most nodes have heard of: while they change, some have heard of those before.
fn current(reports: &Reports) -> Vec<Member<'_>> {
    let lists = || reports.metadata_members().map(|(_, _, listed)| listed);
    let numbers = |list: &[ListedMember]| -> BTreeSet<String> {
        list.iter().map(|it| it.member.clone()).collect()
    };
    let mut best: (&[ListedMember], usize) = (&[], 0);
    for list in lists().filter(|list| !list.is_empty()) {
        let same = lists().filter(|it| numbers(it) == numbers(list)).count();
        if same > best.1 {
            best = (list, same);
        }
    }
    let members = best.0.iter().map(|listed| Member {
        listed,
        is_reached: false,
        missed: Vec::new(),
    });
    members.collect()
}

/// Whether an endpoint is that of no member, by what the node says that is configured with it.
fn is_nobodys(told: &LocalMember, configured: &[LocalMember], listed: &[ListedMember]) -> bool {
    if told.state == MemberState::Foreign {
        return true;
    }
    // Without a list nothing is known. Who answers is a member.
    if listed.is_empty() || told.state == MemberState::Answers || whose(told, listed).is_some() {
        return false;
    }
    // One that was there is none any more; else it may be that of a member that nobody has met.
    let is_met = |(place, member): (usize, &ListedMember)| {
        let mut known = configured.iter().map(|it| whose(it, listed));
        member.state == MemberState::Answers || known.any(|it| it == Some(place))
    };
    told.member.is_some() || (0..).zip(listed).all(is_met)
}

/// Whose endpoint it is: that of the member that last answered there, if it is one still; else that of the one that says
/// so itself.
fn whose(told: &LocalMember, listed: &[ListedMember]) -> Option<usize> {
    let number = told.member.as_ref();
    let by_number = listed.iter().position(|it| Some(&it.member) == number);
    by_number.or_else(|| {
        let says = |it: &ListedMember| it.endpoints.contains(&told.endpoint);
        let mut found = (0..).zip(listed).filter(|(_, it)| says(it));
        let (place, _) = found.next()?;
        // Each may say `localhost`.
        found.next().is_none().then_some(place)
    })
}

/// The members, counted; nothing where there are none.
pub(super) fn counts(reports: &Reports) -> Option<MemberCounts> {
    let counts = View::new(reports).counts();
    (counts.total > 0).then_some(counts)
}

/// What there is to know. `name` says what a node is called.
pub(super) fn findings(reports: &Reports, name: impl Fn(NodeId) -> String) -> Vec<Finding> {
    let view = View::new(reports);
    let away = view.members.iter();
    let away = away.filter(|member| member.listed.votes && !member.is_reached);
    let away: Vec<&Member<'_>> = away.collect();
    let mut findings = Vec::new();
    if !away.is_empty() {
        findings.push(lost(&away, view.counts()));
    }
    let partly = view.members.iter();
    let partly = partly.filter(|member| member.is_reached && !member.missed.is_empty());
    findings.extend(partly.map(|member| cut_off(member, &name)));
    let strangers = view.strangers.iter();
    findings.extend(strangers.map(|(endpoint, it)| no_member(endpoint, it, &name)));
    findings
}

/// What a member is called, and where it is.
fn called(member: &ListedMember) -> String {
    let mut places = member.endpoints.iter().chain(&member.peers);
    let place = places.next().map_or("an unknown place", String::as_str);
    let name = match member.name.as_str() {
        "" => &member.member,
        name => name,
    };
    format!("{name} at {place}")
}

/// Members that no node reaches.
fn lost(away: &[&Member<'_>], counts: MemberCounts) -> Finding {
    let MemberCounts { total, up } = counts;
    let each = away.iter().map(|member| {
        // Who has heard something of it knows best.
        let states = member.missed.iter().map(|(_, state)| *state);
        let words = match member.listed.endpoints[..] {
            [] => "has never run",
            _ => words(states.min()),
        };
        format!("{} {words}", called(member.listed))
    });
    let each: Vec<String> = each.collect();
    let majority = total / 2 + 1;
    let more = (up + 1).checked_sub(majority).filter(|more| *more > 0);
    let then = match more {
        None => format!("that is no majority: {AWAY}"),
        Some(more) => format!("with {more} more lost the metadata is away: {AWAY}"),
    };
    let who: Vec<String> = away.iter().map(|member| called(member.listed)).collect();
    let who = listed(&who);
    let gone = match more {
        None => {
            "if the data of so many is lost for good that no majority can come back, the metadata is made again: \
             \"When the metadata is lost for good\" in docs/deployment.md"
        }
        Some(_) => {
            "if its data is lost for good, take a new member in: \"A member whose data is lost\" in docs/deployment.md; if \
             its machine is, \"A machine that is replaced\""
        }
    };
    Finding {
        waits_for: vec![wait(format!("{who} to answer"))],
        remedies: vec![
            remedy(format!(
                "start the machine of {who}, or what runs etcd there (a node that `etcd.members` names, or a witness); \
                 `etcd/etcd.log` in its directory tells what is wrong"
            )),
            remedy(gone),
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
fn cut_off(member: &Member<'_>, name: &impl Fn(NodeId) -> String) -> Finding {
    let who = called(member.listed);
    let nodes: Vec<String> = member.missed.iter().map(|(node, _)| name(*node)).collect();
    let states = member.missed.iter().map(|(_, state)| *state);
    let (nodes, words) = (listed(&nodes), words(states.min()));
    Finding {
        waits_for: vec![wait(format!("{nodes} to reach {who}"))],
        remedies: vec![remedy(format!(
            "look at the way from {nodes} to {who}: the network, a firewall, the configuration"
        ))],
        ..finding(
            FindingKind::MetadataMember,
            format!("from {nodes}, the member of etcd {who} {words}; other nodes reach it"),
        )
    }
}

/// An endpoint in the files of nodes that is no member's.
fn no_member(endpoint: &str, stranger: &Stranger, name: &impl Fn(NodeId) -> String) -> Finding {
    let nodes: Vec<String> = stranger.nodes.iter().map(|node| name(*node)).collect();
    let nodes = listed(&nodes);
    let what = if stranger.is_foreign {
        "what answers there is of another etcd"
    } else {
        "etcd has no such member"
    };
    Finding {
        remedies: vec![remedy(format!(
            "correct etcd.members (or metadata.etcd) in the file of {nodes}, and start the node again, one after the other"
        ))],
        ..finding(
            FindingKind::MetadataMember,
            format!(
                "{endpoint}, in the configuration of {nodes}, is no member; correct etcd.members: {what}"
            ),
        )
    }
}

/// What is the matter with a member, after its name.
fn words(state: Option<MemberState>) -> &'static str {
    match state {
        Some(MemberState::Leaderless) => {
            "has no leader, for it does not reach enough of the others"
        }
        _ => "does not answer",
    }
}
