//! Sessions as hosts have them, both machines back to back.

use crate::common;
use crate::common::{
    Answers, BLOCK, TARGET, World, cdb_10, lun, name, read_10, test_unit_ready, write_10,
};
use holdfast_iscsi::initiator::{
    CommandRequest, CommandTag, EndReason, InitiatorEvent, SessionKind,
};
use holdfast_iscsi::negotiation::{Digest, Preferences};
use holdfast_iscsi::pdu::{LoginStatus, Residual, TaskManagementCode};
use holdfast_iscsi::target::{CloseReason, EndedTasks, Limits, TaskManagementFunction};
use holdfast_iscsi::{PortalGroupTag, SerialNumber};
use holdfast_scsi::{Lun, TaskAttribute};
use holdfast_stdx::{Bytes, Duration, Prng};

fn data(prng: &mut Prng, blocks: usize) -> Bytes {
    let mut data = vec![0; blocks * BLOCK];
    prng.fill(&mut data);
    Bytes::from(data)
}

/// Preferences that lead to all ways that data can go.
fn random_preferences(prng: &mut Prng) -> Preferences {
    const ONE: &[Digest] = &[Digest::Crc32c];
    Preferences {
        header_digests: prng.choose::<&[Digest]>(&[Preferences::DIGESTS, ONE]),
        data_digests: prng.choose::<&[Digest]>(&[Preferences::DIGESTS, ONE]),
        initial_r2t: prng.chance(1, 2),
        immediate_data: prng.chance(1, 2),
        receive_segment_max: *prng.choose(&[512, 1000, 8192, 1 << 20]),
        burst_max: *prng.choose(&[512, 4096, 5000, 1 << 20]),
        first_burst_max: *prng.choose(&[512, 3000, 65_536]),
        ready_to_transfer_max: *prng.choose(&[1, 3, 100]),
    }
}

#[test]
fn whatever_is_negotiated_data_arrives_whole() {
    for seed in 0..60 {
        let mut world = World::new(seed);
        world.answers = Answers::Shuffled;
        let mut prng = Prng::from_seed(seed);
        let mut hosts = Vec::new();
        for host in 0..3 {
            let mut config = world.config(host);
            config.preferences = random_preferences(&mut prng);
            config.first_command = SerialNumber(u32::MAX - prng.below(4) as u32);
            hosts.push(world.log_in(config));
        }
        let mut written = Vec::new();
        for _ in 0..30 {
            let host = *prng.choose(&hosts);
            let blocks = 1 + prng.below(80) as usize;
            let bytes = data(&mut prng, blocks);
            let block = written.len() as u32 * 100;
            let cut = prng.below(bytes.len() as u64) as usize;
            let parts = vec![bytes.slice(..cut), bytes.slice(cut..)];
            let tag = world.submit(host, write_10(block, blocks as u16, parts));
            written.push((host, tag, block, bytes));
        }
        world.run();
        for (host, tag, block, bytes) in written {
            let completion = &world.hosts[host].completions[&tag];
            assert_eq!(
                (completion.status, completion.residual),
                (0, Residual::None)
            );
            let other = *prng.choose(&hosts);
            let read = world.complete(other, read_10(block, (bytes.len() / BLOCK) as u16));
            assert_eq!(
                (read.status, read.residual),
                (0, Residual::None),
                "seed {seed}"
            );
            assert_eq!(read.data_in.concat(), bytes, "seed {seed}");
        }
        for host in hosts {
            world.with_host(host, holdfast_iscsi::initiator::Initiator::log_out);
            world.run();
            assert_eq!(world.hosts[host].ended, Some(EndReason::LoggedOut));
        }
        assert_eq!(world.target.held_bytes(), 0, "nothing is left behind");
    }
}

