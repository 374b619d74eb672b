//! Looks at the whole cluster: each reads all that the metadata holds, and what every node says. So they are
//! few at a time, however many ask.
//!
//! Who only reads shares: a look answers everybody who asked before it began, so that what was done before
//! somebody asked is always in the answer, through whichever node it was done. Answers of a moment ago would
//! cost less, and not show what an order through another node has just changed.
//!
//! Orders have looks of their own, and let go of what they have seen before they change anything: who has ordered
//! something is told how it stands, however many read.
//!
//! Invariants:
//! - one look for readers is under way at a time, and they have a rest after each;
//! - so many readers wait at most: another one is told to come again;
//! - what readers have seen is kept for as long as one of them waits, and no longer.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use holdfast_api::Problem;
use holdfast_control::Inventory;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use crate::problem;
use crate::reports::Reports;

/// Readers that wait at a time: half of the connections that the interface takes, so that orders and the other
/// nodes' questions find room.
pub const READERS_MAX: usize = 64;
/// Looks for orders at a time: more would only make each of them slower.
const ORDERS_MAX: usize = 2;
/// Times that all nodes are asked at a time without the metadata: what they say is then in memory.
const UNSEEN_MAX: usize = 1;
/// Looks of which something is in memory at a time: those of orders, those without the metadata, that of whoever steers (or, where
/// nobody can, asks whether the metadata is lost), the one for readers that is under way, and the last one.
pub const LOOKS_MAX: usize = ORDERS_MAX + UNSEEN_MAX + 3;
/// Bytes in memory for each slice that a look sees, at most: what the metadata and three nodes answer, and what is made
/// of it. In `docs/deployment.md` it is multiplied.
pub const LOOK_BYTES_OF_SLICE_MAX: usize = 5 << 10;
/// After a look for readers passes as much time as it took, and at most so much, before the next one begins.
const REST_MAX: Duration = Duration::from_millis(250);

/// What was seen.
pub(crate) type Seen = (Inventory, Reports);

/// What an order has seen, and its place among those that look.
#[derive(Debug)]
pub(crate) struct Look<T> {
    pub(crate) seen: T,
    _place: OwnedSemaphorePermit,
}

/// The looks of one process.
#[derive(Debug)]
pub(crate) struct Looks<T = Seen> {
    orders: Arc<Semaphore>,
    unseen: Semaphore,
    readers: AtomicUsize,
    /// Numbers questions and the beginnings of looks in their order.
    order: AtomicU64,
    /// Held by whoever looks for the readers: from when on the next look may begin.
    turn: tokio::sync::Mutex<Option<Instant>>,
    last: Mutex<Option<Answer<T>>>,
}

/// What came of a look.
#[derive(Debug)]
struct Answer<T> {
    begun: u64,
    seen: Result<Arc<T>, Problem>,
}

impl<T> Default for Looks<T> {
    fn default() -> Self {
        Self {
            orders: Arc::new(Semaphore::new(ORDERS_MAX)),
            unseen: Semaphore::new(UNSEEN_MAX),
            readers: AtomicUsize::new(0),
            order: AtomicU64::new(0),
            turn: tokio::sync::Mutex::new(None),
            last: Mutex::new(None),
        }
    }
}

impl<T> Looks<T> {
    /// A look for an order: what it has seen is as of after this was called. Whoever has one must not ask for
    /// another before it is dropped.
    pub(crate) async fn own<S>(
        &self,
        look: impl Future<Output = Result<S, Problem>>,
    ) -> Result<Look<S>, Problem> {
        let place = Arc::clone(&self.orders).acquire_owned().await;
        let place = place.expect("nobody closes it");
        let seen = look.await?;
        Ok(Look {
            seen,
            _place: place,
        })
    }

    /// What the nodes say, where the metadata is not read: as few at a time, and not in the way of orders.
    pub(crate) async fn unseen<S>(&self, ask: impl Future<Output = S>) -> S {
        let _place = self.unseen.acquire().await.expect("nobody closes it");
        ask.await
    }

