//! Which of etcd's members answer: each is asked by itself, calmly, for as long as somebody wants to know.
//!
//! A session speaks to one member at a time and notices nothing of the others. A dead one costs nothing until it is
//! one too many.
//!
//! It refuses to do anything about it, and to say what a majority is. Who the members are, etcd says itself: the endpoints
//! that a configuration has may be fewer, more, or others.
//!
//! Invariants:
//! - a look asks all members at the same time, and has an end;
//! - what is wrong with a member is told when [`LOOKS_TO_TELL`] looks in a row have found it not well, that it answers
//!   at once;
//! - nothing is told before each member has been judged.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use holdfast_model::ClusterId;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::calls::{Member, is_leaderless};
use super::connection::connect;
use super::members::{EtcdMember, list};
use super::names::Root;
use super::{EtcdConfig, EtcdEndpoint, EtcdError, EtcdTls};

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
    /// The number of the member that last answered there, if one has since the looks began.
    pub member: Option<u64>,
}

/// A member, as etcd itself lists it, and as it was last judged: wherever it answers, where it says that it does or at
/// an endpoint that is configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedView {
    /// Who it is.
    pub member: EtcdMember,
    /// How it is.
    pub state: MemberState,
}

/// What is known of the members, once each has been judged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MembersView {
    /// What is configured.
    pub configured: Vec<MemberView>,
    /// Who the members are, as etcd last said; nobody before it has. Without a majority they are the same still.
    pub listed: Vec<ListedView>,
}

/// Looks at the members again and again, and tells how they are whenever that has changed. Ends when nobody wants to
/// know any more.
pub async fn watch_members(config: EtcdConfig, told: watch::Sender<MembersView>) {
    let mut known = Known::new(&config);
    loop {
        let view = tokio::select! {
            view = known.look(&config) => view,
            () = told.closed() => return,
        };
        if let Some(view) = view {
            told.send_if_modified(|before| {
                let has_changed = *before != view;
                *before = view;
                has_changed
            });
        }
        tokio::select! {
            () = sleep(LOOK_PAUSE) => {}
            () = told.closed() => return,
        }
    }
}

/// What is known of the members, look after look.
struct Known {
    /// Of each endpoint that is configured.
    configured: Vec<Judge>,
    /// Who they are, as etcd last said.
    list: Vec<EtcdMember>,
    /// Of each of these, by its number.
    listed: BTreeMap<u64, Judge>,
}

impl Known {
    fn new(config: &EtcdConfig) -> Self {
        Self {
            configured: vec![Judge::default(); config.endpoints.len()],
            list: Vec::new(),
            listed: BTreeMap::new(),
        }
    }

    /// Looks at all. What there is to tell, once each has been judged.
    async fn look(&mut self, config: &EtcdConfig) -> Option<MembersView> {
        let looks = look_at_all(&config.endpoints, config).await;
        let states: Vec<MemberState> = states(&looks).collect();
        let judges = self.configured.iter_mut();
        for ((judge, state), look) in judges.zip(&states).zip(&looks) {
            judge.hear(*state, look.found);
        }
        let answered = looks.iter().zip(&states);
        let answered = answered.filter(|(_, state)| **state == MemberState::Answers);
        if let Some(list) = answered.clone().find_map(|(look, _)| look.list.clone()) {
            self.list = list;
            let is_one = |number: &u64| self.list.iter().any(|it| it.id == *number);
            self.listed.retain(|number, _| is_one(number));
        }
        let answered: BTreeSet<u64> = answered
            .filter_map(|(look, _)| look.found.member())
            .collect();
        let states = self.look_elsewhere(config, &answered).await;
        for member in &self.list {
            let state = states.get(&member.id).copied();
            let judge = self.listed.entry(member.id).or_default();
            judge.hear(state.unwrap_or(MemberState::Answers), Found::Nothing);
        }
        self.view(config)
    }

