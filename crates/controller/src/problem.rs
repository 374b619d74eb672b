//! What goes wrong here, as problem documents: the words, and the hints.

use std::fmt;

use holdfast_api::documents::{Astray, LocalMetadata, LocalReport, Rejected};
use holdfast_api::{Problem, ProblemKind};
use holdfast_control::{
    IscsiNodeName, NameError, PlanError, UnitPlace, VolumeName, VolumeSizeError,
};
use holdfast_model::ByteSize;
use holdfast_model::metadata::MetadataError;
use holdfast_stdx::Count;

pub(crate) fn metadata(error: MetadataError) -> Problem {
    match error {
        MetadataError::Unavailable => Problem::new(
            ProblemKind::Unavailable,
            "the metadata store does not answer; what was asked for may or may not have been done",
        )
        .hint("nodes go on serving their volumes meanwhile; look at the store, and try again"),
        MetadataError::Invalid => {
            Problem::new(ProblemKind::ClusterFull, "the metadata store takes no more")
                .hint("delete volumes that are not needed")
        }
        MetadataError::Full => full(),
        MetadataError::Compacted(_) | MetadataError::NoSuchLease => {
            Problem::new(ProblemKind::Internal, error)
        }
    }
}

/// What an attempt found, after another one of which nobody knows what came of it: that something was changed may be its
/// own doing.
pub(crate) fn or_unknown(found: Problem, may_be_done: bool) -> Problem {
    if may_be_done && found.kind == ProblemKind::PreconditionFailed {
        return metadata(MetadataError::Unavailable);
    }
    found
}

/// A key that another request bore.
pub(crate) fn key_reused(error: impl fmt::Display) -> Problem {
    Problem::new(ProblemKind::KeyReused, error)
        .hint("a key is for one request and its repetitions: choose another one")
}

/// What a key's request made is no more.
pub(crate) fn made_and_gone(name: &VolumeName) -> Problem {
    let detail = format!("volume {name} was made for this key, and deleted since");
    Problem::new(ProblemKind::NoSuchVolume, detail).hint("to make it once more choose another key")
}

/// The metadata takes no change before somebody has made room.
fn full() -> Problem {
    Problem::new(
        ProblemKind::ClusterFull,
        "the metadata store is full, and takes no change: what was asked for, or the rest of it, was not done",
    )
    .hint(
        "nodes go on serving their volumes meanwhile; compact etcd's history, `etcdctl defrag`, `etcdctl alarm \
         disarm`, then try again",
    )
}

/// For what was only read.
pub(crate) fn unread(error: MetadataError) -> Problem {
    match error {
        MetadataError::Unavailable => Problem::new(
            ProblemKind::Unavailable,
            "the metadata store does not answer",
        )
        .hint(
            "nodes go on serving their volumes meanwhile; start what keeps the metadata: of etcd's members, which nodes and \
             witnesses start where `etcd.members` names them, more than half have to be up (a demo's store is in `holdfast demo` itself); where the data of so many is \
             lost for good: \"When the metadata is lost for good\" in docs/deployment.md",
        ),
        other => metadata(other),
    }
}

/// The metadata answers, and knows of no cluster: nobody has made it yet, or what was there is lost. A node that
/// holds data, or belongs to a cluster by what it holds, tells which, and so does whoever has seen the cluster there.
pub(crate) fn no_cluster(own: Option<&LocalReport>, has_seen_it: bool) -> Problem {
    let holds = |report: &&LocalReport| {
        !report.slices.is_empty() || report.metadata == LocalMetadata::Behind
    };
    let witness = match own.filter(holds) {
        Some(own) => Some(format!("while {} holds data of the cluster", own.name)),
        None => has_seen_it.then(|| "and held the cluster before".to_owned()),
    };
    let Some(witness) = witness else {
        return Problem::new(
            ProblemKind::Unavailable,
            "the metadata answers, and holds no cluster yet",
        )
        .hint(
            "start the cluster's first node; where nodes hold data of a cluster already, its metadata is lost, or this is \
             another one: ask a node that holds some",
        );
    };
    let detail = format!(
        "the metadata answers, and is empty, {witness}: it is lost, or what answers is another one"
    );
    Problem::new(ProblemKind::Unavailable, detail).hint(
        "look at the addresses of the metadata in the configuration, and bring the right one back; if it is lost for good, \
         `holdfast recover` makes it again from the nodes' devices (\"When the metadata is lost for good\" in \
         docs/deployment.md). Start no node without data until \
         then: it would make a new cluster there",
    )
}

/// For what would have been changed.
pub(crate) fn gone_back() -> Problem {
    Problem::new(
        ProblemKind::Unavailable,
        "the metadata has gone back, or is another cluster's: nothing is changed in it",
    )
    .hint(
        "nodes go on serving their volumes meanwhile; stop the metadata, bring back its newest state, and \
         try again",
    )
}

