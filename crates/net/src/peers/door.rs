//! Who has connected and has not shown yet who it is.
//!
//! Anybody can connect and say nothing. So nobody is turned away for want of a place: the one goes that has waited longest of
//! the address that has most, and of those from which nodes come, none goes as long as there is another, and none for a stranger:
//! where all that wait are such, it is the stranger who goes. Who has shown that it is a node that may come takes no place here any
//! more.
//!
//! It refuses to know sockets: it ends the tasks that serve them.
//!
//! Invariants:
//! - no more wait than [`UNPROVEN_MAX`], and from an address from which no node is known to come no more than
//!   [`UNPROVEN_OF_ADDRESS_MAX`];
//! - nobody from where a node is known to come gives way to somebody from elsewhere;
//! - who is dropped was told of as such, once.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;

use holdfast_model::{NodeId, Origin, longest_of_most};
use tokio::task::AbortHandle;

use crate::limits::{UNPROVEN_MAX, UNPROVEN_OF_ADDRESS_MAX};

/// Addresses of a name that are remembered: more than a machine has networks for nodes.
const ADDRESSES_MAX: usize = 16;

/// Those who wait.
#[derive(Clone, Default)]
pub(crate) struct Door(Rc<RefCell<Waiting>>);

#[derive(Default)]
struct Waiting {
    /// In the order in which they came.
    connections: BTreeMap<u64, Connection>,
    drawn: u64,
    known: BTreeMap<NodeId, Known>,
}

struct Connection {
    from: IpAddr,
    /// Nodes came from there when it came.
    is_known: bool,
    task: Option<AbortHandle>,
}

/// From where a node comes.
#[derive(Default)]
struct Known {
    /// It is said to be there: one address, or those of a name.
    said: BTreeSet<IpAddr>,
    /// It has shown there who it is, at last.
    shown: Option<IpAddr>,
}

/// A place among those who wait; free again when dropped.
pub(crate) struct Place {
    number: u64,
    door: Door,
}

/// Who has to go when one more comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Goes {
    /// There is room for all.
    Nobody,
    /// Who has this number.
    One(u64),
    /// Who comes.
    Newcomer,
}

impl Door {
    /// Somebody comes, and gets a place, if one can be had. Whoever has to go for it is ended, and its address told.
    pub(crate) fn enter(&self, from: IpAddr) -> (Option<Place>, Option<IpAddr>) {
        let from = from.to_canonical();
        let mut waiting = self.0.borrow_mut();
        let is_known = waiting.is_known(from);
        let ended = match waiting.who_goes(from, is_known) {
            Goes::Nobody => None,
            Goes::One(number) => waiting.connections.remove(&number),
            Goes::Newcomer => return (None, Some(from)),
        };
        waiting.drawn += 1;
        let number = waiting.drawn;
        let connection = Connection {
            from,
            is_known,
            task: None,
        };
        waiting.connections.insert(number, connection);
        assert!(waiting.connections.len() <= UNPROVEN_MAX, "one has gone");
        drop(waiting);
        // Its task gives its place back when it ends, which it need not do at once.
        let ended = ended.map(|connection| {
            if let Some(task) = connection.task {
                task.abort();
            }
            connection.from
        });
        let door = self.clone();
        (Some(Place { number, door }), ended)
    }

    /// The task that serves who has this place, which has not run yet.
    pub(crate) fn serve(&self, number: u64, task: AbortHandle) {
        if let Some(connection) = self.0.borrow_mut().connections.get_mut(&number) {
            connection.task = Some(task);
        }
    }

    /// A node has this address, by what is said of it: a name tells nothing here, before it was looked up.
    pub(crate) fn note_said(&self, node: NodeId, address: &str) {
        let said = address.parse().ok();
        let said = said.map(|address: SocketAddr| address.ip().to_canonical());
        self.0.borrow_mut().known.entry(node).or_default().said = said.into_iter().collect();
    }