#[test]
fn more_commands_than_the_window_has_complete_all() {
    let limits = Limits {
        window: 8,
        ..Limits::default()
    };
    let mut world = World::with_limits(1, limits);
    world.answers = Answers::Shuffled;
    let config = world.config(0);
    let host = world.log_in(config);
    let mut prng = Prng::from_seed(1);
    for index in 0..200 {
        let request = match index % 3 {
            0 => test_unit_ready(),
            1 => read_10(index, 9),
            _ => write_10(index, 300, vec![data(&mut prng, 300)]),
        };
        world.submit(host, request);
    }
    world.run();
    assert_eq!(world.hosts[host].completions.len(), 200);
    assert!(
        world.hosts[host]
            .completions
            .values()
            .all(|it| it.status == 0)
    );
}

#[test]
fn a_session_never_has_more_than_its_window() {
    let limits = Limits {
        window: 8,
        ..Limits::default()
    };
    let mut world = World::with_limits(1, limits);
    world.answers = Answers::Held;
    let config = world.config(0);
    let host = world.log_in(config);
    for _ in 0..50 {
        world.submit(host, test_unit_ready());
    }
    world.run();
    assert_eq!(world.held.len(), 8);
    let first = world.held.remove(0);
    world.answer(&first);
    world.run();
    assert_eq!(world.held.len(), 8, "an answer lets one more in");
}

#[test]
fn residuals_tell_what_was_not_moved() {
    let mut world = World::new(2);
    let config = world.config(0);
    let host = world.log_in(config);
    // What libiscsi's residual tests ask for: a READ and a WRITE of one block, expected to be 0, 200
    // or 10,000 bytes, and one of two blocks, expected to be one.
    for (blocks, expected, residual) in [
        (1, 0, Residual::Overflow(512)),
        (1, 200, Residual::Overflow(312)),
        (1, 10_000, Residual::Underflow(9488)),
        (2, 512, Residual::Overflow(512)),
    ] {
        let read = CommandRequest::new(lun(), &cdb_10(0x28, 0, blocks)).reading(expected);
        let completion = world.complete(host, read);
        assert_eq!((completion.status, completion.residual), (0, residual));
        let moved = expected.min(u32::from(blocks) * 512) as usize;
        assert_eq!(completion.data_in.concat().len(), moved);

        world.disk[..1024].fill(b'a');
        let bytes = Bytes::from(vec![b'b'; expected as usize]);
        let write = CommandRequest::new(lun(), &cdb_10(0x2A, 0, blocks)).writing(vec![bytes]);
        let completion = world.complete(host, write);
        assert_eq!((completion.status, completion.residual), (0, residual));
        // "Only the lesser of the two is written."
        let changed = world.disk[..1024]
            .iter()
            .filter(|byte| **byte == b'b')
            .count();
        assert_eq!(changed, moved / BLOCK * BLOCK);
    }
    // A READ that the initiator says is a write: no Data-In, and no harm.
    let bytes = Bytes::from(vec![0; 512]);
    let wrong = CommandRequest::new(lun(), &cdb_10(0x28, 0, 1)).writing(vec![bytes]);
    let completion = world.complete(host, wrong);
    assert_eq!(completion.status, 0);
    assert!(completion.data_in.is_empty());
}

#[test]
fn sense_data_comes_with_its_status() {
    let mut world = World::new(3);
    let config = world.config(0);
    let host = world.log_in(config);
    let completion = world.complete(host, read_10(u32::MAX, 1));
    assert_eq!(completion.status, 2);
    assert_eq!(completion.sense[2], 5, "ILLEGAL REQUEST");
    assert_eq!(completion.sense[12..14], [0x21, 0x00]);
    assert_eq!(completion.residual, Residual::Underflow(512));
}

