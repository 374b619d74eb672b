//! What is said of the members of etcd.

use holdfast_api::documents::{
    Finding, FindingKind, ListedMember, LocalMember, MemberCounts, MemberState,
};
use holdfast_api::{Problem, ProblemKind};

use super::*;

use MemberState::{Answers, Foreign, Leaderless, Silent};

/// A member as etcd lists it, and a node sees it: `n3` is member `3`, and says that it is at `n3:1`.
fn member(name: &str, state: MemberState) -> ListedMember {
    ListedMember {
        member: name.trim_start_matches('n').to_owned(),
        name: name.to_owned(),
        endpoints: vec![format!("{name}:1")],
        peers: vec![format!("{name}:2")],
        votes: true,
        state,
    }
}

/// An endpoint in a node's file, and who last answered there.
fn file(endpoint: &str, state: MemberState, member: Option<&str>) -> LocalMember {
    LocalMember {
        endpoint: endpoint.to_owned(),
        state,
        member: member.map(str::to_owned),
        tls: None,
    }
}

fn report(node: u16, configured: &[LocalMember], listed: &[ListedMember]) -> LocalReport {
    let slices = [0, 1].map(|index| local_slice(index, 5, node == 1, 1));
    LocalReport {
        metadata_members: configured.to_vec(),
        metadata_listed: listed.to_vec(),
        ..local(node, if node < 3 { slices.into() } else { Vec::new() })
    }
}

/// A node whose file spells the members as they do themselves.
fn node(node: u16, members: &[(&str, MemberState)]) -> LocalReport {
    let listed = members.iter().map(|(name, state)| member(name, *state));
    let listed: Vec<ListedMember> = listed.collect();
    let configured = listed.iter().map(|it| {
        let answered = Some(it.member.as_str()).filter(|_| it.state == Answers);
        file(&it.endpoints[0], it.state, answered)
    });
    report(node, &configured.collect::<Vec<_>>(), &listed)
}

fn told(reports: [LocalReport; 3]) -> (Status, Vec<Finding>) {
    let inventory = inventory(vec![slice_record(0, &BOTH), slice_record(1, &BOTH)]);
    let reports = Reports::of(reports);
    let found = explain(&inventory, &reports).metadata;
    (status(&inventory, &reports), found)
}

fn counts(up: u32, total: u32) -> Option<MemberCounts> {
    Some(MemberCounts { total, up })
}

const ALL: [(&str, MemberState); 3] = [("n1", Answers), ("n2", Answers), ("n3", Answers)];

#[test]
fn where_all_members_answer_or_there_are_none_nothing_is_said() {
    let (status, found) = told([1, 2, 3].map(|it| node(it, &[])));
    assert_eq!((status.metadata_members, found.len()), (None, 0));
    let (status, found) = told([1, 2, 3].map(|it| node(it, &ALL)));
    assert_eq!((status.metadata_members, found.len()), (counts(3, 3), 0));
    assert_eq!((status.health, said(&status)), (Health::Healthy, vec![]));
}

#[test]
fn a_dead_member_is_told_with_what_one_more_would_cost() {
    let members = [("n1", Answers), ("n2", Answers), ("n3", Silent)];
    let (status, found) = told([1, 2, 3].map(|it| node(it, &members)));
    assert_eq!(status.metadata_members, counts(2, 3));
    assert_eq!(status.health, Health::Degraded);
    assert!(status.protection.protected, "copies are no worse for it");
    let what = "2 of 3 members of etcd answer: n3 at n3:1 does not answer; with 1 more lost the metadata is away: hosts' \
                I/O goes on, but nothing can be changed, and no node that dies is replaced";
    assert_eq!(said(&status), [format!("warning: metadata: {what}")]);
    let [finding] = &found[..] else {
        panic!("one finding: {found:?}");
    };
    assert_eq!(
        (finding.kind, finding.what.as_str()),
        (FindingKind::MetadataMember, what)
    );
    assert_eq!(finding.waits_for[0].what, "n3 at n3:1 to answer");
    let [start, replace] = &finding.remedies[..] else {
        panic!("two remedies: {finding:?}");
    };
    assert!(start.what.starts_with("start the machine of n3 at n3:1"));
    // What runs an operator's own etcd has another log.
    let log = "etcd's log tells what is wrong: `etcd/etcd.log` in the directory of the node or witness, where `etcd.members` \
               names it";
    assert!(start.what.ends_with(log), "{}", start.what);
    assert!(replace.what.contains("A member whose data is lost"));
}