    /// These are the addresses of the name that a node has.
    pub(crate) fn note_found(&self, node: NodeId, addresses: impl Iterator<Item = IpAddr>) {
        let found = addresses.take(ADDRESSES_MAX);
        let found = found.map(|address| address.to_canonical()).collect();
        if let Some(known) = self.0.borrow_mut().known.get_mut(&node) {
            known.said = found;
        }
    }

    /// A node has come from there, and shown who it is.
    pub(crate) fn note_shown(&self, node: NodeId, from: IpAddr) {
        let mut waiting = self.0.borrow_mut();
        if let Some(known) = waiting.known.get_mut(&node) {
            known.shown = Some(from.to_canonical());
        }
    }

    /// There is no such node any more.
    pub(crate) fn forget(&self, node: NodeId) {
        self.0.borrow_mut().known.remove(&node);
    }

    /// Whether nodes come from there.
    pub(crate) fn is_known(&self, from: IpAddr) -> bool {
        self.0.borrow().is_known(from.to_canonical())
    }
}

impl Waiting {
    fn is_known(&self, from: IpAddr) -> bool {
        let mut known = self.known.values();
        known.any(|it| it.said.contains(&from) || it.shown == Some(from))
    }

    /// Who has to go when one more comes from there.
    fn who_goes(&self, from: IpAddr, is_known: bool) -> Goes {
        let waiting = |known: bool| {
            let connections = self.connections.iter();
            let of = connections.filter(move |(_, it)| it.is_known == known);
            of.map(|(number, it)| (*number, Origin::from(it.from)))
        };
        if !is_known {
            let origin = Origin::from(from);
            let mut of_it = waiting(false).filter(|(_, it)| *it == origin);
            if let Some((oldest, _)) = of_it.next()
                && 1 + of_it.count() >= UNPROVEN_OF_ADDRESS_MAX
            {
                return Goes::One(oldest);
            }
        }
        if self.connections.len() < UNPROVEN_MAX {
            return Goes::Nobody;
        }
        let among_nodes = || is_known.then(|| longest_of_most(waiting(true))).flatten();
        longest_of_most(waiting(false))
            .or_else(among_nodes)
            .map_or(Goes::Newcomer, Goes::One)
    }
}