    /// A look for a reader: as of after this was called, and shared with others.
    ///
    /// # Errors
    /// What `look` says, or that too many wait.
    pub(crate) async fn shared(
        &self,
        look: impl Future<Output = Result<T, Problem>>,
    ) -> Result<Arc<T>, Problem> {
        let _reader = Reader::enter(self)?;
        let asked = self.order.fetch_add(1, Ordering::Relaxed);
        let mut turn = self.turn.lock().await;
        if let Some(seen) = self.seen_since(asked) {
            return seen;
        }
        if let Some(rested) = *turn {
            tokio::time::sleep_until(rested).await;
        }
        let (begun, begun_at) = (self.order.fetch_add(1, Ordering::Relaxed), Instant::now());
        let seen = look.await.map(Arc::new);
        *turn = Some(Instant::now() + begun_at.elapsed().min(REST_MAX));
        let answer = Answer {
            begun,
            seen: seen.clone(),
        };
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(answer);
        seen
    }

    /// The last answer, if its look was begun after this question.
    fn seen_since(&self, asked: u64) -> Option<Result<Arc<T>, Problem>> {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let answer = last.as_ref().filter(|answer| answer.begun > asked)?;
        Some(answer.seen.clone())
    }
}

/// Somebody who waits.
struct Reader<'a, T>(&'a Looks<T>);

impl<'a, T> Reader<'a, T> {
    fn enter(looks: &'a Looks<T>) -> Result<Self, Problem> {
        let before = looks.readers.fetch_add(1, Ordering::Relaxed);
        let reader = Self(looks);
        if before >= READERS_MAX {
            return Err(problem::busy());
        }
        Ok(reader)
    }
}

