//! Until when the certificates of witnesses are good. A witness tells no reports: that its certificate could not be renewed is told by
//! its own log only, until its member of etcd is lost.
//!
//! Whoever steers looks, seldom, at what members of etcd show in the handshake of TLS. What a node's member shows is the node's own
//! certificate, and the node tells of that itself.
//!
//! It refuses to judge an etcd that somebody else runs: the cluster's authority has not signed what that shows.
//!
//! Invariants:
//! - nobody waits for a look, and each has an end;
//! - what was seen of a member counts as long as etcd lists it, and no longer.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use holdfast_api::documents::ListedMember;
use holdfast_control::{AlarmKind, Observation, Observations};
use holdfast_model::host_and_port;
use holdfast_tls::{Connector, WITNESS};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use crate::Controller;
use crate::reports::Reports;

/// Between two looks: certificates are renewed months before they expire.
const LOOK_PAUSE: Duration = Duration::from_secs(60 * 60);
/// How long a member may take.
const LOOK_TIME_MAX: Duration = Duration::from_secs(3);
/// Members that are looked at, at most: more than etcd works well with.
const MEMBERS_MAX: usize = 16;
/// What all subjects end with.
const OF_ETCD: &str = "of etcd";

const DAY_MS: u64 = 24 * 60 * 60 * 1000;

/// What was seen of members, by their numbers.
#[derive(Debug, Default)]
pub(super) struct Witnesses {
    looked: Option<Instant>,
    under_way: JoinSet<Option<(String, u64)>>,
    /// When the certificate of each witness expires, in milliseconds since 1970 (UTC).
    expires_ms: BTreeMap<String, u64>,
}

impl Witnesses {
    /// Adds what is seen of members, at a time in milliseconds since 1970 (UTC), and has them looked at where that is due.
    pub(super) fn pass(
        &mut self,
        controller: &Controller,
        reports: &Reports,
        (all, wall_ms): (&mut Observations, u64),
    ) {
        while let Some(looked) = self.under_way.try_join_next() {
            self.expires_ms.extend(looked.ok().flatten());
        }
        let members = members(reports);
        if members.is_empty() {
            // Without a majority nobody says who they are.
            all.silent.insert(OF_ETCD.to_owned());
            return;
        }
        let is_due = |looked: Instant| looked.elapsed() >= LOOK_PAUSE;
        if let Some(connector) = &controller.connector
            && self.looked.is_none_or(is_due)
        {
            self.looked = Some(Instant::now());
            self.under_way.abort_all();
            for member in members.values() {
                self.under_way
                    .spawn(look(connector.clone(), (*member).clone()));
            }
        }
        self.expires_ms
            .retain(|member, _| members.contains_key(member.as_str()));
        for member in members.values() {
            let days = self.expires_ms.get(&member.member);
            let days = days.map(|it| it.saturating_sub(wall_ms) / DAY_MS);
            let detail = days.map(|days| {
                format!("the certificate of this witness is good for another {days} days: its own log says why it is not renewed")
            });
            let observation = Observation {
                value: days,
                detail: detail.unwrap_or_default(),
            };
            let key = (AlarmKind::CertificateExpires, subject(member));
            all.seen.insert(key, observation);
        }
    }
}

fn subject(member: &ListedMember) -> String {
    let name = match member.name.as_str() {
        "" => &member.member,
        name => name,
    };
    format!("member {name} {OF_ETCD}")
}

/// Those that etcd lists, by their numbers, as any node has heard.
fn members(reports: &Reports) -> BTreeMap<&str, &ListedMember> {
    let listed = reports.metadata_members().flat_map(|(_, _, listed)| listed);
    let members: BTreeMap<_, _> = listed.map(|it| (it.member.as_str(), it)).collect();
    members.into_iter().take(MEMBERS_MAX).collect()
}

/// Looks at what a member shows; nothing if it is no witness, or does not answer.
async fn look(connector: Connector, member: ListedMember) -> Option<(String, u64)> {
    let looked = async {
        let endpoint = member.endpoints.first()?;
        let (host, _) = host_and_port(endpoint)?;
        let stream = TcpStream::connect(endpoint).await.ok()?;
        connector.look(host, stream).await.ok()
    };
    let shown = timeout(LOOK_TIME_MAX, looked).await.ok()??;
    shown.identity.filter(|it| it.node == WITNESS)?;
    let until = shown
        .not_after
        .duration_since(SystemTime::UNIX_EPOCH)
        .ok()?;
    Some((member.member, until.as_millis() as u64))
}
