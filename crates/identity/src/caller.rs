//! Who asks, and what that one may do.
//!
//! Invariants:
//! - a role may everything that a lower one may;
//! - a scope only ever takes away from what a role gives.

use alloc::string::String;
use core::fmt;
use core::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::{ExternalUser, Label, UserName};

/// What somebody may do at most. The order is that of what they may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Looks at everything but secrets, users, tokens and what others have done.
    Viewer,
    /// Runs the cluster as well: volumes, hosts, devices, maintenance, drains, scrubs, alarms.
    Operator,
    /// And changes who may do what, the settings, and which nodes there are.
    Administrator,
}

impl Role {
    /// All of them, from the least.
    pub const ALL: [Self; 3] = [Self::Viewer, Self::Operator, Self::Administrator];

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Operator => "operator",
            Self::Administrator => "administrator",
        }
    }
}

/// A text that names none of the things that it might.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is none of {1}")]
pub struct UnknownName(String, &'static str);

impl FromStr for Role {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, UnknownName> {
        let found = Self::ALL.into_iter().find(|role| role.name() == text);
        found.ok_or_else(|| UnknownName(text.into(), "viewer, operator, administrator"))
    }
}

impl fmt::Display for Role {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

/// What part of the interface something belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Area {
    /// Volumes and the hosts that they are for.
    Volumes,
    /// What monitoring reads.
    Metrics,
    /// Everything else.
    Cluster,
}

/// For what part of the interface a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// All of it.
    Everything,
    /// Volumes and hosts, as what provisions storage needs; and nothing else.
    Volumes,
    /// The metrics, as Prometheus needs; and nothing else.
    Metrics,
}

impl Scope {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Everything, Self::Volumes, Self::Metrics];

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Everything => "everything",
            Self::Volumes => "volumes",
            Self::Metrics => "metrics",
        }
    }

    /// Whether that part of the interface is among it.
    #[must_use]
    pub const fn has(self, area: Area) -> bool {
        match self {
            Self::Everything => true,
            Self::Volumes => matches!(area, Area::Volumes),
            Self::Metrics => matches!(area, Area::Metrics),
        }
    }
}

impl FromStr for Scope {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, UnknownName> {
        let found = Self::ALL.into_iter().find(|scope| scope.name() == text);
        found.ok_or_else(|| UnknownName(text.into(), "everything, volumes, metrics"))
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

/// What somebody must be to do something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Permission {
    /// The least role that may.
    pub role: Role,
    /// What it belongs to.
    pub area: Area,
}

/// Who somebody is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Who {
    /// A user who has logged in; the id of the session.
    User(UserName, String),
    /// Somebody who has logged in at a provider of identities; the id of the session.
    External(ExternalUser, String),
    /// A program with a token: its id, and what it is called.
    Token(String, Label),
    /// A node of this cluster, or [what runs a demo](Who::DEMO), or who holds its key, by its certificate.
    Node(u16),
}

impl Who {
    /// The number in the certificate of what runs a demo: no node has it.
    pub const DEMO: u16 = 0;
}

impl fmt::Display for Who {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::User(name, _) => write!(formatter, "user {name}"),
            Self::External(user, _) => write!(formatter, "user {user} ({})", user.subject()),
            Self::Token(id, label) => write!(formatter, "token {label} ({id})"),
            Self::Node(Self::DEMO) => formatter.write_str("demo"),
            Self::Node(node) => write!(formatter, "node {node}"),
        }
    }
}

/// Somebody who has shown who he is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// Who.
    pub who: Who,
    /// What that one may at most.
    pub role: Role,
    /// Where.
    pub scope: Scope,
    /// Until when that holds: milliseconds since 1970 (UTC); none without an end.
    pub expires_ms: Option<u64>,
}

impl Caller {
    /// A node of this cluster: it does for others what these were allowed, and on its machine root can do it all anyway.
    #[must_use]
    pub const fn node(node: u16) -> Self {
        Self {
            who: Who::Node(node),
            role: Role::Administrator,
            scope: Scope::Everything,
            expires_ms: None,
        }
    }

    /// Whether it may do that.
    #[must_use]
    pub fn may(&self, permission: Permission) -> bool {
        self.role >= permission.role && self.scope.has(permission.area)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_contain_each_other_and_scopes_take_away() {
        let caller = |role, scope| Caller {
            role,
            scope,
            ..Caller::node(1)
        };
        for (place, role) in Role::ALL.into_iter().enumerate() {
            for (other, needed) in Role::ALL.into_iter().enumerate() {
                for area in [Area::Volumes, Area::Metrics, Area::Cluster] {
                    let permission = Permission { role: needed, area };
                    let everywhere = caller(role, Scope::Everything).may(permission);
                    assert_eq!(everywhere, place >= other, "{role} for {needed}");
                    let volumes = caller(role, Scope::Volumes).may(permission);
                    assert_eq!(volumes, everywhere && area == Area::Volumes);
                    let metrics = caller(role, Scope::Metrics).may(permission);
                    assert_eq!(metrics, everywhere && area == Area::Metrics);
                }
            }
        }
    }

    #[test]
    fn what_runs_a_demo_is_no_node() {
        let name = |node| alloc::string::ToString::to_string(&Who::Node(node));
        assert_eq!((&*name(Who::DEMO), &*name(7)), ("demo", "node 7"));
    }

    #[test]
    fn names_are_read_as_they_are_written() {
        for role in Role::ALL {
            assert_eq!(role.name().parse(), Ok(role));
        }
        for scope in Scope::ALL {
            assert_eq!(scope.name().parse(), Ok(scope));
        }
        let error = "root".parse::<Role>().unwrap_err();
        assert_eq!(
            alloc::string::ToString::to_string(&error),
            "\"root\" is none of viewer, operator, administrator"
        );
    }
}
