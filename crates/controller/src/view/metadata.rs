//! Which members of etcd answer, by what all nodes say of those that they are configured with.
//!
//! Who the members are, etcd says itself, and nodes tell what they have heard of it: files spell endpoints as they like,
//! have those of members that are gone, and lack others. Only a majority says it: where no node has heard it, for all were
//! started while there was none, the endpoints in files have to do. Where etcd does not keep the metadata, or nobody has
//! looked at its members yet, there is nothing to say.
//!
//! Invariants:
//! - where a node has heard who the members are, what is said of a majority is said of these: a dead one that etcd lists
//!   counts, and an endpoint in a file does not;
//! - where no node has, it is said that files are counted;
//! - a member that any node reaches counts as one that answers; from which nodes it is not reached is told;
//! - an endpoint is told to be no member's only where it cannot be that of one.

use std::collections::{BTreeMap, BTreeSet};

use holdfast_api::documents::{
    Finding, FindingKind, ListedMember, LocalMember, MemberCounts, MemberState,
};
use holdfast_model::record::NodeRecord;
use holdfast_model::{NodeId, host_and_port};

use super::explain::{listed, remedy, wait};
use super::node_findings::finding;
use crate::reports::Reports;

/// What becomes of a cluster whose metadata is away.
const AWAY: &str =
    "hosts' I/O goes on, but nothing can be changed, and no node that dies is replaced";

/// Who a member is.
#[derive(Clone, Copy, Debug)]
enum Who<'a> {
    /// One that etcd lists.
    Listed(&'a ListedMember),
    /// One that files have, at this endpoint.
    Configured(&'a str),
}

/// A member, as the nodes see it.
#[derive(Debug)]
struct Member<'a> {
    who: Who<'a>,
    /// Who found it well, when each looked last.
    reached: Vec<NodeId>,
    /// Who does not find it well, and how each does.
    missed: Vec<(NodeId, MemberState)>,
}

impl<'a> Member<'a> {
    fn new(who: Who<'a>) -> Self {
        Self {
            who,
            reached: Vec::new(),
            missed: Vec::new(),
        }
    }

    fn hear(&mut self, node: NodeId, state: MemberState) {
        match state {
            MemberState::Answers => self.reached.push(node),
            state => self.missed.push((node, state)),
        }
    }

    fn is_reached(&self) -> bool {
        !self.reached.is_empty()
    }

    /// Whether it counts for a majority.
    fn votes(&self) -> bool {
        match self.who {
            Who::Listed(listed) => listed.votes,
            Who::Configured(_) => true,
        }
    }

    fn has_never_run(&self) -> bool {
        matches!(self.who, Who::Listed(listed) if listed.endpoints.is_empty())
    }

    /// Where it is, by its addresses.
    fn hosts(&self) -> impl Iterator<Item = &'a str> {
        let (configured, listed) = match self.who {
            Who::Listed(listed) => (None, Some(listed)),
            Who::Configured(endpoint) => (Some(endpoint), None),
        };
        let listed = listed.into_iter();
        let listed = listed.flat_map(|it| it.endpoints.iter().chain(&it.peers));
        let all = configured.into_iter().chain(listed.map(String::as_str));
        all.filter_map(host_of)
    }

    /// What it is called, and where it is.
    fn called(&self) -> String {
        let listed = match self.who {
            Who::Listed(listed) => listed,
            Who::Configured(endpoint) => return endpoint.to_owned(),
        };
        let mut places = listed.endpoints.iter().chain(&listed.peers);
        let place = places.next().map_or("an unknown place", String::as_str);
        let name = match listed.name.as_str() {
            "" => &listed.member,
            name => name,
        };
        format!("{name} at {place}")
    }
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
    /// No node has heard who they are: they are those that files have.
    is_of_files: bool,
    strangers: BTreeMap<&'a str, Stranger>,
}