#[test]
fn ordered_commands_are_given_up_in_order() {
    let mut world = World::new(4);
    world.answers = Answers::Held;
    let mut config = world.config(0);
    config.preferences.immediate_data = false;
    config.preferences.initial_r2t = true;
    let host = world.log_in(config);
    let block = Bytes::from(vec![1; 512]);
    let ordered = CommandRequest {
        attribute: TaskAttribute::Ordered,
        ..write_10(0, 1, vec![block.clone()])
    };
    let head = CommandRequest {
        attribute: TaskAttribute::HeadOfQueue,
        ..test_unit_ready()
    };
    for request in [
        write_10(1, 1, vec![block]),
        ordered,
        test_unit_ready(),
        head,
    ] {
        world.submit(host, request);
    }
    world.run();
    let codes: Vec<u8> = world.held.iter().map(|command| command.cdb[0]).collect();
    let attributes: Vec<TaskAttribute> = world.held.iter().map(|it| it.attribute).collect();
    assert_eq!(codes.len(), 4);
    // Without data it would be first by arrival; it is not, for an ORDERED one is before it.
    assert_eq!(attributes[0], TaskAttribute::HeadOfQueue);
    assert_eq!(codes[1..], [0x2A, 0x2A, 0x00]);
    assert_eq!(attributes[2], TaskAttribute::Ordered);
}

#[test]
fn discovery_tells_of_every_portal() {
    let mut world = World::new(5);
    let mut config = world.config(0);
    config.kind = SessionKind::Discovery;
    // Small pieces: the answer takes several PDUs.
    config.preferences.receive_segment_max = 512;
    let host = world.log_in(config);
    assert!(
        world.sessions.is_empty(),
        "the layer above does not hear of discovery"
    );
    let mut ask = |what: &str| {
        world
            .with_host(host, |initiator, _, out| initiator.discover(what, out))
            .unwrap();
        world.run();
        let Some(InitiatorEvent::Targets(targets)) = world.hosts[host].events.pop() else {
            panic!("the answer comes");
        };
        targets
    };
    let all = ask("All");
    assert_eq!(all.len(), 2);
    for target in &all {
        let addresses: Vec<&str> = target.addresses.iter().map(|it| it.0.as_str()).collect();
        assert_eq!(addresses, ["127.0.0.1:3260", "[::1]:3261"]);
        assert_eq!(target.addresses[1].1, PortalGroupTag(2));
    }
    let one = ask(TARGET);
    assert_eq!(one.len(), 1);
    assert_eq!(one[0].name, TARGET);
    assert!(ask("iqn.2026-11.example:none").is_empty());
    assert!(ask("").is_empty(), "discovery has no target of its own");
    // Commands have no place here.
    let tag = CommandTag(1);
    world
        .with_host(host, |initiator, _, out| {
            initiator.submit(tag, test_unit_ready(), out)
        })
        .unwrap();
    world.run();
    assert_eq!(
        world.hosts[host].events.pop(),
        Some(InitiatorEvent::Rejected { reason: 5 })
    );
}

#[test]
fn a_discovery_with_many_targets_comes_in_pieces() {
    let mut world = World::new(5);
    let mut directory = common::directory();
    let entry = directory.targets[&name(TARGET)].clone();
    for index in 0..1000 {
        let target = name(&format!("iqn.2026-11.example.holdfast:volume-{index}"));
        directory.targets.insert(target, entry.clone());
    }
    world.with_target(|target, now, out| target.set_directory(now, directory, out));
    let mut config = world.config(0);
    config.kind = SessionKind::Discovery;
    let host = world.log_in(config);
    world
        .with_host(host, |initiator, _, out| initiator.discover("All", out))
        .unwrap();
    world.run();
    let Some(InitiatorEvent::Targets(targets)) = world.hosts[host].events.pop() else {
        panic!("the answer comes");
    };
    assert_eq!(targets.len(), 1002);
}

#[test]
fn a_normal_session_tells_of_its_own_target_only() {
    let mut world = World::new(6);
    let config = world.config(0);
    let host = world.log_in(config);
    for (what, count) in [
        ("", 1),
        (TARGET, 1),
        ("iqn.2026-11.example.holdfast:other", 0),
        ("All", 0),
    ] {
        world
            .with_host(host, |initiator, _, out| initiator.discover(what, out))
            .unwrap();
        world.run();
        let Some(InitiatorEvent::Targets(targets)) = world.hosts[host].events.pop() else {
            panic!("the answer comes");
        };
        assert_eq!(targets.len(), count, "{what:?}");
    }
}

