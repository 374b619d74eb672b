//! The layer above the machine: sessions, commands and task management as it is told of them.
//!
//! Invariants (of what it is told):
//! - at most one session is on a nexus, those that have ended and were not confirmed included, and
//!   nobody has one with a target that wants a proof without having given it;
//! - numbers rise; a command is of a session that lives, comes once, has all its data, and is within
//!   the limits; what task management ends was under way.

use std::collections::{BTreeMap, BTreeSet};

use holdfast_iscsi::Nexus;
use holdfast_iscsi::target::{
    Command, Limits, SessionId, TargetEvent, TaskId, TaskManagement, TaskManagementId,
};
use holdfast_stdx::Bytes;

#[derive(Debug, Default)]
pub(super) struct Above {
    /// Those that live.
    pub(super) sessions: BTreeMap<SessionId, Nexus>,
    /// Those that have ended and are not confirmed.
    pub(super) draining: BTreeMap<SessionId, Nexus>,
    /// Commands that are under way.
    pub(super) commands: Vec<Command>,
    /// Task management that is under way.
    pub(super) management: Vec<TaskManagement>,
    /// Answered while it was not yet heard of everything that had happened: they may have been ended before.
    pub(super) overtaken: BTreeSet<TaskId>,
    /// What was ended: to answer it has no effect any more.
    pub(super) stale_tasks: Vec<TaskId>,
    pub(super) stale_requests: Vec<TaskManagementId>,
    last_session: u64,
    last_task: u64,
    last_request: u64,
}

impl Above {
    pub(super) fn take(&mut self, event: TargetEvent, limits: &Limits) {
        match event {
            TargetEvent::SessionOpened { session, nexus } => {
                assert!(session.0 > self.last_session, "numbers rise");
                self.last_session = session.0;
                let mut others = self.sessions.values().chain(self.draining.values());
                assert!(others.all(|other| *other != nexus), "one on a nexus");
                self.sessions.insert(session, nexus);
                let count = self.sessions.len() + self.draining.len();
                assert!(count <= limits.sessions_max, "{count} sessions");
            }
            TargetEvent::SessionClosed { session, .. } => {
                let nexus = self.sessions.remove(&session);
                let nexus = nexus.expect("a session that lives ends, and once");
                self.draining.insert(session, nexus);
                let (ended, commands) = std::mem::take(&mut self.commands)
                    .into_iter()
                    .partition(|it| it.session == session);
                self.commands = commands;
                let ended: Vec<Command> = ended;
                self.stale_tasks.extend(ended.iter().map(|it| it.task));
                let (ended, management): (Vec<_>, _) = std::mem::take(&mut self.management)
                    .into_iter()
                    .partition(|it| it.session == session);
                self.management = management;
                self.stale_requests
                    .extend(ended.iter().map(|it| it.request));
            }
            TargetEvent::Command(command) => self.take_command(command, limits),
            TargetEvent::TaskManagement(request) => self.take_management(request, limits),
        }
    }

    fn take_command(&mut self, command: Command, limits: &Limits) {
        assert!(command.task.0 > self.last_task, "numbers rise");
        self.last_task = command.task.0;
        assert!(self.sessions.contains_key(&command.session), "it lives");
        let length: usize = command.data_out.iter().map(Bytes::len).sum();
        assert_eq!(length, command.expected_out as usize, "all of its data");
        assert!(command.data_out.iter().all(|part| !part.is_empty()));
        assert!(command.expected_out <= limits.data_out_max);
        assert!(command.expected_in <= limits.data_in_max);
        self.commands.push(command);
        let of_session = |it: &&Command| {
            let last = self.commands.last().expect("it was just put there");
            it.session == last.session
        };
        let count = self.commands.iter().filter(of_session).count();
        assert!(count <= limits.window as usize + limits.immediate_max);
        let returned = self.commands.iter().map(|it| u64::from(it.expected_in));
        assert!(
            returned.sum::<u64>() <= limits.total_bytes_max,
            "there is room"
        );
    }

    fn take_management(&mut self, request: TaskManagement, limits: &Limits) {
        assert!(request.request.0 > self.last_request, "numbers rise");
        self.last_request = request.request.0;
        assert!(self.sessions.contains_key(&request.session), "it lives");
        self.end_tasks(&request.tasks);
        for session in &request.sessions {
            assert!(self.sessions.contains_key(session), "it lost commands");
        }
        let session = request.session;
        self.management.push(request);
        let of_session = self.management.iter().filter(|it| it.session == session);
        assert!(of_session.count() <= limits.management_max);
    }

    /// These are ended, and were under way.
    pub(super) fn end_tasks(&mut self, tasks: &[TaskId]) {
        for task in tasks {
            match self.commands.iter().position(|it| it.task == *task) {
                Some(place) => drop(self.commands.remove(place)),
                None => assert!(self.overtaken.contains(task), "what is ended is under way"),
            }
            self.stale_tasks.push(*task);
        }
    }
}
