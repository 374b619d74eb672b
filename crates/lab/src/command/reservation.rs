//! PERSISTENT RESERVE IN and OUT, as a host sends them (SPC-4 6.15, 6.16).

use holdfast_iscsi::Isid;
use holdfast_iscsi::initiator::CommandRequest;
use holdfast_scsi::Lun;

/// Bytes of a parameter list without TransportIDs.
const LIST_LENGTH: usize = 24;
/// APTPL and ALL_TG_PT in byte 20 of it.
const PERSISTS: u8 = 0x01;
const ALL_TARGET_PORTS: u8 = 0x04;
/// FORMAT CODE 01b and PROTOCOL IDENTIFIER 5h (SPC-4 7.6.4.6): an iSCSI initiator port.
const ISCSI_PORT: u8 = 0x45;
/// ADDITIONAL LENGTH of a TransportID is at least this.
const NAME_LENGTH_MIN: usize = 20;

/// What PERSISTENT RESERVE IN asks for: SERVICE ACTION (SPC-4 6.15.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ReserveIn {
    /// READ KEYS.
    ReadKeys = 0x00,
    /// READ RESERVATION.
    ReadReservation = 0x01,
    /// REPORT CAPABILITIES.
    ReportCapabilities = 0x02,
    /// READ FULL STATUS.
    ReadFullStatus = 0x03,
}

/// What PERSISTENT RESERVE OUT asks for: SERVICE ACTION (SPC-4 6.16.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ReserveOut {
    /// REGISTER.
    Register = 0x00,
    /// RESERVE.
    Reserve = 0x01,
    /// RELEASE.
    Release = 0x02,
    /// CLEAR.
    Clear = 0x03,
    /// PREEMPT.
    Preempt = 0x04,
    /// PREEMPT AND ABORT.
    PreemptAndAbort = 0x05,
    /// REGISTER AND IGNORE EXISTING KEY.
    RegisterAndIgnore = 0x06,
}

/// TYPE of a persistent reservation (SPC-4 6.15.3.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ReserveType {
    /// Write Exclusive.
    WriteExclusive = 0x1,
    /// Exclusive Access.
    ExclusiveAccess = 0x3,
    /// Write Exclusive - Registrants Only.
    WriteExclusiveRegistrants = 0x5,
    /// Exclusive Access - Registrants Only.
    ExclusiveAccessRegistrants = 0x6,
    /// Write Exclusive - All Registrants.
    WriteExclusiveAll = 0x7,
    /// Exclusive Access - All Registrants.
    ExclusiveAccessAll = 0x8,
}

/// The parameter list of PERSISTENT RESERVE OUT.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReserveParameters {
    /// RESERVATION KEY: the one that the nexus is registered with.
    pub key: u64,
    /// SERVICE ACTION RESERVATION KEY: the new one, or whose is preempted.
    pub action_key: u64,
    /// APTPL: what is registered outlives a loss of power.
    pub persists: bool,
    /// ALL_TG_PT: through every target port.
    pub all_target_ports: bool,
}

/// To which nexus REGISTER AND MOVE moves the reservation.
#[derive(Clone, Copy, Debug)]
pub struct RegisterAndMove<'a> {
    /// RESERVATION KEY of the holder.
    pub key: u64,
    /// SERVICE ACTION RESERVATION KEY: with which the other one is registered.
    pub action_key: u64,
    /// The other initiator.
    pub initiator: &'a str,
    /// Its port.
    pub isid: Isid,
    /// RELATIVE TARGET PORT IDENTIFIER of the target port.
    pub port: u16,
    /// UNREG: the sender's registration ends.
    pub unregisters: bool,
}

/// PERSISTENT RESERVE IN with room for `length` bytes.
#[must_use]
pub fn persistent_reserve_in(lun: Lun, action: ReserveIn, length: u16) -> CommandRequest {
    let [high, low] = length.to_be_bytes();
    let cdb = [0x5E, action as u8, 0, 0, 0, 0, 0, high, low, 0];
    CommandRequest::new(lun, &cdb).reading(u32::from(length))
}

/// PERSISTENT RESERVE OUT. The type means something to RESERVE, RELEASE and PREEMPT.
#[must_use]
pub fn persistent_reserve_out(
    lun: Lun,
    action: ReserveOut,
    kind: ReserveType,
    parameters: ReserveParameters,
) -> CommandRequest {
    let kind = match action {
        ReserveOut::Register | ReserveOut::RegisterAndIgnore | ReserveOut::Clear => 0,
        _ => kind as u8,
    };
    let mut list = vec![0; LIST_LENGTH];
    list[..8].copy_from_slice(&parameters.key.to_be_bytes());
    list[8..16].copy_from_slice(&parameters.action_key.to_be_bytes());
    let flag = |is_set: bool, bit: u8| if is_set { bit } else { 0 };
    list[20] =
        flag(parameters.persists, PERSISTS) | flag(parameters.all_target_ports, ALL_TARGET_PORTS);
    out(lun, action as u8, kind, list)
}

