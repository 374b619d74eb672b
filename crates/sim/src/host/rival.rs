//! Hosts that take a volume from each other, as the nodes of a failover cluster do: each registers a key on every path, and now
//! and then one of them preempts another and reserves the volume for itself.
//!
//! Whoever has lost it registers again after a while: until then it goes on writing, and must not succeed.
//!
//! Invariants:
//! - a host has one registration under way on a path, and takes the volume over one path at a time;
//! - in the end nobody has it reserved.

use std::collections::{BTreeMap, BTreeSet};

use holdfast_iscsi::initiator::{CommandRequest, CommandTag, Completion, InitiatorOutput};
use holdfast_stdx::{Bytes, Duration, Instant, Prng};

use super::work::{sense_key, unit};
use super::{Act, Acts, Host};
use crate::cluster::ClusterPlan;
use crate::history::History;

/// What a host calls its registrations.
pub(super) const REGISTER: CommandTag = CommandTag(u64::MAX - 2);
/// The commands by which it takes the volume.
pub(super) const TAKE: CommandTag = CommandTag(u64::MAX - 3);
/// What ends all reservations.
pub(super) const CLEAR: CommandTag = CommandTag(u64::MAX - 4);
/// Before something is tried again that was refused for now.
const LATER: Duration = Duration::from_millis(50);

/// How hosts take a volume from each other.
#[derive(Clone, Copy, Debug)]
pub struct Rivalry {
    /// TYPE of the reservation (SPC-4 6.15.3).
    pub kind: u8,
    /// Between two times that a host takes it, on average.
    pub every: Duration,
    /// How long a host that has lost it goes on without registering again, at most.
    pub registers_after: Duration,
}

/// Service actions of PERSISTENT RESERVE OUT (SPC-4 6.16.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Reserve = 1,
    Clear = 3,
    Preempt = 4,
    PreemptAndAbort = 5,
    RegisterAndIgnore = 6,
}

/// A host takes the volume.
#[derive(Clone, Copy, Debug)]
struct Taking {
    path: usize,
    /// From this one, as far as it knows.
    of: usize,
    action: Action,
}

/// A host with rivals.
#[derive(Debug)]
pub(super) struct Rival {
    rivalry: Rivalry,
    /// The other hosts.
    others: Vec<usize>,
    next: Instant,
    taking: Option<Taking>,
    /// Paths on which a registration is under way.
    registering: BTreeSet<usize>,
    /// Since when a path has been asked something about reservations, by tag: a reset may have aborted it.
    asked: BTreeMap<(usize, u64), Instant>,
    /// When paths register again.
    register_at: BTreeMap<usize, Instant>,
    /// Somebody has the volume reserved, and everything comes to its end.
    ends: bool,
    /// The path over which reservations are being ended.
    clearing: Option<usize>,
}

impl Rival {
    pub(super) fn new(host: usize, cluster: &ClusterPlan, prng: &mut Prng) -> Option<Self> {
        let plan = &cluster.hosts[host];
        let rivalry = plan.rivalry?;
        let fellows = cluster.hosts.iter().enumerate();
        let others = fellows.filter(|(other, it)| *other != host && it.volume == plan.volume);
        Some(Self {
            rivalry,
            others: others.map(|(other, _)| other).collect(),
            next: Instant::ZERO + Duration::from_millis(prng.between(1, 2000)),
            taking: None,
            registering: BTreeSet::new(),
            asked: BTreeMap::new(),
            register_at: BTreeMap::new(),
            ends: false,
            clearing: None,
        })
    }
}

/// The key of a host: the same on all its paths.
fn key_of(host: usize) -> u64 {
    host as u64 + 1
}

/// PERSISTENT RESERVE OUT (SPC-4 6.16), with APTPL.
fn reserve_out(action: Action, kind: u8, key: u64, action_key: u64) -> CommandRequest {
    let cdb = [0x5F, action as u8, kind, 0, 0, 0, 0, 0, 24, 0];
    let mut list = [0; 24];
    list[..8].copy_from_slice(&key.to_be_bytes());
    list[8..16].copy_from_slice(&action_key.to_be_bytes());
    list[20] = u8::from(action == Action::RegisterAndIgnore);
    CommandRequest::new(unit(), &cdb).writing(vec![Bytes::copy_from_slice(&list)])
}

/// What an answer to it means.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Answer {
    Done,
    /// Something had to be told first, or it cannot be done now.
    Again(Duration),
    Conflict,
    Wrong(String),
}

fn judge(completion: &Completion) -> Answer {
    match (completion.status, sense_key(&completion.sense)) {
        (0x00, _) => Answer::Done,
        (0x08 | 0x28, _) | (0x02, Some((0x2 | 0xB, _))) => Answer::Again(LATER),
        (0x02, Some((0x6, _))) => Answer::Again(Duration::ZERO),
        (0x18, _) => Answer::Conflict,
        (status, sense) => Answer::Wrong(format!(
            "a command about reservations ends with status {status:x}, sense {sense:x?}"
        )),
    }
}

