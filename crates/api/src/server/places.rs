//! Who has a place at the server, and who gives way for want of one.
//!
//! Anybody can connect, and ask what need not be known of anybody. So nobody is turned away for want of a place: of those that have not
//! shown who they are the one goes that has waited longest, of the origin that has most, and last of those from which nodes come. Nodes
//! have places of their own as soon as they have shown their certificates, and whoever has been let in by a request goes for nobody.
//!
//! It refuses to know sockets: it ends the tasks that serve them.
//!
//! Invariants:
//! - no more than [`CONNECTIONS_MAX`] have a place that are no nodes, no more than [`NODES_MAX`] that are;
//! - with TLS, of one origin no more than [`UNPROVEN_OF_ORIGIN_MAX`] have not shown who they are: without it there may be nothing to
//!   show, and those of one machine have all the places if they need them;
//! - those that have are no more than [`CALLERS_MAX`], and of one origin no more than [`CALLERS_OF_ORIGIN_MAX`]: there is always one
//!   that gives way to who comes;
//! - a node gives way to nodes only, and only where no other node leaves within [`NODE_WAIT_MAX`]; a caller gives way to nobody;
//! - whoever has to go is counted, and told of: `server/crowd.rs`.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use holdfast_model::{NodeId, Origin, longest_of_most};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::AbortHandle;
use tokio::time::timeout;

use super::crowd::Crowd;

/// Connections at a time of all that are no nodes, as far as it is known: people, scripts, whatever looks at metrics, and nodes until
/// they have shown their certificates; without TLS nodes, too.
pub const CONNECTIONS_MAX: usize = 128;
/// Connections at a time that have shown a node's certificate: two questions of each other node of a cluster of 64 at once.
pub const NODES_MAX: usize = 128;
/// Of one origin among those that have not shown who they are: half of all. Nodes of one machine without TLS, its browser and its
/// command line are some twenty.
pub(super) const UNPROVEN_OF_ORIGIN_MAX: usize = CONNECTIONS_MAX / 2;
/// Connections that have shown who they are and are no nodes: what is left is for those that come. One more stays among these.
const CALLERS_MAX: usize = CONNECTIONS_MAX / 4 * 3;
/// Of these from one origin, which may be that of many people behind one address.
const CALLERS_OF_ORIGIN_MAX: usize = CONNECTIONS_MAX / 2;
/// Nodes of which it is remembered where they come from: those of a cluster.
const NODES_REMEMBERED_MAX: usize = 64;
/// How long a node waits for a place that another one leaves: what nodes ask is answered soon, and a node waits a second for what another
/// says of itself.
const NODE_WAIT_MAX: Duration = Duration::from_millis(500);

/// Those that have a place.
#[derive(Clone, Debug)]
pub(super) struct Places(Arc<All>);

#[derive(Debug)]
struct All {
    taken: Mutex<Taken>,
    /// The places of nodes that are free, for which nodes wait in the order in which they came.
    of_nodes: Arc<Semaphore>,
    crowd: Crowd,
}

#[derive(Debug)]
struct Taken {
    /// Of one origin among those that have not shown who they are.
    of_origin_max: usize,
    /// In the order in which they came.
    connections: BTreeMap<u64, Connection>,
    drawn: u64,
    /// Where nodes have shown at last who they are.
    nodes: BTreeMap<NodeId, Origin>,
}

#[derive(Debug)]
struct Connection {
    origin: Origin,
    standing: Standing,
    task: Option<AbortHandle>,
    /// The place of a node.
    of_node: Option<OwnedSemaphorePermit>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// It has not shown who it is.
    Unproven,
    /// Its last request that showed something was let in as somebody's.
    Caller,
    /// It has shown a node's certificate.
    Node,
}

/// A place; free again when dropped.
#[derive(Debug)]
pub(super) struct Place {
    number: u64,
    places: Places,
}

/// What becomes of a connection by what its requests show.
#[derive(Clone, Debug)]
pub(crate) struct Vouched {
    number: u64,
    places: Places,
}

impl Places {
    /// Those of a server with TLS, or without it.
    pub(super) fn new(is_tls: bool) -> Self {
        let taken = Taken {
            of_origin_max: if is_tls {
                UNPROVEN_OF_ORIGIN_MAX
            } else {
                CONNECTIONS_MAX
            },
            connections: BTreeMap::new(),
            drawn: 0,
            nodes: BTreeMap::new(),
        };
        Self(Arc::new(All {
            taken: Mutex::new(taken),
            of_nodes: Arc::new(Semaphore::new(NODES_MAX)),
            crowd: Crowd::default(),
        }))
    }