/// PERSISTENT RESERVE OUT with REGISTER AND MOVE (SPC-4 6.16.4).
#[must_use]
pub fn register_and_move(lun: Lun, to: &RegisterAndMove<'_>) -> CommandRequest {
    const REGISTER_AND_MOVE: u8 = 0x07;
    const UNREGISTERS: u8 = 0x02;
    let name = transport_id(to.initiator, to.isid);
    let mut list = Vec::with_capacity(LIST_LENGTH + name.len());
    list.extend(to.key.to_be_bytes());
    list.extend(to.action_key.to_be_bytes());
    list.extend([0, if to.unregisters { UNREGISTERS } else { 0 }]);
    list.extend(to.port.to_be_bytes());
    list.extend((name.len() as u32).to_be_bytes());
    list.extend(name);
    out(lun, REGISTER_AND_MOVE, 0, list)
}

fn out(lun: Lun, action: u8, kind: u8, list: Vec<u8>) -> CommandRequest {
    let length = u32::try_from(list.len()).expect("a list is short");
    let mut cdb = [0; 10];
    cdb[..3].copy_from_slice(&[0x5F, action, kind]);
    cdb[5..9].copy_from_slice(&length.to_be_bytes());
    CommandRequest::new(lun, &cdb).writing(vec![list.into()])
}

/// The name of an initiator port (SPC-4 7.6.4.6).
fn transport_id(initiator: &str, isid: Isid) -> Vec<u8> {
    let mut name = format!("{initiator},i,0x").into_bytes();
    for byte in isid.0 {
        name.extend(format!("{byte:02x}").into_bytes());
    }
    // It ends with a zero byte, and is padded with more to whole words.
    let length = (name.len() + 1).next_multiple_of(4).max(NAME_LENGTH_MIN);
    name.resize(length, 0);
    let additional = u16::try_from(length).expect("an iSCSI name has at most 223 bytes");
    let mut id = vec![ISCSI_PORT, 0];
    id.extend(additional.to_be_bytes());
    id.extend(name);
    id
}

#[cfg(test)]
mod tests {
    use holdfast_scsi::cdb::{Cdb, Command};
    use holdfast_scsi::reservation::{InAction, OutAction};
    use holdfast_scsi::{BlockLength, Geometry};

    use super::*;

    fn parsed(request: &CommandRequest) -> Command {
        let geometry = Geometry::new(1 << 40, BlockLength::Emulated512);
        Cdb::parse(&request.cdb, geometry).command().unwrap()
    }

    #[test]
    fn the_target_understands_what_was_meant() {
        let lun = Lun::from_number(0);
        let actions = [
            (ReserveIn::ReadKeys, InAction::ReadKeys),
            (ReserveIn::ReadReservation, InAction::ReadReservation),
            (ReserveIn::ReportCapabilities, InAction::ReportCapabilities),
            (ReserveIn::ReadFullStatus, InAction::ReadFullStatus),
        ];
        for (sent, understood) in actions {
            let expected = Command::PersistentReserveIn {
                action: understood,
                allocation_length: 512,
            };
            assert_eq!(parsed(&persistent_reserve_in(lun, sent, 512)), expected);
        }
        let parameters = ReserveParameters {
            key: 1,
            action_key: 2,
            persists: true,
            all_target_ports: true,
        };
        let kind = ReserveType::WriteExclusiveRegistrants;
        for action in [
            ReserveOut::Register,
            ReserveOut::Reserve,
            ReserveOut::Release,
            ReserveOut::Clear,
            ReserveOut::Preempt,
            ReserveOut::PreemptAndAbort,
            ReserveOut::RegisterAndIgnore,
        ] {
            let request = persistent_reserve_out(lun, action, kind, parameters);
            let Command::PersistentReserveOut {
                action: understood,
                parameter_list_length,
            } = parsed(&request)
            else {
                panic!("it is about reservations");
            };
            assert_eq!(understood.code(), action as u8);
            assert_eq!(parameter_list_length, 24);
            let list = &request.data_out[0];
            assert_eq!((list[7], list[15], list[20]), (1, 2, 0x05));
        }
        let request = register_and_move(
            lun,
            &RegisterAndMove {
                key: 1,
                action_key: 2,
                initiator: "iqn.2026-11.example:b",
                isid: Isid([0x80, 1, 2, 3, 4, 0xAB]),
                port: 7,
                unregisters: true,
            },
        );
        let Command::PersistentReserveOut { action, .. } = parsed(&request) else {
            panic!("it is about reservations");
        };
        assert_eq!(action, OutAction::RegisterAndMove);
        let list = &request.data_out[0];
        assert_eq!(list[16..20], [0, 2, 0, 7]);
        let name = b"iqn.2026-11.example:b,i,0x8001020304ab\0";
        assert_eq!(&list[28..28 + name.len()], name);
        assert!(list.len().is_multiple_of(4));
    }
}
