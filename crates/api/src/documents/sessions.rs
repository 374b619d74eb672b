//! Sessions of initiators with targets, and the paths to volumes that they are.
//!
//! Invariant: a node tells of no more than [`SESSIONS_MAX`] sessions.

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// Sessions of a node at most: its portal has no more connections.
pub const SESSIONS_MAX: usize = 1024;

/// What hosts are told of a path by ALUA (SPC-4, asymmetric access state).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PathState {
    /// The short way: the node has half of the volume's slices or more.
    ActiveOptimized,
    /// It takes the same commands, and most go on to other nodes.
    ActiveNonOptimized,
    /// No way now, but one that knows the volume.
    Standby,
    /// No way now.
    Unavailable,
    /// No way, and nothing can be asked through it.
    Offline,
    /// On its way from one state to another.
    Transitioning,
}

impl PathState {
    /// The word that documents and the command line use.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ActiveOptimized => "active-optimized",
            Self::ActiveNonOptimized => "active-non-optimized",
            Self::Standby => "standby",
            Self::Unavailable => "unavailable",
            Self::Offline => "offline",
            Self::Transitioning => "transitioning",
        }
    }
}

/// What initiator and target have agreed on (RFC 7143 13).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SessionParameters {
    /// HeaderDigest is CRC32C.
    pub header_digest: bool,
    /// DataDigest is CRC32C.
    pub data_digest: bool,
    /// MaxBurstLength, in bytes.
    pub burst_bytes_max: u32,
    /// FirstBurstLength, in bytes.
    pub first_burst_bytes_max: u32,
    /// The MaxRecvDataSegmentLength that the initiator declared, in bytes.
    pub segment_bytes_max: u32,
    /// InitialR2T: no data comes unasked but with its command.
    pub initial_r2t: bool,
    /// ImmediateData: data may come with its command.
    pub immediate_data: bool,
}

/// A session of an initiator, as a path to a volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PathSession {
    /// The volume.
    pub volume: String,
    /// The initiator's iSCSI name.
    pub initiator: String,
    /// The initiator's part of the session's identifier (ISID): twelve hexadecimal digits.
    pub isid: String,
    /// The target's part of it (TSIH).
    pub tsih: u16,
    /// Address and port that the initiator connects from.
    pub address: String,
    /// The node whose portal it is with.
    pub portal: String,
    /// Since when: milliseconds since 1970, by the clock of the portal's node.
    pub since_ms: u64,
    /// Its commands that have not been answered, for all volumes of its target.
    pub commands: u32,
    /// The initiator has proved by CHAP who it is.
    pub chap: bool,
    /// What was agreed on.
    pub parameters: SessionParameters,
    /// What the initiator is told of the path; null before the node knows the volume's slices.
    pub state: Option<PathState>,
    /// Slices of the volume of which the node has a copy that is in sync.
    pub slices_local: u32,
    /// Slices of the volume.
    pub slices: u32,
}

impl PathSession {
    /// Where it stands among others: by initiator, volume and portal, then by what names it there. No two stand at one place.
    #[must_use]
    pub fn place(&self) -> String {
        let Self {
            initiator,
            volume,
            portal,
            isid,
            tsih,
            ..
        } = self;
        place([initiator, volume, portal, isid], *tsih)
    }
}

/// A place by these names in this order, and then by the target's part of the identifier.
fn place(names: [&str; 4], tsih: u16) -> String {
    // What is before all letters keeps a name before those that begin with it.
    format!("{}\0{tsih:05}", names.join("\0"))
}

/// Sessions at all portals.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SessionList {
    /// By initiator, volume and portal.
    pub sessions: Vec<PathSession>,
    /// Where the rest begins, for `after`; none if there is no more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// Nodes that did not answer: their sessions are not among these.
    pub silent: Vec<String>,
}

