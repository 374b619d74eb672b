//! Which of etcd's members answer: each is asked by itself, calmly, for as long as somebody wants to know.
//!
//! A session speaks to one member at a time and notices nothing of the others. A dead one costs nothing until it is
//! one too many.
//!
//! It refuses to do anything about it, and to say what a majority is.
//!
//! Invariants:
//! - a look asks each member one thing, of all at the same time, and has an end;
//! - what is wrong with a member is told when [`LOOKS_TO_TELL`] looks in a row have found it not well, that it answers
//!   at once;
//! - nothing is told before each member has been judged.

use std::collections::BTreeMap;
use std::time::Duration;

use holdfast_model::ClusterId;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::calls::{Member, is_leaderless};
use super::connection::connect;
use super::names::Root;
use super::{EtcdConfig, EtcdEndpoint, EtcdError};

/// Between two looks: a person is told within seconds, and members have next to nothing to do for it.
const LOOK_PAUSE: Duration = Duration::from_secs(5);
/// How long a look may take in all: to reach the member, and its answer.
const LOOK_TIME_MAX: Duration = Duration::from_secs(2);
/// After so many looks in a row it is told that a member is not well: an election, a restart or a lost packet are over by
/// the second.
const LOOKS_TO_TELL: u32 = 2;

/// How a member of etcd is, from here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberState {
    /// It answers, and has a leader.
    Answers,
    /// It answers, and has no leader: it does not reach enough of the others.
    Leaderless,
    /// It answers, and is of another etcd than the others.
    Foreign,
    /// It does not answer.
    Silent,
}

/// A member of etcd, as it was last judged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberView {
    /// Where it is asked.
    pub endpoint: EtcdEndpoint,
    /// How it is.
    pub state: MemberState,
}

/// Looks at the members again and again, and tells how they are whenever that has changed. Ends when nobody wants to
/// know any more.
pub async fn watch_members(config: EtcdConfig, told: watch::Sender<Vec<MemberView>>) {
    let mut judges = vec![Judge::default(); config.endpoints.len()];
    loop {
        let found = tokio::select! {
            found = look_at_all(&config) => found,
            () = told.closed() => return,
        };
        for (judge, state) in judges.iter_mut().zip(states(&found)) {
            judge.hear(state);
        }
        let views = config.endpoints.iter().zip(&judges);
        let views = views.map(|(endpoint, judge)| {
            Some(MemberView {
                endpoint: endpoint.clone(),
                state: judge.state?,
            })
        });
        if let Some(views) = views.collect::<Option<Vec<_>>>() {
            told.send_if_modified(|before| {
                let has_changed = *before != views;
                *before = views;
                has_changed
            });
        }
        tokio::select! {
            () = sleep(LOOK_PAUSE) => {}
            () = told.closed() => return,
        }
    }
}

/// What one look has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    /// A member of the etcd of this id.
    Member(u64),
    Leaderless,
    Nothing,
}

async fn look_at_all(config: &EtcdConfig) -> Vec<Found> {
    let mut looks = JoinSet::new();
    for (place, endpoint) in config.endpoints.iter().cloned().enumerate() {
        let cluster = config.cluster;
        looks.spawn(async move { (place, look(&endpoint, cluster).await) });
    }
    let mut all = vec![Found::Nothing; config.endpoints.len()];
    while let Some(looked) = looks.join_next().await {
        let (place, found) = looked.expect("no look panics, or is given up");
        all[place] = found;
    }
    all
}

async fn look(endpoint: &EtcdEndpoint, cluster: ClusterId) -> Found {
    let ask = async {
        let channel = connect(endpoint.address()).await?;
        let member = Member::new(channel, Root::of(cluster));
        Ok::<_, EtcdError>(member.cluster().await?)
    };
    match timeout(LOOK_TIME_MAX, ask).await {
        Ok(Ok(cluster)) => Found::Member(cluster),
        Ok(Err(EtcdError::Status(status))) if is_leaderless(&status) => Found::Leaderless,
        Ok(Err(_)) | Err(_) => Found::Nothing,
    }
}

