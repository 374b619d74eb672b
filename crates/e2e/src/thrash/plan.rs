//! What a thrasher does: episodes, each a list of actions that a seed has drawn.
//!
//! It refuses to know how anything is done, and what comes of it.
//!
//! Invariants:
//! - the same seed draws the same episodes;
//! - an episode takes back everything that it does: at its end every machine runs, every cable is in;
//! - a machine is damaged while it is the only one that is away, and no other has been damaged since
//!   everything was read again;
//! - while an episode [serves](Promise::Serves), no two machines are away or cut off, nor is there ever one
//!   without two of three members of etcd beside it.

use std::fmt;
use std::time::Duration;

use holdfast_stdx::Prng;

use crate::network::Party;

/// Machines.
pub const MACHINES: usize = 3;
/// How long most things last at least and at most, in milliseconds. The shortest is over before anybody is
/// taken for dead, the longest outlasts every lease and every time limit of a host.
const LASTS_MILLIS: (u64, u64) = (300, 8000);

/// What can be done to machines. Machines are counted from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Nothing happens for a while.
    Wait(Duration),
    /// SIGKILL to the machine's node; etcd lives on.
    Kill(usize),
    /// SIGKILL to the machine's etcd, which its node starts again.
    KillEtcd(usize),
    /// SIGKILL to both.
    SwitchOff(usize),
    /// The node is started, and starts etcd if there is none.
    Start(usize),
    /// SIGSTOP to the node.
    Freeze(usize),
    /// SIGCONT to the node.
    Thaw(usize),
    /// SIGSTOP to etcd.
    FreezeEtcd(usize),
    /// SIGCONT to etcd.
    ThawEtcd(usize),
    /// The cable is pulled out.
    Unplug(Party),
    /// And put in.
    Plug(Party),
    /// What the first sends does not arrive at the second.
    Cut(Party, Party),
    /// It arrives again.
    Heal(Party, Party),
    /// So many kilobits in a second pass through the cable.
    Slow(Party, u32),
    /// As much as can be.
    Unslow(Party),
    /// Maintenance of a node begins or ends.
    Maintenance(usize, bool),
    /// The file system of the machine's directory has no room left.
    Fill(usize),
    /// It has room again.
    Free(usize),
    /// The device of a machine that does not run is damaged.
    Damage(usize, Damage, u64),
}

/// How a device is damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damage {
    /// Blocks, whole pages and their entries in the table, here and there.
    Pages,
    /// The journal, in many places.
    Journal,
    /// The device is replaced by an empty one.
    Replaced,
}

/// What hosts are promised while an episode lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Promise {
    /// I/O goes on, after a stall that is bounded.
    Serves,
    /// Nothing is lost, and I/O goes on when it is over.
    Returns,
}

/// Kinds of episodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A node dies and is started again.
    Kill,
    /// A machine loses power.
    SwitchOff,
    /// A node stands still.
    Freeze,
    /// A node and its etcd stand still.
    FreezeMachine,
    /// A cable is out.
    Unplug,
    /// Nothing that a machine sends arrives.
    Mute,
    /// Nothing arrives at a machine.
    Deafen,
    /// Two machines do not reach each other; all else do.
    Part,
    /// One does not reach another, which reaches it.
    PartOneWay,
    /// Hosts and a machine do not reach each other.
    HostsCut,
    /// A member of etcd dies.
    KillEtcd,
    /// All members of etcd stand still.
    EtcdAway,
    /// A node is put aside, and taken back.
    Maintenance,
    /// A machine's directory has no room.
    Full,
    /// A machine comes back with a damaged device.
    Damage,
    /// A node stands still and goes on, many times in a second.
    Stutter,
    /// One member of etcd stands still and goes on, many times in a second, as if its disk were slow.
    SluggishEtcd,
    /// All of them do.
    AllEtcdSluggish,
    /// Little passes through a machine's cable.
    SlowCable,
    /// A cable is out and in, many times.
    LooseCable,
    /// All machines lose power at once.
    Blackout,
    /// A machine loses power, then another, and the first comes back alone.
    Succession,
    /// A node dies while another catches up.
    KillWhileSyncing,
    /// A node dies while hosts do not reach another.
    KillAndHostsCut,
    /// A cable is out at one machine, and etcd dies at another.
    UnplugAndKillEtcd,
    /// A node dies while little passes through another's cable.
    KillBesideSlow,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 26] = [
        Self::Kill,
        Self::SwitchOff,
        Self::Freeze,
        Self::FreezeMachine,
        Self::Unplug,
        Self::Mute,
        Self::Deafen,
        Self::Part,
        Self::PartOneWay,
        Self::HostsCut,
        Self::KillEtcd,
        Self::EtcdAway,
        Self::Maintenance,
        Self::Full,
        Self::Damage,
        Self::Stutter,
        Self::SluggishEtcd,
        Self::AllEtcdSluggish,
        Self::SlowCable,
        Self::LooseCable,
        Self::Blackout,
        Self::Succession,
        Self::KillWhileSyncing,
        Self::KillAndHostsCut,
        Self::UnplugAndKillEtcd,
        Self::KillBesideSlow,
    ];

    /// Whether it needs cables that can be made slow.
    #[must_use]
    pub const fn needs_slow(self) -> bool {
        matches!(self, Self::SlowCable | Self::KillBesideSlow)
    }
}