#[test]
fn an_aborted_command_is_never_answered() {
    let mut world = World::new(7);
    world.answers = Answers::Held;
    let config = world.config(0);
    let host = world.log_in(config);
    let tag = world.submit(host, read_10(0, 8));
    world.run();
    let command = world.held[0].clone();
    world
        .with_host(host, |initiator, _, out| initiator.abort(tag, out))
        .unwrap();
    world.run();
    let request = world.management.pop().unwrap();
    assert_eq!(
        request.function,
        TaskManagementFunction::AbortTask(command.task)
    );
    assert_eq!(request.tasks, [command.task]);
    assert!(
        world.hosts[host]
            .events
            .iter()
            .all(|it| !matches!(it, InitiatorEvent::TaskManagementDone { .. })),
        "not answered before the layer above says so"
    );
    world.answer(&command);
    world.finish_management(&request);
    world.run();
    let done = InitiatorEvent::TaskManagementDone { tag, response: 0 };
    assert!(world.hosts[host].events.contains(&done));
    assert!(world.hosts[host].completions.is_empty());
    assert_eq!(world.hosts[host].ended, None);
    // The window has its place again.
    world.answers = Answers::AtOnce;
    assert_eq!(world.complete(host, test_unit_ready()).status, 0);
}

#[test]
fn an_abort_that_comes_too_late_says_so() {
    let mut world = World::new(8);
    let config = world.config(0);
    let host = world.log_in(config);
    let tag = world.submit(host, test_unit_ready());
    world
        .with_host(host, |initiator, _, out| initiator.abort(tag, out))
        .unwrap();
    world.run();
    // TEST UNIT READY was answered before the abort arrived: "task does not exist".
    assert!(world.hosts[host].completions.contains_key(&tag));
    let done = InitiatorEvent::TaskManagementDone { tag, response: 1 };
    assert!(world.hosts[host].events.contains(&done));
}

#[test]
fn a_command_that_waits_for_its_data_is_aborted_without_the_layer_above() {
    let mut world = World::new(9);
    let mut config = world.config(0);
    config.preferences.immediate_data = false;
    config.preferences.initial_r2t = true;
    let host = world.log_in(config);
    let tag = world.submit(host, write_10(0, 1, vec![Bytes::from(vec![1; 512])]));
    // The command arrives, its R2T does not.
    while let Some(chunk) = world.hosts[host].to_target.pop_front() {
        let connection = world.hosts[host].connection;
        world.with_target(|target, now, out| {
            target.handle_received(now, connection, (now, chunk), out);
        });
    }
    world
        .with_host(host, |initiator, _, out| initiator.abort(tag, out))
        .unwrap();
    world.run();
    let done = InitiatorEvent::TaskManagementDone { tag, response: 0 };
    assert!(world.hosts[host].events.contains(&done));
    assert_eq!(world.delivered, 0);
    assert_eq!(world.disk[0], 0);
    assert_eq!(world.hosts[host].ended, None);
}

#[test]
fn a_reset_ends_the_commands_of_all_sessions_on_the_unit() {
    let mut world = World::new(10);
    world.answers = Answers::Held;
    let (one, two) = (world.config(1), world.config(2));
    let (one, two) = (world.log_in(one), world.log_in(two));
    world.submit(one, test_unit_ready());
    world.submit(two, test_unit_ready());
    world.run();
    let mut expected: Vec<_> = world.held.iter().map(|it| it.task).collect();
    let tag = CommandTag(99);
    let code = TaskManagementCode::LogicalUnitReset;
    world
        .with_host(one, |initiator, _, out| {
            initiator.manage(tag, code, lun(), out)
        })
        .unwrap();
    world.run();
    let mut request = world.management.pop().unwrap();
    assert_eq!(
        request.function,
        TaskManagementFunction::LogicalUnitReset(lun())
    );
    request.tasks.sort();
    expected.sort();
    assert_eq!(request.tasks, expected);
    world.finish_management(&request);
    world.run();
    assert!(
        world.hosts[one]
            .events
            .contains(&InitiatorEvent::TaskManagementDone { tag, response: 0 })
    );
    assert!(world.hosts[one].completions.is_empty());
    assert!(world.hosts[two].completions.is_empty());
    world.answers = Answers::AtOnce;
    assert_eq!(world.complete(two, test_unit_ready()).status, 0);
}

