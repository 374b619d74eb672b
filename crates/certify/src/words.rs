//! What numbers in answers mean, in the standards' words; and what a target says, made fit to print.

use holdfast_lab::sense::SenseData;

/// The command that a CDB is.
pub(crate) fn command(cdb: &[u8; 16]) -> &'static str {
    let action = cdb[1] & 0x1F;
    match (cdb[0], action) {
        (0x00, _) => "TEST UNIT READY",
        (0x12, _) => "INQUIRY",
        (0x25, _) => "READ CAPACITY (10)",
        (0x28, _) => "READ (10)",
        (0x2A, _) => "WRITE (10)",
        (0x35, _) => "SYNCHRONIZE CACHE (10)",
        (0x42, _) => "UNMAP",
        (0x4D, _) => "LOG SENSE",
        (0x5A, _) => "MODE SENSE (10)",
        (0x5E, 0x00) => "PERSISTENT RESERVE IN, READ KEYS",
        (0x5E, 0x01) => "PERSISTENT RESERVE IN, READ RESERVATION",
        (0x5E, 0x02) => "PERSISTENT RESERVE IN, REPORT CAPABILITIES",
        (0x5E, _) => "PERSISTENT RESERVE IN, READ FULL STATUS",
        (0x5F, 0x00) => "PERSISTENT RESERVE OUT, REGISTER",
        (0x5F, 0x01) => "PERSISTENT RESERVE OUT, RESERVE",
        (0x5F, 0x02) => "PERSISTENT RESERVE OUT, RELEASE",
        (0x5F, 0x03) => "PERSISTENT RESERVE OUT, CLEAR",
        (0x5F, 0x04) => "PERSISTENT RESERVE OUT, PREEMPT",
        (0x5F, 0x05) => "PERSISTENT RESERVE OUT, PREEMPT AND ABORT",
        (0x5F, 0x06) => "PERSISTENT RESERVE OUT, REGISTER AND IGNORE EXISTING KEY",
        (0x5F, _) => "PERSISTENT RESERVE OUT, REGISTER AND MOVE",
        (0x88, _) => "READ (16)",
        (0x89, _) => "COMPARE AND WRITE",
        (0x8A, _) => "WRITE (16)",
        (0x91, _) => "SYNCHRONIZE CACHE (16)",
        (0x93, _) => "WRITE SAME (16)",
        (0x9E, 0x12) => "GET LBA STATUS",
        (0x9E, _) => "READ CAPACITY (16)",
        (0xA0, _) => "REPORT LUNS",
        (0xA3, 0x0A) => "REPORT TARGET PORT GROUPS",
        (0xA3, _) => "REPORT SUPPORTED OPERATION CODES",
        _ => "a command",
    }
}

/// A status (SAM-5 5.3.1).
pub(crate) fn status(code: u8) -> String {
    let name = match code {
        0x00 => "GOOD",
        0x02 => "CHECK CONDITION",
        0x04 => "CONDITION MET",
        0x08 => "BUSY",
        0x18 => "RESERVATION CONFLICT",
        0x28 => "TASK SET FULL",
        0x30 => "ACA ACTIVE",
        0x40 => "TASK ABORTED",
        _ => return format!("status {code:02X}h"),
    };
    name.to_owned()
}

/// Sense data: key, condition, and both as numbers.
pub(crate) fn sense(sense: SenseData) -> String {
    let SenseData {
        key,
        code,
        qualifier,
        information,
    } = sense;
    let mut text = sense_key(key).to_owned();
    if let Some(name) = additional(sense.additional()) {
        text.push_str(", ");
        text.push_str(name);
    }
    text.push_str(&format!(" ({key:X}h/{code:02X}h/{qualifier:02X}h)"));
    if let Some(information) = information {
        text.push_str(&format!(", INFORMATION {information}"));
    }
    text
}

fn sense_key(key: u8) -> &'static str {
    const KEYS: [&str; 16] = [
        "NO SENSE",
        "RECOVERED ERROR",
        "NOT READY",
        "MEDIUM ERROR",
        "HARDWARE ERROR",
        "ILLEGAL REQUEST",
        "UNIT ATTENTION",
        "DATA PROTECT",
        "BLANK CHECK",
        "VENDOR SPECIFIC",
        "COPY ABORTED",
        "ABORTED COMMAND",
        "reserved sense key",
        "VOLUME OVERFLOW",
        "MISCOMPARE",
        "COMPLETED",
    ];
    KEYS[usize::from(key & 0x0F)]
}