/// Something that happens, from its beginning to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Episode {
    /// Of which kind it is.
    pub kind: Kind,
    /// What hosts are promised meanwhile.
    pub promise: Promise,
    /// What is done, in this order.
    pub actions: Vec<Action>,
}

impl fmt::Display for Episode {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:?}", self.kind)?;
        const SHOWN: usize = 8;
        for action in self.actions.iter().take(SHOWN) {
            match action {
                Action::Wait(time) => write!(formatter, ", {time:?}")?,
                action => write!(formatter, ", {action:?}")?,
            }
        }
        if self.actions.len() > SHOWN {
            write!(formatter, ", … {} actions", self.actions.len())?;
        }
        Ok(())
    }
}

/// Draws episodes for ever: every kind once, in an order that the seed decides, and again.
#[derive(Debug)]
pub struct Plan {
    prng: Prng,
    kinds: Vec<Kind>,
    deck: Vec<Kind>,
}

impl Plan {
    /// The plan of a seed, of these kinds.
    ///
    /// Panics if there are none.
    #[must_use]
    pub fn new(seed: u64, kinds: Vec<Kind>) -> Self {
        assert!(!kinds.is_empty(), "there is something to draw");
        Self {
            prng: Prng::from_seed(seed),
            kinds,
            deck: Vec::new(),
        }
    }
}

impl Iterator for Plan {
    type Item = Episode;

    fn next(&mut self) -> Option<Episode> {
        if self.deck.is_empty() {
            self.deck.clone_from(&self.kinds);
            self.prng.shuffle(&mut self.deck);
        }
        let kind = self.deck.pop()?;
        Some(draw(kind, &mut self.prng))
    }
}

/// Draws an episode of this kind.
#[must_use]
pub fn draw(kind: Kind, prng: &mut Prng) -> Episode {
    let mut order = [0, 1, 2];
    prng.shuffle(&mut order);
    let (actions, promise) = match kind {
        Kind::Blackout
        | Kind::Succession
        | Kind::KillWhileSyncing
        | Kind::KillAndHostsCut
        | Kind::UnplugAndKillEtcd
        | Kind::KillBesideSlow => (several(kind, order, prng), Promise::Returns),
        // How fast I/O goes on is a question of the cable; and each time that one is out is a failure of its
        // own, before the last one is mended.
        Kind::SlowCable | Kind::LooseCable => {
            (again_and_again(kind, order[0], prng), Promise::Returns)
        }
        Kind::Stutter | Kind::SluggishEtcd | Kind::AllEtcdSluggish => {
            (again_and_again(kind, order[0], prng), Promise::Serves)
        }
        _ => (lasting(kind, order, prng), Promise::Serves),
    };
    Episode {
        kind,
        promise,
        actions,
    }
}

fn lasts(prng: &mut Prng) -> Duration {
    let (low, high) = LASTS_MILLIS;
    // Short ones as often as long ones.
    let high = if prng.chance(1, 3) { low * 4 } else { high };
    Duration::from_millis(prng.between(low, high))
}

/// One thing that lasts for a while.
fn lasting(kind: Kind, order: [usize; MACHINES], prng: &mut Prng) -> Vec<Action> {
    let (mut actions, end) = one(kind, order, prng);
    actions.push(Action::Wait(lasts(prng)));
    actions.extend(end);
    actions
}

