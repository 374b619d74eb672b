//! SendTargets, on the initiator's side (RFC 7143 appendix C).
//!
//! Invariants:
//! - an answer in pieces is gathered up to [`TEXT_BYTES_MAX`].

use alloc::string::String;
use alloc::vec::Vec;

use holdfast_scsi::Lun;
use holdfast_stdx::Bytes;

use super::transfer::Pending;
use super::{DiscoveredTarget, EndReason, Initiator, InitiatorEvent, InitiatorOutput, SubmitError};
use crate::PortalGroupTag;
use crate::negotiation::{Key, parse_text, put_pair};
use crate::pdu::{InitiatorTaskTag, Request, TargetTransferTag, TextRequest, TextResponse};

/// Text of one answer to SendTargets.
const TEXT_BYTES_MAX: usize = 4 << 20;

impl Initiator {
    /// Asks for targets: `All`, a target's name, or nothing for the session's own; answered by
    /// [`InitiatorEvent::Targets`].
    ///
    /// # Errors
    /// [`SubmitError::NotLoggedIn`].
    pub fn discover(&mut self, what: &str, out: &mut InitiatorOutput) -> Result<(), SubmitError> {
        if !self.is_logged_in() {
            return Err(SubmitError::NotLoggedIn);
        }
        let mut text = String::new();
        put_pair(&mut text, Key::SendTargets.name(), what);
        let task_tag = self.take_tag();
        self.pending.insert(task_tag, Pending::Text(Vec::new()));
        self.send_text(
            task_tag,
            TargetTransferTag::RESERVED,
            Bytes::from(text),
            out,
        );
        Ok(())
    }

    fn send_text(
        &mut self,
        task_tag: InitiatorTaskTag,
        transfer_tag: TargetTransferTag,
        text: Bytes,
        out: &mut InitiatorOutput,
    ) {
        let request = Request::Text(TextRequest {
            immediate: true,
            is_final: true,
            more: false,
            lun: Lun::from_number(0),
            task_tag,
            transfer_tag,
            command_number: self.next_command,
            expected_status: self.expected_status(),
        });
        self.send(&request, [text].into(), out);
    }

    pub(super) fn handle_text(
        &mut self,
        response: &TextResponse,
        text: &[u8],
        out: &mut InitiatorOutput,
    ) -> Result<(), EndReason> {
        let Some(Pending::Text(all)) = self.pending.get_mut(&response.task_tag) else {
            return Err(EndReason::ProtocolError(
                "an answer to a text that was not sent",
            ));
        };
        all.extend_from_slice(text);
        if all.len() > TEXT_BYTES_MAX {
            return Err(EndReason::ProtocolError("a text without end"));
        }
        if !response.is_final {
            self.send_text(response.task_tag, response.transfer_tag, Bytes::new(), out);
            return Ok(());
        }
        let Some(Pending::Text(all)) = self.pending.remove(&response.task_tag) else {
            unreachable!("it was there");
        };
        let targets = parse_targets(&all)?;
        out.events.push_back(InitiatorEvent::Targets(targets));
        Ok(())
    }
}

/// The answer to SendTargets (RFC 7143 appendix C). Unlike a login, it has as many keys as the
/// cluster has targets and portals.
fn parse_targets(text: &[u8]) -> Result<Vec<DiscoveredTarget>, EndReason> {
    let error = EndReason::ProtocolError("an answer to SendTargets that is none");
    let mut targets: Vec<DiscoveredTarget> = Vec::new();
    for piece in text.split_inclusive(|byte| *byte == 0) {
        for pair in parse_text(piece).map_err(|_| error)? {
            match Key::from_name(pair.key) {
                Some(Key::TargetName) => targets.push(DiscoveredTarget {
                    name: pair.value.into(),
                    addresses: Vec::new(),
                }),
                Some(Key::TargetAddress) => {
                    let target = targets.last_mut().ok_or(error)?;
                    let (address, group) = pair.value.rsplit_once(',').ok_or(error)?;
                    let group = group.parse().map_err(|_| error)?;
                    target
                        .addresses
                        .push((address.into(), PortalGroupTag(group)));
                }
                _ => {}
            }
        }
    }
    Ok(targets)
}
