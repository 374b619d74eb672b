//! Who may use which target, and which of its units; and where hosts go while a node is in
//! maintenance.

use crate::common::{Answers, TARGET, WHO, World, directory, login, name, test_unit_ready};
use holdfast_iscsi::initiator::{CommandTag, EndReason, InitiatorConfig, InitiatorEvent};
use holdfast_iscsi::initiator::{Initiator, SessionKind};
use holdfast_iscsi::pdu::LoginStage::{FullFeature, OperationalNegotiation};
use holdfast_iscsi::pdu::{LoginStatus, Reply, Request, TaskManagementCode};
use holdfast_iscsi::target::{CloseReason, InitiatorEntry, TargetDirectory, UnitAccess};
use holdfast_iscsi::{ChapAccount, ChapSecret, Isid, PortalGroupTag};
use holdfast_scsi::Lun;
use holdfast_stdx::Duration;

const A: &str = "iqn.2026-11.example.host:a";
const B: &str = "iqn.2026-11.example.host:b";
const OTHER: &str = "iqn.2026-11.example.holdfast:other";

fn listed(hosts: &[&str]) -> UnitAccess {
    UnitAccess::Listed(hosts.iter().map(|host| name(host)).collect())
}

/// The first target's unit 0 is for A and B, its unit 1 for A; the other target is for B.
fn masked() -> TargetDirectory {
    let mut directory = directory();
    let entry = directory.targets.get_mut(&name(TARGET)).unwrap();
    entry.units = [(0, listed(&[A, B])), (1, listed(&[A]))].into();
    let entry = directory.targets.get_mut(&name(OTHER)).unwrap();
    entry.units = [(0, listed(&[B]))].into();
    directory
}

fn config(host: &str, target: &str) -> InitiatorConfig {
    let kind = SessionKind::Normal(name(target));
    InitiatorConfig::new(name(host), Isid([0x80, 0, 0, 0, 0, 9]), kind)
}

#[test]
fn others_are_refused() {
    let mut world = World::new(1);
    world.set_directory(masked());
    for (host, target, expected) in [
        (A, TARGET, None),
        (B, TARGET, None),
        (B, OTHER, None),
        (A, OTHER, Some(LoginStatus::AuthorizationFailure)),
        (
            "iqn.2026-11.example.host:c",
            TARGET,
            Some(LoginStatus::AuthorizationFailure),
        ),
    ] {
        let host = world.connect(config(host, target));
        world.run();
        let ended = world.hosts[host].ended;
        assert_eq!(ended, expected.map(EndReason::LoginRefused));
    }
}

#[test]
fn an_initiator_is_told_of_what_it_may_use() {
    let mut world = World::new(1);
    world.set_directory(masked());
    for (host, what, expected) in [
        (A, "All", &[TARGET][..]),
        (B, "All", &[TARGET, OTHER]),
        (A, OTHER, &[]),
        (B, OTHER, &[OTHER]),
        ("iqn.2026-11.example.host:c", "All", &[]),
        ("iqn.2026-11.example.host:c", TARGET, &[]),
    ] {
        let mut config = config(host, TARGET);
        config.kind = SessionKind::Discovery;
        let host = world.log_in(config);
        world
            .with_host(host, |initiator, _, out| initiator.discover(what, out))
            .unwrap();
        world.run();
        let told = world.hosts[host]
            .events
            .iter()
            .find_map(|event| match event {
                InitiatorEvent::Targets(targets) => Some(targets),
                _ => None,
            });
        let names: Vec<&str> = told.unwrap().iter().map(|it| it.name.as_str()).collect();
        assert_eq!(names, expected, "{what}");
    }
}

