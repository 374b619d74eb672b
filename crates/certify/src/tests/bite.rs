//! Each check is shown to bite: a target that lies about one thing fails the check of it.

use std::collections::BTreeSet;
use std::time::Duration;

use holdfast_lab::{CommandRequest, Completion, Status};
use holdfast_scsi::{AdditionalSense, Sense, SenseKey};
use holdfast_stdx::Bytes;

use super::bench;
use super::fake::{Fake, Lie, World};
use crate::bench::{A, B};
use crate::check::Outcome;
use crate::run::{one, prepare};
use crate::words;

type Way = (usize, usize);

/// A lie about what commands with that operation code answer.
fn about(
    operation_code: u8,
    mut change: impl FnMut(&mut World, Way, &CommandRequest, &mut Completion) + Send + 'static,
) -> Lie {
    Box::new(move |world, way, request, completion| {
        if request.cdb[0] == operation_code {
            change(world, way, request, completion);
        }
    })
}

/// A lie about the data of commands with that operation code and service action (or page), through the second path.
fn data(
    operation_code: u8,
    second: u8,
    mut change: impl FnMut(&mut Vec<u8>) + Send + 'static,
) -> Lie {
    about(operation_code, move |_, way, request, completion| {
        let is_it = match operation_code {
            0x12 => request.cdb[1] == u8::from(second != 0) && request.cdb[2] == second,
            0x5A | 0x4D => request.cdb[2] & 0x3F == second,
            _ => request.cdb[1] & 0x1F == second,
        };
        if is_it && way.1 == 1 && completion.status == 0 {
            let mut bytes = completion.data_in.concat();
            change(&mut bytes);
            completion.data_in = vec![bytes.into()];
        }
    })
}

/// A lie about PERSISTENT RESERVE OUT with that service action.
fn out(
    action: u8,
    mut change: impl FnMut(&mut World, Way, &mut Completion) + Send + 'static,
) -> Lie {
    about(0x5F, move |world, way, request, completion| {
        if request.cdb[1] == action {
            change(world, way, completion);
        }
    })
}

fn good(completion: &mut Completion) {
    completion.status = Status::Good.code();
    completion.sense = Bytes::new();
}

fn refuse(completion: &mut Completion, key: SenseKey, additional: AdditionalSense) {
    completion.status = Status::CheckCondition.code();
    completion.sense = Sense::new(key, additional).encode_fixed().to_vec().into();
    completion.data_in = Vec::new();
}

fn invalid_field(completion: &mut Completion) {
    refuse(
        completion,
        SenseKey::IllegalRequest,
        AdditionalSense::INVALID_FIELD_IN_CDB,
    );
}

fn is_conflict(completion: &Completion) -> bool {
    completion.status == Status::ReservationConflict.code()
}

/// What a reservation forbids is done all the same, through the second path.
fn not_enforced(operation_code: u8) -> Lie {
    about(operation_code, move |world, way, request, completion| {
        if !is_conflict(completion) || way.1 == 0 {
            return;
        }
        good(completion);
        let bytes = request.cdb[2..10].first_chunk().copied();
        let offset = u64::from_be_bytes(bytes.unwrap()) * 512;
        match operation_code {
            0x8A => world.overwrite(offset, &request.data_out.concat(), true),
            _ => {
                let length = request.expected_in as usize;
                let read = &world.content[offset as usize..][..length];
                completion.data_in = vec![Bytes::copy_from_slice(read)];
            }
        }
    })
}

/// A unit attention that is never told.
fn untold(additional: u8) -> Lie {
    about(0x00, move |_, _, _, completion| {
        if completion.sense.get(12..14) == Some(&[0x2A, additional]) {
            good(completion);
        }
    })
}

/// A conflict that is told as a success, of PERSISTENT RESERVE OUT with that service action.
fn all_win(action: u8) -> Lie {
    out(action, |_, _, completion| {
        if is_conflict(completion) {
            good(completion);
        }
    })
}

/// A service action of PERSISTENT RESERVE OUT that is said to be done, and is not.
fn without_effect(action: u8) -> Lie {
    out(action, |world, _, _| {
        world.access = world.access_before.clone();
    })
}

