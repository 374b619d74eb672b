//! A node's report as a file: on its way from the node to whoever brings the reports together.
//!
//! Invariants:
//! - a file that was cut short or changed on its way is refused;
//! - so is one of another format: a newer report is never half understood.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use holdfast_model::report::NodeReport;
use holdfast_stdx::crc32c;
use serde::{Deserialize, Serialize};

use crate::failure::Failure;

/// The only format that this code understands.
const FORMAT: u32 = 1;
/// Bytes in a file at most: some hundreds for each of a node's replicas and for each volume, of which there
/// are thousands.
const BYTES_MAX: u64 = 1 << 30;

/// What is in the file.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ReportFile<R> {
    /// Says what this is, and the number of the format.
    holdfast_recover_report: u32,
    /// CRC-32C of the report as this program writes it, in hexadecimal digits.
    checksum: String,
    report: R,
}

/// What is the same in all formats.
#[derive(Debug, Deserialize)]
struct Head {
    holdfast_recover_report: u32,
}

fn checksum_of(report: &NodeReport) -> String {
    let bytes = serde_json::to_vec(report).expect("a report is valid JSON");
    format!("{:08x}", crc32c(&bytes))
}

/// The file of a report, with a line break at its end.
pub(super) fn write(report: &NodeReport) -> String {
    let file = ReportFile {
        holdfast_recover_report: FORMAT,
        checksum: checksum_of(report),
        report,
    };
    serde_json::to_string(&file).expect("a report is valid JSON") + "\n"
}

/// Reads a report.
pub(super) fn read(path: &Path) -> Result<NodeReport, Failure> {
    let refused = |what: String| {
        Failure::new(format!("{}: {what}", path.display()))
            .hint("write it anew with `holdfast recover read` on its node, and copy all of it")
    };
    let mut text = Vec::new();
    let read = File::open(path).and_then(|file| file.take(BYTES_MAX + 1).read_to_end(&mut text));
    read.map_err(|error| refused(error.to_string()))?;
    if text.len() as u64 > BYTES_MAX {
        return Err(refused("it is too large for a report".into()));
    }
    let head: Head = serde_json::from_slice(&text)
        .map_err(|error| refused(format!("it is no report, or not all of one: {error}")))?;
    if head.holdfast_recover_report != FORMAT {
        return Err(refused(format!(
            "it is of format {}, and this program knows format {FORMAT}",
            head.holdfast_recover_report
        )));
    }
    let file: ReportFile<NodeReport> = serde_json::from_slice(&text)
        .map_err(|error| refused(format!("it is no report of this version: {error}")))?;
    if checksum_of(&file.report) != file.checksum {
        return Err(refused("it was changed: its checksum is another".into()));
    }
    Ok(file.report)
}

#[cfg(test)]
mod tests {
    use holdfast_model::{ClusterId, Incarnation, NodeId, StoreId};

    use super::*;

    #[test]
    fn reports_survive_the_way_and_changed_ones_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("one.json");
        let report = NodeReport {
            node: NodeId(1),
            cluster: ClusterId(2),
            store: StoreId(3),
            uses: 4,
            notes: Vec::new(),
            notes_unreadable: 0,
            has_hole: false,
            slices: Vec::new(),
            incarnation_max: Incarnation(5),
        };
        let text = write(&report);
        std::fs::write(&path, &text).unwrap();
        assert_eq!(read(&path).unwrap(), report);
        let refused = |text: &str| {
            std::fs::write(&path, text).unwrap();
            read(&path).unwrap_err().to_string()
        };
        for end in 0..text.len() - 2 {
            let error = refused(&text[..end]);
            assert!(error.contains("hint: write it anew"), "{end}: {error}");
        }
        let changed = refused(&text.replace("\"uses\":4", "\"uses\":5"));
        assert!(changed.contains("checksum"), "{changed}");
        let newer = refused(&text.replace("report\":1", "report\":2"));
        assert!(newer.contains("format 2"), "{newer}");
        let more = refused(&text.replace("\"uses\":4", "\"uses\":4,\"more\":1"));
        assert!(more.contains("unknown field"), "{more}");
        assert!(read(Path::new("/nonexistent")).is_err());
    }
}