    /// Somebody comes, and gets a place. Whoever has to go for it is ended.
    pub(super) fn enter(&self, from: IpAddr) -> Place {
        let origin = Origin::from(from);
        let mut taken = self.taken();
        let goes = taken.who_goes(origin);
        let goes = goes.and_then(|number| taken.connections.remove(&number));
        taken.drawn += 1;
        let number = taken.drawn;
        let connection = Connection {
            origin,
            standing: Standing::Unproven,
            task: None,
            of_node: None,
        };
        taken.connections.insert(number, connection);
        assert!(
            taken.count_without_nodes() <= CONNECTIONS_MAX,
            "one has gone"
        );
        drop(taken);
        self.end(goes);
        let places = self.clone();
        Place { number, places }
    }

    /// The task that serves who has this place, which may have run already.
    pub(super) fn serve(&self, number: u64, task: AbortHandle) {
        let mut taken = self.taken();
        if let Some(connection) = taken.connections.get_mut(&number) {
            connection.task = Some(task);
            return;
        }
        drop(taken);
        task.abort();
    }

    /// Ends who has no place any more, if anybody, and counts it. Nobody may hold the places meanwhile: its task gives its own back.
    fn end(&self, goes: Option<Connection>) {
        let Some(goes) = goes else {
            return;
        };
        if let Some(task) = goes.task {
            task.abort();
        }
        match goes.standing {
            Standing::Node => self.0.crowd.note_node(goes.origin),
            Standing::Unproven | Standing::Caller => self.0.crowd.note_unproven(goes.origin),
        }
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        let taken = self.0.taken.lock();
        taken.unwrap_or_else(PoisonError::into_inner)
    }
}

impl Taken {
    /// Those of a standing, the one that came first before the others.
    fn of(&self, standing: Standing) -> impl Iterator<Item = (u64, Origin)> {
        let connections = self.connections.iter();
        let of = connections.filter(move |(_, it)| it.standing == standing);
        of.map(|(number, it)| (*number, it.origin))
    }

    fn count_without_nodes(&self) -> usize {
        self.connections.len() - self.of(Standing::Node).count()
    }

    /// Where a connection of this standing comes from, if it is one and has a place still.
    fn origin_of(&self, number: u64, standing: Standing) -> Option<Origin> {
        let connection = self.connections.get(&number);
        let of = connection.filter(|it| it.standing == standing);
        of.map(|it| it.origin)
    }

    fn put(&mut self, number: u64, standing: Standing) {
        if let Some(connection) = self.connections.get_mut(&number) {
            connection.standing = standing;
        }
    }

    /// How many from there have not shown who they are, and which of them has waited longest.
    fn unproven_of(&self, origin: Origin) -> (usize, Option<u64>) {
        let mut unproven = self.of(Standing::Unproven).filter(|it| it.1 == origin);
        let longest = unproven.next().map(|it| it.0);
        (usize::from(longest.is_some()) + unproven.count(), longest)
    }

    /// Who has to go when one more comes from there, if anybody has.
    fn who_goes(&self, origin: Origin) -> Option<u64> {
        let (count, longest) = self.unproven_of(origin);
        if count >= self.of_origin_max {
            return longest;
        }
        if self.count_without_nodes() < CONNECTIONS_MAX {
            return None;
        }
        let comes_from_nodes = |origin: Origin| self.nodes.values().any(|it| *it == origin);
        let unproven = || self.of(Standing::Unproven);
        let strangers = unproven().filter(|it| !comes_from_nodes(it.1));
        longest_of_most(strangers).or_else(|| longest_of_most(unproven()))
    }

    /// The node that has to go for another one, if there is any, and its place.
    fn node_that_goes(&mut self) -> (Option<OwnedSemaphorePermit>, Option<Connection>) {
        let longest = longest_of_most(self.of(Standing::Node));
        let mut goes = longest.and_then(|number| self.connections.remove(&number));
        let of_node = goes.as_mut().and_then(|goes| goes.of_node.take());
        (of_node, goes)
    }

