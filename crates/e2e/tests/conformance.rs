//! libiscsi's conformance suite on every node: passed, and not skipped.

use std::collections::BTreeSet;
use std::thread;

use anyhow::{Result, bail, ensure};
use holdfast_e2e::conformance::{self, Verdict};
use holdfast_e2e::host::Host;
use holdfast_e2e::image::url;
use holdfast_e2e::{DemoOptions, scenario};

/// The suites that this target is meant to pass.
const SUITES: [&str; 37] = [
    "TestUnitReady",
    "Inquiry",
    "Mandatory",
    "ReadCapacity10",
    "ReadCapacity16",
    "Read6",
    "Read10",
    "Read12",
    "Read16",
    "Write10",
    "Write12",
    "Write16",
    "WriteVerify10",
    "WriteVerify12",
    "WriteVerify16",
    "Verify10",
    "Verify12",
    "Verify16",
    "WriteSame10",
    "WriteSame16",
    "Unmap",
    "GetLBAStatus",
    "CompareAndWrite",
    "OrWrite",
    "WriteAtomic16",
    "Prefetch10",
    "Prefetch16",
    "ModeSense6",
    "ReportSupportedOpcodes",
    "ExtendedCopy",
    "ReceiveCopyResults",
    "NoMedia",
    "StartStopUnit",
    "iSCSIcmdsn",
    "iSCSIdatasn",
    "iSCSIResiduals",
    "iSCSITMF",
];
/// Software write protection is not a feature of this target, and its media cannot be removed.
const MAY_SKIP: [&str; 2] = ["ModeSense6.Control-SWP", "StartStopUnit.Simple"];
/// What they ask for is said not to be there: media that can be removed, or are protected, defects, and devices that can be erased
/// at once. `docs/conformance.md` says why.
const SUITES_SKIPPED: [&str; 5] = [
    "PreventAllow",
    "ReadDefectData10",
    "ReadDefectData12",
    "ReadOnly",
    "Sanitize",
];
/// What is reserved through one node is reserved on all: these have two initiators, and run through one node, and through every
/// two.
const SUITES_OF_RESERVATIONS: [&str; 8] = [
    "PrinReadKeys",
    "PrinServiceactionRange",
    "PrinReportCapabilities",
    "ProutRegister",
    "ProutReserve",
    "ProutClear",
    "ProutPreempt",
    "Reserve6",
];
/// Those that use two ways at once.
const SUITES_OF_TWO_PATHS: [&str; 2] = ["MultipathIO.Simple", "MultipathIO.CompareAndWriteAsync"];
/// One that wants the block behind those that it clears to hold zeros, and leaves it with something else: it is
/// run once, on a volume that is new.
const SUITE_OF_A_NEW_VOLUME: &str = "MultipathIO.CompareAndWrite";

/// Each on a volume of its own, so that they need not wait for each other.
#[test]
fn every_node_passes_the_suites() {
    let options = DemoOptions {
        volumes: vec!["a:4GiB:mirror2", "b:4GiB:mirror2", "c:4GiB:mirror2"],
        ..DemoOptions::default()
    };
    scenario(options, |demo| {
        let file = demo.file();
        for volume in &file.volumes {
            Host::open(demo, &volume.name)?.wait_for_all_groups(2)?;
        }
        ensure!(file.nodes.len() == file.volumes.len(), "one for each node");
        let found: Vec<Result<Vec<String>>> = thread::scope(|scope| {
            let places = file.nodes.iter().zip(&file.volumes);
            let runs: Vec<_> = places
                .map(|(node, volume)| {
                    let url = url(node.portal, &volume.target, volume.lun);
                    scope.spawn(move || complaints_at(&url, &node.name))
                })
                .collect();
            let ends = runs.into_iter().map(|run| run.join());
            ends.map(|end| end.unwrap_or_else(|_| bail!("a run has panicked")))
                .collect()
        });
        let mut complaints = Vec::new();
        for of_node in found {
            complaints.extend(of_node?);
        }
        let count = complaints.len();
        ensure!(count == 0, "{count} tests:\n{}", complaints.join("\n"));
        Ok(())
    });
}

/// What all suites that need one way complain about there.
fn complaints_at(url: &str, node: &str) -> Result<Vec<String>> {
    let mut complaints = Vec::new();
    for suite in SUITES.into_iter().chain(SUITES_OF_RESERVATIONS) {
        complaints.extend(complaints_of(suite, url, node)?);
    }
    for suite in SUITES_SKIPPED {
        let outcome = conformance::run(suite, url)?;
        let found = outcome.tests.iter();
        let found = found.filter(|test| test.verdict != Verdict::Skipped);
        complaints.extend(found.map(|test| format!("{node}: {test}")));
    }
    Ok(complaints)
}

/// There is no suite that is run nowhere.
#[test]
fn no_suite_is_left_out() -> Result<()> {
    let paths = SUITES_OF_TWO_PATHS
        .into_iter()
        .chain([SUITE_OF_A_NEW_VOLUME]);
    let paths = paths.filter_map(|test| Some(test.split_once('.')?.0));
    let run: BTreeSet<&str> = SUITES
        .into_iter()
        .chain(SUITES_OF_RESERVATIONS)
        .chain(SUITES_SKIPPED)
        .chain(paths)
        .collect();
    let known = conformance::suites()?;
    let known: BTreeSet<&str> = known.iter().map(String::as_str).collect();
    ensure!(run == known, "{:?}", run.symmetric_difference(&known));
    Ok(())
}

/// Of hosts that compare at the same moment, through different nodes, one wins.
#[test]
fn all_nodes_are_ways_to_one_disk() {
    scenario(DemoOptions::default(), |demo| {
        Host::open(demo, "demo")?.wait_for_all_groups(2)?;
        let file = demo.file();
        let volume = file.volume("demo")?;
        let nodes = file.nodes.iter();
        let urls: Vec<String> = nodes
            .map(|node| url(node.portal, &volume.target, volume.lun))
            .collect();
        let urls: Vec<&str> = urls.iter().map(String::as_str).collect();
        let mut runs = vec![(SUITE_OF_A_NEW_VOLUME, [urls[0], urls[1]])];
        for (first, one) in urls.iter().enumerate() {
            for other in &urls[first + 1..] {
                let suites = SUITES_OF_TWO_PATHS
                    .into_iter()
                    .chain(SUITES_OF_RESERVATIONS);
                runs.extend(suites.map(|suite| (suite, [*one, *other])));
            }
        }
        let mut complaints = Vec::new();
        for (suite, paths) in runs {
            let outcome = conformance::run_through(suite, &paths)?;
            let found = outcome.complaints(&[]).into_iter();
            complaints.extend(found.map(|test| format!("{paths:?}: {test}")));
        }
        let count = complaints.len();
        ensure!(count == 0, "{count} tests:\n{}", complaints.join("\n"));
        Ok(())
    });
}

fn complaints_of(suite: &str, url: &str, node: &str) -> Result<Vec<String>> {
    let outcome = conformance::run(suite, url)?;
    let complaints = outcome.complaints(&MAY_SKIP).into_iter();
    Ok(complaints.map(|test| format!("{node}: {test}")).collect())
}
