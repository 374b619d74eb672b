//! Random commands of three initiators through two ports, held against the rules as somebody else
//! would write them down: a table of keys, and what each service action does to it.

use alloc::vec::Vec;

use holdfast_model::record::AccessNexus;
use holdfast_stdx::Prng;

use super::bench::*;
use crate::reservation::{Need, kind, permits, transport_id};
use crate::{AdditionalSense, Status, UnitAttention};

const COUNT: usize = 6;

fn nexuses() -> [AccessNexus; COUNT] {
    ["a", "b", "c"]
        .map(|name| [nexus(name, 1), nexus(name, 2)])
        .concat()
        .try_into()
        .expect("three initiators have two each")
}

/// How a command ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Good,
    Conflict,
    BadList,
    BadCdb,
    BadRelease,
}

#[derive(Clone, Debug)]
struct Command {
    who: usize,
    action: u8,
    code: u8,
    key: u64,
    action_key: u64,
    persists: bool,
    all_ports: bool,
    /// Whom SPEC_I_PT names, or whereto the reservation moves.
    others: Option<Vec<usize>>,
    unregisters: bool,
}

/// 16h to 17h: RESERVE and RELEASE of old.
const OLD_RESERVE: u8 = 0x16;
const OLD_RELEASE: u8 = 0x17;

#[derive(Clone, Debug, Default)]
struct Oracle {
    /// Zero is no registration.
    keys: [u64; COUNT],
    /// Type code, and who holds it; of types 7 and 8 nobody in particular.
    held: Option<(u8, Option<usize>)>,
    old: Option<usize>,
    generation: u32,
    persists: bool,
    told: [Option<UnitAttention>; COUNT],
    aborted: Vec<usize>,
}

impl Oracle {
    fn holds(&self, who: usize) -> bool {
        match self.held {
            Some((7 | 8, _)) => self.keys[who] != 0,
            Some((_, holder)) => holder == Some(who),
            None => false,
        }
    }

    fn may(&self, who: usize) -> [bool; 2] {
        if self.old.is_some() {
            return [self.old == Some(who); 2];
        }
        let registered = self.keys[who] != 0;
        match self.held {
            None => [true, true],
            Some((1, holder)) => [true, holder == Some(who)],
            Some((3, holder)) => [holder == Some(who); 2],
            Some((5 | 7, _)) => [true, registered],
            Some(_) => [registered; 2],
        }
    }

    fn others_registered(&self, who: usize) -> impl Iterator<Item = usize> + use<> {
        let keys = self.keys;
        (0..COUNT).filter(move |other| *other != who && keys[*other] != 0)
    }

    fn apply(&mut self, command: &Command) -> End {
        self.told = [None; COUNT];
        self.aborted.clear();
        let mut after = self.clone();
        let end = after.run(command);
        if end == End::Good {
            *self = after;
        }
        end
    }

    fn run(&mut self, command: &Command) -> End {
        let who = command.who;
        if command.action >= OLD_RESERVE {
            return self.run_old(command);
        }
        if self.old.is_some() {
            return End::Conflict;
        }
        if command.action == REGISTER || command.action == REGISTER_AND_IGNORE {
            return self.register(command);
        }
        if self.keys[who] == 0 || self.keys[who] != command.key {
            return End::Conflict;
        }
        match command.action {
            RESERVE => match self.held {
                None => {
                    let holder = (command.code < 7).then_some(who);
                    self.held = Some((command.code, holder));
                    End::Good
                }
                Some((code, _)) if code == command.code && self.holds(who) => End::Good,
                Some(_) => End::Conflict,
            },
            RELEASE => match self.held {
                Some((code, _)) if self.holds(who) && code != command.code => End::BadRelease,
                Some((code, _)) if self.holds(who) => {
                    self.held = None;
                    if code > 3 {
                        self.tell(who, UnitAttention::ReservationsReleased);
                    }
                    End::Good
                }
                _ => End::Good,
            },
            CLEAR => {
                self.tell(who, UnitAttention::ReservationsPreempted);
                self.keys = [0; COUNT];
                self.held = None;
                self.generation += 1;
                End::Good
            }
            REGISTER_AND_MOVE => self.move_to(command),
            _ => self.preempt(command),
        }
    }

    fn tell(&mut self, who: usize, what: UnitAttention) {
        for other in self.others_registered(who) {
            self.told[other] = Some(what);
        }
    }

    fn run_old(&mut self, command: &Command) -> End {
        let who = command.who;
        if self.keys != [0; COUNT] {
            let admitted = matches!(self.held, Some((5.., _))) && self.keys[who] != 0;
            return match self.holds(who) || admitted {
                true => End::Good,
                false => End::Conflict,
            };
        }
        if command.action == OLD_RESERVE {
            if self.old.is_some() && self.old != Some(who) {
                return End::Conflict;
            }
            self.old = Some(who);
        } else if self.old == Some(who) {
            self.old = None;
        }
        End::Good
    }

