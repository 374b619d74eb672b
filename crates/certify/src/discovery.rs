//! Which paths there are: the portals that were given, and those that the target names itself (SendTargets).
//!
//! Invariants:
//! - each address is a path once;
//! - what cannot be reached is told, and does not keep the run from the rest.

use std::net::SocketAddr;

use holdfast_iscsi::{IscsiName, PortalGroupTag};
use holdfast_lab::{Isid, Session, SessionKind};
use tokio::net::lookup_host;

use crate::bench::Discovery;
use crate::link::config;
use crate::options::Options;

/// Paths at most: hosts take 8 (VMware) to 32 (Windows) for a disk.
const PATHS_MAX: usize = 16;
/// ISIDs of paths whose portal group is not known are different for each: from here on.
const UNKNOWN_GROUP: u16 = 0x100;
/// ISID of discovery sessions.
const ISID: Isid = Isid([0x80, 0xCE, 0x47, 0, 0, 0]);

/// A portal, and the portal group that it is said to be in.
type Found = (SocketAddr, Option<PortalGroupTag>);

/// Looks for paths. Each comes with what tells its ISIDs from those of others in its portal group: RFC 7143 10.1.1
/// wants one ISID for as many portal groups as there are, and no two sessions of one ISID in one of them. `host` is who looks: the
/// target may be for those alone that are played.
pub(crate) async fn discover(
    options: &Options,
    host: &IscsiName,
) -> (Vec<(SocketAddr, u16)>, Discovery) {
    let mut discovery = Discovery::default();
    let mut found: Vec<Found> = options.portals.iter().map(|it| (*it, None)).collect();
    let mut failures = Vec::new();
    for portal in &options.portals {
        match ask(options, host, *portal).await {
            Ok(named) => {
                add(&mut found, &mut discovery, named).await;
                failures.clear();
                break;
            }
            Err(failure) => failures.push(failure),
        }
    }
    discovery.failure = failures.into_iter().next();
    let mut paths = Vec::new();
    for (portal, group) in found.iter().take(PATHS_MAX) {
        match reach(options, host, *portal).await {
            Ok(()) => paths.push((*portal, *group)),
            Err(why) => discovery.unreachable.push((portal.to_string(), why)),
        }
    }
    if found.len() > PATHS_MAX {
        let more = found.len() - PATHS_MAX;
        let text = format!("{more} more portals than the {PATHS_MAX} that are tried");
        discovery.failure.get_or_insert(text);
    }
    (told_apart(&paths), discovery)
}

fn told_apart(paths: &[Found]) -> Vec<(SocketAddr, u16)> {
    let tag = |index: usize, group: Option<PortalGroupTag>| match group {
        None => UNKNOWN_GROUP + index as u16,
        Some(_) => {
            let before = paths[..index].iter().filter(|(_, other)| *other == group);
            before.count() as u16
        }
    };
    let paths = paths.iter().enumerate();
    let tagged = paths.map(|(index, (portal, group))| (*portal, tag(index, *group)));
    tagged.collect()
}

/// Asks a portal for the addresses of the target.
async fn ask(
    options: &Options,
    host: &IscsiName,
    portal: SocketAddr,
) -> Result<Vec<(String, PortalGroupTag)>, String> {
    let name = host.clone();
    let kind = (ISID, SessionKind::Discovery);
    let session = Session::connect(config(portal, name, kind, options.chap.as_ref()))
        .await
        .map_err(|error| error.to_string())?;
    let targets = session.discover("All").await;
    session.log_out().await;
    let targets = targets.map_err(|error| error.to_string())?;
    let own = targets
        .into_iter()
        .filter(|target| target.name.eq_ignore_ascii_case(options.target.as_str()));
    let addresses: Vec<_> = own.flat_map(|target| target.addresses).collect();
    match addresses.is_empty() {
        true => Err(format!("the portal {portal} does not name the target")),
        false => Ok(addresses),
    }
}

async fn add(
    found: &mut Vec<Found>,
    discovery: &mut Discovery,
    named: Vec<(String, PortalGroupTag)>,
) {
    for (address, group) in named {
        let portal = match address.parse() {
            Ok(portal) => Some(portal),
            Err(_) => match lookup_host(&address).await {
                Ok(mut portals) => portals.next(),
                Err(_) => None,
            },
        };
        let Some(portal) = portal else {
            let text = crate::words::printable(address.as_bytes());
            discovery
                .unreachable
                .push((text, "the name is not known".to_owned()));
            continue;
        };
        match found.iter_mut().find(|(known, _)| *known == portal) {
            Some((_, known)) => *known = Some(group),
            None => found.push((portal, Some(group))),
        }
    }
}

/// Whether a session can be had there.
async fn reach(options: &Options, host: &IscsiName, portal: SocketAddr) -> Result<(), String> {
    let name = host.clone();
    let kind = (ISID, SessionKind::Normal(options.target.clone()));
    let session = Session::connect(config(portal, name, kind, options.chap.as_ref())).await;
    let session = session.map_err(|error| error.to_string())?;
    session.log_out().await;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn isids_are_shared_over_portal_groups_and_nowhere_else() {
        let portal = |port| SocketAddr::from(([127, 0, 0, 1], port));
        let paths = [
            (portal(1), Some(PortalGroupTag(1))),
            (portal(2), Some(PortalGroupTag(2))),
            (portal(3), Some(PortalGroupTag(1))),
            (portal(4), None),
        ];
        let tags: Vec<u16> = told_apart(&paths).iter().map(|(_, tag)| *tag).collect();
        assert_eq!(tags, [0, 0, 1, 0x103]);
    }
}
