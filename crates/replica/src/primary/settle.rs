//! What became of a command that its portal has given up.
//!
//! Invariants:
//! - a command that was told not to be done is not numbered afterwards, and is not among the entries
//!   that this primary or a later one commits;
//! - who asks hears only when everything that was numbered before the question is committed.

use holdfast_model::CommandId;
use holdfast_wire::OutcomeCode;

use super::Primary;
use crate::{Context, Replica, Role};

impl Primary {
    /// Whether `command` is about to be told that it was not done.
    pub(super) fn is_settling(&self, command: CommandId) -> bool {
        self.settling.iter().any(|(_, other)| *other == command)
    }
}

impl Replica {
    /// A portal has given `command` up: if it has no number yet it gets none. Ends with `finish`, as
    /// done or expired, when everything that is numbered now is committed; or with not primary, if
    /// this replica cannot tell.
    ///
    /// Only who holds the lease can tell of a command that it does not know: a later primary may
    /// have numbered it, and there is none while the lease lasts.
    pub fn settle(&mut self, context: &mut dyn Context, command: CommandId) {
        let now = context.now();
        let Role::Primary(primary) = &mut self.role else {
            self.withdraw_early(command);
            context.finish(command, OutcomeCode::NotPrimary);
            return;
        };
        if let Some(sequence) = self.recent.sequence(command) {
            if sequence <= context.committed() {
                context.finish(command, OutcomeCode::Done);
            }
            // Else it ends when it is committed, or when this primary is deposed.
            return;
        }
        let was_waiting = primary.admission.withdraw(command);
        if was_waiting {
            self.unblock(context);
        }
        let Role::Primary(primary) = &mut self.role else {
            unreachable!("it is one still")
        };
        if !primary.may_read(now) {
            context.finish(command, OutcomeCode::NotPrimary);
        } else if context.committed() == context.prepared().1 {
            context.finish(command, OutcomeCode::Expired);
        } else {
            let through = context.prepared().1;
            primary.settling.push_back((through, command));
        }
        self.maintain(context);
    }
}
