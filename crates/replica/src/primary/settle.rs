//! What became of a command that its portal has given up, or that found something else than it expected:
//! told when everything that was numbered until then is committed.
//!
//! Invariants:
//! - a command that was told not to be done is not numbered afterwards, and is not among the entries
//!   that this primary or a later one commits;
//! - who asks hears only when everything that was numbered before the question is committed;
//! - nobody is told of a mismatch but by who held the lease when it was found: another may lead by now, and
//!   have written what was expected.

use holdfast_model::CommandId;
use holdfast_wire::OutcomeCode;

use super::write_kind::Mismatch;
use super::{Operation, Primary};
use crate::{Context, Replica, Role};

impl Primary {
    /// Whether `command` is about to be told that it was not done.
    pub(super) fn is_settling(&self, command: CommandId) -> bool {
        let mut settling = self.settling.iter();
        settling.any(|(_, other, outcome)| *other == command && *outcome == OutcomeCode::Expired)
    }

    /// Whether `command` is about to be told that something else was there than it expected.
    pub(super) fn is_mismatched(&self, command: CommandId) -> bool {
        let mut settling = self.settling.iter();
        settling.any(|(_, other, outcome)| *other == command && *outcome != OutcomeCode::Expired)
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
        // It is told once, and that it was not done says all.
        primary
            .settling
            .retain(|(_, other, outcome)| *other != command || *outcome == OutcomeCode::Expired);
        if was_waiting {
            self.unblock(context);
        }
        self.finish_when_committed(context, command, OutcomeCode::Expired);
        self.maintain(context);
    }

    /// What `operation` expected is not there, in the newest version.
    pub(super) fn end_mismatched(
        &mut self,
        context: &mut dyn Context,
        operation: &Operation,
        mismatch: Mismatch,
    ) {
        let Role::Primary(primary) = &mut self.role else {
            return;
        };
        primary.admission.leave(operation);
        let Mismatch { position } = mismatch;
        let outcome = OutcomeCode::Miscompare { position };
        self.finish_when_committed(context, operation.terms.command, outcome);
    }

    /// Ends a command that has no number, and gets none, when everything is committed that is
    /// numbered now; with not primary if this replica may not be it any more.
    fn finish_when_committed(
        &mut self,
        context: &mut dyn Context,
        command: CommandId,
        outcome: OutcomeCode,
    ) {
        let Role::Primary(primary) = &mut self.role else {
            unreachable!("only a primary tells")
        };
        if !primary.may_read(context.now()) {
            context.finish(command, OutcomeCode::NotPrimary);
        } else if context.committed() == context.prepared().1 {
            context.finish(command, outcome);
        } else {
            let through = context.prepared().1;
            primary.settling.push_back((through, command, outcome));
        }
    }
}
