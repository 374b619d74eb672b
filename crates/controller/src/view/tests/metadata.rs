//! What is said of the members of etcd.

use holdfast_api::documents::{Finding, FindingKind, LocalMember, MemberCounts, MemberState};

use super::*;

use MemberState::{Answers, Foreign, Leaderless, Silent};

fn node(node: u16, members: &[(&str, MemberState)]) -> LocalReport {
    let slices = [0, 1].map(|index| local_slice(index, 5, node == 1, 1));
    let members = members.iter().map(|(endpoint, state)| LocalMember {
        endpoint: (*endpoint).to_owned(),
        state: *state,
    });
    LocalReport {
        metadata_members: members.collect(),
        ..local(node, if node < 3 { slices.into() } else { Vec::new() })
    }
}

fn told(reports: [LocalReport; 3]) -> (Status, Vec<Finding>) {
    let inventory = inventory(vec![slice_record(0, &BOTH), slice_record(1, &BOTH)]);
    let reports = Reports::of(reports);
    let found = explain(&inventory, &reports).metadata;
    (status(&inventory, &reports), found)
}

#[test]
fn where_all_members_answer_or_there_are_none_nothing_is_said() {
    let (status, found) = told([1, 2, 3].map(|it| node(it, &[])));
    assert_eq!((status.metadata_members, found.len()), (None, 0));
    let all = [("a:1", Answers), ("b:1", Answers), ("c:1", Answers)];
    let (status, found) = told([1, 2, 3].map(|it| node(it, &all)));
    let counts = MemberCounts { total: 3, up: 3 };
    assert_eq!((status.metadata_members, found.len()), (Some(counts), 0));
    assert_eq!((status.health, said(&status)), (Health::Healthy, vec![]));
}

#[test]
fn a_dead_member_is_told_with_what_one_more_would_cost() {
    let members = [("a:1", Answers), ("b:1", Answers), ("c:1", Silent)];
    let (status, found) = told([1, 2, 3].map(|it| node(it, &members)));
    let counts = MemberCounts { total: 3, up: 2 };
    assert_eq!(status.metadata_members, Some(counts));
    assert_eq!(status.health, Health::Degraded);
    assert!(status.protection.protected, "copies are no worse for it");
    let what = "2 of 3 members of etcd answer: c:1 does not answer; with 1 more lost the metadata is away: hosts' I/O \
                goes on, but nothing can be changed, and no node that dies is replaced";
    assert_eq!(said(&status), [format!("warning: metadata: {what}")]);
    let [finding] = &found[..] else {
        panic!("one finding: {found:?}");
    };
    assert_eq!(
        (finding.kind, finding.what.as_str()),
        (FindingKind::MetadataMember, what)
    );
    assert_eq!(finding.waits_for[0].what, "c:1 to answer");
    assert!(
        finding.remedies[0]
            .what
            .starts_with("start the machine of c:1")
    );
    assert!(finding.remedies[1].what.contains("docs/deployment.md"));
}

/// Five members have one more to lose; of three there is none when two are gone.
#[test]
fn how_many_more_may_be_lost_is_counted() {
    for (up, total, says) in [
        (4, 5, "with 2 more lost the metadata is away"),
        (3, 5, "with 1 more lost the metadata is away"),
        (2, 5, "that is no majority"),
        (3, 4, "with 1 more lost the metadata is away"),
        (1, 3, "that is no majority"),
        (0, 1, "that is no majority"),
    ] {
        let names: Vec<String> = (0..total).map(|it| format!("m{it}:1")).collect();
        let states = (0..total).map(|it| if it < up { Answers } else { Silent });
        let members: Vec<_> = names.iter().map(String::as_str).zip(states).collect();
        let (_, found) = told([1, 2, 3].map(|it| node(it, &members)));
        assert!(found[0].what.contains(says), "{}", found[0].what);
    }
}

#[test]
fn a_member_that_some_nodes_reach_is_told_with_those_that_do_not() {
    let all = [("a:1", Answers), ("b:1", Answers), ("c:1", Answers)];
    let cut = [("a:1", Answers), ("b:1", Silent), ("c:1", Answers)];
    let (status, found) = told([node(1, &cut), node(2, &all), node(3, &cut)]);
    let counts = MemberCounts { total: 3, up: 3 };
    assert_eq!(status.metadata_members, Some(counts));
    assert_eq!(status.health, Health::Degraded);
    assert_eq!(
        said(&status),
        [
            "warning: metadata: from n1 and n3, the member of etcd at b:1 does not answer; other nodes reach it"
        ]
    );
    assert!(found[0].remedies[0].what.contains("from n1 and n3 to b:1"));
}

#[test]
fn what_is_known_of_a_member_that_answers_badly_is_told() {
    let members = [("a:1", Answers), ("b:1", Leaderless), ("c:1", Foreign)];
    let (_, found) = told([1, 2, 3].map(|it| node(it, &members)));
    let what = &found[0].what;
    assert!(
        what.contains("b:1 has no leader") && what.contains("c:1 is of another etcd"),
        "{what}"
    );
}
