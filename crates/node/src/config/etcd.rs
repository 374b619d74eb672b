//! The section `[etcd]`: the etcd that runs on the cluster's own machines, from a short list of its
//! members that is the same on all of them. A machine in the list has a member run beside its node; any other one
//! uses those of the list.
//!
//! It refuses a list that has the machine's address under another name: a misspelt name never means "no member".
//!
//! Invariants:
//! - every member is known by an address: etcd listens at addresses, not at names;
//! - all members use the same ports, so that the list is all that there is to say.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use holdfast_metadata::etcd::EtcdEndpoint;
use serde::{Deserialize, Serialize};

use crate::etcd::MemberTls;

/// Members at most: more only make etcd slower.
const MEMBERS_MAX: usize = 7;
/// etcd's own ports, registered for it.
const CLIENT_PORT: u16 = 2379;
const PEER_PORT: u16 = 2380;

/// The etcd of the cluster's own machines.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EtcdSection {
    /// Which member this machine is, if that is not the node's own name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub member: Option<String>,
    /// The program, if it is not the `etcd` that `PATH` finds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<PathBuf>,
    /// Where clients connect, at every member.
    #[serde(default = "client_port")]
    pub client_port: u16,
    /// Where members connect to each other.
    #[serde(default = "peer_port")]
    pub peer_port: u16,
    /// Whether this machine, which has TLS, speaks in the clear to members that have none. How its own member listens is as the others
    /// reach it.
    #[serde(default, skip_serializing_if = "super::is_false")]
    pub plain: bool,
    /// All members: name and address. The same on every machine.
    pub members: BTreeMap<String, IpAddr>,
}

fn client_port() -> u16 {
    CLIENT_PORT
}

fn peer_port() -> u16 {
    PEER_PORT
}

/// A section that makes no sense.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidEtcd {
    /// No members, or too many.
    #[error(
        "etcd.members: there are {0}, and an etcd has 1 to {MEMBERS_MAX}; three are a good choice"
    )]
    MemberCount(usize),
    /// A name that etcd would misread.
    #[error("etcd.members: {0:?} is not 1 to 63 of a-z, A-Z, 0-9, '-', '_' and '.'")]
    MemberName(String),
    /// Nobody can be reached there.
    #[error("etcd.members: {0} is not the address of one machine")]
    MemberAddress(IpAddr),
    /// Two members have one address.
    #[error("etcd.members: {0} is there twice; every member has an address of its own")]
    AddressTwice(IpAddr),
    /// This machine is none of the members, and has to be one.
    #[error("etcd.members: {0} is not one of them; name this machine's with etcd.member")]
    NoMember(String),
    /// The list has this machine under another name.
    #[error(
        "etcd.members: {member} has an address of this machine ({key}), which is called {name}: is one of the \
         two names misspelt? Else say which member this machine has: etcd.member = {member:?}"
    )]
    OtherName {
        /// The member's name.
        member: String,
        /// The key of the address.
        key: String,
        /// The machine's.
        name: String,
    },
    /// The ports are no two ports.
    #[error("etcd.client_port and etcd.peer_port: {0} and {1} are not two ports")]
    Ports(u16, u16),
    /// The program's path is relative.
    #[error("etcd.program: {} is not an absolute path", .0.display())]
    Program(PathBuf),
}

impl EtcdSection {
    /// Whether every value makes sense.
    ///
    /// # Errors
    /// [`InvalidEtcd`] for the first that does not.
    pub fn check(&self) -> Result<(), InvalidEtcd> {
        if !(1..=MEMBERS_MAX).contains(&self.members.len()) {
            return Err(InvalidEtcd::MemberCount(self.members.len()));
        }
        let mut addresses = BTreeSet::new();
        for (name, address) in &self.members {
            if !super::is_name(name) {
                return Err(InvalidEtcd::MemberName(name.clone()));
            }
            if address.is_unspecified() || address.is_multicast() {
                return Err(InvalidEtcd::MemberAddress(*address));
            }
            if !addresses.insert(*address) {
                return Err(InvalidEtcd::AddressTwice(*address));
            }
        }
        let (client, peer) = (self.client_port, self.peer_port);
        if client == 0 || peer == 0 || client == peer {
            return Err(InvalidEtcd::Ports(client, peer));
        }
        if let Some(member) = &self.member
            && !self.members.contains_key(member)
        {
            return Err(InvalidEtcd::NoMember(member.clone()));
        }
        match &self.program {
            Some(program) if program.is_relative() => Err(InvalidEtcd::Program(program.clone())),
            _ => Ok(()),
        }
    }

    /// Which member the machine is that is otherwise called `name`, if it is one.
    #[must_use]
    pub fn own(&self, name: &str) -> Option<(&str, IpAddr)> {
        let name = self.member.as_deref().unwrap_or(name);
        let (name, address) = self.members.get_key_value(name)?;
        Some((name, *address))
    }

    /// How a machine that has credentials in this directory speaks to members.
    #[must_use]
    pub fn tls(&self, credentials: PathBuf) -> MemberTls {
        if self.plain {
            MemberTls::Coming(credentials)
        } else {
            MemberTls::On(credentials)
        }
    }

    /// The same of a machine that has to be one.
    ///
    /// # Errors
    /// [`InvalidEtcd::NoMember`] if it is not.
    pub fn required(&self, name: &str) -> Result<(&str, IpAddr), InvalidEtcd> {
        let own = self.own(name);
        own.ok_or_else(|| InvalidEtcd::NoMember(name.to_owned()))
    }

    /// Whether the machine that is otherwise called `name` can have no member, if it has none: `addresses` are its own,
    /// each with its key.
    ///
    /// # Errors
    /// [`InvalidEtcd::OtherName`] if one of them is a member's.
    pub(super) fn check_others(
        &self,
        name: &str,
        addresses: impl IntoIterator<Item = (String, IpAddr)>,
    ) -> Result<(), InvalidEtcd> {
        if self.own(name).is_some() {
            return Ok(());
        }
        for (key, own) in addresses {
            if let Some((member, _)) = self.members.iter().find(|(_, it)| **it == own) {
                let (member, name) = (member.clone(), name.to_owned());
                return Err(InvalidEtcd::OtherName { member, key, name });
            }
        }
        Ok(())
    }

    /// Where clients connect, with or without TLS: first to the member on the machine itself, if there is one.
    #[must_use]
    pub fn endpoints(&self, name: &str, has_tls: bool) -> Vec<EtcdEndpoint> {
        let scheme = if has_tls { "https" } else { "http" };
        let own = self.own(name).map(|(_, address)| address);
        let others = self.members.values().copied();
        let others = others.filter(|address| Some(*address) != own);
        let endpoint = |address| {
            let address = SocketAddr::new(address, self.client_port);
            let text = format!("{scheme}://{address}");
            text.parse().expect("a socket's address is an endpoint")
        };
        own.into_iter().chain(others).map(endpoint).collect()
    }
}