/// A write of the first host that was refused comes after all, a while after the second one has begun to read.
fn late_write() -> Lie {
    let mut late = None;
    let mut reads = 0;
    Box::new(move |world, way, request, completion| {
        let bytes = request.cdb[2..10].first_chunk().copied().unwrap();
        let offset = u64::from_be_bytes(bytes).wrapping_mul(512);
        match request.cdb[0] {
            0x8A if way.0 == A && is_conflict(completion) => {
                late = Some((offset, request.data_out.concat()));
            }
            0x88 if way.0 == B => {
                reads += 1;
                if reads > 8
                    && let Some((offset, data)) = late.take()
                {
                    world.overwrite(offset, &data, true);
                }
            }
            _ => {}
        }
    })
}

fn identity_and_capacity() -> Vec<(&'static str, Lie)> {
    vec![
        (
            "identity.inquiry",
            data(0x12, 0x00, |bytes| bytes[8] = b'X'),
        ),
        (
            "identity.pages",
            about(0x12, |_, _, request, completion| {
                if request.cdb[1..3] == [1, 0] {
                    completion.data_in = vec![vec![0, 0, 0, 2, 0x00, 0x80].into()];
                }
            }),
        ),
        ("identity.serial", data(0x12, 0x80, |bytes| bytes[4] = b'X')),
        (
            "identity.designators",
            data(0x12, 0x83, |bytes| bytes[23] ^= 1),
        ),
        (
            "identity.ports",
            data(0x12, 0x83, |bytes| {
                let header = [0x51, 0x94, 0x00, 4];
                let place = bytes.windows(4).position(|it| it == header).unwrap();
                bytes[place + 6..place + 8].fill(0);
            }),
        ),
        (
            "identity.units",
            Box::new(|_, _, request, completion| {
                let is_other = request.lun.number() == Some(1);
                if is_other && request.cdb[2] == 0x83 && completion.status == 0 {
                    let mut bytes = completion.data_in.concat();
                    // The volume's number is the identifier's last byte.
                    bytes[23] = 7;
                    completion.data_in = vec![bytes.into()];
                }
            }),
        ),
        ("capacity.size", data(0x9E, 0x10, |bytes| bytes[7] -= 1)),
        (
            "capacity.end",
            about(0x88, |_, _, request, completion| {
                if completion.status != 0 {
                    good(completion);
                    let length = request.expected_in as usize;
                    completion.data_in = vec![vec![0; length].into()];
                }
            }),
        ),
        (
            "capacity.limits",
            data(0x12, 0xB0, |bytes| bytes[12] = 0xFF),
        ),
        (
            "capacity.provisioning",
            about(0x12, |_, _, request, completion| {
                if request.cdb[2] == 0xB2 {
                    let mut bytes = completion.data_in.concat();
                    bytes[5] &= !0x04;
                    completion.data_in = vec![bytes.into()];
                }
            }),
        ),
    ]
}

fn reservations() -> Vec<(&'static str, Lie)> {
    vec![
        (
            "reservations.capabilities",
            data(0x5E, 2, |bytes| bytes[4] &= !0x20),
        ),
        ("reservations.register", all_win(0)),
        (
            "reservations.register-ignore",
            data(0x5E, 0, |bytes| {
                bytes.truncate(8);
                bytes[4..].fill(0);
            }),
        ),
        (
            "reservations.generation",
            data(0x5E, 0, |bytes| bytes[3] = bytes[3].wrapping_sub(1)),
        ),
        ("reservations.release", without_effect(2)),
        ("reservations.clear", without_effect(3)),
        ("reservations.attentions", untold(5)),
        (
            "reservations.allowed",
            about(0x12, |world, way, _, completion| {
                if way.0 == 2 && world.access.reservation.is_some() {
                    completion.status = Status::ReservationConflict.code();
                }
            }),
        ),
        ("reservations.write-exclusive", not_enforced(0x8A)),
        ("reservations.exclusive-access", not_enforced(0x88)),
        (
            "reservations.write-exclusive-registrants",
            not_enforced(0x8A),
        ),
        (
            "reservations.exclusive-access-registrants",
            not_enforced(0x88),
        ),
        ("reservations.write-exclusive-all", not_enforced(0x8A)),
        ("reservations.exclusive-access-all", not_enforced(0x88)),
        (
            "reservations.other-writes",
            about(0x42, |_, _, _, completion| good(completion)),
        ),
        ("reservations.preempt", not_enforced(0x8A)),
        (
            "reservations.preempt-abort",
            out(5, |world, _, completion| {
                world.access = world.access_before.clone();
                invalid_field(completion);
            }),
        ),
        ("reservations.preempt-registration", all_win(4)),
        ("reservations.fences-writes", late_write()),
        ("reservations.abort-fences-writes", late_write()),
        (
            "reservations.full-status",
            data(0x5E, 3, |bytes| bytes[40] ^= 0x01),
        ),
        ("reservations.by-path", not_enforced(0x8A)),
        (
            "reservations.all-ports",
            about(0x8A, |_, way, _, completion| {
                if way.1 == 1 {
                    completion.status = Status::ReservationConflict.code();
                }
            }),
        ),
        ("reservations.move", without_effect(7)),
        (
            "reservations.session-loss",
            Box::new(|world, way, _, _| {
                // What the second host does is done without any reservation.
                if way.0 == B {
                    world.access.reservation = None;
                }
            }),
        ),
        (
            "reservations.persist",
            data(0x5E, 2, |bytes| bytes[3] &= !0x01),
        ),
    ]
}

