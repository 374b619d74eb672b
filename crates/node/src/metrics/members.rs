//! What the metrics tell of the members of etcd.

use holdfast_api::documents::{LocalReport, MemberState};

use super::Metrics;
use super::labels::MemberLabel;

impl Metrics {
    /// How the members of etcd are.
    pub(super) fn tell_members(&self, report: &LocalReport) {
        self.member_up.clear();
        for listed in &report.metadata_listed {
            let (name, member) = (listed.name.clone(), listed.member.clone());
            let up = self.member_up.get_or_create(&MemberLabel { name, member });
            up.set(i64::from(listed.state == MemberState::Answers));
        }
        // Who has not heard who they are was started while there was no majority: of all times the one for an alarm.
        let is_known = !report.metadata_listed.is_empty();
        for told in report.metadata_members.iter().filter(|_| !is_known) {
            let member = told.member.clone().unwrap_or_default();
            let name = told.endpoint.clone();
            let up = self.member_up.get_or_create(&MemberLabel { name, member });
            up.set(i64::from(told.state == MemberState::Answers));
        }
    }
}