    fn register(&mut self, command: &Command) -> End {
        let (who, new) = (command.who, command.action_key);
        let ignores = command.action == REGISTER_AND_IGNORE;
        if !ignores && self.keys[who] != command.key {
            return End::Conflict;
        }
        if command.others.is_some() && (self.keys[who] != 0 || new == 0) {
            return End::BadList;
        }
        let sides: Vec<usize> = match command.all_ports {
            true => [who, who ^ 1].to_vec(),
            false => [who].to_vec(),
        };
        if new == 0 && sides.iter().all(|side| self.keys[*side] == 0) {
            return End::Good;
        }
        for side in &sides {
            let key = self.keys[*side];
            if !ignores && key != 0 && key != command.key && key != new {
                return End::Conflict;
            }
        }
        self.generation += 1;
        self.persists = command.persists;
        let before = self.held;
        for side in &sides {
            self.keys[*side] = new;
        }
        for other in command.others.iter().flatten() {
            for side in [*other, *other ^ 1] {
                let is_meant = side % 2 == who % 2 || command.all_ports;
                if is_meant && self.keys[side] == 0 {
                    self.keys[side] = new;
                }
            }
        }
        let is_gone = match before {
            None => false,
            Some((7 | 8, _)) => self.keys == [0; COUNT],
            Some((_, holder)) => self.keys[holder.unwrap()] == 0,
        };
        if is_gone {
            self.held = None;
            if matches!(before, Some((5 | 6, _))) {
                self.tell(who, UnitAttention::ReservationsReleased);
            }
        }
        End::Good
    }

    fn move_to(&mut self, command: &Command) -> End {
        let Some((1..=6, Some(holder))) = self.held else {
            return End::Conflict;
        };
        if holder != command.who {
            return End::Conflict;
        }
        let destination = command.others.as_ref().unwrap()[0];
        if destination == command.who {
            return End::BadList;
        }
        self.keys[destination] = command.action_key;
        self.held = self.held.map(|(code, _)| (code, Some(destination)));
        if command.unregisters {
            self.keys[command.who] = 0;
        }
        self.persists = command.persists;
        self.generation += 1;
        End::Good
    }

    fn preempt(&mut self, command: &Command) -> End {
        let (who, key) = (command.who, command.action_key);
        let takes_over = match self.held {
            Some((7 | 8, _)) => key == 0,
            Some((_, holder)) => self.keys[holder.unwrap()] == key,
            None => false,
        };
        if key == 0 && !takes_over {
            return End::BadList;
        }
        let mut victims: Vec<usize> = (0..COUNT)
            .filter(|it| self.keys[*it] != 0 && (key == 0 || self.keys[*it] == key))
            .collect();
        if victims.is_empty() {
            return End::Conflict;
        }
        if takes_over && !matches!(command.code, 1 | 3 | 5..=8) {
            return End::BadCdb;
        }
        victims.retain(|victim| !takes_over || *victim != who);
        let before = self.held;
        if takes_over {
            self.held = Some((command.code, (command.code < 7).then_some(who)));
            if before.map(|it| it.0) != Some(command.code) {
                self.tell(who, UnitAttention::ReservationsReleased);
            }
        }
        for victim in &victims {
            self.keys[*victim] = 0;
            if *victim != who {
                self.told[*victim] = Some(UnitAttention::RegistrationsPreempted);
            }
        }
        if self.keys == [0; COUNT] {
            self.held = None;
        }
        if command.action == PREEMPT_AND_ABORT {
            self.aborted = victims;
        }
        self.generation += 1;
        End::Good
    }
}

fn random(prng: &mut Prng) -> Command {
    let action = match prng.below(20) {
        0 => *prng.choose(&[OLD_RESERVE, OLD_RELEASE]),
        1 => REGISTER_AND_IGNORE,
        2..=6 => REGISTER,
        7..=9 => RESERVE,
        10..=11 => RELEASE,
        12 => CLEAR,
        13..=14 => PREEMPT,
        15..=16 => PREEMPT_AND_ABORT,
        17 => REGISTER_AND_IGNORE,
        _ => REGISTER_AND_MOVE,
    };
    let mut others = None;
    if action == REGISTER && prng.chance(1, 5) {
        others = Some((0..prng.below(3)).map(|_| prng.below(6) as usize).collect());
    }
    if action == REGISTER_AND_MOVE {
        others = Some([prng.below(6) as usize].to_vec());
    }
    // A type that is none, where it may be ignored.
    let code = match action {
        PREEMPT | PREEMPT_AND_ABORT => *prng.choose(&[1, 3, 5, 6, 7, 8, 0, 2]),
        _ => *prng.choose(&[1, 3, 5, 6, 7, 8]),
    };
    Command {
        who: prng.below(6) as usize,
        action,
        code,
        key: prng.below(4),
        action_key: prng.below(4).max(u64::from(action == REGISTER_AND_MOVE)),
        persists: prng.chance(1, 2),
        all_ports: action != REGISTER_AND_MOVE && prng.chance(1, 6),
        others,
        unregisters: prng.chance(1, 2),
    }
}

