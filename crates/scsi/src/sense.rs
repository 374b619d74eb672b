//! Sense data: what went wrong, where, in the two formats that SPC-4 4.5 (Sense data) knows.
//!
//! Invariants:
//! - the codes are those that the standard gives to the condition; none is our own;
//! - what the fixed format cannot hold (an address of more than 32 bits) is left out, not cut.

use alloc::vec::Vec;

/// The kind of a condition (SPC-4, Sense key descriptions).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum SenseKey {
    /// Nothing to tell.
    NoSense = 0x0,
    /// It worked after some effort.
    RecoveredError = 0x1,
    /// The unit cannot be accessed.
    NotReady = 0x2,
    /// The data is lost.
    MediumError = 0x3,
    /// The unit is broken.
    HardwareError = 0x4,
    /// The command is wrong.
    IllegalRequest = 0x5,
    /// Something happened that the initiator has to know first.
    UnitAttention = 0x6,
    /// Writing (or reading) is not permitted.
    DataProtect = 0x7,
    /// A copy between units ended before its end.
    CopyAborted = 0xA,
    /// The command was given up; it may be repeated.
    AbortedCommand = 0xB,
    /// Data and medium differ.
    Miscompare = 0xE,
}

/// Additional sense code (high byte) and qualifier (low byte), SPC-4, ASC and ASCQ assignments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdditionalSense(pub u16);

#[allow(missing_docs, reason = "the names are the standard's")]
impl AdditionalSense {
    pub const NONE: Self = Self(0x0000);
    pub const OPERATION_IN_PROGRESS: Self = Self(0x0016);
    pub const LOGICAL_UNIT_NOT_READY_BECOMING_READY: Self = Self(0x0401);
    pub const LOGICAL_UNIT_NOT_ACCESSIBLE_ASYMMETRIC_ACCESS_STATE_TRANSITION: Self = Self(0x040A);
    pub const LOGICAL_UNIT_NOT_ACCESSIBLE_TARGET_PORT_IN_STANDBY_STATE: Self = Self(0x040B);
    pub const LOGICAL_UNIT_NOT_ACCESSIBLE_TARGET_PORT_IN_UNAVAILABLE_STATE: Self = Self(0x040C);
    pub const LOGICAL_UNIT_NOT_READY_OFFLINE: Self = Self(0x0412);
    pub const WRITE_ERROR: Self = Self(0x0C00);
    pub const WRITE_ERROR_UNEXPECTED_UNSOLICITED_DATA: Self = Self(0x0C0C);
    pub const WRITE_ERROR_NOT_ENOUGH_UNSOLICITED_DATA: Self = Self(0x0C0D);
    pub const THIRD_PARTY_DEVICE_FAILURE: Self = Self(0x0D01);
    pub const COPY_TARGET_DEVICE_NOT_REACHABLE: Self = Self(0x0D02);
    pub const INCORRECT_COPY_TARGET_DEVICE_TYPE: Self = Self(0x0D03);
    pub const INVALID_FIELD_IN_COMMAND_INFORMATION_UNIT: Self = Self(0x0E03);
    pub const UNRECOVERED_READ_ERROR: Self = Self(0x1100);
    pub const PARAMETER_LIST_LENGTH_ERROR: Self = Self(0x1A00);
    pub const MISCOMPARE_DURING_VERIFY_OPERATION: Self = Self(0x1D00);
    pub const INVALID_COMMAND_OPERATION_CODE: Self = Self(0x2000);
    pub const LOGICAL_BLOCK_ADDRESS_OUT_OF_RANGE: Self = Self(0x2100);
    pub const INVALID_FIELD_IN_CDB: Self = Self(0x2400);
    pub const LOGICAL_UNIT_NOT_SUPPORTED: Self = Self(0x2500);
    pub const INVALID_FIELD_IN_PARAMETER_LIST: Self = Self(0x2600);
    pub const INVALID_RELEASE_OF_PERSISTENT_RESERVATION: Self = Self(0x2604);
    pub const TOO_MANY_TARGET_DESCRIPTORS: Self = Self(0x2606);
    pub const UNSUPPORTED_TARGET_DESCRIPTOR_TYPE_CODE: Self = Self(0x2607);
    pub const TOO_MANY_SEGMENT_DESCRIPTORS: Self = Self(0x2608);
    pub const UNSUPPORTED_SEGMENT_DESCRIPTOR_TYPE_CODE: Self = Self(0x2609);
    pub const UNEXPECTED_INEXACT_SEGMENT: Self = Self(0x260A);
    pub const INLINE_DATA_LENGTH_EXCEEDED: Self = Self(0x260B);
    pub const SPACE_ALLOCATION_FAILED_WRITE_PROTECT: Self = Self(0x2707);
    pub const POWER_ON_RESET_OR_BUS_DEVICE_RESET_OCCURRED: Self = Self(0x2900);
    pub const BUS_DEVICE_RESET_FUNCTION_OCCURRED: Self = Self(0x2903);
    pub const I_T_NEXUS_LOSS_OCCURRED: Self = Self(0x2907);
    pub const MODE_PARAMETERS_CHANGED: Self = Self(0x2A01);
    pub const RESERVATIONS_PREEMPTED: Self = Self(0x2A03);
    pub const RESERVATIONS_RELEASED: Self = Self(0x2A04);
    pub const REGISTRATIONS_PREEMPTED: Self = Self(0x2A05);
    pub const ASYMMETRIC_ACCESS_STATE_CHANGED: Self = Self(0x2A06);
    pub const CAPACITY_DATA_HAS_CHANGED: Self = Self(0x2A09);
    pub const COMMANDS_CLEARED_BY_ANOTHER_INITIATOR: Self = Self(0x2F00);
    pub const THIN_PROVISIONING_SOFT_THRESHOLD_REACHED: Self = Self(0x3807);
    pub const SAVING_PARAMETERS_NOT_SUPPORTED: Self = Self(0x3900);
    pub const INQUIRY_DATA_HAS_CHANGED: Self = Self(0x3F03);
    pub const REPORTED_LUNS_DATA_HAS_CHANGED: Self = Self(0x3F0E);
    pub const INTERNAL_TARGET_FAILURE: Self = Self(0x4400);
    pub const PROTOCOL_SERVICE_CRC_ERROR: Self = Self(0x4705);
    pub const INSUFFICIENT_REGISTRATION_RESOURCES: Self = Self(0x5504);
    pub const SET_TARGET_PORT_GROUPS_COMMAND_FAILED: Self = Self(0x670A);