/// The other initiator hears nothing of the reset's ending its command (there is no TASK ABORTED status
/// here); it finds out when it aborts it.
#[test]
fn a_command_that_another_session_reset_is_over_when_its_abort_finds_nothing() {
    let mut world = World::new(12);
    world.answers = Answers::Held;
    let (one, two) = (world.config(1), world.config(2));
    let (one, two) = (world.log_in(one), world.log_in(two));
    let ended = world.submit(two, test_unit_ready());
    world.run();
    let code = TaskManagementCode::LogicalUnitReset;
    world
        .with_host(one, |initiator, _, out| {
            initiator.manage(CommandTag(99), code, lun(), out)
        })
        .unwrap();
    world.answers = Answers::AtOnce;
    // Sent behind the reset: it does not end with it.
    let kept = world.submit(one, test_unit_ready());
    world.run();
    assert_eq!(world.hosts[one].completions[&kept].status, 0);
    world.answers = Answers::Held;
    world
        .with_host(two, |initiator, _, out| initiator.abort(ended, out))
        .unwrap();
    world.run();
    let is_done =
        |event: &InitiatorEvent| matches!(event, InitiatorEvent::TaskManagementDone { .. });
    assert!(
        !world.hosts[two].events.iter().any(is_done),
        "it is only ended, and not over before the layer above says so"
    );
    let request = world.management.pop().unwrap();
    assert_eq!(request.function, TaskManagementFunction::AbortUnknownTask);
    world.finish_management(&request);
    world.run();
    let done = InitiatorEvent::TaskManagementDone {
        tag: ended,
        response: 1,
    };
    assert!(world.hosts[two].events.contains(&done));
    world.with_host(two, |initiator, _, _| {
        assert_eq!(initiator.outstanding(), 0);
    });
}

#[test]
fn task_management_that_cannot_be() {
    let mut world = World::new(11);
    let config = world.config(0);
    let host = world.log_in(config);
    let no_unit = Lun::from_number(7);
    for (code, unit, response) in [
        (TaskManagementCode::LogicalUnitReset, no_unit, 2),
        (TaskManagementCode::AbortTaskSet, no_unit, 2),
        (TaskManagementCode::ClearAca, lun(), 5),
        (TaskManagementCode::TaskReassign, lun(), 4),
        (TaskManagementCode::AbortTask, lun(), 1),
        (TaskManagementCode::AbortTaskSet, lun(), 0),
        (TaskManagementCode::ClearTaskSet, lun(), 0),
        (TaskManagementCode::TargetWarmReset, lun(), 0),
    ] {
        let tag = CommandTag(1);
        world
            .with_host(host, |initiator, _, out| {
                initiator.manage(tag, code, unit, out)
            })
            .unwrap();
        world.run();
        let event = world.hosts[host].events.pop();
        assert_eq!(
            event,
            Some(InitiatorEvent::TaskManagementDone { tag, response }),
            "{code:?}"
        );
    }
}

