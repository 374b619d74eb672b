//! What a check is, and what comes of one.
//!
//! Invariants:
//! - an id is never given to another check, and never changes: reports are compared by them;
//! - a check that could not be carried out is never "passed".

use std::future::Future;
use std::pin::Pin;

use crate::bench::Bench;

/// Kinds of hosts that share disks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum HostKind {
    /// Windows Server failover clusters, and SQL Server on them.
    Windows,
    /// VMware ESXi with VMFS.
    Vmware,
    /// Pacemaker with `fence_scsi` or `fence_mpath`.
    Pacemaker,
    /// Linux with dm-multipath.
    Multipath,
}

impl HostKind {
    /// All of them, in the order of reports.
    pub const ALL: [Self; 4] = [
        Self::Windows,
        Self::Vmware,
        Self::Pacemaker,
        Self::Multipath,
    ];

    /// Its name in reports for programs.
    #[must_use]
    pub const fn id(self) -> &'static str {
        match self {
            Self::Windows => "windows-failover-cluster",
            Self::Vmware => "vmware-vmfs",
            Self::Pacemaker => "pacemaker-fence-scsi",
            Self::Multipath => "linux-dm-multipath",
        }
    }

    /// Its name for people.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Windows => "Windows Server failover cluster",
            Self::Vmware => "VMware ESXi with VMFS",
            Self::Pacemaker => "Pacemaker with fence_scsi or fence_mpath",
            Self::Multipath => "Linux with dm-multipath",
        }
    }
}

/// What checks are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Group {
    /// By what a host knows that two paths lead to one disk, and two disks are two.
    Identity,
    /// How large the disk is, and what one command may ask of it.
    Capacity,
    /// Persistent reservations.
    Reservations,
    /// Who owns a disk, where hosts cannot talk to each other.
    Arbitration,
    /// A disk goes from one host to another.
    Failover,
    /// Several ways to one disk.
    Multipath,
    /// Resets and aborts.
    Tasks,
    /// Space that is given back.
    Provisioning,
    /// Locks in a block.
    Atomic,
    /// What is acknowledged, and where it is then.
    Caching,
    /// How long commands take.
    Latency,
    /// A node, or a path, is restarted in the middle.
    Restart,
}

impl Group {
    /// Its name: what ids of its checks begin with.
    #[must_use]
    pub const fn id(self) -> &'static str {
        match self {
            Self::Identity => "identity",
            Self::Capacity => "capacity",
            Self::Reservations => "reservations",
            Self::Arbitration => "arbitration",
            Self::Failover => "failover",
            Self::Multipath => "multipath",
            Self::Tasks => "tasks",
            Self::Provisioning => "provisioning",
            Self::Atomic => "atomic",
            Self::Caching => "caching",
            Self::Latency => "latency",
            Self::Restart => "restart",
        }
    }

    /// Its heading for people.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Self::Identity => "Identity",
            Self::Capacity => "Capacity and limits",
            Self::Reservations => "Persistent reservations",
            Self::Arbitration => "Arbitration",
            Self::Failover => "Failover",
            Self::Multipath => "Multipath",
            Self::Tasks => "Task management",
            Self::Provisioning => "Thin provisioning",
            Self::Atomic => "Compare and write",
            Self::Caching => "Caching",
            Self::Latency => "Latency",
            Self::Restart => "Restart",
        }
    }
}

/// One check.
#[derive(Clone, Copy, Debug)]
pub struct Check {
    /// Its name, for ever.
    pub id: &'static str,
    /// What it is about.
    pub group: Group,
    /// What is to be so.
    pub title: &'static str,
    /// What is done to find out.
    pub does: &'static str,
    /// Where that is demanded.
    pub clause: &'static str,
    /// What hosts do where it is not so.
    pub consequence: &'static str,
    /// Hosts that do not work without.
    pub required_by: &'static [HostKind],
    pub(crate) run: Run,
}

/// How a check is carried out.
pub(crate) type Run = for<'a> fn(&'a mut Bench) -> Running<'a>;
pub(crate) type Running<'a> = Pin<Box<dyn Future<Output = Checked> + 'a>>;

/// What comes of a check while it runs.
pub(crate) type Checked = Result<Fine, Unmet>;

/// It is so.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fine {
    /// Figures, or what was seen; may be empty.
    pub(crate) note: String,
    /// What is legal, and will cause trouble all the same.
    pub(crate) warning: Option<String>,
}

/// It is so, and that is all.
pub(crate) const FINE: Checked = Ok(Fine {
    note: String::new(),
    warning: None,
});

/// It is so, and this was seen.
pub(crate) fn fine(note: impl Into<String>) -> Checked {
    Ok(Fine {
        note: note.into(),
        warning: None,
    })
}

/// It is so, but.
pub(crate) fn warn(warning: impl Into<String>) -> Checked {
    Ok(Fine {
        note: String::new(),
        warning: Some(warning.into()),
    })
}

/// Why it is not known to be so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unmet {
    /// It is not so.
    Failed { expected: String, seen: String },
    /// The target does not offer what this is about, and need not.
    NotApplicable(String),
    /// The circumstances do not allow to find out.
    Skipped(String),
    /// Something else is broken.
    NotRun(String),
}

/// It is not so.
pub(crate) fn failed(expected: impl Into<String>, seen: impl Into<String>) -> Unmet {
    Unmet::Failed {
        expected: expected.into(),
        seen: seen.into(),
    }
}

/// `Ok` if it is so.
pub(crate) fn ensure(
    is_so: bool,
    expected: impl Into<String>,
    seen: impl FnOnce() -> String,
) -> Result<(), Unmet> {
    match is_so {
        true => Ok(()),
        false => Err(failed(expected, seen())),
    }
}

/// What came of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is so.
    Passed {
        /// Figures, or what was seen; may be empty.
        note: String,
    },
    /// It is so, but hosts may have trouble with it.
    Warning {
        /// What to know.
        warning: String,
    },
    /// It is not so.
    Failed {
        /// What was to be seen.
        expected: String,
        /// What was.
        seen: String,
    },
    /// The target does not offer what this is about, and need not.
    NotApplicable {
        /// How that is known.
        reason: String,
    },
    /// The circumstances do not allow to find out.
    Skipped {
        /// Which.
        reason: String,
    },
    /// Something else is broken, or the run was interrupted.
    NotRun {
        /// What.
        reason: String,
    },
}

impl Outcome {
    /// Its name in reports.
    #[must_use]
    pub const fn id(&self) -> &'static str {
        match self {
            Self::Passed { .. } => "passed",
            Self::Warning { .. } => "warning",
            Self::Failed { .. } => "failed",
            Self::NotApplicable { .. } => "not-applicable",
            Self::Skipped { .. } => "skipped",
            Self::NotRun { .. } => "not-run",
        }
    }
}

impl From<Checked> for Outcome {
    fn from(checked: Checked) -> Self {
        match checked {
            Ok(Fine {
                warning: Some(warning),
                ..
            }) => Self::Warning { warning },
            Ok(Fine { note, .. }) => Self::Passed { note },
            Err(Unmet::Failed { expected, seen }) => Self::Failed { expected, seen },
            Err(Unmet::NotApplicable(reason)) => Self::NotApplicable { reason },
            Err(Unmet::Skipped(reason)) => Self::Skipped { reason },
            Err(Unmet::NotRun(reason)) => Self::NotRun { reason },
        }
    }
}
