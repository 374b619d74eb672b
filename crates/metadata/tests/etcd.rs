//! The interface over real etcd: the suite on one member and on three, on the release that Debian has
//! and on the present one; then members that are lost, frozen, compacted, restored from a backup.

use std::time::{Duration, Instant};

use holdfast_metadata::client::Status;
use holdfast_metadata::etcd::{EtcdEndpoint, Taking, Turn, take_turn};
use holdfast_metadata::suite::user::{key, prefix, put};
use holdfast_metadata::suite::{self, Harness, User};
use holdfast_metadata::{Client, Session};
use holdfast_model::ClusterId;
use holdfast_model::metadata::{
    MetadataAnswer, MetadataError, MetadataRequest, MetadataToken, Operation, Revision,
    Transaction, VALUE_LENGTH_MAX, WatchEvent,
};
use tokio::time::{sleep, timeout};

use crate::common::CLUSTER;
use crate::common::etcd::{Cluster, Release};

/// A member's client endpoint.
fn endpoint(cluster: &Cluster, member: usize) -> EtcdEndpoint {
    cluster.address(member).parse().unwrap()
}

/// Whoever asks at whichever member: one has the turn, until its time is over.
#[tokio::test]
async fn a_turn_is_one_members_at_a_time_and_ends_by_itself() {
    for release in [Release::Packaged, Release::Built] {
        let mut cluster = Cluster::start(release, 3);
        let ask = |endpoint: EtcdEndpoint, name: &'static str| async move {
            let taking = Taking {
                key: "/etcd/turn",
                name,
                time: Duration::from_secs(2),
            };
            take_turn(&endpoint, CLUSTER, None, taking).await
        };
        let all = || [0, 1, 2].map(|member| endpoint(&cluster, member));
        let [one, two, three] = all();
        let begun = Instant::now();
        let (one, two, three) = tokio::join!(ask(one, "n1"), ask(two, "n2"), ask(three, "n3"));
        let all_turns = [one, two, three].map(Result::unwrap);
        let own = all_turns.iter().filter(|turn| **turn == Turn::Own);
        assert_eq!(own.count(), 1, "{all_turns:?}");
        let [one, two, _] = all();
        // Nor is it given twice to the same one.
        assert!(matches!(ask(one, "n1").await.unwrap(), Turn::Other(_)));
        while ask(two.clone(), "n2").await.unwrap() != Turn::Own {
            assert!(begun.elapsed() < SOON, "it ends");
            sleep(Duration::from_millis(50)).await;
        }
        assert!(begun.elapsed() >= Duration::from_secs(2), "not before");
        let last = endpoint(&cluster, 2);
        cluster.kill(0);
        cluster.kill(1);
        assert!(ask(last, "n3").await.is_err(), "without a majority none");
    }
}

/// Long enough for anything that happens at all, on a machine that is busy.
const SOON: Duration = Duration::from_secs(60);

/// Each session begins at another member.
struct Etcd {
    cluster: Cluster,
    members: usize,
    next: usize,
}

impl Etcd {
    fn start(release: Release, members: usize) -> Self {
        Self {
            cluster: Cluster::start(release, members),
            members,
            next: 0,
        }
    }

    fn client(&mut self) -> Client {
        let first = self.next;
        self.next += 1;
        let places: Vec<_> = (0..self.members)
            .map(|one| (first + one) % self.members)
            .collect();
        self.cluster.client(CLUSTER, &places)
    }
}

impl Harness for Etcd {
    async fn session(&mut self) -> Session {
        self.client().session
    }

    async fn pass(&mut self, time: Duration) {
        sleep(time).await;
    }

    async fn compact(&mut self) {
        // What is compacted is the past: something happens after what the suite has done.
        let mut user = User::new(self.session().await);
        user.put("/overrun", "").await;
        self.cluster.compact();
    }
}

#[tokio::test]
async fn the_packaged_etcd_passes_the_suite() {
    suite::run(&mut Etcd::start(Release::Packaged, 1)).await;
}

#[tokio::test]
async fn the_present_etcd_passes_the_suite() {
    suite::run(&mut Etcd::start(Release::Built, 1)).await;
}

#[tokio::test]
async fn three_members_pass_the_suite() {
    for release in [Release::Packaged, Release::Built] {
        suite::run(&mut Etcd::start(release, 3)).await;
    }
}

/// A user that does not mind a store that is away for a while.
struct Patient {
    user: User,
    answers: u32,
    unknown: u32,
}

impl Patient {
    fn new(client: Client) -> Self {
        Self {
            user: User::new(client.session),
            answers: 0,
            unknown: 0,
        }
    }