impl<'a> View<'a> {
    fn new(reports: &'a Reports) -> Self {
        let mut members: Vec<Member<'a>> = current(reports);
        let is_of_files = members.is_empty();
        if is_of_files {
            members = configured_members(reports);
        }
        let mut strangers: BTreeMap<&str, Stranger> = BTreeMap::new();
        for (node, configured, listed) in reports.metadata_members() {
            for told in listed {
                let is_it = |it: &&mut Member<'_>| matches!(it.who, Who::Listed(listed) if listed.member == told.member);
                // One that this node has heard of before it was removed, or before others hear of it, is none.
                if let Some(member) = members.iter_mut().find(is_it) {
                    member.hear(node, told.state);
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
        Self {
            members,
            is_of_files,
            strangers,
        }
    }

    fn counts(&self) -> MemberCounts {
        let voters = self.members.iter().filter(|member| member.votes());
        let up = voters.clone().filter(|member| member.is_reached()).count();
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
    let listed = best.0.iter().map(Who::Listed);
    listed.map(Member::new).collect()
}

/// The members as the files of nodes have them, by the spelling of their endpoints. What is of another etcd is none.
fn configured_members(reports: &Reports) -> Vec<Member<'_>> {
    let mut members: BTreeMap<&str, Member<'_>> = BTreeMap::new();
    for (node, configured, _) in reports.metadata_members() {
        let ours = configured
            .iter()
            .filter(|it| it.state != MemberState::Foreign);
        for told in ours {
            let endpoint = told.endpoint.as_str();
            let new = || Member::new(Who::Configured(endpoint));
            let member = members.entry(endpoint).or_insert_with(new);
            member.hear(node, told.state);
        }
    }
    members.into_values().collect()
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

/// Whether all members that are lost stand on the machines of these nodes, as far as that can be told by their addresses: no
/// more at an address than there are of these nodes.
pub(super) fn are_lost_with(reports: &Reports, nodes: &[&NodeRecord]) -> bool {
    let view = View::new(reports);
    let lost = view.members.iter();
    let mut lost = lost.filter(|member| member.votes() && !member.is_reached());
    let mut left: Vec<Vec<&str>> = nodes.iter().map(|node| hosts_of(node)).collect();
    lost.all(|member| {
        let stands = |hosts: &Vec<&str>| member.hosts().any(|host| hosts.contains(&host));
        let place = left.iter().position(stands);
        place.is_some_and(|place| {
            left.remove(place);
            true
        })
    })
}

/// The hosts in the addresses of a node.
fn hosts_of(node: &NodeRecord) -> Vec<&str> {
    let addresses = [&node.portal, &node.peer, &node.api];
    addresses.into_iter().filter_map(|it| host_of(it)).collect()
}

fn host_of(endpoint: &str) -> Option<&str> {
    let address = endpoint.rsplit_once("://").map_or(endpoint, |it| it.1);
    Some(host_and_port(address.trim_end_matches('/'))?.0)
}

/// What there is to know. `name` says what a node is called.
pub(super) fn findings(reports: &Reports, name: impl Fn(NodeId) -> String) -> Vec<Finding> {
    let view = View::new(reports);
    let away = view.members.iter();
    let away = away.filter(|member| member.votes() && !member.is_reached());
    let away: Vec<&Member<'_>> = away.collect();
    let mut findings = Vec::new();
    if !away.is_empty() {
        findings.push(lost(&away, &view));
    }
    let partly = view.members.iter();
    let partly = partly.filter(|member| member.is_reached() && !member.missed.is_empty());
    findings.extend(partly.map(|member| cut_off(member, &name)));
    let strangers = view.strangers.iter();
    findings.extend(strangers.map(|(endpoint, it)| no_member(endpoint, it, &name)));
    findings
}

/// Members that no node reaches.
fn lost(away: &[&Member<'_>], view: &View<'_>) -> Finding {
    let MemberCounts { total, up } = view.counts();
    let each = away.iter().map(|member| {
        // Who has heard something of it knows best.
        let states = member.missed.iter().map(|(_, state)| *state);
        let words = if member.has_never_run() {
            "has never run"
        } else {
            words(states.min())
        };
        format!("{} {words}", member.called())
    });
    let each: Vec<String> = each.collect();
    let majority = total / 2 + 1;
    let more = (up + 1).checked_sub(majority).filter(|more| *more > 0);
    let then = match more {
        None => format!("that is no majority: {AWAY}"),
        Some(more) => format!("with {more} more lost the metadata is away: {AWAY}"),
    };
    let who: Vec<String> = away.iter().map(|member| member.called()).collect();
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
    let counted = if view.is_of_files {
        " (counted by the files of nodes, for none has heard of etcd who they are since it started)"
    } else {
        ""
    };
    Finding {
        waits_for: vec![wait(format!("{who} to answer"))],
        remedies: vec![
            remedy(format!(
                "start the machine of {who}, or what runs etcd there; etcd's log tells what is wrong: `etcd/etcd.log` in the \
                 directory of the node or witness, where `etcd.members` names it"
            )),
            remedy(gone),
        ],
        ..finding(
            FindingKind::MetadataMember,
            format!(
                "{up} of {total} members of etcd{counted} answer: {}; {then}",
                each.join(", ")
            ),
        )
    }
}

/// A member that some nodes reach, and others do not.
fn cut_off(member: &Member<'_>, name: &impl Fn(NodeId) -> String) -> Finding {
    let who = member.called();
    let nodes: Vec<String> = member.missed.iter().map(|(node, _)| name(*node)).collect();
    let states = member.missed.iter().map(|(_, state)| *state);
    let (nodes, words) = (listed(&nodes), words(states.min()));
    let others: Vec<String> = member.reached.iter().map(|node| name(*node)).collect();
    // Each looks in its own time: one that has just died was well a moment ago.
    let when = match others.len() {
        1 => "when it last looked",
        _ => "when they last looked",
    };
    let others = listed(&others);
    Finding {
        waits_for: vec![wait(format!("{nodes} to reach {who}"))],
        remedies: vec![remedy(format!(
            "look at the way from {nodes} to {who}: the network, a firewall, the configuration"
        ))],
        ..finding(
            FindingKind::MetadataMember,
            format!("from {nodes}, the member of etcd {who} {words}; {others} reached it {when}"),
        )
    }
}

/// An endpoint in the files of nodes that is no member's. While members change it may be that of one that is to come.
fn no_member(endpoint: &str, stranger: &Stranger, name: &impl Fn(NodeId) -> String) -> Finding {
    let nodes: Vec<String> = stranger.nodes.iter().map(|node| name(*node)).collect();
    let nodes = listed(&nodes);
    let (what, remedies) = if stranger.is_foreign {
        let correct = format!(
            "correct etcd.members (or metadata.etcd) in the file of {nodes}, and start the node again, one after the other"
        );
        ("what answers there is of another etcd", vec![correct])
    } else {
        let add = "if it is to be one: `etcdctl member add` (its machine's log has the command)";
        let remove = format!(
            "if not, or its machine was replaced: take it out of etcd.members (or metadata.etcd) in the file of {nodes}, or \
             correct its address there, and start the node again, one after the other"
        );
        (
            "the file lists it, and etcd does not have it: it was removed, or has not been added yet",
            vec![add.to_owned(), remove],
        )
    };
    Finding {
        remedies: remedies.into_iter().map(remedy).collect(),
        ..finding(
            FindingKind::MetadataMember,
            format!("{endpoint}, in the configuration of {nodes}, is no member: {what}"),
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