fn hosts_and_paths() -> Vec<(&'static str, Lie)> {
    vec![
        ("arbitration.defend", without_effect(4)),
        (
            "arbitration.challenge",
            out(4, |world, _, completion| {
                world.access = world.access_before.clone();
                completion.status = Status::ReservationConflict.code();
            }),
        ),
        ("arbitration.contest-free", all_win(1)),
        ("arbitration.contest-owned", all_win(4)),
        ("failover.move", data(0x88, 0, |bytes| bytes.fill(0))),
        ("failover.simultaneous", all_win(4)),
        ("multipath.coherence", data(0x88, 0, |bytes| bytes.fill(0))),
        (
            "multipath.states",
            about(0xA3, |_, _, request, completion| {
                if request.cdb[1] == 0x0A {
                    let mut bytes = completion.data_in.concat();
                    bytes[4] |= 0x01;
                    completion.data_in = vec![bytes.into()];
                }
            }),
        ),
        (
            "multipath.session-loss",
            about(0x8A, |_, way, _, completion| {
                if way.1 == 1 {
                    let offline = AdditionalSense::LOGICAL_UNIT_NOT_READY_OFFLINE;
                    refuse(completion, SenseKey::NotReady, offline);
                }
            }),
        ),
        (
            "tasks.reset",
            about(0x00, |_, way, _, completion| {
                if way.0 == B && completion.sense.get(12) == Some(&0x29) {
                    good(completion);
                }
            }),
        ),
        ("tasks.new-nexus", told_again()),
    ]
}

/// Every fourth TEST UNIT READY says once more that there was a reset.
fn told_again() -> Lie {
    let mut count = 0;
    about(0x00, move |_, _, _, completion| {
        count += 1;
        if count % 4 == 0 && completion.status == 0 {
            let loss = AdditionalSense::I_T_NEXUS_LOSS_OCCURRED;
            refuse(completion, SenseKey::UnitAttention, loss);
        }
    })
}

fn medium() -> Vec<(&'static str, Lie)> {
    vec![
        (
            "provisioning.unmap",
            about(0x42, |world, _, request, _| {
                let list = request.data_out.concat();
                if let Some(descriptor) = list.get(8..24) {
                    let first = u64::from_be_bytes(*descriptor.first_chunk().unwrap());
                    let count = u32::from_be_bytes(*descriptor[8..].first_chunk().unwrap());
                    let end = (first + u64::from(count)) * 512;
                    world.overwrite(end, &[0; 4096], false);
                }
            }),
        ),
        (
            "provisioning.write-same",
            about(0x93, |world, _, _, _| world.undo_write()),
        ),
        (
            "provisioning.lba-status",
            about(0x9E, |_, _, request, completion| {
                if request.cdb[1] == 0x12 && completion.status == 0 {
                    let mut bytes = completion.data_in.concat();
                    bytes[20] = 1;
                    completion.data_in = vec![bytes.into()];
                }
            }),
        ),
        (
            "provisioning.threshold",
            data(0x4D, 0x0C, |bytes| bytes[5] = 9),
        ),
        (
            "atomic.compare-and-write",
            about(0x89, |_, _, _, completion| good(completion)),
        ),
        (
            "atomic.contention",
            about(0x89, |_, _, _, completion| good(completion)),
        ),
        (
            "caching.mode",
            about(0x5A, |_, _, _, completion| {
                let mut bytes = completion.data_in.concat();
                bytes[3] |= 0x80;
                completion.data_in = vec![bytes.into()];
            }),
        ),
        (
            "caching.synchronize",
            about(0x35, |_, _, _, completion| invalid_field(completion)),
        ),
        (
            "caching.fua",
            about(0x8A, |_, _, request, completion| {
                if request.cdb[1] & 0x08 != 0 {
                    invalid_field(completion);
                }
            }),
        ),
    ]
}