    /// Puts the key until that is answered well; tells when.
    async fn put(&mut self, name: &str, value: &str) -> Revision {
        let begun = Instant::now();
        loop {
            let transaction = Transaction {
                success: vec![put(name, value)],
                ..Transaction::default()
            };
            match self.user.transact(transaction).await {
                Ok(outcome) => {
                    self.answers += 1;
                    return outcome.revision;
                }
                Err(MetadataError::Unavailable) => self.unknown += 1,
                Err(error) => panic!("etcd being away is no {error}"),
            }
            assert!(begun.elapsed() < SOON, "etcd comes back");
            sleep(Duration::from_millis(20)).await;
        }
    }

    /// Reads all below, as soon as that is answered.
    async fn range(&mut self, below: &str) -> (Revision, Vec<(String, String)>) {
        let begun = Instant::now();
        loop {
            let transaction = Transaction {
                success: vec![Operation::Range(prefix(below))],
                ..Transaction::default()
            };
            match self.user.transact(transaction).await {
                Ok(outcome) => match &outcome.results[..] {
                    [holdfast_model::metadata::OperationResult::Range(found)] => {
                        let text = |value: &[u8]| String::from_utf8(value.to_vec()).unwrap();
                        let found = found.iter().map(|one| (one.key.clone(), text(&one.value)));
                        return (outcome.revision, found.collect());
                    }
                    other => panic!("a range is not answered by {other:?}"),
                },
                Err(MetadataError::Unavailable) => {}
                Err(error) => panic!("etcd being away is no {error}"),
            }
            assert!(begun.elapsed() < SOON, "etcd comes back");
            sleep(Duration::from_millis(20)).await;
        }
    }
}

/// The values that a watch told of one key, in order, with what was put twice told twice.
fn values(events: &[WatchEvent]) -> Vec<String> {
    let value = |event: &WatchEvent| match event {
        WatchEvent::Put(new) => String::from_utf8(new.value.to_vec()).unwrap(),
        WatchEvent::Delete { .. } => panic!("nothing is deleted"),
    };
    events.iter().map(value).collect()
}

/// That no event is missing and none is told twice: versions of one key count by one.
fn assert_complete(events: &[WatchEvent]) {
    let versions: Vec<u64> = events
        .iter()
        .map(|event| match event {
            WatchEvent::Put(new) => new.version,
            WatchEvent::Delete { .. } => panic!("nothing is deleted"),
        })
        .collect();
    let expected: Vec<u64> = (versions[0]..).take(versions.len()).collect();
    assert_eq!(versions, expected);
}

/// Puts numbers through one client and watches them through another while `fault` happens to the
/// cluster, then until `heal` is done and everything is told.
async fn endure(
    cluster: &mut Cluster,
    first: usize,
    fault: impl FnOnce(&mut Cluster),
    meanwhile: Duration,
    heal: impl FnOnce(&mut Cluster),
) -> Patient {
    let places = [first, (first + 1) % 3, (first + 2) % 3];
    let mut writer = Patient::new(cluster.client(CLUSTER, &places));
    let mut watcher = User::new(cluster.client(CLUSTER, &places).session);
    let from = writer.put("/fault/key", "0").await;
    let watch = watcher.watch(key("/fault/key"), from);
    watcher.events(watch, from).await;
    let mut events = Vec::new();
    let mut last = from;
    for count in 1..20 {
        last = writer.put("/fault/key", &count.to_string()).await;
    }
    fault(cluster);
    let begun = Instant::now();
    let mut count = 20;
    let mut write = async |writer: &mut Patient, until: Duration| {
        let mut last = Revision(0);
        while begun.elapsed() < until {
            last = writer.put("/fault/key", &count.to_string()).await;
            count += 1;
            sleep(Duration::from_millis(10)).await;
        }
        last
    };
    // Whoever has to wait for etcd would wait for ever if it were not healed meanwhile.
    let _ = timeout(meanwhile, write(&mut writer, meanwhile)).await;
    heal(cluster);
    last = last.max(write(&mut writer, meanwhile + Duration::from_secs(2)).await);
    last = last.max(writer.put("/fault/key", "end").await);
    events.extend(watcher.events(watch, last).await);
    assert_complete(&events);
    assert_eq!(values(&events).last().unwrap(), "end");
    let (_, found) = writer.range("/fault/").await;
    assert_eq!(found, [("/fault/key".to_owned(), "end".to_owned())]);
    writer
}

#[tokio::test]
async fn a_lost_member_is_left_and_no_change_is_missed() {
    for release in [Release::Packaged, Release::Built] {
        let mut cluster = Cluster::start(release, 3);
        let leader = cluster.leader();
        let follower = (leader + 1) % 3;
        // The one that the clients are connected to.
        let writer = endure(
            &mut cluster,
            follower,
            |cluster| cluster.kill(follower),
            Duration::from_secs(2),
            |cluster| cluster.start_member(follower),
        )
        .await;
        assert!(
            writer.answers > 50,
            "the others go on: {} answers, {} unknown",
            writer.answers,
            writer.unknown
        );
        cluster.wait();
        let leader = cluster.leader();
        // The leader, with clients at another.
        endure(
            &mut cluster,
            (leader + 1) % 3,
            |cluster| cluster.kill(leader),
            Duration::from_secs(5),
            |cluster| cluster.start_member(leader),
        )
        .await;
    }
}