    /// The code.
    #[must_use]
    pub const fn code(self) -> u8 {
        self.0.to_be_bytes()[0]
    }

    /// The qualifier.
    #[must_use]
    pub const fn qualifier(self) -> u8 {
        self.0.to_be_bytes()[1]
    }
}

/// Which field an ILLEGAL REQUEST, or a COPY ABORTED, is about (SPC-4, Field pointer and Segment pointer sense
/// key specific data: with SD zero, the latter is as the former for a parameter list).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldPointer {
    /// In the CDB; else in the parameter list.
    pub in_cdb: bool,
    /// The field's first byte.
    pub byte: u16,
    /// The field's highest bit, 0 to 7, if it does not begin with its byte.
    pub bit: Option<u8>,
}

/// Why a command ended with CHECK CONDITION.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sense {
    /// The kind of condition.
    pub key: SenseKey,
    /// The condition.
    pub additional: AdditionalSense,
    /// The INFORMATION field: for most, the logical block address concerned (SBC-3, Sense data).
    pub information: Option<u64>,
    /// Which segment of a copy was under way: of the COMMAND-SPECIFIC INFORMATION field the third and
    /// the fourth byte (SPC-4, EXTENDED COPY, Errors detected during processing of segment descriptors).
    pub segment: Option<u16>,
    /// The SENSE KEY SPECIFIC field.
    pub field: Option<FieldPointer>,
}

/// Bytes of fixed format sense data.
pub const FIXED_SENSE_LENGTH: usize = 18;

/// RESPONSE CODE of current information (SPC-4 4.5).
const FIXED_CURRENT: u8 = 0x70;
const DESCRIPTOR_CURRENT: u8 = 0x72;

impl Sense {
    /// A condition without further detail.
    #[must_use]
    pub const fn new(key: SenseKey, additional: AdditionalSense) -> Self {
        Self {
            key,
            additional,
            information: None,
            segment: None,
            field: None,
        }
    }

    /// An ILLEGAL REQUEST without further detail.
    #[must_use]
    pub const fn illegal_request(additional: AdditionalSense) -> Self {
        Self::new(SenseKey::IllegalRequest, additional)
    }

    /// INVALID FIELD IN CDB: the field that begins at `bit` of `byte`, or with the byte.
    #[must_use]
    pub const fn invalid_cdb_field(byte: u16, bit: Option<u8>) -> Self {
        Self::illegal_request(AdditionalSense::INVALID_FIELD_IN_CDB).at(true, byte, bit)
    }

    /// INVALID FIELD IN PARAMETER LIST: the field that begins at `bit` of `byte`, or with the byte.
    #[must_use]
    pub const fn invalid_parameter(byte: u16, bit: Option<u8>) -> Self {
        Self::illegal_request(AdditionalSense::INVALID_FIELD_IN_PARAMETER_LIST).at(false, byte, bit)
    }

    /// The same about the field of the parameter list that begins at `bit` of `byte`, or with the byte.
    #[must_use]
    pub(crate) const fn at_parameter(self, byte: u16, bit: Option<u8>) -> Self {
        self.at(false, byte, bit)
    }

    /// The same about a copy's segment of that number.
    #[must_use]
    pub(crate) const fn of_segment(mut self, segment: u16) -> Self {
        self.segment = Some(segment);
        self
    }

    const fn at(mut self, in_cdb: bool, byte: u16, bit: Option<u8>) -> Self {
        self.field = Some(FieldPointer { in_cdb, byte, bit });
        self
    }

    /// The same with the INFORMATION field set.
    #[must_use]
    pub const fn with_information(mut self, information: u64) -> Self {
        self.information = Some(information);
        self
    }