impl<T> Drop for Reader<'_, T> {
    fn drop(&mut self) {
        if self.0.readers.fetch_sub(1, Ordering::Relaxed) == 1 {
            let mut last = self.0.last.lock().unwrap_or_else(PoisonError::into_inner);
            *last = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;

    use holdfast_api::ProblemKind;
    use holdfast_api::documents::{LocalJoining, LocalSlice};
    use holdfast_model::metadata::KeyValue;
    use holdfast_model::record::{Membership, Record, ReplicaRecord, SliceRecord};
    use holdfast_model::{Epoch, Incarnation, NodeId, Sequence, SliceId, StoreId, VolumeId};
    use tokio::task::JoinSet;

    use super::*;

    const LOOK: Duration = Duration::from_millis(100);

    /// Looks that take a while, and tell how many were made before.
    #[derive(Default)]
    struct World {
        looks: Looks<u32>,
        made: AtomicU32,
        under_way: AtomicU32,
        under_way_max: AtomicU32,
    }

    impl World {
        async fn look(&self) -> Result<u32, Problem> {
            let made = self.made.fetch_add(1, Ordering::Relaxed);
            let others = self.under_way.fetch_add(1, Ordering::Relaxed);
            self.under_way_max.fetch_max(others + 1, Ordering::Relaxed);
            tokio::time::sleep(LOOK).await;
            self.under_way.fetch_sub(1, Ordering::Relaxed);
            Ok(made)
        }

        async fn read(&self) -> Result<Arc<u32>, Problem> {
            self.looks.shared(self.look()).await
        }
    }

    #[tokio::test(start_paused = true)]
    async fn those_who_ask_while_somebody_looks_share_the_next_look() {
        let world = Arc::new(World::default());
        let mut readers = JoinSet::new();
        for reader in 0..40 {
            let world = Arc::clone(&world);
            readers.spawn(async move {
                // The first one alone, the others while it looks.
                tokio::time::sleep(LOOK / 2 * u32::from(reader > 0)).await;
                let seen = world.read().await.unwrap();
                (reader, *seen)
            });
        }
        while let Some(read) = readers.join_next().await {
            let (reader, seen) = read.unwrap();
            assert_eq!(seen, u32::from(reader > 0), "reader {reader}");
        }
        assert_eq!(world.made.load(Ordering::Relaxed), 2);
        assert_eq!(world.under_way_max.load(Ordering::Relaxed), 1);
        let last = world.looks.last.lock().unwrap();
        assert!(last.is_none(), "nobody reads any more");
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_is_answered_by_a_look_from_before_the_question() {
        let world = World::default();
        let begun = Instant::now();
        for seen in 0..4 {
            assert_eq!(*world.read().await.unwrap(), seen);
        }
        // They rest as long as they look.
        assert_eq!(begun.elapsed(), LOOK * 7);
    }

    #[tokio::test(start_paused = true)]
    async fn one_more_than_may_wait_is_told_to_come_again() {
        let world = Arc::new(World::default());
        let mut readers = JoinSet::new();
        for _ in 0..READERS_MAX {
            let world = Arc::clone(&world);
            readers.spawn(async move { world.read().await });
        }
        tokio::time::sleep(LOOK / 2).await;
        let refused = world.read().await.unwrap_err();
        assert_eq!((refused.kind, refused.status), (ProblemKind::Busy, 503));
        assert!(refused.hint.unwrap().contains("try again"));
        assert!(readers.join_all().await.iter().all(Result::is_ok));
        assert!(world.read().await.is_ok(), "there is room again");
    }

    /// As when the client of whoever looks goes away.
    #[tokio::test(start_paused = true)]
    async fn a_look_that_is_given_up_is_begun_by_another_reader() {
        let world = Arc::new(World::default());
        let given_up = Arc::clone(&world);
        let given_up = tokio::spawn(async move { given_up.read().await });
        tokio::time::sleep(LOOK / 2).await;
        let other = Arc::clone(&world);
        let other = tokio::spawn(async move { other.read().await });
        tokio::time::sleep(LOOK / 4).await;
        given_up.abort();
        assert_eq!(*other.await.unwrap().unwrap(), 1);
    }

    /// Computed: the texts, what is read from them, and maps half full.
    #[test]
    fn a_look_takes_no_more_than_is_promised() {
        let slice = SliceId {
            volume: VolumeId(u64::MAX),
            index: u32::MAX,
        };
        let replica = |node| ReplicaRecord {
            node: NodeId(node),
            store: StoreId(u128::MAX),
            membership: Membership::Joining {
                stable: Sequence(u64::MAX),
            },
        };
        let record = SliceRecord {
            schema: 1,
            slice,
            epoch: Epoch(u64::MAX),
            primary: NodeId(60),
            preferred: NodeId(60),
            replicas: vec![replica(60), replica(61), replica(62)],
            copies_min: 1,
            bytes_moved: u64::MAX,
            proposer: (NodeId(60), Incarnation(u64::MAX)),
            nonce: u64::MAX,
            recovery: None,
        };
        let pair = size_of::<KeyValue>() + SliceRecord::key(slice).len() + record.encode().len();
        let read = 2 * size_of::<(SliceId, SliceRecord)>() + 3 * size_of::<ReplicaRecord>();
        let joining = LocalJoining {
            bytes_total: u64::MAX,
            ..LocalJoining::default()
        };
        let local = LocalSlice {
            volume: u64::MAX,
            index: u32::MAX,
            epoch: u64::MAX,
            used_bytes: u64::MAX,
            joining: vec![joining],
            ..LocalSlice::default()
        };
        // Longer than the document.
        let text = format!("{local:?}").len();
        let told = text + size_of::<LocalSlice>() + size_of::<LocalJoining>();
        let told = told + 2 * size_of::<(SliceId, LocalSlice)>();
        let bytes = pair + read + 3 * told;
        assert!(bytes <= LOOK_BYTES_OF_SLICE_MAX, "{bytes}");
    }

    /// While the metadata is away many ask for what nodes say, and orders find out that it is.
    #[tokio::test(start_paused = true)]
    async fn who_asks_without_the_metadata_is_in_no_orders_way() {
        let world = Arc::new(World::default());
        let mut askers = JoinSet::new();
        for _ in 0..9 {
            let world = Arc::clone(&world);
            askers.spawn(async move { world.looks.unseen(world.look()).await.unwrap() });
        }
        tokio::task::yield_now().await;
        let begun = Instant::now();
        let order = world.looks.own(async { Ok(()) }).await;
        assert!(order.is_ok() && begun.elapsed().is_zero());
        let mut seen = askers.join_all().await;
        seen.sort_unstable();
        assert!(seen.into_iter().eq(0..9));
        assert_eq!(world.under_way_max.load(Ordering::Relaxed), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn orders_have_looks_of_their_own_and_few_at_a_time() {
        let world = Arc::new(World::default());
        let mut orders = JoinSet::new();
        for _ in 0..4 * ORDERS_MAX {
            let world = Arc::clone(&world);
            orders.spawn(async move {
                let look = world.looks.own(world.look()).await.unwrap();
                look.seen
            });
        }
        let mut seen = orders.join_all().await;
        seen.sort_unstable();
        assert!(seen.iter().copied().eq(0..4 * ORDERS_MAX as u32));
        let most = world.under_way_max.load(Ordering::Relaxed);
        assert_eq!(most as usize, ORDERS_MAX);
    }
}