#[tokio::test]
async fn all_members_are_lost_and_come_back() {
    let mut cluster = Cluster::start(Release::Built, 3);
    let writer = endure(
        &mut cluster,
        0,
        Cluster::kill_all,
        Duration::from_secs(4),
        Cluster::start_all,
    )
    .await;
    assert!(writer.unknown > 0, "that etcd is away is said");
}

#[tokio::test]
async fn a_frozen_member_is_left() {
    let mut cluster = Cluster::start(Release::Built, 3);
    let follower = (cluster.leader() + 1) % 3;
    let before = Instant::now();
    let writer = endure(
        &mut cluster,
        follower,
        |cluster| cluster.freeze(follower),
        Duration::from_secs(8),
        |cluster| cluster.thaw(follower),
    )
    .await;
    assert!(
        writer.answers > 50,
        "the others go on: {} answers after {:?}",
        writer.answers,
        before.elapsed()
    );
}

/// As long as nobody knows, slices that a lost machine led wait for their next primary, if that speaks to
/// the member on the same machine.
#[tokio::test]
async fn a_member_that_says_nothing_is_left_soon() {
    const PATIENCE: Duration = Duration::from_secs(2);
    let cluster = Cluster::start(Release::Packaged, 3);
    let follower = (cluster.leader() + 1) % 3;
    let other = (follower + 1) % 3;
    let client = cluster.client(CLUSTER, &[follower, other]);
    let mut status = client.status.clone();
    let mut user = Patient::new(client);
    user.put("/silence", "1").await;
    cluster.freeze(follower);
    let begun = Instant::now();
    let left = status.wait_for(|status| matches!(status, Status::Disconnected { .. }));
    timeout(SOON, left).await.expect("it is left").unwrap();
    let took = begun.elapsed();
    cluster.thaw(follower);
    assert!(took < PATIENCE, "it was left after {took:?}");
}

#[tokio::test]
async fn a_member_without_its_leader_is_left_for_one_that_has_it() {
    let mut cluster = Cluster::start(Release::Built, 3);
    let client = cluster.client(CLUSTER, &[0]);
    let mut status = client.status.clone();
    let mut user = Patient::new(client);
    user.put("/lonely", "1").await;
    // Alone it is no cluster: it answers, and says that it cannot.
    cluster.kill(1);
    cluster.kill(2);
    let left = status.wait_for(|status| matches!(status, Status::Disconnected { .. }));
    timeout(SOON, left).await.expect("it is left").unwrap();
    let nothing = MetadataRequest::Transact(Transaction::default());
    let answer = user.user.ask(nothing).await;
    assert_eq!(
        answer,
        MetadataAnswer::Failed(MetadataError::Unavailable),
        "not even a look is answered from a memory that may be old"
    );
    cluster.start_member(1);
    cluster.start_member(2);
    user.put("/lonely", "2").await;
    let connected = status.wait_for(|status| matches!(status, Status::Connected { .. }));
    timeout(SOON, connected).await.expect("it is back").unwrap();
}

#[tokio::test]
async fn a_watch_whose_history_is_gone_meanwhile_says_so() {
    let mut cluster = Cluster::start(Release::Built, 1);
    let mut watcher = User::new(cluster.client(CLUSTER, &[0]).session);
    let from = watcher.put("/compacted", "1").await;
    let watch = watcher.watch(key("/compacted"), from);
    watcher.events(watch, from).await;
    // A living watch is not touched by what is forgotten behind it.
    let mut other = Patient::new(cluster.client(CLUSTER, &[0]));
    let second = other.put("/compacted", "2").await;
    cluster.compact();
    assert_eq!(values(&watcher.events(watch, second).await), ["2"]);
    // One that is away while it is forgotten cannot go on.
    let idle = watcher.watch(key("/idle"), Revision(second.0 + 1));
    watcher.revision().await;
    for _ in 0..3 {
        cluster.put_other("/nobody's");
    }
    cluster.compact();
    cluster.kill_all();
    cluster.start_all();
    for token in [watch, idle] {
        let resumed = timeout(SOON, watcher.answer(token)).await.unwrap();
        assert_eq!(resumed, MetadataAnswer::WatchResumed);
        match timeout(SOON, watcher.answer(token)).await.unwrap() {
            MetadataAnswer::WatchEnded(MetadataError::Compacted(from)) => assert!(from > second),
            other => panic!("a watch that cannot go on is not answered by {other:?}"),
        }
    }
    let (now, _) = other.range("/compacted").await;
    let again = watcher.watch(key("/compacted"), Revision(now.0 + 1));
    let third = other.put("/compacted", "3").await;
    assert_eq!(values(&watcher.events(again, third).await), ["3"]);
}