impl Place {
    pub(crate) fn number(&self) -> u64 {
        self.number
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.door.0.borrow_mut().connections.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    /// Somebody comes for whom there is a place.
    fn enter(door: &Door, from: &str) -> (Place, Option<IpAddr>) {
        let (place, ended) = door.enter(address(from));
        (place.expect("there is a place"), ended)
    }

    fn waits(door: &Door, place: &Place) -> bool {
        door.0.borrow().connections.contains_key(&place.number)
    }

    #[test]
    fn one_address_takes_no_more_than_its_part_and_its_oldest_goes() {
        let door = Door::default();
        let stranger = address("192.0.2.1");
        let (first_other, _) = enter(&door, "192.0.2.2");
        let mut places = Vec::new();
        for _ in 0..UNPROVEN_OF_ADDRESS_MAX {
            let (place, ended) = enter(&door, "192.0.2.1");
            assert_eq!(ended, None);
            places.push(place);
        }
        for number in 0..1000 {
            // As the same address in the form of IPv6, too.
            let (place, ended) = enter(&door, "::ffff:192.0.2.1");
            assert_eq!(ended, Some(stranger));
            assert!(!waits(&door, &places[number]) && waits(&door, &places[number + 1]));
            places.push(place);
        }
        assert!(waits(&door, &first_other));
        drop(places);
        assert_eq!(door.0.borrow().connections.len(), 1);
    }

    #[test]
    fn of_many_addresses_the_one_with_most_gives_way() {
        let door = Door::default();
        let (first, _) = enter(&door, "192.0.2.200");
        let mut places = Vec::new();
        for number in 0..1000_usize {
            let (place, ended) = enter(&door, &format!("198.51.100.{}", number % 100));
            assert_eq!(ended.is_some(), number >= UNPROVEN_MAX - 1);
            places.push(place);
        }
        assert!(waits(&door, &first), "one has less than two");
        assert_eq!(door.0.borrow().connections.len(), UNPROVEN_MAX);
    }

    /// Of an own network of IPv6 somebody has addresses without end.
    #[test]
    fn a_network_of_ipv6_is_one_address() {
        let door = Door::default();
        let mut places = Vec::new();
        for number in 0..=UNPROVEN_OF_ADDRESS_MAX {
            let (place, ended) = enter(&door, &format!("2001:db8:0:1::{number:x}"));
            assert_eq!(ended.is_some(), number == UNPROVEN_OF_ADDRESS_MAX);
            places.push(place);
        }
        assert_eq!(enter(&door, "2001:db8:0:2::1").1, None);
    }

    /// All nodes of a cluster are behind one address, by a name, and this one has been started anew: nobody has shown there who he is.
    #[test]
    fn who_comes_from_where_a_name_leads_finds_a_place() {
        let door = Door::default();
        let address = address("192.0.2.100");
        for node in 1..=63 {
            door.note_said(NodeId(node), "a.name:7462");
        }
        assert!(!door.is_known(address), "it was not looked up");
        for node in 1..=63 {
            door.note_found(NodeId(node), [address].into_iter());
        }
        let mut places = Vec::new();
        for _ in 0..2 * 63 {
            let (place, ended) = enter(&door, "192.0.2.100");
            assert_eq!(ended, None);
            places.push(place);
        }
        door.forget(NodeId(7));
        door.note_found(NodeId(7), [address].into_iter());
        assert!(!door.0.borrow().known.contains_key(&NodeId(7)));
    }

    #[test]
    fn no_stranger_takes_the_place_of_one_that_comes_from_where_nodes_are() {
        let door = Door::default();
        door.note_said(NodeId(1), "192.0.2.1:7462");
        let mut places = Vec::new();
        for _ in 0..UNPROVEN_MAX {
            places.push(enter(&door, "192.0.2.1").0);
        }
        let stranger = address("198.51.100.1");
        let (place, ended) = door.enter(stranger);
        assert!(place.is_none());
        assert_eq!(ended, Some(stranger), "it is told of");
        assert!(places.iter().all(|place| waits(&door, place)));
        // Another one from there is let in, for the oldest.
        let (_place, ended) = enter(&door, "192.0.2.1");
        assert_eq!(ended, Some(address("192.0.2.1")));
        assert!(!waits(&door, &places[0]) && waits(&door, &places[1]));
    }

    /// All links of 64 nodes return at once, from one machine even, while others fill what is left.
    #[test]
    fn who_comes_from_where_nodes_are_finds_a_place() {
        let door = Door::default();
        for node in 1..=31 {
            door.note_said(NodeId(node), &format!("192.0.2.{node}:7462"));
        }
        for node in 32..=63 {
            door.note_said(NodeId(node), "a.name:7462");
            door.note_shown(NodeId(node), address("192.0.2.100"));
        }
        let mut strangers = Vec::new();
        for number in 0..1000 {
            strangers.push(enter(&door, &format!("198.51.100.{}", number % 250)).0);
        }
        let mut places = Vec::new();
        for node in 1..=63 {
            for _lane in 0..2 {
                let last = if node < 32 { node } else { 100 };
                places.push(enter(&door, &format!("192.0.2.{last}")).0);
                strangers.push(enter(&door, "198.51.100.251").0);
            }
        }
        assert!(places.iter().all(|place| waits(&door, place)));
        // A node that is gone is a stranger, and a machine of nodes does not take all either.
        door.forget(NodeId(1));
        assert!(!door.is_known(address("192.0.2.1")) && door.is_known(address("192.0.2.100")));
        for _ in 0..1000 {
            places.push(enter(&door, "192.0.2.100").0);
        }
        assert_eq!(door.0.borrow().connections.len(), UNPROVEN_MAX);
    }
}
