//! `holdfast upgrade-check`: may the next node be taken, so that this program takes the place of what it runs?
//!
//! It only asks. What the cluster holds to be wrong is taken from its own explanation: there is no second opinion here about what is
//! in sync.
//!
//! Invariants:
//! - a node of which nothing is known is a reason to wait, not to go on;
//! - which versions go together is said in one place, [`skew`].

use std::time::{SystemTime, UNIX_EPOCH};

use holdfast_api::documents::{
    Explanation, Finding, Health, LocalReport, Node, NodeList, NodeStanding, NodeState, Token,
    User, Versions, VolumeList,
};
use holdfast_api::{ApiClient, ClientError, ProblemKind};
use holdfast_identity::Made;
use holdfast_model::{Policy, host_and_port, is_this_machine};
use serde::Serialize;

use super::client;
use crate::cli::Global;
use crate::failure::Failure;
use crate::output::{Output, table};

/// What it tells.
#[derive(Debug, Serialize)]
struct Check {
    /// Whether the next node may be taken.
    may_go_on: bool,
    /// What is to be installed: this program.
    program: Versions,
    nodes: Vec<NodeCheck>,
    /// Why not.
    reasons: Vec<Remark>,
    /// What does not stand in the way, and should be known.
    notes: Vec<Remark>,
    /// The first node that runs something else; null if none does.
    next: Option<String>,
}

#[derive(Debug, Serialize)]
struct NodeCheck {
    name: String,
    state: NodeState,
    standing: NodeStanding,
    /// What it runs; null if that is not known.
    versions: Option<Versions>,
    /// Whether it runs this version.
    is_upgraded: bool,
}

/// Something about a node, a volume or the metadata.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Remark {
    subject: String,
    what: String,
}

impl Remark {
    fn new(subject: impl Into<String>, what: impl Into<String>) -> Self {
        Self {
            subject: subject.into(),
            what: what.into(),
        }
    }
}

pub(crate) async fn run(global: &Global, output: &Output) -> Result<(), Failure> {
    let client = client(global);
    // The nodes after the rest: of what has changed meanwhile the newest counts.
    let volumes = client.volumes().await?;
    let explanation = client.explain().await?;
    let nodes = client.nodes().await?;
    let mut check = check(&holdfast_node::versions(), &nodes, &volumes, &explanation);
    if check.next.is_some() {
        check.notes.extend(tokens(&client).await?);
        check.notes.extend(etcd(&client).await?);
    }
    output.result(&check, || text(&check))?;
    if check.may_go_on {
        return Ok(());
    }
    Err(Failure::answer_is_no())
}

/// What is to be known of tokens: which of them hold with an earlier version only.
async fn tokens(client: &ApiClient) -> Result<Vec<Remark>, Failure> {
    let asked = async { Ok((client.tokens().await?, client.users().await?)) };
    let asked: Result<_, ClientError> = asked.await;
    Ok(match asked {
        Ok((tokens, users)) => {
            let now = SystemTime::now().duration_since(UNIX_EPOCH);
            let now_ms = now.map_or(0, |now| now.as_millis() as u64);
            ending(&tokens.tokens, &users.users, now_ms)
        }
        Err(ClientError::Problem(problem)) => match problem.kind {
            ProblemKind::Forbidden => vec![Remark::new(
                "tokens",
                "whether all go on with this version was not looked at: that takes an administrator",
            )],
            // Security is off, or they run a version without tokens.
            ProblemKind::Refused | ProblemKind::NoSuchResource => Vec::new(),
            _ => return Err(ClientError::Problem(problem).into()),
        },
        Err(error) => return Err(error.into()),
    })
}

