//! The parameter list of PERSISTENT RESERVE OUT (SPC-4 6.16.3 and 6.16.4).
//!
//! Invariants:
//! - all of the list is checked before any of it is done, as far as that is possible without the
//!   record.

use alloc::vec::Vec;

use holdfast_model::NodeId;

use super::request::{LENGTH_ERROR, Others, Out, OutAction};
use super::transport_id::{self, TransportId};
use crate::Sense;

/// Bytes of the list without TransportIDs.
pub(crate) const BASIC_LENGTH: usize = 24;

/// In byte 20, or 17 of REGISTER AND MOVE.
const APTPL: u8 = 0x01;
const UNREG: u8 = 0x02;
const ALL_TG_PT: u8 = 0x04;
const SPEC_I_PT: u8 = 0x08;

/// Reads the list of a command of `action`. Fields that mean nothing with it are not looked at,
/// nor are reserved and obsolete ones.
pub(super) fn parse(action: OutAction, list: &[u8]) -> Result<Out, Sense> {
    let (head, rest) = list
        .split_first_chunk::<BASIC_LENGTH>()
        .ok_or(LENGTH_ERROR)?;
    let mut out = Out {
        action,
        key: number(&head[..8]),
        action_key: number(&head[8..16]),
        persists: false,
        all_target_ports: false,
        others: Others::Nobody,
    };
    if action == OutAction::RegisterAndMove {
        return parse_move(out, head, rest);
    }
    let flags = head[20];
    if matches!(action, OutAction::Register | OutAction::RegisterAndIgnore) {
        out.persists = flags & APTPL != 0;
        out.all_target_ports = flags & ALL_TG_PT != 0;
    }
    match (flags & SPEC_I_PT != 0, action) {
        (true, OutAction::Register) => out.others = Others::Register(transport_ids(rest)?),
        // SPC-4 6.16.3: for REGISTER alone.
        (true, _) => return Err(Sense::invalid_parameter(20, Some(3))),
        (false, _) if !rest.is_empty() => return Err(LENGTH_ERROR),
        (false, _) => {}
    }
    Ok(out)
}

/// The list of REGISTER AND MOVE (SPC-4 6.16.4).
fn parse_move(mut out: Out, head: &[u8; BASIC_LENGTH], rest: &[u8]) -> Result<Out, Sense> {
    let flags = head[17];
    out.persists = flags & APTPL != 0;
    // SPC-4 5.12.8: nobody is registered with the key zero.
    if out.action_key == 0 {
        return Err(Sense::invalid_parameter(8, None));
    }
    if number(&head[20..24]) != rest.len() as u64 {
        return Err(LENGTH_ERROR);
    }
    let (id, beyond) = transport_id::parse(rest, BASIC_LENGTH as u16)?;
    if !beyond.is_empty() {
        return Err(Sense::invalid_parameter(20, None));
    }
    // The reservation moves to one nexus, not to all of an initiator's.
    let TransportId::Port { initiator, isid } = id else {
        return Err(Sense::invalid_parameter(BASIC_LENGTH as u16, Some(7)));
    };
    out.others = Others::Move {
        initiator,
        isid,
        port: NodeId(u16::from_be_bytes([head[18], head[19]])),
        unregisters: flags & UNREG != 0,
    };
    Ok(out)
}

/// TRANSPORTID PARAMETER DATA LENGTH and what it counts.
fn transport_ids(bytes: &[u8]) -> Result<Vec<TransportId>, Sense> {
    let (length, mut rest) = bytes.split_first_chunk::<4>().ok_or(LENGTH_ERROR)?;
    if u32::from_be_bytes(*length) as usize != rest.len() {
        return Err(LENGTH_ERROR);
    }
    let end = BASIC_LENGTH + bytes.len();
    let mut ids = Vec::new();
    while !rest.is_empty() {
        let at = (end - rest.len()) as u16;
        let (id, beyond) = transport_id::parse(rest, at)?;
        ids.push(id);
        rest = beyond;
    }
    Ok(ids)
}

fn number(bytes: &[u8]) -> u64 {
    assert!(bytes.len() <= 8, "a field has 64 bits at most");
    bytes
        .iter()
        .fold(0, |value, byte| value << 8 | u64::from(*byte))
}
