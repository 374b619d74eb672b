//! When a member of etcd that runs is started again for something that has changed on its machine: it reads that once.
//!
//! A tool may change all machines at once, and with two of three members away nothing is agreed on any more. So each waits for its
//! turn, which etcd itself gives to one at a time.
//!
//! It refuses to go by the clock of one machine: which of them sees a change first is chance.
//!
//! Invariants:
//! - as long as members agree on anything, a member is started again in a turn of its own, and while all others answer;
//! - it is not started again while another one is silent, however long that lasts;
//! - where all run and nobody can give turns, since they do not let each other in, they go one after the other by their places:
//!   what mends that is to start them again.

use std::fmt;
use std::time::{Duration, Instant};

use holdfast_metadata::etcd::{EtcdError, EtcdTls, Taking, Turn, members, take_turn};
use tokio::runtime::Builder;
use tokio::task::JoinSet;

use super::Plan;
use crate::clock;
use crate::lasting::{Lasting, Tell, span};

/// What the turns are of, in etcd.
const TURN_KEY: &str = "/etcd/again";
/// How long a turn is: the member is told to end within [`HASTE`] of it, has ended 10 s after that at the latest, and then does not
/// answer whoever has the next turn, until it is back.
const TURN_TIME: Duration = Duration::from_secs(20);
/// A turn that took longer to come is not used: it may be over before the member has ended.
const HASTE: Duration = Duration::from_secs(5);
/// For how long nobody can give turns before members do without, and by how much later each of them does.
const STUCK_TIME: Duration = Duration::from_secs(120);
const STUCK_APART: Duration = Duration::from_secs(60);
/// For how long a member that the others reach in another way than it listens waits for the turns of others.
const CUT_OFF_TIME: Duration = Duration::from_secs(60);

/// What is waited for.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Wait {
    /// These members do not answer.
    Silent(Vec<String>),
    /// All run, and nobody can say whose turn it is: why.
    Stuck(String),
    /// It is the turn of this one.
    Other(String),
}

impl fmt::Display for Wait {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Silent(names) => write!(
                formatter,
                "waits until {} answers: with one member away, another one would be one too many. Bring that one back, or remove it \
                 (`etcdctl member remove`); where nothing is agreed on any more, start the service on this machine again",
                names.join(" and ")
            ),
            Self::Stuck(why) => write!(
                formatter,
                "waits for its turn, and nobody can say when that is: {why}"
            ),
            Self::Other(name) => write!(formatter, "waits for its turn: {name} is started again"),
        }
    }
}

/// A member that is to be started again.
pub(super) struct Again {
    /// How many members are before it in the list.
    place: u32,
    told: Lasting<Wait>,
    /// Since when nobody could say whose turn it is.
    stuck: Option<Instant>,
    /// Since when a member waits for others that the others reach in another way than it listens.
    cut_off: Option<Instant>,
}

impl Again {
    pub(super) fn new(plan: &Plan) -> Self {
        let before = plan.others.iter().filter(|it| it.name < plan.name);
        Self {
            place: u32::try_from(before.count()).unwrap_or(u32::MAX),
            told: Lasting::new(),
            stuck: None,
            cut_off: None,
        }
    }

    /// Whether a member may be ended now that the others reach over TLS, and that listens without. It is half away already, so that
    /// it waits for the turn of others only, and not for long.
    pub(super) fn may_go(&mut self, plan: &Plan, now: Instant) -> bool {
        let runtime = Builder::new_current_thread().enable_all().build();
        // Its own clients' port has no TLS yet.
        let turn = runtime.ok();
        let turn = turn.and_then(|runtime| runtime.block_on(take(plan, None)));
        let since = *self.cut_off.get_or_insert(now);
        let Some(wait @ Wait::Other(_)) = turn else {
            return true;
        };
        if now.saturating_duration_since(since) >= CUT_OFF_TIME {
            return true;
        }
        tracing::info!("etcd is to be started again with TLS, and {wait}");
        false
    }

    /// There is no reason any more.
    pub(super) fn over(&mut self) {
        self.stuck = None;
        let _ = self.told.over(Instant::now());
    }

    /// Whether it is to be ended and started again now, for this reason. That takes some seconds where others do not answer.
    pub(super) fn is_time(&mut self, plan: &Plan, reason: &str) -> bool {
        if plan.others.is_empty() {
            return true;
        }
        let waits = look(plan);
        let now = Instant::now();
        let is_time = self.decide(now, waits.as_ref());
        if is_time {
            self.over();
        } else if let Some(wait) = waits
            && let Some(said) = self.told.goes_on(now, wait.clone())
        {
            match said {
                Tell::News => {
                    tracing::warn!("etcd is to be started again ({reason}), and {wait}");
                }
                Tell::Still(time) => {
                    let time = span(time);
                    tracing::warn!("etcd is to be started again ({reason}), and for {time} {wait}");
                }
            }
        }
        is_time
    }

