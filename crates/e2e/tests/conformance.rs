//! libiscsi's conformance suite on every node: passed, and not skipped.

use anyhow::{Result, ensure};
use holdfast_e2e::conformance;
use holdfast_e2e::image::url;
use holdfast_e2e::{DemoOptions, scenario};

/// The suites that this target is meant to pass.
const SUITES: [&str; 24] = [
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
    "Verify10",
    "Verify16",
    "WriteSame10",
    "WriteSame16",
    "Unmap",
    "GetLBAStatus",
    "ModeSense6",
    "ReportSupportedOpcodes",
    "iSCSIcmdsn",
    "iSCSIdatasn",
    "iSCSIResiduals",
    "iSCSITMF",
];
/// Software write protection is not a feature of this target.
const MAY_SKIP: [&str; 1] = ["ModeSense6.Control-SWP"];

#[test]
fn every_node_passes_the_suites() {
    scenario(DemoOptions::default(), |demo| {
        let file = demo.file();
        let volume = file.volume("demo")?;
        let mut complaints = Vec::new();
        for node in &file.nodes {
            let url = url(node.portal, &volume.target, volume.lun);
            for suite in SUITES {
                complaints.extend(complaints_of(suite, &url, &node.name)?);
            }
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
