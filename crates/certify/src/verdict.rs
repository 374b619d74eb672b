//! Which hosts may use the disk.
//!
//! Invariants:
//! - a host is not "ready" as long as a check that it needs has failed, or was not carried out.

use crate::check::{Check, Group, HostKind, Outcome};

/// Whether a kind of host may use the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// All that it needs is there.
    Ready,
    /// The same, but something else is not as it should be.
    ReadyWithWarnings,
    /// Something that it needs was not tried.
    Undetermined,
    /// Something that it needs is not there.
    NotReady,
}

impl Standing {
    /// Its name in reports for programs.
    #[must_use]
    pub const fn id(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::ReadyWithWarnings => "ready-with-warnings",
            Self::Undetermined => "undetermined",
            Self::NotReady => "not-ready",
        }
    }

    /// Its name for people.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::ReadyWithWarnings => "ready, with warnings",
            Self::Undetermined => "undetermined",
            Self::NotReady => "NOT READY",
        }
    }
}

/// What is to be said of a kind of host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostVerdict {
    /// Which.
    pub host: HostKind,
    /// Whether it may.
    pub standing: Standing,
    /// The checks by which that is so.
    pub because: Vec<&'static str>,
}

/// Judges what came of all checks, for each kind of host.
pub(crate) fn judge(results: &[(&'static Check, Outcome)]) -> Vec<HostVerdict> {
    let hosts = HostKind::ALL.into_iter();
    hosts.map(|host| judge_for(host, results)).collect()
}

fn judge_for(host: HostKind, results: &[(&'static Check, Outcome)]) -> HostVerdict {
    let ids = |matches: &dyn Fn(&Check, &Outcome) -> bool| {
        let found = results
            .iter()
            .filter(|(check, outcome)| matches(check, outcome));
        found.map(|(check, _)| check.id).collect::<Vec<_>>()
    };
    let needs = |check: &Check| check.required_by.contains(&host);
    let failed = ids(&|check, outcome| needs(check) && matches!(outcome, Outcome::Failed { .. }));
    let open = ids(&|check, outcome| {
        // Whether something is restarted is up to who asks.
        let is_asked_for = check.group != Group::Restart;
        let is_open = match outcome {
            Outcome::NotRun { .. } => true,
            Outcome::Skipped { .. } => is_asked_for,
            _ => false,
        };
        needs(check) && is_open
    });
    let doubtful =
        ids(&|_, outcome| matches!(outcome, Outcome::Warning { .. } | Outcome::Failed { .. }));
    let (standing, because) = match (failed.is_empty(), open.is_empty(), doubtful.is_empty()) {
        (false, _, _) => (Standing::NotReady, failed),
        (_, false, _) => (Standing::Undetermined, open),
        (_, _, false) => (Standing::ReadyWithWarnings, doubtful),
        _ => (Standing::Ready, Vec::new()),
    };
    HostVerdict {
        host,
        standing,
        because,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks;

    fn results(change: &[(&str, Outcome)]) -> Vec<(&'static Check, Outcome)> {
        let passed = || Outcome::Passed {
            note: String::new(),
        };
        let outcome = |check: &Check| {
            let found = change.iter().find(|(id, _)| *id == check.id);
            found.map_or_else(passed, |(_, outcome)| outcome.clone())
        };
        checks::all().map(|check| (check, outcome(check))).collect()
    }

    fn standings(change: &[(&str, Outcome)]) -> [Standing; 4] {
        let verdicts = judge(&results(change));
        std::array::from_fn(|index| verdicts[index].standing)
    }

    fn failure() -> Outcome {
        Outcome::Failed {
            expected: "this".to_owned(),
            seen: "that".to_owned(),
        }
    }

    #[test]
    fn who_needs_what_is_broken_is_not_ready() {
        use Standing::{NotReady, Ready, ReadyWithWarnings, Undetermined};
        assert_eq!(standings(&[]), [Ready; 4]);
        // Windows, VMware, Pacemaker, dm-multipath.
        assert_eq!(
            standings(&[("reservations.preempt", failure())]),
            [NotReady, ReadyWithWarnings, NotReady, ReadyWithWarnings]
        );
        assert_eq!(
            standings(&[("reservations.preempt-abort", failure())]),
            [
                ReadyWithWarnings,
                ReadyWithWarnings,
                NotReady,
                ReadyWithWarnings
            ]
        );
        let skipped = || Outcome::Skipped {
            reason: "one path".to_owned(),
        };
        assert_eq!(
            standings(&[("multipath.coherence", skipped())]),
            [Undetermined, Undetermined, Ready, Undetermined]
        );
        assert_eq!(standings(&[("restart.pause", skipped())]), [Ready; 4]);
        let absent = Outcome::NotApplicable {
            reason: "TPGS 00b".to_owned(),
        };
        assert_eq!(standings(&[("multipath.states", absent)]), [Ready; 4]);
        let not_run = Outcome::NotRun {
            reason: "interrupted".to_owned(),
        };
        let both = [("identity.serial", not_run), ("identity.units", failure())];
        assert_eq!(standings(&both)[0], NotReady, "the worse one counts");
    }
}
