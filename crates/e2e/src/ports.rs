//! Ports for a cluster: a demo takes a run of portals, a run of APIs, peers 100 above these, and two for
//! an etcd 200 above the first API.
//!
//! It refuses to promise: another process may take a port before the demo does.

use std::net::{Ipv4Addr, TcpListener};

use anyhow::{Result, bail};

/// Below the ports that the kernel gives to outgoing connections (from 32768 on Linux).
const PORTS: std::ops::Range<u16> = 18_000..32_000;
/// Ports from one cluster's base to the next's: room for APIs, for peers 100 above them, and for etcd.
const STRIDE: u16 = 240;
/// Where the APIs begin, counted from the base; before that are the portals.
const API_OFFSET: u16 = 20;
/// Where peers are, counted from the API of their node.
const PEER_OFFSET: u16 = 100;
/// Where etcd's clients connect, counted from the parent's API; its peers do one above.
pub const ETCD_OFFSET: u16 = 200;

/// What `holdfast demo` is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ports {
    /// `--portal-port`.
    pub portal: u16,
    /// `--api-port`.
    pub api: u16,
}

/// Ports that nobody listens on, for `nodes` nodes.
///
/// # Errors
/// There are none.
pub fn free(nodes: u16) -> Result<Ports> {
    // Test processes that run at the same time begin at different places.
    let count = (PORTS.end - PORTS.start) / STRIDE;
    let start = std::process::id() as u16 % count;
    for turn in 0..count {
        let base = PORTS.start + (start + turn) % count * STRIDE;
        let ports = Ports {
            portal: base,
            api: base + API_OFFSET,
        };
        let all_free = used_by(ports, nodes)
            .into_iter()
            .all(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok());
        if all_free {
            return Ok(ports);
        }
    }
    bail!("no free ports from {} to {}", PORTS.start, PORTS.end);
}

/// The ports of a demo, as its contract says.
#[must_use]
pub fn used_by(ports: Ports, nodes: u16) -> Vec<u16> {
    // The demo's own metadata is where the peers of a node 0 would be.
    let etcd = ports.api + ETCD_OFFSET;
    let mut used = vec![ports.api, ports.api + PEER_OFFSET, etcd, etcd + 1];
    for node in 1..=nodes {
        used.push(ports.portal + node - 1);
        used.push(ports.api + node);
        used.push(ports.api + PEER_OFFSET + node);
    }
    used
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clusters_do_not_share_ports() {
        let ports = Ports {
            portal: PORTS.start,
            api: PORTS.start + API_OFFSET,
        };
        let used = used_by(ports, 7);
        assert_eq!(used.len(), 25);
        assert!(used.iter().all(|port| *port < PORTS.start + STRIDE));
        let mut distinct = used.clone();
        distinct.sort_unstable();
        distinct.dedup();
        assert_eq!(distinct.len(), used.len());
    }

    #[test]
    fn a_port_in_use_is_not_chosen() {
        let first = free(3).unwrap();
        let _listener = TcpListener::bind((Ipv4Addr::LOCALHOST, first.api + 2)).unwrap();
        assert_ne!(free(3).unwrap(), first);
    }
}
