//! Invariant 4: after a right to write has been taken away and that was acknowledged, no write that was admitted under it is
//! applied.
//!
//! Rivals (`host::rival`) take a volume from each other. When one of them has been told that another one's registrations are
//! gone and that it holds the reservation, whatever the other one has sent is over: it was applied by then, or never will be,
//! and what the other one sends until it registers again must be refused. The history says so of each of its attempts, and
//! is checked with that.
//!
//! Nothing is concluded where a registration of the other one, or another host's attempt to take the volume, was under way
//! meanwhile, or was given up a moment ago: which came first cannot be known.

use std::collections::BTreeMap;

use holdfast_stdx::{Duration, Instant};

/// What is given up may still be done for so long: an order's time at a node, and a connection's that brought it.
const IN_DOUBT: Duration = Duration::from_secs(20);

/// One host's part.
#[derive(Debug, Default)]
struct Standing {
    volume: usize,
    /// Registrations under way.
    registering: u32,
    /// One that was given up may be done until then.
    registers_until: Instant,
    /// It is taking the volume from this one; what that comes to can be told.
    taking: Option<(usize, bool)>,
    /// One that was given up may be done until then.
    takes_until: Instant,
}

/// Who may write, as far as hosts can know.
#[derive(Debug, Default)]
pub(crate) struct Rights {
    hosts: BTreeMap<usize, Standing>,
    /// Who holds a volume's reservation, if that is known for certain.
    holders: BTreeMap<usize, usize>,
    /// Volumes of which reservations are being ended: nothing is concluded any more.
    ended: std::collections::BTreeSet<usize>,
    /// How often somebody was fenced off for certain.
    pub(crate) fenced: u64,
}

impl Rights {
    fn standing(&mut self, host: usize, volume: usize) -> &mut Standing {
        let standing = self.hosts.entry(host).or_default();
        standing.volume = volume;
        standing
    }

    /// A host registers: from now on it may have the right again.
    pub(crate) fn registers(&mut self, host: usize, volume: usize) {
        self.standing(host, volume).registering += 1;
        for standing in self.hosts.values_mut() {
            if let Some((of, is_certain)) = &mut standing.taking
                && *of == host
            {
                *is_certain = false;
            }
        }
    }

    pub(crate) fn registered(&mut self, now: Instant, host: usize, volume: usize, in_doubt: bool) {
        let standing = self.standing(host, volume);
        standing.registering -= 1;
        if in_doubt {
            standing.registers_until = now + IN_DOUBT;
        }
    }

    /// A host begins to take the volume from another one.
    pub(crate) fn takes(&mut self, now: Instant, host: usize, volume: usize, of: usize) {
        let mut is_certain = !self.ended.contains(&volume) && self.is_quiet(now, of);
        for (other, standing) in &mut self.hosts {
            if *other == host || standing.volume != volume {
                continue;
            }
            is_certain &= standing.taking.is_none() && standing.takes_until <= now;
            if let Some((_, is_certain)) = &mut standing.taking {
                *is_certain = false;
            }
        }
        let standing = self.standing(host, volume);
        is_certain &= standing.takes_until <= now;
        standing.taking = Some((of, is_certain));
    }

    fn is_quiet(&self, now: Instant, host: usize) -> bool {
        let standing = self.hosts.get(&host);
        standing.is_none_or(|it| it.registering == 0 && it.registers_until <= now)
    }

    /// The other one's registrations are gone; `reserved`: and the host holds the reservation. Says whether the other one has
    /// lost its right for certain.
    pub(crate) fn taken(&mut self, host: usize, volume: usize, reserved: bool) -> bool {
        let was_held_by = self.holders.get(&volume).copied();
        let standing = self.standing(host, volume);
        let Some((of, is_certain)) = standing.taking else {
            // It took what nobody had, perhaps.
            self.holders.remove(&volume);
            return false;
        };
        let is_held = reserved || was_held_by == Some(of) || was_held_by == Some(host);
        if reserved {
            standing.taking = None;
        }
        if is_certain && is_held {
            self.holders.insert(volume, host);
            self.fenced += 1;
        } else {
            self.holders.remove(&volume);
        }
        is_certain && is_held
    }

    /// It did not, or nobody can tell.
    pub(crate) fn not_taken(&mut self, now: Instant, host: usize, volume: usize, in_doubt: bool) {
        let standing = self.standing(host, volume);
        standing.taking = None;
        if in_doubt {
            standing.takes_until = now + IN_DOUBT;
            self.holders.remove(&volume);
        }
    }

    /// All reservations of a volume are ended.
    pub(crate) fn ends(&mut self, volume: usize) {
        self.ended.insert(volume);
        self.holders.remove(&volume);
        for standing in self.hosts.values_mut().filter(|it| it.volume == volume) {
            if let Some((_, is_certain)) = &mut standing.taking {
                *is_certain = false;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Instant = Instant::from_nanos(1_000_000_000);

    #[test]
    fn who_is_preempted_by_the_only_one_who_wants_to_is_fenced_off() {
        let mut rights = Rights::default();
        rights.takes(NOW, 1, 0, 2);
        assert!(!rights.taken(1, 0, false), "nobody may have had it");
        assert!(rights.taken(1, 0, true));
        rights.takes(NOW, 2, 0, 1);
        assert!(rights.taken(2, 0, false), "the holder was preempted");
    }

    #[test]
    fn nothing_is_concluded_where_two_are_at_it() {
        let mut rights = Rights::default();
        rights.takes(NOW, 1, 0, 2);
        rights.registers(2, 0);
        assert!(
            !rights.taken(1, 0, true),
            "it may have registered afterwards"
        );
        rights.registered(NOW, 2, 0, true);
        rights.takes(NOW, 1, 0, 2);
        assert!(!rights.taken(1, 0, true), "and may still");
        let later = NOW + IN_DOUBT;
        rights.takes(later, 1, 0, 2);
        rights.takes(later, 2, 0, 1);
        assert!(!rights.taken(1, 0, true) && !rights.taken(2, 0, true));
        rights.takes(later, 1, 0, 2);
        rights.ends(0);
        assert!(!rights.taken(1, 0, true));
    }
}
