//! Whose requests are looked at next: connections take turns.
//!
//! This is earliest eligible virtual deadline first (Stoica, Abdel-Wahab: "Earliest Eligible Virtual Deadline First", 1995).
//! A connection that has a whole request is listed with a start tag, which is what it has used, and a deadline, which is that and
//! what it has used at a time of late. Virtual time is the mean start tag of all that are listed: who has one that is not later has
//! not used more than its share, and is eligible; of these the one with the earliest deadline is served next. So one that uses less
//! than its share waits for one share of another connection at most, whatever the others have queued; and those that would use more
//! than theirs get equal shares of what is left. Where requests are dearer than a share, it waits for one or two of these.
//!
//! It refuses to know what a request is about, and to reorder the requests of one connection.
//!
//! Invariants:
//! - a connection is listed at most once, and one that was closed is not listed;
//! - nobody saves up more than [`SAVED_MAX`] of what it has not used;
//! - a turn costs less than [`TURN`] and the dearest request, unless memory for input is short.

use alloc::vec::Vec;

use holdfast_stdx::Instant;

use crate::target::connection::Flow;
use crate::target::{ConnectionId, Target, TargetOutput};

/// From this cost on a turn is over. Small commands take some 5 us each, so that whoever has just come waits for the rest of
/// 0.1 ms; what a turn costs beside its commands, a look at all sockets above all, is shared by as many. A task management
/// function costs all of it: most are over as soon as the layer above has seen them, and only those that are not count as pending.
pub(super) const TURN: u32 = 16;
/// From this cost on it is the next connection's turn. Several requests of one connection in a row are cheaper than as many of
/// several, whose answers are as many sends; and this is what one that has just come waits for at most, but for a request.
const SHARE: u32 = 16;
/// How much of what it has not used a connection saves up: as virtual time goes on in steps, one that comes back a moment later
/// would lose as much each time. With more, those that come together have the one that was alone until then wait for each of them.
const SAVED_MAX: u64 = 1;
/// What 1 MiB of data costs: much more than hosts ask for at once where others are to get along with them. A connection that is further
/// ahead of the others counts as so far ahead, or virtual time would run away from those it has overtaken, and whoever comes would wait
/// until they have caught up; and its deadline is not later than that.
const LEAD_MAX: u32 = 64;
/// Data for which a request costs one more: to check and to move so much takes some 7 us, about as long as all else about a command.
/// Rounded down, so that commands of the sizes that databases use cost what they cost without data.
const COST_BYTES: usize = 16 << 10;
/// From so much input on that waits for its turn a connection's socket is not read: that what comes then waits in the
/// socket, and its initiator with it. It is the longest data segment that hosts send, so that those who take turns
/// at large writes have the next PDU here.
pub(super) const BACKLOG_MAX: usize = 256 << 10;

/// What a request costs that comes with `received` bytes of data, and wants `wanted`.
pub(super) fn cost_of(received: usize, wanted: u32) -> u32 {
    let units = (received + wanted as usize) / COST_BYTES;
    1_u32.saturating_add(u32::try_from(units).unwrap_or(u32::MAX))
}

/// Where a connection stands.
#[derive(Debug, Default)]
pub(super) struct Standing {
    /// Its start tag while it is listed, or served; its finish tag otherwise.
    tag: u64,
    /// What it has used at a time of late, up to [`LEAD_MAX`]: half of what that was, or what it last was if that is more.
    /// With less, those with dear requests would have deadlines as early as those that have just come.
    usual: u32,
    is_listed: bool,
}

impl Standing {
    /// Whether the connection waits for its turn.
    pub(super) const fn is_listed(&self) -> bool {
        self.is_listed
    }
}

/// A connection in the list.
#[derive(Debug)]
struct Entry {
    start: u64,
    deadline: u64,
    connection: ConnectionId,
}

/// The connections that wait for their turn.
#[derive(Debug, Default)]
pub(super) struct Turns {
    /// In no order: hosts are few enough for a look at all of them for each share.
    listed: Vec<Entry>,
    /// As of the last turn that was taken.
    virtual_time: u64,
    /// The latest finish tag of all.
    finish_max: u64,
}

impl Turns {
    pub(super) fn is_empty(&self) -> bool {
        self.listed.is_empty()
    }