#[test]
fn a_cold_reset_closes_every_session_of_the_target() {
    let mut world = World::new(12);
    let (one, two) = (world.config(1), world.config(2));
    let (one, two) = (world.log_in(one), world.log_in(two));
    let mut other = world.config(3);
    other.kind = SessionKind::Normal(name("iqn.2026-11.example.holdfast:other"));
    let other = world.log_in(other);
    let code = TaskManagementCode::TargetColdReset;
    let tag = CommandTag(1);
    world
        .with_host(one, |initiator, _, out| {
            initiator.manage(tag, code, lun(), out)
        })
        .unwrap();
    world.run();
    assert!(
        world.hosts[one]
            .events
            .contains(&InitiatorEvent::TaskManagementDone { tag, response: 0 })
    );
    assert_eq!(world.hosts[one].ended, Some(EndReason::Closed));
    assert_eq!(world.hosts[two].ended, Some(EndReason::Closed));
    assert_eq!(world.hosts[other].ended, None);
}

#[test]
fn a_logout_waits_for_the_commands_of_its_session() {
    let mut world = World::new(13);
    world.answers = Answers::Held;
    world.confirms_closings = false;
    let config = world.config(0);
    let host = world.log_in(config);
    for _ in 0..4 {
        world.submit(host, test_unit_ready());
    }
    world.run();
    world.with_host(host, holdfast_iscsi::initiator::Initiator::log_out);
    world.run();
    let [(session, CloseReason::Logout)] = world.closings[..] else {
        panic!("the layer above is told");
    };
    assert_eq!(world.hosts[host].ended, None, "the goodbye waits");
    world.finish_session(session);
    world.run();
    assert_eq!(world.hosts[host].ended, Some(EndReason::LoggedOut));
    assert!(world.hosts[host].completions.is_empty());
}

#[test]
fn a_second_login_on_a_nexus_reinstates_its_session() {
    let mut world = World::new(14);
    world.answers = Answers::Held;
    world.confirms_closings = false;
    let config = world.config(1);
    let old = world.log_in(config.clone());
    world.submit(old, test_unit_ready());
    world.run();
    let stale = world.held[0].clone();
    let new = world.connect(config);
    world.run();
    let [(session, CloseReason::Reinstated)] = world.closings[..] else {
        panic!("the old session ends");
    };
    assert_eq!(world.hosts[old].ended, Some(EndReason::Closed));
    assert!(
        !world.hosts[new].initiator.is_logged_in(),
        "not before the old one's commands are over"
    );
    world.answer(&stale);
    world.finish_session(session);
    world.run();
    assert!(world.hosts[new].initiator.is_logged_in());
    assert!(world.hosts[new].completions.is_empty());
    assert_eq!(world.target.sessions().count(), 1);
}

#[test]
fn a_login_that_waits_in_vain_is_given_up() {
    let mut world = World::new(15);
    world.confirms_closings = false;
    let config = world.config(1);
    let old = world.log_in(config.clone());
    let first = world.connect(config.clone());
    world.run();
    // A third takes the place of the second in the line.
    let second = world.connect(config);
    world.run();
    let refused = EndReason::LoginRefused(LoginStatus::InitiatorError);
    assert_eq!(world.hosts[first].ended, Some(refused));
    assert_eq!(world.hosts[old].ended, Some(EndReason::Closed));
    world.pass(Duration::from_secs(20));
    assert!(world.hosts[second].initiator.has_ended());
    let (session, _) = world.closings[0];
    world.finish_session(session);
    assert_eq!(world.target.sessions().count(), 0);
}

#[test]
fn several_sessions_of_one_initiator_live_side_by_side() {
    let mut world = World::new(16);
    for host in 0..16 {
        let config = world.config(host);
        world.log_in(config);
    }
    assert_eq!(world.target.sessions().count(), 16);
    assert!(world.hosts.iter().all(|host| host.ended.is_none()));
}

