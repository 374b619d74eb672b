//! Registering, releasing and clearing.

use holdfast_lab::command::{ReserveOut, ReserveType};
use holdfast_stdx::Count;

use super::GROUP;
use crate::bench::{A, B, Bench, C, ILLEGAL};
use crate::check::HostKind::{Pacemaker, Windows};
use crate::check::{Check, Checked, FINE, Unmet, ensure, fine, warn};
use crate::command;
use crate::reserve::{
    REGISTRATIONS_PREEMPTED, RESERVATIONS_PREEMPTED, RESERVATIONS_RELEASED, SHARED,
};

pub(super) const CHECKS: &[Check] = &[
    Check {
        id: "reservations.capabilities",
        group: GROUP,
        title: "Persistent reservations are there, with the types that clusters use",
        does: "REPORT CAPABILITIES, READ KEYS and READ RESERVATION through every path",
        clause: "SPC-4 6.15",
        consequence: "Windows: cluster validation fails, the disk cannot be a cluster disk; fence_scsi: cannot fence",
        required_by: &[Windows, Pacemaker],
        run: |bench| Box::pin(capabilities(bench)),
    },
    Check {
        id: "reservations.register",
        group: GROUP,
        title: "A key is registered for each path, and changed and ended only by who knows it",
        does: "REGISTER on every path, with right and with wrong keys; READ KEYS through every path",
        clause: "SPC-4 5.12.7, 6.16.2",
        consequence: "mpathpersist and Windows cannot register, or anybody's key counts",
        required_by: &[Windows, Pacemaker],
        run: |bench| Box::pin(register(bench)),
    },
    Check {
        id: "reservations.register-ignore",
        group: GROUP,
        title: "REGISTER AND IGNORE EXISTING KEY registers whatever was before",
        does: "Registers a key over another one on every path, and ends the registration with zero",
        clause: "SPC-4 5.12.7, 6.16.2",
        consequence: "Windows and fence_scsi register by it: a host that has restarted cannot come back",
        required_by: &[Windows, Pacemaker],
        run: |bench| Box::pin(register_ignore(bench)),
    },
    Check {
        id: "reservations.generation",
        group: GROUP,
        title: "The generation counts changes of registrations, alike through every path",
        does: "Compares PRGENERATION before and after REGISTER, RESERVE, RELEASE, PREEMPT and CLEAR",
        clause: "SPC-4 6.15.2",
        consequence: "Hosts that watch the generation miss that somebody else has registered",
        required_by: &[],
        run: |bench| Box::pin(generation(bench)),
    },
    Check {
        id: "reservations.release",
        group: GROUP,
        title: "The holder releases, and nobody else",
        does: "RELEASE by another host, of another type, with another key, and by the holder; who writes afterwards",
        clause: "SPC-4 5.12.11.2",
        consequence: "A disk is freed under its owner, or stays reserved",
        required_by: &[Windows],
        run: |bench| Box::pin(release(bench)),
    },
    Check {
        id: "reservations.clear",
        group: GROUP,
        title: "CLEAR ends everything, if who is registered asks for it",
        does: "CLEAR by a host that is not registered, and by one that is, through another path than the holder's",
        clause: "SPC-4 5.12.11.6",
        consequence: "Windows: Clear-ClusterDiskReservation does not free the disk",
        required_by: &[Windows],
        run: |bench| Box::pin(clear(bench)),
    },
    Check {
        id: "reservations.attentions",
        group: GROUP,
        title: "Who loses something is told so once, and nobody else",
        does: "RELEASE, PREEMPT of a registration, PREEMPT of the reservation, CLEAR: the unit attentions of every path of all hosts",
        clause: "SPC-4 5.12.11; SAM-5 5.14",
        consequence: "Hosts find out by a failed command that they are fenced, or go on as if a disk were reserved",
        required_by: &[],
        run: |bench| Box::pin(attentions(bench)),
    },
    Check {
        id: "reservations.allowed",
        group: GROUP,
        title: "A host may ask for what there is while another one has everything",
        does: "INQUIRY, READ CAPACITY, REPORT LUNS, TEST UNIT READY and PERSISTENT RESERVE IN under Exclusive Access",
        clause: "SPC-4 5.12.1, table of commands allowed",
        consequence: "A host that starts does not find the disk while another one owns it",
        required_by: &[Windows, Pacemaker],
        run: |bench| Box::pin(allowed(bench)),
    },
];

