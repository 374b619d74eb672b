//! A session in its full feature phase: its command window and its tasks.
//!
//! Invariants:
//! - MaxCmdSN never goes back (RFC 7143 4.2.2.1); a numbered request is taken once, in order;
//! - `undelivered` lists exactly the tasks that collect data or are ready, in their order;
//! - `reserved` is the sum of what the tasks have reserved.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use holdfast_stdx::Instant;

use crate::negotiation::Parameters;
use crate::pdu::{InitiatorTaskTag, Payload, Request, Sequence};
use crate::serial::SerialNumber;
use crate::target::connection::Wire;
use crate::target::load::Allowance;
use crate::target::nexus::{DeliveredTasks, Shared};
use crate::target::task::{Task, TaskState};
use crate::target::text::TextExchange;
use crate::target::{SessionId, TaskId};
use crate::{ConnectionIdentifier, IscsiName, Nexus, Tsih};

/// Data of requests that came before their turn. On one connection nobody sends out of order
/// (RFC 7143 4.2.2.1), so this is for stray ones.
const HELD_BYTES_MAX: usize = 64 << 10;

#[derive(Debug)]
pub(super) struct Session {
    /// Whose it is.
    pub(super) initiator: IscsiName,
    /// Which one it is; `None` for a discovery session, which the layer above does not know.
    pub(super) identity: Option<Identity>,
    pub(super) tsih: Tsih,
    pub(super) cid: ConnectionIdentifier,
    pub(super) parameters: Parameters,
    pub(super) window: Window,
    pub(super) tasks: BTreeMap<InitiatorTaskTag, Task>,
    pub(super) undelivered: VecDeque<InitiatorTaskTag>,
    pub(super) answers: VecDeque<Outgoing>,
    /// Tasks that are within the command window.
    pub(super) numbered: u32,
    /// Tasks and task management requests that are not.
    pub(super) immediate: usize,
    pub(super) reserved: u64,
    pub(super) allowance: Allowance,
    pub(super) text: Option<TextExchange>,
    /// When the connection is closed, if the initiator was asked to log out.
    pub(super) logout_deadline: Option<Instant>,
    /// It was asked to because its node is in maintenance.
    pub(super) is_asked_away: bool,
    /// Its initiator has proved who it is.
    pub(super) is_proved: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Identity {
    pub(super) session: SessionId,
    pub(super) nexus: Nexus,
}

/// What waits to be sent, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outgoing {
    /// The answer of a task.
    Task(InitiatorTaskTag),
    /// The answer of a task management request: after those of the tasks that were over before it
    /// (RFC 7143 4.2.2.3.4).
    Management(InitiatorTaskTag, u8),
}

/// What tasks left behind when they were ended.
#[derive(Debug, Default)]
pub(super) struct Aborted {
    /// Those that the layer above has.
    pub(super) tasks: Vec<TaskId>,
    /// Bytes that they have reserved in the budget of all connections, which are to be released
    /// when the layer above is done with them.
    pub(super) reserved: u64,
    /// Sessions that had any.
    pub(super) sessions: Vec<SessionId>,
}

/// The command window (RFC 7143 4.2.2.1).
#[derive(Debug)]
pub(super) struct Window {
    /// ExpCmdSN.
    pub(super) expected: SerialNumber,
    /// MaxCmdSN as the initiator was told.
    pub(super) max: SerialNumber,
    held: BTreeMap<u32, Held>,
    held_bytes: usize,
}

/// A request that came before its turn.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) request: Request,
    pub(super) data: Payload,
    /// When the last byte of it came.
    pub(super) received: Instant,
}

/// What the window says of a numbered request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Admission {
    /// It is its turn.
    Now,
    /// Its turn comes later.
    Later,
    /// It is outside: to be ignored silently.
    Outside,
}

impl Window {
    pub(super) const fn new(first: SerialNumber) -> Self {
        Self {
            expected: first,
            max: first.previous(),
            held: BTreeMap::new(),
            held_bytes: 0,
        }
    }

    /// Numbers that the initiator may use still.
    pub(super) const fn open(&self) -> u32 {
        self.max.0.wrapping_sub(self.expected.0).wrapping_add(1)
    }

    /// Takes a request's number, if it is its turn.
    pub(super) fn admit(&mut self, number: SerialNumber) -> Admission {
        // "The target MUST silently ignore any non-immediate command outside of this range",
        // RFC 7143 4.2.2.1; a number that is held already is a duplicate.
        if !number.is_within(self.expected, self.max) || self.held.contains_key(&number.0) {
            Admission::Outside
        } else if number == self.expected {
            self.expected = number.next();
            Admission::Now
        } else {
            Admission::Later
        }
    }