fn send(world: &mut World, command: &Command) -> End {
    let nexuses = nexuses();
    let sender = &nexuses[command.who];
    let response = if command.action >= OLD_RESERVE {
        world.run_cdb(sender, &[command.action, 0, 0, 0, 0, 0])
    } else {
        let ids = |others: &[usize]| -> Vec<Vec<u8>> {
            let id = |other: &usize| transport_id::encode(&nexuses[*other]);
            others.iter().map(id).collect()
        };
        let mut out = match (command.action, &command.others) {
            (REGISTER_AND_MOVE, Some(others)) => {
                move_to(command.key, command.action_key, &nexuses[others[0]])
                    .with(u8::from(command.unregisters) << 1)
            }
            (action, Some(others)) => {
                out(action, command.key, command.action_key).naming(&ids(others))
            }
            (action, None) => out(action, command.key, command.action_key),
        };
        out.cdb[2] = command.code;
        if command.persists {
            out = out.with(APTPL);
        }
        if command.all_ports {
            out = out.with(ALL_TG_PT);
        }
        world.run(sender, &out)
    };
    match (
        response.status,
        response.sense.map(|sense| sense.additional),
    ) {
        (Status::Good, None) => End::Good,
        (Status::ReservationConflict, None) => End::Conflict,
        (_, Some(AdditionalSense::INVALID_FIELD_IN_PARAMETER_LIST)) => End::BadList,
        (_, Some(AdditionalSense::INVALID_FIELD_IN_CDB)) => End::BadCdb,
        (_, Some(AdditionalSense::INVALID_RELEASE_OF_PERSISTENT_RESERVATION)) => End::BadRelease,
        other => panic!("{other:?}"),
    }
}

/// The record says what the table does.
fn compare(world: &World, oracle: &Oracle, what: &Command) {
    let record = &world.record;
    for (index, nexus) in nexuses().iter().enumerate() {
        let key = record.registration(nexus).map_or(0, |it| it.key);
        assert_eq!(key, oracle.keys[index], "{what:?}");
        let may = [Need::Read, Need::Write].map(|need| permits(record, nexus, need));
        assert_eq!(may, oracle.may(index), "{what:?}");
    }
    let held = record.reservation.as_ref().map(|it| {
        let holder = it.holder.as_ref();
        let index = holder.map(|holder| nexuses().iter().position(|it| it == holder).unwrap());
        (kind::code(it.kind), index)
    });
    assert_eq!(held, oracle.held, "{what:?}");
    let old = record.reserved.as_ref();
    let old = old.map(|old| nexuses().iter().position(|it| it == old).unwrap());
    assert_eq!(old, oracle.old, "{what:?}");
    assert_eq!(record.generation, oracle.generation, "{what:?}");
    assert_eq!(record.persists, oracle.persists, "{what:?}");
    assert!(record.is_sound());
}

#[test]
fn as_the_rules_have_it() {
    let mut ends = [0; 5];
    let mut fenced = 0;
    for seed in 0..40 {
        let mut prng = Prng::from_seed(seed);
        let (mut world, mut oracle) = (World::new(), Oracle::default());
        for _ in 0..1500 {
            let mut command = random(&mut prng);
            // While one has it by RESERVE, there is not much to see.
            if let Some(who) = oracle.old.filter(|_| prng.chance(1, 2)) {
                (command.who, command.action) = (who, OLD_RELEASE);
            }
            // Mostly the right key, or most commands would be conflicts.
            if prng.chance(3, 4) {
                command.key = oracle.keys[command.who];
            }
            let before = world.record.clone();
            let could = core::array::from_fn::<_, COUNT, _>(|it| oracle.may(it));
            let expected = oracle.apply(&command);
            let end = send(&mut world, &command);
            assert_eq!(end, expected, "{command:?}\n{oracle:?}");
            ends[end as usize] += 1;
            compare(&world, &oracle, &command);
            let is_changed = world.record != before;
            let aborted: Vec<_> = oracle
                .aborted
                .iter()
                .map(|it| nexuses()[*it].clone())
                .collect();
            assert_eq!(world.aborted, aborted, "{command:?}");
            for (index, nexus) in nexuses().iter().enumerate() {
                let told = if is_changed { world.told(nexus) } else { None };
                assert_eq!(told, oracle.told[index], "{command:?}\n{before:?}");
            }
            // Somebody who is not among the six loses what all strangers lose.
            let lost = (0..COUNT).any(|it| {
                let can = oracle.may(it);
                (0..2).any(|right| could[it][right] && !can[right])
            });
            let stranger = nexus("z", 1);
            let may = |record, need| permits(record, &stranger, need);
            let stranger_lost = [Need::Read, Need::Write]
                .iter()
                .any(|need| may(&before, *need) && !may(&world.record, *need));
            let rise = world.record.fence.0 - before.fence.0;
            // What is aborted is fenced off as well, though nobody loses a right.
            let aborts_others = aborted.iter().any(|other| *other != nexuses()[command.who]);
            let fences = lost || stranger_lost || aborts_others;
            assert_eq!(rise, u64::from(fences), "{command:?}");
            fenced += rise;
        }
    }
    assert!(ends.iter().all(|count| *count > 100), "{ends:?}");
    assert!(fenced > 1000, "{fenced}");
}