async fn capabilities(bench: &mut Bench) -> Checked {
    let nexus = bench.nexus((A, 0));
    let first = command::persistent_reserve_in(bench.lun, command::ReserveIn::ReadKeys, 8);
    nexus.good(first).await?;
    let reported = bench.capabilities((A, 0)).await?;
    for way in bench.ways(A) {
        bench.read_keys(way).await?;
        bench.read_reservation(way).await?;
        let other = bench.capabilities(way).await?;
        ensure(
            other == reported,
            format!("{}: the same capabilities", bench.nexus(way).label()),
            || format!("{other:?} and {reported:?}"),
        )?;
    }
    ensure(
        reported.offers(SHARED as u8) != Some(false),
        "type 5 (Write Exclusive - Registrants Only) among the types",
        || format!("{reported:?}"),
    )?;
    if reported.types.is_none() {
        return warn("TMV is 0: the target does not say which types it offers");
    }
    match reported.can_persist {
        true => fine("reservations outlive a loss of power if that is asked for"),
        false => warn("PTPL_C is 0: reservations end with a loss of power of the target"),
    }
}

async fn register(bench: &mut Bench) -> Checked {
    bench.needs_reservations()?;
    let (key, other) = (bench.key(A), bench.other_key(1));
    let register = ReserveOut::Register;
    for way in bench.ways(A) {
        let answer = bench.reserve_out(way, register, SHARED, 0, key).await?;
        answer.good()?;
    }
    let count = bench.paths.len();
    bench.is_registered(key, count).await?;
    let wrong = bench.reserve_out((A, 0), register, SHARED, other, other);
    wrong.await?.conflict()?;
    let unregistered = bench.reserve_out((B, 0), register, SHARED, key, key);
    unregistered.await?.conflict()?;
    let change = bench.reserve_out((A, 0), register, SHARED, key, other);
    change.await?.good()?;
    bench.is_registered(other, 1).await?;
    let end = bench.reserve_out((A, 0), register, SHARED, other, 0);
    end.await?.good()?;
    bench.is_registered(other, 0).await?;
    bench.is_registered(key, count - 1).await?;
    fine(Count::of(count as u64, "registration").to_string())
}

async fn register_ignore(bench: &mut Bench) -> Checked {
    bench.needs_reservations()?;
    let action = ReserveOut::RegisterAndIgnore;
    bench.register(A).await?;
    let other = bench.other_key(2);
    for way in bench.ways(A) {
        let answer = bench.reserve_out(way, action, SHARED, 0, other).await?;
        answer.good()?;
    }
    bench.is_registered(bench.key(A), 0).await?;
    bench.is_registered(other, bench.paths.len()).await?;
    bench.unregister(A).await?;
    bench.is_registered(other, 0).await?;
    // To end what is not there is no error (SPC-4 6.16.2, table of register behaviors).
    bench.unregister(B).await?;
    FINE
}

async fn generation(bench: &mut Bench) -> Checked {
    bench.needs_reservations()?;
    let mut last = bench.read_keys((A, 0)).await?.generation;
    let (key, other) = (bench.key(A), bench.key(B));
    let steps = [
        ((A, 0), ReserveOut::RegisterAndIgnore, 0, key, 1),
        ((B, 0), ReserveOut::RegisterAndIgnore, 0, other, 1),
        ((A, 0), ReserveOut::Reserve, key, 0, 0),
        ((A, 0), ReserveOut::Release, key, 0, 0),
        ((A, 0), ReserveOut::Preempt, key, other, 1),
        ((A, 0), ReserveOut::Clear, key, 0, 1),
    ];
    for (way, action, key, action_key, counts) in steps {
        let answer = bench.reserve_out(way, action, SHARED, key, action_key);
        answer.await?.good()?;
        let expected = last.wrapping_add(counts);
        for way in bench.ways(C) {
            let seen = bench.read_keys(way).await?.generation;
            ensure(
                seen == expected,
                format!(
                    "{}: generation {expected} after {action:?}",
                    bench.nexus(way).label()
                ),
                || seen.to_string(),
            )?;
        }
        last = expected;
    }
    FINE
}

