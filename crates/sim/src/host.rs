//! A host: several paths to one volume, and commands that it repeats elsewhere when a path does not
//! answer, as multipath hosts do. A machine like those that it tests: it is told, and says what it
//! wants done.
//!
//! What is assumed of hosts: a command that was not answered is repeated elsewhere only when its path has been silent for
//! [`HostPlan::patience`] or, if its node has ended the connection, [`HostPlan::after_end`] after that. Sooner, the first one may
//! still be on its way.
//!
//! Invariant: a command is under way on one path at a time, as far as the host can know.

mod acts;
mod copies;
mod guest;
mod path;
mod plan;
mod reset;
mod rival;
mod work;

use std::collections::BTreeMap;

use holdfast_engine::ConnectionId;
use holdfast_iscsi::initiator::{
    CommandTag, EndReason, InitiatorCommand, InitiatorEvent, InitiatorOutput,
};
use holdfast_model::NodeId;
use holdfast_stdx::{Bytes, Duration, Instant, Prng};

pub(crate) use self::acts::{Act, Acts};
pub use self::copies::Copies;
use self::path::{Path, State};
pub use self::plan::{HostCounts, HostPlan};
use self::reset::RESET;
use self::rival::Rival;
pub use self::rival::Rivalry;
use self::work::{Answer, Work, judge};
use crate::cluster::ClusterPlan;
use crate::content::{SECTOR_SIZE, Value};
use crate::history::{Asked, AttemptId, History, Sectors};
use crate::schedule::Appointment;

/// How long an abort may take before the session is dropped instead.
const ABORT_TIMEOUT: Duration = Duration::from_secs(2);
/// Before a command is tried again that was refused for now.
const LATER: Duration = Duration::from_millis(60);

/// Something that a host wants of its volume, until it has it.
#[derive(Debug)]
struct Operation {
    work: Work,
    sectors: Sectors,
    /// The path that it must go over.
    pinned: Option<usize>,
    /// Under way.
    current: Option<Current>,
    /// The last attempt, if it is not known to have been done.
    unanswered: Option<AttemptId>,
    last_path: usize,
    retry: Instant,
    pub(crate) since: Instant,
}

#[derive(Debug)]
struct Current {
    path: usize,
    attempt: AttemptId,
    sent: Instant,
    /// When the abort was sent.
    aborted: Option<Instant>,
    /// A reset was sent after it over the same path.
    ends_with_reset: bool,
}

/// A host.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) index: usize,
    plan: HostPlan,
    areas: crate::volumes::VolumePlan,
    paths: Vec<Path>,
    operations: BTreeMap<u64, Operation>,
    next_operation: u64,
    next_value: Value,
    next_issue: Instant,
    next_reset: Instant,
    /// The path over which a reset is under way.
    resetting: Option<usize>,
    /// Where the volume ended before it first grew, in sectors: nodes hear of it in their time.
    end_before_growth: Option<u64>,
    /// What its volume is, if that is looked at after every login.
    guest: Option<guest::Identity>,
    /// The others that take the volume from it, if there are any.
    rival: Option<Rival>,
    /// New commands are begun.
    pub(crate) busy: bool,
    pub(crate) counts: HostCounts,
    /// When the last command was done.
    pub(crate) last_done: Instant,
    pub(crate) timer: Option<(Instant, Appointment)>,
    prng: Prng,
}

/// Values of different hosts are told apart by these bits.
const HOST_SHIFT: u32 = 48;

impl Host {
    pub(crate) fn new(
        index: usize,
        cluster: &ClusterPlan,
        nodes: &[NodeId],
        prng: &mut Prng,
    ) -> Self {
        let plan = cluster.hosts[index].clone();
        let areas = cluster.volumes[plan.volume].clone();
        let mut prng = prng.fork();
        let paths = nodes
            .iter()
            .map(|node| Path::new(index, *node, &areas.name, &mut prng))
            .collect();
        Self {
            index,
            plan,
            areas,
            paths,
            operations: BTreeMap::new(),
            next_operation: 0,
            next_value: (index as Value + 1) << HOST_SHIFT,
            next_issue: Instant::ZERO,
            next_reset: Instant::ZERO,
            resetting: None,
            guest: None,
            rival: Rival::new(index, cluster, &mut prng),
            busy: false,
            end_before_growth: None,
            counts: HostCounts::default(),
            last_done: Instant::ZERO,
            timer: None,
            prng,
        }
    }

    /// Whether nothing is under way.
    pub(crate) fn is_idle(&self) -> bool {
        self.operations.is_empty()
    }

    pub(crate) fn paths_up(&self) -> usize {
        self.paths.iter().filter(|path| path.is_up()).count()
    }

    pub(crate) fn path_count(&self) -> usize {
        self.paths.len()
    }