    /// That nodes come from there.
    fn remember(&mut self, node: NodeId, origin: Origin) {
        self.nodes.insert(node, origin);
        if self.nodes.len() > NODES_REMEMBERED_MAX {
            // Numbers are not used again: the lowest are those of nodes that may be gone.
            self.nodes.pop_first();
        }
    }

    fn has_room_for_caller(&self, origin: Origin) -> bool {
        let mut callers = 0;
        let mut of_origin = 0;
        for (_, of) in self.of(Standing::Caller) {
            callers += 1;
            of_origin += usize::from(of == origin);
        }
        callers < CALLERS_MAX && of_origin < CALLERS_OF_ORIGIN_MAX
    }
}

impl Place {
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// For the connection's requests.
    pub(super) fn vouched(&self) -> Vouched {
        Vouched {
            number: self.number,
            places: self.places.clone(),
        }
    }

    /// It has shown the certificate of a node: it takes the place of one. Where there is none, and none is left within
    /// [`NODE_WAIT_MAX`], the one goes that has waited longest, of the origin that has most of them.
    pub(super) async fn note_node(&self, node: NodeId) {
        self.note_origin(node);
        let free = Arc::clone(&self.places.0.of_nodes).acquire_owned();
        let free = timeout(NODE_WAIT_MAX, free).await;
        let mut taken = self.places.taken();
        // Meanwhile it may have been the one that goes.
        if taken.origin_of(self.number, Standing::Unproven).is_none() {
            return;
        }
        let (of_node, goes) = match free {
            Ok(free) => (free.ok(), None),
            Err(_) => taken.node_that_goes(),
        };
        if let Some(connection) = taken.connections.get_mut(&self.number)
            && of_node.is_some()
        {
            connection.standing = Standing::Node;
            connection.of_node = of_node;
        }
        drop(taken);
        self.places.end(goes);
    }

    fn note_origin(&self, node: NodeId) {
        let mut taken = self.places.taken();
        if let Some(origin) = taken.origin_of(self.number, Standing::Unproven) {
            taken.remember(node, origin);
        }
    }
}

impl Vouched {
    /// A request was let in as somebody's.
    pub(crate) fn note_caller(&self) {
        let mut taken = self.places.taken();
        let Some(origin) = taken.origin_of(self.number, Standing::Unproven) else {
            return;
        };
        if taken.has_room_for_caller(origin) {
            taken.put(self.number, Standing::Caller);
        }
    }

