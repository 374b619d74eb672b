//! Nodes on which nothing can be relied, in words: what is the matter, what is waited for, and what helps.

use holdfast_api::documents::{AwaitedCause, LocalMetadata, Remedy};

use super::explain::{metadata_remedies, metadata_words, remedy, start};
use super::last;
use crate::reports::Absence;

/// What is the matter with a node, after its name.
pub(super) fn words(absence: &Absence) -> String {
    match absence {
        Absence::Down => "does not answer".to_owned(),
        Absence::Stopped => "was stopped".to_owned(),
        Absence::Awaits(device, cause) => {
            let which = match cause {
                AwaitedCause::Missing | AwaitedCause::Other => "is not there",
                AwaitedCause::Needed => "is not there, and can do nothing without it",
                AwaitedCause::Failed => "has failed, and can do nothing without it",
                AwaitedCause::CutShort => "is shorter than it was, and can do nothing without it",
            };
            format!("waits for its device {device}, which {which}")
        }
        Absence::Opening => "has just started, and opens its devices".to_owned(),
        Absence::Shut => "has not opened its devices, or they have failed".to_owned(),
        Absence::Unregistered => "has not registered since it started".to_owned(),
        Absence::Estranged(by) => {
            format!("follows another copy of the metadata than {by}, and neither hears the other")
        }
        Absence::Disbelieves(why) => metadata_words(LocalMetadata::Behind, why.as_ref()),
    }
}

/// The same in short of one that does not answer; nothing of one that does.
pub(super) const fn silence(absence: &Absence) -> Option<&'static str> {
    match absence {
        Absence::Down => Some("is down"),
        Absence::Stopped => Some("was stopped"),
        _ => None,
    }
}

/// What is waited for.
pub(super) fn waits_for(absence: &Absence, node: &str) -> String {
    match absence {
        Absence::Down | Absence::Stopped => format!("{node} to come back"),
        Absence::Awaits(device, AwaitedCause::Failed) => format!("{device} of {node} to work"),
        Absence::Awaits(device, AwaitedCause::CutShort) => {
            format!("{device} of {node} to be as long as it was")
        }
        Absence::Awaits(device, _) => format!("{device} of {node} to be there"),
        Absence::Opening | Absence::Shut => format!("{node} to open its devices"),
        Absence::Unregistered => format!("{node} to register"),
        Absence::Disbelieves(_) => format!("{node} to follow the metadata again"),
        Absence::Estranged(by) => format!("{node} and {by} to follow the same metadata"),
    }
}

/// What an operator may do: one of these. `last` are the volumes of which the node has the last good copy of something.
pub(super) fn helps(absence: &Absence, node: &str, last: &[String]) -> Vec<Remedy> {
    vec![match absence {
        Absence::Down | Absence::Stopped => start(node),
        Absence::Awaits(device, cause) => return device_helps(device, *cause, node, last),
        Absence::Estranged(by) => remedy(format!(
            "see whether the addresses of the metadata in the configurations of {node} and {by} are right, and bring the right \
             metadata back where another one answers: both go on by themselves then"
        )),
        Absence::Disbelieves(why) => {
            return metadata_remedies(LocalMetadata::Behind, why.as_ref(), node);
        }
        Absence::Opening => remedy(
            "wait: it takes moments, or longer where there is much in its journals to read"
                .to_owned(),
        ),
        Absence::Shut => remedy(format!(
            "look into the log of {node} for what is wrong with its devices"
        )),
        Absence::Unregistered => remedy(format!(
            "look at the way from {node} to the metadata, and whether that takes changes; its log tells what it tries"
        )),
    }]
}

fn device_helps(device: &str, cause: AwaitedCause, node: &str, last: &[String]) -> Vec<Remedy> {
    let is_there = format!("see that {device} is there: a cable, a controller, a driver");
    let see = match cause {
        AwaitedCause::Missing | AwaitedCause::Other => {
            return vec![remedy(format!(
                "{is_there}; {node} starts without it soon, if it can"
            ))];
        }
        AwaitedCause::Needed => is_there,
        AwaitedCause::Failed => format!(
            "see that {device} works: its log, and the kernel's (`dmesg`), tell how it failed, and it is tried again each \
             minute"
        ),
        AwaitedCause::CutShort => format!(
            "make {device} as long as it was, with what was in it, from its newest copy: the log of {node} tells how long it is, \
             and was"
        ),
    };
    vec![
        remedy(format!("{see}; {node} goes on by itself then")),
        match last {
            [] => remedy(format!(
                "if it is lost for good, give {node} blank devices, and it is filled by others: \"Devices\" in \
                 docs/deployment.md"
            )),
            last => last::bring_back(node, last),
        },
    ]
}
