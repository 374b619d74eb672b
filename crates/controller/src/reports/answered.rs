//! What one node answers that is asked for its report, and whether it is the node that it was asked as.

use holdfast_api::ApiClient;
use holdfast_api::documents::LocalReport;
use holdfast_model::record::NodeRecord;

use super::REPORT_TIME_MAX;
use crate::clock::unix_ms;

/// What a node has answered.
#[derive(Clone, Debug)]
pub(super) struct Answered {
    pub(super) report: LocalReport,
    pub(super) is_registered: bool,
    pub(super) skew_ms: i64,
}

impl From<LocalReport> for Answered {
    /// The process asks itself, or nobody was asked.
    fn from(report: LocalReport) -> Self {
        Self {
            report,
            is_registered: true,
            skew_ms: 0,
        }
    }
}

pub(super) async fn ask(node: NodeRecord, client: Option<ApiClient>) -> Option<Answered> {
    let before = unix_ms();
    let report = tokio::time::timeout(REPORT_TIME_MAX, client?.local())
        .await
        .ok()?
        .ok()?;
    let vitals = report.vitals.as_ref();
    let skew_ms = vitals.map_or(0, |it| skew(it.clock_ms, before, unix_ms()));
    let is_registered = match whose(&report, &node) {
        Whose::Registered => true,
        Whose::Starting => false,
        Whose::Other => return None,
    };
    Some(Answered {
        report,
        is_registered,
        skew_ms,
    })
}

/// By how much a clock is ahead at least that was read at some moment between two others; below zero, behind.
pub(super) fn skew(clock: u64, before: u64, after: u64) -> i64 {
    let milliseconds = |it: u64| i64::try_from(it).unwrap_or(i64::MAX);
    let behind = before.saturating_sub(clock);
    match behind {
        0 => milliseconds(clock.saturating_sub(after)),
        behind => -milliseconds(behind),
    }
}

/// Whose report it is, by a node's record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whose {
    /// Another machine's, or that of an earlier start, or of what is not the node any more.
    Other,
    /// It has the node's number, and has not registered since it started: it may be the node or not.
    Starting,
    /// The node's.
    Registered,
}

/// Whose report it is. Versions of before do not say which store they have.
pub(crate) fn whose(report: &LocalReport, record: &NodeRecord) -> Whose {
    let has_store = report.store.is_empty() || report.store == record.store.to_string();
    let is_on_record = report.incarnation >= record.incarnation.0 && has_store;
    match report.incarnation {
        _ if report.node != record.node.0 || report.rejected.is_some() => Whose::Other,
        0 => Whose::Starting,
        _ if is_on_record => Whose::Registered,
        _ => Whose::Other,
    }
}