/// What becomes of one check.
async fn outcome(fake: &Fake, id: &str, latency_max: Option<Duration>) -> Outcome {
    let mut bench = bench(fake);
    prepare(&mut bench, false).await.unwrap();
    if let Some(latency_max) = latency_max {
        bench.timing.latency_max = latency_max;
    }
    let mut all = crate::checks::all();
    let check = all.find(|check| check.id == id).unwrap();
    one(&mut bench, check).await
}

fn is_failed(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Failed { .. })
}

#[tokio::test(start_paused = true)]
async fn each_check_bites() {
    let lies = identity_and_capacity()
        .into_iter()
        .chain(reservations())
        .chain(hosts_and_paths())
        .chain(medium());
    let (mut bitten, mut toothless) = (BTreeSet::new(), Vec::new());
    for (id, lie) in lies {
        let fake = Fake::lying(2, Some(lie));
        let outcome = outcome(&fake, id, None).await;
        if !is_failed(&outcome) {
            toothless.push(format!("{id}: {outcome:?}"));
        }
        bitten.insert(id);
    }
    assert!(toothless.is_empty(), "{}", toothless.join("\n"));
    // What is no lie about a command.
    let fake = Fake::new(2);
    fake.world().reset_clears = true;
    let reset = outcome(&fake, "reservations.reset", None).await;
    assert!(is_failed(&reset), "{reset:?}");
    let fake = Fake::new(2);
    fake.world().abort_response = Some(5);
    let abort = outcome(&fake, "tasks.abort", None).await;
    assert!(is_failed(&abort), "{abort:?}");
    for id in ["latency.read", "latency.write"] {
        let slow = outcome(&Fake::new(1), id, Some(Duration::ZERO)).await;
        assert!(is_failed(&slow), "{slow:?}");
        bitten.insert(id);
    }
    bitten.extend(["reservations.reset", "tasks.abort", "multipath.portals"]);
    let left = crate::checks::all().filter(|check| !bitten.contains(check.id));
    let left: Vec<&str> = left.map(|check| check.id).collect();
    assert!(left.iter().all(|id| id.starts_with("restart.")), "{left:?}");
}

#[tokio::test(start_paused = true)]
async fn a_portal_that_is_named_and_not_there_is_told() {
    let fake = Fake::new(2);
    let mut bench = bench(&fake);
    prepare(&mut bench, false).await.unwrap();
    let gone = ("192.0.2.9:3260".to_owned(), "no answer".to_owned());
    bench.discovery.unreachable.push(gone);
    let mut all = crate::checks::all();
    let check = all.find(|check| check.id == "multipath.portals").unwrap();
    let outcome = one(&mut bench, check).await;
    assert!(is_failed(&outcome), "{outcome:?}");
}

/// What a target without persistent reservations gets is no pass, and no crash.
#[tokio::test(start_paused = true)]
async fn a_target_without_reservations_is_not_ready() {
    let lie: Lie = Box::new(|_, _, request, completion| {
        if matches!(request.cdb[0], 0x5E | 0x5F) {
            let unknown = AdditionalSense::INVALID_COMMAND_OPERATION_CODE;
            refuse(completion, SenseKey::IllegalRequest, unknown);
        }
    });
    let fake = Fake::lying(2, Some(lie));
    let first = outcome(&fake, "reservations.capabilities", None).await;
    let Outcome::Failed { expected, seen } = first else {
        panic!("{first:?}");
    };
    assert!(expected.contains("READ KEYS"), "{expected}");
    let name = words::additional(0x2000).unwrap();
    assert!(seen.contains(name), "{seen}");
    let second = outcome(&fake, "reservations.preempt", None).await;
    assert!(matches!(second, Outcome::NotRun { .. }), "{second:?}");
}
