//! Nodes on which nothing can be relied, in words: what is the matter, what is waited for, and what helps.

use holdfast_api::documents::Remedy;

use super::explain::{remedy, start};
use crate::reports::Absence;

/// What is the matter with a node, after its name.
pub(super) fn words(absence: &Absence) -> String {
    match absence {
        Absence::Down => "does not answer".to_owned(),
        Absence::Awaits(device) => format!("waits for its device {device}, which is not there"),
        Absence::Shut => "has not opened its devices, or they have failed".to_owned(),
        Absence::Unregistered => "has not registered since it started".to_owned(),
    }
}

/// What is waited for.
pub(super) fn waits_for(absence: &Absence, node: &str) -> String {
    match absence {
        Absence::Down => format!("{node} to come back"),
        Absence::Awaits(device) => format!("{device} of {node} to be there"),
        Absence::Shut => format!("{node} to open its devices"),
        Absence::Unregistered => format!("{node} to register"),
    }
}

/// What an operator may do.
pub(super) fn helps(absence: &Absence, node: &str) -> Remedy {
    match absence {
        Absence::Down => start(node),
        Absence::Awaits(device) => remedy(format!(
            "see that {device} is there: a cable, a controller, a driver; {node} starts without it soon, if it can"
        )),
        Absence::Shut => remedy(format!(
            "look into the log of {node} for what is wrong with its devices"
        )),
        Absence::Unregistered => remedy(format!(
            "look at the way from {node} to the metadata, and whether that takes changes; its log tells what it tries"
        )),
    }
}