/// Nothing is changed in metadata that a node believes nothing of.
pub(crate) fn not_believed(node: &str, why: Option<&Astray>) -> Problem {
    let (why, helps) = match why {
        Some(Astray { why, remedies }) => (&**why, remedies.join("; or ")),
        None => (
            "it has gone back, or is another cluster's",
            format!("the log of {node} says more"),
        ),
    };
    let detail = format!("{node} does not believe the metadata: {why}; nothing is changed");
    Problem::new(ProblemKind::Unavailable, detail).hint(format!(
        "nodes go on serving their volumes meanwhile; {helps}"
    ))
}

/// Nothing is changed through a node that has yet to look at the metadata, or does not reach it.
pub(crate) fn not_followed(own: &LocalReport) -> Problem {
    if own.metadata_full {
        return full();
    }
    let name = &own.name;
    let why = match &own.awaited_device {
        Some(device) => {
            format!("has not looked at the metadata yet, for it waits for its device {device}")
        }
        None if !own.open => "has not opened its devices yet".to_owned(),
        None => "does not reach the metadata, or has yet to register in it".to_owned(),
    };
    let detail =
        format!("{name} {why}: nothing is changed through it until it follows the metadata");
    Problem::new(ProblemKind::Unavailable, detail).hint(
        "ask another node (`--api`), or try again; `holdfast status --explain` says what is waited for",
    )
}

/// Too many ask at a time.
pub(crate) fn busy() -> Problem {
    let detail = format!(
        "{} others wait already to be told about the whole cluster",
        crate::READERS_MAX
    );
    Problem::new(ProblemKind::Busy, detail).hint("try again in a moment, or ask another node")
}

pub(crate) fn no_node() -> Problem {
    Problem::new(ProblemKind::NoNode, "there is no node in this process")
        .hint("ask a node's own API; `holdfast node list` tells where they answer")
}

/// What answers at a node's address is not that node.
pub(crate) fn another_answers(name: &str) -> Problem {
    let detail = format!(
        "what answers at the address of {name} is another machine, or an earlier start of it"
    );
    Problem::new(ProblemKind::Unavailable, detail)
        .hint("its own log and `holdfast status`, asked there, say what it is")
}

/// A node has yet to register, or what answers has yet to show that it is the node.
pub(crate) fn unregistered(name: &str) -> Problem {
    let detail = format!("{name} has not registered since it started: nothing is ordered there");
    Problem::new(ProblemKind::Unavailable, detail).hint(
        "it registers by itself as soon as its devices are open and it reaches the metadata; its log, and `holdfast \
         status --explain`, say what it waits for",
    )
}

/// A node is of a version that does not say which devices it has.
pub(crate) fn unnamed_store(name: &str) -> Problem {
    let detail = format!(
        "{name} is of an earlier version, which does not say whether it has the devices that are on record"
    );
    Problem::new(ProblemKind::Unavailable, detail).hint(format!(
        "update {name} first, or give the order at its own API (`--api`)"
    ))
}

/// Nothing is changed through a process that is not the node of its number. What helps it is told, too: it may be meant.
pub(crate) fn changed_elsewhere(own: &str, rejected: &Rejected) -> Problem {
    let Rejected { why, remedies } = rejected;
    let detail = format!(
        "the node that answers, {own}, is not registered: {why}; nothing is changed through it"
    );
    let elsewhere = "give the order at the address of another node (`--api`): `holdfast node list` tells where they answer";
    let itself = match remedies.as_slice() {
        [] => String::new(),
        some => format!("; for {own} itself: {}", some.join("; or ")),
    };
    Problem::new(ProblemKind::Refused, detail).hint(format!("{elsewhere}{itself}"))
}

pub(crate) fn conflict(name: &VolumeName) -> Problem {
    Problem::new(
        ProblemKind::Conflict,
        format!("others change volume {name}, or make volumes, at the same time"),
    )
    .hint("try again")
}

pub(crate) fn in_use(name: &VolumeName, sessions: u32) -> Problem {
    let them = Count::of(sessions, "session");
    Problem::new(
        ProblemKind::VolumeInUse,
        format!("volume {name} is in use: initiators have {them} with its target"),
    )
    .hint(format!(
        "log them out first; `holdfast volume delete {name} --force` takes it away from them"
    ))
}

pub(crate) fn may_be_in_use(name: &VolumeName, node: &str) -> Problem {
    Problem::new(
        ProblemKind::VolumeInUse,
        format!("node {node} does not say whether initiators use volume {name} there"),
    )
    .hint(format!(
        "start the node first; if it is off, `holdfast volume delete {name} --force`"
    ))
}

pub(crate) fn name(error: NameError) -> Problem {
    Problem::new(ProblemKind::Invalid, error).hint("a good name is, for example, sql-data.01")
}

pub(crate) fn size(error: VolumeSizeError) -> Problem {
    let hint = match error {
        VolumeSizeError::Empty | VolumeSizeError::NotWhole { .. } => {
            "sizes in MiB, GiB or TiB always fit, for example 4GiB"
        }
        VolumeSizeError::TooLarge => "make several volumes, and join them on the host",
    };
    Problem::new(ProblemKind::Invalid, error).hint(hint)
}