    /// Uses other places from now on.
    pub(crate) fn focus(&mut self, areas: crate::volumes::VolumePlan) {
        if areas.bytes > self.areas.bytes {
            let end = self.areas.bytes / SECTOR_SIZE as u64;
            self.end_before_growth.get_or_insert(end);
        }
        self.areas = areas;
    }

    /// Wants `sectors` read over a path.
    pub(crate) fn want_read(&mut self, now: Instant, path: usize, sectors: Sectors) {
        self.add(now, Work::Read, sectors, Some(path));
    }

    fn add(&mut self, now: Instant, work: Work, sectors: Sectors, pinned: Option<usize>) {
        self.next_operation += 1;
        let last_path = self.prng.below(self.paths.len() as u64) as usize;
        let operation = Operation {
            work,
            sectors,
            pinned: pinned.or(self.plan.only),
            current: None,
            unanswered: None,
            last_path,
            retry: now,
            since: now,
        };
        self.operations.insert(self.next_operation, operation);
    }

    /// When it next wants to act.
    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        let issue =
            (self.busy && self.operations.len() < self.plan.depth).then_some(self.next_issue);
        let paths = self.paths.iter().filter_map(Path::next_timeout);
        let operations =
            self.operations
                .values()
                .filter_map(|operation| match &operation.current {
                    Some(Current {
                        aborted: Some(aborted),
                        ..
                    }) => Some(*aborted + ABORT_TIMEOUT),
                    Some(current) => Some(current.sent + self.plan.timeout),
                    None => self.choose_path(operation).map(|_| operation.retry),
                });
        let reset = self
            .resets_at()
            .filter(|_| self.busy && self.paths_up() > 0);
        let own = issue.into_iter().chain(reset).chain(self.rival_at());
        own.chain(paths).chain(operations).min()
    }

    /// Does what is due.
    pub(crate) fn act(&mut self, now: Instant, history: &mut History, acts: &mut Acts) {
        for index in 0..self.paths.len() {
            let mut out = InitiatorOutput::default();
            self.paths[index].handle_timeout(now, acts, &mut out);
            self.take(now, index, out, history, acts);
        }
        self.give_up(now, history, acts);
        if self.busy && now >= self.next_issue && self.operations.len() < self.plan.depth {
            self.issue(now);
        }
        if self.busy && self.resets_at().is_some_and(|due| due <= now) {
            self.reset_unit(now, history, acts);
        }
        for (path, said) in self.act_as_rival(now, history, acts) {
            self.take(now, path, said, history, acts);
        }
        self.send(now, history, acts);
    }

    fn issue(&mut self, now: Instant) {
        let mean = self.plan.pause.as_nanos() as u64;
        self.next_issue = now + Duration::from_nanos(self.prng.below(2 * mean) + 1);
        let sectors = self.areas.draw(self.plan.volume, &mut self.prng);
        if let Some(copies) = self.plan.copies
            && self.prng.chance(copies.percent, 100)
        {
            self.copy(now, copies, sectors);
            return;
        }
        let work = match self.prng.below(100) {
            chance if chance < self.plan.reads => Work::Read,
            chance if chance < self.plan.reads + 4 => Work::Unmap,
            chance if chance < self.plan.reads + 6 => Work::WriteZeros,
            _ => {
                self.next_value += 1;
                Work::Write(self.next_value)
            }
        };
        self.add(now, work, sectors, None);
    }

    /// Sends what may be sent.
    fn send(&mut self, now: Instant, history: &mut History, acts: &mut Acts) {
        let waiting: Vec<u64> = self
            .operations
            .iter()
            .filter(|(_, operation)| operation.current.is_none() && operation.retry <= now)
            .map(|(number, _)| *number)
            .collect();
        for number in waiting {
            let operation = &self.operations[&number];
            let Some(path) = self.choose_path(operation) else {
                continue;
            };
            if !self.send_over(now, number, path, history, acts)
                && let Some(operation) = self.operations.get_mut(&number)
            {
                // The session takes no more for now.
                operation.retry = now + LATER;
            }
        }
    }

    /// The next path after the last one that can be used.
    fn choose_path(&self, operation: &Operation) -> Option<usize> {
        if let Some(pinned) = operation.pinned {
            return self.paths[pinned].is_up().then_some(pinned);
        }
        let count = self.paths.len();
        (1..=count)
            .map(|step| (operation.last_path + step) % count)
            .find(|path| self.paths[*path].is_up())
    }

    /// Sends an operation over a path, if its session takes one more.
    fn send_over(
        &mut self,
        now: Instant,
        number: u64,
        path: usize,
        history: &mut History,
        acts: &mut Acts,
    ) -> bool {
        let operation = self
            .operations
            .get_mut(&number)
            .expect("it waits to be sent");
        let mut out = InitiatorOutput::default();
        let request = operation.work.request(operation.sectors);
        if !self.paths[path].submit(CommandTag(number), request, &mut out) {
            return false;
        }
        if let Some(before) = operation.unanswered.take() {
            history.give_up(before);
            self.counts.repeated += 1;
        }
        let asked = match operation.work {
            Work::Write(value) | Work::Copy { value, .. } => Asked::Write(value),
            Work::Unmap | Work::WriteZeros => Asked::Write(0),
            Work::Read => Asked::Read,
        };
        let attempt = history.send(self.index, path, operation.sectors, asked);
        operation.unanswered = Some(attempt);
        operation.last_path = path;
        operation.current = Some(Current {
            path,
            attempt,
            sent: now,
            aborted: None,
            ends_with_reset: false,
        });
        self.take(now, path, out, history, acts);
        true
    }

    /// Gives up what takes too long.
    fn give_up(&mut self, now: Instant, history: &mut History, acts: &mut Acts) {
        let late: Vec<(u64, usize, bool)> = self
            .operations
            .iter()
            .filter_map(|(number, operation)| {
                let current = operation.current.as_ref()?;
                match current.aborted {
                    Some(aborted) => {
                        (aborted + ABORT_TIMEOUT <= now).then_some((*number, current.path, true))
                    }
                    None => (current.sent + self.plan.timeout <= now).then_some((
                        *number,
                        current.path,
                        false,
                    )),
                }
            })
            .collect();
        for (number, path, was_aborted) in late {
            let mut out = InitiatorOutput::default();
            if self.plan.aborts
                && !was_aborted
                && self.paths[path].abort(CommandTag(number), &mut out)
                && let Some(operation) = self.operations.get_mut(&number)
                && let Some(current) = &mut operation.current
            {
                current.aborted = Some(now);
                self.take(now, path, out, history, acts);
                continue;
            }
            self.give_path_up(now, path, acts);
        }
    }

    fn give_path_up(&mut self, now: Instant, path: usize, acts: &mut Acts) {
        self.paths[path].close(now, acts);
        self.path_lost(now, path, false);
        self.rival_lost(path, acts);
    }

    /// A path's connection is gone, which its node has said or not: what was under way there is in doubt.
    fn path_lost(&mut self, now: Instant, path: usize, is_told: bool) {
        let outlived_at = self.paths[path].outlived_at(now, is_told, &self.plan);
        self.resetting.take_if(|over| *over == path);
        for operation in self.operations.values_mut() {
            let current = operation.current.take_if(|current| current.path == path);
            if current.is_some() {
                operation.retry = outlived_at;
            }
        }
    }

    /// A connection was made, or not.
    pub(crate) fn connected(
        &mut self,
        now: Instant,
        path: usize,
        connection: Option<ConnectionId>,
        history: &mut History,
        acts: &mut Acts,
    ) {
        let mut out = InitiatorOutput::default();
        self.paths[path].connected(now, connection, &mut out);
        self.take(now, path, out, history, acts);
    }

    /// Bytes came.
    pub(crate) fn received(
        &mut self,
        now: Instant,
        path: usize,
        connection: ConnectionId,
        bytes: Bytes,
        history: &mut History,
        acts: &mut Acts,
    ) {
        let mut out = InitiatorOutput::default();
        if let Some(initiator) = self.paths[path].hears(now, connection) {
            initiator.handle_received(now, bytes, &mut out);
        }
        self.take(now, path, out, history, acts);
        self.act(now, history, acts);
    }

    /// A connection ended.
    pub(crate) fn lost(
        &mut self,
        now: Instant,
        path: usize,
        connection: ConnectionId,
        history: &mut History,
        acts: &mut Acts,
    ) {
        let mut out = InitiatorOutput::default();
        if let Some(initiator) = self.paths[path].initiator(connection) {
            initiator.handle_closed(now, &mut out);
        }
        self.take(now, path, out, history, acts);
        self.act(now, history, acts);
    }

    /// Takes what a path's session says.
    fn take(
        &mut self,
        now: Instant,
        path: usize,
        mut out: InitiatorOutput,
        history: &mut History,
        acts: &mut Acts,
    ) {
        if let State::Up { connection, .. } = self.paths[path].state {
            for command in out.commands.drain(..) {
                match command {
                    InitiatorCommand::Send(parts) => acts.acts.push(Act::Send(connection, parts)),
                    InitiatorCommand::Close => acts.acts.push(Act::Close(connection)),
                }
            }
        }
        for event in out.events {
            match event {
                InitiatorEvent::Completed { tag, completion } if tag == guest::IDENTIFY => {
                    self.identified(now, path, &completion, acts);
                }
                InitiatorEvent::Completed {
                    tag: tag @ (rival::REGISTER | rival::TAKE | rival::CLEAR),
                    completion,
                } => {
                    let said = self.rival_answered(now, path, tag, &completion, acts);
                    if let Some((path, said)) = said {
                        self.take(now, path, said, history, acts);
                    }
                }
                InitiatorEvent::Completed { tag, completion } => {
                    self.completed(now, path, tag.0, &completion, history, acts);
                }
                InitiatorEvent::TaskManagementDone {
                    tag: RESET,
                    response,
                } => {
                    self.unit_was_reset(now, response, acts);
                }
                InitiatorEvent::TaskManagementDone { tag, response } => {
                    self.aborted(now, path, tag.0, response);
                }
                InitiatorEvent::Ended { reason } => {
                    if let EndReason::ProtocolError(what) = reason {
                        acts.complaint = Some(format!("the target broke the protocol: {what}"));
                    }
                    self.note_end(path, &reason);
                    self.paths[path].ended(now);
                    let is_told = matches!(reason, EndReason::Closed | EndReason::LoggedOut);
                    self.path_lost(now, path, is_told);
                    self.rival_lost(path, acts);
                }
                InitiatorEvent::Rejected { reason } => {
                    acts.complaint = Some(format!("the target rejected a PDU: {reason}"));
                }
                InitiatorEvent::LoggedIn { .. } => {
                    let asks = self.logged_in(path);
                    self.take(now, path, asks, history, acts);
                    if let Some((path, said)) = self.register(now, path, history, acts) {
                        self.take(now, path, said, history, acts);
                    }
                }
                InitiatorEvent::Targets(_)
                | InitiatorEvent::Pong
                | InitiatorEvent::Redirected { .. }
                | InitiatorEvent::Async { .. } => {}
            }
        }
    }

    /// An abort was answered: the command is over there, if it was found.
    fn aborted(&mut self, now: Instant, path: usize, number: u64, response: u8) {
        let Some(operation) = self.operations.get_mut(&number) else {
            return;
        };
        let ours = operation
            .current
            .as_ref()
            .is_some_and(|current| current.path == path);
        // Response 1: there is no such task. Its answer came before, or never will.
        if ours && response <= 1 {
            operation.current = None;
            operation.retry = now;
        }
    }

    fn completed(
        &mut self,
        now: Instant,
        path: usize,
        number: u64,
        completion: &holdfast_iscsi::initiator::Completion,
        history: &mut History,
        acts: &mut Acts,
    ) {
        let Some(operation) = self.operations.get_mut(&number) else {
            return;
        };
        let Some(current) = operation.current.take_if(|current| current.path == path) else {
            return;
        };
        let sectors = operation.sectors;
        match judge(operation.work, sectors, completion) {
            Answer::Done(values) => {
                self.counts
                    .note_done(operation.work, now.since(current.sent));
                history.done(current.attempt, values);
                self.operations.remove(&number);
                self.last_done = now;
            }
            Answer::Attention => {
                self.counts.attentions += 1;
                // Nothing was done: it is asked again at once, over the same path.
                operation.retry = now;
                operation.last_path = path + self.paths.len() - 1;
            }
            answer @ (Answer::Later | Answer::CopyAborted) => {
                self.counts.note_later(&answer);
                operation.retry = now + LATER;
            }
            Answer::BeyondEnd => {
                let is_new = |end: u64| sectors.first + sectors.count > end;
                if self.end_before_growth.is_some_and(is_new) {
                    self.counts.beyond_end += 1;
                    operation.retry = now + LATER;
                } else {
                    acts.complaint = Some(format!("the volume ends before {sectors:?}"));
                }
            }
            Answer::MediumError => {
                self.counts.medium_errors += 1;
                operation.retry = now + LATER;
                acts.complaint = Some(format!("a medium error at {sectors:?}"));
            }
            Answer::NoSpace => {
                self.counts.no_space += 1;
                operation.retry = now + LATER;
                if !self.plan.may_lack_room {
                    acts.complaint = Some("there is no room".into());
                }
            }
            Answer::NoUnit if self.guest.is_some() => {
                operation.retry = now + LATER;
                self.not_there(now, path, acts);
            }
            Answer::Conflict if self.rival.is_some() => {
                self.counts.conflicts += 1;
                operation.retry = now + LATER;
                self.is_fenced(now, path);
            }
            Answer::Conflict => acts.complaint = Some("nobody has reserved it".into()),
            Answer::NoUnit => acts.complaint = Some("there is no such unit".into()),
            Answer::Wrong(what) => acts.complaint = Some(what),
        }
    }

    /// For how long the oldest operation has been waiting.
    pub(crate) fn oldest(&self) -> Option<Instant> {
        self.operations
            .values()
            .map(|operation| operation.since)
            .min()
    }
}