#[tokio::test]
async fn an_etcd_that_went_back_is_told_and_no_watch_goes_on() {
    let mut cluster = Cluster::start(Release::Built, 1);
    let mut user = Patient::new(cluster.client(CLUSTER, &[0]));
    let first = user.put("/back", "1").await;
    let backup = cluster.backup();
    let mut last = first;
    for count in 2..9 {
        last = user.put("/back", &count.to_string()).await;
    }
    let watch = user.user.watch(key("/back"), first);
    assert_eq!(user.user.events(watch, last).await.len(), 8);
    cluster.kill_all();
    cluster.restore(&backup);
    cluster.start_all();
    assert_eq!(
        timeout(SOON, user.user.answer(watch)).await.unwrap(),
        MetadataAnswer::WatchEnded(MetadataError::Unavailable),
        "it waits for no revision that means another thing now"
    );
    let (revision, found) = user.range("/back").await;
    assert!(revision < last, "the revision is told as it is");
    assert_eq!(found, [("/back".to_owned(), "1".to_owned())]);
    let again = user.user.watch(key("/back"), Revision(revision.0 + 1));
    let new = user.put("/back", "new").await;
    assert_eq!(values(&user.user.events(again, new).await), ["new"]);
}

/// Far more than gRPC takes by itself, and than etcd sends in one piece.
#[tokio::test]
async fn much_is_read_and_watched() {
    const COUNT: usize = 80;
    for release in [Release::Packaged, Release::Built] {
        let cluster = Cluster::start(release, 1);
        let mut user = User::new(cluster.client(CLUSTER, &[0]).session);
        let value = "v".repeat(VALUE_LENGTH_MAX - 16);
        let from = Revision(user.revision().await.0 + 1);
        let mut last = from;
        // Three in one transaction: 0.75 MiB at one revision.
        for three in 0..COUNT.div_ceil(3) {
            let puts = (0..3).map(|one| put(&format!("/much/{three}/{one}"), &value));
            let transaction = Transaction {
                success: puts.collect(),
                ..Transaction::default()
            };
            last = user.transact(transaction).await.unwrap().revision;
        }
        let (revision, found) = user.range(prefix("/much/")).await;
        assert_eq!((revision, found.len()), (last, COUNT.div_ceil(3) * 3));
        assert!(found.iter().all(|one| one.value.len() == value.len()));
        let watch = user.watch(prefix("/much/"), from);
        let mut told: Vec<String> = Vec::new();
        for event in user.events(watch, last).await {
            match event {
                WatchEvent::Put(new) => told.push(new.key),
                WatchEvent::Delete { .. } => panic!("nothing is deleted"),
            }
        }
        told.sort();
        let all: Vec<_> = found.into_iter().map(|one| one.key).collect();
        assert_eq!(told, all);
    }
}

#[tokio::test]
async fn clusters_share_an_etcd_and_know_nothing_of_each_other() {
    let cluster = Cluster::start(Release::Built, 1);
    let mut ours = User::new(cluster.client(CLUSTER, &[0]).session);
    let mut theirs = User::new(cluster.client(ClusterId(0xC2), &[0]).session);
    let from = Revision(ours.revision().await.0 + 1);
    let watch = ours.watch(prefix(""), from);
    theirs.put("/shared", "theirs").await;
    cluster.put_other("/holdfast/");
    let last = ours.put("/shared", "ours").await;
    assert_eq!(values(&ours.events(watch, last).await), ["ours"]);
    assert_eq!(ours.range(prefix("")).await.1.len(), 1);
    ours.delete(prefix("")).await;
    let left = theirs.find("/shared").await.expect("it is not ours");
    assert_eq!(&left.value[..], b"theirs");
}

#[tokio::test]
async fn an_address_where_nobody_is_does_no_harm() {
    let cluster = Cluster::start(Release::Built, 1);
    let nobody = "127.0.0.1:1".parse().unwrap();
    let somebody = cluster.address(0).parse().unwrap();
    let client = Client::start_etcd(&holdfast_metadata::etcd::EtcdConfig {
        endpoints: vec![nobody, somebody],
        cluster: CLUSTER,
        tls: None,
    });
    let mut status = client.status.clone();
    let mut user = User::new(client.session);
    let token: MetadataToken = user.submit(MetadataRequest::Transact(Transaction::default()));
    assert!(matches!(
        user.answer(token).await,
        MetadataAnswer::Transacted(_)
    ));
    let connected = status.wait_for(|status| matches!(status, Status::Connected { .. }));
    timeout(SOON, connected).await.unwrap().unwrap();
}