/// What is to be known of how nodes speak to etcd, by the one that is asked.
async fn etcd(client: &ApiClient) -> Result<Option<Remark>, Failure> {
    match client.local().await {
        Ok(report) => Ok(may_be_plain(&report)),
        // The parent of a demo is asked, whose etcd is on its machine.
        Err(ClientError::Problem(problem)) if problem.kind == ProblemKind::NoNode => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Whether a node that has TLS may speak in the clear to members of etcd on other machines, as earlier versions did and did not tell: with
/// this version it does not start then, unless its file permits it.
fn may_be_plain(report: &LocalReport) -> Option<Remark> {
    let vitals = report.vitals.as_ref();
    let has_tls = vitals.is_some_and(|it| it.certificate_expires_ms.is_some());
    let members = report.metadata_members.iter();
    let members = members.filter(|it| has_tls && it.tls.is_none() && is_elsewhere(&it.endpoint));
    let members: Vec<&str> = members.map(|it| &*it.endpoint).collect();
    (!members.is_empty()).then(|| {
        let what = format!(
            "{} asks it at {}, and does not tell whether over TLS: without, a node does not start with this version unless its file \
             permits that. Look into the files of all nodes before (\"TLS to an etcd of one's own\" in docs/upgrade.md; where the \
             machines run etcd themselves, \"TLS between members of etcd\")",
            report.name,
            members.join(", ")
        );
        Remark::new("etcd", what)
    })
}

fn is_elsewhere(endpoint: &str) -> bool {
    let host = host_and_port(endpoint).map(|(host, _)| host.trim_matches(['[', ']']));
    !host.is_some_and(is_this_machine)
}

/// The tokens that let nobody in with this version: of those who are gone, or disabled, or of tokens that are. Earlier versions
/// looked at the token alone.
fn ending(tokens: &[Token], users: &[User], now_ms: u64) -> Vec<Remark> {
    let token = |id: &str| tokens.iter().find(|it| it.id == id).map(made);
    let user = |name: &str| {
        let mut users = users.iter();
        let user = users.find(|it| it.name == name && !it.disabled)?;
        Some((user.role, user.created_ms))
    };
    let ending = tokens.iter().filter_map(|it| {
        let holds = made(it).role(now_ms, token, user).is_some();
        let ends = now_ms < it.expires_ms && !holds;
        ends.then(|| {
            let what = format!(
                "it ends with this version, for who made it ({}) is gone or disabled: make another one for whatever uses it \
                 (`holdfast token create`), and revoke it (`holdfast token revoke {}`)",
                it.created_by, it.id
            );
            Remark::new(format!("token {} ({})", it.name, it.id), what)
        })
    });
    ending.collect()
}

fn made(token: &Token) -> Made<'_> {
    Made {
        role: token.role,
        created_by: &token.created_by,
        created_ms: token.created_ms,
        expires_ms: token.expires_ms,
    }
}

fn check(
    program: &Versions,
    list: &NodeList,
    volumes: &VolumeList,
    explanation: &Explanation,
) -> Check {
    let is_member =
        |node: &&Node| !matches!(node.standing, NodeStanding::Removed | NodeStanding::Waiting);
    let members: Vec<&Node> = list.nodes.iter().filter(is_member).collect();
    let mut reasons = versions(program, &members);
    reasons.extend(members.iter().filter_map(|node| standing(node)));
    reasons.extend(findings(explanation));
    let nodes: Vec<_> = members
        .iter()
        .map(|node| NodeCheck {
            name: node.name.clone(),
            state: node.state,
            standing: node.standing,
            is_upgraded: node.versions.as_ref() == Some(program),
            versions: node.versions.clone(),
        })
        .collect();
    let next = nodes.iter().find(|node| !node.is_upgraded);
    let next = next.map(|node| node.name.clone());
    Check {
        may_go_on: reasons.is_empty(),
        program: program.clone(),
        notes: notes(volumes, next.is_some()),
        nodes,
        reasons,
        next,
    }
}

/// What the cluster itself says to be less than it should be.
fn findings(explanation: &Explanation) -> Vec<Remark> {
    let remark = |subject: String| {
        move |finding: &Finding| {
            (finding.health != Health::Healthy)
                .then(|| Remark::new(subject.clone(), &*finding.what))
        }
    };
    let mut remarks = Vec::new();
    let metadata = explanation.metadata.iter();
    remarks.extend(metadata.filter_map(remark("metadata".to_owned())));
    for node in &explanation.nodes {
        let findings = node.findings.iter();
        remarks.extend(findings.filter_map(remark(format!("node {}", node.node))));
    }
    for volume in &explanation.volumes {
        let findings = volume.findings.iter();
        remarks.extend(findings.filter_map(remark(format!("volume {}", volume.volume))));
    }
    let is_told = !remarks.is_empty();
    if !explanation.protection.protected && !is_told {
        remarks.push(Remark::new("cluster", "not every volume is in sync"));
    }
    remarks
}

/// What an operator has ordered, and has yet to end.
fn standing(node: &Node) -> Option<Remark> {
    let subject = format!("node {}", node.name);
    match node.standing {
        NodeStanding::Maintenance => Some(Remark::new(
            subject,
            format!(
                "it is in maintenance: `holdfast node maintenance off {}`, and wait until it has what it missed",
                node.name
            ),
        )),
        _ => None,
    }
}

/// Whether what the nodes run goes together with this program.
fn versions(program: &Versions, members: &[&Node]) -> Vec<Remark> {
    let mut remarks = Vec::new();
    if members.is_empty() {
        remarks.push(Remark::new("cluster", "it has no node"));
    }
    for node in members {
        let subject = format!("node {}", node.name);
        match &node.versions {
            // That it does not answer is among the findings.
            None if !node.answers => {}
            None => remarks.push(Remark::new(
                subject,
                "it does not tell what it runs, as programs from before this command do not: docs/upgrade.md",
            )),
            Some(runs) => {
                let why = skew(runs, program);
                remarks.extend(why.map(|why| Remark::new(subject, why)));
            }
        }
    }
    remarks
}

/// Why a node that runs this cannot run beside one with this program, or be taken over by it; nothing if both can be.
fn skew(runs: &Versions, program: &Versions) -> Option<String> {
    if runs.format > program.format {
        return Some(format!(
            "its devices have format {}, this program reads up to {}: there is no way back",
            runs.format, program.format
        ));
    }
    if runs.protocol < program.protocol_min || program.protocol < runs.protocol_min {
        return Some(format!(
            "it speaks {} to {} of the protocol between nodes, this program {} to {}: they do not understand each other",
            runs.protocol_min, runs.protocol, program.protocol_min, program.protocol
        ));
    }
    let (Some(from), Some(to)) = (release(&runs.program), release(&program.program)) else {
        return Some(format!(
            "it runs {}, and this is {}: one of them is no release",
            runs.program, program.program
        ));
    };
    if to < from {
        return Some(format!(
            "it runs {}, which is newer than this program, {}",
            runs.program, program.program
        ));
    }
    let is_next_minor = from.0 == to.0 && to.1 - from.1 <= 1;
    let is_next_major = from.0 + 1 == to.0 && to.1 == 0;
    (!is_next_minor && !is_next_major).then(|| {
        format!(
            "it runs {}, more than one release before this program, {}: upgrade through each",
            runs.program, program.program
        )
    })
}

/// The first two numbers of a version: those after them change nothing that others see.
fn release(version: &str) -> Option<(u64, u64)> {
    let (major, rest) = version.split_once('.')?;
    let (minor, _) = rest.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

fn notes(volumes: &VolumeList, is_left: bool) -> Vec<Remark> {
    let single = volumes.volumes.iter();
    let single = single.filter(|volume| is_left && volume.policy == Policy::None);
    single
        .map(|volume| {
            Remark::new(
                format!("volume {}", volume.name),
                "it has one copy (policy none): it stands still while its node is restarted",
            )
        })
        .collect()
}

fn text(check: &Check) -> String {
    let rows: Vec<_> = check.nodes.iter().map(row).collect();
    let names = ["NODE", "STATE", "VERSION", "PROTOCOL", "FORMAT", "UPGRADED"];
    let Versions {
        program,
        protocol,
        format,
        ..
    } = &check.program;
    let mut text = format!(
        "this program  {program} (protocol {protocol}, format {format})\n\n{}",
        table(names, &rows)
    );
    for (title, remarks) in [("not now", &check.reasons), ("note", &check.notes)] {
        if !remarks.is_empty() {
            text.push('\n');
        }
        for Remark { subject, what } in remarks {
            text.push_str(&format!("{title}: {subject}: {what}\n"));
        }
    }
    text.push('\n');
    text.push_str(&match (&check.next, check.may_go_on) {
        (_, false) => "answer: wait. `holdfast status --explain` says what is waited for, and what you may do\n".to_owned(),
        (None, true) => "answer: every node runs this version\n".to_owned(),
        (Some(next), true) => format!(
            "answer: go on, with {next}: `holdfast node maintenance on {next}`, stop it, replace the program, start it, \
             `holdfast node maintenance off {next}`\n"
        ),
    });
    text
}

fn row(node: &NodeCheck) -> [String; 6] {
    let state = match (node.state, node.standing) {
        (NodeState::Down, _) => "down",
        (NodeState::Up, NodeStanding::Active) => "up",
        (NodeState::Up, standing) => standing.as_str(),
    };
    let told = |tell: fn(&Versions) -> String| {
        let versions = node.versions.as_ref();
        versions.map_or_else(|| "-".to_owned(), tell)
    };
    [
        node.name.clone(),
        state.to_owned(),
        told(|it| it.program.clone()),
        told(|it| it.protocol.to_string()),
        told(|it| it.format.to_string()),
        if node.is_upgraded { "yes" } else { "no" }.to_owned(),
    ]
}

#[cfg(test)]
mod tests {
    use holdfast_api::documents::{
        FindingKind, LocalMember, MemberState, NodeFindings, Protection, SyncWork, ToMove, Vitals,
        VolumeFindings,
    };

    use holdfast_identity::{Role, Scope};

    use super::*;

    fn versions_of(program: &str, protocol: u16, format: u32) -> Versions {
        Versions {
            program: program.to_owned(),
            protocol,
            protocol_min: 3,
            format,
        }
    }

    fn node(name: &str, versions: Option<Versions>) -> Node {
        Node {
            name: name.to_owned(),
            node: 1,
            state: NodeState::Up,
            answers: true,
            stopped: false,
            metadata_believed: Some(true),
            awaited_device: None,
            portal: "h:1".to_owned(),
            api: "http://h:2".to_owned(),
            incarnation: 1,
            replicas: 1,
            primaries: 0,
            sessions: None,
            room: None,
            work_per_second: None,
            standing: NodeStanding::Active,
            is_drained: false,
            site: None,
            failure_domain: None,
            to_move: ToMove::default(),
            to_send: SyncWork::default(),
            to_receive: SyncWork::default(),
            versions,
            etag: None,
        }
    }

    fn well() -> Explanation {
        Explanation {
            protection: Protection {
                protected: true,
                ..Protection::default()
            },
            ..Explanation::default()
        }
    }

    fn finding(health: Health, what: &str) -> Finding {
        Finding {
            kind: FindingKind::Syncing,
            health,
            what: what.to_owned(),
            slices: 0,
            indexes: String::new(),
            work: None,
            waits_for: Vec::new(),
            remedies: Vec::new(),
        }
    }

    fn checked(nodes: Vec<Node>, explanation: &Explanation) -> Check {
        let (list, volumes) = (
            NodeList { nodes, next: None },
            VolumeList {
                volumes: Vec::new(),
                next: None,
            },
        );
        check(&versions_of("0.3.1", 9, 5), &list, &volumes, explanation)
    }

    #[test]
    fn one_after_the_other_is_taken_until_all_are() {
        let (old, new) = (versions_of("0.2.0", 8, 4), versions_of("0.3.1", 9, 5));
        let half = vec![node("n1", Some(new.clone())), node("n2", Some(old))];
        let told = checked(half, &well());
        assert!(told.may_go_on, "{told:?}");
        assert_eq!(told.next.as_deref(), Some("n2"));
        assert!(
            text(&told).contains("answer: go on, with n2"),
            "{}",
            text(&told)
        );
        let told = checked(vec![node("n1", Some(new))], &well());
        assert!(told.may_go_on && told.next.is_none());
        assert!(text(&told).contains("every node runs this version"));
    }

    #[test]
    fn what_is_less_than_it_should_be_is_waited_for() {
        let nodes = || vec![node("n1", Some(versions_of("0.3.0", 9, 5)))];
        let bad = || vec![finding(Health::Degraded, "a copy lacks something")];
        let on_volume = Explanation {
            volumes: vec![VolumeFindings {
                volume: "data".to_owned(),
                health: Health::Degraded,
                findings: bad(),
            }],
            ..well()
        };
        let on_node = Explanation {
            nodes: vec![NodeFindings {
                node: "n1".to_owned(),
                findings: bad(),
            }],
            ..well()
        };
        let on_metadata = Explanation {
            metadata: bad(),
            ..well()
        };
        // Older than this command: it says no more than that.
        let unsaid = Explanation::default();
        for explanation in [on_volume, on_node, on_metadata, unsaid] {
            let told = checked(nodes(), &explanation);
            assert!(!told.may_go_on, "{explanation:?}");
            assert!(text(&told).contains("answer: wait"), "{}", text(&told));
        }
        // What is ordered, or lacks nothing.
        let known = Explanation {
            volumes: vec![VolumeFindings {
                volume: "data".to_owned(),
                health: Health::Healthy,
                findings: vec![finding(Health::Healthy, "copies share a site")],
            }],
            ..well()
        };
        assert!(checked(nodes(), &known).may_go_on);
    }

    #[test]
    fn who_is_in_maintenance_comes_back_first() {
        let away = Node {
            standing: NodeStanding::Maintenance,
            ..node("n1", Some(versions_of("0.3.1", 9, 5)))
        };
        let told = checked(vec![away], &well());
        assert!(!told.may_go_on);
        assert!(
            text(&told).contains("maintenance off n1"),
            "{}",
            text(&told)
        );
        // Who is no part of the cluster is none of an upgrade's.
        let gone = Node {
            standing: NodeStanding::Removed,
            ..node("n2", None)
        };
        let told = checked(
            vec![gone, node("n1", Some(versions_of("0.3.1", 9, 5)))],
            &well(),
        );
        assert!(told.may_go_on && told.nodes.len() == 1);
    }

    #[test]
    fn who_does_not_tell_what_it_runs_is_not_passed_over() {
        let told = checked(vec![node("n1", None)], &well());
        assert!(!told.may_go_on);
        assert!(!checked(Vec::new(), &well()).may_go_on);
    }

    fn token(id: &str, created_by: &str) -> Token {
        Token {
            id: id.to_owned(),
            name: format!("script {id}"),
            role: Role::Operator,
            scope: Scope::Everything,
            created_by: created_by.to_owned(),
            created_ms: 1000,
            expires_ms: 9000,
        }
    }

    fn user(name: &str, created_ms: u64, disabled: bool) -> User {
        User {
            etag: None,
            name: name.to_owned(),
            role: Role::Operator,
            disabled,
            created_ms,
            password_changed_ms: 0,
            sessions: 0,
            issuer: None,
            subject: None,
        }
    }

    #[test]
    fn tokens_whose_makers_are_gone_are_named() {
        let users = [
            user("ada", 1, false),
            user("bob", 1, true),
            user("eve", 1001, false),
        ];
        let tokens = [
            token("0a", "user ada"),
            token("0b", "user bob"),
            token("0c", "user carl"),
            token("0d", "token script 0c (0c)"),
            token("0e", "user eve"),
            token("0f", "node 1"),
            token("10", "user oidc:carl (7)"),
            token("11", "token script 0a (0a)"),
        ];
        let told = ending(&tokens, &users, 2000);
        let subjects: Vec<_> = told.iter().map(|it| &*it.subject).collect();
        assert_eq!(
            subjects,
            [
                "token script 0b (0b)",
                "token script 0c (0c)",
                "token script 0d (0d)",
                "token script 0e (0e)",
            ]
        );
        assert!(told[1].what.contains("(user carl) is gone"), "{told:?}");
        // What has expired ends with no version.
        assert_eq!(ending(&tokens, &users, 9000), []);
    }

    /// With this version the node would not start, which is known no sooner than then.
    #[test]
    fn an_etcd_elsewhere_that_may_have_no_tls_is_told_of() {
        let member = |endpoint: &str, tls| LocalMember {
            endpoint: endpoint.to_owned(),
            state: MemberState::Answers,
            member: None,
            tls,
        };
        let report = |endpoints: &[&str], tls| LocalReport {
            name: "n1".to_owned(),
            metadata_members: endpoints.iter().map(|it| member(it, tls)).collect(),
            vitals: Some(Vitals {
                certificate_expires_ms: Some(1),
                ..Vitals::default()
            }),
            ..LocalReport::default()
        };
        let elsewhere = ["192.0.2.11:2379", "[2001:db8::7]:2379", "127.0.0.1:2379"];
        let told = may_be_plain(&report(&elsewhere, None)).unwrap();
        let begin = "n1 asks it at 192.0.2.11:2379, [2001:db8::7]:2379, and";
        assert!(told.what.starts_with(begin), "{told:?}");
        // It is on the node's machine.
        let here = ["127.0.0.1:2379", "[::1]:2379", "localhost:2379"];
        assert_eq!(may_be_plain(&report(&here, None)), None);
        // It says how, so it is of a version that has asked for the word already.
        for tls in [Some(true), Some(false)] {
            assert_eq!(may_be_plain(&report(&elsewhere, tls)), None);
        }
        // Nothing has TLS there, and its file says so.
        let off = LocalReport {
            vitals: None,
            ..report(&elsewhere, None)
        };
        assert_eq!(may_be_plain(&off), None);
    }

    #[test]
    fn versions_go_together_with_the_one_before() {
        let program = versions_of("0.3.1", 9, 5);
        for fits in ["0.2.0", "0.2.9", "0.3.0", "0.3.1", "0.3.4"] {
            let runs = versions_of(fits, 8, 4);
            assert_eq!(skew(&runs, &program), None, "{fits}");
        }
        for (program_of_node, protocol, format, says) in [
            ("0.1.9", 9, 5, "upgrade through each"),
            ("0.4.0", 9, 5, "newer than this program"),
            ("0.3.1", 10, 6, "no way back"),
            ("0.2.0", 2, 5, "do not understand"),
            ("main", 9, 5, "no release"),
        ] {
            let runs = versions_of(program_of_node, protocol, format);
            let why = skew(&runs, &program).unwrap();
            assert!(why.contains(says), "{why}");
        }
        let (last, first) = (versions_of("1.9.2", 9, 5), versions_of("2.0.0", 9, 5));
        assert_eq!(skew(&last, &first), None);
        assert!(skew(&last, &versions_of("2.1.0", 9, 5)).is_some());
    }
}
