//! Who is registered, by name; registering for others.

use holdfast_lab::command::{RegisterAndMove, ReserveOut, ReserveParameters};

use super::GROUP;
use crate::bench::{A, B, Bench, C, Way};
use crate::check::HostKind::Pacemaker;
use crate::check::{Check, Checked, FINE, Unmet, ensure, fine};
use crate::checks::identity::identification;
use crate::command;
use crate::parse::lists;
use crate::parse::reservations::Registrant;
use crate::reserve::SHARED;
use crate::words::printable;

pub(super) const CHECKS: &[Check] = &[
    Check {
        id: "reservations.full-status",
        group: GROUP,
        title: "READ FULL STATUS names who is registered, and who holds what",
        does: "A and B register on every path, A reserves; the names, ports and holders that every path tells",
        clause: "SPC-4 6.15.5, 7.6.4.6",
        consequence: "mpathpersist cannot tell which path holds a reservation, and does not release it",
        required_by: &[],
        run: |bench| Box::pin(full_status(bench)),
    },
    Check {
        id: "reservations.by-path",
        group: GROUP,
        title: "A registration is one path's, unless it is said to be for all",
        does: "A registers through one path only, without ALL_TG_PT, and writes through every path",
        clause: "SPC-4 5.12.7",
        consequence: "fence_mpath counts a registration for each path: it takes a path for fenced that is not",
        required_by: &[Pacemaker],
        run: |bench| Box::pin(by_path(bench)),
    },
    Check {
        id: "reservations.all-ports",
        group: GROUP,
        title: "ALL_TG_PT registers through every port",
        does: "A registers through one path with ALL_TG_PT, and writes through every path",
        clause: "SPC-4 5.12.7, 6.16.3",
        consequence: "VMware and some cluster managers register once for all paths: the others end with conflicts",
        required_by: &[],
        run: |bench| Box::pin(all_ports(bench)),
    },
    Check {
        id: "reservations.move",
        group: GROUP,
        title: "REGISTER AND MOVE hands the reservation to another host",
        does: "A moves its reservation to B, and ends its own registration by that",
        clause: "SPC-4 5.12.8, 6.16.4",
        consequence: "Live migration of machines with disks of their own cannot hand reservations over",
        required_by: &[],
        run: |bench| Box::pin(register_and_move(bench)),
    },
];

/// Chunks that this file writes to.
const CHUNK: u64 = 64;

async fn full_status(bench: &mut Bench) -> Checked {
    bench.needs_reservations()?;
    let request =
        command::persistent_reserve_in(bench.lun, command::ReserveIn::ReadFullStatus, 512);
    let asked = bench.nexus((A, 0)).ask(request).await?;
    Bench::unknown(&asked, "READ FULL STATUS")?;
    bench.register(A).await?;
    bench.register(B).await?;
    bench.reserve((A, 0), SHARED).await?;
    for way in bench.ways(C) {
        let all = bench.full_status(way).await?;
        are_named(bench, way, &all)?;
        let label = bench.nexus(way).label();
        let holders: Vec<_> = all.iter().filter(|it| it.holds).collect();
        let is_right = matches!(holders.as_slice(), [one] if one.key == bench.key(A) && one.kind == SHARED as u8);
        ensure(is_right, format!("{label}: one holder, of type 5"), || {
            format!("{} holders", holders.len())
        })?;
        ensure(
            all.iter().all(|it| it.port > 0 && !it.all_target_ports),
            format!("{label}: relative target ports from 1 on, and no ALL_TG_PT"),
            || format!("{all:?}"),
        )?;
    }
    FINE
}