/// Five members have one more to lose; of three there is none when two are gone, and then no member is replaced.
#[test]
fn how_many_more_may_be_lost_is_counted() {
    for (up, total, says, section) in [
        (4, 5, "with 2 more lost", "A member whose data is lost"),
        (3, 5, "with 1 more lost", "A member whose data is lost"),
        (
            2,
            5,
            "that is no majority",
            "When the metadata is lost for good",
        ),
        (3, 4, "with 1 more lost", "A member whose data is lost"),
        (
            1,
            3,
            "that is no majority",
            "When the metadata is lost for good",
        ),
        (
            0,
            1,
            "that is no majority",
            "When the metadata is lost for good",
        ),
    ] {
        let names: Vec<String> = (0..total).map(|it| format!("n{it}")).collect();
        let states = (0..total).map(|it| if it < up { Answers } else { Silent });
        let members: Vec<_> = names.iter().map(String::as_str).zip(states).collect();
        let (_, found) = told([1, 2, 3].map(|it| node(it, &members)));
        assert!(found[0].what.contains(says), "{}", found[0].what);
        let remedies: Vec<&str> = found[0].remedies.iter().map(|it| &it.what[..]).collect();
        assert!(remedies[1].contains(section), "{remedies:?}");
    }
}

#[test]
fn a_member_that_some_nodes_reach_is_told_with_those_that_do_not() {
    let cut = [("n1", Answers), ("n2", Silent), ("n3", Answers)];
    let (status, found) = told([node(1, &cut), node(2, &ALL), node(3, &cut)]);
    assert_eq!(status.metadata_members, counts(3, 3));
    assert_eq!(status.health, Health::Degraded);
    assert_eq!(
        said(&status),
        [
            "warning: metadata: from n1 and n3, the member of etcd n2 at n2:1 does not answer; n2 reached it when it last looked"
        ]
    );
    assert!(
        found[0].remedies[0]
            .what
            .contains("from n1 and n3 to n2 at n2:1")
    );
}

#[test]
fn what_is_known_of_a_member_that_answers_badly_is_told() {
    let members = [("n1", Answers), ("n2", Leaderless), ("n3", Answers)];
    let (_, found) = told([1, 2, 3].map(|it| node(it, &members)));
    let what = &found[0].what;
    assert!(what.contains("n2 at n2:1 has no leader"), "{what}");
}

/// Each file may say it in its own way, and each node call its own member by the address that only it has.
#[test]
fn members_are_who_etcd_says_whatever_files_call_them() {
    let listed = ALL.map(|(name, state)| member(name, state));
    let named = ["127.0.0.1:1", "host-2:1", "192.0.2.3:1"];
    let reports = [1, 2, 3].map(|node| {
        let own = usize::from(node) - 1;
        let endpoint = |place| if place == own { named[0] } else { named[place] };
        let places = [0, 1, 2].map(|it| file(endpoint(it), Answers, Some(&listed[it].member)));
        report(node, &places, &listed)
    });
    let (status, found) = told(reports);
    assert_eq!((status.metadata_members, found.len()), (counts(3, 3), 0));
    // One is dead, and was before the nodes began: nothing tells that it is at the third endpoint, or is not.
    let listed = [
        member("n1", Answers),
        member("n2", Answers),
        member("n3", Silent),
    ];
    let places = [
        file(named[0], Answers, Some("1")),
        file(named[1], Answers, Some("2")),
        file("host-3:1", Silent, None),
    ];
    let (status, found) = told([1, 2, 3].map(|node| report(node, &places, &listed)));
    assert_eq!((status.metadata_members, found.len()), (counts(2, 3), 1));
    assert!(found[0].what.contains("n3 at n3:1 does not answer"));
}

/// A member whose data is lost is removed, and added: between the two the files are right.
#[test]
fn a_file_is_not_told_to_be_wrong_because_a_member_is_taken_in_anew() {
    let listed = [member("n1", Answers), member("n2", Answers)];
    let places = [
        file("n1:1", Answers, Some("1")),
        file("n2:1", Answers, Some("2")),
        file("n3:1", Silent, Some("3")),
    ];
    let (status, found) = told([1, 2, 3].map(|node| report(node, &places, &listed)));
    assert_eq!(status.metadata_members, counts(2, 2));
    let [finding] = &found[..] else {
        panic!("one finding: {found:?}");
    };
    assert!(!finding.what.contains("correct"), "{}", finding.what);
    assert!(finding.remedies[0].what.contains("`etcdctl member add`"));
    let said = said(&status).concat();
    assert!(said.contains("has not been added yet"), "{said}");
}

