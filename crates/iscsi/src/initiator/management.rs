//! Task management, on the initiator's side (RFC 7143 11.5, 11.6).
//!
//! Invariants:
//! - a command that the target says it has ended is not waited for any more.

use alloc::vec::Vec;

use holdfast_scsi::Lun;

use super::transfer::Pending;
use super::{CommandTag, Initiator, InitiatorEvent, InitiatorOutput, SubmitError};
use crate::pdu::{
    InitiatorTaskTag, Request, TaskManagementCode, TaskManagementRequest,
    TaskManagementResponseCode,
};
use crate::serial::SerialNumber;

impl Initiator {
    /// Asks the target to abort the command `tag`; answered by
    /// [`InitiatorEvent::TaskManagementDone`] with the same tag. A command that was not sent yet is
    /// forgotten at once.
    ///
    /// # Errors
    /// [`SubmitError::NoSuchCommand`] if it is not under way.
    pub fn abort(&mut self, tag: CommandTag, out: &mut InitiatorOutput) -> Result<(), SubmitError> {
        if let Some(place) = self.waiting.iter().position(|(other, _)| *other == tag) {
            self.waiting.remove(place);
            out.events
                .push_back(InitiatorEvent::TaskManagementDone { tag, response: 0 });
            return Ok(());
        }
        let Some((task_tag, command)) = self.find(tag) else {
            return Err(SubmitError::NoSuchCommand);
        };
        let (lun, number) = (command.lun(), command.number());
        let code = TaskManagementCode::AbortTask;
        self.send_management(tag, code, lun, Some((task_tag, number)), out);
        Ok(())
    }

    /// Asks for another task management function on `lun`; answered by
    /// [`InitiatorEvent::TaskManagementDone`] with `tag`.
    ///
    /// # Errors
    /// [`SubmitError::NotLoggedIn`].
    pub fn manage(
        &mut self,
        tag: CommandTag,
        function: TaskManagementCode,
        lun: Lun,
        out: &mut InitiatorOutput,
    ) -> Result<(), SubmitError> {
        if !self.is_logged_in() {
            return Err(SubmitError::NotLoggedIn);
        }
        self.send_management(tag, function, lun, None, out);
        Ok(())
    }

    fn send_management(
        &mut self,
        tag: CommandTag,
        code: TaskManagementCode,
        lun: Lun,
        referenced: Option<(InitiatorTaskTag, SerialNumber)>,
        out: &mut InitiatorOutput,
    ) {
        let task_tag = self.take_tag();
        let (referenced_tag, referenced_number) =
            referenced.unwrap_or((InitiatorTaskTag::RESERVED, SerialNumber::ZERO));
        let aborts = referenced.map(|(tag, _)| tag);
        self.pending.insert(
            task_tag,
            Pending::Management {
                tag,
                code,
                lun,
                number: self.next_command,
                aborts,
            },
        );
        let request = Request::TaskManagement(TaskManagementRequest {
            immediate: true,
            function: code.code(),
            lun,
            task_tag,
            referenced_tag,
            command_number: self.next_command,
            expected_status: self.expected_status(),
            referenced_number,
        });
        self.send(&request, Vec::new(), out);
    }

    pub(super) fn handle_management(
        &mut self,
        task_tag: InitiatorTaskTag,
        response: u8,
        out: &mut InitiatorOutput,
    ) {
        let Some(Pending::Management {
            tag,
            code,
            lun,
            number,
            aborts,
        }) = self.pending.remove(&task_tag)
        else {
            return;
        };
        // What was ended is not answered any more; what was sent after the request is. Of a command
        // that the target does not know (RFC 7143 11.6.1), the answer came before, or it was ended
        // for somebody else.
        let is_abort = code == TaskManagementCode::AbortTask;
        if response == 0
            || is_abort && response == TaskManagementResponseCode::TaskDoesNotExist.code()
        {
            self.pending.retain(|other, pending| match pending {
                Pending::Command(command) => !match code {
                    TaskManagementCode::AbortTask => aborts == Some(*other),
                    TaskManagementCode::TargetWarmReset | TaskManagementCode::TargetColdReset => {
                        command.number().precedes(number)
                    }
                    _ => command.lun() == lun && command.number().precedes(number),
                },
                _ => true,
            });
        }
        out.events
            .push_back(InitiatorEvent::TaskManagementDone { tag, response });
    }
}