#[test]
fn a_unit_that_an_initiator_does_not_see_does_not_exist() {
    let mut world = World::new(1);
    world.set_directory(masked());
    let hosts = [A, B].map(|host| world.log_in(config(host, TARGET)));
    let sessions: Vec<_> = world
        .sessions
        .iter()
        .map(|(id, it)| (*id, it.clone()))
        .collect();
    for (session, nexus) in sessions {
        let expected: &[u16] = if nexus.initiator == name(A) {
            &[0, 1]
        } else {
            &[0]
        };
        let seen: Vec<u16> = world.target.units_of(session).into_iter().collect();
        assert_eq!(seen, expected);
    }
    for (host, expected) in hosts.into_iter().zip([[0, 0, 2, 0], [0, 2, 2, 6]]) {
        let managed = [
            (TaskManagementCode::AbortTaskSet, 0),
            (TaskManagementCode::LogicalUnitReset, 1),
            (TaskManagementCode::ClearTaskSet, 2),
            (TaskManagementCode::TargetWarmReset, 0),
        ];
        for ((function, unit), code) in managed.into_iter().zip(expected) {
            let tag = CommandTag(u64::from(unit) + 100);
            world
                .with_host(host, |initiator, _, out| {
                    initiator.manage(tag, function, Lun::from_number(unit), out)
                })
                .unwrap();
            world.run();
            let response = code;
            let done = InitiatorEvent::TaskManagementDone { tag, response };
            assert_eq!(world.hosts[host].events.pop(), Some(done), "{function:?}");
        }
    }
    // A cold reset would end the sessions of hosts that see what this one does not.
    let tag = CommandTag(200);
    world
        .with_host(hosts[1], |initiator, _, out| {
            let function = TaskManagementCode::TargetColdReset;
            initiator.manage(tag, function, Lun::from_number(0), out)
        })
        .unwrap();
    world.run();
    assert!(world.hosts.iter().all(|host| host.ended.is_none()));
}

/// As it could in a session of its own: what is not for it, and what it would have to prove itself for, it cannot use.
#[test]
fn units_of_other_targets_are_for_whom_they_list() {
    let mut world = World::new(1);
    let mut directory = masked();
    let entry = directory.targets.get_mut(&name(TARGET)).unwrap();
    entry.units.insert(2, UnitAccess::Everybody);
    let secret = ChapSecret::new(b"a secret of some length").unwrap();
    let account = ChapAccount {
        name: "b".into(),
        secret,
    };
    world.set_directory(directory.clone());
    for host in [A, B] {
        world.log_in(config(host, TARGET));
    }
    let uses = |world: &World, host: &str, target: &str, unit: u16| {
        let mut sessions = world.sessions.iter();
        let (session, _) = sessions
            .find(|(_, nexus)| nexus.initiator == name(host))
            .unwrap();
        world.target.may_use(*session, &name(target), unit)
    };
    for (host, target, unit, expected) in [
        (A, TARGET, 0, true),
        (A, TARGET, 1, true),
        (A, TARGET, 3, false),
        (A, OTHER, 0, false),
        (B, TARGET, 1, false),
        (B, OTHER, 0, true),
        (B, "iqn.2026-11.example.holdfast:none", 0, false),
    ] {
        let may = uses(&world, host, target, unit);
        assert_eq!(may, expected, "{host} {target} {unit}");
    }
    // It is B by name only, which is enough for what everybody may use.
    let entry = directory.targets.get_mut(&name(TARGET)).unwrap();
    entry.units = [(0, UnitAccess::Everybody)].into();
    let entry = InitiatorEntry {
        account: Some(account),
        mutual: None,
    };
    directory.initiators.insert(name(B), entry);
    world.set_directory(directory);
    assert!(uses(&world, B, TARGET, 0));
    assert!(!uses(&world, B, OTHER, 0));
}

#[test]
fn access_that_is_withdrawn_ends_the_session_and_says_so() {
    let mut world = World::new(1);
    world.set_directory(masked());
    world.answers = Answers::Held;
    let [a, b] = [A, B].map(|host| world.log_in(config(host, TARGET)));
    world.submit(b, test_unit_ready());
    world.run();
    let mut without = masked();
    let entry = without.targets.get_mut(&name(TARGET)).unwrap();
    entry.units = [(0, listed(&[A]))].into();
    world.set_directory(without);
    world.run();
    let closed = world.close_reason(world.hosts[b].connection);
    assert_eq!(closed, Some(CloseReason::AccessWithdrawn));
    let told = InitiatorEvent::Async {
        event: 3,
        seconds: 0,
    };
    assert_eq!(world.hosts[b].events.last(), Some(&told));
    assert!(world.hosts[b].ended.is_some());
    // The other host has lost a unit, and has its session.
    assert!(world.hosts[a].ended.is_none());
    let session = *world.sessions.keys().next().unwrap();
    assert_eq!(world.target.units_of(session), [0].into());
    let again = world.connect(config(B, TARGET));
    world.run();
    let refused = EndReason::LoginRefused(LoginStatus::AuthorizationFailure);
    assert_eq!(world.hosts[again].ended, Some(refused));
}

