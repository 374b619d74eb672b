//! Text in the full feature phase (RFC 7143 6.4, 11.10, 11.11): SendTargets above all.
//!
//! Invariants:
//! - one exchange at a time; its text is bounded both ways: what comes in by the limits, what goes
//!   out by the directory.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use holdfast_scsi::Lun;
use holdfast_stdx::Bytes;

use crate::IscsiName;
use crate::negotiation::{Answer, Key, Pair, parse_text, put_pair};
use crate::pdu::{
    InitiatorTaskTag, RejectReason, Reply, TargetTransferTag, TextRequest, TextResponse,
};
use crate::target::connection::Wire;
use crate::target::login::put_answer;
use crate::target::nexus::Shared;
use crate::target::session::Session;
use crate::target::{TargetEntry, TargetOutput};

/// The longest piece of an answer in one PDU, whatever the initiator takes.
const PIECE_MAX: u32 = 64 << 10;

/// An exchange that goes on.
#[derive(Debug)]
pub(super) struct TextExchange {
    task_tag: InitiatorTaskTag,
    transfer_tag: TargetTransferTag,
    /// What the initiator has said so far.
    request: Vec<u8>,
    /// What is to be sent still.
    answer: Bytes,
}

impl TextExchange {
    pub(super) fn held_bytes(&self) -> usize {
        self.request.len() + self.answer.len()
    }
}

impl Session {
    pub(super) fn handle_text(
        &mut self,
        wire: &mut Wire,
        pdu: &TextRequest,
        text: &[u8],
        shared: &mut Shared,
        out: &mut TargetOutput,
    ) -> Option<RejectReason> {
        let mut exchange = match self.take_exchange(wire, pdu) {
            Ok(exchange) => exchange,
            Err(reason) => return Some(reason),
        };
        if exchange.request.len() + text.len() > shared.limits().text_bytes_max {
            return Some(RejectReason::LongOperation);
        }
        exchange.request.extend_from_slice(text);
        if pdu.more {
            // C and F at once contradict each other (RFC 7143 11.10.2).
            if pdu.is_final {
                return Some(RejectReason::ProtocolError);
            }
            self.send_text(wire, exchange, Bytes::new(), false, false, shared, out);
            return None;
        }
        if exchange.answer.is_empty() {
            let request = core::mem::take(&mut exchange.request);
            let Ok(pairs) = parse_text(&request) else {
                return Some(RejectReason::ProtocolError);
            };
            let mut answer = String::new();
            for pair in pairs {
                self.answer_text(pair, &mut answer, shared);
            }
            exchange.answer = Bytes::from(answer);
        } else if !text.is_empty() {
            // While an answer goes on, its initiator has only to ask for more.
            return Some(RejectReason::ProtocolError);
        }
        let limit = shared
            .load
            .piece_max(self.parameters.send_segment_max.min(PIECE_MAX))
            as usize;
        let length = limit.min(exchange.answer.len());
        let piece = exchange.answer.split_to(length);
        let more = !exchange.answer.is_empty();
        let is_final = !more && pdu.is_final;
        self.send_text(wire, exchange, piece, more, is_final, shared, out);
        None
    }

    /// The exchange that a request belongs to, or a new one.
    fn take_exchange(
        &mut self,
        wire: &mut Wire,
        pdu: &TextRequest,
    ) -> Result<TextExchange, RejectReason> {
        let before = self.text.take();
        if pdu.transfer_tag.is_reserved() {
            // A new one; what was under way is given up (RFC 7143 11.10.4).
            return Ok(TextExchange {
                task_tag: pdu.task_tag,
                transfer_tag: wire.next_transfer_tag(),
                request: Vec::new(),
                answer: Bytes::new(),
            });
        }
        before
            .filter(|it| it.task_tag == pdu.task_tag && it.transfer_tag == pdu.transfer_tag)
            .ok_or(RejectReason::InvalidField)
    }

    #[allow(clippy::too_many_arguments, reason = "they are the fields of one PDU")]
    fn send_text(
        &mut self,
        wire: &mut Wire,
        mut exchange: TextExchange,
        piece: Bytes,
        more: bool,
        is_final: bool,
        shared: &mut Shared,
        out: &mut TargetOutput,
    ) {
        let transfer_tag = if is_final {
            TargetTransferTag::RESERVED
        } else {
            wire.next_transfer_tag()
        };
        let reply = Reply::Text(TextResponse {
            is_final,
            more,
            lun: Lun::from_bytes([0; 8]),
            task_tag: exchange.task_tag,
            transfer_tag,
            sequence: self.sequence(wire, shared, true),
        });
        wire.send(&reply, [piece].into(), out);
        if !is_final {
            exchange.transfer_tag = transfer_tag;
            self.text = Some(exchange);
        }
    }

    fn answer_text(&mut self, pair: Pair<'_>, answer: &mut String, shared: &Shared) {
        match Key::from_name(pair.key) {
            None => put_pair(answer, pair.key, "NotUnderstood"),
            Some(Key::SendTargets) => self.send_targets(pair.value, answer, shared),
            // The one parameter that may change in the full feature phase (RFC 7143 13.12).
            Some(key @ Key::MaxRecvDataSegmentLength) => {
                let result = self.parameters.answer(
                    key,
                    pair.value,
                    &shared.preferences(self.allowance.is_wide),
                );
                put_answer(answer, pair.key, &result);
            }
            // Declarations (RFC 7143 13.7, 13.26).
            Some(Key::InitiatorAlias | Key::NodeArchitecture) => {}
            Some(_) => put_answer(answer, pair.key, &Answer::Reject),
        }
    }

    /// RFC 7143 appendix C.
    fn send_targets(&self, value: &str, answer: &mut String, shared: &Shared) {
        let own = self.identity.as_ref().map(|it| &it.nexus.target);
        let targets = &shared.directory.targets;
        match (value, own) {
            ("All", None) => {
                for (name, entry) in targets {
                    if entry.is_for(&self.initiator) {
                        put_target(answer, name, entry);
                    }
                }
            }
            // "All" must not be answered in a normal session, nothing but the session's own target
            // either; in a discovery session there is no own target.
            ("All", Some(_)) | ("", None) => {
                put_answer(answer, Key::SendTargets.name(), &Answer::Reject);
            }
            (text, own) => {
                let named = if text.is_empty() {
                    own.cloned()
                } else {
                    IscsiName::parse(text).ok()
                };
                let named = named.filter(|name| own.is_none_or(|own| own == name));
                let found = named.and_then(|name| targets.get_key_value(&name));
                if let Some((name, entry)) = found.filter(|it| it.1.is_for(&self.initiator)) {
                    put_target(answer, name, entry);
                }
            }
        }
    }
}

fn put_target(answer: &mut String, name: &IscsiName, entry: &TargetEntry) {
    put_pair(answer, Key::TargetName.name(), name.as_str());
    for portal in &entry.portals {
        let value = format!("{},{}", portal.address, portal.group.0);
        put_pair(answer, Key::TargetAddress.name(), &value);
    }
}
