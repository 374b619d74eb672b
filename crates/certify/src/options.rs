//! What a run is told.

use std::net::SocketAddr;
use std::time::Duration;

use holdfast_iscsi::IscsiName;
use holdfast_iscsi::chap::ChapAccount;
use holdfast_lab::Lun;

/// What is checked, and how.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where the target is; others that it names itself are used as well.
    pub portals: Vec<SocketAddr>,
    /// The target.
    pub target: IscsiName,
    /// The unit's number there.
    pub lun: Lun,
    /// What the hosts' names begin with; `-a`, `-b` and `-c` follow.
    pub initiator: IscsiName,
    /// How they prove who they are.
    pub chap: Option<ChapAccount>,
    /// What restarts a node, or takes a path away and brings it back, in the middle: a command of the shell.
    pub restart: Option<String>,
    /// The stretch that is written to may hold something, and registrations of others may be ended.
    pub destroys: bool,
    /// Times of hosts.
    pub timing: Timing,
    /// What everything random comes from; another one for each run.
    pub seed: u64,
}

/// Times that hosts keep, and that they are held to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// How often an owner defends its disk.
    pub defend_every: Duration,
    /// How long a challenger leaves an owner to defend itself.
    pub challenge_for: Duration,
    /// The longest pause of a restart that hosts do not notice.
    pub pause_noticed: Duration,
    /// The longest pause of a restart that hosts survive.
    pub pause_max: Duration,
    /// The longest that a command may take.
    pub latency_max: Duration,
    /// Above this, 99 of 100 commands are slow.
    pub latency_slow: Duration,
    /// How long the restart's command may take.
    pub restart_max: Duration,
    /// How long paths may take to come back after it.
    pub return_max: Duration,
}

impl Timing {
    /// Those of Windows' cluster disk driver (a round of defence every three seconds, seven until a challenge is
    /// decided), ten times as fast: what is tried is the order of things.
    pub const SCALED: Self = Self {
        defend_every: Duration::from_millis(300),
        challenge_for: Duration::from_millis(700),
        // After these Linux and Windows begin to complain, and their disks to fail.
        pause_noticed: Duration::from_secs(5),
        pause_max: Duration::from_secs(25),
        latency_max: Duration::from_secs(2),
        latency_slow: Duration::from_millis(200),
        restart_max: Duration::from_secs(600),
        return_max: Duration::from_secs(120),
    };
}