    /// What a request showed is nobody's.
    pub(crate) fn note_nobody(&self) {
        let mut taken = self.places.taken();
        let Some(origin) = taken.origin_of(self.number, Standing::Caller) else {
            return;
        };
        // Before it is one of them: whoever is about to be told that it is nobody goes after those that were.
        let (count, longest) = taken.unproven_of(origin);
        taken.put(self.number, Standing::Unproven);
        let goes = longest.filter(|_| count >= taken.of_origin_max);
        let goes = goes.and_then(|number| taken.connections.remove(&number));
        drop(taken);
        self.places.end(goes);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.taken().connections.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STRANGER: &str = "192.0.2.1";
    const OTHER: &str = "192.0.2.2";

    fn enter(places: &Places, from: &str) -> Place {
        places.enter(from.parse().unwrap())
    }

    /// So many come, and stay.
    fn crowd(places: &Places, from: &str, count: usize) -> Vec<Place> {
        (0..count).map(|_| enter(places, from)).collect()
    }

    /// So many come from addresses of their own.
    fn crowd_of_many(places: &Places, count: usize) -> Vec<Place> {
        let from = |number| IpAddr::V4((0x0a00_0000 + number as u32).into());
        let place = |number| places.enter(from(number));
        (0..count).map(place).collect()
    }

    fn stays(place: &Place) -> bool {
        let taken = place.places.taken();
        taken.connections.contains_key(&place.number)
    }

    fn staying(places: &[Place]) -> usize {
        places.iter().filter(|place| stays(place)).count()
    }

    /// Programs of one machine ask many things at once, and without TLS none of them may have anything to show.
    #[test]
    fn without_tls_those_of_one_machine_have_all_places() {
        let places = Places::new(false);
        let all = crowd(&places, STRANGER, CONNECTIONS_MAX);
        assert_eq!(staying(&all), CONNECTIONS_MAX);
        let _one_more = enter(&places, STRANGER);
        assert_eq!(staying(&all), CONNECTIONS_MAX - 1);
    }

    #[test]
    fn one_origin_takes_no_more_than_its_part_and_its_oldest_goes() {
        let places = Places::new(true);
        let other = enter(&places, OTHER);
        let strangers = crowd(&places, STRANGER, UNPROVEN_OF_ORIGIN_MAX);
        assert_eq!(staying(&strangers), UNPROVEN_OF_ORIGIN_MAX);
        // As the same address in the form of IPv6, too.
        assert_eq!(places.0.crowd.unproven.counted(), 0);
        let one = enter(&places, "::ffff:192.0.2.1");
        assert_eq!(places.0.crowd.unproven.counted(), 1, "it is told of");
        assert!(!stays(&strangers[0]) && stays(&strangers[1]) && stays(&one));
        assert!(stays(&other));
        drop((strangers, one));
        assert_eq!(places.taken().connections.len(), 1);
    }

    #[test]
    fn of_many_origins_the_one_with_most_gives_way() {
        let places = Places::new(true);
        let first = enter(&places, STRANGER);
        let two = crowd(&places, OTHER, 2);
        let many = crowd_of_many(&places, CONNECTIONS_MAX - 2);
        assert!(stays(&first) && !stays(&two[0]) && stays(&two[1]));
        assert_eq!(staying(&many), many.len());
        // Of those that have one each the one that has waited longest.
        let _last = enter(&places, "192.0.2.3");
        assert!(!stays(&first) && stays(&two[1]));
    }

    #[test]
    fn who_has_shown_who_he_is_goes_for_nobody() {
        let places = Places::new(true);
        let callers = crowd(&places, OTHER, 20);
        for caller in &callers {
            caller.vouched().note_caller();
        }
        let many = crowd_of_many(&places, 3 * CONNECTIONS_MAX);
        let more = crowd(&places, OTHER, 3 * CONNECTIONS_MAX);
        assert_eq!(staying(&callers), 20);
        assert_eq!(staying(&many) + staying(&more), CONNECTIONS_MAX - 20);
        // Who is nobody any more gives way as others do.
        for caller in &callers {
            caller.vouched().note_nobody();
        }
        let _more = crowd(&places, OTHER, CONNECTIONS_MAX);
        assert_eq!(staying(&callers), 0);
    }

    #[test]
    fn callers_leave_places_for_those_that_come() {
        let places = Places::new(true);
        let callers = crowd(&places, OTHER, CALLERS_OF_ORIGIN_MAX);
        for caller in &callers {
            caller.vouched().note_caller();
        }
        // One more of that origin may ask, and does not stay for others.
        let further = crowd(&places, OTHER, UNPROVEN_OF_ORIGIN_MAX);
        for caller in &further {
            caller.vouched().note_caller();
        }
        let count = || places.taken().of(Standing::Caller).count();
        assert_eq!(count(), CALLERS_OF_ORIGIN_MAX);
        let many = crowd_of_many(&places, CONNECTIONS_MAX);
        for caller in &many {
            caller.vouched().note_caller();
        }
        assert_eq!(count(), CALLERS_MAX);
        assert_eq!(staying(&callers), callers.len());
        let come = enter(&places, STRANGER);
        let _others = crowd(&places, "192.0.2.3", 100);
        assert!(stays(&come), "one has least of all");
    }

    #[test]
    fn callers_that_are_nobody_any_more_are_no_more_than_others_of_an_origin() {
        let places = Places::new(true);
        let callers = crowd(&places, OTHER, CALLERS_OF_ORIGIN_MAX);
        for caller in &callers {
            caller.vouched().note_caller();
        }
        let others = crowd(&places, OTHER, UNPROVEN_OF_ORIGIN_MAX);
        for caller in &callers {
            caller.vouched().note_nobody();
        }
        assert_eq!(staying(&callers) + staying(&others), UNPROVEN_OF_ORIGIN_MAX);
    }

    /// It is told so yet, by the task that would be ended.
    #[test]
    fn who_is_nobody_any_more_is_not_the_one_that_goes_for_it() {
        let places = Places::new(true);
        let caller = enter(&places, OTHER);
        caller.vouched().note_caller();
        let others = crowd(&places, OTHER, UNPROVEN_OF_ORIGIN_MAX);
        caller.vouched().note_nobody();
        assert!(stays(&caller) && !stays(&others[0]) && stays(&others[1]));
        assert_eq!(places.0.crowd.unproven.counted(), 1, "it is told of");
        // Afterwards it gives way as others do.
        let _more = enter(&places, OTHER);
        assert!(!stays(&caller) && stays(&others[1]));
    }

    #[tokio::test(start_paused = true)]
    async fn nodes_have_places_of_their_own_and_give_way_to_nodes_only() {
        let places = Places::new(true);
        let nodes = crowd(&places, OTHER, 60);
        for (number, node) in (1..).zip(&nodes) {
            node.note_node(NodeId(number)).await;
        }
        let strangers = crowd_of_many(&places, 3 * CONNECTIONS_MAX);
        assert_eq!(
            (staying(&nodes), staying(&strangers)),
            (60, CONNECTIONS_MAX)
        );
        // A token that such a connection shows, and that is none, changes nothing.
        nodes[0].vouched().note_nobody();
        nodes[0].vouched().note_caller();
        let mut more = Vec::new();
        for _ in 0..NODES_MAX {
            more.push(enter(&places, OTHER));
            more[more.len() - 1].note_node(NodeId(1)).await;
        }
        assert_eq!(places.taken().of(Standing::Node).count(), NODES_MAX);
        assert_eq!((staying(&nodes), staying(&more)), (0, NODES_MAX));
        assert!(places.taken().connections.len() <= CONNECTIONS_MAX + NODES_MAX);
        assert_eq!(places.0.crowd.nodes.counted(), 60, "they are told of");
    }

    /// What nodes ask is answered soon, and one that is answered goes for nobody.
    #[tokio::test(start_paused = true)]
    async fn a_node_waits_a_moment_for_a_place_before_another_one_goes_for_it() {
        let places = Places::new(true);
        let mut nodes = crowd(&places, OTHER, UNPROVEN_OF_ORIGIN_MAX);
        nodes.extend(crowd(&places, STRANGER, NODES_MAX - nodes.len()));
        for node in &nodes {
            node.note_node(NodeId(1)).await;
        }
        let (answered, late) = (nodes.pop().unwrap(), enter(&places, OTHER));
        let leaves = async {
            tokio::time::sleep(NODE_WAIT_MAX / 2).await;
            drop(answered);
        };
        tokio::join!(late.note_node(NodeId(2)), leaves);
        assert_eq!(staying(&nodes), NODES_MAX - 1);
        assert_eq!(places.taken().of(Standing::Node).count(), NODES_MAX);
        assert_eq!(places.0.crowd.nodes.counted(), 0);
        // Where none is left, it does not wait for ever.
        let later = enter(&places, OTHER);
        later.note_node(NodeId(3)).await;
        assert!(stays(&later) && staying(&nodes) == NODES_MAX - 2);
        assert_eq!(places.0.crowd.nodes.counted(), 1);
        // And what is left is there for the next one.
        drop(nodes);
        let next = enter(&places, OTHER);
        next.note_node(NodeId(4)).await;
        assert_eq!(places.taken().of(Standing::Node).count(), 3);
    }

    /// A node shakes hands while others come from as many addresses as they like.
    #[tokio::test]
    async fn who_comes_from_where_nodes_are_goes_last() {
        let places = Places::new(true);
        enter(&places, OTHER).note_node(NodeId(1)).await;
        let nodes = crowd(&places, OTHER, 10);
        let strangers = crowd_of_many(&places, 3 * CONNECTIONS_MAX);
        assert_eq!(
            (staying(&nodes), staying(&strangers)),
            (10, CONNECTIONS_MAX - 10)
        );
        // Whoever else is there keeps nobody out.
        let _more = crowd(&places, OTHER, 3 * CONNECTIONS_MAX);
        let stranger = enter(&places, STRANGER);
        assert!(stays(&stranger));
    }

    #[tokio::test]
    async fn whose_place_is_gone_is_ended() {
        let places = Places::new(true);
        let pending = || tokio::spawn(std::future::pending::<()>());
        let place = enter(&places, STRANGER);
        let task = pending();
        places.serve(place.number(), task.abort_handle());
        let _strangers = crowd(&places, STRANGER, UNPROVEN_OF_ORIGIN_MAX);
        assert!(task.await.unwrap_err().is_cancelled());
        // Even where it was gone before it was known by what.
        let task = pending();
        places.serve(place.number(), task.abort_handle());
        assert!(task.await.unwrap_err().is_cancelled());
    }
}
