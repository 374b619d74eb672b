//! The bits of a CDB.
//!
//! Invariants:
//! - whoever holds [`Fields`] knows that all bits which mean nothing here are zero.

use super::CDB_LENGTH_MAX;
use crate::operation_codes::{OperationCode, SERVICE_ACTION_MASK};
use crate::{AdditionalSense, Sense};

/// The fields of a CDB of known length.
pub(super) struct Fields {
    bytes: [u8; CDB_LENGTH_MAX],
    length: usize,
}

impl Fields {
    /// Reads the CDB of a known command, and checks the bits that mean nothing here.
    ///
    /// SPC-4 leaves it open whether reserved bits are checked; a bit that asks for something
    /// (protection information, a command group) has to be refused if that is not to be had.
    ///
    /// # Errors
    /// INVALID FIELD IN CDB, pointing at the first of them.
    pub(super) fn read(row: &OperationCode, bytes: &[u8]) -> Result<Self, Sense> {
        let length = row.usage.len();
        let Some(bytes) = bytes.get(..length) else {
            return Err(Sense::illegal_request(
                AdditionalSense::INVALID_FIELD_IN_CDB,
            ));
        };
        for (index, (byte, usage)) in bytes.iter().zip(row.usage).enumerate().skip(1) {
            let mut known = *usage;
            if index == 1 {
                known |= row.tolerated_flags;
                if row.service_action.is_some() {
                    known |= SERVICE_ACTION_MASK;
                }
            }
            let unknown = !known;
            if byte & unknown != 0 {
                let bit = highest_bit_of_field(byte & unknown, unknown);
                return Err(Sense::invalid_cdb_field(index as u16, bit));
            }
        }
        let mut fields = Self {
            bytes: [0; CDB_LENGTH_MAX],
            length,
        };
        fields.bytes[..length].copy_from_slice(bytes);
        Ok(fields)
    }

    pub(super) const fn length(&self) -> usize {
        self.length
    }

    pub(super) fn byte(&self, index: usize) -> u8 {
        assert!(index < self.length, "the field lies in the CDB");
        self.bytes[index]
    }

    pub(super) fn bit(&self, index: usize, bit: u8) -> bool {
        self.byte(index) & (1 << bit) != 0
    }

    /// The number of `length` bytes, at most eight, at `index`.
    pub(super) fn number(&self, index: usize, length: usize) -> u64 {
        assert!(length <= 8, "a field has 64 bits at most");
        assert!(index + length <= self.length, "the field lies in the CDB");
        self.bytes[index..index + length]
            .iter()
            .fold(0, |value, byte| value << 8 | u64::from(*byte))
    }

    pub(super) fn u16(&self, index: usize) -> u16 {
        self.number(index, 2) as u16
    }

    pub(super) fn u32(&self, index: usize) -> u32 {
        self.number(index, 4) as u32
    }
}

/// The most significant bit of the field in which the highest bit of `set` lies, where `unknown`
/// has all bits of fields that are not known; `None` if that is a whole byte.
const fn highest_bit_of_field(set: u8, unknown: u8) -> Option<u8> {
    if unknown == 0xFF {
        return None;
    }
    let mut bit = 7 - set.leading_zeros() as u8;
    while bit < 7 && unknown & (1 << (bit + 1)) != 0 {
        bit += 1;
    }
    Some(bit)
}