/// As in docs/deployment.md: n3 is dead, and takes its place at another address; the files of the others have the
/// former one until the end.
#[test]
fn a_machine_that_is_replaced_takes_no_majority_away() {
    let former = |answered| file("n3:1", Silent, answered);
    let places = |answered| {
        [
            file("n1:1", Answers, Some("1")),
            file("n2:1", Answers, Some("2")),
            former(answered),
        ]
    };
    // It has been removed, and the new one added, which never ran.
    let mut added = member("n9", Silent);
    (added.name, added.endpoints) = (String::new(), Vec::new());
    let listed = [member("n1", Answers), member("n2", Answers), added];
    let (status, found) = told([1, 2, 3].map(|node| report(node, &places(Some("3")), &listed)));
    assert_eq!(status.metadata_members, counts(2, 3));
    let [lacks, stale] = &found[..] else {
        panic!("two findings: {found:?}");
    };
    assert!(lacks.what.contains("9 at n9:2 has never run; with 1 more"));
    let says = "n3:1, in the configuration of n1, n2 and n3, is no member: the file lists it, and etcd does not have it: it \
                was removed, or has not been added yet";
    assert_eq!(stale.what, says);
    // It runs. A node that has been started since has never met the former one.
    let listed = [
        member("n1", Answers),
        member("n2", Answers),
        member("n9", Answers),
    ];
    for answered in [Some("3"), None] {
        let (status, found) = told([1, 2, 3].map(|node| report(node, &places(answered), &listed)));
        assert_eq!((status.metadata_members, found.len()), (counts(3, 3), 1));
        assert_eq!(found[0].what, says);
        let remedies: Vec<&str> = found[0].remedies.iter().map(|it| &it.what[..]).collect();
        assert!(remedies[0].starts_with("if it is to be one: `etcdctl member add`"));
        assert!(remedies[1].contains("take it out of etcd.members"));
    }
}

#[test]
fn who_is_of_another_etcd_is_no_member() {
    let listed = [member("n1", Answers), member("n2", Answers)];
    let places = [
        file("n1:1", Answers, Some("1")),
        file("n2:1", Answers, Some("2")),
        file("n3:1", Foreign, Some("7")),
    ];
    let (status, found) = told([1, 2, 3].map(|node| report(node, &places, &listed)));
    assert_eq!(status.metadata_members, counts(2, 2));
    let [finding] = &found[..] else {
        panic!("one finding: {found:?}");
    };
    assert!(
        finding
            .what
            .contains("n3:1, in the configuration of n1, n2 and n3")
    );
    assert!(finding.what.contains("another etcd"), "{}", finding.what);
}

/// One that only learns is in nobody's way.
#[test]
fn only_who_votes_counts_for_a_majority() {
    let mut learner = member("n9", Silent);
    learner.votes = false;
    let mut reports = [1, 2, 3].map(|it| node(it, &ALL));
    for report in &mut reports {
        report.metadata_listed.push(learner.clone());
    }
    let (status, found) = told(reports);
    assert_eq!((status.metadata_members, found.len()), (counts(3, 3), 0));
}

/// While the members change, what most nodes have heard counts.
#[test]
fn one_node_that_has_heard_of_those_before_changes_nothing() {
    let before = [("n1", Answers), ("n2", Answers), ("n8", Silent)];
    let (status, found) = told([node(1, &before), node(2, &ALL), node(3, &ALL)]);
    assert_eq!((status.metadata_members, found.len()), (counts(3, 3), 0));
}

/// All were started while etcd had no majority, without which it does not say who its members are.
#[test]
fn where_no_node_has_heard_who_the_members_are_files_are_counted() {
    let states = [("n1:1", Leaderless), ("n2:1", Silent), ("n3:1", Silent)];
    let places = states.map(|(endpoint, state)| file(endpoint, state, None));
    let mut other = places.clone();
    other[2].endpoint = "host-3:1".to_owned();
    let (status, found) = told([
        report(1, &places, &[]),
        report(2, &places, &[]),
        report(3, &other, &[]),
    ]);
    assert_eq!(status.metadata_members, counts(0, 4), "by spelling");
    let [finding] = &found[..] else {
        panic!("one finding: {found:?}");
    };
    for part in [
        "0 of 4 members of etcd (counted by the files of nodes",
        "n1:1 has no leader",
        "n3:1 does not answer",
        "that is no majority",
    ] {
        assert!(finding.what.contains(part), "{}", finding.what);
    }
    let remedies: Vec<&str> = finding.remedies.iter().map(|it| &it.what[..]).collect();
    assert!(remedies[1].contains("When the metadata is lost for good"));
    // As a node tells it that cannot ask the others.
    let problem = Problem::new(ProblemKind::Unavailable, "the metadata is away");
    let alone = unreached(&report(1, &places, &[]), &problem).metadata;
    assert!(alone[0].what.starts_with("0 of 3 members"), "{alone:?}");
    // One node has heard it: what it has heard counts, and what the others see of their files does not.
    let listed = [
        member("n1", Leaderless),
        member("n2", Silent),
        member("n3", Silent),
    ];
    let (status, found) = told([
        report(1, &places, &listed),
        report(2, &places, &[]),
        report(3, &other, &[]),
    ]);
    assert_eq!((status.metadata_members, found.len()), (counts(0, 3), 1));
    assert!(!found[0].what.contains("files"), "{}", found[0].what);
    // What is of another etcd is no member here either.
    let mut foreign = places;
    foreign[2].state = Foreign;
    let (status, found) = told([1, 2, 3].map(|node| report(node, &foreign, &[])));
    assert_eq!((status.metadata_members, found.len()), (counts(0, 2), 2));
    assert!(found[1].what.contains("another etcd"), "{}", found[1].what);
}
