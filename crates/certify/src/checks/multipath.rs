//! Several ways to one disk.

use std::time::{Duration, Instant};

use crate::bench::{A, B, Bench};
use crate::check::HostKind::{Multipath, Vmware, Windows};
use crate::check::{Check, Checked, FINE, Group, Unmet, ensure, failed, fine, warn};
use crate::checks::identity::identification;
use crate::command;
use crate::parse::inquiry::Standard;
use crate::parse::port_groups::{self, PortGroup};

const GROUP: Group = Group::Multipath;

pub(super) const CHECKS: &[Check] = &[
    Check {
        id: "multipath.portals",
        group: GROUP,
        title: "Every portal that the target names takes sessions",
        does: "SendTargets at the first portal; a session of each host at every portal that is named or was given",
        clause: "RFC 7143 appendix C",
        consequence: "Hosts log in where nothing answers: starting takes minutes, and a path is always down",
        required_by: &[],
        run: |bench| Box::pin(portals(bench)),
    },
    Check {
        id: "multipath.coherence",
        group: GROUP,
        title: "What is written through one path is read through all",
        does: "Writes through each path in turn, and reads through every path of two hosts",
        clause: "SAM-5 4.7; SBC-3 4.1",
        consequence: "Data is damaged by the first failover",
        required_by: &[Windows, Vmware, Multipath],
        run: |bench| Box::pin(coherence(bench)),
    },
    Check {
        id: "multipath.states",
        group: GROUP,
        title: "Target port groups say the same through every path, and one is active/optimized",
        does: "REPORT TARGET PORT GROUPS through every path; each path's own port and group are looked for in it",
        clause: "SPC-4 5.15.2, 6.37",
        consequence: "Windows: MPIO (MSDSM) and the HLK's ALUA test fail; VMware and Linux use the long way, or none",
        required_by: &[Windows, Vmware, Multipath],
        run: |bench| Box::pin(states(bench)),
    },
    Check {
        id: "multipath.session-loss",
        group: GROUP,
        title: "Commands go on when a path is lost, and it comes back",
        does: "Each path in turn is cut while a host writes; it logs in again, and reads what was written",
        clause: "SAM-5 4.7; RFC 7143 6.3.5",
        consequence: "A cable that is pulled stops the host",
        required_by: &[Windows, Vmware, Multipath],
        run: |bench| Box::pin(session_loss(bench)),
    },
];

/// Chunks that this file writes to.
const CHUNK: u64 = 112;
/// Writes on the paths that are left.
const WRITES: u64 = 32;
const RETURN_PATIENCE: Duration = Duration::from_secs(15);

async fn portals(bench: &mut Bench) -> Checked {
    let discovery = &bench.discovery;
    if let Some((portal, why)) = discovery.unreachable.first() {
        return Err(failed(format!("a session at {portal}"), why.clone()));
    }
    if let Some(failure) = &discovery.failure {
        return warn(format!("SendTargets: {failure}"));
    }
    bench.needs_paths()?;
    fine(format!("{} portals", bench.paths.len()))
}

async fn coherence(bench: &mut Bench) -> Checked {
    bench.needs_paths()?;
    for way in bench.ways(A) {
        for chunk in CHUNK..CHUNK + 4 {
            let tag = bench.tag();
            bench.write(way, chunk, tag).await?.good()?;
            for reader in bench.ways(A).chain(bench.ways(B)) {
                bench.holds(reader, chunk, tag).await?;
            }
        }
    }
    FINE
}

async fn states(bench: &mut Bench) -> Checked {
    let standard = Standard::parse(&bench.inquiry((A, 0), None).await?)?;
    if standard.port_groups == 0 {
        return Err(Unmet::NotApplicable(
            "access is symmetric (TPGS 00b): all paths are alike".to_owned(),
        ));
    }
    let mut first: Option<Vec<PortGroup>> = None;
    for way in bench.ways(A) {
        let nexus = bench.nexus(way);
        let label = nexus.label();
        let data = nexus.good(command::report_port_groups(bench.lun, 8192));
        let groups = port_groups::parse(&data.await?)?;
        let named = identification(bench, way).await?;
        let (port, group) = (named.relative_port(), named.port_group());
        let own = groups.iter().find(|it| {
            Some(it.group) == group && port.is_some_and(|port| it.ports.contains(&port))
        });
        let Some(own) = own else {
            return Err(failed(
                format!("{label}: its own port {port:?} in its group {group:?}"),
                format!("{groups:?}"),
            ));
        };
        let is_active = matches!(own.state, PortGroup::OPTIMIZED | PortGroup::NON_OPTIMIZED);
        ensure(
            is_active,
            format!("{label}: a path that takes commands"),
            || PortGroup::state_name(own.state).to_owned(),
        )?;
        let first = first.get_or_insert_with(|| groups.clone());
        // States may change between two commands; which ports are in which group does not.
        let shape = |groups: &[PortGroup]| {
            let shape = groups.iter().map(|it| (it.group, it.ports.clone()));
            shape.collect::<Vec<_>>()
        };
        ensure(
            shape(first) == shape(&groups),
            format!("{label}: the same groups and ports"),
            || format!("{groups:?} and {first:?}"),
        )?;
    }
    let groups = first.unwrap_or_default();
    ensure(
        groups.iter().any(|it| it.state == PortGroup::OPTIMIZED),
        "a group that is active/optimized",
        || format!("{groups:?}"),
    )?;
    let names = groups.iter().map(|it| {
        let state = PortGroup::state_name(it.state);
        format!("group {} {state}", it.group)
    });
    fine(names.collect::<Vec<_>>().join(", "))
}

async fn session_loss(bench: &mut Bench) -> Checked {
    bench.needs_paths()?;
    let mut longest = Duration::ZERO;
    for lost in bench.ways(A) {
        let mut written = Vec::new();
        bench.nexus(lost).cut().await;
        for number in 0..WRITES {
            let (chunk, tag) = (CHUNK + number, bench.tag());
            let others: Vec<_> = bench.ways(A).filter(|other| *other != lost).collect();
            let way = others[number as usize % others.len()];
            let start = Instant::now();
            bench.write(way, chunk, tag).await?.good()?;
            longest = longest.max(start.elapsed());
            written.push((chunk, tag));
        }
        bench.reconnect(RETURN_PATIENCE).await?;
        for (chunk, tag) in written {
            bench.holds(lost, chunk, tag).await?;
        }
    }
    fine(format!("the longest write took {} ms", longest.as_millis()))
}