#[test]
fn logins_are_refused_with_their_reason() {
    let mut world = World::with_limits(
        17,
        Limits {
            sessions_max: 1,
            ..Limits::default()
        },
    );
    let mut unknown = world.config(1);
    unknown.kind = SessionKind::Normal(name("iqn.2026-11.example:none"));
    let host = world.connect(unknown);
    world.run();
    let refused = EndReason::LoginRefused(LoginStatus::NotFound);
    assert_eq!(world.hosts[host].ended, Some(refused));
    let config = world.config(2);
    world.log_in(config.clone());
    let other = world.config(3);
    let host = world.connect(other);
    world.run();
    let refused = EndReason::LoginRefused(LoginStatus::OutOfResources);
    assert_eq!(world.hosts[host].ended, Some(refused));
    // The host that has the session may have it anew.
    world.log_in(config);
}

#[test]
fn an_idle_session_is_asked_and_lives_while_it_answers() {
    let mut world = World::new(18);
    let mut config = world.config(0);
    config.ping_after = Duration::from_secs(10_000);
    let host = world.log_in(config);
    world.pass(Duration::from_secs(300));
    assert_eq!(world.hosts[host].ended, None);
    assert_eq!(world.complete(host, test_unit_ready()).status, 0);
    // Its NOP-Outs get lost from now on.
    let connection = world.hosts[host].connection;
    world.hosts[host].is_open = false;
    world.hosts.clear();
    world.pass(Duration::from_secs(40));
    assert_eq!(world.closed, [(connection, CloseReason::PingTimeout)]);
    assert_eq!(world.closings.len(), 1);
}

/// That is known for the time of the question: its answer may have been on its way for long.
#[test]
fn an_initiator_says_that_it_has_its_session() {
    let mut world = World::new(18);
    let mut config = world.config(0);
    config.ping_after = Duration::from_secs(10_000);
    let host = world.log_in(config);
    let session = *world.sessions.keys().next().unwrap();
    assert_eq!(world.target.alive_at(session), None);
    let asked = world.now;
    world.with_target(|target, now, out| target.ask_for_life(now, session, out));
    world.now += Duration::from_secs(2);
    assert_eq!(world.target.alive_at(session), None);
    // It is not asked twice at a time.
    world.with_target(|target, now, out| target.ask_for_life(now, session, out));
    world.run();
    assert_eq!(world.target.alive_at(session), Some(asked));
    assert_eq!(world.complete(host, test_unit_ready()).status, 0);
    assert_eq!(world.target.alive_at(session), Some(asked));
    let again = world.now;
    world.with_target(|target, now, out| target.ask_for_life(now, session, out));
    world.run();
    assert_eq!(world.target.alive_at(session), Some(again));
    world.with_host(host, |initiator, now, out| initiator.log_out(now, out));
    world.run();
    assert_eq!(world.target.alive_at(session), None);
}

#[test]
fn an_initiator_asks_too_and_hears() {
    let mut world = World::new(19);
    let config = world.config(0);
    let host = world.log_in(config);
    world.pass(Duration::from_secs(12));
    assert!(world.hosts[host].events.contains(&InitiatorEvent::Pong));
    assert_eq!(world.hosts[host].ended, None);
}

#[test]
fn a_session_that_is_asked_to_log_out_is_closed_if_it_does_not() {
    let mut world = World::new(20);
    let config = world.config(0);
    let host = world.log_in(config);
    let session = *world.sessions.keys().next().unwrap();
    world.with_target(|target, now, out| target.request_logout(now, session, 3, out));
    world.run();
    assert!(world.hosts[host].events.contains(&InitiatorEvent::Async {
        event: 1,
        seconds: 3
    }));
    world.pass(Duration::from_secs(2));
    assert_eq!(world.hosts[host].ended, None);
    world.pass(Duration::from_secs(2));
    assert_eq!(world.closings, [(session, CloseReason::LogoutTimeout)]);
}