impl Host {
    /// When it next wants to take the volume, or to register.
    pub(super) fn rival_at(&self) -> Option<Instant> {
        let rival = self.rival.as_ref()?;
        let takes = self.busy && rival.taking.is_none() && self.paths_up() > 0;
        let up = |path: &usize| self.paths[*path].is_up() && !rival.registering.contains(path);
        let registers = rival.register_at.iter().filter(|(path, _)| up(path));
        let registers = registers.map(|(_, at)| *at);
        let asked = rival.asked.values().map(|since| *since + self.plan.timeout);
        let own = takes.then_some(rival.next).into_iter();
        own.chain(registers).chain(asked).min()
    }

    /// Takes the volume, or registers, if it is time.
    pub(super) fn act_as_rival(
        &mut self,
        now: Instant,
        history: &mut History,
        acts: &mut Acts,
    ) -> Vec<(usize, InitiatorOutput)> {
        let mut said = Vec::new();
        if self.rival_at().is_none_or(|due| due > now) {
            return said;
        }
        self.give_up_asking(now, acts);
        let Some(rival) = &self.rival else {
            return said;
        };
        let due = rival.register_at.iter().filter(|(_, at)| **at <= now);
        let due: Vec<usize> = due.map(|(path, _)| *path).collect();
        for path in due {
            said.extend(self.register(now, path, history, acts));
        }
        let Some(rival) = &self.rival else {
            return said;
        };
        if self.busy && rival.taking.is_none() && rival.next <= now {
            said.extend(self.take_volume(now, acts));
        }
        said
    }

    /// What is not answered for as long as a command may take is given up, with its session.
    fn give_up_asking(&mut self, now: Instant, acts: &mut Acts) {
        let Some(rival) = &self.rival else {
            return;
        };
        let timeout = self.plan.timeout;
        let late = rival
            .asked
            .iter()
            .filter(|(_, since)| **since + timeout <= now);
        let late: BTreeSet<usize> = late.map(|((path, _), _)| *path).collect();
        for path in late {
            self.give_path_up(now, path, acts);
        }
    }

    /// A path registers, if it can.
    pub(super) fn register(
        &mut self,
        now: Instant,
        path: usize,
        history: &mut History,
        acts: &mut Acts,
    ) -> Option<(usize, InitiatorOutput)> {
        let key = key_of(self.index);
        let rival = self.rival.as_mut()?;
        if rival.registering.contains(&path) || !self.paths[path].is_up() {
            return None;
        }
        let request = reserve_out(Action::RegisterAndIgnore, 0, 0, key);
        let mut out = InitiatorOutput::default();
        if !self.paths[path].submit(REGISTER, request, &mut out) {
            return None;
        }
        rival.register_at.remove(&path);
        rival.registering.insert(path);
        rival.asked.insert((path, REGISTER.0), now);
        // What is sent from now on may be permitted.
        history.unfence(self.index);
        acts.acts.push(Act::Registers);
        Some((path, out))
    }

    fn take_volume(&mut self, now: Instant, acts: &mut Acts) -> Option<(usize, InitiatorOutput)> {
        let up = (0..self.paths.len()).filter(|path| self.paths[*path].is_up());
        let up: Vec<usize> = up.collect();
        let mean = self.rival.as_ref()?.rivalry.every.as_nanos() as u64;
        let next = now + Duration::from_nanos(self.prng.below(2 * mean) + 1);
        if up.is_empty() {
            return None;
        }
        let path = *self.prng.choose(&up);
        let action = *self
            .prng
            .choose(&[Action::Preempt, Action::PreemptAndAbort]);
        let rival = self.rival.as_mut()?;
        rival.next = next;
        let of = *self.prng.choose(&rival.others);
        self.send_taking(now, Taking { path, of, action }, acts)
    }

    fn send_taking(
        &mut self,
        now: Instant,
        taking: Taking,
        acts: &mut Acts,
    ) -> Option<(usize, InitiatorOutput)> {
        let (key, Taking { path, of, action }) = (key_of(self.index), taking);
        let rival = self.rival.as_mut()?;
        let action_key = match action {
            Action::Reserve => 0,
            _ => key_of(of),
        };
        let request = reserve_out(action, rival.rivalry.kind, key, action_key);
        let mut out = InitiatorOutput::default();
        if !self.paths[path].submit(TAKE, request, &mut out) {
            rival.taking = None;
            return None;
        }
        rival.taking = Some(taking);
        rival.asked.insert((path, TAKE.0), now);
        if action != Action::Reserve {
            acts.acts.push(Act::Takes { of });
        }
        Some((path, out))
    }