    /// Looks at those that have answered nowhere, where they themselves say that they do: no file may name that.
    async fn look_elsewhere(
        &self,
        config: &EtcdConfig,
        answered: &BTreeSet<u64>,
    ) -> BTreeMap<u64, MemberState> {
        let quiet = self.list.iter().filter(|it| !answered.contains(&it.id));
        let mut states: BTreeMap<u64, MemberState> = quiet
            .clone()
            .map(|it| (it.id, MemberState::Silent))
            .collect();
        let places = quiet.filter_map(|it| {
            let mut urls = it.client_urls.iter();
            Some((it.id, urls.find_map(|url| url.parse().ok())?))
        });
        let (numbers, endpoints): (Vec<u64>, Vec<EtcdEndpoint>) = places.unzip();
        let looks = look_at_all(&endpoints, config).await;
        for (number, look) in numbers.into_iter().zip(looks) {
            match look.found {
                Found::Member { member, .. } if member == number => {
                    states.insert(number, MemberState::Answers);
                }
                Found::Leaderless => drop(states.insert(number, MemberState::Leaderless)),
                Found::Member { .. } | Found::Nothing => {}
            }
        }
        states
    }

    fn view(&self, config: &EtcdConfig) -> Option<MembersView> {
        let configured = config.endpoints.iter().zip(&self.configured);
        let configured = configured.map(|(endpoint, judge)| {
            Some(MemberView {
                endpoint: endpoint.clone(),
                state: judge.state?,
                member: judge.member,
            })
        });
        let listed = self.list.iter().map(|member| {
            Some(ListedView {
                member: member.clone(),
                state: self.listed.get(&member.id)?.state?,
            })
        });
        Some(MembersView {
            configured: configured.collect::<Option<_>>()?,
            listed: listed.collect::<Option<_>>()?,
        })
    }
}

/// One look at one member.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Look {
    found: Found,
    /// Who all members are, as this one says.
    list: Option<Vec<EtcdMember>>,
}

/// What one look has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    /// A member, by its number, of the etcd of this id.
    Member {
        cluster: u64,
        member: u64,
    },
    Leaderless,
    Nothing,
}

impl Found {
    const fn member(self) -> Option<u64> {
        match self {
            Self::Member { member, .. } => Some(member),
            Self::Leaderless | Self::Nothing => None,
        }
    }
}

impl From<Found> for Look {
    fn from(found: Found) -> Self {
        Self { found, list: None }
    }
}

async fn look_at_all(endpoints: &[EtcdEndpoint], config: &EtcdConfig) -> Vec<Look> {
    let mut looks = JoinSet::new();
    for (place, endpoint) in endpoints.iter().cloned().enumerate() {
        // Where there is TLS, nobody is asked in the clear because a URL says so: that is for `or_plain` to permit. Where a member
        // says that it has TLS, and nothing is known that TLS needs, it is silent from here.
        let tls = config.tls.clone();
        if endpoint.has_tls() && tls.is_none() {
            continue;
        }
        let cluster = config.cluster;
        looks.spawn(async move { (place, look(&endpoint, cluster, tls.as_ref()).await) });
    }
    let mut all = vec![Look::from(Found::Nothing); endpoints.len()];
    while let Some(looked) = looks.join_next().await {
        let (place, look) = looked.expect("no look panics, or is given up");
        all[place] = look;
    }
    all
}

async fn look(endpoint: &EtcdEndpoint, cluster: ClusterId, tls: Option<&EtcdTls>) -> Look {
    let ask = async {
        let channel = connect(endpoint.address(), tls).await?;
        let member = Member::new(channel, Root::of(cluster));
        let found = member.identity().await?;
        Ok::<_, EtcdError>((member, found))
    };
    let (member, found) = match timeout(LOOK_TIME_MAX, ask).await {
        Ok(Ok((member, header))) => (
            member,
            Found::Member {
                cluster: header.cluster_id,
                member: header.member_id,
            },
        ),
        Ok(Err(EtcdError::Status(status))) if is_leaderless(&status) => {
            return Found::Leaderless.into();
        }
        Ok(Err(_)) | Err(_) => return Found::Nothing.into(),
    };
    // It is there, whether or not it says who the others are: without one that does, what was said before counts.
    let list = timeout(LOOK_TIME_MAX, list(&member)).await;
    let list = list.ok().and_then(Result::ok);
    Look { found, list }
}