    /// A connection has a request that was not looked at. Without effect if it is listed.
    pub(super) fn list(&mut self, connection: ConnectionId, standing: &mut Standing) {
        if !standing.is_listed {
            let saved_up = self.virtual_time.saturating_sub(SAVED_MAX);
            standing.tag = standing.tag.max(saved_up);
            self.push(connection, standing);
        }
    }

    fn push(&mut self, connection: ConnectionId, standing: &mut Standing) {
        standing.is_listed = true;
        self.listed.push(Entry {
            start: standing.tag,
            deadline: standing.tag.saturating_add(standing.usual.max(1).into()),
            connection,
        });
    }

    /// The connection whose turn it is. It stays listed, as far as it knows, until it [was served](Self::served).
    fn take(&mut self) -> Option<ConnectionId> {
        let least = self.listed.iter().map(|it| it.start).min()?;
        let lead = |it: &Entry| (it.start - least).min(LEAD_MAX.into());
        let leads: u64 = self.listed.iter().map(lead).sum();
        self.virtual_time = least.saturating_add(leads / self.listed.len() as u64);
        let eligible = self.listed.iter().enumerate();
        let (at, _) = eligible
            .filter(|(_, it)| it.start <= self.virtual_time)
            .min_by_key(|(_, it)| (it.deadline, it.start, it.connection))
            .expect("the one with the least is eligible");
        Some(self.listed.swap_remove(at).connection)
    }

    /// A connection that is in no list any more was served, at that cost. If it has `more`, it is listed anew.
    fn served(
        &mut self,
        connection: ConnectionId,
        standing: &mut Standing,
        cost: u32,
        has_more: bool,
    ) {
        standing.tag = standing.tag.saturating_add(cost.into());
        standing.usual = cost.min(LEAD_MAX).max(standing.usual / 2);
        standing.is_listed = false;
        self.finish_max = self.finish_max.max(standing.tag);
        if has_more {
            self.push(connection, standing);
        } else if self.listed.is_empty() {
            // Nobody has waited for what was used: so nobody has to make up for it.
            self.virtual_time = self.finish_max;
        }
    }

    /// Takes a connection out of the list. Closings are few, and so are those that wait.
    pub(super) fn forget(&mut self, connection: ConnectionId, standing: &Standing) {
        if standing.is_listed {
            self.listed.retain(|entry| entry.connection != connection);
        }
    }
}

impl Target {
    /// Lists a connection, if something of it can be looked at.
    pub(super) fn list(&mut self, id: ConnectionId) {
        if let Some(connection) = self.connections.get_mut(&id)
            && connection.is_ready(&self.shared)
        {
            self.turns.list(id, &mut connection.standing);
        }
    }

    pub(super) fn take_turn(&mut self, now: Instant, out: &mut TargetOutput) {
        let mut spent: u32 = 0;
        while spent < TURN
            && let Some(id) = self.turns.take()
        {
            let share = SHARE.min(TURN - spent);
            spent = spent.saturating_add(self.serve(now, id, share, out));
            self.note_input(now, id, out);
        }
    }

    /// Takes what has come of a connection that is in no list, request by request, up to a cost of `share`. What it has cost.
    fn serve(&mut self, now: Instant, id: ConnectionId, share: u32, out: &mut TargetOutput) -> u32 {
        let mut spent: u32 = 0;
        let has_more = loop {
            let Some(connection) = self.connections.get_mut(&id) else {
                return spent;
            };
            // Whoever has no whole request more is asked for one nevertheless: then its reader lets go of what it can.
            if spent >= share && connection.is_ready(&self.shared) {
                break true;
            }
            let (flow, cost) = connection.step(now, &mut self.shared, out);
            spent = spent.saturating_add(cost);
            match flow {
                Flow::Wait => break false,
                Flow::Continue => {}
                Flow::Close(reason) => self.close(id, reason, out),
                Flow::Open => self.open(now, id, out),
                Flow::Manage(request) => self.manage(id, &request, out),
                Flow::Logout(request) => self.log_out(now, id, &request, out),
            }
        };
        if let Some(connection) = self.connections.get_mut(&id) {
            self.turns
                .served(id, &mut connection.standing, spent, has_more);
            out.served.push(id);
        }
        spent
    }

    /// Looks at all that has come of whoever is next, and says who that is; nobody, if there is nothing to be looked at.
    pub(super) fn serve_next_early(
        &mut self,
        now: Instant,
        out: &mut TargetOutput,
    ) -> Option<ConnectionId> {
        let id = self.turns.take()?;
        self.serve(now, id, u32::MAX, out);
        Some(id)
    }