fn maintain(world: &mut World, seconds: Option<u16>) {
    world.with_target(|target, now, out| target.set_maintenance(now, seconds, out));
    world.run();
}

const ASKED: InitiatorEvent = InitiatorEvent::Async {
    event: 1,
    seconds: 30,
};

#[test]
fn a_node_in_maintenance_sends_its_hosts_elsewhere() {
    let mut world = World::new(1);
    let hosts: Vec<usize> = (1..=2)
        .map(|host| world.log_in(world.config(host)))
        .collect();
    maintain(&mut world, Some(30));
    for host in &hosts {
        assert_eq!(world.hosts[*host].events.last(), Some(&ASKED));
    }
    // It says so once.
    maintain(&mut world, Some(30));
    world.set_directory(directory());
    world.run();
    assert_eq!(
        world.hosts[hosts[0]]
            .events
            .iter()
            .filter(|it| **it == ASKED)
            .count(),
        1
    );
    // One goes, and is sent elsewhere when it comes again; the other does not listen.
    world.with_host(hosts[0], Initiator::log_out);
    world.run();
    assert_eq!(world.hosts[hosts[0]].ended, Some(EndReason::LoggedOut));
    let again = world.connect(world.config(1));
    world.run();
    let moved = EndReason::LoginRefused(LoginStatus::TargetMovedTemporarily);
    assert_eq!(world.hosts[again].ended, Some(moved));
    let address = "[::1]:3261".to_owned();
    let told = InitiatorEvent::Redirected { address };
    assert_eq!(world.hosts[again].events.last(), Some(&told));
    world.pass(Duration::from_secs(29));
    assert_eq!(world.hosts[hosts[1]].ended, None);
    world.pass(Duration::from_secs(1));
    let closed = world.close_reason(world.hosts[hosts[1]].connection);
    assert_eq!(closed, Some(CloseReason::LogoutTimeout));
    let told = InitiatorEvent::Async {
        event: 3,
        seconds: 0,
    };
    assert_eq!(world.hosts[hosts[1]].events.last(), Some(&told));
    assert!(world.hosts[hosts[1]].ended.is_some());
    // Afterwards it takes them again.
    maintain(&mut world, None);
    world.log_in(world.config(1));
}

#[test]
fn an_address_that_is_told_at_a_redirection_has_no_portal_group() {
    let mut world = World::new(1);
    maintain(&mut world, Some(5));
    let connection = world.connect_raw();
    let request = login(OperationalNegotiation, Some(FullFeature));
    world.send(connection, &Request::Login(request), WHO.as_bytes());
    let (Reply::Login(response), text) = world.reply(connection) else {
        panic!("it is answered");
    };
    assert_eq!(response.status, LoginStatus::TargetMovedTemporarily);
    assert_eq!(text, b"TargetAddress=[::1]:3261\0");
    // Discovery is served where it comes to.
    let mut config = world.config(1);
    config.kind = SessionKind::Discovery;
    world.log_in(config);
}

#[test]
fn who_can_go_nowhere_else_stays() {
    let mut world = World::new(1);
    let host = world.log_in(world.config(1));
    let mut alone = directory();
    alone.away = [PortalGroupTag(2)].into();
    world.set_directory(alone);
    maintain(&mut world, Some(30));
    world.pass(Duration::from_secs(60));
    assert_eq!(world.hosts[host].ended, None);
    assert!(!world.hosts[host].events.contains(&ASKED));
    let other = world.log_in(world.config(2));
    // The other node comes back: now there is a place.
    world.set_directory(directory());
    world.run();
    for host in [host, other] {
        assert_eq!(world.hosts[host].events.last(), Some(&ASKED));
    }
}

#[test]
fn maintenance_that_ends_before_its_time_lets_hosts_stay() {
    let mut world = World::new(1);
    let host = world.log_in(world.config(1));
    maintain(&mut world, Some(30));
    world.pass(Duration::from_secs(20));
    maintain(&mut world, None);
    world.pass(Duration::from_secs(60));
    assert_eq!(world.hosts[host].ended, None);
    // Those who were asked for another reason are not among them.
    let session = *world.sessions.keys().next().unwrap();
    world.with_target(|target, now, out| target.request_logout(now, session, 10, out));
    maintain(&mut world, Some(30));
    maintain(&mut world, None);
    world.pass(Duration::from_secs(11));
    let closed = world.close_reason(world.hosts[host].connection);
    assert_eq!(closed, Some(CloseReason::LogoutTimeout));
}