/// What that says of each. The etcd of most of them is ours; of two with as many members, that of the first in the
/// list.
fn states(all: &[Look]) -> impl Iterator<Item = MemberState> {
    let mut counts: BTreeMap<u64, usize> = BTreeMap::new();
    let mut ours: Option<(u64, usize)> = None;
    for look in all {
        if let Found::Member { cluster, .. } = look.found {
            *counts.entry(cluster).or_default() += 1;
        }
    }
    for look in all {
        if let Found::Member { cluster, .. } = look.found
            && ours.is_none_or(|(_, most)| counts[&cluster] > most)
        {
            ours = Some((cluster, counts[&cluster]));
        }
    }
    let ours = ours.map(|(cluster, _)| cluster);
    all.iter().map(move |look| match look.found {
        Found::Member { cluster, .. } if Some(cluster) == ours => MemberState::Answers,
        Found::Member { .. } => MemberState::Foreign,
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
    /// Who last answered.
    member: Option<u64>,
}

impl Judge {
    fn hear(&mut self, state: MemberState, found: Found) {
        self.member = found.member().or(self.member);
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
            judge.hear(heard, Found::Nothing);
            assert_eq!(judge.state, told, "{heard:?}");
        }
    }

    #[test]
    fn who_last_answered_is_remembered() {
        let mut judge = Judge::default();
        judge.hear(MemberState::Answers, member(7, 0xcafe));
        for _ in 0..3 {
            judge.hear(MemberState::Silent, Found::Nothing);
        }
        assert_eq!(judge.state, Some(MemberState::Silent));
        assert_eq!(judge.member, Some(0xcafe));
        judge.hear(MemberState::Answers, member(7, 0xbeef));
        assert_eq!(
            judge.member,
            Some(0xbeef),
            "another one, at the same address"
        );
    }

    fn member(cluster: u64, member: u64) -> Found {
        Found::Member { cluster, member }
    }

    #[test]
    fn a_member_of_another_etcd_is_told_apart() {
        use MemberState::{Answers, Foreign, Leaderless, Silent};
        let judged = |found: &[Found]| {
            let looks: Vec<Look> = found.iter().copied().map(Look::from).collect();
            states(&looks).collect::<Vec<_>>()
        };
        let (ours, other) = (member(7, 1), member(3, 1));
        assert_eq!(judged(&[other, ours, ours]), [Foreign, Answers, Answers]);
        assert_eq!(judged(&[ours, other]), [Answers, Foreign]);
        assert_eq!(
            judged(&[Found::Nothing, Found::Leaderless, other]),
            [Silent, Leaderless, Answers]
        );
        assert_eq!(judged(&[]), []);
    }

    /// What a member says of its own URL, or whoever answers in its place, does not take TLS away.
    #[tokio::test]
    async fn where_there_is_tls_an_http_url_is_not_asked_in_the_clear() {
        let authority = rcgen::generate_simple_self_signed(["a".to_owned()]).unwrap();
        let strict = EtcdTls::new(authority.cert.pem().as_bytes(), None).unwrap();
        for (tls, hears) in [(Some(strict), 0x16), (None, b'P')] {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            let url = format!("http://{}", listener.local_addr().unwrap());
            let config = EtcdConfig {
                endpoints: vec![url.parse().unwrap()],
                cluster: ClusterId(1),
                tls,
            };
            let heard = async {
                let (mut stream, _) = listener.accept().await.unwrap();
                tokio::io::AsyncReadExt::read_u8(&mut stream).await.unwrap()
            };
            let (looks, first) = tokio::join!(look_at_all(&config.endpoints, &config), heard);
            assert_eq!(looks[0].found, Found::Nothing);
            assert_eq!(first, hears, "{url}");
        }
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
        let (told, mut views) = watch::channel(MembersView::default());
        let config = EtcdConfig {
            endpoints: endpoints.clone(),
            cluster: ClusterId(1),
            tls: None,
        };
        let watching = tokio::spawn(watch_members(config, told));
        let begun = tokio::time::Instant::now();
        views.changed().await.unwrap();
        assert!(begun.elapsed() >= LOOK_PAUSE, "{:?}", begun.elapsed());
        assert!(begun.elapsed() <= LOOK_PAUSE + 2 * LOOK_TIME_MAX);
        let expected = endpoints.into_iter().map(|endpoint| MemberView {
            endpoint,
            state: MemberState::Silent,
            member: None,
        });
        let configured = expected.collect();
        let listed = Vec::new();
        assert_eq!(
            *views.borrow_and_update(),
            MembersView { configured, listed }
        );
        drop(views);
        watching.await.unwrap();
    }
}