#[test]
fn a_node_that_stood_still_drops_every_session() {
    let mut world = World::new(21);
    world.answers = Answers::Held;
    let config = world.config(0);
    let host = world.log_in(config);
    world.submit(host, test_unit_ready());
    world.run();
    let config = world.config(1);
    let half = world.connect(config);
    world.with_target(holdfast_iscsi::target::Target::drop_all_sessions);
    world.run();
    assert_eq!(world.hosts[host].ended, Some(EndReason::Closed));
    assert_eq!(world.hosts[half].ended, Some(EndReason::Closed));
    assert_eq!(world.closed.len(), 2);
    assert_eq!(world.target.next_timeout(), None);
    assert_eq!(world.target.held_bytes(), 0);
}

#[test]
fn a_target_that_is_taken_away_ends_its_sessions() {
    let mut world = World::new(22);
    let config = world.config(0);
    let host = world.log_in(config);
    let mut directory = common::directory();
    directory.targets.remove(&name(TARGET));
    world.with_target(|target, now, out| target.set_directory(now, directory, out));
    world.run();
    assert_eq!(world.hosts[host].ended, Some(EndReason::Closed));
    assert_eq!(world.closings[0].1, CloseReason::TargetRemoved);
}

#[test]
fn a_host_that_does_not_read_holds_bounded_output_and_starves_nobody() {
    let limits = Limits {
        output_bytes_max: 64 << 10,
        connection_bytes_max: 8 << 20,
        total_bytes_max: 8 << 20,
        ..Limits::default()
    };
    let mut world = World::with_limits(23, limits);
    let (slow, good) = (world.config(1), world.config(2));
    let (slow, good) = (world.log_in(slow), world.log_in(good));
    for _ in 0..100 {
        world.submit(slow, read_10(0, 2048));
    }
    // Its requests arrive; nothing that is sent to it is taken.
    let connection = world.hosts[slow].connection;
    while world.target.wants_input(connection) {
        let Some(chunk) = world.hosts[slow].to_target.pop_front() else {
            break;
        };
        world.with_target(|target, now, out| {
            target.handle_received(now, connection, (now, chunk), out);
        });
    }
    assert!(
        world.delivered <= 8,
        "reads of a MiB each: no more than the room there is"
    );
    assert!(
        world.held_max <= (64 << 10) + (256 << 10) + (8 << 20) + 4096,
        "{}",
        world.held_max
    );
    assert_eq!(world.complete(good, test_unit_ready()).status, 0);
    // It reads again, and gets all of it.
    world.run();
    assert_eq!(world.hosts[slow].completions.len(), 100);
}

#[test]
fn commands_that_are_too_long_are_refused() {
    let limits = Limits {
        data_out_max: 4096,
        ..Limits::default()
    };
    let mut world = World::with_limits(24, limits);
    let config = world.config(0);
    let host = world.log_in(config);
    let completion = world.complete(host, write_10(0, 9, vec![Bytes::from(vec![1; 9 * 512])]));
    assert_eq!(completion.status, 2);
    assert_eq!(completion.sense[12..14], [0x0E, 0x03]);
    assert_eq!(world.delivered, 0);
    let completion = world.complete(host, write_10(0, 8, vec![Bytes::from(vec![1; 8 * 512])]));
    assert_eq!(completion.status, 0);
}

#[test]
fn who_lost_commands_is_named() {
    let mut world = World::new(1);
    world.answers = Answers::Held;
    let hosts: Vec<usize> = (0..3)
        .map(|host| {
            let config = world.config(host);
            world.log_in(config)
        })
        .collect();
    world.submit(hosts[0], read_10(0, 8));
    world.run();
    let had_one = world.held[0].session;
    let code = TaskManagementCode::ClearTaskSet;
    world
        .with_host(hosts[1], |initiator, _, out| {
            initiator.manage(CommandTag(99), code, lun(), out)
        })
        .unwrap();
    world.run();
    assert_eq!(world.management.len(), 1);
    assert_eq!(world.management[0].sessions, [had_one]);
    assert_ne!(world.management[0].session, had_one);
    // Another node's wish finds nobody any more.
    let ended =
        world.with_target(|target, now, out| target.abort_tasks(now, &name(TARGET), Some(0), out));
    assert_eq!(ended, EndedTasks::default());
}