/// What begins and ends such an episode.
fn one(
    kind: Kind,
    [node, other, _]: [usize; MACHINES],
    prng: &mut Prng,
) -> (Vec<Action>, Vec<Action>) {
    use Action as A;
    let (party, peer) = (Party::Machine(node), Party::Machine(other));
    let others = (0..MACHINES)
        .map(Party::Machine)
        .chain([Party::Hosts])
        .filter(|one| *one != party);
    let cuts = |ways: Vec<(Party, Party)>| {
        let begin = ways.iter().map(|(from, to)| A::Cut(*from, *to)).collect();
        let end = ways.iter().map(|(from, to)| A::Heal(*from, *to)).collect();
        (begin, end)
    };
    match kind {
        Kind::Kill => (vec![A::Kill(node)], vec![A::Start(node)]),
        Kind::SwitchOff => (vec![A::SwitchOff(node)], vec![A::Start(node)]),
        Kind::Freeze => (vec![A::Freeze(node)], vec![A::Thaw(node)]),
        Kind::FreezeMachine => (
            vec![A::Freeze(node), A::FreezeEtcd(node)],
            vec![A::ThawEtcd(node), A::Thaw(node)],
        ),
        Kind::Unplug => (vec![A::Unplug(party)], vec![A::Plug(party)]),
        Kind::Mute => cuts(others.map(|other| (party, other)).collect()),
        Kind::Deafen => cuts(others.map(|other| (other, party)).collect()),
        Kind::Part => cuts(vec![(party, peer), (peer, party)]),
        Kind::PartOneWay => cuts(vec![(party, peer)]),
        Kind::HostsCut => cuts(vec![(Party::Hosts, party), (party, Party::Hosts)]),
        Kind::KillEtcd => (vec![A::KillEtcd(node)], vec![]),
        Kind::EtcdAway => (
            (0..MACHINES).map(A::FreezeEtcd).collect(),
            (0..MACHINES).map(A::ThawEtcd).collect(),
        ),
        Kind::Maintenance => (
            vec![A::Maintenance(node, true)],
            vec![A::Maintenance(node, false)],
        ),
        Kind::Full => (vec![A::Fill(node)], vec![A::Free(node)]),
        Kind::Damage => {
            let damage = *prng.choose(&[Damage::Pages, Damage::Journal, Damage::Replaced]);
            let damage = A::Damage(node, damage, prng.next_u64());
            (vec![A::SwitchOff(node), damage], vec![A::Start(node)])
        }
        _ => unreachable!("the other kinds are drawn elsewhere"),
    }
}

/// One machine, slow rather than dead.
fn again_and_again(kind: Kind, node: usize, prng: &mut Prng) -> Vec<Action> {
    use Action as A;
    let party = Party::Machine(node);
    let wait = |millis| A::Wait(Duration::from_millis(millis));
    let mut actions = Vec::new();
    match kind {
        Kind::SlowCable => {
            let kilobits = *prng.choose(&[2_000, 8_000, 32_000]);
            let time = A::Wait(lasts(prng));
            actions.extend([A::Slow(party, kilobits), time, A::Unslow(party)]);
        }
        Kind::LooseCable => {
            for _ in 0..prng.between(3, 12) {
                actions.extend([A::Unplug(party), wait(prng.between(20, 700))]);
                actions.extend([A::Plug(party), wait(prng.between(20, 700))]);
            }
        }
        Kind::SluggishEtcd | Kind::AllEtcdSluggish => {
            let mut members = vec![node];
            if kind == Kind::AllEtcdSluggish {
                members = (0..MACHINES).collect();
            }
            for _ in 0..prng.between(10, 40) {
                actions.extend(members.iter().copied().map(A::FreezeEtcd));
                actions.push(wait(prng.between(20, 500)));
                actions.extend(members.iter().copied().map(A::ThawEtcd));
                actions.push(wait(prng.between(10, 100)));
            }
        }
        _ => {
            for _ in 0..prng.between(10, 40) {
                actions.extend([A::Freeze(node), wait(prng.between(20, 300))]);
                actions.extend([A::Thaw(node), wait(prng.between(10, 100))]);
            }
        }
    }
    actions
}