/// A session of an initiator with a target, whatever volumes it is a path to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TargetSession {
    /// The target's iSCSI name.
    pub target: String,
    /// The initiator's iSCSI name.
    pub initiator: String,
    /// The initiator's part of the session's identifier (ISID): twelve hexadecimal digits.
    pub isid: String,
    /// The target's part of it (TSIH).
    pub tsih: u16,
    /// Address and port that the initiator connects from.
    pub address: String,
    /// The node whose portal it is with.
    pub portal: String,
    /// Since when: milliseconds since 1970, by the clock of the portal's node.
    pub since_ms: u64,
    /// Its commands that have not been answered.
    pub commands: u32,
    /// The initiator has proved by CHAP who it is.
    pub chap: bool,
    /// What was agreed on.
    pub parameters: SessionParameters,
}

impl TargetSession {
    /// Where it stands among others: by initiator, target and portal, then by what names it there. No two stand at one place.
    #[must_use]
    pub fn place(&self) -> String {
        let Self {
            initiator,
            target,
            portal,
            isid,
            tsih,
            ..
        } = self;
        place([initiator, target, portal, isid], *tsih)
    }
}

/// Sessions with all targets, at all portals.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TargetSessionList {
    /// By initiator, target and portal.
    pub sessions: Vec<TargetSession>,
    /// Where the rest begins, for `after`; none if there is no more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// Nodes that did not answer: their sessions are not among these.
    pub silent: Vec<String>,
}

/// Which sessions a node is asked for: all of them, or those with a target, or of an initiator.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct LocalSessionQuery {
    /// Those with this target only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// Those of this initiator only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initiator: Option<String>,
}

impl LocalSessionQuery {
    /// Whether a session is asked for.
    #[must_use]
    pub fn wants(&self, session: &LocalSession) -> bool {
        let is =
            |asked: &Option<String>, it: &str| asked.as_deref().is_none_or(|asked| asked == it);
        is(&self.target, &session.target) && is(&self.initiator, &session.initiator)
    }
}

/// A session, as its node knows it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LocalSession {
    /// The target's iSCSI name.
    pub target: String,
    /// The initiator's iSCSI name.
    pub initiator: String,
    /// The initiator's part of the session's identifier.
    pub isid: String,
    /// The target's part of it.
    pub tsih: u16,
    /// Address and port that the initiator connects from.
    pub address: String,
    /// Since when: milliseconds since 1970.
    pub since_ms: u64,
    /// Its commands that have not been answered.
    pub commands: u32,
    /// The initiator has proved who it is.
    pub chap: bool,
    /// What was agreed on.
    pub parameters: SessionParameters,
}

/// What a node tells hosts of its own path to a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LocalPath {
    /// The volume's id.
    pub volume: u64,
    /// The state.
    pub state: PathState,
}

/// The sessions at one node's portal.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LocalSessions {
    /// The node's number.
    pub node: u16,
    /// Those that were asked for.
    pub sessions: Vec<LocalSession>,
    /// Its path to each volume that it knows the slices of.
    pub paths: Vec<LocalPath>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_leaves_out_other_targets_and_other_initiators() {
        let session = LocalSession {
            target: "iqn.t".to_owned(),
            initiator: "iqn.i".to_owned(),
            ..LocalSession::default()
        };
        let query = |target: Option<&str>, initiator: Option<&str>| LocalSessionQuery {
            target: target.map(str::to_owned),
            initiator: initiator.map(str::to_owned),
        };
        assert!(query(None, None).wants(&session));
        assert!(query(Some("iqn.t"), Some("iqn.i")).wants(&session));
        assert!(!query(Some("iqn.t2"), None).wants(&session));
        assert!(!query(Some("iqn.t"), Some("iqn.j")).wants(&session));
    }

    #[test]
    fn states_are_called_the_same_everywhere() {
        for state in [
            PathState::ActiveOptimized,
            PathState::ActiveNonOptimized,
            PathState::Standby,
            PathState::Unavailable,
            PathState::Offline,
            PathState::Transitioning,
        ] {
            let text = serde_json::to_string(&state).unwrap();
            assert_eq!(text, format!("\"{}\"", state.as_str()));
        }
    }
}