    /// By what was found at that moment: nothing to wait for is a turn of its own.
    fn decide(&mut self, now: Instant, waits: Option<&Wait>) -> bool {
        let Some(Wait::Stuck(_)) = waits else {
            self.stuck = None;
            return waits.is_none();
        };
        let since = *self.stuck.get_or_insert(now);
        now.saturating_duration_since(since) >= STUCK_TIME + STUCK_APART * self.place
    }
}

/// Asks the others whether they answer, and for a turn if all do.
fn look(plan: &Plan) -> Option<Wait> {
    let stuck = |why: String| Some(Wait::Stuck(why));
    let runtime = match Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return stuck(error.to_string()),
    };
    match plan.tls.client() {
        Ok(tls) => runtime.block_on(ask(plan, tls.as_ref())),
        Err(error) => stuck(error.to_string()),
    }
}

async fn ask(plan: &Plan, tls: Option<&EtcdTls>) -> Option<Wait> {
    let mut asked = JoinSet::new();
    for (place, other) in plan.others.iter().enumerate() {
        let (client, cluster, tls) = (other.client.to_string(), plan.cluster, tls.cloned());
        asked.spawn(async move {
            let endpoint = client.parse().expect("a socket's address is an endpoint");
            (place, members(&endpoint, cluster, tls.as_ref()).await)
        });
    }
    let (mut silent, mut stranded) = (Vec::new(), None);
    for (place, answer) in asked.join_all().await {
        let name = &plan.others[place].name;
        match answer {
            Ok(_) => {}
            Err(error) if error.is_answer() => stranded = Some(format!("{name} ({error})")),
            Err(_) => silent.push(name.clone()),
        }
    }
    silent.sort_unstable();
    if !silent.is_empty() {
        return Some(Wait::Silent(silent));
    }
    let turn = take(plan, tls).await;
    match stranded {
        None => turn,
        // Nobody gives turns: it may be for the reason for which that one lets nobody in.
        Some(_) if matches!(turn, Some(Wait::Stuck(_))) => turn,
        // A turn is given, so that most agree on something: with the one that is cut off, another one would be one too many.
        Some(who) => Some(Wait::Silent(vec![who])),
    }
}

async fn take(plan: &Plan, tls: Option<&EtcdTls>) -> Option<Wait> {
    let endpoint = plan.client.to_string();
    let endpoint = endpoint.parse().expect("a socket's address is an endpoint");
    let taking = Taking {
        key: TURN_KEY,
        name: &plan.name,
        time: TURN_TIME,
    };
    let begun = clock::now();
    let taken: Result<Turn, EtcdError> = take_turn(&endpoint, plan.cluster, tls, taking).await;
    match taken {
        Ok(Turn::Own) if clock::now().since(begun) < HASTE => None,
        // It has its turn and may not use it: it is over before the next one.
        Ok(Turn::Own) => Some(Wait::Other(plan.name.clone())),
        Ok(Turn::Other(name)) => Some(Wait::Other(name)),
        Err(error) => Some(Wait::Stuck(format!("the member here: {error}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn again(place: u32) -> Again {
        Again {
            place,
            told: Lasting::new(),
            stuck: None,
            cut_off: None,
        }
    }

    #[test]
    fn a_member_waits_for_whoever_is_silent_however_long_that_lasts() {
        let (mut again, start) = (again(0), Instant::now());
        let silent = Wait::Silent(vec!["n3".to_owned()]);
        for minute in 0..1000 {
            let now = start + Duration::from_secs(60 * minute);
            assert!(!again.decide(now, Some(&silent)));
            assert!(!again.decide(now, Some(&Wait::Other("n2".to_owned()))));
        }
        assert!(again.decide(start, None), "it is its turn");
        let text = silent.to_string();
        assert!(text.contains("n3 answers"), "{text}");
    }

    /// All machines were given another authority at one blow: no member lets anybody in.
    #[test]
    fn where_nobody_gives_turns_members_go_one_after_the_other() {
        let start = Instant::now();
        let stuck = Wait::Stuck("n2: it refuses the certificate".to_owned());
        let first = |place: u32| {
            let mut again = again(place);
            let mut seconds = (0..10_000).step_by(10);
            seconds.find(|it| again.decide(start + Duration::from_secs(*it), Some(&stuck)))
        };
        assert_eq!([0, 1, 2].map(first), [Some(120), Some(180), Some(240)]);
        // What passes by itself begins anew.
        let mut again = again(0);
        for look in 0..100 {
            let now = start + Duration::from_secs(look * 10);
            let silent = Wait::Silent(vec!["n2".to_owned()]);
            let waits = if look % 10 == 9 { &silent } else { &stuck };
            assert!(!again.decide(now, Some(waits)), "{look}");
        }
    }
}