    /// A write may not be done: the volume was taken. The path registers again some time later, or ends the reservation
    /// where everything comes to its end.
    pub(super) fn is_fenced(&mut self, now: Instant, path: usize) {
        let Some(rival) = &mut self.rival else {
            return;
        };
        let most = rival.rivalry.registers_after.as_nanos() as u64;
        rival.ends = !self.busy;
        let pause = match self.busy {
            true => Duration::from_nanos(self.prng.below(most) + 1),
            false => LATER,
        };
        rival.register_at.entry(path).or_insert(now + pause);
    }

    /// A command about reservations was answered.
    pub(super) fn rival_answered(
        &mut self,
        now: Instant,
        path: usize,
        tag: CommandTag,
        completion: &Completion,
        acts: &mut Acts,
    ) -> Option<(usize, InitiatorOutput)> {
        let answer = judge(completion);
        if let Some(rival) = &mut self.rival {
            rival.asked.remove(&(path, tag.0));
        }
        if let Answer::Wrong(what) = answer {
            acts.complaint = Some(what);
            return None;
        }
        match tag {
            REGISTER => self.registered(now, path, &answer, acts),
            CLEAR => {
                let rival = self.rival.as_mut()?;
                rival.clearing = None;
                rival.ends = answer != Answer::Done;
                if rival.ends {
                    rival.register_at.insert(path, now + LATER);
                }
                None
            }
            _ => self.took(now, path, &answer, acts),
        }
    }

    fn registered(
        &mut self,
        now: Instant,
        path: usize,
        answer: &Answer,
        acts: &mut Acts,
    ) -> Option<(usize, InitiatorOutput)> {
        let key = key_of(self.index);
        let rival = self.rival.as_mut()?;
        rival.registering.remove(&path);
        // What is not ready may have been done, or may be yet.
        let in_doubt = matches!(answer, Answer::Again(pause) if !pause.is_zero());
        acts.acts.push(Act::Registered { in_doubt });
        match answer {
            Answer::Done if rival.ends && rival.clearing.is_none() => {
                let mut out = InitiatorOutput::default();
                let request = reserve_out(Action::Clear, 0, key, 0);
                if self.paths[path].submit(CLEAR, request, &mut out) {
                    rival.clearing = Some(path);
                    rival.asked.insert((path, CLEAR.0), now);
                    acts.acts.push(Act::Clears);
                    return Some((path, out));
                }
                rival.register_at.insert(path, now + LATER);
            }
            Answer::Done => {}
            Answer::Again(pause) => drop(rival.register_at.insert(path, now + *pause)),
            Answer::Conflict | Answer::Wrong(_) => {
                rival.register_at.insert(path, now + LATER);
            }
        }
        None
    }

    fn took(
        &mut self,
        now: Instant,
        path: usize,
        answer: &Answer,
        acts: &mut Acts,
    ) -> Option<(usize, InitiatorOutput)> {
        let busy = self.busy;
        let rival = self.rival.as_mut()?;
        let taking = rival.taking.take().filter(|it| it.path == path)?;
        let reserve = Taking {
            action: Action::Reserve,
            ..taking
        };
        match (answer, taking.action) {
            // What was refused for now was not done.
            (Answer::Again(pause), action) if busy && *pause == Duration::ZERO => {
                let again = Taking { action, ..taking };
                acts.acts.push(Act::NotTaken { in_doubt: false });
                self.send_taking(now, again, acts)
            }
            (Answer::Done, Action::Reserve) => {
                acts.acts.push(Act::Taken {
                    of: taking.of,
                    reserved: true,
                });
                None
            }
            (Answer::Done, _) => {
                acts.acts.push(Act::Taken {
                    of: taking.of,
                    reserved: false,
                });
                self.send_taking(now, reserve, acts)
            }
            // There was nothing to be taken from it, or this path is not registered.
            (Answer::Conflict, action) => {
                acts.acts.push(Act::NotTaken { in_doubt: false });
                if action == Action::Reserve {
                    rival.register_at.entry(path).or_insert(now);
                    return None;
                }
                self.send_taking(now, reserve, acts)
            }
            (Answer::Again(_) | Answer::Wrong(_), _) => {
                acts.acts.push(Act::NotTaken { in_doubt: true });
                None
            }
        }
    }

    /// A path is lost: what was under way about reservations there may still be done.
    pub(super) fn rival_lost(&mut self, path: usize, acts: &mut Acts) {
        let Some(rival) = &mut self.rival else {
            return;
        };
        if rival.registering.remove(&path) {
            acts.acts.push(Act::Registered { in_doubt: true });
        }
        if rival.taking.take_if(|it| it.path == path).is_some() {
            acts.acts.push(Act::NotTaken { in_doubt: true });
        }
        rival.clearing.take_if(|over| *over == path);
        rival.register_at.remove(&path);
        rival.asked.retain(|(of, _), _| *of != path);
    }
}
