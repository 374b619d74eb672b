use alloc::vec::Vec;

use holdfast_stdx::{Duration, Instant};

use super::*;

const MIB: u64 = 1 << 20;
const BOUNDS: Bounds = Bounds {
    slowdown_percent: 10,
    floor: 8 * MIB,
};
const PAGE: u64 = 256 << 10;
const SECOND: Duration = Duration::from_secs(1);

/// A machine on which commands take longer the more is done in the background.
struct Machine {
    now: Instant,
    pace: Pace,
    /// What a command takes alone.
    alone: Duration,
    /// Bytes a second of background work that make it take twice as long.
    doubles_at: u64,
    /// Commands wait where the node does not see it.
    hidden: bool,
    /// Bytes of background work, and when they began, of the last tenth of a second.
    recent: Vec<(Instant, u64)>,
    done: u64,
    /// What commands took in all, and how many there were.
    took: Duration,
    count: u32,
    /// As many commands beside each are answered from memory.
    from_memory: u32,
    /// The host rests for so long between two commands.
    rest: Duration,
    wants: bool,
    /// Bytes of a round of destage, of which there is always one more to do.
    destages: Option<u64>,
    destaged: u64,
}

impl Machine {
    fn new() -> Self {
        let now = Instant::from_nanos(1_000_000_000);
        Self {
            now,
            pace: Pace::new(now, BOUNDS),
            alone: Duration::from_micros(500),
            doubles_at: 1 << 30,
            hidden: false,
            recent: Vec::new(),
            done: 0,
            took: Duration::ZERO,
            count: 0,
            from_memory: 0,
            rest: Duration::ZERO,
            wants: false,
            destages: None,
            destaged: 0,
        }
    }

    /// A host does one command after the other, and background work all that it may.
    fn run(&mut self, span: Duration) {
        let end = self.now + span;
        (self.done, self.destaged) = (0, 0);
        (self.took, self.count) = (Duration::ZERO, 0);
        while self.now < end {
            let since = |at: Instant, now: Instant| now.since(at);
            let now = self.now;
            self.recent
                .retain(|(at, _)| since(*at, now) < Duration::from_millis(100));
            let bytes: u64 = self.recent.iter().map(|(_, bytes)| bytes).sum();
            let share = bytes as f64 * 10.0 / self.doubles_at as f64;
            let took = self.alone.mul_f64(1.0 + share);
            self.now += took + self.rest;
            self.took += took;
            self.count += 1;
            let seen = if self.hidden { self.alone } else { took };
            self.pace.command(self.now, Class::Write, seen);
            for _ in 0..self.from_memory {
                self.pace.command(self.now, Class::Write, Duration::ZERO);
            }
            while let Some(round) = self.destages
                && self.pace.may(self.now, Work::Destage)
            {
                self.pace
                    .began(self.now, Work::Destage, round / PAGE, round);
                self.recent.push((self.now, round));
                self.destaged += round;
            }
            while self.wants && self.pace.may_begin(self.now, PAGE) {
                self.recent.push((self.now, PAGE));
                self.done += PAGE;
            }
        }
    }

    fn mean(&self) -> Duration {
        self.took / self.count
    }
}

/// Lets work begin, and wants commands to become slower by hardly more than is allowed, and the work to get
/// the most of what there is: a tenth of what would double what they take.
#[track_caller]
fn assert_uses_what_there_is(mut machine: Machine) {
    machine.run(SECOND);
    machine.wants = true;
    machine.run(5 * SECOND);
    machine.run(20 * SECOND);
    let allowed = machine.alone.as_nanos() * 112 / 100;
    assert!(machine.mean().as_nanos() < allowed, "{:?}", machine.mean());
    let rate = machine.done / 20;
    assert!(rate > machine.doubles_at / 16, "{} MiB/s", rate / MIB);
}

#[test]
fn what_memory_answers_says_nothing_of_the_disks() {
    assert_uses_what_there_is(Machine {
        from_memory: 20,
        ..Machine::new()
    });
}

#[test]
fn commands_become_slower_by_little_more_than_is_allowed() {
    assert_uses_what_there_is(Machine::new());
}

/// They wait for a core, say, before the node takes them up.
#[test]
fn that_fewer_commands_end_is_noticed() {
    let mut machine = Machine::new();
    machine.hidden = true;
    assert_uses_what_there_is(machine);
}

/// They do a fifth of what they did: that is not taken for the background's fault for long.
#[test]
fn hosts_may_want_less() {
    let mut machine = Machine::new();
    machine.run(SECOND);
    machine.wants = true;
    machine.run(10 * SECOND);
    let before = machine.done;
    machine.rest = 4 * machine.alone;
    machine.run(6 * SECOND);
    machine.run(10 * SECOND);
    assert!(machine.done > before / 2, "{} of {before}", machine.done);
}