/// Each nexus of A and B is there by its key, its initiator port's name, and a target port, and nobody else.
fn are_named(bench: &Bench, way: Way, all: &[Registrant]) -> Result<(), Unmet> {
    let label = bench.nexus(way).label();
    let count = 2 * bench.paths.len();
    ensure(
        all.len() == count,
        format!("{label}: {count} registrations"),
        || all.len().to_string(),
    )?;
    for registered in bench.ways(A).chain(bench.ways(B)) {
        let port = bench.port(registered);
        let isid: String = port
            .isid
            .0
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        let name = format!("{},i,0x{isid}", port.name.as_str());
        let key = bench.key(registered.0);
        // An initiator port may be that of several paths, through a target port each.
        let ways = bench
            .ways(registered.0)
            .filter(|other| bench.port(*other) == port);
        let named = all
            .iter()
            .filter(|it| it.key == key && it.initiator.eq_ignore_ascii_case(name.as_bytes()));
        let mut ports: Vec<u16> = named.map(|it| it.port).collect();
        ports.sort_unstable();
        ports.dedup();
        ensure(
            ports.len() == ways.count(),
            format!("{label}: key {key:016x} for {name}, through each of its target ports"),
            || {
                let names = all.iter().map(|it| printable(&it.initiator));
                format!("ports {ports:?}; {}", names.collect::<Vec<_>>().join(" "))
            },
        )?;
    }
    Ok(())
}

async fn by_path(bench: &mut Bench) -> Checked {
    bench.needs_reservations()?;
    bench.needs_paths()?;
    bench.register_on((A, 0)).await?;
    bench.is_registered(bench.key(A), 1).await?;
    bench.reserve((A, 0), SHARED).await?;
    bench.write((A, 0), CHUNK, bench.tag()).await?.good()?;
    for way in bench.ways(A).skip(1) {
        bench.write(way, CHUNK, bench.tag()).await?.conflict()?;
    }
    FINE
}

async fn all_ports(bench: &mut Bench) -> Checked {
    bench.needs_reservations()?;
    if !bench.capabilities((A, 0)).await?.all_target_ports {
        return Err(Unmet::NotApplicable(
            "the target says that it does not do that (ATP_C is 0)".to_owned(),
        ));
    }
    let parameters = ReserveParameters {
        action_key: bench.key(A),
        all_target_ports: true,
        ..ReserveParameters::default()
    };
    let action = ReserveOut::RegisterAndIgnore;
    let answer = bench.reserve_with((A, 0), action, SHARED, parameters);
    answer.await?.good()?;
    bench.reserve((A, 0), SHARED).await?;
    bench.write((B, 0), CHUNK, bench.tag()).await?.conflict()?;
    let own = bench.port((A, 0)).isid;
    let mut count = 0;
    for way in bench.ways(A) {
        // It is for the same initiator port through all target ports (SPC-4 5.12.7): one of another ISID is another.
        if bench.port(way).isid == own {
            bench.write(way, CHUNK, bench.tag()).await?.good()?;
            count += 1;
        }
    }
    fine(format!("{count} paths"))
}

async fn register_and_move(bench: &mut Bench) -> Checked {
    bench.needs_reservations()?;
    let request = command::report_operation_code(bench.lun, 0x5F, 0x07);
    let answer = bench.nexus((A, 0)).ask(request).await?;
    Bench::unknown(&answer, "REPORT SUPPORTED OPERATION CODES")?;
    if !lists::is_supported(&answer.good()?)? {
        return Err(Unmet::NotApplicable(
            "the target says that it does not know REGISTER AND MOVE".to_owned(),
        ));
    }
    let Some(port) = identification(bench, (B, bench.last_path()))
        .await?
        .relative_port()
    else {
        return Err(Unmet::NotRun(
            "page 83h has no relative target port identifier, so that no port can be named"
                .to_owned(),
        ));
    };
    bench.register(A).await?;
    bench.reserve((A, 0), SHARED).await?;
    let to = bench.port((B, bench.last_path()));
    let request = command::register_and_move(
        bench.lun,
        &RegisterAndMove {
            key: bench.key(A),
            action_key: bench.key(B),
            initiator: to.name.as_str(),
            isid: to.isid,
            port,
            unregisters: true,
        },
    );
    bench.nexus((A, 0)).ask(request).await?.good()?;
    bench.is_held(Some((bench.key(B), SHARED))).await?;
    bench.is_registered(bench.key(B), 1).await?;
    bench
        .is_registered(bench.key(A), bench.paths.len() - 1)
        .await?;
    let way = (B, bench.last_path());
    bench.write(way, CHUNK, bench.tag()).await?.good()?;
    bench.write((A, 0), CHUNK, bench.tag()).await?.conflict()?;
    FINE
}
