//! The table of all checks: a file for each group.

mod arbitration;
mod atomic;
mod caching;
mod capacity;
mod failover;
mod identity;
mod latency;
mod multipath;
mod provisioning;
mod reservations;
mod restart;
mod tasks;

use crate::check::Check;

/// All checks, in the order in which they are carried out.
pub fn all() -> impl Iterator<Item = &'static Check> {
    let before: [&[Check]; 2] = [identity::CHECKS, capacity::CHECKS];
    let after: [&[Check]; 9] = [
        arbitration::CHECKS,
        failover::CHECKS,
        multipath::CHECKS,
        tasks::CHECKS,
        provisioning::CHECKS,
        atomic::CHECKS,
        caching::CHECKS,
        latency::CHECKS,
        restart::CHECKS,
    ];
    let groups = before.into_iter().chain(reservations::CHECKS).chain(after);
    groups.flatten()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::check::HostKind;

    #[test]
    fn each_check_has_a_name_of_its_own_and_says_everything() {
        let mut ids = BTreeSet::new();
        for check in all() {
            assert!(ids.insert(check.id), "{} is there twice", check.id);
            let group = check.group.id();
            assert!(check.id.starts_with(&format!("{group}.")), "{}", check.id);
            for text in [check.title, check.does, check.clause, check.consequence] {
                assert!(!text.is_empty() && !text.ends_with('.'), "{}", check.id);
            }
        }
        for host in HostKind::ALL {
            let needed = all().filter(|check| check.required_by.contains(&host));
            assert!(needed.count() > 5, "{host:?}");
        }
    }

    /// Reports are compared by ids: this list grows, and nothing in it changes.
    #[test]
    fn ids_are_for_ever() {
        let ids: Vec<&str> = all().map(|check| check.id).collect();
        assert_eq!(ids.join("\n") + "\n", include_str!("checks/ids.txt"));
    }
}