/// An additional sense code with its qualifier (SPC-4, ASC and ASCQ assignments), if it is one that targets of
/// disks give.
pub(crate) const fn additional(code: u16) -> Option<&'static str> {
    Some(match code {
        0x0000 => "NO ADDITIONAL SENSE INFORMATION",
        0x0401 => "LOGICAL UNIT IS IN PROCESS OF BECOMING READY",
        0x040A => "ASYMMETRIC ACCESS STATE TRANSITION",
        0x040B => "TARGET PORT IN STANDBY STATE",
        0x040C => "TARGET PORT IN UNAVAILABLE STATE",
        0x0412 => "LOGICAL UNIT NOT READY, OFFLINE",
        0x0C00 => "WRITE ERROR",
        0x1100 => "UNRECOVERED READ ERROR",
        0x1A00 => "PARAMETER LIST LENGTH ERROR",
        0x1D00 => "MISCOMPARE DURING VERIFY OPERATION",
        0x2000 => "INVALID COMMAND OPERATION CODE",
        0x2100 => "LOGICAL BLOCK ADDRESS OUT OF RANGE",
        0x2400 => "INVALID FIELD IN CDB",
        0x2500 => "LOGICAL UNIT NOT SUPPORTED",
        0x2600 => "INVALID FIELD IN PARAMETER LIST",
        0x2604 => "INVALID RELEASE OF PERSISTENT RESERVATION",
        0x2700 => "WRITE PROTECTED",
        0x2707 => "SPACE ALLOCATION FAILED WRITE PROTECT",
        0x2900 => "POWER ON, RESET, OR BUS DEVICE RESET OCCURRED",
        0x2901 => "POWER ON OCCURRED",
        0x2902 => "SCSI BUS RESET OCCURRED",
        0x2903 => "BUS DEVICE RESET FUNCTION OCCURRED",
        0x2904 => "DEVICE INTERNAL RESET",
        0x2907 => "I_T NEXUS LOSS OCCURRED",
        0x2A01 => "MODE PARAMETERS CHANGED",
        0x2A03 => "RESERVATIONS PREEMPTED",
        0x2A04 => "RESERVATIONS RELEASED",
        0x2A05 => "REGISTRATIONS PREEMPTED",
        0x2A06 => "ASYMMETRIC ACCESS STATE CHANGED",
        0x2A09 => "CAPACITY DATA HAS CHANGED",
        0x2F00 => "COMMANDS CLEARED BY ANOTHER INITIATOR",
        0x3807 => "THIN PROVISIONING SOFT THRESHOLD REACHED",
        0x3900 => "SAVING PARAMETERS NOT SUPPORTED",
        0x3F03 => "INQUIRY DATA HAS CHANGED",
        0x3F0E => "REPORTED LUNS DATA HAS CHANGED",
        0x4400 => "INTERNAL TARGET FAILURE",
        0x4700 => "SCSI PARITY ERROR",
        0x5504 => "INSUFFICIENT REGISTRATION RESOURCES",
        0x5505 => "INSUFFICIENT ACCESS CONTROL RESOURCES",
        _ => return None,
    })
}

/// The conditions of some unit attentions.
pub(crate) fn attentions(codes: &[u16]) -> String {
    if codes.is_empty() {
        return "no unit attention".to_owned();
    }
    let names = codes.iter().map(|code| {
        let [high, low] = code.to_be_bytes();
        match additional(*code) {
            Some(name) => format!("{name} ({high:02X}h/{low:02X}h)"),
            None => format!("{high:02X}h/{low:02X}h"),
        }
    });
    names.collect::<Vec<_>>().join(", ")
}

/// What a target says, as text: whatever is no printing ASCII character is shown by its number, so that nothing that
/// a target sends moves a terminal's cursor.
pub(crate) fn printable(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for byte in bytes {
        match byte {
            b' '..=b'~' => text.push(char::from(*byte)),
            _ => text.push_str(&format!("\\x{byte:02x}")),
        }
    }
    text
}

/// Bytes as hexadecimal digits.
pub(crate) fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_spelled_out() {
        let bytes = [0x72, 0x05, 0x24, 0x00, 0, 0, 0, 0];
        let parsed = SenseData::parse(&bytes).unwrap();
        let expected = "ILLEGAL REQUEST, INVALID FIELD IN CDB (5h/24h/00h)";
        assert_eq!(sense(parsed), expected);
        assert_eq!(status(0x18), "RESERVATION CONFLICT");
        assert_eq!(status(0x77), "status 77h");
        assert_eq!(
            attentions(&[0x2A05, 0x7777]),
            "REGISTRATIONS PREEMPTED (2Ah/05h), 77h/77h"
        );
        assert_eq!(attentions(&[]), "no unit attention");
    }

    #[test]
    fn a_target_moves_no_cursor() {
        assert_eq!(printable(b"DISK\x1b[2J\xff"), "DISK\\x1b[2J\\xff");
        assert_eq!(hexadecimal(&[0x60, 0x0A]), "600a");
    }
}
