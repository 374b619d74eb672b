//! Parameter lists of PERSISTENT RESERVE OUT, put together field by field and then spoiled; and the
//! answer to READ FULL STATUS, taken apart.

use holdfast_model::NodeId;
use holdfast_model::record::{AccessNexus, Registration};

use super::{OUT, nexus, step};
use crate::Input;

const REGISTER: u8 = 0;
const REGISTER_AND_MOVE: u8 = 7;
const SPEC_I_PT: u8 = 0x08;
/// TransportIDs of one list.
const IDS_MAX: usize = 32;
/// Bytes of a list before its TransportIDs.
const BASIC_LENGTH: usize = 24;

/// A command with that service action, and its list.
pub(super) fn draw(action: u8, input: &mut Input<'_>) -> ([u8; 10], Vec<u8>) {
    let kind = input.u8();
    let (key, action_key) = (u64::from(input.u8()), u64::from(input.u8()));
    let flags = input.u8();
    let mut list = Vec::from(key.to_be_bytes());
    list.extend(action_key.to_be_bytes());
    list.resize(BASIC_LENGTH, 0);
    match action {
        REGISTER_AND_MOVE => {
            list[17] = flags;
            let destination = nexus(input.u8());
            let id = id(&destination, flags >> 4);
            list[18..20].copy_from_slice(&destination.port.0.to_be_bytes());
            list[20..24].copy_from_slice(&(id.len() as u32).to_be_bytes());
            list.extend(id);
        }
        _ => {
            list[20] = flags & 0x0F;
            if action == REGISTER && flags & SPEC_I_PT != 0 {
                let count = input.below(IDS_MAX);
                let ids = (0..count).flat_map(|_| id(&nexus(input.u8()), input.u8()));
                let ids: Vec<u8> = ids.collect();
                list.extend((ids.len() as u32).to_be_bytes());
                list.extend(ids);
            }
        }
    }
    // Spoiled: a byte is another one, and the list may end elsewhere.
    let place = usize::from(input.u8());
    if let Some(byte) = list.get_mut(place) {
        *byte ^= input.u8();
    }
    match input.u8() {
        0 => {}
        cut @ 1..128 => list.truncate(usize::from(cut)),
        more => list.resize(list.len() + usize::from(more - 127), 0),
    }
    let mut cdb = [OUT, action, kind, 0, 0, 0, 0, 0, 0, 0];
    cdb[5..9].copy_from_slice(&(list.len() as u32).to_be_bytes());
    (cdb, list)
}

/// The TransportID of a nexus's initiator port (SPC-4 7.6.4.6), or of all of its node.
fn id(nexus: &AccessNexus, how: u8) -> Vec<u8> {
    match how & 3 {
        1 => encoded(0x05, nexus.initiator.clone()),
        // Names are compared without case.
        2 => encoded(
            0x45,
            port_name(nexus)
                .to_ascii_uppercase()
                .replace(",I,0X", ",i,0x"),
        ),
        3 => encoded(0x45, nexus.initiator.clone()),
        _ => encoded(0x45, port_name(nexus)),
    }
}

fn port_name(nexus: &AccessNexus) -> String {
    let isid: String = nexus.isid.0.iter().map(|it| format!("{it:02x}")).collect();
    format!("{},i,0x{isid}", nexus.initiator)
}

fn encoded(kind: u8, name: String) -> Vec<u8> {
    let mut text = name.into_bytes();
    text.push(0);
    text.resize(text.len().next_multiple_of(4).max(20), 0);
    let mut bytes = vec![kind, 0];
    bytes.extend((text.len() as u16).to_be_bytes());
    bytes.extend(text);
    bytes
}

/// The descriptors of READ FULL STATUS (SPC-4 6.15.5) are those of the registrations.
pub(super) fn check_full_status(mut data: &[u8], registrations: &[Registration]) {
    for known in registrations {
        let (head, rest) = data.split_at(BASIC_LENGTH);
        assert_eq!(head[..8], known.key.to_be_bytes());
        assert_eq!(head[12] & 0x02 != 0, known.all_target_ports);
        let port = NodeId(u16::from_be_bytes([head[18], head[19]]));
        assert_eq!(port, known.nexus.port);
        let length = u32::from_be_bytes([head[20], head[21], head[22], head[23]]) as usize;
        let (id, beyond) = rest.split_at(length);
        assert_eq!(id, id_of(&known.nexus));
        data = beyond;
    }
    assert!(data.is_empty(), "and no others");
}

fn id_of(nexus: &AccessNexus) -> Vec<u8> {
    id(nexus, 0)
}

/// Nothing of the list is spoiled.
const SOUND: [u8; 3] = [255, 0, 0];

fn out(action: u8, who: u8, kind: u8, keys: (u8, u8), flags: u8) -> Vec<u8> {
    let mut step = vec![action, who, kind, keys.0, keys.1, flags];
    step.extend(SOUND);
    step
}

fn read(action: u8) -> [u8; 5] {
    [step::READ, 0, action, 0x40, 0]
}

/// What cluster managers do: register, reserve, be preempted, read who is there; and all the rest.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let mut seeds: Vec<Vec<u8>> = [1, 3, 5, 6, 7, 8].into_iter().map(fencing).collect();
    // SPEC_I_PT with three names, and REGISTER AND MOVE.
    let mut others = vec![0];
    others.extend([REGISTER, 0, 0, 0, 9, SPEC_I_PT | 4, 3, 2, 0, 4, 0, 0, 1]);
    others.extend(SOUND);
    others.extend(out(1, 0, 1, (9, 0), 0));
    others.extend([REGISTER_AND_MOVE, 0, 0, 9, 7, 2, 3]);
    others.extend(SOUND);
    others.extend(read(3));
    seeds.push(others);
    let mut old = vec![0];
    old.extend([step::RESERVE, 0, step::RESERVE, 2, step::RELEASE, 2]);
    old.extend([step::RESET, 0, step::RESERVE, 0, step::NEXUS_LOSS, 0]);
    old.extend([step::RESERVE, 2, step::RELEASE, 2]);
    seeds.push(old);
    let mut raw = vec![1, step::RAW, 0, 0, 0, 24];
    raw.extend([0; 15]);
    raw.push(3);
    raw.extend([0; 8]);
    seeds.push(raw);
    // On hundreds of ports at once, until there is no room.
    let mut many = vec![3];
    for who in [0, 2, 4, 6, 8] {
        many.extend(out(0, who, 0, (0, 1), 4));
    }
    many.extend(read(3));
    seeds.push(many);
    seeds
}

/// Two hosts, of which one takes over what the other one had reserved.
fn fencing(kind: u8) -> Vec<u8> {
    let mut seed = vec![0];
    seed.extend(out(0, 0, 0, (0, 4), 1));
    seed.extend(out(6, 2, 0, (0, 5), 4));
    seed.extend(out(1, 0, kind, (4, 0), 0));
    for action in 0..4 {
        seed.extend(read(action));
    }
    seed.extend(out(4, 2, kind, (5, 4), 0));
    seed.extend(out(5, 2, kind, (5, 0), 0));
    seed.extend(out(2, 2, kind, (5, 0), 0));
    seed.extend(out(3, 2, 0, (5, 0), 0));
    seed
}