/// What begins together shares wake-ups and flushes: single blocks begin many at a time.
#[test]
fn work_begins_in_bursts() {
    const BLOCK: u64 = 4 << 10;
    let mut machine = Machine::new();
    machine.run(SECOND);
    let mut bursts = Vec::new();
    while bursts.len() < 20 {
        machine.run(Duration::from_millis(1));
        let mut burst = 0;
        while machine.pace.may_begin(machine.now, BLOCK) {
            burst += 1;
        }
        bursts.extend((burst > 0).then_some(burst));
    }
    let each = BOUNDS.floor / BURSTS_PER_SECOND / Work::Other.cost(1, BLOCK);
    assert!(bursts.iter().all(|burst| *burst >= each), "{bursts:?}");
}

/// The floor is told in whole pages: those cost their bytes. A block by itself costs more than a quarter of one.
#[test]
fn small_operations_are_dear() {
    for work in [Work::Destage, Work::Other] {
        assert_eq!(work.cost(7, 7 * PAGE), 7 * PAGE, "{work:?}");
    }
    let block = Work::Other.cost(1, 4 << 10);
    assert!((PAGE / 4..PAGE / 3).contains(&block), "{block}");
}

#[test]
fn without_commands_nothing_is_held() {
    let mut machine = Machine::new();
    machine.run(SECOND);
    let now = machine.now + SECOND;
    for _ in 0..10_000 {
        assert!(machine.pace.may_begin(now, PAGE));
    }
    assert_eq!(machine.pace.rate(now), None);
    // Nor is what came then held against what comes later.
    machine.now = now;
    machine.wants = true;
    machine.run(SECOND);
    assert!(machine.done >= BOUNDS.floor / 2, "{}", machine.done);
}

#[test]
fn the_floor_is_kept_however_slow_commands_are() {
    let mut machine = Machine::new();
    machine.doubles_at = MIB;
    machine.run(SECOND);
    machine.wants = true;
    machine.run(20 * SECOND);
    let floor = BOUNDS.floor * 20;
    // There are pauses.
    assert!(machine.done > floor * 85 / 100, "{}", machine.done / MIB);
    assert!(machine.done < floor * 120 / 100, "{}", machine.done / MIB);
    assert_eq!(machine.pace.rate(machine.now), Some(BOUNDS.floor));
}

/// Rounds of destage are as much as the floor gives in a second, and copies small.
#[test]
fn the_floor_is_kept_whatever_is_destaged() {
    let mut machine = Machine::new();
    machine.doubles_at = MIB;
    machine.run(SECOND);
    machine.wants = true;
    machine.destages = Some(BOUNDS.floor);
    machine.run(20 * SECOND);
    let floor = BOUNDS.floor * 20;
    assert!(machine.done > floor * 85 / 100, "{}", machine.done / MIB);
    assert!(
        machine.destaged > floor * 85 / 100,
        "{}",
        machine.destaged / MIB
    );
}

#[test]
fn what_hosts_do_otherwise_is_not_held_against_the_background_for_long() {
    let mut machine = Machine::new();
    machine.run(SECOND);
    machine.wants = true;
    machine.run(10 * SECOND);
    let before = machine.done;
    // Larger commands from now on, by themselves.
    machine.alone = Duration::from_millis(2);
    machine.run(40 * SECOND);
    machine.run(10 * SECOND);
    assert!(machine.done > before / 2, "{} of {before}", machine.done);
}

#[test]
fn whoever_waits_is_told_when_to_ask_again() {
    let mut machine = Machine::new();
    machine.run(SECOND);
    let mut asked = 0;
    for _ in 0..1000 {
        machine.run(Duration::from_millis(1));
        if machine.pace.may_begin(machine.now, PAGE) {
            continue;
        }
        let due = machine.pace.next_timeout().expect("it is to ask again");
        assert!(due > machine.now);
        assert!(due.since(machine.now) < Duration::from_millis(200));
        assert!(!machine.pace.is_due(machine.now));
        assert!(machine.pace.is_due(due) && !machine.pace.is_due(due));
        asked += 1;
    }
    assert!(asked > 100);
}

/// Of two who wait, one asks again with every command.
#[test]
fn who_asks_often_does_not_put_off_the_others() {
    let mut machine = Machine::new();
    machine.run(SECOND);
    while machine.pace.may_begin(machine.now, PAGE) {}
    let told = machine.pace.next_timeout().expect("it is to ask again");
    while machine.now < told {
        machine.now += Duration::from_micros(100);
        machine.pace.may_begin(machine.now, PAGE);
        let again = machine.pace.next_timeout().expect("nobody was told");
        assert!(again <= told, "{again:?} is later than {told:?}");
    }
    assert!(machine.pace.is_due(machine.now));
}

/// One command that was stuck for seconds says nothing of what the others take.
#[test]
fn a_command_that_was_stuck_changes_little() {
    let mut machine = Machine::new();
    machine.run(SECOND);
    machine.wants = true;
    machine.run(10 * SECOND);
    let before = machine
        .pace
        .rate(machine.now)
        .expect("hosts want something");
    machine.pace.command(machine.now, Class::Write, 5 * SECOND);
    machine.run(SECOND);
    let after = machine
        .pace
        .rate(machine.now)
        .expect("hosts want something");
    assert!(after > before / 3, "{before} became {after}");
}