    /// The fixed format (SPC-4 4.5).
    #[must_use]
    pub fn encode_fixed(&self) -> [u8; FIXED_SENSE_LENGTH] {
        let mut bytes = [0; FIXED_SENSE_LENGTH];
        bytes[0] = FIXED_CURRENT;
        bytes[2] = self.key as u8;
        // VALID is zero if the value needs more than the field's four bytes.
        if let Some(Ok(information)) = self.information.map(u32::try_from) {
            bytes[0] |= 0x80;
            bytes[3..7].copy_from_slice(&information.to_be_bytes());
        }
        bytes[7] = (FIXED_SENSE_LENGTH - 8) as u8;
        if let Some(segment) = self.segment {
            bytes[10..12].copy_from_slice(&segment.to_be_bytes());
        }
        bytes[12..14].copy_from_slice(&self.additional.0.to_be_bytes());
        if let Some(field) = self.field {
            bytes[15..18].copy_from_slice(&field.encode());
        }
        bytes
    }

    /// The descriptor format (SPC-4 4.5).
    #[must_use]
    pub fn encode_descriptor(&self) -> Vec<u8> {
        let [code, qualifier] = self.additional.0.to_be_bytes();
        let mut bytes = alloc::vec![
            DESCRIPTOR_CURRENT,
            self.key as u8,
            code,
            qualifier,
            0,
            0,
            0,
            0
        ];
        if let Some(information) = self.information {
            // Information sense data descriptor, with its VALID bit.
            bytes.extend([0x00, 0x0A, 0x80, 0x00]);
            bytes.extend(information.to_be_bytes());
        }
        if let Some(segment) = self.segment {
            // Command-specific information sense data descriptor.
            bytes.extend([0x01, 0x0A, 0x00, 0x00, 0x00, 0x00]);
            bytes.extend(segment.to_be_bytes());
            bytes.extend([0; 4]);
        }
        if let Some(field) = self.field {
            // Sense key specific sense data descriptor.
            let [first, second, third] = field.encode();
            bytes.extend([0x02, 0x06, 0x00, 0x00, first, second, third, 0x00]);
        }
        bytes[7] = (bytes.len() - 8) as u8;
        bytes
    }
}

impl FieldPointer {
    /// SKSV, C/D, BPV, BIT POINTER and FIELD POINTER (SPC-4 4.5).
    fn encode(self) -> [u8; 3] {
        let mut first = 0x80;
        if self.in_cdb {
            first |= 0x40;
        }
        if let Some(bit) = self.bit {
            assert!(bit < 8, "a byte has eight bits");
            first |= 0x08 | bit;
        }
        let [high, low] = self.byte.to_be_bytes();
        [first, high, low]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUT_OF_RANGE: Sense =
        Sense::illegal_request(AdditionalSense::LOGICAL_BLOCK_ADDRESS_OUT_OF_RANGE);

    #[test]
    fn fixed_format() {
        let bytes = OUT_OF_RANGE.with_information(0x0102_0304).encode_fixed();
        assert_eq!(
            bytes,
            [0xF0, 0, 5, 1, 2, 3, 4, 10, 0, 0, 0, 0, 0x21, 0, 0, 0, 0, 0]
        );
    }

    #[test]
    fn fixed_format_leaves_out_what_it_cannot_hold() {
        let bytes = OUT_OF_RANGE.with_information(1 << 32).encode_fixed();
        assert_eq!(bytes[..8], [0x70, 0, 5, 0, 0, 0, 0, 10]);
    }

    #[test]
    fn field_pointers() {
        let bytes = Sense::invalid_cdb_field(1, Some(7)).encode_fixed();
        assert_eq!(bytes[12..], [0x24, 0, 0, 0xCF, 0, 1]);
        let bytes = Sense::invalid_parameter(0x0102, None).encode_fixed();
        assert_eq!(bytes[12..], [0x26, 0, 0, 0x80, 1, 2]);
    }

    #[test]
    fn a_segment_of_a_copy() {
        let sense = Sense::new(
            SenseKey::CopyAborted,
            AdditionalSense::THIRD_PARTY_DEVICE_FAILURE,
        );
        let sense = sense.with_information(9).of_segment(0x0102);
        assert_eq!(
            sense.encode_fixed(),
            [
                0xF0, 0, 0x0A, 0, 0, 0, 9, 10, 0, 0, 1, 2, 0x0D, 0x01, 0, 0, 0, 0
            ]
        );
        assert_eq!(
            sense.encode_descriptor()[20..],
            [0x01, 0x0A, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0]
        );
    }

    #[test]
    fn descriptor_format() {
        assert_eq!(
            OUT_OF_RANGE.with_information(1 << 32).encode_descriptor(),
            [
                0x72, 5, 0x21, 0, 0, 0, 0, 12, 0, 10, 0x80, 0, 0, 0, 0, 1, 0, 0, 0, 0
            ]
        );
        assert_eq!(
            Sense::invalid_cdb_field(2, None).encode_descriptor(),
            [0x72, 5, 0x24, 0, 0, 0, 0, 8, 2, 6, 0, 0, 0xC0, 0, 2, 0]
        );
    }
}