async fn release(bench: &mut Bench) -> Checked {
    bench.needs_reservations()?;
    bench.register(A).await?;
    bench.register(B).await?;
    bench.reserve((A, 0), SHARED).await?;
    // Nothing of its own to release is no error, and releases nothing.
    bench.release((B, 0), SHARED).await?;
    bench.is_held(Some((bench.key(A), SHARED))).await?;
    let other = ReserveType::ExclusiveAccess;
    let wrong = bench.reserve_out((A, 0), ReserveOut::Release, other, bench.key(A), 0);
    wrong.await?.refused(ILLEGAL, 0x2604)?;
    let unknown = bench.other_key(3);
    let wrong = bench.reserve_out((A, 0), ReserveOut::Release, SHARED, unknown, 0);
    wrong.await?.conflict()?;
    bench.is_held(Some((bench.key(A), SHARED))).await?;
    bench.release((A, 0), SHARED).await?;
    bench.is_held(None).await?;
    let way = (C, bench.last_path());
    bench.write(way, 0, bench.tag()).await?.good()?;
    FINE
}

async fn clear(bench: &mut Bench) -> Checked {
    bench.needs_reservations()?;
    bench.register(A).await?;
    bench.register(B).await?;
    bench.reserve((A, 0), SHARED).await?;
    let stranger = bench.reserve_out((C, 0), ReserveOut::Clear, SHARED, bench.key(A), 0);
    stranger.await?.conflict()?;
    let way = (B, bench.last_path());
    let answer = bench.reserve_out(way, ReserveOut::Clear, SHARED, bench.key(B), 0);
    answer.await?.good()?;
    bench.is_held(None).await?;
    bench.is_registered(bench.key(A), 0).await?;
    bench.is_registered(bench.key(B), 0).await?;
    bench.write((C, 0), 0, bench.tag()).await?.good()?;
    FINE
}

async fn attentions(bench: &mut Bench) -> Checked {
    bench.needs_reservations()?;
    let (first, last) = ((A, 0), (B, bench.last_path()));
    bench.register(A).await?;
    bench.register(B).await?;
    bench.reserve(first, SHARED).await?;
    bench.release(first, SHARED).await?;
    let others = bench.ways(A).skip(1).chain(bench.ways(B));
    for way in others {
        bench.is_told(way, &[RESERVATIONS_RELEASED]).await?;
    }
    bench.is_told(first, &[]).await?;
    bench.reserve(first, SHARED).await?;
    bench.preempt(first, bench.key(B)).await?.good()?;
    bench.are_told(B, &[REGISTRATIONS_PREEMPTED]).await?;
    bench.are_told(A, &[]).await?;
    bench.register(B).await?;
    bench.preempt(last, bench.key(A)).await?.good()?;
    bench.are_told(A, &[REGISTRATIONS_PREEMPTED]).await?;
    bench.are_told(B, &[]).await?;
    bench.register(A).await?;
    let clear = bench.reserve_out(first, ReserveOut::Clear, SHARED, bench.key(A), 0);
    clear.await?.good()?;
    bench.are_told(B, &[RESERVATIONS_PREEMPTED]).await?;
    for way in bench.ways(A).skip(1) {
        bench.is_told(way, &[RESERVATIONS_PREEMPTED]).await?;
    }
    bench.is_told(first, &[]).await?;
    bench.are_told(C, &[]).await?;
    FINE
}

async fn allowed(bench: &mut Bench) -> Checked {
    bench.needs_reservations()?;
    let kind = ReserveType::ExclusiveAccess;
    bench.register(A).await?;
    bench.reserve((A, 0), kind).await?;
    let lun = bench.lun;
    for way in bench.ways(C) {
        let nexus = bench.nexus(way);
        for request in [
            command::test_unit_ready(lun),
            command::inquiry(lun, None),
            command::inquiry(lun, Some(0x83)),
            command::report_luns(lun, 8192),
            command::read_capacity(lun),
        ] {
            nexus.good(request).await?;
        }
        bench.read_keys(way).await?;
        bench.read_reservation(way).await?;
        let label = nexus.label();
        let read = bench.read(way, 0).await?;
        ensure(
            read.is_conflict(),
            format!("READ (16) by {label}: RESERVATION CONFLICT"),
            || read.how_it_ended(),
        )?;
    }
    let taken = bench.reserve_out((C, 0), ReserveOut::Reserve, kind, bench.key(C), 0);
    let taken = taken.await?;
    match taken.is_conflict() {
        true => FINE,
        false => Err::<_, Unmet>(taken.instead_of("RESERVATION CONFLICT")),
    }
}