/// What that says of each. The etcd of most of them is ours; of two with as many members, that of the first in the
/// list.
fn states(all: &[Found]) -> impl Iterator<Item = MemberState> {
    let mut counts: BTreeMap<u64, usize> = BTreeMap::new();
    let mut ours: Option<(u64, usize)> = None;
    for found in all {
        if let Found::Member(cluster) = found {
            *counts.entry(*cluster).or_default() += 1;
        }
    }
    for found in all {
        if let Found::Member(cluster) = found
            && ours.is_none_or(|(_, most)| counts[cluster] > most)
        {
            ours = Some((*cluster, counts[cluster]));
        }
    }
    let ours = ours.map(|(cluster, _)| cluster);
    all.iter().map(move |found| match found {
        Found::Member(cluster) if Some(*cluster) == ours => MemberState::Answers,
        Found::Member(_) => MemberState::Foreign,
        Found::Leaderless => MemberState::Leaderless,
        Found::Nothing => MemberState::Silent,
    })
}

/// What is thought of a member, look after look.
#[derive(Clone, Copy, Debug, Default)]
struct Judge {
    /// Looks in a row that have found it not well.
    unwell: u32,
    state: Option<MemberState>,
}

impl Judge {
    fn hear(&mut self, state: MemberState) {
        if state == MemberState::Answers {
            self.unwell = 0;
            self.state = Some(state);
            return;
        }
        self.unwell = self.unwell.saturating_add(1);
        if self.unwell >= LOOKS_TO_TELL {
            self.state = Some(state);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_look_without_an_answer_tells_nothing() {
        use MemberState::{Answers, Leaderless, Silent};
        let mut judge = Judge::default();
        for (heard, told) in [
            (Silent, None),
            (Answers, Some(Answers)),
            (Silent, Some(Answers)),
            (Answers, Some(Answers)),
            (Silent, Some(Answers)),
            (Leaderless, Some(Leaderless)),
            (Silent, Some(Silent)),
            (Answers, Some(Answers)),
        ] {
            judge.hear(heard);
            assert_eq!(judge.state, told, "{heard:?}");
        }
    }

    #[test]
    fn a_member_of_another_etcd_is_told_apart() {
        use MemberState::{Answers, Foreign, Leaderless, Silent};
        let judged = |found: &[Found]| states(found).collect::<Vec<_>>();
        let (ours, other) = (Found::Member(7), Found::Member(3));
        assert_eq!(judged(&[other, ours, ours]), [Foreign, Answers, Answers]);
        assert_eq!(judged(&[ours, other]), [Answers, Foreign]);
        assert_eq!(
            judged(&[Found::Nothing, Found::Leaderless, other]),
            [Silent, Leaderless, Answers]
        );
        assert_eq!(judged(&[]), []);
    }

    /// Nobody is at the first address; the second takes connections and says nothing, as a frozen member.
    #[tokio::test(start_paused = true)]
    async fn members_that_do_not_answer_are_told_after_the_second_look() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let frozen = listener.local_addr().unwrap().to_string();
        let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let dead = nobody.local_addr().unwrap().to_string();
        drop(nobody);
        let endpoints: Vec<EtcdEndpoint> = [&dead, &frozen].map(|it| it.parse().unwrap()).into();
        let (told, mut views) = watch::channel(Vec::new());
        let config = EtcdConfig {
            endpoints: endpoints.clone(),
            cluster: ClusterId(1),
        };
        let watching = tokio::spawn(watch_members(config, told));
        let begun = tokio::time::Instant::now();
        views.changed().await.unwrap();
        assert!(begun.elapsed() >= LOOK_PAUSE, "{:?}", begun.elapsed());
        assert!(begun.elapsed() <= LOOK_PAUSE + 2 * LOOK_TIME_MAX);
        let expected = endpoints.into_iter().map(|endpoint| MemberView {
            endpoint,
            state: MemberState::Silent,
        });
        assert_eq!(*views.borrow_and_update(), expected.collect::<Vec<_>>());
        drop(views);
        watching.await.unwrap();
    }
}