    /// Looks at all that has come of a connection, whoever's turn it is. False if there is nothing to be looked at.
    pub(super) fn serve_early(
        &mut self,
        now: Instant,
        id: ConnectionId,
        out: &mut TargetOutput,
    ) -> bool {
        let Some(connection) = self.connections.get(&id) else {
            return false;
        };
        if !connection.standing.is_listed {
            return false;
        }
        self.turns.forget(id, &connection.standing);
        self.serve(now, id, u32::MAX, out);
        true
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeMap;
    use alloc::vec::Vec;

    use holdfast_stdx::Prng;

    use super::*;

    /// Connections with so many requests of cost 1 each.
    #[derive(Default)]
    struct Line {
        turns: Turns,
        standings: BTreeMap<ConnectionId, Standing>,
        queued: BTreeMap<ConnectionId, u32>,
    }

    impl Line {
        fn come(&mut self, connection: u64, requests: u32) {
            let id = ConnectionId(connection);
            *self.queued.entry(id).or_default() += requests;
            self.turns.list(id, self.standings.entry(id).or_default());
        }

        /// Serves the next up to [`SHARE`]; says who that was, and with how many requests.
        fn serve(&mut self) -> Option<(u64, u32)> {
            let id = self.turns.take()?;
            let queued = self.queued.get_mut(&id).unwrap();
            let cost = SHARE.min(*queued);
            *queued -= cost;
            let has_more = *queued > 0;
            let standing = self.standings.get_mut(&id).unwrap();
            self.turns.served(id, standing, cost, has_more);
            Some((id.0, cost))
        }

        fn serve_all(&mut self) -> Vec<(u64, u32)> {
            core::iter::from_fn(|| self.serve()).collect()
        }
    }

    #[test]
    fn those_that_have_much_are_served_in_turn_until_all_is_done() {
        let mut line = Line::default();
        line.come(1, 2 * SHARE + 2);
        line.come(2, 2 * SHARE + 2);
        line.come(2, 1);
        let served = line.serve_all();
        let whole = [(1, SHARE), (2, SHARE), (1, SHARE), (2, SHARE)];
        assert_eq!(served[..4], whole);
        assert_eq!(served[4..], [(1, 2), (2, 3)]);
        assert!(line.turns.is_empty());
    }

    #[test]
    fn one_that_uses_little_is_next_whatever_the_others_have() {
        let mut line = Line::default();
        for heavy in 1..9 {
            line.come(heavy, 1_000_000);
            line.serve();
        }
        for round in 0..1000_u32 {
            // Not often enough for what would be its share.
            line.come(9, 1);
            assert_eq!(line.serve(), Some((9, 1)), "round {round}");
            for _ in 0..8 + round % 5 {
                let served = line.serve();
                assert!(served.is_some_and(|(connection, cost)| connection < 9 && cost == SHARE));
            }
        }
    }

    #[test]
    fn one_that_comes_again_at_once_waits_for_one_other_at_most() {
        let mut line = Line::default();
        for heavy in 1..9 {
            line.come(heavy, 1_000_000);
        }
        line.come(9, 1);
        let mut since = 0;
        for turn in 0..1000 {
            match line.serve() {
                // It has its answer, and the next turn is another's before it has asked again.
                Some((9, 1)) => {
                    since = 0;
                    assert!(line.serve().is_some_and(|(connection, _)| connection < 9));
                    line.come(9, 1);
                }
                served => {
                    since += 1;
                    assert!(since <= 1 || turn < 9, "turn {turn}: {served:?}");
                }
            }
        }
    }

    #[test]
    fn those_that_want_more_than_their_share_get_equal_ones() {
        let mut line = Line::default();
        for heavy in 1..4 {
            line.come(heavy, 100_000);
        }
        let mut used = BTreeMap::<u64, u32>::new();
        for _ in 0..3000 {
            // It never has more than two queued, and always has some.
            if line.queued.get(&ConnectionId(4)).is_none_or(|it| *it == 0) {
                line.come(4, 2);
            }
            let (connection, cost) = line.serve().unwrap();
            *used.entry(connection).or_default() += cost;
        }
        let (least, most) = (used.values().min().unwrap(), used.values().max().unwrap());
        assert!(most - least <= 2 * SHARE, "{used:?}");
    }

    #[test]
    fn idleness_saves_up_nothing_and_use_in_it_costs_nothing() {
        let mut line = Line::default();
        line.come(1, 1);
        line.come(2, 1);
        line.serve_all();
        // While the first one is idle the second has everything.
        line.come(2, 1000);
        line.serve_all();
        line.come(1, 100);
        line.come(2, 100);
        let served = line.serve_all();
        let of_first = |served: &[(u64, u32)]| served.iter().filter(|it| it.0 == 1).count();
        assert_eq!(of_first(&served[..10]), 5, "{served:?}");
    }

    #[test]
    fn those_that_come_together_do_not_all_go_before_the_one_that_was_alone() {
        let mut line = Line::default();
        for _ in 0..100 {
            line.come(9, 1);
            line.serve();
        }
        for heavy in 1..9 {
            line.come(heavy, 1_000_000);
            line.serve();
        }
        for round in 0..100 {
            line.come(9, 1);
            let before = (0..).take_while(|_| line.serve() != Some((9, 1))).count();
            assert!(before <= 2, "round {round}: after {before} shares");
        }
    }

    #[test]
    fn what_a_dear_request_has_cost_is_made_up_for() {
        let mut line = Line::default();
        line.come(1, 1);
        line.come(2, 1000);
        let dear = line.turns.take().unwrap();
        assert_eq!(dear, ConnectionId(1));
        line.queued.insert(dear, 0);
        let standing = line.standings.get_mut(&dear).unwrap();
        line.turns
            .served(dear, standing, cost_of(0, 1 << 20), false);
        line.come(1, 1);
        let before = (0..).take_while(|_| line.serve() != Some((1, 1))).count();
        assert_eq!(before, 65_usize.div_ceil(SHARE as usize));
    }

    /// The cost of a request for 1 MiB, and of the dearest share with such ones.
    const DEAR: u32 = 65;
    const DEAREST: u64 = (SHARE - 1 + DEAR) as u64;

    /// Connections that always have requests, of costs that are each one's own, and others that come now and then with one.
    struct Crowd {
        prng: Prng,
        turns: Turns,
        /// The busy ones first.
        standings: Vec<Standing>,
        kinds: Vec<u64>,
        /// When it came, if it is listed; and when it comes, if it is not.
        since: Vec<u64>,
        used: Vec<u64>,
        clock: u64,
        /// The longest waits, of the others and of the busy ones.
        light_wait: u64,
        busy_wait: u64,
    }

    impl Crowd {
        fn new(mut prng: Prng, busy: usize, light: usize, kinds_max: u64) -> Self {
            let kinds: Vec<u64> = (0..busy).map(|_| prng.below(kinds_max)).collect();
            let mut crowd = Self {
                prng,
                turns: Turns::default(),
                standings: (0..busy + light).map(|_| Standing::default()).collect(),
                kinds,
                since: alloc::vec![0; busy + light],
                used: alloc::vec![0; busy],
                clock: 0,
                light_wait: 0,
                busy_wait: 0,
            };
            for at in 0..busy {
                crowd.list(at);
            }
            crowd
        }

        fn list(&mut self, at: usize) {
            self.turns
                .list(ConnectionId(at as u64), &mut self.standings[at]);
        }

        /// What a busy one's share costs.
        fn share_of(&mut self, at: usize) -> u32 {
            let mut spent = 0;
            while spent < SHARE {
                spent += match self.kinds[at] {
                    0 => 1,
                    1 => 5,
                    2 => 17,
                    3 => DEAR,
                    _ if self.prng.chance(1, 5) => DEAR,
                    _ => self.prng.between(1, 9) as u32,
                };
            }
            spent
        }

        fn turn(&mut self) {
            let busy = self.kinds.len();
            for at in busy..self.standings.len() {
                if !self.standings[at].is_listed && self.since[at] <= self.clock {
                    self.list(at);
                }
            }
            let at = self.turns.take().unwrap().0 as usize;
            let waited = self.clock - self.since[at];
            let (cost, worst) = match at < busy {
                true => (self.share_of(at), &mut self.busy_wait),
                false => (1, &mut self.light_wait),
            };
            *worst = waited.max(*worst);
            self.clock += u64::from(cost);
            let id = ConnectionId(at as u64);
            self.turns
                .served(id, &mut self.standings[at], cost, at < busy);
            self.since[at] = self.clock;
            if at < busy {
                self.used[at] += u64::from(cost);
            } else {
                // It uses less than its share, but for now and then, when it comes again at once.
                let rest = self.standings.len() as u64 * 4;
                let is_hasty = self.prng.chance(1, 8);
                self.since[at] += if is_hasty { 0 } else { self.prng.below(rest) };
            }
        }

        fn reopen(&mut self, at: usize) {
            let id = ConnectionId(at as u64);
            self.turns.forget(id, &self.standings[at]);
            self.standings[at] = Standing::default();
            self.since[at] = self.clock;
            if at < self.kinds.len() {
                self.list(at);
            }
        }
    }

    #[test]
    fn whatever_the_others_ask_for_who_uses_little_waits_little_and_the_busy_get_equal_shares() {
        for seed in 1..100_u64 {
            let mut prng = Prng::from_seed(seed);
            let busy = prng.between(1, 40) as usize;
            let light = prng.between(1, 4) as usize;
            let kinds_max = prng.between(1, 5);
            let mut crowd = Crowd::new(prng, busy, light, kinds_max);
            // All are new, and nobody knows yet what each will ask for.
            for _ in 0..4 * busy {
                crowd.turn();
            }
            (crowd.light_wait, crowd.busy_wait) = (0, 0);
            let before = crowd.used.clone();
            for _ in 0..2000 {
                crowd.turn();
            }
            let what = (seed, busy, light, &crowd.kinds);
            let used = crowd.used.iter().zip(&before).map(|(it, was)| it - was);
            let (least, most) = (used.clone().min().unwrap(), used.max().unwrap());
            assert!(most - least <= 2 * DEAREST, "{what:?}: {most} and {least}");
            let (light, busy) = (crowd.light_wait, crowd.busy_wait);
            assert!(light <= 2 * DEAREST, "{what:?}: {light}");
            let all = crowd.standings.len() as u64;
            assert!(busy <= 2 * all * DEAREST, "{what:?}: {busy}");
        }
    }

    #[test]
    fn whoever_closes_and_comes_again_nobody_waits_for_ever() {
        for seed in 1..100_u64 {
            let busy = 2 + seed as usize % 20;
            let mut crowd = Crowd::new(Prng::from_seed(seed), busy, 3, 5);
            for turn in 0..2000 {
                crowd.turn();
                if turn % 7 == 0 {
                    let at = crowd.prng.below(crowd.standings.len() as u64);
                    crowd.reopen(at as usize);
                }
            }
            let longest = crowd.busy_wait.max(crowd.light_wait);
            let all = crowd.standings.len() as u64;
            assert!(longest <= 2 * all * DEAREST, "seed {seed}: {longest}");
        }
    }

    #[test]
    fn one_that_is_far_ahead_holds_nobody_up() {
        let mut line = Line::default();
        line.come(1, 1);
        line.come(2, 1_000_000);
        let first = line.turns.take().unwrap();
        assert_eq!(first, ConnectionId(1));
        // All that has come of it was looked at, as there was no room for it any more.
        let standing = line.standings.get_mut(&first).unwrap();
        line.turns.served(first, standing, 5000, true);
        let shares = LEAD_MAX.div_ceil(SHARE) as usize;
        for round in 0..20 {
            line.come(3, 1);
            let before = (0..).take_while(|_| line.serve() != Some((3, 1))).count();
            assert!(before <= shares, "round {round}: after {before} shares");
            line.serve();
        }
    }

    #[test]
    fn who_is_forgotten_has_no_turn_any_more() {
        let mut line = Line::default();
        line.come(1, 5);
        line.come(2, 1);
        line.turns
            .forget(ConnectionId(1), &line.standings[&ConnectionId(1)]);
        assert_eq!(line.serve_all(), [(2, 1)]);
        line.turns
            .forget(ConnectionId(2), &line.standings[&ConnectionId(2)]);
        assert!(line.turns.is_empty());
    }

    #[test]
    fn a_request_costs_one_and_what_its_data_takes() {
        let kilobytes = |count: u32| count << 10;
        assert_eq!(cost_of(0, 0), 1);
        assert_eq!(cost_of(4096, 0), 1);
        assert_eq!(cost_of(0, kilobytes(16) - 1), 1);
        assert_eq!(cost_of(0, kilobytes(16)), 2);
        assert_eq!(cost_of(256 << 10, 0), 17);
        assert_eq!(cost_of(0, u32::MAX), 1 << 18);
    }
}