    /// Keeps a request for later; false if too much is kept already.
    pub(super) fn hold(&mut self, number: SerialNumber, held: Held) -> bool {
        self.held_bytes += held.data.len();
        self.held.insert(number.0, held);
        self.held_bytes <= HELD_BYTES_MAX
    }

    /// Whether the request that comes next was kept.
    pub(super) fn has_held(&self) -> bool {
        self.held.contains_key(&self.expected.0)
    }

    /// The request that was kept and whose turn it is.
    pub(super) fn take_held(&mut self) -> Option<Held> {
        let held = self.held.remove(&self.expected.0)?;
        self.held_bytes -= held.data.len();
        self.expected = self.expected.next();
        Some(held)
    }

    /// Takes `number` for received without its request (RFC 7143 11.6.1); false if it is not in the
    /// window.
    pub(super) fn skip(&mut self, number: SerialNumber, held: Held) -> bool {
        match self.admit(number) {
            Admission::Now => true,
            Admission::Later => {
                self.hold(number, held);
                true
            }
            Admission::Outside => false,
        }
    }
}

impl Session {
    pub(super) fn new(
        (initiator, identity): (IscsiName, Option<Identity>),
        tsih: Tsih,
        cid: ConnectionIdentifier,
        (parameters, allowance): (Parameters, Allowance),
        first: SerialNumber,
    ) -> Self {
        Self {
            initiator,
            identity,
            tsih,
            cid,
            parameters,
            window: Window::new(first),
            tasks: BTreeMap::new(),
            undelivered: VecDeque::new(),
            answers: VecDeque::new(),
            numbered: 0,
            immediate: 0,
            reserved: 0,
            allowance,
            text: None,
            logout_deadline: None,
            is_asked_away: false,
            is_proved: false,
        }
    }

    /// The numbers of the next PDU. `is_status` if it takes a StatSN for itself
    /// (RFC 7143 4.2.2.2).
    pub(super) fn sequence(
        &mut self,
        wire: &mut Wire,
        shared: &mut Shared,
        is_status: bool,
    ) -> Sequence {
        let unsolicited = self.parameters.unsolicited_max();
        let share = shared.load.window(self.allowance, unsolicited);
        let room = share.saturating_sub(self.numbered);
        let max = self.window.expected.plus(room).previous();
        if self.window.max.precedes(max) {
            self.window.max = max;
        }
        let commands = self.window.open() + self.numbered;
        shared
            .load
            .note_window(&mut self.allowance, commands, unsolicited);
        Sequence {
            status: wire.take_status_number(is_status),
            expected_command: self.window.expected,
            command_max: self.window.max,
        }
    }

    /// Adds a task.
    pub(super) fn insert(&mut self, task: Task) {
        if task.immediate {
            self.immediate += 1;
        } else {
            self.numbered += 1;
        }
        self.undelivered.push_back(task.tag);
        let previous = self.tasks.insert(task.tag, task);
        assert!(previous.is_none(), "a tag names one task");
    }

    /// Removes a task; what it has reserved in the budget of all connections is the caller's.
    pub(super) fn remove(&mut self, tag: InitiatorTaskTag) -> Task {
        let task = self
            .tasks
            .remove(&tag)
            .expect("a task that is removed is there");
        if task.immediate {
            self.immediate -= 1;
        } else {
            self.numbered -= 1;
        }
        self.reserved -= task.reserved;
        if matches!(task.state, TaskState::Collecting(_) | TaskState::Ready(_)) {
            self.undelivered.retain(|other| *other != tag);
        }
        task
    }

    /// Ends the tasks that `matches` names and that have no answer yet.
    pub(super) fn abort(
        &mut self,
        delivered: &mut DeliveredTasks,
        matches: impl Fn(&Task) -> bool,
        aborted: &mut Aborted,
    ) {
        let tags: Vec<InitiatorTaskTag> = self
            .tasks
            .values()
            .filter(|task| !matches!(task.state, TaskState::Answering(_)) && matches(task))
            .map(|task| task.tag)
            .collect();
        if let Some(identity) = self.identity.as_ref().filter(|_| !tags.is_empty()) {
            aborted.sessions.push(identity.session);
        }
        for tag in tags {
            let task = self.remove(tag);
            aborted.reserved += task.reserved;
            if let TaskState::Delivered(id) = task.state {
                delivered.remove(&id);
                aborted.tasks.push(id);
            }
        }
    }

    /// Bytes of input that is no command's data.
    pub(super) fn waiting_bytes(&self) -> usize {
        let text = self.text.as_ref().map_or(0, TextExchange::held_bytes);
        self.window.held_bytes + text
    }

    /// Bytes of data that the session holds.
    pub(super) fn held_bytes(&self) -> usize {
        let tasks: usize = self.tasks.values().map(Task::held_bytes).sum();
        tasks + self.waiting_bytes()
    }
}