/// Several machines.
fn several(kind: Kind, [node, other, third]: [usize; MACHINES], prng: &mut Prng) -> Vec<Action> {
    use Action as A;
    let (party, peer) = (Party::Machine(node), Party::Machine(other));
    let mut wait = || A::Wait(lasts(prng));
    match kind {
        Kind::Blackout => vec![
            A::SwitchOff(node),
            A::SwitchOff(other),
            A::SwitchOff(third),
            wait(),
            A::Start(node),
            A::Start(other),
            A::Start(third),
        ],
        Kind::Succession => vec![
            A::SwitchOff(node),
            wait(),
            A::SwitchOff(other),
            A::Start(node),
            wait(),
            A::Start(other),
        ],
        Kind::KillWhileSyncing => vec![
            A::Kill(node),
            wait(),
            A::Start(node),
            A::Wait(Duration::from_millis(prng.between(50, 1500))),
            A::Kill(other),
            A::Wait(lasts(prng)),
            A::Start(other),
        ],
        Kind::KillAndHostsCut => vec![
            A::Cut(Party::Hosts, peer),
            A::Cut(peer, Party::Hosts),
            A::Kill(node),
            wait(),
            A::Start(node),
            A::Heal(peer, Party::Hosts),
            A::Heal(Party::Hosts, peer),
        ],
        Kind::UnplugAndKillEtcd => {
            vec![A::KillEtcd(other), A::Unplug(party), wait(), A::Plug(party)]
        }
        Kind::KillBesideSlow => vec![
            A::Slow(peer, 16_000),
            A::Kill(node),
            wait(),
            A::Start(node),
            wait(),
            A::Unslow(peer),
        ],
        _ => unreachable!("the other kinds are drawn elsewhere"),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// What has been done and not been taken back.
    #[derive(Default)]
    struct Open {
        down: BTreeSet<usize>,
        still: BTreeSet<usize>,
        etcd_still: BTreeSet<usize>,
        cables: BTreeSet<Party>,
        cuts: BTreeSet<(Party, Party)>,
        slow: BTreeSet<Party>,
        spared: BTreeSet<usize>,
        full: BTreeSet<usize>,
    }

    impl Open {
        /// Does what is done; false if it makes no sense.
        fn act(&mut self, action: Action) -> bool {
            match action {
                Action::Wait(time) => time <= Duration::from_millis(LASTS_MILLIS.1),
                Action::Kill(node) | Action::SwitchOff(node) => self.down.insert(node),
                Action::Start(node) => self.down.remove(&node),
                Action::KillEtcd(node) => !self.down.contains(&node),
                Action::Freeze(node) => self.still.insert(node) && !self.down.contains(&node),
                Action::Thaw(node) => self.still.remove(&node),
                Action::FreezeEtcd(node) => self.etcd_still.insert(node),
                Action::ThawEtcd(node) => self.etcd_still.remove(&node),
                Action::Unplug(party) => self.cables.insert(party),
                Action::Plug(party) => self.cables.remove(&party),
                Action::Cut(from, to) => from != to && self.cuts.insert((from, to)),
                Action::Heal(from, to) => self.cuts.remove(&(from, to)),
                Action::Slow(party, _) => self.slow.insert(party),
                Action::Unslow(party) => self.slow.remove(&party),
                Action::Maintenance(node, true) => self.spared.insert(node),
                Action::Maintenance(node, false) => self.spared.remove(&node),
                Action::Fill(node) => self.full.insert(node),
                Action::Free(node) => self.full.remove(&node),
                Action::Damage(node, ..) => self.down == BTreeSet::from([node]),
            }
        }

        /// Machines that may not do their part.
        fn away(&self) -> BTreeSet<usize> {
            let cut = self.cuts.iter().flat_map(|(from, to)| [*from, *to]);
            let machines = cut.chain(self.cables.iter().copied());
            let machines = machines.filter_map(|party| match party {
                Party::Machine(node) => Some(node),
                Party::Hosts => None,
            });
            let others = self.down.iter().chain(&self.still).copied();
            machines.chain(others).collect()
        }

        fn is_over(&self) -> bool {
            self.away().is_empty()
                && self.etcd_still.is_empty()
                && self.slow.is_empty()
                && self.spared.is_empty()
                && self.full.is_empty()
        }
    }

    #[test]
    fn every_episode_takes_back_what_it_does() {
        for seed in 0..200 {
            let plan = Plan::new(seed, Kind::ALL.to_vec());
            let mut seen = BTreeSet::new();
            for episode in plan.take(Kind::ALL.len()) {
                let mut open = Open::default();
                for action in &episode.actions {
                    assert!(open.act(*action), "{action:?} of {episode:?}");
                    // Each of these may leave the rest as it is, or one machine alone.
                    let away = open.away().len();
                    let is_alone = !matches!(
                        episode.kind,
                        Kind::Part | Kind::PartOneWay | Kind::Mute | Kind::Deafen
                    );
                    if episode.promise == Promise::Serves && is_alone {
                        assert!(away <= 1, "{episode:?}");
                        assert!(away == 0 || open.etcd_still.len() <= 1, "{episode:?}");
                    }
                }
                assert!(open.is_over(), "{episode:?}");
                seen.insert(episode.kind);
            }
            assert_eq!(seen.len(), Kind::ALL.len());
        }
    }

    #[test]
    fn a_seed_says_what_happens() {
        let draw = |seed| {
            Plan::new(seed, Kind::ALL.to_vec())
                .take(60)
                .collect::<Vec<_>>()
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
    }
}