/// The unit that a request names, if it names one.
pub(crate) fn unit(
    name: &VolumeName,
    target: Option<&str>,
    lun: Option<u16>,
) -> Result<Option<UnitPlace>, Problem> {
    let target = target.map(str::parse::<IscsiNodeName>).transpose();
    let target = target.map_err(|error| {
        Problem::new(ProblemKind::Invalid, error)
            .hint("without one the volume has a target of its own")
    })?;
    UnitPlace::wanted(name, target, lun).map_err(|error| Problem::new(ProblemKind::Invalid, error))
}

pub(crate) fn plan(name: &VolumeName, error: PlanError) -> Problem {
    match error {
        PlanError::NoSuchVolume => Problem::new(
            ProblemKind::NoSuchVolume,
            format!("there is no volume {name}"),
        )
        .hint("`holdfast volume list` tells which there are"),
        PlanError::Damaged(_) => Problem::new(ProblemKind::VolumeExists, error).hint(
            "choose another name, or `holdfast volume delete` this one: what is left of that volume is deleted then; where it had \
             data, the metadata is damaged: \"When the metadata is lost for good\" in docs/deployment.md",
        ),
        PlanError::Exists { bytes, policy } => Problem::new(
            ProblemKind::VolumeExists,
            format!(
                "there is a volume {name} already, of {} and {policy}",
                ByteSize(bytes)
            ),
        )
        .hint("choose another name, or the same size and policy; `holdfast volume grow` enlarges"),
        PlanError::Shrinks { bytes } => Problem::new(
            ProblemKind::VolumeShrinks,
            format!(
                "volume {name} has {} already, and volumes do not shrink",
                ByteSize(bytes)
            ),
        )
        .hint("make a smaller volume and copy the data"),
        PlanError::TooFewNodes { policy, nodes } => {
            let hint = format!("add nodes, or choose a policy that needs {nodes} at most");
            Problem::new(ProblemKind::TooFewNodes, error).hint(if policy.copies() > 1 {
                hint
            } else {
                "start a node".to_owned()
            })
        }
        PlanError::TooFewUp { .. } => Problem::new(ProblemKind::TooFewNodes, error)
            .hint("start the nodes that are down: `holdfast node list` tells which"),
        PlanError::TooFewDomains { domains, .. } => {
            let hint = format!(
                "add a node in another failure domain, or choose a policy that needs {domains} at most; `holdfast node list` \
                 tells in which domain each is, by `failure_domain` in its configuration"
            );
            Problem::new(ProblemKind::TooFewNodes, error).hint(hint)
        }
        PlanError::TooFewDomainsUp { .. } => Problem::new(ProblemKind::TooFewNodes, error).hint(
            "start a node of another failure domain: `holdfast node list` tells which are down, and in which domain each is",
        ),
        PlanError::OtherPlace => Problem::new(ProblemKind::VolumeExists, error)
            .hint("choose another name: a volume's target and LUN never change"),
        PlanError::UnitTaken(_) | PlanError::UnitKept => {
            Problem::new(ProblemKind::VolumeExists, error).hint("choose another LUN (`--lun`)")
        }
        PlanError::Full => {
            Problem::new(ProblemKind::ClusterFull, error).hint("delete volumes that are not needed")
        }
    }
}

#[cfg(test)]
mod tests {
    use holdfast_api::documents::LocalSlice;

    use super::*;

    #[test]
    fn metadata_that_was_lost_is_told_from_that_of_a_new_cluster() {
        let own = LocalReport {
            name: "n1".to_owned(),
            ..LocalReport::default()
        };
        for fresh in [None, Some(&own)] {
            let problem = no_cluster(fresh, false);
            assert_eq!(problem.kind, ProblemKind::Unavailable);
            let hint = problem.hint.unwrap_or_default();
            assert!(hint.starts_with("start the cluster's first node"), "{hint}");
        }
        // As a demo, which has no node in its process, or a node that holds nothing.
        let seen = no_cluster(None, true);
        assert!(
            seen.detail.contains("and held the cluster before"),
            "{seen}"
        );
        assert!(seen.hint.unwrap_or_default().contains("`holdfast recover`"));
        // One that has just started does not believe it; one that ran on leads what it led.
        let started = LocalReport {
            metadata: LocalMetadata::Behind,
            ..own.clone()
        };
        let ran_on = LocalReport {
            slices: vec![LocalSlice::default()],
            ..own
        };
        for holds in [&started, &ran_on] {
            let problem = no_cluster(Some(holds), false);
            assert!(problem.detail.contains("while n1 holds data"), "{problem}");
            let hint = problem.hint.unwrap_or_default();
            assert!(hint.contains("`holdfast recover`"), "{hint}");
            assert!(!hint.contains("first node"), "{hint}");
        }
    }
}
